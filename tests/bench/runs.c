#define _GNU_SOURCE /* sched_setaffinity */
#include "tests/bench/runs.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

double bench_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *numbers, int count) {
    qsort(numbers, (size_t)count, sizeof *numbers, by_size);
    return numbers[count / 2];
}

/* The last ones, as the first also serves devices. */
static void keep_processors(int count) {
    cpu_set_t all, kept;
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return;
    CPU_ZERO(&kept);
    for (size_t p = CPU_SETSIZE; p > 0 && CPU_COUNT(&kept) < count; p--)
        if (CPU_ISSET(p - 1, &all))
            CPU_SET(p - 1, &kept);
    sched_setaffinity(0, sizeof kept, &kept);
}

bool bench_arguments(int argc, char **argv, int *threads, int *runs) {
    *threads = argc > 1 ? atoi(argv[1]) : 1;
    *runs = argc > 2 ? atoi(argv[2]) : 9;
    if (*threads >= 1 && *threads <= BENCH_MAX_THREADS && *runs >= 1 && *runs <= BENCH_MAX_RUNS) {
        keep_processors(*threads);
        return true;
    }
    fprintf(stderr, "usage: %s [THREADS [RUNS]]\n", argv[0]);
    return false;
}
