/* Software pipelines: loops that stage slices of tensors copy them some turns ahead, by copies that run behind the threads' backs, into rings of
 * slots. Requires layouts, and no places in shared memory yet. Preserves what is computed. Takes a staged load where
 *  - it stands in the loop's own block, is staged there and not used elsewhere, and nothing in the loop writes its tensor;
 *  - its offsets follow from the loop's index and what is outside of the loop, so that they are known for a later turn;
 *  - 16 bytes along its rows are neighbours in the tensor and aligned in it.
 * Each turn waits for its own slots, passes one barrier, which also says that every thread is done with the last turn's, starts the copies of the
 * turn that will use those, and goes on. Turns beyond the end are not copied. Where there are slots enough, the copies start after the turn's first
 * product: matrix instructions, which go on by themselves, are then under way while addresses are computed. */
#include "compiler/layout/layout.h"

enum { MOST_SLOTS = 4, LEAST_SLOTS = 2, MOST_CTAS = 2, CHUNK_BYTES = 16, MOST_COPIES = 8, CLONE_DEPTH = 32 };

typedef struct Copy {
    IrOp *load, *stage;
    IrValue *ring;
} Copy;

typedef struct Pipeline {
    Context *context;
    IrKernel *kernel;
    IrOp *loop;
    IrBlock *body;
    Copy copies[MOST_COPIES];
    int count, slots;
    IrOp *at;      /* new ops go before it */
    IrValue *turn; /* the index that clones have instead of the loop's */
} Pipeline;

/* ---- what can be copied ahead ---- */

static int count_uses(const IrBlock *block, const IrValue *value) {
    int count = 0;
    for (const IrOp *op = block->first; op; op = op->next) {
        for (int i = 0; i < op->operands.count; i++)
            count += op->operands.items[i] == value;
        for (int r = 0; r < op->regions.count; r++)
            count += count_uses(op->regions.items[r], value);
    }
    return count;
}

/* From the index and what is outside, by pure ops in the loop's own block. */
static bool follows_index(const Pipeline *p, const IrValue *value, int depth) {
    if (value == p->body->args.items[0] || !ir_is_inside(value, p->loop))
        return true;
    if (!value->def || value->def->parent != p->body || !(op_info[value->def->kind].traits & TRAIT_PURE) || depth == CLONE_DEPTH)
        return false;
    for (int i = 0; i < value->def->operands.count; i++)
        if (value->def->operands.items[i]->type->kind == TYPE_TILE || !follows_index(p, value->def->operands.items[i], depth + 1))
            return false;
    return true;
}

static bool is_candidate(const Pipeline *p, const IrOp *stage, const bool *stored) {
    const IrValue *tile = stage->operands.items[0];
    const IrOp *load = tile->def;
    int axes[2];
    if (!load || load->kind != OP_LOAD || load->parent != p->body || tile->type->rank != 2 || !ir_is_param(load->operands.items[0]))
        return false;
    int last = load->operands.items[0]->type->rank - 1;
    int64_t size = dtype_bits(tile->type->scalar) / 8, chunk = CHUNK_BYTES / size;
    slice_axes(load, axes);
    if (axes[1] != last || size > CHUNK_BYTES || tile_columns(tile->type) % chunk != 0 ||
        ir_known_multiple(load->operands.items[1 + last]) % chunk != 0)
        return false;
    if (stored[load->operands.items[0]->index] || count_uses(p->body, tile) != 1)
        return false;
    for (int i = 0; i <= last; i++)
        if (!follows_index(p, load->operands.items[1 + i], 0))
            return false;
    return true;
}

static bool find_copies(Pipeline *p) {
    const IrOp *step = p->loop->operands.items[2]->def;
    bool *stored = NEW_ARRAY(p->context->arena, bool, p->kernel->signature.params.count + 1);
    if (!step || step->kind != OP_CONST || (int64_t)step->bits <= 0)
        return false;
    ir_mark_stored(p->loop, stored);
    for (IrOp *op = p->body->first; op; op = op->next)
        if (op->kind == OP_STAGE && p->count < MOST_COPIES && is_candidate(p, op, stored))
            p->copies[p->count++] = (Copy){.load = op->operands.items[0]->def, .stage = op};
    return p->count > 0;
}

/* As many as leave shared memory for every CTA that the multiprocessor's registers have room for, two at most, where what is copied needs none; or as
 * @pipeline says: whether that fits is seen when places are given. */
static bool choose_slots(Pipeline *p, const LayoutLimits *limits) {
    int64_t bytes = 0, stages;
    if (p->kernel->signature.pipeline && dim_is_int(p->kernel->signature.pipeline, &stages)) {
        p->slots = (int)(stages < INT16_MAX ? stages : INT16_MAX);
        return stages >= LEAST_SLOTS;
    }
    int registers = layout_pressure(p->context, p->kernel);
    for (int i = 0; i < p->count; i++) {
        bytes += layout_slot_bytes(p->copies[i].stage->results.items[0]->type);
        registers -= layout_registers(p->copies[i].load->results.items[0]->type);
    }
    int64_t ctas = layout_ctas(registers, p->kernel->threads), room = limits->shared_bytes / (ctas < MOST_CTAS ? ctas : MOST_CTAS);
    p->slots = MOST_SLOTS;
    while (p->slots >= LEAST_SLOTS && p->slots * bytes > room)
        p->slots--;
    return p->slots >= LEAST_SLOTS;
}

/* ---- making ops ---- */

static IrOp *make(Pipeline *p, OpKind kind, IrValue *const *operands, int count, const Type *type) {
    IrBlock nowhere = {0};
    IrOp *op = ir_append(p->context, &nowhere, kind, p->loop->span, operands, count, &type, type ? 1 : 0);
    op->parent = NULL;
    op->prev = op->next = NULL;
    ir_insert_before(p->at, op);
    return op;
}

static IrValue *make_value(Pipeline *p, OpKind kind, const Type *type, IrValue *a, IrValue *b) {
    IrValue *operands[2] = {a, b};
    return make(p, kind, operands, !a ? 0 : !b ? 1 : 2, type)->results.items[0];
}

static IrValue *make_int(Pipeline *p, int64_t number) {
    IrValue *value = make_value(p, OP_CONST, type_scalar(p->context->types, PHB_I64), NULL, NULL);
    value->def->bits = (uint64_t)number;
    return value;
}

static IrValue *make_select(Pipeline *p, IrValue *condition, IrValue *a, IrValue *b) {
    IrValue *operands[3] = {condition, a, b};
    return make(p, OP_SELECT, operands, 3, a->type)->results.items[0];
}

/* The value as it is in the turn of index p->turn. */
static IrValue *clone(Pipeline *p, IrValue *value) {
    if (value == p->body->args.items[0])
        return p->turn;
    if (!ir_is_inside(value, p->loop))
        return value;
    IrValue *operands[8];
    for (int i = 0; i < value->def->operands.count; i++)
        operands[i] = clone(p, value->def->operands.items[i]);
    IrOp *op = make(p, value->def->kind, operands, value->def->operands.count, value->type);
    ir_copy_attributes(op, value->def);
    return op->results.items[0];
}

static IrValue *make_slot(Pipeline *p, const Copy *copy, IrValue *number) {
    return make_value(p, OP_SLOT, copy->stage->results.items[0]->type, copy->ring, number);
}

/* Copies everything of turn p->turn to the slots `number`, if that turn is there, as one group. */
static void copy_turn(Pipeline *p, IrValue *number) {
    IrValue *is_there = make_value(p, OP_LT, type_scalar(p->context->types, PHB_BOOL), p->turn, p->loop->operands.items[1]);
    IrValue *operands[MOST_COPIES][PHB_MAX_RANK + 3];
    for (int i = 0; i < p->count; i++) {
        const Copy *copy = &p->copies[i];
        int rank = copy->load->operands.items[0]->type->rank;
        operands[i][0] = copy->load->operands.items[0];
        for (int axis = 0; axis < rank; axis++)
            operands[i][1 + axis] = clone(p, copy->load->operands.items[1 + axis]);
        operands[i][1 + rank] = make_slot(p, copy, number);
        operands[i][2 + rank] = is_there;
    }
    for (int i = 0; i < p->count; i++) {
        const IrOp *load = p->copies[i].load;
        IrOp *op = make(p, OP_ASYNC_COPY, operands[i], load->operands.items[0]->type->rank + 3, NULL);
        ir_copy_attributes(op, load);
    }
    make(p, OP_ASYNC_COMMIT, NULL, 0, NULL);
}

/* ---- the loop ---- */

static void make_rings(Pipeline *p) {
    for (int i = 0; i < p->count; i++) {
        const Type *slot = p->copies[i].stage->results.items[0]->type;
        const Dim *dims[3] = {dim_int(p->context->dims, p->slots), slot->dims[0], slot->dims[1]};
        p->copies[i].ring = make_value(p, OP_RING, type_shaped(p->context->types, TYPE_SHARED, slot->scalar, 3, dims), NULL, NULL);
    }
}

/* The first turns, before the loop. */
static void begin_copies(Pipeline *p) {
    const Type *i64 = type_scalar(p->context->types, PHB_I64);
    int64_t step = (int64_t)p->loop->operands.items[2]->def->bits;
    for (int turn = 0; turn < p->slots - 1; turn++) {
        p->turn = make_value(p, OP_ADD, i64, p->loop->operands.items[0], make_int(p, turn * step));
        copy_turn(p, make_int(p, turn));
    }
}

/* A further carried value, the number of this turn's slots. */
static IrValue *carry_number(Pipeline *p, IrValue *first) {
    Arena *arena = p->context->arena;
    const Type *i64 = type_scalar(p->context->types, PHB_I64);
    IrValue *result = NEW(arena, IrValue);
    *result = (IrValue){.type = i64, .def = p->loop, .index = p->loop->results.count};
    vec_push(arena, &p->loop->operands, first);
    vec_push(arena, &p->loop->results, result);
    return ir_block_arg(p->context, p->body, i64, NULL);
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
    Arena *arena = p->context->arena;
    const Type *i64 = type_scalar(p->context->types, PHB_I64), *boolean = type_scalar(p->context->types, PHB_BOOL);
    int64_t step = (int64_t)p->loop->operands.items[2]->def->bits;
    p->at = p->loop;
    IrValue *number = carry_number(p, make_int(p, 0));
    IrOp *first = p->body->first;
    p->at = first;
    make(p, OP_ASYNC_WAIT, NULL, 0, NULL)->dim = dim_int(p->context->dims, p->slots - 2);
    make(p, OP_BARRIER, NULL, 0, NULL);
    IrValue *last = make_int(p, p->slots - 1), *one = make_int(p, 1), *zero = make_int(p, 0);
    IrValue *before = make_select(p, make_value(p, OP_EQ, boolean, number, zero), last, make_value(p, OP_SUB, i64, number, one));
    p->at = copies_before(p, p->at);
    p->turn = make_value(p, OP_ADD, i64, p->body->args.items[0], make_int(p, (p->slots - 1) * step));
    copy_turn(p, before);
    p->at = first;
    for (int i = 0; i < p->count; i++)
        ir_replace_uses_in(p->body, p->copies[i].stage->results.items[0], make_slot(p, &p->copies[i], number));
    IrValue *next = make_select(p, make_value(p, OP_EQ, boolean, number, last), zero, make_value(p, OP_ADD, i64, number, one));
    vec_push(arena, &p->body->last->operands, next);
    for (int i = 0; i < p->count; i++) {
        ir_remove(p->copies[i].stage);
        ir_remove(p->copies[i].load);
    }
}

static bool pipeline_loop(Context *context, IrKernel *kernel, IrOp *loop, const LayoutLimits *limits) {
    Pipeline pipeline = {.context = context, .kernel = kernel, .loop = loop, .body = loop->regions.items[0], .at = loop}, *p = &pipeline;
    if (!find_copies(p) || !choose_slots(p, limits))
        return false;
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
