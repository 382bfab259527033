/* Jobs for tests of the planner and the pods: a kernel made by hand, in C, over random ranks, extents, super-tiles and projections of its inputs, and
 * the same result computed plainly over whole tensors. All arithmetic is on unsigned integers, so results can be compared bit for bit. */
#ifndef PHOBOS_RANDOM_JOB_H
#define PHOBOS_RANDOM_JOB_H

#include "runtime/sched/sched.h"

enum { JOB_TENSORS = 5, JOB_DIMS = 11 };

typedef struct RandomJob {
    PhbProgram program;
    PhbKernel kernel;
    PhbTensor tensors[JOB_TENSORS];
    PhbDim dims[JOB_DIMS];
    PhbVariant variant;
    PhbStage stage;
    PhbCtaRange *run;
    PhbCpuCode code;
    int64_t values[JOB_DIMS]; /* of the variant */
    Job job;
    char *folder;                  /* its own, with the tensor files in it; NULL without files */
    uint64_t *before[JOB_TENSORS]; /* elements, whatever their size in the file */
    uint64_t *after[JOB_TENSORS];  /* what written tensors must hold at the end */
} RandomJob;

typedef struct RandomShape {
    int axes;          /* of the grid that are split: 1..3 */
    int64_t extent[3]; /* D */
    int64_t super[3];  /* S */
    int64_t leaf[3];   /* divides S unless S covers D */
} RandomShape;

uint64_t random_next(uint64_t *state);
int64_t random_below(uint64_t *state, int64_t bound); /* 0..bound-1 */

RandomShape random_shape(uint64_t *state, int64_t most_units);
/* With files in a folder of its own, or, where `files` is false, with a job that can be planned and not run. */
RandomJob *random_job_new(uint64_t seed, const RandomShape *shape, bool files);
/* Closes the tensors, deletes the files and, where nothing else is in it, the folder: false where something was left behind. */
bool random_job_free(RandomJob *job);

/* Round-robin: the units of one pod of `pods`. */
UnitRange deal_units(const Problem *problem, int64_t pod, int64_t pods);

/* Whether a tensor's file holds `elements`. */
bool random_job_file_is(const RandomJob *job, int tensor, const uint64_t *elements);

#endif
