#include "tests/unit/job_files.h"
#include "runtime/sched/journal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void must(bool holds) {
    if (!holds)
        abort();
}

char *job_folder_new(void) {
    char folder[] = "/tmp/phobos-test-XXXXXX";
    must(mkdtemp(folder) != NULL);
    return format_text("%s", folder);
}

bool job_folder_remove(char *folder) {
    bool clean = rmdir(folder) == 0;
    free(folder);
    return clean;
}

static char *file_path(const char *folder, const char *name) {
    return format_text("%s/%s.bin", folder, name);
}

static char *pack(const TensorFile *file, const uint64_t *elements, size_t *bytes) {
    size_t count = 1, size = (size_t)dtype_size(file->dtype);
    for (int k = 0; k < file->rank; k++)
        count *= (size_t)file->shape[k];
    char *packed = new_zeroed(count, size);
    for (size_t i = 0; i < count; i++)
        memcpy(packed + i * size, &elements[i], size);
    *bytes = count * size;
    return packed;
}

static void describe(TensorFile *file, int dtype, int rank, const int64_t *shape) {
    file->dtype = dtype;
    file->rank = rank;
    for (int k = 0; k < PHB_MAX_RANK; k++)
        file->shape[k] = k < rank ? shape[k] : 1;
}

void job_file_make(
    const char *folder, const char *name, int mode, int dtype, int rank, const int64_t *shape, const uint64_t *elements, TensorFile *file) {
    char *path = file_path(folder, name);
    size_t bytes;
    describe(file, dtype, rank, shape);
    char *packed = pack(file, elements, &bytes);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
    must(fd >= 0 && write(fd, packed, bytes) == (ssize_t)bytes && close(fd) == 0);
    free(packed);
    Error error;
    must(tensor_file_open(file, path, mode, &error) == FILE_FINE);
    describe(file, dtype, rank, shape);
    free(path);
}

bool job_file_is(const char *folder, const char *name, const TensorFile *file, const uint64_t *elements) {
    char *path = file_path(folder, name);
    size_t bytes;
    char *wanted = pack(file, elements, &bytes), *found = new_zeroed(bytes + 1, 1);
    int fd = open(path, O_RDONLY);
    bool same = fd >= 0 && read(fd, found, bytes + 1) == (ssize_t)bytes && memcmp(wanted, found, bytes) == 0;
    if (fd >= 0)
        close(fd);
    free(path);
    free(wanted);
    free(found);
    return same;
}

bool job_file_remove(const char *folder, const char *name, TensorFile *file) {
    tensor_file_close(file);
    char *path = file_path(folder, name);
    bool there = unlink(path) == 0;
    free(path);
    return there;
}

void job_journal_remove(Job *job) {
    if (job->journal != NULL)
        journal_remove(job->journal);
    journal_free(job->journal);
    job->journal = NULL;
}
