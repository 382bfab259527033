/* Loads and stores as tiles see them. */
#include "compiler/codegen/host/host.h"

#include <stdlib.h>

const IrValue *stored_value(const IrOp *op) {
    return op->operands.items[op->operands.count - 1];
}

const Type *access_type(const IrOp *op) {
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
