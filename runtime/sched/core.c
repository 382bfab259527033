#include "runtime/sched/core_state.h"
#include "runtime/splitmix.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void class_describe(DeviceClass class, int arch, char text[32]) {
    if (class == CLASS_GPU)
        snprintf(text, 32, "gpu sm_%d", arch);
    else
        snprintf(text, 32, "%s", class == CLASS_CPU ? "cpu" : "simulator");
}

static void take_stored(SchedCore *core) {
    for (size_t b = 0; b < core->config.stored_count; b++) {
        const WireBatch *batch = &core->config.stored[b];
        for (uint64_t i = 0, unit = batch->first; i < batch->count; i++, unit += batch->step) {
            core->on_disk += core->units[unit] == UNIT_FREE;
            core->units[unit] = UNIT_ON_DISK;
        }
    }
    core->units_done = core->on_disk;
}

SchedCore *sched_core_new(const SchedConfig *config, uint64_t now_ms, uint64_t random_seed) {
    SchedCore *core = calloc(1, sizeof *core);
    if (!core)
        return NULL;
    core->config = *config;
    core->start_ms = core->joined_ms = core->flush_ms = now_ms;
    core->random = random_seed;
    core->pods = calloc(config->max_pods, sizeof *core->pods);
    core->lanes = calloc(config->max_pods, sizeof *core->lanes);
    core->units = calloc(config->units, sizeof *core->units);
    core->suspicion = calloc(config->units, sizeof *core->suspicion);
    if (config->audit.wanted)
        core->audits = calloc(config->units, sizeof *core->audits);
    core->plan_epoch = 1;
    if (!core->pods || !core->lanes || !core->units || !core->suspicion || (config->audit.wanted && !core->audits)) {
        sched_core_free(core);
        return NULL;
    }
    take_stored(core);
    if (core->audits)
        sched_audit_begin(core);
    return core;
}

void sched_core_free(SchedCore *core) {
    if (!core)
        return;
    free(core->pods);
    free(core->lanes);
    free(core->units);
    free(core->suspicion);
    free(core->audits);
    free(core);
}

size_t sched_actions_capacity(const SchedConfig *config) {
    return 3 * (size_t)config->max_pods + WIRE_BATCH_WINDOW + 8;
}

bool sched_unit_is_stored(const SchedCore *core, uint64_t unit) {
    return core->units[unit] & UNIT_STORED;
}

bool sched_has_begun(const SchedCore *core) {
    return core->lane_count > 0;
}

uint64_t sched_units_done(const SchedCore *core) {
    return core->earlier + core->units_done;
}

uint32_t sched_pod_count(const SchedCore *core) {
    return core->pod_count;
}

const char *sched_pod_node(const SchedCore *core, uint32_t pod) {
    return core->pods[pod].node;
}

void sched_pod_class(const SchedCore *core, uint32_t pod, char text[32]) {
    class_describe(core->pods[pod].class, core->pods[pod].arch, text);
}

void sched_pod_device(const SchedCore *core, uint32_t pod, DeviceClass *class, int *arch) {
    *class = core->pods[pod].class;
    *arch = core->pods[pod].arch;
}

uint64_t sched_pod_units(const SchedCore *core, uint32_t pod) {
    return core->pods[pod].units;
}

const Recovery *sched_recovery(const SchedCore *core) {
    return &core->recovery;
}

uint32_t sched_fenced(const SchedCore *core) {
    return core->fenced;
}

int64_t sched_pod_find(const SchedCore *core, uint64_t token) {
    for (uint32_t i = 0; i < core->pod_count; i++)
        if (core->pods[i].token == token)
            return i;
    return -1;
}

const PodMoved *sched_pod_moved(const SchedCore *core, uint32_t pod) {
    return &core->pods[pod].moved;
}

/* ---- actions ---- */

SchedAction *sched_act(SchedActions *actions, SchedActionKind kind) {
    SchedAction *action = &actions->items[actions->count++];
    memset(action, 0, sizeof *action);
    action->kind = kind;
    return action;
}

void sched_act_send(SchedActions *actions, uint64_t connection, WireType type) {
    SchedAction *action = sched_act(actions, SCHED_ACTION_SEND);
    action->connection = connection;
    action->type = (uint16_t)type;
}

void sched_act_reject(SchedActions *actions, uint64_t connection, RejectCode code, const char *format, ...) {
    SchedAction *action = sched_act(actions, SCHED_ACTION_SEND);
    action->connection = connection;
    action->type = WIRE_REJECT;
    action->reject_code = (uint16_t)code;
    va_list args;
    va_start(args, format);
    vsnprintf(action->text, sizeof action->text, format, args);
    va_end(args);
}

void sched_act_log(SchedActions *actions, const char *format, ...) {
    SchedAction *action = sched_act(actions, SCHED_ACTION_LOG);
    va_list args;
    va_start(args, format);
    vsnprintf(action->text, sizeof action->text, format, args);
    va_end(args);
}

void sched_act_warn(SchedActions *actions, const char *format, ...) {
    SchedAction *action = sched_act(actions, SCHED_ACTION_LOG);
    action->warning = true;
    va_list args;
    va_start(args, format);
    vsnprintf(action->text, sizeof action->text, format, args);
    va_end(args);
}

/* ---- pods ---- */

uint64_t sched_random(SchedCore *core) {
    return splitmix_next(&core->random);
}

bool sched_pod_live(const Pod *pod) {
    return pod->stage != STAGE_GONE;
}

bool sched_pod_has_left(const Pod *pod) {
    return pod->stage == STAGE_LEAVING && pod->batch_count == 0 && pod->fresh + pod->asked == 0;
}

static Pod *pod_by_connection(SchedCore *core, uint64_t connection) {
    for (uint32_t i = 0; i < core->pod_count; i++)
        if (core->pods[i].connection == connection && sched_pod_live(&core->pods[i]))
            return &core->pods[i];
    return NULL;
}

void sched_change_all(SchedCore *core) {
    for (uint32_t i = 0; i < core->pod_count; i++)
        core->pods[i].changed = true;
}

static void send_changed(SchedCore *core, uint64_t now_ms, SchedActions *actions) {
    for (uint32_t i = 0; i < core->pod_count; i++) {
        Pod *pod = &core->pods[i];
        if (!sched_pod_live(pod) || !pod->changed)
            continue;
        pod->changed = false;
        pod->sent_ms = now_ms;
        if ((core->fetched != 0 || (core->config.course && pod->lane != NO_LANE)) && pod->stage == STAGE_READY && pod->plan_epoch != core->plan_epoch)
            sched_act_send(actions, pod->connection, WIRE_PEERS);
        sched_act_send(actions, pod->connection, WIRE_SCHED_STATE);
    }
}

static void pods_describe(const SchedCore *core, char *text, size_t size) {
    size_t length = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < core->pod_count && length < size; i++)
        length += (size_t)snprintf(text + length, size - length, "%s%s", i ? ", " : "", core->pods[i].node);
    if (core->pod_count == 0)
        snprintf(text, size, "none");
}

/* ---- the end of the job ---- */

void sched_job_over(SchedCore *core, int exit_code, uint64_t now_ms, const char *format, ...) {
    if (core->phase >= PHASE_OVER)
        return;
    core->phase = PHASE_OVER;
    core->over_ms = now_ms;
    core->exit_code = exit_code;
    va_list args;
    va_start(args, format);
    vsnprintf(core->text, sizeof core->text, format, args);
    va_end(args);
    sched_change_all(core);
}

static void finish_when_drained(SchedCore *core, uint64_t now_ms, SchedActions *actions) {
    if (core->phase != PHASE_OVER)
        return;
    bool live = false;
    for (uint32_t i = 0; i < core->pod_count; i++)
        live |= sched_pod_live(&core->pods[i]);
    if (live && now_ms - core->over_ms < core->config.drain_ms)
        return;
    core->phase = PHASE_ENDED;
    SchedAction *action = sched_act(actions, SCHED_ACTION_FINISH);
    action->exit_code = core->exit_code;
    action->spoilt = core->spoilt;
    memcpy(action->text, core->text, sizeof action->text);
}

/* ---- phases ---- */

static void start_running(SchedCore *core, SchedActions *actions) {
    core->phase = PHASE_RUNNING;
    if (core->config.course)
        sched_begin_rounds(core);
    else
        sched_deal_begin(core);
    sched_choose_fetched(core);
    sched_act_log(actions, "the job begins with %u pod%s", core->lane_count, core->lane_count == 1 ? "" : "s");
    sched_change_all(core);
}

static uint32_t pods_at(const SchedCore *core, PodStage stage) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < core->pod_count; i++)
        count += core->pods[i].stage == stage;
    return count;
}

/* Goes to the next phase as often as what is known allows. */
static void advance(SchedCore *core, uint64_t now_ms, SchedActions *actions) {
    const SchedConfig *config = &core->config;
    if (core->phase == PHASE_JOINING) {
        uint32_t ready = pods_at(core, STAGE_READY), joined = pods_at(core, STAGE_JOINED);
        bool begin = config->nodes ? ready >= config->nodes : ready > 0 && joined == 0 && now_ms - core->joined_ms >= config->join_window_ms;
        if (begin)
            start_running(core, actions);
    }
    if (core->phase == PHASE_RUNNING) {
        if (config->course && core->lane_count == 0 && pods_at(core, STAGE_READY) > 0)
            sched_begin_again(core, actions);
        sched_deal(core, now_ms);
        sched_next_rounds(core, now_ms);
        if (sched_last_round(core))
            sched_ask_flush(core, now_ms);
        if (sched_last_round(core) && sched_all_on_disk(core) && core->audits_left == 0) {
            core->phase = PHASE_PUBLISHING;
            sched_act(actions, SCHED_ACTION_PUBLISH);
        }
    }
    finish_when_drained(core, now_ms, actions);
}

/* ---- messages ---- */

/* Drops the batches at the window's front that are done. */
static void retire_batches(Pod *pod, uint64_t now_ms) {
    uint32_t retired = 0;
    while (retired < pod->batch_count && (pod->done >> retired & 1))
        retired++;
    memmove(pod->batches, pod->batches + retired, (pod->batch_count - retired) * sizeof pod->batches[0]);
    pod->batch_base += retired;
    pod->batch_count -= retired;
    pod->done >>= retired;
    if (retired > 0 && pod->batch_count == 0)
        pod->worked_ms += now_ms - pod->busy_ms;
}

static void take_audit(SchedCore *core, Pod *pod, uint32_t place, uint64_t count, uint64_t checksum, uint64_t now_ms) {
    const WireBatch *batch = &pod->batches[place];
    if (count > 0)
        sched_audit_done(core, pod, batch, checksum, now_ms);
    else
        sched_audit_back(core, pod, batch);
    pod->done |= 1u << place;
    pod->counted += count;
    pod->changed = true;
}

/* The first `count` units of a batch are stored; the rest is handed back. */
static void take_done(SchedCore *core, Pod *pod, uint32_t place, uint64_t count, uint64_t checksum, SchedActions *actions) {
    WireBatch batch = pod->batches[place];
    UnitState mine = (UnitState)(pod - core->pods + 1);
    uint64_t fresh = 0;
    for (uint64_t i = 0, unit = batch.first; i < batch.count; i++, unit += batch.step) {
        UnitState state = core->units[unit];
        if (state & UNIT_STORED)
            continue; /* another pod was first */
        if (i < count)
            core->units[unit] = UNIT_STORED | mine;
        else if ((state & UNIT_POD) == mine)
            core->units[unit] = sched_holder(core, pod, unit);
        else
            sched_copy_back(core, pod, unit);
        fresh += i < count;
    }
    pod->done |= 1u << place;
    pod->units += fresh;
    pod->fresh += fresh;
    pod->counted += count;
    core->units_done += fresh;
    pod->changed = true;
    if (fresh == 0 || core->config.course)
        return;
    sched_audit_stored(core, pod, batch.first, checksum);
    SchedAction *action = sched_act(actions, SCHED_ACTION_STORED);
    batch.count = count;
    action->batch = batch;
    action->pod = (uint32_t)(pod - core->pods);
    action->checksum = checksum;
}

/* Its bits count from a base that it had from us: at most ours. */
static void take_all_done(SchedCore *core, Pod *pod, const PodState *state, uint64_t now_ms, SchedActions *actions) {
    if (state->batch_base > pod->batch_base || pod->batch_base - state->batch_base >= 32)
        return;
    uint32_t known = (uint32_t)(pod->batch_base - state->batch_base), done = (uint32_t)((uint64_t)state->done >> known);
    bool handed_back = false;
    for (uint32_t i = 0; i < pod->batch_count && known + i < state->checksums_count && known + i < state->counts_count; i++) {
        uint64_t count = state->counts[known + i];
        if ((done >> i & 1) == 0 || (pod->done >> i & 1) || count > pod->batches[i].count)
            continue;
        if (pod->batches[i].audit) {
            take_audit(core, pod, i, count, state->checksums[known + i], now_ms);
            continue;
        }
        handed_back |= count < pod->batches[i].count;
        take_done(core, pod, i, count, state->checksums[known + i], actions);
    }
    retire_batches(pod, now_ms);
    if (handed_back)
        sched_deal_anew(core);
}

/* Before the job has begun a pod that cannot is how it was started; later there are others. */
static void on_failed(SchedCore *core, Pod *pod, const char *text, uint64_t now_ms, SchedActions *actions) {
    if (core->phase == PHASE_JOINING)
        sched_job_over(core, 1, now_ms, "pod %s: %s", pod->node, text);
    else
        sched_lose(core, pod, now_ms, actions, "has failed: %s", text);
}

static void on_pod_state(SchedCore *core, Pod *pod, const WireMessage *message, uint64_t now_ms, SchedActions *actions) {
    const PodState *state = &message->pod_state;
    if (state->progress != pod->progress) {
        pod->progress = state->progress;
        pod->progress_ms = now_ms;
    }
    if (state->phase == POD_FAILED) {
        on_failed(core, pod, state->text, now_ms, actions);
        return;
    }
    if (state->phase == POD_LEAVING && pod->stage != STAGE_LEAVING) {
        pod->stage = STAGE_LEAVING;
        pod->changed = true;
        sched_act_log(actions, "pod %s is leaving", pod->node);
        bool is_stored = sched_last_round(core) && core->units_done == core->config.units;
        if (core->config.course && core->phase == PHASE_RUNNING && pod->lane != NO_LANE && !is_stored)
            sched_begin_again(core, actions);
    }
    if (pod->stage == STAGE_JOINED)
        return;
    pod->plan_epoch = message->header.plan_epoch;
    pod->moved = (PodMoved){state->loads, state->loaded, state->fetches, state->fetched, state->stores, state->stored};
    if (state->units != pod->computed)
        pod->pace_ms = now_ms;
    pod->computed = state->units;
    take_all_done(core, pod, state, now_ms, actions);
    sched_on_flushed(core, pod, state->flushed);
}

static void on_bye(SchedCore *core, Pod *pod, const Bye *bye, uint64_t now_ms, SchedActions *actions) {
    bool is_in_course = core->config.course && pod->lane != NO_LANE; /* nobody else does its units */
    if (core->phase < PHASE_PUBLISHING && (pod->batch_count || pod->fresh || pod->asked || is_in_course))
        sched_lose(core, pod, now_ms, actions, "left with work unfinished: %s", bye->text);
    else
        sched_let_go(core, pod, actions);
}

static void on_message(SchedCore *core, const SchedEvent *event, uint64_t now_ms, SchedActions *actions) {
    uint64_t connection = event->connection;
    const WireMessage *message = event->message;
    if (message->header.type == WIRE_HELLO) {
        sched_on_hello(core, connection, &message->hello, event->sender, now_ms, actions);
        return;
    }
    Pod *pod = pod_by_connection(core, connection);
    if (!pod) {
        sched_act_send(actions, connection, WIRE_WHO);
        return;
    }
    /* Another job's, another scheduler's, or older than what is known. */
    const WireHeader *header = &message->header;
    if (memcmp(header->job_id, core->config.job_id, sizeof header->job_id) != 0 || header->sched_epoch != core->config.epoch ||
        header->seq <= pod->seq_in)
        return;
    uint64_t token = header->type == WIRE_PROOF       ? message->proof.token
                     : header->type == WIRE_POD_STATE ? message->pod_state.token
                     : header->type == WIRE_BYE       ? message->bye.token
                                                      : 0;
    if (token != pod->token)
        return;
    pod->seq_in = header->seq;
    pod->heard_ms = now_ms;
    if (header->type == WIRE_PROOF)
        sched_on_proof(core, pod, &message->proof, now_ms, actions);
    else if (header->type == WIRE_POD_STATE)
        on_pod_state(core, pod, message, now_ms, actions);
    else if (header->type == WIRE_BYE)
        on_bye(core, pod, &message->bye, now_ms, actions);
}

/* ---- time ---- */

static void on_tick(SchedCore *core, uint64_t now_ms, SchedActions *actions) {
    const SchedConfig *config = &core->config;
    if (core->phase == PHASE_JOINING && now_ms - core->start_ms >= config->join_timeout_ms) {
        char names[400];
        pods_describe(core, names, sizeof names);
        uint32_t wanted = config->nodes ? config->nodes : 1;
        sched_job_over(core, 1, now_ms, "waited %u s for %u pod%s; came: %s", config->join_timeout_ms / 1000, wanted, wanted == 1 ? "" : "s", names);
    }
    sched_find_lost(core, now_ms, actions);
    sched_find_alone(core, now_ms, actions);
    sched_find_slow(core, now_ms, actions);
    for (uint32_t i = 0; i < core->pod_count; i++)
        if (sched_pod_live(&core->pods[i]) && now_ms - core->pods[i].sent_ms >= config->heartbeat_ms)
            core->pods[i].changed = true;
}

void sched_step(SchedCore *core, const SchedEvent *event, uint64_t now_ms, SchedActions *actions) {
    actions->count = 0;
    switch (event->kind) {
    case SCHED_EVENT_MESSAGE:
        on_message(core, event, now_ms, actions);
        break;
    case SCHED_EVENT_TICK:
        on_tick(core, now_ms, actions);
        break;
    case SCHED_EVENT_PUBLISHED:
        if (event->ok)
            sched_job_over(core, 0, now_ms, "done");
        else
            sched_job_over(core, 1, now_ms, "%s", event->text);
        break;
    case SCHED_EVENT_FAILED:
        if (core->phase < PHASE_PUBLISHING)
            sched_job_over(core, 1, now_ms, "%s", event->text);
        break;
    case SCHED_EVENT_STOP:
        if (core->phase < PHASE_PUBLISHING)
            sched_job_over(core, 1, now_ms, "stopped by %s", event->text);
        break;
    }
    advance(core, now_ms, actions);
    send_changed(core, now_ms, actions);
}

/* ---- what is sent ---- */

bool sched_compose(SchedCore *core, const SchedAction *send, WireMessage *message) {
    const SchedConfig *config = &core->config;
    Pod *pod = pod_by_connection(core, send->connection);
    if (!pod && send->type != WIRE_REJECT && send->type != WIRE_WHO)
        return false;
    message->header = (WireHeader){.type = send->type, .sched_epoch = config->epoch, .plan_epoch = core->plan_epoch};
    memcpy(message->header.job_id, config->job_id, sizeof config->job_id);
    if (pod) {
        message->header.seq = ++pod->seq_out;
        message->header.ack = pod->seq_in;
    }
    switch (send->type) {
    case WIRE_REJECT:
        message->reject.code = send->reject_code;
        memcpy(message->reject.text, send->text, sizeof message->reject.text);
        break;
    case WIRE_WELCOME:
        welcome_copy(&message->welcome, config->job);
        message->welcome.token = pod->token;
        message->welcome.variant = (uint32_t)config->variants[pod->class];
        for (uint32_t s = 0; s < message->welcome.steps_count; s++)
            message->welcome.steps[s].variant = (uint32_t)config->step_variants[pod->class][s];
        message->welcome.heartbeat_ms = config->heartbeat_ms;
        message->welcome.lease_ms = config->lease_ms;
        message->welcome.dead_ms = config->dead_ms;
        break;
    case WIRE_SCHED_STATE: {
        SchedState *state = &message->sched_state;
        state->token = pod->token;
        bool left = sched_pod_has_left(pod);
        state->phase = core->phase >= PHASE_OVER || left ? SCHED_OVER : pod->stage == STAGE_JOINED ? SCHED_PROVE : SCHED_RUN;
        state->exit_code = (uint8_t)core->exit_code;
        state->batch_base = pod->batch_base;
        state->batches_count = pod->batch_count;
        memcpy(state->batches, pod->batches, pod->batch_count * sizeof pod->batches[0]);
        if (core->phase < PHASE_OVER && left)
            snprintf(state->text, sizeof state->text, "left the job, which goes on");
        else
            memcpy(state->text, core->text, sizeof state->text);
        state->peers = core->fetched != 0 || config->course;
        state->flush = pod->flush;
        break;
    }
    case WIRE_PEERS:
        sched_name_peers(core, pod, &message->peers);
        break;
    default:
        message->who.reserved = 0;
    }
    return true;
}
