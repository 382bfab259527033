#include "tests/tools/oracle.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

static double gate_at(const void *context, const int64_t *index) {
    (void)context;
    return -(double)((index[0] * 31 + index[1] * 17 + index[2] * 5) % 64) / 128;
}

/* Token by token, as the recurrence says. */
void oracle_run(Oracle *oracle) {
    int64_t heads = oracle_dim(oracle, "H"), tokens = oracle_dim(oracle, "T"), dk = oracle_dim(oracle, "DK"), dv = oracle_dim(oracle, "DV");
    int64_t k_shape[] = {heads, tokens, dk}, v_shape[] = {heads, tokens, dv};
    const double *q = oracle_numbers(oracle, "q", ELEMENT_F32, 3, k_shape, NULL, NULL);
    const double *k = oracle_numbers(oracle, "k", ELEMENT_F32, 3, k_shape, NULL, NULL);
    const double *g = oracle_numbers(oracle, "g", ELEMENT_F32, 3, k_shape, gate_at, NULL);
    const double *v = oracle_numbers(oracle, "v", ELEMENT_F32, 3, v_shape, NULL, NULL);
    OracleResult o = oracle_result(oracle, "o", ELEMENT_F32, 3, v_shape);
    size_t size = (size_t)(dk * dv);
    double *state = calloc(size, sizeof *state), *terms = calloc(size, sizeof *terms); /* the same sum, and that of magnitudes */
    for (int64_t row = 0; state && terms && row < heads * tokens; row++) {
        for (int64_t a = 0; a < dk; a++) {
            double keep = row % tokens == 0 ? 0 : exp(g[row * dk + a]);
            for (int64_t b = 0; b < dv; b++) {
                double term = k[row * dk + a] * v[row * dv + b];
                state[a * dv + b] = keep * state[a * dv + b] + term;
                terms[a * dv + b] = keep * terms[a * dv + b] + fabs(term);
            }
        }
        for (int64_t b = 0; b < dv; b++) {
            double sum = 0, magnitude = 0;
            for (int64_t a = 0; a < dk; a++) {
                sum += q[row * dk + a] * state[a * dv + b];
                magnitude += fabs(q[row * dk + a]) * terms[a * dv + b];
            }
            o.value[row * dv + b] = sum;
            o.bound[row * dv + b] = 2 * (double)(dk + 64) * FLT_EPSILON * magnitude; /* sums over dk and a chunk, exps of sums of gates */
        }
    }
    free(state);
    free(terms);
}
