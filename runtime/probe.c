/* How fast the job's files are read and written, and fresh memory is taken. */
#define _GNU_SOURCE /* O_TMPFILE, fallocate */
#include "runtime/clock.h"
#include "runtime/thread.h"
#include "runtime/tune.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define PROBE_BYTES ((size_t)48 << 20)  /* moved each way */
#define PROBE_BUFFER ((size_t)24 << 20) /* and through so much memory, as tiles in flight take */
#define PIECE ((size_t)1 << 20)
#define SHORT_READS 2048
#define MAX_THREADS 64

/* One of several threads, each of which moves the pieces number first, first + step, ... */
typedef struct Mover {
    pthread_t handle;
    int fd;
    off_t size; /* of the file: what is longer begins again */
    char *buffer;
    size_t first, step, moved;
} Mover;

static void *read_pieces(void *context) {
    Mover *mover = context;
    size_t pieces = PROBE_BYTES / PIECE;
    for (size_t p = mover->first; p < pieces; p += mover->step) {
        off_t at = (off_t)(p * PIECE) % (mover->size > (off_t)PIECE ? mover->size / (off_t)PIECE * (off_t)PIECE : 1);
        ssize_t got = pread(mover->fd, mover->buffer + p * PIECE % PROBE_BUFFER, PIECE, at);
        if (got <= 0)
            break;
        mover->moved += (size_t)got;
    }
    return NULL;
}

/* Bytes a second that each of `threads` threads reads while the others do so as well; 0 where nothing could be read. */
static double probe_read(int fd, int threads, char *buffer, bool *cached) {
    Mover movers[MAX_THREADS];
    struct rusage before, after;
    Error ignored;
    off_t size = lseek(fd, 0, SEEK_END);
    int started = 0;
    size_t moved = 0;
    getrusage(RUSAGE_SELF, &before);
    double begun = clock_seconds();
    for (; started < threads; started++) {
        movers[started] = (Mover){.fd = fd, .size = size, .buffer = buffer, .first = (size_t)started, .step = (size_t)threads};
        if (!thread_start(&movers[started].handle, "phb-probe", read_pieces, &movers[started], &ignored))
            break;
    }
    for (int t = 0; t < started; t++) {
        pthread_join(movers[t].handle, NULL);
        moved += movers[t].moved;
    }
    double seconds = clock_seconds() - begun;
    getrusage(RUSAGE_SELF, &after);
    *cached = (size_t)(after.ru_inblock - before.ru_inblock) * 512 < moved / 2;
    return moved > 0 ? (double)moved / seconds / started : 0;
}

/* Seconds that a short read takes. */
static double probe_call(int fd, char *buffer) {
    off_t size = lseek(fd, 0, SEEK_END);
    double begun = clock_seconds();
    for (int i = 0; i < SHORT_READS; i++)
        if (pread(fd, buffer + i * 64, 64, (off_t)i * 4096 % (size > 4096 ? size : 1)) < 0)
            return 0;
    return (clock_seconds() - begun) / SHORT_READS;
}

/* With the space taken as it is for outputs. */
static double probe_write(int fd, const char *buffer) {
    size_t done = 0;
    double begun = clock_seconds();
    while (done < PROBE_BYTES) {
        if (fallocate(fd, 0, (off_t)done, (off_t)PIECE) != 0 && errno != EOPNOTSUPP && errno != ENOSYS)
            break;
        ssize_t moved = pwrite(fd, buffer + done % PROBE_BUFFER, PIECE, (off_t)done);
        if (moved <= 0)
            break;
        done += (size_t)moved;
    }
    return done > 0 ? (double)done / (clock_seconds() - begun) : 0;
}

static double probe_output(const TensorFile *file, const char *buffer) {
    char *folder = format_text("%s", file->path), *slash = strrchr(folder, '/');
    if (slash != NULL)
        slash[slash == folder] = '\0';
    int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    double written = fd >= 0 ? probe_write(fd, buffer) : 0;
    if (fd >= 0)
        close(fd);
    free(folder);
    return written;
}

/* Where the job's files are: an input is read, and a nameless file beside an output written. What cannot be measured stays assumed. */
void probe_files(const Job *job, int threads, Model *model) {
    double read = 0, written = 0;
    bool cached = false;
    char *buffer = mmap(NULL, PROBE_BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (buffer == MAP_FAILED)
        return;
    madvise(buffer, PROBE_BUFFER, MADV_HUGEPAGE); /* as tiles have it */
    double begun = clock_seconds();
    memset(buffer, 1, PROBE_BUFFER);
    model->fresh_bw = (double)PROBE_BUFFER / (clock_seconds() - begun);
    for (int t = 0; t < job->kernel->tensor_count; t++) {
        const TensorFile *file = &job->tensors[t];
        if (file->old_fd >= 0 && read <= 0) {
            model->call = probe_call(file->old_fd, buffer);
            read = probe_read(file->old_fd, threads < MAX_THREADS ? threads : MAX_THREADS, buffer, &cached);
        }
        if (job_writes(job, t) && written <= 0 && file->path != NULL)
            written = probe_output(file, buffer);
    }
    munmap(buffer, PROBE_BUFFER);
    if (read > 0) {
        model->read_bw = read;
        model->read_from = FIGURE_MEASURED;
        model->cached = cached;
    }
    if (written > 0) {
        model->write_bw = written;
        model->write_from = FIGURE_MEASURED;
    }
}
