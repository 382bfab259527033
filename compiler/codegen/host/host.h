/* The host backend: a leaf becomes a PhbCtaRange, its tiles become loop nests. Inside of code generation only. */
#ifndef PHOBOS_CODEGEN_HOST_H
#define PHOBOS_CODEGEN_HOST_H

#include "compiler/codegen/emit.h"

typedef VEC(IrOp *) OpList;

/* ---- plan*.c: how the ops of a leaf become loop nests; knows no LLVM ----
 *
 * A block is cut into segments. A segment's scalars come first, then its copies and moves, then its body: a nest of loops with its roots, or one op
 * that is no loop nest. Element-wise ops, loads, broadcasts and the like are evaluated anew, element by element, in each nest that needs them, unless
 * plan_values.c gives the value an area of scratch; reductions, dots, carried tiles and the like always have one. A load whose elements would no
 * longer be what they were when the program read them is copied to scratch in its own segment. */

typedef struct PlanBlock PlanBlock;

/* A tile that a nest computes, and where it goes. */
typedef struct Root {
    const IrValue *value;
    const IrOp *store; /* to this slice, or NULL: */
    int area;          /* to scratch */
    int source;        /* -1: it is computed; else it is taken from this area */
} Root;

typedef VEC(Root) RootList;

typedef struct Segment {
    IrOp *first, *end; /* ops [first, end) of the block */
    RootList copies;   /* each in a nest of its own, in order */
    RootList moves;    /* the same, after the copies: into carried tiles and results */
    RootList roots;    /* of one shape; each element of a tensor stored at most once */
    IrOp *op;          /* where there are no roots: a region, a reduction, a dot, the store of a scalar, .. */
    PlanBlock *regions[2];
    OpList writes; /* stores in here, regions included */
} Segment;

struct PlanBlock {
    const IrBlock *block;
    VEC(Segment) segments;
};

typedef struct ValuePlan {
    const Contracted *contracted; /* of the result of a loop that is one contraction: its body is not planned */
    int segment;
    int area;       /* -1: evaluated where it is needed */
    bool if_shared; /* the area is worth it only if another nest reads it */
    int uses, cost, depth;
    int seen, node, rooted; /* by the gathering numbered so */
} ValuePlan;

typedef struct Area {
    int64_t bytes, offset; /* offset -1: not laid out */
    int same;              /* the area whose place this one shares, or itself */
} Area;

typedef struct Plan {
    Arena *arena;
    const IrKernel *kernel;
    PlanBlock *body;
    ValuePlan *values; /* by IrValue.id: results of ops, arguments of regions */
    bool *stored;      /* by parameter: the kernel stores to it */
    int value_count;
    VEC(Area) areas;
    int gatherings;
    int64_t scratch;                 /* bytes, */
    int64_t dot_offset, dot_scratch; /* those that dots work in among them, */
    int64_t kept_offset, kept_bytes; /* and those in which a factor's panels stay */
} Plan;

/* NULL after an error: scratch beyond PLAN_MAX_SCRATCH. */
#define PLAN_MAX_SCRATCH ((int64_t)1 << 30)
Plan *plan_leaf(Context *context, const IrKernel *kernel);

int plan_area_new(Plan *plan, const Type *type);
const Contracted *plan_contracted(const Plan *plan, const IrOp *op); /* NULL where `op` is no such loop */
/* The factor of the loop's product that is the same for CTAs side by side along x, 0 or 1: it may be kept, as nothing stores to it. -1: none is. */
int plan_kept_factor(const Plan *plan, const Contracted *contracted);
int plan_area(const Plan *plan, const IrValue *value); /* of a tile, or -1 */
int plan_place(const Plan *plan, int area);            /* the area that stands for all that share its place */
bool op_is_body(const IrOp *op);                       /* no loop nest, no scalar arithmetic: a segment's `op` */
bool op_is_lazy(const IrOp *op);                       /* its result can be evaluated an element at a time */

/* ---- plan_values.c: which tiles get an area ---- */

void plan_values(Plan *plan);

/* ---- plan_nodes.c: what a nest evaluates ---- */

/* A tile as a nest sees it: one value may be walked in several ways. */
typedef struct Node {
    const IrValue *value;
    int axis[2];    /* of the value, that each loop walks; -1: none */
    int operand[3]; /* nodes; -1: a scalar */
    int area;       /* read from there, or -1 */
    int next;       /* node of the same value, or -1 */
} Node;

/* How a nest's loops walk a tile: loop 0 is outside loop 1. */
typedef struct NestShape {
    int64_t extent[2];
    int axis[2]; /* of a root; -1: that loop does not walk it */
} NestShape;

typedef VEC(Node) NodeList;

NestShape nest_shape(const Type *type);
/* Operands come before what they are operands of. tops[i] is the node of root i. */
NodeList plan_nodes(Plan *plan, const Root *roots, int count, int *tops);

/* ---- plan_areas.c: in-place updates, the moves of carried tiles, the layout of scratch ---- */

void plan_areas(Plan *plan);

/* ---- leaf.c ---- */

enum { LEAF_AREA_SCOPES = 48 };

typedef struct Leaf {
    Emitter *e;
    const IrKernel *kernel;
    const Plan *plan;
    LLVMValueRef scratch;
    LaunchRegs launch;
    LLVMValueRef *values; /* by IrValue.id: scalars of the CTA */
    LLVMValueRef *scopes; /* alias scopes by parameter index, then of scratch: the scope itself, */
    LLVMValueRef *others; /* and all but it */
    int64_t edge_bytes;   /* of edge.c, in scratch behind the plan's areas */
} Leaf;

void emit_block(Leaf *leaf, const PlanBlock *block);
void emit_scalars(Leaf *leaf, const IrOp *first, const IrOp *end); /* those among the ops [first, end) that are no regions */
LLVMValueRef leaf_value(const Leaf *leaf, const IrValue *value);
LLVMValueRef leaf_kept(const Leaf *leaf); /* where a factor's panels stay */
/* Marks a memory access: tensors and scratch do not overlap. `region` is a parameter index or what area_region says. */
void leaf_tag(const Leaf *leaf, LLVMValueRef access, int region);

/* The function of a specialised kernel at one CPU level, and the bytes of scratch that it works in, the same at every level. `name` is its symbol. */
LLVMValueRef host_leaf(Emitter *e, const IrKernel *kernel, const Plan *plan, const char *name, int64_t *scratch);

/* ---- address.c: where the elements of an access lie, and which of them the tensor has ---- */

/* Loop 0 is outside loop 1. `stride` NULL: the access does not move with that loop. */
typedef struct Access {
    PhbDType dtype;
    int region;
    LLVMValueRef start;           /* address of the element at loop indices 0, 0; it may lie outside the tensor */
    LLVMValueRef stride[2];       /* bytes */
    bool unit;                    /* the inner stride is the element's size */
    bool checked;                 /* false: every element exists */
    LLVMValueRef exists;          /* i1: all axes that no loop walks are inside the tensor */
    LLVMValueRef low[2], high[2]; /* where stride: the indices [low, high), within [0, extent), that are inside */
} Access;

/* `axis` of the value for each loop, or -1; `extent` of the loops. */
Access access_slice(const Leaf *leaf, const int64_t extent[2], const int axis[2], const IrOp *op);
Access access_area(const Leaf *leaf, const int axis[2], const Type *type, int area);
LLVMValueRef area_address(const Leaf *leaf, int area);
int area_region(const Leaf *leaf, int area); /* for leaf_tag */
LLVMValueRef access_address(const Leaf *leaf, const Access *access, LLVMValueRef outer, LLVMValueRef inner);
LLVMValueRef access_load(const Leaf *leaf, const Access *access, LLVMValueRef address);
void access_store(const Leaf *leaf, const Access *access, LLVMValueRef address, LLVMValueRef value);

/* The part of an access that lies in a block of the loops: from `first` on, `count` turns of each. NULL: that loop has no blocks. */
Access access_block(Emitter *e, const Access *access, const LLVMValueRef first[2], const LLVMValueRef count[2]);

/* ---- edge.c: slices that leave their tensors ---- */

typedef struct EdgeCopy {
    const IrOp *op; /* a load or a store */
    int axis[2];    /* of its value, that each loop walks; -1: none */
    bool is_read, is_written;
    Access slice;       /* of the block under construction */
    LLVMValueRef place; /* of its copy in scratch, */
    int64_t stride[2];  /* in bytes, where slice.stride */
    int64_t bytes;
} EdgeCopy;

/* Gives the slice of loops of `extent` turns a place `*offset` bytes behind the plan's areas, and moves the offset on. */
void edge_place(Leaf *leaf, EdgeCopy *edge, const int64_t extent[2], int64_t *offset);
/* i1: does every element exist? */
LLVMValueRef edge_is_whole(Emitter *e, const Access *slice, const LLVMValueRef count[2]);
void edge_fill(Emitter *e, const EdgeCopy *edge);  /* copies what exists, and 0 for the rest */
void edge_spill(Emitter *e, const EdgeCopy *edge); /* copies back what exists */
/* The slice itself, if control came from the first of two blocks, or else its copy. The builder is at the start of the block behind them. */
Access edge_access(Emitter *e, const EdgeCopy *edge, const LLVMBasicBlockRef from[2]);

/* ---- nest.c: loop nests ---- */

void emit_scalar_load(Leaf *leaf, const IrOp *op);
void emit_scalar_store(Leaf *leaf, const IrOp *op);
void emit_nest(Leaf *leaf, const Root *roots, int count);

/* ---- region.c: loops and branches of the CTA ---- */

void emit_region_op(Leaf *leaf, const Segment *segment);

/* ---- reduce.c: reductions and cumsum, in the order that LANGUAGE.md 10 fixes ---- */

void emit_reduction(Leaf *leaf, const IrOp *op);
void emit_cumsum(Leaf *leaf, const IrOp *op);

/* ---- matrix.c: dot, transpose ---- */

void emit_dot(Leaf *leaf, const IrOp *op);
void emit_contracted_loop(Leaf *leaf, const Contracted *contracted);
void emit_transpose(Leaf *leaf, const IrOp *op);

#endif
