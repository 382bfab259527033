/* What stands around the statements of a kernel: search dims, attributes, parameters, the offsets of the own tile. */
#include "tests/differential/generate.h"

#include <inttypes.h>

static const SearchSet fixed_rows[] = {{"1", 1, 1}, {"2", 2, 2}, {"3", 3, 3}, {"4", 4, 4}, {"5", 5, 5}, {"7", 7, 7}, {"8", 8, 8}, {"16", 16, 16}};
static const SearchSet fixed_columns[] = {{"1", 1, 1}, {"2", 2, 2}, {"3", 3, 3}, {"4", 4, 4}, {"5", 5, 5}, {"7", 7, 7}, {"8", 8, 8}, {"16", 16, 16},
    {"17", 17, 17}, {"32", 32, 32}, {"33", 33, 33}};
static const SearchSet searched_rows[] = {{"1, 4", 1, 4}, {"2, 8", 2, 8}, {"8, 4, 2", 2, 8}, {"8, 1", 1, 8}, {"3, 6, 12", 3, 12}};
static const SearchSet searched_columns[] = {{"4, 32", 4, 32}, {"2, 16", 2, 16}, {"5, 20", 5, 20}, {"16, 8", 8, 16}, {"4, 8, 16, 32, 64", 4, 64}};

void choose_frame(Generator *g) {
    int rank = below(g, 20);
    g->rank = rank < 5 ? 1 : rank < 14 ? 2 : rank < 18 ? 3 : 4;
    g->is_searched = chance(g, 30);
    g->search[0] = g->rank == 1 ? fixed_rows[0] : g->is_searched ? searched_rows[below(g, 5)] : fixed_rows[below(g, 8)];
    g->search[1] = g->is_searched ? searched_columns[below(g, 5)] : fixed_columns[below(g, 11)];
    g->tile[0] = g->is_searched && g->rank > 1 ? 1009 : g->search[0].most;
    g->tile[1] = g->is_searched ? 2003 : g->search[1].most;
    g->spelling[0] = g->rank > 1 ? "TM" : NULL;
    g->spelling[1] = "TN";
    g->has_batch = g->rank >= 3;
    g->has_cluster = g->rank < 4 && chance(g, 30);
    g->is_shifted = !g->has_cluster && chance(g, 35);
    for (int axis = 0; axis < 2 && g->is_shifted; axis++) {
        g->shift[axis] = chance(g, 70) ? 1 + axis : (int)g->search[axis].most + below(g, 5);
        g->beyond[axis] = chance(g, 60) ? 0 : 1 + below(g, 2);
    }
}

/* Multiples of the greatest value, which is one of every other. */
static int64_t cluster_value(Generator *g, int axis) {
    return g->search[axis].most * (1 + below(g, 3));
}

static void print_requirement(Generator *g, Buffer *out) {
    switch (below(g, 4)) {
    case 0:
        buffer_printf(out, "@require(TN <= %" PRId64 ")\n", g->search[1].most - (g->is_searched ? 1 : 0));
        break;
    case 1:
        buffer_puts(out, g->rank > 1 ? "@require(TM * TN <= 4096, M >= 1)\n" : "@require(TN * TN <= 4096)\n");
        break;
    case 2:
        buffer_puts(out, "@require(N + 64 >= TN, N <= 100000)\n");
        break;
    default:
        buffer_printf(out, "@require(TN >= %" PRId64 " && ceildiv(N, TN) > 0)\n", g->search[1].least);
        break;
    }
}

void print_attributes(Generator *g, Buffer *out, bool is_aligned) {
    bool has_rows = g->rank > 1;
    if (g->has_cluster) {
        const char *rows = has_rows ? text(g, "TM in [%" PRId64 "], ", cluster_value(g, 0)) : "";
        buffer_printf(out, "@cluster(%sTN in [%" PRId64 "])\n", rows, cluster_value(g, 1));
    }
    buffer_printf(out, "@autotune(%sTN in [%s])\n", has_rows ? text(g, "TM in [%s], ", g->search[0].text) : "", g->search[1].text);
    if (is_aligned)
        buffer_printf(out, "@aligned(%sN = TN)\n", has_rows ? "M = TM, " : "");
    if (g->is_shifted) {
        const char *rows = has_rows ? text(g, ", ceildiv(M + %d, TM) + %d", g->shift[0], g->beyond[0]) : "";
        buffer_printf(out, "@grid(ceildiv(N + %d, TN) + %d%s%s)\n", g->shift[1], g->beyond[1], rows, g->has_batch ? ", B" : "");
    }
    if (chance(g, 20) && !g->has_cluster)
        print_requirement(g, out);
    if (chance(g, 10))
        buffer_puts(out, chance(g, 50) ? "@launch(128)\n" : "@pipeline(2)\n");
}

void add_outputs(Generator *g) {
    static const char *const dims[] = {"N", "M, N", "B, M, N", "B, 3, M, N"};
    g->output_count = 1 + below(g, MOST_OUTPUTS);
    for (int i = 0; i < g->output_count; i++) {
        g->outputs[i] = (Output){text(g, "o%d", i), any_type(g)};
        buffer_printf(&g->params, "%s%s: tensor<%s>[%s]", i ? ", " : "", g->outputs[i].name, dtype_name(g->outputs[i].type), dims[g->rank - 1]);
    }
}

void add_scalars(Generator *g) {
    for (int i = below(g, 3); i > 0; i--) {
        PhbDType type = number_type(g);
        const char *name = text(g, "s%d", i);
        buffer_printf(&g->params, ", %s: %s", name, dtype_name(type));
        g->names[g->name_count++] = (Name){name, type, scalar_shape(), false, false, true, -1};
    }
}

void add_frame(Generator *g) {
    const char *shift[2];
    for (int axis = 0; axis < 2; axis++)
        shift[axis] = g->is_shifted ? text(g, " - %d", g->shift[axis]) : "";
    if (g->rank > 1)
        line(g, chance(g, 50) ? "let row = ctx.block.y * TM%s" : "let row = TM * ctx.block.y%s", shift[0]);
    line(g, "let col = ctx.block.x * TN%s", shift[1]);
    for (int i = g->rank > 1 ? 0 : 1; i < 2 && !g->has_cluster; i++)
        g->names[g->name_count++] = (Name){i ? "col" : "row", PHB_I64, scalar_shape(), false, false, true, -1};
}

/* An extent around a few tiles: below one, whole, with a rest. */
static int64_t whole_extent(Generator *g, int axis, bool is_aligned) {
    int tile = (int)(chance(g, 50) ? g->search[axis].most : g->search[axis].least), room = (int)g->search[axis].least - g->shift[axis] - 1;
    if (g->is_shifted && room > 0 && chance(g, 70)) /* shorter than what is left of a tile that begins before it */
        return 1 + below(g, room);
    int64_t extent = is_aligned ? g->search[axis].most * (1 + below(g, 2)) : tile * (1 + below(g, 3)) + below(g, 2 * tile + 1) - tile;
    return extent < 1 ? 1 : extent;
}

void print_setting(Generator *g, Buffer *out, uint64_t seed, bool is_aligned) {
    buffer_printf(out, "// differential %s seed=%" PRIu64, g->kernel, seed);
    if (g->rank > 1)
        buffer_printf(out, " M=%" PRId64, whole_extent(g, 0, is_aligned));
    buffer_printf(out, " N=%" PRId64, whole_extent(g, 1, is_aligned));
    if (g->has_batch)
        buffer_printf(out, " B=%d", 1 + below(g, 3));
    buffer_printf(out, "%s\n", g->dims.data ? g->dims.data : "");
}
