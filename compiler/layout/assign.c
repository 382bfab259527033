/* Puts layouts into types. Requires a specialised kernel with its number of threads. Preserves what it computes; afterwards
 *  - every tile's type has a layout, and ops that are element-wise, or carry values, have one layout for all;
 *  - a broadcast's operand, a reduction's result and a transpose's result have the layout that follows from the other side's;
 *  - factors of a product are `shared` values, but for a first one that is laid out as matrix instructions take it, which `stage` makes of tiles
 * where the tile is defined, so that loops need not do it again. */
#include "compiler/layout/layout.h"

#include <stdlib.h>

typedef struct Assigner {
    Context *context;
    IrKernel *kernel;
    bool tensor_cores;
    const Layout **layouts; /* by IrValue.id, as chosen; values made later have ids beyond */
} Assigner;

static bool is_tile(const IrValue *value) {
    return value->type->kind == TYPE_TILE;
}

static void lay_out(Assigner *a, IrValue *value) {
    if (is_tile(value))
        value->type = type_laid_out(a->context->types, value->type, a->layouts[value->id]);
}

static void lay_out_block(Assigner *a, IrBlock *block) {
    for (int i = 0; block->owner && i < block->args.count; i++)
        lay_out(a, block->args.items[i]);
    for (IrOp *op = block->first; op; op = op->next) {
        for (int i = 0; i < op->results.count; i++)
            lay_out(a, op->results.items[i]);
        for (int r = 0; r < op->regions.count; r++)
            lay_out_block(a, op->regions.items[r]);
    }
}

/* ---- conversions ---- */

static IrOp *make_op(Assigner *a, OpKind kind, Span span, const Type *type, IrValue *operand) {
    IrBlock nowhere = {0};
    IrOp *op = ir_append(a->context, &nowhere, kind, span, &operand, 1, &type, 1);
    op->parent = NULL;
    op->prev = op->next = NULL;
    return op;
}

static void insert_after(IrOp *at, IrOp *op) {
    op->parent = at->parent;
    op->prev = at;
    op->next = at->next;
    *(at->next ? &at->next->prev : &at->parent->last) = op;
    at->next = op;
}

/* Operand `index` of `op` in another layout. */
static void convert_operand(Assigner *a, IrOp *op, int index, const Layout *layout) {
    IrValue *operand = op->operands.items[index];
    const Type *type = type_laid_out(a->context->types, operand->type, layout);
    if (type == operand->type)
        return;
    IrOp *convert = make_op(a, OP_CONVERT_LAYOUT, op->span, type, operand);
    ir_insert_before(op, convert);
    op->operands.items[index] = convert->results.items[0];
}

/* The op gives its result in `layout`; what used it goes on with the layout it had. */
static void convert_result(Assigner *a, IrOp *op, const Layout *layout) {
    IrValue *result = op->results.items[0];
    const Type *type = type_laid_out(a->context->types, result->type, layout);
    if (type == result->type)
        return;
    IrOp *convert = make_op(a, OP_CONVERT_LAYOUT, op->span, result->type, result);
    ir_replace_uses(a->kernel, result, convert->results.items[0]);
    result->type = type;
    insert_after(op, convert);
}

/* ---- ops ---- */

static void assign_broadcast(Assigner *a, IrOp *op) {
    const Type *from = op->operands.items[0]->type, *to = op->results.items[0]->type;
    if (from->kind != TYPE_TILE)
        return;
    Layout layout = *to->layout;
    if (tile_rows(from) != tile_rows(to))
        layout = layout_slice(&layout, 0);
    if (tile_columns(from) != tile_columns(to))
        layout = layout_slice(&layout, 1);
    convert_operand(a, op, 0, &layout);
}

static void assign_reduction(Assigner *a, IrOp *op) {
    const Type *from = op->operands.items[0]->type;
    if (op->axis < 0)
        return;
    Layout layout = layout_slice(from->layout, from->rank == 1 ? 1 : op->axis);
    convert_result(a, op, &layout);
}

static void assign_reshape(Assigner *a, IrOp *op) {
    const Type *from = op->operands.items[0]->type, *to = op->results.items[0]->type;
    if (!reshape_keeps_axes(op))
        return;
    bool same = tile_rows(from) == tile_rows(to) && tile_columns(from) == tile_columns(to);
    Layout layout = same ? *from->layout : layout_swap(from->layout);
    convert_result(a, op, &layout);
}

/* A tile that several products multiply by is staged once, before the first of them. */
static IrOp *find_stage(const IrValue *tile, IrOp *at) {
    IrOp *stage = at->prev;
    while (stage && (stage->kind != OP_STAGE || stage->operands.items[0] != tile))
        stage = stage == tile->def ? NULL : stage->prev;
    return stage;
}

static void stage_operand(Assigner *a, IrOp *op, int index) {
    IrValue *tile = op->operands.items[index];
    const Type *type = type_shaped(a->context->types, TYPE_SHARED, tile->type->scalar, tile->type->rank, tile->type->dims);
    IrOp *at = ir_ancestor_in(tile->def ? tile->def->parent : tile->block, op), *stage = find_stage(tile, at);
    if (!stage) {
        stage = make_op(a, OP_STAGE, op->span, type, tile);
        ir_insert_before(at, stage);
    }
    op->operands.items[index] = stage->results.items[0];
}

/* Whether the first factor can stay in registers: laid out as the accumulator of another product, whole rows a warp and the same ones. */
static bool is_fragment(const IrOp *dot) {
    const Layout *factor = dot->operands.items[0]->type->layout, *result = dot->results.items[0]->type->layout;
    enum { SECOND_HALF = 8 }; /* columns of a step's second half are in the next register bit */
    if (dtype_bits(dot->operands.items[0]->type->scalar) != 16 || !layout_is_mma(factor) || factor->registers < 3)
        return false;
    if (factor->bases[2].at[0] != 0 || factor->bases[2].at[1] != SECOND_HALF)
        return false;
    for (int bit = 0; bit < factor->warps; bit++)
        if (layout_warps(factor)[bit].at[1])
            return false;
    Layout rows[2] = {layout_slice(factor, 1), layout_slice(result, 1)};
    return layout_same(&rows[0], &rows[1]);
}

/* Matrix instructions want the second factor's elements along k in pairs; bytes lie like that only where the factor is transposed. */
static void turn_factor(Assigner *a, IrOp *op) {
    IrValue *tile = op->operands.items[1];
    const Dim *dims[2] = {tile->type->dims[1], tile->type->dims[0]};
    Layout swapped = layout_swap(tile->type->layout);
    const Type *type = type_laid_out(a->context->types, type_shaped(a->context->types, TYPE_TILE, tile->type->scalar, 2, dims), &swapped);
    IrOp *turned = make_op(a, OP_TRANSPOSE, op->span, type, tile);
    ir_insert_before(ir_ancestor_in(tile->def ? tile->def->parent : tile->block, op), turned);
    op->operands.items[1] = turned->results.items[0];
}

static void assign_product(Assigner *a, IrOp *op) {
    bool is_mma = a->tensor_cores && layout_mma_step(a->kernel, op) && layout_is_mma(op->results.items[0]->type->layout);
    bool is_turned = op->kind == OP_DOT_T;
    if (is_mma && !is_turned && dtype_bits(op->operands.items[1]->type->scalar) == 8) {
        turn_factor(a, op);
        is_turned = true;
    }
    if (!is_mma || !is_fragment(op))
        stage_operand(a, op, 0);
    stage_operand(a, op, 1);
    if (is_mma)
        op->kind = is_turned ? OP_MMA_T : OP_MMA;
}

/* Slices go to slots by layout_bulk; another first factor is taken from registers. */
static void assign_wgmma(Assigner *a, IrOp *op) {
    const IrValue *first = op->operands.items[0];
    Layout layout;
    if (first->def && first->def->kind == OP_LOAD)
        return;
    if (!layout_wgmma(tile_rows(first->type), tile_columns(first->type), op->results.items[0]->type->layout->warps, &layout))
        abort(); /* layout_bulk_mark has counted its registers */
    convert_operand(a, op, 0, &layout);
}

static void assign_block(Assigner *a, IrBlock *block);

static void assign_op(Assigner *a, IrOp *op) {
    Layout swapped;
    switch (op->kind) {
    case OP_BROADCAST:
        assign_broadcast(a, op);
        return;
    case OP_RESHAPE:
        assign_reshape(a, op);
        return;
    case OP_TRANSPOSE:
        swapped = layout_swap(op->operands.items[0]->type->layout);
        convert_result(a, op, &swapped);
        return;
    case OP_DOT:
    case OP_DOT_T:
        assign_product(a, op);
        return;
    case OP_WGMMA:
    case OP_WGMMA_T:
        assign_wgmma(a, op);
        return;
    default:
        if (op_info[op->kind].traits & TRAIT_REDUCES)
            assign_reduction(a, op);
        for (int r = 0; r < op->regions.count; r++)
            assign_block(a, op->regions.items[r]);
    }
}

static void assign_block(Assigner *a, IrBlock *block) {
    for (IrOp *op = block->first, *next; op; op = next) {
        next = op->next;
        assign_op(a, op);
    }
}

/* ---- what scalars are spread to ---- */

static bool is_spread(const IrValue *value) {
    return is_tile(value) && value->def && value->def->kind == OP_BROADCAST && !is_tile(value->def->operands.items[0]);
}

/* Uses of one such tile, which takes no registers, must not tie together what else they are of: sums that begin with one zero, say. From the second
 * use on, each has a tile of its own. `used`, by IrValue.id: those that have a use. */
static void part_spreads(Assigner *a, IrBlock *block, bool *used) {
    for (IrOp *op = block->first; op; op = op->next) {
        for (int i = 0; i < op->operands.count; i++) {
            IrValue *value = op->operands.items[i];
            if (!is_spread(value))
                continue;
            if (used[value->id]) {
                IrOp *spread = make_op(a, OP_BROADCAST, value->def->span, value->type, value->def->operands.items[0]);
                insert_after(value->def, spread);
                op->operands.items[i] = spread->results.items[0];
            }
            used[value->id] = true;
        }
        for (int r = 0; r < op->regions.count; r++)
            part_spreads(a, op->regions.items[r], used);
    }
}

bool layout_assign(Context *context, IrKernel *kernel, bool tensor_cores, const char **why) {
    Assigner assigner = {.context = context, .kernel = kernel, .tensor_cores = tensor_cores};
    part_spreads(&assigner, kernel->body, NEW_ARRAY(context->arena, bool, ir_number(kernel) + 1));
    assigner.layouts = NEW_ARRAY(context->arena, const Layout *, ir_number(kernel) + 1);
    if (!layout_choose(context, kernel, tensor_cores, assigner.layouts, why))
        return false;
    lay_out_block(&assigner, kernel->body);
    assign_block(&assigner, kernel->body);
    return true;
}
