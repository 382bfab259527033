/* What the files of the scheduler's core share: core.c (phases, messages, time), join.c, deal.c, peers.c. */
#ifndef PHOBOS_CORE_STATE_H
#define PHOBOS_CORE_STATE_H

#include "runtime/sched/core.h"

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
    uint64_t memory; /* bytes for tiles */
    bool knows_peers;
    PodMoved moved;
    uint64_t heard_ms, sent_ms; /* last message in, last state out */
    bool changed;               /* its state must be sent at the end of the step */
    uint64_t seq_in, seq_out;
    uint64_t progress, progress_ms; /* the pod's own counter, and when it last grew or work was given */
    uint64_t batch_base;
    uint32_t batch_count;
    WireBatch batches[WIRE_BATCH_WINDOW];
    uint32_t done; /* bit i: batch_base + i */
    uint64_t units;
} Pod;

/* The units that the placement gives a pod, by their number there: those that nobody holds are among first .. end - 1. */
typedef struct Lane {
    uint64_t first, end;
    uint64_t left; /* so many are */
} Lane;

/* What has become of a unit: nobody holds it; pod number state - 1 does, or has stored it; it is on the disk. */
typedef uint16_t UnitState;
#define UNIT_FREE 0
#define UNIT_POD 0x0fff
#define UNIT_STORED 0x8000
#define UNIT_ON_DISK (UNIT_STORED | UNIT_POD)

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
    UnitState *units;
    uint64_t fetched; /* tensors whose tiles pods fetch from one another: a bit each */
    uint64_t units_done; /* stored */
    int exit_code;
    char text[512]; /* why it ended */
};

SchedAction *sched_act(SchedActions *actions, SchedActionKind kind);
void sched_act_send(SchedActions *actions, uint64_t connection, WireType type);
__attribute__((format(printf, 4, 5))) void sched_act_reject(SchedActions *actions, uint64_t connection, RejectCode code, const char *format, ...);
__attribute__((format(printf, 2, 3))) void sched_act_log(SchedActions *actions, const char *format, ...);
bool sched_pod_live(const Pod *pod);
uint64_t sched_random(SchedCore *core);
/* The job has ended; the first to say why is right. */
__attribute__((format(printf, 4, 5))) void sched_job_over(SchedCore *core, int exit_code, uint64_t now_ms, const char *format, ...);

/* ---- join.c ---- */

/* A pod that is new, connected again, or refused. `sender`: the name that its key proves; NULL: keys are not in use. */
void sched_on_hello(SchedCore *core, uint64_t connection, const Hello *hello, const char *sender, uint64_t now_ms, SchedActions *actions);
/* What a pod sees of the job's files: it may work, or the job fails. */
void sched_on_proof(SchedCore *core, Pod *pod, const Proof *proof, uint64_t now_ms);

/* ---- deal.c ---- */

void sched_deal_begin(SchedCore *core); /* each pod that is there gets a lane */
/* Gives pods batches as long as there is room and work. */
void sched_deal(SchedCore *core, uint64_t now_ms);

/* ---- peers.c ---- */

void sched_choose_fetched(SchedCore *core); /* when lanes are dealt */
void sched_name_peers(const SchedCore *core, const Pod *pod, Peers *peers);

#endif
