/* Two bodies for kernels without loops: one for CTAs all of whose slices lie inside of their tensors, one for those at edges. A single uniform test
 * then stands where each access would have its own, and between the accesses is one straight line, in which the assembler moves loads, arithmetic and
 * stores past each other: a tile need not be in registers as a whole. */
#include "compiler/codegen/simt/simt.h"

#include "compiler/layout/layout.h"

static bool is_early(const Simt *s, const IrValue *value) {
    return ir_is_param(value) || s->early[value->id];
}

/* Scalars that follow from where the CTA is and what it is given. */
static void emit_early(Simt *s, const IrBlock *body) {
    s->early = NEW_ARRAY(s->e->context->arena, bool, ir_number((IrKernel *)s->kernel) + 1);
    for (const IrOp *op = body->first; op; op = op->next) {
        bool is_ready = (op_info[op->kind].traits & TRAIT_PURE) && op->results.count == 1 && op->results.items[0]->type->kind == TYPE_SCALAR;
        for (int i = 0; is_ready && i < op->operands.count; i++)
            is_ready = is_early(s, op->operands.items[i]);
        if (!is_ready)
            continue;
        simt_op(s, op);
        s->early[op->results.items[0]->id] = true;
    }
}

bool simt_is_tested(const Simt *s, const IrOp *op) {
    if (!s->early || (op->kind != OP_LOAD && op->kind != OP_STORE) || !ir_is_param(op->operands.items[0]))
        return false;
    bool is_tested = (op->kind == OP_LOAD ? op->results.items[0] : stored_value(op))->type->kind == TYPE_TILE;
    for (int axis = 0; is_tested && axis < op->operands.items[0]->type->rank; axis++)
        is_tested = is_early(s, op->operands.items[1 + axis]);
    return is_tested;
}

static bool is_straight(const IrBlock *body) {
    bool is_straight = true;
    for (const IrOp *op = body->first; is_straight && op; op = op->next)
        is_straight = !op->regions.count && (!(op_info[op->kind].traits & TRAIT_THREAD) || op->kind == OP_BARRIER) && !ir_is_atomic(op->kind);
    return is_straight;
}

/* i1: the CTA's slices lie inside; NULL: nothing can be told before they are reached. */
static LLVMValueRef find_whole(Simt *s, const IrBlock *body) {
    LLVMValueRef whole = NULL;
    for (const IrOp *op = body->first; op; op = op->next)
        if (simt_is_tested(s, op))
            whole = simt_and(s, whole, simt_slice(s, op, access_type(op)).full);
    return whole;
}

void simt_body(Simt *s) {
    LLVMBuilderRef builder = s->e->builder;
    const IrBlock *body = s->kernel->body;
    LLVMValueRef whole = NULL;
    if (s->target->has_mma && is_straight(body)) {
        emit_early(s, body);
        whole = find_whole(s, body);
    }
    if (!whole) {
        simt_block(s, body);
        return;
    }
    LLVMBasicBlockRef blocks[2] = {block_append(s->e, "edge"), block_append(s->e, "whole")}, after = block_append(s->e, "done");
    LLVMBuildCondBr(builder, whole, blocks[1], blocks[0]);
    for (int is_whole = 0; is_whole < 2; is_whole++) {
        LLVMPositionBuilderAtEnd(builder, blocks[is_whole]);
        s->way = is_whole ? WAY_WHOLE : WAY_EDGE;
        simt_block(s, body);
        LLVMBuildBr(builder, after);
    }
    LLVMPositionBuilderAtEnd(builder, after);
}
