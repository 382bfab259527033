/* The steps of a loop whose range is divided, and which sums they work on. Sums lie on a stack: two of as many parts are added as soon as they are
 * side by side, all that are left at the end. So the level of a part's sum is the number of bits that are set in the part's number, and what is added
 * to what depends on the number of parts alone. */
#include "runtime/sched/sched.h"

bool stage_is_divided(const Problem *problem, int stage) {
    const PhbStage *at = &problem->kernel->stages[stage];
    return at->merge != 0 && problem->divisions[at->loop].parts > 1;
}

/* ---- steps ---- */

static int level_of(int64_t part) {
    return __builtin_popcountll((unsigned long long)part);
}

static int64_t first_chunk(const Division *d, int64_t part) {
    int64_t rest = part - d->long_parts;
    return rest < 0 ? part * d->long_chunks : d->long_parts * d->long_chunks + rest * d->short_chunks;
}

/* The first step of a part: behind the chunks of those before it, their beginnings but for the first one's, and the sums that were added by then. */
static int64_t first_step(const Division *d, int64_t part) {
    return (part > 0 ? part - 1 : 0) + first_chunk(d, part) + part - level_of(part);
}

int64_t stage_steps(const Problem *problem, int stage) {
    int64_t chunks = stage_chunks(problem, stage);
    return stage_is_divided(problem, stage) ? chunks + 2 * (problem->divisions[problem->kernel->stages[stage].loop].parts - 1) : chunks;
}

void divided_step(const Problem *problem, int64_t number, Step *step) {
    const Division *d = &problem->divisions[problem->kernel->stages[step->stage].loop];
    int64_t part = 0;
    for (int64_t end = d->parts; end - part > 1;) {
        int64_t middle = part + (end - part) / 2;
        if (first_step(d, middle) <= number)
            part = middle;
        else
            end = middle;
    }
    int64_t first = first_chunk(d, part), count = first_chunk(d, part + 1) - first, within = number - first_step(d, part) - (part > 0);
    step->level = level_of(part);
    step->kind = within < 0 ? STEP_CLEAR : within < count ? STEP_STAGE : STEP_MERGE;
    step->at[CHUNK] = first + (within < 0 ? 0 : within < count ? within : count - 1);
    if (step->kind == STEP_MERGE)
        step->level -= (int)(within - count);
}

/* ---- operands and arguments ---- */

int partial_state(const Problem *problem, int stage, int argument) {
    const PhbKernel *kernel = problem->kernel;
    const int8_t *modes = kernel->stages[kernel->stages[stage].merge].modes;
    for (int s = 0; s < kernel->state_count; s++)
        if (kernel->states[s].partial == argument + 1 && modes[kernel->tensor_count + s] != PHB_UNUSED)
            return s;
    return -1;
}

int partial_operand(const Problem *problem, int state, int level) {
    int before = 0, count = 0;
    for (int s = 0; s < problem->kernel->state_count; s++) {
        before += s < state && problem->kernel->states[s].partial != 0;
        count += problem->kernel->states[s].partial != 0;
    }
    return level == 1 ? problem->kernel->tensor_count + state : problem->argument_count + (level - 2) * count + before;
}

/* The level of the sum that the step adds to. */
static int target_level(const Step *step) {
    return step->kind == STEP_MERGE ? step->level - 1 : step->level;
}

int step_operand(const Problem *problem, const Step *step, int argument) {
    if (!stage_is_divided(problem, step->stage))
        return argument;
    int whole = problem->operands[argument].level > 0 ? problem->operands[argument].whole_of : argument;
    int state = partial_state(problem, step->stage, whole), level = whole == argument ? target_level(step) : step->level;
    return state < 0 || level == 0 ? argument : partial_operand(problem, state, level);
}

int step_argument(const Problem *problem, const Step *step, int operand) {
    const Operand *at = &problem->operands[operand];
    if (!stage_is_divided(problem, step->stage))
        return at->level > 0 || operand >= problem->argument_count ? -1 : operand;
    int whole = at->level > 0 ? at->whole_of : operand, state = partial_state(problem, step->stage, whole);
    if (state < 0)
        return at->level > 0 ? -1 : operand;
    if (at->level == target_level(step))
        return whole;
    return step->kind == STEP_MERGE && at->level == step->level ? problem->kernel->tensor_count + state : -1;
}
