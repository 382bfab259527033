/* Types and attributes of single ops. */
#include "compiler/ir/verify.h"

static bool is_one(Verifier *v, const Dim *dim) {
    return verify_same_extent(v, dim, dim_int(v->context->dims, 1));
}

/* ---- ops by their traits ---- */

static const Type *operand_type(const IrOp *op, int i) {
    return op->operands.items[i]->type;
}

static const Type *result_type(const IrOp *op) {
    return op->results.items[0]->type;
}

static bool check_result_i64(Verifier *v, const IrOp *op) {
    if (result_type(op)->kind != TYPE_SCALAR || result_type(op)->scalar != PHB_I64)
        return verify_broken(v, "expected the result 'i64', found '%s'", verify_type_text(v, result_type(op)));
    return true;
}

static bool check_one_type(Verifier *v, const Type *a, const Type *b, const char *whose) {
    if (!verify_same_type(v, a, b))
        return verify_broken(v, "%s are of different types, '%s' and '%s'", whose, verify_type_text(v, a), verify_type_text(v, b));
    return true;
}

static bool check_element_wise(Verifier *v, const IrOp *op, unsigned traits) {
    PhbDType scalar = operand_type(op, 0)->scalar;
    bool takes_bool = op->kind == OP_AND || op->kind == OP_OR || op->kind == OP_XOR || op->kind == OP_NOT || (traits & TRAIT_COMPARE);
    if (scalar == PHB_BOOL && !takes_bool)
        return verify_broken(v, "'%s' takes no bool", op_info[op->kind].text);
    if ((traits & TRAIT_INT) && dtype_is_float(scalar))
        return verify_broken(v, "'%s' takes integers, found '%s'", op_info[op->kind].text, verify_type_text(v, operand_type(op, 0)));
    if ((traits & TRAIT_FLOAT) && !dtype_is_float(scalar))
        return verify_broken(v, "'%s' takes floats, found '%s'", op_info[op->kind].text, verify_type_text(v, operand_type(op, 0)));
    for (int i = 1; i < op->operands.count; i++)
        if (!check_one_type(v, operand_type(op, 0), operand_type(op, i), "operands"))
            return false;
    if (traits & TRAIT_SAME_TYPE)
        return check_one_type(v, operand_type(op, 0), result_type(op), "operand and result");
    if (result_type(op)->scalar != PHB_BOOL || !verify_same_shape(v, operand_type(op, 0), result_type(op)))
        return verify_broken(v, "expected a result of bool in the shape of the operands, found '%s'", verify_type_text(v, result_type(op)));
    return true;
}

static bool check_const(Verifier *v, const IrOp *op) {
    const Type *type = result_type(op);
    if (type->kind != TYPE_SCALAR)
        return verify_broken(v, "a constant is a scalar, found '%s'", verify_type_text(v, type));
    if (op->bits != bits_from_int(type->scalar, op->bits))
        return verify_broken(v, "the bits do not fit '%s'", verify_type_text(v, type));
    return true;
}

static bool check_axis(Verifier *v, const IrOp *op) {
    int axes = 3;
    if (op->kind == OP_BLOCK_OF) {
        const IrOp *group = op->operands.items[1]->def;
        if (!group || group->kind != OP_CONST || !verify_same_type(v, operand_type(op, 0), result_type(op)))
            return verify_broken(v, "a block's number is an i64, and the rows of a group are a constant");
    } else if (op->operands.count == 1) {
        if (operand_type(op, 0)->kind != TYPE_TENSOR)
            return verify_broken(v, "expected a tensor, found '%s'", verify_type_text(v, operand_type(op, 0)));
        axes = operand_type(op, 0)->rank;
    }
    if (op->axis < 0 || op->axis >= axes)
        return verify_broken(v, "there are %d axes, counted from 0, and no axis %d", axes, op->axis);
    return check_result_i64(v, op);
}

static bool check_broadcast(Verifier *v, const IrOp *op) {
    const Type *from = operand_type(op, 0), *to = result_type(op);
    bool fits = to->kind == TYPE_TILE && from->scalar == to->scalar;
    for (int i = 1; fits && i <= from->rank; i++) {
        const Dim *extent = from->dims[from->rank - i];
        fits = is_one(v, extent) || (i <= to->rank && verify_same_extent(v, extent, to->dims[to->rank - i]));
    }
    return fits || verify_broken(v, "'%s' does not broadcast to '%s'", verify_type_text(v, from), verify_type_text(v, to));
}

/* The shape that a slice has as a value: axes of extent 1 drop, leftmost first, until two are left; a scalar where all are points. */
static bool slice_type(Verifier *v, const IrOp *op, const Type *tensor, const Type **type) {
    const Dim *dims[PHB_MAX_RANK];
    bool all_points = true;
    int left = tensor->rank, count = 0;
    for (int i = 0; i < tensor->rank; i++) {
        const Dim *extent = op->extent[i];
        all_points &= !extent;
        if (left > 2 && (!extent || is_one(v, extent)))
            left--;
        else if (count < 2)
            dims[count++] = extent ? extent : dim_int(v->context->dims, 1);
    }
    if (all_points) {
        *type = type_scalar(v->context->types, tensor->scalar);
        return true;
    }
    if (left > 2)
        return verify_broken(v, "a slice has at most two axes that are no points, found %d", left);
    *type = type_shaped(v->context->types, TYPE_TILE, tensor->scalar, count, dims);
    return true;
}

/* At the memory level the slice of a tile is as the value is laid out. */
static bool check_slice_values(Verifier *v, const IrOp *op, const Type *slice) {
    int first = op->operands.count - ir_values_stored(op->kind);
    if (op->kind == OP_ASYNC_COPY)
        return verify_copy(v, op, slice);
    if (op->kind == OP_BULK_COPY || op->kind == OP_BULK_STORE)
        return verify_bulk_copy(v, op, slice);
    if (slice->kind == TYPE_TILE)
        slice = type_laid_out(v->context->types, slice, op->results.count ? result_type(op)->layout : operand_type(op, first)->layout);
    for (int i = first; i < op->operands.count; i++)
        if (!verify_same_type(v, slice, operand_type(op, i)))
            return verify_broken(v, "the slice is a '%s', the value a '%s'", verify_type_text(v, slice), verify_type_text(v, operand_type(op, i)));
    if (op->results.count && !verify_same_type(v, slice, result_type(op)))
        return verify_broken(v, "the slice is a '%s', the value a '%s'", verify_type_text(v, slice), verify_type_text(v, result_type(op)));
    if (ir_is_atomic(op->kind) && (slice->kind != TYPE_SCALAR || slice->scalar == PHB_BOOL))
        return verify_broken(v, "'%s' changes a number, found '%s'", op_info[op->kind].text, verify_type_text(v, slice));
    bool may_be_once = ir_is_atomic(op->kind) || (op->kind == OP_STORE && slice->kind == TYPE_SCALAR);
    return !op->once || may_be_once || verify_broken(v, "only a store of a scalar or an atomic is 'once'");
}

static bool check_slice(Verifier *v, const IrOp *op) {
    int stored = ir_values_stored(op->kind);
    const Type *tensor = op->operands.count ? operand_type(op, 0) : NULL;
    if (!tensor || (tensor->kind != TYPE_TENSOR && tensor->kind != TYPE_SHARED))
        return verify_broken(v, "the first operand is no tensor and no shared memory");
    if (op->operands.count != 1 + tensor->rank + stored)
        return verify_broken(v, "the %s has rank %d, found %d offsets", tensor->kind == TYPE_TENSOR ? "tensor" : "shared memory", tensor->rank,
            op->operands.count - 1 - stored);
    for (int i = 0; i < tensor->rank; i++) {
        const Type *offset = operand_type(op, 1 + i);
        if (offset->kind != TYPE_SCALAR || offset->scalar != PHB_I64)
            return verify_broken(v, "an offset is an i64, found '%s'", verify_type_text(v, offset));
        if (op->extent[i] && !verify_extent(v, op->extent[i], SCOPE_STATIC))
            return false;
    }
    const Type *slice = NULL;
    if (!slice_type(v, op, tensor, &slice))
        return false;
    return check_slice_values(v, op, slice);
}

static bool check_select(Verifier *v, const IrOp *op) {
    const Type *condition = operand_type(op, 0), *result = result_type(op);
    if (condition->scalar != PHB_BOOL || !verify_same_shape(v, condition, result))
        return verify_broken(v, "expected a condition of bool in the shape of the result, found '%s'", verify_type_text(v, condition));
    return check_one_type(v, operand_type(op, 1), result, "operand and result") &&
           check_one_type(v, operand_type(op, 2), result, "operand and result");
}

static bool check_shape_kept(Verifier *v, const IrOp *op) {
    const Type *from = operand_type(op, 0), *to = result_type(op);
    if (!verify_same_shape(v, from, to))
        return verify_broken(v, "operand and result differ in shape, '%s' and '%s'", verify_type_text(v, from), verify_type_text(v, to));
    bool is_bool = from->scalar == PHB_BOOL || to->scalar == PHB_BOOL;
    if (op->kind == OP_BITCAST && (is_bool || dtype_bits(from->scalar) != dtype_bits(to->scalar)))
        return verify_broken(v, "operand and result differ in width, '%s' and '%s'", verify_type_text(v, from), verify_type_text(v, to));
    return true;
}

static bool check_iota(Verifier *v, const IrOp *op) {
    const Type *type = result_type(op);
    if (type->kind != TYPE_TILE || type->rank != 1 || type->scalar != PHB_I32)
        return verify_broken(v, "expected the result 'tile<i32>[n]', found '%s'", verify_type_text(v, type));
    return true;
}

/* NULL on overflow. */
static const Dim *element_count(Verifier *v, const Type *type) {
    const Dim *count = dim_int(v->context->dims, 1);
    for (int i = 0; count && i < type->rank; i++)
        count = dim_op(v->context->dims, PHB_EXPR_MUL, count, type->dims[i]);
    return count;
}

static bool check_reshape(Verifier *v, const IrOp *op) {
    const Type *from = operand_type(op, 0), *to = result_type(op);
    const Dim *before = element_count(v, from), *after = element_count(v, to);
    bool fits = from->kind == TYPE_TILE && to->kind == TYPE_TILE && from->scalar == to->scalar && before && after;
    return (fits && verify_same_extent(v, before, after)) ||
           verify_broken(v, "a '%s' is no '%s' in another shape", verify_type_text(v, from), verify_type_text(v, to));
}

static bool check_transpose(Verifier *v, const IrOp *op) {
    const Type *from = operand_type(op, 0), *to = result_type(op);
    bool fits = from->kind == TYPE_TILE && to->kind == TYPE_TILE && from->rank == 2 && to->rank == 2 && from->scalar == to->scalar;
    return (fits && verify_same_extent(v, from->dims[0], to->dims[1]) && verify_same_extent(v, from->dims[1], to->dims[0])) ||
           verify_broken(v, "a '%s' is no '%s' transposed", verify_type_text(v, to), verify_type_text(v, from));
}

static bool check_reduction(Verifier *v, const IrOp *op) {
    const Type *from = operand_type(op, 0), *to = result_type(op);
    bool is_logic = op->kind == OP_ANY || op->kind == OP_ALL;
    if (from->kind != TYPE_TILE || (from->scalar == PHB_BOOL) != is_logic)
        return verify_broken(
            v, "'%s' reduces a tile of %s, found '%s'", op_info[op->kind].text, is_logic ? "bool" : "numbers", verify_type_text(v, from));
    if (op->axis < (op->kind == OP_ARGMAX ? 0 : -1) || op->axis >= (is_logic ? 0 : from->rank))
        return verify_broken(v, "'%s' of a '%s' has no axis %d", op_info[op->kind].text, verify_type_text(v, from), op->axis);
    bool fits = to->scalar == (op->kind == OP_ARGMAX ? PHB_I32 : from->scalar) && to->rank == (op->axis < 0 ? 0 : from->rank);
    for (int i = 0; fits && i < to->rank; i++)
        fits = i == op->axis ? is_one(v, to->dims[i]) : verify_same_extent(v, to->dims[i], from->dims[i]);
    return fits || verify_broken(v, "a '%s' does not reduce to a '%s'", verify_type_text(v, from), verify_type_text(v, to));
}

static bool check_cumsum(Verifier *v, const IrOp *op) {
    const Type *type = operand_type(op, 0);
    if (type->kind != TYPE_TILE || type->scalar == PHB_BOOL)
        return verify_broken(v, "'cumsum' takes a tile of numbers, found '%s'", verify_type_text(v, type));
    return check_one_type(v, type, result_type(op), "operand and result");
}

/* Whether elements of the type widen to the accumulator's without rounding. */
static bool dot_takes(PhbDType operand, PhbDType result) {
    if (result == PHB_F32)
        return operand == PHB_F16 || operand == PHB_BF16 || operand == PHB_F32;
    return result == PHB_F64 ? operand == PHB_F64 : result == PHB_I32 && (operand == PHB_I8 || operand == PHB_U8);
}

static bool check_dot(Verifier *v, const IrOp *op) {
    const Type *a = operand_type(op, 0), *b = operand_type(op, 1), *result = result_type(op);
    for (int i = 0; i < 3; i++) {
        bool is_matrix = op->kind != OP_DOT && op->kind != OP_DOT_T;
        bool is_staged = v->threads && i < 2 && !(is_matrix && i == 0 && operand_type(op, 0)->kind == TYPE_TILE);
        if (operand_type(op, i)->kind != (is_staged ? TYPE_SHARED : TYPE_TILE) || operand_type(op, i)->rank != 2)
            return verify_broken(
                v, "expected %s of rank 2, found '%s'", is_staged ? "a staged tile" : "tiles", verify_type_text(v, operand_type(op, i)));
    }
    if (!check_one_type(v, operand_type(op, 2), result, "accumulator and result"))
        return false;
    int k = op->kind == OP_DOT_T || op->kind == OP_MMA_T || op->kind == OP_WGMMA_T;
    if (!verify_same_extent(v, a->dims[1], b->dims[k]) || !verify_same_extent(v, a->dims[0], result->dims[0]) ||
        !verify_same_extent(v, b->dims[!k], result->dims[1]))
        return verify_broken(v, "'%s' and '%s' do not contract to '%s'", verify_type_text(v, a), verify_type_text(v, b), verify_type_text(v, result));
    if (!dot_takes(a->scalar, result->scalar) || !dot_takes(b->scalar, result->scalar))
        return verify_broken(
            v, "a contraction of '%s' and '%s' is not of '%s'", dtype_name(a->scalar), dtype_name(b->scalar), dtype_name(result->scalar));
    return true;
}

/* ---- thread code ---- */

static bool check_shared(Verifier *v, const IrOp *op) {
    const Type *type = result_type(op);
    if (type->kind != TYPE_SHARED || type->rank < 1 || type->rank > 3)
        return verify_broken(v, "expected the result 'shared<..>[..]' of rank 1 to 3, found '%s'", verify_type_text(v, type));
    for (int i = 0; i < type->rank; i++)
        if (!verify_extent(v, type->dims[i], SCOPE_STATIC))
            return false;
    return op->name || verify_broken(v, "shared memory has a name");
}

static bool check_index_operand(Verifier *v, const IrOp *op, const char *what) {
    const Type *type = operand_type(op, 1);
    return (type->kind == TYPE_SCALAR && type->scalar == PHB_I64) || verify_broken(v, "%s is an i64, found '%s'", what, verify_type_text(v, type));
}

static bool check_remote(Verifier *v, const IrOp *op) {
    const IrValue *memory = op->operands.items[0];
    if (memory->type->kind != TYPE_SHARED || (memory->def && memory->def->kind == OP_REMOTE))
        return verify_broken(v, "'remote' is of the CTA's own shared memory, found '%s'", verify_type_text(v, memory->type));
    return check_index_operand(v, op, "a rank") &&
           (memory->type == result_type(op) || verify_broken(v, "operand and result are of different types"));
}

static bool check_cluster_mask(Verifier *v, const IrOp *op) {
    const Type *type = result_type(op);
    if (op->axis < -1 || op->axis > 2)
        return verify_broken(v, "there are 3 axes, counted from 0, and no axis %d", op->axis);
    return (type->kind == TYPE_SCALAR && type->scalar == PHB_U32) || verify_broken(v, "expected the result 'u32', found '%s'", verify_type_text(v, type));
}

/* Each thread has a scalar of its own. */
static bool check_threads(Verifier *v, const IrOp *op) {
    const Type *type = operand_type(op, 0), *result = result_type(op);
    bool is_vote = op->kind == OP_WARP_ANY || op->kind == OP_WARP_ALL || op->kind == OP_BALLOT;
    bool is_shuffle = op->operands.count == 2;
    if (type->kind != TYPE_SCALAR || (!is_shuffle && (type->scalar == PHB_BOOL) != is_vote))
        return verify_broken(v, "'%s' takes %s, found '%s'", op_info[op->kind].text,
            is_shuffle ? "a scalar" : is_vote ? "a bool" : "a scalar number", verify_type_text(v, type));
    if (is_shuffle && !check_index_operand(v, op, "a lane"))
        return false;
    if (op->kind == OP_BALLOT)
        return result == type_scalar(v->context->types, PHB_U32) || verify_broken(v, "expected the result 'u32', found '%s'", verify_type_text(v, result));
    return check_one_type(v, type, result, "operand and result");
}

static bool check_kind(Verifier *v, const IrOp *op) {
    switch (op->kind) {
    case OP_SHARED:
        return check_shared(v, op);
    case OP_ELECT:
        return result_type(op) == type_scalar(v->context->types, PHB_BOOL) ||
               verify_broken(v, "expected the result 'bool', found '%s'", verify_type_text(v, result_type(op)));
    case OP_THREADS:
    case OP_WARP:
    case OP_LANE:
    case OP_CLUSTER_RANK:
    case OP_CLUSTER_SIZE:
        return check_result_i64(v, op);
    case OP_CONVERT:
    case OP_BITCAST:
        return check_shape_kept(v, op);
    case OP_BROADCAST:
        return check_broadcast(v, op);
    case OP_SELECT:
        return check_select(v, op);
    case OP_IOTA:
        return check_iota(v, op);
    case OP_RESHAPE:
        return check_reshape(v, op);
    case OP_TRANSPOSE:
        return check_transpose(v, op);
    case OP_CUMSUM:
        return check_cumsum(v, op);
    case OP_DOT:
    case OP_DOT_T:
    case OP_MMA:
    case OP_MMA_T:
    case OP_WGMMA:
    case OP_WGMMA_T:
        return check_dot(v, op);
    default:
        return true;
    }
}

/* verify_layouts looks at these. */
static bool is_for_layouts(OpKind kind) {
    bool is_slots = kind == OP_SLOT || kind == OP_PART || kind == OP_BULK_PUT || kind == OP_BULK_GET || kind == OP_PLANES;
    bool is_mbarriers = kind == OP_MBARRIER_EXPECT || kind == OP_MBARRIER_WAIT || kind == OP_MBARRIER_ARRIVE;
    return is_slots || is_mbarriers || kind == OP_ASYNC_WAIT || kind == OP_WGMMA_WAIT || kind == OP_BULK_STORE_WAIT;
}

bool verify_op(Verifier *v, const IrOp *op) {
    const OpInfo *info = &op_info[op->kind];
    if (info->attr == ATTR_SLICE)
        return check_slice(v, op);
    if (info->attr == ATTR_AXIS && !(info->traits & TRAIT_REDUCES))
        return check_axis(v, op);
    if (info->attr == ATTR_AXIS_OR_ALL)
        return check_cluster_mask(v, op);
    if (info->attr == ATTR_CONST)
        return check_const(v, op);
    if (is_for_layouts(op->kind))
        return true;
    if (info->attr == ATTR_DIM)
        return op->dim ? verify_dim(v, op->dim, SCOPE_LEAF) && check_result_i64(v, op) : verify_broken(v, "the dim is missing");
    if (op->kind == OP_REMOTE)
        return check_remote(v, op);
    bool is_mma = op->kind == OP_MMA || op->kind == OP_MMA_T || op->kind == OP_WGMMA || op->kind == OP_WGMMA_T;
    bool is_dot = op->kind == OP_DOT || op->kind == OP_DOT_T || is_mma;
    for (int i = is_dot ? 2 : 0; i < op->operands.count; i++)
        if (!verify_value_type(v, operand_type(op, i)))
            return false;
    if ((info->traits & TRAIT_THREAD) && op->operands.count > 0)
        return check_threads(v, op);
    if (info->traits & TRAIT_REDUCES)
        return check_reduction(v, op);
    if (info->traits & (TRAIT_SAME_TYPE | TRAIT_COMPARE))
        return check_element_wise(v, op, info->traits);
    return check_kind(v, op);
}
