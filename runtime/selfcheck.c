#include "runtime/selfcheck.h"
#include "runtime/sched/course.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK_BYTES ((size_t)1 << 20) /* by which a difference is located */
#define POISON 0xA5                   /* outputs are overwritten with it between runs: what a plan does not store shows */

/* A plan among others: how it differs from the user's. */
typedef struct Variation {
    int resize; /* of super-tiles: 0 as they are, 1 half, 2 double */
    int pods;   /* 0: the user's */
    bool tight; /* the least memory that there is a plan for */
    PlacementPolicy placement;
} Variation;

static const Variation variations[] = {
    {0, 0, false, PLACE_ROUND_ROBIN},
    {0, 1, true, PLACE_ROUND_ROBIN},
    {1, 2, false, PLACE_BLOCK},
    {1, 3, true, PLACE_ROUND_ROBIN},
    {2, 2, true, PLACE_BLOCK},
    {2, 1, false, PLACE_ROUND_ROBIN},
};

enum { VARIATIONS = sizeof variations / sizeof variations[0] };

typedef struct Check {
    Job *job;
    const RunOptions *options;
    int64_t memory;
    int64_t **dims;    /* the user's, of each step */
    uint64_t **hashes; /* of each written tensor's blocks, after the first run */
    unsigned char *block;
    char first[128], now[128]; /* plans, in words */
} Check;

static int64_t resized(int64_t value, int64_t leaf, int resize) {
    if (resize == 1 && leaf > 0 && value / 2 >= leaf)
        return value / 2 / leaf * leaf;
    return resize == 2 && value <= INT64_MAX / 2 ? value * 2 : value;
}

static void take_dims(const Check *check, int resize) {
    for (int s = 0; s < job_step_count(check->job); s++) {
        Job *job = job_step(check->job, s);
        for (int d = 0; d < job->kernel->dim_count; d++)
            if (job->kernel->dims[d].cluster_count > 0)
                job->dims[d] = resized(check->dims[s][d], job->leaf_values[d], resize);
    }
}

static void describe(Check *check, const RunOptions *options) {
    size_t used = 0;
    for (int s = 0; s < job_step_count(check->job); s++) {
        const Job *job = job_step(check->job, s);
        for (int d = 0; d < job->kernel->dim_count; d++)
            if (job->kernel->dims[d].cluster_count > 0 && used + 64 < sizeof check->now)
                used +=
                    (size_t)snprintf(check->now + used, sizeof check->now - used, "%.20s = %" PRId64 ", ", job->kernel->dims[d].name, job->dims[d]);
    }
    snprintf(check->now + used, sizeof check->now - used, "pods %d, memory %" PRId64, options->pods > 0 ? options->pods : 1, options->plan.memory);
}

/* The options of a variation. False where there is no such plan: the super-tiles are not legal, or do not fit. */
static bool vary(Check *check, const Variation *variation, RunOptions *options) {
    Error ignored;
    take_dims(check, variation->resize);
    int pods = variation->pods > 0 ? variation->pods : check->options->pods > 0 ? check->options->pods : 1;
    Course *course = course_bind(check->job, LEAF_MODEL, &ignored);
    if (course != NULL)
        course_place(course, variation->placement, pods);
    int64_t least = course != NULL ? course_least(course) : INT64_MAX;
    course_free(course);
    if (least > check->memory)
        return false;
    *options = *check->options;
    options->plan.autotune = AUTOTUNE_NONE;
    options->audit.percent = 0;
    options->plan.placement = variation->placement;
    options->plan.memory = variation->tight ? least : check->memory;
    options->progress = PROGRESS_NONE;
    if (variation->pods > 0)
        options->pods = variation->pods;
    describe(check, options);
    return true;
}

/* Hashes what the run stored, and poisons it. */
static bool compare_tensor(Check *check, int tensor, bool first, Error *error) {
    const TensorFile *file = &check->job->tensors[tensor];
    int64_t bytes = tensor_file_bytes(file);
    if (first)
        check->hashes[tensor] = new_zeroed((size_t)bytes / BLOCK_BYTES + 1, sizeof(uint64_t));
    for (int64_t done = 0, b = 0; done < bytes; done += (int64_t)BLOCK_BYTES, b++) {
        size_t size = (size_t)(bytes - done < (int64_t)BLOCK_BYTES ? bytes - done : (int64_t)BLOCK_BYTES);
        off_t at = (off_t)(file->data_offset + done);
        if (pread(file->staging_fd, check->block, size, at) != (ssize_t)size)
            return error_errno(error, "selfcheck: cannot read what was stored of '%s'", check->job->kernel->tensors[tensor].name);
        uint64_t hash = XXH3_64bits(check->block, size);
        if (!first && hash != check->hashes[tensor][b])
            return error_set(error,
                "selfcheck: tensor '%s' differs between its bytes %" PRId64 " and %" PRId64 ": once by the plan of %s, once by that of %s",
                check->job->kernel->tensors[tensor].name, done, done + (int64_t)size - 1, check->first, check->now);
        check->hashes[tensor][b] = hash;
        memset(check->block, POISON, size);
        if (pwrite(file->staging_fd, check->block, size, at) != (ssize_t)size)
            return error_errno(error, "selfcheck: cannot write to the staging file of '%s'", check->job->kernel->tensors[tensor].name);
    }
    return true;
}

static bool compare(Check *check, bool first, Error *error) {
    for (int t = 0; t < check->job->kernel->tensor_count; t++)
        if (check->job->tensors[t].staging_fd >= 0 && !compare_tensor(check, t, first, error))
            return false;
    if (first)
        memcpy(check->first, check->now, sizeof check->first);
    return true;
}

static bool run_all(Check *check, SelfcheckRun *run, void *context, int *plans, Error *error) {
    *plans = 0;
    for (int v = 0; v < VARIATIONS; v++) {
        RunOptions options;
        if (!vary(check, &variations[v], &options))
            continue;
        if (!run(context, &options, error) || !compare(check, *plans == 0, error))
            return false;
        ++*plans;
        if (check->options->log >= LOG_INFO)
            fprintf(check->options->messages, "selfcheck: %s: fine\n", check->now);
    }
    return true;
}

/* One leaf of each step: the variant that the user's plan takes. */
static bool fix_leaves(Check *check, Error *error) {
    Course *course = course_bind(check->job, check->options->plan.leaf, error);
    for (int s = 0; course != NULL && s < course->step_count; s++) {
        Job *job = job_step(check->job, s);
        for (int d = 0; d < job->kernel->dim_count; d++)
            if (job->kernel->dims[d].is_search)
                job->leaf_values[d] = course->steps[s].problem->variant->values[d];
    }
    course_free(course);
    return course != NULL;
}

bool selfcheck(Job *job, const RunOptions *options, int64_t memory, SelfcheckRun *run, void *context, Error *error) {
    int steps = job_step_count(job);
    Check check = {.job = job, .options = options, .memory = memory};
    check.dims = new_zeroed((size_t)steps, sizeof *check.dims);
    check.hashes = new_zeroed((size_t)job->kernel->tensor_count, sizeof *check.hashes);
    check.block = new_zeroed(1, BLOCK_BYTES);
    for (int s = 0; s < steps; s++) {
        size_t dims = (size_t)job_step(job, s)->kernel->dim_count;
        check.dims[s] = new_zeroed(dims, sizeof **check.dims);
        memcpy(check.dims[s], job_step(job, s)->dims, dims * sizeof **check.dims);
    }
    int plans;
    bool fine = fix_leaves(&check, error) && run_all(&check, run, context, &plans, error);
    if (fine)
        fprintf(options->messages, "selfcheck: %d plans, the same bits\n", plans);
    for (int s = 0; s < steps; s++) {
        memcpy(job_step(job, s)->dims, check.dims[s], (size_t)job_step(job, s)->kernel->dim_count * sizeof **check.dims);
        free(check.dims[s]);
    }
    for (int t = 0; t < job->kernel->tensor_count; t++)
        free(check.hashes[t]);
    free(check.hashes);
    free(check.block);
    free(check.dims);
    return fine;
}
