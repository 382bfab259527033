/* Slices: an axis each, static extents, and which axes of extent 1 are left. */
#include "compiler/sema/check.h"

const Dim *symbolic_value(Checker *checker, const Expr *expr, bool is_behind_let) {
    Context *context = checker->context;
    if (expr->dim)
        return expr->dim;
    if (expr->type->kind != TYPE_SCALAR || expr->type->scalar != PHB_I64)
        return NULL;
    if (expr->kind == EXPR_BINARY && (expr->binary == BINARY_ADD || expr->binary == BINARY_SUB || expr->binary == BINARY_MUL)) {
        const Dim *a = symbolic_value(checker, expr->left, is_behind_let);
        const Dim *b = a ? symbolic_value(checker, expr->right, is_behind_let) : NULL;
        return b ? dim_binary(checker, expr->binary, a, b) : NULL;
    }
    if (expr->kind == EXPR_UNARY && expr->unary == UNARY_NEG) {
        const Dim *a = symbolic_value(checker, expr->left, is_behind_let);
        return a ? dim_binary(checker, BINARY_SUB, dim_int(context->dims, 0), a) : NULL;
    }
    if (expr->kind == EXPR_FIELD)
        return dim_name(context->dims, intern_cstr(context->interner, expr_text(checker, expr)));
    if (expr->kind != EXPR_NAME || !expr->symbol || (is_behind_let && expr->symbol->kind == SYMBOL_VAR))
        return NULL;
    const Symbol *symbol = expr->symbol;
    if (symbol->symbolic)
        return symbol->symbolic;
    const char *atom =
        arena_printf(context->arena, "%s@%u:%u", symbol->name, symbol->span.line, symbol->span.column); /* no identifier: no dim has it */
    return dim_name(context->dims, intern_cstr(context->interner, atom));
}

Expr *check_index(Checker *checker, Expr *expr, const char *what) {
    check_operand(checker, expr);
    if (type_is_poison(expr->type))
        return expr;
    if (expr->type->kind != TYPE_SCALAR || !(dtype_is_int(expr->type->scalar)) || expr->type == &open_float) {
        diag_error(checker->context->diag, expr->span, "%s is an integer, found '%s'", what, type_text(checker, expr->type));
        expr->type = type_poison(checker->context->types);
        return expr;
    }
    if (literal_is_open(expr))
        return literal_adapt(checker, expr, PHB_I64);
    if (expr->type->scalar == PHB_U64) {
        diag_error(checker->context->diag, expr->span, "%s is 'i64', found 'u64'; write 'i64(..)' to convert it", what);
        expr->type = type_poison(checker->context->types);
        return expr;
    }
    return expr_convert(checker, expr, PHB_I64);
}

static const Dim *bounds_extent(Checker *checker, const Dim *from, const Dim *to) {
    return from && to ? dim_binary(checker, BINARY_SUB, to, from) : NULL;
}

static void error_not_static(Checker *checker, const Sub *sub, const char *tensor, int axis, const Dim *whole) {
    Diag *diag = checker->context->diag;
    switch (sub->kind) {
    case SUB_ALL:
        diag_error(diag, sub->span,
            "axis %d of '%s' has extent '%s'; a tile's extents are made of integers and search dims: write 'a :+ n', in a loop", axis, tensor,
            dim_text(checker, whole));
        break;
    case SUB_COUNT:
        diag_error(diag, sub->b->span, "'%s' is not static; a tile's extents are made of integers and search dims", expr_text(checker, sub->b));
        break;
    case SUB_TO:
    case SUB_FROM:
    case SUB_RANGE:
    case SUB_POINT:
        diag_error(diag, sub->span, "the extent of this slice is not static; write 'a :+ n' with an 'n' of integers and search dims");
        break;
    }
}

static const Dim *sub_extent(Checker *checker, const Sub *sub, const Dim *whole) {
    const Dim *zero = dim_int(checker->context->dims, 0);
    const Dim *from = sub->a ? symbolic_value(checker, sub->a, false) : zero;
    switch (sub->kind) {
    case SUB_ALL:
        return whole;
    case SUB_COUNT:
        return sub->b->dim;
    case SUB_TO:
    case SUB_RANGE:
        return bounds_extent(checker, from, symbolic_value(checker, sub->b, false));
    case SUB_FROM:
        return bounds_extent(checker, from, whole);
    case SUB_POINT:
        break;
    }
    return NULL;
}

/* False after an error. */
static bool check_sub(Checker *checker, Sub *sub, const Symbol *tensor, int axis) {
    const Dim *whole = tensor->type->dims[axis];
    if (sub->a)
        sub->a = check_index(checker, sub->a, "a subscript");
    if (sub->b)
        sub->b = check_index(checker, sub->b, "a subscript");
    if ((sub->a && type_is_poison(sub->a->type)) || (sub->b && type_is_poison(sub->b->type)))
        return false;
    bool is_shared = tensor->type->kind == TYPE_SHARED;
    if (sub->kind == SUB_POINT)
        return !is_shared || !sub->a->dim || check_shared_subscript(checker, tensor, axis, sub->span, sub->a->dim, NULL);
    sub->extent = sub_extent(checker, sub, whole);
    if (!sub->extent || !dim_is_static(checker, sub->extent)) {
        error_not_static(checker, sub, tensor->name, axis, whole);
        return false;
    }
    const Dim *from = sub->a ? sub->a->dim : dim_int(checker->context->dims, 0);
    return shape_check_tile(checker, sub->span, &sub->extent, 1) &&
           (!is_shared || !from || check_shared_subscript(checker, tensor, axis, sub->span, from, sub->extent));
}

/* The tensor that is sliced; NULL after an error. */
static const Symbol *sliced_tensor(Checker *checker, Expr *base) {
    check_expr(checker, base);
    if (type_is_poison(base->type))
        return NULL;
    if (base->type->kind == TYPE_TENSOR || base->type->kind == TYPE_SHARED)
        return base->symbol;
    diag_error(checker->context->diag, base->span, "only tensors and shared memory have slices; this is '%s'", type_text(checker, base->type));
    return NULL;
}

static const Type *slice_type(Checker *checker, const Expr *expr, const Symbol *tensor) {
    Context *context = checker->context;
    int rank = expr->subs.count, left = rank, points = 0;
    bool is_kept[PHB_MAX_RANK], is_unit[PHB_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        const Dim *extent = expr->subs.items[i].extent;
        is_kept[i] = true;
        is_unit[i] = !extent || dim_is_always(checker, extent, 1);
        points += !extent;
    }
    if (points == rank)
        return type_scalar(context->types, tensor->type->scalar);
    for (int i = 0; i < rank && left > 2; i++)
        if (is_unit[i]) {
            is_kept[i] = false;
            left--;
        }
    if (left > 2) {
        diag_error(context->diag, expr->span, "this slice has %d axes; a tile has at most 2, only points and axes of extent 1 drop", left);
        return type_poison(context->types);
    }
    const Dim *dims[PHB_MAX_RANK];
    int count = 0;
    for (int i = 0; i < rank; i++)
        if (is_kept[i])
            dims[count++] = expr->subs.items[i].extent ? expr->subs.items[i].extent : dim_int(context->dims, 1);
    if (!shape_check_tile(checker, expr->span, dims, count))
        return type_poison(context->types);
    return type_shaped(context->types, TYPE_TILE, tensor->type->scalar, count, dims);
}

void check_slice(Checker *checker, Expr *expr, bool is_store) {
    expr->type = type_poison(checker->context->types);
    const Symbol *tensor = sliced_tensor(checker, expr->left);
    if (!tensor)
        return;
    int rank = tensor->type->rank;
    if (expr->subs.count != rank) {
        diag_error(checker->context->diag, expr->span, "'%s' has %d %s, found %d %s", tensor->name, rank, rank == 1 ? "axis" : "axes",
            expr->subs.count, expr->subs.count == 1 ? "subscript" : "subscripts");
        diag_note(checker->context->diag, tensor->span, "'%s' is declared here", tensor->name);
        return;
    }
    bool is_sound = true;
    for (int i = 0; i < rank; i++)
        is_sound = check_sub(checker, &expr->subs.items[i], tensor, i) && is_sound;
    if (!is_sound)
        return;
    expr->type = slice_type(checker, expr, tensor);
    if (!type_is_poison(expr->type) && tensor->type->kind == TYPE_TENSOR)
        vec_push(checker->context->arena, &checker->accesses, (Access){expr, is_store});
}
