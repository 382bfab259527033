/* The scheduler's core. Jobs of several steps: rounds that follow one another, and begin again. */
#include "sched_fixture.h"

#include <string.h>

static Problem round_problems[2];
static Placement *round_placements[2];

/* Of 6 units, and of 4, in turn. */
static uint64_t find_round(void *context, uint64_t round, Placement **placement) {
    (void)context;
    *placement = round_placements[round % 2];
    return (uint64_t)round_problems[round % 2].units;
}

static void prepare_course(uint64_t rounds) {
    config.nodes = 2;
    config.units = 6;
    config.course = true;
    config.rounds = rounds;
    config.round = find_round;
    count_asked();
    for (int i = 0; i < 2; i++) {
        round_problems[i] = (Problem){.kernel = &kernel, .supers = {6 - 2 * i, 1, 1}, .units = 6 - 2 * i};
        round_placements[i] = placement_new(&round_problems[i], PLACE_BLOCK, config.max_pods);
    }
    begin();
}

static void begin_course(uint64_t rounds) {
    prepare_course(rounds);
    join_at(1, "tcp://10.0.0.1:11", 100, CLASS_CPU);
    join_at(2, "tcp://10.0.0.1:12", 50, CLASS_CPU);
}

static void end_course(void) {
    placement_free(round_placements[0]);
    placement_free(round_placements[1]);
}

/* That a pod has units first .. first + count - 1 of a round, and no others. */
static void expect_units(uint64_t pod, uint64_t round, uint64_t first, uint64_t count) {
    const SchedState *state = state_for(pod);
    for (uint32_t b = 0; b < state->batches_count; b++) {
        ck_assert_uint_eq(state->batches[b].round, round);
        ck_assert_uint_eq(state->batches[b].first, first);
        first += state->batches[b].count;
        count -= state->batches[b].count;
    }
    ck_assert_uint_eq(count, 0);
}

/* A round begins when all of the one before is stored, nobody takes another's units, and only the last is brought to the disk. */
START_TEST(rounds_follow_one_another) {
    begin_course(3);
    ck_assert_int_eq(asked, 1);
    ck_assert_int_eq(asked_memory[0], 50); /* the least */
    ck_assert_uint_eq(peers_for(2)->peers_count, 2);
    ck_assert_str_eq(composed.peers.peers[0].endpoint, "tcp://10.0.0.1:11"); /* of one host, too */
    expect_units(1, 0, 0, 3);
    pod_stored_all(1);
    expect_units(1, 0, 0, 0);
    expect_units(2, 0, 3, 3);
    pod_stored_all(2);
    expect_units(1, 1, 0, 2);
    expect_units(2, 1, 2, 2);
    ck_assert_uint_eq(sched_units_done(core), 6);
    pod_stored_all(2);
    pod_stored_all(1);
    expect_units(2, 2, 3, 3);
    ck_assert_uint_eq(state_for(1)->flush, 0);
    pod_stored_all(1);
    pod_stored_all(2);
    ck_assert_uint_eq(sched_units_done(core), 16);
    ck_assert_ptr_null(action_of(SCHED_ACTION_STORED, 0, 0));
    pod_flushed(1);
    ck_assert_ptr_null(action_of(SCHED_ACTION_PUBLISH, 0, 0));
    pod_flushed(2);
    ck_assert_ptr_nonnull(action_of(SCHED_ACTION_PUBLISH, 0, 0));
    end_course();
}
END_TEST

/* Also of who has no unit of the last one: in the last round but one, pods may have stored for good. */
START_TEST(what_earlier_rounds_stored_is_brought_to_the_disk) {
    config.max_pods = 6;
    begin_course(2);
    for (uint64_t pod = 3; pod <= 6; pod++)
        join_at(pod, "tcp://10.0.0.3:11", 50, CLASS_CPU);
    bye(1);
    deliver(1); /* five are left, for six units and then four */
    for (uint64_t pod = 2; pod <= 6; pod++)
        pod_stored_all(pod);
    for (uint64_t pod = 2; pod <= 6; pod++)
        pod_stored_all(pod);
    ck_assert_uint_eq(sched_units_done(core), 10);
    for (uint64_t pod = 6; pod >= 2; pod--) { /* the one without comes last */
        ck_assert_ptr_null(action_of(SCHED_ACTION_PUBLISH, 0, 0));
        ck_assert_uint_eq(state_for(pod)->flush, 1);
        pod_flushed(pod);
    }
    ck_assert_ptr_nonnull(action_of(SCHED_ACTION_PUBLISH, 0, 0));
    end_course();
}
END_TEST

/* With whoever is there: a late pod, too. Three in one round are too many. */
START_TEST(a_loss_begins_all_rounds_again) {
    begin_course(3);
    pod_stored_all(1);
    pod_stored_all(2);
    join_at(3, "tcp://10.0.0.3:11", 70, CLASS_CPU);
    expect_units(3, 1, 0, 0);
    uint64_t base = state_for(1)->batch_base;
    bye(2);
    deliver(2);
    ck_assert_uint_eq(sched_units_done(core), 0);
    expect_units(1, 0, 0, 3);
    expect_units(3, 0, 3, 3);
    ck_assert_uint_gt(state_for(1)->batch_base, base); /* what it held is withdrawn */
    ck_assert_uint_eq(peers_for(3)->node, 1);
    ck_assert_str_eq(composed.peers.peers[1].endpoint, "");
    ck_assert_str_eq(composed.peers.peers[0].endpoint, "tcp://10.0.0.1:11");
    ck_assert_uint_eq(composed.header.plan_epoch, 2);
    for (uint64_t last = 3; last <= 4; last++) {
        ck_assert_ptr_null(action_of(SCHED_ACTION_FINISH, 0, 0));
        pod_stored_all(1);
        pod_stored_all(last);
        if (last == 3)
            join_at(4, "tcp://10.0.0.4:11", 50, CLASS_CPU);
        bye(last);
        deliver(last);
    }
    ck_assert_int_eq(end_code(), 1);
    ck_assert_ptr_nonnull(strstr(end_text(), "round 2 has brought down 3 pods"));
    end_course();
}
END_TEST

/* Who is still proving that it can has no units of a round: nobody would do them in its place. */
START_TEST(rounds_are_shared_by_who_can_work) {
    prepare_course(2);
    join(3);
    join_at(1, "tcp://10.0.0.1:11", 100, CLASS_CPU);
    join_at(2, "tcp://10.0.0.1:12", 50, CLASS_CPU);
    expect_units(1, 0, 0, 3);
    expect_units(2, 0, 3, 3);
    proof(3);
    message.proof.seen[0].hash++;
    deliver(3);
    pod_stored_all(1);
    pod_stored_all(2);
    expect_units(1, 1, 0, 2);
    end_course();
}
END_TEST

static void leave_with_one_stored(uint64_t pod) {
    const SchedState *state = state_for(pod);
    uint32_t batches = state->batches_count;
    pod_state(pod, POD_LEAVING, state->batch_base, (1u << batches) - 1);
    message.pod_state.counts[0] = 1;
    deliver(pod);
    ck_assert_int_eq(state_for(pod)->phase, SCHED_OVER);
    ck_assert_int_eq(state_for(pod)->exit_code, 0);
    bye(pod);
    deliver(pod);
}

/* However many leave, also the only one that is there, the job goes on from its start with who is there next. */
START_TEST(leaving_is_no_fault_of_a_round) {
    begin_course(2);
    for (uint64_t pod = 1; pod <= 3; pod++) {
        leave_with_one_stored(pod);
        ck_assert_uint_eq(sched_units_done(core), 0);
        if (pod >= 2) {
            wait_ms(1000);
            join_at(pod + 1, "tcp://10.0.0.2:11", 100, CLASS_CPU);
        }
        expect_units(pod + 1, 0, 0, 6);
    }
    ck_assert_uint_eq(sched_fenced(core), 0);
    pod_stored_all(4);
    expect_units(4, 1, 0, 4);
    pod_stored_all(4);
    pod_flushed(4);
    ck_assert_ptr_nonnull(action_of(SCHED_ACTION_PUBLISH, 0, 0));
    end_course();
}
END_TEST

/* When all is stored, and only some of it is not on the disk yet, leaving costs nothing. */
START_TEST(leaving_at_the_end_computes_nothing_again) {
    begin_course(1);
    pod_stored_all(1);
    pod_stored_all(2);
    pod_state(1, POD_LEAVING, state_for(1)->batch_base, 0);
    deliver(1);
    ck_assert_uint_eq(sched_units_done(core), 6);
    pod_state(1, POD_LEAVING, state_for(1)->batch_base, 0);
    message.pod_state.flushed = state_for(1)->flush;
    deliver(1);
    pod_flushed(2);
    ck_assert_ptr_nonnull(action_of(SCHED_ACTION_PUBLISH, 0, 0));
    end_course();
}
END_TEST

int main(void) {
    TCase *cases = cases_new();
    tcase_add_test(cases, rounds_follow_one_another);
    tcase_add_test(cases, what_earlier_rounds_stored_is_brought_to_the_disk);
    tcase_add_test(cases, a_loss_begins_all_rounds_again);
    tcase_add_test(cases, rounds_are_shared_by_who_can_work);
    tcase_add_test(cases, leaving_is_no_fault_of_a_round);
    tcase_add_test(cases, leaving_at_the_end_computes_nothing_again);
    return cases_run("sched_%s", cases);
}
