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

static LLVMValueRef call_near(Emitter *e, const char *name, LLVMValueRef x) {
    LLVMTypeRef type = LLVMFunctionType(e->f32, &e->f32, 1, false);
    LLVMValueRef function = LLVMGetNamedFunction(e->module, name);
    return LLVMBuildCall2(e->builder, type, function ? function : LLVMAddFunction(e->module, name, type), &x, 1, "");
}

/* A factor of the argument or the result, rounded with what is beside it where the source allows it. */
static LLVMValueRef multiply_near(Emitter *e, LLVMValueRef x, double factor) {
    LLVMValueRef product = LLVMBuildFMul(e->builder, x, LLVMConstReal(e->f32, factor), "");
    if (LLVMCanValueUseFastMathFlags(product))
        LLVMSetFastMathFlags(product, LLVMFastMathAllowContract | LLVMFastMathAllowReassoc);
    return product;
}

/* What @fastmath allows and the machine has an instruction for; NULL: nothing. */
static LLVMValueRef emit_near(Emitter *e, OpKind kind, LLVMValueRef x) {
    const double log2e = 1.44269504088896340736, ln2 = 0.69314718055994530942;
    if (kind == OP_EXP2 && e->level->exp2)
        return call_near(e, e->level->exp2, x);
    if (kind == OP_EXP && e->level->exp2)
        return call_near(e, e->level->exp2, multiply_near(e, x, log2e));
    if (kind == OP_LOG2 && e->level->log2)
        return call_near(e, e->level->log2, x);
    if (kind == OP_LOG && e->level->log2)
        return multiply_near(e, call_near(e, e->level->log2, x), ln2);
    if (kind == OP_SIGMOID && e->level->exp2 && e->level->reciprocal) {
        LLVMValueRef power = call_near(e, e->level->exp2, multiply_near(e, x, -log2e));
        return call_near(e, e->level->reciprocal, LLVMBuildFAdd(e->builder, power, LLVMConstReal(e->f32, 1), ""));
    }
    return NULL;
}

LLVMValueRef emit_maths(Emitter *e, OpKind kind, PhbDType dtype, LLVMValueRef a, LLVMValueRef b) {
    LLVMValueRef near = e->fastmath && dtype != PHB_F64 ? emit_near(e, kind, a) : NULL;
    if (near)
        return near;
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
