/* Dead code. Requires a sound kernel and leaves one: what no store and no synchronisation depends on goes, values that loops carry for themselves
 * alone and loops that store nothing included. */
#include "compiler/ir/ir.h"

typedef struct Dce {
    Arena *arena;
    bool *live;            /* by id */
    VEC(IrOp *) ops;       /* live, their operands still to be looked at */
    VEC(IrValue *) values; /* the same */
} Dce;

static void need_op(Dce *dce, IrOp *op) {
    if (!op || op->mark)
        return;
    op->mark = true;
    vec_push(dce->arena, &dce->ops, op);
}

static void need(Dce *dce, IrValue *value) {
    if (ir_is_param(value) || dce->live[value->id])
        return;
    dce->live[value->id] = true;
    vec_push(dce->arena, &dce->values, value);
}

/* A result of an op with regions, and all that it may come from. */
static void need_slot(Dce *dce, IrOp *op, int i) {
    need(dce, op->results.items[i]);
    if (op->kind != OP_IF)
        need(dce, op->operands.items[ir_first_carried(op) + i]);
    for (int r = 0; r < op->regions.count; r++)
        if (op->regions.items[r]->last->kind == OP_YIELD)
            need(dce, op->regions.items[r]->last->operands.items[i]);
}

static void visit_value(Dce *dce, IrValue *value) {
    IrOp *op = value->def ? value->def : value->block->owner;
    int slot = value->def ? value->index : value->index - (op->kind == OP_FOR);
    need_op(dce, op);
    if ((op_info[op->kind].traits & TRAIT_REGIONS) && slot >= 0)
        need_slot(dce, op, slot);
}

/* A live op needs the ops around it, which decide whether it runs. */
static void visit_op(Dce *dce, IrOp *op) {
    need_op(dce, op->parent->owner);
    int needed = op->kind == OP_FOR ? 3 : op->kind == OP_WHILE ? 0 : op->operands.count;
    for (int i = 0; i < needed; i++)
        need(dce, op->operands.items[i]);
    if (op->kind == OP_WHILE)
        need(dce, op->regions.items[0]->last->operands.items[0]);
}

static void find_roots(Dce *dce, IrBlock *block) {
    for (IrOp *op = block->first; op; op = op->next) {
        op->mark = false;
        for (int i = 0; i < op->regions.count; i++)
            find_roots(dce, op->regions.items[i]);
        if (op_info[op->kind].traits & (TRAIT_WRITES | TRAIT_SYNC))
            need_op(dce, op);
    }
}

/* ---- taking away what is not live ---- */

static void remove_at(IrValue **items, int *count, int at) {
    for (int i = at + 1; i < *count; i++)
        items[i - 1] = items[i];
    --*count;
}

static void remove_slot(IrOp *op, int slot) {
    remove_at(op->results.items, &op->results.count, slot);
    if (op->kind != OP_IF)
        remove_at(op->operands.items, &op->operands.count, ir_first_carried(op) + slot);
    for (int i = slot; i < op->results.count; i++)
        op->results.items[i]->index = i;
    for (int r = 0; r < op->regions.count; r++) {
        IrBlock *region = op->regions.items[r];
        if (region->last->kind == OP_YIELD)
            remove_at(region->last->operands.items, &region->last->operands.count, slot);
        if (op->kind == OP_IF)
            continue;
        remove_at(region->args.items, &region->args.count, slot + (op->kind == OP_FOR));
        for (int i = slot; i < region->args.count; i++)
            region->args.items[i]->index = i;
    }
}

static bool sweep(const Dce *dce, IrBlock *block) {
    bool changed = false;
    for (IrOp *op = block->first, *next; op; op = next) {
        next = op->next;
        if (op_info[op->kind].traits & TRAIT_TERMINATOR)
            continue;
        if (!op->mark) {
            ir_remove(op);
            changed = true;
            continue;
        }
        for (int i = op->regions.count ? op->results.count - 1 : -1; i >= 0; i--) {
            if (dce->live[op->results.items[i]->id])
                continue;
            remove_slot(op, i);
            changed = true;
        }
        for (int i = 0; i < op->regions.count; i++)
            changed |= sweep(dce, op->regions.items[i]);
    }
    return changed;
}

bool ir_dce(Context *context, IrKernel *kernel) {
    Dce dce = {.arena = context->arena, .live = NEW_ARRAY(context->arena, bool, ir_number(kernel) + 1)};
    find_roots(&dce, kernel->body);
    while (dce.ops.count > 0 || dce.values.count > 0) {
        if (dce.ops.count > 0)
            visit_op(&dce, dce.ops.items[--dce.ops.count]);
        else
            visit_value(&dce, dce.values.items[--dce.values.count]);
    }
    return sweep(&dce, kernel->body);
}
