/* Ops on whole matrices: dots, by contract.c, and transposes. */
#include "compiler/codegen/host/contract.h"
#include "compiler/codegen/host/host.h"

/* ---- dot ---- */

/* A factor whose element (w, p) is that of the tile at w along axis `wide`, p along the other; from scratch or from its tensor. */
static ContractOperand factor(const Leaf *leaf, const IrValue *value, int wide) {
    Emitter *e = leaf->e;
    int axis[2] = {wide, 1 - wide};
    int64_t extent[2] = {tile_extent(value->type, axis[0]), tile_extent(value->type, axis[1])};
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

void emit_dot(Leaf *leaf, const IrOp *op) {
    Emitter *e = leaf->e;
    const IrValue *a = op->operands.items[0], *b = op->operands.items[1], *acc = op->operands.items[2], *result = op->results.items[0];
    int from = plan_area(leaf->plan, acc), to = plan_area(leaf->plan, result);
    if (plan_place(leaf->plan, from) != plan_place(leaf->plan, to))
        emit_nest(leaf, &(Root){acc, NULL, to, from}, 1);
    Contraction contraction = {
        .dtype = result->type->scalar,
        .rows = tile_rows(result->type),
        .columns = tile_columns(result->type),
        .a = factor(leaf, a, 0),
        .b = factor(leaf, b, op->kind == OP_DOT ? 1 : 0),
        .k = emit_int_const(e, tile_extent(a->type, 1)),
        .c = area_address(leaf, to),
    };
    LLVMValueRef offset = emit_int_const(e, leaf->plan->dot_offset);
    contraction.scratch = LLVMBuildGEP2(e->builder, e->i8, leaf->scratch, &offset, 1, "");
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
    access_store(leaf, &to, access_address(leaf, &to, outer.index, inner.index), access_load(leaf, &from, access_address(leaf, &from, outer.index, inner.index)));
    loop_end(e, &inner, LOOP_PLAIN);
    loop_end(e, &outer, LOOP_PLAIN);
    loop_end(e, &across, LOOP_SCALAR);
    loop_end(e, &down, LOOP_SCALAR);
}
