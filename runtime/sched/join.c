/* Whom the scheduler takes in: pods of its own build, of the job's device class, that see the job's files as it does. */
#include "runtime/sched/core_state.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static const char *way_to(DeviceClass class) {
    return class == CLASS_GPU ? "--device=cuda:K" : class == CLASS_SIMT ? "--device=simt" : "--device=cpu";
}

static bool same_class(const Pod *pod, const Hello *hello) {
    return (uint8_t)pod->class == hello->device_class && pod->arch == hello->arch;
}

const char *hello_objection(const Hello *hello) {
    if (hello->device_class >= CLASS_COUNT)
        return "its device is of a class that is not known here";
    if (hello->threads == 0 || hello->threads > INT_MAX)
        return "it says a number of threads that cannot be";
    if (hello->memory == 0 || hello->memory > INT64_MAX)
        return "it says an amount of memory that cannot be";
    return NULL;
}

/* A job runs on one class, its first pod's: another would give other bits. */
static bool takes_class(const SchedCore *core, uint64_t connection, const Hello *hello, SchedActions *actions) {
    const SchedConfig *config = &core->config;
    char theirs[32], ours[32];
    DeviceClass class = (DeviceClass)hello->device_class;
    class_describe(class, hello->arch, theirs);
    if (config->variants[class] < 0) {
        sched_act_reject(actions, connection, REJECT_DEVICE, "the job does not run on %s: %.400s", theirs, config->refusals[class]);
        sched_act_log(actions, "pod %s refused: the job does not run on %s: %.300s", hello->node, theirs, config->refusals[class]);
        return false;
    }
    Pod before = {.node = "an earlier one", .class = config->begun_class, .arch = config->begun_arch};
    const Pod *other = config->begun && !same_class(&before, hello) ? &before : NULL;
    for (uint32_t i = 0; i < core->pod_count && !other; i++)
        if ((sched_pod_live(&core->pods[i]) || core->pods[i].units > 0) && !same_class(&core->pods[i], hello))
            other = &core->pods[i];
    if (!other)
        return true;
    class_describe(other->class, other->arch, ours);
    if (config->mixed) {
        sched_act_log(actions, "mixed: pod %s computes on %s, pod %s on %s; what they compute may differ in its last bits", hello->node, theirs,
            other->node, ours);
        return true;
    }
    sched_act_reject(actions, connection, REJECT_DEVICE,
        "this job runs on %s, and this pod on %s: other devices give other bits; start the pod with %s, or the scheduler with --mixed", ours, theirs,
        way_to(other->class));
    sched_act_log(actions, "pod %s refused: it computes on %s, the job on %s; start it with %s, or the scheduler with --mixed", hello->node, theirs,
        ours, way_to(other->class));
    return false;
}

/* NULL: there is none. Pods that came late, did nothing and have gone make room: who is restarted again and again does not fill the job. */
static Pod *free_place(SchedCore *core) {
    if (core->pod_count < core->config.max_pods)
        return &core->pods[core->pod_count];
    for (uint32_t i = core->lane_count; i < core->pod_count; i++)
        if (!sched_pod_live(&core->pods[i]) && core->pods[i].units == 0)
            return &core->pods[i];
    return NULL;
}

void sched_on_hello(SchedCore *core, uint64_t connection, const Hello *hello, const char *sender, uint64_t now_ms, SchedActions *actions) {
    const SchedConfig *config = &core->config;
    if (memcmp(hello->build_id, config->build_id, sizeof config->build_id) != 0) {
        char theirs[33], ours[33];
        for (int i = 0; i < 16; i++) {
            snprintf(theirs + 2 * i, 3, "%02x", hello->build_id[i]);
            snprintf(ours + 2 * i, 3, "%02x", config->build_id[i]);
        }
        sched_act_reject(
            actions, connection, REJECT_BUILD, "another build: this pod is %s, the scheduler %s; start both from one executable", theirs, ours);
        sched_act_log(actions, "pod %s refused: its build is %s, this one %s", hello->node, theirs, ours);
        return;
    }
    if (sender && strncmp(hello->node, sender, sizeof hello->node) != 0) {
        sched_act_reject(
            actions, connection, REJECT_NAME, "the key of '%s' does not prove the name '%s'; --node-name must be the key's", sender, hello->node);
        sched_act_log(actions, "refused: the key of '%s' came with the name '%s'", sender, hello->node);
        return;
    }
    if (hello->protocol_min > WIRE_PROTOCOL || hello->protocol_max < WIRE_PROTOCOL) {
        sched_act_reject(actions, connection, REJECT_PROTOCOL, "protocol %d is spoken here, %u to %u there", WIRE_PROTOCOL, hello->protocol_min,
            hello->protocol_max);
        return;
    }
    const char *why = hello_objection(hello);
    if (why) {
        sched_act_reject(actions, connection, REJECT_DEVICE, "%s", why);
        sched_act_log(actions, "pod %s refused: %s", hello->node, why);
        return;
    }
    for (uint32_t i = 0; i < core->pod_count; i++) {
        Pod *known = &core->pods[i];
        if (memcmp(known->incarnation, hello->incarnation, sizeof known->incarnation) != 0)
            continue;
        if (!sched_pod_live(known)) {
            sched_act_reject(actions, connection, REJECT_FENCED, "this pod has left the job; start it again");
            return;
        }
        known->connection = connection; /* it connected again, or its hello was repeated */
        known->heard_ms = now_ms;
        sched_act_send(actions, connection, WIRE_WELCOME);
        return;
    }
    if (core->phase >= PHASE_PUBLISHING) {
        sched_act_reject(actions, connection, REJECT_JOB_OVER, "the job is over");
        return;
    }
    Pod *pod = free_place(core);
    if (!pod) {
        sched_act_reject(actions, connection, REJECT_FULL, "the scheduler takes %u pods and has them", config->max_pods);
        return;
    }
    if (!takes_class(core, connection, hello, actions))
        return;
    if (pod == &core->pods[core->pod_count])
        core->pod_count++;
    memset(pod, 0, sizeof *pod);
    pod->lane = NO_LANE;
    pod->class = (DeviceClass)hello->device_class;
    pod->arch = hello->arch;
    pod->connection = connection;
    pod->token = sched_random(core) | 1;
    memcpy(pod->incarnation, hello->incarnation, sizeof pod->incarnation);
    memcpy(pod->node, hello->node, sizeof pod->node);
    memcpy(pod->device, hello->device, sizeof pod->device);
    memcpy(pod->tile_endpoint, hello->tile_endpoint, sizeof pod->tile_endpoint);
    pod->memory = hello->memory;
    pod->heard_ms = pod->progress_ms = core->joined_ms = now_ms;
    core->empty_ms = 0;
    sched_act_send(actions, connection, WIRE_WELCOME);
    sched_act_log(actions, "pod %s joined (%s)", pod->node, pod->device);
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

/* A node that starts anew has ended before, whatever its last process may still send. A hello does not tell: it may be that process's, and late. */
static void lose_earlier(SchedCore *core, const Pod *pod, uint64_t now_ms, SchedActions *actions) {
    for (uint32_t i = 0; i < core->pod_count; i++)
        if (&core->pods[i] != pod && sched_pod_live(&core->pods[i]) && strcmp(core->pods[i].node, pod->node) == 0)
            sched_lose(core, &core->pods[i], now_ms, actions, "has started anew");
}

void sched_on_proof(SchedCore *core, Pod *pod, const Proof *proof, uint64_t now_ms, SchedActions *actions) {
    if (pod->stage != STAGE_JOINED)
        return;
    char text[512];
    bool differs = proof_differs(core, pod, proof, text);
    if (differs && core->phase == PHASE_JOINING) {
        sched_job_over(core, 1, now_ms, "%s", text);
        return;
    }
    if (differs) { /* no reason for a job that runs to end */
        sched_act_log(actions, "refused: %s", text);
        sched_act_reject(actions, pod->connection, REJECT_FILES, "%s", text);
        sched_let_go(core, pod, actions);
        return;
    }
    pod->stage = STAGE_READY;
    pod->changed = true;
    lose_earlier(core, pod, now_ms, actions);
    sched_deal_join(core, pod);
}
