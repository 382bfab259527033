/* A loop whose turns use their own products: what chain.c and overlap.c share. */
#ifndef PHOBOS_LAYOUT_CHAIN_H
#define PHOBOS_LAYOUT_CHAIN_H

#include "compiler/layout/bulk.h"

typedef struct Chain {
    Bulk *b;
    Ahead *ahead;
    IrValue *end;                    /* of the turns */
    bool is_shifted;                 /* the slices' offsets in the body are those of the next turn */
    IrValue *full[BULK_MOST_COPIES]; /* mbarriers of each load's ring */
    IrValue *kept[BULK_MOST_COPIES]; /* rings of one slot */
    IrValue *freed;                  /* mbarriers of all warps: done with a turn's slots */
} Chain;

/* Of a turn: the number of its slots in all rings, and the parity of the phase that fills them. */
typedef struct ChainSlots {
    IrValue *number, *parity;
} ChainSlots;

/* All of these make ops before c->ahead->at. */
IrValue *chain_value(Chain *c, OpKind kind, PhbDType dtype, IrValue *x, IrValue *y);
ChainSlots chain_carry_slots(Chain *c);                   /* round the loop */
ChainSlots chain_slots_after(Chain *c, ChainSlots slots); /* the next turn's */
void chain_yield(Chain *c, IrValue *value);               /* a further one */
/* The slots of the turn before, where all warps are through with it, take the turn that comes `slots` - 1 after this one. */
void chain_refill(Chain *c, ChainSlots slots);
void chain_free(Chain *c, ChainSlots slots);          /* this warp is through with them */
bool chain_is_slice(const Bulk *b, const IrOp *load); /* of the loop's turns, that is copied to slots */
/* Slots instead of slices, waited for where `waited`, by load, does not say that they have been. */
void chain_take_slots(Chain *c, IrOp *dot, ChainSlots slots, bool *waited);
void chain_wait(Chain *c, IrOp *dot, int left); /* for the product; who used it uses what was waited for */

/* ---- overlap.c ---- */

bool chain_overlap(Chain *c); /* false: it cannot, and has changed nothing */

#endif
