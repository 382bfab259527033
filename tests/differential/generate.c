/* A random kernel: its statements. */
#include "tests/differential/generate.h"

#include <stdlib.h>

enum { BLOCK_DEPTH = 2 };

const char *add_name(Generator *g, PhbDType type, Shape shape, bool is_mutable) {
    const char *name = text(g, "%c%d", is_mutable ? 'v' : 't', g->fresh++);
    if (g->name_count < MOST_NAMES)
        g->names[g->name_count++] = (Name){name, type, shape, is_mutable, false, false, -1};
    return name;
}

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
    bool is_var = chance(g, 45), is_typed = chance(g, 30);
    const char *value = is_typed ? loose_expression(g, type, shape, EXPRESSION_DEPTH) : expression(g, type, shape, EXPRESSION_DEPTH);
    const char *type_name = is_typed ? text(g, ": %s", type_text_of(g, type, shape)) : "";
    line(g, "%s %s%s = %s", is_var ? "var" : "let", add_name(g, type, shape, is_var), type_name, value);
}

/* From `first` on, one that has all the digits of the type; `first`, where there is none. */
static int output_for(Generator *g, PhbDType type, int first) {
    for (int i = 0; i < g->output_count && dtype_is_float(type); i++) {
        int output = (first + i) % g->output_count;
        PhbDType own = g->outputs[output].type;
        if (own == type || (dtype_is_float(own) && dtype_bits(own) > dtype_bits(type)))
            return output;
    }
    return first;
}

static void pursue_goal(Generator *g, int number) {
    Made made = goal(g);
    int names = g->name_count;
    if (!made.text)
        return;
    line(g, "let %s = %s", add_name(g, made.type, made.shape, false), made.text);
    if (g->name_count > names)
        g->names[names].output = output_for(g, made.type, number % g->output_count);
}

/* A type that a store to `type` converts by itself. */
static PhbDType storable(Generator *g, PhbDType type) {
    PhbDType from = number_type(g);
    return type == PHB_BOOL || chance(g, 50) || !dtype_stores(from, type) ? type : from;
}

void assign_to(Generator *g, const char *target, PhbDType type, Shape shape) {
    if (chance(g, 50)) {
        line(g, "%s = %s", target, loose_expression(g, storable(g, type), shape, EXPRESSION_DEPTH));
        return;
    }
    const char *dot = chance(g, 50) ? dot_expression(g, type, shape, 2) : NULL;
    if (dot) {
        line(g, "%s += %s", target, dot);
        return;
    }
    BinaryOp op = arithmetic_for(g, type);
    PhbDType from = op == BINARY_SHL || op == BINARY_SHR ? type : storable(g, type);
    if (dtype_is_float(type) && dtype_bits(from) > dtype_bits(type) && chance(g, 50))
        from = type;
    g->tally.binary[op][from]++;
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

/* ---- stores ---- */

/* What is small stays itself, and what is not, NaN among it, does not swallow the rest of a sum. */
static const char *clamped(Generator *g, PhbDType type, const char *value) {
    return chance(g, 25) ? value : text(g, "min(max(%s, -99.0), %s(99.0))", value, dtype_name(type));
}

static bool broadcasts(Shape shape, Shape to) {
    for (int axis = 0; axis < shape.rank; axis++) {
        int own = axis + to.rank - shape.rank;
        if (own < 0 || (shape.extent[axis] != 1 && shape.extent[axis] != to.extent[own]))
            return false;
    }
    return true;
}

static const char *use_name(Generator *g, const Name *name, PhbDType type) {
    static const char *const reductions[] = {"max", "min", "sum"};
    Shape own = own_shape(g);
    const char *value = name->text;
    if (!broadcasts(name->shape, own))
        value = name->type == PHB_BOOL ? text(g, "any(%s)", value) : text(g, "%s(%s)", reductions[below(g, 3)], value);
    if (dtype_is_float(name->type) && (value == name->text || value[0] == 'm'))
        value = clamped(g, name->type, value);
    return text(g, "%s(%s)", dtype_name(type), value);
}

/* A value of the type that hangs on names in scope, so that they are not dead: those that have to reach the output, and some others. NULL: there is
 * none. */
static const char *use_names(Generator *g, int output) {
    const char *sum = NULL;
    PhbDType type = g->outputs[output].type;
    for (int i = 0; i < g->name_count; i++) {
        const Name *name = &g->names[i];
        bool is_used = name->output >= 0 ? name->output == output : chance(g, 35);
        if (!is_used || (g->has_cluster && name->is_small))
            continue;
        const char *term = use_name(g, name, type);
        sum = !sum ? term : text(g, "%s %s %s", sum, dtype_is_float(type) ? "+" : "^", term);
    }
    return sum;
}

static void store(Generator *g, const Output *output) {
    Shape shape;
    if (chance(g, 30) && store_by_fn(g, output))
        return;
    const char *target = text(g, "%s[%s]", output->name, own_subscripts(g, true, &shape));
    assign_to(g, target, output->type, shape);
}

static const char *tame_expression(Generator *g, PhbDType type, Shape shape) {
    const char *value = loose_expression(g, type, shape, EXPRESSION_DEPTH);
    return dtype_is_float(type) ? clamped(g, type, value) : value;
}

static void last_store(Generator *g, int number) {
    Shape shape;
    const Output *output = &g->outputs[number];
    const char *target = text(g, "%s[%s]", output->name, own_subscripts(g, false, &shape));
    const char *used = use_names(g, number), *op = dtype_is_float(output->type) ? "+" : "^";
    if (used && chance(g, 40)) /* over what was stored before, so that it shows, too */
        line(g, "%s = %s %s (%s)", target, dtype_is_float(output->type) ? clamped(g, output->type, target) : target, op, used);
    else if (used && chance(g, 30))
        line(g, "%s = %s", target, used);
    else if (used)
        line(g, "%s = %s %s (%s)", target, tame_expression(g, output->type, shape), op, used);
    else
        assign_to(g, target, output->type, shape);
}

/* ---- blocks ---- */

static void statement(Generator *g, int depth, bool in_loop) {
    int kind = below(g, 100);
    if (in_loop && kind < 13) {
        StmtKind jump = g->tally.statement[STMT_BREAK] <= g->tally.statement[STMT_CONTINUE] ? STMT_BREAK : STMT_CONTINUE;
        g->tally.statement[jump]++;
        line(g, "if %s {", decided_condition(g));
        line(g, "    %s", jump == STMT_BREAK ? "break" : "continue");
        line(g, "}");
    } else if (kind < 36) {
        declare(g);
    } else if (kind < 58) {
        if (!assign(g))
            declare(g);
    } else if (kind < 71) {
        store(g, &g->outputs[below(g, g->output_count)]);
    } else if (kind < 73 && !g->has_cluster) {
        line(g, "if %s {", decided_condition(g));
        line(g, "    return");
        line(g, "}");
    } else if (kind < 78) {
        contraction(g, depth);
    } else if (depth == 0) {
        declare(g);
    } else if (kind < 88) {
        if_statement(g, depth, in_loop);
    } else if (kind < 97) {
        for_statement(g, depth);
    } else {
        while_statement(g, depth);
    }
}

void statements(Generator *g, int depth, int count, bool in_loop) {
    for (int i = 0; i < count; i++)
        statement(g, depth, in_loop);
}

char *generate_kernel(uint64_t seed, const char *name, const Coverage *so_far) {
    Generator g = {.arena = arena_new(), .random = {seed}, .tally = *so_far, .kernel = name};
    Buffer attributes = {0}, result = {0};
    choose_frame(&g);
    bool is_aligned = !g.is_shifted && chance(&g, 25);
    print_attributes(&g, &attributes, is_aligned);
    add_outputs(&g);
    for (int i = below(&g, MOST_FNS); i > 0; i--)
        add_fn(&g);
    add_scalars(&g);
    g.indent = 1;
    add_frame(&g);
    statements(&g, BLOCK_DEPTH, 2 + below(&g, 5), false);
    for (int i = 8 + below(&g, 4); i > 0; i--)
        pursue_goal(&g, i);
    for (int i = 0; i < g.output_count; i++)
        last_store(&g, i);
    print_setting(&g, &result, seed, is_aligned);
    buffer_printf(&result, "%s%skernel %s(%s) {\n%s}\n", g.fns.data ? g.fns.data : "", attributes.data, name, g.params.data, g.body.data);
    buffer_free(&attributes);
    buffer_free(&g.fns);
    buffer_free(&g.params);
    buffer_free(&g.dims);
    buffer_free(&g.body);
    arena_free(g.arena);
    return result.data;
}
