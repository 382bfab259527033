/* Pods that are slower than the others: they are named, until they keep up again, and with --speculate pods that have nothing to do compute what a slow one holds as well. Both
 * write the same bytes; who has stored a unit first, has stored it. */
#include "runtime/sched/core_state.h"

enum { SLOW_TIMES = 4, SLOW_MS = 1000 }; /* so many times as long as another pod takes for a unit, and no less than this */
enum { MARKED_UNITS = 4 };               /* so many tell whether a slow pod still is */

static uint64_t at_work_ms(const Pod *pod, uint64_t now_ms) {
    return pod->worked_ms + (pod->batch_count > 0 ? now_ms - pod->busy_ms : 0);
}

/* The typical time of a unit: of the pods but `slow` that the one in the middle takes. 0: nobody has computed anything. */
static uint64_t others_ms(const SchedCore *core, const Pod *slow, uint64_t now_ms) {
    uint64_t middle = 0;
    uint32_t others = 0;
    for (uint32_t i = 0; i < core->pod_count; i++)
        others += &core->pods[i] != slow && core->pods[i].computed > 0;
    for (uint32_t i = 0; i < core->pod_count; i++) {
        const Pod *pod = &core->pods[i];
        if (pod == slow || pod->computed == 0)
            continue;
        uint64_t unit_ms = at_work_ms(pod, now_ms) / pod->computed;
        uint32_t faster = 0, as_fast = 0;
        for (uint32_t k = 0; k < core->pod_count; k++) {
            const Pod *other = &core->pods[k];
            if (other == slow || other->computed == 0)
                continue;
            uint64_t other_ms = at_work_ms(other, now_ms) / other->computed;
            faster += other_ms < unit_ms;
            as_fast += other_ms == unit_ms;
        }
        if (faster <= others / 2 && others / 2 < faster + as_fast)
            middle = unit_ms + 1;
    }
    return middle;
}

static void mark(Pod *pod, uint64_t now_ms) {
    pod->mark_ms = at_work_ms(pod, now_ms);
    pod->mark_units = pod->computed;
}

/* The units that end at once, as a pod has several in flight, are taken together. */
static void find_quick(const SchedCore *core, Pod *pod, uint64_t now_ms, SchedActions *actions) {
    uint64_t units = pod->computed - pod->mark_units, others = units >= MARKED_UNITS ? others_ms(core, pod, now_ms) : 0;
    if (others == 0)
        return;
    pod->slow = (at_work_ms(pod, now_ms) - pod->mark_ms) / units >= SLOW_TIMES * others;
    mark(pod, now_ms);
    if (!pod->slow)
        sched_act_log(actions, "pod %s keeps up again", pod->node);
}

void sched_find_slow(SchedCore *core, uint64_t now_ms, SchedActions *actions) {
    for (uint32_t i = 0; i < core->pod_count && core->phase == PHASE_RUNNING; i++) {
        Pod *pod = &core->pods[i];
        if (!sched_pod_live(pod))
            continue;
        if (pod->slow) {
            find_quick(core, pod, now_ms, actions);
            continue;
        }
        if (pod->batch_count == 0)
            continue;
        uint64_t units = pod->computed - pod->mark_units, stands_ms = now_ms - pod->pace_ms;
        uint64_t unit_ms = units > 0 ? (at_work_ms(pod, now_ms) - pod->mark_ms) / units : 0;
        if (stands_ms > unit_ms)
            unit_ms = stands_ms;
        uint64_t others = unit_ms >= SLOW_MS ? others_ms(core, pod, now_ms) : 0;
        if (others == 0 || unit_ms < SLOW_TIMES * others)
            continue;
        pod->slow = true;
        mark(pod, now_ms);
        sched_act_warn(
            actions, "warning: pod %s is slow: %.1f s for a tile, where others take %.1f s", pod->node, (double)unit_ms / 1e3, (double)others / 1e3);
    }
}

/* From the end of a batch, where the slow pod comes last. Not of what is audited: the slow pod could still write over what two others agreed on. */
static bool copy_batch(SchedCore *core, const Pod *slow, const WireBatch *batch, WireBatch *copy) {
    if (sched_is_audited(core, batch->first))
        return false;
    UnitState theirs = (UnitState)(slow - core->pods + 1);
    uint64_t end = batch->count, count = 0;
    while (end > 0 && core->units[batch->first + (end - 1) * batch->step] != theirs)
        end--;
    while (count < end && count < 1 + end / 8 && core->units[batch->first + (end - count - 1) * batch->step] == theirs)
        core->units[batch->first + (end - ++count) * batch->step] |= UNIT_COPIED;
    *copy = (WireBatch){.first = batch->first + (end - count) * batch->step, .count = count, .step = batch->step, .round = batch->round};
    return count > 0;
}

bool sched_take_copy(SchedCore *core, const Pod *pod, WireBatch *batch) {
    if (!core->config.speculate || core->config.course || core->left > 0 || pod->batch_count > 0 || pod->slow)
        return false;
    for (uint32_t i = 0; i < core->pod_count; i++) {
        const Pod *slow = &core->pods[i];
        if (!slow->slow || slow == pod)
            continue;
        for (uint32_t b = slow->batch_count; b-- > 0;)
            if ((slow->done >> b & 1) == 0 && !slow->batches[b].audit && copy_batch(core, slow, &slow->batches[b], batch))
                return true;
    }
    return false;
}

bool sched_pod_holds(const Pod *pod, uint64_t unit) {
    for (uint32_t b = 0; b < pod->batch_count; b++) {
        const WireBatch *batch = &pod->batches[b];
        bool inside = unit >= batch->first && (unit - batch->first) % batch->step == 0 && (unit - batch->first) / batch->step < batch->count;
        if (inside && !batch->audit && (pod->done >> b & 1) == 0)
            return true;
    }
    return false;
}

void sched_copy_back(SchedCore *core, const Pod *pod, uint64_t unit) {
    UnitState state = core->units[unit];
    if ((state & UNIT_STORED) == 0 && (state & UNIT_POD) != (UnitState)(pod - core->pods + 1))
        core->units[unit] = (UnitState)(state & UNIT_POD);
}

UnitState sched_holder(const SchedCore *core, const Pod *but, uint64_t unit) {
    for (uint32_t i = 0; core->config.speculate && i < core->pod_count; i++)
        if (&core->pods[i] != but && sched_pod_live(&core->pods[i]) && sched_pod_holds(&core->pods[i], unit))
            return (UnitState)(i + 1);
    return UNIT_FREE;
}

bool sched_someone_writes(const SchedCore *core) {
    for (uint32_t i = 0; i < core->pod_count; i++)
        if (core->pods[i].batch_count > 0)
            return true;
    return core->lost_at_work;
}
