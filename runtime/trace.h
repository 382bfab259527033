/* What pods did and when: --trace=FILE, in Chrome's trace format, which Perfetto opens, too, or as an SVG. */
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

/* Things of a kind that overlap go to different rows: the first that is free. */
enum { TRACE_MAX_ROWS = 64 }; /* of a kind, of a pod */

typedef struct TraceRows {
    uint64_t busy[TRACE_KINDS][TRACE_MAX_ROWS]; /* until when */
} TraceRows;

/* The row of the next event of a sorted log; -1: it makes no sense, which may be as it comes from a pod. */
int trace_row(TraceRows *rows, const WireEvent *event);
const char *trace_kind_name(int kind);
void trace_sort(const TracePod *pods, size_t count); /* each log by when things began */
/* trace_svg.c: sorted logs as a picture. */
void trace_draw(FILE *out, const PhbKernel *kernel, const TracePod *pods, size_t count);

/* Begins the file before the job does, so that one that cannot be written, or is a tensor of the job, is known. */
FILE *trace_open(const char *path, const Job *job, Error *error);
/* Writes all that the pods did, a row a pod and kind, more where things of a kind overlapped, and closes the file; as a picture where the path ends
 * in ".svg". Sorts the logs. */
bool trace_write(FILE *file, const char *path, const PhbKernel *kernel, const TracePod *pods, size_t count, Error *error);

#endif
