/* Which assignments of the search dims the CPU code holds: one, the best by a static model, and where the tensors or the launch decide a search dim,
 * one for each of its values, so that the choice is left to them.
 *
 * The model: a CTA's tiles should stay in the first-level cache while element-wise code runs over them, and the larger they are the less the work
 * around each CTA costs. */
#include "compiler/lower/lower.h"

#include <string.h>

enum {
    CACHE_BYTES = 32 << 10,    /* the first-level data cache of every x86-64-v3 core */
    MAX_ASSIGNMENTS = 1 << 14, /* that are looked at, in declaration order */
    MAX_SLICES = 256,          /* that are counted */
    MAX_VARIANTS = 16,         /* that are kept */
};

typedef struct Candidate {
    int64_t *values;
    int64_t bytes;
} Candidate;

typedef struct Selection {
    Context *context;
    const ClusterKernel *kernel;
    bool *decided; /* by search dim: by the tensors or at launch */
    const IrOp *slices[MAX_SLICES];
    int slice_count;
    VEC(Candidate) best; /* one for each combination of decided values */
} Selection;

/* ---- which search dims matter, and which are fixed elsewhere ---- */

static void mark(const Signature *signature, const Dim *dim, bool *marks) {
    for (int i = 0; i < signature->search.count; i++)
        marks[i] |= dim_mentions(dim, signature->search.items[i].name);
}

static void find_decided(Selection *s) {
    const Signature *signature = &s->kernel->kernel->signature;
    Assignment first = assignment_first(s->context, signature);
    int64_t value;
    s->decided = NEW_ARRAY(s->context->arena, bool, signature->search.count + 1);
    for (int i = 0; i < signature->params.count; i++)
        for (int k = 0; k < signature->params.items[i].type->rank; k++)
            mark(signature, signature->params.items[i].type->dims[k], s->decided);
    for (int i = 0; i < signature->aligned.count; i++)
        mark(signature, signature->aligned.items[i].tile, s->decided);
    for (int i = 0; i < signature->require.count; i++)
        if (!dim_evaluate(s->context, signature, signature->require.items[i].cond, first.values, &value))
            mark(signature, signature->require.items[i].cond, s->decided);
}

/* The others stay at their first value, which no tie would leave. */
static void find_varying(const Selection *s, bool *varies) {
    const Signature *signature = &s->kernel->kernel->signature;
    memcpy(varies, s->decided, (size_t)signature->search.count);
    for (int i = 0; i < s->slice_count; i++)
        for (int k = 0; k < PHB_MAX_RANK; k++)
            if (s->slices[i]->extent[k])
                mark(signature, s->slices[i]->extent[k], varies);
    for (int i = 0; i < signature->require.count; i++)
        mark(signature, signature->require.items[i].cond, varies);
    for (int axis = 0; axis < 3; axis++)
        if (s->kernel->grid[axis].dim)
            varies[s->kernel->grid[axis].dim - signature->search.items] = true;
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

/* Distinct slices only: what is updated in place is one tile. */
static void find_slices(Selection *s) {
    for (const IrOp *op = s->kernel->kernel->body->first; op && s->slice_count < MAX_SLICES; op = op->next) {
        bool is_new = op->kind == OP_LOAD || op->kind == OP_STORE;
        for (int i = 0; is_new && i < s->slice_count; i++)
            is_new = !same_slice(op, s->slices[i]);
        if (is_new)
            s->slices[s->slice_count++] = op;
    }
}

/* INT64_MAX where it has no value. */
static int64_t working_set(const Selection *s, const int64_t *values) {
    int64_t total = 0;
    for (int i = 0; i < s->slice_count; i++) {
        const IrOp *op = s->slices[i];
        const Type *type = op->operands.items[0]->type;
        int64_t bytes = (dtype_bits(type->scalar) + 7) / 8, extent;
        for (int k = 0; k < type->rank; k++)
            if (op->extent[k] && (!dim_evaluate(s->context, &s->kernel->kernel->signature, op->extent[k], values, &extent) ||
                                     __builtin_mul_overflow(bytes, extent, &bytes)))
                return INT64_MAX;
        if (__builtin_add_overflow(total, bytes, &total))
            return INT64_MAX;
    }
    return total;
}

/* ---- the choice ---- */

static bool is_admissible(const Selection *s, const int64_t *values) {
    const Signature *signature = &s->kernel->kernel->signature;
    int64_t holds;
    for (int i = 0; i < signature->require.count; i++)
        if (dim_evaluate(s->context, signature, signature->require.items[i].cond, values, &holds) && !holds)
            return false;
    for (int axis = 0; axis < 3; axis++) {
        const SearchDim *dim = s->kernel->grid[axis].dim;
        if (dim && dim->cluster.items[0] % values[dim - signature->search.items] != 0)
            return false;
    }
    return true;
}

static bool is_better(int64_t bytes, int64_t than) {
    bool fits = bytes <= CACHE_BYTES, other_fits = than <= CACHE_BYTES;
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
    if (!is_admissible(s, values))
        return;
    int64_t bytes = working_set(s, values);
    Candidate *rival = find_rival(s, values);
    if (rival && is_better(bytes, rival->bytes)) {
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
    find_decided(&s);
    find_slices(&s);
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
        LeafVariant variant = {s.best.items[i].values, specialise(context, kernel->kernel, s.best.items[i].values)};
        vec_push(context->arena, &kernel->variants, variant);
    }
}

void select_cpu_variants(Context *context, ClusterProgram *program) {
    for (int i = 0; i < program->kernels.count; i++)
        select_kernel(context, program->kernels.items[i]);
}
