/* The simulator's memory: every access of a launch is checked against bounds, against what has been written, and against the accesses of other
 * threads. */
#ifndef PHOBOS_SIMT_H
#define PHOBOS_SIMT_H

#include "runtime/device/cta.h"

/* One access that others may race with. */
typedef struct Stamp {
    uint64_t site;
    uint32_t cluster;           /* its number among all that the memory has seen, from 1; 0: no access */
    uint32_t barriers, arrives; /* that its CTA had passed, that its thread had made */
    uint16_t thread;            /* of the cluster */
    bool atomic;
    bool pending;     /* its thread had arrived and not waited yet */
    bool running;     /* an access under way behind its thread's back: a write of a copy, or reads of a product, that have not been waited for */
    uint8_t access;   /* of which kind it is */
    uint8_t mbarrier; /* a write that a bulk copy made: 1 + the number of the mbarrier that tells of it, in phase `barriers`; else 0 */
    uint32_t releases; /* arrivals at mbarriers of all threads that its thread had made */
} Stamp;

enum { CELL_READS = 3 };

/* An element, or a byte where elements of different sizes overlap. */
typedef struct Cell {
    Stamp write;             /* the last */
    Stamp reads[CELL_READS]; /* since then: the last, the last of another thread of its CTA, the last of another CTA. Atomics count where others
                                follow them */
    uint64_t stale;          /* bits before a write that is not yet published to all */
} Cell;

/* Elements of one tensor of the launch. */
typedef struct SimtTensor {
    const char *name; /* or a state's */
    int dtype, rank;
    const PhbTensorArg *argument;
    int64_t size, rows, columns; /* bytes of an element; as a matrix of all its rows */
    bool written;                /* by this stage: where it is not, no cells are kept */
    Cell *cells;
    size_t cell_bytes;
} SimtTensor;

/* A copy to shared memory that its thread has not waited for. */
typedef struct SimtCopy {
    char *to;
    const char *from;
    int bytes, valid, tensor, group;
    uint64_t site;
    uint8_t data[16]; /* the source as it was */
} SimtCopy;

enum { MMA_REGISTERS = 6, MMA_MOST_ELEMENTS = 4, SIMT_MOST_MBARRIERS = 64, SIMT_OBSERVED = 8 };

/* What a thread has beyond CtaThread. */
typedef struct SimtLane {
    float factors[2][MMA_REGISTERS * MMA_MOST_ELEMENTS]; /* of its latest matrix instructions, in turn, for the other lanes to read */
    int turn;
    int groups; /* of copies, committed so far: the number of the one that is open */
    SimtCopy *copies;
    int copy_count, copy_capacity;
    uint32_t seen[SIMT_MOST_MBARRIERS]; /* phases of each that it has seen end */
    uint32_t waits_for;                 /* in THREAD_IN_MBARRIER: the mbarrier's number */
    bool fenced;                        /* for products: since its registers were last touched */
    uint32_t written;                   /* what it wrote before its CTA had passed so many barriers is there for what goes on behind threads' backs */
    uint32_t stores;                    /* bulk stores that it has begun */
    uint32_t product_groups, products_done;
    uint32_t releases; /* arrivals at mbarriers of all threads that it has made, */
    uint32_t released; /* and that it has seen all threads make */
} SimtLane;

/* An mbarrier of one arrival a phase, or of one of each thread. Who has seen a phase end, and passed a barrier since, has its threads see it, too. */
typedef struct SimtMbarrier {
    char *address;
    Cta *cta;
    uint32_t phase; /* how many have ended */
    int wanted, arrived;
    uint32_t releases; /* of all threads: which of each thread's arrivals those of this phase are, counted from 1 */
    int64_t missing; /* bytes that are expected and not there; below 0: there and not expected yet */
    struct {
        uint32_t phase, barriers; /* ended by then, as some thread saw after so many barriers of its CTA */
    } observed[SIMT_OBSERVED];
    uint32_t observations;
} SimtMbarrier;

/* A bulk copy that has not landed: to shared memory, or from there. */
typedef struct SimtBulk {
    CtaThread *thread;
    const PhbTensorMap *map;
    int32_t coordinates[PHB_MAX_RANK]; /* the last axis first */
    char *shared;
    bool is_store, has_read; /* a store may have read its box before it lands */
    uint32_t number;         /* of a store, among its thread's */
    uint32_t mbarrier;       /* of any other */
    uint64_t site;
    uint8_t *data; /* the box as it was */
} SimtBulk;

/* Matrix instructions of four warps that are under way, and accumulators. */
typedef struct SimtGroup SimtGroup;

typedef struct SimtMemory {
    bool weak; /* races do not trap: a read that is not ordered after a write gets what was there before */
    const PhbKernel *kernel;
    SimtTensor *tensors;           /* as kernel->tensors, then kernel->states; behind them the planes of each */
    int tensor_count;              /* without planes */
    PhbTensorArg *planes;          /* by tensor: where they lie, if the stage has maps of them */
    char *shared;                  /* of the cluster's CTAs */
    int64_t all_bytes;             /* of it */
    const PhbThreadStage *threads; /* of this stage */
    int64_t shared_step;           /* from a CTA's to the next one's */
    Cell *shared_cells;
    uint8_t *granules; /* size of the elements in each 8 bytes: 0 none, 255 mixed */
    uint32_t cluster;  /* the number of the one that runs */
    uint32_t launch;   /* of the first cluster of this launch */
    SimtLane *lanes;   /* as CtaRunner.thread */
    int lane_count;
    SimtMbarrier mbarriers[SIMT_MOST_MBARRIERS];
    uint32_t mbarrier_count;
    SimtBulk *bulks; /* in the order of their issue */
    int bulk_count, bulk_capacity;
    uint32_t landing;                  /* the mbarrier whose copy lands */
    uint32_t product_releases;         /* arrivals that the last thread had made which waited for the product that ends */
    uint32_t fenced[CLUSTER_MAX_CTAS]; /* what a CTA wrote before it had passed so many barriers is there for what goes on behind threads' backs */
    SimtGroup **groups;                /* of each 128 threads */
    int group_count;
} SimtMemory;

bool simt_memory_open(
    SimtMemory *memory, const PhbKernel *kernel, int64_t shared_bytes, int ctas, bool weak, Error *error); /* shared_bytes: the most of any stage */
void simt_memory_close(SimtMemory *memory);
bool simt_memory_begin_launch(SimtMemory *memory, const PhbStage *stage, const PhbThreadStage *threads, const PhbLaunch *launch, Error *error);
void simt_memory_begin_cluster(SimtMemory *memory);

/* ---- simt_race.c ---- */

typedef enum Access {
    ACCESS_READ,
    ACCESS_WRITE,
    ACCESS_ATOMIC,
    ACCESS_COPY, /* will be written by a copy that begins */
    ACCESS_LAND, /* is, as the copy ends */
    ACCESS_BULK_COPY,
    ACCESS_BULK_LAND,
    ACCESS_BULK_READ,      /* will be read by a store that begins */
    ACCESS_BULK_READ_DONE, /* was */
    ACCESS_PRODUCT,     /* will be read by a product that begins */
    ACCESS_PRODUCT_DONE /* was */
} Access;

/* What a kind of access is. */
typedef struct AccessInfo {
    const char *verb, *past;
    bool writes;
    bool running; /* begins what goes on behind the thread's back */
    bool ends;    /* ends it */
    bool bulk;    /* through the asynchronous proxy: what threads wrote has to be fenced */
} AccessInfo;
extern const AccessInfo access_info[];

/* Checks an access to an element of a tensor or to one of shared memory, and gives its value before. */
uint64_t simt_access(CtaThread *thread, char *address, int bytes, Access access, int tensor, uint64_t site);

/* Where an access lies, for messages. */
typedef struct Place {
    const SimtMemory *memory;
    const SimtTensor *tensor;    /* NULL: shared memory */
    int64_t element;             /* of the tensor, row-major */
    const PhbSharedArray *array; /* of shared memory; NULL: it has no name */
    int rank;                    /* of the CTA whose shared memory it is */
    int64_t offset;              /* bytes in it */
    int bytes;
} Place;

/* Notes the access in the cell; traps where it races with one that is there. True: a read in weak mode that is to give cell->stale. `bits`: what the
 * memory holds. */
bool cell_access(Cell *cell, CtaThread *thread, Access access, uint64_t site, const Place *place, uint64_t bits);
char *place_text(const Place *place);                /* "'c'[3, 5]", "'s'[3] of CTA 1", "shared memory of CTA 1 at byte 64" */
char *value_text(const Place *place, uint64_t bits); /* "1.5", "0x3fc00000" */

/* ---- simt_copy.c ---- */

bool simt_lanes_open(SimtMemory *memory, int count);
void simt_lanes_close(SimtMemory *memory);
void simt_lanes_begin(SimtMemory *memory); /* a cluster */
void simt_copies_end(CtaThread *thread);   /* traps where it has not waited for them */

/* ---- simt_bulk.c ---- */

void simt_bulks_begin(SimtMemory *memory);
void simt_bulks_close(SimtMemory *memory);
void simt_bulks_end(CtaThread *thread);                                    /* traps where its CTA ends with copies under way */
bool simt_bulks_advance(CtaRunner *runner);                                /* one copy lands; false: none is under way */
bool bulk_is_ordered(const Stamp *stamp, const CtaThread *thread);         /* a write by a bulk copy, before what the thread does now */
char *swizzle_address(const SimtMemory *memory, char *address, int width); /* chunks of 16 bytes, over 32, 64 or 128 bytes; as hardware has it */

/* ---- simt_matrix.c ---- */

float truncate_sum(double sum);

/* ---- simt_wgmma.c ---- */

bool simt_groups_open(SimtMemory *memory, int threads);
void simt_groups_begin(SimtMemory *memory);
void simt_groups_close(SimtMemory *memory);
void simt_products_end(CtaThread *thread);

/* ---- simt_memory.c ---- */

void simt_thread_ends(CtaThread *thread); /* traps where it leaves something under way */

#endif
