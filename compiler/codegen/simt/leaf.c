/* The function of a thread: reads the launch, finds its CTA's place in the grid, runs the ops of the leaf in order. */
#include "compiler/codegen/simt/simt.h"

#include "compiler/layout/layout.h"

#include <stdlib.h>

LLVMValueRef simt_int(const Simt *s, int64_t value) {
    return LLVMConstInt(s->e->i32, (uint64_t)value, true);
}

LLVMValueRef *simt_registers(Simt *s, int count) {
    return NEW_ARRAY(s->e->context->arena, LLVMValueRef, count + 1);
}

LLVMValueRef simt_scalar(const Simt *s, const IrValue *value) {
    return ir_is_param(value) ? s->launch.params[value->index] : s->values[value->id][0];
}

LLVMValueRef const *simt_tile(const Simt *s, const IrValue *value) {
    return s->values[value->id];
}

void simt_set(Simt *s, const IrValue *value, LLVMValueRef scalar) {
    s->values[value->id] = simt_registers(s, 1);
    s->values[value->id][0] = scalar;
}

int simt_count(const Type *type) {
    return type->kind == TYPE_TILE ? 1 << type->layout->registers : 1;
}

/* ---- where the CTA is ---- */

int64_t simt_cluster_extent(const Simt *s, int axis) {
    const Dim *dim = s->kernel->signature.cluster_dims[axis];
    int64_t extent = 1;
    if (dim && !dim_is_int(dim, &extent))
        abort();
    return extent;
}

int64_t simt_cluster_size(const Simt *s) {
    return simt_cluster_extent(s, 0) * simt_cluster_extent(s, 1) * simt_cluster_extent(s, 2);
}

/* Axes that no grid counts are 1, whatever the launch says. */
static bool is_flat(const Simt *s, int axis) {
    return s->kernel->signature.grid[axis].counts.count == 0;
}

/* `number`, x fastest, in a grid; its quotients and remainders fit 32 bits, as launches do. */
static void place_in_grid(Simt *s, LLVMValueRef number, LLVMValueRef const grid[3], LLVMValueRef place[3]) {
    LLVMBuilderRef builder = s->e->builder;
    LLVMValueRef left = LLVMBuildTrunc(builder, number, s->e->i32, "");
    for (int axis = 0; axis < 3; axis++) {
        bool is_last = axis == 2 || (is_flat(s, 2) && (axis == 1 || is_flat(s, 1)));
        LLVMValueRef extent = LLVMBuildTrunc(builder, grid[axis], s->e->i32, "");
        LLVMValueRef at = is_flat(s, axis) ? simt_int(s, 0) : is_last ? left : LLVMBuildURem(builder, left, extent, "");
        place[axis] = LLVMBuildZExt(builder, at, s->e->i64, "");
        if (is_last) {
            for (axis++; axis < 3; axis++)
                place[axis] = emit_int_const(s->e, 0);
            return;
        }
        if (!is_flat(s, axis))
            left = LLVMBuildUDiv(builder, left, extent, "");
    }
}

/* `number` in groups of `group` rows, x and y, each group column by column: the last one has the rows that are left. */
static void place_in_groups(Simt *s, LLVMValueRef number, int group, LLVMValueRef const grid[3], LLVMValueRef place[3]) {
    LLVMBuilderRef builder = s->e->builder;
    LLVMValueRef extent[2], left = LLVMBuildTrunc(builder, number, s->e->i32, "");
    for (int axis = 0; axis < 2; axis++)
        extent[axis] = LLVMBuildTrunc(builder, grid[axis], s->e->i32, "");
    LLVMValueRef plane = LLVMBuildMul(builder, extent[0], extent[1], ""), in_group = LLVMBuildMul(builder, extent[0], simt_int(s, group), "");
    LLVMValueRef z = is_flat(s, 2) ? simt_int(s, 0) : LLVMBuildUDiv(builder, left, plane, "");
    if (!is_flat(s, 2))
        left = LLVMBuildURem(builder, left, plane, "");
    LLVMValueRef first = LLVMBuildMul(builder, LLVMBuildUDiv(builder, left, in_group, ""), simt_int(s, group), ""),
                 rows = LLVMBuildSub(builder, extent[1], first, "");
    rows = LLVMBuildSelect(builder, LLVMBuildICmp(builder, LLVMIntULT, rows, simt_int(s, group), ""), rows, simt_int(s, group), "");
    LLVMValueRef at = LLVMBuildURem(builder, left, in_group, ""), y = LLVMBuildAdd(builder, first, LLVMBuildURem(builder, at, rows, ""), "");
    place[0] = LLVMBuildZExt(builder, LLVMBuildUDiv(builder, at, rows, ""), s->e->i64, "");
    place[1] = LLVMBuildZExt(builder, y, s->e->i64, "");
    place[2] = LLVMBuildZExt(builder, z, s->e->i64, "");
}

/* Where block `number` stands; a group's rows, 0: row by row. */
static void place_block(Simt *s, LLVMValueRef number, int group, LLVMValueRef place[3]) {
    if (group)
        place_in_groups(s, number, group, s->launch.grid, place);
    else
        place_in_grid(s, number, s->launch.grid, place);
}

static void emit_block_of(Simt *s, const IrOp *op) {
    LLVMValueRef place[3];
    place_block(s, simt_scalar(s, op->operands.items[0]), (int)op->operands.items[1]->def->bits, place);
    simt_set(s, op->results.items[0], place[op->axis]);
}

/* Without @cluster_dims a CTA is its own cluster. */
static void find_place(Simt *s) {
    Emitter *e = s->e;
    int64_t extent[3], size = simt_cluster_size(s);
    for (int axis = 0; axis < 3; axis++)
        extent[axis] = simt_cluster_extent(s, axis);
    LLVMValueRef number = s->target->cta(s), clusters[3];
    if (size == 1) {
        int group = layout_order(s->kernel);
        place_block(s, number, group, s->cluster);
        if (!group && layout_grows(s->kernel))
            s->cluster[0] = LLVMBuildSub(e->builder, LLVMBuildSub(e->builder, s->launch.grid[0], emit_int_const(e, 1), ""), s->cluster[0], "");
        for (int axis = 0; axis < 3; axis++)
            s->launch.block[axis] = s->cluster[axis];
        return;
    }
    for (int axis = 0; axis < 3; axis++)
        clusters[axis] = LLVMBuildUDiv(e->builder, s->launch.grid[axis], emit_int_const(e, extent[axis]), "");
    place_in_grid(s, LLVMBuildUDiv(e->builder, number, emit_int_const(e, size), ""), clusters, s->cluster);
    LLVMValueRef rank = LLVMBuildURem(e->builder, number, emit_int_const(e, size), "");
    for (int axis = 0; axis < 3; axis++) {
        LLVMValueRef own = LLVMBuildURem(e->builder, rank, emit_int_const(e, extent[axis]), "");
        s->launch.block[axis] = LLVMBuildAdd(e->builder, LLVMBuildMul(e->builder, s->cluster[axis], emit_int_const(e, extent[axis]), ""), own, "");
        rank = LLVMBuildUDiv(e->builder, rank, emit_int_const(e, extent[axis]), "");
    }
}

/* ---- ops ---- */

/* Register by register: element-wise ops, conversions, selections, on scalars too. */
static void emit_registers(Simt *s, const IrOp *op) {
    const IrValue *result = op->results.items[0];
    int count = simt_count(result->type);
    LLVMValueRef *registers = simt_registers(s, count);
    for (int i = 0; i < count; i++) {
        LLVMValueRef operands[3] = {NULL};
        for (int k = 0; k < op->operands.count; k++)
            operands[k] = result->type->kind == TYPE_TILE ? simt_tile(s, op->operands.items[k])[i] : simt_scalar(s, op->operands.items[k]);
        registers[i] = emit_element(s->e, op, operands);
    }
    s->values[result->id] = registers;
}

static void emit_broadcast(Simt *s, const IrOp *op) {
    const IrValue *from = op->operands.items[0], *to = op->results.items[0];
    int count = simt_count(to->type);
    LLVMValueRef *registers = simt_registers(s, count);
    for (int i = 0; i < count; i++)
        registers[i] = from->type->kind == TYPE_SCALAR ? simt_scalar(s, from) : simt_tile(s, from)[simt_source(from->type, to->type, i)];
    s->values[to->id] = registers;
}

static void emit_iota(Simt *s, const IrOp *op) {
    const IrValue *result = op->results.items[0];
    int count = simt_count(result->type);
    LLVMValueRef *registers = simt_registers(s, count);
    for (int i = 0; i < count; i++)
        registers[i] = simt_element(s, result->type, i, 1);
    s->values[result->id] = registers;
}

/* The same registers, read as a tile of another shape. */
static void emit_relabelled(Simt *s, const IrOp *op) {
    s->values[op->results.items[0]->id] = s->values[op->operands.items[0]->id];
}

int64_t simt_dim(const IrOp *op) {
    int64_t value;
    if (!dim_is_int(op->dim, &value))
        abort(); /* the memory level has no others */
    return value;
}

int simt_find_register(const Layout *layout, int row, int column) {
    int found = layout_find_register(layout, row, column);
    if (found < 0)
        abort(); /* the thread has no such element */
    return found;
}

void simt_op(Simt *s, const IrOp *op) {
    emit_at(s->e, op->span);
    if (op->regions.count) {
        simt_region(s, op);
        return;
    }
    LLVMValueRef placed = launch_scalar(s->e, &s->launch, op);
    if (placed) {
        simt_set(s, op->results.items[0], placed);
        return;
    }
    if (simt_thread_op(s, op) || simt_bulk_op(s, op) || simt_bulk_store_op(s, op))
        return;
    switch (op->kind) {
    case OP_LOAD:
        simt_load(s, op);
        return;
    case OP_STORE:
        simt_store(s, op);
        return;
    case OP_BROADCAST:
        emit_broadcast(s, op);
        return;
    case OP_IOTA:
        emit_iota(s, op);
        return;
    case OP_TRANSPOSE:
        emit_relabelled(s, op);
        return;
    case OP_RESHAPE:
        if (reshape_keeps_axes(op))
            emit_relabelled(s, op);
        else
            simt_reshape(s, op);
        return;
    case OP_CONVERT_LAYOUT:
        simt_convert(s, op);
        return;
    case OP_STAGE:
        simt_stage(s, op);
        return;
    case OP_CUMSUM:
        simt_cumsum(s, op);
        return;
    case OP_DOT:
    case OP_DOT_T:
        simt_dot(s, op);
        return;
    case OP_CTA:
        simt_set(s, op->results.items[0], s->target->cta(s));
        return;
    case OP_CTAS:
        simt_set(s, op->results.items[0], s->target->ctas(s));
        return;
    case OP_BLOCK_OF:
        emit_block_of(s, op);
        return;
    case OP_RING:
        return;
    case OP_SLOT:
        simt_slot(s, op);
        return;
    case OP_ASYNC_COPY:
        simt_copy(s, op);
        return;
    case OP_ASYNC_COMMIT:
        s->target->copy_commit(s);
        return;
    case OP_ASYNC_WAIT:
        s->target->copy_wait(s, (int)simt_dim(op), op->span);
        return;
    case OP_MMA:
    case OP_MMA_T:
        simt_mma(s, op);
        return;
    default:
        break;
    }
    if (op_info[op->kind].traits & TRAIT_REDUCES)
        simt_reduce(s, op);
    else if (op->results.count == 1 && op->operands.count > 0)
        emit_registers(s, op);
    else if (!(op_info[op->kind].traits & TRAIT_TERMINATOR))
        abort();
}

void simt_block(Simt *s, const IrBlock *block) {
    for (const IrOp *op = block->first; op; op = op->next)
        if (op->results.count != 1 || !s->early || !s->early[op->results.items[0]->id])
            simt_op(s, op);
}

void simt_threads_begin(Simt *s, LLVMValueRef thread) {
    s->thread = thread;
    s->lane = s->target->lane(s);
    s->warp = LLVMBuildLShr(s->e->builder, thread, simt_int(s, LAYOUT_LANES), "");
    s->places = NULL;
    simt_elements_begin(s);
}

LLVMValueRef simt_leaf(Emitter *e, const SimtTarget *target, const IrKernel *kernel, const char *name) {
    Simt simt = {.e = e, .target = target, .kernel = kernel, .threads = kernel->threads, .warps = (kernel->threads + 31) / 32}, *s = &simt;
    s->values = NEW_ARRAY(e->context->arena, LLVMValueRef *, ir_number((IrKernel *)kernel) + 1);
    s->pairs = NEW_ARRAY(e->context->arena, LLVMValueRef *, ir_number((IrKernel *)kernel) + 1);
    e->fastmath = kernel->signature.fastmath;
    LaunchPlaces places;
    target->begin(s, name, &places);
    s->launch = launch_read(e, kernel, &places);
    for (int i = 0; i < kernel->signature.params.count; i++)
        if (s->launch.tensors[i].base)
            s->launch.tensors[i].base = target->tensor_base(s, s->launch.tensors[i].base);
    simt_threads_begin(s, target->thread(s));
    find_place(s);
    simt_body(s);
    emit_at(e, kernel->signature.span);
    if (target->end)
        target->end(s);
    LLVMBuildRetVoid(e->builder);
    return s->function;
}
