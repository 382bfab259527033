/* A random kernel: parameters, functions, statements. */
#include "tests/differential/generate.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { EXPRESSION_DEPTH = 3, BLOCK_DEPTH = 2 };

typedef struct Output {
    const char *name;
    PhbDType type;
} Output;

static void line(Generator *g, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void line(Generator *g, const char *format, ...) {
    char *statement = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&statement, format, arguments) >= 0)
        buffer_printf(&g->body, "%*s%s\n", 4 * g->indent, "", statement);
    va_end(arguments);
    free(statement);
}

static const char *add_name(Generator *g, PhbDType type, Shape shape, bool is_mutable) {
    const char *name = text(g, "%c%d", is_mutable ? 'v' : 't', g->fresh++);
    if (g->name_count < MOST_NAMES)
        g->names[g->name_count++] = (Name){name, type, shape, is_mutable, false};
    return name;
}

static void statements(Generator *g, const Output *outputs, int output_count, int depth, int count, bool in_loop);

/* ---- declarations and assignments ---- */

static void declare(Generator *g) {
    PhbDType type = any_type(g);
    Shape shape = any_shape(g);
    if (chance(g, 12) && shape.rank) { /* zero, or filled */
        const char *value = chance(g, 50) ? "" : text(g, " = %s", expression(g, type, scalar_shape(), 1));
        const char *type_name = type_text_of(g, type, shape);
        line(g, "var %s: %s%s", add_name(g, type, shape, true), type_name, value);
        return;
    }
    const char *value = expression(g, type, shape, EXPRESSION_DEPTH);
    bool is_var = chance(g, 45);
    bool is_typed = chance(g, 30);
    const char *type_name = is_typed ? text(g, ": %s", type_text_of(g, type, shape)) : "";
    line(g, "%s %s%s = %s", is_var ? "var" : "let", add_name(g, type, shape, is_var), type_name, value);
}

/* A type that a store to `type` converts by itself. */
static PhbDType storable(Generator *g, PhbDType type) {
    PhbDType from = number_type(g);
    if (type == PHB_BOOL || chance(g, 60) || dtype_is_float(from) != dtype_is_float(type))
        return type;
    if (dtype_is_float(type))
        return from;
    bool widens = dtype_bits(from) < dtype_bits(type) && (dtype_is_signed(type) || !dtype_is_signed(from));
    return widens ? from : type;
}

static void assign_to(Generator *g, const char *target, PhbDType type, Shape shape) {
    if (chance(g, 50)) {
        line(g, "%s = %s", target, loose_expression(g, storable(g, type), shape, EXPRESSION_DEPTH));
        return;
    }
    const char *dot = chance(g, 50) ? dot_expression(g, type, shape, 2) : NULL;
    if (dot) {
        line(g, "%s += %s", target, dot);
        return;
    }
    BinaryOp op = binary_for(g, type);
    PhbDType from = op == BINARY_SHL || op == BINARY_SHR ? type : storable(g, type);
    if (dtype_is_float(type) && dtype_bits(from) > dtype_bits(type) && chance(g, 50))
        from = type;
    line(g, "%s %s= %s", target, binary_op_text(op), loose_expression(g, from, shape, 2));
}

static bool assign(Generator *g) {
    int first = below(g, g->name_count + 1);
    for (int k = 0; k < g->name_count; k++) {
        const Name *name = &g->names[(first + k) % g->name_count];
        if (!name->is_mutable)
            continue;
        const char *dot = chance(g, 40) ? dot_expression(g, name->type, name->shape, 1) : NULL;
        if (dot)
            line(g, chance(g, 50) ? "%s = %s + %s" : "%1$s = %3$s + %2$s", name->text, name->text, dot);
        else
            assign_to(g, name->text, name->type, name->shape);
        return true;
    }
    return false;
}

/* A value of the type that hangs on some names in scope, so that they are not dead; NULL where there is none. */
static const char *use_names(Generator *g, PhbDType type) {
    const char *sum = NULL;
    for (int i = 0; i < g->name_count; i++) {
        const Name *name = &g->names[i];
        Shape own = own_shape(g);
        bool is_own =
            name->shape.rank == own.rank && name->shape.extent[0] == own.extent[0] && (own.rank < 2 || name->shape.extent[1] == own.extent[1]);
        if (chance(g, 40) || (g->has_cluster && name->is_small))
            continue;
        const char *value = name->shape.rank == 0 || is_own ? name->text
                            : name->type == PHB_BOOL        ? text(g, "any(%s)", name->text)
                                                            : text(g, "%s(%s)", chance(g, 50) ? "max" : "sum", name->text);
        const char *term = text(g, "%s(%s)", dtype_name(type), value);
        sum = !sum ? term : text(g, "%s %s %s", sum, type == PHB_BOOL ? "^" : "+", term);
    }
    return sum;
}

static void store(Generator *g, const Output *output, bool is_last) {
    Shape shape;
    const char *target = text(g, "%s[%s]", output->name, own_subscripts(g, !is_last, &shape));
    const char *used = is_last ? use_names(g, output->type) : NULL;
    if (used)
        line(g, "%s = %s %s %s", target, loose_expression(g, output->type, shape, EXPRESSION_DEPTH), output->type == PHB_BOOL ? "^" : "+", used);
    else if (is_last && chance(g, 70))
        line(g, "%s = %s", target, loose_expression(g, storable(g, output->type), shape, EXPRESSION_DEPTH));
    else
        assign_to(g, target, output->type, shape);
}

/* ---- control flow ---- */

static void nested(Generator *g, const Output *outputs, int output_count, int depth, bool in_loop) {
    int names = g->name_count;
    g->indent++;
    statements(g, outputs, output_count, depth - 1, 1 + below(g, 3), in_loop);
    g->indent--;
    g->name_count = names;
}

static const char *condition(Generator *g) {
    return chance(g, 75) ? decided_condition(g) : expression(g, PHB_BOOL, scalar_shape(), 1);
}

static void if_statement(Generator *g, const Output *outputs, int output_count, int depth, bool in_loop) {
    line(g, "if %s {", condition(g));
    nested(g, outputs, output_count, depth, in_loop);
    if (chance(g, 30)) {
        line(g, "} else if %s {", condition(g));
        nested(g, outputs, output_count, depth, in_loop);
    }
    if (chance(g, 50)) {
        line(g, "} else {");
        nested(g, outputs, output_count, depth, in_loop);
    }
    line(g, "}");
}

static void for_statement(Generator *g, const Output *outputs, int output_count, int depth) {
    int start = below(g, 4), step = 1 + below(g, 3), trips = below(g, 5);
    bool is_down = chance(g, 25);
    const char *unroll = chance(g, 20) ? text(g, "<unroll %d>", 1 + below(g, 4)) : "";
    const char *range = chance(g, 30)   ? text(g, "%d", trips)
                        : chance(g, 40) ? text(g, "%d, %d", start, start + trips)
                        : is_down       ? text(g, "%d, %d, -%d", start + trips * step, start, step)
                                        : text(g, "%d, %d, %d", start, start + trips * step + below(g, step), step);
    int names = g->name_count;
    const char *variable = add_name(g, PHB_I64, scalar_shape(), false);
    if (g->name_count > names)
        g->names[names].is_small = true;
    line(g, "for%s %s in range(%s) {", unroll, variable, range);
    nested(g, outputs, output_count, depth, true);
    line(g, "}");
    g->name_count = names;
}

static void while_statement(Generator *g, const Output *outputs, int output_count, int depth) {
    const char *counter = text(g, "w%d", g->fresh++);
    line(g, "var %s = %d", counter, below(g, 4));
    line(g, "while %s > 0%s {", counter, chance(g, 30) ? text(g, " && %s", decided_condition(g)) : "");
    g->indent++;
    line(g, "%s -= 1", counter); /* first, so that a continue does not skip it */
    g->indent--;
    int names = g->name_count;
    if (g->name_count < MOST_NAMES)
        g->names[g->name_count++] = (Name){counter, PHB_I64, scalar_shape(), false, true};
    nested(g, outputs, output_count, depth, true);
    g->name_count = names;
    line(g, "}");
}

static void statement(Generator *g, const Output *outputs, int output_count, int depth, bool in_loop) {
    int kind = below(g, 100);
    if (in_loop && kind < 8) {
        line(g, "if %s {", decided_condition(g));
        line(g, "    %s", chance(g, 50) ? "break" : "continue");
        line(g, "}");
    } else if (kind < 40) {
        declare(g);
    } else if (kind < 62) {
        if (!assign(g))
            declare(g);
    } else if (kind < 75) {
        store(g, &outputs[below(g, output_count)], false);
    } else if (kind < 77 && !g->has_cluster) {
        line(g, "if %s {", decided_condition(g));
        line(g, "    return");
        line(g, "}");
    } else if (depth == 0) {
        declare(g);
    } else if (kind < 86) {
        if_statement(g, outputs, output_count, depth, in_loop);
    } else if (kind < 96) {
        for_statement(g, outputs, output_count, depth);
    } else {
        while_statement(g, outputs, output_count, depth);
    }
}

static void statements(Generator *g, const Output *outputs, int output_count, int depth, int count, bool in_loop) {
    for (int i = 0; i < count; i++)
        statement(g, outputs, output_count, depth, in_loop);
}

/* ---- functions ---- */

/* Takes a value of some type and shape and a scalar of the type, of which one may be untyped; gives the first one's type. */
static void add_fn(Generator *g, Buffer *out) {
    Fn *fn = &g->fns[g->fn_count];
    *fn = (Fn){text(g, "%s_f%d", g->kernel, g->fn_count), number_type(g), chance(g, 40) ? scalar_shape() : own_shape(g)};
    g->in_fn = true;
    g->name_count = 2;
    g->names[0] = (Name){"x", fn->type, fn->shape, false, false};
    g->names[1] = (Name){"y", fn->type, scalar_shape(), false, false};
    const char *type = type_text_of(g, fn->type, fn->shape);
    bool has_dims = fn->shape.rank == 2 && chance(g, 50);
    const char *declared = has_dims ? text(g, "tile<%s>[P, Q]", dtype_name(fn->type)) : type;
    line(g, "fn %s(x: %s, y%s) -> %s {", fn->name, declared, chance(g, 50) ? "" : text(g, ": %s", dtype_name(fn->type)), declared);
    g->indent++;
    PhbDType local = number_type(g);
    line(g, "var z = %s", expression(g, local, fn->shape, 2));
    g->names[g->name_count++] = (Name){"z", local, fn->shape, true, false};
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
    g->indent--;
    line(g, "}\n");
    buffer_append(out, g->body.data, g->body.length);
    buffer_free(&g->body);
    g->body = (Buffer){0};
    g->in_fn = false;
    g->name_count = 0;
    g->fn_count++;
}

/* ---- the kernel ---- */

/* An extent around a few tiles: below one, whole, with a rest. */
static int64_t whole_extent(Generator *g, int64_t tile, bool is_aligned) {
    int64_t extent = tile * (1 + below(g, 3));
    if (!is_aligned)
        extent += below(g, 2 * (int)tile + 1) - (int)tile;
    return extent < 1 ? 1 : extent;
}

static void choose_frame(Generator *g) {
    static const int64_t tiles[] = {1, 2, 3, 4, 5, 7, 8, 16, 17, 32, 33};
    int rank = below(g, 20);
    g->rank = rank < 5 ? 1 : rank < 14 ? 2 : rank < 18 ? 3 : 4;
    g->tile[0] = g->rank == 1 ? 1 : tiles[below(g, 8)];
    g->tile[1] = tiles[below(g, 11)];
    g->has_batch = g->rank >= 3;
    g->has_cluster = g->rank < 4 && chance(g, 30);
    g->is_shifted = !g->has_cluster && chance(g, 25);
}

static void print_attributes(Generator *g, Buffer *out, bool is_aligned) {
    bool has_rows = g->rank > 1;
    if (g->has_cluster) {
        const char *rows = has_rows ? text(g, "TM in [%" PRId64 "], ", g->tile[0] * (1 + below(g, 3))) : "";
        buffer_printf(out, "@cluster(%sTN in [%" PRId64 "])\n", rows, g->tile[1] * (1 + below(g, 3)));
    }
    buffer_printf(out, "@autotune(%sTN in [%" PRId64 "])\n", has_rows ? text(g, "TM in [%" PRId64 "], ", g->tile[0]) : "", g->tile[1]);
    if (is_aligned)
        buffer_printf(out, "@aligned(%sN = TN)\n", has_rows ? "M = TM, " : "");
    if (g->is_shifted)
        buffer_printf(out, "@grid(ceildiv(N + 2, TN)%s%s)\n", has_rows ? ", ceildiv(M + 1, TM)" : "", g->has_batch ? ", B" : "");
}

static int add_outputs(Generator *g, Output outputs[3]) {
    static const char *const dims[] = {"N", "M, N", "B, M, N", "B, 3, M, N"};
    int count = 1 + below(g, 3);
    for (int i = 0; i < count; i++) {
        outputs[i] = (Output){text(g, "o%d", i), any_type(g)};
        buffer_printf(&g->params, "%s%s: tensor<%s>[%s]", i ? ", " : "", outputs[i].name, dtype_name(outputs[i].type), dims[g->rank - 1]);
    }
    return count;
}

static void add_scalars(Generator *g) {
    for (int i = below(g, 3); i > 0; i--) {
        PhbDType type = number_type(g);
        const char *name = text(g, "s%d", i);
        buffer_printf(&g->params, ", %s: %s", name, dtype_name(type));
        g->names[g->name_count++] = (Name){name, type, scalar_shape(), false, false};
    }
}

static void add_frame(Generator *g) {
    int shift = g->is_shifted;
    if (g->rank > 1)
        line(g, chance(g, 50) ? "let row = ctx.block.y * TM%s" : "let row = TM * ctx.block.y%s", shift ? " - 1" : "");
    line(g, "let col = ctx.block.x * TN%s", shift ? " - 2" : "");
    for (int i = g->rank > 1 ? 0 : 1; i < 2 && !g->has_cluster; i++)
        g->names[g->name_count++] = (Name){i ? "col" : "row", PHB_I64, scalar_shape(), false, false};
}

char *generate_kernel(uint64_t seed, const char *name, Tally *tally) {
    Generator g = {.arena = arena_new(), .random = {seed}, .tally = tally, .kernel = name};
    Output outputs[3];
    Buffer head = {0}, result = {0};
    choose_frame(&g);
    bool is_aligned = !g.is_shifted && chance(&g, 25);
    for (int i = below(&g, MOST_FNS); i > 0; i--)
        add_fn(&g, &head);
    print_attributes(&g, &head, is_aligned);
    int output_count = add_outputs(&g, outputs);
    add_scalars(&g);
    g.indent = 1;
    add_frame(&g);
    statements(&g, outputs, output_count, BLOCK_DEPTH, 2 + below(&g, 6), false);
    for (int i = 0; i < output_count; i++)
        store(&g, &outputs[i], true);
    buffer_printf(&result, "// differential %s seed=%" PRIu64, name, seed);
    if (g.rank > 1)
        buffer_printf(&result, " M=%" PRId64, whole_extent(&g, g.tile[0], is_aligned));
    buffer_printf(&result, " N=%" PRId64, whole_extent(&g, g.tile[1], is_aligned));
    if (g.has_batch)
        buffer_printf(&result, " B=%d", 1 + below(&g, 3));
    buffer_printf(&result, "%s\n%skernel %s(%s) {\n%s}\n", g.dims.data ? g.dims.data : "", head.data, name, g.params.data, g.body.data);
    buffer_free(&head);
    buffer_free(&g.params);
    buffer_free(&g.dims);
    buffer_free(&g.body);
    arena_free(g.arena);
    return result.data;
}
