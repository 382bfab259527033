/* Which assignments of the search dims the GPU code holds, best first: by a static model of what a CTA computes, for each combination of those values
 * that the tensors or the launch decide.
 *
 * The model knows no target. Products of tiles want a large tile for each byte they read, up to what registers hold; where they are chained, what a
 * warp reads for each of its rows counts. Other code wants tiles of some thousand elements: fewer leave threads or their memory accesses idle, more
 * cost registers and leave multiprocessors without a CTA. */
#include "compiler/lower/lower.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_ASSIGNMENTS = 1 << 14, /* that are looked at, in declaration order */
    MAX_GROUPS = 16,           /* combinations of decided values that get code */
    GOOD_ROW = 1024,           /* elements of the largest tile of a CTA, without products: of one row or column, */
    GOOD_TILE = 4096,          /* and of more */
    GOOD_PRODUCT = 128 * 128,  /* of a product's result */
    MOST_PRODUCT = 256 * 128,  /* beyond it registers spill */
    GOOD_DEPTH = 128,          /* bytes along k of a factor's rows: a turn of the loop is then long against its barriers */
    ROW_COLUMNS = 128,         /* of products that follow one another, for which a warp has the registers for 32 rows, otherwise for 16 */
    RING_BYTES = 80 << 10,     /* of shared memory for factors, two turns of them, where another CTA is to have as much */
};

typedef struct Candidate {
    int64_t *values;
    double cost; /* less is better */
    int number;  /* in declaration order */
} Candidate;

typedef VEC(Candidate) Candidates;

typedef VEC(const Type *) Shapes;

static void add_shape(Context *context, Shapes *shapes, const Type *type) {
    if (type->kind != TYPE_TILE)
        return;
    for (int i = 0; i < shapes->count; i++)
        if (shapes->items[i] == type)
            return;
    vec_push(context->arena, shapes, type);
}

/* Tiles of a kernel, each shape once. */
typedef struct Tiles {
    Shapes products, factors, seconds, others; /* factors: [m, k]; seconds: [k, n], or [n, k] */
    bool by_matrix;                            /* factors have 16 bits or fewer */
    bool by_planes;                            /* or f32 that is split: each sum is in registers twice */
    int reductions;                            /* in a turn of one loop, at most */
} Tiles;

static int count_reductions(const IrBlock *block) {
    int count = 0;
    for (const IrOp *op = block->first; op; op = op->next)
        count += (op_info[op->kind].traits & TRAIT_REDUCES) != 0;
    return count;
}

static void find_shapes(Context *context, const IrBlock *block, bool may_split, Tiles *tiles) {
    int reductions = block->owner && block->owner->kind == OP_FOR ? count_reductions(block) : 0;
    tiles->reductions = reductions > tiles->reductions ? reductions : tiles->reductions;
    for (const IrOp *op = block->first; op; op = op->next) {
        bool is_product = op->kind == OP_DOT || op->kind == OP_DOT_T;
        for (int i = 0; i < op->results.count; i++)
            add_shape(context, is_product ? &tiles->products : &tiles->others, op->results.items[i]->type);
        if (is_product) {
            add_shape(context, &tiles->factors, op->operands.items[0]->type);
            add_shape(context, &tiles->seconds, op->operands.items[1]->type);
            tiles->by_matrix |= dtype_bits(op->operands.items[0]->type->scalar) <= 16;
            tiles->by_planes |= may_split && op->operands.items[0]->type->scalar == PHB_F32;
        }
        for (int i = 0; i < op->regions.count; i++)
            find_shapes(context, op->regions.items[i], may_split, tiles);
    }
}

/* The largest tile, or the smallest, under an assignment; without one, all is 0. */
typedef struct TileSize {
    double elements, perimeter;
    double rows, row_bytes; /* of a tile of rank 2 */
    double bytes;
    bool is_row; /* or a column */
} TileSize;

static TileSize find_size(Context *context, const Signature *signature, const Shapes *shapes, const int64_t *values, bool smallest) {
    TileSize found = {0};
    for (int i = 0; i < shapes->count; i++) {
        TileSize tile = {.elements = 1};
        int long_axes = 0;
        double bytes = dtype_bits(shapes->items[i]->scalar) / 8;
        for (int k = 0; k < shapes->items[i]->rank; k++) {
            int64_t extent = 0;
            dim_evaluate(context, signature, shapes->items[i]->dims[k], values, &extent);
            tile.elements *= (double)extent;
            tile.perimeter += (double)extent;
            tile.rows = shapes->items[i]->rank == 1 ? 1 : k == 0 ? (double)extent : tile.rows;
            tile.row_bytes = (double)extent * bytes;
            long_axes += extent > 1;
        }
        tile.is_row = long_axes < 2;
        tile.bytes = tile.elements * bytes;
        if (!found.elements || (smallest ? tile.elements < found.elements : tile.elements > found.elements))
            found = tile;
    }
    return found;
}

/* How many times too large or too small. */
static double distance(double size, double good) {
    return size > good ? size / good : good / (size > 1 ? size : 1);
}

/* The same where four warps can multiply 64 rows at a time by what bulk copies bring, and registers hold all sums: the more columns there are, the
 * less is a turn beside its products, and two such groups read each slice once. 0: they cannot. */
static double cost_of_four_warps(Context *context, const Signature *signature, const Tiles *tiles, const int64_t *values) {
    enum { GROUP_ROWS = 64, MOST_COLUMNS = 256, TURN_COLUMNS = 64, COPIED_BYTES = 192 << 10 };
    const double one_group = 1.15, least_of_warps = 1.0 / 64; /* of what a warp's own instructions cost at best */
    double columns = 0, ring = 0, rows = find_size(context, signature, &tiles->products, values, true).rows;
    for (int i = 0; i < tiles->factors.count; i++)
        if (dtype_bits(tiles->factors.items[i]->scalar) != 16)
            return 0;
    for (int i = 0; i < tiles->products.count; i++) {
        const Shapes one = {.items = &tiles->products.items[i], .count = 1};
        TileSize size = find_size(context, signature, &one, values, false);
        columns += size.elements / size.rows;
    }
    for (int i = 0; i < tiles->seconds.count; i++) {
        const Shapes one = {.items = &tiles->seconds.items[i], .count = 1};
        ring += 2 * find_size(context, signature, &one, values, false).bytes;
    }
    if (tiles->products.count == 1)
        columns *= 2;
    double groups = rows >= 2 * GROUP_ROWS ? 2 : 1;
    if (rows < GROUP_ROWS || columns * rows > MOST_COLUMNS * GROUP_ROWS * groups || ring > COPIED_BYTES)
        return 0;
    return (1 + TURN_COLUMNS / columns) * (groups < 2 ? one_group : 1) * least_of_warps;
}

/* Products of which one's result is the next one's factor, so that a warp has whole rows of all of them: reads of second factors from shared memory,
 * one for all rows of a warp; what each turn costs besides; and whether the turns can be copied ahead. */
static double cost_of_chain(Context *context, const Signature *signature, const Tiles *tiles, const int64_t *values) {
    enum { TURN_COLUMNS = 16 }; /* what a turn costs besides is as much as for so many columns */
    const double one_large_cta = 1.1, copied_late = 2;
    double columns = 0, least = INT32_MAX, ring = 0, rows = find_size(context, signature, &tiles->products, values, false).rows;
    for (int i = 0; i < tiles->products.count; i++) {
        const Shapes one = {.items = &tiles->products.items[i], .count = 1};
        TileSize size = find_size(context, signature, &one, values, false);
        columns += size.elements / size.rows;
        least = size.elements / size.rows < least ? size.elements / size.rows : least;
    }
    for (int i = 0; i < tiles->seconds.count; i++) {
        const Shapes one = {.items = &tiles->seconds.items[i], .count = 1};
        ring += find_size(context, signature, &one, values, false).bytes;
    }
    if (tiles->seconds.count == 1)
        ring *= tiles->products.count;
    double of_warp = columns <= ROW_COLUMNS && rows >= 4 * 32 ? 32 : 16;
    double cost = (1 + TURN_COLUMNS / least) / of_warp;
    bool is_large = rows / of_warp > 4;
    return cost * (is_large ? one_large_cta : 1) * (2 * ring > (is_large ? 2 * RING_BYTES : RING_BYTES) ? copied_late : 1);
}

/* Where a loop reduces rows, and a CTA has more warps than its tile rows, they meet at each reduction of a turn. */
static double cost_of_meetings(const Tiles *tiles, const TileSize *tile) {
    enum { WARPS = 8, OF_WARP = 256 };
    const double each = 0.15; /* the first one costs little more than the warps' own work */
    bool meet = tiles->reductions > 1 && tile->rows < WARPS && tile->elements > OF_WARP;
    return meet ? 1 + each * (tiles->reductions - 1) : 1;
}

static double cost_of(Context *context, const Signature *signature, const Tiles *tiles, const int64_t *values) {
    TileSize other = find_size(context, signature, &tiles->others, values, false),
             product = find_size(context, signature, &tiles->products, values, false);
    if (product.elements == 0) {
        double cost = !other.is_row               ? distance(other.elements, GOOD_TILE)
                      : other.elements > GOOD_ROW ? 1 + other.elements / GOOD_TILE
                                                  : distance(other.elements, GOOD_ROW);
        return cost * cost_of_meetings(tiles, &other);
    }
    if (tiles->by_matrix && tiles->products.count > 1) {
        double of_four_warps = cost_of_four_warps(context, signature, tiles, values);
        return of_four_warps > 0 ? of_four_warps : cost_of_chain(context, signature, tiles, values);
    }
    double reads = product.perimeter / product.elements; /* elements a product of the inner extent */
    double most = tiles->by_planes ? GOOD_PRODUCT : MOST_PRODUCT, excess = product.elements > most ? product.elements / most * 16 : 1;
    double operands = other.elements > 2 * GOOD_PRODUCT ? other.elements / GOOD_PRODUCT : 1;
    double depth = distance(find_size(context, signature, &tiles->factors, values, false).row_bytes, GOOD_DEPTH);
    double least = distance(find_size(context, signature, &tiles->products, values, true).elements, GOOD_PRODUCT); /* where several are chained */
    double width = product.rows / product.perimeter; /* of two alike the wider, by matrix instructions the taller */
    if (tiles->by_matrix)
        width = 1 - width;
    return reads * excess * operands * (1 + (depth - 1) / 16 + (least - 1) / 32 + width / 256);
}

static bool same_group(const bool *decided, int count, const int64_t *a, const int64_t *b) {
    for (int i = 0; i < count; i++)
        if (decided[i] && a[i] != b[i])
            return false;
    return true;
}

/* Of equal costs the earlier in declaration order comes first. */
static int compare_candidates(const void *a, const void *b) {
    const Candidate *x = a, *y = b;
    return x->cost != y->cost ? (x->cost > y->cost) - (x->cost < y->cost) : (x->number > y->number) - (x->number < y->number);
}

static Candidates find_candidates(Context *context, const ClusterKernel *kernel) {
    const Signature *signature = &kernel->kernel->signature;
    Tiles tiles = {0};
    Candidates candidates = {0};
    find_shapes(context, kernel->kernel->body, signature->tensorcore == TENSORCORE_BF16X6, &tiles);
    Assignment assignment = assignment_first(context, signature);
    for (int i = 0; i < signature->search.count; i++)
        assignment.varies[i] = true;
    int tried = 0;
    do {
        if (!variant_admissible(context, kernel, assignment.values))
            continue;
        Candidate candidate = {arena_alloc(context->arena, sizeof(int64_t) * (size_t)(signature->search.count + 1)),
            cost_of(context, signature, &tiles, assignment.values), candidates.count};
        memcpy(candidate.values, assignment.values, sizeof(int64_t) * (size_t)signature->search.count);
        vec_push(context->arena, &candidates, candidate);
    } while (assignment_next(&assignment) && ++tried < MAX_ASSIGNMENTS);
    if (candidates.count)
        qsort(candidates.items, (size_t)candidates.count, sizeof *candidates.items, compare_candidates);
    return candidates;
}

static void take(Context *context, ClusterKernel *kernel, int64_t *values) {
    GpuVariant variant = {.values = values, .stages = NEW_ARRAY(context->arena, IrKernel *, kernel->stages.count)};
    for (int stage = 0; stage < kernel->stages.count; stage++)
        variant.stages[stage] = specialise(context, kernel->stages.items[stage].kernel, values);
    vec_push(context->arena, &kernel->gpu_variants, variant);
}

static void select_kernel(Context *context, ClusterKernel *kernel, int most) {
    int dims = kernel->kernel->signature.search.count;
    bool *decided = variant_decided(context, kernel);
    Candidates candidates = find_candidates(context, kernel);
    const int64_t *groups[MAX_GROUPS];
    int group_count = 0, taken[MAX_GROUPS] = {0};
    for (int i = 0; i < candidates.count; i++) {
        int group = 0;
        while (group < group_count && !same_group(decided, dims, groups[group], candidates.items[i].values))
            group++;
        if (group == group_count && group_count < MAX_GROUPS)
            groups[group_count++] = candidates.items[i].values;
    }
    int each = most <= 0 ? INT32_MAX : most > group_count ? most / (group_count > 0 ? group_count : 1) : 1;
    for (int i = 0; i < candidates.count; i++)
        for (int group = 0; group < group_count; group++)
            if (same_group(decided, dims, groups[group], candidates.items[i].values) && taken[group]++ < each)
                take(context, kernel, candidates.items[i].values);
}

void select_gpu_variants(Context *context, ClusterProgram *program, int most) {
    for (int i = 0; i < program->kernels.count; i++)
        select_kernel(context, program->kernels.items[i], most);
}
