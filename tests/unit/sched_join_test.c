/* The scheduler's core. Who is taken in, who is refused and how that is said, and when a job begins. */
#include "sched_fixture.h"

#include <limits.h>
#include <string.h>

START_TEST(begins_when_nobody_has_come_for_the_window) {
    begin();
    join_and_prove(1);
    wait_ms(1500);
    join_and_prove(2);
    wait_ms(1500);
    ck_assert_uint_eq(state_for(1)->batches_count, 0);
    wait_ms(600);
    ck_assert_uint_gt(state_for(1)->batches_count, 0);
    ck_assert_uint_gt(state_for(2)->batches_count, 0);
}
END_TEST

START_TEST(begins_with_the_nodes_asked_for) {
    config.nodes = 2;
    begin();
    join_and_prove(1);
    wait_ms(5000);
    ck_assert_uint_eq(state_for(1)->batches_count, 0);
    pod_state(1, POD_READY, 0, 0);
    deliver(1);
    join_and_prove(2);
    ck_assert_uint_gt(state_for(2)->batches_count, 0);
}
END_TEST

START_TEST(names_who_came_when_not_enough_did) {
    config.nodes = 3;
    config.join_timeout_ms = 3000;
    begin();
    join_and_prove(1);
    join_and_prove(2);
    wait_ms(3000);
    ck_assert_str_eq(end_text(), "waited 3 s for 3 pods; came: n1, n2");
    ck_assert_int_eq(end_code(), 1);
}
END_TEST

START_TEST(says_that_nobody_came) {
    begin();
    wait_ms(60000);
    ck_assert_str_eq(end_text(), "waited 60 s for 1 pod; came: none");
}
END_TEST

START_TEST(refuses_another_build_with_both_ids) {
    begin();
    hello(1);
    message.hello.build_id[0] = 0xab;
    deliver(1);
    const SchedAction *send = action_of(SCHED_ACTION_SEND, 1, WIRE_REJECT);
    ck_assert_ptr_nonnull(send);
    ck_assert_int_eq(send->reject_code, REJECT_BUILD);
    ck_assert_ptr_nonnull(strstr(send->text, "ab000000000000000000000000000000"));
    ck_assert_ptr_nonnull(strstr(send->text, "01000000000000000000000000000000"));
    ck_assert_ptr_nonnull(action_of(SCHED_ACTION_LOG, 0, 0));
}
END_TEST

/* Where keys are in use, a pod's name is its key's. */
START_TEST(keys_prove_names) {
    begin();
    hello(1);
    step((SchedEvent){.kind = SCHED_EVENT_MESSAGE, .connection = 1, .message = &message, .sender = "n2"});
    const SchedAction *send = action_of(SCHED_ACTION_SEND, 1, WIRE_REJECT);
    ck_assert_ptr_nonnull(send);
    ck_assert_int_eq(send->reject_code, REJECT_NAME);
    ck_assert_uint_eq(sched_pod_count(core), 0);
    step((SchedEvent){.kind = SCHED_EVENT_MESSAGE, .connection = 1, .message = &message, .sender = "n1"});
    ck_assert_ptr_nonnull(action_of(SCHED_ACTION_SEND, 1, WIRE_WELCOME));
    ck_assert_uint_eq(sched_pod_count(core), 1);
}
END_TEST

typedef struct Refused {
    uint16_t protocol_min, protocol_max;
    int joined;
    RejectCode code;
} Refused;

static const Refused refused[] = {
    {WIRE_PROTOCOL + 1, WIRE_PROTOCOL + 5, 0, REJECT_PROTOCOL},
    {0, WIRE_PROTOCOL - 1, 0, REJECT_PROTOCOL},
    {WIRE_PROTOCOL, WIRE_PROTOCOL, 4, REJECT_FULL},
};

START_TEST(refuses_whom_it_cannot_take) {
    begin();
    for (int i = 0; i < refused[_i].joined; i++)
        join(2 + (uint64_t)i);
    hello(1);
    message.hello.protocol_min = refused[_i].protocol_min;
    message.hello.protocol_max = refused[_i].protocol_max;
    deliver(1);
    const SchedAction *send = action_of(SCHED_ACTION_SEND, 1, WIRE_REJECT);
    ck_assert_ptr_nonnull(send);
    ck_assert_int_eq(send->reject_code, refused[_i].code);
}
END_TEST

typedef struct Impossible {
    uint8_t class;
    uint32_t threads;
    uint64_t memory;
    const char *text; /* NULL: it is taken */
} Impossible;

static const Impossible impossible[] = {
    {CLASS_COUNT, 1, 1, "its device is of a class that is not known here"},
    {CLASS_CPU, 0, 1, "it says a number of threads that cannot be"},
    {CLASS_CPU, (uint32_t)INT_MAX + 1, 1, "it says a number of threads that cannot be"},
    {CLASS_CPU, 1, 0, "it says an amount of memory that cannot be"},
    {CLASS_CPU, 1, (uint64_t)INT64_MAX + 1, "it says an amount of memory that cannot be"},
    {CLASS_CPU, INT_MAX, INT64_MAX, NULL},
};

/* They are counted with from there on, as signed numbers. */
START_TEST(refuses_numbers_that_cannot_be) {
    const Impossible *numbers = &impossible[_i];
    begin();
    hello(1);
    message.hello.device_class = numbers->class;
    message.hello.threads = numbers->threads;
    message.hello.memory = numbers->memory;
    deliver(1);
    const SchedAction *send = action_of(SCHED_ACTION_SEND, 1, numbers->text ? WIRE_REJECT : WIRE_WELCOME);
    ck_assert_ptr_nonnull(send);
    ck_assert_uint_eq(sched_pod_count(core), numbers->text == NULL);
    if (numbers->text) {
        ck_assert_int_eq(send->reject_code, REJECT_DEVICE);
        ck_assert_str_eq(send->text, numbers->text);
    }
}
END_TEST

START_TEST(takes_a_range_of_protocols_that_holds_ours) {
    begin();
    hello(1);
    message.hello.protocol_min = 0;
    message.hello.protocol_max = 900;
    deliver(1);
    ck_assert_ptr_nonnull(action_of(SCHED_ACTION_SEND, 1, WIRE_WELCOME));
}
END_TEST

typedef struct Difference {
    int tensor;
    WireSeen seen;
    const char *text;
} Difference;

static const Difference differences[] = {
    {0, {.error = 2}, "pod n1 cannot open '/data/a.npy' as the scheduler does: No such file or directory"},
    {0, {.size = 99, .mtime_ns = 5, .hash = 7}, "pod n1 sees '/data/a.npy' with 99 bytes, the scheduler with 100"},
    {0, {.size = 100, .mtime_ns = 6, .hash = 7}, "pod n1 sees another modification time of '/data/a.npy' than the scheduler: is it the same file?"},
    {0, {.size = 100, .mtime_ns = 5, .hash = 8}, "pod n1 reads other bytes in '/data/a.npy' than the scheduler"},
    {1, {.staging_error = 13}, "pod n1 cannot open the staging file '/data/.c.npy.part': Permission denied"},
    {1, {.nonce = 8}, "pod n1 reads another mark in the staging file '/data/.c.npy.part' than the scheduler wrote"},
};

START_TEST(a_pod_that_sees_other_files_ends_the_job) {
    begin();
    join(1);
    proof(1);
    message.proof.seen[differences[_i].tensor] = differences[_i].seen;
    deliver(1);
    ck_assert_str_eq(end_text(), differences[_i].text);
    ck_assert_int_eq(end_code(), 1);
}
END_TEST

/* What a pod that has gone left on the disk has the bits of its device. */
START_TEST(a_job_stays_on_the_device_of_what_is_stored) {
    config.nodes = 1;
    begin();
    join_at(1, "", 100, CLASS_GPU);
    pod_stored(1, 1);
    const SchedState *state = state_for(1);
    pod_state(1, POD_LEAVING, state->batch_base, (1u << state->batches_count) - 1);
    deliver(1);
    pod_state(1, POD_LEAVING, state_for(1)->batch_base, 0);
    message.pod_state.flushed = state_for(1)->flush;
    deliver(1);
    bye(1);
    deliver(1);
    ck_assert_uint_gt(sched_units_done(core), 0);
    hello(2);
    deliver(2);
    ck_assert_int_eq(action_of(SCHED_ACTION_SEND, 2, WIRE_REJECT)->reject_code, REJECT_DEVICE);
    join_at(3, "", 100, CLASS_GPU);
}
END_TEST

/* Other files at a late pod are no reason for a job that runs to end. */
START_TEST(a_late_pod_with_other_files_is_refused) {
    config.nodes = 1;
    begin();
    join_and_prove(1);
    join(2);
    proof(2);
    message.proof.seen[0].hash++;
    deliver(2);
    const SchedAction *send = action_of(SCHED_ACTION_SEND, 2, WIRE_REJECT);
    ck_assert_ptr_nonnull(send);
    ck_assert_int_eq(send->reject_code, REJECT_FILES);
    work(1);
    ck_assert_uint_eq(sched_units_done(core), 10);
}
END_TEST

/* A pod that is killed and started again and again does not use up the places. */
START_TEST(places_are_used_again) {
    config.nodes = 1;
    begin();
    join_and_prove(1);
    for (int again = 0; again < 50; again++) {
        hello(2);
        message.hello.incarnation[5] = (uint8_t)(again + 1);
        deliver(2);
        ck_assert_ptr_nonnull(action_of(SCHED_ACTION_SEND, 2, WIRE_WELCOME));
        be_silent(2, 1);
    }
}
END_TEST

START_TEST(an_unknown_connection_is_asked_who_it_is) {
    begin();
    join_and_prove(1);
    pod_state(1, POD_READY, 0, 0);
    deliver(77);
    ck_assert_ptr_nonnull(action_of(SCHED_ACTION_SEND, 77, WIRE_WHO));
    hello(1); /* the same incarnation over another connection is the same pod */
    deliver(77);
    ck_assert_ptr_nonnull(action_of(SCHED_ACTION_SEND, 77, WIRE_WELCOME));
    ck_assert_uint_eq(sched_pod_count(core), 1);
}
END_TEST

int main(void) {
    TCase *cases = cases_new();
    tcase_add_test(cases, begins_when_nobody_has_come_for_the_window);
    tcase_add_test(cases, begins_with_the_nodes_asked_for);
    tcase_add_test(cases, names_who_came_when_not_enough_did);
    tcase_add_test(cases, says_that_nobody_came);
    tcase_add_test(cases, refuses_another_build_with_both_ids);
    tcase_add_test(cases, keys_prove_names);
    tcase_add_loop_test(cases, refuses_whom_it_cannot_take, 0, sizeof refused / sizeof refused[0]);
    tcase_add_loop_test(cases, refuses_numbers_that_cannot_be, 0, sizeof impossible / sizeof impossible[0]);
    tcase_add_test(cases, takes_a_range_of_protocols_that_holds_ours);
    tcase_add_loop_test(cases, a_pod_that_sees_other_files_ends_the_job, 0, sizeof differences / sizeof differences[0]);
    tcase_add_test(cases, a_job_stays_on_the_device_of_what_is_stored);
    tcase_add_test(cases, a_late_pod_with_other_files_is_refused);
    tcase_add_test(cases, places_are_used_again);
    tcase_add_test(cases, an_unknown_connection_is_asked_who_it_is);
    return cases_run("sched_%s", cases);
}
