/* The planner: what a job's units of work are, what memory they take, and the instructions that they unroll into. Pure functions of (program, job,
 * memory); the pod that runs a plan and `--plan` that prints it call the same ones. */
#ifndef PHOBOS_SCHED_H
#define PHOBOS_SCHED_H

#include "runtime/runtime.h"

static inline int64_t min64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t max64(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* Of values that are not negative. */
static inline int64_t ceil_div(int64_t value, int64_t divisor) {
    return value / divisor + (value % divisor != 0);
}

static inline int64_t round_up(int64_t value, int64_t unit) {
    return ceil_div(value, unit) * unit;
}

/* ---- bind.c: a job bound to its kernel: the grid of super-tiles, the stages and chunks of a unit, the tiles of each operand ---- */

#define PLAN_MAX_AXIS INT64_C(2147483647)   /* super-tiles, chunks and CTAs along one axis */
#define PLAN_MAX_UNITS INT64_C(68719476736) /* super-tiles of a job */
#define PLAN_MAX_STEPS (INT64_C(1) << 48)   /* leaf launches of a job */

/* A step is one leaf launch of a unit: a stage, and of its cluster loop a chunk. Its coordinates are x, y, z of the unit, and the chunk. Where the loop's
 * range is divided, steps between the chunks begin a partial sum, and add one to the sum below it. */
enum { CHUNK = 3, COORDINATES = 4 };

typedef enum StepKind { STEP_STAGE, STEP_CLEAR, STEP_MERGE } StepKind;

typedef struct Step {
    int64_t unit, number; /* number: 0 .. Problem.steps - 1 */
    int stage;            /* CLEAR, MERGE: of the loop */
    StepKind kind;
    int level; /* which of a divided loop's sums it works on: 0 the whole's own, in the end; above that partial ones. MERGE: which goes into the one below */
    int64_t at[COORDINATES];
} Step;

/* What stages work on: a tensor cut into tiles, or a state, of which each unit has a tile of its own. */
typedef struct Operand {
    const PhbTensor *tensor; /* NULL: a state */
    const char *name;
    int rank, element;           /* bytes */
    bool load, store;            /* tiles come from the file, go to the file */
    int64_t whole[PHB_MAX_RANK]; /* extents */
    int64_t span[PHB_MAX_RANK];  /* what its tiles make up without halos: D of the grid axis or loop that cuts it, else the extent */
    int64_t halo[PHB_MAX_RANK];  /* width on both sides of a tile */
    int axis[PHB_MAX_RANK];      /* the coordinate that cuts it, or -1 */
    int64_t size[PHB_MAX_RANK];  /* of a tile without its halo; the last along an axis may be smaller */
    int64_t stride[COORDINATES]; /* of a tile's number by coordinate, row-major; 0 where it does not cut the operand */
    int64_t count;               /* tiles */
    int64_t bytes;               /* of the largest tile with halo and padding, a multiple of PHB_BASE_ALIGN */
    int loop;                    /* the cluster loop that walks it, or -1 */
    int first, last, store_last; /* stages: the first and the last that use it, the last that writes it; -1: none */
    int sweeps;                  /* how many stages use it */
    int level, whole_of;         /* of partial sums: the level, from 1 on, and the operand that is summed up; level 0: it is no partial sum */
    bool held;                   /* a tile stays from its first use in a unit to its last; else it comes and goes with the chunk */
} Operand;

/* The leaf launch of every step that is last along the same grid axes, and of the same cluster loop, in chunks of one extent. */
typedef struct LeafShape {
    int64_t *dims; /* as PhbKernel.dims */
    int64_t grid[3];
    int64_t (*states)[PHB_MAX_RANK]; /* as PhbKernel.states: extents */
} LeafShape;

/* Chunks of a loop differ in extent by these; the parts of a range come in two lengths, the longer ones first. */
typedef enum ChunkShape { CHUNK_FULL, CHUNK_LONG_REST, CHUNK_SHORT_REST, CHUNK_LAST, CHUNK_SHAPES } ChunkShape;

#define PLAN_SHAPES (8 * (1 + CHUNK_SHAPES * PHB_MAX_LOOPS)) /* bit a: last along grid axis a; then 0: no loop, 1 + CHUNK_SHAPES * loop + ChunkShape */

/* How a divided range is cut: into parts of so many elements, multiples of the leaf's step but for the end, each of which begins a super-tile anew. */
typedef struct Division {
    int64_t parts;                     /* 1: the range is whole */
    int64_t long_parts;                /* which come first */
    int64_t long_extent, short_extent; /* elements */
    int64_t long_chunks, short_chunks; /* of each part */
} Division;

typedef struct Problem {
    const Job *job; /* borrowed, as is its kernel */
    const PhbKernel *kernel;
    const PhbVariant *variant;
    int64_t extent[3];                                                                    /* D of each grid axis; 1 where it is not split */
    int64_t super[3];                                                                     /* S */
    int64_t supers[3];                                                                    /* ceil(D / S) */
    int64_t units;                                                                        /* super-tiles in all, numbered row-major: x fastest */
    int64_t loop_extent[PHB_MAX_LOOPS], loop_super[PHB_MAX_LOOPS], chunks[PHB_MAX_LOOPS]; /* D, S, ceil(D / S) of the cluster loops */
    Division divisions[PHB_MAX_LOOPS];                                                    /* of the loops */
    int64_t steps;                                                                        /* of a unit */
    Operand *operands; /* as PhbKernel.tensors, then PhbKernel.states, which are a launch's arguments; then partial sums of level 2 and more */
    int operand_count, argument_count;
    LeafShape shapes[PLAN_SHAPES];
} Problem;

/* Checks everything that could make a leaf fail in mid-job. NULL with the reason where the job does not fit the kernel. */
Problem *problem_bind(const Job *job, LeafChoice leaf, Error *error);
void problem_free(Problem *problem);
bool operand_number_tiles(const Problem *problem, Operand *operand, Error *error); /* once it is known how it is cut */

/* ---- leaf.c: the part of it that chooses among the embedded variants ---- */

bool variant_has_code(const PhbVariant *variant, DeviceClass device);

/* Whole-problem values of dims: search dims that only the leaf knows stand at the variant's that will most likely be taken. */
void leaf_whole_dims(const Job *job, int64_t *dims);
/* Sets the variant and the shapes of its launches, and sizes the states. */
bool leaf_choose(Problem *problem, LeafChoice choice, const int64_t *whole, Error *error);
/* The shapes of the chosen variant's launches anew, after the ranges of loops were divided. */
bool leaf_reshape(Problem *problem, const int64_t *whole, Error *error);

/* ---- divide.c: --split-k ---- */

/* Divides the ranges of the problem's cluster loops, once its leaf is chosen. False with the reason where what they carry are no sums from 0 on. */
bool problem_divide(Problem *problem, const int64_t *whole, Error *error);

/* ---- partial.c: the steps of a divided range, and which sums they work on ---- */

bool stage_is_divided(const Problem *problem, int stage);
int64_t stage_steps(const Problem *problem, int stage);
/* Step number `number` of a divided loop's stage: sets kind, level and chunk. */
void divided_step(const Problem *problem, int64_t number, Step *step);
/* The state that holds partial sums of the argument in a stage that may be divided; -1: it is no sum of that. */
int partial_state(const Problem *problem, int stage, int argument);
int partial_operand(const Problem *problem, int state, int level); /* of that state */
/* The operand that stands for an argument of the step's launch, and the argument that an operand is; -1: none. */
int step_operand(const Problem *problem, const Step *step, int argument);
int step_argument(const Problem *problem, const Step *step, int operand);

/* ---- step.c: units, steps, and what they use of an operand ---- */

void unit_coordinates(const Problem *problem, int64_t unit, int64_t at[COORDINATES]); /* of its chunk 0 */
Step step_find(const Problem *problem, int64_t unit, int64_t number);
int64_t stage_chunks(const Problem *problem, int stage);
int step_code(const Problem *problem, const Step *step); /* which of PhbKernel.stages runs */

/* A chunk of a loop; what the loop walks may end before its end does. */
typedef struct ChunkRange {
    int64_t origin, extent;
    ChunkShape shape;
} ChunkRange;

ChunkRange chunk_at(const Problem *problem, int loop, int64_t chunk);

/* What of a cut lies within an axis of that extent. */
static inline int64_t cut_extent(ChunkRange cut, int64_t axis) {
    return min64(axis - cut.origin, cut.extent);
}

const LeafShape *step_shape(const Problem *problem, const Step *step);

/* How a step uses an operand: the first and last use of that tile in its unit, and whether the tile is complete then. */
typedef struct StepUse {
    bool used, first, last, load, store;
} StepUse;

StepUse step_use(const Problem *problem, const Step *step, int operand);

int64_t tile_number(const Problem *problem, int operand, const int64_t at[COORDINATES]);
void tile_coordinates(const Problem *problem, int operand, int64_t tile, int64_t at[COORDINATES]); /* 0 where they do not cut it */
/* With its halo, so that it may reach beyond the tensor; of a state, its extents. */
void tile_region(const Problem *problem, const Step *step, int operand, Region *region);
/* Cuts off what lies beyond the tensor. */
void region_clip(const Operand *operand, Region *region);

/* Of a resident tile, with padding; false: more than 2^63. */
bool tile_bytes(int rank, int element, const int64_t extent[PHB_MAX_RANK], int64_t *bytes);
/* Bytes between rows of a resident region: rows are padded to PHB_ROW_ALIGN. Every extent was checked by problem_bind. */
int64_t region_pitch(const Operand *operand, const Region *region);
int64_t region_bytes(const Operand *operand, const Region *region); /* of its elements, without padding */
int64_t region_runs(const Operand *operand, const Region *region);  /* in how many pieces it lies in its file */

/* ---- plan.c: how a pod's memory is cut into slots for tiles ---- */

#define PLAN_MAX_SLOTS (INT64_C(1) << 20) /* for kept tiles of one operand: what the tables of unroll.c may take */

typedef struct Readers Readers; /* of an operand's tiles: the nodes that use each */

/* Slots are fixed when the plan is: a tile of operand t can take any of slots[t], each Operand.bytes long, and no other memory. So a plan that
 * fits never runs out, and nothing fragments. */
typedef struct Plan {
    const Problem *problem; /* borrowed */
    int64_t memory;         /* that it was made for */
    int window;             /* steps in flight */
    int64_t *slots;         /* of each operand */
    bool *kept;             /* the operand's tiles may serve later steps: a tile stays until its slot is wanted */
    int64_t bytes;          /* of all slots */
    bool *fetched;          /* the operand's tiles come from their homes (share.c); else every node loads what it uses */
    Readers **trees;        /* fetched: who passes its tiles on to whom (relay.c); NULL: each has them from their homes */
    int64_t *shelf;         /* fetched: tiles that are on one node's shelf, at most: at home there, or to be passed on */
    int64_t shelf_bytes;    /* of all of them, beside the slots */
} Plan;

/* The most that `memory` bytes allow, up to what keeps loads, compute and stores overlapping and shared tiles resident. NULL, with need against have
 * for each operand, where not even one unit fits. */
Plan *plan_make(const Problem *problem, int64_t memory, Error *error);
void plan_free(Plan *plan);
int64_t plan_least(const Problem *problem); /* the least memory that there is a plan for */

/* ---- place.c: which node gets which units ---- */

/* Units are dealt to pods as ranges: first, first + step, ... (count of them). `tag` is the caller's name for the range. */
typedef struct UnitRange {
    int64_t first, count, step;
    uint64_t tag;
    bool dry; /* what they compute is not written, and its checksum alone wanted */
} UnitRange;

typedef struct Box {
    int64_t low[3], size[3]; /* super-tiles */
} Box;

typedef struct Placement Placement;

/* What units are near to: the tiles that another problem's units write where these read. */
typedef struct Near {
    const Placement *writer;
    const Operand *written, *read; /* the same tensor, of the writer's problem and of this one */
} Near;

struct Placement {
    const Problem *problem; /* borrowed */
    PlacementPolicy policy;
    int64_t nodes;
    Box *boxes;    /* BLOCK: of each node; it may be empty */
    uint8_t *axes; /* BLOCK: along which axis boxes were cut, by depth and first node */
    Near near;     /* NEAR */
    uint16_t *owners;      /* NEAR: of each unit, */
    int64_t *list, *first; /* units node by node, and where each node's begin */
};

#define PLACE_NEAR_UNITS (INT64_C(1) << 24) /* that tables are made for; more go by boxes */

Placement *placement_new(const Problem *problem, PlacementPolicy policy, int64_t nodes);
/* Near what `near` says, which is borrowed and dealt before this one; where that is too much to note down, by boxes. */
Placement *placement_new_near(const Problem *problem, const Near *near, int64_t nodes);
void placement_deal(Placement *placement, int64_t nodes); /* anew, among no more nodes than it was made for; takes no memory */
void placement_free(Placement *placement);
int64_t placement_count(const Placement *placement, int64_t node); /* its units */
/* Of a node's units those from number `offset` on, as many up to `most` as one range can say; at least one. */
UnitRange placement_run(const Placement *placement, int64_t node, int64_t offset, int64_t most);
int64_t placement_node(const Placement *placement, const int64_t at[COORDINATES]); /* who has the unit there */

/* ---- unroll.c: units into steps and instructions, one step at a time ---- */

/* A step's use of one slot. Uses of a slot are numbered in step order: a fresh use waits until all earlier uses have been given back, any other until
 * the tile that use number `made` brought is there. */
typedef struct TileUse {
    StepUse how;
    int64_t slot; /* of the operand's slots */
    int64_t tile;
    int64_t number;
    int64_t made;    /* the use that brings the tile: == number where fresh */
    int64_t evicted; /* fresh: the kept tile that loses its slot, or -1 */
} TileUse;

typedef struct StepCode {
    Step step;
    TileUse *uses; /* as Problem.operands; owned by the caller */
} StepCode;

typedef struct Unroll Unroll;

Unroll *unroll_new(const Plan *plan); /* takes all its memory here */
void unroll_free(Unroll *unroll);
void unroll_reset(Unroll *unroll); /* as new; takes as long as what was unrolled has touched */
/* The next step of this pod. Units may come in any order, each with all its steps in theirs; the code depends on what came before. */
void unroll_step(Unroll *unroll, int64_t unit, int64_t number, StepCode *code);

/* The same as single instructions, in an order in which they could run one by one:
 * ALLOC after the slot's last FREE, LOAD after ALLOC, COMPUTE after every LOAD, STORE after COMPUTE, FREE after the last instruction that uses the
 * tile. */
typedef enum InstructionKind {
    INSTRUCTION_ALLOC,
    INSTRUCTION_LOAD,
    INSTRUCTION_FETCH, /* a LOAD of what another node has, */
    INSTRUCTION_COPY,  /* or of what this one has on its shelf: sources_find */
    INSTRUCTION_COMPUTE,
    INSTRUCTION_STORE,
    INSTRUCTION_FREE,
    INSTRUCTION_KINDS
} InstructionKind;

typedef struct Instruction {
    InstructionKind kind;
    int operand; /* COMPUTE: -1 */
    int64_t slot, tile;
} Instruction;

/* Writes at most 5 * operands + 1 of them and returns how many. Kept tiles are freed when their slot is taken. */
int step_instructions(const Plan *plan, const StepCode *code, Instruction *instructions);
const char *instruction_name(InstructionKind kind); /* "LOAD" */

/* ---- cost.c: what a plan costs ---- */

#define PLAN_RATES 16 /* stages that are told apart: what comes later counts as the last of them */

typedef enum FigureSource { FIGURE_ASSUMED, FIGURE_GIVEN, FIGURE_MEASURED } FigureSource;

/* The machine as the planner sees it: what one node has. */
typedef struct Model {
    FigureSource read_from, write_from, link_from, leaf_from, launch_from; /* where the figures are from */
    int64_t memory;           /* bytes of tiles */
    double read_bw, write_bw; /* bytes a second from files, and to them; where they are cached, of one thread */
    double call;              /* seconds that a run of bytes in a file costs besides its length */
    double fresh_bw;          /* bytes a second at which fresh memory is taken; 0: at once */
    bool cached;              /* files are in memory, and moved by the processors that run leaves: the two share their time */
    int threads;              /* cached: so many */
    double link_bw;           /* from peers; 0: there is nothing to fetch from them */
    double leaf_flops;        /* operations a second, as step_work counts them */
    double stage_flops[PLAN_RATES]; /* the same of each stage, where it was measured; 0: leaf_flops */
    double open;                    /* seconds that a node takes to begin and to end */
    double launch;            /* seconds that a leaf launch takes besides its work */
} Model;

/* Operations of a step, as far as the extents of its tensors tell. */
double step_work(const Problem *problem, const Step *step);
int stage_rate(int stage); /* its index in Model.stage_flops */

typedef struct NodeSums {
    int64_t units, launches;
    int64_t instructions[INSTRUCTION_KINDS];
    int64_t loaded, fetched, stored; /* bytes of elements */
    int64_t loaded_runs, stored_runs; /* of bytes that follow one another in a file */
    int64_t bytes, peak;             /* of slots at the end, and at most, where instructions run one by one */
    double work[PLAN_RATES];         /* of each stage */
    bool estimated; /* from a part of the units */
} NodeSums;

typedef struct Summing Summing; /* of one plan; holds the memory that summing takes */

Summing *summing_new(const Plan *plan);
void summing_free(Summing *summing);
/* Over the units of a node; where they have more than `most_steps` steps, so many are looked at and the rest taken to be like them. */
NodeSums node_sum(Summing *summing, const Placement *placement, int64_t node, int64_t most_steps);

typedef struct NodeTimes {
    double read, write, link, compute, launch, start; /* seconds; of one thread where files are cached */
    int64_t steps;                                    /* that these are spread over */
    double storage;                                   /* reading and writing, if there were nothing else */
    double total;                                     /* as all of them overlap */
} NodeTimes;

NodeTimes node_times(const Model *model, const NodeSums *sums);
void times_overlap(const Model *model, NodeTimes *times); /* storage and total from the rest */

/* ---- share.c: tiles that several nodes use ---- */

/* Says for each operand whether its tiles are loaded at one node and fetched by the others, or loaded by each that uses them: what the model says,
 * where there is room. A bit a tensor. */
uint64_t plan_share(Plan *plan, const Placement *placement, const Model *model);
/* The same as somebody else has decided it; false: for some of it this plan has no room, and that is not fetched. */
bool plan_fetch(Plan *plan, const Placement *placement, uint64_t tensors);
int64_t tile_home(const Plan *plan, const Placement *placement, int operand, const int64_t at[COORDINATES]); /* of an operand that is fetched */
/* The node that `node` has a tile from: itself where it loads it. */
int64_t tile_source(const Plan *plan, const Placement *placement, int64_t node, int operand, const int64_t at[COORDINATES]);

/* Whether it goes to the node's shelf, for others: at its home, and at who passes it on. */
bool tile_is_shelved(const Plan *plan, const Placement *placement, int64_t node, int operand, const int64_t at[COORDINATES]);

typedef struct Sources Sources; /* what of a plan a node has on its shelf */

Sources *sources_new(const Plan *plan);
void sources_free(Sources *sources);
void sources_reset(Sources *sources); /* another node, or from the start */
/* What a LOAD of a plan is at a node: LOAD, FETCH, or COPY of what the node has on its shelf by then. */
InstructionKind sources_find(Sources *sources, const Placement *placement, int64_t node, int operand, const int64_t at[COORDINATES], int64_t *from);

/* ---- relay.c: trees of nodes along which a tile travels ---- */

Readers *readers_new(const Problem *problem, const Placement *placement, int operand); /* NULL: nobody would pass a tile on, or there are too many uses to be listed */
void readers_free(Readers *readers);
/* The node that `node` has the tile from, its home where it is in no tree; *passes: others have it from `node`, which is not its home. */
int64_t readers_source(const Readers *readers, const int64_t at[COORDINATES], int64_t home, int64_t node, bool *passes);
/* Counts the tile, by node, at each that passes it on. */
void readers_count(const Readers *readers, const int64_t at[COORDINATES], int64_t home, int64_t *tiles);

/* ---- autotune.c: which @cluster values ---- */

/* What is assumed of a node where nothing was given or measured. */
Model model_assumed(const PlanOptions *options);
char *model_describe(const Model *model); /* its figures, each with where it is from; the caller's */
const char *figure_source_name(FigureSource source);
/* What the node with the most units does, as far as a number of its steps tells. Decides what is fetched. */
NodeSums plan_busiest(Plan *plan, const Placement *placement, const Model *model);

typedef enum CandidateVerdict { CANDIDATE_FINE, CANDIDATE_TOO_LARGE, CANDIDATE_IDLE, CANDIDATE_REFUSED } CandidateVerdict;

typedef struct Candidate {
    int number;      /* as declared */
    int64_t *values; /* as Job.dims */
    CandidateVerdict verdict;
    Error why;       /* unless it is fine */
    NodeTimes times; /* of the busiest node */
} Candidate;

typedef struct Candidates {
    Candidate *items; /* best first; those that cannot be behind */
    int count, fine, dims;
} Candidates;

/* Every combination of the values that the job leaves open. The job is left with the best; false where there is none. */
bool candidates_rank(Job *job, int64_t nodes, const PlanOptions *options, const Model *model, Candidates *candidates, Error *error);
/* Whether one can run; the job is left with it. */
bool candidates_any(Job *job, int64_t nodes, const PlanOptions *options, const Model *model);
void candidate_take(Job *job, const Candidate *candidate);
char *candidates_describe(const Job *job, const Candidates *candidates); /* one line; the caller's */
void candidates_free(Candidates *candidates);

#endif
