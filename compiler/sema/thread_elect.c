/* Code that trusts an elected lane. Which lane elect_one_sync() chooses is not promised, and what it computes the other lanes do not have. Under an
 * elected lane, that is an `if` on the call, or on a `let` of it, or on `&&` of either, two things are looked for in the order of the text:
 * - a store or atomic at a subscript that says which lane it is: by ctx.thread, ctx.lane or a variable from outside that varies per lane. What is
 *   divided by whole warps says it no longer.
 * - a variable from outside that is assigned there and read later, but under the same elected lane and as what an operation of the warp or CTA takes.
 * Warns, changes nothing. */
#include "compiler/sema/check.h"

enum { WARP = 32, WARP_SHIFT = 5 };

/* What one lane assigned and nobody has assigned since. */
typedef struct Private {
    const Symbol *symbol;
    const void *flag; /* of the election */
    Span span;
} Private;

typedef struct ElectWalk {
    Checker *checker;
    const void *flag; /* of the election that control stands under: the symbol that keeps it, or the call; NULL: none */
    Span elected;     /* where */
    VEC(const Symbol *) inner; /* declared under it */
    VEC(Private) privates;
    Spans reported;
} ElectWalk;

static void walk_block(ElectWalk *walk, const Block *block);
static void walk_expr(ElectWalk *walk, const Expr *expr);

/* ---- elections ---- */

/* The election that the condition is one of, with its place; NULL: none. */
static const void *election_of(const Expr *expr, Span *span) {
    if (expr->kind == EXPR_CALL && expr->builtin == BUILTIN_ELECT_ONE_SYNC) {
        *span = expr->span;
        return expr;
    }
    if (expr->kind == EXPR_NAME && expr->symbol && expr->symbol->value)
        return election_of(expr->symbol->value, span) ? expr->symbol : NULL;
    if (expr->kind != EXPR_BINARY || expr->binary != BINARY_LOGIC_AND)
        return NULL;
    const void *left = election_of(expr->left, span);
    return left ? left : election_of(expr->right, span);
}

static bool is_among(const ElectWalk *walk, const Symbol *symbol) {
    for (int i = 0; i < walk->inner.count; i++)
        if (walk->inner.items[i] == symbol)
            return true;
    return false;
}

static bool is_new(ElectWalk *walk, Span span) {
    for (int i = 0; i < walk->reported.count; i++)
        if (walk->reported.items[i].line == span.line && walk->reported.items[i].column == span.column)
            return false;
    vec_push(walk->checker->context->arena, &walk->reported, span);
    return true;
}

/* ---- places that depend on the lane ---- */

static bool divides_by_warps(const Expr *expr) {
    int64_t number;
    if (expr->kind != EXPR_BINARY || !expr->right->dim || !dim_is_int(expr->right->dim, &number))
        return false;
    return expr->binary == BINARY_DIV ? number > 0 && number % WARP == 0 : expr->binary == BINARY_SHR && number >= WARP_SHIFT;
}

/* The part of the subscript that says which lane it is; NULL: none. */
static const Expr *names_lane(const ElectWalk *walk, const Expr *expr) {
    if (!expr || divides_by_warps(expr))
        return NULL;
    if (expr->kind == EXPR_FIELD)
        return expr->builtin == BUILTIN_CTX_THREAD || expr->builtin == BUILTIN_CTX_LANE ? expr : NULL;
    if (expr->kind == EXPR_NAME) {
        const Symbol *symbol = expr->symbol;
        if (!symbol || symbol->variance < PER_LANE || is_among(walk, symbol))
            return NULL;
        return symbol->value && !names_lane(walk, symbol->value) ? NULL : expr;
    }
    if (expr->kind == EXPR_CALL || expr->kind == EXPR_INDEX || expr->kind == EXPR_INLINE)
        return NULL;
    const Expr *left = names_lane(walk, expr->left);
    return left ? left : names_lane(walk, expr->right);
}

static void check_place(ElectWalk *walk, const Expr *place) {
    for (int i = 0; walk->flag && i < place->subs.count; i++) {
        const Expr *lane = names_lane(walk, place->subs.items[i].a);
        if (!lane || !is_new(walk, place->span))
            continue;
        diag_warning(walk->checker->context->diag, WARN_ELECT, place->span,
            "which lane is elected is not promised, and where this goes depends on it; ctx.warp is the same in every lane");
        diag_note(walk->checker->context->diag, walk->elected, "the lane is elected here");
    }
}

/* ---- values that one lane alone has ---- */

static void assign(ElectWalk *walk, const Symbol *symbol, Span span) {
    for (int i = 0; i < walk->privates.count; i++)
        if (walk->privates.items[i].symbol == symbol && !walk->flag)
            walk->privates.items[i--] = walk->privates.items[--walk->privates.count];
    if (walk->flag && !is_among(walk, symbol))
        vec_push(walk->checker->context->arena, &walk->privates, (Private){symbol, walk->flag, span});
}

static void read(ElectWalk *walk, const Expr *name) {
    for (int i = 0; i < walk->privates.count; i++) {
        const Private *private = &walk->privates.items[i];
        if (private->symbol != name->symbol || private->flag == walk->flag || !is_new(walk, name->span))
            continue;
        diag_warning(walk->checker->context->diag, WARN_ELECT, name->span,
            "only the elected lane has what it assigned to '%s'; shuffle or shared memory brings it to the others", name->text);
        diag_note(walk->checker->context->diag, private->span, "it is assigned here, by one lane of each warp");
    }
}

/* ---- expressions ---- */

static bool gathers(const Expr *call) {
    ResultRule rule = builtin_table[call->builtin].result;
    return rule == RESULT_SHUFFLE || rule == RESULT_BALLOT || rule == RESULT_THREADS || rule == RESULT_THREADS_SUM;
}

static void walk_subs(ElectWalk *walk, const Expr *place) {
    if (place->left->kind == EXPR_CALL)
        walk_expr(walk, place->left->args.items[1]);
    for (int i = 0; i < place->subs.count; i++)
        if (place->subs.items[i].a)
            walk_expr(walk, place->subs.items[i].a);
}

static void walk_call(ElectWalk *walk, const Expr *call) {
    bool is_atomic = builtin_table[call->builtin].result == RESULT_ATOMIC;
    if (is_atomic) {
        check_place(walk, call->args.items[0]);
        walk_subs(walk, call->args.items[0]);
    }
    for (int i = is_atomic; i < call->args.count; i++) {
        const Expr *arg = call->args.items[i];
        while (gathers(call) && arg->kind == EXPR_CONVERT)
            arg = arg->left;
        if (!(gathers(call) && i == 0 && arg->kind == EXPR_NAME))
            walk_expr(walk, arg);
    }
}

static void walk_expr(ElectWalk *walk, const Expr *expr) {
    switch (expr->kind) {
    case EXPR_INT:
    case EXPR_FLOAT:
    case EXPR_BOOL:
    case EXPR_FIELD:
        break;
    case EXPR_NAME:
        read(walk, expr);
        break;
    case EXPR_CALL:
        walk_call(walk, expr);
        break;
    case EXPR_INLINE:
        walk_block(walk, &expr->inlined->params);
        walk_block(walk, &expr->inlined->body);
        break;
    case EXPR_INDEX:
        walk_subs(walk, expr);
        break;
    case EXPR_BINARY:
        walk_expr(walk, expr->left);
        walk_expr(walk, expr->right);
        break;
    case EXPR_UNARY:
    case EXPR_CONVERT:
        walk_expr(walk, expr->left);
        break;
    }
}

/* ---- statements ---- */

static void walk_assignment(ElectWalk *walk, const Stmt *stmt) {
    const Expr *target = stmt->target;
    walk_expr(walk, stmt->value);
    if (target->kind == EXPR_INDEX) {
        if (target->type->kind == TYPE_SCALAR)
            check_place(walk, target);
        walk_subs(walk, target);
        return;
    }
    if (stmt->compound)
        read(walk, target);
    assign(walk, target->symbol, stmt->span);
}

static void walk_if(ElectWalk *walk, const Stmt *stmt) {
    ElectWalk outer = *walk;
    Span span = {0};
    const void *flag = election_of(stmt->value, &span);
    walk_expr(walk, stmt->value);
    if (flag && !walk->flag) {
        walk->flag = flag;
        walk->elected = span;
        walk->inner.count = 0;
    }
    walk_block(walk, &stmt->body);
    walk->flag = outer.flag;
    walk->elected = outer.elected;
    walk_block(walk, &stmt->otherwise);
}

static void walk_stmt(ElectWalk *walk, const Stmt *stmt) {
    if (stmt->symbol && walk->flag)
        vec_push(walk->checker->context->arena, &walk->inner, stmt->symbol);
    if (stmt->kind == STMT_ASSIGN) {
        walk_assignment(walk, stmt);
    } else if (stmt->kind == STMT_IF) {
        walk_if(walk, stmt);
    } else {
        for (int i = 0; i < stmt->range.count; i++)
            walk_expr(walk, stmt->range.items[i]);
        if (stmt->value)
            walk_expr(walk, stmt->value);
        walk_block(walk, &stmt->body);
    }
}

static void walk_block(ElectWalk *walk, const Block *block) {
    for (int i = 0; i < block->count; i++)
        walk_stmt(walk, block->items[i]);
}

void warn_elected(Checker *checker, const Block *body) {
    ElectWalk walk = {.checker = checker};
    walk_block(&walk, body);
}
