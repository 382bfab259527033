#include "runtime/pod/shelf.h"

#include <assert.h>
#include <stdlib.h>

/* A tile that was asked for, at its place. */
typedef struct Place {
    ShelfState state;
    int operand;
    int64_t tile;
    uint8_t *rows;
    int64_t waiter; /* the instruction that takes a copy when it is there, or -1 */
    int64_t next;   /* in the queue of those to be loaded */
} Place;

struct Shelf {
    const Plan *plan;
    const Placement *placement;
    int64_t node;
    uint8_t *base;
    int32_t **places;       /* of each operand: 1 + the place of a tile, 0: it was not asked for */
    int64_t *first, *taken; /* of each operand: its first place, how many are taken */
    Place *items;
    int64_t queue_first, queue_last; /* of places in state COMING that wait for their turn; -1: none */
    int loading;
};

Shelf *shelf_new(const Plan *plan, const Placement *placement, int64_t node, void *memory) {
    size_t operands = (size_t)plan->problem->operand_count;
    Shelf *shelf = new_zeroed(1, sizeof *shelf);
    *shelf = (Shelf){.plan = plan, .placement = placement, .node = node, .base = memory, .queue_first = -1, .queue_last = -1};
    shelf->places = new_zeroed(operands, sizeof *shelf->places);
    shelf->first = new_zeroed(operands, sizeof *shelf->first);
    shelf->taken = new_zeroed(operands, sizeof *shelf->taken);
    int64_t count = 0, bytes = 0;
    for (int t = 0; t < plan->problem->operand_count; t++) {
        shelf->first[t] = count;
        if (plan->fetched[t])
            shelf->places[t] = new_zeroed((size_t)plan->problem->operands[t].count, sizeof **shelf->places);
        count += plan->shelf[t];
    }
    shelf->items = new_zeroed((size_t)count, sizeof *shelf->items);
    for (int t = 0; t < plan->problem->operand_count; t++)
        for (int64_t i = 0; i < plan->shelf[t]; i++, bytes += plan->problem->operands[t].bytes)
            shelf->items[shelf->first[t] + i] = (Place){.operand = t, .rows = shelf->base + bytes, .waiter = -1};
    return shelf;
}

void shelf_free(Shelf *shelf) {
    if (shelf == NULL)
        return;
    for (int t = 0; t < shelf->plan->problem->operand_count; t++)
        free(shelf->places[t]);
    free(shelf->places);
    free(shelf->first);
    free(shelf->taken);
    free(shelf->items);
    free(shelf);
}

int64_t shelf_home(const Shelf *shelf, int operand, int64_t tile) {
    int64_t at[COORDINATES];
    tile_coordinates(shelf->plan->problem, operand, tile, at);
    return tile_source(shelf->plan, shelf->placement, shelf->node, operand, at);
}

ShelfState shelf_want(Shelf *shelf, int operand, int64_t tile, int64_t *place) {
    if (!shelf->plan->fetched[operand] || shelf_home(shelf, operand, tile) != shelf->node)
        return SHELF_ELSEWHERE;
    int32_t *known = &shelf->places[operand][tile];
    if (*known == 0) {
        assert(shelf->taken[operand] < shelf->plan->shelf[operand]);
        int64_t taken = shelf->first[operand] + shelf->taken[operand]++;
        *known = (int32_t)(taken + 1);
        Place *item = &shelf->items[taken];
        item->state = SHELF_COMING;
        item->tile = tile;
        item->next = -1;
        *(shelf->queue_last >= 0 ? &shelf->items[shelf->queue_last].next : &shelf->queue_first) = taken;
        shelf->queue_last = taken;
    }
    *place = *known - 1;
    return shelf->items[*place].state;
}

bool shelf_next(Shelf *shelf, int64_t *place) {
    if (shelf->loading == SHELF_LOADS || shelf->queue_first < 0)
        return false;
    *place = shelf->queue_first;
    shelf->queue_first = shelf->items[*place].next;
    if (shelf->queue_first < 0)
        shelf->queue_last = -1;
    shelf->loading++;
    return true;
}

void shelf_await(Shelf *shelf, int64_t place, uint32_t instruction) {
    assert(shelf->items[place].waiter < 0); /* a tile has one slot, and comes there once at a time */
    shelf->items[place].waiter = instruction;
}

bool shelf_ended(Shelf *shelf, int64_t place, bool well, uint32_t *waiter) {
    Place *item = &shelf->items[place];
    shelf->loading--;
    item->state = well ? SHELF_HERE : SHELF_BROKEN;
    *waiter = (uint32_t)item->waiter;
    bool awaited = item->waiter >= 0;
    item->waiter = -1;
    return awaited;
}

void shelf_tile(const Shelf *shelf, int64_t place, int *operand, int64_t *tile, void **rows) {
    const Place *item = &shelf->items[place];
    *operand = item->operand;
    *tile = item->tile;
    *rows = item->rows;
}
