/* The written tensors of a job, from staging to publication. */
#include "runtime/crash.h"
#include "runtime/sched/journal.h"

#include <stdlib.h>
#include <sys/stat.h>

/* What is not reserved must do for all outputs on one file system together. */
static bool space_suffices_together(const Job *job, int last, Error *error) {
    int64_t bytes = 0;
    struct stat ours, theirs;
    const TensorFile *file = &job->tensors[last];
    if (file->unreserved == 0 || fstat(file->staging_fd, &ours) != 0)
        return true;
    for (int t = 0; t <= last; t++)
        if (job->tensors[t].unreserved > 0 && fstat(job->tensors[t].staging_fd, &theirs) == 0 && theirs.st_dev == ours.st_dev)
            bytes += job->tensors[t].unreserved;
    return space_suffices(file, bytes, error);
}

bool outputs_stage(Job *job, bool keep_staging, Error *error) {
    const PhbKernel *kernel = job->kernel;
    for (int t = 0; t < kernel->tensor_count; t++) {
        TensorFile *file = &job->tensors[t];
        if (!job_writes(job, t))
            continue;
        file->keep_staging = keep_staging;
        /* The units' tiles cover a tensor: nothing of the old contents is left for a copy to keep. */
        if (!tensor_file_stage(file, false, error) || !space_suffices_together(job, t, error))
            return false;
    }
    return true;
}

bool outputs_reserve(Job *job, Error *error) {
    for (int t = 0; t < job->kernel->tensor_count; t++)
        if (job->tensors[t].unreserved > 0 && !space_reserve(&job->tensors[t], &job->settled, error))
            return false;
    return true;
}

/* From here on --resume finishes what is begun. */
static bool journal_outputs(const Job *job, Error *error) {
    JournalPublish *publish = new_zeroed(1, sizeof *publish);
    publish->tensors_count = (uint32_t)job->kernel->tensor_count;
    bool fine = true;
    for (int t = 0; fine && t < job->kernel->tensor_count; t++) {
        struct stat status;
        if (!job_writes(job, t))
            continue;
        fine = fstat(job->tensors[t].staging_fd, &status) == 0 || error_errno(error, "cannot look at \"%s\"", job->tensors[t].staging_path);
        publish->tensors[t].inode = status.st_ino;
        snprintf(publish->tensors[t].staging, sizeof publish->tensors[t].staging, "%s", job->tensors[t].staging_path);
    }
    fine = fine && journal_publish(job->journal, publish, error);
    free(publish);
    return fine;
}

/* Renames them all. After the first one there is no way back, and what is left must not go. */
static bool rename_outputs(Job *job, Error *error) {
    int renamed = 0;
    for (int t = 0; t < job->kernel->tensor_count; t++) {
        if (!job_writes(job, t))
            continue;
        crash_point(CRASH_RENAME, CRASH_BEGIN);
        if (!tensor_file_publish(&job->tensors[t], error)) {
            renamed += job->tensors[t].staging_path == NULL; /* what failed came after that */
            for (int rest = t; renamed > 0 && job->journal != NULL && rest < job->kernel->tensor_count; rest++)
                job->tensors[rest].keep_staging = job_writes(job, rest);
            if (renamed > 0 && job->journal != NULL) {
                Error why = *error;
                error_set(error, "%.900s; --resume puts the rest in place", why.text);
            }
            return false;
        }
        renamed++;
        crash_point(CRASH_RENAME, CRASH_END);
    }
    return true;
}

bool outputs_finish(Job *job, Error *error) {
    const PhbKernel *kernel = job->kernel;
    TensorFile *files = job->tensors;
    for (int t = 0; t < kernel->tensor_count; t++)
        if (kernel->tensors[t].mode != PHB_WRITE && files[t].exists && !tensor_file_unchanged(&files[t], error))
            return false;
    for (int t = 0; t < kernel->tensor_count; t++)
        if (job_writes(job, t) && !tensor_file_sync(&files[t], error))
            return false;
    return true;
}

/* Of every output, or of none. */
static bool copy_outputs(const Job *job, TensorFile *copies, Error *error) {
    for (int t = 0; t < job->kernel->tensor_count; t++)
        copies[t].staging_fd = -1;
    for (int t = 0; t < job->kernel->tensor_count; t++) {
        if (!job_writes(job, t) || tensor_file_copy(&job->tensors[t], &copies[t], error))
            continue;
        while (t-- > 0)
            tensor_file_drop(&copies[t]);
        return false;
    }
    return true;
}

static void exchange_staging(TensorFile *a, TensorFile *b) {
    char *path = a->staging_path;
    int fd = a->staging_fd;
    a->staging_path = b->staging_path;
    a->staging_fd = b->staging_fd;
    b->staging_path = path;
    b->staging_fd = fd;
}

/* The files that others write to go when the journal knows of those that take their places. Where there is no room for these, --resume goes on from
 * the others, unless the job has several steps. */
static bool renew_outputs(Job *job, Error *error) {
    TensorFile *copies = new_zeroed((size_t)job->kernel->tensor_count, sizeof *copies);
    bool fine = copy_outputs(job, copies, error);
    for (int t = 0; t < job->kernel->tensor_count; t++) {
        if (!fine && job_writes(job, t) && job->journal != NULL && job->sequence == NULL)
            job->tensors[t].keep_staging = true;
        else if (fine && job_writes(job, t))
            exchange_staging(&job->tensors[t], &copies[t]);
    }
    fine = fine && (job->journal == NULL || journal_outputs(job, error));
    for (int t = 0; t < job->kernel->tensor_count; t++)
        tensor_file_drop(&copies[t]);
    free(copies);
    return fine;
}

bool outputs_publish(Job *job, bool renew, Error *error) {
    if (!outputs_finish(job, error))
        return false;
    crash_point(CRASH_PUBLISH, CRASH_BEGIN);
    if (renew ? !renew_outputs(job, error) : job->journal != NULL && !journal_outputs(job, error))
        return false;
    crash_point(CRASH_PUBLISH, CRASH_HALF);
    if (!rename_outputs(job, error))
        return false;
    crash_point(CRASH_PUBLISH, CRASH_END);
    if (job->journal != NULL)
        journal_done(job->journal);
    return true;
}
