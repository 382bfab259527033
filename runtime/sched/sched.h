/* The planner: what a job's units of work are, what memory they take, and the instructions that they unroll into. Pure functions of (program, job,
 * memory); the pod that runs a plan and `--plan` that prints it call the same ones. */
#ifndef PHOBOS_SCHED_H
#define PHOBOS_SCHED_H

#include "runtime/runtime.h"

/* ---- bind.c: a job bound to its kernel: the grid of super-tiles, the tiles of each tensor, the leaves ---- */

#define PLAN_MAX_AXIS INT64_C(2147483647)   /* super-tiles, and CTAs, along one axis */
#define PLAN_MAX_UNITS INT64_C(68719476736) /* super-tiles of a job */
#define PLAN_SHAPES 8                       /* leaf shapes: interior or last along each of three axes */

/* A tensor cut into tiles: what one unit of work reads or writes of it. */
typedef struct TensorTiles {
    const PhbTensor *tensor;
    int element; /* bytes */
    bool load, store;
    int64_t whole[PHB_MAX_RANK]; /* extents */
    int axis[PHB_MAX_RANK];      /* the grid axis that cuts it, or -1 */
    int64_t size[PHB_MAX_RANK];  /* of a tile; the last along an axis may be smaller */
    int64_t stride[3];           /* of a tile's number by grid axis, row-major; 0 where the axis does not cut the tensor */
    int64_t count;               /* tiles */
    int64_t bytes;               /* of the largest tile with its padding, a multiple of PHB_BASE_ALIGN */
} TensorTiles;

/* The leaf launch of every unit that is last along the same axes. */
typedef struct LeafShape {
    int64_t *dims; /* as PhbKernel.dims */
    int64_t grid[3];
} LeafShape;

typedef struct Problem {
    const Job *job; /* borrowed, as is its kernel */
    const PhbKernel *kernel;
    const PhbVariant *variant;
    int64_t extent[3]; /* D of each grid axis; 1 where it is not split */
    int64_t super[3];  /* S */
    int64_t supers[3]; /* ceil(D / S) */
    int64_t units;     /* super-tiles in all, numbered row-major: x fastest */
    TensorTiles *tensors;
    LeafShape shapes[PLAN_SHAPES]; /* bit a of the index: last along grid axis a */
} Problem;

/* Checks everything that could make a leaf fail in mid-job. NULL with the reason where the job does not fit the kernel. */
Problem *problem_bind(const Job *job, LeafChoice leaf, Error *error);
void problem_free(Problem *problem);

/* The coordinates of a unit, and what it uses of a tensor. */
void unit_coordinates(const Problem *problem, int64_t unit, int64_t coordinates[3]);
int64_t unit_tile(const Problem *problem, int tensor, const int64_t coordinates[3]); /* the tile's number */
void unit_region(const Problem *problem, int tensor, const int64_t coordinates[3], Region *region);
const LeafShape *unit_shape(const Problem *problem, const int64_t coordinates[3]);

/* Bytes between rows of a resident region, and that it takes in all: rows padded to PHB_ROW_ALIGN. Every extent was checked by problem_bind. */
int64_t region_pitch(const TensorTiles *tiles, const Region *region);
int64_t region_bytes(const TensorTiles *tiles, const Region *region); /* of its elements, without padding */

/* ---- plan.c: how a pod's memory is cut into slots for tiles ---- */

/* Units are dealt to pods as ranges: first, first + step, ... (count of them). `tag` is the caller's name for the range. */
typedef struct UnitRange {
    int64_t first, count, step;
    uint64_t tag;
} UnitRange;

/* Slots are fixed when the plan is: a tile of tensor t can take any of slots[t], each TensorTiles.bytes long, and no other memory. So a plan that
 * fits never runs out, and nothing fragments. */
typedef struct Plan {
    const Problem *problem; /* borrowed */
    int window;             /* units in flight */
    int64_t *slots;         /* of each tensor */
    bool *kept;             /* the tensor's tiles may serve later units: a tile stays until its slot is wanted */
    int64_t bytes;          /* of all slots */
} Plan;

/* The most that `memory` bytes allow, up to what keeps loads, compute and stores overlapping and shared tiles resident. NULL, with need against have
 * for each tensor, where not even one unit fits. */
Plan *plan_make(const Problem *problem, int64_t memory, Error *error);
void plan_free(Plan *plan);

/* Round-robin by row-major index: the units of one pod of `pods`. */
UnitRange plan_deal(const Problem *problem, int64_t pod, int64_t pods);

/* Half of the machine's memory, and the processors that this process may use. */
int64_t machine_memory(void);
int machine_processors(void);

/* ---- unroll.c: units into instructions, one unit at a time ---- */

/* A unit's use of one slot. Uses of a slot are numbered in unit order: a fresh use waits until all earlier uses have been given back, any other until
 * the tile that use number `made` brought is there. */
typedef struct TileUse {
    int64_t slot; /* of the tensor's slots */
    int64_t tile;
    int64_t number;
    int64_t made;    /* the use that brings the tile: == number where fresh */
    int64_t evicted; /* fresh: the kept tile that loses its slot, or -1 */
} TileUse;

typedef struct UnitCode {
    int64_t unit;
    int64_t coordinates[3];
    TileUse *uses; /* as PhbKernel.tensors; owned by the caller */
} UnitCode;

typedef struct Unroll Unroll;

Unroll *unroll_new(const Plan *plan); /* takes all its memory here */
void unroll_free(Unroll *unroll);
/* The next unit of this pod. Units may come in any order, each once; the code depends on those that came before. */
void unroll_unit(Unroll *unroll, int64_t unit, UnitCode *code);

/* The same as single instructions, in an order in which they could run one by one:
 * ALLOC after the slot's last FREE, LOAD after ALLOC, COMPUTE after every LOAD, STORE after COMPUTE, FREE after the last instruction that uses the
 * tile. */
typedef enum InstructionKind { INSTRUCTION_ALLOC, INSTRUCTION_LOAD, INSTRUCTION_COMPUTE, INSTRUCTION_STORE, INSTRUCTION_FREE } InstructionKind;

typedef struct Instruction {
    InstructionKind kind;
    int tensor; /* COMPUTE: -1 */
    int64_t slot, tile;
} Instruction;

/* Writes at most 4 * tensors + 1 of them (ALLOC, LOAD, STORE, FREE a tensor) and returns how many. Kept tiles are freed when their slot is taken. */
int unit_instructions(const Plan *plan, const UnitCode *code, Instruction *instructions);
const char *instruction_name(InstructionKind kind); /* "LOAD" */

#endif
