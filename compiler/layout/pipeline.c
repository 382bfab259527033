/* Software pipelines: loops that stage slices of tensors copy them some turns ahead, by copies that run behind the threads' backs, into rings of
 * slots. Requires layouts, and no places in shared memory yet. Preserves what is computed. Takes a staged load where
 *  - it stands in the loop's own block, is staged there and not used elsewhere, and nothing in the loop writes its tensor;
 *  - its offsets follow from the loop's index and what is outside of the loop, so that they are known for a later turn;
 *  - 16 bytes along its rows are neighbours in the tensor and aligned in it.
 * Each turn waits for its own slots, passes one barrier, which also says that every thread is done with the last turn's, starts the copies of the
 * turn that will use those, and goes on. Turns beyond the end are not copied. Where there are slots enough, the copies start after the turn's first
 * product: matrix instructions, which go on by themselves, are then under way while addresses are computed. */
#include "compiler/layout/layout.h"

enum { MOST_SLOTS = 4, LEAST_SLOTS = 2, MOST_CTAS = 2, CHUNK_BYTES = 16, MOST_COPIES = 8 };

typedef struct Copy {
    IrOp *load, *stage;
    IrValue *ring;
} Copy;

typedef struct Pipeline {
    Ahead ahead;
    IrKernel *kernel;
    Copy copies[MOST_COPIES];
    int count, slots;
} Pipeline;

/* ---- what can be copied ahead ---- */

/* Why the tile is not; NULL: it is. */
static const char *find_refusal(const Pipeline *p, const IrOp *stage, const bool *stored) {
    const IrValue *tile = stage->operands.items[0];
    const IrOp *load = tile->def;
    int axes[2];
    if (!load || load->kind != OP_LOAD || tile->type->rank != 2 || !ir_is_param(load->operands.items[0]))
        return "it is computed, and no slice of a tensor";
    if (load->parent != p->ahead.body)
        return "it is loaded in another block than it is multiplied in";
    int last = load->operands.items[0]->type->rank - 1;
    int64_t size = dtype_bits(tile->type->scalar) / 8, chunk = CHUNK_BYTES / size;
    slice_axes(load, axes);
    if (axes[1] != last || size > CHUNK_BYTES || tile_columns(tile->type) % chunk != 0 ||
        ir_known_multiple(load->operands.items[1 + last]) % chunk != 0)
        return "its rows are not known to be of 16 bytes that are aligned along its tensor's last axis";
    if (stored[load->operands.items[0]->index])
        return "its loop stores to its tensor";
    if (ir_count_uses(p->ahead.body, tile) != 1)
        return "something else than products uses it, too";
    for (int i = 0; i <= last; i++)
        if (!ahead_follows(&p->ahead, load->operands.items[1 + i]))
            return "it is loaded at offsets that do not follow from the loop's index";
    return NULL;
}

static void remark(const Pipeline *p, const LayoutLimits *limits, const IrOp *stage, const char *why) {
    if (why && limits->target && diag_wants_remark(p->ahead.context->diag, REMARK_LAYOUT))
        diag_remark_once(p->ahead.context->diag, REMARK_LAYOUT, stage->span, "on %s a factor of this dot, %lld x %lld, is not copied ahead: %s",
            limits->target, (long long)tile_rows(stage->results.items[0]->type), (long long)tile_columns(stage->results.items[0]->type), why);
}

static bool find_copies(Pipeline *p, const LayoutLimits *limits) {
    const IrOp *step = p->ahead.loop->operands.items[2]->def;
    bool *stored = NEW_ARRAY(p->ahead.context->arena, bool, p->kernel->signature.params.count + 1);
    if (!step || step->kind != OP_CONST || (int64_t)step->bits <= 0)
        return false;
    ir_mark_stored(p->ahead.loop, stored);
    for (IrOp *op = p->ahead.body->first; op; op = op->next) {
        const char *why = op->kind == OP_STAGE ? find_refusal(p, op, stored) : NULL;
        if (op->kind == OP_STAGE && !why && p->count < MOST_COPIES)
            p->copies[p->count++] = (Copy){.load = op->operands.items[0]->def, .stage = op};
        remark(p, limits, op, why);
    }
    return p->count > 0;
}

/* As many as fit beside what a turn works in, and leave shared memory for every CTA that the multiprocessor's registers have room for, two at most,
 * where what is copied needs none; or as @pipeline says: whether that fits is seen when places are given. */
static bool choose_slots(Pipeline *p, const LayoutLimits *limits) {
    int64_t bytes = 0, stages;
    if (p->kernel->signature.pipeline && dim_is_int(p->kernel->signature.pipeline, &stages)) {
        p->slots = (int)(stages < INT16_MAX ? stages : INT16_MAX);
        return stages >= LEAST_SLOTS;
    }
    int registers = layout_pressure(p->ahead.context, p->kernel);
    for (int i = 0; i < p->count; i++) {
        bytes += layout_slot_bytes(p->copies[i].stage->results.items[0]->type);
        registers -= layout_registers(p->copies[i].load->results.items[0]->type);
    }
    int64_t ctas = layout_ctas(registers, p->kernel->threads), before = layout_shared_around(p->kernel, p->ahead.loop);
    int64_t most = limits->shared_bytes - before - (layout_shared_inside(p->kernel, p->ahead.loop) - bytes);
    for (ctas = ctas < MOST_CTAS ? ctas : MOST_CTAS; ctas > 0; ctas--) {
        p->slots = MOST_SLOTS;
        int64_t share = limits->shared_bytes / ctas - before, room = share < most ? share : most;
        while (p->slots >= LEAST_SLOTS && p->slots * bytes > room)
            p->slots--;
        if (p->slots >= LEAST_SLOTS)
            return true;
    }
    return false;
}

/* ---- making ops ---- */

static IrValue *make_slot(Pipeline *p, const Copy *copy, IrValue *number) {
    return ahead_value(&p->ahead, OP_SLOT, copy->stage->results.items[0]->type, copy->ring, number);
}

/* Copies everything of turn p->ahead.turn to the slots `number`, if that turn is there, as one group. */
static void copy_turn(Pipeline *p, IrValue *number) {
    IrValue *is_there = ahead_value(&p->ahead, OP_LT, type_scalar(p->ahead.context->types, PHB_BOOL), p->ahead.turn, p->ahead.loop->operands.items[1]);
    IrValue *operands[MOST_COPIES][PHB_MAX_RANK + 3];
    for (int i = 0; i < p->count; i++) {
        const Copy *copy = &p->copies[i];
        int rank = copy->load->operands.items[0]->type->rank;
        operands[i][0] = copy->load->operands.items[0];
        for (int axis = 0; axis < rank; axis++)
            operands[i][1 + axis] = ahead_clone(&p->ahead, copy->load->operands.items[1 + axis]);
        operands[i][1 + rank] = make_slot(p, copy, number);
        operands[i][2 + rank] = is_there;
    }
    for (int i = 0; i < p->count; i++) {
        const IrOp *load = p->copies[i].load;
        IrOp *op = ahead_op(&p->ahead, OP_ASYNC_COPY, operands[i], load->operands.items[0]->type->rank + 3, NULL);
        ir_copy_attributes(op, load);
    }
    ahead_op(&p->ahead, OP_ASYNC_COMMIT, NULL, 0, NULL);
}

/* ---- the loop ---- */

static void make_rings(Pipeline *p) {
    for (int i = 0; i < p->count; i++) {
        const Type *slot = p->copies[i].stage->results.items[0]->type;
        const Dim *dims[3] = {dim_int(p->ahead.context->dims, p->slots), slot->dims[0], slot->dims[1]};
        p->copies[i].ring = ahead_value(&p->ahead, OP_RING, type_shaped(p->ahead.context->types, TYPE_SHARED, slot->scalar, 3, dims), NULL, NULL);
    }
}

/* The first turns, before the loop. */
static void begin_copies(Pipeline *p) {
    const Type *i64 = type_scalar(p->ahead.context->types, PHB_I64);
    int64_t step = (int64_t)p->ahead.loop->operands.items[2]->def->bits;
    for (int turn = 0; turn < p->slots - 1; turn++) {
        p->ahead.turn = ahead_value(&p->ahead, OP_ADD, i64, p->ahead.loop->operands.items[0], ahead_int(&p->ahead, turn * step));
        copy_turn(p, ahead_int(&p->ahead, turn));
    }
}

/* A further carried value, the number of this turn's slots. */
static IrValue *carry_number(Pipeline *p, IrValue *first) {
    Arena *arena = p->ahead.context->arena;
    const Type *i64 = type_scalar(p->ahead.context->types, PHB_I64);
    IrValue *result = NEW(arena, IrValue);
    *result = (IrValue){.type = i64, .def = p->ahead.loop, .index = p->ahead.loop->results.count};
    vec_push(arena, &p->ahead.loop->operands, first);
    vec_push(arena, &p->ahead.loop->results, result);
    return ir_block_arg(p->ahead.context, p->ahead.body, i64, NULL);
}

/* Where the copies of a turn start. */
static IrOp *copies_before(const Pipeline *p, IrOp *start) {
    enum { SLOTS_ENOUGH = 3 };
    IrOp *op = p->slots >= SLOTS_ENOUGH ? start : NULL;
    while (op && op->kind != OP_MMA && op->kind != OP_MMA_T)
        op = op->next;
    return op ? op->next : start;
}

static void turn_over(Pipeline *p) {
    Arena *arena = p->ahead.context->arena;
    const Type *i64 = type_scalar(p->ahead.context->types, PHB_I64), *boolean = type_scalar(p->ahead.context->types, PHB_BOOL);
    int64_t step = (int64_t)p->ahead.loop->operands.items[2]->def->bits;
    p->ahead.at = p->ahead.loop;
    IrValue *number = carry_number(p, ahead_int(&p->ahead, 0));
    IrOp *first = p->ahead.body->first;
    p->ahead.at = first;
    ahead_op(&p->ahead, OP_ASYNC_WAIT, NULL, 0, NULL)->dim = dim_int(p->ahead.context->dims, p->slots - 2);
    ahead_op(&p->ahead, OP_BARRIER, NULL, 0, NULL);
    IrValue *last = ahead_int(&p->ahead, p->slots - 1), *one = ahead_int(&p->ahead, 1), *zero = ahead_int(&p->ahead, 0);
    IrValue *before = ahead_select(&p->ahead, ahead_value(&p->ahead, OP_EQ, boolean, number, zero), last, ahead_value(&p->ahead, OP_SUB, i64, number, one));
    p->ahead.at = copies_before(p, p->ahead.at);
    p->ahead.turn = ahead_value(&p->ahead, OP_ADD, i64, p->ahead.body->args.items[0], ahead_int(&p->ahead, (p->slots - 1) * step));
    copy_turn(p, before);
    p->ahead.at = first;
    for (int i = 0; i < p->count; i++)
        ir_replace_uses_in(p->ahead.body, p->copies[i].stage->results.items[0], make_slot(p, &p->copies[i], number));
    IrValue *next = ahead_select(&p->ahead, ahead_value(&p->ahead, OP_EQ, boolean, number, last), zero, ahead_value(&p->ahead, OP_ADD, i64, number, one));
    vec_push(arena, &p->ahead.body->last->operands, next);
    for (int i = 0; i < p->count; i++) {
        ir_remove(p->copies[i].stage);
        ir_remove(p->copies[i].load);
    }
}

static bool pipeline_loop(Context *context, IrKernel *kernel, IrOp *loop, const LayoutLimits *limits) {
    Pipeline pipeline = {.ahead = {context, loop, loop->regions.items[0], loop, NULL}, .kernel = kernel}, *p = &pipeline;
    if (!find_copies(p, limits))
        return false;
    if (!choose_slots(p, limits)) {
        for (int i = 0; i < p->count; i++)
            remark(p, limits, p->copies[i].stage, kernel->signature.pipeline ? "@pipeline says so" : "shared memory has no room for two turns of it");
        return false;
    }
    make_rings(p);
    begin_copies(p);
    turn_over(p);
    return true;
}

static bool pipeline_block(Context *context, IrKernel *kernel, IrBlock *block, const LayoutLimits *limits) {
    bool changed = false;
    for (IrOp *op = block->first; op; op = op->next) {
        bool inner = false;
        for (int r = 0; r < op->regions.count; r++)
            inner |= pipeline_block(context, kernel, op->regions.items[r], limits);
        changed |= inner || (op->kind == OP_FOR && pipeline_loop(context, kernel, op, limits));
    }
    return changed;
}

bool layout_pipeline(Context *context, IrKernel *kernel, const LayoutLimits *limits) {
    return pipeline_block(context, kernel, kernel->body, limits);
}
