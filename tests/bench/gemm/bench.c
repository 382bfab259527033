/* The leaves of kernels.phb on data in memory, dealt to threads as the CPU device deals them, against OpenBLAS in alternating runs.
 *
 *   bench_gemm [THREADS [RUNS]]         every size: medians */
#include "runtime/program.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Of libopenblas; its header is not needed. */
extern void openblas_set_num_threads(int threads);
extern void cblas_sgemm(
    int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
extern void cblas_dgemm(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda, const double *b, int ldb, double beta,
    double *c, int ldc);

extern char *openblas_get_corename(void);

extern const PhbProgram phb_program;

enum { ROW_MAJOR = 101, PLAIN = 111, MAX_TENSORS = 4, MAX_THREADS = 64, MAX_RUNS = 999, CHUNKS = 4 };

typedef struct Work {
    PhbCtaRange *run;
    PhbLaunch launch;
    PhbTensorArg tensors[MAX_TENSORS];
    int64_t dims[PHB_MAX_DIMS];
    int64_t scratch_bytes;
    void *scratch[MAX_THREADS];
    int threads;
    int64_t next, total; /* CTAs */
    pthread_mutex_t mutex;
} Work;

typedef struct Worker {
    Work *work;
    void *scratch;
    pthread_t handle;
} Worker;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void *zeroed(size_t bytes) {
    size_t padded = (bytes + 4095) / 4096 * 4096;
    void *memory = aligned_alloc(4096, padded);
    if (memory == NULL) {
        fprintf(stderr, "bench_gemm: out of memory\n");
        exit(1);
    }
    return memset(memory, 0, padded);
}

static const PhbKernel *find_kernel(const char *name) {
    for (int k = 0; k < phb_program.kernel_count; k++)
        if (strcmp(phb_program.kernels[k].name, name) == 0)
            return &phb_program.kernels[k];
    fprintf(stderr, "bench_gemm: no kernel '%s'\n", name);
    exit(1);
}

static bool level_runs(const char *level) {
    return strcmp(level, "x86-64-v4") == 0 ? __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") : __builtin_cpu_supports("avx2");
}

static int64_t value_of(const PhbKernel *kernel, const char *name, const int64_t *values) {
    for (int d = 0; d < kernel->dim_count; d++)
        if (strcmp(kernel->dims[d].name, name) == 0)
            return values[d];
    return 1;
}

/* Extents by name, "M" rows of the result, "N", "K". */
static Work *work_new(const char *name, int64_t m, int64_t n, int64_t k, int threads) {
    const PhbKernel *kernel = find_kernel(name);
    const PhbVariant *variant = &kernel->variants[0];
    Work *work = zeroed(sizeof *work);
    for (int c = 0; c < variant->cpu_count; c++)
        if (level_runs(variant->cpu[c].level))
            work->run = variant->cpu[c].stages[0];
    for (int d = 0; d < kernel->dim_count; d++) {
        const char *dim = kernel->dims[d].name;
        work->dims[d] = kernel->dims[d].is_search ? variant->values[d] : *dim == 'M' ? m : *dim == 'N' ? n : k;
    }
    for (int t = 0; t < kernel->tensor_count; t++) {
        const PhbTensor *tensor = &kernel->tensors[t];
        PhbTensorArg *arg = &work->tensors[t];
        int64_t size = tensor->dtype == PHB_F64 ? 8 : 4;
        for (int axis = 0; axis < PHB_MAX_RANK; axis++)
            arg->extent[axis] = arg->whole[axis] = axis < tensor->rank ? value_of(kernel, tensor->axes[axis].extent.text, work->dims) : 1;
        arg->pitch = (arg->extent[1] * size + PHB_ROW_ALIGN - 1) / PHB_ROW_ALIGN * PHB_ROW_ALIGN;
        arg->base = zeroed((size_t)(arg->pitch * arg->extent[0]));
        for (int64_t i = 0; i < arg->extent[0]; i++)
            for (int64_t j = 0; j < arg->extent[1]; j++) {
                char *element = (char *)arg->base + i * arg->pitch + j * size;
                double value = (double)((i * 31 + j * 17) % 64 - 32) / 64;
                if (size == 8)
                    *(double *)element = value;
                else
                    *(float *)element = (float)value;
            }
    }
    int64_t tm = value_of(kernel, "TM", work->dims), tn = value_of(kernel, "TN", work->dims);
    bool one_column = strcmp(name, "attention") == 0;
    work->launch = (PhbLaunch){
        .tensors = work->tensors, .dims = work->dims, .grid = {one_column ? 1 : (n + tn - 1) / tn, (m + tm - 1) / tm, 1}, .supers = {1, 1, 1}};
    work->total = work->launch.grid[0] * work->launch.grid[1];
    work->threads = threads;
    for (int t = 0; t < threads; t++)
        work->scratch[t] = zeroed((size_t)variant->scratch + 64);
    pthread_mutex_init(&work->mutex, NULL);
    return work;
}

static void work_free(Work *work) {
    for (int t = 0; t < MAX_TENSORS; t++)
        free(work->tensors[t].base);
    for (int t = 0; t < work->threads; t++)
        free(work->scratch[t]);
    free(work);
}

static void *deal(void *context) {
    Worker *worker = context;
    Work *work = worker->work;
    for (;;) {
        pthread_mutex_lock(&work->mutex);
        int64_t first = work->next, count = (work->total - first) / (work->threads * CHUNKS);
        if (count == 0)
            count = first < work->total;
        work->next += count;
        pthread_mutex_unlock(&work->mutex);
        if (count == 0)
            return NULL;
        work->run(&work->launch, first, first + count, worker->scratch);
    }
}

static double time_work(Work *work) {
    Worker workers[MAX_THREADS];
    double start = now();
    work->next = 0;
    for (int t = 0; t < work->threads; t++) {
        workers[t] = (Worker){.work = work, .scratch = work->scratch[t]};
        if (t > 0)
            pthread_create(&workers[t].handle, NULL, deal, &workers[t]);
    }
    deal(&workers[0]);
    for (int t = 1; t < work->threads; t++)
        pthread_join(workers[t].handle, NULL);
    return now() - start;
}

static double time_peer(const Work *work, bool wide, int m, int n, int k) {
    const PhbTensorArg *a = &work->tensors[0], *b = &work->tensors[1], *c = &work->tensors[2];
    int size = wide ? 8 : 4, lda = (int)a->pitch / size, ldb = (int)b->pitch / size, ldc = (int)c->pitch / size;
    double start = now();
    if (wide)
        cblas_dgemm(ROW_MAJOR, PLAIN, PLAIN, m, n, k, 1, a->base, lda, b->base, ldb, 0, c->base, ldc);
    else
        cblas_sgemm(ROW_MAJOR, PLAIN, PLAIN, m, n, k, 1, a->base, lda, b->base, ldb, 0, c->base, ldc);
    return now() - start;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *times, int count) {
    qsort(times, (size_t)count, sizeof *times, by_size);
    return times[count / 2];
}

static double compare(const char *name, bool wide, int m, int n, int k, int threads, int runs) {
    double ours[MAX_RUNS], peer[MAX_RUNS];
    Work *work = work_new(name, m, n, k, threads);
    time_work(work);
    time_peer(work, wide, m, n, k);
    for (int r = 0; r < runs; r++) {
        ours[r] = time_work(work);
        peer[r] = time_peer(work, wide, m, n, k);
    }
    double rate = 2e-9 * m * n * k, own = rate / median(ours, runs), other = rate / median(peer, runs);
    printf("%s %d x %d x %d, %d thread%s: ours %.1f GFLOP/s, OpenBLAS %.1f, ratio %.2f\n", name, m, n, k, threads, threads == 1 ? "" : "s", own,
        other, own / other);
    work_free(work);
    return own;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 1, runs = argc > 2 ? atoi(argv[2]) : 9;
    if (threads < 1 || threads > MAX_THREADS || runs < 1 || runs > MAX_RUNS) {
        fprintf(stderr, "usage: bench_gemm [THREADS [RUNS]]\n");
        return 2;
    }
    openblas_set_num_threads(threads);
    printf("OpenBLAS for %s\n", openblas_get_corename()); /* an old one knows no new processor */
    double gemm = compare("gemm_f32", false, 1024, 1024, 1024, threads, runs);
    compare("gemm_f32", false, 2048, 2048, 2048, threads, runs);
    compare("gemm_f32", false, 1000, 1023, 1025, threads, runs);
    compare("gemm_f64", true, 1024, 1024, 1024, threads, runs);
    enum { LENGTH = 4096, DEPTH = 64 };
    double times[MAX_RUNS];
    Work *work = work_new("attention", LENGTH, LENGTH, 0, threads);
    time_work(work);
    for (int r = 0; r < runs; r++)
        times[r] = time_work(work);
    double rate = 4e-9 * LENGTH * LENGTH * DEPTH / median(times, runs);
    printf("attention f32 %d x %d, %d thread%s: %.1f GFLOP/s, %.2f of gemm's rate\n", LENGTH, DEPTH, threads, threads == 1 ? "" : "s", rate,
        rate / gemm);
    work_free(work);
    return 0;
}
