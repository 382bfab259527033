/* Software pipelining by one turn: what a loop loads only to stage it for a product is loaded a turn ahead, into registers, so that the loads travel while the
 * product is computed. Requires layouts, and that no places in shared memory are given yet. Preserves what the loop computes: it stores to no such tensor, its
 * offsets are a function of the loop's index alone, and the load that the last turn makes in vain reads 0 beyond the tensor, as every load does. */
#include "compiler/layout/layout.h"

enum { MOST_REGISTERS = 64 }; /* 32-bit ones a thread that wait from turn to turn */

typedef struct Prefetcher {
    Context *context;
    IrOp *loop;
    bool *stored; /* by parameter: the loop stores to it */
    int registers;
} Prefetcher;

static IrOp *insert(Prefetcher *p, IrOp *at, OpKind kind, Span span, IrValue *const *operands, int count, const Type *type) {
    IrBlock nowhere = {0};
    IrOp *op = ir_append(p->context, &nowhere, kind, span, operands, count, &type, 1);
    ir_insert_before(at, op);
    return op;
}

/* ---- scalars of another turn ---- */

static bool follows_index(const Prefetcher *p, const IrValue *value) {
    if (!ir_is_inside(value, p->loop) || value == p->loop->regions.items[0]->args.items[0])
        return true;
    if (!value->def || value->type->kind != TYPE_SCALAR || !(op_info[value->def->kind].traits & TRAIT_PURE))
        return false;
    bool follows = true;
    for (int i = 0; follows && i < value->def->operands.count; i++)
        follows = follows_index(p, value->def->operands.items[i]);
    return follows;
}

/* What `value` is when the loop's index is `index`: ops for it go before `at`. */
static IrValue *at_index(Prefetcher *p, IrOp *at, IrValue *value, IrValue *index) {
    if (!ir_is_inside(value, p->loop))
        return value;
    if (value == p->loop->regions.items[0]->args.items[0])
        return index;
    VEC(IrValue *) operands = {0};
    for (int i = 0; i < value->def->operands.count; i++)
        vec_push(p->context->arena, &operands, at_index(p, at, value->def->operands.items[i], index));
    IrOp *op = insert(p, at, value->def->kind, value->def->span, operands.items, operands.count, value->type);
    ir_copy_attributes(op, value->def);
    return op->results.items[0];
}

static IrValue *load_at(Prefetcher *p, IrOp *at, IrOp *load, IrValue *index) {
    VEC(IrValue *) operands = {0};
    for (int i = 0; i < load->operands.count; i++)
        vec_push(p->context->arena, &operands, at_index(p, at, load->operands.items[i], index));
    IrOp *op = insert(p, at, OP_LOAD, load->span, operands.items, operands.count, load->results.items[0]->type);
    ir_copy_attributes(op, load);
    return op->results.items[0];
}

/* ---- which loads ---- */

static bool uses(const IrOp *op, const IrValue *value) {
    bool found = false;
    for (int i = 0; !found && i < op->operands.count; i++)
        found = op->operands.items[i] == value;
    for (int r = 0; !found && r < op->regions.count; r++)
        for (const IrOp *inner = op->regions.items[r]->first; !found && inner; inner = inner->next)
            found = uses(inner, value);
    return found;
}

/* The last op of the body that uses the load, where all are stages in the body itself; else NULL. */
static IrOp *last_stage(const IrBlock *body, const IrValue *value) {
    IrOp *last = NULL;
    for (IrOp *op = body->first; op; op = op->next)
        if (uses(op, value)) {
            if (op->kind != OP_STAGE)
                return NULL;
            last = op;
        }
    return last;
}

static bool may_move(const Prefetcher *p, const IrOp *load) {
    const IrValue *memory = load->operands.items[0];
    bool may = ir_is_param(memory) && !p->stored[memory->index] && load->results.items[0]->type->kind == TYPE_TILE;
    for (int i = 1; may && i < load->operands.count; i++)
        may = follows_index(p, load->operands.items[i]);
    return may;
}

static void prefetch_load(Prefetcher *p, IrOp *load) {
    IrBlock *body = p->loop->regions.items[0];
    IrValue *value = load->results.items[0];
    IrOp *last = last_stage(body, value);
    int registers = may_move(p, load) ? layout_registers(value->type) : MOST_REGISTERS + 1;
    if (!last || p->registers + registers > MOST_REGISTERS)
        return;
    p->registers += registers;
    Arena *arena = p->context->arena;
    IrValue *index = body->args.items[0], *step = p->loop->operands.items[2];
    IrValue *first = load_at(p, p->loop, load, p->loop->operands.items[0]);
    IrOp *sum = insert(p, last->next, OP_ADD, load->span, (IrValue *[]){index, step}, 2, index->type);
    IrValue *next = load_at(p, sum->next, load, sum->results.items[0]);
    vec_push(arena, &p->loop->operands, first);
    vec_push(arena, &body->last->operands, next);
    IrValue *result = NEW(arena, IrValue);
    *result = (IrValue){.type = value->type, .def = p->loop, .index = p->loop->results.count};
    vec_push(arena, &p->loop->results, result);
    ir_replace_uses_in(body, value, ir_block_arg(p->context, body, value->type, NULL));
    ir_remove(load);
}

static void prefetch_block(Context *context, IrKernel *kernel, IrBlock *block) {
    for (IrOp *op = block->first; op; op = op->next) {
        for (int r = 0; r < op->regions.count; r++)
            prefetch_block(context, kernel, op->regions.items[r]);
        if (op->kind != OP_FOR || ir_has_sync(op) || !layout_has_product(op->regions.items[0]))
            continue;
        Prefetcher prefetcher = {.context = context, .loop = op};
        prefetcher.stored = NEW_ARRAY(context->arena, bool, kernel->signature.params.count + 1);
        ir_mark_stored(op, prefetcher.stored);
        for (IrOp *load = op->regions.items[0]->first, *next; load; load = next) {
            next = load->next;
            if (load->kind == OP_LOAD)
                prefetch_load(&prefetcher, load);
        }
    }
}

void layout_prefetch(Context *context, IrKernel *kernel) {
    prefetch_block(context, kernel, kernel->body);
}
