/* The leaves of kernels.phb on data in memory against plain C loops, compiled -O3 -march=native, in alternating runs of the same number of threads.
 *
 *   bench_rows [THREADS [RUNS]]         medians; a ratio above 1: ours is faster */
#include "runtime/program.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

extern const PhbProgram phb_program;

enum { MAX_TENSORS = 4, MAX_THREADS = 64, MAX_RUNS = 999, ROWS = 8192, COLUMNS = 1024, LENGTH = 1 << 25 };

/* Rows [first, end), or elements of vectors. The tensors in the order of the kernel's parameters. */
typedef void Loop(float *const *tensors, int64_t first, int64_t end);

typedef struct Bench {
    const char *name;
    Loop *loop;
    const PhbVariant *variant;
    PhbCtaRange *run;
    PhbLaunch launch;
    PhbTensorArg tensors[MAX_TENSORS];
    float *data[MAX_TENSORS];
    int64_t dims[PHB_MAX_DIMS];
    int64_t ctas, items;
    int tensor_count;
} Bench;

typedef struct Worker {
    const Bench *bench;
    bool ours;
    int64_t first, end;
    void *scratch;
    pthread_t handle;
} Worker;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void *allocate(size_t bytes) {
    size_t padded = (bytes + 4095) / 4096 * 4096 + 4096;
    void *memory = aligned_alloc(4096, padded);
    if (memory == NULL) {
        fprintf(stderr, "bench_rows: out of memory\n");
        exit(1);
    }
    return memset(memory, 0, padded);
}

/* ---- the peers ---- */

static void add_loop(float *const *t, int64_t first, int64_t end) {
    const float *restrict a = t[0], *restrict b = t[1];
    float *restrict c = t[2];
    for (int64_t i = first; i < end; i++)
        c[i] = a[i] + b[i];
}

static void saxpy_loop(float *const *t, int64_t first, int64_t end) {
    const float *restrict x = t[0];
    float *restrict y = t[1];
    for (int64_t i = first; i < end; i++)
        y[i] += 0.125f * x[i];
}

static void softmax_loop(float *const *t, int64_t first, int64_t end) {
    for (int64_t row = first; row < end; row++) {
        const float *restrict x = t[0] + row * COLUMNS;
        float *restrict y = t[1] + row * COLUMNS, peak = -INFINITY, total = 0;
        for (int i = 0; i < COLUMNS; i++)
            peak = x[i] > peak ? x[i] : peak;
        for (int i = 0; i < COLUMNS; i++)
            total += y[i] = expf(x[i] - peak);
        for (int i = 0; i < COLUMNS; i++)
            y[i] /= total;
    }
}

static void layernorm_loop(float *const *t, int64_t first, int64_t end) {
    const float *restrict gamma = t[1], *restrict beta = t[2];
    for (int64_t row = first; row < end; row++) {
        const float *restrict x = t[0] + row * COLUMNS;
        float *restrict y = t[3] + row * COLUMNS, sum = 0, squares = 0;
        for (int i = 0; i < COLUMNS; i++)
            sum += x[i];
        float mean = sum / COLUMNS;
        for (int i = 0; i < COLUMNS; i++)
            squares += (x[i] - mean) * (x[i] - mean);
        float scale = 1 / sqrtf(squares / COLUMNS + 1e-5f);
        for (int i = 0; i < COLUMNS; i++)
            y[i] = (x[i] - mean) * scale * gamma[i] + beta[i];
    }
}

/* ---- ours ---- */

static int64_t dim_value(const Bench *bench, const PhbKernel *kernel, const char *name, int64_t otherwise) {
    for (int d = 0; d < kernel->dim_count; d++)
        if (strcmp(kernel->dims[d].name, name) == 0)
            return bench->dims[d];
    return otherwise;
}

static bool level_runs(const char *level) {
    return strcmp(level, "x86-64-v4") == 0 ? __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") : __builtin_cpu_supports("avx2");
}

static void bench_init(Bench *bench, const PhbKernel *kernel, Loop *loop) {
    *bench = (Bench){.name = kernel->name, .loop = loop, .variant = &kernel->variants[0], .tensor_count = kernel->tensor_count};
    for (int c = 0; c < bench->variant->cpu_count; c++)
        if (level_runs(bench->variant->cpu[c].level))
            bench->run = bench->variant->cpu[c].stages[0];
    for (int d = 0; d < kernel->dim_count; d++) {
        char name = kernel->dims[d].name[0];
        bench->dims[d] = kernel->dims[d].is_search ? bench->variant->values[d] : name == 'N' ? LENGTH : name == 'R' ? ROWS : COLUMNS;
    }
    for (int t = 0; t < kernel->tensor_count; t++) {
        const PhbTensor *tensor = &kernel->tensors[t];
        PhbTensorArg *arg = &bench->tensors[t];
        int64_t count = 1;
        for (int axis = 0; axis < PHB_MAX_RANK; axis++) {
            arg->extent[axis] = arg->whole[axis] = axis < tensor->rank ? dim_value(bench, kernel, tensor->axes[axis].extent.text, 1) : 1;
            count *= arg->extent[axis];
        }
        arg->pitch = arg->extent[tensor->rank - 1] * (int64_t)sizeof(float);
        arg->base = bench->data[t] = allocate((size_t)count * sizeof(float));
        for (int64_t i = 0; i < count; i++)
            bench->data[t][i] = (float)(i * 37 % 1024 - 512) / 512;
    }
    bool rows = kernel->tensors[0].rank == 2;
    bench->items = rows ? ROWS : LENGTH;
    bench->ctas = bench->items / dim_value(bench, kernel, rows ? "BR" : "BLOCK", 1);
    bench->launch = (PhbLaunch){.tensors = bench->tensors, .dims = bench->dims, .grid = {bench->ctas, 1, 1}, .supers = {1, 1, 1}};
}

static void *work(void *context) {
    const Worker *worker = context;
    const Bench *bench = worker->bench;
    if (worker->ours)
        bench->run(&bench->launch, worker->first, worker->end, worker->scratch);
    else
        bench->loop(bench->data, worker->first, worker->end);
    return NULL;
}

static double time_run(const Bench *bench, bool ours, int threads, void *const *scratch) {
    Worker workers[MAX_THREADS];
    int64_t total = ours ? bench->ctas : bench->items;
    double start = now();
    for (int t = 0; t < threads; t++) {
        workers[t] = (Worker){.bench = bench, .ours = ours, .first = total * t / threads, .end = total * (t + 1) / threads, .scratch = scratch[t]};
        if (t > 0)
            pthread_create(&workers[t].handle, NULL, work, &workers[t]);
    }
    work(&workers[0]);
    for (int t = 1; t < threads; t++)
        pthread_join(workers[t].handle, NULL);
    return now() - start;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void compare(const PhbKernel *kernel, Loop *loop, int threads, int runs) {
    Bench bench;
    double ours[MAX_RUNS], peer[MAX_RUNS];
    void *scratch[MAX_THREADS];
    bench_init(&bench, kernel, loop);
    for (int t = 0; t < threads; t++)
        scratch[t] = allocate((size_t)bench.variant->scratch);
    for (int r = -1; r < runs; r++) {
        double first = time_run(&bench, true, threads, scratch), second = time_run(&bench, false, threads, scratch);
        if (r >= 0) {
            ours[r] = first;
            peer[r] = second;
        }
    }
    qsort(ours, (size_t)runs, sizeof *ours, by_size);
    qsort(peer, (size_t)runs, sizeof *peer, by_size);
    printf("%s f32 %s, %d thread%s: ours %.4f s, plain C %.4f s, ratio %.2f\n", bench.name, bench.items == ROWS ? "8192 x 1024" : "2^25", threads,
        threads == 1 ? "" : "s", ours[runs / 2], peer[runs / 2], peer[runs / 2] / ours[runs / 2]);
    for (int t = 0; t < threads; t++)
        free(scratch[t]);
    for (int t = 0; t < bench.tensor_count; t++)
        free(bench.data[t]);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        Loop *loop;
    } peers[] = {{"softmax", softmax_loop}, {"layernorm", layernorm_loop}, {"add", add_loop}, {"saxpy", saxpy_loop}};
    int threads = argc > 1 ? atoi(argv[1]) : 1, runs = argc > 2 ? atoi(argv[2]) : 9;
    if (threads < 1 || threads > MAX_THREADS || runs < 1 || runs > MAX_RUNS) {
        fprintf(stderr, "usage: bench_rows [THREADS [RUNS]]\n");
        return 2;
    }
    for (size_t p = 0; p < sizeof peers / sizeof *peers; p++)
        for (int k = 0; k < phb_program.kernel_count; k++)
            if (strcmp(phb_program.kernels[k].name, peers[p].name) == 0)
                compare(&phb_program.kernels[k], peers[p].loop, threads, runs);
    return 0;
}
