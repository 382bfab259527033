/* A job that travels in a welcome: what a pod makes of it, and of one whose numbers contradict each other. */
#include "runtime/pod/attach.h"
#include "runtime/pod/rounds.h"
#include "tests/unit/job_fixture.h"

#include <check.h>
#include <stdlib.h>

static Welcome welcome;

static void describe(const char *text) {
    ErrorList errors = {0};
    Error error;
    Job *job = job_load_text(&fixture_program, text, NULL, &errors);
    errors_print(&errors, stderr);
    errors_free(&errors);
    ck_assert_ptr_nonnull(job);
    for (int s = 0; s < job_step_count(job); s++)
        job_step(job, s)->device = CLASS_CPU;
    ck_assert_msg(outputs_stage(job, false, &error), "%s", error.text);
    ck_assert_msg(job_describe(job, 0, &welcome, &error), "%s", error.text);
    job_free(job);
}

static Job *attach(void) {
    static WireSeen seen[PHB_MAX_PARAMS];
    Error error;
    Job *job = job_attach(&fixture_program, &welcome, NULL, seen, &error);
    ck_assert_msg(job != NULL, "%s", error.text);
    return job;
}

START_TEST(shapes_are_as_dims_say) {
    Error error;
    describe("{\"kernel\": \"add\", \"tensors\": {\"a\": \"a.npy\", \"b\": \"b.npy\", \"c\": \"c.npy\"}}");
    for (int64_t more = -1; more <= 1; more++) {
        welcome.tensors[1].shape[0] += more;
        Job *job = attach();
        Problem *problem = problem_bind(job, LEAF_MODEL, &error);
        ck_assert_msg(problem != NULL, "%s", error.text);
        ck_assert(job_has_shapes(job, 0, problem, &error) == (more == 0));
        if (more != 0)
            ck_assert_str_eq(error.text, "the scheduler's dims contradict the shape of tensor 'b'");
        welcome.tensors[1].shape[0] -= more;
        problem_free(problem);
        job_free(job);
    }
}
END_TEST

START_TEST(shapes_of_what_lives_in_pods_too) {
    Error error;
    describe("{\"steps\": [{\"kernel\": \"add\", \"tensors\": {\"c\": \"t\"}}, {\"kernel\": \"add\", \"tensors\": {\"a\": \"t\"}}],"
             " \"tensors\": {\"a\": \"a.npy\", \"b\": \"b.npy\", \"c\": \"c.npy\", \"t\": {}}}");
    ck_assert_uint_eq(welcome.tensors_count, 4);
    for (int64_t less = 0; less <= 1; less++) {
        welcome.tensors[3].shape[0] -= less;
        Job *job = attach();
        Rounds *rounds = rounds_new(job, &error);
        ck_assert((rounds != NULL) == (less == 0));
        if (rounds == NULL)
            ck_assert_str_eq(error.text, "the scheduler's dims contradict the shape of tensor 'c'");
        rounds_free(rounds);
        job_free(job);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("attach");
    TCase *tcase = tcase_create("attach");
    suite_add_tcase(suite, tcase);
    tcase_add_checked_fixture(tcase, fixture_enter, fixture_leave);
    tcase_add_test(tcase, shapes_are_as_dims_say);
    tcase_add_test(tcase, shapes_of_what_lives_in_pods_too);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
