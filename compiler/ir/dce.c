/* Dead code. Requires a sound kernel and leaves one: pure ops and loads whose results nothing uses go. */
#include "compiler/ir/ir.h"

static bool is_used(const IrOp *op, const int *uses) {
    for (int i = 0; i < op->results.count; i++)
        if (uses[op->results.items[i]->id] > 0)
            return true;
    return false;
}

static void count_uses(const IrOp *op, int *uses, int step) {
    for (int i = 0; i < op->operands.count; i++)
        if (op->operands.items[i]->def)
            uses[op->operands.items[i]->id] += step;
}

bool ir_dce(Context *context, IrKernel *kernel) {
    int *uses = NEW_ARRAY(context->arena, int, ir_number(kernel));
    for (const IrOp *op = kernel->body->first; op; op = op->next)
        count_uses(op, uses, 1);
    bool changed = false;
    for (IrOp *op = kernel->body->last, *before; op; op = before) { /* backwards, so that what only dead ops use is dead when it is met */
        before = op->prev;
        if (!(op_info[op->kind].traits & (TRAIT_PURE | TRAIT_READS)) || is_used(op, uses))
            continue;
        count_uses(op, uses, -1);
        ir_remove(op);
        changed = true;
    }
    return changed;
}
