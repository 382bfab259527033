#include "sweep.h"

#include <math.h>
#include <string.h>

/* Of both types; each is taken with its neighbours and with either sign. */
static const double turns[] = {0x1p-149, 0x1p-127, 0x1p-126, 0x1p-1074, 0x1p-1023, 0x1p-1022, 0x1p-300, 0x1p-60, 0x1p-30, 0x1p-12, 0.25, 0.34657359,
    0.5, 0.5625, 0.70710678118654752, 0.78539816339744831, 1, 1.4142135623730950, 1.5, 2, 2.5, 3, 4, 6, 20, 40, 52.5, 64, 87.3365, 88.722839, 89,
    103.97208, 104, 126, 127, 128, 149, 150, 151, 200, 708.39642, 709.78271, 710, 744.44007, 745.13322, 746, 1022, 1023, 1024, 1074, 1075, 1076,
    4194304.5, 8388607.5, 8388609, 16777216, 0x1p31, 0x1p32, 0x1p51, 0x1.0000000000001p52, 0x1p53, 0x1p63, 0x1p64, 0x1p66, 0x1p100, 0x1p126, 0x1p127,
    0x1.fffffep127, 0x1.6ac5b262ca1ffp849 /* nearest f64 to a multiple of pi/2 */, 0x1.ddebbap105, 0x1p1000, 0x1p1023, 0x1.fffffffffffffp1023};

int special_f32(float *values) {
    int count = 0;
    for (size_t i = 0; i < sizeof turns / sizeof turns[0]; i++) {
        float value = (float)turns[i], below = nextafterf(value, 0), above = nextafterf(value, INFINITY);
        float near[] = {value, below, above, -value, -below, -above};
        memcpy(values + count, near, sizeof near);
        count += (int)(sizeof near / sizeof near[0]);
    }
    for (int i = 1; i < 500; i++) {
        values[count++] = (float)(i * 1.57079632679489662);
        values[count++] = (float)-i;
    }
    float ends[] = {0, -0.0f, INFINITY, -INFINITY, NAN, -NAN};
    memcpy(values + count, ends, sizeof ends);
    return count + (int)(sizeof ends / sizeof ends[0]);
}

int special_f64(double *values) {
    int count = 0;
    for (size_t i = 0; i < sizeof turns / sizeof turns[0]; i++) {
        double value = turns[i], below = nextafter(value, 0), above = nextafter(value, (double)INFINITY);
        double near[] = {value, below, above, -value, -below, -above};
        memcpy(values + count, near, sizeof near);
        count += (int)(sizeof near / sizeof near[0]);
    }
    for (int i = 1; i < 500; i++) {
        values[count++] = (double)(i * 1.57079632679489661923L);
        values[count++] = -i;
    }
    double ends[] = {0, -0.0, (double)INFINITY, -(double)INFINITY, (double)NAN, -(double)NAN};
    memcpy(values + count, ends, sizeof ends);
    return count + (int)(sizeof ends / sizeof ends[0]);
}

/* splitmix64 (G. Steele, D. Lea and C. Flood, 2014) */
uint64_t random_bits(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static double random_unit(uint64_t *state) { /* [0, 1) */
    return (double)(random_bits(state) >> 11) * 0x1p-53;
}

double random_f64(uint64_t *state) {
    uint64_t bits = random_bits(state);
    if (bits & 1) {
        bits = random_bits(state);
        double value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    double magnitude = ldexp(1 + random_unit(state), (int)(bits >> 8 & 31) - 20);
    return bits & 2 ? -magnitude : magnitude;
}

void random_powers(uint64_t *state, bool is_f64, double *x, double *y) {
    *x = random_f64(state);
    *y = random_f64(state);
    uint64_t bits = random_bits(state);
    if (bits & 1) {
        *x = fabs(*x);
        *y = (random_unit(state) * 2 - 1) * (is_f64 ? 1100 : 155) / log2(*x);
    } else if (bits & 2) {
        *y = rint(*y);
    }
}
