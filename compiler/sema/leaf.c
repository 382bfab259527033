/* Questions about every assignment of the leaf's search dims. A question looks only at the dims that it mentions and at those that @require ties to
 * them. */
#include "compiler/sema/check.h"

#include <inttypes.h>

#define LEAF_MAX_DIMS 32
#define LEAF_MAX_ASSIGNMENTS (1 << 18) /* looked at for one question; no shape comes near */

typedef struct Assignment {
    DimPool *pool;
    const SearchDim *dims[LEAF_MAX_DIMS];
    int at[LEAF_MAX_DIMS]; /* index into the leaf's set */
    int count;
} Assignment;

static const Dim *assigned(void *context, const char *name) {
    const Assignment *assignment = context;
    for (int i = 0; i < assignment->count; i++)
        if (assignment->dims[i]->name == name)
            return dim_int(assignment->pool, assignment->dims[i]->leaf.items[assignment->at[i]]);
    return NULL;
}

/* The last dim turns fastest. False: that was the last assignment. */
static bool assignment_next(Assignment *assignment) {
    for (int i = assignment->count - 1; i >= 0; i--) {
        if (++assignment->at[i] < assignment->dims[i]->leaf.count)
            return true;
        assignment->at[i] = 0;
    }
    return false;
}

static bool eval(const Dim *dim, Assignment *assignment, int64_t *value) {
    const Dim *number = dim_substitute(assignment->pool, dim, assigned, assignment);
    return number && dim_is_int(number, value);
}

static void add_mentioned(Checker *checker, Assignment *assignment, const Dim *dim) {
    const Signature *signature = checker->signature;
    for (int i = 0; i < signature->search.count; i++) {
        const SearchDim *search = &signature->search.items[i];
        if (assignment->count < LEAF_MAX_DIMS && dim_mentions(dim, search->name) && !assigned(assignment, search->name))
            assignment->dims[assignment->count++] = search;
    }
}

static const char *describe(Checker *checker, const Assignment *assignment) {
    Buffer buffer = {0};
    for (int i = 0; i < assignment->count; i++) {
        const SearchDim *search = assignment->dims[i];
        buffer_printf(&buffer, "%s%s is %" PRId64, i == 0 ? " where " : " and ", search->name, search->leaf.items[assignment->at[i]]);
    }
    const char *text = buffer.data ? arena_strndup(checker->context->arena, buffer.data, buffer.length) : "";
    buffer_free(&buffer);
    return text;
}

static bool is_number(const Dim *dim) {
    return dim->kind != PHB_EXPR_DIM && dim->kind != PHB_EXPR_EXTENT && (!dim->a || is_number(dim->a)) && (!dim->b || is_number(dim->b));
}

/* In a fn that nothing calls, what is no number may have any value. */
static bool is_undecided(const Checker *checker, const Dim *const *dims, int count) {
    for (int i = 0; checker->is_unbound && i < count; i++)
        if (!is_number(dims[i]))
            return true;
    return false;
}

LeafAnswer leaf_ask(Checker *checker, const Dim *const *dims, int count, LeafPredicate *holds, const char **failure) {
    if (is_undecided(checker, dims, count))
        return LEAF_ALWAYS;
    Assignment assignment = {.pool = checker->context->dims};
    for (int i = 0; i < count; i++)
        add_mentioned(checker, &assignment, dims[i]);
    int held = 0, failed = 0, looked_at = 0;
    bool is_mixed = false;
    do {
        int64_t values[2 * PHB_MAX_RANK];
        bool has_values = count <= 2 * PHB_MAX_RANK;
        for (int i = 0; has_values && i < count; i++)
            has_values = eval(dims[i], &assignment, &values[i]);
        if (has_values && holds(values, count)) {
            held++;
        } else if (failed++ == 0 && failure) {
            *failure = describe(checker, &assignment);
        }
        is_mixed = held > 0 && failed > 0;
    } while (!is_mixed && assignment_next(&assignment) && ++looked_at < LEAF_MAX_ASSIGNMENTS);
    return failed == 0 ? LEAF_ALWAYS : held == 0 ? LEAF_NEVER : LEAF_SOMETIMES;
}

bool dim_is_static(const Checker *checker, const Dim *dim) {
    if (dim->kind == PHB_EXPR_EXTENT)
        return false;
    if (dim->kind == PHB_EXPR_DIM)
        return signature_search(checker->signature, dim->name) != NULL;
    return (!dim->a || dim_is_static(checker, dim->a)) && (!dim->b || dim_is_static(checker, dim->b));
}

static bool both_equal(const int64_t *values, int count) {
    return count == 2 && values[0] == values[1];
}

bool dim_is_always(Checker *checker, const Dim *dim, int64_t value) {
    return signature_dims_equal(checker->signature, checker->context->dims, dim, dim_int(checker->context->dims, value));
}

bool dims_are_equal(Checker *checker, const Dim *a, const Dim *b, const char **failure) {
    if (signature_dims_equal(checker->signature, checker->context->dims, a, b))
        return true;
    if (is_undecided(checker, (const Dim *const[]){a, b}, 2))
        return true;
    if (failure)
        leaf_ask(checker, (const Dim *const[]){a, b}, 2, both_equal, failure);
    return false;
}
