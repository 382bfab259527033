/* @tensorcore(bf16) and (f16): factors of f32 products become 16-bit tiles, rounded to nearest even where they are defined, so that loops do not
 * round them again. Requires a specialised kernel at the value level. Leaves products alone that matrix instructions could not do rounded either. */
#include "compiler/layout/layout.h"

typedef struct Rounder {
    Context *context;
    IrKernel *kernel;
    PhbDType to;
} Rounder;

static IrValue *round_factor(Rounder *r, IrOp *dot, IrValue *tile) {
    IrBlock nowhere = {0};
    const Type *type = type_shaped(r->context->types, TYPE_TILE, r->to, tile->type->rank, tile->type->dims);
    IrOp *op = ir_append(r->context, &nowhere, OP_CONVERT, dot->span, &tile, 1, &type, 1);
    ir_insert_before(ir_ancestor_in(tile->def ? tile->def->parent : tile->block, dot), op);
    return op->results.items[0];
}

static void round_product(Rounder *r, IrOp *dot) {
    IrValue *factors[2] = {dot->operands.items[0], dot->operands.items[1]};
    if (factors[0]->type->scalar != PHB_F32 || factors[1]->type->scalar != PHB_F32)
        return;
    for (int i = 0; i < 2; i++)
        dot->operands.items[i] = round_factor(r, dot, factors[i]);
    if (!layout_mma_refusal(r->kernel, dot))
        return;
    for (int i = 0; i < 2; i++) {
        ir_remove(dot->operands.items[i]->def);
        dot->operands.items[i] = factors[i];
    }
}

static void round_block(Rounder *r, IrBlock *block) {
    for (IrOp *op = block->first; op; op = op->next) {
        if (op->kind == OP_DOT || op->kind == OP_DOT_T)
            round_product(r, op);
        for (int i = 0; i < op->regions.count; i++)
            round_block(r, op->regions.items[i]);
    }
}

void layout_round(Context *context, IrKernel *kernel) {
    TensorcoreMode mode = kernel->signature.tensorcore;
    Rounder rounder = {context, kernel, mode == TENSORCORE_BF16 ? PHB_BF16 : PHB_F16};
    if (mode != TENSORCORE_BF16 && mode != TENSORCORE_F16)
        return;
    round_block(&rounder, kernel->body);
    ir_cse(context, kernel); /* a tile that is a factor twice */
}
