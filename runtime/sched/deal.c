/* Who gets which units: batches from lanes, and from the longest lane for who has run out of its own. */
#include "runtime/sched/core_state.h"

/* The first batches are large, so that messages are few, the last ones single units, so that pods end together. Of a round nobody takes another's. */
static uint64_t batch_size(const SchedCore *core, const Lane *lane) {
    uint64_t size = core->config.course ? lane->left : lane->left / 8;
    return size < 1 ? 1 : size > 4096 ? 4096 : size;
}

/* What a batch says is a range; of a lane's units so many as are one. */
static UnitRange lane_run(const SchedCore *core, const Lane *lane, uint64_t first, uint64_t most) {
    return placement_run(core->config.placement, lane - core->lanes, (int64_t)first, (int64_t)most);
}

static bool is_free(const SchedCore *core, const UnitRange *run, int64_t place) {
    return core->units[run->first + place * run->step] == UNIT_FREE;
}

static WireBatch part_of(const UnitRange *run, int64_t place, int64_t count) {
    return (WireBatch){.first = (uint64_t)(run->first + place * run->step), .count = (uint64_t)count, .step = (uint64_t)run->step};
}

static int suspicion_of(const SchedCore *core, const UnitRange *run, int64_t place) {
    return core->suspicion[run->first + place * run->step];
}

/* Units that lost pods held are done apart, by pods that hold nothing else: by then it shows whether one of them is to blame, and which. */
static int64_t most_suspects(int suspicion, int64_t most) {
    int64_t suspects = suspicion == 0 ? most : suspicion == 1 ? 64 : 1;
    return suspects < most ? suspects : most;
}

/* A unit that is computed twice goes alone: what is compared is the checksum of a batch. */
static bool goes_along(const SchedCore *core, const UnitRange *run, int64_t place, int suspicion) {
    return is_free(core, run, place) && suspicion_of(core, run, place) == suspicion &&
           !sched_is_audited(core, (uint64_t)(run->first + place * run->step));
}

/* Of a lane where some are left: the first of them, as many up to `most` as one batch can say. False: they are suspects, and the pod is not idle. */
static bool take_front(SchedCore *core, Lane *lane, int64_t most, bool idle, WireBatch *batch) {
    for (;;) {
        UnitRange run = lane_run(core, lane, lane->first, lane->end - lane->first);
        int64_t place = 0, count = 1;
        while (place < run.count && !is_free(core, &run, place))
            place++;
        lane->first += (uint64_t)place;
        if (place == run.count)
            continue;
        int suspicion = suspicion_of(core, &run, place);
        if (suspicion > 0 && !idle)
            return false;
        most = most_suspects(suspicion, most);
        bool alone = !goes_along(core, &run, place, suspicion);
        while (!alone && count < most && place + count < run.count && goes_along(core, &run, place + count, suspicion))
            count++;
        lane->first += (uint64_t)count;
        *batch = part_of(&run, place, count);
        return true;
    }
}

/* The last of them. */
static bool take_back(SchedCore *core, Lane *lane, int64_t most, bool idle, WireBatch *batch) {
    for (;;) {
        uint64_t length = lane->end - lane->first, first = length > (uint64_t)most ? lane->end - (uint64_t)most : lane->first;
        UnitRange run;
        while (run = lane_run(core, lane, first, lane->end - first), first + (uint64_t)run.count < lane->end)
            first += (uint64_t)run.count;
        int64_t end = run.count, count = 1;
        while (end > 0 && !is_free(core, &run, end - 1))
            end--;
        lane->end -= (uint64_t)(run.count - end);
        if (end == 0)
            continue;
        int suspicion = suspicion_of(core, &run, end - 1);
        if (suspicion > 0 && !idle)
            return false;
        most = most_suspects(suspicion, most);
        bool alone = !goes_along(core, &run, end - 1, suspicion);
        while (!alone && count < most && count < end && goes_along(core, &run, end - count - 1, suspicion))
            count++;
        lane->end -= (uint64_t)count;
        *batch = part_of(&run, end - count, count);
        return true;
    }
}

/* A batch for `pod`: from the front of its own lane, else from the back of the longest. False: there is nothing for it now. */
static bool take_batch(SchedCore *core, const Pod *pod, WireBatch *batch) {
    Lane *lane = pod->lane != NO_LANE && core->lanes[pod->lane].left ? &core->lanes[pod->lane] : NULL;
    bool own = lane != NULL;
    for (uint32_t i = 0; !own && !core->config.course && i < core->lane_count; i++)
        if (core->lanes[i].left > (lane ? lane->left : 0))
            lane = &core->lanes[i];
    if (!lane)
        return false;
    if (!(own ? take_front : take_back)(core, lane, (int64_t)batch_size(core, lane), pod->batch_count == 0, batch))
        return false;
    batch->round = core->round;
    batch->audit = 0;
    lane->left -= batch->count;
    core->left -= batch->count;
    for (uint64_t i = 0, unit = batch->first; i < batch->count; i++, unit += batch->step)
        core->units[unit] = (UnitState)(pod - core->pods + 1);
    return true;
}

/* Keeps a few batches with each pod: one at work, the next ones there before it ends. */
enum { BATCHES_HELD = 4 };

static bool has_room(const SchedCore *core, const Pod *pod) {
    if (pod->stage != STAGE_READY || pod->batch_count >= BATCHES_HELD)
        return false;
    return pod->batch_count == 0 || core->suspicion[pod->batches[pod->batch_count - 1].first] == 0;
}

void sched_deal(SchedCore *core, uint64_t now_ms) {
    bool given = true;
    while (given && (core->left + core->audits_listed > 0 ||
                        core->config.speculate)) { /* a batch a pod and round, so that the last ones are shared out evenly */
        given = false;
        for (uint32_t i = 0; i < core->pod_count; i++) {
            Pod *pod = &core->pods[i];
            WireBatch *batch = &pod->batches[pod->batch_count];
            if (!has_room(core, pod) || (!sched_take_audit(core, pod, batch) && !take_batch(core, pod, batch) && !sched_take_copy(core, pod, batch)))
                continue;
            if (pod->batch_count++ == 0)
                pod->progress_ms = pod->busy_ms = pod->pace_ms = now_ms;
            if (pod->begun_ms == 0)
                pod->begun_ms = now_ms;
            pod->changed = true;
            given = true;
        }
    }
}

static void count_lane(SchedCore *core, Lane *lane) {
    lane->first = lane->left = 0;
    lane->end = (uint64_t)placement_count(core->config.placement, lane - core->lanes);
    for (uint64_t offset = 0; offset < lane->end;) {
        UnitRange run = lane_run(core, lane, offset, lane->end - offset);
        for (int64_t place = 0; place < run.count; place++)
            lane->left += is_free(core, &run, place);
        offset += (uint64_t)run.count;
    }
}

void sched_deal_anew(SchedCore *core) {
    core->left = 0;
    for (uint32_t i = 0; i < core->lane_count; i++) {
        count_lane(core, &core->lanes[i]);
        core->left += core->lanes[i].left;
    }
}

/* Who came and went before the job began has no number in it. */
static void forget_gone(SchedCore *core) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < core->pod_count; i++)
        if (sched_pod_live(&core->pods[i]))
            core->pods[kept++] = core->pods[i];
    core->pod_count = kept;
}

void sched_deal_begin(SchedCore *core) {
    forget_gone(core);
    core->lane_count = core->pod_count;
    placement_deal(core->config.placement, core->lane_count);
    for (uint32_t i = 0; i < core->lane_count; i++) {
        core->lanes[i].owned = true;
        core->pods[i].lane = i;
    }
    sched_deal_anew(core);
}

void sched_deal_join(SchedCore *core, Pod *pod) {
    if (core->config.course)
        return; /* when it begins again */
    for (uint32_t i = 0; i < core->lane_count && pod->lane == NO_LANE; i++)
        if (!core->lanes[i].owned) {
            core->lanes[i].owned = true;
            pod->lane = i;
        }
}
