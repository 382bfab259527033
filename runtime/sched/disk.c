/* What is on the disk for sure: pods are asked with ascending numbers to flush, one at a time each, and what a pod stored before it was asked is
 * there once it has answered. */
#include "runtime/sched/core_state.h"

static bool may_ask(const Pod *pod) {
    return (pod->stage == STAGE_READY || pod->stage == STAGE_LEAVING) && pod->fresh > 0 && pod->asked == 0;
}

/* All whom it is wanted of, in one pass over the units. */
static void ask(SchedCore *core, bool (*wanted)(const SchedCore *core, const Pod *pod), uint64_t now_ms) {
    bool some = false;
    for (uint32_t i = 0; i < core->pod_count; i++) {
        Pod *pod = &core->pods[i];
        pod->asking = may_ask(pod) && wanted(core, pod);
        if (pod->asking) {
            pod->asked = pod->fresh;
            pod->fresh = 0;
            pod->flush++;
            pod->flush_ms = now_ms;
            pod->changed = some = true;
        }
    }
    for (uint64_t unit = 0; some && unit < core->config.units; unit++) {
        UnitState state = core->units[unit];
        if (state == UNIT_ON_DISK || (state & (UNIT_STORED | UNIT_ASKED)) != UNIT_STORED)
            continue;
        if (core->pods[(state & UNIT_POD) - 1].asking)
            core->units[unit] |= UNIT_ASKED;
    }
}

static bool always(const SchedCore *core, const Pod *pod) {
    (void)core;
    (void)pod;
    return true;
}

static bool at_its_end(const SchedCore *core, const Pod *pod) {
    return core->units_done == core->config.units || (pod->stage == STAGE_LEAVING && pod->batch_count == 0);
}

void sched_ask_flush(SchedCore *core, uint64_t now_ms) {
    bool due = core->config.flush_ms > 0 && now_ms - core->flush_ms >= core->config.flush_ms;
    if (due)
        core->flush_ms = now_ms;
    ask(core, due ? always : at_its_end, now_ms);
}

bool sched_all_on_disk(const SchedCore *core) {
    for (uint32_t i = 0; i < core->pod_count; i++)
        if (core->pods[i].fresh + core->pods[i].asked > 0)
            return false; /* of an earlier round, where it has none of the last */
    return core->on_disk == core->config.units;
}

void sched_on_flushed(SchedCore *core, Pod *pod, uint32_t flushed) {
    UnitState theirs = (UnitState)(UNIT_STORED | UNIT_ASKED | (pod - core->pods + 1));
    if (flushed != pod->flush || pod->flushed == pod->flush)
        return;
    pod->flushed = flushed;
    for (uint64_t unit = 0; unit < core->config.units; unit++)
        if (core->units[unit] == theirs) {
            core->units[unit] = UNIT_ON_DISK;
            core->on_disk++;
        }
    pod->asked = 0;
    pod->changed = true;
}
