/* Conversions between element types. Those of f16 and bf16 are ours: LLVM would call helpers that libgcc need not have. Wide sources are first
 * rounded to odd, so that no result is rounded twice (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using
 * rounding to odd", 2008). */
#include "compiler/codegen/emit.h"

#include <stdlib.h>

static LLVMValueRef int_const(const Emitter *e, uint64_t value) {
    return LLVMConstInt(e->i32, value, false);
}

static LLVMValueRef float_from_bits(Emitter *e, LLVMValueRef bits) {
    return LLVMBuildBitCast(e->builder, bits, e->f32, "");
}

static LLVMValueRef bits_of(Emitter *e, LLVMValueRef value) {
    return LLVMBuildBitCast(e->builder, value, e->i32, "");
}

static LLVMValueRef is_nan(Emitter *e, LLVMValueRef value) {
    return LLVMBuildFCmp(e->builder, LLVMRealUNO, value, value, "");
}

/* Rounds the magnitude `bits` to a multiple of 2^drop, to nearest even, as an integer: a carry out of the mantissa gives the next exponent, as it
 * should. */
static LLVMValueRef round_bits(Emitter *e, LLVMValueRef bits, unsigned drop) {
    LLVMValueRef odd = LLVMBuildAnd(e->builder, LLVMBuildLShr(e->builder, bits, int_const(e, drop), ""), int_const(e, 1), "");
    LLVMValueRef half = int_const(e, (1u << (drop - 1)) - 1);
    return LLVMBuildAdd(e->builder, bits, LLVMBuildAdd(e->builder, odd, half, ""), "");
}

static LLVMValueRef bf16_compress(Emitter *e, LLVMValueRef value) {
    if (e->level->has_bf16)
        return LLVMBuildBitCast(e->builder, LLVMBuildFPTrunc(e->builder, value, e->bf16, ""), e->i16, "");
    LLVMValueRef bits = bits_of(e, value);
    LLVMValueRef quiet = LLVMBuildOr(e->builder, bits, int_const(e, 0x400000), "");
    LLVMValueRef rounded = LLVMBuildSelect(e->builder, is_nan(e, value), quiet, round_bits(e, bits, 16), "");
    return LLVMBuildTrunc(e->builder, LLVMBuildLShr(e->builder, rounded, int_const(e, 16), ""), e->i16, "");
}

static LLVMValueRef bf16_expand(Emitter *e, LLVMValueRef bits) {
    if (e->level->has_bf16)
        return LLVMBuildFPExt(e->builder, LLVMBuildBitCast(e->builder, bits, e->bf16, ""), e->f32, "");
    return float_from_bits(e, LLVMBuildShl(e->builder, LLVMBuildZExt(e->builder, bits, e->i32, ""), int_const(e, 16), ""));
}

/* Without F16C. Normal results: rebias the exponent and round the bits. Below 2^-14: adding 0.5 makes the f32 adder round at f16's last place, 2^-24.
 */
static LLVMValueRef f16_compress(Emitter *e, LLVMValueRef value) {
    LLVMBuilderRef builder = e->builder;
    if (e->level->has_f16c)
        return LLVMBuildBitCast(builder, LLVMBuildFPTrunc(builder, value, e->f16, ""), e->i16, "");
    LLVMValueRef bits = bits_of(e, value);
    LLVMValueRef sign = LLVMBuildAnd(builder, LLVMBuildLShr(builder, bits, int_const(e, 16), ""), int_const(e, 0x8000), "");
    LLVMValueRef magnitude = LLVMBuildAnd(builder, bits, int_const(e, 0x7fffffff), "");

    LLVMValueRef rebiased = LLVMBuildSub(builder, magnitude, int_const(e, (127u - 15u) << 23), "");
    LLVMValueRef normal = LLVMBuildLShr(builder, round_bits(e, rebiased, 13), int_const(e, 13), "");
    LLVMValueRef half = LLVMConstReal(e->f32, 0.5);
    LLVMValueRef shifted = LLVMBuildFAdd(builder, float_from_bits(e, magnitude), half, "");
    LLVMValueRef subnormal = LLVMBuildSub(builder, bits_of(e, shifted), bits_of(e, half), "");
    LLVMValueRef payload = LLVMBuildAnd(builder, LLVMBuildLShr(builder, magnitude, int_const(e, 13), ""), int_const(e, 0x3ff), "");
    LLVMValueRef nan = LLVMBuildOr(builder, payload, int_const(e, 0x7e00), "");

    LLVMValueRef small = LLVMBuildICmp(builder, LLVMIntULT, magnitude, int_const(e, (127u - 14u) << 23), "");
    LLVMValueRef large = LLVMBuildICmp(builder, LLVMIntUGE, magnitude, int_const(e, (127u + 16u) << 23), "");
    LLVMValueRef result = LLVMBuildSelect(builder, small, subnormal, normal, "");
    result = LLVMBuildSelect(builder, large, int_const(e, 0x7c00), result, "");
    result = LLVMBuildSelect(builder, is_nan(e, value), nan, result, "");
    return LLVMBuildTrunc(builder, LLVMBuildOr(builder, result, sign, ""), e->i16, "");
}

/* Without F16C. Subnormals: the mantissa as an integer times 2^-24 is exact. */
static LLVMValueRef f16_expand(Emitter *e, LLVMValueRef stored) {
    LLVMBuilderRef builder = e->builder;
    if (e->level->has_f16c)
        return LLVMBuildFPExt(builder, LLVMBuildBitCast(builder, stored, e->f16, ""), e->f32, "");
    LLVMValueRef bits = LLVMBuildZExt(builder, stored, e->i32, "");
    LLVMValueRef sign = LLVMBuildShl(builder, LLVMBuildAnd(builder, bits, int_const(e, 0x8000), ""), int_const(e, 16), "");
    LLVMValueRef magnitude = LLVMBuildAnd(builder, bits, int_const(e, 0x7fff), "");
    LLVMValueRef shifted = LLVMBuildShl(builder, magnitude, int_const(e, 13), "");
    LLVMValueRef normal = LLVMBuildAdd(builder, shifted, int_const(e, (127u - 15u) << 23), "");
    LLVMValueRef infinite = LLVMBuildOr(builder, shifted, int_const(e, 0x7f800000), "");
    LLVMValueRef quiet = LLVMBuildOr(builder, infinite, int_const(e, 0x400000), "");
    LLVMValueRef scaled = LLVMBuildFMul(builder, LLVMBuildSIToFP(builder, magnitude, e->f32, ""), LLVMConstReal(e->f32, 0x1p-24), "");

    LLVMValueRef result =
        LLVMBuildSelect(builder, LLVMBuildICmp(builder, LLVMIntULT, magnitude, int_const(e, 0x400), ""), bits_of(e, scaled), normal, "");
    result = LLVMBuildSelect(builder, LLVMBuildICmp(builder, LLVMIntUGE, magnitude, int_const(e, 0x7c00), ""), infinite, result, "");
    result = LLVMBuildSelect(builder, LLVMBuildICmp(builder, LLVMIntUGT, magnitude, int_const(e, 0x7c00), ""), quiet, result, "");
    return float_from_bits(e, LLVMBuildOr(builder, result, sign, ""));
}

LLVMValueRef emit_half_compress(Emitter *e, PhbDType dtype, LLVMValueRef value) {
    return dtype == PHB_F16 ? f16_compress(e, value) : bf16_compress(e, value);
}

LLVMValueRef emit_half_expand(Emitter *e, PhbDType dtype, LLVMValueRef bits) {
    return dtype == PHB_F16 ? f16_expand(e, bits) : bf16_expand(e, bits);
}

LLVMValueRef emit_half_round(Emitter *e, PhbDType dtype, LLVMValueRef value) {
    return emit_half_expand(e, dtype, emit_half_compress(e, dtype, value));
}

/* The f32 towards zero, its last bit set where that is not exact. */
static LLVMValueRef f64_to_f32_odd(Emitter *e, LLVMValueRef value) {
    LLVMBuilderRef builder = e->builder;
    LLVMValueRef nearest = LLVMBuildFPTrunc(builder, value, e->f32, "");
    LLVMValueRef back = LLVMBuildFPExt(builder, nearest, e->f64, "");
    LLVMValueRef bits = bits_of(e, nearest);
    /* Of one sign, so the larger magnitude is the one whose integer image is larger. */
    LLVMValueRef away = LLVMBuildICmp(builder, LLVMIntSGT,
        LLVMBuildAnd(builder, LLVMBuildBitCast(builder, back, e->i64, ""), LLVMConstInt(e->i64, INT64_MAX, false), ""),
        LLVMBuildAnd(builder, LLVMBuildBitCast(builder, value, e->i64, ""), LLVMConstInt(e->i64, INT64_MAX, false), ""), "");
    LLVMValueRef inexact = LLVMBuildFCmp(builder, LLVMRealONE, back, value, "");
    LLVMValueRef truncated = LLVMBuildSub(builder, bits, LLVMBuildZExt(builder, away, e->i32, ""), "");
    LLVMValueRef odd = LLVMBuildOr(builder, truncated, int_const(e, 1), "");
    return float_from_bits(e, LLVMBuildSelect(builder, inexact, odd, bits, ""));
}

/* The integer with its 11 low bits rounded to odd: 53 bits at most, exact in f64, and far more than f16 and bf16 look at. */
static LLVMValueRef i64_to_f64_odd(Emitter *e, bool is_signed, LLVMValueRef value) {
    LLVMBuilderRef builder = e->builder;
    LLVMValueRef low = LLVMBuildAnd(builder, value, LLVMConstInt(e->i64, 0x7ff, false), "");
    LLVMValueRef sticky = LLVMBuildZExt(builder, LLVMBuildICmp(builder, LLVMIntNE, low, LLVMConstNull(e->i64), ""), e->i64, "");
    LLVMValueRef high =
        LLVMBuildOr(builder, LLVMBuildXor(builder, value, low, ""), LLVMBuildShl(builder, sticky, LLVMConstInt(e->i64, 11, false), ""), "");
    LLVMValueRef limit = LLVMConstInt(e->i64, 1ull << 53, false);
    LLVMValueRef size = value;
    if (is_signed) {
        LLVMValueRef negative = LLVMBuildICmp(builder, LLVMIntSLT, value, LLVMConstNull(e->i64), "");
        size = LLVMBuildSelect(builder, negative, LLVMBuildNeg(builder, value, ""), value, "");
    }
    LLVMValueRef wide = LLVMBuildICmp(builder, LLVMIntUGE, size, limit, "");
    LLVMValueRef kept = LLVMBuildSelect(builder, wide, high, value, "");
    return is_signed ? LLVMBuildSIToFP(builder, kept, e->f64, "") : LLVMBuildUIToFP(builder, kept, e->f64, "");
}

static LLVMValueRef convert_float(Emitter *e, PhbDType from, PhbDType to, LLVMValueRef value) {
    if (to == PHB_F64)
        return from == PHB_F64 ? value : LLVMBuildFPExt(e->builder, value, e->f64, "");
    if (to == PHB_F32)
        return from == PHB_F64 ? LLVMBuildFPTrunc(e->builder, value, e->f32, "") : value;
    if (from == PHB_F64)
        value = f64_to_f32_odd(e, value);
    return emit_half_round(e, to, value);
}

static LLVMValueRef convert_int_to_float(Emitter *e, PhbDType from, PhbDType to, LLVMValueRef value) {
    bool is_signed = dtype_is_int(from) && dtype_is_signed(from);
    if (to == PHB_F32 || to == PHB_F64) {
        LLVMTypeRef type = value_type(e, to);
        return is_signed ? LLVMBuildSIToFP(e->builder, value, type, "") : LLVMBuildUIToFP(e->builder, value, type, "");
    }
    if (dtype_bits(from) <= 16) { /* exact in f32 */
        LLVMValueRef exact = is_signed ? LLVMBuildSIToFP(e->builder, value, e->f32, "") : LLVMBuildUIToFP(e->builder, value, e->f32, "");
        return emit_half_round(e, to, exact);
    }
    LLVMValueRef wide = dtype_bits(from) == 64 ? i64_to_f64_odd(e, is_signed, value)
                        : is_signed            ? LLVMBuildSIToFP(e->builder, value, e->f64, "")
                                               : LLVMBuildUIToFP(e->builder, value, e->f64, "");
    return emit_half_round(e, to, f64_to_f32_odd(e, wide));
}

/* Truncates and saturates; NaN gives 0. */
static LLVMValueRef convert_float_to_int(Emitter *e, PhbDType to, LLVMValueRef value) {
    const char *name = dtype_is_signed(to) ? "llvm.fptosi.sat" : "llvm.fptoui.sat";
    unsigned id = LLVMLookupIntrinsicID(name, dtype_is_signed(to) ? sizeof "llvm.fptosi.sat" - 1 : sizeof "llvm.fptoui.sat" - 1);
    LLVMTypeRef types[2] = {value_type(e, to), LLVMTypeOf(value)};
    LLVMValueRef function = LLVMGetIntrinsicDeclaration(e->module, id, types, 2);
    return LLVMBuildCall2(e->builder, LLVMFunctionType(types[0], &types[1], 1, false), function, &value, 1, "");
}

LLVMValueRef emit_convert(Emitter *e, PhbDType from, PhbDType to, LLVMValueRef value) {
    if (from == to)
        return value;
    if (dtype_is_float(from)) {
        if (dtype_is_float(to))
            return convert_float(e, from, to, value);
        if (to == PHB_BOOL)
            return LLVMBuildFCmp(e->builder, LLVMRealUNE, value, LLVMConstNull(LLVMTypeOf(value)), "");
        return convert_float_to_int(e, to, value);
    }
    if (dtype_is_float(to))
        return convert_int_to_float(e, from, to, value);
    if (to == PHB_BOOL)
        return LLVMBuildICmp(e->builder, LLVMIntNE, value, LLVMConstNull(LLVMTypeOf(value)), "");
    if (from == PHB_BOOL)
        return LLVMBuildZExt(e->builder, value, value_type(e, to), "");
    if (dtype_bits(from) == dtype_bits(to))
        return value;
    if (dtype_bits(from) > dtype_bits(to))
        return LLVMBuildTrunc(e->builder, value, value_type(e, to), "");
    return dtype_is_signed(from) ? LLVMBuildSExt(e->builder, value, value_type(e, to), "") : LLVMBuildZExt(e->builder, value, value_type(e, to), "");
}
