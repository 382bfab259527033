#include "tests/tools/oracle.h"

#include <math.h>

/* init_array of PolyBench 4.2. `context` is the tensor's shape. */
static double init_a(const void *context, const int64_t *index) {
    const int64_t *shape = context;
    return (double)(index[0] * (index[1] + 1) % shape[1]) / (double)shape[1];
}

static double init_b(const void *context, const int64_t *index) {
    const int64_t *shape = context;
    return (double)(index[0] * (index[1] + 2) % shape[1]) / (double)shape[1];
}

static double init_c(const void *context, const int64_t *index) {
    const int64_t *shape = context;
    return (double)((index[0] * index[1] + 1) % shape[0]) / (double)shape[0];
}

void oracle_run(Oracle *oracle) {
    int64_t ni = oracle_dim(oracle, "NI"), nj = oracle_dim(oracle, "NJ"), nk = oracle_dim(oracle, "NK");
    int64_t a_shape[] = {ni, nk}, b_shape[] = {nk, nj}, c_shape[] = {ni, nj};
    double alpha = oracle_scalar(oracle, "alpha"), beta = oracle_scalar(oracle, "beta"), sum = 0;
    const double *a = oracle_numbers(oracle, "A", ELEMENT_F64, 2, a_shape, init_a, a_shape);
    const double *b = oracle_numbers(oracle, "B", ELEMENT_F64, 2, b_shape, init_b, b_shape);
    double *c = oracle_update(oracle, "C", ELEMENT_F64, 2, c_shape, init_c, c_shape).value;
    for (int64_t i = 0; i < ni * nj; i++) {
        c[i] *= beta;
        for (int64_t k = 0; k < nk; k++)
            c[i] = fma(alpha * a[i / nj * nk + k], b[k * nj + i % nj], c[i]);
        sum += c[i];
    }
    static const struct {
        int64_t ni;
        double sum;
    } known[] = {{20, 4365}, {60, 109987.875}, {200, 3701093.65}};
    for (int i = 0; i < 3; i++)
        if (ni == known[i].ni)
            oracle_expect(oracle, "the sum of C", known[i].sum, sum, 1e-9 * sum);
}
