/* What every module holds to between passes. The first broken rule is told as one sentence that shows the op as it prints. */
#include "compiler/ir/verify.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

/* Always gives false, so that a failing check ends with `return verify_broken(...)`. */
bool verify_broken(Verifier *v, const char *format, ...) {
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
const char *verify_type_text(Verifier *v, const Type *type) {
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

bool verify_dim(Verifier *v, const Dim *dim, DimScope scope) {
    if (dim->kind == PHB_EXPR_DIM) {
        bool symbolic = is_symbolic(v->signature, dim->name);
        if (!symbolic && !signature_search(v->signature, dim->name))
            return verify_broken(v, "'%s' is no dim of the kernel", dim->name);
        if (symbolic && scope == SCOPE_STATIC)
            return verify_broken(v, "'%s' is not a search dim, and the extents of a tile are static", dim->name);
        return true;
    }
    if (dim->kind == PHB_EXPR_EXTENT) {
        int param = signature_param(v->signature, dim->name);
        if (scope != SCOPE_LEAF)
            return verify_broken(v, "'%s' cannot stand here", dim_text(v, dim));
        if (param < 0 || v->signature->params.items[param].type->kind != TYPE_TENSOR)
            return verify_broken(v, "'%s' is no tensor of the kernel", dim->name);
        int rank = v->signature->params.items[param].type->rank;
        if (dim->value < 0 || dim->value >= rank)
            return verify_broken(v, "'%s' has %d axes, counted from 0, and no axis %" PRId64, dim->name, rank, dim->value);
        return true;
    }
    return (!dim->a || verify_dim(v, dim->a, scope)) && (!dim->b || verify_dim(v, dim->b, scope));
}

bool verify_extent(Verifier *v, const Dim *dim, DimScope scope) {
    int64_t value;
    if (dim_is_int(dim, &value) && value <= 0)
        return verify_broken(v, "an extent is at least 1, found %" PRId64, value);
    return verify_dim(v, dim, scope);
}

/* Scalars and tiles: what ops compute on. */
bool verify_value_type(Verifier *v, const Type *type) {
    if (type->kind == TYPE_SCALAR)
        return true;
    if (type->kind != TYPE_TILE || type->rank < 1 || type->rank > 2)
        return verify_broken(v, "expected a scalar or a tile of rank 1 or 2, found '%s'", verify_type_text(v, type));
    for (int i = 0; i < type->rank; i++)
        if (!verify_extent(v, type->dims[i], SCOPE_STATIC))
            return false;
    return verify_layout(v, type);
}

bool verify_same_extent(Verifier *v, const Dim *a, const Dim *b) {
    return signature_dims_equal(v->signature, v->context->dims, a, b);
}

bool verify_same_shape(Verifier *v, const Type *a, const Type *b) {
    if (a->kind != b->kind || a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (!verify_same_extent(v, a->dims[i], b->dims[i]))
            return false;
    return true;
}

bool verify_same_type(Verifier *v, const Type *a, const Type *b) {
    return a == b || (a->scalar == b->scalar && a->layout == b->layout && verify_same_shape(v, a, b));
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
        return verify_broken(v, "%d dims, at most %d are supported", count, PHB_MAX_DIMS);
    for (int i = 0; i < count; i++) {
        const char *name = i < symbolic ? signature->symbolic.items[i] : signature->search.items[i - symbolic].name;
        if (!is_identifier(name))
            return verify_broken(v, "'%s' cannot name a dim", name);
        for (int j = 0; j < i; j++)
            if (name == (j < symbolic ? signature->symbolic.items[j] : signature->search.items[j - symbolic].name))
                return verify_broken(v, "dim '%s' is declared twice", name);
    }
    return true;
}

static bool check_search(Verifier *v, const SearchDim *search) {
    if (search->leaf.count == 0)
        return verify_broken(v, "search dim '%s' has no leaf value", search->name);
    if (search->cluster.count > 0 && !v->signature->has_cluster)
        return verify_broken(v, "search dim '%s' has cluster values in a kernel without 'cluster'", search->name);
    for (int i = 0; i < search->leaf.count; i++)
        if (search->leaf.items[i] <= 0)
            return verify_broken(v, "a value of search dim '%s' is %" PRId64 ", expected at least 1", search->name, search->leaf.items[i]);
    for (int i = 0; i < search->cluster.count; i++)
        if (search->cluster.items[i] <= 0)
            return verify_broken(v, "a value of search dim '%s' is %" PRId64 ", expected at least 1", search->name, search->cluster.items[i]);
    return true;
}

static bool check_params(Verifier *v) {
    const Signature *signature = v->signature;
    int tensors = 0, scalars = 0;
    for (int i = 0; i < signature->params.count; i++) {
        const Param *param = &signature->params.items[i];
        if (!is_identifier(param->name))
            return verify_broken(v, "'%s' cannot name a parameter", param->name);
        if (signature_param(signature, param->name) != i)
            return verify_broken(v, "parameter '%s' is declared twice", param->name);
        bool is_tensor = param->type->kind == TYPE_TENSOR && param->type->rank >= 1 && param->type->rank <= PHB_MAX_RANK;
        if (!is_tensor && param->type->kind != TYPE_SCALAR)
            return verify_broken(v, "parameter '%s' is a '%s', expected a tensor or a scalar", param->name, verify_type_text(v, param->type));
        for (int axis = 0; axis < param->type->rank; axis++)
            if (!verify_extent(v, param->type->dims[axis], SCOPE_SHAPE))
                return false;
        *(is_tensor ? &tensors : &scalars) += 1;
    }
    if (tensors > PHB_MAX_PARAMS || scalars > PHB_MAX_PARAMS)
        return verify_broken(v, "more than %d tensors or scalars", PHB_MAX_PARAMS);
    return true;
}

static bool check_signature(Verifier *v) {
    const Signature *signature = v->signature;
    if (!is_identifier(signature->name))
        return verify_broken(v, "'%s' cannot name a kernel", signature->name);
    if (!check_dim_names(v) || !check_params(v))
        return false;
    for (int i = 0; i < signature->search.count; i++)
        if (!check_search(v, &signature->search.items[i]))
            return false;
    for (int axis = 0; axis < 3; axis++) {
        const GridAxis *grid = &signature->grid[axis];
        if (grid->spans.count != grid->counts.count)
            return verify_broken(v, "grid %c has %d counts and %d positions", "xyz"[axis], grid -> counts.count, grid->spans.count);
        for (int i = 0; i < grid->counts.count; i++)
            if (!verify_extent(v, grid->counts.items[i], SCOPE_LEAF))
                return false;
    }
    for (int i = 0; i < signature->aligned.count; i++) {
        const Aligned *aligned = &signature->aligned.items[i];
        if (!is_symbolic(signature, aligned->dim))
            return verify_broken(v, "'aligned' names '%s', which is no symbolic dim", aligned->dim);
        if (!verify_extent(v, aligned->tile, SCOPE_SHAPE))
            return false;
    }
    for (int i = 0; i < signature->require.count; i++)
        if (!verify_dim(v, signature->require.items[i].cond, SCOPE_LEAF))
            return false;
    for (int i = 0; i < signature->halo.count; i++)
        for (int k = 0; k < signature->params.items[signature->halo.items[i].param].type->rank; k++)
            if (!verify_dim(v, signature->halo.items[i].width[k], SCOPE_SHAPE))
                return false;
    for (int axis = 0; axis < 3; axis++)
        if (!signature->cluster_dims[axis] != !signature->cluster_dims[0])
            return verify_broken(v, "'cluster_dims' has three extents or none");
        else if (signature->cluster_dims[axis] && !verify_extent(v, signature->cluster_dims[axis], SCOPE_STATIC))
            return false;
    if (signature->pipeline && !verify_extent(v, signature->pipeline, SCOPE_STATIC))
        return false;
    if (signature->launch_threads < 0 || signature->launch_min_blocks < 0 || signature->launch_max_regs < 0)
        return verify_broken(v, "a figure of 'launch' is negative");
    return true;
}

/* ---- structure ---- */

static bool is_defined(const Verifier *v, const IrValue *value) {
    if (!value->def && value->block == v->body)
        return value->index < v->body->args.count && v->body->args.items[value->index] == value;
    return value->id >= 0 && value->id < v->value_count && v->defined[value->id] == value;
}

static bool check_types(Verifier *v, const char *what, IrValue *const *values, int count, const Type *const *types, int type_count) {
    if (count != type_count)
        return verify_broken(v, "expected %d %s, found %d", type_count, what, count);
    for (int i = 0; i < count; i++)
        if (!verify_same_type(v, values[i]->type, types[i]))
            return verify_broken(
                v, "%s %d is a '%s', expected '%s'", what, i + 1, verify_type_text(v, values[i]->type), verify_type_text(v, types[i]));
    return true;
}

/* What a block with this owner's place among its regions ends with. */
static OpKind terminator_of(const IrBlock *block) {
    if (!block->owner)
        return OP_RETURN;
    return block->owner->kind == OP_WHILE && block == block->owner->regions.items[0] ? OP_CONDITION : OP_YIELD;
}

static bool is_scalar(const IrValue *value, PhbDType scalar) {
    return value->type->kind == TYPE_SCALAR && value->type->scalar == scalar;
}

static const Type *const *result_types(Verifier *v, const IrOp *op) {
    const Type **types = NEW_ARRAY(v->context->arena, const Type *, op->results.count + 1);
    for (int i = 0; i < op->results.count; i++)
        types[i] = op->results.items[i]->type;
    return types;
}

/* How regions end; what the ops with regions pass into them and get out. */
static bool check_terminator(Verifier *v, const IrOp *op) {
    OpKind expected = terminator_of(op->parent);
    if (op->kind != expected)
        return verify_broken(v, "the block ends with '%s', expected '%s'", op_info[op->kind].text, op_info[expected].text);
    if (op->kind == OP_CONDITION && !is_scalar(op->operands.items[0], PHB_BOOL))
        return verify_broken(v, "a condition is a bool, found '%s'", verify_type_text(v, op->operands.items[0]->type));
    const IrOp *owner = op->parent->owner;
    return op->kind != OP_YIELD || check_types(v, "yielded", op->operands.items, op->operands.count, result_types(v, owner), owner->results.count);
}

/* No values have no address that could be moved. */
static IrValue **values_from(IrValue **values, int first) {
    return first > 0 ? values + first : values;
}

static bool check_region_args(Verifier *v, const IrOp *op) {
    for (int i = 0; i < op->regions.count; i++) {
        IrBlock *region = op->regions.items[i];
        int index = op->kind == OP_FOR;
        if (op->kind == OP_FOR && (region->args.count == 0 || !is_scalar(region->args.items[0], PHB_I64)))
            return verify_broken(v, "the first argument of the body is the index, an i64");
        int carried = op->kind == OP_IF ? 0 : op->results.count;
        if (!check_types(v, "arguments", values_from(region->args.items, index), region->args.count - index, result_types(v, op), carried))
            return false;
    }
    return true;
}

static bool check_region_op(Verifier *v, const IrOp *op) {
    int first = ir_first_carried(op), fixed = op->kind == OP_IF ? 1 : first;
    for (int i = 0; i < op->operands.count; i++)
        if (!verify_value_type(v, op->operands.items[i]->type))
            return false;
    if (op->operands.count < fixed)
        return verify_broken(v, "expected at least %d operands, found %d", fixed, op->operands.count);
    for (int i = 0; i < first; i++)
        if (!is_scalar(op->operands.items[i], PHB_I64))
            return verify_broken(v, "start, end and step are i64, found '%s'", verify_type_text(v, op->operands.items[i]->type));
    if (op->kind == OP_IF && !is_scalar(op->operands.items[0], PHB_BOOL))
        return verify_broken(v, "a condition is a bool, found '%s'", verify_type_text(v, op->operands.items[0]->type));
    if (op->kind == OP_FOR && op->dim && !verify_extent(v, op->dim, SCOPE_STATIC))
        return false;
    bool carries = op->kind == OP_IF ||
                   check_types(v, "initial values", values_from(op->operands.items, first), op->operands.count - first, result_types(v, op), op->results.count);
    return carries && check_region_args(v, op);
}

static bool check_block(Verifier *v, const IrBlock *block);

static bool check_regions(Verifier *v, const IrOp *op) {
    if (op->regions.count > 0 && v->depth == IR_MAX_DEPTH)
        return verify_broken(v, "regions are nested deeper than %d", IR_MAX_DEPTH);
    v->depth++;
    for (int i = 0; i < op->regions.count; i++) {
        const IrBlock *region = op->regions.items[i];
        v->op = op;
        if (region->owner != op)
            return verify_broken(v, "region %d does not know its op", i + 1);
        for (int j = 0; j < region->args.count; j++) {
            IrValue *arg = region->args.items[j];
            if (arg->def || arg->block != region || arg->index != j || arg->name)
                return verify_broken(v, "argument %d of region %d does not know its block", j + 1, i + 1);
            if (!verify_value_type(v, arg->type))
                return false;
            v->defined[arg->id] = arg;
        }
        if (!check_block(v, region))
            return false;
        for (int j = 0; j < region->args.count; j++)
            v->defined[region->args.items[j]->id] = NULL;
    }
    v->depth--;
    v->op = op;
    return true;
}

static bool gives_memory(OpKind kind) {
    return kind == OP_SHARED || kind == OP_REMOTE || kind == OP_STAGE || kind == OP_RING || kind == OP_BULK_RING || kind == OP_SLOT ||
           kind == OP_MBARRIERS || kind == OP_MBARRIERS_OF_ALL || kind == OP_PLANES;
}

static bool check_op(Verifier *v, IrOp *op) {
    const OpInfo *info = &op_info[op->kind];
    bool is_terminator = info->traits & TRAIT_TERMINATOR;
    for (int i = 0; i < op->operands.count; i++)
        if (!is_defined(v, op->operands.items[i]))
            return verify_broken(v, "operand %d is used before it is defined", i + 1);
    if (info->operands >= 0 && op->operands.count != info->operands)
        return verify_broken(v, "expected %d operands, found %d", info->operands, op->operands.count);
    if (info->results >= 0 && op->results.count != info->results)
        return verify_broken(v, "expected %d results, found %d", info->results, op->results.count);
    if (op->regions.count > 0 && ir_region_count(op->kind) == 0)
        return verify_broken(v, "'%s' has no regions", info->text);
    if (op->regions.count != ir_region_count(op->kind))
        return verify_broken(v, "expected %d regions, found %d", ir_region_count(op->kind), op->regions.count);
    for (int i = 0; i < op->results.count; i++) {
        IrValue *result = op->results.items[i];
        if (result->def != op || result->index != i)
            return verify_broken(v, "result %d does not know its op", i + 1);
        if (!gives_memory(op->kind) && !verify_value_type(v, result->type))
            return false;
    }
    if (!is_terminator && !(info->traits & TRAIT_REGIONS) && !(verify_op(v, op) && verify_layouts(v, op)))
        return false;
    if ((info->traits & TRAIT_REGIONS) && (!check_region_op(v, op) || !check_regions(v, op)))
        return false;
    for (int i = 0; i < op->results.count; i++)
        v->defined[op->results.items[i]->id] = op->results.items[i];
    if (is_terminator && op->next)
        return verify_broken(v, "'%s' stands before the end of its block", info->text);
    if (!is_terminator && !op->next)
        return verify_broken(v, "the block ends without '%s'", op_info[terminator_of(op->parent)].text);
    return !is_terminator || check_terminator(v, op);
}

/* What the block defines is out of sight after it. */
static bool check_block(Verifier *v, const IrBlock *block) {
    if (!block->first)
        return verify_broken(v, "the block ends without '%s'", op_info[terminator_of(block)].text);
    for (IrOp *op = block->first, *before = NULL; op; before = op, op = op->next) {
        v->op = op;
        if (op->parent != block || op->prev != before)
            return verify_broken(v, "the op is not linked into its block");
        if (!check_op(v, op))
            return false;
    }
    for (const IrOp *op = block->first; op; op = op->next)
        for (int i = 0; i < op->results.count; i++)
            v->defined[op->results.items[i]->id] = NULL;
    return true;
}

static bool check_body(Verifier *v) {
    const Signature *signature = v->signature;
    const IrBlock *body = v->body;
    if (body->args.count != signature->params.count)
        return verify_broken(v, "%d parameters and %d arguments", signature->params.count, body->args.count);
    for (int i = 0; i < body->args.count; i++) {
        const IrValue *arg = body->args.items[i];
        const Param *param = &signature->params.items[i];
        if (arg->name != param->name || arg->type != param->type || arg->def || arg->block != body || arg->index != i)
            return verify_broken(v, "argument %d is not parameter '%s'", i + 1, param->name);
    }
    return check_block(v, body);
}

const char *ir_verify_kernel(Context *context, IrKernel *kernel, const IrOp **at) {
    Verifier v = {.context = context, .signature = &kernel->signature, .body = kernel->body, .threads = kernel->threads, .shared_bytes = kernel->shared_bytes};
    v.value_count = ir_number(kernel);
    v.defined = NEW_ARRAY(context->arena, IrValue *, v.value_count);
    if (check_signature(&v) && check_body(&v) && kernel->threads)
        verify_running(&v);
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
