/* Element types: promotion, what a store converts, what a type holds; and the types that declarations spell. */
#include "compiler/sema/check.h"

#include <math.h>

static PhbDType larger(PhbDType a, PhbDType b) {
    return dtype_bits(a) >= dtype_bits(b) ? a : b;
}

static bool signed_of_bits(int bits, PhbDType *result) {
    static const PhbDType signed_types[] = {PHB_I8, PHB_I16, PHB_I32, PHB_I64};
    for (int i = 0; i < 4; i++)
        if (dtype_bits(signed_types[i]) == bits) {
            *result = signed_types[i];
            return true;
        }
    return false;
}

bool dtype_promote(PhbDType a, PhbDType b, PhbDType *result) {
    if (a == b) {
        *result = a;
        return a != PHB_BOOL;
    }
    if (a == PHB_BOOL || b == PHB_BOOL)
        return false;
    if (dtype_is_float(a) != dtype_is_float(b)) {
        *result = dtype_is_float(a) ? a : b;
        return true;
    }
    if (dtype_is_float(a)) {
        *result = dtype_bits(a) == dtype_bits(b) ? PHB_F32 : larger(a, b); /* two of one size are f16 and bf16 */
        return true;
    }
    if (dtype_is_signed(a) == dtype_is_signed(b)) {
        *result = larger(a, b);
        return true;
    }
    PhbDType with_sign = dtype_is_signed(a) ? a : b, without = dtype_is_signed(a) ? b : a;
    if (dtype_bits(with_sign) > dtype_bits(without)) {
        *result = with_sign;
        return true;
    }
    return signed_of_bits(2 * dtype_bits(without), result);
}

bool dtype_stores(PhbDType from, PhbDType to) {
    if (from == to)
        return true;
    if (dtype_is_float(from) || dtype_is_float(to))
        return dtype_is_float(from) && dtype_is_float(to);
    PhbDType both;
    return dtype_promote(from, to, &both) && both == to;
}

bool dtype_holds(PhbDType dtype, bool negative, uint64_t magnitude) {
    if (dtype_is_float(dtype)) {
        int significant = dtype == PHB_F16 ? 11 : dtype == PHB_BF16 ? 8 : dtype == PHB_F32 ? 24 : 53;
        if (dtype == PHB_F16 && magnitude > 65504)
            return false;
        while (magnitude != 0 && (magnitude & 1) == 0)
            magnitude >>= 1;
        return magnitude >> significant == 0;
    }
    if (!dtype_is_int(dtype))
        return false;
    int bits = dtype_bits(dtype);
    if (!dtype_is_signed(dtype))
        return (!negative || magnitude == 0) && (bits == 64 || magnitude >> bits == 0);
    uint64_t limit = UINT64_C(1) << (bits - 1);
    return negative ? magnitude <= limit : magnitude < limit;
}

bool dtype_reaches(PhbDType dtype, double value) {
    if (!isfinite(value))
        return true;
    /* Half a unit beyond the greatest finite value rounds to infinity: the tie goes to the even side, which is beyond. */
    double first_beyond = dtype == PHB_F16 ? 65520.0 : dtype == PHB_BF16 ? 0x1.ffp127 : dtype == PHB_F32 ? 0x1.ffffffp127 : INFINITY;
    return fabs(value) < first_beyond;
}

const Type *type_with_scalar(Checker *checker, const Type *type, PhbDType scalar) {
    if (type->kind == TYPE_SCALAR)
        return type_scalar(checker->context->types, scalar);
    return type_shaped(checker->context->types, type->kind, scalar, type->rank, type->dims);
}

bool type_is_poison(const Type *type) {
    return type->kind == TYPE_POISON;
}

bool type_is_value(const Type *type) {
    return type->kind == TYPE_SCALAR || type->kind == TYPE_TILE;
}

static bool all_positive(const int64_t *values, int count) {
    return count == 1 && values[0] >= 1;
}

/* One extent of a declared type; NULL after an error. */
static const Dim *resolve_extent(Checker *checker, Expr *expr, unsigned allowed) {
    const char *failure = "";
    const Dim *dim = dim_resolve(checker, expr, allowed);
    if (!dim || !dim_is_static(checker, dim) || leaf_ask(checker, &dim, 1, all_positive, &failure) == LEAF_ALWAYS)
        return dim;
    diag_error(checker->context->diag, expr->span, "an extent is at least 1; this one is not%s", failure);
    return NULL;
}

static bool has_countable_bytes(const Dim *const *dims, int rank, PhbDType scalar) {
    int64_t bytes = dtype_bits(scalar) / 8;
    for (int i = 0; i < rank; i++) {
        int64_t extent;
        if (dim_is_int(dims[i], &extent) && __builtin_mul_overflow(bytes, extent, &bytes))
            return false;
    }
    return true;
}

static const Type *resolve_shaped(Checker *checker, const TypeExpr *type_expr, const char *kind, int most, unsigned allowed) {
    const Type *poison = type_poison(checker->context->types);
    const Dim *dims[PHB_MAX_RANK];
    int rank = type_expr->dims.count;
    if (rank < 1 || rank > most) {
        diag_error(checker->context->diag, type_expr->span, "%s has 1 to %d axes, found %d", kind, most, rank);
        return poison;
    }
    bool resolved = true;
    for (int i = 0; i < rank; i++) {
        dims[i] = resolve_extent(checker, type_expr->dims.items[i], allowed);
        resolved = resolved && dims[i];
    }
    if (!resolved || (type_expr->kind != TYPE_TENSOR && !shape_check_tile(checker, type_expr->span, dims, rank)))
        return poison;
    if (!has_countable_bytes(dims, rank, type_expr->scalar)) {
        diag_error(checker->context->diag, type_expr->span, "this is %s of more than 2^63-1 bytes", kind);
        return poison;
    }
    return type_shaped(checker->context->types, type_expr->kind, type_expr->scalar, rank, dims);
}

static const Type *resolve_tensor(Checker *checker, const TypeExpr *type_expr, TypePlace place) {
    if (place == PLACE_FN_PARAM)
        return resolve_shaped(checker, type_expr, "a tensor", PHB_MAX_RANK, DIM_SEARCH | DIM_SYMBOLIC);
    if (place == PLACE_KERNEL_PARAM)
        return resolve_shaped(checker, type_expr, "a tensor", PHB_MAX_RANK, DIM_SEARCH | DIM_SYMBOLIC | DIM_DECLARES);
    diag_error(checker->context->diag, type_expr->span, "a tensor is a parameter of the kernel; a variable is a scalar or a tile");
    return type_poison(checker->context->types);
}

const Type *type_resolve(Checker *checker, const TypeExpr *type_expr, TypePlace place) {
    Diag *diag = checker->context->diag;
    switch (type_expr->kind) {
    case TYPE_SCALAR:
        return type_scalar(checker->context->types, type_expr->scalar);
    case TYPE_TENSOR:
        return resolve_tensor(checker, type_expr, place);
    case TYPE_TILE:
        if (place != PLACE_KERNEL_PARAM)
            return resolve_shaped(checker, type_expr, "a tile", 2, DIM_SEARCH);
        diag_error(diag, type_expr->span, "a parameter of a kernel is a tensor or a scalar, found a tile");
        diag_note(diag, (Span){0}, "on one node, a tile is a value of a CTA, which nobody has before the CTA runs");
        diag_note(diag, (Span){0}, "on the cluster, no unit of work could own a part of it, as it has no file");
        diag_note(diag, (Span){0}, "smallest edit: write 'tensor' for 'tile', and read it by a slice");
        break;
    case TYPE_SHARED:
        if (place != PLACE_KERNEL_PARAM)
            return resolve_shaped(checker, type_expr, "shared memory", 3, DIM_SEARCH);
        diag_error(diag, type_expr->span, "a parameter of a kernel is a tensor or a scalar, found shared memory");
        break;
    case TYPE_POISON:
    case TYPE_VOID:
        break;
    }
    return type_poison(checker->context->types);
}

Expr *expr_convert(Checker *checker, Expr *expr, PhbDType to) {
    if (type_is_poison(expr->type) || expr->type->scalar == to)
        return expr;
    Expr *convert = NEW(checker->context->arena, Expr);
    convert->kind = EXPR_CONVERT;
    convert->span = expr->span;
    convert->left = expr;
    convert->type = type_with_scalar(checker, expr->type, to);
    return convert;
}
