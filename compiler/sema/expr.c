/* Types of expressions, LANGUAGE.md 3. */
#include "compiler/sema/check.h"

static const Type *poison(Checker *checker) {
    return type_poison(checker->context->types);
}

static bool is_poison(const Expr *expr) {
    return type_is_poison(expr->type);
}

void error_unknown_name(Checker *checker, Expr *expr) {
    Diag *diag = checker->context->diag;
    const char *name = expr->text;
    PhbDType dtype;
    if (dtype_find(name, &dtype)) {
        diag_error(diag, expr->span, "'%s' is a type; write '%s(x)' to convert a value", name, name);
    } else if (name == intern_cstr(checker->context->interner, "ctx")) {
        diag_error(diag, expr->span, "'ctx' is no value; its fields are, such as 'ctx.block.x'");
    } else if (builtin_is_known(name)) {
        diag_error(diag, expr->span, "'%s' is a function; its value needs arguments", name);
    } else {
        Names names = {0};
        scope_names(checker, &names);
        const char *hint = suggestion(checker, name, &names);
        if (!hint[0] && checker->frame)
            hint = "; nothing of the caller is visible in a fn: pass it as an argument";
        else if (!hint[0] && name[0] >= 'A' && name[0] <= 'Z') /* as sizes are written */
            hint = arena_printf(checker->context->arena, "; a size is declared by '@autotune(%s in [..])'", name);
        diag_error(diag, expr->span, "unknown name '%s'%s", name, hint);
        scope_poison(checker, name);
    }
}

static void check_name(Checker *checker, Expr *expr) {
    Symbol *symbol = scope_find(checker, expr->text);
    if (!symbol) {
        error_unknown_name(checker, expr);
        expr->type = poison(checker);
        return;
    }
    symbol->used = true;
    expr->symbol = symbol;
    expr->type = symbol->type;
    if (symbol->kind == SYMBOL_DIM || symbol->kind == SYMBOL_SEARCH_DIM)
        expr->dim = symbol->dim;
    else if (symbol->kind == SYMBOL_LET && symbol->value)
        expr->dim = symbol->value->dim;
}

/* The value of i64 arithmetic over dims. Division is left to run time unless the divisor is a positive integer or a search dim: dims have no x/0. */
static const Dim *dim_of_binary(Checker *checker, const Expr *expr) {
    const Dim *a = expr->left->dim, *b = expr->right->dim;
    int64_t divisor;
    if (!a || !b || expr->type->kind != TYPE_SCALAR || expr->type->scalar != PHB_I64)
        return NULL;
    switch (expr->binary) {
    case BINARY_DIV:
    case BINARY_REM:
        if (dim_is_int(b, &divisor) ? divisor < 1 : b->kind != PHB_EXPR_DIM || !dim_is_static(checker, b))
            return NULL;
        return dim_binary(checker, expr->binary, a, b);
    case BINARY_ADD:
    case BINARY_SUB:
    case BINARY_MUL:
        return dim_binary(checker, expr->binary, a, b);
    default:
        return NULL;
    }
}

static void error_operands(Checker *checker, Span op_span, const char *op, const Type *a, const Type *b) {
    Diag *diag = checker->context->diag;
    const char *left = type_text(checker, a), *right = type_text(checker, b);
    if (a->scalar == PHB_BOOL && b->scalar == PHB_BOOL)
        diag_error(diag, op_span, "'%s' needs numbers, found '%s' and '%s'; bool has no arithmetic", op, left, right);
    else if (a->scalar == PHB_BOOL || b->scalar == PHB_BOOL)
        diag_error(diag, op_span, "'%s' does not take '%s' with '%s'", op, left, right);
    else
        diag_error(diag, op_span, "'%s' does not take '%s' with '%s': no type holds both; convert one of them", op, left, right);
}

bool operands_unify(Checker *checker, Span op_span, const char *op, Expr **a, Expr **b) {
    if (is_poison(*a) || is_poison(*b))
        return false;
    bool a_open = literal_is_open(*a), b_open = literal_is_open(*b);
    if (a_open && b_open)
        return true;
    if (a_open || b_open) {
        Expr **literal = a_open ? a : b, **other = a_open ? b : a;
        PhbDType to = (*other)->type->scalar;
        if (to == PHB_BOOL) {
            error_operands(checker, op_span, op, (*a)->type, (*b)->type);
            return false;
        }
        if ((*literal)->type == &open_float && !dtype_is_float(to))
            to = PHB_F32;
        *literal = literal_adapt(checker, *literal, to);
        *other = expr_convert(checker, *other, to);
        return !is_poison(*literal);
    }
    PhbDType to;
    if ((*a)->type->scalar == (*b)->type->scalar)
        return true;
    if (!dtype_promote((*a)->type->scalar, (*b)->type->scalar, &to)) {
        error_operands(checker, op_span, op, (*a)->type, (*b)->type);
        return false;
    }
    *a = expr_convert(checker, *a, to);
    *b = expr_convert(checker, *b, to);
    return true;
}

static bool needs_bool(Checker *checker, Span op_span, const char *op, const Expr *operand) {
    if (is_poison(operand))
        return false;
    if (!literal_is_open(operand) && operand->type->scalar == PHB_BOOL)
        return true;
    diag_error(checker->context->diag, op_span, "'%s' needs 'bool', found '%s'", op, type_text(checker, operand->type));
    return false;
}

static void check_logic(Checker *checker, Expr *expr) {
    const char *op = binary_op_text(expr->binary);
    bool left = needs_bool(checker, expr->op_span, op, expr->left);
    bool right = left && needs_bool(checker, expr->op_span, op, expr->right);
    expr->type = right ? shape_join(checker, expr->op_span, op, expr->left->type, expr->right->type, PHB_BOOL) : poison(checker);
}

static void settle_both(Checker *checker, Expr *expr) {
    if (!literal_is_open(expr->left))
        return;
    PhbDType to = expr->left->type == &open_float || expr->right->type == &open_float ? PHB_F32 : PHB_I64;
    expr->left = literal_adapt(checker, expr->left, to);
    expr->right = literal_adapt(checker, expr->right, to);
}

static void check_comparison(Checker *checker, Expr *expr) {
    const char *op = binary_op_text(expr->binary);
    expr->type = poison(checker);
    if (!operands_unify(checker, expr->op_span, op, &expr->left, &expr->right))
        return;
    settle_both(checker, expr);
    if (is_poison(expr->left) || is_poison(expr->right))
        return;
    bool is_equality = expr->binary == BINARY_EQ || expr->binary == BINARY_NE;
    if (expr->left->type->scalar == PHB_BOOL && !is_equality) {
        error_operands(checker, expr->op_span, op, expr->left->type, expr->right->type);
        return;
    }
    expr->type = shape_join(checker, expr->op_span, op, expr->left->type, expr->right->type, PHB_BOOL);
}

/* Of arithmetic with open operands: float where one is. */
static const Type *open_type(const Expr *left, const Expr *right) {
    return left->type == &open_float || right->type == &open_float ? &open_float : &open_int;
}

static void check_arithmetic(Checker *checker, Expr *expr, bool is_bitwise) {
    const char *op = binary_op_text(expr->binary);
    Diag *diag = checker->context->diag;
    expr->type = poison(checker);
    if (!operands_unify(checker, expr->op_span, op, &expr->left, &expr->right))
        return;
    if (literal_is_open(expr->left)) {
        const Type *type = open_type(expr->left, expr->right);
        if (is_bitwise && type == &open_float)
            diag_error(diag, expr->op_span, "'%s' needs integers, found a float literal", op);
        else if (!literal_fold(checker, expr))
            expr->type = type;
        return;
    }
    PhbDType scalar = expr->left->type->scalar;
    bool is_bit_logic = expr->binary == BINARY_AND || expr->binary == BINARY_OR || expr->binary == BINARY_XOR;
    if (scalar == PHB_BOOL && !is_bit_logic) {
        error_operands(checker, expr->op_span, op, expr->left->type, expr->right->type);
        return;
    }
    if (is_bitwise && dtype_is_float(scalar)) {
        diag_error(diag, expr->op_span, "'%s' needs integers, found '%s'", op, dtype_name(scalar));
        return;
    }
    expr->type = shape_join(checker, expr->op_span, op, expr->left->type, expr->right->type, scalar);
    if (!is_poison(expr))
        expr->dim = dim_of_binary(checker, expr);
}

static void check_binary(Checker *checker, Expr *expr) {
    check_operand(checker, expr->left);
    check_operand(checker, expr->right);
    switch (expr->binary) {
    case BINARY_LOGIC_OR:
    case BINARY_LOGIC_AND:
        check_logic(checker, expr);
        break;
    case BINARY_EQ:
    case BINARY_NE:
    case BINARY_LT:
    case BINARY_LE:
    case BINARY_GT:
    case BINARY_GE:
        check_comparison(checker, expr);
        break;
    case BINARY_OR:
    case BINARY_XOR:
    case BINARY_AND:
    case BINARY_SHL:
    case BINARY_SHR:
        check_arithmetic(checker, expr, true);
        break;
    case BINARY_ADD:
    case BINARY_SUB:
    case BINARY_MUL:
    case BINARY_DIV:
    case BINARY_REM:
    case BINARY_OP_COUNT:
        check_arithmetic(checker, expr, false);
        break;
    }
}

static void check_unary(Checker *checker, Expr *expr) {
    Diag *diag = checker->context->diag;
    check_operand(checker, expr->left);
    const Type *type = expr->left->type;
    expr->type = poison(checker);
    if (type_is_poison(type))
        return;
    const char *found = type_text(checker, type);
    switch (expr->unary) {
    case UNARY_NOT:
        if (type->scalar == PHB_BOOL)
            expr->type = type;
        else
            diag_error(diag, expr->op_span, "'!' needs 'bool', found '%s'", found);
        return;
    case UNARY_BITNOT:
        if (type->scalar == PHB_BOOL)
            diag_error(diag, expr->op_span, "'~' needs integers, found '%s'; write '!' to negate it", found);
        else if (!dtype_is_int(type->scalar))
            diag_error(diag, expr->op_span, "'~' needs integers, found '%s'", found);
        else
            expr->type = type;
        return;
    case UNARY_NEG:
        break;
    }
    if (type->scalar == PHB_BOOL) {
        diag_error(diag, expr->op_span, "'-' needs numbers, found '%s'; bool has no arithmetic", found);
        return;
    }
    if (literal_is_open(expr->left) && expr->left->kind != EXPR_INT && literal_fold(checker, expr))
        return;
    expr->type = type;
    if (expr->left->dim && type->kind == TYPE_SCALAR && type->scalar == PHB_I64)
        expr->dim = dim_binary(checker, BINARY_SUB, dim_int(checker->context->dims, 0), expr->left->dim);
}

void check_expr(Checker *checker, Expr *expr) {
    switch (expr->kind) {
    case EXPR_INT:
        expr->type = &open_int;
        break;
    case EXPR_FLOAT:
        expr->type = &open_float;
        break;
    case EXPR_BOOL:
        expr->type = type_scalar(checker->context->types, PHB_BOOL);
        break;
    case EXPR_NAME:
        check_name(checker, expr);
        break;
    case EXPR_UNARY:
        check_unary(checker, expr);
        break;
    case EXPR_BINARY:
        check_binary(checker, expr);
        break;
    case EXPR_CALL:
        check_call(checker, expr);
        break;
    case EXPR_INDEX:
        check_slice(checker, expr, false);
        break;
    case EXPR_FIELD:
        check_field(checker, expr);
        break;
    case EXPR_CONVERT:
    case EXPR_INLINE: /* checked already */
        break;
    }
}

void check_operand(Checker *checker, Expr *expr) {
    check_expr(checker, expr);
    if (type_is_poison(expr->type) || type_is_value(expr->type))
        return;
    const char *text = expr_text(checker, expr);
    if (expr->type->kind == TYPE_VOID)
        diag_error(checker->context->diag, expr->span, "'%s' gives no value", text);
    else
        diag_error(checker->context->diag, expr->span, "'%s' is %s; its values are read by slices, such as '%s[i :+ n]'", text,
            expr->type->kind == TYPE_SHARED ? "shared memory" : "a tensor", text);
    expr->type = poison(checker);
}

Expr *check_value_for(Checker *checker, Expr *expr, const Type *to) {
    check_operand(checker, expr);
    if (is_poison(expr) || type_is_poison(to))
        return expr;
    if (literal_is_open(expr)) {
        expr = literal_adapt(checker, expr, to->scalar);
        return expr;
    }
    if (!dtype_stores(expr->type->scalar, to->scalar)) {
        diag_error(checker->context->diag, expr->span, "expected '%s', found '%s'; write '%s(..)' to convert it", type_text(checker, to),
            type_text(checker, expr->type), dtype_name(to->scalar));
        expr->type = poison(checker);
        return expr;
    }
    if (!shape_broadcasts(checker, expr->span, expr->type, to)) {
        expr->type = poison(checker);
        return expr;
    }
    return expr_convert(checker, expr, to->scalar);
}
