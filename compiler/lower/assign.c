/* Assignments of the search dims, and expressions under one. */
#include "compiler/lower/lower.h"

typedef struct Values {
    Context *context;
    const Signature *signature;
    const int64_t *values;
} Values;

static const Dim *value_lookup(void *closure, const char *name) {
    const Values *values = closure;
    for (int i = 0; i < values->signature->search.count; i++)
        if (values->signature->search.items[i].name == name)
            return dim_int(values->context->dims, values->values[i]);
    return NULL;
}

const Dim *dim_assign(Context *context, const Signature *signature, const Dim *dim, const int64_t *values) {
    Values closure = {context, signature, values};
    return dim_substitute(context->dims, dim, value_lookup, &closure);
}

bool dim_evaluate(Context *context, const Signature *signature, const Dim *dim, const int64_t *values, int64_t *value) {
    const Dim *result = dim_assign(context, signature, dim, values);
    return result && dim_is_int(result, value);
}

void cluster_extents(Context *context, const Signature *signature, const int64_t *values, int64_t extents[3]) {
    for (int axis = 0; axis < 3; axis++) {
        extents[axis] = 1;
        if (signature->cluster_dims[axis])
            dim_evaluate(context, signature, signature->cluster_dims[axis], values, &extents[axis]);
    }
}

Assignment assignment_first(Context *context, const Signature *signature) {
    int count = signature->search.count;
    Assignment first = {.signature = signature};
    first.varies = NEW_ARRAY(context->arena, bool, count + 1);
    first.choice = NEW_ARRAY(context->arena, int, count + 1);
    first.values = NEW_ARRAY(context->arena, int64_t, count + 1);
    for (int i = 0; i < count; i++)
        first.values[i] = signature->search.items[i].leaf.items[0];
    return first;
}

bool assignment_next(Assignment *assignment) {
    for (int i = assignment->signature->search.count - 1; i >= 0; i--) {
        const SearchDim *dim = &assignment->signature->search.items[i];
        if (!assignment->varies[i])
            continue;
        assignment->choice[i] = (assignment->choice[i] + 1) % dim->leaf.count;
        assignment->values[i] = dim->leaf.items[assignment->choice[i]];
        if (assignment->choice[i] != 0)
            return true;
    }
    return false;
}
