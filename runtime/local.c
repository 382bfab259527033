#include "runtime/clock.h"
#include "runtime/keep.h"
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

#define TICK_MS 50  /* how soon an interruption is seen, and how smooth a bar may be */
#define END_MS 1000 /* for what pods have begun to end */

/* Of a pod's units, where a journal is kept: the more there are, the less is done again after a crash. */
enum { JOURNALED_BATCHES = 256 };

/* One pod and the thread that owns it. */
typedef struct LocalPod {
    struct Local *local;
    int number;
    UnitRange ranges[ENGINE_MAX_RANGES]; /* that it has, by tag */
    uint64_t given;                      /* ranges, in all */
    pthread_t thread;
    int gate;          /* an eventfd: written when the next round begins */
    Pod **pods;        /* one a step */
    atomic_llong done; /* units */
    atomic_llong moved; /* bytes */
    atomic_llong audited; /* units of another pod that were computed again */
    atomic_bool over;  /* what follows is settled */
    PodStatus status;
    bool differs; /* from what the pod computed whose units it did again */
    Error error;
    TraceLog trace;
} LocalPod;

/* A job and its pods in this process. */
typedef struct Local {
    Job *job;
    const RunOptions *options;
    Course *course;
    Kept kept;
    int threads; /* of each pod */
    DeviceSet devices;
    LocalPod *pods;
    int pod_count, started;
    int stop_event; /* an eventfd: written, and never read, when the pods are to stop */
    int over_event; /* an eventfd: written by a pod that has ended */
    atomic_int arrived; /* pods that have done their part of the round */
    atomic_llong round; /* that they may work on */
    Task *reserve;  /* takes the outputs' space; NULL once it has ended */
    bool no_space;
    Error space_error;
    Keep *keep; /* NULL: this run is not for the outputs */
    AuditChoice audit;
    uint64_t *checksums; /* by unit, of those that are audited; written by the pod that stores it */
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

static bool keeps_journal(const Local *local) {
    return local->keep != NULL && keep_journals(local->keep);
}

/* Whose units this pod computes again. */
static int audited_of(const LocalPod *pod) {
    return (pod->number + 1) % pod->local->pod_count;
}

static void compare_bits(LocalPod *pod, int64_t unit, uint64_t checksum) {
    const Local *local = pod->local;
    atomic_fetch_add(&pod->audited, 1);
    if (checksum != local->checksums[unit] && !pod->differs)
        pod->differs = !error_set(&pod->error, "audit: super-tile %" PRId64 ": pod %d and pod %d computed different bits; one of them is wrong", unit,
            audited_of(pod), pod->number);
}

/* A PodRangeDone. */
static void range_done(void *context, uint64_t tag, int64_t count, uint64_t checksum) {
    LocalPod *pod = context;
    UnitRange range = pod->ranges[tag % ENGINE_MAX_RANGES];
    range.count = count;
    if (range.dry) {
        compare_bits(pod, range.first, checksum);
        return;
    }
    if (audit_picks(&pod->local->audit, (uint64_t)range.first))
        pod->local->checksums[range.first] = checksum;
    if (keeps_journal(pod->local))
        keep_batch(pod->local->keep, range, checksum);
}

static bool open_pods(LocalPod *local_pod) {
    const Local *local = local_pod->local;
    const Course *course = local->course;
    const DeviceChoice *device = &local->devices.items[local_pod->number % local->devices.count];
    bool checksums = keeps_journal(local) || local->audit.wanted;
    PodOptions options = {
        .number = local_pod->number,
        .threads = local->threads,
        .device = device->type,
        .device_number = device->number,
        .cpu_level = getenv("PHOBOS_CPU_LEVEL"),
        .simt = local->options->simt,
        .trace = local->trace != NULL ? &local_pod->trace : NULL,
        .range_done = checksums ? range_done : NULL,
        .checksums = checksums,
        .context = local_pod,
    };
    for (int s = 0; s < course->step_count; s++) {
        local_pod->pods[s] = pod_open(course->steps[s].plan, &options, &local_pod->error);
        if (local_pod->pods[s] == NULL)
            return false;
    }
    char text[160];
    snprintf(
        text, sizeof text, "pod %d: %.100s, %" PRId64 " bytes of tiles", local_pod->number, pod_describe(local_pod->pods[0]), course_bytes(course));
    say(local, LOG_INFO, text);
    return true;
}

/* Units that are computed twice go alone: what is compared is the checksum of a range. */
static void cut_audited(const Local *local, UnitRange *run) {
    int64_t count = 1;
    if (!audit_picks(&local->audit, (uint64_t)run->first))
        while (count < run->count && !audit_picks(&local->audit, (uint64_t)(run->first + count * run->step)))
            count++;
    run->count = count;
}

/* Gives the pod what it takes in of the units of `node`, its own or, `again`, another one's; *passed counts them, and those that need not be done,
 * *given those that do. */
static void give_units(LocalPod *local_pod, const Placement *placement, int node, bool again, Pod *pod, int64_t *passed, int64_t *given) {
    const Local *local = local_pod->local;
    int64_t units = placement_count(placement, node), more;
    int64_t most = keeps_journal(local) ? units / JOURNALED_BATCHES + 1 : units;
    while (*passed < units && pod_has_room(pod)) {
        UnitRange run = placement_run(placement, node, *passed, most);
        if (local->audit.wanted)
            cut_audited(local, &run);
        more = run.count;
        if (again && !audit_picks(&local->audit, (uint64_t)run.first))
            run.count = 0;
        else if (!again && local->keep != NULL)
            run = keep_missing(local->keep, run, &more);
        run.tag = local_pod->given;
        run.dry = again;
        if (run.count > 0) {
            local_pod->ranges[local_pod->given++ % ENGINE_MAX_RANGES] = run;
            pod_give(pod, run);
        }
        *passed += more;
        *given += run.count;
    }
}

/* Waits for the pod or `other`, an eventfd, and for whoever stops the job. True: it is stopped. */
static bool wait_turn(const LocalPod *local_pod, int pod, int other, bool stopping) {
    struct pollfd fds[] = {{.fd = pod, .events = POLLIN}, {.fd = other, .events = POLLIN}, {.fd = local_pod->local->stop_event, .events = POLLIN}};
    poll(fds, stopping ? 2 : 3, -1);
    return !stopping && (fds[2].revents & POLLIN);
}

static void note_moved(LocalPod *local_pod) {
    uint64_t bytes = 0;
    for (int s = 0; s < local_pod->local->course->step_count; s++) {
        PodMoved moved = pod_moved(local_pod->pods[s]);
        bytes += moved_bytes(&moved);
    }
    atomic_store(&local_pod->moved, (long long)bytes);
}

/* This pod's units of a round, or again what is audited of another's. */
static PodStatus run_units(LocalPod *local_pod, Pod *pod, const Placement *placement, bool again, int64_t done) {
    int node = again ? audited_of(local_pod) : local_pod->number;
    int64_t passed = 0, given = 0, units = placement_count(placement, node), before = pod_units_done(pod);
    bool stopping = false;
    give_units(local_pod, placement, node, again, pod, &passed, &given);
    PodStatus status = pod_turn(pod);
    while (status == POD_RUNNING && (stopping || passed < units || pod_units_done(pod) - before < given)) {
        if (wait_turn(local_pod, pod_fd(pod), -1, stopping)) {
            stopping = true;
            pod_stop(pod);
        }
        status = pod_turn(pod);
        if (status == POD_RUNNING && !stopping)
            give_units(local_pod, placement, node, again, pod, &passed, &given);
        if (!again)
            atomic_store(&local_pod->done, done + pod_units_done(pod) - before);
        note_moved(local_pod);
    }
    if (status == POD_BROKEN)
        local_pod->error = *pod_error(pod);
    return local_pod->differs ? POD_BROKEN : status;
}

/* The last pod that has done its part opens the gates. False: the job is stopped. */
static bool pass_gate(LocalPod *local_pod, int64_t next) {
    Local *local = local_pod->local;
    if (atomic_fetch_add(&local->arrived, 1) + 1 == local->pod_count) {
        atomic_store(&local->arrived, 0);
        atomic_store(&local->round, next);
        for (int p = 0; p < local->pod_count; p++)
            eventfd_write(local->pods[p].gate, 1);
    }
    eventfd_t ignored;
    while (atomic_load(&local->round) < next || eventfd_read(local_pod->gate, &ignored) != 0)
        if (wait_turn(local_pod, -1, local_pod->gate, false))
            return false;
    return true;
}

static PodStatus run_rounds(LocalPod *local_pod) {
    const Course *course = local_pod->local->course;
    int64_t done = 0;
    for (int64_t round = 0; round < course->rounds; round++) {
        const StepPlan *step = course_plan(course, round);
        Pod *pod = local_pod->pods[course_step(course, round)];
        TileFiles files[PHB_MAX_PARAMS];
        round_files(course, round, local_pod->local->kept.tensors, files);
        pod_reset(pod, files);
        PodStatus status = run_units(local_pod, pod, step->placement, false, done);
        if (status == POD_RUNNING && local_pod->local->audit.wanted)
            status = pass_gate(local_pod, 1) ? run_units(local_pod, pod, step->placement, true, done) : POD_STOPPED;
        if (status != POD_RUNNING)
            return status;
        done += placement_count(step->placement, local_pod->number);
        if (round + 1 < course->rounds && !pass_gate(local_pod, round + 1))
            return POD_STOPPED;
    }
    return POD_DONE;
}

static void *pod_thread(void *context) {
    LocalPod *local_pod = context;
    local_pod->status = open_pods(local_pod) ? run_rounds(local_pod) : POD_BROKEN;
    for (int s = 0; s < local_pod->local->course->step_count; s++)
        pod_close(local_pod->pods[s]);
    atomic_store(&local_pod->over, true);
    eventfd_write(local_pod->local->over_event, 1);
    return NULL;
}

static int64_t units_done(const Local *local) {
    int64_t done = local->keep != NULL ? local->keep->resume.units : 0;
    for (int p = 0; p < local->started; p++)
        done += atomic_load(&local->pods[p].done);
    return done;
}

static uint64_t bytes_moved(const Local *local) {
    uint64_t bytes = 0;
    for (int p = 0; p < local->started; p++)
        bytes += (uint64_t)atomic_load(&local->pods[p].moved);
    return bytes;
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

static bool pods_verdict(const Local *local, Error *error) {
    if (local->no_space) {
        *error = local->space_error;
        return false;
    }
    for (int p = 0; p < local->started; p++)
        if (atomic_load(&local->pods[p].over) && local->pods[p].status == POD_BROKEN) {
            *error = local->pods[p].error;
            return false;
        }
    return is_interrupted(local) ? error_set(error, "interrupted; the old outputs are untouched") : true;
}

/* A leaf, or a call to a file system that is gone, may never end, and a thread cannot be ended alone. */
static _Noreturn void abandon(const Local *local) {
    Error error;
    if (!pods_verdict(local, &error))
        fprintf(local->options->errors, "error: %s\n", error.text);
    say(local, LOG_WARNING, "warning: ends while something that a pod began goes on, which may be for ever");
    job_abandon(local->job);
    _exit(EXIT_FAILED);
}

/* The first pod that breaks stops the others; so do a full disk and the user. Returns when all have ended. */
static void watch_pods(Local *local, bool stop, Progress *progress) {
    uint64_t stopped_ms = 0;
    for (;;) {
        eventfd_t ignored;
        bool broken;
        bool all_over = pods_over(local, &broken) == local->started;
        if (all_over)
            return;
        stop |= broken || local->no_space || is_interrupted(local);
        if (stop && stopped_ms == 0) {
            stopped_ms = clock_ms();
            eventfd_write(local->stop_event, 1);
        } else if (stop && local->options->owns_process && clock_ms() - stopped_ms >= END_MS) {
            abandon(local);
        }
        progress_moved(progress, bytes_moved(local));
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

static bool run_pods(Local *local, Error *error) {
    atomic_store(&local->job->settled, false);
    local->reserve = task_start(run_reserve, local->job, error);
    bool fine = local->reserve != NULL;
    Progress progress;
    progress_begin(&progress, local->options->progress, local->options->messages, local->job->kernel->name, local->course->units);
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
    progress_moved(&progress, bytes_moved(local));
    progress_end(&progress, units_done(local));
    local->seconds = progress_seconds(&progress);
    return fine && pods_verdict(local, error);
}

/* ---- the run ---- */

static void summarise(const Local *local) {
    char class[32];
    class_describe(local->devices.class, local->devices.arch, class);
    FILE *out = local->options->out;
    fprintf(out, "%s: %" PRId64 " tiles", local->job->kernel->name, local->course->units);
    if (local->course->rounds > 1)
        fprintf(out, " in %" PRId64 " rounds", local->course->rounds);
    fprintf(out, " in %.3f s on %s", local->seconds, class);
    if (local->predicted > 0)
        fprintf(out, " (predicted %.3f s)", local->predicted);
    for (int p = 0; p < local->pod_count; p++)
        fprintf(out, "%s pod %d computed %lld", p == 0 ? ";" : ",", p, (long long)atomic_load(&local->pods[p].done));
    putc('\n', out);
    long long audited = 0;
    for (int p = 0; p < local->pod_count; p++)
        audited += atomic_load(&local->pods[p].audited);
    if (local->audit.wanted)
        fprintf(out, "audit: %lld tiles were computed again by another pod: the same bits\n", audited);
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

/* Each step by itself. */
static bool tune(Local *local, const PlanOptions *plan, Error *error) {
    TuneMachine machine = {.files = local->job,
        .device = &local->devices.items[0],
        .class = local->devices.class,
        .pods = local->pod_count,
        .threads = local->threads,
        .one_host = true};
    for (int s = 0; s < job_step_count(local->job); s++) {
        Tuned tuned;
        Model model;
        if (!job_tune(job_step(local->job, s), &machine, plan, &model, &tuned, error))
            return false;
        local->predicted += tuned.seconds * (double)(job_rounds(local->job) / job_step_count(local->job));
        fprintf(local->options->messages, "%s\n", tuned.text);
        free(tuned.text);
    }
    return true;
}

static bool measure(Local *local, Error *error) {
    for (int s = 0; s < job_step_count(local->job); s++)
        if (!leaf_measure(job_step(local->job, s), &local->devices.items[0], local->threads, local->options->log, local->options->messages, error))
            return false;
    return true;
}

/* Tiles on cards are no matter of the machine's memory. */
static bool has_memory(const Local *local, Error *error) {
    int64_t bytes = course_bytes(local->course);
    return local->devices.class == CLASS_GPU || machine_holds(bytes < INT64_MAX / local->pod_count ? bytes * local->pod_count : INT64_MAX, error);
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
    bool begun = local->keep != NULL && local->keep->resume.state != NULL;
    if (plan.autotune != AUTOTUNE_NONE && !begun && !tune(local, &plan, error))
        return false;
    if (plan.leaf == LEAF_MEASURE && !measure(local, error))
        return false;
    local->course = course_bind(local->job, plan.leaf, error);
    if (local->course == NULL)
        return false;
    *exit_code = EXIT_FAILED;
    course_place(local->course, plan.placement, local->pod_count);
    local->audit = audit_choose(&local->options->audit, job_hash(local->job), local->course->steps[0].problem->units);
    if (local->audit.wanted)
        local->checksums = new_zeroed((size_t)local->course->units, sizeof *local->checksums);
    return course_fit(local->course, plan.memory, error) && has_memory(local, error) && kept_open(&local->kept, local->course, false, error);
}

static bool open_events(Local *local, Error *error) {
    local->stop_event = eventfd(0, EFD_CLOEXEC);
    local->over_event = eventfd(0, EFD_CLOEXEC);
    bool fine = local->stop_event >= 0 && local->over_event >= 0;
    for (int p = 0; p < local->pod_count && fine; p++)
        fine = (local->pods[p].gate = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) >= 0;
    return fine || error_errno(error, "cannot make an event descriptor");
}

static void local_init(Local *local, Job *job, const RunOptions *options, const DeviceSet *devices) {
    *local = (Local){.job = job, .options = options, .devices = *devices, .stop_event = -1, .over_event = -1};
    local->pod_count = options->pods > 0 ? options->pods : local->devices.count;
    local->threads = options->threads > 0 ? options->threads : machine_processors() / local->pod_count;
    if (local->threads < 1)
        local->threads = 1;
    local->pods = new_zeroed((size_t)local->pod_count, sizeof *local->pods);
    for (int p = 0; p < local->pod_count; p++) {
        local->pods[p].gate = -1;
        local->pods[p].pods = new_zeroed((size_t)job_step_count(job), sizeof *local->pods[p].pods);
    }
}

static void local_fini(Local *local) {
    if (local->stop_event >= 0)
        close(local->stop_event);
    if (local->over_event >= 0)
        close(local->over_event);
    for (int p = 0; p < local->pod_count; p++) {
        if (local->pods[p].gate >= 0)
            close(local->pods[p].gate);
        free(local->pods[p].pods);
        trace_fini(&local->pods[p].trace);
    }
    free(local->pods);
    free(local->checksums);
    kept_close(&local->kept);
    course_free(local->course);
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
    bool fine = trace_write(local->trace, local->options->trace, local->job->kernel, pods, (size_t)local->pod_count, error);
    local->trace = NULL;
    free(pods);
    free(names);
    return fine;
}

static int run_job(Local *local) {
    const RunOptions *options = local->options;
    Error error;
    int exit_code;
    if (!keep_open(local->keep, local->job, options, &error))
        return fail(options, EXIT_FAILED, &error);
    if (local->keep->resume.published) {
        fprintf(options->out, "%s: the outputs of an earlier run are in place\n", local->job->kernel->name);
        return EXIT_DONE;
    }
    if (!make_plan(local, &exit_code, &error))
        return fail(options, exit_code, &error);
    if (options->trace != NULL && (local->trace = trace_open(options->trace, local->job, &error)) == NULL)
        return fail(options, EXIT_FAILED, &error);
    exit_code = EXIT_DONE;
    if (!open_events(local, &error) || !outputs_stage(local->job, options->keep_staging, &error) ||
        (options->selfcheck && !selfcheck(local->job, options, local->course->memory, run_variation, local, &error)) ||
        !keep_take(local->keep, local->course, &local->devices, &local->audit, &error) || !run_pods(local, &error) ||
        !keep_publish(local->keep, &error))
        exit_code = fail(options, EXIT_FAILED, &error);
    else
        summarise(local);
    if (!write_trace(local, &error))
        exit_code = fail(options, EXIT_FAILED, &error);
    return exit_code;
}

/* Devices that run all steps: where some are for GPUs and others not, the CPU, and `devices->reason` says which step is why. */
static bool select_devices(Job *job, const RunOptions *options, DeviceSet *devices, Error *error) {
    const char *wanted = options->device;
    bool is_missed = false;
    Error split;
    for (int s = 0; s < job_step_count(job); s++) {
        DeviceSet set;
        if (!device_select(wanted, job_step(job, s)->kernel, options->mixed, &set, error))
            return false;
        if (s > 0 && set.class != devices->class) {
            int bound = set.class == CLASS_CPU ? s : 0;
            error_set(&split, "step %d (kernel '%s'): %s", bound + 1, job_step(job, bound)->kernel->name,
                bound == s ? set.reason.text : devices->reason.text);
            is_missed = true;
            wanted = "cpu";
            s = -1;
            continue;
        }
        *devices = set;
    }
    if (is_missed) {
        devices->missed = true;
        devices->reason = split;
    }
    for (int s = 0; s < job_step_count(job); s++) {
        job_step(job, s)->device = devices->class;
        device_bar(devices, job_step(job, s));
    }
    return true;
}

static bool has_auditor(const Local *local, Error *error) {
    return local->pod_count > 1 || error_set(error, "--audit computes tiles again on another pod, and there is one: --pods=2 makes two");
}

int local_run(Job *job, const RunOptions *options) {
    DeviceSet devices;
    Error error;
    if (!select_devices(job, options, &devices, &error))
        return fail(options, EXIT_FAILED, &error);
    Local local;
    Keep keep;
    local_init(&local, job, options, &devices);
    if (!audit_can(job, &options->audit, &error) || (options->audit.percent > 0 && !has_auditor(&local, &error))) {
        local_fini(&local);
        return fail(options, EXIT_USAGE, &error);
    }
    local.keep = &keep;
    if (devices.reason.text[0] != '\0') {
        char text[sizeof error.text + 64];
        snprintf(text, sizeof text, "leaves run on the CPU: %s", devices.reason.text);
        say(&local, devices.missed ? LOG_WARNING : LOG_INFO, text);
    }
    int exit_code = run_job(&local);
    keep_close(&keep);
    local_fini(&local);
    return exit_code;
}
