#include "runtime/pod/attach.h"
#include "runtime/net/proof.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool copy_path(char to[4096], const char *from, Error *error) {
    size_t length = from ? strlen(from) : 0;
    if (length >= 4096)
        return error_set(error, "\"%.200s...\": a path of %zu bytes is too long to send to pods", from, length);
    memset(to, 0, 4096);
    if (length)
        memcpy(to, from, length);
    return true;
}

static bool describe_tensor(const TensorFile *file, WireTensor *tensor, Error *error) {
    if (!copy_path(tensor->path, file->path, error) || !copy_path(tensor->staging, file->staging_path, error))
        return false;
    tensor->exists = file->exists;
    tensor->dtype = (uint8_t)file->dtype;
    tensor->rank = (uint8_t)file->rank;
    memcpy(tensor->shape, file->shape, sizeof tensor->shape);
    tensor->data_offset = file->data_offset;
    return true;
}

static void describe_kernel(const Job *job, int variant, Welcome *welcome) {
    const PhbKernel *kernel = job->kernel;
    welcome->kernel = (uint32_t)(kernel - job->program->kernels);
    welcome->variant = (uint32_t)variant;
    welcome->dims_count = (uint32_t)kernel->dim_count;
    memcpy(welcome->dims, job->dims, sizeof job->dims[0] * (size_t)kernel->dim_count);
    welcome->scalars_count = (uint32_t)kernel->scalar_count;
    memcpy(welcome->scalars, job->scalars, sizeof job->scalars[0] * (size_t)kernel->scalar_count);
}

bool job_describe(const Job *job, int variant, Welcome *welcome, Error *error) {
    memset(welcome, 0, offsetof(Welcome, tensors));
    welcome->split_k = job_step(job, 0)->split_k;
    if (job->sequence == NULL)
        describe_kernel(job, variant, welcome);
    else if (!steps_describe(job, welcome, error))
        return false;
    welcome->tensors_count = (uint32_t)(job->sequence != NULL ? job->sequence->tensor_count : job->kernel->tensor_count);
    for (uint32_t t = 0; t < welcome->tensors_count; t++)
        if (!describe_tensor(&job->tensors[t], &welcome->tensors[t], error))
            return false;
    return true;
}

/* A regular file or nothing: opening a pipe must not wait. */
static int open_regular(const Roots *roots, const char *path, int flags, int *code) {
    struct stat status;
    int fd = roots_open_file(roots, path, flags | O_NONBLOCK | O_CLOEXEC);
    *code = fd < 0 ? errno : 0;
    if (fd >= 0 && (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))) {
        close(fd);
        *code = EINVAL;
        return -1;
    }
    return fd;
}

static int open_staging(const Roots *roots, const char *path, int *code) {
    int fd = open_regular(roots, path, O_RDWR, code);
    int flags = fd >= 0 ? staging_flags(fd) : 0;
    if (flags == 0)
        return fd;
    close(fd);
    return open_regular(roots, path, O_RDWR | flags, code);
}

/* False where a path leads out of the roots: the scheduler is not told more of what is there. */
static bool open_tensor(const WireTensor *tensor, int mode, const Roots *roots, TensorFile *file, WireSeen *seen, Error *error) {
    *file = (TensorFile){.dtype = tensor->dtype, .rank = tensor->rank, .data_offset = tensor->data_offset, .exists = tensor->exists != 0};
    memcpy(file->shape, tensor->shape, sizeof file->shape);
    file->old_fd = file->staging_fd = file->lock_fd = -1;
    *seen = (WireSeen){.error = 0};
    if (tensor->path[0] == '\0')
        return true; /* it lives in the pods */
    file->path = format_text("%s", tensor->path);
    int old_errno = 0, staging_errno = 0;
    if (mode != PHB_WRITE && tensor->exists)
        file->old_fd = open_regular(roots, tensor->path, O_RDONLY, &old_errno);
    if (tensor->staging[0])
        file->staging_fd = open_staging(roots, tensor->staging, &staging_errno);
    if (old_errno == EXDEV || staging_errno == EXDEV)
        return error_set(error, "\"%s\" is in no folder that --root allows", old_errno == EXDEV ? tensor->path : tensor->staging);
    file->passing = pages_pass(file->old_fd) || pages_pass(file->staging_fd);
    proof_look(file, old_errno, staging_errno, seen);
    return true;
}

static bool welcome_fits(const PhbProgram *program, const Welcome *welcome) {
    if (welcome->repeat > 0)
        return steps_fit(program, welcome);
    if (welcome->kernel >= (uint32_t)program->kernel_count)
        return false;
    const PhbKernel *kernel = &program->kernels[welcome->kernel];
    if (welcome->variant >= (uint32_t)kernel->variant_count || welcome->dims_count != (uint32_t)kernel->dim_count ||
        welcome->scalars_count != (uint32_t)kernel->scalar_count || welcome->tensors_count != (uint32_t)kernel->tensor_count)
        return false;
    for (int t = 0; t < kernel->tensor_count; t++)
        if (welcome->tensors[t].dtype != kernel->tensors[t].dtype || welcome->tensors[t].rank != kernel->tensors[t].rank ||
            (welcome->tensors[t].staging[0] != 0) != (kernel->tensors[t].mode != PHB_READ))
            return false;
    return true;
}

static void attach_kernel(const PhbKernel *kernel, const Welcome *welcome, Job *job) {
    size_t dim_count = (size_t)kernel->dim_count, scalar_count = (size_t)kernel->scalar_count;
    job->kernel = kernel;
    job->split_k = welcome->split_k;
    job->dims = new_zeroed(dim_count + 1, sizeof job->dims[0]);
    job->leaf_values = new_zeroed(dim_count + 1, sizeof job->leaf_values[0]);
    job->scalars = new_zeroed(scalar_count + 1, sizeof job->scalars[0]);
    memcpy(job->dims, welcome->dims, dim_count * sizeof job->dims[0]);
    memcpy(job->scalars, welcome->scalars, scalar_count * sizeof job->scalars[0]);
    memcpy(job->leaf_values, kernel->variants[welcome->variant].values, dim_count * sizeof job->leaf_values[0]);
}

Job *job_attach(const PhbProgram *program, const Welcome *welcome, const Roots *roots, WireSeen *seen, Error *error) {
    if (!welcome_fits(program, welcome)) {
        error_set(error, "the scheduler's job does not fit this program");
        return NULL;
    }
    Job *job = new_zeroed(1, sizeof *job);
    job->program = program;
    if (welcome->repeat > 0)
        steps_attach(program, welcome, job);
    else
        attach_kernel(&program->kernels[welcome->kernel], welcome, job);
    job->tensors = new_zeroed(welcome->tensors_count + 1, sizeof job->tensors[0]);
    for (uint32_t t = 0; t < welcome->tensors_count; t++)
        job->tensors[t].old_fd = job->tensors[t].staging_fd = job->tensors[t].lock_fd = -1;
    for (uint32_t t = 0; t < welcome->tensors_count; t++)
        if (!open_tensor(&welcome->tensors[t], job->kernel->tensors[t].mode, roots, &job->tensors[t], &seen[t], error)) {
            job_free(job);
            return NULL;
        }
    return job;
}

bool job_has_shapes(const Job *job, int step, const Problem *problem, Error *error) {
    for (int t = 0; t < problem->kernel->tensor_count; t++) {
        const Operand *operand = &problem->operands[t];
        if (memcmp(operand->whole, job->tensors[job_tensor(job, step, t)].shape, (size_t)operand->rank * sizeof operand->whole[0]) != 0)
            return error_set(error, "the scheduler's dims contradict the shape of tensor '%s'", operand->name);
    }
    return true;
}
