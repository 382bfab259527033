#include "tests/tools/oracle.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* Elements near 1 / N: the greatest eigenvalue is near 1, and far from the next, so that what one turn rounds the next one forgets. */
static double element(const void *context, const int64_t *index) {
    int64_t n = *(const int64_t *)context;
    return (1 + (double)((index[0] * 7919 + index[1] * 104729) % 97) / 97) / (double)n;
}

static double start(const void *context, const int64_t *index) {
    (void)context;
    return 1 + (double)(index[1] % 5);
}

void oracle_run(Oracle *oracle) {
    int64_t n = oracle_dim(oracle, "N"), square[] = {n, n}, row[] = {1, n}, one[] = {1, 1};
    const double *a = oracle_numbers(oracle, "A", ELEMENT_F32, 2, square, element, &n);
    OracleResult x = oracle_update(oracle, "x", ELEMENT_F32, 2, row, start, NULL), norm = oracle_result(oracle, "norm", ELEMENT_F32, 2, one);
    double *y = calloc((size_t)n, sizeof *y);
    for (int64_t turn = 0; turn < oracle_repeat(oracle); turn++) {
        double squares = 0;
        for (int64_t i = 0; i < n; i++) {
            y[i] = 0;
            for (int64_t j = 0; j < n; j++)
                y[i] += a[i * n + j] * x.value[j];
            squares += y[i] * y[i];
        }
        norm.value[0] = sqrt(squares);
        for (int64_t i = 0; i < n; i++)
            x.value[i] = y[i] / norm.value[0];
    }
    /* Sums of n positive terms, twice, and what the last turns still carry of earlier ones: all of it relative. */
    double relative = 6 * (double)n * FLT_EPSILON;
    norm.bound[0] = relative * norm.value[0];
    for (int64_t i = 0; i < n; i++)
        x.bound[i] = relative * x.value[i];
    free(y);
}
