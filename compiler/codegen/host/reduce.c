/* Reductions of tiles in scratch, in the order of LANGUAGE.md 10: along an axis of n, partial i % 16 takes elements i in ascending order, and the
 * partials are added up as a tree, 16 to 8 to 4 to 2 to 1. Partials are lanes of a vector where the elements lie side by side, else vectors of
 * neighbours. Largest and smallest elements do not depend on the order. */
#include "compiler/codegen/host/host.h"

#include <stdlib.h>

enum { PARTIALS = 16, ROW_BYTES = 32 };

/* `outer` times n elements `stride` apart, `inner` of them side by side. */
typedef struct Reduction {
    Leaf *leaf;
    const IrOp *op;
    PhbDType dtype; /* of the operand */
    int64_t outer, n, inner;
    int64_t size; /* bytes of an element */
    LLVMValueRef from, to;
    int from_region, to_region; /* to: -1 where the result is a scalar */
} Reduction;

static LLVMValueRef address_of(const Reduction *r, LLVMValueRef base, LLVMValueRef bytes) {
    return LLVMBuildGEP2(r->leaf->e->builder, r->leaf->e->i8, base, &bytes, 1, "");
}

static LLVMValueRef times(Emitter *e, LLVMValueRef index, int64_t factor) {
    return LLVMBuildMul(e->builder, index, emit_int_const(e, factor), "");
}

static LLVMTypeRef vector_type(const Reduction *r, int64_t lanes) {
    return LLVMVectorType(memory_type(r->leaf->e, r->dtype), (unsigned)lanes);
}

/* ---- f16 and bf16 as integers in the order of the numbers, -0 < +0 ---- */

static bool is_half(const Reduction *r) {
    return r->dtype == PHB_F16 || r->dtype == PHB_BF16;
}

/* An i16, or a vector of them of `like`'s length. */
static LLVMValueRef half_const(const Reduction *r, LLVMValueRef like, int value) {
    LLVMValueRef element = LLVMConstInt(r->leaf->e->i16, (unsigned)value, false), elements[PARTIALS];
    if (LLVMGetTypeKind(LLVMTypeOf(like)) != LLVMVectorTypeKind)
        return element;
    unsigned lanes = LLVMGetVectorSize(LLVMTypeOf(like));
    for (unsigned i = 0; i < lanes; i++)
        elements[i] = element;
    return LLVMConstVector(elements, lanes);
}

/* The bits of magnitudes turned over where the sign is set; its own inverse. */
static LLVMValueRef half_turn(const Reduction *r, LLVMValueRef bits) {
    LLVMBuilderRef builder = r->leaf->e->builder;
    LLVMValueRef sign = LLVMBuildAShr(builder, bits, half_const(r, bits, 15), "");
    return LLVMBuildXor(builder, bits, LLVMBuildAnd(builder, sign, half_const(r, bits, 0x7fff), ""), "");
}

/* What is beyond every number, where it loses: a NaN's place. */
static int half_last(const Reduction *r) {
    return r->op->kind == OP_RMAX ? 0x8000 : 0x7fff;
}

static LLVMValueRef half_key(const Reduction *r, LLVMValueRef bits) {
    LLVMBuilderRef builder = r->leaf->e->builder;
    LLVMValueRef magnitude = LLVMBuildAnd(builder, bits, half_const(r, bits, 0x7fff), "");
    LLVMValueRef is_nan = LLVMBuildICmp(builder, LLVMIntUGT, magnitude, half_const(r, bits, r->dtype == PHB_F16 ? 0x7c00 : 0x7f80), "");
    return LLVMBuildSelect(builder, is_nan, half_const(r, bits, half_last(r)), half_turn(r, bits), "");
}

static LLVMValueRef half_from_key(const Reduction *r, LLVMValueRef key) {
    LLVMBuilderRef builder = r->leaf->e->builder;
    LLVMValueRef is_nan = LLVMBuildICmp(builder, LLVMIntEQ, key, half_const(r, key, half_last(r)), "");
    return LLVMBuildSelect(builder, is_nan, half_const(r, key, r->dtype == PHB_F16 ? 0x7e00 : 0x7fc0), half_turn(r, key), "");
}

/* ---- loads and stores ---- */

static LLVMValueRef load_vector(const Reduction *r, LLVMValueRef address, int64_t lanes) {
    LLVMValueRef load = LLVMBuildLoad2(r->leaf->e->builder, vector_type(r, lanes), address, "");
    LLVMSetAlignment(load, (unsigned)r->size);
    leaf_tag(r->leaf, load, r->from_region);
    return is_half(r) ? half_key(r, load) : load;
}

static void put_result(const Reduction *r, LLVMValueRef address, LLVMValueRef stored) {
    LLVMValueRef store = LLVMBuildStore(r->leaf->e->builder, stored, address);
    LLVMSetAlignment(store, (unsigned)(dtype_bits(r->op->results.items[0]->type->scalar) / 8));
    leaf_tag(r->leaf, store, r->to_region);
}

/* Of vectors or elements as they lie in memory; of f16 and bf16 their keys. */
static LLVMValueRef combine(const Reduction *r, LLVMValueRef a, LLVMValueRef b) {
    Emitter *e = r->leaf->e;
    bool is_float = dtype_is_float(r->dtype) && !is_half(r), is_max = r->op->kind == OP_RMAX;
    switch (r->op->kind) {
    case OP_SUM:
        return is_float ? LLVMBuildFAdd(e->builder, a, b, "") : LLVMBuildAdd(e->builder, a, b, "");
    case OP_RMAX:
    case OP_RMIN:
        return is_float ? emit_float_extreme(e, is_max, a, b) : emit_int_extreme(e, is_max, is_half(r) || dtype_is_signed(r->dtype), a, b);
    case OP_ANY:
        return LLVMBuildOr(e->builder, a, b, "");
    case OP_ALL:
        return LLVMBuildAnd(e->builder, a, b, "");
    default:
        abort();
    }
}

/* ---- lanes ---- */

static LLVMValueRef lane_numbers(Emitter *e, int64_t first, int64_t count, int64_t lanes) {
    LLVMValueRef numbers[PARTIALS];
    for (int64_t i = 0; i < lanes; i++)
        numbers[i] = i < count ? LLVMConstInt(e->i32, (uint64_t)(first + i), false) : LLVMGetPoison(e->i32);
    return LLVMConstVector(numbers, (unsigned)lanes);
}

/* Lanes [first, first + count), as the first ones of a vector of `lanes`. */
static LLVMValueRef take_lanes(Emitter *e, LLVMValueRef vector, int64_t first, int64_t count, int64_t lanes) {
    return LLVMBuildShuffleVector(e->builder, vector, LLVMGetPoison(LLVMTypeOf(vector)), lane_numbers(e, first, count, lanes), "");
}

/* a with b combined into its first `count` lanes. */
static LLVMValueRef combine_first(const Reduction *r, LLVMValueRef a, LLVMValueRef b, int64_t count, int64_t lanes) {
    Emitter *e = r->leaf->e;
    LLVMValueRef both = combine(r, a, b), mask[PARTIALS];
    if (count == lanes)
        return both;
    for (int64_t i = 0; i < lanes; i++)
        mask[i] = LLVMConstInt(e->i1, i < count, false);
    return LLVMBuildSelect(e->builder, LLVMConstVector(mask, (unsigned)lanes), both, a, "");
}

/* One run of n elements side by side, to one element. */
static LLVMValueRef reduce_run(const Reduction *r, LLVMValueRef base) {
    Emitter *e = r->leaf->e;
    LLVMBuilderRef builder = e->builder;
    int64_t present = r->n < PARTIALS ? r->n : PARTIALS, lanes = 1, blocks = r->n / PARTIALS, rest = r->n % PARTIALS;
    while (lanes < present)
        lanes *= 2;
    LLVMValueRef partials = load_vector(r, base, present);
    if (present < lanes)
        partials = take_lanes(e, partials, 0, present, lanes);
    if (blocks > 1) {
        LLVMBasicBlockRef before = LLVMGetInsertBlock(builder);
        Loop loop = loop_begin(e, emit_int_const(e, 1), emit_int_const(e, blocks));
        LLVMBasicBlockRef body = LLVMGetInsertBlock(builder);
        LLVMPositionBuilderAtEnd(builder, loop.header);
        LLVMPositionBuilderBefore(builder, loop.index);
        LLVMValueRef phi = LLVMBuildPhi(builder, LLVMTypeOf(partials), "");
        LLVMPositionBuilderAtEnd(builder, body);
        LLVMValueRef next = combine(r, phi, load_vector(r, address_of(r, base, times(e, loop.index, PARTIALS * r->size)), PARTIALS));
        LLVMAddIncoming(phi, (LLVMValueRef[]){partials, next}, (LLVMBasicBlockRef[]){before, LLVMGetInsertBlock(builder)}, 2);
        loop_end(e, &loop, LOOP_UNROLLED);
        partials = phi;
    }
    if (blocks && rest) {
        LLVMValueRef tail = load_vector(r, address_of(r, base, emit_int_const(e, blocks * PARTIALS * r->size)), rest);
        partials = combine_first(r, partials, take_lanes(e, tail, 0, rest, lanes), rest, lanes);
    }
    for (int64_t half = lanes / 2; half; half /= 2) {
        LLVMValueRef upper = take_lanes(e, partials, half, half, half), lower = take_lanes(e, partials, 0, half, half);
        partials = combine_first(r, lower, upper, present - half < half ? present - half : half, half);
        present = half;
    }
    LLVMValueRef result = LLVMBuildExtractElement(builder, partials, LLVMConstInt(e->i32, 0, false), "");
    return is_half(r) ? half_from_key(r, result) : result;
}

/* ---- columns ---- */

/* `lanes` neighbouring runs at once, to a vector. */
static LLVMValueRef reduce_columns(const Reduction *r, LLVMValueRef base, int64_t lanes) {
    Emitter *e = r->leaf->e;
    LLVMBuilderRef builder = e->builder;
    int64_t row = r->inner * r->size, blocks = r->n / PARTIALS;
    int present = r->n < PARTIALS ? (int)r->n : PARTIALS, rest = (int)(r->n % PARTIALS);
    LLVMValueRef partials[PARTIALS], phis[PARTIALS];
    for (int i = 0; i < present; i++)
        partials[i] = load_vector(r, address_of(r, base, emit_int_const(e, i * row)), lanes);
    if (blocks > 1) {
        LLVMBasicBlockRef before = LLVMGetInsertBlock(builder);
        Loop loop = loop_begin(e, emit_int_const(e, 1), emit_int_const(e, blocks));
        LLVMBasicBlockRef body = LLVMGetInsertBlock(builder);
        LLVMPositionBuilderBefore(builder, loop.index);
        for (int i = 0; i < PARTIALS; i++)
            phis[i] = LLVMBuildPhi(builder, LLVMTypeOf(partials[i]), "");
        LLVMPositionBuilderAtEnd(builder, body);
        LLVMValueRef block = address_of(r, base, times(e, loop.index, PARTIALS * row));
        for (int i = 0; i < PARTIALS; i++) {
            LLVMValueRef next = combine(r, phis[i], load_vector(r, address_of(r, block, emit_int_const(e, i * row)), lanes));
            LLVMAddIncoming(phis[i], (LLVMValueRef[]){partials[i], next}, (LLVMBasicBlockRef[]){before, body}, 2);
            partials[i] = phis[i];
        }
        loop_end(e, &loop, LOOP_SCALAR);
    }
    for (int i = 0; blocks && i < rest; i++)
        partials[i] = combine(r, partials[i], load_vector(r, address_of(r, base, emit_int_const(e, (blocks * PARTIALS + i) * row)), lanes));
    for (int half = PARTIALS / 2; half; half /= 2)
        for (int i = 0; i < half && i + half < present; i++)
            partials[i] = combine(r, partials[i], partials[i + half]);
    return is_half(r) ? half_from_key(r, partials[0]) : partials[0];
}

/* ---- one element after the other ---- */

/* Is x to be taken instead of the largest so far? A number instead of NaN, +0 instead of -0: as emit_float_extreme has it. */
static LLVMValueRef is_larger(const Reduction *r, LLVMValueRef x, LLVMValueRef best) {
    Emitter *e = r->leaf->e;
    LLVMBuilderRef builder = e->builder;
    if (!dtype_is_float(r->dtype))
        return LLVMBuildICmp(builder, dtype_is_signed(r->dtype) ? LLVMIntSGT : LLVMIntUGT, x, best, "");
    LLVMValueRef larger = LLVMBuildFCmp(builder, LLVMRealOGT, x, best, "");
    LLVMValueRef replaces =
        LLVMBuildAnd(builder, LLVMBuildFCmp(builder, LLVMRealUNO, best, best, ""), LLVMBuildFCmp(builder, LLVMRealORD, x, x, ""), "");
    larger = LLVMBuildOr(builder, larger, replaces, "");
    LLVMTypeRef bits = LLVMTypeOf(x) == e->f64 ? e->i64 : e->i32;
    LLVMValueRef zero = LLVMConstNull(bits), is_zero = LLVMBuildFCmp(builder, LLVMRealOEQ, x, best, "");
    LLVMValueRef x_negative = LLVMBuildICmp(builder, LLVMIntSLT, LLVMBuildBitCast(builder, x, bits, ""), zero, "");
    LLVMValueRef best_negative = LLVMBuildICmp(builder, LLVMIntSLT, LLVMBuildBitCast(builder, best, bits, ""), zero, "");
    LLVMValueRef sign = LLVMBuildAnd(builder, best_negative, LLVMBuildNot(builder, x_negative, ""), "");
    return LLVMBuildOr(builder, larger, LLVMBuildAnd(builder, is_zero, sign, ""), "");
}

static LLVMValueRef load_element(const Reduction *r, LLVMValueRef base, LLVMValueRef index) {
    Emitter *e = r->leaf->e;
    LLVMValueRef load = LLVMBuildLoad2(e->builder, memory_type(e, r->dtype), address_of(r, base, times(e, index, r->inner * r->size)), "");
    leaf_tag(r->leaf, load, r->from_region);
    return value_from_memory(e, r->dtype, load);
}

/* The index of the largest element. */
static LLVMValueRef search_run(const Reduction *r, LLVMValueRef base) {
    Emitter *e = r->leaf->e;
    LLVMBuilderRef builder = e->builder;
    LLVMValueRef first = load_element(r, base, emit_int_const(e, 0)), zero = emit_int_const(e, 0);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(builder);
    Loop loop = loop_begin(e, emit_int_const(e, 1), emit_int_const(e, r->n));
    LLVMBasicBlockRef body = LLVMGetInsertBlock(builder);
    LLVMPositionBuilderBefore(builder, loop.index);
    LLVMValueRef best = LLVMBuildPhi(builder, LLVMTypeOf(first), ""), place = LLVMBuildPhi(builder, e->i64, "");
    LLVMPositionBuilderAtEnd(builder, body);
    LLVMValueRef x = load_element(r, base, loop.index), larger = is_larger(r, x, best);
    LLVMValueRef next = LLVMBuildSelect(builder, larger, x, best, ""), next_place = LLVMBuildSelect(builder, larger, loop.index, place, "");
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(builder);
    LLVMAddIncoming(best, (LLVMValueRef[]){first, next}, (LLVMBasicBlockRef[]){before, latch}, 2);
    LLVMAddIncoming(place, (LLVMValueRef[]){zero, next_place}, (LLVMBasicBlockRef[]){before, latch}, 2);
    loop_end(e, &loop, LOOP_PLAIN);
    return LLVMBuildTrunc(builder, place, e->i32, "");
}

/* ---- reductions ---- */

static LLVMValueRef reduce_one(const Reduction *r, LLVMValueRef base) {
    return r->op->kind == OP_ARGMAX ? search_run(r, base) : reduce_run(r, base);
}

static void reduce_rows(const Reduction *r) {
    Emitter *e = r->leaf->e;
    int64_t result_size = dtype_bits(r->op->results.items[0]->type->scalar) / 8;
    Loop rows = loop_begin(e, emit_int_const(e, 0), emit_int_const(e, r->outer));
    LLVMValueRef result = reduce_one(r, address_of(r, r->from, times(e, rows.index, r->n * r->size)));
    put_result(r, address_of(r, r->to, times(e, rows.index, result_size)), result);
    loop_end(e, &rows, LOOP_SCALAR);
}

static void search_columns(const Reduction *r) {
    Emitter *e = r->leaf->e;
    int64_t result_size = dtype_bits(r->op->results.items[0]->type->scalar) / 8;
    Loop columns = loop_begin(e, emit_int_const(e, 0), emit_int_const(e, r->inner));
    LLVMValueRef result = search_run(r, address_of(r, r->from, times(e, columns.index, r->size)));
    put_result(r, address_of(r, r->to, times(e, columns.index, result_size)), result);
    loop_end(e, &columns, LOOP_SCALAR);
}

static void reduce_all_columns(const Reduction *r) {
    Emitter *e = r->leaf->e;
    int64_t lanes = ROW_BYTES / r->size, blocks = r->inner / lanes, rest = r->inner % lanes;
    if (blocks) {
        Loop loop = loop_begin(e, emit_int_const(e, 0), emit_int_const(e, blocks));
        LLVMValueRef offset = times(e, loop.index, lanes * r->size);
        put_result(r, address_of(r, r->to, offset), reduce_columns(r, address_of(r, r->from, offset), lanes));
        loop_end(e, &loop, LOOP_SCALAR);
    }
    if (rest) {
        LLVMValueRef offset = emit_int_const(e, blocks * lanes * r->size);
        put_result(r, address_of(r, r->to, offset), reduce_columns(r, address_of(r, r->from, offset), rest));
    }
}

void emit_reduction(Leaf *leaf, const IrOp *op) {
    const IrValue *operand = op->operands.items[0], *result = op->results.items[0];
    const Type *type = operand->type;
    int64_t rows = tile_rows(type), columns = tile_columns(type);
    int area = plan_area(leaf->plan, operand);
    Reduction r = {.leaf = leaf, .op = op, .dtype = type->scalar, .size = dtype_bits(type->scalar) / 8, .outer = 1, .inner = 1};
    r.from = area_address(leaf, area);
    r.from_region = area_region(leaf, area);
    if (op->axis < 0) {
        r.n = rows * columns;
    } else if (op->axis == type->rank - 1) {
        r.outer = rows;
        r.n = columns;
    } else {
        r.n = rows;
        r.inner = columns;
    }
    if (result->type->kind == TYPE_SCALAR) {
        LLVMValueRef stored = reduce_one(&r, r.from);
        leaf->values[result->id] = value_from_memory(leaf->e, result->type->scalar, stored);
        return;
    }
    r.to = area_address(leaf, plan_area(leaf->plan, result));
    r.to_region = area_region(leaf, plan_area(leaf->plan, result));
    if (r.inner == 1)
        reduce_rows(&r);
    else if (op->kind == OP_ARGMAX)
        search_columns(&r);
    else
        reduce_all_columns(&r);
}

/* ---- cumsum ---- */

void emit_cumsum(Leaf *leaf, const IrOp *op) {
    Emitter *e = leaf->e;
    const IrValue *operand = op->operands.items[0], *result = op->results.items[0];
    const Type *type = operand->type;
    PhbDType dtype = type->scalar;
    int64_t n = tile_extent(type, 0), columns = type->rank == 2 ? tile_extent(type, 1) : 1;
    /* As a matrix of n rows, also where it is [n]. */
    const Type matrix = {.kind = TYPE_TILE, .scalar = dtype, .rank = 2, .dims = {dim_int(e->context->dims, n), dim_int(e->context->dims, columns)}};
    const int axis[2] = {0, 1};
    Access from = access_area(leaf, axis, &matrix, plan_area(leaf->plan, operand)),
           to = access_area(leaf, axis, &matrix, plan_area(leaf->plan, result));
    LLVMValueRef zero = emit_int_const(e, 0), one = emit_int_const(e, 1);

    Loop first = loop_begin(e, zero, emit_int_const(e, columns));
    access_store(leaf, &to, access_address(leaf, &to, zero, first.index), access_load(leaf, &from, access_address(leaf, &from, zero, first.index)));
    loop_end(e, &first, LOOP_PLAIN);
    Loop rows = loop_begin(e, one, emit_int_const(e, n));
    LLVMValueRef above = LLVMBuildSub(e->builder, rows.index, one, "");
    Loop loop = loop_begin(e, zero, emit_int_const(e, columns));
    LLVMValueRef operands[3] = {access_load(leaf, &to, access_address(leaf, &to, above, loop.index)),
        access_load(leaf, &from, access_address(leaf, &from, rows.index, loop.index))};
    access_store(leaf, &to, access_address(leaf, &to, rows.index, loop.index), emit_element_op(e, OP_ADD, dtype, operands));
    loop_end(e, &loop, LOOP_PLAIN);
    loop_end(e, &rows, LOOP_SCALAR);
}
