/* Which node gets which units. */
#include "runtime/sched/sched.h"

#include <stdlib.h>

/* ---- block: a box of super-tiles for each node, so that a node reads little ---- */

static int64_t min64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

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

Placement *placement_new(const Problem *problem, PlacementPolicy policy, int64_t nodes) {
    Placement *placement = new_zeroed(1, sizeof *placement);
    *placement = (Placement){.problem = problem, .policy = policy};
    if (policy == PLACE_BLOCK) {
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
    free(placement);
}

/* ---- what a node has ---- */

int64_t placement_count(const Placement *placement, int64_t node) {
    if (placement->policy == PLACE_BLOCK) {
        const int64_t *size = placement->boxes[node].size;
        return size[0] * size[1] * size[2];
    }
    int64_t units = placement->problem->units;
    return node < units ? (units - node + placement->nodes - 1) / placement->nodes : 0;
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
    return (UnitRange){.first = node + offset * placement->nodes, .count = min64(left, most), .step = placement->nodes};
}

int64_t placement_node(const Placement *placement, const int64_t at[COORDINATES]) {
    const int64_t *supers = placement->problem->supers;
    if (placement->policy == PLACE_ROUND_ROBIN)
        return ((at[2] * supers[1] + at[1]) * supers[0] + at[0]) % placement->nodes;
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
