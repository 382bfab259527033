/* Loops that copy slices for turns to come: what of a turn is known ahead, and the ops that compute it there. */
#include "compiler/layout/layout.h"

enum { MOST_DEPTH = 32 }; /* of ops between a value and the loop's index */

static bool follows(const Ahead *a, const IrValue *value, int depth) {
    if (value == a->body->args.items[0] || !ir_is_inside(value, a->loop))
        return true;
    if (!value->def || value->def->parent != a->body || !(op_info[value->def->kind].traits & TRAIT_PURE) || depth == MOST_DEPTH)
        return false;
    for (int i = 0; i < value->def->operands.count; i++)
        if (value->def->operands.items[i]->type->kind == TYPE_TILE || !follows(a, value->def->operands.items[i], depth + 1))
            return false;
    return true;
}

bool ahead_follows(const Ahead *a, const IrValue *value) {
    return follows(a, value, 0);
}

IrOp *ahead_op(Ahead *a, OpKind kind, IrValue *const *operands, int count, const Type *type) {
    IrBlock nowhere = {0};
    IrOp *op = ir_append(a->context, &nowhere, kind, a->loop->span, operands, count, &type, type ? 1 : 0);
    op->parent = NULL;
    op->prev = op->next = NULL;
    ir_insert_before(a->at, op);
    return op;
}

IrValue *ahead_value(Ahead *a, OpKind kind, const Type *type, IrValue *x, IrValue *y) {
    IrValue *operands[2] = {x, y};
    return ahead_op(a, kind, operands, !x ? 0 : !y ? 1 : 2, type)->results.items[0];
}

IrValue *ahead_int(Ahead *a, int64_t number) {
    IrValue *value = ahead_value(a, OP_CONST, type_scalar(a->context->types, PHB_I64), NULL, NULL);
    value->def->bits = (uint64_t)number;
    return value;
}

IrValue *ahead_select(Ahead *a, IrValue *condition, IrValue *x, IrValue *y) {
    IrValue *operands[3] = {condition, x, y};
    return ahead_op(a, OP_SELECT, operands, 3, x->type)->results.items[0];
}

IrValue *ahead_clone(Ahead *a, IrValue *value) {
    if (value == a->body->args.items[0])
        return a->turn;
    if (!ir_is_inside(value, a->tiles ? a->tiles : a->loop))
        return value;
    if (value->def->kind == OP_BLOCK_OF)
        return a->block[value->def->axis];
    VEC(IrValue *) operands = {0};
    for (int i = 0; i < value->def->operands.count; i++)
        vec_push(a->context->arena, &operands, ahead_clone(a, value->def->operands.items[i]));
    IrOp *op = ahead_op(a, value->def->kind, operands.items, operands.count, value->type);
    ir_copy_attributes(op, value->def);
    return op->results.items[0];
}

IrValue *ahead_carry(Ahead *a, IrOp *loop, IrValue *first) {
    Arena *arena = a->context->arena;
    IrValue *result = NEW(arena, IrValue);
    *result = (IrValue){.type = first->type, .def = loop, .index = loop->results.count};
    vec_push(arena, &loop->operands, first);
    vec_push(arena, &loop->results, result);
    return ir_block_arg(a->context, loop->regions.items[0], first->type, NULL);
}
