/* What holds at the memory level: every tile has a layout that reaches all its elements and no others, and where ops tie layouts together, they
 * agree. */
#include "compiler/ir/verify.h"

/* Rows and columns of a specialised tile, rank 1 as one row; false where an extent is no number. */
static bool tile_size(const Type *type, int64_t size[2]) {
    size[0] = 1;
    for (int i = 0; i < type->rank; i++)
        if (!dim_is_int(type->dims[i], &size[2 - type->rank + i]))
            return false;
    return true;
}

/* How many of the vectors, row bits above column bits, are independent. */
static int count_independent(uint64_t *vectors, int count) {
    int independent = 0;
    for (int i = 0; i < count; i++) {
        uint64_t pivot = vectors[i];
        if (!pivot)
            continue;
        independent++;
        uint64_t lowest = pivot & -pivot;
        for (int j = i + 1; j < count; j++)
            if (vectors[j] & lowest)
                vectors[j] ^= pivot;
    }
    return independent;
}

bool verify_layout(Verifier *v, const Type *type) {
    const Layout *layout = type->layout;
    int64_t size[2];
    if (type->kind != TYPE_TILE)
        return true;
    if (!v->threads || !layout)
        return !v->threads == !layout ||
               verify_broken(v, layout ? "'%s' has a layout, the kernel no threads" : "'%s' has no layout", verify_type_text(v, type));
    if (!tile_size(type, size))
        return verify_broken(v, "'%s' has a layout and is not specialised", verify_type_text(v, type));
    if (32 << layout->warps > v->threads)
        return verify_broken(v, "'%s' is laid out over %d threads, the CTA has %d", verify_type_text(v, type), 32 << layout->warps, v->threads);
    uint64_t vectors[LAYOUT_MAX_BITS];
    int bits[2] = {layout_log2(size[0]), layout_log2(size[1])};
    for (int i = 0; i < layout_bits(layout); i++) {
        const int *at = layout->bases[i].at;
        if (at[0] < 0 || at[1] < 0 || at[0] >> bits[0] || at[1] >> bits[1])
            return verify_broken(v, "the layout of '%s' reaches beyond it", verify_type_text(v, type));
        vectors[i] = (uint64_t)at[0] << bits[1] | (uint64_t)at[1];
    }
    return count_independent(vectors, layout_bits(layout)) == bits[0] + bits[1] ||
           verify_broken(v, "the layout of '%s' does not reach all its elements", verify_type_text(v, type));
}

static bool check_layout(Verifier *v, const Type *type, const Layout *expected, const char *what) {
    return layout_same(type->layout, expected) || verify_broken(v, "the layout of '%s' is not that of %s", verify_type_text(v, type), what);
}

static bool check_broadcast(Verifier *v, const Type *from, const Type *to) {
    int64_t small[2], large[2];
    if (from->kind != TYPE_TILE || !tile_size(from, small) || !tile_size(to, large))
        return true;
    Layout layout = *to->layout;
    for (int axis = 0; axis < 2; axis++)
        if (small[axis] != large[axis])
            layout = layout_slice(&layout, axis);
    return check_layout(v, from, &layout, "the result, sliced");
}

static bool check_reduction(Verifier *v, const IrOp *op, const Type *from, const Type *to) {
    if (to->kind != TYPE_TILE)
        return true;
    Layout layout = layout_slice(from->layout, from->rank == 1 ? 1 : op->axis);
    return check_layout(v, to, &layout, "the operand, sliced");
}

static bool check_stage(Verifier *v, const Type *from, const Type *to) {
    bool fits = from->kind == TYPE_TILE && to->kind == TYPE_SHARED && from->scalar == to->scalar && from->rank == to->rank;
    for (int i = 0; fits && i < from->rank; i++)
        fits = verify_same_extent(v, from->dims[i], to->dims[i]);
    return fits || verify_broken(v, "a '%s' is not staged as a '%s'", verify_type_text(v, from), verify_type_text(v, to));
}

static bool is_slot_of(Verifier *v, const Type *slot, PhbDType scalar, const Dim *const *dims) {
    return slot->kind == TYPE_SHARED && slot->rank == 2 && slot->scalar == scalar && verify_same_extent(v, slot->dims[0], dims[0]) &&
           verify_same_extent(v, slot->dims[1], dims[1]);
}

static bool check_ring(Verifier *v, const Type *type) {
    return (type->kind == TYPE_SHARED && type->rank == 3) ||
           verify_broken(v, "a ring is shared memory of rank 3, found '%s'", verify_type_text(v, type));
}

static bool check_slot(Verifier *v, const IrOp *op, const Type *ring, const Type *slot) {
    const IrValue *number = op->operands.items[1];
    const IrOp *def = op->operands.items[0]->def;
    if (!def || (def->kind != OP_RING && def->kind != OP_BULK_RING))
        return verify_broken(v, "the first operand is no ring");
    if (number->type->kind != TYPE_SCALAR || number->type->scalar != PHB_I64)
        return verify_broken(v, "a slot's number is an i64, found '%s'", verify_type_text(v, number->type));
    return is_slot_of(v, slot, ring->scalar, ring->dims + 1) ||
           verify_broken(v, "a '%s' has no slots '%s'", verify_type_text(v, ring), verify_type_text(v, slot));
}

bool verify_copy(Verifier *v, const IrOp *op, const Type *slice) {
    const IrValue *slot = op->operands.items[op->operands.count - 2], *condition = op->operands.items[op->operands.count - 1];
    if (op->operands.items[0]->type->kind != TYPE_TENSOR)
        return verify_broken(v, "'async_copy' reads a tensor");
    if (!slot->def || slot->def->kind != OP_SLOT || slice->kind != TYPE_TILE || slice->rank != 2 ||
        !is_slot_of(v, slot->type, slice->scalar, slice->dims))
        return verify_broken(v, "the slice is a '%s', and '%s' no slot for it", verify_type_text(v, slice), verify_type_text(v, slot->type));
    return (condition->type->kind == TYPE_SCALAR && condition->type->scalar == PHB_BOOL) ||
           verify_broken(v, "a condition is a bool, found '%s'", verify_type_text(v, condition->type));
}

static bool check_mma(Verifier *v, const IrOp *op, const Type *result) {
    const Type *a = op->operands.items[0]->type;
    if (!layout_is_mma(result->layout))
        return verify_broken(v, "'%s' is not laid out as matrix instructions have it", verify_type_text(v, result));
    if (a->kind != TYPE_TILE)
        return true;
    for (int bit = 0; bit < a->layout->warps; bit++)
        if (layout_warps(a->layout)[bit].at[1])
            return verify_broken(v, "the first factor, '%s', has no whole rows in a warp", verify_type_text(v, a));
    Layout rows[2] = {layout_slice(a->layout, 1), layout_slice(result->layout, 1)};
    return (layout_is_mma(a->layout) && layout_same(&rows[0], &rows[1])) ||
           verify_broken(v, "the first factor, '%s', has other rows than the accumulator", verify_type_text(v, a));
}

bool verify_layouts(Verifier *v, const IrOp *op) {
    const Type *from = op->operands.count ? op->operands.items[0]->type : NULL, *to = op->results.count ? op->results.items[0]->type : NULL;
    Layout swapped;
    bool is_memory_level = op->kind >= OP_CONVERT_LAYOUT && op->kind <= OP_WGMMA_WAIT;
    if (!v->threads)
        return !is_memory_level || verify_broken(v, "'%s' stands before the memory level", op_info[op->kind].text);
    if (op->shared_at < 0 || op->shared_bytes < 0 || op->shared_at + op->shared_bytes > v->shared_bytes)
        return verify_broken(v, "it takes bytes of shared memory beyond the kernel's %lld", (long long)v->shared_bytes);
    switch (op->kind) {
    case OP_CONVERT_LAYOUT:
        return (from->kind == TYPE_TILE && from->scalar == to->scalar && verify_same_shape(v, from, to)) ||
               verify_broken(v, "'%s' and '%s' differ in more than layout", verify_type_text(v, from), verify_type_text(v, to));
    case OP_STAGE:
        return check_stage(v, from, to);
    case OP_BROADCAST:
        return check_broadcast(v, from, to);
    case OP_TRANSPOSE:
        swapped = layout_swap(from->layout);
        return check_layout(v, to, &swapped, "the operand, transposed");
    case OP_RING:
        return check_ring(v, to);
    case OP_SLOT:
        return check_slot(v, op, from, to);
    case OP_MMA:
    case OP_MMA_T:
        return check_mma(v, op, to);
    default:
        return !(op_info[op->kind].traits & TRAIT_REDUCES) ? verify_async(v, op) : check_reduction(v, op, from, to);
    }
}
