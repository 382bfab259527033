#include "tests/tools/oracle.h"

#include <math.h>
#include <string.h>

/* One chain of fma in ascending k: the language promises these bits. */
static float chain_f32(const double *a, const double *b, int64_t k, int64_t b_step) {
    float acc = 0;
    for (int64_t i = 0; i < k; i++)
        acc = fmaf((float)a[i], (float)b[i * b_step], acc);
    return acc;
}

/* n * eps * the sum of all terms' sizes: either order of summing, and accumulators that truncate, stay below it. */
static double sum_bound(const double *a, const double *b, int64_t k, int64_t b_step) {
    double sizes = 0;
    for (int64_t i = 0; i < k; i++)
        sizes += fabs(a[i] * b[i * b_step]);
    return (double)k * 0x1p-23 * sizes;
}

static int32_t chain_i32(const double *a, const double *b, int64_t k, int64_t b_step) {
    int32_t acc = 0;
    for (int64_t i = 0; i < k; i++)
        acc += (int32_t)a[i] * (int32_t)b[i * b_step];
    return acc;
}

void oracle_run(Oracle *oracle) {
    const char *kernel = oracle_kernel(oracle);
    int64_t m = oracle_dim(oracle, "M"), n = oracle_dim(oracle, "N"), k = oracle_dim(oracle, "K");
    int64_t a_shape[] = {m, k}, b_shape[] = {k, n}, bt_shape[] = {n, k}, c_shape[] = {m, n}, column_shape[] = {m, 1};
    ElementType type = ELEMENT_F32;
    if (strcmp(kernel, "gemm_f16") == 0)
        type = ELEMENT_F16;
    if (strcmp(kernel, "gemm_bf16") == 0)
        type = ELEMENT_BF16;
    if (strcmp(kernel, "gemm_i8") == 0)
        type = ELEMENT_I8;
    const double *a = oracle_numbers(oracle, "A", type, 2, a_shape, NULL, NULL);
    const double *b = oracle_numbers(oracle, "B", type, 2, type == ELEMENT_BF16 ? bt_shape : b_shape, NULL, NULL);

    if (type == ELEMENT_F32) {
        float alpha = (float)oracle_scalar(oracle, "alpha"), beta = (float)oracle_scalar(oracle, "beta");
        double *c = oracle_update(oracle, "C", ELEMENT_F32, 2, c_shape, NULL, NULL).value;
        for (int64_t i = 0; i < m * n; i++)
            c[i] = alpha * chain_f32(a + i / n * k, b + i % n, k, n) + beta * (float)c[i];
    } else if (type == ELEMENT_I8) {
        const double *a_scale = oracle_numbers(oracle, "a_scale", ELEMENT_F32, 2, column_shape, NULL, NULL);
        const double *b_scale = oracle_numbers(oracle, "b_scale", ELEMENT_F32, 1, &n, NULL, NULL);
        double *c = oracle_result(oracle, "C", ELEMENT_F32, 2, c_shape).value;
        for (int64_t i = 0; i < m * n; i++)
            c[i] = (float)chain_i32(a + i / n * k, b + i % n, k, n) * (float)a_scale[i / n] * (float)b_scale[i % n];
    } else {
        OracleResult c = oracle_result(oracle, "C", type, 2, c_shape);
        bool transposed = type == ELEMENT_BF16;
        for (int64_t i = 0; i < m * n; i++) {
            const double *row = a + i / n * k, *column = transposed ? b + i % n * k : b + i % n;
            c.value[i] = chain_f32(row, column, k, transposed ? 1 : n);
            if (oracle_tensor_cores(oracle))
                c.bound[i] = sum_bound(row, column, k, transposed ? 1 : n);
        }
    }
}
