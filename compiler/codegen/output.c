/* Files under construction. What a signal handler needs lies in static storage; signals are blocked while it changes. */
#define _GNU_SOURCE /* mkostemps */
#include "compiler/codegen/codegen.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_PENDING 8

static const int ending_signals[] = {SIGHUP, SIGINT, SIGTERM};
#define ENDING_COUNT (sizeof ending_signals / sizeof *ending_signals)

static char pending[MAX_PENDING][PATH_MAX]; /* temporaries that exist; "" is a free place */
static volatile sig_atomic_t child;

static void clean_up_and_die(int number) {
    if (child > 0)
        kill((pid_t)child, SIGKILL);
    for (int i = 0; i < MAX_PENDING; i++)
        if (pending[i][0])
            unlink(pending[i]);
    signal(number, SIG_DFL);
    raise(number);
}

static void ending_set(sigset_t *set) {
    sigemptyset(set);
    for (size_t i = 0; i < ENDING_COUNT; i++)
        sigaddset(set, ending_signals[i]);
}

void output_catch_signals(void) {
    struct sigaction action = {.sa_handler = clean_up_and_die};
    ending_set(&action.sa_mask);
    for (size_t i = 0; i < ENDING_COUNT; i++) {
        struct sigaction old;
        if (sigaction(ending_signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(ending_signals[i], &action, NULL);
    }
}

void output_set_child(int pid) {
    child = pid;
}

/* ---- temporaries ---- */

static mode_t default_mode(void) {
    mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

/* Creates the file that `name`, ending in XXXXXX and `suffix_length` bytes, stands for, and notes it. -1: errno. */
static int make_temporary(char *name, size_t suffix_length) {
    int place = 0;
    while (place < MAX_PENDING && pending[place][0])
        place++;
    if (place == MAX_PENDING || strlen(name) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    sigset_t set, old;
    ending_set(&set);
    sigprocmask(SIG_BLOCK, &set, &old);
    int fd = mkostemps(name, (int)suffix_length, O_CLOEXEC);
    if (fd >= 0)
        memcpy(pending[place], name, strlen(name) + 1);
    sigprocmask(SIG_SETMASK, &old, NULL);
    return fd;
}

static void forget(const char *name) {
    for (int i = 0; i < MAX_PENDING; i++)
        if (strcmp(pending[i], name) == 0)
            pending[i][0] = '\0';
}

static char *sentence(Arena *arena, const Output *output) {
    return arena_printf(arena, "cannot write '%s': %s", output->path, strerror(errno));
}

bool output_begin(Arena *arena, const char *path, const char *suffix, Output *output, char **error) {
    *output = (Output){.path = path, .fd = -1};
    struct stat status;
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
        if (S_ISDIR(status.st_mode)) {
            errno = EISDIR;
            *error = sentence(arena, output);
            return false;
        }
        output->in_place = true;
    }
    if (output->in_place) {
        const char *folder = getenv("TMPDIR");
        output->temporary = arena_printf(arena, "%s/phobosc-XXXXXX%s", folder && *folder ? folder : "/tmp", suffix);
    } else {
        output->temporary = arena_printf(arena, "%s.XXXXXX%s", path, suffix);
    }
    output->fd = make_temporary(output->temporary, strlen(suffix));
    if (output->fd < 0 || fchmod(output->fd, default_mode()) != 0) {
        *error = sentence(arena, output);
        output_abandon(output);
        return false;
    }
    return true;
}

static bool write_all(int fd, const char *data, size_t length) {
    while (length) {
        ssize_t count = write(fd, data, length);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return false;
        data += count;
        length -= (size_t)count;
    }
    return true;
}

bool output_write(Arena *arena, Output *output, const char *data, size_t length, char **error) {
    if (write_all(output->fd, data, length))
        return true;
    *error = sentence(arena, output);
    return false;
}

/* Opened anew by name: a linker may have put another file in the temporary's place. */
static bool copy_to_special(const Output *output) {
    int from = open(output->temporary, O_RDONLY | O_CLOEXEC);
    int to = open(output->path, O_WRONLY | O_CLOEXEC);
    bool done = from >= 0 && to >= 0;
    char bytes[1 << 16];
    ssize_t count = 0;
    while (done && (count = read(from, bytes, sizeof bytes)) > 0)
        done = write_all(to, bytes, (size_t)count);
    done = done && count == 0;
    int cause = errno;
    if (from >= 0)
        close(from);
    if (to >= 0 && close(to) != 0 && done) {
        done = false;
        cause = errno;
    }
    errno = cause;
    return done;
}

bool output_commit(Arena *arena, Output *output, char **error) {
    int fd = output->fd;
    output->fd = -1;
    bool done = close(fd) == 0;
    if (done)
        done = output->in_place ? copy_to_special(output) : rename(output->temporary, output->path) == 0;
    if (!done)
        *error = sentence(arena, output);
    if (done && !output->in_place) {
        forget(output->temporary);
        output->temporary = NULL;
    }
    output_abandon(output);
    return done;
}

void output_abandon(Output *output) {
    if (output->fd >= 0)
        close(output->fd);
    output->fd = -1;
    if (!output->temporary)
        return;
    for (int i = 0; i < MAX_PENDING; i++)
        if (strcmp(pending[i], output->temporary) == 0)
            unlink(output->temporary);
    forget(output->temporary);
    output->temporary = NULL;
}
