#define _GNU_SOURCE /* pthread_setname_np */
#include "runtime/thread.h"

#include <errno.h>
#include <signal.h>

bool thread_start(pthread_t *thread, const char *name, void *(*body)(void *), void *context, Error *error) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(thread, NULL, body, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code != 0) {
        errno = code;
        return error_errno(error, "cannot start thread '%s'", name);
    }
    pthread_setname_np(*thread, name);
    return true;
}
