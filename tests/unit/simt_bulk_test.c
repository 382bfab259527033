/* Bulk copies, mbarriers and matrix instructions of four warps in the simulator: a product C = A * B in the steps that GPUs take, for each width of
 * swizzle, with and without the second factor turned, ragged on all sides; and with a planted fault in each step. */
#include "runtime/device/simt.h"
#include "runtime/measure.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SITE(line) ((uint64_t)(line) << 32 | 5)

enum { THREADS = 256, TILE_M = 128, M = 100, K = 150, MOST_N = 128, PITCH = 384, STAGES = 4, SPAN = 128, STEP = 16, STAGE_BYTES = 32768 };
enum { MBARRIERS_AT = STAGES * STAGE_BYTES, SHARED_BYTES = MBARRIERS_AT + 64 };

/* B lies as [K, N], turned, or as [N, K]. */
typedef struct Form {
    int depth, columns; /* of a tile: along k and n */
    bool turned;
} Form;

static const Form forms[] = {{64, 128, true}, {64, 32, true}, {32, 16, true}, {64, 128, false}, {32, 64, false}, {16, 8, false}};

typedef enum Fault {
    NO_FAULT,
    NOT_WAITED, /* for the mbarrier */
    OTHER_PARITY,
    NOT_EXPECTED, /* the bytes of a copy */
    MORE_EXPECTED,
    EXPECTED_TWICE,
    TOO_FAR_AHEAD,   /* a slot is refilled while a product reads it */
    NO_BARRIER,      /* before the slot is refilled */
    NO_FENCE,        /* before products */
    OTHER_SWIZZLE,   /* in a descriptor, */
    OTHER_STRIDE,    /* likewise */
    SUMS_NOT_WAITED, /* at the end */
    NEVER_WAITED,    /* for a product */
    OLD_SUMS,        /* as before the last product */
    PLAIN_STORE,     /* to a slot that products read, without a fence */
    COPY_LEFT,       /* that nobody waits for */
    WARP_MISSING,
    ODD_BOX, /* not at a multiple of 128 bytes */
    /* of stores */
    NO_PUT_FENCE,
    NO_PUT_BARRIER,
    STORE_LEFT,    /* that nobody waits for */
    PUT_TOO_SOON,  /* into a slot that is still to be read */
    READ_TOO_SOON, /* of what is still to be written */
} Fault;

static const Form *form;
static Fault fault;
static uint16_t a_factor[M][PITCH / 2], b_factor[K > MOST_N ? K : MOST_N][PITCH / 2];
static float found[TILE_M][MOST_N];
static Error failure;

static int span_of(int columns) {
    return columns * 2 < SPAN ? columns * 2 : SPAN;
}

static uint64_t descriptor(int64_t address, int leading, int stride, int span) {
    uint64_t swizzle = span == 128 ? 1 : span == 64 ? 2 : 3;
    if (fault == OTHER_SWIZZLE)
        swizzle = swizzle % 3 + 1;
    if (fault == OTHER_STRIDE)
        stride *= 2;
    return (uint64_t)address >> 4 | (uint64_t)(leading >> 4) << 16 | (uint64_t)(stride >> 4) << 32 | swizzle << 62;
}

/* Slot `it` % STAGES: A's rows first, then B's at 16 KiB. */
static void load_slot(PhbSimtThread *thread, int it) {
    char *slot = thread->shared + it % STAGES * STAGE_BYTES, *mbarrier = thread->shared + MBARRIERS_AT + it % STAGES * 8;
    int32_t k = it * form->depth, at_a[2] = {k, 0}, b_rows = form->turned ? form->depth : form->columns,
            b_width = span_of(form->turned ? form->columns : form->depth);
    int64_t bytes = TILE_M * form->depth * 2 + form->depth * form->columns * 2 + (fault == MORE_EXPECTED ? 16 : 0);
    if (fault != NOT_EXPECTED)
        phb_simt_mbarrier_expect(thread, mbarrier, bytes, SITE(10));
    if (fault == EXPECTED_TWICE)
        phb_simt_mbarrier_expect(thread, mbarrier, bytes, SITE(11));
    phb_simt_bulk_copy(thread, 0, at_a, slot + (fault == ODD_BOX ? 16 : 0), mbarrier, SITE(12));
    for (int box = 0; box * b_width < (form->turned ? form->columns * 2 : b_width); box++) {
        int32_t turned[2] = {box * b_width / 2, k}, straight[2] = {k, 0};
        phb_simt_bulk_copy(thread, 1, form->turned ? turned : straight, slot + 16384 + box * b_width * b_rows, mbarrier, SITE(13));
    }
}

static void multiply_slot(PhbSimtThread *thread, int it, uint32_t *sums) {
    int64_t slot = it % STAGES * STAGE_BYTES, group_rows = thread->thread / 128 * 64;
    int a_span = form->depth * 2, b_span = span_of(form->turned ? form->columns : form->depth);
    if (fault != NO_FENCE)
        phb_simt_wgmma_begin(thread);
    for (int step = 0; step < form->depth / STEP; step++) {
        uint64_t a = descriptor(slot + group_rows * a_span + step * STEP * 2, 16, 8 * a_span, a_span);
        uint64_t b = form->turned ? descriptor(slot + 16384 + step * STEP * b_span, b_span * form->depth, 8 * b_span, b_span)
                                  : descriptor(slot + 16384 + step * STEP * 2, 16, 8 * b_span, b_span);
        if (fault == OLD_SUMS && it == 1 && step == 0) {
            uint32_t old[MOST_N / 2];
            memcpy(old, sums, sizeof old);
            phb_simt_wgmma(thread, PHB_F16, form->turned, form->columns, a, NULL, b, sums, 0, SITE(20));
            memcpy(sums, old, sizeof old);
        }
        if (fault != WARP_MISSING || thread->thread / 32 != 6)
            phb_simt_wgmma(thread, PHB_F16, form->turned, form->columns, a, NULL, b, sums, 0, SITE(21));
    }
    phb_simt_wgmma_commit(thread);
}

static void store_sums(const PhbSimtThread *thread, const uint32_t *sums) {
    int t = (int)thread->thread;
    for (int i = 0; i < form->columns / 2; i++)
        memcpy(&found[t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8][i / 4 * 8 + t % 4 * 2 + i % 2], &sums[i], sizeof(float));
}

static void product_steps(const PhbLaunch *launch, PhbSimtThread *thread) {
    (void)launch;
    uint32_t sums[MOST_N / 2] = {0};
    int turns = (K + form->depth - 1) / form->depth, ahead = fault == TOO_FAR_AHEAD ? STAGES - 1 : STAGES - 2, count = form->columns / 2;
    phb_simt_mbarriers(thread, thread->shared + MBARRIERS_AT, STAGES, 1, SITE(1));
    if (fault == PLAIN_STORE && thread->thread == 7)
        phb_simt_store(thread, thread->shared + 3 * STAGE_BYTES, 0, 2, PHB_SHARED_UNNAMED, SITE(2));
    for (int it = 0; thread->thread == 0 && it < ahead && it < turns; it++)
        load_slot(thread, it);
    for (int it = 0; it < turns; it++) {
        if (fault != NOT_WAITED)
            phb_simt_mbarrier_wait(thread, thread->shared + MBARRIERS_AT + it % STAGES * 8, (it / STAGES + (fault == OTHER_PARITY)) % 2, SITE(30));
        if (fault != NO_BARRIER)
            phb_cta_barrier(thread, "barrier", SITE(31));
        if (thread->thread == 0 && it + ahead < turns)
            load_slot(thread, it + ahead);
        multiply_slot(thread, it, sums);
        phb_simt_wgmma_wait(thread, 1, sums, count);
    }
    if (fault == COPY_LEFT && thread->thread == 0)
        load_slot(thread, turns);
    if (fault == SUMS_NOT_WAITED)
        store_sums(thread, sums);
    phb_simt_wgmma_wait(thread, fault == NEVER_WAITED ? 1 : 0, sums, count);
    if (fault != SUMS_NOT_WAITED)
        store_sums(thread, sums);
}

static bool run_steps(PhbSimtRun *steps, const PhbKernel *kernel, const PhbLaunch *launch, const PhbThreadStage *threads, uint64_t seed) {
    SimtMemory memory;
    CtaRunner runner = {0};
    CtaSetup setup = {.kernel = "k",
        .threads = THREADS,
        .shared = SHARED_BYTES,
        .size = {1, 1, 1},
        .shuffle = seed != 0,
        .seed = seed,
        .context = &memory,
        .ends = simt_thread_ends,
        .advance = simt_bulks_advance};
    ck_assert(simt_memory_open(&memory, kernel, SHARED_BYTES, 1, false, &failure));
    ck_assert(runner_prepare(&runner, &setup, &failure));
    ck_assert(simt_memory_begin_launch(&memory, kernel->stages, threads, launch, &failure));
    simt_memory_begin_cluster(&memory);
    bool fine = runner_run(&runner, steps, launch, 0, memory.shared, &failure);
    runner_fini(&runner);
    simt_memory_close(&memory);
    return fine;
}

static bool run_product(uint64_t seed) {
    static const PhbTensor tensors[2] = {
        {.name = "a", .dtype = PHB_F16, .rank = 2, .mode = PHB_READ}, {.name = "b", .dtype = PHB_F16, .rank = 2, .mode = PHB_READ}};
    static const int8_t modes[2] = {PHB_READ, PHB_READ};
    const PhbStage stage = {.loop = -1, .modes = modes};
    const PhbKernel kernel = {.name = "k", .tensors = tensors, .tensor_count = 2, .stages = &stage, .stage_count = 1, .cluster_dims = {1, 1, 1}};
    int n = form->columns - 3;
    PhbTensorArg arguments[2] = {
        {.base = a_factor, .extent = {M, K, 1, 1}, .pitch = PITCH}, {.base = b_factor, .extent = {n, K, 1, 1}, .pitch = PITCH}};
    int span = span_of(form->turned ? form->columns : form->depth);
    PhbTensorMap maps[2] = {{0, 0, TILE_M, form->depth, form->depth * 2, 0}, {1, 0, form->turned ? form->depth : form->columns, span / 2, span, 0}};
    if (form->turned) {
        arguments[1].extent[0] = K;
        arguments[1].extent[1] = n;
    }
    PhbLaunch launch = {.tensors = arguments, .grid = {1, 1, 1}};
    PhbThreadStage threads = {.threads = THREADS, .shared = SHARED_BYTES, .maps = maps, .map_count = 2};
    return run_steps(product_steps, &kernel, &launch, &threads, seed);
}

/* Halves that are multiples of 1/8 in [-2, 2): sums of their products are exact. */
static uint16_t some_half(int i, int j) {
    static const uint16_t halves[] = {0x0000, 0x3000, 0x3400, 0x3800, 0x3c00, 0x3e00, 0xb000, 0xb800, 0xbc00, 0xbf00, 0x3d00};
    return halves[(i * 31 + j * 17 + i * j % 7) % 11];
}

static double value_of(uint16_t bits) {
    return element_real(PHB_F16, &bits);
}

static bool is_right(void) {
    for (int row = 0; row < TILE_M; row++)
        for (int column = 0; column < form->columns; column++) {
            double sum = 0;
            for (int k = 0; row < M && column < form->columns - 3 && k < K; k++)
                sum += value_of(a_factor[row][k]) * value_of(form->turned ? b_factor[k][column] : b_factor[column][k]);
            if (!((double)found[row][column] == sum))
                return false;
        }
    return true;
}

/* What is beyond the tensors' extents is no number. */
static void make_factors(void) {
    memset(a_factor, 0xff, sizeof a_factor);
    memset(b_factor, 0xff, sizeof b_factor);
    memset(found, 0xff, sizeof found);
    for (int row = 0; row < M; row++)
        for (int k = 0; k < K; k++)
            a_factor[row][k] = some_half(row, k);
    for (int k = 0; k < K; k++)
        for (int column = 0; column < form->columns - 3; column++)
            *(form->turned ? &b_factor[k][column] : &b_factor[column][k]) = some_half(k + 3, column);
}

START_TEST(products_are_right) {
    form = &forms[_i];
    fault = NO_FAULT;
    for (uint64_t seed = 0; seed < 2; seed++) {
        make_factors();
        ck_assert_msg(run_product(seed), "%s", failure.text);
        ck_assert(is_right());
    }
}
END_TEST

/* ---- stores ---- */

enum { BOX_ROWS = 64, BOX_COLUMNS = 32, SLOT_BYTES = 4096, STORED_ROWS = 50, STORED_COLUMNS = 75 };

static uint16_t stored[STORED_ROWS][PITCH / 2];

static uint16_t part_value(int part, int row, int column) {
    return (uint16_t)(part * 4096 + row * 64 + column + 1);
}

/* A thread puts half a row of each part, 64 bytes wide in the slot, with its chunks swizzled. */
static void put_part(PhbSimtThread *thread, int part, int slot) {
    int row = (int)thread->thread / 2;
    for (int i = 0; row < BOX_ROWS && i < BOX_COLUMNS / 2; i++) {
        int column = (int)thread->thread % 2 * BOX_COLUMNS / 2 + i, offset = row * BOX_COLUMNS * 2 + column * 2;
        offset ^= (offset >> 7 & 3) << 4;
        phb_simt_store(thread, thread->shared + slot * SLOT_BYTES + offset, part_value(part, row, column), 2, PHB_SHARED_UNNAMED, SITE(40));
    }
    if (fault != NO_PUT_FENCE)
        phb_simt_bulk_fence(thread);
}

/* Three parts by two slots; the third lies partly beyond the edge, as the last rows do. */
static void store_steps(const PhbLaunch *launch, PhbSimtThread *thread) {
    enum { PARTS = 3 };
    for (int part = 0; part < PARTS; part++) {
        int32_t at[2] = {part * BOX_COLUMNS, 0};
        put_part(thread, part, part % 2);
        if (part > 0 && fault != PUT_TOO_SOON)
            phb_simt_bulk_store_wait(thread, 0, SITE(41));
        if (fault != NO_PUT_BARRIER)
            phb_cta_barrier(thread, "barrier", SITE(42));
        if (thread->thread == 0)
            phb_simt_bulk_store(thread, 0, at, thread->shared + part % 2 * SLOT_BYTES, SITE(43));
    }
    if (fault != STORE_LEFT)
        phb_simt_bulk_store_wait(thread, fault == READ_TOO_SOON ? 0 : -1, SITE(44));
    phb_cta_barrier(thread, "barrier", SITE(45));
    if (thread->thread == 7 && fault != STORE_LEFT)
        phb_simt_load(thread, launch->tensors[0].base, 2, 0, SITE(46));
}

static bool run_stores(uint64_t seed) {
    static const PhbTensor tensors[1] = {{.name = "c", .dtype = PHB_F16, .rank = 2, .mode = PHB_READ_WRITE}};
    static const int8_t modes[1] = {PHB_READ_WRITE};
    const PhbStage stage = {.loop = -1, .modes = modes};
    const PhbKernel kernel = {.name = "k", .tensors = tensors, .tensor_count = 1, .stages = &stage, .stage_count = 1, .cluster_dims = {1, 1, 1}};
    PhbTensorArg arguments[1] = {{.base = stored, .extent = {STORED_ROWS, STORED_COLUMNS, 1, 1}, .pitch = PITCH}};
    PhbTensorMap maps[1] = {{0, 0, BOX_ROWS, BOX_COLUMNS, BOX_COLUMNS * 2, 0}};
    PhbLaunch launch = {.tensors = arguments, .grid = {1, 1, 1}};
    PhbThreadStage threads = {.threads = THREADS, .shared = SHARED_BYTES, .maps = maps, .map_count = 1};
    memset(stored, 0xff, sizeof stored);
    return run_steps(store_steps, &kernel, &launch, &threads, seed);
}

static bool is_stored(void) {
    for (int row = 0; row < STORED_ROWS; row++)
        for (int column = 0; column < PITCH / 2; column++)
            if (stored[row][column] != (column < STORED_COLUMNS ? part_value(column / BOX_COLUMNS, row, column % BOX_COLUMNS) : 0xffff))
                return false;
    return true;
}

START_TEST(stores_are_clipped) {
    fault = NO_FAULT;
    for (uint64_t seed = 0; seed < 3; seed++) {
        ck_assert_msg(run_stores(seed), "%s", failure.text);
        ck_assert(is_stored());
    }
}
END_TEST

static const struct Planted {
    Fault fault;
    const char *text; /* a part of the message; NULL: other numbers */
} planted[] = {
    {NOT_WAITED, "and nobody has waited for that"},
    {OTHER_PARITY, "and nobody has waited for that"},
    {NOT_EXPECTED, "30:5: deadlock: mbarrier_wait waits for ever, the mbarrier's phase does not end: "},
    {MORE_EXPECTED, "30:5: deadlock: mbarrier_wait waits for ever, the mbarrier's phase does not end: "},
    {EXPECTED_TWICE, "11:5: thread 0 of CTA 0 arrives at an mbarrier whose phase has had its arrival"},
    {TOO_FAR_AHEAD, "multiplies by it at 21:5, and nobody has waited for that"},
    {NO_BARRIER, NULL}, /* or a race: as the order has it */
    {NO_FENCE, "comes to wgmma without a fence since it last touched its registers"},
    {OTHER_SWIZZLE, NULL},
    {OTHER_STRIDE, NULL},
    {SUMS_NOT_WAITED, NULL},
    {NEVER_WAITED, "ends without waiting for this product"},
    {OLD_SUMS, "21:5: an accumulator is taken that a later product, at "},
    {PLAIN_STORE, "which thread 7 of CTA 0 wrote at 2:5, is not there for what goes on behind threads' backs: no fence.proxy.async came after"},
    {COPY_LEFT, "CTA 0 ends before this copy has landed: nobody has waited for it"},
    {WARP_MISSING, "threads 128..191 of CTA 0 in wgmma at 21:5; threads 192..223 of CTA 0 in barrier at 31:5"},
    {ODD_BOX, "12:5: bulk copy from 'a': a box lies at a multiple of 128 bytes"},
    {NO_PUT_FENCE, "wrote at 40:5, is not there for what goes on behind threads' backs: no fence.proxy.async came after"},
    {NO_PUT_BARRIER, "which nobody has written"},
    {STORE_LEFT, "43:5: CTA 0 ends before this store has read its box: nobody has waited for it"},
    {PUT_TOO_SOON, "stores it at 43:5, and nobody has waited for that"},
    {READ_TOO_SOON, "copies to it at 43:5, and nobody has waited for that"},
};

START_TEST(faults_are_caught) {
    const struct Planted *what = &planted[_i];
    form = &forms[2]; /* more turns than stages */
    fault = what->fault;
    make_factors();
    bool fine = fault >= NO_PUT_FENCE ? run_stores(0) : run_product(0);
    if (what->text)
        ck_assert_msg(!fine && strstr(failure.text, what->text) != NULL, "%s", fine ? "not caught" : failure.text);
    else
        ck_assert_msg(!fine || !is_right(), "not caught");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("simt_bulk");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 120);
    tcase_add_loop_test(all, products_are_right, 0, (int)(sizeof forms / sizeof forms[0]));
    tcase_add_test(all, stores_are_clipped);
    tcase_add_loop_test(all, faults_are_caught, 0, (int)(sizeof planted / sizeof planted[0]));
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int bad = srunner_ntests_failed(runner);
    srunner_free(runner);
    return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
