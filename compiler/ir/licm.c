/* Loop-invariant code. Requires a sound kernel and leaves one: pure ops whose operands come from outside the loop, and such loads of tensors that the
 * loop does not store to, move before it. None of them traps, so that it does no harm where the loop runs no iteration; what stands under an `if`
 * stays. */
#include "compiler/ir/ir.h"

static bool is_invariant(const IrOp *op, const IrOp *loop, const bool *stored) {
    unsigned traits = op_info[op->kind].traits;
    if (!(traits & TRAIT_PURE) && !((traits & TRAIT_READS) && !stored[op->operands.items[0]->index]))
        return false;
    for (int i = 0; i < op->operands.count; i++)
        if (ir_is_inside(op->operands.items[i], loop))
            return false;
    return true;
}

static bool hoist(Context *context, IrOp *loop, int param_count) {
    bool *stored = NEW_ARRAY(context->arena, bool, param_count + 1), changed = false;
    ir_mark_stored(loop, stored);
    for (int i = 0; i < loop->regions.count; i++) {
        for (IrOp *op = loop->regions.items[i]->first, *next; op; op = next) {
            next = op->next;
            if (!is_invariant(op, loop, stored))
                continue;
            ir_insert_before(loop, op);
            changed = true;
        }
    }
    return changed;
}

/* Inner loops first, so that what leaves one may leave the next. */
static bool visit_block(Context *context, IrBlock *block, int param_count) {
    bool changed = false;
    for (IrOp *op = block->first; op; op = op->next) {
        for (int i = 0; i < op->regions.count; i++)
            changed |= visit_block(context, op->regions.items[i], param_count);
        if (op->kind == OP_FOR || op->kind == OP_WHILE)
            changed |= hoist(context, op, param_count);
    }
    return changed;
}

bool ir_licm(Context *context, IrKernel *kernel) {
    return visit_block(context, kernel->body, kernel->body->args.count);
}
