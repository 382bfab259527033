/* --split-k: the range of a cluster loop in parts, each summed up from 0, and the sums added in a tree. A part's ends depend on the range, the leaf's
 * step and the number of parts alone. Requires a problem that is bound whole. */
#include "runtime/sched/sched.h"

#include <inttypes.h>
#include <stdlib.h>

static bool refuse(const PhbKernel *kernel, const char *why, Error *error) {
    return error_set(error, "kernel '%s': --split-k adds partial sums of what a cluster loop sums up, and %s", kernel->name, why);
}

static bool check_stages(const PhbKernel *kernel, Error *error) {
    int loops = 0, divisible = 0;
    for (int s = 0; s < kernel->stage_count; s++) {
        const PhbStage *stage = &kernel->stages[s];
        loops += stage->loop >= 0;
        divisible += stage->merge != 0;
        if (stage->whole != NULL)
            return error_set(error, "kernel '%s': --split-k cannot divide the cluster loop to '%s': %s", kernel->name,
                kernel->loops[stage->loop].extent.text, stage->whole);
    }
    if (loops == 0)
        return refuse(kernel, "it has no such loop: a 'for' from 0 to a dim that steps by a @cluster name", error);
    return divisible > 0 || refuse(kernel, "its loops carry no variable that is a sum", error);
}

/* As even as the leaf's steps allow. */
static bool divide_loop(Problem *problem, int loop, Error *error) {
    const PhbKernel *kernel = problem->kernel;
    Division *d = &problem->divisions[loop];
    int64_t leaf = problem->variant->values[kernel->loops[loop].dim], parts = problem->job->split_k, super = problem->loop_super[loop];
    int64_t steps = ceil_div(problem->loop_extent[loop], leaf);
    const char *name = kernel->dims[kernel->loops[loop].dim].name;
    if (problem->loop_extent[loop] < 1) /* it has no turn */
        return true;
    if (parts > steps)
        return error_set(error, "kernel '%s': --split-k=%" PRId64 " are more parts than '%s' = %" PRId64 " has steps of %s = %" PRId64 ", which are %" PRId64,
            kernel->name, parts, kernel->loops[loop].extent.text, problem->loop_extent[loop], name, leaf, steps);
    *d = (Division){.parts = parts, .long_parts = steps % parts, .short_extent = steps / parts * leaf};
    d->long_extent = d->short_extent + leaf;
    d->long_chunks = ceil_div(d->long_extent, super);
    d->short_chunks = ceil_div(d->short_extent, super);
    __int128 chunks = (__int128)d->long_parts * d->long_chunks + (__int128)(parts - d->long_parts) * d->short_chunks;
    if (chunks > PLAN_MAX_AXIS)
        return error_set(error, "kernel '%s': %s = %" PRId64 " cuts the %" PRId64 " parts of '%s' into more than %" PRId64 " super-tiles", kernel->name, name,
            super, parts, kernel->loops[loop].extent.text, PLAN_MAX_AXIS);
    problem->chunks[loop] = (int64_t)chunks;
    return true;
}

static bool resize_operand(const Problem *problem, Operand *operand, Error *error) {
    const Division *d = &problem->divisions[operand->loop];
    int64_t longest = d->long_parts > 0 ? d->long_extent : d->short_extent, padded[PHB_MAX_RANK];
    for (int k = 0; k < PHB_MAX_RANK; k++) {
        if (operand->axis[k] == CHUNK && operand->size[k] > longest)
            operand->size[k] = longest;
        padded[k] = operand->size[k] + 2 * operand->halo[k];
    }
    return tile_bytes(operand->rank, operand->element, padded, &operand->bytes) && operand_number_tiles(problem, operand, error);
}

/* ---- partial sums ---- */

/* The highest level of so many parts: the most bits that a number below has. */
static int levels_of(int64_t parts) {
    int bits = 64 - __builtin_clzll((unsigned long long)(parts - 1));
    return __builtin_popcountll((unsigned long long)(parts - 1)) == bits ? bits : bits - 1;
}

static void add_partial(const Problem *problem, int state, int level) {
    const PhbKernel *kernel = problem->kernel;
    Operand *operand = &problem->operands[partial_operand(problem, state, level)];
    int whole = kernel->states[state].partial - 1;
    *operand = problem->operands[whole];
    operand->name = kernel->states[state].name;
    operand->load = operand->store = false;
    operand->held = true;
    operand->loop = operand->first = operand->last = operand->store_last = -1;
    operand->level = level;
    operand->whole_of = whole;
    operand->sweeps = 0;
    for (int s = 0; s < kernel->stage_count; s++)
        operand->sweeps |= stage_is_divided(problem, s) && partial_state(problem, s, whole) == state;
    operand->stride[0] = 1;
    operand->stride[1] = problem->supers[0];
    operand->stride[2] = problem->supers[0] * problem->supers[1];
    operand->stride[CHUNK] = 0;
    operand->count = problem->units;
}

static void add_partials(Problem *problem) {
    int levels = levels_of(problem->job->split_k), count = 0, states = problem->kernel->state_count;
    for (int s = 0; s < states; s++)
        count += problem->kernel->states[s].partial != 0;
    problem->operand_count = problem->argument_count + (levels - 1) * count;
    Operand *operands = new_zeroed((size_t)problem->operand_count, sizeof *operands);
    for (int t = 0; t < problem->argument_count; t++)
        operands[t] = problem->operands[t];
    free(problem->operands);
    problem->operands = operands;
    for (int level = 1; level <= levels; level++)
        for (int s = 0; s < states; s++)
            if (problem->kernel->states[s].partial != 0)
                add_partial(problem, s, level);
}

bool problem_divide(Problem *problem, const int64_t *whole, Error *error) {
    const PhbKernel *kernel = problem->kernel;
    if (problem->job->split_k <= 1)
        return true;
    if (!check_stages(kernel, error))
        return false;
    for (int s = 0; s < kernel->stage_count; s++)
        if (kernel->stages[s].merge != 0 && !divide_loop(problem, kernel->stages[s].loop, error))
            return false;
    for (int t = 0; t < kernel->tensor_count; t++) {
        Operand *operand = &problem->operands[t];
        if (operand->loop >= 0 && problem->divisions[operand->loop].parts > 1 && !resize_operand(problem, operand, error))
            return false;
    }
    __int128 steps = 0;
    for (int s = 0; s < kernel->stage_count; s++)
        steps += stage_steps(problem, s);
    if (steps * problem->units > PLAN_MAX_STEPS)
        return error_set(error, "kernel '%s': --split-k=%" PRId64 " makes more than %" PRId64 " leaf launches; choose larger super-tiles, or fewer parts",
            kernel->name, problem->job->split_k, PLAN_MAX_STEPS);
    problem->steps = (int64_t)steps;
    if (!leaf_reshape(problem, whole, error))
        return false;
    add_partials(problem);
    return true;
}
