/* The choice of a leaf variant, and what each of its launches gets: dims, CTAs, extents of states. Requires the problem's grid, loops and operands.
 */
#include "runtime/device/planes.h"
#include "runtime/sched/sched.h"

#include <inttypes.h>
#include <string.h>

/* ---- which variants are legal ---- */

/* A search dim outside @cluster has a value in the job only where the job or a tensor's shape fixes it. */
static int64_t wanted_value(const Job *job, int dim) {
    if (job->leaf_values != NULL && job->leaf_values[dim] != 0)
        return job->leaf_values[dim];
    return job->kernel->dims[dim].cluster_count == 0 ? job->dims[dim] : 0;
}

bool variant_has_code(const PhbVariant *variant, DeviceClass device) {
    switch (device) {
    case CLASS_CPU:
        return variant->cpu_count > 0;
    case CLASS_GPU:
        return variant->gpu_count > 0;
    case CLASS_SIMT:
        return variant->simt != NULL;
    }
    return false;
}

static bool variant_wanted(const Job *job, const PhbVariant *variant) {
    if (!variant_has_code(variant, job->device) || (job->barred != NULL && job->barred[variant - job->kernel->variants]))
        return false;
    for (int d = 0; d < job->kernel->dim_count; d++) {
        int64_t wanted = job->kernel->dims[d].is_search ? wanted_value(job, d) : 0;
        if (wanted != 0 && variant->values[d] != wanted)
            return false;
    }
    return true;
}

void leaf_whole_dims(const Job *job, int64_t *dims) {
    const PhbKernel *kernel = job->kernel;
    const PhbVariant *variant = &kernel->variants[0];
    for (int v = kernel->variant_count - 1; v >= 0; v--)
        if (variant_wanted(job, &kernel->variants[v]))
            variant = &kernel->variants[v];
    for (int d = 0; d < kernel->dim_count; d++) {
        dims[d] = job->dims[d];
        if (kernel->dims[d].is_search && dims[d] == 0)
            dims[d] = variant->values[d];
    }
}

/* What super-tiles cut: a grid axis or a cluster loop. */
typedef struct Cut {
    int dim; /* @cluster dim, or -1 */
    int64_t extent, super, count;
} Cut;

static Cut cut_at(const Problem *problem, int index) {
    if (index < 3)
        return (Cut){problem->kernel->grid[index].dim, problem->extent[index], problem->super[index], problem->supers[index]};
    index -= 3;
    return (Cut){problem->kernel->loops[index].dim, problem->loop_extent[index], problem->loop_super[index], problem->chunks[index]};
}

/* A super-tile is whole leaf tiles along each split axis and cluster loop, or all of it. On refusal *undivided is the one that is not. */
static bool variant_divides(const Problem *problem, const PhbVariant *variant, Cut *undivided) {
    for (int i = 0; i < 3 + problem->kernel->loop_count; i++) {
        Cut cut = cut_at(problem, i);
        if (cut.dim < 0 || cut.count == 1 || (variant->values[cut.dim] > 0 && cut.super % variant->values[cut.dim] == 0))
            continue;
        *undivided = cut;
        return false;
    }
    return true;
}

/* ---- the shapes of a variant's launches ---- */

/* Leaf values: a symbolic dim that names a split axis, or the axis that the stage's loop walks, is the super-tile's extent along it. */
static void leaf_dims(
    const Problem *problem, const PhbVariant *variant, const int64_t *whole, const int64_t at[COORDINATES], int loop, int64_t *dims) {
    for (int d = 0; d < problem->kernel->dim_count; d++) {
        const PhbDim *dim = &problem->kernel->dims[d];
        dims[d] = dim->is_search ? variant->values[d] : whole[d];
        int axis = dim->grid_axis >= 0 && problem->kernel->grid[dim->grid_axis].dim >= 0 ? dim->grid_axis : -1;
        if (dim->is_search || (axis < 0 && (loop < 0 || dim->loop != loop)))
            continue;
        ChunkRange cut = axis >= 0 ? (ChunkRange){problem->super[axis] * at[axis], problem->super[axis], CHUNK_FULL} : chunk_at(problem, loop, at[CHUNK]);
        dims[d] = cut_extent(cut, whole[d]);
    }
}

static bool eval_in(const PhbKernel *kernel, const PhbExpr *expr, const char *what, const ExprScope *scope, int64_t *value, Error *error) {
    return expr_eval(expr, scope, value) || error_set(error, "kernel '%s': overflow or division by zero in %s'%s'", kernel->name, what, expr->text);
}

static bool check_leaf(const PhbKernel *kernel, const ExprScope *scope, Error *error) {
    for (int c = 0; c < kernel->leaf_check_count; c++) {
        int64_t holds;
        if (!eval_in(kernel, &kernel->leaf_checks[c].cond, "", scope, &holds, error))
            return false;
        if (holds == 0)
            return error_set(error, "kernel '%s': %s", kernel->name, kernel->leaf_checks[c].message);
    }
    return true;
}

static bool bind_launch(const PhbKernel *kernel, const ExprScope *scope, LeafShape *leaf, Error *error) {
    int64_t ctas = 1;
    for (int a = 0; a < 3; a++) {
        const PhbExpr *expr = &kernel->grid[a].leaf;
        int64_t *extent = &leaf->grid[a];
        *extent = 1;
        if (expr->count > 0 && !eval_in(kernel, expr, "the launch grid ", scope, extent, error))
            return false;
        if (*extent < 1 || *extent > PLAN_MAX_AXIS || __builtin_mul_overflow(ctas, *extent, &ctas))
            return error_set(error, "kernel '%s': the launch grid '%s' is %" PRId64 " CTAs, which is not in 1..%" PRId64, kernel->name, expr->text,
                *extent, PLAN_MAX_AXIS);
    }
    for (int s = 0; s < kernel->state_count; s++) {
        int64_t *extents = leaf->states[s];
        extents[0] = ctas;
        extents[3] = 1;
        if (!eval_in(kernel, &kernel->states[s].rows, "", scope, &extents[1], error) ||
            !eval_in(kernel, &kernel->states[s].columns, "", scope, &extents[2], error))
            return false;
    }
    return true;
}

/* A chunk of that extent; false where there is none. */
static bool find_chunk(const Problem *problem, int loop, ChunkShape shape, int64_t *chunk) {
    const Division *d = &problem->divisions[loop];
    int64_t last = problem->chunks[loop] - 1, of_long = d->long_parts * d->long_chunks;
    *chunk = shape == CHUNK_FULL ? 0 : shape == CHUNK_LONG_REST ? d->long_chunks - 1 : shape == CHUNK_SHORT_REST ? of_long + d->short_chunks - 1 : last;
    return *chunk >= 0 && *chunk <= last && chunk_at(problem, loop, *chunk).shape == shape;
}

/* Which steps a shape stands for: the coordinates of one of them, and its loop. False where there is none. */
static bool shape_occurs(const Problem *problem, int shape, int64_t at[COORDINATES], int *loop) {
    for (int a = 0; a < 3; a++) {
        at[a] = shape & 1 << a ? problem->supers[a] - 1 : 0;
        if (problem->supers[a] == 1 && !(shape & 1 << a))
            return false;
    }
    int rest = shape / 8 - 1;
    *loop = rest < 0 ? -1 : rest / CHUNK_SHAPES;
    at[CHUNK] = 0;
    if (*loop >= problem->kernel->loop_count || (rest >= 0 && !find_chunk(problem, *loop, (ChunkShape)(rest % CHUNK_SHAPES), &at[CHUNK])))
        return false;
    for (int s = 0; s < problem->kernel->stage_count; s++)
        if (problem->kernel->stages[s].loop == *loop)
            return true;
    return false;
}

static bool bind_shape(const Problem *problem, const PhbVariant *variant, const int64_t *whole, int shape, LeafShape *leaf, Error *error) {
    const PhbKernel *kernel = problem->kernel;
    int64_t at[COORDINATES], extents[PHB_MAX_PARAMS][PHB_MAX_RANK];
    int loop;
    if (!shape_occurs(problem, shape, at, &loop))
        return true;
    for (int t = 0; t < kernel->tensor_count; t++) {
        const Operand *operand = &problem->operands[t];
        for (int k = 0; k < PHB_MAX_RANK; k++) {
            int axis = operand->axis[k];
            ChunkRange cut = {0, operand->span[k], CHUNK_FULL};
            if (axis == CHUNK && operand->loop == loop)
                cut = chunk_at(problem, loop, at[CHUNK]);
            else if (axis >= 0 && axis != CHUNK)
                cut = (ChunkRange){at[axis] * operand->size[k], operand->size[k], CHUNK_FULL};
            extents[t][k] = cut_extent(cut, operand->span[k]);
        }
    }
    leaf_dims(problem, variant, whole, at, loop, leaf->dims);
    ExprScope scope = {.dims = leaf->dims, .extents = extents};
    return check_leaf(kernel, &scope, error) && bind_launch(kernel, &scope, leaf, error);
}

static bool bind_variant(Problem *problem, const PhbVariant *variant, const int64_t *whole, Error *error) {
    for (int shape = 0; shape < PLAN_SHAPES; shape++)
        if (!bind_shape(problem, variant, whole, shape, &problem->shapes[shape], error))
            return false;
    problem->variant = variant;
    return true;
}

/* The largest instance over all shapes. */
static bool size_states(Problem *problem, Error *error) {
    const PhbKernel *kernel = problem->kernel;
    for (int s = 0; s < kernel->state_count; s++) {
        Operand *operand = &problem->operands[kernel->tensor_count + s];
        for (int shape = 0; shape < PLAN_SHAPES; shape++) {
            int64_t at[COORDINATES], bytes;
            int loop;
            if (!shape_occurs(problem, shape, at, &loop))
                continue;
            const int64_t *extents = problem->shapes[shape].states[s];
            if (extents[1] < 1 || extents[2] < 1)
                return error_set(error, "kernel '%s': the state '%s' is empty", kernel->name, operand->name);
            if (!tile_bytes(3, operand->element, extents, &bytes))
                return error_set(error, "kernel '%s': the state '%s' takes more than 2^63 bytes", kernel->name, operand->name);
            if (bytes > operand->bytes)
                operand->bytes = bytes;
        }
    }
    return true;
}

/* The variant's code has planes behind some tiles. */
static bool add_planes(Problem *problem, Error *error) {
    for (int t = 0; problem->variant->planes != NULL && t < problem->kernel->tensor_count; t++) {
        Operand *operand = &problem->operands[t];
        int64_t padded[PHB_MAX_RANK], planes;
        for (int k = 0; k < PHB_MAX_RANK; k++)
            padded[k] = operand->size[k] + 2 * operand->halo[k];
        if (problem->variant->planes[t] == 0)
            continue;
        if (!tile_bytes(operand->rank, operand->element, padded, &operand->bytes) || !planes_bytes(operand->rank, padded, &planes) ||
            __builtin_add_overflow(operand->bytes, planes, &operand->bytes))
            return error_set(error, "tensor '%s': a tile with its planes takes more than 2^63 bytes", operand->name);
    }
    return true;
}

/* The variant's launches and what they want of memory. */
static bool bind_leaf(Problem *problem, const PhbVariant *variant, const int64_t *whole, Error *error) {
    return bind_variant(problem, variant, whole, error) && size_states(problem, error) && add_planes(problem, error);
}

bool leaf_reshape(Problem *problem, const int64_t *whole, Error *error) {
    return bind_leaf(problem, problem->variant, whole, error);
}

/* ---- the choice ---- */

/* How early a variant's values stand in the declared sets: smaller is earlier. */
static int compare_declared(const PhbKernel *kernel, const PhbVariant *a, const PhbVariant *b) {
    for (int d = 0; d < kernel->dim_count; d++) {
        const PhbDim *dim = &kernel->dims[d];
        for (int i = 0; dim->is_search && i < dim->leaf_count && a->values[d] != b->values[d]; i++) {
            if (a->values[d] == dim->leaf[i])
                return -1;
            if (b->values[d] == dim->leaf[i])
                return 1;
        }
    }
    return 0;
}

/* "16, 32": the distinct leaf tiles that the embedded variants have along a dim. */
static void list_leaf_tiles(const PhbKernel *kernel, int dim, char *text, size_t size) {
    size_t used = 0;
    for (int v = 0; v < kernel->variant_count; v++) {
        bool seen = false;
        for (int w = 0; w < v; w++)
            seen = seen || kernel->variants[w].values[dim] == kernel->variants[v].values[dim];
        if (seen || used + 24 > size)
            continue;
        used += (size_t)snprintf(text + used, size - used, "%s%" PRId64, used > 0 ? ", " : "", kernel->variants[v].values[dim]);
    }
    text[used] = '\0';
}

static bool refuse_undivided(const PhbKernel *kernel, const Cut *cut, Error *error) {
    char tiles[256];
    list_leaf_tiles(kernel, cut->dim, tiles, sizeof tiles);
    const char *name = kernel->dims[cut->dim].name;
    return error_set(error,
        "kernel '%s': the super-tile %s = %" PRId64 " is not a multiple of the leaf's tile %s = %s, and does not cover the axis of %" PRId64,
        kernel->name, name, cut->super, name, tiles, cut->extent);
}

/* Takes the first variant that the job, the super-tile and the leaf's own conditions allow: variants are embedded best first by the compiler's model.
 */
bool leaf_choose(Problem *problem, LeafChoice choice, const int64_t *whole, Error *error) {
    const PhbKernel *kernel = problem->kernel;
    const PhbVariant *best = NULL;
    Cut undivided = {.dim = -1};
    Error reason;
    error_set(&reason, "kernel '%s': no embedded variant has code for the device and the values that the job fixes", kernel->name);
    for (int v = 0; v < kernel->variant_count; v++) {
        const PhbVariant *variant = &kernel->variants[v];
        if (!variant_wanted(problem->job, variant) || !variant_divides(problem, variant, &undivided) ||
            !bind_variant(problem, variant, whole, &reason))
            continue;
        if (best == NULL || (choice == LEAF_FIRST && compare_declared(kernel, variant, best) < 0))
            best = variant;
    }
    if (best != NULL)
        return bind_leaf(problem, best, whole, error);
    if (undivided.dim >= 0)
        return refuse_undivided(kernel, &undivided, error);
    *error = reason;
    return false;
}
