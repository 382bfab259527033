/* Contraction loops: `for k in range(..)` that carries a tile `acc`, whose new value is dot(A slice, B slice, acc) with slices that step through k
 * side by side, is one contraction of a whole row of slices of A with one of B. `contraction_isolate` takes each such accumulator out of its loop,
 * into a loop of its own before it; `contraction_match` says what such a loop computes. Both look at the IR alone. */
#include "compiler/lower/lower.h"

/* ---- offsets ---- */

static bool is_outside(const IrValue *value, const IrOp *loop) {
    return !ir_is_inside(value, loop);
}

/* How much `value` grows as the loop's index grows by one; false where that is not a constant. */
static bool find_growth(const IrValue *value, const IrOp *loop, int64_t *growth) {
    *growth = 0;
    if (is_outside(value, loop))
        return true;
    if (!value->def) {
        *growth = 1;
        return value == loop->regions.items[0]->args.items[0];
    }
    if (value->def->parent != loop->regions.items[0] || !(op_info[value->def->kind].traits & TRAIT_PURE))
        return false;
    int64_t parts[2] = {0, 0};
    for (int i = 0; i < value->def->operands.count; i++)
        if (!find_growth(value->def->operands.items[i], loop, &parts[i > 0]))
            return false;
    switch (value->def->kind) {
    case OP_ADD:
        return !__builtin_add_overflow(parts[0], parts[1], growth);
    case OP_SUB:
        return !__builtin_sub_overflow(parts[0], parts[1], growth);
    default:
        return parts[0] == 0 && parts[1] == 0 && value->def->operands.count <= 2;
    }
}

/* The axis of the tensor that axis `axis` of the loaded or stored tile walks: of points and extents of 1 the leftmost drop. */
static int tensor_axis(const IrOp *access, const Type *tile, int axis) {
    int rank = access->operands.items[0]->type->rank, to_drop = rank - tile->rank;
    for (int k = 0; k < rank; k++) {
        int64_t extent = 1;
        if (access->extent[k] && !dim_is_int(access->extent[k], &extent))
            return -1;
        if (extent == 1 && to_drop > 0)
            to_drop--;
        else if (axis-- == 0)
            return k;
    }
    return -1;
}

/* ---- the pattern ---- */

/* A load in the loop's body, of which k is axis `axis` of the tile: every turn reads the `step` columns that follow the last turn's. */
static bool match_factor(const IrValue *value, int axis, const IrOp *loop, int64_t step, const bool *stored) {
    const IrOp *load = value->def;
    int64_t extent, growth;
    if (!load || load->kind != OP_LOAD || load->parent != loop->regions.items[0] || value->type->rank != 2)
        return false;
    if (!ir_is_param(load->operands.items[0]) || stored[load->operands.items[0]->index])
        return false;
    int along = tensor_axis(load, value->type, axis);
    if (along < 0 || !dim_is_int(value->type->dims[axis], &extent) || extent != step)
        return false;
    for (int k = 0; k < load->operands.items[0]->type->rank; k++)
        if (!find_growth(load->operands.items[1 + k], loop, &growth) || growth != (k == along))
            return false;
    return true;
}

/* Is carried value `index` of the loop a contraction's accumulator, which nobody sees before the end? */
static bool match_carried(const IrOp *loop, int index, const bool *stored, Contracted *found) {
    const IrBlock *body = loop->regions.items[0];
    const IrValue *acc = body->args.items[1 + index], *next = body->last->operands.items[index];
    const IrOp *dot = next->def, *step = loop->operands.items[2]->def;
    if (!dot || (dot->kind != OP_DOT && dot->kind != OP_DOT_T) || dot->parent != body || dot->operands.items[2] != acc)
        return false;
    if (!step || step->kind != OP_CONST || (int64_t)step->bits <= 0 || ir_count_uses(body, acc) != 1 || ir_count_uses(body, next) != 1)
        return false;
    *found = (Contracted){loop, dot, dot->operands.items[0]->def, dot->operands.items[1]->def, (int64_t)step->bits};
    return match_factor(dot->operands.items[0], 1, loop, found->step, stored) &&
           match_factor(dot->operands.items[1], dot->kind == OP_DOT_T ? 1 : 0, loop, found->step, stored);
}

static bool *find_stored(Context *context, const IrOp *loop, const IrKernel *kernel) {
    bool *stored = NEW_ARRAY(context->arena, bool, kernel->body->args.count + 1);
    ir_mark_stored(loop, stored);
    return stored;
}

bool contraction_match(Context *context, const IrKernel *kernel, const IrOp *loop, Contracted *found) {
    if (loop->kind != OP_FOR || loop->results.count != 1 || !match_carried(loop, 0, find_stored(context, loop, kernel), found))
        return false;
    for (const IrOp *op = loop->regions.items[0]->first; op; op = op->next) {
        bool is_scalar = op->results.count == 1 && op->results.items[0]->type->kind == TYPE_SCALAR && (op_info[op->kind].traits & TRAIT_PURE);
        if (!is_scalar && op != found->a && op != found->b && op != found->dot && op->kind != OP_YIELD)
            return false;
    }
    return true;
}

/* ---- isolation ---- */

/* `value` in the new body: made anew with all that it needs from the old one. */
static IrValue *copy_value(Context *context, const IrOp *loop, IrValue *value, IrBlock *body) {
    if (is_outside(value, loop))
        return value;
    if (!value->def)
        return body->args.items[value->index];
    IrOp *def = value->def;
    IrValue **operands = NEW_ARRAY(context->arena, IrValue *, def->operands.count + 1);
    for (int i = 0; i < def->operands.count; i++)
        operands[i] = copy_value(context, loop, def->operands.items[i], body);
    IrOp *copy = ir_append(context, body, def->kind, def->span, operands, def->operands.count, &value->type, 1);
    ir_copy_attributes(copy, def);
    return copy->results.items[0];
}

static void isolate(Context *context, IrKernel *kernel, const Contracted *found, int index) {
    IrOp *loop = (IrOp *)found->loop;
    IrValue *operands[4] = {loop->operands.items[0], loop->operands.items[1], loop->operands.items[2], loop->operands.items[3 + index]};
    IrOp *own = ir_append(context, loop->parent, OP_FOR, loop->span, operands, 4, &found->dot->results.items[0]->type, 1);
    IrBlock *body = ir_region_new(context, own);
    ir_block_arg(context, body, loop->operands.items[0]->type, NULL);
    ir_block_arg(context, body, operands[3]->type, NULL);
    IrValue *factors[3] = {NULL, NULL, body->args.items[1]};
    for (int i = 0; i < 2; i++)
        factors[i] = copy_value(context, loop, found->dot->operands.items[i], body);
    IrOp *dot = ir_append(context, body, found->dot->kind, found->dot->span, factors, 3, &found->dot->results.items[0]->type, 1);
    ir_append(context, body, OP_YIELD, loop->regions.items[0]->last->span, dot->results.items, 1, NULL, 0);
    ir_insert_before(loop, own);
    ir_replace_uses(kernel, loop->results.items[index], own->results.items[0]);
}

static bool is_used(const IrKernel *kernel, const IrValue *value) {
    return ir_count_uses(kernel->body, value) > 0;
}

static bool isolate_in(Context *context, IrKernel *kernel, IrBlock *block) {
    bool changed = false;
    for (IrOp *op = block->first; op; op = op->next) {
        for (int i = 0; i < op->regions.count; i++)
            changed |= isolate_in(context, kernel, op->regions.items[i]);
        Contracted found;
        if (op->kind != OP_FOR || contraction_match(context, kernel, op, &found))
            continue;
        const bool *stored = find_stored(context, op, kernel);
        for (int i = 0; i < op->results.count; i++) {
            if (!is_used(kernel, op->results.items[i]) || !match_carried(op, i, stored, &found))
                continue;
            isolate(context, kernel, &found, i);
            changed = true;
        }
    }
    return changed;
}

bool contraction_isolate(Context *context, IrKernel *kernel) {
    return isolate_in(context, kernel, kernel->body);
}

/* ---- what is seen of a result ---- */

static bool same_shape(const Type *a, const Type *b) {
    return a->kind == TYPE_TILE && b->kind == TYPE_TILE && a->rank == b->rank && a->dims[0] == b->dims[0] && a->dims[1] == b->dims[1];
}

/* Does the store drop what lies beyond the edge that axis `along` of the load's tensor has at axis `axis` of the tile? */
static bool store_drops(const IrOp *store, int axis, const IrOp *load, int along) {
    int own = tensor_axis(store, store->operands.items[store->operands.count - 1]->type, axis);
    return own >= 0 && store->operands.items[1 + own] == load->operands.items[1 + along] &&
           store->operands.items[0]->type->dims[own] == load->operands.items[0]->type->dims[along];
}

static bool value_drops(const IrBlock *block, const IrValue *value, int axis, const IrOp *load, int along);

static bool use_drops(const IrBlock *root, const IrOp *op, const IrValue *value, int axis, const IrOp *load, int along) {
    if (op->kind == OP_STORE)
        return same_shape(op->operands.items[op->operands.count - 1]->type, value->type) && store_drops(op, axis, load, along);
    bool is_elementwise = op->kind >= OP_ADD && op->kind <= OP_CONVERT && same_shape(op->results.items[0]->type, value->type);
    return is_elementwise && value_drops(root, op->results.items[0], axis, load, along);
}

static bool block_drops(const IrBlock *root, const IrBlock *block, const IrValue *value, int axis, const IrOp *load, int along) {
    for (const IrOp *op = block->first; op; op = op->next) {
        for (int i = 0; i < op->operands.count; i++)
            if (op->operands.items[i] == value && !use_drops(root, op, value, axis, load, along))
                return false;
        for (int i = 0; i < op->regions.count; i++)
            if (!block_drops(root, op->regions.items[i], value, axis, load, along))
                return false;
    }
    return true;
}

static bool value_drops(const IrBlock *block, const IrValue *value, int axis, const IrOp *load, int along) {
    return block_drops(block, block, value, axis, load, along);
}

bool contraction_unseen(const IrKernel *kernel, const Contracted *contracted, int axis) {
    const IrOp *load = axis == 0 ? contracted->a : contracted->b;
    int along = tensor_axis(load, load->results.items[0]->type, axis == 0 || contracted->dot->kind == OP_DOT_T ? 0 : 1);
    return value_drops(kernel->body, contracted->loop->results.items[0], axis, load, along);
}
