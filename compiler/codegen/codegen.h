/* From the cluster program to files: LLVM IR for each leaf and CPU level, the program table, an object, an executable. LLVM objects live in here alone. */
#ifndef PHOBOS_CODEGEN_H
#define PHOBOS_CODEGEN_H

#include "compiler/lower/lower.h"

typedef struct CodegenOptions {
    int optimise;               /* 0..3 */
    const char *const *levels;  /* "x86-64-v2", "x86-64-v3", "x86-64-v4", "native"; ascending */
    int level_count;
    uint8_t build_id[16];
    const char *compiler;       /* "phobosc VERSION" */
} CodegenOptions;

typedef enum CodegenOutput { CODEGEN_LLVM, CODEGEN_ASM, CODEGEN_OBJECT } CodegenOutput;

/* Appends the output to `buffer`. Errors (none that a user can cause) abort with file, kernel and pass. */
void codegen_program(Context *context, const ClusterProgram *program, const CodegenOptions *options, CodegenOutput output, Buffer *buffer);

/* link.c: links `object` with libphobosrt.a into `path` by the C compiler driver (`cc`, or $CC), through a temporary beside it and rename. On failure gives
 * false and a whole sentence in *error, and leaves nothing behind. */
bool link_executable(Context *context, const Buffer *object, const char *runtime_path, const char *path, char **error);

#endif
