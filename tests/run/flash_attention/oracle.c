#include "tests/tools/oracle.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void oracle_run(Oracle *oracle) {
    bool causal = strcmp(oracle_kernel(oracle), "attention_causal") == 0;
    int64_t heads = oracle_dim(oracle, "H"), s = oracle_dim(oracle, "S"), t = oracle_dim(oracle, "T"), d = oracle_dim(oracle, "D");
    int64_t q_shape[] = {heads, s, d}, k_shape[] = {heads, t, d};
    double scale = (float)oracle_scalar(oracle, "scale");
    const double *q = oracle_numbers(oracle, "Q", ELEMENT_F32, 3, q_shape, NULL, NULL);
    const double *k = oracle_numbers(oracle, "K", ELEMENT_F32, 3, k_shape, NULL, NULL);
    const double *v = oracle_numbers(oracle, "V", ELEMENT_F32, 3, k_shape, NULL, NULL);
    OracleResult o = oracle_result(oracle, "O", ELEMENT_F32, 3, q_shape);
    double *p = calloc((size_t)t, sizeof *p);
    for (int64_t row = 0; p && row < heads * s; row++) {
        const double *keys = k + row / s * t * d, *values = v + row / s * t * d;
        int64_t seen = causal && row % s < t ? row % s + 1 : t;
        double peak = -INFINITY, total = 0, magnitude = 0;
        for (int64_t j = 0; j < seen; j++) {
            double score = 0, terms = 0;
            for (int64_t i = 0; i < d; i++) {
                score += q[row * d + i] * scale * keys[j * d + i];
                terms += fabs(q[row * d + i] * scale * keys[j * d + i]);
            }
            p[j] = score;
            peak = fmax(peak, score);
            magnitude = fmax(magnitude, terms);
        }
        for (int64_t j = 0; j < seen; j++)
            total += p[j] = exp(p[j] - peak);
        /* An error of a score is a relative error of its exp; the sums over the keys go through as many roundings. */
        double error = (2 * (double)d * magnitude + 2 * (double)seen + 32) * FLT_EPSILON;
        for (int64_t i = 0; i < d; i++) {
            double sum = 0, terms = 0;
            for (int64_t j = 0; j < seen; j++) {
                sum += p[j] * values[j * d + i];
                terms += p[j] * fabs(values[j * d + i]);
            }
            o.value[row * d + i] = sum / total;
            o.bound[row * d + i] = error * terms / total;
        }
    }
    free(p);
}
