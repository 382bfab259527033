/* Tensors as they are needed, and slices of them: inside, over an edge, over both. */
#include "tests/differential/generate.h"

#include <inttypes.h>
#include <string.h>

Shape own_shape(const Generator *g) {
    return g->rank == 1 ? (Shape){1, {g->tile[1], 0}} : (Shape){2, {g->tile[0], g->tile[1]}};
}

const char *small_index(Generator *g) {
    for (int i = g->name_count - 1; i >= 0; i--)
        if (g->names[i].is_small && chance(g, 50))
            return chance(g, 30) ? text(g, "%s + %d", g->names[i].text, below(g, 3)) : g->names[i].text;
    return text(g, "%d", below(g, 6) - 2);
}

static const char *new_dim(Generator *g, int64_t extent) {
    const char *name = text(g, "D%d", g->dim_count++);
    buffer_printf(&g->dims, " %s=%" PRId64, name, extent);
    return name;
}

/* Extent `wanted` or about it. */
static void make_axis(Generator *g, Operand *operand, int axis, int64_t wanted, bool is_own_row, bool is_own_column, bool is_point) {
    bool is_own = (is_own_row || is_own_column) && chance(g, 60);
    operand->use[axis] = !g->has_cluster ? AXIS_ANY : is_own ? (is_own_row ? AXIS_ROW : AXIS_COLUMN) : AXIS_FREE;
    if (g->has_cluster && is_point && g->has_batch && chance(g, 50))
        operand->use[axis] = AXIS_BATCH;
    operand->extent[axis] = 0;
    if (is_own) {
        operand->dim[axis] = is_own_row ? "M" : "N";
    } else if (operand->use[axis] == AXIS_BATCH || (g->has_batch && is_point && chance(g, 30))) {
        operand->dim[axis] = "B";
    } else {
        operand->extent[axis] = wanted + below(g, 6) - 2;
        if (operand->extent[axis] < 1)
            operand->extent[axis] = 1;
        operand->is_literal[axis] = chance(g, 40);
        operand->dim[axis] = operand->is_literal[axis] ? text(g, "%" PRId64, operand->extent[axis]) : new_dim(g, operand->extent[axis]);
    }
}

/* A tensor whose last axes are those of the shape, the others points. */
static Operand *new_operand(Generator *g, PhbDType type, Shape shape) {
    Operand *operand = &g->operands[g->operand_count++];
    *operand = (Operand){.type = type, .made_for = shape};
    operand->name = text(g, "a%d", g->operand_count - 1);
    int most_points = shape.rank == 1 ? 0 : PHB_MAX_RANK - shape.rank;
    operand->rank = shape.rank + (shape.rank == 0) + (most_points > 1 ? below(g, most_points) : 0);
    Shape own = own_shape(g);
    buffer_printf(&g->params, ", %s: tensor<%s>[", operand->name, dtype_name(type));
    for (int axis = 0; axis < operand->rank; axis++) {
        int from = axis - (operand->rank - shape.rank); /* of the shape */
        bool is_point = from < 0;
        bool is_last = axis == operand->rank - 1, is_row = own.rank == 2 && axis == operand->rank - 2;
        int64_t wanted = is_point ? 3 : shape.extent[from];
        make_axis(g, operand, axis, wanted, !is_point && is_row && wanted == g->tile[0], !is_point && is_last && wanted == g->tile[1], is_point);
        buffer_printf(&g->params, "%s%s", axis ? ", " : "", operand->dim[axis]);
    }
    buffer_puts(&g->params, "]");
    return operand;
}

static const char *start_of(Generator *g, AxisUse use, const char *dim, int64_t extent) {
    bool is_row = strcmp(dim, "M") == 0, is_column = strcmp(dim, "N") == 0;
    const char *own = is_row ? "row" : "col";
    if (use == AXIS_ROW || use == AXIS_COLUMN)
        return own;
    if (use == AXIS_BATCH)
        return "ctx.block.z";
    if (use == AXIS_FREE || g->in_fn)
        return small_index(g);
    if (strcmp(dim, "B") == 0)
        return chance(g, 70) ? "ctx.block.z" : small_index(g);
    if ((is_row && g->rank >= 2) || is_column)
        return chance(g, 50) ? own : text(g, "%s %s %d", own, chance(g, 50) ? "+" : "-", below(g, (int)extent + 2));
    return small_index(g);
}

static const char *range_of(Generator *g, const Operand *operand, int axis, int64_t extent) {
    const char *start = start_of(g, operand->use[axis], operand->dim[axis], extent);
    if (operand->is_literal[axis] && operand->extent[axis] == extent && chance(g, 70))
        return ":";
    if (operand->is_literal[axis] && operand->extent[axis] > extent && chance(g, 30))
        return text(g, "%" PRId64 ":", operand->extent[axis] - extent);
    if (operand->use[axis] == AXIS_ROW || operand->use[axis] == AXIS_COLUMN)
        return text(g, "%s :+ %s", start, operand->use[axis] == AXIS_ROW ? "TM" : "TN"); /* in the cluster reading no number will do */
    if (chance(g, 10))
        return text(g, ":%s", extent_text(g, extent));
    if (chance(g, 20))
        return text(g, "%s : %s + %s", start, start, extent_text(g, extent));
    return text(g, "%s :+ %s", start, extent_text(g, extent));
}

static const char *slice(Generator *g, const Operand *operand, Shape shape) {
    const char *subs = "";
    for (int axis = 0; axis < operand->rank; axis++) {
        int from = axis - (operand->rank - shape.rank);
        const char *sub = from < 0 ? start_of(g, operand->use[axis], operand->dim[axis], 3) : range_of(g, operand, axis, shape.extent[from]);
        subs = text(g, "%s%s%s", subs, axis ? ", " : "", sub);
    }
    return text(g, "%s[%s]", operand->name, subs);
}

static bool fits(const Generator *g, const Operand *operand, PhbDType type, Shape shape) {
    if (operand->type != type || operand->rank < shape.rank || (shape.rank == 1 && operand->rank != 1))
        return false;
    if (!g->has_cluster)
        return true;
    const Shape *made = &operand->made_for;
    return made->rank == shape.rank && (shape.rank < 1 || made->extent[0] == shape.extent[0]) &&
           (shape.rank < 2 || made->extent[1] == shape.extent[1]);
}

const char *load(Generator *g, PhbDType type, Shape shape) {
    int first = below(g, g->operand_count + 1);
    for (int i = first; i < g->operand_count; i++)
        if (fits(g, &g->operands[i], type, shape))
            return slice(g, &g->operands[i], shape);
    for (int i = 0; i < g->operand_count; i++)
        if (fits(g, &g->operands[i], type, shape) && chance(g, 60))
            return slice(g, &g->operands[i], shape);
    return g->operand_count < MOST_TENSORS ? slice(g, new_operand(g, type, shape), shape) : NULL;
}

const char *own_subscripts(Generator *g, bool may_be_part, Shape *shape) {
    *shape = own_shape(g);
    const char *columns = text(g, "col :+ %s", g->has_cluster ? "TN" : extent_text(g, g->tile[1]));
    if (g->rank == 1)
        return columns;
    const char *lead = g->rank == 2 ? "" : g->rank == 3 ? "ctx.block.z, " : "ctx.block.z, 1, ";
    const char *rows = text(g, "row :+ %s", g->has_cluster ? "TM" : extent_text(g, g->tile[0]));
    if (may_be_part && !g->has_cluster && g->rank == 2 && chance(g, 40)) { /* one row of the own tile */
        rows = text(g, "row + %d", below(g, (int)g->tile[0]));
        shape->extent[0] = 1;
    }
    return text(g, "%s%s, %s", lead, rows, columns);
}
