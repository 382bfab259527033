/* Attributes, kernels, fns and the file as a whole. */
#include "compiler/parse/parser.h"

static bool parse_expr_list(Parser *p, AttrArg *arg) {
    Token open = p->token;
    if (!parser_expect(p, TOKEN_LBRACKET, "'[' and a list of values") || !parser_enter(p))
        return false;
    arg->is_list = true;
    ListStep step;
    do {
        Expr *item = parse_expr(p);
        if (!item)
            return false;
        vec_push(p->arena, &arg->items, item);
        step = parser_list_step(p, TOKEN_RBRACKET, &open, true);
    } while (step == LIST_MORE);
    parser_leave(p);
    return step == LIST_END;
}

/* name in [..]    name = value    name = [..]    value */
static bool parse_attr_arg(Parser *p, AttrArg *arg) {
    *arg = (AttrArg){.span = p->token.span};
    arg->value = parse_expr(p);
    if (!arg->value)
        return false;
    if (arg->value->kind == EXPR_NAME && (parser_at(p, TOKEN_IN) || parser_at(p, TOKEN_ASSIGN))) {
        arg->name = arg->value->text;
        arg->name_span = arg->value->span;
        arg->value = NULL;
        arg->is_in = parser_at(p, TOKEN_IN);
        parser_advance(p);
        if (arg->is_in || parser_at(p, TOKEN_LBRACKET)) {
            if (!parse_expr_list(p, arg))
                return false;
        } else {
            arg->value = parse_expr(p);
            if (!arg->value)
                return false;
        }
    }
    arg->span = parser_span(p, arg->span);
    return true;
}

static bool parse_attr(Parser *p, Attr *attr) {
    *attr = (Attr){.span = p->token.span};
    parser_advance(p);
    attr->name = p->token.text;
    if (!parser_expect(p, TOKEN_NAME, "the name of an attribute"))
        return false;
    attr->span = parser_span(p, attr->span);
    Token open = p->token;
    if (!parser_accept(p, TOKEN_LPAREN))
        return true;
    if (!parser_enter(p))
        return false;
    ListStep step;
    do {
        AttrArg arg;
        if (!parse_attr_arg(p, &arg))
            return false;
        vec_push(p->arena, &attr->args, arg);
        step = parser_list_step(p, TOKEN_RPAREN, &open, true);
    } while (step == LIST_MORE);
    parser_leave(p);
    return step == LIST_END;
}

static bool parse_param(Parser *p, ParamDecl *param, bool needs_type) {
    *param = (ParamDecl){.name = p->token.text, .span = p->token.span};
    if (!parser_expect(p, TOKEN_NAME, "the name of a parameter"))
        return false;
    if (parser_accept(p, TOKEN_COLON)) {
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
    if (!parser_expect(p, TOKEN_LPAREN, "'(' and parameters"))
        return false;
    if (parser_accept(p, TOKEN_RPAREN))
        return true;
    ListStep step;
    do {
        ParamDecl param;
        if (!parse_param(p, &param, decl->is_kernel))
            return false;
        vec_push(p->arena, &decl->params, param);
        step = parser_list_step(p, TOKEN_RPAREN, &open, true);
    } while (step == LIST_MORE);
    return step == LIST_END;
}

static bool parse_decl(Parser *p, Decl *decl) {
    while (parser_at(p, TOKEN_AT)) {
        Attr attr;
        if (!parse_attr(p, &attr))
            return false;
        vec_push(p->arena, &decl->attrs, attr);
    }
    decl->is_kernel = parser_at(p, TOKEN_KERNEL);
    decl->span = p->token.span;
    if (!decl->is_kernel && !parser_at(p, TOKEN_FN)) {
        parser_unexpected(p, decl->attrs.count ? "'kernel' after its attributes" : "'kernel', 'fn' or an attribute");
        return false;
    }
    if (!decl->is_kernel && decl->attrs.count)
        diag_error(p->context->diag, decl->attrs.items[0].span, "an attribute belongs to a kernel, not to a fn");
    parser_advance(p);
    decl->name = p->token.text;
    decl->name_span = p->token.span;
    if (!parser_expect(p, TOKEN_NAME, "a name") || !parse_params(p, decl))
        return false;
    if (!decl->is_kernel && parser_accept(p, TOKEN_ARROW)) {
        decl->result = parse_type(p);
        if (!decl->result)
            return false;
    }
    return parse_block(p, &decl->body);
}

/* Reads on to the next declaration. A block on the way is read for the mistakes in it. */
static void decl_skip(Parser *p) {
    while (!parser_at(p, TOKEN_END) && !parser_at(p, TOKEN_KERNEL) && !parser_at(p, TOKEN_FN) && !parser_at_declaration(p)) {
        if (!parser_at(p, TOKEN_LBRACE)) {
            parser_advance(p);
            continue;
        }
        Block ignored = {0};
        parse_block(p, &ignored);
    }
}

Ast *parse_source(Context *context) {
    Parser parser, *p = &parser;
    parser_init(p, context);
    Ast *ast = NEW(p->arena, Ast);
    while (!parser_at(p, TOKEN_END)) {
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
