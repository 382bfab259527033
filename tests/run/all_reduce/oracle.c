#include "tests/tools/oracle.h"

#include <float.h>
#include <math.h>

enum { PART = 2048 };

static double positive(const void *context, const int64_t *index) {
    (void)context;
    return 1 + (double)(index[0] * 48271 % 1009) / 1009;
}

void oracle_run(Oracle *oracle) {
    int64_t n = oracle_dim(oracle, "N");
    const double *x = oracle_numbers(oracle, "x", ELEMENT_F32, 1, &n, positive, NULL);
    OracleResult y = oracle_result(oracle, "y", ELEMENT_F32, 1, &n);
    for (int64_t start = 0; start < n; start += PART) {
        double sum = 0;
        for (int64_t i = start; i < start + PART; i++)
            sum += x[i];
        for (int64_t i = start; i < start + PART; i++) {
            y.value[i] = x[i] / sum;
            y.bound[i] = 64 * FLT_EPSILON * y.value[i];
        }
    }
}
