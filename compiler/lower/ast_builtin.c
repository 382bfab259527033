/* Calls of builtins. */
#include "compiler/lower/ast_to_ir.h"

/* Builtins that are one op on operands of the result's shape. */
static const OpKind element_ops[BUILTIN_COUNT] = {
    [BUILTIN_EXP] = OP_EXP,
    [BUILTIN_EXP2] = OP_EXP2,
    [BUILTIN_LOG] = OP_LOG,
    [BUILTIN_LOG2] = OP_LOG2,
    [BUILTIN_SQRT] = OP_SQRT,
    [BUILTIN_RSQRT] = OP_RSQRT,
    [BUILTIN_TANH] = OP_TANH,
    [BUILTIN_SIGMOID] = OP_SIGMOID,
    [BUILTIN_ERF] = OP_ERF,
    [BUILTIN_SIN] = OP_SIN,
    [BUILTIN_COS] = OP_COS,
    [BUILTIN_FLOOR] = OP_FLOOR,
    [BUILTIN_CEIL] = OP_CEIL,
    [BUILTIN_ROUND] = OP_ROUND,
    [BUILTIN_TRUNC] = OP_TRUNC,
    [BUILTIN_ABS] = OP_ABS,
    [BUILTIN_MIN] = OP_MIN,
    [BUILTIN_MAX] = OP_MAX,
    [BUILTIN_POW] = OP_POW,
    [BUILTIN_FMA] = OP_FMA,
    [BUILTIN_POPCOUNT] = OP_POPCOUNT,
    [BUILTIN_CLZ] = OP_CLZ,
    [BUILTIN_WHERE] = OP_SELECT,
};

typedef enum Over { OVER_LAST, OVER_FIRST, OVER_ALL } Over;

static const struct {
    OpKind op; /* CONST: no reduction */
    Over over;
} reductions[BUILTIN_COUNT] = {
    [BUILTIN_ROWSUM] = {OP_SUM, OVER_LAST},
    [BUILTIN_ROWMAX] = {OP_RMAX, OVER_LAST},
    [BUILTIN_ROWMIN] = {OP_RMIN, OVER_LAST},
    [BUILTIN_ROWARGMAX] = {OP_ARGMAX, OVER_LAST},
    [BUILTIN_COLSUM] = {OP_SUM, OVER_FIRST},
    [BUILTIN_COLMAX] = {OP_RMAX, OVER_FIRST},
    [BUILTIN_COLMIN] = {OP_RMIN, OVER_FIRST},
    [BUILTIN_SUM] = {OP_SUM, OVER_ALL},
    [BUILTIN_MAX_OF] = {OP_RMAX, OVER_ALL},
    [BUILTIN_MIN_OF] = {OP_RMIN, OVER_ALL},
    [BUILTIN_ANY] = {OP_ANY, OVER_ALL},
    [BUILTIN_ALL] = {OP_ALL, OVER_ALL},
};

/* The quotient rounded up: the truncated one, and one more where there is a remainder of the divisor's sign. x/0 stays 0. */
static IrValue *lower_ceildiv(Lowering *l, const Expr *expr) {
    Context *context = l->context;
    Span span = expr->span;
    const Type *type = expr->type, *flag = lower_type(l, type, PHB_BOOL);
    IrValue *a = lower_broadcast(l, span, lower_expr(l, expr->args.items[0]), type);
    IrValue *b = lower_broadcast(l, span, lower_expr(l, expr->args.items[1]), type);
    IrValue *zero = lower_bits(l, span, type, 0);
    IrValue *quotient = ir_value(context, l->block, OP_DIV, span, type, a, b);
    IrValue *remainder = ir_value(context, l->block, OP_REM, span, type, a, b);
    IrValue *inexact = ir_value(context, l->block, OP_NE, span, flag, remainder, zero);
    IrValue *divisible = ir_value(context, l->block, OP_NE, span, flag, b, zero);
    IrValue *up = ir_value(context, l->block, OP_AND, span, flag, inexact, divisible);
    if (dtype_is_signed(type->scalar)) {
        IrValue *a_negative = ir_value(context, l->block, OP_LT, span, flag, remainder, zero);
        IrValue *b_negative = ir_value(context, l->block, OP_LT, span, flag, b, zero);
        IrValue *same_sign = ir_value(context, l->block, OP_EQ, span, flag, a_negative, b_negative);
        up = ir_value(context, l->block, OP_AND, span, flag, up, same_sign);
    }
    return ir_value(context, l->block, OP_ADD, span, type, quotient, lower_convert(l, span, up, type->scalar));
}

static IrValue *lower_tensor_position(Lowering *l, OpKind kind, const Expr *call) {
    int64_t axis = 0;
    dim_is_int(call->args.items[1]->dim, &axis);
    return lower_position(l, kind, call->span, lower_name(l, call->args.items[0]), (int)axis);
}

/* ---- shapes ---- */

/* [n] as [1, n]. */
static IrValue *as_matrix(Lowering *l, Span span, IrValue *value) {
    const Type *type = value->type;
    if (type->rank != 1)
        return value;
    const Dim *dims[2] = {dim_int(l->context->dims, 1), type->dims[0]};
    return ir_value(l->context, l->block, OP_RESHAPE, span, type_shaped(l->context->types, TYPE_TILE, type->scalar, 2, dims), value, NULL);
}

static IrValue *lower_iota(Lowering *l, Span span, const Dim *extent) {
    const Type *type = type_shaped(l->context->types, TYPE_TILE, PHB_I32, 1, &extent);
    return ir_value(l->context, l->block, OP_IOTA, span, type, NULL, NULL);
}

static IrValue *lower_reshape(Lowering *l, const Expr *expr) {
    IrValue *value = lower_expr(l, expr->args.items[0]);
    if (value->type == expr->type)
        return value;
    return ir_value(l->context, l->block, value->type->rank == 0 ? OP_BROADCAST : OP_RESHAPE, expr->span, expr->type, value, NULL);
}

/* ---- tril, triu: an element stays where its column less its row is at most, or at least, k ---- */

/* k as i32, cut to where no extent reaches, so that differences of positions do not wrap. */
static IrValue *lower_diagonal(Lowering *l, const Expr *expr) {
    enum { BEYOND = 1 << 30 };
    const Type *i64 = type_scalar(l->context->types, PHB_I64), *i32 = type_scalar(l->context->types, PHB_I32);
    if (expr->args.count < 2)
        return lower_bits(l, expr->span, i32, 0);
    IrValue *k = lower_expr(l, expr->args.items[1]);
    k = ir_value(l->context, l->block, OP_MIN, expr->span, i64, k, lower_bits(l, expr->span, i64, BEYOND));
    k = ir_value(l->context, l->block, OP_MAX, expr->span, i64, k, lower_bits(l, expr->span, i64, (uint64_t)-BEYOND));
    return lower_convert(l, expr->span, k, PHB_I32);
}

static IrValue *lower_triangle(Lowering *l, const Expr *expr) {
    Context *context = l->context;
    Span span = expr->span;
    const Type *type = expr->type, *index = lower_type(l, type, PHB_I32);
    IrValue *value = as_matrix(l, span, lower_expr(l, expr->args.items[0]));
    IrValue *k = lower_broadcast(l, span, lower_diagonal(l, expr), index);
    const Dim *column_dims[2] = {type->dims[0], dim_int(context->dims, 1)};
    const Type *column = type_shaped(context->types, TYPE_TILE, PHB_I32, 2, column_dims);
    IrValue *row_index = ir_value(context, l->block, OP_RESHAPE, span, column, lower_iota(l, span, type->dims[0]), NULL);
    IrValue *difference = ir_value(context, l->block, OP_SUB, span, index, lower_broadcast(l, span, lower_iota(l, span, type->dims[1]), index),
        lower_broadcast(l, span, row_index, index));
    bool is_lower = expr->builtin == BUILTIN_TRIL;
    IrValue *stays = ir_value(context, l->block, OP_LE, span, lower_type(l, type, PHB_BOOL), is_lower ? difference : k, is_lower ? k : difference);
    IrValue *operands[3] = {stays, value, lower_bits(l, span, type, 0)};
    return ir_append(context, l->block, OP_SELECT, span, operands, 3, &type, 1)->results.items[0];
}

/* ---- reductions and contractions ---- */

static IrValue *lower_reduction(Lowering *l, const Expr *expr) {
    Over over = reductions[expr->builtin].over;
    IrValue *value = lower_expr(l, expr->args.items[0]);
    if (over != OVER_ALL)
        value = as_matrix(l, expr->span, value);
    IrValue *result = ir_value(l->context, l->block, reductions[expr->builtin].op, expr->span, expr->type, value, NULL);
    result->def->axis = over == OVER_ALL ? -1 : over == OVER_LAST ? 1 : 0;
    return result;
}

bool is_dot(const Expr *expr) {
    return is_call_of(expr, BUILTIN_DOT) || is_call_of(expr, BUILTIN_DOT_T);
}

IrValue *lower_dot(Lowering *l, const Expr *expr, IrValue *acc) {
    IrValue *a = as_matrix(l, expr->span, lower_expr(l, expr->args.items[0]));
    IrValue *b = as_matrix(l, expr->span, lower_expr(l, expr->args.items[1]));
    IrValue *operands[3] = {a, b, acc ? acc : lower_bits(l, expr->span, expr->type, 0)};
    OpKind kind = expr->builtin == BUILTIN_DOT ? OP_DOT : OP_DOT_T;
    return ir_append(l->context, l->block, kind, expr->span, operands, 3, &expr->type, 1)->results.items[0];
}

/* ---- all of them ---- */

static IrValue *lower_element(Lowering *l, const Expr *expr) {
    IrValue *operands[3];
    for (int i = 0; i < expr->args.count; i++)
        operands[i] = lower_broadcast(l, expr->span, lower_expr(l, expr->args.items[i]), expr->type);
    return ir_append(l->context, l->block, element_ops[expr->builtin], expr->span, operands, expr->args.count, &expr->type, 1)->results.items[0];
}

IrValue *lower_call(Lowering *l, const Expr *expr) {
    Expr *const *args = expr->args.items;
    if (element_ops[expr->builtin] != OP_CONST)
        return lower_element(l, expr);
    if (reductions[expr->builtin].op != OP_CONST)
        return lower_reduction(l, expr);
    if (is_thread_builtin((Builtin)expr->builtin))
        return lower_thread_call(l, expr);
    switch ((Builtin)expr->builtin) {
    case BUILTIN_PROGRAM_ID:
        return lower_position(l, OP_BLOCK, expr->span, NULL, 0);
    case BUILTIN_EXTENT:
        return lower_tensor_position(l, OP_EXTENT, expr);
    case BUILTIN_ORIGIN:
        return lower_tensor_position(l, OP_ORIGIN, expr);
    case BUILTIN_WHOLE:
        return lower_tensor_position(l, OP_WHOLE, expr);
    case BUILTIN_CEILDIV:
        return lower_ceildiv(l, expr);
    case BUILTIN_BITCAST:
        return ir_value(l->context, l->block, OP_BITCAST, expr->span, expr->type, lower_expr(l, args[0]), NULL);
    case BUILTIN_IOTA:
        return lower_iota(l, expr->span, expr->type->dims[0]);
    case BUILTIN_RESHAPE:
        return lower_reshape(l, expr);
    case BUILTIN_TRANSPOSE:
        return ir_value(l->context, l->block, OP_TRANSPOSE, expr->span, expr->type, as_matrix(l, expr->span, lower_expr(l, args[0])), NULL);
    case BUILTIN_TRIL:
    case BUILTIN_TRIU:
        return lower_triangle(l, expr);
    case BUILTIN_CUMSUM:
        return ir_value(l->context, l->block, OP_CUMSUM, expr->span, expr->type, lower_expr(l, args[0]), NULL);
    case BUILTIN_DOT:
    case BUILTIN_DOT_T:
        return lower_dot(l, expr, NULL);
    default:
        return lower_convert(l, expr->span, lower_expr(l, args[0]), expr->type->scalar);
    }
}
