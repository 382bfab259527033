/* The element-wise functions of LANGUAGE.md 5 on floats, one op a row. */
#include "compiler/codegen/maths.h"

#include <stdlib.h>

static LLVMValueRef reciprocal_root(const Maths *m, LLVMValueRef x) {
    LLVMValueRef value = m_div(m, m_real(m, 1), m_intrinsic(m, "llvm.sqrt", x));
    return m_select(m, m_compare(m, LLVMRealULT, x, m_real(m, 0)), m_nan(m), value);
}

static bool is_polynomial(OpKind kind) {
    return kind >= OP_POW && kind <= OP_COS && kind != OP_SQRT && kind != OP_RSQRT;
}

LLVMValueRef emit_maths(Emitter *e, OpKind kind, PhbDType dtype, LLVMValueRef a, LLVMValueRef b) {
    if (is_polynomial(kind))
        function_use_widest(e, LLVMGetBasicBlockParent(LLVMGetInsertBlock(e->builder)));
    Maths m = maths_of(e, dtype == PHB_F64);
    switch (kind) {
    case OP_POW:
        return maths_pow(&m, a, b);
    case OP_EXP:
        return maths_exp(&m, a);
    case OP_EXP2:
        return maths_exp2(&m, a);
    case OP_LOG:
        return maths_log(&m, a);
    case OP_LOG2:
        return maths_log2(&m, a);
    case OP_SQRT:
        return m_intrinsic(&m, "llvm.sqrt", a);
    case OP_RSQRT:
        return reciprocal_root(&m, a);
    case OP_TANH:
        return maths_tanh(&m, a);
    case OP_SIGMOID:
        return maths_sigmoid(&m, a);
    case OP_ERF:
        return maths_erf(&m, a);
    case OP_SIN:
        return maths_sin(&m, a);
    case OP_COS:
        return maths_cos(&m, a);
    case OP_FLOOR:
        return m_intrinsic(&m, "llvm.floor", a);
    case OP_CEIL:
        return m_intrinsic(&m, "llvm.ceil", a);
    case OP_ROUND:
        return m_intrinsic(&m, "llvm.round", a);
    case OP_TRUNC:
        return m_intrinsic(&m, "llvm.trunc", a);
    default:
        abort();
    }
}
