#include "runtime/pod/shelf.h"

#include <assert.h>
#include <stdlib.h>

/* A tile that was asked for, at its place. */
typedef struct Place {
    ShelfState state;
    ShelfWay way;
    bool begun;
    int operand;
    int64_t tile;
    uint8_t *rows;
    int64_t waiter; /* the instruction that takes a copy when it is there, or -1 */
    int64_t next;   /* in the queue of those that are to come the same way */
} Place;

/* Places in state COMING that wait for their turn. */
typedef struct Queue {
    int64_t first, last; /* -1: none */
    int running, most;
} Queue;

struct Shelf {
    const Plan *plan;
    const Placement *placement;
    int64_t node;
    uint8_t *base;
    int32_t **places;       /* of each operand: 1 + the place of a tile, 0: it was not asked for */
    int64_t *first, *taken; /* of each operand: its first place, how many are taken */
    Place *items;
    Queue queues[SHELF_WAYS];
};

Shelf *shelf_new(const Plan *plan, const Placement *placement, int64_t node, void *memory) {
    size_t operands = (size_t)plan->problem->operand_count;
    Shelf *shelf = new_zeroed(1, sizeof *shelf);
    *shelf = (Shelf){.plan = plan, .placement = placement, .node = node, .base = memory};
    shelf->queues[SHELF_BY_LOAD] = (Queue){-1, -1, 0, SHELF_LOADS};
    shelf->queues[SHELF_BY_FETCH] = (Queue){-1, -1, 0, SHELF_FETCHES};
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
    return tile_home(shelf->plan, shelf->placement, operand, at);
}

int64_t shelf_source(const Shelf *shelf, int operand, int64_t tile) {
    int64_t at[COORDINATES];
    tile_coordinates(shelf->plan->problem, operand, tile, at);
    return tile_source(shelf->plan, shelf->placement, shelf->node, operand, at);
}

static bool is_here(const Shelf *shelf, int operand, int64_t tile) {
    int64_t at[COORDINATES];
    tile_coordinates(shelf->plan->problem, operand, tile, at);
    return tile_is_shelved(shelf->plan, shelf->placement, shelf->node, operand, at);
}

static void enqueue(Shelf *shelf, int64_t place) {
    Place *item = &shelf->items[place];
    Queue *queue = &shelf->queues[item->way];
    item->next = -1;
    *(queue->last >= 0 ? &shelf->items[queue->last].next : &queue->first) = place;
    queue->last = place;
}

ShelfState shelf_want(Shelf *shelf, int operand, int64_t tile, int64_t *place) {
    if (!is_here(shelf, operand, tile))
        return SHELF_ELSEWHERE;
    int32_t *known = &shelf->places[operand][tile];
    if (*known == 0) {
        assert(shelf->taken[operand] < shelf->plan->shelf[operand]);
        int64_t taken = shelf->first[operand] + shelf->taken[operand]++;
        *known = (int32_t)(taken + 1);
        Place *item = &shelf->items[taken];
        item->state = SHELF_COMING;
        item->tile = tile;
        item->way = shelf_home(shelf, operand, tile) == shelf->node ? SHELF_BY_LOAD : SHELF_BY_FETCH;
        enqueue(shelf, taken);
    }
    *place = *known - 1;
    return shelf->items[*place].state;
}

bool shelf_next(Shelf *shelf, ShelfWay way, int64_t *place) {
    Queue *queue = &shelf->queues[way];
    if (queue->running == queue->most || queue->first < 0)
        return false;
    *place = queue->first;
    queue->first = shelf->items[*place].next;
    if (queue->first < 0)
        queue->last = -1;
    queue->running++;
    shelf->items[*place].begun = true;
    return true;
}

bool shelf_promises(const Shelf *shelf, int64_t place) {
    const Place *item = &shelf->items[place];
    return item->way == SHELF_BY_LOAD || item->begun;
}

void shelf_await(Shelf *shelf, int64_t place, uint32_t instruction) {
    assert(shelf->items[place].waiter < 0); /* a tile has one slot, and comes there once at a time */
    shelf->items[place].waiter = instruction;
}

bool shelf_ended(Shelf *shelf, int64_t place, bool well, uint32_t *waiter) {
    Place *item = &shelf->items[place];
    shelf->queues[item->way].running--;
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
