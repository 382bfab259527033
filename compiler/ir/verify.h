/* What the files of the verifier share: verify.c checks signatures and structure, verify_op.c each op by itself. */
#ifndef PHOBOS_IR_VERIFY_H
#define PHOBOS_IR_VERIFY_H

#include "compiler/ir/ir.h"

typedef struct Verifier {
    Context *context;
    const Signature *signature;
    const IrBlock *body;
    IrValue **defined; /* by id: values whose definition has been passed and whose block is not over */
    int value_count;
    int threads;           /* the memory level's; 0 at the value level */
    int64_t shared_bytes;
    int depth;           /* of regions */
    const IrOp *op;      /* at hand; NULL in the signature */
    const char *message; /* the first broken rule */
} Verifier;

/* Where a dim expression may look. */
typedef enum DimScope {
    SCOPE_STATIC, /* search dims */
    SCOPE_SHAPE,  /* and symbolic dims */
    SCOPE_LEAF,   /* and extents of tensors */
} DimScope;

/* Always gives false, so that a failing check ends with `return broken(...)`. */
bool verify_broken(Verifier *v, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *verify_type_text(Verifier *v, const Type *type); /* as it prints; in the arena */
bool verify_dim(Verifier *v, const Dim *dim, DimScope scope);
bool verify_extent(Verifier *v, const Dim *dim, DimScope scope);
bool verify_value_type(Verifier *v, const Type *type); /* scalars and tiles: what ops compute on */
bool verify_same_extent(Verifier *v, const Dim *a, const Dim *b);
bool verify_same_shape(Verifier *v, const Type *a, const Type *b);
bool verify_same_type(Verifier *v, const Type *a, const Type *b);

/* ---- verify_op.c ---- */

/* Types and attributes of an op whose counts of operands, results and regions are right. Not of those that hold or end regions. */
bool verify_op(Verifier *v, const IrOp *op);

/* ---- verify_layout.c: the memory level ---- */

bool verify_layout(Verifier *v, const Type *type);
bool verify_copy(Verifier *v, const IrOp *op, const Type *slice); /* what an async_copy of the slice goes to */
/* Of an op whose types are sound. */
bool verify_layouts(Verifier *v, const IrOp *op);

/* ---- verify_async.c: bulk copies, and matrix instructions of four warps ---- */

bool verify_async(Verifier *v, const IrOp *op);
bool verify_bulk_copy(Verifier *v, const IrOp *op, const Type *slice);
bool verify_running(Verifier *v); /* of a whole kernel that is sound else */

#endif
