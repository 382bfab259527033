/* Loops and branches: carried values are phis, one for each register. */
#include "compiler/codegen/simt/split.h"

/* Elements of 16 bits are carried in pairs, so that they take half the registers. */
static bool goes_in_pairs(const Simt *s, const IrValue *value) {
    return s->target->has_mma && value->type->kind == TYPE_TILE && (value->type->scalar == PHB_F16 || value->type->scalar == PHB_BF16) &&
           simt_count(value->type) > 1;
}

static void make_phis(Simt *s, IrValue *const *values, int count) {
    for (int i = 0; i < count; i++) {
        const IrValue *value = values[i];
        int registers = simt_count(value->type), step = goes_in_pairs(s, value) ? 2 : 1;
        LLVMValueRef *phis = simt_registers(s, registers);
        for (int r = 0; r < registers / step; r++)
            phis[r] = LLVMBuildPhi(s->e->builder, step == 2 ? s->e->i32 : value_type(s->e, value->type->scalar), "");
        s->values[value->id] = phis;
        s->pairs[value->id] = step == 2 ? phis : NULL;
    }
}

/* Behind all phis of their block: elements of pairs. */
static void open_pairs(Simt *s, IrValue *const *values, int count) {
    LLVMBuilderRef builder = s->e->builder;
    for (int i = 0; i < count; i++) {
        const IrValue *value = values[i];
        LLVMValueRef *pairs = s->pairs[value->id];
        if (!pairs)
            continue;
        s->values[value->id] = simt_registers(s, simt_count(value->type));
        for (int r = 0; r < simt_count(value->type); r++) {
            LLVMValueRef element = LLVMBuildLShr(builder, pairs[r / 2], simt_int(s, r % 2 * 16), "");
            element = LLVMBuildTrunc(builder, element, s->e->i16, "");
            s->values[value->id][r] = value_from_memory(s->e, value->type->scalar, element);
        }
    }
}

LLVMValueRef simt_pair(Simt *s, const IrValue *tile, int index) {
    if (s->pairs[tile->id])
        return s->pairs[tile->id][index / 2];
    return LLVMBuildBitCast(s->e->builder, values_to_memory(s->e, tile->type->scalar, simt_tile(s, tile) + index, 2), s->e->i32, "");
}

/* What the phis of a value take from one that comes from `from`. */
static void feed_value(Simt *s, const IrValue *value, const IrValue *source, LLVMBasicBlockRef from) {
    bool is_tile = value->type->kind == TYPE_TILE;
    if (!s->pairs[value->id]) {
        for (int r = 0; r < simt_count(value->type); r++) {
            LLVMValueRef taken = is_tile ? simt_tile(s, source)[r] : simt_scalar(s, source);
            LLVMAddIncoming(s->values[value->id][r], &taken, &from, 1);
        }
        return;
    }
    LLVMBuilderRef builder = s->e->builder;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(builder);
    LLVMValueRef end = LLVMGetBasicBlockTerminator(from);
    if (end)
        LLVMPositionBuilderBefore(builder, end);
    else
        LLVMPositionBuilderAtEnd(builder, from);
    for (int r = 0; r < simt_count(value->type); r += 2) {
        LLVMValueRef pair = simt_pair(s, source, r);
        LLVMAddIncoming(s->pairs[value->id][r / 2], &pair, &from, 1);
    }
    LLVMPositionBuilderAtEnd(builder, here);
}

static void feed_phis(Simt *s, IrValue *const *values, IrValue *const *sources, int count, LLVMBasicBlockRef from) {
    for (int i = 0; i < count; i++)
        feed_value(s, values[i], sources[i], from);
}

static void share_values(Simt *s, IrValue *const *to, IrValue *const *from, int count) {
    for (int i = 0; i < count; i++) {
        s->values[to[i]->id] = s->values[from[i]->id];
        s->pairs[to[i]->id] = s->pairs[from[i]->id];
    }
}

static void emit_for(Simt *s, const IrOp *op) {
    Emitter *e = s->e;
    LLVMBuilderRef builder = e->builder;
    const IrBlock *body = op->regions.items[0];
    int count = op->results.count;
    LLVMValueRef start = simt_scalar(s, op->operands.items[0]), step = simt_scalar(s, op->operands.items[2]);
    LLVMValueRef trips = emit_trip_count(e, start, simt_scalar(s, op->operands.items[1]), step), zero = emit_int_const(e, 0);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(builder), header = block_append(e, "for"), inside = block_append(e, "do"),
                      after = block_append(e, "end");
    LLVMBuildBr(builder, header);

    LLVMPositionBuilderAtEnd(builder, header);
    LLVMValueRef done = LLVMBuildPhi(builder, e->i64, ""), index = LLVMBuildPhi(builder, e->i64, "");
    LLVMAddIncoming(done, &zero, &before, 1);
    LLVMAddIncoming(index, &start, &before, 1);
    simt_set(s, body->args.items[0], index);
    make_phis(s, body->args.items + 1, count);
    feed_phis(s, body->args.items + 1, op->operands.items + 3, count, before);
    open_pairs(s, body->args.items + 1, count);
    LLVMBuildCondBr(builder, LLVMBuildICmp(builder, LLVMIntNE, done, trips, ""), inside, after);

    LLVMPositionBuilderAtEnd(builder, inside);
    simt_block(s, body);
    emit_at(e, op->span);
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(builder);
    LLVMValueRef next = LLVMBuildAdd(builder, done, emit_int_const(e, 1), ""), next_index = LLVMBuildAdd(builder, index, step, "");
    LLVMAddIncoming(done, &next, &latch, 1);
    LLVMAddIncoming(index, &next_index, &latch, 1);
    feed_phis(s, body->args.items + 1, body->last->operands.items, count, latch);
    loop_close(e, header, LOOP_SCALAR);

    LLVMPositionBuilderAtEnd(builder, after);
    share_values(s, op->results.items, body->args.items + 1, count);
}

static void emit_while(Simt *s, const IrOp *op) {
    Emitter *e = s->e;
    LLVMBuilderRef builder = e->builder;
    const IrBlock *test = op->regions.items[0], *body = op->regions.items[1];
    int count = op->results.count;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(builder), header = block_append(e, "while"), inside = block_append(e, "do"),
                      after = block_append(e, "end");
    LLVMBuildBr(builder, header);

    LLVMPositionBuilderAtEnd(builder, header);
    make_phis(s, test->args.items, count);
    feed_phis(s, test->args.items, op->operands.items, count, before);
    open_pairs(s, test->args.items, count);
    simt_block(s, test);
    LLVMBuildCondBr(builder, simt_scalar(s, test->last->operands.items[0]), inside, after);

    LLVMPositionBuilderAtEnd(builder, inside);
    share_values(s, body->args.items, test->args.items, count);
    simt_block(s, body);
    emit_at(e, op->span);
    feed_phis(s, test->args.items, body->last->operands.items, count, LLVMGetInsertBlock(builder));
    loop_close(e, header, LOOP_SCALAR);

    LLVMPositionBuilderAtEnd(builder, after);
    share_values(s, op->results.items, test->args.items, count);
}

static void emit_if(Simt *s, const IrOp *op) {
    Emitter *e = s->e;
    LLVMBuilderRef builder = e->builder;
    LLVMBasicBlockRef branches[2] = {block_append(e, "then"), block_append(e, "else")}, ends[2], after = block_append(e, "end");
    LLVMBuildCondBr(builder, simt_scalar(s, op->operands.items[0]), branches[0], branches[1]);
    for (int r = 0; r < 2; r++) {
        LLVMPositionBuilderAtEnd(builder, branches[r]);
        simt_block(s, op->regions.items[r]);
        emit_at(e, op->span);
        ends[r] = LLVMGetInsertBlock(builder);
        LLVMBuildBr(builder, after);
    }
    LLVMPositionBuilderAtEnd(builder, after);
    make_phis(s, op->results.items, op->results.count);
    for (int r = 0; r < 2; r++)
        feed_phis(s, op->results.items, op->regions.items[r]->last->operands.items, op->results.count, ends[r]);
    open_pairs(s, op->results.items, op->results.count);
}

static bool has_product(const IrBlock *block) {
    bool found = false;
    for (const IrOp *op = block->first; !found && op; op = op->next) {
        found = op->kind == OP_DOT || op->kind == OP_DOT_T || op->kind == OP_MMA || op->kind == OP_MMA_T;
        for (int r = 0; !found && r < op->regions.count; r++)
            found = has_product(op->regions.items[r]);
    }
    return found;
}

void simt_region(Simt *s, const IrOp *op) {
    if (s->split && !s->depth && split_region(s, op))
        return;
    s->depth++;
    if (op->kind == OP_FOR)
        emit_for(s, op);
    else if (op->kind == OP_WHILE)
        emit_while(s, op);
    else
        emit_if(s, op);
    s->depth--;
    if (op->kind == OP_FOR && op->parent == s->kernel->body && s->target->thread_here && has_product(op->regions.items[0]))
        simt_threads_begin(s, s->target->thread_here(s)); /* sums want the registers */
}
