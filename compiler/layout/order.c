/* In which order the CTAs of a product's grid start. In rows of the grid those that run at the same time would share one factor's band and read all
 * of the other factor; in groups of rows, column by column, what they read of both is about a square. */
#include "compiler/layout/layout.h"

static const IrOp *find_product(const IrBlock *block) {
    const IrOp *found = NULL;
    for (const IrOp *op = block->first; !found && op; op = op->next) {
        found = op->kind == OP_WGMMA || op->kind == OP_WGMMA_T ? op : NULL;
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

/* A copy to the ring that the factor lies in. */
static const IrOp *find_copy(const IrBlock *block, const IrValue *ring) {
    const IrOp *found = NULL;
    for (const IrOp *op = block->first; !found && op; op = op->next) {
        bool is_copy =
            op->kind == OP_BULK_COPY && op->operands.items[op->operands.count - ir_values_stored(op->kind)]->def->operands.items[0] == ring;
        found = is_copy ? op : NULL;
        for (int r = 0; !found && r < op->regions.count; r++)
            found = find_copy(op->regions.items[r], ring);
    }
    return found;
}

static bool copy_follows(const IrKernel *kernel, const IrOp *product, int factor, int axis) {
    const IrOp *copy = find_copy(kernel->body, product->operands.items[factor]->def->operands.items[0]);
    bool follows = false;
    for (int i = 1; copy && i <= copy->operands.items[0]->type->rank; i++)
        follows |= follows_block(copy->operands.items[i], axis, 0);
    return follows;
}

int layout_order(const IrKernel *kernel) {
    enum { AT_ONCE = 132, X = 0, Y = 1 };
    const IrOp *product = find_product(kernel->body);
    if (!product || kernel->signature.cluster_dims[0] || !kernel->signature.grid[X].counts.count || !kernel->signature.grid[Y].counts.count)
        return 0;
    bool is_turned = copy_follows(kernel, product, 0, X) && copy_follows(kernel, product, 1, Y);
    if (!is_turned && !(copy_follows(kernel, product, 0, Y) && copy_follows(kernel, product, 1, X)))
        return 0;
    const Type *type = product->results.items[0]->type;
    int64_t down = is_turned ? tile_columns(type) : tile_rows(type), along = is_turned ? tile_rows(type) : tile_columns(type);
    int64_t group = 1;
    while (4 * group * group * down <= 2 * AT_ONCE * along) /* group * down is to be about the root of AT_ONCE * down * along */
        group *= 2;
    return (int)group;
}
