/* The tile IR: SSA with structured regions. Search dims and symbolic dims stay names until `specialise` puts in one assignment. It prints, reads back and prints
 * the same; ops.def is the one table of ops that printer, reader, verifier and builder share. */
#ifndef PHOBOS_IR_H
#define PHOBOS_IR_H

#include "compiler/base/base.h"

typedef struct IrValue IrValue;
typedef struct IrOp IrOp;
typedef struct IrBlock IrBlock;
typedef struct IrKernel IrKernel;

typedef enum OpKind {
#define OP(id, text, operands, results, traits, attr) OP_##id,
#include "compiler/ir/ops.def"
#undef OP
    OP_COUNT
} OpKind;

/* Traits of an op, as bits. */
enum {
    TRAIT_PURE = 1,        /* result depends on operands and attribute alone: may be folded, shared, dropped */
    TRAIT_READS = 2,       /* reads a tensor or shared memory */
    TRAIT_WRITES = 4,      /* writes to one */
    TRAIT_TERMINATOR = 8,  /* ends a block */
    TRAIT_COMMUTES = 16,   /* operands 0 and 1 may change places without a change of bits */
    TRAIT_SAME_TYPE = 32,  /* operands and result are of one type */
    TRAIT_INT = 64,        /* element type must be an integer (or bool for and, or, xor) */
    TRAIT_COMPARE = 128,   /* operands of one type, result bool of the same shape */
    TRAIT_FLOAT = 256,     /* element type must be a float */
    TRAIT_REDUCES = 512,   /* a tile to a tile with one axis of extent 1, or to a scalar */
    TRAIT_REGIONS = 1024,  /* holds regions; has the effects of the ops in them */
    TRAIT_THREAD = 2048,   /* thread code. Not pure: all of a warp, CTA or cluster run it together, so that it stays where it is; it may go where nothing uses it */
    TRAIT_SYNC = 4096,     /* orders the memory operations of threads: none moves across it, and it never goes */
};

/* What an op carries besides operands. */
typedef enum AttrKind {
    ATTR_NONE,
    ATTR_CONST, /* `bits`: the scalar's value, as its type's bits zero-extended to 64; floats print so that they read back to the same bits */
    ATTR_DIM,   /* `dim` */
    ATTR_AXIS,  /* `axis`: of ctx.*, or of a tensor */
    ATTR_AXIS_OR_ALL, /* `axis` of ctx.*, or -1 */
    ATTR_NAME,  /* `name`, for messages */
    ATTR_UNROLL, /* `dim`: how often the body is repeated, or NULL: as the compiler likes */
    ATTR_SLICE, /* `extent[k]` for each axis of the tensor operand: NULL is a point */
} AttrKind;

struct IrValue {
    const Type *type;
    IrOp *def;      /* NULL: an argument of `block` */
    IrBlock *block; /* of an argument */
    int index;      /* of the result or argument */
    int id;         /* what the printer calls it; given by ir_number */
    const char *name; /* arguments of the kernel: the parameter's name; else NULL */
};

struct IrOp {
    OpKind kind;
    Span span;
    VEC(IrValue *) operands;
    VEC(IrValue *) results;
    VEC(IrBlock *) regions; /* for: body; while: condition, body; if: then, else */
    uint64_t bits;
    const Dim *dim;
    int axis;
    const Dim *extent[PHB_MAX_RANK];
    const char *name; /* interned */
    bool once;        /* a store of a scalar, an atomic: once per CTA */
    int64_t shared_at, shared_bytes; /* memory level: the CTA's shared memory that its result is, or that it works in; 0 bytes: none */
    IrOp *prev, *next;
    IrBlock *parent;
    bool mark; /* scratch of the pass at hand */
};

struct IrBlock {
    VEC(IrValue *) args;
    IrOp *first, *last;
    IrOp *owner; /* NULL: the kernel's body */
};

struct IrKernel {
    Signature signature;
    IrBlock *body; /* arguments: the parameters, in order */
    int threads;          /* memory level: of a CTA; 0 at the value level */
    int64_t shared_bytes; /* and its shared memory */
    int registers;        /* memory level: 32-bit ones that tiles take in a thread, as estimated; 0: not known */
};

typedef struct IrModule {
    const char *file; /* source's base name */
    VEC(IrKernel *) kernels;
} IrModule;

/* ---- build.c ---- */

typedef struct OpInfo {
    const char *text;
    int operands; /* -1: any number; LOAD, STORE and atomics check their own */
    int results;  /* -1: any number */
    unsigned traits;
    AttrKind attr;
} OpInfo;

extern const OpInfo op_info[OP_COUNT];

enum { IR_MAX_DEPTH = 400 }; /* regions in regions: bounds every recursive walk */

int ir_region_count(OpKind kind);
const char *ir_region_word(OpKind kind, int region); /* how a region is announced in the text: "do", "test", "then", "else" */
/* The first operand that is an initial value of a carried one: for 3, while 0. */
int ir_first_carried(const IrOp *op);
bool ir_is_param(const IrValue *value); /* an argument of the kernel */
bool ir_is_inside(const IrValue *value, const IrOp *op); /* defined in one of the op's regions */
int ir_count_uses(const IrBlock *block, const IrValue *value); /* as an operand, in nested regions too */
IrOp *ir_ancestor_in(const IrBlock *block, IrOp *op);       /* the op in `block` that `op` is, or is somewhere inside of */
/* Sets stored[i] for each parameter i that the op, or one in its regions, stores to. */
void ir_mark_stored(const IrOp *op, bool *stored);
typedef VEC(const IrOp *) IrOps;
IrOps ir_shared_arrays(Context *context, const IrKernel *kernel); /* each `shared`, in order */
bool ir_is_atomic(OpKind kind);
int ir_values_stored(OpKind kind); /* operands after the offsets: 0 for a load, 2 for atomic_cas and async_copy, 4 for bulk_copy, else 1 */
/* The parameter, or the result of a `shared`, whose memory, or whose planes, an op with ATTR_SLICE accesses; with *is_remote, where not NULL, whether
 * it is, or may be, another CTA's. */
const IrValue *ir_memory(const IrOp *op, bool *is_remote);
bool ir_is_tensor_access(const IrOp *op); /* a load, store or atomic on a parameter */
bool ir_has_sync(const IrOp *op);                /* it, or an op in its regions */
bool ir_has_thread_code(const IrKernel *kernel); /* or a thread-block cluster: a CTA is no single thread of control */
void ir_copy_attributes(IrOp *to, const IrOp *from); /* all that an op carries besides operands, results and regions; and the span */

/* Appends to `block`; result types are the caller's. Returns the op; a single result is op->results.items[0]. */
IrOp *ir_append(Context *context, IrBlock *block, OpKind kind, Span span, IrValue *const *operands, int operand_count, const Type *const *result_types, int result_count);
/* The usual case: one result. */
IrValue *ir_value(Context *context, IrBlock *block, OpKind kind, Span span, const Type *type, IrValue *a, IrValue *b);
IrValue *ir_const_bits(Context *context, IrBlock *block, Span span, const Type *scalar_type, uint64_t bits);
IrBlock *ir_block_new(Context *context, IrOp *owner);
IrValue *ir_block_arg(Context *context, IrBlock *block, const Type *type, const char *name);
void ir_insert_before(IrOp *at, IrOp *op);
void ir_remove(IrOp *op);
void ir_replace_uses(IrKernel *kernel, IrValue *from, IrValue *to);
/* A value by a value for uses in `block`, regions included. */
void ir_replace_uses_in(IrBlock *block, const IrValue *from, IrValue *to);
IrBlock *ir_region_new(Context *context, IrOp *op); /* a new last region */
int ir_number(IrKernel *kernel); /* ids in print order, from 0; returns their count. Parameters have none */

/* ---- slice.c: loads and stores as tiles see them; of specialised kernels ---- */

const Type *access_type(const IrOp *op); /* of the value that a load gives or a store takes, of the slot that a copy goes to */
const IrValue *stored_value(const IrOp *op);
int access_param(const IrOp *op);              /* the tensor, as a parameter index */
bool slice_same(const IrOp *a, const IrOp *b); /* the same elements of the same tensor */
/* Tensor axes of the value's axes; the others are points or of extent 1. Leftmost ones drop first. */
void slice_axes(const IrOp *op, int axes[2]);
int64_t tile_extent(const Type *type, int axis);
int64_t tile_rows(const Type *type); /* rank 1 is one row */
int64_t tile_columns(const Type *type);
int64_t ir_known_multiple(const IrValue *value); /* a power of two, at most 4096, that the i64 is always a multiple of */
/* Do operand and result of a reshape differ in axes of extent 1 alone? */
bool reshape_keeps_axes(const IrOp *op);

/* ---- bits.c: scalar constants as bits of their type (f16 and bf16 too), correctly rounded ---- */

uint64_t bits_from_double(PhbDType dtype, double value); /* floats: to nearest even */
double bits_to_double(PhbDType dtype, uint64_t bits);    /* floats */
uint64_t bits_from_int(PhbDType dtype, uint64_t value);  /* ints: wraps; bool: nonzero */

/* ---- eval.c ---- */

/* What an element-wise op or a conversion gives on scalar constants of the type `operand`, to the bit; a NaN that an operation makes is the default one. As
 * many of `operands` are read as the op has. False for other ops, and for those whose value code generation decides, like exp. */
bool ir_eval(OpKind kind, PhbDType operand, PhbDType result, const uint64_t *operands, uint64_t *bits);

/* ---- print.c, read.c, verify.c ---- */

void ir_print(Buffer *buffer, IrModule *module);
void ir_print_op(Buffer *buffer, const IrOp *op);
/* Reads context->source; errors go to the diagnostics with positions in the IR text. NULL after an error. What it accepts has passed the verifier. */
IrModule *ir_read(Context *context);
/* First broken rule of `module` as one sentence that names the op in its own syntax, in the arena; NULL when it is sound. */
const char *ir_verify(Context *context, IrModule *module);
/* The same for one kernel; *at is the op at fault, or NULL where it is the signature. */
const char *ir_verify_kernel(Context *context, IrKernel *kernel, const IrOp **at);

/* ---- passes: each says whether it changed anything ---- */

bool ir_fold(Context *context, IrKernel *kernel);    /* constants, identities that keep every bit, dims */
bool ir_control(Context *context, IrKernel *kernel); /* conditions and trip counts that are known, carried values that never change */
bool ir_cse(Context *context, IrKernel *kernel);     /* pure ops, and loads with no store to the tensor between */
bool ir_licm(Context *context, IrKernel *kernel);    /* what is the same in every iteration moves before the loop */
bool ir_dce(Context *context, IrKernel *kernel);

#endif
