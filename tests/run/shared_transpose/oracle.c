#include "tests/tools/oracle.h"

#include <stdint.h>

void oracle_run(Oracle *oracle) {
    int64_t m = oracle_dim(oracle, "M"), n = oracle_dim(oracle, "N"), x_shape[] = {m, n}, y_shape[] = {n, m};
    const uint32_t *x = oracle_input(oracle, "x", ELEMENT_F32, 2, x_shape);
    uint32_t *y = oracle_output(oracle, "y", ELEMENT_F32, 2, y_shape);
    for (int64_t row = 0; row < m; row++)
        for (int64_t column = 0; column < n; column++)
            y[column * m + row] = x[row * n + column];
}
