/* The scheduler's core, step by step: who is taken in, who is refused and how that is said, how units are dealt, how a job ends. */
#include "runtime/sched/core.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static Welcome job;
static WireSeen expected[2];
static SchedConfig config;
static SchedCore *core;
static SchedActions actions;
static WireMessage message, composed;
static uint64_t now;

static PlacementPolicy policy;

static void setup(void) {
    memset(&job, 0, sizeof job);
    job.tensors_count = 2;
    strcpy(job.tensors[0].path, "/data/a.npy");
    strcpy(job.tensors[1].path, "/data/c.npy");
    strcpy(job.tensors[1].staging, "/data/.c.npy.part");
    expected[0] = (WireSeen){.size = 100, .mtime_ns = 5, .hash = 7};
    expected[1] = (WireSeen){.nonce = 9};
    config = (SchedConfig){
        .build_id = {1},
        .job_id = {2},
        .epoch = 1,
        .units = 10,
        .max_pods = 4,
        .join_window_ms = 2000,
        .join_timeout_ms = 60000,
        .heartbeat_ms = 1000,
        .lease_ms = 5000,
        .dead_ms = 10000,
        .progress_ms = 60000,
        .drain_ms = 1000,
        .job = &job,
        .expected = expected,
    };
    policy = PLACE_ROUND_ROBIN;
    now = 1000;
    core = NULL;
    actions.items = NULL;
}

static Problem problem; /* one row of super-tiles */
static const PhbKernel kernel;

static void begin(void) {
    problem = (Problem){.kernel = &kernel, .supers = {(int64_t)config.units, 1, 1}, .units = (int64_t)config.units};
    config.placement = placement_new(&problem, policy, config.max_pods);
    core = sched_core_new(&config, now, 1);
    actions.capacity = sched_actions_capacity(&config);
    actions.items = calloc(actions.capacity, sizeof actions.items[0]);
    ck_assert(core && actions.items);
}

static void teardown(void) {
    placement_free(config.placement);
    sched_core_free(core);
    free(actions.items);
}

static void step(SchedEvent event) {
    sched_step(core, &event, now, &actions);
    ck_assert_uint_le(actions.count, actions.capacity);
}

static const SchedAction *action_of(SchedActionKind kind, uint64_t connection, int type) {
    for (size_t i = 0; i < actions.count; i++) {
        const SchedAction *action = &actions.items[i];
        if (action->kind == kind && (connection == 0 || action->connection == connection) && (type == 0 || action->type == type))
            return action;
    }
    return NULL;
}

static void wait_ms(uint64_t ms) {
    for (uint64_t end = now + ms; now < end;) {
        now += 100;
        step((SchedEvent){.kind = SCHED_EVENT_TICK});
        if (action_of(SCHED_ACTION_FINISH, 0, 0))
            return;
    }
}

static uint64_t tokens[16];
static uint64_t seqs[16];

static void deliver(uint64_t connection) {
    step((SchedEvent){.kind = SCHED_EVENT_MESSAGE, .connection = connection, .message = &message});
}

static void from_pod(uint64_t pod, WireType type) {
    memset(&message, 0, sizeof message);
    message.header.type = (uint16_t)type;
    memcpy(message.header.job_id, config.job_id, 16);
    message.header.sched_epoch = config.epoch;
    message.header.seq = ++seqs[pod];
}

static void hello(uint64_t pod) {
    from_pod(pod, WIRE_HELLO);
    Hello *says = &message.hello;
    memcpy(says->build_id, config.build_id, 16);
    says->incarnation[0] = (uint8_t)pod;
    says->protocol_min = says->protocol_max = WIRE_PROTOCOL;
    says->node[0] = 'n';
    says->node[1] = (char)('0' + pod);
}

static void join(uint64_t pod) {
    seqs[pod] = 0;
    hello(pod);
    deliver(pod);
    const SchedAction *send = action_of(SCHED_ACTION_SEND, pod, WIRE_WELCOME);
    ck_assert_ptr_nonnull(send);
    ck_assert(sched_compose(core, send, &composed));
    ck_assert_uint_eq(composed.welcome.tensors_count, 2);
    tokens[pod] = composed.welcome.token;
}

static void proof(uint64_t pod) {
    from_pod(pod, WIRE_PROOF);
    message.proof.token = tokens[pod];
    message.proof.seen_count = 2;
    memcpy(message.proof.seen, expected, sizeof expected);
}

static void join_and_prove(uint64_t pod) {
    join(pod);
    proof(pod);
    deliver(pod);
}

static void pod_state(uint64_t pod, PodPhase phase, uint64_t base, uint32_t done) {
    from_pod(pod, WIRE_POD_STATE);
    message.pod_state.token = tokens[pod];
    message.pod_state.phase = (uint8_t)phase;
    message.pod_state.progress = seqs[pod];
    message.pod_state.batch_base = base;
    message.pod_state.done = done;
    message.pod_state.checksums_count = message.pod_state.counts_count = WIRE_BATCH_WINDOW;
    for (uint64_t i = 0; i < WIRE_BATCH_WINDOW; i++)
        message.pod_state.checksums[i] = 100 * pod + base + i;
}

static const SchedState *state_for(uint64_t pod) {
    SchedAction send = {.kind = SCHED_ACTION_SEND, .connection = pod, .type = WIRE_SCHED_STATE};
    ck_assert(sched_compose(core, &send, &composed));
    return &composed.sched_state;
}

/* Batches from the scheduler's base on, a bit each, are stored as a whole. */
static void pod_stored(uint64_t pod, uint32_t done) {
    const SchedState *state = state_for(pod);
    pod_state(pod, POD_READY, state->batch_base, done);
    for (uint32_t i = 0; i < state->batches_count; i++)
        message.pod_state.counts[i] = state->batches[i].count;
    deliver(pod);
}

static void pod_stored_all(uint64_t pod) {
    pod_stored(pod, (1u << state_for(pod)->batches_count) - 1);
}

/* What it was asked to bring to the disk is there. */
static void pod_flushed(uint64_t pod) {
    const SchedState *state = state_for(pod);
    pod_state(pod, POD_READY, state->batch_base, 0);
    message.pod_state.flushed = state->flush;
    deliver(pod);
}

static const char *end_text(void) {
    for (int i = 0; i < 20; i++) {
        const SchedAction *finish = action_of(SCHED_ACTION_FINISH, 0, 0);
        if (finish)
            return finish->text;
        wait_ms(100);
    }
    ck_abort_msg("the job does not end");
}

static int end_code(void) {
    end_text();
    return action_of(SCHED_ACTION_FINISH, 0, 0)->exit_code;
}

/* Runs the job to its end on the pods that have joined: each says at once that all it holds is stored. */
static void work(uint64_t pods) {
    for (int round = 0; round < 100 && sched_units_done(core) < config.units; round++)
        for (uint64_t pod = 1; pod <= pods; pod++)
            pod_stored_all(pod);
}

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

static int64_t asked_memory[4];
static int asked;

static uint64_t choose_fetched(void *context, int64_t memory) {
    ck_assert_ptr_eq(context, &asked);
    asked_memory[asked++] = memory;
    return memory == 100 ? 7 : 6;
}

static void join_at(uint64_t pod, const char *endpoint, uint64_t memory, DeviceClass class) {
    seqs[pod] = 0;
    hello(pod);
    strcpy(message.hello.tile_endpoint, endpoint);
    message.hello.memory = memory;
    message.hello.device_class = (uint8_t) class;
    deliver(pod);
    const SchedAction *send = action_of(SCHED_ACTION_SEND, pod, WIRE_WELCOME);
    ck_assert(send != NULL && sched_compose(core, send, &composed));
    tokens[pod] = composed.welcome.token;
    proof(pod);
    deliver(pod);
}

static const Peers *peers_for(uint64_t pod) {
    SchedAction send = {.kind = SCHED_ACTION_SEND, .connection = pod, .type = WIRE_PEERS};
    ck_assert(sched_compose(core, &send, &composed));
    return &composed.peers;
}

/* Pods are told what all of them have room for, and how to reach those of other hosts, until they know. */
START_TEST(peers_are_named_until_they_are_known) {
    config.nodes = 3;
    config.fetched = choose_fetched;
    config.context = &asked;
    asked = 0;
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
    ck_assert_str_eq(peers->peers[0].endpoint, ""); /* its own host's */
    ck_assert_str_eq(peers->peers[1].endpoint, "");
    ck_assert_str_eq(peers->peers[2].endpoint, "tcp://10.0.0.2:11");
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
    config.fetched = choose_fetched;
    config.context = &asked;
    asked = 0;
    begin();
    join_at(1, "tcp://10.0.0.1:11", 100, CLASS_CPU);
    join_at(2, "tcp://10.0.0.1:12", 100, CLASS_CPU);
    ck_assert(!state_for(1)->peers);
    ck_assert_ptr_null(action_of(SCHED_ACTION_SEND, 1, WIRE_PEERS));
}
END_TEST

START_TEST(cards_have_no_peers) {
    config.nodes = 2;
    config.fetched = choose_fetched;
    config.context = &asked;
    asked = 0;
    begin();
    join_at(1, "tcp://10.0.0.1:11", 100, CLASS_GPU);
    join_at(2, "tcp://10.0.0.2:12", 100, CLASS_GPU);
    ck_assert(!state_for(1)->peers);
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
    from_pod(idle, WIRE_BYE);
    message.bye.token = tokens[idle];
    deliver(idle);
    ck_assert_ptr_nonnull(action_of(SCHED_ACTION_FORGET, idle, 0));
    ck_assert_ptr_null(action_of(SCHED_ACTION_FINISH, 0, 0));
    from_pod(busy, WIRE_BYE);
    message.bye.token = tokens[busy];
    strcpy(message.bye.text, "stopped by the user");
    deliver(busy);
    ck_assert_uint_eq(sched_fenced(core), 1);
    ck_assert_ptr_nonnull(strstr(end_text(), "left with work unfinished: stopped by the user"));
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

/* Who has which unit, as far as the scheduler tells pods. */
static uint64_t held_by(uint64_t pod, bool *units) {
    uint64_t count = 0;
    const SchedState *state = state_for(pod);
    for (uint32_t b = 0; b < state->batches_count; b++)
        for (uint64_t i = 0; i < state->batches[b].count; i++, count++)
            units[state->batches[b].first + i * state->batches[b].step] = true;
    return count;
}

static void be_silent(uint64_t silent, uint64_t pods) {
    for (uint64_t ms = 0; ms <= config.dead_ms && !action_of(SCHED_ACTION_FINISH, 0, 0); ms += 500) {
        wait_ms(500);
        for (uint64_t pod = 1; pod <= pods; pod++)
            if (pod != silent) {
                pod_state(pod, POD_READY, state_for(pod)->batch_base, 0);
                deliver(pod);
            }
    }
}

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
    from_pod(1, WIRE_BYE);
    message.bye.token = tokens[1];
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
        from_pod(pod, WIRE_BYE);
        message.bye.token = tokens[pod];
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
        from_pod(pod, WIRE_BYE); /* as good as a death, and quicker */
        message.bye.token = tokens[pod];
        strcpy(message.bye.text, "aaargh");
        deliver(pod);
        if (++pod == 4)
            break;
    }
    ck_assert_str_eq(end_text(), "super-tile 77 has brought down 3 pods; the last, pod n3, left with work unfinished: aaargh");
}
END_TEST

/* Tiles of a lost pod come from files: pods are told. */
START_TEST(peers_learn_who_is_lost) {
    config.nodes = 2;
    config.fetched = choose_fetched;
    config.context = &asked;
    asked = 0;
    begin();
    join_at(1, "tcp://10.0.0.1:11", 100, CLASS_CPU);
    join_at(2, "tcp://10.0.0.2:12", 100, CLASS_CPU);
    ck_assert_str_eq(peers_for(1)->peers[1].endpoint, "tcp://10.0.0.2:12");
    pod_state(1, POD_READY, 0, 0);
    message.header.plan_epoch = 1;
    deliver(1);
    from_pod(2, WIRE_BYE);
    message.bye.token = tokens[2];
    deliver(2);
    ck_assert_ptr_nonnull(action_of(SCHED_ACTION_SEND, 1, WIRE_PEERS));
    ck_assert_str_eq(peers_for(1)->peers[1].endpoint, "");
    ck_assert_uint_eq(composed.header.plan_epoch, 2);
}
END_TEST

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
    config.fetched = choose_fetched;
    config.context = &asked;
    asked = 0;
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

/* With whoever is there: a late pod, too. Three in one round are too many. */
START_TEST(a_loss_begins_all_rounds_again) {
    begin_course(3);
    pod_stored_all(1);
    pod_stored_all(2);
    join_at(3, "tcp://10.0.0.3:11", 70, CLASS_CPU);
    expect_units(3, 1, 0, 0);
    uint64_t base = state_for(1)->batch_base;
    from_pod(2, WIRE_BYE);
    message.bye.token = tokens[2];
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
        from_pod(last, WIRE_BYE);
        message.bye.token = tokens[last];
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
    from_pod(pod, WIRE_BYE);
    message.bye.token = tokens[pod];
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
    from_pod(1, WIRE_BYE);
    message.bye.token = tokens[1];
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
    Suite *suite = suite_create("sched_core");
    TCase *cases = tcase_create("core");
    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_add_test(cases, begins_when_nobody_has_come_for_the_window);
    tcase_add_test(cases, begins_with_the_nodes_asked_for);
    tcase_add_test(cases, peers_are_named_until_they_are_known);
    tcase_add_test(cases, pods_of_one_host_have_no_peers);
    tcase_add_test(cases, cards_have_no_peers);
    tcase_add_test(cases, names_who_came_when_not_enough_did);
    tcase_add_test(cases, says_that_nobody_came);
    tcase_add_test(cases, lanes_are_round_robin);
    tcase_add_test(cases, lanes_are_blocks);
    tcase_add_loop_test(cases, every_unit_is_dealt_once, 0, 13);
    tcase_add_test(cases, a_late_pod_gets_what_is_not_started);
    tcase_add_test(cases, publishes_after_every_flush_and_ends_well);
    tcase_add_test(cases, says_why_publishing_failed);
    tcase_add_test(cases, ends_when_the_shell_cannot_go_on);
    tcase_add_test(cases, refuses_another_build_with_both_ids);
    tcase_add_test(cases, keys_prove_names);
    tcase_add_loop_test(cases, refuses_whom_it_cannot_take, 0, sizeof refused / sizeof refused[0]);
    tcase_add_test(cases, takes_a_range_of_protocols_that_holds_ours);
    tcase_add_loop_test(cases, a_pod_that_sees_other_files_ends_the_job, 0, sizeof differences / sizeof differences[0]);
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
    tcase_add_test(cases, peers_learn_who_is_lost);
    tcase_add_test(cases, rounds_follow_one_another);
    tcase_add_test(cases, a_loss_begins_all_rounds_again);
    tcase_add_test(cases, rounds_are_shared_by_who_can_work);
    tcase_add_test(cases, leaving_is_no_fault_of_a_round);
    tcase_add_test(cases, leaving_at_the_end_computes_nothing_again);
    tcase_add_test(cases, a_job_stays_on_the_device_of_what_is_stored);
    tcase_add_test(cases, a_late_pod_with_other_files_is_refused);
    tcase_add_test(cases, places_are_used_again);
    tcase_add_test(cases, stored_batches_are_told_with_their_checksums);
    tcase_add_loop_test(cases, what_is_stored_at_the_start_is_not_dealt, 0, 4);
    tcase_add_test(cases, a_job_that_is_stored_is_published);
    tcase_add_loop_test(cases, what_is_not_this_session_is_not_believed, 0, STALE_COUNT);
    tcase_add_test(cases, a_repeated_state_counts_once);
    tcase_add_test(cases, an_unknown_connection_is_asked_who_it_is);
    tcase_add_test(cases, the_user_may_stop_it);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
