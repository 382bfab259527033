/* Who gets which units: batches from lanes, and from the longest lane for who has run out of its own. */
#include "runtime/sched/core_state.h"

/* The first batches are large, so that messages are few, the last ones single units, so that pods end together. */
static uint64_t batch_size(const Lane *lane) {
    uint64_t size = lane->count / 8;
    return size < 1 ? 1 : size > 4096 ? 4096 : size;
}

/* What a batch says is a range; of a lane's units so many as are one. */
static UnitRange lane_run(const SchedCore *core, const Lane *lane, uint64_t first, uint64_t most) {
    return placement_run(core->config.placement, lane - core->lanes, (int64_t)first, (int64_t)most);
}

static UnitRange take_front(SchedCore *core, Lane *lane, uint64_t most) {
    UnitRange run = lane_run(core, lane, lane->first, most);
    lane->first += (uint64_t)run.count;
    lane->count -= (uint64_t)run.count;
    return run;
}

static UnitRange take_back(SchedCore *core, Lane *lane, uint64_t most) {
    uint64_t end = lane->first + lane->count, first = end - most;
    UnitRange run;
    while (run = lane_run(core, lane, first, end - first), first + (uint64_t)run.count < end)
        first += (uint64_t)run.count;
    lane->count -= (uint64_t)run.count;
    return run;
}

/* A batch for `pod`: from the front of its own lane, else from the back of the longest. False: nothing is left. */
static bool take_batch(SchedCore *core, uint32_t pod, WireBatch *batch) {
    Lane *lane = pod < core->lane_count && core->lanes[pod].count ? &core->lanes[pod] : NULL;
    bool own = lane != NULL;
    for (uint32_t i = 0; !own && i < core->lane_count; i++)
        if (core->lanes[i].count > (lane ? lane->count : 0))
            lane = &core->lanes[i];
    if (!lane)
        return false;
    UnitRange run = (own ? take_front : take_back)(core, lane, batch_size(lane));
    *batch = (WireBatch){.first = (uint64_t)run.first, .count = (uint64_t)run.count, .step = (uint64_t)run.step};
    return true;
}

/* Keeps a few batches with each pod: one at work, the next ones there before it ends. */
enum { BATCHES_HELD = 4 };

void sched_deal(SchedCore *core, uint64_t now_ms) {
    bool given = true;
    while (given) { /* a batch a pod and round, so that the last ones are shared out evenly */
        given = false;
        for (uint32_t i = 0; i < core->pod_count; i++) {
            Pod *pod = &core->pods[i];
            if (pod->stage != STAGE_READY || pod->batch_count >= BATCHES_HELD)
                continue;
            if (!take_batch(core, i, &pod->batches[pod->batch_count]))
                return;
            if (pod->batch_count++ == 0)
                pod->progress_ms = now_ms;
            pod->changed = true;
            given = true;
        }
    }
}

void sched_deal_begin(SchedCore *core) {
    core->lane_count = core->pod_count;
    placement_deal(core->config.placement, core->lane_count);
    for (uint32_t i = 0; i < core->lane_count; i++)
        core->lanes[i] = (Lane){0, (uint64_t)placement_count(core->config.placement, i)};
}
