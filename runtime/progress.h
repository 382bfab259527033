/* How far a job is, for whom watches: a bar that redraws itself, lines, or JSON for programs. */
#ifndef PHOBOS_PROGRESS_H
#define PHOBOS_PROGRESS_H

#include "runtime/runtime.h"

typedef struct Progress {
    ProgressMode mode; /* never AUTO */
    FILE *out;
    const char *what;    /* the kernel's name */
    int64_t total;       /* units */
    double begun, shown; /* seconds */
    int64_t last;        /* units at the last showing, or -1 */
    uint64_t bytes;      /* moved so far */
} Progress;

/* AUTO is a bar on a terminal and lines elsewhere. */
void progress_begin(Progress *progress, ProgressMode mode, FILE *out, const char *what, int64_t total);
/* What was loaded, fetched and stored so far, to be shown with the units that follow. */
void progress_moved(Progress *progress, uint64_t bytes);
/* Shows `done` if it is time to: may be called as often as one likes. */
void progress_update(Progress *progress, int64_t done);
/* Shows where it ended and leaves the line. */
void progress_end(Progress *progress, int64_t done);
double progress_seconds(const Progress *progress); /* since the begin */

#endif
