/* The second reading, LANGUAGE.md 9, shape 1: no cluster loop, the whole kernel is one leaf. Takes verified IR whose search dims are still names;
 * changes nothing but the launch grid's spelling, in its own copy of the signature.
 *
 * Why an accepted kernel computes the same in both readings: along a split axis every offset is ctx.block * S + e with 0 <= e < S, so with ctx.block
 * counting from the super-tile's start instead of the tensor's, it names the same element relative to the super-tile's origin; no access reaches past
 * its own super-tile, every tensor that follows the axis is cut at the same places, and values cannot tell the difference (cluster_value.c). Along an
 * axis that is not split a unit of work has all CTAs and the whole tensor. */
#include "compiler/lower/split.h"

static const Type *param_type(const Split *split, int param) {
    return split->kernel->signature.params.items[param].type;
}

static const char *param_name(const Split *split, int param) {
    return split->kernel->signature.params.items[param].name;
}

static int tensor_rank(const Split *split, const Access *access) {
    return param_type(split, access->param)->rank;
}

/* ---- refusals of single accesses ---- */

static void refuse_other(Split *split, const Access *access, int k) {
    const AxisAccess *axis = &access->axes[k];
    const IrValue *offset = access->op->operands.items[1 + k];
    const char *name = param_name(split, access->param), *form = form_text(split, axis->offset);
    int along = axis->axis >= 0 ? axis->axis : __builtin_ctz(split->depends[offset->id]);
    const Dim *step = split->block[along].step ? split->block[along].step : axis->extent ? axis->extent : dim_int(split->context->dims, 1);
    const char *own = own_offset(split, along, step), *extent = split_dim_text(split, step);
    const char *edit =
        axis->extent ? split_text(split, "write '%s :+ %s'", own, extent) : split_text(split, "write '%s + e' with e proved in [0, %s)", own, extent);
    Refusal refusal = {
        .at = access->op->span,
        .rule = split_text(split, "the access to axis %d of '%s' is none of grid, whole and halo", k, name),
        .other = offset->def ? offset->def->span : access->op->span,
        .other_text = form ? split_text(split, "the offset is '%s'", form) : split_text(split, "the offset depends on '%s' here", block_names[along]),
        .node = split_text(split, "the access may start at any element of '%s'", name),
        .cluster = split_text(split, "the offset does not say which super-tile of '%s' a unit of work needs", name),
        .edit = !axis->extent && step == dim_int(split->context->dims, 1) ? split_text(split, "write '%s'", own) : edit,
    };
    refuse(split, &refusal);
}

/* The offset leaves the tile that ctx.block names: into the neighbouring super-tile where the axis is split. */
static void refuse_shifted(Split *split, const Access *access, int k) {
    const AxisAccess *axis = &access->axes[k];
    const char *name = param_name(split, access->param), *form = form_text(split, axis->offset);
    const char *own = own_offset(split, axis->axis, axis->step);
    const Access *other = split->axis_access[access->param * PHB_MAX_RANK + k];
    bool is_store = access->op->kind == OP_STORE;
    Refusal refusal = {
        .at = access->op->span,
        .rule = split_text(split, "'%s' is accessed at two super-tile coordinates in one unit of work", name),
        .other = other ? other->op->span : access->op->operands.items[1 + k]->def->span,
        .other_text = other ? split_text(split, "axis %d is accessed at '%s' here, and at '%s' there", k, own, form ? form : "another offset")
                            : split_text(split, "the offset is not proved to stay in the tile at '%s'", own),
        .node = split_text(split, "'%s' is one tensor, and a slice may start anywhere in it", name),
        .cluster = split_text(split, "a unit of work holds one super-tile of '%s' along axis %d, and this slice also reaches the next one", name, k),
        .edit = is_store ? split_text(split, "store at '%s'", own)
                         : split_text(split, "declare '@halo(%s = w)' with the width w that the offset needs", name),
    };
    refuse(split, &refusal);
}

static void refuse_step(Split *split, const Access *access, int k) {
    const AxisAccess *axis = &access->axes[k];
    const BlockAxis *block = &split->block[axis->axis];
    const char *along = block_names[axis->axis], *step = split_dim_text(split, axis->step), *first = split_dim_text(split, block->step);
    Refusal refusal = {
        .at = access->op->span,
        .rule = split_text(split, "'%s' steps by '%s' here and by '%s' elsewhere: one axis of ctx.block has one step", along, step, first),
        .other = block->access->op->span,
        .other_text = split_text(split, "axis %d of '%s' steps by '%s'", block->tensor_axis, param_name(split, block->access->param), first),
        .node = "each slice is a grid of its own",
        .cluster = split_text(split, "'%s' counts the tiles of one super-tile, which has one extent along the axis", along),
        .edit = split_text(split, "step by '%s' at both places", first),
    };
    refuse(split, &refusal);
}

/* The tensor axis follows another ctx.block axis, or none, elsewhere. */
static void refuse_disagreement(Split *split, const Access *access, int k, const Access *other) {
    const AxisAccess *here = &access->axes[k], *there = &other->axes[k];
    const char *name = param_name(split, access->param);
    const char *follows = here->kind == ACCESS_WHOLE ? "no axis of ctx.block" : split_text(split, "'%s'", block_names[here->axis]);
    Refusal refusal = {
        .at = access->op->span,
        .rule = split_text(split, "'%s' is accessed at two super-tile coordinates in one unit of work", name),
        .other = other->op->span,
        .other_text = split_text(split, "axis %d follows '%s' here, and %s there", k, block_names[there->axis], follows),
        .node = split_text(split, "both accesses read and write the one tensor '%s'", name),
        .cluster = split_text(split, "a unit of work holds one super-tile of '%s' along axis %d, the one at '%s'", name, k, super_names[there->axis]),
        .edit = access->op->kind == OP_STORE || other->op->kind == OP_STORE
                    ? split_text(split, "use one offset for axis %d of '%s' throughout", k, name)
                    : split_text(split, "pass the tensor a second time, as a parameter of its own, and make this access through that one"),
    };
    refuse(split, &refusal);
}

static void refuse_extents(Split *split, int axis, int at, int first) {
    const Access *here = split->axis_access[at], *there = split->axis_access[first];
    const char *extent = split_dim_text(split, param_type(split, here->param)->dims[at % PHB_MAX_RANK]);
    const char *expected = split_dim_text(split, param_type(split, there->param)->dims[first % PHB_MAX_RANK]);
    Refusal refusal = {
        .at = here->op->span,
        .rule = split_text(split, "'%s' splits axis %d of '%s', of extent '%s', and an axis of extent '%s'", block_names[axis], at % PHB_MAX_RANK,
            param_name(split, here->param), extent, expected),
        .other = there->op->span,
        .other_text = split_text(split, "axis %d of '%s' is split here", first % PHB_MAX_RANK, param_name(split, there->param)),
        .node = "a slice beyond the shorter one's edge reads 0 and stores nothing",
        .cluster = "all tensors along one axis are cut into the same super-tiles",
        .edit = split_text(split, "declare the axis of '%s' with the extent '%s'", param_name(split, here->param), expected),
    };
    refuse(split, &refusal);
}

/* ---- what the accesses say about the axes ---- */

static void find_steps(Split *split) {
    for (int i = 0; i < split->accesses.count; i++) {
        const Access *access = &split->accesses.items[i];
        for (int k = 0; k < tensor_rank(split, access); k++) {
            const AxisAccess *axis = &access->axes[k];
            if (axis->kind != ACCESS_GRID && axis->kind != ACCESS_SHIFTED)
                continue;
            BlockAxis *block = &split->block[axis->axis];
            if (!block->step)
                *block = (BlockAxis){.step = axis->step, .access = access, .tensor_axis = k};
            else if (block->step != axis->step)
                refuse_step(split, access, k);
        }
    }
    for (int axis = 0; axis < 3; axis++) {
        BlockAxis *block = &split->block[axis];
        const SearchDim *dim =
            block->step && block->step->kind == PHB_EXPR_DIM ? signature_search(&split->kernel->signature, block->step->name) : NULL;
        block->split = dim && dim->cluster.count > 0;
    }
}

static void map_axes(Split *split) {
    for (int i = 0; i < split->accesses.count; i++) {
        const Access *access = &split->accesses.items[i];
        for (int k = 0; k < tensor_rank(split, access); k++) {
            int at = access->param * PHB_MAX_RANK + k;
            if (access->axes[k].kind != ACCESS_GRID || (split->grid_axis[at] >= 0 && split->block[split->grid_axis[at]].split))
                continue;
            split->grid_axis[at] = access->axes[k].axis;
            split->axis_access[at] = access;
        }
    }
}

/* Every access is of one of the kinds, and a tensor axis that is split by one access is so by all. */
static void check_agreement(Split *split) {
    for (int i = 0; i < split->accesses.count; i++) {
        const Access *access = &split->accesses.items[i];
        for (int k = 0; k < tensor_rank(split, access); k++) {
            const AxisAccess *axis = &access->axes[k];
            int at = access->param * PHB_MAX_RANK + k;
            bool is_split = split->grid_axis[at] >= 0 && split->block[split->grid_axis[at]].split;
            if (axis->kind == ACCESS_SHIFTED && split->block[axis->axis].split)
                refuse_shifted(split, access, k);
            else if (axis->kind == ACCESS_SHIFTED || axis->kind == ACCESS_OTHER)
                refuse_other(split, access, k);
            else if (is_split && axis->axis != split->grid_axis[at])
                refuse_disagreement(split, access, k, split->axis_access[at]);
        }
    }
}

static void check_extents(Split *split) {
    int first[3] = {-1, -1, -1};
    for (int at = 0; at < split->kernel->signature.params.count * PHB_MAX_RANK; at++) {
        int axis = split->grid_axis[at];
        if (axis < 0 || !split->block[axis].split)
            continue;
        const Dim *extent = param_type(split, at / PHB_MAX_RANK)->dims[at % PHB_MAX_RANK];
        if (first[axis] < 0) {
            first[axis] = at;
            split->result->grid[axis].dim = signature_search(&split->kernel->signature, split->block[axis].step->name);
            split->result->grid[axis].extent = extent;
        } else if (extent != split->result->grid[axis].extent) {
            refuse_extents(split, axis, at, first[axis]);
        }
    }
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
    if (split->block[axis].step)
        return true;
    return grid->counts.count > 0 && !(dim_is_int(grid->counts.items[0], &count) && count == 1);
}

static bool is_indexed_by(const Split *split, const Access *access, int axis) {
    for (int k = 0; k < tensor_rank(split, access); k++)
        if (access->axes[k].kind == ACCESS_GRID && access->axes[k].axis == axis)
            return true;
    return false;
}

static void refuse_unused_axis(Split *split, int axis) {
    const Access *user = split->block[axis].access;
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
    const Access *user = split->block[axis].access;
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

static void check_outputs(Split *split) {
    for (int axis = 0; axis < 3; axis++) {
        if (!is_grid_axis(split, axis))
            continue;
        const Access *missing = NULL;
        bool is_used = false;
        for (int i = 0; i < split->accesses.count; i++) {
            const Access *access = &split->accesses.items[i];
            if (access->op->kind != OP_STORE)
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

static bool mentions_split_dim(const Split *split, const Dim *dim) {
    for (int at = 0; at < split->kernel->signature.params.count * PHB_MAX_RANK; at++) {
        int axis = split->grid_axis[at];
        if (axis < 0 || !split->block[axis].split)
            continue;
        const Dim *extent = param_type(split, at / PHB_MAX_RANK)->dims[at % PHB_MAX_RANK];
        if (extent->kind == PHB_EXPR_DIM && dim_mentions(dim, extent->name))
            return true;
        if (form_mentions_extent(dim, param_name(split, at / PHB_MAX_RANK), at % PHB_MAX_RANK))
            return true;
    }
    return false;
}

static void refuse_grid(Split *split, int axis, const char *cluster, const char *edit) {
    const GridAxis *grid = &split->kernel->signature.grid[axis];
    const char *count = grid->counts.count > 0 ? split_dim_text(split, grid->counts.items[0]) : "1";
    const Access *user = split->block[axis].access;
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
    const BlockAxis *block = &split->block[axis];
    const Dim *extent = split->result->grid[axis].extent;
    if (!grid_covers(split, axis, extent, block->step)) {
        const char *count = split_text(split, "ceildiv(%s, %s)", split_dim_text(split, extent), split_dim_text(split, block->step));
        refuse_grid(split, axis, split_text(split, "as many would run in every super-tile, where '%s' are needed", count),
            split_text(split, "state '%s', or leave the grid to be inferred", count));
        return;
    }
    int at = 0;
    while (split->grid_axis[at] != axis)
        at++;
    GridAxis grid = {.stated = split->kernel->signature.grid[axis].stated};
    const Dim *leaf_extent = dim_extent(context->dims, param_name(split, at / PHB_MAX_RANK), at % PHB_MAX_RANK);
    vec_push(context->arena, &grid.counts, dim_op(context->dims, PHB_EXPR_CEILDIV, leaf_extent, block->step));
    vec_push(context->arena, &grid.spans, grid_span(split, axis));
    split->kernel->signature.grid[axis] = grid;
}

static void check_grid(Split *split) {
    for (int axis = 0; axis < 3; axis++) {
        const GridAxis *grid = &split->kernel->signature.grid[axis];
        if (split->block[axis].split) {
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

static void check_requires(Split *split) {
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

static void check_search_dims(Split *split) {
    const Signature *signature = &split->kernel->signature;
    for (int i = 0; i < signature->search.count; i++) {
        const SearchDim *dim = &signature->search.items[i];
        bool splits = false;
        for (int axis = 0; axis < 3; axis++)
            splits |= split->block[axis].split && split->block[axis].step->name == dim->name;
        if (splits)
            check_search_dim(split, dim);
        else if (dim->cluster.count > 0)
            diag_remark(split->context->diag, dim->cluster_span, "'%s' under @cluster splits no axis: no slice is 'ctx.block.a * %s :+ %s'",
                dim->name, dim->name, dim->name);
    }
}

/* ---- one kernel ---- */

static void fill_tensors(Split *split) {
    const Signature *signature = &split->kernel->signature;
    for (int i = 0; i < signature->params.count; i++) {
        const Type *type = signature->params.items[i].type;
        if (type->kind != TYPE_TENSOR)
            continue;
        ClusterTensor tensor = {.param = i, .mode = tensor_mode(split, i)};
        for (int k = 0; k < type->rank; k++) {
            int axis = split->grid_axis[i * PHB_MAX_RANK + k];
            bool is_split = axis >= 0 && split->block[axis].split;
            tensor.axes[k] = (ClusterAxis){is_split ? PHB_AXIS_GRID : PHB_AXIS_WHOLE, is_split ? axis : 0};
        }
        vec_push(split->context->arena, &split->result->tensors, tensor);
    }
}

static void refuse_cluster_loops(Split *split, const IrBlock *block) {
    for (const IrOp *op = block->first; op; op = op->next) {
        const Dim *step = op->kind == OP_FOR ? split->forms[op->operands.items[2]->id] : NULL;
        const SearchDim *dim = step && step->kind == PHB_EXPR_DIM ? signature_search(&split->kernel->signature, step->name) : NULL;
        if (dim && dim->cluster.count > 0) {
            diag_error(split->context->diag, op->span, "cluster loops are not supported yet");
            diag_note(
                split->context->diag, dim->cluster_span, "the loop runs across super-tiles because its step '%s' stands under @cluster", dim->name);
        }
        for (int i = 0; i < op->regions.count; i++)
            refuse_cluster_loops(split, op->regions.items[i]);
    }
}

/* In stages, since what one stage refuses makes no sense to the next. False after an error. */
static bool check_cluster(Split *split) {
    Diag *diag = split->context->diag;
    int errors = diag_error_count(diag);
    refuse_cluster_loops(split, split->kernel->body);
    if (diag_error_count(diag) > errors)
        return false;
    find_steps(split);
    map_axes(split);
    check_agreement(split);
    if (diag_error_count(diag) > errors)
        return false;
    check_extents(split);
    check_search_dims(split);
    check_outputs(split);
    if (diag_error_count(diag) > errors)
        return false;
    check_grid(split);
    check_requires(split);
    return diag_error_count(diag) == errors;
}

static ClusterKernel *split_kernel(Context *context, const IrKernel *source) {
    Arena *arena = context->arena;
    Split split = {.context = context, .kernel = NEW(arena, IrKernel), .result = NEW(arena, ClusterKernel)};
    *split.kernel = *source;
    split.result->kernel = split.kernel;
    int axis_count = source->signature.params.count * PHB_MAX_RANK;
    split.axis_access = NEW_ARRAY(arena, const Access *, axis_count + 1);
    split.grid_axis = NEW_ARRAY(arena, int, axis_count + 1);
    for (int i = 0; i < axis_count; i++)
        split.grid_axis[i] = -1;
    affine_analyse(&split);
    if (!source->signature.has_cluster || check_cluster(&split))
        check_values(&split);
    fill_tensors(&split);
    return split.result;
}

ClusterProgram *cluster_split(Context *context, IrModule *module) {
    ClusterProgram *program = NEW(context->arena, ClusterProgram);
    program->file = module->file;
    for (int i = 0; i < module->kernels.count; i++)
        vec_push(context->arena, &program->kernels, split_kernel(context, module->kernels.items[i]));
    return program;
}
