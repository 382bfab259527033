/* What the files that read job.json share: job.c, job_values.c, job_tensors.c, job_bind.c, job_steps.c. Each step reports all that it finds wrong and
 * goes on. */
#ifndef PHOBOS_JOB_READER_H
#define PHOBOS_JOB_READER_H

#include "runtime/runtime.h"

#include <sys/stat.h>

typedef struct TensorEntry {
    const JsonNode *node; /* the value under "tensors", or NULL */
    bool in_pods;         /* no file: it lives in the pods between steps */
    const JsonNode *uri, *shape_node;
    bool says_bf16; /* "dtype": "bf16" */
    bool failed;    /* reported already: what follows from it is not */
    bool shape_known, from_header;
    int64_t shape[PHB_MAX_RANK];
} TensorEntry;

typedef struct DimEntry {
    bool bound;
    bool failed;       /* given, but wrongly */
    bool in_extent;    /* stands in the extent of a tensor */
    const char *owner; /* who bound it: a tensor's name, or NULL for the job's own text */
} DimEntry;

typedef struct JobReader {
    Job *job;
    const PhbKernel *kernel;
    const char *path;
    char *folder;       /* of the job file */
    struct stat status; /* of the job file */
    const JsonNode *root;
    ErrorList *errors;
    TensorEntry *tensors; /* as kernel->tensors */
    DimEntry *dims;       /* as kernel->dims */
} JobReader;

/* An error at a value, or where the job begins if `node` is NULL. */
void report(JobReader *reader, const JsonNode *node, const char *format, ...) __attribute__((format(printf, 3, 4)));
void report_failure(JobReader *reader, const JsonNode *node, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* At the key of a member that is none of `names`: with the nearest, or with all of them. */
void report_unknown(JobReader *reader, const JsonNode *member, const char *what, const char *const *names, int count);
bool expect_kind(JobReader *reader, const JsonNode *node, const char *what, JsonKind kind);
/* The section as an object, or NULL: not there, or of another kind, which is reported. */
const JsonNode *section(JobReader *reader, const char *name);
/* An extent, a tile, a count: an integer of 1 .. 2^63-1. */
bool read_positive(JobReader *reader, const JsonNode *node, const char *what, int64_t *value);
int dim_find(const PhbKernel *kernel, const char *name); /* -1: none */
bool dim_in_extent(const PhbKernel *kernel, int dim);    /* stands in the extent of a tensor */
/* The kernel that a job or a step names, or NULL, which is reported. */
const PhbKernel *choose_kernel(JobReader *reader, const PhbProgram *program);
/* Everything of a job or step but its tensors' files. */
void reader_begin(JobReader *reader, const PhbKernel *kernel);
void reader_end(JobReader *reader);

/* job_values.c */
void read_dims(JobReader *reader);
void read_cluster(JobReader *reader);
void read_autotune(JobReader *reader);
void read_scalars(JobReader *reader);
/* job_tensors.c: opens the files, and learns their shapes where a header or the job says them. */
void read_tensors(JobReader *reader);
void check_aliases(JobReader *reader);
char *shape_text(int dtype, int rank, const int64_t *shape); /* "f32 [8, 16]", a new string */
/* job_bind.c: dims from shapes, shapes from dims, sizes, conditions, variants. */
void bind_dims(JobReader *reader);
void bind_shapes(JobReader *reader);
void bind_file(JobReader *reader, int index, const int64_t *shape); /* the shape of a tensor is known */
void check_conditions(JobReader *reader);
void check_variants(JobReader *reader);
/* job_steps.c: "steps" and "repeat". */
void read_steps(JobReader *reader, const PhbProgram *program);
void sequence_free(Sequence *sequence); /* NULL is nothing */

#endif
