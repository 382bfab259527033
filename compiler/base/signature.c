/* Look-ups in what a kernel declares. */
#include "compiler/base/base.h"

static const struct {
    const char *name;
    bool rounds;
} modes[TENSORCORE_COUNT] = {[TENSORCORE_NONE] = {"", false},
#define X(id, name, rounds) [TENSORCORE_##id] = {name, rounds},
    TENSORCORE_MODES(X)
#undef X
};

const char *tensorcore_name(TensorcoreMode mode) {
    return modes[mode].name;
}

bool tensorcore_rounds(TensorcoreMode mode) {
    return modes[mode].rounds;
}

const SearchDim *signature_search(const Signature *signature, const char *interned_name) {
    for (int i = 0; i < signature->search.count; i++)
        if (signature->search.items[i].name == interned_name)
            return &signature->search.items[i];
    return NULL;
}

int signature_param(const Signature *signature, const char *interned_name) {
    for (int i = 0; i < signature->params.count; i++)
        if (signature->params.items[i].name == interned_name)
            return i;
    return -1;
}

enum { MAX_ASSIGNMENTS = 4096 };

/* A choice from the leaf's sets, for the search dims that matter; the others stay names. */
typedef struct Assignment {
    DimPool *pool;
    const SearchDim *dims[PHB_MAX_DIMS];
    int choice[PHB_MAX_DIMS];
    int count;
} Assignment;

static const Dim *assigned(void *context, const char *name) {
    Assignment *assignment = context;
    for (int i = 0; i < assignment->count; i++)
        if (assignment->dims[i]->name == name)
            return dim_int(assignment->pool, assignment->dims[i]->leaf.items[assignment->choice[i]]);
    return NULL;
}

static bool next_assignment(Assignment *assignment) {
    for (int i = 0; i < assignment->count; i++) {
        if (++assignment->choice[i] < assignment->dims[i]->leaf.count)
            return true;
        assignment->choice[i] = 0;
    }
    return false;
}

bool signature_dims_equal(const Signature *signature, DimPool *pool, const Dim *a, const Dim *b) {
    if (a == b)
        return true;
    Assignment assignment = {.pool = pool};
    int64_t assignments = 1;
    for (int i = 0; i < signature->search.count; i++) {
        const SearchDim *search = &signature->search.items[i];
        if (search->leaf.count == 0 || !(dim_mentions(a, search->name) || dim_mentions(b, search->name)))
            continue;
        if (assignment.count == PHB_MAX_DIMS || __builtin_mul_overflow(assignments, search->leaf.count, &assignments) ||
            assignments > MAX_ASSIGNMENTS)
            return false;
        assignment.dims[assignment.count++] = search;
    }
    do {
        const Dim *x = dim_substitute(pool, a, assigned, &assignment), *y = dim_substitute(pool, b, assigned, &assignment);
        if (!x || x != y)
            return false;
    } while (next_assignment(&assignment));
    return true;
}
