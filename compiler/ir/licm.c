/* Loop-invariant code. Requires a sound kernel and leaves one: pure ops whose operands come from outside the loop, and such loads of tensors that the
 * loop does not store to, move before it. None of them traps, so that it does no harm where the loop runs no iteration; what stands under an `if`
 * stays, and so do loads of shared memory, which may not be written before the loop's first iteration. */
#include "compiler/ir/ir.h"

static bool is_invariant(const IrOp *op, const IrOp *loop, const bool *stored) {
    unsigned traits = op_info[op->kind].traits;
    bool is_load = (traits & TRAIT_READS) && ir_is_param(op->operands.items[0]) && !stored[op->operands.items[0]->index];
    if (!(traits & TRAIT_PURE) && !is_load)
        return false;
    for (int i = 0; i < op->operands.count; i++)
        if (ir_is_inside(op->operands.items[i], loop))
            return false;
    return true;
}

static bool hoist(Context *context, IrKernel *kernel, IrOp *loop) {
    bool *stored = NEW_ARRAY(context->arena, bool, kernel->body->args.count + 1), changed = false;
    ir_mark_stored(loop, stored);
    for (const IrOp *op = kernel->body->first; op && ir_has_sync(loop); op = op->next)
        ir_mark_stored(op, stored); /* other threads may be elsewhere in the kernel */
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
static bool visit_block(Context *context, IrKernel *kernel, IrBlock *block) {
    bool changed = false;
    for (IrOp *op = block->first; op; op = op->next) {
        for (int i = 0; i < op->regions.count; i++)
            changed |= visit_block(context, kernel, op->regions.items[i]);
        if (op->kind == OP_FOR || op->kind == OP_WHILE)
            changed |= hoist(context, kernel, op);
    }
    return changed;
}

bool ir_licm(Context *context, IrKernel *kernel) {
    return visit_block(context, kernel, kernel->body);
}
