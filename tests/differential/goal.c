/* An expression around what kernels have had least of. */
#include "tests/differential/generate.h"

/* Whether an expression can be built around the row. A kernel with @cluster says where it is in masks alone. */
static bool is_goal(const Generator *g, const Row *row, bool by_type) {
    switch (row->kind) {
    case ROW_UNARY:
    case ROW_BINARY:
    case ROW_CONVERT:
    case ROW_BITCAST:
        return !by_type;
    case ROW_BUILTIN:
    case ROW_BUILTIN_OF_ANY:
        return by_type == (row->kind == ROW_BUILTIN) && !(g->has_cluster && builtin_table[row->a].result == RESULT_POSITION);
    default:
        return false;
    }
}

/* The rarest row, of the builtins by type or of all else, or of the types of one builtin; any of those that are equally rare. */
static Row rarest(Generator *g, bool by_type, Builtin builtin) {
    int count, ties = 0;
    const Row *rows = coverage_rows(g->arena, &g->tally, &count);
    Row best = {.count = INT32_MAX};
    for (int i = 0; i < count; i++) {
        if (!is_goal(g, &rows[i], by_type) || rows[i].count > best.count || (builtin && rows[i].a != (int)builtin))
            continue;
        ties = rows[i].count < best.count ? 1 : ties + 1;
        if (below(g, ties) == 0)
            best = rows[i];
    }
    return best;
}

static Made made(const char *value, PhbDType type, Shape shape) {
    return (Made){value, type, shape};
}

static Shape tile_shape(Generator *g) {
    return chance(g, 80) ? own_shape(g) : matrix(some_extent(g), some_extent(g));
}

static Made reduction_goal(Generator *g, Builtin builtin, PhbDType from) {
    ResultRule rule = builtin_table[builtin].result;
    bool is_sum = rule == RESULT_ROW_SUM || rule == RESULT_COL_SUM || rule == RESULT_TOTAL_SUM;
    bool is_row = rule == RESULT_ROW || rule == RESULT_ROW_SUM || rule == RESULT_ROW_INDEX, is_column = rule == RESULT_COL || rule == RESULT_COL_SUM;
    PhbDType type = is_sum ? sum_type(from) : rule == RESULT_ROW_INDEX ? PHB_I32 : from;
    Shape own = own_shape(g), shape = is_row ? matrix(g->rank == 1 ? 1 : own.extent[0], 1) : is_column ? matrix(1, g->tile[1]) : scalar_shape();
    return made(reduction_of(g, builtin, from, shape, 2), type, shape);
}

static Made builtin_goal(Generator *g, Builtin builtin, PhbDType type) {
    Shape shape = chance(g, 85) ? tile_shape(g) : scalar_shape();
    switch (builtin_table[builtin].result) {
    case RESULT_POSITION:
        g->tally.builtin[builtin][type]++;
        return made(position_of(g, builtin), type, scalar_shape());
    case RESULT_ELEMENT:
        return made(element_call_of(g, builtin, type, shape, 2), type, shape);
    case RESULT_WHERE:
        return made(where_of(g, type, shape, 2), type, shape);
    case RESULT_IOTA:
        g->tally.builtin[builtin][type]++;
        return made(counted(g, type, shape.rank ? shape : own_shape(g)), type, shape.rank ? shape : own_shape(g));
    case RESULT_RESHAPE:
    case RESULT_TRANSPOSE:
    case RESULT_TRIANGLE: {
        Shape tile = matrix(g->rank == 1 ? some_extent(g) : g->tile[0], g->tile[1]);
        return made(reordered_by(g, builtin, type, tile, 2), type, tile);
    }
    case RESULT_CUMSUM:
        shape = shape.rank ? shape : own_shape(g);
        g->tally.builtin[builtin][type]++;
        return made(text(g, "cumsum(%s)", operand_of(g, type, shape, 1)), sum_type(type), shape);
    case RESULT_DOT: {
        Shape tile = matrix(g->rank == 1 ? some_extent(g) : g->tile[0], g->tile[1]);
        return made(dot_of(g, builtin, type, tile, 1), dtype_is_int(type) ? PHB_I32 : type == PHB_F64 ? PHB_F64 : PHB_F32, tile);
    }
    default:
        return reduction_goal(g, builtin, type);
    }
}

Made goal(Generator *g) {
    Row row = rarest(g, chance(g, 15), BUILTIN_NONE);
    if (row.kind == ROW_BUILTIN_OF_ANY)
        row = rarest(g, true, (Builtin)row.a);
    PhbDType type = (PhbDType)row.b;
    Shape shape = chance(g, 85) ? tile_shape(g) : scalar_shape();
    switch (row.kind) {
    case ROW_BINARY: {
        bool is_compare = operator_compares((BinaryOp)row.a);
        return made(binary_of(g, (BinaryOp)row.a, type, shape, 2), is_compare ? PHB_BOOL : type, shape);
    }
    case ROW_UNARY:
        return made(unary_of(g, (UnaryOp)row.a, type, shape, 2), type, shape);
    case ROW_CONVERT:
        shape = shape.rank ? shape : own_shape(g);
        return made(convert_from(g, (PhbDType)row.a, type, shape, 2), type, shape);
    case ROW_BITCAST:
        return made(bitcast_from(g, (PhbDType)row.a, type, shape, 2), type, shape);
    default:
        return builtin_goal(g, (Builtin)row.a, type);
    }
}
