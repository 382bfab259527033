/* Reductions: in the registers of a thread by halves, between lanes by xor of 16, 8, 4, 2, 1, between warps in ascending order through shared memory.
 * The order follows from the layout alone. What lies beyond the tile's extents counts as the identity. */
#include "compiler/codegen/simt/simt.h"

#include "compiler/layout/layout.h"

#include <stdlib.h>

/* What is combined: a value, and for argmax its index. */
typedef struct Part {
    LLVMValueRef value, index;
} Part;

typedef struct Reduction {
    Simt *s;
    const IrOp *op;
    const Type *type; /* of the operand */
    int axis;         /* that goes; -1: both */
    bool has_index;
} Reduction;

static LLVMValueRef identity(const Reduction *r) {
    Emitter *e = r->s->e;
    PhbDType dtype = r->type->scalar;
    LLVMTypeRef type = value_type(e, dtype);
    bool is_max = r->op->kind != OP_RMIN;
    if (dtype == PHB_BOOL)
        return LLVMConstInt(type, r->op->kind == OP_ALL, false);
    if (r->op->kind == OP_SUM)
        return dtype_is_float(dtype) ? LLVMConstReal(type, -0.0) : LLVMConstNull(type);
    if (dtype_is_float(dtype))
        return LLVMConstReal(type, __builtin_nan(""));
    uint64_t all = UINT64_MAX >> (64 - dtype_bits(dtype)), least = dtype_is_signed(dtype) ? all / 2 + 1 : 0;
    return LLVMConstInt(type, is_max ? least : all - least, false);
}

/* Is b to be taken instead of a? A number rather than NaN, +0 rather than -0 for the largest; of equals the one with the lower index. */
static LLVMValueRef is_better(const Reduction *r, const Part *a, const Part *b) {
    Emitter *e = r->s->e;
    LLVMBuilderRef builder = e->builder;
    PhbDType dtype = r->type->scalar;
    LLVMValueRef x = a->value, y = b->value, better, worse;
    if (dtype_is_float(dtype)) {
        LLVMTypeRef bits = LLVMTypeOf(x) == e->f64 ? e->i64 : e->i32;
        LLVMValueRef x_nan = LLVMBuildFCmp(builder, LLVMRealUNO, x, x, ""), y_nan = LLVMBuildFCmp(builder, LLVMRealUNO, y, y, "");
        LLVMValueRef same = LLVMBuildFCmp(builder, LLVMRealOEQ, x, y, ""); /* equal numbers differ in the sign of zero alone */
        LLVMValueRef x_sign = LLVMBuildICmp(builder, LLVMIntSLT, LLVMBuildBitCast(builder, x, bits, ""), LLVMConstNull(bits), "");
        LLVMValueRef y_sign = LLVMBuildICmp(builder, LLVMIntSLT, LLVMBuildBitCast(builder, y, bits, ""), LLVMConstNull(bits), "");
        LLVMValueRef up = LLVMBuildAnd(builder, same, LLVMBuildAnd(builder, x_sign, LLVMBuildNot(builder, y_sign, ""), ""), "");
        LLVMValueRef down = LLVMBuildAnd(builder, same, LLVMBuildAnd(builder, y_sign, LLVMBuildNot(builder, x_sign, ""), ""), "");
        better = LLVMBuildOr(
            builder, LLVMBuildFCmp(builder, LLVMRealOGT, y, x, ""), LLVMBuildAnd(builder, x_nan, LLVMBuildNot(builder, y_nan, ""), ""), "");
        worse = LLVMBuildOr(
            builder, LLVMBuildFCmp(builder, LLVMRealOGT, x, y, ""), LLVMBuildAnd(builder, y_nan, LLVMBuildNot(builder, x_nan, ""), ""), "");
        better = LLVMBuildOr(builder, better, up, "");
        worse = LLVMBuildOr(builder, worse, down, "");
    } else {
        bool is_signed = dtype_is_signed(dtype);
        better = LLVMBuildICmp(builder, is_signed ? LLVMIntSGT : LLVMIntUGT, y, x, "");
        worse = LLVMBuildICmp(builder, is_signed ? LLVMIntSGT : LLVMIntUGT, x, y, "");
    }
    LLVMValueRef earlier = LLVMBuildICmp(builder, LLVMIntSLT, b->index, a->index, "");
    return LLVMBuildOr(builder, better, LLVMBuildAnd(builder, LLVMBuildNot(builder, worse, ""), earlier, ""), "");
}

static Part combine(const Reduction *r, Part a, Part b) {
    Emitter *e = r->s->e;
    LLVMValueRef operands[3] = {a.value, b.value};
    switch (r->op->kind) {
    case OP_SUM:
        return (Part){emit_element_op(e, OP_ADD, r->type->scalar, operands), NULL};
    case OP_RMAX:
        return (Part){emit_element_op(e, OP_MAX, r->type->scalar, operands), NULL};
    case OP_RMIN:
        return (Part){emit_element_op(e, OP_MIN, r->type->scalar, operands), NULL};
    case OP_ANY:
        return (Part){LLVMBuildOr(e->builder, a.value, b.value, ""), NULL};
    case OP_ALL:
        return (Part){LLVMBuildAnd(e->builder, a.value, b.value, ""), NULL};
    case OP_ARGMAX: {
        LLVMValueRef better = is_better(r, &a, &b);
        return (Part){LLVMBuildSelect(e->builder, better, b.value, a.value, ""), LLVMBuildSelect(e->builder, better, b.index, a.index, "")};
    }
    default:
        abort();
    }
}

static bool is_reduced(const Reduction *r, const LayoutBasis *basis) {
    return r->axis < 0 ? basis->at[0] || basis->at[1] : basis->at[r->axis] != 0;
}

/* ---- in a thread ---- */

static Part take_register(const Reduction *r, int index) {
    Simt *s = r->s;
    Part part = {simt_tile(s, r->op->operands.items[0])[index], NULL};
    LLVMValueRef exists = simt_exists(s, r->type, index);
    if (exists)
        part.value = LLVMBuildSelect(s->e->builder, exists, part.value, identity(r), "");
    if (r->has_index)
        part.index = simt_element(s, r->type, index, r->axis);
    return part;
}

/* Of the operand's registers that agree with register `index` of the result. */
static Part reduce_registers(const Reduction *r, int index) {
    Part parts[1 << LAYOUT_REGISTERS];
    int count = 0, kept = r->axis < 0 ? 0 : layout_register_at(r->op->results.items[0]->type->layout, index, !r->axis);
    for (int i = 0; i < simt_count(r->type); i++)
        if (r->axis < 0 || layout_register_at(r->type->layout, i, !r->axis) == kept)
            parts[count++] = take_register(r, i);
    for (int half = count / 2; half; half /= 2)
        for (int i = 0; i < half; i++)
            parts[i] = combine(r, parts[i], parts[i + half]);
    return parts[0];
}

/* ---- in a warp ---- */

static Part reduce_lanes(const Reduction *r, Part part) {
    Simt *s = r->s;
    for (int bit = LAYOUT_LANES - 1; bit >= 0; bit--) {
        if (!is_reduced(r, &layout_lanes(r->type->layout)[bit]))
            continue;
        LLVMValueRef mask = simt_int(s, 1 << bit);
        Part other = {simt_shuffle(s, SHUFFLE_XOR, part.value, mask, r->op->span), NULL};
        if (r->has_index)
            other.index = simt_shuffle(s, SHUFFLE_XOR, part.index, mask, r->op->span);
        part = combine(r, part, other);
    }
    return part;
}

/* ---- in a CTA ---- */

/* Where partial results lie: [kept elements][warps], indices before values. */
typedef struct Partials {
    int warps;        /* that are reduced over */
    LLVMValueRef own; /* i32: this one's number among them */
    int64_t values;   /* where values begin */
} Partials;

static Partials find_partials(const Reduction *r) {
    Simt *s = r->s;
    const IrOp *op = r->op;
    int mask = layout_warps_reduced(r->type->layout, r->axis), count = 0;
    Partials partials = {.own = simt_int(s, 0)};
    for (int bit = 0; bit < r->type->layout->warps; bit++) {
        if (!(mask >> bit & 1))
            continue;
        LLVMValueRef one = LLVMBuildAnd(s->e->builder, LLVMBuildLShr(s->e->builder, s->warp, simt_int(s, bit), ""), simt_int(s, 1), "");
        partials.own = LLVMBuildOr(s->e->builder, partials.own, LLVMBuildShl(s->e->builder, one, simt_int(s, count++), ""), "");
    }
    partials.warps = 1 << count;
    int64_t size = dtype_bits(r->type->scalar) / 8;
    partials.values = op->shared_at + (r->has_index ? op->shared_bytes / (size + 4) * 4 : 0);
    return partials;
}

/* One lane of each group that holds the same, and of the warps that hold the same, one. */
static LLVMValueRef writes_partial(const Reduction *r) {
    Simt *s = r->s;
    const Layout *layout = r->type->layout;
    LLVMBuilderRef builder = s->e->builder;
    int lanes = 0, warps = s->warps > 1 << layout->warps ? -(1 << layout->warps) : 0;
    for (int bit = 0; bit < LAYOUT_LANES; bit++)
        if (r->axis < 0 || !layout_lanes(layout)[bit].at[!r->axis])
            lanes |= 1 << bit;
    for (int bit = 0; bit < layout->warps; bit++)
        if (!layout_warps(layout)[bit].at[0] && !layout_warps(layout)[bit].at[1])
            warps |= 1 << bit;
    LLVMValueRef lane = LLVMBuildAnd(builder, s->lane, simt_int(s, lanes), ""), warp = LLVMBuildAnd(builder, s->warp, simt_int(s, warps), "");
    return LLVMBuildICmp(builder, LLVMIntEQ, LLVMBuildOr(builder, lane, warp, ""), simt_int(s, 0), "");
}

/* The number of the first partial of register `index` of the result. */
static LLVMValueRef partial_number(const Reduction *r, const Partials *partials, int index) {
    Simt *s = r->s;
    if (r->axis < 0)
        return simt_int(s, 0);
    return LLVMBuildMul(s->e->builder, simt_element(s, r->op->results.items[0]->type, index, !r->axis), simt_int(s, partials->warps), "");
}

static LLVMValueRef kept_exists(const Reduction *r, int index) {
    return r->axis < 0 ? NULL : simt_exists(r->s, r->op->results.items[0]->type, index);
}

static LLVMValueRef address_of(const Reduction *r, int64_t base, int64_t size, LLVMValueRef number) {
    Simt *s = r->s;
    return LLVMBuildAdd(s->e->builder, LLVMBuildMul(s->e->builder, number, simt_int(s, size), ""), simt_int(s, base), "");
}

static void reduce_warps(const Reduction *r, Part *parts, int count) {
    Simt *s = r->s;
    Emitter *e = s->e;
    Partials partials = find_partials(r);
    int64_t size = dtype_bits(r->type->scalar) / 8;
    LLVMValueRef writes = writes_partial(r);
    for (int i = 0; i < count; i++) {
        LLVMValueRef number = LLVMBuildAdd(e->builder, partial_number(r, &partials, i), partials.own, ""),
                     predicate = simt_and(s, writes, kept_exists(r, i));
        simt_shared_store(s, value_to_memory(e, r->type->scalar, parts[i].value), address_of(r, partials.values, size, number), (unsigned)size,
            predicate, r->op->span);
        if (r->has_index)
            simt_shared_store(s, parts[i].index, address_of(r, r->op->shared_at, 4, number), 4, predicate, r->op->span);
    }
    s->target->barrier(s, r->op->span);
    for (int i = 0; i < count; i++) {
        LLVMValueRef first = partial_number(r, &partials, i), predicate = kept_exists(r, i);
        for (int warp = 0; warp < partials.warps; warp++) {
            LLVMValueRef number = LLVMBuildAdd(e->builder, first, simt_int(s, warp), "");
            LLVMValueRef stored = simt_shared_load(
                s, memory_type(e, r->type->scalar), address_of(r, partials.values, size, number), (unsigned)size, predicate, r->op->span);
            Part part = {value_from_memory(e, r->type->scalar, stored), NULL};
            if (r->has_index)
                part.index = simt_shared_load(s, e->i32, address_of(r, r->op->shared_at, 4, number), 4, predicate, r->op->span);
            parts[i] = warp ? combine(r, parts[i], part) : part;
        }
    }
}

void simt_reduce(Simt *s, const IrOp *op) {
    const IrValue *operand = op->operands.items[0], *result = op->results.items[0];
    Reduction reduction = {.s = s, .op = op, .type = operand->type, .axis = op->axis, .has_index = op->kind == OP_ARGMAX}, *r = &reduction;
    if (operand->type->rank == 1 && op->axis == 0)
        r->axis = 1;
    int count = simt_count(result->type);
    Part parts[1 << LAYOUT_REGISTERS];
    for (int i = 0; i < count; i++)
        parts[i] = reduce_lanes(r, reduce_registers(r, i));
    if (op->shared_bytes)
        reduce_warps(r, parts, count);
    s->values[result->id] = simt_registers(s, count);
    for (int i = 0; i < count; i++)
        s->values[result->id][i] = r->has_index ? parts[i].index : parts[i].value;
}
