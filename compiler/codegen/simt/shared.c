/* Tiles through shared memory: staging, conversions of layout, reshapes, cumsum. */
#include "compiler/codegen/simt/simt.h"

#include "compiler/layout/layout.h"

enum { VECTOR_BYTES = 16 };

static int64_t element_bytes(const Type *type) {
    return dtype_bits(type->scalar) / 8;
}

/* A tile in shared memory, row by row. Where `chunks` is not 0, the 16-byte chunks of a row change places with those at an XOR of them with so many
 * bits of (row >> shift): threads that go down a column, 2^shift rows each, then meet in different banks. */
typedef struct SharedTile {
    int64_t at, pitch;
    int chunks, shift;
    LLVMValueRef slot; /* what `at` counts from, a multiple of 16 bytes; NULL: the CTA's shared memory */
} SharedTile;

/* How many neighbouring registers are neighbours there, too: a power of two. */
static int run_length(const Type *type, const SharedTile *tile) {
    int64_t size = element_bytes(type);
    int run = 1 << simt_run(type->layout, 1);
    while (run > 1 && (run * size > VECTOR_BYTES || tile_columns(type) % run != 0 || tile->pitch % (run * size) != 0 || tile->at % (run * size) != 0))
        run /= 2;
    return run;
}

static LLVMValueRef element_address(Simt *s, const Type *type, const SharedTile *tile, int index) {
    LLVMBuilderRef builder = s->e->builder;
    LLVMValueRef column = LLVMBuildMul(builder, simt_element(s, type, index, 1), simt_int(s, element_bytes(type)), "");
    if (tile->chunks) {
        LLVMValueRef turn = LLVMBuildLShr(builder, simt_element(s, type, index, 0), simt_int(s, tile->shift), "");
        turn = LLVMBuildMul(builder, LLVMBuildAnd(builder, turn, simt_int(s, tile->chunks - 1), ""), simt_int(s, VECTOR_BYTES), "");
        column = LLVMBuildXor(builder, column, turn, "");
    }
    LLVMValueRef row = tile_rows(type) == 1 ? simt_int(s, 0) : LLVMBuildMul(builder, simt_element(s, type, index, 0), simt_int(s, tile->pitch), "");
    LLVMValueRef at = tile->slot ? LLVMBuildAdd(builder, tile->slot, simt_int(s, tile->at), "") : simt_int(s, tile->at);
    return LLVMBuildAdd(builder, LLVMBuildAdd(builder, row, column, ""), at, "");
}

static void put_tile(Simt *s, const Type *type, LLVMValueRef const *registers, const SharedTile *tile, Span span) {
    int run = run_length(type, tile);
    unsigned align = (unsigned)(run * element_bytes(type));
    for (int i = 0; i < simt_count(type); i += run) {
        LLVMValueRef value = values_to_memory(s->e, type->scalar, registers + i, run);
        LLVMValueRef predicate = simt_and(s, simt_owner(s, type->layout), simt_exists(s, type, i));
        simt_shared_store(s, value, element_address(s, type, tile, i), align, predicate, span);
    }
}

static LLVMValueRef *get_tile(Simt *s, const Type *type, const SharedTile *tile, Span span) {
    Emitter *e = s->e;
    int run = run_length(type, tile), count = simt_count(type);
    unsigned align = (unsigned)(run * element_bytes(type));
    LLVMTypeRef memory = memory_type(e, type->scalar);
    LLVMValueRef *registers = simt_registers(s, count);
    for (int i = 0; i < count; i += run) {
        LLVMTypeRef loaded = run > 1 ? LLVMVectorType(memory, (unsigned)run) : memory;
        LLVMValueRef value = simt_shared_load(s, loaded, element_address(s, type, tile, i), align, simt_exists(s, type, i), span);
        for (int k = 0; k < run; k++)
            registers[i + k] = value_from_memory(e, type->scalar, run > 1 ? LLVMBuildExtractElement(e->builder, value, simt_int(s, k), "") : value);
    }
    return registers;
}

static SharedTile dense(const IrOp *op, const Type *type) {
    return (SharedTile){.at = op->shared_at, .pitch = tile_columns(type) * element_bytes(type)};
}

/* For a conversion: one side goes down columns, so chunks change places, as many as a row has and as there are in a turn of the banks. */
static SharedTile swizzled(const IrOp *op, const Type *from, const Type *to) {
    enum { BANKS_BYTES = 128 };
    SharedTile tile = {.at = op->shared_at, .pitch = layout_pitch(to)};
    int64_t row = tile_columns(to) * element_bytes(to), turn = row < BANKS_BYTES ? row : BANKS_BYTES;
    int down = simt_run(from->layout, 0) > simt_run(to->layout, 0) ? simt_run(from->layout, 0) : simt_run(to->layout, 0);
    if (!down || row % turn != 0 || turn % VECTOR_BYTES != 0 || (turn & (turn - 1)) != 0)
        return tile;
    tile.chunks = (int)(turn / VECTOR_BYTES);
    tile.shift = down;
    return tile;
}

LLVMValueRef simt_staged(const Simt *s, const IrValue *tile) {
    return s->values[tile->id][0];
}

void simt_stage(Simt *s, const IrOp *op) {
    const IrValue *tile = op->operands.items[0];
    SharedTile there = {.at = op->shared_at, .pitch = layout_pitch(tile->type)};
    put_tile(s, tile->type, simt_tile(s, tile), &there, op->span);
    simt_set(s, op->results.items[0], simt_int(s, op->shared_at));
}

static SharedTile in_slot(const Type *type, LLVMValueRef slot) {
    enum { BANKS_BYTES = 128 };
    int64_t bytes = layout_bulk_span(type);
    return (SharedTile){.pitch = bytes, .chunks = (int)(bytes / VECTOR_BYTES), .shift = layout_log2(BANKS_BYTES / bytes), .slot = slot};
}

void simt_put_slot(Simt *s, const IrValue *tile, LLVMValueRef slot, Span span) {
    SharedTile there = in_slot(tile->type, slot);
    put_tile(s, tile->type, simt_tile(s, tile), &there, span);
}

LLVMValueRef *simt_get_slot(Simt *s, const Type *type, LLVMValueRef slot, Span span) {
    SharedTile there = in_slot(type, slot);
    return get_tile(s, type, &there, span);
}

void simt_convert(Simt *s, const IrOp *op) {
    const IrValue *from = op->operands.items[0], *to = op->results.items[0];
    int sources[1 << LAYOUT_REGISTERS], count = simt_count(to->type);
    if (layout_permutes(from->type->layout, to->type->layout, sources)) {
        LLVMValueRef *registers = simt_registers(s, count);
        for (int i = 0; i < count; i++)
            registers[i] = simt_tile(s, from)[sources[i]];
        s->values[to->id] = registers;
        return;
    }
    SharedTile there = swizzled(op, from->type, to->type);
    put_tile(s, from->type, simt_tile(s, from), &there, op->span);
    s->target->barrier(s, op->span);
    s->values[to->id] = get_tile(s, to->type, &there, op->span);
}

void simt_reshape(Simt *s, const IrOp *op) {
    const IrValue *from = op->operands.items[0], *to = op->results.items[0];
    SharedTile before = dense(op, from->type), after = dense(op, to->type);
    put_tile(s, from->type, simt_tile(s, from), &before, op->span);
    s->target->barrier(s, op->span);
    s->values[to->id] = get_tile(s, to->type, &after, op->span);
}

/* Sums column `column` down its rows, in place. */
static void sum_column(Simt *s, const IrOp *op, LLVMValueRef column, int64_t rows, int64_t row_bytes) {
    Emitter *e = s->e;
    const Type *type = op->results.items[0]->type;
    LLVMTypeRef memory = memory_type(e, type->scalar);
    unsigned align = (unsigned)element_bytes(type);
    LLVMValueRef top =
        LLVMBuildAdd(e->builder, LLVMBuildMul(e->builder, column, simt_int(s, element_bytes(type)), ""), simt_int(s, op->shared_at), "");
    LLVMValueRef first = simt_shared_load(s, memory, top, align, NULL, op->span);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(e->builder);
    Loop loop = loop_begin(e, emit_int_const(e, 1), emit_int_const(e, rows));
    LLVMBasicBlockRef body = LLVMGetInsertBlock(e->builder);
    LLVMPositionBuilderBefore(e->builder, loop.index);
    LLVMValueRef sum = LLVMBuildPhi(e->builder, memory, "");
    LLVMPositionBuilderAtEnd(e->builder, body);
    LLVMValueRef offset = LLVMBuildMul(e->builder, LLVMBuildTrunc(e->builder, loop.index, e->i32, ""), simt_int(s, row_bytes), "");
    LLVMValueRef address = LLVMBuildAdd(e->builder, top, offset, "");
    LLVMValueRef operands[3] = {
        value_from_memory(e, type->scalar, sum), value_from_memory(e, type->scalar, simt_shared_load(s, memory, address, align, NULL, op->span))};
    LLVMValueRef next = value_to_memory(e, type->scalar, emit_element_op(e, OP_ADD, type->scalar, operands));
    simt_shared_store(s, next, address, align, NULL, op->span);
    LLVMAddIncoming(sum, (LLVMValueRef[]){first, next}, (LLVMBasicBlockRef[]){before, LLVMGetInsertBlock(e->builder)}, 2);
    loop_end(e, &loop, LOOP_SCALAR);
}

/* Columns are dealt to threads. */
void simt_cumsum(Simt *s, const IrOp *op) {
    Emitter *e = s->e;
    const IrValue *from = op->operands.items[0], *to = op->results.items[0];
    SharedTile there = dense(op, to->type);
    int64_t rows = tile_extent(to->type, 0), columns = to->type->rank == 1 ? 1 : tile_columns(to->type);
    put_tile(s, from->type, simt_tile(s, from), &there, op->span);
    s->target->barrier(s, op->span);
    LLVMValueRef thread = LLVMBuildZExt(e->builder, s->thread, e->i64, ""), threads = emit_int_const(e, s->threads);
    Loop loop = loop_begin(e, emit_int_const(e, 0), emit_trip_count(e, thread, emit_int_const(e, columns), threads));
    LLVMValueRef column = LLVMBuildAdd(e->builder, thread, LLVMBuildMul(e->builder, loop.index, threads, ""), "");
    sum_column(s, op, LLVMBuildTrunc(e->builder, column, e->i32, ""), rows, to->type->rank == 1 ? element_bytes(to->type) : there.pitch);
    loop_end(e, &loop, LOOP_SCALAR);
    s->target->barrier(s, op->span);
    s->values[to->id] = get_tile(s, to->type, &there, op->span);
}
