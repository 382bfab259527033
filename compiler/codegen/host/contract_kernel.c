/* The micro-kernel: an mr x nr block of C in registers, one step of k after the other. */
#include "compiler/codegen/host/contract_part.h"

#include <string.h>

enum { MAX_BLOCK = 32 }; /* vectors of C in registers */

/* In each lane the sum of two products of 16 bits, which nothing overflows as the factors have 8 or 9. */
static LLVMValueRef multiply_pairs(Emitter *e, const Blocking *blocking, LLVMValueRef a, LLVMValueRef b) {
    int bytes = e->level->vector_bytes;
    const char *name = bytes == 64 ? "llvm.x86.avx512.pmaddw.d.512" : bytes == 32 ? "llvm.x86.avx2.pmadd.wd" : "llvm.x86.sse2.pmadd.wd";
    LLVMTypeRef pairs = LLVMVectorType(e->i16, (unsigned)blocking->lanes * 2), result = LLVMTypeOf(a), parameters[2] = {pairs, pairs};
    LLVMTypeRef type = LLVMFunctionType(result, parameters, 2, false);
    LLVMValueRef function = LLVMGetNamedFunction(e->module, name);
    if (!function)
        function = LLVMAddFunction(e->module, name, type);
    LLVMValueRef factors[2] = {LLVMBuildBitCast(e->builder, a, pairs, ""), LLVMBuildBitCast(e->builder, b, pairs, "")};
    return LLVMBuildCall2(e->builder, type, function, factors, 2, "");
}

/* acc + a * b, rounded once. */
static LLVMValueRef multiply_add(Emitter *e, const Blocking *blocking, LLVMValueRef a, LLVMValueRef b, LLVMValueRef acc) {
    if (blocking->dtype == PHB_I32)
        return LLVMBuildAdd(e->builder, multiply_pairs(e, blocking, a, b), acc, "");
    if (e->level->has_fma)
        return emit_intrinsic(e, "llvm.fma", (LLVMValueRef[]){a, b, acc}, 3);
    LLVMValueRef result = acc;
    for (int i = 0; i < blocking->lanes; i++) {
        LLVMValueRef lane = LLVMConstInt(e->i32, (unsigned)i, false), parts[3] = {a, b, acc};
        for (int part = 0; part < 3; part++)
            parts[part] = LLVMBuildExtractElement(e->builder, parts[part], lane, "");
        result = LLVMBuildInsertElement(e->builder, result, emit_fma(e, parts[0], parts[1], parts[2]), lane, "");
    }
    return result;
}

static LLVMValueRef splat(Emitter *e, LLVMValueRef scalar, int lanes) {
    LLVMTypeRef type = LLVMVectorType(LLVMTypeOf(scalar), (unsigned)lanes);
    LLVMValueRef first = LLVMBuildInsertElement(e->builder, LLVMGetUndef(type), scalar, LLVMConstInt(e->i32, 0, false), "");
    return LLVMBuildShuffleVector(e->builder, first, LLVMGetUndef(type), LLVMConstNull(LLVMVectorType(e->i32, (unsigned)lanes)), "");
}

static LLVMValueRef load_element_aligned(Emitter *e, const Blocking *blocking, LLVMTypeRef type, LLVMValueRef base, int64_t bytes) {
    LLVMValueRef value = LLVMBuildLoad2(e->builder, type, part_address(e, base, emit_int_const(e, bytes)), "");
    LLVMSetAlignment(value, (unsigned)blocking->size);
    return value;
}

static LLVMValueRef row_address(Emitter *e, LLVMValueRef c, LLVMValueRef pitch, int row) {
    return part_address(e, c, LLVMBuildMul(e->builder, pitch, emit_int_const(e, row), ""));
}

PartFunction contract_kernel(Emitter *e, const Blocking *blocking) {
    const char *name =
        arena_printf(e->context->arena, "contract.kernel.%s.%dx%d.%s", dtype_name(blocking->dtype), blocking->mr, blocking->nr, e->level->name);
    PartFunction part;
    if (part_begin(e, name, (LLVMTypeRef[]){e->i64, e->ptr, e->ptr, e->ptr, e->i64}, 5, &part))
        return part;
    LLVMBuilderRef builder = e->builder;
    LLVMValueRef count = LLVMGetParam(part.function, 0), c = LLVMGetParam(part.function, 3), pitch = LLVMGetParam(part.function, 4);
    int vectors = blocking->nr / blocking->lanes, bytes = blocking->lanes * blocking->size;
    LLVMTypeRef element = contract_vector(e, blocking->dtype, 1), vector = contract_vector(e, blocking->dtype, blocking->lanes);
    LLVMBasicBlockRef entry = LLVMGetInsertBlock(builder);
    LLVMValueRef initial[MAX_BLOCK], acc[MAX_BLOCK], next[MAX_BLOCK];
    for (int i = 0; i < blocking->mr; i++)
        for (int v = 0; v < vectors; v++)
            initial[i * vectors + v] = load_element_aligned(e, blocking, vector, row_address(e, c, pitch, i), (int64_t)v * bytes);
    int registers = blocking->mr * vectors;

    Loop steps = loop_begin(e, emit_int_const(e, 0), count);
    LLVMBasicBlockRef body = LLVMGetInsertBlock(builder);
    LLVMPositionBuilderBefore(builder, LLVMGetBasicBlockTerminator(steps.header));
    LLVMPositionBuilder(builder, steps.header, LLVMGetNextInstruction(steps.index));
    for (int r = 0; r < registers; r++) {
        acc[r] = LLVMBuildPhi(builder, vector, "");
        LLVMAddIncoming(acc[r], &initial[r], &entry, 1);
    }
    LLVMPositionBuilderAtEnd(builder, body);
    LLVMValueRef a = part_address(
        e, LLVMGetParam(part.function, 1), LLVMBuildMul(builder, steps.index, emit_int_const(e, (int64_t)blocking->mr * blocking->size), ""));
    LLVMValueRef b = part_address(
        e, LLVMGetParam(part.function, 2), LLVMBuildMul(builder, steps.index, emit_int_const(e, (int64_t)blocking->nr * blocking->size), ""));
    LLVMValueRef columns[MAX_BLOCK];
    for (int v = 0; v < vectors; v++)
        columns[v] = load_element_aligned(e, blocking, vector, b, (int64_t)v * bytes);
    for (int i = 0; i < blocking->mr; i++) {
        LLVMValueRef row = splat(e, load_element_aligned(e, blocking, element, a, (int64_t)i * blocking->size), blocking->lanes);
        for (int v = 0; v < vectors; v++)
            next[i * vectors + v] = multiply_add(e, blocking, row, columns[v], acc[i * vectors + v]);
    }
    for (int r = 0; r < registers; r++)
        LLVMAddIncoming(acc[r], &next[r], &body, 1);
    /* LLVM would add up the products of unrolled steps first, and run out of registers. */
    loop_end(e, &steps, blocking->dtype == PHB_I32 ? LOOP_SCALAR : LOOP_UNROLLED);

    for (int i = 0; i < blocking->mr; i++)
        for (int v = 0; v < vectors; v++) {
            LLVMValueRef to = part_address(e, row_address(e, c, pitch, i), emit_int_const(e, (int64_t)v * bytes));
            LLVMSetAlignment(LLVMBuildStore(builder, acc[i * vectors + v], to), (unsigned)blocking->size);
        }
    LLVMBuildRetVoid(builder);
    part_end(e, &part);
    return part;
}
