/* The CPU device: every CTA of every launch runs once, each thread with scratch of its own; what cannot run is refused; a cancelled launch still
 * ends. */
#include "runtime/device/device.h"
#include "tests/unit/random_job.h"

#include <check.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LAUNCHES = 8, MAX_CTAS = 5000 };

static _Atomic int runs[MAX_LAUNCHES][MAX_CTAS];
static _Atomic int ended[MAX_LAUNCHES];
static _Atomic bool scratch_was_shared;
static sem_t an_end, hold;
static Error error;
static const PhbKernel kernel = {.name = "k", .cluster_dims = {1, 1, 1}};

static void count_ctas(const PhbLaunch *launch, int64_t first, int64_t last, void *scratch) {
    int64_t l = launch->super[0];
    if ((uintptr_t)scratch % 64 != 0)
        scratch_was_shared = true;
    memset(scratch, (int)(first & 0x7F), 100);
    for (int64_t cta = first; cta < last; cta++)
        runs[l][cta]++;
    for (int i = 0; i < 100; i++)
        if (((char *)scratch)[i] != (char)(first & 0x7F))
            scratch_was_shared = true;
}

/* The first CTA of launch 0 waits for the test. */
static void held(const PhbLaunch *launch, int64_t first, int64_t last, void *scratch) {
    while (launch->super[0] == 0 && first == 0 && sem_wait(&hold) != 0)
        continue;
    count_ctas(launch, first, last, scratch);
}

static void note_end(void *context, uint32_t instruction, const Error *failure) {
    (void)context;
    if (failure == NULL)
        ended[instruction]++;
    sem_post(&an_end);
}

static void wait_end(void) {
    while (sem_wait(&an_end) != 0)
        continue;
}

static void setup(void) {
    memset((void *)runs, 0, sizeof runs);
    memset((void *)ended, 0, sizeof ended);
    sem_init(&an_end, 0, 0);
    sem_init(&hold, 0, 0);
}

static Device *open_device(PhbCtaRange *run, int threads) {
    static PhbCpuCode code;
    static PhbVariant variant;
    static PhbCtaRange *stages[1];
    stages[0] = run;
    code = (PhbCpuCode){"native", stages};
    variant = (PhbVariant){.scratch = 100, .cpu = &code, .cpu_count = 1};
    DeviceOptions options = {.kernel = &kernel, .threads = threads, .launches = MAX_LAUNCHES, .done = note_end};
    Device *device = cpu_device.open(&variant, &options, &error);
    ck_assert_msg(device != NULL, "%s", error.text);
    return device;
}

START_TEST(every_cta_runs_once) {
    uint64_t state = 1;
    for (int round = 0; round < 60; round++) {
        setup();
        Device *device = open_device(count_ctas, 1 + (int)random_below(&state, 4));
        PhbLaunch launches[MAX_LAUNCHES] = {0};
        int64_t ctas[MAX_LAUNCHES];
        int count = 1 + (int)random_below(&state, MAX_LAUNCHES);
        for (int l = 0; l < count; l++) {
            launches[l].super[0] = l;
            ctas[l] = 1;
            for (int a = 0; a < 3; a++) {
                launches[l].grid[a] = 1 + random_below(&state, 17);
                ctas[l] *= launches[l].grid[a];
            }
            cpu_device.launch(device, (uint32_t)l, 0, &launches[l]);
        }
        for (int l = 0; l < count; l++)
            wait_end();
        for (int l = 0; l < count; l++) {
            ck_assert_int_eq(ended[l], 1);
            for (int64_t cta = 0; cta < MAX_CTAS; cta++)
                ck_assert_int_eq(runs[l][cta], cta < ctas[l]);
        }
        cpu_device.close(device);
    }
    ck_assert(!scratch_was_shared);
}
END_TEST

START_TEST(launches_do_not_wait_for_each_other) {
    setup();
    Device *device = open_device(held, 2);
    PhbLaunch slow = {.grid = {1, 1, 1}}, fast = {.grid = {9, 1, 1}, .super = {1}};
    cpu_device.launch(device, 0, 0, &slow);
    cpu_device.launch(device, 1, 0, &fast);
    wait_end();
    ck_assert_int_eq(ended[0], 0);
    ck_assert_int_eq(ended[1], 1);
    sem_post(&hold);
    wait_end();
    ck_assert_int_eq(ended[0], 1);
    cpu_device.close(device);
}
END_TEST

START_TEST(cancelled_launches_end) {
    setup();
    Device *device = open_device(held, 1);
    PhbLaunch first = {.grid = {100, 1, 1}}, second = {.grid = {100, 1, 1}, .super = {1}};
    cpu_device.launch(device, 0, 0, &first);
    cpu_device.cancel(device);
    cpu_device.launch(device, 1, 0, &second);
    sem_post(&hold);
    wait_end();
    wait_end();
    ck_assert_int_eq(ended[0] + ended[1], 2);
    for (int cta = 0; cta < 100; cta++)
        ck_assert_int_eq(runs[1][cta], 0);
    cpu_device.close(device);
}
END_TEST

START_TEST(memory_is_aligned_and_checked) {
    setup();
    Device *device = open_device(count_ctas, 1);
    ck_assert_ptr_null(cpu_device.alloc(device, INT64_C(1) << 62, &error));
    ck_assert_msg(strstr(error.text, "4611686018427387904 bytes") != NULL, "%s", error.text);
    char *memory = cpu_device.alloc(device, 1 << 20, &error);
    ck_assert_msg(memory != NULL, "%s", error.text);
    ck_assert_uint_eq((uintptr_t)memory % PHB_BASE_ALIGN, 0);
    memset(memory, 1, 1 << 20);
    cpu_device.close(device);
}
END_TEST

START_TEST(levels_are_chosen) {
    ck_assert(!cpu_level_runs("x86-64-v5"));
    ck_assert(!cpu_level_runs(""));
    if (cpu_level_runs("x86-64-v4"))
        ck_assert(cpu_level_runs("x86-64-v3"));
    if (!cpu_level_runs("x86-64-v2"))
        return;
    PhbCtaRange *const counts[] = {count_ctas}, *const helds[] = {held};
    const PhbCpuCode codes[] = {{"x86-64-v2", counts}, {"native", helds}}, strange = {"x86-64-v9", counts};
    PhbVariant variant = {.cpu = codes, .cpu_count = 2};
    const struct {
        const char *level, *chosen; /* NULL: refused */
    } cases[] = {{NULL, "native"}, {"x86-64-v2", "x86-64-v2"}, {"x86-64-v3", NULL}, {"vax", NULL}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        DeviceOptions options = {.kernel = &kernel, .threads = 1, .cpu_level = cases[c].level, .launches = 1, .done = note_end};
        Device *device = cpu_device.open(&variant, &options, &error);
        ck_assert_int_eq(device != NULL, cases[c].chosen != NULL);
        if (device == NULL) {
            ck_assert_msg(strstr(error.text, "embedded: x86-64-v2, native") != NULL, "%s", error.text);
            continue;
        }
        ck_assert_msg(strstr(cpu_device.describe(device), cases[c].chosen) != NULL, "%s", cpu_device.describe(device));
        cpu_device.close(device);
    }
    variant = (PhbVariant){.cpu = &strange, .cpu_count = 1};
    DeviceOptions options = {.kernel = &kernel, .threads = 1, .launches = 1, .done = note_end};
    ck_assert_ptr_null(cpu_device.open(&variant, &options, &error));
    ck_assert_msg(strstr(error.text, "none of the embedded CPU levels (x86-64-v9)") != NULL, "%s", error.text);
}
END_TEST

START_TEST(absurd_scratch_is_refused) {
    PhbCtaRange *const counts[] = {count_ctas};
    const PhbCpuCode code = {"native", counts};
    PhbVariant variant = {.scratch = INT64_C(1) << 61, .cpu = &code, .cpu_count = 1};
    DeviceOptions options = {.kernel = &kernel, .threads = 64, .launches = 1, .done = note_end};
    ck_assert_ptr_null(cpu_device.open(&variant, &options, &error));
    ck_assert_msg(strstr(error.text, "out of memory: 64 compute threads") != NULL, "%s", error.text);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cpu_device");
    TCase *tests = tcase_create("cpu_device");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, every_cta_runs_once);
    tcase_add_test(tests, launches_do_not_wait_for_each_other);
    tcase_add_test(tests, cancelled_launches_end);
    tcase_add_test(tests, memory_is_aligned_and_checked);
    tcase_add_test(tests, levels_are_chosen);
    tcase_add_test(tests, absurd_scratch_is_refused);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
