#include "tests/tools/oracle.h"

#include <float.h>
#include <math.h>
#include <string.h>

static void reduce_rows(Oracle *oracle, const double *a, int64_t m, int64_t n) {
    int64_t shape[] = {m, 1};
    OracleResult total = oracle_result(oracle, "total", ELEMENT_F32, 2, shape);
    double *least = oracle_result(oracle, "least", ELEMENT_F32, 2, shape).value;
    double *greatest = oracle_result(oracle, "greatest", ELEMENT_F32, 2, shape).value;
    double *place = oracle_result(oracle, "place", ELEMENT_I32, 2, shape).value;
    for (int64_t row = 0; row < m; row++, a += n) {
        double terms = 0;
        least[row] = greatest[row] = a[0];
        for (int64_t i = 0; i < n; i++) {
            total.value[row] += a[i];
            terms += fabs(a[i]);
            least[row] = fmin(least[row], a[i]);
            if (a[i] > greatest[row]) {
                greatest[row] = a[i];
                place[row] = (double)i;
            }
        }
        total.bound[row] = (double)n * FLT_EPSILON * terms;
    }
}

static void reduce_columns(Oracle *oracle, const double *a, int64_t m, int64_t n) {
    OracleResult total = oracle_result(oracle, "total", ELEMENT_F64, 1, &n);
    for (int64_t column = 0; column < n; column++) {
        double terms = 0;
        for (int64_t i = 0; i < m; i++) {
            total.value[column] += a[i * n + column];
            terms += fabs(a[i * n + column]);
        }
        total.bound[column] = 2 * (double)m * DBL_EPSILON * terms;
    }
}

/* Few values, so that the greatest comes more than once. */
static double coarse(const void *context, const int64_t *index) {
    (void)context;
    return (double)((index[0] * 7919 + index[1] * 104729) % 97) / 32 - 1.5;
}

void oracle_run(Oracle *oracle) {
    int64_t shape[] = {oracle_dim(oracle, "M"), oracle_dim(oracle, "N")};
    const double *a = oracle_numbers(oracle, "a", ELEMENT_F32, 2, shape, coarse, NULL);
    if (strcmp(oracle_kernel(oracle), "reduce_columns") == 0)
        reduce_columns(oracle, a, shape[0], shape[1]);
    else
        reduce_rows(oracle, a, shape[0], shape[1]);
}
