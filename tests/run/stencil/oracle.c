#include "tests/tools/oracle.h"

static float point(const float *u, int64_t n, int64_t m, int64_t y, int64_t x) {
    return y < 0 || y >= n || x < 0 || x >= m ? 0 : u[y * m + x];
}

void oracle_run(Oracle *oracle) {
    int64_t shape[2] = {oracle_dim(oracle, "N"), oracle_dim(oracle, "M")}, n = shape[0], m = shape[1];
    const float *u = oracle_input(oracle, "u", ELEMENT_F32, 2, shape);
    float *w = oracle_output(oracle, "w", ELEMENT_F32, 2, shape);
    for (int64_t y = 0; y < n; y++)
        for (int64_t x = 0; x < m; x++) {
            float rows = point(u, n, m, y - 1, x) + point(u, n, m, y + 1, x);
            float beside = rows + point(u, n, m, y, x - 1) + point(u, n, m, y, x + 1);
            w[y * m + x] = 0.5f * u[y * m + x] + 0.125f * beside;
        }
}
