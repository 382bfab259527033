/* maths_sweep [--long] [FUNCTION...]: the compiled functions of functions.def against the C library's: f32 against double, f64 against long double.
 *
 * Every one-argument f32 function on a stride through all bit patterns (all of them with --long), the f64 ones on random points (10^8 with --long),
 * pow on random pairs, and all on special values. Prints a table of the largest errors; fails where one is too large or where two levels with fma
 * differ. */
#include "sweep.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 4096, LEVELS = 3 };

static const char *const level_names[LEVELS] = {"v2", "v3", "v4"};

typedef void FunctionF32(const float *a, const float *b, float *out, int64_t count);
typedef void FunctionF64(const double *a, const double *b, double *out, int64_t count);

typedef struct Function {
    const char *name;
    int operands;
    double limit;
    bool one_nan;
    double (*exact_f32)(double a, double b);
    long double (*exact_f64)(long double a, long double b);
    FunctionF32 *f32[LEVELS];
    FunctionF64 *f64[LEVELS];
} Function;

typedef struct Worst {
    double error, a, b;
} Worst;

typedef struct Sweep {
    const Function *function;
    int levels; /* that this machine runs */
    int64_t points, differences;
    Worst worst[LEVELS];
} Sweep;

/* ---- what is exact enough ---- */

#define DEFINE_EXACT(name, expression_f32, expression_f64)                                                                                           \
    static double exact_##name##_f32(double a, double b) {                                                                                           \
        (void)b;                                                                                                                                     \
        return expression_f32;                                                                                                                       \
    }                                                                                                                                                \
    static long double exact_##name##_f64(long double a, long double b) {                                                                            \
        (void)b;                                                                                                                                     \
        return expression_f64;                                                                                                                       \
    }

DEFINE_EXACT(exp, exp(a), expl(a))
DEFINE_EXACT(exp2, exp2(a), exp2l(a))
DEFINE_EXACT(log, log(a), logl(a))
DEFINE_EXACT(log2, log2(a), log2l(a))
DEFINE_EXACT(sqrt, sqrt(a), sqrtl(a))
DEFINE_EXACT(rsqrt, 1 / sqrt(a), 1 / sqrtl(a))
DEFINE_EXACT(tanh, tanh(a), tanhl(a))
DEFINE_EXACT(sigmoid, 1 / (1 + exp(-a)), 1 / (1 + expl(-a)))
DEFINE_EXACT(erf, erf(a), erfl(a))
DEFINE_EXACT(sin, sin(a), sinl(a))
DEFINE_EXACT(cos, cos(a), cosl(a))
DEFINE_EXACT(floor, floor(a), floorl(a))
DEFINE_EXACT(ceil, ceil(a), ceill(a))
DEFINE_EXACT(round, round(a), roundl(a))
DEFINE_EXACT(trunc, trunc(a), truncl(a))

/* powl of infinity and -2^63 is infinite in some C libraries; double has all the special cases. */
static long double power(long double a, long double b) {
    return isfinite(a) && a != 0 ? powl(a, b) : (long double)pow((double)a, (double)b);
}

DEFINE_EXACT(pow, pow(a, b), power(a, b))

#define FUNCTION(name, op, operands, ulp, one_nan)                                                                                                   \
    FunctionF32 maths_##name##_f32_v2, maths_##name##_f32_v3, maths_##name##_f32_v4;                                                                 \
    FunctionF64 maths_##name##_f64_v2, maths_##name##_f64_v3, maths_##name##_f64_v4;
#include "functions.def"

static const Function functions[] = {
#define FUNCTION(name, op, operands, ulp, one_nan)                                                                                                   \
    {#name, operands, ulp, one_nan, exact_##name##_f32, exact_##name##_f64, {maths_##name##_f32_v2, maths_##name##_f32_v3, maths_##name##_f32_v4},   \
        {maths_##name##_f64_v2, maths_##name##_f64_v3, maths_##name##_f64_v4}},
#include "functions.def"
};

/* ---- a block of points ---- */

static void note(Worst *worst, double error, double a, double b) {
    if (error > worst->error)
        *worst = (Worst){error, a, b};
}

/* The last place is at least 2^-24 (f32) or 2^-53 of a number, so that most points are known not to be the worst without more. */
static void sweep_block_f32(Sweep *sweep, const float *a, const float *b, int count) {
    static float out[LEVELS][BLOCK];
    static double exact[BLOCK];
    const Function *function = sweep->function;
    for (int i = 0; i < count; i++)
        exact[i] = function->exact_f32((double)a[i], (double)b[i]);
    for (int level = 0; level < sweep->levels; level++) {
        Worst *worst = &sweep->worst[level];
        function->f32[level](a, b, out[level], count);
        for (int i = 0; i < count; i++)
            if (!(fabs((double)out[level][i] - exact[i]) < fabs(exact[i]) * worst->error * 0x1p-24))
                note(worst, error_f32(out[level][i], exact[i], function->one_nan), (double)a[i], (double)b[i]);
    }
    for (int i = 0; i < count && sweep->levels == LEVELS; i++)
        sweep->differences += memcmp(&out[1][i], &out[2][i], sizeof(float)) != 0;
    sweep->points += count;
}

static void sweep_block_f64(Sweep *sweep, const double *a, const double *b, int count) {
    static double out[LEVELS][BLOCK];
    static long double exact[BLOCK];
    const Function *function = sweep->function;
    for (int i = 0; i < count; i++)
        exact[i] = function->exact_f64(a[i], b[i]);
    for (int level = 0; level < sweep->levels; level++) {
        Worst *worst = &sweep->worst[level];
        function->f64[level](a, b, out[level], count);
        for (int i = 0; i < count; i++)
            if (!(fabsl(out[level][i] - exact[i]) < fabsl(exact[i]) * worst->error * 0x1p-53L))
                note(worst, error_f64(out[level][i], exact[i], function->one_nan), a[i], b[i]);
    }
    for (int i = 0; i < count && sweep->levels == LEVELS; i++)
        sweep->differences += memcmp(&out[1][i], &out[2][i], sizeof(double)) != 0;
    sweep->points += count;
}

/* ---- the points ---- */

static void sweep_special_f32(Sweep *sweep) {
    static float values[SPECIAL_LIMIT], same[SPECIAL_LIMIT];
    int count = special_f32(values);
    if (sweep->function->operands == 1)
        sweep_block_f32(sweep, values, values, count);
    else
        for (int i = 0; i < count; i++) {
            for (int j = 0; j < count; j++)
                same[j] = values[i];
            sweep_block_f32(sweep, values, same, count);
        }
}

static void sweep_special_f64(Sweep *sweep) {
    static double values[SPECIAL_LIMIT], same[SPECIAL_LIMIT];
    int count = special_f64(values);
    if (sweep->function->operands == 1)
        sweep_block_f64(sweep, values, values, count);
    else
        for (int i = 0; i < count; i++) {
            for (int j = 0; j < count; j++)
                same[j] = values[i];
            sweep_block_f64(sweep, values, same, count);
        }
}

static void sweep_f32(Sweep *sweep, bool is_long) {
    static float a[BLOCK], b[BLOCK];
    int64_t stride = is_long ? 1 : 1021, points = sweep->function->operands > 1 ? (is_long ? 400000000 : 400000) : ((int64_t)1 << 32) / stride;
    uint64_t state = 1;
    sweep_special_f32(sweep);
    for (int64_t i = 0; i < points; i += BLOCK) {
        for (int j = 0; j < BLOCK; j++) {
            uint32_t bits = (uint32_t)((i + j) * stride);
            memcpy(&a[j], &bits, sizeof bits);
            if (sweep->function->operands > 1) {
                double x, y;
                random_powers(&state, false, &x, &y);
                a[j] = (float)x;
                b[j] = (float)y;
            }
        }
        sweep_block_f32(sweep, a, b, BLOCK);
    }
}

static void sweep_f64(Sweep *sweep, bool is_long) {
    static double a[BLOCK], b[BLOCK];
    uint64_t state = 2;
    sweep_special_f64(sweep);
    for (int64_t i = 0; i < (is_long ? 100000000 : 100000); i += BLOCK) {
        for (int j = 0; j < BLOCK; j++)
            if (sweep->function->operands > 1)
                random_powers(&state, true, &a[j], &b[j]);
            else
                a[j] = random_f64(&state);
        sweep_block_f64(sweep, a, b, BLOCK);
    }
}

/* ---- the table ---- */

static bool report(const Sweep *sweep, const char *type) {
    bool ok = sweep->differences == 0;
    printf("%-8s %s %11lld", sweep->function->name, type, (long long)sweep->points);
    for (int level = 0; level < 2; level++)
        printf("  %7.4f", sweep->worst[level].error);
    printf("  %s\n", sweep->levels < LEVELS ? "not run" : ok ? "same" : "differs");
    for (int level = 0; level < sweep->levels; level++) {
        const Worst *worst = &sweep->worst[level];
        if (worst->error <= sweep->function->limit)
            continue;
        ok = false;
        printf("    %s: %g ulp at %a, %a\n", level_names[level], worst->error, worst->a, worst->b);
    }
    fflush(stdout);
    return ok;
}

static bool has_v3(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}

static bool has_v4(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static bool sweep_function(const Function *function, bool is_long) {
    int levels = has_v4() ? 3 : 2;
    Sweep f32 = {.function = function, .levels = levels}, f64 = f32;
    sweep_f32(&f32, is_long);
    bool ok = report(&f32, "f32");
    sweep_f64(&f64, is_long);
    return report(&f64, "f64") && ok;
}

static bool wanted(const char *name, char **names) {
    for (char **n = names; *n; n++)
        if (strcmp(*n, name) == 0)
            return true;
    return !*names;
}

int main(int argc, char **argv) {
    bool is_long = argc > 1 && strcmp(argv[1], "--long") == 0, ok = true;
    if (!has_v3())
        return 77;
    puts("largest error in ulp    points     v2       v3  v4");
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (wanted(functions[i].name, argv + 1 + is_long))
            ok = sweep_function(&functions[i], is_long) && ok;
    return ok ? 0 : 1;
}
