/* What products of a loop's turn sum up, and how the loop carries it. */
#include "compiler/layout/layout.h"

static bool is_product(const IrOp *op) {
    return op->kind == OP_DOT || op->kind == OP_DOT_T || op->kind == OP_WGMMA || op->kind == OP_WGMMA_T;
}

bool layout_bulk_is_zero(const IrValue *tile) {
    const IrOp *op = tile->def, *scalar = op && op->kind == OP_BROADCAST ? op->operands.items[0]->def : NULL;
    return scalar && scalar->kind == OP_CONST && scalar->bits == 0;
}

/* The one op of the block that uses the value; NULL: there are more, or none. */
static IrOp *only_user(const IrBlock *block, const IrValue *value) {
    IrOp *user = NULL;
    for (IrOp *op = block->first; !user && op; op = op->next)
        for (int i = 0; !user && i < op->operands.count; i++)
            user = op->operands.items[i] == value ? op : NULL;
    return user && ir_count_uses(block, value) == 1 ? user : NULL;
}

/* Whether the loop carries `next` where it has brought `before`, and nobody else sees either within the loop. */
static bool is_carried(const IrBlock *body, const IrValue *before, const IrValue *next) {
    return !before->def && before->block == body && before->index > 0 && body->last->operands.items[before->index - 1] == next &&
           ir_count_uses(body, before) == 1 && ir_count_uses(body, next) == 1;
}

bool layout_bulk_sum(IrOp *dot, BulkSum *sum) {
    const IrBlock *body = dot->parent;
    IrOp *before, *user;
    *sum = (BulkSum){.first = dot, .last = dot};
    while ((before = sum->first->operands.items[2]->def) != NULL && before->parent == body && is_product(before)) {
        if (!only_user(body, before->results.items[0]))
            return false;
        sum->first = before;
    }
    while (
        (user = only_user(body, sum->last->results.items[0])) != NULL && is_product(user) && user->operands.items[2] == sum->last->results.items[0])
        sum->last = user;
    const IrValue *first = sum->first->operands.items[2], *next = sum->last->results.items[0];
    if (user && user->kind == OP_ADD && layout_bulk_is_zero(first)) {
        sum->add = user;
        first = user->operands.items[user->operands.items[0] == next];
        next = user->results.items[0];
    }
    sum->carried = first->index - 1;
    return is_carried(body, first, next);
}

bool layout_bulk_is_sum(const IrValue *value) {
    const IrOp *op = value->def;
    for (int i = 0; op && op->kind == OP_ADD && i < 2; i++) {
        const IrOp *last = op->operands.items[i]->def;
        op = last && last->parent == op->parent && is_product(last) ? last : op;
    }
    return op && (op->kind == OP_WGMMA || op->kind == OP_WGMMA_T);
}
