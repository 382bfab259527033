/* The host backend: a leaf becomes a PhbCtaRange, its tiles become loop nests. Inside of code generation only. */
#ifndef PHOBOS_CODEGEN_HOST_H
#define PHOBOS_CODEGEN_HOST_H

#include "compiler/codegen/emit.h"

/* ---- slice.c: which tensor axis a tile axis of a load or store walks ---- */

typedef VEC(IrOp *) OpList;

const Type *access_type(const IrOp *op); /* of the value that a load gives or a store takes */
const IrValue *stored_value(const IrOp *op);
int access_param(const IrOp *op);              /* the tensor, as a parameter index */
bool slice_same(const IrOp *a, const IrOp *b); /* the same elements of the same tensor */
/* Tensor axes of the value's axes; the others are points or of extent 1. Leftmost ones drop first. */
void slice_axes(const IrOp *op, int axes[2]);
int64_t tile_extent(const Type *type, int axis);

/* ---- plan.c: how the ops of a leaf become loop nests; knows no LLVM ----
 *
 * The block is cut into segments. A segment's scalars come first, then its copies, then one nest with its stores. Element-wise ops and loads are
 * evaluated anew, element by element, in each nest that needs them. A load whose elements would no longer be what they were when the program read
 * them is copied to scratch in its own segment. */

typedef struct Segment {
    IrOp *first, *end; /* ops [first, end) of the block */
    OpList stores;     /* of tiles of one shape, each element of them stored at most once; or a single scalar store */
    OpList copies;
} Segment;

typedef struct ValuePlan {
    int segment;
    int64_t copy; /* offset in scratch, or -1 */
    int seen;     /* by the gathering numbered so */
} ValuePlan;

typedef struct Plan {
    Arena *arena;
    VEC(Segment) segments;
    ValuePlan *values; /* by IrValue.id, of op results */
    int value_count;
    int gatherings;
    int64_t scratch; /* bytes */
} Plan;

/* NULL after an error: scratch beyond PLAN_MAX_SCRATCH. */
#define PLAN_MAX_SCRATCH ((int64_t)1 << 30)
Plan *plan_leaf(Context *context, const IrKernel *kernel);
/* The tile ops that the roots' values consist of, in program order; a root that is a load is itself among them. */
OpList plan_gather(Plan *plan, const OpList *roots);

/* ---- leaf.c ---- */

typedef struct TensorRegs {
    LLVMValueRef base, pitch;
    LLVMValueRef extent[PHB_MAX_RANK], origin[PHB_MAX_RANK], whole[PHB_MAX_RANK];
} TensorRegs;

typedef struct Leaf {
    Emitter *e;
    const IrKernel *kernel;
    const Plan *plan;
    LLVMValueRef scratch;
    TensorRegs *tensors;  /* by parameter index */
    LLVMValueRef *params; /* scalars, by parameter index */
    LLVMValueRef *dims;   /* as PhbKernel.dims */
    LLVMValueRef block[3], grid[3], super[3], supers[3];
    LLVMValueRef *values; /* by IrValue.id: scalars of the CTA, and tile elements of the nest under construction */
    LLVMValueRef *scopes; /* alias scopes by parameter index, scratch last: the scope itself, */
    LLVMValueRef *others; /* and all but it */
} Leaf;

LLVMValueRef leaf_value(const Leaf *leaf, const IrValue *value);
/* Marks a memory access: tensors and scratch do not overlap. `region` is a parameter index, or their count for scratch. */
void leaf_tag(const Leaf *leaf, LLVMValueRef access, int region);

/* The function of a specialised kernel at one CPU level. `name` is its symbol. */
LLVMValueRef host_leaf(Emitter *e, const IrKernel *kernel, Plan *plan, const char *name);

/* ---- address.c: where the elements of an access lie, and which of them the tensor has ---- */

/* Loop 0 is outside loop 1. `stride` NULL: the access does not move with that loop. */
typedef struct Access {
    const IrOp *op;
    PhbDType dtype;
    int region;
    LLVMValueRef start;           /* address of the element at loop indices 0, 0; it may lie outside the tensor */
    LLVMValueRef stride[2];       /* bytes */
    bool unit;                    /* the inner stride is the element's size */
    bool checked;                 /* false: every element exists */
    LLVMValueRef exists;          /* i1: all axes that no loop walks are inside the tensor */
    LLVMValueRef low[2], high[2]; /* where stride: the indices [low, high), within [0, extent), that are inside */
} Access;

/* How a nest's loops walk the axes of its shape. */
typedef struct NestShape {
    int rank;
    int axis[2];       /* of the shape, for each loop; -1: that loop has one iteration */
    int64_t extent[2]; /* of each loop */
} NestShape;

NestShape nest_shape(const Type *shape);
Access access_slice(const Leaf *leaf, const NestShape *nest, const IrOp *op);
Access access_copy(const Leaf *leaf, const NestShape *nest, const IrOp *load);
LLVMValueRef access_address(const Leaf *leaf, const Access *access, LLVMValueRef outer, LLVMValueRef inner);
LLVMValueRef access_load(const Leaf *leaf, const Access *access, LLVMValueRef address);
void access_store(const Leaf *leaf, const Access *access, LLVMValueRef address, LLVMValueRef value);

LLVMValueRef emit_min(Emitter *e, LLVMValueRef a, LLVMValueRef b); /* i64, signed */
LLVMValueRef emit_max(Emitter *e, LLVMValueRef a, LLVMValueRef b);

/* ---- nest.c: loop nests ---- */

void emit_scalar_load(Leaf *leaf, const IrOp *op);
void emit_scalar_store(Leaf *leaf, const IrOp *op);
void emit_store_nest(Leaf *leaf, const OpList *stores);
void emit_copy_nest(Leaf *leaf, IrOp *load);

#endif
