/* What values may depend on, LANGUAGE.md 9. ctx.block, ctx.grid and a dim that names a split axis mean something else in a leaf than in the whole
 * problem, so they may reach a value only in a sum with the origin, or a comparison, min or max with the extent, that takes the difference back.
 * Positions that a kernel asks for by name (ctx.super, origin, extent) are allowed, with a warning where one reaches a store. */
#include "compiler/lower/split.h"

typedef enum MisuseKind { MISUSE_OFFSET, MISUSE_GRID, MISUSE_DIM } MisuseKind;

/* The first operation on the way to a value that used a position as if it were the same in both readings. */
typedef struct Misuse {
    MisuseKind kind;
    const IrOp *op;
    const IrValue *value;
    int axis;        /* DIM: that splits the dim's axis */
    const Dim *name; /* DIM: of the dim; GRID: of the position */
    bool is_reported;
} Misuse;

typedef struct ValueCheck {
    Split *split;
    Misuse **misuse;     /* by IrValue.id: what is wrong with it, or NULL */
    const char **varies; /* by IrValue.id: the position that it depends on and that changes with the super-tile, or NULL */
    VEC(Misuse *) found; /* each once, however often its op is visited */
    bool changed;        /* by the round at hand */
    bool reports;        /* in the last round */
} ValueCheck;

/* The same of what decides whether, or how often, an op runs. */
typedef struct Fault {
    Misuse *misuse;
    const char *varies;
} Fault;

static const Type *param_type(const Split *split, int param) {
    return split->kernel->signature.params.items[param].type;
}

int next_on_axis(const Split *split, int axis, int at) {
    for (int count = split->kernel->signature.params.count * PHB_MAX_RANK; at < count; at++)
        if (split->follows[at] == axis)
            return at;
    return -1;
}

static const Dim *origin_at(Split *split, int at) {
    return form_origin(split, at / PHB_MAX_RANK, at % PHB_MAX_RANK);
}

const Dim *axis_extent(Split *split, int at) {
    const char *tensor = split->kernel->signature.params.items[at / PHB_MAX_RANK].name;
    return dim_extent(split->context->dims, tensor, at % PHB_MAX_RANK);
}

static const Dim *declared_at(const Split *split, int at) {
    return param_type(split, at / PHB_MAX_RANK)->dims[at % PHB_MAX_RANK];
}

/* ---- forms ---- */

const Dim *split_dim_in(Split *split, const Dim *form, int *axis) {
    for (*axis = 0; *axis < MAX_AXES; ++*axis) {
        if (!split->axes[*axis].split)
            continue;
        for (int at = next_on_axis(split, *axis, 0); at >= 0; at = next_on_axis(split, *axis, at + 1)) {
            const Dim *declared = declared_at(split, at);
            if (declared->kind == PHB_EXPR_DIM && dim_mentions(form, declared->name))
                return declared;
        }
    }
    return NULL;
}

/* The offset of an axis' own tile: NULL where nothing follows the axis, or on overflow. */
static const Dim *own_form(Split *split, int axis) {
    const SplitAxis *own = &split->axes[axis];
    if (axis >= FIRST_LOOP)
        return axis_form(split, axis);
    return own->step ? dim_op(split->context->dims, PHB_EXPR_MUL, axis_form(split, axis), own->step) : NULL;
}

/* `form` depends on the axis' own offset only through sums with the origin of a tensor axis that it indexes. */
static bool offset_is_global(Split *split, const Dim *form, int axis) {
    const Dim *name = axis_form(split, axis);
    if (!dim_mentions(form, name->name))
        return true;
    const Dim *own = own_form(split, axis);
    const Dim *origin = own ? dim_op(split->context->dims, PHB_EXPR_SUB, form_name(split, "global offset"), own) : NULL;
    for (int at = next_on_axis(split, axis, 0); at >= 0 && form && origin; at = next_on_axis(split, axis, at + 1))
        form = form_replace(split, form, origin_at(split, at), origin);
    return form && origin && !dim_mentions(form, name->name);
}

/* The count of CTAs or thread-block clusters in `form`, or NULL. */
static const Dim *count_in(Split *split, const Dim *form, int axis) {
    const Dim *names[2] = {form_name(split, grid_names[axis]), form_name(split, thread_cluster_names[axis])};
    return dim_mentions(form, names[0]->name) ? names[0] : dim_mentions(form, names[1]->name) ? names[1] : NULL;
}

/* What is wrong with `form` where it is the same number in both readings, or is to be: false, nothing. */
static bool form_misuse(Split *split, const Dim *form, Misuse *misuse) {
    for (misuse->axis = 0; misuse->axis < MAX_AXES; misuse->axis++) {
        misuse->kind = MISUSE_OFFSET;
        if (!offset_is_global(split, form, misuse->axis))
            return true;
        misuse->kind = MISUSE_GRID;
        misuse->name = misuse->axis < FIRST_LOOP ? count_in(split, form, misuse->axis) : NULL;
        if (misuse->name)
            return true;
    }
    misuse->kind = MISUSE_DIM;
    misuse->name = split_dim_in(split, form, &misuse->axis);
    return misuse->name;
}

static Misuse *misuse_of_form(ValueCheck *check, const IrOp *op, const IrValue *value) {
    Split *split = check->split;
    const Dim *form = split->forms[value->id];
    if (!form || !split->kernel->signature.has_cluster)
        return NULL;
    for (int i = 0; i < check->found.count; i++)
        if (check->found.items[i]->op == op && check->found.items[i]->value == value)
            return check->found.items[i];
    Misuse misuse = {.op = op, .value = value};
    if (!form_misuse(split, form, &misuse))
        return NULL;
    Misuse *result = NEW(split->context->arena, Misuse);
    *result = misuse;
    vec_push(split->context->arena, &check->found, result);
    return result;
}

/* The position in `form` that changes with the super-tile, as text; NULL where the value is the same in both readings. */
static const char *form_varies(Split *split, const Dim *form) {
    for (int axis = 0; form && axis < MAX_AXES; axis++) {
        if (axis < FIRST_LOOP && dim_mentions(form, form_name(split, super_names[axis])->name))
            return super_names[axis];
        if (axis < FIRST_LOOP && dim_mentions(form, form_name(split, supers_names[axis])->name))
            return supers_names[axis];
        if (!split->axes[axis].split)
            continue;
        bool sums_with_own = dim_mentions(form, axis_form(split, axis)->name);
        for (int at = next_on_axis(split, axis, 0); at >= 0; at = next_on_axis(split, axis, at + 1)) {
            const Dim *extent = axis_extent(split, at), *origin = origin_at(split, at);
            if (form_mentions_extent(form, extent->name, (int)extent->value))
                return split_dim_text(split, extent);
            if (!sums_with_own && dim_mentions(form, origin->name))
                return origin->name;
        }
    }
    return NULL;
}

/* ---- comparisons with an edge ---- */

/* `difference` is the own offset + e - extent for an e < `limit`. With the tile's extent for the limit, whether it is negative comes out the same in
 * both readings, and with one more whether it is positive, and by how much: in all but the last super-tile the own tile ends at the extent at the
 * latest, and in the last one both sides are moved by the same origin. Gives the tensor axis whose extent it is, or -1. A dim is an extent where
 * `names_whole`. */
static int edge_of_difference(Split *split, const Dim *difference, int axis, const Dim *limit, bool names_whole) {
    DimPool *dims = split->context->dims;
    const Dim *own = own_form(split, axis);
    const Dim *rest = own ? dim_op(dims, PHB_EXPR_SUB, difference, own) : NULL;
    for (int at = rest ? next_on_axis(split, axis, 0) : -1; at >= 0; at = next_on_axis(split, axis, at + 1)) {
        if (split->axes[axis].split && declared_at(split, at) != split->axes[axis].extent)
            continue; /* the leaf's extent is that of what is cut, and this one's own edge is elsewhere */
        const Dim *edges[2] = {axis_extent(split, at), declared_at(split, at)};
        for (int i = 0; i < 2; i++) {
            const Dim *beyond = i == 0 || (edges[i]->kind == PHB_EXPR_DIM && names_whole) ? dim_op(dims, PHB_EXPR_ADD, rest, edges[i]) : NULL;
            const Dim *left = beyond ? dim_op(dims, PHB_EXPR_SUB, limit, beyond) : NULL;
            left = left ? dim_op(dims, PHB_EXPR_SUB, left, dim_int(dims, 1)) : NULL;
            if (left && form_not_negative(split, left))
                return at;
        }
    }
    return -1;
}

/* For any axis, with a limit of its tile's extent and `more`. */
static int edge_of(Split *split, const Dim *difference, int more, bool is_compared) {
    DimPool *dims = split->context->dims;
    for (int axis = 0; axis < MAX_AXES && difference; axis++) {
        const SplitAxis *own = &split->axes[axis];
        const Dim *limit = own->step ? dim_op(dims, PHB_EXPR_ADD, own->step, dim_int(dims, more)) : NULL;
        int at = limit ? edge_of_difference(split, difference, axis, limit, is_compared || !own->split) : -1;
        if (at >= 0)
            return at;
    }
    return -1;
}

/* a < b is whether a - b is negative, a <= b whether it is not positive; b - a the other way round. */
int edge_compared(Split *split, const IrOp *op) {
    if (!(op_info[op->kind].traits & TRAIT_COMPARE))
        return -1;
    const Dim *a = split->forms[op->operands.items[0]->id], *b = split->forms[op->operands.items[1]->id];
    if (!a || !b)
        return -1;
    DimPool *dims = split->context->dims;
    int at = edge_of(split, dim_op(dims, PHB_EXPR_SUB, a, b), op->kind == OP_LE, true);
    return at >= 0 ? at : edge_of(split, dim_op(dims, PHB_EXPR_SUB, b, a), op->kind == OP_LT, true);
}

/* What decides a comparison, or what a min or max of positions is named for; NULL: the op is neither. */
static const Dim *difference_of(Split *split, const IrOp *op) {
    const IrValue *result = op->results.count == 1 ? op->results.items[0] : NULL;
    if (result && split->clamped[result->id])
        return split->clamped[result->id];
    if (!(op_info[op->kind].traits & TRAIT_COMPARE))
        return NULL;
    const Dim *a = split->forms[op->operands.items[0]->id], *b = split->forms[op->operands.items[1]->id];
    return a && b ? dim_op(split->context->dims, PHB_EXPR_SUB, a, b) : NULL;
}

/* Both readings decide alike, whatever the operands are by themselves. *varies: the position that it changes with. */
static bool decides_alike(Split *split, const IrOp *op, const char **varies) {
    const Dim *difference = difference_of(split, op);
    bool is_compared = op_info[op->kind].traits & TRAIT_COMPARE;
    Misuse misuse;
    *varies = NULL;
    if (!difference)
        return false;
    if (is_compared ? edge_compared(split, op) >= 0 : edge_of(split, difference, 1, false) >= 0)
        return true;
    *varies = form_varies(split, difference);
    return !form_misuse(split, difference, &misuse);
}

/* ---- reports ---- */

/* What is the same in every element of a tile; any other value as it is. */
static const IrValue *spread_value(const IrValue *value) {
    while (value->def && value->def->kind == OP_BROADCAST)
        value = value->def->operands.items[0];
    return value;
}

static Span value_span(const IrValue *value, Span otherwise) {
    value = spread_value(value);
    return value->def && value->def->span.line ? value->def->span : otherwise;
}

/* One op may stand for a dim at many places: where it stands in what uses it, or the user. */
static Span dim_span(const Misuse *misuse) {
    Span at = value_span(misuse->value, misuse->op->span), user = misuse->op->span;
    bool is_in_user = at.line == user.line && at.column >= user.column && at.column + at.length <= user.column + user.length;
    return is_in_user ? at : user;
}

static const char *position_edit(Split *split, const Misuse *misuse) {
    const Dim *step = split->axes[misuse->axis].step;
    int at = next_on_axis(split, misuse->axis, 0);
    while (at >= 0 && split->axes[misuse->axis].split && declared_at(split, at) != split->axes[misuse->axis].extent)
        at = next_on_axis(split, misuse->axis, at + 1);
    if (at < 0)
        return split_text(split, "index a tensor by '%s' and add 'origin' of that axis", axis_text(split, misuse->axis));
    const char *origin = origin_at(split, at)->name, *of_axis = origin + sizeof "origin" - 1;
    if (misuse->kind == MISUSE_GRID)
        return split_text(split, "write 'ceildiv(whole%s, %s)'", of_axis, split_dim_text(split, step));
    const char *global = split_text(split, "%s + %s", origin, own_offset(split, misuse->axis, step));
    if (op_info[misuse->op->kind].traits & TRAIT_COMPARE)
        return split_text(split, "compare '%s', with 'whole%s' where the edge is meant", global, of_axis);
    const Dim *excess = difference_of(split, misuse->op), *declared = split->axes[misuse->axis].extent;
    if (excess && declared && edge_of(split, excess, 1, true) >= 0)
        return split_text(split, "write 'extent%s' for '%s'", of_axis, split_dim_text(split, declared));
    if (excess)
        return split_text(split, "write '%s', with 'whole%s' where the edge is meant", global, of_axis);
    if (split->clamped[spread_value(misuse->value)->id])
        return split_text(split, "add '%s' to it", origin);
    return split_text(split, "write '%s'", global);
}

static void report_position(Split *split, const Misuse *misuse) {
    bool is_loop = misuse->axis >= FIRST_LOOP;
    const char *name = misuse->kind == MISUSE_OFFSET ? axis_text(split, misuse->axis) : misuse->name->name;
    const char *form = form_text(split, split->forms[misuse->value->id]);
    const char *when = split->axes[misuse->axis].split ? "" : " if its axis were split";
    Refusal refusal = {
        .at = misuse->op->span,
        .rule = split_text(split,
            "a value depends on '%s' other than by a sum with 'origin', or 'min', 'max' or a comparison with 'extent', of the axis it indexes", name),
        .other = value_span(misuse->value, is_loop ? split->axes[misuse->axis].loop->span : misuse->op->span),
        .other_text = form ? split_text(split, "it depends on '%s'", form) : "it depends on this",
        .node = is_loop ? split_text(split, "'%s' runs along the whole axis", name)
                        : split_text(split, "'%s' counts the CTAs of the whole problem", name),
        .cluster = is_loop ? split_text(split, "'%s' runs along one chunk, from 0, so the value would change with the size of the chunks", name)
                           : split_text(split, "'%s' counts those of one super-tile, so the value would change with the super-tile%s", name, when),
        .edit = position_edit(split, misuse),
    };
    refuse(split, &refusal);
}

static void report_dim(Split *split, const Misuse *misuse) {
    const char *dim = misuse->name->name;
    int at = next_on_axis(split, misuse->axis, 0);
    while (declared_at(split, at) != misuse->name)
        at = next_on_axis(split, misuse->axis, at + 1);
    const char *tensor = split->kernel->signature.params.items[at / PHB_MAX_RANK].name;
    int k = at % PHB_MAX_RANK;
    Refusal refusal = {
        .at = dim_span(misuse),
        .rule = split_text(split, "'%s' names a split axis, so it may only be compared with offsets along that axis", dim),
        .other = split->axis_access[at]->op->span,
        .other_text = split_text(split, "axis %d of '%s', of extent '%s', is split here", k, tensor, dim),
        .node = split_text(split, "'%s' is the extent of the whole axis", dim),
        .cluster = split_text(split, "'%s' is the extent of one super-tile", dim),
        .edit = split_text(split, "write 'whole(%s, %d)' or 'extent(%s, %d)', whichever is meant", tensor, k, tensor, k),
    };
    refuse(split, &refusal);
}

static void report(Split *split, Misuse *misuse) {
    if (misuse->is_reported)
        return;
    misuse->is_reported = true;
    if (misuse->kind == MISUSE_DIM)
        report_dim(split, misuse);
    else
        report_position(split, misuse);
}

/* ---- the walk ---- */

static bool is_subscript(const IrOp *op, int operand) {
    return ir_is_tensor_access(op) && operand >= 1 && operand <= op->operands.items[0]->type->rank;
}

/* What is wrong with the value where `op` takes it. */
static Fault check_use(ValueCheck *check, const IrOp *op, const IrValue *value, bool is_offset) {
    Split *split = check->split;
    const Dim *form = split->forms[value->id];
    Fault fault = {check->misuse[value->id], check->varies[value->id]};
    if (!fault.varies)
        fault.varies = form_varies(split, form);
    if (fault.misuse)
        return fault;
    fault.misuse = misuse_of_form(check, op, value);
    if (fault.misuse && fault.misuse->kind != MISUSE_DIM && is_offset)
        fault.misuse = NULL; /* how a subscript follows ctx.block is settled by its kind of access */
    return fault;
}

static Fault join(Fault a, Fault b) {
    return (Fault){a.misuse ? a.misuse : b.misuse, a.varies ? a.varies : b.varies};
}

static void set_fault(ValueCheck *check, const IrValue *value, Fault fault) {
    if (!check->misuse[value->id] && fault.misuse) {
        check->misuse[value->id] = fault.misuse;
        check->changed = true;
    }
    if (!check->varies[value->id] && fault.varies) {
        check->varies[value->id] = fault.varies;
        check->changed = true;
    }
}

static void check_access(ValueCheck *check, const IrOp *op, Fault fault, Fault control) {
    Split *split = check->split;
    if (is_store(op))
        fault = join(fault, control);
    if (fault.misuse)
        report(split, fault.misuse);
    else if (fault.varies && is_store(op))
        diag_warning(split->context->diag, WARN_SUPER, op->span, "what is stored to '%s' depends on '%s', which changes with the super-tiles",
            ir_memory(op, NULL)->def ? ir_memory(op, NULL)->def->name : op->operands.items[0]->name, fault.varies);
}

static void check_op(ValueCheck *check, const IrOp *op, Fault control) {
    Split *split = check->split;
    const IrValue *result = op->results.count == 1 ? op->results.items[0] : NULL;
    bool takes_forms = result && !split->opaque[result->id] && !split->clamped[result->id]; /* its own form says all about it */
    const char *varies = NULL;
    bool is_settled = takes_forms || decides_alike(split, op, &varies);
    Fault fault = {NULL, is_settled ? varies : NULL};
    for (int i = 0; i < op->operands.count; i++) {
        const IrValue *value = op->operands.items[i];
        Fault inherited = {check->misuse[value->id], check->varies[value->id]};
        fault = join(fault, is_settled ? inherited : check_use(check, op, value, is_subscript(op, i)));
    }
    if (result)
        set_fault(check, result, fault);
    if (check->reports && op_info[op->kind].attr == ATTR_SLICE)
        check_access(check, op, fault, control);
}

static void check_block(ValueCheck *check, const IrBlock *block, Fault control);

/* What bounds and conditions depend on, all depends on that is stored or carried under them. */
static void check_regions(ValueCheck *check, const IrOp *op, Fault control) {
    int first = ir_first_carried(op), index = op->kind == OP_FOR;
    bool is_chunked = is_cluster_loop(check->split, op); /* its bounds are those of the chunk */
    for (int i = 0; i < (op->kind == OP_IF ? 1 : first) && !is_chunked; i++)
        control = join(control, check_use(check, op, op->operands.items[i], false));
    if (op->kind == OP_WHILE)
        control = join(control, check_use(check, op, op->regions.items[0]->last->operands.items[0], false));
    if (index)
        set_fault(check, op->regions.items[0]->args.items[0], control);
    for (int r = 0; r < op->regions.count; r++)
        check_block(check, op->regions.items[r], control);
    for (int i = 0; i < op->results.count; i++) {
        Fault fault = control;
        if (op->kind != OP_IF)
            fault = join(fault, check_use(check, op, op->operands.items[first + i], false));
        for (int r = 0; r < op->regions.count; r++)
            if (op->regions.items[r]->last->kind == OP_YIELD)
                fault = join(fault, check_use(check, op, op->regions.items[r]->last->operands.items[i], false));
        for (int r = 0; r < op->regions.count && op->kind != OP_IF; r++)
            set_fault(check, op->regions.items[r]->args.items[index + i], fault);
        set_fault(check, op->results.items[i], fault);
    }
}

static void check_block(ValueCheck *check, const IrBlock *block, Fault control) {
    for (const IrOp *op = block->first; op; op = op->next) {
        if (op->regions.count > 0)
            check_regions(check, op, control);
        else
            check_op(check, op, control);
    }
}

void check_values(Split *split) {
    Arena *arena = split->context->arena;
    ValueCheck check = {.split = split};
    check.misuse = NEW_ARRAY(arena, Misuse *, split->value_count + 1);
    check.varies = NEW_ARRAY(arena, const char *, split->value_count + 1);
    const Fault none = {NULL, NULL};
    do {
        check.changed = false;
        check_block(&check, split->kernel->body, none);
    } while (check.changed);
    check.reports = true;
    check_block(&check, split->kernel->body, none);
}
