/* The tiles that are at home at this pod, and those that it passes on: loaded, or fetched, when they are first wanted, by a step of its own or by a
 * peer, and there to the end. A pure machine: the shell brings what shelf_next says. All memory is taken when it is made. */
#ifndef PHOBOS_POD_SHELF_H
#define PHOBOS_POD_SHELF_H

#include "runtime/sched/sched.h"

/* How tiles come to the shelf. What is fetched waits for other pods, which may wait for this one's loads: so these never wait for a fetch. */
typedef enum ShelfWay { SHELF_BY_LOAD, SHELF_BY_FETCH, SHELF_WAYS } ShelfWay;

enum { SHELF_LOADS = 64, SHELF_FETCHES = 32, SHELF_LANES = SHELF_LOADS + SHELF_FETCHES }; /* at once */

typedef enum ShelfState {
    SHELF_ELSEWHERE, /* it is neither at home here nor passed on */
    SHELF_COMING,
    SHELF_HERE,
    SHELF_BROKEN, /* it could not be loaded */
} ShelfState;

typedef struct Shelf Shelf;

/* `memory`: plan->shelf_bytes, aligned to PHB_BASE_ALIGN; borrowed, like plan and placement. A node that came late has a number that the placement
 * does not know: nothing is at home there. */
Shelf *shelf_new(const Plan *plan, const Placement *placement, int64_t node, void *memory);
void shelf_free(Shelf *shelf);

int64_t shelf_home(const Shelf *shelf, int operand, int64_t tile);   /* of an operand that is fetched */
int64_t shelf_source(const Shelf *shelf, int operand, int64_t tile); /* whom it is fetched from: its home, or who passes it on */
/* Somebody wants the tile; *place is its number on the shelf, unless it is ELSEWHERE. */
ShelfState shelf_want(Shelf *shelf, int operand, int64_t tile, int64_t *place);
/* A tile that is to be loaded, or fetched, now. */
bool shelf_next(Shelf *shelf, ShelfWay way, int64_t *place);
/* Whether it will come of itself: it is loaded at some time, or its fetch has begun. A peer is not to wait for a fetch that has not, lest pods wait
 * in a circle. */
bool shelf_promises(const Shelf *shelf, int64_t place);
void shelf_await(Shelf *shelf, int64_t place, uint32_t instruction); /* of a tile that is COMING */
/* A load, or fetch, has ended; true: *waiter awaits it. */
bool shelf_ended(Shelf *shelf, int64_t place, bool well, uint32_t *waiter);
void shelf_tile(const Shelf *shelf, int64_t place, int *operand, int64_t *tile, void **rows);

#endif
