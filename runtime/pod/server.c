#include "runtime/pod/server.h"
#include "runtime/clock.h"
#include "runtime/crash.h"
#include "runtime/net/curve.h"
#include "runtime/net/proof.h"
#include "runtime/net/socket.h"
#include "runtime/pod/agent.h"
#include "runtime/pod/attach.h"
#include "runtime/pod/examine.h"
#include "runtime/pod/rounds.h"
#include "runtime/pod/tile_plane.h"
#include "runtime/task.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include <zmq.h>

enum { CLOCK_ASKS = 8, TICK_MS = 100, HELLO_MS = 100, SOCKET_DEAD_MS = 10000 };
enum { END_MS = 1000, NEXT_MS = 60000 }; /* for what a job has begun to end, and where another one may follow */

/* How far the scheduler's clock is from this one's, by the answer that was quickest there and back. */
typedef struct PodClock {
    int64_t offset_ns;
    uint64_t quickest_ns; /* 0: there was none */
    int asked;
} PodClock;

typedef struct PodServer {
    const PhbProgram *program;
    const PodServeOptions *options;
    const char *sched;
    char node[64];
    DeviceSet devices; /* the first of them is this pod's */
    Agent agent;
    void *context, *control;
    Guard *guard; /* NULL: keys are not in use */
    void *watch;  /* of control's handshakes */
    int begun, broken; /* of them, in a row */
    TilePlane *tiles;
    zmq_pollitem_t *polled;
    int polled_capacity;
    Placement *placement; /* of all pods; NULL: no tile is fetched */
    WireMessage *inbox, *outbox;
    zmq_msg_t frame;
    Welcome *welcome;
    Job *job;
    Problem *problem;
    Plan *plan;
    Pod *pod;       /* of a job of several steps that of the round at hand; NULL: there is none yet */
    Rounds *rounds; /* of a job of several steps */
    TraceLog trace;
    PodClock clock;
    WireSeen seen[PHB_MAX_PARAMS];
    Task *prove, *flush;
    Examination *examination; /* for a doctor */
    bool unsent; /* there is no connection yet: hello again as soon as there is */
    bool over, next;
    int exit_code;
} PodServer;

__attribute__((format(printf, 3, 4))) static void say(const PodServer *server, LogLevel level, const char *format, ...) {
    if (level > server->options->log)
        return;
    fprintf(stderr, "pod %s: ", server->node);
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

/* ---- what the agent asks for ---- */

static void step(PodServer *server, const AgentEvent *event);

static void fail(PodServer *server, const Error *error) {
    step(server, &(AgentEvent){.kind = AGENT_EVENT_FAILED, .text = error->text});
}

/* On a thread: opening and fingerprinting may wait for a slow disk. */
static bool run_prove(void *context, Error *error) {
    PodServer *server = context;
    crash_point(CRASH_PROVE, CRASH_BEGIN);
    server->job = job_attach(server->program, server->welcome, server->options->roots, server->seen, error);
    return server->job != NULL;
}

static bool run_flush(void *context, Error *error) {
    const Job *job = context;
    crash_point(CRASH_FLUSH, CRASH_BEGIN);
    for (int t = 0; t < job->kernel->tensor_count; t++) {
        const TensorFile *file = &job->tensors[t];
        if (file->staging_fd >= 0 && fdatasync(file->staging_fd) != 0)
            return error_errno(error, "cannot bring \"%s\" to the disk", file->path);
    }
    crash_point(CRASH_FLUSH, CRASH_END);
    return true;
}

static void batch_done(void *context, uint64_t tag, int64_t units, uint64_t checksum) {
    step(context, &(AgentEvent){.kind = AGENT_EVENT_BATCH_DONE, .batch = tag, .units = (uint64_t)units, .checksum = checksum});
}

static bool fetch_tile(void *context, const FetchRequest *request) {
    const PodServer *server = context;
    return tile_plane_fetch(server->tiles, request);
}

static void tile_shelved(void *context, int64_t place, const TileView *tile) {
    const PodServer *server = context;
    tile_plane_shelved(server->tiles, place, tile);
}

static void fetch_piece(void *context, const FetchRequest *request) {
    const PodServer *server = context;
    tile_plane_gather(server->tiles, request);
}

static int gather_tile(void *context, int operand, const Region *region, void *rows, int64_t pitch, uint32_t instruction, uint64_t *bytes) {
    PodServer *server = context;
    return rounds_gather(server->rounds, operand, region, rows, pitch, instruction, bytes, fetch_piece, server);
}

static int64_t memory_of(const PodServer *server) {
    uint64_t memory = server->agent.config.hello.memory, budget = server->welcome->budget;
    return (int64_t)(budget > 0 && budget < memory ? budget : memory);
}

static PodOptions pod_options(PodServer *server) {
    bool steps = server->job->sequence != NULL;
    return (PodOptions){
        .threads = (int)server->agent.config.hello.threads,
        .device = server->devices.items[0].type,
        .device_number = server->devices.items[0].number,
        .simt = server->options->simt,
        .range_done = batch_done,
        .fetch = steps ? NULL : fetch_tile,
        .shelved = steps ? NULL : tile_shelved,
        .gather = steps ? gather_tile : NULL,
        .trace = server->welcome->trace ? &server->trace : NULL,
        .checksums = true,
        .leased = true,
        .context = server,
    };
}

static bool open_pod(PodServer *server, Error *error) {
    for (int s = 0; s < job_step_count(server->job); s++)
        job_step(server->job, s)->device = server->devices.class;
    if (server->job->sequence != NULL) /* the pods come with PEERS */
        return (server->rounds = rounds_new(server->job, error)) != NULL;
    server->problem = problem_bind(server->job, LEAF_MODEL, error);
    if (!server->problem || !job_has_shapes(server->job, 0, server->problem, error))
        return false;
    server->plan = plan_make(server->problem, memory_of(server), error);
    if (!server->plan || (server->devices.class != CLASS_GPU && !machine_holds(server->plan->bytes, error)))
        return false;
    PodOptions pod = pod_options(server);
    server->pod = pod_open(server->plan, &pod, error);
    return server->pod != NULL;
}

static void start_task(PodServer *server, Task **task, TaskRun *run, void *context) {
    Error error;
    *task = task_start(run, context, &error);
    if (!*task)
        fail(server, &error);
}

/* The job begins, or with other pods begins again. */
static void join_rounds(PodServer *server, const Peers *peers) {
    Error error;
    PodOptions options = pod_options(server);
    tile_plane_abandon(server->tiles);
    server->pod = NULL;
    if (!rounds_end(server->rounds, clock_ms() + server->agent.lease_ms)) { /* as long as the scheduler waits for a word */
        error_set(&error, "what it had begun before other pods were lost does not end");
        fail(server, &error);
        return;
    }
    bool joined = rounds_join(server->rounds, peers, memory_of(server), &options, &error);
    tile_plane_join_rounds(server->tiles, server->rounds, server->agent.job_id, server->agent.plan_epoch, peers);
    if (!joined)
        fail(server, &error);
}

static void run_batch(PodServer *server, const AgentAction *action) {
    Error error;
    if (server->rounds != NULL) {
        Pod *pod = rounds_enter(server->rounds, action->batch.round, &error);
        if (pod == NULL) {
            fail(server, &error);
            return;
        }
        server->pod = pod;
        tile_plane_serve(server->tiles, pod);
        pod_lease(server->pod, agent_lease_end(&server->agent));
    }
    UnitRange range = {.first = (int64_t)action->batch.first,
        .count = (int64_t)action->batch.count,
        .step = (int64_t)action->batch.step,
        .tag = action->batch_number,
        .dry = action->batch.audit != 0};
    if (pod_can_take(server->pod, &range, &error))
        pod_give(server->pod, range);
    else
        fail(server, &error);
}

/* Tiles that several pods use come from their homes, those of lost ones from their files. */
static void take_peers(PodServer *server, const Peers *peers) {
    Error error;
    if (server->rounds != NULL && peers->placement <= PLACE_NEAR && peers->peers_count > 0 && peers->node < peers->peers_count)
        join_rounds(server, peers);
    if (server->rounds != NULL)
        return;
    if (server->placement != NULL) {
        tile_plane_lose(server->tiles, peers);
        return;
    }
    if (peers->placement > PLACE_NEAR || peers->peers_count == 0)
        return;
    server->placement = placement_new(server->problem, (PlacementPolicy)peers->placement, peers->peers_count);
    if (!plan_fetch(server->plan, server->placement, peers->fetched))
        say(server, LOG_WARNING, "there is no room to keep tiles for other pods: they load them from files");
    if (!pod_share(server->pod, server->placement, peers->node, &error))
        say(server, LOG_WARNING, "%s", error.text);
    tile_plane_join(server->tiles, server->pod, server->agent.job_id, peers, engine_instructions(server->plan) + SHELF_FETCHES);
}

static void perform(PodServer *server, const AgentAction *action) {
    switch (action->kind) {
    case AGENT_ACTION_SEND:
        if (action->type == WIRE_HELLO)
            crash_point(CRASH_HELLO, CRASH_BEGIN);
        agent_compose(&server->agent, action->type, server->outbox);
        server->unsent = !socket_send(server->control, NULL, server->outbox, NULL, 0);
        break;
    case AGENT_ACTION_PROVE:
        welcome_copy(server->welcome, &server->inbox->welcome);
        start_task(server, &server->prove, run_prove, server);
        break;
    case AGENT_ACTION_PEERS:
        take_peers(server, &server->inbox->peers);
        break;
    case AGENT_ACTION_RUN:
        run_batch(server, action);
        break;
    case AGENT_ACTION_DRAIN:
        say(server, LOG_INFO, "leaves the job");
        if (server->pod != NULL)
            pod_drain(server->pod);
        break;
    case AGENT_ACTION_FLUSH:
        start_task(server, &server->flush, run_flush, server->job);
        break;
    case AGENT_ACTION_EXIT:
        server->over = true;
        server->next = action->next;
        server->exit_code = action->exit_code;
        say(server, action->exit_code ? LOG_ERROR : LOG_INFO, "%s", action->text);
        break;
    }
}

static void step(PodServer *server, const AgentEvent *event) {
    AgentActions actions;
    agent_step(&server->agent, event, clock_boot_ms(), &actions);
    if (server->pod != NULL)
        pod_lease(server->pod, agent_lease_end(&server->agent));
    for (int i = 0; i < actions.count; i++)
        perform(server, &actions.items[i]);
}

/* ---- the trace ---- */

static WireMessage *compose(PodServer *server, WireType type) {
    server->outbox->header = (WireHeader){.type = (uint16_t)type, .sched_epoch = server->agent.sched_epoch};
    memcpy(server->outbox->header.job_id, server->agent.job_id, sizeof server->agent.job_id);
    return server->outbox;
}

static void ask_time(PodServer *server) {
    if (server->pod == NULL || !server->welcome->trace || server->clock.asked == CLOCK_ASKS)
        return;
    server->clock.asked++;
    compose(server, WIRE_CLOCK)->clock = (Clock){.token = server->agent.token, .sent_ns = clock_ns()};
    socket_send(server->control, NULL, server->outbox, NULL, 0);
}

static void take_time(PodServer *server, const Clock *clock) {
    if (clock->seen_ns == 0) { /* a doctor's question */
        server->outbox->header = (WireHeader){.type = WIRE_CLOCK};
        server->outbox->clock = (Clock){.token = clock->token, .sent_ns = clock->sent_ns, .seen_ns = clock_ns()};
        socket_send(server->control, NULL, server->outbox, NULL, 0);
        return;
    }
    uint64_t now = clock_ns(), took = now - clock->sent_ns + 1;
    if (clock->token != server->agent.token || clock->sent_ns > now || (server->clock.quickest_ns != 0 && took >= server->clock.quickest_ns))
        return;
    server->clock.quickest_ns = took;
    server->clock.offset_ns = (int64_t)(clock->seen_ns - (clock->sent_ns + took / 2));
}

/* Full frames, and all of it at the end. */
static void send_trace(PodServer *server, bool all) {
    while (server->trace.count >= (all ? 1 : WIRE_TRACE_EVENTS)) {
        Trace *trace = &compose(server, WIRE_TRACE)->trace;
        trace->token = server->agent.token;
        trace->events_count = (uint32_t)(server->trace.count < WIRE_TRACE_EVENTS ? server->trace.count : WIRE_TRACE_EVENTS);
        for (uint32_t e = 0; e < trace->events_count; e++) {
            trace->events[e] = server->trace.events[e];
            trace->events[e].begun_ns += (uint64_t)server->clock.offset_ns;
            trace->events[e].ended_ns += (uint64_t)server->clock.offset_ns;
        }
        if (!socket_send(server->control, NULL, server->outbox, NULL, 0)) {
            if (all)
                say(server, LOG_WARNING, "the scheduler does not take the trace: its last %zu events are lost", server->trace.count);
            return;
        }
        trace_drop(&server->trace, trace->events_count);
    }
}

/* ---- what has happened ---- */

static void take_proof(PodServer *server) {
    Error error;
    bool fine = task_end(server->prove, &error);
    server->prove = NULL;
    /* The pod is opened while the scheduler reads the proof; no unit can come before that. */
    if (fine)
        step(server, &(AgentEvent){.kind = AGENT_EVENT_PROVED, .seen = server->seen, .seen_count = server->welcome->tensors_count});
    if (!fine || !open_pod(server, &error))
        fail(server, &error);
}

/* What is to be told of the job's end goes before it. */
static void take_flush(PodServer *server) {
    Error error;
    bool fine = task_end(server->flush, &error);
    server->flush = NULL;
    send_trace(server, true);
    if (fine)
        step(server, &(AgentEvent){.kind = AGENT_EVENT_FLUSHED});
    else
        fail(server, &error);
}

static void turn_pod(PodServer *server) {
    PodStatus status = pod_turn(server->pod);
    step(server, &(AgentEvent){.kind = AGENT_EVENT_PROGRESS,
                     .units = (uint64_t)(server->rounds != NULL ? rounds_units_done(server->rounds) : pod_units_done(server->pod)),
                     .moved = server->rounds != NULL ? rounds_moved(server->rounds) : pod_moved(server->pod)});
    send_trace(server, false);
    if (status == POD_BROKEN && server->agent.phase != AGENT_FAILED)
        fail(server, pod_error(server->pod));
}

/* ---- who says hello to a doctor is examined, and waits on for a scheduler ---- */

static void tell_doctor(PodServer *server) {
    if (examination_result(server->examination, &server->outbox->examined)) {
        server->outbox->header = (WireHeader){.type = WIRE_EXAMINED};
        socket_send(server->control, NULL, server->outbox, NULL, 0);
    }
}

static void take_examine(PodServer *server) {
    Error error;
    bool is_asked_again = examination_fd(server->examination) >= 0;
    if (!examination_begin(server->examination, &server->inbox->examine, &error))
        say(server, LOG_WARNING, "%s", error.text);
    else if (examination_fd(server->examination) < 0)
        tell_doctor(server); /* again: what was told is lost */
    else if (!is_asked_again)
        say(server, LOG_INFO, "tries what reaches whom, for a doctor");
}

static void take_messages(PodServer *server) {
    while (!server->over && socket_receive(server->control, &server->frame, NULL) != RECEIVED_NOTHING) {
        WireError error = wire_decode(zmq_msg_data(&server->frame), zmq_msg_size(&server->frame), server->inbox, NULL, NULL);
        if (error)
            say(server, LOG_WARNING, "dropped a message: %s", wire_error_text(error));
        else if (server->inbox->header.type == WIRE_CLOCK)
            take_time(server, &server->inbox->clock);
        else if (server->inbox->header.type == WIRE_EXAMINE && server->agent.phase == AGENT_HELLO)
            take_examine(server);
        else
            step(server, &(AgentEvent){.kind = AGENT_EVENT_MESSAGE, .message = server->inbox});
    }
}

/* ---- the loop ---- */

static bool hello_waits(const PodServer *server) {
    return server->unsent && server->agent.phase == AGENT_HELLO;
}

/* Waits until something has come; which of them are there says what is looked at. */
typedef struct Wait {
    int prove, flush, pod, examination; /* places in server->polled, or -1 */
} Wait;

static Wait wait_for(PodServer *server) {
    int capacity = 5 + tile_plane_poll_count(server->tiles), count = 1;
    if (capacity > server->polled_capacity) {
        free(server->polled);
        server->polled = new_zeroed((size_t)capacity, sizeof *server->polled);
        server->polled_capacity = capacity;
    }
    zmq_pollitem_t *items = server->polled;
    items[0] = (zmq_pollitem_t){.socket = server->control, .events = (short)(ZMQ_POLLIN | (hello_waits(server) ? ZMQ_POLLOUT : 0))};
    Wait wait = {.prove = server->prove ? count++ : -1, .flush = server->flush ? count++ : -1, .pod = server->pod ? count++ : -1};
    wait.examination = examination_fd(server->examination) >= 0 ? count++ : -1;
    if (wait.examination >= 0)
        items[wait.examination] = (zmq_pollitem_t){.fd = examination_fd(server->examination), .events = ZMQ_POLLIN};
    if (wait.prove >= 0)
        items[wait.prove] = (zmq_pollitem_t){.fd = task_fd(server->prove), .events = ZMQ_POLLIN};
    if (wait.flush >= 0)
        items[wait.flush] = (zmq_pollitem_t){.fd = task_fd(server->flush), .events = ZMQ_POLLIN};
    if (wait.pod >= 0)
        items[wait.pod] = (zmq_pollitem_t){.fd = pod_fd(server->pod), .events = ZMQ_POLLIN};
    tile_plane_poll(server->tiles, items + count);
    zmq_poll(items, count + tile_plane_poll_count(server->tiles), TICK_MS);
    return wait;
}

static void end_refused(PodServer *server, const char *why) {
    fprintf(stderr, "error: pod %s: %s: %s\n", server->node, server->sched, why);
    server->over = true;
    server->exit_code = EXIT_REFUSED;
}

/* A handshake that fails is nothing that a socket tells of: it would try for ever. */
static void take_handshakes(PodServer *server) {
    enum { MOST = 3 }; /* the scheduler may end in the middle of one */
    for (Handshake became; !server->over && (became = handshake_next(server->watch)) != HANDSHAKE_NONE;) {
        server->begun = became == HANDSHAKE_DONE ? 0 : server->begun + (became == HANDSHAKE_BEGUN);
        server->broken = became == HANDSHAKE_DONE ? 0 : server->broken + (became == HANDSHAKE_BROKEN);
        if (became == HANDSHAKE_REFUSED)
            end_refused(server, "the scheduler does not know this pod's key: it must be in the file that its --peers names");
        else if (became == HANDSHAKE_FOREIGN || server->broken == MOST || server->begun > MOST)
            end_refused(server, server->options->keys ? "there is no scheduler with the key that --peers gives to '" SCHED_NAME "'"
                                                      : "there is no scheduler that talks without keys; --key and --peers give this pod some");
    }
}

static void loop(PodServer *server) {
    while (!server->over) {
        Wait wait = wait_for(server);
        const zmq_pollitem_t *items = server->polled;
        if (atomic_exchange(&interrupted, false))
            step(server, &(AgentEvent){.kind = AGENT_EVENT_STOP, .text = "the user"});
        if (items[0].revents & ZMQ_POLLOUT)
            perform(server, &(AgentAction){.kind = AGENT_ACTION_SEND, .type = WIRE_HELLO});
        take_messages(server);
        take_handshakes(server);
        tile_plane_turn(server->tiles);
        if (!server->over && wait.prove >= 0 && items[wait.prove].revents)
            take_proof(server);
        if (!server->over && wait.flush >= 0 && items[wait.flush].revents)
            take_flush(server);
        if (!server->over && wait.pod >= 0 && items[wait.pod].revents)
            turn_pod(server);
        if (wait.examination >= 0 && items[wait.examination].revents)
            tell_doctor(server);
        tile_plane_turn(server->tiles);
        if (tile_plane_failure(server->tiles) != NULL && server->agent.phase != AGENT_FAILED)
            fail(server, tile_plane_failure(server->tiles));
        ask_time(server);
        if (!server->over)
            step(server, &(AgentEvent){.kind = AGENT_EVENT_TICK});
    }
}

/* ---- start and end ---- */

/* For the first kernel that has code for GPUs: which one the job runs is not known yet. */
static bool choose_device(PodServer *server, Error *error) {
    const PhbProgram *program = server->program;
    const PhbKernel *kernel = &program->kernels[0];
    for (int k = program->kernel_count - 1; k >= 0; k--)
        for (int v = 0; v < program->kernels[k].variant_count; v++)
            if (variant_has_code(&program->kernels[k].variants[v], CLASS_GPU))
                kernel = &program->kernels[k];
    if (!device_select(server->options->device, kernel, false, &server->devices, error))
        return false;
    if (server->devices.missed && server->devices.class == CLASS_CPU)
        say(server, LOG_WARNING, "leaves run on the CPU: %s", server->devices.reason.text);
    return true;
}

static void draw_incarnation(Hello *hello) {
    if (getrandom(hello->incarnation, sizeof hello->incarnation, 0) != (ssize_t)sizeof hello->incarnation)
        memcpy(hello->incarnation, &(uint64_t){clock_boot_ms() ^ (uint64_t)getpid() << 32}, sizeof(uint64_t));
}

static bool make_hello(PodServer *server, const char *endpoint, Hello *hello, Error *error) {
    const PodServeOptions *options = server->options;
    memcpy(hello->build_id, server->program->build_id, sizeof hello->build_id);
    hello->protocol_min = hello->protocol_max = WIRE_PROTOCOL;
    memcpy(hello->node, server->node, sizeof hello->node);
    const DeviceChoice *device = &server->devices.items[0];
    snprintf(hello->device, sizeof hello->device, "%s", device_name(device));
    hello->device_class = (uint8_t)server->devices.class;
    hello->arch = (uint16_t)server->devices.arch;
    snprintf(hello->tile_endpoint, sizeof hello->tile_endpoint, "%s", options->advertise ? options->advertise : endpoint);
    int64_t memory = options->memory ? options->memory : device_memory(&server->devices, device, 1, error);
    hello->memory = (uint64_t)memory;
    hello->threads = (uint32_t)(options->threads ? options->threads : machine_processors());
    return memory > 0;
}

static void name_node(PodServer *server) {
    char host[40] = "pod";
    if (server->options->node_name) {
        snprintf(server->node, sizeof server->node, "%s", server->options->node_name);
        return;
    }
    if (server->options->keys) {
        snprintf(server->node, sizeof server->node, "%s", server->options->keys->name);
        return;
    }
    gethostname(host, sizeof host - 1);
    snprintf(server->node, sizeof server->node, "%s:%ld", host, (long)getpid());
}

static bool open_sockets(PodServer *server, char *bound, size_t bound_size, Error *error) {
    const char *listen = server->options->listen ? server->options->listen : DEFAULT_POD_ENDPOINT;
    const Keys *keys = server->options->keys;
    const char *sched_key = keys ? keys_of_name(keys, SCHED_NAME) : NULL;
    if (!endpoint_check_connect(server->sched, error) || !endpoint_check_bind(listen, server->options->insecure || keys, error))
        return false;
    if (keys && !sched_key)
        return error_set(error, "--peers has no line for '%s', the scheduler, whose key a pod must know", SCHED_NAME);
    return (server->context = socket_context_new(error)) && (!keys || (server->guard = guard_start(server->context, keys, error))) &&
           (server->control = socket_open(server->context, ZMQ_DEALER, WIRE_CONTROL_BYTES, SOCKET_DEAD_MS, error)) &&
           (server->watch = handshake_watch(server->context, server->control, error)) &&
           (!keys || curve_connect(server->control, keys, sched_key, error)) &&
           (server->tiles = tile_plane_open(server->context, keys, listen, server->node, server->options->log, bound, bound_size, error)) &&
           socket_connect(server->control, server->sched, error);
}

/* Whether what the job has begun ends until then. */
static bool job_ends(PodServer *server, uint64_t until_ms) {
    bool ended = !server->prove || task_ends(server->prove, until_ms);
    ended &= !server->flush || task_ends(server->flush, until_ms);
    if (server->rounds)
        return rounds_end(server->rounds, until_ms) && ended;
    return (!server->pod || pod_end(server->pod, until_ms)) && ended;
}

/* A leaf, or a call to a file system that is gone, may never end, and whoever waits for it is never gone. A goodbye has left by then. */
static void leave_job(PodServer *server) {
    uint64_t begun_ms = clock_ms(), now_ms = begun_ms;
    bool ended = false;
    if (server->exit_code == EXIT_FENCED && !server->next)
        _exit(EXIT_FENCED); /* what it has begun must not go on */
    if (server->pod)
        tile_plane_abandon(server->tiles);
    if (server->pod && !server->rounds)
        pod_revoke(server->pod);
    if (!server->next)
        examination_stop(server->examination);
    while (!ended && now_ms - begun_ms < (server->next && !atomic_load(&interrupted) ? NEXT_MS : END_MS)) {
        ended = job_ends(server, now_ms + TICK_MS) && (server->next || examination_ends(server->examination, now_ms + TICK_MS));
        now_ms = clock_ms();
    }
    if (ended)
        return;
    say(server, LOG_WARNING, "warning: ends while something that the job began goes on, which may be for ever");
    _exit(server->next && server->exit_code == EXIT_DONE ? EXIT_FAILED : server->exit_code);
}

/* All that belongs to one job. */
static void end_job(PodServer *server) {
    Error ignored;
    if (server->prove)
        task_end(server->prove, &ignored);
    if (server->flush)
        task_end(server->flush, &ignored);
    if (!server->rounds)
        pod_close(server->pod);
    rounds_free(server->rounds);
    placement_free(server->placement);
    plan_free(server->plan);
    problem_free(server->problem);
    if (server->job)
        job_free(server->job);
    trace_fini(&server->trace);
    server->prove = server->flush = NULL;
    server->pod = NULL;
    server->rounds = NULL;
    server->placement = NULL;
    server->plan = NULL;
    server->problem = NULL;
    server->job = NULL;
    server->clock = (PodClock){0};
}

/* For another job this is another pod: whoever knew the last one does not take this one for it. */
static void begin_job(PodServer *server, AgentConfig *config) {
    draw_incarnation(&config->hello);
    config->job = server->options->persist ? 0 : server->agent.job; /* who outlives a scheduler stays until its job is over */
    server->over = server->next = server->unsent = false;
    server->begun = server->broken = 0;
    tile_plane_leave(server->tiles);
    agent_init(&server->agent, config, clock_boot_ms());
}

static void close_all(PodServer *server) {
    examination_free(server->examination);
    /* What was sent last, a goodbye, is given a moment to leave. */
    if (server->control)
        zmq_setsockopt(server->control, ZMQ_LINGER, &(int){200}, sizeof(int));
    handshake_unwatch(server->control, server->watch);
    socket_close(server->control);
    tile_plane_close(server->tiles);
    free(server->polled);
    socket_context_free(server->context);
    guard_free(server->guard);
    zmq_msg_close(&server->frame);
    free(server->inbox);
    free(server->outbox);
    free(server->welcome);
}

int pod_serve(const PhbProgram *program, const PodServeOptions *options) {
    PodServer *server = new_zeroed(1, sizeof *server);
    server->program = program;
    server->options = options;
    server->sched = options->sched ? options->sched : DEFAULT_SCHED_ENDPOINT;
    server->inbox = new_zeroed(1, sizeof *server->inbox);
    server->outbox = new_zeroed(1, sizeof *server->outbox);
    server->welcome = new_zeroed(1, sizeof *server->welcome);
    zmq_msg_init(&server->frame);
    name_node(server);
    Error error;
    char bound[256];
    int exit_code = EXIT_FAILED;
    AgentConfig config = {.hello_ms = HELLO_MS, .persist = options->persist};
    if (choose_device(server, &error) && open_sockets(server, bound, sizeof bound, &error) && make_hello(server, bound, &config.hello, &error)) {
        if (endpoint_is_open(bound) && !options->keys)
            say(server, LOG_WARNING, "warning: nothing authenticates who connects to %s", bound);
        const char *told = config.hello.tile_endpoint;
        if (endpoint_is_open(server->sched) && !endpoint_leads_here(told))
            say(server, LOG_WARNING,
                "warning: pods of other machines cannot fetch tiles from %s and read files instead; --listen=tcp://ADDRESS:* with this machine's "
                "address, or --advertise, changes that",
                told);
        say(server, LOG_INFO, "waiting for a scheduler at %s", server->sched);
        server->examination = examination_new(server->context, options->keys, options->roots);
        do {
            begin_job(server, &config);
            step(server, &(AgentEvent){.kind = AGENT_EVENT_TICK});
            loop(server);
            leave_job(server);
            end_job(server);
        } while (server->next);
        exit_code = server->exit_code;
    } else {
        fprintf(stderr, "error: %s\n", error.text);
    }
    close_all(server);
    free(server);
    return exit_code;
}
