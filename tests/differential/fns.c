/* Functions: of values, and of tensors, which go by reference. */
#include "tests/differential/generate.h"

#include <inttypes.h>

/* What the body of a fn sees instead of the kernel's. */
typedef struct Outside {
    Name names[MOST_NAMES];
    int name_count, indent;
    int64_t tile[2];
    const char *spelling[2];
    bool is_searched;
    Buffer body;
} Outside;

static void enter(Generator *g, Outside *outside) {
    *outside = (Outside){.name_count = g->name_count, .indent = g->indent, .is_searched = g->is_searched, .body = g->body};
    for (int i = 0; i < g->name_count; i++)
        outside->names[i] = g->names[i];
    for (int axis = 0; axis < 2; axis++) {
        outside->tile[axis] = g->tile[axis];
        outside->spelling[axis] = g->spelling[axis];
        g->spelling[axis] = NULL;
    }
    g->body = (Buffer){0};
    g->indent = 0;
    g->name_count = 0;
    g->in_fn = true;
}

static void leave(Generator *g, Outside *outside) {
    buffer_append(&g->fns, g->body.data, g->body.length);
    buffer_free(&g->body);
    for (int i = 0; i < outside->name_count; i++)
        g->names[i] = outside->names[i];
    for (int axis = 0; axis < 2; axis++) {
        g->tile[axis] = outside->tile[axis];
        g->spelling[axis] = outside->spelling[axis];
    }
    g->name_count = outside->name_count;
    g->indent = outside->indent;
    g->is_searched = outside->is_searched;
    g->body = outside->body;
    g->in_fn = false;
}

/* ---- of values ---- */

static void fn_body(Generator *g, const Fn *fn) {
    PhbDType local = number_type(g);
    line(g, "var z = %s", expression(g, local, fn->shape, 2));
    g->names[g->name_count++] = (Name){"z", local, fn->shape, true, false, false, -1};
    if (chance(g, 50)) {
        line(g, "if %s {", expression(g, PHB_BOOL, scalar_shape(), 1));
        line(g, "    return %s", expression(g, fn->type, fn->shape, 1));
        line(g, "}");
    }
    if (chance(g, 40)) {
        line(g, "for k in range(%d) {", 1 + below(g, 3));
        line(g, "    z = %s", loose_expression(g, local, fn->shape, 2));
        if (chance(g, 50))
            line(g, "    if k == 1 { return %s }", expression(g, fn->type, fn->shape, 1));
        line(g, "}");
    }
    line(g, "return %s", expression(g, fn->type, fn->shape, 2));
}

/* Takes a value of some type and shape and a scalar of the type, of which each may be untyped; gives the first one's type. */
void add_fn(Generator *g) {
    Outside outside;
    Fn *fn = &g->callees[g->fn_count];
    *fn = (Fn){text(g, "%s_f%d", g->kernel, g->fn_count), number_type(g), chance(g, 40) ? scalar_shape() : own_shape(g)};
    enter(g, &outside);
    bool has_dims = fn->shape.rank > 0 && (g->is_searched || chance(g, 50));
    if (!has_dims && g->is_searched) { /* nothing of the kernel is seen here, its tile neither */
        g->is_searched = false;
        g->tile[0] = 2;
        g->tile[1] = 8;
    }
    const char *type = type_text_of(g, fn->type, fn->shape);
    if (has_dims) {
        g->spelling[0] = g->rank > 1 ? "P" : NULL;
        g->spelling[1] = "Q";
        type = text(g, fn->shape.rank == 2 ? "tile<%s>[P, Q]" : "tile<%s>[Q]", dtype_name(fn->type));
    }
    g->names[g->name_count++] = (Name){"x", fn->type, fn->shape, false, false, false, -1};
    g->names[g->name_count++] = (Name){"y", fn->type, scalar_shape(), false, false, false, -1};
    const char *first = has_dims || chance(g, 70) ? text(g, "x: %s", type) : "x";
    const char *second = chance(g, 50) ? "y" : text(g, "y: %s", dtype_name(fn->type));
    line(g, "fn %s(%s, %s)%s {", fn->name, first, second, first[1] && chance(g, 80) ? text(g, " -> %s", type) : "");
    g->indent++;
    fn_body(g, fn);
    g->indent--;
    line(g, "}\n");
    leave(g, &outside);
    g->fn_count++;
}

const char *call_fn(Generator *g, PhbDType type, Shape shape, int depth) {
    for (int i = 0; i < g->fn_count && !g->in_fn; i++)
        if (g->callees[i].type == type && same_shape(g->callees[i].shape, shape))
            return text(g, "%s(%s, %s)", g->callees[i].name, expression(g, type, shape, depth - 1), expression(g, type, scalar_shape(), depth - 1));
    return NULL;
}

/* ---- of tensors ---- */

static const char *fn_name(Generator *g) {
    return text(g, "%s_t%d", g->kernel, g->fresh++);
}

bool store_by_fn(Generator *g, const Output *output) {
    Outside outside;
    if (g->rank != 2 || g->in_fn)
        return false;
    const char *name = fn_name(g), *type = dtype_name(output->type);
    const char *value = chance(g, 50) ? "v" : output->type == PHB_BOOL ? "v ^ t[r :+ P, c :+ Q]" : "v - t[r :+ P, c :+ Q]";
    enter(g, &outside);
    line(g, "fn %s(t: tensor<%s>[R, C], r, c: i64, v: tile<%s>[P, Q]) {", name, type, type);
    if (chance(g, 40) && !g->has_cluster)
        line(g, "    if %s %% 3 == 2 { return }", chance(g, 50) ? "R" : "C");
    line(g, "    t[r :+ P, c :+ Q] = %s", value);
    line(g, "}\n");
    leave(g, &outside);
    const char *argument = text(g, "t%d", g->fresh++); /* in the cluster reading P and Q are to be TM and TN, not numbers */
    line(g, "let %s: tile<%s>[TM, TN] = %s", argument, type, expression(g, output->type, own_shape(g), 2));
    line(g, "%s(%s, row, col, %s)", name, output->name, argument);
    return true;
}

const char *load_by_fn(Generator *g, const Operand *operand, Shape shape) {
    Outside outside;
    bool has_numbers = !g->is_searched || (shape.rank == 2 && shape.extent[0] < 1000 && shape.extent[1] < 1000);
    if (g->in_fn || g->has_cluster || operand->rank != 2 || shape.rank != 2 || !has_numbers || !chance(g, 8))
        return NULL;
    const char *name = fn_name(g), *type = dtype_name(operand->type);
    int64_t rows = shape.extent[0], columns = shape.extent[1];
    enter(g, &outside);
    line(g, "fn %s(t: tensor<%s>[R, C], r: i64, c) -> tile<%s>[%" PRId64 ", %" PRId64 "] {", name, type, type, rows, columns);
    if (chance(g, 40))
        line(g, "    if r %% 2 == %d || C < 4 { return t[0 :+ %" PRId64 ", c :+ %" PRId64 "] }", below(g, 2), rows, columns);
    line(g, "    return t[r :+ %" PRId64 ", c - 1 :+ %" PRId64 "]", rows, columns);
    line(g, "}\n");
    leave(g, &outside);
    return text(g, "%s(%s, %s, %s)", name, operand->name, chance(g, 50) && g->rank > 1 ? "row" : small_index(g), chance(g, 50) ? "col" : small_index(g));
}
