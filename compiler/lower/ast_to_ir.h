/* What the files that turn the checked tree into IR share: ast_to_ir.c has kernels and plain statements, ast_expr.c expressions and slices,
 * ast_builtin.c calls of builtins, ast_thread.c those of thread code, ast_control.c control flow and inlined fns. */
#ifndef PHOBOS_AST_TO_IR_H
#define PHOBOS_AST_TO_IR_H

#include "compiler/lower/lower.h"

/* What a let, var, loop variable or guard flag stands for now. */
typedef struct Binding {
    const Symbol *symbol;
    IrValue *value;
    int stamp; /* of the last collection that it is in */
} Binding;

typedef struct Frame Frame; /* ast_control.c */

typedef struct Lowering {
    Context *context;
    IrKernel *kernel;
    IrBlock *block;    /* where ops go */
    Binding *bindings; /* open addressing, keyed by symbol; capacity is a power of two */
    int binding_count, binding_capacity;
    int stamp;
    Frame *frame;  /* the innermost loop, fn or kernel */
    int depth;     /* of regions */
    bool too_deep; /* reported */
} Lowering;

/* The operands of an access through one slice but for what it stores. */
typedef struct Slice {
    const Type *type; /* of the value it gives or takes */
    Span span;
    IrValue *operands[1 + PHB_MAX_RANK];
    int count;
    const Dim *extent[PHB_MAX_RANK];
    bool once; /* an element: what is stored to it */
} Slice;

/* ---- ast_to_ir.c ---- */

void lower_bind(Lowering *l, const Symbol *symbol, IrValue *value);
Binding *lower_binding(Lowering *l, const Symbol *symbol); /* NULL: not met yet */
void lower_plain_stmt(Lowering *l, const Stmt *stmt);      /* LET, VAR, ASSIGN, CALL */

/* ---- ast_expr.c ---- */

IrValue *lower_expr(Lowering *l, const Expr *expr); /* NULL for a call that gives nothing */
/* Whether it is to be seen if the operand is evaluated: a call may store, or not end, threads meet in others, and what is read of shared memory must be
 * there; but reads beyond a tensor's edge give 0, and nothing traps. */
bool evaluation_is_seen(const Expr *expr);
IrValue *lower_name(Lowering *l, const Expr *expr);
/* Operands of one element type, broadcast to the shape of `type`, the result's. */
IrValue *lower_binary(Lowering *l, BinaryOp op, Span span, const Type *type, IrValue *a, IrValue *b);
Slice lower_slice(Lowering *l, const Expr *expr);
IrValue *lower_load(Lowering *l, const Slice *slice);
/* Appends a load, store or atomic; `values` is what it stores. */
IrOp *lower_access(Lowering *l, OpKind kind, const Slice *slice, IrValue *const *values);
void lower_store(Lowering *l, const Slice *slice, IrValue *value); /* broadcasts */
/* `shape`'s shape with the element type `scalar`. */
const Type *lower_type(Lowering *l, const Type *shape, PhbDType scalar);
IrValue *lower_convert(Lowering *l, Span span, IrValue *value, PhbDType scalar);
IrValue *lower_broadcast(Lowering *l, Span span, IrValue *value, const Type *shape);
IrValue *lower_bits(Lowering *l, Span span, const Type *type, uint64_t bits); /* a constant, in every element of `type` */
/* `axis` of ctx.* where `tensor` is NULL, else of the tensor. */
IrValue *lower_position(Lowering *l, OpKind kind, Span span, IrValue *tensor, int axis);
bool is_call_of(const Expr *expr, Builtin builtin);

/* ---- ast_builtin.c ---- */

IrValue *lower_call(Lowering *l, const Expr *expr);
bool is_dot(const Expr *expr);
IrValue *lower_dot(Lowering *l, const Expr *expr, IrValue *acc); /* acc NULL: zero */

/* ---- ast_thread.c ---- */

bool is_thread_builtin(Builtin builtin);
IrValue *lower_thread_call(Lowering *l, const Expr *call); /* of one of these; NULL where it gives nothing */
IrValue *lower_remote(Lowering *l, const Expr *call);      /* the memory */
IrValue *lower_shared(Lowering *l, const Stmt *declaration);

/* ---- peer.c ---- */

/* Adds what keeps a CTA's shared memory there while its peers access it: where a remote access may run before the kernel's first cluster_wait, or after
 * its last cluster_arrive, all CTAs of the cluster meet at the kernel's beginning, or end. */
void add_peer_barriers(Context *context, IrKernel *kernel);

/* ---- ast_control.c ---- */

IrValue *lower_inline(Lowering *l, const Expr *expr);
/* Scalar `&&` and `||` whose right side must not run where the left one decides. */
IrValue *lower_short_circuit(Lowering *l, const Expr *expr);
void lower_body(Lowering *l, const Block *body); /* a kernel's, with a frame of its own */

#endif
