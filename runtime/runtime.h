/* What the parts of the runtime share: errors, expressions, jobs, tensor files, the command line. Names outside program.h are local to libphobosrt.a. */
#ifndef PHOBOS_RUNTIME_H
#define PHOBOS_RUNTIME_H

#include "runtime/program.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_FENCED = 75, EXIT_REFUSED = 78 };

/* cli.c: set by SIGINT and SIGTERM. Whoever runs a job looks at it, gives up soon, removes what it staged, and ends with EXIT_FAILED. */
extern atomic_bool interrupted;

/* ---- error.c: a message is written once, where the failure happens: the cause, the thing, the way out. Callers only propagate. ---- */

typedef struct Error {
    char text[1024]; /* one line, cut at a whole character */
} Error;

/* Always gives false, so that a failing function ends with `return error_set(error, ...)`. `error` may not be NULL. */
bool error_set(Error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same, followed by ": " and the text of errno. */
bool error_errno(Error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Several errors of one input, all to be shown. */
typedef struct ErrorList {
    char **lines;
    int count;
    int failures; /* of them, those that the machine and not the input is to blame for */
} ErrorList;

void errors_add(ErrorList *list, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for what the operating system refuses: an input that is not there, a folder that cannot be written. */
void errors_add_failure(ErrorList *list, const char *format, ...) __attribute__((format(printf, 2, 3)));
int errors_exit_code(const ErrorList *list); /* EXIT_USAGE where any error is the input's, else EXIT_FAILED */
void errors_print(const ErrorList *list, FILE *out); /* "error: " before each */
void errors_free(ErrorList *list);

/* Zeroed memory for small things; ends the process where there is none, so never for sizes that an input chooses. */
void *new_zeroed(size_t count, size_t size);
char *format_text(const char *format, ...) __attribute__((format(printf, 1, 2))); /* a new string */
/* Uses up `text`, which may be NULL, and gives it with more at its end. */
char *text_append(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *format_arguments(const char *format, va_list arguments) __attribute__((format(printf, 1, 0)));

/* ---- dtype.c, expr.c ---- */

int dtype_size(int dtype);         /* bytes */
const char *dtype_name(int dtype); /* "f32" */
int dtype_find(const char *name);  /* -1: none */

typedef struct ExprScope {
    const int64_t *dims; /* as PhbKernel.dims */
    const bool *bound;   /* as dims; NULL: all are bound */
    const int64_t (*extents)[PHB_MAX_RANK]; /* of each tensor; NULL where EXTENT cannot stand */
} ExprScope;

/* False where a dim is unbound, a sum overflows or a divisor is 0. */
bool expr_eval(const PhbExpr *expr, const ExprScope *scope, int64_t *value);

/* Of `count` names the one nearest by edit distance, or NULL where none is near enough to be meant. */
const char *name_nearest(const char *name, const char *const *names, int count);

/* ---- region: a box in a tensor; axes beyond the rank have origin 0 and extent 1 ---- */

typedef struct Region {
    int64_t origin[PHB_MAX_RANK];
    int64_t extent[PHB_MAX_RANK];
} Region;

/* ---- npy.c: .npy headers, versions 1-3, C order, little-endian ---- */

typedef struct NpyHeader {
    int dtype; /* -1 for a raw V2 that the job must name; <u2 is PHB_U16 */
    bool may_be_bf16; /* V2 or <u2 */
    int rank;
    int64_t shape[PHB_MAX_RANK];
    int64_t data_offset; /* at most NPY_MAX_HEADER */
} NpyHeader;

enum { NPY_MAX_HEADER = 1 << 16 };

/* The header that begins `bytes`, the first `size` bytes of a file; more than NPY_MAX_HEADER are never needed. `path` is for messages. */
bool npy_parse_header(const unsigned char *bytes, size_t size, const char *path, NpyHeader *header, Error *error);
bool npy_read_header(int fd, const char *path, NpyHeader *header, Error *error);
/* The bytes of a version-1 header, padded so that data begin at a multiple of 64; returns their count, at most 256. */
int npy_write_header(char bytes[256], int dtype, int rank, const int64_t *shape);

/* ---- tensor_file.c, tensor_rows.c: a tensor on disk. Inputs are read by pread, never mapped; outputs go to a staging file beside the target, renamed when the
 * job is done. ---- */

typedef struct TensorFile {
    char *path;       /* absolute, symbolic links resolved */
    bool is_npy;      /* by the name's end */
    int dtype, rank;
    int64_t shape[PHB_MAX_RANK];
    int64_t data_offset; /* bytes before element 0 */
    bool exists;         /* the old file, at job start */
    int64_t file_size, mtime_ns;
    dev_t device;
    ino_t inode;
    mode_t permissions;
    int old_fd;       /* open for reading while the job runs, or -1: no old file */
    int staging_fd;   /* written tensors: the new contents, or -1 */
    bool passing;     /* larger than memory: nothing of it stays in the page cache */
    int64_t unreserved; /* bytes of the staging file whose space was looked for, but not taken, when it was staged */
    int lock_fd;
    char *staging_path;
    char *lock_path;
    void *memory;      /* no file: the elements lie here, without gaps */
    bool synced;       /* tensor_file_sync is done */
    bool keep_staging; /* a failed job leaves the staging file for whom it may help */
} TensorFile;

typedef enum FileVerdict {
    FILE_FINE,
    FILE_REFUSED, /* what the path names can never be a tensor of this mode */
    FILE_FAILED   /* the operating system says no */
} FileVerdict;

/* Resolves `path`, looks at what is there and, where the old contents are read, opens it; a tensor that is only written need not exist, but its folder must take
 * files. Fills all but dtype, rank, shape and data_offset. Creates nothing. */
FileVerdict tensor_file_open(TensorFile *file, const char *path, int mode, Error *error);
/* The whole box of a tensor file. */
Region tensor_file_whole(const TensorFile *file);
int64_t tensor_file_bytes(const TensorFile *file); /* of the elements; never overflows once the job is bound */

/* Reads a region of the old contents into rows of `pitch` bytes (runs of the last axis); 0 everywhere when there is no old file. Thread-safe. */
bool tensor_file_read(const TensorFile *file, const Region *region, void *rows, int64_t pitch, Error *error);
/* Writes a region of the new contents. Thread-safe; regions of different calls do not overlap. */
bool tensor_file_write(const TensorFile *file, const Region *region, const void *rows, int64_t pitch, Error *error);
/* Locks the target against a second job, until it is published or closed. */
bool tensor_file_lock(TensorFile *file, Error *error);
/* Locks the target where that is not done yet, creates the staging file and finds room for it, writes its header; copies the old contents first if
 * `keep_old`. */
bool tensor_file_stage(TensorFile *file, bool keep_old, Error *error);
/* fdatasync and the permissions of the old file: all of publishing that can fail for want of space or a broken disk. A job with several outputs calls it for
 * each of them before it publishes the first. */
bool tensor_file_sync(TensorFile *file, Error *error);
/* What is staged, as another staging file, on the disk. */
bool tensor_file_copy(const TensorFile *file, TensorFile *copy, Error *error);
void tensor_file_drop(TensorFile *copy); /* a staging file, and nothing else of it */
/* tensor_file_sync where it is not done yet, rename over the target, fsync of the folder. */
bool tensor_file_publish(TensorFile *file, Error *error);
/* fsync of the folder that a file is in; false, with errno: it failed. */
bool folder_sync(const char *path);
/* Removes the staging file and the lock, if any; closes everything. Never fails. */
void tensor_file_close(TensorFile *file);
/* False ("input changed") when size, mtime or inode are not what they were at job start. */
bool tensor_file_unchanged(const TensorFile *file, Error *error);

/* ---- machine.c: what of the machine this process may use ---- */

int64_t machine_bytes(void);  /* of memory: the machine's, or less where a cgroup allows less */
int64_t machine_memory(void); /* half of it, which is for tiles where nobody says more */
bool machine_holds(int64_t bytes, Error *error);
int machine_processors(void);
/* What the cgroups that `self`, a file as /proc/self/cgroup, names allow, where they are mounted below `mounts`; INT64_MAX: no limit. */
int64_t cgroup_memory(const char *mounts, const char *self);
int64_t cgroup_processors(const char *mounts, const char *self);

/* ---- page_cache.c: what the kernel keeps of tensor files in memory ---- */

bool pages_pass(int fd); /* a file that is larger than memory; -1: none */
/* After bytes of the old contents were read, or of the new ones written. */
void pages_were_read(const TensorFile *file, int64_t offset, int64_t bytes);
void pages_were_written(const TensorFile *file, int64_t offset, int64_t bytes);
/* Of open(2), for a staging file in which machines write side by side: what its file system asks for. */
int staging_flags(int fd);

/* ---- roots.c: --root ---- */

typedef struct Roots Roots;
/* The folders that files may be in. */
Roots *roots_open(const char *const *folders, int count, Error *error);
void roots_free(Roots *roots); /* NULL is nothing */
/* As open(2), for a file that exists; EXDEV where its path leads out of the roots. NULL: any file. */
int roots_open_file(const Roots *roots, const char *path, int flags);

/* ---- space.c: room for outputs ---- */

/* Sets the size of a new staging file and takes its space, or sees that it is there and leaves it `unreserved`. False: "disk full", or worse. */
bool space_take(TensorFile *file, int64_t bytes, Error *error);
/* False ("disk full") when the file system of a staged file has no room for so many bytes more. */
bool space_suffices(const TensorFile *file, int64_t bytes, Error *error);
/* Takes what is unreserved, beside what writes to the file, until it is all taken or `settled` is set from another thread. */
bool space_reserve(TensorFile *file, const atomic_bool *settled, Error *error);

/* ---- json_locate.c: JSON as a tree whose nodes know where they stand ---- */

typedef enum JsonKind { JSON_NODE_OBJECT, JSON_NODE_ARRAY, JSON_NODE_STRING, JSON_NODE_NUMBER, JSON_NODE_BOOL, JSON_NODE_NULL } JsonKind;

typedef struct JsonNode JsonNode;
struct JsonNode {
    JsonKind kind;
    int line, column;          /* from 1; columns count characters */
    char *text;                /* STRING: decoded, never holds NUL; NUMBER, BOOL: as spelled */
    char *key;                 /* members of an object, else NULL */
    int key_line, key_column;
    JsonNode *first, *next;    /* OBJECT, ARRAY: the elements in order */
    int count;                 /* of them */
};

enum { JSON_MAX_BYTES = 1 << 20, JSON_MAX_DEPTH = 32 };

/* NULL, with the error at its place, where the text is not JSON, is too long or too deep. Duplicate keys are all reported, but do not make the tree NULL. */
JsonNode *json_parse_located(const char *text, size_t size, const char *path, ErrorList *errors);
void json_free(JsonNode *node);
const JsonNode *json_member(const JsonNode *object, const char *key); /* the first of that name, or NULL */
const char *json_kind_text(const JsonNode *node);                     /* "a string", "an object", for messages */

/* ---- job.c: job.json, read, checked and bound to a kernel ---- */

/* What runs leaves. Code for one class gives the same bits on all its devices. */
typedef enum DeviceClass { CLASS_CPU, CLASS_GPU, CLASS_SIMT } DeviceClass;
enum { CLASS_COUNT = 3 };
/* "cpu", "gpu sm_90", "simulator". `arch` is a GPU's: each architecture is a class of its own. */
void class_describe(DeviceClass class, int arch, char text[32]);

typedef struct Sequence Sequence;

typedef struct Job {
    const PhbProgram *program;
    const PhbKernel *kernel; /* of a job of several steps: all that it reads and writes, without code */
    Sequence *sequence;      /* several steps; NULL: the kernel, once */
    const char *path;     /* of job.json, as given; "job" where it was no file */
    int64_t *dims;        /* as kernel->dims: symbolic dims at their whole extents; search dims at their @cluster value (else 0) */
    uint64_t *scalars;    /* as kernel->scalars: bits, zero-extended */
    TensorFile *tensors;  /* as kernel->tensors */
    int64_t *leaf_values; /* as kernel->dims: values that the job's "autotune" or a tensor's extent fixes, 0 where neither does */
    int64_t split_k;      /* parts that the ranges of cluster loops are divided into; 0 or 1: they are not */
    DeviceClass device;   /* of all its pods; the CPU until somebody chooses */
    bool *fixed;          /* as kernel->dims: the job gives the @cluster value; NULL: it gives none */
    bool *barred;         /* as kernel->variants: leaves that are not to be taken; NULL: none */
    ErrorList remarks;    /* what is legal and yet worth saying */
    atomic_bool settled;  /* how it ends: outputs_reserve has nothing more to do */
    struct Journal *journal; /* what it has come to, or NULL; a failed job's goes with its staging files */
} Job;

/* One of several steps: a kernel, and which of the job's tensors its tensors are. */
typedef struct JobStep {
    Job *job;     /* kernel, dims, scalars and leaf; of its tensors the shapes alone */
    int *tensors; /* as its kernel's: indices into the tensors of the whole */
} JobStep;

/* The steps of a job run one after another, all of them `repeat` times. A *round* is one run of one step. */
struct Sequence {
    JobStep *steps;
    int count;
    int64_t repeat;
    int tensor_count; /* Job.tensors: first those of Job.kernel, which are files, then those that live in the pods alone */
    PhbKernel kernel; /* Job.kernel */
};

enum { JOB_MAX_STEPS = 64, JOB_MAX_REPEAT = 2147483647 };

/* A job without steps is one step of itself. */
int job_step_count(const Job *job);
Job *job_step(const Job *job, int step);
int64_t job_rounds(const Job *job);
int job_tensor(const Job *job, int step, int tensor); /* which of the job's tensors it is */

/* Reads and checks everything that needs no pod; opens the inputs; writes nothing. On failure NULL, with every error found in `errors`, each as
 * "FILE:LINE:COLUMN: text" where it has a position in the job file. */
Job *job_load(const PhbProgram *program, const char *path, ErrorList *errors);
/* The same for a job that is no file; relative paths start from `folder`, NULL: the current one. */
Job *job_load_text(const PhbProgram *program, const char *text, const char *folder, ErrorList *errors);
void job_abandon(const Job *job); /* takes away what it has in the file system, and nothing of what threads may use: the process is about to end */
void job_free(Job *job); /* closes the tensors, discarding what was not published */
/* The same as the last act of a process that ends with this code. Where that is not 0 the journal of outputs that are in place stays, so that a run
 * that is started again with --resume does not apply the job to them a second time. */
void job_end(Job *job, int exit_code);
bool job_writes(const Job *job, int tensor);
bool job_dim_is_free(const Job *job, int dim); /* a @cluster value that the job leaves open */
void job_print_template(const PhbProgram *program, FILE *out); /* --job-template */
void info_print_text(const PhbProgram *program, FILE *out);    /* --info */
void job_print_schema(const PhbProgram *program, FILE *out);   /* --schema */
void info_print_json(const PhbProgram *program, FILE *out);    /* --info=json */

/* ---- outputs.c: the written tensors of a job, together ---- */

bool outputs_stage(Job *job, bool keep_staging, Error *error);
/* Takes the space that staging left to be taken; beside everything else, until job->settled. */
bool outputs_reserve(Job *job, Error *error);
/* Checks that no input changed and brings every output to the disk. */
bool outputs_finish(Job *job, Error *error);
/* The same where it is not done yet, journals what is to be renamed where there is a journal, then renames it all: what can fail
 * comes before the first rename. The journal stays until job_end. Where a rename after the first one fails, the rest of the files and the journal
 * stay, for --resume. `renew`: somebody who is not to may still write to the staging files, and copies of them are published. */
bool outputs_publish(Job *job, bool renew, Error *error);

/* ---- local.c: scheduler and pods in this process ---- */

typedef enum ProgressMode { PROGRESS_AUTO, PROGRESS_BAR, PROGRESS_LINES, PROGRESS_JSON, PROGRESS_NONE } ProgressMode;
typedef enum LogLevel { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG } LogLevel;
typedef enum LeafChoice { LEAF_MODEL, LEAF_FIRST, LEAF_MEASURE } LeafChoice;
typedef enum AutotuneChoice { AUTOTUNE_NONE, AUTOTUNE_MODEL, AUTOTUNE_MEASURE } AutotuneChoice;

typedef enum PlacementPolicy {
    PLACE_ROUND_ROBIN, /* unit u goes to node u mod nodes */
    PLACE_BLOCK,       /* a box of the grid for each node, cut so that the node that reads most reads little */
    PLACE_NEAR         /* the same, but in a later step of a job where the middle of the largest tile that a unit reads of earlier steps was computed */
} PlacementPolicy;

/* What of the command line shapes a plan. */
typedef struct PlanOptions {
    LeafChoice leaf;
    PlacementPolicy placement;
    AutotuneChoice autotune;
    int64_t memory;             /* bytes of tiles that a node may hold; 0: not given */
    double link_bw, leaf_flops; /* the model's figures, a second; 0: not given */
} PlanOptions;

/* Tiles that are computed twice. */
typedef struct AuditOptions {
    double percent; /* of them; 0: none is */
    uint64_t seed;  /* other ones for another number */
} AuditOptions;

/* How the simulator behaves. */
typedef struct SimtOptions {
    uint64_t seed; /* of the order of CTAs, warps and arrivals; 0: ascending */
    int elect;     /* which lane elect_one_sync gives: 0 the lowest, 1 the highest, 2 a random one */
    bool weak;     /* races do not end the launch: what is not published is not seen */
} SimtOptions;

typedef struct RunOptions {
    int pods;             /* 0: one a device */
    int threads;          /* of each pod; 0: the machine's processors shared among the pods */
    PlanOptions plan;     /* memory 0: half of the machine's memory shared among the pods, or most of its card's */
    ProgressMode progress;
    LogLevel log;
    bool owns_process;  /* which may be ended where a pod does not end */
    bool keep_staging;
    bool resume;        /* keep a journal, and go on from one that is there */
    const char *trace;  /* file for what pods did, or NULL */
    bool selfcheck;     /* first run the job under several plans and compare */
    const char *device; /* the value of --device, or NULL */
    bool mixed;         /* devices of several classes may work on the job */
    AuditOptions audit;
    SimtOptions simt;
    FILE *out, *errors, *messages;      /* the summary; why it failed; what else there is to say */
    int (*is_cancelled)(void *context); /* asked from the calling thread: not 0 ends the job; NULL: never. `interrupted` does as well */
    void *context;
} RunOptions;

int local_run(Job *job, const RunOptions *options); /* an exit code */

/* --plan: what would run on `nodes` nodes. Takes the best @cluster values into the job where the options ask for them. */
typedef enum PlanFormat { PLAN_TEXT, PLAN_JSON, PLAN_DOT, PLAN_SVG } PlanFormat;
int plan_print(Job *job, int nodes, const PlanOptions *options, PlanFormat format, FILE *out); /* an exit code */

#endif
