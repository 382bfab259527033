/* The simt backend: a leaf at the memory level becomes the code of one thread. It is written against a table of target hooks, so that what a GPU runs
 * and what the simulator checks is one thing. Inside of code generation only.
 *
 * A tile of a layout is an array of LLVM values, one for each register of the thread: element (row, column) of register r of a thread is the XOR of
 * the layout's bases for the set bits of r, of its lane and of its warp (compiler/ir/layout.h). Elements beyond the tile's extents are there, and
 * hold anything but what traps; loads and stores leave them out, reductions take them for the identity. */
#ifndef PHOBOS_CODEGEN_SIMT_H
#define PHOBOS_CODEGEN_SIMT_H

#include "compiler/codegen/emit.h"

typedef struct Simt Simt;
typedef struct Split Split;

typedef enum SimtSpace {
    SPACE_GLOBAL, /* a tensor */
    SPACE_SHARED, /* of this CTA */
    SPACE_REMOTE, /* the shared memory of CTA `rank` of the thread-block cluster */
} SimtSpace;

/* One access to memory by one thread. */
typedef struct SimtAccess {
    SimtSpace space;
    LLVMValueRef address;   /* GLOBAL: a pointer of the type that `tensor_base` gave; else an i32, bytes from the start of the CTA's shared memory */
    LLVMValueRef rank;      /* REMOTE: i32 */
    LLVMTypeRef type;       /* as it lies in memory: an integer or float, or a vector of 2, 4, .. up to 16 bytes */
    unsigned align;         /* bytes, that the address is known to be a multiple of */
    LLVMValueRef predicate; /* i1: whether it happens; NULL: always. Under a false one the address may be anything */
    LLVMValueRef when;      /* copy_async: i1, whether it happens at all; NULL: always. Where not, all else may be anything */
    LLVMValueRef valid;     /* copy_async: i32, so many bytes are copied, the rest is 0; NULL: all */
    int param;              /* GLOBAL: index of the tensor parameter */
    const IrOp *array;      /* else: the `shared` that is accessed, NULL: memory of the compiler's own */
    LLVMValueRef inside;    /* i1, else NULL: whether subscripts of a `shared` array are within its extents; where not, it is a fault */
    Span span;              /* where in the source, for what the simulator says */
} SimtAccess;

/* Ways of a shuffle; `SHUFFLE_UP` and `SHUFFLE_DOWN` leave a lane its own value where the other would lie outside of the warp. */
typedef enum SimtShuffle { SHUFFLE_INDEX, SHUFFLE_XOR, SHUFFLE_UP, SHUFFLE_DOWN } SimtShuffle;

/* Shapes and types of a warp's matrix instruction, m x n x k; operands as PTX has them. */
typedef enum SimtMma {
    MMA_F16,  /* m16n8k16, f32 accumulator */
    MMA_BF16, /* m16n8k16, f32 accumulator */
    MMA_TF32, /* m16n8k8, f32 accumulator; operands are f32, which the target rounds, ties away from zero */
    MMA_I8,   /* m16n8k32, i32 accumulator; signs in the call */
} SimtMma;

typedef LLVMValueRef SimtCombine(Simt *s, const IrOp *op, LLVMValueRef a, LLVMValueRef b);
/* A tensor map's copy of one box. */
typedef struct SimtBulkCopy {
    int map;                                /* its number among the kernel's maps */
    int rank;
    LLVMValueRef coordinates[PHB_MAX_RANK]; /* i32: of the box's first element, the tensor's last axis first. What is outside of the tensor gives 0 */
    LLVMValueRef shared, mbarrier;          /* i32: bytes from the start of the CTA's shared memory; told of all the box's bytes. NULL: a store */
    LLVMValueRef predicate;                 /* i1 */
    Span span;
} SimtBulkCopy;

/* d = a * b + d by one instruction of four warps: 64 rows, `columns`, 16 along k; f16 or bf16, f32 accumulator. */
typedef struct SimtWgmma {
    bool is_bf16;
    bool turned;          /* the second factor's rows run along k */
    int columns;
    bool fresh;           /* what the sums were counts as 0 */
    LLVMValueRef a, b;    /* i64: descriptors as PTX has them, but that addresses count from the start of the CTA's shared memory */
    LLVMValueRef first[4]; /* i32, packed: the first factor where it is in registers, as m16n8k16 has it, and `a` is NULL */
    LLVMValueRef *sums;   /* columns / 2 registers, in and out */
    Span span;
} SimtWgmma;

/* What a target provides. The builder stands where the code goes; a hook may add blocks and leaves it at the end of the last one. All threads of a
 * CTA reach `barrier`, and all lanes of a warp what is a matter of the warp, together, but for what the kernel's own thread code does wrong. A hook
 * that a target has no use for is NULL where that is said. */
typedef struct SimtTarget {
    const char *name;     /* for messages */
    bool has_mma;         /* tensor cores: mma, ldmatrix and copy_async are there */
    bool has_bulk;        /* bulk copies, mbarriers and wgmma are there */
    bool predicates;      /* an access under a predicate is one instruction, and the padding of a tensor's rows may be read */
    bool checks;          /* tells the source position of what it runs; nothing may be dropped because no result depends on it */
    int64_t shared_limit; /* bytes a CTA can have */
    int register_limit;   /* 32-bit registers a thread */

    /* Makes the function `name`, its entry block with the builder in it, and sets s->function, s->self, and *places. What ends it is `ret void`,
     * written by the caller. Attributes that limit threads and registers are the target's: s->kernel's signature and s->threads are set. */
    void (*begin)(Simt *s, const char *name, LaunchPlaces *places);
    void (*end)(Simt *s);                                       /* all ops are emitted, the end is to come. NULL: nothing is left to do */
    LLVMValueRef (*tensor_base)(Simt *s, LLVMValueRef pointer); /* of a tensor argument, as a pointer of the space that tensors lie in */

    /* Where am I. i32 but for `cta`. */
    LLVMValueRef (*thread)(Simt *s); /* 0 .. s->threads - 1 */
    LLVMValueRef (*lane)(Simt *s);   /* thread % 32, in a way that the target optimises best */
    LLVMValueRef (*cta)(Simt *s);    /* i64: its number in the one-dimensional launch of runtime/program.h, */
    LLVMValueRef (*ctas)(Simt *s);   /* and of how many */
    LLVMValueRef (*thread_here)(Simt *s); /* `thread`, so that what follows from it is computed here and not kept in registers. NULL: that is no matter */

    /* Memory. A load under a false predicate gives 0; values are as they lie in memory. */
    LLVMValueRef (*load)(Simt *s, const SimtAccess *access);
    void (*store)(Simt *s, const SimtAccess *access, LLVMValueRef value);
    /* OP_ATOMIC_ADD, _MAX, _MIN or _CAS on an element of `dtype`, relaxed; gives the old value as it lies in memory. `compare` is for CAS alone.
     * Tensors: the whole device sees it; shared memory: the CTA, and the cluster where `remote` values of it exist. 8- and 16-bit elements are the
     * target's matter. */
    LLVMValueRef (*atomic)(Simt *s, OpKind kind, PhbDType dtype, const SimtAccess *access, LLVMValueRef compare, LLVMValueRef value);

    /* The CTA. What any thread wrote to shared memory or tensors before `barrier`, every thread of the CTA sees after it. */
    void (*barrier)(Simt *s, Span span);

    /* The warp: all 32 lanes arrive. */
    LLVMValueRef (*shuffle)(
        Simt *s, SimtShuffle way, LLVMValueRef value, LLVMValueRef lane, Span span); /* i32 of i32; `lane` i32: index, mask or distance */
    LLVMValueRef (*ballot)(Simt *s, LLVMValueRef predicate, Span span);              /* i32: bit = lane */
    LLVMValueRef (*elect)(Simt *s, Span span);                                       /* i1, true in one lane */

    /* All lanes' i64 values, in order, behind a pointer: where it costs less than to shuffle, NULL elsewhere. */
    LLVMValueRef (*warp_values)(Simt *s, LLVMValueRef value, Span span);
    /* The warp's values combined by the tree of shuffles by xor of 16, 8, 4, 2, 1. NULL: it is made of shuffles or warp_values. */
    LLVMValueRef (*reduce_warp)(Simt *s, const IrOp *op, LLVMValueRef value, SimtCombine *combine);

    /* The thread-block cluster. Arrive and wait alternate in every thread of every CTA. */
    LLVMValueRef (*cluster_rank)(Simt *s);                    /* i32 */
    void (*cluster_arrive)(Simt *s, bool relaxed, Span span); /* not relaxed: releases what the thread wrote */
    void (*cluster_wait)(Simt *s, Span span);                 /* acquires */

    /* Copies from tensors to shared memory behind the thread's back: access->type is 4, 8 or 16 bytes, under a false predicate zeros are written.
     * Groups complete in order: `copy_wait` returns when all but the last `left` groups of this thread have; other threads see the bytes after a
     * barrier. */
    void (*copy_async)(Simt *s, LLVMValueRef shared, const SimtAccess *access);
    void (*copy_commit)(Simt *s);
    void (*copy_wait)(Simt *s, int left, Span span);

    /* Tensor cores. ldmatrix: `count` 1, 2 or 4 8x8 matrices of 16-bit elements, lane i gives the address of row i % 8 of matrix i / 8; i32 each. */
    void (*ldmatrix)(Simt *s, LLVMValueRef shared, int count, bool transposed, LLVMValueRef results[4], Span span);
    /* d = a * b + c. i32 (packed) operands: 4 of a and 2 of b; 4 of c and d, f32 or i32. */
    void (*mma)(Simt *s, SimtMma shape, bool a_signed, bool b_signed, const LLVMValueRef a[4], const LLVMValueRef b[2], const LLVMValueRef c[4],
        LLVMValueRef d[4], Span span);

    /* Bulk copies and their mbarriers, which are i64s in shared memory; all threads get there. `mbarriers` makes `count` of one arrival a phase each,
     * or of one of each warp, in phase 0, and passes a barrier; what threads wrote to shared memory before, copies may overwrite after it. `expect`
     * is the one arrival, by one thread, `arrive` that of each warp. */
    void (*mbarriers)(Simt *s, LLVMValueRef shared, int count, bool of_all, Span span);
    void (*mbarrier_arrive)(Simt *s, LLVMValueRef mbarrier, Span span);
    void (*mbarrier_expect)(Simt *s, LLVMValueRef mbarrier, int64_t bytes, LLVMValueRef predicate, Span span);
    void (*mbarrier_wait)(Simt *s, LLVMValueRef mbarrier, LLVMValueRef parity, Span span); /* i32: until the phase of that parity is over */
    void (*bulk_copy)(Simt *s, const SimtBulkCopy *copy);                                 /* by one thread */

    /* Four 8x8 matrices of 16-bit elements to shared memory: lane i gives the address of row i % 8 of matrix i / 8, and two elements, as an i32, of each
     * matrix: of row lane / 4. */
    void (*stmatrix)(Simt *s, LLVMValueRef shared, const LLVMValueRef words[4], Span span);
    /* Boxes from shared memory to tensors: behind `fence` what the thread wrote before is there for stores, which others may begin behind a barrier;
     * `bulk_store` is by one thread, which waits until all but the last `left` of its stores have read their boxes, or (-1) until all have written. */
    void (*bulk_fence)(Simt *s, Span span);
    void (*bulk_store)(Simt *s, const SimtBulkCopy *copy);
    void (*bulk_store_wait)(Simt *s, int left, Span span);

    /* Matrix instructions of four warps: `begin` before those of a group, which `commit` ends; `wait` returns when all but the last `left` groups of this
     * thread are done, and gives the registers as they are then. */
    void (*wgmma_begin)(Simt *s, Span span);
    void (*wgmma)(Simt *s, const SimtWgmma *product);
    void (*wgmma_commit)(Simt *s, Span span);
    void (*wgmma_wait)(Simt *s, int left, LLVMValueRef *registers, int count, Span span);
} SimtTarget;

/* Of the accesses that are tested before the ops (whole.c): each tests for itself, all lie inside of their tensors, or some may not. */
typedef enum SimtWay { WAY_EITHER, WAY_WHOLE, WAY_EDGE } SimtWay;

struct Simt {
    Emitter *e;
    const SimtTarget *target;
    const IrKernel *kernel; /* at the memory level */
    int threads;            /* of a CTA, */
    int warps;              /* in so many */
    LLVMValueRef function;
    LLVMValueRef self; /* the target's own: the simulator's thread; NULL on GPUs */
    void *data;        /* the target's own */
    LaunchRegs launch;
    LLVMValueRef thread, lane, warp; /* i32 */
    LLVMValueRef cluster[3];         /* i64: thread-block cluster in the grid; without @cluster_dims the CTA itself */
    LLVMValueRef **values;           /* by IrValue.id: registers of the thread; of a scalar, one */
    LLVMValueRef **pairs; /* by IrValue.id: registers 2 i and 2 i + 1 of 16 bits as an i32, where they are at hand so; NULL: they are not */
    struct SimtPlace *places;        /* element.c's */
    bool *early;                     /* whole.c's: by IrValue.id, scalars that are there before the ops; NULL: none */
    SimtWay way;
    Split *split;                    /* NULL: the function is of one thread; else of a CTA, by loops over threads (split.h) */
    int depth;                       /* regions around, that each thread runs by itself */
    int in_bounds;                   /* the depth at which all elements that scalar code accesses are known to exist; 0: none */
};

/* ---- lay_out.c ---- */

/* A stage with one assignment of its search dims at the memory level, as the target runs it; where bulk copies leave no room for what else it needs of shared
 * memory, without them. NULL where it cannot: *why says so. */
IrKernel *simt_lay_out(Context *context, IrKernel *stage, const int64_t *values, const SimtTarget *target, const char **why);
PhbTensorMap *simt_maps(Context *context, const IrKernel *leaf, int *count);

/* ---- planes.c ---- */

IrKernel *simt_planes(Context *context, const SimtTarget *target, const char **why); /* the pass, at the memory level */
bool simt_needs_planes(const PhbTensorMap *maps, int count);
/* Notes the tensors that the maps want planes of. */
void simt_note_planes(Context *context, GpuVariant *variant, int tensors, const PhbTensorMap *maps, int count);

/* ---- leaf.c ---- */

/* The code of a thread of `kernel`, which is at the memory level, as function `name` of e->module; e->level says what the target's arithmetic has. */
LLVMValueRef simt_leaf(Emitter *e, const SimtTarget *target, const IrKernel *kernel, const char *name);

void simt_op(Simt *s, const IrOp *op);
void simt_threads_begin(Simt *s, LLVMValueRef thread); /* where the thread is, from here on, follows from `thread` */
void simt_block(Simt *s, const IrBlock *block);
int simt_count(const Type *type);                                   /* registers of a value */
int simt_find_register(const Layout *layout, int row, int column);  /* that adds these to the thread's row and column: there is one */
int64_t simt_dim(const IrOp *op);                                   /* the number that the op carries */
LLVMValueRef simt_scalar(const Simt *s, const IrValue *value);      /* a scalar, value or parameter */
LLVMValueRef const *simt_tile(const Simt *s, const IrValue *value); /* registers of a tile */
void simt_set(Simt *s, const IrValue *value, LLVMValueRef scalar);
LLVMValueRef *simt_registers(Simt *s, int count);    /* an array, in the arena */
LLVMValueRef simt_int(const Simt *s, int64_t value); /* i32 */
int64_t simt_cluster_extent(const Simt *s, int axis); /* CTAs of a thread-block cluster along an axis, */
int64_t simt_cluster_size(const Simt *s);             /* and all: 1 without @cluster_dims */

/* ---- whole.c ---- */

void simt_body(Simt *s);                               /* the kernel's ops */
bool simt_is_tested(const Simt *s, const IrOp *op); /* where the access lies is known before the ops, and simt_body tests it */

/* ---- region.c: for, while, if ---- */

void simt_region(Simt *s, const IrOp *op);
LLVMValueRef simt_pair(Simt *s, const IrValue *tile, int index); /* i32: registers `index` and the next one, of 16 bits */

/* ---- element.c: where the elements of a thread lie ---- */

void simt_elements_begin(Simt *s); /* when s->thread is known: for all layouts of the kernel */
/* Row or column (axis 0 or 1; a tile of rank 1 is one row) of register `index`, i32: that of register 0, and a constant. */
LLVMValueRef simt_element(Simt *s, const Type *type, int index, int axis);
LLVMValueRef simt_origin(Simt *s, const Layout *layout, int axis);      /* of register 0 */
LLVMValueRef simt_warp_origin(Simt *s, const Layout *layout, int axis); /* of the warp's register and lane 0 */
bool simt_is_sum(
    const Simt *s, const Layout *layout, int offset, int axis); /* a register at `offset` is at origin + offset, not only origin ^ offset */
int64_t simt_reach(const Layout *layout, int axis);             /* rows or columns with padding */
LLVMValueRef simt_owner(Simt *s, const Layout *layout);         /* i1: of threads that hold the same elements, the first; NULL: always */
LLVMValueRef simt_exists(Simt *s, const Type *type, int index); /* i1: the register holds no padding; NULL: always */
LLVMValueRef simt_and(Simt *s, LLVMValueRef a, LLVMValueRef b); /* i1s, NULL for true */
int simt_source(const Type *from, const Type *to, int index);   /* the register of `from`, a slice, that broadcasts to register `index` of `to` */
int simt_run(const Layout *layout, int axis);                   /* the first so many bits of registers count elements along the axis */

/* ---- access.c: slices of tensors and shared memory ---- */

/* How the rows (0) and columns (1) of a tile walk the memory of its slice. */
typedef struct SimtSlice {
    const IrOp *op;
    const Type *type;             /* of the value */
    SimtAccess access;            /* of the element at row 0, column 0, which may lie outside */
    LLVMValueRef stride[2];       /* bytes, in the width of the address; NULL: the extent is 1 */
    LLVMValueRef low[2], size[2]; /* i32: the indices low .. low + size - 1 exist; NULL: all do */
    LLVMValueRef full;            /* i1: all do; NULL: always */
    bool at_edge;                 /* not worth a test */
    int run;                      /* neighbouring registers that are neighbours in aligned memory */
} SimtSlice;

SimtSlice simt_slice(Simt *s, const IrOp *op, const Type *type); /* `type` of the value, without a layout: `run` is 1 */
LLVMValueRef simt_advance(Simt *s, const SimtSlice *slice, LLVMValueRef address, LLVMValueRef index, int axis); /* by i32 rows or columns */
void simt_load(Simt *s, const IrOp *op);
void simt_store(Simt *s, const IrOp *op);
/* The element that an op with offsets accesses, for atomics: under its bounds as predicate, `once` not looked at. `scalar` is the element's type. */
SimtAccess simt_point(Simt *s, const IrOp *op, const Type *scalar);

/* ---- shared.c, reduce.c, dot.c ----
 *
 * An op with shared_bytes works at shared_at: it writes there, passes a barrier, and reads. What keeps others from the bytes before and after is in
 * the IR. */

/* A tile into a slot of a bulk ring, no wider than what is swizzled. */
void simt_put_slot(Simt *s, const IrValue *tile, LLVMValueRef slot, Span span);
LLVMValueRef *simt_get_slot(Simt *s, const Type *type, LLVMValueRef slot, Span span); /* and from there */
LLVMValueRef simt_staged(const Simt *s, const IrValue *tile); /* i32: where a staged tile, or a slot, lies */
void simt_stage(Simt *s, const IrOp *op);
void simt_slot(Simt *s, const IrOp *op); /* copy.c */
void simt_copy(Simt *s, const IrOp *op);
void simt_convert(Simt *s, const IrOp *op);
void simt_reshape(Simt *s, const IrOp *op);
void simt_cumsum(Simt *s, const IrOp *op);
void simt_reduce(Simt *s, const IrOp *op);
void simt_dot(Simt *s, const IrOp *op);
void simt_mma(Simt *s, const IrOp *op); /* mma.c */
bool simt_bulk_op(Simt *s, const IrOp *op); /* bulk.c: emits the op, if it is one of bulk copies or four warps: says whether it was */
LLVMValueRef simt_coordinate(Simt *s, const IrValue *offset); /* i32, of a box */
bool simt_bulk_store_op(Simt *s, const IrOp *op); /* bulk_store.c: likewise, of parts of sums and bulk stores */

/* ---- split.c ---- */

/* The access, a load or store of the thread at hand, depends on no other thread's until they meet. */
void simt_mark_access(Simt *s, LLVMValueRef access);

/* ---- hooks.c: what hooks and emitters share ---- */

/* For targets without predicated accesses: between begin and end the builder is where the predicate holds. */
typedef struct SimtBranch {
    LLVMBasicBlockRef before, after;
} SimtBranch;
SimtBranch simt_branch_begin(Simt *s, LLVMValueRef predicate);                                         /* NULL: no branch is made */
LLVMValueRef simt_branch_end(Simt *s, const SimtBranch *branch, LLVMValueRef value);                   /* `value` or zero; NULL gives NULL */
LLVMValueRef simt_shuffle(Simt *s, SimtShuffle way, LLVMValueRef value, LLVMValueRef lane, Span span); /* of any scalar type */
LLVMValueRef simt_shared_load(Simt *s, LLVMTypeRef type, LLVMValueRef address, unsigned align, LLVMValueRef predicate, Span span);
void simt_shared_store(Simt *s, LLVMValueRef value, LLVMValueRef address, unsigned align, LLVMValueRef predicate, Span span);

/* ---- thread.c: thread code ---- */

/* Emits the op, if it is one of LANGUAGE.md 7's: says whether it was. */
bool simt_thread_op(Simt *s, const IrOp *op);

#endif
