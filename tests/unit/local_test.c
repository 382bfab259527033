/* Whole jobs in this process, on real files: outputs equal what plain arithmetic over the whole tensors gives, bit for bit, whatever the super-tiles,
 * pods, threads and memory; and a job that fails leaves the old outputs as they were, nothing beside them, and a message that says what failed. */
#include "runtime/checksum.h"
#include "runtime/pod/pod.h"
#include "tests/unit/random_job.h"

#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { INPUT = 2, OUTPUT = 3, UPDATED = 4 }; /* of the random job's tensors */

static Error error;

typedef struct Outcome {
    int exit_code;
    char said[4096]; /* errors and messages */
    char told[4096]; /* the summary */
} Outcome;

static void read_back(FILE *file, char text[4096]) {
    rewind(file);
    text[fread(text, 1, 4095, file)] = '\0';
    fclose(file);
}

static Outcome run_quietly(RandomJob *job, const RunOptions *options) {
    Outcome outcome;
    FILE *said = tmpfile(), *told = tmpfile();
    ck_assert(said != NULL && told != NULL);
    RunOptions quiet = *options;
    quiet.out = told;
    quiet.errors = quiet.messages = said;
    outcome.exit_code = local_run(&job->job, &quiet);
    read_back(said, outcome.said);
    read_back(told, outcome.told);
    return outcome;
}

static int64_t least_memory(const RandomJob *job) {
    Problem *problem = problem_bind(&job->job, LEAF_MODEL, &error);
    ck_assert_msg(problem != NULL, "%s", error.text);
    int64_t least = 0;
    for (int t = 0; t < JOB_TENSORS; t++)
        least += problem->operands[t].bytes;
    problem_free(problem);
    return least;
}

static void check_untouched(const RandomJob *job) {
    for (int t = 0; t < JOB_TENSORS; t++)
        ck_assert_msg(random_job_file_is(job, t, job->before[t]), "tensor %s was touched", job->tensors[t].name);
}

START_TEST(results_are_the_oracles) {
    uint64_t state = 1;
    for (int round = 0; round < 150; round++) {
        RandomShape shape = random_shape(&state, 30);
        RandomJob *job = random_job_new(random_next(&state), &shape, true);
        RunOptions options = {
            .pods = (int)random_below(&state, 5),
            .threads = (int)random_below(&state, 4),
            .progress = PROGRESS_NONE,
        };
        if (random_below(&state, 2))
            options.plan.memory = least_memory(job) * (1 + random_below(&state, 4));
        Outcome outcome = run_quietly(job, &options);
        ck_assert_msg(outcome.exit_code == EXIT_DONE, "%s", outcome.said);
        for (int t = 0; t < JOB_TENSORS; t++) {
            const uint64_t *wanted = job->tensors[t].mode == PHB_READ ? job->before[t] : job->after[t];
            ck_assert_msg(random_job_file_is(job, t, wanted), "round %d: tensor %s is wrong", round, job->tensors[t].name);
        }
        ck_assert(random_job_free(job));
    }
}
END_TEST

static RandomJob *ten_tiles(void) {
    const RandomShape shape = {1, {40, 1, 1}, {4, 1, 1}, {2, 1, 1}};
    return random_job_new(11, &shape, true);
}

START_TEST(summary_names_each_pods_tiles) {
    RandomJob *job = ten_tiles();
    Outcome outcome = run_quietly(job, &(RunOptions){.pods = 3, .progress = PROGRESS_LINES});
    ck_assert_int_eq(outcome.exit_code, EXIT_DONE);
    ck_assert_msg(strstr(outcome.told, "mixed: 10 tiles in ") != NULL, "%s", outcome.told);
    ck_assert_msg(strstr(outcome.told, "; pod 0 computed 4, pod 1 computed 3, pod 2 computed 3\n") != NULL, "%s", outcome.told);
    ck_assert_msg(strstr(outcome.said, "mixed: 10/10 tiles (100 %), ") != NULL, "%s", outcome.said);
    ck_assert(random_job_free(job));
}
END_TEST

START_TEST(progress_for_programs_is_json) {
    RandomJob *job = ten_tiles();
    Outcome outcome = run_quietly(job, &(RunOptions){.progress = PROGRESS_JSON});
    ck_assert_msg(strstr(outcome.said, "{\"kernel\": \"mixed\", \"done\": 10, \"total\": 10, \"seconds\": ") != NULL, "%s", outcome.said);
    ck_assert(random_job_free(job));
}
END_TEST

static void check_failure(RandomJob *job, const RunOptions *options, int exit_code, const char *text) {
    Outcome outcome = run_quietly(job, options);
    ck_assert_msg(outcome.exit_code == exit_code, "%d: %s", outcome.exit_code, outcome.said);
    ck_assert_msg(strstr(outcome.said, text) != NULL, "expected \"%s\" in \"%s\"", text, outcome.said);
    ck_assert_str_eq(outcome.told, "");
}

START_TEST(a_short_input_fails_the_job) {
    RandomJob *job = ten_tiles();
    ck_assert_int_eq(truncate(job->job.tensors[INPUT].path, 1), 0);
    check_failure(job, &(RunOptions){.pods = 2, .progress = PROGRESS_NONE}, EXIT_FAILED, "tensor 'full', tile ");
    ck_assert(random_job_file_is(job, OUTPUT, job->before[OUTPUT]));
    ck_assert(random_job_file_is(job, UPDATED, job->before[UPDATED]));
    ck_assert(random_job_free(job));
}
END_TEST

START_TEST(a_changed_input_fails_the_job) {
    RandomJob *job = ten_tiles();
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1}};
    ck_assert_int_eq(utimensat(AT_FDCWD, job->job.tensors[INPUT].path, times, 0), 0);
    check_failure(job, &(RunOptions){.progress = PROGRESS_NONE}, EXIT_FAILED, "changed");
    check_untouched(job);
    ck_assert(random_job_free(job));
}
END_TEST

START_TEST(a_vanished_folder_fails_the_job) {
    RandomJob *job = ten_tiles();
    free(job->job.tensors[OUTPUT].path);
    job->job.tensors[OUTPUT].path = format_text("/nonexistent/out.bin");
    check_failure(job, &(RunOptions){.progress = PROGRESS_NONE}, EXIT_FAILED, "/nonexistent");
    check_untouched(job);
    ck_assert(random_job_free(job));
}
END_TEST

START_TEST(too_little_memory_fails_the_job) {
    RandomJob *job = ten_tiles();
    check_failure(job, &(RunOptions){.plan = {.memory = least_memory(job) - 1}, .progress = PROGRESS_NONE}, EXIT_FAILED, "one unit of work needs ");
    check_untouched(job);
    ck_assert(random_job_free(job));
}
END_TEST

START_TEST(a_wrong_super_tile_is_a_usage_error) {
    RandomJob *job = ten_tiles();
    job->job.dims[3] = 3;
    check_failure(job, &(RunOptions){.progress = PROGRESS_NONE}, EXIT_USAGE, "the super-tile B0 = 3");
    check_untouched(job);
    ck_assert(random_job_free(job));
}
END_TEST

START_TEST(an_unknown_cpu_level_fails_the_job) {
    RandomJob *job = ten_tiles();
    setenv("PHOBOS_CPU_LEVEL", "vax", 1);
    check_failure(job, &(RunOptions){.pods = 3, .progress = PROGRESS_NONE}, EXIT_FAILED, "CPU level 'vax'");
    unsetenv("PHOBOS_CPU_LEVEL");
    check_untouched(job);
    ck_assert(random_job_free(job));
}
END_TEST

START_TEST(an_interrupted_job_ends_soon) {
    RandomJob *job = ten_tiles();
    atomic_store(&interrupted, true);
    check_failure(job, &(RunOptions){.pods = 2, .progress = PROGRESS_NONE}, EXIT_FAILED, "interrupted");
    atomic_store(&interrupted, false);
    check_untouched(job);
    ck_assert(random_job_free(job));
}
END_TEST

/* ---- a pod alone ---- */

static PodStatus drive(Pod *pod) {
    PodStatus status = pod_turn(pod);
    while (status == POD_RUNNING) {
        poll(&(struct pollfd){.fd = pod_fd(pod), .events = POLLIN}, 1, -1);
        status = pod_turn(pod);
    }
    return status;
}

START_TEST(a_store_error_breaks_the_pod) {
    RandomJob *job = ten_tiles();
    for (int t = OUTPUT; t <= UPDATED; t++)
        ck_assert_msg(tensor_file_stage(&job->job.tensors[t], false, &error), "%s", error.text);
    int writable = job->job.tensors[OUTPUT].staging_fd;
    job->job.tensors[OUTPUT].staging_fd = open("/dev/full", O_WRONLY);
    Problem *problem = problem_bind(&job->job, LEAF_MODEL, &error);
    Plan *plan = plan_make(problem, INT64_C(1) << 30, &error);
    PodOptions options = {.number = 7, .threads = 2, .device = &cpu_device};
    Pod *pod = pod_open(plan, &options, &error);
    ck_assert_msg(pod != NULL, "%s", error.text);
    pod_give(pod, deal_units(problem, 0, 1));
    pod_no_more(pod);
    ck_assert_int_eq(drive(pod), POD_BROKEN);
    ck_assert_msg(strstr(pod_error(pod)->text, "pod 7: tensor 'out', tile ") != NULL, "%s", pod_error(pod)->text);
    ck_assert_msg(strstr(pod_error(pod)->text, "No space left") != NULL, "%s", pod_error(pod)->text);
    pod_close(pod);
    plan_free(plan);
    problem_free(problem);
    close(job->job.tensors[OUTPUT].staging_fd);
    job->job.tensors[OUTPUT].staging_fd = writable;
    ck_assert(random_job_free(job));
}
END_TEST

typedef struct Ranges {
    uint64_t done, checksum; /* a bit for each; the sum */
} Ranges;

static void note_range(void *context, uint64_t tag, int64_t units, uint64_t checksum) {
    ck_assert_int_eq(units, 1);
    Ranges *ranges = context;
    ranges->done |= UINT64_C(1) << tag;
    ranges->checksum += checksum;
}

/* Of what is in a staging file, tile by tile. */
static uint64_t staged_checksum(const Problem *problem, int tensor) {
    TensorFile file = problem->job->tensors[tensor];
    uint64_t sum = 0;
    file.old_fd = file.staging_fd;
    for (int64_t unit = 0; unit < problem->units; unit++) {
        const Step step = step_find(problem, unit, 0);
        Region region;
        tile_region(problem, &step, tensor, &region);
        int64_t pitch = region_pitch(&problem->operands[tensor], &region), rows = 1;
        for (int k = 0; k < file.rank - 1; k++)
            rows *= region.extent[k];
        char *tile = new_zeroed((size_t)rows, (size_t)pitch);
        ck_assert_msg(tensor_file_read(&file, &region, tile, pitch, &error), "%s", error.text);
        sum += region_checksum(tensor, &file, &region, tile, pitch);
        free(tile);
    }
    return sum;
}

START_TEST(a_pod_takes_units_while_it_works) {
    RandomJob *job = ten_tiles();
    for (int t = OUTPUT; t <= UPDATED; t++)
        ck_assert_msg(tensor_file_stage(&job->job.tensors[t], false, &error), "%s", error.text);
    Problem *problem = problem_bind(&job->job, LEAF_MODEL, &error);
    Plan *plan = plan_make(problem, INT64_C(1) << 30, &error);
    Ranges ranges = {0};
    PodOptions options = {.threads = 1, .device = &cpu_device, .range_done = note_range, .checksums = true, .context = &ranges};
    Pod *pod = pod_open(plan, &options, &error);
    ck_assert_msg(pod != NULL, "%s", error.text);
    for (int64_t u = 0; u < 10; u++) {
        pod_give(pod, (UnitRange){.first = (u * 7) % 10, .count = 1, .step = 1, .tag = (uint64_t)u});
        ck_assert_int_eq(pod_turn(pod), POD_RUNNING);
    }
    pod_no_more(pod);
    ck_assert_int_eq(drive(pod), POD_DONE);
    ck_assert_uint_eq(ranges.done, 0x3FF);
    ck_assert_uint_eq(ranges.checksum, staged_checksum(problem, OUTPUT) + staged_checksum(problem, UPDATED));
    ck_assert_int_eq(pod_units_done(pod), 10);
    pod_close(pod);
    plan_free(plan);
    problem_free(problem);
    for (int t = OUTPUT; t <= UPDATED; t++) {
        ck_assert_msg(tensor_file_publish(&job->job.tensors[t], &error), "%s", error.text);
        ck_assert(random_job_file_is(job, t, job->after[t]));
    }
    ck_assert(random_job_free(job));
}
END_TEST

/* A PodGather whose pieces never come. */
static int never_comes(void *context, int operand, const Region *region, void *rows, int64_t pitch, uint32_t instruction, uint64_t *bytes) {
    (void)operand, (void)region, (void)rows, (void)pitch, (void)instruction, (void)bytes;
    ++*(int *)context;
    return 1;
}

/* Inputs that live here and elsewhere: what is read from here when the pod closes, is not asked for elsewhere, for nobody would take the answer. */
START_TEST(a_pod_that_closes_asks_no_more) {
    RandomJob *job = ten_tiles();
    TensorFile kept[JOB_TENSORS];
    TileFiles files[JOB_TENSORS];
    int asked = 0;
    for (int t = 0; t < JOB_TENSORS; t++) {
        if (t >= OUTPUT)
            ck_assert_msg(tensor_file_stage(&job->job.tensors[t], false, &error), "%s", error.text);
        kept[t] = job->job.tensors[t];
        kept[t].memory = new_zeroed((size_t)tensor_file_bytes(&kept[t]), 1);
        files[t] = (TileFiles){.source = &kept[t], .targets = {t >= OUTPUT ? &job->job.tensors[t] : NULL}};
    }
    Problem *problem = problem_bind(&job->job, LEAF_MODEL, &error);
    Plan *plan = plan_make(problem, INT64_C(1) << 30, &error);
    PodOptions options = {.threads = 1, .device = &cpu_device, .gather = never_comes, .context = &asked};
    Pod *pod = pod_open(plan, &options, &error);
    ck_assert_msg(pod != NULL, "%s", error.text);
    pod_reset(pod, files);
    pod_give(pod, deal_units(problem, 0, 1));
    pod_close(pod);
    ck_assert_int_eq(asked, 0);
    plan_free(plan);
    problem_free(problem);
    for (int t = 0; t < JOB_TENSORS; t++)
        free(kept[t].memory);
    ck_assert(random_job_free(job));
}
END_TEST

/* What comes over the wire is looked at before it is given. */
START_TEST(ranges_that_do_not_fit_are_not_taken) {
    static const UnitRange bad[] = {{.first = -1, .count = 1, .step = 1}, {.first = 10, .count = 1, .step = 1}, {.first = 0, .count = 0, .step = 1},
        {.first = 0, .count = 1, .step = 0}, {.first = 0, .count = 2, .step = -1}, {.first = 1, .count = 10, .step = 1}, {.first = 1, .count = 5, .step = 2 + 1},
        {.first = 0, .count = INT64_MAX, .step = INT64_MAX}, {.first = INT64_MIN, .count = 1, .step = 1}, {.first = 9, .count = INT64_MAX, .step = 1}};
    static const UnitRange good[] = {
        {.first = 0, .count = 10, .step = 1}, {.first = 9, .count = 1, .step = INT64_MAX}, {.first = 1, .count = 3, .step = 4}, {.first = 0, .count = 2, .step = 9}};
    RandomJob *job = ten_tiles();
    for (int t = OUTPUT; t <= UPDATED; t++)
        ck_assert_msg(tensor_file_stage(&job->job.tensors[t], false, &error), "%s", error.text);
    Problem *problem = problem_bind(&job->job, LEAF_MODEL, &error);
    Plan *plan = plan_make(problem, INT64_C(1) << 30, &error);
    PodOptions options = {.threads = 1, .device = &cpu_device};
    Pod *pod = pod_open(plan, &options, &error);
    ck_assert_msg(pod != NULL, "%s", error.text);
    ck_assert_int_eq(problem->units, 10);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(!pod_can_take(pod, &bad[i], &error) && strstr(error.text, "does not have") != NULL, "%zu", i);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        ck_assert_msg(pod_can_take(pod, &good[i], &error), "%zu: %s", i, error.text);
    int given = 0;
    for (; given < 1000 && pod_can_take(pod, &good[0], &error); given++)
        pod_give(pod, good[0]);
    ck_assert_int_eq(given, ENGINE_MAX_RANGES);
    ck_assert_msg(strstr(error.text, "more than 64 batches") != NULL, "%s", error.text);
    pod_close(pod);
    plan_free(plan);
    problem_free(problem);
    ck_assert(random_job_free(job));
}
END_TEST

START_TEST(a_pod_closes_in_mid_work) {
    RandomJob *job = ten_tiles();
    for (int t = OUTPUT; t <= UPDATED; t++)
        ck_assert_msg(tensor_file_stage(&job->job.tensors[t], false, &error), "%s", error.text);
    Problem *problem = problem_bind(&job->job, LEAF_MODEL, &error);
    Plan *plan = plan_make(problem, INT64_C(1) << 30, &error);
    PodOptions options = {.threads = 2, .device = &cpu_device};
    for (int round = 0; round < 50; round++) {
        Pod *pod = pod_open(plan, &options, &error);
        ck_assert_msg(pod != NULL, "%s", error.text);
        pod_give(pod, deal_units(problem, 0, 1));
        for (int turns = 0; turns < round / 5; turns++)
            pod_turn(pod);
        pod_close(pod);
    }
    plan_free(plan);
    problem_free(problem);
    ck_assert(random_job_free(job));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("local");
    TCase *tests = tcase_create("local");
    tcase_set_timeout(tests, 100);
    tcase_add_test(tests, results_are_the_oracles);
    tcase_add_test(tests, summary_names_each_pods_tiles);
    tcase_add_test(tests, progress_for_programs_is_json);
    tcase_add_test(tests, a_short_input_fails_the_job);
    tcase_add_test(tests, a_changed_input_fails_the_job);
    tcase_add_test(tests, a_vanished_folder_fails_the_job);
    tcase_add_test(tests, too_little_memory_fails_the_job);
    tcase_add_test(tests, a_wrong_super_tile_is_a_usage_error);
    tcase_add_test(tests, an_unknown_cpu_level_fails_the_job);
    tcase_add_test(tests, an_interrupted_job_ends_soon);
    tcase_add_test(tests, a_store_error_breaks_the_pod);
    tcase_add_test(tests, a_pod_takes_units_while_it_works);
    tcase_add_test(tests, ranges_that_do_not_fit_are_not_taken);
    tcase_add_test(tests, a_pod_closes_in_mid_work);
    tcase_add_test(tests, a_pod_that_closes_asks_no_more);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
