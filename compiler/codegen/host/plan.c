/* Cuts the blocks of a leaf into segments and finds the loads that must be copied. Requires a specialised kernel: every tile extent is a number. */
#include "compiler/codegen/host/host.h"

#include <stdlib.h>

static bool is_tile(const IrValue *value) {
    return value->type->kind == TYPE_TILE;
}

int plan_area(const Plan *plan, const IrValue *value) {
    return is_tile(value) ? plan->values[value->id].area : -1;
}

/* ---- contractions ---- */

const Contracted *plan_contracted(const Plan *plan, const IrOp *op) {
    return op->kind == OP_FOR && op->results.count ? plan->values[op->results.items[0]->id].contracted : NULL;
}

static bool depends_on_x(const IrValue *value) {
    if (!value->def)
        return false; /* a loop's variable: what it walks is within the CTA's */
    if (value->def->kind == OP_BLOCK)
        return value->def->axis == 0;
    for (int i = 0; i < value->def->operands.count; i++)
        if (depends_on_x(value->def->operands.items[i]))
            return true;
    return value->def->regions.count > 0;
}

int plan_kept_factor(const Plan *plan, const Contracted *contracted) {
    const IrOp *loads[2] = {contracted->a, contracted->b};
    for (int factor = 0; factor < 2; factor++) {
        bool varies = plan->stored[loads[factor]->operands.items[0]->index];
        for (int i = 1; i < loads[factor]->operands.count; i++)
            varies |= depends_on_x(loads[factor]->operands.items[i]);
        if (!varies)
            return factor;
    }
    return -1;
}

static void find_contracted(Context *context, Plan *plan, const IrBlock *block) {
    for (const IrOp *op = block->first; op; op = op->next) {
        Contracted found;
        if (contraction_match(context, plan->kernel, op, &found)) {
            Contracted *kept = NEW(plan->arena, Contracted);
            *kept = found;
            plan->values[op->results.items[0]->id].contracted = kept;
        }
        for (int i = 0; i < op->regions.count; i++)
            find_contracted(context, plan, op->regions.items[i]);
    }
}

/* ---- segments ---- */

typedef struct Cutter {
    Plan *plan;
    PlanBlock *block;
    Segment current;
    OpList loads; /* of the current segment */
} Cutter;

static void cut(Cutter *c, IrOp *at) {
    if (c->current.first == at)
        return;
    c->current.end = at;
    vec_push(c->plan->arena, &c->block->segments, c->current);
    c->current = (Segment){.first = at};
    c->loads.count = 0;
}

static bool touches(const OpList *ops, int param) {
    for (int i = 0; i < ops->count; i++)
        if (access_param(ops->items[i]) == param)
            return true;
    return false;
}

static bool same_loops(const Type *a, const Type *b) {
    return tile_rows(a) == tile_rows(b) && tile_columns(a) == tile_columns(b);
}

/* May a root of type `type` share a nest with what is there? */
static bool joins(const Cutter *c, const Type *type) {
    return !c->current.roots.count || same_loops(c->current.roots.items[0].value->type, type);
}

/* The elements of a store are stored in any order, after each element's loads. */
static bool store_joins(const Cutter *c, const IrOp *store) {
    if (!joins(c, access_type(store)))
        return false;
    if (touches(&c->current.writes, access_param(store)))
        return false;
    for (int i = 0; i < c->loads.count; i++)
        if (access_param(c->loads.items[i]) == access_param(store) && !slice_same(c->loads.items[i], store))
            return false;
    return true;
}

static void add_root(Cutter *c, Root root) {
    vec_push(c->plan->arena, &c->current.roots, root);
}

static PlanBlock *cut_block(Plan *plan, const IrBlock *block);

static void collect_writes(Arena *arena, OpList *writes, const IrBlock *block) {
    for (IrOp *op = block->first; op; op = op->next) {
        if (op->kind == OP_STORE)
            vec_push(arena, writes, op);
        for (int i = 0; i < op->regions.count; i++)
            collect_writes(arena, writes, op->regions.items[i]);
    }
}

bool op_is_body(const IrOp *op) {
    if (op->regions.count || op->kind == OP_YIELD || (op->kind == OP_STORE && !is_tile(stored_value(op))))
        return true;
    return op->operands.count && is_tile(op->operands.items[0]) && op->kind != OP_STORE && op->kind != OP_RESHAPE && !op_is_lazy(op);
}

static void place(Cutter *c, IrOp *op) {
    Arena *arena = c->plan->arena;
    if (op_is_body(op)) {
        if (c->current.roots.count)
            cut(c, op);
        c->current.op = op;
        for (int i = 0; i < op->regions.count && !plan_contracted(c->plan, op); i++) {
            c->current.regions[i] = cut_block(c->plan, op->regions.items[i]);
            collect_writes(arena, &c->current.writes, op->regions.items[i]);
        }
        if (op->kind == OP_STORE)
            vec_push(arena, &c->current.writes, op);
    } else if (op->kind == OP_STORE) {
        if (!store_joins(c, op))
            cut(c, op);
        add_root(c, (Root){stored_value(op), op, -1, -1});
        vec_push(arena, &c->current.writes, op);
    } else {
        if (op->kind == OP_LOAD) {
            if (touches(&c->current.writes, access_param(op)))
                cut(c, op);
            vec_push(arena, &c->loads, op);
        }
        const IrValue *result = op->results.count ? op->results.items[0] : NULL;
        if (op->kind == OP_RESHAPE && !op_is_lazy(op) && c->current.roots.count) /* reads the area in another order */
            cut(c, op);
        if (result && plan_area(c->plan, result) >= 0 && op_is_lazy(op)) {
            if (!joins(c, result->type))
                cut(c, op);
            add_root(c, (Root){result, NULL, c->plan->values[result->id].area, -1});
        }
    }
    for (int i = 0; i < op->results.count; i++)
        c->plan->values[op->results.items[i]->id].segment = c->block->segments.count;
    if (op_is_body(op))
        cut(c, op->next);
}

static PlanBlock *cut_block(Plan *plan, const IrBlock *block) {
    PlanBlock *cuts = NEW(plan->arena, PlanBlock);
    cuts->block = block;
    Cutter cutter = {.plan = plan, .block = cuts, .current = {.first = block->first}};
    for (IrOp *op = block->first; op; op = op->next)
        place(&cutter, op);
    cut(&cutter, NULL);
    return cuts;
}

/* ---- areas that only their own nest reads ---- */

static void mark_read(const Plan *plan, bool *is_read, const NodeList *nodes) {
    for (int i = 0; i < nodes->count; i++)
        if (nodes->items[i].area >= 0)
            is_read[plan->values[nodes->items[i].value->id].area] = true;
}

static void mark_reads(Plan *plan, const PlanBlock *block, bool *is_read) {
    for (int s = 0; s < block->segments.count; s++) {
        const Segment *segment = &block->segments.items[s];
        int *tops = NEW_ARRAY(plan->arena, int, segment->roots.count + 1);
        NodeList nodes = plan_nodes(plan, segment->roots.items, segment->roots.count, tops);
        mark_read(plan, is_read, &nodes);
        const IrOp *op = segment->op;
        for (int i = 0; op && i < op->operands.count; i++) {
            const IrValue *operand = op->operands.items[i];
            if (!is_tile(operand))
                continue;
            Root root = {operand, NULL, -1, -1};
            int top;
            nodes = plan_nodes(plan, &root, 1, &top);
            mark_read(plan, is_read, &nodes);
        }
        for (int r = 0; r < 2 && segment->regions[r]; r++)
            mark_reads(plan, segment->regions[r], is_read);
    }
}

static void drop_roots(Plan *plan, PlanBlock *block, const bool *is_read) {
    for (int s = 0; s < block->segments.count; s++) {
        Segment *segment = &block->segments.items[s];
        int kept = 0;
        for (int i = 0; i < segment->roots.count; i++) {
            Root root = segment->roots.items[i];
            ValuePlan *value = &plan->values[root.value->id];
            if (!root.store && value->if_shared && !is_read[root.area])
                value->area = -1;
            else
                segment->roots.items[kept++] = root;
        }
        segment->roots.count = kept;
        for (int r = 0; r < 2 && segment->regions[r]; r++)
            drop_roots(plan, segment->regions[r], is_read);
    }
}

/* ---- copies ---- */

/* Does a nest of `segment` find the elements of `load` as the program read them? Only stores to the very elements, each made after the element's
 * loads, may stand in its own segment, if `in_nest`; none before. */
static bool still_there(const Plan *plan, const PlanBlock *block, const IrOp *load, int segment, bool in_nest) {
    int param = access_param(load);
    for (int i = plan->values[load->results.items[0]->id].segment; i < segment; i++)
        if (touches(&block->segments.items[i].writes, param))
            return false;
    const OpList *writes = &block->segments.items[segment].writes;
    for (int i = 0; in_nest && i < writes->count; i++)
        if (access_param(writes->items[i]) == param && !slice_same(load, writes->items[i]))
            return false;
    return true;
}

static void copy_stale(Plan *plan, PlanBlock *block, int segment, const NodeList *nodes, bool in_nest) {
    for (int i = 0; i < nodes->count; i++) {
        const IrValue *value = nodes->items[i].value;
        if (nodes->items[i].area >= 0 || value->def->kind != OP_LOAD)
            continue;
        ValuePlan *copied = &plan->values[value->id];
        if (copied->area >= 0 || still_there(plan, block, value->def, segment, in_nest))
            continue;
        copied->area = plan_area_new(plan, value->type);
        vec_push(plan->arena, &block->segments.items[copied->segment].copies, (Root){value, NULL, copied->area, -1});
    }
}

static void find_copies(Plan *plan, PlanBlock *block) {
    for (int s = 0; s < block->segments.count; s++) {
        const Segment *segment = &block->segments.items[s];
        int *tops = NEW_ARRAY(plan->arena, int, segment->roots.count + 1);
        NodeList nodes = plan_nodes(plan, segment->roots.items, segment->roots.count, tops);
        copy_stale(plan, block, s, &nodes, true);
        const IrOp *op = segment->op; /* its operands are evaluated before it */
        for (int i = 0; op && i < op->operands.count; i++) {
            Root root = {op->operands.items[i], NULL, -1, -1};
            int top;
            if (!is_tile(root.value))
                continue;
            nodes = plan_nodes(plan, &root, 1, &top);
            copy_stale(plan, block, s, &nodes, false);
        }
        for (int r = 0; r < 2 && segment->regions[r]; r++)
            find_copies(plan, segment->regions[r]);
    }
}

Plan *plan_leaf(Context *context, const IrKernel *kernel) {
    Plan *plan = NEW(context->arena, Plan);
    plan->arena = context->arena;
    plan->kernel = kernel;
    plan->value_count = ir_number((IrKernel *)kernel);
    plan->values = NEW_ARRAY(plan->arena, ValuePlan, plan->value_count + 1);
    plan->stored = NEW_ARRAY(plan->arena, bool, kernel->body->args.count + 1);
    for (const IrOp *op = kernel->body->first; op; op = op->next)
        ir_mark_stored(op, plan->stored);
    find_contracted(context, plan, kernel->body);
    plan_values(plan);
    plan->body = cut_block(plan, kernel->body);
    bool *is_read = NEW_ARRAY(plan->arena, bool, plan->areas.count + 1);
    mark_reads(plan, plan->body, is_read);
    drop_roots(plan, plan->body, is_read);
    find_copies(plan, plan->body);
    plan_areas(plan);
    if (plan->scratch <= PLAN_MAX_SCRATCH)
        return plan;
    diag_error(context->diag, kernel->signature.span, "the tiles of kernel '%s' that must be kept in memory take more than %d MiB",
        kernel->signature.name, (int)(PLAN_MAX_SCRATCH >> 20));
    return NULL;
}
