/* The epilogue by rows: a loop over a few rows at a time, through shared memory. There the sums wait, in the room that the factors no longer need, and
 * each turn takes its rows of them and of whatever else it reads in the layout that memory likes best. */
#include "compiler/layout/layout.h"

enum { FEW_ELEMENTS = 16, MANY_ELEMENTS = 32 }; /* of a turn in a thread: few where each is much code */

static const Type *part_type(const Epilogue *e, const Type *type) {
    const Dim *dims[2] = {dim_int(e->context->dims, e->rows), type->dims[1]};
    return type_shaped(e->context->types, type->kind, type->scalar, 2, dims);
}

/* The offset of a turn's rows: one value, so that a load and a store of the same rows are seen to be of the same. */
static IrValue *row_offset(Epilogue *e, IrValue *offset) {
    IrValue *operands[2] = {offset, e->row};
    for (const IrOp *op = e->at->parent->first; op; op = op->next)
        if (op->kind == OP_ADD && op->operands.items[0] == offset && op->operands.items[1] == e->row)
            return op->results.items[0];
    return epilogue_op(e, OP_ADD, offset->def ? offset->def->span : e->loop->span, operands, 2, type_scalar(e->context->types, PHB_I64))->results.items[0];
}

/* A load or store of a turn's rows: `count` operands, of which the offset of the rows is a turn's further. */
static IrOp *access_rows(Epilogue *e, const IrOp *access, IrValue **operands, int count, const Type *type) {
    int axes[2];
    slice_axes(access, axes);
    operands[1 + axes[0]] = row_offset(e, operands[1 + axes[0]]);
    IrOp *op = epilogue_op(e, access->kind, access->span, operands, count, type);
    ir_copy_attributes(op, access);
    op->extent[axes[0]] = dim_int(e->context->dims, e->rows);
    return op;
}

static IrValue *part_of(Epilogue *e, IrValue *value);

static IrValue *make_part(Epilogue *e, const IrValue *value) {
    IrOp *def = value->def;
    IrValue *operands[PHB_MAX_RANK + 1];
    const Type *type = part_type(e, value->type);
    if (e->staged[value->id]) {
        IrValue *slice[3] = {e->staged[value->id], e->row, e->zero};
        IrOp *load = epilogue_op(e, OP_LOAD, e->loop->span, slice, 3, type);
        load->extent[0] = type->dims[0];
        load->extent[1] = type->dims[1];
        return load->results.items[0];
    }
    for (int i = 0; i < def->operands.count; i++) {
        IrValue *operand = def->operands.items[i];
        bool is_whole = operand->type->kind != TYPE_TILE || (def->kind == OP_BROADCAST && tile_rows(operand->type) == 1);
        operands[i] = is_whole ? operand : part_of(e, operand);
    }
    if (def->kind == OP_LOAD)
        return access_rows(e, def, operands, def->operands.count, type)->results.items[0];
    IrOp *op = epilogue_op(e, def->kind, def->span, operands, def->operands.count, type);
    ir_copy_attributes(op, def);
    return op->results.items[0];
}

static IrValue *part_of(Epilogue *e, IrValue *value) {
    if (!e->parts[value->id])
        e->parts[value->id] = make_part(e, value);
    return e->parts[value->id];
}

static void stage_sources(Epilogue *e) {
    for (int i = 0; i < e->sources.count; i++) {
        IrValue *sum = e->sources.items[i];
        const Type *memory = type_shaped(e->context->types, TYPE_SHARED, sum->type->scalar, 2, sum->type->dims);
        e->staged[sum->id] = epilogue_op(e, OP_STAGE, e->loop->span, &sum, 1, memory)->results.items[0];
    }
    epilogue_op(e, OP_BARRIER, e->loop->span, NULL, 0, NULL);
}

static bool is_much_code(const IrOp *op) {
    return (op->kind >= OP_POW && op->kind <= OP_COS) || op->kind == OP_DIV || op->kind == OP_REM;
}

/* Rows of a turn: whole ones for every warp. */
static int64_t choose_rows(const Epilogue *e) {
    int64_t each = MANY_ELEMENTS;
    for (int i = 0; i < e->ops.count; i++)
        each = is_much_code(e->ops.items[i]) ? FEW_ELEMENTS : each;
    int64_t rows = each * e->kernel->threads / tile_columns(e->type), all = tile_rows(e->type);
    return rows > all ? all : rows;
}

static void make_loop(Epilogue *e) {
    IrOp *last = e->ops.items[e->ops.count - 1];
    e->at = last->next;
    e->rows = choose_rows(e);
    stage_sources(e);
    e->zero = epilogue_int(e, 0);
    IrValue *range[3] = {e->zero, epilogue_int(e, tile_rows(e->type)), epilogue_int(e, e->rows)};
    IrOp *loop = epilogue_op(e, OP_FOR, e->loop->span, range, 3, NULL);
    IrBlock *body = ir_region_new(e->context, loop);
    e->row = ir_block_arg(e->context, body, type_scalar(e->context->types, PHB_I64), NULL);
    e->at = ir_append(e->context, body, OP_YIELD, e->loop->span, NULL, 0, NULL, 0);
    for (int i = 0; i < e->ops.count; i++) {
        const IrOp *store = e->ops.items[i];
        IrValue *operands[PHB_MAX_RANK + 2];
        if (store->kind != OP_STORE)
            continue;
        for (int k = 0; k < store->operands.count - 1; k++)
            operands[k] = store->operands.items[k];
        operands[store->operands.count - 1] = part_of(e, store->operands.items[store->operands.count - 1]);
        access_rows(e, store, operands, store->operands.count, NULL);
    }
    for (int i = e->ops.count - 1; i >= 0; i--)
        ir_remove(e->ops.items[i]);
}

static int64_t staged_bytes(const Epilogue *e) {
    int64_t bytes = 0;
    for (int i = 0; i < e->sources.count; i++) {
        const Type *type = e->sources.items[i]->type;
        bytes += layout_pitch(type) * tile_rows(type);
    }
    return bytes;
}

bool epilogue_rows(Epilogue *e, const LayoutLimits *limits) {
    if (staged_bytes(e) > limits->shared_bytes)
        return false;
    make_loop(e);
    return true;
}
