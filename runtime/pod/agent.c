#include "runtime/pod/agent.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void agent_init(Agent *agent, const AgentConfig *config, uint64_t now_ms) {
    memset(agent, 0, sizeof *agent);
    agent->config = *config;
    agent->job = config->job;
    agent->lease_start_ms = now_ms;
}

/* ---- actions ---- */

static AgentAction *act(AgentActions *actions, AgentActionKind kind) {
    AgentAction *action = &actions->items[actions->count++];
    memset(action, 0, sizeof *action);
    action->kind = kind;
    return action;
}

static void send(Agent *agent, WireType type, uint64_t now_ms, AgentActions *actions) {
    agent->sent_ms = now_ms;
    if (type != WIRE_HELLO && agent->probe_seq == 0) {
        agent->probe_seq = agent->seq_out + 1;
        agent->probe_ms = now_ms;
    }
    act(actions, AGENT_ACTION_SEND)->type = (uint16_t)type;
}

/* The one way out: a goodbye where the scheduler knows us. Who has failed says why it did, whatever comes after. */
__attribute__((format(printf, 5, 6))) static void leave(
    Agent *agent, int exit_code, uint64_t now_ms, AgentActions *actions, const char *format, ...) {
    if (agent->phase != AGENT_FAILED) {
        va_list args;
        va_start(args, format);
        vsnprintf(agent->text, sizeof agent->text, format, args);
        va_end(args);
    }
    if (agent->token)
        send(agent, WIRE_BYE, now_ms, actions);
    agent->phase = AGENT_OVER;
    AgentAction *action = act(actions, AGENT_ACTION_EXIT);
    action->exit_code = exit_code;
    action->next = agent->next;
    memcpy(action->text, agent->text, sizeof action->text);
}

/* ---- messages ---- */

/* By what a scheduler that goes on with it cannot change: not by names of staging files, nor by how it is cut up. */
static uint64_t job_of(const Welcome *welcome) {
    uint64_t hash = XXH3_64bits_withSeed(&welcome->repeat, sizeof welcome->repeat, welcome->kernel);
    hash = XXH3_64bits_withSeed(welcome->scalars, welcome->scalars_count * sizeof welcome->scalars[0], hash);
    hash = XXH3_64bits_withSeed(welcome->step_scalars, welcome->step_scalars_count * sizeof welcome->step_scalars[0], hash);
    for (uint32_t s = 0; s < welcome->steps_count; s++)
        hash = XXH3_64bits_withSeed(&welcome->steps[s].kernel, sizeof welcome->steps[s].kernel, hash);
    for (uint32_t t = 0; t < welcome->tensors_count; t++) {
        const WireTensor *tensor = &welcome->tensors[t];
        hash = XXH3_64bits_withSeed(tensor->path, strlen(tensor->path), hash);
        hash = XXH3_64bits_withSeed(tensor->shape, sizeof tensor->shape, hash);
    }
    return hash | 1;
}

static void on_welcome(Agent *agent, const WireMessage *message, uint64_t now_ms, AgentActions *actions) {
    if (agent->phase != AGENT_HELLO)
        return; /* a repeated hello was answered twice */
    const Welcome *welcome = &message->welcome;
    memcpy(agent->job_id, message->header.job_id, sizeof agent->job_id);
    agent->sched_epoch = message->header.sched_epoch;
    agent->token = welcome->token;
    agent->heartbeat_ms = welcome->heartbeat_ms;
    agent->lease_ms = welcome->lease_ms;
    agent->dead_ms = welcome->dead_ms;
    agent->lease_start_ms = now_ms;
    agent->job = job_of(welcome);
    if (agent->config.job != 0 && agent->job != agent->config.job) {
        leave(agent, 75, now_ms, actions, "the scheduler that came in its own's place has another job, and without --persist it takes none");
        return;
    }
    agent->phase = AGENT_PROVING;
    act(actions, AGENT_ACTION_PROVE);
}

/* This job is not for this pod, but a later one may be. */
static bool waits_after(const Agent *agent, const Reject *reject) {
    static const uint8_t passing[] = {REJECT_FULL, REJECT_JOB_OVER, REJECT_DEVICE};
    bool passes = false;
    for (size_t i = 0; i < sizeof passing; i++)
        passes |= reject->code == passing[i];
    return passes && agent->config.persist && agent->phase == AGENT_HELLO;
}

static void on_reject(Agent *agent, const Reject *reject, uint64_t now_ms, AgentActions *actions) {
    if (waits_after(agent, reject))
        return; /* hellos go on */
    agent->token = 0; /* it does not know us: no goodbye */
    leave(agent, agent->phase == AGENT_FAILED ? 1 : reject->code == REJECT_FENCED ? 75 : 78, now_ms, actions, "refused by the scheduler: %s", reject->text);
}

/* Takes the batches that are new, drops those that the scheduler knows done or has withdrawn, also before they came. Who is leaving hands new ones back. */
static void take_batches(Agent *agent, const SchedState *state, AgentActions *actions) {
    uint64_t base = state->batch_base, end = base + state->batches_count;
    if (base < agent->batch_base || end < base || end < agent->batch_end)
        return; /* not a state that follows from ours */
    if (base > agent->batch_end) {
        agent->batch_base = agent->batch_end = base;
        agent->done = 0;
    }
    uint64_t known = base - agent->batch_base, held = agent->batch_end - base;
    agent->done = (uint32_t)((uint64_t)agent->done >> known);
    memmove(agent->checksums, agent->checksums + known, held * sizeof agent->checksums[0]);
    memmove(agent->counts, agent->counts + known, held * sizeof agent->counts[0]);
    agent->batch_base = base;
    for (uint64_t number = agent->batch_end; number < end; number++) {
        if (agent->leaving) {
            agent->done |= 1u << (number - base);
            agent->counts[number - base] = agent->checksums[number - base] = 0;
            continue;
        }
        AgentAction *action = act(actions, AGENT_ACTION_RUN);
        action->batch_number = number;
        action->batch = state->batches[number - base];
    }
    agent->batch_end = end;
}

/* Their order among states means nothing, that of their epochs does. */
static void on_peers(Agent *agent, uint32_t plan_epoch, uint64_t now_ms, AgentActions *actions) {
    if (plan_epoch <= agent->plan_epoch || (agent->phase != AGENT_PROVED && agent->phase != AGENT_RUNNING))
        return;
    agent->plan_epoch = plan_epoch;
    act(actions, AGENT_ACTION_PEERS);
    send(agent, WIRE_POD_STATE, now_ms, actions);
}

static void flush_when_wanted(Agent *agent, AgentActions *actions) {
    if (agent->flushing || agent->flush_wanted == agent->flushed || agent->phase != AGENT_RUNNING)
        return;
    agent->flushing = true;
    agent->flush_begun = agent->flush_wanted;
    act(actions, AGENT_ACTION_FLUSH);
}

static void on_sched_state(Agent *agent, const SchedState *state, uint32_t plan_epoch, uint64_t now_ms, AgentActions *actions) {
    switch (state->phase) {
    case SCHED_PROVE:
        break;
    case SCHED_RUN:
        if (agent->phase == AGENT_PROVED)
            agent->phase = AGENT_RUNNING;
        if (agent->phase == AGENT_RUNNING && (!state->peers || (agent->plan_epoch > 0 && agent->plan_epoch == plan_epoch)))
            take_batches(agent, state, actions);
        agent->flush_wanted = state->flush;
        flush_when_wanted(agent, actions);
        break;
    case SCHED_OVER:
        agent->next = agent->config.persist && agent->phase != AGENT_FAILED && !agent->leaving;
        leave(agent, state->exit_code || agent->phase == AGENT_FAILED ? 1 : 0, now_ms, actions, "%s", state->text);
        break;
    default: /* a later protocol's: its scheduler would not have welcomed us */
        break;
    }
}

static void take_ack(Agent *agent, uint64_t ack) {
    if (agent->probe_seq == 0 || ack < agent->probe_seq)
        return;
    agent->lease_start_ms = agent->probe_ms;
    agent->leased = true;
    agent->probe_seq = 0;
}

uint64_t agent_lease_end(const Agent *agent) {
    return agent->leased && agent->phase != AGENT_OVER ? agent->lease_start_ms + agent->lease_ms : 0;
}

static bool is_of_job(const Agent *agent, const WireHeader *header) {
    return memcmp(header->job_id, agent->job_id, sizeof header->job_id) == 0 && header->sched_epoch == agent->sched_epoch;
}

/* A scheduler that does not know this pod: where it is another one than ours, that has ended, and this one is joined as a pod that has done nothing.
 */
static void on_who(Agent *agent, const WireHeader *header, uint64_t now_ms, AgentActions *actions) {
    if (agent->phase == AGENT_HELLO || is_of_job(agent, header)) {
        send(agent, WIRE_HELLO, now_ms, actions);
        return;
    }
    agent->token = 0; /* no goodbye */
    agent->next = agent->phase != AGENT_FAILED && !agent->leaving;
    leave(agent, agent->phase == AGENT_FAILED ? 1 : agent->leaving ? 0 : 75, now_ms, actions, "another scheduler has taken the place of this pod's");
}

static void on_message(Agent *agent, const WireMessage *message, uint64_t now_ms, AgentActions *actions) {
    const WireHeader *header = &message->header;
    if (header->type == WIRE_WHO) {
        on_who(agent, header, now_ms, actions);
        return;
    }
    if (header->type == WIRE_REJECT) {
        on_reject(agent, &message->reject, now_ms, actions);
        return;
    }
    if (header->type == WIRE_WELCOME) {
        on_welcome(agent, message, now_ms, actions);
        return;
    }
    uint64_t token = header->type == WIRE_SCHED_STATE ? message->sched_state.token : header->type == WIRE_PEERS ? message->peers.token : 0;
    if (agent->phase == AGENT_HELLO || !is_of_job(agent, header) || token == 0 || token != agent->token)
        return;
    take_ack(agent, header->ack);
    if (header->type == WIRE_PEERS) {
        on_peers(agent, header->plan_epoch, now_ms, actions);
        return;
    }
    if (header->seq <= agent->seq_in)
        return;
    agent->seq_in = header->seq;
    on_sched_state(agent, &message->sched_state, header->plan_epoch, now_ms, actions);
}

/* ---- time and work ---- */

static void on_tick(Agent *agent, uint64_t now_ms, AgentActions *actions) {
    if (agent->phase == AGENT_HELLO) {
        if (agent->sent_ms == 0 || now_ms - agent->sent_ms >= agent->config.hello_ms)
            send(agent, WIRE_HELLO, now_ms, actions);
        return;
    }
    if (now_ms - agent->lease_start_ms >= agent->dead_ms) {
        agent->next = agent->config.persist && agent->phase != AGENT_FAILED && !agent->leaving;
        leave(agent, agent->phase == AGENT_FAILED ? 1 : 75, now_ms, actions, "the scheduler has not been heard for %u s", agent->dead_ms / 1000);
        return;
    }
    if (now_ms - agent->sent_ms >= agent->heartbeat_ms)
        send(agent, agent->phase == AGENT_PROVED && !agent->leaving ? WIRE_PROOF : WIRE_POD_STATE, now_ms, actions);
}

static void on_stop(Agent *agent, const char *who, uint64_t now_ms, AgentActions *actions) {
    bool at_once = agent->leaving || agent->phase == AGENT_FAILED;
    if (at_once || agent->phase == AGENT_HELLO) {
        leave(agent, at_once ? 1 : 0, now_ms, actions, "stopped by %s", who);
        return;
    }
    agent->leaving = true;
    act(actions, AGENT_ACTION_DRAIN);
    send(agent, WIRE_POD_STATE, now_ms, actions);
}

static void on_batch_done(Agent *agent, const AgentEvent *event, uint64_t now_ms, AgentActions *actions) {
    if (event->batch < agent->batch_base || event->batch >= agent->batch_end)
        return; /* withdrawn */
    uint64_t place = event->batch - agent->batch_base;
    agent->done |= 1u << place;
    agent->checksums[place] = event->checksum;
    agent->counts[place] = event->units;
    send(agent, WIRE_POD_STATE, now_ms, actions);
}

void agent_step(Agent *agent, const AgentEvent *event, uint64_t now_ms, AgentActions *actions) {
    actions->count = 0;
    if (agent->phase == AGENT_OVER)
        return;
    switch (event->kind) {
    case AGENT_EVENT_MESSAGE:
        on_message(agent, event->message, now_ms, actions);
        break;
    case AGENT_EVENT_TICK:
        on_tick(agent, now_ms, actions);
        break;
    case AGENT_EVENT_PROVED:
        agent->seen_count = event->seen_count;
        memcpy(agent->seen, event->seen, event->seen_count * sizeof agent->seen[0]);
        agent->phase = AGENT_PROVED;
        send(agent, WIRE_PROOF, now_ms, actions);
        break;
    case AGENT_EVENT_PROGRESS:
        agent->progress++;
        agent->units = event->units;
        agent->moved = event->moved;
        break;
    case AGENT_EVENT_BATCH_DONE:
        on_batch_done(agent, event, now_ms, actions);
        break;
    case AGENT_EVENT_FLUSHED:
        agent->flushing = false;
        agent->flushed = agent->flush_begun;
        send(agent, WIRE_POD_STATE, now_ms, actions);
        flush_when_wanted(agent, actions);
        break;
    case AGENT_EVENT_FAILED:
        agent->phase = AGENT_FAILED;
        snprintf(agent->text, sizeof agent->text, "%s", event->text);
        send(agent, WIRE_POD_STATE, now_ms, actions);
        break;
    case AGENT_EVENT_STOP:
        on_stop(agent, event->text, now_ms, actions);
        break;
    }
}

/* ---- what is sent ---- */

void agent_compose(Agent *agent, WireType type, WireMessage *message) {
    message->header = (WireHeader){.type = (uint16_t)type, .sched_epoch = agent->sched_epoch, .plan_epoch = agent->plan_epoch, .ack = agent->seq_in};
    memcpy(message->header.job_id, agent->job_id, sizeof agent->job_id);
    if (type != WIRE_HELLO)
        message->header.seq = ++agent->seq_out;
    switch (type) {
    case WIRE_HELLO:
        message->hello = agent->config.hello;
        break;
    case WIRE_PROOF:
        message->proof.token = agent->token;
        message->proof.seen_count = agent->seen_count;
        memcpy(message->proof.seen, agent->seen, agent->seen_count * sizeof agent->seen[0]);
        break;
    case WIRE_BYE:
        message->bye.token = agent->token;
        memcpy(message->bye.text, agent->text, sizeof message->bye.text);
        break;
    default: {
        PodState *state = &message->pod_state;
        state->token = agent->token;
        state->phase = agent->phase == AGENT_FAILED    ? POD_FAILED
                       : agent->leaving                ? POD_LEAVING
                       : agent->phase == AGENT_PROVING ? POD_PROVING
                                                       : POD_READY;
        state->progress = agent->progress;
        state->batch_base = agent->batch_base;
        state->done = agent->done;
        state->units = agent->units;
        state->loads = agent->moved.loads;
        state->loaded = agent->moved.loaded;
        state->fetches = agent->moved.fetches;
        state->fetched = agent->moved.fetched;
        state->stores = agent->moved.stores;
        state->stored = agent->moved.stored;
        state->checksums_count = (uint32_t)(agent->batch_end - agent->batch_base);
        memcpy(state->checksums, agent->checksums, state->checksums_count * sizeof state->checksums[0]);
        state->counts_count = state->checksums_count;
        memcpy(state->counts, agent->counts, state->counts_count * sizeof state->counts[0]);
        state->flushed = agent->flushed;
        memcpy(state->text, agent->text, sizeof state->text);
    }
    }
}
