/* The three kernels of Mojo GPU puzzle 34 with the published inputs and results. */
#include "tests/tools/oracle.h"

#include <float.h>
#include <stdbool.h>
#include <string.h>

enum { CTAS = 4, THREADS = 256, ELEMENTS = CTAS * THREADS };

static double tenths(const void *context, const int64_t *index) {
    (void)context;
    return (double)(index[0] % 10) * 0.1;
}

static double fiftieths(const void *context, const int64_t *index) {
    (void)context;
    return (double)(index[0] % 50) * 0.02;
}

static double count(const void *context, const int64_t *index) {
    (void)context;
    return (double)index[0];
}

/* Sum of each CTA's part, scaled by its number from 1 on where that is asked for. */
static void sum_parts(Oracle *oracle, const char *name, const double *input, int is_scaled) {
    int64_t shape = CTAS;
    OracleResult result = oracle_result(oracle, name, ELEMENT_F32, 1, &shape);
    for (int cta = 0; cta < CTAS; cta++) {
        double terms = 0;
        for (int i = 0; i < THREADS; i++)
            terms += input[cta * THREADS + i] * (is_scaled ? cta + 1 : 1);
        result.value[cta] = terms;
        result.bound[cta] = THREADS * FLT_EPSILON * terms;
    }
}

static void expect_all(const Oracle *oracle, const double published[CTAS], const double *input) {
    for (int cta = 0; cta < CTAS; cta++) {
        double sum = 0;
        for (int i = 0; i < THREADS; i++)
            sum += input[cta * THREADS + i] * (cta + 1);
        oracle_expect(oracle, "the published sum of a CTA", published[cta], sum, 1e-4);
    }
}

void oracle_run(Oracle *oracle) {
    static const double coordination[CTAS] = {114.0, 231.2, 345.6, 459.2}, advanced[CTAS] = {122.8, 247.04, 372.72, 499.84};
    const char *kernel = oracle_kernel(oracle);
    int64_t elements = ELEMENTS, one = 1;
    if (strcmp(kernel, "collective_reduction") == 0) {
        const double *input = oracle_numbers(oracle, "input", ELEMENT_F32, 1, &elements, count, NULL);
        sum_parts(oracle, "temp_storage", input, 0);
        oracle_result(oracle, "output", ELEMENT_F32, 1, &one).value[0] = 523776; /* every partial sum is an integer that f32 holds */
        return;
    }
    bool is_coordination = strcmp(kernel, "block_coordination") == 0;
    const double *input = oracle_numbers(oracle, "input", ELEMENT_F32, 1, &elements, is_coordination ? tenths : fiftieths, NULL);
    expect_all(oracle, is_coordination ? coordination : advanced, input);
    sum_parts(oracle, "output", input, 1);
}
