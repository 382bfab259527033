/* What a plan costs: instructions, bytes and work of each node, and the time that a model of the machine gives for them. */
#include "runtime/sched/sched.h"

#include <stdlib.h>
#include <string.h>

/* ---- work ---- */

/* Whether axis `k` of an operand, which nothing cuts, was counted with an earlier axis of the stage's operands of the same spelling. */
static bool counted_before(const Problem *problem, const PhbStage *stage, int operand, int axis) {
    const char *text = problem->operands[operand].tensor->axes[axis].extent.text;
    for (int t = 0; t <= operand; t++) {
        const Operand *other = &problem->operands[t];
        for (int k = 0; stage->modes[t] != PHB_UNUSED && k < (t < operand ? other->rank : axis); k++)
            if (other->axis[k] < 0 && other->whole[k] == problem->operands[operand].whole[axis] &&
                strcmp(other->tensor->axes[k].extent.text, text) == 0)
                return true;
    }
    return false;
}

/* Two operations for each point of the space that the stage's tensors span: exact for a matrix product, a measure of size for anything else. */
static double stage_work(const Problem *problem, int stage, bool cuts[COORDINATES]) {
    const PhbStage *stages = problem->kernel->stages;
    double work = 2;
    memset(cuts, 0, sizeof(bool) * COORDINATES);
    for (int t = 0; t < problem->kernel->tensor_count; t++) {
        const Operand *operand = &problem->operands[t];
        for (int k = 0; stages[stage].modes[t] != PHB_UNUSED && k < operand->rank; k++) {
            if (operand->axis[k] >= 0)
                cuts[operand->axis[k]] = true;
            else if (!counted_before(problem, &stages[stage], t, k))
                work *= (double)operand->whole[k];
        }
    }
    return work;
}

static int64_t extent_at(const Problem *problem, const Step *step, int coordinate) {
    int loop = problem->kernel->stages[step->stage].loop;
    if (coordinate == CHUNK)
        return cut_extent(chunk_at(problem, loop, step->at[CHUNK]), problem->loop_extent[loop]);
    ChunkRange cut = {step->at[coordinate] * problem->super[coordinate], problem->super[coordinate], CHUNK_FULL};
    return cut_extent(cut, problem->extent[coordinate]);
}

double step_work(const Problem *problem, const Step *step) {
    bool cuts[COORDINATES];
    double work = stage_work(problem, step_code(problem, step), cuts);
    for (int c = 0; c < COORDINATES; c++)
        if (cuts[c])
            work *= (double)extent_at(problem, step, c);
    return work;
}

int stage_rate(int stage) {
    return stage < PLAN_RATES ? stage : PLAN_RATES - 1;
}

/* ---- sums over a node ---- */

/* What steps need again and again. */
struct Summing {
    const Plan *plan;
    Unroll *unroll;
    StepCode code;
    Instruction *instructions;
    Sources *sources;
    double *work; /* of each stage, without the extents of the axes that are cut */
    bool (*cuts)[COORDINATES];
};

Summing *summing_new(const Plan *plan) {
    const Problem *problem = plan->problem;
    size_t operands = (size_t)problem->operand_count, stages = (size_t)(problem->kernel->stage_count + problem->kernel->helper_count);
    Summing *summing = new_zeroed(1, sizeof *summing);
    summing->plan = plan;
    summing->unroll = unroll_new(plan);
    summing->code.uses = new_zeroed(operands, sizeof *summing->code.uses);
    summing->instructions = new_zeroed(5 * operands + 1, sizeof *summing->instructions);
    summing->sources = sources_new(plan);
    summing->work = new_zeroed(stages, sizeof *summing->work);
    summing->cuts = new_zeroed(stages, sizeof *summing->cuts);
    for (size_t s = 0; s < stages; s++)
        summing->work[s] = stage_work(problem, (int)s, summing->cuts[s]);
    return summing;
}

void summing_free(Summing *summing) {
    if (summing == NULL)
        return;
    unroll_free(summing->unroll);
    sources_free(summing->sources);
    free(summing->code.uses);
    free(summing->instructions);
    free(summing->work);
    free(summing->cuts);
    free(summing);
}

/* Adds what a move of a step's tile is. */
static void add_move(const Problem *problem, const Step *step, int index, int64_t *bytes, int64_t *runs) {
    const Operand *operand = &problem->operands[index];
    Region region;
    tile_region(problem, step, index, &region);
    region_clip(operand, &region);
    *bytes += region_bytes(operand, &region);
    *runs += region_runs(operand, &region);
}

static void add_step(Summing *summing, const Placement *placement, int64_t node, NodeSums *sums) {
    const Problem *problem = summing->plan->problem;
    const Step *step = &summing->code.step;
    int count = step_instructions(summing->plan, &summing->code, summing->instructions);
    for (int i = 0; i < count; i++) {
        Instruction *instruction = &summing->instructions[i];
        int64_t from, runs = 0;
        if (instruction->kind == INSTRUCTION_LOAD)
            instruction->kind = sources_find(summing->sources, placement, node, instruction->operand, step->at, &from);
        sums->instructions[instruction->kind]++;
        if (instruction->kind == INSTRUCTION_ALLOC)
            sums->bytes += problem->operands[instruction->operand].bytes;
        else if (instruction->kind == INSTRUCTION_FREE)
            sums->bytes -= problem->operands[instruction->operand].bytes;
        else if (instruction->kind == INSTRUCTION_STORE)
            add_move(problem, step, instruction->operand, &sums->stored, &sums->stored_runs);
        else if (instruction->kind == INSTRUCTION_LOAD)
            add_move(problem, step, instruction->operand, &sums->loaded, &sums->loaded_runs);
        else if (instruction->kind == INSTRUCTION_FETCH)
            add_move(problem, step, instruction->operand, &sums->fetched, &runs);
        if (sums->bytes > sums->peak)
            sums->peak = sums->bytes;
    }
    int code = step_code(problem, step);
    double work = summing->work[code];
    for (int c = 0; c < COORDINATES; c++)
        if (summing->cuts[code][c])
            work *= (double)extent_at(problem, step, c);
    sums->work[stage_rate(step->stage)] += work;
}

/* What was seen of some units, for all of them. */
static void extrapolate(NodeSums *sums, int64_t units) {
    double times = (double)units / (double)sums->units;
    int64_t *counts[] = {&sums->loaded, &sums->fetched, &sums->stored, &sums->loaded_runs, &sums->stored_runs};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        *counts[i] = (int64_t)((double)*counts[i] * times);
    for (int k = 0; k < INSTRUCTION_KINDS; k++)
        sums->instructions[k] = (int64_t)((double)sums->instructions[k] * times);
    for (int r = 0; r < PLAN_RATES; r++)
        sums->work[r] *= times;
    sums->units = units;
    sums->estimated = true;
}

NodeSums node_sum(Summing *summing, const Placement *placement, int64_t node, int64_t most_steps) {
    NodeSums sums = {0};
    int64_t units = placement_count(placement, node), steps = summing->plan->problem->steps, looked_at = 0;
    unroll_reset(summing->unroll);
    sources_reset(summing->sources);
    sums.bytes = sums.peak = summing->plan->shelf_bytes;
    while (sums.units < units && looked_at < most_steps) {
        UnitRange run = placement_run(placement, node, sums.units, units);
        for (int64_t i = 0; i < run.count && looked_at < most_steps; i++) {
            for (int64_t step = 0; step < steps; step++) {
                unroll_step(summing->unroll, run.first + i * run.step, step, &summing->code);
                add_step(summing, placement, node, &sums);
            }
            looked_at += steps;
            sums.units++;
        }
    }
    if (sums.units < units)
        extrapolate(&sums, units);
    sums.launches = sums.units * steps;
    /* Kept tiles that nobody displaced are freed at the end. */
    sums.instructions[INSTRUCTION_FREE] = sums.instructions[INSTRUCTION_ALLOC];
    return sums;
}

/* ---- the model ---- */

static double greater(double a, double b) {
    return a > b ? a : b;
}

/* Loads, transfers, compute and stores overlap: the slowest sets the pace, and of the others what the first step has loaded and the last one stores
 * beside nothing else. Bytes of cached files cost the time of processors, which compute has not then; one thread at a time writes, and one moves the
 * tiles of the first step and the last. */
void times_overlap(const Model *model, NodeTimes *times) {
    double busy = times->compute + times->launch, moved = times->read + times->write, alone = busy + moved + times->link;
    times->storage = moved;
    if (model->cached) {
        double shared = moved / model->threads;
        busy += shared;
        times->storage = greater(times->write, shared);
    }
    double slowest = greater(busy, greater(times->storage, times->link));
    times->total = times->start + slowest + (times->steps > 0 ? (alone - slowest) / (double)times->steps : 0);
}

static double compute_time(const Model *model, const NodeSums *sums) {
    double seconds = 0;
    for (int r = 0; r < PLAN_RATES; r++)
        seconds += sums->work[r] / (model->stage_flops[r] > 0 ? model->stage_flops[r] : model->leaf_flops);
    return seconds;
}

NodeTimes node_times(const Model *model, const NodeSums *sums) {
    NodeTimes times = {
        .read = (double)sums->loaded / model->read_bw + (double)sums->loaded_runs * model->call,
        .write = (double)sums->stored / model->write_bw + (double)sums->stored_runs * model->call,
        .link = sums->fetched > 0 ? (double)sums->fetched / model->link_bw : 0,
        .compute = compute_time(model, sums),
        .launch = (double)sums->launches * model->launch,
        .steps = sums->launches,
        .start = model->open + (model->fresh_bw > 0 ? (double)sums->peak / model->fresh_bw : 0),
    };
    times_overlap(model, &times);
    return times;
}
