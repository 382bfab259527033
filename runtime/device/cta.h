/* CTAs as fibers, a thread-block cluster at a time: what the CPU device and the simulator share. Whoever runs clusters owns a CtaRunner; all of it
 * belongs to one system thread at a time. */
#ifndef PHOBOS_CTA_H
#define PHOBOS_CTA_H

#include "runtime/device/fiber.h"

#define HOOK(name, result, parameters) result name parameters;
#include "runtime/hooks.def"
#undef HOOK

enum { WARP_LANES = 32, CTA_MAX_THREADS = 1024, CLUSTER_MAX_CTAS = 16 };

typedef struct Cta Cta;
typedef struct CtaRunner CtaRunner;

typedef enum ThreadState {
    THREAD_RUNS, /* or is ready to */
    THREAD_IN_WARP,
    THREAD_IN_GROUP, /* of four warps */
    THREAD_IN_MBARRIER,
    THREAD_IN_STORE,
    THREAD_IN_BLOCK,
    THREAD_IN_CLUSTER,
    THREAD_ENDED
} ThreadState;

typedef struct CtaThread {
    PhbSimtThread code; /* first: hooks are handed this */
    Fiber fiber;
    Cta *cta;
    ThreadState state;
    bool started;
    const char *op; /* the operation it waits in, or was last in */
    uint64_t site;
    uint32_t arrives, waits; /* of the cluster's phases */
    uint64_t arrive_site;    /* of the last arrive */
} CtaThread;

/* An operation that some threads have come to, and the first of them. */
typedef struct Meeting {
    int arrived;
    const CtaThread *first;
    const char *op;
    uint64_t site;
} Meeting;

/* Values are handed over in one of two arrays, in turn: when the next operation is complete, everybody has read the last one's. */
typedef struct CtaWarp {
    Meeting meeting;
    int turn;
    uint64_t values[2][WARP_LANES];
} CtaWarp;

struct Cta {
    CtaRunner *runner;
    int rank;
    CtaThread *threads;
    CtaWarp *warps;
    Meeting meeting;
    int ended;
    const CtaThread *peer; /* of another CTA: who reached for this one's memory in the latest phase, NULL: nobody */
    uint32_t peer_arrives;
    uint64_t peer_site;
    uint32_t barriers; /* passed */
    char *shared;
};

typedef enum ElectedLane { ELECT_LOW, ELECT_HIGH, ELECT_RANDOM } ElectedLane;

/* How runs of clusters go, and what messages call things. */
typedef struct CtaSetup {
    const char *kernel, *file; /* file: NULL where it is not known */
    int threads;               /* a CTA */
    int64_t shared;            /* bytes a CTA */
    int32_t size[3];           /* CTAs of a cluster, */
    int64_t launched;          /* and of the launch, where they stay */
    bool shuffle;              /* an order of threads drawn from `seed`; else the ascending one */
    uint64_t seed;
    ElectedLane elect;
    void *context;                      /* the simulator's memory */
    void (*ends)(CtaThread *thread);    /* a thread's code has returned; NULL: nothing is to be done */
    bool (*advance)(CtaRunner *runner); /* does one thing that goes on behind the threads' backs; false: there is none. NULL: there never is */
} CtaSetup;

typedef enum Pick { PICK_OLDEST, PICK_NEWEST, PICK_ANY, PICK_MIXED } Pick;

struct CtaRunner {
    CtaSetup setup;
    int ctas, most_ctas; /* of a cluster; that there is room for */
    Cta *cta;            /* as many */
    CtaThread *thread;   /* of all of them */
    CtaWarp *warps;
    FiberStacks stacks;
    Fiber system;      /* whoever called runner_run */
    CtaThread **ready; /* a ring of ready_mask + 1 */
    uint32_t ready_mask, ready_first, ready_count;
    Pick pick;
    uint64_t random;

    PhbSimtRun *run;
    const PhbLaunch *launch;
    Meeting meeting;  /* the cluster's phase under way */
    uint32_t phase;   /* phases that are complete */
    uint8_t *relaxed; /* of each phase begun: whether its arrives publish nothing */
    uint32_t relaxed_capacity;
    int ended; /* threads */
    bool failed;
    Error error;
};

/* Takes what clusters of this setup need, and keeps it while the next setup asks for no more. A zeroed runner is a new one. */
bool runner_prepare(CtaRunner *runner, const CtaSetup *setup, Error *error);
void runner_fini(CtaRunner *runner);
/* Runs thread-block cluster `cluster` of the launch, numbered x fastest among clusters. shared: that of the first CTA; the others' follow at steps of
 * runner_shared_step. */
bool runner_run(CtaRunner *runner, PhbSimtRun *run, const PhbLaunch *launch, int64_t cluster, char *shared, Error *error);
int64_t runner_shared_step(int64_t shared);

/* What threads wait for, for hooks of the simulator's. `op`: a string that stays. */
CtaThread *cta_enter(PhbSimtThread *code, const char *op, uint64_t site);
/* Comes to a meeting of `count` threads. True: as the last one; the others wait in `state` until it releases them. */
bool cta_meet(CtaThread *thread, Meeting *meeting, int count, ThreadState state);
void cta_release(CtaThread *threads, int count, ThreadState state, CtaThread *last);
void cta_pause(CtaThread *thread, ThreadState state); /* until somebody wakes it */
void cta_wake(CtaThread *thread);

/* Makes the launch fail on behalf of `thread`, which does not go on. `text` begins after "kernel 'k': FILE:LINE:COLUMN: ". */
_Noreturn void thread_trap(CtaThread *thread, uint64_t site, const char *format, ...) __attribute__((format(printf, 3, 4)));
_Noreturn void thread_trap_text(CtaThread *thread, uint64_t site, char *text); /* uses up `text` */
uint64_t runner_random(CtaRunner *runner);

/* ---- cta_report.c: who waits where ---- */

int site_line(uint64_t site);
int site_column(uint64_t site);
/* `thread` is about to be the end of all progress, or has come to another operation than the rest. */
_Noreturn void report_stuck(CtaRunner *runner, CtaThread *thread);
_Noreturn void report_differing(CtaThread *thread, const Meeting *meeting);

/* ---- cta_range.c ---- */

/* What made a call of phb_cta_range on this system thread fail, if one did since this was last asked. */
bool cta_take_failure(Error *error);

#endif
