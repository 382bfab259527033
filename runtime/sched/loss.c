/* Pods that are lost: who is, and what becomes of what they had. */
#include "runtime/sched/core_state.h"

#include <stdarg.h>
#include <stdio.h>

static uint32_t pods_left(const SchedCore *core) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < core->pod_count; i++)
        count += sched_pod_live(&core->pods[i]) && !sched_pod_has_left(&core->pods[i]);
    return count;
}

static void drop(SchedCore *core, Pod *pod, SchedActions *actions) {
    pod->stage = STAGE_GONE;
    if (pod->lane != NO_LANE)
        core->lanes[pod->lane].owned = false;
    pod->lane = NO_LANE;
    sched_act(actions, SCHED_ACTION_FORGET)->connection = pod->connection;
}

void sched_let_go(SchedCore *core, Pod *pod, SchedActions *actions) {
    bool early = core->phase < PHASE_PUBLISHING;
    drop(core, pod, actions);
    if (early)
        sched_act_log(actions, "pod %s left", pod->node);
}

/* What it held and may have begun is suspected of having brought it down. True: one unit is to blame, *culprit. */
static bool suspect(SchedCore *core, const Pod *pod, uint64_t *culprit) {
    uint64_t held = 0, ended = pod->computed > pod->counted ? pod->computed - pod->counted : 0;
    for (uint32_t b = 0; b < pod->batch_count; b++)
        held += (pod->done >> b & 1) == 0 ? pod->batches[b].count : 0;
    for (uint32_t b = 0; b < pod->batch_count; b++) {
        const WireBatch *batch = &pod->batches[b];
        if (pod->done >> b & 1)
            continue;
        for (uint64_t i = ended < batch->count ? ended : batch->count; i < batch->count; i++) {
            uint64_t unit = batch->first + i * batch->step;
            if (batch->audit && sched_pod_holds(pod, unit))
                continue; /* another pod was faster, and this one had both */
            if (core->suspicion[unit] < POISON)
                core->suspicion[unit]++;
            if (held == 1 && core->suspicion[unit] == POISON) {
                *culprit = unit;
                return true;
            }
        }
        ended -= ended < batch->count ? ended : batch->count;
    }
    return false;
}

static void free_copies(SchedCore *core, const Pod *pod) {
    for (uint32_t b = 0; b < pod->batch_count; b++)
        for (uint64_t i = 0; i < pod->batches[b].count && !pod->batches[b].audit && (pod->done >> b & 1) == 0; i++)
            sched_copy_back(core, pod, pod->batches[b].first + i * pod->batches[b].step);
}

/* All that it has not brought to the disk for sure is free again. Returns how many units that were stored are. */
static uint64_t free_units(SchedCore *core, Pod *pod) {
    UnitState mine = (UnitState)(pod - core->pods + 1);
    uint64_t again = 0;
    free_copies(core, pod);
    for (uint64_t unit = 0; unit < core->config.units; unit++) {
        UnitState state = core->units[unit];
        if (state == UNIT_ON_DISK || (state & UNIT_POD) != mine)
            continue;
        again += (state & UNIT_STORED) != 0;
        core->units[unit] = sched_holder(core, pod, unit);
        sched_audit_freed(core, unit);
    }
    sched_audit_lose(core, pod);
    core->units_done -= again;
    pod->units -= again;
    pod->batch_count = 0;
    pod->fresh = pod->asked = 0;
    return again;
}

static void account(SchedCore *core, const Pod *pod, uint64_t again, uint64_t now_ms) {
    Recovery *recovery = &core->recovery;
    uint64_t silent = now_ms - pod->heard_ms, at_work = pod->heard_ms - pod->begun_ms;
    recovery->lost++;
    recovery->units_again += again;
    if (pod->computed > 0)
        recovery->again_ms += at_work * again / pod->computed;
    if (silent > recovery->detect_ms)
        recovery->detect_ms = silent;
}

void sched_lose(SchedCore *core, Pod *pod, uint64_t now_ms, SchedActions *actions, const char *format, ...) {
    char why[400];
    uint64_t culprit;
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    bool held = pod->batch_count > 0 || pod->fresh + pod->asked > 0;
    core->fenced++;
    core->lost_at_work |= pod->begun_ms > 0;
    bool at_work = pod->lane != NO_LANE;
    drop(core, pod, actions);
    if (core->phase >= PHASE_PUBLISHING)
        return;
    if (core->config.course && core->phase == PHASE_RUNNING) {
        sched_act_log(actions, "pod %s %s: it is given up", pod->node, why);
        if (at_work)
            account(core, pod, core->earlier + core->units_done, now_ms);
        if (pods_left(core) == 0)
            sched_job_over(core, 1, now_ms, "no pod is left; the last, pod %s, %s", pod->node, why);
        else if (at_work && sched_round_is_to_blame(core))
            sched_job_over(core, 1, now_ms, "round %llu has brought down %u pods, one after another; the last, pod %s, %s",
                (unsigned long long)core->round + 1, core->lost_there, pod->node, why);
        else if (at_work)
            sched_begin_again(core, actions);
        return;
    }
    bool poison = suspect(core, pod, &culprit);
    uint64_t again = held ? free_units(core, pod) : 0;
    if (held)
        account(core, pod, again, now_ms);
    sched_act_log(actions, "pod %s %s: it is given up%s", pod->node, why, held ? ", and what it had is dealt again" : "");
    core->plan_epoch++;
    sched_change_all(core); /* its peers learn of it at once */
    if (poison)
        sched_job_over(
            core, 1, now_ms, "super-tile %llu has brought down %d pods; the last, pod %s, %s", (unsigned long long)culprit, POISON, pod->node, why);
    else if (core->phase == PHASE_RUNNING && pods_left(core) == 0)
        sched_job_over(core, 1, now_ms, "no pod is left; the last, pod %s, %s", pod->node, why);
    else if (core->phase == PHASE_RUNNING)
        sched_deal_anew(core);
}

/* Where nobody is left the job waits for somebody as long as it did at the start. */
static void find_empty(SchedCore *core, uint64_t now_ms) {
    bool empty = core->phase == PHASE_RUNNING && pods_left(core) == 0;
    if (!empty)
        core->empty_ms = 0;
    else if (core->empty_ms == 0)
        core->empty_ms = now_ms;
    else if (now_ms - core->empty_ms >= core->config.join_timeout_ms)
        sched_job_over(core, 1, now_ms, "all pods have left, and none came for %u s", core->config.join_timeout_ms / 1000);
}

void sched_find_lost(SchedCore *core, uint64_t now_ms, SchedActions *actions) {
    const SchedConfig *config = &core->config;
    for (uint32_t i = 0; i < core->pod_count; i++) {
        Pod *pod = &core->pods[i];
        if (!sched_pod_live(pod))
            continue;
        bool waited_for = pod->batch_count > 0 || pod->stage == STAGE_JOINED;
        if (now_ms - pod->heard_ms >= config->dead_ms && sched_pod_has_left(pod))
            sched_let_go(core, pod, actions);
        else if (now_ms - pod->heard_ms >= config->dead_ms)
            sched_lose(core, pod, now_ms, actions, "has not been heard for %u s", config->dead_ms / 1000);
        else if (core->phase == PHASE_RUNNING && waited_for && now_ms - pod->progress_ms >= config->progress_ms)
            sched_lose(core, pod, now_ms, actions, "has made no progress for %u s", config->progress_ms / 1000);
        else if (core->phase == PHASE_RUNNING && pod->asked > 0 && now_ms - pod->flush_ms >= 10 * (uint64_t)config->progress_ms)
            sched_lose(core, pod, now_ms, actions, "has not brought what it stored to the disk for %u s", 10 * (config->progress_ms / 1000));
    }
    find_empty(core, now_ms);
}
