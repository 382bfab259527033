/* Which products matrix instructions of a warp can do, and how those of a kernel hang together. */
#include "compiler/layout/layout.h"

int layout_mma_step(const IrOp *dot) {
    enum { ROWS = 16, COLUMNS = 8, STEP_BYTES = 32 };
    const Type *a = dot->operands.items[0]->type, *b = dot->operands.items[1]->type, *result = dot->results.items[0]->type;
    bool is_half = (a->scalar == PHB_F16 || a->scalar == PHB_BF16) && a->scalar == b->scalar;
    bool is_byte = (a->scalar == PHB_I8 || a->scalar == PHB_U8) && (b->scalar == PHB_I8 || b->scalar == PHB_U8);
    int64_t rows = tile_rows(result), columns = tile_columns(result), k = tile_columns(a);
    int step = STEP_BYTES / (dtype_bits(a->scalar) / 8);
    if (!is_half && !is_byte)
        return 0;
    bool fits = rows >= ROWS && columns >= COLUMNS && k % step == 0;
    bool is_padded = (rows & (rows - 1)) != 0 || (columns & (columns - 1)) != 0 || (k & (k - 1)) != 0;
    return fits && !is_padded ? step : 0;
}

/* Values that follow from results of products by element-wise ops, carried ones included. */
static bool mark_products(const IrBlock *block, bool *marked, MmaUse *use) {
    bool changed = false;
    for (const IrOp *op = block->first; op; op = op->next) {
        bool is_dot = op->kind == OP_DOT || op->kind == OP_DOT_T, follows = is_dot;
        if (is_dot && layout_mma_step(op)) {
            const Type *type = op->results.items[0]->type;
            int64_t elements = tile_rows(type) * tile_columns(type);
            use->chained |=
                op->operands.items[0]->type->kind == TYPE_TILE && !ir_is_param(op->operands.items[0]) && marked[op->operands.items[0]->id];
            use->rows = elements > use->elements ? tile_rows(type) : use->rows;
            use->elements = elements > use->elements ? elements : use->elements;
        }
        for (int i = 0; op->kind != OP_TRANSPOSE && op->kind != OP_RESHAPE && i < op->operands.count; i++)
            follows |= !ir_is_param(op->operands.items[i]) && marked[op->operands.items[i]->id];
        for (int i = 0; follows && i < op->results.count; i++) {
            changed |= !marked[op->results.items[i]->id];
            marked[op->results.items[i]->id] = true;
        }
        for (int r = 0; r < op->regions.count; r++)
            changed |= mark_products(op->regions.items[r], marked, use);
    }
    return changed;
}

MmaUse layout_mma_use(Context *context, IrKernel *kernel) {
    MmaUse use = {0};
    bool *marked = NEW_ARRAY(context->arena, bool, ir_number(kernel) + 1);
    while (mark_products(kernel->body, marked, &use))
        ;
    return use;
}
