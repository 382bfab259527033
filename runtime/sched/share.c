/* Tiles that several nodes use: whether one of them loads a tile and the others fetch it, and which one.
 *
 * Each tile of a fetched operand has a home, the node of one of the units that use it. The home loads the tile when it is first wanted, by itself or
 * by a peer, and keeps it on a shelf to the end; its own steps take copies of what lies there. So no node waits for another one's steps, only for its
 * storage, and what cannot be had from its home comes from the file. */
#include "runtime/sched/sched.h"

#include <stdlib.h>
#include <string.h>

#define SAMPLED_TILES 32
#define SAMPLED_USERS 1024

/* ---- homes ---- */

int64_t tile_source(const Plan *plan, const Placement *placement, int64_t node, int operand, const int64_t at[COORDINATES]) {
    if (!plan->fetched[operand])
        return node;
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

/* The most tiles of an operand that are at home at one node. */
static int64_t most_at_home(const Plan *plan, const Placement *placement, int operand) {
    int64_t *homes = new_zeroed((size_t)placement->nodes, sizeof *homes), most = 0;
    for (int64_t tile = 0; tile < plan->problem->operands[operand].count; tile++) {
        int64_t at[COORDINATES];
        tile_coordinates(plan->problem, operand, tile, at);
        int64_t home = tile_source(plan, placement, -1, operand, at);
        if (++homes[home] > most)
            most = homes[home];
    }
    free(homes);
    return most;
}

/* Takes room for the shelf of an operand, which every node has; false: there is none. */
static bool take_shelf(Plan *plan, const Placement *placement, int operand) {
    const Operand *tiles = &plan->problem->operands[operand];
    plan->fetched[operand] = plan->kept[operand] && tiles->count <= PLAN_MAX_SLOTS;
    if (!plan->fetched[operand])
        return false;
    int64_t most = most_at_home(plan, placement, operand);
    __int128 bytes = (__int128)most * tiles->bytes;
    plan->fetched[operand] = bytes <= plan->memory - plan->bytes - plan->shelf_bytes;
    if (!plan->fetched[operand])
        return false;
    plan->shelf[operand] = most;
    plan->shelf_bytes += (int64_t)bytes;
    return true;
}

static void clear_shelves(Plan *plan) {
    plan->shelf_bytes = 0;
    for (int t = 0; t < plan->problem->operand_count; t++) {
        plan->fetched[t] = false;
        plan->shelf[t] = 0;
    }
}

bool plan_fetch(Plan *plan, const Placement *placement, uint64_t tensors) {
    bool fits = true;
    clear_shelves(plan);
    for (int t = 0; t < plan->problem->kernel->tensor_count; t++)
        if (tensors >> t & 1)
            fits &= take_shelf(plan, placement, t);
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
    if (*from != node)
        return INSTRUCTION_FETCH;
    if (!sources->plan->fetched[operand])
        return INSTRUCTION_LOAD;
    if (sources->shelved[operand] == NULL)
        sources->shelved[operand] = new_zeroed(words_of(sources, operand), sizeof(uint64_t));
    int64_t tile = tile_number(sources->plan->problem, operand, at);
    uint64_t *word = &sources->shelved[operand][tile / 64], bit = UINT64_C(1) << tile % 64;
    bool there = *word & bit;
    *word |= bit;
    return there ? INSTRUCTION_COPY : INSTRUCTION_LOAD;
}
