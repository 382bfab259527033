/* Arithmetic on constants against plain C and against rounding by search, which share nothing with the code under test. */
#include "compiler/ir/ir.h"

#include <check.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The assertions of libcheck write a mark each time; these loops are too long for that. */
static void expect(bool holds, const char *what, uint64_t a, uint64_t b) {
    if (!holds)
        ck_abort_msg("%s: %" PRIx64 " %" PRIx64, what, a, b);
}

#define expect_bits(actual, expected) expect_equal(#actual " == " #expected, (actual), (expected))
static void expect_equal(const char *what, uint64_t actual, uint64_t expected) {
    expect(actual == expected, what, actual, expected);
}

static uint64_t random_state = 88172645463325252u;

static uint64_t next_random(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static uint64_t eval(OpKind kind, PhbDType operand, PhbDType result, uint64_t a, uint64_t b) {
    uint64_t bits = 0;
    expect(ir_eval(kind, operand, result, (const uint64_t[]){a, b, 0}, &bits), op_info[kind].text, a, b);
    return bits;
}

/* ---- the 16-bit formats ---- */

static int mantissa_bits(PhbDType dtype) {
    return dtype == PHB_F16 ? 10 : 7;
}

static uint64_t infinity_bits(PhbDType dtype) {
    return dtype == PHB_F16 ? 0x7c00 : 0x7f80;
}

/* The value of nonnegative finite bits, by the definition. */
static long double decode(PhbDType dtype, uint64_t bits) {
    int width = mantissa_bits(dtype), bias = dtype == PHB_F16 ? 15 : 127;
    int exponent = (int)(bits >> width);
    long double fraction = ldexpl((long double)(bits & ((1u << width) - 1)), -width);
    return exponent ? ldexpl(1 + fraction, exponent - bias) : ldexpl(fraction, 1 - bias);
}

/* Nearest, ties to the even mantissa, by a search among all values; the one past the greatest is where rounding overflows. */
static uint64_t nearest(PhbDType dtype, long double value) {
    uint64_t sign = signbit(value) ? 0x8000 : 0;
    long double magnitude = fabsl(value);
    uint64_t low = 0, high = infinity_bits(dtype);
    if (isinf(value))
        return sign | high;
    while (high - low > 1) {
        uint64_t middle = (low + high) / 2;
        *(decode(dtype, middle) <= magnitude ? &low : &high) = middle;
    }
    long double below = magnitude - decode(dtype, low), above = decode(dtype, high) - magnitude;
    return sign | (below < above || (below == above && low % 2 == 0) ? low : high);
}

static const PhbDType halves[] = {PHB_F16, PHB_BF16};

START_TEST(half_survives_double) {
    PhbDType dtype = halves[_i];
    for (uint64_t bits = 0; bits < 65536; bits++) {
        double value = bits_to_double(dtype, bits);
        if ((bits & 0x7fff) > infinity_bits(dtype)) {
            expect(isnan(value), "a NaN", bits, 0);
            uint64_t quiet = UINT64_C(1) << (mantissa_bits(dtype) - 1);
            expect_bits(bits_from_double(dtype, value) | quiet, bits | quiet);
            continue;
        }
        if ((bits & 0x7fff) < infinity_bits(dtype))
            expect(fabsl((long double)value) == decode(dtype, bits & 0x7fff), "decoded", bits, 0);
        expect_bits(!!signbit(value), bits >> 15);
        expect_bits(bits_from_double(dtype, value), bits);
    }
}
END_TEST

/* At, just below and just above the middle between neighbours: where rounding twice goes wrong. */
START_TEST(half_rounds_once) {
    PhbDType dtype = halves[_i];
    for (uint64_t bits = 0; bits < infinity_bits(dtype); bits++) {
        double low = (double)decode(dtype, bits), high = (double)decode(dtype, bits + 1), middle = low + (high - low) / 2;
        uint64_t even = bits + bits % 2;
        expect_bits(bits_from_double(dtype, middle), even);
        expect_bits(bits_from_double(dtype, -middle), even | 0x8000);
        expect_bits(bits_from_double(dtype, nextafter(middle, -INFINITY)), bits);
        expect_bits(bits_from_double(dtype, nextafter(middle, INFINITY)), bits + 1);
    }
    expect_bits(bits_from_double(dtype, 1e300), infinity_bits(dtype));
    expect_bits(bits_from_double(dtype, -1e300), infinity_bits(dtype) | 0x8000);
    expect_bits(bits_from_double(dtype, 5e-324), 0);
    expect_bits(bits_from_double(dtype, -5e-324), 0x8000);
}
END_TEST

static long double operate(OpKind kind, long double a, long double b) {
    return kind == OP_ADD ? a + b : kind == OP_SUB ? a - b : kind == OP_MUL ? a * b : kind == OP_DIV ? a / b : fmodl(a, b);
}

static const OpKind arithmetic[] = {OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_REM};

START_TEST(half_arithmetic_rounds_once) {
    PhbDType dtype = halves[_i / 5];
    OpKind kind = arithmetic[_i % 5];
    for (int i = 0; i < 40000; i++) {
        uint64_t a = next_random() & 0xffff, b = next_random() & 0xffff;
        if (i % 2) /* near in size, so that sums and remainders are not trivial */
            b = (a & 0xfc00) ^ (b & 0x83ff);
        long double exact = operate(kind, (long double)bits_to_double(dtype, a), (long double)bits_to_double(dtype, b));
        uint64_t expected = isnan(exact) ? bits_from_double(dtype, (double)NAN) : nearest(dtype, exact);
        expect(eval(kind, dtype, dtype, a, b) == expected, op_info[kind].text, a, b);
    }
}
END_TEST

/* ---- f32 and f64 against the machine ---- */

static uint64_t float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float bits_float(uint64_t bits) {
    uint32_t word = (uint32_t)bits;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

START_TEST(f32_arithmetic_is_the_machine_s) {
    OpKind kind = arithmetic[_i];
    for (int i = 0; i < 60000; i++) {
        uint64_t a = next_random() >> 32, b = next_random() >> 32;
        if (i % 2)
            b = (a & 0x7f800000) ^ (b & 0x80ffffff);
        volatile float x = bits_float(a), y = bits_float(b);
        volatile float expected = kind == OP_ADD ? x + y : kind == OP_SUB ? x - y : kind == OP_MUL ? x * y : kind == OP_DIV ? x / y : fmodf(x, y);
        uint64_t bits = isnan(expected) ? 0x7fc00000 : float_bits(expected);
        expect(eval(kind, PHB_F32, PHB_F32, a, b) == bits, op_info[kind].text, a, b);
    }
}
END_TEST

typedef struct FloatCase {
    OpKind kind;
    double a, b, expected;
} FloatCase;

static const FloatCase float_cases[] = {
    {OP_ADD, 0.1, 0.2, 0.30000000000000004},
    {OP_ADD, -0.0, 0.0, 0.0},
    {OP_ADD, -0.0, -0.0, -0.0},
    {OP_SUB, -0.0, 0.0, -0.0},
    {OP_SUB, 0.0, 0.0, 0.0},
    {OP_MUL, -0.0, 5.0, -0.0},
    {OP_MUL, 5e-324, 0.5, 0.0},
    {OP_DIV, 1.0, -0.0, -INFINITY},
    {OP_DIV, 5e-324, 2.0, 0.0},
    {OP_REM, -7.5, 2.0, -1.5},
    {OP_REM, 7.5, -2.0, 1.5},
    {OP_REM, -6.0, 3.0, -0.0},
    {OP_REM, 1.0, INFINITY, 1.0},
};

START_TEST(f64_arithmetic) {
    const FloatCase *c = &float_cases[_i];
    expect_bits(
        eval(c->kind, PHB_F64, PHB_F64, bits_from_double(PHB_F64, c->a), bits_from_double(PHB_F64, c->b)), bits_from_double(PHB_F64, c->expected));
}
END_TEST

START_TEST(nan_and_zero) {
    static const PhbDType dtypes[] = {PHB_F16, PHB_BF16, PHB_F32, PHB_F64};
    PhbDType dtype = dtypes[_i];
    uint64_t nan = bits_from_double(dtype, (double)NAN), inf = bits_from_double(dtype, (double)INFINITY),
             sign = UINT64_C(1) << (dtype_bits(dtype) - 1);
    uint64_t odd_nan = nan | 1 | sign, one = bits_from_double(dtype, 1.0), least_nan = inf | 1;
    expect_bits(eval(OP_SUB, dtype, dtype, inf, inf), nan);
    expect_bits(eval(OP_DIV, dtype, dtype, 0, 0), nan);
    expect_bits(eval(OP_REM, dtype, dtype, one, 0), nan);
    expect_bits(eval(OP_ADD, dtype, dtype, odd_nan, one), nan);
    expect_bits(eval(OP_NEG, dtype, dtype, odd_nan, 0), nan | 1);
    expect_bits(eval(OP_NEG, dtype, dtype, least_nan, 0), least_nan | sign);
    expect_bits(eval(OP_NEG, dtype, dtype, 0, 0), sign);
    expect_bits(eval(OP_EQ, dtype, PHB_BOOL, nan, nan), 0);
    expect_bits(eval(OP_NE, dtype, PHB_BOOL, nan, nan), 1);
    expect_bits(eval(OP_LT, dtype, PHB_BOOL, nan, one), 0);
    expect_bits(eval(OP_LE, dtype, PHB_BOOL, nan, nan), 0);
    expect_bits(eval(OP_EQ, dtype, PHB_BOOL, 0, sign), 1);
    expect_bits(eval(OP_LT, dtype, PHB_BOOL, sign, 0), 0);
    expect_bits(eval(OP_LE, dtype, PHB_BOOL, one | sign, one), 1);
    expect_bits(eval(OP_CONVERT, dtype, PHB_BOOL, sign, 0), 0);
    expect_bits(eval(OP_CONVERT, dtype, PHB_BOOL, nan, 0), 1);
    expect_bits(eval(OP_CONVERT, dtype, PHB_I32, nan, 0), 0);
    expect_bits(eval(OP_CONVERT, dtype, dtype, odd_nan, 0), odd_nan);
}
END_TEST

/* ---- integers: every pair of 8 bits ---- */

/* By the language's words, in wide arithmetic. */
static int in_words(OpKind kind, int width, bool is_signed, int a, int b) {
    int distance = b & ((1 << width) - 1);
    switch (kind) {
    case OP_ADD:
        return a + b;
    case OP_SUB:
        return a - b;
    case OP_MUL:
        return a * b;
    case OP_DIV:
        return b == 0 ? 0 : a / b;
    case OP_REM:
        return b == 0 ? a : a % b;
    case OP_AND:
        return a & b;
    case OP_OR:
        return a | b;
    case OP_XOR:
        return a ^ b;
    case OP_SHL:
        return distance >= width ? 0 : a * (1 << distance);
    case OP_SHR:
        return distance < width ? (int)floor(ldexp(a, -distance)) : is_signed && a < 0 ? -1 : 0;
    case OP_NEG:
        return -a;
    case OP_NOT:
        return -1 - a;
    case OP_EQ:
        return a == b;
    case OP_NE:
        return a != b;
    case OP_LT:
        return a < b;
    default:
        return a <= b;
    }
}

START_TEST(bytes) {
    static const OpKind kinds[] = {
        OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_REM, OP_AND, OP_OR, OP_XOR, OP_SHL, OP_SHR, OP_NEG, OP_NOT, OP_EQ, OP_NE, OP_LT, OP_LE};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (unsigned pair = 0; pair < 65536; pair++) {
            uint64_t a = pair & 0xff, b = pair >> 8;
            unsigned as_signed = (unsigned)in_words(kinds[k], 8, true, (int8_t)a, (int8_t)b) & 0xff;
            unsigned as_unsigned = (unsigned)in_words(kinds[k], 8, false, (int)a, (int)b) & 0xff;
            bool compares = kinds[k] >= OP_EQ;
            expect_bits(eval(kinds[k], PHB_I8, compares ? PHB_BOOL : PHB_I8, a, b), as_signed);
            expect_bits(eval(kinds[k], PHB_U8, compares ? PHB_BOOL : PHB_U8, a, b), as_unsigned);
        }
    }
}
END_TEST

START_TEST(wide_integers) {
    static const PhbDType signed_types[] = {PHB_I16, PHB_I32, PHB_I64}, unsigned_types[] = {PHB_U16, PHB_U32, PHB_U64};
    PhbDType i = signed_types[_i], u = unsigned_types[_i];
    uint64_t ones = bits_from_int(u, UINT64_MAX), least = ones / 2 + 1, most = ones / 2, width = (uint64_t)dtype_bits(u);
    expect_bits(eval(OP_ADD, i, i, most, 1), least);
    expect_bits(eval(OP_SUB, u, u, 0, 1), ones);
    expect_bits(eval(OP_MUL, u, u, ones, ones), 1);
    expect_bits(eval(OP_MUL, i, i, least, ones), least);
    expect_bits(eval(OP_DIV, i, i, least, ones), least);
    expect_bits(eval(OP_REM, i, i, least, ones), 0);
    expect_bits(eval(OP_DIV, i, i, least, 0), 0);
    expect_bits(eval(OP_REM, i, i, least, 0), least);
    expect_bits(eval(OP_DIV, u, u, ones, 2), most);
    expect_bits(eval(OP_DIV, i, i, ones, 2), 0);
    expect_bits(eval(OP_REM, i, i, bits_from_int(i, (uint64_t)-7), 2), ones);
    expect_bits(eval(OP_NEG, i, i, least, 0), least);
    expect_bits(eval(OP_SHL, i, i, 1, width - 1), least);
    expect_bits(eval(OP_SHL, i, i, 1, width), 0);
    expect_bits(eval(OP_SHL, u, u, 1, ones), 0);
    expect_bits(eval(OP_SHR, i, i, least, width - 1), ones);
    expect_bits(eval(OP_SHR, i, i, least, width), ones);
    expect_bits(eval(OP_SHR, i, i, most, ones), 0);
    expect_bits(eval(OP_SHR, u, u, least, width - 1), 1);
    expect_bits(eval(OP_SHR, u, u, ones, width), 0);
    expect_bits(eval(OP_LT, i, PHB_BOOL, least, most), 1);
    expect_bits(eval(OP_LT, u, PHB_BOOL, least, most), 0);
    expect_bits(eval(OP_NOT, PHB_BOOL, PHB_BOOL, 1, 0), 0);
    expect_bits(eval(OP_NOT, PHB_BOOL, PHB_BOOL, 0, 0), 1);
    expect_bits(eval(OP_LT, PHB_BOOL, PHB_BOOL, 0, 1), 1);
}
END_TEST

/* ---- conversions ---- */

static const PhbDType ints[] = {PHB_I8, PHB_U8, PHB_I16, PHB_U16, PHB_I32, PHB_U32, PHB_I64, PHB_U64};

/* Any integer type's value, exactly. */
static long double int_value(PhbDType dtype, uint64_t bits) {
    int unused = 64 - dtype_bits(dtype);
    return dtype_is_signed(dtype) ? (long double)((int64_t)(bits << unused) >> unused) : (long double)bits;
}

START_TEST(int_to_int_wraps) {
    PhbDType from = ints[_i];
    for (int i = 0; i < 20000; i++) {
        PhbDType to = ints[i % 8];
        uint64_t bits = bits_from_int(from, next_random() >> next_random() % 64);
        long double value = int_value(from, bits), period = ldexpl(1, dtype_bits(to));
        long double rest = fmodl(value, period);
        uint64_t expected = (uint64_t)(rest < 0 ? rest + period : rest);
        expect_bits(eval(OP_CONVERT, from, to, bits, 0), expected);
    }
}
END_TEST

START_TEST(float_to_int_truncates_and_saturates) {
    static const PhbDType floats[] = {PHB_F16, PHB_BF16, PHB_F32, PHB_F64};
    PhbDType to = ints[_i];
    long double least = dtype_is_signed(to) ? -ldexpl(1, dtype_bits(to) - 1) : 0;
    long double most = ldexpl(1, dtype_bits(to) - dtype_is_signed(to)) - 1;
    for (int i = 0; i < 60000; i++) {
        PhbDType from = floats[i % 4];
        double value = ldexp((double)(int64_t)next_random(), -(int)(next_random() % 70));
        uint64_t bits = i % 3 ? bits_from_double(from, value) : next_random() >> (64 - dtype_bits(from));
        long double exact = truncl((long double)bits_to_double(from, bits));
        long double expected = isnan(exact) ? 0 : exact < least ? least : exact > most ? most : exact;
        expect(int_value(to, eval(OP_CONVERT, from, to, bits, 0)) == expected, dtype_name(from), bits, 0);
    }
}
END_TEST

START_TEST(int_to_float_rounds_once) {
    PhbDType from = ints[_i];
    for (int i = 0; i < 60000; i++) {
        uint64_t bits = next_random() >> next_random() % 64;
        if (i % 2) /* a long run of zeros, then a low bit: sticky */
            bits = (bits & ~UINT64_C(0x3ffffffffffff)) | (next_random() & 1);
        bits = bits_from_int(from, bits);
        long double value = int_value(from, bits);
        expect_bits(eval(OP_CONVERT, from, PHB_F16, bits, 0), nearest(PHB_F16, value));
        expect_bits(eval(OP_CONVERT, from, PHB_BF16, bits, 0), nearest(PHB_BF16, value));
        expect_bits(eval(OP_CONVERT, from, PHB_F32, bits, 0), float_bits((float)value));
        expect_bits(eval(OP_CONVERT, from, PHB_F64, bits, 0), bits_from_double(PHB_F64, (double)value));
    }
}
END_TEST

START_TEST(float_to_float_rounds_once) {
    for (int i = 0; i < 100000; i++) {
        uint64_t exponent = i % 2 ? 1023 - 40 + next_random() % 80 : next_random() % 2047;
        uint64_t bits = (next_random() & UINT64_C(0x800fffffffffffff)) | exponent << 52;
        if (i % 3 == 0)
            bits &= ~UINT64_C(0x1ffffffffff); /* middles of neighbouring halves */
        double value = bits_to_double(PHB_F64, bits);
        expect_bits(eval(OP_CONVERT, PHB_F64, PHB_F16, bits, 0), nearest(PHB_F16, (long double)value));
        expect_bits(eval(OP_CONVERT, PHB_F64, PHB_BF16, bits, 0), nearest(PHB_BF16, (long double)value));
        expect_bits(eval(OP_CONVERT, PHB_F64, PHB_F32, bits, 0), float_bits((float)value));
        expect_bits(eval(OP_CONVERT, PHB_F32, PHB_F64, float_bits((float)value), 0), bits_from_double(PHB_F64, (double)(float)value));
    }
}
END_TEST

START_TEST(bool_converts) {
    expect_bits(eval(OP_CONVERT, PHB_BOOL, PHB_I32, 1, 0), 1);
    expect_bits(eval(OP_CONVERT, PHB_BOOL, PHB_F16, 1, 0), 0x3c00);
    expect_bits(eval(OP_CONVERT, PHB_BOOL, PHB_F32, 0, 0), 0);
    expect_bits(eval(OP_CONVERT, PHB_I32, PHB_BOOL, 256, 0), 1);
    expect_bits(eval(OP_CONVERT, PHB_U64, PHB_BOOL, UINT64_C(1) << 63, 0), 1);
    expect_bits(eval(OP_CONVERT, PHB_I8, PHB_BOOL, 0, 0), 0);
}
END_TEST

START_TEST(element_functions) {
    const uint64_t minus_zero = 0x80000000, nan = 0x7fc00000, one = 0x3f800000, half = 0x3f000000;
    /* the number if one is NaN; -0 before +0 */
    expect_bits(eval(OP_MIN, PHB_F32, PHB_F32, nan, one), one);
    expect_bits(eval(OP_MAX, PHB_F32, PHB_F32, one, nan), one);
    expect_bits(eval(OP_MAX, PHB_F32, PHB_F32, 0xffc00000, nan), nan);
    expect_bits(eval(OP_MIN, PHB_F32, PHB_F32, 0, minus_zero), minus_zero);
    expect_bits(eval(OP_MIN, PHB_F32, PHB_F32, minus_zero, 0), minus_zero);
    expect_bits(eval(OP_MAX, PHB_F32, PHB_F32, 0, minus_zero), 0);
    expect_bits(eval(OP_MAX, PHB_F32, PHB_F32, minus_zero, 0), 0);
    expect_bits(eval(OP_MIN, PHB_I8, PHB_I8, 0x80, 1), 0x80);
    expect_bits(eval(OP_MIN, PHB_U8, PHB_U8, 0x80, 1), 1);
    expect_bits(eval(OP_MAX, PHB_I8, PHB_I8, 0x80, 1), 1);
    expect_bits(eval(OP_ABS, PHB_I8, PHB_I8, 0x80, 0), 0x80);
    expect_bits(eval(OP_ABS, PHB_I16, PHB_I16, 0xffff, 0), 1);
    expect_bits(eval(OP_ABS, PHB_F32, PHB_F32, minus_zero, 0), 0);
    expect_bits(eval(OP_POPCOUNT, PHB_I8, PHB_I8, 0xff, 0), 8);
    expect_bits(eval(OP_CLZ, PHB_I8, PHB_I8, 0, 0), 8);
    expect_bits(eval(OP_CLZ, PHB_U16, PHB_U16, 1, 0), 15);
    expect_bits(eval(OP_CLZ, PHB_I64, PHB_I64, UINT64_MAX, 0), 0);
    expect_bits(eval(OP_ROUND, PHB_F32, PHB_F32, half, 0), one); /* half away from zero */
    expect_bits(eval(OP_ROUND, PHB_F32, PHB_F32, half | minus_zero, 0), one | minus_zero);
    expect_bits(eval(OP_FLOOR, PHB_F32, PHB_F32, half | minus_zero, 0), one | minus_zero);
    expect_bits(eval(OP_CEIL, PHB_F32, PHB_F32, half | minus_zero, 0), minus_zero);
    expect_bits(eval(OP_TRUNC, PHB_F16, PHB_F16, 0x3e00, 0), 0x3c00);
    expect_bits(eval(OP_SQRT, PHB_F32, PHB_F32, 0x40000000, 0), 0x3fb504f3);
    expect_bits(eval(OP_SQRT, PHB_F32, PHB_F32, one | minus_zero, 0), nan);
    expect_bits(eval(OP_BITCAST, PHB_F32, PHB_I32, minus_zero, 0), minus_zero);
    /* (1 + 2^-12)^2 - (1 + 2^-11) is 2^-24: nothing is left of it where the product is rounded */
    uint64_t bits = 0;
    ck_assert(ir_eval(OP_FMA, PHB_F32, PHB_F32, (const uint64_t[]){0x3f800800, 0x3f800800, 0xbf801000}, &bits));
    expect_bits(bits, 0x33800000);
}
END_TEST

START_TEST(knows_what_it_cannot_do) {
    uint64_t bits;
    ck_assert(!ir_eval(OP_LOAD, PHB_F32, PHB_F32, (const uint64_t[3]){0}, &bits));
    ck_assert(!ir_eval(OP_AND, PHB_F32, PHB_F32, (const uint64_t[3]){0}, &bits));
    ck_assert(!ir_eval(OP_EXP, PHB_F32, PHB_F32, (const uint64_t[3]){0}, &bits));
    ck_assert(!ir_eval(OP_SUM, PHB_F32, PHB_F32, (const uint64_t[3]){0}, &bits));
    ck_assert(!ir_eval(OP_BROADCAST, PHB_I32, PHB_I32, (const uint64_t[3]){0}, &bits));
}
END_TEST

#define COUNT(table) (int)(sizeof table / sizeof *table)

int main(void) {
    Suite *suite = suite_create("ir_eval");
    TCase *tests = tcase_create("ir_eval");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, half_survives_double, 0, 2);
    tcase_add_loop_test(tests, half_rounds_once, 0, 2);
    tcase_add_loop_test(tests, half_arithmetic_rounds_once, 0, 10);
    tcase_add_loop_test(tests, f32_arithmetic_is_the_machine_s, 0, 5);
    tcase_add_loop_test(tests, f64_arithmetic, 0, COUNT(float_cases));
    tcase_add_loop_test(tests, nan_and_zero, 0, 4);
    tcase_add_test(tests, bytes);
    tcase_add_loop_test(tests, wide_integers, 0, 3);
    tcase_add_loop_test(tests, int_to_int_wraps, 0, 8);
    tcase_add_loop_test(tests, float_to_int_truncates_and_saturates, 0, 8);
    tcase_add_loop_test(tests, int_to_float_rounds_once, 0, 8);
    tcase_add_test(tests, float_to_float_rounds_once);
    tcase_add_test(tests, bool_converts);
    tcase_add_test(tests, element_functions);
    tcase_add_test(tests, knows_what_it_cannot_do);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
