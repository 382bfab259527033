/* Cluster loops, LANGUAGE.md 9: where they may stand, and what their bounds say. */
#include "compiler/lower/split.h"

/* ---- bounds ---- */

/* A tensor axis of the extent `dim`: whole(T, k) is the dim in both readings. False: the dim names no axis. */
static bool find_axis(const Split *split, const char *dim, int *param, int *axis) {
    const Signature *signature = &split->kernel->signature;
    for (*param = 0; *param < signature->params.count; ++*param) {
        const Type *type = signature->params.items[*param].type;
        for (*axis = 0; *axis < type->rank; ++*axis)
            if (type->kind == TYPE_TENSOR && type->dims[*axis]->kind == PHB_EXPR_DIM && type->dims[*axis]->name == dim)
                return true;
    }
    return false;
}

static bool names_an_axis(const Split *split, const Dim *dim) {
    int param, axis;
    if (dim->kind == PHB_EXPR_DIM)
        return find_axis(split, dim->name, &param, &axis);
    return (dim->a && names_an_axis(split, dim->a)) || (dim->b && names_an_axis(split, dim->b));
}

static OpKind arithmetic_of(PhbExprOp kind) {
    switch (kind) {
    case PHB_EXPR_ADD:
        return OP_ADD;
    case PHB_EXPR_SUB:
        return OP_SUB;
    case PHB_EXPR_MUL:
        return OP_MUL;
    case PHB_EXPR_DIV:
        return OP_DIV;
    case PHB_EXPR_MOD:
        return OP_REM;
    case PHB_EXPR_MIN:
        return OP_MIN;
    case PHB_EXPR_MAX:
        return OP_MAX;
    default:
        return OP_COUNT;
    }
}

/* Appends what computes `dim` from whole axes; NULL where an operation of it is no op of the IR. */
static IrValue *whole_value(Split *split, IrBlock *block, Span span, const Dim *dim) {
    Context *context = split->context;
    const Type *i64 = type_scalar(context->types, PHB_I64);
    int param, axis;
    if (dim->kind == PHB_EXPR_DIM && find_axis(split, dim->name, &param, &axis)) {
        IrValue *value = ir_value(context, block, OP_WHOLE, span, i64, split->kernel->body->args.items[param], NULL);
        value->def->axis = axis;
        return value;
    }
    if (!names_an_axis(split, dim)) {
        IrValue *value = ir_value(context, block, OP_DIM, span, i64, NULL, NULL);
        value->def->dim = dim;
        return value;
    }
    bool rounds_up = dim->kind == PHB_EXPR_CEILDIV; /* of extents, which are positive */
    OpKind kind = rounds_up ? OP_DIV : arithmetic_of(dim->kind);
    IrValue *a = kind == OP_COUNT ? NULL : whole_value(split, block, span, dim->a);
    IrValue *b = a ? whole_value(split, block, span, dim->b) : NULL;
    if (b && rounds_up) {
        IrValue *most = ir_value(context, block, OP_SUB, span, i64, b, ir_const_bits(context, block, span, i64, 1));
        a = ir_value(context, block, OP_ADD, span, i64, a, most);
    }
    return b ? ir_value(context, block, kind, span, i64, a, b) : NULL;
}

/* `value` with whole axes for dims: a copy of the arithmetic that leads from the ones to the other, appended to `block`. `copies` is by IrValue.id. */
static IrValue *with_whole_axes(Split *split, IrBlock *block, IrValue *value, IrValue **copies) {
    const IrOp *op = value->def;
    if (!op || !(op_info[op->kind].traits & TRAIT_PURE) || value->type->rank > 0)
        return value;
    if (copies[value->id])
        return copies[value->id];
    IrValue *result = value;
    if (op->kind == OP_DIM && names_an_axis(split, op->dim)) {
        result = whole_value(split, block, op->span, op->dim);
    } else if (op->operands.count > 0 && op->operands.items[0]->type->kind != TYPE_TENSOR) {
        IrValue **operands = NEW_ARRAY(split->context->arena, IrValue *, op->operands.count);
        bool changed = false;
        for (int i = 0; i < op->operands.count; i++) {
            operands[i] = with_whole_axes(split, block, op->operands.items[i], copies);
            changed |= operands[i] != op->operands.items[i];
        }
        if (changed)
            result = ir_append(split->context, block, op->kind, op->span, operands, op->operands.count, &value->type, 1)->results.items[0];
    }
    copies[value->id] = result ? result : value;
    return copies[value->id];
}

static void name_whole_axes(Split *split, IrBlock *block, int value_count) {
    for (IrOp *op = block->first; op; op = op->next) {
        for (int i = 0; i < op->regions.count; i++)
            name_whole_axes(split, op->regions.items[i], value_count);
        if (op->kind != OP_FOR)
            continue;
        IrBlock *bounds = ir_block_new(split->context, NULL);
        IrValue **copies = NEW_ARRAY(split->context->arena, IrValue *, value_count);
        for (int i = 0; i < 3; i++)
            op->operands.items[i] = with_whole_axes(split, bounds, op->operands.items[i], copies);
        while (bounds->first)
            ir_insert_before(op, bounds->first);
    }
}

void bounds_name_whole_axes(Split *split) {
    name_whole_axes(split, split->kernel->body, values_number(split->kernel->body));
}

/* ---- where loops may stand ---- */

static void refuse_place(Split *split, const IrOp *loop, const IrOp *owner) {
    const char *step = split->forms[loop->operands.items[2]->id]->name;
    bool is_nested = loop_around(split, loop) != NULL;
    Refusal refusal = {
        .at = loop->span,
        .rule = is_nested ? "a cluster loop stands in another one"
                : owner->kind == OP_IF
                    ? "a cluster loop stands under 'if', or after a statement that may return"
                    : "a cluster loop stands in a loop of the leaf",
        .other = owner->span,
        .other_text = is_nested ? "the other one" : "it runs, or does not, because of this",
        .node = "the loop runs in each CTA, as often as control gets there",
        .cluster = split_text(split, "the loop steps by the @cluster name '%s', so its chunks are stages that every CTA of a unit of work runs once", step),
        .edit = is_nested ? split_text(split, "step the inner loop by a search dim that is not under @cluster, or take '%s' from @cluster", step)
                          : "move the loop to the top of the kernel, and the condition into its body",
    };
    refuse(split, &refusal);
}

static void refuse_count(Split *split, const IrOp *loop) {
    Refusal refusal = {
        .at = loop->span,
        .rule = split_text(split, "more than %d cluster loops that differ in step or bound", PHB_MAX_LOOPS),
        .other = split->axes[FIRST_LOOP].loop->span,
        .other_text = "the first one",
        .node = "a kernel has any number of loops",
        .cluster = "the table of a kernel's loops is full",
        .edit = "step the loop by a search dim that is not under @cluster",
    };
    refuse(split, &refusal);
}

static void check_places(Split *split, const IrBlock *block) {
    for (const IrOp *op = block->first; op; op = op->next) {
        if (is_cluster_loop(split, op)) {
            if (loop_axis(split, op) < 0)
                refuse_count(split, op);
            else if (block->owner)
                refuse_place(split, op, loop_around(split, op) ? loop_around(split, op) : block->owner);
        }
        for (int i = 0; i < op->regions.count; i++)
            check_places(split, op->regions.items[i]);
    }
}

void check_loops(Split *split) {
    check_places(split, split->kernel->body);
}
