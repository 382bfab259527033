/* The life of a tensor file in a job: looked at, locked, staged, published or discarded. The old contents are whole until the rename. */
#define _GNU_SOURCE
#include "runtime/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        return format_text(".");
    return slash == path ? format_text("/") : format_text("%.*s", (int)(slash - path), path);
}

static int64_t mtime_of(const struct stat *status) {
    return (int64_t)status->st_mtim.tv_sec * 1000000000 + status->st_mtim.tv_nsec;
}

static FileVerdict refuse(Error *error, const char *why, const char *path) {
    error_set(error, "\"%s\" %s", path, why);
    return FILE_REFUSED;
}

static FileVerdict fail(Error *error, const char *action, const char *path) {
    error_errno(error, "cannot %s \"%s\"", action, path);
    return FILE_FAILED;
}

/* The absolute path of a file that may not exist yet, in a folder that must. */
static FileVerdict resolve_new(const char *path, char **resolved, Error *error) {
    struct stat status;
    if (lstat(path, &status) == 0)
        return refuse(error, "is a symbolic link to nothing", path);
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    if (name[0] == '\0')
        return refuse(error, "names a folder", path);
    char *folder = folder_of(path);
    char *real = realpath(folder, NULL);
    FileVerdict verdict = real != NULL ? FILE_FINE : fail(error, "find the folder", folder);
    if (real != NULL)
        *resolved = format_text("%s/%s", strcmp(real, "/") == 0 ? "" : real, name);
    free(real);
    free(folder);
    return verdict;
}

static FileVerdict resolve(const char *path, bool may_be_new, char **resolved, Error *error) {
    *resolved = realpath(path, NULL);
    if (*resolved != NULL)
        return FILE_FINE;
    if (errno == ENOENT && may_be_new)
        return resolve_new(path, resolved, error);
    if (errno == ELOOP || errno == ENAMETOOLONG || errno == ENOTDIR) {
        fail(error, "open", path);
        return FILE_REFUSED;
    }
    return fail(error, "open", path);
}

static const char *kind_text(mode_t mode) {
    return S_ISDIR(mode)                    ? "is a folder, not a file"
           : S_ISFIFO(mode)                 ? "is a pipe; a tensor must be a regular file"
           : S_ISCHR(mode) || S_ISBLK(mode) ? "is a device; a tensor must be a regular file"
                                            : "is not a regular file";
}

static void remember(TensorFile *file, const struct stat *status) {
    file->exists = true;
    file->file_size = status->st_size;
    file->mtime_ns = mtime_of(status);
    file->device = status->st_dev;
    file->inode = status->st_ino;
    file->permissions = status->st_mode & 07777;
}

/* Of new files. The mask is read off /proc, as umask() only tells by changing it, which other threads would see. */
static mode_t new_permissions(void) {
    unsigned mask = 077;
    FILE *status = fopen("/proc/self/status", "re");
    char line[256];
    while (status != NULL && fgets(line, sizeof line, status) != NULL)
        if (sscanf(line, "Umask: %o", &mask) == 1)
            break;
    if (status != NULL)
        fclose(status);
    return 0666 & ~(mode_t)mask;
}

static FileVerdict check_folder(const char *path, Error *error) {
    char *folder = folder_of(path);
    FileVerdict verdict = access(folder, W_OK | X_OK) == 0 ? FILE_FINE : fail(error, "create files in", folder);
    free(folder);
    return verdict;
}

static bool ends_in_npy(const char *path) {
    size_t length = strlen(path);
    return length >= 4 && strcmp(path + length - 4, ".npy") == 0;
}

FileVerdict tensor_file_open(TensorFile *file, const char *path, int mode, Error *error) {
    *file = (TensorFile){.old_fd = -1, .staging_fd = -1, .lock_fd = -1};
    FileVerdict verdict = resolve(path, mode != PHB_READ, &file->path, error);
    if (verdict != FILE_FINE)
        return verdict;
    file->is_npy = ends_in_npy(file->path);
    file->permissions = new_permissions();
    struct stat status;
    if (stat(file->path, &status) == 0) {
        /* Looked at before it is opened: opening a device may have effects, opening a pipe may wait. */
        if (!S_ISREG(status.st_mode))
            return refuse(error, kind_text(status.st_mode), file->path);
        remember(file, &status);
    } else if (errno != ENOENT || mode == PHB_READ) {
        return fail(error, "open", file->path);
    }
    if (mode != PHB_READ && (verdict = check_folder(file->path, error)) != FILE_FINE)
        return verdict;
    if (!file->exists || mode == PHB_WRITE)
        return FILE_FINE;
    file->old_fd = open(file->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (file->old_fd < 0 || fstat(file->old_fd, &status) != 0)
        return fail(error, "open", file->path);
    if (!S_ISREG(status.st_mode))
        return refuse(error, kind_text(status.st_mode), file->path);
    remember(file, &status);
    file->passing = pages_pass(file->old_fd);
    return FILE_FINE;
}

/* The holder removes the lock file, so one that was opened before and locked after that is a name no more: then it is made again. */
bool tensor_file_lock(TensorFile *file, Error *error) {
    if (file->lock_fd >= 0)
        return true;
    file->lock_path = format_text("%s.phobos-lock", file->path);
    for (;;) {
        int fd = open(file->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0) {
            error_errno(error, "cannot create the lock file \"%s\"", file->lock_path);
            free(file->lock_path);
            file->lock_path = NULL;
            return false;
        }
        if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
            if (errno == EWOULDBLOCK)
                error_set(error, "another job is writing \"%s\": it holds \"%s\"", file->path, file->lock_path);
            else
                error_errno(error, "cannot lock \"%s\"", file->lock_path);
            close(fd);
            free(file->lock_path);
            file->lock_path = NULL;
            return false;
        }
        struct stat held, named;
        if (fstat(fd, &held) == 0 && stat(file->lock_path, &named) == 0 && held.st_ino == named.st_ino && held.st_dev == named.st_dev) {
            file->lock_fd = fd;
            return true;
        }
        close(fd);
    }
}

static void unlock_target(TensorFile *file) {
    if (file->lock_fd >= 0) {
        unlink(file->lock_path);
        close(file->lock_fd);
        file->lock_fd = -1;
    }
    free(file->lock_path);
    file->lock_path = NULL;
}

static bool create_staging(TensorFile *file, Error *error) {
    uint64_t id;
    if (getrandom(&id, sizeof id, 0) != (ssize_t)sizeof id)
        return error_errno(error, "cannot draw a random number");
    char *folder = folder_of(file->path);
    file->staging_path =
        format_text("%s/.%s.%016llx.part", strcmp(folder, "/") == 0 ? "" : folder, strrchr(file->path, '/') + 1, (unsigned long long)id);
    free(folder);
    file->staging_fd = open(file->staging_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    int flags = file->staging_fd >= 0 ? staging_flags(file->staging_fd) : 0;
    if (flags != 0) {
        close(file->staging_fd);
        file->staging_fd = open(file->staging_path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags);
    }
    if (file->staging_fd >= 0)
        return true;
    error_errno(error, "cannot create the staging file \"%s\"", file->staging_path);
    if (flags != 0)
        unlink(file->staging_path);
    free(file->staging_path);
    file->staging_path = NULL;
    return false;
}

static bool write_all(const TensorFile *file, const char *bytes, size_t size, off_t offset, Error *error) {
    while (size > 0) {
        ssize_t written = pwrite(file->staging_fd, bytes, size, offset);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return error_errno(error, "cannot write \"%s\"", file->staging_path);
        bytes += written;
        size -= (size_t)written;
        offset += written;
    }
    return true;
}

static bool copy_by_hand(const TensorFile *file, int from, off_t offset, int64_t bytes, Error *error) {
    enum { BUFFER = 1 << 18 };
    char *buffer = new_zeroed(BUFFER, 1);
    bool fine = true;
    while (fine && bytes > 0) {
        ssize_t got = pread(from, buffer, bytes < BUFFER ? (size_t)bytes : BUFFER, offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            fine = error_errno(error, "cannot read \"%s\"", file->path);
        else if (got == 0)
            fine = error_set(error, "\"%s\": input changed: it ends at byte %lld", file->path, (long long)offset);
        else
            fine = write_all(file, buffer, (size_t)got, offset, error);
        offset += got;
        bytes -= got;
    }
    free(buffer);
    return fine;
}

/* From a file of the same layout. */
static bool copy_from(const TensorFile *file, int from, int64_t bytes, Error *error) {
    off_t there = 0, here = 0;
    while (there < bytes) {
        ssize_t copied = copy_file_range(from, &there, file->staging_fd, &here, (size_t)(bytes - there), 0);
        if (copied < 0 && errno == EINTR)
            continue;
        if (copied <= 0)
            return copy_by_hand(file, from, there, bytes - there, error);
    }
    return true;
}

static bool fill_staging(TensorFile *file, bool keep_old, Error *error) {
    int64_t bytes = file->data_offset + tensor_file_bytes(file);
    if (!space_take(file, bytes, error))
        return false;
    file->passing |= pages_pass(file->staging_fd);
    if (file->old_fd >= 0)
        return copy_from(file, file->old_fd, keep_old ? bytes : file->data_offset, error);
    if (!file->is_npy)
        return true;
    char header[256];
    int length = npy_write_header(header, file->dtype, file->rank, file->shape);
    return write_all(file, header, (size_t)length, 0, error);
}

bool tensor_file_stage(TensorFile *file, bool keep_old, Error *error) {
    if (tensor_file_lock(file, error) && create_staging(file, error) && fill_staging(file, keep_old, error))
        return true;
    tensor_file_close(file);
    return false;
}

bool tensor_file_sync(TensorFile *file, Error *error) {
    if (file->synced)
        return true;
    /* Never tried again after a failure: the kernel may have dropped the pages, and a second call would say that all is well. */
    if (fdatasync(file->staging_fd) != 0)
        return error_errno(error, "cannot bring \"%s\" to the disk", file->path);
    if (fchmod(file->staging_fd, file->permissions) != 0)
        return error_errno(error, "cannot set the permissions of \"%s\"", file->staging_path);
    file->synced = true;
    return true;
}

bool tensor_file_copy(const TensorFile *file, TensorFile *copy, Error *error) {
    int64_t bytes = file->data_offset + tensor_file_bytes(file);
    *copy = *file;
    copy->staging_path = NULL;
    copy->staging_fd = -1;
    copy->synced = false;
    if (create_staging(copy, error) && space_take(copy, bytes, error) && copy_from(copy, file->staging_fd, bytes, error) &&
        tensor_file_sync(copy, error))
        return true;
    tensor_file_drop(copy);
    return false;
}

void tensor_file_drop(TensorFile *file) {
    if (file->staging_path != NULL)
        unlink(file->staging_path);
    if (file->staging_fd >= 0)
        close(file->staging_fd);
    free(file->staging_path);
    file->staging_path = NULL;
    file->staging_fd = -1;
}

bool folder_sync(const char *path) {
    char *folder = folder_of(path);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* Some file systems cannot sync a folder and need not. */
    bool fine = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL || errno == EROFS);
    int code = errno;
    if (fd >= 0)
        close(fd);
    free(folder);
    errno = code;
    return fine;
}

bool tensor_file_publish(TensorFile *file, Error *error) {
    if (!tensor_file_sync(file, error))
        return false;
    if (rename(file->staging_path, file->path) != 0)
        return error_errno(error, "cannot rename \"%s\" to \"%s\"", file->staging_path, file->path);
    free(file->staging_path);
    file->staging_path = NULL;
    return folder_sync(file->path) || error_errno(error, "\"%s\" is in place, but its folder cannot be brought to the disk", file->path);
}

void tensor_file_close(TensorFile *file) {
    if (file->staging_path != NULL && !file->keep_staging)
        unlink(file->staging_path);
    if (file->staging_fd >= 0)
        close(file->staging_fd);
    if (file->old_fd >= 0)
        close(file->old_fd);
    file->staging_fd = file->old_fd = -1;
    unlock_target(file);
    free(file->staging_path);
    free(file->path);
    file->staging_path = file->path = NULL;
}

bool tensor_file_unchanged(const TensorFile *file, Error *error) {
    if (file->old_fd < 0)
        return true;
    struct stat status;
    if (stat(file->path, &status) != 0)
        return error_errno(error, "\"%s\": input changed", file->path);
    if (status.st_ino != file->inode || status.st_dev != file->device)
        return error_set(error, "\"%s\": input changed: another file has taken its place", file->path);
    if (status.st_size != file->file_size)
        return error_set(
            error, "\"%s\": input changed: it had %lld bytes and has %lld", file->path, (long long)file->file_size, (long long)status.st_size);
    if (mtime_of(&status) != file->mtime_ns)
        return error_set(error, "\"%s\": input changed: it was written to while the job ran", file->path);
    return true;
}
