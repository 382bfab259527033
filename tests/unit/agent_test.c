/* A pod's agent, step by step: what it says, what it takes on, and with which code it ends. */
#include "runtime/pod/agent.h"

#include <check.h>
#include <string.h>

static Agent agent;
static AgentActions actions;
static WireMessage message, composed;
static uint64_t now, seq;

static void setup(void) {
    AgentConfig config = {.hello_ms = 100, .hello = {.protocol_min = 1, .protocol_max = 1, .memory = 1000, .threads = 1}};
    now = 1000;
    seq = 0;
    agent_init(&agent, &config, now);
}

static void step(AgentEvent event) {
    agent_step(&agent, &event, now, &actions);
    ck_assert_int_le(actions.count, AGENT_MAX_ACTIONS);
}

static const AgentAction *action_of(AgentActionKind kind, int type) {
    for (int i = 0; i < actions.count; i++)
        if (actions.items[i].kind == kind && (type == 0 || actions.items[i].type == type))
            return &actions.items[i];
    return NULL;
}

static int runs(void) {
    int count = 0;
    for (int i = 0; i < actions.count; i++)
        count += actions.items[i].kind == AGENT_ACTION_RUN;
    return count;
}

static void from_scheduler(WireType type) {
    memset(&message, 0, sizeof message);
    message.header = (WireHeader){.type = (uint16_t)type, .job_id = {9}, .sched_epoch = 1, .seq = ++seq};
}

static void deliver(void) {
    step((AgentEvent){.kind = AGENT_EVENT_MESSAGE, .message = &message});
}

static void welcome(void) {
    step((AgentEvent){.kind = AGENT_EVENT_TICK});
    from_scheduler(WIRE_WELCOME);
    message.welcome.token = 77;
    message.welcome.heartbeat_ms = 1000;
    message.welcome.lease_ms = 5000;
    message.welcome.dead_ms = 10000;
    deliver();
    ck_assert_ptr_nonnull(action_of(AGENT_ACTION_PROVE, 0));
}

static void prove(void) {
    static const WireSeen seen[2] = {{.hash = 1}, {.hash = 2}};
    step((AgentEvent){.kind = AGENT_EVENT_PROVED, .seen = seen, .seen_count = 2});
    ck_assert_ptr_nonnull(action_of(AGENT_ACTION_SEND, WIRE_PROOF));
}

static void state(SchedPhase phase, uint64_t base, uint32_t count) {
    from_scheduler(WIRE_SCHED_STATE);
    message.sched_state.token = 77;
    message.sched_state.phase = (uint8_t)phase;
    message.sched_state.batch_base = base;
    message.sched_state.batches_count = count;
    for (uint32_t i = 0; i < count; i++)
        message.sched_state.batches[i] = (WireBatch){.first = base + i, .count = 1, .step = 1};
}

static const PodState *compose_state(void) {
    agent_compose(&agent, WIRE_POD_STATE, &composed);
    return &composed.pod_state;
}

START_TEST(says_hello_until_it_is_answered) {
    for (int i = 0; i < 5; i++) {
        step((AgentEvent){.kind = AGENT_EVENT_TICK});
        ck_assert_ptr_nonnull(action_of(AGENT_ACTION_SEND, WIRE_HELLO));
        now += 50;
        step((AgentEvent){.kind = AGENT_EVENT_TICK});
        ck_assert_ptr_null(action_of(AGENT_ACTION_SEND, 0));
        now += 50;
    }
    now += 3600000; /* a pod waits for a scheduler as long as it takes */
    step((AgentEvent){.kind = AGENT_EVENT_TICK});
    ck_assert_ptr_null(action_of(AGENT_ACTION_EXIT, 0));
}
END_TEST

START_TEST(proves_once_for_two_welcomes) {
    welcome();
    from_scheduler(WIRE_WELCOME);
    message.welcome.token = 77;
    deliver();
    ck_assert_int_eq(actions.count, 0);
}
END_TEST

START_TEST(sends_its_proof_again_until_it_is_read) {
    welcome();
    prove();
    now += 1000;
    step((AgentEvent){.kind = AGENT_EVENT_TICK});
    ck_assert_ptr_nonnull(action_of(AGENT_ACTION_SEND, WIRE_PROOF));
    agent_compose(&agent, WIRE_PROOF, &composed);
    ck_assert_uint_eq(composed.proof.seen_count, 2);
    ck_assert_uint_eq(composed.proof.seen[1].hash, 2);
    state(SCHED_RUN, 0, 0);
    deliver();
    now += 1000;
    step((AgentEvent){.kind = AGENT_EVENT_TICK});
    ck_assert_ptr_null(action_of(AGENT_ACTION_SEND, WIRE_PROOF));
    ck_assert_ptr_nonnull(action_of(AGENT_ACTION_SEND, WIRE_POD_STATE));
}
END_TEST

START_TEST(runs_each_batch_once) {
    welcome();
    prove();
    state(SCHED_RUN, 0, 3);
    deliver();
    ck_assert_int_eq(runs(), 3);
    state(SCHED_RUN, 0, 4);
    deliver();
    ck_assert_int_eq(runs(), 1);
    ck_assert_uint_eq(action_of(AGENT_ACTION_RUN, 0)->batch_number, 3);
    deliver(); /* the same message again */
    ck_assert_int_eq(runs(), 0);
}
END_TEST

/* Where tiles travel between pods, nothing runs before it is known where they are at home. */
START_TEST(waits_for_its_peers) {
    welcome();
    prove();
    state(SCHED_RUN, 0, 2);
    message.sched_state.peers = 1;
    deliver();
    ck_assert_int_eq(runs(), 0);
    compose_state();
    ck_assert_uint_eq(composed.header.plan_epoch, 0);
    uint64_t token = message.sched_state.token;
    for (int again = 0; again < 2; again++) {
        memset(&message.peers, 0, sizeof message.peers);
        message.header.type = WIRE_PEERS;
        message.header.plan_epoch = 1;
        message.peers.token = token + (again == 0);
        deliver();
        ck_assert(again == 0 ? actions.count == 0 : action_of(AGENT_ACTION_PEERS, 0) != NULL);
    }
    compose_state();
    ck_assert_uint_eq(composed.header.plan_epoch, 1);
    deliver(); /* repeated */
    ck_assert_int_eq(actions.count, 0);
    message.header.plan_epoch = 3; /* pods were lost */
    deliver();
    ck_assert_ptr_nonnull(action_of(AGENT_ACTION_PEERS, 0));
    message.header.plan_epoch = 2; /* late */
    deliver();
    ck_assert_ptr_null(action_of(AGENT_ACTION_PEERS, 0));
    for (uint32_t epoch = 2; epoch <= 3; epoch++) { /* what was dealt among other pods is no more */
        state(SCHED_RUN, 0, 2);
        message.header.plan_epoch = epoch;
        message.sched_state.peers = 1;
        deliver();
        ck_assert_int_eq(runs(), epoch == 3 ? 2 : 0);
    }
}
END_TEST

START_TEST(says_which_batches_are_done) {
    welcome();
    prove();
    state(SCHED_RUN, 0, 4);
    deliver();
    step((AgentEvent){.kind = AGENT_EVENT_BATCH_DONE, .batch = 2, .units = 1, .checksum = 22});
    ck_assert_ptr_nonnull(action_of(AGENT_ACTION_SEND, WIRE_POD_STATE));
    ck_assert_uint_eq(compose_state()->done, 4);
    step((AgentEvent){.kind = AGENT_EVENT_BATCH_DONE, .batch = 0, .checksum = 20});
    ck_assert_uint_eq(compose_state()->done, 5);
    ck_assert_uint_eq(compose_state()->checksums[0], 20);
    ck_assert_uint_eq(compose_state()->checksums[2], 22);
    state(SCHED_RUN, 1, 4); /* the scheduler knows the first one done; the bits move */
    deliver();
    ck_assert_int_eq(runs(), 1);
    ck_assert_uint_eq(compose_state()->batch_base, 1);
    ck_assert_uint_eq(compose_state()->done, 2);
    ck_assert_uint_eq(compose_state()->checksums_count, 4);
    ck_assert_uint_eq(compose_state()->checksums[1], 22);
    ck_assert_uint_eq(compose_state()->counts[1], 1);
}
END_TEST

START_TEST(a_state_that_does_not_follow_is_dropped) {
    welcome();
    prove();
    state(SCHED_RUN, UINT64_MAX - 1, 16);
    deliver();
    ck_assert_int_eq(runs(), 0);
    state(SCHED_RUN, 0, 1);
    deliver();
    ck_assert_int_eq(runs(), 1);
    state(SCHED_RUN, 5, 2); /* batches 1 .. 4 were dealt and withdrawn, and it never heard of them */
    deliver();
    ck_assert_int_eq(runs(), 2);
    ck_assert_uint_eq(actions.items[0].batch_number, 5);
    state(SCHED_RUN, 4, 3);
    deliver();
    ck_assert_int_eq(runs(), 0);
    step((AgentEvent){.kind = AGENT_EVENT_BATCH_DONE, .batch = 0}); /* what was withdrawn ends, and means nothing */
    ck_assert_uint_eq(compose_state()->done, 0);
}
END_TEST

typedef enum Stranger { STRANGER_TOKEN, STRANGER_JOB, STRANGER_EPOCH, STRANGER_SEQ, STRANGER_COUNT } Stranger;

START_TEST(strangers_are_not_obeyed) {
    welcome();
    prove();
    state(SCHED_OVER, 0, 0);
    if (_i == STRANGER_TOKEN)
        message.sched_state.token++;
    if (_i == STRANGER_JOB)
        message.header.job_id[0]++;
    if (_i == STRANGER_EPOCH)
        message.header.sched_epoch++;
    if (_i == STRANGER_SEQ)
        message.header.seq = 0;
    deliver();
    ck_assert_int_eq(actions.count, 0);
}
END_TEST

/* Beside its work, once for each number that it is asked with. */
START_TEST(flushes_when_it_is_asked) {
    welcome();
    prove();
    for (uint32_t number = 1; number <= 3; number++) {
        for (int again = 0; again < 2; again++) {
            state(SCHED_RUN, 0, 2);
            message.sched_state.flush = number;
            deliver();
            ck_assert((action_of(AGENT_ACTION_FLUSH, 0) != NULL) == (again == 0));
        }
        ck_assert_uint_eq(compose_state()->flushed, number - 1);
        step((AgentEvent){.kind = AGENT_EVENT_FLUSHED});
        ck_assert_ptr_nonnull(action_of(AGENT_ACTION_SEND, WIRE_POD_STATE));
        ck_assert_uint_eq(compose_state()->flushed, number);
    }
}
END_TEST

/* SIGTERM: what has begun is ended, what comes after it is handed back, and the scheduler says when it may go. */
START_TEST(leaves_when_its_work_is_done) {
    welcome();
    prove();
    state(SCHED_RUN, 0, 2);
    deliver();
    step((AgentEvent){.kind = AGENT_EVENT_STOP, .text = "the user"});
    ck_assert_ptr_nonnull(action_of(AGENT_ACTION_DRAIN, 0));
    ck_assert_ptr_nonnull(action_of(AGENT_ACTION_SEND, WIRE_POD_STATE));
    ck_assert_uint_eq(compose_state()->phase, POD_LEAVING);
    ck_assert_uint_eq(compose_state()->done, 0);
    state(SCHED_RUN, 0, 4); /* it was on its way */
    deliver();
    ck_assert_int_eq(runs(), 0);
    ck_assert_uint_eq(compose_state()->done, 12);
    ck_assert_uint_eq(compose_state()->counts[2], 0);
    step((AgentEvent){.kind = AGENT_EVENT_BATCH_DONE, .batch = 0, .units = 1, .checksum = 20});
    step((AgentEvent){.kind = AGENT_EVENT_BATCH_DONE, .batch = 1, .units = 0});
    ck_assert_uint_eq(compose_state()->done, 15);
    state(SCHED_RUN, 4, 0);
    message.sched_state.flush = 1;
    deliver();
    ck_assert_ptr_nonnull(action_of(AGENT_ACTION_FLUSH, 0));
    step((AgentEvent){.kind = AGENT_EVENT_FLUSHED});
    state(SCHED_OVER, 4, 0);
    deliver();
    ck_assert_int_eq(action_of(AGENT_ACTION_EXIT, 0)->exit_code, 0);
}
END_TEST

/* The lease counts from when the pod sent what the scheduler has acknowledged, however late it reads that. */
START_TEST(the_lease_is_of_what_was_acknowledged) {
    welcome();
    ck_assert_uint_eq(agent_lease_end(&agent), 0);
    uint64_t sent = now;
    prove();
    agent_compose(&agent, WIRE_PROOF, &composed);
    uint64_t seq_of_proof = composed.header.seq;
    state(SCHED_RUN, 0, 1);
    deliver();
    ck_assert_uint_eq(agent_lease_end(&agent), 0);
    now += 3000;
    state(SCHED_RUN, 0, 1);
    message.header.ack = seq_of_proof;
    deliver();
    ck_assert_uint_eq(agent_lease_end(&agent), sent + 5000);
    step((AgentEvent){.kind = AGENT_EVENT_TICK});
    compose_state();
    uint64_t probed = now, seq_of_state = composed.header.seq;
    now += 30000; /* it is stopped, and goes on: what lay in its buffers is from before */
    state(SCHED_RUN, 0, 1);
    message.header.ack = seq_of_state;
    deliver();
    ck_assert_uint_eq(agent_lease_end(&agent), probed + 5000);
    step((AgentEvent){.kind = AGENT_EVENT_TICK});
    ck_assert_int_eq(action_of(AGENT_ACTION_EXIT, 0)->exit_code, 75);
    ck_assert_uint_eq(agent_lease_end(&agent), 0);
}
END_TEST

typedef struct Ending {
    const char *what;
    int code;
    bool bye;
} Ending;

static const Ending endings[] = {
    {"done", 0, true}, {"failed", 1, true}, {"refused", 78, false}, {"fenced", 75, false}, {"silence", 75, true}, {"stop", 1, true}, /* said twice */
    {"stop early", 0, false}, {"broken", 1, false}, /* it has failed, and is told that it is fenced */
};

START_TEST(ends_with_the_right_code) {
    const Ending *ending = &endings[_i];
    bool joined = strcmp(ending->what, "refused") != 0 && strcmp(ending->what, "fenced") != 0 && strcmp(ending->what, "stop early") != 0;
    if (joined) {
        welcome();
        prove();
    }
    if (strcmp(ending->what, "silence") == 0) {
        now += 10000;
        step((AgentEvent){.kind = AGENT_EVENT_TICK});
    } else if (strncmp(ending->what, "stop", 4) == 0) {
        if (joined)
            step((AgentEvent){.kind = AGENT_EVENT_STOP, .text = "the user"});
        step((AgentEvent){.kind = AGENT_EVENT_STOP, .text = "the user"});
    } else if (strcmp(ending->what, "broken") == 0) {
        step((AgentEvent){.kind = AGENT_EVENT_FAILED, .text = "the device is lost"});
        from_scheduler(WIRE_REJECT);
        message.reject.code = REJECT_FENCED;
        deliver();
        ck_assert_str_eq(action_of(AGENT_ACTION_EXIT, 0)->text, "the device is lost");
    } else if (joined) {
        state(SCHED_OVER, 0, 0);
        message.sched_state.exit_code = strcmp(ending->what, "failed") == 0;
        deliver();
    } else {
        from_scheduler(WIRE_REJECT);
        message.reject.code = strcmp(ending->what, "fenced") == 0 ? REJECT_FENCED : REJECT_BUILD;
        strcpy(message.reject.text, "another build");
        deliver();
    }
    const AgentAction *exit = action_of(AGENT_ACTION_EXIT, 0);
    ck_assert_msg(exit != NULL, "%s", ending->what);
    ck_assert_msg(exit->exit_code == ending->code, "%s: %d", ending->what, exit->exit_code);
    ck_assert_msg((action_of(AGENT_ACTION_SEND, WIRE_BYE) != NULL) == ending->bye, "%s", ending->what);
    step((AgentEvent){.kind = AGENT_EVENT_TICK}); /* over is over */
    ck_assert_int_eq(actions.count, 0);
}
END_TEST

START_TEST(a_failure_is_told_and_waits_for_the_end) {
    welcome();
    prove();
    step((AgentEvent){.kind = AGENT_EVENT_FAILED, .text = "disk full"});
    ck_assert_ptr_null(action_of(AGENT_ACTION_EXIT, 0));
    ck_assert_uint_eq(compose_state()->phase, POD_FAILED);
    ck_assert_str_eq(compose_state()->text, "disk full");
    state(SCHED_OVER, 0, 0);
    message.sched_state.exit_code = 1;
    deliver();
    ck_assert_int_eq(action_of(AGENT_ACTION_EXIT, 0)->exit_code, 1);
}
END_TEST

START_TEST(introduces_itself_when_asked) {
    welcome();
    from_scheduler(WIRE_WHO);
    deliver();
    ck_assert_ptr_nonnull(action_of(AGENT_ACTION_SEND, WIRE_HELLO));
}
END_TEST

/* What it has of the job is worth nothing there: it comes as another pod. */
START_TEST(joins_the_scheduler_that_comes_after_its_own) {
    welcome();
    prove();
    from_scheduler(WIRE_WHO);
    message.header.sched_epoch = 2;
    deliver();
    ck_assert_ptr_null(action_of(AGENT_ACTION_SEND, 0));
    const AgentAction *end = action_of(AGENT_ACTION_EXIT, 0);
    ck_assert_ptr_nonnull(end);
    ck_assert(end->next);
    ck_assert_int_eq(end->exit_code, 75);
}
END_TEST

START_TEST(progress_grows_with_the_work) {
    welcome();
    prove();
    uint64_t before = compose_state()->progress;
    step((AgentEvent){.kind = AGENT_EVENT_PROGRESS, .units = 12});
    ck_assert_uint_gt(compose_state()->progress, before);
    ck_assert_uint_eq(compose_state()->units, 12);
}
END_TEST

/* Without --persist it goes on with its job under another scheduler, whatever that calls it, and with no other job. */
START_TEST(goes_on_with_the_same_job_alone) {
    AgentConfig config = {.hello_ms = 100};
    for (int other = 0; other < 4; other++) {
        agent_init(&agent, &config, now);
        step((AgentEvent){.kind = AGENT_EVENT_TICK});
        from_scheduler(WIRE_WELCOME);
        message.header.job_id[0] = (uint8_t)other;
        message.welcome = (Welcome){.token = 78, .kernel = other == 1, .scalars_count = 1, .scalars = {other == 2}, .tensors_count = 1};
        message.welcome.dims[message.welcome.dims_count++] = other;
        strcpy(message.welcome.tensors[0].path, other == 3 ? "/data/b.npy" : "/data/a.npy");
        message.welcome.tensors[0].staging[0] = (char)('a' + other);
        deliver();
        const AgentAction *end = action_of(AGENT_ACTION_EXIT, 0);
        ck_assert_msg((action_of(AGENT_ACTION_PROVE, 0) != NULL) == (other == 0), "%d", other);
        ck_assert_msg((end != NULL) == (other != 0), "%d", other);
        if (end != NULL)
            ck_assert(end->exit_code == 75 && !end->next && action_of(AGENT_ACTION_SEND, WIRE_BYE) != NULL);
        ck_assert_uint_ne(agent.job, 0);
        if (other == 0)
            config.job = agent.job;
        agent_init(&agent, &config, now);
        ck_assert_uint_eq(agent.job, config.job); /* also where that scheduler says nothing */
    }
    config.job = 0;
    agent_init(&agent, &config, now);
    welcome();
}
END_TEST

int main(void) {
    Suite *suite = suite_create("agent");
    TCase *cases = tcase_create("agent");
    tcase_add_checked_fixture(cases, setup, NULL);
    tcase_add_test(cases, says_hello_until_it_is_answered);
    tcase_add_test(cases, proves_once_for_two_welcomes);
    tcase_add_test(cases, sends_its_proof_again_until_it_is_read);
    tcase_add_test(cases, runs_each_batch_once);
    tcase_add_test(cases, waits_for_its_peers);
    tcase_add_test(cases, says_which_batches_are_done);
    tcase_add_test(cases, a_state_that_does_not_follow_is_dropped);
    tcase_add_loop_test(cases, strangers_are_not_obeyed, 0, STRANGER_COUNT);
    tcase_add_test(cases, flushes_when_it_is_asked);
    tcase_add_test(cases, leaves_when_its_work_is_done);
    tcase_add_test(cases, the_lease_is_of_what_was_acknowledged);
    tcase_add_loop_test(cases, ends_with_the_right_code, 0, sizeof endings / sizeof endings[0]);
    tcase_add_test(cases, a_failure_is_told_and_waits_for_the_end);
    tcase_add_test(cases, introduces_itself_when_asked);
    tcase_add_test(cases, joins_the_scheduler_that_comes_after_its_own);
    tcase_add_test(cases, progress_grows_with_the_work);
    tcase_add_test(cases, goes_on_with_the_same_job_alone);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
