#include "tests/tools/oracle.h"

void oracle_run(Oracle *oracle) {
    int64_t m = oracle_dim(oracle, "M"), n = oracle_dim(oracle, "N");
    int64_t a_shape[] = {m, n}, b_shape[] = {n, m};
    const float *a = oracle_input(oracle, "A", ELEMENT_F32, 2, a_shape);
    float *b = oracle_output(oracle, "B", ELEMENT_F32, 2, b_shape);
    for (int64_t i = 0; i < m * n; i++)
        b[i % n * m + i / n] = a[i];
}
