/* The remainder of two floats with the dividend's sign, exact. LLVM's frem would call libm. Long division on the mantissas in 64-bit integers: each
 * step shifts the remainder by all the bits that are free and takes it modulo the divisor's mantissa. */
#include "compiler/codegen/emit.h"

typedef struct Format {
    unsigned mantissa_bits; /* without the implicit one */
    uint64_t infinity;
} Format;

static LLVMValueRef constant(const Emitter *e, uint64_t value) {
    return LLVMConstInt(e->i64, value, false);
}

static LLVMValueRef magnitude_bits(Emitter *e, LLVMTypeRef bits_type, LLVMValueRef value, LLVMValueRef *sign) {
    LLVMValueRef bits = LLVMBuildZExt(e->builder, LLVMBuildBitCast(e->builder, value, bits_type, ""), e->i64, "");
    LLVMValueRef sign_bit = constant(e, 1ull << (LLVMGetIntTypeWidth(bits_type) - 1));
    *sign = LLVMBuildAnd(e->builder, bits, sign_bit, "");
    return LLVMBuildXor(e->builder, bits, *sign, "");
}

/* value = mantissa * 2^(exponent + c), exponent from 1; subnormals share the exponent of the smallest normals. */
static void split(Emitter *e, Format format, LLVMValueRef magnitude, LLVMValueRef *mantissa, LLVMValueRef *exponent) {
    LLVMBuilderRef builder = e->builder;
    LLVMValueRef field = LLVMBuildLShr(builder, magnitude, constant(e, format.mantissa_bits), "");
    LLVMValueRef subnormal = LLVMBuildICmp(builder, LLVMIntEQ, field, constant(e, 0), "");
    LLVMValueRef fraction = LLVMBuildAnd(builder, magnitude, constant(e, (1ull << format.mantissa_bits) - 1), "");
    LLVMValueRef normal = LLVMBuildOr(builder, fraction, constant(e, 1ull << format.mantissa_bits), "");
    *mantissa = LLVMBuildSelect(builder, subnormal, fraction, normal, "");
    *exponent = LLVMBuildSelect(builder, subnormal, constant(e, 1), field, "");
}

static LLVMValueRef min_unsigned(Emitter *e, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildSelect(e->builder, LLVMBuildICmp(e->builder, LLVMIntULT, a, b, ""), a, b, "");
}

/* The bits of remainder * 2^(exponent + c). */
static LLVMValueRef join(Emitter *e, Format format, LLVMValueRef remainder, LLVMValueRef exponent) {
    LLVMBuilderRef builder = e->builder;
    unsigned ctlz = LLVMLookupIntrinsicID("llvm.ctlz", sizeof "llvm.ctlz" - 1);
    LLVMTypeRef parameters[2] = {e->i64, e->i1};
    LLVMValueRef arguments[2] = {remainder, LLVMConstNull(e->i1)};
    LLVMValueRef leading = LLVMBuildCall2(
        builder, LLVMFunctionType(e->i64, parameters, 2, false), LLVMGetIntrinsicDeclaration(e->module, ctlz, &e->i64, 1), arguments, 2, "");
    LLVMValueRef wanted = LLVMBuildSub(builder, leading, constant(e, 63 - format.mantissa_bits), "");
    LLVMValueRef below = LLVMBuildSub(builder, exponent, constant(e, 1), "");
    LLVMValueRef shift = min_unsigned(e, wanted, below);
    LLVMValueRef field = LLVMBuildShl(builder, LLVMBuildSub(builder, below, shift, ""), constant(e, format.mantissa_bits), "");
    LLVMValueRef bits = LLVMBuildAdd(builder, LLVMBuildShl(builder, remainder, shift, ""), field, "");
    LLVMValueRef is_zero = LLVMBuildICmp(builder, LLVMIntEQ, remainder, constant(e, 0), "");
    return LLVMBuildSelect(builder, is_zero, constant(e, 0), bits, "");
}

static void emit_body(Emitter *e, LLVMValueRef function, LLVMTypeRef type, Format format) {
    LLVMBuilderRef builder = e->builder;
    LLVMTypeRef bits_type = type == e->f32 ? e->i32 : e->i64;
    LLVMValueRef a = LLVMGetParam(function, 0), b = LLVMGetParam(function, 1);
    LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(e->llvm, function, "entry");
    LLVMBasicBlockRef finite = LLVMAppendBasicBlockInContext(e->llvm, function, "finite");
    LLVMBasicBlockRef divide = LLVMAppendBasicBlockInContext(e->llvm, function, "divide");
    LLVMBasicBlockRef step = LLVMAppendBasicBlockInContext(e->llvm, function, "step");
    LLVMBasicBlockRef done = LLVMAppendBasicBlockInContext(e->llvm, function, "done");
    LLVMBasicBlockRef smaller = LLVMAppendBasicBlockInContext(e->llvm, function, "smaller");
    LLVMBasicBlockRef invalid = LLVMAppendBasicBlockInContext(e->llvm, function, "invalid");

    LLVMPositionBuilderAtEnd(builder, entry);
    LLVMValueRef sign, ignored;
    LLVMValueRef x = magnitude_bits(e, bits_type, a, &sign);
    LLVMValueRef y = magnitude_bits(e, bits_type, b, &ignored);
    LLVMValueRef bad = LLVMBuildICmp(builder, LLVMIntUGE, x, constant(e, format.infinity), "");
    bad = LLVMBuildOr(builder, bad, LLVMBuildICmp(builder, LLVMIntUGT, y, constant(e, format.infinity), ""), "");
    bad = LLVMBuildOr(builder, bad, LLVMBuildICmp(builder, LLVMIntEQ, y, constant(e, 0), ""), "");
    LLVMBuildCondBr(builder, bad, invalid, finite);

    LLVMPositionBuilderAtEnd(builder, finite);
    LLVMBuildCondBr(builder, LLVMBuildICmp(builder, LLVMIntULT, x, y, ""), smaller, divide);

    LLVMPositionBuilderAtEnd(builder, divide);
    LLVMValueRef x_mantissa, x_exponent, y_mantissa, y_exponent;
    split(e, format, x, &x_mantissa, &x_exponent);
    split(e, format, y, &y_mantissa, &y_exponent);
    LLVMValueRef first = LLVMBuildURem(builder, x_mantissa, y_mantissa, "");
    LLVMValueRef distance = LLVMBuildSub(builder, x_exponent, y_exponent, "");
    LLVMBuildCondBr(builder, LLVMBuildICmp(builder, LLVMIntEQ, distance, constant(e, 0), ""), done, step);

    LLVMPositionBuilderAtEnd(builder, step);
    LLVMValueRef remainder = LLVMBuildPhi(builder, e->i64, ""), left = LLVMBuildPhi(builder, e->i64, "");
    LLVMValueRef shift = min_unsigned(e, left, constant(e, 63 - format.mantissa_bits));
    LLVMValueRef next = LLVMBuildURem(builder, LLVMBuildShl(builder, remainder, shift, ""), y_mantissa, "");
    LLVMValueRef next_left = LLVMBuildSub(builder, left, shift, "");
    LLVMBuildCondBr(builder, LLVMBuildICmp(builder, LLVMIntEQ, next_left, constant(e, 0), ""), done, step);
    LLVMAddIncoming(remainder, (LLVMValueRef[]){first, next}, (LLVMBasicBlockRef[]){divide, step}, 2);
    LLVMAddIncoming(left, (LLVMValueRef[]){distance, next_left}, (LLVMBasicBlockRef[]){divide, step}, 2);

    LLVMPositionBuilderAtEnd(builder, done);
    LLVMValueRef last = LLVMBuildPhi(builder, e->i64, "");
    LLVMAddIncoming(last, (LLVMValueRef[]){first, next}, (LLVMBasicBlockRef[]){divide, step}, 2);
    LLVMValueRef bits = LLVMBuildOr(builder, join(e, format, last, y_exponent), sign, "");
    if (bits_type != e->i64)
        bits = LLVMBuildTrunc(builder, bits, bits_type, "");
    LLVMBuildRet(builder, LLVMBuildBitCast(builder, bits, type, ""));

    LLVMPositionBuilderAtEnd(builder, smaller);
    LLVMBuildRet(builder, a);

    LLVMPositionBuilderAtEnd(builder, invalid);
    uint64_t quiet = format.infinity | 1ull << (format.mantissa_bits - 1);
    LLVMBuildRet(builder, LLVMConstBitCast(LLVMConstInt(bits_type, quiet, false), type));
}

static LLVMValueRef make_function(Emitter *e, LLVMTypeRef type) {
    bool is_f32 = type == e->f32;
    Format format = is_f32 ? (Format){23, 0x7f800000ull} : (Format){52, 0x7ff0000000000000ull};
    LLVMTypeRef parameters[2] = {type, type};
    LLVMValueRef function = LLVMAddFunction(e->module, is_f32 ? "fmod_f32" : "fmod_f64", LLVMFunctionType(type, parameters, 2, false));
    LLVMSetLinkage(function, LLVMInternalLinkage);
    LLVMBasicBlockRef caller = LLVMGetInsertBlock(e->builder);
    LLVMMetadataRef place = emit_place(e);
    emit_at_place(e, NULL);
    emit_body(e, function, type, format);
    LLVMPositionBuilderAtEnd(e->builder, caller);
    emit_at_place(e, place);
    return function;
}

LLVMValueRef emit_fmod(Emitter *e, LLVMTypeRef type, LLVMValueRef a, LLVMValueRef b) {
    LLVMValueRef *function = type == e->f32 ? &e->fmod_f32 : &e->fmod_f64;
    if (!*function)
        *function = make_function(e, type);
    LLVMTypeRef parameters[2] = {type, type};
    LLVMValueRef arguments[2] = {a, b};
    return LLVMBuildCall2(e->builder, LLVMFunctionType(type, parameters, 2, false), *function, arguments, 2, "");
}
