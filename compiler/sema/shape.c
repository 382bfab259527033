/* Shapes of tiles: how they meet, and how large they may be. [n] meets rank 2 as [1, n]. */
#include "compiler/sema/check.h"

/* The extent of axis `axis` of a shape written with `rank` axes. */
static const Dim *extent_at(Checker *checker, const Type *type, int rank, int axis) {
    int own = axis - (rank - type->rank);
    return own < 0 ? dim_int(checker->context->dims, 1) : type->dims[own];
}

static bool is_one(Checker *checker, const Dim *dim) {
    return dim_is_always(checker, dim, 1);
}

static bool has_shape(const Type *type, const Dim *const *dims, int rank) {
    bool same = type->rank == rank;
    for (int i = 0; same && i < rank; i++)
        same = type->dims[i] == dims[i];
    return same;
}

const Type *shape_join(Checker *checker, Span span, const char *what, const Type *a, const Type *b, PhbDType scalar) {
    int rank = a->rank > b->rank ? a->rank : b->rank;
    if (rank == 0)
        return type_scalar(checker->context->types, scalar);
    const Dim *dims[PHB_MAX_RANK];
    for (int axis = 0; axis < rank; axis++) {
        const Dim *left = extent_at(checker, a, rank, axis), *right = extent_at(checker, b, rank, axis);
        const char *failure = "";
        if (is_one(checker, left) || dims_are_equal(checker, left, right, &failure)) {
            dims[axis] = is_one(checker, left) ? right : left;
        } else if (is_one(checker, right)) {
            dims[axis] = left;
        } else {
            diag_error(checker->context->diag, span, "'%s' meets '%s' and '%s', whose shapes do not agree%s", what, type_text(checker, a),
                type_text(checker, b), failure);
            return type_poison(checker->context->types);
        }
    }
    bool is_new = !has_shape(a, dims, rank) && !has_shape(b, dims, rank);
    if (is_new && !shape_check_tile(checker, span, dims, rank))
        return type_poison(checker->context->types);
    return type_shaped(checker->context->types, TYPE_TILE, scalar, rank, dims);
}

bool shape_broadcasts(Checker *checker, Span span, const Type *from, const Type *to) {
    const char *failure = "";
    bool fits = true;
    int rank = from->rank > to->rank ? from->rank : to->rank;
    for (int axis = 0; fits && axis < rank; axis++) {
        const Dim *have = extent_at(checker, from, rank, axis), *want = extent_at(checker, to, rank, axis);
        fits = is_one(checker, have) || dims_are_equal(checker, have, want, &failure);
    }
    bool is_column = to->rank == 1 && from->rank == 2 && is_one(checker, from->dims[1]);
    if (fits && to->kind == TYPE_SCALAR && from->kind != TYPE_SCALAR)
        fits = false;
    if (!fits)
        diag_error(checker->context->diag, span, "expected '%s', found '%s', whose shape does not fit%s%s", type_text(checker, to),
            type_text(checker, from), failure, is_column ? "; 'transpose(..)' makes a row of a column" : "");
    return fits;
}

static bool are_extents(const int64_t *values, int count) {
    for (int i = 0; i < count; i++)
        if (values[i] < 1 || values[i] > TILE_MAX_ELEMENTS)
            return false;
    return true;
}

static bool is_small_enough(const int64_t *values, int count) {
    int64_t elements = 1;
    for (int i = 0; i < count; i++)
        if (__builtin_mul_overflow(elements, values[i], &elements) || elements > TILE_MAX_ELEMENTS)
            return false;
    return true;
}

bool shape_check_tile(Checker *checker, Span span, const Dim *const *dims, int rank) {
    const char *failure = "";
    if (leaf_ask(checker, dims, rank, are_extents, &failure) != LEAF_ALWAYS) {
        diag_error(checker->context->diag, span, "an extent of a tile is from 1 to 2^31; this one is not%s", failure);
        return false;
    }
    if (leaf_ask(checker, dims, rank, is_small_enough, &failure) != LEAF_ALWAYS) {
        diag_error(checker->context->diag, span, "a tile has at most 2^31 elements; this one has more%s", failure);
        return false;
    }
    return true;
}
