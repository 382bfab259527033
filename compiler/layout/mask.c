/* Masks that hold for a whole tile. In a loop, `select(mask, a, b)` whose mask compares positions (indices of the tile's rows and columns, moved by
 * numbers that are the same for all of it) becomes a branch: one comparison of the ends finds out that the mask holds everywhere, and then the result
 * is `a`. Requires a specialised kernel without layouts. Preserves what is computed. */
#include "compiler/layout/layout.h"

typedef struct Masks {
    Context *context;
    IrKernel *kernel;
    IrOp *at; /* new ops go before it */
} Masks;

/* The integers of a tile: base + low .. base + high, by 64 bits, wrapping. */
typedef struct Span64 {
    IrValue *base; /* i64; NULL: 0 */
    int64_t low, high;
} Span64;

static bool is_i64(const Type *type) {
    return type->scalar == PHB_I64;
}

static const Type *scalar(const Masks *m, PhbDType dtype) {
    return type_scalar(m->context->types, dtype);
}

static IrValue *make(Masks *m, OpKind kind, PhbDType dtype, IrValue *a, IrValue *b) {
    IrBlock nowhere = {0};
    IrValue *value = ir_value(m->context, &nowhere, kind, m->at->span, scalar(m, dtype), a, b);
    value->def->parent = NULL;
    ir_insert_before(m->at, value->def);
    return value;
}

static IrValue *make_int(Masks *m, int64_t number) {
    IrValue *value = make(m, OP_CONST, PHB_I64, NULL, NULL);
    value->def->bits = (uint64_t)number;
    return value;
}

/* ---- what a tile's integers span ---- */

static void add_spans(Masks *m, const Span64 *a, const Span64 *b, bool subtract, Span64 *sum) {
    sum->low = a->low + (subtract ? -b->high : b->low);
    sum->high = a->high + (subtract ? -b->low : b->high);
    if (b->base)
        sum->base = make(m, subtract ? OP_SUB : OP_ADD, PHB_I64, a->base ? a->base : make_int(m, 0), b->base);
    else
        sum->base = a->base;
}

static bool find_span(Masks *m, IrValue *value, Span64 *span) {
    const IrOp *op = value->def;
    Span64 operands[2];
    *span = (Span64){0};
    if (value->type->kind == TYPE_SCALAR) {
        span->base = value;
        return is_i64(value->type);
    }
    if (!op)
        return false;
    switch (op->kind) {
    case OP_IOTA:
        span->high = tile_columns(value->type) - 1;
        return true;
    case OP_CONVERT: /* of a wider one: what it holds fits i32 */
        return is_i64(value->type) && op->operands.items[0]->type->scalar == PHB_I32 && find_span(m, op->operands.items[0], span) && !span->base;
    case OP_BROADCAST:
    case OP_RESHAPE:
        return find_span(m, op->operands.items[0], span);
    case OP_ADD:
    case OP_SUB:
        if (!is_i64(value->type) || !find_span(m, op->operands.items[0], &operands[0]) || !find_span(m, op->operands.items[1], &operands[1]))
            return false;
        add_spans(m, &operands[0], &operands[1], op->kind == OP_SUB, span);
        return true;
    default:
        return false;
    }
}

/* ---- where a mask holds everywhere ---- */

static IrValue *end_of(Masks *m, const Span64 *span, int64_t at) {
    return !span->base ? make_int(m, at) : at ? make(m, OP_ADD, PHB_I64, span->base, make_int(m, at)) : span->base;
}

/* The greatest of the left ones is less than the least of the right ones, and neither wraps around. */
static IrValue *holds_everywhere(Masks *m, OpKind kind, const Span64 sides[2]) {
    IrValue *ends[2][2];
    for (int side = 0; side < 2; side++) {
        ends[side][0] = end_of(m, &sides[side], sides[side].low);
        ends[side][1] = end_of(m, &sides[side], sides[side].high);
    }
    IrValue *holds = make(m, kind, PHB_BOOL, ends[0][1], ends[1][0]);
    for (int side = 0; side < 2; side++)
        if (sides[side].base && sides[side].low != sides[side].high)
            holds = make(m, OP_AND, PHB_BOOL, holds, make(m, OP_LE, PHB_BOOL, ends[side][0], ends[side][1]));
    return holds;
}

/* A scalar that is true only where every element of `mask` is; NULL: not known. */
static IrValue *find_whole(Masks *m, IrValue *mask) {
    const IrOp *op = mask->def;
    Span64 sides[2];
    if (mask->type->kind == TYPE_SCALAR)
        return mask;
    if (!op)
        return NULL;
    switch (op->kind) {
    case OP_BROADCAST:
    case OP_RESHAPE:
        return find_whole(m, op->operands.items[0]);
    case OP_AND: {
        IrValue *a = find_whole(m, op->operands.items[0]), *b = a ? find_whole(m, op->operands.items[1]) : NULL;
        return b ? make(m, OP_AND, PHB_BOOL, a, b) : NULL;
    }
    case OP_LT:
    case OP_LE:
        return find_span(m, op->operands.items[0], &sides[0]) && find_span(m, op->operands.items[1], &sides[1]) ? holds_everywhere(m, op->kind, sides)
                                                                                                                : NULL;
    default:
        return NULL;
    }
}

/* ---- the branch ---- */

/* A copy of the tile ops that `value` follows from, at the end of `block`: there alone they are computed. */
static IrValue *copy_mask(Masks *m, IrBlock *block, IrValue *value) {
    const IrOp *op = value->def;
    IrValue *operands[2];
    if (value->type->kind == TYPE_SCALAR)
        return value;
    for (int i = 0; i < op->operands.count; i++)
        operands[i] = copy_mask(m, block, op->operands.items[i]);
    IrOp *copy = ir_append(m->context, block, op->kind, op->span, operands, op->operands.count, &value->type, 1);
    ir_copy_attributes(copy, op);
    return copy->results.items[0];
}

static void branch(Masks *m, IrOp *select, IrValue *whole) {
    Context *context = m->context;
    IrValue *result = select->results.items[0], *operands[3] = {NULL, select->operands.items[1], select->operands.items[2]};
    IrBlock nowhere = {0};
    IrOp *op = ir_append(context, &nowhere, OP_IF, select->span, &whole, 1, &result->type, 1);
    op->parent = NULL;
    ir_insert_before(select, op);
    ir_append(context, ir_region_new(context, op), OP_YIELD, select->span, &operands[1], 1, NULL, 0);
    IrBlock *edge = ir_region_new(context, op);
    operands[0] = copy_mask(m, edge, select->operands.items[0]);
    IrOp *copy = ir_append(context, edge, OP_SELECT, select->span, operands, 3, &result->type, 1);
    ir_append(context, edge, OP_YIELD, select->span, copy->results.items, 1, NULL, 0);
    ir_replace_uses(m->kernel, result, op->results.items[0]);
    ir_remove(select);
}

static bool branch_in(Masks *m, IrBlock *block, bool is_loop) {
    bool changed = false;
    for (IrOp *op = block->first, *next; op; op = next) {
        next = op->next;
        m->at = op;
        IrValue *whole = NULL;
        if (is_loop && op->kind == OP_SELECT && op->operands.items[0]->type->kind == TYPE_TILE)
            whole = find_whole(m, op->operands.items[0]);
        if (whole)
            branch(m, op, whole);
        changed |= whole != NULL;
        for (int r = 0; r < op->regions.count; r++)
            changed |= branch_in(m, op->regions.items[r], op->kind == OP_FOR);
    }
    return changed;
}

bool layout_masks(Context *context, IrKernel *kernel) {
    Masks masks = {.context = context, .kernel = kernel};
    if (ir_has_thread_code(kernel) || !branch_in(&masks, kernel->body, false))
        return false;
    ir_dce(context, kernel);
    return true;
}
