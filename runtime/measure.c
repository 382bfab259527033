#include "runtime/clock.h"
#include "runtime/measure.h"
#include "runtime/pod/pod.h"

#include <inttypes.h>
#include <math.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#define LEAF_SECONDS 0.2 /* how long a stage of a leaf runs at least */
#define PIECE_BYTES ((size_t)1 << 20)

/* One leaf on a device of its own, with room for one tile of each operand. Of a cluster loop it runs the first chunk. */
typedef struct Trial {
    Problem *problem;
    Device *device;
    Store *store;
    DeviceLane *lane; /* NULL: device memory is the host's */
    void *buffer;     /* the lane's */
    char **tiles;     /* as operands, in device memory */
    PhbTensorArg *args;
    PhbLaunch launch;
    sem_t ended;
    bool failed;
    Error error;
} Trial;

/* ---- a leaf's device and memory ---- */

static void trial_ended(void *context, uint32_t instruction, const Error *error) {
    (void)instruction;
    Trial *trial = context;
    if (error != NULL && !trial->failed) {
        trial->failed = true;
        trial->error = *error;
    }
    sem_post(&trial->ended);
}

static bool await(Trial *trial) {
    while (sem_wait(&trial->ended) != 0)
        continue;
    return !trial->failed;
}

static void trial_close(Trial *trial) {
    if (trial->store != NULL)
        store_close(trial->store);
    if (trial->lane != NULL)
        trial->device->type->lane_close(trial->lane);
    if (trial->device != NULL)
        trial->device->type->close(trial->device);
    sem_destroy(&trial->ended);
    free(trial->tiles);
    free(trial->args);
    problem_free(trial->problem);
}

/* The job's only leaf that is not barred. On failure trial->error says why. */
static bool trial_open(Trial *trial, const Job *job, const DeviceChoice *choice, int threads) {
    const DeviceType *type = choice->type;
    *trial = (Trial){.failed = false};
    sem_init(&trial->ended, 0, 0);
    trial->problem = problem_bind(job, LEAF_MODEL, &trial->error);
    if (trial->problem == NULL)
        return false;
    int operands = trial->problem->operand_count;
    trial->tiles = new_zeroed((size_t)operands, sizeof *trial->tiles);
    trial->args = new_zeroed((size_t)operands, sizeof *trial->args);
    DeviceOptions options = {
        .kernel = job->kernel, .number = choice->number, .threads = threads, .launches = 1, .done = trial_ended, .context = trial};
    trial->device = type->open(trial->problem->variant, &options, &trial->error);
    if (trial->device == NULL)
        return false;
    int64_t bytes = 0;
    for (int t = 0; t < operands; t++)
        bytes += trial->problem->operands[t].bytes;
    char *memory = type->alloc(trial->device, bytes, &trial->error);
    for (int t = 0; memory != NULL && t < operands; t++) {
        trial->tiles[t] = memory;
        memory += trial->problem->operands[t].bytes;
    }
    if (operands > 0 && trial->tiles[0] == NULL)
        return false;
    if (type->lane_open != NULL && (trial->lane = type->lane_open(trial->device, PIECE_BYTES, &trial->buffer, &trial->error)) == NULL)
        return false;
    trial->store = store_open(threads < 2 ? 2 : threads, 1, trial->device, trial_ended, trial, &trial->error);
    return trial->store != NULL;
}

/* ---- tiles ---- */

/* Bytes that are no number of any float type, and no likely one of another. */
static bool poison(Trial *trial, char *to, int64_t bytes) {
    if (trial->lane == NULL) {
        memset(to, 0xFF, (size_t)bytes);
        return true;
    }
    memset(trial->buffer, 0xFF, PIECE_BYTES);
    for (int64_t at = 0; at < bytes; at += (int64_t)PIECE_BYTES) {
        size_t piece = bytes - at < (int64_t)PIECE_BYTES ? (size_t)(bytes - at) : PIECE_BYTES;
        if (!trial->device->type->lane_in(trial->lane, to + at, piece, &trial->error))
            return false;
    }
    return true;
}

static bool read_back(Trial *trial, const char *from, char *to, int64_t bytes) {
    if (trial->lane == NULL) {
        memcpy(to, from, (size_t)bytes);
        return true;
    }
    for (int64_t at = 0; at < bytes; at += (int64_t)PIECE_BYTES) {
        size_t piece = bytes - at < (int64_t)PIECE_BYTES ? (size_t)(bytes - at) : PIECE_BYTES;
        if (!trial->device->type->lane_out(trial->lane, from + at, piece, &trial->error))
            return false;
        memcpy(to + at, trial->buffer, piece);
    }
    return true;
}

/* The first step of a stage, of the first unit. */
static Step stage_step(const Problem *problem, int stage) {
    int64_t number = 0;
    for (int s = 0; s < stage; s++)
        number += stage_steps(problem, s);
    return step_find(problem, 0, number);
}

/* The tile of an operand that the trial works on. */
static Region trial_region(const Problem *problem, int operand) {
    Step step = stage_step(problem, problem->operands[operand].first);
    Region region;
    tile_region(problem, &step, operand, &region);
    return region;
}

/* Every tile as it is before the unit runs. */
static bool fill_tiles(Trial *trial) {
    const Problem *problem = trial->problem;
    for (int t = 0; t < problem->operand_count; t++) {
        const Operand *operand = &problem->operands[t];
        if (!poison(trial, trial->tiles[t], operand->bytes))
            return false;
        if (!operand->load || operand->first < 0)
            continue;
        StoreTask task = {.file = &problem->job->tensors[t], .rank = operand->rank, .element = operand->element, .rows = trial->tiles[t]};
        task.region = trial_region(problem, t);
        task.pitch = region_pitch(operand, &task.region);
        store_submit(trial->store, &task);
        if (!await(trial))
            return false;
    }
    return true;
}

static bool run_stage(Trial *trial, int stage) {
    const Problem *problem = trial->problem;
    Step step = stage_step(problem, stage);
    for (int t = 0; t < problem->operand_count; t++) {
        const Operand *operand = &problem->operands[t];
        PhbTensorArg *arg = &trial->args[t];
        Region region;
        tile_region(problem, &step, t, &region);
        *arg = (PhbTensorArg){.base = step_use(problem, &step, t).used ? trial->tiles[t] : NULL, .pitch = region_pitch(operand, &region)};
        memcpy(arg->extent, region.extent, sizeof arg->extent);
        memcpy(arg->origin, region.origin, sizeof arg->origin);
        memcpy(arg->whole, operand->tensor != NULL ? operand->whole : region.extent, sizeof arg->whole);
    }
    const LeafShape *shape = step_shape(problem, &step);
    trial->launch = (PhbLaunch){.tensors = trial->args, .scalars = problem->job->scalars, .dims = shape->dims};
    memcpy(trial->launch.grid, shape->grid, sizeof shape->grid);
    memcpy(trial->launch.super, step.at, sizeof trial->launch.super);
    memcpy(trial->launch.supers, problem->supers, sizeof problem->supers);
    trial->device->type->launch(trial->device, 0, stage, &trial->launch);
    return await(trial);
}

/* Seconds of a unit's leaves: of each stage the best of its runs, once a chunk. */
static bool time_unit(Trial *trial, double *seconds) {
    const Problem *problem = trial->problem;
    *seconds = 0;
    for (int s = 0; s < problem->kernel->stage_count; s++) {
        double begun = clock_seconds(), best = 0;
        for (int runs = 0; runs < 3 || (clock_seconds() - begun < LEAF_SECONDS && runs < 1000); runs++) {
            double start = clock_seconds();
            if (!run_stage(trial, s))
                return false;
            double took = clock_seconds() - start;
            if (runs == 0 || took < best)
                best = took;
        }
        *seconds += best * (double)stage_chunks(problem, s);
    }
    return true;
}

/* ---- what is stored, against the first leaf's ---- */

static int64_t row_count(const Operand *operand, const Region *region) {
    int64_t rows = 1;
    for (int k = 0; k < operand->rank - 1; k++)
        rows *= region->extent[k];
    return rows;
}

/* Sums of as many terms as the longest axis has, in other orders, differ by no more, as numbers of the size of the tile's largest. */
static double allowed_difference(const Problem *problem, int operand, const char *tile) {
    const Operand *output = &problem->operands[operand];
    Region region = trial_region(problem, operand);
    int64_t pitch = region_pitch(output, &region), columns = region.extent[output->rank - 1], terms = 1;
    double largest = 0;
    for (int64_t row = 0; row < row_count(output, &region); row++)
        for (int64_t column = 0; column < columns; column++) {
            double size = fabs(element_real(output->tensor->dtype, tile + row * pitch + column * output->element));
            if (isfinite(size) && size > largest)
                largest = size;
        }
    for (int t = 0; t < problem->kernel->tensor_count; t++)
        for (int k = 0; k < problem->operands[t].rank; k++)
            if (problem->operands[t].size[k] > terms)
                terms = problem->operands[t].size[k];
    switch ((PhbDType)output->tensor->dtype) {
    case PHB_F16:
        return largest * (4 * (double)terms * 0x1p-24 + 0x1p-10);
    case PHB_BF16:
        return largest * (4 * (double)terms * 0x1p-24 + 0x1p-7);
    case PHB_F32:
        return largest * 4 * (double)terms * 0x1p-24;
    case PHB_F64:
        return largest * 4 * (double)terms * 0x1p-53;
    default:
        return 0;
    }
}

static bool differs(double a, double b, double allowed) {
    if (isnan(a) || isnan(b))
        return isnan(a) != isnan(b);
    return a != b && !(fabs(a - b) <= allowed);
}

/* False with the place where a stored tile is not the first leaf's. */
static bool same_results(const Problem *problem, char *const *first, char *const *found, Error *error) {
    for (int t = 0; t < problem->operand_count; t++) {
        const Operand *operand = &problem->operands[t];
        if (!operand->store)
            continue;
        Region region = trial_region(problem, t);
        int64_t pitch = region_pitch(operand, &region), columns = region.extent[operand->rank - 1];
        double allowed = allowed_difference(problem, t, first[t]);
        for (int64_t row = 0; row < row_count(operand, &region); row++)
            for (int64_t column = 0; column < columns; column++) {
                int64_t at = row * pitch + column * operand->element;
                double a = element_real(operand->tensor->dtype, first[t] + at), b = element_real(operand->tensor->dtype, found[t] + at);
                if (differs(a, b, allowed))
                    return error_set(error, "row %" PRId64 ", column %" PRId64 " of a tile of '%s' is %.9g, and the first leaf gives %.9g", row, column,
                        operand->name, b, a);
            }
    }
    return true;
}

static char **copy_results(Trial *trial) {
    const Problem *problem = trial->problem;
    char **copies = new_zeroed((size_t)problem->operand_count, sizeof *copies);
    for (int t = 0; t < problem->operand_count; t++) {
        const Operand *operand = &problem->operands[t];
        if (!operand->store)
            continue;
        copies[t] = malloc((size_t)operand->bytes);
        if (copies[t] == NULL)
            error_set(&trial->error, "out of memory: %" PRId64 " bytes of '%s'", operand->bytes, operand->name);
        trial->failed |= copies[t] == NULL || !read_back(trial, trial->tiles[t], copies[t], operand->bytes);
    }
    return copies;
}

static void free_results(char **results, int count) {
    for (int t = 0; results != NULL && t < count; t++)
        free(results[t]);
    free(results);
}

/* ---- all leaves of a job ---- */

typedef struct Measuring {
    Job *job;
    const DeviceChoice *device;
    int threads;
    LogLevel log;
    char **first; /* what the first leaf stores */
    FILE *messages;
    char *key;
    int measured;
} Measuring;

/* "BLOCK = 64, K = 8" */
static void describe_leaf(const PhbKernel *kernel, int leaf, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (int d = 0; d < kernel->dim_count; d++)
        if (kernel->dims[d].is_search && used + 1 < size)
            used += (size_t)snprintf(
                text + used, size - used, "%s%s = %" PRId64, used > 0 ? ", " : "", kernel->dims[d].name, kernel->variants[leaf].values[d]);
}

static void bar_all_but(Job *job, int leaf, const bool *barred) {
    for (int v = 0; v < job->kernel->variant_count; v++)
        job->barred[v] = barred[v] || (v != leaf && variant_has_code(&job->kernel->variants[v], job->device));
}

/* What a time depends on. The device's description names what it runs: a card, a CPU level and its threads. */
static char *make_key(const Job *job, const Device *device) {
    char *key = format_text("build ");
    for (size_t i = 0; i < sizeof job->program->build_id; i++)
        key = text_append(key, "%02x", job->program->build_id[i]);
    key = text_append(key, ", %s, kernel %s", device->type->describe(device), job->kernel->name);
    for (int d = 0; d < job->kernel->dim_count; d++)
        key = text_append(key, ", %s = %" PRId64, job->kernel->dims[d].name, job->dims[d]);
    for (char *at = key; *at != '\0'; at++)
        if (*at == '\n')
            *at = ' ';
    return key;
}

/* Seconds, or a negative number where the leaf cannot be taken. A first leaf that runs is what others are compared with. */
static double measure_leaf(Measuring *m, int leaf) {
    Trial trial;
    char name[256];
    double seconds = -1;
    Error why;
    describe_leaf(m->job->kernel, leaf, name, sizeof name);
    if (trial_open(&trial, m->job, m->device, m->threads)) {
        bool ran = fill_tiles(&trial);
        for (int s = 0; ran && s < m->job->kernel->stage_count; s++)
            ran = run_stage(&trial, s);
        char **results = ran ? copy_results(&trial) : NULL;
        bool right = ran && !trial.failed && (m->first == NULL || same_results(trial.problem, m->first, results, &why));
        if (ran && !trial.failed && !right)
            fprintf(m->messages, "warning: kernel '%s': the leaf %s computes something else on %s: %s; it is not used\n", m->job->kernel->name, name,
                device_name(m->device), why.text);
        if (right && !time_unit(&trial, &seconds))
            seconds = -1;
        if (right && m->first == NULL) {
            m->first = results;
            results = NULL;
        }
        free_results(results, trial.problem->operand_count);
    }
    if (trial.error.text[0] != '\0' && m->log >= LOG_INFO)
        fprintf(m->messages, "leaf %s cannot be measured: %s\n", name, trial.error.text);
    trial_close(&trial);
    return seconds;
}

static bool is_legal(Job *job, int leaf, const bool *barred) {
    Error ignored;
    if (!variant_has_code(&job->kernel->variants[leaf], job->device) || barred[leaf])
        return false;
    bar_all_but(job, leaf, barred);
    Problem *problem = problem_bind(job, LEAF_MODEL, &ignored);
    problem_free(problem);
    return problem != NULL;
}

/* Opens the first legal leaf for the words of its device. */
static char *find_key(const Measuring *m, int leaf, const bool *barred) {
    Trial trial;
    bar_all_but(m->job, leaf, barred);
    trial_open(&trial, m->job, m->device, m->threads);
    char *key = trial.device != NULL ? make_key(m->job, trial.device) : NULL;
    trial_close(&trial);
    return key;
}

static int fastest(Measuring *m, const bool *legal, const bool *barred) {
    int best = -1, count = m->job->kernel->variant_count;
    double least = 0;
    char name[256];
    for (int v = 0; v < count; v++) {
        if (!legal[v])
            continue;
        bar_all_but(m->job, v, barred);
        double seconds = measure_leaf(m, v);
        if (seconds < 0)
            continue;
        m->measured++;
        describe_leaf(m->job->kernel, v, name, sizeof name);
        if (m->log >= LOG_INFO)
            fprintf(m->messages, "leaf %s: %.6f s a super-tile\n", name, seconds);
        if (best < 0 || seconds < least) {
            best = v;
            least = seconds;
        }
    }
    return best;
}

static void say_choice(const Measuring *m, int leaf) {
    char name[256];
    describe_leaf(m->job->kernel, leaf, name, sizeof name);
    if (m->measured > 0)
        fprintf(m->messages, "%s: leaf %s, the fastest of %d on %s\n", m->job->kernel->name, name, m->measured, device_name(m->device));
    else
        fprintf(m->messages, "%s: leaf %s, as measured before on %s\n", m->job->kernel->name, name, device_name(m->device));
}

bool leaf_measure(Job *job, const DeviceChoice *device, int threads, LogLevel log, FILE *messages, Error *error) {
    int count = job->kernel->variant_count, legal_count = 0, first = -1;
    bool *barred = new_zeroed((size_t)count, sizeof *barred), *legal = new_zeroed((size_t)count, sizeof *legal);
    if (job->barred == NULL)
        job->barred = new_zeroed((size_t)count, sizeof *job->barred);
    memcpy(barred, job->barred, (size_t)count);
    for (int v = count - 1; v >= 0; v--) {
        legal[v] = is_legal(job, v, barred);
        legal_count += legal[v];
        first = legal[v] ? v : first;
    }
    memcpy(job->barred, barred, (size_t)count);
    Measuring m = {.job = job, .device = device, .threads = threads, .log = log, .messages = messages};
    int best = first;
    bool fine = true;
    if (legal_count > 1) { /* with none, binding the job says why */
        m.key = find_key(&m, first, barred);
        best = m.key != NULL ? leaf_cache_find(m.key, count) : -1;
        if (best < 0 || !legal[best])
            best = fastest(&m, legal, barred);
        fine = best >= 0 || error_set(error, "kernel '%s': none of %d leaves can be measured on %s; --log=info says why", job->kernel->name, legal_count,
                                device_name(device));
        Error why;
        if (fine && m.measured > 0 && m.key != NULL && !leaf_cache_keep(m.key, best, &why) && log >= LOG_INFO)
            fprintf(messages, "what was measured is not kept: %s\n", why.text);
        if (fine)
            say_choice(&m, best);
    }
    if (fine && best >= 0)
        bar_all_but(job, best, barred);
    if (m.first != NULL)
        free_results(m.first, job->kernel->tensor_count + job->kernel->state_count);
    free(m.key);
    free(barred);
    free(legal);
    return fine;
}
