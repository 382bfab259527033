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
    for (int64_t steps; number >= (steps = stage_steps(problem, step.stage)); step.stage++)
        number -= steps;
    if (stage_is_divided(problem, step.stage))
        divided_step(problem, number, &step);
    else
        step.at[CHUNK] = number;
    return step;
}

int step_code(const Problem *problem, const Step *step) {
    const PhbStage *stage = &problem->kernel->stages[step->stage];
    return step->kind == STEP_STAGE ? step->stage : step->kind == STEP_CLEAR ? stage->clear : stage->merge;
}

ChunkRange chunk_at(const Problem *problem, int loop, int64_t chunk) {
    const Division *d = &problem->divisions[loop];
    int64_t super = problem->loop_super[loop];
    bool is_last = chunk == problem->chunks[loop] - 1;
    if (d->parts <= 1)
        return (ChunkRange){chunk * super, super, is_last ? CHUNK_LAST : CHUNK_FULL};
    int64_t rest = chunk - d->long_parts * d->long_chunks;
    bool is_long = rest < 0;
    int64_t chunks = is_long ? d->long_chunks : d->short_chunks, extent = is_long ? d->long_extent : d->short_extent;
    int64_t number = (is_long ? chunk : rest) / chunks, within = (is_long ? chunk : rest) % chunks * super;
    int64_t origin = (is_long ? 0 : d->long_parts * d->long_extent) + number * extent + within, left = extent - within;
    ChunkShape shape = is_last ? CHUNK_LAST : left >= super ? CHUNK_FULL : is_long ? CHUNK_LONG_REST : CHUNK_SHORT_REST;
    return (ChunkRange){origin, left < super ? left : super, shape};
}

const LeafShape *step_shape(const Problem *problem, const Step *step) {
    int shape = 0, loop = problem->kernel->stages[step_code(problem, step)].loop;
    for (int a = 0; a < 3; a++)
        if (step->at[a] == problem->supers[a] - 1)
            shape |= 1 << a;
    if (loop >= 0)
        shape += 8 * (1 + CHUNK_SHAPES * loop + (int)chunk_at(problem, loop, step->at[CHUNK]).shape);
    return &problem->shapes[shape];
}

StepUse step_use(const Problem *problem, const Step *step, int operand) {
    const Operand *tiles = &problem->operands[operand];
    int argument = step_argument(problem, step, operand);
    int mode = argument < 0 ? PHB_UNUSED : problem->kernel->stages[step_code(problem, step)].modes[argument];
    if (mode == PHB_UNUSED || tiles->sweeps == 0)
        return (StepUse){.used = false};
    if (tiles->level > 0) /* each partial sum has a tile of its own, until it is added to another */
        return (StepUse){.used = true, .first = step->kind == STEP_CLEAR, .last = step->kind == STEP_MERGE && step->level == tiles->level};
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
    int of = tiles->level > 0 ? tiles->whole_of : operand;
    const int64_t *state = tiles->tensor == NULL ? step_shape(problem, step)->states[of - problem->kernel->tensor_count] : NULL;
    for (int k = 0; k < PHB_MAX_RANK; k++) {
        ChunkRange cut = {0, tiles->size[k], CHUNK_FULL};
        if (tiles->axis[k] == CHUNK && problem->divisions[tiles->loop].parts > 1)
            cut = chunk_at(problem, tiles->loop, step->at[CHUNK]);
        else if (tiles->axis[k] >= 0)
            cut.origin = step->at[tiles->axis[k]] * tiles->size[k];
        region->origin[k] = cut.origin - tiles->halo[k];
        region->extent[k] = (state != NULL ? state[k] : cut_extent(cut, tiles->span[k])) + 2 * tiles->halo[k];
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
