#include "tests/tools/oracle.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

static double same_in_all_rows(const void *context, const int64_t *index) {
    (void)context;
    return (double)(index[2] % 7) * 0.25 - 0.5;
}

/* Where all keys are one, every query gives each value that it sees the same weight: the mean of V, or under the causal mask that of V[0 .. row]. */
void oracle_run(Oracle *oracle) {
    bool causal = strcmp(oracle_kernel(oracle), "attention_causal") == 0;
    int64_t heads = oracle_dim(oracle, "H"), s = oracle_dim(oracle, "S"), t = oracle_dim(oracle, "T"), d = oracle_dim(oracle, "D");
    int64_t q_shape[] = {heads, s, d}, k_shape[] = {heads, t, d};
    oracle_numbers(oracle, "Q", ELEMENT_F32, 3, q_shape, NULL, NULL);
    oracle_numbers(oracle, "K", ELEMENT_F32, 3, k_shape, same_in_all_rows, NULL);
    const double *v = oracle_numbers(oracle, "V", ELEMENT_F32, 3, k_shape, NULL, NULL);
    OracleResult o = oracle_result(oracle, "O", ELEMENT_F32, 3, q_shape);
    for (int64_t row = 0; row < heads * s; row++) {
        int64_t seen = causal && row % s < t ? row % s + 1 : t;
        for (int64_t i = 0; i < d; i++) {
            const double *value = v + row / s * t * d + i;
            double sum = 0, terms = 0;
            for (int64_t j = 0; j < seen; j++) {
                sum += value[j * d];
                terms += fabs(value[j * d]);
            }
            o.value[row * d + i] = sum / (double)seen;
            o.bound[row * d + i] = (2 * (double)seen + 32) * FLT_EPSILON * terms / (double)seen;
        }
    }
}
