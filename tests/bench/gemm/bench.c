/* The leaves of kernels.phb against OpenBLAS in alternating runs.
 *
 *   bench_gemm [THREADS [RUNS]]         every size: medians */
#include "tests/bench/leaf.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Of libopenblas; its header is not needed. */
extern void openblas_set_num_threads(int threads);
extern void cblas_sgemm(
    int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
extern void cblas_dgemm(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda, const double *b, int ldb, double beta,
    double *c, int ldc);

extern char *openblas_get_corename(void);

enum { ROW_MAJOR = 101, PLAIN = 111, PEER_SPINS_NS = 10000000 };

static double time_peer(const BenchLeaf *leaf, int m, int n, int k) {
    const PhbTensorArg *a = &leaf->tensors[0], *b = &leaf->tensors[1], *c = &leaf->tensors[2];
    bool wide = leaf->kernel->tensors[0].dtype == PHB_F64;
    int size = wide ? 8 : 4, lda = (int)a->pitch / size, ldb = (int)b->pitch / size, ldc = (int)c->pitch / size;
    double start = bench_now();
    if (wide)
        cblas_dgemm(ROW_MAJOR, PLAIN, PLAIN, m, n, k, 1, a->base, lda, b->base, ldb, 0, c->base, ldc);
    else
        cblas_sgemm(ROW_MAJOR, PLAIN, PLAIN, m, n, k, 1, a->base, lda, b->base, ldb, 0, c->base, ldc);
    return bench_now() - start;
}

/* OpenBLAS's threads go on spinning after their work and would take a processor from what runs next: for 2^26 cycles or more, unless its environment
 * says 2^n when it is loaded. */
static void limit_spinning(char **argv) {
    if (getenv("OPENBLAS_THREAD_TIMEOUT") == NULL && setenv("OPENBLAS_THREAD_TIMEOUT", "20", 1) == 0)
        execv("/proc/self/exe", argv);
}

static void let_peer_rest(int threads) {
    if (threads > 1)
        nanosleep(&(struct timespec){.tv_nsec = PEER_SPINS_NS}, NULL);
}

static double compare(const char *name, int m, int n, int k, int threads, int runs) {
    double ours[BENCH_MAX_RUNS], peer[BENCH_MAX_RUNS];
    BenchLeaf *leaf = bench_leaf_new(name, (const BenchDim[]){{"M", m}, {"N", n}, {"K", k}}, 3, threads);
    for (int r = 0; r < runs; r++) { /* the second of two runs: the threads of both are awake then */
        let_peer_rest(threads);
        bench_leaf_time(leaf);
        ours[r] = bench_leaf_time(leaf);
        time_peer(leaf, m, n, k);
        peer[r] = time_peer(leaf, m, n, k);
    }
    double rate = 2e-9 * m * n * k, own = rate / bench_median(ours, runs), other = rate / bench_median(peer, runs);
    printf("%s %d x %d x %d, %d thread%s: ours %.1f GFLOP/s, OpenBLAS %.1f, ratio %.2f\n", name, m, n, k, threads, threads == 1 ? "" : "s", own,
        other, own / other);
    bench_leaf_free(leaf);
    return own;
}

static void time_attention(int threads, int runs, double gemm) {
    enum { LENGTH = 4096, DEPTH = 64 };
    double times[BENCH_MAX_RUNS];
    BenchLeaf *leaf = bench_leaf_new("attention", (const BenchDim[]){{"M", LENGTH}, {"N", LENGTH}}, 2, threads);
    bench_leaf_time(leaf);
    for (int r = 0; r < runs; r++)
        times[r] = bench_leaf_time(leaf);
    double rate = 4e-9 * LENGTH * LENGTH * DEPTH / bench_median(times, runs);
    printf("attention f32 %d x %d, %d thread%s: %.1f GFLOP/s, %.2f of gemm's rate\n", LENGTH, DEPTH, threads, threads == 1 ? "" : "s", rate,
        rate / gemm);
    bench_leaf_free(leaf);
}

int main(int argc, char **argv) {
    int threads, runs;
    if (!bench_arguments(argc, argv, &threads, &runs))
        return 2;
    limit_spinning(argv);
    openblas_set_num_threads(threads);
    printf("OpenBLAS for %s\n", openblas_get_corename()); /* an old one knows no new processor */
    double gemm = compare("gemm_f32", 1024, 1024, 1024, threads, runs);
    compare("gemm_f32", 2048, 2048, 2048, threads, runs);
    compare("gemm_f32", 1000, 1023, 1025, threads, runs);
    compare("gemm_f64", 1024, 1024, 1024, threads, runs);
    compare("gemm_f64", 2048, 2048, 2048, threads, runs);
    compare("gemm_f64", 1000, 1023, 1025, threads, runs);
    let_peer_rest(threads);
    time_attention(threads, runs, gemm);
    return 0;
}
