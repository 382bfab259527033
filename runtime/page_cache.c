/* What the kernel keeps of tensor files in memory. What a job writes begins its way to the disk at once, so that little is left to wait for at the
 * end. A file larger than memory would push out what everybody else has there and be gone itself before it is read again: of such a file nothing
 * stays. */
#define _GNU_SOURCE /* sync_file_range */
#include "runtime/runtime.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define LEAST_BYTES (INT64_C(64) << 10)  /* a call for less costs more than it brings */
#define BEHIND_BYTES (INT64_C(64) << 20) /* on their way to the disk while more is written */

bool pages_pass(int fd) {
    struct stat status;
    return fd >= 0 && fstat(fd, &status) == 0 && status.st_size > machine_bytes();
}

void pages_were_read(const TensorFile *file, int64_t offset, int64_t bytes) {
    if (file->passing && bytes >= LEAST_BYTES)
        posix_fadvise(file->old_fd, offset, bytes, POSIX_FADV_DONTNEED);
}

/* That it fails is told by the fdatasync that follows some day. */
void pages_were_written(const TensorFile *file, int64_t offset, int64_t bytes) {
    if (bytes < LEAST_BYTES)
        return;
    sync_file_range(file->staging_fd, offset, bytes, SYNC_FILE_RANGE_WRITE);
    int64_t before = offset < BEHIND_BYTES ? offset : BEHIND_BYTES;
    if (!file->passing || before == 0)
        return;
    sync_file_range(file->staging_fd, offset - before, before, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    posix_fadvise(file->staging_fd, offset - before, before, POSIX_FADV_DONTNEED);
}

/* Machines that share such a system write whole pages of what they know of a file, with a neighbour's bytes as they were, unless writes are
 * synchronous. */
int staging_flags(int fd) {
    struct statfs system;
    if (fstatfs(fd, &system) != 0)
        return 0;
    switch ((unsigned)system.f_type) {
    case NFS_SUPER_MAGIC:
    case SMB_SUPER_MAGIC:
    case CIFS_SUPER_MAGIC:
    case SMB2_SUPER_MAGIC:
    case AFS_SUPER_MAGIC:
    case AFS_FS_MAGIC:
    case V9FS_MAGIC:
    case FUSE_SUPER_MAGIC:
        return O_DSYNC;
    default:
        return 0;
    }
}
