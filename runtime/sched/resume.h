/* What an earlier run of a job has left beside its outputs: kept, finished, or cleared away. */
#ifndef PHOBOS_RESUME_H
#define PHOBOS_RESUME_H

#include "runtime/sched/audit.h"
#include "runtime/sched/journal.h"
#include "runtime/sched/sched.h"

typedef struct Resume {
    JournalState *state;   /* of the earlier run; NULL: the job begins anew */
    bool published;        /* the outputs are in place: there is nothing to do */
    uint32_t generation;   /* of this run */
    JournalStored *stored; /* after resume_take: batches that are in this run's staging files, and have their checksums */
    size_t stored_count;
    int64_t units;  /* in them; units that stand in several batches count as often */
    char said[512]; /* what is worth saying of it, or "" */
} Resume;

uint64_t job_hash(const Job *job); /* of all that it says, but for @cluster values and what is in its files */

/* Locks the outputs and looks for what an earlier run has left. Where it is `wanted`, a publication that was cut short is finished, and what is
 * stored is kept for resume_take; @cluster values that the job leaves open become those of the earlier run. Else it is removed; a publication that
 * was cut short is then an error. */
bool resume_open(Resume *resume, Job *job, bool wanted, Error *error);
/* After outputs_stage: what the earlier run stored and still is what it was goes into the new staging files; then begins the journal of this run.
 * Whoever still writes to the old files, writes to nothing. `variants`: the leaf of each class of devices, or -1. Units of `audit` are not kept: who
 * computed them is not known any more. */
bool resume_take(Resume *resume, Job *job, const Problem *problem, const int variants[CLASS_COUNT], const AuditChoice *audit, Error *error);
void resume_drop(Resume *resume, const Job *job); /* a job of steps: nothing is kept, the earlier run's staging files go, and that is said */
void resume_close(Resume *resume);

/* The journal of a job whose outputs are staged. */
Journal *resume_begin(const Job *job, int64_t units, const int variants[CLASS_COUNT], const Resume *resume, Error *error);

/* ---- batch.c ---- */

typedef enum BatchResult { BATCH_FINE, BATCH_UNREADABLE, BATCH_UNWRITABLE } BatchResult;

/* The sum over the tiles of so many units as they are in the files that `from` has as old ones, each as Job.tensors; where `to` is not NULL, they are
 * also written to the staging files there. */
BatchResult batch_checksum(const Problem *problem, UnitRange range, const TensorFile *from, const TensorFile *to, uint64_t *checksum, Error *error);

#endif
