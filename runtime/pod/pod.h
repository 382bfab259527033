/* A pod: one node's share of a job. The engine decides, purely; arena, store and device carry out; pod.c is the shell that joins them. */
#ifndef PHOBOS_POD_H
#define PHOBOS_POD_H

#include "runtime/device/device.h"
#include "runtime/pod/moved.h"
#include "runtime/pod/shelf.h"
#include "runtime/pod/transfer.h"
#include "runtime/sched/course.h"
#include "runtime/trace.h"

/* ---- engine.c: (event) -> actions. No I/O, clock, thread or global; all memory is taken in engine_new. ----
 *
 * Units are admitted in the order given, step by step, a window of steps at a time. Instructions of a step are issued as soon as what they wait for
 * has ended, so that one step's loads, another's compute and a third's stores overlap. After a failure or a stop nothing more is issued, and the last
 * action comes when what was in flight has ended. */

enum { ENGINE_MAX_RANGES = 64 };

typedef enum EngineEventKind {
    ENGINE_GIVE,   /* `range`, of at least one unit, is this pod's; only while engine_has_room */
    ENGINE_CLOSE,  /* no more will be given */
    ENGINE_DRAIN,  /* ranges end with the units that have begun; no more will be given */
    ENGINE_ENDED,  /* `instruction` has ended well */
    ENGINE_BROKEN, /* `instruction` has ended badly */
    ENGINE_STOP,   /* end without doing the rest */
} EngineEventKind;

typedef struct EngineEvent {
    EngineEventKind kind;
    UnitRange range;
    uint32_t instruction;
    uint64_t checksum; /* ENDED, of a STORE */
} EngineEvent;

typedef enum EngineActionKind {
    ENGINE_LOAD,       /* the tile of `operand` from its file into its slot */
    ENGINE_COMPUTE,    /* the leaf of `code` */
    ENGINE_STORE,      /* the tile of `operand` from its slot into its file */
    ENGINE_RANGE_DONE, /* every unit of the range `tag` is stored: `units` of them */
    ENGINE_FINISHED,   /* last: all units of all ranges are stored */
    ENGINE_FAILED,     /* last: an instruction was broken */
    ENGINE_STOPPED,    /* last: as the event asked */
} EngineActionKind;

typedef struct EngineAction {
    EngineActionKind kind;
    uint32_t instruction; /* LOAD, COMPUTE, STORE: to be told back when it ends; < engine_instructions() */
    int entry;            /* of the window: what runs for one step shares it */
    int operand;
    const StepCode *code; /* valid until the step's last instruction has ended */
    bool dry;             /* STORE: as its range */
    uint64_t tag;
    int64_t units;
    uint64_t checksum; /* RANGE_DONE: the sum of its STOREs' */
} EngineAction;

typedef struct Engine Engine;

Engine *engine_new(const Plan *plan);
void engine_free(Engine *engine);
bool engine_idle(const Engine *engine);
void engine_reset(Engine *engine); /* all that was given is done: what slots hold is worth nothing any more */
/* *actions is the engine's own and valid until the next step; returns how many there are. */
int engine_step(Engine *engine, const EngineEvent *event, const EngineAction **actions);
bool engine_has_room(const Engine *engine);
uint32_t engine_instructions(const Plan *plan); /* numbers of instructions are below this */
int64_t engine_units_done(const Engine *engine);
int64_t engine_bytes(const Engine *engine); /* of slots that hold a tile now; never more than the plan's */

/* ---- arena.c: the plan's slots in one region of memory ---- */

typedef struct Arena {
    uint8_t *base;
    int64_t *offsets; /* of each operand's first slot */
    const Plan *plan;
} Arena;

int64_t arena_bytes(const Plan *plan);
void arena_init(Arena *arena, const Plan *plan, void *base); /* base: arena_bytes() long, aligned to PHB_BASE_ALIGN; borrowed */
void arena_fini(Arena *arena);
void *arena_slot(const Arena *arena, int operand, int64_t slot);

/* ---- store.c: threads that move regions between tensor files and memory ---- */

typedef void StoreDone(void *context, uint32_t instruction, const Error *error); /* as DeviceDone */

typedef struct StoreTask {
    uint32_t instruction;
    bool write;
    bool dry; /* of a write: nothing is written, its checksum is wanted */
    const TensorFile *file;
    int rank, element; /* of the tensor */
    Region region;     /* of a read it may reach beyond the tensor, where it reads 0 */
    void *rows;        /* laid out as the leaf ABI says: PhbTensorArg */
    uint64_t *begun_ns; /* when a thread began with it; NULL: nobody asks */
    const void *copy;  /* of a read: it comes from here, laid out alike; NULL: from the file */
    int64_t pitch;
    int tensor;         /* the file's number in the job */
    uint64_t *checksum; /* of a write: set to what region_checksum gives for it before it is done; NULL: nobody asks */
} StoreTask;

typedef struct Store Store;

/* Between files and the memory of `device`. At most `capacity` tasks are in flight. */
Store *store_open(int threads, int capacity, Device *device, StoreDone *done, void *context, Error *error);
/* Writes begin, piece by piece, only before `end_ms` by clock_boot_ms; the others wait until there is more time. At first there is no end. */
void store_lease(Store *store, uint64_t end_ms);
void store_revoke(Store *store); /* there never will be: writes fail */
/* Writes go before reads: they free memory. Large regions are moved by several threads at once. */
void store_submit(Store *store, const StoreTask *task);
void store_close(Store *store); /* nothing may be in flight */

/* ---- pod.c: the shell. All calls on one thread, the pod's own. ---- */

typedef void PodRangeDone(void *context, uint64_t tag, int64_t units, uint64_t checksum); /* every unit of a range is stored */

/* Offered each load of a tile that is at home elsewhere; `tag` is the instruction, or says where on the shelf it is to be passed on from. True: taken
 * over, until pod_fetched, or pod_load where it is to come from its file after all. */
typedef bool PodFetch(void *context, const FetchRequest *request);
/* Asks peers for what of a tile, which has been read from here otherwise, lives with them: each piece is to be answered by pod_fetched. Returns how many
 * there are, and their bytes. */
typedef int PodGather(void *context, int operand, const Region *region, void *rows, int64_t pitch, uint32_t instruction, uint64_t *bytes);
/* A tile that pod_want said is coming has come: `tile`, or NULL where it could not be loaded. */
typedef void PodShelved(void *context, int64_t place, const TileView *tile);

typedef struct PodOptions {
    int number;  /* for messages */
    int threads; /* compute threads, and as many that move tiles; at least 1 */
    const DeviceType *device;
    int device_number;        /* GPUs: which of them */
    const char *cpu_level;    /* NULL: the best */
    SimtOptions simt;         /* for the simulator */
    PodRangeDone *range_done; /* called in pod_turn; or NULL */
    PodFetch *fetch;          /* NULL: every tile comes from its file */
    PodShelved *shelved;
    PodGather *gather;  /* of tensors that live in pods; NULL: all of them live here */
    const int *tensors; /* as what of the job's tensors the kernel's are traced; NULL: as themselves; borrowed */
    TraceLog *trace;          /* what it does, or NULL */
    bool checksums;           /* of ranges are wanted; else they are 0 */
    bool leased;              /* nothing is written before pod_lease says how long it may */
    void *context;
} PodOptions;

typedef enum PodStatus { POD_RUNNING, POD_DONE, POD_BROKEN, POD_STOPPED } PodStatus;

typedef struct Pod Pod;

Pod *pod_open(const Plan *plan, const PodOptions *options, Error *error);
/* Stops it and waits, until `until_ms` by clock_ms, for what is in flight. False: some of that still is. */
bool pod_end(Pod *pod, uint64_t until_ms);
void pod_close(Pod *pod); /* waits for what is in flight */

/* Another round: all units of the last one are stored. `files`, as the kernel's tensors, is copied; before the first call they are the job's own. */
void pod_reset(Pod *pod, const TileFiles *files);

bool pod_idle(const Pod *pod); /* it has done all that it was given */

bool pod_has_room(const Pod *pod);
/* Whether a range that came over the wire may be given. */
bool pod_can_take(const Pod *pod, const UnitRange *range, Error *error);
void pod_give(Pod *pod, UnitRange range); /* of at least one unit */
void pod_no_more(Pod *pod);
void pod_drain(Pod *pod); /* ends what has begun; ranges are done with fewer units */
void pod_stop(Pod *pod);
void pod_lease(Pod *pod, uint64_t end_ms); /* as store_lease */
void pod_revoke(Pod *pod);                 /* before it is closed where a write may wait for a lease */

/* Tiles of the operands that the plan says are fetched come from their homes from now on; this pod is node number `node` of the placement, or one
 * that came late. Before the first unit; placement and plan are borrowed. */
bool pod_share(Pod *pod, const Placement *placement, int64_t node, Error *error);
void pod_fetched(Pod *pod, uint32_t instruction);
void pod_load(Pod *pod, uint32_t instruction);
/* A tile that is at home here or passed on, for a peer; it begins to be brought where nobody wanted it before. */
ShelfState pod_want(Pod *pod, int tensor, const int64_t at[COORDINATES], int64_t *place, TileView *tile);

int pod_fd(const Pod *pod); /* readable when pod_turn has something to do */
/* Takes up what has ended and carries out what follows. */
PodStatus pod_turn(Pod *pod);
int64_t pod_units_done(const Pod *pod);
PodMoved pod_moved(const Pod *pod);
const Error *pod_error(const Pod *pod);   /* after POD_BROKEN */
const char *pod_describe(const Pod *pod); /* its device */

#endif
