/* The function of a leaf: reads the launch once, then runs its CTAs one after another, x fastest. */
#include "compiler/codegen/host/contract.h"
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

/* ---- scalars ---- */

LLVMValueRef leaf_value(const Leaf *leaf, const IrValue *value) {
    return ir_is_param(value) ? leaf->launch.params[value->index] : leaf->values[value->id];
}

LLVMValueRef leaf_kept(const Leaf *leaf) {
    LLVMValueRef offset = emit_int_const(leaf->e, leaf->plan->kept_offset);
    return LLVMBuildGEP2(leaf->e->builder, leaf->e->i8, leaf->scratch, &offset, 1, "");
}

static LLVMValueRef emit_scalar(const Leaf *leaf, const IrOp *op) {
    LLVMValueRef operands[3] = {NULL}, placed = launch_scalar(leaf->e, &leaf->launch, op);
    if (placed)
        return placed;
    for (int i = 0; i < op->operands.count; i++)
        operands[i] = leaf_value(leaf, op->operands.items[i]);
    return emit_element(leaf->e, op, operands);
}

/* ---- CTAs ---- */

void emit_scalars(Leaf *leaf, const IrOp *first, const IrOp *end) {
    for (const IrOp *op = first; op != end; op = op->next) {
        emit_at(leaf->e, op->span);
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
    emit_at(leaf->e, op->span);
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
    LLVMValueRef rows = LLVMBuildUDiv(builder, first, leaf->launch.grid[0], "");
    LLVMValueRef slots[3] = {
        slot(e, unsigned_rem(e, first, leaf->launch.grid[0])),
        slot(e, unsigned_rem(e, rows, leaf->launch.grid[1])),
        slot(e, LLVMBuildUDiv(builder, rows, leaf->launch.grid[1], "")),
    };
    Loop ctas = loop_begin(e, first, last);
    for (int axis = 0; axis < 3; axis++)
        leaf->launch.block[axis] = LLVMBuildLoad2(builder, e->i64, slots[axis], "");
    emit_block(leaf, leaf->plan->body);
    emit_at(e, leaf->kernel->signature.span);
    LLVMValueRef carry = one;
    for (int axis = 0; axis < 3; axis++) {
        LLVMValueRef next = LLVMBuildAdd(builder, leaf->launch.block[axis], carry, "");
        LLVMValueRef wraps = LLVMBuildICmp(builder, LLVMIntEQ, next, leaf->launch.grid[axis], "");
        if (axis == 2)
            wraps = LLVMConstNull(e->i1);
        LLVMBuildStore(builder, LLVMBuildSelect(builder, wraps, zero, next, ""), slots[axis]);
        carry = LLVMBuildZExt(builder, wraps, e->i64, "");
    }
    loop_end(e, &ctas, LOOP_SCALAR);
}

LLVMValueRef host_leaf(Emitter *e, const IrKernel *kernel, const Plan *plan, const char *name, int64_t *scratch) {
    LLVMTypeRef parameters[4] = {e->ptr, e->i64, e->i64, e->ptr};
    LLVMTypeRef void_type = LLVMVoidTypeInContext(e->llvm);
    LLVMValueRef function = LLVMAddFunction(e->module, name, LLVMFunctionType(void_type, parameters, 4, false));
    LLVMSetLinkage(function, LLVMInternalLinkage);
    Leaf leaf = {.e = e, .kernel = kernel, .plan = plan, .scratch = LLVMGetParam(function, 3)};
    leaf.values = NEW_ARRAY(e->context->arena, LLVMValueRef, plan->value_count + 1);
    make_scopes(&leaf, name);

    debug_function(e, function, &kernel->signature);
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
    LaunchPlaces places = launch_places(e, LLVMGetParam(function, 0));
    leaf.launch = launch_read(e, kernel, &places);
    if (plan->kept_bytes)
        contract_forget(e, leaf_kept(&leaf)); /* tensors change between calls */
    emit_ctas(&leaf, first, last);
    LLVMBuildRetVoid(e->builder);
    *scratch = plan->scratch + leaf.edge_bytes;
    return function;
}
