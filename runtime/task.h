/* One function on a thread of its own, for what may block while a socket's owner must go on: proving files, flushing, publishing. */
#ifndef PHOBOS_TASK_H
#define PHOBOS_TASK_H

#include "runtime/runtime.h"

typedef bool TaskRun(void *context, Error *error);

typedef struct Task Task;

/* NULL where no thread can be had. `context` stays the caller's and as it is until task_end. */
Task *task_start(TaskRun *run, void *context, Error *error);
int task_fd(const Task *task); /* readable once it has ended */
bool task_ends(const Task *task, uint64_t until_ms); /* waits for that at most until then, by clock_ms */
/* Waits, frees the task, and gives what it gave. */
bool task_end(Task *task, Error *error);

#endif
