#include "tests/tools/oracle.h"

#include <float.h>
#include <math.h>

void oracle_run(Oracle *oracle) {
    int64_t shape[] = {oracle_dim(oracle, "R"), oracle_dim(oracle, "C")}, n = shape[1];
    double eps = (float)oracle_scalar(oracle, "eps");
    const double *x = oracle_numbers(oracle, "x", ELEMENT_F32, 2, shape, NULL, NULL);
    const double *gamma = oracle_numbers(oracle, "gamma", ELEMENT_F32, 1, &n, NULL, NULL);
    const double *beta = oracle_numbers(oracle, "beta", ELEMENT_F32, 1, &n, NULL, NULL);
    OracleResult y = oracle_result(oracle, "y", ELEMENT_F32, 2, shape);
    for (int64_t row = 0; row < shape[0]; row++, x += n, y.value += n, y.bound += n) {
        double sum = 0, sum_abs = 0, squares = 0;
        for (int64_t i = 0; i < n; i++) {
            sum += x[i];
            sum_abs += fabs(x[i]);
        }
        double mean = sum / (double)n;
        for (int64_t i = 0; i < n; i++)
            squares += (x[i] - mean) * (x[i] - mean);
        double scale = 1 / sqrt(squares / (double)n + eps), sum_error = (double)n * FLT_EPSILON;
        for (int64_t i = 0; i < n; i++) {
            double terms = (fabs(x[i]) + sum_abs / (double)n) * scale * fabs(gamma[i]);
            y.value[i] = (x[i] - mean) * scale * gamma[i] + beta[i];
            y.bound[i] = (8 * FLT_EPSILON + sum_error) * terms + FLT_EPSILON * fabs(beta[i]);
        }
    }
}
