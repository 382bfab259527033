/* What the files that make leaves share: cluster_stage.c decides what runs in which stage and what is kept between them, cluster_leaf.c writes a
 * stage's kernel, cluster_thread.c what thread code needs of it. */
#ifndef PHOBOS_STAGE_H
#define PHOBOS_STAGE_H

#include "compiler/lower/split.h"

/* A stretch of the kernel's top: straight code at even indices, cluster loops at odd ones. */
typedef struct Part {
    IrOp *first, *end; /* ops [first, end) */
    bool is_loop;      /* `first` is the loop */
    int *homes;        /* of a loop: by carried value */
    bool is_divisible; /* of a loop: its homes have partial sums */
    int stage;         /* -1: none */
} Part;

/* Where a value waits between stages: a state, or the slice that an output's only store goes to. A state holds a tile, an array in shared memory, or
 * a scalar, of which thread code has one a thread. */
typedef struct Home {
    const IrOp *store; /* NULL: */
    int state;
    int partial; /* the home of partial sums of what waits here, or 0; of an output's, in a state cut as the output is */
    bool is_partial;
} Home;

typedef struct Staging {
    Split *split;
    VEC(Part) parts;
    VEC(Home) homes;
    bool has_threads; /* the kernel has thread code: so have all its stages, and sums are in one order */
    bool has_peers;   /* it accesses shared memory of other CTAs */
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

typedef struct Leaf {
    Staging *staging;
    Split *split;
    int part;
    int axis; /* the loop's, or -1 */
    IrKernel *kernel;
    IrBlock *block;   /* where ops go */
    IrValue **copies; /* by IrValue.id of the whole kernel */
    IrValue *cta;     /* this CTA's number in the leaf's grid */
    bool has_arrays;  /* arrays of shared memory were restored or cleared: who enters the part meets */
} Leaf;

IrKernel *leaf_make(Staging *staging, int part, const SavedList *saved);
/* Helpers of a loop: what it carries becomes 0, or has its partial sums added. */
IrKernel *leaf_make_clear(Staging *staging, int part);
IrKernel *leaf_make_merge(Staging *staging, int part);
IrValue *leaf_number(Leaf *leaf, Span span, int64_t value);
IrValue *leaf_binary(Leaf *leaf, OpKind kind, Span span, IrValue *a, IrValue *b);
IrValue *leaf_state(Leaf *leaf, int home); /* the tensor */
IrValue *leaf_cta(Leaf *leaf, Span span);  /* this CTA's number in it */

/* Element by element, the loop adds to the carried value and does nothing else with it. */
bool is_sum(const IrOp *loop, int carried);

/* ---- cluster_partial.c ---- */

void find_partial_sums(Staging *staging, int part); /* homes for those of the loop parts[part], where its range may be divided */
void add_helpers(Staging *staging, int part); /* to its stage; they stand behind all stages */

/* ---- cluster_thread.c: what a CTA of thread code is, stage by stage ---- */

void find_threads(Staging *staging); /* whether there are any */
bool has_state_a_thread(const Staging *staging, const Type *type);
/* The state of a value of the kernel, as one tile a CTA. */
const Type *state_type(Staging *staging, const Type *type);
/* The array in this stage, with what earlier ones left in it; 0 in the part that declares it. */
IrValue *bring_array(Leaf *leaf, const IrValue *array, int home);
/* Around a part's ops: what its threads and its CTA's peers find done, as if no CTA had ended between the parts. */
void enter_part(Leaf *leaf);
void leave_part(Leaf *leaf);

#endif
