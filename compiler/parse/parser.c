/* Recursive descent, one token ahead. A function that cannot go on reports what it expected and gives NULL (or false); callers pass that on up to the
 * statement or declaration, which is left out of the tree, and parsing goes on after it. No token is reported twice, so that one mistake gives one
 * message. */
#include "compiler/parse/lexer.h"

#include <string.h>

#define MAX_PRECEDENCE 10

static const int precedences[BINARY_OP_COUNT] = {
#define X(id, text, precedence) [BINARY_##id] = precedence,
    AST_BINARY_OPS(X)
#undef X
};

typedef struct Parser {
    Context *context;
    Arena *arena;
    Lexer lexer;
    Token token;             /* the next one, not consumed yet */
    VEC(uint32_t) code_ends; /* by line: the column after the last token consumed there */
    int depth;
    bool has_reported;
    size_t reported; /* offset of the token last reported */
    bool gave_up;    /* nested too deep: nothing more is read, or reported */
} Parser;

/* ---- tokens ---- */

static void advance(Parser *p) {
    const Token *token = &p->token;
    if (token->kind != TOKEN_NEWLINE && token->kind != TOKEN_END) {
        while ((uint32_t)p->code_ends.count < token->span.line)
            vec_push(p->arena, &p->code_ends, 0);
        p->code_ends.items[token->span.line - 1] = token->span.column + token->span.length;
    }
    if (!p->gave_up)
        p->token = lexer_next(&p->lexer);
}

static bool at(const Parser *p, TokenKind kind) {
    return p->token.kind == kind;
}

static bool accept(Parser *p, TokenKind kind) {
    bool found = at(p, kind);
    if (found)
        advance(p);
    return found;
}

static bool at_word(const Parser *p, const char *word) {
    return at(p, TOKEN_NAME) && strcmp(p->token.text, word) == 0;
}

/* The first token of the next declaration; in the middle of a line it is a mistake in this one. */
static bool at_declaration(const Parser *p) {
    return p->token.line_start && (at(p, TOKEN_KERNEL) || at(p, TOKEN_FN) || at(p, TOKEN_AT));
}

static bool at_statement_end(const Parser *p) {
    return at(p, TOKEN_NEWLINE) || at(p, TOKEN_SEMICOLON) || at(p, TOKEN_RBRACE) || at(p, TOKEN_END);
}

/* From the start of `start` to the end of the last token consumed, cut at the first line's end. */
static Span span_since(const Parser *p, Span start) {
    start.length = p->code_ends.items[start.line - 1] - start.column;
    return start;
}

/* ---- errors ---- */

/* Whether the next token is one that nothing was said about yet; now something is. */
static bool report_once(Parser *p) {
    if (p->gave_up || at(p, TOKEN_ERROR) || (p->has_reported && p->reported == p->token.offset))
        return false;
    p->has_reported = true;
    p->reported = p->token.offset;
    return true;
}

static bool is_operator(TokenKind kind) {
    BinaryOp op;
    bool compound;
    return token_binary(kind, &op) || token_assign(kind, &compound, &op) || kind == TOKEN_COMMA || kind == TOKEN_ARROW;
}

/* Reports the next token where `expected` should stand; gives whether it did. */
static bool unexpected(Parser *p, const char *expected) {
    if (at(p, TOKEN_NEWLINE) && is_operator(lexer_after_newline(&p->lexer)->kind))
        advance(p);
    if (!report_once(p))
        return false;
    const Token *token = &p->token;
    if (token->line_start && is_operator(token->kind) && p->lexer.brackets == 0)
        diag_error(p->context->diag, token->span, "a line cannot start with '%s': end the line before with it", token->text);
    else if (token->kind == TOKEN_NEWLINE || token->kind == TOKEN_END)
        diag_error(p->context->diag, token->span, "expected %s, found %s", expected, token_text(token->kind));
    else
        diag_error(p->context->diag, token->span, "expected %s, found '%.60s'", expected, token->text);
    return true;
}

static bool expect(Parser *p, TokenKind kind, const char *expected) {
    if (accept(p, kind))
        return true;
    unexpected(p, expected);
    return false;
}

/* Reports a missing closing bracket; says where it was opened if that is on another line. */
static void unclosed(Parser *p, const char *expected, const Token *open) {
    Span found = p->token.span;
    if (unexpected(p, expected) && found.line != open->span.line)
        diag_note(p->context->diag, open->span, "to match this '%s'", open->text);
}

/* Entered at each bracket, block and prefix operator; left on the way out where all went well (statements and declarations put the depth back
 * themselves). */
static bool depth_enter(Parser *p) {
    if (p->depth++ < PARSE_MAX_DEPTH)
        return true;
    if (report_once(p))
        diag_error(p->context->diag, p->token.span, "nesting deeper than %d", PARSE_MAX_DEPTH);
    p->gave_up = true;
    p->token = (Token){.kind = TOKEN_END, .span = p->token.span, .offset = p->token.offset};
    return false;
}

static void depth_leave(Parser *p) {
    p->depth--;
}

/* After an item of a list. */
typedef enum ListStep { LIST_MORE, LIST_END, LIST_ERROR } ListStep;

/* Passes the comma before another item, or `close` with the comma that may stand before it if `trailing`. */
static ListStep list_step(Parser *p, TokenKind close, const Token *open, bool trailing) {
    bool comma = accept(p, TOKEN_COMMA);
    if (comma && !(trailing && at(p, close)))
        return LIST_MORE;
    if (accept(p, close))
        return LIST_END;
    unclosed(p, close == TOKEN_RPAREN ? "',' or ')'" : "',' or ']'", open);
    return LIST_ERROR;
}

/* ---- expressions ---- */

static Expr *parse_expr(Parser *p);

static Expr *expr_new(Parser *p, ExprKind kind, Span start) {
    Expr *expr = NEW(p->arena, Expr);
    expr->kind = kind;
    expr->height = 1;
    expr->span = start;
    return expr;
}

static void expr_cover(Expr *expr, const Expr *child) {
    if (child && child->height >= expr->height)
        expr->height = child->height + 1;
}

/* Closes an expression at the last token consumed. NULL where its tree has become too high. */
static Expr *expr_finish(Parser *p, Expr *expr) {
    expr->span = span_since(p, expr->span);
    if (expr->height <= PARSE_MAX_HEIGHT)
        return expr;
    if (report_once(p))
        diag_error(p->context->diag, expr->span, "an expression of more than %d operators in a row: name a part of it with 'let'", PARSE_MAX_HEIGHT);
    return NULL;
}

static bool is_comparison(const Expr *expr) {
    bool bare = expr->kind == EXPR_BINARY && expr->span.line == expr->left->span.line && expr->span.column == expr->left->span.column;
    return bare && expr->binary >= BINARY_EQ && expr->binary <= BINARY_GE; /* a span in parentheses starts with its '(' */
}

static Expr *binary_new(Parser *p, Expr *left, BinaryOp op, Span op_span, Expr *right) {
    bool bitwise = op == BINARY_AND || op == BINARY_OR || op == BINARY_XOR;
    if (bitwise && is_comparison(left) != is_comparison(right)) {
        const Expr *comparison = is_comparison(left) ? left : right;
        const char *text = binary_op_text(comparison->binary);
        diag_warning(p->context->diag, WARN_PRECEDENCE, comparison->op_span,
            "'%s' binds tighter than '%s', as in C: write the parentheses that are meant", text, binary_op_text(op));
    }
    Expr *expr = expr_new(p, EXPR_BINARY, left->span);
    expr->binary = op;
    expr->op_span = op_span;
    expr->left = left;
    expr->right = right;
    expr_cover(expr, left);
    expr_cover(expr, right);
    return expr_finish(p, expr);
}

/* '(' expr ')'. The expression's span takes the parentheses in. */
static Expr *parse_parenthesised(Parser *p) {
    Token open = p->token;
    advance(p);
    Expr *expr = depth_enter(p) ? parse_expr(p) : NULL;
    if (!expr)
        return NULL;
    if (!accept(p, TOKEN_RPAREN)) {
        unclosed(p, "')'", &open);
        return NULL;
    }
    depth_leave(p);
    expr->span = span_since(p, open.span);
    return expr;
}

static Expr *parse_primary(Parser *p) {
    Token token = p->token;
    Expr *expr;
    switch (token.kind) {
    case TOKEN_INT:
        expr = expr_new(p, EXPR_INT, token.span);
        expr->int_value = token.int_value;
        break;
    case TOKEN_FLOAT:
        expr = expr_new(p, EXPR_FLOAT, token.span);
        expr->float_value = token.float_value;
        break;
    case TOKEN_TRUE:
    case TOKEN_FALSE:
        expr = expr_new(p, EXPR_BOOL, token.span);
        expr->bool_value = token.kind == TOKEN_TRUE;
        break;
    case TOKEN_NAME:
        expr = expr_new(p, EXPR_NAME, token.span);
        break;
    case TOKEN_LPAREN:
        return parse_parenthesised(p);
    default:
        unexpected(p, "an expression");
        return NULL;
    }
    expr->text = token.text;
    advance(p);
    return expr;
}

static bool at_sub_end(const Parser *p) {
    return at(p, TOKEN_COMMA) || at(p, TOKEN_RBRACKET);
}

static bool parse_sub(Parser *p, Sub *sub) {
    *sub = (Sub){.span = p->token.span};
    if (accept(p, TOKEN_COLON)) {
        sub->kind = at_sub_end(p) ? SUB_ALL : SUB_TO;
    } else if (at(p, TOKEN_COLON_PLUS)) {
        unexpected(p, "the start of the slice before ':+'");
        return false;
    } else {
        sub->a = parse_expr(p);
        if (!sub->a)
            return false;
        if (accept(p, TOKEN_COLON))
            sub->kind = at_sub_end(p) ? SUB_FROM : SUB_RANGE;
        else if (accept(p, TOKEN_COLON_PLUS))
            sub->kind = SUB_COUNT;
        else
            sub->kind = SUB_POINT;
    }
    if (sub->kind == SUB_TO || sub->kind == SUB_RANGE || sub->kind == SUB_COUNT) {
        sub->b = parse_expr(p);
        if (!sub->b)
            return false;
    }
    sub->span = span_since(p, sub->span);
    return true;
}

/* The subscripts after '[', to the ']'. */
static bool parse_subs(Parser *p, Expr *index, const Token *open) {
    ListStep step;
    do {
        Sub sub;
        if (!parse_sub(p, &sub))
            return false;
        expr_cover(index, sub.a);
        expr_cover(index, sub.b);
        vec_push(p->arena, &index->subs, sub);
        step = list_step(p, TOKEN_RBRACKET, open, false);
    } while (step == LIST_MORE);
    return step == LIST_END;
}

/* The arguments after '(', to the ')'. */
static bool parse_args(Parser *p, Expr *call, const Token *open) {
    if (accept(p, TOKEN_RPAREN))
        return true;
    ListStep step;
    do {
        Expr *arg = parse_expr(p);
        if (!arg)
            return false;
        expr_cover(call, arg);
        vec_push(p->arena, &call->args, arg);
        step = list_step(p, TOKEN_RPAREN, open, true);
    } while (step == LIST_MORE);
    return step == LIST_END;
}

/* One subscript list, argument list or field after `base`. */
static Expr *parse_suffix(Parser *p, Expr *base) {
    Token open = p->token;
    ExprKind kind = open.kind == TOKEN_LBRACKET ? EXPR_INDEX : open.kind == TOKEN_LPAREN ? EXPR_CALL : EXPR_FIELD;
    Expr *expr = expr_new(p, kind, base->span);
    expr->left = base;
    expr_cover(expr, base);
    advance(p);
    if (kind == EXPR_FIELD) {
        expr->text = p->token.text;
        expr->op_span = p->token.span;
        return expect(p, TOKEN_NAME, "a name after '.'") ? expr_finish(p, expr) : NULL;
    }
    if (!depth_enter(p) || !(kind == EXPR_INDEX ? parse_subs(p, expr, &open) : parse_args(p, expr, &open)))
        return NULL;
    depth_leave(p);
    return expr_finish(p, expr);
}

static Expr *parse_postfix(Parser *p) {
    Expr *expr = parse_primary(p);
    while (expr && (at(p, TOKEN_LBRACKET) || at(p, TOKEN_LPAREN) || at(p, TOKEN_DOT)))
        expr = parse_suffix(p, expr);
    return expr;
}

static Expr *parse_unary(Parser *p) {
    if (!at(p, TOKEN_SUB) && !at(p, TOKEN_NOT) && !at(p, TOKEN_BITNOT))
        return parse_postfix(p);
    Expr *expr = expr_new(p, EXPR_UNARY, p->token.span);
    expr->unary = at(p, TOKEN_SUB) ? UNARY_NEG : at(p, TOKEN_NOT) ? UNARY_NOT : UNARY_BITNOT;
    expr->op_span = p->token.span;
    advance(p);
    expr->left = depth_enter(p) ? parse_unary(p) : NULL;
    if (!expr->left)
        return NULL;
    depth_leave(p);
    expr_cover(expr, expr->left);
    return expr_finish(p, expr);
}

/* Operators that wait for their right side are kept on a stack of our own, which cannot hold more than one of each precedence: the C stack grows with
 * brackets and prefix operators alone. */
static Expr *parse_expr(Parser *p) {
    struct {
        Expr *left;
        BinaryOp op;
        Span op_span;
    } waiting[MAX_PRECEDENCE];
    int count = 0;
    Expr *operand = parse_unary(p);
    while (operand) {
        BinaryOp op = BINARY_OP_COUNT;
        int precedence = token_binary(p->token.kind, &op) ? precedences[op] : 0;
        while (operand && count > 0 && precedences[waiting[count - 1].op] >= precedence) {
            count--;
            operand = binary_new(p, waiting[count].left, waiting[count].op, waiting[count].op_span, operand);
        }
        if (precedence == 0 || !operand)
            return operand;
        waiting[count].left = operand;
        waiting[count].op = op;
        waiting[count].op_span = p->token.span;
        count++;
        advance(p);
        operand = parse_unary(p);
    }
    return NULL;
}

/* ---- types ---- */

#define SHAPED_TYPES(X)                                                                                                                              \
    X("tensor", TYPE_TENSOR)                                                                                                                         \
    X("tile", TYPE_TILE)                                                                                                                             \
    X("shared", TYPE_SHARED)

static const struct {
    const char *name;
    TypeKind kind;
    PhbDType scalar;
} type_names[] = {
#define X(name, kind) {name, kind, PHB_DTYPE_COUNT},
    SHAPED_TYPES(X)
#undef X
#define X(id, text, size, npy) {text, TYPE_SCALAR, PHB_##id},
        PHB_DTYPES(X)
#undef X
};

#define TYPE_NAMES ((int)(sizeof type_names / sizeof *type_names))

/* The index in type_names of the next token, which is consumed; -1 after an error. `scalar`: only those. */
static int parse_type_name(Parser *p, bool scalar) {
    if (!at(p, TOKEN_NAME)) {
        unexpected(p, scalar ? "a scalar type" : "a type");
        return -1;
    }
    const char *candidates[TYPE_NAMES];
    int count = 0;
    for (int i = 0; i < TYPE_NAMES; i++) {
        if (scalar && type_names[i].kind != TYPE_SCALAR)
            continue;
        if (at_word(p, type_names[i].name)) {
            advance(p);
            return i;
        }
        candidates[count++] = type_names[i].name;
    }
    const char *nearest = nearest_name(p->token.text, candidates, count);
    if (report_once(p))
        diag_error(p->context->diag, p->token.span, "'%.60s' is not a %stype%s%s%s", p->token.text, scalar ? "scalar " : "",
            nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
    return -1;
}

static bool parse_type_dims(Parser *p, TypeExpr *type) {
    Token open = p->token;
    if (!expect(p, TOKEN_LBRACKET, "'[' and the extents of the type") || !depth_enter(p))
        return false;
    ListStep step;
    do {
        Expr *dim = parse_expr(p);
        if (!dim)
            return false;
        vec_push(p->arena, &type->dims, dim);
        step = list_step(p, TOKEN_RBRACKET, &open, false);
    } while (step == LIST_MORE);
    depth_leave(p);
    return step == LIST_END;
}

static TypeExpr *parse_type(Parser *p) {
    Span start = p->token.span;
    int found = parse_type_name(p, false);
    if (found < 0)
        return NULL;
    TypeExpr *type = NEW(p->arena, TypeExpr);
    type->kind = type_names[found].kind;
    if (type->kind != TYPE_SCALAR) {
        if (!expect(p, TOKEN_LT, "'<' and a scalar type"))
            return NULL;
        found = parse_type_name(p, true);
        if (found < 0 || !expect(p, TOKEN_GT, "'>'") || !parse_type_dims(p, type))
            return NULL;
    }
    type->scalar = type_names[found].scalar;
    type->span = span_since(p, start);
    return type;
}

/* ---- statements ---- */

static bool parse_block(Parser *p, Block *block);

static Stmt *stmt_new(Parser *p, StmtKind kind) {
    Stmt *stmt = NEW(p->arena, Stmt);
    stmt->kind = kind;
    stmt->span = p->token.span;
    return stmt;
}

static bool parse_stmt_name(Parser *p, Stmt *stmt) {
    stmt->name = p->token.text;
    stmt->name_span = p->token.span;
    return expect(p, TOKEN_NAME, "a name");
}

/* let name [: type] = expr    var name (: type [= expr] | = expr) */
static bool parse_let_or_var(Parser *p, Stmt *stmt) {
    advance(p);
    if (!parse_stmt_name(p, stmt))
        return false;
    if (accept(p, TOKEN_COLON)) {
        stmt->declared = parse_type(p);
        if (!stmt->declared)
            return false;
    }
    if (stmt->kind == STMT_VAR && stmt->declared && !at(p, TOKEN_ASSIGN))
        return true;
    if (!expect(p, TOKEN_ASSIGN, stmt->declared ? "'='" : "':' or '='"))
        return false;
    stmt->value = parse_expr(p);
    return stmt->value != NULL;
}

/* The rest of `for<unroll n>` after the keyword. */
static bool parse_unroll(Parser *p, Stmt *stmt) {
    if (!accept(p, TOKEN_LT))
        return true;
    if (!at_word(p, "unroll")) {
        unexpected(p, "'unroll'");
        return false;
    }
    advance(p);
    if (!at(p, TOKEN_INT) && !at(p, TOKEN_NAME)) {
        unexpected(p, "an integer or a search dim");
        return false;
    }
    stmt->unroll = parse_primary(p);
    return expect(p, TOKEN_GT, "'>'");
}

/* range(a[, b[, c]]) */
static bool parse_range(Parser *p, Stmt *stmt) {
    if (!at_word(p, "range")) {
        unexpected(p, "'range(..)'");
        return false;
    }
    advance(p);
    Token open = p->token;
    if (!expect(p, TOKEN_LPAREN, "'('") || !depth_enter(p))
        return false;
    ListStep step;
    do {
        if (stmt->range.count == 3) {
            unexpected(p, "')' after start, end and step");
            return false;
        }
        Expr *bound = parse_expr(p);
        if (!bound)
            return false;
        vec_push(p->arena, &stmt->range, bound);
        step = list_step(p, TOKEN_RPAREN, &open, false);
    } while (step == LIST_MORE);
    depth_leave(p);
    return step == LIST_END;
}

static bool parse_for(Parser *p, Stmt *stmt) {
    advance(p);
    return parse_unroll(p, stmt) && parse_stmt_name(p, stmt) && expect(p, TOKEN_IN, "'in'") && parse_range(p, stmt) && parse_block(p, &stmt->body);
}

static bool parse_while(Parser *p, Stmt *stmt) {
    advance(p);
    stmt->value = parse_expr(p);
    return stmt->value && parse_block(p, &stmt->body);
}

static bool parse_if(Parser *p, Stmt *stmt) {
    advance(p);
    stmt->value = parse_expr(p);
    if (!stmt->value || !parse_block(p, &stmt->body))
        return false;
    if (!accept(p, TOKEN_ELSE))
        return true;
    stmt->has_else = true;
    if (!at(p, TOKEN_IF))
        return parse_block(p, &stmt->otherwise);
    Stmt *next = stmt_new(p, STMT_IF);
    if (!depth_enter(p) || !parse_if(p, next))
        return false;
    depth_leave(p);
    next->span = span_since(p, next->span);
    vec_push(p->arena, &stmt->otherwise, next);
    return true;
}

static bool parse_return(Parser *p, Stmt *stmt) {
    advance(p);
    if (at_statement_end(p))
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
        if (!at_statement_end(p) || expr->kind == EXPR_CALL)
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
    advance(p);
    stmt->value = parse_expr(p);
    return stmt->value != NULL;
}

/* The start of an expression, except '-': at the start of a line it is taken for the second half of a difference. */
static bool at_operand(const Parser *p) {
    return at(p, TOKEN_NAME) || at(p, TOKEN_INT) || at(p, TOKEN_FLOAT) || at(p, TOKEN_TRUE) || at(p, TOKEN_FALSE) || at(p, TOKEN_LPAREN) ||
           at(p, TOKEN_NOT) || at(p, TOKEN_BITNOT);
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
        if (!at(p, forms[i].token))
            continue;
        Stmt *stmt = stmt_new(p, forms[i].kind);
        if (!forms[i].parse)
            advance(p);
        else if (!forms[i].parse(p, stmt))
            return NULL;
        stmt->span = span_since(p, stmt->span);
        return stmt;
    }
    if (at_operand(p)) {
        Stmt *stmt = stmt_new(p, STMT_ASSIGN);
        if (!parse_assign_or_call(p, stmt))
            return NULL;
        stmt->span = span_since(p, stmt->span);
        return stmt;
    }
    if (at(p, TOKEN_ELSE) && report_once(p))
        diag_error(p->context->diag, p->token.span, "'else' without an 'if' before it");
    else
        unexpected(p, "a statement");
    return NULL;
}

static bool ends_with_block(const Stmt *stmt) {
    return stmt->kind == STMT_FOR || stmt->kind == STMT_WHILE || stmt->kind == STMT_IF;
}

/* Reads on to the end of a statement that is left out of the tree. Its blocks are read for the mistakes in them. */
static void stmt_skip(Parser *p) {
    while (!at_statement_end(p) && !at_declaration(p)) {
        if (!at(p, TOKEN_LBRACE)) {
            advance(p);
            continue;
        }
        Block ignored = {0};
        if (!parse_block(p, &ignored) || !at(p, TOKEN_ELSE))
            return;
    }
}

/* '{' statements '}'. False where a brace is missing; mistakes within are dealt with here. */
static bool parse_block(Parser *p, Block *block) {
    Token open = p->token;
    if (!expect(p, TOKEN_LBRACE, "'{'") || !depth_enter(p))
        return false;
    int depth = p->depth;
    while (!at(p, TOKEN_RBRACE)) {
        if (accept(p, TOKEN_NEWLINE) || accept(p, TOKEN_SEMICOLON))
            continue;
        if (at(p, TOKEN_END) || at_declaration(p)) {
            unclosed(p, "'}'", &open);
            return false;
        }
        Stmt *stmt = parse_stmt(p);
        if (stmt && !at_statement_end(p) && !ends_with_block(stmt)) {
            unexpected(p, stmt->kind == STMT_CALL ? "an assignment, or the end of the line or ';'" : "the end of the line or ';'");
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
    advance(p);
    depth_leave(p);
    return true;
}

/* ---- declarations ---- */

static bool parse_expr_list(Parser *p, AttrArg *arg) {
    Token open = p->token;
    if (!expect(p, TOKEN_LBRACKET, "'[' and a list of values") || !depth_enter(p))
        return false;
    arg->is_list = true;
    ListStep step;
    do {
        Expr *item = parse_expr(p);
        if (!item)
            return false;
        vec_push(p->arena, &arg->items, item);
        step = list_step(p, TOKEN_RBRACKET, &open, true);
    } while (step == LIST_MORE);
    depth_leave(p);
    return step == LIST_END;
}

/* name in [..]    name = value    name = [..]    value */
static bool parse_attr_arg(Parser *p, AttrArg *arg) {
    *arg = (AttrArg){.span = p->token.span};
    arg->value = parse_expr(p);
    if (!arg->value)
        return false;
    if (arg->value->kind == EXPR_NAME && (at(p, TOKEN_IN) || at(p, TOKEN_ASSIGN))) {
        arg->name = arg->value->text;
        arg->name_span = arg->value->span;
        arg->value = NULL;
        arg->is_in = at(p, TOKEN_IN);
        advance(p);
        if (arg->is_in || at(p, TOKEN_LBRACKET)) {
            if (!parse_expr_list(p, arg))
                return false;
        } else {
            arg->value = parse_expr(p);
            if (!arg->value)
                return false;
        }
    }
    arg->span = span_since(p, arg->span);
    return true;
}

static bool parse_attr(Parser *p, Attr *attr) {
    *attr = (Attr){.span = p->token.span};
    advance(p);
    attr->name = p->token.text;
    if (!expect(p, TOKEN_NAME, "the name of an attribute"))
        return false;
    attr->span = span_since(p, attr->span);
    Token open = p->token;
    if (!accept(p, TOKEN_LPAREN))
        return true;
    if (!depth_enter(p))
        return false;
    ListStep step;
    do {
        AttrArg arg;
        if (!parse_attr_arg(p, &arg))
            return false;
        vec_push(p->arena, &attr->args, arg);
        step = list_step(p, TOKEN_RPAREN, &open, true);
    } while (step == LIST_MORE);
    depth_leave(p);
    return step == LIST_END;
}

static bool parse_param(Parser *p, ParamDecl *param, bool needs_type) {
    *param = (ParamDecl){.name = p->token.text, .span = p->token.span};
    if (!expect(p, TOKEN_NAME, "the name of a parameter"))
        return false;
    if (accept(p, TOKEN_COLON)) {
        param->type = parse_type(p);
        return param->type != NULL;
    }
    if (needs_type) {
        diag_error(p->context->diag, param->span, "the parameter '%.60s' of a kernel needs a type", param->name);
        param->type = NEW(p->arena, TypeExpr);
        *param->type = (TypeExpr){.span = param->span, .kind = TYPE_POISON};
    }
    return true;
}

static bool parse_params(Parser *p, Decl *decl) {
    Token open = p->token;
    if (!expect(p, TOKEN_LPAREN, "'(' and parameters"))
        return false;
    if (accept(p, TOKEN_RPAREN))
        return true;
    ListStep step;
    do {
        ParamDecl param;
        if (!parse_param(p, &param, decl->is_kernel))
            return false;
        vec_push(p->arena, &decl->params, param);
        step = list_step(p, TOKEN_RPAREN, &open, true);
    } while (step == LIST_MORE);
    return step == LIST_END;
}

static bool parse_decl(Parser *p, Decl *decl) {
    while (at(p, TOKEN_AT)) {
        Attr attr;
        if (!parse_attr(p, &attr))
            return false;
        vec_push(p->arena, &decl->attrs, attr);
    }
    decl->is_kernel = at(p, TOKEN_KERNEL);
    decl->span = p->token.span;
    if (!decl->is_kernel && !at(p, TOKEN_FN)) {
        unexpected(p, decl->attrs.count ? "'kernel' after its attributes" : "'kernel', 'fn' or an attribute");
        return false;
    }
    if (!decl->is_kernel && decl->attrs.count)
        diag_error(p->context->diag, decl->attrs.items[0].span, "an attribute belongs to a kernel, not to a fn");
    advance(p);
    decl->name = p->token.text;
    decl->name_span = p->token.span;
    if (!expect(p, TOKEN_NAME, "a name") || !parse_params(p, decl))
        return false;
    if (!decl->is_kernel && accept(p, TOKEN_ARROW)) {
        decl->result = parse_type(p);
        if (!decl->result)
            return false;
    }
    return parse_block(p, &decl->body);
}

/* Reads on to the next declaration. A block on the way is read for the mistakes in it. */
static void decl_skip(Parser *p) {
    while (!at(p, TOKEN_END) && !at(p, TOKEN_KERNEL) && !at(p, TOKEN_FN) && !at_declaration(p)) {
        if (!at(p, TOKEN_LBRACE)) {
            advance(p);
            continue;
        }
        Block ignored = {0};
        parse_block(p, &ignored);
    }
}

Ast *parse_source(Context *context) {
    Parser parser = {.context = context, .arena = context->arena}, *p = &parser;
    Ast *ast = NEW(p->arena, Ast);
    lexer_init(&p->lexer, context);
    p->token = lexer_next(&p->lexer);
    while (!at(p, TOKEN_END)) {
        Decl *decl = NEW(p->arena, Decl);
        p->depth = 0;
        if (parse_decl(p, decl)) {
            vec_push(p->arena, &ast->decls, decl);
        } else {
            p->depth = 0;
            decl_skip(p);
        }
    }
    return ast;
}
