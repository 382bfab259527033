/* What becomes of tensors from round to round. */
#include "tests/unit/job_fixture.h"

#include "runtime/sched/course.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* A job of `add`s on t, u and v without files where the text declares them so; a, b and c are files. */
static Job *load(const char *steps, int repeat, const char *tensors) {
    char text[1024];
    ErrorList errors = {0};
    snprintf(text, sizeof text, "{\"steps\": [%s], \"repeat\": %d, \"tensors\": {%s}}", steps, repeat, tensors);
    Job *job = job_load_text(&fixture_program, text, NULL, &errors);
    errors_print(&errors, stderr);
    errors_free(&errors);
    ck_assert_ptr_nonnull(job);
    return job;
}

/* The uses of tensor `tensor` of the kernel in each round, as letters: f, p read from file or pods; P, F written to pods, to the file; . a round that
 * lets it fall. */
static void expect_uses(const Job *job, int tensor, const char *expected) {
    Course course = {.job = (Job *)(uintptr_t)job, .step_count = job_step_count(job), .rounds = job_rounds(job)};
    char found[256] = "";
    for (int64_t round = 0; round < course.rounds; round++) {
        RoundUse use = round_use(&course, round, tensor);
        size_t length = strlen(found);
        if (tensor < 2)
            snprintf(found + length, sizeof found - length, "%s ", use.from_pods ? "p" : "f");
        else
            snprintf(found + length, sizeof found - length, "%s%s%s ", use.to_pods ? "P" : "", use.to_file ? "F" : "",
                use.to_pods || use.to_file ? "" : ".");
    }
    ck_assert_str_eq(found, expected);
}

START_TEST(there_and_back) {
    Job *job = load("{\"kernel\": \"add\", \"tensors\": {\"c\": \"t\"}}, {\"kernel\": \"add\", \"tensors\": {\"a\": \"t\", \"c\": \"a\"}}", 3,
        "\"a\": \"a.npy\", \"b\": \"b.npy\", \"t\": {}");
    expect_uses(job, 0, "f p p p p p ");
    expect_uses(job, 1, "f f f f f f "); /* nobody writes it */
    expect_uses(job, 2, "P P P P P F ");
    ck_assert_int_eq(job->kernel->tensors[0].mode, PHB_READ_WRITE);
    job_free(job);
}
END_TEST

START_TEST(a_result_that_is_read_stays_too) {
    Job *job = load("{\"kernel\": \"add\"}, {\"kernel\": \"add\", \"tensors\": {\"a\": \"c\", \"c\": \"d\"}}", 1,
        "\"a\": \"a.npy\", \"b\": \"b.npy\", \"c\": \"c.npy\", \"d\": \"d.npy\"");
    expect_uses(job, 2, "PF F ");
    expect_uses(job, 0, "f p ");
    ck_assert_int_eq(job->kernel->tensors[2].mode, PHB_WRITE); /* the old file is not read */
    job_free(job);
}
END_TEST

START_TEST(what_is_overwritten_unread_goes_nowhere) {
    Job *job = load("{\"kernel\": \"add\"}", 3, "\"a\": \"a.npy\", \"b\": \"b.npy\", \"c\": \"c.npy\"");
    expect_uses(job, 2, ". . F ");
    job_free(job);
}
END_TEST

START_TEST(one_kernel_is_one_round) {
    ErrorList errors = {0};
    Job *job =
        job_load_text(&fixture_program, "{\"kernel\": \"add\", \"tensors\": {\"a\": \"a.npy\", \"b\": \"b.npy\", \"c\": \"c.npy\"}}", NULL, &errors);
    ck_assert_ptr_nonnull(job);
    ck_assert_int_eq(job_rounds(job), 1);
    expect_uses(job, 0, "f ");
    expect_uses(job, 2, "F ");
    job_free(job);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("course");
    TCase *tests = tcase_create("rounds");
    tcase_add_checked_fixture(tests, fixture_enter, fixture_leave);
    tcase_add_test(tests, there_and_back);
    tcase_add_test(tests, a_result_that_is_read_stays_too);
    tcase_add_test(tests, what_is_overwritten_unread_goes_nowhere);
    tcase_add_test(tests, one_kernel_is_one_round);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
