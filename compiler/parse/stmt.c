/* Statements and blocks, and how parsing goes on after a mistake in one. */
#include "compiler/parse/parser.h"

static Stmt *stmt_new(Parser *p, StmtKind kind) {
    Stmt *stmt = NEW(p->arena, Stmt);
    stmt->kind = kind;
    stmt->span = p->token.span;
    return stmt;
}

static bool parse_stmt_name(Parser *p, Stmt *stmt) {
    stmt->name = p->token.text;
    stmt->name_span = p->token.span;
    return parser_expect(p, TOKEN_NAME, "a name");
}

/* let name [: type] = expr    var name (: type [= expr] | = expr) */
static bool parse_let_or_var(Parser *p, Stmt *stmt) {
    parser_advance(p);
    if (!parse_stmt_name(p, stmt))
        return false;
    if (parser_accept(p, TOKEN_COLON)) {
        stmt->declared = parse_type(p);
        if (!stmt->declared)
            return false;
    }
    if (stmt->kind == STMT_VAR && stmt->declared && !parser_at(p, TOKEN_ASSIGN))
        return true;
    if (!parser_expect(p, TOKEN_ASSIGN, stmt->declared ? "'='" : "':' or '='"))
        return false;
    stmt->value = parse_expr(p);
    return stmt->value != NULL;
}

/* The rest of `for<unroll n>` after the keyword. */
static bool parse_unroll(Parser *p, Stmt *stmt) {
    if (!parser_accept(p, TOKEN_LT))
        return true;
    if (!parser_at_word(p, "unroll")) {
        parser_unexpected(p, "'unroll'");
        return false;
    }
    parser_advance(p);
    if (!parser_at(p, TOKEN_INT) && !parser_at(p, TOKEN_NAME)) {
        parser_unexpected(p, "an integer or a search dim");
        return false;
    }
    stmt->unroll = parse_primary(p);
    return parser_expect(p, TOKEN_GT, "'>'");
}

/* range(a[, b[, c]]) */
static bool parse_range(Parser *p, Stmt *stmt) {
    if (!parser_at_word(p, "range")) {
        parser_unexpected(p, "'range(..)'");
        return false;
    }
    parser_advance(p);
    Token open = p->token;
    if (!parser_expect(p, TOKEN_LPAREN, "'('") || !parser_enter(p))
        return false;
    ListStep step;
    do {
        if (stmt->range.count == 3) {
            parser_unexpected(p, "')' after start, end and step");
            return false;
        }
        Expr *bound = parse_expr(p);
        if (!bound)
            return false;
        vec_push(p->arena, &stmt->range, bound);
        step = parser_list_step(p, TOKEN_RPAREN, &open, false);
    } while (step == LIST_MORE);
    parser_leave(p);
    return step == LIST_END;
}

static bool parse_for(Parser *p, Stmt *stmt) {
    parser_advance(p);
    return parse_unroll(p, stmt) && parse_stmt_name(p, stmt) && parser_expect(p, TOKEN_IN, "'in'") && parse_range(p, stmt) &&
           parse_block(p, &stmt->body);
}

static bool parse_while(Parser *p, Stmt *stmt) {
    parser_advance(p);
    stmt->value = parse_expr(p);
    return stmt->value && parse_block(p, &stmt->body);
}

static bool parse_if(Parser *p, Stmt *stmt) {
    parser_advance(p);
    stmt->value = parse_expr(p);
    if (!stmt->value || !parse_block(p, &stmt->body))
        return false;
    if (!parser_accept(p, TOKEN_ELSE))
        return true;
    stmt->has_else = true;
    if (!parser_at(p, TOKEN_IF))
        return parse_block(p, &stmt->otherwise);
    Stmt *next = stmt_new(p, STMT_IF);
    if (!parser_enter(p) || !parse_if(p, next))
        return false;
    parser_leave(p);
    next->span = parser_span(p, next->span);
    vec_push(p->arena, &stmt->otherwise, next);
    return true;
}

static bool parse_return(Parser *p, Stmt *stmt) {
    parser_advance(p);
    if (parser_at_statement_end(p))
        return true;
    stmt->value = parse_expr(p);
    return stmt->value != NULL;
}

/* target = value    target op= value    callee(args) */
static bool parse_assign_or_call(Parser *p, Stmt *stmt) {
    Expr *expr = parse_expr(p);
    if (!expr)
        return false;
    BinaryOp op = BINARY_OP_COUNT;
    if (!token_assign(p->token.kind, &stmt->compound, &op)) {
        stmt->kind = STMT_CALL;
        stmt->compound = false;
        stmt->value = expr;
        if (!parser_at_statement_end(p) || expr->kind == EXPR_CALL)
            return true;
        diag_error(p->context->diag, expr->span, "an expression that stands as a statement must be a call");
        return false;
    }
    if (expr->kind != EXPR_NAME && expr->kind != EXPR_INDEX) {
        diag_error(p->context->diag, expr->span, "only a name, an element or a slice can be assigned to");
        return false;
    }
    stmt->target = expr;
    stmt->op = op;
    parser_advance(p);
    stmt->value = parse_expr(p);
    return stmt->value != NULL;
}

/* The start of an expression, except '-': at the start of a line it is taken for the second half of a difference. */
static bool at_operand(const Parser *p) {
    return parser_at(p, TOKEN_NAME) || parser_at(p, TOKEN_INT) || parser_at(p, TOKEN_FLOAT) || parser_at(p, TOKEN_TRUE) ||
           parser_at(p, TOKEN_FALSE) || parser_at(p, TOKEN_LPAREN) || parser_at(p, TOKEN_NOT) || parser_at(p, TOKEN_BITNOT);
}

/* A statement without its end. NULL after an error. */
static Stmt *parse_stmt(Parser *p) {
    static const struct {
        TokenKind token;
        StmtKind kind;
        bool (*parse)(Parser *p, Stmt *stmt);
    } forms[] = {
        {TOKEN_LET, STMT_LET, parse_let_or_var},
        {TOKEN_VAR, STMT_VAR, parse_let_or_var},
        {TOKEN_FOR, STMT_FOR, parse_for},
        {TOKEN_WHILE, STMT_WHILE, parse_while},
        {TOKEN_IF, STMT_IF, parse_if},
        {TOKEN_BREAK, STMT_BREAK, NULL},
        {TOKEN_CONTINUE, STMT_CONTINUE, NULL},
        {TOKEN_RETURN, STMT_RETURN, parse_return},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (!parser_at(p, forms[i].token))
            continue;
        Stmt *stmt = stmt_new(p, forms[i].kind);
        if (!forms[i].parse)
            parser_advance(p);
        else if (!forms[i].parse(p, stmt))
            return NULL;
        stmt->span = parser_span(p, stmt->span);
        return stmt;
    }
    if (at_operand(p)) {
        Stmt *stmt = stmt_new(p, STMT_ASSIGN);
        if (!parse_assign_or_call(p, stmt))
            return NULL;
        stmt->span = parser_span(p, stmt->span);
        return stmt;
    }
    if (parser_at(p, TOKEN_ELSE) && parser_report_once(p))
        diag_error(p->context->diag, p->token.span, "'else' without an 'if' before it");
    else
        parser_unexpected(p, "a statement");
    return NULL;
}

static bool ends_with_block(const Stmt *stmt) {
    return stmt->kind == STMT_FOR || stmt->kind == STMT_WHILE || stmt->kind == STMT_IF;
}

/* Reads on to the end of a statement that is left out of the tree. Its blocks are read for the mistakes in them. */
static void stmt_skip(Parser *p) {
    while (!parser_at_statement_end(p)) {
        if (!parser_at(p, TOKEN_LBRACE)) {
            parser_advance(p);
            continue;
        }
        Block ignored = {0};
        if (!parse_block(p, &ignored) || !parser_at(p, TOKEN_ELSE))
            return;
    }
}

bool parse_block(Parser *p, Block *block) {
    Token open = p->token;
    if (!parser_expect(p, TOKEN_LBRACE, "'{'") || !parser_enter(p))
        return false;
    int depth = p->depth;
    while (!parser_at(p, TOKEN_RBRACE)) {
        if (parser_accept(p, TOKEN_NEWLINE) || parser_accept(p, TOKEN_SEMICOLON))
            continue;
        if (parser_at(p, TOKEN_END) || parser_at_declaration(p)) {
            parser_unclosed(p, "'}'", &open);
            return false;
        }
        Stmt *stmt = parse_stmt(p);
        if (stmt && !parser_at_statement_end(p) && !ends_with_block(stmt)) {
            parser_unexpected(p, stmt->kind != STMT_CALL ? "the end of the line or ';'"
                                 : parser_at(p, TOKEN_NAME)
                                     ? "an assignment, or the end of the line or ';' (variables are declared by 'let' and 'var')"
                                     : "an assignment, or the end of the line or ';'");
            stmt = NULL;
        }
        if (stmt) {
            vec_push(p->arena, block, stmt);
        } else {
            p->depth = depth;
            stmt_skip(p);
            p->depth = depth;
        }
    }
    parser_advance(p);
    parser_leave(p);
    return true;
}
