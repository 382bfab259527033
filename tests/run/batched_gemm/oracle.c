#include "tests/tools/oracle.h"

#include <math.h>

void oracle_run(Oracle *oracle) {
    int64_t batch = oracle_dim(oracle, "BATCH"), m = oracle_dim(oracle, "M"), n = oracle_dim(oracle, "N"), k = oracle_dim(oracle, "K");
    int64_t a_shape[] = {batch, m, k}, b_shape[] = {batch, k, n}, c_shape[] = {batch, m, n};
    const double *a = oracle_numbers(oracle, "A", ELEMENT_F32, 3, a_shape, NULL, NULL);
    const double *b = oracle_numbers(oracle, "B", ELEMENT_F32, 3, b_shape, NULL, NULL);
    double *c = oracle_result(oracle, "C", ELEMENT_F32, 3, c_shape).value;
    for (int64_t i = 0; i < batch * m * n; i++) {
        const double *row = a + i / n * k, *column = b + i / (m * n) * k * n + i % n;
        float acc = 0;
        for (int64_t j = 0; j < k; j++)
            acc = fmaf((float)row[j], (float)column[j * n], acc);
        c[i] = acc;
    }
}
