/* The tiles that are at home at this pod: loaded when they are first wanted, by a step of its own or by a peer, and there to the end. A pure machine:
 * the shell loads what shelf_next says. All memory is taken when it is made. */
#ifndef PHOBOS_POD_SHELF_H
#define PHOBOS_POD_SHELF_H

#include "runtime/sched/sched.h"

enum { SHELF_LOADS = 64 }; /* at once */

typedef enum ShelfState {
    SHELF_ELSEWHERE, /* the tile's home is another node, or it has none */
    SHELF_COMING,
    SHELF_HERE,
    SHELF_BROKEN, /* it could not be loaded */
} ShelfState;

typedef struct Shelf Shelf;

/* `memory`: plan->shelf_bytes, aligned to PHB_BASE_ALIGN; borrowed, like plan and placement. A node that came late has a number that the placement
 * does not know: nothing is at home there. */
Shelf *shelf_new(const Plan *plan, const Placement *placement, int64_t node, void *memory);
void shelf_free(Shelf *shelf);

int64_t shelf_home(const Shelf *shelf, int operand, int64_t tile); /* this node where the operand is not fetched */
/* Somebody wants the tile; *place is its number on the shelf, unless it is ELSEWHERE. */
ShelfState shelf_want(Shelf *shelf, int operand, int64_t tile, int64_t *place);
/* A tile whose load is to begin now. */
bool shelf_next(Shelf *shelf, int64_t *place);
void shelf_await(Shelf *shelf, int64_t place, uint32_t instruction); /* of a tile that is COMING */
/* A load has ended; true: *waiter awaits it. */
bool shelf_ended(Shelf *shelf, int64_t place, bool well, uint32_t *waiter);
void shelf_tile(const Shelf *shelf, int64_t place, int *operand, int64_t *tile, void **rows);

#endif
