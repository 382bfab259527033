/* Packing bytes: a packed element is a pair of steps of k, each widened to 16 bits, the even step in the lower ones. A panel whose rows all exist is
 * read by vectors where one of its strides is a byte; what vectors do not fill is filled an element at a time. What does not exist is cleared before.
 */
#include "compiler/codegen/host/contract_part.h"
#include "compiler/codegen/host/host.h"

/* Bytes as integers of `bits` bits. */
static LLVMValueRef widen(const Pack *pack, LLVMValueRef bytes, unsigned bits, int count) {
    Emitter *e = pack->e;
    LLVMTypeRef type = LLVMIntTypeInContext(e->llvm, bits);
    if (count > 1)
        type = LLVMVectorType(type, (unsigned)count);
    return pack->from == PHB_I8 ? LLVMBuildSExt(e->builder, bytes, type, "") : LLVMBuildZExt(e->builder, bytes, type, "");
}

static LLVMValueRef load_bytes(const Pack *pack, LLVMValueRef address, int count) {
    LLVMTypeRef type = count > 1 ? LLVMVectorType(pack->e->i8, (unsigned)count) : pack->e->i8;
    LLVMValueRef bytes = LLVMBuildLoad2(pack->e->builder, type, address, "");
    LLVMSetAlignment(bytes, 1);
    return bytes;
}

/* Of the pair that step k is in, at row or column w of the panel. */
static LLVMValueRef pair_address(const Pack *pack, LLVMValueRef k, LLVMValueRef w) {
    Emitter *e = pack->e;
    LLVMValueRef pair = LLVMBuildLShr(e->builder, LLVMBuildSub(e->builder, k, pack->arguments[PACK_K], ""), emit_int_const(e, 1), "");
    LLVMValueRef index = LLVMBuildAdd(e->builder, LLVMBuildMul(e->builder, pair, emit_int_const(e, pack->width), ""), w, "");
    return part_address(e, pack->arguments[PACK_TO], LLVMBuildMul(e->builder, index, emit_int_const(e, pack->blocking->size), ""));
}

static void store_pairs(const Pack *pack, LLVMValueRef value, LLVMValueRef address) {
    LLVMSetAlignment(LLVMBuildStore(pack->e->builder, value, address), (unsigned)pack->blocking->size);
}

/* Rows or columns [low, high) of the tensor, steps [first, last), an element at a time. */
static void move_elements(const Pack *pack, LLVMValueRef low, LLVMValueRef high, LLVMValueRef first, LLVMValueRef last) {
    Emitter *e = pack->e;
    LLVMValueRef one = emit_int_const(e, 1);
    Loop steps = loop_begin(e, first, last);
    LLVMValueRef step = LLVMBuildSub(e->builder, steps.index, pack->arguments[PACK_K], "");
    LLVMValueRef half = LLVMBuildShl(e->builder, LLVMBuildAnd(e->builder, step, one, ""), one, ""); /* in bytes */
    Loop rows = loop_begin(e, low, high);
    LLVMValueRef value = widen(pack, load_bytes(pack, pack_source(pack, rows.index, steps.index), 1), 16, 1);
    LLVMValueRef w = LLVMBuildSub(e->builder, rows.index, pack->arguments[PACK_W], "");
    LLVMSetAlignment(LLVMBuildStore(e->builder, value, part_address(e, pair_address(pack, steps.index, w), half)), 2);
    loop_end(e, &rows, LOOP_SCALAR);
    loop_end(e, &steps, LOOP_SCALAR);
}

static LLVMValueRef splat_i32(Emitter *e, uint32_t value, int count) {
    LLVMValueRef all[PACK_MAX_VECTOR];
    for (int i = 0; i < count; i++)
        all[i] = LLVMConstInt(e->i32, value, false);
    return count > 1 ? LLVMConstVector(all, (unsigned)count) : all[0];
}

/* `count` pairs that begin at step first: `width` neighbours in memory, of two steps at a time. */
static void copy_pairs(const Pack *pack, LLVMValueRef first, LLVMValueRef count) {
    Emitter *e = pack->e;
    LLVMBuilderRef builder = e->builder;
    Loop pairs = loop_begin(e, emit_int_const(e, 0), count);
    LLVMValueRef k[2];
    k[0] = LLVMBuildAdd(builder, first, LLVMBuildShl(builder, pairs.index, emit_int_const(e, 1), ""), "");
    k[1] = LLVMBuildAdd(builder, k[0], emit_int_const(e, 1), "");
    for (int w = 0, lanes = pack->blocking->lanes; w < pack->width; w += lanes) {
        while (lanes > pack->width - w)
            lanes /= 2;
        LLVMValueRef halves[2];
        for (int h = 0; h < 2; h++) {
            LLVMValueRef from = part_address(e, pack_source(pack, pack->arguments[PACK_W], k[h]), emit_int_const(e, w));
            halves[h] = widen(pack, load_bytes(pack, from, lanes), 32, lanes);
        }
        LLVMValueRef low = LLVMBuildAnd(builder, halves[0], splat_i32(e, 0xffff, lanes), "");
        LLVMValueRef high = LLVMBuildShl(builder, halves[1], splat_i32(e, 16, lanes), "");
        store_pairs(pack, LLVMBuildOr(builder, low, high, ""), pair_address(pack, k[0], emit_int_const(e, w)));
    }
    loop_end(e, &pairs, LOOP_SCALAR);
}

/* As many of `count` pairs as whole transpositions take: neighbours in memory along k. Gives how many they were. */
static LLVMValueRef transpose_pairs(const Pack *pack, LLVMValueRef first, LLVMValueRef count) {
    Emitter *e = pack->e;
    LLVMBuilderRef builder = e->builder;
    int rows = pack_transposed_rows(pack);
    LLVMTypeRef type = LLVMVectorType(e->i32, (unsigned)rows);
    LLVMValueRef blocks = LLVMBuildSDiv(builder, count, emit_int_const(e, rows), "");
    Loop loop = loop_begin(e, emit_int_const(e, 0), blocks);
    LLVMValueRef k = LLVMBuildAdd(builder, first, LLVMBuildMul(builder, loop.index, emit_int_const(e, 2 * rows), ""), "");
    LLVMValueRef vectors[PACK_MAX_VECTOR];
    for (int w = 0; w < pack->width; w += rows) {
        for (int r = 0; r < rows; r++) {
            vectors[w + r] = LLVMConstNull(type);
            if (w + r >= pack->width)
                continue;
            LLVMValueRef row = LLVMBuildAdd(builder, pack->arguments[PACK_W], emit_int_const(e, w + r), "");
            LLVMValueRef bytes = load_bytes(pack, pack_source(pack, row, k), 2 * rows);
            vectors[w + r] = LLVMBuildBitCast(builder, widen(pack, bytes, 16, 2 * rows), type, "");
        }
        pack_transpose(e, &vectors[w], rows, pack->blocking->size);
    }
    for (int r = 0; r < rows; r++)
        for (int w = 0; w < pack->width; w += rows)
            store_pairs(pack, vectors[w + r], pair_address(pack, LLVMBuildAdd(builder, k, emit_int_const(e, 2 * r), ""), emit_int_const(e, w)));
    loop_end(e, &loop, LOOP_SCALAR);
    return LLVMBuildMul(builder, blocks, emit_int_const(e, rows), "");
}

/* Pairs that vectors fill, from step `first` on, of a panel whose rows all exist: how many. */
static LLVMValueRef pack_vectors(const Pack *pack, LLVMValueRef first, LLVMValueRef count) {
    Emitter *e = pack->e;
    LLVMValueRef byte = emit_int_const(e, 1), zero = emit_int_const(e, 0);
    LLVMBasicBlockRef copy = block_append(e, "copy"), not_beside = block_append(e, "not_beside"), across = block_append(e, "across"),
                      done = block_append(e, "done"), from[3];
    LLVMBuildCondBr(e->builder, LLVMBuildICmp(e->builder, LLVMIntEQ, pack->arguments[PACK_STRIDE_W], byte, ""), copy, not_beside);
    LLVMPositionBuilderAtEnd(e->builder, not_beside);
    from[0] = not_beside;
    LLVMBuildCondBr(e->builder, LLVMBuildICmp(e->builder, LLVMIntEQ, pack->arguments[PACK_STRIDE_K], byte, ""), across, done);
    LLVMPositionBuilderAtEnd(e->builder, copy);
    copy_pairs(pack, first, count);
    from[1] = LLVMGetInsertBlock(e->builder);
    LLVMBuildBr(e->builder, done);
    LLVMPositionBuilderAtEnd(e->builder, across);
    LLVMValueRef transposed = transpose_pairs(pack, first, count);
    from[2] = LLVMGetInsertBlock(e->builder);
    LLVMBuildBr(e->builder, done);
    LLVMPositionBuilderAtEnd(e->builder, done);
    LLVMValueRef filled = LLVMBuildPhi(e->builder, e->i64, "");
    LLVMAddIncoming(filled, (LLVMValueRef[]){zero, count, transposed}, from, 3);
    return filled;
}

void pack_pairs(const Pack *pack, LLVMValueRef first, LLVMValueRef last, LLVMValueRef whole) {
    Emitter *e = pack->e;
    LLVMBuilderRef builder = e->builder;
    LLVMValueRef one = emit_int_const(e, 1), begin = pack->arguments[PACK_K], w = pack->arguments[PACK_W];
    LLVMValueRef w_end = LLVMBuildAdd(builder, w, emit_int_const(e, pack->width), "");
    LLVMValueRef count = pack->arguments[PACK_COUNT],
                 by_vectors = LLVMBuildAnd(builder, whole, LLVMBuildICmp(builder, LLVMIntEQ, first, begin, ""), "");
    LLVMValueRef to_end = LLVMBuildICmp(builder, LLVMIntEQ, last, LLVMBuildAdd(builder, begin, count, ""), "");
    LLVMValueRef even = LLVMBuildICmp(builder, LLVMIntEQ, LLVMBuildAnd(builder, count, one, ""), emit_int_const(e, 0), "");
    LLVMBasicBlockRef clear = block_append(e, "clear"), fill = block_append(e, "fill"), vectors = block_append(e, "vectors"),
                      rest = block_append(e, "rest");
    LLVMBuildCondBr(builder, LLVMBuildAnd(builder, by_vectors, LLVMBuildAnd(builder, to_end, even, ""), ""), fill, clear);

    LLVMPositionBuilderAtEnd(builder, clear);
    LLVMValueRef pairs = LLVMBuildLShr(builder, LLVMBuildAdd(builder, count, one, ""), one, "");
    LLVMValueRef bytes = LLVMBuildMul(builder, pairs, emit_int_const(e, (int64_t)pack->width * pack->blocking->size), "");
    LLVMBuildMemSet(builder, pack->arguments[PACK_TO], LLVMConstNull(e->i8), bytes, (unsigned)pack->blocking->size);
    LLVMBuildBr(builder, fill);

    LLVMPositionBuilderAtEnd(builder, fill);
    LLVMBasicBlockRef before = fill;
    LLVMBuildCondBr(builder, by_vectors, vectors, rest);

    LLVMPositionBuilderAtEnd(builder, vectors);
    LLVMValueRef filled = pack_vectors(pack, first, LLVMBuildLShr(builder, LLVMBuildSub(builder, last, first, ""), one, ""));
    LLVMValueRef next = LLVMBuildAdd(builder, first, LLVMBuildShl(builder, filled, one, ""), "");
    LLVMBasicBlockRef after = LLVMGetInsertBlock(builder);
    LLVMBuildBr(builder, rest);

    LLVMPositionBuilderAtEnd(builder, rest);
    LLVMValueRef left = LLVMBuildPhi(builder, e->i64, "");
    LLVMAddIncoming(left, (LLVMValueRef[]){first, next}, (LLVMBasicBlockRef[]){before, after}, 2);
    LLVMValueRef low = emit_max(e, w, pack->arguments[PACK_LOW_W]), high = emit_min(e, w_end, pack->arguments[PACK_HIGH_W]);
    move_elements(pack, low, high, left, last);
}
