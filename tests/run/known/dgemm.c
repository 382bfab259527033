#include "tests/tools/oracle.h"

static double column(const void *context, const int64_t *index) {
    (void)context;
    return (double)index[1];
}

static double zero(const void *context, const int64_t *index) {
    (void)context, (void)index;
    return 0;
}

/* A[i][j] = B[i][j] = j, so that C[i][j] is j times the sum of all columns' numbers, and the sum of C is 0.25 n^3 (n - 1)^2 an iteration. */
void oracle_run(Oracle *oracle) {
    int64_t order = oracle_dim(oracle, "ORDER"), shape[] = {order, order};
    double n = (double)order, iterations = oracle_scalar(oracle, "iterations"), sum = 0;
    oracle_numbers(oracle, "A", ELEMENT_F64, 2, shape, column, NULL);
    oracle_numbers(oracle, "B", ELEMENT_F64, 2, shape, column, NULL);
    double *c = oracle_update(oracle, "C", ELEMENT_F64, 2, shape, zero, NULL).value;
    for (int64_t i = 0; i < order * order; i++)
        sum += c[i] = (double)(i % order) * n * (n - 1) / 2 * iterations;
    oracle_expect(oracle, "the sum of C", 0.25 * n * n * n * (n - 1) * (n - 1) * iterations, sum, 0);
}
