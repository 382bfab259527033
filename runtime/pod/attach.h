/* A job as a pod has it: from the scheduler's welcome, with the files opened here. */
#ifndef PHOBOS_POD_ATTACH_H
#define PHOBOS_POD_ATTACH_H

#include "runtime/net/wire.h"
#include "runtime/sched/sched.h"

/* Puts the scheduler's job into a welcome; `variant` is the leaf's. False where a path is too long to travel. */
bool job_describe(const Job *job, int variant, Welcome *welcome, Error *error);

/* The same job, with its files opened as they are here; NULL where the welcome does not fit the program, or a file is outside of `roots` (NULL: anywhere). `seen` gets an entry a tensor: what could
 * not be opened stands in it, for the scheduler to compare. To be freed by job_free, which leaves the scheduler's staging files alone. */
Job *job_attach(const PhbProgram *program, const Welcome *welcome, const Roots *roots, WireSeen *seen, Error *error);

/* Whether the tensors of a step are as large as its dims say: a welcome has both. */
bool job_has_shapes(const Job *job, int step, const Problem *problem, Error *error);

/* attach_steps.c: the same for what a job of several steps has of them. */
bool steps_describe(const Job *job, Welcome *welcome, Error *error);
bool steps_fit(const PhbProgram *program, const Welcome *welcome);
/* Of a welcome that fits: the sequence, and what the job is as a whole. */
void steps_attach(const PhbProgram *program, const Welcome *welcome, Job *job);

_Static_assert(WIRE_MAX_STEPS == JOB_MAX_STEPS, "every step travels");

#endif
