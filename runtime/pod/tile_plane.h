/* The shell of the tile plane: the sockets between pods, and what transfer.c asks of them. All calls on the pod's thread. */
#ifndef PHOBOS_TILE_PLANE_H
#define PHOBOS_TILE_PLANE_H

#include "runtime/net/keys.h"
#include "runtime/pod/rounds.h"

#include <zmq.h>

typedef struct TilePlane TilePlane;

/* Listens at `listen`; `bound` gets the address. `node` is borrowed, for messages; so are `keys`, NULL where they are not in use: else peers are who they say, and
 * the context has a guard. */
TilePlane *tile_plane_open(void *context, const Keys *keys, const char *listen, const char *node, LogLevel log, char *bound, size_t bound_size, Error *error);
void tile_plane_close(TilePlane *plane);

/* The pod and its peers are known: tiles are served, and may be fetched. `instructions`: of the pod's engine. */
void tile_plane_join(TilePlane *plane, Pod *pod, const uint8_t job_id[16], const Peers *peers, uint32_t instructions);
/* Peers that `peers` gives no endpoint any more are lost: what is to come from them fails. */
void tile_plane_lose(TilePlane *plane, const Peers *peers);
/* The same for a job of several steps, whose tiles live in `rounds`; again when pods have been lost, and nothing of the ones before is under way. */
void tile_plane_join_rounds(TilePlane *plane, const Rounds *rounds, const uint8_t job_id[16], uint32_t plan_epoch, const Peers *peers);
/* The pod of the round at hand: pieces of tiles that were gathered are its. */
void tile_plane_serve(TilePlane *plane, Pod *pod);
/* Asks for a piece, again and again, until it is there. */
void tile_plane_gather(TilePlane *plane, const FetchRequest *request);
/* The job is over: nothing of it is served or fetched any more. */
void tile_plane_leave(TilePlane *plane);
/* A PodFetch and a PodShelved. */
bool tile_plane_fetch(TilePlane *plane, const FetchRequest *request);
void tile_plane_shelved(TilePlane *plane, int64_t place, const TileView *tile);

/* Why what lives in other pods cannot be had from here; NULL: it can. */
const Error *tile_plane_failure(const TilePlane *plane);

int tile_plane_poll_count(const TilePlane *plane);
void tile_plane_poll(const TilePlane *plane, zmq_pollitem_t *items); /* what is to be waited for */
void tile_plane_turn(TilePlane *plane);                               /* takes what has come, sends what is due */
/* The pod ends: nothing more is fetched. */
void tile_plane_abandon(TilePlane *plane);

#endif
