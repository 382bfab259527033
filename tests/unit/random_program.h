/* Cluster programs for tests of the planner and the pods: random stages, cluster loops, states, halos and modes over random tensors, with a leaf made
 * by hand in C, and the same result computed plainly over whole tensors. What a leaf computes depends on the order of everything that must have one.
 * All arithmetic is on unsigned integers, so results can be compared bit for bit. */
#ifndef PHOBOS_RANDOM_PROGRAM_H
#define PHOBOS_RANDOM_PROGRAM_H

#include "runtime/runtime.h"

enum { PROGRAM_TENSORS = 4, PROGRAM_STATES = 2, PROGRAM_STAGES = 5, PROGRAM_LOOPS = 2, PROGRAM_DIMS = 14 };

typedef struct RandomProgram {
    PhbProgram program;
    PhbKernel kernel;
    PhbTensor tensors[PROGRAM_TENSORS];
    PhbExprNode halos[PROGRAM_TENSORS][PHB_MAX_RANK];
    PhbState states[PROGRAM_STATES];
    PhbExprNode columns[PROGRAM_STATES];
    PhbLoop loops[PROGRAM_LOOPS];
    PhbStage stages[PROGRAM_STAGES];
    int8_t modes[PROGRAM_STAGES][PROGRAM_TENSORS + PROGRAM_STATES];
    PhbDim dims[PROGRAM_DIMS];
    PhbVariant variant;
    PhbCpuCode code;
    int64_t values[PROGRAM_DIMS]; /* of the variant */
    Job job;
    int axes;                          /* of the grid that are split */
    bool leaky;                        /* what leaves write depends on how many super-tiles there are */
    char *folder;                      /* its own, with the tensor files in it; NULL without files */
    uint64_t *before[PROGRAM_TENSORS]; /* elements */
    uint64_t *after[PROGRAM_TENSORS];  /* what tensors must hold at the end */
} RandomProgram;

/* With files, or to be planned and not run. One program at a time can run: a leaf is a bare function. */
RandomProgram *random_program_new(uint64_t seed, bool files);
bool random_program_free(RandomProgram *program); /* false: a file was left behind */
/* Other super-tiles for the same problem; the leaf stays as it is. */
void random_program_split(RandomProgram *program, uint64_t *state);
/* Closes and opens the files again, as a new job would find them, with their first contents. */
void random_program_rewind(RandomProgram *program);
/* The first written tensor whose file is not as it must be, or NULL. */
const char *random_program_wrong(const RandomProgram *program);

#endif
