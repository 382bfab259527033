/* The written tensors of a job, from staging to publication. */
#include "runtime/runtime.h"

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
        if (kernel->tensors[t].mode == PHB_READ)
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

bool outputs_publish(Job *job, Error *error) {
    const PhbKernel *kernel = job->kernel;
    TensorFile *files = job->tensors;
    for (int t = 0; t < kernel->tensor_count; t++)
        if (kernel->tensors[t].mode != PHB_WRITE && files[t].exists && !tensor_file_unchanged(&files[t], error))
            return false;
    for (int t = 0; t < kernel->tensor_count; t++)
        if (kernel->tensors[t].mode != PHB_READ && !tensor_file_sync(&files[t], error))
            return false;
    for (int t = 0; t < kernel->tensor_count; t++)
        if (kernel->tensors[t].mode != PHB_READ && !tensor_file_publish(&files[t], error))
            return false;
    return true;
}
