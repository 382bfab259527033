/* Elements beyond 2^31 of a tensor: addresses and positions are 64 bits wide. Tensors are address space of which only what is touched takes memory. */
#include "codegen_fixture.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define FAR ((int64_t)1 << 31)

static const char *const levels[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};

static const char text[] =
    "phobos-ir 1\nfile \"far.phb\"\n\n"
    "kernel vector\n    dim N\n    param n: i64\n    param x: tensor<f32>[N]\n    param y: tensor<f32>[N]\n{\n"
    "    %0 = load %x[%n :+ 64] : tile<f32>[64]\n    %1 = add %0, %0 : tile<f32>[64]\n    store %y[%n :+ 64] = %1\n    return\n}\n\n"
    "kernel element\n    dim N\n    param n: i64\n    param x: tensor<f32>[N]\n    param y: tensor<f32>[N]\n{\n"
    "    %0 = load %x[%n] : f32\n    %1 = add %0, %0 : f32\n    store once %y[%n] = %1\n    return\n}\n\n"
    "kernel grid\n    dim N\n    param n: i64\n    param x: tensor<f32>[N]\n    param y: tensor<f32>[N]\n    grid x ceildiv(extent(y, 0), 64)\n{\n"
    "    %0 = ctx.block.x : i64\n    %1 = const 64 : i64\n    %2 = mul %0, %1 : i64\n    %3 = load %x[%2 :+ 64] : tile<f32>[64]\n"
    "    %4 = add %3, %3 : tile<f32>[64]\n    store %y[%2 :+ 64] = %4\n    return\n}\n\n"
    "kernel matrix\n    dim M\n    dim N\n    param i: i64\n    param j: i64\n    param x: tensor<f32>[M, N]\n    param y: tensor<f32>[M, N]\n{\n"
    "    %0 = load %x[%i :+ 8, %j :+ 32] : tile<f32>[8, 32]\n    %1 = add %0, %0 : tile<f32>[8, 32]\n"
    "    store %y[%i :+ 8, %j :+ 32] = %1\n    return\n}\n\n"
    "kernel product\n    dim M\n    dim K\n    dim N\n    param j: i64\n    param A: tensor<f32>[M, K]\n    param B: tensor<f32>[K, N]\n"
    "    param C: tensor<f32>[M, N]\n{\n    %0 = const 0.0 : f32\n    %1 = broadcast %0 : tile<f32>[16, 32]\n    %2 = const 0 : i64\n    %3 = dim K : i64\n"
    "    %4 = const 8 : i64\n    %5 = for %2, %3, %4, %1 : tile<f32>[16, 32]\n    do %6: i64, %7: tile<f32>[16, 32] {\n"
    "        %8 = load %A[%2 :+ 16, %6 :+ 8] : tile<f32>[16, 8]\n        %9 = load %B[%6 :+ 8, %j :+ 32] : tile<f32>[8, 32]\n"
    "        %10 = dot %8, %9, %7 : tile<f32>[16, 32]\n        yield %10\n    }\n    store %C[%2 :+ 16, %j :+ 32] = %5\n    return\n}\n";
enum { VECTOR, ELEMENT, GRID, MATRIX, PRODUCT };

/* Address space of `rows` x `columns` f32, zeros. */
static PhbTensorArg tensor_new(int64_t rows, int64_t columns) {
    PhbTensorArg tensor = {.extent = {rows, columns, 1, 1}, .whole = {rows, columns, 1, 1}, .pitch = columns * (int64_t)sizeof(float)};
    if (rows == 1) {
        tensor.extent[0] = tensor.whole[0] = columns;
        tensor.extent[1] = tensor.whole[1] = 1;
    }
    tensor.base = mmap(NULL, (size_t)(rows * tensor.pitch), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert_ptr_ne(tensor.base, MAP_FAILED);
    return tensor;
}

static void tensor_free(const PhbTensorArg *tensor, int64_t rows) {
    munmap(tensor->base, (size_t)(rows * tensor->pitch));
}

static float *at(const PhbTensorArg *tensor, int64_t row, int64_t column) {
    return (float *)((char *)tensor->base + row * tensor->pitch) + column;
}

static float number(int64_t row, int64_t column) {
    return (float)((row * 31 + column * 7) % 101) + 1;
}

typedef void Check(const PhbLaunch *launch, int64_t n, const char *how);

/* Runs CTAs [first, end) of a kernel by each level's code. */
static void run(int kernel, const int64_t *dims, const uint64_t *scalars, PhbTensorArg *tensors, int64_t first, int64_t end, Check *poison, Check *check) {
    for (int optimise = 0; optimise <= 2; optimise += 2) {
        Compiled *compiled = compiled_new(text, optimise, levels, 3);
        const PhbVariant *variant = &compiled->program->kernels[kernel].variants[0];
        PhbLaunch launch = {.tensors = tensors, .scalars = scalars, .dims = dims, .grid = {end, 1, 1}, .supers = {1, 1, 1}};
        void *scratch = aligned_alloc(64, (size_t)(variant->scratch + 63) / 64 * 64 + 64);
        ck_assert_int_ge(variant->cpu_count, 1);
        for (int l = 0; l < variant->cpu_count; l++) {
            char how[64];
            snprintf(how, sizeof how, "-O%d, %s", optimise, variant->cpu[l].level);
            poison(&launch, (int64_t)scalars[0], how);
            variant->cpu[l].stages[0](&launch, first, end, scratch);
            check(&launch, (int64_t)scalars[0], how);
        }
        free(scratch);
        compiled_free(compiled);
    }
}

/* ---- vectors: 64 elements from n on, or one ---- */

static int64_t length = FAR + 100;
static int count = 64;

static void poison_vector(const PhbLaunch *launch, int64_t n, const char *how) {
    (void)how;
    for (int64_t i = n - 4; i < n + count + 4; i++)
        if (i >= 0 && i < length)
            *at(&launch->tensors[1], 0, i) = -7;
}

static void check_vector(const PhbLaunch *launch, int64_t n, const char *how) {
    for (int64_t i = n - 4; i < n + count + 4; i++) {
        float expected = i >= n && i < n + count ? 2 * number(0, i) : -7;
        if (i >= 0 && i < length)
            ck_assert_msg(*at(&launch->tensors[1], 0, i) == expected, "%s: element %lld from %lld on is %g, expected %g", how, (long long)i, (long long)n,
                (double)*at(&launch->tensors[1], 0, i), (double)expected);
    }
}

START_TEST(vectors) {
    static const int64_t starts[] = {FAR - 64, FAR - 31, FAR, FAR + 36, FAR + 37, FAR + 99};
    PhbTensorArg tensors[2] = {tensor_new(1, length), tensor_new(1, length)};
    for (int64_t i = FAR - 100; i < length; i++)
        *at(&tensors[0], 0, i) = number(0, i);
    for (size_t s = 0; s < sizeof starts / sizeof *starts; s++) {
        uint64_t n = (uint64_t)starts[s];
        count = 64;
        run(VECTOR, &length, &n, tensors, 0, 1, poison_vector, check_vector);
        count = 1;
        run(ELEMENT, &length, &n, tensors, 0, 1, poison_vector, check_vector);
    }
    uint64_t last = (uint64_t)(FAR + 64);
    count = 36;
    run(GRID, &length, &last, tensors, (FAR + 64) / 64, (FAR + 64) / 64 + 1, poison_vector, check_vector);
    tensor_free(&tensors[0], 1);
    tensor_free(&tensors[1], 1);
}
END_TEST

/* ---- a matrix of 4.6 * 10^9 elements, at its last corner ---- */

enum { ROWS = 70001, COLUMNS = 65543, ROW = ROWS - 5, COLUMN = COLUMNS - 20 };

static void poison_matrix(const PhbLaunch *launch, int64_t n, const char *how) {
    (void)n;
    (void)how;
    for (int64_t i = ROW - 2; i < ROWS; i++)
        for (int64_t j = COLUMN - 2; j < COLUMNS; j++)
            *at(&launch->tensors[1], i, j) = -7;
}

static void check_matrix(const PhbLaunch *launch, int64_t n, const char *how) {
    (void)n;
    for (int64_t i = ROW - 2; i < ROWS; i++)
        for (int64_t j = COLUMN - 2; j < COLUMNS; j++) {
            float expected = i >= ROW && j >= COLUMN ? 2 * number(i, j) : -7;
            ck_assert_msg(*at(&launch->tensors[1], i, j) == expected, "%s: [%lld, %lld] is %g, expected %g", how, (long long)i, (long long)j,
                (double)*at(&launch->tensors[1], i, j), (double)expected);
        }
}

START_TEST(matrices) {
    PhbTensorArg tensors[2] = {tensor_new(ROWS, COLUMNS), tensor_new(ROWS, COLUMNS)};
    const int64_t dims[] = {ROWS, COLUMNS};
    const uint64_t scalars[] = {ROW, COLUMN};
    for (int64_t i = ROW; i < ROWS; i++)
        for (int64_t j = COLUMN; j < COLUMNS; j++)
            *at(&tensors[0], i, j) = number(i, j);
    run(MATRIX, dims, scalars, tensors, 0, 1, poison_matrix, check_matrix);
    tensor_free(&tensors[0], ROWS);
    tensor_free(&tensors[1], ROWS);
}
END_TEST

/* ---- a contraction whose columns lie beyond 2^31 ---- */

enum { PRODUCT_ROWS = 16, DEPTH = 24, SEEN = 30 /* of the tile's 32 columns, before the end */ };

static void poison_product(const PhbLaunch *launch, int64_t n, const char *how) {
    (void)how;
    for (int64_t i = 0; i < PRODUCT_ROWS; i++)
        for (int64_t j = n - 2; j < n + SEEN; j++)
            *at(&launch->tensors[2], i, j) = -7;
}

static void check_product(const PhbLaunch *launch, int64_t n, const char *how) {
    for (int64_t i = 0; i < PRODUCT_ROWS; i++)
        for (int64_t j = n - 2; j < n + SEEN; j++) {
            float expected = 0;
            for (int64_t k = 0; k < DEPTH; k++)
                expected = fmaf(number(i, k), number(k, j), expected);
            expected = j < n ? -7 : expected;
            ck_assert_msg(*at(&launch->tensors[2], i, j) == expected, "%s: [%lld, %lld] is %g, expected %g", how, (long long)i, (long long)j,
                (double)*at(&launch->tensors[2], i, j), (double)expected);
        }
}

START_TEST(products) {
    const uint64_t column = (uint64_t)FAR + 10;
    const int64_t columns = FAR + 10 + SEEN, dims[] = {PRODUCT_ROWS, DEPTH, columns};
    PhbTensorArg tensors[3] = {tensor_new(PRODUCT_ROWS, DEPTH), tensor_new(DEPTH, columns), tensor_new(PRODUCT_ROWS, columns)};
    for (int64_t i = 0; i < PRODUCT_ROWS; i++)
        for (int64_t k = 0; k < DEPTH; k++)
            *at(&tensors[0], i, k) = number(i, k);
    for (int64_t k = 0; k < DEPTH; k++)
        for (int64_t j = columns - SEEN; j < columns; j++)
            *at(&tensors[1], k, j) = number(k, j);
    run(PRODUCT, dims, &column, tensors, 0, 1, poison_product, check_product);
    tensor_free(&tensors[0], PRODUCT_ROWS);
    tensor_free(&tensors[1], DEPTH);
    tensor_free(&tensors[2], PRODUCT_ROWS);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("far");
    TCase *tests = tcase_create("far");
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, vectors);
    tcase_add_test(tests, matrices);
    tcase_add_test(tests, products);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
