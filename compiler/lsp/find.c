/* What stands at a place of a checked source: the narrowest name or operator there. Bodies of fns are looked up where they are called, since only
 * there names have types. */
#include "compiler/lsp/lsp.h"

typedef struct Finder {
    const Document *document;
    Span place;
    CheckedKernel *kernel;
    Found found;
} Finder;

static bool covers(const Finder *f, Span span) {
    return span.line == f->place.line && f->place.column >= span.column && f->place.column <= span.column + span.length;
}

/* Two names can touch at one place: an operator before a name gives way to it. */
static bool take(Finder *f, Found found) {
    bool is_name = found.kind != FOUND_EXPR || found.expr->kind == EXPR_CALL || found.expr->kind == EXPR_FIELD;
    if (f->found.kind == FOUND_NOTHING || is_name) {
        found.kernel = f->kernel;
        f->found = found;
    }
    return is_name;
}

static bool find_expr(Finder *f, const Expr *expr);
static bool find_block(Finder *f, const Block *block);

/* A name that sema bound to no symbol: a dim in a type, or in an attribute. */
static bool take_dim(Finder *f, const char *name, Span span) {
    if (!f->kernel)
        return false;
    const Signature *signature = &f->kernel->signature;
    if (signature_search(signature, name))
        return take(f, (Found){.kind = FOUND_SEARCH_DIM, .span = span, .name = name});
    for (int i = 0; i < signature->symbolic.count; i++)
        if (signature->symbolic.items[i] == name)
            return take(f, (Found){.kind = FOUND_DIM, .span = span, .name = name});
    int param = signature_param(signature, name);
    return param >= 0 && take(f, (Found){.kind = FOUND_PARAM, .span = span, .name = name});
}

static bool take_symbol(Finder *f, const Symbol *symbol, Span span) {
    switch (symbol->kind) {
    case SYMBOL_PARAM:
    case SYMBOL_DIM:
    case SYMBOL_SEARCH_DIM:
        return take_dim(f, symbol->name, span) || take(f, (Found){.kind = FOUND_SYMBOL, .span = span, .symbol = symbol});
    default:
        return take(f, (Found){.kind = FOUND_SYMBOL, .span = span, .symbol = symbol});
    }
}

static bool find_name(Finder *f, const Expr *expr) {
    if (!covers(f, expr->span))
        return false;
    return expr->symbol ? take_symbol(f, expr->symbol, expr->span) : take_dim(f, expr->text, expr->span);
}

static bool find_exprs(Finder *f, Expr *const *exprs, int count) {
    for (int i = 0; i < count; i++)
        if (find_expr(f, exprs[i]))
            return true;
    return false;
}

/* The name of what is called. */
static bool find_callee(Finder *f, const Expr *call) {
    const Expr *callee = call->left;
    if (!callee || callee->kind != EXPR_NAME || !covers(f, callee->span))
        return false;
    if (call->kind == EXPR_INLINE)
        return take(f, (Found){.kind = FOUND_FN, .span = callee->span, .decl = call->inlined->fn});
    return take(f, (Found){.kind = FOUND_EXPR, .span = callee->span, .expr = call});
}

static bool find_expr(Finder *f, const Expr *expr) {
    if (!expr)
        return false;
    switch (expr->kind) {
    case EXPR_NAME:
        return find_name(f, expr);
    case EXPR_FIELD: /* ctx.block.x is one value, the innermost of which is a name without a type */
        if (expr->builtin && covers(f, (Span){expr->span.line, expr->span.column, expr->op_span.column + expr->op_span.length - expr->span.column}))
            return take(f, (Found){.kind = FOUND_EXPR, .span = expr->span, .expr = expr});
        return find_expr(f, expr->left);
    case EXPR_CALL:
        return find_callee(f, expr) || find_exprs(f, expr->args.items, expr->args.count);
    case EXPR_INLINE:
        return find_callee(f, expr) || find_block(f, &expr->inlined->params) || find_block(f, &expr->inlined->body);
    case EXPR_INDEX:
        for (int i = 0; i < expr->subs.count; i++)
            if (find_expr(f, expr->subs.items[i].a) || find_expr(f, expr->subs.items[i].b))
                return true;
        return find_expr(f, expr->left);
    case EXPR_UNARY:
    case EXPR_BINARY:
        if (expr->type && covers(f, expr->op_span))
            take(f, (Found){.kind = FOUND_EXPR, .span = expr->op_span, .expr = expr});
        break;
    default:
        break;
    }
    return find_expr(f, expr->left) || find_expr(f, expr->right);
}

static bool find_type(Finder *f, const TypeExpr *type) {
    return type && find_exprs(f, type->dims.items, type->dims.count);
}

static bool find_stmt(Finder *f, const Stmt *stmt) {
    if (stmt->symbol && covers(f, stmt->name_span))
        return take_symbol(f, stmt->symbol, stmt->name_span);
    return find_type(f, stmt->declared) || find_expr(f, stmt->target) || find_expr(f, stmt->value) ||
           find_exprs(f, stmt->range.items, stmt->range.count) || find_expr(f, stmt->unroll) || find_block(f, &stmt->body) ||
           find_block(f, &stmt->otherwise);
}

static bool find_block(Finder *f, const Block *block) {
    for (int i = 0; i < block->count; i++)
        if (find_stmt(f, block->items[i]))
            return true;
    return false;
}

static bool find_attr(Finder *f, const Attr *attr) {
    for (int i = 0; i < attr->args.count; i++) {
        const AttrArg *arg = &attr->args.items[i];
        if (arg->name && covers(f, arg->name_span))
            return take_dim(f, arg->name, arg->name_span);
        if (find_expr(f, arg->value) || find_exprs(f, arg->items.items, arg->items.count))
            return true;
    }
    return false;
}

static bool find_decl(Finder *f, const Decl *decl) {
    if (covers(f, decl->name_span))
        return take(f, (Found){.kind = decl->is_kernel ? FOUND_KERNEL : FOUND_FN, .span = decl->name_span, .decl = decl});
    for (int i = 0; i < decl->attrs.count; i++)
        if (find_attr(f, &decl->attrs.items[i]))
            return true;
    for (int i = 0; i < decl->params.count; i++) {
        const ParamDecl *param = &decl->params.items[i];
        if (decl->is_kernel && covers(f, param->span) && take_dim(f, param->name, param->span))
            return true;
        if (find_type(f, param->type))
            return true;
    }
    return decl->is_kernel && find_block(f, &decl->body);
}

Found find_at(const Document *document, Span place) {
    Finder finder = {.document = document, .place = place};
    if (!document->program)
        return finder.found;
    for (int k = 0; k < document->program->kernels.count; k++) {
        finder.kernel = document->program->kernels.items[k];
        if (find_decl(&finder, finder.kernel->decl))
            return finder.found;
    }
    finder.kernel = NULL;
    for (int d = 0; d < document->ast->decls.count; d++)
        if (!document->ast->decls.items[d]->is_kernel && find_decl(&finder, document->ast->decls.items[d]))
            return finder.found;
    return finder.found;
}

Span find_declaration(const Found *found) {
    switch (found->kind) {
    case FOUND_SYMBOL:
        return found->symbol->span;
    case FOUND_PARAM:
        return found->kernel->signature.params.items[signature_param(&found->kernel->signature, found->name)].span;
    case FOUND_SEARCH_DIM:
        return signature_search(&found->kernel->signature, found->name)->span;
    case FOUND_KERNEL:
    case FOUND_FN:
        return found->decl->name_span;
    default:
        return (Span){0};
    }
}
