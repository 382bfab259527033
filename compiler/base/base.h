/* What every part of the compiler stands on: memory, text, positions, diagnostics, dims and types. Knows nothing of the language's syntax or IR. */
#ifndef PHOBOS_BASE_H
#define PHOBOS_BASE_H

#include "runtime/program.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- arena.c: memory that lives as long as the compilation; nothing is freed singly; exhaustion ends the process ---- */

typedef struct Arena Arena;

Arena *arena_new(void);
void arena_free(Arena *arena);
void *arena_alloc(Arena *arena, size_t size); /* zeroed, aligned to 16 */
char *arena_strndup(Arena *arena, const char *text, size_t length);
char *arena_printf(Arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define NEW(arena, T) ((T *)arena_alloc((arena), sizeof(T)))
#define NEW_ARRAY(arena, T, n) ((T *)arena_alloc((arena), sizeof(T) * (size_t)(n)))

/* A growing array in an arena: VEC(Expr *) args; vec_push(arena, &args, e); args.items[i], args.count. A zeroed one is empty. */
#define VEC(T)        \
    struct {          \
        T *items;     \
        int count;    \
        int capacity; \
    }
#define vec_push(arena, vec, ...)                                                                                           \
    do {                                                                                                                    \
        if ((vec)->count == (vec)->capacity)                                                                                \
            (vec)->items = vec_grow((arena), (vec)->items, (vec)->count, &(vec)->capacity, sizeof *(vec)->items);           \
        (vec)->items[(vec)->count++] = (__VA_ARGS__);                                                                       \
    } while (0)
void *vec_grow(Arena *arena, void *items, int count, int *capacity, size_t item_size);

/* ---- buffer.c: a text under construction, on the heap; the owner frees it ---- */

typedef struct Buffer {
    char *data; /* NUL-terminated once something was written */
    size_t length, capacity;
} Buffer;

void buffer_append(Buffer *buffer, const char *data, size_t length);
void buffer_puts(Buffer *buffer, const char *text);
void buffer_printf(Buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buffer_free(Buffer *buffer);

/* ---- intern.c: one copy of each name; compared by pointer ---- */

typedef struct Interner Interner;

Interner *interner_new(Arena *arena);
const char *intern(Interner *interner, const char *text, size_t length);
const char *intern_cstr(Interner *interner, const char *text);

/* ---- source.c: the text being compiled ---- */

#define SOURCE_MAX_BYTES (16u << 20)

/* `length` bytes on line `line` from column `column` (both from 1; columns count bytes). Line 0: no position. */
typedef struct Span {
    uint32_t line, column, length;
} Span;

typedef struct Source {
    const char *path; /* as given on the command line; what messages print */
    const char *text; /* without a byte order mark, NUL after `length` bytes; NULL when only positions are known (IR input) */
    size_t length;
} Source;

/* Reads a regular file of at most SOURCE_MAX_BYTES ("-" is standard input). On failure gives false and a whole sentence in *error. */
bool source_read(Arena *arena, const char *path, Source *source, char **error);

/* ---- diag.c: messages to the user, in the form of cc ---- */

/* Warning groups: enumerator, name after -W, on by default, what it warns about. */
#define DIAG_WARNINGS(X)                                                                                 \
    X(SHADOW, "shadow", 1, "a name that shadows a builtin, a type or an outer name")                     \
    X(PRECEDENCE, "precedence", 1, "an expression such as 'a & b == 0' that parses as in C")             \
    X(EDGE, "edge", 1, "an unmasked edge slice, filled with 0, that reaches exp, log, / or a max or min") \
    X(SUPER, "super", 1, "a stored value that depends on ctx.super or ctx.supers")                       \
    X(UNUSED, "unused", 1, "a variable or parameter that nothing reads")                                 \
    X(ONCE, "once", 1, "an atomic or compound store that happens once per CTA beside code of each thread") \
    X(PUBLISH, "publish", 1, "a write that other CTAs read and that comes after the arrive which would publish it")                   \
    X(ELECT, "elect", 1, "code that trusts which lane is elected, or that other lanes have what the elected one computed")             \
    X(RACE, "race", 1, "threads that access one element of shared memory with no barrier between, where that is certain")             \
    X(GPU, "gpu", 1, "a kernel that gets no code for GPUs")

typedef enum WarningKind {
#define X(id, name, on, what) WARN_##id,
    DIAG_WARNINGS(X)
#undef X
        WARNING_COUNT
} WarningKind;

/* Remarks that are asked for: enumerator, name after -R, what they say. */
#define DIAG_REMARKS(X)                                                                                          \
    X(LAYOUT, "layout", "threads, registers and shared memory of each GPU variant, and tiles that change their layout") \
    X(TENSORCORE, "tensorcore", "the instructions that each dot becomes on a GPU, and why no better ones")

typedef enum RemarkKind {
#define X(id, name, what) REMARK_##id,
    DIAG_REMARKS(X)
#undef X
        REMARK_COUNT
} RemarkKind;

typedef enum DiagFormat { DIAG_TEXT, DIAG_JSON } DiagFormat;

typedef struct Diag Diag;

/* Messages go to `out`. At most 100 errors are printed; after that one line says so. */
Diag *diag_new(Arena *arena, const Source *source, FILE *out, DiagFormat format, bool color);
void diag_set_warning(Diag *diag, WarningKind kind, bool on);
void diag_set_remark(Diag *diag, RemarkKind kind, bool on);
bool diag_wants_remark(const Diag *diag, RemarkKind kind);
void diag_set_werror(Diag *diag, bool on);
void diag_set_quiet(Diag *diag, bool on); /* -w */
int diag_error_count(const Diag *diag);
int diag_message_count(const Diag *diag); /* of all kinds that were shown, without notes */
void diag_finish(Diag *diag); /* closes the JSON array, flushes */

/* One line without a final full stop, lower case, names in single quotes, expected and found in source spelling. A note belongs to the message before it. */
void diag_error(Diag *diag, Span span, const char *format, ...) __attribute__((format(printf, 3, 4)));
void diag_warning(Diag *diag, WarningKind kind, Span span, const char *format, ...) __attribute__((format(printf, 4, 5)));
void diag_remark(Diag *diag, Span span, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* One of a group, whether or not that is on, but for -w; what was said at a place is not said there again. */
void diag_remark_once(Diag *diag, RemarkKind kind, Span span, const char *format, ...) __attribute__((format(printf, 4, 5)));
void diag_note(Diag *diag, Span span, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Of `count` names the one nearest to `name` by edit distance, or NULL where none is near enough to be meant. */
const char *nearest_name(const char *name, const char *const *names, int count);

/* ---- foreign.c: words of other languages, foreign.def ---- */

typedef enum ForeignKind { FOREIGN_TYPE, FOREIGN_NAME, FOREIGN_TOKEN } ForeignKind;

/* What is written here instead, or NULL. */
const char *foreign_find(ForeignKind kind, const char *theirs);

/* ---- dim.c: integer expressions over dims, interned in a normal form, so that equal ones are one pointer ---- */

/* Sums and products are kept as one polynomial: terms in a fixed order, constants folded. Kinds are those of runtime/program.h; DIM is a name. */
typedef struct Dim Dim;
struct Dim {
    PhbExprOp kind;
    int64_t value;      /* INT: the value; EXTENT: the axis */
    const char *name;   /* DIM: the dim; EXTENT: the tensor (interned) */
    const Dim *a, *b;   /* operands */
};

typedef struct DimPool DimPool;

DimPool *dim_pool_new(Arena *arena);
const Dim *dim_int(DimPool *pool, int64_t value);
const Dim *dim_name(DimPool *pool, const char *interned_name);
const Dim *dim_extent(DimPool *pool, const char *interned_tensor, int axis);
/* NULL where constants overflow or are divided by zero, or where the expression has more terms or nodes than any program needs. The arity of `kind` decides
 * whether b is read. */
const Dim *dim_op(DimPool *pool, PhbExprOp kind, const Dim *a, const Dim *b);
bool dim_is_int(const Dim *dim, int64_t *value);
bool dim_mentions(const Dim *dim, const char *interned_name);
/* Puts dims in for names where `lookup` gives non-NULL; NULL on overflow. */
typedef const Dim *DimLookup(void *context, const char *name);
const Dim *dim_substitute(DimPool *pool, const Dim *dim, DimLookup *lookup, void *context);
void dim_print(Buffer *buffer, const Dim *dim); /* source spelling, with the fewest parentheses */

/* ---- layout.c: where a tile's elements lie in the threads of a CTA ---- */

/* Element (row, column) of register r of a thread is the XOR of the bases of the bits that are set in r, in its lane and in its warp. A tile is padded to powers
 * of two; a basis of zero repeats elements; every element has a place. Warps beyond 2^warps repeat the first ones. */
enum { LAYOUT_REGISTERS = 8, LAYOUT_LANES = 5, LAYOUT_WARPS = 5, LAYOUT_MAX_BITS = LAYOUT_REGISTERS + LAYOUT_LANES + LAYOUT_WARPS };

typedef struct LayoutBasis {
    int at[2]; /* row, column: what the bit adds to them */
} LayoutBasis;

typedef struct Layout {
    int registers, warps; /* bits of them; lanes have five */
    LayoutBasis bases[LAYOUT_MAX_BITS]; /* registers, lanes, warps */
} Layout;

int layout_bits(const Layout *layout);
const LayoutBasis *layout_lanes(const Layout *layout);
const LayoutBasis *layout_warps(const Layout *layout);
bool layout_same(const Layout *a, const Layout *b);
int layout_register_at(const Layout *layout, int index, int axis); /* what the register adds to the row, or column */
int layout_find_register(const Layout *layout, int64_t row, int64_t column); /* what adds these; -1: none does */
int layout_log2(int64_t n); /* bits that hold n different numbers */
/* Where `to` gives each thread what it has in registers: for each register of `to`, the one of `from`. False where threads would have to exchange any. */
bool layout_permutes(const Layout *from, const Layout *to, int sources[1 << LAYOUT_REGISTERS]);
Layout layout_slice(const Layout *layout, int axis); /* of the tile with that axis reduced to extent 1 */
Layout layout_swap(const Layout *layout);            /* of the transposed tile */
/* `vector` elements along the axis `fast` a thread, then lanes along it, then warps along it, or along the other one, then further registers. Those that give
 * a layout say false where a thread would have more than 2^LAYOUT_REGISTERS registers of it. */
bool layout_blocked(int64_t rows, int64_t columns, int fast, int64_t vector, bool warps_across, int warp_bits, Layout *layout);
/* For products: `width` columns a thread, lanes 4 x 8, warps and further registers about square. */
bool layout_outer(int64_t rows, int64_t columns, int64_t width, int warp_bits, Layout *layout);
/* The accumulator of a warp's 16 x 8 matrix instruction, repeated: rows and columns a warp about square, or, `by_rows`, whole rows a warp. False as above, and
 * where the tile has less than 16 rows or 8 columns. A first factor of such a product may have it, too, 16 columns a step. */
bool layout_mma(int64_t rows, int64_t columns, bool by_rows, int warp_bits, Layout *layout);
bool layout_is_mma(const Layout *layout);
/* The accumulator of matrix instructions of four warps, whole rows of 64 each. It is a layout_mma, too. False where the tile has less than 64 rows for every four
 * warps, or less than 8 columns, or a thread more than 128 registers of it. */
bool layout_wgmma(int64_t rows, int64_t columns, int warp_bits, Layout *layout);
void layout_print(Buffer *buffer, const Layout *layout); /* "<c1 c2, c4 c8 r1 r2 0, r4 r8>": registers, lanes, warps */

/* ---- type.c: types, interned; compared by pointer ---- */

typedef enum TypeKind {
    TYPE_POISON, /* after an error: accepted everywhere, never reported */
    TYPE_VOID,
    TYPE_SCALAR,
    TYPE_TENSOR, /* kernel parameter, rank 1-4 */
    TYPE_TILE,   /* rank 1-2, static extents */
    TYPE_SHARED, /* rank 1-3 */
} TypeKind;

typedef struct Type {
    TypeKind kind;
    PhbDType scalar;
    int rank; /* 0 for scalars */
    const Dim *dims[PHB_MAX_RANK];
    const Layout *layout; /* of tiles at the memory level; NULL at the value level */
} Type;

typedef struct TypePool TypePool;

TypePool *type_pool_new(Arena *arena);
const Type *type_poison(TypePool *pool);
const Type *type_void(TypePool *pool);
const Type *type_scalar(TypePool *pool, PhbDType scalar);
const Type *type_shaped(TypePool *pool, TypeKind kind, PhbDType scalar, int rank, const Dim *const *dims);
const Type *type_laid_out(TypePool *pool, const Type *tile, const Layout *layout); /* NULL: the value level's */
void type_print(Buffer *buffer, const Type *type); /* "f32", "tile<f32>[16, BLOCK]" */

bool dtype_is_float(PhbDType dtype);
bool dtype_is_int(PhbDType dtype); /* bool is neither */
bool dtype_is_signed(PhbDType dtype);
int dtype_bits(PhbDType dtype);
const char *dtype_name(PhbDType dtype);
bool dtype_find(const char *name, PhbDType *dtype);

/* ---- signature.c: what a kernel declares, in both readings; shared by sema and IR ---- */

typedef struct SearchDim {
    const char *name;
    Span span;
    VEC(int64_t) leaf;    /* @autotune: expanded, never empty */
    VEC(int64_t) cluster; /* @cluster: expanded; empty where the name is not under @cluster */
    Span cluster_span;
} SearchDim;

typedef struct Param {
    const char *name;
    Span span;
    const Type *type; /* tensor or scalar */
} Param;

/* The number of CTAs along one axis: every count must agree at launch. Empty means 1. */
typedef struct GridAxis {
    VEC(const Dim *) counts; /* over dims and extents of the leaf, e.g. ceildiv(extent(c, 0), BLOCK) */
    VEC(Span) spans;         /* where each comes from */
    bool stated;             /* by @grid */
} GridAxis;

typedef struct Aligned {
    const char *dim; /* symbolic */
    const Dim *tile;
    Span span;
} Aligned;

typedef struct Require {
    const Dim *cond;
    Span span;
} Require;

typedef struct Halo {
    int param; /* a tensor */
    const Dim *width[PHB_MAX_RANK]; /* by axis: how far reads reach beyond the own super-tile */
    Span span;
} Halo;

/* What @tensorcore asks of products of f32 tiles: enumerator, name, whether it rounds their factors. */
#define TENSORCORE_MODES(X)      \
    X(BF16X6, "bf16x6", false)   \
    X(TF32X3, "tf32x3", false)   \
    X(F16X3, "f16x3", false)     \
    X(TF32, "tf32", true)        \
    X(BF16, "bf16", true)        \
    X(F16, "f16", true)

typedef enum TensorcoreMode {
    TENSORCORE_NONE, /* no @tensorcore */
#define X(id, name, rounds) TENSORCORE_##id,
    TENSORCORE_MODES(X)
#undef X
        TENSORCORE_COUNT
} TensorcoreMode;

typedef struct Signature {
    const char *name;
    Span span; /* of the name */
    VEC(const char *) symbolic; /* in order of first appearance */
    VEC(SearchDim) search;
    VEC(Param) params;
    GridAxis grid[3];
    VEC(Aligned) aligned;
    VEC(Require) require;
    VEC(Halo) halo; /* each tensor at most once */
    int64_t launch_threads, launch_min_blocks, launch_max_regs; /* 0: the compiler's choice */
    const Dim *cluster_dims[3]; /* @cluster_dims: CTAs of a thread-block cluster, over search dims; NULL: none */
    bool nonportable;
    Span cluster_dims_span;
    bool fastmath;
    TensorcoreMode tensorcore; /* without a mode: BF16X6 */
    const Dim *pipeline;       /* @pipeline: stages, over search dims; NULL: the compiler's choice */
    Span pipeline_span;
    bool has_cluster; /* an @cluster attribute stands on the kernel */
    Span cluster_span;
} Signature;

const char *tensorcore_name(TensorcoreMode mode); /* "" for none */
bool tensorcore_rounds(TensorcoreMode mode);
const SearchDim *signature_search(const Signature *signature, const char *interned_name);
int signature_param(const Signature *signature, const char *interned_name); /* index, or -1 */
/* Whether two dims are the same number under every assignment of the leaf's sets. Errs to false past a few thousand assignments. */
bool signature_dims_equal(const Signature *signature, DimPool *pool, const Dim *a, const Dim *b);

/* ---- everything that one compilation shares ---- */

typedef struct Context {
    Arena *arena;
    Interner *interner;
    DimPool *dims;
    TypePool *types;
    Diag *diag;
    const Source *source;
} Context;

#endif
