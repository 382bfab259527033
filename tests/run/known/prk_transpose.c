#include "tests/tools/oracle.h"

static double number(const void *context, const int64_t *index) {
    return (double)(*(const int64_t *)context * index[0] + index[1]);
}

static double zero(const void *context, const int64_t *index) {
    (void)context, (void)index;
    return 0;
}

/* B[j][i] = (order * i + j) * n + n * (n - 1) / 2 after n iterations. */
void oracle_run(Oracle *oracle) {
    int64_t order = oracle_dim(oracle, "ORDER"), shape[] = {order, order};
    double n = oracle_scalar(oracle, "iterations");
    double *a = oracle_update(oracle, "A", ELEMENT_F64, 2, shape, number, &order).value;
    double *b = oracle_update(oracle, "B", ELEMENT_F64, 2, shape, zero, NULL).value;
    for (int64_t j = 0; j < order; j++)
        for (int64_t i = 0; i < order; i++) {
            b[j * order + i] = (double)(order * i + j) * n + n * (n - 1) / 2;
            a[j * order + i] += n;
        }
}
