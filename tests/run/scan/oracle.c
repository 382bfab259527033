#include "tests/tools/oracle.h"

#include <float.h>
#include <math.h>
#include <string.h>

void oracle_run(Oracle *oracle) {
    int64_t n = oracle_dim(oracle, "N"), part = strcmp(oracle_kernel(oracle), "warp_scan") == 0 ? 32 : 256;
    const double *x = oracle_numbers(oracle, "x", ELEMENT_F32, 1, &n, NULL, NULL);
    OracleResult y = oracle_result(oracle, "y", ELEMENT_F32, 1, &n);
    for (int64_t start = 0; start < n; start += part) {
        double sum = 0, terms = 0;
        for (int64_t i = start; i < start + part && i < n; i++) {
            y.value[i] = sum += x[i];
            y.bound[i] = (double)part * FLT_EPSILON * (terms += fabs(x[i]));
        }
    }
}
