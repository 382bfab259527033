#include "tests/tools/oracle.h"

void oracle_run(Oracle *oracle) {
    int64_t n = oracle_dim(oracle, "N"), taps = oracle_dim(oracle, "KW"), length = n + taps - 1;
    const float *x = oracle_input(oracle, "x", ELEMENT_F32, 1, &length);
    const float *w = oracle_input(oracle, "w", ELEMENT_F32, 1, &taps);
    float *y = oracle_output(oracle, "y", ELEMENT_F32, 1, &n);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < taps; j++)
            y[i] += w[j] * x[i + j];
}
