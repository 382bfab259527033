#define _GNU_SOURCE /* madvise */
#include "tests/bench/leaf.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)

extern const PhbProgram phb_program;

_Noreturn static void fail(const char *what, const char *name) {
    fprintf(stderr, "bench: %s '%s'\n", what, name);
    exit(1);
}

static const PhbKernel *find_kernel(const char *name) {
    for (int k = 0; k < phb_program.kernel_count; k++)
        if (strcmp(phb_program.kernels[k].name, name) == 0)
            return &phb_program.kernels[k];
    fail("no kernel", name);
}

static const BenchDim *find_dim(const BenchDim *dims, int count, const char *name) {
    for (int d = 0; d < count; d++)
        if (strcmp(dims[d].name, name) == 0)
            return &dims[d];
    return NULL;
}

static int64_t evaluate(const PhbExpr *expr, const ExprScope *scope) {
    int64_t value;
    if (!expr_eval(expr, scope, &value))
        fail("no value for", expr->text);
    return value;
}

static bool admits(BenchLeaf *leaf, const PhbVariant *variant, const BenchDim *dims, int count) {
    const PhbKernel *kernel = leaf->kernel;
    for (int d = 0; d < kernel->dim_count; d++) {
        const BenchDim *given = find_dim(dims, count, kernel->dims[d].name);
        if (kernel->dims[d].is_search && given != NULL && given->value != variant->values[d])
            return false;
        if (!kernel->dims[d].is_search && given == NULL)
            fail("no value for", kernel->dims[d].name);
        leaf->dims[d] = kernel->dims[d].is_search ? variant->values[d] : given->value;
    }
    int64_t extents[BENCH_MAX_TENSORS][PHB_MAX_RANK];
    ExprScope scope = {.dims = leaf->dims, .extents = (const int64_t(*)[PHB_MAX_RANK])extents};
    for (int t = 0; t < kernel->tensor_count; t++)
        for (int axis = 0; axis < PHB_MAX_RANK; axis++) {
            extents[t][axis] = evaluate(&kernel->tensors[t].axes[axis].extent, &scope);
            leaf->tensors[t].extent[axis] = leaf->tensors[t].whole[axis] = extents[t][axis];
        }
    for (int c = 0; c < kernel->leaf_check_count; c++)
        if (!evaluate(&kernel->leaf_checks[c].cond, &scope))
            return false;
    for (int axis = 0; axis < 3; axis++)
        leaf->launch.grid[axis] = evaluate(&kernel->grid[axis].leaf, &scope);
    leaf->variant = variant;
    return true;
}

/* As pods lay tiles out: rows padded, in huge pages where there are any. */
static void make_tensor(PhbTensorArg *arg, const PhbTensor *tensor) {
    int64_t size = dtype_size(tensor->dtype), rows = 1, columns = arg->extent[tensor->rank - 1];
    for (int axis = 0; axis + 1 < tensor->rank; axis++)
        rows *= arg->extent[axis];
    arg->pitch = (columns * size + PHB_ROW_ALIGN - 1) / PHB_ROW_ALIGN * PHB_ROW_ALIGN;
    size_t bytes = ((size_t)(rows * arg->pitch) + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    arg->base = aligned_alloc(HUGE_PAGE, bytes);
    if (arg->base == NULL)
        fail("out of memory for", tensor->name);
    madvise(arg->base, bytes, MADV_HUGEPAGE);
    memset(arg->base, 0, bytes);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            char *element = (char *)arg->base + i * arg->pitch + j * size;
            double value = (double)((i * 31 + j * 17) % 64 - 32) / 64;
            if (tensor->dtype == PHB_F64)
                *(double *)element = value;
            else
                *(float *)element = (float)value;
        }
}

static void note_end(void *context, uint32_t instruction, const Error *error) {
    (void)instruction;
    (void)error; /* the CPU has none */
    sem_post(&((BenchLeaf *)context)->ended);
}

BenchLeaf *bench_leaf_new(const char *name, const BenchDim *dims, int dim_count, int threads) {
    BenchLeaf *leaf = new_zeroed(1, sizeof *leaf);
    leaf->kernel = find_kernel(name);
    for (int v = 0; v < leaf->kernel->variant_count && leaf->variant == NULL; v++)
        admits(leaf, &leaf->kernel->variants[v], dims, dim_count);
    if (leaf->variant == NULL)
        fail("no variant for these sizes of", name);
    for (int t = 0; t < leaf->kernel->tensor_count; t++)
        make_tensor(&leaf->tensors[t], &leaf->kernel->tensors[t]);
    leaf->launch.tensors = leaf->tensors;
    leaf->launch.dims = leaf->dims;
    for (int axis = 0; axis < 3; axis++)
        leaf->launch.supers[axis] = 1;
    sem_init(&leaf->ended, 0, 0);
    DeviceOptions options = {
        .kernel = leaf->kernel, .threads = threads, .cpu_level = getenv("PHOBOS_CPU_LEVEL"), .launches = 1, .done = note_end, .context = leaf};
    Error error;
    leaf->device = cpu_device.open(leaf->variant, &options, &error);
    if (leaf->device == NULL)
        fail("no device for", name);
    return leaf;
}

void bench_leaf_free(BenchLeaf *leaf) {
    leaf->device->type->close(leaf->device);
    for (int t = 0; t < leaf->kernel->tensor_count; t++)
        free(leaf->tensors[t].base);
    sem_destroy(&leaf->ended);
    free(leaf);
}

double bench_leaf_time(BenchLeaf *leaf) {
    double start = bench_now();
    leaf->device->type->launch(leaf->device, 0, 0, &leaf->launch);
    while (sem_wait(&leaf->ended) != 0)
        continue;
    return bench_now() - start;
}
