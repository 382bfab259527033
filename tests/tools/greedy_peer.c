/* A peer that asks a pod for much and takes nothing of it:
 *
 *     greedy_peer tcp://HOST:PORT [hellos COUNT]
 *
 * It asks for a hundred tiles of 8 MiB, the one that every pod has for a doctor, says when the first answer is there, and reads none. Stays until it
 * is ended. hellos: to a scheduler, as so many pods of another build, and says when they are sent. */
#include "runtime/net/socket.h"
#include "runtime/pod/transfer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

enum { TILES = 100 };

static void send_for_sure(void *peer, const WireMessage *message) {
    while (!socket_send(peer, NULL, message, NULL, 0))
        zmq_poll(&(zmq_pollitem_t){.socket = peer, .events = ZMQ_POLLOUT}, 1, -1);
}

static int say_hellos(void *peer, WireMessage *message, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        message->header = (WireHeader){.type = WIRE_HELLO};
        message->hello = (Hello){.protocol_min = WIRE_PROTOCOL, .protocol_max = WIRE_PROTOCOL, .node = "stranger"};
        memcpy(message->hello.incarnation, &i, sizeof i);
        send_for_sure(peer, message);
    }
    puts("said");
    fflush(stdout);
    pause();
    return 0;
}

int main(int argc, char **argv) {
    Error error;
    bool hellos = argc == 4 && strcmp(argv[2], "hellos") == 0;
    void *context = argc == 2 || hellos ? socket_context_new(&error) : NULL;
    void *peer = context ? socket_open(context, ZMQ_DEALER, WIRE_TILE_BYTES, 10000, &error) : NULL;
    WireMessage *message = new_zeroed(1, sizeof *message);
    if (!peer || zmq_setsockopt(peer, ZMQ_RCVHWM, &(int){1}, sizeof(int)) != 0 || !socket_connect(peer, argv[1], &error)) {
        fprintf(stderr, "usage: greedy_peer tcp://HOST:PORT [hellos COUNT]\n");
        return 2;
    }
    if (hellos)
        return say_hellos(peer, message, strtoull(argv[3], NULL, 10));
    for (uint64_t t = 0; t < TILES; t++) {
        message->header = (WireHeader){.type = WIRE_FETCH};
        message->fetch = (Fetch){.transfer = t,
            .tensor = WIRE_PROBE_TENSOR,
            .tile = {(int64_t)t},
            .extent = {WIRE_PROBE_ROWS, WIRE_CHUNK_BYTES, 1, 1},
            .credit = TRANSFER_CREDIT,
            .chunk = WIRE_CHUNK_BYTES};
        send_for_sure(peer, message);
    }
    zmq_poll(&(zmq_pollitem_t){.socket = peer, .events = ZMQ_POLLIN}, 1, -1);
    puts("answered");
    fflush(stdout);
    pause();
    return 0;
}
