/* Products by fma, without tensor cores: both factors lie in shared memory, and every thread has a part of the accumulator in registers. Each element
 * is one chain in ascending k. A turn of the loop takes neighbouring elements along k at once, as vectors where memory has them side by side. */
#include "compiler/codegen/simt/simt.h"

#include "compiler/layout/layout.h"

enum { VECTOR_BYTES = 16, MOST_STEPS = 4, MOST_UNROLLED = 4, MANY_SUMS = 128 };

/* A factor: what the elements of the accumulator need of it at one k. */
typedef struct Factor {
    const Type *type; /* [outer, k] or [k, outer] */
    int axis;         /* of the accumulator that it runs along */
    bool k_is_last;
    int64_t outer, pitch, size;
    int count; /* different rows, or columns, of the accumulator in a thread, */
    int offsets[1 << LAYOUT_REGISTERS];
    int run;            /* so many of which are neighbours in memory, where k is not last */
    LLVMValueRef *base; /* i32: address at k = 0 of each run, */
    int64_t *further;   /* and what is to be added: one sum for many runs, and a constant in each instruction */
} Factor;

typedef struct Product {
    Simt *s;
    const IrOp *op;
    const Type *type; /* of the accumulator */
    int64_t k;
    Factor a, b;
} Product;

static int find_offset(const Factor *factor, int offset) {
    for (int i = 0; i < factor->count; i++)
        if (factor->offsets[i] == offset)
            return i;
    return -1;
}

static void find_factor(Product *p, Factor *factor, int operand, int axis, bool k_is_last) {
    Simt *s = p->s;
    LLVMBuilderRef builder = s->e->builder;
    const Layout *layout = p->type->layout;
    const IrValue *staged = p->op->operands.items[operand];
    *factor = (Factor){.type = staged->type, .axis = axis, .k_is_last = k_is_last, .outer = tile_extent(p->type, axis), .run = 1};
    factor->pitch = layout_pitch(staged->type);
    factor->size = dtype_bits(staged->type->scalar) / 8;
    for (int i = 0; i < 1 << layout->registers; i++)
        if (find_offset(factor, layout_register_at(layout, i, axis)) < 0)
            factor->offsets[factor->count++] = layout_register_at(layout, i, axis);
    if (!k_is_last) {
        factor->run = 1 << simt_run(layout, axis);
        while (factor->run > 1 && (factor->run * factor->size > VECTOR_BYTES || factor->outer % factor->run != 0))
            factor->run /= 2;
    }
    factor->base = simt_registers(s, factor->count);
    factor->further = NEW_ARRAY(s->e->context->arena, int64_t, factor->count);
    int64_t scale = k_is_last ? factor->pitch : factor->size;
    bool is_padded = simt_reach(layout, axis) > factor->outer;
    for (int i = 0; i < factor->count; i += factor->run) {
        LLVMValueRef at = simt_origin(s, layout, axis);
        if (!is_padded && simt_is_sum(s, layout, factor->offsets[i], axis))
            factor->further[i] = factor->offsets[i] * scale;
        else
            at = LLVMBuildXor(builder, at, simt_int(s, factor->offsets[i]), "");
        if (is_padded) { /* padding reads what is there, and nobody reads the result */
            LLVMValueRef last = simt_int(s, factor->outer - factor->run);
            at = LLVMBuildSelect(builder, LLVMBuildICmp(builder, LLVMIntULT, at, last, ""), at, last, "");
        }
        factor->base[i] = LLVMBuildAdd(builder, LLVMBuildMul(builder, at, simt_int(s, scale), ""), simt_staged(s, staged), "");
    }
}

/* The element, widened to the accumulator's type. */
static LLVMValueRef widen(const Product *p, const Factor *factor, LLVMValueRef stored) {
    Emitter *e = p->s->e;
    return emit_convert(e, factor->type->scalar, p->type->scalar, value_from_memory(e, factor->type->scalar, stored));
}

/* values[step][i]: offset i at k + past + step, for the run of offsets from `i` on. */
static void load_run(
    const Product *p, const Factor *factor, int i, LLVMValueRef k, int past, int steps, LLVMValueRef (*values)[1 << LAYOUT_REGISTERS]) {
    Simt *s = p->s;
    LLVMBuilderRef builder = s->e->builder;
    LLVMTypeRef memory = memory_type(s->e, factor->type->scalar);
    int length = factor->k_is_last ? steps : factor->run, loads = factor->k_is_last ? 1 : steps;
    LLVMTypeRef type = length > 1 ? LLVMVectorType(memory, (unsigned)length) : memory;
    int64_t along = factor->k_is_last ? factor->size : factor->pitch;
    LLVMValueRef moved = LLVMBuildAdd(builder, factor->base[i], LLVMBuildMul(builder, k, simt_int(s, along), ""), "");
    for (int load = 0; load < loads; load++) {
        LLVMValueRef address = LLVMBuildAdd(builder, moved, simt_int(s, factor->further[i] + past * along + load * factor->pitch), "");
        LLVMValueRef loaded = simt_shared_load(s, type, address, (unsigned)(length * factor->size), NULL, p->op->span);
        for (int n = 0; n < length; n++) {
            LLVMValueRef stored = length > 1 ? LLVMBuildExtractElement(builder, loaded, simt_int(s, n), "") : loaded;
            if (factor->k_is_last)
                values[n][i] = widen(p, factor, stored);
            else
                values[load][i + n] = widen(p, factor, stored);
        }
    }
}

static LLVMValueRef multiply_add(const Product *p, LLVMValueRef a, LLVMValueRef b, LLVMValueRef sum) {
    Emitter *e = p->s->e;
    if (dtype_is_float(p->type->scalar))
        return emit_fma(e, a, b, sum);
    return LLVMBuildAdd(e->builder, LLVMBuildMul(e->builder, a, b, ""), sum, "");
}

/* Adds to the sums of the rows from offset `first` on, so many as a run of the left factor has. */
static void add_products(const Product *p, LLVMValueRef *sums, int first, int steps, LLVMValueRef (*a)[1 << LAYOUT_REGISTERS],
    LLVMValueRef (*b)[1 << LAYOUT_REGISTERS]) {
    for (int step = 0; step < steps; step++) {
        for (int i = 0; i < simt_count(p->type); i++) {
            int row = find_offset(&p->a, layout_register_at(p->type->layout, i, 0));
            int column = find_offset(&p->b, layout_register_at(p->type->layout, i, 1));
            if (row >= first && row < first + p->a.run)
                sums[i] = multiply_add(p, a[step][row], b[step][column], sums[i]);
        }
    }
}

/* `steps` elements along k from `k` + `past` on. The left factor comes a run at a time: registers hold little of it at once. */
static void multiply_steps(const Product *p, LLVMValueRef *sums, LLVMValueRef k, int past, int steps) {
    LLVMValueRef a[MOST_STEPS][1 << LAYOUT_REGISTERS], b[MOST_STEPS][1 << LAYOUT_REGISTERS];
    for (int i = 0; i < p->b.count; i += p->b.run)
        load_run(p, &p->b, i, k, past, steps, b);
    for (int i = 0; i < p->a.count; i += p->a.run) {
        load_run(p, &p->a, i, k, past, steps, a);
        add_products(p, sums, i, steps, a, b);
    }
}

/* Turns from k = first to last, `steps` at a time; sums are carried. Where sums leave registers for it, a turn of the loop is several: the next one's
 * factors are read while this one's are multiplied. */
static void multiply(const Product *p, LLVMValueRef *sums, int64_t first, int64_t last, int steps) {
    Simt *s = p->s;
    Emitter *e = s->e;
    int count = simt_count(p->type), unrolled = MOST_UNROLLED;
    if (first == last)
        return;
    while ((last - first) / steps % unrolled != 0 || (unrolled > 1 && unrolled * count > MANY_SUMS))
        unrolled /= 2;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(e->builder);
    Loop loop = loop_begin(e, emit_int_const(e, 0), emit_int_const(e, (last - first) / steps / unrolled));
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
    LLVMValueRef k = LLVMBuildAdd(e->builder, LLVMBuildMul(e->builder, turn, simt_int(s, steps * unrolled), ""), simt_int(s, first), "");
    for (int i = 0; i < unrolled; i++)
        multiply_steps(p, sums, k, steps * i, steps);
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(e->builder);
    for (int i = 0; i < count; i++) {
        LLVMAddIncoming(phis[i], &sums[i], &latch, 1);
        sums[i] = phis[i];
    }
    loop_end(e, &loop, LOOP_SCALAR);
}

void simt_dot(Simt *s, const IrOp *op) {
    const IrValue *result = op->results.items[0];
    Product product = {.s = s, .op = op, .type = result->type, .k = tile_extent(op->operands.items[0]->type, 1)}, *p = &product;
    find_factor(p, &p->a, 0, 0, true);
    find_factor(p, &p->b, 1, 1, op->kind == OP_DOT_T);
    int count = simt_count(result->type), steps = MOST_STEPS;
    LLVMValueRef *sums = simt_registers(s, count);
    for (int i = 0; i < count; i++)
        sums[i] = simt_tile(s, op->operands.items[2])[i];
    while (steps * p->a.size > VECTOR_BYTES || steps * p->b.size > VECTOR_BYTES)
        steps /= 2;
    multiply(p, sums, 0, p->k - p->k % steps, steps);
    multiply(p, sums, p->k - p->k % steps, p->k, 1);
    s->values[result->id] = sums;
}
