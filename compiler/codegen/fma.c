/* a * b + c, rounded once, also on CPUs without the instruction, where LLVM would call libm. Without it: exact product and error-free sums, the last
 * but one rounded to odd (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008). */
#include "compiler/codegen/emit.h"

typedef struct Pair {
    LLVMValueRef high, low; /* high + low, unevaluated */
} Pair;

static LLVMValueRef add(Emitter *e, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildFAdd(e->builder, a, b, "");
}

static LLVMValueRef sub(Emitter *e, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildFSub(e->builder, a, b, "");
}

static LLVMValueRef mul(Emitter *e, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildFMul(e->builder, a, b, "");
}

static Pair sum_exact(Emitter *e, LLVMValueRef a, LLVMValueRef b) {
    LLVMValueRef sum = add(e, a, b), part = sub(e, sum, a);
    return (Pair){sum, add(e, sub(e, a, sub(e, sum, part)), sub(e, b, part))};
}

/* Veltkamp's halves of 26 bits. */
static Pair split(Emitter *e, LLVMValueRef a) {
    LLVMValueRef scaled = mul(e, a, LLVMConstReal(e->f64, 0x1p27 + 1));
    LLVMValueRef high = sub(e, scaled, sub(e, scaled, a));
    return (Pair){high, sub(e, a, high)};
}

static Pair product_exact(Emitter *e, LLVMValueRef a, LLVMValueRef b) {
    Pair x = split(e, a), y = split(e, b);
    LLVMValueRef product = mul(e, a, b);
    LLVMValueRef low = sub(e, mul(e, x.high, y.high), product);
    low = add(e, low, mul(e, x.high, y.low));
    low = add(e, low, mul(e, x.low, y.high));
    return (Pair){product, add(e, low, mul(e, x.low, y.low))};
}

/* The f64 sum rounded to odd: where it is not exact and its last bit is 0, the neighbour towards the rest. */
static LLVMValueRef sum_to_odd(Emitter *e, LLVMValueRef a, LLVMValueRef b) {
    LLVMBuilderRef builder = e->builder;
    Pair sum = sum_exact(e, a, b);
    LLVMValueRef zero = LLVMConstNull(e->f64), one = LLVMConstInt(e->i64, 1, false);
    LLVMValueRef bits = LLVMBuildBitCast(builder, sum.high, e->i64, "");
    LLVMValueRef inexact = LLVMBuildFCmp(builder, LLVMRealONE, sum.low, zero, "");
    LLVMValueRef even = LLVMBuildICmp(builder, LLVMIntEQ, LLVMBuildAnd(builder, bits, one, ""), LLVMConstNull(e->i64), "");
    LLVMValueRef grows = LLVMBuildICmp(
        builder, LLVMIntEQ, LLVMBuildFCmp(builder, LLVMRealOGT, sum.low, zero, ""), LLVMBuildFCmp(builder, LLVMRealOGT, sum.high, zero, ""), "");
    LLVMValueRef moved = LLVMBuildSelect(builder, grows, LLVMBuildAdd(builder, bits, one, ""), LLVMBuildSub(builder, bits, one, ""), "");
    LLVMValueRef odd = LLVMBuildSelect(builder, LLVMBuildAnd(builder, inexact, even, ""), moved, bits, "");
    return LLVMBuildBitCast(builder, odd, e->f64, "");
}

static LLVMValueRef fma_f32(Emitter *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
    LLVMValueRef wide[3] = {a, b, c};
    for (int i = 0; i < 3; i++)
        wide[i] = LLVMBuildFPExt(e->builder, wide[i], e->f64, "");
    return LLVMBuildFPTrunc(e->builder, sum_to_odd(e, mul(e, wide[0], wide[1]), wide[2]), e->f32, "");
}

/* Where the parts overflow, the plain sum is what is left. */
static LLVMValueRef fma_f64(Emitter *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
    Pair product = product_exact(e, a, b);
    Pair low = sum_exact(e, c, product.low), high = sum_exact(e, product.high, low.high);
    LLVMValueRef exact = add(e, high.high, sum_to_odd(e, low.low, high.low));
    LLVMValueRef is_nan = LLVMBuildFCmp(e->builder, LLVMRealUNO, exact, exact, "");
    return LLVMBuildSelect(e->builder, is_nan, add(e, product.high, c), exact, "");
}

LLVMValueRef emit_fma(Emitter *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
    if (e->level->has_fma) {
        LLVMValueRef arguments[3] = {a, b, c};
        return emit_intrinsic(e, "llvm.fma", arguments, 3);
    }
    return LLVMTypeOf(a) == e->f32 ? fma_f32(e, a, b, c) : fma_f64(e, a, b, c);
}
