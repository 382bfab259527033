/* -Wedge, LANGUAGE.md 4: a slice that may run over its tensor's edge, and whose fill of 0 reaches what does not take 0 for nothing: exp and log along
 * the slice's last axis, a divisor likewise, a max or min over the edge's axis. What goes through a `where` on a comparison with iota or an extent is
 * masked. The taint of a value is the set of its axes along which it may hold fill; that of a variable grows over all its assignments. */
#include "compiler/sema/check.h"

/* For each axis of a value the slice whose fill there may be along it; NULL: none. The last axis is `columns`, in rank 1 too. */
typedef struct Taint {
    const Expr *rows, *columns;
} Taint;

/* The loops around the place that is looked at. */
typedef struct Loop {
    const struct Loop *outer;
    const Stmt *stmt;
} Loop;

typedef struct Edges {
    Checker *checker;
    const Loop *loop;
    const Inlined *inlined; /* whose body this is; NULL: the kernel's */
    bool has_changed;       /* the taint of a variable grew */
    bool reports;
    VEC(const Expr *) reported;
} Edges;

static const Taint clean = {0};

static const Expr *either(const Expr *a, const Expr *b) {
    return a ? a : b;
}

static Taint join(Taint a, Taint b) {
    return (Taint){either(a.rows, b.rows), either(a.columns, b.columns)};
}

static Taint taint_of_symbol(const Symbol *symbol) {
    return (Taint){symbol->edge.rows, symbol->edge.columns};
}

/* ---- which slices stay inside ---- */

static bool is_zero(const int64_t *values, int count) {
    return count == 1 && values[0] == 0;
}

static bool is_multiple(Checker *checker, const Dim *of, const Dim *extent) {
    int64_t one;
    if (dim_is_int(extent, &one) && one == 1)
        return true;
    const Dim *rest = dim_is_static(checker, of) ? dim_op(checker->context->dims, PHB_EXPR_MOD, of, extent) : NULL;
    return rest && leaf_ask(checker, &rest, 1, is_zero, NULL) == LEAF_ALWAYS;
}

/* Whether whole slices of `extent` fill the axis: by its extent, or by an @aligned. */
static bool divides(Checker *checker, const Dim *whole, const Dim *extent) {
    if (is_multiple(checker, whole, extent))
        return true;
    for (int i = 0; i < checker->signature->aligned.count; i++) {
        const Aligned *aligned = &checker->signature->aligned.items[i];
        if (whole->kind == PHB_EXPR_DIM && whole->name == aligned->dim && is_multiple(checker, aligned->tile, extent))
            return true;
    }
    return false;
}

/* The dim that an expression is, an `extent` of a tensor included; NULL: none. */
static const Dim *dim_behind(const Expr *expr) {
    int64_t axis = 0;
    expr = see_through(expr);
    if (expr->kind == EXPR_CALL && (expr->builtin == BUILTIN_EXTENT || expr->builtin == BUILTIN_WHOLE) && dim_is_int(expr->args.items[1]->dim, &axis))
        return expr->args.items[0]->symbol->type->dims[axis];
    return expr->dim;
}

/* Whether `offset` is the variable of a loop over the axis in steps of the slice. */
static bool is_loop_over(const Edges *edges, const Expr *offset, const Dim *whole, const Dim *extent) {
    offset = see_through(offset);
    for (const Loop *loop = edges->loop; loop && offset->kind == EXPR_NAME; loop = loop->outer) {
        Expr *const *range = loop->stmt->range.items;
        int count = loop->stmt->range.count;
        int64_t first = 0;
        if (loop->stmt->symbol != offset->symbol)
            continue;
        if (count > 1 && (!range[0]->dim || !dim_is_int(range[0]->dim, &first) || first != 0))
            return false;
        const Dim *step = count == 3 ? dim_behind(range[2]) : dim_int(edges->checker->context->dims, 1);
        return dim_behind(range[count > 1]) == whole && step && dims_are_equal(edges->checker, step, extent, NULL);
    }
    return false;
}

static bool fits_constant(const int64_t *values, int count) {
    int64_t end;
    return count == 3 && values[0] >= 0 && !__builtin_add_overflow(values[0], values[1], &end) && end <= values[2];
}

static bool stays_inside(const Edges *edges, const Sub *sub, const Dim *whole) {
    Checker *checker = edges->checker;
    if (sub->kind == SUB_ALL || sub->kind == SUB_POINT || sub->kind == SUB_FROM)
        return true; /* what one point or the caller's own bound names is meant */
    const Dim *offset = sub->a ? dim_behind(sub->a) : dim_int(checker->context->dims, 0), *step;
    if (offset && dim_is_static(checker, offset) && dim_is_static(checker, whole))
        return leaf_ask(checker, (const Dim *const[]){offset, sub->extent, whole}, 3, fits_constant, NULL) == LEAF_ALWAYS;
    if (!sub->a)
        return sub->extent == whole;
    bool is_step = block_offset(checker, sub->a, &step) >= 0 && dims_are_equal(checker, step, sub->extent, NULL);
    return (is_step || is_loop_over(edges, sub->a, whole, sub->extent)) && divides(checker, whole, sub->extent);
}

static Taint taint_of_slice(const Edges *edges, const Expr *slice) {
    const Type *tensor = slice->left->type;
    int left = slice->subs.count, axis = 0;
    Taint taint = clean;
    if (slice->type->kind != TYPE_TILE || tensor->kind != TYPE_TENSOR)
        return clean;
    for (int i = 0; i < slice->subs.count; i++) {
        const Sub *sub = &slice->subs.items[i];
        if (left > 2 && (!sub->extent || dim_is_always(edges->checker, sub->extent, 1))) {
            left--;
            continue;
        }
        if (!stays_inside(edges, sub, tensor->dims[i]))
            *(axis == slice->type->rank - 1 ? &taint.columns : &taint.rows) = slice;
        axis++;
    }
    return taint;
}

/* ---- masks ---- */

/* Whether the value is made of an iota or of an extent. */
static bool counts_elements(const Expr *expr) {
    switch (expr->kind) {
    case EXPR_NAME:
        return expr->symbol && (expr->symbol->kind == SYMBOL_DIM || expr->symbol->edge.counts);
    case EXPR_CALL:
        if (expr->builtin == BUILTIN_IOTA || expr->builtin == BUILTIN_EXTENT || expr->builtin == BUILTIN_WHOLE)
            return true;
        for (int i = 0; i < expr->args.count; i++)
            if (expr->args.items[i]->type && counts_elements(expr->args.items[i]))
                return true;
        return false;
    case EXPR_INLINE:
        return expr->inlined->result && expr->inlined->result->edge.counts;
    case EXPR_UNARY:
    case EXPR_CONVERT:
        return counts_elements(expr->left);
    case EXPR_BINARY:
        return counts_elements(expr->left) || counts_elements(expr->right);
    default:
        return false;
    }
}

static bool is_mask(const Expr *cond) {
    switch (cond->kind) {
    case EXPR_NAME:
        return cond->symbol && cond->symbol->edge.masks;
    case EXPR_INLINE:
        return cond->inlined->result && cond->inlined->result->edge.masks;
    case EXPR_UNARY:
        return is_mask(cond->left);
    case EXPR_BINARY:
        if (cond->binary >= BINARY_EQ && cond->binary <= BINARY_GE)
            return counts_elements(cond->left) || counts_elements(cond->right);
        return is_mask(cond->left) || is_mask(cond->right);
    default:
        return false;
    }
}

/* ---- values ---- */

static Taint taint_of(Edges *edges, const Expr *expr);
static void walk_block(Edges *edges, const Block *block);

static bool is_reported(const Edges *edges, const Expr *slice) {
    for (int i = 0; i < edges->reported.count; i++) {
        Span span = edges->reported.items[i]->span;
        if (span.line == slice->span.line && span.column == slice->span.column)
            return true;
    }
    return false;
}

/* `what` does not take the fill of the slice; NULL: there is none. */
static void report(Edges *edges, Span span, const char *what, const Expr *slice) {
    Checker *checker = edges->checker;
    if (!edges->reports || !slice || is_reported(edges, slice))
        return;
    vec_push(checker->context->arena, &edges->reported, slice);
    const char *tensor = slice->left->text;
    diag_warning(checker->context->diag, WARN_EDGE, span, "'%s' of '%s', which may run over the edge of '%s': beyond it there are zeros", what,
        expr_text(checker, slice), tensor);
    diag_note(checker->context->diag, slice->span, "mask it by 'where(.. < extent(%s, k), .., ..)', or promise whole tiles by @aligned", tensor);
}

static Taint taint_of_args(Edges *edges, const Expr *call) {
    Taint taint = clean;
    for (int i = 0; i < call->args.count; i++)
        if (call->args.items[i]->type)
            taint = join(taint, taint_of(edges, call->args.items[i]));
    return taint;
}

static Taint taint_of_call(Edges *edges, const Expr *call) {
    const char *name = call->left->text;
    Expr *const *args = call->args.items;
    Taint taint;
    switch ((Builtin)call->builtin) {
    case BUILTIN_EXTENT:
    case BUILTIN_ORIGIN:
    case BUILTIN_WHOLE:
    case BUILTIN_PROGRAM_ID:
    case BUILTIN_IOTA:
        return clean;
    case BUILTIN_EXP:
    case BUILTIN_EXP2:
    case BUILTIN_LOG:
    case BUILTIN_LOG2:
        taint = taint_of(edges, args[0]);
        report(edges, call->span, name, taint.columns);
        return taint;
    case BUILTIN_WHERE:
        taint = taint_of_args(edges, call);
        return is_mask(args[0]) ? clean : taint;
    case BUILTIN_ROWMAX:
    case BUILTIN_ROWMIN:
    case BUILTIN_ROWARGMAX:
        taint = taint_of(edges, args[0]);
        report(edges, call->span, name, taint.columns);
        return (Taint){.rows = taint.rows};
    case BUILTIN_COLMAX:
    case BUILTIN_COLMIN:
        taint = taint_of(edges, args[0]);
        report(edges, call->span, name, taint.rows);
        return (Taint){.columns = taint.columns};
    case BUILTIN_MIN_OF:
    case BUILTIN_MAX_OF:
        taint = taint_of(edges, args[0]);
        report(edges, call->span, name, either(taint.columns, taint.rows));
        return clean;
    case BUILTIN_ROWSUM:
        return (Taint){.rows = taint_of(edges, args[0]).rows};
    case BUILTIN_COLSUM:
        return (Taint){.columns = taint_of(edges, args[0]).columns};
    case BUILTIN_SUM:
    case BUILTIN_ANY:
    case BUILTIN_ALL:
        taint_of(edges, args[0]);
        return clean;
    case BUILTIN_TRANSPOSE:
        taint = taint_of(edges, args[0]);
        return (Taint){taint.columns, taint.rows};
    case BUILTIN_RESHAPE:
        taint = taint_of(edges, args[0]);
        return (Taint){either(taint.rows, taint.columns), either(taint.columns, taint.rows)};
    case BUILTIN_DOT:
        taint = taint_of(edges, args[0]);
        return (Taint){taint.rows, taint_of(edges, args[1]).columns};
    case BUILTIN_DOT_T:
        taint = taint_of(edges, args[0]);
        return (Taint){taint.rows, taint_of(edges, args[1]).rows};
    default:
        return taint_of_args(edges, call);
    }
}

/* What the variable (NULL: none) holds grows by what is assigned to it, whose taint is the result. */
static Taint grow(Edges *edges, Symbol *symbol, const Expr *value) {
    Taint taint = taint_of(edges, value);
    if (!symbol)
        return taint;
    bool counts = symbol->edge.counts || counts_elements(value), masks = symbol->edge.masks || is_mask(value);
    Taint held = join(taint_of_symbol(symbol), taint);
    if (held.rows == symbol->edge.rows && held.columns == symbol->edge.columns && counts == symbol->edge.counts && masks == symbol->edge.masks)
        return taint;
    symbol->edge.rows = held.rows;
    symbol->edge.columns = held.columns;
    symbol->edge.counts = counts;
    symbol->edge.masks = masks;
    edges->has_changed = true;
    return taint;
}

static Taint taint_of_inlined(Edges *edges, const Inlined *inlined) {
    const Inlined *outer = edges->inlined;
    edges->inlined = inlined;
    walk_block(edges, &inlined->params);
    walk_block(edges, &inlined->body);
    edges->inlined = outer;
    return inlined->result ? taint_of_symbol(inlined->result) : clean;
}

static Taint taint_of_binary(Edges *edges, const Expr *expr) {
    Taint left = taint_of(edges, expr->left), right = taint_of(edges, expr->right);
    if (expr->binary == BINARY_DIV && dtype_is_float(expr->type->scalar))
        report(edges, expr->op_span, "/", right.columns);
    return join(left, right);
}

static Taint taint_of(Edges *edges, const Expr *expr) {
    switch (expr->kind) {
    case EXPR_NAME:
        return expr->symbol ? taint_of_symbol(expr->symbol) : clean;
    case EXPR_UNARY:
    case EXPR_CONVERT:
        return taint_of(edges, expr->left);
    case EXPR_BINARY:
        return taint_of_binary(edges, expr);
    case EXPR_CALL:
        return taint_of_call(edges, expr);
    case EXPR_INDEX:
        return taint_of_slice(edges, expr);
    case EXPR_INLINE:
        return taint_of_inlined(edges, expr->inlined);
    case EXPR_INT:
    case EXPR_FLOAT:
    case EXPR_BOOL:
    case EXPR_FIELD:
        break;
    }
    return clean;
}

/* ---- statements ---- */

static void walk_assignment(Edges *edges, const Stmt *stmt) {
    Taint taint = grow(edges, stmt->target->kind == EXPR_NAME ? stmt->target->symbol : NULL, stmt->value);
    if (stmt->compound && stmt->op == BINARY_DIV && dtype_is_float(stmt->target->type->scalar))
        report(edges, stmt->value->span, "/=", taint.columns);
}

static void walk_loop(Edges *edges, const Stmt *stmt) {
    Loop loop = {edges->loop, stmt};
    if (stmt->kind == STMT_FOR)
        edges->loop = &loop;
    else
        taint_of(edges, stmt->value);
    walk_block(edges, &stmt->body);
    edges->loop = loop.outer;
}

static void walk_stmt(Edges *edges, const Stmt *stmt) {
    switch (stmt->kind) {
    case STMT_LET:
    case STMT_VAR:
        if (stmt->value)
            grow(edges, stmt->symbol, stmt->value);
        break;
    case STMT_ASSIGN:
        walk_assignment(edges, stmt);
        break;
    case STMT_FOR:
    case STMT_WHILE:
        walk_loop(edges, stmt);
        break;
    case STMT_IF:
        taint_of(edges, stmt->value);
        walk_block(edges, &stmt->body);
        walk_block(edges, &stmt->otherwise);
        break;
    case STMT_RETURN:
        if (stmt->value && edges->inlined)
            grow(edges, edges->inlined->result, stmt->value);
        break;
    case STMT_CALL:
        taint_of(edges, stmt->value);
        break;
    case STMT_BREAK:
    case STMT_CONTINUE:
        break;
    }
}

static void walk_block(Edges *edges, const Block *block) {
    for (int i = 0; i < block->count; i++)
        walk_stmt(edges, block->items[i]);
}

void warn_edges(Checker *checker) {
    Edges edges = {.checker = checker};
    do {
        edges.has_changed = false;
        walk_block(&edges, &checker->decl->body);
    } while (edges.has_changed);
    edges.reports = true;
    walk_block(&edges, &checker->decl->body);
}
