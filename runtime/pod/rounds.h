/* The rounds of a job of several steps in a pod that has peers: a pod.c for each step, one of them at work, and what lives here between rounds. */
#ifndef PHOBOS_POD_ROUNDS_H
#define PHOBOS_POD_ROUNDS_H

#include "runtime/pod/pod.h"

typedef struct Rounds Rounds;

Rounds *rounds_new(Job *job, Error *error); /* binds every step; borrows the job */
void rounds_free(Rounds *rounds);           /* NULL is nothing */

/* This pod is number `node` of `nodes`: plans for `memory` bytes and opens the pods of all steps. What lived here before is lost. */
bool rounds_join(Rounds *rounds, const Peers *peers, int64_t memory, const PodOptions *options, Error *error);
/* Nothing of these pods may wait for a fetch. rounds_end: as pod_end, of all of them; then rounds_leave need not wait. */
bool rounds_end(Rounds *rounds, uint64_t until_ms);
void rounds_leave(Rounds *rounds);

/* The pod of a round, which has ended all that was given to it before. NULL with the reason where it has not. */
Pod *rounds_enter(Rounds *rounds, uint64_t round, Error *error);

/* What lives here of one of the job's tensors, or in another pod whose memory is mapped as `kept`; regions count from the start of the whole tensor.
 * False: it is none that does. */
bool rounds_view(const Rounds *rounds, const Kept *kept, uint32_t tensor, TileView *view);
/* A descriptor of all that lives here, for the pods of this host; -1: there is none. */
int rounds_shared(const Rounds *rounds);
int rounds_unshared(const Rounds *rounds); /* why there is none, though there should be, as an errno; 0: there should not */
bool rounds_map(const Rounds *rounds, int fd, Kept *kept); /* of another pod; false: it is something else */
/* What a LOAD of the round at hand needs of other pods: calls `fetch` for each piece, which goes to its place in the tile at `rows`. A PodGather. */
typedef void RoundsFetch(void *context, const FetchRequest *request);
int rounds_gather(const Rounds *rounds, int operand, const Region *region, void *rows, int64_t pitch, uint32_t instruction, uint64_t *bytes, RoundsFetch *fetch,
    void *context);

/* Of all steps. */
int64_t rounds_units_done(const Rounds *rounds);
PodMoved rounds_moved(const Rounds *rounds);

#endif
