/* What becomes of a contraction's sums, element by element, is done a part at a time. In registers all at once it would be code for each element of a
 * thread, stores of pairs, and no room for another operand. By columns (epilogue_columns.c) where bulk stores can take the results, else by rows
 * (epilogue_rows.c).
 *
 * Requires the value level, the number of threads, and products marked by layout_bulk_mark. Preserves every bit. Takes what follows from a loop's sums,
 * marked ones or such as fill a thread's registers, where it is element-wise and ends in stores, and where what else goes into it can be had by parts:
 * loads, what a row or a scalar is broadcast to, and
 * element-wise ops on such. */
#include "compiler/layout/layout.h"

enum { MOST_DEPTH = 16 };

/* ---- what follows ---- */

bool epilogue_has_shape(const Type *type, const Type *of) {
    return type->kind == TYPE_TILE && type->rank == 2 && tile_rows(type) == tile_rows(of) && tile_columns(type) == tile_columns(of);
}

bool epilogue_is_element_wise(OpKind kind) {
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
    if (!op || depth == MOST_DEPTH || (!is_column && !epilogue_has_shape(type, e->type)))
        return false;
    if (e->follows[value->id])
        return true;
    if (op->kind == OP_LOAD)
        return can_load(e, op);
    if (op->kind == OP_BROADCAST) {
        const Type *from = op->operands.items[0]->type;
        return from->kind == TYPE_SCALAR || tile_rows(from) == 1 || can_part(e, op->operands.items[0], depth + 1);
    }
    if (!epilogue_is_element_wise(op->kind))
        return false;
    for (int i = 0; i < op->operands.count; i++)
        if (!can_part(e, op->operands.items[i], depth + 1))
            return false;
    return true;
}

static bool can_take(const Epilogue *e, const IrOp *op) {
    if (op->kind == OP_STORE)
        return ir_is_param(op->operands.items[0]) && epilogue_has_shape(stored_value(op)->type, e->type) && can_part(e, stored_value(op), 0);
    if (!epilogue_is_element_wise(op->kind) || !epilogue_has_shape(op->results.items[0]->type, e->type))
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
        e->has_chains |= next->kind != OP_WGMMA && next->kind != OP_WGMMA_T;
        if (e->type && !epilogue_has_shape(sum->type, e->type))
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

/* ---- making ops ---- */

IrOp *epilogue_op(Epilogue *e, OpKind kind, Span span, IrValue *const *operands, int count, const Type *type) {
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

IrValue *epilogue_int(Epilogue *e, int64_t number) {
    IrOp *op = epilogue_op(e, OP_CONST, e->loop->span, NULL, 0, type_i64(e));
    op->bits = (uint64_t)number;
    return op->results.items[0];
}

/* ---- everywhere ---- */

static void count_stores(const IrBlock *block, int *stores) {
    for (const IrOp *op = block->first; op; op = op->next) {
        if ((op_info[op->kind].traits & TRAIT_WRITES) && ir_is_param(op->operands.items[0]))
            stores[op->operands.items[0]->index]++;
        for (int r = 0; r < op->regions.count; r++)
            count_stores(op->regions.items[r], stores);
    }
}

/* *stays: of a loop whose CTAs go on to further blocks; there is no other one then. */
static bool take_block(Context *context, IrKernel *kernel, IrBlock *block, const LayoutLimits *limits, Epilogue *stays) {
    bool changed = false;
    for (IrOp *op = block->first; op; op = op->next) {
        for (int r = 0; r < op->regions.count; r++)
            changed |= take_block(context, kernel, op->regions.items[r], limits, stays);
        Epilogue epilogue = {.context = context, .kernel = kernel, .loop = op}, *e = &epilogue;
        if (op->kind != OP_FOR)
            continue;
        e->count = ir_number(kernel);
        e->stores = NEW_ARRAY(context->arena, int, kernel->signature.params.count + 1);
        e->follows = NEW_ARRAY(context->arena, bool, e->count + 1);
        e->staged = NEW_ARRAY(context->arena, IrValue *, e->count + 1);
        e->parts = NEW_ARRAY(context->arena, IrValue *, e->count + 1);
        count_stores(kernel->body, e->stores);
        if (find_sources(e) && find_ops(e))
            changed |= (!e->has_chains && epilogue_columns(e, limits)) || epilogue_rows(e, limits);
        if (e->stays)
            *stays = epilogue;
    }
    return changed;
}

void layout_epilogue(Context *context, IrKernel *kernel, const LayoutLimits *limits) {
    Epilogue stays = {0};
    if (take_block(context, kernel, kernel->body, limits, &stays))
        ir_dce(context, kernel); /* whole tiles that nobody wants any more */
    if (stays.stays)
        layout_tiles(context, kernel, stays.parity, stays.loop->span);
}
