/* Thread code, LANGUAGE.md 7: each op of it for the thread at hand. */
#include "compiler/codegen/simt/simt.h"

enum { LANES = 32 };

static LLVMValueRef widen(Simt *s, LLVMValueRef value) {
    return LLVMBuildZExt(s->e->builder, value, s->e->i64, "");
}

/* ---- where am I ---- */

/* The CTAs of the row along `axis` that goes through rank 0, moved to where this CTA's row begins. */
static LLVMValueRef cluster_mask(Simt *s, int axis) {
    LLVMBuilderRef builder = s->e->builder;
    int64_t size = simt_cluster_size(s), stride = 1, row = 0;
    if (axis < 0)
        return simt_int(s, (INT64_C(1) << size) - 1);
    for (int before = 0; before < axis; before++)
        stride *= simt_cluster_extent(s, before);
    for (int64_t i = 0; i < simt_cluster_extent(s, axis); i++)
        row |= INT64_C(1) << (i * stride);
    LLVMValueRef rank = s->target->cluster_rank(s);
    LLVMValueRef place = LLVMBuildURem(builder, LLVMBuildUDiv(builder, rank, simt_int(s, stride), ""), simt_int(s, simt_cluster_extent(s, axis)), "");
    LLVMValueRef first = LLVMBuildSub(builder, rank, LLVMBuildMul(builder, place, simt_int(s, stride), ""), "");
    return LLVMBuildShl(builder, simt_int(s, row), first, "");
}

static LLVMValueRef position(Simt *s, const IrOp *op) {
    switch (op->kind) {
    case OP_THREAD:
        return op->axis == 0 ? widen(s, s->thread) : emit_int_const(s->e, 0);
    case OP_THREADS:
        return emit_int_const(s->e, s->threads);
    case OP_WARP:
        return widen(s, s->warp);
    case OP_LANE:
        return widen(s, s->lane);
    case OP_CLUSTER:
        return s->cluster[op->axis];
    case OP_CLUSTER_RANK:
        return widen(s, s->target->cluster_rank(s));
    case OP_CLUSTER_SIZE:
        return emit_int_const(s->e, simt_cluster_size(s));
    case OP_CLUSTER_MASK:
        return cluster_mask(s, op->axis);
    default:
        return NULL;
    }
}

/* ---- warps ---- */

static LLVMValueRef shuffle(Simt *s, const IrOp *op) {
    Emitter *e = s->e;
    static const SimtShuffle ways[] = {SHUFFLE_INDEX, SHUFFLE_XOR, SHUFFLE_UP, SHUFFLE_DOWN};
    SimtShuffle way = ways[op->kind - OP_SHUFFLE];
    LLVMValueRef lane = simt_scalar(s, op->operands.items[1]), lanes = emit_int_const(e, LANES);
    if (way == SHUFFLE_UP || way == SHUFFLE_DOWN) /* so far that there is no other lane is as far as the warp is wide */
        lane = LLVMBuildSelect(e->builder, LLVMBuildICmp(e->builder, LLVMIntULT, lane, lanes, ""), lane, lanes, "");
    else
        lane = LLVMBuildAnd(e->builder, lane, emit_int_const(e, LANES - 1), "");
    return simt_shuffle(s, way, simt_scalar(s, op->operands.items[0]), LLVMBuildTrunc(e->builder, lane, e->i32, ""), op->span);
}

static LLVMValueRef vote(Simt *s, const IrOp *op) {
    LLVMValueRef votes = s->target->ballot(s, simt_scalar(s, op->operands.items[0]), op->span);
    if (op->kind == OP_BALLOT)
        return votes;
    bool is_any = op->kind == OP_WARP_ANY;
    return LLVMBuildICmp(s->e->builder, is_any ? LLVMIntNE : LLVMIntEQ, votes, simt_int(s, is_any ? 0 : -1), "");
}

static LLVMValueRef combine(Simt *s, const IrOp *op, LLVMValueRef a, LLVMValueRef b) {
    bool is_sum = op->kind == OP_WARP_SUM || op->kind == OP_BLOCK_SUM, is_max = op->kind == OP_WARP_MAX || op->kind == OP_BLOCK_MAX;
    const LLVMValueRef operands[3] = {a, b};
    return emit_element_op(s->e, is_sum ? OP_ADD : is_max ? OP_MAX : OP_MIN, op->results.items[0]->type->scalar, operands);
}

/* The tree that shuffles would walk, on the values of all lanes. */
static LLVMValueRef reduce_values(Simt *s, const IrOp *op) {
    LLVMBuilderRef builder = s->e->builder;
    LLVMValueRef value = simt_scalar(s, op->operands.items[0]), values[LANES];
    LLVMTypeRef type = LLVMTypeOf(value), bits = LLVMIntTypeInContext(s->e->llvm, (unsigned)LLVMSizeOfTypeInBits(s->e->layout, type));
    LLVMValueRef own = LLVMBuildZExt(builder, LLVMBuildBitCast(builder, value, bits, ""), s->e->i64, "");
    LLVMValueRef all = s->target->warp_values(s, own, op->span);
    for (int i = 0; i < LANES; i++) {
        LLVMValueRef at = emit_int_const(s->e, i), stored = LLVMBuildLoad2(builder, s->e->i64, LLVMBuildGEP2(builder, s->e->i64, all, &at, 1, ""), "");
        values[i] = LLVMBuildBitCast(builder, LLVMBuildTrunc(builder, stored, bits, ""), type, "");
    }
    for (int mask = LANES / 2; mask; mask /= 2)
        for (int i = 0; i < mask; i++)
            values[i] = combine(s, op, values[i], values[i + mask]);
    return values[0];
}

static LLVMValueRef reduce_warp(Simt *s, const IrOp *op) {
    if (s->target->reduce_warp)
        return s->target->reduce_warp(s, op, simt_scalar(s, op->operands.items[0]), combine);
    if (s->target->warp_values)
        return reduce_values(s, op);
    LLVMValueRef value = simt_scalar(s, op->operands.items[0]);
    for (int mask = LANES / 2; mask; mask /= 2)
        value = combine(s, op, value, simt_shuffle(s, SHUFFLE_XOR, value, simt_int(s, mask), op->span));
    return value;
}

/* ---- CTAs ---- */

static LLVMValueRef is_zero(Simt *s, LLVMValueRef number) {
    return LLVMBuildICmp(s->e->builder, LLVMIntEQ, number, simt_int(s, 0), "");
}

/* Each warp leaves its result in the op's scratch; then every thread combines them all. */
static LLVMValueRef reduce_block(Simt *s, const IrOp *op) {
    Emitter *e = s->e;
    PhbDType dtype = op->results.items[0]->type->scalar;
    LLVMTypeRef type = memory_type(e, dtype);
    int size = dtype_bits(dtype) / 8;
    LLVMValueRef value = reduce_warp(s, op), at = simt_int(s, op->shared_at);
    LLVMValueRef own = LLVMBuildAdd(e->builder, LLVMBuildMul(e->builder, s->warp, simt_int(s, size), ""), at, "");
    simt_shared_store(s, value_to_memory(e, dtype, value), own, (unsigned)size, is_zero(s, s->lane), op->span);
    s->target->barrier(s, op->span);
    for (int warp = 0; warp < s->warps; warp++) {
        LLVMValueRef stored = simt_shared_load(s, type, simt_int(s, op->shared_at + warp * size), (unsigned)size, NULL, op->span);
        LLVMValueRef next = value_from_memory(e, dtype, stored);
        value = warp ? combine(s, op, value, next) : next;
    }
    return value;
}

/* ---- atomics ---- */

/* One thread leaves the old value in the op's scratch, and every thread takes it from there. */
static LLVMValueRef share_old(Simt *s, const IrOp *op, LLVMValueRef old) {
    unsigned size = (unsigned)LLVMABISizeOfType(s->e->layout, LLVMTypeOf(old));
    LLVMValueRef at = simt_int(s, op->shared_at);
    simt_shared_store(s, old, at, size, is_zero(s, s->thread), op->span);
    s->target->barrier(s, op->span);
    return simt_shared_load(s, LLVMTypeOf(old), at, size, NULL, op->span);
}

static LLVMValueRef atomic(Simt *s, const IrOp *op) {
    const Type *type = op->results.items[0]->type;
    LLVMValueRef values[2] = {NULL, NULL};
    int stored = ir_values_stored(op->kind), first = op->operands.count - stored;
    SimtAccess access = simt_point(s, op, type);
    if (op->once)
        access.predicate = simt_and(s, access.predicate, is_zero(s, s->thread));
    for (int i = 0; i < stored; i++)
        values[i] = value_to_memory(s->e, type->scalar, simt_scalar(s, op->operands.items[first + i]));
    LLVMValueRef old = s->target->atomic(s, op->kind, type->scalar, &access, stored == 2 ? values[0] : NULL, values[stored - 1]);
    return value_from_memory(s->e, type->scalar, op->once ? share_old(s, op, old) : old);
}

/* ---- all of them ---- */

static LLVMValueRef value_of(Simt *s, const IrOp *op) {
    LLVMValueRef place = position(s, op);
    if (place)
        return place;
    switch (op->kind) {
    case OP_ELECT:
        return s->target->elect(s, op->span);
    case OP_SHUFFLE:
    case OP_SHUFFLE_XOR:
    case OP_SHUFFLE_UP:
    case OP_SHUFFLE_DOWN:
        return shuffle(s, op);
    case OP_BALLOT:
    case OP_WARP_ANY:
    case OP_WARP_ALL:
        return vote(s, op);
    case OP_WARP_SUM:
    case OP_WARP_MAX:
    case OP_WARP_MIN:
        return reduce_warp(s, op);
    case OP_BLOCK_SUM:
    case OP_BLOCK_MAX:
    case OP_BLOCK_MIN:
        return reduce_block(s, op);
    default:
        return ir_is_atomic(op->kind) ? atomic(s, op) : NULL;
    }
}

bool simt_thread_op(Simt *s, const IrOp *op) {
    LLVMValueRef value = value_of(s, op);
    if (value) {
        simt_set(s, op->results.items[0], value);
        return true;
    }
    switch (op->kind) {
    case OP_BARRIER:
        s->target->barrier(s, op->span);
        return true;
    case OP_CLUSTER_ARRIVE:
    case OP_CLUSTER_ARRIVE_RELAXED:
        s->target->cluster_arrive(s, op->kind == OP_CLUSTER_ARRIVE_RELAXED, op->span);
        return true;
    case OP_CLUSTER_WAIT:
        s->target->cluster_wait(s, op->span);
        return true;
    case OP_SHARED: /* `place` has found room for it, */
    case OP_REMOTE: /* and accesses say whose it is */
        return true;
    default:
        return false;
    }
}
