/* Thread code on a host: the first kernel of samples/reduction against a plain C loop on as many threads, in alternating runs, and how many barriers
 * a CTA of 256 threads passes in a second.
 *
 *   bench_threads [THREADS [RUNS]]         medians; a ratio above 1: ours is faster */
#define _GNU_SOURCE /* madvise */
#include "runtime/device/cta.h"
#include "tests/bench/leaf.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

extern const PhbProgram phb_program;

enum { LENGTH = 1 << 24, PART = 16384, PARTS = LENGTH / PART, BARRIERS = 20000, CTA_THREADS = 256 };

static float *numbers, partials[PARTS], sums[BENCH_MAX_THREADS];

typedef struct Worker {
    const PhbLaunch *launch;
    PhbCtaRange *run; /* NULL: the loop */
    int64_t first, end;
    int number;
    void *scratch;
    pthread_t handle;
} Worker;

static void *work(void *context) {
    const Worker *worker = context;
    if (worker->run != NULL) {
        worker->run(worker->launch, worker->first, worker->end, worker->scratch);
        return NULL;
    }
    float sum = 0;
    for (int64_t i = worker->first * PART; i < worker->end * PART; i++)
        sum += numbers[i];
    sums[worker->number] = sum;
    return NULL;
}

static double run_all(Worker *workers, int threads) {
    double start = bench_now();
    for (int t = 0; t < threads; t++)
        if (pthread_create(&workers[t].handle, NULL, work, &workers[t]) != 0)
            abort();
    for (int t = 0; t < threads; t++)
        pthread_join(workers[t].handle, NULL);
    return bench_now() - start;
}

/* ---- the reduction ---- */

static PhbCtaRange *best_code(const PhbVariant *variant) {
    PhbCtaRange *run = NULL;
    for (int c = 0; c < variant->cpu_count; c++)
        if (strcmp(variant->cpu[c].level, "x86-64-v4") != 0 || (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")))
            run = variant->cpu[c].stages[0];
    return run;
}

static void bench_reduction(int threads, int runs) {
    const PhbVariant *variant = &phb_program.kernels[0].variants[0];
    PhbTensorArg tensors[2] = {
        {.base = numbers, .extent = {LENGTH, 1, 1, 1}, .pitch = LENGTH * 4}, {.base = partials, .extent = {PARTS, 1, 1, 1}, .pitch = PARTS * 4}};
    int64_t dims[3] = {LENGTH, PARTS, PART};
    PhbLaunch launch = {.tensors = tensors, .dims = dims, .grid = {PARTS, 1, 1}, .supers = {1, 1, 1}};
    Worker ours[BENCH_MAX_THREADS], loops[BENCH_MAX_THREADS];
    double our_times[BENCH_MAX_RUNS], loop_times[BENCH_MAX_RUNS];
    for (int t = 0; t < threads; t++) {
        ours[t] = (Worker){.launch = &launch,
            .run = best_code(variant),
            .first = PARTS * t / threads,
            .end = PARTS * (t + 1) / threads,
            .number = t,
            .scratch = aligned_alloc(4096, ((size_t)variant->scratch / 4096 + 1) * 4096)};
        loops[t] = ours[t];
        loops[t].run = NULL;
    }
    for (int r = 0; r < runs; r++) {
        our_times[r] = run_all(ours, threads);
        loop_times[r] = run_all(loops, threads);
    }
    double total = 0, loop_total = 0, one = bench_median(our_times, runs), other = bench_median(loop_times, runs);
    for (int p = 0; p < PARTS; p++)
        total += (double)partials[p];
    for (int t = 0; t < threads; t++) {
        loop_total += (double)sums[t];
        free(ours[t].scratch);
    }
    printf("reduction of 2^24 f32, thread code, %d thread%s: ours %.4f s, plain C %.4f s, ratio %.2f (sums %g, %g)\n", threads,
        threads == 1 ? "" : "s", one, other, other / one, total, loop_total);
}

/* ---- barriers ---- */

static void pass_barriers(const PhbLaunch *launch, PhbSimtThread *thread) {
    (void)launch;
    for (int b = 0; b < BARRIERS; b++)
        phb_cta_barrier(thread, "barrier", 1);
}

static void bench_barriers(bool shuffle) {
    CtaSetup setup = {.kernel = "barriers", .threads = CTA_THREADS, .size = {1, 1, 1}, .shuffle = shuffle, .seed = 1};
    CtaRunner runner = {0};
    PhbLaunch launch = {.grid = {1, 1, 1}};
    Error error;
    char shared[PHB_SHARED_ALIGN];
    double start = bench_now();
    if (!runner_prepare(&runner, &setup, &error) || !runner_run(&runner, pass_barriers, &launch, 0, shared, &error)) {
        fprintf(stderr, "bench_threads: %s\n", error.text);
        exit(1);
    }
    printf("barriers of a CTA of %d threads, %s: %.0f a second\n", CTA_THREADS, shuffle ? "in an order drawn from a seed" : "in ascending order",
        BARRIERS / (bench_now() - start));
    runner_fini(&runner);
}

int main(int argc, char **argv) {
    int threads, runs;
    if (!bench_arguments(argc, argv, &threads, &runs))
        return 2;
    enum { HUGE_PAGE = 2 << 20 }; /* as pods' memory has them */
    numbers = aligned_alloc(HUGE_PAGE, LENGTH * sizeof *numbers);
    if (numbers == NULL)
        return 1;
    madvise(numbers, LENGTH * sizeof *numbers, MADV_HUGEPAGE);
    for (int64_t i = 0; i < LENGTH; i++)
        numbers[i] = (float)(i * 37 % 1024 - 512) / 512;
    bench_reduction(threads, runs);
    bench_barriers(false);
    bench_barriers(true);
    free(numbers);
    return 0;
}
