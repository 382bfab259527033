/* Tiles that travel as trees. The nodes that use a tile stand in a circle, by number; from its home on they are the places of a binary heap, and
 * each has the tile from its parent there. So no node sends a tile to more than two others, and what a node passes on it has use for itself. Who uses
 * a tile follows from the placement alone: all nodes know the same trees, and a node that is in none asks the home. */
#include "runtime/sched/sched.h"

#include <stdlib.h>

enum { FAN = 2 };

#define MOST_USES (INT64_C(1) << 24) /* of tiles by units, which are looked at one by one */

/* Of tiles that differ in their chunk alone the readers are the same. */
struct Readers {
    int64_t stride[3]; /* of a row of readers by coordinate */
    int64_t *first;    /* of each row, and of one beyond the last */
    int32_t *nodes;    /* ascending in each row */
};

void readers_free(Readers *readers) {
    if (readers == NULL)
        return;
    free(readers->first);
    free(readers->nodes);
    free(readers);
}

static int compare_nodes(const void *a, const void *b) {
    int32_t first = *(const int32_t *)a, second = *(const int32_t *)b;
    return (first > second) - (first < second);
}

/* The unit number `user` of those that use the tiles of a row. */
static void user_at(const Problem *problem, const Readers *readers, int64_t row, int64_t user, int64_t unit[COORDINATES]) {
    unit[CHUNK] = 0;
    for (int a = 0; a < 3; a++) {
        int64_t *rest = readers->stride[a] != 0 ? &row : &user;
        unit[a] = *rest % problem->supers[a];
        *rest /= problem->supers[a];
    }
}

static void list_readers(Readers *readers, const Problem *problem, const Placement *placement, int64_t rows) {
    int64_t users = problem->units / rows, count = 0;
    int64_t *seen = new_zeroed((size_t)placement->nodes, sizeof *seen); /* 1 + the row */
    for (int64_t row = 0; row < rows; row++) {
        readers->first[row] = count;
        for (int64_t user = 0; user < users; user++) {
            int64_t unit[COORDINATES], node;
            user_at(problem, readers, row, user, unit);
            node = placement_node(placement, unit);
            if (seen[node] != row + 1)
                readers->nodes[count++] = (int32_t)node;
            seen[node] = row + 1;
        }
        qsort(readers->nodes + readers->first[row], (size_t)(count - readers->first[row]), sizeof *readers->nodes, compare_nodes);
    }
    readers->first[rows] = count;
    free(seen);
}

Readers *readers_new(const Problem *problem, const Placement *placement, int operand) {
    const Operand *tiles = &problem->operands[operand];
    int64_t rows = 1, chunks = tiles->loop >= 0 ? problem->chunks[tiles->loop] : 1;
    if (placement->nodes <= 1 + FAN || (__int128)problem->units * chunks > MOST_USES)
        return NULL; /* nobody would pass anything on, or it takes too long to find out who does */
    Readers *readers = new_zeroed(1, sizeof *readers);
    for (int a = 0; a < 3; a++) {
        readers->stride[a] = tiles->stride[a] != 0 ? rows : 0;
        rows *= tiles->stride[a] != 0 ? problem->supers[a] : 1;
    }
    readers->first = new_zeroed((size_t)rows + 1, sizeof *readers->first);
    readers->nodes = new_zeroed((size_t)problem->units, sizeof *readers->nodes);
    list_readers(readers, problem, placement, rows);
    return readers;
}

/* A tile's readers. */
typedef struct Circle {
    const int32_t *nodes;
    int64_t count;
} Circle;

static Circle circle_of(const Readers *readers, const int64_t at[COORDINATES]) {
    int64_t row = 0;
    for (int a = 0; a < 3; a++)
        row += readers->stride[a] * at[a];
    return (Circle){readers->nodes + readers->first[row], readers->first[row + 1] - readers->first[row]};
}

/* Where a node is among them; -1: nowhere. */
static int64_t circle_find(const Circle *circle, int64_t node) {
    int64_t low = 0, high = circle->count;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (circle->nodes[middle] < node)
            low = middle + 1;
        else
            high = middle;
    }
    return low < circle->count && circle->nodes[low] == node ? low : -1;
}

int64_t readers_source(const Readers *readers, const int64_t at[COORDINATES], int64_t home, int64_t node, bool *passes) {
    Circle circle = circle_of(readers, at);
    int64_t root = circle_find(&circle, home), index = circle_find(&circle, node);
    *passes = false;
    if (root < 0 || index < 0 || index == root)
        return home;
    int64_t place = (index - root + circle.count) % circle.count;
    *passes = FAN * place + 1 < circle.count;
    return circle.nodes[(root + (place - 1) / FAN) % circle.count];
}

void readers_count(const Readers *readers, const int64_t at[COORDINATES], int64_t home, int64_t *tiles) {
    Circle circle = circle_of(readers, at);
    int64_t root = circle_find(&circle, home);
    for (int64_t place = 1; root >= 0 && FAN * place + 1 < circle.count; place++)
        tiles[circle.nodes[(root + place) % circle.count]]++;
}
