#include "tests/tools/oracle.h"

void oracle_run(Oracle *oracle) {
    int64_t n = oracle_dim(oracle, "N");
    const float *a = oracle_input(oracle, "a", ELEMENT_F32, 1, &n);
    const float *b = oracle_input(oracle, "b", ELEMENT_F32, 1, &n);
    float *c = oracle_output(oracle, "c", ELEMENT_F32, 1, &n);
    for (int64_t i = 0; i < n; i++)
        c[i] = a[i] + b[i];
}
