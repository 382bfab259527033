/* Copies of slices to slots of a ring, 16 bytes at a time, dealt to the threads row by row. */
#include "compiler/codegen/simt/simt.h"

#include "compiler/layout/layout.h"

enum { CHUNK_BYTES = 16 };

void simt_slot(Simt *s, const IrOp *op) {
    LLVMBuilderRef builder = s->e->builder;
    const IrValue *slot = op->results.items[0];
    LLVMValueRef number = LLVMBuildTrunc(builder, simt_scalar(s, op->operands.items[1]), s->e->i32, "");
    bool is_bulk = op->operands.items[0]->def->kind == OP_BULK_RING;
    int64_t bytes = is_bulk ? layout_bulk_slot_bytes(slot->type) : layout_slot_bytes(slot->type);
    LLVMValueRef offset = LLVMBuildMul(builder, number, simt_int(s, bytes), "");
    simt_set(s, slot, LLVMBuildAdd(builder, offset, simt_int(s, op->operands.items[0]->def->shared_at), ""));
}

/* Rows and columns outside of the tensor are 0: chunks that begin outside as a whole, those that reach over the end from there on. Chunks that begin
 * before the tensor end before it, too. */
static void bound_chunk(Simt *s, const SimtSlice *slice, LLVMValueRef const at[2], int64_t size, SimtAccess *access) {
    LLVMBuilderRef builder = s->e->builder;
    for (int axis = 0; axis < 2; axis++) {
        if (!slice->low[axis])
            continue;
        LLVMValueRef above = LLVMBuildSub(builder, at[axis], slice->low[axis], "");
        access->predicate = simt_and(s, access->predicate, LLVMBuildICmp(builder, LLVMIntULT, above, slice->size[axis], ""));
        if (axis == 0)
            continue;
        LLVMValueRef bytes = LLVMBuildMul(builder, LLVMBuildSub(builder, slice->size[axis], above, ""), simt_int(s, size), ""),
                     all = simt_int(s, CHUNK_BYTES);
        access->valid = LLVMBuildSelect(builder, LLVMBuildICmp(builder, LLVMIntULT, bytes, all, ""), bytes, all, "");
    }
}

/* `when`: whether it happens at all; NULL: it does. */
static void copy_chunks(Simt *s, const SimtSlice *slice, LLVMValueRef slot, LLVMValueRef when, bool is_full) {
    Emitter *e = s->e;
    LLVMBuilderRef builder = e->builder;
    int64_t size = dtype_bits(slice->type->scalar) / 8, in_row = tile_columns(slice->type) * size / CHUNK_BYTES,
            chunks = in_row * tile_rows(slice->type);
    for (int64_t first = 0; first < chunks; first += s->threads) {
        LLVMValueRef chunk = LLVMBuildAdd(builder, s->thread, simt_int(s, first), ""), in_tile = NULL;
        if (first + s->threads > chunks)
            in_tile = LLVMBuildICmp(builder, LLVMIntULT, chunk, simt_int(s, chunks), "");
        LLVMValueRef at[2] = {LLVMBuildUDiv(builder, chunk, simt_int(s, in_row), "")};
        at[1] = LLVMBuildMul(builder, LLVMBuildURem(builder, chunk, simt_int(s, in_row), ""), simt_int(s, CHUNK_BYTES / size), "");
        SimtAccess access = slice->access;
        access.type = LLVMVectorType(e->i32, CHUNK_BYTES / 4);
        access.align = CHUNK_BYTES;
        access.when = simt_and(s, when, in_tile);
        for (int axis = 0; axis < 2; axis++)
            access.address = simt_advance(s, slice, access.address, at[axis], axis);
        if (is_full)
            access.predicate = NULL;
        else
            bound_chunk(s, slice, at, size, &access);
        LLVMValueRef row = LLVMBuildMul(builder, at[0], simt_int(s, layout_pitch(slice->type)), ""),
                     column = LLVMBuildMul(builder, at[1], simt_int(s, size), "");
        s->target->copy_async(s, LLVMBuildAdd(builder, slot, LLVMBuildAdd(builder, row, column, ""), ""), &access);
    }
}

typedef struct Copy {
    SimtSlice slice;
    LLVMValueRef slot;
} Copy;

static void copy_all(Simt *s, const Copy *copies, int count, LLVMValueRef when, bool is_full) {
    for (int i = 0; i < count; i++)
        copy_chunks(s, &copies[i].slice, copies[i].slot, when, is_full);
}

/* Neighbouring copies of one condition together. Most slices lie inside of their tensors. Where a CTA has the multiprocessor for itself these are
 * copied without a branch, by guarded instructions, which find their way among those of a product; where there are two, one multiplies while the
 * other copies. */
void simt_copy(Simt *s, const IrOp *op) {
    enum { MOST_COPIES = 16 };
    Emitter *e = s->e;
    const IrValue *condition = op->operands.items[op->operands.count - 1];
    if (op->prev && op->prev->kind == OP_ASYNC_COPY && op->prev->operands.items[op->prev->operands.count - 1] == condition)
        return;
    Copy copies[MOST_COPIES];
    int count = 0;
    bool is_alone = layout_ctas(s->kernel->registers, s->threads) < 2;
    LLVMValueRef happens = simt_scalar(s, condition), full = NULL;
    SimtBranch turn = simt_branch_begin(s, is_alone ? NULL : happens);
    for (; op && op->kind == OP_ASYNC_COPY && op->operands.items[op->operands.count - 1] == condition && count < MOST_COPIES; op = op->next) {
        const IrValue *slot = op->operands.items[op->operands.count - 2];
        const Type *tile = type_shaped(e->context->types, TYPE_TILE, slot->type->scalar, slot->type->rank, slot->type->dims);
        copies[count] = (Copy){simt_slice(s, op, tile), simt_staged(s, slot)};
        full = simt_and(s, full, copies[count++].slice.full);
    }
    LLVMValueRef edge = LLVMBuildNot(e->builder, full, "");
    if (is_alone) {
        copy_all(s, copies, count, LLVMBuildAnd(e->builder, happens, full, ""), true);
        edge = LLVMBuildAnd(e->builder, happens, edge, "");
    } else {
        SimtBranch inside = simt_branch_begin(s, full);
        copy_all(s, copies, count, NULL, true);
        simt_branch_end(s, &inside, NULL);
    }
    SimtBranch branch = simt_branch_begin(s, edge);
    copy_all(s, copies, count, NULL, false);
    simt_branch_end(s, &branch, NULL);
    simt_branch_end(s, &turn, NULL);
}
