/* Constant folding. Requires a sound kernel and leaves one: ops on constants become constants, also through broadcasts of one; operations that give
 * back an operand bit for bit, or a constant whatever the operand, go; arithmetic on dims becomes one dim, and a dim that is a number a constant, and so
 * does what the launch says of every thread.
 * Extents of tensors stay: the leaf knows them. */
#include "compiler/ir/ir.h"

typedef struct Folder {
    Context *context;
    const Signature *signature;
    IrValue **forward; /* by id: what a removed op's result has become */
    int value_count;
    bool changed;
} Folder;

static IrValue *current(const Folder *f, IrValue *value) {
    bool forwarded = value->def && value->id < f->value_count && f->forward[value->id];
    return forwarded ? f->forward[value->id] : value;
}

static void forward_to(Folder *f, IrOp *op, IrValue *value) {
    f->forward[op->results.items[0]->id] = value;
    ir_remove(op);
    f->changed = true;
}

/* ---- constants ---- */

/* A constant scalar, or one broadcast to a tile. */
static bool const_of(const IrValue *value, uint64_t *bits) {
    const IrOp *def = value->def;
    if (def && def->kind == OP_BROADCAST)
        def = def->operands.items[0]->def;
    if (!def || def->kind != OP_CONST)
        return false;
    *bits = def->bits;
    return true;
}

static void become_const(Folder *f, IrOp *op, uint64_t bits) {
    const Type *type = op->results.items[0]->type;
    f->changed = true;
    if (type->kind == TYPE_SCALAR) {
        op->kind = OP_CONST;
        op->operands.count = 0;
        op->dim = NULL;
        op->axis = 0;
        op->bits = bits;
        return;
    }
    IrValue *scalar = ir_const_bits(f->context, op->parent, op->span, type_scalar(f->context->types, type->scalar), bits);
    scalar->id = f->value_count; /* past every id that is forwarded */
    ir_insert_before(op, scalar->def);
    op->kind = OP_BROADCAST;
    op->operands.items[0] = scalar;
    op->operands.count = 1;
}

static bool fold_constants(Folder *f, IrOp *op) {
    uint64_t operands[3] = {0}, bits;
    if (op->operands.count < 1 || op->operands.count > 3 || op->results.count != 1 || op->regions.count > 0)
        return false;
    for (int i = 0; i < op->operands.count; i++)
        if (!const_of(op->operands.items[i], &operands[i]))
            return false;
    PhbDType operand = op->operands.items[0]->type->scalar, result = op->results.items[0]->type->scalar;
    if (!ir_eval(op->kind, operand, result, operands, &bits))
        return false;
    become_const(f, op, bits);
    return true;
}

/* ---- identities ---- */

typedef enum Identity {
    IDENTITY_NONE,
    IDENTITY_OPERAND, /* the result is the other operand */
    IDENTITY_CONST,   /* the result is `bits`, whatever the other operand */
} Identity;

/* The constant `c` on the right, of an integer or bool. A left one counts where the op commutes. */
static Identity int_identity(OpKind kind, PhbDType dtype, uint64_t c, uint64_t *bits) {
    uint64_t ones = bits_from_int(dtype, UINT64_MAX);
    *bits = 0;
    switch (kind) {
    case OP_ADD:
    case OP_SUB:
    case OP_XOR:
    case OP_SHL:
    case OP_SHR:
        return c == 0 ? IDENTITY_OPERAND : IDENTITY_NONE;
    case OP_MUL:
        return c == 1 ? IDENTITY_OPERAND : c == 0 ? IDENTITY_CONST : IDENTITY_NONE;
    case OP_DIV: /* x/0 is 0 */
        return c == 1 ? IDENTITY_OPERAND : c == 0 ? IDENTITY_CONST : IDENTITY_NONE;
    case OP_REM: /* x%0 is x */
        return c == 0 ? IDENTITY_OPERAND : c == 1 ? IDENTITY_CONST : IDENTITY_NONE;
    case OP_AND:
        return c == ones ? IDENTITY_OPERAND : c == 0 ? IDENTITY_CONST : IDENTITY_NONE;
    case OP_OR:
        *bits = ones;
        return c == 0 ? IDENTITY_OPERAND : c == ones ? IDENTITY_CONST : IDENTITY_NONE;
    default:
        return IDENTITY_NONE;
    }
}

/* x + 0.0 is not x where x is -0.0, but x + -0.0 and x - 0.0 are; 0.0 * x may be NaN. */
static Identity float_identity(OpKind kind, PhbDType dtype, uint64_t c) {
    uint64_t one = bits_from_double(dtype, 1.0), zero = 0, minus_zero = bits_from_double(dtype, -0.0);
    bool is_operand = (kind == OP_ADD && c == minus_zero) || (kind == OP_SUB && c == zero) || ((kind == OP_MUL || kind == OP_DIV) && c == one);
    return is_operand ? IDENTITY_OPERAND : IDENTITY_NONE;
}

/* Op of a value and itself. Floats may be NaN, so that none of these holds for them. */
static Identity self_identity(OpKind kind, uint64_t *bits) {
    switch (kind) {
    case OP_AND:
    case OP_OR:
    case OP_MIN:
    case OP_MAX:
        return IDENTITY_OPERAND;
    case OP_SUB:
    case OP_XOR:
    case OP_NE:
    case OP_LT:
        *bits = 0;
        return IDENTITY_CONST;
    case OP_EQ:
    case OP_LE:
        *bits = 1;
        return IDENTITY_CONST;
    default:
        return IDENTITY_NONE;
    }
}

static bool apply(Folder *f, IrOp *op, Identity identity, IrValue *operand, uint64_t bits) {
    if (identity == IDENTITY_CONST) {
        become_const(f, op, bits);
        return true;
    }
    if (identity == IDENTITY_NONE || operand->type != op->results.items[0]->type)
        return false;
    forward_to(f, op, operand);
    return true;
}

static bool fold_binary(Folder *f, IrOp *op) {
    IrValue *a = op->operands.items[0], *b = op->operands.items[1];
    PhbDType dtype = a->type->scalar;
    bool is_float = dtype_is_float(dtype);
    uint64_t c, bits = 0;
    if (a == b && !is_float) {
        Identity self = self_identity(op->kind, &bits);
        return apply(f, op, self, a, bits);
    }
    bool is_left = !const_of(b, &c);
    if (is_left && (!(op_info[op->kind].traits & TRAIT_COMMUTES) || !const_of(a, &c)))
        return false;
    Identity identity = is_float ? float_identity(op->kind, dtype, c) : int_identity(op->kind, dtype, c, &bits);
    return apply(f, op, identity, is_left ? b : a, bits);
}

static void fold_unary(Folder *f, IrOp *op) {
    IrValue *operand = op->operands.items[0];
    const IrOp *inner = operand->def;
    bool twice = inner && inner->kind == op->kind;
    bool keeps_value = op->kind == OP_CONVERT || op->kind == OP_BROADCAST || op->kind == OP_RESHAPE || op->kind == OP_BITCAST;
    bool is_same = operand->type == op->results.items[0]->type;
    if (twice && keeps_value && !is_same && op->kind != OP_CONVERT) {
        operand = op->operands.items[0] = inner->operands.items[0];
        is_same = operand->type == op->results.items[0]->type;
        f->changed = true;
    }
    if (keeps_value && is_same)
        forward_to(f, op, operand);
    else if ((op->kind == OP_NEG || op->kind == OP_NOT || op->kind == OP_TRANSPOSE) && twice)
        apply(f, op, IDENTITY_OPERAND, inner->operands.items[0], 0);
}

/* ---- select ---- */

static void become_logic(Folder *f, IrOp *op, OpKind kind, IrValue *a, IrValue *b) {
    op->kind = kind;
    op->operands.items[0] = a;
    op->operands.items[1] = b;
    op->operands.count = b ? 2 : 1;
    f->changed = true;
}

/* Of bools it is logic. */
static void fold_select(Folder *f, IrOp *op) {
    IrValue *condition = op->operands.items[0], *a = op->operands.items[1], *b = op->operands.items[2];
    uint64_t bits, a_bits, b_bits;
    bool is_bool = op->results.items[0]->type->scalar == PHB_BOOL;
    bool a_known = const_of(a, &a_bits), b_known = const_of(b, &b_bits);
    if (const_of(condition, &bits))
        forward_to(f, op, bits ? a : b);
    else if (a == b)
        forward_to(f, op, a);
    else if (is_bool && a_known && b_known && a_bits != b_bits && a_bits)
        forward_to(f, op, condition);
    else if (is_bool && a_known && b_known && a_bits != b_bits)
        become_logic(f, op, OP_NOT, condition, NULL);
    else if (is_bool && a_known && a_bits)
        become_logic(f, op, OP_OR, condition, b);
    else if (is_bool && b_known && !b_bits)
        become_logic(f, op, OP_AND, condition, a);
}

/* ---- dims ---- */

static const Dim *dim_of(Folder *f, const IrValue *value) {
    const IrOp *def = value->def;
    if (def && def->kind == OP_DIM)
        return def->dim;
    bool is_i64 = value->type->kind == TYPE_SCALAR && value->type->scalar == PHB_I64;
    return def && def->kind == OP_CONST && is_i64 ? dim_int(f->context->dims, (int64_t)def->bits) : NULL;
}

static void become_dim(Folder *f, IrOp *op, const Dim *dim) {
    op->kind = OP_DIM;
    op->operands.count = 0;
    op->axis = 0;
    op->dim = dim;
    f->changed = true;
}

/* Sums and products mean the same as dims; quotients do where the divisor is a number that neither traps nor wraps. */
static void fold_dim_arithmetic(Folder *f, IrOp *op) {
    static const PhbExprOp kinds[OP_COUNT] = {
        [OP_ADD] = PHB_EXPR_ADD, [OP_SUB] = PHB_EXPR_SUB, [OP_MUL] = PHB_EXPR_MUL, [OP_DIV] = PHB_EXPR_DIV, [OP_REM] = PHB_EXPR_MOD};
    PhbExprOp kind = kinds[op->kind];
    if (kind == PHB_EXPR_INT)
        return;
    const Dim *a = dim_of(f, op->operands.items[0]), *b = dim_of(f, op->operands.items[1]);
    int64_t divisor;
    if (!a || !b || ((kind == PHB_EXPR_DIV || kind == PHB_EXPR_MOD) && !(dim_is_int(b, &divisor) && divisor > 0)))
        return;
    const Dim *dim = dim_op(f->context->dims, kind, a, b);
    if (!dim)
        return;
    become_dim(f, op, dim);
}

/* ---- threads and thread-block clusters ---- */

/* CTAs have threads along x alone; without @cluster_dims a CTA is a thread-block cluster. */
static void fold_thread_position(Folder *f, IrOp *op) {
    DimPool *dims = f->context->dims;
    const Signature *signature = f->signature;
    const Dim *zero = dim_int(dims, 0), *size = dim_int(dims, 1);
    bool has_clusters = signature->cluster_dims[0] != NULL;
    for (int axis = 0; size && has_clusters && axis < 3; axis++)
        size = dim_op(dims, PHB_EXPR_MUL, size, signature->cluster_dims[axis]);
    if (op->kind == OP_THREADS && signature->launch_threads > 0)
        become_dim(f, op, dim_int(dims, signature->launch_threads));
    else if (op->kind == OP_THREAD && op->axis > 0)
        become_dim(f, op, zero);
    else if (op->kind == OP_CLUSTER_SIZE && size)
        become_dim(f, op, size);
    else if (op->kind == OP_CLUSTER_RANK && !has_clusters)
        become_dim(f, op, zero);
    else if (op->kind == OP_CLUSTER_MASK && !has_clusters)
        become_const(f, op, 1);
    else if (op->kind == OP_CLUSTER && !has_clusters) {
        op->kind = OP_BLOCK;
        f->changed = true;
    }
}

static void fold_op(Folder *f, IrOp *op) {
    for (int i = 0; i < op->operands.count; i++)
        op->operands.items[i] = current(f, op->operands.items[i]);
    if (fold_constants(f, op))
        return;
    if (op->regions.count > 0)
        return;
    if (op->kind == OP_SELECT)
        fold_select(f, op);
    else if (op->results.count == 1 && op->operands.count == 1)
        fold_unary(f, op);
    else if (op->results.count == 1 && op->operands.count == 2 && !fold_binary(f, op))
        fold_dim_arithmetic(f, op);
    else
        fold_thread_position(f, op);
    int64_t value;
    if (op->kind == OP_DIM && dim_is_int(op->dim, &value))
        become_const(f, op, (uint64_t)value);
}

static void fold_block(Folder *f, IrBlock *block) {
    for (IrOp *op = block->first, *next; op; op = next) {
        next = op->next;
        fold_op(f, op);
        for (int i = 0; i < op->regions.count; i++)
            fold_block(f, op->regions.items[i]);
    }
}

bool ir_fold(Context *context, IrKernel *kernel) {
    int value_count = ir_number(kernel);
    Folder folder = {.context = context, .signature = &kernel->signature, .value_count = value_count};
    folder.forward = NEW_ARRAY(context->arena, IrValue *, value_count);
    fold_block(&folder, kernel->body);
    return folder.changed;
}
