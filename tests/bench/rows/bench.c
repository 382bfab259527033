/* The leaves of kernels.phb against plain C loops, compiled -O3 -march=native, in alternating runs of the same number of threads.
 *
 *   bench_rows [THREADS [RUNS]]         medians; a ratio above 1: ours is faster */
#include "tests/bench/leaf.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 8192, COLUMNS = 1024, LENGTH = 1 << 25 };

/* Rows [first, end), or elements of vectors. The tensors in the order of the kernel's parameters. */
typedef void Loop(float *const *tensors, int64_t first, int64_t end);

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

/* ---- runs ---- */

typedef struct Worker {
    Loop *loop;
    float *const *data;
    int64_t first, end;
    pthread_t handle;
} Worker;

static void *work(void *context) {
    const Worker *worker = context;
    worker->loop(worker->data, worker->first, worker->end);
    return NULL;
}

static double time_peer(Loop *loop, float *const *data, int64_t items, int threads) {
    Worker workers[BENCH_MAX_THREADS];
    double start = bench_now();
    for (int t = 0; t < threads; t++) {
        workers[t] = (Worker){.loop = loop, .data = data, .first = items * t / threads, .end = items * (t + 1) / threads};
        if (t > 0)
            pthread_create(&workers[t].handle, NULL, work, &workers[t]);
    }
    work(&workers[0]);
    for (int t = 1; t < threads; t++)
        pthread_join(workers[t].handle, NULL);
    return bench_now() - start;
}

static void compare(const char *name, Loop *loop, bool rows, int threads, int runs) {
    double ours[BENCH_MAX_RUNS], peer[BENCH_MAX_RUNS];
    BenchLeaf *leaf = bench_leaf_new(name, (const BenchDim[]){{"N", LENGTH}, {"R", ROWS}, {"C", COLUMNS}}, 3, threads);
    float *data[BENCH_MAX_TENSORS];
    for (int t = 0; t < leaf->kernel->tensor_count; t++)
        data[t] = leaf->tensors[t].base;
    int64_t items = rows ? ROWS : LENGTH;
    bench_leaf_time(leaf);
    time_peer(loop, data, items, threads);
    for (int r = 0; r < runs; r++) {
        ours[r] = bench_leaf_time(leaf);
        peer[r] = time_peer(loop, data, items, threads);
    }
    double own = bench_median(ours, runs), other = bench_median(peer, runs);
    printf("%s f32 %s, %d thread%s: ours %.4f s, plain C %.4f s, ratio %.2f\n", name, rows ? "8192 x 1024" : "2^25", threads, threads == 1 ? "" : "s",
        own, other, other / own);
    bench_leaf_free(leaf);
}

int main(int argc, char **argv) {
    int threads, runs;
    if (!bench_arguments(argc, argv, &threads, &runs))
        return 2;
    compare("softmax", softmax_loop, true, threads, runs);
    compare("layernorm", layernorm_loop, true, threads, runs);
    compare("add", add_loop, false, threads, runs);
    compare("saxpy", saxpy_loop, false, threads, runs);
    return 0;
}
