/* What becomes of a contraction's sums, element by element, is done by a loop over a few rows at a time, through shared memory: there the sums wait,
 * in the room that the factors no longer need, and each turn takes its rows of them and of whatever else it reads in the layout that memory likes
 * best. In registers all at once they would be code for each element of a thread, stores of pairs, and no room for another operand.
 *
 * Requires the value level, the number of threads, and products marked by layout_bulk_mark. Preserves every bit. Takes what follows from a loop's sums,
 * marked ones or such as fill a thread's registers, where it is element-wise and ends in stores, and where what else goes into it can be had by rows: loads, what a row or a scalar is broadcast to, and
 * element-wise ops on such. */
#include "compiler/layout/layout.h"

enum { MOST_DEPTH = 16, FEW_ELEMENTS = 16, MANY_ELEMENTS = 32 }; /* elements of a turn in a thread: few where each is much code */

typedef struct Epilogue {
    Context *context;
    IrKernel *kernel;
    IrOp *loop;
    const Type *type;       /* of the sums */
    VEC(IrValue *) sources; /* that are staged: the sums, or what they are narrowed to at once */
    VEC(IrOp *) ops;        /* what follows from them, in order */
    IrOp *first_store;
    int *stores;      /* by parameter: stores to it in the kernel */
    bool *follows;    /* by IrValue.id */
    IrValue **staged; /* the same: in shared memory, */
    IrValue **parts;  /* the rows of a turn */
    int count;        /* of ids */
    int64_t rows;     /* of a turn */
    IrOp *at;         /* new ops go before it */
    IrValue *row, *zero;
} Epilogue;

/* ---- what follows ---- */

static bool has_shape(const Type *type, const Type *of) {
    return type->kind == TYPE_TILE && type->rank == 2 && tile_rows(type) == tile_rows(of) && tile_columns(type) == tile_columns(of);
}

static bool is_element_wise(OpKind kind) {
    return kind >= OP_ADD && kind <= OP_CONVERT;
}

static bool takes(const Epilogue *e, const IrOp *op) {
    bool found = false;
    for (int i = 0; !found && i < op->operands.count; i++)
        found = !ir_is_param(op->operands.items[i]) && e->follows[op->operands.items[i]->id];
    for (int r = 0; !found && r < op->regions.count; r++)
        for (const IrOp *inner = op->regions.items[r]->first; !found && inner; inner = inner->next)
            found = takes(e, inner);
    return found;
}

static bool is_before(const IrOp *op, const IrOp *other) {
    const IrOp *at = op;
    while (at && at != other)
        at = at->next;
    return at != NULL;
}

/* Whether the rows of a turn can be had of a tile that does not follow from the sums. */
static bool can_part(const Epilogue *e, const IrValue *value, int depth);

static bool can_load(const Epilogue *e, const IrOp *load) {
    const IrValue *memory = load->operands.items[0];
    if (!ir_is_param(memory) || load->results.items[0]->type->rank != 2)
        return false;
    if (!e->stores[memory->index])
        return true;
    bool is_same = false; /* rows that a turn stores are those that it has loaded */
    for (int i = 0; i < e->ops.count; i++)
        is_same |= e->ops.items[i]->kind == OP_STORE && slice_same(load, e->ops.items[i]);
    return is_same && e->stores[memory->index] == 1 && load->parent == e->loop->parent && is_before(load, e->first_store);
}

static bool can_part(const Epilogue *e, const IrValue *value, int depth) {
    const Type *type = value->type;
    const IrOp *op = value->def;
    bool is_column = type->kind == TYPE_TILE && type->rank == 2 && tile_rows(type) == tile_rows(e->type) && tile_columns(type) == 1;
    if (!op || depth == MOST_DEPTH || (!is_column && !has_shape(type, e->type)))
        return false;
    if (e->follows[value->id])
        return true;
    if (op->kind == OP_LOAD)
        return can_load(e, op);
    if (op->kind == OP_BROADCAST) {
        const Type *from = op->operands.items[0]->type;
        return from->kind == TYPE_SCALAR || tile_rows(from) == 1 || can_part(e, op->operands.items[0], depth + 1);
    }
    if (!is_element_wise(op->kind))
        return false;
    for (int i = 0; i < op->operands.count; i++)
        if (!can_part(e, op->operands.items[i], depth + 1))
            return false;
    return true;
}

static bool can_take(const Epilogue *e, const IrOp *op) {
    if (op->kind == OP_STORE)
        return ir_is_param(op->operands.items[0]) && has_shape(stored_value(op)->type, e->type) && can_part(e, stored_value(op), 0);
    if (!is_element_wise(op->kind) || !has_shape(op->results.items[0]->type, e->type))
        return false;
    for (int i = 0; i < op->operands.count; i++)
        if (!can_part(e, op->operands.items[i], 0))
            return false;
    return true;
}

static int count_uses(const IrBlock *block, const IrValue *value, IrOp **user) {
    int count = 0;
    for (IrOp *op = block->first; op; op = op->next) {
        for (int i = 0; i < op->operands.count; i++)
            if (op->operands.items[i] == value) {
                *user = op;
                count++;
            }
        for (int r = 0; r < op->regions.count; r++)
            count += count_uses(op->regions.items[r], value, user);
    }
    return count;
}

/* The sums, or what they are narrowed to where nothing else is made of them. */
static void add_source(Epilogue *e, IrValue *sum) {
    IrOp *user = NULL;
    bool narrows = count_uses(e->kernel->body, sum, &user) == 1 && user->kind == OP_CONVERT && user->parent == e->loop->parent &&
                   dtype_bits(user->results.items[0]->type->scalar) < dtype_bits(sum->type->scalar);
    IrValue *source = narrows ? user->results.items[0] : sum;
    e->follows[source->id] = true;
    vec_push(e->context->arena, &e->sources, source);
}

/* Sums that leave registers for little else. */
static bool are_many(const Epilogue *e, const IrOp *product) {
    enum { MANY_SUMS = 128 };
    const Type *type = product->results.items[0]->type;
    bool is_product = product->kind == OP_DOT || product->kind == OP_DOT_T;
    return is_product && type->rank == 2 && tile_rows(type) * tile_columns(type) >= MANY_SUMS * (int64_t)e->kernel->threads;
}

static bool find_sources(Epilogue *e) {
    const IrBlock *body = e->loop->regions.items[0];
    for (int i = 0; i < e->loop->results.count; i++) {
        IrValue *sum = e->loop->results.items[i];
        const IrOp *next = body->last->operands.items[i]->def;
        if (!next || (!layout_bulk_is_sum(next->results.items[0]) && !are_many(e, next)))
            continue;
        if (e->type && !has_shape(sum->type, e->type))
            return false;
        e->type = sum->type;
        add_source(e, sum);
    }
    return e->sources.count > 0;
}

static bool is_memory(const IrOp *op) {
    return op->regions.count || (op_info[op->kind].traits & (TRAIT_READS | TRAIT_WRITES | TRAIT_SYNC | TRAIT_THREAD));
}

/* All that follows. From the first store to the last, which are put off to the last one's place, nothing else touches memory. */
static bool find_ops(Epilogue *e) {
    const IrOp *last = NULL;
    for (IrOp *op = e->loop->next; op; op = op->next) {
        if (!takes(e, op))
            continue;
        if (op->kind != OP_STORE && op->results.count != 1)
            return false;
        vec_push(e->context->arena, &e->ops, op);
        last = op;
        if (op->kind == OP_STORE && !e->first_store)
            e->first_store = op;
        if (op->kind != OP_STORE)
            e->follows[op->results.items[0]->id] = true;
    }
    if (!e->first_store)
        return false;
    for (int i = 0; i < e->ops.count; i++)
        if (!can_take(e, e->ops.items[i]) || (e->ops.items[i]->kind == OP_STORE && e->stores[e->ops.items[i]->operands.items[0]->index] != 1))
            return false;
    for (const IrOp *op = e->first_store; op != last; op = op->next)
        if (is_memory(op) && !takes(e, op))
            return false;
    return true;
}

/* ---- the loop over rows ---- */

static IrOp *make(Epilogue *e, OpKind kind, Span span, IrValue *const *operands, int count, const Type *type) {
    IrBlock nowhere = {0};
    IrOp *op = ir_append(e->context, &nowhere, kind, span, operands, count, &type, type ? 1 : 0);
    op->parent = NULL;
    op->prev = op->next = NULL;
    ir_insert_before(e->at, op);
    return op;
}

static const Type *type_i64(const Epilogue *e) {
    return type_scalar(e->context->types, PHB_I64);
}

static IrValue *make_int(Epilogue *e, int64_t number) {
    IrOp *op = make(e, OP_CONST, e->loop->span, NULL, 0, type_i64(e));
    op->bits = (uint64_t)number;
    return op->results.items[0];
}

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
    return make(e, OP_ADD, offset->def ? offset->def->span : e->loop->span, operands, 2, type_i64(e))->results.items[0];
}

/* A load or store of a turn's rows: `count` operands, of which the offset of the rows is a turn's further. */
static IrOp *access_rows(Epilogue *e, const IrOp *access, IrValue **operands, int count, const Type *type) {
    int axes[2];
    slice_axes(access, axes);
    operands[1 + axes[0]] = row_offset(e, operands[1 + axes[0]]);
    IrOp *op = make(e, access->kind, access->span, operands, count, type);
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
        IrOp *load = make(e, OP_LOAD, e->loop->span, slice, 3, type);
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
    IrOp *op = make(e, def->kind, def->span, operands, def->operands.count, type);
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
        e->staged[sum->id] = make(e, OP_STAGE, e->loop->span, &sum, 1, memory)->results.items[0];
    }
    make(e, OP_BARRIER, e->loop->span, NULL, 0, NULL);
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
    e->zero = make_int(e, 0);
    IrValue *range[3] = {e->zero, make_int(e, tile_rows(e->type)), make_int(e, e->rows)};
    IrOp *loop = make(e, OP_FOR, e->loop->span, range, 3, NULL);
    IrBlock *body = ir_region_new(e->context, loop);
    e->row = ir_block_arg(e->context, body, type_i64(e), NULL);
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

/* ---- everywhere ---- */

static int64_t staged_bytes(const Epilogue *e) {
    int64_t bytes = 0;
    for (int i = 0; i < e->sources.count; i++) {
        const Type *type = e->sources.items[i]->type;
        bytes += layout_pitch(type) * tile_rows(type);
    }
    return bytes;
}

static void count_stores(const IrBlock *block, int *stores) {
    for (const IrOp *op = block->first; op; op = op->next) {
        if ((op_info[op->kind].traits & TRAIT_WRITES) && ir_is_param(op->operands.items[0]))
            stores[op->operands.items[0]->index]++;
        for (int r = 0; r < op->regions.count; r++)
            count_stores(op->regions.items[r], stores);
    }
}

static bool take_block(Context *context, IrKernel *kernel, IrBlock *block, const LayoutLimits *limits) {
    bool changed = false;
    for (IrOp *op = block->first; op; op = op->next) {
        for (int r = 0; r < op->regions.count; r++)
            changed |= take_block(context, kernel, op->regions.items[r], limits);
        Epilogue epilogue = {.context = context, .kernel = kernel, .loop = op}, *e = &epilogue;
        if (op->kind != OP_FOR)
            continue;
        e->count = ir_number(kernel);
        e->stores = NEW_ARRAY(context->arena, int, kernel->signature.params.count + 1);
        e->follows = NEW_ARRAY(context->arena, bool, e->count + 1);
        e->staged = NEW_ARRAY(context->arena, IrValue *, e->count + 1);
        e->parts = NEW_ARRAY(context->arena, IrValue *, e->count + 1);
        count_stores(kernel->body, e->stores);
        if (!find_sources(e) || !find_ops(e) || staged_bytes(e) > limits->shared_bytes)
            continue;
        make_loop(e);
        changed = true;
    }
    return changed;
}

void layout_epilogue(Context *context, IrKernel *kernel, const LayoutLimits *limits) {
    if (take_block(context, kernel, kernel->body, limits))
        ir_dce(context, kernel); /* whole tiles that nobody wants any more */
}
