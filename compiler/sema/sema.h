/* Names, types, attributes, the launch grid. Turns a tree into a checked tree: every expression typed, every implicit conversion an EXPR_CONVERT
 * node, every name bound, so that lowering decides nothing about the language. */
#ifndef PHOBOS_SEMA_H
#define PHOBOS_SEMA_H

#include "compiler/parse/ast.h"

typedef enum SymbolKind { SYMBOL_PARAM, SYMBOL_LET, SYMBOL_VAR, SYMBOL_DIM, SYMBOL_SEARCH_DIM } SymbolKind;

struct Symbol {
    SymbolKind kind;
    const char *name;
    Span span;           /* of the declaration */
    const Type *type;    /* dims and search dims: i64 */
    int index;           /* PARAM: in the signature */
    bool assigned_again; /* VAR: assigned after its declaration */
    bool used;
    const Expr *value;   /* LET, VAR never assigned again: its initialiser; else NULL */
    const Dim *symbolic; /* LET: the checker's own: its value as a polynomial in which what is no dim is an atom; NULL: none */
};

/* builtins.def is the one table of builtin functions and ctx fields. */
typedef enum Builtin {
    BUILTIN_NONE,
#define BUILTIN(id, text, arity, kind) BUILTIN_##id,
#include "compiler/sema/builtins.def"
#undef BUILTIN
    BUILTIN_COUNT
} Builtin;

const char *builtin_name(Builtin builtin);

/* What lowering finds in a checked tree:
 * - Every expression that is a value has a type. Operands of a unary or binary operator, and of an element-wise builtin, have one element type (that
 * of the result, but for comparisons); their shapes broadcast to the result's. An INT may be of a float type: it is that number.
 * - Arithmetic on integer literals alone has become one literal, `-` before an INT where it is negative.
 * - `ctx.block.x` is one value: its builtin is on the outer FIELD, whose `text` is the axis; the FIELD and the NAME inside have no type.
 * - CALL: the callee has no type. CONVERT converts args[0] to the call's type. EXTENT, ORIGIN and WHOLE: args[0] names a tensor, args[1]->dim is the
 * axis. PROGRAM_ID is ctx.block.x.
 * - INDEX: each Sub.a there is, is an i64 scalar; Sub.extent is the axis' extent, over integers and search dims, NULL for a point. A scalar type
 * means all points. In a tile type, point axes and axes whose extent is always 1 are gone, leftmost first, until two were left. Sub.b is not to be
 * evaluated.
 * - LET and VAR: the value has the element type of symbol->type and a shape that broadcasts to it; a VAR without value is zero.
 * - ASSIGN: the value's shape broadcasts to that of target->type. Plain: it has the target's element type. Compound: it has the type in which the
 * operation is done; the target's old value is converted to that type and the result back. */
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
