#include "tests/tools/oracle.h"

void oracle_run(Oracle *oracle) {
    int64_t shape[2] = {oracle_dim(oracle, "M"), oracle_dim(oracle, "N")};
    double s = oracle_scalar(oracle, "s");
    const double *a = oracle_input(oracle, "a", ELEMENT_F64, 2, shape);
    double *b = oracle_output(oracle, "b", ELEMENT_F64, 2, shape);
    for (int64_t i = 0; i < shape[0] * shape[1]; i++)
        b[i] = s * a[i];
}
