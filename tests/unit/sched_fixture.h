/* A scheduler's core under a clock of its own, and pods by number, 1 to 15, whose connections have the same numbers: what its tests begin with. A
 * test may change `config` and `policy`, then begins. */
#ifndef PHOBOS_TESTS_SCHED_FIXTURE_H
#define PHOBOS_TESTS_SCHED_FIXTURE_H

#include "runtime/sched/core.h"

#include <check.h>

extern Welcome job;
extern WireSeen expected[2];
extern SchedConfig config;
extern SchedCore *core;
extern SchedActions actions;          /* of the last step */
extern WireMessage message, composed; /* the last one to it, and the last one from it */
extern uint64_t now;                  /* ms */
extern PlacementPolicy policy;
extern const PhbKernel kernel;

TCase *cases_new(void);                        /* which have the fixture */
int cases_run(const char *name, TCase *cases); /* an exit status */

void begin(void); /* one row of config.units super-tiles */
void step(SchedEvent event);
void wait_ms(uint64_t ms); /* or until the job is over */
/* The first of the last step's; connection or type 0: any. NULL: none. */
const SchedAction *action_of(SchedActionKind kind, uint64_t connection, int type);
const char *end_text(void);
int end_code(void);

/* ---- what a pod says: `message` is filled in, to be changed, and delivered ---- */

extern uint64_t tokens[16], seqs[16];

void deliver(uint64_t connection);
void from_pod(uint64_t pod, WireType type);
void hello(uint64_t pod);
void proof(uint64_t pod);
void pod_state(uint64_t pod, PodPhase phase, uint64_t base, uint32_t done);
void bye(uint64_t pod);

/* ---- what it does ---- */

void join(uint64_t pod);
void join_and_prove(uint64_t pod);
void join_at(uint64_t pod, const char *endpoint, uint64_t memory, DeviceClass class); /* and proves */
/* Batches from the scheduler's base on, a bit each, are stored as a whole. */
void pod_stored(uint64_t pod, uint32_t done);
void pod_stored_all(uint64_t pod);
void pod_flushed(uint64_t pod); /* what it was asked to bring to the disk is there */
/* Runs the job to its end on the pods that have joined: each says at once that all it holds is stored. */
void work(uint64_t pods);
/* Of pods 1 to `pods`, which say that they are there, one says nothing until it is dead. */
void be_silent(uint64_t silent, uint64_t pods);

/* ---- what a pod is told ---- */

const SchedState *state_for(uint64_t pod);
const Peers *peers_for(uint64_t pod);
/* Marks the units that it has, as far as it is told, and counts them. */
uint64_t held_by(uint64_t pod, bool *units);

/* How much memory the tiles that are fetched have: 7 where a pod has 100, else 6. */
extern int64_t asked_memory[4];
extern int asked; /* how often, with what */
void count_asked(void);

#endif
