/* The course of a job: its rounds, one after another, each a run of one of its steps. What steps leave to later ones stays in the memory of pods, a
 * tile with the pod that computed it; files are read where no step has written yet, and written by the last that does. Pure, but for `kept_open`. */
#ifndef PHOBOS_COURSE_H
#define PHOBOS_COURSE_H

#include "runtime/sched/sched.h"

typedef struct StepPlan {
    Problem *problem;
    Placement *placement; /* after course_place */
    Plan *plan;           /* after course_fit */
} StepPlan;

typedef struct Course {
    Job *job; /* borrowed */
    int step_count;
    int64_t rounds;
    int64_t units; /* of all rounds */
    StepPlan *steps;
    bool *kept;         /* of the job's tensors: it lives in pods for some rounds */
    int64_t kept_bytes; /* of these, the most that one node has; after course_place */
    int64_t memory;     /* of a node, that it was made for; after course_fit */
} Course;

/* Binds every step. NULL with the reason, which names the step where there are several. */
Course *course_bind(Job *job, LeafChoice leaf, Error *error);
void course_place(Course *course, PlacementPolicy policy, int64_t nodes);
void course_deal(Course *course, int64_t nodes); /* anew, among no more nodes than it was placed for */
/* Plans for `memory` bytes of a node: what it keeps between rounds, and the tiles at work of each step. */
bool course_fit(Course *course, int64_t memory, Error *error);
int64_t course_least(const Course *course); /* the least memory that there is a plan for; after course_place */
void course_free(Course *course);

int course_step(const Course *course, int64_t round);
const StepPlan *course_plan(const Course *course, int64_t round);
int64_t course_bytes(const Course *course); /* of tiles that a node may hold; after course_fit */

/* Where a round has a tensor of its kernel from, and what becomes of what it writes. */
typedef struct RoundUse {
    bool from_pods, to_pods, to_file;
} RoundUse;

RoundUse round_use(const Course *course, int64_t round, int tensor);

/* Where the tiles of a tensor come from and go to. */
typedef struct TileFiles {
    const TensorFile *source;
    const TensorFile *targets[2]; /* NULL: none */
} TileFiles;

/* Of a round, as its kernel's tensors; `kept` as the job's. */
void round_files(const Course *course, int64_t round, const TensorFile *kept, TileFiles *files);

/* ---- the tensors that live in the pods of this process ---- */

/* All of it lies in one piece, each tensor as a whole from a page on. */
typedef struct Kept {
    TensorFile *tensors; /* as the job's: in memory, or not at all; NULL: not open */
    void *memory;
    int64_t bytes;
    int fd; /* a file without a name that the memory is, where it can be shared and the system has such files; else -1 */
    int unshared; /* why it cannot be, though it should, as an errno; 0: it can */
} Kept;

bool kept_open(Kept *kept, const Course *course, bool shared, Error *error);
/* What another pod of this host keeps, for reading; `fd` is what it shares, and the caller's. False: it is no such thing. */
bool kept_map(Kept *kept, const Course *course, int fd);
void kept_close(Kept *kept); /* zeroed is nothing */

#endif
