/* Scalar operations for maths, and the pieces that several functions need: polynomials, rounding to integers, exponents taken off and put on. */
#include "compiler/codegen/maths.h"

#include <string.h>

Maths maths_of(Emitter *e, bool is_f64) {
    if (is_f64)
        return (Maths){.e = e, .type = e->f64, .bits = e->i64, .is_f64 = true, .fraction = 52, .bias = 1023};
    return (Maths){.e = e, .type = e->f32, .bits = e->i32, .is_f64 = false, .fraction = 23, .bias = 127};
}

/* ---- constants ---- */

LLVMValueRef m_real(const Maths *m, double value) {
    return LLVMConstReal(m->type, value);
}

LLVMValueRef m_int(const Maths *m, uint64_t value) {
    return LLVMConstInt(m->bits, value, false);
}

LLVMValueRef m_constant(const Maths *m, MathsConstant constant) {
    static const double values[] = {
#define MATHS_POLYNOMIAL(name, dtype, ...)
#define MATHS_CONSTANT(name, dtype, value) value,
#define MATHS_WORD(bits)
#include "compiler/codegen/maths.def"
    };
    return m_real(m, values[constant]);
}

LLVMValueRef m_nan(const Maths *m) {
    return LLVMConstBitCast(m_int(m, m->is_f64 ? 0x7ff8000000000000 : 0x7fc00000), m->type);
}

/* ---- arithmetic ---- */

LLVMValueRef m_add(const Maths *m, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildFAdd(m->e->builder, a, b, "");
}

LLVMValueRef m_sub(const Maths *m, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildFSub(m->e->builder, a, b, "");
}

LLVMValueRef m_mul(const Maths *m, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildFMul(m->e->builder, a, b, "");
}

LLVMValueRef m_div(const Maths *m, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildFDiv(m->e->builder, a, b, "");
}

static LLVMValueRef call_intrinsic(const Maths *m, const char *name, LLVMValueRef *arguments, unsigned count) {
    LLVMTypeRef parameters[3] = {m->type, m->type, m->type}, type = m->type;
    LLVMValueRef function = LLVMGetIntrinsicDeclaration(m->e->module, LLVMLookupIntrinsicID(name, strlen(name)), &type, 1);
    return LLVMBuildCall2(m->e->builder, LLVMFunctionType(m->type, parameters, count, false), function, arguments, count, "");
}

LLVMValueRef m_intrinsic(const Maths *m, const char *name, LLVMValueRef a) {
    return call_intrinsic(m, name, &a, 1);
}

/* Without fma llvm.fma would be a call of libm. */
LLVMValueRef m_mad(const Maths *m, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
    if (!m->e->level->has_fma)
        return m_add(m, m_mul(m, a, b), c);
    LLVMValueRef arguments[3] = {a, b, c};
    return call_intrinsic(m, "llvm.fma", arguments, 3);
}

LLVMValueRef m_polynomial(const Maths *m, MathsPolynomial polynomial, LLVMValueRef x) {
    static const struct {
        int count;
        double coefficients[20];
    } rows[] = {
#define MATHS_POLYNOMIAL(name, dtype, ...) {(int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), {__VA_ARGS__}},
#define MATHS_CONSTANT(name, dtype, value)
#define MATHS_WORD(bits)
#include "compiler/codegen/maths.def"
    };
    int i = rows[polynomial].count - 1;
    LLVMValueRef value = m_real(m, rows[polynomial].coefficients[i]);
    while (i-- > 0)
        value = m_mad(m, value, x, m_real(m, rows[polynomial].coefficients[i]));
    return value;
}

/* ---- choices ---- */

LLVMValueRef m_compare(const Maths *m, LLVMRealPredicate predicate, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildFCmp(m->e->builder, predicate, a, b, "");
}

LLVMValueRef m_select(const Maths *m, LLVMValueRef condition, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildSelect(m->e->builder, condition, a, b, "");
}

LLVMValueRef m_at_most(const Maths *m, LLVMValueRef a, double limit) {
    return m_select(m, m_compare(m, LLVMRealOGT, a, m_real(m, limit)), m_real(m, limit), a);
}

LLVMValueRef m_at_least(const Maths *m, LLVMValueRef a, double limit) {
    return m_select(m, m_compare(m, LLVMRealOLT, a, m_real(m, limit)), m_real(m, limit), a);
}

LLVMValueRef m_keep_nan(const Maths *m, LLVMValueRef x, LLVMValueRef result) {
    return m_select(m, m_compare(m, LLVMRealUNO, x, x), m_nan(m), result);
}

/* ---- bits ---- */

LLVMValueRef m_to_bits(const Maths *m, LLVMValueRef a) {
    return LLVMBuildBitCast(m->e->builder, a, m->bits, "");
}

LLVMValueRef m_from_bits(const Maths *m, LLVMValueRef a) {
    return LLVMBuildBitCast(m->e->builder, a, m->type, "");
}

static uint64_t sign_bit(const Maths *m) {
    return m->is_f64 ? 1ull << 63 : 1ull << 31;
}

LLVMValueRef m_abs(const Maths *m, LLVMValueRef a) {
    return m_from_bits(m, LLVMBuildAnd(m->e->builder, m_to_bits(m, a), m_int(m, sign_bit(m) - 1), ""));
}

LLVMValueRef m_sign(const Maths *m, LLVMValueRef a) {
    return LLVMBuildAnd(m->e->builder, m_to_bits(m, a), m_int(m, sign_bit(m)), "");
}

LLVMValueRef m_xor_sign(const Maths *m, LLVMValueRef a, LLVMValueRef sign) {
    return m_from_bits(m, LLVMBuildXor(m->e->builder, m_to_bits(m, a), sign, ""));
}

/* ---- exponents ---- */

/* 1.5 * 2^fraction: a sum with it has no fraction, and k in its low bits. */
static LLVMValueRef rounder(const Maths *m) {
    return m_real(m, m->is_f64 ? 0x1.8p52 : 0x1.8p23);
}

LLVMValueRef m_round_mad(const Maths *m, LLVMValueRef a, LLVMValueRef b, LLVMValueRef *bits) {
    LLVMValueRef sum = m_mad(m, a, b, rounder(m));
    *bits = LLVMBuildSub(m->e->builder, m_to_bits(m, sum), m_to_bits(m, rounder(m)), "");
    return m_sub(m, sum, rounder(m));
}

LLVMValueRef m_from_int(const Maths *m, LLVMValueRef k) {
    LLVMValueRef sum = LLVMBuildAdd(m->e->builder, k, m_to_bits(m, rounder(m)), "");
    return m_sub(m, m_from_bits(m, sum), rounder(m));
}

/* In two steps, for 2^k may be out of range where the product is in it. The first is exact. */
LLVMValueRef m_scale(const Maths *m, LLVMValueRef a, LLVMValueRef k) {
    LLVMBuilderRef builder = m->e->builder;
    LLVMValueRef both = LLVMBuildAdd(builder, k, m_int(m, 2 * m->bias), "");
    LLVMValueRef first = LLVMBuildLShr(builder, both, m_int(m, 1), "");
    LLVMValueRef second = LLVMBuildSub(builder, both, first, "");
    a = m_mul(m, a, m_from_bits(m, LLVMBuildShl(builder, first, m_int(m, m->fraction), "")));
    return m_mul(m, a, m_from_bits(m, LLVMBuildShl(builder, second, m_int(m, m->fraction), "")));
}

LLVMValueRef m_split(const Maths *m, LLVMValueRef x, LLVMValueRef *k) {
    LLVMBuilderRef builder = m->e->builder;
    uint64_t one = m->bias << m->fraction, root = m->is_f64 ? 0x3fe6a09e667f3bcd : 0x3f3504f3; /* sqrt 1/2 */
    LLVMValueRef subnormal = m_compare(m, LLVMRealOLT, x, m_real(m, m->is_f64 ? 0x1p-1022 : 0x1p-126));
    LLVMValueRef normal = m_select(m, subnormal, m_mul(m, x, m_real(m, m->is_f64 ? 0x1p53 : 0x1p24)), x);
    LLVMValueRef bias = m_select(m, subnormal, m_int(m, m->bias + m->fraction + 1), m_int(m, m->bias));
    LLVMValueRef bits = LLVMBuildAdd(builder, m_to_bits(m, normal), m_int(m, one - root), "");
    *k = LLVMBuildSub(builder, LLVMBuildLShr(builder, bits, m_int(m, m->fraction), ""), bias, "");
    LLVMValueRef fraction = LLVMBuildAnd(builder, bits, m_int(m, (1ull << m->fraction) - 1), "");
    return m_from_bits(m, LLVMBuildAdd(builder, fraction, m_int(m, root), ""));
}
