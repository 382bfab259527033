#include "tests/tools/oracle.h"

void oracle_run(Oracle *oracle) {
    int64_t columns = 256, shape[2] = {oracle_dim(oracle, "M"), columns};
    const float *a = oracle_input(oracle, "a", ELEMENT_F32, 2, shape);
    const float *scale = oracle_input(oracle, "scale", ELEMENT_F32, 1, &columns);
    float *c = oracle_output(oracle, "c", ELEMENT_F32, 2, shape);
    for (int64_t i = 0; i < shape[0]; i++)
        for (int64_t j = 0; j < columns; j++)
            c[i * columns + j] = a[i * columns + j] * scale[j];
}
