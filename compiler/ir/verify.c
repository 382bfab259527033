/* What every module holds to between passes. The first broken rule is told as one sentence that shows the op as it prints. */
#include "compiler/ir/ir.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

typedef struct Verifier {
    Context *context;
    const Signature *signature;
    const IrBlock *body;
    IrValue **defined; /* by id: values whose definition has been passed */
    int value_count;
    const IrOp *op;      /* at hand; NULL in the signature */
    const char *message; /* the first broken rule */
} Verifier;

/* Where a dim expression may look. */
typedef enum DimScope {
    SCOPE_STATIC, /* search dims */
    SCOPE_SHAPE,  /* and symbolic dims */
    SCOPE_LEAF,   /* and extents of tensors */
} DimScope;

static bool broken(Verifier *v, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Always gives false, so that a failing check ends with `return broken(...)`. */
static bool broken(Verifier *v, const char *format, ...) {
    Buffer text = {0};
    buffer_puts(&text, "'");
    if (v->op)
        ir_print_op(&text, v->op);
    else
        buffer_printf(&text, "kernel %s", v->signature->name);
    buffer_puts(&text, "': ");
    char why[512];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    buffer_puts(&text, why);
    v->message = arena_strndup(v->context->arena, text.data, text.length);
    buffer_free(&text);
    return false;
}

/* Types and dims as they print, for messages; in the arena. */
static const char *type_text(Verifier *v, const Type *type) {
    Buffer text = {0};
    type_print(&text, type);
    const char *copy = arena_strndup(v->context->arena, text.data, text.length);
    buffer_free(&text);
    return copy;
}

static const char *dim_text(Verifier *v, const Dim *dim) {
    Buffer text = {0};
    dim_print(&text, dim);
    const char *copy = arena_strndup(v->context->arena, text.data, text.length);
    buffer_free(&text);
    return copy;
}

/* ---- dims, types, shapes ---- */

static bool is_symbolic(const Signature *signature, const char *name) {
    for (int i = 0; i < signature->symbolic.count; i++)
        if (signature->symbolic.items[i] == name)
            return true;
    return false;
}

static bool check_dim(Verifier *v, const Dim *dim, DimScope scope) {
    if (dim->kind == PHB_EXPR_DIM) {
        bool symbolic = is_symbolic(v->signature, dim->name);
        if (!symbolic && !signature_search(v->signature, dim->name))
            return broken(v, "'%s' is no dim of the kernel", dim->name);
        if (symbolic && scope == SCOPE_STATIC)
            return broken(v, "'%s' is not a search dim, and the extents of a tile are static", dim->name);
        return true;
    }
    if (dim->kind == PHB_EXPR_EXTENT) {
        int param = signature_param(v->signature, dim->name);
        if (scope != SCOPE_LEAF)
            return broken(v, "'%s' cannot stand here", dim_text(v, dim));
        if (param < 0 || v->signature->params.items[param].type->kind != TYPE_TENSOR)
            return broken(v, "'%s' is no tensor of the kernel", dim->name);
        int rank = v->signature->params.items[param].type->rank;
        if (dim->value < 0 || dim->value >= rank)
            return broken(v, "'%s' has %d axes, counted from 0, and no axis %" PRId64, dim->name, rank, dim->value);
        return true;
    }
    return (!dim->a || check_dim(v, dim->a, scope)) && (!dim->b || check_dim(v, dim->b, scope));
}

static bool check_extent(Verifier *v, const Dim *dim, DimScope scope) {
    int64_t value;
    if (dim_is_int(dim, &value) && value <= 0)
        return broken(v, "an extent is at least 1, found %" PRId64, value);
    return check_dim(v, dim, scope);
}

/* Scalars and tiles: what ops compute on. */
static bool check_value_type(Verifier *v, const Type *type) {
    if (type->kind == TYPE_SCALAR)
        return true;
    if (type->kind != TYPE_TILE || type->rank < 1 || type->rank > 2)
        return broken(v, "expected a scalar or a tile of rank 1 or 2, found '%s'", type_text(v, type));
    for (int i = 0; i < type->rank; i++)
        if (!check_extent(v, type->dims[i], SCOPE_STATIC))
            return false;
    return true;
}

static bool same_extent(Verifier *v, const Dim *a, const Dim *b) {
    return signature_dims_equal(v->signature, v->context->dims, a, b);
}

static bool same_shape(Verifier *v, const Type *a, const Type *b) {
    if (a->kind != b->kind || a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (!same_extent(v, a->dims[i], b->dims[i]))
            return false;
    return true;
}

static bool same_type(Verifier *v, const Type *a, const Type *b) {
    return a == b || (a->scalar == b->scalar && same_shape(v, a, b));
}

static bool is_one(Verifier *v, const Dim *dim) {
    return same_extent(v, dim, dim_int(v->context->dims, 1));
}

/* ---- the signature ---- */

static bool is_identifier(const char *name) {
    if (!name || !(isalpha((unsigned char)*name) || *name == '_'))
        return false;
    while (isalnum((unsigned char)*name) || *name == '_')
        name++;
    return *name == '\0';
}

static bool check_dim_names(Verifier *v) {
    const Signature *signature = v->signature;
    int symbolic = signature->symbolic.count, count = symbolic + signature->search.count;
    if (count > PHB_MAX_DIMS)
        return broken(v, "%d dims, at most %d are supported", count, PHB_MAX_DIMS);
    for (int i = 0; i < count; i++) {
        const char *name = i < symbolic ? signature->symbolic.items[i] : signature->search.items[i - symbolic].name;
        if (!is_identifier(name))
            return broken(v, "'%s' cannot name a dim", name);
        for (int j = 0; j < i; j++)
            if (name == (j < symbolic ? signature->symbolic.items[j] : signature->search.items[j - symbolic].name))
                return broken(v, "dim '%s' is declared twice", name);
    }
    return true;
}

static bool check_search(Verifier *v, const SearchDim *search) {
    if (search->leaf.count == 0)
        return broken(v, "search dim '%s' has no leaf value", search->name);
    if (search->cluster.count > 0 && !v->signature->has_cluster)
        return broken(v, "search dim '%s' has cluster values in a kernel without 'cluster'", search->name);
    for (int i = 0; i < search->leaf.count; i++)
        if (search->leaf.items[i] <= 0)
            return broken(v, "a value of search dim '%s' is %" PRId64 ", expected at least 1", search->name, search->leaf.items[i]);
    for (int i = 0; i < search->cluster.count; i++)
        if (search->cluster.items[i] <= 0)
            return broken(v, "a value of search dim '%s' is %" PRId64 ", expected at least 1", search->name, search->cluster.items[i]);
    return true;
}

static bool check_params(Verifier *v) {
    const Signature *signature = v->signature;
    int tensors = 0, scalars = 0;
    for (int i = 0; i < signature->params.count; i++) {
        const Param *param = &signature->params.items[i];
        if (!is_identifier(param->name))
            return broken(v, "'%s' cannot name a parameter", param->name);
        if (signature_param(signature, param->name) != i)
            return broken(v, "parameter '%s' is declared twice", param->name);
        bool is_tensor = param->type->kind == TYPE_TENSOR && param->type->rank >= 1 && param->type->rank <= PHB_MAX_RANK;
        if (!is_tensor && param->type->kind != TYPE_SCALAR)
            return broken(v, "parameter '%s' is a '%s', expected a tensor or a scalar", param->name, type_text(v, param->type));
        for (int axis = 0; axis < param->type->rank; axis++)
            if (!check_extent(v, param->type->dims[axis], SCOPE_SHAPE))
                return false;
        *(is_tensor ? &tensors : &scalars) += 1;
    }
    if (tensors > PHB_MAX_PARAMS || scalars > PHB_MAX_PARAMS)
        return broken(v, "more than %d tensors or scalars", PHB_MAX_PARAMS);
    return true;
}

static bool check_signature(Verifier *v) {
    const Signature *signature = v->signature;
    if (!is_identifier(signature->name))
        return broken(v, "'%s' cannot name a kernel", signature->name);
    if (!check_dim_names(v) || !check_params(v))
        return false;
    for (int i = 0; i < signature->search.count; i++)
        if (!check_search(v, &signature->search.items[i]))
            return false;
    for (int axis = 0; axis < 3; axis++) {
        const GridAxis *grid = &signature->grid[axis];
        if (grid->spans.count != grid->counts.count)
            return broken(v, "grid %c has %d counts and %d positions", "xyz"[axis], grid -> counts.count, grid->spans.count);
        for (int i = 0; i < grid->counts.count; i++)
            if (!check_extent(v, grid->counts.items[i], SCOPE_LEAF))
                return false;
    }
    for (int i = 0; i < signature->aligned.count; i++) {
        const Aligned *aligned = &signature->aligned.items[i];
        if (!is_symbolic(signature, aligned->dim))
            return broken(v, "'aligned' names '%s', which is no symbolic dim", aligned->dim);
        if (!check_extent(v, aligned->tile, SCOPE_SHAPE))
            return false;
    }
    for (int i = 0; i < signature->require.count; i++)
        if (!check_dim(v, signature->require.items[i].cond, SCOPE_LEAF))
            return false;
    if (signature->launch_threads < 0 || signature->launch_min_blocks < 0 || signature->launch_max_regs < 0)
        return broken(v, "a figure of 'launch' is negative");
    return true;
}

/* ---- ops by their traits ---- */

static const Type *operand_type(const IrOp *op, int i) {
    return op->operands.items[i]->type;
}

static const Type *result_type(const IrOp *op) {
    return op->results.items[0]->type;
}

static bool check_result_i64(Verifier *v, const IrOp *op) {
    if (result_type(op)->kind != TYPE_SCALAR || result_type(op)->scalar != PHB_I64)
        return broken(v, "expected the result 'i64', found '%s'", type_text(v, result_type(op)));
    return true;
}

static bool check_one_type(Verifier *v, const Type *a, const Type *b, const char *whose) {
    if (!same_type(v, a, b))
        return broken(v, "%s are of different types, '%s' and '%s'", whose, type_text(v, a), type_text(v, b));
    return true;
}

static bool check_element_wise(Verifier *v, const IrOp *op, unsigned traits) {
    PhbDType scalar = operand_type(op, 0)->scalar;
    bool takes_bool = op->kind == OP_AND || op->kind == OP_OR || op->kind == OP_XOR || op->kind == OP_NOT || (traits & TRAIT_COMPARE);
    if (scalar == PHB_BOOL && !takes_bool)
        return broken(v, "'%s' takes no bool", op_info[op->kind].text);
    if ((traits & TRAIT_INT) && dtype_is_float(scalar))
        return broken(v, "'%s' takes integers, found '%s'", op_info[op->kind].text, type_text(v, operand_type(op, 0)));
    if (op->operands.count == 2 && !check_one_type(v, operand_type(op, 0), operand_type(op, 1), "operands"))
        return false;
    if (traits & TRAIT_SAME_TYPE)
        return check_one_type(v, operand_type(op, 0), result_type(op), "operand and result");
    if (result_type(op)->scalar != PHB_BOOL || !same_shape(v, operand_type(op, 0), result_type(op)))
        return broken(v, "expected a result of bool in the shape of the operands, found '%s'", type_text(v, result_type(op)));
    return true;
}

static bool check_const(Verifier *v, const IrOp *op) {
    const Type *type = result_type(op);
    if (type->kind != TYPE_SCALAR)
        return broken(v, "a constant is a scalar, found '%s'", type_text(v, type));
    if (op->bits != bits_from_int(type->scalar, op->bits))
        return broken(v, "the bits do not fit '%s'", type_text(v, type));
    return true;
}

static bool check_axis(Verifier *v, const IrOp *op) {
    int axes = 3;
    if (op->operands.count == 1) {
        if (operand_type(op, 0)->kind != TYPE_TENSOR)
            return broken(v, "expected a tensor, found '%s'", type_text(v, operand_type(op, 0)));
        axes = operand_type(op, 0)->rank;
    }
    if (op->axis < 0 || op->axis >= axes)
        return broken(v, "there are %d axes, counted from 0, and no axis %d", axes, op->axis);
    return check_result_i64(v, op);
}

static bool check_broadcast(Verifier *v, const IrOp *op) {
    const Type *from = operand_type(op, 0), *to = result_type(op);
    bool fits = to->kind == TYPE_TILE && from->scalar == to->scalar;
    for (int i = 1; fits && i <= from->rank; i++) {
        const Dim *extent = from->dims[from->rank - i];
        fits = is_one(v, extent) || (i <= to->rank && same_extent(v, extent, to->dims[to->rank - i]));
    }
    return fits || broken(v, "'%s' does not broadcast to '%s'", type_text(v, from), type_text(v, to));
}

/* The shape that a slice has as a value: axes of extent 1 drop, leftmost first, until two are left; a scalar where all are points. */
static bool slice_type(Verifier *v, const IrOp *op, const Type *tensor, const Type **type) {
    const Dim *dims[PHB_MAX_RANK];
    bool all_points = true;
    int left = tensor->rank, count = 0;
    for (int i = 0; i < tensor->rank; i++) {
        const Dim *extent = op->extent[i];
        all_points &= !extent;
        if (left > 2 && (!extent || is_one(v, extent)))
            left--;
        else if (count < 2)
            dims[count++] = extent ? extent : dim_int(v->context->dims, 1);
    }
    if (all_points) {
        *type = type_scalar(v->context->types, tensor->scalar);
        return true;
    }
    if (left > 2)
        return broken(v, "a slice has at most two axes that are no points, found %d", left);
    *type = type_shaped(v->context->types, TYPE_TILE, tensor->scalar, count, dims);
    return true;
}

static bool check_slice(Verifier *v, const IrOp *op) {
    bool is_store = op->kind == OP_STORE;
    const Type *tensor = op->operands.count ? operand_type(op, 0) : NULL;
    if (!tensor || tensor->kind != TYPE_TENSOR)
        return broken(v, "the first operand is no tensor");
    if (op->operands.count != 1 + tensor->rank + is_store)
        return broken(v, "the tensor has rank %d, found %d offsets", tensor->rank, op->operands.count - 1 - is_store);
    for (int i = 0; i < tensor->rank; i++) {
        const Type *offset = operand_type(op, 1 + i);
        if (offset->kind != TYPE_SCALAR || offset->scalar != PHB_I64)
            return broken(v, "an offset is an i64, found '%s'", type_text(v, offset));
        if (op->extent[i] && !check_extent(v, op->extent[i], SCOPE_STATIC))
            return false;
    }
    const Type *slice = NULL;
    if (!slice_type(v, op, tensor, &slice))
        return false;
    const Type *value = is_store ? operand_type(op, 1 + tensor->rank) : result_type(op);
    if (!same_type(v, slice, value))
        return broken(v, "the slice is a '%s', the value a '%s'", type_text(v, slice), type_text(v, value));
    return true;
}

static bool check_kind(Verifier *v, const IrOp *op) {
    const OpInfo *info = &op_info[op->kind];
    if (info->attr == ATTR_SLICE)
        return check_slice(v, op);
    if (info->attr == ATTR_AXIS)
        return check_axis(v, op);
    if (info->attr == ATTR_CONST)
        return check_const(v, op);
    if (info->attr == ATTR_DIM)
        return op->dim ? check_dim(v, op->dim, SCOPE_LEAF) && check_result_i64(v, op) : broken(v, "the dim is missing");
    for (int i = 0; i < op->operands.count; i++)
        if (!check_value_type(v, operand_type(op, i)))
            return false;
    if (info->traits & (TRAIT_SAME_TYPE | TRAIT_COMPARE))
        return check_element_wise(v, op, info->traits);
    if (op->kind == OP_CONVERT && !same_shape(v, operand_type(op, 0), result_type(op)))
        return broken(v, "operand and result differ in shape, '%s' and '%s'", type_text(v, operand_type(op, 0)), type_text(v, result_type(op)));
    if (op->kind == OP_BROADCAST)
        return check_broadcast(v, op);
    return true;
}

/* ---- structure ---- */

static bool is_defined(const Verifier *v, const IrValue *value) {
    if (!value->def)
        return value->block == v->body && value->index < v->body->args.count && v->body->args.items[value->index] == value;
    return value->id >= 0 && value->id < v->value_count && v->defined[value->id] == value;
}

static bool check_op(Verifier *v, IrOp *op) {
    const OpInfo *info = &op_info[op->kind];
    for (int i = 0; i < op->operands.count; i++)
        if (!is_defined(v, op->operands.items[i]))
            return broken(v, "operand %d is used before it is defined", i + 1);
    if (info->operands >= 0 && op->operands.count != info->operands)
        return broken(v, "expected %d operands, found %d", info->operands, op->operands.count);
    if (info->results >= 0 && op->results.count != info->results)
        return broken(v, "expected %d results, found %d", info->results, op->results.count);
    if (op->regions.count > 0)
        return broken(v, "'%s' has no regions", info->text);
    for (int i = 0; i < op->results.count; i++) {
        IrValue *result = op->results.items[i];
        if (result->def != op || result->index != i)
            return broken(v, "result %d does not know its op", i + 1);
        if (!check_value_type(v, result->type))
            return false;
    }
    if (!check_kind(v, op))
        return false;
    for (int i = 0; i < op->results.count; i++)
        v->defined[op->results.items[i]->id] = op->results.items[i];
    bool is_terminator = info->traits & TRAIT_TERMINATOR;
    if (is_terminator && op->next)
        return broken(v, "'%s' stands before the end of its block", info->text);
    if (!is_terminator && !op->next)
        return broken(v, "the block ends without 'return'");
    return true;
}

static bool check_body(Verifier *v) {
    const Signature *signature = v->signature;
    const IrBlock *body = v->body;
    if (body->args.count != signature->params.count)
        return broken(v, "%d parameters and %d arguments", signature->params.count, body->args.count);
    for (int i = 0; i < body->args.count; i++) {
        const IrValue *arg = body->args.items[i];
        const Param *param = &signature->params.items[i];
        if (arg->name != param->name || arg->type != param->type || arg->def || arg->block != body || arg->index != i)
            return broken(v, "argument %d is not parameter '%s'", i + 1, param->name);
    }
    if (!body->first)
        return broken(v, "the block ends without 'return'");
    for (IrOp *op = body->first, *before = NULL; op; before = op, op = op->next) {
        v->op = op;
        if (op->parent != body || op->prev != before)
            return broken(v, "the op is not linked into its block");
        if (!check_op(v, op))
            return false;
    }
    return true;
}

const char *ir_verify_kernel(Context *context, IrKernel *kernel, const IrOp **at) {
    Verifier v = {.context = context, .signature = &kernel->signature, .body = kernel->body};
    v.value_count = ir_number(kernel);
    v.defined = NEW_ARRAY(context->arena, IrValue *, v.value_count);
    if (check_signature(&v))
        check_body(&v);
    *at = v.op;
    return v.message;
}

const char *ir_verify(Context *context, IrModule *module) {
    for (int i = 0; i < module->kernels.count; i++) {
        const IrOp *at;
        const char *message = ir_verify_kernel(context, module->kernels.items[i], &at);
        if (message)
            return message;
        const char *name = module->kernels.items[i]->signature.name;
        for (int j = 0; j < i; j++)
            if (module->kernels.items[j]->signature.name == name)
                return arena_printf(context->arena, "'kernel %s': the name is taken by an earlier kernel", name);
    }
    return NULL;
}
