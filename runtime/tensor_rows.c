/* Regions of tensor files to and from rows in memory, in as few calls as their layout allows. */
#define _GNU_SOURCE
#include "runtime/runtime.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

enum { MAX_VECTORS = 256 };

typedef struct Transfer {
    const TensorFile *file;
    bool writing;
    int64_t pitch, row_bytes;
    Error *error;
} Transfer;

/* Moves all bytes of the vectors, which it uses up. A call may move less than asked, and never moves more than 2 GiB. */
static bool move_vectors(const Transfer *transfer, struct iovec *vectors, int count, int64_t offset) {
    const TensorFile *file = transfer->file;
    while (count > 0) {
        ssize_t moved = transfer->writing ? pwritev(file->staging_fd, vectors, count, offset) : preadv(file->old_fd, vectors, count, offset);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved < 0)
            return error_errno(transfer->error, transfer->writing ? "cannot write \"%s\"" : "cannot read \"%s\"", file->path);
        if (moved == 0)
            return error_set(transfer->error, "\"%s\": input changed: it ends at byte %lld", file->path, (long long)offset);
        offset += moved;
        while (count > 0 && (size_t)moved >= vectors->iov_len) {
            moved -= (ssize_t)vectors->iov_len;
            vectors++;
            count--;
        }
        if (count > 0) {
            vectors->iov_base = (char *)vectors->iov_base + moved;
            vectors->iov_len -= (size_t)moved;
        }
    }
    return true;
}

static void copy_rows(const Transfer *transfer, char *rows, int64_t count, char *memory) {
    int64_t bytes = transfer->row_bytes, pitch = transfer->pitch;
    if (pitch == bytes) {
        bytes *= count;
        count = 1;
    }
    for (; count > 0; count--, rows += pitch, memory += bytes)
        memcpy(transfer->writing ? memory : rows, transfer->writing ? rows : memory, (size_t)bytes);
}

/* `count` rows that follow each other in the file. */
static bool move_run(const Transfer *transfer, char *rows, int64_t count, int64_t offset) {
    if (transfer->file->memory != NULL) {
        copy_rows(transfer, rows, count, (char *)transfer->file->memory + offset);
        return true;
    }
    if (transfer->pitch == transfer->row_bytes || count == 1) {
        struct iovec all = {rows, (size_t)(count * transfer->row_bytes)};
        return move_vectors(transfer, &all, 1, offset);
    }
    struct iovec vectors[MAX_VECTORS];
    while (count > 0) {
        int batch = count < MAX_VECTORS ? (int)count : MAX_VECTORS;
        for (int i = 0; i < batch; i++)
            vectors[i] = (struct iovec){rows + i * transfer->pitch, (size_t)transfer->row_bytes};
        if (!move_vectors(transfer, vectors, batch, offset))
            return false;
        rows += batch * transfer->pitch;
        offset += batch * transfer->row_bytes;
        count -= batch;
    }
    return true;
}

static bool move_region(const TensorFile *file, const Region *region, char *rows, int64_t pitch, bool writing, Error *error) {
    int last = file->rank - 1;
    int64_t element = dtype_size(file->dtype);
    Transfer transfer = {file, writing, pitch, region->extent[last] * element, error};
    /* Axes outer..last lie in one piece in the file: all of them but the first are taken whole. */
    int outer = last;
    int64_t run = 1, runs = 1;
    while (outer > 0 && region->extent[outer] == file->shape[outer])
        run *= region->extent[--outer];
    for (int axis = 0; axis < outer; axis++)
        runs *= region->extent[axis];
    if (run * runs * region->extent[last] == 0)
        return true;
    int64_t index[PHB_MAX_RANK] = {0};
    for (int64_t i = 0; i < runs; i++) {
        int64_t position = 0;
        for (int axis = 0; axis <= last; axis++)
            position = position * file->shape[axis] + region->origin[axis] + index[axis];
        if (!move_run(&transfer, rows + i * run * pitch, run, file->data_offset + position * element))
            return false;
        for (int axis = outer - 1; axis >= 0 && ++index[axis] == region->extent[axis]; axis--)
            index[axis] = 0;
    }
    return true;
}

bool tensor_file_read(const TensorFile *file, const Region *region, void *rows, int64_t pitch, Error *error) {
    if (file->old_fd >= 0 || file->memory != NULL)
        return move_region(file, region, rows, pitch, false, error);
    int64_t count = 1, row_bytes = region->extent[file->rank - 1] * dtype_size(file->dtype);
    for (int axis = 0; axis < file->rank - 1; axis++)
        count *= region->extent[axis];
    for (int64_t i = 0; i < count; i++)
        memset((char *)rows + i * pitch, 0, (size_t)row_bytes);
    return true;
}

bool tensor_file_write(const TensorFile *file, const Region *region, const void *rows, int64_t pitch, Error *error) {
    return move_region(file, region, (char *)(uintptr_t)rows, pitch, true, error); /* pwritev does not write through its vectors */
}

Region tensor_file_whole(const TensorFile *file) {
    Region region;
    for (int axis = 0; axis < PHB_MAX_RANK; axis++) {
        region.origin[axis] = 0;
        region.extent[axis] = axis < file->rank ? file->shape[axis] : 1;
    }
    return region;
}

int64_t tensor_file_bytes(const TensorFile *file) {
    int64_t bytes = dtype_size(file->dtype);
    for (int axis = 0; axis < file->rank; axis++)
        bytes *= file->shape[axis];
    return bytes;
}
