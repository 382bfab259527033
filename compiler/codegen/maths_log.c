/* log and log2. x = m 2^k, f = m - 1, s = f / (2 + f): log(m) = 2 atanh(s) = f - f^2/2 + s (f^2/2 + z P(z)), z = s^2, which keeps the leading term
 * exact. */
#include "compiler/codegen/maths.h"

#include <math.h>

typedef struct LogParts {
    LLVMValueRef k, f, half_square, correction; /* log(x) = k ln 2 + f - (half_square - correction) */
} LogParts;

static LogParts log_parts(const Maths *m, LLVMValueRef x) {
    LLVMValueRef k;
    LLVMValueRef f = m_sub(m, m_split(m, x, &k), m_real(m, 1));
    LLVMValueRef s = m_div(m, f, m_add(m, f, m_real(m, 2)));
    LLVMValueRef z = m_mul(m, s, s);
    LLVMValueRef half_square = m_mul(m, m_mul(m, f, m_real(m, 0.5)), f);
    LLVMValueRef rest = m_mad(m, z, m_polynomial(m, MATHS_PICK(m, POLYNOMIAL_LOG), z), half_square);
    return (LogParts){m_from_int(m, k), f, half_square, m_mul(m, s, rest)};
}

/* The value for x > 0, and what x is otherwise. */
static LLVMValueRef with_special_cases(const Maths *m, LLVMValueRef x, LLVMValueRef value) {
    LLVMValueRef infinity = m_real(m, (double)INFINITY), zero = m_real(m, 0);
    value = m_select(m, m_compare(m, LLVMRealOEQ, x, infinity), x, value);
    value = m_select(m, m_compare(m, LLVMRealOEQ, x, zero), m_real(m, -(double)INFINITY), value);
    return m_select(m, m_compare(m, LLVMRealULT, x, zero), m_nan(m), value);
}

LLVMValueRef maths_log(const Maths *m, LLVMValueRef x) {
    LogParts parts = log_parts(m, x);
    LLVMValueRef low = m_mad(m, parts.k, m_constant(m, MATHS_PICK(m, CONSTANT_LN2_LOW)), parts.correction);
    LLVMValueRef rest = m_sub(m, parts.f, m_sub(m, parts.half_square, low));
    return with_special_cases(m, x, m_mad(m, parts.k, m_constant(m, MATHS_PICK(m, CONSTANT_LN2_HIGH)), rest));
}

LLVMValueRef maths_log2(const Maths *m, LLVMValueRef x) {
    LogParts parts = log_parts(m, x);
    LLVMValueRef log = m_sub(m, parts.f, m_sub(m, parts.half_square, parts.correction));
    return with_special_cases(m, x, m_mad(m, log, m_constant(m, MATHS_PICK(m, CONSTANT_LOG2E)), parts.k));
}
