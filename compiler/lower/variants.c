/* Which assignments of the search dims the CPU code holds: one, the best by a static model, and where the tensors or the launch decide a search dim,
 * one for each of its values, so that the choice is left to them.
 *
 * The model: a CTA's tiles should stay in the first-level cache while element-wise code runs over them, and the larger they are the less the work
 * around each CTA costs. Contractions block for the first-level cache by themselves: there the tiles should stay in the second-level cache. */
#include "compiler/lower/lower.h"

#include <string.h>

enum {
    FIRST_CACHE_BYTES = 32 << 10,   /* of every x86-64-v3 core, for data */
    SECOND_CACHE_BYTES = 512 << 10, /* of most, or more */
    MAX_ASSIGNMENTS = 1 << 14,      /* that are looked at, in declaration order */
    MAX_SLICES = 256,               /* of one block, that are told apart */
    MAX_VARIANTS = 16,              /* that are kept */
};

typedef struct Candidate {
    int64_t *values;
    int64_t bytes;
} Candidate;

/* Tiles that are in memory at once: those of a block, and of one of its regions. */
typedef struct Part Part;
struct Part {
    VEC(int) tiles; /* index into Selection.shapes */
    VEC(Part *) regions;
    const IrOp *slices[MAX_SLICES]; /* loads and stores */
    int slice_count;
};

typedef struct Selection {
    Context *context;
    const ClusterKernel *kernel;
    bool *decided; /* by search dim: by the tensors or at launch */
    Part *body;
    VEC(const Type *) shapes; /* of tiles in memory, each once */
    int64_t *shape_bytes;     /* under the assignment at hand; INT64_MAX where that has no value */
    bool contracts;
    VEC(Candidate) best; /* one for each combination of decided values */
} Selection;

/* ---- which search dims matter, and which are fixed elsewhere ---- */

static void mark(const Signature *signature, const Dim *dim, bool *marks) {
    for (int i = 0; i < signature->search.count; i++)
        marks[i] |= dim_mentions(dim, signature->search.items[i].name);
}

bool *variant_decided(Context *context, const ClusterKernel *kernel) {
    const Signature *signature = &kernel->kernel->signature;
    Assignment first = assignment_first(context, signature);
    int64_t value;
    bool *decided = NEW_ARRAY(context->arena, bool, signature->search.count + 1);
    for (int i = 0; i < signature->params.count; i++)
        for (int k = 0; k < signature->params.items[i].type->rank; k++)
            mark(signature, signature->params.items[i].type->dims[k], decided);
    for (int i = 0; i < signature->aligned.count; i++)
        mark(signature, signature->aligned.items[i].tile, decided);
    for (int i = 0; i < signature->require.count; i++)
        if (!dim_evaluate(context, signature, signature->require.items[i].cond, first.values, &value))
            mark(signature, signature->require.items[i].cond, decided);
    return decided;
}

/* Super-tiles have the dim's extent along an axis. */
static bool is_super_tile(const ClusterKernel *kernel, const SearchDim *dim) {
    for (int axis = 0; axis < 3; axis++)
        if (kernel->grid[axis].dim == dim)
            return true;
    for (int i = 0; i < kernel->loops.count; i++)
        if (kernel->loops.items[i].dim == dim)
            return true;
    return false;
}

/* The others stay at their first value, which no tie would leave. */
static void find_varying(const Selection *s, bool *varies) {
    const Signature *signature = &s->kernel->kernel->signature;
    memcpy(varies, s->decided, (size_t)signature->search.count);
    for (int i = 0; i < s->shapes.count; i++)
        for (int k = 0; k < s->shapes.items[i]->rank; k++)
            mark(signature, s->shapes.items[i]->dims[k], varies);
    for (int i = 0; i < signature->require.count; i++)
        mark(signature, signature->require.items[i].cond, varies);
    for (int i = 0; i < signature->search.count; i++)
        varies[i] |= is_super_tile(s->kernel, &signature->search.items[i]);
}

/* ---- the working set ---- */

static bool same_slice(const IrOp *a, const IrOp *b) {
    int rank = a->operands.items[0]->type->rank;
    if (a->operands.items[0] != b->operands.items[0])
        return false;
    for (int k = 0; k < rank; k++)
        if (a->operands.items[1 + k] != b->operands.items[1 + k] || a->extent[k] != b->extent[k])
            return false;
    return true;
}

static void add_tile(Selection *s, Part *part, const Type *type) {
    if (type->rank == 0)
        return;
    int shape = 0;
    while (shape < s->shapes.count && s->shapes.items[shape] != type)
        shape++;
    if (shape == s->shapes.count)
        vec_push(s->context->arena, &s->shapes, type);
    vec_push(s->context->arena, &part->tiles, shape);
}

/* Distinct slices only: what is updated in place is one tile. */
static void add_slice(Selection *s, Part *part, const IrOp *op) {
    for (int i = 0; i < part->slice_count; i++)
        if (same_slice(op, part->slices[i]))
            return;
    if (part->slice_count < MAX_SLICES)
        part->slices[part->slice_count++] = op;
    add_tile(s, part, op->kind == OP_LOAD ? op->results.items[0]->type : op->operands.items[op->operands.count - 1]->type);
}

/* In memory is what is carried, and what takes more than one element of an operand for one of its own; element-wise values are not. */
static Part *find_tiles(Selection *s, const IrBlock *block) {
    Part *part = NEW(s->context->arena, Part);
    for (int i = 0; block->owner && i < block->args.count; i++)
        add_tile(s, part, block->args.items[i]->type);
    for (const IrOp *op = block->first; op; op = op->next) {
        bool is_dot = op->kind == OP_DOT || op->kind == OP_DOT_T;
        s->contracts |= is_dot;
        if (ir_is_tensor_access(op) && !ir_is_atomic(op->kind))
            add_slice(s, part, op);
        else if (is_dot || op->kind == OP_CUMSUM || op->kind == OP_TRANSPOSE || (op_info[op->kind].traits & TRAIT_REDUCES))
            add_tile(s, part, op->results.items[0]->type);
        for (int i = 0; i < op->regions.count; i++)
            vec_push(s->context->arena, &part->regions, find_tiles(s, op->regions.items[i]));
    }
    return part;
}

static int64_t add_saturating(int64_t a, int64_t b) {
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static int64_t tile_bytes(const Selection *s, const Type *type, const int64_t *values) {
    int64_t bytes = (dtype_bits(type->scalar) + 7) / 8, extent;
    for (int k = 0; k < type->rank; k++)
        if (!dim_evaluate(s->context, &s->kernel->kernel->signature, type->dims[k], values, &extent) || __builtin_mul_overflow(bytes, extent, &bytes))
            return INT64_MAX;
    return bytes;
}

static int64_t part_bytes(const Selection *s, const Part *part) {
    int64_t own = 0, largest = 0;
    for (int i = 0; i < part->tiles.count; i++)
        own = add_saturating(own, s->shape_bytes[part->tiles.items[i]]);
    for (int i = 0; i < part->regions.count; i++) {
        int64_t bytes = part_bytes(s, part->regions.items[i]);
        largest = bytes > largest ? bytes : largest;
    }
    return add_saturating(own, largest);
}

/* INT64_MAX where it has no value. */
static int64_t working_set(Selection *s, const int64_t *values) {
    for (int i = 0; i < s->shapes.count; i++)
        s->shape_bytes[i] = tile_bytes(s, s->shapes.items[i], values);
    return part_bytes(s, s->body);
}

/* ---- the choice ---- */

bool variant_admissible(Context *context, const ClusterKernel *kernel, const int64_t *values) {
    const Signature *signature = &kernel->kernel->signature;
    int64_t holds;
    for (int i = 0; i < signature->require.count; i++)
        if (dim_evaluate(context, signature, signature->require.items[i].cond, values, &holds) && !holds)
            return false;
    for (int i = 0; i < signature->search.count; i++)
        if (is_super_tile(kernel, &signature->search.items[i]) && signature->search.items[i].cluster.items[0] % values[i] != 0)
            return false;
    return true;
}

static bool is_better(const Selection *s, int64_t bytes, int64_t than) {
    int64_t cache = s->contracts ? SECOND_CACHE_BYTES : FIRST_CACHE_BYTES;
    bool fits = bytes <= cache, other_fits = than <= cache;
    if (fits != other_fits)
        return fits;
    return fits ? bytes > than : bytes < than;
}

static Candidate *find_rival(Selection *s, const int64_t *values) {
    int count = s->kernel->kernel->signature.search.count;
    for (int i = 0; i < s->best.count; i++) {
        bool same = true;
        for (int j = 0; same && j < count; j++)
            same = !s->decided[j] || s->best.items[i].values[j] == values[j];
        if (same)
            return &s->best.items[i];
    }
    return NULL;
}

static void consider(Selection *s, const int64_t *values) {
    size_t size = sizeof *values * (size_t)s->kernel->kernel->signature.search.count;
    if (!variant_admissible(s->context, s->kernel, values))
        return;
    int64_t bytes = working_set(s, values);
    Candidate *rival = find_rival(s, values);
    if (rival && is_better(s, bytes, rival->bytes)) {
        memcpy(rival->values, values, size);
        rival->bytes = bytes;
    } else if (!rival && s->best.count < MAX_VARIANTS) {
        Candidate candidate = {arena_alloc(s->context->arena, size + sizeof *values), bytes};
        memcpy(candidate.values, values, size);
        vec_push(s->context->arena, &s->best, candidate);
    }
}

static void select_kernel(Context *context, ClusterKernel *kernel) {
    const Signature *signature = &kernel->kernel->signature;
    Selection s = {.context = context, .kernel = kernel};
    s.decided = variant_decided(context, kernel);
    s.body = find_tiles(&s, kernel->kernel->body);
    s.shape_bytes = NEW_ARRAY(context->arena, int64_t, s.shapes.count + 1);
    Assignment assignment = assignment_first(context, signature);
    find_varying(&s, assignment.varies);
    int tried = 0;
    do
        consider(&s, assignment.values);
    while (assignment_next(&assignment) && ++tried < MAX_ASSIGNMENTS);
    if (s.best.count == 0)
        diag_error(
            context->diag, signature->span, "no values under @autotune satisfy every @require of '%s' and divide its super-tiles", signature->name);
    for (int i = 0; i < s.best.count; i++) {
        LeafVariant variant = {.values = s.best.items[i].values, .stages = NEW_ARRAY(context->arena, IrKernel *, kernel->stages.count)};
        for (int stage = 0; stage < kernel->stages.count; stage++)
            variant.stages[stage] = specialise(context, kernel->stages.items[stage].kernel, variant.values);
        vec_push(context->arena, &kernel->variants, variant);
    }
}

void select_cpu_variants(Context *context, ClusterProgram *program) {
    for (int i = 0; i < program->kernels.count; i++)
        select_kernel(context, program->kernels.items[i]);
}
