/* The steps of a job in a welcome. */
#include "runtime/pod/attach.h"

#include <stdlib.h>
#include <string.h>

/* ---- the scheduler's side ---- */

bool steps_describe(const Job *job, Welcome *welcome, Error *error) {
    const Sequence *sequence = job->sequence;
    welcome->repeat = (uint64_t)sequence->repeat;
    welcome->steps_count = (uint32_t)sequence->count;
    for (int s = 0; s < sequence->count; s++) {
        const Job *step = sequence->steps[s].job;
        const PhbKernel *kernel = step->kernel;
        size_t dims = (size_t)kernel->dim_count, scalars = (size_t)kernel->scalar_count, tensors = (size_t)kernel->tensor_count;
        if (welcome->step_dims_count + dims > WIRE_STEP_VALUES || welcome->step_scalars_count + scalars > WIRE_STEP_VALUES ||
            welcome->step_tensors_count + tensors > WIRE_STEP_VALUES)
            return error_set(error, "the steps have too many dims, scalars or tensors to send to pods: at most %d of each", WIRE_STEP_VALUES);
        welcome->steps[s].kernel = (uint32_t)(kernel - job->program->kernels);
        memcpy(welcome->step_dims + welcome->step_dims_count, step->dims, dims * sizeof step->dims[0]);
        memcpy(welcome->step_scalars + welcome->step_scalars_count, step->scalars, scalars * sizeof step->scalars[0]);
        for (size_t t = 0; t < tensors; t++)
            welcome->step_tensors[welcome->step_tensors_count + t] = (uint64_t)sequence->steps[s].tensors[t];
        welcome->step_dims_count += (uint32_t)dims;
        welcome->step_scalars_count += (uint32_t)scalars;
        welcome->step_tensors_count += (uint32_t)tensors;
    }
    return true;
}

/* ---- the pod's ---- */

/* The tensors as wholes: files first, each used by some step as what it is. Notes what steps do to each. */
static bool tensors_fit(const PhbProgram *program, const Welcome *welcome, int modes[PHB_MAX_PARAMS]) {
    uint32_t at = 0;
    for (uint32_t t = 0; t < welcome->tensors_count; t++) {
        modes[t] = PHB_UNUSED;
        if (t > 0 && welcome->tensors[t].path[0] != '\0' && welcome->tensors[t - 1].path[0] == '\0')
            return false;
    }
    for (uint32_t s = 0; s < welcome->steps_count; s++) {
        const PhbKernel *kernel = &program->kernels[welcome->steps[s].kernel];
        for (int t = 0; t < kernel->tensor_count; t++, at++) {
            uint64_t whole = welcome->step_tensors[at];
            int mode = kernel->tensors[t].mode;
            if (whole >= welcome->tensors_count || welcome->tensors[whole].dtype != kernel->tensors[t].dtype ||
                welcome->tensors[whole].rank != kernel->tensors[t].rank)
                return false;
            modes[whole] = modes[whole] == PHB_UNUSED ? mode : modes[whole] == PHB_READ && mode != PHB_READ ? PHB_READ_WRITE : modes[whole];
        }
    }
    for (uint32_t t = 0; t < welcome->tensors_count; t++)
        if (modes[t] == PHB_UNUSED || (welcome->tensors[t].staging[0] != '\0') != (modes[t] != PHB_READ && welcome->tensors[t].path[0] != '\0'))
            return false;
    return true;
}

bool steps_fit(const PhbProgram *program, const Welcome *welcome) {
    size_t dims = 0, scalars = 0, tensors = 0;
    int modes[PHB_MAX_PARAMS];
    if (welcome->repeat > JOB_MAX_REPEAT || welcome->steps_count < 1)
        return false;
    for (uint32_t s = 0; s < welcome->steps_count; s++) {
        if (welcome->steps[s].kernel >= (uint32_t)program->kernel_count)
            return false;
        const PhbKernel *kernel = &program->kernels[welcome->steps[s].kernel];
        if (welcome->steps[s].variant >= (uint32_t)kernel->variant_count)
            return false;
        dims += (size_t)kernel->dim_count;
        scalars += (size_t)kernel->scalar_count;
        tensors += (size_t)kernel->tensor_count;
    }
    return dims == welcome->step_dims_count && scalars == welcome->step_scalars_count && tensors == welcome->step_tensors_count &&
           tensors_fit(program, welcome, modes);
}

static Job *attach_step(const PhbProgram *program, const WireStep *step, const int64_t *dims, const uint64_t *scalars) {
    const PhbKernel *kernel = &program->kernels[step->kernel];
    size_t dim_count = (size_t)kernel->dim_count, tensor_count = (size_t)kernel->tensor_count;
    Job *job = new_zeroed(1, sizeof *job);
    job->program = program;
    job->kernel = kernel;
    job->dims = new_zeroed(dim_count, sizeof job->dims[0]);
    job->leaf_values = new_zeroed(dim_count, sizeof job->leaf_values[0]);
    job->scalars = new_zeroed((size_t)kernel->scalar_count, sizeof job->scalars[0]);
    job->tensors = new_zeroed(tensor_count, sizeof job->tensors[0]);
    memcpy(job->dims, dims, dim_count * sizeof *dims);
    memcpy(job->scalars, scalars, (size_t)kernel->scalar_count * sizeof *scalars);
    memcpy(job->leaf_values, kernel->variants[step->variant].values, dim_count * sizeof *dims);
    for (size_t t = 0; t < tensor_count; t++)
        job->tensors[t].old_fd = job->tensors[t].staging_fd = job->tensors[t].lock_fd = -1;
    return job;
}

/* Names a tensor of the whole after the first of a kernel that it is. */
static const char *name_of(const PhbProgram *program, const Welcome *welcome, uint32_t tensor) {
    uint32_t at = 0;
    for (uint32_t s = 0; s < welcome->steps_count; s++) {
        const PhbKernel *kernel = &program->kernels[welcome->steps[s].kernel];
        for (int t = 0; t < kernel->tensor_count; t++, at++)
            if (welcome->step_tensors[at] == tensor)
                return kernel->tensors[t].name;
    }
    return "";
}

void steps_attach(const PhbProgram *program, const Welcome *welcome, Job *job) {
    Sequence *sequence = job->sequence = new_zeroed(1, sizeof *sequence);
    PhbTensor *tensors = new_zeroed(welcome->tensors_count, sizeof *tensors);
    int modes[PHB_MAX_PARAMS], files = 0;
    tensors_fit(program, welcome, modes);
    for (uint32_t t = 0; t < welcome->tensors_count; t++) {
        tensors[t] = (PhbTensor){.name = format_text("%s", name_of(program, welcome, t)),
            .dtype = welcome->tensors[t].dtype, .rank = welcome->tensors[t].rank, .mode = modes[t]};
        files += welcome->tensors[t].path[0] != '\0';
    }
    *sequence = (Sequence){.count = (int)welcome->steps_count, .repeat = (int64_t)welcome->repeat, .tensor_count = (int)welcome->tensors_count,
        .kernel = {.name = format_text("steps"), .source = "", .tensors = tensors, .tensor_count = files}};
    sequence->steps = new_zeroed(welcome->steps_count, sizeof *sequence->steps);
    const int64_t *dims = welcome->step_dims;
    const uint64_t *scalars = welcome->step_scalars, *uses = welcome->step_tensors;
    for (int s = 0; s < sequence->count; s++) {
        JobStep *step = &sequence->steps[s];
        step->job = attach_step(program, &welcome->steps[s], dims, scalars);
        step->job->split_k = welcome->split_k;
        const PhbKernel *kernel = step->job->kernel;
        step->tensors = new_zeroed((size_t)kernel->tensor_count, sizeof *step->tensors);
        for (int t = 0; t < kernel->tensor_count; t++)
            step->tensors[t] = (int)*uses++;
        dims += kernel->dim_count;
        scalars += kernel->scalar_count;
    }
    job->kernel = &sequence->kernel;
}
