/* Products by matrix instructions of a warp: 16 rows by 8 columns, 32 bytes along k a step. Factors in shared memory are read by ldmatrix, the second
 * one transposed on the way where its rows run along k; a first factor that is laid out like an accumulator is packed as it is. */
#include "compiler/codegen/simt/simt.h"

#include "compiler/layout/layout.h"

enum { STEP_BYTES = 32, BLOCK_ROWS = 16, BLOCK_COLUMNS = 8, CHUNK_BYTES = 16, MOST_UNROLLED = 8, MOST_BLOCKS = 1 << LAYOUT_REGISTERS };

typedef struct Mma {
    Simt *s;
    const IrOp *op;
    const Type *type; /* of the accumulator */
    SimtMma shape;
    int step;                                        /* elements along k */
    int rows, columns;                               /* blocks a warp, */
    int row_at[MOST_BLOCKS], column_at[MOST_BLOCKS]; /* and where they are, counted from the warp's */
} Mma;

static void add_block(int *blocks, int *count, int at) {
    for (int i = 0; i < *count; i++)
        if (blocks[i] == at)
            return;
    blocks[(*count)++] = at;
}

static void find_blocks(Mma *m) {
    const Layout *layout = m->type->layout;
    for (int i = 0; i < 1 << layout->registers; i++) {
        add_block(m->row_at, &m->rows, layout_register_at(layout, i, 0) & -BLOCK_ROWS);
        add_block(m->column_at, &m->columns, layout_register_at(layout, i, 1) & -BLOCK_COLUMNS);
    }
}

/* ---- factors in shared memory ---- */

/* Where this lane's row of an ldmatrix begins: lane % 8 rows down, and 8 rows or 16 bytes further for the second and third bit of lane / 8. */
static LLVMValueRef lane_address(const Mma *m, const IrValue *factor, int row_bit, int chunk_bit) {
    Simt *s = m->s;
    LLVMBuilderRef builder = s->e->builder;
    int64_t pitch = layout_pitch(factor->type);
    LLVMValueRef row = LLVMBuildAnd(builder, s->lane, simt_int(s, 7), "");
    LLVMValueRef second = LLVMBuildAnd(builder, LLVMBuildLShr(builder, s->lane, simt_int(s, row_bit), ""), simt_int(s, 1), "");
    LLVMValueRef chunk = LLVMBuildAnd(builder, LLVMBuildLShr(builder, s->lane, simt_int(s, chunk_bit), ""), simt_int(s, 1), "");
    row = LLVMBuildAdd(builder, row, LLVMBuildMul(builder, second, simt_int(s, 8), ""), "");
    LLVMValueRef address =
        LLVMBuildAdd(builder, LLVMBuildMul(builder, row, simt_int(s, pitch), ""), LLVMBuildMul(builder, chunk, simt_int(s, CHUNK_BYTES), ""), "");
    return LLVMBuildAdd(builder, address, simt_staged(s, factor), "");
}

/* Of what `lanes` address for a warp at 0: `outer` (a row or column of the accumulator, by `axis`, counted from the warp's) and `k` further, the
 * factor's rows running along k or not. What is constant is added last. */
static LLVMValueRef factor_address(const Mma *m, const IrValue *factor, LLVMValueRef lanes, int axis, int outer, LLVMValueRef k, bool rows_along_k) {
    Simt *s = m->s;
    LLVMBuilderRef builder = s->e->builder;
    int64_t pitch = layout_pitch(factor->type), size = dtype_bits(factor->type->scalar) / 8;
    int64_t outer_bytes = rows_along_k ? pitch : size, k_bytes = rows_along_k ? size : pitch;
    LLVMValueRef warp = LLVMBuildMul(builder, simt_warp_origin(s, m->type->layout, axis), simt_int(s, outer_bytes), "");
    LLVMValueRef address = LLVMBuildAdd(builder, lanes, warp, ""), along = LLVMBuildMul(builder, k, simt_int(s, k_bytes), "");
    LLVMValueRef offset = simt_int(s, outer * outer_bytes);
    if (LLVMIsConstant(along))
        offset = LLVMBuildAdd(builder, offset, along, "");
    else
        address = LLVMBuildAdd(builder, address, along, "");
    return LLVMBuildAdd(builder, address, offset, "");
}

static void load_first(const Mma *m, int block, LLVMValueRef k, LLVMValueRef a[4]) {
    Simt *s = m->s;
    const IrValue *factor = m->op->operands.items[0];
    LLVMValueRef address = factor_address(m, factor, lane_address(m, factor, 3, 4), 0, m->row_at[block], k, true);
    s->target->ldmatrix(s, address, 4, false, a, m->op->span);
}

/* Four-byte elements whose rows do not run along k: ldmatrix would turn halves of them. */
static void gather_second(const Mma *m, int block, LLVMValueRef k, LLVMValueRef b[2]) {
    Simt *s = m->s;
    LLVMBuilderRef builder = s->e->builder;
    const IrValue *factor = m->op->operands.items[1];
    int64_t pitch = layout_pitch(factor->type);
    LLVMValueRef row = LLVMBuildAnd(builder, s->lane, simt_int(s, 3), ""), column = LLVMBuildLShr(builder, s->lane, simt_int(s, 2), "");
    LLVMValueRef lanes = LLVMBuildAdd(
        builder, LLVMBuildMul(builder, row, simt_int(s, pitch), ""), LLVMBuildMul(builder, column, simt_int(s, STEP_BYTES / m->step), ""), "");
    lanes = LLVMBuildAdd(builder, lanes, simt_staged(s, factor), "");
    LLVMValueRef address = factor_address(m, factor, lanes, 1, m->column_at[block], k, false);
    for (int i = 0; i < 2; i++)
        b[i] = simt_shared_load(s, s->e->i32, LLVMBuildAdd(builder, address, simt_int(s, 4 * pitch * i), ""), 4, NULL, m->op->span);
}

/* Of blocks `block` and `block` + 1, or of one. */
static void load_second(const Mma *m, int block, int count, LLVMValueRef k, LLVMValueRef (*b)[2]) {
    Simt *s = m->s;
    const IrValue *factor = m->op->operands.items[1];
    bool rows_along_k = m->op->kind == OP_MMA_T;
    if (m->shape == MMA_TF32 && !rows_along_k) {
        for (int i = 0; i < count; i++)
            gather_second(m, block + i, k, b[block + i]);
        return;
    }
    LLVMValueRef matrices[4], lanes = rows_along_k ? lane_address(m, factor, 4, 3) : lane_address(m, factor, 3, 4);
    LLVMValueRef address = factor_address(m, factor, lanes, 1, m->column_at[block], k, rows_along_k);
    s->target->ldmatrix(s, address, 2 * count, !rows_along_k, matrices, m->op->span);
    for (int i = 0; i < count; i++) {
        b[block + i][0] = matrices[2 * i];
        b[block + i][1] = matrices[2 * i + 1];
    }
}

/* ---- a first factor in registers ---- */

static LLVMValueRef pack(const Mma *m, const Type *type, LLVMValueRef const *registers, int row, int column) {
    Emitter *e = m->s->e;
    const LLVMValueRef pair[2] = {
        registers[simt_find_register(type->layout, row, column)], registers[simt_find_register(type->layout, row, column + 1)]};
    return LLVMBuildBitCast(e->builder, values_to_memory(e, type->scalar, pair, 2), e->i32, "");
}

static void pack_first(const Mma *m, int block, int k, LLVMValueRef a[4]) {
    const IrValue *factor = m->op->operands.items[0];
    for (int i = 0; i < 4; i++)
        a[i] = pack(m, factor->type, simt_tile(m->s, factor), m->row_at[block] + (i & 1) * 8, k + (i >> 1) * 8);
}

/* ---- steps ---- */

/* `fixed`: k where it is known, else -1. */
static void multiply_step(const Mma *m, LLVMValueRef k, int fixed, LLVMValueRef *sums) {
    Simt *s = m->s;
    const Type *types[2] = {m->op->operands.items[0]->type, m->op->operands.items[1]->type};
    const Layout *layout = m->type->layout;
    LLVMValueRef b[MOST_BLOCKS][2];
    for (int block = 0; block < m->columns; block += 2) {
        bool is_pair = block + 1 < m->columns && m->column_at[block + 1] == m->column_at[block] + BLOCK_COLUMNS;
        load_second(m, block, is_pair ? 2 : 1, k, b);
        block -= !is_pair;
    }
    for (int row = 0; row < m->rows; row++) {
        LLVMValueRef a[4];
        if (types[0]->kind == TYPE_SHARED)
            load_first(m, row, k, a);
        else
            pack_first(m, row, fixed, a);
        for (int column = 0; column < m->columns; column++) {
            int at[4];
            LLVMValueRef c[4], d[4];
            for (int i = 0; i < 4; i++) {
                at[i] = simt_find_register(layout, m->row_at[row] + (i >> 1) * 8, m->column_at[column] + (i & 1));
                c[i] = sums[at[i]];
            }
            s->target->mma(s, m->shape, dtype_is_signed(types[0]->scalar), dtype_is_signed(types[1]->scalar), a, b[column], c, d, m->op->span);
            for (int i = 0; i < 4; i++)
                sums[at[i]] = d[i];
        }
    }
}

static void multiply_loop(const Mma *m, int64_t steps, LLVMValueRef *sums) {
    Simt *s = m->s;
    Emitter *e = s->e;
    int count = simt_count(m->type);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(e->builder);
    Loop loop = loop_begin(e, emit_int_const(e, 0), emit_int_const(e, steps));
    LLVMBasicBlockRef body = LLVMGetInsertBlock(e->builder);
    LLVMValueRef *phis = simt_registers(s, count);
    LLVMPositionBuilderBefore(e->builder, loop.index);
    for (int i = 0; i < count; i++) {
        phis[i] = LLVMBuildPhi(e->builder, LLVMTypeOf(sums[i]), "");
        LLVMAddIncoming(phis[i], &sums[i], &before, 1);
        sums[i] = phis[i];
    }
    LLVMPositionBuilderAtEnd(e->builder, body);
    LLVMValueRef turn = LLVMBuildTrunc(e->builder, loop.index, e->i32, "");
    multiply_step(m, LLVMBuildMul(e->builder, turn, simt_int(s, m->step), ""), -1, sums);
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(e->builder);
    for (int i = 0; i < count; i++) {
        LLVMAddIncoming(phis[i], &sums[i], &latch, 1);
        sums[i] = phis[i];
    }
    loop_end(e, &loop, LOOP_SCALAR);
}

void simt_mma(Simt *s, const IrOp *op) {
    const IrValue *result = op->results.items[0];
    const Type *a = op->operands.items[0]->type;
    Mma mma = {.s = s, .op = op, .type = result->type, .step = STEP_BYTES / (dtype_bits(a->scalar) / 8)}, *m = &mma;
    m->shape = a->scalar == PHB_F16 ? MMA_F16 : a->scalar == PHB_BF16 ? MMA_BF16 : a->scalar == PHB_F32 ? MMA_TF32 : MMA_I8;
    find_blocks(m);
    int count = simt_count(result->type);
    LLVMValueRef *sums = simt_registers(s, count);
    for (int i = 0; i < count; i++)
        sums[i] = simt_tile(s, op->operands.items[2])[i];
    int64_t steps = tile_columns(a) / m->step;
    if (steps > MOST_UNROLLED && a->kind == TYPE_SHARED)
        multiply_loop(m, steps, sums);
    else
        for (int step = 0; step < steps; step++)
            multiply_step(m, simt_int(s, step * m->step), step * m->step, sums);
    s->values[result->id] = sums;
}
