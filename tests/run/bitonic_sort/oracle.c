#include "tests/tools/oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PART = 1024 };

/* Many equal ones, both zeros, and infinities. */
static double coarse(const void *context, const int64_t *index) {
    (void)context;
    int64_t value = index[0] * 16807 % 2003;
    return value == 0 ? (double)-INFINITY : value == 1 ? (double)INFINITY : value == 2 ? -0.0 : (double)(value % 500) / 16 - 9;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y ? 1 : (signbit(y) != 0) - (signbit(x) != 0);
}

void oracle_run(Oracle *oracle) {
    int64_t n = oracle_dim(oracle, "N");
    const double *x = oracle_numbers(oracle, "x", ELEMENT_F32, 1, &n, coarse, NULL);
    double *y = oracle_result(oracle, "y", ELEMENT_F32, 1, &n).value;
    memcpy(y, x, sizeof *y * (size_t)n);
    for (int64_t start = 0; start < n; start += PART)
        qsort(y + start, (size_t)(n - start < PART ? n - start : PART), sizeof *y, compare);
}
