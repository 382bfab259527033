/* Bulk copies, mbarriers, and products by matrix instructions of four warps. Slots lie as compiler/layout/bulk_map.c says. */
#include "compiler/codegen/simt/simt.h"

#include "compiler/layout/layout.h"

enum { STEP = 16, GROUP_ROWS = 64, CORE_ROWS = 8, ELEMENT_BYTES = 2, SPAN_BYTES = 128, UNIT = 16 };

/* ---- mbarriers ---- */

static LLVMValueRef mbarrier_address(Simt *s, const IrValue *mbarriers, const IrValue *number) {
    LLVMBuilderRef builder = s->e->builder;
    LLVMValueRef index = LLVMBuildTrunc(builder, simt_scalar(s, number), s->e->i32, "");
    return LLVMBuildAdd(builder, LLVMBuildMul(builder, index, simt_int(s, sizeof(int64_t)), ""), simt_int(s, mbarriers->def->shared_at), "");
}

static LLVMValueRef is_thread(Simt *s, int64_t thread) {
    return LLVMBuildICmp(s->e->builder, LLVMIntEQ, s->thread, simt_int(s, thread), "");
}

static void emit_mbarriers(Simt *s, const IrOp *op) {
    simt_set(s, op->results.items[0], simt_int(s, op->shared_at));
    s->target->mbarriers(s, simt_int(s, op->shared_at), (int)tile_extent(op->results.items[0]->type, 0), op->kind == OP_MBARRIERS_OF_ALL, op->span);
}

/* Does the op stand in a branch that one thread alone takes? */
static bool is_copiers(const IrOp *op) {
    const IrOp *branch = op->parent->owner, *condition = branch && branch->kind == OP_IF ? branch->operands.items[0]->def : NULL;
    bool is_copier = condition && condition->kind == OP_COPIER;
    for (int i = 0; condition && condition->kind == OP_AND && i < 2; i++)
        is_copier |= condition->operands.items[i]->def && condition->operands.items[i]->def->kind == OP_COPIER;
    return is_copier;
}

/* The thread's, of those that come to the op. */
static LLVMValueRef is_by(Simt *s, const IrOp *op, int64_t thread, const IrValue *condition) {
    LLVMValueRef holds = simt_scalar(s, condition);
    return is_copiers(op) ? holds : simt_and(s, is_thread(s, thread), holds);
}

static void emit_expect(Simt *s, const IrOp *op) {
    LLVMValueRef mbarrier = mbarrier_address(s, op->operands.items[0], op->operands.items[1]);
    s->target->mbarrier_expect(s, mbarrier, simt_dim(op), is_by(s, op, 0, op->operands.items[2]), op->span);
}

static void emit_wait(Simt *s, const IrOp *op) {
    LLVMValueRef parity = LLVMBuildTrunc(s->e->builder, simt_scalar(s, op->operands.items[2]), s->e->i32, "");
    s->target->mbarrier_wait(s, mbarrier_address(s, op->operands.items[0], op->operands.items[1]), parity, op->span);
}

static void emit_arrive(Simt *s, const IrOp *op) {
    s->target->mbarrier_arrive(s, mbarrier_address(s, op->operands.items[0], op->operands.items[1]), op->span);
}

/* ---- copies ---- */

/* An offset as a coordinate: extents and boxes fit 31 bits, so what is further out than that is as much outside. */
LLVMValueRef simt_coordinate(Simt *s, const IrValue *offset) {
    Emitter *e = s->e;
    LLVMValueRef value = emit_max(e, simt_scalar(s, offset), emit_int_const(e, INT32_MIN));
    return LLVMBuildTrunc(e->builder, emit_min(e, value, emit_int_const(e, INT32_MAX - SPAN_BYTES * SPAN_BYTES)), e->i32, "");
}

/* A box for each span of the rows. One thread does all, which also waits for bulk stores before it has their slots filled again. */
static void emit_copy(Simt *s, const IrOp *op) {
    Emitter *e = s->e;
    const Type *slot = access_type(op);
    BulkMap map = layout_bulk_map(op);
    BulkMaps maps = layout_bulk_maps(e->context, s->kernel);
    int rank = op->operands.items[0]->type->rank, count = op->operands.count;
    int64_t boxes = tile_columns(slot) / map.columns, box_bytes = (int64_t)map.rows * map.swizzle;
    SimtBulkCopy copy = {.map = layout_bulk_number(&maps, &map), .rank = rank, .span = op->span};
    copy.mbarrier = mbarrier_address(s, op->operands.items[count - 3], op->operands.items[count - 2]);
    copy.predicate = is_by(s, op, 0, op->operands.items[count - 1]);
    for (int axis = 0; axis < rank; axis++)
        copy.coordinates[rank - 1 - axis] = simt_coordinate(s, op->operands.items[1 + axis]);
    LLVMValueRef first = copy.coordinates[0], shared = simt_staged(s, op->operands.items[count - 4]);
    for (int64_t box = 0; box < boxes; box++) {
        copy.coordinates[0] = LLVMBuildAdd(e->builder, first, simt_int(s, box * map.columns), "");
        copy.shared = LLVMBuildAdd(e->builder, shared, simt_int(s, box * box_bytes), "");
        s->target->bulk_copy(s, &copy);
    }
}

/* ---- products ---- */

/* A factor as descriptors see it. */
typedef struct Operand {
    LLVMValueRef start; /* i64: descriptor of its first element */
    int64_t span, rows;
    bool along_k; /* its rows run along k */
} Operand;

/* The fields of a descriptor: bits 0 address, 16 leading and 32 stride offset in 16 bytes, 62 kind of swizzle. The leading offset counts where an
 * instruction takes several spans of a row, the stride from eight rows to the next eight. */
static Operand find_operand(Simt *s, const IrValue *slot, LLVMValueRef row, bool along_k) {
    enum { UNIT_SHIFT = 4, ADDRESS_BITS = 14, LEADING = 16, STRIDE = 32, SWIZZLE = 62 };
    LLVMBuilderRef builder = s->e->builder;
    Operand operand = {.span = layout_bulk_span(slot->type), .rows = tile_rows(slot->type), .along_k = along_k};
    uint64_t swizzle = operand.span == SPAN_BYTES ? 1 : operand.span == SPAN_BYTES / 2 ? 2 : 3;
    uint64_t leading = along_k ? 1 : (uint64_t)(operand.rows * operand.span / UNIT), stride = (uint64_t)(CORE_ROWS * operand.span / UNIT);
    LLVMValueRef address = simt_staged(s, slot);
    if (row)
        address = LLVMBuildAdd(builder, address, LLVMBuildMul(builder, row, simt_int(s, operand.span), ""), "");
    LLVMValueRef low = LLVMBuildAnd(builder, LLVMBuildLShr(builder, address, simt_int(s, UNIT_SHIFT), ""), simt_int(s, (1 << ADDRESS_BITS) - 1), "");
    uint64_t fields = leading << LEADING | stride << STRIDE | swizzle << SWIZZLE;
    operand.start = LLVMBuildOr(builder, LLVMBuildZExt(builder, low, s->e->i64, ""), LLVMConstInt(s->e->i64, fields, false), "");
    return operand;
}

/* Where step `step` along k begins, `row` rows further. */
static LLVMValueRef descriptor_at(Simt *s, const Operand *operand, int64_t step, int64_t row) {
    int64_t along = step * STEP * ELEMENT_BYTES, bytes = (row + step * STEP) * operand->span;
    if (operand->along_k)
        bytes = along / operand->span * operand->rows * operand->span + along % operand->span + row * operand->span;
    return LLVMBuildAdd(s->e->builder, operand->start, emit_int_const(s->e, bytes / UNIT), "");
}

/* Four warps have whole rows. */
static int columns_of(const Layout *layout) {
    int columns = 1;
    for (int bit = 0; bit < layout->registers; bit++)
        columns = layout->bases[bit].at[1] ? 2 * layout->bases[bit].at[1] : columns;
    return columns;
}

/* What a tile laid out like an accumulator has for a step along k: both rows of a thread, then both again eight columns further. Neighbouring
 * registers hold neighbouring columns. */
static void pack_first(Simt *s, const IrValue *tile, int row, int64_t step, LLVMValueRef packed[4]) {
    enum { OTHER_ROW = 8, SECOND_HALF = 8 };
    for (int i = 0; i < 4; i++)
        packed[i] = simt_pair(s, tile, simt_find_register(tile->type->layout, row + i % 2 * OTHER_ROW, (int)step * STEP + i / 2 * SECOND_HALF));
}

static void emit_product(Simt *s, const IrOp *op) {
    const IrValue *result = op->results.items[0], *a = op->operands.items[0], *b = op->operands.items[1];
    const Layout *layout = result->type->layout;
    bool rows_along_k = op->kind == OP_WGMMA_T;
    int columns = columns_of(layout), count = simt_count(result->type);
    LLVMValueRef row = LLVMBuildAnd(s->e->builder, simt_warp_origin(s, layout, 0), simt_int(s, -GROUP_ROWS), ""); /* of the four warps' first one */
    bool in_registers = a->type->kind == TYPE_TILE, is_fresh = layout_bulk_is_zero(op->operands.items[2]);
    Operand first = {0}, second = find_operand(s, b, NULL, rows_along_k);
    if (!in_registers)
        first = find_operand(s, a, row, true);
    LLVMValueRef *sums = simt_registers(s, count);
    for (int i = 0; i < count; i++)
        sums[i] = simt_tile(s, op->operands.items[2])[i];
    s->target->wgmma_begin(s, op->span);
    for (int64_t step = 0; step < tile_columns(a->type) / STEP; step++) {
        for (int block = 0; block < count; block += columns / 2) {
            SimtWgmma product = {
                .is_bf16 = a->type->scalar == PHB_BF16, .turned = !rows_along_k, .columns = columns, .sums = sums + block, .span = op->span};
            product.fresh = is_fresh && step == 0;
            if (in_registers)
                pack_first(s, a, layout_register_at(layout, block, 0), step, product.first);
            else
                product.a = descriptor_at(s, &first, step, layout_register_at(layout, block, 0));
            product.b = descriptor_at(s, &second, step, 0);
            s->target->wgmma(s, &product);
        }
    }
    s->target->wgmma_commit(s, op->span);
    s->values[result->id] = sums;
}

static void emit_product_wait(Simt *s, const IrOp *op) {
    const IrValue *result = op->results.items[0];
    int count = simt_count(result->type);
    LLVMValueRef *registers = simt_registers(s, count);
    for (int i = 0; i < count; i++)
        registers[i] = simt_tile(s, op->operands.items[0])[i];
    s->target->wgmma_wait(s, (int)simt_dim(op), registers, count, op->span);
    s->values[result->id] = registers;
}

bool simt_bulk_op(Simt *s, const IrOp *op) {
    switch (op->kind) {
    case OP_PLANES:
    case OP_BULK_RING:
        return true;
    case OP_MBARRIERS:
    case OP_MBARRIERS_OF_ALL:
        emit_mbarriers(s, op);
        return true;
    case OP_COPIER:
        simt_set(s, op->results.items[0], is_thread(s, 0));
        return true;
    case OP_MBARRIER_EXPECT:
        emit_expect(s, op);
        return true;
    case OP_MBARRIER_WAIT:
        emit_wait(s, op);
        return true;
    case OP_MBARRIER_ARRIVE:
        emit_arrive(s, op);
        return true;
    case OP_BULK_COPY:
        emit_copy(s, op);
        return true;
    case OP_WGMMA:
    case OP_WGMMA_T:
        emit_product(s, op);
        return true;
    case OP_WGMMA_WAIT:
        emit_product_wait(s, op);
        return true;
    default:
        return false;
    }
}
