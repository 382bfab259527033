/* Questions about every assignment of the leaf's search dims. A question looks only at the dims that it mentions and at those that @require ties to
 * them. */
#include "compiler/sema/check.h"

#include <inttypes.h>

#define LEAF_MAX_DIMS 32
#define LEAF_MAX_ASSIGNMENTS (1 << 20) /* looked at for one question; no shape comes near */

typedef struct Assignment {
    const SearchDim *dims[LEAF_MAX_DIMS];
    int at[LEAF_MAX_DIMS]; /* index into the leaf's set */
    int count;
} Assignment;

static bool assignment_find(const Assignment *assignment, const char *name, int64_t *value) {
    for (int i = 0; i < assignment->count; i++)
        if (assignment->dims[i]->name == name) {
            *value = assignment->dims[i]->leaf.items[assignment->at[i]];
            return true;
        }
    return false;
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

static bool ceil_quotient(int64_t a, int64_t b, int64_t *value) {
    int64_t quotient = a / b;
    *value = quotient + (a % b != 0 && (a < 0) == (b < 0));
    return true;
}

static bool eval(const Dim *dim, const Assignment *assignment, int64_t *value) {
    int64_t a, b = 0;
    if (dim->kind == PHB_EXPR_INT)
        return dim_is_int(dim, value);
    if (dim->kind == PHB_EXPR_DIM)
        return assignment_find(assignment, dim->name, value);
    if (dim->kind == PHB_EXPR_EXTENT || !eval(dim->a, assignment, &a) || (dim->b && !eval(dim->b, assignment, &b)))
        return false;
    bool divides = b != 0 && !(a == INT64_MIN && b == -1);
    switch (dim->kind) {
    case PHB_EXPR_ADD:
        return !__builtin_add_overflow(a, b, value);
    case PHB_EXPR_SUB:
        return !__builtin_sub_overflow(a, b, value);
    case PHB_EXPR_MUL:
        return !__builtin_mul_overflow(a, b, value);
    case PHB_EXPR_DIV:
        *value = divides ? a / b : 0;
        return divides;
    case PHB_EXPR_MOD:
        *value = divides ? a % b : 0;
        return divides;
    case PHB_EXPR_CEILDIV:
        return divides && ceil_quotient(a, b, value);
    case PHB_EXPR_MIN:
        *value = a < b ? a : b;
        return true;
    case PHB_EXPR_MAX:
        *value = a > b ? a : b;
        return true;
    case PHB_EXPR_EQ:
        *value = a == b;
        return true;
    case PHB_EXPR_NE:
        *value = a != b;
        return true;
    case PHB_EXPR_LT:
        *value = a < b;
        return true;
    case PHB_EXPR_LE:
        *value = a <= b;
        return true;
    case PHB_EXPR_AND:
        *value = a && b;
        return true;
    case PHB_EXPR_OR:
        *value = a || b;
        return true;
    case PHB_EXPR_NOT:
        *value = !a;
        return true;
    default:
        return false;
    }
}

static bool mentions_any(const Dim *dim, const Assignment *assignment) {
    for (int i = 0; i < assignment->count; i++)
        if (dim_mentions(dim, assignment->dims[i]->name))
            return true;
    return false;
}

static void add_mentioned(Checker *checker, Assignment *assignment, const Dim *dim) {
    const Signature *signature = checker->signature;
    for (int i = 0; i < signature->search.count; i++) {
        const SearchDim *search = &signature->search.items[i];
        int64_t unused;
        if (assignment->count < LEAF_MAX_DIMS && dim_mentions(dim, search->name) && !assignment_find(assignment, search->name, &unused))
            assignment->dims[assignment->count++] = search;
    }
}

static bool is_admitted(const Checker *checker, const Assignment *assignment) {
    for (int i = 0; i < checker->signature->require.count; i++) {
        int64_t holds;
        if (eval(checker->signature->require.items[i].cond, assignment, &holds) && !holds)
            return false;
    }
    return true;
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

LeafAnswer leaf_ask(Checker *checker, const Dim *const *dims, int count, LeafPredicate *holds, const char **failure) {
    Assignment assignment = {0};
    for (int i = 0; i < count; i++)
        add_mentioned(checker, &assignment, dims[i]);
    for (int i = 0; i < checker->signature->require.count; i++) {
        const Dim *cond = checker->signature->require.items[i].cond;
        if (mentions_any(cond, &assignment))
            add_mentioned(checker, &assignment, cond);
    }
    int held = 0, failed = 0, looked_at = 0;
    do {
        if (!is_admitted(checker, &assignment))
            continue;
        int64_t values[2 * PHB_MAX_RANK];
        bool has_values = count <= 2 * PHB_MAX_RANK;
        for (int i = 0; has_values && i < count; i++)
            has_values = eval(dims[i], &assignment, &values[i]);
        if (has_values && holds(values, count)) {
            held++;
        } else if (failed++ == 0 && failure) {
            *failure = describe(checker, &assignment);
        }
    } while (assignment_next(&assignment) && ++looked_at < LEAF_MAX_ASSIGNMENTS);
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
    return dims_are_equal(checker, dim, dim_int(checker->context->dims, value), NULL);
}

bool dims_are_equal(Checker *checker, const Dim *a, const Dim *b, const char **failure) {
    if (a == b)
        return true;
    int64_t left, right;
    if (dim_is_int(a, &left) && dim_is_int(b, &right)) {
        if (failure)
            *failure = "";
        return false;
    }
    return leaf_ask(checker, (const Dim *const[]){a, b}, 2, both_equal, failure) == LEAF_ALWAYS;
}
