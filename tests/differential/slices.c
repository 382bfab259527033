/* Tensors as they are needed, and slices of them: inside, over one edge or both, beyond. */
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

/* ---- tensors ---- */

const char *new_dim(Generator *g, int64_t extent) {
    const char *name = text(g, "D%d", g->dim_count++);
    buffer_printf(&g->dims, " %s=%" PRId64, name, extent);
    return name;
}

/* The greatest value of what may be the extent of the own tile. */
static int64_t most_of(const Generator *g, int64_t extent) {
    for (int axis = 0; axis < 2; axis++)
        if (g->is_searched && extent == g->tile[axis])
            return g->search[axis].most;
    return extent;
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
        if (!g->has_cluster && chance(g, 20)) /* as convolutions have it */
            operand->dim[axis] = text(g, chance(g, 60) ? "%s + %d" : "%2$d * %1$s", operand->dim[axis], 2 + below(g, 3));
    } else if (operand->use[axis] == AXIS_BATCH || (g->has_batch && is_point && chance(g, 30))) {
        operand->dim[axis] = "B";
    } else if (g->is_searched && !g->has_cluster && wanted == g->tile[1] && chance(g, 30)) { /* as long as a tile: the tensor says nothing new */
        operand->dim[axis] = "TN";
    } else {
        operand->extent[axis] = most_of(g, wanted) + below(g, 6) - 2 - (chance(g, 15) ? wanted / 2 : 0);
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

/* ---- subscripts ---- */

/* Far beyond every tensor. Sums with it may wrap: what comes out is beyond as well. */
static const char *far_away(Generator *g) {
    static const char *const offsets[] = {"40", "-50", "1000000", "-3000000000", "9223372036854775807", "-9223372036854775807"};
    return offsets[below(g, 6)];
}

static const char *start_of(Generator *g, AxisUse use, const char *dim, int64_t extent) {
    bool is_row = strchr(dim, 'M') && dim[0] != 'T', is_column = strchr(dim, 'N') && dim[0] != 'T';
    const char *own = is_row ? "row" : "col";
    if (use == AXIS_ROW || use == AXIS_COLUMN)
        return own;
    if (use == AXIS_BATCH)
        return "ctx.block.z";
    if (use == AXIS_FREE)
        return small_index(g);
    if (chance(g, 3))
        return far_away(g);
    if (strcmp(dim, "B") == 0)
        return chance(g, 70) ? "ctx.block.z" : small_index(g);
    if ((is_row && g->rank >= 2) || is_column)
        return chance(g, 50) ? own : text(g, "%s %s %d", own, chance(g, 50) ? "+" : "-", below(g, (int)most_of(g, extent) + 2));
    return small_index(g);
}

static const char *range_of(Generator *g, const Operand *operand, int axis, int64_t extent) {
    const char *start = start_of(g, operand->use[axis], operand->dim[axis], extent);
    if (g->is_searched && extent == g->tile[1] && strcmp(operand->dim[axis], "TN") == 0 && chance(g, 70))
        return ":";
    if (operand->is_literal[axis] && operand->extent[axis] == extent && chance(g, 70))
        return ":";
    if (operand->is_literal[axis] && operand->extent[axis] > extent && chance(g, 30))
        return text(g, "%" PRId64 ":", operand->extent[axis] - extent);
    if (operand->use[axis] == AXIS_ROW || operand->use[axis] == AXIS_COLUMN)
        return text(g, "%s :+ %s", start, operand->use[axis] == AXIS_ROW ? "TM" : "TN"); /* in the cluster reading no number will do */
    if (chance(g, 10))
        return text(g, ":%s", extent_text(g, extent));
    if (chance(g, 20) && strlen(start) < 12)
        return text(g, "%s : %s + %s", start, start, extent_text(g, extent));
    return text(g, "%s :+ %s", start, extent_text(g, extent));
}

static const char *slice(Generator *g, const Operand *operand, Shape shape) {
    const char *by_fn = load_by_fn(g, operand, shape), *subs = "";
    if (by_fn)
        return by_fn;
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
    return !g->has_cluster || same_shape(operand->made_for, shape);
}

/* What this CTA has stored, or what the file holds. */
static const char *load_output(Generator *g, PhbDType type, Shape shape) {
    Shape own;
    for (int i = 0; i < g->output_count && same_shape(shape, own_shape(g)); i++)
        if (g->outputs[i].type == type && chance(g, 25))
            return text(g, "%s[%s]", g->outputs[i].name, own_subscripts(g, false, &own));
    return NULL;
}

const char *load(Generator *g, PhbDType type, Shape shape) {
    int first = below(g, g->operand_count + 1);
    const char *output = load_output(g, type, shape);
    if (output)
        return output;
    for (int i = first; i < g->operand_count; i++)
        if (fits(g, &g->operands[i], type, shape))
            return slice(g, &g->operands[i], shape);
    for (int i = 0; i < g->operand_count; i++)
        if (fits(g, &g->operands[i], type, shape) && chance(g, 60))
            return slice(g, &g->operands[i], shape);
    return g->operand_count < MOST_TENSORS ? slice(g, new_operand(g, type, shape), shape) : NULL;
}

/* ---- the own tile ---- */

const char *own_subscripts(Generator *g, bool may_be_part, Shape *shape) {
    *shape = own_shape(g);
    bool is_part = may_be_part && !g->has_cluster && g->rank <= 2 && chance(g, 50);
    int64_t rows = g->search[0].least, columns = g->search[1].least;
    const char *column = text(g, "col :+ %s", g->has_cluster ? "TN" : extent_text(g, g->tile[1]));
    if (is_part && chance(g, 40)) /* one column */
        column = text(g, "col + %d", below(g, (int)columns)), shape->extent[g->rank == 2] = 1;
    if (g->rank == 1) {
        shape->rank = strstr(column, ":+") ? 1 : 0;
        return column;
    }
    const char *lead = g->rank == 2 ? "" : g->rank == 3 ? "ctx.block.z, " : "ctx.block.z, 1, ";
    const char *row = text(g, "row :+ %s", g->has_cluster ? "TM" : extent_text(g, g->tile[0]));
    if (is_part && chance(g, 60)) /* one row */
        row = text(g, "row + %d", below(g, (int)rows)), shape->extent[0] = 1;
    if (!strstr(column, ":+") && !strstr(row, ":+"))
        *shape = scalar_shape();
    return text(g, "%s%s, %s", lead, row, column);
}
