/* The scheduler's core. Pods that are lost, and pods that leave: what is done again, and by whom. */
#include "sched_fixture.h"

#include <string.h>

START_TEST(a_silent_pod_is_dead) {
    config.nodes = 1;
    begin();
    join_and_prove(1);
    wait_ms(11000);
    ck_assert_str_eq(end_text(), "no pod is left; the last, pod n1, has not been heard for 10 s");
    hello(1);
    deliver(1);
    const SchedAction *send = action_of(SCHED_ACTION_SEND, 1, WIRE_REJECT);
    ck_assert_ptr_nonnull(send);
    ck_assert_int_eq(send->reject_code, REJECT_FENCED);
}
END_TEST

START_TEST(a_pod_that_stands_still_has_failed) {
    config.nodes = 1;
    begin();
    join_and_prove(1);
    for (int i = 0; i < 70 && !action_of(SCHED_ACTION_FINISH, 0, 0); i++) {
        wait_ms(1000);
        pod_state(1, POD_READY, 0, 0);
        message.pod_state.progress = 3; /* alive, and yet the same */
        if (!action_of(SCHED_ACTION_FINISH, 0, 0))
            deliver(1);
    }
    ck_assert_str_eq(end_text(), "no pod is left; the last, pod n1, has made no progress for 60 s");
}
END_TEST

START_TEST(a_pod_that_fails_says_why) {
    config.nodes = 1;
    begin();
    join_and_prove(1);
    pod_state(1, POD_FAILED, 0, 0);
    strcpy(message.pod_state.text, "cannot write \"/data/.c.npy.part\": No space left on device");
    deliver(1);
    ck_assert_str_eq(end_text(), "no pod is left; the last, pod n1, has failed: cannot write \"/data/.c.npy.part\": No space left on device");
}
END_TEST

START_TEST(a_pod_that_fails_before_the_job_begins_ends_it) {
    config.nodes = 2;
    begin();
    join(1);
    pod_state(1, POD_FAILED, 0, 0);
    strcpy(message.pod_state.text, "there is no plan");
    deliver(1);
    ck_assert_str_eq(end_text(), "pod n1: there is no plan");
}
END_TEST

START_TEST(goodbye_with_work_is_a_loss_and_without_is_not) {
    config.nodes = 2;
    config.units = 1;
    begin();
    join_and_prove(1);
    join_and_prove(2);
    uint64_t idle = state_for(1)->batches_count ? 2 : 1, busy = 3 - idle;
    bye(idle);
    deliver(idle);
    ck_assert_ptr_nonnull(action_of(SCHED_ACTION_FORGET, idle, 0));
    ck_assert_ptr_null(action_of(SCHED_ACTION_FINISH, 0, 0));
    bye(busy);
    strcpy(message.bye.text, "stopped by the user");
    deliver(busy);
    ck_assert_uint_eq(sched_fenced(core), 1);
    ck_assert_ptr_nonnull(strstr(end_text(), "left with work unfinished: stopped by the user"));
}
END_TEST

/* What a lost pod held, and what it stored since it last brought it to the disk, is done again; what is on the disk is not. */
START_TEST(what_a_lost_pod_had_is_dealt_again) {
    bool units[2000] = {false}, flushed[2000] = {false}, stored[2000] = {false}, again[2000] = {false};
    config.nodes = 2;
    config.units = 2000;
    config.flush_ms = 1000;
    begin();
    join_and_prove(1);
    join_and_prove(2);
    uint64_t count = held_by(1, flushed);
    pod_stored_all(1);
    wait_ms(1100);
    ck_assert_uint_eq(state_for(1)->flush, 1);
    held_by(1, stored);
    uint64_t more = state_for(1)->batches[0].count;
    pod_stored(1, 1); /* too late for that flush */
    pod_flushed(1);
    held_by(1, units);
    uint64_t before = sched_units_done(core);
    ck_assert_uint_eq(before, count + more);
    be_silent(1, 2);
    ck_assert_uint_eq(sched_units_done(core), count);
    ck_assert_uint_eq(sched_recovery(core)->lost, 1);
    ck_assert_uint_eq(sched_recovery(core)->units_again, more);
    ck_assert_uint_le(sched_recovery(core)->detect_ms, config.dead_ms + 500);
    ck_assert_uint_eq(sched_fenced(core), 1);
    for (int round = 0; round < 2000 && sched_units_done(core) < config.units; round++) {
        held_by(2, again);
        pod_stored_all(2);
    }
    ck_assert_uint_eq(sched_units_done(core), config.units);
    for (int u = 0; u < 2000; u++)
        ck_assert(again[u] == !flushed[u]);
    ck_assert_ptr_null(action_of(SCHED_ACTION_PUBLISH, 0, 0));
    pod_flushed(2);
    ck_assert_ptr_nonnull(action_of(SCHED_ACTION_PUBLISH, 0, 0));
}
END_TEST

/* At the very end, too: one has flushed, the other one dies before it has. */
START_TEST(a_pod_may_be_lost_while_it_flushes) {
    config.nodes = 2;
    begin();
    join_and_prove(1);
    join_and_prove(2);
    work(2);
    ck_assert_uint_eq(sched_units_done(core), 10);
    pod_flushed(1);
    be_silent(2, 2);
    ck_assert_uint_lt(sched_units_done(core), 10);
    work(1);
    ck_assert_uint_eq(sched_units_done(core), 10);
    ck_assert_ptr_null(action_of(SCHED_ACTION_PUBLISH, 0, 0));
    pod_flushed(1);
    ck_assert_ptr_nonnull(action_of(SCHED_ACTION_PUBLISH, 0, 0));
}
END_TEST

/* A node that starts anew takes over its lane at once; its earlier process is told that it is fenced. */
START_TEST(a_node_that_starts_anew_replaces_itself) {
    config.nodes = 2;
    config.units = 100;
    begin();
    join_and_prove(1);
    join_and_prove(2);
    bool before[100] = {false}, after[100] = {false};
    held_by(1, before);
    hello(3);
    message.hello.node[1] = '1';
    seqs[3] = 0;
    deliver(3);
    const SchedAction *send = action_of(SCHED_ACTION_SEND, 3, WIRE_WELCOME);
    ck_assert(send != NULL && sched_compose(core, send, &composed));
    tokens[3] = composed.welcome.token;
    ck_assert_uint_eq(sched_fenced(core), 0); /* that hello may be late, and its process no more */
    proof(3);
    deliver(3);
    ck_assert_uint_eq(sched_fenced(core), 1);
    pod_state(1, POD_READY, 0, 1);
    deliver(1);
    ck_assert_ptr_nonnull(action_of(SCHED_ACTION_SEND, 1, WIRE_WHO));
    ck_assert_uint_eq(sched_units_done(core), 0);
    hello(1);
    deliver(1);
    ck_assert_int_eq(action_of(SCHED_ACTION_SEND, 1, WIRE_REJECT)->reject_code, REJECT_FENCED);
    held_by(3, after);
    ck_assert(before[0] && after[0]);
}
END_TEST

/* A pod that leaves ends what it has begun and hands back the rest, and is let go when all that it stored is on the disk. */
START_TEST(a_pod_that_leaves_hands_back) {
    config.nodes = 2;
    config.units = 100;
    begin();
    join_and_prove(1);
    join_and_prove(2);
    const SchedState *state = state_for(1);
    uint32_t batches = state->batches_count;
    ck_assert_uint_gt(state->batches[0].count, 1);
    pod_state(1, POD_LEAVING, 0, (1u << batches) - 1);
    message.pod_state.counts[0] = 1; /* and of the others nothing */
    deliver(1);
    ck_assert_uint_eq(sched_units_done(core), 1);
    ck_assert_uint_eq(state_for(1)->batches_count, 0);
    ck_assert_uint_eq(state_for(1)->flush, 1);
    ck_assert_int_eq(state_for(1)->phase, SCHED_RUN);
    pod_state(1, POD_LEAVING, batches, 0);
    message.pod_state.flushed = 1;
    deliver(1);
    ck_assert_int_eq(state_for(1)->phase, SCHED_OVER);
    ck_assert_int_eq(state_for(1)->exit_code, 0);
    bye(1);
    deliver(1);
    ck_assert_uint_eq(sched_fenced(core), 0);
    for (int round = 0; round < 100 && sched_units_done(core) < config.units; round++)
        pod_stored_all(2);
    ck_assert_uint_eq(sched_units_done(core), 100);
    ck_assert_uint_eq(sched_pod_units(core, 0), 1);
    ck_assert_uint_eq(sched_pod_units(core, 1), 99);
}
END_TEST

/* When the last one leaves, the job waits for another. */
START_TEST(all_may_leave_and_others_come) {
    config.nodes = 1;
    config.join_timeout_ms = 5000;
    begin();
    join_and_prove(1);
    for (int late = 0; late < 2; late++) {
        uint64_t pod = late == 0 ? 1 : 2;
        uint64_t base = state_for(pod)->batch_base;
        uint32_t batches = state_for(pod)->batches_count;
        pod_state(pod, POD_LEAVING, base, (1u << batches) - 1);
        deliver(pod);
        ck_assert_int_eq(state_for(pod)->phase, SCHED_OVER);
        bye(pod);
        deliver(pod);
        wait_ms(4000);
        ck_assert_ptr_null(action_of(SCHED_ACTION_FINISH, 0, 0));
        if (late == 0)
            join_and_prove(2);
    }
    wait_ms(2000);
    ck_assert_str_eq(end_text(), "all pods have left, and none came for 5 s");
}
END_TEST

/* A unit that three pods die of ends the job, whoever else is there; what was merely near it does not. */
START_TEST(a_unit_that_kills_is_named) {
    enum { KILLER = 77 };
    config.nodes = 1;
    config.units = 1000;
    config.max_pods = 8;
    begin();
    uint64_t pod = 1;
    join_and_prove(pod);
    for (int round = 0; round < 3000; round++) {
        bool units[1000] = {false};
        held_by(pod, units);
        if (!units[KILLER]) {
            pod_stored_all(pod);
            continue;
        }
        if (pod == 3)
            ck_assert_uint_eq(held_by(pod, units), 1);
        join_and_prove(pod + 1);
        bye(pod); /* as good as a death, and quicker */
        strcpy(message.bye.text, "aaargh");
        deliver(pod);
        if (++pod == 4)
            break;
    }
    ck_assert_str_eq(end_text(), "super-tile 77 has brought down 3 pods; the last, pod n3, left with work unfinished: aaargh");
}
END_TEST

/* ---- slow pods ---- */

static uint64_t computed[16];

/* The pod says that it has computed so many more, and stored all that it holds or nothing. */
static void say_computed(uint64_t pod, uint64_t units, bool all) {
    const SchedState *state = state_for(pod);
    uint32_t count = state->batches_count;
    pod_state(pod, POD_READY, state->batch_base, all ? (1u << count) - 1 : 0);
    for (uint32_t i = 0; i < count; i++)
        message.pod_state.counts[i] = state->batches[i].count;
    message.pod_state.units = computed[pod] += units;
    deliver(pod);
}

static bool says(const char *text) {
    for (size_t i = 0; i < actions.count; i++)
        if (actions.items[i].kind == SCHED_ACTION_LOG && strcmp(actions.items[i].text, text) == 0)
            return true;
    return false;
}

/* Pods 1 and 2 do all that pod 3 does not hold, and then copies of it, until they have one each. */
static void copy_a_slow_pod(void) {
    bool ignored[30];
    config.nodes = 3;
    config.units = 30;
    config.speculate = true;
    memset(computed, 0, sizeof computed);
    begin();
    for (uint64_t pod = 1; pod <= 3; pod++)
        join_and_prove(pod);
    for (int turn = 0; turn < 30 && (turn < 8 || held_by(1, ignored) + held_by(2, ignored) < 2); turn++) {
        wait_ms(100);
        say_computed(3, 0, false);
        for (uint64_t pod = 1; pod <= 2 && (turn < 8 || held_by(pod, ignored) == 0); pod++)
            say_computed(pod, held_by(pod, ignored), true);
    }
    ck_assert_uint_eq(held_by(1, ignored), 1);
    ck_assert_uint_eq(held_by(2, ignored), 1);
    ck_assert_uint_eq(held_by(3, ignored), 4);
}

/* Whoever had a copy to compute is lost, or hands it back: another one computes it. */
START_TEST(a_copy_that_is_given_up_is_made_again) {
    bool ignored[30];
    copy_a_slow_pod();
    if (_i == 0) {
        bye(1);
    } else {
        pod_state(1, POD_LEAVING, state_for(1)->batch_base, 1);
        message.pod_state.counts[0] = 0;
    }
    deliver(1);
    for (int turn = 0; turn < 40; turn++) {
        wait_ms(100);
        say_computed(3, 0, false);
        say_computed(2, held_by(2, ignored), true);
    }
    ck_assert_uint_eq(sched_units_done(core), 30);
}
END_TEST

START_TEST(a_slow_pod_may_keep_up_again) {
    bool ignored[3000], warned = false;
    config.nodes = 3;
    config.units = 3000;
    memset(computed, 0, sizeof computed);
    begin();
    for (uint64_t pod = 1; pod <= 3; pod++)
        join_and_prove(pod);
    for (int turn = 0; turn < 20; turn++) {
        wait_ms(100);
        warned |= says("warning: pod n3 is slow: 1.0 s for a tile, where others take 0.1 s");
        say_computed(3, 0, false);
        for (uint64_t pod = 1; pod <= 2; pod++)
            say_computed(pod, 1, false);
    }
    ck_assert(warned);
    for (int turn = 0; turn < 50; turn++) {
        wait_ms(100);
        if (says("pod n3 keeps up again"))
            break;
        for (uint64_t pod = 1; pod <= 3; pod++)
            say_computed(pod, 1, false);
        ck_assert_int_lt(turn, 49);
    }
    for (int turn = 0; turn < 30; turn++) { /* and stays so, and is slow again when it is */
        wait_ms(100);
        ck_assert_int_eq(says("warning: pod n3 is slow: 1.0 s for a tile, where others take 0.1 s"), turn == 19);
        for (uint64_t pod = 1; pod <= 3; pod++)
            say_computed(pod, pod < 3 || turn < 10, false);
    }
    ck_assert_uint_gt(held_by(3, ignored), 0);
}
END_TEST

int main(void) {
    TCase *cases = cases_new();
    tcase_add_test(cases, a_silent_pod_is_dead);
    tcase_add_test(cases, a_pod_that_stands_still_has_failed);
    tcase_add_test(cases, a_pod_that_fails_says_why);
    tcase_add_test(cases, a_pod_that_fails_before_the_job_begins_ends_it);
    tcase_add_test(cases, goodbye_with_work_is_a_loss_and_without_is_not);
    tcase_add_test(cases, what_a_lost_pod_had_is_dealt_again);
    tcase_add_test(cases, a_pod_may_be_lost_while_it_flushes);
    tcase_add_test(cases, a_node_that_starts_anew_replaces_itself);
    tcase_add_test(cases, a_pod_that_leaves_hands_back);
    tcase_add_test(cases, all_may_leave_and_others_come);
    tcase_add_test(cases, a_unit_that_kills_is_named);
    tcase_add_loop_test(cases, a_copy_that_is_given_up_is_made_again, 0, 2);
    tcase_add_test(cases, a_slow_pod_may_keep_up_again);
    return cases_run("sched_%s", cases);
}
