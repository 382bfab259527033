/* Random kernels against the oracle: every executable of a text has to give the oracle's numbers, and all of them the same bits.
 *
 * In sections by file: random.c, coverage.c, generate.c (over what generate.h names), subject.c, data.c, run.c, shrink.c; main.c is the command. */
#ifndef PHOBOS_TESTS_DIFFERENTIAL_H
#define PHOBOS_TESTS_DIFFERENTIAL_H

#include "tests/oracle/interpret.h"

#include <sys/types.h>

/* ---- random.c: splitmix64 ---- */

typedef struct Random {
    uint64_t state;
} Random;

uint64_t random_bits(Random *random);
int random_below(Random *random, int count); /* 0 .. count-1 */
bool random_chance(Random *random, int percent);
uint64_t random_seed_of(uint64_t seed, const char *name);

/* ---- coverage.c: what kernels are made of ---- */

enum { UNARY_OP_COUNT = UNARY_BITNOT + 1, STMT_COUNT = STMT_CALL + 1, COVERED_ATTRIBUTES = 5 };

typedef struct Coverage {
    int unary[UNARY_OP_COUNT][PHB_DTYPE_COUNT], binary[BINARY_OP_COUNT][PHB_DTYPE_COUNT]; /* by the type of the operands */
    int convert[PHB_DTYPE_COUNT][PHB_DTYPE_COUNT], bitcast[PHB_DTYPE_COUNT][PHB_DTYPE_COUNT];
    int builtin[BUILTIN_COUNT][PHB_DTYPE_COUNT]; /* by the type of the operand */
    int statement[STMT_COUNT], sub[SUB_COUNT + 1], slice_type[PHB_DTYPE_COUNT], slice_rank[PHB_MAX_RANK + 1];
    int load_edge[EDGE_SIDE_COUNT], store_edge[EDGE_SIDE_COUNT], attribute[COVERED_ATTRIBUTES];
    int inlined, unrolled, searched;
    int64_t numbers, not_numbers, unknown; /* results compared, and those of which nothing is known */
} Coverage;

typedef enum RowKind {
    ROW_UNARY, /* a: operator, b: type */
    ROW_BINARY,
    ROW_CONVERT, /* a: from, b: to */
    ROW_BITCAST,
    ROW_BUILTIN, /* a: builtin, b: type */
    ROW_BUILTIN_OF_ANY,
    ROW_STATEMENT,
    ROW_SUBSCRIPT,
    ROW_SLICE,
    ROW_RANK,
    ROW_LOAD_EDGE,
    ROW_STORE_EDGE,
    ROW_ATTRIBUTE,
    ROW_INLINED,
    ROW_UNROLLED,
    ROW_SEARCHED,
    ROW_KIND_COUNT,
} RowKind;

typedef struct Row {
    RowKind kind;
    int a, b;
    int64_t count;
} Row;

bool operator_takes(BinaryOp op, PhbDType type);
bool builtin_takes(Builtin builtin, PhbDType type);

void coverage_add(Coverage *coverage, const CheckedKernel *kernel);
/* What the oracle has computed, and over which edges it went. */
void coverage_add_results(Coverage *coverage, const Problem *problem, const Edges *edges);
const Row *coverage_rows(Arena *arena, const Coverage *coverage, int *count);
/* Prints the table; the number of rows below `least`. by_type: each builtin of each of its types counts as well. */
int coverage_print(const Coverage *coverage, FILE *out, int least, bool by_type);

/* ---- generate.c: a kernel from a seed ---- */

/* A text with the kernel `name`, its functions, and a comment with the extents of its dims and the seed of its data. What `so_far` has least of is
 * preferred. The caller frees it. */
char *generate_kernel(uint64_t seed, const char *name, const Coverage *so_far);

/* FIRST: the best code; O0: what is compiled soonest; SIMT: what a GPU would run, in the simulator. */
typedef enum BuildChoice { BUILDS_ALL, BUILDS_FIRST, BUILDS_O0, BUILDS_SIMT } BuildChoice;

/* What is used on every kernel. */
typedef struct Tools {
    const char *phobosc;
    const char *folder; /* to work in */
    bool has_v4;        /* this processor runs x86-64-v4 */
    BuildChoice builds;
    bool any_order; /* of sums: the executables run on a device whose order is not the CPU's */
} Tools;

/* ---- subject.c: a text, parsed and checked, and the problem that its comment sets ---- */

typedef struct Subject {
    Arena *arena;
    Source source;
    Context context;
    Ast *ast;
    CheckedProgram *program;
    char *messages; /* of the front end */
    size_t messages_length;
    FILE *stream;
    int errors;
    bool is_unsupported; /* some message is "not supported yet" */
} Subject;

/* `text` must outlive it. */
void subject_open(Subject *subject, const char *text, bool check);
void subject_close(Subject *subject);
const CheckedKernel *subject_kernel(const Subject *subject, const char *name);

typedef struct Setting {
    char name[64]; /* of the kernel */
    uint64_t seed;
    char dims[256]; /* "M=3 N=17" */
} Setting;

/* Reads `// differential NAME seed=7 M=3 N=17`; false where there is none. */
bool setting_read(const char *text, Setting *setting);
/* Tensors hold their data; a scalar parameter its value; search dims are those of a leaf that the executables hold. Freed by problem_fini. False:
 * there is no such leaf. */
bool problem_init(Problem *problem, const Tools *tools, const Subject *subject, const Setting *setting);
void problem_fini(Problem *problem);

/* ---- leaves.c ---- */

/* The search dims, in order, of the leaf with that number modulo the count of those that can be run, which is returned; 0: the executables hold none.
 */
int leaf_values(const Tools *tools, const CheckedKernel *kernel, int number, DimValue *values);

/* ---- data.c: random tensors and their files ---- */

void data_fill(Tensor *tensor, const char *name, uint64_t seed, bool may_be_absent);
void *data_bytes(const Value *value, size_t *size); /* in the file's format, on the heap */
/* The first element that is not the oracle's, or -1. */
int64_t data_compare(const Value *expected, const void *found);
/* The first element that differs, or -1; any NaN is any NaN, and what the oracle does not know from NaN's bits is not looked at. */
int64_t data_compare_bits(PhbDType type, int64_t count, const void *a, const void *b);
void data_print_difference(FILE *out, const Value *expected, const void *found, int64_t at);

/* ---- run.c: compiling and running ---- */

typedef enum Verdict {
    VERDICT_SAME,
    VERDICT_UNDECIDED,   /* the oracle gives no answer */
    VERDICT_UNSUPPORTED, /* the compiler says "not supported yet" */
    VERDICT_INVALID,     /* the front end refuses the text */
    VERDICT_COMPILER,    /* the compiler fails or dies on a checked text */
    VERDICT_RUN,         /* the executable fails */
    VERDICT_WRONG,       /* not the oracle's numbers */
    VERDICT_BITS,        /* not the same bits at another level or number of pods */
    VERDICT_COUNT
} Verdict;

extern const char *const verdict_names[VERDICT_COUNT];

enum { BUILD_COUNT = 4 };

/* The compilers that work on one text. */
typedef struct Compilation {
    const Tools *tools;
    pid_t children[BUILD_COUNT];
} Compilation;

/* Compiles the text in every way, at the same time as what follows. */
Compilation compile_start(const Tools *tools, const char *text);
/* False, and `log` holds what the compiler said, where it failed. */
bool compile_finish(Compilation *compilation, Buffer *log, bool *unsupported);
/* Runs the compiled executables on the problem of one kernel; problem->tensors become the oracle's results. */
Verdict run_kernel(const Tools *tools, Problem *problem, const Setting *setting, Buffer *log);
/* All of it, for a text of one kernel. */
Verdict judge(const Tools *tools, const char *text, Buffer *log);

/* ---- shrink.c ---- */

/* A smaller text with the same verdict; on the heap. */
char *shrink(const Tools *tools, const char *text, Verdict verdict);

#endif
