#include "runtime/task.h"
#include "runtime/clock.h"
#include "runtime/thread.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct Task {
    pthread_t thread;
    TaskRun *run;
    void *context;
    int fd;
    bool fine; /* written by the thread, read after it was joined */
    Error error;
};

static void *task_main(void *argument) {
    Task *task = argument;
    task->fine = task->run(task->context, &task->error);
    uint64_t one = 1;
    ssize_t written = write(task->fd, &one, sizeof one); /* a new eventfd takes it */
    (void)written;
    return NULL;
}

Task *task_start(TaskRun *run, void *context, Error *error) {
    Task *task = new_zeroed(1, sizeof *task);
    task->run = run;
    task->context = context;
    task->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (task->fd < 0)
        error_errno(error, "cannot make an event descriptor");
    else if (thread_start(&task->thread, "task", task_main, task, error))
        return task;
    else
        close(task->fd);
    free(task);
    return NULL;
}

int task_fd(const Task *task) {
    return task->fd;
}

bool task_ends(const Task *task, uint64_t until_ms) {
    uint64_t now_ms = clock_ms();
    return poll(&(struct pollfd){.fd = task->fd, .events = POLLIN}, 1, until_ms > now_ms ? (int)(until_ms - now_ms) : 0) > 0;
}

bool task_end(Task *task, Error *error) {
    pthread_join(task->thread, NULL);
    bool fine = task->fine;
    if (!fine)
        *error = task->error;
    close(task->fd);
    free(task);
    return fine;
}
