/* CURVE on our sockets: servers let in whom their keys name, clients speak with the one server whose key they know. */
#ifndef PHOBOS_CURVE_H
#define PHOBOS_CURVE_H

#include "runtime/net/keys.h"

/* The thread that ZeroMQ asks about each client of the context's servers (ZAP). `keys` must outlive it. Start it before anything is bound; after the context was
 * shut down it ends, and guard_free waits for that. */
typedef struct Guard Guard;
Guard *guard_start(void *context, const Keys *keys, Error *error);
void guard_free(Guard *guard);
uint64_t guard_refused(const Guard *guard); /* strangers so far */

/* Before a socket is bound, or connected to the server whose key is given. */
bool curve_serve(void *socket, const Keys *keys, Error *error);
bool curve_connect(void *socket, const Keys *keys, const char *server_key, Error *error);

/* Connects to `bound` with a key that nobody knows. False where that is not refused: then the guard does not guard. */
bool curve_self_test(void *context, const char *bound, const Keys *keys, Error *error);

/* The name of who sent a frame (a zmq_msg_t *), by the guard; "" where keys are not in use. */
void curve_sender(void *frame, char name[KEY_NAME]);

/* ---- what became of handshakes, which sockets do not say themselves ---- */

/* BEGUN: there is a connection. REFUSED: our key is not known there. FOREIGN: what is there talks in another way, such as with keys where we have none; the socket
 * does not try again. BROKEN: it closed; where it does so early, nothing is told but the next BEGUN. */
typedef enum Handshake { HANDSHAKE_NONE, HANDSHAKE_BEGUN, HANDSHAKE_DONE, HANDSHAKE_REFUSED, HANDSHAKE_FOREIGN, HANDSHAKE_BROKEN } Handshake;

/* A socket that tells of `socket`'s handshakes, to be polled and drained; close it before `socket`. */
void *handshake_watch(void *context, void *socket, Error *error);
Handshake handshake_next(void *watch); /* NONE: no more for now */
void handshake_unwatch(void *socket, void *watch);

#endif
