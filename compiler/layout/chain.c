/* Loops by bulk copies whose turns use their own products, or multiply by what is no slice of the turn: a product's sums in registers, relabelled as
 * the first factor of the next one, or a slice from before the loop, which is copied once.
 *
 * A product waits for its slice alone, each slice has mbarriers of its own, and is waited for where it is issued. No barrier stands in the loop: when
 * a warp is through with a turn it arrives at an mbarrier of all warps, and one thread, when all have, has the slots refilled, a turn later, so that
 * it waits only for groups of four warps that are a turn behind. So one group computes with what it has multiplied while another one multiplies.
 * Copies run `slots` - 1 turns ahead. */
#include "compiler/layout/bulk.h"

typedef struct Chain {
    Bulk *b;
    Ahead *ahead;
    IrValue *full[BULK_MOST_COPIES]; /* mbarriers of each load's ring */
    IrValue *kept[BULK_MOST_COPIES]; /* rings of one slot */
    IrValue *freed;                  /* mbarriers of all warps: done with a turn's slots */
    IrValue *number, *parity;        /* of the turn's slots */
} Chain;

static const Type *type_of(const Chain *c, PhbDType dtype) {
    return type_scalar(c->ahead->context->types, dtype);
}

static IrValue *make(Chain *c, OpKind kind, PhbDType dtype, IrValue *x, IrValue *y) {
    return ahead_value(c->ahead, kind, type_of(c, dtype), x, y);
}

static void expect(Chain *c, IrValue *mbarriers, IrValue *number, IrValue *is_there, int64_t bytes) {
    IrValue *operands[3] = {mbarriers, number, is_there};
    ahead_op(c->ahead, OP_MBARRIER_EXPECT, operands, 3, NULL)->dim = dim_int(c->ahead->context->dims, bytes);
}

static void wait_full(Chain *c, IrValue *mbarriers, IrValue *number, IrValue *parity) {
    IrValue *operands[3] = {mbarriers, number, parity};
    ahead_op(c->ahead, OP_MBARRIER_WAIT, operands, 3, NULL);
}

/* All slices of the turn ahead->turn to the slots `number`. */
static void copy_turn(Chain *c, IrValue *number, IrValue *is_there) {
    Bulk *b = c->b;
    for (int i = 0; i < b->load_count; i++) {
        expect(c, c->full[i], number, is_there, bulk_load_bytes(b->loads[i]));
        bulk_copy(b, b->loads[i], b->rings[i], c->full[i], number, number, is_there);
    }
}

static IrValue *is_turn(Chain *c) {
    return make(c, OP_LT, PHB_BOOL, c->ahead->turn, c->ahead->loop->operands.items[1]);
}

/* ---- before the loop ---- */

/* Gives the mbarrier of what is kept; NULL: nothing is. */
static IrValue *copy_kept(Chain *c) {
    Bulk *b = c->b;
    int64_t bytes = 0;
    if (!b->kept_count)
        return NULL;
    IrValue *mbarriers = bulk_mbarriers(b, OP_MBARRIERS, 1), *zero = ahead_int(c->ahead, 0);
    IrValue *always = make(c, OP_CONST, PHB_BOOL, NULL, NULL);
    always->def->bits = 1;
    for (int i = 0; i < b->kept_count; i++) {
        c->kept[i] = bulk_ring(b, b->kept[i], 1);
        bytes += bulk_load_bytes(b->kept[i]);
    }
    expect(c, mbarriers, zero, always, bytes);
    for (int i = 0; i < b->kept_count; i++)
        bulk_copy(b, b->kept[i], c->kept[i], mbarriers, zero, zero, always);
    return mbarriers;
}

static void begin_copies(Chain *c) {
    Bulk *b = c->b;
    for (int i = 0; i < b->load_count; i++) {
        b->rings[i] = bulk_ring(b, b->loads[i], b->slots);
        c->full[i] = bulk_mbarriers(b, OP_MBARRIERS, b->slots);
    }
    c->freed = bulk_mbarriers(b, OP_MBARRIERS_OF_ALL, b->slots);
    IrValue *kept = copy_kept(c);
    for (int turn = 0; turn < b->slots; turn++) {
        c->ahead->turn = make(c, OP_ADD, PHB_I64, c->ahead->loop->operands.items[0], ahead_int(c->ahead, turn * bulk_step(b)));
        copy_turn(c, ahead_int(c->ahead, turn), is_turn(c));
    }
    if (kept)
        wait_full(c, kept, ahead_int(c->ahead, 0), ahead_int(c->ahead, 0));
}

/* ---- a turn ---- */

/* The slots of the turn before, where all warps are through with it, take the turn that comes `slots` - 1 after this one. */
static void refill(Chain *c) {
    Bulk *b = c->b;
    IrValue *index = c->ahead->body->args.items[0], *is_first = make(c, OP_EQ, PHB_BOOL, c->number, ahead_int(c->ahead, 0));
    IrValue *before =
        ahead_select(c->ahead, is_first, ahead_int(c->ahead, b->slots - 1), make(c, OP_SUB, PHB_I64, c->number, ahead_int(c->ahead, 1)));
    IrValue *parity = ahead_select(c->ahead, is_first, make(c, OP_SUB, PHB_I64, ahead_int(c->ahead, 1), c->parity), c->parity);
    IrValue *has_before = make(c, OP_LT, PHB_BOOL, c->ahead->loop->operands.items[0], index);
    c->ahead->turn = make(c, OP_ADD, PHB_I64, index, ahead_int(c->ahead, (b->slots - 1) * bulk_step(b)));
    IrValue *is_there = make(c, OP_AND, PHB_BOOL, has_before, is_turn(c)), *operands[4] = {c->freed, before, parity, is_there};
    ahead_op(c->ahead, OP_MBARRIER_WAIT_TO_COPY, operands, 4, NULL);
    copy_turn(c, before, is_there);
}

static void put_slot(Chain *c, const IrOp *load, IrValue *ring, IrValue *number) {
    for (int d = 0; d < c->b->dot_count; d++)
        for (int i = 0; i < 2; i++)
            if (c->b->dots[d]->operands.items[i] == load->results.items[0])
                c->b->dots[d]->operands.items[i] = ahead_value(c->ahead, OP_SLOT, bulk_slot_type(c->b, load), ring, number);
}

static bool takes(const IrOp *dot, const IrOp *load) {
    return dot->operands.items[0] == load->results.items[0] || dot->operands.items[1] == load->results.items[0];
}

/* Before the first product that takes a slice. */
static void wait_for_slices(Chain *c) {
    for (int i = 0; i < c->b->load_count; i++) {
        int dot = 0;
        while (!takes(c->b->dots[dot], c->b->loads[i]))
            dot++;
        c->ahead->at = c->b->dots[dot];
        wait_full(c, c->full[i], c->number, c->parity);
    }
}

static void wait_for_product(Chain *c, IrOp *dot) {
    IrValue *sums = dot->results.items[0], *settled = bulk_wait(c->b, sums, 0);
    ir_replace_uses(c->b->kernel, sums, settled);
    settled->def->operands.items[0] = sums;
}

static void end_turn(Chain *c) {
    Arena *arena = c->ahead->context->arena;
    c->ahead->at = c->ahead->body->last;
    IrValue *freed[2] = {c->freed, c->number}, *next = make(c, OP_ADD, PHB_I64, c->number, ahead_int(c->ahead, 1));
    ahead_op(c->ahead, OP_MBARRIER_ARRIVE, freed, 2, NULL);
    IrValue *goes_on = make(c, OP_LT, PHB_BOOL, next, ahead_int(c->ahead, c->b->slots));
    IrValue *other = make(c, OP_SUB, PHB_I64, ahead_int(c->ahead, 1), c->parity);
    vec_push(arena, &c->ahead->body->last->operands, ahead_select(c->ahead, goes_on, next, ahead_int(c->ahead, 0)));
    vec_push(arena, &c->ahead->body->last->operands, ahead_select(c->ahead, goes_on, c->parity, other));
}

void layout_chain(Bulk *b) {
    Chain chain = {.b = b, .ahead = &b->ahead}, *c = &chain;
    begin_copies(c);
    c->number = bulk_carry(b, ahead_int(c->ahead, 0));
    c->parity = bulk_carry(b, ahead_int(c->ahead, 0));
    wait_for_slices(c);
    for (int d = 0; d < b->dot_count; d++) {
        c->ahead->at = b->dots[d]->next;
        if (d == 0)
            refill(c);
        wait_for_product(c, b->dots[d]);
    }
    end_turn(c);
    c->ahead->at = c->ahead->body->first;
    for (int i = 0; i < b->load_count; i++)
        put_slot(c, b->loads[i], b->rings[i], c->number);
    IrValue *zero = ahead_int(c->ahead, 0);
    for (int i = 0; i < b->kept_count; i++)
        put_slot(c, b->kept[i], c->kept[i], zero);
    for (int i = 0; i < b->load_count; i++)
        ir_remove(b->loads[i]);
    for (int i = 0; i < b->kept_count; i++)
        ir_remove(b->kept[i]);
}
