#include "tests/tools/oracle.h"

/* Some values more often than others, and some outside of the bins. */
static double skewed(const void *context, const int64_t *index) {
    const int64_t *bins = context;
    int64_t value = (index[0] * 2654435761 >> 7) % (*bins + 3) - 1;
    return (double)(index[0] % 5 == 0 ? 7 % *bins : value);
}

void oracle_run(Oracle *oracle) {
    int64_t n = oracle_dim(oracle, "N"), bins = oracle_dim(oracle, "BINS");
    const double *values = oracle_numbers(oracle, "values", ELEMENT_I32, 1, &n, skewed, &bins);
    double *counts = oracle_result(oracle, "counts", ELEMENT_I32, 1, &bins).value;
    for (int64_t i = 0; i < n; i++)
        if (values[i] >= 0 && values[i] < (double)bins)
            counts[(int64_t)values[i]]++;
}
