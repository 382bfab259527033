/* What of a product alone keeps it from bulk copies and matrix instructions of four warps: its types and shape, and each of its factors. Texts go on
 * from "it cannot: ". */
#include "compiler/layout/bulk.h"

enum { MOST_BOX = 256, STEP = 16 }; /* rows and columns of a bulk copy; elements along k of an instruction */

static bool is_power(int64_t n) {
    return (n & (n - 1)) == 0;
}

const char *bulk_shape_refusal(const IrOp *dot) {
    const Type *a = dot->operands.items[0]->type, *b = dot->operands.items[1]->type, *result = dot->results.items[0]->type;
    int64_t rows = tile_rows(result), columns = tile_columns(result), k = tile_columns(a);
    if ((a->scalar != PHB_F16 && a->scalar != PHB_BF16) || a->scalar != b->scalar || result->scalar != PHB_F32)
        return "both factors are to be of f16, or of bf16";
    if (!is_power(rows) || !is_power(columns) || !is_power(k))
        return "extents are to be powers of two";
    if (rows < BULK_GROUP_ROWS)
        return "it has less than 64 rows";
    if (columns < STEP || columns > MOST_BOX)
        return "it has less than 16 columns, or more than 256";
    return k < STEP ? "it has less than 16 elements along k" : NULL;
}

static const char *why_no_slice(const Bulk *b, const IrValue *tile, const bool *stored) {
    const IrOp *load = tile->def;
    int axes[2];
    if (!bulk_is_load(tile) || tile->type->rank != 2)
        return "is computed, and no slice of a tensor";
    const IrValue *tensor = ir_memory(load, NULL);
    int last = load->operands.items[0]->type->rank - 1;
    slice_axes(load, axes);
    if (!ir_is_param(tensor))
        return "is no slice of a tensor";
    if (axes[1] != last)
        return "has rows that do not run along its tensor's last axis";
    if (stored[tensor->index])
        return "is of a tensor that the kernel stores to";
    if (tile_rows(tile->type) > MOST_BOX)
        return "has more than 256 rows";
    if (!ir_is_inside(tile, b->ahead.loop))
        return NULL;
    if (load->parent != b->ahead.body)
        return "is loaded in a branch or loop within its loop";
    for (int i = 0; i <= last; i++)
        if (!ahead_follows(&b->ahead, load->operands.items[1 + i]))
            return "is loaded at offsets that do not follow from the loop's index";
    return NULL;
}

const char *bulk_factor_refusal(const Bulk *b, const IrOp *dot, int factor, const bool *stored) {
    const char *why = why_no_slice(b, dot->operands.items[factor], stored);
    return why ? arena_printf(b->ahead.context->arena, "its %s factor %s", factor == 0 ? "first" : "second", why) : NULL;
}
