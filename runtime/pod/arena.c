#include "runtime/pod/pod.h"

#include <stdlib.h>

int64_t arena_bytes(const Plan *plan) {
    return plan->bytes;
}

void arena_init(Arena *arena, const Plan *plan, void *base) {
    int tensors = plan->problem->kernel->tensor_count;
    arena->base = base;
    arena->plan = plan;
    arena->offsets = new_zeroed((size_t)tensors, sizeof *arena->offsets);
    int64_t offset = 0;
    for (int t = 0; t < tensors; t++) {
        arena->offsets[t] = offset;
        offset += plan->slots[t] * plan->problem->tensors[t].bytes;
    }
}

void arena_fini(Arena *arena) {
    free(arena->offsets);
    arena->offsets = NULL;
}

void *arena_slot(const Arena *arena, int tensor, int64_t slot) {
    return arena->base + arena->offsets[tensor] + slot * arena->plan->problem->tensors[tensor].bytes;
}
