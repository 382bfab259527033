/* The command. */
#ifndef PHOBOS_COMPILER_DRIVER_H
#define PHOBOS_COMPILER_DRIVER_H

#include "compiler/ir/ir.h"
#include "compiler/lower/lower.h"
#include "compiler/sema/sema.h"

enum { STATUS_DONE = 0, STATUS_WRONG = 1, STATUS_USAGE = 2 };

/* ---- options.c ---- */

/* Kinds of output: enumerator, name after --emit=, what it is. */
#define EMIT_KINDS(X)                                                                                                                                \
    X(EXE, "exe", "an executable")                                                                                                                   \
    X(OBJ, "obj", "an object with the kernels and their tables")                                                                                     \
    X(LIB, "lib", "a static archive and NAME.h")                                                                                                     \
    X(AST, "ast", "the source as parsed")                                                                                                            \
    X(IR, "ir", "the tile IR; phobosc reads it back")                                                                                                \
    X(IR_AFTER, "ir-after", "the tile IR after a pass: --emit=ir-after=PASS")                                                                        \
    X(CLUSTER, "cluster", "the cluster program")                                                                                                     \
    X(LLVM, "llvm", "LLVM IR")                                                                                                                       \
    X(PTX, "ptx", "PTX")                                                                                                                             \
    X(ASM, "asm", "assembly")

typedef enum EmitKind {
#define X(id, name, what) EMIT_##id,
    EMIT_KINDS(X)
#undef X
        EMIT_KIND_COUNT
} EmitKind;

/* Steps of the IR pipeline, in order, as --emit=ir-after names them. */
#define IR_PASSES(X)                                                                                                                                 \
    X(LOWER, "lower")                                                                                                                                \
    X(FOLD, "fold")                                                                                                                                  \
    X(CONTROL, "control")                                                                                                                            \
    X(CSE, "cse")                                                                                                                                    \
    X(LICM, "licm")                                                                                                                                  \
    X(DCE, "dce")                                                                                                                                    \
    X(LAYOUT, "layout")

typedef enum IrPass {
#define X(id, name) PASS_##id,
    IR_PASSES(X)
#undef X
        IR_PASS_COUNT
} IrPass;

typedef enum ColorChoice { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER } ColorChoice;

typedef struct WarningChoice {
    WarningKind kind;
    bool on;
} WarningChoice;

/* -ffile-prefix-map: a path that begins with `from` is written with `to` in its place. */
typedef struct PrefixMap {
    const char *from, *to;
} PrefixMap;

typedef struct Options {
    const char *input;  /* "-": standard input */
    const char *output; /* NULL: by the kind's default */
    EmitKind emit;
    IrPass ir_after;          /* EMIT_IR_AFTER */
    int optimise;             /* 0..3 */
    int jobs;                 /* threads that generate code */
    VEC(const char *) levels; /* CPU levels, ascending */
    VEC(const char *) gpus;   /* GPU targets, in the order given, */
    bool gpu_auto, gpu_none;  /* and those that suit each kernel; none */
    int gpu_variants;         /* of a leaf; 0: all */
    bool simt;                /* code for the simulator */
    bool cubin;
    bool debug;              /* line tables, */
    VEC(PrefixMap) prefixes; /* whose paths are mapped by the last that fits */
    VEC(Define) defines;
    bool no_cluster;
    bool depfile;                      /* -MD */
    const char *depfile_path;          /* NULL: the output's name with .d; "-": standard output */
    VEC(const char *) depfile_targets; /* as they stand there; empty: the output */
    bool depfile_phony;
    VEC(WarningChoice) warnings; /* in the order given */
    bool remarks[REMARK_COUNT];
    bool werror, quiet;
    ColorChoice color;
    DiagFormat diagnostics;
    bool serve_editor;                              /* --lsp */
    bool show_version, show_help, show_search_dirs; /* the input may be missing */
} Options;

/* False after a message on stderr: the command line is wrong. Strings live as long as argv or the arena. */
bool options_parse(Arena *arena, Interner *interner, int argc, char **argv, Options *options);
void options_print_help(FILE *out);

/* ---- response.c ---- */

typedef VEC(char *) Arguments; /* argv: the program's name first, NULL last */

/* argv with each @FILE before "--" replaced by the arguments in FILE. False after a message on stderr: a file cannot be read. */
bool response_expand(Arena *arena, int argc, char **argv, Arguments *out);

/* ---- depfile.c ---- */

/* The text of the depfile: each target depends on `input`. */
void depfile_print(Arena *arena, Buffer *buffer, const Options *options, const char *output);
const char *depfile_name(Arena *arena, const Options *options, const char *output); /* NULL: standard output */
/* As make reads names: a space is escaped, with the backslashes before it doubled, '#' is escaped, '$' doubled. */
const char *depfile_escape(Arena *arena, const char *name);

/* ---- build_id.c ---- */

/* What two executables must share to work on one job: the program, the options that shape its code, the compiler, the runtime. An object that is made
 * where there is no runtime has an id without it. */
void build_id_make(const Options *options, const char *compiler, IrModule *module, const char *runtime_path, uint8_t id[16]);
/* What an assembler made of the PTX is not the options' alone. */
void build_id_add_machine_code(const ClusterProgram *program, uint8_t id[16]);

/* ---- library.c ---- */

/* The C name of the program table in the archive at `path`: NAME_program for [lib]NAME.a. */
const char *library_symbol(Arena *arena, const char *path);
const char *library_header_path(Arena *arena, const char *path); /* NAME.h beside it */
/* Writes the archive of `object`, which defines library_symbol, and of the runtime, and the header for the kernels of `module`. On failure gives false and a
 * whole sentence in *error, and leaves nothing behind. */
bool library_write(Arena *arena, const IrModule *module, const Buffer *object, const char *runtime_path, const char *path, char **error);

/* ---- format_command.c ---- */

/* `phobosc fmt` with the arguments after it; an exit status. */
int format_command(Arena *arena, Interner *interner, int argc, char **argv);
/* Appends the source in the formatter's layout. False after messages on stderr where it has syntax errors. */
bool format_source(Arena *arena, Interner *interner, const Source *source, Buffer *text);

/* ---- driver.c ---- */

int driver_run(Arena *arena, Interner *interner, const Options *options); /* an exit status */

#endif
