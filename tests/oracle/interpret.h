/* The oracle: what a checked kernel computes, by the letter of LANGUAGE.md. It walks sema's tree with plain loops, one CTA after the other, one
 * element at a time, and shares nothing with lowering and code generation. Numbers are doubles and 64-bit integers, rounded or wrapped to their type
 * after each operation. Where the language fixes the bits the oracle has them; where it does not (transcendental functions), each number carries how
 * far another correct result may be, and what is computed from it carries that on. A boolean or an integer that hangs on such a number is unknown and
 * not compared.
 *
 * In sections by file: number.c, value.c, expr.c, builtin.c, interpret.c. */
#ifndef PHOBOS_TESTS_INTERPRET_H
#define PHOBOS_TESTS_INTERPRET_H

#include "compiler/sema/sema.h"

/* ---- number.c: one element ---- */

typedef struct Number {
    double real;      /* float types: the value, one of the type's */
    double error;     /* another correct result is at most this far; INFINITY: nothing is known. Integers and bool: 0 or INFINITY */
    uint64_t integer; /* integer types: sign- or zero-extended; bool: 0 or 1 */
} Number;

Number number_from_int(PhbDType type, int64_t value); /* wraps, or rounds */
Number number_from_real(PhbDType type, double value); /* float types; rounds */
Number number_unknown(void);
bool number_is_known(Number number);
/* The spacing of the type's numbers around `value`. */
double number_spacing(PhbDType type, double value);

/* The operands have the type; so has the result, but for comparisons. */
Number number_unary(PhbDType type, UnaryOp op, Number a);
Number number_binary(PhbDType type, BinaryOp op, Number a, Number b);
Number number_convert(PhbDType from, PhbDType to, Number a);
Number number_bitcast(PhbDType from, PhbDType to, Number a);
Number number_max(PhbDType type, Number a, Number b);
Number number_min(PhbDType type, Number a, Number b);
Number number_fma(PhbDType type, Number a, Number b, Number c);
/* `sum` of `count` terms whose magnitudes add up to `magnitude`, as the sum in some other order may be: c·n·eps·Σ|terms|. */
Number number_in_any_order(PhbDType type, Number sum, int64_t count, double magnitude);
Number number_abs(PhbDType type, Number a);
Number number_ceildiv(PhbDType type, Number a, Number b);
Number number_popcount(PhbDType type, Number a);
Number number_clz(PhbDType type, Number a);
/* sqrt floor ceil round trunc: exact functions of one float, rounded. */
Number number_exact(PhbDType type, double function(double), Number a);
/* Within 4 units of the last place in f32 and f64; f16 and bf16 round what f32 gives. */
Number number_transcendental(PhbDType type, Builtin function, Number a);
Number number_pow(PhbDType type, Number a, Number b);

/* The bits of a number in memory, in the low bytes, and back. */
uint64_t number_bits(PhbDType type, Number number);
Number number_from_bits(PhbDType type, uint64_t bits);

/* ---- value.c: scalars, tiles and tensors ---- */

typedef struct Value {
    PhbDType scalar;
    int rank; /* 0: a scalar */
    int64_t extent[PHB_MAX_RANK];
    Number *at; /* row-major */
} Value;

int64_t value_count(const Value *value);
/* The element of `value` that meets position `index` of a result of `rank` axes: axes of extent 1 repeat, missing ones are in front. */
Number value_meet(const Value *value, int rank, const int64_t *index);
/* Steps `index` through `extent` in row-major order; false after the last. */
bool index_next(int rank, const int64_t *extent, int64_t *index);
/* [n] as [1, n]. */
Value value_as_matrix(Value value);

/* ---- interpret.c: a kernel on its tensors ---- */

typedef struct Tensor {
    Value value; /* the owner frees value.at */
    bool given;  /* inputs and in-outs: value.at holds the file's numbers; else zeros */
} Tensor;

typedef struct DimValue {
    const char *name; /* symbolic and search dims, interned */
    int64_t value;
} DimValue;

/* Where a slice lies along an axis of its tensor when it is not inside. */
typedef enum EdgeSide { EDGE_BEFORE, EDGE_AFTER, EDGE_BOTH, EDGE_BEYOND, EDGE_SIDE_COUNT } EdgeSide;

/* How many slices did. */
typedef struct Edges {
    int64_t load[EDGE_SIDE_COUNT], store[EDGE_SIDE_COUNT];
} Edges;

typedef struct Problem {
    const CheckedKernel *kernel;
    DimPool *dims_pool;
    const DimValue *dims;
    int dim_count;
    Tensor *tensors;  /* one for each parameter of the signature; scalars have rank 0 */
    int64_t max_work; /* elements computed before giving up */
    Edges *edges;     /* may be NULL */
    bool any_order; /* sums, and products of 16-bit floats, come in an order of the device's own: they have LANGUAGE.md 10's bound instead of bits */
} Problem;

typedef enum Outcome {
    OUTCOME_DONE,
    OUTCOME_UNDECIDED, /* control flow or an address hangs on an unknown number */
    OUTCOME_TOO_LONG,  /* more work than max_work */
    OUTCOME_REFUSED,   /* the launch is an error: grid counts disagree, @aligned or @require do not hold */
} Outcome;

/* Whether the launch is none that is refused; the tensors' extents count, their numbers do not. */
bool problem_launches(const Problem *problem);
/* Runs every CTA; stores go to problem->tensors. */
Outcome interpret(const Problem *problem);
/* The value of a dim expression, and false where it has none. */
bool problem_dim(const Problem *problem, const Dim *dim, int64_t *value);

/* ---- shared by expr.c, builtin.c and interpret.c ---- */

typedef struct Variable {
    const Symbol *symbol;
    Value value;
} Variable;

typedef struct Interpreter {
    const Problem *problem;
    int64_t block[3], grid[3];
    Arena *arena; /* one CTA's */
    VEC(Variable) variables;
    const Symbol *result; /* of the fn that runs; NULL: the kernel, or a fn that gives nothing */
    int64_t work;
    Outcome outcome; /* other than DONE: everything unwinds */
} Interpreter;

Value new_value(Interpreter *in, PhbDType scalar, int rank, const int64_t *extent);
Value new_scalar(Interpreter *in, PhbDType scalar, Number number);
Value new_value_of(Interpreter *in, const Type *type); /* of the type's shape */
int64_t static_dim(Interpreter *in, const Dim *dim);
Value eval(Interpreter *in, const Expr *expr);
Number eval_scalar(Interpreter *in, const Expr *expr);
int64_t eval_index(Interpreter *in, const Expr *expr); /* an i64 that must be known */
Value eval_builtin(Interpreter *in, const Expr *expr);
Value binary_values(Interpreter *in, BinaryOp op, Value a, Value b); /* operands of one type, broadcast */
/* acc + a·b, one chain an element in ascending k. */
Value dot_values(Interpreter *in, const Expr *call, const Value *acc);
Value load_slice(Interpreter *in, const Expr *slice);
void store_slice(Interpreter *in, const Expr *slice, Value value);
Value variable_get(Interpreter *in, const Symbol *symbol);
void variable_set(Interpreter *in, const Symbol *symbol, Value value);
Value eval_inlined(Interpreter *in, const Expr *expr);
void stop(Interpreter *in, Outcome outcome);

#endif
