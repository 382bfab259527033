/* Room for the outputs of a job, so that a full disk is found before work is done.
 *
 * Most file systems reserve space by noting it: that is done when an output is staged. tmpfs allocates every page, and lets nobody write to the file
 * meanwhile: there the free space is looked at when the output is staged, and taken in small steps beside what is there to do, such as to wait for pods. Where
 * nothing can be reserved, the look is all there is. */
#define _GNU_SOURCE /* fallocate */
#include "runtime/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#define STEP_BYTES (INT64_C(4) << 20) /* writers wait for no longer than this takes, a third of a millisecond */

static bool reserves_by_allocating(int fd) {
    struct statfs system;
    return fstatfs(fd, &system) == 0 && system.f_type == TMPFS_MAGIC;
}

/* 0 or an errno. glibc's posix_fallocate, which writes to each block where this is not supported, would cost a pass over the file. */
static int reserve(int fd, int64_t offset, int64_t bytes) {
    int code;
    do
        code = fallocate(fd, 0, offset, bytes) == 0 ? 0 : errno;
    while (code == EINTR && !atomic_load(&interrupted));
    return code;
}

static bool fail(const TensorFile *file, int64_t bytes, int code, Error *error) {
    errno = code;
    return error_errno(error, "cannot reserve %lld bytes for \"%s\"", (long long)bytes, file->path);
}

bool space_suffices(const TensorFile *file, int64_t bytes, Error *error) {
    struct statvfs space;
    if (fstatvfs(file->staging_fd, &space) != 0)
        return error_errno(error, "cannot tell the free space for \"%s\"", file->path);
    int64_t block = (int64_t)space.f_frsize, free_blocks = (int64_t)space.f_bavail;
    if (space.f_blocks == 0 || bytes / block + (bytes % block != 0) <= free_blocks) /* no blocks at all: a tmpfs without a limit */
        return true;
    const char *slash = strrchr(file->path, '/'), *others = bytes > file->unreserved ? " with the outputs before it" : "";
    int folder = slash == file->path ? 1 : (int)(slash - file->path);
    return error_set(error, "disk full: \"%s\"%s needs %lld bytes, \"%.*s\" has %lld", file->path, others, (long long)bytes, folder, file->path,
        (long long)(free_blocks * block));
}

bool space_take(TensorFile *file, int64_t bytes, Error *error) {
    int code = reserves_by_allocating(file->staging_fd) ? EOPNOTSUPP : reserve(file->staging_fd, 0, bytes);
    if (code == 0)
        return true;
    if (code != EOPNOTSUPP && code != ENOSYS && code != ENOSPC)
        return fail(file, bytes, code, error);
    file->unreserved = bytes;
    if (code == ENOSPC)
        return ftruncate(file->staging_fd, 0) == 0 && space_suffices(file, bytes, error) && fail(file, bytes, code, error);
    if (ftruncate(file->staging_fd, bytes) != 0)
        return error_errno(error, "cannot set the size of \"%s\"", file->staging_path);
    return space_suffices(file, bytes, error);
}

bool space_reserve(TensorFile *file, const atomic_bool *settled, Error *error) {
    if (!reserves_by_allocating(file->staging_fd))
        return true;
    for (int64_t offset = 0, bytes = file->unreserved; offset < bytes && !atomic_load(settled) && !atomic_load(&interrupted); offset += STEP_BYTES) {
        int64_t step = bytes - offset < STEP_BYTES ? bytes - offset : STEP_BYTES;
        int code = reserve(file->staging_fd, offset, step);
        if (code == ENOSPC)
            return space_suffices(file, bytes - offset, error) && fail(file, bytes, code, error);
        if (code != 0 && code != EINTR)
            return fail(file, bytes, code, error);
    }
    return true;
}
