/* What min and max say of offsets. Of other values they say a range, which a halo may be wide enough for: max(min(n, 3), -3).
 *
 * Of positions: with r = max(0, a - b), min(a, b) is a - r and max(a, b) is b + r. Where a - b has an upper end that is no position, r gets
 * a name and a range, so that a clamped offset is an offset like any other: min(row + 3, extent(T, 0) - 1) is row + 3 - r with r in [0, 3].
 *
 * Takes it that offsets are where the grid and the loops put them: not before the start of the axis that they index, and before its end. Whether the
 * extent is one of the axis, and whether r is the same in both readings, cluster_value.c asks once it is known what indexes what. */
#include "compiler/lower/split.h"

#include <string.h>

enum { BOUND_DEPTH = 8 }; /* of min and max in one another */

static const Dim *negative(Split *split, const Dim *form) {
    return dim_op(split->context->dims, PHB_EXPR_SUB, dim_int(split->context->dims, 0), form);
}

/* Over numbers, dims and values that have a name, without any position. */
static bool is_settled(const Dim *form) {
    if (form->kind == PHB_EXPR_DIM)
        return form->name[0] == '%' || !strpbrk(form->name, ".(");
    return form->kind != PHB_EXPR_EXTENT && (!form->a || is_settled(form->a)) && (!form->b || is_settled(form->b));
}

static bool mentions_axis(Split *split, const Dim *form) {
    for (int axis = 0; axis < MAX_AXES; axis++)
        if (dim_mentions(form, axis_form(split, axis)->name))
            return true;
    return false;
}

/* e of own offset + e - the end of a tensor axis, where `rest` is that without the own offset; NULL where e is none of cluster_clamp.c's. */
static const Dim *beyond_end(Split *split, const Dim *rest, int param, int k) {
    DimPool *dims = split->context->dims;
    const Param *tensor = &split->kernel->signature.params.items[param];
    const Dim *declared = tensor->type->dims[k], *global = dim_op(dims, PHB_EXPR_SUB, rest, form_origin(split, param, k));
    const Dim *sums[3] = {
        dim_op(dims, PHB_EXPR_ADD, rest, dim_extent(dims, tensor->name, k)),
        global ? dim_op(dims, PHB_EXPR_ADD, global, form_whole(split, param, k)) : NULL,
        declared->kind == PHB_EXPR_DIM && dim_mentions(rest, declared->name) ? dim_op(dims, PHB_EXPR_ADD, rest, declared) : NULL,
    };
    for (int i = 0; i < 3; i++)
        if (sums[i] && is_settled(sums[i]) && !(i == 2 && dim_mentions(sums[i], declared->name)))
            return sums[i];
    return NULL;
}

/* The most that `form` can be, as a form without positions; NULL: not known. */
static const Dim *greatest(Split *split, const Dim *form) {
    DimPool *dims = split->context->dims;
    const Signature *signature = &split->kernel->signature;
    const Dim *step, *rest, *down = negative(split, form), *zero = dim_int(dims, 0);
    int axis;
    if (is_settled(form))
        return form;
    bool rises = split_linear(split, form, &axis, &step, &rest) && form_within(split, zero, step);
    bool falls = !rises && down && split_linear(split, down, &axis, &step, &rest) && form_within(split, zero, step);
    for (int i = 0; i < signature->params.count && (rises || falls); i++) {
        for (int k = 0; signature->params.items[i].type->kind == TYPE_TENSOR && k < signature->params.items[i].type->rank; k++) {
            const Dim *end = rises ? beyond_end(split, rest, i, k) : NULL;
            const Dim *start = falls ? dim_op(dims, PHB_EXPR_SUB, form_origin(split, i, k), rest) : NULL;
            if (end)
                return dim_op(dims, PHB_EXPR_SUB, end, dim_int(dims, 1));
            if (start && is_settled(start))
                return start;
        }
    }
    return NULL;
}

/* max(0, form), or what it never exceeds; NULL: not known. */
static const Dim *not_below_zero(Split *split, const Dim *form) {
    const Dim *down = negative(split, form);
    if (form_not_negative(split, form))
        return form;
    if (down && form_not_negative(split, down))
        return dim_int(split->context->dims, 0);
    form = form_greatest(split, form);
    return form && form_not_negative(split, form) ? form : NULL;
}

/* A name for max(0, difference), which is at most max(0, most). */
static const Dim *name_excess(Split *split, const IrValue *value, const Dim *difference, const Dim *most) {
    const Dim *zero = dim_int(split->context->dims, 0), *name = form_name(split, arena_printf(split->context->arena, "%%%d", value->id));
    form_range(split, name, zero, not_below_zero(split, most), value->type->rank > 0);
    split->clamped[value->id] = difference;
    return name;
}

/* The greatest or the least that min and max let a value be, over dims; NULL: they do not say. */
static const Dim *bound(Split *split, const IrValue *value, bool is_greatest, int depth) {
    const Dim *form = split->forms[value->id], *down = form ? negative(split, form) : NULL;
    const Dim *known = is_greatest ? form : down;
    known = known ? form_greatest(split, known) : NULL;
    if (known)
        return is_greatest ? known : negative(split, known);
    const IrOp *op = value->def;
    if (!op || (op->kind != OP_MIN && op->kind != OP_MAX) || depth == BOUND_DEPTH)
        return NULL;
    const Dim *a = bound(split, op->operands.items[0], is_greatest, depth + 1), *b = bound(split, op->operands.items[1], is_greatest, depth + 1);
    if ((op->kind == OP_MIN) == is_greatest)
        return a ? a : b;
    const Dim *more = a && b ? dim_op(split->context->dims, PHB_EXPR_SUB, a, b) : NULL, *less = more ? negative(split, more) : NULL;
    if (more && form_not_negative(split, more))
        return is_greatest ? a : b;
    return less && form_not_negative(split, less) ? (is_greatest ? b : a) : NULL;
}

static void name_bounded(Split *split, const IrValue *value) {
    const Dim *low = bound(split, value, false, 0), *high = bound(split, value, true, 0);
    if (low && high)
        form_range(split, form_name(split, arena_printf(split->context->arena, "%%%d", value->id)), low, high, value->type->rank > 0);
}

const Dim *clamp_form(Split *split, const IrOp *op) {
    DimPool *dims = split->context->dims;
    bool is_min = op->kind == OP_MIN;
    const Dim *operands[2] = {split->forms[op->operands.items[0]->id], split->forms[op->operands.items[1]->id]};
    if (!mentions_axis(split, operands[0]) && !mentions_axis(split, operands[1])) {
        name_bounded(split, op->results.items[0]);
        return NULL;
    }
    for (int i = 0; i < 2; i++) {
        const Dim *a = operands[i], *b = operands[!i], *base = is_min ? a : b;
        const Dim *difference = dim_op(dims, PHB_EXPR_SUB, a, b), *most = difference ? greatest(split, difference) : NULL;
        if (most)
            return dim_op(dims, is_min ? PHB_EXPR_SUB : PHB_EXPR_ADD, base, name_excess(split, op->results.items[0], difference, most));
    }
    return NULL;
}
