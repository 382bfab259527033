/* What the parts of the checker share. Nothing outside compiler/sema includes this, but for its unit tests. */
#ifndef PHOBOS_CHECK_H
#define PHOBOS_CHECK_H

#include "compiler/sema/sema.h"

#define TILE_MAX_ELEMENTS (INT64_C(1) << 31)
#define GRID_MAX_CTAS INT64_C(2147483647) /* along one axis */

typedef VEC(const char *) Names;
typedef VEC(Span) Spans;

typedef struct Scope Scope;
typedef struct DeclTable DeclTable;

/* A slice of a tensor, in the order of the text; launch-grid inference reads them. */
typedef struct Access {
    const Expr *slice;
    bool is_store;
} Access;

/* What is known of a fn over the whole file. */
typedef struct FnState {
    const Decl *fn;
    bool is_called; /* its body has been checked at a call */
    bool is_faulty; /* and had errors: no call reports them again */
} FnState;

/* A body that is being checked: a fn's at one of its calls. */
typedef struct Frame {
    const struct Frame *outer; /* NULL: the call stands in the kernel */
    FnState *state;
    Inlined *inlined;
    const Type *result; /* NULL: not known before the first `return`; VOID, POISON, else what `return` gives */
    Span call;
    Span first_return; /* that decided the result; line 0: none */
} Frame;

typedef struct Checker {
    Context *context;
    const SemaOptions *options;
    const Ast *ast;
    const DeclTable *decls;
    const Decl *decl;
    Signature *signature;
    Scope *scope;
    FnState *fns; /* one for each declaration of the file, in order */
    Frame *frame; /* NULL: in the kernel's own body */
    int frame_depth, loop_depth;
    int inlined_nodes; /* of the tree, in copies of fns */
    bool is_repeated;  /* in a fn whose warnings were given at another call */
    bool is_unbound;   /* checking a fn that nothing calls: its dims may be anything */
    VEC(Access) accesses;
    Span block_mention[3]; /* the first ctx.block.a of each axis; line 0: none */
    Span thread_use;       /* the first use of thread code, shared memory included; line 0: none */
    Span warp_use;         /* the first operation of warps or CTAs on values of their threads; line 0: none */
    VEC(const Symbol *) shared; /* memories, one for each copy of a fn that declares them */
} Checker;

/* ---- text.c: source spelling for messages, in the arena ---- */

const char *type_text(Checker *checker, const Type *type);
const char *dim_text(Checker *checker, const Dim *dim);
const char *expr_text(Checker *checker, const Expr *expr);
const char *type_expr_text(Checker *checker, const TypeExpr *type);
/* "; did you mean 'name'?" for the nearest of the names, "; write 'ours'" for a word of another language, or "". */
const char *suggestion(Checker *checker, const char *name, const Names *names);
void error_unsupported(Checker *checker, Span span, const char *what); /* "loops are", "'sum' is" */

/* ---- scope.c: names ---- */

struct Scope {
    Scope *outer;
    VEC(Symbol *) symbols; /* in order of declaration */
    Symbol **slots;        /* by name, open addressing, at most half full */
    int capacity;
};

void scope_push(Checker *checker);
/* Warns about what nothing read, unless there were errors. */
void scope_pop(Checker *checker);
Symbol *scope_find(const Checker *checker, const char *interned_name);
/* An error where the innermost scope has the name already; a warning where it shadows. Always gives a symbol, so that checking goes on. */
Symbol *scope_declare(Checker *checker, SymbolKind kind, const char *interned_name, Span span, const Type *type);
/* A dim or search dim, whose value is `dim`. */
Symbol *scope_declare_dim(Checker *checker, SymbolKind kind, const char *interned_name, Span span, const Dim *dim);
/* A fn's parameter that goes by value. */
Symbol *scope_declare_param(Checker *checker, const char *interned_name, Span span, const Type *type);
/* A fn's parameter that goes by reference: another name for the argument. */
void scope_declare_alias(Checker *checker, const char *interned_name, Span span, Symbol *of);
/* Warns where the name is known already, by an outer scope or the language; `kind` is "function" or the like. */
void warn_shadowing(Checker *checker, const char *kind, const char *name, Span span);
/* Makes an unknown name known as poison, so that it is reported once. */
void scope_poison(Checker *checker, const char *interned_name);
void scope_names(Checker *checker, Names *names);

/* ---- types.c: element types and values of literals ---- */

/* The element type of arithmetic on two different operands, LANGUAGE.md 3. False: there is none. */
bool dtype_promote(PhbDType a, PhbDType b, PhbDType *result);
/* Whether a store converts by itself: floats to any float, ints to ints that hold every value. */
bool dtype_stores(PhbDType from, PhbDType to);
/* Whether a number type holds the integer exactly. */
bool dtype_holds(PhbDType dtype, bool negative, uint64_t magnitude);
/* Whether a float type rounds the finite value to a finite one. */
bool dtype_reaches(PhbDType dtype, double value);
const Type *type_with_scalar(Checker *checker, const Type *type, PhbDType scalar); /* the same shape */
bool type_is_poison(const Type *type);
bool type_is_value(const Type *type); /* scalar or tile */
typedef enum TypePlace { PLACE_VARIABLE, PLACE_KERNEL_PARAM, PLACE_FN_PARAM } TypePlace;
/* The type that a declaration spells; poison after an error. */
const Type *type_resolve(Checker *checker, const TypeExpr *type_expr, TypePlace place);
/* `expr` as a value of element type `to`: itself, or a CONVERT around it. */
Expr *expr_convert(Checker *checker, Expr *expr, PhbDType to);

/* ---- literal.c: literals, and operators on literals alone, have an open type until their place gives them one ---- */

extern const Type open_int, open_float; /* compared by pointer; print as what they are alone, i64 and f32 */

bool literal_is_open(const Expr *expr);
/* Does the arithmetic of a unary or binary operator on integer literals, in place. False: an operand is no plain number, nothing was done. */
bool literal_fold(Checker *checker, Expr *expr);
/* Whether literal_adapt would find nothing to report. */
bool literal_fits(const Expr *expr, PhbDType to);
/* Gives an open expression the element type, or one from which it is converted; an error where the type does not hold it. */
Expr *literal_adapt(Checker *checker, Expr *expr, PhbDType to);
/* Gives an open expression the type that it has alone; leaves others. */
Expr *literal_settle(Checker *checker, Expr *expr);

/* ---- leaf.c: questions about every assignment of the search dims ---- */

typedef enum LeafAnswer { LEAF_ALWAYS, LEAF_SOMETIMES, LEAF_NEVER } LeafAnswer;
typedef bool LeafPredicate(const int64_t *values, int count);

/* Whether `holds` is true of the values of `dims` for the assignments of the leaf's search dims, before @require. A dim without a value
 * (overflow, division by zero) does not hold. *failure, where not NULL, is set to the first assignment that does not hold: " where BLOCK is 16", or
 * "" where no search dim is mentioned. The dims mention search dims alone. */
LeafAnswer leaf_ask(Checker *checker, const Dim *const *dims, int count, LeafPredicate *holds, const char **failure);
bool dim_is_static(const Checker *checker, const Dim *dim); /* of integers and search dims alone */
bool dim_is_always(Checker *checker, const Dim *dim, int64_t value);
bool dims_are_equal(Checker *checker, const Dim *a, const Dim *b, const char **failure);

/* ---- dims.c: expressions over dims in types and attributes ---- */

/* What may stand in one. */
enum {
    DIM_SEARCH = 1,    /* search dims */
    DIM_SYMBOLIC = 2,  /* symbolic dims */
    DIM_DECLARES = 4,  /* an unknown name becomes a symbolic dim */
    DIM_EXTENTS = 8,   /* extent(T, k) */
    DIM_CONDITION = 16 /* comparisons and logic, and nothing else at the top */
};

const Dim *dim_resolve(Checker *checker, Expr *expr, unsigned allowed); /* NULL after an error */
/* An integer constant in [least, most]; `what` names it in messages. */
bool constant_resolve(Checker *checker, Expr *expr, const char *what, int64_t least, int64_t most, int64_t *value);
/* Puts one operator of the language into Dim form; NULL where there is none or it has no value. */
const Dim *dim_binary(Checker *checker, BinaryOp op, const Dim *a, const Dim *b);

/* ---- shape.c ---- */

/* Shape of an element-wise operation on both (NumPy's rule), with element type `scalar`; an error at `span` and poison where they do not fit. */
const Type *shape_join(Checker *checker, Span span, const char *what, const Type *a, const Type *b, PhbDType scalar);
/* Whether a value broadcasts to `to` without making it larger; else an error at `span`. */
bool shape_broadcasts(Checker *checker, Span span, const Type *from, const Type *to);
/* Extents of a tile: at least 1, not too many elements, for every assignment; else an error at `span`. */
bool shape_check_tile(Checker *checker, Span span, const Dim *const *dims, int rank);

/* ---- expr.c, slice.c, builtins.c ---- */

/* Types the expression. Literals alone stay open; tensors are accepted. */
void check_expr(Checker *checker, Expr *expr);
/* The same, for a place that needs a scalar or tile: a tensor is an error, literals stay open. */
void check_operand(Checker *checker, Expr *expr);
/* Checks a value for a place of type `to` and converts it as a store does; the shape may be smaller where it broadcasts. */
Expr *check_value_for(Checker *checker, Expr *expr, const Type *to);
/* Gives both operands of an operator one element type, or leaves both open. False after an error, and on poison. */
bool operands_unify(Checker *checker, Span op_span, const char *op, Expr **a, Expr **b);
void check_slice(Checker *checker, Expr *expr, bool is_store);
/* An i64 scalar, converted where it is a smaller integer; poison after an error. `what` is "a subscript". */
Expr *check_index(Checker *checker, Expr *expr, const char *what);
/* An i64 scalar as a polynomial in which everything that is no dim is an atom, so that the bounds `i : i + n` differ by n. A var is an atom only
 * where it is read in the slice itself: behind a let it may have changed since. NULL: not of this kind. */
const Dim *symbolic_value(Checker *checker, const Expr *expr, bool is_behind_let);
/* ---- builtins.c, element.c, tile.c: calls; those for one rule of builtins.def leave call->type poison after an error ---- */

/* The columns of builtins.def. */
typedef enum OperandClass { OPERANDS_OWN, OPERANDS_FLOAT, OPERANDS_NUMBER, OPERANDS_INT, OPERANDS_BOOL, OPERANDS_ANY } OperandClass;
typedef enum ResultRule {
    RESULT_NONE,
    RESULT_POSITION,
    RESULT_CONVERT,
    RESULT_ELEMENT,
    RESULT_WHERE,
    RESULT_BITCAST,
    RESULT_IOTA,
    RESULT_RESHAPE,
    RESULT_TRANSPOSE,
    RESULT_TRIANGLE,
    RESULT_CUMSUM,
    RESULT_DOT,
    RESULT_ROW,
    RESULT_ROW_SUM,
    RESULT_ROW_INDEX,
    RESULT_COL,
    RESULT_COL_SUM,
    RESULT_TOTAL,
    RESULT_TOTAL_SUM,
    RESULT_PLACE,
    RESULT_SYNC,
    RESULT_ELECT,
    RESULT_BALLOT,
    RESULT_SHUFFLE,
    RESULT_THREADS,
    RESULT_THREADS_SUM,
    RESULT_CLUSTER_MASK,
    RESULT_REMOTE,
    RESULT_ATOMIC,
} ResultRule;

typedef struct BuiltinInfo {
    const char *text;
    int least, most; /* arguments */
    OperandClass operands;
    ResultRule result;
} BuiltinInfo;

extern const BuiltinInfo builtin_table[BUILTIN_COUNT];

void check_call(Checker *checker, Expr *expr);
void check_field(Checker *checker, Expr *expr);
bool builtin_is_known(const char *name); /* functions, fields' `ctx` and `range`; supported or not */
/* A name that is no symbol, used as a value. */
void error_unknown_name(Checker *checker, Expr *expr);
/* extent(T, k) and its like: the tensor and the axis; NULL after an error. */
const Symbol *check_tensor_axis(Checker *checker, Expr *call, int64_t *axis);

/* Whether the settled operand is of the class; else an error at it. */
bool operand_has_class(Checker *checker, const Expr *call, const Expr *operand, OperandClass operands);
void check_element(Checker *checker, Expr *call, Builtin builtin);
void check_where(Checker *checker, Expr *call);
void check_conversion(Checker *checker, Expr *call, PhbDType to);
void check_bitcast(Checker *checker, Expr *call);
void check_iota(Checker *checker, Expr *call);
void check_reshape(Checker *checker, Expr *call);
void check_transpose(Checker *checker, Expr *call);
void check_triangle(Checker *checker, Expr *call);
void check_reduction(Checker *checker, Expr *call, Builtin builtin); /* and cumsum */
void check_dot(Checker *checker, Expr *call, Builtin builtin);
PhbDType sum_type(PhbDType scalar); /* in which sums of such elements are done and given */

/* ---- thread.c, uniformity.c, thread_*.c: thread code ---- */

void note_thread_use(Checker *checker, Span span);
void check_thread_call(Checker *checker, Expr *call, Builtin builtin);
/* any and all of a scalar, which has been checked. */
void check_vote(Checker *checker, Expr *call, Builtin builtin);
/* Of a body whose types are right: that nothing varies more than it may; of a kernel's: that arrive and wait alternate. */
void check_uniformity(Checker *checker, const Block *body);
void check_phases(Checker *checker, const Block *body);
/* That the launch suits the body, which has been checked, with its grid. */
void check_thread_launch(Checker *checker);
/* Whether a subscript of shared memory lies inside for some assignment, or is not static; else an error. `extent` NULL: a point. */
bool check_shared_subscript(Checker *checker, const Symbol *memory, int axis, Span span, const Dim *at, const Dim *extent);
bool check_remote_rank(Checker *checker, Span span, const Dim *rank); /* the same of remote's rank */
/* Warnings of bodies in which nothing varies more than it may. */
void warn_elected(Checker *checker, const Block *body);
void warn_races(Checker *checker, const Block *body);

/* ---- inline.c, copy.c: fns ---- */

#define INLINE_MAX_DEPTH 64
#define INLINE_MAX_NOTES 3         /* of the calls around an error, from the outside */
#define INLINE_MAX_NODES (1 << 18) /* of the tree, in one kernel: calls in calls double at every level */

/* Puts a copy of the fn's body in place of its call and checks it. */
void check_fn_call(Checker *checker, Expr *call, FnState *state);
FnState *find_fn(const Checker *checker, const char *interned_name); /* NULL: none */
void check_return(Checker *checker, Stmt *stmt);
/* Checks the fns that nothing called, as far as the types of their parameters tell. */
void check_uncalled_fns(Checker *checker);

Block block_copy(Arena *arena, const Block *block, int *nodes);
TypeExpr *type_expr_copy(Arena *arena, const TypeExpr *type);

/* ---- stmt.c ---- */

void check_block(Checker *checker, const Block *block);

/* ---- attributes.c, search_set.c, defines.c ---- */

void check_search_attributes(Checker *checker); /* @autotune, @cluster; before the parameters */
void check_attributes(Checker *checker);        /* the others; after the parameters */
bool attribute_is_known(const char *name);

/* Expands the values of `X in [..]`, LANGUAGE.md 8: two ascending ones are bounds in doubling steps. */
int64_t *search_set_expand(Arena *arena, const int64_t *values, int count, int *expanded_count);

/* Applies -D to one kernel's search dims. */
void apply_defines(Checker *checker);
/* Errors for -D names that no kernel has. */
void check_defines(Context *context, const SemaOptions *options, const CheckedProgram *program);

/* ---- decls.c: the declarations of the file by name ---- */

const DeclTable *decl_table_new(Arena *arena, const Ast *ast);
int find_decl(const DeclTable *table, const char *interned_name); /* the number of the first of that name; -1: none */

/* ---- grid.c ---- */

/* The launch grid from the accesses, LANGUAGE.md 4, unless @grid stated it. */
void infer_grid(Checker *checker);
/* What the name stands for, through lets and vars that keep their first value. */
const Expr *see_through(const Expr *expr);
/* Takes `offset` apart as ctx.block.a * S: gives the axis and S (1 for a bare ctx.block.a), or -1. */
int block_offset(Checker *checker, const Expr *offset, const Dim **step);

/* ---- edge.c ---- */

/* -Wedge over a kernel without errors. */
void warn_edges(Checker *checker);

#endif
