/* Thread code: shared memory, atomics, operations of warps, CTAs and thread-block clusters. */
#include "compiler/lower/ast_to_ir.h"

/* Builtins that are one op on the values of their arguments; CONST: another lowering, or no thread code. */
static const OpKind thread_ops[BUILTIN_COUNT] = {
    [BUILTIN_BARRIER] = OP_BARRIER,
    [BUILTIN_ELECT_ONE_SYNC] = OP_ELECT,
    [BUILTIN_SHUFFLE] = OP_SHUFFLE,
    [BUILTIN_SHUFFLE_XOR] = OP_SHUFFLE_XOR,
    [BUILTIN_SHUFFLE_UP] = OP_SHUFFLE_UP,
    [BUILTIN_SHUFFLE_DOWN] = OP_SHUFFLE_DOWN,
    [BUILTIN_BALLOT] = OP_BALLOT,
    [BUILTIN_WARP_ANY] = OP_WARP_ANY,
    [BUILTIN_WARP_ALL] = OP_WARP_ALL,
    [BUILTIN_WARP_SUM] = OP_WARP_SUM,
    [BUILTIN_WARP_MAX] = OP_WARP_MAX,
    [BUILTIN_WARP_MIN] = OP_WARP_MIN,
    [BUILTIN_BLOCK_SUM] = OP_BLOCK_SUM,
    [BUILTIN_BLOCK_MAX] = OP_BLOCK_MAX,
    [BUILTIN_BLOCK_MIN] = OP_BLOCK_MIN,
    [BUILTIN_CLUSTER_ARRIVE] = OP_CLUSTER_ARRIVE,
    [BUILTIN_CLUSTER_ARRIVE_RELAXED] = OP_CLUSTER_ARRIVE_RELAXED,
    [BUILTIN_CLUSTER_WAIT] = OP_CLUSTER_WAIT,
    [BUILTIN_ATOMIC_ADD] = OP_ATOMIC_ADD,
    [BUILTIN_ATOMIC_MAX] = OP_ATOMIC_MAX,
    [BUILTIN_ATOMIC_MIN] = OP_ATOMIC_MIN,
    [BUILTIN_ATOMIC_CAS] = OP_ATOMIC_CAS,
};

bool is_thread_builtin(Builtin builtin) {
    return thread_ops[builtin] != OP_CONST || builtin == BUILTIN_CLUSTER_SYNC || builtin == BUILTIN_CLUSTER_MASK;
}

IrValue *lower_shared(Lowering *l, const Stmt *declaration) {
    IrValue *memory = ir_value(l->context, l->block, OP_SHARED, declaration->name_span, declaration->symbol->type, NULL, NULL);
    memory->def->name = declaration->name;
    return memory;
}

IrValue *lower_remote(Lowering *l, const Expr *call) {
    IrValue *memory = lower_binding(l, call->symbol)->value;
    return ir_value(l->context, l->block, OP_REMOTE, call->span, memory->type, memory, lower_expr(l, call->args.items[1]));
}

static IrValue *lower_atomic(Lowering *l, const Expr *call) {
    Slice slice = lower_slice(l, call->args.items[0]);
    IrValue *values[2];
    for (int i = 1; i < call->args.count; i++)
        values[i - 1] = lower_expr(l, call->args.items[i]);
    slice.once = call->is_once;
    slice.span = call->span;
    return lower_access(l, thread_ops[call->builtin], &slice, values)->results.items[0];
}

static IrValue *lower_mask(Lowering *l, const Expr *call) {
    int64_t axis = -1;
    if (call->args.count > 0)
        dim_is_int(call->args.items[0]->dim, &axis);
    IrValue *mask = ir_value(l->context, l->block, OP_CLUSTER_MASK, call->span, call->type, NULL, NULL);
    mask->def->axis = (int)axis;
    return mask;
}

IrValue *lower_thread_call(Lowering *l, const Expr *call) {
    OpKind kind = thread_ops[call->builtin];
    if (ir_is_atomic(kind))
        return lower_atomic(l, call);
    if (call->builtin == BUILTIN_CLUSTER_MASK)
        return lower_mask(l, call);
    if (call->builtin == BUILTIN_CLUSTER_SYNC) {
        ir_append(l->context, l->block, OP_CLUSTER_ARRIVE, call->span, NULL, 0, NULL, 0);
        kind = OP_CLUSTER_WAIT;
    }
    IrValue *operands[2];
    for (int i = 0; i < call->args.count; i++)
        operands[i] = lower_expr(l, call->args.items[i]);
    IrOp *op = ir_append(l->context, l->block, kind, call->span, operands, call->args.count, &call->type, op_info[kind].results);
    return op_info[kind].results ? op->results.items[0] : NULL;
}
