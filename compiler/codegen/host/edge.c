/* Slices that leave their tensors, as nests see them: copies in scratch, with 0 for what does not exist. */
#include "compiler/codegen/host/host.h"
#include "compiler/codegen/host/part.h"

enum { EDGE_ALIGN = 64 };

enum {
    COPY_TO,
    COPY_FROM,
    COPY_TO_STRIDE,
    COPY_FROM_STRIDE = COPY_TO_STRIDE + 2,
    COPY_LOW = COPY_FROM_STRIDE + 2,
    COPY_HIGH = COPY_LOW + 2,
    COPY_ARGUMENTS = COPY_HIGH + 2
};

static LLVMValueRef copy_address(Emitter *e, const LLVMValueRef *arguments, int base, int stride, LLVMValueRef outer, LLVMValueRef inner) {
    LLVMValueRef row = part_address(e, arguments[base], LLVMBuildMul(e->builder, outer, arguments[stride], ""));
    return part_address(e, row, LLVMBuildMul(e->builder, inner, arguments[stride + 1], ""));
}

/* void(to, from, strides of both in bytes, low, high): elements [low, high) along two loops. */
static PartFunction copy_function(Emitter *e, int64_t size) {
    PartFunction part;
    LLVMTypeRef parameters[COPY_ARGUMENTS];
    for (int i = 0; i < COPY_ARGUMENTS; i++)
        parameters[i] = i == COPY_TO || i == COPY_FROM ? e->ptr : e->i64;
    if (part_begin(e, arena_printf(e->context->arena, "copy.%d.%s", (int)size, e->level->name), parameters, COPY_ARGUMENTS, &part))
        return part;
    LLVMBuilderRef builder = e->builder;
    LLVMValueRef arguments[COPY_ARGUMENTS], element = emit_int_const(e, size);
    LLVMGetParams(part.function, arguments);
    LLVMBasicBlockRef some = block_append(e, "some"), none = block_append(e, "none"), beside = block_append(e, "beside"),
                      apart = block_append(e, "apart"), next = block_append(e, "next");
    LLVMValueRef low = arguments[COPY_LOW + 1], high = arguments[COPY_HIGH + 1];
    LLVMBuildCondBr(builder, LLVMBuildICmp(builder, LLVMIntSLT, low, high, ""), some, none);
    LLVMPositionBuilderAtEnd(builder, none);
    LLVMBuildRetVoid(builder);

    LLVMPositionBuilderAtEnd(builder, some);
    LLVMValueRef is_beside = LLVMBuildAnd(builder, LLVMBuildICmp(builder, LLVMIntEQ, arguments[COPY_TO_STRIDE + 1], element, ""),
        LLVMBuildICmp(builder, LLVMIntEQ, arguments[COPY_FROM_STRIDE + 1], element, ""), "");
    Loop rows = loop_begin(e, arguments[COPY_LOW], arguments[COPY_HIGH]);
    LLVMBuildCondBr(builder, is_beside, beside, apart);

    LLVMPositionBuilderAtEnd(builder, beside);
    LLVMValueRef bytes = LLVMBuildMul(builder, LLVMBuildSub(builder, high, low, ""), element, "");
    LLVMBuildMemCpy(builder, copy_address(e, arguments, COPY_TO, COPY_TO_STRIDE, rows.index, low), 1,
        copy_address(e, arguments, COPY_FROM, COPY_FROM_STRIDE, rows.index, low), 1, bytes);
    LLVMBuildBr(builder, next);

    LLVMPositionBuilderAtEnd(builder, apart);
    LLVMTypeRef type = LLVMIntTypeInContext(e->llvm, (unsigned)size * 8);
    Loop columns = loop_begin(e, low, high);
    LLVMValueRef value = LLVMBuildLoad2(builder, type, copy_address(e, arguments, COPY_FROM, COPY_FROM_STRIDE, rows.index, columns.index), "");
    LLVMBuildStore(builder, value, copy_address(e, arguments, COPY_TO, COPY_TO_STRIDE, rows.index, columns.index));
    loop_end(e, &columns, LOOP_SCALAR);
    LLVMBuildBr(builder, next);

    LLVMPositionBuilderAtEnd(builder, next);
    loop_end(e, &rows, LOOP_SCALAR);
    LLVMBuildRetVoid(builder);
    part_end(e, &part);
    return part;
}

/* ---- places ---- */

void edge_place(Leaf *leaf, EdgeCopy *edge, const int64_t extent[2], int64_t *offset) {
    Emitter *e = leaf->e;
    edge->bytes = dtype_bits(edge->slice.dtype) / 8;
    edge->place = part_address(e, leaf->scratch, emit_int_const(e, leaf->plan->scratch + *offset));
    for (int loop = 1; loop >= 0; loop--) {
        if (!edge->slice.stride[loop])
            continue;
        edge->stride[loop] = edge->bytes;
        edge->bytes *= extent[loop];
    }
    *offset += (edge->bytes + EDGE_ALIGN - 1) / EDGE_ALIGN * EDGE_ALIGN;
    leaf->edge_bytes = *offset > leaf->edge_bytes ? *offset : leaf->edge_bytes;
}

LLVMValueRef edge_is_whole(Emitter *e, const Access *slice, const LLVMValueRef count[2]) {
    LLVMValueRef whole = slice->exists;
    for (int loop = 0; loop < 2; loop++) {
        if (!slice->stride[loop])
            continue;
        whole = LLVMBuildAnd(e->builder, whole, LLVMBuildICmp(e->builder, LLVMIntEQ, slice->low[loop], emit_int_const(e, 0), ""), "");
        whole = LLVMBuildAnd(e->builder, whole, LLVMBuildICmp(e->builder, LLVMIntEQ, slice->high[loop], count[loop], ""), "");
    }
    return whole;
}

/* ---- copies ---- */

static void copy(Emitter *e, const EdgeCopy *edge, bool to_tensor) {
    int64_t bytes = dtype_bits(edge->slice.dtype) / 8;
    LLVMValueRef zero = emit_int_const(e, 0), one = emit_int_const(e, 1), size = emit_int_const(e, bytes), arguments[COPY_ARGUMENTS];
    PartFunction function = copy_function(e, bytes);
    arguments[to_tensor ? COPY_TO : COPY_FROM] = edge->slice.start;
    arguments[to_tensor ? COPY_FROM : COPY_TO] = edge->place;
    for (int loop = 0; loop < 2; loop++) {
        bool moves = edge->slice.stride[loop] != NULL;
        arguments[(to_tensor ? COPY_TO_STRIDE : COPY_FROM_STRIDE) + loop] = moves ? edge->slice.stride[loop] : size;
        arguments[(to_tensor ? COPY_FROM_STRIDE : COPY_TO_STRIDE) + loop] = moves ? emit_int_const(e, edge->stride[loop]) : size;
        arguments[COPY_LOW + loop] = moves ? edge->slice.low[loop] : zero;
        arguments[COPY_HIGH + loop] = moves ? edge->slice.high[loop] : one;
    }
    arguments[COPY_HIGH] = LLVMBuildSelect(e->builder, edge->slice.exists, arguments[COPY_HIGH], zero, "");
    part_call(e, &function, arguments, COPY_ARGUMENTS);
}

void edge_fill(Emitter *e, const EdgeCopy *edge) {
    LLVMBuildMemSet(e->builder, edge->place, LLVMConstNull(e->i8), emit_int_const(e, edge->bytes), EDGE_ALIGN);
    copy(e, edge, false);
}

void edge_spill(Emitter *e, const EdgeCopy *edge) {
    copy(e, edge, true);
}

static LLVMValueRef either(Emitter *e, const LLVMBasicBlockRef from[2], LLVMValueRef whole, LLVMValueRef copied) {
    if (whole == copied)
        return whole;
    LLVMValueRef phi = LLVMBuildPhi(e->builder, LLVMTypeOf(whole), "");
    LLVMAddIncoming(phi, (LLVMValueRef[]){whole, copied}, (LLVMBasicBlockRef *)from, 2);
    return phi;
}

Access edge_access(Emitter *e, const EdgeCopy *edge, const LLVMBasicBlockRef from[2]) {
    Access access = {.dtype = edge->slice.dtype, .region = edge->slice.region, .unit = edge->slice.unit};
    access.start = either(e, from, edge->slice.start, edge->place);
    for (int loop = 0; loop < 2; loop++)
        if (edge->slice.stride[loop])
            access.stride[loop] = either(e, from, edge->slice.stride[loop], emit_int_const(e, edge->stride[loop]));
    return access;
}
