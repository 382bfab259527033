/* ZeroMQ sockets with every option set that the protocol counts on. */
#ifndef PHOBOS_SOCKET_H
#define PHOBOS_SOCKET_H

#include "runtime/net/endpoint.h"
#include "runtime/net/wire.h"
#include "runtime/runtime.h"

void *socket_context_new(Error *error);
/* False where so many files are open that another peer may find no room. */
bool socket_has_files(Error *error);
void socket_context_free(void *context);

/* A socket of `type` (ZMQ_ROUTER, ZMQ_DEALER) for frames of at most `max_frame` bytes; nothing blocks on it and nothing lingers. */
void *socket_open(void *context, int type, size_t max_frame, uint32_t dead_ms, Error *error);
/* Binds; `bound` gets the address with the port that was given. */
bool socket_bind(void *socket, const char *endpoint, char *bound, size_t bound_size, Error *error);
bool socket_connect(void *socket, const char *endpoint, Error *error);
void socket_close(void *socket);

/* A peer's identity on a ROUTER, which makes one of five bytes for each connection; as a number for the cores. */
typedef struct Route {
    uint8_t bytes[7];
    uint8_t length;
} Route;

uint64_t route_connection(const Route *route);
Route route_of(uint64_t connection);

typedef enum ReceiveResult { RECEIVED_NOTHING, RECEIVED_FRAME, RECEIVED_JUNK } ReceiveResult;

/* The next frame, if there is one. `frame` is an initialised zmq_msg_t * that holds it on RECEIVED_FRAME. On a ROUTER `route` gets the peer's
 * identity. JUNK: a message of another number of parts, dropped. */
ReceiveResult socket_receive(void *socket, void *frame, Route *route);

/* Hands a message to ZeroMQ without waiting; false where the peer is gone or cannot take it, which means no more than a frame lost on the way. */
bool socket_send(void *socket, const Route *route, const WireMessage *message, const void *bulk, size_t bulk_length);

/* The same in two steps, so that bulk is written where it is sent from: `frame`, a zmq_msg_t *, gets room for it, the caller fills *bulk
 * and gives the message the bulk's checksum; socket_send_bulk takes the frame back whatever comes of it. */
bool socket_make_bulk(void *frame, const WireMessage *message, size_t bulk_length, void **bulk);
bool socket_send_bulk(void *socket, const Route *route, const WireMessage *message, void *frame, size_t bulk_length);

#endif
