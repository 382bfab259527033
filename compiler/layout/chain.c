/* Loops by bulk copies whose turns use their own products, or multiply by what is no slice of the turn: a product's sums in registers, relabelled as
 * the first factor of the next one, or a slice from before the loop, which is copied once.
 *
 * A product waits for its slice alone, each slice has mbarriers of its own. No barrier stands in the loop: when a warp is through with a turn's slots
 * it arrives at an mbarrier of all warps, and one thread, when all have, has the slots refilled, a turn later, so that it waits only for groups of
 * four warps that are a turn behind. So one group computes with what it has multiplied while another one multiplies. Copies run `slots` - 1 turns
 * ahead. Where overlap.c can take the loop apart, the next turn's first product and this one's last run at the same time. */
#include "compiler/layout/chain.h"

static const Type *type_of(const Chain *c, PhbDType dtype) {
    return type_scalar(c->ahead->context->types, dtype);
}

IrValue *chain_value(Chain *c, OpKind kind, PhbDType dtype, IrValue *x, IrValue *y) {
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
    return chain_value(c, OP_LT, PHB_BOOL, c->ahead->turn, c->end);
}

/* ---- before the loop ---- */

/* Gives the mbarrier of what is kept; NULL: nothing is. */
static IrValue *copy_kept(Chain *c) {
    Bulk *b = c->b;
    int64_t bytes = 0;
    if (!b->kept_count)
        return NULL;
    IrValue *mbarriers = bulk_mbarriers(b, OP_MBARRIERS, 1), *zero = ahead_int(c->ahead, 0);
    IrValue *always = chain_value(c, OP_CONST, PHB_BOOL, NULL, NULL);
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
        c->ahead->turn = chain_value(c, OP_ADD, PHB_I64, c->ahead->loop->operands.items[0], ahead_int(c->ahead, turn * bulk_step(b)));
        copy_turn(c, ahead_int(c->ahead, turn), is_turn(c));
    }
    if (kept)
        wait_full(c, kept, ahead_int(c->ahead, 0), ahead_int(c->ahead, 0));
}

/* ---- a turn ---- */

ChainSlots chain_slots_after(Chain *c, ChainSlots slots) {
    IrValue *next = chain_value(c, OP_ADD, PHB_I64, slots.number, ahead_int(c->ahead, 1));
    IrValue *goes_on = chain_value(c, OP_LT, PHB_BOOL, next, ahead_int(c->ahead, c->b->slots));
    IrValue *other = chain_value(c, OP_SUB, PHB_I64, ahead_int(c->ahead, 1), slots.parity);
    return (ChainSlots){ahead_select(c->ahead, goes_on, next, ahead_int(c->ahead, 0)), ahead_select(c->ahead, goes_on, slots.parity, other)};
}

static ChainSlots slots_before(Chain *c, ChainSlots slots) {
    IrValue *is_first = chain_value(c, OP_EQ, PHB_BOOL, slots.number, ahead_int(c->ahead, 0));
    IrValue *before = chain_value(c, OP_SUB, PHB_I64, slots.number, ahead_int(c->ahead, 1));
    IrValue *other = chain_value(c, OP_SUB, PHB_I64, ahead_int(c->ahead, 1), slots.parity);
    return (ChainSlots){
        ahead_select(c->ahead, is_first, ahead_int(c->ahead, c->b->slots - 1), before), ahead_select(c->ahead, is_first, other, slots.parity)};
}

/* A branch that the thread which copies takes, where `condition` holds; gives what ends it. */
static IrOp *copier_branch(Chain *c, IrValue *condition) {
    Context *context = c->ahead->context;
    IrValue *copies = chain_value(c, OP_AND, PHB_BOOL, chain_value(c, OP_COPIER, PHB_BOOL, NULL, NULL), condition);
    IrOp *branch = ahead_op(c->ahead, OP_IF, &copies, 1, NULL), *ends[2];
    for (int r = 0; r < 2; r++)
        ends[r] = ir_append(context, ir_region_new(context, branch), OP_YIELD, branch->span, NULL, 0, NULL, 0);
    return ends[0];
}

void chain_refill(Chain *c, ChainSlots slots) {
    const Bulk *b = c->b;
    IrOp *at = c->ahead->at;
    IrValue *index = c->ahead->body->args.items[0], *has_before = chain_value(c, OP_LT, PHB_BOOL, c->ahead->loop->operands.items[0], index);
    c->ahead->turn = chain_value(c, OP_ADD, PHB_I64, index, ahead_int(c->ahead, (b->slots - 1) * bulk_step(b)));
    IrValue *is_there = chain_value(c, OP_AND, PHB_BOOL, has_before, is_turn(c));
    c->ahead->at = copier_branch(c, is_there);
    ChainSlots before = slots_before(c, slots);
    if (c->is_shifted)
        c->ahead->turn = chain_value(c, OP_SUB, PHB_I64, c->ahead->turn, ahead_int(c->ahead, bulk_step(b)));
    wait_full(c, c->freed, before.number, before.parity);
    copy_turn(c, before.number, is_there);
    c->ahead->at = at;
}

void chain_free(Chain *c, ChainSlots slots) {
    IrValue *operands[2] = {c->freed, slots.number};
    ahead_op(c->ahead, OP_MBARRIER_ARRIVE, operands, 2, NULL);
}

static int find_load(IrOp *const *loads, int count, const IrValue *factor) {
    int i = 0;
    while (i < count && loads[i]->results.items[0] != factor)
        i++;
    return i;
}

bool chain_is_slice(const Bulk *b, const IrOp *load) {
    return find_load(b->loads, b->load_count, load->results.items[0]) < b->load_count;
}

void chain_take_slots(Chain *c, IrOp *dot, ChainSlots slots, bool *waited) {
    Bulk *b = c->b;
    c->ahead->at = dot;
    for (int i = 0; i < 2; i++) {
        const IrValue *factor = dot->operands.items[i];
        int load = find_load(b->loads, b->load_count, factor), kept = find_load(b->kept, b->kept_count, factor);
        if (load < b->load_count) {
            if (!waited[load])
                wait_full(c, c->full[load], slots.number, slots.parity);
            waited[load] = true;
            dot->operands.items[i] = ahead_value(c->ahead, OP_SLOT, bulk_slot_type(b, b->loads[load]), b->rings[load], slots.number);
        } else if (kept < b->kept_count) {
            dot->operands.items[i] = ahead_value(c->ahead, OP_SLOT, bulk_slot_type(b, b->kept[kept]), c->kept[kept], ahead_int(c->ahead, 0));
        }
    }
}

void chain_wait(Chain *c, IrOp *dot, int left) {
    IrValue *sums = dot->results.items[0], *settled = bulk_wait(c->b, sums, left);
    ir_replace_uses(c->b->kernel, sums, settled);
    settled->def->operands.items[0] = sums;
}

ChainSlots chain_carry_slots(Chain *c) {
    IrValue *number = bulk_carry(c->b, ahead_int(c->ahead, 0));
    return (ChainSlots){number, bulk_carry(c->b, ahead_int(c->ahead, 0))};
}

void chain_yield(Chain *c, IrValue *value) {
    vec_push(c->ahead->context->arena, &c->ahead->body->last->operands, value);
}

/* One product after the other. */
static void turn_over(Chain *c) {
    Bulk *b = c->b;
    bool waited[BULK_MOST_COPIES] = {false};
    c->ahead->at = c->ahead->loop;
    ChainSlots slots = chain_carry_slots(c);
    for (int d = 0; d < b->dot_count; d++) {
        chain_take_slots(c, b->dots[d], slots, waited);
        c->ahead->at = b->dots[d]->next;
        if (d == 0)
            chain_refill(c, slots);
        chain_wait(c, b->dots[d], 0);
    }
    c->ahead->at = c->ahead->body->last;
    chain_free(c, slots);
    ChainSlots next = chain_slots_after(c, slots);
    chain_yield(c, next.number);
    chain_yield(c, next.parity);
}

void layout_chain(Bulk *b) {
    Chain chain = {.b = b, .ahead = &b->ahead, .end = b->ahead.loop->operands.items[1]}, *c = &chain;
    begin_copies(c);
    if (!chain_overlap(c))
        turn_over(c);
    for (int i = 0; i < b->load_count; i++)
        ir_remove(b->loads[i]);
    for (int i = 0; i < b->kept_count; i++)
        ir_remove(b->kept[i]);
}
