/* The scheduler's decisions as a pure state machine: an event and the time in, actions out. No socket, clock, file, thread or global; all memory is
 * taken when it is made. server.c feeds it from ZeroMQ; tests/sim feeds it from virtual time.
 *
 * Units of work are dealt in batches. Each pod that was there at the start owns a lane, the units that the placement gives it; who runs out of its
 * own lane, or came late, is given what is not started of the longest one. A batch is done when the pod says that all of it is stored; only a pod's
 * current incarnation is believed.
 *
 * A pod that is silent, stands still, fails or starts anew is given up for good. What it held, and what it stored and has not brought to the disk for
 * sure, is free again; nothing else is remembered of it, so that a second loss is like the first: what is left to do follows from the units that are
 * stored and the pods that are there. */
#ifndef PHOBOS_SCHED_CORE_H
#define PHOBOS_SCHED_CORE_H

#include "runtime/net/wire.h"
#include "runtime/pod/moved.h"
#include "runtime/sched/audit.h"
#include "runtime/sched/sched.h"

typedef struct SchedConfig {
    uint8_t build_id[16];
    uint8_t job_id[16];
    uint32_t epoch;
    uint64_t units;
    AuditChoice audit;       /* of a job of one step; none of these is stored already */
    const WireBatch *stored; /* units that are on the disk already and not to be done; borrowed, and read by sched_core_new alone */
    size_t stored_count;
    bool begun;              /* what is stored was computed */
    DeviceClass begun_class; /* on this class of devices, */
    int begun_arch;          /* of GPUs of this architecture */
    Placement *placement; /* for max_pods, of as many units; borrowed */
    bool course;          /* a job of several steps: units are a round's, `units` the most of any, and `rounds` of them follow one another */
    uint64_t rounds;
    uint64_t (*round)(void *context, uint64_t round, Placement **placement); /* the units of a round, and their placement */
    const int32_t *step_variants[CLASS_COUNT];                               /* of each step, as `variants`; borrowed */
    uint32_t nodes;       /* begin when so many pods are ready; 0: when none has joined for join_window_ms */
    uint32_t max_pods;
    uint32_t join_window_ms, join_timeout_ms;
    uint32_t heartbeat_ms, lease_ms, dead_ms;
    uint32_t progress_ms; /* a pod that holds work and whose progress stands still for so long is given up */
    uint32_t flush_ms;    /* so often pods bring what they stored to the disk; a loss costs no more than what was stored since; 0: at the end alone */
    uint32_t drain_ms;        /* how long to wait at the end for pods to say goodbye */
    const Welcome *job;       /* kernel, dims, scalars, tensors; the rest is filled in a pod; borrowed */
    int32_t variants[CLASS_COUNT]; /* by DeviceClass: the leaf variant of its pods; -1: the job does not run there, */
    const char *refusals[CLASS_COUNT]; /* and why; borrowed */
    bool speculate;                    /* what a slow pod holds others compute as well */
    bool mixed;               /* pods of several classes may work on the job */
    const WireSeen *expected; /* of each tensor of the job, as the scheduler sees it; borrowed */
    /* Which tensors' tiles the pods of the placement fetch from one another, a bit each, where each has so many bytes for tiles; NULL: none. Pure. */
    uint64_t (*fetched)(void *context, int64_t memory);
    void *context;
} SchedConfig;

typedef enum SchedEventKind {
    SCHED_EVENT_MESSAGE,   /* `message` came over `connection` */
    SCHED_EVENT_TICK,      /* time has passed */
    SCHED_EVENT_PUBLISHED, /* outputs are in place, or `text` says why not */
    SCHED_EVENT_FAILED,    /* the job cannot go on: `text` */
    SCHED_EVENT_STOP,      /* the user wants to end (`text`: how it was said) */
} SchedEventKind;

typedef struct SchedEvent {
    SchedEventKind kind;
    uint64_t connection;
    const WireMessage *message;
    const char *sender; /* MESSAGE: the name that the sender's key has; NULL: keys are not in use */
    bool ok;
    const char *text;
} SchedEvent;

typedef enum SchedActionKind {
    SCHED_ACTION_SEND,    /* compose `type` for `connection` (sched_compose) and send it */
    SCHED_ACTION_FORGET,  /* nothing more will be sent over `connection` */
    SCHED_ACTION_STORED,  /* `batch` is stored, with `checksum`, the sum over its tiles; not on the disk for sure */
    SCHED_ACTION_PUBLISH, /* every unit is stored and flushed: put the outputs in place, then SCHED_EVENT_PUBLISHED */
    SCHED_ACTION_LOG,     /* `text` for the user, a warning or not */
    SCHED_ACTION_FINISH,  /* the process ends with `exit_code`; `text` says why where it is not 0 */
} SchedActionKind;

typedef struct SchedAction {
    SchedActionKind kind;
    uint64_t connection;
    uint16_t type;        /* SEND: WireType */
    uint16_t reject_code; /* SEND of REJECT */
    int exit_code;
    bool warning;    /* LOG */
    bool spoilt;     /* FINISH: what is stored may be wrong, and is not to be kept */
    WireBatch batch; /* STORED */
    uint32_t pod;    /* STORED: whose */
    uint64_t checksum;
    char text[512];
} SchedAction;

/* What one step asks for; bounded by the pods there are: three actions each and a few more. */
typedef struct SchedActions {
    SchedAction *items;
    size_t count, capacity;
} SchedActions;

typedef struct SchedCore SchedCore;

SchedCore *sched_core_new(const SchedConfig *config, uint64_t now_ms, uint64_t random_seed);
void sched_core_free(SchedCore *core);
size_t sched_actions_capacity(const SchedConfig *config);

void sched_step(SchedCore *core, const SchedEvent *event, uint64_t now_ms, SchedActions *actions);

/* NULL, or what of a hello cannot be: its numbers are believed from there on. */
const char *hello_objection(const Hello *hello);

/* The message that a SEND asks for, as the core stands now. False: the pod is gone, nothing is to be sent. */
bool sched_compose(SchedCore *core, const SchedAction *send, WireMessage *message);

bool sched_unit_is_stored(const SchedCore *core, uint64_t unit);

/* What losses of pods have cost. */
typedef struct Recovery {
    uint32_t lost;        /* pods given up while they held work, or something that was not on the disk */
    uint64_t units_again; /* units that were stored, and are done again */
    uint64_t again_ms;    /* of the lost pods' time: as long as they took for those */
    uint64_t detect_ms;   /* the longest time from a lost pod's last word until it was given up */
} Recovery;

const Recovery *sched_recovery(const SchedCore *core);
uint64_t sched_audited(const SchedCore *core); /* units on which two pods agree */
uint32_t sched_fenced(const SchedCore *core);  /* pods that were given up */

bool sched_someone_writes(const SchedCore *core); /* or may: all is stored, and copies of it are to be published */

/* For progress and the summary. */
bool sched_has_begun(const SchedCore *core); /* units have been dealt */
uint64_t sched_units_done(const SchedCore *core);
uint32_t sched_pod_count(const SchedCore *core); /* that ever joined */
const char *sched_pod_node(const SchedCore *core, uint32_t pod);
void sched_pod_class(const SchedCore *core, uint32_t pod, char text[32]); /* as class_describe */
uint64_t sched_pod_units(const SchedCore *core, uint32_t pod);
void sched_pod_device(const SchedCore *core, uint32_t pod, DeviceClass *class, int *arch);
int64_t sched_pod_find(const SchedCore *core, uint64_t token); /* -1: whose there is none */
const PodMoved *sched_pod_moved(const SchedCore *core, uint32_t pod);

#endif
