/* Tiles on their way from registers to tensors by bulk stores: parts of products' sums, slots that they are put into, and the stores. */
#include "compiler/codegen/simt/simt.h"

#include "compiler/layout/layout.h"

enum { SPAN_BYTES = 128, CHUNK_BYTES = 16, BLOCK_ROWS = 16, BLOCK_COLUMNS = 16, BLOCK_REGISTERS = 8 };

static void emit_part(Simt *s, const IrOp *op) {
    const IrValue *from = op->operands.items[0], *to = op->results.items[0];
    int count = simt_count(to->type), first = (int)simt_dim(op);
    LLVMValueRef *registers = simt_registers(s, count);
    for (int i = 0; i < count; i++) {
        int row = layout_register_at(to->type->layout, i, 0), column = layout_register_at(to->type->layout, i, 1);
        registers[i] = simt_tile(s, from)[simt_find_register(from->type->layout, row, column + first)];
    }
    s->values[to->id] = registers;
}

/* ---- slots ---- */

/* Four 8 x 8 matrices of 16 bits are a block of 16 x 16, whose rows begin where lanes say, and each warp has whole ones. */
static bool has_blocks(const Type *type) {
    const Layout *layout = type->layout;
    if (dtype_bits(type->scalar) != 16 || !layout_is_mma(layout) || layout->registers < 3)
        return false;
    bool has = layout->bases[2].at[0] == 0 && layout->bases[2].at[1] == BLOCK_COLUMNS / 2;
    for (int bit = 0; bit < layout->warps; bit++)
        has = has && layout_warps(layout)[bit].at[1] == 0;
    return has;
}

/* Lane l brings the address of row l % 16 of a block, left half or right: chunks of 16 bytes change places as slots have it. */
static void put_blocks(Simt *s, const Type *type, LLVMValueRef const *tile, LLVMValueRef slot, Span span) {
    LLVMBuilderRef builder = s->e->builder;
    int64_t bytes = layout_bulk_span(type), chunks = bytes / CHUNK_BYTES;
    LLVMValueRef row = LLVMBuildAnd(builder, s->lane, simt_int(s, BLOCK_ROWS - 1), "");
    LLVMValueRef turn = LLVMBuildUDiv(builder, LLVMBuildMul(builder, row, simt_int(s, bytes), ""), simt_int(s, SPAN_BYTES), "");
    LLVMValueRef half = LLVMBuildLShr(builder, s->lane, simt_int(s, 4), "");
    turn = LLVMBuildXor(builder, LLVMBuildAnd(builder, turn, simt_int(s, chunks - 1), ""), half, "");
    LLVMValueRef first = LLVMBuildAdd(builder, row, simt_warp_origin(s, type->layout, 0), "");
    first = LLVMBuildAdd(builder, slot, LLVMBuildMul(builder, first, simt_int(s, bytes), ""), "");
    for (int i = 0; i < simt_count(type); i += BLOCK_REGISTERS) {
        LLVMValueRef words[BLOCK_REGISTERS / 2];
        for (int k = 0; k < BLOCK_REGISTERS / 2; k++)
            words[k] = LLVMBuildBitCast(builder, values_to_memory(s->e, type->scalar, tile + i + 2 * k, 2), s->e->i32, "");
        int down = layout_register_at(type->layout, i, 0), along = layout_register_at(type->layout, i, 1) * (dtype_bits(type->scalar) / 8);
        LLVMValueRef chunk = LLVMBuildXor(builder, turn, simt_int(s, along / CHUNK_BYTES), "");
        LLVMValueRef address = LLVMBuildAdd(builder, first, LLVMBuildMul(builder, chunk, simt_int(s, CHUNK_BYTES), ""), "");
        s->target->stmatrix(s, LLVMBuildAdd(builder, address, simt_int(s, down * bytes), ""), words, span);
    }
}

static void emit_put(Simt *s, const IrOp *op) {
    const IrValue *tile = op->operands.items[0];
    LLVMValueRef slot = simt_staged(s, op->operands.items[1]);
    if (has_blocks(tile->type))
        put_blocks(s, tile->type, simt_tile(s, tile), slot, op->span);
    else
        simt_put_slot(s, tile, slot, op->span);
    s->target->bulk_fence(s, op->span);
}

/* ---- stores ---- */

static void emit_store(Simt *s, const IrOp *op) {
    BulkMap map = layout_bulk_map(op);
    BulkMaps maps = layout_bulk_maps(s->e->context, s->kernel);
    SimtBulkCopy copy = {.map = layout_bulk_number(&maps, &map), .rank = op->operands.items[0]->type->rank, .span = op->span};
    for (int axis = 0; axis < copy.rank; axis++)
        copy.coordinates[copy.rank - 1 - axis] = simt_coordinate(s, op->operands.items[1 + axis]);
    copy.shared = simt_staged(s, stored_value(op));
    copy.predicate = LLVMBuildICmp(s->e->builder, LLVMIntEQ, s->thread, simt_int(s, 0), "");
    s->target->bulk_store(s, &copy);
}

bool simt_bulk_store_op(Simt *s, const IrOp *op) {
    switch (op->kind) {
    case OP_PART:
        emit_part(s, op);
        return true;
    case OP_BULK_PUT:
        emit_put(s, op);
        return true;
    case OP_BULK_GET:
        s->values[op->results.items[0]->id] = simt_get_slot(s, op->results.items[0]->type, simt_staged(s, op->operands.items[0]), op->span);
        return true;
    case OP_BULK_STORE:
        emit_store(s, op);
        return true;
    case OP_BULK_STORE_WAIT:
        s->target->bulk_store_wait(s, (int)simt_dim(op), op->span);
        return true;
    case OP_BULK_STORE_DONE:
        s->target->bulk_store_wait(s, -1, op->span);
        return true;
    default:
        return false;
    }
}
