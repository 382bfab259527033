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

static bool axis_is_covered(Split *split, const AxisAccess *access, const Dim *declared_extent) {
    int64_t extent = 1, needed;
    switch (access->kind) {
    case ACCESS_GRID:
        return (access->extent || is_one(split, access->step)) && grid_covers(split, access->axis, declared_extent, access->step);
    case ACCESS_WHOLE:
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

/* The store's slices tile the owned region: every axis is covered, and no two axes by the same CTAs, which would leave all but a diagonal. */
static bool store_covers(Split *split, const Access *store) {
    const Type *type = split->kernel->signature.params.items[store->param].type;
    bool used[3] = {false, false, false};
    for (int k = 0; k < type->rank; k++) {
        const AxisAccess *access = &store->axes[k];
        if (!axis_is_covered(split, access, type->dims[k]))
            return false;
        if (access->kind != ACCESS_GRID)
            continue;
        if (used[access->axis])
            return false;
        used[access->axis] = true;
    }
    return true;
}

/* The load reads only what its own CTA stored through `store`, which covers the region. */
static bool reads_own(const Access *load, const Access *store, int rank) {
    for (int k = 0; k < rank; k++) {
        const AxisAccess *read = &load->axes[k], *written = &store->axes[k];
        if (read->kind != written->kind || (read->kind == ACCESS_GRID && (read->axis != written->axis || read->step != written->step)))
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
        if (access->op->kind == OP_LOAD) {
            is_exposed |= !covering || !reads_own(access, covering, rank);
            continue;
        }
        is_stored = true;
        if (!covering && store_covers(split, access))
            covering = access;
    }
    if (!is_stored)
        return PHB_READ;
    return covering && !is_exposed ? PHB_WRITE : PHB_READ_WRITE;
}
