/* Which products matrix instructions of a warp can do, and how those of a kernel hang together. */
#include "compiler/layout/layout.h"

enum { STEP_BYTES = 32 }; /* of a factor's row along k, that one instruction takes */

static bool is_float16(PhbDType dtype) {
    return dtype == PHB_F16 || dtype == PHB_BF16;
}

static bool is_byte(PhbDType dtype) {
    return dtype == PHB_I8 || dtype == PHB_U8;
}

static const char *refused_types(const IrKernel *kernel, PhbDType a, PhbDType b) {
    if ((is_float16(a) && a == b) || (is_byte(a) && is_byte(b)))
        return NULL;
    if (a != PHB_F32 || b != PHB_F32)
        return "tensor cores multiply f16, bf16 and 8-bit integers, both factors alike";
    if (kernel->signature.tensorcore == TENSORCORE_NONE)
        return "tensor cores multiply f32 only where @tensorcore says how it is rounded or split";
    if (tensorcore_rounds(kernel->signature.tensorcore))
        return NULL;
    return kernel->signature.tensorcore == TENSORCORE_BF16X6
               ? "factors are split where bulk copies and wgmma multiply slices in a loop that carries the sum; the modes tf32, bf16 and f16 round "
                 "them"
               : "of the modes that split factors bf16x6 alone is supported; tf32, bf16 and f16 round them";
}

/* Of an element of a factor, rounded as @tensorcore says. */
static int factor_bytes(const IrKernel *kernel, PhbDType dtype) {
    bool halves = kernel->signature.tensorcore == TENSORCORE_BF16 || kernel->signature.tensorcore == TENSORCORE_F16;
    return dtype == PHB_F32 && halves ? 2 : dtype_bits(dtype) / 8;
}

const char *layout_mma_refusal(const IrKernel *kernel, const IrOp *dot) {
    enum { ROWS = 16, COLUMNS = 8 };
    const Type *a = dot->operands.items[0]->type, *result = dot->results.items[0]->type;
    int64_t rows = tile_rows(result), columns = tile_columns(result), k = tile_columns(a);
    const char *why = refused_types(kernel, a->scalar, dot->operands.items[1]->type->scalar);
    if (why)
        return why;
    if (rows < ROWS || columns < COLUMNS)
        return "a matrix instruction has 16 rows and 8 columns";
    if (k % (STEP_BYTES / factor_bytes(kernel, a->scalar)) != 0)
        return "a matrix instruction takes 32 bytes of k at a time";
    bool is_padded = (rows & (rows - 1)) != 0 || (columns & (columns - 1)) != 0 || (k & (k - 1)) != 0;
    return is_padded ? "matrix instructions want extents that are powers of two" : NULL;
}

int layout_mma_step(const IrKernel *kernel, const IrOp *dot) {
    return layout_mma_refusal(kernel, dot) ? 0 : STEP_BYTES / factor_bytes(kernel, dot->operands.items[0]->type->scalar);
}

/* Values that follow from results of products by element-wise ops, carried ones included. */
static bool mark_products(const IrKernel *kernel, const IrBlock *block, bool *marked, MmaUse *use) {
    bool changed = false;
    for (const IrOp *op = block->first; op; op = op->next) {
        bool is_dot = op->kind == OP_DOT || op->kind == OP_DOT_T, follows = is_dot;
        if (is_dot && layout_mma_step(kernel, op)) {
            const Type *type = op->results.items[0]->type;
            int64_t elements = tile_rows(type) * tile_columns(type);
            use->chained |=
                op->operands.items[0]->type->kind == TYPE_TILE && !ir_is_param(op->operands.items[0]) && marked[op->operands.items[0]->id];
            use->rows = elements > use->elements ? tile_rows(type) : use->rows;
            use->elements = elements > use->elements ? elements : use->elements;
            use->columns += tile_columns(type);
        }
        for (int i = 0; op->kind != OP_TRANSPOSE && op->kind != OP_RESHAPE && i < op->operands.count; i++)
            follows |= !ir_is_param(op->operands.items[i]) && marked[op->operands.items[i]->id];
        for (int i = 0; follows && i < op->results.count; i++) {
            changed |= !marked[op->results.items[i]->id];
            marked[op->results.items[i]->id] = true;
        }
        for (int r = 0; r < op->regions.count; r++) {
            const IrOp *last = op->regions.items[r]->last;
            changed |= mark_products(kernel, op->regions.items[r], marked, use);
            for (int i = 0; last->kind == OP_YIELD && i < op->results.count; i++) {
                bool yields = !ir_is_param(last->operands.items[i]) && marked[last->operands.items[i]->id];
                changed |= yields && !marked[op->results.items[i]->id];
                marked[op->results.items[i]->id] |= yields;
            }
        }
    }
    return changed;
}

MmaUse layout_mma_use(Context *context, IrKernel *kernel) {
    MmaUse use;
    bool *marked = NEW_ARRAY(context->arena, bool, ir_number(kernel) + 1);
    do
        use = (MmaUse){0};
    while (mark_products(kernel, kernel->body, marked, &use));
    return use;
}
