#include "tests/unit/random_job.h"
#include "tests/unit/job_files.h"

#include <stdlib.h>
#include <string.h>

/* Dims: D0 D1 D2, the extents of the grid axes; B0 B1 B2, search dims that cut them; W0..W3, extents of whole axes; and one that nothing uses. */
enum { DIM_D = 0, DIM_B = 3, DIM_W = 6, DIM_IDLE = 10 };

/* Tensors: two inputs that are projections of the output, one of them possibly a scalar's worth; an input like the output; the output; one that is
 * updated. */
enum { IN_A, IN_B, IN_FULL, OUT, UPDATED };

static const char *const tensor_names[JOB_TENSORS] = {"a", "b", "full", "out", "updated"};
static const char *const dim_names[JOB_DIMS] = {"D0", "D1", "D2", "B0", "B1", "B2", "W0", "W1", "W2", "W3", "IDLE"};

#define DIM_NODE(d)                                                                                                                                  \
    { PHB_EXPR_DIM, d, 0 }
static const PhbExprNode dim_nodes[JOB_DIMS] = {
    DIM_NODE(0), DIM_NODE(1), DIM_NODE(2), DIM_NODE(3), DIM_NODE(4), DIM_NODE(5), DIM_NODE(6), DIM_NODE(7), DIM_NODE(8), DIM_NODE(9), DIM_NODE(10)};
static const PhbExprNode ceil_nodes[3][3] = {
    {DIM_NODE(0), DIM_NODE(3), {PHB_EXPR_CEILDIV, 0, 0}},
    {DIM_NODE(1), DIM_NODE(4), {PHB_EXPR_CEILDIV, 0, 0}},
    {DIM_NODE(2), DIM_NODE(5), {PHB_EXPR_CEILDIV, 0, 0}},
};

uint64_t random_next(uint64_t *state) {
    uint64_t x = *state += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

int64_t random_below(uint64_t *state, int64_t bound) {
    return (int64_t)(random_next(state) % (uint64_t)bound);
}

RandomShape random_shape(uint64_t *state, int64_t most_units) {
    RandomShape shape = {.axes = 1 + (int)random_below(state, 3), .extent = {1, 1, 1}, .super = {1, 1, 1}, .leaf = {1, 1, 1}};
    for (int a = 0; a < shape.axes; a++) {
        shape.leaf[a] = 1 + random_below(state, 4);
        shape.super[a] = shape.leaf[a] * (1 + random_below(state, 4));
        int64_t supers = 1 + random_below(state, most_units);
        most_units = most_units / supers > 0 ? most_units / supers : 1;
        shape.extent[a] = (supers - 1) * shape.super[a] + 1 + random_below(state, shape.super[a]);
        if (supers == 1 && random_below(state, 2))
            shape.super[a] = shape.extent[a] + random_below(state, 5);
    }
    return shape;
}

/* ---- the kernel ---- */

static uint64_t load(const void *at, int size) {
    uint64_t value = 0;
    memcpy(&value, at, (size_t)size);
    return value;
}

static int64_t element_at(const PhbTensorArg *tensor, int rank, int size, const int64_t *index) {
    int64_t rows = 0;
    for (int k = 0; k < rank - 1; k++)
        rows = rows * tensor->extent[k] + index[k];
    return rows * tensor->pitch + index[rank - 1] * size;
}

/* What one element of the outputs is, from the inputs' elements and its place in the whole. */
static uint64_t mix(uint64_t a, uint64_t b, uint64_t full, uint64_t place, uint64_t scalar) {
    return 3 * a + 5 * b + 7 * full + 11 * place + scalar;
}

/* The kernels of the tests that run in this process; a leaf is a bare function, and so it must know its tables by itself. */
static const PhbKernel *running;

/* Each axis of an input follows the output's axis of the same kind: the grid axis, or the whole dim, that both have. */
static int axis_like(const PhbTensor *tensor, const PhbAxis *axis) {
    for (int k = 0; k < tensor->rank; k++)
        if (tensor->axes[k].kind == axis->kind && tensor->axes[k].extent.nodes == axis->extent.nodes)
            return k;
    abort();
}

static uint64_t input_at(const PhbLaunch *launch, int t, const int64_t *out_index) {
    const PhbTensor *tensor = &running->tensors[t];
    int64_t index[PHB_MAX_RANK];
    for (int k = 0; k < tensor->rank; k++)
        index[k] = out_index[axis_like(&running->tensors[OUT], &tensor->axes[k])];
    int size = dtype_size(tensor->dtype);
    return load((const char *)launch->tensors[t].base + element_at(&launch->tensors[t], tensor->rank, size, index), size);
}

static void run_element(const PhbLaunch *launch, const int64_t *index) {
    const PhbTensor *out = &running->tensors[OUT];
    const PhbTensorArg *arg = &launch->tensors[OUT];
    uint64_t place = 0;
    for (int k = 0; k < out->rank; k++)
        place = place * (uint64_t)arg->whole[k] + (uint64_t)(arg->origin[k] + index[k]);
    uint64_t value = mix(input_at(launch, IN_A, index), input_at(launch, IN_B, index), input_at(launch, IN_FULL, index), place, launch->scalars[0]);
    int size = dtype_size(out->dtype);
    memcpy((char *)arg->base + element_at(arg, out->rank, size, index), &value, (size_t)size);

    const PhbTensor *updated = &running->tensors[UPDATED];
    arg = &launch->tensors[UPDATED];
    size = dtype_size(updated->dtype);
    char *at = (char *)arg->base + element_at(arg, updated->rank, size, index);
    value += 13 * load(at, size);
    memcpy(at, &value, (size_t)size);
}

static void run_cta(const PhbLaunch *launch, const int64_t block[3]) {
    const PhbTensor *out = &running->tensors[OUT];
    const PhbTensorArg *arg = &launch->tensors[OUT];
    int64_t low[PHB_MAX_RANK] = {0, 0, 0, 0}, high[PHB_MAX_RANK] = {1, 1, 1, 1}, i[PHB_MAX_RANK];
    for (int k = 0; k < out->rank; k++) {
        high[k] = arg->extent[k];
        if (out->axes[k].kind != PHB_AXIS_GRID)
            continue;
        int a = out->axes[k].index;
        low[k] = block[a] * launch->dims[DIM_B + a];
        if (low[k] + launch->dims[DIM_B + a] < high[k])
            high[k] = low[k] + launch->dims[DIM_B + a];
    }
    for (i[0] = low[0]; i[0] < high[0]; i[0]++)
        for (i[1] = low[1]; i[1] < high[1]; i[1]++)
            for (i[2] = low[2]; i[2] < high[2]; i[2]++)
                for (i[3] = low[3]; i[3] < high[3]; i[3]++)
                    run_element(launch, i);
}

static void run(const PhbLaunch *launch, int64_t first, int64_t last, void *scratch) {
    memset(scratch, 0xA5, 64);
    for (int64_t cta = first; cta < last; cta++) {
        int64_t xy = launch->grid[0] * launch->grid[1];
        run_cta(launch, (int64_t[3]){cta % launch->grid[0], cta / launch->grid[0] % launch->grid[1], cta / xy});
    }
}

/* ---- its tables ---- */

static PhbExpr dim_expr(int dim) {
    return (PhbExpr){&dim_nodes[dim], 1, dim_names[dim]};
}

static void make_dims(RandomJob *job, uint64_t *state, const RandomShape *shape) {
    for (int d = 0; d < JOB_DIMS; d++)
        job->dims[d] = (PhbDim){.name = dim_names[d], .grid_axis = d < 3 ? d : -1, .loop = -1};
    for (int a = 0; a < 3; a++) {
        PhbDim *search = &job->dims[DIM_B + a];
        search->is_search = 1;
        search->leaf = &job->values[DIM_B + a];
        search->leaf_count = 1;
        search->cluster_count = a < shape->axes ? 1 : 0;
        search->cluster = &job->job.dims[DIM_B + a];
        job->values[DIM_B + a] = shape->leaf[a];
        job->job.dims[DIM_D + a] = shape->extent[a];
        job->job.dims[DIM_B + a] = a < shape->axes ? shape->super[a] : 0;
        job->kernel.grid[a] = (PhbGridAxis){.dim = -1};
        if (a < shape->axes)
            job->kernel.grid[a] = (PhbGridAxis){DIM_B + a, dim_expr(DIM_D + a), {ceil_nodes[a], 3, "ceildiv(D, B)"}};
    }
    for (int w = 0; w < 4; w++)
        job->job.dims[DIM_W + w] = 1 + random_below(state, 5);
    job->job.dims[DIM_IDLE] = 1;
}

/* The output has every split axis, some whole ones, in random order. */
static void make_output(PhbTensor *out, uint64_t *state, int split) {
    out->rank = split + (int)random_below(state, PHB_MAX_RANK + 1 - split);
    for (int k = 0; k < out->rank; k++)
        out->axes[k] = k < split ? (PhbAxis){dim_expr(DIM_D + k), PHB_AXIS_GRID, k, {0}} : (PhbAxis){dim_expr(DIM_W + k), PHB_AXIS_WHOLE, 0, {0}};
    for (int k = out->rank - 1; k > 0; k--) {
        int64_t other = random_below(state, k + 1);
        PhbAxis axis = out->axes[k];
        out->axes[k] = out->axes[other];
        out->axes[other] = axis;
    }
}

/* Some of the output's axes, at least one, in their order or reversed. */
static void make_projection(PhbTensor *tensor, const PhbTensor *out, uint64_t *state) {
    uint64_t mask = 1 + (uint64_t)random_below(state, (1 << out->rank) - 1);
    bool reversed = random_below(state, 2);
    for (int i = 0; i < out->rank; i++) {
        int k = reversed ? out->rank - 1 - i : i;
        if (mask >> k & 1)
            tensor->axes[tensor->rank++] = out->axes[k];
    }
}

static void make_tensors(RandomJob *job, uint64_t *state, const RandomShape *shape) {
    static const int dtypes[] = {PHB_U8, PHB_U16, PHB_U32, PHB_U64};
    PhbTensor *tensors = job->tensors;
    make_output(&tensors[OUT], state, shape->axes);
    make_projection(&tensors[IN_A], &tensors[OUT], state);
    make_projection(&tensors[IN_B], &tensors[OUT], state);
    tensors[IN_FULL] = tensors[UPDATED] = tensors[OUT];
    for (int t = 0; t < JOB_TENSORS; t++) {
        tensors[t].name = tensor_names[t];
        tensors[t].dtype = dtypes[random_below(state, 4)];
        tensors[t].mode = t == OUT ? PHB_WRITE : t == UPDATED ? PHB_READ_WRITE : PHB_READ;
    }
}

/* ---- its data ---- */

static int64_t extent_of(const RandomJob *job, const PhbTensor *tensor, int axis) {
    return job->job.dims[tensor->axes[axis].extent.nodes->index];
}

static int64_t elements_of(const RandomJob *job, int t) {
    int64_t count = 1;
    for (int k = 0; k < job->tensors[t].rank; k++)
        count *= extent_of(job, &job->tensors[t], k);
    return count;
}

static uint64_t cut(uint64_t value, int dtype) {
    int bits = 8 * dtype_size(dtype);
    return bits == 64 ? value : value & ((UINT64_C(1) << bits) - 1);
}

/* An input's element for element `place` of the output. */
static uint64_t oracle_input(const RandomJob *job, int t, const int64_t *out_index) {
    const PhbTensor *tensor = &job->tensors[t];
    int64_t at = 0;
    for (int k = 0; k < tensor->rank; k++)
        at = at * extent_of(job, tensor, k) + out_index[axis_like(&job->tensors[OUT], &tensor->axes[k])];
    return job->before[t][at];
}

static void make_data(RandomJob *job, uint64_t *state) {
    for (int t = 0; t < JOB_TENSORS; t++) {
        int64_t count = elements_of(job, t);
        job->before[t] = new_zeroed((size_t)count, sizeof(uint64_t));
        job->after[t] = new_zeroed((size_t)count, sizeof(uint64_t));
        for (int64_t i = 0; i < count; i++)
            job->before[t][i] = cut(random_next(state), job->tensors[t].dtype);
    }
    const PhbTensor *out = &job->tensors[OUT];
    for (int64_t place = 0; place < elements_of(job, OUT); place++) {
        int64_t index[PHB_MAX_RANK], rest = place;
        for (int k = out->rank - 1; k >= 0; k--) {
            index[k] = rest % extent_of(job, out, k);
            rest /= extent_of(job, out, k);
        }
        uint64_t a = oracle_input(job, IN_A, index), b = oracle_input(job, IN_B, index), full = job->before[IN_FULL][place];
        uint64_t value = mix(a, b, full, (uint64_t)place, job->job.scalars[0]);
        job->after[OUT][place] = cut(value, out->dtype);
        job->after[UPDATED][place] = cut(value + 13 * job->before[UPDATED][place], job->tensors[UPDATED].dtype);
    }
}

/* ---- its files ---- */

static void make_file(RandomJob *job, int t) {
    const PhbTensor *tensor = &job->tensors[t];
    int64_t shape[PHB_MAX_RANK];
    for (int k = 0; k < tensor->rank; k++)
        shape[k] = extent_of(job, tensor, k);
    job_file_make(job->folder, tensor_names[t], tensor->mode, tensor->dtype, tensor->rank, shape, job->before[t], &job->job.tensors[t]);
}

bool random_job_file_is(const RandomJob *job, int t, const uint64_t *elements) {
    return job_file_is(job->folder, tensor_names[t], &job->job.tensors[t], elements);
}

/* ---- the whole ---- */

RandomJob *random_job_new(uint64_t seed, const RandomShape *shape, bool files) {
    uint64_t state = seed;
    RandomJob *job = new_zeroed(1, sizeof *job);
    static const PhbScalar scalar = {"scalar", PHB_U64};
    job->job.dims = new_zeroed(JOB_DIMS, sizeof(int64_t));
    job->job.leaf_values = new_zeroed(JOB_DIMS, sizeof(int64_t));
    job->job.scalars = new_zeroed(1, sizeof(uint64_t));
    job->job.tensors = new_zeroed(JOB_TENSORS, sizeof(TensorFile));
    job->job.scalars[0] = random_next(&state);
    make_dims(job, &state, shape);
    make_tensors(job, &state, shape);
    make_data(job, &state);
    job->run = run;
    job->code = (PhbCpuCode){"native", &job->run};
    job->variant = (PhbVariant){.values = job->values, .scratch = 64, .cpu = &job->code, .cpu_count = 1};
    job->kernel.name = "mixed";
    job->kernel.source = "mixed.phb:1:1";
    job->kernel.dims = job->dims;
    job->kernel.dim_count = JOB_DIMS;
    job->kernel.tensors = job->tensors;
    job->kernel.tensor_count = JOB_TENSORS;
    job->kernel.scalars = &scalar;
    job->kernel.scalar_count = 1;
    static const int8_t modes[JOB_TENSORS] = {PHB_READ, PHB_READ, PHB_READ, PHB_WRITE, PHB_READ_WRITE};
    job->stage = (PhbStage){.loop = -1, .modes = modes};
    job->kernel.stages = &job->stage;
    job->kernel.stage_count = 1;
    job->kernel.variants = &job->variant;
    job->kernel.variant_count = 1;
    for (int a = 0; a < 3; a++)
        job->kernel.cluster_dims[a] = 1;
    job->program = (PhbProgram){.abi_version = PHB_ABI_VERSION, .file = "mixed.phb", .compiler = "hand", .kernels = &job->kernel, .kernel_count = 1};
    job->job.program = &job->program;
    job->job.kernel = &job->kernel;
    job->job.path = "job.json";
    running = &job->kernel;
    if (!files)
        return job;
    job->folder = job_folder_new();
    for (int t = 0; t < JOB_TENSORS; t++)
        make_file(job, t);
    return job;
}

bool random_job_free(RandomJob *job) {
    bool clean = true;
    job_journal_remove(&job->job);
    for (int t = 0; t < JOB_TENSORS; t++) {
        free(job->before[t]);
        free(job->after[t]);
        if (job->folder != NULL)
            clean &= job_file_remove(job->folder, tensor_names[t], &job->job.tensors[t]);
    }
    if (job->folder != NULL)
        clean &= job_folder_remove(job->folder);
    free(job->job.dims);
    free(job->job.leaf_values);
    free(job->job.barred);
    free(job->job.scalars);
    free(job->job.tensors);
    free(job);
    return clean;
}

UnitRange deal_units(const Problem *problem, int64_t pod, int64_t pods) {
    Placement *placement = placement_new(problem, PLACE_ROUND_ROBIN, pods);
    int64_t units = placement_count(placement, pod);
    UnitRange range = units > 0 ? placement_run(placement, pod, 0, units) : (UnitRange){.step = pods};
    placement_free(placement);
    return range;
}
