/* From the value level to the memory level: every tile gets a layout, what does not fit is converted, shared memory gets its places, threads their
 * barriers. Knows no LLVM; takes specialised kernels. */
#ifndef PHOBOS_LAYOUT_H
#define PHOBOS_LAYOUT_H

#include "compiler/ir/ir.h"

typedef struct LayoutLimits {
    const char *target; /* for remarks; NULL: there are none */
    int64_t shared_bytes; /* a CTA */
    int registers;        /* 32-bit ones a thread */
    bool tensor_cores;    /* matrix instructions of a warp */
    bool bulk;            /* bulk copies, and matrix instructions of four warps */
} LayoutLimits;

/* Brings `kernel` to the memory level, in place: the passes below, one after the other. False where it cannot run as threads under `limits`: *why is
 * a sentence in the arena, and the kernel is of no use any more. */
bool layout_kernel(Context *context, IrKernel *kernel, const LayoutLimits *limits, const char **why);

bool layout_has_product(const IrBlock *block); /* a dot, regions included */

/* ---- mask.c ---- */

bool layout_masks(Context *context, IrKernel *kernel);

/* ---- classes.c: which values share a layout, and which one ---- */

/* Layouts of the tiles of `kernel` by IrValue.id, for its number of threads; false where one would not fit. */
bool layout_choose(Context *context, const IrKernel *kernel, bool tensor_cores, const Layout **layouts, const char **why);

/* ---- product.c: what matrix instructions can do ---- */

/* Elements along k of one instruction; 0 where types or extents of the product forbid it. f32 factors are read as tf32 where @tensorcore says so. */
int layout_mma_step(const IrKernel *kernel, const IrOp *dot);
const char *layout_mma_refusal(const IrKernel *kernel, const IrOp *dot); /* why; NULL: nothing forbids it */
/* The largest product by matrix instructions, in elements, and its rows; columns of all of them; is the result of one a first factor of another,
 * element-wise ops between? */
typedef struct MmaUse {
    int64_t elements, rows, columns;
    bool chained;
} MmaUse;
MmaUse layout_mma_use(Context *context, IrKernel *kernel);

/* ---- narrow.c ---- */

void layout_narrow(Context *context, IrKernel *kernel); /* comparisons of positions to 32 bits */

/* ---- round.c ---- */

void layout_round(Context *context, IrKernel *kernel); /* factors of f32 as @tensorcore(bf16) or (f16) says */

/* ---- split.c ---- */

void layout_split(Context *context, IrKernel *kernel, const LayoutLimits *limits); /* products of f32 as @tensorcore(bf16x6) says */

/* ---- assign.c: types with layouts, conversions between them, operands of products in shared memory ---- */

bool layout_assign(Context *context, IrKernel *kernel, bool tensor_cores, const char **why);

/* ---- ahead.c: what bulk.c and pipeline.c share ---- */

/* A loop in which slices of later turns are copied. */
typedef struct Ahead {
    Context *context;
    IrOp *loop;
    IrBlock *body; /* the loop's */
    IrOp *at;      /* new ops go before it */
    IrValue *turn; /* the index that clones have instead of the loop's */

    IrOp *tiles; /* tiles.c: the loop over the CTA's blocks around, whose copies run on from one to the next; NULL: none */
    IrValue *block[3];                  /* places that clones have instead of the block's */
    IrValue *range[3], *blocks, *group; /* of the loop, for all blocks alike; blocks of the grid, 0 where the loop has no turns; rows of a group */
} Ahead;

/* Whether the value follows, by pure scalar ops of the loop's own block, from the index and what is outside: then any turn's is known at any time. */
bool ahead_follows(const Ahead *ahead, const IrValue *value);
IrOp *ahead_op(Ahead *ahead, OpKind kind, IrValue *const *operands, int count, const Type *type); /* NULL: no result */
IrValue *ahead_value(Ahead *ahead, OpKind kind, const Type *type, IrValue *x, IrValue *y);         /* of as many operands as there are */
IrValue *ahead_int(Ahead *ahead, int64_t number);
IrValue *ahead_select(Ahead *ahead, IrValue *condition, IrValue *x, IrValue *y);
IrValue *ahead_clone(Ahead *ahead, IrValue *value); /* as it is in the turn of index `turn` */
IrValue *ahead_carry(Ahead *ahead, IrOp *loop, IrValue *first); /* a `for` carries one more value: what it is in the body, whose end is to yield the next one */

/* ---- bulk.c: contractions by bulk copies and matrix instructions of four warps ---- */

/* Makes `wgmma`s of the products at the value level that can be done so; how many threads they want, 0 where there are none. */
int layout_bulk_mark(Context *context, IrKernel *kernel, const LayoutLimits *limits);
/* Why the product would not be marked; NULL: it would. `stored`: by parameter. */
const char *layout_bulk_refusal(Context *context, IrKernel *kernel, const LayoutLimits *limits, const bool *stored, IrOp *dot);
/* Their loops' slices; after layouts are assigned. False, *why as above: shared memory has no room for them beside what else the kernel needs. */
bool layout_bulk(Context *context, IrKernel *kernel, IrBlock *block, const LayoutLimits *limits, const char **why);

/* Whether the loop's slots still suffice for a CTA that stays, beside so many bytes. */
bool layout_bulk_stays(Context *context, IrKernel *kernel, IrOp *loop, const LayoutLimits *limits, int64_t bytes);

/* ---- copy.c ---- */

/* A copy of the op at the end of `block`. `copies`, by IrValue.id as ir_number gives them, says what stands for a value there, and is told of the
 * copy's own. */
IrOp *layout_copy(Context *context, IrValue **copies, const IrOp *source, IrBlock *block);
IrValue *layout_copy_of(IrValue *const *copies, IrValue *value);

/* ---- peel.c ---- */

void layout_peel(Context *context, IrKernel *kernel); /* turns whose masks hold everywhere */

/* ---- bulk_sum.c ---- */

/* Products of a loop's turn, each taking the sum of the one before it. */
typedef struct BulkSum {
    IrOp *first, *last;
    IrOp *add;   /* a turn's sum begins at 0, and this adds it to what the loop carries; NULL: `first` takes that itself */
    int carried; /* among the loop's results */
} BulkSum;

bool layout_bulk_sum(IrOp *dot, BulkSum *sum); /* the product's; false: it is none that its loop just carries */
bool layout_bulk_is_sum(const IrValue *value); /* what a turn yields of marked products */
bool layout_bulk_is_zero(const IrValue *tile);

/* ---- tiles.c: CTAs that stay ---- */

bool layout_tiles_can(const IrKernel *kernel, const IrOp *loop); /* whether all that the kernel does besides can be done block by block */
/* `parity` becomes that of the number of blocks that the CTA has done. */
void layout_tiles(Context *context, IrKernel *kernel, IrValue *parity, Span span);
IrOp *layout_tiles_around(const IrOp *loop); /* the loop over blocks; NULL: none is around it */
bool layout_stays(const IrKernel *kernel);

/* The copies of a loop inside of the loop over blocks run on from one block to the next: what the next copies are of. */
enum { TILES_STATE = 5 };
void tiles_begin(Ahead *ahead, IrValue *state[TILES_STATE]);
IrValue *tiles_is_there(Ahead *ahead, IrValue *const state[TILES_STATE]); /* bool; and clones are of that state's block from here on */
void tiles_advance(Ahead *ahead, IrValue *state[TILES_STATE]);

/* ---- epilogue.c: what becomes of marked products' sums ---- */

void layout_epilogue(Context *context, IrKernel *kernel, const LayoutLimits *limits);

/* What follows from a loop's sums. */
typedef struct Epilogue {
    Context *context;
    IrKernel *kernel;
    IrOp *loop;
    const Type *type;       /* of the sums */
    VEC(IrValue *) sources; /* that are staged: the sums, or what they are narrowed to at once */
    VEC(IrOp *) ops;        /* what follows from them, in order */
    IrOp *first_store;
    int *stores;      /* by parameter: stores to it in the kernel */
    bool *follows;    /* by IrValue.id */
    IrValue **staged; /* the same: in shared memory, */
    IrValue **parts;  /* the rows of a turn */
    int count;        /* of ids */
    int64_t rows;     /* of a turn */
    IrOp *at;         /* new ops go before it */
    IrValue *row, *zero;
    bool has_chains; /* some of the sums are not of marked products */
    bool stays;      /* the CTA is to go on to further blocks, */
    IrValue *parity; /* and this is that of how many it has done */
} Epilogue;

bool epilogue_has_shape(const Type *type, const Type *of);
bool epilogue_is_element_wise(OpKind kind);
IrOp *epilogue_op(Epilogue *e, OpKind kind, Span span, IrValue *const *operands, int count, const Type *type); /* before e->at */
IrValue *epilogue_int(Epilogue *e, int64_t number);

/* ---- epilogue_columns.c, epilogue_rows.c: false where it cannot be done so, and nothing has changed ---- */

bool epilogue_columns(Epilogue *e, const LayoutLimits *limits);
bool epilogue_rows(Epilogue *e, const LayoutLimits *limits);

/* ---- bulk_map.c: slots of bulk rings, tensor maps ---- */

enum { BULK_ALIGN = 1024 }; /* of a slot, bytes: the widest swizzle repeats after so many */

/* A slot holds the first so many bytes of all rows, then the next ones: 128, or all that a row has. */
int64_t layout_bulk_span(const Type *type);
int64_t layout_bulk_bytes(const Type *type);      /* of a tile in a slot, */
int64_t layout_bulk_slot_bytes(const Type *type); /* and of a slot with what aligns the next one */

/* What one instruction copies: a box of `rows` along an axis of the tensor by `columns` along its last. */
typedef struct BulkMap {
    int param, row_axis, rows, columns; /* elements */
    int swizzle;                        /* bytes: 32, 64 or 128 */
    int planes;                         /* it is the parameter's planes that are copied from, so many; 0: the parameter */
} BulkMap;
typedef VEC(BulkMap) BulkMaps;

BulkMap layout_bulk_map(const IrOp *copy);
BulkMaps layout_bulk_maps(Context *context, const IrKernel *kernel); /* of all its bulk copies, each once, in order */
int layout_bulk_number(const BulkMaps *maps, const BulkMap *map);    /* maps->count: it is not among them */

/* ---- prefetch.c ---- */

void layout_prefetch(Context *context, IrKernel *kernel);

/* ---- pressure.c ---- */

int layout_registers(const Type *type);                  /* that a tile takes in a thread; at least 1 */
int layout_pressure(Context *context, IrKernel *kernel); /* 32-bit registers a thread */
int64_t layout_ctas(int registers, int threads);         /* that a multiprocessor's registers hold, if tiles take so many of a thread's */

/* ---- pipeline.c ---- */

bool layout_pipeline(Context *context, IrKernel *kernel, const LayoutLimits *limits);

/* ---- place.c: shared memory ---- */

bool layout_place(Context *context, IrKernel *kernel, const LayoutLimits *limits, const char **why);
/* Bytes of shared memory that `op` works in, or that its result is; 0: none. */
int64_t layout_shared_bytes(const IrKernel *kernel, const IrOp *op);
/* The same of what is there before `loop`, or before one that it stands in, and used in it or behind it, */
int64_t layout_shared_around(const IrKernel *kernel, const IrOp *loop);
int64_t layout_shared_inside(const IrKernel *kernel, const IrOp *op); /* and of all ops in the op's regions, if no byte serves two of them */

int64_t layout_pitch(const Type *type);                   /* bytes from row to row of a tile in shared memory */
int64_t layout_slot_bytes(const Type *type);              /* of a tile in shared memory, or a ring's slot */
int layout_warps_reduced(const Layout *layout, int axis); /* bits of the warp's number that a reduction along `axis`, or -1: all, reduces over */

/* ---- remarks.c ---- */

/* What came of a kernel at the memory level, for a target: what -Rlayout and -Rtensorcore ask for, and what @tensorcore and @pipeline did not get.
 * `values` spells the assignment of the search dims. */
void layout_remarks(Context *context, const IrKernel *kernel, const char *target, const char *values);

/* ---- order.c ---- */

int layout_order(const IrKernel *kernel);  /* CTAs start in groups of so many rows of the grid, column by column; 0: row by row */
bool layout_grows(const IrKernel *kernel); /* CTAs further along x have no fewer turns of a loop: the last ones should start first */

/* ---- barriers.c ---- */

void layout_barriers(Context *context, IrKernel *kernel);

#endif
