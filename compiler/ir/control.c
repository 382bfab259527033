/* Control flow that is known. Requires a sound kernel and leaves one: an `if` on a constant, a loop of no or one iteration and a `while` whose test
 * fails at once become what they run; a carried value that every iteration leaves as it was is the initial one; a scalar that an `if` only chooses is
 * a select. */
#include "compiler/ir/ir.h"

typedef struct Control {
    Context *context;
    IrKernel *kernel;
    bool changed;
} Control;

static bool const_of(const IrValue *value, uint64_t *bits) {
    if (!value->def || value->def->kind != OP_CONST)
        return false;
    *bits = value->def->bits;
    return true;
}

static void replace(Control *c, IrValue *from, IrValue *to) {
    ir_replace_uses(c->kernel, from, to);
    c->changed = true;
}

/* The region's ops but for its terminator move before `op`. */
static void splice(IrOp *op, IrBlock *region) {
    while (region->first != region->last)
        ir_insert_before(op, region->first);
}

static void finish(Control *c, IrOp *op, IrValue *const *values) {
    for (int i = 0; i < op->results.count; i++)
        replace(c, op->results.items[i], values[i]);
    ir_remove(op);
    c->changed = true;
}

static void bind_args(IrBlock *region, int first, IrValue *const *values) {
    for (int i = first; i < region->args.count; i++)
        ir_replace_uses_in(region, region->args.items[i], values[i - first]);
}

/* ---- if ---- */

static bool moves_freely(const IrOp *op) {
    return op->kind == OP_CONST || op->kind == OP_DIM;
}

static void raise_constants(Control *c, IrOp *op) {
    for (int r = 0; r < op->regions.count; r++) {
        for (IrOp *inner = op->regions.items[r]->first, *next; inner; inner = next) {
            next = inner->next;
            if (!moves_freely(inner))
                continue;
            ir_insert_before(op, inner);
            c->changed = true;
        }
    }
}

/* A result that is one of two values from outside. */
static void choose(Control *c, IrOp *op, int i) {
    IrValue *result = op->results.items[i];
    IrValue *values[2] = {op->regions.items[0]->last->operands.items[i], op->regions.items[1]->last->operands.items[i]};
    if (ir_is_inside(values[0], op) || ir_is_inside(values[1], op))
        return;
    if (values[0] == values[1] && values[0] != result) {
        if (values[0]->type == result->type)
            replace(c, result, values[0]);
        return;
    }
    if (result->type->kind != TYPE_SCALAR)
        return;
    IrValue *operands[3] = {op->operands.items[0], values[0], values[1]};
    IrOp *select = ir_append(c->context, op->parent, OP_SELECT, op->span, operands, 3, &result->type, 1);
    ir_insert_before(op, select);
    replace(c, result, select->results.items[0]);
    op->regions.items[0]->last->operands.items[i] = op->regions.items[1]->last->operands.items[i] = values[0];
}

static void simplify_if(Control *c, IrOp *op, bool *is_used) {
    uint64_t condition;
    if (const_of(op->operands.items[0], &condition)) {
        IrBlock *region = op->regions.items[condition ? 0 : 1];
        splice(op, region);
        finish(c, op, region->last->operands.items);
        return;
    }
    raise_constants(c, op);
    for (int i = 0; i < op->results.count; i++)
        if (is_used[op->results.items[i]->id])
            choose(c, op, i);
}

/* ---- loops ---- */

/* Slot by slot; what has become of an earlier one may settle a later one in the next round. */
static void settle_carried(Control *c, IrOp *op, const bool *is_used) {
    int first = ir_first_carried(op), index = op->kind == OP_FOR;
    IrBlock *body = op->regions.items[op->regions.count - 1];
    for (int i = 0; i < op->results.count; i++) {
        IrValue *initial = op->operands.items[first + i], *yielded = body->last->operands.items[i];
        if ((yielded != body->args.items[index + i] && yielded != initial) || initial->type != op->results.items[i]->type)
            continue;
        for (int r = -1; r < op->regions.count; r++) {
            IrValue *value = r < 0 ? op->results.items[i] : op->regions.items[r]->args.items[index + i];
            if (is_used[value->id])
                replace(c, value, initial);
        }
        body->last->operands.items[i] = initial;
    }
}

/* Whether the number of iterations is known to be none or one. */
static bool few_iterations(const IrOp *op, int *count) {
    uint64_t bits[3];
    for (int i = 0; i < 3; i++)
        if (!const_of(op->operands.items[i], &bits[i]))
            return false;
    int64_t start = (int64_t)bits[0], end = (int64_t)bits[1], step = (int64_t)bits[2], next;
    *count = step > 0 ? start < end : step < 0 && start > end;
    return *count == 0 || __builtin_add_overflow(start, step, &next) || (step > 0 ? next >= end : next <= end);
}

static void simplify_for(Control *c, IrOp *op, const bool *is_used) {
    int count;
    settle_carried(c, op, is_used);
    if (!few_iterations(op, &count))
        return;
    IrBlock *body = op->regions.items[0];
    if (count == 0) {
        finish(c, op, op->operands.items + 3);
        return;
    }
    ir_replace_uses_in(body, body->args.items[0], op->operands.items[0]);
    bind_args(body, 1, op->operands.items + 3);
    splice(op, body);
    finish(c, op, body->last->operands.items);
}

static void simplify_while(Control *c, IrOp *op, const bool *is_used) {
    uint64_t condition;
    settle_carried(c, op, is_used);
    IrBlock *test = op->regions.items[0];
    if (!const_of(test->last->operands.items[0], &condition) || condition)
        return;
    bind_args(test, 0, op->operands.items);
    splice(op, test);
    finish(c, op, op->operands.items);
}

/* ---- the walk ---- */

static void mark_used(const IrBlock *block, bool *is_used) {
    for (const IrOp *op = block->first; op; op = op->next) {
        for (int i = 0; i < op->operands.count; i++)
            if (!ir_is_param(op->operands.items[i]))
                is_used[op->operands.items[i]->id] = true;
        for (int i = 0; i < op->regions.count; i++)
            mark_used(op->regions.items[i], is_used);
    }
}

/* From the inside out. An op may go, but for what it ran, which has been visited. */
static void visit_block(Control *c, IrBlock *block, bool *is_used) {
    for (IrOp *op = block->first, *next; op; op = next) {
        next = op->next;
        for (int i = 0; i < op->regions.count; i++)
            visit_block(c, op->regions.items[i], is_used);
        if (op->kind == OP_IF)
            simplify_if(c, op, is_used);
        else if (op->kind == OP_FOR)
            simplify_for(c, op, is_used);
        else if (op->kind == OP_WHILE)
            simplify_while(c, op, is_used);
    }
}

bool ir_control(Context *context, IrKernel *kernel) {
    Control control = {.context = context, .kernel = kernel};
    bool *is_used = NEW_ARRAY(context->arena, bool, ir_number(kernel) + 1);
    mark_used(kernel->body, is_used);
    visit_block(&control, kernel->body, is_used);
    return control.changed;
}
