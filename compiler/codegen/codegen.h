/* From the cluster program to files: LLVM IR for each leaf and CPU level, the program table, an object, an executable. LLVM objects live in here
 * alone. */
#ifndef PHOBOS_CODEGEN_H
#define PHOBOS_CODEGEN_H

#include "compiler/lower/lower.h"

/* What line tables say of the source. Without one there are none. */
typedef struct DebugSource {
    const char *path, *folder; /* a relative path is relative to the folder */
    const char *producer;
    bool is_optimised;
    bool only_lines; /* directives of lines in text, no DWARF */
} DebugSource;

typedef struct CodegenOptions {
    int optimise;              /* 0..3 */
    const DebugSource *debug;  /* NULL: no line tables */
    const char *const *levels; /* "x86-64-v2", "x86-64-v3", "x86-64-v4", "native"; ascending */
    int level_count;
    uint8_t build_id[16];
    const char *compiler; /* "phobosc VERSION" */
    const char *symbol;   /* the program table's name */
    int jobs;             /* threads at most; the output does not depend on it */
} CodegenOptions;

typedef enum CodegenOutput { CODEGEN_LLVM, CODEGEN_ASM, CODEGEN_OBJECT } CodegenOutput;

/* Appends the output to `buffer`. Errors (none that a user can cause) abort with file, kernel and pass. */
void codegen_program(Context *context, const ClusterProgram *program, const CodegenOptions *options, CodegenOutput output, Buffer *buffer);

/* ---- simt/: threads on hosts ---- */

/* Whose layouts, copies and matrix instructions the simulator runs. */
typedef enum Simulated { SIMULATED_NONE, SIMULATED_SM_80, SIMULATED_SM_90A } Simulated;

/* Fills in what hosts run as threads: CPU variants' stages with thread code, GPU variants for the simulator. False after an error in the diagnostics. */
bool codegen_threads(Context *context, ClusterProgram *program, Simulated simulated);

/* ---- nvptx/: code for GPUs ---- */

typedef struct GpuTargets {
    const char *const *items; /* "sm_80", .. */
    int count;
    bool automatic; /* and the oldest that each kernel runs on, and sm_90a for what has bulk copies there */
    bool cubin;     /* machine code beside the PTX */
    const DebugSource *debug; /* NULL: no line tables */
    int jobs;                 /* threads at most */
} GpuTargets;

/* Fills in the images of the program's GPU variants, whose stages are optimised. False after an error in the diagnostics: a kernel that no variant of
 * runs on a target that was asked for. On an automatic one a kernel is left without code, and a warning says so. */
bool codegen_gpu(Context *context, ClusterProgram *program, const GpuTargets *targets, int optimise);
bool codegen_gpu_has_bulk(const char *target);
void codegen_print_ptx(Context *context, Buffer *buffer, const ClusterProgram *program); /* --emit=ptx: each image behind a line of JSON that describes it */

/* ---- merge.c ---- */

/* One relocatable ELF object of several for x86-64. Hidden symbols are resolved among them and become local; no two may define one name. */
void merge_objects(Arena *arena, const Buffer *const *objects, int count, Buffer *merged);

/* ---- archive.c ---- */

/* A static archive of `object`, which defines `symbol`, and of the archive `runtime` without its main(). False: `runtime` is no archive. */
bool archive_print(Arena *arena, const Buffer *object, const char *symbol, const Buffer *runtime, Buffer *out);

/* ---- output.c: files under construction ----
 *
 * Contents go to a temporary beside the target, which takes its place when it is whole. Temporaries are removed on failure and when a signal ends the
 * process. A target that exists and is no regular file (/dev/null, a pipe, /dev/stdout) is written to, not replaced; a link stays one. */

typedef struct Output {
    const char *path;   /* as named, in messages */
    const char *target; /* what it is a link to, or itself */
    char *temporary;    /* NULL once committed or abandoned */
    int fd;             /* of the temporary */
    bool in_place;      /* a special file: commit copies */
} Output;

void output_catch_signals(void); /* SIGHUP, SIGINT, SIGTERM, unless ignored */
/* False with a whole sentence in *error where the temporary cannot be made. `suffix` ends its name. */
bool output_begin(Arena *arena, const char *path, const char *suffix, Output *output, char **error);
bool output_write(Arena *arena, Output *output, const char *data, size_t length, char **error);
bool output_commit(Arena *arena, Output *output, char **error); /* abandons it on failure */
void output_abandon(Output *output);
/* Processes that the signals above kill; at most MOST_COMMANDS. */
void output_add_child(int pid);
void output_forget_child(int pid);

/* ---- command.c ---- */

enum { MOST_COMMANDS = 16 }; /* at once */

typedef struct Command {
    const char *program, *what;
    int pid;
} Command;

/* Runs arguments[0], found on the PATH, to its end. On failure gives false and "cannot WHAT: why; INSTALL" in *error. */
bool command_start(Arena *arena, char *const *arguments, const char *what, const char *install, Command *command, char **error);
bool command_wait(Arena *arena, const Command *command, char **error);
bool command_run(Arena *arena, char *const *arguments, const char *what, const char *install, char **error);

/* ---- link.c ---- */

/* Links `object` with libphobosrt.a into `path` by the C compiler driver ($CC, else `cc`), through a temporary beside it and rename. `flags` are
 * further arguments, separated by spaces. On failure gives false and a whole sentence in *error, and leaves nothing behind. */
bool link_executable(Context *context, const Buffer *object, const char *runtime_path, const char *flags, const char *path, char **error);

#endif
