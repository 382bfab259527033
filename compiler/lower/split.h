/* What the files of the cluster split share: cluster.c drives, affine.c tells what offsets are, cluster_refuse.c words the refusals. */
#ifndef PHOBOS_SPLIT_H
#define PHOBOS_SPLIT_H

#include "compiler/lower/lower.h"

/* One axis of one access. GRID: ctx.block.axis * step + rest, of extent `step` with rest 0, or a point with rest proved in [0, step). */
typedef enum AccessKind { ACCESS_WHOLE, ACCESS_GRID, ACCESS_SHIFTED, ACCESS_OTHER } AccessKind;

typedef struct AxisAccess {
    AccessKind kind;
    int axis;          /* GRID, SHIFTED: of ctx.block */
    const Dim *step;   /* GRID, SHIFTED */
    const Dim *offset; /* its form */
    const Dim *extent; /* NULL: a point */
} AxisAccess;

typedef struct Access {
    const IrOp *op;
    int param; /* the tensor, index in the signature */
    AxisAccess axes[PHB_MAX_RANK];
} Access;

/* One ctx.block axis: what its first access says. */
typedef struct BlockAxis {
    const Dim *step;      /* NULL: no access mentions the axis */
    const Access *access; /* the first one that does */
    int tensor_axis;      /* and where */
    bool split;           /* step is a @cluster name */
} BlockAxis;

/* What a name for a value is known to be between, both ends included; NULL: nothing is known. */
typedef struct NameRange {
    const char *name;
    const Dim *low, *high;
    bool per_element; /* of a tile: it stands for another number in each element */
} NameRange;

typedef struct Split {
    Context *context;
    IrKernel *kernel;
    ClusterKernel *result;
    const Dim **forms; /* by IrValue.id */
    bool *opaque;      /* by IrValue.id: the form is a name for the value itself */
    /* By IrValue.id: ctx.block and ctx.grid axes that it is computed from, as bits; through memory does not count. Nor do a loop's bounds for its
     * index: what they may depend on is cluster_value.c's matter, and then the index runs through the same numbers in both readings. */
    unsigned *depends;
    int value_count;
    bool changed;          /* by the round at hand of the analysis */
    VEC(NameRange) ranges; /* a later one's ends may mention the names before it */
    VEC(Access) accesses;  /* in program order */
    BlockAxis block[3];
    const Access **axis_access; /* by param * PHB_MAX_RANK + axis: the access that made it a grid axis, or NULL */
    int *grid_axis;             /* by the same: the ctx.block axis that it follows, or -1 */
} Split;

extern const char *const block_names[3], *const grid_names[3], *const super_names[3], *const supers_names[3];

/* ---- affine.c ----
 *
 * A form is an i64 value, a scalar or each element of a tile, as a Dim whose names may also be positions ("ctx.block.x", "origin(a, 0)"), which no
 * source name can be, and "%7" for a value that is no polynomial in these. */

void affine_analyse(Split *split); /* numbers the kernel's values; fills forms, opaque, depends, accesses */
const Dim *form_name(Split *split, const char *name);
const Dim *form_origin(Split *split, int param, int axis);
const Dim *form_replace(Split *split, const Dim *form, const Dim *name, const Dim *by); /* NULL on overflow */
bool form_mentions_extent(const Dim *form, const char *tensor, int axis);
/* 0 <= rest < step in every assignment of the leaf, wherever in their ranges the names are. */
bool form_within(Split *split, const Dim *rest, const Dim *step);
/* extent(T, k) as the declared extent: what both readings call the whole axis. */
const Dim *form_declared(Split *split, const Dim *form);

/* ---- cluster_value.c: what values may depend on; warns of stored values that change with the super-tile ---- */

void check_values(Split *split);

/* ---- cluster_mode.c ---- */

PhbMode tensor_mode(Split *split, int param);
/* The grid along ctx.block.axis provably counts ceildiv(extent of the axis, step). */
bool grid_covers(Split *split, int axis, const Dim *declared_extent, const Dim *step);

/* ---- cluster_refuse.c: the wording of refusals: the rule, the other place, both readings, the smallest legal edit ---- */

typedef struct Refusal {
    Span at;
    const char *rule;
    Span other;
    const char *other_text; /* NULL: there is one place only */
    const char *node, *cluster, *edit;
} Refusal;

void refuse(Split *split, const Refusal *refusal);
const char *form_text(Split *split, const Dim *form);            /* NULL where it is long or holds a value without a name */
const char *own_offset(Split *split, int axis, const Dim *step); /* "ctx.block.x * BLOCK" */
const char *split_dim_text(Split *split, const Dim *dim);
const char *split_text(Split *split, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
