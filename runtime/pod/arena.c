#include "runtime/pod/pod.h"

#include <stdlib.h>

int64_t arena_bytes(const Plan *plan) {
    return plan->bytes;
}

void arena_init(Arena *arena, const Plan *plan, void *base) {
    int operands = plan->problem->operand_count;
    arena->base = base;
    arena->plan = plan;
    arena->offsets = new_zeroed((size_t)operands, sizeof *arena->offsets);
    int64_t offset = 0;
    for (int t = 0; t < operands; t++) {
        arena->offsets[t] = offset;
        offset += plan->slots[t] * plan->problem->operands[t].bytes;
    }
}

void arena_fini(Arena *arena) {
    free(arena->offsets);
    arena->offsets = NULL;
}

void *arena_slot(const Arena *arena, int operand, int64_t slot) {
    return arena->base + arena->offsets[operand] + slot * arena->plan->problem->operands[operand].bytes;
}
