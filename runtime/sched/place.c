/* Which node gets which units. */
#include "runtime/sched/sched.h"

#include <stdlib.h>

/* ---- block: a box of super-tiles for each node, so that a node reads little ---- */

/* Bytes of the distinct tiles that the units of a box read, if each is loaded once. */
static double box_reads(const Problem *problem, const int64_t size[3]) {
    double bytes = 0;
    for (int t = 0; t < problem->kernel->tensor_count; t++) {
        const Operand *operand = &problem->operands[t];
        double tiles = operand->loop >= 0 ? (double)problem->chunks[operand->loop] : 1;
        for (int a = 0; a < 3; a++)
            tiles *= operand->stride[a] != 0 ? (double)size[a] : 1;
        bytes += operand->load ? tiles * (double)operand->bytes : 0;
    }
    return bytes;
}

/* Into how many parts to split what `nodes` share: a small prime factor, so that the parts are equal, or two. */
static int64_t parts_of(int64_t nodes) {
    for (int64_t part = 2; part <= 7; part++)
        if (nodes % part == 0)
            return part;
    return 2;
}

/* The first of `nodes` nodes that part number `part` of `parts` has. */
static int64_t first_node(int64_t nodes, int64_t part, int64_t parts) {
    return nodes * part / parts;
}

static int64_t cut_at(int64_t size, int64_t node, int64_t nodes) {
    return (int64_t)((__int128)size * node / nodes);
}

/* The axis whose split into parts leaves the least to read for the part that reads most; an axis too short for it only where none is long enough. */
static int best_axis(const Problem *problem, const Box *box, int64_t nodes, int64_t parts) {
    int best = 0;
    double least = 0;
    bool found = false, best_long = false;
    for (int a = 0; a < 3; a++) {
        int64_t size[3] = {box->size[0], box->size[1], box->size[2]}, widest = 0;
        for (int64_t p = 0; p < parts; p++) {
            int64_t width = cut_at(box->size[a], first_node(nodes, p + 1, parts), nodes) - cut_at(box->size[a], first_node(nodes, p, parts), nodes);
            widest = width > widest ? width : widest;
        }
        size[a] = widest;
        double reads = box_reads(problem, size);
        bool is_long = box->size[a] >= min64(nodes, parts);
        if (!found || is_long > best_long || (is_long == best_long && reads < least)) {
            best = a;
            least = reads;
            best_long = is_long;
        }
        found = true;
    }
    return best;
}

/* Cuts `box` for the nodes first .. first + nodes - 1, and notes the axes, by which placement_node finds its way down. */
static void split_box(Placement *placement, Box box, int64_t first, int64_t nodes, int depth) {
    if (nodes == 1) {
        placement->boxes[first] = box;
        return;
    }
    int64_t parts = parts_of(nodes);
    int axis = best_axis(placement->problem, &box, nodes, parts);
    placement->axes[depth * placement->nodes + first] = (uint8_t)axis;
    for (int64_t p = 0; p < parts; p++) {
        int64_t from = first_node(nodes, p, parts), end = first_node(nodes, p + 1, parts);
        int64_t low = cut_at(box.size[axis], from, nodes);
        Box part = box;
        part.low[axis] += low;
        part.size[axis] = cut_at(box.size[axis], end, nodes) - low;
        split_box(placement, part, first + from, end - from, depth + 1);
    }
}

/* ---- near: where the middle of what a unit reads was computed ---- */

/* The node that has the middle of what a unit reads. */
static int64_t near_node(const Placement *placement, int64_t unit) {
    const Near *near = &placement->near;
    const int64_t *supers = placement->problem->supers;
    int64_t at[3] = {unit % supers[0], unit / supers[0] % supers[1], unit / supers[0] / supers[1]}, there[COORDINATES] = {0};
    for (int k = 0; k < near->read->rank; k++) {
        int axis = near->read->axis[k];
        int64_t low = axis >= 0 && axis != CHUNK ? at[axis] * near->read->size[k] : 0;
        int64_t extent = axis >= 0 && axis != CHUNK ? min64(near->read->size[k], near->read->whole[k] - low) : near->read->whole[k];
        if (near->written->axis[k] >= 0)
            there[near->written->axis[k]] = min64(low + extent / 2, near->written->whole[k] - 1) / near->written->size[k];
    }
    there[CHUNK] = 0;
    return placement_node(near->writer, there);
}

static void deal_near(Placement *placement) {
    int64_t units = placement->problem->units, nodes = placement->nodes;
    for (int64_t node = 0; node <= nodes; node++)
        placement->first[node] = 0;
    for (int64_t unit = 0; unit < units; unit++) {
        placement->owners[unit] = (uint16_t)near_node(placement, unit);
        placement->first[placement->owners[unit] + 1]++;
    }
    for (int64_t node = 0; node < nodes; node++)
        placement->first[node + 1] += placement->first[node];
    /* Backwards, so that the ends of the nodes' parts become their beginnings. */
    for (int64_t unit = units - 1; unit >= 0; unit--)
        placement->list[--placement->first[placement->owners[unit] + 1]] = unit;
    for (int64_t node = 0; node < nodes; node++)
        placement->first[node] = placement->first[node + 1];
    placement->first[nodes] = units;
}

Placement *placement_new_near(const Problem *problem, const Near *near, int64_t nodes) {
    if (problem->units > PLACE_NEAR_UNITS || nodes > UINT16_MAX)
        return placement_new(problem, PLACE_BLOCK, nodes);
    Placement *placement = new_zeroed(1, sizeof *placement);
    *placement = (Placement){.problem = problem, .policy = PLACE_NEAR, .near = *near};
    placement->owners = new_zeroed((size_t)problem->units, sizeof *placement->owners);
    placement->list = new_zeroed((size_t)problem->units, sizeof *placement->list);
    placement->first = new_zeroed((size_t)nodes + 1, sizeof *placement->first);
    placement_deal(placement, nodes);
    return placement;
}

/* The next units of a node as far as they are evenly apart. */
static UnitRange near_run(const int64_t *list, int64_t left, int64_t most) {
    UnitRange run = {.first = list[0], .count = 1, .step = left > 1 ? list[1] - list[0] : 1};
    while (run.count < left && run.count < most && list[run.count] - list[run.count - 1] == run.step)
        run.count++;
    return run;
}

Placement *placement_new(const Problem *problem, PlacementPolicy policy, int64_t nodes) {
    Placement *placement = new_zeroed(1, sizeof *placement);
    *placement = (Placement){.problem = problem, .policy = policy == PLACE_NEAR ? PLACE_BLOCK : policy};
    if (placement->policy == PLACE_BLOCK) {
        int depths = 1;
        for (int64_t n = nodes; n > 1; n = n / 2 + n % 2)
            depths++;
        placement->boxes = new_zeroed((size_t)nodes, sizeof *placement->boxes);
        placement->axes = new_zeroed((size_t)(nodes * depths), 1);
    }
    placement_deal(placement, nodes);
    return placement;
}

void placement_deal(Placement *placement, int64_t nodes) {
    placement->nodes = nodes;
    if (placement->policy == PLACE_NEAR)
        deal_near(placement);
    if (placement->policy != PLACE_BLOCK)
        return;
    const int64_t *supers = placement->problem->supers;
    split_box(placement, (Box){{0, 0, 0}, {supers[0], supers[1], supers[2]}}, 0, nodes, 0);
}

void placement_free(Placement *placement) {
    if (placement == NULL)
        return;
    free(placement->boxes);
    free(placement->axes);
    free(placement->owners);
    free(placement->list);
    free(placement->first);
    free(placement);
}

/* ---- what a node has ---- */

int64_t placement_count(const Placement *placement, int64_t node) {
    if (placement->policy == PLACE_BLOCK) {
        const int64_t *size = placement->boxes[node].size;
        return size[0] * size[1] * size[2];
    }
    if (placement->policy == PLACE_NEAR)
        return placement->first[node + 1] - placement->first[node];
    int64_t units = placement->problem->units;
    return node < units ? ceil_div(units - node, placement->nodes) : 0;
}

/* A box is a range where it is one row, or one column, and goes row by row elsewhere. */
static UnitRange box_run(const Problem *problem, const Box *box, int64_t offset, int64_t most) {
    int64_t x = offset % box->size[0], y = offset / box->size[0] % box->size[1], z = offset / box->size[0] / box->size[1];
    bool column = box->size[0] == 1;
    int64_t left = column ? box->size[1] - y : box->size[0] - x;
    int64_t first = ((box->low[2] + z) * problem->supers[1] + box->low[1] + y) * problem->supers[0] + box->low[0] + x;
    return (UnitRange){.first = first, .count = min64(left, most), .step = column ? problem->supers[0] : 1};
}

UnitRange placement_run(const Placement *placement, int64_t node, int64_t offset, int64_t most) {
    if (placement->policy == PLACE_BLOCK)
        return box_run(placement->problem, &placement->boxes[node], offset, most);
    int64_t left = placement_count(placement, node) - offset;
    if (placement->policy == PLACE_NEAR)
        return near_run(placement->list + placement->first[node] + offset, left, most);
    return (UnitRange){.first = node + offset * placement->nodes, .count = min64(left, most), .step = placement->nodes};
}

int64_t placement_node(const Placement *placement, const int64_t at[COORDINATES]) {
    const int64_t *supers = placement->problem->supers;
    if (placement->policy == PLACE_ROUND_ROBIN)
        return ((at[2] * supers[1] + at[1]) * supers[0] + at[0]) % placement->nodes;
    if (placement->policy == PLACE_NEAR)
        return placement->owners[(at[2] * supers[1] + at[1]) * supers[0] + at[0]];
    int64_t first = 0, nodes = placement->nodes, size[3] = {supers[0], supers[1], supers[2]}, place[3] = {at[0], at[1], at[2]};
    for (int depth = 0; nodes > 1; depth++) {
        int axis = placement->axes[depth * placement->nodes + first];
        int64_t parts = parts_of(nodes), p = 0, from, end;
        while (cut_at(size[axis], first_node(nodes, p + 1, parts), nodes) <= place[axis])
            p++;
        from = first_node(nodes, p, parts);
        end = first_node(nodes, p + 1, parts);
        int64_t low = cut_at(size[axis], from, nodes);
        place[axis] -= low;
        size[axis] = cut_at(size[axis], end, nodes) - low;
        first += from;
        nodes = end - from;
    }
    return first;
}
