/* job.json as a whole: the file, its sections, the kernel that it names. */
#include "runtime/crash.h"
#include "runtime/job_reader.h"
#include "runtime/sched/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void report_at(JobReader *reader, bool failure, int line, int column, const char *text) {
    void (*add)(ErrorList *, const char *, ...) = failure ? errors_add_failure : errors_add;
    add(reader->errors, "%s:%d:%d: %s", reader->path, line, column, text);
}

void report(JobReader *reader, const JsonNode *node, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = format_arguments(format, arguments);
    va_end(arguments);
    node = node != NULL ? node : reader->root;
    report_at(reader, false, node->line, node->column, text);
    free(text);
}

void report_failure(JobReader *reader, const JsonNode *node, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = format_arguments(format, arguments);
    va_end(arguments);
    node = node != NULL ? node : reader->root;
    report_at(reader, true, node->line, node->column, text);
    free(text);
}

static char *list_names(const char *const *names, int count) {
    char *list = format_text("%s", "");
    for (int i = 0; i < count; i++)
        list = text_append(list, "%s\"%s\"", i > 0 ? ", " : "", names[i]);
    return list;
}

void report_unknown(JobReader *reader, const JsonNode *member, const char *what, const char *const *names, int count) {
    const char *nearest = name_nearest(member->key, names, count);
    char *known = list_names(names, count);
    char *text = nearest != NULL ? format_text("unknown %s \"%s\"; did you mean \"%s\"?", what, member->key, nearest)
                 : count > 0     ? format_text("unknown %s \"%s\"; expected %s%s", what, member->key, count > 1 ? "one of " : "", known)
                                 : format_text("unknown %s \"%s\"; the kernel \"%s\" has none", what, member->key, reader->kernel->name);
    report_at(reader, false, member->key_line, member->key_column, text);
    free(text);
    free(known);
}

bool expect_kind(JobReader *reader, const JsonNode *node, const char *what, JsonKind kind) {
    if (node->kind == kind)
        return true;
    JsonNode expected = {.kind = kind};
    report(reader, node, "%s: expected %s, found %s", what, json_kind_text(&expected), json_kind_text(node));
    return false;
}

const JsonNode *section(JobReader *reader, const char *name) {
    const JsonNode *node = json_member(reader->root, name);
    return node != NULL && node->kind == JSON_NODE_OBJECT ? node : NULL;
}

int dim_find(const PhbKernel *kernel, const char *name) {
    for (int i = 0; i < kernel->dim_count; i++)
        if (strcmp(kernel->dims[i].name, name) == 0)
            return i;
    return -1;
}

/* Reads a regular file that is not too long; the result ends in a NUL that does not count. */
static char *read_job_file(const char *path, size_t *size, struct stat *status, ErrorList *errors) {
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, status) != 0) {
        errors_add(errors, "cannot open the job file \"%s\": %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    char *text = NULL;
    if (!S_ISREG(status->st_mode)) {
        errors_add(errors, "%s: is not a regular file", path);
    } else if (status->st_size > JSON_MAX_BYTES) {
        errors_add(errors, "%s: a job file has at most %d bytes, this one has %lld", path, JSON_MAX_BYTES, (long long)status->st_size);
    } else {
        size_t capacity = (size_t)status->st_size;
        text = new_zeroed(capacity + 1, 1);
        *size = 0;
        ssize_t got;
        while (*size < capacity && (got = read(fd, text + *size, capacity - *size)) != 0) {
            if (got < 0 && errno == EINTR)
                continue;
            if (got < 0) {
                errors_add(errors, "cannot read the job file \"%s\": %s", path, strerror(errno));
                free(text);
                text = NULL;
                break;
            }
            *size += (size_t)got;
        }
    }
    close(fd);
    return text;
}

/* Keys of the whole file, and of which kind their values are. */
static void check_sections(JobReader *reader) {
    static const char *const names[] = {"kernel", "dims", "scalars", "tensors", "cluster", "autotune", "steps", "repeat"};
    enum { COUNT = sizeof names / sizeof *names, STEPS = COUNT - 2 };
    bool steps = json_member(reader->root, "steps") != NULL;
    for (const JsonNode *member = reader->root->first; member != NULL; member = member->next) {
        if (strcmp(member->key, "$schema") == 0) {
            expect_kind(reader, member, "$schema", JSON_NODE_STRING);
            continue;
        }
        int which = 0;
        while (which < COUNT && strcmp(names[which], member->key) != 0)
            which++;
        if (which == COUNT)
            report_unknown(reader, member, "key", names, COUNT);
        else if (which == 0 && steps)
            report_at(reader, false, member->key_line, member->key_column, "\"kernel\" and \"steps\" exclude each other: each step names its own");
        else if (which > STEPS && !steps)
            report_at(reader, false, member->key_line, member->key_column, "\"repeat\" goes with \"steps\", and there are none");
        else if (which == STEPS)
            expect_kind(reader, member, names[which], JSON_NODE_ARRAY);
        else if (which < STEPS)
            expect_kind(reader, member, names[which], which == 0 ? JSON_NODE_STRING : JSON_NODE_OBJECT);
    }
}

const PhbKernel *choose_kernel(JobReader *reader, const PhbProgram *program) {
    const JsonNode *node = json_member(reader->root, "kernel");
    if (node != NULL && node->kind != JSON_NODE_STRING)
        return NULL;
    const char *names[64];
    int count = program->kernel_count < 64 ? program->kernel_count : 64;
    for (int i = 0; i < count; i++)
        names[i] = program->kernels[i].name;
    if (node == NULL && program->kernel_count == 1)
        return &program->kernels[0];
    for (int i = 0; node != NULL && i < program->kernel_count; i++)
        if (strcmp(program->kernels[i].name, node->text) == 0)
            return &program->kernels[i];
    const char *nearest = node != NULL ? name_nearest(node->text, names, count) : NULL;
    char *list = list_names(names, count);
    if (node == NULL)
        report(reader, NULL, "\"kernel\" is missing; this program has %s", list);
    else if (nearest != NULL)
        report(reader, node, "no kernel \"%s\"; did you mean \"%s\"?", node->text, nearest);
    else
        report(reader, node, "no kernel \"%s\"; this program has %s", node->text, list);
    free(list);
    return NULL;
}

void reader_begin(JobReader *reader, const PhbKernel *kernel) {
    Job *job = reader->job;
    reader->kernel = job->kernel = kernel;
    job->dims = new_zeroed((size_t)kernel->dim_count, sizeof *job->dims);
    job->leaf_values = new_zeroed((size_t)kernel->dim_count, sizeof *job->leaf_values);
    job->fixed = new_zeroed((size_t)kernel->dim_count, sizeof *job->fixed);
    job->scalars = new_zeroed((size_t)kernel->scalar_count, sizeof *job->scalars);
    job->tensors = new_zeroed((size_t)kernel->tensor_count, sizeof *job->tensors);
    for (int i = 0; i < kernel->tensor_count; i++)
        job->tensors[i].old_fd = job->tensors[i].staging_fd = job->tensors[i].lock_fd = -1;
    reader->dims = new_zeroed((size_t)kernel->dim_count, sizeof *reader->dims);
    reader->tensors = new_zeroed((size_t)kernel->tensor_count, sizeof *reader->tensors);
    read_dims(reader);
    read_cluster(reader);
    read_autotune(reader);
    read_scalars(reader);
}

void reader_end(JobReader *reader) {
    free(reader->dims);
    free(reader->tensors);
}

static void read_sections(JobReader *reader, const PhbKernel *kernel) {
    reader_begin(reader, kernel);
    read_tensors(reader);
    check_aliases(reader);
    bind_dims(reader);
    bind_shapes(reader);
    check_conditions(reader);
    check_variants(reader);
    reader_end(reader);
}

/* The job in `text`. The reader knows its path, folder and status. */
static Job *read_job(JobReader *reader, const PhbProgram *program, const char *text, size_t size) {
    int errors_before = reader->errors->count;
    JsonNode *root = json_parse_located(text, size, reader->path, reader->errors);
    if (root == NULL)
        return NULL;
    reader->root = root;
    Job *job = new_zeroed(1, sizeof *job);
    reader->job = job;
    job->program = program;
    job->path = reader->path;
    if (expect_kind(reader, root, "the job", JSON_NODE_OBJECT)) {
        check_sections(reader);
        bool steps = json_member(root, "steps") != NULL;
        const PhbKernel *kernel = steps ? NULL : choose_kernel(reader, program);
        if (steps)
            read_steps(reader, program);
        else if (kernel != NULL)
            read_sections(reader, kernel);
    }
    json_free(root);
    if (reader->errors->count == errors_before)
        return job;
    job_free(job);
    return NULL;
}

Job *job_load(const PhbProgram *program, const char *path, ErrorList *errors) {
    JobReader reader = {.path = path, .errors = errors};
    size_t size = 0;
    char *text = read_job_file(path, &size, &reader.status, errors);
    if (text == NULL)
        return NULL;
    const char *slash = strrchr(path, '/');
    reader.folder = slash == NULL ? format_text(".") : format_text("%.*s", (int)(slash - path + (slash == path)), path);
    Job *job = read_job(&reader, program, text, size);
    free(reader.folder);
    free(text);
    return job;
}

Job *job_load_text(const PhbProgram *program, const char *text, const char *folder, ErrorList *errors) {
    JobReader reader = {.path = "job", .errors = errors, .folder = format_text("%s", folder != NULL ? folder : ".")};
    Job *job = read_job(&reader, program, text, strlen(text));
    free(reader.folder);
    return job;
}

/* As its staging files: gone, unless any of them is kept. */
static void drop_journal(const Job *job) {
    bool keep = false;
    for (int i = 0; job->journal != NULL && i < job->kernel->tensor_count; i++)
        keep |= job->tensors[i].keep_staging;
    if (job->journal != NULL && !keep)
        journal_remove(job->journal);
}

void job_abandon(const Job *job) {
    for (int i = 0; i < job->kernel->tensor_count; i++) {
        const TensorFile *file = &job->tensors[i];
        if (file->staging_path != NULL && !file->keep_staging)
            unlink(file->staging_path);
        if (file->lock_fd >= 0)
            unlink(file->lock_path);
    }
    drop_journal(job);
}

void job_free(Job *job) {
    if (job == NULL)
        return;
    drop_journal(job);
    journal_free(job->journal);
    for (int i = 0; job->tensors != NULL && i < job->kernel->tensor_count; i++)
        tensor_file_close(&job->tensors[i]);
    sequence_free(job->sequence);
    errors_free(&job->remarks);
    free(job->dims);
    free(job->scalars);
    free(job->leaf_values);
    free(job->barred);
    free(job->fixed);
    free(job->tensors);
    free(job);
}

void job_end(Job *job, int exit_code) {
    crash_point(CRASH_GOODBYE, CRASH_END);
    if (exit_code != EXIT_DONE && job->journal != NULL && journal_is_done(job->journal)) {
        journal_free(job->journal);
        job->journal = NULL;
    }
    job_free(job);
}

int job_step_count(const Job *job) {
    return job->sequence != NULL ? job->sequence->count : 1;
}

Job *job_step(const Job *job, int step) {
    return job->sequence != NULL ? job->sequence->steps[step].job : (Job *)(uintptr_t)job;
}

int64_t job_rounds(const Job *job) {
    return job->sequence != NULL ? job->sequence->repeat * job->sequence->count : 1;
}

int job_tensor(const Job *job, int step, int tensor) {
    return job->sequence != NULL ? job->sequence->steps[step].tensors[tensor] : tensor;
}

bool job_writes(const Job *job, int tensor) {
    return job->kernel->tensors[tensor].mode != PHB_READ;
}

bool job_dim_is_free(const Job *job, int dim) {
    return job->kernel->dims[dim].cluster_count > 0 && (job->fixed == NULL || !job->fixed[dim]);
}
