#include "runtime/net/socket.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zmq.h>

enum { LEAST_FILES = 32, SPARE_FILES = 4 };

/* What frames lie in stays with the process: to take fresh pages for each takes longer than to fill them. Set by the process, not by the context. */
static void keep_frame_memory(void) {
    mallopt(M_MMAP_THRESHOLD, 4 << 20);
    mallopt(M_TRIM_THRESHOLD, 64 << 20);
}

/* libzmq ends the process where it cannot open what it needs to begin. A peer takes two descriptors; of more than may be opened some stay out. */
static bool files_suffice(Error *error) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return true;
    if (files.rlim_cur < files.rlim_max && setrlimit(RLIMIT_NOFILE, &(struct rlimit){files.rlim_max, files.rlim_max}) == 0)
        files.rlim_cur = files.rlim_max;
    return files.rlim_cur >= LEAST_FILES ||
           error_set(error, "this process may open %d files, and needs %d at the least (ulimit -n)", (int)files.rlim_cur, LEAST_FILES);
}

bool socket_has_files(Error *error) {
    int files[SPARE_FILES], count = 0, cause = 0;
    while (count < SPARE_FILES && (files[count] = eventfd(0, EFD_CLOEXEC)) >= 0) /* a file of its own: a copy of another one is none to the system */
        count++;
    if (count < SPARE_FILES)
        cause = errno;
    for (int i = 0; i < count; i++)
        close(files[i]);
    errno = cause;
    return cause == 0 || error_errno(error, "no more peers can be spoken with");
}

void *socket_context_new(Error *error) {
    keep_frame_memory();
    if (!files_suffice(error))
        return NULL;
    void *context = zmq_ctx_new();
    if (!context) {
        error_set(error, "cannot start networking: %s", zmq_strerror(zmq_errno()));
        return NULL;
    }
    zmq_ctx_set(context, ZMQ_BLOCKY, 0);
    zmq_ctx_set(context, ZMQ_MAX_SOCKETS, 4096);
    return context;
}

void socket_context_free(void *context) {
    if (!context)
        return;
    zmq_ctx_shutdown(context);
    zmq_ctx_term(context);
}

void *socket_open(void *context, int type, size_t max_frame, uint32_t dead_ms, Error *error) {
    void *socket = zmq_socket(context, type);
    if (!socket) {
        error_set(error, "cannot open a socket: %s", zmq_strerror(zmq_errno()));
        return NULL;
    }
    /* ZMTP's own heartbeats stay off: they cannot see a hung application, and abort a receiver whose queue is full. */
    const struct {
        int option, value;
    } settings[] = {
        {ZMQ_LINGER, 0},
        {ZMQ_HEARTBEAT_IVL, 0},
        {ZMQ_TCP_MAXRT, (int)dead_ms},
        {ZMQ_HANDSHAKE_IVL, 5000},
        {ZMQ_CONNECT_TIMEOUT, 5000},
        {ZMQ_RECONNECT_IVL, 10}, /* doubled at each try: who starts a moment too early waits a moment */
        {ZMQ_RECONNECT_IVL_MAX, 5000},
        {ZMQ_SNDHWM, 1000},
        {ZMQ_RCVHWM, 1000},
        {ZMQ_BACKLOG, 1024},
        {type == ZMQ_ROUTER ? ZMQ_ROUTER_MANDATORY : ZMQ_IMMEDIATE, 1},
    };
    bool set = true;
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        set &= zmq_setsockopt(socket, settings[i].option, &settings[i].value, sizeof settings[i].value) == 0;
    int64_t max_bytes = (int64_t)max_frame;
    set &= zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &max_bytes, sizeof max_bytes) == 0;
    if (!set) {
        error_set(error, "cannot set up a socket: %s", zmq_strerror(zmq_errno()));
        zmq_close(socket);
        return NULL;
    }
    return socket;
}

/* IPv6 only where the address is one: else an IPv4 address would be bound, and shown, as ::ffff:127.0.0.1. */
static void set_family(void *socket, const char *endpoint) {
    int ipv6 = strchr(endpoint, '[') != NULL;
    zmq_setsockopt(socket, ZMQ_IPV6, &ipv6, sizeof ipv6);
}

bool socket_bind(void *socket, const char *endpoint, char *bound, size_t bound_size, Error *error) {
    set_family(socket, endpoint);
    if (zmq_bind(socket, endpoint) != 0) {
        int cause = zmq_errno();
        return error_set(error, "cannot listen on '%s': %s%s", endpoint, zmq_strerror(cause),
            cause == EADDRINUSE ? "; another scheduler may be running, or choose another port by --listen" : "");
    }
    if (zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, bound, &bound_size) != 0)
        return error_set(error, "cannot tell the address of '%s': %s", endpoint, zmq_strerror(zmq_errno()));
    return true;
}

bool socket_connect(void *socket, const char *endpoint, Error *error) {
    set_family(socket, endpoint);
    if (zmq_connect(socket, endpoint) != 0)
        return error_set(error, "cannot connect to '%s': %s", endpoint, zmq_strerror(zmq_errno()));
    return true;
}

void socket_close(void *socket) {
    if (socket)
        zmq_close(socket);
}

/* ---- frames ---- */

uint64_t route_connection(const Route *route) {
    uint64_t connection = route->length;
    for (int i = 0; i < route->length; i++)
        connection |= (uint64_t)route->bytes[i] << (8 * (i + 1));
    return connection;
}

Route route_of(uint64_t connection) {
    Route route = {.length = (uint8_t)connection};
    for (int i = 0; i < route.length; i++)
        route.bytes[i] = (uint8_t)(connection >> (8 * (i + 1)));
    return route;
}

static bool more_parts(void *socket) {
    int more = 0;
    size_t size = sizeof more;
    return zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size) == 0 && more;
}

static void drop_parts(void *socket) {
    zmq_msg_t part;
    zmq_msg_init(&part);
    while (more_parts(socket) && zmq_msg_recv(&part, socket, ZMQ_DONTWAIT) >= 0)
        ;
    zmq_msg_close(&part);
}

ReceiveResult socket_receive(void *socket, void *frame, Route *route) {
    zmq_msg_t *part = frame;
    if (zmq_msg_recv(part, socket, ZMQ_DONTWAIT) < 0)
        return RECEIVED_NOTHING;
    if (route) {
        size_t length = zmq_msg_size(part);
        bool fits = length <= sizeof route->bytes;
        if (fits) {
            route->length = (uint8_t)length;
            memcpy(route->bytes, zmq_msg_data(part), length);
        }
        if (!fits || !more_parts(socket) || zmq_msg_recv(part, socket, ZMQ_DONTWAIT) < 0) {
            drop_parts(socket);
            return RECEIVED_JUNK;
        }
    }
    if (more_parts(socket)) {
        drop_parts(socket);
        return RECEIVED_JUNK;
    }
    return RECEIVED_FRAME;
}

bool socket_make_bulk(void *frame, const WireMessage *message, size_t bulk_length, void **bulk) {
    size_t before = wire_size(message);
    if (zmq_msg_init_size(frame, before + bulk_length) != 0)
        return false;
    *bulk = (uint8_t *)zmq_msg_data(frame) + before;
    return true;
}

bool socket_send_bulk(void *socket, const Route *route, const WireMessage *message, void *frame, size_t bulk_length) {
    uint8_t *bytes = zmq_msg_data(frame);
    wire_encode(message, bytes + wire_size(message), bulk_length, bytes);
    if ((!route || zmq_send(socket, route->bytes, route->length, ZMQ_DONTWAIT | ZMQ_SNDMORE) >= 0) && zmq_msg_send(frame, socket, ZMQ_DONTWAIT) >= 0)
        return true;
    int cause = zmq_errno();
    zmq_msg_close(frame);
    errno = cause;
    return false;
}

bool socket_send(void *socket, const Route *route, const WireMessage *message, const void *bulk, size_t bulk_length) {
    zmq_msg_t frame;
    void *place;
    if (!socket_make_bulk(&frame, message, bulk_length, &place))
        return false;
    if (bulk_length)
        memcpy(place, bulk, bulk_length);
    return socket_send_bulk(socket, route, message, &frame, bulk_length);
}
