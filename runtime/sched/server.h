/* --role=sched: the shell around core.c. One thread owns the socket and the core; files are staged before and published on a thread of their own. */
#ifndef PHOBOS_SCHED_SERVER_H
#define PHOBOS_SCHED_SERVER_H

#include "runtime/net/keys.h"

typedef struct ServeOptions {
    const char *listen; /* NULL: DEFAULT_SCHED_ENDPOINT */
    int nodes;          /* 0: whoever comes within the join window */
    int join_window_ms, join_timeout_ms;
    int deadline_ms; /* a pod not heard for so long is dead */
    bool insecure;
    const Keys *keys; /* borrowed; NULL: whoever connects is let in */
    PlanOptions plan; /* memory: of each pod, 0 as much as it has */
    bool mixed; /* pods of several device classes may work on the job */
    AuditOptions audit;
    bool speculate; /* what a slow pod holds others compute as well */
    ProgressMode progress;
    LogLevel log;
    bool keep_staging;
    bool resume;       /* go on from the journal of an earlier run, if there is one */
    const char *trace; /* file for what pods did, or NULL */
} ServeOptions;

int sched_serve(Job *job, const ServeOptions *options); /* an exit code; messages on stderr */

#endif
