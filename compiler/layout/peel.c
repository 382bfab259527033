/* Turns in which masks hold everywhere become a loop of their own, before the loop that goes on with the others: `mask.c` has made branches of such
 * masks, and where products run behind the threads' backs a branch between them is in their way. Requires layouts. Preserves what is computed. Takes
 * loops of matrix instructions of four warps whose branches are taken up to some turn and not after it: their conditions compare the index, moved
 * by what is the same in all turns, to what is. */
#include "compiler/layout/layout.h"

enum { MOST_BRANCHES = 4, MOST_DEPTH = 16 };

typedef struct Peel {
    Ahead ahead;
    IrKernel *kernel;
    IrOp *branches[MOST_BRANCHES];
    int count;
    IrValue *limit;   /* branches are taken where the index is below it; NULL: everywhere */
    IrValue *is_safe; /* bool: nothing that is compared comes near the ends of i64; NULL: nothing does */
} Peel;

/* The index times `index`, and what is the same in all turns. */
typedef struct Affine {
    int index;
    IrValue *rest; /* NULL: 0 */
} Affine;

static IrValue *make(Peel *p, OpKind kind, PhbDType dtype, IrValue *x, IrValue *y) {
    return ahead_value(&p->ahead, kind, type_scalar(p->ahead.context->types, dtype), x, y);
}

static bool find_affine(Peel *p, IrValue *value, Affine *affine, int depth) {
    Affine sides[2];
    const IrOp *op = value->def;
    *affine = (Affine){0, value};
    if (!ir_is_inside(value, p->ahead.loop))
        return true;
    if (value == p->ahead.body->args.items[0]) {
        *affine = (Affine){1, NULL};
        return true;
    }
    if (op && op->kind == OP_CONST) {
        affine->rest = ahead_int(&p->ahead, (int64_t)op->bits);
        return true;
    }
    if (!op || (op->kind != OP_ADD && op->kind != OP_SUB) || depth == MOST_DEPTH)
        return false;
    for (int i = 0; i < 2; i++)
        if (!find_affine(p, op->operands.items[i], &sides[i], depth + 1))
            return false;
    bool adds = op->kind == OP_ADD;
    affine->index = sides[0].index + (adds ? sides[1].index : -sides[1].index);
    affine->rest = !sides[1].rest           ? sides[0].rest
                   : !sides[0].rest && adds ? sides[1].rest
                                            : make(p, op->kind, PHB_I64, sides[0].rest ? sides[0].rest : ahead_int(&p->ahead, 0), sides[1].rest);
    return true;
}

static void both(Peel *p, IrValue **all, IrValue *condition) {
    *all = *all ? make(p, OP_AND, PHB_BOOL, *all, condition) : condition;
}

/* Sums and differences of such do not wrap around. */
static void must_be_near(Peel *p, IrValue *value) {
    const int64_t near = INT64_C(1) << 60;
    both(p, &p->is_safe, make(p, OP_LE, PHB_BOOL, ahead_int(&p->ahead, -near), value));
    both(p, &p->is_safe, make(p, OP_LE, PHB_BOOL, value, ahead_int(&p->ahead, near)));
}

static void note_limit(Peel *p, IrValue *limit) {
    p->limit = p->limit ? make(p, OP_MIN, PHB_I64, p->limit, limit) : limit;
}

/* Of a condition that has to hold. */
static bool find_limit(Peel *p, const IrValue *condition) {
    const IrOp *op = condition->def;
    Affine sides[2];
    if (!op || op->parent != p->ahead.body)
        return false;
    if (op->kind == OP_AND)
        return find_limit(p, op->operands.items[0]) && find_limit(p, op->operands.items[1]);
    if ((op->kind != OP_LT && op->kind != OP_LE) || op->operands.items[0]->type->scalar != PHB_I64)
        return false;
    for (int i = 0; i < 2; i++) {
        if (!find_affine(p, op->operands.items[i], &sides[i], 0))
            return false;
        if (!sides[i].rest)
            sides[i].rest = ahead_int(&p->ahead, 0);
        must_be_near(p, sides[i].rest);
    }
    if (sides[0].index == sides[1].index) {
        both(p, &p->is_safe, make(p, op->kind, PHB_BOOL, sides[0].rest, sides[1].rest));
        return true;
    }
    if (sides[0].index - sides[1].index != 1)
        return false;
    IrValue *limit = make(p, OP_SUB, PHB_I64, sides[1].rest, sides[0].rest);
    note_limit(p, op->kind == OP_LT ? limit : make(p, OP_ADD, PHB_I64, limit, ahead_int(&p->ahead, 1)));
    return true;
}

/* A branch that gives what is there already where its condition holds. */
static bool is_mask(const IrOp *op) {
    return op->kind == OP_IF && op->results.count == 1 && op->regions.items[0]->first == op->regions.items[0]->last;
}

static bool find_branches(Peel *p) {
    bool has_product = false;
    for (IrOp *op = p->ahead.body->first; op; op = op->next) {
        has_product |= op->kind == OP_WGMMA || op->kind == OP_WGMMA_T;
        if (is_mask(op) && p->count < MOST_BRANCHES)
            p->branches[p->count++] = op;
    }
    const IrOp *step = p->ahead.loop->operands.items[2]->def;
    return has_product && p->count && step && step->kind == OP_CONST && (int64_t)step->bits > 0;
}

/* Makes the ops that compute it. */
static bool find_limits(Peel *p) {
    for (int i = 0; i < p->count; i++)
        if (!find_limit(p, p->branches[i]->operands.items[0]))
            return false;
    return p->limit != NULL;
}

/* The index of the first turn that is left, no earlier than the loop's first one. */
static IrValue *first_left(Peel *p) {
    IrValue *start = p->ahead.loop->operands.items[0], *end = p->ahead.loop->operands.items[1], *step = p->ahead.loop->operands.items[2];
    must_be_near(p, start);
    must_be_near(p, end);
    IrValue *limit = ahead_select(&p->ahead, p->is_safe, make(p, OP_MIN, PHB_I64, p->limit, end), start);
    IrValue *length = make(p, OP_MAX, PHB_I64, make(p, OP_SUB, PHB_I64, limit, start), ahead_int(&p->ahead, 0));
    IrValue *turns = make(p, OP_DIV, PHB_I64, make(p, OP_ADD, PHB_I64, length, ahead_int(&p->ahead, (int64_t)step->def->bits - 1)), step);
    return make(p, OP_ADD, PHB_I64, start, make(p, OP_MUL, PHB_I64, turns, step));
}

static void peel(Peel *p) {
    Context *context = p->ahead.context;
    IrOp *loop = p->ahead.loop;
    IrValue *left = first_left(p);
    IrBlock block = {.owner = loop->parent->owner};
    IrValue **copies = NEW_ARRAY(context->arena, IrValue *, ir_number(p->kernel) + 1);
    IrOp *first = layout_copy(context, copies, loop, &block);
    ir_remove(first);
    ir_insert_before(loop, first);
    for (int i = 0; i < p->count; i++) {
        IrValue *copy = copies[p->branches[i]->results.items[0]->id], *given = copy->def->regions.items[0]->last->operands.items[0];
        ir_replace_uses_in(first->regions.items[0], copy, given);
        ir_remove(copy->def);
    }
    first->operands.items[1] = left;
    loop->operands.items[0] = left;
    for (int i = 0; i < loop->results.count; i++)
        loop->operands.items[ir_first_carried(loop) + i] = first->results.items[i];
}

static bool peel_block(Context *context, IrKernel *kernel, IrBlock *block) {
    bool changed = false;
    for (IrOp *op = block->first; op; op = op->next) {
        for (int r = 0; r < op->regions.count; r++)
            changed |= peel_block(context, kernel, op->regions.items[r]);
        if (op->kind != OP_FOR)
            continue;
        Peel p = {.ahead = {context, op, op->regions.items[0], op, NULL}, .kernel = kernel};
        if (!find_branches(&p))
            continue;
        changed = true; /* if only by a part of a limit */
        if (find_limits(&p))
            peel(&p);
    }
    return changed;
}

void layout_peel(Context *context, IrKernel *kernel) {
    if (peel_block(context, kernel, kernel->body))
        ir_dce(context, kernel);
}
