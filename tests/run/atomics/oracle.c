#include "tests/tools/oracle.h"

#include <math.h>

static double small(const void *context, const int64_t *index) {
    (void)context;
    return (double)((index[0] * 2654435761 >> 9) % 5 - 2);
}

static double zero(const void *context, const int64_t *index) {
    (void)context;
    (void)index;
    return 0;
}

static double *sums(Oracle *oracle, const char *name, ElementType type, int64_t count) {
    return oracle_update(oracle, name, type, 1, &count, zero, NULL).value;
}

/* An integer of `bits` bits as it wraps. */
static double wrapped(double value, int bits, bool is_signed) {
    double range = ldexp(1, bits), rest = value - floor(value / range) * range;
    return is_signed && rest >= range / 2 ? rest - range : rest;
}

void oracle_run(Oracle *oracle) {
    int64_t n = oracle_dim(oracle, "N");
    const double *x = oracle_numbers(oracle, "x", ELEMENT_F32, 1, &n, small, NULL);
    double *s8 = sums(oracle, "s8", ELEMENT_I8, 4), *s16 = sums(oracle, "s16", ELEMENT_U16, 4), *s64 = sums(oracle, "s64", ELEMENT_I64, 4);
    double *h = sums(oracle, "h", ELEMENT_F16, 4), *b = sums(oracle, "b", ELEMENT_BF16, 32);
    double *f = sums(oracle, "f", ELEMENT_F32, 4), *d = sums(oracle, "d", ELEMENT_F64, 4);
    double *high = sums(oracle, "high", ELEMENT_F32, 1), *low = sums(oracle, "low", ELEMENT_F16, 1);
    double *tries = sums(oracle, "tries", ELEMENT_F32, 1), *tries16 = sums(oracle, "tries16", ELEMENT_BF16, 1);
    for (int64_t i = 0; i < n; i++) {
        s8[i % 4] = wrapped(s8[i % 4] + x[i], 8, true);
        s16[i % 4] = wrapped(s16[i % 4] + (double)i, 16, false);
        s64[i % 4] += x[i] * 1e10;
        h[i % 4] += x[i];
        b[i % 32] += x[i];
        f[i % 4] += x[i];
        d[i % 4] += x[i];
        high[0] = fmax(high[0], x[i] * (double)i);
        low[0] = fmin(low[0], x[i] - (double)(i % 50));
    }
    int64_t launched = (n + 255) / 256 * 256;
    tries[0] = (double)(launched < 1000 ? launched : 1000);
    tries16[0] = (double)(launched < 200 ? launched : 200);
}
