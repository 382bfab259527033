/* A peer that asks a pod for much and takes nothing of it:
 *
 *     greedy_peer tcp://HOST:PORT
 *
 * It asks for a hundred tiles of 8 MiB, the one that every pod has for a doctor, says when the first answer is there, and reads none. Stays until it is ended. */
#include "runtime/net/socket.h"
#include "runtime/pod/transfer.h"

#include <stdlib.h>
#include <unistd.h>
#include <zmq.h>

enum { TILES = 100 };

int main(int argc, char **argv) {
    Error error;
    void *context = argc == 2 ? socket_context_new(&error) : NULL;
    void *peer = context ? socket_open(context, ZMQ_DEALER, WIRE_TILE_BYTES, 10000, &error) : NULL;
    WireMessage *message = new_zeroed(1, sizeof *message);
    if (!peer || zmq_setsockopt(peer, ZMQ_RCVHWM, &(int){1}, sizeof(int)) != 0 || !socket_connect(peer, argv[1], &error)) {
        fprintf(stderr, "usage: greedy_peer tcp://HOST:PORT of a pod\n");
        return 2;
    }
    for (uint64_t t = 0; t < TILES;) {
        message->header = (WireHeader){.type = WIRE_FETCH};
        message->fetch = (Fetch){.transfer = t,
            .tensor = WIRE_PROBE_TENSOR,
            .tile = {(int64_t)t},
            .extent = {WIRE_PROBE_ROWS, WIRE_CHUNK_BYTES, 1, 1},
            .credit = TRANSFER_CREDIT,
            .chunk = WIRE_CHUNK_BYTES};
        if (socket_send(peer, NULL, message, NULL, 0))
            t++;
        else
            zmq_poll(&(zmq_pollitem_t){.socket = peer, .events = ZMQ_POLLOUT}, 1, -1);
    }
    zmq_poll(&(zmq_pollitem_t){.socket = peer, .events = ZMQ_POLLIN}, 1, -1);
    puts("answered");
    fflush(stdout);
    pause();
    return 0;
}
