/* Random cluster programs on real pods and files: whatever the super-tiles, the pods and their memory, the outputs are those of the whole problem
 * computed plainly. */
#include "runtime/sched/sched.h"
#include "tests/unit/random_job.h"
#include "tests/unit/random_program.h"

#include <check.h>
#include <string.h>

static Error error;

/* The least memory that a plan exists for. */
static int64_t least_memory(const RandomProgram *program) {
    Problem *problem = problem_bind(&program->job, LEAF_MODEL, &error);
    ck_assert_msg(problem != NULL, "%s", error.text);
    int64_t low = 0, high = INT64_C(1) << 40;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        Plan *plan = plan_make(problem, middle, &error);
        *(plan != NULL ? &high : &low) = middle;
        plan_free(plan);
    }
    problem_free(problem);
    return high;
}

START_TEST(splits_pods_and_memory_change_no_bit) {
    uint64_t state = 11;
    for (int round = 0; round < 40; round++) {
        uint64_t seed = random_next(&state);
        RandomProgram *program = random_program_new(seed, true);
        for (int split = 0; split < 4; split++) {
            int64_t least = least_memory(program);
            RunOptions options = {
                .pods = 1 + (int)random_below(&state, 4),
                .threads = 1 + (int)random_below(&state, 2),
                .plan = {.memory = random_below(&state, 2) ? least + random_below(&state, 4 * least) : least, .placement = random_below(&state, 2)},
                .progress = PROGRESS_NONE,
                .out = stdout,
                .errors = stderr,
                .messages = stderr,
            };
            ck_assert_int_eq(local_run(&program->job, &options), EXIT_DONE);
            const char *wrong = random_program_wrong(program);
            ck_assert_msg(wrong == NULL, "seed %llu, split %d: tensor '%s' is wrong", (unsigned long long)seed, split, wrong);
            random_program_rewind(program);
            random_program_split(program, &state);
        }
        ck_assert(random_program_free(program));
    }
}
END_TEST

/* The job runs under several plans before it runs: all is well, unless a leaf knows of super-tiles. */
START_TEST(selfcheck_compares_plans) {
    uint64_t state = 12;
    int found = 0;
    for (int round = 0; round < 12; round++) {
        RandomProgram *program = random_program_new(random_next(&state), true);
        RunOptions options = {.pods = 2,
            .threads = 1,
            .progress = PROGRESS_NONE,
            .selfcheck = true,
            .plan = {.memory = 1 << 24},
            .out = stdout,
            .errors = stderr,
            .messages = stderr};
        ck_assert_int_eq(local_run(&program->job, &options), EXIT_DONE);
        ck_assert_ptr_null(random_program_wrong(program));
        random_program_rewind(program);
        program->leaky = true;
        uint64_t *after[PROGRAM_TENSORS];
        memcpy(after, program->after, sizeof after);
        memcpy(program->after, program->before, sizeof after);
        if (local_run(&program->job, &options) == EXIT_FAILED) {
            found++;
            ck_assert_ptr_null(random_program_wrong(program)); /* the old contents */
        }
        memcpy(program->after, after, sizeof after);
        ck_assert(random_program_free(program));
    }
    ck_assert_int_ge(found, 6);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("stages");
    TCase *tests = tcase_create("stages");
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, splits_pods_and_memory_change_no_bit);
    tcase_add_test(tests, selfcheck_compares_plans);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
