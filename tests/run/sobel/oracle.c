#include "tests/tools/oracle.h"

#include <math.h>

static int64_t height, width;

static float at(const float *a, int64_t y, int64_t x) {
    return y >= 0 && y < height && x >= 0 && x < width ? a[y * width + x] : 0;
}

void oracle_run(Oracle *oracle) {
    int64_t shape[] = {height = oracle_dim(oracle, "H"), width = oracle_dim(oracle, "W")};
    const float *a = oracle_input(oracle, "a", ELEMENT_F32, 2, shape);
    float *edges = oracle_output(oracle, "edges", ELEMENT_F32, 2, shape);
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++) {
            float nw = at(a, y - 1, x - 1), n = at(a, y - 1, x), ne = at(a, y - 1, x + 1), w = at(a, y, x - 1), e = at(a, y, x + 1);
            float sw = at(a, y + 1, x - 1), s = at(a, y + 1, x), se = at(a, y + 1, x + 1);
            float across = (ne + 2 * e + se) - (nw + 2 * w + sw), down = (sw + 2 * s + se) - (nw + 2 * n + ne);
            edges[y * width + x] = sqrtf(across * across + down * down);
        }
}
