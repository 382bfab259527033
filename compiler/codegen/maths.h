/* What the files of maths share: scalar float and integer operations on one type, f32 or f64, and the table of coefficients.
 *
 * Functions are built from IEEE add, multiply, divide, square root and fma, and from integer operations and selects: no branches, so that the loop
 * around them vectorises, no calls, and nothing whose bits a device may choose. A result that is no number is always
 * the same NaN, but for sqrt, floor and the like, which are the machine's as + is. */
#ifndef PHOBOS_CODEGEN_MATHS_H
#define PHOBOS_CODEGEN_MATHS_H

#include "compiler/codegen/emit.h"

typedef enum MathsPolynomial {
#define MATHS_POLYNOMIAL(name, dtype, ...) POLYNOMIAL_##name##_##dtype,
#define MATHS_CONSTANT(name, dtype, value)
#define MATHS_WORD(bits)
#include "compiler/codegen/maths.def"
} MathsPolynomial;

typedef enum MathsConstant {
#define MATHS_POLYNOMIAL(name, dtype, ...)
#define MATHS_CONSTANT(name, dtype, value) CONSTANT_##name##_##dtype,
#define MATHS_WORD(bits)
#include "compiler/codegen/maths.def"
} MathsConstant;

typedef struct Maths {
    Emitter *e;
    LLVMTypeRef type, bits; /* the float; the integer of its width */
    bool is_f64;
    unsigned fraction; /* bits of the fraction: 23, 52 */
    uint64_t bias;     /* of the exponent: 127, 1023 */
} Maths;

Maths maths_of(Emitter *e, bool is_f64);

/* The row for the type at hand, where there is one for each. */
#define MATHS_PICK(m, row) ((m)->is_f64 ? row##_F64 : row##_F32)

/* ---- maths_ops.c ---- */

LLVMValueRef m_real(const Maths *m, double value);
LLVMValueRef m_int(const Maths *m, uint64_t value);
LLVMValueRef m_constant(const Maths *m, MathsConstant constant);
LLVMValueRef m_nan(const Maths *m);

LLVMValueRef m_add(const Maths *m, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef m_sub(const Maths *m, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef m_mul(const Maths *m, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef m_div(const Maths *m, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef m_mad(const Maths *m, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c); /* a * b + c; rounded once where the level has fma */
LLVMValueRef m_intrinsic(const Maths *m, const char *name, LLVMValueRef a);         /* llvm.sqrt and the like */
LLVMValueRef m_polynomial(const Maths *m, MathsPolynomial polynomial, LLVMValueRef x);

LLVMValueRef m_compare(const Maths *m, LLVMRealPredicate predicate, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef m_select(const Maths *m, LLVMValueRef condition, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef m_at_most(const Maths *m, LLVMValueRef a, double limit); /* NaN stays */
LLVMValueRef m_at_least(const Maths *m, LLVMValueRef a, double limit);
LLVMValueRef m_keep_nan(const Maths *m, LLVMValueRef x, LLVMValueRef result); /* NaN where x is */

LLVMValueRef m_to_bits(const Maths *m, LLVMValueRef a);
LLVMValueRef m_from_bits(const Maths *m, LLVMValueRef a);
LLVMValueRef m_abs(const Maths *m, LLVMValueRef a);
LLVMValueRef m_sign(const Maths *m, LLVMValueRef a);                        /* its bit, alone */
LLVMValueRef m_xor_sign(const Maths *m, LLVMValueRef a, LLVMValueRef sign); /* sign: bits */

/* x to the nearest integer k, |x| < 2^(fraction - 2): k as a float, and as an integer in *bits. x = a * b + c is added up in one go. */
LLVMValueRef m_round_mad(const Maths *m, LLVMValueRef a, LLVMValueRef b, LLVMValueRef *bits);
LLVMValueRef m_from_int(const Maths *m, LLVMValueRef k);              /* exact for small k of either sign */
LLVMValueRef m_scale(const Maths *m, LLVMValueRef a, LLVMValueRef k); /* a * 2^k, rounded once; |k| < 2 bias, a near 1 */
/* x > 0 as m * 2^k, m in [sqrt 1/2, sqrt 2); gives m and k as an integer. Anything for another x. */
LLVMValueRef m_split(const Maths *m, LLVMValueRef x, LLVMValueRef *k);

/* ---- maths_exp.c ---- */

LLVMValueRef maths_exp(const Maths *m, LLVMValueRef x);
LLVMValueRef maths_exp2(const Maths *m, LLVMValueRef x);
LLVMValueRef maths_tanh(const Maths *m, LLVMValueRef x);
LLVMValueRef maths_sigmoid(const Maths *m, LLVMValueRef x);
LLVMValueRef maths_erf(const Maths *m, LLVMValueRef x);

/* ---- maths_log.c ---- */

LLVMValueRef maths_log(const Maths *m, LLVMValueRef x);
LLVMValueRef maths_log2(const Maths *m, LLVMValueRef x);

/* ---- maths_pow.c ---- */

LLVMValueRef maths_pow(const Maths *m, LLVMValueRef x, LLVMValueRef y);

/* ---- maths_trig.c ---- */

LLVMValueRef maths_sin(const Maths *m, LLVMValueRef x);
LLVMValueRef maths_cos(const Maths *m, LLVMValueRef x);

#endif
