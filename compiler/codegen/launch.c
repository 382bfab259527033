/* The launch in registers: tensors, scalars, dims, grids; and what dims are worth in it. */
#include "compiler/codegen/emit.h"

#include <stddef.h>
#include <stdlib.h>

static LLVMValueRef load_at(Emitter *e, LLVMTypeRef type, LLVMValueRef base, size_t offset) {
    LLVMValueRef bytes = LLVMConstInt(e->i64, offset, false);
    return LLVMBuildLoad2(e->builder, type, LLVMBuildGEP2(e->builder, e->i8, base, &bytes, 1, ""), "");
}

static void read_triple(Emitter *e, LLVMValueRef from, LLVMValueRef values[3]) {
    for (size_t i = 0; i < 3; i++)
        values[i] = load_at(e, e->i64, from, i * sizeof(int64_t));
}

static TensorRegs read_tensor(Emitter *e, LLVMValueRef tensors, size_t index, int rank) {
    size_t at = index * sizeof(PhbTensorArg);
    TensorRegs regs = {.base = load_at(e, e->ptr, tensors, at + offsetof(PhbTensorArg, base)),
        .pitch = load_at(e, e->i64, tensors, at + offsetof(PhbTensorArg, pitch))};
    for (int axis = 0; axis < rank; axis++) {
        size_t step = (size_t)axis * sizeof(int64_t);
        regs.extent[axis] = load_at(e, e->i64, tensors, at + offsetof(PhbTensorArg, extent) + step);
        regs.origin[axis] = load_at(e, e->i64, tensors, at + offsetof(PhbTensorArg, origin) + step);
        regs.whole[axis] = load_at(e, e->i64, tensors, at + offsetof(PhbTensorArg, whole) + step);
    }
    return regs;
}

static LLVMValueRef place_at(Emitter *e, LLVMValueRef launch, size_t offset) {
    LLVMValueRef bytes = LLVMConstInt(e->i64, offset, false);
    return LLVMBuildGEP2(e->builder, e->i8, launch, &bytes, 1, "");
}

LaunchPlaces launch_places(Emitter *e, LLVMValueRef launch) {
    return (LaunchPlaces){
        .tensors = load_at(e, e->ptr, launch, offsetof(PhbLaunch, tensors)),
        .scalars = load_at(e, e->ptr, launch, offsetof(PhbLaunch, scalars)),
        .dims = load_at(e, e->ptr, launch, offsetof(PhbLaunch, dims)),
        .grid = place_at(e, launch, offsetof(PhbLaunch, grid)),
        .super = place_at(e, launch, offsetof(PhbLaunch, super)),
        .supers = place_at(e, launch, offsetof(PhbLaunch, supers)),
    };
}

LaunchRegs launch_read(Emitter *e, const IrKernel *kernel, const LaunchPlaces *places) {
    Arena *arena = e->context->arena;
    const Signature *signature = &kernel->signature;
    LaunchRegs launch = {.kernel = kernel};
    launch.tensors = NEW_ARRAY(arena, TensorRegs, signature->params.count);
    launch.params = NEW_ARRAY(arena, LLVMValueRef, signature->params.count);
    for (int i = 0; i < signature->params.count; i++) {
        const Type *type = signature->params.items[i].type;
        size_t index = (size_t)param_rank_among_kind(signature, i);
        if (type->kind == TYPE_TENSOR)
            launch.tensors[i] = read_tensor(e, places->tensors, index, type->rank);
        else
            launch.params[i] = value_from_bits(e, type->scalar, load_at(e, e->i64, places->scalars, index * sizeof(uint64_t)));
    }
    int dim_count = signature->symbolic.count + signature->search.count;
    launch.dims = NEW_ARRAY(arena, LLVMValueRef, dim_count);
    for (int i = 0; i < dim_count; i++)
        launch.dims[i] = load_at(e, e->i64, places->dims, (size_t)i * sizeof(int64_t));
    read_triple(e, places->grid, launch.grid);
    read_triple(e, places->super, launch.super);
    read_triple(e, places->supers, launch.supers);
    return launch;
}

static LLVMValueRef emit_dim(Emitter *e, const LaunchRegs *launch, const Dim *dim);

static LLVMValueRef emit_dim_op(Emitter *e, const LaunchRegs *launch, const Dim *dim) {
    LLVMValueRef a = emit_dim(e, launch, dim->a), b = dim->kind == PHB_EXPR_NOT ? NULL : emit_dim(e, launch, dim->b);
    LLVMValueRef zero = emit_int_const(e, 0), operands[3] = {a, b};
    switch (dim->kind) {
    case PHB_EXPR_ADD:
        return LLVMBuildAdd(e->builder, a, b, "");
    case PHB_EXPR_SUB:
        return LLVMBuildSub(e->builder, a, b, "");
    case PHB_EXPR_MUL:
        return LLVMBuildMul(e->builder, a, b, "");
    case PHB_EXPR_DIV:
        return emit_element_op(e, OP_DIV, PHB_I64, operands);
    case PHB_EXPR_MOD:
        return emit_element_op(e, OP_REM, PHB_I64, operands);
    case PHB_EXPR_CEILDIV: { /* the quotient towards zero, one more where something is left and the exact one is positive */
        LLVMValueRef left = LLVMBuildICmp(e->builder, LLVMIntNE, emit_element_op(e, OP_REM, PHB_I64, operands), zero, "");
        LLVMValueRef positive = LLVMBuildICmp(e->builder, LLVMIntSGE, LLVMBuildXor(e->builder, a, b, ""), zero, "");
        LLVMValueRef nonzero = LLVMBuildICmp(e->builder, LLVMIntNE, b, zero, "");
        LLVMValueRef more = LLVMBuildAnd(e->builder, LLVMBuildAnd(e->builder, left, positive, ""), nonzero, "");
        return LLVMBuildAdd(e->builder, emit_element_op(e, OP_DIV, PHB_I64, operands), LLVMBuildZExt(e->builder, more, e->i64, ""), "");
    }
    case PHB_EXPR_MIN:
        return emit_min(e, a, b);
    case PHB_EXPR_MAX:
        return emit_max(e, a, b);
    default:
        break;
    }
    LLVMValueRef truth;
    switch (dim->kind) {
    case PHB_EXPR_EQ:
        truth = LLVMBuildICmp(e->builder, LLVMIntEQ, a, b, "");
        break;
    case PHB_EXPR_NE:
        truth = LLVMBuildICmp(e->builder, LLVMIntNE, a, b, "");
        break;
    case PHB_EXPR_LT:
        truth = LLVMBuildICmp(e->builder, LLVMIntSLT, a, b, "");
        break;
    case PHB_EXPR_LE:
        truth = LLVMBuildICmp(e->builder, LLVMIntSLE, a, b, "");
        break;
    case PHB_EXPR_AND:
        truth = LLVMBuildAnd(e->builder, LLVMBuildICmp(e->builder, LLVMIntNE, a, zero, ""), LLVMBuildICmp(e->builder, LLVMIntNE, b, zero, ""), "");
        break;
    case PHB_EXPR_OR:
        truth = LLVMBuildICmp(e->builder, LLVMIntNE, LLVMBuildOr(e->builder, a, b, ""), zero, "");
        break;
    case PHB_EXPR_NOT:
        truth = LLVMBuildICmp(e->builder, LLVMIntEQ, a, zero, "");
        break;
    default:
        abort();
    }
    return LLVMBuildZExt(e->builder, truth, e->i64, "");
}

static LLVMValueRef emit_dim(Emitter *e, const LaunchRegs *launch, const Dim *dim) {
    const Signature *signature = &launch->kernel->signature;
    if (dim->kind == PHB_EXPR_INT)
        return emit_int_const(e, dim->value);
    if (dim->kind == PHB_EXPR_DIM)
        return launch->dims[dim_index(signature, dim->name)];
    if (dim->kind == PHB_EXPR_EXTENT)
        return launch->tensors[signature_param(signature, dim->name)].extent[dim->value];
    return emit_dim_op(e, launch, dim);
}

LLVMValueRef launch_scalar(Emitter *e, const LaunchRegs *launch, const IrOp *op) {
    const TensorRegs *tensor = op->operands.count && op->operands.items[0]->type->kind == TYPE_TENSOR ? &launch->tensors[access_param(op)] : NULL;
    switch (op->kind) {
    case OP_CONST:
        return value_const(e, op->results.items[0]->type->scalar, op->bits);
    case OP_DIM:
        return emit_dim(e, launch, op->dim);
    case OP_BLOCK:
        return launch->block[op->axis];
    case OP_GRID:
        return launch->grid[op->axis];
    case OP_SUPER:
        return launch->super[op->axis];
    case OP_SUPERS:
        return launch->supers[op->axis];
    case OP_EXTENT:
        return tensor->extent[op->axis];
    case OP_ORIGIN:
        return tensor->origin[op->axis];
    case OP_WHOLE:
        return tensor->whole[op->axis];
    default:
        return NULL;
    }
}
