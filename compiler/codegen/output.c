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

#define MAX_PENDING (8 + 2 * MOST_COMMANDS)

static const int ending_signals[] = {SIGHUP, SIGINT, SIGTERM};
#define ENDING_COUNT (sizeof ending_signals / sizeof *ending_signals)

static char pending[MAX_PENDING][PATH_MAX]; /* temporaries that exist; "" is a free place */
static volatile sig_atomic_t children[MOST_COMMANDS]; /* 0 is a free place */

static void clean_up_and_die(int number) {
    for (int i = 0; i < MOST_COMMANDS; i++)
        if (children[i] > 0)
            kill((pid_t)children[i], SIGKILL);
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

/* Puts `to` in the first place that has `from`. */
static void change_child(int from, int to) {
    for (int i = 0; i < MOST_COMMANDS; i++)
        if (children[i] == from) {
            children[i] = to;
            return;
        }
}

void output_add_child(int pid) {
    change_child(0, pid);
}

void output_forget_child(int pid) {
    change_child(pid, 0);
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

static bool begins(const char *text, const char *start) {
    return strncmp(text, start, strlen(start)) == 0;
}

/* What links lead to, which stay links. One of /proc stands for an open file that may have no name: it is not followed. */
static const char *follow_links(Arena *arena, const char *path) {
    enum { MOST_LINKS = 40 }; /* as Linux has it */
    for (int i = 0; i < MOST_LINKS; i++) {
        char target[PATH_MAX], folder[PATH_MAX];
        ssize_t length = readlink(path, target, sizeof target - 1);
        if (length < 0)
            break;
        target[length] = '\0';
        const char *slash = strrchr(path, '/');
        const char *parent = slash ? arena_printf(arena, "%.*s", (int)(slash - path) + 1, path) : "./";
        if (realpath(parent, folder) && begins(folder, "/proc/"))
            break;
        path = target[0] == '/' ? arena_strndup(arena, target, (size_t)length) : arena_printf(arena, "%s%s", slash ? parent : "", target);
    }
    return path;
}

/* Not the name of a regular file, nor free to be that of one. */
static bool is_special(const char *target) {
    struct stat status;
    return (lstat(target, &status) == 0 && S_ISLNK(status.st_mode)) || (stat(target, &status) == 0 && !S_ISREG(status.st_mode));
}

bool output_begin(Arena *arena, const char *path, const char *suffix, Output *output, char **error) {
    *output = (Output){.path = path, .target = follow_links(arena, path), .fd = -1};
    struct stat status;
    if (is_special(output->target)) {
        if (stat(output->target, &status) == 0 && S_ISDIR(status.st_mode)) {
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
        output->temporary = arena_printf(arena, "%s.XXXXXX%s", output->target, suffix);
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

/* One of our own open files is written to where it is: another opening of it would begin anew. */
static int open_special(Arena *arena, const char *target) {
    char own[64], folder[PATH_MAX];
    snprintf(own, sizeof own, "/proc/%d/fd", (int)getpid());
    const char *name = strrchr(target, '/');
    bool is_own = name && realpath(arena_printf(arena, "%.*s", (int)(name - target), target), folder) && strcmp(folder, own) == 0;
    return is_own ? fcntl(atoi(name + 1), F_DUPFD_CLOEXEC, 0) : open(target, O_WRONLY | O_CLOEXEC);
}

/* The temporary is opened anew by name: a linker may have put another file in its place. */
static bool copy_to_special(Arena *arena, const Output *output) {
    int from = open(output->temporary, O_RDONLY | O_CLOEXEC);
    int to = open_special(arena, output->target);
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
        done = output->in_place ? copy_to_special(arena, output) : rename(output->temporary, output->target) == 0;
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
