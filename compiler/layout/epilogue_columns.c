/* The epilogue by columns: each part of the sums, as many columns as a bulk store's rows have bytes, goes from the registers that the products left it
 * in, through what follows, to a swizzled slot in shared memory, and from there one thread has it stored by a tensor map, which leaves out what lies
 * beyond the tensor's edge. While a part is read from its slot the threads make the next one.
 *
 * Takes stores along the last axis of tensors. Rows are loaded a part at a time, columns are there as a whole. Whole tiles that are loaded, of the
 * tensor that is stored to, say, come by bulk copies to slots, the first parts' while the products go on: where the CTA stays, so that there is room. */
#include "compiler/layout/layout.h"

#include <string.h>

enum { MOST_DEPTH = 16, SPAN_BYTES = 128, LEAST_BYTES = 32, MOST_BOX = 256 };

typedef struct Columns {
    Epilogue *e;
    int64_t columns; /* of a part */
    int64_t first;   /* of the part at hand */
    int slots;       /* of each store's ring */
    int stores;      /* of a part */
    bool stays;      /* the CTA goes on to further blocks of the grid */
    VEC(IrValue *) rings; /* by the number of the store, then by that of the load */
    IrOps loads;          /* of whole tiles, */
    IrOps rows;           /* and of rows, */
    VEC(IrValue *) ahead; /* the next parts of which these are */
    IrValue *mbarriers;   /* one for each part of what is loaded */
} Columns;

/* ---- what it can take ---- */

static bool is_row(const Epilogue *e, const Type *type) {
    return type->kind == TYPE_TILE && tile_rows(type) == 1 && tile_columns(type) == tile_columns(e->type);
}

static bool is_column(const Epilogue *e, const Type *type) {
    return type->kind == TYPE_TILE && type->rank == 2 && tile_columns(type) == 1 && tile_rows(type) == tile_rows(e->type);
}

static bool can_have(Columns *c, const IrValue *value, int depth);

static bool can_have_operands(Columns *c, const IrOp *op, int depth) {
    bool can = true;
    for (int i = 0; can && i < op->operands.count; i++)
        can = can_have(c, op->operands.items[i], depth + 1);
    return can;
}

static bool note_load(Columns *c, IrOps *loads, const IrOp *load) {
    for (int i = 0; i < loads->count; i++)
        if (loads->items[i] == load)
            return true;
    vec_push(c->e->context->arena, loads, load);
    return true;
}

/* Its offsets are there before the loop. */
static bool is_known(const Columns *c, const IrOp *load) {
    int known = 0;
    for (int i = 1; i < load->operands.count; i++) {
        bool found = ir_is_param(load->operands.items[i]);
        for (const IrOp *op = c->e->loop->prev; !found && op; op = op->prev)
            found = op == load->operands.items[i]->def;
        known += found;
    }
    return known == load->operands.count - 1;
}

/* The store that a load of a whole tile is of the same slice as; NULL: of none. */
static const IrOp *find_store(const Columns *c, const IrOp *load) {
    const IrOp *found = NULL;
    for (int i = 0; !found && i < c->e->ops.count; i++)
        if (c->e->ops.items[i]->kind == OP_STORE && slice_same(load, c->e->ops.items[i]))
            found = c->e->ops.items[i];
    return found;
}

/* Boxes of it can be copied while the loop runs. Of what the kernel stores to, it can be the slice alone that is stored then. */
static bool can_load(Columns *c, const IrOp *load) {
    const IrValue *tensor = load->operands.items[0];
    int axes[2];
    if (!ir_is_param(tensor) || (c->e->stores[tensor->index] && !find_store(c, load)))
        return false;
    slice_axes(load, axes);
    return axes[1] == tensor->type->rank - 1 && is_known(c, load) && tile_rows(c->e->type) <= MOST_BOX && note_load(c, &c->loads, load);
}

/* Whether parts of the value can be had: it follows from the sums, is loaded, or made of such; or is no wider than an element. */
static bool can_have(Columns *c, const IrValue *value, int depth) {
    const Epilogue *e = c->e;
    const IrOp *op = value->def;
    if (value->type->kind != TYPE_TILE || is_column(e, value->type) || (tile_rows(value->type) == 1 && tile_columns(value->type) == 1))
        return true;
    if (!op || depth == MOST_DEPTH || (!is_row(e, value->type) && !epilogue_has_shape(value->type, e->type)))
        return false;
    if (op == e->loop)
        return true;
    if (op->kind == OP_LOAD && !is_row(e, value->type))
        return can_load(c, op);
    if (op->kind == OP_LOAD)
        return ir_is_param(op->operands.items[0]) && !e->stores[op->operands.items[0]->index] && note_load(c, &c->rows, op);
    return (op->kind == OP_BROADCAST || epilogue_is_element_wise(op->kind)) && can_have_operands(c, op, depth);
}

static int64_t element_bytes(const IrValue *value) {
    return dtype_bits(value->type->scalar) / 8;
}

/* Other loads of a tensor would have to wait for what is stored to it behind the threads' backs. */
static bool is_loaded(const IrBlock *block, const IrOp *store) {
    bool found = false;
    for (const IrOp *op = block->first; !found && op; op = op->next) {
        found = (op_info[op->kind].traits & TRAIT_READS) && op->operands.items[0] == store->operands.items[0] && !slice_same(op, store);
        for (int r = 0; !found && r < op->regions.count; r++)
            found = is_loaded(op->regions.items[r], store);
    }
    return found;
}

static bool can_store(Columns *c, const IrOp *store) {
    int axes[2];
    slice_axes(store, axes);
    return axes[1] == store->operands.items[0]->type->rank - 1 && tile_rows(c->e->type) <= MOST_BOX && can_have(c, stored_value(store), 0) &&
           !is_loaded(c->e->kernel->body, store);
}

/* Of the widest element that goes through a slot. */
static int64_t widest_bytes(const Columns *c) {
    int64_t widest = 0;
    for (int i = 0; i < c->e->ops.count; i++) {
        const IrOp *op = c->e->ops.items[i];
        if (op->kind == OP_STORE && element_bytes(stored_value(op)) > widest)
            widest = element_bytes(stored_value(op));
    }
    for (int i = 0; i < c->loads.count; i++)
        if (element_bytes(c->loads.items[i]->results.items[0]) > widest)
            widest = element_bytes(c->loads.items[i]->results.items[0]);
    return widest;
}

/* Rows of so many columns, in every slot, are as wide as what is swizzled. */
static bool can_swizzle(const Columns *c, int64_t columns) {
    bool can = true;
    for (int i = 0; can && i < c->e->ops.count; i++)
        can = c->e->ops.items[i]->kind != OP_STORE || columns * element_bytes(stored_value(c->e->ops.items[i])) >= LEAST_BYTES;
    for (int i = 0; can && i < c->loads.count; i++)
        can = columns * element_bytes(c->loads.items[i]->results.items[0]) >= LEAST_BYTES;
    return can;
}

static bool choose_columns(Columns *c) {
    bool can = true;
    for (int i = 0; can && i < c->e->ops.count; i++)
        can = c->e->ops.items[i]->kind != OP_STORE || can_store(c, c->e->ops.items[i]);
    c->columns = SPAN_BYTES / widest_bytes(c);
    if (c->columns > tile_columns(c->e->type))
        c->columns = tile_columns(c->e->type);
    return can && can_swizzle(c, c->columns);
}

/* ---- parts ---- */

static const Type *part_type(const Columns *c, const Type *type) {
    const Dim *dims[2] = {type->dims[0], type->dims[type->rank - 1]};
    dims[type->rank - 1] = dim_int(c->e->context->dims, c->columns);
    return type_shaped(c->e->context->types, type->kind, type->scalar, type->rank, dims);
}

/* The slice's axis along which the part's columns run. */
static int column_axis(const IrOp *access) {
    int axes[2];
    slice_axes(access, axes);
    return axes[access_type(access)->rank - 1];
}

/* `access` with the operands given, of which the offset along the columns becomes the part's. */
static IrOp *access_part(Columns *c, const IrOp *access, OpKind kind, IrValue **operands, int count, const Type *type) {
    Epilogue *e = c->e;
    int axis = column_axis(access);
    IrValue *sum[2] = {operands[1 + axis], epilogue_int(e, c->first)};
    operands[1 + axis] = epilogue_op(e, OP_ADD, access->span, sum, 2, type_scalar(e->context->types, PHB_I64))->results.items[0];
    IrOp *op = epilogue_op(e, kind, access->span, operands, count, type);
    ir_copy_attributes(op, access);
    op->extent[axis] = dim_int(e->context->dims, c->columns);
    return op;
}

static IrValue *make_slot(Columns *c, IrValue *ring, int64_t part) {
    Epilogue *e = c->e;
    const Type *type = type_shaped(e->context->types, TYPE_SHARED, ring->type->scalar, 2, ring->type->dims + 1);
    return epilogue_op(e, OP_SLOT, e->loop->span, (IrValue *[]){ring, epilogue_int(e, part % c->slots)}, 2, type)->results.items[0];
}

/* What is stored to the slice that is loaded takes the slots of what was loaded. */
static IrValue *load_ring(const Columns *c, const IrOp *load) {
    const IrOp *store = find_store(c, load);
    int number = 0, own = c->stores;
    for (int i = 0; store && c->e->ops.items[i] != store; i++)
        number += c->e->ops.items[i]->kind == OP_STORE;
    for (int i = 0; !store && c->loads.items[i] != load; i++)
        own += !find_store(c, c->loads.items[i]);
    return c->rings.items[store ? number : own];
}

static IrValue *part_of(Columns *c, IrValue *value);

static IrValue *make_part(Columns *c, IrValue *value) {
    Epilogue *e = c->e;
    IrOp *def = value->def;
    const Type *type = part_type(c, value->type);
    IrValue *operands[PHB_MAX_RANK + 1];
    if (def == e->loop) {
        IrOp *part = epilogue_op(e, OP_PART, e->loop->span, &value, 1, type);
        part->dim = dim_int(e->context->dims, c->first);
        return part->results.items[0];
    }
    if (def->kind == OP_LOAD) {
        IrValue *slot = make_slot(c, load_ring(c, def), c->first / c->columns);
        return epilogue_op(e, OP_BULK_GET, def->span, &slot, 1, type)->results.items[0];
    }
    for (int i = 0; i < def->operands.count; i++)
        operands[i] = part_of(c, def->operands.items[i]);
    IrOp *op = epilogue_op(e, def->kind, def->span, operands, def->operands.count, type);
    ir_copy_attributes(op, def);
    return op->results.items[0];
}

static IrValue *part_of(Columns *c, IrValue *value) {
    if (value->type->kind != TYPE_TILE || tile_columns(value->type) == 1)
        return value;
    if (!c->e->parts[value->id])
        c->e->parts[value->id] = make_part(c, value);
    return c->e->parts[value->id];
}

/* Loads of rows for the part from column c->first on. They are begun a part early, so that nobody waits for them. */
static void load_rows(Columns *c) {
    c->ahead.count = 0;
    for (int i = 0; i < c->rows.count; i++) {
        const IrOp *load = c->rows.items[i];
        IrValue *operands[PHB_MAX_RANK + 1];
        for (int k = 0; k < load->operands.count; k++)
            operands[k] = load->operands.items[k];
        IrOp *op = access_part(c, load, OP_LOAD, operands, load->operands.count, part_type(c, load->results.items[0]->type));
        vec_push(c->e->context->arena, &c->ahead, op->results.items[0]);
    }
}

/* The first part's, before the loop where that can be. */
static void begin_rows(Columns *c) {
    IrOp *at = c->e->at;
    bool known = true;
    for (int i = 0; i < c->rows.count; i++)
        known = known && is_known(c, c->rows.items[i]);
    c->e->at = known ? c->e->loop : at;
    load_rows(c);
    c->e->at = at;
}

static void take_rows(Columns *c) {
    for (int i = 0; i < c->rows.count; i++)
        c->e->parts[c->rows.items[i]->results.items[0]->id] = c->ahead.items[i];
    c->first += c->columns;
    if (c->first < tile_columns(c->e->type))
        load_rows(c);
    c->first -= c->columns;
}

/* ---- slots and stores ---- */

static void make_ring(Columns *c, const Type *whole, Span span) {
    Epilogue *e = c->e;
    const Type *tile = part_type(c, whole);
    const Dim *dims[3] = {dim_int(e->context->dims, c->slots), tile->dims[0], tile->dims[1]};
    const Type *type = type_shaped(e->context->types, TYPE_SHARED, tile->scalar, 3, dims);
    vec_push(e->context->arena, &c->rings, epilogue_op(e, OP_BULK_RING, span, NULL, 0, type)->results.items[0]);
}

static void make_rings(Columns *c) {
    Epilogue *e = c->e;
    for (int i = 0; i < e->ops.count; i++)
        if (e->ops.items[i]->kind == OP_STORE)
            make_ring(c, stored_value(e->ops.items[i])->type, e->ops.items[i]->span);
    c->stores = c->rings.count;
    for (int i = 0; i < c->loads.count; i++)
        if (!find_store(c, c->loads.items[i]))
            make_ring(c, c->loads.items[i]->results.items[0]->type, c->loads.items[i]->span);
    const Dim *parts = dim_int(e->context->dims, tile_columns(e->type) / c->columns);
    if (c->loads.count)
        c->mbarriers = epilogue_op(e, OP_MBARRIERS, e->loop->span, NULL, 0, type_shaped(e->context->types, TYPE_SHARED, PHB_I64, 1, &parts))->results.items[0];
}

/* Part `part` of what is loaded to its slots, where the bool is true. */
static void load_part(Columns *c, int64_t part, IrValue *is_there) {
    Epilogue *e = c->e;
    int64_t bytes = 0, first = c->first;
    for (int i = 0; i < c->loads.count; i++)
        bytes += layout_bulk_bytes(part_type(c, c->loads.items[i]->results.items[0]->type));
    IrValue *number = epilogue_int(e, part), *expected[3] = {c->mbarriers, number, is_there};
    epilogue_op(e, OP_MBARRIER_EXPECT, e->loop->span, expected, 3, NULL)->dim = dim_int(e->context->dims, bytes);
    c->first = part * c->columns;
    for (int i = 0; i < c->loads.count; i++) {
        const IrOp *load = c->loads.items[i];
        IrValue *operands[PHB_MAX_RANK + 5];
        int count = load->operands.count;
        for (int k = 0; k < count; k++)
            operands[k] = load->operands.items[k];
        operands[count] = make_slot(c, load_ring(c, load), part);
        operands[count + 1] = c->mbarriers;
        operands[count + 2] = number;
        operands[count + 3] = is_there;
        access_part(c, load, OP_BULK_COPY, operands, count + 4, NULL);
    }
    c->first = first;
}

static void make_wait(Columns *c, int left) {
    epilogue_op(c->e, OP_BULK_STORE_WAIT, c->e->loop->span, NULL, 0, NULL)->dim = dim_int(c->e->context->dims, left);
}

static void make_barrier(Columns *c) {
    epilogue_op(c->e, OP_BARRIER, c->e->loop->span, NULL, 0, NULL);
}

static IrValue *make_bool(Columns *c, OpKind kind, IrValue *x, IrValue *y) {
    return epilogue_op(c->e, kind, c->e->loop->span, (IrValue *[]){x, y}, 2, type_scalar(c->e->context->types, PHB_BOOL))->results.items[0];
}

static IrValue *make_true(Columns *c) {
    IrOp *op = epilogue_op(c->e, OP_CONST, c->e->loop->span, NULL, 0, type_scalar(c->e->context->types, PHB_BOOL));
    op->bits = 1;
    return op->results.items[0];
}

static IrValue *put_part(Columns *c, const IrOp *store, IrValue *ring) {
    IrValue *tile = part_of(c, store->operands.items[store->operands.count - 1]);
    IrValue *put[2] = {tile, make_slot(c, ring, c->first / c->columns)};
    epilogue_op(c->e, OP_BULK_PUT, store->span, put, 2, NULL);
    return put[1];
}

static void store_part(Columns *c, const IrOp *store, IrValue *slot) {
    IrValue *operands[PHB_MAX_RANK + 2];
    for (int i = 0; i < store->operands.count; i++)
        operands[i] = store->operands.items[i];
    operands[store->operands.count - 1] = slot;
    access_part(c, store, OP_BULK_STORE, operands, store->operands.count, NULL);
}

/* Behind a part's barrier the slots of the next part are free: their thread has waited for what has been read of them; with loads, those of the part
 * after it as well, so that there is time for them to come. */
static int left_parts(const Columns *c) {
    int busy = c->loads.count ? 3 : 2;
    return c->slots > busy ? c->slots - busy : 0;
}

static void wait_for_loads(Columns *c) {
    IrValue *wait[3] = {c->mbarriers, epilogue_int(c->e, c->first / c->columns), c->e->parity};
    epilogue_op(c->e, OP_MBARRIER_WAIT, c->e->loop->span, wait, 3, NULL);
}

static void make_parts(Columns *c) {
    Epilogue *e = c->e;
    VEC(IrValue *) slots = {0};
    int64_t part = c->first / c->columns, parts = tile_columns(e->type) / c->columns, refilled = part + c->slots - 1 - left_parts(c);
    memset(e->parts, 0, sizeof *e->parts * (size_t)(e->count + 1));
    take_rows(c);
    if (c->loads.count)
        wait_for_loads(c);
    for (int i = 0; i < e->ops.count; i++) {
        if (e->ops.items[i]->kind != OP_STORE)
            continue;
        IrValue *slot = put_part(c, e->ops.items[i], c->rings.items[slots.count]);
        vec_push(e->context->arena, &slots, slot);
    }
    if (part > 0 && refilled >= c->slots && part + 1 < parts)
        make_wait(c, left_parts(c) * c->stores);
    make_barrier(c);
    for (int i = 0, next = 0; i < e->ops.count; i++)
        if (e->ops.items[i]->kind == OP_STORE)
            store_part(c, e->ops.items[i], slots.items[next++]);
    if (c->loads.count && refilled >= c->slots && refilled < parts)
        load_part(c, refilled, make_true(c));
}

/* The first parts are loaded in the loop's first turn, behind its products; where it has none, behind it. */
static void begin_loads(Columns *c) {
    Epilogue *e = c->e;
    IrOp *at = e->at;
    IrBlock *body = e->loop->regions.items[0];
    IrValue *start = e->loop->operands.items[0];
    e->at = body->last;
    make_wait(c, 0);
    IrValue *is_first = make_bool(c, OP_EQ, body->args.items[0], start);
    for (int64_t part = 0; part < c->slots; part++)
        load_part(c, part, is_first);
    e->at = at;
    IrValue *is_none = make_bool(c, OP_LE, e->loop->operands.items[1], start);
    for (int64_t part = 0; part < c->slots; part++)
        load_part(c, part, is_none);
}

/* In a loop of the kernel's the next turn's stores come behind this one's; a CTA that stays waits for what it has stored when it comes to store again. */
static void end_stores(Columns *c) {
    if (c->stays)
        return;
    if (c->e->loop->parent->owner)
        epilogue_op(c->e, OP_BULK_STORE_DONE, c->e->loop->span, NULL, 0, NULL);
    else
        make_wait(c, 0);
}

static int64_t slots_bytes(const Columns *c) {
    int64_t bytes = 0;
    for (int i = 0; i < c->e->ops.count; i++)
        if (c->e->ops.items[i]->kind == OP_STORE)
            bytes += layout_bulk_slot_bytes(part_type(c, stored_value(c->e->ops.items[i])->type)) * c->slots;
    for (int i = 0; i < c->loads.count; i++)
        if (!find_store(c, c->loads.items[i]))
            bytes += layout_bulk_slot_bytes(part_type(c, c->loads.items[i]->results.items[0]->type)) * c->slots;
    return bytes;
}

static int64_t mbarriers_bytes(const Columns *c) {
    int64_t bytes = tile_columns(c->e->type) / c->columns * (int64_t)sizeof(int64_t);
    return c->loads.count ? bytes : 0;
}

/* Slots beside the rings, where the CTA is to stay: few, each as wide as leaves four of them. */
static bool choose_few(Columns *c, const LayoutLimits *limits) {
    enum { ROOM = 32 << 10, WANTED = 4, LEAST_SPAN = 64 };
    int64_t columns = c->columns;
    if (!layout_tiles_can(c->e->kernel, c->e->loop))
        return false;
    for (c->slots = 1; slots_bytes(c) * 2 <= ROOM && c->slots < WANTED;)
        c->slots *= 2;
    while (c->slots < WANTED && c->columns * widest_bytes(c) > LEAST_SPAN && can_swizzle(c, c->columns / 2)) {
        c->columns /= 2;
        c->slots *= 2;
    }
    if (c->slots > tile_columns(c->e->type) / c->columns)
        c->slots = (int)(tile_columns(c->e->type) / c->columns);
    bool suffice = c->slots > 1 || c->columns == tile_columns(c->e->type);
    c->stays = suffice && layout_bulk_stays(c->e->context, c->e->kernel, c->e->loop, limits, slots_bytes(c) + mbarriers_bytes(c));
    if (!c->stays)
        c->columns = columns;
    return c->stays;
}

bool epilogue_columns(Epilogue *e, const LayoutLimits *limits) {
    Columns columns = {.e = e}, *c = &columns;
    if (!choose_columns(c))
        return false;
    if (!choose_few(c, limits) && c->loads.count)
        return false;
    if (!c->stays)
        c->slots = (int)(tile_columns(e->type) / c->columns);
    if (slots_bytes(c) > limits->shared_bytes)
        return false;
    e->at = e->ops.items[e->ops.count - 1]->next;
    make_rings(c);
    begin_rows(c);
    e->parity = epilogue_int(e, 0); /* layout_tiles makes it that of the block */
    if (c->stays) {
        make_wait(c, 0);
        make_barrier(c);
    }
    if (c->loads.count)
        begin_loads(c);
    for (; c->first < tile_columns(e->type); c->first += c->columns)
        make_parts(c);
    end_stores(c);
    for (int i = e->ops.count - 1; i >= 0; i--)
        ir_remove(e->ops.items[i]);
    e->stays = c->stays;
    return true;
}
