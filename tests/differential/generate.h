/* Inside the generator. Expressions are texts in the generator's arena, of exactly the element type and the shape asked for. */
#ifndef PHOBOS_TESTS_GENERATE_H
#define PHOBOS_TESTS_GENERATE_H

#include "tests/differential/differential.h"

enum { MOST_NAMES = 64, MOST_TENSORS = 12, MOST_FNS = 3 };

typedef struct Shape {
    int rank; /* 0: a scalar */
    int64_t extent[2];
} Shape;

typedef struct Name {
    const char *text;
    PhbDType type;
    Shape shape;
    bool is_mutable, is_small; /* is_small: an i64 that may stand in a subscript */
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

typedef struct Fn {
    const char *name;
    PhbDType type;
    Shape shape; /* of its first parameter and its result; the second parameter is a scalar of the same type */
} Fn;

typedef struct Generator {
    Arena *arena;
    Random random;
    Tally *tally;
    const char *kernel;
    Buffer params, dims, body;
    int indent;
    Name names[MOST_NAMES];
    int name_count, fresh;
    Operand operands[MOST_TENSORS];
    int operand_count, dim_count;
    Fn fns[MOST_FNS];
    int fn_count;
    int64_t tile[2];                                /* rows TM, columns TN */
    int rank;                                       /* of the outputs */
    bool has_cluster, has_batch, in_fn, is_shifted; /* is_shifted: @grid, offsets below 0 */
} Generator;

/* expression.c */
const char *text(Generator *g, const char *format, ...) __attribute__((format(printf, 2, 3)));
int below(Generator *g, int count);
bool chance(Generator *g, int percent);
PhbDType any_type(Generator *g);
PhbDType number_type(Generator *g);
Shape scalar_shape(void);
Shape any_shape(Generator *g);
int64_t shape_count(Shape shape);
const char *extent_text(Generator *g, int64_t extent);
const char *type_text_of(Generator *g, PhbDType type, Shape shape);
const char *literal(Generator *g, PhbDType type);
const char *expression(Generator *g, PhbDType type, Shape shape, int depth);
const char *loose_expression(Generator *g, PhbDType type, Shape shape, int depth); /* of a shape that broadcasts */
const char *dot_expression(Generator *g, PhbDType type, Shape shape, int depth);
const char *decided_condition(Generator *g); /* one that hangs on integers alone */
BinaryOp binary_for(Generator *g, PhbDType type);

/* slices.c */
const char *load(Generator *g, PhbDType type, Shape shape);
const char *own_subscripts(Generator *g, bool may_be_part, Shape *shape); /* of an output */
Shape own_shape(const Generator *g);
const char *small_index(Generator *g); /* an i64 expression near 0 */

#endif
