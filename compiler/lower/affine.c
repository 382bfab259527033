/* What i64 values and slice offsets are, as polynomials over ctx.block, dims and positions; which kind each axis of an access is. Straight-line code.
 */
#include "compiler/lower/split.h"

const char *const block_names[3] = {"ctx.block.x", "ctx.block.y", "ctx.block.z"};
const char *const grid_names[3] = {"ctx.grid.x", "ctx.grid.y", "ctx.grid.z"};
const char *const super_names[3] = {"ctx.super.x", "ctx.super.y", "ctx.super.z"};
const char *const supers_names[3] = {"ctx.supers.x", "ctx.supers.y", "ctx.supers.z"};

enum { PROOF_MAX_ASSIGNMENTS = 4096 };

/* ---- forms ---- */

const Dim *form_name(Split *split, const char *name) {
    return dim_name(split->context->dims, intern_cstr(split->context->interner, name));
}

static const Dim *form_position(Split *split, const char *what, const char *tensor, int axis) {
    return form_name(split, arena_printf(split->context->arena, "%s(%s, %d)", what, tensor, axis));
}

const Dim *form_origin(Split *split, int param, int axis) {
    return form_position(split, "origin", split->kernel->signature.params.items[param].name, axis);
}

typedef struct Replacement {
    const char *name;
    const Dim *by;
} Replacement;

static const Dim *replacement_lookup(void *closure, const char *name) {
    const Replacement *replacement = closure;
    return replacement->name == name ? replacement->by : NULL;
}

const Dim *form_replace(Split *split, const Dim *form, const Dim *name, const Dim *by) {
    Replacement replacement = {name->name, by};
    return dim_substitute(split->context->dims, form, replacement_lookup, &replacement);
}

bool form_mentions_extent(const Dim *form, const char *tensor, int axis) {
    if (form->kind == PHB_EXPR_EXTENT)
        return form->name == tensor && form->value == axis;
    return (form->a && form_mentions_extent(form->a, tensor, axis)) || (form->b && form_mentions_extent(form->b, tensor, axis));
}

const Dim *form_declared(Split *split, const Dim *form) {
    const Signature *signature = &split->kernel->signature;
    if (form->kind == PHB_EXPR_EXTENT) {
        int param = signature_param(signature, form->name);
        return param < 0 ? form : signature->params.items[param].type->dims[form->value];
    }
    if (!form->a)
        return form;
    const Dim *a = form_declared(split, form->a);
    const Dim *b = form->b ? form_declared(split, form->b) : NULL;
    const Dim *result = a && (b || !form->b) ? dim_op(split->context->dims, form->kind, a, b) : NULL;
    return result ? result : form;
}

bool form_within(Split *split, const Dim *rest, const Dim *step) {
    Context *context = split->context;
    const Signature *signature = &split->kernel->signature;
    int64_t low, high;
    if (step->kind == PHB_EXPR_DIM && rest == dim_int(context->dims, 0))
        return true; /* every dim is positive, a symbolic one too */
    Assignment assignment = assignment_first(context, signature);
    for (int i = 0; i < signature->search.count; i++) {
        const char *name = signature->search.items[i].name;
        assignment.varies[i] = dim_mentions(rest, name) || dim_mentions(step, name);
    }
    int tried = 0;
    do {
        if (++tried > PROOF_MAX_ASSIGNMENTS || !dim_evaluate(context, signature, rest, assignment.values, &low) ||
            !dim_evaluate(context, signature, step, assignment.values, &high) || low < 0 || low >= high)
            return false;
    } while (assignment_next(&assignment));
    return true;
}

static const Dim *op_form(Split *split, const IrOp *op) {
    DimPool *dims = split->context->dims;
    const Dim *operands[2] = {NULL, NULL};
    const char *tensor = NULL;
    for (int i = 0; i < op->operands.count && i < 2; i++)
        operands[i] = split->forms[op->operands.items[i]->id];
    if (op->operands.count > 0)
        tensor = op->operands.items[0]->name;
    switch (op->kind) {
    case OP_CONST:
        return dim_int(dims, (int64_t)op->bits);
    case OP_DIM:
        return op->dim;
    case OP_BLOCK:
        return form_name(split, block_names[op->axis]);
    case OP_GRID:
        return form_name(split, grid_names[op->axis]);
    case OP_SUPER:
        return form_name(split, super_names[op->axis]);
    case OP_SUPERS:
        return form_name(split, supers_names[op->axis]);
    case OP_EXTENT:
        return dim_extent(dims, tensor, op->axis);
    case OP_ORIGIN:
        return form_position(split, "origin", tensor, op->axis);
    case OP_WHOLE:
        return form_position(split, "whole", tensor, op->axis);
    case OP_ADD:
        return dim_op(dims, PHB_EXPR_ADD, operands[0], operands[1]);
    case OP_SUB:
        return dim_op(dims, PHB_EXPR_SUB, operands[0], operands[1]);
    case OP_NEG:
        return dim_op(dims, PHB_EXPR_SUB, dim_int(dims, 0), operands[0]);
    case OP_MUL:
        return dim_op(dims, PHB_EXPR_MUL, operands[0], operands[1]);
    default:
        return NULL;
    }
}

static void analyse_result(Split *split, const IrOp *op, const IrValue *result) {
    bool is_i64 = result->type->kind == TYPE_SCALAR && result->type->scalar == PHB_I64;
    const Dim *form = is_i64 ? op_form(split, op) : NULL;
    split->opaque[result->id] = !form;
    if (is_i64 && !form)
        form = form_name(split, arena_printf(split->context->arena, "%%%d", result->id));
    split->forms[result->id] = form;
    if (op->kind == OP_LOAD)
        return; /* what a tensor holds is the same in both readings, wherever it was found */
    if (op->kind == OP_BLOCK || op->kind == OP_GRID)
        split->depends[result->id] = 1u << op->axis;
    for (int i = 0; i < op->operands.count; i++)
        split->depends[result->id] |= split->depends[op->operands.items[i]->id];
}

/* ---- accesses ---- */

/* form = ctx.block.axis * step + rest for the one axis that it mentions; false where it is anything else. */
static bool split_linear(Split *split, const Dim *form, int *axis, const Dim **step, const Dim **rest) {
    DimPool *dims = split->context->dims;
    const Dim *block = NULL;
    for (int a = 0; a < 3; a++) {
        const Dim *name = form_name(split, block_names[a]);
        if (dim_mentions(form, form_name(split, grid_names[a])->name) || (block && dim_mentions(form, name->name)))
            return false;
        if (dim_mentions(form, name->name)) {
            block = name;
            *axis = a;
        }
    }
    if (!block)
        return false;
    const Dim *at_one = form_replace(split, form, block, dim_int(dims, 1));
    *rest = form_replace(split, form, block, dim_int(dims, 0));
    *step = at_one && *rest ? dim_op(dims, PHB_EXPR_SUB, at_one, *rest) : NULL;
    const Dim *product = *step && !dim_mentions(*step, block->name) ? dim_op(dims, PHB_EXPR_MUL, block, *step) : NULL;
    return product && dim_op(dims, PHB_EXPR_ADD, product, *rest) == form;
}

static AxisAccess classify(Split *split, const IrValue *offset, const Dim *extent) {
    AxisAccess access = {.kind = ACCESS_WHOLE, .axis = -1, .offset = split->forms[offset->id], .extent = extent};
    if (!split->depends[offset->id])
        return access;
    const Dim *rest;
    access.kind = ACCESS_OTHER;
    if (!split_linear(split, access.offset, &access.axis, &access.step, &rest) || !form_within(split, dim_int(split->context->dims, 0), access.step))
        return access;
    if (extent ? extent == access.step && rest == dim_int(split->context->dims, 0) : form_within(split, rest, access.step))
        access.kind = ACCESS_GRID;
    else if (!extent || extent == access.step)
        access.kind = ACCESS_SHIFTED;
    return access;
}

static void record_access(Split *split, const IrOp *op) {
    Access access = {.op = op, .param = op->operands.items[0]->index};
    int rank = op->operands.items[0]->type->rank;
    for (int k = 0; k < rank; k++)
        access.axes[k] = classify(split, op->operands.items[1 + k], op->extent[k]);
    vec_push(split->context->arena, &split->accesses, access);
}

static int number_block(IrBlock *block, int next) {
    for (int i = 0; i < block->args.count; i++)
        block->args.items[i]->id = next++;
    for (IrOp *op = block->first; op; op = op->next) {
        for (int i = 0; i < op->results.count; i++)
            op->results.items[i]->id = next++;
        for (int i = 0; i < op->regions.count; i++)
            next = number_block(op->regions.items[i], next);
    }
    return next;
}

int values_number(IrBlock *body) {
    return number_block(body, 0);
}

void affine_analyse(Split *split) {
    Context *context = split->context;
    IrBlock *body = split->kernel->body;
    split->value_count = values_number(body);
    split->forms = NEW_ARRAY(context->arena, const Dim *, split->value_count + 1);
    split->opaque = NEW_ARRAY(context->arena, bool, split->value_count + 1);
    split->depends = NEW_ARRAY(context->arena, unsigned, split->value_count + 1);
    for (int i = 0; i < body->args.count; i++) {
        const IrValue *arg = body->args.items[i];
        split->opaque[arg->id] = true;
        if (arg->type->kind == TYPE_SCALAR && arg->type->scalar == PHB_I64)
            split->forms[arg->id] = form_name(split, arena_printf(context->arena, "%%%d", arg->id));
    }
    for (const IrOp *op = body->first; op; op = op->next) {
        if (op->kind == OP_LOAD || op->kind == OP_STORE)
            record_access(split, op);
        for (int i = 0; i < op->results.count; i++)
            analyse_result(split, op, op->results.items[i]);
    }
}
