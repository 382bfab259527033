#include "tests/tools/oracle.h"

void oracle_run(Oracle *oracle) {
    int64_t n = oracle_dim(oracle, "N");
    float alpha = (float)oracle_scalar(oracle, "alpha");
    const float *x = oracle_input(oracle, "x", ELEMENT_F32, 1, &n);
    float *y = oracle_inout(oracle, "y", ELEMENT_F32, 1, &n);
    for (int64_t i = 0; i < n; i++)
        y[i] += alpha * x[i];
}
