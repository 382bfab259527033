/* Loads and stores of slices. A slice that lies inside of its tensor as a whole, which the CTA finds out by one comparison, is accessed by vectors
 * where layout, offsets and the arena's padding allow; else each element has its own predicate. Offsets are any 64-bit numbers: addresses wrap, and
 * are used only where the bounds say that the element exists. Inside of a tile indices have 32 bits. */
#include "compiler/codegen/simt/simt.h"

#include "compiler/layout/layout.h"

enum { VECTOR_BYTES = 16 };

/* ---- where a slice lies ---- */

static const IrValue *offset_of(const IrOp *op, int axis) {
    return op->operands.items[1 + axis];
}

/* base + ((o0 * e1 + o1) * e2 + o2) * pitch + o3 * size. */
static void find_tensor(Simt *s, SimtSlice *slice, LLVMValueRef strides[PHB_MAX_RANK]) {
    Emitter *e = s->e;
    const IrOp *op = slice->op;
    const TensorRegs *tensor = &s->launch.tensors[access_param(op)];
    int last = op->operands.items[0]->type->rank - 1;
    strides[last] = emit_int_const(e, dtype_bits(slice->type->scalar) / 8);
    for (int axis = last - 1; axis >= 0; axis--)
        strides[axis] = axis == last - 1 ? tensor->pitch : LLVMBuildMul(e->builder, strides[axis + 1], tensor->extent[axis + 1], "");
    LLVMValueRef bytes = emit_int_const(e, 0);
    for (int axis = 0; axis <= last; axis++)
        bytes = LLVMBuildAdd(e->builder, bytes, LLVMBuildMul(e->builder, simt_scalar(s, offset_of(op, axis)), strides[axis], ""), "");
    slice->access.space = SPACE_GLOBAL;
    slice->access.address = LLVMBuildGEP2(e->builder, e->i8, tensor->base, &bytes, 1, "");
    slice->access.param = access_param(op);
}

static int64_t slice_extent(const IrOp *op, int axis) {
    int64_t extent = 1;
    if (op->extent[axis])
        dim_is_int(op->extent[axis], &extent);
    return extent;
}

/* Has it been found out before that the elements exist? */
static bool is_known(const Simt *s) {
    return s->in_bounds && s->in_bounds == s->depth;
}

static void find_shared(Simt *s, SimtSlice *slice, LLVMValueRef strides[PHB_MAX_RANK]) {
    Emitter *e = s->e;
    const IrOp *op = slice->op;
    bool is_remote;
    const IrValue *memory = ir_memory(op, &is_remote);
    int last = memory->type->rank - 1;
    int64_t bytes = layout_pitch(memory->type);
    LLVMValueRef address = simt_int(s, memory->def->shared_at);
    slice->access.space = is_remote ? SPACE_REMOTE : SPACE_SHARED;
    slice->access.array = memory->def;
    if (is_remote)
        slice->access.rank = LLVMBuildTrunc(e->builder, simt_scalar(s, op->operands.items[0]->def->operands.items[1]), e->i32, "");
    for (int axis = last; axis >= 0; axis--) {
        LLVMValueRef offset = simt_scalar(s, offset_of(op, axis));
        int64_t extent = tile_extent(memory->type, axis), room = extent - slice_extent(op, axis);
        strides[axis] = simt_int(s, axis == last ? dtype_bits(slice->type->scalar) / 8 : bytes);
        if (axis < last)
            bytes *= extent;
        if (!is_known(s)) {
            LLVMValueRef inside = LLVMBuildICmp(e->builder, LLVMIntULE, offset, emit_int_const(e, room), "");
            slice->access.inside = simt_and(s, slice->access.inside, inside);
        }
        address = LLVMBuildAdd(e->builder, address, LLVMBuildMul(e->builder, LLVMBuildTrunc(e->builder, offset, e->i32, ""), strides[axis], ""), "");
    }
    slice->access.address = address;
}

/* Which axis of the memory rows and columns walk; -1: none. */
static void find_axes(const SimtSlice *slice, int axes[2]) {
    int of_value[2];
    axes[0] = axes[1] = -1;
    if (slice->type->rank == 0)
        return;
    slice_axes(slice->op, of_value);
    axes[1] = of_value[slice->type->rank - 1];
    axes[0] = slice->type->rank == 2 ? of_value[0] : -1;
}

/* Indices i in [0, count) with 0 <= offset + i < extent. Both differences fit 64 unsigned bits, as extents are not negative. */
static void find_bounds(Simt *s, SimtSlice *slice, int axis, LLVMValueRef offset, LLVMValueRef extent, int64_t count) {
    Emitter *e = s->e;
    LLVMBuilderRef builder = e->builder;
    LLVMValueRef zero = emit_int_const(e, 0), all = emit_int_const(e, count);
    LLVMValueRef before = LLVMBuildSub(builder, zero, offset, "");
    before = LLVMBuildSelect(builder, LLVMBuildICmp(builder, LLVMIntULT, before, all, ""), before, all, "");
    LLVMValueRef low = LLVMBuildSelect(builder, LLVMBuildICmp(builder, LLVMIntSLT, offset, zero, ""), before, zero, "");
    LLVMValueRef left = LLVMBuildSub(builder, extent, offset, "");
    left = LLVMBuildSelect(builder, LLVMBuildICmp(builder, LLVMIntULT, left, all, ""), left, all, "");
    LLVMValueRef high = LLVMBuildSelect(builder, LLVMBuildICmp(builder, LLVMIntSGT, extent, offset, ""), left, zero, "");
    LLVMValueRef size = emit_max(e, LLVMBuildSub(builder, high, low, ""), zero);
    slice->low[axis] = LLVMBuildTrunc(builder, low, e->i32, "");
    slice->size[axis] = LLVMBuildTrunc(builder, size, e->i32, "");
    LLVMValueRef begins = LLVMBuildICmp(builder, LLVMIntSGE, offset, zero, ""),
                 ends = LLVMBuildICmp(builder, LLVMIntSGE, LLVMBuildSub(builder, extent, offset, ""), all, "");
    slice->full = simt_and(s, slice->full, LLVMBuildAnd(builder, begins, ends, ""));
}

static void find_run(SimtSlice *slice, const int axes[2], int memory_rank) {
    int64_t size = dtype_bits(slice->type->scalar) / 8, extents[2] = {tile_rows(slice->type), tile_columns(slice->type)};
    int axis = axes[0] == memory_rank - 1 ? 0 : 1;
    slice->run = 1;
    if (axes[axis] != memory_rank - 1)
        return;
    slice->run = 1 << simt_run(slice->type->layout, axis);
    int64_t multiple = ir_known_multiple(offset_of(slice->op, memory_rank - 1));
    while (slice->run > 1 && (slice->run * size > VECTOR_BYTES || extents[axis] % slice->run != 0 || multiple % slice->run != 0))
        slice->run /= 2;
}

SimtSlice simt_slice(Simt *s, const IrOp *op, const Type *type) {
    SimtSlice slice = {.op = op, .type = type, .run = 1};
    LLVMValueRef strides[PHB_MAX_RANK];
    const Type *memory = op->operands.items[0]->type;
    int axes[2];
    slice.access.span = op->span;
    slice.access.type = memory_type(s->e, type->scalar);
    slice.access.align = (unsigned)dtype_bits(type->scalar) / 8;
    if (memory->kind == TYPE_TENSOR)
        find_tensor(s, &slice, strides);
    else
        find_shared(s, &slice, strides);
    find_axes(&slice, axes);
    for (int axis = 0; axis < 2; axis++)
        slice.stride[axis] = axes[axis] < 0 ? NULL : strides[axes[axis]];
    if (type->layout)
        find_run(&slice, axes, memory->rank);
    for (int own = 0; memory->kind == TYPE_TENSOR && own < memory->rank; own++) {
        LLVMValueRef offset = simt_scalar(s, offset_of(op, own)), extent = s->launch.tensors[access_param(op)].extent[own];
        if (own == axes[0] || own == axes[1])
            find_bounds(s, &slice, own == axes[1], offset, extent, slice_extent(op, own));
        else if (!is_known(s))
            slice.access.predicate = simt_and(s, slice.access.predicate, LLVMBuildICmp(s->e->builder, LLVMIntULT, offset, extent, ""));
    }
    if (type->kind == TYPE_TILE)
        slice.full = simt_and(s, slice.full, slice.access.predicate);
    slice.at_edge = s->way == WAY_EDGE && slice.full && simt_is_tested(s, op);
    if (s->way == WAY_WHOLE && simt_is_tested(s, op)) {
        slice.full = slice.access.predicate = NULL;
        slice.low[0] = slice.low[1] = slice.size[0] = slice.size[1] = NULL;
    }
    return slice;
}

/* ---- elements ---- */

LLVMValueRef simt_advance(Simt *s, const SimtSlice *slice, LLVMValueRef address, LLVMValueRef index, int axis) {
    LLVMBuilderRef builder = s->e->builder;
    if (!slice->stride[axis])
        return address;
    if (slice->access.space != SPACE_GLOBAL)
        return LLVMBuildAdd(builder, address, LLVMBuildMul(builder, index, slice->stride[axis], ""), "");
    LLVMValueRef bytes = LLVMBuildMul(builder, LLVMBuildZExt(builder, index, s->e->i64, ""), slice->stride[axis], "");
    return LLVMBuildGEP2(builder, s->e->i8, address, &bytes, 1, "");
}

/* Of what a thread's registers have in common. */
static LLVMValueRef thread_address(Simt *s, const SimtSlice *slice) {
    LLVMValueRef address = slice->access.address;
    for (int axis = 0; axis < 2; axis++)
        address = simt_advance(s, slice, address, simt_origin(s, slice->type->layout, axis), axis);
    return address;
}

static LLVMValueRef register_address(Simt *s, const SimtSlice *slice, LLVMValueRef common, int index) {
    const Layout *layout = slice->type->layout;
    int offsets[2] = {layout_register_at(layout, index, 0), layout_register_at(layout, index, 1)};
    bool is_sum = simt_is_sum(s, layout, offsets[0], 0) && simt_is_sum(s, layout, offsets[1], 1);
    LLVMValueRef address = is_sum ? common : slice->access.address;
    for (int axis = 0; axis < 2; axis++)
        if (!is_sum || offsets[axis])
            address = simt_advance(s, slice, address, is_sum ? simt_int(s, offsets[axis]) : simt_element(s, slice->type, index, axis), axis);
    return address;
}

static LLVMValueRef in_bounds(Simt *s, const SimtSlice *slice, int index) {
    LLVMBuilderRef builder = s->e->builder;
    LLVMValueRef inside = slice->access.predicate;
    for (int axis = 0; axis < 2; axis++) {
        if (!slice->low[axis])
            continue;
        LLVMValueRef above = LLVMBuildSub(builder, simt_element(s, slice->type, index, axis), slice->low[axis], "");
        inside = simt_and(s, inside, LLVMBuildICmp(builder, LLVMIntULT, above, slice->size[axis], ""));
    }
    return simt_and(s, inside, slice->low[0] || slice->low[1] ? NULL : simt_exists(s, slice->type, index));
}

static SimtAccess element_access(Simt *s, const SimtSlice *slice, LLVMValueRef common, int index, int run) {
    SimtAccess access = slice->access;
    access.address = register_address(s, slice, common, index);
    access.align *= (unsigned)run;
    if (run > 1)
        access.type = LLVMVectorType(access.type, (unsigned)run);
    return access;
}

/* ---- loads ---- */

/* At an edge, by vectors: one is read where its first element exists. It begins at a multiple of its length, and so does what exists, and rows are
 * padded. */
static void load_vectors(Simt *s, const SimtSlice *slice, LLVMValueRef *registers) {
    Emitter *e = s->e;
    LLVMBuilderRef builder = e->builder;
    int axis = slice->type->layout->bases[0].at[0] ? 0 : 1;
    PhbDType dtype = slice->type->scalar;
    LLVMValueRef common = thread_address(s, slice), zero = LLVMConstNull(value_type(e, dtype));
    for (int i = 0; i < simt_count(slice->type); i += slice->run) {
        SimtAccess access = element_access(s, slice, common, i, slice->run);
        access.predicate = in_bounds(s, slice, i);
        LLVMValueRef loaded = s->target->load(s, &access);
        LLVMValueRef above = LLVMBuildSub(builder, simt_element(s, slice->type, i, axis), slice->low[axis], "");
        for (int k = 0; k < slice->run; k++) {
            LLVMValueRef value = value_from_memory(e, dtype, LLVMBuildExtractElement(builder, loaded, simt_int(s, k), ""));
            LLVMValueRef exists = LLVMBuildICmp(builder, LLVMIntSLT, LLVMBuildAdd(builder, above, simt_int(s, k), ""), slice->size[axis], "");
            registers[i + k] = k ? LLVMBuildSelect(builder, exists, value, zero, "") : value;
        }
    }
}

static void load_registers(Simt *s, const SimtSlice *slice, bool is_full, LLVMValueRef *registers) {
    Emitter *e = s->e;
    if (!is_full && slice->run > 1 && s->target->predicates && slice->access.space == SPACE_GLOBAL) {
        load_vectors(s, slice, registers);
        return;
    }
    int run = is_full ? slice->run : 1;
    LLVMValueRef common = thread_address(s, slice);
    for (int i = 0; i < simt_count(slice->type); i += run) {
        SimtAccess access = element_access(s, slice, common, i, run);
        access.predicate = is_full ? simt_exists(s, slice->type, i) : in_bounds(s, slice, i);
        LLVMValueRef loaded = s->target->load(s, &access);
        for (int k = 0; k < run; k++) {
            LLVMValueRef stored = run > 1 ? LLVMBuildExtractElement(e->builder, loaded, simt_int(s, k), "") : loaded;
            registers[i + k] = value_from_memory(e, slice->type->scalar, stored);
        }
    }
}

static void load_tile(Simt *s, const SimtSlice *slice, LLVMValueRef *registers) {
    Emitter *e = s->e;
    int count = simt_count(slice->type);
    if (!slice->full || slice->at_edge) {
        load_registers(s, slice, !slice->at_edge, registers);
        return;
    }
    LLVMValueRef *values[2] = {simt_registers(s, count), simt_registers(s, count)};
    LLVMBasicBlockRef blocks[2] = {block_append(e, "edge"), block_append(e, "whole")}, after = block_append(e, "loaded"), ends[2];
    LLVMBuildCondBr(e->builder, slice->full, blocks[1], blocks[0]);
    for (int is_full = 0; is_full < 2; is_full++) {
        LLVMPositionBuilderAtEnd(e->builder, blocks[is_full]);
        load_registers(s, slice, is_full, values[is_full]);
        ends[is_full] = LLVMGetInsertBlock(e->builder);
        LLVMBuildBr(e->builder, after);
    }
    LLVMPositionBuilderAtEnd(e->builder, after);
    for (int i = 0; i < count; i++) {
        registers[i] = LLVMBuildPhi(e->builder, LLVMTypeOf(values[0][i]), "");
        LLVMAddIncoming(registers[i], (LLVMValueRef[]){values[0][i], values[1][i]}, ends, 2);
    }
}

SimtAccess simt_point(Simt *s, const IrOp *op, const Type *scalar) {
    return simt_slice(s, op, scalar).access;
}

void simt_load(Simt *s, const IrOp *op) {
    const IrValue *result = op->results.items[0];
    SimtSlice slice = simt_slice(s, op, result->type);
    if (result->type->kind == TYPE_SCALAR) {
        simt_set(s, result, value_from_memory(s->e, result->type->scalar, s->target->load(s, &slice.access)));
        return;
    }
    s->values[result->id] = simt_registers(s, simt_count(result->type));
    load_tile(s, &slice, s->values[result->id]);
}

/* ---- stores ---- */

static void store_registers(Simt *s, const SimtSlice *slice, bool is_full, LLVMValueRef const *registers) {
    int run = is_full ? slice->run : 1;
    LLVMValueRef common = thread_address(s, slice), owner = simt_owner(s, slice->type->layout);
    for (int i = 0; i < simt_count(slice->type); i += run) {
        SimtAccess access = element_access(s, slice, common, i, run);
        access.predicate = simt_and(s, owner, is_full ? simt_exists(s, slice->type, i) : in_bounds(s, slice, i));
        s->target->store(s, &access, values_to_memory(s->e, slice->type->scalar, registers + i, run));
    }
}

static void store_tile(Simt *s, const SimtSlice *slice, LLVMValueRef const *registers) {
    Emitter *e = s->e;
    if (!slice->full || slice->at_edge) {
        store_registers(s, slice, !slice->at_edge, registers);
        return;
    }
    LLVMBasicBlockRef blocks[2] = {block_append(e, "edge"), block_append(e, "whole")}, after = block_append(e, "stored");
    LLVMBuildCondBr(e->builder, slice->full, blocks[1], blocks[0]);
    for (int is_full = 0; is_full < 2; is_full++) {
        LLVMPositionBuilderAtEnd(e->builder, blocks[is_full]);
        store_registers(s, slice, is_full, registers);
        LLVMBuildBr(e->builder, after);
    }
    LLVMPositionBuilderAtEnd(e->builder, after);
}

void simt_store(Simt *s, const IrOp *op) {
    const IrValue *value = stored_value(op);
    SimtSlice slice = simt_slice(s, op, value->type);
    if (value->type->kind == TYPE_TILE) {
        store_tile(s, &slice, simt_tile(s, value));
        return;
    }
    if (op->once)
        slice.access.predicate = simt_and(s, slice.access.predicate, LLVMBuildICmp(s->e->builder, LLVMIntEQ, s->thread, simt_int(s, 0), ""));
    s->target->store(s, &slice.access, value_to_memory(s->e, value->type->scalar, simt_scalar(s, value)));
}
