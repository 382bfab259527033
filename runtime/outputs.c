/* The written tensors of a job, from staging to publication. */
#include "runtime/runtime.h"

bool outputs_stage(Job *job, bool keep_staging, Error *error) {
    const PhbKernel *kernel = job->kernel;
    for (int t = 0; t < kernel->tensor_count; t++) {
        TensorFile *file = &job->tensors[t];
        if (kernel->tensors[t].mode == PHB_READ)
            continue;
        file->keep_staging = keep_staging;
        /* The units' tiles cover a tensor: nothing of the old contents is left for a copy to keep. */
        if (!tensor_file_stage(file, false, error))
            return false;
    }
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
