/* Ops on whole matrices: dots, by contract.c, and transposes. */
#include "compiler/codegen/host/contract.h"
#include "compiler/codegen/host/host.h"

/* ---- dot ---- */

#define LONGEST ((int64_t)1 << 40) /* more than any extent: k of a loop */

/* A factor whose element (w, p) is that of the tile at w along axis `wide`, p along the other, where p may reach `length`; from scratch or from its
 * tensor. */
static ContractOperand factor(const Leaf *leaf, const IrValue *value, int wide, int64_t length) {
    Emitter *e = leaf->e;
    int axis[2] = {wide, 1 - wide};
    int64_t extent[2] = {tile_extent(value->type, wide), length};
    int area = plan_area(leaf->plan, value);
    Access access = area >= 0 ? access_area(leaf, axis, value->type, area) : access_slice(leaf, extent, axis, value->def);
    ContractOperand operand = {.dtype = value->type->scalar, .start = access.start};
    for (int i = 0; i < 2; i++) {
        operand.stride[i] = access.stride[i];
        operand.low[i] = access.checked ? access.low[i] : emit_int_const(e, 0);
        operand.high[i] = access.checked ? access.high[i] : emit_int_const(e, extent[i]);
    }
    if (access.checked)
        operand.high[0] = LLVMBuildSelect(e->builder, access.exists, operand.high[0], emit_int_const(e, 0), "");
    return operand;
}

static Contraction contraction_of(const Leaf *leaf, const IrOp *dot, int64_t length, int area) {
    Emitter *e = leaf->e;
    const Type *type = dot->results.items[0]->type;
    LLVMValueRef offset = emit_int_const(e, leaf->plan->dot_offset);
    return (Contraction){
        .dtype = type->scalar,
        .rows = tile_rows(type),
        .columns = tile_columns(type),
        .a = factor(leaf, dot->operands.items[0], 0, length),
        .b = factor(leaf, dot->operands.items[1], dot->kind == OP_DOT ? 1 : 0, length),
        .k = emit_int_const(e, length),
        .c = area_address(leaf, area),
        .scratch = LLVMBuildGEP2(e->builder, e->i8, leaf->scratch, &offset, 1, ""),
    };
}

void emit_dot(Leaf *leaf, const IrOp *op) {
    const IrValue *acc = op->operands.items[2];
    int from = plan_area(leaf->plan, acc), to = plan_area(leaf->plan, op->results.items[0]);
    if (plan_place(leaf->plan, from) != plan_place(leaf->plan, to))
        emit_nest(leaf, &(Root){acc, NULL, to, from}, 1);
    Contraction contraction = contraction_of(leaf, op, tile_extent(op->operands.items[0]->type, 1), to);
    emit_contract(leaf->e, &contraction);
}

/* The slices of the first turn, as far as k reaches. Where neither factor exists any more, a step of k adds 0 * 0, which changes the sum once at most
 * (-0 to 0): one such step stands for all. */
void emit_contracted_loop(Leaf *leaf, const Contracted *contracted) {
    Emitter *e = leaf->e;
    LLVMBuilderRef builder = e->builder;
    const IrOp *loop = contracted->loop;
    const IrBlock *body = loop->regions.items[0];
    LLVMValueRef start = leaf_value(leaf, loop->operands.items[0]);
    leaf->values[body->args.items[0]->id] = start;
    emit_scalars(leaf, body->first, NULL);
    Contraction contraction = contraction_of(leaf, contracted->dot, LONGEST, plan_area(leaf->plan, loop->results.items[0]));
    LLVMValueRef trips = emit_trip_count(e, start, leaf_value(leaf, loop->operands.items[1]), leaf_value(leaf, loop->operands.items[2]));
    LLVMValueRef longest = emit_int_const(e, LONGEST / contracted->step);
    trips = LLVMBuildSelect(builder, LLVMBuildICmp(builder, LLVMIntULT, trips, longest, ""), trips, longest, "");
    LLVMValueRef length = LLVMBuildMul(builder, trips, emit_int_const(e, contracted->step), "");
    LLVMValueRef exists = emit_max(e, contraction.a.high[1], contraction.b.high[1]);
    contraction.k = emit_min(e, length, LLVMBuildAdd(builder, exists, emit_int_const(e, 1), ""));
    for (int axis = 0; axis < 2; axis++)
        if (contraction_unseen(leaf->kernel, contracted, axis))
            contraction.used[axis] = axis == 0 ? contraction.a.high[0] : contraction.b.high[0];
    contraction.kept_factor = plan_kept_factor(leaf->plan, contracted);
    if (contraction.kept_factor >= 0 && contract_kept(contraction.dtype, contraction.kept_factor == 0 ? contraction.rows : contraction.columns))
        contraction.kept = leaf_kept(leaf);
    emit_contract(e, &contraction);
}

/* ---- transpose ---- */

enum { BLOCK = 16 };

/* In blocks, so that rows read and rows written stay in the first-level cache. */
void emit_transpose(Leaf *leaf, const IrOp *op) {
    Emitter *e = leaf->e;
    const IrValue *operand = op->operands.items[0], *result = op->results.items[0];
    int64_t rows = tile_rows(result->type), columns = tile_columns(result->type);
    Access to = access_area(leaf, (const int[2]){0, 1}, result->type, plan_area(leaf->plan, result));
    Access from = access_area(leaf, (const int[2]){1, 0}, operand->type, plan_area(leaf->plan, operand));
    LLVMValueRef zero = emit_int_const(e, 0), block = emit_int_const(e, BLOCK);

    Loop down = loop_begin(e, zero, emit_int_const(e, (rows + BLOCK - 1) / BLOCK));
    LLVMValueRef row = LLVMBuildMul(e->builder, down.index, block, "");
    LLVMValueRef row_end = emit_min(e, LLVMBuildAdd(e->builder, row, block, ""), emit_int_const(e, rows));
    Loop across = loop_begin(e, zero, emit_int_const(e, (columns + BLOCK - 1) / BLOCK));
    LLVMValueRef column = LLVMBuildMul(e->builder, across.index, block, "");
    LLVMValueRef column_end = emit_min(e, LLVMBuildAdd(e->builder, column, block, ""), emit_int_const(e, columns));
    Loop outer = loop_begin(e, row, row_end), inner = loop_begin(e, column, column_end);
    access_store(leaf, &to, access_address(leaf, &to, outer.index, inner.index),
        access_load(leaf, &from, access_address(leaf, &from, outer.index, inner.index)));
    loop_end(e, &inner, LOOP_PLAIN);
    loop_end(e, &outer, LOOP_PLAIN);
    loop_end(e, &across, LOOP_SCALAR);
    loop_end(e, &down, LOOP_SCALAR);
}
