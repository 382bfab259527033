/* A pod's store against plain loops of pread, and of pwrite with fdatasync, on one file: bytes a second, medians of alternating runs.
 *
 *   bench_storage [THREADS [RUNS]]      in BENCH_DIR, default the current folder; a ratio above 1: ours is faster */
#include "runtime/pod/pod.h"
#include "tests/bench/runs.h"

#include <fcntl.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIDE = 4096, FLYING = 8, PASSES = 8 }; /* f32: 64 MiB; a load is that of the file so many times */

/* Tiles that cut SIDE x SIDE elements. */
typedef struct Cut {
    const char *what;
    int rank;
    int64_t rows, columns; /* of a tile */
} Cut;

static const Cut cuts[] = {
    {"whole rows, 16 MiB", 1, 1024, SIDE},
    {"1024 x 1024", 2, 1024, 1024},
    {"1024 x 3000", 2, 1024, 3000},
};

typedef struct Bench {
    TensorFile file;
    const Cut *cut;
    Store *store;
    sem_t free; /* slots that nothing is in flight to */
    char *slots;
    int64_t slot_bytes, pitch;
} Bench;

static Device host = {&cpu_device};

static void note_end(void *context, uint32_t instruction, const Error *error) {
    (void)instruction;
    if (error != NULL) {
        fprintf(stderr, "bench_storage: %s\n", error->text);
        exit(1);
    }
    sem_post(&((Bench *)context)->free);
}

static void take_slot(Bench *bench) {
    while (sem_wait(&bench->free) != 0)
        continue;
}

static Region tile_at(const Bench *bench, int64_t row, int64_t column) {
    Region tile = {.extent = {1, 1, 1, 1}};
    int64_t rows = SIDE - row < bench->cut->rows ? SIDE - row : bench->cut->rows;
    int64_t columns = SIDE - column < bench->cut->columns ? SIDE - column : bench->cut->columns;
    if (bench->cut->rank == 1) {
        tile.origin[0] = row * SIDE;
        tile.extent[0] = rows * SIDE;
        return tile;
    }
    tile.origin[0] = row;
    tile.origin[1] = column;
    tile.extent[0] = rows;
    tile.extent[1] = columns;
    return tile;
}

/* Every tile, as a pod's engine asks for them. */
static void by_store(Bench *bench, bool write) {
    uint32_t next = 0;
    for (int64_t row = 0; row < SIDE; row += bench->cut->rows)
        for (int64_t column = 0; column < SIDE; column += bench->cut->columns) {
            take_slot(bench);
            StoreTask task = {.instruction = next % FLYING, .write = write, .file = &bench->file, .rank = bench->cut->rank, .element = 4};
            task.region = tile_at(bench, row, column);
            task.rows = bench->slots + next++ % FLYING * bench->slot_bytes;
            task.pitch = bench->pitch;
            store_submit(bench->store, &task);
        }
    for (int i = 0; i < FLYING; i++)
        take_slot(bench);
    for (int i = 0; i < FLYING; i++)
        sem_post(&bench->free);
}

static void move(int fd, bool write, char *bytes, int64_t size, int64_t offset) {
    while (size > 0) {
        ssize_t moved = write ? pwrite(fd, bytes, (size_t)size, offset) : pread(fd, bytes, (size_t)size, offset);
        if (moved <= 0) {
            perror("bench_storage");
            exit(1);
        }
        bytes += moved;
        offset += moved;
        size -= moved;
    }
}

/* The peer: one thread, 1 MiB a call or a call a row, tile after tile into the same slots. */
static void by_loop(Bench *bench, int fd, bool write) {
    uint32_t next = 0;
    for (int64_t row = 0; row < SIDE; row += bench->cut->rows)
        for (int64_t column = 0; column < SIDE; column += bench->cut->columns) {
            Region tile = tile_at(bench, row, column);
            char *slot = bench->slots + next++ % FLYING * bench->slot_bytes;
            int64_t bytes = 4 * tile.extent[0];
            for (int64_t at = 0; bench->cut->rank == 1 && at < bytes; at += 1 << 20)
                move(fd, write, slot + at, bytes - at < 1 << 20 ? bytes - at : 1 << 20, tile.origin[0] * 4 + at);
            for (int64_t r = 0; bench->cut->rank == 2 && r < tile.extent[0]; r++)
                move(fd, write, slot + r * bench->pitch, tile.extent[1] * 4, ((row + r) * SIDE + column) * 4);
        }
}

static int new_file(const char *path) {
    unlink(path);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        perror(path);
        exit(1);
    }
    return fd;
}

static double time_load(Bench *bench, const char *path, bool ours) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bench->file.old_fd = fd;
    double start = bench_now();
    for (int pass = 0; pass < PASSES; pass++)
        if (ours)
            by_store(bench, false);
        else
            by_loop(bench, fd, false);
    double seconds = (bench_now() - start) / PASSES;
    close(fd);
    return seconds;
}

/* A new file, its space taken before as a job does; to the disk. */
static double time_store(Bench *bench, const char *path, bool ours) {
    int fd = new_file(path);
    Error error;
    bench->file.staging_fd = fd;
    double start = bench_now();
    if (ours) {
        if (!space_take(&bench->file, tensor_file_bytes(&bench->file), &error))
            note_end(bench, 0, &error);
        by_store(bench, true);
    } else {
        by_loop(bench, fd, true);
    }
    if (fdatasync(fd) != 0) {
        perror("fdatasync");
        exit(1);
    }
    double seconds = bench_now() - start;
    close(fd);
    return seconds;
}

static void measure(Bench *bench, const char *path, bool write, int threads, int runs) {
    double ours[BENCH_MAX_RUNS], peer[BENCH_MAX_RUNS], ratios[BENCH_MAX_RUNS];
    for (int run = -1; run < runs; run++) {
        double a = write ? time_store(bench, path, true) : time_load(bench, path, true);
        double b = write ? time_store(bench, path, false) : time_load(bench, path, false);
        if (run < 0)
            continue;
        ours[run] = a;
        peer[run] = b;
        ratios[run] = b / a;
    }
    double bytes = 4.0 * SIDE * SIDE * 1e-9;
    printf("%s %-18s %d threads: %5.2f GB/s, %s %5.2f GB/s, ratio %.2f\n", write ? "store" : "load ", bench->cut->what, threads,
        bytes / bench_median(ours, runs), write ? "pwrite, fdatasync" : "pread", bytes / bench_median(peer, runs), bench_median(ratios, runs));
}

static void bench_cut(const Cut *cut, const char *path, int threads, int runs) {
    Bench bench = {.cut = cut, .file = {.path = (char *)path, .dtype = PHB_F32, .rank = cut->rank, .exists = true, .lock_fd = -1}};
    bench.file.shape[0] = cut->rank == 1 ? (int64_t)SIDE * SIDE : SIDE;
    bench.file.shape[1] = cut->rank == 1 ? 1 : SIDE;
    bench.file.shape[2] = bench.file.shape[3] = 1;
    bench.pitch = cut->rank == 1 ? cut->rows * cut->columns * 4 : (cut->columns * 4 + PHB_ROW_ALIGN - 1) / PHB_ROW_ALIGN * PHB_ROW_ALIGN;
    bench.slot_bytes = cut->rank == 1 ? bench.pitch : cut->rows * bench.pitch;
    bench.slots = aligned_alloc(2 << 20, (size_t)(FLYING * bench.slot_bytes + (2 << 20) - 1) / (2 << 20) * (2 << 20));
    Error error;
    sem_init(&bench.free, 0, FLYING);
    bench.store = store_open(threads, FLYING, &host, note_end, &bench, &error);
    if (bench.slots == NULL || bench.store == NULL) {
        fprintf(stderr, "bench_storage: %s\n", bench.slots == NULL ? "out of memory" : error.text);
        exit(1);
    }
    memset(bench.slots, 1, (size_t)(FLYING * bench.slot_bytes));
    int fd = new_file(path);
    for (int64_t at = 0; at < 4LL * SIDE * SIDE; at += 1 << 20)
        move(fd, true, bench.slots, 1 << 20, at);
    close(fd);
    measure(&bench, path, false, threads, runs);
    measure(&bench, path, true, threads, runs);
    store_close(bench.store);
    free(bench.slots);
    sem_destroy(&bench.free);
}

int main(int argc, char **argv) {
    int threads, runs;
    if (!bench_arguments(argc, argv, &threads, &runs))
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    const char *folder = getenv("BENCH_DIR");
    char *path = format_text("%s/bench_storage.%ld", folder != NULL ? folder : ".", (long)getpid());
    for (size_t c = 0; c < sizeof cuts / sizeof cuts[0]; c++)
        bench_cut(&cuts[c], path, threads, runs);
    unlink(path);
    free(path);
    return 0;
}
