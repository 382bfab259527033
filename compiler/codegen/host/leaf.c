/* The function of a leaf: reads the launch once, then runs its CTAs one after another, x fastest. */
#include "compiler/codegen/host/host.h"

#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

/* One scope for each tensor and for each of the first areas of scratch, in a domain of the function's own. */
static void make_scopes(Leaf *leaf, const char *name) {
    Emitter *e = leaf->e;
    int areas = leaf->plan->areas.count < LEAF_AREA_SCOPES ? leaf->plan->areas.count : LEAF_AREA_SCOPES;
    int count = leaf->kernel->signature.params.count + areas + 1;
    LLVMMetadataRef domain_name = LLVMMDStringInContext2(e->llvm, name, strlen(name));
    LLVMMetadataRef domain = LLVMMDNodeInContext2(e->llvm, &domain_name, 1);
    LLVMMetadataRef *scopes = NEW_ARRAY(e->context->arena, LLVMMetadataRef, count), *others = NEW_ARRAY(e->context->arena, LLVMMetadataRef, count);
    for (int i = 0; i < count; i++) {
        char *text = arena_printf(e->context->arena, "%s.%d", name, i);
        LLVMMetadataRef parts[2] = {LLVMMDStringInContext2(e->llvm, text, strlen(text)), domain};
        scopes[i] = LLVMMDNodeInContext2(e->llvm, parts, 2);
    }
    leaf->scopes = NEW_ARRAY(e->context->arena, LLVMValueRef, count);
    leaf->others = NEW_ARRAY(e->context->arena, LLVMValueRef, count);
    for (int i = 0; i < count; i++) {
        int other_count = 0;
        for (int k = 0; k < count; k++)
            if (k != i)
                others[other_count++] = scopes[k];
        leaf->scopes[i] = LLVMMetadataAsValue(e->llvm, LLVMMDNodeInContext2(e->llvm, &scopes[i], 1));
        leaf->others[i] = LLVMMetadataAsValue(e->llvm, LLVMMDNodeInContext2(e->llvm, others, (size_t)other_count));
    }
}

void leaf_tag(const Leaf *leaf, LLVMValueRef access, int region) {
    LLVMContextRef llvm = leaf->e->llvm;
    LLVMSetMetadata(access, LLVMGetMDKindIDInContext(llvm, "alias.scope", sizeof "alias.scope" - 1), leaf->scopes[region]);
    LLVMSetMetadata(access, LLVMGetMDKindIDInContext(llvm, "noalias", sizeof "noalias" - 1), leaf->others[region]);
}

static LLVMValueRef load_at(Emitter *e, LLVMTypeRef type, LLVMValueRef base, size_t offset) {
    LLVMValueRef bytes = LLVMConstInt(e->i64, offset, false);
    return LLVMBuildLoad2(e->builder, type, LLVMBuildGEP2(e->builder, e->i8, base, &bytes, 1, ""), "");
}

static void read_triple(Emitter *e, LLVMValueRef launch, size_t offset, LLVMValueRef values[3]) {
    for (size_t i = 0; i < 3; i++)
        values[i] = load_at(e, e->i64, launch, offset + i * sizeof(int64_t));
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

static void read_launch(Leaf *leaf, LLVMValueRef launch) {
    Emitter *e = leaf->e;
    Arena *arena = e->context->arena;
    const Signature *signature = &leaf->kernel->signature;
    leaf->tensors = NEW_ARRAY(arena, TensorRegs, signature->params.count);
    leaf->params = NEW_ARRAY(arena, LLVMValueRef, signature->params.count);
    LLVMValueRef tensors = load_at(e, e->ptr, launch, offsetof(PhbLaunch, tensors));
    LLVMValueRef scalars = load_at(e, e->ptr, launch, offsetof(PhbLaunch, scalars));
    for (int i = 0; i < signature->params.count; i++) {
        const Type *type = signature->params.items[i].type;
        size_t index = (size_t)param_rank_among_kind(signature, i);
        if (type->kind == TYPE_TENSOR)
            leaf->tensors[i] = read_tensor(e, tensors, index, type->rank);
        else
            leaf->params[i] = value_from_bits(e, type->scalar, load_at(e, e->i64, scalars, index * sizeof(uint64_t)));
    }
    int dim_count = signature->symbolic.count + signature->search.count;
    leaf->dims = NEW_ARRAY(arena, LLVMValueRef, dim_count);
    LLVMValueRef dims = load_at(e, e->ptr, launch, offsetof(PhbLaunch, dims));
    for (int i = 0; i < dim_count; i++)
        leaf->dims[i] = load_at(e, e->i64, dims, (size_t)i * sizeof(int64_t));
    read_triple(e, launch, offsetof(PhbLaunch, grid), leaf->grid);
    read_triple(e, launch, offsetof(PhbLaunch, super), leaf->super);
    read_triple(e, launch, offsetof(PhbLaunch, supers), leaf->supers);
}

/* ---- scalars ---- */

LLVMValueRef leaf_value(const Leaf *leaf, const IrValue *value) {
    return ir_is_param(value) ? leaf->params[value->index] : leaf->values[value->id];
}

static LLVMValueRef emit_dim(const Leaf *leaf, const Dim *dim);

static LLVMValueRef emit_dim_op(const Leaf *leaf, const Dim *dim) {
    Emitter *e = leaf->e;
    LLVMValueRef a = emit_dim(leaf, dim->a), b = dim->kind == PHB_EXPR_NOT ? NULL : emit_dim(leaf, dim->b);
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

static LLVMValueRef emit_dim(const Leaf *leaf, const Dim *dim) {
    const Signature *signature = &leaf->kernel->signature;
    if (dim->kind == PHB_EXPR_INT)
        return emit_int_const(leaf->e, dim->value);
    if (dim->kind == PHB_EXPR_DIM)
        return leaf->dims[dim_index(signature, dim->name)];
    if (dim->kind == PHB_EXPR_EXTENT)
        return leaf->tensors[signature_param(signature, dim->name)].extent[dim->value];
    return emit_dim_op(leaf, dim);
}

static LLVMValueRef emit_scalar(const Leaf *leaf, const IrOp *op) {
    Emitter *e = leaf->e;
    const TensorRegs *tensor = op->operands.count && op->operands.items[0]->type->kind == TYPE_TENSOR ? &leaf->tensors[access_param(op)] : NULL;
    const Type *type = op->results.items[0]->type;
    switch (op->kind) {
    case OP_CONST:
        return value_const(e, type->scalar, op->bits);
    case OP_DIM:
        return emit_dim(leaf, op->dim);
    case OP_BLOCK:
        return leaf->block[op->axis];
    case OP_GRID:
        return leaf->grid[op->axis];
    case OP_SUPER:
        return leaf->super[op->axis];
    case OP_SUPERS:
        return leaf->supers[op->axis];
    case OP_EXTENT:
        return tensor->extent[op->axis];
    case OP_ORIGIN:
        return tensor->origin[op->axis];
    case OP_WHOLE:
        return tensor->whole[op->axis];
    default:
        break;
    }
    LLVMValueRef operands[3] = {NULL};
    for (int i = 0; i < op->operands.count; i++)
        operands[i] = leaf_value(leaf, op->operands.items[i]);
    return emit_element(e, op, operands);
}

/* ---- CTAs ---- */

void emit_scalars(Leaf *leaf, const IrOp *first, const IrOp *end) {
    for (const IrOp *op = first; op != end; op = op->next) {
        if (op_is_body(op) || op->results.count != 1 || op->results.items[0]->type->kind != TYPE_SCALAR)
            continue;
        if (op->kind == OP_LOAD)
            emit_scalar_load(leaf, op);
        else
            leaf->values[op->results.items[0]->id] = emit_scalar(leaf, op);
    }
}

static void emit_body_op(Leaf *leaf, const Segment *segment) {
    const IrOp *op = segment->op;
    switch (op->kind) {
    case OP_STORE:
        emit_scalar_store(leaf, op);
        break;
    case OP_CUMSUM:
        emit_cumsum(leaf, op);
        break;
    case OP_TRANSPOSE:
        emit_transpose(leaf, op);
        break;
    case OP_DOT:
    case OP_DOT_T:
        emit_dot(leaf, op);
        break;
    case OP_YIELD: /* its moves are made; scalars are the region's matter */
        break;
    default:
        if (plan_contracted(leaf->plan, op))
            emit_contracted_loop(leaf, plan_contracted(leaf->plan, op));
        else if (op->regions.count)
            emit_region_op(leaf, segment);
        else
            emit_reduction(leaf, op);
    }
}

void emit_block(Leaf *leaf, const PlanBlock *block) {
    for (int s = 0; s < block->segments.count; s++) {
        const Segment *segment = &block->segments.items[s];
        emit_scalars(leaf, segment->first, segment->end);
        for (int i = 0; i < segment->copies.count; i++)
            emit_nest(leaf, &segment->copies.items[i], 1);
        for (int i = 0; i < segment->moves.count; i++)
            emit_nest(leaf, &segment->moves.items[i], 1);
        if (segment->roots.count)
            emit_nest(leaf, segment->roots.items, segment->roots.count);
        if (segment->op)
            emit_body_op(leaf, segment);
    }
}

static LLVMValueRef slot(Emitter *e, LLVMValueRef initial) {
    LLVMValueRef memory = LLVMBuildAlloca(e->builder, e->i64, "");
    LLVMBuildStore(e->builder, initial, memory);
    return memory;
}

static LLVMValueRef unsigned_rem(Emitter *e, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildURem(e->builder, a, b, "");
}

/* Counts block coordinates on, so that no CTA pays for divisions. LLVM makes registers of the slots. */
static void emit_ctas(Leaf *leaf, LLVMValueRef first, LLVMValueRef last) {
    Emitter *e = leaf->e;
    LLVMBuilderRef builder = e->builder;
    LLVMValueRef zero = emit_int_const(e, 0), one = emit_int_const(e, 1);
    LLVMValueRef rows = LLVMBuildUDiv(builder, first, leaf->grid[0], "");
    LLVMValueRef slots[3] = {
        slot(e, unsigned_rem(e, first, leaf->grid[0])),
        slot(e, unsigned_rem(e, rows, leaf->grid[1])),
        slot(e, LLVMBuildUDiv(builder, rows, leaf->grid[1], "")),
    };
    Loop ctas = loop_begin(e, first, last);
    for (int axis = 0; axis < 3; axis++)
        leaf->block[axis] = LLVMBuildLoad2(builder, e->i64, slots[axis], "");
    emit_block(leaf, leaf->plan->body);
    LLVMValueRef carry = one;
    for (int axis = 0; axis < 3; axis++) {
        LLVMValueRef next = LLVMBuildAdd(builder, leaf->block[axis], carry, "");
        LLVMValueRef wraps = LLVMBuildICmp(builder, LLVMIntEQ, next, leaf->grid[axis], "");
        if (axis == 2)
            wraps = LLVMConstNull(e->i1);
        LLVMBuildStore(builder, LLVMBuildSelect(builder, wraps, zero, next, ""), slots[axis]);
        carry = LLVMBuildZExt(builder, wraps, e->i64, "");
    }
    loop_end(e, &ctas, LOOP_SCALAR);
}

LLVMValueRef host_leaf(Emitter *e, const IrKernel *kernel, Plan *plan, const char *name) {
    LLVMTypeRef parameters[4] = {e->ptr, e->i64, e->i64, e->ptr};
    LLVMTypeRef void_type = LLVMVoidTypeInContext(e->llvm);
    LLVMValueRef function = LLVMAddFunction(e->module, name, LLVMFunctionType(void_type, parameters, 4, false));
    LLVMSetLinkage(function, LLVMInternalLinkage);
    Leaf leaf = {.e = e, .kernel = kernel, .plan = plan, .scratch = LLVMGetParam(function, 3)};
    leaf.values = NEW_ARRAY(e->context->arena, LLVMValueRef, plan->value_count + 1);
    make_scopes(&leaf, name);

    LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(e->llvm, function, "entry");
    LLVMBasicBlockRef run = LLVMAppendBasicBlockInContext(e->llvm, function, "run");
    LLVMBasicBlockRef nothing = LLVMAppendBasicBlockInContext(e->llvm, function, "nothing");
    LLVMValueRef first = LLVMGetParam(function, 1), last = LLVMGetParam(function, 2);
    LLVMPositionBuilderAtEnd(e->builder, entry);
    LLVMBuildCondBr(e->builder, LLVMBuildICmp(e->builder, LLVMIntSLT, first, last, ""), run, nothing);
    LLVMPositionBuilderAtEnd(e->builder, nothing);
    LLVMBuildRetVoid(e->builder);
    LLVMPositionBuilderAtEnd(e->builder, run);
    e->fastmath = kernel->signature.fastmath;
    read_launch(&leaf, LLVMGetParam(function, 0));
    emit_ctas(&leaf, first, last);
    LLVMBuildRetVoid(e->builder);
    return function;
}
