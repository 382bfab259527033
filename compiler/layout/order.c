/* In which order CTAs start. In rows of the grid those that run at the same time would share one factor's band and read all
 * of the other factor; in groups of rows, column by column, what they read of both is about a square. */
#include "compiler/layout/layout.h"

static const IrOp *find_product(const IrBlock *block) {
    const IrOp *found = NULL;
    for (const IrOp *op = block->first; !found && op; op = op->next) {
        bool is_product = op->kind == OP_WGMMA || op->kind == OP_WGMMA_T || op->kind == OP_MMA || op->kind == OP_MMA_T || op->kind == OP_DOT ||
                          op->kind == OP_DOT_T;
        found = is_product ? op : NULL;
        for (int r = 0; !found && r < op->regions.count; r++)
            found = find_product(op->regions.items[r]);
    }
    return found;
}

static bool follows_block(const IrValue *value, int axis, int depth) {
    enum { MOST_DEPTH = 16 };
    const IrOp *op = value->def;
    if (!op || depth == MOST_DEPTH)
        return false;
    bool follows = op->kind == OP_BLOCK && op->axis == axis;
    for (int i = 0; !follows && i < op->operands.count; i++)
        follows = follows_block(op->operands.items[i], axis, depth + 1);
    return follows;
}

/* A copy to the ring. */
static const IrOp *find_copy(const IrBlock *block, const IrValue *ring) {
    const IrOp *found = NULL;
    for (const IrOp *op = block->first; !found && op; op = op->next) {
        bool is_copy = (op->kind == OP_BULK_COPY || op->kind == OP_ASYNC_COPY) &&
                       op->operands.items[op->operands.count - ir_values_stored(op->kind)]->def->operands.items[0] == ring;
        found = is_copy ? op : NULL;
        for (int r = 0; !found && r < op->regions.count; r++)
            found = find_copy(op->regions.items[r], ring);
    }
    return found;
}

/* What brings a slice of a tensor to where the product reads it; NULL: not known. */
static const IrOp *find_slice(const IrKernel *kernel, const IrValue *factor) {
    const IrOp *op = factor->def;
    if (op && op->kind == OP_SLOT)
        return find_copy(kernel->body, op->operands.items[0]);
    const IrOp *load = op && op->kind == OP_STAGE ? op->operands.items[0]->def : op; /* before there are slots, the load itself */
    return load && load->kind == OP_LOAD && ir_is_param(load->operands.items[0]) ? load : NULL;
}

/* The axis of the grid along which the factor's slices differ; -1: none, both, or not known. */
static int find_axis(const IrKernel *kernel, const IrValue *factor) {
    const IrOp *slice = find_slice(kernel, factor);
    bool follows[2] = {false, false};
    for (int i = 1; slice && i <= slice->operands.items[0]->type->rank; i++)
        for (int axis = 0; axis < 2; axis++)
            follows[axis] |= follows_block(slice->operands.items[i], axis, 0);
    return follows[0] == follows[1] ? -1 : follows[1];
}

int layout_order(const IrKernel *kernel) {
    enum { AT_ONCE = 132, X = 0, Y = 1 };
    const IrOp *product = find_product(kernel->body);
    if (!product || kernel->signature.cluster_dims[0] || !kernel->signature.grid[X].counts.count ||
        !kernel->signature.grid[Y].counts.count)
        return 0;
    int axes[2] = {find_axis(kernel, product->operands.items[0]), find_axis(kernel, product->operands.items[1])};
    bool is_turned = axes[0] == X && axes[1] == Y;
    if (!is_turned && !(axes[0] == Y && axes[1] == X))
        return 0;
    const Type *type = product->results.items[0]->type;
    int64_t down = is_turned ? tile_columns(type) : tile_rows(type), along = is_turned ? tile_rows(type) : tile_columns(type);
    int64_t group = 1;
    while (4 * group * group * down <= 2 * AT_ONCE * along) /* group * down is to be about the root of AT_ONCE * down * along */
        group *= 2;
    return (int)group;
}

/* Never less where the CTA's number along x is greater. */
static bool value_grows(const IrValue *value, int depth) {
    enum { MOST_DEPTH = 16 };
    const IrOp *op = value->def;
    if (!op || depth == MOST_DEPTH)
        return false;
    if (op->kind == OP_BLOCK)
        return op->axis == 0;
    if (op->operands.count != 2)
        return false;
    const IrValue *const *sides = (const IrValue *const *)op->operands.items;
    bool is_scaled = op->kind == OP_MUL && sides[1]->def && sides[1]->def->kind == OP_CONST && (int64_t)sides[1]->def->bits > 0;
    bool may = op->kind == OP_ADD || op->kind == OP_MIN || op->kind == OP_MAX || is_scaled;
    for (int i = 0; may && i < 2; i++)
        if (value_grows(sides[i], depth + 1) && (is_scaled || !follows_block(sides[!i], 0, depth + 1) || value_grows(sides[!i], depth + 1)))
            return true;
    return false;
}

static bool loop_grows(const IrBlock *block) {
    bool grows = false;
    for (const IrOp *op = block->first; !grows && op; op = op->next) {
        grows = op->kind == OP_FOR && value_grows(op->operands.items[1], 0);
        for (int r = 0; !grows && r < op->regions.count; r++)
            grows = loop_grows(op->regions.items[r]);
    }
    return grows;
}

bool layout_grows(const IrKernel *kernel) {
    return !kernel->signature.cluster_dims[0] && kernel->signature.grid[0].counts.count && loop_grows(kernel->body);
}
