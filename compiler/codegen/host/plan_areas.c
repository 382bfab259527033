/* Gives areas their places. A tile that becomes a carried one or a result is made in that one's place where nobody misses the old contents; else it
 * is moved there. */
#include "compiler/codegen/host/contract.h"
#include "compiler/codegen/host/host.h"

#define AREA_ALIGN 64

static bool is_tile(const IrValue *value) {
    return value->type->kind == TYPE_TILE;
}

int plan_place(const Plan *plan, int area) {
    while (plan->areas.items[area].same != area)
        area = plan->areas.items[area].same;
    return area;
}

static bool in_place(const Plan *plan, const IrValue *value, int place) {
    int area = plan_area(plan, value);
    return area >= 0 && plan_place(plan, area) == place;
}

/* ---- who reads a place ---- */

/* With `same_element`, reads of the very element that a root of the nest computes do not count. */
static bool roots_read(Plan *plan, const RootList *roots, int place, bool same_element) {
    int *tops = NEW_ARRAY(plan->arena, int, roots->count + 1);
    NodeList nodes = plan_nodes(plan, roots->items, roots->count, tops);
    for (int i = 0; i < nodes.count; i++) {
        const Node *node = &nodes.items[i];
        if (node->area < 0 || plan_place(plan, node->area) != place)
            continue;
        NestShape shape = nest_shape(roots->items[0].value->type), own = nest_shape(node->value->type);
        bool is_same =
            node->axis[0] == own.axis[0] && node->axis[1] == own.axis[1] && shape.extent[0] == own.extent[0] && shape.extent[1] == own.extent[1];
        if (!same_element || !is_same)
            return true;
    }
    return false;
}

static bool operand_reads(Plan *plan, const IrValue *operand, int place) {
    if (!is_tile(operand))
        return false;
    RootList roots = {0};
    vec_push(plan->arena, &roots, (Root){operand, NULL, -1, -1});
    return roots_read(plan, &roots, place, false);
}

static bool op_reads(Plan *plan, const IrOp *op, int place) {
    for (int i = 0; i < op->operands.count; i++)
        if (operand_reads(plan, op->operands.items[i], place))
            return true;
    return false;
}

static bool block_reads(Plan *plan, const PlanBlock *block, int place);

static bool segment_reads(Plan *plan, const Segment *segment, int place) {
    if (roots_read(plan, &segment->copies, place, false) || roots_read(plan, &segment->roots, place, false) ||
        (segment->op && op_reads(plan, segment->op, place)))
        return true;
    for (int r = 0; r < 2 && segment->regions[r]; r++)
        if (block_reads(plan, segment->regions[r], place))
            return true;
    return false;
}

static bool block_reads(Plan *plan, const PlanBlock *block, int place) {
    for (int s = 0; s < block->segments.count; s++)
        if (segment_reads(plan, &block->segments.items[s], place))
            return true;
    return false;
}

/* ---- in place ---- */

/* Can `op`, which is no nest, write where its operands lie in `place`? */
static bool op_updates(Plan *plan, const IrOp *op, int place) {
    switch (op->kind) {
    case OP_DOT:
    case OP_DOT_T:
        return !operand_reads(plan, op->operands.items[0], place) && !operand_reads(plan, op->operands.items[1], place);
    case OP_CUMSUM:
    case OP_IF: /* what its branches read they read before they yield */
        return true;
    case OP_FOR:
    case OP_WHILE:
        return false;
    default:
        return !op_reads(plan, op, place);
    }
}

static bool is_dot(const IrOp *op) {
    return op->kind == OP_DOT || op->kind == OP_DOT_T;
}

/* The first segment that writes to the area of `value`: that of a dot is its accumulator's before. */
static int first_writer(const Plan *plan, const IrValue *value) {
    int place = plan_place(plan, plan_area(plan, value));
    while (is_dot(value->def) && value->def->operands.items[2]->def && in_place(plan, value->def->operands.items[2], place))
        value = value->def->operands.items[2];
    return plan->values[value->id].segment;
}

/* Does the segment that makes a value in `place` read old contents that it has overwritten? */
static bool writer_reads(Plan *plan, const Segment *segment, int place) {
    return segment->op ? !op_updates(plan, segment->op, place) : roots_read(plan, &segment->roots, place, true);
}

static void share_results(Plan *plan, const PlanBlock *block, const IrOp *op, int result, int place);

/* Makes `value` in `place` if it is of `block` and nobody reads the old contents once it is there. */
static void share_place(Plan *plan, const PlanBlock *block, const IrValue *value, int place) {
    int area = plan_area(plan, value);
    if (area < 0 || !value->def || value->def->parent != block->block || value->def->kind == OP_RESHAPE || plan->areas.items[area].same != area)
        return;
    int first = first_writer(plan, value), last = plan->values[value->id].segment;
    if (area == place || writer_reads(plan, &block->segments.items[first], place) || writer_reads(plan, &block->segments.items[last], place))
        return;
    for (int s = first + 1; s < block->segments.count; s++)
        if (s != last && segment_reads(plan, &block->segments.items[s], place))
            return;
    plan->areas.items[area].same = place;
    if (value->def->kind == OP_IF)
        share_results(plan, block, value->def, value->index, place);
}

static const PlanBlock *region_of(const PlanBlock *block, const Plan *plan, const IrOp *op, int region) {
    return block->segments.items[plan->values[op->results.items[0]->id].segment].regions[region];
}

static void share_results(Plan *plan, const PlanBlock *block, const IrOp *op, int result, int place) {
    for (int r = 0; r < op->regions.count; r++) {
        const PlanBlock *branch = region_of(block, plan, op, r);
        share_place(plan, branch, branch->block->last->operands.items[result], place);
    }
}

/* A dot adds to its accumulator in place where nobody else reads that. */
static void share_accumulator(Plan *plan, const IrOp *op) {
    const IrValue *acc = op->operands.items[2];
    int area = plan_area(plan, acc);
    bool is_ours = acc->def && acc->def->parent == op->parent && plan->values[acc->id].uses == 1;
    if (is_ours && (op_is_lazy(acc->def) || is_dot(acc->def)))
        plan->areas.items[plan_place(plan, area)].same = plan_place(plan, plan_area(plan, op->results.items[0]));
}

static void share_accumulators(Plan *plan, const PlanBlock *block) {
    for (int s = 0; s < block->segments.count; s++) {
        const Segment *segment = &block->segments.items[s];
        if (segment->op && is_dot(segment->op))
            share_accumulator(plan, segment->op);
        for (int r = 0; r < 2 && segment->regions[r]; r++)
            share_accumulators(plan, segment->regions[r]);
    }
}

static void share_places(Plan *plan, const PlanBlock *block) {
    for (int s = 0; s < block->segments.count; s++) {
        const Segment *segment = &block->segments.items[s];
        const IrOp *op = segment->op;
        if (!op || !segment->regions[0])
            continue;
        const PlanBlock *body = segment->regions[op->kind == OP_WHILE];
        for (int i = 0; i < op->results.count; i++) {
            if (!is_tile(op->results.items[i]))
                continue;
            int place = plan_place(plan, plan_area(plan, op->results.items[i]));
            if (op->kind == OP_IF)
                share_results(plan, block, op, i, place);
            else
                share_place(plan, body, body->block->last->operands.items[i], place);
        }
        for (int r = 0; r < 2 && segment->regions[r]; r++)
            share_places(plan, segment->regions[r]);
    }
}

/* ---- moves ---- */

/* The tiles of one yield, or of a loop's start, go to their places as if all at once: what lies in a place that is overwritten goes through an area
 * of its own. */
static void plan_moves(Plan *plan, Segment *segment, IrValue *const *from, IrValue *const *to, int count) {
    RootList late = {0};
    for (int i = 0; i < count; i++) {
        if (!is_tile(to[i]))
            continue;
        int area = plan_area(plan, to[i]), place = plan_place(plan, area);
        if (in_place(plan, from[i], place))
            continue;
        bool is_overwritten = false;
        for (int k = 0; k < count && !is_overwritten; k++)
            is_overwritten = k != i && is_tile(to[k]) && !in_place(plan, from[k], plan_place(plan, plan_area(plan, to[k]))) &&
                             in_place(plan, from[i], plan_place(plan, plan_area(plan, to[k])));
        if (!is_overwritten) {
            vec_push(plan->arena, &late, (Root){from[i], NULL, area, -1});
            continue;
        }
        int aside = plan_area_new(plan, to[i]->type);
        vec_push(plan->arena, &segment->moves, (Root){from[i], NULL, aside, -1});
        vec_push(plan->arena, &late, (Root){from[i], NULL, area, aside});
    }
    for (int i = 0; i < late.count; i++)
        vec_push(plan->arena, &segment->moves, late.items[i]);
}

static void move_all(Plan *plan, PlanBlock *block) {
    for (int s = 0; s < block->segments.count; s++) {
        Segment *segment = &block->segments.items[s];
        IrOp *op = segment->op;
        if (op && (op->kind == OP_FOR || op->kind == OP_WHILE))
            plan_moves(plan, segment, op->operands.items + ir_first_carried(op), op->results.items, op->results.count);
        if (op && op->kind == OP_YIELD)
            plan_moves(plan, segment, op->operands.items, block->block->owner->results.items, op->operands.count);
        for (int r = 0; r < 2 && segment->regions[r]; r++)
            move_all(plan, segment->regions[r]);
    }
}

/* ---- layout ---- */

static void lay_out(Plan *plan, int area) {
    Area *place = &plan->areas.items[plan_place(plan, area)];
    if (place->offset >= 0 || plan->scratch > PLAN_MAX_SCRATCH)
        return;
    place->offset = plan->scratch;
    plan->scratch = place->bytes > PLAN_MAX_SCRATCH ? INT64_MAX : plan->scratch + (place->bytes + AREA_ALIGN - 1) / AREA_ALIGN * AREA_ALIGN;
}

static void lay_out_segments(Plan *plan, const PlanBlock *block) {
    for (int s = 0; s < block->segments.count; s++) {
        const Segment *segment = &block->segments.items[s];
        for (int i = 0; i < segment->moves.count; i++)
            lay_out(plan, segment->moves.items[i].area);
        if (segment->op && (is_dot(segment->op) || plan_contracted(plan, segment->op))) {
            const Type *type = segment->op->results.items[0]->type;
            int64_t bytes = contract_scratch(type->scalar, tile_rows(type), tile_columns(type));
            plan->dot_scratch = bytes > plan->dot_scratch ? bytes : plan->dot_scratch;
            const Contracted *contracted = plan_contracted(plan, segment->op);
            int factor = contracted ? plan_kept_factor(plan, contracted) : -1;
            int64_t kept = factor < 0 ? 0 : contract_kept(type->scalar, factor == 0 ? tile_rows(type) : tile_columns(type));
            plan->kept_bytes = kept > plan->kept_bytes ? kept : plan->kept_bytes;
        }
        for (int r = 0; r < 2 && segment->regions[r]; r++)
            lay_out_segments(plan, segment->regions[r]);
    }
}

void plan_areas(Plan *plan) {
    share_accumulators(plan, plan->body);
    share_places(plan, plan->body);
    move_all(plan, plan->body);
    for (int i = 0; i < plan->value_count; i++)
        if (plan->values[i].area >= 0)
            lay_out(plan, plan->values[i].area);
    lay_out_segments(plan, plan->body);
    plan->dot_offset = plan->scratch;
    plan->kept_offset = plan->scratch + (plan->dot_scratch + AREA_ALIGN - 1) / AREA_ALIGN * AREA_ALIGN;
    if (plan->scratch <= PLAN_MAX_SCRATCH)
        plan->scratch = plan->kept_offset + plan->kept_bytes;
}
