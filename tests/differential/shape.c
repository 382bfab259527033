/* Random reductions, reorderings and dots. */
#include "tests/differential/generate.h"

/* ---- reductions ---- */

bool summed_type(Generator *g, PhbDType type, PhbDType *from) {
    static const PhbDType to_f32[] = {PHB_F16, PHB_BF16, PHB_F32}, to_i32[] = {PHB_I8, PHB_U8, PHB_I16, PHB_U16, PHB_I32};
    *from = type == PHB_F32 ? one_of(g, to_f32, 3) : type == PHB_I32 ? one_of(g, to_i32, 5) : type;
    return type == PHB_F32 || type == PHB_F64 || (dtype_is_int(type) && dtype_bits(type) >= 32);
}

static Shape tile_shape(Generator *g) {
    Shape shape = any_shape(g);
    return shape.rank ? shape : own_shape(g);
}

/* Long enough that it matters in which order a sum is taken, now and then. */
static int64_t reduced_extent(Generator *g) {
    static const int64_t extents[] = {24, 40, 65, 100};
    return chance(g, 30) ? extents[below(g, 4)] : some_extent(g);
}

/* The operand of a reduction whose result has the shape: [r, 1], [1, c] or a scalar. Rows of rank 1 count as [1, n]. */
static Shape reduced_shape(Generator *g, Builtin builtin, Shape result) {
    switch (builtin_table[builtin].result) {
    case RESULT_ROW:
    case RESULT_ROW_SUM:
    case RESULT_ROW_INDEX:
        return result.extent[0] == 1 && chance(g, 20) ? (Shape){1, {reduced_extent(g), 0}} : matrix(result.extent[0], reduced_extent(g));
    case RESULT_COL:
    case RESULT_COL_SUM:
        return matrix(reduced_extent(g), result.extent[1]);
    default:
        return tile_shape(g);
    }
}

const char *reduction_of(Generator *g, Builtin builtin, PhbDType from, Shape shape, int depth) {
    g->tally.builtin[builtin][from]++;
    return text(g, "%s(%s)", builtin_name(builtin), operand_of(g, from, reduced_shape(g, builtin, shape), depth - 1));
}

const char *reduction(Generator *g, PhbDType type, Shape shape, int depth) {
    static const Builtin of_rows[] = {BUILTIN_ROWMAX, BUILTIN_ROWMIN, BUILTIN_ROWSUM},
                         of_columns[] = {BUILTIN_COLMAX, BUILTIN_COLMIN, BUILTIN_COLSUM};
    static const Builtin of_all[] = {BUILTIN_MAX_OF, BUILTIN_MIN_OF, BUILTIN_SUM};
    PhbDType from = type, summed;
    int which = below(g, 3);
    bool is_row = shape.rank == 2 && shape.extent[1] == 1, is_column = shape.rank == 2 && shape.extent[0] == 1;
    if (is_row && is_column)
        is_row = chance(g, 50), is_column = !is_row;
    if (!(is_row || is_column || shape.rank == 0))
        return NULL;
    if (type == PHB_BOOL)
        return shape.rank == 0 ? reduction_of(g, which ? BUILTIN_ANY : BUILTIN_ALL, PHB_BOOL, shape, depth) : NULL;
    if (is_row && type == PHB_I32 && chance(g, 40))
        return reduction_of(g, BUILTIN_ROWARGMAX, number_type(g), shape, depth);
    if (which == 2 && !summed_type(g, type, &summed))
        return NULL;
    from = which == 2 ? summed : from;
    return reduction_of(g, is_row ? of_rows[which] : is_column ? of_columns[which] : of_all[which], from, shape, depth);
}

/* ---- order ---- */

/* Another shape of as many elements. */
static Shape reshapable(Generator *g, Shape shape) {
    if (shape.rank == 1)
        return chance(g, 50) ? matrix(1, shape.extent[0]) : matrix(shape.extent[0], 1);
    if (g->is_searched)
        return matrix(shape.extent[1], shape.extent[0]);
    int64_t count = shape.extent[0] * shape.extent[1];
    Shape from = {1, {count, 0}};
    for (int64_t rows = 2; rows <= count && chance(g, 70); rows++)
        if (count % rows == 0)
            from = matrix(rows, count / rows);
    return from;
}

static const char *reshaped(Generator *g, PhbDType type, Shape shape, int depth) {
    const char *value = expression(g, type, reshapable(g, shape), depth - 1);
    if (shape.rank == 1)
        return text(g, "reshape(%s, %s)", value, extent_text(g, shape.extent[0]));
    return text(g, "reshape(%s, %s, %s)", value, extent_text(g, shape.extent[0]), extent_text(g, shape.extent[1]));
}

const char *reordered_by(Generator *g, Builtin builtin, PhbDType type, Shape shape, int depth) {
    PhbDType from = type;
    bool is_triangle = builtin == BUILTIN_TRIL || builtin == BUILTIN_TRIU;
    if (shape.rank == 0 || (shape.rank == 1 && (is_triangle || builtin == BUILTIN_TRANSPOSE)) || (is_triangle && type == PHB_BOOL))
        return NULL;
    if (builtin == BUILTIN_CUMSUM && !summed_type(g, type, &from))
        return NULL;
    g->tally.builtin[builtin][from]++;
    if (builtin == BUILTIN_RESHAPE)
        return reshaped(g, type, shape, depth);
    if (builtin == BUILTIN_CUMSUM)
        return text(g, "cumsum(%s)", operand_of(g, from, shape, depth - 1));
    if (builtin == BUILTIN_TRANSPOSE)
        return text(g, "transpose(%s)", expression(g, type, matrix(shape.extent[1], shape.extent[0]), depth - 1));
    const char *diagonal = chance(g, 50) ? "" : text(g, ", %d", below(g, 7) - 3);
    return text(g, "%s(%s%s)", builtin_name(builtin), expression(g, type, shape, depth - 1), diagonal);
}

const char *reordered(Generator *g, PhbDType type, Shape shape, int depth) {
    static const Builtin builtins[] = {BUILTIN_RESHAPE, BUILTIN_TRANSPOSE, BUILTIN_TRIL, BUILTIN_TRIU, BUILTIN_CUMSUM};
    int which = below(g, 7);
    return which < 5 ? reordered_by(g, builtins[which], type, shape, depth) : reduction(g, type, shape, depth);
}

/* ---- dots ---- */

PhbDType dot_operand(Generator *g, PhbDType type) {
    static const PhbDType to_f32[] = {PHB_F16, PHB_BF16, PHB_F32}, to_i32[] = {PHB_I8, PHB_U8};
    return type == PHB_F32 ? one_of(g, to_f32, 3) : type == PHB_I32 ? one_of(g, to_i32, 2) : PHB_F64;
}

const char *dot_of(Generator *g, Builtin builtin, PhbDType from, Shape shape, int depth) {
    int64_t k = some_extent(g);
    g->tally.builtin[builtin][from]++;
    const char *a = operand_of(g, from, matrix(shape.extent[0], k), depth - 1);
    const char *b = operand_of(g, from, builtin == BUILTIN_DOT_T ? matrix(shape.extent[1], k) : matrix(k, shape.extent[1]), depth - 1);
    return text(g, "%s(%s, %s)", builtin_name(builtin), a, b);
}

const char *dot_expression(Generator *g, PhbDType type, Shape shape, int depth) {
    if (shape.rank != 2 || (type != PHB_F32 && type != PHB_F64 && type != PHB_I32))
        return NULL;
    return dot_of(g, chance(g, 50) ? BUILTIN_DOT_T : BUILTIN_DOT, dot_operand(g, type), shape, depth);
}
