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

/* A thread's chunks. Where rows are dealt to the threads as a whole, each lies a fixed number of rows below the one before, and only the first one's
 * place is computed: what the others add is a constant, and from row to row of the tensor. */
typedef struct Chunks {
    int64_t in_row, count;
    int rows_apart; /* 0: each has a place of its own */
} Chunks;

static Chunks find_chunks(const Simt *s, const Type *type) {
    int64_t size = dtype_bits(type->scalar) / 8;
    Chunks chunks = {.in_row = tile_columns(type) * size / CHUNK_BYTES};
    chunks.count = chunks.in_row * tile_rows(type);
    chunks.rows_apart = s->threads % chunks.in_row == 0 ? (int)(s->threads / chunks.in_row) : 0;
    return chunks;
}

/* `when`: whether it happens at all; NULL: it does. */
static void copy_chunks(Simt *s, const SimtSlice *slice, LLVMValueRef slot, LLVMValueRef when, bool is_full) {
    Emitter *e = s->e;
    LLVMBuilderRef builder = e->builder;
    int64_t size = dtype_bits(slice->type->scalar) / 8, pitch = layout_pitch(slice->type);
    Chunks chunks = find_chunks(s, slice->type);
    LLVMValueRef thread = !is_full && s->target->thread_here ? s->target->thread_here(s) : s->thread;
    LLVMValueRef first_at[2] = {NULL, NULL}, address = NULL, place = NULL;
    for (int64_t first = 0; first < chunks.count; first += s->threads) {
        LLVMValueRef chunk = LLVMBuildAdd(builder, thread, simt_int(s, first), ""), in_tile = NULL;
        int64_t rows_below = first / s->threads * chunks.rows_apart;
        if (first + s->threads > chunks.count)
            in_tile = LLVMBuildICmp(builder, LLVMIntULT, chunk, simt_int(s, chunks.count), "");
        if (first == 0 || !chunks.rows_apart) {
            first_at[0] = LLVMBuildUDiv(builder, chunk, simt_int(s, chunks.in_row), "");
            first_at[1] = LLVMBuildMul(builder, LLVMBuildURem(builder, chunk, simt_int(s, chunks.in_row), ""), simt_int(s, CHUNK_BYTES / size), "");
            LLVMValueRef down = LLVMBuildMul(builder, LLVMBuildZExt(builder, first_at[0], e->i64, ""), slice->stride[0], "");
            LLVMValueRef own = LLVMBuildAdd(builder, down, LLVMBuildMul(builder, LLVMBuildZExt(builder, first_at[1], e->i64, ""), slice->stride[1], ""), "");
            address = LLVMBuildGEP2(builder, e->i8, slice->access.address, &own, 1, "");
            place = LLVMBuildAdd(builder, LLVMBuildMul(builder, first_at[0], simt_int(s, pitch), ""),
                LLVMBuildMul(builder, first_at[1], simt_int(s, size), ""), "");
            place = LLVMBuildAdd(builder, slot, place, "");
        } else {
            address = simt_advance(s, slice, address, simt_int(s, chunks.rows_apart), 0);
        }
        LLVMValueRef at[2] = {LLVMBuildAdd(builder, first_at[0], simt_int(s, rows_below), ""), first_at[1]};
        SimtAccess access = slice->access;
        access.type = LLVMVectorType(e->i32, CHUNK_BYTES / 4);
        access.align = CHUNK_BYTES;
        access.when = simt_and(s, when, in_tile);
        access.address = address;
        if (is_full)
            access.predicate = NULL;
        else
            bound_chunk(s, slice, at, size, &access);
        s->target->copy_async(s, LLVMBuildAdd(builder, place, simt_int(s, rows_below * pitch), ""), &access);
    }
}

/* By one test of whether the slice lies inside of its tensor as a whole. */
static void copy_by_branch(Simt *s, const SimtSlice *slice, LLVMValueRef slot) {
    Emitter *e = s->e;
    LLVMBasicBlockRef blocks[2] = {block_append(e, "edge"), block_append(e, "whole")}, after = block_append(e, "copied");
    LLVMBuildCondBr(e->builder, slice->full, blocks[1], blocks[0]);
    for (int is_full = 0; is_full < 2; is_full++) {
        LLVMPositionBuilderAtEnd(e->builder, blocks[is_full]);
        copy_chunks(s, slice, slot, NULL, is_full);
        LLVMBuildBr(e->builder, after);
    }
    LLVMPositionBuilderAtEnd(e->builder, after);
}

static SimtSlice find_slice(Simt *s, const IrOp *op) {
    const Type *slot = op->operands.items[op->operands.count - 2]->type;
    return simt_slice(s, op, type_shaped(s->e->context->types, TYPE_TILE, slot->scalar, slot->rank, slot->dims));
}

static LLVMValueRef slot_of(const Simt *s, const IrOp *op) {
    return simt_staged(s, op->operands.items[op->operands.count - 2]);
}

static LLVMValueRef condition_of(const Simt *s, const IrOp *op) {
    return simt_scalar(s, op->operands.items[op->operands.count - 1]);
}

static bool is_copy_beside(const IrOp *op, const IrOp *other) {
    return other && other->kind == OP_ASYNC_COPY && other->operands.items[other->operands.count - 1] == op->operands.items[op->operands.count - 1];
}

/* All copies of a turn, those at edges after the others: what is inside goes without a branch, by guarded instructions. */
static void copy_guarded(Simt *s, const IrOp *first) {
    LLVMBuilderRef builder = s->e->builder;
    VEC(SimtSlice) slices = {0};
    LLVMValueRef happens = condition_of(s, first), full = NULL;
    for (const IrOp *op = first; op == first || is_copy_beside(first, op); op = op->next) {
        SimtSlice slice = find_slice(s, op);
        full = simt_and(s, full, slice.full);
        vec_push(s->e->context->arena, &slices, slice);
    }
    LLVMValueRef inside = LLVMBuildAnd(builder, happens, full, "");
    for (int i = 0; i < slices.count; i++)
        copy_chunks(s, &slices.items[i], slot_of(s, slices.items[i].op), inside, true);
    SimtBranch branch = simt_branch_begin(s, LLVMBuildAnd(builder, happens, LLVMBuildNot(builder, full, ""), ""));
    for (int i = 0; i < slices.count; i++)
        copy_chunks(s, &slices.items[i], slot_of(s, slices.items[i].op), NULL, false);
    simt_branch_end(s, &branch, NULL);
}

static bool has_mma(const IrBlock *block) {
    bool found = false;
    for (const IrOp *op = block->first; !found && op; op = op->next) {
        found = op->kind == OP_MMA || op->kind == OP_MMA_T;
        for (int r = 0; !found && r < op->regions.count; r++)
            found = has_mma(op->regions.items[r]);
    }
    return found;
}

/* Where a CTA has the multiprocessor for itself, guarded instructions find their way among the matrix instructions of a product; where there are two
 * CTAs, one multiplies while the other copies, and the shorter code is better. */
static bool is_guarded(const Simt *s) {
    return layout_ctas(s->kernel->registers, s->threads) < 2 && has_mma(s->kernel->body);
}

void simt_copy(Simt *s, const IrOp *op) {
    if (is_guarded(s)) {
        if (!is_copy_beside(op, op->prev))
            copy_guarded(s, op);
        return;
    }
    SimtBranch branch = simt_branch_begin(s, condition_of(s, op));
    SimtSlice slice = find_slice(s, op);
    copy_by_branch(s, &slice, slot_of(s, op));
    simt_branch_end(s, &branch, NULL);
}
