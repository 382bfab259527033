/* pow(x, y) = 2^(y log2|x|), with IEEE 754's special cases. The logarithm needs some ten bits more than the result: in f32 it is computed in f64, in
 * f64 as an unevaluated sum of two. */
#include "compiler/codegen/maths.h"

#include <math.h>

/* ---- sums of two: value = high + low, |low| <= ulp(high) ---- */

typedef struct Pair {
    LLVMValueRef high, low;
} Pair;

/* The half of a's digits that count most (Veltkamp, 1968). */
static LLVMValueRef upper_digits(const Maths *m, LLVMValueRef a) {
    LLVMValueRef large = m_mul(m, a, m_real(m, 0x1p27 + 1));
    return m_sub(m, large, m_sub(m, large, a));
}

/* Exact; without fma from halves, whose products are exact (Dekker, 1971). */
static Pair multiply_exact(const Maths *m, LLVMValueRef a, LLVMValueRef b) {
    LLVMValueRef high = m_mul(m, a, b), minus_high = m_sub(m, m_real(m, -0.0), high);
    if (m->e->level->has_fma)
        return (Pair){high, m_mad(m, a, b, minus_high)};
    LLVMValueRef a_high = upper_digits(m, a), b_high = upper_digits(m, b);
    LLVMValueRef a_low = m_sub(m, a, a_high), b_low = m_sub(m, b, b_high);
    LLVMValueRef low = m_add(m, m_mul(m, a_high, b_high), minus_high);
    low = m_add(m, low, m_mul(m, a_high, b_low));
    low = m_add(m, low, m_mul(m, a_low, b_high));
    return (Pair){high, m_add(m, low, m_mul(m, a_low, b_low))};
}

/* Exact where |a| >= |b| or a is 0 (Dekker). */
static Pair add_exact(const Maths *m, LLVMValueRef a, LLVMValueRef b) {
    LLVMValueRef high = m_add(m, a, b);
    return (Pair){high, m_add(m, m_sub(m, a, high), b)};
}

static Pair multiply(const Maths *m, Pair a, Pair b) {
    Pair result = multiply_exact(m, a.high, b.high);
    result.low = m_add(m, result.low, m_mad(m, a.high, b.low, m_mul(m, a.low, b.high)));
    return result;
}

static Pair add(const Maths *m, Pair a, Pair b) {
    Pair result = add_exact(m, a.high, b.high);
    result.low = m_add(m, result.low, m_add(m, a.low, b.low));
    return result;
}

static Pair constant_pair(const Maths *m, MathsConstant high, MathsConstant low) {
    return (Pair){m_constant(m, high), m_constant(m, low)};
}

/* ---- |x|^y for finite a = |x| > 0 ---- */

/* s = (f - 1) / (f + 1) */
static Pair quotient(const Maths *m, LLVMValueRef f) {
    LLVMValueRef one = m_real(m, 1), numerator = m_sub(m, f, one);
    LLVMValueRef denominator = m_add(m, f, one);
    LLVMValueRef lost = m_sub(m, f, m_sub(m, denominator, one));
    LLVMValueRef high = m_div(m, numerator, denominator);
    Pair back = multiply_exact(m, high, denominator);
    LLVMValueRef rest = m_sub(m, m_sub(m, numerator, back.high), back.low);
    return (Pair){high, m_div(m, m_sub(m, rest, m_mul(m, high, lost)), denominator)};
}

/* 2/ln 2 atanh(s) + k, atanh(s) = s + s z (1/3 + z P(z)), z = s^2; relative error below 2^-62. */
static Pair log2_pair(const Maths *m, LLVMValueRef a) {
    LLVMValueRef k;
    Pair s = quotient(m, m_split(m, a, &k));
    Pair z = multiply(m, s, s);
    Pair tail = {m_mul(m, z.high, m_polynomial(m, POLYNOMIAL_POW_LOG_F64, z.high)), m_real(m, 0)};
    Pair inner = multiply(m, z, add(m, constant_pair(m, CONSTANT_THIRD_HIGH_F64, CONSTANT_THIRD_LOW_F64), tail));
    Pair atanh = add(m, s, multiply(m, s, inner));
    Pair log2 = multiply(m, atanh, constant_pair(m, CONSTANT_TWO_LOG2E_HIGH_F64, CONSTANT_TWO_LOG2E_LOW_F64));
    return add(m, (Pair){m_from_int(m, k), m_real(m, 0)}, log2);
}

static LLVMValueRef power_f64(const Maths *m, LLVMValueRef a, LLVMValueRef y) {
    LLVMValueRef bounded = m_at_most(m, m_at_least(m, y, -0x1p66), 0x1p66); /* beyond, only 1 is neither 0 nor infinite; products stay finite */
    Pair t = multiply(m, (Pair){bounded, m_real(m, 0)}, log2_pair(m, a));
    LLVMValueRef limit = m_at_most(m, m_at_least(m, t.high, -1100), 1100);
    LLVMValueRef low = m_select(m, m_compare(m, LLVMRealOEQ, limit, t.high), t.low, m_real(m, 0));
    LLVMValueRef bits, k = m_round_mad(m, limit, m_real(m, 1), &bits);
    LLVMValueRef r = m_add(m, m_sub(m, limit, k), low);
    return m_scale(m, m_mad(m, r, m_polynomial(m, POLYNOMIAL_EXP2_F64, r), m_real(m, 1)), bits);
}

static LLVMValueRef power_f32(const Maths *m, LLVMValueRef a, LLVMValueRef y) {
    LLVMBuilderRef builder = m->e->builder;
    Maths d = maths_of(m->e, true);
    LLVMValueRef one = m_real(&d, 1), k;
    LLVMValueRef f = m_split(&d, LLVMBuildFPExt(builder, a, d.type, ""), &k);
    LLVMValueRef s = m_div(&d, m_sub(&d, f, one), m_add(&d, f, one));
    LLVMValueRef log2 = m_mad(&d, s, m_polynomial(&d, POLYNOMIAL_POWF_LOG2_F64, m_mul(&d, s, s)), m_from_int(&d, k));
    LLVMValueRef t = m_mul(&d, log2, LLVMBuildFPExt(builder, y, d.type, ""));
    t = m_at_most(&d, m_at_least(&d, t, -200), 200);
    LLVMValueRef bits;
    k = m_round_mad(&d, t, one, &bits);
    LLVMValueRef r = m_sub(&d, t, k);
    LLVMValueRef power = m_scale(&d, m_mad(&d, r, m_polynomial(&d, POLYNOMIAL_POWF_EXP2_F64, r), one), bits);
    return LLVMBuildFPTrunc(builder, power, m->type, "");
}

/* ---- special cases ---- */

static LLVMValueRef is_integer(const Maths *m, LLVMValueRef y) {
    return m_compare(m, LLVMRealOEQ, m_intrinsic(m, "llvm.trunc", y), y);
}

LLVMValueRef maths_pow(const Maths *m, LLVMValueRef x, LLVMValueRef y) {
    LLVMBuilderRef builder = m->e->builder;
    LLVMValueRef zero = m_real(m, 0), one = m_real(m, 1), infinity = m_real(m, (double)INFINITY), a = m_abs(m, x);
    LLVMValueRef power = m->is_f64 ? power_f64(m, a, y) : power_f32(m, a, y);

    LLVMValueRef is_zero = m_compare(m, LLVMRealOEQ, a, zero), is_infinite = m_compare(m, LLVMRealOEQ, a, infinity);
    LLVMValueRef y_negative = m_compare(m, LLVMRealOLT, y, zero);
    LLVMValueRef grows = LLVMBuildXor(builder, is_infinite, y_negative, "");
    power = m_select(m, LLVMBuildOr(builder, is_zero, is_infinite, ""), m_select(m, grows, infinity, zero), power);
    power = m_select(m, m_compare(m, LLVMRealOEQ, a, one), one, power);

    LLVMValueRef integer = is_integer(m, y);
    LLVMValueRef even = is_integer(m, m_mul(m, y, m_real(m, 0.5)));
    LLVMValueRef odd = LLVMBuildAnd(builder, integer, LLVMBuildNot(builder, even, ""), "");
    power = m_xor_sign(m, power, m_select(m, odd, m_sign(m, x), m_int(m, 0)));

    LLVMValueRef below_zero = LLVMBuildAnd(builder, m_compare(m, LLVMRealOLT, x, zero), LLVMBuildNot(builder, is_infinite, ""), "");
    LLVMValueRef invalid = LLVMBuildAnd(builder, below_zero, LLVMBuildNot(builder, integer, ""), "");
    invalid = LLVMBuildOr(builder, invalid, m_compare(m, LLVMRealUNO, x, y), "");
    power = m_select(m, invalid, m_nan(m), power);
    LLVMValueRef is_one = LLVMBuildOr(builder, m_compare(m, LLVMRealOEQ, x, one), m_compare(m, LLVMRealOEQ, y, zero), "");
    return m_select(m, is_one, one, power);
}
