/* The second reading, LANGUAGE.md 9. Takes verified IR whose search dims are still names; changes how bounds of loops name whole axes, and the launch
 * grid's spelling in its own copy of the signature. Cuts the kernel into stages (cluster_stage.c): without a cluster loop it is one.
 *
 * Why an accepted kernel computes the same in both readings: along a split axis every offset is ctx.block * S + e, or the loop's variable + e, with
 * 0 <= e < S, so with the own offset counting from the super-tile's start instead of the tensor's, it names the same element relative to the
 * super-tile's origin; no access reaches past its own super-tile, every tensor that follows the axis is cut at the same places (one that ends
 * earlier has zeros there, in both readings), and values cannot tell the difference (cluster_value.c). Along an axis that is not split a unit of work has all CTAs and the whole tensor. A cluster loop's chunks run in
 * ascending order, each a whole number of turns of the loop, and what the loop carries waits between them where nobody else touches it. */
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

static const Dim *declared_at(const Split *split, int at) {
    return param_type(split, at / PHB_MAX_RANK)->dims[at % PHB_MAX_RANK];
}

static bool is_stored(const Split *split, int param) {
    for (int i = 0; i < split->accesses.count; i++)
        if (split->accesses.items[i].param == param && is_store(split->accesses.items[i].op))
            return true;
    return false;
}

/* ---- refusals of single accesses ---- */

/* A halo as an attribute says it: `width` on one axis, what is declared on the others. */
static const char *halo_text(Split *split, int at, const Dim *width) {
    int rank = param_type(split, at / PHB_MAX_RANK)->rank, first = at - at % PHB_MAX_RANK;
    const char *text = rank > 1 ? "[" : "";
    for (int k = 0; k < rank; k++) {
        const Dim *declared = first + k == at ? width : split->halo[first + k];
        text = split_text(split, "%s%s%s", text, k ? ", " : "", declared ? split_dim_text(split, declared) : "0");
    }
    return rank > 1 ? split_text(split, "%s]", text) : text;
}

static void refuse_other(Split *split, const Access *access, int k) {
    const AxisAccess *axis = &access->axes[k];
    const IrValue *offset = access->op->operands.items[1 + k];
    const char *name = param_name(split, access->param), *form = form_text(split, axis->offset);
    int along = axis->axis >= 0 ? axis->axis : __builtin_ctz(split->depends[offset->id]);
    const Dim *step = split->axes[along].step ? split->axes[along].step : axis->extent ? axis->extent : dim_int(split->context->dims, 1);
    const char *own = own_offset(split, along, step), *extent = split_dim_text(split, step);
    bool is_point_axis = !axis->extent && step == dim_int(split->context->dims, 1);
    const char *edit =
        axis->extent ? split_text(split, "write '%s :+ %s'", own, extent) : split_text(split, "write '%s + e' with e proved in [0, %s)", own, extent);
    Refusal refusal = {
        .at = access->op->span,
        .rule = split_text(split, "the access to axis %d of '%s' is none of grid, loop, halo and whole", k, name),
        .other = offset->def ? offset->def->span : access->op->span,
        .other_text = form ? split_text(split, "the offset is '%s'", form) : split_text(split, "the offset depends on '%s' here", axis_text(split, along)),
        .node = split_text(split, "the access may start at any element of '%s'", name),
        .cluster = split_text(split, "the offset does not say which super-tile of '%s' a unit of work needs", name),
        .edit = is_point_axis ? split_text(split, "write '%s'", own) : edit,
    };
    refuse(split, &refusal);
}

/* The offset leaves the tile that ctx.block or the loop names: into the neighbouring super-tile where the axis is split. */
static void refuse_shifted(Split *split, const Access *access, int k) {
    const AxisAccess *axis = &access->axes[k];
    const char *name = param_name(split, access->param), *form = form_text(split, axis->offset);
    const char *own = own_offset(split, axis->axis, axis->step);
    const Access *other = split->axis_access[access->param * PHB_MAX_RANK + k];
    bool stores = is_store(access->op);
    const Dim *width = stores ? NULL : halo_needed(split, axis);
    Refusal refusal = {
        .at = access->op->span,
        .rule = split_text(split, "'%s' is accessed at two super-tile coordinates in one unit of work", name),
        .other = other ? other->op->span : access->op->operands.items[1 + k]->def->span,
        .other_text = other && form ? split_text(split, "axis %d is accessed at '%s' here, and at '%s' there", k, own, form)
                      : other       ? split_text(split, "axis %d is accessed at '%s' here", k, own)
                                    : split_text(split, "the offset is not proved to stay in the tile at '%s'", own),
        .node = split_text(split, "'%s' is one tensor, and a slice may start anywhere in it", name),
        .cluster = split_text(split, "a unit of work holds one super-tile of '%s' along axis %d, and this slice also reaches the next one", name, k),
        .edit = stores  ? split_text(split, "store at '%s'", own)
                : width ? split_text(split, "declare '@halo(%s = %s)'", name, halo_text(split, access->param * PHB_MAX_RANK + k, width))
                        : split_text(split, "bound the offset by 'min' and 'max', and declare '@halo(%s = w)' with the width w that it needs", name),
    };
    refuse(split, &refusal);
}

static void refuse_step(Split *split, const Access *access, int k) {
    const AxisAccess *axis = &access->axes[k];
    const SplitAxis *block = &split->axes[axis->axis];
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

/* Loops may have one variable's name. */
static const char *followed_text(Split *split, int axis) {
    if (axis < FIRST_LOOP)
        return split_text(split, "'%s'", block_names[axis]);
    return split_text(split, "'%s' of the loop to '%s'", axis_text(split, axis), split_dim_text(split, split->axes[axis].extent));
}

/* The tensor axis follows another ctx.block axis, or none, elsewhere. */
static void refuse_disagreement(Split *split, const Access *access, int k, const Access *other) {
    const AxisAccess *here = &access->axes[k], *there = &other->axes[k];
    const char *name = param_name(split, access->param);
    const char *follows = here->kind == ACCESS_WHOLE ? "nothing that is split" : followed_text(split, here->axis);
    Refusal refusal = {
        .at = access->op->span,
        .rule = split_text(split, "'%s' is accessed at two super-tile coordinates in one unit of work", name),
        .other = other->op->span,
        .other_text = split_text(split, "axis %d follows %s here, and %s there", k, followed_text(split, there->axis), follows),
        .node = split_text(split, "both accesses read and write the one tensor '%s'", name),
        .cluster = split_text(split, "a unit of work holds one super-tile of '%s' along axis %d, %s", name, k, super_text(split, there->axis)),
        .edit = is_store(access->op) || is_store(other->op)
                    ? split_text(split, "use one offset for axis %d of '%s' throughout", k, name)
                    : split_text(split, "pass the tensor a second time, as a parameter of its own, and make this access through that one"),
    };
    refuse(split, &refusal);
}

/* How far the axis is longer than what is cut; NULL on overflow. */
static const Dim *excess(Split *split, int at) {
    return dim_op(split->context->dims, PHB_EXPR_SUB, declared_at(split, at), split->axes[split->follows[at]].extent);
}

static void refuse_extents(Split *split, int axis, int at) {
    const Access *here = split->axis_access[at];
    const IrOp *loop = split->axes[axis].loop;
    int first = next_on_axis(split, axis, 0);
    while (!loop && declared_at(split, first) != split->axes[axis].extent)
        first = next_on_axis(split, axis, first + 1);
    const char *name = param_name(split, here->param), *expected = split_dim_text(split, split->axes[axis].extent);
    const Dim *longer = is_stored(split, here->param) ? NULL : excess(split, at);
    bool fits_a_halo = longer && form_not_negative(split, longer);
    Refusal refusal = {
        .at = here->op->span,
        .rule = split_text(split, "'%s' splits axis %d of '%s', of extent '%s', and an axis of extent '%s'", axis_text(split, axis),
            at % PHB_MAX_RANK, name, split_dim_text(split, declared_at(split, at)), expected),
        .other = loop ? loop->span : split->axis_access[first]->op->span,
        .other_text = loop ? split_text(split, "the loop runs to '%s'", expected)
                           : split_text(split, "axis %d of '%s' is split here", first % PHB_MAX_RANK, param_name(split, first / PHB_MAX_RANK)),
        .node = "a slice beyond the shorter one's edge reads 0 and stores nothing",
        .cluster =
            split_text(split, "all tensors along one axis are cut into the same super-tiles, and nobody would hold what '%s' has beyond them", name),
        .edit = fits_a_halo ? split_text(split, "declare '@halo(%s = %s)'", name, halo_text(split, at, longer))
                            : split_text(split, "declare the axis of '%s' with the extent '%s'", name, expected),
    };
    refuse(split, &refusal);
}

/* ---- what the accesses say about the axes ---- */

static void find_steps(Split *split) {
    for (int i = 0; i < split->accesses.count; i++) {
        const Access *access = &split->accesses.items[i];
        for (int k = 0; k < tensor_rank(split, access); k++) {
            const AxisAccess *axis = &access->axes[k];
            if (axis->kind == ACCESS_WHOLE || axis->kind == ACCESS_OTHER)
                continue;
            SplitAxis *followed = &split->axes[axis->axis];
            if (!followed->access) {
                followed->step = axis->step;
                followed->access = access;
                followed->tensor_axis = k;
            } else if (followed->step != axis->step) {
                refuse_step(split, access, k);
            }
        }
    }
    for (int axis = 0; axis < FIRST_LOOP; axis++) {
        SplitAxis *block = &split->axes[axis];
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
            bool follows = access->axes[k].kind == ACCESS_OWN || access->axes[k].kind == ACCESS_HALO;
            if (!follows || (split->follows[at] >= 0 && split->axes[split->follows[at]].split))
                continue;
            split->follows[at] = access->axes[k].axis;
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
            bool is_split = split->follows[at] >= 0 && split->axes[split->follows[at]].split;
            if (axis->kind == ACCESS_SHIFTED && split->axes[axis->axis].split)
                refuse_shifted(split, access, k);
            else if (axis->kind == ACCESS_SHIFTED || axis->kind == ACCESS_OTHER)
                refuse_other(split, access, k);
            else if (is_split && axis->axis != split->follows[at])
                refuse_disagreement(split, access, k, split->axis_access[at]);
        }
    }
}

/* What the grid counts is what is stored; a loop says itself how far it runs. */
static void find_extents(Split *split) {
    for (int stored = 1; stored >= 0; stored--)
        for (int at = 0; at < split->kernel->signature.params.count * PHB_MAX_RANK; at++) {
            SplitAxis *axis = split->follows[at] < 0 ? NULL : &split->axes[split->follows[at]];
            if (axis && axis->split && !axis->extent && (is_stored(split, at / PHB_MAX_RANK) || !stored))
                axis->extent = declared_at(split, at);
        }
}

/* What is only read may end before the grid or the loop does, since reads beyond give 0 in both readings, and after it where its halo holds the rest.
 */
static void check_extents(Split *split) {
    DimPool *dims = split->context->dims;
    find_extents(split);
    for (int at = 0; at < split->kernel->signature.params.count * PHB_MAX_RANK; at++) {
        int follows = split->follows[at];
        if (follows < 0 || !split->axes[follows].split || excess(split, at) == dim_int(dims, 0))
            continue;
        const Dim *longer = excess(split, at), *halo = split_halo(split, at);
        const Dim *rest = longer ? dim_op(dims, PHB_EXPR_SUB, halo ? halo : dim_int(dims, 0), longer) : NULL;
        if (is_stored(split, at / PHB_MAX_RANK) || !rest || !form_not_negative(split, rest))
            refuse_extents(split, follows, at);
    }
}

/* ---- one kernel ---- */

static ClusterAxis cluster_axis(const Split *split, int at) {
    int axis = split->follows[at];
    if (axis < 0 || !split->axes[axis].split)
        return (ClusterAxis){.kind = PHB_AXIS_WHOLE};
    const Dim *halo = split_halo(split, at);
    return axis < FIRST_LOOP ? (ClusterAxis){PHB_AXIS_GRID, axis, halo} : (ClusterAxis){PHB_AXIS_LOOP, axis - FIRST_LOOP, halo};
}

static void fill_tensors(Split *split) {
    const Signature *signature = &split->kernel->signature;
    for (int i = 0; i < signature->params.count; i++) {
        const Type *type = signature->params.items[i].type;
        if (type->kind != TYPE_TENSOR)
            continue;
        ClusterTensor tensor = {.param = i, .mode = tensor_mode(split, i)};
        for (int k = 0; k < type->rank; k++)
            tensor.axes[k] = cluster_axis(split, i * PHB_MAX_RANK + k);
        vec_push(split->context->arena, &split->result->tensors, tensor);
    }
}

static void fill_axes(Split *split) {
    for (int a = 0; a < MAX_AXES; a++) {
        const SplitAxis *axis = &split->axes[a];
        if (!axis->split)
            continue;
        ClusterSplit cut = {signature_search(&split->kernel->signature, axis->step->name), axis->extent};
        if (a < FIRST_LOOP)
            split->result->grid[a] = cut;
        else
            vec_push(split->context->arena, &split->result->loops, cut);
    }
}

/* In steps, since what one step refuses makes no sense to the next. False after an error. */
static bool check_cluster(Split *split) {
    Diag *diag = split->context->diag;
    int errors = diag_error_count(diag);
    check_loops(split);
    if (diag_error_count(diag) > errors)
        return false;
    if (loops_settle(split))
        affine_analyse(split);
    find_steps(split);
    map_axes(split);
    check_agreement(split);
    if (diag_error_count(diag) > errors)
        return false;
    check_extents(split);
    check_halos(split);
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
    int axis_count = source->signature.params.count * PHB_MAX_RANK, errors = diag_error_count(context->diag);
    split.axis_access = NEW_ARRAY(arena, const Access *, axis_count + 1);
    split.follows = NEW_ARRAY(arena, int, axis_count + 1);
    split.halo = NEW_ARRAY(arena, const Dim *, axis_count + 1);
    split.origins = NEW_ARRAY(arena, const Dim *, axis_count + 1);
    for (int i = 0; i < axis_count; i++)
        split.follows[i] = -1;
    if (source->signature.has_cluster) {
        find_halos(&split);
        bounds_name_whole_axes(&split);
    }
    affine_analyse(&split);
    if (!source->signature.has_cluster || check_cluster(&split))
        check_values(&split);
    if (diag_error_count(context->diag) > errors)
        return split.result;
    fill_tensors(&split);
    fill_axes(&split);
    make_stages(&split);
    return split.result;
}

ClusterProgram *cluster_split(Context *context, IrModule *module) {
    ClusterProgram *program = NEW(context->arena, ClusterProgram);
    program->file = module->file;
    for (int i = 0; i < module->kernels.count; i++)
        vec_push(context->arena, &program->kernels, split_kernel(context, module->kernels.items[i]));
    return program;
}
