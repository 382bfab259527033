#include "runtime/tune.h"
#include "runtime/clock.h"
#include "runtime/pod/pod.h"

#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#define PROBE_SECONDS 0.2     /* how long the leaves of a kernel run at least, one stage after another, to see how fast they are */
#define LAUNCH_SECONDS 0.01   /* how long launches without work are made, and */
#define LAUNCHES 20           /* how many at least */
#define LEAST_WORK 0.1        /* of what a leaf takes with its launch, whose time varies */
#define MEASURED_CANDIDATES 4 /* the model's best, of which --autotune=measure takes the fastest */

/* ---- leaves ---- */

typedef struct Probe {
    sem_t ended;
    bool failed;
} Probe;

static void probe_ended(void *context, uint32_t instruction, const Error *error) {
    (void)instruction;
    Probe *probe = context;
    probe->failed |= error != NULL;
    sem_post(&probe->ended);
}

/* A launch of one step on tiles that hold zeros. */
static void fill_launch(const Problem *problem, const Step *step, char *memory, PhbTensorArg *args, PhbLaunch *launch) {
    for (int t = 0; t < problem->operand_count; t++) {
        const Operand *operand = &problem->operands[t];
        Region region;
        tile_region(problem, step, t, &region);
        args[t] = (PhbTensorArg){.base = memory, .pitch = region_pitch(operand, &region)};
        memcpy(args[t].extent, region.extent, sizeof region.extent);
        memcpy(args[t].origin, region.origin, sizeof region.origin);
        memcpy(args[t].whole, operand->tensor != NULL ? operand->whole : region.extent, sizeof region.extent);
        if (step_use(problem, step, t).used)
            memory += operand->bytes;
        else
            args[t].base = NULL;
    }
    const LeafShape *shape = step_shape(problem, step);
    *launch = (PhbLaunch){.tensors = args, .scalars = problem->job->scalars, .dims = shape->dims};
    memcpy(launch->grid, shape->grid, sizeof shape->grid);
    memcpy(launch->super, step->at, sizeof launch->super);
    memcpy(launch->supers, problem->supers, sizeof launch->supers);
}

#define MAX_RUNS 1000

static int compare_seconds(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

/* The median of runs, the first of which warms up; of launches without work the quickest, for what comes on top is other processes'. */
static double time_launches(Device *device, const Step *step, const PhbLaunch *launch, bool works, double least, Probe *probe) {
    double seconds[MAX_RUNS], first = clock_seconds();
    int runs = 0;
    while (runs < (works ? 3 : LAUNCHES) || (clock_seconds() - first < least && runs < MAX_RUNS)) {
        double begun = clock_seconds();
        device->type->launch(device, 0, step->stage, launch);
        while (sem_wait(&probe->ended) != 0)
            continue;
        seconds[runs++] = clock_seconds() - begun;
    }
    qsort(seconds + 1, (size_t)runs - 1, sizeof *seconds, compare_seconds);
    return seconds[works ? runs / 2 : 1];
}

/* Seconds that a step takes where `threads` threads run it, or, without its work, that launching it does; 0 where it cannot be run. */
static double measure_step(const Problem *problem, const Step *step, const TuneMachine *machine, int threads, bool works) {
    const DeviceType *type = machine->device->type;
    Probe probe = {.failed = false};
    Error error;
    DeviceOptions options = {
        .kernel = problem->kernel, .number = machine->device->number, .threads = threads, .launches = 1, .done = probe_ended, .context = &probe};
    Device *device = type->open(problem->variant, &options, &error);
    int64_t bytes = PHB_BASE_ALIGN;
    for (int t = 0; t < problem->operand_count; t++)
        bytes += step_use(problem, step, t).used ? problem->operands[t].bytes : 0;
    char *memory = device != NULL ? type->alloc(device, bytes, &error) : NULL;
    double seconds = 0;
    if (memory != NULL) {
        PhbTensorArg *args = new_zeroed((size_t)problem->operand_count, sizeof *args);
        PhbLaunch launch;
        if (type->lane_open == NULL)
            memset(memory, 0, (size_t)bytes); /* memory that nobody has written to is one page of zeros */
        fill_launch(problem, step, memory, args, &launch);
        sem_init(&probe.ended, 0, 0);
        if (!works)
            type->cancel(device);
        seconds = time_launches(device, step, &launch, works, works ? PROBE_SECONDS / problem->kernel->stage_count : LAUNCH_SECONDS, &probe);
        sem_destroy(&probe.ended);
        free(args);
    }
    if (device != NULL)
        type->close(device);
    return probe.failed ? 0 : seconds;
}

/* Pods of one host share its memory: their leaves are timed as one that has all their threads. */
static int sharing_pods(const TuneMachine *machine) {
    int64_t most = machine_processors() / machine->threads, pods = machine->one_host ? machine->pods : 1;
    return (int)(pods < most ? pods : most > 1 ? most : 1);
}

static double time_step(const Problem *problem, const Step *step, const TuneMachine *machine) {
    int pods = machine->device->type->lane_open == NULL ? sharing_pods(machine) : 1;
    return measure_step(problem, step, machine, pods * machine->threads, true) * pods;
}

/* What a launch takes besides its work. */
static void measure_launch(const Problem *problem, const TuneMachine *machine, Model *model) {
    Step first = step_find(problem, 0, 0);
    double seconds = measure_step(problem, &first, machine, machine->threads, false);
    if (seconds <= 0)
        return;
    model->launch = seconds;
    model->launch_from = FIGURE_MEASURED;
}

/* The first chunk of each stage. */
static void measure_leaves(const Problem *problem, const TuneMachine *machine, Model *model) {
    int64_t number = 0;
    for (int s = 0; s < problem->kernel->stage_count; s++) {
        Step step = step_find(problem, 0, number);
        double all = time_step(problem, &step, machine), seconds = all - model->launch;
        if (seconds < all * LEAST_WORK)
            seconds = all * LEAST_WORK;
        if (seconds > 0)
            model->stage_flops[stage_rate(s)] = step_work(problem, &step) / seconds;
        number += stage_steps(problem, s);
    }
}

/* Seconds that a pod takes to begin and to end, besides what it does. */
static void measure_open(const Problem *problem, const TuneMachine *machine, Model *model) {
    Error ignored; /* the run says it */
    PodOptions options = {.threads = machine->threads, .device = machine->device->type, .device_number = machine->device->number};
    Plan *plan = plan_make(problem, model->memory, &ignored);
    double begun = clock_seconds();
    Pod *pod = plan != NULL ? pod_open(plan, &options, &ignored) : NULL;
    if (pod != NULL) {
        pod_close(pod);
        model->open = clock_seconds() - begun;
    }
    plan_free(plan);
}

/* Compute time of a unit inside the problem, by running each of its stages. */
static double measure_unit(const Problem *problem, const TuneMachine *machine) {
    double seconds = 0;
    int64_t number = 0;
    for (int s = 0; s < problem->kernel->stage_count; s++) {
        Step step = step_find(problem, 0, number);
        seconds += (double)stage_chunks(problem, s) * time_step(problem, &step, machine);
        number += stage_steps(problem, s);
    }
    return seconds;
}

/* ---- the choice ---- */

/* Replaces the model's compute time of a candidate by what its leaves take. */
static void measure_candidate(Job *job, const TuneMachine *machine, const PlanOptions *options, const Model *model, Candidate *candidate) {
    Error error;
    candidate_take(job, candidate);
    Problem *problem = problem_bind(job, options->leaf, &error);
    if (problem == NULL)
        return;
    int64_t units = ceil_div(problem->units, machine->pods);
    NodeTimes *times = &candidate->times;
    times->launch = 0;
    times->compute = (double)units * measure_unit(problem, machine);
    times_overlap(model, times);
    problem_free(problem);
}

static void take_fastest(Job *job, const TuneMachine *machine, const PlanOptions *options, const Model *model, Candidates *candidates) {
    int count = candidates->fine < MEASURED_CANDIDATES ? candidates->fine : MEASURED_CANDIDATES, fastest = 0;
    for (int c = 0; c < count; c++) {
        measure_candidate(job, machine, options, model, &candidates->items[c]);
        if (candidates->items[c].times.total < candidates->items[fastest].times.total)
            fastest = c;
    }
    Candidate first = candidates->items[0];
    candidates->items[0] = candidates->items[fastest];
    candidates->items[fastest] = first;
    candidate_take(job, &candidates->items[0]);
}

static void take_machine(const TuneMachine *machine, const PlanOptions *options, Model *model) {
    model->threads = machine->threads;
    if (machine->memory > 0 && (options->memory <= 0 || options->memory > machine->memory))
        model->memory = machine->memory;
    if (options->link_bw > 0 || (!machine->one_host && machine->link_bw <= 0))
        return;
    model->link_bw = machine->one_host ? 0 : machine->link_bw;
    model->link_from = FIGURE_MEASURED;
}

/* Once it is known that pods, whatever they are, have not come for nothing. */
static bool look_at_pods(Job *job, TuneMachine *machine, const PlanOptions *options, const Model *model, Error *error) {
    Model boundless = *model;
    if (options->memory <= 0)
        boundless.memory = INT64_MAX; /* pods may have more than this machine */
    bool any = false;
    for (int class = 0; class < CLASS_COUNT && !any; class ++) {
        job->device = (DeviceClass) class;
        any = candidates_any(job, machine->pods, options, &boundless);
    }
    job->device = CLASS_CPU;
    if (!any) { /* it says why */
        Candidates none;
        any = candidates_rank(job, machine->pods, options, &boundless, &none, error);
        candidates_free(&none);
    }
    bool fine = any && machine->look(machine->context, machine, error);
    machine->look = NULL;
    return fine;
}

/* Everything that can be measured, by what the job stands at. */
static bool measure_all(Job *job, TuneMachine *machine, const PlanOptions *options, Model *model, Error *error) {
    probe_files(machine->files, sharing_pods(machine) * machine->threads, model);
    model->cached &= machine->class == CLASS_CPU;
    if (machine->device == NULL || options->leaf_flops > 0)
        return true;
    Problem *problem = problem_bind(job, options->leaf, error);
    if (problem == NULL)
        return false;
    measure_launch(problem, machine, model);
    measure_leaves(problem, machine, model);
    model->leaf_from = FIGURE_MEASURED;
    measure_open(problem, machine, model);
    problem_free(problem);
    return true;
}

static char *describe(const Job *job, const Candidates *candidates, const Model *model) {
    char *figures = model_describe(model), *text = text_append(candidates_describe(job, candidates), "; %s", figures);
    free(figures);
    return text;
}

bool job_tune(Job *job, TuneMachine *machine, const PlanOptions *options, Model *model, Tuned *tuned, Error *error) {
    Candidates candidates = {.items = NULL};
    *model = model_assumed(options);
    if (machine->look != NULL && !look_at_pods(job, machine, options, model, error))
        return false;
    take_machine(machine, options, model);
    bool found = candidates_rank(job, machine->pods, options, model, &candidates, error);
    candidates_free(&candidates);
    /* The first ranking found something that can run; what that takes is the measure of the second. */
    found = found && measure_all(job, machine, options, model, error) && candidates_rank(job, machine->pods, options, model, &candidates, error);
    if (found && options->autotune == AUTOTUNE_MEASURE && machine->device != NULL)
        take_fastest(job, machine, options, model, &candidates);
    if (found)
        *tuned = (Tuned){describe(job, &candidates, model), candidates.items[0].times.total};
    candidates_free(&candidates);
    return found;
}
