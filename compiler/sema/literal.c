/* Literals take the type of their place. Until it is known they, and operators on nothing but literals, are open. Arithmetic on integer literals is
 * done at once and exactly; what else is open (floats, bitwise operators) takes its type from the top down, so that ~0 is all ones in any type. */
#include "compiler/sema/check.h"

__extension__ typedef __int128 Wide;

const Type open_int = {.kind = TYPE_SCALAR, .scalar = PHB_I64};
const Type open_float = {.kind = TYPE_SCALAR, .scalar = PHB_F32};

bool literal_is_open(const Expr *expr) {
    return expr->type == &open_int || expr->type == &open_float;
}

static bool is_negation(const Expr *expr) {
    return expr->kind == EXPR_UNARY && expr->unary == UNARY_NEG;
}

/* A plain integer: a literal, or `-` before one. */
static bool plain_integer(const Expr *expr, Wide *value) {
    if (expr->type != &open_int)
        return false;
    if (expr->kind == EXPR_INT) {
        *value = (Wide)expr->int_value;
        return true;
    }
    if (!is_negation(expr) || expr->left->kind != EXPR_INT)
        return false;
    *value = -(Wide)expr->left->int_value;
    return true;
}

static void become_integer(Checker *checker, Expr *expr, Wide value) {
    uint64_t magnitude = (uint64_t)(value < 0 ? -value : value);
    Expr *literal = expr;
    if (value < 0) {
        literal = NEW(checker->context->arena, Expr);
        literal->span = expr->span;
        literal->type = &open_int;
        expr->kind = EXPR_UNARY;
        expr->unary = UNARY_NEG;
        expr->left = literal;
    }
    literal->kind = EXPR_INT;
    literal->int_value = magnitude;
    literal->text = arena_printf(checker->context->arena, "%llu", (unsigned long long)magnitude);
    expr->type = &open_int;
}

static bool fold_binary(BinaryOp op, Wide a, Wide b, Wide *result) {
    switch (op) {
    case BINARY_ADD:
        *result = a + b;
        return true;
    case BINARY_SUB:
        *result = a - b;
        return true;
    case BINARY_MUL:
        if (a != 0 && b != 0 && (a > INT64_MAX || a < INT64_MIN || b > INT64_MAX || b < INT64_MIN) && a != 1 && b != 1)
            *result = (Wide)1 << 100; /* beyond any type, and the product itself might be beyond Wide */
        else
            *result = a * b;
        return true;
    case BINARY_DIV:
        *result = b == 0 ? 0 : a / b;
        return true;
    case BINARY_REM:
        *result = b == 0 ? a : a % b;
        return true;
    case BINARY_SHL:
        if (a < 0 || b < 0 || b > 63)
            return false;
        *result = a * ((Wide)1 << b);
        return true;
    default:
        return false;
    }
}

bool literal_fold(Checker *checker, Expr *expr) {
    Wide a, b = 0, value;
    if (!plain_integer(expr->left, &a))
        return false;
    if (expr->kind == EXPR_UNARY) {
        if (expr->unary != UNARY_NEG)
            return false;
        value = -a;
    } else if (!plain_integer(expr->right, &b) || !fold_binary(expr->binary, a, b, &value)) {
        return false;
    }
    if (value > (Wide)UINT64_MAX || value < (Wide)INT64_MIN) {
        diag_error(checker->context->diag, expr->span, "the constant '%s' is beyond 64 bits", expr_text(checker, expr));
        expr->type = type_poison(checker->context->types);
        return true;
    }
    become_integer(checker, expr, value);
    return true;
}

static bool is_bitwise(const Expr *expr) {
    if (expr->kind == EXPR_UNARY)
        return expr->unary == UNARY_BITNOT;
    return expr->kind == EXPR_BINARY && (expr->binary == BINARY_AND || expr->binary == BINARY_OR || expr->binary == BINARY_XOR ||
                                            expr->binary == BINARY_SHL || expr->binary == BINARY_SHR);
}

bool literal_fits(const Expr *expr, PhbDType to) {
    Wide value;
    if (!literal_is_open(expr))
        return false;
    if (plain_integer(expr, &value))
        return dtype_holds(to, value < 0, (uint64_t)(value < 0 ? -value : value));
    if (expr->kind == EXPR_FLOAT)
        return dtype_is_float(to) && dtype_reaches(to, expr->float_value);
    if (is_bitwise(expr) ? !dtype_is_int(to) : expr->type == &open_float && !dtype_is_float(to))
        return false;
    return literal_fits(expr->left, to) && (expr->kind != EXPR_BINARY || literal_fits(expr->right, to));
}

static Expr *report_misfit(Checker *checker, Expr *expr, PhbDType to) {
    Diag *diag = checker->context->diag;
    const char *text = expr_text(checker, expr), *type = dtype_name(to);
    if (to == PHB_BOOL)
        diag_error(diag, expr->span, "expected 'bool', found the number '%s'", text);
    else if (expr->type == &open_float && !dtype_is_float(to))
        diag_error(diag, expr->span, "expected '%s', found the float '%s'; write '%s(%s)' to truncate it", type, text, type, text);
    else if (expr->kind == EXPR_FLOAT)
        diag_error(diag, expr->span, "'%s' is too large for '%s'", text, type);
    else if (dtype_is_float(to))
        diag_error(diag, expr->span, "'%s' does not hold %s exactly; write a float literal to round it", type, text);
    else
        diag_error(diag, expr->span, "'%s' does not hold %s", type, text);
    expr->type = type_poison(checker->context->types);
    return expr;
}

Expr *literal_adapt(Checker *checker, Expr *expr, PhbDType to) {
    if (!literal_is_open(expr))
        return expr;
    if (is_bitwise(expr) && dtype_is_float(to))
        return expr_convert(checker, literal_settle(checker, expr), to);
    Wide value;
    bool is_integer = plain_integer(expr, &value);
    if (is_integer || expr->kind == EXPR_FLOAT || to == PHB_BOOL || (expr->type == &open_float && !dtype_is_float(to))) {
        if (!literal_fits(expr, to))
            return report_misfit(checker, expr, to);
    }
    if (is_integer) {
        if (expr->kind == EXPR_UNARY)
            expr->left->type = type_scalar(checker->context->types, to);
        if (to == PHB_I64)
            expr->dim = dim_int(checker->context->dims, (int64_t)value);
    } else if (expr->kind == EXPR_UNARY || expr->kind == EXPR_BINARY) {
        expr->left = literal_adapt(checker, expr->left, to);
        if (expr->kind == EXPR_BINARY)
            expr->right = literal_adapt(checker, expr->right, to);
        if (type_is_poison(expr->left->type) || (expr->kind == EXPR_BINARY && type_is_poison(expr->right->type))) {
            expr->type = type_poison(checker->context->types);
            return expr;
        }
    }
    expr->type = type_scalar(checker->context->types, to);
    return expr;
}

Expr *literal_settle(Checker *checker, Expr *expr) {
    if (expr->type == &open_int)
        return literal_adapt(checker, expr, PHB_I64);
    if (expr->type == &open_float)
        return literal_adapt(checker, expr, PHB_F32);
    return expr;
}
