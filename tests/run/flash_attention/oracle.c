#include "tests/tools/oracle.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* What tensors and probabilities are rounded to, and by how much a rounding is off. */
static ElementType element_of(const char *kernel, double *rounding) {
    ElementType type = strstr(kernel, "bf16") ? ELEMENT_BF16 : strstr(kernel, "f16") ? ELEMENT_F16 : ELEMENT_F32;
    *rounding = type == ELEMENT_BF16 ? 0x1p-8 : type == ELEMENT_F16 ? 0x1p-11 : 0;
    return type;
}

void oracle_run(Oracle *oracle) {
    const char *kernel = oracle_kernel(oracle);
    bool causal = strstr(kernel, "causal") != NULL, rounds_q = strstr(kernel, "scaled") != NULL;
    double rounding;
    ElementType type = element_of(kernel, &rounding);
    int64_t heads = oracle_dim(oracle, "H"), s = oracle_dim(oracle, "S"), t = oracle_dim(oracle, "T"), d = oracle_dim(oracle, "D");
    int64_t q_shape[] = {heads, s, d}, k_shape[] = {heads, t, d};
    double scale = (float)oracle_scalar(oracle, "scale");
    const double *q = oracle_numbers(oracle, "Q", type, 3, q_shape, NULL, NULL);
    const double *k = oracle_numbers(oracle, "K", type, 3, k_shape, NULL, NULL);
    const double *v = oracle_numbers(oracle, "V", type, 3, k_shape, NULL, NULL);
    OracleResult o = oracle_result(oracle, "O", type, 3, q_shape);
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
        double error = (2 * (double)d * magnitude + 2 * (double)seen + 32) * FLT_EPSILON + rounding;
        if (rounds_q)
            error += 2 * rounding * magnitude;
        for (int64_t i = 0; i < d; i++) {
            double sum = 0, terms = 0;
            for (int64_t j = 0; j < seen; j++) {
                sum += p[j] * values[j * d + i];
                terms += p[j] * fabs(values[j * d + i]);
            }
            o.value[row * d + i] = sum / total;
            o.bound[row * d + i] = (error * terms + rounding * 0x1p-14 * (double)seen) / total; /* the least probabilities are subnormal */
        }
    }
    free(p);
}
