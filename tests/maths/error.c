#include "sweep.h"

#include <math.h>
#include <string.h>

static uint32_t bits_f32(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint64_t bits_f64(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* 2^exponent as a double, in its normal range. */
static double power_of_two(int exponent) {
    uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

double error_f32(float got, double exact, bool one_nan) {
    if (exact != exact)
        return (one_nan ? bits_f32(got) == 0x7fc00000 : got != got) ? 0 : (double)INFINITY;
    if (got != got || (got == 0 && !signbit(got) != !signbit(exact)))
        return (double)INFINITY;
    double value = isinf(got) ? copysign(0x1p128, (double)got) : (double)got;
    if (fabs(exact) > 0x1p128)
        exact = copysign(0x1p128, exact);
    int exponent = (int)(bits_f64(exact) >> 52 & 0x7ff) - 1023;
    exponent = exponent < -126 ? -126 : exponent > 127 ? 127 : exponent;
    return fabs(value - exact) * power_of_two(23 - exponent);
}

double error_f64(double got, long double exact, bool one_nan) {
    if (exact != exact)
        return (one_nan ? bits_f64(got) == 0x7ff8000000000000 : got != got) ? 0 : (double)INFINITY;
    if (got != got || (got == 0 && !signbit(got) != !signbit(exact)))
        return (double)INFINITY;
    long double value = isinf(got) ? copysignl(0x1p1024L, got) : (long double)got;
    if (fabsl(exact) > 0x1p1024L)
        exact = copysignl(0x1p1024L, exact);
    int exponent = exact == 0 ? -1022 : ilogbl(exact);
    exponent = exponent < -1022 ? -1022 : exponent > 1023 ? 1023 : exponent;
    return (double)ldexpl(fabsl(value - exact), 52 - exponent);
}
