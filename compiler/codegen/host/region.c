/* Loops and branches of the CTA. Carried scalars are phis; carried tiles lie in areas of scratch, where the plan's moves bring them. */
#include "compiler/codegen/host/host.h"

static bool is_scalar(const IrValue *value) {
    return value->type->kind == TYPE_SCALAR;
}

/* Phis for scalars among `count` values of a region, which `values` names; NULL for tiles. */
static LLVMValueRef *make_phis(Leaf *leaf, IrValue *const *values, int count) {
    Emitter *e = leaf->e;
    LLVMValueRef *phis = NEW_ARRAY(e->context->arena, LLVMValueRef, count + 1);
    for (int i = 0; i < count; i++)
        if (is_scalar(values[i]))
            phis[i] = leaf->values[values[i]->id] = LLVMBuildPhi(e->builder, value_type(e, values[i]->type->scalar), "");
    return phis;
}

static void feed_phis(const Leaf *leaf, LLVMValueRef *phis, IrValue *const *sources, int count, LLVMBasicBlockRef from) {
    for (int i = 0; i < count; i++) {
        if (!phis[i])
            continue;
        LLVMValueRef value = leaf_value(leaf, sources[i]);
        LLVMAddIncoming(phis[i], &value, &from, 1);
    }
}

static void emit_for(Leaf *leaf, const Segment *segment) {
    Emitter *e = leaf->e;
    LLVMBuilderRef builder = e->builder;
    const IrOp *op = segment->op;
    const IrBlock *body = op->regions.items[0];
    int count = op->results.count;
    LLVMValueRef start = leaf_value(leaf, op->operands.items[0]), step = leaf_value(leaf, op->operands.items[2]);
    LLVMValueRef trips = emit_trip_count(e, start, leaf_value(leaf, op->operands.items[1]), step), zero = emit_int_const(e, 0);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(builder), header = block_append(e, "for"), inside = block_append(e, "do"),
                      after = block_append(e, "end");
    LLVMBuildBr(builder, header);

    LLVMPositionBuilderAtEnd(builder, header);
    LLVMValueRef done = LLVMBuildPhi(builder, e->i64, ""), index = LLVMBuildPhi(builder, e->i64, "");
    LLVMAddIncoming(done, &zero, &before, 1);
    LLVMAddIncoming(index, &start, &before, 1);
    leaf->values[body->args.items[0]->id] = index;
    LLVMValueRef *phis = make_phis(leaf, body->args.items + 1, count);
    feed_phis(leaf, phis, op->operands.items + 3, count, before);
    LLVMBuildCondBr(builder, LLVMBuildICmp(builder, LLVMIntNE, done, trips, ""), inside, after);

    LLVMPositionBuilderAtEnd(builder, inside);
    emit_block(leaf, segment->regions[0]);
    emit_at(e, op->span);
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(builder);
    LLVMValueRef next = LLVMBuildAdd(builder, done, emit_int_const(e, 1), ""), next_index = LLVMBuildAdd(builder, index, step, "");
    LLVMAddIncoming(done, &next, &latch, 1);
    LLVMAddIncoming(index, &next_index, &latch, 1);
    feed_phis(leaf, phis, body->last->operands.items, count, LLVMGetInsertBlock(builder));
    int64_t turns = 1;
    if (op->dim && !dim_is_int(op->dim, &turns))
        turns = 1; /* decided at launch */
    loop_close_unrolled(e, header, turns);

    LLVMPositionBuilderAtEnd(builder, after);
    for (int i = 0; i < count; i++)
        if (phis[i])
            leaf->values[op->results.items[i]->id] = phis[i];
}

static void emit_while(Leaf *leaf, const Segment *segment) {
    Emitter *e = leaf->e;
    LLVMBuilderRef builder = e->builder;
    const IrOp *op = segment->op;
    const IrBlock *test = op->regions.items[0], *body = op->regions.items[1];
    int count = op->results.count;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(builder), header = block_append(e, "while"), inside = block_append(e, "do"),
                      after = block_append(e, "end");
    LLVMBuildBr(builder, header);

    LLVMPositionBuilderAtEnd(builder, header);
    LLVMValueRef *phis = make_phis(leaf, test->args.items, count);
    feed_phis(leaf, phis, op->operands.items, count, before);
    emit_block(leaf, segment->regions[0]);
    LLVMBuildCondBr(builder, leaf_value(leaf, test->last->operands.items[0]), inside, after);

    LLVMPositionBuilderAtEnd(builder, inside);
    for (int i = 0; i < count; i++)
        if (phis[i])
            leaf->values[body->args.items[i]->id] = phis[i];
    emit_block(leaf, segment->regions[1]);
    emit_at(e, op->span);
    feed_phis(leaf, phis, body->last->operands.items, count, LLVMGetInsertBlock(builder));
    loop_close(e, header, LOOP_SCALAR);

    LLVMPositionBuilderAtEnd(builder, after);
    for (int i = 0; i < count; i++)
        if (phis[i])
            leaf->values[op->results.items[i]->id] = phis[i];
}

static void emit_if(Leaf *leaf, const Segment *segment) {
    Emitter *e = leaf->e;
    LLVMBuilderRef builder = e->builder;
    const IrOp *op = segment->op;
    LLVMBasicBlockRef branches[2] = {block_append(e, "then"), block_append(e, "else")}, ends[2], after = block_append(e, "end");
    LLVMBuildCondBr(builder, leaf_value(leaf, op->operands.items[0]), branches[0], branches[1]);
    for (int r = 0; r < 2; r++) {
        LLVMPositionBuilderAtEnd(builder, branches[r]);
        emit_block(leaf, segment->regions[r]);
        emit_at(e, op->span);
        ends[r] = LLVMGetInsertBlock(builder);
        LLVMBuildBr(builder, after);
    }
    LLVMPositionBuilderAtEnd(builder, after);
    LLVMValueRef *phis = make_phis(leaf, op->results.items, op->results.count);
    for (int r = 0; r < 2; r++)
        feed_phis(leaf, phis, op->regions.items[r]->last->operands.items, op->results.count, ends[r]);
}

void emit_region_op(Leaf *leaf, const Segment *segment) {
    if (segment->op->kind == OP_FOR)
        emit_for(leaf, segment);
    else if (segment->op->kind == OP_WHILE)
        emit_while(leaf, segment);
    else
        emit_if(leaf, segment);
}
