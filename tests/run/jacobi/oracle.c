#include "tests/tools/oracle.h"

#include <stdlib.h>

/* 0 beyond the plate. */
static float at(const float *u, int64_t n, int64_t m, int64_t y, int64_t x) {
    return y < 0 || y >= n || x < 0 || x >= m ? 0 : u[y * m + x];
}

void oracle_run(Oracle *oracle) {
    int64_t shape[] = {oracle_dim(oracle, "N"), oracle_dim(oracle, "M")}, n = shape[0], m = shape[1];
    float *u = oracle_inout(oracle, "plate", ELEMENT_F32, 2, shape), *w = malloc((size_t)(n * m) * sizeof *w);
    for (int64_t turn = 0; turn < 2 * oracle_repeat(oracle); turn++) {
        const float *from = turn % 2 == 0 ? u : w;
        float *to = turn % 2 == 0 ? w : u;
        for (int64_t y = 0; y < n; y++)
            for (int64_t x = 0; x < m; x++) {
                float sum = at(from, n, m, y - 1, x) + at(from, n, m, y + 1, x);
                sum += at(from, n, m, y, x - 1);
                sum += at(from, n, m, y, x + 1);
                to[y * m + x] = 0.25f * sum;
            }
    }
    free(w);
}
