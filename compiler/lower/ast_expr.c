/* Expressions and slices. Sema has decided everything about the language: what is left is to make broadcasts and conversions explicit. */
#include "compiler/lower/ast_to_ir.h"

#include <string.h>

/* ---- types and shapes ---- */

static const Type *scalar_i64(Lowering *l) {
    return type_scalar(l->context->types, PHB_I64);
}

const Type *lower_type(Lowering *l, const Type *shape, PhbDType scalar) {
    if (shape->rank == 0)
        return type_scalar(l->context->types, scalar);
    return type_shaped(l->context->types, TYPE_TILE, scalar, shape->rank, shape->dims);
}

IrValue *lower_convert(Lowering *l, Span span, IrValue *value, PhbDType scalar) {
    if (value->type->scalar == scalar)
        return value;
    return ir_value(l->context, l->block, OP_CONVERT, span, lower_type(l, value->type, scalar), value, NULL);
}

IrValue *lower_broadcast(Lowering *l, Span span, IrValue *value, const Type *shape) {
    const Type *type = lower_type(l, shape, value->type->scalar);
    if (value->type == type)
        return value;
    return ir_value(l->context, l->block, OP_BROADCAST, span, type, value, NULL);
}

/* ---- expressions ---- */

static IrValue *const_i64(Lowering *l, Span span, int64_t value) {
    return ir_const_bits(l->context, l->block, span, scalar_i64(l), (uint64_t)value);
}

static IrValue *lower_dim(Lowering *l, Span span, const Dim *dim) {
    int64_t value;
    if (dim_is_int(dim, &value))
        return const_i64(l, span, value);
    IrValue *result = ir_value(l->context, l->block, OP_DIM, span, scalar_i64(l), NULL, NULL);
    result->def->dim = dim;
    return result;
}

IrValue *lower_position(Lowering *l, OpKind kind, Span span, IrValue *tensor, int axis) {
    IrValue *result = ir_value(l->context, l->block, kind, span, scalar_i64(l), tensor, NULL);
    result->def->axis = axis;
    return result;
}

IrValue *lower_bits(Lowering *l, Span span, const Type *type, uint64_t bits) {
    const Type *scalar = type_scalar(l->context->types, type->scalar);
    return lower_broadcast(l, span, ir_const_bits(l->context, l->block, span, scalar, bits), type);
}

static IrValue *lower_literal(Lowering *l, const Expr *expr) {
    PhbDType scalar = expr->type->scalar;
    uint64_t bits = 0;
    if (expr->kind == EXPR_BOOL)
        bits = expr->bool_value;
    else if (!dtype_is_float(scalar))
        bits = bits_from_int(scalar, expr->int_value);
    else
        bits = bits_from_double(scalar, expr->kind == EXPR_INT ? (double)expr->int_value : expr->float_value);
    return lower_bits(l, expr->span, expr->type, bits);
}

IrValue *lower_name(Lowering *l, const Expr *expr) {
    const Symbol *symbol = expr->symbol;
    if (symbol->kind == SYMBOL_DIM || symbol->kind == SYMBOL_SEARCH_DIM)
        return lower_dim(l, expr->span, dim_name(l->context->dims, symbol->name));
    if (symbol->kind == SYMBOL_PARAM)
        return l->kernel->body->args.items[symbol->index];
    return lower_binding(l, symbol)->value;
}

typedef struct BinaryLowering {
    OpKind op;
    bool swapped; /* a > b is b < a */
} BinaryLowering;

static const BinaryLowering binary_lowering[BINARY_OP_COUNT] = {
    [BINARY_LOGIC_OR] = {OP_OR, false},
    [BINARY_LOGIC_AND] = {OP_AND, false},
    [BINARY_OR] = {OP_OR, false},
    [BINARY_XOR] = {OP_XOR, false},
    [BINARY_AND] = {OP_AND, false},
    [BINARY_EQ] = {OP_EQ, false},
    [BINARY_NE] = {OP_NE, false},
    [BINARY_LT] = {OP_LT, false},
    [BINARY_LE] = {OP_LE, false},
    [BINARY_GT] = {OP_LT, true},
    [BINARY_GE] = {OP_LE, true},
    [BINARY_SHL] = {OP_SHL, false},
    [BINARY_SHR] = {OP_SHR, false},
    [BINARY_ADD] = {OP_ADD, false},
    [BINARY_SUB] = {OP_SUB, false},
    [BINARY_MUL] = {OP_MUL, false},
    [BINARY_DIV] = {OP_DIV, false},
    [BINARY_REM] = {OP_REM, false},
};

IrValue *lower_binary(Lowering *l, BinaryOp op, Span span, const Type *type, IrValue *a, IrValue *b) {
    BinaryLowering how = binary_lowering[op];
    a = lower_broadcast(l, span, a, type);
    b = lower_broadcast(l, span, b, type);
    return ir_value(l->context, l->block, how.op, span, type, how.swapped ? b : a, how.swapped ? a : b);
}

static IrValue *lower_unary(Lowering *l, const Expr *expr) {
    IrValue *operand = lower_expr(l, expr->left);
    return ir_value(l->context, l->block, expr->unary == UNARY_NEG ? OP_NEG : OP_NOT, expr->span, expr->type, operand, NULL);
}

bool is_call_of(const Expr *expr, Builtin builtin) {
    return expr->kind == EXPR_CALL && expr->builtin == (int)builtin;
}

static bool is_shared_memory(const Expr *base) {
    return is_call_of(base, BUILTIN_REMOTE) || (base->type && base->type->kind == TYPE_SHARED);
}

bool evaluation_is_seen(const Expr *expr) {
    if (!expr)
        return false;
    bool found = expr->kind == EXPR_INLINE || (expr->kind == EXPR_CALL && is_thread_builtin((Builtin)expr->builtin)) ||
                 (expr->kind == EXPR_INDEX && is_shared_memory(expr->left));
    found = found || evaluation_is_seen(expr->left) || evaluation_is_seen(expr->right);
    for (int i = 0; !found && i < expr->args.count; i++)
        found = evaluation_is_seen(expr->args.items[i]);
    for (int i = 0; !found && i < expr->subs.count; i++)
        found = evaluation_is_seen(expr->subs.items[i].a);
    return found;
}

static IrValue *lower_operator(Lowering *l, const Expr *expr) {
    bool is_logic = expr->binary == BINARY_LOGIC_AND || expr->binary == BINARY_LOGIC_OR;
    if (is_logic && expr->type->kind == TYPE_SCALAR && evaluation_is_seen(expr->right))
        return lower_short_circuit(l, expr);
    IrValue *a = lower_expr(l, expr->left);
    IrValue *b = lower_expr(l, expr->right);
    return lower_binary(l, expr->binary, expr->span, expr->type, a, b);
}

static IrValue *lower_field(Lowering *l, const Expr *expr) {
    static const OpKind kinds[BUILTIN_COUNT] = {
        [BUILTIN_CTX_BLOCK] = OP_BLOCK,
        [BUILTIN_CTX_GRID] = OP_GRID,
        [BUILTIN_CTX_SUPER] = OP_SUPER,
        [BUILTIN_CTX_SUPERS] = OP_SUPERS,
        [BUILTIN_CTX_THREAD] = OP_THREAD,
        [BUILTIN_CTX_THREADS] = OP_THREADS,
        [BUILTIN_CTX_WARP] = OP_WARP,
        [BUILTIN_CTX_LANE] = OP_LANE,
        [BUILTIN_CTX_CLUSTER] = OP_CLUSTER,
        [BUILTIN_CTX_CLUSTER_RANK] = OP_CLUSTER_RANK,
        [BUILTIN_CTX_CLUSTER_SIZE] = OP_CLUSTER_SIZE,
    };
    OpKind kind = kinds[expr->builtin];
    bool has_axis = op_info[kind].attr == ATTR_AXIS;
    return lower_position(l, kind, expr->span, NULL, has_axis ? expr->text[0] - 'x' : 0);
}

/* ---- slices ---- */

Slice lower_slice(Lowering *l, const Expr *expr) {
    Slice slice = {.type = expr->type, .span = expr->span, .once = expr->is_once};
    slice.operands[slice.count++] = is_call_of(expr->left, BUILTIN_REMOTE) ? lower_remote(l, expr->left) : lower_name(l, expr->left);
    for (int k = 0; k < expr->subs.count; k++) {
        const Sub *sub = &expr->subs.items[k];
        bool from_start = sub->kind == SUB_ALL || sub->kind == SUB_TO;
        slice.extent[k] = sub->extent;
        slice.operands[slice.count++] = from_start ? const_i64(l, sub->span, 0) : lower_convert(l, sub->span, lower_expr(l, sub->a), PHB_I64);
    }
    return slice;
}

IrOp *lower_access(Lowering *l, OpKind kind, const Slice *slice, IrValue *const *values) {
    IrValue *operands[1 + PHB_MAX_RANK + 2];
    int stored = ir_values_stored(kind);
    memcpy(operands, slice->operands, sizeof *operands * (size_t)slice->count);
    for (int i = 0; i < stored; i++)
        operands[slice->count + i] = values[i];
    IrOp *op = ir_append(l->context, l->block, kind, slice->span, operands, slice->count + stored, &slice->type, op_info[kind].results);
    memcpy(op->extent, slice->extent, sizeof op->extent);
    op->once = slice->once && kind != OP_LOAD;
    return op;
}

IrValue *lower_load(Lowering *l, const Slice *slice) {
    return lower_access(l, OP_LOAD, slice, NULL)->results.items[0];
}

void lower_store(Lowering *l, const Slice *slice, IrValue *value) {
    value = lower_broadcast(l, slice->span, value, slice->type);
    lower_access(l, OP_STORE, slice, &value);
}

IrValue *lower_expr(Lowering *l, const Expr *expr) {
    bool is_i64 = expr->type->kind == TYPE_SCALAR && expr->type->scalar == PHB_I64;
    if (expr->dim && is_i64)
        return lower_dim(l, expr->span, expr->dim);
    switch (expr->kind) {
    case EXPR_INT:
    case EXPR_FLOAT:
    case EXPR_BOOL:
        return lower_literal(l, expr);
    case EXPR_NAME:
        return lower_name(l, expr);
    case EXPR_UNARY:
        return lower_unary(l, expr);
    case EXPR_BINARY:
        return lower_operator(l, expr);
    case EXPR_CALL:
        return lower_call(l, expr);
    case EXPR_INDEX: {
        Slice slice = lower_slice(l, expr);
        return lower_load(l, &slice);
    }
    case EXPR_FIELD:
        return lower_field(l, expr);
    case EXPR_CONVERT:
        return lower_convert(l, expr->span, lower_expr(l, expr->left), expr->type->scalar);
    case EXPR_INLINE:
        return lower_inline(l, expr);
    }
    return NULL;
}

/* ---- statements ---- */
