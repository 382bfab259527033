#include "runtime/sched/core.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum PodStage {
    STAGE_JOINED,  /* welcomed; its proof is awaited */
    STAGE_READY,   /* sees the job's files; may hold work */
    STAGE_FLUSHED, /* all that it stored is on the disk */
    STAGE_GONE,    /* said goodbye, or was dropped */
} PodStage;

typedef struct Pod {
    PodStage stage;
    uint64_t connection, token;
    uint8_t incarnation[16];
    char node[64];
    char device[64];
    DeviceClass class;
    int arch;
    char tile_endpoint[256];
    uint64_t heard_ms, sent_ms; /* last message in, last state out */
    bool changed;               /* its state must be sent at the end of the step */
    uint64_t seq_in, seq_out;
    uint64_t progress, progress_ms; /* the pod's own counter, and when it last grew or work was given */
    bool proven;
    uint64_t batch_base;
    uint32_t batch_count;
    WireBatch batches[WIRE_BATCH_WINDOW];
    uint32_t done; /* bit i: batch_base + i */
    uint64_t units;
} Pod;

/* Of the units that the placement gives a pod, by their number there, those that nobody holds yet. */
typedef struct Lane {
    uint64_t first, count;
} Lane;

typedef enum Phase { PHASE_JOINING, PHASE_RUNNING, PHASE_FLUSHING, PHASE_PUBLISHING, PHASE_OVER, PHASE_ENDED } Phase;

struct SchedCore {
    SchedConfig config;
    Phase phase;
    uint64_t start_ms, joined_ms, over_ms;
    uint64_t random;
    Pod *pods;
    uint32_t pod_count;
    Lane *lanes; /* one a pod that was there at the start */
    uint32_t lane_count;
    uint64_t units_done;
    int exit_code;
    char text[512]; /* why it ended */
};

void class_describe(DeviceClass class, int arch, char text[32]) {
    if (class == CLASS_GPU)
        snprintf(text, 32, "gpu sm_%d", arch);
    else
        snprintf(text, 32, "%s", class == CLASS_CPU ? "cpu" : "simulator");
}

SchedCore *sched_core_new(const SchedConfig *config, uint64_t now_ms, uint64_t random_seed) {
    SchedCore *core = calloc(1, sizeof *core);
    Pod *pods = calloc(config->max_pods, sizeof *pods);
    Lane *lanes = calloc(config->max_pods, sizeof *lanes);
    if (!core || !pods || !lanes) {
        free(core);
        free(pods);
        free(lanes);
        return NULL;
    }
    core->config = *config;
    core->start_ms = core->joined_ms = now_ms;
    core->random = random_seed;
    core->pods = pods;
    core->lanes = lanes;
    return core;
}

void sched_core_free(SchedCore *core) {
    if (!core)
        return;
    free(core->pods);
    free(core->lanes);
    free(core);
}

size_t sched_actions_capacity(const SchedConfig *config) {
    return 2 * (size_t)config->max_pods + 8;
}

bool sched_has_begun(const SchedCore *core) {
    return core->lane_count > 0;
}

uint64_t sched_units_done(const SchedCore *core) {
    return core->units_done;
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

uint64_t sched_pod_units(const SchedCore *core, uint32_t pod) {
    return core->pods[pod].units;
}

/* ---- actions ---- */

static SchedAction *act(SchedActions *actions, SchedActionKind kind) {
    SchedAction *action = &actions->items[actions->count++];
    memset(action, 0, sizeof *action);
    action->kind = kind;
    return action;
}

static void act_send(SchedActions *actions, uint64_t connection, WireType type) {
    SchedAction *action = act(actions, SCHED_ACTION_SEND);
    action->connection = connection;
    action->type = (uint16_t)type;
}

__attribute__((format(printf, 4, 5))) static void act_reject(SchedActions *actions, uint64_t connection, RejectCode code, const char *format, ...) {
    SchedAction *action = act(actions, SCHED_ACTION_SEND);
    action->connection = connection;
    action->type = WIRE_REJECT;
    action->reject_code = (uint16_t)code;
    va_list args;
    va_start(args, format);
    vsnprintf(action->text, sizeof action->text, format, args);
    va_end(args);
}

__attribute__((format(printf, 2, 3))) static void act_log(SchedActions *actions, const char *format, ...) {
    SchedAction *action = act(actions, SCHED_ACTION_LOG);
    va_list args;
    va_start(args, format);
    vsnprintf(action->text, sizeof action->text, format, args);
    va_end(args);
}

/* ---- pods ---- */

static uint64_t next_random(SchedCore *core) {
    /* splitmix64 */
    uint64_t z = core->random += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static bool pod_live(const Pod *pod) {
    return pod->stage != STAGE_GONE;
}

static Pod *pod_by_connection(SchedCore *core, uint64_t connection) {
    for (uint32_t i = 0; i < core->pod_count; i++)
        if (core->pods[i].connection == connection && pod_live(&core->pods[i]))
            return &core->pods[i];
    return NULL;
}

static void change_all(SchedCore *core) {
    for (uint32_t i = 0; i < core->pod_count; i++)
        core->pods[i].changed = true;
}

static void send_changed(SchedCore *core, uint64_t now_ms, SchedActions *actions) {
    for (uint32_t i = 0; i < core->pod_count; i++) {
        Pod *pod = &core->pods[i];
        if (!pod_live(pod) || !pod->changed)
            continue;
        pod->changed = false;
        pod->sent_ms = now_ms;
        act_send(actions, pod->connection, WIRE_SCHED_STATE);
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

__attribute__((format(printf, 4, 5))) static void job_over(SchedCore *core, int exit_code, uint64_t now_ms, const char *format, ...) {
    if (core->phase >= PHASE_OVER)
        return;
    core->phase = PHASE_OVER;
    core->over_ms = now_ms;
    core->exit_code = exit_code;
    va_list args;
    va_start(args, format);
    vsnprintf(core->text, sizeof core->text, format, args);
    va_end(args);
    change_all(core);
}

static void finish_when_drained(SchedCore *core, uint64_t now_ms, SchedActions *actions) {
    if (core->phase != PHASE_OVER)
        return;
    bool live = false;
    for (uint32_t i = 0; i < core->pod_count; i++)
        live |= pod_live(&core->pods[i]);
    if (live && now_ms - core->over_ms < core->config.drain_ms)
        return;
    core->phase = PHASE_ENDED;
    SchedAction *action = act(actions, SCHED_ACTION_FINISH);
    action->exit_code = core->exit_code;
    memcpy(action->text, core->text, sizeof action->text);
}

/* ---- dealing ---- */

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

static void deal(SchedCore *core, uint64_t now_ms) {
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

static void start_running(SchedCore *core, SchedActions *actions) {
    core->phase = PHASE_RUNNING;
    core->lane_count = core->pod_count;
    placement_deal(core->config.placement, core->lane_count);
    for (uint32_t i = 0; i < core->lane_count; i++)
        core->lanes[i] = (Lane){0, (uint64_t)placement_count(core->config.placement, i)};
    act_log(actions, "the job begins with %u pod%s", core->lane_count, core->lane_count == 1 ? "" : "s");
    change_all(core);
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
        deal(core, now_ms);
        if (core->units_done == config->units) {
            core->phase = PHASE_FLUSHING;
            change_all(core);
        }
    }
    if (core->phase == PHASE_FLUSHING) {
        bool flushed = true; /* a pod that never held work has nothing to flush */
        for (uint32_t i = 0; i < core->pod_count; i++)
            flushed &= core->pods[i].stage == STAGE_FLUSHED || core->pods[i].units == 0;
        if (flushed) {
            core->phase = PHASE_PUBLISHING;
            act(actions, SCHED_ACTION_PUBLISH);
        }
    }
    finish_when_drained(core, now_ms, actions);
}

/* ---- messages ---- */

static const char *way_to(DeviceClass class) {
    return class == CLASS_GPU ? "--device=cuda:K" : class == CLASS_SIMT ? "--device=simt" : "--device=cpu";
}

/* A job runs on one class, its first pod's: another would give other bits. */
static bool takes_class(const SchedCore *core, uint64_t connection, const Hello *hello, SchedActions *actions) {
    const SchedConfig *config = &core->config;
    char theirs[32], ours[32];
    if (hello->device_class >= CLASS_COUNT) {
        act_reject(actions, connection, REJECT_DEVICE, "device class %u is not known here", hello->device_class);
        return false;
    }
    DeviceClass class = (DeviceClass)hello->device_class;
    class_describe(class, hello->arch, theirs);
    if (config->variants[class] < 0) {
        act_reject(actions, connection, REJECT_DEVICE, "the job does not run on %s: %.400s", theirs, config->refusals[class]);
        act_log(actions, "pod %s refused: the job does not run on %s: %.300s", hello->node, theirs, config->refusals[class]);
        return false;
    }
    const Pod *other = NULL;
    for (uint32_t i = 0; i < core->pod_count && !other; i++)
        if (pod_live(&core->pods[i]) && (core->pods[i].class != class || core->pods[i].arch != hello->arch))
            other = &core->pods[i];
    if (!other)
        return true;
    class_describe(other->class, other->arch, ours);
    if (config->mixed) {
        act_log(actions, "mixed: pod %s computes on %s, pod %s on %s; what they compute may differ in its last bits", hello->node, theirs, other->node, ours);
        return true;
    }
    act_reject(actions, connection, REJECT_DEVICE,
        "this job runs on %s, and this pod on %s: other devices give other bits; start the pod with %s, or the scheduler with --mixed", ours, theirs,
        way_to(other->class));
    act_log(actions, "pod %s refused: it computes on %s, the job on %s; start it with %s, or the scheduler with --mixed", hello->node, theirs, ours,
        way_to(other->class));
    return false;
}

static void on_hello(SchedCore *core, uint64_t connection, const Hello *hello, uint64_t now_ms, SchedActions *actions) {
    const SchedConfig *config = &core->config;
    if (memcmp(hello->build_id, config->build_id, sizeof config->build_id) != 0) {
        char theirs[33], ours[33];
        for (int i = 0; i < 16; i++) {
            snprintf(theirs + 2 * i, 3, "%02x", hello->build_id[i]);
            snprintf(ours + 2 * i, 3, "%02x", config->build_id[i]);
        }
        act_reject(
            actions, connection, REJECT_BUILD, "another build: this pod is %s, the scheduler %s; start both from one executable", theirs, ours);
        act_log(actions, "pod %s refused: its build is %s, this one %s", hello->node, theirs, ours);
        return;
    }
    if (hello->protocol_min > WIRE_PROTOCOL || hello->protocol_max < WIRE_PROTOCOL) {
        act_reject(actions, connection, REJECT_PROTOCOL, "protocol %d is spoken here, %u to %u there", WIRE_PROTOCOL, hello->protocol_min,
            hello->protocol_max);
        return;
    }
    for (uint32_t i = 0; i < core->pod_count; i++) {
        Pod *known = &core->pods[i];
        if (memcmp(known->incarnation, hello->incarnation, sizeof known->incarnation) != 0)
            continue;
        if (!pod_live(known)) {
            act_reject(actions, connection, REJECT_FENCED, "this pod has left the job; start it again");
            return;
        }
        known->connection = connection; /* it connected again, or its hello was repeated */
        known->heard_ms = now_ms;
        act_send(actions, connection, WIRE_WELCOME);
        return;
    }
    if (core->phase >= PHASE_FLUSHING) {
        act_reject(actions, connection, REJECT_JOB_OVER, "the job is over");
        return;
    }
    if (core->pod_count == config->max_pods) {
        act_reject(actions, connection, REJECT_FULL, "the scheduler takes %u pods and has them", config->max_pods);
        return;
    }
    if (!takes_class(core, connection, hello, actions))
        return;
    Pod *pod = &core->pods[core->pod_count++];
    memset(pod, 0, sizeof *pod);
    pod->class = (DeviceClass)hello->device_class;
    pod->arch = hello->arch;
    pod->connection = connection;
    pod->token = next_random(core) | 1;
    memcpy(pod->incarnation, hello->incarnation, sizeof pod->incarnation);
    memcpy(pod->node, hello->node, sizeof pod->node);
    memcpy(pod->device, hello->device, sizeof pod->device);
    memcpy(pod->tile_endpoint, hello->tile_endpoint, sizeof pod->tile_endpoint);
    pod->heard_ms = pod->progress_ms = core->joined_ms = now_ms;
    act_send(actions, connection, WIRE_WELCOME);
    act_log(actions, "pod %s joined (%s)", pod->node, pod->device);
}

/* Puts into `text` how what the pod sees differs from what the scheduler sees. False: it does not. */
static bool proof_differs(const SchedCore *core, const Pod *pod, const Proof *proof, char text[512]) {
    const Welcome *job = core->config.job;
    if (proof->seen_count != job->tensors_count) {
        snprintf(text, 512, "pod %s: malformed proof", pod->node);
        return true;
    }
    for (uint32_t i = 0; i < proof->seen_count; i++) {
        const WireSeen *theirs = &proof->seen[i], *ours = &core->config.expected[i];
        const WireTensor *tensor = &job->tensors[i];
        if (theirs->error != ours->error)
            snprintf(text, 512, "pod %s cannot open '%.300s' as the scheduler does: %s", pod->node, tensor->path,
                theirs->error ? strerror((int)theirs->error) : "a file is there that the scheduler does not see");
        else if (theirs->size != ours->size)
            snprintf(text, 512, "pod %s sees '%.300s' with %lld bytes, the scheduler with %lld", pod->node, tensor->path, (long long)theirs->size,
                (long long)ours->size);
        else if (theirs->mtime_ns != ours->mtime_ns)
            snprintf(
                text, 512, "pod %s sees another modification time of '%.300s' than the scheduler: is it the same file?", pod->node, tensor->path);
        else if (theirs->hash != ours->hash)
            snprintf(text, 512, "pod %s reads other bytes in '%.300s' than the scheduler", pod->node, tensor->path);
        else if (theirs->staging_error)
            snprintf(text, 512, "pod %s cannot open the staging file '%.300s': %s", pod->node, tensor->staging, strerror((int)theirs->staging_error));
        else if (theirs->nonce != ours->nonce)
            snprintf(text, 512, "pod %s reads another mark in the staging file '%.300s' than the scheduler wrote", pod->node, tensor->staging);
        else
            continue;
        return true;
    }
    return false;
}

static void on_proof(SchedCore *core, Pod *pod, const Proof *proof, uint64_t now_ms) {
    if (pod->stage != STAGE_JOINED)
        return;
    char text[512];
    if (proof_differs(core, pod, proof, text)) {
        job_over(core, 1, now_ms, "%s", text);
        return;
    }
    pod->stage = STAGE_READY;
    pod->changed = true;
}

/* Drops the batches at the window's front that are done. */
static void retire_batches(Pod *pod) {
    uint32_t retired = 0;
    while (retired < pod->batch_count && (pod->done >> retired & 1))
        retired++;
    memmove(pod->batches, pod->batches + retired, (pod->batch_count - retired) * sizeof pod->batches[0]);
    pod->batch_base += retired;
    pod->batch_count -= retired;
    pod->done >>= retired;
}

static void on_pod_state(SchedCore *core, Pod *pod, const PodState *state, uint64_t now_ms) {
    if (state->progress != pod->progress) {
        pod->progress = state->progress;
        pod->progress_ms = now_ms;
    }
    if (state->phase == POD_FAILED) {
        job_over(core, 1, now_ms, "pod %s: %s", pod->node, state->text);
        return;
    }
    if (pod->stage != STAGE_READY && pod->stage != STAGE_FLUSHED)
        return;
    /* Its bits count from a base that it had from us: at most ours. */
    if (state->batch_base <= pod->batch_base && pod->batch_base - state->batch_base < 32) {
        uint32_t done = (uint32_t)((uint64_t)state->done >> (pod->batch_base - state->batch_base));
        for (uint32_t i = 0; i < pod->batch_count; i++) {
            if ((done >> i & 1) == 0 || (pod->done >> i & 1))
                continue;
            pod->done |= 1u << i;
            pod->units += pod->batches[i].count;
            core->units_done += pod->batches[i].count;
            pod->changed = true;
        }
        retire_batches(pod);
    }
    if (state->phase == POD_FLUSHED && core->phase == PHASE_FLUSHING)
        pod->stage = STAGE_FLUSHED;
}

static void on_bye(SchedCore *core, Pod *pod, const Bye *bye, uint64_t now_ms, SchedActions *actions) {
    bool needed = pod->batch_count || (pod->units && pod->stage != STAGE_FLUSHED);
    pod->stage = STAGE_GONE;
    SchedAction *action = act(actions, SCHED_ACTION_FORGET);
    action->connection = pod->connection;
    if (core->phase < PHASE_PUBLISHING) {
        if (needed)
            job_over(core, 1, now_ms, "pod %s left with work unfinished: %s", pod->node, bye->text);
        else
            act_log(actions, "pod %s left: %s", pod->node, bye->text);
    }
}

static void on_message(SchedCore *core, uint64_t connection, const WireMessage *message, uint64_t now_ms, SchedActions *actions) {
    if (message->header.type == WIRE_HELLO) {
        on_hello(core, connection, &message->hello, now_ms, actions);
        return;
    }
    Pod *pod = pod_by_connection(core, connection);
    if (!pod) {
        act_send(actions, connection, WIRE_WHO);
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
        on_proof(core, pod, &message->proof, now_ms);
    else if (header->type == WIRE_POD_STATE)
        on_pod_state(core, pod, &message->pod_state, now_ms);
    else
        on_bye(core, pod, &message->bye, now_ms, actions);
}

/* ---- time ---- */

static void on_tick(SchedCore *core, uint64_t now_ms, SchedActions *actions) {
    const SchedConfig *config = &core->config;
    if (core->phase == PHASE_JOINING && now_ms - core->start_ms >= config->join_timeout_ms) {
        char names[400];
        pods_describe(core, names, sizeof names);
        uint32_t wanted = config->nodes ? config->nodes : 1;
        job_over(core, 1, now_ms, "waited %u s for %u pod%s; came: %s", config->join_timeout_ms / 1000, wanted, wanted == 1 ? "" : "s", names);
    }
    for (uint32_t i = 0; i < core->pod_count; i++) {
        Pod *pod = &core->pods[i];
        if (!pod_live(pod))
            continue;
        if (now_ms - pod->heard_ms >= config->dead_ms) {
            pod->stage = STAGE_GONE;
            SchedAction *action = act(actions, SCHED_ACTION_FORGET);
            action->connection = pod->connection;
            if (core->phase < PHASE_PUBLISHING)
                job_over(core, 1, now_ms, "pod %s has not been heard for %u s", pod->node, config->dead_ms / 1000);
            continue;
        }
        if (core->phase == PHASE_RUNNING && pod->batch_count && now_ms - pod->progress_ms >= config->progress_ms)
            job_over(core, 1, now_ms, "pod %s holds work and has made no progress for %u s", pod->node, config->progress_ms / 1000);
        if (now_ms - pod->sent_ms >= config->heartbeat_ms)
            pod->changed = true;
    }
}

void sched_step(SchedCore *core, const SchedEvent *event, uint64_t now_ms, SchedActions *actions) {
    actions->count = 0;
    switch (event->kind) {
    case SCHED_EVENT_MESSAGE:
        on_message(core, event->connection, event->message, now_ms, actions);
        break;
    case SCHED_EVENT_TICK:
        on_tick(core, now_ms, actions);
        break;
    case SCHED_EVENT_PUBLISHED:
        if (event->ok)
            job_over(core, 0, now_ms, "done");
        else
            job_over(core, 1, now_ms, "%s", event->text);
        break;
    case SCHED_EVENT_FAILED:
        if (core->phase < PHASE_PUBLISHING)
            job_over(core, 1, now_ms, "%s", event->text);
        break;
    case SCHED_EVENT_STOP:
        if (core->phase < PHASE_PUBLISHING)
            job_over(core, 1, now_ms, "stopped by %s", event->text);
        break;
    }
    advance(core, now_ms, actions);
    send_changed(core, now_ms, actions);
}

/* ---- what is sent ---- */

/* tcp://HOST: of an endpoint. */
static size_t host_length(const char *endpoint) {
    const char *colon = strrchr(endpoint, ':');
    return colon ? (size_t)(colon - endpoint) : strlen(endpoint);
}

/* Pods of one host read through one page cache, which nothing beats; a pod elsewhere asks the first one, which has the tiles that all units share. */
static void name_source(const SchedCore *core, const Pod *pod, char source[256]) {
    const char *first = core->pods[0].tile_endpoint;
    size_t length = host_length(first);
    bool same_host = length == host_length(pod->tile_endpoint) && strncmp(first, pod->tile_endpoint, length) == 0;
    memset(source, 0, 256);
    if (pod != &core->pods[0] && pod_live(&core->pods[0]) && !same_host)
        memcpy(source, first, sizeof core->pods[0].tile_endpoint);
}

bool sched_compose(SchedCore *core, const SchedAction *send, WireMessage *message) {
    const SchedConfig *config = &core->config;
    Pod *pod = pod_by_connection(core, send->connection);
    if (!pod && send->type != WIRE_REJECT && send->type != WIRE_WHO)
        return false;
    message->header = (WireHeader){.type = send->type, .sched_epoch = config->epoch};
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
        message->welcome.pod = (uint32_t)(pod - core->pods);
        message->welcome.heartbeat_ms = config->heartbeat_ms;
        message->welcome.lease_ms = config->lease_ms;
        message->welcome.dead_ms = config->dead_ms;
        break;
    case WIRE_SCHED_STATE: {
        SchedState *state = &message->sched_state;
        state->token = pod->token;
        state->phase = core->phase >= PHASE_OVER       ? SCHED_OVER
                       : core->phase >= PHASE_FLUSHING ? SCHED_FLUSH
                       : pod->stage == STAGE_JOINED    ? SCHED_PROVE
                                                       : SCHED_RUN;
        state->exit_code = (uint8_t)core->exit_code;
        state->batch_base = pod->batch_base;
        state->batches_count = pod->batch_count;
        memcpy(state->batches, pod->batches, pod->batch_count * sizeof pod->batches[0]);
        memcpy(state->text, core->text, sizeof state->text);
        name_source(core, pod, state->source);
        break;
    }
    default:
        message->who.reserved = 0;
    }
    return true;
}
