/* --audit: which of a job's units are computed a second time. Drawn from the job and a seed, so that the same command takes the same units. */
#ifndef PHOBOS_AUDIT_H
#define PHOBOS_AUDIT_H

#include "runtime/runtime.h"

typedef struct AuditChoice {
    bool wanted;
    uint64_t key;
    uint64_t share;  /* of 2^64 */
    uint64_t always; /* this unit in any case */
} AuditChoice;

/* False where the job has several steps: what one leaves to the next is overwritten, and cannot be computed again. */
bool audit_can(const Job *job, const AuditOptions *options, Error *error);
AuditChoice audit_choose(const AuditOptions *options, uint64_t job_hash, int64_t units);
bool audit_picks(const AuditChoice *choice, uint64_t unit);

#endif
