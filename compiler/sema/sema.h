/* Names, types, attributes, the launch grid. Turns a tree into a checked tree: every expression typed, every implicit conversion an EXPR_CONVERT node, every
 * name bound, so that lowering decides nothing about the language. */
#ifndef PHOBOS_SEMA_H
#define PHOBOS_SEMA_H

#include "compiler/parse/ast.h"

typedef enum SymbolKind { SYMBOL_PARAM, SYMBOL_LET, SYMBOL_VAR, SYMBOL_DIM, SYMBOL_SEARCH_DIM } SymbolKind;

struct Symbol {
    SymbolKind kind;
    const char *name;
    Span span;        /* of the declaration */
    const Type *type; /* dims and search dims: i64 */
    int index;        /* PARAM: in the signature */
    bool assigned_again; /* VAR: assigned after its declaration */
    bool used;
    const Expr *value; /* LET, VAR never assigned again: its initialiser; else NULL */
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
