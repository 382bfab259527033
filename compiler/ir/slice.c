/* Loads and stores as tiles see them. */
#include "compiler/ir/ir.h"

#include <stdlib.h>

const IrValue *stored_value(const IrOp *op) {
    return op->operands.items[op->operands.count - 1];
}

const Type *access_type(const IrOp *op) {
    if (op->kind == OP_ASYNC_COPY || op->kind == OP_BULK_COPY)
        return op->operands.items[op->operands.count - ir_values_stored(op->kind)]->type;
    return op->kind == OP_LOAD ? op->results.items[0]->type : stored_value(op)->type;
}

int access_param(const IrOp *op) {
    return op->operands.items[0]->index;
}

bool slice_same(const IrOp *a, const IrOp *b) {
    if (a->operands.items[0] != b->operands.items[0])
        return false;
    int rank = a->operands.items[0]->type->rank;
    for (int axis = 0; axis < rank; axis++)
        if (a->operands.items[1 + axis] != b->operands.items[1 + axis] || a->extent[axis] != b->extent[axis])
            return false;
    return true;
}

int64_t tile_extent(const Type *type, int axis) {
    int64_t extent;
    if (!dim_is_int(type->dims[axis], &extent))
        abort();
    return extent;
}

void slice_axes(const IrOp *op, int axes[2]) {
    int rank = op->operands.items[0]->type->rank;
    int to_drop = rank - access_type(op)->rank;
    int count = 0;
    for (int axis = 0; axis < rank; axis++) {
        int64_t extent = 1;
        if (op->extent[axis] && !dim_is_int(op->extent[axis], &extent))
            abort();
        if (extent == 1 && to_drop > 0)
            to_drop--;
        else if (count < 2)
            axes[count++] = axis;
    }
}

int64_t tile_rows(const Type *type) {
    return type->rank == 1 ? 1 : tile_extent(type, 0);
}

int64_t tile_columns(const Type *type) {
    return tile_extent(type, type->rank - 1);
}

bool reshape_keeps_axes(const IrOp *op) {
    const Type *types[2] = {op->operands.items[0]->type, op->results.items[0]->type};
    int64_t kept[2][2] = {{1, 1}, {1, 1}};
    for (int i = 0; i < 2; i++)
        for (int axis = 0, count = 0; axis < types[i]->rank; axis++)
            if (tile_extent(types[i], axis) != 1)
                kept[i][count++] = tile_extent(types[i], axis);
    return kept[0][0] == kept[1][0] && kept[0][1] == kept[1][1];
}

enum { MULTIPLE_DEPTH = 16, MOST_MULTIPLE = 4096 };

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t known_multiple(const IrValue *value, int depth) {
    const IrOp *op = value->def;
    if (depth == MULTIPLE_DEPTH)
        return 1;
    if (!op) {
        const IrOp *owner = value->block->owner;
        if (!owner || owner->kind != OP_FOR || value->index != 0)
            return 1;
        return smaller(known_multiple(owner->operands.items[0], depth + 1), known_multiple(owner->operands.items[2], depth + 1));
    }
    int64_t found = 1;
    switch (op->kind) {
    case OP_CONST:
        while (found < MOST_MULTIPLE && op->bits % (uint64_t)(2 * found) == 0)
            found *= 2;
        return found;
    case OP_ADD:
    case OP_SUB:
        return smaller(known_multiple(op->operands.items[0], depth + 1), known_multiple(op->operands.items[1], depth + 1));
    case OP_MUL:
        return smaller(known_multiple(op->operands.items[0], depth + 1) * known_multiple(op->operands.items[1], depth + 1), MOST_MULTIPLE);
    case OP_SELECT:
        return smaller(known_multiple(op->operands.items[1], depth + 1), known_multiple(op->operands.items[2], depth + 1));
    default:
        return 1;
    }
}

int64_t ir_known_multiple(const IrValue *value) {
    return known_multiple(value, 0);
}
