#include "runtime/pod/rounds.h"
#include "runtime/pod/attach.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct Rounds {
    Course *course;
    Kept kept;
    Pod **pods; /* as the steps; NULL: not joined */
    int64_t node, round;
    int64_t units_before; /* done by pods that have been closed */
    PodMoved moved_before;
};

Rounds *rounds_new(Job *job, Error *error) {
    Rounds *rounds = new_zeroed(1, sizeof *rounds);
    rounds->course = course_bind(job, LEAF_MODEL, error);
    rounds->round = -1;
    bool fits = rounds->course != NULL;
    for (int s = 0; fits && s < rounds->course->step_count; s++)
        fits = job_has_shapes(job, s, rounds->course->steps[s].problem, error);
    if (fits)
        return rounds;
    rounds_free(rounds);
    return NULL;
}

void rounds_free(Rounds *rounds) {
    if (rounds == NULL)
        return;
    rounds_leave(rounds);
    course_free(rounds->course);
    free(rounds);
}

bool rounds_end(Rounds *rounds, uint64_t until_ms) {
    bool ended = true;
    for (int s = 0; rounds->pods != NULL && s < rounds->course->step_count; s++) {
        if (rounds->pods[s] == NULL)
            continue;
        pod_revoke(rounds->pods[s]);
        ended &= pod_end(rounds->pods[s], until_ms);
    }
    return ended;
}

void rounds_leave(Rounds *rounds) {
    if (rounds->pods == NULL)
        return;
    rounds->units_before = rounds_units_done(rounds);
    rounds->moved_before = rounds_moved(rounds);
    rounds_end(rounds, UINT64_MAX);
    for (int s = 0; s < rounds->course->step_count; s++)
        pod_close(rounds->pods[s]);
    free(rounds->pods);
    rounds->pods = NULL;
    kept_close(&rounds->kept);
    rounds->round = -1;
}

static bool is_near_any(const Peers *peers) {
    for (uint32_t p = 0; p < peers->peers_count; p++)
        if (p != peers->node && peers->peers[p].near)
            return true;
    return false;
}

bool rounds_join(Rounds *rounds, const Peers *peers, int64_t memory, const PodOptions *options, Error *error) {
    Course *course = rounds->course;
    bool on_card = options->device->lane_open != NULL;
    rounds_leave(rounds);
    rounds->node = peers->node;
    course_place(course, (PlacementPolicy)peers->placement, peers->peers_count);
    if (peers->peers_count > 1 && on_card)
        return error_set(error, "tiles that live on a card do not travel: a job of several steps takes one pod with a card, or pods without");
    if (!course_fit(course, memory, error) || (!on_card && !machine_holds(course_bytes(course), error)) ||
        !kept_open(&rounds->kept, course, is_near_any(peers), error))
        return false;
    rounds->pods = new_zeroed((size_t)course->step_count, sizeof *rounds->pods);
    for (int s = 0; s < course->step_count; s++) {
        PodOptions step = *options;
        step.tensors = course->job->sequence->steps[s].tensors;
        rounds->pods[s] = pod_open(course->steps[s].plan, &step, error);
        if (rounds->pods[s] == NULL)
            return false;
    }
    return true;
}

Pod *rounds_enter(Rounds *rounds, uint64_t round, Error *error) {
    const Course *course = rounds->course;
    if (rounds->pods == NULL || round >= (uint64_t)course->rounds || (rounds->round >= 0 && round < (uint64_t)rounds->round)) {
        error_set(error, "round %" PRIu64 " does not follow from %" PRId64, round, rounds->round);
        return NULL;
    }
    Pod *pod = rounds->pods[course_step(course, (int64_t)round)];
    if ((int64_t)round == rounds->round)
        return pod;
    if (rounds->round >= 0 && !pod_idle(rounds->pods[course_step(course, rounds->round)])) {
        error_set(error, "round %" PRIu64 " begins before round %" PRId64 " has ended", round, rounds->round);
        return NULL;
    }
    TileFiles files[PHB_MAX_PARAMS];
    rounds->round = (int64_t)round;
    round_files(course, rounds->round, rounds->kept.tensors, files);
    pod_reset(pod, files);
    return pod;
}

bool rounds_view(const Rounds *rounds, const Kept *kept, uint32_t tensor, TileView *view) {
    kept = kept != NULL ? kept : &rounds->kept;
    if (kept->memory == NULL || tensor >= (uint32_t)rounds->course->job->sequence->tensor_count || kept->tensors[tensor].memory == NULL)
        return false;
    const TensorFile *file = &kept->tensors[tensor];
    *view = (TileView){.rows = file->memory, .rank = file->rank, .element = dtype_size(file->dtype), .extent = {1, 1, 1, 1}};
    memcpy(view->extent, file->shape, (size_t)file->rank * sizeof file->shape[0]);
    view->pitch = file->shape[file->rank - 1] * view->element;
    return true;
}

int rounds_shared(const Rounds *rounds) {
    return rounds->kept.memory != NULL ? rounds->kept.fd : -1;
}

int rounds_unshared(const Rounds *rounds) {
    return rounds->kept.memory != NULL ? rounds->kept.unshared : 0;
}

bool rounds_map(const Rounds *rounds, int fd, Kept *kept) {
    return kept_map(kept, rounds->course, fd);
}

/* ---- what others have ---- */

/* One LOAD: the step that wrote the tensor last cut it into tiles, each at home where its unit was computed. */
typedef struct Gather {
    const Rounds *rounds;
    const Operand *tiles;       /* as that step wrote them */
    const Placement *placement; /* of that step */
    const Region *region;       /* of the tile, within the tensor and beyond */
    FetchRequest request;
    char *rows;
    int64_t pitch;
    RoundsFetch *fetch;
    void *context;
    int count;
    uint64_t bytes;
} Gather;

/* The last round before the one at hand that wrote to the tensor; there is one. */
static bool find_writer(const Rounds *rounds, int whole, int *step, int *tensor) {
    const Course *course = rounds->course;
    for (int64_t round = rounds->round - 1; round >= 0 && round >= rounds->round - course->step_count; round--) {
        *step = course_step(course, round);
        const PhbKernel *kernel = job_step(course->job, *step)->kernel;
        for (*tensor = 0; *tensor < kernel->tensor_count; ++*tensor)
            if (kernel->tensors[*tensor].mode != PHB_READ && job_tensor(course->job, *step, *tensor) == whole)
                return true;
    }
    return false;
}

/* The part of the region along one axis that lies in the tile there. */
static bool cut_axis(const Gather *gather, int k, int64_t tile, int64_t *low, int64_t *end) {
    const Operand *tiles = gather->tiles;
    int64_t first = tiles->axis[k] >= 0 ? tile * tiles->size[k] : 0;
    int64_t last = tiles->axis[k] >= 0 && first + tiles->size[k] < tiles->whole[k] ? first + tiles->size[k] : tiles->whole[k];
    *low = first > gather->region->origin[k] ? first : gather->region->origin[k];
    *end = gather->region->origin[k] + gather->region->extent[k];
    *end = *end < last ? *end : last;
    return *low < *end;
}

/* The piece whose box is in the request, from its home to its place among the rows. */
static void gather_piece(Gather *gather, const int64_t at[COORDINATES]) {
    FetchRequest *request = &gather->request;
    int64_t home = placement_node(gather->placement, at);
    if (home == gather->rounds->node)
        return;
    const Region *region = gather->region;
    int rank = gather->tiles->rank, last = rank - 1;
    int64_t row = 0;
    for (int k = 0; k < last; k++)
        row = row * region->extent[k] + request->region.origin[k] - region->origin[k];
    request->peer = (uint32_t)home;
    for (int k = 0; k < PHB_MAX_RANK; k++) /* a name for this piece of this load: the peer takes two of one name for one */
        request->tile[k] = (int64_t)((uint64_t)request->region.origin[k] ^ (uint64_t)request->region.extent[k] << 32);
    request->tile[PHB_MAX_RANK - 1] ^= (int64_t)((request->tag + 1) << 16);
    request->into.rows = gather->rows + row * gather->pitch + (request->region.origin[last] - region->origin[last]) * gather->tiles->element;
    gather->fetch(gather->context, request);
    gather->count++;
    gather->bytes += (uint64_t)region_bytes(gather->tiles, &request->region);
}

static void gather_axis(Gather *gather, int k, int64_t at[COORDINATES]) {
    const Operand *tiles = gather->tiles;
    if (k == PHB_MAX_RANK) {
        gather_piece(gather, at);
        return;
    }
    int64_t size = tiles->axis[k] >= 0 ? tiles->size[k] : tiles->whole[k], low = gather->region->origin[k] > 0 ? gather->region->origin[k] : 0, end;
    for (int64_t tile = low / size; cut_axis(gather, k, tile, &low, &end); tile++) {
        if (tiles->axis[k] >= 0)
            at[tiles->axis[k]] = tile;
        gather->request.region.origin[k] = low;
        gather->request.region.extent[k] = end - low;
        gather_axis(gather, k + 1, at);
        if (tiles->axis[k] < 0)
            return;
    }
}

int rounds_gather(
    const Rounds *rounds, int operand, const Region *region, void *rows, int64_t pitch, uint32_t instruction, uint64_t *bytes, RoundsFetch *fetch,
    void *context) {
    const Course *course = rounds->course;
    int whole = job_tensor(course->job, course_step(course, rounds->round), operand), step, tensor;
    if (course->steps[0].placement->nodes == 1 || !find_writer(rounds, whole, &step, &tensor))
        return 0;
    Gather gather = {.rounds = rounds, .tiles = &course->steps[step].problem->operands[tensor], .placement = course->steps[step].placement, .region = region,
        .rows = rows, .pitch = pitch, .fetch = fetch, .context = context};
    gather.request = (FetchRequest){.tag = instruction, .tensor = (uint32_t)whole, .region = {{0}, {1, 1, 1, 1}}, .apart = true};
    gather.request.into = (TileView){.pitch = pitch, .rank = gather.tiles->rank, .element = gather.tiles->element};
    memcpy(gather.request.into.extent, region->extent, sizeof region->extent);
    gather_axis(&gather, 0, (int64_t[COORDINATES]){0});
    *bytes = gather.bytes;
    return gather.count;
}

/* ---- sums ---- */

int64_t rounds_units_done(const Rounds *rounds) {
    int64_t units = rounds->units_before;
    for (int s = 0; rounds->pods != NULL && s < rounds->course->step_count; s++)
        units += rounds->pods[s] != NULL ? pod_units_done(rounds->pods[s]) : 0;
    return units;
}

PodMoved rounds_moved(const Rounds *rounds) {
    PodMoved sum = rounds->moved_before;
    for (int s = 0; rounds->pods != NULL && s < rounds->course->step_count; s++) {
        PodMoved moved = rounds->pods[s] != NULL ? pod_moved(rounds->pods[s]) : (PodMoved){0};
        sum.loads += moved.loads;
        sum.loaded += moved.loaded;
        sum.fetches += moved.fetches;
        sum.fetched += moved.fetched;
        sum.stores += moved.stores;
        sum.stored += moved.stored;
    }
    return sum;
}
