/* Inside the generator. Expressions are texts in the generator's arena, of exactly the element type and the shape asked for.
 *
 * In sections by file: expression.c, shape.c, slices.c, position.c, goal.c, loops.c, fns.c, frame.c; generate.c has the statements and the kernel. */
#ifndef PHOBOS_TESTS_GENERATE_H
#define PHOBOS_TESTS_GENERATE_H

#include "compiler/sema/check.h"
#include "tests/differential/differential.h"

enum { MOST_NAMES = 64, MOST_TENSORS = 14, MOST_OUTPUTS = 3, MOST_FNS = 3, EXPRESSION_DEPTH = 3 };

typedef struct Shape {
    int rank; /* 0: a scalar */
    int64_t extent[2];
} Shape;

typedef struct Name {
    const char *text;
    PhbDType type;
    Shape shape;
    bool is_mutable, is_small; /* is_small: an i64 that may stand in a subscript */
    bool is_decided;           /* it hangs on no computed float */
    int output;                /* its value reaches this output; -1: perhaps some */
} Name;

/* What the subscripts of one axis may be. In a kernel with @cluster all accesses agree. */
typedef enum AxisUse { AXIS_ANY, AXIS_ROW, AXIS_COLUMN, AXIS_BATCH, AXIS_FREE } AxisUse;

typedef struct Operand { /* a tensor */
    const char *name;
    PhbDType type;
    int rank;
    AxisUse use[PHB_MAX_RANK];
    const char *dim[PHB_MAX_RANK];
    int64_t extent[PHB_MAX_RANK];
    bool is_literal[PHB_MAX_RANK]; /* the extent is a number in the source */
    Shape made_for;
} Operand;

typedef struct Output {
    const char *name;
    PhbDType type;
} Output;

typedef struct Fn {
    const char *name;
    PhbDType type;
    Shape shape; /* of its first parameter and its result; the second parameter is a scalar of the same type */
} Fn;

/* The values of a search dim. A tile's extent with more than one is known to the generator by a number that nothing else has, and always spelled. */
typedef struct SearchSet {
    const char *text;
    int64_t least, most;
} SearchSet;

typedef struct Generator {
    Arena *arena;
    Random random;
    Coverage tally; /* what was chosen so far, in earlier kernels too: what is rare goes first */
    const char *kernel;
    Buffer fns, params, dims, body;
    int indent;
    Name names[MOST_NAMES];
    int name_count, fresh;
    Operand operands[MOST_TENSORS];
    int operand_count, dim_count;
    Output outputs[MOST_OUTPUTS];
    int output_count;
    Fn callees[MOST_FNS];
    int fn_count;
    SearchSet search[2];
    int64_t tile[2];         /* rows TM, columns TN */
    const char *spelling[2]; /* of those extents, where it may be other than a number */
    int rank;                /* of the outputs */
    int shift[2], beyond[2]; /* under @grid: offsets begin so far below 0, and CTAs go on beyond the end */
    bool is_searched, has_cluster, has_batch, in_fn, is_shifted;
} Generator;

/* A value that some goal asked for. */
typedef struct Made {
    const char *text; /* NULL: not in this kernel */
    PhbDType type;
    Shape shape;
} Made;

/* expression.c: choices, spellings, element-wise expressions */
const char *text(Generator *g, const char *format, ...) __attribute__((format(printf, 2, 3)));
void line(Generator *g, const char *format, ...) __attribute__((format(printf, 2, 3)));
int below(Generator *g, int count);
bool chance(Generator *g, int percent);
PhbDType any_type(Generator *g);
PhbDType number_type(Generator *g);
PhbDType one_of(Generator *g, const PhbDType *types, int count);
Shape scalar_shape(void);
Shape matrix(int64_t rows, int64_t columns);
bool same_shape(Shape a, Shape b);
Shape any_shape(Generator *g);
int64_t some_extent(Generator *g);
const char *extent_text(Generator *g, int64_t extent);
const char *count_text(Generator *g, Shape shape); /* of elements */
const char *type_text_of(Generator *g, PhbDType type, Shape shape);
const char *find_name(Generator *g, PhbDType type, Shape shape);
const char *expression(Generator *g, PhbDType type, Shape shape, int depth);
/* Mostly as a tensor holds it: with all digits, special values, neighbours of ties. */
const char *operand_of(Generator *g, PhbDType type, Shape shape, int depth);
const char *loose_expression(Generator *g, PhbDType type, Shape shape, int depth); /* of a shape that broadcasts */
const char *decided_index(Generator *g);                                           /* an i64 of the same sort; NULL: none */
const char *decided_condition(Generator *g);                                       /* one that hangs on integers alone */
bool operator_compares(BinaryOp op);
BinaryOp arithmetic_for(Generator *g, PhbDType type); /* whose result has the type of its operands */
const char *binary_of(Generator *g, BinaryOp op, PhbDType type, Shape shape, int depth);
const char *unary_of(Generator *g, UnaryOp op, PhbDType type, Shape shape, int depth);
const char *convert_from(Generator *g, PhbDType from, PhbDType type, Shape shape, int depth);
const char *bitcast_from(Generator *g, PhbDType from, PhbDType type, Shape shape, int depth);
const char *element_call_of(Generator *g, Builtin builtin, PhbDType type, Shape shape, int depth);
const char *where_of(Generator *g, PhbDType type, Shape shape, int depth);
const char *counted(Generator *g, PhbDType type, Shape shape); /* from nothing but iota */

/* shape.c: reductions, reordering, dots; NULL where the type or shape has none */
bool summed_type(Generator *g, PhbDType type, PhbDType *from); /* a type whose sums have this one */
const char *reduction(Generator *g, PhbDType type, Shape shape, int depth);
const char *reduction_of(Generator *g, Builtin builtin, PhbDType from, Shape shape, int depth); /* shape: of the result */
const char *reordered(Generator *g, PhbDType type, Shape shape, int depth);
const char *reordered_by(Generator *g, Builtin builtin, PhbDType type, Shape shape, int depth);
const char *dot_expression(Generator *g, PhbDType type, Shape shape, int depth);
const char *dot_of(Generator *g, Builtin builtin, PhbDType from, Shape shape, int depth);
PhbDType dot_operand(Generator *g, PhbDType type); /* a type whose dots have this one, that of f32, f64 or i32 */

/* slices.c */
const char *load(Generator *g, PhbDType type, Shape shape); /* NULL: there are tensors enough */
const char *new_dim(Generator *g, int64_t extent);
const char *own_subscripts(Generator *g, bool may_be_part, Shape *shape); /* of an output */
Shape own_shape(const Generator *g);
const char *small_index(Generator *g); /* an i64 expression near 0 */

/* position.c */
const char *position(Generator *g);                     /* an i64 */
const char *position_of(Generator *g, Builtin builtin); /* NULL: not in this kernel */
const char *position_mask(Generator *g);                /* bool of the own shape: which elements are where */

/* goal.c: an expression around the rarest operator, conversion or builtin of some sort */
Made goal(Generator *g);

/* loops.c */
void if_statement(Generator *g, int depth, bool in_loop);
void for_statement(Generator *g, int depth);
void while_statement(Generator *g, int depth);
void contraction(Generator *g, int depth);

/* fns.c */
void add_fn(Generator *g);
bool store_by_fn(Generator *g, const Output *output); /* a call of a fn that stores to a tensor it is given */
const char *call_fn(Generator *g, PhbDType type, Shape shape, int depth);
const char *load_by_fn(Generator *g, const Operand *operand, Shape shape);

/* frame.c: what stands around the statements */
void choose_frame(Generator *g);
void print_attributes(Generator *g, Buffer *out, bool is_aligned);
void add_outputs(Generator *g);
void add_scalars(Generator *g);
void add_frame(Generator *g);
void print_setting(Generator *g, Buffer *out, uint64_t seed, bool is_aligned);

/* generate.c */
const char *add_name(Generator *g, PhbDType type, Shape shape, bool is_mutable);
void statements(Generator *g, int depth, int count, bool in_loop);
void assign_to(Generator *g, const char *target, PhbDType type, Shape shape);

#endif
