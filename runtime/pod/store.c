#include "runtime/checksum.h"
#include "runtime/clock.h"
#include "runtime/crash.h"
#include "runtime/pod/pod.h"
#include "runtime/thread.h"

#include <stdlib.h>
#include <string.h>

#define READ_BYTES (INT64_C(1) << 20)   /* what one thread reads at once: large enough for the call not to count, small enough to share a tile */
#define LANE_BYTES (INT64_C(1) << 20)   /* of a thread's buffer where tiles lie in a device's own memory */
#define WRITE_BYTES (INT64_C(16) << 20) /* and writes: alone, so that a tile is not to be shared, and pods of one host take turns by the tile */

/* A task in flight, cut along one axis of its region into pieces. */
typedef struct Transfer Transfer;
struct Transfer {
    StoreTask task;
    int axis;
    int64_t step;              /* extent of a piece along the axis; the last may be smaller */
    int64_t step_bytes;        /* between pieces in memory */
    int64_t next, left, total; /* pieces: the first not dealt, those not ended, all */
    uint64_t checksum;         /* of the pieces that have ended */
    bool failed;
    Error error;
    Transfer *after; /* in a queue, or among the unused */
};

typedef struct Queue {
    Transfer *first, **end; /* with pieces to deal */
} Queue;

typedef struct StoreThread {
    Store *store;
    pthread_t handle;
    DeviceLane *lane;          /* NULL: tiles lie in the host's memory */
    void *buffer;              /* LANE_BYTES of it */
    const TensorFile *writing; /* what it writes to now, or NULL; guarded by the mutex */
} StoreThread;

struct Store {
    StoreDone *done;
    void *context;
    const DeviceType *device; /* of the lanes */
    StoreThread *threads;
    int thread_count; /* set before the first task */

    pthread_mutex_t mutex; /* guards what follows, and what of a transfer changes */
    pthread_cond_t work;
    Transfer *transfers, *unused;
    Queue reads, writes;
    uint64_t lease_ms; /* when it ends */
    bool revoked, closing;
};

/* Cuts along the first axis that is longer than 1, so that a piece is one run of whole rows, or part of the only one. */
static void cut(Transfer *transfer) {
    const StoreTask *task = &transfer->task;
    int last = task->rank - 1, axis = 0;
    while (axis < last && task->region.extent[axis] == 1)
        axis++;
    int64_t stride = axis == last ? task->element : task->pitch;
    for (int k = axis + 1; k < last; k++)
        stride *= task->region.extent[k];
    int64_t extent = task->region.extent[axis];
    transfer->axis = axis;
    transfer->step = (task->write ? WRITE_BYTES : READ_BYTES) / stride;
    if (transfer->step < 1)
        transfer->step = 1;
    transfer->step_bytes = transfer->step * stride;
    transfer->total = transfer->left = (extent + transfer->step - 1) / transfer->step;
    transfer->next = 0;
}

static bool is_inside(const TensorFile *file, const Region *region) {
    bool inside = true;
    for (int k = 0; k < file->rank; k++)
        inside &= region->origin[k] >= 0 && region->origin[k] + region->extent[k] <= file->shape[k];
    return inside;
}

/* Reads rows of a region that reaches beyond its tensor: zeros, then the part of each plane of the last two axes that lies inside. */
static bool read_beyond(const StoreTask *task, const Region *region, char *rows, Error *error) {
    const TensorFile *file = task->file;
    int last = task->rank - 1, outer = last > 0 ? last - 1 : 0; /* planes are counted along axes 0 .. outer - 1 */
    int64_t planes = 1, plane_rows = last > 0 ? region->extent[outer] : 1;
    for (int k = 0; k < outer; k++)
        planes *= region->extent[k];
    for (int64_t i = 0; i < planes * plane_rows; i++)
        memset(rows + i * task->pitch, 0, (size_t)(region->extent[last] * task->element));
    for (int64_t plane = 0; plane < planes; plane++) {
        Region part = *region;
        int64_t rest = plane;
        for (int k = outer - 1; k >= 0; k--) {
            part.origin[k] += rest % region->extent[k];
            part.extent[k] = 1;
            rest /= region->extent[k];
        }
        char *at = rows + plane * plane_rows * task->pitch;
        bool some = true;
        for (int k = 0; k <= last; k++) {
            int64_t end = part.origin[k] + part.extent[k], before = part.origin[k] < 0 ? -part.origin[k] : 0;
            part.origin[k] += before;
            part.extent[k] = (end < file->shape[k] ? end : file->shape[k]) - part.origin[k];
            some &= part.extent[k] > 0;
            at += before * (k == last ? task->element : k == outer ? task->pitch : 0);
        }
        if (some && !tensor_file_read(file, &part, at, task->pitch, error))
            return false;
    }
    return true;
}

/* Where a test wants it in two halves, to end the process in between or to spoil what its checksum has been taken of. */
static bool write_rows(const StoreTask *task, const Region *region, char *rows, Error *error) {
    if (!crash_is_set(CRASH_STORE, CRASH_HALF))
        return tensor_file_write(task->file, region, rows, task->pitch, error);
    Region part = *region;
    int last = task->rank - 1;
    part.extent[last] = region->extent[last] / 2;
    int64_t half = part.extent[last] * task->element;
    if (!tensor_file_write(task->file, &part, rows, task->pitch, error))
        return false;
    if (crash_point(CRASH_STORE, CRASH_HALF))
        rows[half] ^= 1;
    part.origin[last] += part.extent[last];
    part.extent[last] = region->extent[last] - part.extent[last];
    return tensor_file_write(task->file, &part, rows + half, task->pitch, error);
}

/* Between the task's file and the host's memory. */
static bool move_rows(const StoreTask *task, const Region *region, void *rows, uint64_t *checksum, Error *error) {
    if (task->write && task->checksum != NULL)
        *checksum += region_checksum(task->tensor, task->file, region, rows, task->pitch);
    if (task->write)
        return task->dry || write_rows(task, region, rows, error);
    if (is_inside(task->file, region))
        return tensor_file_read(task->file, region, rows, task->pitch, error);
    return read_beyond(task, region, rows, error);
}

/* The region through the thread's buffer: in parts along the first axis that is longer than 1, as long as one does not fit. */
static bool move_by_lane(const StoreThread *thread, const StoreTask *task, const Region *region, char *rows, uint64_t *checksum, Error *error) {
    const DeviceType *device = thread->store->device;
    int last = task->rank - 1, axis = 0;
    while (axis < last && region->extent[axis] == 1)
        axis++;
    int64_t stride = axis == last ? task->element : task->pitch;
    for (int k = axis + 1; k < last; k++)
        stride *= region->extent[k];
    int64_t extent = region->extent[axis], bytes = stride * extent;
    if (bytes > LANE_BYTES) {
        int64_t step = stride < LANE_BYTES ? LANE_BYTES / stride : 1;
        for (int64_t before = 0; before < extent; before += step) {
            Region part = *region;
            part.origin[axis] += before;
            part.extent[axis] = extent - before < step ? extent - before : step;
            if (!move_by_lane(thread, task, &part, rows + stride * before, checksum, error))
                return false;
        }
        return true;
    }
    if (task->write)
        return device->lane_out(thread->lane, rows, (size_t)bytes, error) && move_rows(task, region, thread->buffer, checksum, error);
    return move_rows(task, region, thread->buffer, checksum, error) && device->lane_in(thread->lane, rows, (size_t)bytes, error);
}

static bool move_piece(const StoreThread *thread, const Transfer *transfer, int64_t piece, uint64_t *checksum, Error *error) {
    const StoreTask *task = &transfer->task;
    Region region = task->region;
    int64_t before = piece * transfer->step, left = region.extent[transfer->axis] - before;
    region.origin[transfer->axis] += before;
    region.extent[transfer->axis] = left < transfer->step ? left : transfer->step;
    char *rows = (char *)task->rows + piece * transfer->step_bytes;
    if (piece == 0 && task->begun_ns != NULL)
        *task->begun_ns = clock_ns();
    if (task->copy != NULL) {
        size_t bytes = (size_t)(transfer->step_bytes / transfer->step * region.extent[transfer->axis]);
        memcpy(rows, (const char *)task->copy + piece * transfer->step_bytes, bytes);
        return true;
    }
    if (thread->lane != NULL)
        return move_by_lane(thread, task, &region, rows, checksum, error);
    return move_rows(task, &region, rows, checksum, error);
}

static bool is_written(const Store *store, const TensorFile *file) {
    for (int t = 0; t < store->thread_count; t++)
        if (store->threads[t].writing == file)
            return true;
    return false;
}

static bool may_write(const Store *store) {
    return store->revoked || store->lease_ms == UINT64_MAX || clock_boot_ms() < store->lease_ms;
}

/* A piece of the first transfer that can be worked on without waiting for another thread: the kernel lets only one write to a file at a time. */
static Transfer *take_from(const Store *store, Queue *queue, int64_t *piece) {
    Transfer **link = &queue->first, *transfer;
    if (*link != NULL && (*link)->task.write && !may_write(store))
        return NULL;
    while ((transfer = *link) != NULL && transfer->task.write && transfer->task.file->memory == NULL && is_written(store, transfer->task.file))
        link = &transfer->after;
    if (transfer == NULL)
        return NULL;
    *piece = transfer->next++;
    if (transfer->next == transfer->total) {
        *link = transfer->after;
        if (queue->end == &transfer->after)
            queue->end = link;
    }
    return transfer;
}

/* Waits for work; NULL when the store closes. Called with the mutex held. */
static Transfer *take_piece(StoreThread *thread, int64_t *piece) {
    Store *store = thread->store;
    Transfer *transfer;
    thread->writing = NULL;
    while ((transfer = take_from(store, &store->writes, piece)) == NULL && (transfer = take_from(store, &store->reads, piece)) == NULL) {
        if (store->closing)
            return NULL;
        pthread_cond_wait(&store->work, &store->mutex);
    }
    if (transfer->task.write)
        thread->writing = transfer->task.file;
    return transfer;
}

static void *work(void *context) {
    StoreThread *thread = context;
    Store *store = thread->store;
    int64_t piece;
    Transfer *transfer;
    pthread_mutex_lock(&store->mutex);
    while ((transfer = take_piece(thread, &piece)) != NULL) {
        if (transfer->task.write && store->revoked && !transfer->failed)
            transfer->failed = !error_set(&transfer->error, "the right to write has ended");
        bool skip = transfer->failed;
        pthread_mutex_unlock(&store->mutex);
        Error error;
        uint64_t checksum = 0;
        bool moved = skip || move_piece(thread, transfer, piece, &checksum, &error);
        pthread_mutex_lock(&store->mutex);
        transfer->checksum += checksum;
        if (!moved && !transfer->failed) {
            transfer->failed = true;
            transfer->error = error;
        }
        if (--transfer->left > 0)
            continue;
        uint32_t instruction = transfer->task.instruction;
        bool failed = transfer->failed;
        if (failed)
            error = transfer->error;
        if (transfer->task.checksum != NULL)
            *transfer->task.checksum = transfer->checksum;
        transfer->after = store->unused;
        store->unused = transfer;
        pthread_mutex_unlock(&store->mutex);
        store->done(store->context, instruction, failed ? &error : NULL);
        pthread_mutex_lock(&store->mutex);
    }
    pthread_mutex_unlock(&store->mutex);
    return NULL;
}

void store_submit(Store *store, const StoreTask *task) {
    pthread_mutex_lock(&store->mutex);
    Transfer *transfer = store->unused;
    store->unused = transfer->after;
    transfer->task = *task;
    transfer->failed = false;
    transfer->checksum = 0;
    transfer->after = NULL;
    cut(transfer);
    Queue *queue = task->write ? &store->writes : &store->reads;
    *queue->end = transfer;
    queue->end = &transfer->after;
    bool several = transfer->total > 1;
    pthread_mutex_unlock(&store->mutex);
    if (several)
        pthread_cond_broadcast(&store->work);
    else
        pthread_cond_signal(&store->work);
}

void store_lease(Store *store, uint64_t end_ms) {
    pthread_mutex_lock(&store->mutex);
    bool changes = store->lease_ms != end_ms;
    store->lease_ms = end_ms;
    pthread_mutex_unlock(&store->mutex);
    if (changes)
        pthread_cond_broadcast(&store->work);
}

void store_revoke(Store *store) {
    pthread_mutex_lock(&store->mutex);
    store->revoked = true;
    pthread_mutex_unlock(&store->mutex);
    pthread_cond_broadcast(&store->work);
}

void store_close(Store *store) {
    pthread_mutex_lock(&store->mutex);
    store->closing = true;
    pthread_mutex_unlock(&store->mutex);
    pthread_cond_broadcast(&store->work);
    for (int t = 0; t < store->thread_count; t++)
        pthread_join(store->threads[t].handle, NULL);
    for (int t = 0; t < store->thread_count; t++)
        if (store->threads[t].lane != NULL)
            store->device->lane_close(store->threads[t].lane);
    pthread_cond_destroy(&store->work);
    pthread_mutex_destroy(&store->mutex);
    free(store->threads);
    free(store->transfers);
    free(store);
}

static bool start(Store *store, Device *device, Error *error) {
    StoreThread *thread = &store->threads[store->thread_count];
    thread->store = store;
    if (device->type->lane_open != NULL) {
        thread->lane = device->type->lane_open(device, LANE_BYTES, &thread->buffer, error);
        if (thread->lane == NULL)
            return false;
    }
    if (thread_start(&thread->handle, "phb-store", work, thread, error)) {
        store->thread_count++;
        return true;
    }
    if (thread->lane != NULL)
        device->type->lane_close(thread->lane);
    return false;
}

Store *store_open(int threads, int capacity, Device *device, StoreDone *done, void *context, Error *error) {
    Store *store = new_zeroed(1, sizeof *store);
    store->done = done;
    store->context = context;
    store->device = device->type;
    store->lease_ms = UINT64_MAX;
    pthread_mutex_init(&store->mutex, NULL);
    pthread_cond_init(&store->work, NULL);
    store->transfers = new_zeroed((size_t)capacity, sizeof *store->transfers);
    for (int t = 0; t < capacity; t++) {
        store->transfers[t].after = store->unused;
        store->unused = &store->transfers[t];
    }
    store->reads.end = &store->reads.first;
    store->writes.end = &store->writes.first;
    store->threads = new_zeroed((size_t)threads, sizeof *store->threads);
    while (store->thread_count < threads)
        if (!start(store, device, error)) {
            store_close(store);
            return NULL;
        }
    return store;
}
