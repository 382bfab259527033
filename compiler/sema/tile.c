/* Builtins that make, rearrange, reduce and contract tiles, LANGUAGE.md 5. A tile of rank 1 counts as [1, n]. */
#include "compiler/sema/check.h"

static const Dim *rows_of(Checker *checker, const Type *type) {
    return type->rank == 2 ? type->dims[0] : dim_int(checker->context->dims, 1);
}

static const Dim *columns_of(const Type *type) {
    return type->dims[type->rank - 1];
}

static const Type *tile_type(Checker *checker, PhbDType scalar, const Dim *rows, const Dim *columns) {
    return type_shaped(checker->context->types, TYPE_TILE, scalar, 2, (const Dim *const[]){rows, columns});
}

/* Whether argument `index`, checked, is a tile; else an error. */
static bool has_tile(Checker *checker, Expr *call, int index) {
    Expr **arg = &call->args.items[index];
    *arg = literal_settle(checker, *arg);
    if (type_is_poison((*arg)->type))
        return false;
    if ((*arg)->type->kind == TYPE_TILE)
        return true;
    diag_error(checker->context->diag, (*arg)->span, "'%s' takes a tile, found '%s'", call->left->text, type_text(checker, (*arg)->type));
    return false;
}

/* Checks argument `index`, which must be a tile; false after an error. */
static bool check_tile(Checker *checker, Expr *call, int index) {
    check_operand(checker, call->args.items[index]);
    return has_tile(checker, call, index);
}

/* An argument that is an extent: static, at least 1. NULL after an error. */
static const Dim *check_extent(Checker *checker, Expr *call, int index) {
    Expr **arg = &call->args.items[index];
    *arg = check_index(checker, *arg, arena_printf(checker->context->arena, "an extent in '%s'", call->left->text));
    if (type_is_poison((*arg)->type))
        return NULL;
    const Dim *dim = (*arg)->dim;
    if (!dim || !dim_is_static(checker, dim)) {
        diag_error(checker->context->diag, (*arg)->span, "'%s' is not static; a tile's extents are made of integers and search dims",
            expr_text(checker, *arg));
        return NULL;
    }
    return shape_check_tile(checker, (*arg)->span, &dim, 1) ? dim : NULL;
}

void check_iota(Checker *checker, Expr *call) {
    const Dim *extent = check_extent(checker, call, 0);
    if (extent)
        call->type = type_shaped(checker->context->types, TYPE_TILE, PHB_I32, 1, &extent);
}

static const Dim *element_count(Checker *checker, const Dim *const *dims, int rank) {
    const Dim *count = dims[0];
    for (int i = 1; count && i < rank; i++)
        count = dim_op(checker->context->dims, PHB_EXPR_MUL, count, dims[i]);
    return count;
}

void check_reshape(Checker *checker, Expr *call) {
    const Dim *dims[PHB_MAX_RANK];
    int rank = call->args.count - 1;
    bool is_sound = check_tile(checker, call, 0);
    for (int i = 0; i < rank; i++) {
        dims[i] = check_extent(checker, call, i + 1);
        is_sound = is_sound && dims[i];
    }
    if (!is_sound || !shape_check_tile(checker, call->span, dims, rank))
        return;
    const Type *from = call->args.items[0]->type;
    const Type *to = type_shaped(checker->context->types, TYPE_TILE, from->scalar, rank, dims);
    const Dim *have = element_count(checker, from->dims, from->rank), *want = element_count(checker, dims, rank);
    const char *failure = "";
    if (have && want && dims_are_equal(checker, have, want, &failure))
        call->type = to;
    else
        diag_error(checker->context->diag, call->span, "'reshape' keeps the number of elements: '%s' to '%s' does not%s", type_text(checker, from),
            type_text(checker, to), failure);
}

void check_transpose(Checker *checker, Expr *call) {
    if (!check_tile(checker, call, 0))
        return;
    const Type *type = call->args.items[0]->type;
    call->type = tile_type(checker, type->scalar, columns_of(type), rows_of(checker, type));
}

void check_triangle(Checker *checker, Expr *call) {
    bool is_sound = check_tile(checker, call, 0);
    if (call->args.count == 2) {
        Expr **diagonal = &call->args.items[1];
        *diagonal = check_index(checker, *diagonal, arena_printf(checker->context->arena, "the diagonal of '%s'", call->left->text));
        is_sound = is_sound && !type_is_poison((*diagonal)->type);
    }
    if (!is_sound)
        return;
    const Type *type = call->args.items[0]->type;
    call->type = tile_type(checker, type->scalar, rows_of(checker, type), columns_of(type));
}

/* ---- reductions ---- */

PhbDType sum_type(PhbDType scalar) {
    if (dtype_bits(scalar) >= 32)
        return scalar;
    return dtype_is_float(scalar) ? PHB_F32 : PHB_I32;
}

void check_reduction(Checker *checker, Expr *call, Builtin builtin) {
    const BuiltinInfo *info = &builtin_table[builtin];
    Expr **arg = &call->args.items[0];
    check_operand(checker, *arg);
    bool is_vote = (builtin == BUILTIN_ANY || builtin == BUILTIN_ALL) && (*arg)->type->kind == TYPE_SCALAR && !literal_is_open(*arg);
    if (is_vote)
        check_vote(checker, call, builtin == BUILTIN_ANY ? BUILTIN_WARP_ANY : BUILTIN_WARP_ALL);
    if (is_vote || !has_tile(checker, call, 0))
        return;
    if (!operand_has_class(checker, call, *arg, info->operands))
        return;
    bool is_sum =
        info->result == RESULT_ROW_SUM || info->result == RESULT_COL_SUM || info->result == RESULT_TOTAL_SUM || info->result == RESULT_CUMSUM;
    if (is_sum)
        *arg = expr_convert(checker, *arg, sum_type((*arg)->type->scalar));
    const Type *type = (*arg)->type;
    const Dim *one = dim_int(checker->context->dims, 1);
    PhbDType scalar = info->result == RESULT_ROW_INDEX ? PHB_I32 : type->scalar;
    switch (info->result) {
    case RESULT_ROW:
    case RESULT_ROW_SUM:
    case RESULT_ROW_INDEX:
        call->type = tile_type(checker, scalar, rows_of(checker, type), one);
        break;
    case RESULT_COL:
    case RESULT_COL_SUM:
        call->type = tile_type(checker, scalar, one, columns_of(type));
        break;
    case RESULT_CUMSUM:
        call->type = type;
        break;
    default:
        call->type = type_scalar(checker->context->types, scalar);
        break;
    }
}

/* ---- dot ---- */

/* The element type that operands of both types give, LANGUAGE.md 3; false: none. */
static bool dot_type(PhbDType a, PhbDType b, PhbDType *result) {
    if (dtype_is_float(a) && dtype_is_float(b)) {
        *result = a == PHB_F64 || b == PHB_F64 ? PHB_F64 : PHB_F32;
        return true;
    }
    *result = PHB_I32;
    return a == b && dtype_is_int(a) && dtype_bits(a) == 8;
}

void check_dot(Checker *checker, Expr *call, Builtin builtin) {
    Diag *diag = checker->context->diag;
    bool is_sound = check_tile(checker, call, 0);
    if (!check_tile(checker, call, 1) || !is_sound)
        return;
    Expr **a = &call->args.items[0], **b = &call->args.items[1];
    PhbDType scalar, operand;
    if (!dot_type((*a)->type->scalar, (*b)->type->scalar, &scalar)) {
        diag_error(diag, call->span, "'%s' takes two tiles of floats, of i8 or of u8, found '%s' and '%s'", call->left->text,
            type_text(checker, (*a)->type), type_text(checker, (*b)->type));
        return;
    }
    const Type *left = (*a)->type, *right = (*b)->type;
    bool is_transposed = builtin == BUILTIN_DOT_T;
    const Dim *inner = is_transposed ? columns_of(right) : rows_of(checker, right);
    const Dim *columns = is_transposed ? rows_of(checker, right) : columns_of(right);
    const char *failure = "";
    if (!dims_are_equal(checker, columns_of(left), inner, &failure)) {
        const char *ignored;
        bool other_fits = dims_are_equal(checker, columns_of(left), columns, &ignored);
        diag_error(diag, call->span, "'%s' of '%s' and '%s' sums over extents that differ, '%s' and '%s'%s%s", call->left->text,
            type_text(checker, left), type_text(checker, right), dim_text(checker, columns_of(left)), dim_text(checker, inner), failure,
            !other_fits     ? ""
            : is_transposed ? "; 'dot' takes its second factor as [k, n]"
                            : "; 'dot_t' takes its second factor as [n, k]");
        return;
    }
    if (left->scalar != right->scalar && dtype_promote(left->scalar, right->scalar, &operand)) {
        *a = expr_convert(checker, *a, operand);
        *b = expr_convert(checker, *b, operand);
    }
    const Dim *dims[] = {rows_of(checker, left), columns};
    if (shape_check_tile(checker, call->span, dims, 2))
        call->type = tile_type(checker, scalar, dims[0], dims[1]);
}
