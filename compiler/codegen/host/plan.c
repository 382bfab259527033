/* Cuts a leaf into segments and finds the loads that must be copied. Requires a specialised kernel: every tile extent is a number. */
#include "compiler/codegen/host/host.h"

#include <stdlib.h>

#define COPY_ALIGN 64

static bool is_tile(const IrValue *value) {
    return value->type->kind == TYPE_TILE;
}

static bool same_shape(const Type *a, const Type *b) {
    if (a->rank != b->rank)
        return false;
    for (int axis = 0; axis < a->rank; axis++)
        if (tile_extent(a, axis) != tile_extent(b, axis))
            return false;
    return true;
}

/* ---- segments ---- */

typedef struct Cutter {
    Plan *plan;
    Segment current;
    OpList loads; /* of the current segment */
} Cutter;

static void cut(Cutter *c, IrOp *at) {
    if (c->current.first == at)
        return;
    c->current.end = at;
    vec_push(c->plan->arena, &c->plan->segments, c->current);
    c->current = (Segment){.first = at};
    c->loads.count = 0;
}

static bool touches(const OpList *ops, int param) {
    for (int i = 0; i < ops->count; i++)
        if (access_param(ops->items[i]) == param)
            return true;
    return false;
}

/* May `store` share a nest with what is there? Its elements are stored in any order, after each element's loads. */
static bool joins(const Cutter *c, const IrOp *store) {
    for (int i = 0; i < c->current.stores.count; i++) {
        const IrOp *other = c->current.stores.items[i];
        if (!same_shape(access_type(other), access_type(store)) || access_param(other) == access_param(store))
            return false;
    }
    for (int i = 0; i < c->loads.count; i++)
        if (access_param(c->loads.items[i]) == access_param(store) && !slice_same(c->loads.items[i], store))
            return false;
    return true;
}

static void place(Cutter *c, IrOp *op) {
    if (op->kind == OP_LOAD) {
        if (touches(&c->current.stores, access_param(op)))
            cut(c, op);
        vec_push(c->plan->arena, &c->loads, op);
    } else if (op->kind == OP_STORE) {
        bool scalar = !is_tile(stored_value(op));
        if (scalar ? c->current.stores.count + c->loads.count > 0 : !joins(c, op))
            cut(c, op);
        vec_push(c->plan->arena, &c->current.stores, op);
        if (scalar)
            cut(c, op->next);
    }
    if (op->results.count)
        c->plan->values[op->results.items[0]->id].segment = c->plan->segments.count;
}

/* ---- copies ---- */

/* Does `segment`'s nest find the elements of `load` as the program read them? Only stores to the very elements, each made after the element's loads,
 * may stand in its own segment; none before. */
static bool still_there(const Plan *plan, const IrOp *load, int segment) {
    int param = access_param(load);
    for (int i = plan->values[load->results.items[0]->id].segment; i < segment; i++)
        if (touches(&plan->segments.items[i].stores, param))
            return false;
    const OpList *stores = &plan->segments.items[segment].stores;
    for (int i = 0; i < stores->count; i++)
        if (access_param(stores->items[i]) == param && !slice_same(load, stores->items[i]))
            return false;
    return true;
}

static bool add_copy(Context *context, Plan *plan, IrOp *load) {
    const Type *type = load->results.items[0]->type;
    int64_t bytes = dtype_bits(type->scalar) / 8;
    bool fits = true;
    for (int axis = 0; axis < type->rank; axis++)
        fits = fits && !__builtin_mul_overflow(bytes, tile_extent(type, axis), &bytes);
    if (!fits || bytes > PLAN_MAX_SCRATCH - plan->scratch - COPY_ALIGN) {
        diag_error(context->diag, load->span, "the tiles that must be copied before they are overwritten take more than %d MiB",
            (int)(PLAN_MAX_SCRATCH >> 20));
        return false;
    }
    ValuePlan *value = &plan->values[load->results.items[0]->id];
    value->copy = plan->scratch;
    plan->scratch += (bytes + COPY_ALIGN - 1) / COPY_ALIGN * COPY_ALIGN;
    vec_push(plan->arena, &plan->segments.items[value->segment].copies, load);
    return true;
}

static bool find_copies(Context *context, Plan *plan) {
    for (int s = 0; s < plan->segments.count; s++) {
        OpList ops = plan_gather(plan, &plan->segments.items[s].stores);
        for (int i = 0; i < ops.count; i++) {
            IrOp *op = ops.items[i];
            if (op->kind == OP_LOAD && plan->values[op->results.items[0]->id].copy < 0 && !still_there(plan, op, s) && !add_copy(context, plan, op))
                return false;
        }
    }
    return true;
}

/* ---- gathering ---- */

static int by_program_order(const void *a, const void *b) {
    int first = (*(IrOp *const *)a)->results.items[0]->id, second = (*(IrOp *const *)b)->results.items[0]->id;
    return (first > second) - (first < second);
}

OpList plan_gather(Plan *plan, const OpList *roots) {
    OpList found = {0};
    int number = ++plan->gatherings;
    VEC(const IrValue *) stack = {0};
    for (int i = 0; i < roots->count; i++)
        vec_push(plan->arena, &stack, roots->items[i]->kind == OP_STORE ? stored_value(roots->items[i]) : roots->items[i]->results.items[0]);
    while (stack.count) {
        const IrValue *value = stack.items[--stack.count];
        if (!is_tile(value) || plan->values[value->id].seen == number)
            continue;
        plan->values[value->id].seen = number;
        vec_push(plan->arena, &found, value->def);
        for (int i = 0; i < value->def->operands.count; i++)
            vec_push(plan->arena, &stack, value->def->operands.items[i]);
    }
    if (found.count)
        qsort(found.items, (size_t)found.count, sizeof *found.items, by_program_order);
    return found;
}

Plan *plan_leaf(Context *context, const IrKernel *kernel) {
    Plan *plan = NEW(context->arena, Plan);
    plan->arena = context->arena;
    for (IrOp *op = kernel->body->first; op; op = op->next)
        for (int i = 0; i < op->results.count; i++)
            op->results.items[i]->id = plan->value_count++;
    plan->values = NEW_ARRAY(plan->arena, ValuePlan, plan->value_count + 1);
    for (int i = 0; i < plan->value_count; i++)
        plan->values[i].copy = -1;
    Cutter cutter = {.plan = plan, .current = {.first = kernel->body->first}};
    for (IrOp *op = kernel->body->first; op; op = op->next)
        place(&cutter, op);
    cut(&cutter, NULL);
    return find_copies(context, plan) ? plan : NULL;
}
