#include "tests/tools/oracle.h"

#include <math.h>
#include <stdlib.h>

/* One chain of fma in ascending k for each element: the language promises these bits. */
static void layer(const float *x, const double *w, const double *bias, int64_t m, int64_t k, int64_t n, float *y) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            float acc = 0;
            for (int64_t l = 0; l < k; l++)
                acc = fmaf(x[i * k + l], (float)w[l * n + j], acc);
            y[i * n + j] = acc + (float)bias[j];
        }
}

void oracle_run(Oracle *oracle) {
    enum { M = 300, IN = 311, HIDDEN = 300, OUT = 270 };
    int64_t x_shape[] = {M, IN}, w1_shape[] = {IN, HIDDEN}, b1_shape[] = {HIDDEN}, w2_shape[] = {HIDDEN, OUT}, b2_shape[] = {OUT},
            y_shape[] = {M, OUT};
    const double *x = oracle_numbers(oracle, "x", ELEMENT_F32, 2, x_shape, NULL, NULL);
    const double *w1 = oracle_numbers(oracle, "w1", ELEMENT_F32, 2, w1_shape, NULL, NULL),
                 *b1 = oracle_numbers(oracle, "b1", ELEMENT_F32, 1, b1_shape, NULL, NULL);
    const double *w2 = oracle_numbers(oracle, "w2", ELEMENT_F32, 2, w2_shape, NULL, NULL),
                 *b2 = oracle_numbers(oracle, "b2", ELEMENT_F32, 1, b2_shape, NULL, NULL);
    double *y = oracle_result(oracle, "y", ELEMENT_F32, 2, y_shape).value;
    float *in = malloc(sizeof(float) * M * IN), *hidden = malloc(sizeof(float) * M * HIDDEN), *out = malloc(sizeof(float) * M * OUT);
    for (int64_t i = 0; i < (int64_t)M * IN; i++)
        in[i] = (float)x[i];
    layer(in, w1, b1, M, IN, HIDDEN, hidden);
    for (int64_t i = 0; i < (int64_t)M * HIDDEN; i++)
        hidden[i] = hidden[i] > 0 ? hidden[i] : 0;
    layer(hidden, w2, b2, M, HIDDEN, OUT, out);
    for (int64_t i = 0; i < (int64_t)M * OUT; i++)
        y[i] = out[i];
    free(in);
    free(hidden);
    free(out);
}
