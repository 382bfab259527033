/* What the files of the cluster split share: cluster.c drives, affine.c tells what offsets are, cluster_stage.c cuts the leaves, cluster_refuse.c words
 * the refusals.
 *
 * An axis is one of ctx.block, 0 to 2, or a cluster loop, FIRST_LOOP and up: what a unit of work walks in super-tiles. */
#ifndef PHOBOS_SPLIT_H
#define PHOBOS_SPLIT_H

#include "compiler/lower/lower.h"

enum { FIRST_LOOP = 3, MAX_AXES = FIRST_LOOP + PHB_MAX_LOOPS };

/* One axis of one access. OWN: the axis' own offset + rest, of extent `step` with rest 0, or a point with rest proved in [0, step). The own offset is
 * ctx.block.axis * step, or the loop's variable. HALO: a load that reaches beyond the own tile by no more than the declared width. */
typedef enum AccessKind { ACCESS_WHOLE, ACCESS_OWN, ACCESS_HALO, ACCESS_SHIFTED, ACCESS_OTHER } AccessKind;

typedef struct AxisAccess {
    AccessKind kind;
    int axis;          /* OWN, HALO, SHIFTED */
    const Dim *step;   /* OWN, HALO, SHIFTED */
    const Dim *offset; /* its form */
    const Dim *extent; /* NULL: a point */
} AxisAccess;

typedef struct Access {
    const IrOp *op;
    int param; /* the tensor, index in the signature */
    AxisAccess axes[PHB_MAX_RANK];
} Access;

/* One axis: what its first access says. */
typedef struct SplitAxis {
    const Dim *step;      /* NULL: no access mentions the axis */
    const Access *access; /* the first one that does */
    int tensor_axis;      /* and where */
    bool split;           /* step is a @cluster name */
    const Dim *extent;    /* split: of the tensor axes that follow it */
    const IrOp *loop;     /* of a cluster loop: the first `for` with its step and bound; else NULL */
} SplitAxis;

/* What a name for a value is known to be between, both ends included; NULL: nothing is known. */
typedef struct NameRange {
    const char *name;
    const Dim *low, *high;
    bool per_element; /* of a tile: it stands for another number in each element */
} NameRange;

/* Loops with one step and bound are one axis. */
typedef struct LoopForm {
    const Dim *step, *extent;
} LoopForm;

typedef struct Split {
    Context *context;
    IrKernel *kernel;
    ClusterKernel *result;
    const Dim **forms; /* by IrValue.id */
    bool *opaque;      /* by IrValue.id: the form is a name for the value itself */
    const Dim **clamped; /* by IrValue.id: of a min or max of positions, what cluster_clamp.c takes the greater of it and 0 of; else NULL */
    /* By IrValue.id: axes of ctx.block and ctx.grid, and variables of cluster loops, that it is computed from, as bits; through memory does not count.
     * Nor do a loop's bounds for its index: what they may depend on is cluster_value.c's matter, and then the index runs through the same numbers in
     * both readings. */
    unsigned *depends;
    int value_count;
    bool changed;          /* by the round at hand of the analysis */
    VEC(NameRange) ranges; /* a later one's ends may mention the names before it */
    VEC(Access) accesses;  /* in program order */
    SplitAxis axes[MAX_AXES];
    VEC(LoopForm) leaf_loops; /* that would be cluster loops, but index no tensor: there is nothing to cut, and they run in the leaf as they are */
    const Access **axis_access; /* by param * PHB_MAX_RANK + axis: the access that made it follow an axis, or NULL */
    int *follows;               /* by the same: the axis that it follows, or -1 */
    const Dim **halo;           /* by the same: the declared width, or NULL */
    const Dim **origins;        /* by the same: form_origin's, made on first use, */
    const Dim *axis_forms[MAX_AXES]; /* and axis_form's */
} Split;

extern const char *const block_names[3], *const grid_names[3], *const thread_cluster_names[3], *const super_names[3], *const supers_names[3];

/* ---- affine.c ----
 *
 * A form is an i64 value, a scalar or each element of a tile, as a Dim whose names may also be positions ("ctx.block.x", "origin(a, 0)"), which no
 * source name can be, and "%7" for a value that is no polynomial in these. */

static inline bool is_store(const IrOp *op) { /* an atomic is one, too */
    return op_info[op->kind].traits & TRAIT_WRITES;
}

void affine_analyse(Split *split); /* numbers the kernel's values; fills forms, opaque, depends, accesses, the loops among the axes */
const Dim *axis_form(Split *split, int axis); /* ctx.block.axis, or the loop's variable */
const Dim *form_name(Split *split, const char *name);
const Dim *form_origin(Split *split, int param, int axis);
const Dim *form_whole(Split *split, int param, int axis);
const Dim *form_replace(Split *split, const Dim *form, const Dim *name, const Dim *by); /* NULL on overflow */
bool form_mentions_extent(const Dim *form, const char *tensor, int axis);
/* 0 <= rest < step in every assignment of the leaf, wherever in their ranges the names are. */
bool form_within(Split *split, const Dim *rest, const Dim *step);
/* 0 <= form, the same way, and for all values from 1 on of symbolic dims. */
bool form_not_negative(Split *split, const Dim *form);
/* The greatest that `form` gets over the ranges of its names, as an expression over dims; NULL where that is not known. */
const Dim *form_greatest(Split *split, const Dim *form);
/* form = own offset + rest for the one axis that it mentions; false where it is anything else. */
bool split_linear(Split *split, const Dim *form, int *axis, const Dim **step, const Dim **rest);
/* Says once what a name is between; low NULL or high NULL: nothing is known. */
void form_range(Split *split, const Dim *name, const Dim *low, const Dim *high, bool per_element);
/* The halo that allows a load of the access; NULL where no dim says it. */
const Dim *halo_needed(Split *split, const AxisAccess *access);
/* extent(T, k) and whole(T, k) as the declared extent: what both readings call the whole axis. */
const Dim *form_declared(Split *split, const Dim *form);
/* Which loops index no tensor: true if there is one that affine_analyse has not left to the leaf yet. */
bool loops_settle(Split *split);
/* A `for` whose step is a @cluster name, from 0 to a dim, and that indexes a tensor. */
bool is_cluster_loop(Split *split, const IrOp *op);
/* The axis that such a loop is; -1 for other ops, and for loops beyond the most that a kernel may have. */
int loop_axis(Split *split, const IrOp *op);
/* The innermost cluster loop around `op`, or NULL. */
const IrOp *loop_around(Split *split, const IrOp *op);

/* ---- cluster_clamp.c: offsets that min and max keep inside of an axis ---- */

/* Of a min or max; NULL: neither operand is a position, or nothing bounds their difference. */
const Dim *clamp_form(Split *split, const IrOp *op);

/* ---- cluster_loop.c: which loops run across super-tiles ---- */

/* Bounds of loops name whole axes: whole(T, k) for each dim that is the extent of one. */
void bounds_name_whole_axes(Split *split);
void check_loops(Split *split); /* before loops_settle: the rule is about the text */

/* ---- cluster_halo.c ---- */

void find_halos(Split *split); /* the declared widths, as the leaf and the planner both know them */
void check_halos(Split *split); /* where they end up on split axes */
const Dim *split_halo(const Split *split, int at); /* of a tensor axis that is split; NULL: none */

/* ---- cluster_check.c: outputs, the launch grid, the declared sets ---- */

void check_outputs(Split *split);
void check_search_dims(Split *split);
void check_grid(Split *split);
void check_requires(Split *split);

/* ---- cluster_stage.c: the leaves ---- */

void make_stages(Split *split);

/* ---- cluster_value.c: what values may depend on; warns of stored values that change with the super-tile ---- */

void check_values(Split *split);
/* The comparison is between an offset along a split axis and the axis' extent: its index as in `follows`, else -1. */
int edge_compared(Split *split, const IrOp *op);
/* A dim in `form` that names a split axis, or NULL. */
const Dim *split_dim_in(Split *split, const Dim *form, int *axis);
/* The extent that a leaf's own region has along the tensor axis, its index as in `follows`. */
const Dim *axis_extent(Split *split, int at);
/* The next tensor axis that follows `axis`, from index `at` on, or -1. */
int next_on_axis(const Split *split, int axis, int at);

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
const char *own_offset(Split *split, int axis, const Dim *step); /* "ctx.block.x * BLOCK", "kt" */
const char *axis_text(Split *split, int axis);                   /* "ctx.block.x", "kt" */
const char *super_text(Split *split, int axis);                  /* "the one at 'ctx.super.x'", "the chunk at 'kt'" */
const char *split_dim_text(Split *split, const Dim *dim);
const char *split_text(Split *split, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
