/* How values and control vary between threads, LANGUAGE.md 7. One walk over the checked kernel draws a graph: a node for each variable, for the
 * control at each place that differs from that around it, and for what must not vary; an arrow where one varies like the other. Its least solution is
 * the fixpoint of the rules. Changes nothing but Symbol.variance and Expr.is_once. */
#include "compiler/sema/uniformity.h"

typedef struct Loop {
    VarianceNode *control;
    struct Loop *outer; /* in the same body */
} Loop;

typedef struct Walk {
    VarianceGraph graph;
    Arena *arena;
    VEC(Symbol *) symbols;
    VEC(Expr *) stores; /* to elements, and atomics, with the nodes of what they depend on */
    VEC(VarianceNode *) store_nodes;
    bool asks_thread; /* ctx.thread, ctx.lane, ctx.warp */
    /* the body that is walked: the kernel's or a fn's copy */
    Symbol *result; /* what `return` assigns, or NULL */
    Span call;      /* of the fn; line 0: none */
    Loop *loop;
    VarianceNode *returned, *jumped; /* how control varies after the returns so far; the jumps of the loop; NULL: like around them */
} Walk;

/* What a builtin gives by itself, whatever its operands, and how much control around it may vary at most. */
typedef enum Gives { GIVES_OPERANDS, GIVES_CLUSTER_UNIFORM, GIVES_UNIFORM, GIVES_WARP_UNIFORM, GIVES_PER_LANE } Gives;

static const struct {
    Gives gives;
    bool needs; /* `most` counts */
    Variance most;
} rules[BUILTIN_COUNT] = {
    [BUILTIN_CTX_GRID] = {.gives = GIVES_CLUSTER_UNIFORM},
    [BUILTIN_CTX_SUPER] = {.gives = GIVES_CLUSTER_UNIFORM},
    [BUILTIN_CTX_SUPERS] = {.gives = GIVES_CLUSTER_UNIFORM},
    [BUILTIN_CTX_THREADS] = {.gives = GIVES_CLUSTER_UNIFORM},
    [BUILTIN_CTX_CLUSTER_SIZE] = {.gives = GIVES_CLUSTER_UNIFORM},
    [BUILTIN_CTX_BLOCK] = {.gives = GIVES_UNIFORM},
    [BUILTIN_PROGRAM_ID] = {.gives = GIVES_UNIFORM},
    [BUILTIN_CTX_CLUSTER] = {.gives = GIVES_UNIFORM},
    [BUILTIN_CTX_CLUSTER_RANK] = {.gives = GIVES_UNIFORM},
    [BUILTIN_CTX_WARP] = {.gives = GIVES_WARP_UNIFORM},
    [BUILTIN_CTX_THREAD] = {.gives = GIVES_PER_LANE},
    [BUILTIN_CTX_LANE] = {.gives = GIVES_PER_LANE},
    [BUILTIN_BARRIER] = {.needs = true, .most = UNIFORM},
    [BUILTIN_ELECT_ONE_SYNC] = {GIVES_PER_LANE, true, WARP_UNIFORM},
    [BUILTIN_SHUFFLE] = {GIVES_PER_LANE, true, WARP_UNIFORM},
    [BUILTIN_SHUFFLE_XOR] = {GIVES_PER_LANE, true, WARP_UNIFORM},
    [BUILTIN_SHUFFLE_UP] = {GIVES_PER_LANE, true, WARP_UNIFORM},
    [BUILTIN_SHUFFLE_DOWN] = {GIVES_PER_LANE, true, WARP_UNIFORM},
    [BUILTIN_BALLOT] = {GIVES_WARP_UNIFORM, true, WARP_UNIFORM},
    [BUILTIN_WARP_ANY] = {GIVES_WARP_UNIFORM, true, WARP_UNIFORM},
    [BUILTIN_WARP_ALL] = {GIVES_WARP_UNIFORM, true, WARP_UNIFORM},
    [BUILTIN_WARP_SUM] = {GIVES_WARP_UNIFORM, true, WARP_UNIFORM},
    [BUILTIN_WARP_MAX] = {GIVES_WARP_UNIFORM, true, WARP_UNIFORM},
    [BUILTIN_WARP_MIN] = {GIVES_WARP_UNIFORM, true, WARP_UNIFORM},
    [BUILTIN_BLOCK_SUM] = {GIVES_UNIFORM, true, UNIFORM},
    [BUILTIN_BLOCK_MAX] = {GIVES_UNIFORM, true, UNIFORM},
    [BUILTIN_BLOCK_MIN] = {GIVES_UNIFORM, true, UNIFORM},
    [BUILTIN_CLUSTER_ARRIVE] = {.needs = true, .most = CLUSTER_UNIFORM},
    [BUILTIN_CLUSTER_ARRIVE_RELAXED] = {.needs = true, .most = CLUSTER_UNIFORM},
    [BUILTIN_CLUSTER_WAIT] = {.needs = true, .most = CLUSTER_UNIFORM},
    [BUILTIN_CLUSTER_SYNC] = {.needs = true, .most = CLUSTER_UNIFORM},
    [BUILTIN_ATOMIC_ADD] = {.gives = GIVES_PER_LANE},
    [BUILTIN_ATOMIC_MAX] = {.gives = GIVES_PER_LANE},
    [BUILTIN_ATOMIC_MIN] = {.gives = GIVES_PER_LANE},
    [BUILTIN_ATOMIC_CAS] = {.gives = GIVES_PER_LANE},
};

static const Span nowhere = {0};

static const char *quoted(Walk *walk, const char *text) {
    return arena_printf(walk->arena, "'%s'", text);
}

static void name_symbol(Walk *walk, Symbol *symbol, const char *text) {
    symbol->node = variance_node(&walk->graph, text);
    vec_push(walk->arena, &walk->symbols, symbol);
}

static VarianceNode *node_of(Walk *walk, Symbol *symbol) {
    if (!symbol->node)
        name_symbol(walk, symbol, quoted(walk, symbol->name));
    return symbol->node;
}

static VarianceNode *new_control(Walk *walk, VarianceNode *within) {
    VarianceNode *control = variance_node(&walk->graph, "control");
    variance_flow(&walk->graph, within, control, FLOW_WITHIN, nowhere);
    return control;
}

static void check_control(Walk *walk, VarianceNode *control, Variance most, const char *what, Span span) {
    variance_check(&walk->graph, RULE_CONTROL, control, most, what, span, walk->call);
}

/* `to` reads a value that varies by itself. */
static void flow_source(Walk *walk, Variance variance, const char *text, VarianceNode *to, Span span) {
    if (to && variance > CLUSTER_UNIFORM)
        variance_flow(&walk->graph, variance_source(&walk->graph, variance, text), to, FLOW_READ, span);
}

/* ---- expressions: what they read flows to `to`, which may be NULL ---- */

static void walk_expr(Walk *walk, Expr *expr, VarianceNode *control, VarianceNode *to);
static void walk_inlined(Walk *walk, const Expr *call, VarianceNode *control);

static bool is_tile(const Expr *expr) {
    return expr->type && expr->type->kind == TYPE_TILE;
}

/* A scalar where it must be uniform. */
static void walk_uniform(Walk *walk, Expr *expr, VarianceNode *control, VarianceNode *to, const char *what) {
    VarianceNode *operand = variance_node(&walk->graph, "it");
    walk_expr(walk, expr, control, operand);
    variance_check(&walk->graph, RULE_OPERAND, operand, UNIFORM, what, expr->span, walk->call);
    variance_flow(&walk->graph, operand, to, FLOW_WITHIN, nowhere);
}

static void walk_tile_operand(Walk *walk, Expr *expr, VarianceNode *control, VarianceNode *to) {
    if (is_tile(expr))
        walk_expr(walk, expr, control, to);
    else if (expr->type && expr->type->kind == TYPE_SCALAR)
        walk_uniform(walk, expr, control, to, "this operand of a tile operation");
}

static bool is_remote(const Expr *base) {
    return base->kind == EXPR_CALL && base->builtin == BUILTIN_REMOTE;
}

/* The offsets of a slice or an element, and whose memory it is. */
static void walk_place(Walk *walk, const Expr *slice, VarianceNode *control, VarianceNode *to) {
    bool is_slice = is_tile(slice);
    if (is_remote(slice->left) && is_slice)
        walk_uniform(walk, slice->left->args.items[1], control, to, "the rank of a tile's memory");
    else if (is_remote(slice->left))
        walk_expr(walk, slice->left->args.items[1], control, to);
    for (int i = 0; i < slice->subs.count; i++) {
        Expr *offset = slice->subs.items[i].a;
        if (offset && is_slice)
            walk_uniform(walk, offset, control, to, "the offset of a tile");
        else if (offset)
            walk_expr(walk, offset, control, to);
    }
}

static void walk_load(Walk *walk, const Expr *expr, VarianceNode *control, VarianceNode *to) {
    const Expr *base = is_remote(expr->left) ? expr->left->args.items[0] : expr->left;
    walk_place(walk, expr, control, to);
    flow_source(walk, UNIFORM, arena_printf(walk->arena, "a load from '%s'", base->text), to, expr->span);
}

/* The right side stands under the left. */
static void walk_logic(Walk *walk, const Expr *expr, VarianceNode *control, VarianceNode *to) {
    VarianceNode *left = variance_node(&walk->graph, arena_printf(walk->arena, "the left side of '%s'", binary_op_text(expr->binary)));
    walk_expr(walk, expr->left, control, left);
    VarianceNode *under = new_control(walk, control);
    variance_flow(&walk->graph, left, under, FLOW_WITHIN, nowhere);
    walk_expr(walk, expr->right, under, to);
    variance_flow(&walk->graph, left, to, FLOW_WITHIN, nowhere);
}

static bool is_atomic(const Expr *call) {
    return builtin_table[call->builtin].result == RESULT_ATOMIC;
}

/* A store to an element, or an atomic: whether it happens once depends on its operands and on control. */
static VarianceNode *new_store(Walk *walk, Expr *expr, VarianceNode *control) {
    VarianceNode *node = new_control(walk, control);
    vec_push(walk->arena, &walk->stores, expr);
    vec_push(walk->arena, &walk->store_nodes, node);
    return node;
}

static void walk_atomic(Walk *walk, Expr *call, VarianceNode *control) {
    VarianceNode *store = new_store(walk, call, control);
    walk_place(walk, call->args.items[0], control, store);
    for (int i = 1; i < call->args.count; i++)
        walk_expr(walk, call->args.items[i], control, store);
    variance_check(&walk->graph, RULE_ONCE, store, UNIFORM, quoted(walk, builtin_name((Builtin)call->builtin)), call->span, walk->call);
}

static bool has_tile_argument(const Expr *call) {
    for (int i = 0; i < call->args.count; i++)
        if (is_tile(call->args.items[i]))
            return true;
    return false;
}

static const char *call_text(Walk *walk, const Expr *call) {
    return quoted(walk, call->builtin == BUILTIN_CONVERT ? dtype_name(call->type->scalar) : builtin_name((Builtin)call->builtin));
}

/* A tile's reduction to a scalar gives what is uniform, whatever the tile. */
static void walk_tile_call(Walk *walk, const Expr *call, VarianceNode *control, VarianceNode *to) {
    check_control(walk, control, UNIFORM, call_text(walk, call), call->span);
    for (int i = 0; i < call->args.count; i++)
        walk_tile_operand(walk, call->args.items[i], control, is_tile(call) ? to : NULL);
    if (!is_tile(call))
        flow_source(walk, UNIFORM, call_text(walk, call), to, call->span);
}

static void walk_call(Walk *walk, Expr *call, VarianceNode *control, VarianceNode *to) {
    Gives gives = rules[call->builtin].gives;
    if (is_tile(call) || has_tile_argument(call)) {
        walk_tile_call(walk, call, control, to);
        return;
    }
    if (rules[call->builtin].needs)
        check_control(walk, control, rules[call->builtin].most, call_text(walk, call), call->span);
    if (is_atomic(call))
        walk_atomic(walk, call, control);
    for (int i = 0; i < call->args.count && !is_atomic(call); i++)
        walk_expr(walk, call->args.items[i], control, gives == GIVES_OPERANDS ? to : NULL);
    if (call->builtin == BUILTIN_CLUSTER_MASK && call->args.count == 1)
        flow_source(walk, UNIFORM, call_text(walk, call), to, call->span);
    else if (gives != GIVES_OPERANDS)
        flow_source(walk, (Variance)(gives - GIVES_CLUSTER_UNIFORM), call_text(walk, call), to, call->span);
}

static void walk_field(Walk *walk, const Expr *expr, VarianceNode *to) {
    Builtin builtin = (Builtin)expr->builtin;
    walk->asks_thread = walk->asks_thread || builtin == BUILTIN_CTX_THREAD || builtin == BUILTIN_CTX_LANE || builtin == BUILTIN_CTX_WARP;
    flow_source(walk, (Variance)(rules[builtin].gives - GIVES_CLUSTER_UNIFORM), quoted(walk, expr_text(walk->graph.checker, expr)), to, expr->span);
}

static void walk_name(Walk *walk, const Expr *expr, VarianceNode *to) {
    Symbol *symbol = expr->symbol;
    if (symbol && (symbol->kind == SYMBOL_LET || symbol->kind == SYMBOL_VAR || symbol->kind == SYMBOL_LOOP) && type_is_value(symbol->type))
        variance_flow(&walk->graph, node_of(walk, symbol), to, FLOW_READ, expr->span);
}

/* An operator on tiles, or a slice. */
static void walk_tile_expr(Walk *walk, const Expr *expr, VarianceNode *control, VarianceNode *to) {
    check_control(walk, control, UNIFORM, expr->kind == EXPR_INDEX ? "the load of a tile" : "a tile operation", expr->span);
    if (expr->kind == EXPR_INDEX) {
        walk_load(walk, expr, control, to);
        return;
    }
    walk_tile_operand(walk, expr->left, control, to);
    if (expr->right)
        walk_tile_operand(walk, expr->right, control, to);
}

static void walk_expr(Walk *walk, Expr *expr, VarianceNode *control, VarianceNode *to) {
    switch (expr->kind) {
    case EXPR_INT:
    case EXPR_FLOAT:
    case EXPR_BOOL:
        break;
    case EXPR_NAME:
        walk_name(walk, expr, to);
        break;
    case EXPR_FIELD:
        walk_field(walk, expr, to);
        break;
    case EXPR_CALL:
        walk_call(walk, expr, control, to);
        break;
    case EXPR_INLINE:
        walk_inlined(walk, expr, control);
        if (expr->inlined->result)
            variance_flow(&walk->graph, node_of(walk, expr->inlined->result), to, FLOW_READ, expr->span);
        break;
    case EXPR_INDEX:
    case EXPR_UNARY:
    case EXPR_BINARY:
    case EXPR_CONVERT:
        if (is_tile(expr)) {
            walk_tile_expr(walk, expr, control, to);
        } else if (expr->kind == EXPR_INDEX) {
            walk_load(walk, expr, control, to);
        } else if (expr->kind == EXPR_BINARY && (expr->binary == BINARY_LOGIC_AND || expr->binary == BINARY_LOGIC_OR)) {
            walk_logic(walk, expr, control, to);
        } else {
            walk_expr(walk, expr->left, control, to);
            if (expr->right)
                walk_expr(walk, expr->right, control, to);
        }
        break;
    }
}

/* ---- statements ---- */

static void walk_block(Walk *walk, const Block *block, VarianceNode *control);

/* A variable varies like its assignments and the conditions around them. */
static void walk_assigned(Walk *walk, Symbol *symbol, Expr *value, VarianceNode *control, Span span) {
    VarianceNode *variable = node_of(walk, symbol);
    bool is_tile_variable = symbol->type->kind == TYPE_TILE;
    variance_flow(&walk->graph, control, variable, FLOW_UNDER, span);
    if (value && is_tile_variable)
        walk_tile_operand(walk, value, control, variable);
    else if (value)
        walk_expr(walk, value, control, variable);
    if (is_tile_variable)
        check_control(walk, control, UNIFORM, "the assignment of a tile", span);
}

static void walk_declaration(Walk *walk, const Stmt *stmt, VarianceNode *control) {
    if (type_is_value(stmt->symbol->type))
        walk_assigned(walk, stmt->symbol, stmt->value, control, stmt->name_span);
}

static void walk_assignment(Walk *walk, const Stmt *stmt, VarianceNode *control) {
    Expr *target = stmt->target;
    if (target->kind == EXPR_NAME) {
        walk_assigned(walk, target->symbol, stmt->value, control, target->span);
    } else if (is_tile(target)) {
        check_control(walk, control, UNIFORM, "the store of a tile", target->span);
        walk_place(walk, target, control, NULL);
        walk_tile_operand(walk, stmt->value, control, NULL);
    } else {
        VarianceNode *store = new_store(walk, target, control);
        walk_place(walk, target, control, store);
        walk_expr(walk, stmt->value, control, store);
        if (stmt->compound)
            variance_check(
                &walk->graph, RULE_ONCE, store, UNIFORM, arena_printf(walk->arena, "this '%s='", binary_op_text(stmt->op)), stmt->span, walk->call);
    }
}

static VarianceNode *either(Walk *walk, VarianceNode *a, VarianceNode *b) {
    if (a == b || !b)
        return a;
    if (!a)
        return b;
    VarianceNode *both = new_control(walk, a);
    variance_flow(&walk->graph, b, both, FLOW_WITHIN, nowhere);
    return both;
}

static void walk_if(Walk *walk, const Stmt *stmt, VarianceNode *control) {
    VarianceNode *returned = walk->returned, *jumped = walk->jumped;
    VarianceNode *under = new_control(walk, control);
    walk_expr(walk, stmt->value, control, under);
    walk_block(walk, &stmt->body, under);
    VarianceNode *then_returned = walk->returned, *then_jumped = walk->jumped;
    walk->returned = returned;
    walk->jumped = jumped;
    walk_block(walk, &stmt->otherwise, under);
    walk->returned = either(walk, then_returned, walk->returned);
    walk->jumped = either(walk, then_jumped, walk->jumped);
}

static void walk_loop(Walk *walk, const Stmt *stmt, VarianceNode *control) {
    VarianceNode *jumped = walk->jumped;
    Loop loop = {.control = new_control(walk, control), .outer = walk->loop};
    for (int i = 0; i < stmt->range.count; i++)
        walk_expr(walk, stmt->range.items[i], control, loop.control);
    if (stmt->kind == STMT_FOR)
        variance_flow(&walk->graph, loop.control, node_of(walk, stmt->symbol), FLOW_UNDER, stmt->name_span);
    walk->loop = &loop;
    walk->jumped = NULL;
    if (stmt->kind == STMT_WHILE)
        walk_expr(walk, stmt->value, loop.control, loop.control);
    walk_block(walk, &stmt->body, loop.control);
    walk->loop = loop.outer;
    walk->jumped = jumped;
}

/* What comes after the jump, on this way through the body and on the next ones, is reached by those alone that did not take it. */
static void walk_return(Walk *walk, const Stmt *stmt, VarianceNode *control) {
    if (walk->result)
        walk_assigned(walk, walk->result, stmt->value, control, stmt->span);
    for (Loop *loop = walk->loop; loop; loop = loop->outer)
        variance_flow(&walk->graph, control, loop->control, FLOW_RETURN, stmt->span);
    walk->returned = new_control(walk, walk->returned);
    variance_flow(&walk->graph, control, walk->returned, FLOW_RETURN, stmt->span);
}

static void walk_jump(Walk *walk, const Stmt *stmt, VarianceNode *control) {
    bool is_break = stmt->kind == STMT_BREAK;
    if (is_break)
        variance_flow(&walk->graph, control, walk->loop->control, FLOW_BREAK, stmt->span);
    walk->jumped = new_control(walk, walk->jumped);
    variance_flow(&walk->graph, control, walk->jumped, is_break ? FLOW_BREAK : FLOW_CONTINUE, stmt->span);
}

static void walk_stmt(Walk *walk, const Stmt *stmt, VarianceNode *control) {
    switch (stmt->kind) {
    case STMT_LET:
    case STMT_VAR:
        walk_declaration(walk, stmt, control);
        break;
    case STMT_ASSIGN:
        walk_assignment(walk, stmt, control);
        break;
    case STMT_CALL:
        walk_expr(walk, stmt->value, control, NULL);
        break;
    case STMT_FOR:
    case STMT_WHILE:
        walk_loop(walk, stmt, control);
        break;
    case STMT_IF:
        walk_if(walk, stmt, control);
        break;
    case STMT_BREAK:
    case STMT_CONTINUE:
        walk_jump(walk, stmt, control);
        break;
    case STMT_RETURN:
        walk_return(walk, stmt, control);
        break;
    }
}

static void walk_block(Walk *walk, const Block *block, VarianceNode *control) {
    for (int i = 0; i < block->count; i++) {
        const VarianceNode *returned = walk->returned, *jumped = walk->jumped;
        walk_stmt(walk, block->items[i], control);
        if (walk->returned != returned)
            control = either(walk, control, walk->returned);
        if (walk->jumped != jumped)
            control = either(walk, control, walk->jumped);
    }
}

static void walk_inlined(Walk *walk, const Expr *call, VarianceNode *control) {
    Walk caller = *walk;
    const Inlined *inlined = call->inlined;
    walk_block(walk, &inlined->params, control);
    walk->result = inlined->result;
    if (walk->result)
        name_symbol(walk, walk->result, arena_printf(walk->arena, "the value of '%s'", walk->result->name));
    walk->call = call->span;
    walk->loop = NULL;
    walk->returned = walk->jumped = NULL;
    walk_block(walk, &inlined->body, control);
    walk->result = caller.result;
    walk->call = caller.call;
    walk->loop = caller.loop;
    walk->returned = caller.returned;
    walk->jumped = caller.jumped;
}

void check_uniformity(Checker *checker, const Block *body) {
    Walk walk = {.graph = {.checker = checker}, .arena = checker->context->arena};
    walk_block(&walk, body, variance_node(&walk.graph, "control"));
    variance_solve(&walk.graph);
    for (int i = 0; i < walk.symbols.count; i++)
        walk.symbols.items[i]->variance = variance_of(walk.symbols.items[i]->node);
    for (int i = 0; i < walk.stores.count; i++)
        walk.stores.items[i]->is_once = variance_of(walk.store_nodes.items[i]) <= UNIFORM;
    variance_report(&walk.graph, walk.asks_thread);
}
