/* What the benchmarks of leaves share: a kernel of the linked object on data in memory, run by the CPU device. */
#ifndef PHOBOS_BENCH_LEAF_H
#define PHOBOS_BENCH_LEAF_H

#include "runtime/device/device.h"
#include "tests/bench/runs.h"

#include <semaphore.h>

enum { BENCH_MAX_TENSORS = 4 };

/* A dim's value. A search dim's picks a variant. */
typedef struct BenchDim {
    const char *name;
    int64_t value;
} BenchDim;

typedef struct BenchLeaf {
    const PhbKernel *kernel;
    const PhbVariant *variant;
    Device *device;
    PhbLaunch launch;
    PhbTensorArg tensors[BENCH_MAX_TENSORS]; /* f32 or f64, filled with numbers in [-0.5, 0.5) */
    int64_t dims[PHB_MAX_DIMS];
    sem_t ended;
} BenchLeaf;

/* The first variant that these dims admit. What goes wrong ends the process. PHOBOS_CPU_LEVEL picks the code. */
BenchLeaf *bench_leaf_new(const char *kernel, const BenchDim *dims, int dim_count, int threads);
void bench_leaf_free(BenchLeaf *leaf);
double bench_leaf_time(BenchLeaf *leaf); /* seconds of one launch */

#endif
