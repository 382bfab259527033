/* The world that control_sim.c puts the scheduler's core and the pods' agents into: virtual time, a network, processes that die, sleep and start
 * anew, and a file whose tiles are in a host's cache before they are on the disk. */
#ifndef PHOBOS_CONTROL_WORLD_H
#define PHOBOS_CONTROL_WORLD_H

#include "runtime/pod/agent.h"
#include "runtime/sched/core.h"

enum { MAX_PODS = 6, LIVES = 8, MAX_UNITS = 160, MAX_STEPS = 3, MAX_BATCHES = 4096, TICK_MS = 100, SCHEDULER = -1, FETCHED = 5 };

/* ---- chance ---- */

typedef struct Random {
    uint64_t state;
} Random;

uint64_t draw(Random *random);
uint64_t draw_below(Random *random, uint64_t bound);
bool draw_chance(Random *random, unsigned percent);

/* ---- what happens ---- */

typedef enum HappeningKind {
    FRAME_ARRIVES,
    TICK,
    UNIT_ENDS,  /* it is computed */
    STORE_ENDS, /* its tiles are in the file */
    PROOF_READY,
    FLUSH_ENDS,
    PUBLISH_ENDS,
    POD_STARTS, /* a process, under the same node's name */
    POD_DIES,
    HOST_DIES,    /* and with it what the disk has not got */
    POD_SLEEPS,   /* for `span_ms`: all that comes waits */
    POD_LEAVES,   /* SIGTERM */
    POD_FAILS,    /* a store gives an error */
    POD_CONNECTS, /* anew */
    LINK_BREAKS,  /* for `span_ms`, `way` 0 to the pod, 1 from it */
    SCHED_DIES,
    SCHED_STARTS, /* from its journal */
} HappeningKind;

typedef struct Happening {
    uint64_t at_ms, order;
    HappeningKind kind;
    int to;              /* a pod, or SCHEDULER */
    uint64_t connection; /* FRAME_ARRIVES at the scheduler: whence */
    uint64_t life;       /* of a pod: what was meant for an earlier process is lost; 0: for whichever there is */
    uint64_t span_ms;
    int way;
    uint64_t turn; /* of what a pod works on */
    bool spoilt;   /* the frame, on its way */
    uint8_t *frame;
    size_t length;
} Happening;

/* A batch at work. Pods end batches in any order. */
typedef struct Work {
    WireBatch batch;
    uint64_t number, next; /* next: units that are stored */
} Work;

typedef enum Doing { DOING_NOTHING, DOING_READ, DOING_COMPUTE, DOING_WAIT, DOING_STORE } Doing; /* READ: waits for other pods; WAIT: for a lease */

typedef struct SimPod {
    bool alive;
    uint64_t life, line; /* line: connections of this process */
    Agent agent;
    uint64_t sleeps_until_ms;
    Work work[WIRE_BATCH_WINDOW];
    int work_count, at_work; /* at_work: the batch whose unit is worked on */
    Doing doing;
    bool draining, failed, has_peers;
    uint64_t flush_order; /* what was written before is on the disk when the flush ends */
    uint64_t units, unit_ms;
    bool is_restarted;        /* somebody starts it again when it ends */
    bool known;               /* this process was welcomed, and not forgotten since */
    bool given[LIVES][MAX_UNITS]; /* to this process and those before it, by `life` */
    uint64_t broken_until_ms[2];
    int dropped[2]; /* frames lost in a row, to the pod and from it */
    /* Of a job of rounds: with which pods it works, by the epochs of scheduler and plan (0: none), the round at hand, and by tile who computes it and
     * 1 + the round of what lives here. `turn` counts how often what was under way was given up. */
    uint64_t joined, round, turn;
    int homes[MAX_UNITS];
    uint64_t kept[MAX_UNITS];
} SimPod;

/* A unit's tiles: whole and right in the cache of a pod's host, or on the disk. Whoever writes them writes the same, so that what is right once stays
 * right, whoever else writes there and is torn away. */
typedef struct SimUnit {
    uint64_t cached[MAX_PODS]; /* Sim.order when it was written there; 0: it is not */
    bool on_disk;
    bool wrong;                      /* who wrote it last computed it wrongly */
    uint32_t computed;               /* by these nodes, stored or not; a bit each */
    uint32_t computed_wrong, stored; /* by these wrongly, and stored by these */
    int runs, lost_with;             /* so many lost pods held it */
} SimUnit;

/* Of a job of rounds. Its tiles are those of all steps, `first` and those after it of this one. */
typedef struct SimStep {
    Problem problem;
    Placement *dealt; /* the scheduler's */
    uint64_t first;
} SimStep;

typedef struct Sim {
    Random random;
    uint64_t seed;
    bool verbose;
    uint64_t now_ms, order;
    Happening *heap;
    size_t heap_count, heap_capacity;
    Problem problem; /* as far as its super-tiles go */
    SchedConfig config;
    SimStep steps[MAX_STEPS];
    int step_count;
    uint64_t tiles;  /* that are to be on the disk */
    SchedCore *core; /* NULL: it has died */
    SchedActions actions;
    uint64_t sched_line; /* what was sent by an earlier scheduler's connection is lost */
    WireBatch *journal;
    size_t journal_count;
    SimPod pods[MAX_PODS];
    int pod_count;
    unsigned drop, repeat;   /* per cent of the frames; some of the dropped ones come, with a bit changed */
    uint64_t delay_ms;       /* at most */
    int drop_run;            /* frames lost in a row on a link, at most */
    uint64_t heal_ms;        /* from then on the network is well */
    bool harmed, some_leave; /* pods may be lost, so that units run twice */
    bool calm;               /* none is by what the schedule has drawn, but for what brings down who computes it */
    int wrong_pod;           /* computes every so many units wrongly; SCHEDULER: none does */
    uint64_t wrong_every;
    uint32_t slow;           /* nodes that the scheduler has said to be slow: what they hold may be copied */
    uint32_t fenced;         /* by the core that lives */
    uint64_t poison;         /* this unit, of a job of rounds in this round, brings down who computes it; UINT64_MAX: none does */
    uint64_t poison_round;
    int brought_down; /* by it, of those that the core that lives knows */
    SimUnit units[MAX_UNITS];
    bool published, in_place; /* in_place: pods that still write would write to what is published */
    bool finished, resumed;
    int exit_code;
    char text[512];
    const char *violation;
} Sim;

extern Welcome sim_job;
extern WireSeen sim_expected[PHB_MAX_PARAMS];

void push(Sim *sim, Happening happening);
Happening pop(Sim *sim);
void later(Sim *sim, uint64_t delay_ms, HappeningKind kind, int to);
void happen(Sim *sim, Happening *happening);
void sched_start(Sim *sim); /* by sim->config */

/* ---- control_rounds.c ---- */

void rounds_draw(Sim *sim);
void rounds_free(Sim *sim);
uint64_t rounds_units(const Sim *sim, uint64_t round);
SimUnit *rounds_tile(Sim *sim, uint64_t round, uint64_t unit); /* NULL: it does not go to the disk */
void rounds_join(Sim *sim, int index, const Peers *peers);
bool rounds_enter(Sim *sim, int index, const WireBatch *batch); /* what a pod is given; false: it cannot be */
bool rounds_read(Sim *sim, int index, uint64_t unit);           /* false: what it needs is not to be had yet */
void rounds_computed(Sim *sim, int index, uint64_t unit);

__attribute__((format(printf, 2, 3))) void say(const Sim *sim, const char *format, ...);
void violated(Sim *sim, const char *rule);

#endif
