#include "runtime/measure.h"
#include "runtime/pod/pod.h"
#include "runtime/progress.h"
#include "runtime/selfcheck.h"
#include "runtime/task.h"
#include "runtime/thread.h"
#include "runtime/tune.h"

#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define TICK_MS 50 /* how soon an interruption is seen, and how smooth a bar may be */

/* One pod and the thread that owns it. */
typedef struct LocalPod {
    struct Local *local;
    int number;
    pthread_t thread;
    atomic_llong done; /* units */
    atomic_bool over;  /* what follows is settled */
    PodStatus status;
    Error error;
    TraceLog trace;
} LocalPod;

/* A job and its pods in this process. */
typedef struct Local {
    Job *job;
    const RunOptions *options;
    Problem *problem;
    Plan *plan;
    Placement *placement;
    int threads; /* of each pod */
    DeviceSet devices;
    LocalPod *pods;
    int pod_count, started;
    int stop_event; /* an eventfd: written, and never read, when the pods are to stop */
    int over_event; /* an eventfd: written by a pod that has ended */
    Task *reserve;  /* takes the outputs' space; NULL once it has ended */
    bool no_space;
    Error space_error;
    double seconds, predicted;
    FILE *trace; /* or NULL */
} Local;

static void say(const Local *local, LogLevel level, const char *text) {
    if (local->options->log >= level)
        fprintf(local->options->messages, "%s\n", text);
}

static bool is_interrupted(const Local *local) {
    const RunOptions *options = local->options;
    return atomic_load(&interrupted) || (options->is_cancelled != NULL && options->is_cancelled(options->context));
}

/* ---- pods ---- */

static bool open_pod(LocalPod *local_pod, Pod **pod) {
    const Local *local = local_pod->local;
    const DeviceChoice *device = &local->devices.items[local_pod->number % local->devices.count];
    PodOptions options = {
        .number = local_pod->number,
        .threads = local->threads,
        .device = device->type,
        .device_number = device->number,
        .cpu_level = getenv("PHOBOS_CPU_LEVEL"),
        .simt = local->options->simt,
        .trace = local->trace != NULL ? &local_pod->trace : NULL,
    };
    *pod = pod_open(local->plan, &options, &local_pod->error);
    if (*pod == NULL)
        return false;
    char text[160];
    snprintf(text, sizeof text, "pod %d: %.100s, %" PRId64 " bytes of tiles", local_pod->number, pod_describe(*pod), local->plan->bytes);
    say(local, LOG_INFO, text);
    return true;
}

/* Gives the pod of its units what it takes in; *given counts them. */
static void give_units(const LocalPod *local_pod, Pod *pod, int64_t *given) {
    const Placement *placement = local_pod->local->placement;
    int64_t units = placement_count(placement, local_pod->number);
    bool more = *given < units;
    while (*given < units && pod_has_room(pod)) {
        UnitRange run = placement_run(placement, local_pod->number, *given, units);
        pod_give(pod, run);
        *given += run.count;
    }
    if (*given == units && (more || units == 0))
        pod_no_more(pod);
}

static PodStatus run_pod(LocalPod *local_pod, Pod *pod) {
    const Local *local = local_pod->local;
    int64_t given = 0;
    give_units(local_pod, pod, &given);
    bool stopping = false;
    PodStatus status = pod_turn(pod);
    while (status == POD_RUNNING) {
        struct pollfd fds[] = {{.fd = pod_fd(pod), .events = POLLIN}, {.fd = local->stop_event, .events = POLLIN}};
        poll(fds, stopping ? 1 : 2, -1);
        if (!stopping && (fds[1].revents & POLLIN)) {
            stopping = true;
            pod_stop(pod);
        }
        status = pod_turn(pod);
        if (status == POD_RUNNING && !stopping && given < placement_count(local->placement, local_pod->number))
            give_units(local_pod, pod, &given);
        atomic_store(&local_pod->done, pod_units_done(pod));
    }
    if (status == POD_BROKEN)
        local_pod->error = *pod_error(pod);
    return status;
}

static void *pod_thread(void *context) {
    LocalPod *local_pod = context;
    Pod *pod;
    local_pod->status = open_pod(local_pod, &pod) ? run_pod(local_pod, pod) : POD_BROKEN;
    pod_close(pod);
    atomic_store(&local_pod->over, true);
    eventfd_write(local_pod->local->over_event, 1);
    return NULL;
}

static int64_t units_done(const Local *local) {
    int64_t done = 0;
    for (int p = 0; p < local->started; p++)
        done += atomic_load(&local->pods[p].done);
    return done;
}

/* How many pods have ended. */
static int pods_over(const Local *local, bool *any_broken) {
    int over = 0;
    *any_broken = false;
    for (int p = 0; p < local->started; p++) {
        const LocalPod *pod = &local->pods[p];
        if (!atomic_load(&pod->over))
            continue;
        over++;
        *any_broken |= pod->status == POD_BROKEN;
    }
    return over;
}

static bool run_reserve(void *context, Error *error) {
    return outputs_reserve(context, error);
}

static void end_reserve(Local *local) {
    if (local->reserve != NULL)
        local->no_space = !task_end(local->reserve, &local->space_error);
    local->reserve = NULL;
}

/* The first pod that breaks stops the others; so do a full disk and the user. Returns when all have ended. */
static void watch_pods(Local *local, bool stop, Progress *progress) {
    for (;;) {
        eventfd_t ignored;
        bool broken;
        bool all_over = pods_over(local, &broken) == local->started;
        if (all_over)
            return;
        if (stop || broken || local->no_space || is_interrupted(local))
            eventfd_write(local->stop_event, 1);
        progress_update(progress, units_done(local));
        struct pollfd fds[2] = {{.fd = local->over_event, .events = POLLIN}};
        if (local->reserve != NULL)
            fds[1] = (struct pollfd){.fd = task_fd(local->reserve), .events = POLLIN};
        poll(fds, local->reserve != NULL ? 2 : 1, TICK_MS);
        if (fds[0].revents & POLLIN)
            eventfd_read(local->over_event, &ignored);
        if (fds[1].revents & POLLIN)
            end_reserve(local);
    }
}

static bool pods_verdict(const Local *local, Error *error) {
    if (local->no_space) {
        *error = local->space_error;
        return false;
    }
    for (int p = 0; p < local->started; p++)
        if (local->pods[p].status == POD_BROKEN) {
            *error = local->pods[p].error;
            return false;
        }
    return is_interrupted(local) ? error_set(error, "interrupted; the old outputs are untouched") : true;
}

static bool run_pods(Local *local, Error *error) {
    atomic_store(&local->job->settled, false);
    local->reserve = task_start(run_reserve, local->job, error);
    bool fine = local->reserve != NULL;
    Progress progress;
    progress_begin(&progress, local->options->progress, local->options->messages, local->problem->kernel->name, local->problem->units);
    for (; fine && local->started < local->pod_count; local->started++) {
        LocalPod *pod = &local->pods[local->started];
        pod->local = local;
        pod->number = local->started;
        fine = thread_start(&pod->thread, "phb-pod", pod_thread, pod, error);
        if (!fine)
            break;
    }
    watch_pods(local, !fine, &progress);
    for (int p = 0; p < local->started; p++)
        pthread_join(local->pods[p].thread, NULL);
    atomic_store(&local->job->settled, true);
    end_reserve(local);
    progress_end(&progress, units_done(local));
    local->seconds = progress_seconds(&progress);
    return fine && pods_verdict(local, error);
}

/* ---- the run ---- */

static void summarise(const Local *local) {
    char class[32];
    class_describe(local->devices.class, local->devices.arch, class);
    FILE *out = local->options->out;
    fprintf(out, "%s: %" PRId64 " tiles in %.3f s on %s", local->problem->kernel->name, local->problem->units, local->seconds, class);
    if (local->options->plan.autotune != AUTOTUNE_NONE)
        fprintf(out, " (predicted %.3f s)", local->predicted);
    for (int p = 0; p < local->pod_count; p++)
        fprintf(out, "%s pod %d computed %lld", p == 0 ? ";" : ",", p, (long long)atomic_load(&local->pods[p].done));
    putc('\n', out);
}

static int fail(const RunOptions *options, int exit_code, const Error *error) {
    fprintf(options->errors, "error: %s\n", error->text);
    return exit_code;
}

/* The least that any pod has. */
static int64_t pod_memory(const Local *local, Error *error) {
    int64_t least = INT64_MAX;
    for (int d = 0; d < local->devices.count; d++) {
        int64_t bytes = device_memory(&local->devices, &local->devices.items[d], local->pod_count, error);
        least = bytes < least ? bytes : least;
    }
    return least;
}

static bool tune(Local *local, const PlanOptions *plan, Error *error) {
    Tuned tuned;
    Model model;
    TuneMachine machine = {&local->devices.items[0], local->pod_count, local->threads, true};
    if (!job_tune(local->job, &machine, plan, &model, &tuned, error))
        return false;
    local->predicted = tuned.seconds;
    fprintf(local->options->messages, "%s\n", tuned.text);
    free(tuned.text);
    return true;
}

/* On failure *exit_code says whose fault it is. */
static bool make_plan(Local *local, int *exit_code, Error *error) {
    PlanOptions plan = local->options->plan;
    *exit_code = EXIT_FAILED;
    if (plan.memory == 0)
        plan.memory = pod_memory(local, error);
    if (plan.memory <= 0)
        return false;
    *exit_code = EXIT_USAGE;
    if (plan.autotune != AUTOTUNE_NONE && !tune(local, &plan, error))
        return false;
    if (plan.leaf == LEAF_MEASURE &&
        !leaf_measure(local->job, &local->devices.items[0], local->threads, local->options->log, local->options->messages, error))
        return false;
    local->problem = problem_bind(local->job, plan.leaf, error);
    if (local->problem == NULL)
        return false;
    *exit_code = EXIT_FAILED;
    local->plan = plan_make(local->problem, plan.memory, error);
    if (local->plan == NULL)
        return false;
    local->placement = placement_new(local->problem, plan.placement, local->pod_count);
    return true;
}

static bool open_events(Local *local, Error *error) {
    local->stop_event = eventfd(0, EFD_CLOEXEC);
    local->over_event = eventfd(0, EFD_CLOEXEC);
    return (local->stop_event >= 0 && local->over_event >= 0) || error_errno(error, "cannot make an event descriptor");
}

static void local_init(Local *local, Job *job, const RunOptions *options, const DeviceSet *devices) {
    *local = (Local){.job = job, .options = options, .devices = *devices, .stop_event = -1, .over_event = -1};
    local->pod_count = options->pods > 0 ? options->pods : local->devices.count;
    local->threads = options->threads > 0 ? options->threads : machine_processors() / local->pod_count;
    if (local->threads < 1)
        local->threads = 1;
    local->pods = new_zeroed((size_t)local->pod_count, sizeof *local->pods);
}

static void local_fini(Local *local) {
    if (local->stop_event >= 0)
        close(local->stop_event);
    if (local->over_event >= 0)
        close(local->over_event);
    for (int p = 0; p < local->pod_count; p++)
        trace_fini(&local->pods[p].trace);
    free(local->pods);
    placement_free(local->placement);
    plan_free(local->plan);
    problem_free(local->problem);
}

/* A SelfcheckRun. */
static bool run_variation(void *context, const RunOptions *options, Error *error) {
    const Local *user = context;
    Local local;
    int ignored;
    local_init(&local, user->job, options, &user->devices);
    bool fine = make_plan(&local, &ignored, error) && open_events(&local, error) && run_pods(&local, error);
    local_fini(&local);
    return fine;
}

static bool write_trace(Local *local, Error *error) {
    if (local->trace == NULL)
        return true;
    TracePod *pods = new_zeroed((size_t)local->pod_count, sizeof *pods);
    char(*names)[32] = new_zeroed((size_t)local->pod_count, sizeof *names);
    for (int p = 0; p < local->pod_count; p++) {
        snprintf(names[p], sizeof names[p], "pod %d", p);
        pods[p] = (TracePod){names[p], &local->pods[p].trace};
    }
    bool fine = trace_write(local->trace, local->options->trace, local->problem->kernel, pods, (size_t)local->pod_count, error);
    local->trace = NULL;
    free(pods);
    free(names);
    return fine;
}

static int run_job(Local *local) {
    const RunOptions *options = local->options;
    Error error;
    int exit_code;
    if (!make_plan(local, &exit_code, &error))
        return fail(options, exit_code, &error);
    if (options->trace != NULL && (local->trace = trace_open(options->trace, local->job, &error)) == NULL)
        return fail(options, EXIT_FAILED, &error);
    exit_code = EXIT_DONE;
    if (!open_events(local, &error) || !outputs_stage(local->job, options->keep_staging, &error) ||
        (options->selfcheck && !selfcheck(local->job, options, local->plan->memory, run_variation, local, &error)) || !run_pods(local, &error) ||
        !outputs_publish(local->job, &error))
        exit_code = fail(options, EXIT_FAILED, &error);
    else
        summarise(local);
    if (!write_trace(local, &error))
        exit_code = fail(options, EXIT_FAILED, &error);
    return exit_code;
}

int local_run(Job *job, const RunOptions *options) {
    DeviceSet devices;
    Error error;
    if (!device_select(options->device, job->kernel, options->mixed, &devices, &error))
        return fail(options, EXIT_FAILED, &error);
    job->device = devices.class;
    device_bar(&devices, job);
    Local local;
    local_init(&local, job, options, &devices);
    if (devices.reason.text[0] != '\0') {
        char text[sizeof error.text + 64];
        snprintf(text, sizeof text, "leaves run on the CPU: %s", devices.reason.text);
        say(&local, devices.missed ? LOG_WARNING : LOG_INFO, text);
    }
    int exit_code = run_job(&local);
    local_fini(&local);
    return exit_code;
}
