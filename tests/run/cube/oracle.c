#include "tests/tools/oracle.h"

void oracle_run(Oracle *oracle) {
    int64_t shape[3] = {oracle_dim(oracle, "Z"), oracle_dim(oracle, "Y"), oracle_dim(oracle, "X")};
    const uint32_t *v = oracle_input(oracle, "v", ELEMENT_I32, 3, shape);
    const uint32_t *gain = oracle_input(oracle, "gain", ELEMENT_I32, 1, shape);
    uint32_t *out = oracle_output(oracle, "out", ELEMENT_I32, 3, shape);
    int64_t slice = shape[1] * shape[2];
    for (int64_t i = 0; i < shape[0] * slice; i++)
        out[i] = v[i] * gain[i / slice]; /* wraps */
}
