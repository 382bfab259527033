/* Blocks a contraction for caches: for each block of k, B's columns and A's rows are packed into scratch, then each panel of B (first-level cache)
 * meets every panel of A (second level). C stays where it is and carries the chains from block to block. */
#include "compiler/codegen/host/contract_part.h"
#include "compiler/codegen/host/host.h"

#include <stdlib.h>

enum {
    MAX_LANES = 16,
    MAX_ROWS = 14, /* of a block in registers */
    MAX_COLUMNS = 2 * MAX_LANES,
    PART_ALIGN = 64,
    STEP_COST = 2, /* of a block in registers: loads of B, the loop */
    PACK_CHUNK = 32,
};

LLVMTypeRef contract_vector(const Emitter *e, PhbDType dtype, int count) {
    LLVMTypeRef type = value_type(e, dtype);
    return count == 1 ? type : LLVMVectorType(type, (unsigned)count);
}

/* ---- blocking ---- */

/* Registers hold the block of C, a row of B and one element of A. A step of k costs an instruction for each vector of C's block and some more: of the
 * heights that keep the multipliers busy, the one that takes the fewest in all for the tile's rows. */
static Blocking choose_blocking(const Emitter *e, PhbDType dtype, int64_t rows, int64_t columns) {
    Blocking blocking = {.dtype = dtype, .size = dtype_bits(dtype) / 8, .group = dtype == PHB_I32 ? 2 : 1};
    blocking.lanes = e->level->vector_bytes / blocking.size;
    bool is_emulated = !e->level->has_fma && dtype_is_float(dtype);
    int vectors = columns > blocking.lanes && !is_emulated ? 2 : 1, registers = e->level->vector_bytes == 64 ? 32 : 16;
    blocking.nr = vectors * blocking.lanes;
    int most = (registers - vectors - 2) / vectors;
    if (most > MAX_ROWS)
        most = MAX_ROWS;
    if (is_emulated) /* every lane is a long sequence */
        most = 1;
    int64_t best = INT64_MAX;
    for (int mr = most / 2 + 1; mr <= most; mr++) {
        int64_t cost = (rows + mr - 1) / mr * (mr * vectors + STEP_COST);
        if (cost <= best) {
            best = cost;
            blocking.mr = mr;
        }
    }
    return blocking;
}

int64_t contract_scratch(PhbDType dtype, int64_t rows, int64_t columns) {
    int64_t size = dtype_bits(dtype) / 8, block = (int64_t)MAX_ROWS * MAX_COLUMNS;
    return (rows + MAX_ROWS + columns + MAX_COLUMNS) * CONTRACT_KC * size + block * size + (int64_t)4 * PART_ALIGN;
}

/* ---- kept panels ---- */

/* A key, then slots of a block of k each. The last slot is for all blocks from its number on, and is never kept. */
enum { KEY_FUNCTION, KEY_COUNT, KEY_K, KEY_FACTOR, KEY_WORDS = KEY_FACTOR + 7, KEY_BYTES = 128, KEPT_SLOTS = 9, KEPT_BYTES = 3 << 20 };

static int64_t slot_bytes(PhbDType dtype, int64_t count) {
    return (count + MAX_COLUMNS) * CONTRACT_KC * dtype_bits(dtype) / 8 + PART_ALIGN;
}

static int64_t kept_slots(PhbDType dtype, int64_t count) {
    int64_t slots = KEPT_BYTES / slot_bytes(dtype, count);
    return slots < 2 ? 0 : slots < KEPT_SLOTS ? slots : KEPT_SLOTS;
}

int64_t contract_kept(PhbDType dtype, int64_t count) {
    int64_t slots = kept_slots(dtype, count);
    return slots ? KEY_BYTES + slots * slot_bytes(dtype, count) : 0;
}

static LLVMValueRef key_word(Emitter *e, LLVMValueRef kept, int word) {
    return part_address(e, kept, emit_int_const(e, word * (int64_t)sizeof(int64_t)));
}

/* No chain has this length. */
void contract_forget(Emitter *e, LLVMValueRef kept) {
    LLVMBuildStore(e->builder, emit_int_const(e, -1), key_word(e, kept, KEY_K));
}

/* ---- the blocked loops ---- */

enum { ARG_K, ARG_A, ARG_B = ARG_A + 7, ARG_C = ARG_B + 7, ARG_ROWS, ARG_COLUMNS, ARG_PITCH, ARG_SCRATCH, ARG_KEPT, ARG_SLOTS, ARG_COUNT };

typedef struct Blocks {
    Emitter *e;
    const Blocking *blocking;
    int kept_factor;   /* -1: none */
    LLVMValueRef same; /* i1: the kept panels are of the very factor */
    LLVMValueRef arguments[ARG_COUNT];
    LLVMValueRef row_panels, column_panels;
    LLVMValueRef packed_a, packed_b, corner; /* scratch: panels, and a block of C that runs over its edge */
    PartFunction kernel, pack_a, pack_b;
} Blocks;

static LLVMValueRef times(Emitter *e, LLVMValueRef value, int64_t factor) {
    return LLVMBuildMul(e->builder, value, emit_int_const(e, factor), "");
}

static LLVMValueRef panels(Emitter *e, LLVMValueRef count, int width) {
    return LLVMBuildSDiv(e->builder, LLVMBuildAdd(e->builder, count, emit_int_const(e, width - 1), ""), emit_int_const(e, width), "");
}

static LLVMValueRef panel_address(const Blocks *b, LLVMValueRef packed, LLVMValueRef panel, int width) {
    return part_address(b->e, packed, times(b->e, panel, (int64_t)width * CONTRACT_KC * b->blocking->size));
}

/* In slices of `chunk` steps through all panels: what lies beside a step's elements in memory is read while its page is at hand. */
static void pack_panels(const Blocks *b, const PartFunction *pack, int operand, LLVMValueRef packed, LLVMValueRef count, int width, LLVMValueRef k,
    LLVMValueRef steps, int chunk) {
    Emitter *e = b->e;
    Loop slices = loop_begin(e, emit_int_const(e, 0), panels(e, steps, chunk));
    LLVMValueRef done = times(e, slices.index, chunk);
    LLVMValueRef left = emit_min(e, LLVMBuildSub(e->builder, steps, done, ""), emit_int_const(e, chunk));
    LLVMValueRef to = part_address(e, packed, times(e, done, (int64_t)width * b->blocking->size / b->blocking->group));
    LLVMValueRef first = LLVMBuildAdd(e->builder, k, done, "");
    Loop loop = loop_begin(e, emit_int_const(e, 0), count);
    LLVMValueRef arguments[PACK_ARGUMENTS] = {
        [PACK_TO] = panel_address(b, to, loop.index, width), [PACK_W] = times(e, loop.index, width), [PACK_K] = first, [PACK_COUNT] = left};
    for (int i = PACK_START; i <= PACK_HIGH_K; i++)
        arguments[i] = b->arguments[operand + i - PACK_START];
    part_call(e, pack, arguments, PACK_ARGUMENTS);
    loop_end(e, &loop, LOOP_SCALAR);
    loop_end(e, &slices, LOOP_SCALAR);
}

/* rows x columns elements, from rows `from_pitch` bytes apart to rows `to_pitch` apart. */
static void copy_block(
    const Blocks *b, LLVMValueRef from, LLVMValueRef from_pitch, LLVMValueRef to, LLVMValueRef to_pitch, LLVMValueRef rows, LLVMValueRef columns) {
    Emitter *e = b->e;
    LLVMTypeRef type = contract_vector(e, b->blocking->dtype, 1);
    Loop row = loop_begin(e, emit_int_const(e, 0), rows);
    LLVMValueRef source = part_address(e, from, LLVMBuildMul(e->builder, row.index, from_pitch, ""));
    LLVMValueRef target = part_address(e, to, LLVMBuildMul(e->builder, row.index, to_pitch, ""));
    Loop column = loop_begin(e, emit_int_const(e, 0), columns);
    LLVMValueRef value = LLVMBuildLoad2(e->builder, type, LLVMBuildGEP2(e->builder, type, source, &column.index, 1, ""), "");
    LLVMBuildStore(e->builder, value, LLVMBuildGEP2(e->builder, type, target, &column.index, 1, ""));
    loop_end(e, &column, LOOP_SCALAR);
    loop_end(e, &row, LOOP_SCALAR);
}

static void multiply_block(const Blocks *b, LLVMValueRef row_panel, LLVMValueRef column_panel, LLVMValueRef steps) {
    Emitter *e = b->e;
    LLVMBuilderRef builder = e->builder;
    const Blocking *blocking = b->blocking;
    LLVMValueRef pitch = b->arguments[ARG_PITCH];
    LLVMValueRef row = times(e, row_panel, blocking->mr), column = times(e, column_panel, blocking->nr);
    LLVMValueRef rows = LLVMBuildSub(builder, b->arguments[ARG_ROWS], row, "");
    LLVMValueRef columns = LLVMBuildSub(builder, b->arguments[ARG_COLUMNS], column, "");
    LLVMValueRef c = part_address(e, b->arguments[ARG_C], LLVMBuildMul(builder, row, pitch, ""));
    c = part_address(e, c, times(e, column, blocking->size));
    LLVMValueRef whole = LLVMBuildAnd(builder, LLVMBuildICmp(builder, LLVMIntSGE, rows, emit_int_const(e, blocking->mr), ""),
        LLVMBuildICmp(builder, LLVMIntSGE, columns, emit_int_const(e, blocking->nr), ""), "");
    LLVMValueRef arguments[5] = {
        steps, panel_address(b, b->packed_a, row_panel, blocking->mr), panel_address(b, b->packed_b, column_panel, blocking->nr), c, pitch};

    LLVMBasicBlockRef inside = block_append(e, "inside"), rim = block_append(e, "rim"), done = block_append(e, "done");
    LLVMBuildCondBr(builder, whole, inside, rim);
    LLVMPositionBuilderAtEnd(builder, inside);
    part_call(e, &b->kernel, arguments, 5);
    LLVMBuildBr(builder, done);

    LLVMPositionBuilderAtEnd(builder, rim);
    rows = emit_min(e, rows, emit_int_const(e, blocking->mr));
    columns = emit_min(e, columns, emit_int_const(e, blocking->nr));
    arguments[3] = b->corner;
    arguments[4] = emit_int_const(e, (int64_t)blocking->nr * blocking->size);
    copy_block(b, c, pitch, b->corner, arguments[4], rows, columns);
    part_call(e, &b->kernel, arguments, 5);
    copy_block(b, b->corner, arguments[4], c, pitch, rows, columns);
    LLVMBuildBr(builder, done);
    LLVMPositionBuilderAtEnd(builder, done);
}

/* Says whether the key is that of this call's factor, and makes it so. */
static LLVMValueRef match_key(const Blocks *b, LLVMValueRef function) {
    Emitter *e = b->e;
    int operand = b->kept_factor == 0 ? ARG_A : ARG_B;
    LLVMValueRef words[KEY_WORDS], same = LLVMConstInt(e->i1, 1, false);
    words[KEY_FUNCTION] = LLVMBuildPtrToInt(e->builder, function, e->i64, "");
    words[KEY_COUNT] = b->arguments[b->kept_factor == 0 ? ARG_ROWS : ARG_COLUMNS];
    words[KEY_K] = b->arguments[ARG_K];
    words[KEY_FACTOR] = LLVMBuildPtrToInt(e->builder, b->arguments[operand], e->i64, "");
    for (int i = 1; i < KEY_WORDS - KEY_FACTOR; i++)
        words[KEY_FACTOR + i] = b->arguments[operand + i];
    for (int i = 0; i < KEY_WORDS; i++) {
        LLVMValueRef place = key_word(e, b->arguments[ARG_KEPT], i), old = LLVMBuildLoad2(e->builder, e->i64, place, "");
        same = LLVMBuildAnd(e->builder, same, LLVMBuildICmp(e->builder, LLVMIntEQ, old, words[i], ""), "");
        LLVMBuildStore(e->builder, words[i], place);
    }
    return same;
}

static int block_steps(const Blocks *b) {
    return CONTRACT_KC * b->blocking->group;
}

static void pack_a(const Blocks *b, LLVMValueRef k, LLVMValueRef steps) {
    pack_panels(b, &b->pack_a, ARG_A, b->packed_a, b->row_panels, b->blocking->mr, k, steps, block_steps(b));
}

static void pack_b(const Blocks *b, LLVMValueRef k, LLVMValueRef steps) {
    pack_panels(b, &b->pack_b, ARG_B, b->packed_b, b->column_panels, b->blocking->nr, k, steps, PACK_CHUNK);
}

/* Packs the kept factor's block where its slot does not hold it. */
static void pack_kept(Blocks *b, LLVMValueRef block, LLVMValueRef k, LLVMValueRef steps) {
    Emitter *e = b->e;
    bool is_a = b->kept_factor == 0;
    LLVMValueRef last = LLVMBuildSub(e->builder, b->arguments[ARG_SLOTS], emit_int_const(e, 1), "");
    LLVMValueRef panel_count = is_a ? b->row_panels : b->column_panels;
    LLVMValueRef size = times(e, panel_count, (int64_t)(is_a ? b->blocking->mr : b->blocking->nr) * CONTRACT_KC * b->blocking->size);
    LLVMValueRef offset = LLVMBuildMul(e->builder, emit_min(e, block, last), LLVMBuildAdd(e->builder, size, emit_int_const(e, PART_ALIGN), ""), "");
    LLVMValueRef slot = part_address(e, b->arguments[ARG_KEPT], LLVMBuildAdd(e->builder, offset, emit_int_const(e, KEY_BYTES), ""));
    *(is_a ? &b->packed_a : &b->packed_b) = slot;
    LLVMValueRef is_there = LLVMBuildAnd(e->builder, b->same, LLVMBuildICmp(e->builder, LLVMIntSLT, block, last, ""), "");
    LLVMBasicBlockRef pack = block_append(e, "pack"), packed = block_append(e, "packed");
    LLVMBuildCondBr(e->builder, is_there, packed, pack);
    LLVMPositionBuilderAtEnd(e->builder, pack);
    (is_a ? pack_a : pack_b)(b, k, steps);
    LLVMBuildBr(e->builder, packed);
    LLVMPositionBuilderAtEnd(e->builder, packed);
}

static void run_blocks(Blocks *b) {
    Emitter *e = b->e;
    LLVMValueRef zero = emit_int_const(e, 0), length = b->arguments[ARG_K];
    Loop blocks = loop_begin(e, zero, panels(e, length, block_steps(b)));
    LLVMValueRef k = times(e, blocks.index, block_steps(b));
    LLVMValueRef steps = emit_min(e, emit_int_const(e, block_steps(b)), LLVMBuildSub(e->builder, length, k, ""));
    if (b->kept_factor >= 0)
        pack_kept(b, blocks.index, k, steps);
    if (b->kept_factor != 1)
        pack_b(b, k, steps);
    if (b->kept_factor != 0)
        pack_a(b, k, steps);
    Loop column = loop_begin(e, zero, b->column_panels);
    Loop row = loop_begin(e, zero, b->row_panels);
    multiply_block(b, row.index, column.index, panels(e, steps, b->blocking->group));
    loop_end(e, &row, LOOP_SCALAR);
    loop_end(e, &column, LOOP_SCALAR);
    loop_end(e, &blocks, LOOP_SCALAR);
}

static PartFunction contract_function(Emitter *e, const Blocking *blocking, PhbDType a, PhbDType b, int kept_factor) {
    Blocks blocks = {.e = e,
        .blocking = blocking,
        .kept_factor = kept_factor,
        .kernel = contract_kernel(e, blocking),
        .pack_a = contract_pack(e, blocking, a, blocking->mr),
        .pack_b = contract_pack(e, blocking, b, blocking->nr)};
    static const char *const kept[] = {"", ".a", ".b"};
    const char *name = arena_printf(e->context->arena, "contract.%s.%s.%s.%dx%d%s.%s", dtype_name(a), dtype_name(b), dtype_name(blocking->dtype),
        blocking->mr, blocking->nr, kept[kept_factor + 1], e->level->name);
    LLVMTypeRef parameters[ARG_COUNT];
    for (int i = 0; i < ARG_COUNT; i++)
        parameters[i] = i == ARG_A || i == ARG_B || i == ARG_C || i == ARG_SCRATCH || i == ARG_KEPT ? e->ptr : e->i64;
    PartFunction part;
    if (part_begin(e, name, parameters, ARG_COUNT, &part))
        return part;
    LLVMGetParams(part.function, blocks.arguments);
    blocks.row_panels = panels(e, blocks.arguments[ARG_ROWS], blocking->mr);
    blocks.column_panels = panels(e, blocks.arguments[ARG_COLUMNS], blocking->nr);
    int64_t block = (int64_t)blocking->mr * blocking->nr * blocking->size;
    blocks.corner = blocks.arguments[ARG_SCRATCH];
    blocks.packed_b = part_address(e, blocks.corner, emit_int_const(e, (block + PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN));
    /* One vector more: what packing may write beyond a panel's end. */
    blocks.packed_a = part_address(e, panel_address(&blocks, blocks.packed_b, blocks.column_panels, blocking->nr), emit_int_const(e, PART_ALIGN));
    if (kept_factor >= 0)
        blocks.same = match_key(&blocks, part.function);
    run_blocks(&blocks);
    LLVMBuildRetVoid(e->builder);
    part_end(e, &part);
    return part;
}

static void put_operand(const ContractOperand *operand, LLVMValueRef *arguments) {
    arguments[0] = operand->start;
    for (int axis = 0; axis < 2; axis++) {
        arguments[1 + axis] = operand->stride[axis];
        arguments[3 + 2 * axis] = operand->low[axis];
        arguments[4 + 2 * axis] = operand->high[axis];
    }
}

void emit_contract(Emitter *e, const Contraction *contraction) {
    Blocking blocking = choose_blocking(e, contraction->dtype, contraction->rows, contraction->columns);
    int kept_factor = contraction->kept ? contraction->kept_factor : -1;
    PartFunction function = contract_function(e, &blocking, contraction->a.dtype, contraction->b.dtype, kept_factor);
    LLVMValueRef arguments[ARG_COUNT] = {[ARG_K] = contraction->k, [ARG_C] = contraction->c, [ARG_SCRATCH] = contraction->scratch};
    int64_t kept_count = kept_factor == 1 ? contraction->columns : contraction->rows;
    arguments[ARG_KEPT] = contraction->kept ? contraction->kept : LLVMConstNull(e->ptr);
    arguments[ARG_SLOTS] = emit_int_const(e, kept_slots(contraction->dtype, kept_count));
    put_operand(&contraction->a, &arguments[ARG_A]);
    put_operand(&contraction->b, &arguments[ARG_B]);
    arguments[ARG_ROWS] = contraction->used[0] ? contraction->used[0] : emit_int_const(e, contraction->rows);
    arguments[ARG_COLUMNS] = contraction->used[1] ? contraction->used[1] : emit_int_const(e, contraction->columns);
    arguments[ARG_PITCH] = emit_int_const(e, contraction->columns * blocking.size);
    part_call(e, &function, arguments, ARG_COUNT);
}
