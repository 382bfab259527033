/* Halos, LANGUAGE.md 8: how wide, and on which axes. A width is the same number in both readings, in every leaf and for the planner. */
#include "compiler/lower/split.h"

static const Type *param_type(const Split *split, int param) {
    return split->kernel->signature.params.items[param].type;
}

static const Halo *declaration(const Split *split, int param) {
    const Signature *signature = &split->kernel->signature;
    for (int i = 0; i < signature->halo.count; i++)
        if (signature->halo.items[i].param == param)
            return &signature->halo.items[i];
    return NULL;
}

/* Search dims that are tensor extents have one value throughout a job. */
static bool is_fixed(const Split *split, const char *name) {
    const Signature *signature = &split->kernel->signature;
    for (int i = 0; i < signature->params.count; i++)
        for (int k = 0; k < signature->params.items[i].type->rank; k++)
            if (dim_mentions(signature->params.items[i].type->dims[k], name))
                return true;
    return false;
}

/* The search dim in `width` that differs from leaf to leaf, or NULL. */
static const SearchDim *varying_dim(const Split *split, const Dim *width) {
    const Signature *signature = &split->kernel->signature;
    for (int i = 0; i < signature->search.count; i++)
        if (dim_mentions(width, signature->search.items[i].name) && !is_fixed(split, signature->search.items[i].name))
            return &signature->search.items[i];
    return NULL;
}

static void refuse_varying(Split *split, const Halo *halo, const Dim *width, const SearchDim *dim) {
    Refusal refusal = {
        .at = halo->span,
        .rule = split_text(split, "the width of a halo, '%s', differs from leaf to leaf", split_dim_text(split, width)),
        .other = dim->span,
        .other_text = split_text(split, "'%s' has more values than one", dim->name),
        .node = "the whole tensor is there, however far a leaf reads",
        .cluster = "the super-tiles are loaded before a leaf is chosen, with as much of their neighbours as the width says",
        .edit = split_text(split, "write the greatest width without '%s'", dim->name),
    };
    refuse(split, &refusal);
}

/* The greatest width under any assignment, where it depends on search dims alone; NULL after an error. */
static const Dim *settled_width(Split *split, const Halo *halo, const Dim *width) {
    Context *context = split->context;
    const Signature *signature = &split->kernel->signature;
    const SearchDim *varying = varying_dim(split, width);
    if (!varying)
        return width;
    Assignment assignment = assignment_first(context, signature);
    for (int i = 0; i < signature->search.count; i++)
        assignment.varies[i] = dim_mentions(width, signature->search.items[i].name);
    int64_t greatest = 0, value;
    do {
        if (!dim_evaluate(context, signature, width, assignment.values, &value)) {
            refuse_varying(split, halo, width, varying);
            return NULL;
        }
        greatest = value > greatest ? value : greatest;
    } while (assignment_next(&assignment));
    return dim_int(context->dims, greatest);
}

void find_halos(Split *split) {
    const Signature *signature = &split->kernel->signature;
    for (int i = 0; i < signature->halo.count; i++) {
        const Halo *halo = &signature->halo.items[i];
        for (int k = 0; k < param_type(split, halo->param)->rank; k++)
            split->halo[halo->param * PHB_MAX_RANK + k] = settled_width(split, halo, halo->width[k]);
    }
}

const Dim *split_halo(const Split *split, int at) {
    int follows = split->follows[at];
    int64_t width;
    bool is_split = follows >= 0 && split->axes[follows].split && split->halo[at];
    return is_split && !(dim_is_int(split->halo[at], &width) && width == 0) ? split->halo[at] : NULL;
}

static void refuse_store(Split *split, const Access *store, const Halo *halo) {
    const char *name = split->kernel->signature.params.items[store->param].name;
    Refusal refusal = {
        .at = store->op->span,
        .rule = split_text(split, "'%s' has a halo, so it is not written", name),
        .other = halo->span,
        .other_text = "the halo is declared here",
        .node = split_text(split, "a neighbour's read of '%s' races with this store", name),
        .cluster = split_text(split, "units of work hold copies of each other's elements of '%s'", name),
        .edit = split_text(split, "store to a tensor of its own, or take '%s' from @halo", name),
    };
    refuse(split, &refusal);
}

static void refuse_split_width(Split *split, const Halo *halo, const Dim *width, const Dim *dim) {
    Refusal refusal = {
        .at = halo->span,
        .rule = split_text(split, "the width of a halo, '%s', depends on '%s', which names a split axis", split_dim_text(split, width), dim->name),
        .other = split->kernel->signature.cluster_span,
        .other_text = "the axis is split because of this",
        .node = split_text(split, "'%s' is the extent of the whole axis", dim->name),
        .cluster = split_text(split, "'%s' is the extent of one super-tile", dim->name),
        .edit = "write a width that does not depend on it",
    };
    refuse(split, &refusal);
}

void check_halos(Split *split) {
    const Signature *signature = &split->kernel->signature;
    for (int i = 0; i < split->accesses.count; i++) {
        const Halo *halo = declaration(split, split->accesses.items[i].param);
        if (halo && is_store(split->accesses.items[i].op))
            refuse_store(split, &split->accesses.items[i], halo);
    }
    for (int i = 0; i < signature->halo.count; i++) {
        const Halo *halo = &signature->halo.items[i];
        for (int k = 0; k < param_type(split, halo->param)->rank; k++) {
            int axis;
            const Dim *width = split_halo(split, halo->param * PHB_MAX_RANK + k), *dim = width ? split_dim_in(split, width, &axis) : NULL;
            if (dim)
                refuse_split_width(split, halo, width, dim);
        }
    }
}
