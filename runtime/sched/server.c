#include "runtime/sched/server.h"
#include "runtime/clock.h"
#include "runtime/crash.h"
#include "runtime/measure.h"
#include "runtime/net/curve.h"
#include "runtime/net/proof.h"
#include "runtime/net/socket.h"
#include "runtime/pod/attach.h"
#include "runtime/progress.h"
#include "runtime/sched/core.h"
#include "runtime/sched/course.h"
#include "runtime/sched/resume.h"
#include "runtime/sched/survey.h"
#include "runtime/task.h"
#include "runtime/trace.h"
#include "runtime/tune.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <zmq.h>

enum { MAX_TRACED = 1 << 22, TICK_MS = 100, PROGRESS_MS = 60000, LOOK_MS = 500, FLUSH_MS = 30000, DRAIN_MS = 1000 };

typedef struct Server {
    Job *job;
    const ServeOptions *options;
    Course *course;
    Placement *placement; /* of the job's only kernel, or of the first step */
    Model model;
    double predicted;            /* seconds, where super-tiles were chosen by a model */
    int variants[CLASS_COUNT];   /* the leaf of each class of devices, or -1 and */
    Error refusals[CLASS_COUNT]; /* why the job does not run there */
    int32_t step_variants[CLASS_COUNT][JOB_MAX_STEPS];
    bool unfit;   /* there is no plan for the pods that are there, and */
    Error misfit; /* why */
    Welcome *welcome;
    WireSeen expected[PHB_MAX_PARAMS];
    SchedCore *core;
    SchedActions actions;
    DeviceSet devices; /* of this machine, of the class that was asked for last */
    void *context, *control;
    Guard *guard;       /* NULL: keys are not in use */
    uint64_t strangers; /* refused, as far as was said */
    uint64_t looked_ms; /* last, for descriptors that are left */
    bool crowded;       /* there were none */
    WireMessage *inbox, *outbox;
    zmq_msg_t frame;
    Task *reserve, *publish; /* NULL while they do not run */
    bool renew;              /* pods that were given up, or are slow, may still write to the staging files */
    uint64_t junk;           /* frames dropped */
    uint64_t said_ms;        /* since when what is said of pods is counted, */
    int said, unsaid;        /* and how much of it there was, and was too much */
    Progress progress;
    uint64_t replanned_ns; /* the longest that it took to deal anew after a loss */
    FILE *trace;    /* or NULL */
    TraceLog *logs; /* of each pod, where a trace is wanted */
    Resume resume;
    WireBatch *stored;   /* what is kept of the earlier run */
    AuditChoice audit;
    bool journal_failed; /* and said to be */
    bool over;
    int exit_code;
} Server;

__attribute__((format(printf, 3, 4))) static void say(const Server *server, LogLevel level, const char *format, ...) {
    if (level > server->options->log)
        return;
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

static void tell_unsaid(Server *server) {
    if (server->unsaid > 0)
        say(server, LOG_WARNING, "%d lines about pods were left out", server->unsaid);
    server->said = server->unsaid = 0;
}

/* Whoever connects can have something said of him, and would fill a disk: so many lines a second and no more. */
static void say_of_pods(Server *server, const SchedAction *action) {
    enum { MOST_LINES = 200 };
    uint64_t now_ms = clock_ms();
    if (now_ms - server->said_ms >= 1000) {
        tell_unsaid(server);
        server->said_ms = now_ms;
    }
    if (server->said++ < MOST_LINES)
        say(server, action->warning ? LOG_WARNING : LOG_INFO, "%s", action->text);
    else
        server->unsaid++;
}

/* ---- what the core asks for ---- */

static bool run_publish(void *context, Error *error) {
    const Server *server = context;
    Job *job = server->job;
    for (int t = 0; t < job->kernel->tensor_count; t++)
        if (job->tensors[t].staging_fd >= 0 && !proof_unmark(&job->tensors[t], error))
            return false;
    return outputs_publish(job, server->renew, error);
}

static bool run_reserve(void *context, Error *error) {
    return outputs_reserve(context, error);
}

static void step(Server *server, const SchedEvent *event);

static void take_reserve(Server *server) {
    Error error;
    bool fine = task_end(server->reserve, &error);
    server->reserve = NULL;
    if (!fine)
        step(server, &(SchedEvent){.kind = SCHED_EVENT_FAILED, .text = error.text});
}

/* Everything is written: what it would still reserve is there. */
static void stop_reserve(Server *server) {
    Error ignored;
    atomic_store(&server->job->settled, true);
    if (server->reserve)
        task_end(server->reserve, &ignored);
    server->reserve = NULL;
}

static void take_publish(Server *server) {
    Error error = {""};
    bool fine = task_end(server->publish, &error);
    server->publish = NULL;
    crash_point(CRASH_GOODBYE, CRASH_BEGIN);
    step(server, &(SchedEvent){.kind = SCHED_EVENT_PUBLISHED, .ok = fine, .text = error.text});
}

static void send(Server *server, const SchedAction *action) {
    if (!sched_compose(server->core, action, server->outbox))
        return;
    Route route = route_of(action->connection);
    socket_send(server->control, &route, server->outbox, NULL, 0);
}

static void journal_batch(Server *server, const SchedAction *action) {
    Error error;
    JournalStored stored = {.first = action->batch.first, .count = action->batch.count, .step = action->batch.step, .checksum = action->checksum};
    DeviceClass class;
    int arch;
    sched_pod_device(server->core, action->pod, &class, &arch);
    stored.device = (uint8_t) class;
    stored.arch = (uint16_t)arch;
    crash_point(CRASH_BATCH, CRASH_BEGIN);
    bool fine = journal_stored(server->job->journal, &stored, &error);
    crash_point(CRASH_BATCH, CRASH_END);
    if (fine || server->journal_failed)
        return;
    server->journal_failed = true; /* the job goes on: it loses no more than what a crash would cost */
    say(server, LOG_WARNING, "warning: %s", error.text);
}

/* True: the core wants to hear at once that publishing could not even begin. */
static bool perform(Server *server, const SchedAction *action, Error *error) {
    switch (action->kind) {
    case SCHED_ACTION_SEND:
        send(server, action);
        break;
    case SCHED_ACTION_FORGET:
        break;
    case SCHED_ACTION_STORED:
        journal_batch(server, action);
        break;
    case SCHED_ACTION_PUBLISH:
        stop_reserve(server);
        server->renew = sched_someone_writes(server->core);
        server->publish = task_start(run_publish, server, error);
        return server->publish == NULL;
    case SCHED_ACTION_LOG:
        say_of_pods(server, action);
        break;
    case SCHED_ACTION_FINISH:
        tell_unsaid(server);
        server->over = true;
        server->exit_code = action->exit_code;
        if (action->exit_code)
            fprintf(stderr, "error: %s\n", action->text);
        for (int t = 0; t < server->job->kernel->tensor_count && action->spoilt; t++)
            server->job->tensors[t].keep_staging = false;
        break;
    }
    return false;
}

static void step(Server *server, const SchedEvent *event) {
    Error error;
    bool unpublished = false;
    uint32_t lost = sched_recovery(server->core)->lost;
    uint64_t began_ns = clock_ns();
    sched_step(server->core, event, clock_ms(), &server->actions);
    if (sched_recovery(server->core)->lost > lost && clock_ns() - began_ns > server->replanned_ns)
        server->replanned_ns = clock_ns() - began_ns;
    for (size_t i = 0; i < server->actions.count; i++)
        unpublished |= perform(server, &server->actions.items[i], &error);
    if (unpublished)
        step(server, &(SchedEvent){.kind = SCHED_EVENT_PUBLISHED, .text = error.text});
    if (server->unfit) {
        server->unfit = false;
        step(server, &(SchedEvent){.kind = SCHED_EVENT_FAILED, .text = server->misfit.text});
    }
}

/* ---- the trace ---- */

static void answer_time(Server *server, const Route *route) {
    server->outbox->header = (WireHeader){.type = WIRE_CLOCK};
    server->outbox->clock = server->inbox->clock;
    server->outbox->clock.seen_ns = clock_ns();
    socket_send(server->control, route, server->outbox, NULL, 0);
}

static void take_trace(Server *server, const Trace *trace) {
    int64_t pod = sched_pod_find(server->core, trace->token);
    if (server->trace == NULL || pod < 0)
        return;
    for (uint32_t e = 0; e < trace->events_count && server->logs[pod].count < MAX_TRACED; e++)
        trace_add(&server->logs[pod], &trace->events[e]);
}

static bool write_trace(Server *server, Error *error) {
    if (server->trace == NULL)
        return true;
    uint32_t count = sched_pod_count(server->core);
    TracePod *pods = new_zeroed((size_t)count, sizeof *pods);
    for (uint32_t pod = 0; pod < count; pod++)
        pods[pod] = (TracePod){sched_pod_node(server->core, pod), &server->logs[pod]};
    bool fine = trace_write(server->trace, server->options->trace, server->job->kernel, pods, count, error);
    server->trace = NULL;
    free(pods);
    return fine;
}

/* ---- the loop ---- */

static void drop_junk(Server *server, const char *why) {
    if (server->junk++ < 10)
        say(server, LOG_WARNING, "dropped a message: %s%s", why, server->junk == 10 ? "; further ones are counted in silence" : "");
}

static void take_messages(Server *server) {
    Route route;
    ReceiveResult result;
    while (!server->over && (result = socket_receive(server->control, &server->frame, &route)) != RECEIVED_NOTHING) {
        if (result == RECEIVED_JUNK) {
            drop_junk(server, "not one part");
            continue;
        }
        char sender[KEY_NAME];
        curve_sender(&server->frame, sender);
        WireError error = wire_decode(zmq_msg_data(&server->frame), zmq_msg_size(&server->frame), server->inbox, NULL, NULL);
        if (error)
            drop_junk(server, wire_error_text(error));
        else if (server->inbox->header.type == WIRE_CLOCK)
            answer_time(server, &route);
        else if (server->inbox->header.type == WIRE_TRACE)
            take_trace(server, &server->inbox->trace);
        else
            step(server, &(SchedEvent){.kind = SCHED_EVENT_MESSAGE,
                             .connection = route_connection(&route),
                             .message = server->inbox,
                             .sender = server->guard ? sender : NULL});
    }
}

/* At most as often as the loop turns: a flood of them is one line each tick. */
static void tell_of_strangers(Server *server) {
    uint64_t strangers = server->guard ? guard_refused(server->guard) : 0;
    if (strangers > server->strangers)
        say(server, LOG_WARNING, "warning: %" PRIu64 " connections refused so far whose keys are not among the peers", strangers);
    server->strangers = strangers;
}

/* ZeroMQ says nothing when it cannot take the next connection. */
static void tell_of_files(Server *server) {
    Error error;
    if (clock_ms() - server->looked_ms < LOOK_MS)
        return;
    server->looked_ms = clock_ms();
    bool crowded = !socket_has_files(&error);
    if (crowded && !server->crowded)
        say(server, LOG_WARNING, "warning: %s: who comes now is let in when others have gone (ulimit -n)", error.text);
    server->crowded = crowded;
}

/* Time counts from the first unit dealt: waiting for pods is not the job's. */
static void show_progress(Server *server) {
    if (!sched_has_begun(server->core))
        return;
    if (server->progress.total == 0)
        progress_begin(&server->progress, server->options->progress, stderr, server->job->kernel->name, server->course->units);
    uint64_t bytes = 0;
    for (uint32_t pod = 0; pod < sched_pod_count(server->core); pod++)
        bytes += moved_bytes(sched_pod_moved(server->core, pod));
    progress_moved(&server->progress, bytes);
    progress_update(&server->progress, (int64_t)sched_units_done(server->core));
}

static void loop(Server *server) {
    bool stopping = false;
    uint64_t ticked = 0;
    while (!server->over) {
        bool publishing = server->publish != NULL; /* then it reserves no more */
        const Task *task = publishing ? server->publish : server->reserve;
        zmq_pollitem_t items[2] = {{.socket = server->control, .events = ZMQ_POLLIN}};
        if (task)
            items[1] = (zmq_pollitem_t){.fd = task_fd(task), .events = ZMQ_POLLIN};
        zmq_poll(items, task ? 2 : 1, TICK_MS);
        if (atomic_load(&interrupted) && !stopping) {
            stopping = true;
            step(server, &(SchedEvent){.kind = SCHED_EVENT_STOP, .text = "the user"});
        }
        take_messages(server);
        tell_of_strangers(server);
        tell_of_files(server);
        if (!server->over && items[1].revents && publishing)
            take_publish(server);
        else if (!server->over && items[1].revents && server->reserve)
            take_reserve(server);
        if (!server->over && clock_ms() - ticked >= TICK_MS) {
            ticked = clock_ms();
            step(server, &(SchedEvent){.kind = SCHED_EVENT_TICK});
        }
        show_progress(server);
    }
}

/* ---- start and end ---- */

/* Of a job of steps its publication alone is journaled: what lived in its pods is lost with them. */
static bool take_earlier(Server *server, Error *error) {
    if (server->job->sequence == NULL)
        return resume_take(&server->resume, server->job, server->course->steps[0].problem, server->variants, &server->audit, error);
    resume_drop(&server->resume, server->job);
    server->job->journal = resume_begin(server->job, server->course->units, server->variants, &server->resume, error);
    return server->job->journal != NULL;
}

/* Stages the outputs, marks them, and takes down what pods are to see. */
static bool stage(Server *server, Error *error) {
    Job *job = server->job;
    if (!outputs_stage(job, server->options->keep_staging, error))
        return false;
    crash_point(CRASH_STAGE, CRASH_BEGIN);
    if (!take_earlier(server, error) || !(server->reserve = task_start(run_reserve, job, error)))
        return false;
    crash_point(CRASH_STAGE, CRASH_HALF);
    for (int t = 0; t < job->kernel->tensor_count; t++) {
        TensorFile *file = &job->tensors[t];
        WireSeen *seen = &server->expected[t];
        uint64_t nonce;
        if (getrandom(&nonce, sizeof nonce, 0) != (ssize_t)sizeof nonce)
            return error_errno(error, "cannot draw a random number");
        if (file->staging_fd >= 0 && !proof_mark(file, nonce, error))
            return false;
        proof_look(file, 0, 0, seen);
        if (seen->error)
            return error_set(error, "cannot read \"%s\": %s", file->path, strerror((int)seen->error));
    }
    crash_point(CRASH_STAGE, CRASH_END);
    return true;
}

static bool open_socket(Server *server, Error *error) {
    const char *listen = server->options->listen ? server->options->listen : DEFAULT_SCHED_ENDPOINT;
    char bound[256];
    const Keys *keys = server->options->keys;
    if (!endpoint_check_bind(listen, server->options->insecure || keys, error))
        return false;
    server->context = socket_context_new(error);
    if (!server->context || (keys && !(server->guard = guard_start(server->context, keys, error))))
        return false;
    server->control = socket_open(server->context, ZMQ_ROUTER, WIRE_CONTROL_BYTES, (uint32_t)server->options->deadline_ms, error);
    if (!server->control || (keys && !curve_serve(server->control, keys, error)) ||
        !socket_bind(server->control, listen, bound, sizeof bound, error) || (keys && !curve_self_test(server->context, bound, keys, error)))
        return false;
    server->strangers = keys ? guard_refused(server->guard) : 0; /* the self-test was one */
    if (endpoint_is_open(bound) && !keys)
        say(server, LOG_WARNING, "warning: nothing authenticates who connects to %s", bound);
    say(server, LOG_INFO, "waiting for pods at %s", bound);
    return true;
}

/* This machine's devices stand for the pods'. NULL: none is of the job's class. */
static const DeviceChoice *find_device(Server *server, Job *job) {
    static const char *const names[CLASS_COUNT] = {[CLASS_CPU] = "cpu", [CLASS_GPU] = "auto", [CLASS_SIMT] = "simt"};
    Error ignored;
    DeviceSet *set = &server->devices;
    if (!device_select(names[job->device], job->kernel, false, set, &ignored) || set->class != job->device)
        return NULL;
    device_bar(set, job);
    return &set->items[0];
}

/* A TuneMachine.look. */
static bool look(void *context, TuneMachine *machine, Error *error) {
    Server *server = context;
    const ServeOptions *options = server->options;
    SurveyOptions survey = {
        .build_id = server->job->program->build_id,
        .nodes = options->nodes,
        .join_window_ms = options->join_window_ms,
        .join_timeout_ms = options->join_timeout_ms,
    };
    if (!open_socket(server, error))
        return false;
    survey.keyed = server->guard != NULL;
    if (!survey_machine(server->control, &survey, options->log, machine, error))
        return false;
    for (int s = 0; s < job_step_count(server->job); s++) {
        job_step(server->job, s)->device = machine->class;
        machine->device = find_device(server, job_step(server->job, s));
    }
    return true;
}

/* Processors and files are taken to be as this machine's. */
static bool tune(Server *server, Error *error) {
    const PlanOptions *options = &server->options->plan;
    TuneMachine machine = {.files = server->job,
        .pods = server->options->nodes > 0 ? server->options->nodes : 1,
        .threads = machine_processors(),
        .link_bw = options->link_bw,
        .look = look,
        .context = server};
    Tuned tuned;
    server->model = model_assumed(options);
    if (options->autotune == AUTOTUNE_NONE || server->resume.state != NULL)
        return true;
    for (int s = 0; s < job_step_count(server->job); s++) {
        if (!job_tune(job_step(server->job, s), &machine, options, &server->model, &tuned, error))
            return false;
        server->predicted += tuned.seconds * (double)(job_rounds(server->job) / job_step_count(server->job));
        fprintf(stderr, "%s\n", tuned.text);
        free(tuned.text);
    }
    return true;
}

static bool measure(Server *server, Job *job, Error *error) {
    const DeviceChoice *device = server->options->plan.leaf == LEAF_MEASURE ? find_device(server, job) : NULL; /* not here: the model chooses */
    return device == NULL || leaf_measure(job, device, machine_processors(), server->options->log, stderr, error);
}

static Course *bind_class(Server *server, DeviceClass class, Error *error) {
    for (int s = 0; s < job_step_count(server->job); s++) {
        job_step(server->job, s)->device = class;
        if (!measure(server, job_step(server->job, s), error))
            return NULL;
    }
    return course_bind(server->job, server->options->plan.leaf, error);
}

/* The leaves of each class of devices that pods may have. What super-tiles there are is the same for all. */
static bool bind_classes(Server *server, Error *error) {
    for (int class = 0; class < CLASS_COUNT; class ++) {
        Course *course = bind_class(server, (DeviceClass) class, &server->refusals[class]);
        for (int s = 0; s < job_step_count(server->job); s++)
            server->step_variants[class][s] =
                course != NULL ? (int32_t)(course->steps[s].problem->variant - course->steps[s].problem->kernel->variants) : -1;
        server->variants[class] = server->step_variants[class][0];
        if (server->course == NULL)
            server->course = course;
        else
            course_free(course);
    }
    if (server->course == NULL)
        *error = server->refusals[CLASS_CPU];
    return server->course != NULL;
}

static int64_t budget_of(const Server *server, int64_t memory) {
    int64_t budget = server->options->plan.memory;
    return budget > 0 && budget < memory ? budget : memory;
}

/* A SchedConfig.fetched. Of a job of several steps it only sees whether the pods hold what lives in them. */
static uint64_t choose_fetched(void *context, int64_t memory) {
    Server *server = context;
    if (server->job->sequence != NULL) {
        course_deal(server->course, server->placement->nodes);
        server->unfit = !course_fit(server->course, budget_of(server, memory), &server->misfit);
        return 0;
    }
    Error ignored; /* the pod says why it has no plan */
    Plan *plan = plan_make(server->course->steps[0].problem, budget_of(server, memory), &ignored);
    uint64_t tensors = plan != NULL ? plan_share(plan, server->placement, &server->model) : 0;
    plan_free(plan);
    return tensors;
}

/* A SchedConfig.round. */
static uint64_t find_round(void *context, uint64_t round, Placement **placement) {
    const Server *server = context;
    const StepPlan *step = course_plan(server->course, (int64_t)round);
    *placement = step->placement;
    return (uint64_t)step->problem->units;
}

static uint64_t most_units(const Server *server) {
    int64_t most = 0;
    for (int s = 0; s < server->course->step_count; s++)
        most = server->course->steps[s].problem->units > most ? server->course->steps[s].problem->units : most;
    return (uint64_t)most;
}

static void list_stored(Server *server) {
    server->stored = new_zeroed(server->resume.stored_count, sizeof *server->stored);
    for (size_t i = 0; i < server->resume.stored_count; i++) {
        const JournalStored *stored = &server->resume.stored[i];
        server->stored[i] = (WireBatch){.first = stored->first, .count = stored->count, .step = stored->step};
    }
}

static bool open_core(Server *server, Error *error) {
    const ServeOptions *options = server->options;
    if (!job_describe(server->job, 0, server->welcome, error))
        return false;
    server->welcome->budget = (uint64_t)options->plan.memory;
    server->welcome->trace = server->trace != NULL;
    course_place(server->course, options->plan.placement, WIRE_MAX_PODS);
    server->placement = server->course->steps[0].placement;
    list_stored(server);
    SchedConfig config = {
        .epoch = server->resume.generation,
        .units = most_units(server),
        .audit = server->audit,
        .stored = server->stored,
        .stored_count = server->resume.stored_count,
        .begun = server->resume.stored_count > 0,
        .placement = server->placement,
        .course = server->job->sequence != NULL,
        .rounds = (uint64_t)server->course->rounds,
        .round = find_round,
        .nodes = (uint32_t)options->nodes,
        .max_pods = WIRE_MAX_PODS,
        .join_window_ms = (uint32_t)options->join_window_ms,
        .join_timeout_ms = (uint32_t)options->join_timeout_ms,
        .dead_ms = (uint32_t)options->deadline_ms,
        .lease_ms = (uint32_t)options->deadline_ms / 2,
        .heartbeat_ms = (uint32_t)options->deadline_ms / 10,
        .progress_ms = PROGRESS_MS,
        .flush_ms = FLUSH_MS,
        .drain_ms = DRAIN_MS,
        .job = server->welcome,
        .speculate = options->speculate,
        .mixed = options->mixed,
        .expected = server->expected,
        .fetched = choose_fetched,
        .context = server,
    };
    if (config.begun) {
        config.begun_class = (DeviceClass)server->resume.stored[0].device;
        config.begun_arch = server->resume.stored[0].arch;
    }
    for (int class = 0; class < CLASS_COUNT; class ++) {
        config.variants[class] = server->variants[class];
        config.step_variants[class] = server->step_variants[class];
        config.refusals[class] = server->refusals[class].text;
    }
    uint64_t seed;
    memcpy(config.build_id, server->job->program->build_id, sizeof config.build_id);
    if (getrandom(config.job_id, sizeof config.job_id, 0) != (ssize_t)sizeof config.job_id ||
        getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        return error_errno(error, "cannot draw a random number");
    server->core = sched_core_new(&config, clock_ms(), seed);
    server->actions.capacity = sched_actions_capacity(&config);
    server->actions.items = new_zeroed(server->actions.capacity, sizeof server->actions.items[0]);
    return server->core || error_set(error, "out of memory");
}

static bool open_trace(Server *server, Error *error) {
    if (server->options->trace == NULL)
        return true;
    server->trace = trace_open(server->options->trace, server->job, error);
    server->logs = new_zeroed(WIRE_MAX_PODS, sizeof *server->logs);
    return server->trace != NULL;
}

static void summarise_recovery(const Server *server) {
    const Recovery *recovery = sched_recovery(server->core);
    if (recovery->lost > 0)
        printf("recovered: %u pod%s lost, noticed after %.1f s at most, and dealt anew in %.1f ms; %" PRIu64
               " stored tiles computed again (%.1f s)\n",
            recovery->lost, recovery->lost == 1 ? "" : "s", (double)recovery->detect_ms / 1e3, (double)server->replanned_ns / 1e6,
            recovery->units_again, (double)recovery->again_ms / 1e3);
}

static void summarise(const Server *server) {
    char first[32] = "", class[32];
    bool mixed = false;
    for (uint32_t pod = 0; pod < sched_pod_count(server->core); pod++) {
        sched_pod_class(server->core, pod, pod == 0 ? first : class);
        mixed |= pod > 0 && strcmp(first, class) != 0;
    }
    printf("%s: %" PRId64 " tiles in %.3f s on %s", server->job->kernel->name, server->course->units, progress_seconds(&server->progress),
        mixed ? "mixed devices" : first);
    if (server->predicted > 0)
        printf(" (predicted %.3f s)", server->predicted);
    for (uint32_t pod = 0; pod < sched_pod_count(server->core); pod++)
        printf("%s pod %s computed %" PRIu64, pod == 0 ? ";" : ",", sched_pod_node(server->core, pod), sched_pod_units(server->core, pod));
    putchar('\n');
    if (server->audit.wanted)
        printf("audit: %" PRIu64 " tiles were computed again by another pod: the same bits\n", sched_audited(server->core));
    summarise_recovery(server);
    for (uint32_t pod = 0; pod < sched_pod_count(server->core); pod++) {
        const PodMoved *moved = sched_pod_moved(server->core, pod);
        say(server, LOG_INFO,
            "pod %s moved: %" PRIu64 " tiles loaded (%" PRIu64 " bytes), %" PRIu64 " fetched (%" PRIu64 "), %" PRIu64 " stored (%" PRIu64 ")",
            sched_pod_node(server->core, pod), moved->loads, moved->loaded, moved->fetches, moved->fetched, moved->stores, moved->stored);
    }
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    double seconds = (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
    say(server, LOG_DEBUG, "the scheduler took %.3f s of processor time, %.2f us a tile", seconds, seconds * 1e6 / (double)server->course->units);
}

static void close_all(Server *server) {
    Error ignored;
    stop_reserve(server);
    if (server->publish)
        task_end(server->publish, &ignored);
    socket_close(server->control);
    socket_context_free(server->context);
    guard_free(server->guard);
    sched_core_free(server->core);
    for (uint32_t pod = 0; server->logs != NULL && pod < WIRE_MAX_PODS; pod++)
        trace_fini(&server->logs[pod]);
    free(server->logs);
    if (server->trace != NULL)
        fclose(server->trace); /* there was nothing to write: the job did not begin */
    free(server->actions.items);
    course_free(server->course);
    free(server->stored);
    resume_close(&server->resume);
    zmq_msg_close(&server->frame);
    free(server->welcome);
    free(server->inbox);
    free(server->outbox);
}

/* Up to where pods may come. The socket before the outputs: where another scheduler listens, nothing is staged. */
static bool prepare(Server *server, Error *error) {
    if (!resume_open(&server->resume, server->job, server->options->resume, error))
        return false;
    if (server->resume.published)
        return true;
    if (!tune(server, error) || !bind_classes(server, error))
        return false;
    server->audit = audit_choose(&server->options->audit, job_hash(server->job), server->course->steps[0].problem->units);
    if (!open_trace(server, error) || (!server->control && !open_socket(server, error)) || !stage(server, error))
        return false;
    if (server->resume.said[0] != '\0')
        say(server, LOG_WARNING, "%s", server->resume.said);
    return open_core(server, error);
}

int sched_serve(Job *job, const ServeOptions *options) {
    Server *server = new_zeroed(1, sizeof *server);
    server->job = job;
    server->options = options;
    server->inbox = new_zeroed(1, sizeof *server->inbox);
    server->outbox = new_zeroed(1, sizeof *server->outbox);
    server->welcome = new_zeroed(1, sizeof *server->welcome);
    zmq_msg_init(&server->frame);
    Error error;
    int exit_code = EXIT_FAILED;
    if (!audit_can(job, &options->audit, &error)) {
        fprintf(stderr, "error: %s\n", error.text);
        exit_code = EXIT_USAGE;
    } else if (!prepare(server, &error)) {
        fprintf(stderr, "error: %s\n", error.text);
    } else if (server->resume.published) {
        printf("%s: the outputs of an earlier run are in place\n", job->kernel->name);
        exit_code = EXIT_DONE;
    } else {
        loop(server);
        if (sched_has_begun(server->core))
            progress_end(&server->progress, (int64_t)sched_units_done(server->core));
        exit_code = server->exit_code;
        if (exit_code == EXIT_DONE)
            summarise(server);
        if (!write_trace(server, &error)) {
            fprintf(stderr, "error: %s\n", error.text);
            exit_code = EXIT_FAILED;
        }
    }
    close_all(server);
    free(server);
    return exit_code;
}
