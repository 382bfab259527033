/* Packing: `width` rows of A (columns of B) of a block of k go side by side, one step of k after the other, widened to C's type; what does not exist
 * becomes 0. A panel whose rows all exist is read by vectors where one of its strides is the element's size; the others an element at a time. */
#include "compiler/codegen/host/contract_part.h"
#include "compiler/codegen/host/host.h"

#include <string.h>

/* ---- elements and vectors of them ---- */

static LLVMTypeRef stored_type(const Pack *pack, int count) {
    LLVMTypeRef type = memory_type(pack->e, pack->from);
    return count == 1 ? type : LLVMVectorType(type, (unsigned)count);
}

/* `count` elements as memory holds them, in C's type. Vectors of f16 need F16C. */
static LLVMValueRef widen(const Pack *pack, LLVMValueRef stored, int count) {
    Emitter *e = pack->e;
    LLVMTypeRef type = contract_vector(e, pack->blocking->dtype, count);
    LLVMTypeRef ints = count == 1 ? e->i32 : LLVMVectorType(e->i32, (unsigned)count);
    switch (pack->from) {
    case PHB_F16:
        if (count == 1)
            return value_from_memory(e, PHB_F16, stored);
        return LLVMBuildFPExt(e->builder, LLVMBuildBitCast(e->builder, stored, LLVMVectorType(e->f16, (unsigned)count), ""), type, "");
    case PHB_BF16: {
        LLVMValueRef sixteen = LLVMConstInt(e->i32, 16, false), shifts[PACK_MAX_VECTOR];
        for (int i = 0; i < count; i++)
            shifts[i] = sixteen;
        LLVMValueRef wide = LLVMBuildZExt(e->builder, stored, ints, "");
        return LLVMBuildBitCast(
            e->builder, LLVMBuildShl(e->builder, wide, count == 1 ? sixteen : LLVMConstVector(shifts, (unsigned)count), ""), type, "");
    }
    default:
        return stored;
    }
}

LLVMValueRef pack_source(const Pack *pack, LLVMValueRef w, LLVMValueRef k) {
    LLVMBuilderRef builder = pack->e->builder;
    LLVMValueRef by_w = LLVMBuildMul(builder, w, pack->arguments[PACK_STRIDE_W], "");
    LLVMValueRef by_k = LLVMBuildMul(builder, k, pack->arguments[PACK_STRIDE_K], "");
    return part_address(pack->e, pack->arguments[PACK_START], LLVMBuildAdd(builder, by_w, by_k, ""));
}

static LLVMValueRef load_vector(const Pack *pack, LLVMValueRef address, int count) {
    LLVMValueRef stored = LLVMBuildLoad2(pack->e->builder, stored_type(pack, count), address, "");
    LLVMSetAlignment(stored, (unsigned)dtype_bits(pack->from) / 8);
    return widen(pack, stored, count);
}

/* Where step `k` of the block lies in the panel. */
static LLVMValueRef target_address(const Pack *pack, LLVMValueRef k, int64_t w) {
    Emitter *e = pack->e;
    LLVMValueRef step = LLVMBuildSub(e->builder, k, pack->arguments[PACK_K], "");
    LLVMValueRef bytes = LLVMBuildMul(e->builder, step, emit_int_const(e, (int64_t)pack->width * pack->blocking->size), "");
    return part_address(e, pack->arguments[PACK_TO], LLVMBuildAdd(e->builder, bytes, emit_int_const(e, w * pack->blocking->size), ""));
}

static void store_packed(const Pack *pack, LLVMValueRef value, LLVMValueRef address) {
    LLVMSetAlignment(LLVMBuildStore(pack->e->builder, value, address), (unsigned)pack->blocking->size);
}

/* ---- whole panels ---- */

/* Steps [first, last): `width` neighbours in memory. */
static void copy_steps(const Pack *pack, LLVMValueRef first, LLVMValueRef last) {
    Emitter *e = pack->e;
    Loop steps = loop_begin(e, first, last);
    LLVMValueRef address = pack_source(pack, pack->arguments[PACK_W], steps.index);
    for (int w = 0; w < pack->width;) {
        int left = pack->width - w, lanes = pack->blocking->lanes;
        while (lanes > left)
            lanes /= 2;
        LLVMValueRef from = part_address(e, address, emit_int_const(e, w * (int64_t)(dtype_bits(pack->from) / 8)));
        store_packed(pack, load_vector(pack, from, lanes), target_address(pack, steps.index, w));
        w += lanes;
    }
    loop_end(e, &steps, LOOP_PLAIN);
}

/* Steps [first, last), an element at a time. */
static void move_steps(const Pack *pack, LLVMValueRef first, LLVMValueRef last) {
    Emitter *e = pack->e;
    Loop steps = loop_begin(e, first, last);
    LLVMValueRef to = target_address(pack, steps.index, 0);
    Loop rows = loop_begin(e, emit_int_const(e, 0), emit_int_const(e, pack->width));
    LLVMValueRef row = LLVMBuildAdd(e->builder, pack->arguments[PACK_W], rows.index, "");
    LLVMValueRef bytes = LLVMBuildMul(e->builder, rows.index, emit_int_const(e, pack->blocking->size), "");
    store_packed(pack, load_vector(pack, pack_source(pack, row, steps.index), 1), part_address(e, to, bytes));
    loop_end(e, &rows, LOOP_SCALAR);
    loop_end(e, &steps, LOOP_SCALAR);
}

static LLVMValueRef shuffle(Emitter *e, LLVMValueRef a, LLVMValueRef b, const int *from, int count) {
    LLVMValueRef mask[PACK_MAX_VECTOR];
    for (int i = 0; i < count; i++)
        mask[i] = LLVMConstInt(e->i32, (unsigned)from[i], false);
    return LLVMBuildShuffleVector(e->builder, a, b, LLVMConstVector(mask, (unsigned)count), "");
}

/* Of groups of `unit` elements: even (odd 0) or odd ones (1) of a, then of b. */
static LLVMValueRef pick_alternate(Emitter *e, LLVMValueRef a, LLVMValueRef b, int count, int unit, int odd) {
    int from[PACK_MAX_VECTOR], groups = count / unit;
    for (int g = 0; g < groups; g++) {
        int source = g < groups / 2 ? 2 * g + odd : groups + 2 * (g - groups / 2) + odd;
        for (int i = 0; i < unit; i++)
            from[g * unit + i] = source * unit + i;
    }
    return shuffle(e, a, b, from, count);
}

/* The machine's unpack: in each 16 bytes, groups of `unit` elements of the lower (high 0) or upper half of a and b in turns. */
static LLVMValueRef unpack(Emitter *e, LLVMValueRef a, LLVMValueRef b, int count, int lane, int unit, int high) {
    int from[PACK_MAX_VECTOR];
    for (int start = 0; start < count; start += lane)
        for (int i = 0; i < lane; i++) {
            int group = i / unit;
            from[start + i] = start + high * lane / 2 + group / 2 * unit + i % unit + (group % 2 ? count : 0);
        }
    return shuffle(e, a, b, from, count);
}

/* First inside of lanes of 16 bytes, then the lanes. */
void pack_transpose(Emitter *e, LLVMValueRef *rows, int count, int size) {
    int lane = 16 / size, lanes = count / lane;
    LLVMValueRef next[PACK_MAX_VECTOR];
    for (int unit = 1; unit < lane; unit *= 2) {
        /* After it, row group + c has in lane l the column l * lane + c of the group's 2 * unit rows, for as many c as rows. */
        for (int group = 0; group < count; group += 2 * unit)
            for (int c = 0; c < unit; c++)
                for (int high = 0; high < 2; high++)
                    next[group + 2 * c + high] = unpack(e, rows[group + c], rows[group + unit + c], count, lane, unit, high);
        memcpy(rows, next, sizeof *rows * (size_t)count);
    }
    for (int c = 0; c < lane; c++) {
        LLVMValueRef column[PACK_MAX_VECTOR];
        for (int l = 0; l < lanes; l++)
            column[l] = rows[l * lane + c];
        for (int step = 1; step < lanes; step *= 2) {
            for (int group = 0; group < lanes; group += 2 * step)
                for (int i = 0; i < step; i++)
                    for (int odd = 0; odd < 2; odd++)
                        next[group + i + odd * step] = pick_alternate(e, column[group + i], column[group + step + i], count, lane, odd);
            memcpy(column, next, sizeof *column * (size_t)lanes);
        }
        for (int l = 0; l < lanes; l++)
            rows[l * lane + c] = column[l];
    }
}

int pack_transposed_rows(const Pack *pack) {
    int rows = 16 / pack->blocking->size;
    while (rows < pack->width && rows < pack->blocking->lanes)
        rows *= 2;
    return rows;
}

/* Steps [first, last) by whole transpositions; gives the first step that is left. */
static LLVMValueRef transpose_steps(const Pack *pack, LLVMValueRef first, LLVMValueRef last) {
    Emitter *e = pack->e;
    int rows = pack_transposed_rows(pack);
    LLVMValueRef side = emit_int_const(e, rows);
    LLVMValueRef blocks = LLVMBuildSDiv(e->builder, LLVMBuildSub(e->builder, last, first, ""), side, "");
    Loop loop = loop_begin(e, emit_int_const(e, 0), blocks);
    LLVMValueRef k = LLVMBuildAdd(e->builder, first, LLVMBuildMul(e->builder, loop.index, side, ""), "");
    LLVMValueRef vectors[PACK_MAX_VECTOR];
    for (int w = 0; w < pack->width; w += rows) {
        for (int r = 0; r < rows; r++) {
            LLVMValueRef row = LLVMBuildAdd(e->builder, pack->arguments[PACK_W], emit_int_const(e, w + r), "");
            vectors[w + r] = w + r < pack->width ? load_vector(pack, pack_source(pack, row, k), rows)
                                                 : LLVMConstNull(contract_vector(e, pack->blocking->dtype, rows));
        }
        pack_transpose(e, &vectors[w], rows, pack->blocking->size);
    }
    for (int r = 0; r < rows; r++)
        for (int w = 0; w < pack->width; w += rows)
            store_packed(pack, vectors[w + r], target_address(pack, LLVMBuildAdd(e->builder, k, emit_int_const(e, r), ""), w));
    loop_end(e, &loop, LOOP_SCALAR);
    return LLVMBuildAdd(e->builder, first, LLVMBuildMul(e->builder, blocks, side, ""), "");
}

static void pack_whole(const Pack *pack, LLVMValueRef first, LLVMValueRef last) {
    Emitter *e = pack->e;
    bool by_vectors = pack->from != PHB_F16 || e->level->has_f16c;
    LLVMBasicBlockRef copy = block_append(e, "copy"), across = block_append(e, "across"), move = block_append(e, "move");
    LLVMBasicBlockRef done = block_append(e, "done");
    LLVMValueRef size = emit_int_const(e, dtype_bits(pack->from) / 8), left = first;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(e->builder), transposed = NULL;
    if (by_vectors) {
        LLVMBasicBlockRef not_beside = block_append(e, "not_beside");
        LLVMBuildCondBr(e->builder, LLVMBuildICmp(e->builder, LLVMIntEQ, pack->arguments[PACK_STRIDE_W], size, ""), copy, not_beside);
        LLVMPositionBuilderAtEnd(e->builder, not_beside);
        before = not_beside;
        LLVMBuildCondBr(e->builder, LLVMBuildICmp(e->builder, LLVMIntEQ, pack->arguments[PACK_STRIDE_K], size, ""), across, move);
        LLVMPositionBuilderAtEnd(e->builder, copy);
        copy_steps(pack, first, last);
        LLVMBuildBr(e->builder, done);
        LLVMPositionBuilderAtEnd(e->builder, across);
        left = transpose_steps(pack, first, last);
        transposed = LLVMGetInsertBlock(e->builder);
        LLVMBuildBr(e->builder, move);
    } else {
        LLVMBuildBr(e->builder, move);
        LLVMDeleteBasicBlock(copy);
        LLVMDeleteBasicBlock(across);
    }
    LLVMPositionBuilderAtEnd(e->builder, move);
    LLVMValueRef from = LLVMBuildPhi(e->builder, e->i64, "");
    LLVMAddIncoming(from, &first, &before, 1);
    if (transposed)
        LLVMAddIncoming(from, &left, &transposed, 1);
    move_steps(pack, from, last);
    LLVMBuildBr(e->builder, done);
    LLVMPositionBuilderAtEnd(e->builder, done);
}

/* ---- the rest ---- */

static void clear_steps(const Pack *pack, LLVMValueRef first, LLVMValueRef last) {
    Emitter *e = pack->e;
    LLVMValueRef steps = LLVMBuildSub(e->builder, last, first, "");
    LLVMValueRef bytes = LLVMBuildMul(e->builder, steps, emit_int_const(e, (int64_t)pack->width * pack->blocking->size), "");
    LLVMBuildMemSet(e->builder, target_address(pack, first, 0), LLVMConstNull(e->i8), bytes, (unsigned)pack->blocking->size);
}

/* Steps that exist of a panel that runs over an edge: rows [low, high) of it exist. */
static void pack_edge(const Pack *pack, LLVMValueRef first, LLVMValueRef last) {
    Emitter *e = pack->e;
    clear_steps(pack, first, last);
    LLVMValueRef start = pack->arguments[PACK_W], end = LLVMBuildAdd(e->builder, start, emit_int_const(e, pack->width), "");
    LLVMValueRef low = emit_max(e, start, pack->arguments[PACK_LOW_W]), high = emit_min(e, end, pack->arguments[PACK_HIGH_W]);
    Loop rows = loop_begin(e, low, high);
    LLVMValueRef bytes = LLVMBuildMul(e->builder, LLVMBuildSub(e->builder, rows.index, start, ""), emit_int_const(e, pack->blocking->size), "");
    Loop steps = loop_begin(e, first, last);
    LLVMValueRef to = part_address(e, target_address(pack, steps.index, 0), bytes);
    store_packed(pack, load_vector(pack, pack_source(pack, rows.index, steps.index), 1), to);
    loop_end(e, &steps, LOOP_SCALAR);
    loop_end(e, &rows, LOOP_SCALAR);
}

PartFunction contract_pack(Emitter *e, const Blocking *blocking, PhbDType from, int width) {
    const char *name =
        arena_printf(e->context->arena, "contract.pack.%s.%s.%d.%s", dtype_name(from), dtype_name(blocking->dtype), width, e->level->name);
    LLVMTypeRef parameters[PACK_ARGUMENTS];
    for (int i = 0; i < PACK_ARGUMENTS; i++)
        parameters[i] = i == PACK_TO || i == PACK_START ? e->ptr : e->i64;
    PartFunction part;
    if (part_begin(e, name, parameters, PACK_ARGUMENTS, &part))
        return part;
    Pack pack = {.e = e, .blocking = blocking, .from = from, .width = width};
    LLVMGetParams(part.function, pack.arguments);
    LLVMBuilderRef builder = e->builder;
    LLVMValueRef begin = pack.arguments[PACK_K], end = LLVMBuildAdd(builder, begin, pack.arguments[PACK_COUNT], "");
    LLVMValueRef first = emit_min(e, emit_max(e, begin, pack.arguments[PACK_LOW_K]), end);
    LLVMValueRef last = emit_max(e, emit_min(e, end, pack.arguments[PACK_HIGH_K]), first);
    LLVMValueRef w = pack.arguments[PACK_W], w_end = LLVMBuildAdd(builder, w, emit_int_const(e, width), "");
    LLVMValueRef whole = LLVMBuildAnd(builder, LLVMBuildICmp(builder, LLVMIntSLE, pack.arguments[PACK_LOW_W], w, ""),
        LLVMBuildICmp(builder, LLVMIntSLE, w_end, pack.arguments[PACK_HIGH_W], ""), "");
    if (blocking->group > 1) {
        pack_pairs(&pack, first, last, whole);
        LLVMBuildRetVoid(builder);
        part_end(e, &part);
        return part;
    }
    clear_steps(&pack, begin, first);
    LLVMBasicBlockRef all = block_append(e, "all"), edge = block_append(e, "edge"), rest = block_append(e, "rest");
    LLVMBuildCondBr(builder, whole, all, edge);
    LLVMPositionBuilderAtEnd(builder, all);
    pack_whole(&pack, first, last);
    LLVMBuildBr(builder, rest);
    LLVMPositionBuilderAtEnd(builder, edge);
    pack_edge(&pack, first, last);
    LLVMBuildBr(builder, rest);
    LLVMPositionBuilderAtEnd(builder, rest);
    clear_steps(&pack, last, end);
    LLVMBuildRetVoid(builder);
    part_end(e, &part);
    return part;
}
