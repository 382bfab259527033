/* The scheduler's core. What pods are told of one another. */
#include "sched_fixture.h"

/* Pods are told what all of them have room for, and how to reach those of other hosts, until they know. */
START_TEST(peers_are_named_until_they_are_known) {
    config.nodes = 3;
    count_asked();
    begin();
    join_at(1, "tcp://10.0.0.1:11", 100, CLASS_CPU);
    join_at(2, "tcp://10.0.0.1:12", 100, CLASS_CPU);
    join_at(3, "tcp://10.0.0.2:11", 80, CLASS_CPU);
    ck_assert_int_eq(asked, 2); /* once for each memory */
    ck_assert_int_eq(asked_memory[0], 100);
    ck_assert_int_eq(asked_memory[1], 80);
    for (uint64_t pod = 1; pod <= 3; pod++) {
        ck_assert_ptr_nonnull(action_of(SCHED_ACTION_SEND, pod, WIRE_PEERS));
        ck_assert(state_for(pod)->peers);
    }
    const Peers *peers = peers_for(2);
    ck_assert_uint_eq(peers->token, tokens[2]);
    ck_assert_uint_eq(peers->node, 1);
    ck_assert_uint_eq(peers->fetched, 6);
    ck_assert_uint_eq(peers->peers_count, 3);
    ck_assert_str_eq(peers->peers[0].endpoint, "tcp://10.0.0.1:11");
    ck_assert(peers->peers[0].near);
    ck_assert_str_eq(peers->peers[1].endpoint, ""); /* its own */
    ck_assert_str_eq(peers->peers[2].endpoint, "tcp://10.0.0.2:11");
    ck_assert(!peers->peers[2].near);
    ck_assert_str_eq(peers_for(3)->peers[1].endpoint, "tcp://10.0.0.1:12");
    pod_state(2, POD_READY, 0, 0);
    message.header.plan_epoch = 1;
    deliver(2);
    wait_ms(config.heartbeat_ms + 100);
    wait_ms(100);
    for (uint64_t left = config.heartbeat_ms; left > 0 && !action_of(SCHED_ACTION_SEND, 1, WIRE_PEERS); left -= 100)
        wait_ms(100);
    ck_assert_ptr_nonnull(action_of(SCHED_ACTION_SEND, 1, WIRE_PEERS));
    ck_assert_ptr_null(action_of(SCHED_ACTION_SEND, 2, WIRE_PEERS));
}
END_TEST

/* Pods of one host share the page cache. */
START_TEST(pods_of_one_host_have_no_peers) {
    config.nodes = 2;
    count_asked();
    begin();
    join_at(1, "tcp://10.0.0.1:11", 100, CLASS_CPU);
    join_at(2, "tcp://10.0.0.1:12", 100, CLASS_CPU);
    ck_assert(!state_for(1)->peers);
    ck_assert_ptr_null(action_of(SCHED_ACTION_SEND, 1, WIRE_PEERS));
}
END_TEST

START_TEST(cards_have_no_peers) {
    config.nodes = 2;
    count_asked();
    begin();
    join_at(1, "tcp://10.0.0.1:11", 100, CLASS_GPU);
    join_at(2, "tcp://10.0.0.2:12", 100, CLASS_GPU);
    ck_assert(!state_for(1)->peers);
}
END_TEST

/* Tiles of a lost pod come from files: pods are told. */
START_TEST(peers_learn_who_is_lost) {
    config.nodes = 2;
    count_asked();
    begin();
    join_at(1, "tcp://10.0.0.1:11", 100, CLASS_CPU);
    join_at(2, "tcp://10.0.0.2:12", 100, CLASS_CPU);
    ck_assert_str_eq(peers_for(1)->peers[1].endpoint, "tcp://10.0.0.2:12");
    pod_state(1, POD_READY, 0, 0);
    message.header.plan_epoch = 1;
    deliver(1);
    bye(2);
    deliver(2);
    ck_assert_ptr_nonnull(action_of(SCHED_ACTION_SEND, 1, WIRE_PEERS));
    ck_assert_str_eq(peers_for(1)->peers[1].endpoint, "");
    ck_assert_uint_eq(composed.header.plan_epoch, 2);
}
END_TEST

int main(void) {
    TCase *cases = cases_new();
    tcase_add_test(cases, peers_are_named_until_they_are_known);
    tcase_add_test(cases, pods_of_one_host_have_no_peers);
    tcase_add_test(cases, cards_have_no_peers);
    tcase_add_test(cases, peers_learn_who_is_lost);
    return cases_run("sched_%s", cases);
}
