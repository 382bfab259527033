/* IR text, compiled to a shared object and called: what the tests of code generation start from. */
#ifndef PHOBOS_CODEGEN_FIXTURE_H
#define PHOBOS_CODEGEN_FIXTURE_H

#include "compiler/codegen/codegen.h"

#define MAX_TENSORS 24

typedef struct Compiled {
    Context context;
    Source source;
    IrModule *module;
    void *image;
    const PhbProgram *program;
} Compiled;

/* Compiles for those of the levels that this machine runs. Every kernel of the text is a leaf as it stands, its tensors read and written whole. Fails
 * the test on any error. The object must need nothing of libm, libgcc or elsewhere but libc. */
Compiled *compiled_new(const char *text, int optimise, const char *const *levels, int level_count);
void compiled_free(Compiled *compiled);
/* The object's bytes, and what the diagnostics say in `messages` (the caller's to free). */
Buffer compile_object(const char *text, CodegenOutput output, int optimise, const char *const *levels, int level_count, char **messages);

/* A launch with two equal sets of tensors, each between unreadable pages, one for the code and one for the reference. */
typedef struct Trial {
    const IrKernel *kernel;
    const PhbKernel *table;
    PhbLaunch launch;
    PhbTensorArg code[MAX_TENSORS], reference[MAX_TENSORS];
    uint64_t scalars[MAX_TENSORS];
    int64_t dims[MAX_TENSORS];
    struct Memory *memory;
} Trial;

/* `extents` of each tensor parameter. Elements and padding are random; launch.grid is 1, 1, 1; scalars are 0. */
Trial *trial_new(const Compiled *compiled, int kernel, const int64_t (*extents)[PHB_MAX_RANK], uint64_t seed);
/* Runs all CTAs on every level, and in the reference; the test fails at the first byte that differs. */
void trial_check(Trial *trial);
/* Element `index` of tensor `tensor`, of rank 1, before the run. */
void trial_set(Trial *trial, int tensor, PhbDType dtype, int64_t index, uint64_t bits);
void trial_free(Trial *trial);

uint64_t random_next(uint64_t *state);

#endif
