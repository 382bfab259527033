/* Threads of the runtime. They take none of the process's signals, so that handlers run where the program expects them. */
#ifndef PHOBOS_THREAD_H
#define PHOBOS_THREAD_H

#include "runtime/runtime.h"

#include <pthread.h>

/* `name`, at most 15 characters, is what debuggers show. */
bool thread_start(pthread_t *thread, const char *name, void *(*body)(void *), void *context, Error *error);

#endif
