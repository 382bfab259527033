/* --audit: units that are computed a second time, by another pod than the one that stored them. What that one computes is not written: its checksum
 * must be the one that is stored. */
#include "runtime/sched/audit.h"
#include "runtime/sched/core_state.h"
#include "runtime/splitmix.h"

#include <string.h>

/* ---- which ---- */

bool audit_can(const Job *job, const AuditOptions *options, Error *error) {
    return options->percent <= 0 || job->sequence == NULL ||
           error_set(error, "--audit: a job of several steps overwrites what it computed with, so that nobody can compute it again");
}

AuditChoice audit_choose(const AuditOptions *options, uint64_t job_hash, int64_t units) {
    uint64_t key = splitmix_hash(job_hash ^ splitmix_hash(options->seed + SPLITMIX_STEP));
    uint64_t share = options->percent >= 100 ? UINT64_MAX : (uint64_t)(options->percent / 100 * 0x1p64);
    return (AuditChoice){.wanted = options->percent > 0, .key = key, .share = share, .always = key % (uint64_t)units};
}

bool audit_picks(const AuditChoice *choice, uint64_t unit) {
    return choice->wanted && (unit == choice->always || splitmix_hash(choice->key ^ splitmix_hash(unit + SPLITMIX_STEP)) <= choice->share);
}

/* ---- lists of units that are stored and wait for another pod, one for each pod that stored some ---- */

static void list_unit(SchedCore *core, uint64_t unit) {
    Audit *audit = &core->audits[unit];
    Pod *pod = &core->pods[audit->stored_by];
    audit->stage = AUDIT_LISTED;
    audit->next = NO_UNIT;
    if (pod->audit_count++ == 0)
        pod->first_audit = unit;
    else
        core->audits[pod->last_audit].next = unit;
    pod->last_audit = unit;
    core->audits_listed++;
}

void sched_audit_begin(SchedCore *core) {
    for (uint64_t unit = 0; unit < core->config.units; unit++) {
        if (!audit_picks(&core->config.audit, unit))
            continue;
        core->audits[unit].stage = AUDIT_AWAITED;
        core->audits_left++;
    }
}

bool sched_is_audited(const SchedCore *core, uint64_t unit) {
    return core->audits != NULL && core->audits[unit].stage != AUDIT_NONE;
}

void sched_audit_stored(SchedCore *core, const Pod *pod, uint64_t unit, uint64_t checksum) {
    if (!sched_is_audited(core, unit))
        return;
    core->audits[unit].checksum = checksum;
    core->audits[unit].stored_by = (uint16_t)(pod - core->pods);
    list_unit(core, unit);
}

/* The process may be another one where the machine is the same. */
static bool may_audit(const Pod *pod, const Pod *stored_by) {
    return pod != stored_by && strcmp(pod->node, stored_by->node) != 0;
}

/* What units do to pods is found out as in take_front. */
bool sched_take_audit(SchedCore *core, Pod *pod, WireBatch *batch) {
    for (uint32_t i = 0; core->audits_listed > 0 && i < core->pod_count; i++) {
        Pod *other = &core->pods[i];
        uint64_t unit = other->first_audit;
        if (other->audit_count == 0 || !may_audit(pod, other) || (core->suspicion[unit] > 0 && pod->batch_count > 0))
            continue;
        other->first_audit = core->audits[unit].next;
        other->audit_count--;
        core->audits_listed--;
        core->audits[unit].stage = AUDIT_GIVEN;
        core->audits[unit].given_to = (uint16_t)(pod - core->pods);
        *batch = (WireBatch){.first = unit, .count = 1, .step = 1, .audit = 1};
        return true;
    }
    return false;
}

/* Of a batch that was handed back, or lost: somebody else is to do it, if the unit has not been lost meanwhile. */
static Audit *given_to(SchedCore *core, const Pod *pod, const WireBatch *batch) {
    Audit *audit = &core->audits[batch->first];
    return audit->stage == AUDIT_GIVEN && audit->given_to == pod - core->pods ? audit : NULL;
}

void sched_audit_back(SchedCore *core, const Pod *pod, const WireBatch *batch) {
    if (given_to(core, pod, batch) != NULL)
        list_unit(core, batch->first);
}

void sched_audit_done(SchedCore *core, const Pod *pod, const WireBatch *batch, uint64_t checksum, uint64_t now_ms) {
    Audit *audit = given_to(core, pod, batch);
    if (audit == NULL)
        return;
    if (audit->checksum != checksum) {
        core->spoilt = true;
        sched_job_over(core, 1, now_ms, "audit: super-tile %llu: pod %s and pod %s computed different bits; one of them is wrong",
            (unsigned long long)batch->first, core->pods[audit->stored_by].node, pod->node);
        return;
    }
    audit->stage = AUDIT_AGREED;
    core->audits_left--;
}

/* What has been lost is another one when it is computed again. */
void sched_audit_freed(SchedCore *core, uint64_t unit) {
    if (!sched_is_audited(core, unit))
        return;
    core->audits_left += core->audits[unit].stage == AUDIT_AGREED;
    core->audits[unit].stage = AUDIT_AWAITED;
}

void sched_audit_lose(SchedCore *core, Pod *pod) {
    if (core->audits == NULL)
        return;
    for (uint32_t b = 0; b < pod->batch_count; b++)
        if (pod->batches[b].audit && (pod->done >> b & 1) == 0)
            sched_audit_back(core, pod, &pod->batches[b]);
    uint64_t unit = pod->first_audit, count = pod->audit_count;
    core->audits_listed -= count;
    pod->audit_count = 0;
    while (count-- > 0) {
        uint64_t next = core->audits[unit].next;
        if (core->audits[unit].stage == AUDIT_LISTED)
            list_unit(core, unit);
        unit = next;
    }
}

/* All is stored, and nobody is there who could compute it again: as long as a job waits for its pods. */
void sched_find_alone(SchedCore *core, uint64_t now_ms, SchedActions *actions) {
    bool alone = core->phase == PHASE_RUNNING && core->units_done == core->config.units && core->audits_listed > 0;
    for (uint32_t i = 0; i < core->pod_count; i++)
        alone &= core->pods[i].batch_count == 0;
    unsigned long long left = core->audits_left;
    if (!alone) {
        core->alone_ms = 0;
    } else if (core->alone_ms == 0) {
        core->alone_ms = now_ms;
        sched_act_log(actions, "audit: %llu super-tiles wait for another pod than the one that computed them", left);
    } else if (now_ms - core->alone_ms >= core->config.join_timeout_ms) {
        sched_job_over(core, 1, now_ms, "audit: %llu super-tiles are to be computed again by another pod, and none came for %u s", left,
            core->config.join_timeout_ms / 1000);
    }
}

uint64_t sched_audited(const SchedCore *core) {
    uint64_t agreed = 0;
    for (uint64_t unit = 0; core->audits != NULL && unit < core->config.units; unit++)
        agreed += core->audits[unit].stage == AUDIT_AGREED;
    return agreed;
}
