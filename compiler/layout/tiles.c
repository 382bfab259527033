/* CTAs that stay. Where all that a kernel does is one contraction by bulk copies and the epilogue by columns, a CTA goes on to further blocks of the
 * grid, and copies for the next block's first turns run ahead through the epilogue (layout_bulk). The launch has no more CTAs than the card holds at
 * once.
 *
 * Requires the value level and marked products. Which turns there are, and which slices they copy, must follow from the block and the turn alone. */
#include "compiler/layout/layout.h"

enum { MOST_DEPTH = 32 };

/* By pure scalar ops from what the whole launch shares, and from `index` and the block where those are given. */
static bool follows(const IrValue *value, const IrValue *index, bool from_block, int depth) {
    const IrOp *op = value->def;
    if (value == index || ir_is_param(value))
        return true;
    if (!op || depth == MOST_DEPTH || !(op_info[op->kind].traits & TRAIT_PURE) || (op->kind == OP_BLOCK && !from_block))
        return false;
    for (int i = 0; i < op->operands.count; i++)
        if (op->operands.items[i]->type->kind == TYPE_TILE || !follows(op->operands.items[i], index, from_block, depth + 1))
            return false;
    return true;
}

static bool copies_follow(const IrOp *loop) {
    bool follow = true;
    for (const IrOp *op = loop->regions.items[0]->first; follow && op; op = op->next)
        for (int i = 1; follow && op->kind == OP_LOAD && i < op->operands.count; i++)
            follow = follows(op->operands.items[i], loop->regions.items[0]->args.items[0], true, 0);
    return follow;
}

bool layout_tiles_can(const IrKernel *kernel, const IrOp *loop) {
    if (loop->parent != kernel->body || ir_has_thread_code(kernel) || kernel->signature.cluster_dims[0] || !kernel->signature.grid[0].counts.count)
        return false;
    for (int i = 0; i < 3; i++)
        if (!follows(loop->operands.items[i], NULL, false, 0))
            return false;
    for (const IrOp *op = kernel->body->first; op; op = op->next)
        if (op != loop && (op->regions.count || (op_info[op->kind].traits & (TRAIT_SYNC | TRAIT_THREAD))))
            return false;
    return copies_follow(loop);
}

/* ---- the loop over blocks ---- */

static IrOp *append(Context *context, IrBlock *block, OpKind kind, Span span, IrValue *const *operands, int count, const Type *type) {
    return ir_append(context, block, kind, span, operands, count, &type, type ? 1 : 0);
}

static IrValue *number(Context *context, IrBlock *block, Span span, int64_t value) {
    IrOp *op = append(context, block, OP_CONST, span, NULL, 0, type_scalar(context->types, PHB_I64));
    op->bits = (uint64_t)value;
    return op->results.items[0];
}

/* Blocks of the grid. */
static IrValue *count_blocks(Context *context, const IrKernel *kernel, IrBlock *block, Span span) {
    const Type *i64 = type_scalar(context->types, PHB_I64);
    IrValue *count = NULL;
    for (int axis = 0; axis < 3; axis++) {
        if (!kernel->signature.grid[axis].counts.count)
            continue;
        IrOp *extent = append(context, block, OP_GRID, span, NULL, 0, i64);
        extent->axis = axis;
        IrValue *factors[2] = {count, extent->results.items[0]};
        count = count ? append(context, block, OP_MUL, span, factors, 2, i64)->results.items[0] : factors[1];
    }
    return count;
}

/* Where the block's place was asked for, it is that of the block of the turn. */
static void place_blocks(IrBlock *block, IrValue *const *operands, Context *context) {
    for (IrOp *op = block->first; op; op = op->next) {
        for (int r = 0; r < op->regions.count; r++)
            place_blocks(op->regions.items[r], operands, context);
        if (op->kind != OP_BLOCK)
            continue;
        op->kind = OP_BLOCK_OF;
        vec_push(context->arena, &op->operands, operands[0]);
        vec_push(context->arena, &op->operands, operands[1]);
    }
}

/* What is 0 for the CTA's first block, 1 for its second, and so on in turn. */
static void turn_parity(Context *context, IrKernel *kernel, IrOp *loop, IrOp *end, IrValue *zero, IrValue *parity) {
    Ahead ahead = {.context = context, .loop = loop, .body = loop->regions.items[0], .at = end};
    IrValue *carried = ahead_carry(&ahead, loop, zero);
    ir_replace_uses(kernel, parity, carried);
    IrValue *next = ahead_value(&ahead, OP_SUB, carried->type, ahead_int(&ahead, 1), carried);
    vec_push(context->arena, &end->operands, next);
}

void layout_tiles(Context *context, IrKernel *kernel, IrValue *parity, Span span) {
    const Type *i64 = type_scalar(context->types, PHB_I64);
    int group = layout_order(kernel);
    IrOp *first = kernel->body->first, *last = kernel->body->last;
    kernel->body->first = kernel->body->last = NULL;
    IrValue *range[3] = {append(context, kernel->body, OP_CTA, span, NULL, 0, i64)->results.items[0], count_blocks(context, kernel, kernel->body, span),
        append(context, kernel->body, OP_CTAS, span, NULL, 0, i64)->results.items[0]};
    IrValue *grouped = number(context, kernel->body, span, group), *zero = number(context, kernel->body, span, 0);
    IrOp *loop = append(context, kernel->body, OP_FOR, span, range, 3, NULL);
    IrBlock *body = ir_region_new(context, loop);
    IrValue *place[2] = {ir_block_arg(context, body, i64, NULL), grouped};
    IrOp *end = append(context, body, OP_YIELD, span, NULL, 0, NULL);
    for (IrOp *op = first, *next; op != last; op = next) {
        next = op->next;
        op->parent = NULL;
        op->prev = op->next = NULL;
        bool is_shared = op->kind == OP_BULK_RING || op->kind == OP_MBARRIERS;
        ir_insert_before(is_shared ? loop : end, op); /* slots of what is stored are the CTA's */
    }
    if (ir_count_uses(body, parity) > 0)
        turn_parity(context, kernel, loop, end, zero, parity);
    place_blocks(body, place, context);
    append(context, kernel->body, OP_BULK_STORE_WAIT, span, NULL, 0, NULL)->dim = dim_int(context->dims, 0);
    append(context, kernel->body, last->kind, last->span, NULL, 0, NULL);
}

IrOp *layout_tiles_around(const IrOp *loop) {
    IrOp *around = loop->parent->owner;
    const IrOp *step = around && around->kind == OP_FOR ? around->operands.items[2]->def : NULL;
    return step && step->kind == OP_CTAS ? around : NULL;
}

bool layout_stays(const IrKernel *kernel) {
    bool stays = false;
    for (const IrOp *op = kernel->body->first; !stays && op; op = op->next)
        stays = op->kind == OP_CTAS;
    return stays;
}

/* ---- copies that run on over blocks ---- */

enum { INDEX, BLOCK, PLACE }; /* of the state: the turn's index in its loop, the block's number and its place along each axis */

static const Type *type_i64(const Ahead *a) {
    return type_scalar(a->context->types, PHB_I64);
}

static IrValue *place_of(Ahead *a, IrValue *block, int axis) {
    IrOp *op = ahead_op(a, OP_BLOCK_OF, (IrValue *[]){block, a->group}, 2, type_i64(a));
    op->axis = axis;
    return op->results.items[0];
}

/* Rows of a group, as the blocks of the loop have it; NULL: nothing asks for a place. */
static IrValue *find_group(const IrBlock *block) {
    IrValue *group = NULL;
    for (const IrOp *op = block->first; !group && op; op = op->next) {
        group = op->kind == OP_BLOCK_OF ? op->operands.items[1] : NULL;
        for (int r = 0; !group && r < op->regions.count; r++)
            group = find_group(op->regions.items[r]);
    }
    return group;
}

/* Bounds are the same for all blocks. */
void tiles_begin(Ahead *a, IrValue *state[TILES_STATE]) {
    IrOp *loop = a->loop;
    const Type *truth = type_scalar(a->context->types, PHB_BOOL);
    for (int i = 0; i < 3; i++)
        a->range[i] = ahead_clone(a, loop->operands.items[i]);
    a->group = find_group(a->tiles->regions.items[0]);
    if (!a->group)
        a->group = ahead_int(a, 0);
    IrValue *has_turns = ahead_value(a, OP_LT, truth, a->range[0], a->range[1]);
    a->blocks = ahead_select(a, has_turns, a->tiles->operands.items[1], ahead_int(a, 0));
    state[INDEX] = a->range[0];
    state[BLOCK] = a->tiles->operands.items[0];
    for (int axis = 0; axis < 3; axis++)
        state[PLACE + axis] = place_of(a, state[BLOCK], axis);
    for (int axis = 0; axis < 3; axis++)
        a->block[axis] = state[PLACE + axis];
}

IrValue *tiles_is_there(Ahead *a, IrValue *const state[TILES_STATE]) {
    for (int axis = 0; axis < 3; axis++)
        a->block[axis] = state[PLACE + axis];
    return ahead_value(a, OP_LT, type_scalar(a->context->types, PHB_BOOL), state[BLOCK], a->blocks);
}

/* To the next turn of the block, or the first one of the CTA's next block. */
void tiles_advance(Ahead *a, IrValue *state[TILES_STATE]) {
    IrOp *at = a->at;
    IrValue *index = ahead_value(a, OP_ADD, type_i64(a), state[INDEX], a->range[2]);
    IrValue *same = ahead_value(a, OP_LT, type_scalar(a->context->types, PHB_BOOL), index, a->range[1]);
    IrOp *branch = ahead_op(a, OP_IF, &same, 1, NULL);
    IrValue *here[TILES_STATE] = {index, state[BLOCK], state[PLACE], state[PLACE + 1], state[PLACE + 2]}, *there[TILES_STATE];
    ir_append(a->context, ir_region_new(a->context, branch), OP_YIELD, a->loop->span, here, TILES_STATE, NULL, 0);
    a->at = ir_append(a->context, ir_region_new(a->context, branch), OP_YIELD, a->loop->span, NULL, 0, NULL, 0);
    there[INDEX] = a->range[0];
    there[BLOCK] = ahead_value(a, OP_ADD, type_i64(a), state[BLOCK], a->tiles->operands.items[2]);
    for (int axis = 0; axis < 3; axis++)
        there[PLACE + axis] = place_of(a, there[BLOCK], axis);
    for (int i = 0; i < TILES_STATE; i++) {
        IrValue *result = NEW(a->context->arena, IrValue);
        *result = (IrValue){.type = type_i64(a), .def = branch, .index = i};
        vec_push(a->context->arena, &a->at->operands, there[i]);
        vec_push(a->context->arena, &branch->results, result);
        state[i] = result;
    }
    a->at = at;
}
