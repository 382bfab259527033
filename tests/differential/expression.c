/* Random element-wise expressions of a given type and shape. */
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

void line(Generator *g, const char *format, ...) {
    char *statement = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&statement, format, arguments) >= 0)
        buffer_printf(&g->body, "%*s%s\n", 4 * g->indent, "", statement);
    va_end(arguments);
    free(statement);
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

PhbDType one_of(Generator *g, const PhbDType *types, int count) {
    return types[below(g, count)];
}

Shape scalar_shape(void) {
    return (Shape){0, {0, 0}};
}

Shape matrix(int64_t rows, int64_t columns) {
    return (Shape){2, {rows, columns}};
}

int64_t some_extent(Generator *g) {
    static const int64_t extents[] = {1, 2, 3, 4, 5, 8, 16, 17, 32, 33};
    int which = below(g, 18);
    return which < 4 ? g->tile[0] : which < 8 ? g->tile[1] : extents[which - 8];
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

bool same_shape(Shape a, Shape b) {
    return a.rank == b.rank && (a.rank < 1 || a.extent[0] == b.extent[0]) && (a.rank < 2 || a.extent[1] == b.extent[1]);
}

const char *extent_text(Generator *g, int64_t extent) {
    for (int axis = 1; axis >= 0; axis--)
        if (extent == g->tile[axis] && g->spelling[axis] && (g->is_searched || chance(g, 60)))
            return g->spelling[axis];
    return text(g, "%" PRId64, extent);
}

const char *count_text(Generator *g, Shape shape) {
    if (shape.rank == 2 && g->is_searched)
        return text(g, "%s * %s", extent_text(g, shape.extent[0]), extent_text(g, shape.extent[1]));
    return shape.rank == 2 ? text(g, "%" PRId64, shape.extent[0] * shape.extent[1]) : extent_text(g, shape.extent[0]);
}

const char *type_text_of(Generator *g, PhbDType type, Shape shape) {
    if (shape.rank == 0)
        return dtype_name(type);
    if (shape.rank == 1)
        return text(g, "tile<%s>[%s]", dtype_name(type), extent_text(g, shape.extent[0]));
    return text(g, "tile<%s>[%s, %s]", dtype_name(type), extent_text(g, shape.extent[0]), extent_text(g, shape.extent[1]));
}

/* ---- leaves ---- */

static const char *literal(Generator *g, PhbDType type) {
    static const char *const floats[] = {"0.5", "1.0", "-1.5", "2.0", "0.0", "inf", "-3.25", "1e-3", "0x1p-3", "100.0", "nan"};
    if (type == PHB_BOOL)
        return chance(g, 50) ? "true" : "false";
    if (dtype_is_float(type))
        return text(g, "%s(%s)", dtype_name(type), floats[below(g, chance(g, 80) ? 10 : 11)]);
    int value = chance(g, 80) ? below(g, 9) : below(g, 120);
    bool is_negative = dtype_is_signed(type) && chance(g, 30);
    return text(g, chance(g, 85) ? "%s(%s%d)" : "%s(%s0x%x)", dtype_name(type), is_negative ? "-" : "", value);
}

const char *find_name(Generator *g, PhbDType type, Shape shape) {
    int first = below(g, g->name_count + 1);
    for (int k = 0; k < g->name_count; k++) {
        const Name *name = &g->names[(first + k) % g->name_count];
        if (name->type == type && same_shape(name->shape, shape))
            return name->text;
    }
    return NULL;
}

const char *counted(Generator *g, PhbDType type, Shape shape) {
    if (shape.rank == 0)
        return literal(g, type);
    const char *flat = text(g, "iota(%s)", count_text(g, shape));
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

const char *operand_of(Generator *g, PhbDType type, Shape shape, int depth) {
    const char *value = chance(g, 60) && !g->in_fn ? load(g, type, shape) : NULL;
    return value ? value : expression(g, type, shape, depth);
}

/* ---- operators ---- */

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

const char *loose_expression(Generator *g, PhbDType type, Shape shape, int depth) {
    const char *reduced = depth > 0 && chance(g, 15) ? reduction(g, type, smaller_shape(g, shape), depth) : NULL;
    if (reduced)
        return reduced;
    return expression(g, type, chance(g, 40) ? smaller_shape(g, shape) : shape, depth);
}

bool operator_compares(BinaryOp op) {
    return op >= BINARY_EQ && op <= BINARY_GE;
}

BinaryOp arithmetic_for(Generator *g, PhbDType type) {
    BinaryOp best = type == PHB_BOOL ? BINARY_AND : BINARY_ADD;
    for (int i = 0; i < 6; i++) {
        BinaryOp op = (BinaryOp)below(g, BINARY_OP_COUNT);
        bool is_arithmetic = !operator_compares(op) && op != BINARY_LOGIC_OR && op != BINARY_LOGIC_AND;
        if (is_arithmetic && operator_takes(op, type) && (g->tally.binary[op][type] < g->tally.binary[best][type] || chance(g, 30)))
            best = op;
    }
    return best;
}

/* Two types of which neither is `type` and whose arithmetic is done in it; false: none were found. */
static bool mixed_pair(Generator *g, PhbDType type, PhbDType *a, PhbDType *b) {
    PhbDType result;
    for (int i = 0; i < 20; i++) {
        *a = number_type(g), *b = number_type(g);
        if (*a != *b && *a != type && *b != type && dtype_promote(*a, *b, &result) && result == type)
            return true;
    }
    return false;
}

/* A type that arithmetic with `type` widens to it. */
static PhbDType narrower(Generator *g, PhbDType type) {
    PhbDType other = number_type(g), result;
    return type != PHB_BOOL && dtype_promote(type, other, &result) && result == type ? other : type;
}

/* One operand has the shape; the other may be smaller, be of another type that the first takes in, or be a bare number. */
const char *binary_of(Generator *g, BinaryOp op, PhbDType type, Shape shape, int depth) {
    PhbDType first = type, second = narrower(g, type);
    bool is_shift = op == BINARY_SHL || op == BINARY_SHR;
    g->tally.binary[op][type]++;
    if (is_shift || type == PHB_BOOL)
        second = type;
    else if (chance(g, 25) && !mixed_pair(g, type, &first, &second))
        first = second = type;
    const char *a = expression(g, first, shape, depth - 1), *b = loose_expression(g, second, shape, depth - 1);
    if (dtype_is_int(type) && first == type && chance(g, 12))
        b = text(g, "%d", below(g, 100));
    else if (dtype_is_float(type) && first == type && chance(g, 12))
        b = text(g, "%d.%d", below(g, 4), 5 * below(g, 2));
    if (is_shift && chance(g, 70))
        b = text(g, "(%s & %d)", b, 2 * dtype_bits(type) - 1); /* most amounts are about the width */
    return chance(g, 50) || is_shift ? text(g, "(%s %s %s)", a, binary_op_text(op), b) : text(g, "(%s %s %s)", b, binary_op_text(op), a);
}

static const char *compare(Generator *g, Shape shape, int depth) {
    return binary_of(g, (BinaryOp)(BINARY_EQ + below(g, 6)), number_type(g), shape, depth);
}

const char *decided_index(Generator *g) {
    int first = below(g, g->name_count + 1);
    for (int k = 0; k < g->name_count; k++) {
        const Name *name = &g->names[(first + k) % g->name_count];
        if (name->is_decided && name->type == PHB_I64 && name->shape.rank == 0)
            return name->text;
    }
    return NULL;
}

const char *decided_condition(Generator *g) {
    static const char *const ops[] = {"<", "<=", ">", ">=", "==", "!="};
    const char *a = decided_index(g);
    if (!a || chance(g, 30))
        a = position(g);
    return text(g, "%s %% 3 %s %d", a, ops[below(g, 6)], below(g, 3));
}

const char *unary_of(Generator *g, UnaryOp op, PhbDType type, Shape shape, int depth) {
    static const char *const spellings[] = {"-", "!", "~"};
    g->tally.unary[op][type]++;
    return text(g, "%s%s", spellings[op], operand_of(g, type, shape, depth - 1));
}

/* ---- conversions ---- */

const char *convert_from(Generator *g, PhbDType from, PhbDType type, Shape shape, int depth) {
    g->tally.convert[from][type]++;
    return text(g, "%s(%s)", dtype_name(type), operand_of(g, from, shape, depth - 1));
}

static const char *convert(Generator *g, PhbDType type, Shape shape, int depth) {
    PhbDType from = any_type(g);
    for (int i = 0; i < 8; i++) {
        PhbDType candidate = any_type(g);
        if (from == type || (candidate != type && g->tally.convert[candidate][type] < g->tally.convert[from][type]))
            from = candidate;
    }
    return convert_from(g, from, type, shape, depth);
}

const char *bitcast_from(Generator *g, PhbDType from, PhbDType type, Shape shape, int depth) {
    g->tally.bitcast[from][type]++;
    const char *operand = dtype_is_float(from) ? leaf(g, from, shape) : expression(g, from, shape, depth - 1);
    if (dtype_is_float(from)) /* the bits of a NaN are nobody's promise */
        operand = text(g, "where(%s == %s, %s, %s(0.5))", operand, operand, operand, dtype_name(from));
    return text(g, "bitcast(%s, %s)", operand, dtype_name(type));
}

static const char *bitcast(Generator *g, PhbDType type, Shape shape, int depth) {
    PhbDType from = number_type(g);
    while (dtype_bits(from) != dtype_bits(type))
        from = number_type(g);
    return bitcast_from(g, from, type, shape, depth);
}

/* ---- calls ---- */

const char *element_call_of(Generator *g, Builtin builtin, PhbDType type, Shape shape, int depth) {
    int count = builtin_table[builtin].least, exact = below(g, count);
    const char *name = builtin_name(builtin), *arguments = "";
    g->tally.builtin[builtin][type]++;
    if ((builtin == BUILTIN_MIN || builtin == BUILTIN_MAX) && chance(g, 20))
        name = builtin == BUILTIN_MIN ? "tmin" : "tmax";
    for (int i = 0; i < count; i++) {
        const char *argument = i == exact ? expression(g, type, shape, depth - 1) : loose_expression(g, type, shape, depth - 1);
        arguments = text(g, "%s%s%s", arguments, i ? ", " : "", argument);
    }
    return text(g, "%s(%s)", name, arguments);
}

static const char *element_call(Generator *g, PhbDType type, Shape shape, int depth) {
    Builtin best = BUILTIN_NONE;
    for (int i = 0; i < 300; i++) {
        Builtin builtin = (Builtin)below(g, BUILTIN_COUNT);
        if (builtin_table[builtin].result == RESULT_ELEMENT && builtin_takes(builtin, type) &&
            (!best || g->tally.builtin[builtin][type] < g->tally.builtin[best][type]))
            best = builtin;
    }
    return element_call_of(g, best, type, shape, depth);
}

const char *where_of(Generator *g, PhbDType type, Shape shape, int depth) {
    int exact = below(g, 3);
    g->tally.builtin[BUILTIN_WHERE][type]++;
    const char *condition = exact == 0 ? expression(g, PHB_BOOL, shape, depth - 1) : loose_expression(g, PHB_BOOL, shape, depth - 1);
    const char *a = exact == 1 ? expression(g, type, shape, depth - 1) : loose_expression(g, type, shape, depth - 1);
    const char *b = exact == 2 ? expression(g, type, shape, depth - 1) : loose_expression(g, type, shape, depth - 1);
    return text(g, "where(%s, %s, %s)", condition, a, b);
}

static const char *boolean(Generator *g, Shape shape, int depth) {
    int kind = below(g, 10);
    if (same_shape(shape, own_shape(g)) && !g->in_fn && chance(g, 15))
        return position_mask(g);
    if (kind < 5)
        return compare(g, shape, depth);
    if (kind < 7)
        return binary_of(g, chance(g, 50) ? BINARY_LOGIC_AND : BINARY_LOGIC_OR, PHB_BOOL, shape, depth);
    return kind < 8 ? unary_of(g, UNARY_NOT, PHB_BOOL, shape, depth) : NULL;
}

static const char *number(Generator *g, PhbDType type, Shape shape, int depth, int kind) {
    if (kind < 3)
        return element_call(g, type, shape, depth);
    if (kind < 4)
        return unary_of(g, dtype_is_int(type) && chance(g, 50) ? UNARY_BITNOT : UNARY_NEG, type, shape, depth);
    return bitcast(g, type, shape, depth);
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
        return binary_of(g, arithmetic_for(g, type), type, shape, depth);
    if (kind < 9)
        return convert(g, type, shape, depth);
    if (kind < 10)
        return where_of(g, type, shape, depth);
    if (kind < 15)
        return type == PHB_BOOL ? leaf(g, type, shape) : number(g, type, shape, depth, kind - 10);
    value = kind < 17 ? dot_expression(g, type, shape, depth) : kind < 19 ? reordered(g, type, shape, depth) : NULL;
    return value ? value : leaf(g, type, shape);
}
