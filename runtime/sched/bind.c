/* A job bound to its kernel: how dims and super-tiles cut grid, cluster loops and tensors. */
#include "runtime/sched/sched.h"

#include <inttypes.h>
#include <stdlib.h>

static bool check_problem(const PhbKernel *kernel, const ExprScope *scope, Error *error) {
    for (int c = 0; c < kernel->bind_check_count; c++) {
        int64_t holds;
        if (!expr_eval(&kernel->bind_checks[c].cond, scope, &holds))
            return error_set(error, "kernel '%s': overflow or division by zero in '%s'", kernel->name, kernel->bind_checks[c].cond.text);
        if (holds == 0)
            return error_set(error, "kernel '%s': %s", kernel->name, kernel->bind_checks[c].message);
    }
    return true;
}

/* ---- what super-tiles cut ---- */

/* Cuts the axis `axis` of a grid or a cluster loop into super-tiles of the @cluster dim `dim`. */
static bool bind_cut(
    const PhbKernel *kernel, int dim, const PhbExpr *axis, const ExprScope *scope, int64_t *extent, int64_t *super, int64_t *count, Error *error) {
    const char *name = kernel->dims[dim].name;
    *super = scope->dims[dim];
    if (!expr_eval(axis, scope, extent))
        return error_set(error, "kernel '%s': overflow or division by zero in '%s'", kernel->name, axis->text);
    if (*super < 1)
        return error_set(error, "kernel '%s': the super-tile %s = %" PRId64 " is not positive", kernel->name, name, *super);
    *count = *extent < 1 ? 1 : ceil_div(*extent, *super); /* a loop without a turn has one chunk, of nothing */
    if (*count > PLAN_MAX_AXIS)
        return error_set(error,
            "kernel '%s': %s = %" PRId64 " cuts '%s' = %" PRId64 " into %" PRId64 " super-tiles, more than %" PRId64 "; choose a larger one",
            kernel->name, name, *super, axis->text, *extent, *count, PLAN_MAX_AXIS);
    return true;
}

static bool bind_grid(Problem *problem, const ExprScope *scope, Error *error) {
    const PhbKernel *kernel = problem->kernel;
    for (int a = 0; a < 3; a++) {
        const PhbGridAxis *axis = &kernel->grid[a];
        problem->extent[a] = problem->super[a] = problem->supers[a] = 1;
        if (axis->dim < 0)
            continue;
        if (!bind_cut(kernel, axis->dim, &axis->extent, scope, &problem->extent[a], &problem->super[a], &problem->supers[a], error))
            return false;
        if (problem->extent[a] < 1)
            return error_set(error, "kernel '%s': '%s' = %" PRId64 " is not positive", kernel->name, axis->extent.text, problem->extent[a]);
    }
    __int128 units = (__int128)problem->supers[0] * problem->supers[1] * problem->supers[2];
    if (units > PLAN_MAX_UNITS)
        return error_set(error,
            "kernel '%s': %" PRId64 " x %" PRId64 " x %" PRId64 " = %.0f super-tiles are more than %" PRId64 "; choose larger ones", kernel->name,
            problem->supers[0], problem->supers[1], problem->supers[2], (double)units, PLAN_MAX_UNITS);
    problem->units = (int64_t)units;
    return true;
}

static bool bind_loops(Problem *problem, const ExprScope *scope, Error *error) {
    const PhbKernel *kernel = problem->kernel;
    for (int l = 0; l < kernel->loop_count; l++)
        if (!bind_cut(kernel, kernel->loops[l].dim, &kernel->loops[l].extent, scope, &problem->loop_extent[l], &problem->loop_super[l],
                &problem->chunks[l], error))
            return false;
    for (int l = 0; l < kernel->loop_count; l++)
        problem->divisions[l] = (Division){.parts = 1};
    for (int s = 0; s < kernel->stage_count; s++)
        problem->steps += stage_chunks(problem, s);
    if ((__int128)problem->steps * problem->units > PLAN_MAX_STEPS)
        return error_set(error,
            "kernel '%s': %" PRId64 " super-tiles of %" PRId64 " leaf launches each are more than %" PRId64 " launches; choose larger super-tiles",
            kernel->name, problem->units, problem->steps, PLAN_MAX_STEPS);
    return true;
}

/* ---- operands ---- */

/* Which stages use an operand, and so how long a tile of it stays with its unit. */
static bool bind_stages(const Problem *problem, int index, Operand *operand, Error *error) {
    const PhbKernel *kernel = problem->kernel;
    operand->first = operand->last = operand->store_last = -1;
    for (int s = 0; s < kernel->stage_count; s++) {
        int mode = kernel->stages[s].modes[index];
        if (mode == PHB_UNUSED || (operand->loop >= 0 && problem->loop_extent[operand->loop] < 1))
            continue;
        if (operand->loop >= 0 && kernel->stages[s].loop != operand->loop)
            return error_set(error, "kernel '%s': stage %d uses a chunk of '%s' outside of its loop", kernel->name, s, operand->name);
        operand->sweeps++;
        operand->last = s;
        if (operand->first < 0)
            operand->first = s;
        if (mode != PHB_READ)
            operand->store_last = s;
    }
    bool written = operand->store_last >= 0, tensor = operand->tensor != NULL;
    operand->load = tensor && operand->first >= 0 && kernel->stages[operand->first].modes[index] != PHB_WRITE;
    operand->store = tensor && written;
    operand->held = operand->loop < 0 || (written && operand->sweeps > 1);
    return true;
}

/* How one axis of a tensor is cut. */
static bool bind_axis(const Problem *problem, const ExprScope *scope, Operand *operand, int k, Error *error) {
    const PhbAxis *axis = &operand->tensor->axes[k];
    const char *name = operand->name;
    if (!expr_eval(&axis->extent, scope, &operand->whole[k]))
        return error_set(error, "tensor '%s': overflow or division by zero in its extent '%s'", name, axis->extent.text);
    if (operand->whole[k] < 1)
        return error_set(error, "tensor '%s': its extent '%s' is %" PRId64, name, axis->extent.text, operand->whole[k]);
    operand->size[k] = operand->span[k] = operand->whole[k];
    int64_t super;
    if (axis->kind == PHB_AXIS_GRID && problem->kernel->grid[axis->index].dim >= 0) {
        operand->axis[k] = axis->index;
        super = problem->super[axis->index];
        operand->span[k] = problem->extent[axis->index];
    } else if (axis->kind == PHB_AXIS_LOOP) {
        if (operand->loop >= 0 && operand->loop != axis->index)
            return error_set(error, "tensor '%s': two cluster loops walk it", name);
        operand->axis[k] = CHUNK;
        operand->loop = axis->index;
        super = problem->loop_super[axis->index];
        operand->span[k] = problem->loop_extent[axis->index] > 0 ? problem->loop_extent[axis->index] : 0;
    } else {
        return true;
    }
    if (operand->tensor->mode != PHB_READ && operand->whole[k] != operand->span[k])
        return error_set(error, "tensor '%s': its extent '%s' is %" PRId64 ", but the %s runs to %" PRId64, name, axis->extent.text,
            operand->whole[k], axis->kind == PHB_AXIS_GRID ? "grid" : "cluster loop", operand->span[k]);
    operand->size[k] = super < operand->span[k] ? super : operand->span[k] > 0 ? operand->span[k] : 1;
    return true;
}

/* The @cluster dim by which an axis of an operand is cut. */
static const char *cutting_dim(const Problem *problem, const Operand *operand, int k) {
    const PhbKernel *kernel = problem->kernel;
    int dim = operand->axis[k] == CHUNK ? kernel->loops[operand->loop].dim : kernel->grid[operand->axis[k]].dim;
    return kernel->dims[dim].name;
}

static bool bind_halo(const Problem *problem, const ExprScope *scope, Operand *operand, int k, Error *error) {
    const PhbExpr *halo = &operand->tensor->axes[k].halo;
    if (halo->count == 0)
        return true;
    if (!expr_eval(halo, scope, &operand->halo[k]))
        return error_set(error, "tensor '%s': overflow or division by zero in its halo '%s'", operand->name, halo->text);
    if (operand->halo[k] < 0)
        return error_set(error, "tensor '%s': its halo '%s' is %" PRId64, operand->name, halo->text, operand->halo[k]);
    /* A narrower last super-tile is read with the ones before it, in one piece. */
    if (operand->axis[k] >= 0 && operand->size[k] < operand->span[k] && operand->halo[k] > operand->size[k])
        return error_set(error,
            "tensor '%s': its halo '%s' = %" PRId64 " is wider than the super-tiles along axis %d, which are %s = %" PRId64
            "; choose at least %" PRId64,
            operand->name, halo->text, operand->halo[k], k, cutting_dim(problem, operand, k), operand->size[k], operand->halo[k]);
    return true;
}

static void init_operand(Operand *operand, const char *name, int rank, int dtype) {
    operand->name = name;
    operand->rank = rank;
    operand->element = dtype_size(dtype);
    operand->loop = -1;
    for (int k = 0; k < PHB_MAX_RANK; k++) {
        operand->whole[k] = operand->span[k] = operand->size[k] = 1;
        operand->axis[k] = -1;
    }
}

static bool bind_tensor(const Problem *problem, const ExprScope *scope, int index, Operand *operand, Error *error) {
    const PhbTensor *tensor = &problem->kernel->tensors[index];
    init_operand(operand, tensor->name, tensor->rank, tensor->dtype);
    operand->tensor = tensor;
    int64_t whole_bytes = operand->element, padded[PHB_MAX_RANK];
    for (int k = 0; k < tensor->rank; k++) {
        if (!bind_axis(problem, scope, operand, k, error) || !bind_halo(problem, scope, operand, k, error))
            return false;
        int64_t halos;
        if (__builtin_mul_overflow(whole_bytes, operand->whole[k], &whole_bytes))
            return error_set(error, "tensor '%s': its size in bytes is beyond 2^63", tensor->name);
        if (__builtin_mul_overflow(operand->halo[k], 2, &halos) || __builtin_add_overflow(operand->size[k], halos, &padded[k]))
            padded[k] = INT64_MAX;
    }
    if (!tile_bytes(tensor->rank, operand->element, padded, &operand->bytes))
        return error_set(error, "tensor '%s': a tile with padded rows takes more than 2^63 bytes", tensor->name);
    return bind_stages(problem, index, operand, error);
}

/* Tiles are numbered row-major over the coordinates that cut the tensor, chunks fastest, then x. */
bool operand_number_tiles(const Problem *problem, Operand *operand, Error *error) {
    static const int order[COORDINATES] = {CHUNK, 0, 1, 2};
    bool cuts[COORDINATES] = {false, false, false, false};
    for (int k = 0; k < operand->rank; k++)
        if (operand->axis[k] >= 0)
            cuts[operand->axis[k]] = true;
    operand->count = 1;
    for (int i = 0; i < COORDINATES; i++) {
        int c = order[i];
        operand->stride[c] = cuts[c] ? operand->count : 0;
        if (cuts[c])
            operand->count *= c == CHUNK ? problem->chunks[operand->loop] : problem->supers[c];
        else if (c != CHUNK && operand->store && problem->supers[c] > 1)
            return error_set(error, "tensor '%s' is written but not indexed by the split axis ctx.block.%c", operand->name, "xyz"[c]);
    }
    return true;
}

/* Each unit has a tile of a state; leaf.c sizes it. */
static bool bind_state(const Problem *problem, int index, Operand *operand, Error *error) {
    const PhbState *state = &problem->kernel->states[index];
    init_operand(operand, state->name, 3, state->dtype);
    operand->stride[0] = 1;
    operand->stride[1] = problem->supers[0];
    operand->stride[2] = problem->supers[0] * problem->supers[1];
    operand->count = problem->units;
    return bind_stages(problem, problem->kernel->tensor_count + index, operand, error);
}

/* ---- the whole ---- */

static bool bind(Problem *problem, LeafChoice leaf, int64_t *whole, Error *error) {
    const PhbKernel *kernel = problem->kernel;
    if (kernel->variant_count < 1)
        return error_set(error, "kernel '%s' has no embedded code", kernel->name);
    leaf_whole_dims(problem->job, whole);
    ExprScope scope = {.dims = whole};
    if (!check_problem(kernel, &scope, error) || !bind_grid(problem, &scope, error) || !bind_loops(problem, &scope, error))
        return false;
    for (int t = 0; t < kernel->tensor_count; t++)
        if (!bind_tensor(problem, &scope, t, &problem->operands[t], error) || !operand_number_tiles(problem, &problem->operands[t], error))
            return false;
    for (int s = 0; s < kernel->state_count; s++)
        if (!bind_state(problem, s, &problem->operands[kernel->tensor_count + s], error))
            return false;
    return leaf_choose(problem, leaf, whole, error) && problem_divide(problem, whole, error);
}

Problem *problem_bind(const Job *job, LeafChoice leaf, Error *error) {
    const PhbKernel *kernel = job->kernel;
    Problem *problem = new_zeroed(1, sizeof *problem);
    problem->job = job;
    problem->kernel = kernel;
    problem->operand_count = problem->argument_count = kernel->tensor_count + kernel->state_count;
    problem->operands = new_zeroed((size_t)problem->operand_count, sizeof *problem->operands);
    for (int s = 0; s < PLAN_SHAPES; s++) {
        problem->shapes[s].dims = new_zeroed((size_t)kernel->dim_count, sizeof(int64_t));
        problem->shapes[s].states = new_zeroed((size_t)kernel->state_count, sizeof *problem->shapes[s].states);
    }
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
    for (int s = 0; s < PLAN_SHAPES; s++) {
        free(problem->shapes[s].dims);
        free(problem->shapes[s].states);
    }
    free(problem->operands);
    free(problem);
}
