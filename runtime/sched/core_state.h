/* What the files of the scheduler's core share: core.c (phases, messages, time), join.c, deal.c, audit.c, slow.c, loss.c, disk.c, peers.c,
 * rounds.c. */
#ifndef PHOBOS_CORE_STATE_H
#define PHOBOS_CORE_STATE_H

#include "runtime/sched/core.h"

typedef enum PodStage {
    STAGE_JOINED,  /* welcomed; its proof is awaited */
    STAGE_READY,   /* sees the job's files; may hold work */
    STAGE_LEAVING, /* is given no more, and ends what it has begun */
    STAGE_GONE,    /* said goodbye, or was given up */
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
    uint32_t lane;   /* or NO_LANE */
    uint32_t plan_epoch; /* of the PEERS that it knows; 0: none */
    PodMoved moved;
    uint64_t heard_ms, sent_ms; /* last message in, last state out */
    bool changed;               /* its state must be sent at the end of the step */
    uint64_t seq_in, seq_out;
    uint64_t progress, progress_ms; /* the pod's own counter, and when it last grew or work was given */
    uint64_t begun_ms;              /* when it was first given work */
    uint64_t busy_ms, worked_ms;    /* since when it has some, and how long it had some before */
    uint64_t pace_ms;               /* when it had computed something last, or was given work */
    bool slow;                      /* and said to be */
    uint64_t mark_ms, mark_units;   /* its pace is taken from here on: of its time at work, and of what it had computed */
    uint64_t batch_base;
    uint32_t batch_count;
    WireBatch batches[WIRE_BATCH_WINDOW];
    uint32_t done; /* bit i: batch_base + i */
    uint64_t computed; /* by its own count, also of what is not stored as a whole yet, */
    uint64_t counted;  /* and of that, what batches that are done account for */
    uint64_t units;    /* stored, and neither lost nor done by another one */
    /* Of those, and of what it stored in earlier rounds, the ones that are not on the disk for sure: stored since it was last asked to flush, and
     * those that it was asked for. */
    uint64_t fresh, asked;
    uint32_t flush, flushed; /* the number that it was asked with last, and up to which it has answered */
    uint64_t flush_ms;       /* when it was asked */
    bool asking;             /* now, in disk.c */
    uint64_t first_audit, last_audit, audit_count; /* of units that it stored and another pod is to compute again */
} Pod;

#define NO_LANE UINT32_MAX
#define NO_UNIT UINT64_MAX

/* The units that the placement gives a pod, by their number there: those that nobody holds are among first .. end - 1. */
typedef struct Lane {
    uint64_t first, end;
    uint64_t left; /* so many are */
    bool owned;    /* by a pod that is there */
} Lane;

/* What has become of a unit: nobody holds it; pod number state - 1 does, or has stored it; it is on the disk. */
typedef uint16_t UnitState;
#define UNIT_FREE 0
#define UNIT_POD 0x3fff
#define UNIT_ASKED 0x4000  /* stored: its pod was asked to flush since then */
#define UNIT_COPIED 0x4000 /* not stored: another pod computes it, too */
#define UNIT_STORED 0x8000
#define UNIT_ON_DISK 0xffff

/* What --audit has come to with a unit. */
typedef enum AuditStage {
    AUDIT_NONE,    /* it is computed once */
    AUDIT_AWAITED, /* it is not stored */
    AUDIT_LISTED,  /* among those of the pod that stored it */
    AUDIT_GIVEN,   /* another pod computes it again */
    AUDIT_AGREED,
} AuditStage;

typedef struct Audit {
    uint64_t checksum;            /* as it is stored */
    uint64_t next;                /* LISTED: or NO_UNIT */
    uint16_t stored_by, given_to; /* pods */
    uint8_t stage;
} Audit;

/* So many pods that held a unit when they were lost, the last of them nothing but that: then it is the unit's fault. */
enum { POISON = 3 };

typedef enum Phase { PHASE_JOINING, PHASE_RUNNING, PHASE_PUBLISHING, PHASE_OVER, PHASE_ENDED } Phase;

struct SchedCore {
    SchedConfig config;
    Phase phase;
    uint64_t start_ms, joined_ms, over_ms;
    uint64_t flush_ms; /* when all pods were last asked to flush */
    uint64_t empty_ms; /* when the last pod left; 0: some are there */
    uint64_t random;
    Pod *pods;
    uint32_t pod_count;
    Lane *lanes; /* one a pod that was there at the start */
    uint32_t lane_count;
    uint64_t left; /* units that nobody holds, in all lanes */
    uint64_t round, earlier; /* of a course; units of the rounds before it */
    uint64_t lost_round;     /* in which pods were lost last, */
    uint32_t lost_there;     /* and how often in a row */
    UnitState *units;
    uint8_t *suspicion; /* of each unit: lost pods that held it */
    Audit *audits;      /* of each unit; NULL: none is wanted */
    uint64_t audits_left, audits_listed;
    uint64_t alone_ms; /* since when nobody is there for those that are listed; 0: somebody is */
    bool spoilt;       /* two pods do not agree */
    uint64_t fetched; /* tensors whose tiles pods fetch from one another: a bit each */
    uint64_t units_done, on_disk; /* stored; for sure */
    uint32_t plan_epoch;          /* 1, and one more at each loss */
    uint32_t fenced;
    bool lost_at_work; /* some of these had been given work */
    Recovery recovery;
    int exit_code;
    char text[512]; /* why it ended */
};

SchedAction *sched_act(SchedActions *actions, SchedActionKind kind);
void sched_act_send(SchedActions *actions, uint64_t connection, WireType type);
__attribute__((format(printf, 4, 5))) void sched_act_reject(SchedActions *actions, uint64_t connection, RejectCode code, const char *format, ...);
__attribute__((format(printf, 2, 3))) void sched_act_log(SchedActions *actions, const char *format, ...);
__attribute__((format(printf, 2, 3))) void sched_act_warn(SchedActions *actions, const char *format, ...);
bool sched_pod_live(const Pod *pod);
bool sched_pod_has_left(const Pod *pod); /* it wants to, and nothing keeps it */
uint64_t sched_random(SchedCore *core);
/* The job has ended; the first to say why is right. */
__attribute__((format(printf, 4, 5))) void sched_job_over(SchedCore *core, int exit_code, uint64_t now_ms, const char *format, ...);

/* ---- join.c ---- */

/* A pod that is new, connected again, or refused. `sender`: the name that its key proves; NULL: keys are not in use. */
void sched_on_hello(SchedCore *core, uint64_t connection, const Hello *hello, const char *sender, uint64_t now_ms, SchedActions *actions);
/* What a pod sees of the job's files: it may work, or the job fails. */
void sched_on_proof(SchedCore *core, Pod *pod, const Proof *proof, uint64_t now_ms, SchedActions *actions);

void sched_change_all(SchedCore *core); /* every pod is sent its state */

/* ---- deal.c ---- */

void sched_deal_begin(SchedCore *core); /* each pod that is there gets a lane */
void sched_deal_join(SchedCore *core, Pod *pod); /* one that comes later takes over that of one that has gone */
/* Units have become free: they are looked for from the start of each lane. */
void sched_deal_anew(SchedCore *core);
/* Gives pods batches as long as there is room and work. */
void sched_deal(SchedCore *core, uint64_t now_ms);

/* ---- audit.c ---- */

void sched_audit_begin(SchedCore *core);
bool sched_is_audited(const SchedCore *core, uint64_t unit); /* such a unit is a batch of its own */
void sched_audit_stored(SchedCore *core, const Pod *pod, uint64_t unit, uint64_t checksum);
bool sched_take_audit(SchedCore *core, Pod *pod, WireBatch *batch); /* false: there is none for this pod now */
void sched_audit_back(SchedCore *core, const Pod *pod, const WireBatch *batch);
void sched_audit_done(SchedCore *core, const Pod *pod, const WireBatch *batch, uint64_t checksum, uint64_t now_ms);
void sched_audit_freed(SchedCore *core, uint64_t unit); /* it is not stored any more */
void sched_audit_lose(SchedCore *core, Pod *pod);       /* after its units were freed: what it was given goes to others */
void sched_find_alone(SchedCore *core, uint64_t now_ms, SchedActions *actions);

/* ---- slow.c ---- */

void sched_find_slow(SchedCore *core, uint64_t now_ms, SchedActions *actions);
/* For a pod that has nothing to do, units that a slow one holds. */
bool sched_take_copy(SchedCore *core, const Pod *pod, WireBatch *batch);
bool sched_pod_holds(const Pod *pod, uint64_t unit); /* to be stored, and has not said that it is */
/* A unit that the pod held and does no more: where it is a copy, it may be copied again. */
void sched_copy_back(SchedCore *core, const Pod *pod, uint64_t unit);
/* Whose a unit is that `but` does not store: who computes it, too, or nobody's. */
UnitState sched_holder(const SchedCore *core, const Pod *but, uint64_t unit);

/* ---- rounds.c: jobs of several steps ---- */

void sched_begin_rounds(SchedCore *core); /* each pod that can work gets a lane, in all rounds */
/* Goes to the next round as often as one is done. */
void sched_next_rounds(SchedCore *core, uint64_t now_ms);
bool sched_last_round(const SchedCore *core);
/* A pod is lost in this round: true, where that happened in it too often, one after another. */
bool sched_round_is_to_blame(SchedCore *core);
/* What lived in a pod that is there no more is lost: from the first round on, with those that are there now. */
void sched_begin_again(SchedCore *core, SchedActions *actions);

/* ---- loss.c ---- */

/* Gives a pod up. `format` says what became of it: "has not been heard for 10 s". */
__attribute__((format(printf, 5, 6))) void sched_lose(SchedCore *core, Pod *pod, uint64_t now_ms, SchedActions *actions, const char *format, ...);
/* Looks for pods that are silent or stand still. */
void sched_find_lost(SchedCore *core, uint64_t now_ms, SchedActions *actions);
/* A pod that has gone on purpose, with nothing held. */
void sched_let_go(SchedCore *core, Pod *pod, SchedActions *actions);

/* ---- disk.c ---- */

/* Asks pods to flush: all at times, one that leaves, and at the end whoever has stored something since. */
void sched_ask_flush(SchedCore *core, uint64_t now_ms);
void sched_on_flushed(SchedCore *core, Pod *pod, uint32_t flushed);
bool sched_all_on_disk(const SchedCore *core); /* every unit, and what else pods have stored */

/* ---- peers.c ---- */

void sched_choose_fetched(SchedCore *core); /* when lanes are dealt */
void sched_name_peers(const SchedCore *core, const Pod *pod, Peers *peers);

#endif
