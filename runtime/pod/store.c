#include "runtime/pod/pod.h"
#include "runtime/thread.h"

#include <stdlib.h>

#define PIECE_BYTES (INT64_C(1) << 20) /* what one thread moves at once: large enough for the call not to count, small enough to share a tile */

/* A task in flight, cut along one axis of its region into pieces. */
typedef struct Transfer Transfer;
struct Transfer {
    StoreTask task;
    int axis;
    int64_t step;              /* extent of a piece along the axis; the last may be smaller */
    int64_t step_bytes;        /* between pieces in memory */
    int64_t next, left, total; /* pieces: the first not dealt, those not ended, all */
    bool failed;
    Error error;
    Transfer *after; /* in a queue, or among the unused */
};

typedef struct Queue {
    Transfer *first, *last; /* with pieces to deal */
} Queue;

struct Store {
    StoreDone *done;
    void *context;
    pthread_t *threads;
    int thread_count;

    pthread_mutex_t mutex; /* guards what follows, and what of a transfer changes */
    pthread_cond_t work;
    Transfer *transfers, *unused;
    Queue reads, writes;
    bool closing;
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
    transfer->step = PIECE_BYTES / stride;
    if (transfer->step < 1)
        transfer->step = 1;
    transfer->step_bytes = transfer->step * stride;
    transfer->total = transfer->left = (extent + transfer->step - 1) / transfer->step;
    transfer->next = 0;
}

static bool move_piece(const Transfer *transfer, int64_t piece, Error *error) {
    const StoreTask *task = &transfer->task;
    Region region = task->region;
    int64_t before = piece * transfer->step, left = region.extent[transfer->axis] - before;
    region.origin[transfer->axis] += before;
    region.extent[transfer->axis] = left < transfer->step ? left : transfer->step;
    char *rows = (char *)task->rows + piece * transfer->step_bytes;
    if (task->write)
        return tensor_file_write(task->file, &region, rows, task->pitch, error);
    return tensor_file_read(task->file, &region, rows, task->pitch, error);
}

/* Waits for work; NULL when the store closes. Called with the mutex held. */
static Transfer *take_piece(Store *store, int64_t *piece) {
    while (store->writes.first == NULL && store->reads.first == NULL && !store->closing)
        pthread_cond_wait(&store->work, &store->mutex);
    Queue *queue = store->writes.first != NULL ? &store->writes : &store->reads;
    Transfer *transfer = queue->first;
    if (transfer == NULL)
        return NULL;
    *piece = transfer->next++;
    if (transfer->next == transfer->total)
        queue->first = transfer->after;
    return transfer;
}

static void *work(void *context) {
    Store *store = context;
    int64_t piece;
    Transfer *transfer;
    pthread_mutex_lock(&store->mutex);
    while ((transfer = take_piece(store, &piece)) != NULL) {
        bool skip = transfer->failed;
        pthread_mutex_unlock(&store->mutex);
        Error error;
        bool moved = skip || move_piece(transfer, piece, &error);
        pthread_mutex_lock(&store->mutex);
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
    transfer->after = NULL;
    cut(transfer);
    Queue *queue = task->write ? &store->writes : &store->reads;
    if (queue->first == NULL)
        queue->first = transfer;
    else
        queue->last->after = transfer;
    queue->last = transfer;
    bool several = transfer->total > 1;
    pthread_mutex_unlock(&store->mutex);
    if (several)
        pthread_cond_broadcast(&store->work);
    else
        pthread_cond_signal(&store->work);
}

void store_close(Store *store) {
    pthread_mutex_lock(&store->mutex);
    store->closing = true;
    pthread_mutex_unlock(&store->mutex);
    pthread_cond_broadcast(&store->work);
    for (int t = 0; t < store->thread_count; t++)
        pthread_join(store->threads[t], NULL);
    pthread_cond_destroy(&store->work);
    pthread_mutex_destroy(&store->mutex);
    free(store->threads);
    free(store->transfers);
    free(store);
}

Store *store_open(int threads, int capacity, StoreDone *done, void *context, Error *error) {
    Store *store = new_zeroed(1, sizeof *store);
    store->done = done;
    store->context = context;
    pthread_mutex_init(&store->mutex, NULL);
    pthread_cond_init(&store->work, NULL);
    store->transfers = new_zeroed((size_t)capacity, sizeof *store->transfers);
    for (int t = 0; t < capacity; t++) {
        store->transfers[t].after = store->unused;
        store->unused = &store->transfers[t];
    }
    store->threads = new_zeroed((size_t)threads, sizeof *store->threads);
    for (; store->thread_count < threads; store->thread_count++) {
        if (!thread_start(&store->threads[store->thread_count], "phb-store", work, store, error)) {
            store_close(store);
            return NULL;
        }
    }
    return store;
}
