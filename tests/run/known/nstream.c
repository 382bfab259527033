#include "tests/tools/oracle.h"

static double zero(const void *context, const int64_t *index) {
    (void)context, (void)index;
    return 0;
}

static double two(const void *context, const int64_t *index) {
    (void)context, (void)index;
    return 2;
}

/* With scalar = 3, A is 8 after the first iteration, and 8 more after each. */
void oracle_run(Oracle *oracle) {
    int64_t n = oracle_dim(oracle, "N");
    double *a = oracle_update(oracle, "A", ELEMENT_F64, 1, &n, zero, NULL).value;
    oracle_numbers(oracle, "B", ELEMENT_F64, 1, &n, two, NULL);
    oracle_numbers(oracle, "C", ELEMENT_F64, 1, &n, two, NULL);
    for (int64_t i = 0; i < n; i++)
        a[i] = 8 * oracle_scalar(oracle, "iterations");
}
