/* LD_PRELOAD: every read of a tensor file takes SLOW_IO_MS milliseconds longer; reads and writes move at most SHORT_IO bytes, and every third of them
 * fails with EINTR. */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static long setting(const char *name) {
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : 0;
}

static void wait_a_moment(void) {
    long ms = setting("SLOW_IO_MS");
    if (ms > 0)
        nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* How many bytes may be moved; 0: none, for a signal came. */
static size_t allowed(size_t size) {
    static atomic_ulong calls;
    size_t most = (size_t)setting("SHORT_IO");
    if (most == 0)
        return size;
    if (atomic_fetch_add(&calls, 1) % 3 == 2) {
        errno = EINTR;
        return 0;
    }
    return size < most ? size : most;
}

#define REAL(name, ...)                                                                                                                              \
    static ssize_t (*real)(int, __VA_ARGS__);                                                                                                        \
    if (!real)                                                                                                                                       \
    *(void **)&real = dlsym(RTLD_NEXT, name)

ssize_t pread(int fd, void *bytes, size_t size, off_t offset) {
    REAL("pread", void *, size_t, off_t);
    wait_a_moment();
    size_t some = allowed(size);
    return some || !size ? real(fd, bytes, some, offset) : -1;
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset) {
    REAL("pwrite", const void *, size_t, off_t);
    size_t some = allowed(size);
    return some || !size ? real(fd, bytes, some, offset) : -1;
}

/* Of the vectors the first, or a part of it. */
ssize_t preadv(int fd, const struct iovec *parts, int count, off_t offset) {
    REAL("preadv", const struct iovec *, int, off_t);
    wait_a_moment();
    if (!setting("SHORT_IO"))
        return real(fd, parts, count, offset);
    struct iovec part = {parts->iov_base, allowed(parts->iov_len)};
    return part.iov_len ? real(fd, &part, 1, offset) : -1;
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) {
    REAL("pwritev", const struct iovec *, int, off_t);
    if (!setting("SHORT_IO"))
        return real(fd, parts, count, offset);
    struct iovec part = {parts->iov_base, allowed(parts->iov_len)};
    return part.iov_len ? real(fd, &part, 1, offset) : -1;
}
