/* The scheduler's core. How units are dealt, and how those that are stored are told. */
#include "sched_fixture.h"

START_TEST(lanes_are_round_robin) {
    config.nodes = 2;
    config.units = 100;
    begin();
    join_and_prove(1);
    join_and_prove(2);
    const SchedState *state = state_for(2);
    ck_assert_uint_eq(state->batches[0].first, 1);
    ck_assert_uint_eq(state->batches[0].step, 2);
    ck_assert_uint_eq(state->batches[1].first, 1 + 2 * state->batches[0].count);
}
END_TEST

START_TEST(lanes_are_blocks) {
    policy = PLACE_BLOCK;
    config.nodes = 2;
    config.units = 100;
    begin();
    join_and_prove(1);
    join_and_prove(2);
    const SchedState *state = state_for(2);
    ck_assert_uint_eq(state->batches[0].first, 50);
    ck_assert_uint_eq(state->batches[0].step, 1);
    ck_assert_uint_eq(state->batches[1].first, 50 + state->batches[0].count);
}
END_TEST

START_TEST(every_unit_is_dealt_once) {
    policy = _i % 2 ? PLACE_BLOCK : PLACE_ROUND_ROBIN;
    config.nodes = 2;
    config.units = 1 + (uint64_t)_i * 37;
    begin();
    join_and_prove(1);
    join_and_prove(2);
    join_and_prove(3); /* late */
    bool dealt[512] = {false};
    uint64_t known[4] = {0};
    uint64_t count = 0;
    for (int round = 0; round < 500; round++)
        for (uint64_t pod = 1; pod <= 3; pod++) {
            const SchedState *state = state_for(pod);
            for (uint64_t number = known[pod] > state->batch_base ? known[pod] : state->batch_base; number < state->batch_base + state->batches_count;
                 number++) {
                const WireBatch *batch = &state->batches[number - state->batch_base];
                for (uint64_t i = 0; i < batch->count; i++, count++) {
                    uint64_t unit = batch->first + i * batch->step;
                    ck_assert_uint_lt(unit, config.units);
                    ck_assert(!dealt[unit]);
                    dealt[unit] = true;
                }
            }
            known[pod] = state->batch_base + state->batches_count;
            pod_stored_all(pod);
        }
    ck_assert_uint_eq(count, config.units);
    ck_assert_uint_eq(sched_units_done(core), config.units);
}
END_TEST

START_TEST(a_late_pod_gets_what_is_not_started) {
    config.nodes = 1;
    config.units = 1000;
    begin();
    join_and_prove(1);
    join_and_prove(2);
    ck_assert_uint_gt(state_for(2)->batches_count, 0);
}
END_TEST

/* Each batch once, with the checksum that its pod says. */
START_TEST(stored_batches_are_told_with_their_checksums) {
    config.nodes = 1;
    begin();
    join_and_prove(1);
    WireBatch second = state_for(1)->batches[1], first = state_for(1)->batches[0];
    pod_stored(1, 2);
    const SchedAction *stored = action_of(SCHED_ACTION_STORED, 0, 0);
    ck_assert_ptr_nonnull(stored);
    ck_assert_mem_eq(&stored->batch, &second, sizeof second);
    ck_assert_uint_eq(stored->checksum, 101);
    ck_assert(sched_unit_is_stored(core, second.first) && !sched_unit_is_stored(core, first.first));
    deliver(1);
    ck_assert_ptr_null(action_of(SCHED_ACTION_STORED, 0, 0));
    pod_stored(1, 3);
    stored = action_of(SCHED_ACTION_STORED, 0, 0);
    ck_assert_mem_eq(&stored->batch, &first, sizeof first);
    ck_assert_uint_eq(stored->checksum, 100);
    uint64_t third = state_for(1)->batches[0].count;
    pod_state(1, POD_READY, 0, 7); /* counted from the base that it has: the first two are known */
    message.pod_state.counts[2] = third;
    deliver(1);
    ck_assert_uint_eq(action_of(SCHED_ACTION_STORED, 0, 0)->checksum, 102);
}
END_TEST

START_TEST(what_is_stored_at_the_start_is_not_dealt) {
    static const WireBatch stored[] = {
        {.first = 0, .count = 20, .step = 3}, {.first = 40, .count = 30, .step = 1}, {.first = 57, .count = 1, .step = 1}};
    bool there[100] = {false};
    policy = _i % 2 ? PLACE_BLOCK : PLACE_ROUND_ROBIN;
    config.nodes = 2;
    config.units = 100;
    config.stored = stored;
    config.stored_count = _i / 2 ? 3 : 0;
    uint64_t left = 100;
    for (size_t b = 0; b < config.stored_count; b++)
        for (uint64_t i = 0; i < stored[b].count; i++) {
            bool *unit = &there[stored[b].first + i * stored[b].step];
            left -= !*unit;
            *unit = true;
        }
    begin();
    ck_assert_uint_eq(sched_units_done(core), 100 - left);
    join_and_prove(1);
    join_and_prove(2);
    for (int round = 0; round < 100; round++)
        for (uint64_t pod = 1; pod <= 2; pod++) {
            pod_stored_all(pod);
            for (size_t a = 0; a < actions.count; a++)
                for (uint64_t i = 0; actions.items[a].kind == SCHED_ACTION_STORED && i < actions.items[a].batch.count; i++) {
                    bool *unit = &there[actions.items[a].batch.first + i * actions.items[a].batch.step];
                    ck_assert(!*unit);
                    *unit = true;
                    left--;
                }
        }
    ck_assert_uint_eq(left, 0);
    ck_assert_uint_eq(sched_units_done(core), 100);
    ck_assert_uint_eq(state_for(1)->flush, 1);
}
END_TEST

START_TEST(a_job_that_is_stored_is_published) {
    static const WireBatch stored = {.first = 0, .count = 10, .step = 1};
    config.nodes = 1;
    config.stored = &stored;
    config.stored_count = 1;
    begin();
    join_and_prove(1);
    ck_assert_ptr_nonnull(action_of(SCHED_ACTION_PUBLISH, 0, 0));
}
END_TEST

int main(void) {
    TCase *cases = cases_new();
    tcase_add_test(cases, lanes_are_round_robin);
    tcase_add_test(cases, lanes_are_blocks);
    tcase_add_loop_test(cases, every_unit_is_dealt_once, 0, 13);
    tcase_add_test(cases, a_late_pod_gets_what_is_not_started);
    tcase_add_test(cases, stored_batches_are_told_with_their_checksums);
    tcase_add_loop_test(cases, what_is_stored_at_the_start_is_not_dealt, 0, 4);
    tcase_add_test(cases, a_job_that_is_stored_is_published);
    return cases_run("sched_%s", cases);
}
