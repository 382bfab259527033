/* Puts a barrier wherever one thread could touch bytes that another one touched since the last barrier, and one of them writes, so that tile
 * statements take effect in program order. Requires layouts and places in shared memory. Between two accesses of thread code ordering is the source's
 * matter: there none is added. An op with scratch writes it, passes a barrier of its own, and reads it. Never adds one where threads may diverge:
 * regions without tile statements are looked at as a whole. */
#include "compiler/layout/layout.h"

/* What an op reads or writes. */
typedef struct Touch {
    const IrOp *op;
    int param;       /* a tensor; -1: shared memory, */
    int64_t at, end; /* these bytes */
    bool writes, by_thread;
    const IrOp *ring; /* whose slots these are, or NULL: within a ring, the turns of one loop have barriers of their own, and bulk copies mbarriers */
    const IrOp *loop; /* the outermost loop whose next turn this is looked at from; NULL: none */
} Touch;

typedef VEC(Touch) Touches;

typedef struct Walk {
    Context *context;
    IrKernel *kernel;
    bool has_thread_code;
    Touches pending; /* since the last barrier */
} Walk;

/* ---- what ops touch ---- */

static bool is_by_thread(const Walk *w, const IrOp *op) {
    return w->has_thread_code && !op->once && op->kind != OP_STAGE && (ir_is_atomic(op->kind) || access_type(op)->kind == TYPE_SCALAR);
}

static void add_ring(const Walk *w, const IrOp *op, const IrOp *slot, bool writes, Touches *touches) {
    const IrOp *ring = slot->operands.items[0]->def;
    Touch touch = {.op = op, .param = -1, .at = ring->shared_at, .end = ring->shared_at + ring->shared_bytes, .writes = writes, .ring = ring};
    vec_push(w->context->arena, touches, touch);
}

static void add_copy(const Walk *w, const IrOp *op, Touches *touches) {
    bool is_store = op->kind == OP_BULK_STORE;
    Touch touch = {.op = op, .param = op->operands.items[0]->index, .writes = is_store};
    vec_push(w->context->arena, touches, touch);
    add_ring(w, op, op->operands.items[op->operands.count - ir_values_stored(op->kind)]->def, !is_store, touches);
}

static void add_memory(const Walk *w, const IrOp *op, Touches *touches) {
    const IrValue *memory = ir_memory(op, NULL);
    Touch touch = {.op = op, .param = -1, .writes = op->kind != OP_LOAD, .by_thread = is_by_thread(w, op)};
    if (ir_is_param(memory)) {
        touch.param = memory->index;
    } else {
        touch.at = memory->def->shared_at;
        touch.end = touch.at + memory->def->shared_bytes;
    }
    vec_push(w->context->arena, touches, touch);
}

static void add_scratch(const Walk *w, const IrOp *op, bool writes, Touches *touches) {
    Touch touch = {.op = op, .param = -1, .at = op->shared_at, .end = op->shared_at + op->shared_bytes, .writes = writes};
    vec_push(w->context->arena, touches, touch);
}

static bool has_scratch(const IrOp *op) {
    return op->shared_bytes && op->kind != OP_STAGE && op->kind != OP_SHARED && op->kind != OP_RING && op->kind != OP_BULK_RING;
}

static void add_factor(const Walk *w, const IrOp *op, const IrValue *factor, Touches *touches) {
    if (factor->type->kind != TYPE_SHARED)
        return;
    if (factor->def->kind == OP_SLOT)
        add_ring(w, op, factor->def, false, touches);
    else
        add_scratch(w, factor->def, false, touches);
}

/* Before the op's own barrier, if it has one. */
static void add_touches(const Walk *w, const IrOp *op, Touches *touches) {
    if (op->kind == OP_ASYNC_COPY || op->kind == OP_BULK_COPY || op->kind == OP_BULK_STORE)
        add_copy(w, op, touches);
    else if (op->kind == OP_BULK_PUT)
        add_ring(w, op, op->operands.items[1]->def, true, touches);
    else if (op_info[op->kind].attr == ATTR_SLICE)
        add_memory(w, op, touches);
    if (op->kind == OP_STAGE || has_scratch(op))
        add_scratch(w, op, true, touches);
    if (op->kind == OP_MBARRIER_EXPECT || op->kind == OP_MBARRIER_WAIT || op->kind == OP_MBARRIER_ARRIVE)
        add_scratch(w, op->operands.items[0]->def, false, touches);
    bool is_product = op->kind == OP_DOT || op->kind == OP_DOT_T || op->kind == OP_MMA || op->kind == OP_MMA_T;
    if (is_product || op->kind == OP_WGMMA || op->kind == OP_WGMMA_T)
        for (int i = 0; i < 2; i++)
            add_factor(w, op, op->operands.items[i], touches);
}

static void add_inner(const Walk *w, const IrOp *op, Touches *touches) {
    add_touches(w, op, touches);
    for (int r = 0; r < op->regions.count; r++)
        for (const IrOp *inner = op->regions.items[r]->first; inner; inner = inner->next)
            add_inner(w, inner, touches);
}

/* Nothing in its regions needs all threads, so that they may diverge there. */
static bool may_diverge(const Walk *w, const IrOp *op) {
    Touches touches = {0};
    if (!w->has_thread_code || !op->regions.count || ir_has_sync(op))
        return false;
    add_inner(w, op, &touches);
    for (int i = 0; i < touches.count; i++)
        if (!touches.items[i].by_thread)
            return false;
    return true;
}

/* ---- hazards ---- */

static bool is_owned(const Walk *w, const Type *type) {
    if (type->kind != TYPE_TILE || w->kernel->threads != 32 << type->layout->warps)
        return false;
    for (int bit = type->layout->registers; bit < layout_bits(type->layout); bit++)
        if (!type->layout->bases[bit].at[0] && !type->layout->bases[bit].at[1])
            return false;
    return true;
}

/* Whether turns of the loop that are not the same reach different elements: an offset steps by at least the slice's extent. */
static bool steps_over(const IrOp *op, const IrOp *loop) {
    if (loop->kind != OP_FOR || loop->operands.items[2]->def == NULL || loop->operands.items[2]->def->kind != OP_CONST)
        return false;
    bool found = false;
    const IrValue *index = loop->regions.items[0]->args.items[0];
    for (int i = 0; !found && i < op->operands.items[0]->type->rank; i++) {
        const IrValue *offset = op->operands.items[1 + i];
        int64_t extent = 1;
        bool is_sum = offset->def && offset->def->kind == OP_ADD;
        for (int k = 0; is_sum && k < 2; k++)
            found |= offset->def->operands.items[k] == index && !ir_is_inside(offset->def->operands.items[!k], loop);
        found &= (!op->extent[i] || dim_is_int(op->extent[i], &extent)) && (int64_t)loop->operands.items[2]->def->bits >= extent;
    }
    return found;
}

/* Every thread touches the elements that it has touched before, or none of them. */
static bool same_threads(const Walk *w, const Touch *before, const Touch *touch) {
    const IrOp *a = before->op, *b = touch->op;
    bool are_slices = op_info[a->kind].attr == ATTR_SLICE && op_info[b->kind].attr == ATTR_SLICE && !ir_is_atomic(a->kind) &&
                      !ir_is_atomic(b->kind) && a->kind != OP_ASYNC_COPY && b->kind != OP_ASYNC_COPY &&
                      a->kind != OP_BULK_COPY && b->kind != OP_BULK_COPY && a->kind != OP_BULK_STORE && b->kind != OP_BULK_STORE;
    if (!are_slices || !slice_same(a, b) || access_type(a) != access_type(b) || !is_owned(w, access_type(a)))
        return false;
    if (before->loop && steps_over(a, before->loop))
        return true;
    for (int i = 0; before->loop && i < a->operands.items[0]->type->rank; i++)
        if (ir_is_inside(a->operands.items[1 + i], before->loop))
            return false;
    return true;
}

static bool is_bulk(const IrOp *op) {
    return op->kind == OP_BULK_COPY || op->kind == OP_BULK_STORE;
}

static const IrOp *innermost_loop(const IrOp *op) {
    while (op->parent->owner && op->parent->owner->kind != OP_FOR)
        op = op->parent->owner;
    return op->parent->owner;
}

/* What bulk copies do to tensors happens behind the threads' backs, whatever the threads' barriers. */
static bool conflicts(const Walk *w, const Touch *before, const Touch *touch) {
    if (is_bulk(before->op) && is_bulk(touch->op) && touch->param >= 0)
        return false;
    if (!(before->writes || touch->writes) || (before->by_thread && touch->by_thread) || before->param != touch->param)
        return false;
    if (before->ring && before->ring == touch->ring && (before->ring->kind == OP_BULK_RING || innermost_loop(before->op) == innermost_loop(touch->op)))
        return false;
    if (touch->param < 0 && !(before->at < touch->end && touch->at < before->end))
        return false;
    return !same_threads(w, before, touch);
}

static void insert_barrier(Walk *w, IrOp *at) {
    IrBlock nowhere = {0};
    IrOp *barrier = ir_append(w->context, &nowhere, OP_BARRIER, at->span, NULL, 0, NULL, 0);
    barrier->parent = NULL;
    ir_insert_before(at, barrier);
    w->pending.count = 0;
}

/* The op, or what is in its regions, does all of `touches`. */
static void pass(Walk *w, IrOp *op, const Touches *touches) {
    for (int i = 0; i < touches->count; i++)
        for (int j = 0; j < w->pending.count; j++)
            if (conflicts(w, &w->pending.items[j], &touches->items[i]))
                insert_barrier(w, op);
    for (int i = 0; i < touches->count; i++)
        vec_push(w->context->arena, &w->pending, touches->items[i]);
}

static void walk_block(Walk *w, IrBlock *block);

static Touches copy_touches(const Walk *w, const Touches *from) {
    Touches copy = {0};
    for (int i = 0; i < from->count; i++)
        vec_push(w->context->arena, &copy, from->items[i]);
    return copy;
}

static void join(Walk *w, const Touches *others) {
    for (int i = 0; i < others->count; i++)
        vec_push(w->context->arena, &w->pending, others->items[i]);
}

/* Twice, so that what a turn leaves meets the next one. */
static void walk_loop(Walk *w, IrOp *op) {
    for (int turn = 0; turn < 2; turn++) {
        Touches before = copy_touches(w, &w->pending);
        for (int r = 0; r < op->regions.count; r++)
            walk_block(w, op->regions.items[r]);
        for (int i = 0; i < w->pending.count; i++)
            w->pending.items[i].loop = op;
        join(w, &before);
    }
}

static void walk_if(Walk *w, IrOp *op) {
    Touches before = copy_touches(w, &w->pending);
    walk_block(w, op->regions.items[0]);
    Touches after = w->pending;
    w->pending = before;
    walk_block(w, op->regions.items[1]);
    join(w, &after);
}

static void walk_op(Walk *w, IrOp *op) {
    Touches touches = {0};
    if (op->kind == OP_BARRIER) {
        w->pending.count = 0;
    } else if (op->regions.count && !may_diverge(w, op)) {
        if (op->kind == OP_IF)
            walk_if(w, op);
        else
            walk_loop(w, op);
    } else {
        add_inner(w, op, &touches);
        pass(w, op, &touches);
        if (has_scratch(op)) {
            w->pending.count = 0;
            add_scratch(w, op, false, &w->pending);
        }
    }
}

static void walk_block(Walk *w, IrBlock *block) {
    for (IrOp *op = block->first; op; op = op->next)
        walk_op(w, op);
}

void layout_barriers(Context *context, IrKernel *kernel) {
    Walk walk = {.context = context, .kernel = kernel, .has_thread_code = ir_has_thread_code(kernel)};
    walk_block(&walk, kernel->body);
}
