/* A loop whose products go by bulk copies: what bulk.c finds, and what chain.c shares with it. */
#ifndef PHOBOS_LAYOUT_BULK_H
#define PHOBOS_LAYOUT_BULK_H

#include "compiler/layout/layout.h"

enum { BULK_MOST_DOTS = 24, BULK_MOST_COPIES = 2 * BULK_MOST_DOTS };
enum { BULK_WARPGROUP = 128, BULK_GROUP_ROWS = 64 }; /* threads of a matrix instruction, and rows */

typedef struct Bulk {
    Ahead ahead;
    IrKernel *kernel;
    IrOp *dots[BULK_MOST_DOTS];
    IrOp *loads[BULK_MOST_COPIES]; /* slices of the loop's turns, */
    IrOp *kept[BULK_MOST_COPIES];  /* and from before it, that all turns multiply by */
    IrValue *rings[BULK_MOST_COPIES], *mbarriers;
    int dot_count, load_count, kept_count, sum_count, slots;
    BulkSum sums[BULK_MOST_DOTS]; /* where it is not chained */
    bool is_promoted;             /* some of them are: products of a turn do not outlast it */
    IrValue *next[TILES_STATE]; /* where the CTA stays: what the next turn's copies are of */
    bool is_chained; /* a turn uses its own sums, or a factor is no slice of the turn */
} Bulk;

bool bulk_is_load(const IrValue *tile);
const Type *bulk_slot_type(const Bulk *b, const IrOp *load);
int64_t bulk_load_bytes(const IrOp *load); /* that come when its slot is filled */
int64_t bulk_step(const Bulk *b);          /* from turn to turn */
IrValue *bulk_ring(Bulk *b, const IrOp *load, int slots);
IrValue *bulk_mbarriers(Bulk *b, OpKind kind, int count);
/* Of the slice as it is in the turn b->ahead.turn, to slot `number` of `ring`, where `is_there`. */
void bulk_copy(Bulk *b, const IrOp *load, IrValue *ring, IrValue *mbarriers, IrValue *mbarrier, IrValue *number, IrValue *is_there);
IrValue *bulk_carry(Bulk *b, IrValue *first); /* a further value that the loop carries: its argument */
IrValue *bulk_wait(Bulk *b, IrValue *tile, int left);
IrOp *bulk_guard(Bulk *b); /* puts the loop into a branch that is taken where it has turns; gives what ends the taken branch */

/* ---- bulk_slots.c ---- */

int bulk_running_turns(const Bulk *b); /* whose slots are not free while one multiplies: its own and the one before */
/* That hold the accumulators: as many groups of four warps as there are rows for, at most two where registers allow; 0 where none suffice. */
int64_t bulk_threads(const Bulk *b);
/* Sets b->slots: as many as fit beside `reserved` bytes of shared memory, or as @pipeline says. False: those do not fit, or they are too few. */
bool bulk_choose_slots(Bulk *b, const LayoutLimits *limits, int64_t reserved);

/* ---- bulk_refusal.c: NULL: it can ---- */

const char *bulk_shape_refusal(const IrOp *dot);
const char *bulk_factor_refusal(const Bulk *b, const IrOp *dot, int factor, const bool *stored); /* is no slice that a tensor map can copy */

/* ---- chain.c ---- */

void layout_chain(Bulk *b);

#endif
