/* Where this CTA is. A kernel with @cluster may use it only in subscripts and in comparisons along the axis that it indexes. */
#include "tests/differential/generate.h"

static const char *axis_of_stores(Generator *g) {
    static const char *const axes[] = {"x", "y", "z"};
    return axes[below(g, g->rank == 1 ? 1 : g->rank == 2 ? 2 : 3)];
}

const char *position_of(Generator *g, Builtin builtin) {
    if (g->has_cluster || g->in_fn)
        return NULL;
    switch (builtin) {
    case BUILTIN_CTX_BLOCK:
    case BUILTIN_CTX_GRID:
    case BUILTIN_CTX_SUPER:
    case BUILTIN_CTX_SUPERS:
        return text(g, "%s.%s", builtin_name(builtin), axis_of_stores(g));
    case BUILTIN_PROGRAM_ID:
        return "program_id(0)";
    default: { /* extent, origin, whole */
        int count = g->output_count + g->operand_count, which = below(g, count);
        bool is_output = which < g->output_count;
        const Operand *operand = is_output ? NULL : &g->operands[which - g->output_count];
        return text(g, "%s(%s, %d)", builtin_name(builtin), is_output ? g->outputs[which].name : operand->name,
            below(g, is_output ? g->rank : operand->rank));
    }
    }
}

const char *position(Generator *g) {
    static const Builtin builtins[] = {BUILTIN_CTX_BLOCK, BUILTIN_CTX_GRID, BUILTIN_CTX_SUPER, BUILTIN_CTX_SUPERS, BUILTIN_PROGRAM_ID,
        BUILTIN_EXTENT, BUILTIN_ORIGIN, BUILTIN_WHOLE};
    const char *value = position_of(g, builtins[below(g, 8)]);
    return value ? value : g->in_fn || chance(g, 50) ? text(g, "%d", below(g, 9)) : g->spelling[1];
}

static const char *comparison(Generator *g) {
    static const char *const ops[] = {"<", "<=", ">", ">="};
    return ops[below(g, 4)];
}

/* The position of each element of the own tile along an axis: in the leaf's tensor or in the whole one, with what it may be compared with. */
static const char *mask_along(Generator *g, int axis) {
    const char *tensor = g->outputs[below(g, g->output_count)].name;
    int tensor_axis = g->rank - 2 + axis;
    const char *own = axis ? text(g, "col + iota(TN)") : text(g, "row + reshape(iota(TM), TM, 1)");
    if (chance(g, 50))
        return text(g, "%s %s extent(%s, %d)%s", own, comparison(g), tensor, tensor_axis, !g->has_cluster && chance(g, 40) ? " - 1" : "");
    const char *limit = chance(g, 50) ? text(g, "%d", 1 + below(g, 12)) : text(g, "whole(%s, %d)", tensor, tensor_axis);
    return text(g, "origin(%s, %d) + %s %s %s", tensor, tensor_axis, own, comparison(g), limit);
}

const char *position_mask(Generator *g) {
    if (g->rank == 1)
        return text(g, "(%s)", mask_along(g, 1));
    const char *tensor = g->outputs[below(g, g->output_count)].name;
    if (chance(g, 40)) /* causal */
        return text(g, "(origin(%s, %d) + row + reshape(iota(TM), TM, 1) %s origin(%s, %d) + col + iota(TN))", tensor, g->rank - 2, comparison(g), tensor,
            g->rank - 1);
    return text(g, "(%s %s %s)", mask_along(g, 0), chance(g, 60) ? "&&" : "||", mask_along(g, 1));
}
