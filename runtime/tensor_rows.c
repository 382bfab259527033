/* Regions of tensor files to and from rows in memory, in as few calls as their layout allows. */
#define _GNU_SOURCE
#include "runtime/runtime.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

/* GAP_BYTES: of other columns between two rows, which to read along takes less time than another call. */
enum { MAX_VECTORS = 256, GAP_BYTES = 8192 };

/* Pieces that one call moves: they follow one another in the file, or are so near that reading what lies between them costs less than a call. */
typedef struct Batch {
    const TensorFile *file;
    bool writing;
    struct iovec vectors[MAX_VECTORS];
    int count;
    int64_t offset, end; /* in the file */
    char gap[GAP_BYTES]; /* gets what nobody wants */
    Error *error;
} Batch;

/* Moves all bytes of the batch and empties it. A call may move less than asked, and never moves more than 2 GiB. */
static bool batch_move(Batch *batch) {
    const TensorFile *file = batch->file;
    struct iovec *vectors = batch->vectors;
    int count = batch->count;
    int64_t offset = batch->offset, bytes = batch->end - offset;
    batch->count = 0;
    while (count > 0) {
        ssize_t moved = batch->writing ? pwritev(file->staging_fd, vectors, count, offset) : preadv(file->old_fd, vectors, count, offset);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved < 0)
            return error_errno(batch->error, batch->writing ? "cannot write \"%s\"" : "cannot read \"%s\"", file->path);
        if (moved == 0)
            return error_set(batch->error, "\"%s\": input changed: it ends at byte %lld", file->path, (long long)offset);
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
    (batch->writing ? pages_were_written : pages_were_read)(file, offset - bytes, bytes);
    return true;
}

static bool batch_add(Batch *batch, char *bytes, int64_t size, int64_t offset) {
    char *memory = batch->file->memory;
    if (memory != NULL) {
        memcpy(batch->writing ? memory + offset : bytes, batch->writing ? bytes : memory + offset, (size_t)size);
        return true;
    }
    int64_t gap = offset - batch->end;
    if (batch->count > 0 && (gap > (batch->writing ? 0 : GAP_BYTES) || batch->count > MAX_VECTORS - 2) && !batch_move(batch))
        return false;
    if (batch->count == 0)
        batch->offset = offset;
    else if (gap > 0)
        batch->vectors[batch->count++] = (struct iovec){batch->gap, (size_t)gap};
    batch->vectors[batch->count++] = (struct iovec){bytes, (size_t)size};
    batch->end = offset + size;
    return true;
}

/* `count` rows that follow each other in the file. */
static bool add_rows(Batch *batch, char *rows, int64_t count, int64_t row_bytes, int64_t pitch, int64_t offset) {
    if (pitch == row_bytes)
        return batch_add(batch, rows, count * row_bytes, offset);
    for (int64_t i = 0; i < count; i++)
        if (!batch_add(batch, rows + i * pitch, row_bytes, offset + i * row_bytes))
            return false;
    return true;
}

static bool move_region(const TensorFile *file, const Region *region, char *rows, int64_t pitch, bool writing, Error *error) {
    int last = file->rank - 1;
    int64_t element = dtype_size(file->dtype);
    /* Axes outer..last lie in one piece in the file: all of them but the first are taken whole. */
    int outer = last;
    int64_t run = 1, runs = 1;
    while (outer > 0 && region->extent[outer] == file->shape[outer])
        run *= region->extent[--outer];
    for (int axis = 0; axis < outer; axis++)
        runs *= region->extent[axis];
    if (run * runs * region->extent[last] == 0)
        return true;
    Batch batch;
    batch.file = file;
    batch.writing = writing;
    batch.count = 0;
    batch.end = 0;
    batch.error = error;
    int64_t index[PHB_MAX_RANK] = {0};
    for (int64_t i = 0; i < runs; i++) {
        int64_t position = 0;
        for (int axis = 0; axis <= last; axis++)
            position = position * file->shape[axis] + region->origin[axis] + index[axis];
        if (!add_rows(&batch, rows + i * run * pitch, run, region->extent[last] * element, pitch, file->data_offset + position * element))
            return false;
        for (int axis = outer - 1; axis >= 0 && ++index[axis] == region->extent[axis]; axis--)
            index[axis] = 0;
    }
    return batch.count == 0 || batch_move(&batch);
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
