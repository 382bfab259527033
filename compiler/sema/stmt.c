/* Statements: declarations, stores, control. */
#include "compiler/sema/check.h"

static Expr *check_initialiser(Checker *checker, Expr *value, const Type *declared) {
    if (declared)
        return check_value_for(checker, value, declared);
    check_operand(checker, value);
    return literal_settle(checker, value);
}

/* Shared memory has no first value: it is undefined until written. */
static bool is_misdeclared_shared(Checker *checker, const Stmt *stmt, const Type *declared) {
    if (!declared || declared->kind != TYPE_SHARED)
        return false;
    note_thread_use(checker, stmt->span);
    if (stmt->value)
        diag_error(checker->context->diag, stmt->value->span, "shared memory has no first value; write 'var %s: %s' and store to slices of it",
            stmt->name, type_text(checker, declared));
    return stmt->value != NULL;
}

static void check_declaration(Checker *checker, Stmt *stmt) {
    bool is_let = stmt->kind == STMT_LET;
    const Type *declared = stmt->declared ? type_resolve(checker, stmt->declared, PLACE_VARIABLE) : NULL;
    if (is_misdeclared_shared(checker, stmt, declared))
        declared = type_poison(checker->context->types);
    if (stmt->value)
        stmt->value = check_initialiser(checker, stmt->value, declared);
    const Type *type = declared ? declared : stmt->value->type;
    stmt->symbol = scope_declare(checker, is_let ? SYMBOL_LET : SYMBOL_VAR, stmt->name, stmt->name_span, type);
    stmt->symbol->value = stmt->value;
    if (type->kind == TYPE_SHARED)
        vec_push(checker->context->arena, &checker->shared, stmt->symbol);
    if (is_let && type->kind == TYPE_SCALAR && !type_is_poison(stmt->value->type))
        stmt->symbol->symbolic = symbolic_value(checker, stmt->value, true);
}

static const char *immutable_text(const Symbol *symbol) {
    switch (symbol->kind) {
    case SYMBOL_LET:
        return symbol->is_fn_param ? "a parameter; copy it into a 'var'" : "a let; declare it with 'var' to assign it again";
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
        diag_error(diag, target->span, "'%s' is a tensor; store to a slice of it, such as '%s[i :+ n]'", target->text, target->text);
    } else if (symbol->type->kind == TYPE_SHARED) {
        diag_error(diag, target->span, "'%s' is shared memory; store to a slice of it, such as '%s[i :+ n]'", target->text, target->text);
    } else if (symbol->kind != SYMBOL_VAR) {
        diag_error(diag, target->span, "cannot assign to '%s': it is %s", symbol->name, immutable_text(symbol));
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
    bool is_for_effect = call->kind == EXPR_INLINE || call->type->kind == TYPE_VOID || builtin_table[call->builtin].result == RESULT_ATOMIC;
    if (!is_for_effect && !type_is_poison(call->type))
        diag_error(checker->context->diag, call->span, "nothing uses the value of this call");
}

/* ---- control ---- */

static void check_condition(Checker *checker, const char *what, Expr *cond) {
    check_operand(checker, cond);
    const Type *type = cond->type;
    if (type_is_poison(type) || type == type_scalar(checker->context->types, PHB_BOOL))
        return;
    diag_error(checker->context->diag, cond->span, "the condition of '%s' is a scalar 'bool', found '%s'%s", what, type_text(checker, type),
        type->kind == TYPE_TILE && type->scalar == PHB_BOOL ? "; write 'any(..)' or 'all(..)', or choose by 'where'" : "");
}

static bool all_positive(const int64_t *values, int count) {
    return count == 1 && values[0] >= 1;
}

static void check_unroll(Checker *checker, Expr *unroll) {
    const char *failure = "";
    const Dim *dim = dim_resolve(checker, unroll, DIM_SEARCH);
    if (dim && leaf_ask(checker, &dim, 1, all_positive, &failure) != LEAF_ALWAYS)
        diag_error(checker->context->diag, unroll->span, "a loop is unrolled at least once; this one is not%s", failure);
}

static void check_loop_body(Checker *checker, const Block *body) {
    checker->loop_depth++;
    check_block(checker, body);
    checker->loop_depth--;
}

static void check_for(Checker *checker, Stmt *stmt) {
    static const char *const parts[3][3] = {{"the end of 'range'"}, {"the start of 'range'", "the end of 'range'"},
        {"the start of 'range'", "the end of 'range'", "the step of 'range'"}};
    Context *context = checker->context;
    int count = stmt->range.count;
    int64_t step;
    for (int i = 0; i < count; i++)
        stmt->range.items[i] = check_index(checker, stmt->range.items[i], parts[count - 1][i]);
    if (count == 3 && stmt->range.items[2]->dim && dim_is_int(stmt->range.items[2]->dim, &step) && step == 0)
        diag_error(context->diag, stmt->range.items[2]->span, "the step of 'range' is not 0");
    if (stmt->unroll)
        check_unroll(checker, stmt->unroll);
    scope_push(checker);
    stmt->symbol = scope_declare(checker, SYMBOL_LOOP, stmt->name, stmt->name_span, type_scalar(context->types, PHB_I64));
    check_loop_body(checker, &stmt->body);
    scope_pop(checker);
}

static void check_jump(Checker *checker, const Stmt *stmt, const char *what) {
    if (checker->loop_depth == 0)
        diag_error(checker->context->diag, stmt->span, "'%s' stands outside of a loop", what);
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
        check_for(checker, stmt);
        break;
    case STMT_WHILE:
        check_condition(checker, "while", stmt->value);
        check_loop_body(checker, &stmt->body);
        break;
    case STMT_IF:
        check_condition(checker, "if", stmt->value);
        check_block(checker, &stmt->body);
        check_block(checker, &stmt->otherwise);
        break;
    case STMT_BREAK:
        check_jump(checker, stmt, "break");
        break;
    case STMT_CONTINUE:
        check_jump(checker, stmt, "continue");
        break;
    case STMT_RETURN:
        check_return(checker, stmt);
        break;
    }
}

void check_block(Checker *checker, const Block *block) {
    scope_push(checker);
    for (int i = 0; i < block->count; i++)
        check_stmt(checker, block->items[i]);
    scope_pop(checker);
}
