/* exp and what is made of it. x = k ln 2 + r, |r| <= ln 2 / 2; e^x = 2^k e^r. */
#include "compiler/codegen/maths.h"

/* e^x for |x| that 2^k can follow; NaN gives some NaN. */
static LLVMValueRef exp_in_range(const Maths *m, LLVMValueRef x) {
    LLVMValueRef bits, k = m_round_mad(m, x, m_constant(m, MATHS_PICK(m, CONSTANT_LOG2E)), &bits);
    LLVMValueRef minus_k = m_sub(m, m_real(m, -0.0), k);
    LLVMValueRef r = m_mad(m, minus_k, m_constant(m, MATHS_PICK(m, CONSTANT_LN2_HIGH)), x);
    r = m_mad(m, minus_k, m_constant(m, MATHS_PICK(m, CONSTANT_LN2_LOW)), r);
    LLVMValueRef rest = m_polynomial(m, MATHS_PICK(m, POLYNOMIAL_EXP), r);
    LLVMValueRef power = m_add(m, m_mad(m, m_mul(m, r, r), rest, r), m_real(m, 1));
    return m_scale(m, power, bits);
}

/* Where e^x is 0 and infinite for certain. */
static double least_exponent(const Maths *m) {
    return m->is_f64 ? -746 : -104;
}

static double largest_exponent(const Maths *m) {
    return m->is_f64 ? 710 : 89;
}

LLVMValueRef maths_exp(const Maths *m, LLVMValueRef x) {
    LLVMValueRef inside = m_at_most(m, m_at_least(m, x, least_exponent(m)), largest_exponent(m));
    return m_keep_nan(m, x, exp_in_range(m, inside));
}

LLVMValueRef maths_exp2(const Maths *m, LLVMValueRef x) {
    LLVMValueRef inside = m_at_most(m, m_at_least(m, x, m->is_f64 ? -1076 : -151), m->is_f64 ? 1025 : 129);
    LLVMValueRef bits, k = m_round_mad(m, inside, m_real(m, 1), &bits);
    LLVMValueRef r = m_sub(m, inside, k);
    LLVMValueRef power = m_mad(m, r, m_polynomial(m, MATHS_PICK(m, POLYNOMIAL_EXP2), r), m_real(m, 1));
    return m_keep_nan(m, x, m_scale(m, power, bits));
}

/* Odd: of |x|, by a polynomial near 0 and as 1 - 2 / (e^2|x| + 1) beyond. */
LLVMValueRef maths_tanh(const Maths *m, LLVMValueRef x) {
    LLVMValueRef a = m_abs(m, x), z = m_mul(m, a, a);
    LLVMValueRef near = m_mad(m, m_mul(m, a, z), m_polynomial(m, MATHS_PICK(m, POLYNOMIAL_TANH), z), a);
    LLVMValueRef power = exp_in_range(m, m_at_most(m, m_add(m, a, a), m->is_f64 ? 40 : 20)); /* from here on it is 1 */
    LLVMValueRef far = m_sub(m, m_real(m, 1), m_div(m, m_real(m, 2), m_add(m, power, m_real(m, 1))));
    LLVMValueRef result = m_select(m, m_compare(m, LLVMRealOLT, a, m_real(m, 0.5625)), near, far);
    return m_keep_nan(m, x, m_xor_sign(m, result, m_sign(m, x)));
}

/* 1 / (1 + e^-x), or e^x / (1 + e^x) below 0, so that nothing overflows or cancels. */
LLVMValueRef maths_sigmoid(const Maths *m, LLVMValueRef x) {
    LLVMValueRef minus_a = m_sub(m, m_real(m, -0.0), m_abs(m, x));
    LLVMValueRef power = exp_in_range(m, m_at_least(m, minus_a, least_exponent(m)));
    LLVMValueRef above = m_select(m, m_compare(m, LLVMRealOLT, x, m_real(m, 0)), power, m_real(m, 1));
    return m_keep_nan(m, x, m_div(m, above, m_add(m, power, m_real(m, 1))));
}

/* Odd: of |x|, by a polynomial up to 1 and as 1 - e^log(erfc|x|) beyond. */
LLVMValueRef maths_erf(const Maths *m, LLVMValueRef x) {
    LLVMValueRef a = m_abs(m, x);
    LLVMValueRef near = m_mad(m, a, m_polynomial(m, MATHS_PICK(m, POLYNOMIAL_ERF), m_mul(m, a, a)), a);
    LLVMValueRef u = m_sub(m, m_at_most(m, a, m->is_f64 ? 6 : 4), m_real(m, 1)); /* from here on it is 1 */
    LLVMValueRef far = m_sub(m, m_real(m, 1), exp_in_range(m, m_polynomial(m, MATHS_PICK(m, POLYNOMIAL_ERFC), u)));
    LLVMValueRef result = m_select(m, m_compare(m, LLVMRealOLT, a, m_real(m, 1)), near, far);
    return m_keep_nan(m, x, m_xor_sign(m, result, m_sign(m, x)));
}
