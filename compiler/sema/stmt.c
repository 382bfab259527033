/* Statements: declarations and stores. */
#include "compiler/sema/check.h"

static Expr *check_initialiser(Checker *checker, Expr *value, const Type *declared) {
    if (declared)
        return check_value_for(checker, value, declared);
    check_operand(checker, value);
    return literal_settle(checker, value);
}

static void check_declaration(Checker *checker, Stmt *stmt) {
    bool is_let = stmt->kind == STMT_LET;
    const Type *declared = stmt->declared ? type_resolve(checker, stmt->declared, false) : NULL;
    if (stmt->value)
        stmt->value = check_initialiser(checker, stmt->value, declared);
    const Type *type = declared ? declared : stmt->value->type;
    stmt->symbol = scope_declare(checker, is_let ? SYMBOL_LET : SYMBOL_VAR, stmt->name, stmt->name_span, type);
    stmt->symbol->value = stmt->value;
    if (is_let && type->kind == TYPE_SCALAR && !type_is_poison(stmt->value->type))
        stmt->symbol->symbolic = symbolic_value(checker, stmt->value, true);
}

static const char *immutable_text(SymbolKind kind) {
    switch (kind) {
    case SYMBOL_LET:
        return "a let; declare it with 'var' to assign it again";
    case SYMBOL_DIM:
        return "a symbolic dim";
    case SYMBOL_SEARCH_DIM:
        return "a search dim";
    case SYMBOL_LOOP:
        return "a loop variable";
    case SYMBOL_PARAM:
    case SYMBOL_VAR:
        break;
    }
    return "a scalar parameter";
}

static void check_name_target(Checker *checker, Expr *target) {
    Diag *diag = checker->context->diag;
    target->type = type_poison(checker->context->types);
    Symbol *symbol = scope_find(checker, target->text);
    if (!symbol) {
        error_unknown_name(checker, target);
        return;
    }
    target->symbol = symbol;
    if (type_is_poison(symbol->type))
        return;
    if (symbol->type->kind == TYPE_TENSOR) {
        diag_error(diag, target->span, "'%s' is a tensor; store to a slice of it, such as '%s[i :+ n]'", symbol->name, symbol->name);
    } else if (symbol->kind != SYMBOL_VAR) {
        diag_error(diag, target->span, "cannot assign to '%s': it is %s", symbol->name, immutable_text(symbol->kind));
        diag_note(diag, symbol->span, "'%s' is declared here", symbol->name);
    } else {
        symbol->assigned_again = true;
        symbol->value = NULL;
        target->type = symbol->type;
    }
}

static void check_target(Checker *checker, Expr *target) {
    if (target->kind == EXPR_NAME)
        check_name_target(checker, target);
    else
        check_slice(checker, target, true);
}

/* The type of `target op value` by the rules of the operator itself, checked on a binary expression whose left side stands for the target's old
 * value. */
static Expr *check_compound_value(Checker *checker, const Stmt *stmt) {
    Context *context = checker->context;
    const Type *target = stmt->target->type;
    Expr *old = NEW(context->arena, Expr), *operation = NEW(context->arena, Expr);
    old->kind = EXPR_CONVERT; /* checked already */
    old->span = stmt->target->span;
    old->type = target;
    operation->kind = EXPR_BINARY;
    operation->span = operation->op_span = stmt->span;
    operation->binary = stmt->op;
    operation->left = old;
    operation->right = stmt->value;
    check_expr(checker, operation);
    if (type_is_poison(operation->type))
        return stmt->value;
    if (!dtype_stores(operation->type->scalar, target->scalar))
        diag_error(context->diag, stmt->value->span, "'%s=' gives '%s', which '%s' does not take without a conversion", binary_op_text(stmt->op),
            dtype_name(operation->type->scalar), dtype_name(target->scalar));
    else
        shape_broadcasts(checker, stmt->value->span, operation->type, target);
    return operation->right;
}

static void check_assignment(Checker *checker, Stmt *stmt) {
    check_target(checker, stmt->target);
    if (stmt->compound && !type_is_poison(stmt->target->type)) {
        stmt->value = check_compound_value(checker, stmt);
    } else if (!type_is_poison(stmt->target->type)) {
        stmt->value = check_value_for(checker, stmt->value, stmt->target->type);
    } else {
        check_operand(checker, stmt->value);
    }
}

static void check_call_statement(Checker *checker, Expr *call) {
    check_expr(checker, call);
    if (!type_is_poison(call->type))
        diag_error(checker->context->diag, call->span, "nothing uses the value of this call");
}

static void check_stmt(Checker *checker, Stmt *stmt) {
    switch (stmt->kind) {
    case STMT_LET:
    case STMT_VAR:
        check_declaration(checker, stmt);
        break;
    case STMT_ASSIGN:
        check_assignment(checker, stmt);
        break;
    case STMT_CALL:
        check_call_statement(checker, stmt->value);
        break;
    case STMT_FOR:
    case STMT_WHILE:
        error_unsupported(checker, stmt->span, "loops are");
        break;
    case STMT_IF:
        error_unsupported(checker, stmt->span, "'if' is");
        break;
    case STMT_BREAK:
    case STMT_CONTINUE:
        error_unsupported(checker, stmt->span, "loops are");
        break;
    case STMT_RETURN:
        error_unsupported(checker, stmt->span, "'return' is");
        break;
    }
}

void check_block(Checker *checker, const Block *block) {
    scope_push(checker);
    for (int i = 0; i < block->count; i++)
        check_stmt(checker, block->items[i]);
    scope_pop(checker);
}
