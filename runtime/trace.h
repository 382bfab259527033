/* What pods did and when: --trace=FILE, in Chrome's trace format, which Perfetto opens, too. */
#ifndef PHOBOS_TRACE_H
#define PHOBOS_TRACE_H

#include "runtime/net/wire.h"
#include "runtime/runtime.h"

typedef enum TraceKind { TRACE_LOAD, TRACE_FETCH, TRACE_COPY, TRACE_COMPUTE, TRACE_STORE, TRACE_KINDS } TraceKind;

/* Of one pod, in the order in which they ended. The pod's own thread adds to it. */
typedef struct TraceLog {
    WireEvent *events;
    size_t count, capacity;
} TraceLog;

void trace_add(TraceLog *log, const WireEvent *event);
void trace_drop(TraceLog *log, size_t count); /* the first so many */
void trace_fini(TraceLog *log);

typedef struct TracePod {
    const char *name;
    TraceLog *log;
} TracePod;

/* Begins the file before the job does, so that one that cannot be written, or is a tensor of the job, is known. */
FILE *trace_open(const char *path, const Job *job, Error *error);
/* Writes all that the pods did, a row a pod and kind, more where things of a kind overlapped, and closes the file. Sorts the logs. */
bool trace_write(FILE *file, const char *path, const PhbKernel *kernel, const TracePod *pods, size_t count, Error *error);

#endif
