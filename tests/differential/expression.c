/* Random expressions of a given type and shape. */
#include "tests/differential/generate.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *text(Generator *g, const char *format, ...) {
    char *result = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&result, format, arguments);
    va_end(arguments);
    const char *copy = arena_strndup(g->arena, result, (size_t)length);
    free(result);
    return copy;
}

int below(Generator *g, int count) {
    return random_below(&g->random, count);
}

bool chance(Generator *g, int percent) {
    return random_chance(&g->random, percent);
}

/* ---- types and shapes ---- */

PhbDType any_type(Generator *g) {
    return (PhbDType)below(g, PHB_DTYPE_COUNT);
}

PhbDType number_type(Generator *g) {
    return (PhbDType)below(g, PHB_BOOL); /* the last one */
}

static PhbDType one_of(Generator *g, const PhbDType *types, int count) {
    return types[below(g, count)];
}

Shape scalar_shape(void) {
    return (Shape){0, {0, 0}};
}

static Shape matrix(int64_t rows, int64_t columns) {
    return (Shape){2, {rows, columns}};
}

static int64_t some_extent(Generator *g) {
    static const int64_t extents[] = {1, 2, 3, 4, 5, 8, 16, 17, 33};
    int which = below(g, 16);
    return which < 4 ? g->tile[0] : which < 8 ? g->tile[1] : extents[which % 9];
}

Shape any_shape(Generator *g) {
    int kind = below(g, 20);
    if (kind < 5)
        return scalar_shape();
    if (kind < 13)
        return own_shape(g);
    if (kind < 15)
        return (Shape){1, {some_extent(g), 0}};
    return matrix(some_extent(g), some_extent(g));
}

int64_t shape_count(Shape shape) {
    return shape.rank == 0 ? 1 : shape.rank == 1 ? shape.extent[0] : shape.extent[0] * shape.extent[1];
}

static bool same_shape(Shape a, Shape b) {
    return a.rank == b.rank && (a.rank < 1 || a.extent[0] == b.extent[0]) && (a.rank < 2 || a.extent[1] == b.extent[1]);
}

const char *extent_text(Generator *g, int64_t extent) {
    if (!g->in_fn && extent == g->tile[1] && chance(g, 60))
        return "TN";
    if (!g->in_fn && extent == g->tile[0] && g->rank > 1 && chance(g, 60))
        return "TM";
    return text(g, "%" PRId64, extent);
}

const char *type_text_of(Generator *g, PhbDType type, Shape shape) {
    if (shape.rank == 0)
        return dtype_name(type);
    if (shape.rank == 1)
        return text(g, "tile<%s>[%s]", dtype_name(type), extent_text(g, shape.extent[0]));
    return text(g, "tile<%s>[%s, %s]", dtype_name(type), extent_text(g, shape.extent[0]), extent_text(g, shape.extent[1]));
}

/* ---- leaves ---- */

const char *literal(Generator *g, PhbDType type) {
    static const char *const floats[] = {"0.5", "1.0", "-1.5", "2.0", "0.0", "inf", "-3.25", "1e-3", "0x1p-3", "100.0", "nan"};
    if (type == PHB_BOOL)
        return chance(g, 50) ? "true" : "false";
    if (dtype_is_float(type))
        return text(g, "%s(%s)", dtype_name(type), floats[below(g, chance(g, 80) ? 10 : 11)]);
    int value = chance(g, 80) ? below(g, 9) : below(g, 120);
    bool is_negative = dtype_is_signed(type) && chance(g, 30);
    return text(g, "%s(%s%d)", dtype_name(type), is_negative ? "-" : "", value);
}

static const char *find_name(Generator *g, PhbDType type, Shape shape) {
    int first = below(g, g->name_count + 1);
    for (int k = 0; k < g->name_count; k++) {
        const Name *name = &g->names[(first + k) % g->name_count];
        if (name->type == type && same_shape(name->shape, shape))
            return name->text;
    }
    return NULL;
}

static const char *position(Generator *g) {
    const char *axes = g->rank == 1 ? "xxx" : g->rank == 2 ? "xyx" : "xyz"; /* those that stores begin at */
    if (!g->has_cluster && !g->in_fn && chance(g, 50))
        return text(g, "ctx.%s.%c", chance(g, 60) ? "block" : "grid", axes[below(g, 3)]);
    if (!g->has_cluster && !g->in_fn && chance(g, 20))
        return "program_id(0)";
    if (!g->in_fn && !g->has_cluster && g->operand_count > 0) {
        const Operand *operand = &g->operands[below(g, g->operand_count)];
        static const char *const functions[] = {"extent", "origin", "whole"};
        return text(g, "%s(%s, %d)", functions[below(g, 3)], operand->name, below(g, operand->rank));
    }
    return g->in_fn || chance(g, 50) ? text(g, "%d", below(g, 9)) : "TN";
}

/* From nothing but numbers. */
static const char *counted(Generator *g, PhbDType type, Shape shape) {
    if (shape.rank == 0)
        return literal(g, type);
    const char *flat = text(g, "iota(%s)", shape.rank == 1 ? extent_text(g, shape.extent[0]) : text(g, "%" PRId64, shape_count(shape)));
    g->tally->builtin[BUILTIN_IOTA]++;
    if (shape.rank == 2)
        flat = text(g, "reshape(%s, %s, %s)", flat, extent_text(g, shape.extent[0]), extent_text(g, shape.extent[1]));
    if (type == PHB_BOOL)
        return text(g, "(%s %% 3 == 1)", flat);
    return type == PHB_I32 ? flat : text(g, "%s(%s)", dtype_name(type), flat);
}

static const char *leaf(Generator *g, PhbDType type, Shape shape) {
    const char *name = find_name(g, type, shape);
    if (name && chance(g, 60))
        return name;
    if (shape.rank == 0 && type == PHB_I64 && chance(g, 40))
        return position(g);
    if (shape.rank == 0 && chance(g, 60))
        return literal(g, type);
    const char *value = g->in_fn || chance(g, 10) ? NULL : load(g, type, shape);
    return value ? value : name ? name : counted(g, type, shape);
}

/* ---- element-wise ---- */

static Shape smaller_shape(Generator *g, Shape shape) {
    if (shape.rank == 0 || chance(g, 45))
        return scalar_shape();
    if (shape.rank == 1)
        return chance(g, 50) ? (Shape){1, {1, 0}} : shape;
    switch (below(g, 4)) {
    case 0:
        return matrix(1, shape.extent[1]);
    case 1:
        return matrix(shape.extent[0], 1);
    case 2:
        return (Shape){1, {shape.extent[1], 0}};
    default:
        return shape;
    }
}

static const char *reduction(Generator *g, PhbDType type, Shape shape, int depth);

const char *loose_expression(Generator *g, PhbDType type, Shape shape, int depth) {
    Shape smaller = smaller_shape(g, shape);
    const char *reduced = depth > 0 && chance(g, 15) ? reduction(g, type, smaller, depth) : NULL;
    if (reduced)
        return reduced;
    return expression(g, type, chance(g, 40) ? smaller_shape(g, shape) : shape, depth);
}

static bool takes(BinaryOp op, PhbDType type) {
    switch (op) {
    case BINARY_OR:
    case BINARY_XOR:
    case BINARY_AND:
        return !dtype_is_float(type);
    case BINARY_SHL:
    case BINARY_SHR:
        return dtype_is_int(type);
    case BINARY_ADD:
    case BINARY_SUB:
    case BINARY_MUL:
    case BINARY_DIV:
    case BINARY_REM:
        return type != PHB_BOOL;
    default:
        return false;
    }
}

BinaryOp binary_for(Generator *g, PhbDType type) {
    BinaryOp best = type == PHB_BOOL ? BINARY_AND : BINARY_ADD;
    for (int i = 0; i < 6; i++) {
        BinaryOp op = (BinaryOp)below(g, BINARY_OP_COUNT);
        if (takes(op, type) && (g->tally->binary[op][type] < g->tally->binary[best][type] || chance(g, 30)))
            best = op;
    }
    g->tally->binary[best][type]++;
    return best;
}

/* One operand has the shape; the other may be smaller, be of another type that the first takes in, or be a bare number. */
static const char *binary(Generator *g, PhbDType type, Shape shape, int depth) {
    BinaryOp op = binary_for(g, type);
    PhbDType other = type, narrower = number_type(g);
    if (type != PHB_BOOL && dtype_is_float(narrower) == dtype_is_float(type) && dtype_bits(narrower) < dtype_bits(type) &&
        (dtype_is_float(type) || dtype_is_signed(type) || !dtype_is_signed(narrower)))
        other = narrower;
    const char *a = expression(g, type, shape, depth - 1);
    const char *b = loose_expression(g, other, shape, depth - 1);
    if (dtype_is_int(type) && chance(g, 12))
        b = text(g, "%d", below(g, 100));
    else if (dtype_is_float(type) && chance(g, 12))
        b = text(g, "%d.%d", below(g, 4), 5 * below(g, 2));
    return chance(g, 50) ? text(g, "(%s %s %s)", a, binary_op_text(op), b) : text(g, "(%s %s %s)", b, binary_op_text(op), a);
}

static const char *compare(Generator *g, Shape shape, int depth) {
    static const BinaryOp ops[] = {BINARY_EQ, BINARY_NE, BINARY_LT, BINARY_LE, BINARY_GT, BINARY_GE};
    PhbDType type = number_type(g);
    const char *a = expression(g, type, shape, depth - 1), *b = loose_expression(g, type, shape, depth - 1);
    const char *op = binary_op_text(ops[below(g, 6)]);
    return chance(g, 50) ? text(g, "(%s %s %s)", a, op, b) : text(g, "(%s %s %s)", b, op, a);
}

const char *decided_condition(Generator *g) {
    static const char *const ops[] = {"<", "<=", ">", ">=", "==", "!="};
    const char *a = find_name(g, PHB_I64, scalar_shape());
    if (!a || chance(g, 30))
        a = position(g);
    return text(g, "%s %% 3 %s %d", a, ops[below(g, 6)], below(g, 3));
}

static const char *convert(Generator *g, PhbDType type, Shape shape, int depth) {
    PhbDType from = any_type(g);
    for (int i = 0; i < 8; i++) {
        PhbDType candidate = any_type(g);
        if (from == type || (candidate != type && g->tally->convert[candidate][type] < g->tally->convert[from][type]))
            from = candidate;
    }
    g->tally->convert[from][type]++;
    return text(g, "%s(%s)", dtype_name(type), expression(g, from, shape, depth - 1));
}

static const char *bitcast(Generator *g, PhbDType type, Shape shape, int depth) {
    PhbDType from = number_type(g);
    while (dtype_bits(from) != dtype_bits(type))
        from = number_type(g);
    const char *operand = dtype_is_float(from) ? leaf(g, from, shape) : expression(g, from, shape, depth - 1);
    if (dtype_is_float(from)) /* the bits of a NaN are nobody's promise */
        operand = text(g, "where(%s == %s, %s, %s(0.5))", operand, operand, operand, dtype_name(from));
    return text(g, "bitcast(%s, %s)", operand, dtype_name(type));
}

typedef struct Function {
    Builtin builtin;
    int arguments;
    enum { OF_FLOATS, OF_NUMBERS, OF_INTEGERS } kind;
} Function;

static const Function functions[] = {
    {BUILTIN_CEILDIV, 2, OF_INTEGERS},
    {BUILTIN_EXP, 1, OF_FLOATS},
    {BUILTIN_EXP2, 1, OF_FLOATS},
    {BUILTIN_LOG, 1, OF_FLOATS},
    {BUILTIN_LOG2, 1, OF_FLOATS},
    {BUILTIN_SQRT, 1, OF_FLOATS},
    {BUILTIN_RSQRT, 1, OF_FLOATS},
    {BUILTIN_TANH, 1, OF_FLOATS},
    {BUILTIN_SIGMOID, 1, OF_FLOATS},
    {BUILTIN_ERF, 1, OF_FLOATS},
    {BUILTIN_SIN, 1, OF_FLOATS},
    {BUILTIN_COS, 1, OF_FLOATS},
    {BUILTIN_FLOOR, 1, OF_FLOATS},
    {BUILTIN_CEIL, 1, OF_FLOATS},
    {BUILTIN_ROUND, 1, OF_FLOATS},
    {BUILTIN_TRUNC, 1, OF_FLOATS},
    {BUILTIN_ABS, 1, OF_NUMBERS},
    {BUILTIN_MIN, 2, OF_NUMBERS},
    {BUILTIN_MAX, 2, OF_NUMBERS},
    {BUILTIN_POW, 2, OF_FLOATS},
    {BUILTIN_FMA, 3, OF_FLOATS},
    {BUILTIN_POPCOUNT, 1, OF_INTEGERS},
    {BUILTIN_CLZ, 1, OF_INTEGERS},
};

static bool function_takes(const Function *function, PhbDType type) {
    return function->kind == OF_NUMBERS || (function->kind == OF_FLOATS) == dtype_is_float(type);
}

static const char *element_call(Generator *g, PhbDType type, Shape shape, int depth) {
    const int count = sizeof functions / sizeof *functions;
    const Function *best = NULL;
    for (int i = 0; i < 6 || !best; i++) {
        const Function *function = &functions[below(g, count)];
        if (function_takes(function, type) && (!best || g->tally->builtin[function->builtin] < g->tally->builtin[best->builtin]))
            best = function;
    }
    g->tally->builtin[best->builtin]++;
    int exact = below(g, best->arguments);
    const char *name = builtin_name(best->builtin), *arguments = "";
    if ((best->builtin == BUILTIN_MIN || best->builtin == BUILTIN_MAX) && chance(g, 20))
        name = best->builtin == BUILTIN_MIN ? "tmin" : "tmax";
    for (int i = 0; i < best->arguments; i++) {
        const char *argument = i == exact ? expression(g, type, shape, depth - 1) : loose_expression(g, type, shape, depth - 1);
        arguments = text(g, "%s%s%s", arguments, i ? ", " : "", argument);
    }
    return text(g, "%s(%s)", name, arguments);
}

static const char *where(Generator *g, PhbDType type, Shape shape, int depth) {
    int exact = below(g, 3);
    const char *condition = exact == 0 ? expression(g, PHB_BOOL, shape, depth - 1) : loose_expression(g, PHB_BOOL, shape, depth - 1);
    const char *a = exact == 1 ? expression(g, type, shape, depth - 1) : loose_expression(g, type, shape, depth - 1);
    const char *b = exact == 2 ? expression(g, type, shape, depth - 1) : loose_expression(g, type, shape, depth - 1);
    return text(g, "where(%s, %s, %s)", condition, a, b);
}

/* ---- reductions, shapes, dots; NULL where the type or shape has none ---- */

static bool summed_type(Generator *g, PhbDType type, PhbDType *from) {
    static const PhbDType to_f32[] = {PHB_F16, PHB_BF16, PHB_F32}, to_i32[] = {PHB_I8, PHB_U8, PHB_I16, PHB_U16, PHB_I32};
    *from = type == PHB_F32 ? one_of(g, to_f32, 3) : type == PHB_I32 ? one_of(g, to_i32, 5) : type;
    return type == PHB_F32 || type == PHB_F64 || (dtype_is_int(type) && dtype_bits(type) >= 32);
}

static const char *reduction(Generator *g, PhbDType type, Shape shape, int depth) {
    static const char *const of_rows[] = {"rowmax", "rowmin", "rowsum"}, *const of_columns[] = {"colmax", "colmin", "colsum"};
    static const char *const of_all[] = {"max", "min", "sum"};
    PhbDType from = type, summed;
    int which = below(g, 3);
    bool is_row = shape.rank == 2 && shape.extent[1] == 1, is_column = shape.rank == 2 && shape.extent[0] == 1;
    if (is_row && is_column)
        is_row = chance(g, 50), is_column = !is_row;
    if (!(is_row || is_column || shape.rank == 0))
        return NULL;
    if (type == PHB_BOOL) {
        Shape operand = any_shape(g);
        return shape.rank == 0 && operand.rank ? text(g, "%s(%s)", which ? "any" : "all", expression(g, PHB_BOOL, operand, depth - 1)) : NULL;
    }
    if (which == 2) {
        if (!summed_type(g, type, &summed))
            return NULL;
        from = summed;
    }
    if (is_row && type == PHB_I32 && chance(g, 40))
        return text(g, "rowargmax(%s)", expression(g, number_type(g), matrix(shape.extent[0], some_extent(g)), depth - 1));
    if (is_row)
        return text(g, "%s(%s)", of_rows[which], expression(g, from, matrix(shape.extent[0], some_extent(g)), depth - 1));
    if (is_column)
        return text(g, "%s(%s)", of_columns[which], expression(g, from, matrix(some_extent(g), shape.extent[1]), depth - 1));
    Shape operand = any_shape(g);
    return operand.rank ? text(g, "%s(%s)", of_all[which], expression(g, from, operand, depth - 1)) : NULL;
}

static const char *reshaped(Generator *g, PhbDType type, Shape shape, int depth) {
    int64_t count = shape_count(shape);
    Shape from = {1, {count, 0}};
    if (shape.rank == 0)
        return NULL;
    for (int64_t rows = 2; rows <= count && chance(g, 70); rows++)
        if (count % rows == 0)
            from = matrix(rows, count / rows);
    const char *value = expression(g, type, from, depth - 1);
    if (shape.rank == 1)
        return text(g, "reshape(%s, %s)", value, extent_text(g, shape.extent[0]));
    return text(g, "reshape(%s, %s, %s)", value, extent_text(g, shape.extent[0]), extent_text(g, shape.extent[1]));
}

static const char *reordered(Generator *g, PhbDType type, Shape shape, int depth) {
    PhbDType from;
    switch (below(g, 5)) {
    case 0:
        return reshaped(g, type, shape, depth);
    case 1:
        return shape.rank == 2 ? text(g, "transpose(%s)", expression(g, type, matrix(shape.extent[1], shape.extent[0]), depth - 1)) : NULL;
    case 2:
        if (shape.rank != 2 || type == PHB_BOOL)
            return NULL;
        return text(g, "%s(%s%s)", chance(g, 50) ? "tril" : "triu", expression(g, type, shape, depth - 1),
            chance(g, 50) ? text(g, ", %d", below(g, 7) - 3) : "");
    case 3:
        if (shape.rank == 0 || type == PHB_BOOL || !summed_type(g, type, &from))
            return NULL;
        return text(g, "cumsum(%s)", expression(g, from, shape, depth - 1));
    default:
        return reduction(g, type, shape, depth);
    }
}

const char *dot_expression(Generator *g, PhbDType type, Shape shape, int depth) {
    static const PhbDType to_f32[] = {PHB_F16, PHB_BF16, PHB_F32}, to_i32[] = {PHB_I8, PHB_U8};
    if (shape.rank != 2 || (type != PHB_F32 && type != PHB_F64 && type != PHB_I32))
        return NULL;
    PhbDType from = type == PHB_F32 ? one_of(g, to_f32, 3) : type == PHB_I32 ? one_of(g, to_i32, 2) : PHB_F64;
    int64_t k = some_extent(g);
    bool is_transposed = chance(g, 50);
    const char *a = expression(g, from, matrix(shape.extent[0], k), depth - 1);
    const char *b = expression(g, from, is_transposed ? matrix(shape.extent[1], k) : matrix(k, shape.extent[1]), depth - 1);
    return text(g, "%s(%s, %s)", is_transposed ? "dot_t" : "dot", a, b);
}

static const char *call_fn(Generator *g, PhbDType type, Shape shape, int depth) {
    for (int i = 0; i < g->fn_count; i++)
        if (g->fns[i].type == type && same_shape(g->fns[i].shape, shape))
            return text(g, "%s(%s, %s)", g->fns[i].name, expression(g, type, shape, depth - 1), expression(g, type, scalar_shape(), depth - 1));
    return NULL;
}

static const char *boolean(Generator *g, Shape shape, int depth) {
    int kind = below(g, 10);
    if (kind < 5)
        return compare(g, shape, depth);
    if (kind < 7) {
        const char *a = expression(g, PHB_BOOL, shape, depth - 1), *b = loose_expression(g, PHB_BOOL, shape, depth - 1);
        return text(g, "(%s %s %s)", a, chance(g, 50) ? "&&" : "||", b);
    }
    if (kind < 8)
        return text(g, "!%s", expression(g, PHB_BOOL, shape, depth - 1));
    return NULL;
}

static const char *unary(Generator *g, PhbDType type, Shape shape, int depth) {
    return text(g, "%s%s", dtype_is_int(type) && chance(g, 50) ? "~" : "-", expression(g, type, shape, depth - 1));
}

const char *expression(Generator *g, PhbDType type, Shape shape, int depth) {
    if (depth <= 0)
        return leaf(g, type, shape);
    const char *value = call_fn(g, type, shape, depth);
    if (value && chance(g, 40))
        return value;
    value = type == PHB_BOOL ? boolean(g, shape, depth) : NULL;
    int kind = below(g, 20);
    if (value)
        return value;
    if (kind < 5)
        return binary(g, type, shape, depth);
    if (kind < 8)
        return type == PHB_BOOL ? where(g, type, shape, depth) : element_call(g, type, shape, depth);
    if (kind < 12)
        return convert(g, type, shape, depth);
    if (kind < 13)
        return type == PHB_BOOL ? leaf(g, type, shape) : unary(g, type, shape, depth);
    if (kind < 14)
        return where(g, type, shape, depth);
    if (kind < 15)
        return type == PHB_BOOL ? leaf(g, type, shape) : bitcast(g, type, shape, depth);
    value = kind < 17 ? dot_expression(g, type, shape, depth) : kind < 19 ? reordered(g, type, shape, depth) : NULL;
    return value ? value : leaf(g, type, shape);
}
