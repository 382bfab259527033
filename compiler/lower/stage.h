/* What the two files that make leaves share: cluster_stage.c decides what runs in which stage and what is kept between them, cluster_leaf.c writes a
 * stage's kernel. */
#ifndef PHOBOS_STAGE_H
#define PHOBOS_STAGE_H

#include "compiler/lower/split.h"

/* A stretch of the kernel's top: straight code at even indices, cluster loops at odd ones. */
typedef struct Part {
    IrOp *first, *end; /* ops [first, end) */
    bool is_loop;      /* `first` is the loop */
    int *homes;        /* of a loop: by carried value */
} Part;

/* Where a value waits between stages: a state, or the slice that an output's only store goes to. */
typedef struct Home {
    const IrOp *store; /* NULL: */
    int state;
} Home;

typedef struct Staging {
    Split *split;
    VEC(Part) parts;
    VEC(Home) homes;
    /* By IrValue.id, of values at the kernel's top: */
    int *part_of;
    bool *kept;     /* some part loads it from its home */
    int *home;      /* -1: none */
    int *last_use;  /* of kept ones: the last part that needs it */
    int *demanded;  /* part + 1 of the last one that asked */
} Staging;

/* ---- cluster_leaf.c ---- */

/* The kernel of a part: loads what the part needs, runs it, and brings `saved` values to their homes. */
typedef struct Saved {
    const IrValue *value;
    int home;
} Saved;
typedef VEC(Saved) SavedList;

IrKernel *leaf_make(Staging *staging, int part, const SavedList *saved);

#endif
