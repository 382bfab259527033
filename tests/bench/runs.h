/* What benchmarks share: clocks, medians, the command line. */
#ifndef PHOBOS_BENCH_RUNS_H
#define PHOBOS_BENCH_RUNS_H

#include <stdbool.h>

enum { BENCH_MAX_RUNS = 999, BENCH_MAX_THREADS = 64 };

double bench_now(void);                          /* seconds */
double bench_median(double *numbers, int count); /* sorts them */
/* THREADS and RUNS from the command line; false after a usage message. The process keeps to as many processors, so that ours and the peer run on the
 * same ones: a virtual machine's are not alike. */
bool bench_arguments(int argc, char **argv, int *threads, int *runs);

#endif
