/* LD_PRELOAD: every read of a tensor file takes SLOW_IO_MS milliseconds longer. */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static void wait_a_moment(void) {
    const char *text = getenv("SLOW_IO_MS");
    long ms = text ? strtol(text, NULL, 10) : 0;
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

ssize_t pread(int fd, void *bytes, size_t size, off_t offset) {
    static ssize_t (*real)(int, void *, size_t, off_t);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pread");
    wait_a_moment();
    return real(fd, bytes, size, offset);
}

ssize_t preadv(int fd, const struct iovec *parts, int count, off_t offset) {
    static ssize_t (*real)(int, const struct iovec *, int, off_t);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "preadv");
    wait_a_moment();
    return real(fd, parts, count, offset);
}
