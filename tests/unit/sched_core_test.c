/* The scheduler's core. How a job ends, and which messages are believed. */
#include "sched_fixture.h"

START_TEST(publishes_after_every_flush_and_ends_well) {
    config.nodes = 2;
    begin();
    join_and_prove(1);
    join_and_prove(2);
    work(2);
    ck_assert_uint_eq(sched_units_done(core), 10);
    pod_flushed(1);
    ck_assert_ptr_null(action_of(SCHED_ACTION_PUBLISH, 0, 0));
    pod_flushed(2);
    ck_assert_ptr_nonnull(action_of(SCHED_ACTION_PUBLISH, 0, 0));
    step((SchedEvent){.kind = SCHED_EVENT_PUBLISHED, .ok = true});
    ck_assert_int_eq(state_for(1)->phase, SCHED_OVER);
    ck_assert_int_eq(end_code(), 0);
}
END_TEST

START_TEST(says_why_publishing_failed) {
    config.nodes = 1;
    begin();
    join_and_prove(1);
    work(1);
    pod_flushed(1);
    step((SchedEvent){.kind = SCHED_EVENT_PUBLISHED, .text = "disk full"});
    ck_assert_str_eq(end_text(), "disk full");
    ck_assert_int_eq(end_code(), 1);
}
END_TEST

START_TEST(ends_when_the_shell_cannot_go_on) {
    config.nodes = 1;
    begin();
    join_and_prove(1);
    step((SchedEvent){.kind = SCHED_EVENT_FAILED, .text = "disk full"});
    ck_assert_int_eq(state_for(1)->phase, SCHED_OVER);
    ck_assert_str_eq(end_text(), "disk full");
    ck_assert_int_eq(end_code(), 1);
}
END_TEST

typedef enum Stale { STALE_TOKEN, STALE_SEQ, STALE_JOB, STALE_EPOCH, STALE_COUNT } Stale;

START_TEST(what_is_not_this_session_is_not_believed) {
    config.nodes = 1;
    begin();
    join_and_prove(1);
    pod_state(1, POD_READY, 0, 0xf);
    message.pod_state.counts[0] = 1;
    if (_i == STALE_TOKEN)
        message.pod_state.token++;
    if (_i == STALE_SEQ)
        message.header.seq = 1;
    if (_i == STALE_JOB)
        message.header.job_id[5]++;
    if (_i == STALE_EPOCH)
        message.header.sched_epoch++;
    deliver(1);
    ck_assert_uint_eq(sched_units_done(core), 0);
}
END_TEST

START_TEST(a_repeated_state_counts_once) {
    config.nodes = 1;
    begin();
    join_and_prove(1);
    for (int i = 0; i < 5; i++) {
        pod_state(1, POD_READY, 0, 1);
        message.pod_state.counts[0] = 1;
        deliver(1);
    }
    ck_assert_uint_eq(sched_units_done(core), 1);
}
END_TEST

START_TEST(the_user_may_stop_it) {
    begin();
    join_and_prove(1);
    step((SchedEvent){.kind = SCHED_EVENT_STOP, .text = "the user"});
    ck_assert_int_eq(state_for(1)->phase, SCHED_OVER);
    ck_assert_int_eq(state_for(1)->exit_code, 1);
    ck_assert_str_eq(end_text(), "stopped by the user");
}
END_TEST

int main(void) {
    TCase *cases = cases_new();
    tcase_add_test(cases, publishes_after_every_flush_and_ends_well);
    tcase_add_test(cases, says_why_publishing_failed);
    tcase_add_test(cases, ends_when_the_shell_cannot_go_on);
    tcase_add_loop_test(cases, what_is_not_this_session_is_not_believed, 0, STALE_COUNT);
    tcase_add_test(cases, a_repeated_state_counts_once);
    tcase_add_test(cases, the_user_may_stop_it);
    return cases_run("sched_%s", cases);
}
