/* --selfcheck: the job under several plans of one leaf (super-tiles, pods, memory, placement), whose outputs must have the same bits. */
#ifndef PHOBOS_SELFCHECK_H
#define PHOBOS_SELFCHECK_H

#include "runtime/sched/sched.h"

/* Runs the job as its dims stand into its staging files, and publishes nothing. */
typedef bool SelfcheckRun(void *context, const RunOptions *options, Error *error);

/* Outputs must be staged; `memory` is what a pod may hold. Afterwards job and staging files are as they were, but for the files' contents. */
bool selfcheck(Job *job, const RunOptions *options, int64_t memory, SelfcheckRun *run, void *context, Error *error);

#endif
