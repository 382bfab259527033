#include "tests/tools/oracle.h"

#include <math.h>

/* Positive numbers of 17 magnitudes: what truncates loses, and never makes up for it. */
static double fill(const void *context, const int64_t *index) {
    uint64_t bits = (uint64_t)index[0] * 0x9e3779b97f4a7c15 + (uint64_t)index[1] * 0xc2b2ae3d27d4eb4f + *(const uint64_t *)context;
    bits = (bits ^ bits >> 29) * 0xbf58476d1ce4e5b9;
    bits ^= bits >> 32;
    return ldexp(1 + (double)(bits & 0x7fffff) * 0x1p-23, (int)(bits >> 24 & 0xff) % 17 - 8);
}

static float chain(const double *a, const double *b, int64_t k, int64_t b_step) {
    float acc = 0;
    for (int64_t i = 0; i < k; i++)
        acc = fmaf((float)a[i], (float)b[i * b_step], acc);
    return acc;
}

void oracle_run(Oracle *oracle) {
    enum { TURN = 32 }; /* k, at least, before a sum goes to f32, which rounds; a turn itself loses a few times its last bit */
    static const uint64_t seeds[2] = {1, 2};
    int64_t m = oracle_dim(oracle, "M"), n = oracle_dim(oracle, "N"), k = oracle_dim(oracle, "K");
    int64_t a_shape[] = {m, k}, b_shape[] = {k, n}, c_shape[] = {m, n};
    const double *a = oracle_numbers(oracle, "A", ELEMENT_F32, 2, a_shape, fill, &seeds[0]);
    const double *b = oracle_numbers(oracle, "B", ELEMENT_F32, 2, b_shape, fill, &seeds[1]);
    OracleResult c = oracle_result(oracle, "C", ELEMENT_F32, 2, c_shape);
    for (int64_t i = 0; i < m * n; i++) {
        const double *row = a + i / n * k, *column = b + i % n;
        if (!oracle_tensor_cores(oracle)) {
            c.value[i] = chain(row, column, k, n);
            continue;
        }
        for (int64_t l = 0; l < k; l++)
            c.value[i] += row[l] * column[l * n];
        c.bound[i] = ((double)((k + TURN - 1) / TURN) / 2 + 8) * 0x1p-23 * c.value[i];
    }
}
