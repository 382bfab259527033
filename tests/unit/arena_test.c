/* The arena: slots lie apart, aligned, inside what was asked for. */
#include "runtime/pod/pod.h"
#include "tests/unit/random_job.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

START_TEST(slots_lie_apart) {
    uint64_t state = 1;
    for (int round = 0; round < 100; round++) {
        Error error;
        RandomShape shape = random_shape(&state, 40);
        RandomJob *job = random_job_new(random_next(&state), &shape, false);
        Problem *problem = problem_bind(&job->job, LEAF_MODEL, &error);
        ck_assert_msg(problem != NULL, "%s", error.text);
        Plan *plan = plan_make(problem, INT64_C(1) << 30, &error);
        ck_assert_msg(plan != NULL, "%s", error.text);
        size_t bytes = (size_t)arena_bytes(plan);
        ck_assert_int_eq(arena_bytes(plan), plan->bytes);
        uint8_t *memory = aligned_alloc(PHB_BASE_ALIGN, bytes), *owned = new_zeroed(bytes, 1);
        Arena arena;
        arena_init(&arena, plan, memory);
        for (int t = 0; t < JOB_TENSORS; t++)
            for (int64_t s = 0; s < plan->slots[t]; s++) {
                uint8_t *slot = arena_slot(&arena, t, s);
                ck_assert_uint_eq((uintptr_t)slot % PHB_BASE_ALIGN, 0);
                ck_assert(slot >= memory);
                size_t offset = (size_t)(slot - memory), size = (size_t)problem->operands[t].bytes;
                ck_assert_uint_le(offset + size, bytes);
                ck_assert_ptr_null(memchr(owned + offset, 1, size));
                memset(owned + offset, 1, size);
            }
        ck_assert_ptr_null(memchr(owned, 0, bytes));
        arena_fini(&arena);
        free(memory);
        free(owned);
        plan_free(plan);
        problem_free(problem);
        random_job_free(job);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("arena");
    TCase *tests = tcase_create("arena");
    tcase_add_test(tests, slots_lie_apart);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
