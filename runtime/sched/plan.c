#include "runtime/sched/sched.h"

#include <inttypes.h>
#include <stdlib.h>

/* Steps in flight hold this much, so that tiles stay in the last-level cache from load to store, but never fewer than two tiles of an operand (one is
 * worked on, one travels) and never more than hides the latency of small ones. */
#define HOT_BYTES (INT64_C(24) << 20)
#define MIN_DEPTH 2
#define MAX_DEPTH 32

/* A read tensor that some split axis does not index serves several units with one tile, and one that several stages walk serves a unit several times.
 */
static bool tile_is_shared(const Problem *problem, const Operand *operand) {
    if (operand->tensor == NULL || operand->store || operand->level > 0 || operand->sweeps == 0)
        return false;
    bool shared = !operand->held && operand->sweeps > 1;
    for (int a = 0; a < 3; a++)
        shared = shared || (operand->stride[a] == 0 && problem->supers[a] > 1);
    return shared;
}

static __int128 bytes_of(const Problem *problem, const int64_t *slots) {
    __int128 bytes = 0;
    for (int t = 0; t < problem->operand_count; t++)
        bytes += (__int128)slots[t] * problem->operands[t].bytes;
    return bytes;
}

/* Tiles of an operand that one unit holds at a time. */
static int64_t tiles_of_unit(const Problem *problem, const Operand *operand) {
    return operand->held && operand->loop >= 0 ? problem->chunks[operand->loop] : 1;
}

/* Room for `depth` steps at once: for what comes and goes with a step, and, where `units_too`, for as many units as those steps may belong to. */
static void set_depth(const Problem *problem, int64_t depth, bool units_too, int64_t *slots) {
    int64_t units = 1 + (units_too ? (depth - 1 + problem->steps - 1) / problem->steps : 0);
    for (int t = 0; t < problem->operand_count; t++) {
        const Operand *operand = &problem->operands[t];
        int64_t wanted = operand->held ? units * tiles_of_unit(problem, operand) : depth;
        slots[t] = operand->sweeps > 0 ? min64(wanted, operand->count) : 0;
    }
}

static int64_t wanted_depth(const Problem *problem) {
    __int128 step = 1;
    for (int t = 0; t < problem->operand_count; t++)
        step += (__int128)problem->operands[t].bytes * (problem->operands[t].sweeps > 0 ? tiles_of_unit(problem, &problem->operands[t]) : 0);
    int64_t depth = (int64_t)(HOT_BYTES / step);
    if (depth > MAX_DEPTH)
        depth = MAX_DEPTH;
    return min64(depth < MIN_DEPTH ? MIN_DEPTH : depth, problem->units * problem->steps);
}

/* The deepest pipeline that fits; where no two units fit side by side, still one whose steps overlap within a unit. False: not even one step fits. */
static bool fit_depth(const Problem *problem, int64_t memory, int64_t *depth, int64_t *slots) {
    for (int units_too = 1; units_too >= 0; units_too--)
        for (*depth = wanted_depth(problem); *depth > units_too; --*depth) {
            set_depth(problem, *depth, units_too, slots);
            if (bytes_of(problem, slots) <= memory)
                return true;
        }
    return false;
}

/* Walking the steps in order, an operand comes back to the same tiles after `span` others: when another stage walks the same chunks, and along each
 * axis that does not index it. Keeping them saves all reloads there, and takes span more slots than steps in flight do. */
typedef struct Keep {
    int operand;
    int64_t slots;
    __int128 saved, cost; /* bytes */
} Keep;

typedef struct KeepList {
    Keep *keeps;
    int count;
} KeepList;

/* `times`: how often in a row the sweep over `span` tiles is made. */
static void offer_keep(
    const Problem *problem, KeepList *list, int operand, int64_t span, int64_t times, int64_t depth, int64_t slots, __int128 *loads) {
    const Operand *tiles = &problem->operands[operand];
    __int128 fewer = *loads / times;
    int64_t needed = min64(span + depth - 1, tiles->count);
    if (needed > slots && needed <= PLAN_MAX_SLOTS && fewer < *loads)
        list->keeps[list->count++] = (Keep){operand, needed, (*loads - fewer) * tiles->bytes, (__int128)(needed - slots) * tiles->bytes};
    *loads = fewer;
}

static void list_keeps(const Problem *problem, const int64_t *slots, int64_t depth, KeepList *list) {
    list->count = 0;
    for (int t = 0; t < problem->kernel->tensor_count; t++) {
        const Operand *operand = &problem->operands[t];
        if (!tile_is_shared(problem, operand))
            continue;
        int64_t span = operand->loop >= 0 ? problem->chunks[operand->loop] : 1, sweeps = operand->held ? 1 : operand->sweeps;
        __int128 loads = (__int128)problem->units * span * sweeps;
        if (sweeps > 1)
            offer_keep(problem, list, t, span, sweeps, depth, slots[t], &loads);
        for (int a = 0; a < 3; a++) {
            if (operand->stride[a] != 0)
                span *= problem->supers[a];
            else
                offer_keep(problem, list, t, span, problem->supers[a], depth, slots[t], &loads);
        }
    }
}

/* Gives what memory is left to the operands where a byte of it saves the most bytes of loading. */
static void keep_shared(const Problem *problem, int64_t depth, int64_t memory, int64_t *slots) {
    Keep keeps[PHB_MAX_PARAMS * 4];
    KeepList list = {keeps, 0};
    for (;;) {
        const Keep *best = NULL;
        list_keeps(problem, slots, depth, &list);
        __int128 left = memory - bytes_of(problem, slots);
        for (int i = 0; i < list.count; i++)
            if (keeps[i].cost <= left && (best == NULL || (double)keeps[i].saved / (double)keeps[i].cost > (double)best->saved / (double)best->cost))
                best = &keeps[i];
        if (best == NULL)
            return;
        slots[best->operand] = best->slots;
    }
}

int64_t plan_least(const Problem *problem) {
    int64_t *slots = new_zeroed((size_t)problem->operand_count, sizeof *slots);
    set_depth(problem, 1, false, slots);
    __int128 bytes = bytes_of(problem, slots);
    free(slots);
    return bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes;
}

static bool refuse_memory(const Problem *problem, const int64_t *slots, int64_t memory, Error *error) {
    char list[700];
    size_t used = 0;
    for (int t = 0; t < problem->operand_count && used + 100 < sizeof list; t++) {
        if (slots[t] == 0)
            continue;
        used += (size_t)snprintf(
            list + used, sizeof list - used, "%s%.64s %" PRId64, used > 0 ? ", " : "", problem->operands[t].name, problem->operands[t].bytes);
        if (slots[t] > 1)
            used += (size_t)snprintf(list + used, sizeof list - used, " x %" PRId64, slots[t]);
    }
    __int128 need = bytes_of(problem, slots);
    return error_set(error,
        "one unit of work needs %" PRId64 " bytes for its tiles (%s), but a pod has %" PRId64 "; choose smaller super-tiles or more --memory",
        need > INT64_MAX ? INT64_MAX : (int64_t)need, list, memory);
}

Plan *plan_make(const Problem *problem, int64_t memory, Error *error) {
    size_t operands = (size_t)problem->operand_count;
    Plan *plan = new_zeroed(1, sizeof *plan);
    plan->problem = problem;
    plan->memory = memory;
    plan->slots = new_zeroed(operands, sizeof *plan->slots);
    plan->kept = new_zeroed(operands, sizeof *plan->kept);
    plan->fetched = new_zeroed(operands, sizeof *plan->fetched);
    plan->trees = new_zeroed(operands, sizeof *plan->trees);
    plan->shelf = new_zeroed(operands, sizeof *plan->shelf);
    for (size_t t = 0; t < operands; t++)
        plan->kept[t] = tile_is_shared(problem, &problem->operands[t]);
    int64_t depth;
    if (!fit_depth(problem, memory, &depth, plan->slots)) {
        refuse_memory(problem, plan->slots, memory, error);
        plan_free(plan);
        return NULL;
    }
    keep_shared(problem, depth, memory, plan->slots);
    /* Two tiles of each operand let three steps overlap: one is loaded, one computed, one stored. */
    plan->window = (int)min64(depth + 1, problem->units * problem->steps);
    plan->bytes = (int64_t)bytes_of(problem, plan->slots);
    return plan;
}

void plan_free(Plan *plan) {
    if (plan == NULL)
        return;
    for (int t = 0; t < plan->problem->operand_count; t++)
        readers_free(plan->trees[t]);
    free(plan->trees);
    free(plan->slots);
    free(plan->kept);
    free(plan->fetched);
    free(plan->shelf);
    free(plan);
}
