/* Contractions by bulk copies and matrix instructions of four warps. In a loop `acc = dot(slice, slice, acc)` one thread has both slices copied by
 * tensor maps some turns ahead, into rings of slots, each slot with an mbarrier that tells when it is full; every turn multiplies by instructions
 * that run behind the threads' backs. Several products may follow one another into one sum. A sum may also begin at 0 in each turn and be added to
 * what the loop carries: such a loop is *promoted*, for what the instructions add up they truncate, and threads round.
 *
 * `layout_bulk_mark` looks at the value level which products can be done so, and makes `wgmma`s of them; `layout_bulk` moves the slices, once there
 * are layouts.
 *
 * A turn waits for its own slots to be full and passes a barrier; then it multiplies, has those slots refilled meanwhile that were read two turns
 * ago, and waits for the products of the turn before. So whoever has passed the barrier has waited for the products of two turns ago, as have all
 * others, and no second set of mbarriers says that a slot is empty. Copies run `slots` - 2 turns ahead. Turns beyond the end are not copied. A
 * promoted loop waits for a turn's products within the turn: it multiplies before the barrier, and copies run `slots` - 1 turns ahead. */
#include "compiler/layout/bulk.h"

/* ---- which products ---- */

static bool is_product(const IrOp *op) {
    return op->kind == OP_DOT || op->kind == OP_DOT_T;
}

bool bulk_is_load(const IrValue *tile) {
    return tile->def && tile->def->kind == OP_LOAD;
}

static void add_op(IrOp **ops, int *count, IrOp *op) {
    for (int i = 0; i < *count; i++)
        if (ops[i] == op)
            return;
    ops[(*count)++] = op;
}

static void add_dot(Bulk *b, IrOp *dot) {
    b->dots[b->dot_count++] = dot;
    BulkSum sum;
    bool is_sum = layout_bulk_sum(dot, &sum);
    b->is_chained |= !is_sum;
    if (is_sum && sum.first == dot) {
        b->is_promoted |= sum.add != NULL;
        b->sums[b->sum_count++] = sum;
    }
    for (int i = 0; i < 2; i++) {
        const IrValue *factor = dot->operands.items[i];
        bool is_turns = bulk_is_load(factor) && ir_is_inside(factor, b->ahead.loop);
        b->is_chained |= !is_turns;
        if (is_turns)
            add_op(b->loads, &b->load_count, factor->def);
        else if (bulk_is_load(factor))
            add_op(b->kept, &b->kept_count, factor->def);
    }
}

/* Whether all that a load gives goes to products of the loop. */
static bool is_all_used(const Bulk *b, const IrOp *load) {
    int uses = 0;
    for (int d = 0; d < b->dot_count; d++)
        for (int i = 0; i < 2; i++)
            uses += b->dots[d]->operands.items[i] == load->results.items[0];
    return uses == ir_count_uses(b->kernel->body, load->results.items[0]);
}

/* Why the product cannot go by bulk copies, whatever else its loop does; NULL: it can. */
static const char *find_refusal(const Bulk *b, const IrOp *dot, const bool *stored) {
    const char *why = bulk_shape_refusal(dot);
    for (int i = 0; !why && i < 2; i++)
        if (i == 1 || bulk_is_load(dot->operands.items[i]))
            why = bulk_factor_refusal(b, dot, i, stored);
    return why;
}

static bool are_all_used(const Bulk *b, IrOp *const *loads, int count) {
    bool are = true;
    for (int i = 0; are && i < count; i++)
        are = is_all_used(b, loads[i]);
    return are;
}

/* Gives why the loop's products cannot go by bulk copies; NULL: they can. */
static const char *find_products(Bulk *b, const bool *stored) {
    const IrOp *step = b->ahead.loop->operands.items[2]->def;
    if (!step || step->kind != OP_CONST || (int64_t)step->bits <= 0)
        return "its loop's step is no constant above 0";
    for (IrOp *op = b->ahead.body->first; op; op = op->next) {
        const char *why = is_product(op) ? find_refusal(b, op, stored) : NULL;
        if (why)
            return arena_printf(b->ahead.context->arena, "another product of its loop cannot: %s", why);
        if (is_product(op) && b->dot_count == BULK_MOST_DOTS)
            return arena_printf(b->ahead.context->arena, "its loop has more than %d products", BULK_MOST_DOTS);
        if (is_product(op))
            add_dot(b, op);
    }
    if (!are_all_used(b, b->loads, b->load_count) || !are_all_used(b, b->kept, b->kept_count))
        return "what is no product of its loop uses a factor, too";
    return b->load_count > 0 ? NULL : "no factor is a slice that its loop loads";
}

static bool match_loop(Bulk *b, const LayoutLimits *limits, const bool *stored) {
    return b->ahead.loop->kind == OP_FOR && !find_products(b, stored) && bulk_choose_slots(b, limits, 0);
}

static Bulk bulk_of(Context *context, IrKernel *kernel, IrOp *loop) {
    return (Bulk){.ahead = {context, loop, loop->regions.items[0], loop, NULL}, .kernel = kernel};
}

static void mark_block(Context *context, IrKernel *kernel, const LayoutLimits *limits, const bool *stored, IrBlock *block, int64_t *threads) {
    for (IrOp *op = block->first; op; op = op->next) {
        for (int r = 0; r < op->regions.count; r++)
            mark_block(context, kernel, limits, stored, op->regions.items[r], threads);
        if (op->kind != OP_FOR)
            continue;
        Bulk bulk = bulk_of(context, kernel, op);
        int64_t wanted = match_loop(&bulk, limits, stored) ? bulk_threads(&bulk) : 0;
        int64_t given = kernel->signature.launch_threads;
        if (!wanted || (given && given != wanted))
            continue;
        *threads = wanted > *threads ? wanted : *threads;
        for (int i = 0; i < bulk.dot_count; i++)
            bulk.dots[i]->kind = bulk.dots[i]->kind == OP_DOT_T ? OP_WGMMA_T : OP_WGMMA;
    }
}

const char *layout_bulk_refusal(Context *context, IrKernel *kernel, const LayoutLimits *limits, const bool *stored, IrOp *dot) {
    IrOp *loop = dot->parent->owner;
    if (ir_has_thread_code(kernel))
        return "the kernel has thread code, or clusters of thread blocks";
    if (!loop || loop->kind != OP_FOR)
        return "it stands in no 'for' loop that carries its sum";
    Bulk bulk = bulk_of(context, kernel, loop), *b = &bulk;
    const char *why = find_refusal(b, dot, stored);
    if (!why)
        why = find_products(b, stored);
    if (why)
        return why;
    if (!bulk_threads(b))
        return "the sums of its loop take more registers than the threads of a CTA have";
    if (!bulk_choose_slots(b, limits, 0))
        return "the slices of enough turns do not fit into shared memory, or of as many as @pipeline asks for";
    int64_t given = kernel->signature.launch_threads;
    return given && given != bulk_threads(b) ? "@launch gives it another number of threads than its sums want" : NULL;
}

static void remark_block(Context *context, IrKernel *kernel, const LayoutLimits *limits, const bool *stored, const IrBlock *block) {
    for (IrOp *op = block->first; op; op = op->next) {
        for (int r = 0; r < op->regions.count; r++)
            remark_block(context, kernel, limits, stored, op->regions.items[r]);
        bool is_matrix = is_product(op) && (dtype_bits(op->operands.items[0]->type->scalar) == 16 || !layout_mma_refusal(kernel, op));
        const char *why = is_matrix ? layout_bulk_refusal(context, kernel, limits, stored, op) : NULL;
        if (why)
            diag_remark_once(context->diag, REMARK_TENSORCORE, op->span,
                "on %s this dot, %lld x %lld x %lld, does not go by bulk copies and wgmma: %s", limits->target,
                (long long)tile_rows(op->results.items[0]->type), (long long)tile_columns(op->results.items[0]->type),
                (long long)tile_columns(op->operands.items[0]->type), why);
    }
}

int layout_bulk_mark(Context *context, IrKernel *kernel, const LayoutLimits *limits) {
    bool *stored = NEW_ARRAY(context->arena, bool, kernel->signature.params.count + 1);
    int64_t threads = 0;
    for (const IrOp *op = kernel->body->first; op; op = op->next)
        ir_mark_stored(op, stored);
    if (limits->bulk && !ir_has_thread_code(kernel))
        mark_block(context, kernel, limits, stored, kernel->body, &threads);
    if (limits->bulk && limits->target && diag_wants_remark(context->diag, REMARK_TENSORCORE))
        remark_block(context, kernel, limits, stored, kernel->body);
    return (int)threads;
}

/* ---- making ops ---- */

static const Type *type_i64(const Bulk *b) {
    return type_scalar(b->ahead.context->types, PHB_I64);
}

static const Type *type_bool(const Bulk *b) {
    return type_scalar(b->ahead.context->types, PHB_BOOL);
}

const Type *bulk_slot_type(const Bulk *b, const IrOp *load) {
    const Type *tile = load->results.items[0]->type;
    return type_shaped(b->ahead.context->types, TYPE_SHARED, tile->scalar, 2, tile->dims);
}

int64_t bulk_load_bytes(const IrOp *load) {
    return layout_bulk_bytes(load->results.items[0]->type);
}

IrValue *bulk_ring(Bulk *b, const IrOp *load, int slots) {
    const Type *slot = bulk_slot_type(b, load);
    const Dim *dims[3] = {dim_int(b->ahead.context->dims, slots), slot->dims[0], slot->dims[1]};
    return ahead_value(&b->ahead, OP_BULK_RING, type_shaped(b->ahead.context->types, TYPE_SHARED, slot->scalar, 3, dims), NULL, NULL);
}

IrValue *bulk_mbarriers(Bulk *b, OpKind kind, int count) {
    const Dim *dim = dim_int(b->ahead.context->dims, count);
    return ahead_value(&b->ahead, kind, type_shaped(b->ahead.context->types, TYPE_SHARED, PHB_I64, 1, &dim), NULL, NULL);
}

void bulk_copy(Bulk *b, const IrOp *load, IrValue *ring, IrValue *mbarriers, IrValue *mbarrier, IrValue *number, IrValue *is_there) {
    IrValue *operands[PHB_MAX_RANK + 5];
    int rank = load->operands.items[0]->type->rank;
    operands[0] = load->operands.items[0];
    for (int axis = 0; axis < rank; axis++)
        operands[1 + axis] = ahead_clone(&b->ahead, load->operands.items[1 + axis]);
    operands[1 + rank] = ahead_value(&b->ahead, OP_SLOT, bulk_slot_type(b, load), ring, number);
    operands[2 + rank] = mbarriers;
    operands[3 + rank] = mbarrier;
    operands[4 + rank] = is_there;
    ir_copy_attributes(ahead_op(&b->ahead, OP_BULK_COPY, operands, rank + 5, NULL), load);
}

/* Copies all slices of turn b->ahead.turn to the slots `number`, if that turn is there. */
static void copy_turn(Bulk *b, IrValue *number) {
    IrValue *is_there = b->ahead.tiles ? tiles_is_there(&b->ahead, b->next)
                                       : ahead_value(&b->ahead, OP_LT, type_bool(b), b->ahead.turn, b->ahead.loop->operands.items[1]);
    IrValue *expected[3] = {b->mbarriers, number, is_there};
    int64_t bytes = 0;
    for (int i = 0; i < b->load_count; i++)
        bytes += bulk_load_bytes(b->loads[i]);
    ahead_op(&b->ahead, OP_MBARRIER_EXPECT, expected, 3, NULL)->dim = dim_int(b->ahead.context->dims, bytes);
    for (int i = 0; i < b->load_count; i++)
        bulk_copy(b, b->loads[i], b->rings[i], b->mbarriers, number, number, is_there);
}

/* ---- the loop ---- */

static void make_rings(Bulk *b) {
    for (int i = 0; i < b->load_count; i++)
        b->rings[i] = bulk_ring(b, b->loads[i], b->slots);
    b->mbarriers = bulk_mbarriers(b, OP_MBARRIERS, b->slots);
}

int64_t bulk_step(const Bulk *b) {
    return (int64_t)b->ahead.loop->operands.items[2]->def->bits;
}

/* Copies of what comes next, and what comes then. */
static void copy_next(Bulk *b, IrValue *number) {
    b->ahead.turn = b->next[0];
    copy_turn(b, number);
    tiles_advance(&b->ahead, b->next);
}

/* The first turns, before the loop. */
static void begin_copies(Bulk *b) {
    if (b->ahead.tiles)
        tiles_begin(&b->ahead, b->next);
    for (int turn = 0; b->ahead.tiles && turn < b->slots - bulk_running_turns(b); turn++)
        copy_next(b, ahead_int(&b->ahead, turn));
    for (int turn = 0; !b->ahead.tiles && turn < b->slots - bulk_running_turns(b); turn++) {
        b->ahead.turn = ahead_value(&b->ahead, OP_ADD, type_i64(b), b->ahead.loop->operands.items[0], ahead_int(&b->ahead, turn * bulk_step(b)));
        copy_turn(b, ahead_int(&b->ahead, turn));
    }
}

/* Where the CTA stays, the loop over its blocks carries the value on, too. */
IrValue *bulk_carry(Bulk *b, IrValue *first) {
    Arena *arena = b->ahead.context->arena;
    IrOp *tiles = b->ahead.tiles;
    IrValue *from = tiles ? ahead_carry(&b->ahead, tiles, first) : first, *value = ahead_carry(&b->ahead, b->ahead.loop, from);
    if (tiles)
        vec_push(arena, &tiles->regions.items[0]->last->operands, b->ahead.loop->results.items[b->ahead.loop->results.count - 1]);
    return value;
}

IrValue *bulk_wait(Bulk *b, IrValue *tile, int left) {
    IrOp *wait = ahead_op(&b->ahead, OP_WGMMA_WAIT, &tile, 1, tile->type);
    wait->dim = dim_int(b->ahead.context->dims, left);
    return wait->results.items[0];
}

/* What is waited for behind the loop and what never ran meet in the branch's results. */
IrOp *bulk_guard(Bulk *b) {
    Arena *arena = b->ahead.context->arena;
    b->ahead.at = b->ahead.loop;
    IrValue *has_turns = ahead_value(&b->ahead, OP_LT, type_bool(b), b->ahead.loop->operands.items[0], b->ahead.loop->operands.items[1]);
    IrOp *branch = ahead_op(&b->ahead, OP_IF, &has_turns, 1, NULL), *ends[2];
    for (int i = 0; i < b->ahead.loop->results.count; i++) {
        IrValue *result = NEW(arena, IrValue);
        *result = (IrValue){.type = b->ahead.loop->results.items[i]->type, .def = branch, .index = i};
        vec_push(arena, &branch->results, result);
        ir_replace_uses(b->kernel, b->ahead.loop->results.items[i], result);
    }
    for (int r = 0; r < 2; r++) {
        IrValue **yielded = r == 0 ? b->ahead.loop->results.items : b->ahead.loop->operands.items + ir_first_carried(b->ahead.loop);
        ends[r] = ir_append(b->ahead.context, ir_region_new(b->ahead.context, branch), OP_YIELD, b->ahead.loop->span, yielded, b->ahead.loop->results.count, NULL, 0);
    }
    ir_remove(b->ahead.loop);
    ir_insert_before(ends[0], b->ahead.loop);
    return ends[0];
}

/* The products of the turn before are done at the end of each turn, and all of them behind the loop; where the loop is promoted, a turn's are within
 * it. */
static void wait_for_products(Bulk *b) {
    IrOp *end = b->is_promoted ? NULL : bulk_guard(b);
    for (int i = 0; i < b->sum_count; i++) {
        const BulkSum *sum = &b->sums[i];
        IrValue *last = sum->last->results.items[0], **use = &b->ahead.body->last->operands.items[sum->carried];
        if (sum->add)
            use = &sum->add->operands.items[sum->add->operands.items[1] == last];
        b->ahead.at = sum->add ? sum->add : b->ahead.body->last;
        *use = bulk_wait(b, last, b->is_promoted ? 0 : b->dot_count);
        b->ahead.at = end;
        if (end)
            end->operands.items[sum->carried] = bulk_wait(b, b->ahead.loop->results.items[sum->carried], 0);
    }
}

/* Products take their factors from the slots `number`. */
static void use_slots(Bulk *b, IrValue *number) {
    for (int d = 0; d < b->dot_count; d++)
        for (int i = 0; i < 2; i++)
            for (int load = 0; load < b->load_count; load++)
                if (b->dots[d]->operands.items[i] == b->loads[load]->results.items[0])
                    b->dots[d]->operands.items[i] = ahead_value(&b->ahead, OP_SLOT, bulk_slot_type(b, b->loads[load]), b->rings[load], number);
}

static void turn_over(Bulk *b) {
    const Type *i64 = type_i64(b);
    b->ahead.at = b->ahead.loop;
    if (b->ahead.tiles)
        b->ahead.at = b->ahead.tiles;
    IrValue *number = bulk_carry(b, ahead_int(&b->ahead, 0)), *parity = bulk_carry(b, ahead_int(&b->ahead, 0));
    for (int i = 0; b->ahead.tiles && i < TILES_STATE; i++)
        b->next[i] = bulk_carry(b, b->next[i]);
    b->ahead.at = b->ahead.body->first;
    IrValue *wait[3] = {b->mbarriers, number, parity};
    ahead_op(&b->ahead, OP_MBARRIER_WAIT, wait, 3, NULL);
    if (!b->is_promoted)
        ahead_op(&b->ahead, OP_BARRIER, NULL, 0, NULL);
    int ahead = b->slots - bulk_running_turns(b);
    IrValue *slots = ahead_int(&b->ahead, b->slots), *next = ahead_value(&b->ahead, OP_ADD, i64, number, ahead_int(&b->ahead, 1));
    IrValue *filled = ahead_value(&b->ahead, OP_ADD, i64, number, ahead_int(&b->ahead, ahead));
    filled = ahead_select(&b->ahead, ahead_value(&b->ahead, OP_LT, type_bool(b), filled, slots), filled, ahead_value(&b->ahead, OP_SUB, i64, filled, slots));
    use_slots(b, number);
    b->ahead.at = b->dots[b->dot_count - 1]->next;
    if (b->is_promoted)
        ahead_op(&b->ahead, OP_BARRIER, NULL, 0, NULL);
    if (b->ahead.tiles) {
        copy_next(b, filled);
    } else {
        b->ahead.turn = ahead_value(&b->ahead, OP_ADD, i64, b->ahead.body->args.items[0], ahead_int(&b->ahead, ahead * bulk_step(b)));
        copy_turn(b, filled);
    }
    IrValue *goes_on = ahead_value(&b->ahead, OP_LT, type_bool(b), next, slots);
    IrValue *other = ahead_value(&b->ahead, OP_SUB, i64, ahead_int(&b->ahead, 1), parity);
    vec_push(b->ahead.context->arena, &b->ahead.body->last->operands, ahead_select(&b->ahead, goes_on, next, ahead_int(&b->ahead, 0)));
    vec_push(b->ahead.context->arena, &b->ahead.body->last->operands, ahead_select(&b->ahead, goes_on, parity, other));
    for (int i = 0; b->ahead.tiles && i < TILES_STATE; i++)
        vec_push(b->ahead.context->arena, &b->ahead.body->last->operands, b->next[i]);
    for (int i = 0; i < b->load_count; i++)
        ir_remove(b->loads[i]);
}

static bool find_marked(Bulk *b) {
    for (IrOp *op = b->ahead.body->first; op; op = op->next)
        if (op->kind == OP_WGMMA || op->kind == OP_WGMMA_T)
            add_dot(b, op);
    return b->dot_count > 0;
}

bool layout_bulk_stays(Context *context, IrKernel *kernel, IrOp *loop, const LayoutLimits *limits, int64_t bytes) {
    enum { LEAST_OF_TILES = 4 };
    Bulk bulk = bulk_of(context, kernel, loop), *b = &bulk;
    bool can = find_marked(b) && !b->is_chained && !b->is_promoted && bulk_choose_slots(b, limits, bytes) && b->slots >= LEAST_OF_TILES;
    for (int i = 0; can && i < b->load_count; i++)
        can = b->loads[i]->kind == OP_LOAD;
    return can;
}

/* What shared memory holds while the loop runs, but for its own slots; where the CTA stays, they are there for all of its blocks. */
static int64_t bytes_beside(const Bulk *b) {
    const IrOp *loop = b->ahead.tiles ? b->ahead.tiles : b->ahead.loop;
    return layout_shared_around(b->kernel, loop) + layout_shared_inside(b->kernel, loop);
}

static bool move_slices(Bulk *b, const LayoutLimits *limits, const char **why) {
    if (!bulk_choose_slots(b, limits, bytes_beside(b))) {
        *why = "shared memory has no room for the slices of enough turns beside what else it needs there";
        return false;
    }
    if (b->is_chained) {
        layout_chain(b);
        return true;
    }
    if (b->ahead.tiles)
        b->ahead.at = b->ahead.tiles;
    make_rings(b);
    begin_copies(b);
    turn_over(b);
    wait_for_products(b);
    return true;
}

bool layout_bulk(Context *context, IrKernel *kernel, IrBlock *block, const LayoutLimits *limits, const char **why) {
    bool fits = true;
    for (IrOp *op = block->first, *next; fits && op; op = next) {
        next = op->next; /* the loop may move into a branch */
        for (int r = 0; fits && r < op->regions.count; r++)
            fits = layout_bulk(context, kernel, op->regions.items[r], limits, why);
        if (!fits || op->kind != OP_FOR)
            continue;
        Bulk bulk = bulk_of(context, kernel, op);
        bulk.ahead.tiles = layout_tiles_around(op);
        if (find_marked(&bulk))
            fits = move_slices(&bulk, limits, why);
    }
    return fits;
}
