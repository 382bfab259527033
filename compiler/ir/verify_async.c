/* What runs behind the threads' backs: bulk copies, the mbarriers that tell of them, and matrix instructions of four warps. Each op by itself, and
 * that nobody reads what is not waited for. */
#include "compiler/ir/verify.h"

#include <string.h>

enum { WARPGROUP = 128, ROW_BYTES = 128, CORE_ROWS = 8, STEP_BYTES = 32, LEAST_BYTES = 32 };

static const IrValue *operand_from_end(const IrOp *op, int index) {
    return op->operands.items[op->operands.count - index];
}

static bool is_of(const IrValue *value, OpKind kind) {
    return value->def && value->def->kind == kind;
}

static bool check_scalar(Verifier *v, const IrValue *value, PhbDType scalar, const char *what) {
    return (value->type->kind == TYPE_SCALAR && value->type->scalar == scalar) ||
           verify_broken(v, "%s is of type '%s', found '%s'", what, dtype_name(scalar), verify_type_text(v, value->type));
}

/* The operand `index`, and behind it the number of one. */
static bool check_mbarrier(Verifier *v, const IrOp *op, int index, OpKind kind) {
    if (!is_of(op->operands.items[index], kind))
        return verify_broken(v, "operand %d is no '%s'", index + 1, op_info[kind].text);
    return check_scalar(v, op->operands.items[index + 1], PHB_I64, "an mbarrier's number");
}

static bool check_parity(Verifier *v, const IrOp *op, OpKind kind) {
    return check_mbarrier(v, op, 0, kind) && check_scalar(v, op->operands.items[2], PHB_I64, "a parity");
}

static bool check_ring(Verifier *v, const Type *type) {
    int64_t rows, columns;
    if (type->kind != TYPE_SHARED || type->rank != 3 || !dim_is_int(type->dims[1], &rows) || !dim_is_int(type->dims[2], &columns))
        return verify_broken(v, "a ring is shared memory of rank 3, found '%s'", verify_type_text(v, type));
    int64_t bytes = columns * (dtype_bits(type->scalar) / 8);
    bool fits = bytes >= LEAST_BYTES && (bytes < ROW_BYTES ? (bytes & (bytes - 1)) == 0 : bytes % ROW_BYTES == 0);
    return (fits && rows % CORE_ROWS == 0) || verify_broken(v, "no tile of '%s' can be swizzled", verify_type_text(v, type));
}

static bool check_planes(Verifier *v, const IrOp *op) {
    const IrValue *tensor = op->operands.items[0];
    const Type *planes = op->results.items[0]->type;
    int64_t count;
    bool fits = ir_is_param(tensor) && tensor->type->kind == TYPE_TENSOR && planes->kind == TYPE_TENSOR && planes->rank == tensor->type->rank + 1 &&
                dim_is_int(planes->dims[0], &count) && count > 0;
    for (int axis = 1; fits && axis < planes->rank; axis++)
        fits = verify_same_extent(v, planes->dims[axis], tensor->type->dims[axis - 1]);
    return fits || verify_broken(v, "a '%s' are no planes of operand 1", verify_type_text(v, planes));
}

static bool check_mbarriers(Verifier *v, const Type *type) {
    return (type->kind == TYPE_SHARED && type->rank == 1 && type->scalar == PHB_I64) ||
           verify_broken(v, "mbarriers are 'shared<i64>' of rank 1, found '%s'", verify_type_text(v, type));
}

static bool check_expect(Verifier *v, const IrOp *op) {
    int64_t bytes;
    if (!op->dim || !dim_is_int(op->dim, &bytes) || bytes <= 0)
        return verify_broken(v, "the number of bytes is missing");
    return check_mbarrier(v, op, 0, OP_MBARRIERS) && check_scalar(v, op->operands.items[2], PHB_BOOL, "a condition");
}

static bool is_bulk_slot(const IrValue *value) {
    return is_of(value, OP_SLOT) && is_of(value->def->operands.items[0], OP_BULK_RING);
}

bool verify_bulk_copy(Verifier *v, const IrOp *op, const Type *slice) {
    const IrValue *slot = operand_from_end(op, ir_values_stored(op->kind));
    if (op->operands.items[0]->type->kind != TYPE_TENSOR)
        return verify_broken(v, "'%s' is of a tensor", op_info[op->kind].text);
    bool fits = is_bulk_slot(slot) && slice->kind == TYPE_TILE && slice->rank == 2 &&
                slot->type->scalar == slice->scalar && verify_same_extent(v, slot->type->dims[0], slice->dims[0]) &&
                verify_same_extent(v, slot->type->dims[1], slice->dims[1]);
    if (!fits)
        return verify_broken(v, "the slice is a '%s', and '%s' no slot for it", verify_type_text(v, slice), verify_type_text(v, slot->type));
    if (op->kind == OP_BULK_STORE)
        return true;
    return check_mbarrier(v, op, op->operands.count - 3, OP_MBARRIERS) && check_scalar(v, operand_from_end(op, 1), PHB_BOOL, "a condition");
}

/* Laid out as an accumulator of four warps, all warps of the CTA in use. */
static bool has_layout(const Verifier *v, const Type *type) {
    int64_t rows, columns;
    Layout expected;
    return v->threads % WARPGROUP == 0 && dim_is_int(type->dims[0], &rows) && dim_is_int(type->dims[1], &columns) &&
           layout_wgmma(rows, columns, type->layout->warps, &expected) && layout_same(&expected, type->layout) && 32 << expected.warps == v->threads;
}

static bool check_wgmma(Verifier *v, const IrOp *op) {
    const Type *result = op->results.items[0]->type, *a = op->operands.items[0]->type;
    int64_t k;
    for (int i = 0; i < 2; i++) {
        const IrValue *factor = op->operands.items[i];
        bool is_tile = i == 0 && factor->type->kind == TYPE_TILE;
        if (!is_tile && !is_bulk_slot(factor))
            return verify_broken(v, "factor %d lies in no slot of a bulk ring", i + 1);
        if (is_tile && !has_layout(v, factor->type))
            return verify_broken(v, "the first factor, '%s', is not laid out like an accumulator", verify_type_text(v, factor->type));
    }
    if (!has_layout(v, result))
        return verify_broken(v, "'%s' is not laid out as matrix instructions of four warps have it", verify_type_text(v, result));
    return (dtype_bits(a->scalar) == 16 && dim_is_int(a->dims[1], &k) && k * 2 % STEP_BYTES == 0) ||
           verify_broken(v, "'%s' is no factor of such an instruction", verify_type_text(v, a));
}

static bool check_left(Verifier *v, const IrOp *op, const char *what) {
    int64_t left;
    return (op->dim && dim_is_int(op->dim, &left) && left >= 0) || verify_broken(v, "how many %s may be left is missing", what);
}

static bool check_wait(Verifier *v, const IrOp *op) {
    if (!check_left(v, op, "groups"))
        return false;
    return op->operands.items[0]->type == op->results.items[0]->type || verify_broken(v, "operand and result are of different types");
}

static bool check_slot_of(Verifier *v, const Type *tile, const IrValue *value) {
    const Type *slot = value->type;
    bool fits = is_bulk_slot(value) && tile->kind == TYPE_TILE && tile->rank == 2 && tile->scalar == slot->scalar &&
                verify_same_extent(v, tile->dims[0], slot->dims[0]) && verify_same_extent(v, tile->dims[1], slot->dims[1]);
    return fits || verify_broken(v, "'%s' is no slot for a '%s'", verify_type_text(v, slot), verify_type_text(v, tile));
}

/* Every thread has the elements of its part. */
static bool check_part(Verifier *v, const IrOp *op) {
    const Type *from = op->operands.items[0]->type, *to = op->results.items[0]->type;
    int64_t first, columns, all;
    if (!op->dim || !dim_is_int(op->dim, &first) || from->kind != TYPE_TILE || to->kind != TYPE_TILE || from->rank != 2 || to->rank != 2 ||
        from->scalar != to->scalar || !verify_same_extent(v, from->dims[0], to->dims[0]) || !dim_is_int(to->dims[1], &columns) ||
        !dim_is_int(from->dims[1], &all) || first < 0 || first + columns > all)
        return verify_broken(v, "a '%s' is no columns of a '%s'", verify_type_text(v, to), verify_type_text(v, from));
    const Layout *whole = from->layout, *part = to->layout;
    bool same = whole->warps == part->warps &&
                memcmp(layout_lanes(whole), layout_lanes(part), sizeof(LayoutBasis) * (size_t)(LAYOUT_LANES + part->warps)) == 0;
    for (int i = 0; same && i < 1 << part->registers; i++)
        same = layout_find_register(whole, layout_register_at(part, i, 0), first + layout_register_at(part, i, 1)) >= 0;
    return same || verify_broken(v, "threads do not hold their elements of the part");
}

bool verify_async(Verifier *v, const IrOp *op) {
    switch (op->kind) {
    case OP_PART:
        return check_part(v, op);
    case OP_BULK_PUT:
        return check_slot_of(v, op->operands.items[0]->type, op->operands.items[1]);
    case OP_BULK_GET:
        return check_slot_of(v, op->results.items[0]->type, op->operands.items[0]);
    case OP_ASYNC_WAIT:
        return check_left(v, op, "groups");
    case OP_BULK_STORE_WAIT:
        return check_left(v, op, "stores");
    case OP_BULK_RING:
        return check_ring(v, op->results.items[0]->type);
    case OP_PLANES:
        return check_planes(v, op);
    case OP_MBARRIERS:
    case OP_MBARRIERS_OF_ALL:
        return check_mbarriers(v, op->results.items[0]->type);
    case OP_MBARRIER_EXPECT:
        return check_expect(v, op);
    case OP_MBARRIER_WAIT:
        return check_parity(v, op, is_of(op->operands.items[0], OP_MBARRIERS_OF_ALL) ? OP_MBARRIERS_OF_ALL : OP_MBARRIERS);
    case OP_MBARRIER_ARRIVE:
        return check_mbarrier(v, op, 0, OP_MBARRIERS_OF_ALL);
    case OP_WGMMA:
    case OP_WGMMA_T:
        return check_wgmma(v, op);
    case OP_WGMMA_WAIT:
        return check_wait(v, op);
    default:
        return true;
    }
}

/* ---- what is not waited for ---- */

static bool is_wgmma(OpKind kind) {
    return kind == OP_WGMMA || kind == OP_WGMMA_T;
}

/* A wait leaves no more groups than have come after the product that it is for, as far as is seen here. */
static bool is_settled(const IrOp *op) {
    const IrOp *product = op->operands.items[0]->def;
    int64_t left, after = 0;
    if (product && is_wgmma(product->kind) && product->parent == op->parent)
        for (const IrOp *between = product->next; between && between != op; between = between->next)
            after += is_wgmma(between->kind);
    return dim_is_int(op->dim, &left) && left <= after;
}

static bool mark(bool *running, const IrValue *value) {
    bool changed = !running[value->id];
    running[value->id] = true;
    return changed;
}

/* Loops carry what runs from their bodies' ends to their beginnings and to their results. */
static bool mark_loop(const IrOp *op, bool *running) {
    const IrBlock *body = op->regions.items[0];
    bool changed = false;
    for (int i = 0; i < op->results.count; i++) {
        const IrValue *sources[2] = {op->operands.items[3 + i], body->last->operands.items[i]};
        for (int k = 0; k < 2; k++)
            if (!ir_is_param(sources[k]) && running[sources[k]->id])
                changed |= mark(running, body->args.items[1 + i]) | mark(running, op->results.items[i]);
    }
    return changed;
}

static bool mark_running(const IrBlock *block, bool *running) {
    bool changed = false;
    for (const IrOp *op = block->first; op; op = op->next) {
        for (int r = 0; r < op->regions.count; r++)
            changed |= mark_running(op->regions.items[r], running);
        if (op->kind == OP_FOR)
            changed |= mark_loop(op, running);
        if (is_wgmma(op->kind) || (op->kind == OP_WGMMA_WAIT && !is_settled(op) && running[op->operands.items[0]->id]))
            changed |= mark(running, op->results.items[0]);
    }
    return changed;
}

static bool may_take(const IrOp *op, int operand) {
    if (is_wgmma(op->kind))
        return operand == 2;
    bool is_carried = (op->kind == OP_FOR && operand >= 3) || (op->kind == OP_YIELD && op->parent->owner->kind == OP_FOR);
    return op->kind == OP_WGMMA_WAIT || is_carried;
}

static bool check_uses(Verifier *v, const IrBlock *block, const bool *running) {
    for (const IrOp *op = block->first; op; op = op->next) {
        v->op = op;
        for (int i = 0; i < op->operands.count; i++)
            if (!ir_is_param(op->operands.items[i]) && running[op->operands.items[i]->id] && !may_take(op, i))
                return verify_broken(v, "operand %d is read before its 'wgmma' is waited for", i + 1);
        for (int r = 0; r < op->regions.count; r++)
            if (!check_uses(v, op->regions.items[r], running))
                return false;
    }
    return true;
}

/* Bytes of the bulk copies that follow the op, to the same mbarrier, in its block. */
static int64_t bytes_copied(const IrOp *expect) {
    int64_t bytes = 0;
    for (const IrOp *op = expect->next; op && op->kind != OP_MBARRIER_EXPECT; op = op->next) {
        if (op->kind != OP_BULK_COPY || operand_from_end(op, 3) != expect->operands.items[0] || operand_from_end(op, 2) != expect->operands.items[1])
            continue;
        const Type *slot = operand_from_end(op, 4)->type;
        bytes += tile_rows(slot) * tile_columns(slot) * (dtype_bits(slot->scalar) / 8);
    }
    return bytes;
}

/* An mbarrier that expects other bytes than come would never end its phase, or too soon. */
static bool check_expected(Verifier *v, const IrBlock *block) {
    for (const IrOp *op = block->first; op; op = op->next) {
        int64_t expected;
        v->op = op;
        if (op->kind == OP_MBARRIER_EXPECT && dim_is_int(op->dim, &expected) && expected != bytes_copied(op))
            return verify_broken(v, "it expects %lld bytes, and %lld are copied", (long long)expected, (long long)bytes_copied(op));
        for (int r = 0; r < op->regions.count; r++)
            if (!check_expected(v, op->regions.items[r]))
                return false;
    }
    return true;
}

/* A turn fills a slot that an earlier turn has read: behind a barrier that all threads pass when they have waited for that turn, or when all warps
 * have arrived that did. */
static bool check_refills(Verifier *v, const IrBlock *block, bool is_free) {
    for (const IrOp *op = block->first; op; op = op->next) {
        v->op = op;
        is_free |= op->kind == OP_BARRIER || op->kind == OP_MBARRIERS ||
                   (op->kind == OP_MBARRIER_WAIT && is_of(op->operands.items[0], OP_MBARRIERS_OF_ALL));
        if (op->kind == OP_BULK_COPY && !is_free)
            return verify_broken(v, "no barrier stands between what read the slot in an earlier turn and what fills it again");
        for (int r = 0; r < op->regions.count; r++)
            if (!check_refills(v, op->regions.items[r], op->kind == OP_IF && is_free))
                return false;
    }
    return true;
}

/* A slot is stored behind a barrier that all threads pass when they have put theirs. */
static bool check_stores(Verifier *v, const IrBlock *block) {
    bool is_put = false;
    for (const IrOp *op = block->first; op; op = op->next) {
        v->op = op;
        is_put = op->kind == OP_BULK_PUT || (is_put && op->kind != OP_BARRIER);
        if (op->kind == OP_BULK_STORE && is_put)
            return verify_broken(v, "no barrier stands between what is put into the slot and its store");
        for (int r = 0; r < op->regions.count; r++)
            if (!check_stores(v, op->regions.items[r]))
                return false;
    }
    return true;
}

/* A bulk store on its way: nothing is written to its slot until the thread that stores has waited, and the others have passed a barrier behind that.
 */
typedef struct Store {
    const IrOp *op;
    int64_t after; /* stores begun since then, at least */
    bool is_read;  /* it has been waited for */
} Store;
typedef VEC(Store) Stores;

/* What is known of a store of two ways that lead here: the less of both. */
static void note_store(Verifier *v, Stores *stores, const Store *store) {
    for (int i = 0; i < stores->count; i++) {
        Store *same = &stores->items[i];
        if (same->op != store->op)
            continue;
        same->after = store->after < same->after ? store->after : same->after;
        same->is_read &= store->is_read;
        return;
    }
    vec_push(v->context->arena, stores, *store);
}

static void begin_store(Verifier *v, Stores *stores, const IrOp *op) {
    for (int i = 0; i < stores->count; i++)
        stores->items[i].after++;
    note_store(v, stores, &(Store){.op = op});
}

static void pass_wait(Stores *stores, int64_t left) {
    for (int i = 0; i < stores->count; i++)
        stores->items[i].is_read |= stores->items[i].after >= left;
}

static void pass_barrier(Stores *stores) {
    int kept = 0;
    for (int i = 0; i < stores->count; i++)
        if (!stores->items[i].is_read)
            stores->items[kept++] = stores->items[i];
    stores->count = kept;
}

static bool may_be_same_slot(const IrOp *a, const IrOp *b) {
    const IrOp *numbers[2] = {a->operands.items[1]->def, b->operands.items[1]->def};
    bool are_known = numbers[0] && numbers[1] && numbers[0]->kind == OP_CONST && numbers[1]->kind == OP_CONST;
    return a->operands.items[0] == b->operands.items[0] && (!are_known || numbers[0]->bits == numbers[1]->bits);
}

/* The thread that stores also has slots filled by bulk copies. */
static bool check_written(Verifier *v, const IrOp *slot, const Stores *stores, bool is_copied) {
    for (int i = 0; i < stores->count; i++) {
        const Store *store = &stores->items[i];
        if (may_be_same_slot(slot, operand_from_end(store->op, 1)->def) && !(is_copied && store->is_read))
            return verify_broken(v, "the slot is written before a store of it is waited for");
    }
    return true;
}

static bool check_slots(Verifier *v, const IrBlock *block, Stores *stores);

/* Loops twice, so that what a turn leaves meets the next one. */
static bool check_regions(Verifier *v, const IrOp *op, Stores *stores) {
    bool is_branch = op->kind == OP_IF, holds = true;
    for (int turn = 0; turn == 0 || (turn == 1 && !is_branch && stores->count); turn++) {
        Stores others = {0};
        for (int i = 0; i < stores->count; i++)
            vec_push(v->context->arena, &others, stores->items[i]);
        for (int r = 0; holds && r < op->regions.count; r++)
            holds = check_slots(v, op->regions.items[r], is_branch && r == 1 ? &others : stores);
        for (int i = 0; i < others.count; i++)
            note_store(v, stores, &others.items[i]);
    }
    return holds;
}

static bool check_slots(Verifier *v, const IrBlock *block, Stores *stores) {
    bool holds = true;
    for (const IrOp *op = block->first; holds && op; op = op->next) {
        int64_t left = 0;
        v->op = op;
        if (op->kind == OP_BULK_PUT || op->kind == OP_BULK_COPY)
            holds = check_written(v, operand_from_end(op, op->kind == OP_BULK_PUT ? 1 : 4)->def, stores, op->kind == OP_BULK_COPY);
        else if (op->kind == OP_BULK_STORE)
            begin_store(v, stores, op);
        else if (op->kind == OP_BULK_STORE_DONE || (op->kind == OP_BULK_STORE_WAIT && dim_is_int(op->dim, &left)))
            pass_wait(stores, left);
        else if (op->kind == OP_BARRIER)
            pass_barrier(stores);
        holds = holds && check_regions(v, op, stores);
    }
    return holds;
}

/* A CTA's shared memory is another's when it ends. */
static bool check_ends(Verifier *v, const Stores *stores) {
    bool are_read = true;
    for (int i = 0; i < stores->count; i++)
        are_read &= stores->items[i].is_read;
    return are_read || verify_broken(v, "the kernel ends before a store of a slot is waited for");
}

bool verify_running(Verifier *v) {
    bool *running = NEW_ARRAY(v->context->arena, bool, v->value_count + 1);
    Stores stores = {0};
    while (mark_running(v->body, running))
        ;
    return check_uses(v, v->body, running) && check_refills(v, v->body, true) && check_expected(v, v->body) && check_stores(v, v->body) &&
           check_slots(v, v->body, &stores) && check_ends(v, &stores);
}
