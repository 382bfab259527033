/* What the simulator plays of GPUs' own hardware: matrix instructions against plain sums, with the layouts of registers as the PTX ISA has them, and
 * copies behind a thread's back, with a planted fault each. */
#include "runtime/device/simt.h"
#include "runtime/measure.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SITE(line) ((uint64_t)(line) << 32 | 5)

enum { THREADS = 64, ROWS = 8, COLUMNS = 64, PITCH = 128, SHARED_BYTES = 4096, MOST_K = 32 };

static uint16_t source[ROWS][PITCH / 2];
static Error failure;

/* One cluster of one CTA. */
static bool run_threads(PhbSimtRun *run, int threads, uint64_t seed, bool writes_source) {
    static const PhbTensor tensors[1] = {{.name = "a", .dtype = PHB_F16, .rank = 2, .mode = PHB_READ_WRITE}};
    int8_t modes[1] = {writes_source ? PHB_READ_WRITE : PHB_READ};
    PhbStage stage = {.loop = -1, .modes = modes};
    PhbKernel kernel = {.name = "k", .tensors = tensors, .tensor_count = 1, .stages = &stage, .stage_count = 1, .cluster_dims = {1, 1, 1}};
    PhbTensorArg argument = {.base = source, .extent = {ROWS, COLUMNS, 1, 1}, .pitch = PITCH};
    PhbLaunch launch = {.tensors = &argument, .grid = {1, 1, 1}};
    PhbThreadStage thread_stage = {.threads = threads, .shared = SHARED_BYTES};
    SimtMemory memory;
    CtaRunner runner = {0};
    CtaSetup setup = {.kernel = "k",
        .threads = threads,
        .shared = SHARED_BYTES,
        .size = {1, 1, 1},
        .shuffle = seed != 0,
        .seed = seed,
        .context = &memory,
        .ends = simt_thread_ends};
    ck_assert(simt_memory_open(&memory, &kernel, SHARED_BYTES, 1, false, &failure));
    ck_assert(runner_prepare(&runner, &setup, &failure));
    ck_assert(simt_memory_begin_launch(&memory, &stage, &thread_stage, &launch, &failure));
    simt_memory_begin_cluster(&memory);
    bool fine = runner_run(&runner, run, &launch, 0, memory.shared, &failure);
    runner_fini(&runner);
    simt_memory_close(&memory);
    return fine;
}

/* ---- products ---- */

typedef struct Shape {
    int a, b, k;
} Shape;

static const Shape shapes[] = {
    {PHB_F16, PHB_F16, 16}, {PHB_BF16, PHB_BF16, 16}, {PHB_F32, PHB_F32, 8}, {PHB_I8, PHB_I8, 32}, {PHB_U8, PHB_U8, 32}, {PHB_U8, PHB_I8, 32}};

static const Shape *shape;
static double a_factor[16][MOST_K], b_factor[MOST_K][8];
static uint32_t a_bits[16][MOST_K], b_bits[MOST_K][8], c_bits[16][8], d_bits[16][8];

/* Row and column of element i of a lane's part of a, "Matrix fragments for mma" in the PTX ISA. */
static int row_of_a(int i, int lane) {
    int group = lane >> 2;
    switch (shape->k) {
    case 8:
        return i == 0 || i == 2 ? group : group + 8;
    case 16:
        return i < 2 || (i >= 4 && i < 6) ? group : group + 8;
    default:
        return i < 4 || (i >= 8 && i < 12) ? group : group + 8;
    }
}

static int column_of_a(int i, int lane) {
    int in_group = lane & 3;
    switch (shape->k) {
    case 8:
        return i < 2 ? in_group : in_group + 4;
    case 16:
        return in_group * 2 + (i & 1) + (i >= 4 ? 8 : 0);
    default:
        return in_group * 4 + (i & 3) + (i >= 8 ? 16 : 0);
    }
}

static int row_of_b(int i, int lane) {
    int in_group = lane & 3;
    switch (shape->k) {
    case 8:
        return in_group + 4 * i;
    case 16:
        return in_group * 2 + (i & 1) + (i >= 2 ? 8 : 0);
    default:
        return in_group * 4 + (i & 3) + (i >= 4 ? 16 : 0);
    }
}

static void multiply(const PhbLaunch *launch, PhbSimtThread *thread) {
    (void)launch;
    int lane = (int)thread->thread % WARP_LANES, each = shape->k / 8, bits = 32 / each;
    uint32_t words[10] = {0};
    for (int i = 0; i < 4 * each; i++)
        words[i / each] |= a_bits[row_of_a(i, lane)][column_of_a(i, lane)] << bits * (i % each);
    for (int i = 0; i < 2 * each; i++)
        words[4 + i / each] |= b_bits[row_of_b(i, lane)][lane >> 2] << bits * (i % each);
    for (int i = 0; i < 4; i++)
        words[6 + i] = c_bits[(lane >> 2) + i / 2 * 8][(lane & 3) * 2 + i % 2];
    phb_simt_mma(thread, shape->a, shape->b, words, SITE(3));
    phb_simt_mma(thread, shape->a, shape->b, words, SITE(4)); /* at once: nobody may read the next one's factors, c + 2ab */
    for (int i = 0; i < 4; i++)
        d_bits[(lane >> 2) + i / 2 * 8][(lane & 3) * 2 + i % 2] = words[6 + i];
}

static uint32_t random_bits(int dtype) {
    uint32_t bits = (uint32_t)rand() ^ (uint32_t)rand() << 16;
    switch (dtype) {
    case PHB_F16:
        return (bits & 0x83ff) | (10 + bits % 8) << 10;
    case PHB_BF16:
        return (bits & 0x807f) | (124 + bits % 6) << 7;
    case PHB_F32:
        return (bits & 0x807fe000) | (124 + bits % 6) << 23; /* no more than tf32 has */
    default:
        return bits & 0xff;
    }
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

START_TEST(products_are_right) {
    shape = &shapes[_i % (int)(sizeof shapes / sizeof shapes[0])];
    srand((unsigned)_i);
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < shape->k; k++) {
            a_bits[row][k] = random_bits(shape->a);
            a_factor[row][k] = element_real(shape->a, &a_bits[row][k]);
        }
    for (int k = 0; k < shape->k; k++)
        for (int column = 0; column < 8; column++) {
            b_bits[k][column] = random_bits(shape->b);
            b_factor[k][column] = element_real(shape->b, &b_bits[k][column]);
        }
    bool ints = shape->k == 32;
    for (int row = 0; row < 16; row++)
        for (int column = 0; column < 8; column++)
            c_bits[row][column] = ints ? 0x7fffffffu - (uint32_t)(row * 8 + column) * 100000u : random_bits(PHB_F32);
    memset(d_bits, 0xff, sizeof d_bits);
    ck_assert_msg(run_threads(multiply, THREADS, (uint64_t)_i, false), "%s", failure.text);
    for (int row = 0; row < 16; row++)
        for (int column = 0; column < 8; column++) {
            double sum = 0, sizes = 0;
            for (int k = 0; k < shape->k; k++) {
                sum += 2 * a_factor[row][k] * b_factor[k][column];
                sizes += 2 * fabs(a_factor[row][k] * b_factor[k][column]);
            }
            uint32_t found = d_bits[row][column], c = c_bits[row][column];
            if (ints) {
                ck_assert_uint_eq(found, c + (uint32_t)(int64_t)sum);
                continue;
            }
            sum += (double)float_of(c);
            sizes += fabs((double)float_of(c));
            ck_assert_msg(fabs((double)float_of(found) - sum) <= sizes * 4 * 0x1p-23, "%d, %d: %g for %g", row, column, (double)float_of(found), sum);
        }
}
END_TEST

/* Two products of 2^-13 * 2^-12 beside 1: three quarters of the last place, which the nearest number would have. */
START_TEST(accumulators_truncate) {
    shape = &shapes[0];
    memset(a_bits, 0, sizeof a_bits);
    memset(b_bits, 0, sizeof b_bits);
    for (int row = 0; row < 16; row++)
        for (int column = 0; column < 8; column++) {
            c_bits[row][column] = 0x3f800000;
            a_bits[row][0] = 0x0800;    /* 2^-13 */
            b_bits[0][column] = 0x0e00; /* 1.5 * 2^-12 */
        }
    ck_assert_msg(run_threads(multiply, THREADS, 0, false), "%s", failure.text);
    for (int row = 0; row < 16; row++)
        for (int column = 0; column < 8; column++)
            ck_assert_uint_eq(d_bits[row][column], 0x3f800000);
}
END_TEST

/* ---- matrices from shared memory: row r of matrix m holds m * 64 + r * 8 + column; rows lie 48 bytes apart ---- */

static int matrix_count;
static bool transposed, unaligned;
static uint32_t loaded[THREADS][4];

static void load_matrices(const PhbLaunch *launch, PhbSimtThread *thread) {
    (void)launch;
    int lane = (int)thread->thread % WARP_LANES;
    for (int i = 0; thread->thread < WARP_LANES && i < 8; i++)
        phb_simt_store(thread, thread->shared + lane * 48 + 2 * i, (uint64_t)(lane * 8 + i), 2, PHB_SHARED_UNNAMED, SITE(2));
    phb_cta_barrier(thread, "barrier", SITE(3));
    phb_simt_ldmatrix(
        thread, thread->shared + lane % (8 * matrix_count) * 48 + (unaligned ? 8 : 0), matrix_count, transposed, loaded[thread->thread], SITE(4));
}

START_TEST(matrices_are_dealt_to_lanes) {
    matrix_count = 1 << _i % 3;
    transposed = _i / 3 % 2;
    unaligned = false;
    ck_assert_msg(run_threads(load_matrices, THREADS, (uint64_t)_i, false), "%s", failure.text);
    for (int thread = 0; thread < THREADS; thread++)
        for (int m = 0; m < matrix_count; m++) {
            uint32_t line = (uint32_t)thread % 32 / 4, pair = (uint32_t)thread % 4 * 2, first = (uint32_t)m * 64;
            uint32_t low = first + (transposed ? pair * 8 + line : line * 8 + pair);
            ck_assert_uint_eq(loaded[thread][m], low | (low + (transposed ? 8 : 1)) << 16);
        }
}
END_TEST

START_TEST(rows_of_matrices_are_aligned) {
    matrix_count = 4;
    unaligned = true;
    ck_assert(!run_threads(load_matrices, THREADS, 0, false));
    ck_assert_str_eq(failure.text, "kernel 'k': 4:5: ldmatrix of thread 31 of CTA 0: a row begins at no multiple of 16 bytes");
}
END_TEST

START_TEST(warps_are_whole) {
    shape = &shapes[0];
    ck_assert(!run_threads(multiply, 40, 0, false));
    ck_assert_str_eq(failure.text, "kernel 'k': 3:5: thread 32 of CTA 0 comes to mma in a warp of 8 lanes");
}
END_TEST

static void multiply_without_a_lane(const PhbLaunch *launch, PhbSimtThread *thread) {
    if (thread->thread != 5)
        multiply(launch, thread);
}

START_TEST(all_lanes_multiply) {
    shape = &shapes[0];
    ck_assert(!run_threads(multiply_without_a_lane, 32, 0, false));
    ck_assert_str_eq(failure.text,
        "kernel 'k': 3:5: deadlock: mma waits for ever, lanes of the warp are missing: threads 0..4 of CTA 0 in mma at 3:5; thread 5 of CTA 0 has "
        "ended; threads 6..31 of CTA 0 in mma at 3:5");
}
END_TEST

/* ---- copies: each thread copies 16 bytes of the source to either slot, and takes what its neighbour has copied ---- */

typedef enum Fault {
    NO_FAULT,
    NOT_WAITED,     /* for its group, */
    NOT_COMMITTED,  /* which was never made */
    NO_BARRIER,     /* between the wait and another thread's read */
    SLOT_IN_USE,    /* the next copy is issued while others may still read */
    SLOT_WRITTEN,   /* by a plain store while the copy is under way */
    SOURCE_WRITTEN, /* likewise */
    NEVER_WAITED,
    OUT_OF_ROW,
    ODD_ADDRESS,
} Fault;

static Fault fault;
static uint16_t copied[2][THREADS];

static void copy_row(PhbSimtThread *thread, int slot, int valid, int line) {
    char *to = thread->shared + slot * 1024 + thread->thread % ROWS * PITCH + thread->thread / ROWS * 16;
    const char *from = (const char *)source[thread->thread % ROWS] + thread->thread / ROWS * 16;
    if (fault == OUT_OF_ROW && thread->thread == 63)
        from += 16;
    if (fault == ODD_ADDRESS)
        to += 8;
    phb_simt_copy(thread, to, from, 16, valid, 0, SITE(line));
    if (fault != NOT_COMMITTED)
        phb_simt_copy_commit(thread);
}

static void copy_steps(const PhbLaunch *launch, PhbSimtThread *thread) {
    (void)launch;
    int64_t t = thread->thread, other = (t + 1) % THREADS;
    const char *read = thread->shared + other % ROWS * PITCH + other / ROWS * 16;
    copy_row(thread, 0, 16, 2);
    copy_row(thread, 1, 8, 3);
    if (fault == SLOT_WRITTEN && t == 3)
        phb_simt_store(thread, thread->shared + 1024, 0, 2, PHB_SHARED_UNNAMED, SITE(4));
    if (fault == SOURCE_WRITTEN && t == 0)
        phb_simt_store(thread, &source[0][0], source[0][0] + 1u, 2, 0, SITE(5)), source[0][0]++;
    if (fault != NOT_WAITED)
        phb_simt_copy_wait(thread, 1);
    if (fault != NO_BARRIER)
        phb_cta_barrier(thread, "barrier", SITE(6));
    copied[0][t] = (uint16_t)phb_simt_load(thread, read, 2, PHB_SHARED_UNNAMED, SITE(7));
    if (fault != SLOT_IN_USE)
        phb_cta_barrier(thread, "barrier", SITE(8));
    copy_row(thread, 0, 16, 9);
    phb_simt_copy_wait(thread, fault == NEVER_WAITED ? 1 : 0);
    phb_cta_barrier(thread, "barrier", SITE(10));
    copied[1][t] = (uint16_t)phb_simt_load(thread, read + 1024 + 8, 2, PHB_SHARED_UNNAMED, SITE(11));
}

START_TEST(copies_arrive) {
    fault = NO_FAULT;
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++)
            source[row][column] = (uint16_t)(row * 1000 + column);
    memset(copied, 0xff, sizeof copied);
    ck_assert_msg(run_threads(copy_steps, THREADS, (uint64_t)_i, _i % 2), "%s", failure.text);
    for (int t = 0; t < THREADS; t++) {
        int other = (t + 1) % THREADS;
        ck_assert_uint_eq(copied[0][t], source[other % ROWS][other / ROWS * 8]);
        ck_assert_uint_eq(copied[1][t], 0); /* beyond what is valid */
    }
}
END_TEST

static const struct Planted {
    Fault fault;
    const char *text; /* in ascending order */
} planted[] = {
    {NOT_WAITED, "7:5: race on shared memory of CTA 0 at byte 0, which holds 0xa5a5: thread 63 of CTA 0 reads it, thread 0 of CTA 0 copies to it at "
                 "2:5, and nobody has waited for that"},
    {NOT_COMMITTED, "7:5: race on shared memory of CTA 0 at byte 0, which holds 0xa5a5: thread 63 of CTA 0 reads it, thread 0 of CTA 0 copies to it "
                    "at 2:5, and nobody has waited for that"},
    {NO_BARRIER, "7:5: thread 0 of CTA 0 reads shared memory of CTA 0 at byte 128, which nobody has written"},
    {SLOT_IN_USE, "9:5: race on shared memory of CTA 0 at byte 0, which holds 0x0000: thread 0 of CTA 0 copies to it, thread 63 of CTA 0 read it at "
                  "7:5, and no "
                  "barrier is between them"},
    {SLOT_WRITTEN, "4:5: race on shared memory of CTA 0 at byte 1024, which holds 0xa5a5: thread 3 of CTA 0 writes it, thread 0 of CTA 0 copies to "
                   "it at 3:5, and nobody has waited for that"},
    {SOURCE_WRITTEN, "2:5: thread 0 of CTA 0 has not waited for this copy, and byte 0 of its source has been changed"},
    {NEVER_WAITED, "9:5: thread 63 of CTA 0 ends without waiting for this copy"},
    {OUT_OF_ROW, "2:5: thread 63 of CTA 0 reads 1024 bytes from the start of 'a', which has 8 rows of 64 elements"},
    {ODD_ADDRESS, "2:5: thread 0 of CTA 0 copies 16 bytes, of which 16 are there, between addresses that are no multiples of it"},
};

START_TEST(faults_of_copies_are_caught) {
    const struct Planted *what = &planted[_i];
    for (uint64_t seed = 0; seed < 20; seed++) {
        memset(source, 0, sizeof source);
        fault = what->fault;
        ck_assert_msg(!run_threads(copy_steps, THREADS, seed, what->fault == SOURCE_WRITTEN), "seed %d", (int)seed);
        if (seed == 0)
            ck_assert_str_eq(failure.text + 12, what->text);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("simt_matrix");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 300);
    tcase_add_loop_test(all, products_are_right, 0, 60);
    tcase_add_test(all, accumulators_truncate);
    tcase_add_loop_test(all, matrices_are_dealt_to_lanes, 0, 12);
    tcase_add_test(all, rows_of_matrices_are_aligned);
    tcase_add_test(all, warps_are_whole);
    tcase_add_test(all, all_lanes_multiply);
    tcase_add_loop_test(all, copies_arrive, 0, 20);
    tcase_add_loop_test(all, faults_of_copies_are_caught, 0, (int)(sizeof planted / sizeof planted[0]));
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int bad = srunner_ntests_failed(runner);
    srunner_free(runner);
    return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
