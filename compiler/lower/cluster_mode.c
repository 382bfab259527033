/* Modes by proof. A tensor that is stored is WRITE only where one store, in every CTA, reaches every element of the region that the unit of work
 * owns, before any load of it; else what the stores do not reach must be there first: READ_WRITE. */
#include "compiler/lower/split.h"

bool grid_covers(Split *split, int axis, const Dim *declared_extent, const Dim *step) {
    const GridAxis *grid = &split->kernel->signature.grid[axis];
    if (grid->counts.count == 0)
        return declared_extent == step;
    const Dim *expected = dim_op(split->context->dims, PHB_EXPR_CEILDIV, declared_extent, step);
    for (int i = 0; i < grid->counts.count; i++)
        if (expected && form_declared(split, grid->counts.items[i]) == expected)
            return true;
    return false;
}

/* 1 in every assignment. */
static bool is_one(Split *split, const Dim *dim) {
    return form_within(split, dim, dim_int(split->context->dims, 2));
}

/* ---- loops around a store ---- */

static const Dim *form_of(const Split *split, const IrValue *value) {
    return split->forms[value->id];
}

/* The loop runs through 0, step, 2 * step, .. to the declared extent, and slices of `extent` at its index leave no gap. */
static bool loop_covers(Split *split, const IrOp *loop, const Dim *extent, const Dim *declared_extent) {
    DimPool *dims = split->context->dims;
    const Dim *start = form_of(split, loop->operands.items[0]), *step = form_of(split, loop->operands.items[2]);
    const Dim *overlap = dim_op(dims, PHB_EXPR_SUB, extent ? extent : dim_int(dims, 1), step);
    int64_t least;
    bool is_positive = step == extent || (dim_is_int(step, &least) && least > 0);
    return start == dim_int(dims, 0) && is_positive && overlap && dim_is_int(overlap, &least) && least >= 0 &&
           form_declared(split, form_of(split, loop->operands.items[1])) == declared_extent;
}

static bool is_dim_name(const Split *split, const char *name) {
    const Signature *signature = &split->kernel->signature;
    for (int i = 0; i < signature->symbolic.count; i++)
        if (signature->symbolic.items[i] == name)
            return true;
    return signature_search(signature, name) != NULL;
}

/* At least one iteration, whatever the dims. */
static bool loop_runs(Split *split, const IrOp *loop) {
    DimPool *dims = split->context->dims;
    const Dim *start = form_of(split, loop->operands.items[0]), *end = form_declared(split, form_of(split, loop->operands.items[1]));
    const Dim *step = form_of(split, loop->operands.items[2]), *one = dim_int(dims, 1);
    int64_t number;
    if (is_cluster_loop(split, loop)) {
        const Dim *above = dim_op(dims, PHB_EXPR_SUB, end, one);
        return above && form_not_negative(split, above);
    }
    bool is_positive = dim_is_int(step, &number) ? number > 0 : step->kind == PHB_EXPR_DIM && is_dim_name(split, step->name);
    if (start != dim_int(dims, 0) || !is_positive)
        return false;
    return dim_is_int(end, &number) ? number > 0 : end->kind == PHB_EXPR_DIM && is_dim_name(split, end->name);
}

/* The axis' own loop: its index is the offset. NULL: none. */
static const IrOp *axis_loop(Split *split, const Access *access, int k) {
    if (access->axes[k].kind == ACCESS_OWN && access->axes[k].axis >= FIRST_LOOP)
        return loop_around(split, access->op);
    const IrValue *offset = access->op->operands.items[1 + k];
    const IrOp *owner = offset->def ? NULL : offset->block->owner;
    return owner && owner->kind == OP_FOR && offset->index == 0 ? owner : NULL;
}

/* The store runs in every CTA, in each iteration of the loops whose index it is stored at, and at least once otherwise. */
static bool always_runs(Split *split, const Access *store) {
    int rank = store->op->operands.items[0]->type->rank;
    for (const IrOp *owner = store->op->parent->owner; owner; owner = owner->parent->owner) {
        bool is_axis = false;
        for (int k = 0; k < rank; k++)
            is_axis |= axis_loop(split, store, k) == owner;
        if (owner->kind != OP_FOR || (!is_axis && !loop_runs(split, owner)))
            return false;
    }
    return true;
}

/* ---- what a store covers ---- */

static bool axis_is_covered(Split *split, const Access *store, int k, const Dim *declared_extent) {
    const AxisAccess *access = &store->axes[k];
    const IrOp *loop = axis_loop(split, store, k);
    int64_t extent = 1, needed;
    switch (access->kind) {
    case ACCESS_OWN:
        return (access->extent || is_one(split, access->step)) &&
               (access->axis >= FIRST_LOOP || grid_covers(split, access->axis, declared_extent, access->step));
    case ACCESS_WHOLE:
        if (loop)
            return loop_covers(split, loop, access->extent, declared_extent);
        if (access->offset != dim_int(split->context->dims, 0))
            return false;
        if (access->extent == declared_extent)
            return true;
        if (access->extent && !dim_is_int(access->extent, &extent))
            return false;
        return dim_is_int(declared_extent, &needed) && extent >= needed;
    default:
        return false;
    }
}

/* The store's slices tile the owned region: every axis is covered, and no two axes by the same CTAs or loop, which would leave all but a diagonal. */
static bool store_covers(Split *split, const Access *store) {
    const Type *type = split->kernel->signature.params.items[store->param].type;
    bool used[MAX_AXES] = {false};
    for (int k = 0; k < type->rank; k++) {
        const AxisAccess *access = &store->axes[k];
        if (!axis_is_covered(split, store, k, type->dims[k]))
            return false;
        for (int before = 0; before < k; before++)
            if (axis_loop(split, store, k) && axis_loop(split, store, k) == axis_loop(split, store, before))
                return false;
        if (access->kind != ACCESS_OWN)
            continue;
        if (used[access->axis])
            return false;
        used[access->axis] = true;
    }
    return always_runs(split, store);
}

static const IrOp *outermost(const IrOp *op) {
    while (op->parent->owner)
        op = op->parent->owner;
    return op;
}

/* The load reads only what its own CTA stored through `store`, which covers the region: all of it once the loops around the store are over. */
static bool reads_own(const Access *load, const Access *store, int rank) {
    if (outermost(load->op) == outermost(store->op))
        return false;
    for (int k = 0; k < rank; k++) {
        const AxisAccess *read = &load->axes[k], *written = &store->axes[k];
        if (read->kind != written->kind || (read->kind == ACCESS_OWN && (read->axis != written->axis || read->step != written->step)))
            return false;
    }
    return true;
}

PhbMode tensor_mode(Split *split, int param) {
    int rank = split->kernel->signature.params.items[param].type->rank;
    const Access *covering = NULL;
    bool is_stored = false, is_exposed = false;
    for (int i = 0; i < split->accesses.count; i++) {
        const Access *access = &split->accesses.items[i];
        if (access->param != param)
            continue;
        if (access->op->kind != OP_STORE) /* an atomic reads, too */
            is_exposed |= !covering || !reads_own(access, covering, rank);
        else if (!covering && store_covers(split, access))
            covering = access;
        is_stored |= is_store(access->op);
    }
    if (!is_stored)
        return PHB_READ;
    return covering && !is_exposed ? PHB_WRITE : PHB_READ_WRITE;
}
