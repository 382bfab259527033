#include "tests/tools/oracle.h"

#include <float.h>
#include <math.h>

enum { PART = 1024 };

void oracle_run(Oracle *oracle) {
    int64_t n = oracle_dim(oracle, "N");
    const double *x = oracle_numbers(oracle, "x", ELEMENT_F32, 1, &n, NULL, NULL);
    OracleResult y = oracle_result(oracle, "y", ELEMENT_F32, 1, &n);
    for (int64_t start = 0; start < n; start += PART) {
        double sum = 0, terms = 0;
        for (int64_t i = start; i < start + PART; i++) {
            y.value[i] = sum += x[i];
            y.bound[i] = PART * FLT_EPSILON * (terms += fabs(x[i]));
        }
    }
}
