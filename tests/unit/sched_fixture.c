/* A core, its pods by number, and what it does. */
#include "sched_fixture.h"

#include <stdlib.h>
#include <string.h>

Welcome job;
WireSeen expected[2];
SchedConfig config;
SchedCore *core;
SchedActions actions;
WireMessage message, composed;
uint64_t now;
PlacementPolicy policy;
uint64_t tokens[16], seqs[16];
int64_t asked_memory[4];
int asked;

const PhbKernel kernel;
static Problem problem;

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

void begin(void) {
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

void step(SchedEvent event) {
    sched_step(core, &event, now, &actions);
    ck_assert_uint_le(actions.count, actions.capacity);
}

const SchedAction *action_of(SchedActionKind kind, uint64_t connection, int type) {
    for (size_t i = 0; i < actions.count; i++) {
        const SchedAction *action = &actions.items[i];
        if (action->kind == kind && (connection == 0 || action->connection == connection) && (type == 0 || action->type == type))
            return action;
    }
    return NULL;
}

void wait_ms(uint64_t ms) {
    for (uint64_t end = now + ms; now < end;) {
        now += 100;
        step((SchedEvent){.kind = SCHED_EVENT_TICK});
        if (action_of(SCHED_ACTION_FINISH, 0, 0))
            return;
    }
}

void deliver(uint64_t connection) {
    step((SchedEvent){.kind = SCHED_EVENT_MESSAGE, .connection = connection, .message = &message});
}

void from_pod(uint64_t pod, WireType type) {
    memset(&message, 0, sizeof message);
    message.header.type = (uint16_t)type;
    memcpy(message.header.job_id, config.job_id, 16);
    message.header.sched_epoch = config.epoch;
    message.header.seq = ++seqs[pod];
}

void hello(uint64_t pod) {
    from_pod(pod, WIRE_HELLO);
    Hello *says = &message.hello;
    memcpy(says->build_id, config.build_id, 16);
    says->incarnation[0] = (uint8_t)pod;
    says->protocol_min = says->protocol_max = WIRE_PROTOCOL;
    says->memory = 1 << 20;
    says->threads = 1;
    says->node[0] = 'n';
    says->node[1] = (char)('0' + pod);
}

void join(uint64_t pod) {
    seqs[pod] = 0;
    hello(pod);
    deliver(pod);
    const SchedAction *send = action_of(SCHED_ACTION_SEND, pod, WIRE_WELCOME);
    ck_assert_ptr_nonnull(send);
    ck_assert(sched_compose(core, send, &composed));
    ck_assert_uint_eq(composed.welcome.tensors_count, 2);
    tokens[pod] = composed.welcome.token;
}

void proof(uint64_t pod) {
    from_pod(pod, WIRE_PROOF);
    message.proof.token = tokens[pod];
    message.proof.seen_count = 2;
    memcpy(message.proof.seen, expected, sizeof expected);
}

void join_and_prove(uint64_t pod) {
    join(pod);
    proof(pod);
    deliver(pod);
}

void bye(uint64_t pod) {
    from_pod(pod, WIRE_BYE);
    message.bye.token = tokens[pod];
}

static uint64_t choose_fetched(void *context, int64_t memory) {
    ck_assert_ptr_eq(context, &asked);
    asked_memory[asked++] = memory;
    return memory == 100 ? 7 : 6;
}

void count_asked(void) {
    config.fetched = choose_fetched;
    config.context = &asked;
    asked = 0;
}

void join_at(uint64_t pod, const char *endpoint, uint64_t memory, DeviceClass class) {
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

const Peers *peers_for(uint64_t pod) {
    SchedAction send = {.kind = SCHED_ACTION_SEND, .connection = pod, .type = WIRE_PEERS};
    ck_assert(sched_compose(core, &send, &composed));
    return &composed.peers;
}

void pod_state(uint64_t pod, PodPhase phase, uint64_t base, uint32_t done) {
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

const SchedState *state_for(uint64_t pod) {
    SchedAction send = {.kind = SCHED_ACTION_SEND, .connection = pod, .type = WIRE_SCHED_STATE};
    ck_assert(sched_compose(core, &send, &composed));
    return &composed.sched_state;
}

void pod_stored(uint64_t pod, uint32_t done) {
    const SchedState *state = state_for(pod);
    pod_state(pod, POD_READY, state->batch_base, done);
    for (uint32_t i = 0; i < state->batches_count; i++)
        message.pod_state.counts[i] = state->batches[i].count;
    deliver(pod);
}

void pod_stored_all(uint64_t pod) {
    pod_stored(pod, (1u << state_for(pod)->batches_count) - 1);
}

void pod_flushed(uint64_t pod) {
    const SchedState *state = state_for(pod);
    pod_state(pod, POD_READY, state->batch_base, 0);
    message.pod_state.flushed = state->flush;
    deliver(pod);
}

const char *end_text(void) {
    for (int i = 0; i < 20; i++) {
        const SchedAction *finish = action_of(SCHED_ACTION_FINISH, 0, 0);
        if (finish)
            return finish->text;
        wait_ms(100);
    }
    ck_abort_msg("the job does not end");
}

int end_code(void) {
    end_text();
    return action_of(SCHED_ACTION_FINISH, 0, 0)->exit_code;
}

void work(uint64_t pods) {
    for (int round = 0; round < 100 && sched_units_done(core) < config.units; round++)
        for (uint64_t pod = 1; pod <= pods; pod++)
            pod_stored_all(pod);
}

uint64_t held_by(uint64_t pod, bool *units) {
    uint64_t count = 0;
    const SchedState *state = state_for(pod);
    for (uint32_t b = 0; b < state->batches_count; b++)
        for (uint64_t i = 0; i < state->batches[b].count; i++, count++)
            units[state->batches[b].first + i * state->batches[b].step] = true;
    return count;
}

void be_silent(uint64_t silent, uint64_t pods) {
    for (uint64_t ms = 0; ms <= config.dead_ms && !action_of(SCHED_ACTION_FINISH, 0, 0); ms += 500) {
        wait_ms(500);
        for (uint64_t pod = 1; pod <= pods; pod++)
            if (pod != silent) {
                pod_state(pod, POD_READY, state_for(pod)->batch_base, 0);
                deliver(pod);
            }
    }
}

TCase *cases_new(void) {
    TCase *cases = tcase_create("core");
    tcase_add_checked_fixture(cases, setup, teardown);
    return cases;
}

int cases_run(const char *name, TCase *cases) {
    Suite *suite = suite_create(name);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
