/* A tile that travels between two tile planes over loopback TCP, against a plain socket that one thread writes to and another one reads from; and one
 * that a pod of the same host reads from the other's memory, against memcpy: bytes a second, medians of alternating runs.
 *
 *   bench_fetch [THREADS [RUNS]]        THREADS: processors; a ratio above 1: ours is faster */
#define _GNU_SOURCE /* memfd_create */
#include "runtime/net/socket.h"
#include "runtime/pod/tile_plane.h"
#include "tests/bench/runs.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TILES = 16, ROWS = 2048, COLUMNS = 2048 }; /* f32: 16 MiB each */

#define TILE_BYTES ((int64_t)ROWS * COLUMNS * 4)

static char *source, *target;
static int fetched;
static atomic_bool over;

static _Noreturn void fail(const char *what) {
    fprintf(stderr, "bench_fetch: %s\n", what);
    exit(1);
}

/* By a call that has set errno. */
static _Noreturn void fail_call(const char *call) {
    perror(call);
    exit(1);
}

/* ---- what the plane asks of a pod ---- */

static TileView view_of(char *rows) {
    return (TileView){.rows = rows, .pitch = COLUMNS * 4, .rank = 2, .element = 4, .extent = {ROWS, COLUMNS, 1, 1}};
}

ShelfState pod_want(Pod *pod, int tensor, const int64_t at[COORDINATES], int64_t *place, TileView *tile) {
    (void)pod;
    (void)tensor;
    *place = at[0];
    *tile = view_of(source);
    return SHELF_HERE;
}

void pod_fetched(Pod *pod, uint32_t instruction) {
    (void)pod;
    (void)instruction;
    fetched++;
}

void pod_load(Pod *pod, uint32_t instruction) {
    (void)pod;
    (void)instruction;
    fail("a tile was not fetched");
}

/* ---- what it asks of the rounds of a job of several steps: one tensor of all tiles ---- */

static int memory = -1;
static char *shared;

bool rounds_view(const Rounds *rounds, const Kept *kept, uint32_t tensor, TileView *view) {
    (void)rounds;
    (void)tensor;
    *view = view_of(kept->memory);
    view->extent[0] *= TILES;
    return true;
}

int rounds_shared(const Rounds *rounds) {
    (void)rounds;
    return memory;
}

bool rounds_map(const Rounds *rounds, int fd, Kept *kept) {
    (void)rounds;
    *kept = (Kept){.bytes = TILES * TILE_BYTES, .fd = -1};
    kept->memory = mmap(NULL, (size_t)kept->bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
    return kept->memory != MAP_FAILED;
}

/* ---- ours ---- */

static void turn(TilePlane *plane) {
    zmq_pollitem_t items[8];
    tile_plane_poll(plane, items);
    zmq_poll(items, tile_plane_poll_count(plane), 100);
    tile_plane_turn(plane);
}

static void *serve(void *plane) {
    while (!atomic_load(&over))
        turn(plane);
    return NULL;
}

static double time_plane(TilePlane *plane) {
    double start = bench_now();
    fetched = 0;
    for (uint32_t t = 0; t < TILES; t++) {
        FetchRequest request = {.tag = t, .tile = {t}, .into = view_of(target), .region = {.extent = {ROWS, COLUMNS, 1, 1}}};
        if (!tile_plane_fetch(plane, &request))
            fail("a tile is not to be fetched");
    }
    while (fetched < TILES)
        turn(plane);
    return bench_now() - start;
}

/* The eventfd of a pod that has work would end the wait; here nobody else is waited for once the memory is there. */
static double time_near(TilePlane *plane) {
    double start = bench_now();
    fetched = 0;
    for (uint32_t t = 0; t < TILES; t++) {
        Region region = {.origin = {t * ROWS}, .extent = {ROWS, COLUMNS, 1, 1}};
        tile_plane_gather(plane, &(FetchRequest){.tag = t, .peer = 1, .into = view_of(target), .region = region, .apart = true});
    }
    for (tile_plane_turn(plane); fetched < TILES;)
        turn(plane);
    return bench_now() - start;
}

static double time_memcpy(void) {
    double start = bench_now();
    for (int t = 0; t < TILES; t++)
        memcpy(target, shared + t * TILE_BYTES, TILE_BYTES);
    return bench_now() - start;
}

/* ---- the peer ---- */

static int sockets[2];

static void *write_all(void *context) {
    (void)context;
    for (int t = 0; t < TILES; t++)
        for (int64_t at = 0; at < TILE_BYTES;) {
            ssize_t written = send(sockets[0], source + at, (size_t)(TILE_BYTES - at < 1 << 19 ? TILE_BYTES - at : 1 << 19), 0);
            if (written <= 0)
                fail_call("send");
            at += written;
        }
    return NULL;
}

static void connect_sockets(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockets[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) != 0 || connect(sockets[0], (struct sockaddr *)&address, size) != 0 ||
        (sockets[1] = accept(listener, NULL, NULL)) < 0)
        fail_call("socket");
    close(listener);
}

static double time_sockets(void) {
    pthread_t writer;
    double start = bench_now();
    if (pthread_create(&writer, NULL, write_all, NULL) != 0)
        fail("cannot start a thread");
    for (int t = 0; t < TILES; t++)
        for (int64_t at = 0; at < TILE_BYTES;) {
            ssize_t got = recv(sockets[1], target + at, (size_t)(TILE_BYTES - at < 1 << 19 ? TILE_BYTES - at : 1 << 19), 0);
            if (got < 0)
                fail_call("recv");
            if (got == 0)
                fail("the writer's end is closed");
            at += got;
        }
    double seconds = bench_now() - start;
    pthread_join(writer, NULL);
    return seconds;
}

/* ---- both ---- */

static TilePlane *open_plane(void *context, Peers *peers, char *bound, size_t size) {
    Error error;
    TilePlane *plane = context ? tile_plane_open(context, NULL, DEFAULT_POD_ENDPOINT, "bench", LOG_ERROR, bound, size, &error) : NULL;
    if (!plane)
        fail("cannot listen");
    static const uint8_t job_id[16];
    static char pod; /* which nobody looks at */
    if (peers->peers[0].endpoint[0] == '\0')
        memcpy(peers->peers[0].endpoint, bound, size);
    tile_plane_join(plane, (Pod *)&pod, job_id, peers, TILES);
    return plane;
}

static void report(const char *what, const char *peer, int threads, int runs, double *ours, double *theirs) {
    double bytes = 1e-9 * TILES * TILE_BYTES, ratios[BENCH_MAX_RUNS];
    for (int run = 0; run < runs; run++)
        ratios[run] = theirs[run] / ours[run];
    printf("%s, %d processors: %.2f GB/s, %s %.2f GB/s, ratio %.2f\n", what, threads, bytes / bench_median(ours, runs), peer,
        bytes / bench_median(theirs, runs), bench_median(ratios, runs));
}

static void join_near(TilePlane *plane, uint32_t node) {
    static Peers peers;
    static const uint8_t job_id[16];
    static char rounds, pod; /* which nobody looks at */
    peers = (Peers){.node = node, .peers_count = 2};
    peers.peers[1 - node].near = true;
    memcpy(peers.peers[1 - node].endpoint, "tcp://127.0.0.1:9", sizeof "tcp://127.0.0.1:9"); /* where nobody is */
    tile_plane_join_rounds(plane, (const Rounds *)&rounds, job_id, (uint32_t)getpid(), &peers);
    tile_plane_serve(plane, (Pod *)&pod);
}

static void compare_near(void *context, int threads, int runs) {
    Error error;
    TilePlane *planes[2];
    double ours[BENCH_MAX_RUNS], peer[BENCH_MAX_RUNS];
    memory = memfd_create("bench", MFD_CLOEXEC);
    shared = memory >= 0 && ftruncate(memory, TILES * TILE_BYTES) == 0 ? mmap(NULL, TILES * TILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0)
                                                                       : MAP_FAILED;
    if (shared == MAP_FAILED)
        fail("out of memory");
    memset(shared, 3, TILES * TILE_BYTES);
    for (uint32_t node = 0; node < 2; node++) {
        char bound[256];
        planes[node] = tile_plane_open(context, NULL, DEFAULT_POD_ENDPOINT, "bench", LOG_ERROR, bound, sizeof bound, &error);
        if (!planes[node])
            fail("cannot listen");
        join_near(planes[node], node);
    }
    pthread_t serving;
    atomic_store(&over, false);
    if (pthread_create(&serving, NULL, serve, planes[1]) != 0)
        fail("cannot start a thread");
    time_near(planes[0]);
    if (memcmp(shared, target, TILE_BYTES) != 0)
        fail("other bytes came");
    time_memcpy();
    for (int run = 0; run < runs; run++) {
        ours[run] = time_near(planes[0]);
        peer[run] = time_memcpy();
    }
    report("fetch on one host", "memcpy", threads, runs, ours, peer);
    atomic_store(&over, true);
    pthread_join(serving, NULL);
    for (int node = 0; node < 2; node++)
        tile_plane_close(planes[node]);
    munmap(shared, TILES * TILE_BYTES);
    close(memory);
}

int main(int argc, char **argv) {
    int threads, runs;
    if (!bench_arguments(argc, argv, &threads, &runs))
        return 2;
    source = aligned_alloc(4096, TILE_BYTES);
    target = aligned_alloc(4096, TILE_BYTES);
    Peers *peers = new_zeroed(1, sizeof *peers);
    if (!source || !target)
        fail("out of memory");
    memset(source, 1, TILE_BYTES);
    memset(target, 2, TILE_BYTES);
    peers->peers_count = 1;
    Error error;
    char bound[256];
    void *contexts[2] = {socket_context_new(&error), socket_context_new(&error)};
    TilePlane *server = open_plane(contexts[0], peers, bound, sizeof bound), *fetcher = open_plane(contexts[1], peers, (char[256]){""}, 256);
    pthread_t serving;
    if (pthread_create(&serving, NULL, serve, server) != 0)
        fail("cannot start a thread");
    connect_sockets();
    double ours[BENCH_MAX_RUNS], peer[BENCH_MAX_RUNS];
    time_plane(fetcher);
    if (memcmp(source, target, TILE_BYTES) != 0)
        fail("other bytes came");
    time_sockets();
    for (int run = 0; run < runs; run++) {
        ours[run] = time_plane(fetcher);
        peer[run] = time_sockets();
    }
    report("fetch over loopback TCP", "a plain socket", threads, runs, ours, peer);
    atomic_store(&over, true);
    pthread_join(serving, NULL);
    tile_plane_close(fetcher);
    tile_plane_close(server);
    compare_near(contexts[0], threads, runs);
    socket_context_free(contexts[1]);
    socket_context_free(contexts[0]);
    free(peers);
    free(source);
    free(target);
    return 0;
}
