#include "runtime/pod/server.h"
#include "runtime/net/proof.h"
#include "runtime/net/socket.h"
#include "runtime/task.h"
#include "runtime/pod/agent.h"
#include "runtime/pod/attach.h"
#include "runtime/pod/pod.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

enum { TICK_MS = 100, HELLO_MS = 100, SOCKET_DEAD_MS = 10000 };

typedef struct PodServer {
    const PhbProgram *program;
    const PodServeOptions *options;
    const char *sched;
    char node[64];
    DeviceSet devices; /* the first of them is this pod's */
    Agent agent;
    void *context, *control;
    void *tiles;  /* ROUTER: serves our tiles */
    void *source; /* DEALER to whom shared tiles are fetched from, or NULL */
    Serve *serve;
    FetchPlane *fetches;
    void *chunk; /* WIRE_CHUNK_BYTES */
    WireMessage *inbox, *outbox;
    zmq_msg_t frame;
    Welcome *welcome;
    Job *job;
    Problem *problem;
    Plan *plan;
    Pod *pod;
    WireSeen seen[PHB_MAX_PARAMS];
    Task *prove, *flush;
    bool unsent; /* there is no connection yet: hello again as soon as there is */
    bool over;
    int exit_code;
} PodServer;

static uint64_t now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_BOOTTIME, &time); /* goes on while the machine sleeps: a pod that slept must find its lease gone */
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

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
    server->job = job_attach(server->program, server->welcome, server->seen, error);
    return server->job != NULL;
}

static bool run_flush(void *context, Error *error) {
    const Job *job = context;
    for (int t = 0; t < job->kernel->tensor_count; t++) {
        const TensorFile *file = &job->tensors[t];
        if (file->staging_fd >= 0 && fdatasync(file->staging_fd) != 0)
            return error_errno(error, "cannot bring \"%s\" to the disk", file->path);
    }
    return true;
}

static void batch_done(void *context, uint64_t tag) {
    step(context, &(AgentEvent){.kind = AGENT_EVENT_BATCH_DONE, .batch = tag});
}

static PodFetch fetch_tile;

static bool open_pod(PodServer *server, Error *error) {
    server->job->device = server->devices.class;
    server->problem = problem_bind(server->job, LEAF_MODEL, error);
    if (!server->problem)
        return false;
    uint64_t memory = server->agent.config.hello.memory, budget = server->welcome->budget;
    server->plan = plan_make(server->problem, (int64_t)(budget > 0 && budget < memory ? budget : memory), error);
    if (!server->plan)
        return false;
    PodOptions pod = {
        .threads = (int)server->agent.config.hello.threads,
        .device = server->devices.items[0].type,
        .device_number = server->devices.items[0].number,
        .simt = server->options->simt,
        .range_done = batch_done,
        .fetch = fetch_tile,
        .context = server,
    };
    server->pod = pod_open(server->plan, &pod, error);
    return server->pod != NULL;
}

static void start_task(PodServer *server, Task **task, TaskRun *run, void *context) {
    Error error;
    *task = task_start(run, context, &error);
    if (!*task)
        fail(server, &error);
}

static void perform(PodServer *server, const AgentAction *action) {
    switch (action->kind) {
    case AGENT_ACTION_SEND:
        agent_compose(&server->agent, action->type, server->outbox);
        server->unsent = !socket_send(server->control, NULL, server->outbox, NULL, 0);
        break;
    case AGENT_ACTION_PROVE:
        welcome_copy(server->welcome, &server->inbox->welcome);
        start_task(server, &server->prove, run_prove, server);
        break;
    case AGENT_ACTION_RUN:
        pod_give(server->pod, (UnitRange){.first = (int64_t)action->batch.first,
                                  .count = (int64_t)action->batch.count,
                                  .step = (int64_t)action->batch.step,
                                  .tag = action->batch_number});
        break;
    case AGENT_ACTION_FLUSH:
        start_task(server, &server->flush, run_flush, server->job);
        break;
    case AGENT_ACTION_EXIT:
        server->over = true;
        server->exit_code = action->exit_code;
        say(server, action->exit_code ? LOG_ERROR : LOG_INFO, "%s", action->text);
        break;
    case AGENT_ACTION_LOG:
        say(server, LOG_INFO, "%s", action->text);
        break;
    }
}

static void step(PodServer *server, const AgentEvent *event) {
    AgentActions actions;
    agent_step(&server->agent, event, now_ms(), &actions);
    for (int i = 0; i < actions.count; i++)
        perform(server, &actions.items[i]);
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

static void take_flush(PodServer *server) {
    Error error;
    bool fine = task_end(server->flush, &error);
    server->flush = NULL;
    if (fine)
        step(server, &(AgentEvent){.kind = AGENT_EVENT_FLUSHED});
    else
        fail(server, &error);
}

static void turn_pod(PodServer *server) {
    PodStatus status = pod_turn(server->pod);
    step(server,
        &(AgentEvent){
            .kind = AGENT_EVENT_PROGRESS, .units = (uint64_t)pod_units_done(server->pod), .free_memory = (uint64_t)pod_free_memory(server->pod)});
    if (status == POD_BROKEN && server->agent.phase != AGENT_FAILED)
        fail(server, pod_error(server->pod));
}

static void take_messages(PodServer *server) {
    while (!server->over && socket_receive(server->control, &server->frame, NULL) != RECEIVED_NOTHING) {
        WireError error = wire_decode(zmq_msg_data(&server->frame), zmq_msg_size(&server->frame), server->inbox, NULL, NULL);
        if (error)
            say(server, LOG_WARNING, "dropped a message: %s", wire_error_text(error));
        else
            step(server, &(AgentEvent){.kind = AGENT_EVENT_MESSAGE, .message = server->inbox});
    }
}

/* ---- the tile plane ---- */

/* The tile that a peer asks for; NULL with the reason where it is not to be had. */
static const TileView *find_tile(const PodServer *server, const Fetch *fetch, TileView *tile, FetchCode *code) {
    if (memcmp(server->inbox->header.job_id, server->agent.job_id, sizeof server->agent.job_id) != 0)
        *code = FETCH_STRANGER;
    else if (!server->pod || fetch->tensor >= (uint32_t)server->job->kernel->tensor_count)
        *code = server->pod ? FETCH_BAD_REGION : FETCH_NOT_YET;
    else if (pod_tile(server->pod, (int)fetch->tensor, tile))
        return tile;
    else
        *code = FETCH_NOT_YET;
    return NULL;
}

static void send_served(PodServer *server) {
    ServeAction action;
    while (serve_next(server->serve, &action)) {
        Route route = route_of(action.connection);
        WireMessage *message = server->outbox;
        if (action.kind == SERVE_REFUSE) {
            message->header = (WireHeader){.type = WIRE_FETCH_REFUSED};
            message->fetch_refused = (FetchRefused){.transfer = action.transfer, .code = (uint16_t)action.code};
            socket_send(server->tiles, &route, message, NULL, 0);
            continue;
        }
        tile_pack(&action.tile, &action.region, action.offset, action.length, server->chunk);
        message->header = (WireHeader){.type = WIRE_CHUNK};
        message->chunk = (Chunk){.transfer = action.transfer, .offset = action.offset, .total = action.total};
        message->chunk.hash = XXH3_64bits(server->chunk, action.length);
        socket_send(server->tiles, &route, message, server->chunk, action.length);
    }
}

static void take_requests(PodServer *server) {
    Route route;
    ReceiveResult result;
    while ((result = socket_receive(server->tiles, &server->frame, &route)) != RECEIVED_NOTHING) {
        if (result == RECEIVED_JUNK || wire_decode(zmq_msg_data(&server->frame), zmq_msg_size(&server->frame), server->inbox, NULL, NULL))
            continue;
        TileView tile;
        FetchCode code = FETCH_GONE;
        const Fetch *fetch = &server->inbox->fetch;
        if (server->inbox->header.type == WIRE_FETCH) {
            const TileView *found = find_tile(server, fetch, &tile, &code);
            serve_fetch(server->serve, route_connection(&route), fetch, found, code, now_ms());
        } else if (server->inbox->header.type == WIRE_CREDIT) {
            serve_credit(server->serve, route_connection(&route), &server->inbox->credit, now_ms());
        }
    }
    send_served(server);
}

static void perform_fetch(PodServer *server, const FetchAction *action) {
    WireMessage *message = server->outbox;
    message->header = (WireHeader){.sched_epoch = server->agent.sched_epoch};
    memcpy(message->header.job_id, server->agent.job_id, sizeof server->agent.job_id);
    switch (action->kind) {
    case FETCH_SEND_FETCH:
        message->header.type = WIRE_FETCH;
        message->fetch = action->fetch;
        socket_send(server->source, NULL, message, NULL, 0);
        break;
    case FETCH_SEND_CREDIT:
        message->header.type = WIRE_CREDIT;
        message->credit = action->credit;
        socket_send(server->source, NULL, message, NULL, 0);
        break;
    case FETCH_DONE:
        say(server, LOG_DEBUG, "fetched a shared tile from %s", server->agent.source);
        pod_fetched(server->pod, (uint32_t)action->tag);
        break;
    case FETCH_FAILED:
        say(server, LOG_WARNING, "cannot fetch a tile from %s: %s; it comes from its file", server->agent.source, action->why);
        pod_load(server->pod, (uint32_t)action->tag);
        break;
    }
}

static void take_chunks(PodServer *server) {
    while (server->source && socket_receive(server->source, &server->frame, NULL) != RECEIVED_NOTHING) {
        const uint8_t *bulk;
        size_t length;
        if (wire_decode(zmq_msg_data(&server->frame), zmq_msg_size(&server->frame), server->inbox, &bulk, &length))
            continue;
        if (server->inbox->header.type == WIRE_CHUNK)
            fetch_chunk(server->fetches, &server->inbox->chunk, bulk, length, now_ms());
        else if (server->inbox->header.type == WIRE_FETCH_REFUSED)
            fetch_refused(server->fetches, &server->inbox->fetch_refused, now_ms());
    }
    fetch_tick(server->fetches, now_ms());
    FetchAction action;
    while (fetch_next(server->fetches, &action))
        perform_fetch(server, &action);
}

/* A PodFetch: takes a load over where the scheduler named somebody to ask. */
static bool fetch_tile(void *context, uint32_t instruction, int tensor, const TileView *into) {
    PodServer *server = context;
    Error error;
    if (!server->agent.source[0])
        return false;
    if (!server->source) {
        server->source = socket_open(server->context, ZMQ_DEALER, WIRE_TILE_BYTES, SOCKET_DEAD_MS, &error);
        if (!server->source || !endpoint_check_connect(server->agent.source, &error) ||
            !socket_connect(server->source, server->agent.source, &error)) {
            say(server, LOG_WARNING, "%s", error.text);
            socket_close(server->source);
            server->source = NULL;
            return false;
        }
    }
    FetchRequest request = {.tag = instruction, .tensor = (uint32_t)tensor, .into = *into};
    memcpy(request.region.extent, into->extent, sizeof request.region.extent);
    return fetch_start(server->fetches, &request, now_ms());
}

/* ---- the loop ---- */

static bool hello_waits(const PodServer *server) {
    return server->unsent && server->agent.phase == AGENT_HELLO;
}

static void loop(PodServer *server) {
    while (!server->over) {
        zmq_pollitem_t items[6] = {
            {.socket = server->control, .events = (short)(ZMQ_POLLIN | (hello_waits(server) ? ZMQ_POLLOUT : 0))},
            {.socket = server->tiles, .events = ZMQ_POLLIN},
        };
        int count = 2;
        int prove = server->prove ? count++ : -1, flush = server->flush ? count++ : -1, pod = server->pod ? count++ : -1;
        int source = server->source ? count++ : -1;
        if (prove >= 0)
            items[prove] = (zmq_pollitem_t){.fd = task_fd(server->prove), .events = ZMQ_POLLIN};
        if (flush >= 0)
            items[flush] = (zmq_pollitem_t){.fd = task_fd(server->flush), .events = ZMQ_POLLIN};
        if (pod >= 0)
            items[pod] = (zmq_pollitem_t){.fd = pod_fd(server->pod), .events = ZMQ_POLLIN};
        if (source >= 0)
            items[source] = (zmq_pollitem_t){.socket = server->source, .events = ZMQ_POLLIN};
        zmq_poll(items, count, TICK_MS);
        if (atomic_load(&interrupted)) {
            step(server, &(AgentEvent){.kind = AGENT_EVENT_STOP, .text = "the user"});
            break;
        }
        if (items[0].revents & ZMQ_POLLOUT)
            perform(server, &(AgentAction){.kind = AGENT_ACTION_SEND, .type = WIRE_HELLO});
        take_messages(server);
        take_requests(server);
        if (!server->over && prove >= 0 && items[prove].revents)
            take_proof(server);
        if (!server->over && flush >= 0 && items[flush].revents)
            take_flush(server);
        if (!server->over && pod >= 0 && items[pod].revents)
            turn_pod(server);
        if (!server->over && server->pod)
            take_chunks(server);
        if (!server->over)
            step(server, &(AgentEvent){.kind = AGENT_EVENT_TICK});
        serve_tick(server->serve, now_ms());
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

static bool make_hello(PodServer *server, const char *endpoint, Hello *hello, Error *error) {
    const PodServeOptions *options = server->options;
    memcpy(hello->build_id, server->program->build_id, sizeof hello->build_id);
    hello->protocol_min = hello->protocol_max = WIRE_PROTOCOL;
    if (getrandom(hello->incarnation, sizeof hello->incarnation, 0) != (ssize_t)sizeof hello->incarnation)
        memcpy(hello->incarnation, &(uint64_t){now_ms() ^ (uint64_t)getpid() << 32}, sizeof(uint64_t));
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
    gethostname(host, sizeof host - 1);
    snprintf(server->node, sizeof server->node, "%s:%ld", host, (long)getpid());
}

static bool open_sockets(PodServer *server, char *bound, size_t bound_size, Error *error) {
    const char *listen = server->options->listen ? server->options->listen : DEFAULT_POD_ENDPOINT;
    if (!endpoint_check_connect(server->sched, error) || !endpoint_check_bind(listen, server->options->insecure, error))
        return false;
    return (server->context = socket_context_new(error)) &&
           (server->control = socket_open(server->context, ZMQ_DEALER, WIRE_CONTROL_BYTES, SOCKET_DEAD_MS, error)) &&
           (server->tiles = socket_open(server->context, ZMQ_ROUTER, WIRE_TILE_BYTES, SOCKET_DEAD_MS, error)) &&
           socket_bind(server->tiles, listen, bound, bound_size, error) && socket_connect(server->control, server->sched, error);
}

static void close_all(PodServer *server) {
    Error ignored;
    if (server->prove)
        task_end(server->prove, &ignored);
    if (server->flush)
        task_end(server->flush, &ignored);
    if (server->pod) {
        pod_stop(server->pod);
        pod_close(server->pod);
    }
    plan_free(server->plan);
    problem_free(server->problem);
    if (server->job)
        job_free(server->job);
    /* What was sent last, a goodbye, is given a moment to leave. */
    if (server->control)
        zmq_setsockopt(server->control, ZMQ_LINGER, &(int){200}, sizeof(int));
    socket_close(server->control);
    socket_close(server->tiles);
    socket_close(server->source);
    serve_free(server->serve);
    fetch_free(server->fetches);
    free(server->chunk);
    socket_context_free(server->context);
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
    server->serve = serve_new();
    server->fetches = fetch_new();
    server->chunk = new_zeroed(1, WIRE_CHUNK_BYTES);
    zmq_msg_init(&server->frame);
    name_node(server);
    Error error;
    char bound[256];
    int exit_code = EXIT_FAILED;
    AgentConfig config = {.hello_ms = HELLO_MS};
    if (choose_device(server, &error) && open_sockets(server, bound, sizeof bound, &error) && make_hello(server, bound, &config.hello, &error)) {
        agent_init(&server->agent, &config, now_ms());
        if (endpoint_is_open(bound))
            say(server, LOG_WARNING, "warning: nothing authenticates who connects to %s", bound);
        say(server, LOG_INFO, "waiting for a scheduler at %s", server->sched);
        step(server, &(AgentEvent){.kind = AGENT_EVENT_TICK});
        loop(server);
        exit_code = server->exit_code;
    } else {
        fprintf(stderr, "error: %s\n", error.text);
    }
    close_all(server);
    free(server);
    return exit_code;
}
