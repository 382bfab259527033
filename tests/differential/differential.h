/* Random kernels against the oracle: every executable of a text has to give the oracle's numbers, and all of them the same bits.
 *
 * In sections by file: random.c, generate.c (over expression.c and slices.c, generate.h), subject.c, data.c, run.c, shrink.c, coverage.c; main.c is
 * the command. */
#ifndef PHOBOS_TESTS_DIFFERENTIAL_H
#define PHOBOS_TESTS_DIFFERENTIAL_H

#include "tests/oracle/interpret.h"

/* ---- random.c: splitmix64 ---- */

typedef struct Random {
    uint64_t state;
} Random;

uint64_t random_bits(Random *random);
int random_below(Random *random, int count); /* 0 .. count-1 */
bool random_chance(Random *random, int percent);
uint64_t random_seed_of(uint64_t seed, const char *name);

/* ---- generate.c: a kernel from a seed ---- */

/* How often each thing was chosen: the generator prefers what is rare. */
typedef struct Tally {
    int convert[PHB_DTYPE_COUNT][PHB_DTYPE_COUNT], bitcast[PHB_DTYPE_COUNT][PHB_DTYPE_COUNT];
    int builtin[BUILTIN_COUNT];
    int binary[BINARY_OP_COUNT][PHB_DTYPE_COUNT];
} Tally;

/* A text with the kernel `name`, its functions, and a comment with the extents of its dims and the seed of its data. The caller frees it. */
char *generate_kernel(uint64_t seed, const char *name, Tally *tally);

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
/* Tensors hold their data; a scalar parameter its value. Freed by problem_fini. */
bool problem_init(Problem *problem, const Subject *subject, const Setting *setting);
void problem_fini(Problem *problem);

/* ---- data.c: random tensors and their files ---- */

void data_fill(Tensor *tensor, const char *name, uint64_t seed, bool may_be_absent);
void *data_bytes(const Value *value, size_t *size); /* in the file's format, on the heap */
/* The first element that is not the oracle's, or -1. */
int64_t data_compare(const Value *expected, const void *found);
/* The first element that differs, or -1; any NaN is any NaN, and what the oracle does not know from NaN's bits is not looked at. */
int64_t data_compare_bits(PhbDType type, int64_t count, const void *a, const void *b);
void data_print_difference(FILE *out, const Value *expected, const void *found, int64_t at);

/* ---- run.c: compiling and running ---- */

typedef struct Tools {
    const char *phobosc;
    const char *folder; /* to work in */
    bool has_v4;        /* this processor runs x86-64-v4 */
    bool keep;
} Tools;

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

/* One way to build, one executable. */
typedef struct Build {
    const char *name, *options[4];
    bool needs_v4;
} Build;

/* Compiles the text in every way; fills `log` with what the compiler said where it fails. */
bool compile_all(const Tools *tools, const char *text, Buffer *log, bool *unsupported);
/* Runs the compiled executables on the problem of one kernel; problem->tensors become the oracle's results. */
Verdict run_kernel(const Tools *tools, Problem *problem, const Setting *setting, Buffer *log);
/* All of it, for a text of one kernel. */
Verdict judge(const Tools *tools, const char *text, Buffer *log);

/* ---- shrink.c ---- */

/* A smaller text with the same verdict; on the heap. */
char *shrink(const Tools *tools, const char *text, Verdict verdict);

/* ---- coverage.c ---- */

typedef struct Coverage {
    int unary[3][PHB_DTYPE_COUNT], binary[BINARY_OP_COUNT][PHB_DTYPE_COUNT], convert[PHB_DTYPE_COUNT][PHB_DTYPE_COUNT], builtin[BUILTIN_COUNT];
    int statement[STMT_CALL + 1], inlined, sub[SUB_COUNT + 1];
    int slice_type[PHB_DTYPE_COUNT];
    int64_t numbers, unknown; /* results compared, and those nothing is known of */
    Edges edges;
} Coverage;

void coverage_add(Coverage *coverage, const CheckedKernel *kernel);
/* Prints the table; the number of rows below `least`. */
int coverage_print(const Coverage *coverage, FILE *out, int least);

#endif
