/* A pod's side of the control plane as a pure state machine: hello, proof, batches of units, flushes, goodbye. It knows the scheduler's messages and
 * what of the work is done, not how units run: the shell feeds RUN's batches to the engine and says when one is stored.
 *
 * A pod may write as long as the scheduler cannot have given it up. What it has heard says little about that: it may have waited in a buffer while
 * the pod slept. So the lease counts from when it sent the last message that the scheduler has acknowledged: the scheduler's patience began no
 * earlier. */
#ifndef PHOBOS_POD_AGENT_H
#define PHOBOS_POD_AGENT_H

#include "runtime/net/wire.h"
#include "runtime/pod/moved.h"

typedef struct AgentConfig {
    Hello hello;       /* what this pod says of itself, incarnation and all */
    uint32_t hello_ms; /* between hellos until the scheduler answers */
    bool persist;      /* when the job is over there may be another one */
    uint64_t job;      /* as Agent.job, the only one that it takes; 0: any */
} AgentConfig;

typedef enum AgentEventKind {
    AGENT_EVENT_MESSAGE,
    AGENT_EVENT_TICK,
    AGENT_EVENT_PROVED,     /* `seen` of each tensor of the job */
    AGENT_EVENT_PROGRESS,   /* some instruction ended; `units` computed and stored in all, `moved` in all */
    AGENT_EVENT_BATCH_DONE, /* the first `units` of batch number `batch` are stored: all, unless it was cut short by DRAIN */
    AGENT_EVENT_FLUSHED,    /* what was stored is on the disk */
    AGENT_EVENT_FAILED,     /* `text` */
    AGENT_EVENT_STOP,       /* the user wants this pod to leave (`text`: how it was said), and the second time at once */
} AgentEventKind;

typedef struct AgentEvent {
    AgentEventKind kind;
    const WireMessage *message;
    const WireSeen *seen;
    uint32_t seen_count;
    uint64_t units;
    PodMoved moved;
    uint64_t batch, checksum; /* BATCH_DONE */
    const char *text;
} AgentEvent;

typedef enum AgentActionKind {
    AGENT_ACTION_SEND,  /* compose `type` (agent_compose) and send it */
    AGENT_ACTION_PROVE, /* the message of this event is the WELCOME: take the job from it, look at its files, then AGENT_EVENT_PROVED */
    AGENT_ACTION_PEERS, /* the message of this event is the PEERS; it comes anew when pods are lost */
    AGENT_ACTION_RUN,   /* batch number `batch_number`: `batch` */
    AGENT_ACTION_DRAIN, /* end what has begun, and no more of the batches */
    AGENT_ACTION_FLUSH, /* then AGENT_EVENT_FLUSHED; beside the work */
    AGENT_ACTION_EXIT,  /* the pod ends with `exit_code`, or where `next` is set begins anew with another incarnation */
} AgentActionKind;

typedef struct AgentAction {
    AgentActionKind kind;
    uint16_t type;
    uint64_t batch_number;
    WireBatch batch;
    int exit_code;
    bool next;
    char text[512];
} AgentAction;

enum { AGENT_MAX_ACTIONS = WIRE_BATCH_WINDOW + 4 }; /* of one step */

typedef struct AgentActions {
    AgentAction items[AGENT_MAX_ACTIONS];
    int count;
} AgentActions;

typedef enum AgentPhase { AGENT_HELLO, AGENT_PROVING, AGENT_PROVED, AGENT_RUNNING, AGENT_FAILED, AGENT_OVER } AgentPhase;

typedef struct Agent {
    AgentConfig config;
    AgentPhase phase;
    uint8_t job_id[16];
    uint64_t job; /* which it is, whoever schedules it; 0: not told yet */
    uint32_t sched_epoch;
    uint64_t token;
    uint64_t seq_in, seq_out;
    uint64_t sent_ms;
    uint64_t probe_seq, probe_ms; /* the first message that was not acknowledged when it was last looked; 0: there was none */
    uint64_t lease_start_ms;      /* when the last one was sent that is acknowledged */
    bool leased;                  /* there was one */
    uint32_t heartbeat_ms, lease_ms, dead_ms;
    uint64_t progress, units;
    PodMoved moved;
    uint32_t plan_epoch; /* of the last PEERS; 0: there was none */
    bool leaving, flushing;
    bool next; /* after this job */
    uint32_t flush_wanted, flush_begun, flushed;
    uint64_t batch_base, batch_end; /* numbers of the batches held: [base, end) */
    uint32_t done;                  /* bit i: batch_base + i */
    uint64_t checksums[WIRE_BATCH_WINDOW], counts[WIRE_BATCH_WINDOW]; /* where that bit is set */
    uint32_t seen_count;
    WireSeen seen[PHB_MAX_PARAMS];
    char text[512];
} Agent;

void agent_init(Agent *agent, const AgentConfig *config, uint64_t now_ms);
void agent_step(Agent *agent, const AgentEvent *event, uint64_t now_ms, AgentActions *actions);
void agent_compose(Agent *agent, WireType type, WireMessage *message);
uint64_t agent_lease_end(const Agent *agent); /* until then it may write, by the same clock */

#endif
