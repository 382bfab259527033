#include "tests/tools/oracle.h"

void oracle_run(Oracle *oracle) {
    int64_t shape[] = {oracle_dim(oracle, "H"), oracle_dim(oracle, "W")};
    double left = oracle_scalar(oracle, "left"), top = oracle_scalar(oracle, "top"), step = oracle_scalar(oracle, "step");
    int limit = (int)oracle_scalar(oracle, "limit");
    int32_t *count = oracle_output(oracle, "count", ELEMENT_I32, 2, shape);
    for (int64_t i = 0; i < shape[0] * shape[1]; i++) {
        double re = left + step * (double)(i % shape[1]), im = top + step * (double)(i / shape[1]), zr = 0, zi = 0;
        while (count[i] < limit) {
            double next = zr * zr - zi * zi + re;
            zi = 2 * zr * zi + im;
            zr = next;
            if (!(zr * zr + zi * zi <= 4))
                break;
            count[i]++;
        }
    }
}
