/* Branches, loops, and loops of dots along k. */
#include "tests/differential/generate.h"

#include <inttypes.h>
#include <string.h>

static void nested(Generator *g, int depth, bool in_loop) {
    int names = g->name_count;
    g->indent++;
    statements(g, depth - 1, 1 + below(g, 3), in_loop);
    g->indent--;
    g->name_count = names;
}

/* Often with a store that reads what an earlier iteration has stored. */
static void loop_body(Generator *g, int depth) {
    nested(g, depth, true);
    if (chance(g, 50))
        return;
    Shape shape;
    const Output *output = &g->outputs[below(g, g->output_count)];
    const char *target = text(g, "%s[%s]", output->name, own_subscripts(g, true, &shape));
    line(g, "    %s %s %s", target, output->type == PHB_BOOL ? "^=" : "+=", loose_expression(g, output->type, shape, 1));
}

static const char *condition(Generator *g) {
    return chance(g, 95) ? decided_condition(g) : expression(g, PHB_BOOL, scalar_shape(), 1);
}

void if_statement(Generator *g, int depth, bool in_loop) {
    line(g, "if %s {", condition(g));
    nested(g, depth, in_loop);
    if (chance(g, 30)) {
        line(g, "} else if %s {", condition(g));
        nested(g, depth, in_loop);
    }
    if (chance(g, 50)) {
        line(g, "} else {");
        nested(g, depth, in_loop);
    }
    line(g, "}");
}

static void add_index(Generator *g, const char *name) {
    if (g->name_count < MOST_NAMES)
        g->names[g->name_count++] = (Name){name, PHB_I64, scalar_shape(), false, true, true, -1};
}

static const char *constant_range(Generator *g) {
    int start = below(g, 4), step = 1 + below(g, 3), trips = below(g, 5);
    if (chance(g, 30))
        return text(g, "%d", trips);
    if (chance(g, 40))
        return text(g, "%d, %d", start, start + trips);
    if (chance(g, 40))
        return text(g, "%d, %d, -%d", start + trips * step, start, step);
    return text(g, "%d, %d, %d", start, start + trips * step + below(g, step), step);
}

/* Bounds that are known at run time alone: a tensor's extent, forwards or backwards, or what a scalar decides. */
static const char *computed_range(Generator *g) {
    int step = 3 + below(g, 10);
    const char *scalar = decided_index(g);
    if (scalar && chance(g, 30))
        return text(g, "%s & 3", scalar);
    const char *extent = NULL;
    for (int i = 0; i < g->operand_count && !extent; i++)
        for (int axis = 0; axis < g->operands[i].rank && !extent; axis++)
            if (g->operands[i].dim[axis][0] == 'D' && chance(g, 50))
                extent = chance(g, 50) ? g->operands[i].dim[axis] : text(g, "extent(%s, %d)", g->operands[i].name, axis);
    if (!extent)
        return constant_range(g);
    return chance(g, 70) ? text(g, "%d, %s, %d", below(g, 2), extent, step) : text(g, "%s - 1, -1, -%d", extent, step);
}

void for_statement(Generator *g, int depth) {
    const char *unroll = chance(g, 20) ? text(g, "<unroll %d>", 1 + below(g, 4)) : chance(g, 5) ? "<unroll TN>" : "";
    const char *range = chance(g, 35) ? computed_range(g) : constant_range(g);
    int names = g->name_count;
    const char *variable = text(g, "j%d", g->fresh++);
    add_index(g, variable);
    line(g, "for%s %s in range(%s) {", unroll, variable, range);
    loop_body(g, depth);
    line(g, "}");
    g->name_count = names;
}

void while_statement(Generator *g, int depth) {
    const char *counter = text(g, "w%d", g->fresh++);
    line(g, "var %s = %d", counter, below(g, 4));
    line(g, "while %s > 0%s {", counter, chance(g, 30) ? text(g, " && %s", decided_condition(g)) : "");
    g->indent++;
    line(g, "%s -= 1", counter); /* first, so that a continue does not skip it */
    g->indent--;
    int names = g->name_count;
    add_index(g, counter);
    loop_body(g, depth);
    g->name_count = names;
    line(g, "}");
}

/* ---- contractions: acc += dot(slice, slice) along k ---- */

typedef struct Contraction {
    PhbDType from, type;
    Shape shape;
    const char *k, *dim; /* the loop's variable; the extent of the axis along k */
    int64_t block;
} Contraction;

static const char *side_name(Generator *g) {
    return text(g, "c%d", g->fresh++);
}

/* Declares a tensor with the axes of one operand, of which one runs along k, and gives the operand's slice. The other axis follows the own tile where
 * it may (own_axis, -1: it does not). */
static const char *side(Generator *g, const Contraction *c, int own_axis, int64_t extent, bool k_is_last) {
    const char *name = side_name(g);
    bool is_own = own_axis >= 0 && chance(g, 75), is_batched = g->has_batch && chance(g, 40);
    const char *other = is_own ? (own_axis ? "N" : "M") : new_dim(g, 1 + below(g, 20));
    const char *start = is_own ? (own_axis ? "col" : "row") : text(g, "%d", below(g, 4) - 1);
    const char *count = is_own ? (own_axis ? "TN" : "TM") : extent_text(g, extent);
    const char *slice = text(g, "%s :+ %s", start, count), *along = text(g, "%s :+ %" PRId64, c->k, c->block);
    buffer_printf(&g->params, ", %s: tensor<%s>[%s%s, %s]", name, dtype_name(c->from), is_batched ? "B, " : "", k_is_last ? other : c->dim,
        k_is_last ? c->dim : other);
    const char *result = text(g, "%s[%s%s, %s]", name, is_batched ? "ctx.block.z, " : "", k_is_last ? slice : along, k_is_last ? along : slice);
    if (chance(g, 80))
        return result;
    return dtype_is_float(c->from) ? text(g, chance(g, 50) ? "-%s" : "%s * 0.5", result) : text(g, "~%s", result);
}

static const char *dot_of_sides(Generator *g, const Contraction *c) {
    bool is_own = same_shape(c->shape, own_shape(g)), is_transposed = chance(g, 50);
    const char *a = side(g, c, is_own ? 0 : -1, c->shape.extent[0], true);
    const char *b = side(g, c, is_own ? 1 : -1, c->shape.extent[1], is_transposed);
    return text(g, "%s(%s, %s)", is_transposed ? "dot_t" : "dot", a, b);
}

static void accumulate(Generator *g, const Contraction *c, const char *acc) {
    static const char *const forms[] = {"%1$s += %2$s", "%1$s += %2$s", "%1$s = %1$s + %2$s", "%1$s = %2$s + %1$s", "%1$s -= %2$s"};
    line(g, forms[below(g, chance(g, 90) ? 4 : 5)], acc, dot_of_sides(g, c));
}

static const char *new_accumulator(Generator *g, const Contraction *c) {
    const char *type = type_text_of(g, c->type, c->shape);
    const char *start = chance(g, 50) ? "" : text(g, " = %s", loose_expression(g, c->type, c->shape, 1));
    const char *acc = add_name(g, c->type, c->shape, true);
    line(g, "var %s: %s%s", acc, type, start);
    return acc;
}

/* What matrix instructions take. */
static void make_even(Generator *g, Contraction *c) {
    static const PhbDType types[] = {PHB_F32, PHB_F32, PHB_I32};
    static const int64_t extents[] = {16, 16, 32, 64}, columns[] = {8, 16, 32};
    c->type = one_of(g, types, 3);
    c->block = chance(g, 50) ? 16 : 32;
    c->shape = matrix(extents[below(g, 4)], columns[below(g, 3)]);
}

/* Mostly what the compiler knows how to block; sometimes with something around or between that makes it another thing. */
void contraction(Generator *g, int depth) {
    static const PhbDType types[] = {PHB_F32, PHB_F32, PHB_F64, PHB_I32};
    static const int64_t blocks[] = {1, 2, 3, 4, 5, 8, 16, 17};
    Contraction c = {.type = one_of(g, types, 4), .block = blocks[below(g, 8)]};
    int64_t extent = 1 + below(g, chance(g, 85) ? 40 : 300);
    int names = g->name_count, gap = chance(g, 90) ? 0 : below(g, 3) - 1;
    c.shape = g->rank > 1 && chance(g, 75) ? own_shape(g) : matrix(some_extent(g), some_extent(g));
    if (chance(g, 25))
        make_even(g, &c);
    c.from = dot_operand(g, c.type);
    c.dim = chance(g, 80) ? new_dim(g, extent) : text(g, "%" PRId64, extent);
    c.k = text(g, "k%d", g->fresh++);
    const char *acc = new_accumulator(g, &c), *second = chance(g, 20) ? new_accumulator(g, &c) : NULL;
    names = g->name_count;
    line(g, "for%s %s in range(%s%s, %" PRId64 ") {", chance(g, 15) ? "<unroll 2>" : "", c.k, chance(g, 90) ? "0, " : "2, ", c.dim,
        c.block + gap > 0 ? c.block + gap : 1);
    g->indent++;
    add_index(g, c.k);
    if (chance(g, 20))
        statements(g, depth < 1 ? 0 : depth - 1, 1, true);
    accumulate(g, &c, acc);
    if (second)
        accumulate(g, &c, second);
    if (chance(g, 20))
        statements(g, depth < 1 ? 0 : depth - 1, 1, true);
    g->indent--;
    g->name_count = names;
    line(g, "}");
}
