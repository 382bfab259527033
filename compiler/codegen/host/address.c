/* Addresses and bounds of an access. Offsets are any 64-bit numbers: addresses wrap, and are used only where the bounds say that the element exists.
 */
#include "compiler/codegen/host/host.h"

static LLVMValueRef advance(Emitter *e, LLVMValueRef pointer, LLVMValueRef bytes) {
    return LLVMBuildGEP2(e->builder, e->i8, pointer, &bytes, 1, "");
}

/* base + ((o0 * e1 + o1) * e2 + o2) * pitch + o3 * size. */
static LLVMValueRef start_address(const Leaf *leaf, const IrOp *op, const TensorRegs *tensor, int64_t size) {
    LLVMBuilderRef builder = leaf->e->builder;
    int last = op->operands.items[0]->type->rank - 1;
    LLVMValueRef bytes = LLVMBuildMul(builder, leaf_value(leaf, op->operands.items[1 + last]), emit_int_const(leaf->e, size), "");
    if (last > 0) {
        LLVMValueRef row = leaf_value(leaf, op->operands.items[1]);
        for (int axis = 1; axis < last; axis++)
            row = LLVMBuildAdd(builder, LLVMBuildMul(builder, row, tensor->extent[axis], ""), leaf_value(leaf, op->operands.items[1 + axis]), "");
        bytes = LLVMBuildAdd(builder, LLVMBuildMul(builder, row, tensor->pitch, ""), bytes, "");
    }
    return advance(leaf->e, tensor->base, bytes);
}

static LLVMValueRef axis_stride(const Leaf *leaf, const TensorRegs *tensor, int rank, int axis, int64_t size) {
    if (axis == rank - 1)
        return emit_int_const(leaf->e, size);
    LLVMValueRef stride = tensor->pitch;
    for (int inner = axis + 1; inner < rank - 1; inner++)
        stride = LLVMBuildMul(leaf->e->builder, stride, tensor->extent[inner], "");
    return stride;
}

/* Indices i in [0, count) with 0 <= offset + i < extent. Both differences fit 64 unsigned bits, as extents are not negative. */
static void axis_bounds(Emitter *e, LLVMValueRef offset, LLVMValueRef extent, int64_t count, LLVMValueRef *low, LLVMValueRef *high) {
    LLVMBuilderRef builder = e->builder;
    LLVMValueRef zero = emit_int_const(e, 0), all = emit_int_const(e, count);
    LLVMValueRef before = LLVMBuildSub(builder, zero, offset, "");
    before = LLVMBuildSelect(builder, LLVMBuildICmp(builder, LLVMIntULT, before, all, ""), before, all, "");
    *low = LLVMBuildSelect(builder, LLVMBuildICmp(builder, LLVMIntSLT, offset, zero, ""), before, zero, "");
    LLVMValueRef left = LLVMBuildSub(builder, extent, offset, "");
    left = LLVMBuildSelect(builder, LLVMBuildICmp(builder, LLVMIntULT, left, all, ""), left, all, "");
    *high = LLVMBuildSelect(builder, LLVMBuildICmp(builder, LLVMIntSGT, extent, offset, ""), left, zero, "");
}

Access access_slice(const Leaf *leaf, const int64_t extent[2], const int axis[2], const IrOp *op) {
    Emitter *e = leaf->e;
    const Type *type = access_type(op);
    const TensorRegs *tensor = &leaf->launch.tensors[access_param(op)];
    int rank = op->operands.items[0]->type->rank;
    int64_t size = dtype_bits(type->scalar) / 8;
    Access access = {.dtype = type->scalar, .region = access_param(op), .checked = true};
    access.start = start_address(leaf, op, tensor, size);

    int axes[2];
    slice_axes(op, axes);
    bool walked[PHB_MAX_RANK] = {false};
    for (int loop = 0; loop < 2; loop++) {
        if (axis[loop] < 0)
            continue;
        int own = axes[axis[loop]];
        walked[own] = true;
        access.stride[loop] = axis_stride(leaf, tensor, rank, own, size);
        access.unit = own == rank - 1 && loop == 1;
        axis_bounds(e, leaf_value(leaf, op->operands.items[1 + own]), tensor->extent[own], extent[loop], &access.low[loop], &access.high[loop]);
    }
    access.exists = LLVMConstInt(e->i1, 1, false);
    for (int own = 0; own < rank; own++) {
        if (walked[own])
            continue;
        LLVMValueRef inside = LLVMBuildICmp(e->builder, LLVMIntULT, leaf_value(leaf, op->operands.items[1 + own]), tensor->extent[own], "");
        access.exists = LLVMBuildAnd(e->builder, access.exists, inside, "");
    }
    return access;
}

LLVMValueRef area_address(const Leaf *leaf, int area) {
    return advance(leaf->e, leaf->scratch, emit_int_const(leaf->e, leaf->plan->areas.items[plan_place(leaf->plan, area)].offset));
}

/* The first areas have alias scopes of their own; the rest share one. */
int area_region(const Leaf *leaf, int area) {
    int place = plan_place(leaf->plan, area);
    return leaf->kernel->signature.params.count + (place < LEAF_AREA_SCOPES ? place : LEAF_AREA_SCOPES - 1);
}

Access access_area(const Leaf *leaf, const int axis[2], const Type *type, int area) {
    Emitter *e = leaf->e;
    int64_t size = dtype_bits(type->scalar) / 8;
    Access access = {.dtype = type->scalar, .region = area_region(leaf, area), .start = area_address(leaf, area)};
    for (int loop = 0; loop < 2; loop++) {
        if (axis[loop] < 0)
            continue;
        bool is_row = type->rank == 2 && axis[loop] == 0;
        access.stride[loop] = emit_int_const(e, is_row ? size * tile_extent(type, 1) : size);
        access.unit = loop == 1 && !(is_row && tile_extent(type, 1) != 1);
    }
    return access;
}

Access access_block(Emitter *e, const Access *access, const LLVMValueRef first[2], const LLVMValueRef count[2]) {
    Access block = *access;
    LLVMValueRef zero = emit_int_const(e, 0);
    for (int loop = 0; loop < 2; loop++) {
        if (!first[loop] || !access->stride[loop])
            continue;
        block.start = advance(e, block.start, LLVMBuildMul(e->builder, first[loop], access->stride[loop], ""));
        if (!access->checked)
            continue;
        block.low[loop] = emit_min(e, emit_max(e, LLVMBuildSub(e->builder, access->low[loop], first[loop], ""), zero), count[loop]);
        block.high[loop] = emit_min(e, emit_max(e, LLVMBuildSub(e->builder, access->high[loop], first[loop], ""), zero), count[loop]);
    }
    return block;
}

LLVMValueRef access_address(const Leaf *leaf, const Access *access, LLVMValueRef outer, LLVMValueRef inner) {
    Emitter *e = leaf->e;
    LLVMValueRef address = access->start;
    if (access->stride[0])
        address = advance(e, address, LLVMBuildMul(e->builder, outer, access->stride[0], ""));
    if (access->unit)
        return LLVMBuildGEP2(e->builder, memory_type(e, access->dtype), address, &inner, 1, "");
    if (access->stride[1])
        address = advance(e, address, LLVMBuildMul(e->builder, inner, access->stride[1], ""));
    return address;
}

LLVMValueRef access_load(const Leaf *leaf, const Access *access, LLVMValueRef address) {
    Emitter *e = leaf->e;
    LLVMValueRef stored = LLVMBuildLoad2(e->builder, memory_type(e, access->dtype), address, "");
    leaf_tag(leaf, stored, access->region);
    return value_from_memory(e, access->dtype, stored);
}

void access_store(const Leaf *leaf, const Access *access, LLVMValueRef address, LLVMValueRef value) {
    Emitter *e = leaf->e;
    leaf_tag(leaf, LLVMBuildStore(e->builder, value_to_memory(e, access->dtype, value), address), access->region);
}
