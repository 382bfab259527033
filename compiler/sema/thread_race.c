/* Races on shared memory that are certain: two accesses with no barrier between, by threads whose subscripts are numbers once the thread is known.
 * Subscripts and conditions that depend on more than the thread are not looked into; what is not certain the simulator finds. Warns, changes nothing.
 */
#include "compiler/sema/check.h"

#include <inttypes.h>

enum {
    MOST_PENDING = 64,
    MOST_NODES = 256,        /* of an expression, lets seen through */
    MOST_LOOKS = 2000,       /* accesses and conditions that are looked into: what copies of fns repeat without end is not */
    MOST_ELEMENTS = 1 << 18, /* of a memory */
};

typedef struct SharedAccess {
    const Symbol *memory;
    const Expr *place;
    bool writes, is_atomic;
    int64_t *element; /* by thread; -1: it does not get here */
} SharedAccess;

typedef VEC(SharedAccess) Accesses;

typedef struct RaceWalk {
    Checker *checker;
    int threads;
    const bool *active; /* by thread */
    bool is_unknown;    /* which threads get here */
    Accesses pending;   /* since the last barrier */
    int looks;
    int *owners[2];     /* by element, while two accesses are compared: up to two threads that get there, from 1 on; 0: none */
    Spans reported;
} RaceWalk;

static void walk_block(RaceWalk *walk, const Block *block);
static void walk_expr(RaceWalk *walk, const Expr *expr);

/* ---- values of a thread ---- */

static bool evaluate(const RaceWalk *walk, const Expr *expr, int thread, int *nodes, int64_t *value);

static bool evaluate_binary(const RaceWalk *walk, const Expr *expr, int thread, int *nodes, int64_t *value) {
    int64_t a, b;
    if (!evaluate(walk, expr->left, thread, nodes, &a) || !evaluate(walk, expr->right, thread, nodes, &b))
        return false;
    switch (expr->binary) {
    case BINARY_ADD:
        return !__builtin_add_overflow(a, b, value);
    case BINARY_SUB:
        return !__builtin_sub_overflow(a, b, value);
    case BINARY_MUL:
        return !__builtin_mul_overflow(a, b, value);
    case BINARY_DIV:
        *value = b > 0 ? a / b : 0;
        return b > 0;
    case BINARY_REM:
        *value = b > 0 ? a % b : 0;
        return b > 0;
    case BINARY_EQ:
        *value = a == b;
        return true;
    case BINARY_NE:
        *value = a != b;
        return true;
    case BINARY_LT:
        *value = a < b;
        return true;
    case BINARY_LE:
        *value = a <= b;
        return true;
    case BINARY_GT:
        *value = a > b;
        return true;
    case BINARY_GE:
        *value = a >= b;
        return true;
    case BINARY_LOGIC_AND:
        *value = a && b;
        return true;
    case BINARY_LOGIC_OR:
        *value = a || b;
        return true;
    default:
        return false;
    }
}

static bool evaluate_field(const RaceWalk *walk, const Expr *field, int thread, int64_t *value) {
    switch ((Builtin)field->builtin) {
    case BUILTIN_CTX_THREAD:
        *value = field->text[0] == 'x' ? thread : 0;
        return true;
    case BUILTIN_CTX_LANE:
        *value = thread % 32;
        return true;
    case BUILTIN_CTX_WARP:
        *value = thread / 32;
        return true;
    case BUILTIN_CTX_THREADS:
        *value = walk->threads;
        return true;
    default:
        return false;
    }
}

/* Integers, and conditions as 0 and 1. */
static bool evaluate(const RaceWalk *walk, const Expr *expr, int thread, int *nodes, int64_t *value) {
    bool is_scalar = expr->type && expr->type->kind == TYPE_SCALAR && !dtype_is_float(expr->type->scalar);
    if (!is_scalar || ++*nodes > MOST_NODES)
        return false;
    if (expr->dim)
        return dim_is_int(expr->dim, value);
    switch (expr->kind) {
    case EXPR_INT:
        *value = (int64_t)expr->int_value;
        return expr->int_value <= INT64_MAX;
    case EXPR_FIELD:
        return evaluate_field(walk, expr, thread, value);
    case EXPR_NAME:
        return expr->symbol && expr->symbol->value && evaluate(walk, expr->symbol->value, thread, nodes, value);
    case EXPR_BINARY:
        return evaluate_binary(walk, expr, thread, nodes, value);
    case EXPR_CONVERT:
        return expr->type->scalar == PHB_I64 && evaluate(walk, expr->left, thread, nodes, value);
    default:
        return false;
    }
}

/* Of every thread that gets here. */
static bool evaluate_all(const RaceWalk *walk, const Expr *expr, int64_t *values) {
    for (int t = 0; t < walk->threads; t++) {
        int nodes = 0;
        if (walk->active[t] && !evaluate(walk, expr, t, &nodes, &values[t]))
            return false;
    }
    return true;
}

/* Threads of the CTA may find different values. */
static bool may_vary(const Expr *expr) {
    if (!expr)
        return false;
    if (expr->kind == EXPR_NAME)
        return expr->symbol && expr->symbol->variance > UNIFORM;
    if (expr->kind == EXPR_FIELD)
        return expr->builtin == BUILTIN_CTX_THREAD || expr->builtin == BUILTIN_CTX_LANE || expr->builtin == BUILTIN_CTX_WARP;
    if (expr->kind == EXPR_CALL || expr->kind == EXPR_INLINE || expr->kind == EXPR_INDEX)
        return true; /* may be; few conditions are such */
    return may_vary(expr->left) || may_vary(expr->right);
}

/* ---- accesses ---- */

static bool is_reported(RaceWalk *walk, Span span) {
    for (int i = 0; i < walk->reported.count; i++)
        if (walk->reported.items[i].line == span.line && walk->reported.items[i].column == span.column)
            return true;
    vec_push(walk->checker->context->arena, &walk->reported, span);
    return false;
}

static const char *verb(const SharedAccess *access) {
    return access->is_atomic ? "changes" : access->writes ? "writes" : "reads";
}

/* Threads t and u of the two accesses that meet in one element; false: none. Linear: two threads of an element are enough to find another one than u. */
static bool find_meeting(const RaceWalk *walk, const SharedAccess *a, const SharedAccess *b, int *t, int *u) {
    bool found = false;
    for (int thread = 0; thread < walk->threads; thread++) {
        int64_t element = a->element[thread];
        if (element >= 0 && !walk->owners[0][element])
            walk->owners[0][element] = thread + 1;
        else if (element >= 0 && !walk->owners[1][element])
            walk->owners[1][element] = thread + 1;
    }
    for (int thread = 0; thread < walk->threads && !found; thread++) {
        int64_t element = b->element[thread];
        for (int i = 0; element >= 0 && i < 2 && !found; i++) {
            int owner = walk->owners[i][element] - 1;
            found = owner >= 0 && owner != thread;
            *t = owner;
            *u = thread;
        }
    }
    for (int thread = 0; thread < walk->threads; thread++)
        if (a->element[thread] >= 0)
            walk->owners[0][a->element[thread]] = walk->owners[1][a->element[thread]] = 0;
    return found;
}

static void compare(RaceWalk *walk, const SharedAccess *before, const SharedAccess *access) {
    int t, u;
    bool is_same = before->place == access->place;
    if (before->memory != access->memory || !(before->writes || access->writes) || (before->is_atomic && access->is_atomic) ||
        !find_meeting(walk, before, access, &t, &u) || is_reported(walk, access->place->span))
        return;
    Diag *diag = walk->checker->context->diag;
    if (is_same) {
        diag_warning(diag, WARN_RACE, access->place->span, "a race on '%s': threads %d and %d write one element, with no barrier between", access->memory->name,
            u, t);
        return;
    }
    diag_warning(diag, WARN_RACE, access->place->span, "a race on '%s': thread %d %s the element that thread %d %s, with no barrier between",
        access->memory->name, u, verb(access), t, verb(before));
    diag_note(diag, before->place->span, "thread %d %s it here", t, verb(before));
}

/* The number of each thread's element, row-major; false where that is not known. */
static bool find_elements(const RaceWalk *walk, const Expr *place, const Symbol *memory, int64_t *element) {
    int64_t *at = NEW_ARRAY(walk->checker->context->arena, int64_t, walk->threads), extent, elements = 1;
    for (int t = 0; t < walk->threads; t++)
        element[t] = walk->active[t] ? 0 : -1;
    for (int axis = 0; axis < place->subs.count; axis++) {
        if (!dim_is_int(memory->type->dims[axis], &extent) || extent > MOST_ELEMENTS || (elements *= extent) > MOST_ELEMENTS ||
            !evaluate_all(walk, place->subs.items[axis].a, at))
            return false;
        for (int t = 0; t < walk->threads; t++) {
            if (walk->active[t] && (at[t] < 0 || at[t] >= extent))
                return false;
            if (walk->active[t])
                element[t] = element[t] * extent + at[t];
        }
    }
    return true;
}

static bool is_own_memory(const Expr *place) {
    return place->left->kind == EXPR_NAME && place->left->type->kind == TYPE_SHARED;
}

/* Tile code and what happens once per CTA is ordered by itself. */
static void add_access(RaceWalk *walk, const Expr *place, bool writes, bool is_atomic, bool is_once) {
    if (!is_own_memory(place))
        return;
    if (place->type->kind != TYPE_SCALAR || is_once) {
        walk->pending.count = 0;
        return;
    }
    if (walk->is_unknown || walk->pending.count == MOST_PENDING || ++walk->looks > MOST_LOOKS)
        return;
    SharedAccess access = {place->left->symbol, place, writes, is_atomic, NEW_ARRAY(walk->checker->context->arena, int64_t, walk->threads)};
    if (!find_elements(walk, place, access.memory, access.element))
        return;
    for (int i = 0; i < walk->pending.count; i++)
        compare(walk, &walk->pending.items[i], &access);
    if (writes && !is_atomic)
        compare(walk, &access, &access);
    vec_push(walk->checker->context->arena, &walk->pending, access);
}

/* ---- expressions, in the order in which they are evaluated ---- */

static void walk_subs(RaceWalk *walk, const Expr *place) {
    if (place->left->kind == EXPR_CALL)
        walk_expr(walk, place->left->args.items[1]);
    for (int i = 0; i < place->subs.count; i++)
        if (place->subs.items[i].a)
            walk_expr(walk, place->subs.items[i].a);
}

static bool is_meeting(Builtin builtin) {
    return builtin == BUILTIN_BARRIER || builtin == BUILTIN_BLOCK_SUM || builtin == BUILTIN_BLOCK_MAX || builtin == BUILTIN_BLOCK_MIN ||
           builtin == BUILTIN_CLUSTER_WAIT || builtin == BUILTIN_CLUSTER_SYNC;
}

static void walk_call(RaceWalk *walk, const Expr *call) {
    bool is_atomic = builtin_table[call->builtin].result == RESULT_ATOMIC;
    if (is_atomic)
        walk_subs(walk, call->args.items[0]);
    for (int i = is_atomic; i < call->args.count; i++)
        walk_expr(walk, call->args.items[i]);
    if (is_atomic)
        add_access(walk, call->args.items[0], true, true, call->is_once);
    if (is_meeting((Builtin)call->builtin))
        walk->pending.count = 0;
}

/* What stands under the left side is not known to be reached. */
static void walk_logic(RaceWalk *walk, const Expr *expr) {
    bool was_unknown = walk->is_unknown;
    walk_expr(walk, expr->left);
    walk->is_unknown = true;
    walk_expr(walk, expr->right);
    walk->is_unknown = was_unknown;
}

static void walk_expr(RaceWalk *walk, const Expr *expr) {
    switch (expr->kind) {
    case EXPR_INT:
    case EXPR_FLOAT:
    case EXPR_BOOL:
    case EXPR_NAME:
    case EXPR_FIELD:
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
        add_access(walk, expr, false, false, false);
        break;
    case EXPR_BINARY:
        if (expr->binary == BINARY_LOGIC_AND || expr->binary == BINARY_LOGIC_OR) {
            walk_logic(walk, expr);
            break;
        }
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

static void walk_assignment(RaceWalk *walk, const Stmt *stmt) {
    const Expr *target = stmt->target;
    if (target->kind != EXPR_INDEX) {
        walk_expr(walk, stmt->value);
        return;
    }
    walk_subs(walk, target);
    if (stmt->compound && !target->is_once)
        add_access(walk, target, false, false, false);
    walk_expr(walk, stmt->value);
    add_access(walk, target, true, false, target->is_once);
}

/* Both ways are taken at the same time where threads differ, and else one of them is. */
static void walk_if(RaceWalk *walk, const Stmt *stmt) {
    if (++walk->looks > MOST_LOOKS)
        return;
    Arena *arena = walk->checker->context->arena;
    const bool *active = walk->active;
    bool was_unknown = walk->is_unknown;
    int64_t *values = NEW_ARRAY(arena, int64_t, walk->threads);
    bool *ways[2] = {NEW_ARRAY(arena, bool, walk->threads), NEW_ARRAY(arena, bool, walk->threads)};
    walk_expr(walk, stmt->value);
    bool is_known = !was_unknown && evaluate_all(walk, stmt->value, values), varies = is_known || may_vary(stmt->value);
    for (int t = 0; is_known && t < walk->threads; t++)
        ways[values[t] == 0][t] = active[t];
    Accesses before = {0};
    for (int i = 0; i < walk->pending.count; i++)
        vec_push(arena, &before, walk->pending.items[i]);
    walk->is_unknown |= varies && !is_known;
    walk->active = is_known ? ways[0] : active;
    walk_block(walk, &stmt->body);
    Accesses then = walk->pending;
    if (!varies)
        walk->pending = before;
    walk->active = is_known ? ways[1] : active;
    walk_block(walk, &stmt->otherwise);
    for (int i = 0; !varies && i < then.count; i++)
        vec_push(arena, &walk->pending, then.items[i]);
    walk->active = active;
    walk->is_unknown = was_unknown || (walk->is_unknown && !varies);
}

static void walk_loop(RaceWalk *walk, const Stmt *stmt) {
    bool was_unknown = walk->is_unknown;
    for (int i = 0; i < stmt->range.count; i++) {
        walk_expr(walk, stmt->range.items[i]);
        walk->is_unknown |= may_vary(stmt->range.items[i]);
    }
    if (stmt->kind == STMT_WHILE) {
        walk_expr(walk, stmt->value);
        walk->is_unknown |= may_vary(stmt->value);
    }
    walk_block(walk, &stmt->body);
    walk->is_unknown = was_unknown;
}

static bool jumps(const Block *block) {
    for (int i = 0; i < block->count; i++) {
        const Stmt *stmt = block->items[i];
        if (stmt->kind == STMT_BREAK || stmt->kind == STMT_CONTINUE || stmt->kind == STMT_RETURN || jumps(&stmt->body) || jumps(&stmt->otherwise))
            return true;
    }
    return false;
}

static void walk_stmt(RaceWalk *walk, const Stmt *stmt) {
    switch (stmt->kind) {
    case STMT_ASSIGN:
        walk_assignment(walk, stmt);
        break;
    case STMT_IF:
        walk_if(walk, stmt);
        break;
    case STMT_FOR:
    case STMT_WHILE:
        walk_loop(walk, stmt);
        break;
    default:
        if (stmt->value)
            walk_expr(walk, stmt->value);
        break;
    }
}

/* After a statement that some threads may have left, nobody knows who is there. */
static void walk_block(RaceWalk *walk, const Block *block) {
    for (int i = 0; i < block->count; i++) {
        walk_stmt(walk, block->items[i]);
        walk->is_unknown |= jumps(&block->items[i]->body) || jumps(&block->items[i]->otherwise);
    }
}

void warn_races(Checker *checker, const Block *body) {
    if (checker->shared.count == 0)
        return;
    RaceWalk walk = {.checker = checker, .threads = (int)checker->signature->launch_threads};
    bool *active = NEW_ARRAY(checker->context->arena, bool, walk.threads);
    for (int t = 0; t < walk.threads; t++)
        active[t] = true;
    walk.active = active;
    for (int i = 0; i < 2; i++)
        walk.owners[i] = NEW_ARRAY(checker->context->arena, int, MOST_ELEMENTS);
    walk_block(&walk, body);
}
