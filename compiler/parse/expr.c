/* Expressions and types. */
#include "compiler/parse/parser.h"

#define MAX_PRECEDENCE 10

static const int precedences[BINARY_OP_COUNT] = {
#define X(id, text, precedence) [BINARY_##id] = precedence,
    AST_BINARY_OPS(X)
#undef X
};

/* ---- expressions ---- */

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
    expr->span = parser_span(p, expr->span);
    if (expr->height <= PARSE_MAX_HEIGHT)
        return expr;
    if (parser_report_once(p))
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
    parser_advance(p);
    Expr *expr = parser_enter(p) ? parse_expr(p) : NULL;
    if (!expr)
        return NULL;
    if (!parser_accept(p, TOKEN_RPAREN)) {
        parser_unclosed(p, "')'", &open);
        return NULL;
    }
    parser_leave(p);
    expr->span = parser_span(p, open.span);
    return expr;
}

Expr *parse_primary(Parser *p) {
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
        parser_unexpected(p, "an expression");
        return NULL;
    }
    expr->text = token.text;
    parser_advance(p);
    return expr;
}

static bool at_sub_end(const Parser *p) {
    return parser_at(p, TOKEN_COMMA) || parser_at(p, TOKEN_RBRACKET);
}

static bool parse_sub(Parser *p, Sub *sub) {
    *sub = (Sub){.span = p->token.span};
    if (parser_accept(p, TOKEN_COLON)) {
        sub->kind = at_sub_end(p) ? SUB_ALL : SUB_TO;
    } else if (parser_at(p, TOKEN_COLON_PLUS)) {
        parser_unexpected(p, "the start of the slice");
        return false;
    } else {
        sub->a = parse_expr(p);
        if (!sub->a)
            return false;
        if (parser_accept(p, TOKEN_COLON))
            sub->kind = at_sub_end(p) ? SUB_FROM : SUB_RANGE;
        else if (parser_accept(p, TOKEN_COLON_PLUS))
            sub->kind = SUB_COUNT;
        else
            sub->kind = SUB_POINT;
    }
    if (sub->kind == SUB_TO || sub->kind == SUB_RANGE || sub->kind == SUB_COUNT) {
        sub->b = parse_expr(p);
        if (!sub->b)
            return false;
    }
    sub->span = parser_span(p, sub->span);
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
        step = parser_list_step(p, TOKEN_RBRACKET, open, false);
    } while (step == LIST_MORE);
    return step == LIST_END;
}

/* The arguments after '(', to the ')'. */
static bool parse_args(Parser *p, Expr *call, const Token *open) {
    if (parser_accept(p, TOKEN_RPAREN))
        return true;
    ListStep step;
    do {
        Expr *arg = parse_expr(p);
        if (!arg)
            return false;
        expr_cover(call, arg);
        vec_push(p->arena, &call->args, arg);
        step = parser_list_step(p, TOKEN_RPAREN, open, true);
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
    parser_advance(p);
    if (kind == EXPR_FIELD) {
        expr->text = p->token.text;
        expr->op_span = p->token.span;
        return parser_expect(p, TOKEN_NAME, "a name after '.'") ? expr_finish(p, expr) : NULL;
    }
    if (!parser_enter(p) || !(kind == EXPR_INDEX ? parse_subs(p, expr, &open) : parse_args(p, expr, &open)))
        return NULL;
    parser_leave(p);
    return expr_finish(p, expr);
}

static Expr *parse_postfix(Parser *p) {
    Expr *expr = parse_primary(p);
    while (expr && (parser_at(p, TOKEN_LBRACKET) || parser_at(p, TOKEN_LPAREN) || parser_at(p, TOKEN_DOT)))
        expr = parse_suffix(p, expr);
    return expr;
}

static Expr *parse_unary(Parser *p) {
    if (!parser_at(p, TOKEN_SUB) && !parser_at(p, TOKEN_NOT) && !parser_at(p, TOKEN_BITNOT))
        return parse_postfix(p);
    Expr *expr = expr_new(p, EXPR_UNARY, p->token.span);
    expr->unary = parser_at(p, TOKEN_SUB) ? UNARY_NEG : parser_at(p, TOKEN_NOT) ? UNARY_NOT : UNARY_BITNOT;
    expr->op_span = p->token.span;
    parser_advance(p);
    expr->left = parser_enter(p) ? parse_unary(p) : NULL;
    if (!expr->left)
        return NULL;
    parser_leave(p);
    expr_cover(expr, expr->left);
    return expr_finish(p, expr);
}

/* Operators that wait for their right side are kept on a stack of our own, which cannot hold more than one of each precedence: the C stack grows with
 * brackets and prefix operators alone. */
Expr *parse_expr(Parser *p) {
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
        parser_advance(p);
        operand = parse_unary(p);
    }
    return NULL;
}

/* ---- types ---- */

static const struct {
    const char *name;
    TypeKind kind;
    PhbDType scalar;
} type_names[] = {
#define X(id, name) {name, TYPE_##id, PHB_DTYPE_COUNT},
    AST_SHAPED_TYPES(X)
#undef X
#define X(id, text, size, npy) {text, TYPE_SCALAR, PHB_##id},
        PHB_DTYPES(X)
#undef X
};

#define TYPE_NAMES ((int)(sizeof type_names / sizeof *type_names))

/* The index in type_names of the next token, which is consumed; -1 after an error. `scalar`: only those. */
static int parse_type_name(Parser *p, bool scalar) {
    if (!parser_at(p, TOKEN_NAME)) {
        parser_unexpected(p, scalar ? "a scalar type" : "a type");
        return -1;
    }
    const char *candidates[TYPE_NAMES];
    int count = 0;
    for (int i = 0; i < TYPE_NAMES; i++) {
        if (scalar && type_names[i].kind != TYPE_SCALAR)
            continue;
        if (parser_at_word(p, type_names[i].name)) {
            parser_advance(p);
            return i;
        }
        candidates[count++] = type_names[i].name;
    }
    const char *ours = foreign_find(FOREIGN_TYPE, p->token.text), *nearest = nearest_name(p->token.text, candidates, count);
    if (parser_report_once(p))
        diag_error(p->context->diag, p->token.span, "'%.60s' is not a %stype%s%s%s", p->token.text, scalar ? "scalar " : "",
            ours      ? "; write '"
            : nearest ? "; did you mean '"
                      : "",
            ours      ? ours
            : nearest ? nearest
                      : "",
            ours      ? "'"
            : nearest ? "'?"
                      : "");
    return -1;
}

static bool parse_type_dims(Parser *p, TypeExpr *type) {
    Token open = p->token;
    if (!parser_expect(p, TOKEN_LBRACKET, "'[' and the extents of the type") || !parser_enter(p))
        return false;
    ListStep step;
    do {
        Expr *dim = parse_expr(p);
        if (!dim)
            return false;
        vec_push(p->arena, &type->dims, dim);
        step = parser_list_step(p, TOKEN_RBRACKET, &open, false);
    } while (step == LIST_MORE);
    parser_leave(p);
    return step == LIST_END;
}

TypeExpr *parse_type(Parser *p) {
    Span start = p->token.span;
    int found = parse_type_name(p, false);
    if (found < 0)
        return NULL;
    TypeExpr *type = NEW(p->arena, TypeExpr);
    type->kind = type_names[found].kind;
    if (type->kind != TYPE_SCALAR) {
        if (!parser_expect(p, TOKEN_LT, "'<' and a scalar type"))
            return NULL;
        found = parse_type_name(p, true);
        if (found < 0 || !parser_expect(p, TOKEN_GT, "'>'") || !parse_type_dims(p, type))
            return NULL;
    }
    type->scalar = type_names[found].scalar;
    type->span = parser_span(p, start);
    if (type->kind == TYPE_SCALAR && parser_at(p, TOKEN_LBRACKET)) {
        const char *name = type_names[found].name;
        if (parser_report_once(p))
            diag_error(p->context->diag, p->token.span, "a scalar has no extents; write 'tensor<%s>[..]' or 'tile<%s>[..]'", name, name);
        return NULL;
    }
    return type;
}
