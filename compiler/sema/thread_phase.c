/* cluster_arrive and cluster_wait alternate on every path, LANGUAGE.md 7. Where two paths meet in different phases, no way on could be right for
 * both: so one phase at each place is enough, and one walk in the order of execution. Also warns of writes that no wait publishes. Changes nothing.
 */
#include "compiler/sema/check.h"

#include <string.h>

typedef enum Phase {
    PHASE_IDLE,
    PHASE_ARRIVED, /* and not waited */
    PHASE_DEAD,    /* no path comes here */
    PHASE_UNKNOWN, /* after an error, which is not to bring others */
} Phase;

typedef struct State {
    Phase phase;
    Span arrive; /* ARRIVED: where */
} State;

/* A write between arrive and wait, which the wait does not publish. */
typedef struct LateWrite {
    const Symbol *memory;
    const Expr *place;
    Span arrive;
    bool is_over;      /* the wait has been passed, */
    bool is_published; /* and a later arrive */
    Span read;    /* of what may be another CTA's; line 0: none */
} LateWrite;

typedef struct PhaseWalk {
    Checker *checker;
    State state;
    State entry;                    /* of the loop around */
    State *exit;                    /* of the loop around: what its breaks bring */
    State *returned;                /* of the fn around: what its returns bring; NULL: the kernel */
    VEC(LateWrite) writes;
} PhaseWalk;

static void walk_expr(PhaseWalk *walk, const Expr *expr);
static void walk_block(PhaseWalk *walk, const Block *block);

static bool is_open(const State *state) {
    return state->phase == PHASE_ARRIVED;
}

/* Two paths meet at `span`. */
static State meet(PhaseWalk *walk, State a, State b, Span span, const char *what) {
    Diag *diag = walk->checker->context->diag;
    if (a.phase == PHASE_DEAD)
        return b;
    if (b.phase == PHASE_DEAD || a.phase == b.phase || a.phase == PHASE_UNKNOWN)
        return a;
    if (b.phase != PHASE_UNKNOWN) {
        diag_error(diag, is_open(&a) ? a.arrive : b.arrive, "no 'cluster_wait' follows this on every path: arrive and wait alternate");
        diag_note(diag, span, "%s", what);
    }
    return (State){.phase = PHASE_UNKNOWN};
}

/* ---- operations ---- */

static void publish(PhaseWalk *walk) {
    for (int i = 0; i < walk->writes.count; i++)
        walk->writes.items[i].is_published |= walk->writes.items[i].is_over;
}

static void arrive(PhaseWalk *walk, const Expr *call) {
    Diag *diag = walk->checker->context->diag;
    if (call->builtin == BUILTIN_CLUSTER_ARRIVE)
        publish(walk);
    if (is_open(&walk->state)) {
        diag_error(diag, call->span, "'%s' comes after an arrive without a 'cluster_wait' between them", call->left->text);
        diag_note(diag, walk->state.arrive, "the other one is here");
        walk->state.phase = PHASE_UNKNOWN;
    } else if (walk->state.phase == PHASE_IDLE) {
        walk->state = (State){PHASE_ARRIVED, call->span};
    }
}

static void wait(PhaseWalk *walk, const Expr *call) {
    if (walk->state.phase == PHASE_IDLE) {
        diag_error(walk->checker->context->diag, call->span, "no 'cluster_arrive' comes before this 'cluster_wait'");
        walk->state.phase = PHASE_UNKNOWN;
    } else if (is_open(&walk->state)) {
        walk->state.phase = PHASE_IDLE;
    }
    for (int i = 0; i < walk->writes.count; i++)
        walk->writes.items[i].is_over = true;
}

static void sync(PhaseWalk *walk, const Expr *call) {
    publish(walk);
    if (!is_open(&walk->state))
        return;
    diag_error(walk->checker->context->diag, call->span, "'cluster_sync' arrives and waits, but an arrive before it has no 'cluster_wait' yet");
    diag_note(walk->checker->context->diag, walk->state.arrive, "it is here");
    walk->state.phase = PHASE_UNKNOWN;
}

/* ---- expressions, in the order in which they are evaluated ---- */

static const Symbol *memory_of(const Expr *place) {
    return place->left->symbol; /* of remote(s, rank): s */
}

static bool is_remote(const Expr *place) {
    return place->left->kind == EXPR_CALL;
}

static void note_write(PhaseWalk *walk, const Expr *place) {
    if (is_open(&walk->state))
        vec_push(walk->checker->context->arena, &walk->writes, (LateWrite){.memory = memory_of(place), .place = place, .arrive = walk->state.arrive});
}

/* The same subscripts name the own element, others may name one that another CTA wrote. */
static bool is_same_place(const PhaseWalk *walk, const Expr *a, const Expr *b) {
    return strcmp(expr_text(walk->checker, a), expr_text(walk->checker, b)) == 0;
}

/* Of shared memory other CTAs read what remote(..) names, or what it wrote; of a tensor, what is read after the wait elsewhere than it was written. */
static void note_read(PhaseWalk *walk, const Expr *place) {
    for (int i = 0; i < walk->writes.count; i++) {
        LateWrite *write = &walk->writes.items[i];
        bool is_tensor = write->memory->type->kind == TYPE_TENSOR;
        bool is_peers = is_tensor ? !is_same_place(walk, write->place, place) : is_remote(place) != is_remote(write->place);
        if (write->is_over && !write->is_published && write->read.line == 0 && write->memory == memory_of(place) && is_peers)
            write->read = place->span;
    }
}

static void walk_place(PhaseWalk *walk, const Expr *place) {
    if (place->left->kind == EXPR_CALL)
        walk_expr(walk, place->left->args.items[1]);
    for (int i = 0; i < place->subs.count; i++)
        if (place->subs.items[i].a)
            walk_expr(walk, place->subs.items[i].a);
}

static void walk_inlined(PhaseWalk *walk, const Expr *call) {
    PhaseWalk caller = *walk;
    State returned = {.phase = PHASE_DEAD};
    walk_block(walk, &call->inlined->params);
    walk->returned = &returned;
    walk_block(walk, &call->inlined->body);
    walk->state = meet(walk, walk->state, returned, call->span, "paths through this call end before and after a wait");
    walk->returned = caller.returned;
    walk->entry = caller.entry;
    walk->exit = caller.exit;
}

static void walk_call(PhaseWalk *walk, const Expr *call) {
    bool is_atomic = builtin_table[call->builtin].result == RESULT_ATOMIC;
    if (is_atomic)
        walk_place(walk, call->args.items[0]);
    for (int i = is_atomic; i < call->args.count; i++)
        walk_expr(walk, call->args.items[i]);
    switch ((Builtin)call->builtin) {
    case BUILTIN_CLUSTER_ARRIVE:
    case BUILTIN_CLUSTER_ARRIVE_RELAXED:
        arrive(walk, call);
        break;
    case BUILTIN_CLUSTER_WAIT:
        wait(walk, call);
        break;
    case BUILTIN_CLUSTER_SYNC:
        sync(walk, call);
        break;
    default:
        if (is_atomic)
            note_write(walk, call->args.items[0]);
        break;
    }
}

static void walk_logic(PhaseWalk *walk, const Expr *expr) {
    walk_expr(walk, expr->left);
    State before = walk->state;
    walk_expr(walk, expr->right);
    if (expr->type->kind == TYPE_SCALAR)
        walk->state = meet(walk, walk->state, before, expr->op_span, "the right side is not always evaluated");
}

static void walk_expr(PhaseWalk *walk, const Expr *expr) {
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
        walk_inlined(walk, expr);
        break;
    case EXPR_INDEX:
        walk_place(walk, expr);
        note_read(walk, expr);
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

static void walk_assignment(PhaseWalk *walk, const Stmt *stmt) {
    if (stmt->target->kind == EXPR_INDEX)
        walk_place(walk, stmt->target);
    walk_expr(walk, stmt->value);
    if (stmt->target->kind == EXPR_INDEX)
        note_write(walk, stmt->target);
}

static void walk_if(PhaseWalk *walk, const Stmt *stmt) {
    walk_expr(walk, stmt->value);
    State before = walk->state;
    walk_block(walk, &stmt->body);
    State then = walk->state;
    walk->state = before;
    walk_block(walk, &stmt->otherwise);
    walk->state = meet(walk, then, walk->state, stmt->span, "the two ways through this 'if' end before and after a wait");
}

static bool is_endless(const Stmt *stmt) {
    return stmt->kind == STMT_WHILE && stmt->value->kind == EXPR_BOOL && stmt->value->bool_value;
}

static const char again[] = "the loop starts again in another phase than at first";

static void walk_loop(PhaseWalk *walk, const Stmt *stmt) {
    State entry = walk->entry, *exit = walk->exit, left = {.phase = PHASE_DEAD};
    for (int i = 0; i < stmt->range.count; i++)
        walk_expr(walk, stmt->range.items[i]);
    walk->entry = walk->state;
    walk->exit = &left;
    if (stmt->kind == STMT_WHILE)
        walk_expr(walk, stmt->value);
    State through = walk->state;
    walk_block(walk, &stmt->body);
    meet(walk, walk->state, walk->entry, stmt->span, again);
    walk->state = is_endless(stmt) ? left : meet(walk, through, left, stmt->span, "the ways out of this loop end before and after a wait");
    walk->entry = entry;
    walk->exit = exit;
}

static void walk_return(PhaseWalk *walk, const Stmt *stmt) {
    if (stmt->value)
        walk_expr(walk, stmt->value);
    if (walk->returned)
        *walk->returned = meet(walk, *walk->returned, walk->state, stmt->span, "paths through the fn end before and after a wait");
    else
        meet(walk, walk->state, (State){.phase = PHASE_IDLE}, stmt->span, "the kernel may end here");
    walk->state.phase = PHASE_DEAD;
}

static void walk_stmt(PhaseWalk *walk, const Stmt *stmt) {
    switch (stmt->kind) {
    case STMT_LET:
    case STMT_VAR:
    case STMT_CALL:
        if (stmt->value)
            walk_expr(walk, stmt->value);
        break;
    case STMT_ASSIGN:
        walk_assignment(walk, stmt);
        break;
    case STMT_FOR:
    case STMT_WHILE:
        walk_loop(walk, stmt);
        break;
    case STMT_IF:
        walk_if(walk, stmt);
        break;
    case STMT_BREAK:
        *walk->exit = meet(walk, *walk->exit, walk->state, stmt->span, "another way out of the loop ends in another phase");
        walk->state.phase = PHASE_DEAD;
        break;
    case STMT_CONTINUE:
        meet(walk, walk->state, walk->entry, stmt->span, again);
        walk->state.phase = PHASE_DEAD;
        break;
    case STMT_RETURN:
        walk_return(walk, stmt);
        break;
    }
}

static void walk_block(PhaseWalk *walk, const Block *block) {
    for (int i = 0; i < block->count; i++)
        walk_stmt(walk, block->items[i]);
}

/* ---- writes that are not published ---- */

static void warn_write(const PhaseWalk *walk, const LateWrite *write) {
    Diag *diag = walk->checker->context->diag;
    diag_warning(diag, WARN_PUBLISH, write->place->span,
        "the next 'cluster_wait' does not publish this: '%s' is written after the arrive, and other CTAs read it", write->memory->name);
    diag_note(diag, write->arrive, "the arrive is here");
    diag_note(diag, write->read, "the read is here");
}

void check_phases(Checker *checker, const Block *body) {
    PhaseWalk walk = {.checker = checker, .state = {.phase = PHASE_IDLE}};
    walk_block(&walk, body);
    if (is_open(&walk.state))
        diag_error(checker->context->diag, walk.state.arrive, "the kernel ends without a 'cluster_wait' after this");
    for (int i = 0; i < walk.writes.count; i++)
        if (walk.writes.items[i].read.line)
            warn_write(&walk, &walk.writes.items[i]);
}
