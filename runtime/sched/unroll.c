#include "runtime/sched/sched.h"

#include <stdlib.h>

/* The slots of one operand, taken in turn. A table by tile number says which slot holds one: chains of slots, as many heads as slots. */
typedef struct Pool {
    int64_t slots, next;
    int64_t touched; /* slots that were ever taken: the first so many */
    int64_t *uses;  /* of each slot: how often it was used */
    int64_t *made;  /* the use that brought its tile */
    int64_t *tiles; /* its tile, -1 none */
    int64_t *heads; /* first slot of a chain, -1 none */
    int64_t *links; /* next slot of the chain */
} Pool;

struct Unroll {
    const Plan *plan;
    Pool *pools; /* as Problem.operands */
};

static void fill(int64_t *values, int64_t count, int64_t value) {
    for (int64_t i = 0; i < count; i++)
        values[i] = value;
}

static void pool_init(Pool *pool, int64_t slots) {
    pool->slots = slots;
    pool->uses = new_zeroed((size_t)slots, sizeof(int64_t));
    pool->made = new_zeroed((size_t)slots, sizeof(int64_t));
    int64_t **arrays[] = {&pool->tiles, &pool->heads, &pool->links};
    for (int i = 0; i < 3; i++) {
        *arrays[i] = new_zeroed((size_t)slots, sizeof(int64_t));
        fill(*arrays[i], slots, -1);
    }
}

static void pool_fini(Pool *pool) {
    free(pool->uses);
    free(pool->made);
    free(pool->tiles);
    free(pool->heads);
    free(pool->links);
}

static int64_t pool_find(const Pool *pool, int64_t tile) {
    int64_t slot = pool->heads[tile % pool->slots];
    while (slot >= 0 && pool->tiles[slot] != tile)
        slot = pool->links[slot];
    return slot;
}

static void pool_forget(Pool *pool, int64_t slot) {
    int64_t *link = &pool->heads[pool->tiles[slot] % pool->slots];
    while (*link != slot)
        link = &pool->links[*link];
    *link = pool->links[slot];
}

static void pool_remember(Pool *pool, int64_t slot, int64_t tile) {
    int64_t *head = &pool->heads[tile % pool->slots];
    pool->tiles[slot] = tile;
    pool->links[slot] = *head;
    *head = slot;
}

Unroll *unroll_new(const Plan *plan) {
    int operands = plan->problem->operand_count;
    Unroll *unroll = new_zeroed(1, sizeof *unroll);
    unroll->plan = plan;
    unroll->pools = new_zeroed((size_t)operands, sizeof *unroll->pools);
    for (int t = 0; t < operands; t++)
        pool_init(&unroll->pools[t], plan->slots[t]);
    return unroll;
}

void unroll_free(Unroll *unroll) {
    if (unroll == NULL)
        return;
    for (int t = 0; t < unroll->plan->problem->operand_count; t++)
        pool_fini(&unroll->pools[t]);
    free(unroll->pools);
    free(unroll);
}

void unroll_reset(Unroll *unroll) {
    for (int t = 0; t < unroll->plan->problem->operand_count; t++) {
        Pool *pool = &unroll->pools[t];
        for (int64_t slot = 0; slot < pool->touched; slot++) {
            pool->heads[pool->tiles[slot] % pool->slots] = -1;
            pool->tiles[slot] = pool->links[slot] = -1;
            pool->uses[slot] = pool->made[slot] = 0;
        }
        pool->next = pool->touched = 0;
    }
}

/* The slot that has waited longest gives way: of what a sweep over a shared tensor comes back to, plan.c made room for all or for nothing, and what a
 * unit holds has a slot for each of its tiles. */
static int64_t take_slot(Pool *pool) {
    int64_t slot = pool->next;
    if (slot == pool->touched)
        pool->touched++;
    pool->next = slot + 1 == pool->slots ? 0 : slot + 1;
    return slot;
}

static TileUse use_tile(Pool *pool, bool kept, StepUse how, int64_t tile) {
    int64_t slot = how.first && !kept ? -1 : pool_find(pool, tile);
    bool fresh = slot < 0;
    int64_t evicted = -1;
    if (fresh) {
        slot = take_slot(pool);
        pool->made[slot] = pool->uses[slot];
        if (pool->tiles[slot] >= 0) {
            pool_forget(pool, slot);
            evicted = kept ? pool->tiles[slot] : -1;
        }
        pool_remember(pool, slot, tile);
    }
    return (TileUse){how, slot, tile, .number = pool->uses[slot]++, .made = pool->made[slot], .evicted = evicted};
}

void unroll_step(Unroll *unroll, int64_t unit, int64_t number, StepCode *code) {
    const Problem *problem = unroll->plan->problem;
    code->step = step_find(problem, unit, number);
    for (int t = 0; t < problem->operand_count; t++) {
        StepUse how = step_use(problem, &code->step, t);
        if (how.used)
            code->uses[t] = use_tile(&unroll->pools[t], unroll->plan->kept[t], how, tile_number(problem, t, code->step.at));
        else
            code->uses[t].how = how;
    }
}

int step_instructions(const Plan *plan, const StepCode *code, Instruction *instructions) {
    int operands = plan->problem->operand_count, count = 0;
    for (int t = 0; t < operands; t++) {
        const TileUse *use = &code->uses[t];
        if (!use->how.used || use->made != use->number)
            continue;
        if (use->evicted >= 0)
            instructions[count++] = (Instruction){INSTRUCTION_FREE, t, use->slot, use->evicted};
        instructions[count++] = (Instruction){INSTRUCTION_ALLOC, t, use->slot, use->tile};
        if (use->how.load)
            instructions[count++] = (Instruction){INSTRUCTION_LOAD, t, use->slot, use->tile};
    }
    instructions[count++] = (Instruction){INSTRUCTION_COMPUTE, -1, 0, code->step.unit};
    for (int t = 0; t < operands; t++)
        if (code->uses[t].how.used && code->uses[t].how.store)
            instructions[count++] = (Instruction){INSTRUCTION_STORE, t, code->uses[t].slot, code->uses[t].tile};
    for (int t = 0; t < operands; t++)
        if (code->uses[t].how.used && code->uses[t].how.last && !plan->kept[t])
            instructions[count++] = (Instruction){INSTRUCTION_FREE, t, code->uses[t].slot, code->uses[t].tile};
    return count;
}

const char *instruction_name(InstructionKind kind) {
    static const char *const names[] = {"ALLOC", "LOAD", "FETCH", "COPY", "COMPUTE", "STORE", "FREE"};
    return names[kind];
}
