/* Expressions over dims, as they stand in types and attributes. */
#include "compiler/sema/check.h"

#include <inttypes.h>
#include <string.h>

static const Dim *operation(Checker *checker, PhbExprOp op, const Dim *a, const Dim *b) {
    return dim_op(checker->context->dims, op, a, b);
}

static const Dim *shift_left(Checker *checker, const Dim *a, const Dim *b) {
    int64_t value, shift;
    if (!dim_is_int(a, &value) || !dim_is_int(b, &shift) || value < 0 || shift < 0 || shift > 62 || value > INT64_MAX >> shift)
        return NULL;
    return dim_int(checker->context->dims, value << shift);
}

const Dim *dim_binary(Checker *checker, BinaryOp op, const Dim *a, const Dim *b) {
    switch (op) {
    case BINARY_LOGIC_OR:
        return operation(checker, PHB_EXPR_OR, a, b);
    case BINARY_LOGIC_AND:
        return operation(checker, PHB_EXPR_AND, a, b);
    case BINARY_EQ:
        return operation(checker, PHB_EXPR_EQ, a, b);
    case BINARY_NE:
        return operation(checker, PHB_EXPR_NE, a, b);
    case BINARY_LT:
        return operation(checker, PHB_EXPR_LT, a, b);
    case BINARY_LE:
        return operation(checker, PHB_EXPR_LE, a, b);
    case BINARY_GT:
        return operation(checker, PHB_EXPR_LT, b, a);
    case BINARY_GE:
        return operation(checker, PHB_EXPR_LE, b, a);
    case BINARY_ADD:
        return operation(checker, PHB_EXPR_ADD, a, b);
    case BINARY_SUB:
        return operation(checker, PHB_EXPR_SUB, a, b);
    case BINARY_MUL:
        return operation(checker, PHB_EXPR_MUL, a, b);
    case BINARY_DIV:
        return operation(checker, PHB_EXPR_DIV, a, b);
    case BINARY_REM:
        return operation(checker, PHB_EXPR_MOD, a, b);
    case BINARY_SHL:
        return shift_left(checker, a, b);
    case BINARY_OR:
    case BINARY_XOR:
    case BINARY_AND:
    case BINARY_SHR:
    case BINARY_OP_COUNT:
        break;
    }
    return NULL;
}

static bool is_logic(BinaryOp op) {
    return op == BINARY_LOGIC_OR || op == BINARY_LOGIC_AND;
}

static bool is_comparison(BinaryOp op) {
    return op == BINARY_EQ || op == BINARY_NE || op == BINARY_LT || op == BINARY_LE || op == BINARY_GT || op == BINARY_GE;
}

static const Dim *fail(Checker *checker, Span span, const char *message) {
    diag_error(checker->context->diag, span, "%s", message);
    return NULL;
}

static const Dim *resolve_name(Checker *checker, Expr *expr, unsigned allowed) {
    Context *context = checker->context;
    Symbol *symbol = scope_find(checker, expr->text);
    if (!symbol && (allowed & DIM_DECLARES)) {
        if (checker->signature->symbolic.count + checker->signature->search.count >= PHB_MAX_DIMS) {
            diag_error(context->diag, expr->span, "a kernel has at most %d dims", PHB_MAX_DIMS);
            scope_poison(checker, expr->text);
            return NULL;
        }
        symbol = scope_declare_dim(checker, SYMBOL_DIM, expr->text, expr->span, dim_name(context->dims, expr->text));
        vec_push(context->arena, &checker->signature->symbolic, expr->text);
    }
    if (!symbol) {
        Names names = {0};
        scope_names(checker, &names);
        diag_error(context->diag, expr->span, "unknown dim '%s'%s", expr->text, suggestion(checker, expr->text, &names));
        scope_poison(checker, expr->text);
        return NULL;
    }
    expr->symbol = symbol;
    symbol->used = true;
    if (type_is_poison(symbol->type))
        return NULL;
    if (symbol->dim && (allowed & (dim_is_static(checker, symbol->dim) ? DIM_SEARCH : DIM_SYMBOLIC)))
        return symbol->dim;
    if (symbol->kind == SYMBOL_LET && symbol->value && symbol->value->dim && dim_is_static(checker, symbol->value->dim))
        return symbol->value->dim;
    if (symbol->kind == SYMBOL_DIM)
        diag_error(context->diag, expr->span, "'%s' is a symbolic dim; integers and search dims stand here", symbol->name);
    else
        diag_error(context->diag, expr->span, "'%s' is not a dim", symbol->name);
    diag_note(context->diag, symbol->span, "'%s' is declared here", symbol->name);
    return NULL;
}

static const Dim *resolve(Checker *checker, Expr *expr, unsigned allowed);

static const Dim *resolve_call(Checker *checker, Expr *expr, unsigned allowed) {
    static const struct {
        const char *name;
        PhbExprOp op;
    } functions[] = {{"ceildiv", PHB_EXPR_CEILDIV}, {"min", PHB_EXPR_MIN}, {"max", PHB_EXPR_MAX}};
    const char *name = expr->left->kind == EXPR_NAME ? expr->left->text : "";
    if (strcmp(name, "extent") == 0 && (allowed & DIM_EXTENTS)) {
        int64_t axis;
        const Symbol *tensor = check_tensor_axis(checker, expr, &axis);
        return tensor ? dim_extent(checker->context->dims, tensor->name, (int)axis) : NULL;
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (strcmp(name, functions[i].name) != 0)
            continue;
        if (expr->args.count != 2) {
            diag_error(checker->context->diag, expr->span, "'%s' takes 2 arguments here, found %d", name, expr->args.count);
            return NULL;
        }
        const Dim *a = resolve(checker, expr->args.items[0], allowed & ~(unsigned)DIM_CONDITION);
        const Dim *b = resolve(checker, expr->args.items[1], allowed & ~(unsigned)DIM_CONDITION);
        if (!a || !b)
            return NULL;
        const Dim *dim = operation(checker, functions[i].op, a, b);
        return dim ? dim : fail(checker, expr->span, "this expression over dims divides by zero or is beyond 64 bits");
    }
    return fail(checker, expr->span, "functions of dims are ceildiv, min and max");
}

static const Dim *resolve_binary(Checker *checker, Expr *expr, unsigned allowed) {
    unsigned of_numbers = allowed & ~(unsigned)DIM_CONDITION;
    bool gives_condition = is_logic(expr->binary) || is_comparison(expr->binary);
    if (gives_condition && !(allowed & DIM_CONDITION))
        return fail(checker, expr->op_span, "a comparison has no place among dims");
    if (!gives_condition && (allowed & DIM_CONDITION))
        return fail(checker, expr->span, "expected a condition, such as 'C <= BC'");
    unsigned of_operands = is_logic(expr->binary) ? allowed : of_numbers;
    const Dim *a = resolve(checker, expr->left, of_operands);
    const Dim *b = resolve(checker, expr->right, of_operands);
    if (!a || !b)
        return NULL;
    if (expr->binary == BINARY_AND || expr->binary == BINARY_OR || expr->binary == BINARY_XOR || expr->binary == BINARY_SHR)
        return fail(checker, expr->op_span, "bitwise operators have no place among dims");
    const Dim *dim = dim_binary(checker, expr->binary, a, b);
    return dim ? dim : fail(checker, expr->span, "this expression over dims divides by zero or is beyond 64 bits");
}

static const Dim *resolve_unary(Checker *checker, Expr *expr, unsigned allowed) {
    if (expr->unary == UNARY_BITNOT)
        return fail(checker, expr->op_span, "bitwise operators have no place among dims");
    bool gives_condition = expr->unary == UNARY_NOT;
    if (gives_condition != ((allowed & DIM_CONDITION) != 0))
        return fail(checker, expr->span, gives_condition ? "a condition has no place among dims" : "expected a condition, such as 'C <= BC'");
    const Dim *a = resolve(checker, expr->left, allowed);
    if (!a)
        return NULL;
    const Dim *dim =
        gives_condition ? operation(checker, PHB_EXPR_NOT, a, NULL) : operation(checker, PHB_EXPR_SUB, dim_int(checker->context->dims, 0), a);
    return dim ? dim : fail(checker, expr->span, "this expression over dims is beyond 64 bits");
}

static const Dim *resolve_leaf(Checker *checker, Expr *expr, unsigned allowed) {
    if (allowed & DIM_CONDITION)
        return fail(checker, expr->span, "expected a condition, such as 'C <= BC'");
    if (allowed == 0 && expr->kind != EXPR_INT) {
        diag_error(checker->context->diag, expr->span, "expected an integer constant, found '%s'", expr_text(checker, expr));
        return NULL;
    }
    switch (expr->kind) {
    case EXPR_INT:
        if (expr->int_value <= INT64_MAX)
            return dim_int(checker->context->dims, (int64_t)expr->int_value);
        return fail(checker, expr->span, "this integer is beyond the range of i64");
    case EXPR_NAME:
        return resolve_name(checker, expr, allowed);
    case EXPR_CALL:
        return resolve_call(checker, expr, allowed);
    case EXPR_FLOAT:
    case EXPR_BOOL:
        diag_error(checker->context->diag, expr->span, "expected an integer, found '%s'", expr_text(checker, expr));
        return NULL;
    default:
        return fail(checker, expr->span,
            allowed & DIM_SYMBOLIC ? "an expression over dims is made of integers, search dims and symbolic dims"
                                   : "what is static is made of integers and search dims");
    }
}

static const Dim *resolve(Checker *checker, Expr *expr, unsigned allowed) {
    if (expr->kind == EXPR_BINARY)
        expr->dim = resolve_binary(checker, expr, allowed);
    else if (expr->kind == EXPR_UNARY)
        expr->dim = resolve_unary(checker, expr, allowed);
    else
        expr->dim = resolve_leaf(checker, expr, allowed);
    return expr->dim;
}

const Dim *dim_resolve(Checker *checker, Expr *expr, unsigned allowed) {
    return resolve(checker, expr, allowed);
}

bool constant_resolve(Checker *checker, Expr *expr, const char *what, int64_t least, int64_t most, int64_t *value) {
    const Dim *dim = dim_resolve(checker, expr, 0);
    if (!dim)
        return false;
    if (dim_is_int(dim, value) && *value >= least && *value <= most)
        return true;
    if (most == INT64_MAX)
        diag_error(checker->context->diag, expr->span, "%s is at least %" PRId64 ", found %s", what, least, dim_text(checker, dim));
    else
        diag_error(checker->context->diag, expr->span, "%s is from %" PRId64 " to %" PRId64 ", found %s", what, least, most, dim_text(checker, dim));
    return false;
}
