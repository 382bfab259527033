/* The simulator: kernels written in C as code generation writes them, one a planted fault, and their correct twins. */
#include "runtime/device/cta.h"
#include "runtime/device/device.h"

#include <check.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#define SITE(line, column) ((uint64_t)(line) << 32 | (column))

enum { THREADS = 64, ROWS = 4, COLUMNS = 64, PITCH = 512 };
enum { SHARED = -1, INPUT, OUTPUT }; /* what an access names */

static float *input, *output; /* [ROWS, COLUMNS], rows PITCH bytes apart */

static float *at(float *tensor, int64_t row, int64_t column) {
    return (float *)(void *)((char *)tensor + row * PITCH) + column;
}

static float load(PhbSimtThread *thread, int memory, const float *address, uint64_t site) {
    uint32_t bits = (uint32_t)phb_simt_load(thread, address, 4, memory, site);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void store(PhbSimtThread *thread, int memory, float *address, float value, uint64_t site) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    phb_simt_store(thread, address, bits, 4, memory, site);
}

static float *shared_at(const PhbSimtThread *thread, int64_t index) {
    return (float *)(void *)thread->shared + index;
}

static void barrier(PhbSimtThread *thread, int line) {
    phb_cta_barrier(thread, "barrier", SITE(line, 5));
}

static void arrive(PhbSimtThread *thread, bool relaxed, int line) {
    phb_cta_arrive(thread, relaxed, relaxed ? "cluster_arrive_relaxed" : "cluster_arrive", SITE(line, 5));
}

static void wait(PhbSimtThread *thread, int line) {
    phb_cta_wait(thread, "cluster_wait", SITE(line, 5));
}

/* ---- kernels: CTA c writes row c of the output; one in which a step is left out stands for each fault ---- */

typedef enum Fault {
    NO_FAULT,
    NO_BARRIER,        /* between a write and another thread's read */
    NO_SECOND_BARRIER, /* between a read and another thread's write */
    BOTH_WRITE,        /* the same element of shared memory */
    UNWRITTEN,
    BEYOND_SHARED,
    BEYOND_ROW,
    BEYOND_TENSOR,
    SAME_OUTPUT, /* two CTAs */
    ATOMIC_THEN_READ,
    WRITES_INPUT,
    NO_CLUSTER_BARRIER,
    WRITE_AFTER_ARRIVE,
    RELAXED_ARRIVE,
    REUSE_WITHOUT_CLUSTER_BARRIER,
    NO_CLOSING_BARRIER,
    SPLIT_ELEMENT, /* a half of another thread's element */
} Fault;

static Fault fault;

/* Each thread's input, from its right neighbour, twice. */
static void cta_steps(const PhbLaunch *launch, PhbSimtThread *thread) {
    (void)launch;
    int64_t t = thread->thread, next = (t + 1) % THREADS;
    store(thread, SHARED, shared_at(thread, fault == BEYOND_SHARED ? t + 1000 * (t == 3) : t),
        load(thread, INPUT, at(input, thread->cta, t), SITE(2, 9)), SITE(2, 5));
    if (fault == BOTH_WRITE && t == 9)
        store(thread, SHARED, shared_at(thread, 8), 0, SITE(3, 5));
    if (fault != NO_BARRIER)
        barrier(thread, 4);
    float value = load(thread, SHARED, shared_at(thread, fault == UNWRITTEN && t == 5 ? 70 : next), SITE(5, 17));
    if (fault != NO_SECOND_BARRIER)
        barrier(thread, 6);
    store(thread, SHARED, shared_at(thread, t), value, SITE(7, 5));
    barrier(thread, 8);
    value = load(thread, SHARED, shared_at(thread, next), SITE(9, 13));
    barrier(thread, 10);
    phb_simt_atomic(thread, shared_at(thread, 0), 4, SHARED, SITE(11, 5));
    *shared_at(thread, 0) += 1;
    if (fault == ATOMIC_THEN_READ && t == 7)
        load(thread, SHARED, shared_at(thread, 0), SITE(12, 5));
    if (fault == SPLIT_ELEMENT && t == 7)
        phb_simt_store(thread, (char *)shared_at(thread, 20) + 2, 0, 2, SHARED, SITE(13, 5));
    if (fault == SPLIT_ELEMENT && t == 20)
        store(thread, SHARED, shared_at(thread, 20), 1, SITE(14, 5));
    int64_t row = fault == SAME_OUTPUT && t == 11 ? 0 : thread->cta;
    float *place = at(output, row, t);
    int memory = OUTPUT;
    if (fault == BEYOND_ROW && t == 63)
        place = at(output, 1, COLUMNS);
    if (fault == BEYOND_TENSOR && t == 63)
        place = at(output, ROWS + 3, 0);
    if (fault == WRITES_INPUT && t == 63)
        memory = INPUT, place = at(input, 1, 1);
    store(thread, memory, place, value, SITE(15, 5));
}

/* CTA c's shared memory holds c * 100 + t; each thread takes its peer's, adds 1 and hands it on. */
static void cluster_steps(const PhbLaunch *launch, PhbSimtThread *thread) {
    (void)launch;
    int64_t t = thread->thread, peer = (thread->rank + 1) % 2;
    if (fault != WRITE_AFTER_ARRIVE)
        store(thread, SHARED, shared_at(thread, t), (float)(thread->cta * 100 + t), SITE(2, 5));
    if (fault == NO_CLUSTER_BARRIER)
        barrier(thread, 3);
    else
        arrive(thread, fault == RELAXED_ARRIVE, 3);
    if (fault == WRITE_AFTER_ARRIVE)
        store(thread, SHARED, shared_at(thread, t), (float)(thread->cta * 100 + t), SITE(4, 5));
    if (fault != NO_CLUSTER_BARRIER)
        wait(thread, 5);
    float value = load(thread, SHARED, phb_cta_remote(thread, shared_at(thread, t), peer, SITE(6, 13)), SITE(6, 13));
    if (fault == REUSE_WITHOUT_CLUSTER_BARRIER) {
        barrier(thread, 7);
    } else {
        arrive(thread, false, 7);
        wait(thread, 8);
    }
    store(thread, SHARED, shared_at(thread, t), value + 1, SITE(9, 5));
    arrive(thread, false, 10);
    wait(thread, 11);
    value = load(thread, SHARED, phb_cta_remote(thread, shared_at(thread, t), peer, SITE(12, 13)), SITE(12, 13));
    store(thread, OUTPUT, at(output, thread->cta, t), value, SITE(13, 5));
    if (fault != NO_CLOSING_BARRIER) {
        arrive(thread, true, 14);
        wait(thread, 15);
    }
}

static float cta_result(int64_t cta, int64_t t) {
    return *at(input, cta, (t + 2) % THREADS);
}

static float cluster_result(int64_t cta, int64_t t) {
    return (float)(cta * 100 + t + 1);
}

/* ---- running them ---- */

static sem_t an_end;
static bool failed;
static Error failure;

static void note_end(void *context, uint32_t instruction, const Error *error) {
    (void)context;
    (void)instruction;
    failed = error != NULL;
    if (failed)
        failure = *error;
    sem_post(&an_end);
}

static bool run_kernel(PhbSimtRun *run, const SimtOptions *options) {
    static const PhbTensor tensors[2] = {
        {.name = "a", .dtype = PHB_F32, .rank = 2, .mode = PHB_READ}, {.name = "c", .dtype = PHB_F32, .rank = 2, .mode = PHB_WRITE}};
    static const int8_t modes[2] = {PHB_READ, PHB_WRITE};
    static const PhbStage stage = {.loop = -1, .modes = modes};
    int cluster = run == cluster_steps ? 2 : 1;
    PhbKernel kernel = {.name = "k",
        .source = "dir:x/k.phb:1:8",
        .tensors = tensors,
        .tensor_count = 2,
        .stages = &stage,
        .stage_count = 1,
        .cluster_dims = {cluster, 1, 1}};
    PhbThreadStage threads = {.entry = "k", .run = run, .threads = THREADS, .shared = (THREADS + 8) * 4};
    PhbVariant variant = {.simt = &threads};
    DeviceOptions device_options = {.kernel = &kernel, .threads = 1, .launches = 1, .done = note_end, .simt = *options};
    Error error;
    Device *device = simt_device.open(&variant, &device_options, &error);
    ck_assert_msg(device != NULL, "%s", error.text);
    char *tiles = simt_device.alloc(device, 2 * ROWS * PITCH, &error);
    input = (float *)(void *)tiles;
    output = (float *)(void *)(tiles + ROWS * PITCH);
    memset(tiles, 0x7f, 2 * ROWS * PITCH);
    for (int64_t row = 0; row < ROWS; row++)
        for (int64_t column = 0; column < COLUMNS; column++)
            *at(input, row, column) = (float)(row * 1000 + column);
    PhbTensorArg arguments[2] = {
        {.base = input, .extent = {ROWS, COLUMNS, 1, 1}, .pitch = PITCH}, {.base = output, .extent = {ROWS, COLUMNS, 1, 1}, .pitch = PITCH}};
    PhbLaunch launch = {.tensors = arguments, .grid = {ROWS, 1, 1}};
    sem_init(&an_end, 0, 0);
    simt_device.launch(device, 0, 0, &launch);
    while (sem_wait(&an_end) != 0)
        continue;
    int wrong = 0;
    for (int64_t row = 0; !failed && row < ROWS; row++)
        for (int64_t column = 0; column < COLUMNS; column++)
            wrong += *at(output, row, column) != (run == cluster_steps ? cluster_result(row, column) : cta_result(row, column));
    simt_device.close(device);
    return !failed && wrong == 0;
}

START_TEST(correct_code_is_left_alone) {
    fault = NO_FAULT;
    SimtOptions options = {.seed = (uint64_t)_i, .elect = _i % 3, .weak = _i % 2 == 1};
    ck_assert_msg(run_kernel(cta_steps, &options), "%s", failed ? failure.text : "wrong numbers");
    ck_assert_msg(run_kernel(cluster_steps, &options), "%s", failed ? failure.text : "wrong numbers");
}
END_TEST

static const struct Planted {
    Fault fault;
    PhbSimtRun *run;
    const char *text; /* in ascending order; NULL: only some orders show it */
} planted[] = {
    {NO_BARRIER, cta_steps, "5:17: thread 0 of CTA 0 reads shared memory of CTA 0 at byte 4, which nobody has written"},
    {NO_SECOND_BARRIER, cta_steps,
        "7:5: race on shared memory of CTA 0 at byte 0, which holds 0x00000000: thread 0 of CTA 0 writes it, thread 63 of CTA 0 read it at 5:17, and "
        "no barrier is between them"},
    {BOTH_WRITE, cta_steps,
        "3:5: race on shared memory of CTA 0 at byte 32, which holds 0x41000000: thread 9 of CTA 0 writes it, thread 8 of CTA 0 wrote it at 2:5, and "
        "no barrier is between them"},
    {UNWRITTEN, cta_steps, "5:17: thread 5 of CTA 0 reads shared memory of CTA 0 at byte 280, which nobody has written"},
    {BEYOND_SHARED, cta_steps, "2:5: thread 3 of CTA 0 writes 4 bytes at byte 4012 of shared memory, which has 288"},
    {BEYOND_ROW, cta_steps, "15:5: thread 63 of CTA 0 writes column 64 of row 1 of 'c', which has 64 columns"},
    {BEYOND_TENSOR, cta_steps, "15:5: thread 63 of CTA 0 writes 3584 bytes from the start of 'c', which has 4 rows of 64 elements"},
    {SAME_OUTPUT, cta_steps,
        "15:5: race on 'c'[0, 11], which holds 13: thread 11 of CTA 0 writes it, thread 11 of another CTA wrote it at 15:5, and nothing orders CTAs "
        "of a launch"},
    {ATOMIC_THEN_READ, cta_steps,
        "12:5: race on shared memory of CTA 0 at byte 0, which holds 0x41200000: thread 7 of CTA 0 reads it, thread 6 of CTA 0 changed it at 11:5, "
        "and no barrier is between them"},
    {WRITES_INPUT, cta_steps, "15:5: thread 63 of CTA 0 writes 'a', which this stage only reads"},
    {SPLIT_ELEMENT, cta_steps,
        "14:5: race on shared memory of CTA 0 at byte 80, which holds 0x00000000: thread 20 of CTA 0 writes it, thread 7 of CTA 0 wrote it at 13:5, "
        "and no barrier is between them"},
    {NO_CLUSTER_BARRIER, cluster_steps, NULL},
    {WRITE_AFTER_ARRIVE, cluster_steps,
        "6:13: race on shared memory of CTA 0 at byte 252, which holds 0x427c0000: thread 63 of CTA 1 reads it, thread 63 of CTA 0 wrote it at 4:5, "
        "and it came after its thread's "
        "cluster_arrive, so the cluster_wait does not publish it"},
    {RELAXED_ARRIVE, cluster_steps,
        "6:13: race on shared memory of CTA 0 at byte 252, which holds 0x427c0000: thread 63 of CTA 1 reads it, thread 63 of CTA 0 wrote it at 2:5, "
        "and "
        "the cluster_arrive_relaxed between them publishes nothing"},
    {REUSE_WITHOUT_CLUSTER_BARRIER, cluster_steps, NULL},
    {NO_CLOSING_BARRIER, cluster_steps, NULL},
};

START_TEST(planted_faults_are_caught) {
    const struct Planted *what = &planted[_i];
    fault = what->fault;
    for (uint64_t seed = 0; seed < 30; seed++) {
        SimtOptions options = {.seed = seed};
        run_kernel(what->run, &options);
        ck_assert_msg(failed, "seed %d", (int)seed);
        ck_assert_msg(strncmp(failure.text, "kernel 'k': dir:x/k.phb:", 24) == 0, "%s", failure.text);
        if (seed == 0 && what->text)
            ck_assert_msg(strcmp(failure.text + 24, what->text) == 0, "\n%s\n%s", failure.text + 24, what->text);
    }
}
END_TEST

/* What the weak mode shows of a fault that hardware may hide: numbers that are wrong. */
START_TEST(unpublished_writes_stay_invisible) {
    fault = RELAXED_ARRIVE;
    for (uint64_t seed = 0; seed < 30; seed++) {
        SimtOptions options = {.seed = seed, .weak = true};
        bool right = run_kernel(cluster_steps, &options);
        ck_assert_msg(!failed, "%s", failure.text);
        ck_assert(!right);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("simt_device");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 120);
    tcase_add_loop_test(all, correct_code_is_left_alone, 0, 40);
    tcase_add_loop_test(all, planted_faults_are_caught, 0, (int)(sizeof planted / sizeof planted[0]));
    tcase_add_test(all, unpublished_writes_stay_invisible);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int bad = srunner_ntests_failed(runner);
    srunner_free(runner);
    return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
