/* Sweeps of the maths functions: where inputs come from, and what an error is. */
#ifndef PHOBOS_TESTS_MATHS_SWEEP_H
#define PHOBOS_TESTS_MATHS_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

/* ---- error.c ---- */

/* Distance of `got` from `exact` in units of the type's last place at `exact`. Infinity for what no rounding excuses: a number for NaN or the other
 * way, another NaN than the one (where that counts), 0 of the wrong sign. Beyond the type's range, infinity counts as the next power of two. */
double error_f32(float got, double exact, bool one_nan);
double error_f64(double got, long double exact, bool one_nan);

/* ---- inputs.c ---- */

enum { SPECIAL_LIMIT = 4096 };

/* Where something changes: 0, the ends of the ranges, multiples of pi/2, exponents that overflow, and the neighbours of each. */
int special_f32(float *values);
int special_f64(double *values);

uint64_t random_bits(uint64_t *state);
double random_f64(uint64_t *state); /* any bits, or a magnitude that functions tell apart */
/* A base and an exponent: any, or such that the power is about in range. */
void random_powers(uint64_t *state, bool is_f64, double *x, double *y);

#endif
