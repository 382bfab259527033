#define _GNU_SOURCE /* O_PATH */
#include "runtime/pod/examine.h"
#include "runtime/clock.h"
#include "runtime/net/curve.h"
#include "runtime/net/proof.h"
#include "runtime/net/socket.h"
#include "runtime/pod/transfer.h"
#include "runtime/task.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

enum { REACH_MS = 5000, ANSWER_MS = 5000, ROUND_TRIPS = 8, PROBES = 4 /* the first finds the window of the connection small and memory fresh */ };
enum { PIECE_BYTES = 256 << 10 }; /* which come soon over slow links as well */

#define READ_BYTES (INT64_C(64) << 20) /* of a file, at most, */
#define READ_MS 2000                   /* for no longer than this */

struct Examination {
    void *context;
    const Keys *keys;
    const Roots *roots;
    Examine *request;
    Examined *result;
    Task *task;
    atomic_bool stop; /* nobody waits for the result any more */
};

static bool goes_on(const Examination *examination, uint64_t until_ms) {
    return !atomic_load(&examination->stop) && clock_ms() < until_ms;
}

Examination *examination_new(void *context, const Keys *keys, const Roots *roots) {
    Examination *examination = new_zeroed(1, sizeof *examination);
    *examination = (Examination){.context = context, .keys = keys, .roots = roots};
    examination->request = new_zeroed(1, sizeof *examination->request);
    examination->result = new_zeroed(1, sizeof *examination->result);
    return examination;
}

/* ---- ways ---- */

typedef struct Way {
    void *socket, *watch;
    zmq_msg_t frame;
    WireMessage *message;
} Way;

static WayState way_open(const Examination *examination, const WirePeer *peer, Way *way) {
    Error ignored; /* an address that cannot be used: it is not reached */
    const char *key = examination->keys ? keys_of_name(examination->keys, peer->node) : NULL;
    if (examination->keys && !key)
        return WAY_KEYLESS;
    bool open = endpoint_check_connect(peer->endpoint, &ignored) &&
                (way->socket = socket_open(examination->context, ZMQ_DEALER, WIRE_TILE_BYTES, REACH_MS, &ignored)) &&
                (!examination->keys || curve_connect(way->socket, examination->keys, key, &ignored)) &&
                (way->watch = handshake_watch(examination->context, way->socket, &ignored)) && socket_connect(way->socket, peer->endpoint, &ignored);
    return open ? WAY_FINE : WAY_UNREACHED;
}

static void way_close(Way *way) {
    if (way->watch)
        handshake_unwatch(way->socket, way->watch);
    socket_close(way->socket);
}

/* Until it can be sent to, or there is no hope of that. */
static WayState way_reach(const Examination *examination, const Way *way) {
    for (uint64_t until = clock_ms() + REACH_MS; goes_on(examination, until);) {
        zmq_pollitem_t items[2] = {{.socket = way->socket, .events = ZMQ_POLLOUT}, {.socket = way->watch, .events = ZMQ_POLLIN}};
        zmq_poll(items, 2, 100);
        for (Handshake became; (became = handshake_next(way->watch)) != HANDSHAKE_NONE;)
            if (became == HANDSHAKE_REFUSED || became == HANDSHAKE_FOREIGN)
                return became == HANDSHAKE_REFUSED ? WAY_REFUSED : WAY_FOREIGN;
        if (items[0].revents & ZMQ_POLLOUT)
            return WAY_FINE;
    }
    return WAY_UNREACHED;
}

static void way_send_credit(Way *way, uint64_t transfer) {
    way->message->header = (WireHeader){.type = WIRE_CREDIT};
    way->message->credit = (Credit){.transfer = transfer, .credit = 1, .chunk = PIECE_BYTES};
    socket_send(way->socket, NULL, way->message, NULL, 0);
}

/* Asks for the first `rows` x `columns` bytes of the probe tile; *got counts what has come within the time, all of it or not. */
static WayState way_fetch(const Examination *examination, Way *way, uint64_t transfer, int64_t rows, int64_t columns, uint64_t *got) {
    uint64_t total = (uint64_t)(rows * columns);
    way->message->header = (WireHeader){.type = WIRE_FETCH};
    way->message->fetch =
        (Fetch){.transfer = transfer, .tensor = WIRE_PROBE_TENSOR, .extent = {rows, columns, 1, 1}, .credit = TRANSFER_CREDIT, .chunk = PIECE_BYTES};
    if (!socket_send(way->socket, NULL, way->message, NULL, 0))
        return WAY_SILENT;
    *got = 0;
    for (uint64_t until = clock_ms() + ANSWER_MS; *got < total && goes_on(examination, until);) {
        const uint8_t *bulk;
        size_t length;
        zmq_poll(&(zmq_pollitem_t){.socket = way->socket, .events = ZMQ_POLLIN}, 1, 100);
        while (socket_receive(way->socket, &way->frame, NULL) == RECEIVED_FRAME) {
            if (wire_decode(zmq_msg_data(&way->frame), zmq_msg_size(&way->frame), way->message, &bulk, &length) != WIRE_OK)
                return WAY_DAMAGED;
            if (way->message->header.type != WIRE_CHUNK || way->message->chunk.transfer != transfer)
                continue;
            if (way->message->chunk.offset != *got || XXH3_64bits(bulk, length) != way->message->chunk.hash)
                return WAY_DAMAGED;
            *got += length;
            way_send_credit(way, transfer);
        }
    }
    return *got > 0 ? WAY_FINE : WAY_SILENT;
}

static void examine_way(const Examination *examination, const WirePeer *peer, WireWay *result) {
    Way way = {.message = new_zeroed(1, sizeof(WireMessage))};
    uint64_t got = 0;
    zmq_msg_init(&way.frame);
    WayState state = way_open(examination, peer, &way);
    result->state = (uint8_t)(state == WAY_FINE ? way_reach(examination, &way) : state);
    for (uint64_t trip = 1; result->state == WAY_FINE && trip <= ROUND_TRIPS; trip++) {
        uint64_t begun = clock_ns();
        result->state = (uint8_t)way_fetch(examination, &way, trip, 1, 1, &got);
        uint64_t took = clock_ns() - begun;
        if (trip == 1 || took < result->round_trip_ns)
            result->round_trip_ns = took;
    }
    for (uint64_t probe = 1; result->state == WAY_FINE && probe <= PROBES; probe++) {
        uint64_t begun = clock_ns();
        result->state = (uint8_t)way_fetch(examination, &way, ROUND_TRIPS + probe, WIRE_PROBE_ROWS, WIRE_CHUNK_BYTES, &got);
        uint64_t rate = (uint64_t)((double)got * 1e9 / (double)(clock_ns() - begun + 1));
        if (rate > result->rate)
            result->rate = rate;
        if (got < WIRE_PROBE_ROWS * (uint64_t)WIRE_CHUNK_BYTES)
            break;
    }
    way_close(&way);
    zmq_msg_close(&way.frame);
    free(way.message);
}

/* ---- files ---- */

static uint64_t read_rate(const Examination *examination, int fd) {
    enum { PIECE = 1 << 20 };
    char *piece = new_zeroed(PIECE, 1);
    uint64_t begun = clock_ns(), until = clock_ms() + READ_MS;
    int64_t done = 0;
    ssize_t got;
    while (done < READ_BYTES && goes_on(examination, until) && (got = pread(fd, piece, PIECE, done)) > 0)
        done += got;
    free(piece);
    return (uint64_t)((double)done * 1e9 / (double)(clock_ns() - begun + 1));
}

/* 0 or an errno: whether a new file may lie beside `path`, which need not be there. */
static int try_folder(const Roots *roots, const char *path) {
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        return EINVAL;
    char *folder = format_text("%.*s/.", (int)(slash - path), path);
    int fd = roots_open_file(roots, folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int code = fd >= 0 && access(folder, W_OK | X_OK) == 0 ? 0 : errno;
    if (fd >= 0)
        close(fd);
    free(folder);
    return code;
}

static void examine_path(const Examination *examination, const WirePath *path, WireSight *sight) {
    if (path->written)
        sight->error = (uint32_t)try_folder(examination->roots, path->path);
    if (!path->read || sight->error != 0)
        return;
    struct stat status;
    TensorFile file = {.staging_fd = -1, .lock_fd = -1};
    file.old_fd = roots_open_file(examination->roots, path->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    int code = file.old_fd < 0 ? errno : fstat(file.old_fd, &status) != 0 ? errno : !S_ISREG(status.st_mode) ? EINVAL : 0;
    WireSeen seen = {.error = (uint32_t)code};
    if (code == 0) {
        proof_look(&file, 0, 0, &seen);
        sight->rate = read_rate(examination, file.old_fd);
    }
    sight->error = seen.error;
    sight->size = seen.size;
    sight->hash = seen.hash;
    if (file.old_fd >= 0)
        close(file.old_fd);
}

/* ---- all of it ---- */

static bool examine(void *context, Error *error) {
    Examination *examination = context;
    const Examine *request = examination->request;
    Examined *result = examination->result;
    (void)error; /* what fails is the result */
    result->token = request->token;
    result->ways_count = request->peers_count;
    result->sights_count = request->paths_count;
    for (uint32_t p = 0; p < request->peers_count && !atomic_load(&examination->stop); p++)
        if (p != request->node)
            examine_way(examination, &request->peers[p], &result->ways[p]);
    for (uint32_t p = 0; p < request->paths_count && !atomic_load(&examination->stop); p++)
        examine_path(examination, &request->paths[p], &result->sights[p]);
    return true;
}

bool examination_begin(Examination *examination, const Examine *request, Error *error) {
    if (examination->task || examination->result->token == request->token)
        return true;
    memcpy(examination->request, request, sizeof *request);
    memset(examination->result, 0, sizeof *examination->result);
    examination->task = task_start(examine, examination, error);
    return examination->task != NULL;
}

int examination_fd(const Examination *examination) {
    return examination->task ? task_fd(examination->task) : -1;
}

bool examination_ends(const Examination *examination, uint64_t until_ms) {
    return examination->task == NULL || task_ends(examination->task, until_ms);
}

bool examination_result(Examination *examination, Examined *result) {
    Error ignored;
    if (examination->task)
        task_end(examination->task, &ignored);
    examination->task = NULL;
    memcpy(result, examination->result, sizeof *result);
    return result->token != 0;
}

void examination_stop(Examination *examination) {
    atomic_store(&examination->stop, true);
}

void examination_free(Examination *examination) {
    Error ignored;
    if (examination == NULL)
        return;
    examination_stop(examination);
    if (examination->task)
        task_end(examination->task, &ignored);
    free(examination->request);
    free(examination->result);
    free(examination);
}
