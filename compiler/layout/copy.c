/* Copies of ops, regions included. */
#include "compiler/layout/layout.h"

IrValue *layout_copy_of(IrValue *const *copies, IrValue *value) {
    return !ir_is_param(value) && copies[value->id] ? copies[value->id] : value;
}

IrOp *layout_copy(Context *context, IrValue **copies, const IrOp *source, IrBlock *block) {
    VEC(IrValue *) operands = {0};
    VEC(const Type *) types = {0};
    for (int i = 0; i < source->operands.count; i++)
        vec_push(context->arena, &operands, layout_copy_of(copies, source->operands.items[i]));
    for (int i = 0; i < source->results.count; i++)
        vec_push(context->arena, &types, source->results.items[i]->type);
    IrOp *op = ir_append(context, block, source->kind, source->span, operands.items, operands.count, types.items, types.count);
    ir_copy_attributes(op, source);
    for (int i = 0; i < source->results.count; i++)
        copies[source->results.items[i]->id] = op->results.items[i];
    for (int r = 0; r < source->regions.count; r++) {
        IrBlock *region = ir_region_new(context, op);
        for (int i = 0; i < source->regions.items[r]->args.count; i++) {
            const IrValue *arg = source->regions.items[r]->args.items[i];
            copies[arg->id] = ir_block_arg(context, region, arg->type, NULL);
        }
        for (const IrOp *inner = source->regions.items[r]->first; inner; inner = inner->next)
            layout_copy(context, copies, inner, region);
    }
    return op;
}
