/* Takes a loop apart whose last product alone adds to what the loop carries, `acc = dot(p, slice, f(acc))`, while nothing else looks at that: the
 * next turn's other products and what is made of them do not need this turn's last one. So each turn issues the first product of the next turn, then
 * its own last one, computes with the sums of the first while the last one runs, and waits for that at the end. What the last product takes of its
 * turn's values is carried. The first turn's first part stands before the loop, the last turn's last one behind it. */
#include "compiler/layout/chain.h"

enum { LEAST_SLOTS = 3, MOST_CROSSING = 16 };

typedef struct Overlap {
    Chain *c;
    IrOp *last;                       /* product; its part are the ops with `mark` */
    int carried;                      /* which of the loop's results it gives */
    IrValue **copies;                 /* by IrValue.id, of what is in the loop */
    IrValue *crossing[MOST_CROSSING]; /* values that the last part takes of the first one */
    int crossing_count;
} Overlap;

/* ---- which loops ---- */

static bool is_carried_sum(const Overlap *o, const IrValue *value) {
    return !value->def && value->block == o->c->ahead->body && value->index == 1 + o->carried;
}

static bool follows_sum(const Overlap *o, const IrOp *op) {
    bool follows = false;
    for (int i = 0; !follows && i < op->operands.count; i++) {
        const IrValue *value = op->operands.items[i];
        follows = is_carried_sum(o, value) || (!ir_is_param(value) && value->def && value->def->parent == o->c->ahead->body && value->def->mark);
    }
    for (int r = 0; r < op->regions.count; r++)
        for (const IrOp *inner = op->regions.items[r]->first; !follows && inner; inner = inner->next)
            follows = follows_sum(o, inner);
    return follows;
}

static bool is_used_by_last_part(const Overlap *o, const IrValue *value) {
    int uses = 0;
    for (const IrOp *op = o->c->ahead->body->first; op; op = op->next)
        for (int i = 0; op->mark && i < op->operands.count; i++)
            uses += op->operands.items[i] == value;
    return uses > 0 && uses == ir_count_uses(o->c->ahead->body, value);
}

/* Marks the last part: what follows from the carried sum, and broadcasts that it alone uses, which are less to carry before. */
static bool mark_parts(Overlap *o) {
    const IrBlock *body = o->c->ahead->body;
    for (IrOp *op = body->first; op; op = op->next) {
        op->mark = op == o->last || (op != body->last && follows_sum(o, op));
        if (op->mark && op != o->last && (op->regions.count || !(op_info[op->kind].traits & TRAIT_PURE)))
            return false;
    }
    for (IrOp *op = body->last; op; op = op->prev) {
        bool is_own = op->results.count == 1 && op->mark && op != o->last;
        if (is_own && !is_used_by_last_part(o, op->results.items[0]))
            return false;
        if (op->kind == OP_BROADCAST && !op->mark)
            op->mark = is_used_by_last_part(o, op->results.items[0]);
    }
    return true;
}

static bool add_crossing(Overlap *o, IrValue *value) {
    const IrOp *body_op = value->def;
    bool is_slice = body_op && body_op->kind == OP_LOAD && body_op == o->last->operands.items[1]->def;
    if (ir_is_param(value) || !ir_is_inside(value, o->c->ahead->loop) || is_carried_sum(o, value) || (body_op && body_op->mark) || is_slice)
        return true;
    for (int i = 0; i < o->crossing_count; i++)
        if (o->crossing[i] == value)
            return true;
    if (o->crossing_count == MOST_CROSSING)
        return false;
    o->crossing[o->crossing_count++] = value;
    return true;
}

static bool find_crossing(Overlap *o) {
    for (IrOp *op = o->c->ahead->body->first; op; op = op->next)
        for (int i = 0; op->mark && i < op->operands.count; i++)
            if (!add_crossing(o, op->operands.items[i]))
                return false;
    return true;
}

static bool can_overlap(Overlap *o) {
    const Bulk *b = o->c->b;
    const IrBlock *body = o->c->ahead->body;
    o->last = b->dots[b->dot_count - 1];
    const IrValue *sums = o->last->results.items[0];
    if (b->slots < LEAST_SLOTS || b->dot_count < 2 || ir_count_uses(body, sums) != 1)
        return false;
    while (o->carried < body->last->operands.count && body->last->operands.items[o->carried] != sums)
        o->carried++;
    if (o->carried == body->last->operands.count || !mark_parts(o))
        return false;
    for (int d = 0; d < b->dot_count - 1; d++) /* slices are of one part's products */
        if (b->dots[d]->mark || b->dots[d]->operands.items[1] == o->last->operands.items[1])
            return false;
    return o->last->operands.items[0]->type->kind == TYPE_TILE && o->last->operands.items[0]->def &&
           o->last->operands.items[0]->def->kind != OP_LOAD && find_crossing(o);
}

/* ---- copies of ops ---- */

static IrValue *copy_of(const Overlap *o, IrValue *value) {
    return layout_copy_of(o->copies, value);
}

/* Copies one part of a turn before `at`; gives its products. */
static int copy_part(Overlap *o, bool is_last, IrOp *at, IrOp **dots) {
    const Bulk *b = o->c->b;
    const IrBlock *body = o->c->ahead->body;
    IrBlock copies = {.owner = at->parent->owner};
    int count = 0;
    for (const IrOp *op = body->first; op != body->last; op = op->next)
        if (op->mark == is_last && (op->kind != OP_LOAD || !chain_is_slice(b, op)))
            layout_copy(o->c->ahead->context, o->copies, op, &copies);
    for (IrOp *op = copies.first, *next; op; op = next) {
        next = op->next;
        if (op->kind == OP_WGMMA || op->kind == OP_WGMMA_T)
            dots[count++] = op;
        ir_remove(op);
        ir_insert_before(at, op);
    }
    return count;
}

/* ---- the loop ---- */

static ChainSlots slots_of(Overlap *o, int number, int parity) {
    return (ChainSlots){ahead_int(o->c->ahead, number), ahead_int(o->c->ahead, parity)};
}

/* The first turn's first part; what it gives is what the loop begins with. */
static void begin_turns(Overlap *o) {
    Chain *c = o->c;
    IrOp *loop = c->ahead->loop, *dots[BULK_MOST_DOTS];
    const IrBlock *body = c->ahead->body;
    bool waited[BULK_MOST_COPIES] = {false};
    for (int i = 0; i < body->args.count; i++)
        o->copies[body->args.items[i]->id] = i == 0 ? loop->operands.items[0] : loop->operands.items[ir_first_carried(loop) + i - 1];
    int count = copy_part(o, false, loop, dots);
    for (int d = 0; d < count; d++) {
        c->ahead->at = dots[d];
        chain_take_slots(c, dots[d], slots_of(o, 0, 0), waited);
        c->ahead->at = dots[d]->next;
        chain_wait(c, dots[d], 0);
    }
}

/* What stands in the prologue for a value of the first part. */
static IrValue *at_first(Overlap *o, IrValue *value) {
    IrValue *copy = copy_of(o, value);
    for (const IrOp *op = copy->def ? copy->def->next : NULL; op; op = op->next) /* a product was waited for since */
        if (op->kind == OP_WGMMA_WAIT && op->operands.items[0] == copy)
            return op->results.items[0];
    return copy;
}

static void end_turns(Overlap *o, IrOp *end, ChainSlots slots, IrValue *const *crossing, IrValue *sum) {
    Chain *c = o->c;
    IrOp *dots[BULK_MOST_DOTS];
    bool waited[BULK_MOST_COPIES] = {false};
    for (int i = 0; i < o->crossing_count; i++)
        o->copies[o->crossing[i]->id] = crossing[i];
    o->copies[c->ahead->body->args.items[1 + o->carried]->id] = sum;
    copy_part(o, true, end, dots);
    chain_take_slots(c, dots[0], slots, waited);
    c->ahead->at = end;
    end->operands.items[o->carried] = bulk_wait(c->b, dots[0]->results.items[0], 0);
}

/* The last part goes behind the first product, on the values that are carried to it. */
static void move_last_part(Overlap *o, IrOp *first, IrValue *const *args) {
    const IrBlock *body = o->c->ahead->body;
    IrOp *anchor = first->next;
    for (IrOp *op = body->first, *next; op != body->last; op = next) {
        next = op->next;
        for (int i = 0; op->mark && i < op->operands.count; i++)
            for (int x = 0; x < o->crossing_count; x++)
                if (op->operands.items[i] == o->crossing[x]) {
                    op->operands.items[i] = args[x];
                    break;
                }
        if (!op->mark || op == anchor)
            continue;
        ir_remove(op);
        ir_insert_before(anchor, op);
    }
}

/* The first part is of the next turn. */
static IrValue *shift_index(Overlap *o) {
    Chain *c = o->c;
    IrValue *index = c->ahead->body->args.items[0];
    c->ahead->at = c->ahead->body->first;
    IrValue *step = ahead_int(c->ahead, bulk_step(c->b)), *next = chain_value(c, OP_ADD, PHB_I64, index, step);
    ir_replace_uses_in(c->ahead->body, index, next);
    next->def->operands.items[0] = index;
    c->is_shifted = true;
    return next;
}

static void turn_over(Overlap *o, ChainSlots slots) {
    Chain *c = o->c;
    const Bulk *b = c->b;
    bool waited[BULK_MOST_COPIES] = {false}, waited_last[BULK_MOST_COPIES] = {false};
    c->ahead->at = b->dots[0];
    ChainSlots next = chain_slots_after(c, slots);
    for (int d = 0; d < b->dot_count - 1; d++)
        chain_take_slots(c, b->dots[d], next, waited);
    chain_take_slots(c, o->last, slots, waited_last);
    c->ahead->at = o->last->next;
    chain_refill(c, slots);
    chain_wait(c, b->dots[0], 1);
    for (int d = 1; d < b->dot_count - 1; d++) {
        c->ahead->at = b->dots[d]->next;
        chain_wait(c, b->dots[d], 0);
    }
    c->ahead->at = c->ahead->body->last;
    chain_wait(c, o->last, 0);
    chain_free(c, slots);
    chain_yield(c, next.number);
    chain_yield(c, next.parity);
}

bool chain_overlap(Chain *c) {
    Overlap overlap = {.c = c}, *o = &overlap;
    IrOp *loop = c->ahead->loop;
    IrBlock *body = c->ahead->body;
    IrValue *args[MOST_CROSSING], *results[MOST_CROSSING], *index = body->args.items[0];
    if (!can_overlap(o))
        return false;
    o->copies = NEW_ARRAY(c->ahead->context->arena, IrValue *, ir_number(c->b->kernel) + 1);
    IrOp *end = bulk_guard(c->b);
    begin_turns(o);
    for (int i = 0; i < body->last->operands.count; i++)
        if (i != o->carried)
            loop->operands.items[ir_first_carried(loop) + i] = at_first(o, body->last->operands.items[i]);
    c->ahead->at = loop;
    for (int x = 0; x < o->crossing_count; x++) {
        args[x] = bulk_carry(c->b, at_first(o, o->crossing[x]));
        results[x] = loop->results.items[loop->results.count - 1];
    }
    ChainSlots slots = chain_carry_slots(c);
    ChainSlots left = {loop->results.items[loop->results.count - 2], loop->results.items[loop->results.count - 1]};
    loop->operands.items[1] = chain_value(c, OP_ADD, PHB_I64, c->end, ahead_int(c->ahead, -bulk_step(c->b)));
    end_turns(o, end, left, results, loop->results.items[o->carried]);
    move_last_part(o, c->b->dots[0], args);
    IrValue *next = shift_index(o);
    for (int x = 0; x < o->crossing_count; x++)
        chain_yield(c, o->crossing[x] == index ? next : o->crossing[x]);
    turn_over(o, slots);
    return true;
}
