/* What must hold of a kernel as a whole, once every access has its kind: outputs follow every grid axis, the launch grid and the declared sets follow the
 * super-tiles. */
#include "compiler/lower/split.h"

static const Type *param_type(const Split *split, int param) {
    return split->kernel->signature.params.items[param].type;
}

static const char *param_name(const Split *split, int param) {
    return split->kernel->signature.params.items[param].name;
}

/* ---- outputs ---- */

static Span grid_span(const Split *split, int axis) {
    const GridAxis *grid = &split->kernel->signature.grid[axis];
    return grid->spans.count > 0 && grid->spans.items[0].line ? grid->spans.items[0] : split->kernel->signature.span;
}

/* More than one CTA may run along the axis. */
static bool is_grid_axis(const Split *split, int axis) {
    const GridAxis *grid = &split->kernel->signature.grid[axis];
    int64_t count;
    if (split->axes[axis].step)
        return true;
    return grid->counts.count > 0 && !(dim_is_int(grid->counts.items[0], &count) && count == 1);
}

static bool is_indexed_by(const Split *split, const Access *access, int axis) {
    for (int k = 0; k < param_type(split, access->param)->rank; k++)
        if (access->axes[k].kind == ACCESS_OWN && access->axes[k].axis == axis)
            return true;
    return false;
}

static void refuse_unused_axis(Split *split, int axis) {
    const Access *user = split->axes[axis].access;
    Refusal refusal = {
        .at = user ? user->op->span : grid_span(split, axis),
        .rule = split_text(split, "no store is indexed by '%s'", block_names[axis]),
        .other = split->kernel->signature.cluster_span,
        .other_text = "the kernel is read for a cluster because of this",
        .node = split_text(split, "CTAs that differ along '%s' store the same elements, in no order", block_names[axis]),
        .cluster = split_text(split, "units of work that differ along '%s' would own the same super-tiles", super_names[axis]),
        .edit = split_text(split, "index what is stored by '%s', or do without it", block_names[axis]),
    };
    refuse(split, &refusal);
}

static void refuse_output(Split *split, const Access *store, int axis) {
    const Access *user = split->axes[axis].access;
    const char *name = param_name(split, store->param);
    Refusal refusal = {
        .at = store->op->span,
        .rule = split_text(split, "the output '%s' is not indexed by '%s'", name, block_names[axis]),
        .other = user ? user->op->span : grid_span(split, axis),
        .other_text = split_text(split, "'%s' is a grid axis because of this", block_names[axis]),
        .node = split_text(split, "CTAs that differ along '%s' store the same elements of '%s', in no order", block_names[axis], name),
        .cluster = split_text(split, "units of work that differ along '%s' would own the same region of '%s'", super_names[axis], name),
        .edit = split_text(split, "index an axis of '%s' by '%s', or do without it", name, block_names[axis]),
    };
    refuse(split, &refusal);
}

void check_outputs(Split *split) {
    for (int axis = 0; axis < FIRST_LOOP; axis++) {
        if (!is_grid_axis(split, axis))
            continue;
        const Access *missing = NULL;
        bool is_used = false;
        for (int i = 0; i < split->accesses.count; i++) {
            const Access *access = &split->accesses.items[i];
            if (!is_store(access->op))
                continue;
            if (is_indexed_by(split, access, axis))
                is_used = true;
            else if (!missing)
                missing = access;
        }
        if (!is_used)
            refuse_unused_axis(split, axis);
        else if (missing)
            refuse_output(split, missing, axis);
    }
}

/* ---- the launch grid and the declared sets ---- */

static bool mentions_split_dim(Split *split, const Dim *dim) {
    int axis_named;
    if (split_dim_in(split, dim, &axis_named))
        return true;
    for (int at = 0; at < split->kernel->signature.params.count * PHB_MAX_RANK; at++) {
        int axis = split->follows[at];
        if (axis < 0 || !split->axes[axis].split)
            continue;
        if (form_mentions_extent(dim, param_name(split, at / PHB_MAX_RANK), at % PHB_MAX_RANK))
            return true;
    }
    return false;
}

static void refuse_grid(Split *split, int axis, const char *cluster, const char *edit) {
    const GridAxis *grid = &split->kernel->signature.grid[axis];
    const char *count = grid->counts.count > 0 ? split_dim_text(split, grid->counts.items[0]) : "1";
    const Access *user = split->axes[axis].access;
    Refusal refusal = {
        .at = grid_span(split, axis),
        .rule = split_text(split, "the grid along '%s' does not follow the super-tiles", block_names[axis]),
        .other = user ? user->op->span : split->kernel->signature.cluster_span,
        .other_text = split_text(split, "'%s' is used here", block_names[axis]),
        .node = split_text(split, "'%s' CTAs run along the axis", count),
        .cluster = cluster,
        .edit = edit,
    };
    refuse(split, &refusal);
}

/* Along a split axis the leaf's grid must be its extent over the step: it is spelled so, since a dim's name may stand for more than one axis. */
static void check_split_grid(Split *split, int axis) {
    Context *context = split->context;
    const SplitAxis *block = &split->axes[axis];
    const Dim *extent = block->extent;
    if (!grid_covers(split, axis, extent, block->step)) {
        const char *count = split_text(split, "ceildiv(%s, %s)", split_dim_text(split, extent), split_dim_text(split, block->step));
        refuse_grid(split, axis, split_text(split, "as many would run in every super-tile, where '%s' are needed", count),
            split_text(split, "state '%s', or leave the grid to be inferred", count));
        return;
    }
    int at = next_on_axis(split, axis, 0);
    /* outputs follow every grid axis, and have neither halo nor another extent */
    while (split_halo(split, at) || param_type(split, at / PHB_MAX_RANK)->dims[at % PHB_MAX_RANK] != extent)
        at = next_on_axis(split, axis, at + 1);
    GridAxis grid = {.stated = split->kernel->signature.grid[axis].stated};
    const Dim *leaf_extent = dim_extent(context->dims, param_name(split, at / PHB_MAX_RANK), at % PHB_MAX_RANK);
    vec_push(context->arena, &grid.counts, dim_op(context->dims, PHB_EXPR_CEILDIV, leaf_extent, block->step));
    vec_push(context->arena, &grid.spans, grid_span(split, axis));
    split->kernel->signature.grid[axis] = grid;
}

void check_grid(Split *split) {
    for (int axis = 0; axis < FIRST_LOOP; axis++) {
        const GridAxis *grid = &split->kernel->signature.grid[axis];
        if (split->axes[axis].split) {
            check_split_grid(split, axis);
            continue;
        }
        for (int i = 0; i < grid->counts.count; i++) {
            if (grid->stated && mentions_split_dim(split, grid->counts.items[i])) {
                refuse_grid(split, axis, "the count follows an axis that is split, and would be that of one super-tile",
                    "state the count by 'extent' of an axis that is not split");
                break;
            }
        }
    }
}

void check_requires(Split *split) {
    const Signature *signature = &split->kernel->signature;
    for (int i = 0; i < signature->require.count; i++) {
        const Require *require = &signature->require.items[i];
        if (!mentions_split_dim(split, require->cond))
            continue;
        Refusal refusal = {
            .at = require->span,
            .rule = split_text(split, "'@require(%s)' depends on the extent of a split axis", split_dim_text(split, require->cond)),
            .other = signature->cluster_span,
            .other_text = "the axis is split because of this",
            .node = "the condition is about the whole axis",
            .cluster = "it would be about one super-tile, and differ at the tensor's end",
            .edit = "leave the extent out of '@require', or promise whole tiles by '@aligned'",
        };
        refuse(split, &refusal);
    }
}

static bool has_divisor(const SearchDim *dim, int64_t value) {
    for (int i = 0; i < dim->leaf.count; i++)
        if (value % dim->leaf.items[i] == 0)
            return true;
    return false;
}

static void refuse_super_tile(Split *split, const SearchDim *dim) {
    Refusal refusal = {
        .at = dim->cluster_span,
        .rule = split_text(split, "no value of '%s' under @autotune divides its super-tile of %lld", dim->name, (long long)dim->cluster.items[0]),
        .other = dim->span,
        .other_text = "the values are declared here",
        .node = "a tile may hang over the tensor's edge",
        .cluster = "a super-tile is a whole number of tiles, so that both readings have the same tiles",
        .edit = split_text(split, "make the first @cluster value of '%s' a multiple of %lld", dim->name, (long long)dim->leaf.items[0]),
    };
    refuse(split, &refusal);
}

static void refuse_fixed_dim(Split *split, const SearchDim *dim, const Param *param, int k) {
    Refusal refusal = {
        .at = dim->cluster_span,
        .rule = split_text(split, "'%s' is a tensor's extent and a super-tile's at once", dim->name),
        .other = param->span,
        .other_text = split_text(split, "axis %d of '%s' has the extent '%s'", k, param->name, split_dim_text(split, param->type->dims[k])),
        .node = split_text(split, "the tensor fixes '%s'", dim->name),
        .cluster = split_text(split, "'%s' would be the tensor's extent and a part of it", dim->name),
        .edit = split_text(split, "give axis %d of '%s' an extent of its own", k, param->name),
    };
    refuse(split, &refusal);
}

static void check_search_dim(Split *split, const SearchDim *dim) {
    const Signature *signature = &split->kernel->signature;
    if (!has_divisor(dim, dim->cluster.items[0]))
        refuse_super_tile(split, dim);
    for (int i = 0; i < signature->params.count; i++) {
        const Param *param = &signature->params.items[i];
        for (int k = 0; k < param->type->rank; k++) {
            if (dim_mentions(param->type->dims[k], dim->name)) {
                refuse_fixed_dim(split, dim, param, k);
                return;
            }
        }
    }
}

void check_search_dims(Split *split) {
    const Signature *signature = &split->kernel->signature;
    for (int i = 0; i < signature->search.count; i++) {
        const SearchDim *dim = &signature->search.items[i];
        bool splits = false;
        for (int axis = 0; axis < MAX_AXES; axis++)
            splits |= split->axes[axis].split && split->axes[axis].step->name == dim->name;
        if (splits)
            check_search_dim(split, dim);
        else if (dim->cluster.count > 0)
            diag_remark(split->context->diag, dim->cluster_span,
                "'%s' under @cluster splits no axis: no slice is 'ctx.block.a * %s :+ %s', and no loop 'range(0, a dim, %s)' indexes a tensor",
                dim->name, dim->name, dim->name, dim->name);
    }
}
