/* Control flow and inlined fns. A region's op carries the variables that are assigned inside and live outside. `break`, `continue` and `return` set
 * guard flags, bool variables that are carried like any other: what follows a statement that may jump stands under `if` not the flag, and a loop that
 * may be left early is a `while` that tests one. */
#include "compiler/lower/ast_to_ir.h"

typedef VEC(const Symbol *) Symbols;

/* A loop, or the body of a kernel or an inlined fn. */
struct Frame {
    Frame *outer;            /* of the same body; NULL: this is the body */
    const Symbol *stop_body; /* what is left of the statements does not run */
    const Symbol *stop_loop; /* nor do further iterations. NULL in a body */
    const Symbol *result;    /* of an inlined fn */
};

/* What statements may do to the loops and the body around them. */
typedef struct Jumps {
    bool breaks, continues, returns;
} Jumps;

static Jumps jumps_of_block(const Block *block);

static Jumps jumps_of(const Stmt *stmt) {
    Jumps jumps = {stmt->kind == STMT_BREAK, stmt->kind == STMT_CONTINUE, stmt->kind == STMT_RETURN};
    Jumps body = jumps_of_block(&stmt->body), otherwise = jumps_of_block(&stmt->otherwise);
    bool is_loop = stmt->kind == STMT_FOR || stmt->kind == STMT_WHILE;
    jumps.breaks |= !is_loop && (body.breaks || otherwise.breaks);
    jumps.continues |= !is_loop && (body.continues || otherwise.continues);
    jumps.returns |= body.returns || otherwise.returns;
    return jumps;
}

static Jumps jumps_of_block(const Block *block) {
    Jumps all = {false, false, false};
    for (int i = 0; i < block->count; i++) {
        Jumps jumps = jumps_of(block->items[i]);
        all.breaks |= jumps.breaks;
        all.continues |= jumps.continues;
        all.returns |= jumps.returns;
    }
    return all;
}

static bool any(Jumps jumps) {
    return jumps.breaks || jumps.continues || jumps.returns;
}

/* ---- flags ---- */

static const Type *bool_type(Lowering *l) {
    return type_scalar(l->context->types, PHB_BOOL);
}

static IrValue *const_bool(Lowering *l, Span span, bool value) {
    return ir_const_bits(l->context, l->block, span, bool_type(l), value);
}

static const Symbol *new_flag(Lowering *l, Span span) {
    Symbol *flag = NEW(l->context->arena, Symbol);
    *flag = (Symbol){.kind = SYMBOL_VAR, .name = "flag", .span = span, .type = bool_type(l)};
    return flag;
}

static void set_flag(Lowering *l, const Symbol *flag, Span span, bool value) {
    lower_bind(l, flag, const_bool(l, span, value));
}

static IrValue *value_of(Lowering *l, const Symbol *symbol) {
    return lower_binding(l, symbol)->value;
}

static IrValue *negate(Lowering *l, Span span, IrValue *flag) {
    return ir_value(l->context, l->block, OP_NOT, span, bool_type(l), flag, NULL);
}

/* ---- what regions carry ---- */

/* Only what stands for something already is carried: the others are declared inside. */
static void collect(Lowering *l, Symbols *symbols, const Symbol *symbol) {
    Binding *binding = symbol ? lower_binding(l, symbol) : NULL;
    if (!binding || binding->stamp == l->stamp)
        return;
    binding->stamp = l->stamp;
    vec_push(l->context->arena, symbols, symbol);
}

static void collect_block(Lowering *l, Symbols *symbols, Stmt *const *stmts, int count) {
    for (int i = 0; i < count; i++) {
        const Stmt *stmt = stmts[i];
        if (stmt->kind == STMT_ASSIGN && stmt->target->kind == EXPR_NAME)
            collect(l, symbols, stmt->target->symbol);
        collect_block(l, symbols, stmt->body.items, stmt->body.count);
        collect_block(l, symbols, stmt->otherwise.items, stmt->otherwise.count);
    }
}

static void collect_jumps(Lowering *l, Symbols *symbols, Jumps jumps) {
    const Frame *frame = l->frame;
    if (any(jumps))
        collect(l, symbols, frame->stop_body);
    if (jumps.breaks || jumps.returns)
        collect(l, symbols, frame->stop_loop);
    if (!jumps.returns)
        return;
    while (frame->outer) {
        frame = frame->outer;
        collect(l, symbols, frame->stop_body);
        collect(l, symbols, frame->stop_loop);
    }
    collect(l, symbols, frame->result);
}

/* Variables and flags that the statements, in the frame at hand, may change. */
static Symbols carried_by(Lowering *l, Stmt *const *stmts, int count, Jumps jumps) {
    Symbols symbols = {0};
    l->stamp++;
    collect_block(l, &symbols, stmts, count);
    collect_jumps(l, &symbols, jumps);
    return symbols;
}

static IrValue **values_of(Lowering *l, const Symbols *symbols) {
    IrValue **values = NEW_ARRAY(l->context->arena, IrValue *, symbols->count + 1);
    for (int i = 0; i < symbols->count; i++)
        values[i] = value_of(l, symbols->items[i]);
    return values;
}

static void bind_all(Lowering *l, const Symbols *symbols, IrValue *const *values) {
    for (int i = 0; i < symbols->count; i++)
        lower_bind(l, symbols->items[i], values[i]);
}

/* Appends an op that carries what `values` are now, after `fixed` other operands. */
static IrOp *append_carrying(Lowering *l, OpKind kind, Span span, IrValue *const *fixed, int fixed_count, IrValue *const *values, int count) {
    Arena *arena = l->context->arena;
    IrValue **operands = NEW_ARRAY(arena, IrValue *, fixed_count + count + 1);
    const Type **types = NEW_ARRAY(arena, const Type *, count + 1);
    for (int i = 0; i < fixed_count; i++)
        operands[i] = fixed[i];
    for (int i = 0; i < count; i++) {
        types[i] = values[i]->type;
        operands[fixed_count + i] = values[i];
    }
    return ir_append(l->context, l->block, kind, span, operands, kind == OP_IF ? fixed_count : fixed_count + count, types, count);
}

/* A new region of `op`, where ops go from now on, with arguments that the index and the carried variables stand for in it. Gives the block to come
 * back to. */
static IrBlock *enter(Lowering *l, IrOp *op, const Symbol *index, const Symbols *carried) {
    IrBlock *before = l->block;
    l->block = ir_region_new(l->context, op);
    if (index)
        lower_bind(l, index, ir_block_arg(l->context, l->block, type_scalar(l->context->types, PHB_I64), NULL));
    for (int i = 0; carried && i < carried->count; i++)
        lower_bind(l, carried->items[i], ir_block_arg(l->context, l->block, value_of(l, carried->items[i])->type, NULL));
    if (++l->depth > IR_MAX_DEPTH && !l->too_deep) {
        diag_error(l->context->diag, op->span,
            "more than %d levels of control flow, where a called fn adds its own, and each jump one for what follows it", IR_MAX_DEPTH);
        l->too_deep = true;
    }
    return before;
}

static void leave(Lowering *l, IrBlock *before, Span span, OpKind terminator, IrValue *const *values, int count) {
    ir_append(l->context, l->block, terminator, span, values, count, NULL, 0);
    l->block = before;
    l->depth--;
}

static void leave_yielding(Lowering *l, IrBlock *before, Span span, const Symbols *carried) {
    leave(l, before, span, OP_YIELD, values_of(l, carried), carried->count);
}

/* ---- statements ---- */

static void lower_stmts(Lowering *l, Stmt *const *stmts, int count);

static void lower_if(Lowering *l, Span span, IrValue *condition, const Symbols *carried, const Block *then, const Block *otherwise) {
    IrValue **before = values_of(l, carried);
    IrOp *op = append_carrying(l, OP_IF, span, &condition, 1, before, carried->count);
    IrBlock *block = enter(l, op, NULL, NULL);
    lower_stmts(l, then->items, then->count);
    leave_yielding(l, block, span, carried);
    bind_all(l, carried, before);
    block = enter(l, op, NULL, NULL);
    lower_stmts(l, otherwise->items, otherwise->count);
    leave_yielding(l, block, span, carried);
    bind_all(l, carried, op->results.items);
}

static void lower_if_stmt(Lowering *l, const Stmt *stmt) {
    IrValue *condition = lower_expr(l, stmt->value);
    Stmt *whole = (Stmt *)stmt;
    Symbols carried = carried_by(l, &whole, 1, jumps_of(stmt));
    lower_if(l, stmt->span, condition, &carried, &stmt->body, &stmt->otherwise);
}

/* The body of a loop, once; the loop's frame is at hand. */
static void lower_iteration(Lowering *l, const Stmt *stmt) {
    if (any(jumps_of_block(&stmt->body)))
        set_flag(l, l->frame->stop_body, stmt->span, false);
    lower_stmts(l, stmt->body.items, stmt->body.count);
}

static IrValue *binary(Lowering *l, OpKind kind, Span span, IrValue *a, IrValue *b) {
    return ir_value(l->context, l->block, kind, span, a->type, a, b);
}

/* `flag` is not set and, evaluated only then, the condition holds. */
static IrValue *unless(Lowering *l, const Symbol *flag, const Expr *condition) {
    IrValue *go_on = negate(l, condition->span, value_of(l, flag));
    if (!evaluation_is_seen(condition))
        return binary(l, OP_AND, condition->span, go_on, lower_expr(l, condition));
    IrOp *op = append_carrying(l, OP_IF, condition->span, &go_on, 1, &go_on, 1);
    IrBlock *block = enter(l, op, NULL, NULL);
    IrValue *value = lower_expr(l, condition);
    leave(l, block, condition->span, OP_YIELD, &value, 1);
    block = enter(l, op, NULL, NULL);
    leave(l, block, condition->span, OP_YIELD, &go_on, 1);
    return op->results.items[0];
}

static void lower_while(Lowering *l, const Stmt *stmt, const Symbols *carried, bool stops) {
    IrValue **initial = values_of(l, carried);
    IrOp *op = append_carrying(l, OP_WHILE, stmt->span, NULL, 0, initial, carried->count);
    IrBlock *block = enter(l, op, NULL, carried);
    IrValue *condition = stops ? unless(l, l->frame->stop_loop, stmt->value) : lower_expr(l, stmt->value);
    leave(l, block, stmt->span, OP_CONDITION, &condition, 1);
    block = enter(l, op, NULL, carried);
    lower_iteration(l, stmt);
    leave_yielding(l, block, stmt->span, carried);
    bind_all(l, carried, op->results.items);
}

typedef struct Range {
    IrValue *start, *end, *step;
} Range;

static Range lower_range(Lowering *l, const Stmt *stmt) {
    const Type *i64 = type_scalar(l->context->types, PHB_I64);
    Range range = {NULL, NULL, NULL};
    Expr *const *parts = stmt->range.items;
    if (stmt->range.count > 1)
        range.start = lower_expr(l, parts[0]);
    range.end = lower_expr(l, parts[stmt->range.count > 1]);
    if (stmt->range.count > 2)
        range.step = lower_expr(l, parts[2]);
    if (!range.start)
        range.start = lower_bits(l, stmt->span, i64, 0);
    if (!range.step)
        range.step = lower_bits(l, stmt->span, i64, 1);
    return range;
}

static void lower_counted(Lowering *l, const Stmt *stmt, Range range, const Symbols *carried) {
    IrValue *const fixed[3] = {range.start, range.end, range.step};
    IrOp *op = append_carrying(l, OP_FOR, stmt->span, fixed, 3, values_of(l, carried), carried->count);
    op->dim = stmt->unroll ? stmt->unroll->dim : NULL;
    IrBlock *before = enter(l, op, stmt->symbol, carried);
    lower_iteration(l, stmt);
    leave_yielding(l, before, stmt->span, carried);
    bind_all(l, carried, op->results.items);
}

/* The number of iterations, which u64 always holds: (distance - 1) / |step| + 1 where the range is not empty and the step not 0. */
static IrValue *lower_trip_count(Lowering *l, Span span, Range range) {
    Context *context = l->context;
    const Type *i64 = range.start->type, *u64 = type_scalar(context->types, PHB_U64);
    IrValue *zero = lower_bits(l, span, i64, 0), *one = lower_bits(l, span, u64, 1);
    IrValue *down = ir_value(context, l->block, OP_LT, span, bool_type(l), range.step, zero);
    IrValue *select[3] = {down, range.end, range.start};
    IrValue *low = ir_append(context, l->block, OP_SELECT, span, select, 3, &i64, 1)->results.items[0];
    select[1] = range.start;
    select[2] = range.end;
    IrValue *high = ir_append(context, l->block, OP_SELECT, span, select, 3, &i64, 1)->results.items[0];
    IrValue *stride = lower_convert(l, span, ir_value(context, l->block, OP_ABS, span, i64, range.step, NULL), PHB_U64);
    IrValue *distance = binary(l, OP_SUB, span, lower_convert(l, span, high, PHB_U64), lower_convert(l, span, low, PHB_U64));
    IrValue *more = binary(l, OP_DIV, span, binary(l, OP_SUB, span, distance, one), stride);
    IrValue *runs = ir_value(context, l->block, OP_LT, span, bool_type(l), low, high);
    IrValue *moves = ir_value(context, l->block, OP_NE, span, bool_type(l), range.step, zero);
    IrValue *count[3] = {binary(l, OP_AND, span, runs, moves), binary(l, OP_ADD, span, more, one), lower_bits(l, span, u64, 0)};
    return ir_append(context, l->block, OP_SELECT, span, count, 3, &u64, 1)->results.items[0];
}

/* A `for` that may be left early: a `while` that counts, until the count or the flag ends it. */
static void lower_stoppable(Lowering *l, const Stmt *stmt, Range range, const Symbols *carried) {
    Context *context = l->context;
    Span span = stmt->span;
    IrValue *count = lower_trip_count(l, span, range);
    Symbol *counter = NEW(context->arena, Symbol);
    *counter = (Symbol){.kind = SYMBOL_VAR, .name = "counter", .span = span, .type = count->type};
    lower_bind(l, counter, lower_bits(l, span, count->type, 0));
    Symbols all = {0};
    vec_push(context->arena, &all, counter);
    for (int i = 0; i < carried->count; i++)
        vec_push(context->arena, &all, carried->items[i]);
    IrOp *op = append_carrying(l, OP_WHILE, span, NULL, 0, values_of(l, &all), all.count);
    IrBlock *block = enter(l, op, NULL, &all);
    IrValue *left = ir_value(context, l->block, OP_LT, span, bool_type(l), value_of(l, counter), count);
    IrValue *condition = binary(l, OP_AND, span, left, negate(l, span, value_of(l, l->frame->stop_loop)));
    leave(l, block, span, OP_CONDITION, &condition, 1);
    block = enter(l, op, NULL, &all);
    IrValue *done = value_of(l, counter);
    IrValue *offset = binary(l, OP_MUL, span, lower_convert(l, span, done, PHB_I64), range.step);
    lower_bind(l, stmt->symbol, binary(l, OP_ADD, span, range.start, offset));
    lower_iteration(l, stmt);
    lower_bind(l, counter, binary(l, OP_ADD, span, done, lower_bits(l, span, count->type, 1)));
    leave_yielding(l, block, span, &all);
    bind_all(l, &all, op->results.items);
}

/* Whether the loop runs across super-tiles: from 0 to a dim by a @cluster name, LANGUAGE.md 9. */
static bool is_cluster_loop(Lowering *l, const Stmt *stmt) {
    if (stmt->kind != STMT_FOR || stmt->range.count != 3)
        return false;
    const Expr *start = stmt->range.items[0], *end = stmt->range.items[1];
    const Dim *step = stmt->range.items[2]->dim;
    const SearchDim *dim = step && step->kind == PHB_EXPR_DIM ? signature_search(&l->kernel->signature, step->name) : NULL;
    bool is_whole = end->dim || end->builtin == BUILTIN_EXTENT || end->builtin == BUILTIN_WHOLE;
    return dim && dim->cluster.count > 0 && start->dim == dim_int(l->context->dims, 0) && is_whole;
}

/* The first statement that leaves the loop whose body the block is. */
static const Stmt *find_exit(const Block *block, bool breaks) {
    for (int i = 0; i < block->count; i++) {
        const Stmt *stmt = block->items[i];
        if (stmt->kind == STMT_RETURN || (breaks && stmt->kind == STMT_BREAK))
            return stmt;
        bool inner = breaks && stmt->kind == STMT_IF;
        const Stmt *found = find_exit(&stmt->body, inner);
        found = found ? found : find_exit(&stmt->otherwise, inner);
        if (found)
            return found;
    }
    return NULL;
}

static void refuse_exit(Lowering *l, const Stmt *loop) {
    Diag *diag = l->context->diag;
    const char *step = loop->range.items[2]->dim->name;
    const Stmt *exit = find_exit(&loop->body, true);
    diag_error(diag, loop->span, "a cluster loop has no 'break' or 'return'");
    diag_note(diag, exit->span, "it is left here");
    diag_note(diag, (Span){0}, "on one node, each CTA leaves the loop by itself");
    diag_note(diag, (Span){0}, "on the cluster, the loop steps by the @cluster name '%s', so all chunks are loaded and run, for all CTAs of a unit of work", step);
    diag_note(diag, (Span){0}, "smallest edit: put what is left of the body under 'if', or take '%s' from @cluster", step);
}

static void lower_loop(Lowering *l, const Stmt *stmt) {
    bool is_for = stmt->kind == STMT_FOR;
    Range range = is_for ? lower_range(l, stmt) : (Range){NULL, NULL, NULL};
    Jumps jumps = jumps_of_block(&stmt->body);
    bool stops = jumps.breaks || jumps.returns;
    if (stops && is_cluster_loop(l, stmt))
        refuse_exit(l, stmt);
    Frame frame = {.outer = l->frame, .stop_body = new_flag(l, stmt->span), .stop_loop = new_flag(l, stmt->span)};
    if (stops)
        set_flag(l, frame.stop_loop, stmt->span, false);
    l->frame = &frame;
    Symbols carried = carried_by(l, stmt->body.items, stmt->body.count, jumps);
    if (!is_for)
        lower_while(l, stmt, &carried, stops);
    else if (stops)
        lower_stoppable(l, stmt, range, &carried);
    else
        lower_counted(l, stmt, range, &carried);
    l->frame = frame.outer;
}

static void lower_return(Lowering *l, const Stmt *stmt) {
    Frame *frame = l->frame;
    for (; frame->outer; frame = frame->outer) {
        set_flag(l, frame->stop_body, stmt->span, true);
        set_flag(l, frame->stop_loop, stmt->span, true);
    }
    set_flag(l, frame->stop_body, stmt->span, true);
    if (frame->result && stmt->value) {
        IrValue *value = lower_convert(l, stmt->span, lower_expr(l, stmt->value), frame->result->type->scalar);
        lower_bind(l, frame->result, lower_broadcast(l, stmt->span, value, frame->result->type));
    }
}

static void lower_stmt(Lowering *l, const Stmt *stmt) {
    switch (stmt->kind) {
    case STMT_IF:
        lower_if_stmt(l, stmt);
        break;
    case STMT_FOR:
    case STMT_WHILE:
        lower_loop(l, stmt);
        break;
    case STMT_BREAK:
        set_flag(l, l->frame->stop_loop, stmt->span, true);
        set_flag(l, l->frame->stop_body, stmt->span, true);
        break;
    case STMT_CONTINUE:
        set_flag(l, l->frame->stop_body, stmt->span, true);
        break;
    case STMT_RETURN:
        lower_return(l, stmt);
        break;
    default:
        lower_plain_stmt(l, stmt);
        break;
    }
}

static void lower_stmts(Lowering *l, Stmt *const *stmts, int count) {
    for (int i = 0; i < count && !l->too_deep; i++) {
        const Stmt *stmt = stmts[i];
        lower_stmt(l, stmt);
        if (stmt->kind == STMT_BREAK || stmt->kind == STMT_CONTINUE || stmt->kind == STMT_RETURN)
            return;
        if (!any(jumps_of(stmt)) || i + 1 == count)
            continue;
        Block rest = {0}, nothing = {0};
        rest.items = (Stmt **)stmts + i + 1;
        rest.count = count - i - 1;
        Symbols carried = carried_by(l, rest.items, rest.count, jumps_of_block(&rest));
        lower_if(l, stmt->span, negate(l, stmt->span, value_of(l, l->frame->stop_body)), &carried, &rest, &nothing);
        return;
    }
}

/* ---- bodies ---- */

static void lower_framed(Lowering *l, const Block *body, const Symbol *result, Span span) {
    Frame frame = {.stop_body = new_flag(l, span), .result = result}, *caller = l->frame;
    l->frame = &frame;
    if (jumps_of_block(body).returns)
        set_flag(l, frame.stop_body, span, false);
    if (result)
        lower_bind(l, result, lower_bits(l, span, result->type, 0));
    lower_stmts(l, body->items, body->count);
    l->frame = caller;
}

void lower_body(Lowering *l, const Block *body) {
    lower_framed(l, body, NULL, (Span){0});
}

IrValue *lower_inline(Lowering *l, const Expr *expr) {
    const Inlined *inlined = expr->inlined;
    for (int i = 0; i < inlined->params.count; i++)
        lower_plain_stmt(l, inlined->params.items[i]);
    lower_framed(l, &inlined->body, inlined->result, expr->span);
    return inlined->result ? value_of(l, inlined->result) : NULL;
}

IrValue *lower_short_circuit(Lowering *l, const Expr *expr) {
    IrValue *left = lower_expr(l, expr->left);
    IrOp *op = append_carrying(l, OP_IF, expr->span, &left, 1, &left, 1);
    for (int branch = 0; branch < 2; branch++) {
        IrBlock *block = enter(l, op, NULL, NULL);
        bool decided = (branch == 1) == (expr->binary == BINARY_LOGIC_AND);
        IrValue *value = decided ? left : lower_expr(l, expr->right);
        leave(l, block, expr->span, OP_YIELD, &value, 1);
    }
    return op->results.items[0];
}
