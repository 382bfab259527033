/* Names, types, attributes, the launch grid. Turns a tree into a checked tree: every expression typed, every implicit conversion an EXPR_CONVERT
 * node, every name bound, so that lowering decides nothing about the language. */
#ifndef PHOBOS_SEMA_H
#define PHOBOS_SEMA_H

#include "compiler/parse/ast.h"

typedef enum SymbolKind { SYMBOL_PARAM, SYMBOL_LET, SYMBOL_VAR, SYMBOL_LOOP, SYMBOL_DIM, SYMBOL_SEARCH_DIM } SymbolKind;

/* How a value or control varies between the threads of a thread-block cluster, LANGUAGE.md 7; from least to most. */
typedef enum Variance { CLUSTER_UNIFORM, UNIFORM, WARP_UNIFORM, PER_LANE } Variance;

struct Symbol {
    SymbolKind kind;
    const char *name;
    Span span;           /* of the declaration */
    const Type *type;    /* dims, search dims and loop variables: i64 */
    int index;           /* PARAM: in the signature */
    bool assigned_again; /* VAR: assigned after its declaration */
    bool used;
    const Expr *value;              /* LET, VAR never assigned again: its initialiser; else NULL */
    const Dim *dim;                 /* DIM, SEARCH_DIM: its value; in a fn, that of the argument's extent */
    bool is_fn_param;               /* LET: a parameter that goes by value */
    Symbol *alias_of;               /* the checker's own: a fn's parameter that goes by reference */
    struct {                        /* edge.c's own: what the variable holds by some assignment */
        const Expr *rows, *columns; /* the slice whose fill there may be along the axis; NULL: none */
        bool counts, masks;         /* positions of elements, or extents; comparisons of such */
    } edge;
    Variance variance;          /* LET, VAR, LOOP of a value */
    struct VarianceNode *node;  /* uniformity.c's own */
    const Dim *symbolic; /* LET: the checker's own: its value as a polynomial in which what is no dim is an atom; NULL: none */
};

/* builtins.def is the one table of builtin functions and ctx fields. */
typedef enum Builtin {
    BUILTIN_NONE,
#define BUILTIN(id, text, least, most, operands, result) BUILTIN_##id,
#include "compiler/sema/builtins.def"
#undef BUILTIN
    BUILTIN_COUNT
} Builtin;

const char *builtin_name(Builtin builtin);
const char *attribute_name(int index); /* without '@'; NULL after the last one */

/* A fn at one of its calls: a copy of its own, checked with the types of the arguments. */
struct Inlined {
    const Decl *fn;
    Block params; /* LETs: the parameters that go by value. A tensor or shared parameter is no statement: a NAME in the body has the argument's symbol
                   */
    Block body;
    Symbol *result; /* VAR: what `return` assigns; NULL: the fn gives nothing */
};

/* What lowering finds in a checked tree:
 * - Every expression that is a value has a type. Operands of a unary or binary operator, and of an element-wise builtin, have one element type (that
 * of the result, but for comparisons); their shapes broadcast to the result's. An INT may be of a float type: it is that number.
 * - Arithmetic on integer literals alone has become one literal, `-` before an INT where it is negative.
 * - `ctx.block.x` is one value: its builtin is on the outer FIELD, whose `text` is the axis; the FIELD and the NAME inside have no type.
 * - CALL: the callee has no type. CONVERT converts args[0] to the call's type. EXTENT, ORIGIN and WHOLE: args[0] names a tensor, args[1]->dim is the
 * axis. PROGRAM_ID is ctx.block.x. Element-wise builtins are as operators; FMA and WHERE too, but WHERE's args[0] is bool. BITCAST reads args[0]
 * alone; the call's type says the rest. IOTA: the call's type has the extent; no argument is to be evaluated. RESHAPE reads args[0] alone. TRIL,
 * TRIU: args[1], where there is one, is an i64 scalar.
 * - Reductions and CUMSUM: args[0] has the call's element type already (but for ROWARGMAX, which gives i32), and may be of rank 1: [n] counts as
 * [1, n] in ROW*, COL*, TRIL, TRIU, TRANSPOSE and DOT*, whose results are of rank 2. CUMSUM runs along axis 0 of what it is given, rank 1 too.
 * - DOT, DOT_T: both operands have one element type; the call's type has the result's, LANGUAGE.md 3.
 * - INLINE, a call of a fn: the LETs of inlined->params, then inlined->body, in which RETURN ends that body alone. The value is that of
 * inlined->result, which RETURN assigns: its value has that element type and a shape that broadcasts. The expression's type is VOID where there is no
 * result. `left` and `args` are for messages, not to be evaluated. Every path through a body with a result ends in a RETURN.
 * - `ctx.threads`, `ctx.warp`, `ctx.lane`, `ctx.cluster.rank` and `ctx.cluster.size` are one value too, their builtin on the outer FIELD.
 * - Thread code: REMOTE is the base of an INDEX; its `symbol` is the shared memory, args[1] an i64 scalar. ATOMIC_*: args[0] is an INDEX of a scalar
 * type, the others have that type. WARP_ANY and WARP_ALL are `any` and `all` of a scalar. The lane of SHUFFLE* is an i64 scalar. CLUSTER_MASK:
 * args[0]->dim, where there is one, is the axis.
 * - Scalar `&&` and `||` evaluate their right side only where the left does not decide.
 * - INDEX: each Sub.a there is, is an i64 scalar; Sub.extent is the axis' extent, over integers and search dims, NULL for a point. A scalar type
 * means all points. In a tile type, point axes and axes whose extent is always 1 are gone, leftmost first, until two were left. Sub.b is not to be
 * evaluated.
 * - LET and VAR: the value has the element type of symbol->type and a shape that broadcasts to it; a VAR without value is zero.
 * - ASSIGN: the value's shape broadcasts to that of target->type. Plain: it has the target's element type. Compound: it has the type in which the
 * operation is done; the target's old value is converted to that type and the result back.
 * - FOR: `symbol` is an i64 that the body does not assign; each of `range` is an i64 scalar; unroll->dim, where `unroll` is, is at least 1. WHILE,
 * IF: `value` is a bool scalar. BREAK and CONTINUE stand in a loop of the same body. RETURN in a kernel has no value. CALL: `value` is INLINE, or a
 * builtin. */
typedef struct CheckedKernel {
    const Decl *decl;
    Signature signature;
} CheckedKernel;

typedef struct CheckedProgram {
    VEC(CheckedKernel *) kernels;
} CheckedProgram;

/* -D: replaces the declared set of a search dim by one value. */
typedef struct Define {
    enum { DEFINE_BOTH, DEFINE_LEAF, DEFINE_CLUSTER } reading;
    const char *name;
    int64_t value;
} Define;

typedef struct SemaOptions {
    const Define *defines;
    int define_count;
    bool no_cluster; /* drop @cluster attributes */
} SemaOptions;

/* Errors go to the diagnostics; the result is to be lowered only when there were none. Never NULL. */
CheckedProgram *sema_check(Context *context, Ast *ast, const SemaOptions *options);

#endif
