#include "runtime/sched/sched.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int64_t round_up(int64_t value, int64_t unit) {
    return (value + unit - 1) / unit * unit;
}

static int64_t ceil_div(int64_t value, int64_t divisor) {
    return value / divisor + (value % divisor != 0);
}

static bool checked_round_up(int64_t value, int64_t unit, int64_t *rounded) {
    if (__builtin_add_overflow(value, unit - 1, rounded))
        return false;
    *rounded -= *rounded % unit;
    return true;
}

/* ---- leaf variants ---- */

/* A search dim outside @cluster has a value in the job only where the job or a tensor's shape fixes it. */
static int64_t wanted_value(const Job *job, int dim) {
    if (job->leaf_values != NULL && job->leaf_values[dim] != 0)
        return job->leaf_values[dim];
    return job->kernel->dims[dim].cluster_count == 0 ? job->dims[dim] : 0;
}

static bool variant_wanted(const Job *job, const PhbVariant *variant) {
    for (int d = 0; d < job->kernel->dim_count; d++) {
        int64_t wanted = job->kernel->dims[d].is_search ? wanted_value(job, d) : 0;
        if (wanted != 0 && variant->values[d] != wanted)
            return false;
    }
    return true;
}

/* A super-tile is whole leaf tiles along each split axis, or all of the axis. On refusal *axis is the one that is not. */
static bool variant_divides(const Problem *problem, const PhbVariant *variant, int *axis) {
    for (int a = 0; a < 3; a++) {
        int dim = problem->kernel->grid[a].dim;
        if (dim < 0 || problem->supers[a] == 1)
            continue;
        if (variant->values[dim] <= 0 || problem->super[a] % variant->values[dim] != 0) {
            *axis = a;
            return false;
        }
    }
    return true;
}

/* Whole-problem values: search dims that only the leaf knows stand at the variant's. */
static void whole_dims(const Job *job, const PhbVariant *variant, int64_t *dims) {
    for (int d = 0; d < job->kernel->dim_count; d++) {
        dims[d] = job->dims[d];
        if (job->kernel->dims[d].is_search && dims[d] == 0)
            dims[d] = variant->values[d];
    }
}

/* Leaf values: a symbolic dim that names a split axis is the super-tile's extent along it. */
static void leaf_dims(const Problem *problem, const PhbVariant *variant, const int64_t *whole, const int64_t coordinates[3], int64_t *dims) {
    for (int d = 0; d < problem->kernel->dim_count; d++) {
        const PhbDim *dim = &problem->kernel->dims[d];
        int a = dim->grid_axis;
        if (dim->is_search)
            dims[d] = variant->values[d];
        else if (a >= 0 && problem->kernel->grid[a].dim >= 0 && coordinates[a] == problem->supers[a] - 1)
            dims[d] = whole[d] - coordinates[a] * problem->super[a];
        else if (a >= 0 && problem->kernel->grid[a].dim >= 0)
            dims[d] = problem->super[a];
        else
            dims[d] = whole[d];
    }
}

/* The launch of the units that are last along the axes of `shape`: checks it against the variant, and fills in its dims and CTAs. */
static bool bind_shape(const Problem *problem, const PhbVariant *variant, const int64_t *whole, int shape, LeafShape *leaf, Error *error) {
    const PhbKernel *kernel = problem->kernel;
    int64_t coordinates[3], extents[PHB_MAX_PARAMS][PHB_MAX_RANK];
    for (int a = 0; a < 3; a++)
        coordinates[a] = shape & 1 << a ? problem->supers[a] - 1 : 0;
    for (int t = 0; t < kernel->tensor_count; t++) {
        Region region;
        unit_region(problem, t, coordinates, &region);
        memcpy(extents[t], region.extent, sizeof extents[t]);
    }
    leaf_dims(problem, variant, whole, coordinates, leaf->dims);
    ExprScope scope = {.dims = leaf->dims, .extents = extents};
    for (int c = 0; c < kernel->leaf_check_count; c++) {
        int64_t holds;
        if (!expr_eval(&kernel->leaf_checks[c].cond, &scope, &holds))
            return error_set(error, "kernel '%s': overflow or division by zero in '%s'", kernel->name, kernel->leaf_checks[c].cond.text);
        if (holds == 0)
            return error_set(error, "kernel '%s': %s", kernel->name, kernel->leaf_checks[c].message);
    }
    int64_t ctas = 1;
    for (int a = 0; a < 3; a++) {
        const PhbExpr *expr = &kernel->grid[a].leaf;
        int64_t *extent = &leaf->grid[a];
        *extent = 1;
        if (expr->count > 0 && !expr_eval(expr, &scope, extent))
            return error_set(error, "kernel '%s': overflow or division by zero in the launch grid '%s'", kernel->name, expr->text);
        if (*extent < 1 || *extent > PLAN_MAX_AXIS || __builtin_mul_overflow(ctas, *extent, &ctas))
            return error_set(error, "kernel '%s': the launch grid '%s' is %" PRId64 " CTAs, which is not in 1..%" PRId64, kernel->name, expr->text,
                *extent, PLAN_MAX_AXIS);
    }
    return true;
}

static bool shape_occurs(const Problem *problem, int shape) {
    for (int a = 0; a < 3; a++)
        if (problem->supers[a] == 1 && !(shape & 1 << a))
            return false;
    return true;
}

static bool bind_variant(Problem *problem, const PhbVariant *variant, const int64_t *whole, Error *error) {
    for (int shape = 0; shape < PLAN_SHAPES; shape++)
        if (shape_occurs(problem, shape) && !bind_shape(problem, variant, whole, shape, &problem->shapes[shape], error))
            return false;
    problem->variant = variant;
    return true;
}

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

/* Takes the first variant that the job, the super-tile and the leaf's own conditions allow: variants are embedded best first by the compiler's model.
 */
static bool choose_variant(Problem *problem, LeafChoice choice, const int64_t *whole, Error *error) {
    const PhbKernel *kernel = problem->kernel;
    const PhbVariant *best = NULL;
    int undivided_axis = -1, legal = 0;
    Error reason;
    error_set(&reason, "kernel '%s': no embedded variant has the values that the job fixes", kernel->name);
    for (int v = 0; v < kernel->variant_count; v++) {
        const PhbVariant *variant = &kernel->variants[v];
        if (!variant_wanted(problem->job, variant) || !variant_divides(problem, variant, &undivided_axis) ||
            !bind_variant(problem, variant, whole, &reason))
            continue;
        legal++;
        if (best == NULL || (choice == LEAF_FIRST && compare_declared(kernel, variant, best) < 0))
            best = variant;
    }
    if (legal > 1 && choice == LEAF_MEASURE)
        return error_set(error, "--leaf=measure is not supported yet");
    if (best != NULL)
        return bind_variant(problem, best, whole, error);
    if (undivided_axis >= 0) {
        int dim = kernel->grid[undivided_axis].dim;
        char tiles[256];
        list_leaf_tiles(kernel, dim, tiles, sizeof tiles);
        return error_set(error,
            "kernel '%s': the super-tile %s = %" PRId64 " is not a multiple of the leaf's tile %s = %s, and does not cover the axis of %" PRId64,
            kernel->name, kernel->dims[dim].name, problem->super[undivided_axis], kernel->dims[dim].name, tiles, problem->extent[undivided_axis]);
    }
    *error = reason;
    return false;
}

/* ---- grid and tiles ---- */

static bool bind_grid(Problem *problem, const ExprScope *scope, Error *error) {
    const PhbKernel *kernel = problem->kernel;
    problem->units = 1;
    for (int a = 0; a < 3; a++) {
        const PhbGridAxis *axis = &kernel->grid[a];
        problem->extent[a] = problem->super[a] = problem->supers[a] = 1;
        if (axis->dim < 0)
            continue;
        const char *name = kernel->dims[axis->dim].name;
        problem->super[a] = scope->dims[axis->dim];
        if (!expr_eval(&axis->extent, scope, &problem->extent[a]))
            return error_set(error, "kernel '%s': overflow or division by zero in '%s'", kernel->name, axis->extent.text);
        if (problem->super[a] < 1)
            return error_set(error, "kernel '%s': the super-tile %s = %" PRId64 " is not positive", kernel->name, name, problem->super[a]);
        if (problem->extent[a] < 1)
            return error_set(error, "kernel '%s': '%s' = %" PRId64 " is not positive", kernel->name, axis->extent.text, problem->extent[a]);
        problem->supers[a] = ceil_div(problem->extent[a], problem->super[a]);
        if (problem->supers[a] > PLAN_MAX_AXIS)
            return error_set(error,
                "kernel '%s': %s = %" PRId64 " cuts '%s' = %" PRId64 " into %" PRId64 " super-tiles, more than %" PRId64 "; choose a larger one",
                kernel->name, name, problem->super[a], axis->extent.text, problem->extent[a], problem->supers[a], PLAN_MAX_AXIS);
    }
    __int128 units = (__int128)problem->supers[0] * problem->supers[1] * problem->supers[2];
    if (units > PLAN_MAX_UNITS)
        return error_set(error, "kernel '%s': %" PRId64 " x %" PRId64 " x %" PRId64 " super-tiles are more than %" PRId64 "; choose larger ones",
            kernel->name, problem->supers[0], problem->supers[1], problem->supers[2], PLAN_MAX_UNITS);
    problem->units = (int64_t)units;
    return true;
}

/* Extents, how the grid cuts them, and the bytes of the largest tile. */
static bool bind_tensor(Problem *problem, const ExprScope *scope, TensorTiles *tiles, Error *error) {
    const PhbTensor *tensor = tiles->tensor;
    int64_t whole_bytes = tiles->element;
    for (int k = 0; k < PHB_MAX_RANK; k++) {
        tiles->whole[k] = tiles->size[k] = 1;
        tiles->axis[k] = -1;
        if (k >= tensor->rank)
            continue;
        const PhbAxis *axis = &tensor->axes[k];
        if (!expr_eval(&axis->extent, scope, &tiles->whole[k]))
            return error_set(error, "tensor '%s': overflow or division by zero in its extent '%s'", tensor->name, axis->extent.text);
        if (tiles->whole[k] < 1)
            return error_set(error, "tensor '%s': its extent '%s' is %" PRId64, tensor->name, axis->extent.text, tiles->whole[k]);
        if (__builtin_mul_overflow(whole_bytes, tiles->whole[k], &whole_bytes))
            return error_set(error, "tensor '%s': its size in bytes is beyond 2^63", tensor->name);
        tiles->size[k] = tiles->whole[k];
        if (axis->kind != PHB_AXIS_GRID || problem->kernel->grid[axis->index].dim < 0)
            continue;
        int a = axis->index;
        if (ceil_div(tiles->whole[k], problem->super[a]) != problem->supers[a])
            return error_set(error,
                "tensor '%s': its extent '%s' = %" PRId64 " gives %" PRId64 " super-tiles of %" PRId64 ", but the grid has %" PRId64, tensor->name,
                axis->extent.text, tiles->whole[k], ceil_div(tiles->whole[k], problem->super[a]), problem->super[a], problem->supers[a]);
        tiles->axis[k] = a;
        if (problem->super[a] < tiles->whole[k])
            tiles->size[k] = problem->super[a];
    }
    int64_t row = tiles->size[tensor->rank - 1] * tiles->element;
    bool fits = checked_round_up(row, PHB_ROW_ALIGN, &tiles->bytes);
    for (int k = 0; fits && k < tensor->rank - 1; k++)
        fits = !__builtin_mul_overflow(tiles->bytes, tiles->size[k], &tiles->bytes);
    if (!fits || !checked_round_up(tiles->bytes, PHB_BASE_ALIGN, &tiles->bytes))
        return error_set(error, "tensor '%s': a tile with padded rows takes more than 2^63 bytes", tensor->name);
    return true;
}

/* Tiles are numbered row-major over the grid axes that cut the tensor, x fastest. */
static bool number_tiles(const Problem *problem, TensorTiles *tiles, Error *error) {
    bool cuts[3] = {false, false, false};
    for (int k = 0; k < tiles->tensor->rank; k++)
        if (tiles->axis[k] >= 0)
            cuts[tiles->axis[k]] = true;
    tiles->count = 1;
    for (int a = 0; a < 3; a++) {
        tiles->stride[a] = cuts[a] ? tiles->count : 0;
        if (cuts[a])
            tiles->count *= problem->supers[a];
        else if (tiles->store && problem->supers[a] > 1)
            return error_set(error, "tensor '%s' is written but not indexed by the split axis ctx.block.%c", tiles->tensor->name, "xyz"[a]);
    }
    return true;
}

static bool bind(Problem *problem, LeafChoice leaf, int64_t *whole, Error *error) {
    const Job *job = problem->job;
    const PhbKernel *kernel = problem->kernel;
    if (kernel->variant_count < 1)
        return error_set(error, "kernel '%s' has no embedded code", kernel->name);
    const PhbVariant *any = &kernel->variants[0];
    for (int v = 0; v < kernel->variant_count; v++)
        if (variant_wanted(job, &kernel->variants[v])) {
            any = &kernel->variants[v];
            break;
        }
    whole_dims(job, any, whole);
    ExprScope scope = {.dims = whole};
    for (int c = 0; c < kernel->bind_check_count; c++) {
        int64_t holds;
        if (!expr_eval(&kernel->bind_checks[c].cond, &scope, &holds))
            return error_set(error, "kernel '%s': overflow or division by zero in '%s'", kernel->name, kernel->bind_checks[c].cond.text);
        if (holds == 0)
            return error_set(error, "kernel '%s': %s", kernel->name, kernel->bind_checks[c].message);
    }
    if (!bind_grid(problem, &scope, error))
        return false;
    for (int t = 0; t < kernel->tensor_count; t++) {
        TensorTiles *tiles = &problem->tensors[t];
        tiles->tensor = &kernel->tensors[t];
        tiles->element = dtype_size(tiles->tensor->dtype);
        tiles->load = tiles->tensor->mode != PHB_WRITE;
        tiles->store = tiles->tensor->mode != PHB_READ;
        if (!bind_tensor(problem, &scope, tiles, error) || !number_tiles(problem, tiles, error))
            return false;
    }
    return choose_variant(problem, leaf, whole, error);
}

Problem *problem_bind(const Job *job, LeafChoice leaf, Error *error) {
    const PhbKernel *kernel = job->kernel;
    Problem *problem = new_zeroed(1, sizeof *problem);
    problem->job = job;
    problem->kernel = kernel;
    problem->tensors = new_zeroed((size_t)kernel->tensor_count, sizeof *problem->tensors);
    for (int s = 0; s < PLAN_SHAPES; s++)
        problem->shapes[s].dims = new_zeroed((size_t)kernel->dim_count, sizeof(int64_t));
    int64_t *whole = new_zeroed((size_t)kernel->dim_count, sizeof *whole);
    bool bound = bind(problem, leaf, whole, error);
    free(whole);
    if (bound)
        return problem;
    problem_free(problem);
    return NULL;
}

void problem_free(Problem *problem) {
    if (problem == NULL)
        return;
    for (int s = 0; s < PLAN_SHAPES; s++)
        free(problem->shapes[s].dims);
    free(problem->tensors);
    free(problem);
}

/* ---- units ---- */

void unit_coordinates(const Problem *problem, int64_t unit, int64_t coordinates[3]) {
    for (int a = 0; a < 3; a++) {
        coordinates[a] = unit % problem->supers[a];
        unit /= problem->supers[a];
    }
}

int64_t unit_tile(const Problem *problem, int tensor, const int64_t coordinates[3]) {
    const int64_t *stride = problem->tensors[tensor].stride;
    return coordinates[0] * stride[0] + coordinates[1] * stride[1] + coordinates[2] * stride[2];
}

void unit_region(const Problem *problem, int tensor, const int64_t coordinates[3], Region *region) {
    const TensorTiles *tiles = &problem->tensors[tensor];
    for (int k = 0; k < PHB_MAX_RANK; k++) {
        int64_t origin = tiles->axis[k] < 0 ? 0 : coordinates[tiles->axis[k]] * problem->super[tiles->axis[k]];
        int64_t left = tiles->whole[k] - origin;
        region->origin[k] = origin;
        region->extent[k] = left < tiles->size[k] ? left : tiles->size[k];
    }
}

const LeafShape *unit_shape(const Problem *problem, const int64_t coordinates[3]) {
    int shape = 0;
    for (int a = 0; a < 3; a++)
        if (coordinates[a] == problem->supers[a] - 1)
            shape |= 1 << a;
    return &problem->shapes[shape];
}

int64_t region_pitch(const TensorTiles *tiles, const Region *region) {
    return round_up(region->extent[tiles->tensor->rank - 1] * tiles->element, PHB_ROW_ALIGN);
}

int64_t region_bytes(const TensorTiles *tiles, const Region *region) {
    int64_t bytes = tiles->element;
    for (int k = 0; k < tiles->tensor->rank; k++)
        bytes *= region->extent[k];
    return bytes;
}
