/* Types, dims and expressions as messages spell them. */
#include "compiler/sema/check.h"

static const char *take_text(Checker *checker, Buffer *buffer) {
    const char *text = buffer->data ? arena_strndup(checker->context->arena, buffer->data, buffer->length) : "";
    buffer_free(buffer);
    return text;
}

const char *type_text(Checker *checker, const Type *type) {
    Buffer buffer = {0};
    type_print(&buffer, type);
    return take_text(checker, &buffer);
}

const char *dim_text(Checker *checker, const Dim *dim) {
    Buffer buffer = {0};
    dim_print(&buffer, dim);
    return take_text(checker, &buffer);
}

const char *expr_text(Checker *checker, const Expr *expr) {
    Buffer buffer = {0};
    expr_print(&buffer, expr);
    return take_text(checker, &buffer);
}

const char *type_expr_text(Checker *checker, const TypeExpr *type) {
    Buffer buffer = {0};
    type_expr_print(&buffer, type);
    return take_text(checker, &buffer);
}

const char *suggestion(Checker *checker, const char *name, const Names *names) {
    const char *ours = foreign_find(FOREIGN_NAME, name);
    if (ours)
        return arena_printf(checker->context->arena, "; write '%s'", ours);
    const char *nearest = nearest_name(name, names->items, names->count);
    return nearest ? arena_printf(checker->context->arena, "; did you mean '%s'?", nearest) : "";
}

void error_unsupported(Checker *checker, Span span, const char *what) {
    diag_error(checker->context->diag, span, "%s not supported yet", what);
}
