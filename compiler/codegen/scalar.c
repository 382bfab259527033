/* Element-level values and arithmetic: what one element of an element-wise op compiles to, by the integer and rounding rules of LANGUAGE.md 3. */
#include "compiler/codegen/emit.h"

#include <stdlib.h>
#include <string.h>

LLVMTypeRef value_type(const Emitter *e, PhbDType dtype) {
    switch (dtype) {
    case PHB_F16:
    case PHB_BF16:
    case PHB_F32:
        return e->f32;
    case PHB_BOOL:
        return e->i1;
    default:
        return memory_type(e, dtype);
    }
}

LLVMTypeRef memory_type(const Emitter *e, PhbDType dtype) {
    switch (dtype) {
    case PHB_F32:
        return e->f32;
    case PHB_F64:
        return e->f64;
    case PHB_I8:
    case PHB_U8:
    case PHB_BOOL:
        return e->i8;
    case PHB_F16:
    case PHB_BF16:
    case PHB_I16:
    case PHB_U16:
        return e->i16;
    case PHB_I32:
    case PHB_U32:
        return e->i32;
    case PHB_I64:
    case PHB_U64:
        return e->i64;
    case PHB_DTYPE_COUNT:
        break;
    }
    abort();
}

LLVMValueRef value_from_memory(Emitter *e, PhbDType dtype, LLVMValueRef stored) {
    if (dtype == PHB_F16 || dtype == PHB_BF16)
        return emit_half_expand(e, dtype, stored);
    if (dtype == PHB_BOOL)
        return LLVMBuildICmp(e->builder, LLVMIntNE, stored, LLVMConstNull(e->i8), "");
    return stored;
}

LLVMValueRef value_to_memory(Emitter *e, PhbDType dtype, LLVMValueRef value) {
    if (dtype == PHB_F16 || dtype == PHB_BF16)
        return emit_half_compress(e, dtype, value);
    if (dtype == PHB_BOOL)
        return LLVMBuildZExt(e->builder, value, e->i8, "");
    return value;
}

/* Of a float that was rounded to 16 bits and back, the one before: it rounds to the same. */
static LLVMValueRef before_rounding(LLVMValueRef value) {
    LLVMValueRef half = LLVMIsAFPExtInst(value) ? LLVMGetOperand(value, 0) : value;
    while (LLVMIsABitCastInst(half))
        half = LLVMGetOperand(half, 0);
    return LLVMIsAFPTruncInst(half) ? LLVMGetOperand(half, 0) : value;
}

static LLVMValueRef pack_pair(Emitter *e, const char *name, LLVMTypeRef half, LLVMValueRef low, LLVMValueRef high) {
    LLVMTypeRef parameters[2] = {e->f32, e->f32}, type = LLVMFunctionType(LLVMVectorType(half, 2), parameters, 2, false);
    LLVMValueRef function = LLVMGetNamedFunction(e->module, name), operands[2] = {before_rounding(high), before_rounding(low)};
    LLVMValueRef pair = LLVMBuildCall2(e->builder, type, function ? function : LLVMAddFunction(e->module, name, type), operands, 2, "");
    return LLVMBuildBitCast(e->builder, pair, e->i32, "");
}

LLVMValueRef values_to_memory(Emitter *e, PhbDType dtype, LLVMValueRef const *values, int count) {
    const char *pack = dtype == PHB_F16 ? e->level->pack_f16 : dtype == PHB_BF16 ? e->level->pack_bf16 : NULL;
    LLVMTypeRef memory = memory_type(e, dtype), type = count > 1 ? LLVMVectorType(memory, (unsigned)count) : memory;
    int step = pack && count > 1 ? 2 : 1;
    if (count == 1)
        return value_to_memory(e, dtype, values[0]);
    LLVMValueRef vector = LLVMGetPoison(step == 2 ? LLVMVectorType(e->i32, (unsigned)count / 2) : type);
    for (int i = 0; i < count; i += step) {
        LLVMValueRef part =
            step == 2 ? pack_pair(e, pack, dtype == PHB_F16 ? e->f16 : e->bf16, values[i], values[i + 1]) : value_to_memory(e, dtype, values[i]);
        vector = LLVMBuildInsertElement(e->builder, vector, part, LLVMConstInt(e->i32, (unsigned)(i / step), false), "");
    }
    return LLVMBuildBitCast(e->builder, vector, type, "");
}

LLVMValueRef value_from_bits(Emitter *e, PhbDType dtype, LLVMValueRef bits) {
    LLVMTypeRef type = memory_type(e, dtype);
    if (type == e->f64)
        return LLVMBuildBitCast(e->builder, bits, type, "");
    if (type == e->f32)
        return LLVMBuildBitCast(e->builder, LLVMBuildTrunc(e->builder, bits, e->i32, ""), type, "");
    LLVMValueRef stored = type == e->i64 ? bits : LLVMBuildTrunc(e->builder, bits, type, "");
    return value_from_memory(e, dtype, stored);
}

LLVMValueRef value_const(Emitter *e, PhbDType dtype, uint64_t bits) {
    return value_from_bits(e, dtype, LLVMConstInt(e->i64, bits, false));
}

LLVMValueRef emit_int_const(const Emitter *e, int64_t value) {
    return LLVMConstInt(e->i64, (uint64_t)value, true);
}

LLVMValueRef emit_min(Emitter *e, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildSelect(e->builder, LLVMBuildICmp(e->builder, LLVMIntSLT, a, b, ""), a, b, "");
}

LLVMValueRef emit_max(Emitter *e, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildSelect(e->builder, LLVMBuildICmp(e->builder, LLVMIntSGT, a, b, ""), a, b, "");
}

/* Vectors have no division of integers but by constants. That of floats, rounded towards zero, is exact where its significand has more bits than
 * quotients and divisors: nothing between two quotients is so close to the upper one that it rounds to it. */
static LLVMValueRef divide_as_floats(Emitter *e, bool is_signed, LLVMValueRef a, LLVMValueRef b) {
    LLVMBuilderRef builder = e->builder;
    LLVMTypeRef type = LLVMTypeOf(a), real = LLVMGetIntTypeWidth(type) <= 16 ? e->f32 : e->f64;
    if (!is_signed) {
        LLVMValueRef x = LLVMBuildUIToFP(builder, a, real, ""), y = LLVMBuildUIToFP(builder, b, real, "");
        return LLVMBuildFPToUI(builder, LLVMBuildFDiv(builder, x, y, ""), type, "");
    }
    LLVMValueRef x = LLVMBuildSIToFP(builder, a, real, ""), y = LLVMBuildSIToFP(builder, b, real, "");
    return LLVMBuildFPToSI(builder, LLVMBuildFDiv(builder, x, y, ""), type, "");
}

static bool divides_as_floats(const Emitter *e, LLVMValueRef divisor) {
    return e->level->vector_bytes > 16 && LLVMGetIntTypeWidth(LLVMTypeOf(divisor)) <= 32 && !LLVMIsConstant(divisor);
}

static LLVMValueRef divide(Emitter *e, bool is_signed, LLVMValueRef a, LLVMValueRef divisor) {
    if (divides_as_floats(e, divisor))
        return divide_as_floats(e, is_signed, a, divisor);
    return is_signed ? LLVMBuildSDiv(e->builder, a, divisor, "") : LLVMBuildUDiv(e->builder, a, divisor, "");
}

static LLVMValueRef remainder_of(Emitter *e, bool is_signed, LLVMValueRef a, LLVMValueRef divisor) {
    if (divides_as_floats(e, divisor)) {
        LLVMValueRef whole = LLVMBuildMul(e->builder, divide_as_floats(e, is_signed, a, divisor), divisor, "");
        return LLVMBuildSub(e->builder, a, whole, "");
    }
    return is_signed ? LLVMBuildSRem(e->builder, a, divisor, "") : LLVMBuildURem(e->builder, a, divisor, "");
}

/* x/0 is 0 and x%0 is x; least/-1 wraps to least and least%-1 is 0. The divisor is replaced where the machine would trap. */
static LLVMValueRef emit_int_division(Emitter *e, bool remainder, bool is_signed, LLVMValueRef a, LLVMValueRef b) {
    LLVMBuilderRef builder = e->builder;
    LLVMTypeRef type = LLVMTypeOf(a);
    LLVMValueRef zero = LLVMConstNull(type);
    LLVMValueRef by_zero = LLVMBuildICmp(builder, LLVMIntEQ, b, zero, "");
    LLVMValueRef by_minus_one = LLVMBuildICmp(builder, LLVMIntEQ, b, LLVMConstAllOnes(type), "");
    LLVMValueRef unsafe = is_signed ? LLVMBuildOr(builder, by_zero, by_minus_one, "") : by_zero;
    LLVMValueRef divisor = LLVMBuildSelect(builder, unsafe, LLVMConstInt(type, 1, false), b, "");
    if (remainder)
        return LLVMBuildSelect(builder, by_zero, a, remainder_of(e, is_signed, a, divisor), ""); /* x % -1 is x % 1 */
    LLVMValueRef result = divide(e, is_signed, a, divisor);
    if (is_signed)
        result = LLVMBuildSelect(builder, by_minus_one, LLVMBuildNeg(builder, a, ""), result, "");
    return LLVMBuildSelect(builder, by_zero, zero, result, "");
}

/* By the width or more gives 0, for signed >> the sign. The count is read as unsigned. */
static LLVMValueRef emit_shift(Emitter *e, bool left, bool is_signed, LLVMValueRef a, LLVMValueRef count) {
    LLVMTypeRef type = LLVMTypeOf(a);
    LLVMValueRef last = LLVMConstInt(type, LLVMGetIntTypeWidth(type) - 1, false);
    LLVMValueRef in_width = LLVMBuildICmp(e->builder, LLVMIntULE, count, last, "");
    LLVMValueRef safe = LLVMBuildSelect(e->builder, in_width, count, last, "");
    if (!left && is_signed)
        return LLVMBuildAShr(e->builder, a, safe, "");
    LLVMValueRef shifted = left ? LLVMBuildShl(e->builder, a, safe, "") : LLVMBuildLShr(e->builder, a, safe, "");
    return LLVMBuildSelect(e->builder, in_width, shifted, LLVMConstNull(type), "");
}

LLVMValueRef emit_intrinsic(Emitter *e, const char *name, LLVMValueRef const *arguments, int count) {
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMTypeRef type = LLVMTypeOf(arguments[0]), parameters[3];
    for (int i = 0; i < count; i++)
        parameters[i] = LLVMTypeOf(arguments[i]);
    LLVMValueRef function = LLVMGetIntrinsicDeclaration(e->module, id, &type, 1);
    return LLVMBuildCall2(
        e->builder, LLVMFunctionType(type, parameters, (unsigned)count, false), function, (LLVMValueRef *)arguments, (unsigned)count, "");
}

/* The number if one is NaN, -0 < +0. Equal numbers have equal bits unless they are zeros: of those, `and` finds the larger, `or` the smaller. Works
 * on vectors, too. */
LLVMValueRef emit_float_extreme(Emitter *e, bool is_max, LLVMValueRef a, LLVMValueRef b) {
    LLVMBuilderRef builder = e->builder;
    if (e->level->has_extremes && LLVMTypeOf(a) == e->f32)
        return emit_intrinsic(e, is_max ? "llvm.maxnum" : "llvm.minnum", (LLVMValueRef[]){a, b}, 2);
    LLVMTypeRef type = LLVMTypeOf(a), bits = LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type;
    bits = bits == e->f32 ? e->i32 : e->i64;
    if (LLVMGetTypeKind(type) == LLVMVectorTypeKind)
        bits = LLVMVectorType(bits, LLVMGetVectorSize(type));
    LLVMValueRef a_bits = LLVMBuildBitCast(builder, a, bits, ""), b_bits = LLVMBuildBitCast(builder, b, bits, "");
    LLVMValueRef zero = is_max ? LLVMBuildAnd(builder, a_bits, b_bits, "") : LLVMBuildOr(builder, a_bits, b_bits, "");
    LLVMValueRef larger = LLVMBuildFCmp(builder, is_max ? LLVMRealOGT : LLVMRealOLT, a, b, "");
    LLVMValueRef result = LLVMBuildSelect(builder, larger, a, b, "");
    result = LLVMBuildSelect(builder, LLVMBuildFCmp(builder, LLVMRealOEQ, a, b, ""), LLVMBuildBitCast(builder, zero, type, ""), result, "");
    return LLVMBuildSelect(builder, LLVMBuildFCmp(builder, LLVMRealUNO, b, b, ""), a, result, "");
}

LLVMValueRef emit_int_extreme(Emitter *e, bool is_max, bool is_signed, LLVMValueRef a, LLVMValueRef b) {
    LLVMIntPredicate predicate = is_max ? (is_signed ? LLVMIntSGT : LLVMIntUGT) : (is_signed ? LLVMIntSLT : LLVMIntULT);
    return LLVMBuildSelect(e->builder, LLVMBuildICmp(e->builder, predicate, a, b, ""), a, b, "");
}

static void allow_fast(const Emitter *e, LLVMValueRef result) {
    if (e->fastmath && LLVMCanValueUseFastMathFlags(result))
        LLVMSetFastMathFlags(result,
            LLVMFastMathAllowReassoc | LLVMFastMathAllowContract | LLVMFastMathAllowReciprocal | LLVMFastMathNoSignedZeros | LLVMFastMathApproxFunc);
}

/* f32 arithmetic on f16 and bf16 values, rounded again, equals theirs: f32 has more than twice their digits and two. */
static LLVMValueRef emit_float_op(Emitter *e, OpKind kind, PhbDType dtype, const LLVMValueRef operands[3]) {
    LLVMValueRef a = operands[0], b = operands[1], result;
    switch (kind) {
    case OP_ADD:
        result = LLVMBuildFAdd(e->builder, a, b, "");
        break;
    case OP_SUB:
        result = LLVMBuildFSub(e->builder, a, b, "");
        break;
    case OP_MUL:
        result = LLVMBuildFMul(e->builder, a, b, "");
        break;
    case OP_DIV:
        result = LLVMBuildFDiv(e->builder, a, b, "");
        break;
    case OP_FMA:
        result = emit_fma(e, a, b, operands[2]);
        break;
    case OP_REM:
        return emit_fmod(e, LLVMTypeOf(a), a, b);
    case OP_NEG:
        return LLVMBuildFNeg(e->builder, a, "");
    case OP_ABS:
        return emit_intrinsic(e, "llvm.fabs", operands, 1);
    case OP_MIN:
    case OP_MAX:
        return emit_float_extreme(e, kind == OP_MAX, a, b);
    default:
        result = emit_maths(e, kind, dtype, a, b);
    }
    allow_fast(e, result);
    return dtype == PHB_F16 || dtype == PHB_BF16 ? emit_half_round(e, dtype, result) : result;
}

static LLVMValueRef emit_int_op(Emitter *e, OpKind kind, bool is_signed, LLVMValueRef a, LLVMValueRef b) {
    LLVMBuilderRef builder = e->builder;
    switch (kind) {
    case OP_ADD:
        return LLVMBuildAdd(builder, a, b, "");
    case OP_SUB:
        return LLVMBuildSub(builder, a, b, "");
    case OP_MUL:
        return LLVMBuildMul(builder, a, b, "");
    case OP_DIV:
    case OP_REM:
        return emit_int_division(e, kind == OP_REM, is_signed, a, b);
    case OP_AND:
        return LLVMBuildAnd(builder, a, b, "");
    case OP_OR:
        return LLVMBuildOr(builder, a, b, "");
    case OP_XOR:
        return LLVMBuildXor(builder, a, b, "");
    case OP_SHL:
    case OP_SHR:
        return emit_shift(e, kind == OP_SHL, is_signed, a, b);
    case OP_NEG:
        return LLVMBuildNeg(builder, a, "");
    case OP_NOT:
        return LLVMBuildNot(builder, a, "");
    case OP_MIN:
    case OP_MAX:
        return emit_int_extreme(e, kind == OP_MAX, is_signed, a, b);
    case OP_ABS:
        return is_signed ? emit_int_extreme(e, true, true, a, LLVMBuildNeg(builder, a, "")) : a;
    case OP_POPCOUNT:
        return emit_intrinsic(e, "llvm.ctpop", &a, 1);
    case OP_CLZ: {
        LLVMValueRef arguments[2] = {a, LLVMConstNull(e->i1)};
        return emit_intrinsic(e, "llvm.ctlz", arguments, 2);
    }
    default:
        abort();
    }
}

static LLVMValueRef emit_compare(Emitter *e, OpKind kind, PhbDType dtype, LLVMValueRef a, LLVMValueRef b) {
    bool is_signed = dtype_is_signed(dtype);
    switch (kind) {
    case OP_EQ:
        return dtype_is_float(dtype) ? LLVMBuildFCmp(e->builder, LLVMRealOEQ, a, b, "") : LLVMBuildICmp(e->builder, LLVMIntEQ, a, b, "");
    case OP_NE:
        return dtype_is_float(dtype) ? LLVMBuildFCmp(e->builder, LLVMRealUNE, a, b, "") : LLVMBuildICmp(e->builder, LLVMIntNE, a, b, "");
    case OP_LT:
        return dtype_is_float(dtype) ? LLVMBuildFCmp(e->builder, LLVMRealOLT, a, b, "")
                                     : LLVMBuildICmp(e->builder, is_signed ? LLVMIntSLT : LLVMIntULT, a, b, "");
    case OP_LE:
        return dtype_is_float(dtype) ? LLVMBuildFCmp(e->builder, LLVMRealOLE, a, b, "")
                                     : LLVMBuildICmp(e->builder, is_signed ? LLVMIntSLE : LLVMIntULE, a, b, "");
    default:
        abort();
    }
}

LLVMValueRef emit_element_op(Emitter *e, OpKind kind, PhbDType dtype, const LLVMValueRef operands[3]) {
    if (op_info[kind].traits & TRAIT_COMPARE)
        return emit_compare(e, kind, dtype, operands[0], operands[1]);
    if (dtype_is_float(dtype))
        return emit_float_op(e, kind, dtype, operands);
    return emit_int_op(e, kind, dtype_is_int(dtype) && dtype_is_signed(dtype), operands[0], operands[1]);
}

/* The same 16 bits, of which LLVM knows no origin; for NVPTX. */
static LLVMValueRef opaque_half(Emitter *e, LLVMValueRef bits) {
    static const char text[] = "mov.b16 $0, $1;", constraints[] = "=h,h";
    LLVMTypeRef type = LLVMFunctionType(e->i16, &e->i16, 1, false);
    LLVMValueRef code = LLVMGetInlineAsm(type, text, strlen(text), constraints, strlen(constraints), false, false, LLVMInlineAsmDialectATT, false);
    return LLVMBuildCall2(e->builder, type, code, &bits, 1, "");
}

static LLVMValueRef emit_bitcast(Emitter *e, PhbDType from, PhbDType to, LLVMValueRef value) {
    LLVMValueRef stored = LLVMBuildBitCast(e->builder, value_to_memory(e, from, value), memory_type(e, to), "");
    bool halves = (from == PHB_BF16 && to == PHB_F16) || (from == PHB_F16 && to == PHB_BF16);
    if (halves && e->level->has_bf16) /* LLVM 19 selects nothing for one as the other, which it would make of this */
        stored = opaque_half(e, stored);
    return value_from_memory(e, to, stored);
}

LLVMValueRef emit_element(Emitter *e, const IrOp *op, const LLVMValueRef operands[3]) {
    PhbDType from = op->operands.items[0]->type->scalar, to = op->results.items[0]->type->scalar;
    switch (op->kind) {
    case OP_CONVERT:
        return emit_convert(e, from, to, operands[0]);
    case OP_BITCAST:
        return emit_bitcast(e, from, to, operands[0]);
    case OP_SELECT:
        return LLVMBuildSelect(e->builder, operands[0], operands[1], operands[2], "");
    default:
        return emit_element_op(e, op->kind, from, operands);
    }
}
