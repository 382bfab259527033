/* --role=doctor: stands where a scheduler would and has the pods that come try every way that a job needs. */
#ifndef PHOBOS_SCHED_DOCTOR_H
#define PHOBOS_SCHED_DOCTOR_H

#include "runtime/net/keys.h"

typedef struct DoctorOptions {
    const char *listen; /* NULL: DEFAULT_SCHED_ENDPOINT */
    int nodes;          /* 0: whoever comes within the join window */
    int join_window_ms, join_timeout_ms;
    bool insecure;
    const Keys *keys; /* borrowed; NULL: whoever connects is let in */
    LogLevel log;
} DoctorOptions;

/* Waits for pods; says on stdout who reaches whom and how fast, and what each sees of the job's files (NULL: no job). An exit code: EXIT_FAILED where
 * anything fails. */
int doctor_serve(const PhbProgram *program, const Job *job, const DoctorOptions *options);

#endif
