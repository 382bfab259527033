/* How bulk copies lay tiles out in shared memory, and the tensor maps that they copy by. */
#include "compiler/layout/layout.h"

int64_t layout_bulk_span(const Type *type) {
    enum { SPAN = 128 };
    int64_t bytes = tile_extent(type, type->rank - 1) * (dtype_bits(type->scalar) / 8);
    return bytes < SPAN ? bytes : SPAN;
}

int64_t layout_bulk_bytes(const Type *type) {
    return tile_extent(type, type->rank - 2) * tile_extent(type, type->rank - 1) * (dtype_bits(type->scalar) / 8);
}

int64_t layout_bulk_slot_bytes(const Type *type) {
    return (layout_bulk_bytes(type) + BULK_ALIGN - 1) / BULK_ALIGN * BULK_ALIGN;
}

BulkMap layout_bulk_map(const IrOp *copy) {
    const Type *slot = access_type(copy);
    const IrValue *memory = copy->operands.items[0];
    int axes[2];
    slice_axes(copy, axes);
    int64_t span = layout_bulk_span(slot);
    return (BulkMap){.param = ir_memory(copy, NULL)->index,
        .planes = ir_is_param(memory) ? 0 : (int)tile_extent(memory->type, 0),
        .row_axis = axes[0],
        .rows = (int)tile_rows(slot),
        .columns = (int)(span / (dtype_bits(slot->scalar) / 8)),
        .swizzle = (int)span};
}

static bool same_map(const BulkMap *a, const BulkMap *b) {
    return a->param == b->param && a->planes == b->planes && a->row_axis == b->row_axis && a->rows == b->rows && a->columns == b->columns &&
           a->swizzle == b->swizzle;
}

int layout_bulk_number(const BulkMaps *maps, const BulkMap *map) {
    int number = 0;
    while (number < maps->count && !same_map(&maps->items[number], map))
        number++;
    return number;
}

static void add_maps(Context *context, const IrBlock *block, BulkMaps *maps) {
    for (const IrOp *op = block->first; op; op = op->next) {
        for (int r = 0; r < op->regions.count; r++)
            add_maps(context, op->regions.items[r], maps);
        if (op->kind != OP_BULK_COPY && op->kind != OP_BULK_STORE)
            continue;
        BulkMap map = layout_bulk_map(op);
        if (layout_bulk_number(maps, &map) == maps->count)
            vec_push(context->arena, maps, map);
    }
}

BulkMaps layout_bulk_maps(Context *context, const IrKernel *kernel) {
    BulkMaps maps = {0};
    add_maps(context, kernel->body, &maps);
    return maps;
}
