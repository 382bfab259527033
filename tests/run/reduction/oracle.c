#include "tests/tools/oracle.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { PART = 16384 };

static void sum(const double *x, int64_t n, double *total, double *bound) {
    double terms = 0;
    for (int64_t i = 0; i < n; i++) {
        *total += x[i];
        terms += fabs(x[i]);
    }
    *bound = (double)n * FLT_EPSILON * terms;
}

void oracle_run(Oracle *oracle) {
    int64_t parts = oracle_dim(oracle, "PARTS"), one = 1;
    if (strcmp(oracle_kernel(oracle), "sum_of_partials") == 0) {
        const double *partials = oracle_numbers(oracle, "partials", ELEMENT_F32, 1, &parts, NULL, NULL);
        OracleResult result = oracle_result(oracle, "result", ELEMENT_F32, 1, &one);
        sum(partials, parts, result.value, result.bound);
        return;
    }
    int64_t n = oracle_dim(oracle, "N");
    const double *x = oracle_numbers(oracle, "x", ELEMENT_F32, 1, &n, NULL, NULL);
    OracleResult result = oracle_result(oracle, "partials", ELEMENT_F32, 1, &parts);
    for (int64_t i = 0; i < parts; i++)
        sum(x + i * PART, i * PART + PART < n ? PART : n - i * PART, &result.value[i], &result.bound[i]);
}
