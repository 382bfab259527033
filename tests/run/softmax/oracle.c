#include "tests/tools/oracle.h"

#include <float.h>
#include <math.h>

void oracle_run(Oracle *oracle) {
    int64_t shape[] = {oracle_dim(oracle, "R"), oracle_dim(oracle, "C")}, n = shape[1];
    const double *x = oracle_numbers(oracle, "x", ELEMENT_F32, 2, shape, NULL, NULL);
    OracleResult y = oracle_result(oracle, "y", ELEMENT_F32, 2, shape);
    for (int64_t row = 0; row < shape[0]; row++, x += n, y.value += n, y.bound += n) {
        double peak = -INFINITY, total = 0;
        for (int64_t i = 0; i < n; i++)
            peak = fmax(peak, x[i]);
        for (int64_t i = 0; i < n; i++)
            total += exp(x[i] - peak);
        for (int64_t i = 0; i < n; i++) {
            y.value[i] = exp(x[i] - peak) / total;
            y.bound[i] = (16 + (double)n) * FLT_EPSILON * y.value[i]; /* two exps of an exact difference up to 2, and a sum of n */
        }
    }
}
