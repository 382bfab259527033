/* What i64 values and slice offsets are, as polynomials over ctx.block, dims and positions; which kind each axis of an access is. */
#include "compiler/lower/split.h"

#include <string.h>

const char *const block_names[3] = {"ctx.block.x", "ctx.block.y", "ctx.block.z"};
const char *const grid_names[3] = {"ctx.grid.x", "ctx.grid.y", "ctx.grid.z"};
const char *const thread_cluster_names[3] = {"ctx.cluster.x", "ctx.cluster.y", "ctx.cluster.z"};
const char *const super_names[3] = {"ctx.super.x", "ctx.super.y", "ctx.super.z"};
const char *const supers_names[3] = {"ctx.supers.x", "ctx.supers.y", "ctx.supers.z"};

enum { PROOF_MAX_ASSIGNMENTS = 4096, PROOF_MAX_NAMES = 4 };

/* ---- forms ---- */

const Dim *form_name(Split *split, const char *name) {
    return dim_name(split->context->dims, intern_cstr(split->context->interner, name));
}

static const Dim *form_position(Split *split, const char *what, const char *tensor, int axis) {
    return form_name(split, arena_printf(split->context->arena, "%s(%s, %d)", what, tensor, axis));
}

const Dim *form_origin(Split *split, int param, int axis) {
    const Dim **form = &split->origins[param * PHB_MAX_RANK + axis];
    if (!*form)
        *form = form_position(split, "origin", split->kernel->signature.params.items[param].name, axis);
    return *form;
}

const Dim *form_whole(Split *split, int param, int axis) {
    return form_position(split, "whole", split->kernel->signature.params.items[param].name, axis);
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

/* A cluster loop's variable has a name that no source name can be. */
const Dim *axis_form(Split *split, int axis) {
    const Dim **form = &split->axis_forms[axis];
    if (!*form)
        *form = form_name(split, axis < FIRST_LOOP ? block_names[axis] : arena_printf(split->context->arena, "loop.%d", axis - FIRST_LOOP));
    return *form;
}

bool form_mentions_extent(const Dim *form, const char *tensor, int axis) {
    if (form->kind == PHB_EXPR_EXTENT)
        return form->name == tensor && form->value == axis;
    return (form->a && form_mentions_extent(form->a, tensor, axis)) || (form->b && form_mentions_extent(form->b, tensor, axis));
}

/* The declared extent that the name "whole(T, k)" stands for, or NULL. */
static const Dim *whole_declared(Split *split, const char *name) {
    const Signature *signature = &split->kernel->signature;
    for (int i = 0; strncmp(name, "whole(", sizeof "whole(" - 1) == 0 && i < signature->params.count; i++)
        for (int k = 0; k < signature->params.items[i].type->rank; k++)
            if (form_whole(split, i, k)->name == name)
                return signature->params.items[i].type->dims[k];
    return NULL;
}

const Dim *form_declared(Split *split, const Dim *form) {
    const Signature *signature = &split->kernel->signature;
    if (form->kind == PHB_EXPR_EXTENT) {
        int param = signature_param(signature, form->name);
        return param < 0 ? form : signature->params.items[param].type->dims[form->value];
    }
    if (form->kind == PHB_EXPR_DIM) {
        const Dim *declared = whole_declared(split, form->name);
        return declared ? declared : form;
    }
    if (!form->a)
        return form;
    const Dim *a = form_declared(split, form->a);
    const Dim *b = form->b ? form_declared(split, form->b) : NULL;
    const Dim *result = a && (b || !form->b) ? dim_op(split->context->dims, form->kind, a, b) : NULL;
    return result ? result : form;
}

/* 0 <= rest < step in every assignment; step NULL: there is no upper end. */
static bool number_within(Split *split, const Dim *rest, const Dim *step) {
    Context *context = split->context;
    const Signature *signature = &split->kernel->signature;
    int64_t low, high = INT64_MAX;
    if (step && step->kind == PHB_EXPR_DIM && rest == dim_int(context->dims, 0))
        return true; /* every dim is positive, a symbolic one too */
    Assignment assignment = assignment_first(context, signature);
    for (int i = 0; i < signature->search.count; i++) {
        const char *name = signature->search.items[i].name;
        assignment.varies[i] = dim_mentions(rest, name) || (step && dim_mentions(step, name));
    }
    int tried = 0;
    do {
        if (++tried > PROOF_MAX_ASSIGNMENTS || !dim_evaluate(context, signature, rest, assignment.values, &low) ||
            (step && !dim_evaluate(context, signature, step, assignment.values, &high)) || low < 0 || low >= high)
            return false;
    } while (assignment_next(&assignment));
    return true;
}

/* form = name * slope + rest, where slope and rest do not mention the name. */
static bool is_linear(Split *split, const Dim *form, const Dim *name, const Dim **slope, const Dim **rest) {
    DimPool *dims = split->context->dims;
    const Dim *at_one = form_replace(split, form, name, dim_int(dims, 1));
    *rest = form_replace(split, form, name, dim_int(dims, 0));
    *slope = at_one && *rest ? dim_op(dims, PHB_EXPR_SUB, at_one, *rest) : NULL;
    const Dim *product = *slope && !dim_mentions(*slope, name->name) ? dim_op(dims, PHB_EXPR_MUL, name, *slope) : NULL;
    return product && dim_op(dims, PHB_EXPR_ADD, product, *rest) == form;
}

/* What is linear in a name is least and greatest at the ends of its range. */
static bool within(Split *split, const Dim *rest, const Dim *step, int names_left) {
    for (int i = split->ranges.count - 1; i >= 0; i--) {
        const NameRange *range = &split->ranges.items[i];
        if (!range->low || !dim_mentions(rest, range->name))
            continue;
        const Dim *name = dim_name(split->context->dims, range->name), *slope, *constant;
        if (names_left == 0 || (step && dim_mentions(step, range->name)) || !is_linear(split, rest, name, &slope, &constant))
            return false;
        const Dim *low = form_replace(split, rest, name, range->low), *high = form_replace(split, rest, name, range->high);
        return low && high && within(split, low, step, names_left - 1) && within(split, high, step, names_left - 1);
    }
    return number_within(split, rest, step);
}

bool form_within(Split *split, const Dim *rest, const Dim *step) {
    return within(split, rest, step, PROOF_MAX_NAMES);
}

/* With the names' ranges at either end first: what is left of symbolic dims grows with them, or is not proved. */
static bool not_negative(Split *split, const Dim *form, int names_left) {
    for (int i = split->ranges.count - 1; i >= 0; i--) {
        const NameRange *range = &split->ranges.items[i];
        if (!range->low || !dim_mentions(form, range->name))
            continue;
        const Dim *name = dim_name(split->context->dims, range->name), *slope, *constant;
        if (names_left == 0 || !is_linear(split, form, name, &slope, &constant))
            return false;
        const Dim *low = form_replace(split, form, name, range->low), *high = form_replace(split, form, name, range->high);
        return low && high && not_negative(split, low, names_left - 1) && not_negative(split, high, names_left - 1);
    }
    const Signature *signature = &split->kernel->signature;
    for (int i = 0; form && i < signature->symbolic.count; i++) {
        const Dim *name = dim_name(split->context->dims, signature->symbolic.items[i]), *slope, *constant;
        int64_t rise;
        if (!dim_mentions(form, name->name))
            continue;
        if (!is_linear(split, form, name, &slope, &constant) || !dim_is_int(slope, &rise) || rise < 0)
            return false;
        form = form_replace(split, form, name, dim_int(split->context->dims, 1));
    }
    return form && number_within(split, form, NULL);
}

bool form_not_negative(Split *split, const Dim *form) {
    return not_negative(split, form, PROOF_MAX_NAMES);
}

/* ---- names for values ---- */

void form_range(Split *split, const Dim *name, const Dim *low, const Dim *high, bool per_element) {
    for (int i = 0; i < split->ranges.count; i++)
        if (split->ranges.items[i].name == name->name)
            return;
    NameRange range = {name->name, low && high ? low : NULL, high, per_element};
    vec_push(split->context->arena, &split->ranges, range);
}

static const Dim *value_name(Split *split, const IrValue *value) {
    const Dim *name = form_name(split, arena_printf(split->context->arena, "%%%d", value->id));
    if (value->type->rank > 0)
        form_range(split, name, NULL, NULL, true);
    return name;
}

/* The form of a tile whose elements change places: what stands for another number in each element gets another name. */
static const Dim *moved_form(Split *split, const Dim *form, const IrValue *value) {
    int count = split->ranges.count;
    for (int i = 0; form && i < count; i++) {
        NameRange range = split->ranges.items[i];
        if (!range.per_element || !dim_mentions(form, range.name))
            continue;
        const Dim *name = form_name(split, arena_printf(split->context->arena, "%s.%d", range.name, value->id));
        form_range(split, name, range.low, range.high, true);
        form = form_replace(split, form, dim_name(split->context->dims, range.name), name);
    }
    return form;
}

static const Dim *iota_form(Split *split, const IrValue *value) {
    DimPool *dims = split->context->dims;
    const Dim *name = form_name(split, arena_printf(split->context->arena, "%%%d", value->id));
    form_range(split, name, dim_int(dims, 0), dim_op(dims, PHB_EXPR_SUB, value->type->dims[0], dim_int(dims, 1)), true);
    return name;
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
    case OP_CLUSTER:
        return form_name(split, thread_cluster_names[op->axis]);
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

static bool is_i64(const IrValue *value) {
    return value->type->scalar == PHB_I64 && value->type->kind != TYPE_TENSOR;
}

/* Each thread has its own number, in a range that the launch says. */
static const Dim *thread_form(Split *split, const IrOp *op) {
    DimPool *dims = split->context->dims;
    int64_t threads = split->kernel->signature.launch_threads;
    const Dim *name = form_name(split, arena_printf(split->context->arena, "%%%d", op->results.items[0]->id));
    if (threads > 0)
        form_range(split, name, dim_int(dims, 0), dim_int(dims, op->kind == OP_LANE ? 31 : op->kind == OP_WARP ? (threads - 1) / 32 : threads - 1), false);
    return name;
}

/* Of 32-bit values there are forms of positions in a tile alone, which are too small to wrap. */
static const Dim *result_form(Split *split, const IrOp *op, const IrValue *result) {
    const IrValue *operand = op->operands.count > 0 ? op->operands.items[0] : NULL;
    switch (op->kind) {
    case OP_IOTA:
        return iota_form(split, result);
    case OP_THREAD:
    case OP_WARP:
    case OP_LANE:
        return thread_form(split, op);
    case OP_BROADCAST:
    case OP_RESHAPE:
    case OP_TRANSPOSE:
        return moved_form(split, split->forms[operand->id], result);
    case OP_CONVERT:
        return is_i64(result) && operand->type->scalar == PHB_I32 ? split->forms[operand->id] : NULL;
    case OP_MIN:
    case OP_MAX:
        return is_i64(result) ? clamp_form(split, op) : NULL;
    default:
        return is_i64(result) ? op_form(split, op) : NULL;
    }
}

static void set_depends(Split *split, const IrValue *value, unsigned depends) {
    split->changed |= (split->depends[value->id] | depends) != split->depends[value->id];
    split->depends[value->id] |= depends;
}

static void analyse_result(Split *split, const IrOp *op, const IrValue *result) {
    const Dim *form = result_form(split, op, result);
    split->opaque[result->id] = !form;
    split->forms[result->id] = form || !is_i64(result) ? form : value_name(split, result);
    if (op_info[op->kind].attr == ATTR_SLICE)
        return; /* what a tensor holds is the same in both readings, wherever it was found */
    bool is_position = op->kind == OP_BLOCK || op->kind == OP_GRID || op->kind == OP_CLUSTER;
    unsigned depends = is_position ? 1u << op->axis : op->kind == OP_CLUSTER_RANK || op->kind == OP_CLUSTER_MASK ? 7 : 0;
    for (int i = 0; i < op->operands.count; i++)
        depends |= split->depends[op->operands.items[i]->id];
    set_depends(split, result, depends);
}

/* ---- control flow ---- */

/* A value that regions pass on: any of several. */
static void analyse_passed(Split *split, const IrValue *value, unsigned depends) {
    split->opaque[value->id] = true;
    split->forms[value->id] = is_i64(value) ? value_name(split, value) : NULL;
    set_depends(split, value, depends);
}

static bool is_positive(const Dim *form) {
    int64_t value;
    return dim_is_int(form, &value) ? value > 0 : form->kind == PHB_EXPR_DIM && form->name[0] != '%' && !strpbrk(form->name, ".(");
}

/* An expression over integers and the kernel's dims. */
static bool is_declared(const Dim *form) {
    if (form->kind == PHB_EXPR_DIM)
        return form->name[0] != '%' && !strpbrk(form->name, ".(");
    return form->kind != PHB_EXPR_EXTENT && (!form->a || is_declared(form->a)) && (!form->b || is_declared(form->b));
}

bool is_cluster_loop(Split *split, const IrOp *op) {
    if (op->kind != OP_FOR || !split->kernel->signature.has_cluster)
        return false;
    const Dim *forms[3];
    for (int i = 0; i < 3; i++)
        forms[i] = split->forms[op->operands.items[i]->id];
    const SearchDim *dim = forms[2]->kind == PHB_EXPR_DIM ? signature_search(&split->kernel->signature, forms[2]->name) : NULL;
    if (!dim || dim->cluster.count == 0 || forms[0] != dim_int(split->context->dims, 0))
        return false;
    const Dim *extent = form_declared(split, forms[1]);
    for (int i = 0; i < split->leaf_loops.count; i++)
        if (split->leaf_loops.items[i].step == forms[2] && split->leaf_loops.items[i].extent == extent)
            return false;
    return is_declared(extent);
}

/* Loops that differ in step or bound are different axes. */
int loop_axis(Split *split, const IrOp *op) {
    if (!is_cluster_loop(split, op))
        return -1;
    const Dim *extent = form_declared(split, split->forms[op->operands.items[1]->id]), *step = split->forms[op->operands.items[2]->id];
    for (int axis = FIRST_LOOP; axis < MAX_AXES; axis++) {
        SplitAxis *loop = &split->axes[axis];
        if (!loop->loop)
            *loop = (SplitAxis){.step = step, .extent = extent, .split = true, .loop = op};
        if (loop->step == step && loop->extent == extent)
            return axis;
    }
    return -1;
}

static void analyse_index(Split *split, const IrOp *loop) {
    DimPool *dims = split->context->dims;
    const IrValue *index = loop->regions.items[0]->args.items[0];
    const Dim *start = split->forms[loop->operands.items[0]->id], *end = form_declared(split, split->forms[loop->operands.items[1]->id]);
    int axis = loop_axis(split, loop);
    if (axis >= 0) {
        split->forms[index->id] = axis_form(split, axis);
        set_depends(split, index, 1u << axis);
        return;
    }
    analyse_passed(split, index, 0);
    if (is_positive(split->forms[loop->operands.items[2]->id]))
        form_range(split, split->forms[index->id], start, dim_op(dims, PHB_EXPR_SUB, end, dim_int(dims, 1)), false);
}

static void analyse_block(Split *split, const IrBlock *block);

static void analyse_regions(Split *split, const IrOp *op) {
    int first = ir_first_carried(op), index = op->kind == OP_FOR;
    unsigned control = 0;
    for (int i = 0; i < (op->kind == OP_IF ? 1 : first); i++)
        control |= split->depends[op->operands.items[i]->id];
    if (op->kind == OP_WHILE)
        control = split->depends[op->regions.items[0]->last->operands.items[0]->id];
    if (index)
        analyse_index(split, op);
    for (int i = 0; i < op->results.count; i++) {
        unsigned depends = control | (op->kind == OP_IF ? 0 : split->depends[op->operands.items[first + i]->id]);
        for (int r = 0; r < op->regions.count; r++)
            if (op->regions.items[r]->last->kind == OP_YIELD)
                depends |= split->depends[op->regions.items[r]->last->operands.items[i]->id];
        for (int r = 0; r < op->regions.count && op->kind != OP_IF; r++)
            analyse_passed(split, op->regions.items[r]->args.items[index + i], depends);
        analyse_passed(split, op->results.items[i], depends);
    }
    for (int r = 0; r < op->regions.count; r++)
        analyse_block(split, op->regions.items[r]);
}

static void analyse_block(Split *split, const IrBlock *block) {
    for (const IrOp *op = block->first; op; op = op->next) {
        if (op->regions.count > 0)
            analyse_regions(split, op);
        else
            for (int i = 0; i < op->results.count; i++)
                analyse_result(split, op, op->results.items[i]);
    }
}

/* ---- accesses ---- */

bool split_linear(Split *split, const Dim *form, int *axis, const Dim **step, const Dim **rest) {
    const Dim *own = NULL;
    for (int a = 0; a < MAX_AXES; a++) {
        const Dim *name = axis_form(split, a);
        if (a < FIRST_LOOP && dim_mentions(form, form_name(split, grid_names[a])->name))
            return false;
        if (!dim_mentions(form, name->name))
            continue;
        if (own)
            return false;
        own = name;
        *axis = a;
    }
    if (!own || !is_linear(split, form, own, step, rest))
        return false;
    if (*axis < FIRST_LOOP)
        return true;
    bool moves_with = *step == dim_int(split->context->dims, 1);
    *step = split->axes[*axis].step;
    return moves_with;
}

/* From `rest` beyond the own offset, `extent` elements: no more than `width` beyond either end of the own tile. */
static bool is_in_halo(Split *split, const Dim *rest, const Dim *extent, const Dim *step, const Dim *width) {
    DimPool *dims = split->context->dims;
    const Dim *before = dim_op(dims, PHB_EXPR_ADD, rest, width), *end = dim_op(dims, PHB_EXPR_ADD, rest, extent ? extent : dim_int(dims, 1));
    const Dim *limit = dim_op(dims, PHB_EXPR_ADD, step, width), *after = end && limit ? dim_op(dims, PHB_EXPR_SUB, limit, end) : NULL;
    return before && after && form_not_negative(split, before) && form_not_negative(split, after);
}

const Dim *form_greatest(Split *split, const Dim *form) {
    for (int i = split->ranges.count - 1; form && i >= 0; i--) {
        const NameRange *range = &split->ranges.items[i];
        if (!dim_mentions(form, range->name))
            continue;
        const Dim *name = dim_name(split->context->dims, range->name), *slope, *constant;
        int64_t rise;
        if (!range->low || !is_linear(split, form, name, &slope, &constant) || !dim_is_int(slope, &rise))
            return NULL;
        form = form_replace(split, form, name, rise < 0 ? range->low : range->high);
    }
    return form && is_declared(form) ? form : NULL;
}

const Dim *halo_needed(Split *split, const AxisAccess *access) {
    DimPool *dims = split->context->dims;
    const Dim *step, *rest;
    int axis;
    if (!split_linear(split, access->offset, &axis, &step, &rest))
        return NULL;
    const Dim *end = dim_op(dims, PHB_EXPR_ADD, rest, access->extent ? access->extent : dim_int(dims, 1));
    const Dim *before = dim_op(dims, PHB_EXPR_SUB, dim_int(dims, 0), rest), *after = end ? dim_op(dims, PHB_EXPR_SUB, end, step) : NULL;
    before = before ? form_greatest(split, before) : NULL;
    after = after ? form_greatest(split, after) : NULL;
    if (!before || !after)
        return NULL;
    const Dim *widths[2] = {before, after};
    for (int i = 0; i < 2; i++) {
        const Dim *more = dim_op(dims, PHB_EXPR_SUB, widths[i], widths[!i]);
        if (more && form_not_negative(split, more) && form_not_negative(split, widths[i]))
            return widths[i];
    }
    return NULL;
}

/* `halo` NULL: none, or the access is a store. */
static AxisAccess classify(Split *split, const IrValue *offset, const Dim *extent, const Dim *halo) {
    AxisAccess access = {.kind = ACCESS_WHOLE, .axis = -1, .offset = split->forms[offset->id], .extent = extent};
    if (!split->depends[offset->id])
        return access;
    const Dim *rest;
    access.kind = ACCESS_OTHER;
    if (!split_linear(split, access.offset, &access.axis, &access.step, &rest) || !form_within(split, dim_int(split->context->dims, 0), access.step))
        return access;
    if (extent ? extent == access.step && rest == dim_int(split->context->dims, 0) : form_within(split, rest, access.step))
        access.kind = ACCESS_OWN;
    else if (halo && is_in_halo(split, rest, extent, access.step, halo))
        access.kind = ACCESS_HALO;
    else if (!extent || extent == access.step)
        access.kind = ACCESS_SHIFTED;
    return access;
}

const IrOp *loop_around(Split *split, const IrOp *op) {
    const IrOp *owner = op->parent->owner;
    while (owner && loop_axis(split, owner) < 0)
        owner = owner->parent->owner;
    return owner;
}

static void record_access(Split *split, const IrOp *op) {
    Access access = {.op = op, .param = op->operands.items[0]->index};
    int rank = op->operands.items[0]->type->rank;
    for (int k = 0; k < rank; k++)
        access.axes[k] =
            classify(split, op->operands.items[1 + k], op->extent[k], op->kind == OP_LOAD ? split->halo[access.param * PHB_MAX_RANK + k] : NULL);
    vec_push(split->context->arena, &split->accesses, access);
}

static void record_accesses(Split *split, const IrBlock *block) {
    for (const IrOp *op = block->first; op; op = op->next) {
        if (ir_is_tensor_access(op))
            record_access(split, op);
        for (int i = 0; i < op->regions.count; i++)
            record_accesses(split, op->regions.items[i]);
    }
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
    split->ranges.count = split->accesses.count = 0;
    memset(split->axes, 0, sizeof split->axes);
    split->forms = NEW_ARRAY(context->arena, const Dim *, split->value_count + 1);
    split->opaque = NEW_ARRAY(context->arena, bool, split->value_count + 1);
    split->clamped = NEW_ARRAY(context->arena, const Dim *, split->value_count + 1);
    split->depends = NEW_ARRAY(context->arena, unsigned, split->value_count + 1);
    for (int i = 0; i < body->args.count; i++) {
        const IrValue *arg = body->args.items[i];
        split->opaque[arg->id] = true;
        if (arg->type->kind == TYPE_SCALAR && arg->type->scalar == PHB_I64)
            split->forms[arg->id] = form_name(split, arena_printf(context->arena, "%%%d", arg->id));
    }
    do {
        split->changed = false;
        analyse_block(split, body);
    } while (split->changed);
    record_accesses(split, body);
}

static bool indexes_tensor(const Split *split, int axis) {
    for (int i = 0; i < split->accesses.count; i++) {
        const IrOp *op = split->accesses.items[i].op;
        for (int k = 0; k < op->operands.items[0]->type->rank; k++)
            if (split->depends[op->operands.items[1 + k]->id] & 1u << axis)
                return true;
    }
    return false;
}

bool loops_settle(Split *split) {
    int known = split->leaf_loops.count;
    for (int axis = FIRST_LOOP; axis < MAX_AXES && split->axes[axis].loop; axis++) {
        LoopForm form = {split->axes[axis].step, split->axes[axis].extent};
        if (!indexes_tensor(split, axis))
            vec_push(split->context->arena, &split->leaf_loops, form);
    }
    return split->leaf_loops.count > known;
}
