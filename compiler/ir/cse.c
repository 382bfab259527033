/* Common subexpressions. Requires a sound kernel and leaves one: of pure ops that compute the same, and of loads of one slice with no store to the
 * memory between them, the first stays, where it is seen from the other. Tensors and shared memories never alias; between two operations that order
 * the memory of threads, the kernel's code alone changes what a thread may read. */
#include "compiler/ir/ir.h"

#include <string.h>

typedef struct Cse {
    Arena *arena;
    IrValue **forward; /* by id: the earlier value that a removed one has become */
    IrOp **slots;      /* ops in sight; open addressing, at most half full */
    size_t capacity;
    size_t *used; /* slots, in the order in which they were filled */
    int used_count;
    int *states; /* of each memory: another number after every store */
    int clock;   /* the last such number */
    int param_count, memory_count;
    VEC(const IrValue *) shared;
    const bool *stored; /* by memory: by the kernel, anywhere */
    int *versions; /* by id of a load's result: the state that it reads */
} Cse;

/* Small numbers that tell values apart the same way in every run: parameters below 0. */
static int value_key(const IrValue *value) {
    return ir_is_param(value) ? -1 - value->index : value->id;
}

/* Parameters, then the results of `shared`. */
static int memory_of(const Cse *cse, const IrOp *op) {
    const IrValue *memory = ir_memory(op, NULL);
    int i = 0;
    if (ir_is_param(memory))
        return memory->index;
    while (cse->shared.items[i] != memory)
        i++;
    return cse->param_count + i;
}

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 29);
}

static int version(const Cse *cse, const IrOp *op) {
    return op_info[op->kind].traits & TRAIT_READS ? cse->versions[op->results.items[0]->id] : 0;
}

static uint64_t op_hash(const Cse *cse, const IrOp *op) {
    uint64_t hash = mix(mix((uint64_t)op->kind, op->bits), (uint64_t)op->axis);
    hash = mix(mix(hash, (uintptr_t)op->dim), (uint64_t)version(cse, op));
    hash = mix(hash, (uintptr_t)op->results.items[0]->type);
    for (int i = 0; i < op->operands.count; i++)
        hash = mix(hash, (uint64_t)value_key(op->operands.items[i]));
    return hash;
}

static bool same_op(const Cse *cse, const IrOp *a, const IrOp *b) {
    if (a->kind != b->kind || a->bits != b->bits || a->dim != b->dim || a->axis != b->axis || a->operands.count != b->operands.count ||
        a->results.items[0]->type != b->results.items[0]->type || version(cse, a) != version(cse, b))
        return false;
    for (int i = 0; i < a->operands.count; i++)
        if (a->operands.items[i] != b->operands.items[i])
            return false;
    return memcmp(a->extent, b->extent, sizeof a->extent) == 0;
}

/* The same op met before, or NULL; `op` is then remembered. */
static IrOp *find_or_add(Cse *cse, IrOp *op) {
    size_t at = (size_t)op_hash(cse, op) & (cse->capacity - 1);
    while (cse->slots[at] && !same_op(cse, cse->slots[at], op))
        at = (at + 1) & (cse->capacity - 1);
    IrOp *found = cse->slots[at];
    if (!found) {
        cse->slots[at] = op;
        cse->used[cse->used_count++] = at;
    }
    return found;
}

/* Operands that may change places go in one order; true where that changed anything. */
static bool order_operands(IrOp *op) {
    IrValue **operands = op->operands.items;
    if (!(op_info[op->kind].traits & TRAIT_COMMUTES) || value_key(operands[0]) <= value_key(operands[1]))
        return false;
    IrValue *first = operands[0];
    operands[0] = operands[1];
    operands[1] = first;
    return true;
}

static bool visit_block(Cse *cse, IrBlock *block);

static void mark_stored(const Cse *cse, const IrOp *op, bool *stored) {
    unsigned traits = op_info[op->kind].traits;
    if (traits & TRAIT_WRITES)
        stored[memory_of(cse, op)] = true;
    for (int i = 0; (traits & TRAIT_SYNC) && i < cse->memory_count; i++)
        stored[i] |= cse->stored[i];
    for (int i = 0; i < op->regions.count; i++)
        for (const IrOp *inner = op->regions.items[i]->first; inner; inner = inner->next)
            mark_stored(cse, inner, stored);
}

static void store_to(Cse *cse, const bool *stored) {
    for (int i = 0; i < cse->memory_count; i++)
        if (stored[i])
            cse->states[i] = ++cse->clock;
}

/* An iteration may see what another one stored, an `else` not what its `then` did. */
static bool visit_regions(Cse *cse, IrOp *op) {
    bool *stored = NEW_ARRAY(cse->arena, bool, cse->memory_count + 1), changed = false;
    int *before = NEW_ARRAY(cse->arena, int, cse->memory_count + 1);
    mark_stored(cse, op, stored);
    if (op->kind != OP_IF)
        store_to(cse, stored);
    memcpy(before, cse->states, sizeof *before * (size_t)cse->memory_count);
    for (int i = 0; i < op->regions.count; i++) {
        if (op->kind == OP_IF)
            memcpy(cse->states, before, sizeof *before * (size_t)cse->memory_count);
        changed |= visit_block(cse, op->regions.items[i]);
    }
    store_to(cse, stored);
    return changed;
}

static bool visit(Cse *cse, IrOp *op) {
    unsigned traits = op_info[op->kind].traits;
    for (int i = 0; i < op->operands.count; i++) {
        IrValue *operand = op->operands.items[i];
        if (operand->def && cse->forward[operand->id])
            op->operands.items[i] = cse->forward[operand->id];
    }
    if (traits & TRAIT_REGIONS)
        return visit_regions(cse, op);
    if (traits & TRAIT_WRITES)
        cse->states[memory_of(cse, op)] = ++cse->clock;
    if (traits & TRAIT_SYNC)
        store_to(cse, cse->stored);
    if (op->results.count != 1 || !(traits & (TRAIT_PURE | TRAIT_READS)))
        return false;
    if (traits & TRAIT_READS)
        cse->versions[op->results.items[0]->id] = cse->states[memory_of(cse, op)];
    bool changed = order_operands(op);
    IrOp *same = find_or_add(cse, op);
    if (!same)
        return changed;
    cse->forward[op->results.items[0]->id] = same->results.items[0];
    ir_remove(op);
    return true;
}

/* What the block computes is out of sight after it. Slots are emptied in the reverse order of filling, which leaves the table as it was before. */
static bool visit_block(Cse *cse, IrBlock *block) {
    int used_before = cse->used_count;
    bool changed = false;
    for (IrOp *op = block->first, *next; op; op = next) {
        next = op->next;
        changed |= visit(cse, op);
    }
    while (cse->used_count > used_before)
        cse->slots[cse->used[--cse->used_count]] = NULL;
    return changed;
}

static void find_shared(Cse *cse, const IrBlock *block) {
    for (const IrOp *op = block->first; op; op = op->next) {
        if (op->kind == OP_SHARED)
            vec_push(cse->arena, &cse->shared, op->results.items[0]);
        for (int i = 0; i < op->regions.count; i++)
            find_shared(cse, op->regions.items[i]);
    }
}

/* What the kernel stores to. Shared memory counts as stored to: other CTAs may. */
static const bool *find_stored(const Cse *cse, const IrBlock *body) {
    bool *stored = NEW_ARRAY(cse->arena, bool, cse->memory_count + 1);
    for (const IrOp *op = body->first; op; op = op->next)
        ir_mark_stored(op, stored);
    for (int i = cse->param_count; i < cse->memory_count; i++)
        stored[i] = true;
    return stored;
}

bool ir_cse(Context *context, IrKernel *kernel) {
    Arena *arena = context->arena;
    int value_count = ir_number(kernel);
    Cse cse = {.arena = arena, .capacity = 64, .param_count = kernel->body->args.count};
    find_shared(&cse, kernel->body);
    cse.memory_count = cse.param_count + cse.shared.count;
    while (cse.capacity < 2 * (size_t)value_count)
        cse.capacity *= 2;
    cse.slots = NEW_ARRAY(arena, IrOp *, cse.capacity);
    cse.used = NEW_ARRAY(arena, size_t, value_count + 1);
    cse.forward = NEW_ARRAY(arena, IrValue *, value_count);
    cse.versions = NEW_ARRAY(arena, int, value_count);
    cse.states = NEW_ARRAY(arena, int, cse.memory_count + 1);
    cse.stored = find_stored(&cse, kernel->body);
    return visit_block(&cse, kernel->body);
}
