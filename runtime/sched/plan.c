#define _GNU_SOURCE /* sched_getaffinity */
#include "runtime/sched/sched.h"

#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Units in flight hold this much, so that tiles stay in the last-level cache from load to store, but never fewer than two tiles of a tensor (one is
 * worked on, one travels) and never more than hides the latency of small ones. */
#define HOT_BYTES (INT64_C(24) << 20)
#define MIN_DEPTH 2
#define MAX_DEPTH 32

#define MAX_KEPT_SLOTS (INT64_C(1) << 20) /* of one tensor: what the tables of unroll.c may take */

static int64_t min64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* A read tensor that some split axis does not index serves several units with one tile. */
static bool tile_is_shared(const Problem *problem, const TensorTiles *tiles) {
    for (int a = 0; a < 3; a++)
        if (tiles->stride[a] == 0 && problem->supers[a] > 1)
            return !tiles->store;
    return false;
}

static __int128 bytes_of(const Problem *problem, const int64_t *slots) {
    __int128 bytes = 0;
    for (int t = 0; t < problem->kernel->tensor_count; t++)
        bytes += (__int128)slots[t] * problem->tensors[t].bytes;
    return bytes;
}

/* Room for `depth` units at once. */
static void set_depth(const Problem *problem, int64_t depth, int64_t *slots) {
    for (int t = 0; t < problem->kernel->tensor_count; t++)
        slots[t] = min64(depth, problem->tensors[t].count);
}

static int64_t wanted_depth(const Problem *problem) {
    __int128 unit = 1;
    for (int t = 0; t < problem->kernel->tensor_count; t++)
        unit += problem->tensors[t].bytes;
    int64_t depth = (int64_t)(HOT_BYTES / unit);
    if (depth > MAX_DEPTH)
        depth = MAX_DEPTH;
    return min64(depth < MIN_DEPTH ? MIN_DEPTH : depth, problem->units);
}

/* Walking the units in order, an axis that does not index a tensor comes back to the same tiles after `span` others. Keeping those saves all reloads
 * along the axis, and takes span more slots than units in flight do. */
typedef struct Keep {
    int tensor;
    int64_t slots;
    __int128 saved, cost; /* bytes */
} Keep;

static int list_keeps(const Problem *problem, const int64_t *slots, int64_t depth, Keep *keeps) {
    int count = 0;
    for (int t = 0; t < problem->kernel->tensor_count; t++) {
        const TensorTiles *tiles = &problem->tensors[t];
        if (!tile_is_shared(problem, tiles))
            continue;
        int64_t span = 1, loads = problem->units;
        for (int a = 0; a < 3; a++) {
            if (tiles->stride[a] != 0) {
                span *= problem->supers[a];
                continue;
            }
            int64_t fewer = loads / problem->supers[a];
            int64_t needed = min64(span + depth - 1, tiles->count);
            if (needed > slots[t] && needed <= MAX_KEPT_SLOTS && fewer < loads)
                keeps[count++] = (Keep){t, needed, (__int128)(loads - fewer) * tiles->bytes, (__int128)(needed - slots[t]) * tiles->bytes};
            loads = fewer;
        }
    }
    return count;
}

/* Gives what memory is left to the tensors where a byte of it saves the most bytes of loading. */
static void keep_shared(const Problem *problem, int64_t depth, int64_t memory, int64_t *slots) {
    Keep keeps[PHB_MAX_PARAMS * 3];
    for (;;) {
        const Keep *best = NULL;
        int count = list_keeps(problem, slots, depth, keeps);
        __int128 left = memory - bytes_of(problem, slots);
        for (int i = 0; i < count; i++)
            if (keeps[i].cost <= left && (best == NULL || (double)keeps[i].saved / (double)keeps[i].cost > (double)best->saved / (double)best->cost))
                best = &keeps[i];
        if (best == NULL)
            return;
        slots[best->tensor] = best->slots;
    }
}

static void refuse_memory(const Problem *problem, const int64_t *slots, int64_t memory, Error *error) {
    char list[512];
    size_t used = 0;
    for (int t = 0; t < problem->kernel->tensor_count && used + 96 < sizeof list; t++)
        used += (size_t)snprintf(
            list + used, sizeof list - used, "%s%.64s %" PRId64, t > 0 ? ", " : "", problem->tensors[t].tensor->name, problem->tensors[t].bytes);
    __int128 need = bytes_of(problem, slots);
    error_set(error,
        "one unit of work needs %" PRId64 " bytes for its tiles (%s), but a pod has %" PRId64 "; choose smaller super-tiles or more --memory",
        need > INT64_MAX ? INT64_MAX : (int64_t)need, list, memory);
}

Plan *plan_make(const Problem *problem, int64_t memory, Error *error) {
    int tensors = problem->kernel->tensor_count;
    Plan *plan = new_zeroed(1, sizeof *plan);
    plan->problem = problem;
    plan->slots = new_zeroed((size_t)tensors, sizeof *plan->slots);
    plan->kept = new_zeroed((size_t)tensors, sizeof *plan->kept);
    for (int t = 0; t < tensors; t++)
        plan->kept[t] = tile_is_shared(problem, &problem->tensors[t]);

    int64_t depth = wanted_depth(problem);
    set_depth(problem, depth, plan->slots);
    while (depth > 1 && bytes_of(problem, plan->slots) > memory)
        set_depth(problem, --depth, plan->slots);
    if (bytes_of(problem, plan->slots) > memory) {
        refuse_memory(problem, plan->slots, memory, error);
        plan_free(plan);
        return NULL;
    }
    keep_shared(problem, depth, memory, plan->slots);
    /* Two tiles of each tensor let three units overlap: one is loaded, one computed, one stored. */
    plan->window = (int)min64(depth + 1, problem->units);
    plan->bytes = (int64_t)bytes_of(problem, plan->slots);
    return plan;
}

void plan_free(Plan *plan) {
    if (plan == NULL)
        return;
    free(plan->slots);
    free(plan->kept);
    free(plan);
}

UnitRange plan_deal(const Problem *problem, int64_t pod, int64_t pods) {
    int64_t count = pod < problem->units ? (problem->units - pod + pods - 1) / pods : 0;
    return (UnitRange){.first = pod, .count = count, .step = pods};
}

int64_t machine_memory(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (int64_t)pages * page / 2 : INT64_C(1) << 30;
}

int machine_processors(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}
