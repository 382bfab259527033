/* Units, their steps, and what of each operand a step works on. */
#include "runtime/sched/sched.h"

void unit_coordinates(const Problem *problem, int64_t unit, int64_t at[COORDINATES]) {
    for (int a = 0; a < 3; a++) {
        at[a] = unit % problem->supers[a];
        unit /= problem->supers[a];
    }
    at[CHUNK] = 0;
}

int64_t stage_chunks(const Problem *problem, int stage) {
    int loop = problem->kernel->stages[stage].loop;
    return loop < 0 ? 1 : problem->chunks[loop];
}

Step step_find(const Problem *problem, int64_t unit, int64_t number) {
    Step step = {.unit = unit, .number = number};
    unit_coordinates(problem, unit, step.at);
    step.at[CHUNK] = number;
    for (int64_t chunks; step.at[CHUNK] >= (chunks = stage_chunks(problem, step.stage)); step.stage++)
        step.at[CHUNK] -= chunks;
    return step;
}

const LeafShape *step_shape(const Problem *problem, const Step *step) {
    int shape = 0, loop = problem->kernel->stages[step->stage].loop;
    for (int a = 0; a < 3; a++)
        if (step->at[a] == problem->supers[a] - 1)
            shape |= 1 << a;
    if (loop >= 0)
        shape += 8 * (1 + 2 * loop + (step->at[CHUNK] == problem->chunks[loop] - 1));
    return &problem->shapes[shape];
}

StepUse step_use(const Problem *problem, const Step *step, int operand) {
    const Operand *tiles = &problem->operands[operand];
    int mode = problem->kernel->stages[step->stage].modes[operand];
    if (mode == PHB_UNUSED)
        return (StepUse){.used = false};
    /* A tile that the loop walks meets each stage once, in its chunk; any other meets all chunks. */
    bool walked = tiles->loop >= 0;
    bool opens = walked || step->at[CHUNK] == 0, closes = walked || step->at[CHUNK] == stage_chunks(problem, step->stage) - 1;
    bool first = opens && (!tiles->held || step->stage == tiles->first);
    return (StepUse){
        .used = true,
        .first = first,
        .last = closes && (!tiles->held || step->stage == tiles->last),
        .load = first && tiles->tensor != NULL && mode != PHB_WRITE,
        .store = closes && tiles->store && step->stage == tiles->store_last,
    };
}

int64_t tile_number(const Problem *problem, int operand, const int64_t at[COORDINATES]) {
    const int64_t *stride = problem->operands[operand].stride;
    int64_t number = 0;
    for (int c = 0; c < COORDINATES; c++)
        number += stride[c] * at[c];
    return number;
}

void tile_coordinates(const Problem *problem, int operand, int64_t tile, int64_t at[COORDINATES]) {
    const Operand *tiles = &problem->operands[operand];
    for (int c = 0; c < COORDINATES; c++) {
        int64_t extent = c != CHUNK ? problem->supers[c] : tiles->loop >= 0 ? problem->chunks[tiles->loop] : 1;
        at[c] = tiles->stride[c] != 0 ? tile / tiles->stride[c] % extent : 0;
    }
}

void tile_region(const Problem *problem, const Step *step, int operand, Region *region) {
    const Operand *tiles = &problem->operands[operand];
    const int64_t *state = tiles->tensor == NULL ? step_shape(problem, step)->states[operand - problem->kernel->tensor_count] : NULL;
    for (int k = 0; k < PHB_MAX_RANK; k++) {
        int64_t origin = tiles->axis[k] < 0 ? 0 : step->at[tiles->axis[k]] * tiles->size[k];
        int64_t left = (state != NULL ? state[k] : tiles->span[k]) - origin;
        bool cut = state == NULL && left > tiles->size[k];
        region->origin[k] = origin - tiles->halo[k];
        region->extent[k] = (cut ? tiles->size[k] : left) + 2 * tiles->halo[k];
    }
}

void region_clip(const Operand *operand, Region *region) {
    for (int k = 0; k < PHB_MAX_RANK; k++) {
        int64_t end = region->origin[k] + region->extent[k];
        if (end > operand->whole[k])
            end = operand->whole[k];
        if (region->origin[k] < 0)
            region->origin[k] = 0;
        region->extent[k] = end > region->origin[k] ? end - region->origin[k] : 0;
    }
}

int64_t region_pitch(const Operand *operand, const Region *region) {
    return (region->extent[operand->rank - 1] * operand->element + PHB_ROW_ALIGN - 1) / PHB_ROW_ALIGN * PHB_ROW_ALIGN;
}

int64_t region_bytes(const Operand *operand, const Region *region) {
    int64_t bytes = operand->element;
    for (int k = 0; k < operand->rank; k++)
        bytes *= region->extent[k];
    return bytes;
}

int64_t region_runs(const Operand *operand, const Region *region) {
    int outer = operand->rank - 1;
    int64_t runs = 1;
    while (outer > 0 && region->extent[outer] == operand->whole[outer])
        outer--;
    for (int k = 0; k < outer; k++)
        runs *= region->extent[k];
    return runs;
}

static bool checked_round_up(int64_t value, int64_t unit, int64_t *rounded) {
    if (__builtin_add_overflow(value, unit - 1, rounded))
        return false;
    *rounded -= *rounded % unit;
    return true;
}

bool tile_bytes(int rank, int element, const int64_t extent[PHB_MAX_RANK], int64_t *bytes) {
    int64_t row;
    bool fits = !__builtin_mul_overflow(extent[rank - 1], element, &row) && checked_round_up(row, PHB_ROW_ALIGN, bytes);
    for (int k = 0; fits && k < rank - 1; k++)
        fits = !__builtin_mul_overflow(*bytes, extent[k], bytes);
    return fits && checked_round_up(*bytes, PHB_BASE_ALIGN, bytes);
}
