#include "runtime/pod/tile_plane.h"
#include "runtime/clock.h"
#include "runtime/net/curve.h"
#include "runtime/net/socket.h"
#include "runtime/pod/neighbour.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SOCKET_DEAD_MS = 10000, GATHERED_AT_ONCE = 256, MOST_CHUNKS = 16, LOOK_MS = 500, NEAR_MS = 1000 };

/* How far it has come with what lives in a pod of the same host. */
typedef enum Nearness {
    NEAR_NOT, /* it comes by the network */
    NEAR_TO_ASK,
    NEAR_ASKED, /* `asked` is open */
    NEAR_HERE   /* it lies at `kept` */
} Nearness;

/* Whom tiles are fetched from. */
typedef struct Source {
    char endpoint[256], node[KEY_NAME];
    void *socket; /* DEALER; NULL: nothing was asked for yet */
    bool near;    /* of this host: what is at home there is as near in its file */
    bool unsent;  /* it could not take what was sent: there is no connection yet, or no more */
    Nearness nearness;
    uint64_t near_ms; /* since when it is to be asked, or was; 0: nothing was wanted yet */
    int asked;
    Kept kept;
} Source;

struct TilePlane {
    void *context;
    const Keys *keys;
    const char *node;
    LogLevel log;
    void *router; /* serves our tiles */
    Serve *serve;
    Pod *pod; /* NULL: nothing is there to be served yet */
    uint8_t job_id[16];
    FetchPlane *fetches;
    const Rounds *rounds;  /* of a job of several steps, */
    uint32_t plan_epoch;   /* and with which pods */
    int listener;          /* where pods of this host ask for what lives here, or -1 */
    NeighbourName name;
    FetchRequest *waiting; /* pieces that could not be asked for yet, in their order */
    size_t waiting_count, waiting_capacity;
    Source *sources; /* by node */
    uint32_t source_count;
    WireMessage *inbox, *outbox;
    zmq_msg_t frame;
    uint64_t looked_ms; /* last, whether descriptors are left */
    bool crowded;       /* there were none */
    bool said_unshared; /* why tiles of this host are not shared */
    bool failed;        /* of rounds, `failure` */
    Error failure;
};

__attribute__((format(printf, 3, 4))) static void say(const TilePlane *plane, LogLevel level, const char *format, ...) {
    if (level > plane->log)
        return;
    fprintf(stderr, "pod %s: ", plane->node);
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

/* Of one connection, as long as the other side does not take them, or this one. */
static bool bound_chunks(void *socket, int option, Error *error) {
    return zmq_setsockopt(socket, option, &(int){MOST_CHUNKS}, sizeof(int)) == 0 ||
           error_set(error, "cannot set up a socket: %s", zmq_strerror(zmq_errno()));
}

/* What lives in other pods is to be had nowhere else. */
static void fail(TilePlane *plane, const Error *error) {
    if (plane->rounds == NULL || plane->failed)
        return;
    plane->failed = true;
    plane->failure = *error;
}

/* Where descriptors are used up, others connect in vain, and ZeroMQ tells nobody. */
static void look_for_files(TilePlane *plane) {
    Error error;
    if (clock_ms() - plane->looked_ms < LOOK_MS)
        return;
    plane->looked_ms = clock_ms();
    bool crowded = !socket_has_files(&error);
    if (crowded)
        fail(plane, &error);
    if (crowded && !plane->crowded)
        say(plane, LOG_WARNING, "warning: %s: who comes now is let in when others have gone (ulimit -n)", error.text);
    plane->crowded = crowded;
}

TilePlane *tile_plane_open(void *context, const Keys *keys, const char *listen, const char *node, LogLevel log, char *bound, size_t bound_size, Error *error) {
    TilePlane *plane = new_zeroed(1, sizeof *plane);
    *plane = (TilePlane){.context = context, .keys = keys, .node = node, .log = log, .listener = -1};
    plane->serve = serve_new();
    plane->inbox = new_zeroed(1, sizeof *plane->inbox);
    plane->outbox = new_zeroed(1, sizeof *plane->outbox);
    zmq_msg_init(&plane->frame);
    plane->router = socket_open(context, ZMQ_ROUTER, WIRE_REQUEST_BYTES, SOCKET_DEAD_MS, error);
    if (plane->router != NULL && bound_chunks(plane->router, ZMQ_SNDHWM, error) && (keys == NULL || curve_serve(plane->router, keys, error)) &&
        socket_bind(plane->router, listen, bound, bound_size, error) && (keys == NULL || curve_self_test(context, bound, keys, error)))
        return plane;
    tile_plane_close(plane);
    return NULL;
}

static void source_close(Source *source) {
    socket_close(source->socket);
    if (source->nearness == NEAR_ASKED)
        close(source->asked);
    if (source->nearness == NEAR_HERE)
        kept_close(&source->kept);
    *source = (Source){.socket = NULL};
}

static void close_sources(TilePlane *plane) {
    for (uint32_t s = 0; s < plane->source_count; s++)
        source_close(&plane->sources[s]);
    free(plane->sources);
    plane->sources = NULL;
    plane->source_count = 0;
    if (plane->listener >= 0)
        close(plane->listener);
    plane->listener = -1;
}

void tile_plane_close(TilePlane *plane) {
    if (plane == NULL)
        return;
    socket_close(plane->router);
    close_sources(plane);
    free(plane->waiting);
    serve_free(plane->serve);
    fetch_free(plane->fetches);
    zmq_msg_close(&plane->frame);
    free(plane->inbox);
    free(plane->outbox);
    free(plane);
}

void tile_plane_join(TilePlane *plane, Pod *pod, const uint8_t job_id[16], const Peers *peers, uint32_t instructions) {
    plane->pod = pod;
    memcpy(plane->job_id, job_id, sizeof plane->job_id);
    plane->source_count = peers->peers_count;
    plane->sources = new_zeroed(peers->peers_count, sizeof *plane->sources);
    for (uint32_t s = 0; s < peers->peers_count; s++) {
        memcpy(plane->sources[s].endpoint, peers->peers[s].endpoint, sizeof plane->sources[s].endpoint);
        memcpy(plane->sources[s].node, peers->peers[s].node, sizeof plane->sources[s].node);
        plane->sources[s].near = peers->peers[s].near;
    }
    plane->fetches = fetch_new((int)instructions, peers->peers_count);
}

void tile_plane_leave(TilePlane *plane) {
    close_sources(plane); /* what comes late goes nowhere */
    fetch_free(plane->fetches);
    serve_free(plane->serve);
    plane->fetches = NULL;
    plane->serve = serve_new();
    plane->pod = NULL;
    plane->rounds = NULL;
    plane->waiting_count = 0;
    plane->failed = false;
}

const Error *tile_plane_failure(const TilePlane *plane) {
    return plane->failed ? &plane->failure : NULL;
}

/* With the pods of this host. */
static void share(TilePlane *plane) {
    int cause = rounds_unshared(plane->rounds);
    if (rounds_shared(plane->rounds) >= 0 && (plane->listener = neighbour_listen(&plane->name)) < 0)
        cause = errno;
    if (cause == 0 || plane->said_unshared)
        return;
    plane->said_unshared = true;
    say(plane, LOG_WARNING, "warning: other pods of this host read what lives here by the network, not from its memory: %s", strerror(cause));
}

void tile_plane_join_rounds(TilePlane *plane, const Rounds *rounds, const uint8_t job_id[16], uint32_t plan_epoch, const Peers *peers) {
    tile_plane_leave(plane);
    plane->rounds = rounds;
    plane->plan_epoch = plan_epoch;
    tile_plane_join(plane, NULL, job_id, peers, GATHERED_AT_ONCE);
    plane->name = (NeighbourName){.plan_epoch = plan_epoch, .node = peers->node};
    memcpy(plane->name.job_id, job_id, sizeof plane->name.job_id);
    share(plane);
    for (uint32_t s = 0; s < peers->peers_count; s++)
        plane->sources[s].nearness = peers->peers[s].near ? NEAR_TO_ASK : NEAR_NOT;
}

void tile_plane_serve(TilePlane *plane, Pod *pod) {
    plane->pod = pod;
}

/* ---- serving ---- */

/* What another pod has of what lives here. It asks for what an earlier round has written, and that has ended everywhere. */
static void take_gather(TilePlane *plane, uint64_t connection) {
    const Fetch *fetch = &plane->inbox->fetch;
    TileView view;
    bool same = memcmp(plane->inbox->header.job_id, plane->job_id, sizeof plane->job_id) == 0;
    if (!same || fetch->token != plane->plan_epoch)
        serve_fetch(plane->serve, connection, fetch, NULL, FETCH_NOT_YET, clock_ms()); /* who is first to hear that all begin again asks too early */
    else if (rounds_view(plane->rounds, NULL, fetch->tensor, &view))
        serve_fetch(plane->serve, connection, fetch, &view, FETCH_GONE, clock_ms());
    else
        serve_fetch(plane->serve, connection, fetch, NULL, FETCH_GONE, clock_ms());
}

static void take_fetch(TilePlane *plane, uint64_t connection) {
    const Fetch *fetch = &plane->inbox->fetch;
    int64_t place;
    TileView tile;
    if (fetch->tensor == WIRE_PROBE_TENSOR) {
        static uint8_t row[WIRE_CHUNK_BYTES]; /* zeros, and all rows are this one */
        tile = (TileView){.rows = row, .pitch = 0, .rank = 2, .element = 1, .extent = {WIRE_PROBE_ROWS, WIRE_CHUNK_BYTES, 1, 1}};
        serve_fetch(plane->serve, connection, fetch, &tile, FETCH_GONE, clock_ms());
        return;
    }
    if (plane->rounds != NULL) {
        take_gather(plane, connection);
        return;
    }
    if (plane->pod == NULL) {
        serve_fetch(plane->serve, connection, fetch, NULL, FETCH_NOT_YET, clock_ms());
        return;
    }
    if (memcmp(plane->inbox->header.job_id, plane->job_id, sizeof plane->job_id) != 0) {
        serve_fetch(plane->serve, connection, fetch, NULL, FETCH_STRANGER, clock_ms());
        return;
    }
    switch (pod_want(plane->pod, fetch->tensor < PHB_MAX_PARAMS ? (int)fetch->tensor : PHB_MAX_PARAMS, fetch->tile, &place, &tile)) {
    case SHELF_COMING:
        serve_await(plane->serve, connection, fetch, place, clock_ms());
        break;
    case SHELF_HERE:
        serve_fetch(plane->serve, connection, fetch, &tile, FETCH_GONE, clock_ms());
        break;
    case SHELF_ELSEWHERE:
    case SHELF_BROKEN:
        serve_fetch(plane->serve, connection, fetch, NULL, FETCH_GONE, clock_ms());
        break;
    }
}

static void send_served(TilePlane *plane) {
    ServeAction action;
    while (serve_next(plane->serve, &action)) {
        Route route = route_of(action.connection);
        WireMessage *message = plane->outbox;
        if (action.kind == SERVE_REFUSE) {
            message->header = (WireHeader){.type = WIRE_FETCH_REFUSED};
            message->fetch_refused = (FetchRefused){.transfer = action.transfer, .code = (uint16_t)action.code};
            if (!socket_send(plane->router, &route, message, NULL, 0) && zmq_errno() == EAGAIN)
                serve_blocked(plane->serve, &action);
            continue;
        }
        zmq_msg_t frame;
        void *bulk;
        message->header = (WireHeader){.type = WIRE_CHUNK};
        message->chunk = (Chunk){.transfer = action.transfer, .offset = action.offset, .total = action.total};
        if (!socket_make_bulk(&frame, message, action.length, &bulk))
            continue; /* as if it were lost on the way */
        tile_pack(&action.tile, &action.region, action.offset, action.length, bulk);
        message->chunk.hash = XXH3_64bits(bulk, action.length);
        if (!socket_send_bulk(plane->router, &route, message, &frame, action.length) && zmq_errno() == EAGAIN)
            serve_blocked(plane->serve, &action);
    }
}

static void take_requests(TilePlane *plane) {
    Route route;
    ReceiveResult result;
    while ((result = socket_receive(plane->router, &plane->frame, &route)) != RECEIVED_NOTHING) {
        if (result == RECEIVED_JUNK || wire_decode(zmq_msg_data(&plane->frame), zmq_msg_size(&plane->frame), plane->inbox, NULL, NULL))
            continue;
        if (plane->inbox->header.type == WIRE_FETCH)
            take_fetch(plane, route_connection(&route));
        else if (plane->inbox->header.type == WIRE_CREDIT)
            serve_credit(plane->serve, route_connection(&route), &plane->inbox->credit, clock_ms());
    }
}

void tile_plane_shelved(TilePlane *plane, int64_t place, const TileView *tile) {
    serve_ready(plane->serve, place, tile);
}

/* ---- fetching ---- */

static bool fetch_from(TilePlane *plane, const FetchRequest *request);

static void wait_to_gather(TilePlane *plane, const FetchRequest *request) {
    if (plane->waiting_count == plane->waiting_capacity) {
        size_t capacity = plane->waiting_capacity > 0 ? 2 * plane->waiting_capacity : 64;
        FetchRequest *waiting = new_zeroed(capacity, sizeof *waiting);
        if (plane->waiting_count > 0)
            memcpy(waiting, plane->waiting, plane->waiting_count * sizeof *waiting);
        free(plane->waiting);
        plane->waiting = waiting;
        plane->waiting_capacity = capacity;
    }
    plane->waiting[plane->waiting_count++] = *request;
}

/* From the tile's home, where it was to come from who passes it on, else from its file. */
static void fetch_elsewhere(TilePlane *plane, const Source *source, const FetchAction *action) {
    FetchRequest request = action->request;
    if (plane->rounds != NULL) {
        say(plane, LOG_INFO, "cannot fetch a tile from %s yet: %s", source->endpoint, action->why);
        wait_to_gather(plane, &request);
        return;
    }
    bool passed = request.peer != request.home;
    request.peer = request.home;
    passed = passed && fetch_from(plane, &request);
    say(plane, passed ? LOG_INFO : LOG_WARNING, "cannot fetch a tile from %s: %s; it comes from its %s",
        *source->endpoint ? source->endpoint : "a peer", action->why, passed ? "home" : "file");
    if (passed)
        return;
    if (request.passed_on) /* the load may write zeros first */
        serve_grow(plane->serve, request.place, &request.into, 0);
    pod_load(plane->pod, (uint32_t)action->tag);
}

static void perform(TilePlane *plane, const FetchAction *action) {
    WireMessage *message = plane->outbox;
    Source *source = &plane->sources[action->peer];
    message->header = (WireHeader){.type = WIRE_FETCH};
    memcpy(message->header.job_id, plane->job_id, sizeof plane->job_id);
    switch (action->kind) {
    case FETCH_SEND_FETCH:
        message->fetch = action->fetch;
        message->fetch.token = plane->plan_epoch;
        source->unsent |= !socket_send(source->socket, NULL, message, NULL, 0);
        break;
    case FETCH_SEND_CREDIT:
        message->header.type = WIRE_CREDIT;
        message->credit = action->credit;
        socket_send(source->socket, NULL, message, NULL, 0);
        break;
    case FETCH_DONE:
        pod_fetched(plane->pod, (uint32_t)action->tag);
        break;
    case FETCH_GREW:
        serve_grow(plane->serve, action->request.place, &action->request.into, action->request.got);
        break;
    case FETCH_FAILED:
        fetch_elsewhere(plane, source, action);
        break;
    }
}

static void take_chunks(TilePlane *plane, uint32_t peer) {
    while (socket_receive(plane->sources[peer].socket, &plane->frame, NULL) != RECEIVED_NOTHING) {
        const uint8_t *bulk;
        size_t length;
        if (wire_decode(zmq_msg_data(&plane->frame), zmq_msg_size(&plane->frame), plane->inbox, &bulk, &length))
            continue;
        fetch_heard(plane->fetches, peer, clock_ms());
        if (plane->inbox->header.type == WIRE_CHUNK)
            fetch_chunk(plane->fetches, peer, &plane->inbox->chunk, bulk, length, clock_ms());
        else if (plane->inbox->header.type == WIRE_FETCH_REFUSED)
            fetch_refused(plane->fetches, peer, &plane->inbox->fetch_refused, clock_ms());
    }
}

static void send_unsent(TilePlane *plane, uint32_t peer) {
    Source *source = &plane->sources[peer];
    int events = 0;
    size_t size = sizeof events;
    if (!source->unsent || zmq_getsockopt(source->socket, ZMQ_EVENTS, &events, &size) != 0 || !(events & ZMQ_POLLOUT))
        return;
    source->unsent = false;
    fetch_reached(plane->fetches, peer, clock_ms());
}

/* As a client of the peer whose key `--peers` has. */
static bool use_keys(const TilePlane *plane, const Source *source, Error *error) {
    if (plane->keys == NULL)
        return true;
    const char *key = keys_of_name(plane->keys, source->node);
    return key != NULL ? curve_connect(source->socket, plane->keys, key, error) : error_set(error, "--peers has no key of pod %s", source->node);
}

static bool reach(TilePlane *plane, Source *source) {
    Error error;
    if (source->socket != NULL)
        return true;
    if (!endpoint_check_connect(source->endpoint, &error) || !socket_has_files(&error) ||
        !(source->socket = socket_open(plane->context, ZMQ_DEALER, WIRE_TILE_BYTES, SOCKET_DEAD_MS, &error)) ||
        !bound_chunks(source->socket, ZMQ_RCVHWM, &error) || !use_keys(plane, source, &error) ||
        !socket_connect(source->socket, source->endpoint, &error)) {
        say(plane, LOG_WARNING, "%s", error.text);
        fail(plane, &error);
        source_close(source);
        return false;
    }
    return true;
}

/* ---- what lives in pods of this host ---- */

static void become(TilePlane *plane, Source *source, Nearness nearness) {
    source->nearness = nearness;
    say(plane, LOG_INFO, nearness == NEAR_HERE ? "reads what lives in pod %s from its memory" : "what lives in pod %s comes by the network",
        source->node);
}

static void take_answer(TilePlane *plane, Source *source) {
    int memory;
    NeighbourAnswer answer = neighbour_take(source->asked, &memory);
    if (answer == NEIGHBOUR_WAITS && clock_ms() - source->near_ms < NEAR_MS)
        return;
    bool mapped = answer == NEIGHBOUR_GIVES && rounds_map(plane->rounds, memory, &source->kept);
    if (answer == NEIGHBOUR_GIVES)
        close(memory);
    close(source->asked);
    become(plane, source, mapped ? NEAR_HERE : NEAR_NOT);
}

static void ask_near(TilePlane *plane, Source *source) {
    NeighbourName name = plane->name;
    name.node = (uint32_t)(source - plane->sources);
    if (source->near_ms == 0)
        source->near_ms = clock_ms();
    source->asked = neighbour_ask(&name);
    if (source->asked >= 0)
        source->nearness = NEAR_ASKED;
    else if (clock_ms() - source->near_ms >= NEAR_MS)
        become(plane, source, NEAR_NOT);
}

/* The piece is copied at once. False: it is no piece of what lives there, as the pod itself will say. */
static bool copy_near(TilePlane *plane, const Source *source, const FetchRequest *request) {
    TileView view;
    Region place = request->region;
    uint64_t bytes, same;
    memset(place.origin, 0, sizeof place.origin);
    if (!rounds_view(plane->rounds, &source->kept, request->tensor, &view) || !tile_region_bytes(&view, &request->region, &bytes) ||
        !tile_region_bytes(&request->into, &place, &same) || bytes != same)
        return false;
    tile_copy(&view, &request->region, &request->into, &place);
    pod_fetched(plane->pod, (uint32_t)request->tag);
    return true;
}

void tile_plane_gather(TilePlane *plane, const FetchRequest *request) {
    /* A copy is done by the next turn: who asks does not know yet that anything is under way. */
    bool near = request->peer < plane->source_count && plane->sources[request->peer].nearness != NEAR_NOT;
    if (near || plane->waiting_count > 0 || !tile_plane_fetch(plane, request))
        wait_to_gather(plane, request);
}

/* Those whose turn has come; the others stay in their order. */
static void gather_waiting(TilePlane *plane) {
    size_t kept = 0;
    for (size_t i = 0; i < plane->waiting_count; i++)
        if (!tile_plane_fetch(plane, &plane->waiting[i]))
            plane->waiting[kept++] = plane->waiting[i];
    plane->waiting_count = kept;
}

static bool fetch_from(TilePlane *plane, const FetchRequest *request) {
    if (request->peer >= plane->source_count || plane->sources[request->peer].endpoint[0] == '\0')
        return false;
    Source *source = &plane->sources[request->peer];
    if (source->nearness == NEAR_TO_ASK)
        ask_near(plane, source);
    if (source->nearness == NEAR_HERE && copy_near(plane, source, request))
        return true;
    return (source->nearness == NEAR_NOT || source->nearness == NEAR_HERE) && reach(plane, source) &&
           fetch_start(plane->fetches, request, clock_ms());
}

bool tile_plane_fetch(TilePlane *plane, const FetchRequest *request) {
    if (plane->rounds != NULL)
        return fetch_from(plane, request);
    if (request->home >= plane->source_count || plane->sources[request->home].near)
        return false;
    FetchRequest again = *request;
    again.peer = again.home;
    return fetch_from(plane, request) || (request->peer != request->home && fetch_from(plane, &again));
}

void tile_plane_lose(TilePlane *plane, const Peers *peers) {
    for (uint32_t s = 0; s < plane->source_count && s < peers->peers_count; s++) {
        Source *source = &plane->sources[s];
        if (source->endpoint[0] == '\0' || peers->peers[s].endpoint[0] != '\0')
            continue;
        fetch_lose(plane->fetches, s);
        source_close(source);
    }
}

void tile_plane_abandon(TilePlane *plane) {
    FetchAction action;
    if (plane->fetches == NULL)
        return;
    for (size_t i = 0; i < plane->waiting_count; i++)
        pod_fetched(plane->pod, (uint32_t)plane->waiting[i].tag);
    plane->waiting_count = 0;
    fetch_abandon(plane->fetches);
    while (fetch_next(plane->fetches, &action))
        if (action.kind == FETCH_DONE || action.kind == FETCH_FAILED)
            pod_fetched(plane->pod, (uint32_t)action.tag);
}

/* ---- turns ---- */

int tile_plane_poll_count(const TilePlane *plane) {
    int count = 1 + (plane->listener >= 0);
    for (uint32_t s = 0; s < plane->source_count; s++)
        count += (plane->sources[s].socket != NULL) + (plane->sources[s].nearness == NEAR_ASKED);
    return count;
}

void tile_plane_poll(const TilePlane *plane, zmq_pollitem_t *items) {
    *items++ = (zmq_pollitem_t){.socket = plane->router, .events = ZMQ_POLLIN};
    if (plane->listener >= 0)
        *items++ = (zmq_pollitem_t){.fd = plane->listener, .events = ZMQ_POLLIN};
    for (uint32_t s = 0; s < plane->source_count; s++) {
        const Source *source = &plane->sources[s];
        if (source->socket != NULL)
            *items++ = (zmq_pollitem_t){.socket = source->socket, .events = (short)(ZMQ_POLLIN | (source->unsent ? ZMQ_POLLOUT : 0))};
        if (source->nearness == NEAR_ASKED)
            *items++ = (zmq_pollitem_t){.fd = source->asked, .events = ZMQ_POLLIN};
    }
}

void tile_plane_turn(TilePlane *plane) {
    look_for_files(plane);
    take_requests(plane);
    serve_tick(plane->serve, clock_ms());
    if (plane->listener >= 0)
        neighbour_answer(plane->listener, &plane->name, rounds_shared(plane->rounds));
    for (uint32_t s = 0; s < plane->source_count; s++) {
        if (plane->sources[s].nearness == NEAR_ASKED)
            take_answer(plane, &plane->sources[s]);
        if (plane->sources[s].socket == NULL)
            continue;
        take_chunks(plane, s);
        send_unsent(plane, s);
    }
    if (plane->fetches != NULL) {
        FetchAction action;
        fetch_tick(plane->fetches, clock_ms());
        while (fetch_next(plane->fetches, &action))
            perform(plane, &action);
        gather_waiting(plane);
    }
    send_served(plane);
}
