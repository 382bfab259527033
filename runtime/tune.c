#define _GNU_SOURCE /* O_TMPFILE */
#include "runtime/tune.h"

#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PROBE_BYTES ((size_t)32 << 20) /* read and written to see how fast files are */
#define PROBE_SECONDS 0.2              /* how long a leaf runs at least to see how fast it is */
#define MEASURED_CANDIDATES 4          /* the model's best, of which --autotune=measure takes the fastest */

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* ---- files ---- */

/* Bytes a second; 0 where nothing could be moved. */
static double probe_file(int fd, bool writing, char *buffer) {
    size_t done = 0, piece = (size_t)1 << 20;
    double begun = now();
    while (done < PROBE_BYTES) {
        ssize_t moved = writing ? pwrite(fd, buffer, piece, (off_t)done) : pread(fd, buffer, piece, (off_t)done);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved <= 0)
            break;
        done += (size_t)moved;
    }
    return done > 0 ? (double)done / (now() - begun) : 0;
}

/* Where the job's files are: an input is read, and a nameless file beside an output written. What cannot be measured stays assumed. */
static void measure_files(const Job *job, Model *model) {
    char *buffer = new_zeroed(1, (size_t)1 << 20);
    double read = 0, written = 0;
    for (int t = 0; t < job->kernel->tensor_count; t++) {
        const TensorFile *file = &job->tensors[t];
        if (file->old_fd >= 0 && read <= 0)
            read = probe_file(file->old_fd, false, buffer);
        if (job->kernel->tensors[t].mode == PHB_READ || written > 0 || file->path == NULL)
            continue;
        char *folder = format_text("%s", file->path), *slash = strrchr(folder, '/');
        if (slash != NULL)
            slash[slash == folder] = '\0';
        int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
        written = fd >= 0 ? probe_file(fd, true, buffer) : 0;
        if (fd >= 0)
            close(fd);
        free(folder);
    }
    if (read > 0)
        model->read_bw = read;
    if (written > 0)
        model->write_bw = written;
    free(buffer);
}

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

/* Seconds that a step takes; 0 where it cannot be run. The first launch warms up. */
static double measure_step(const Problem *problem, const Step *step, const TuneMachine *machine) {
    const DeviceType *type = machine->device->type;
    Probe probe = {.failed = false};
    Error error;
    DeviceOptions options = {.kernel = problem->kernel,
        .number = machine->device->number,
        .threads = machine->threads,
        .launches = 1,
        .done = probe_ended,
        .context = &probe};
    Device *device = type->open(problem->variant, &options, &error);
    int64_t bytes = PHB_BASE_ALIGN;
    for (int t = 0; t < problem->operand_count; t++)
        bytes += step_use(problem, step, t).used ? problem->operands[t].bytes : 0;
    char *memory = device != NULL ? type->alloc(device, bytes, &error) : NULL;
    double seconds = 0;
    if (memory != NULL) {
        PhbTensorArg *args = new_zeroed((size_t)problem->operand_count, sizeof *args);
        PhbLaunch launch;
        fill_launch(problem, step, memory, args, &launch);
        sem_init(&probe.ended, 0, 0);
        double first = now(), begun = first;
        for (int runs = 0; runs < 2 || (now() - first < PROBE_SECONDS && runs < 1000); runs++) {
            begun = now();
            type->launch(device, 0, step->stage, &launch);
            while (sem_wait(&probe.ended) != 0)
                continue;
            double took = now() - begun;
            if (runs > 0 && (seconds <= 0 || took < seconds))
                seconds = took;
        }
        sem_destroy(&probe.ended);
        free(args);
    }
    if (device != NULL)
        type->close(device);
    return probe.failed ? 0 : seconds;
}

/* The first chunk of the stage that does most. */
static Step heaviest_step(const Problem *problem) {
    Step heaviest = step_find(problem, 0, 0);
    int64_t number = 0;
    for (int s = 0; s < problem->kernel->stage_count; s++) {
        Step step = step_find(problem, 0, number);
        if (step_work(problem, &step) > step_work(problem, &heaviest))
            heaviest = step;
        number += stage_chunks(problem, s);
    }
    return heaviest;
}

static void measure_leaf(const Problem *problem, const TuneMachine *machine, Model *model) {
    Step step = heaviest_step(problem);
    double seconds = measure_step(problem, &step, machine) - model->launch;
    if (seconds > 0)
        model->leaf_flops = step_work(problem, &step) / seconds;
}

/* Compute time of a unit inside the problem, by running each of its stages. */
static double measure_unit(const Problem *problem, const TuneMachine *machine) {
    double seconds = 0;
    int64_t number = 0;
    for (int s = 0; s < problem->kernel->stage_count; s++) {
        Step step = step_find(problem, 0, number);
        seconds += (double)stage_chunks(problem, s) * measure_step(problem, &step, machine);
        number += stage_chunks(problem, s);
    }
    return seconds;
}

/* ---- the choice ---- */

/* Replaces the model's compute time of a candidate by what its leaves take. */
static void measure_candidate(Job *job, const TuneMachine *machine, const PlanOptions *options, Candidate *candidate) {
    Error error;
    candidate_take(job, candidate);
    Problem *problem = problem_bind(job, options->leaf, &error);
    if (problem == NULL)
        return;
    int64_t units = (problem->units + machine->pods - 1) / machine->pods;
    NodeTimes *times = &candidate->times;
    times->launch = 0;
    times->compute = (double)units * measure_unit(problem, machine);
    times->total = times->compute > times->storage ? times->compute : times->storage;
    if (times->link > times->total)
        times->total = times->link;
    problem_free(problem);
}

static void take_fastest(Job *job, const TuneMachine *machine, const PlanOptions *options, Candidates *candidates) {
    int count = candidates->fine < MEASURED_CANDIDATES ? candidates->fine : MEASURED_CANDIDATES, fastest = 0;
    for (int c = 0; c < count; c++) {
        measure_candidate(job, machine, options, &candidates->items[c]);
        if (candidates->items[c].times.total < candidates->items[fastest].times.total)
            fastest = c;
    }
    Candidate first = candidates->items[0];
    candidates->items[0] = candidates->items[fastest];
    candidates->items[fastest] = first;
    candidate_take(job, &candidates->items[0]);
}

bool job_tune(Job *job, const TuneMachine *machine, const PlanOptions *options, Model *model, Tuned *tuned, Error *error) {
    *model = model_assumed(options);
    if (machine->one_host && options->link_bw <= 0)
        model->link_bw = 0;
    measure_files(job, model);
    Candidates candidates;
    bool found = candidates_rank(job, machine->pods, options, model, &candidates, error);
    Problem *problem = found && options->leaf_flops <= 0 ? problem_bind(job, options->leaf, error) : NULL;
    if (problem != NULL) {
        /* The first ranking found something that can run; what that takes is the measure of the second. */
        measure_leaf(problem, machine, model);
        problem_free(problem);
        candidates_free(&candidates);
        found = candidates_rank(job, machine->pods, options, model, &candidates, error);
    }
    if (found && options->autotune == AUTOTUNE_MEASURE)
        take_fastest(job, machine, options, &candidates);
    if (found)
        *tuned = (Tuned){candidates_describe(job, &candidates), candidates.items[0].times.total};
    candidates_free(&candidates);
    return found;
}
