/* Tiles that several nodes use: whether one of them loads a tile and the others fetch it, and which one.
 *
 * Each tile of a fetched operand has a home, the node of one of the units that use it. The home loads the tile when it is first wanted, by itself or
 * by a peer, and keeps it on a shelf to the end; its own steps take copies of what lies there. Where there is room, some of the others pass it on,
 * from shelves of their own (relay.c). So no node waits for another one's steps, only for its storage, and what cannot be had from its home comes
 * from the file. */
#include "runtime/sched/sched.h"

#include <stdlib.h>
#include <string.h>

#define SAMPLED_TILES 32
#define SAMPLED_USERS 1024

/* ---- homes ---- */

int64_t tile_home(const Plan *plan, const Placement *placement, int operand, const int64_t at[COORDINATES]) {
    /* Of the units that use it, one that depends on the tile: so no node is asked for all of them. */
    const Operand *tiles = &plan->problem->operands[operand];
    int64_t home[COORDINATES] = {0}, number = tile_number(plan->problem, operand, at);
    for (int a = 0; a < 3; a++) {
        home[a] = tiles->stride[a] != 0 ? at[a] : number % plan->problem->supers[a];
        if (tiles->stride[a] == 0)
            number /= plan->problem->supers[a];
    }
    return placement_node(placement, home);
}

int64_t tile_source(const Plan *plan, const Placement *placement, int64_t node, int operand, const int64_t at[COORDINATES]) {
    if (!plan->fetched[operand])
        return node;
    int64_t home = tile_home(plan, placement, operand, at);
    bool passes;
    return node == home || plan->trees[operand] == NULL ? home : readers_source(plan->trees[operand], at, home, node, &passes);
}

bool tile_is_shelved(const Plan *plan, const Placement *placement, int64_t node, int operand, const int64_t at[COORDINATES]) {
    if (!plan->fetched[operand])
        return false;
    int64_t home = tile_home(plan, placement, operand, at);
    bool passes = false;
    if (node != home && plan->trees[operand] != NULL)
        readers_source(plan->trees[operand], at, home, node, &passes);
    return node == home || passes;
}

/* The most tiles of an operand that are on one node's shelf. */
static int64_t most_on_shelf(const Plan *plan, const Placement *placement, int operand, const Readers *tree) {
    int64_t *tiles = new_zeroed((size_t)placement->nodes, sizeof *tiles), most = 0;
    for (int64_t tile = 0; tile < plan->problem->operands[operand].count; tile++) {
        int64_t at[COORDINATES];
        tile_coordinates(plan->problem, operand, tile, at);
        int64_t home = tile_home(plan, placement, operand, at);
        tiles[home]++;
        if (tree != NULL)
            readers_count(tree, at, home, tiles);
    }
    for (int64_t node = 0; node < placement->nodes; node++)
        most = tiles[node] > most ? tiles[node] : most;
    free(tiles);
    return most;
}

/* Takes room for `tiles` tiles on the shelf of an operand, which every node has; false: there is none. */
static bool take_room(Plan *plan, int operand, int64_t tiles) {
    __int128 more = (__int128)(tiles - plan->shelf[operand]) * plan->problem->operands[operand].bytes;
    if (more > plan->memory - plan->bytes - plan->shelf_bytes)
        return false;
    plan->shelf[operand] = tiles;
    plan->shelf_bytes += (int64_t)more;
    return true;
}

static bool take_shelf(Plan *plan, const Placement *placement, int operand) {
    plan->fetched[operand] = plan->kept[operand] && plan->problem->operands[operand].count <= PLAN_MAX_SLOTS &&
                             take_room(plan, operand, most_on_shelf(plan, placement, operand, NULL));
    return plan->fetched[operand];
}

/* With what room is left nodes pass on what they fetch. */
static void take_trees(Plan *plan, const Placement *placement) {
    for (int t = 0; t < plan->problem->operand_count; t++) {
        Readers *tree = plan->fetched[t] ? readers_new(plan->problem, placement, t) : NULL;
        if (tree != NULL && take_room(plan, t, most_on_shelf(plan, placement, t, tree)))
            plan->trees[t] = tree;
        else
            readers_free(tree);
    }
}

static void clear_shelves(Plan *plan) {
    plan->shelf_bytes = 0;
    for (int t = 0; t < plan->problem->operand_count; t++) {
        plan->fetched[t] = false;
        readers_free(plan->trees[t]);
        plan->trees[t] = NULL;
        plan->shelf[t] = 0;
    }
}

bool plan_fetch(Plan *plan, const Placement *placement, uint64_t tensors) {
    bool fits = true;
    clear_shelves(plan);
    for (int t = 0; t < plan->problem->kernel->tensor_count; t++)
        if (tensors >> t & 1)
            fits &= take_shelf(plan, placement, t);
    take_trees(plan, placement);
    return fits;
}

/* ---- what pays ---- */

/* How many nodes use a tile, on the average of some. */
static double nodes_of_tile(const Plan *plan, const Placement *placement, int operand) {
    const Problem *problem = plan->problem;
    const Operand *tiles = &problem->operands[operand];
    int64_t users = 1, step = tiles->count / SAMPLED_TILES + 1, sampled = 0, nodes = 0;
    for (int a = 0; a < 3; a++)
        users *= tiles->stride[a] == 0 ? problem->supers[a] : 1;
    int64_t stride = users / SAMPLED_USERS + 1;
    uint8_t *seen = new_zeroed((size_t)placement->nodes, 1);
    for (int64_t tile = 0; tile < tiles->count; tile += step, sampled++) {
        int64_t at[COORDINATES];
        tile_coordinates(problem, operand, tile, at);
        memset(seen, 0, (size_t)placement->nodes);
        for (int64_t user = 0; user < users; user += stride) {
            int64_t rest = user, unit[COORDINATES] = {0};
            for (int a = 0; a < 3; a++) {
                unit[a] = tiles->stride[a] == 0 ? rest % problem->supers[a] : at[a];
                rest /= tiles->stride[a] == 0 ? problem->supers[a] : 1;
            }
            uint8_t *node = &seen[placement_node(placement, unit)];
            nodes += !*node;
            *node = 1;
        }
    }
    free(seen);
    return (double)nodes / (double)sampled;
}

/* With n nodes that use a tile, each loads an n-th of what they share and fetches the rest from the others meanwhile. */
static bool fetching_pays(const Plan *plan, const Placement *placement, const Model *model, int operand) {
    if (model->link_bw <= 0 || placement->nodes < 2)
        return false;
    double nodes = nodes_of_tile(plan, placement, operand);
    double load = 1 / (nodes * model->read_bw), fetch = (nodes - 1) / (nodes * model->link_bw);
    return nodes > 1 && (load > fetch ? load : fetch) < 1 / model->read_bw;
}

uint64_t plan_share(Plan *plan, const Placement *placement, const Model *model) {
    uint64_t tensors = 0;
    clear_shelves(plan);
    for (int t = 0; t < plan->problem->kernel->tensor_count; t++)
        if (plan->kept[t] && fetching_pays(plan, placement, model, t) && take_shelf(plan, placement, t))
            tensors |= UINT64_C(1) << t;
    take_trees(plan, placement);
    return tensors;
}

/* ---- how tiles come to a node, one after another ---- */

struct Sources {
    const Plan *plan;
    uint64_t **shelved; /* of each operand: a bit a tile, once it is on the node's shelf */
};

Sources *sources_new(const Plan *plan) {
    size_t operands = (size_t)plan->problem->operand_count;
    Sources *sources = new_zeroed(1, sizeof *sources);
    sources->plan = plan;
    sources->shelved = new_zeroed(operands, sizeof *sources->shelved);
    return sources;
}

void sources_free(Sources *sources) {
    if (sources == NULL)
        return;
    for (int t = 0; t < sources->plan->problem->operand_count; t++)
        free(sources->shelved[t]);
    free(sources->shelved);
    free(sources);
}

static size_t words_of(const Sources *sources, int operand) {
    return (size_t)sources->plan->problem->operands[operand].count / 64 + 1;
}

void sources_reset(Sources *sources) {
    for (int t = 0; t < sources->plan->problem->operand_count; t++)
        if (sources->shelved[t] != NULL)
            memset(sources->shelved[t], 0, words_of(sources, t) * sizeof(uint64_t));
}

InstructionKind sources_find(Sources *sources, const Placement *placement, int64_t node, int operand, const int64_t at[COORDINATES], int64_t *from) {
    *from = tile_source(sources->plan, placement, node, operand, at);
    InstructionKind first = *from == node ? INSTRUCTION_LOAD : INSTRUCTION_FETCH;
    if (!tile_is_shelved(sources->plan, placement, node, operand, at))
        return first;
    if (sources->shelved[operand] == NULL)
        sources->shelved[operand] = new_zeroed(words_of(sources, operand), sizeof(uint64_t));
    int64_t tile = tile_number(sources->plan->problem, operand, at);
    uint64_t *word = &sources->shelved[operand][tile / 64], bit = UINT64_C(1) << tile % 64;
    if (!(*word & bit)) {
        *word |= bit;
        return first;
    }
    *from = node;
    return INSTRUCTION_COPY;
}
