/* The journal of a job that runs in this process: what of an earlier run is kept, and what its pods store. */
#ifndef PHOBOS_KEEP_H
#define PHOBOS_KEEP_H

#include "runtime/device/device.h"
#include "runtime/sched/course.h"
#include "runtime/sched/resume.h"

#include <pthread.h>

typedef struct Keep {
    Job *job;
    const RunOptions *options;
    const Course *course;     /* of a job of one round batches of units are journaled, of any other nothing before it is published */
    const DeviceSet *devices; /* borrowed, as those above */
    Resume resume;
    bool *stored;          /* by unit: it need not be done; NULL: none is */
    pthread_mutex_t mutex; /* guards the job's journal, and */
    bool failed;           /* it takes no more, as was said */
} Keep;

/* Locks the outputs, and looks for an earlier run: keep->resume. */
bool keep_open(Keep *keep, Job *job, const RunOptions *options, Error *error);
/* The outputs are staged: takes what is to be kept, and begins the journal if one is wanted. */
bool keep_take(Keep *keep, const Course *course, const DeviceSet *devices, const AuditChoice *audit, Error *error);
bool keep_journals(const Keep *keep); /* batches are wanted */
/* Of a range the first units that are to be done, maybe none; *passed counts those before them as well. */
UnitRange keep_missing(const Keep *keep, UnitRange range, int64_t *passed);
void keep_batch(Keep *keep, UnitRange range, uint64_t checksum); /* of any thread */
bool keep_publish(Keep *keep, Error *error);
void keep_close(Keep *keep);

#endif
