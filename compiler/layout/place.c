/* Gives every use of shared memory its place. Requires layouts. Afterwards op->shared_at and op->shared_bytes are set where an op works in shared
 * memory or its result lies there, and kernel->shared_bytes is what a CTA needs. Two uses share bytes only where they are not alive at the same time:
 * a staged tile lives from its op to its last use, and to the end of every loop that it is defined before and used in; an op's own scratch while the
 * op runs, or where it is small as long as the CTA; what the source declares as `shared` as long as the CTA. */
#include "compiler/layout/layout.h"

enum { ALIGN = 16 };

typedef struct Use {
    IrOp *op;
    int first, last; /* places in program order */
    int64_t at, bytes;
    bool is_kept; /* nobody else gets its bytes */
} Use;

typedef struct Placer {
    Context *context;
    IrKernel *kernel;
    int *last_use; /* by IrValue.id */
    int next;      /* place in program order */
    VEC(Use) uses;
} Placer;

/* ---- how much ---- */

static int64_t round_up(int64_t n, int64_t to) {
    return (n + to - 1) / to * to;
}

int64_t layout_pitch(const Type *type) {
    int64_t pitch = round_up(tile_extent(type, type->rank - 1) * (dtype_bits(type->scalar) / 8), ALIGN);
    return pitch / ALIGN % 2 ? pitch : pitch + ALIGN; /* the same column of eight rows lies in eight different groups of banks */
}

int64_t layout_slot_bytes(const Type *type) {
    return layout_pitch(type) * tile_extent(type, type->rank - 2);
}

static int64_t tile_bytes(const Type *type) {
    int64_t bytes = layout_pitch(type);
    for (int axis = 0; axis < type->rank - 1; axis++)
        bytes *= tile_extent(type, axis);
    return bytes;
}

int layout_warps_reduced(const Layout *layout, int axis) {
    int reduced = 0;
    for (int bit = 0; bit < layout->warps; bit++)
        if (axis < 0 ? layout_warps(layout)[bit].at[0] || layout_warps(layout)[bit].at[1] : layout_warps(layout)[bit].at[axis])
            reduced |= 1 << bit;
    return reduced;
}

static int64_t reduction_bytes(const IrOp *op) {
    const Type *from = op->operands.items[0]->type;
    int axis = op->axis >= 0 && from->rank == 1 ? 1 : op->axis;
    int reduced = layout_warps_reduced(from->layout, axis);
    if (!reduced)
        return 0;
    int64_t kept = axis < 0 ? 1 : axis == 0 ? tile_columns(from) : tile_rows(from);
    int64_t size = dtype_bits(from->scalar) / 8 + (op->kind == OP_ARGMAX ? 4 : 0);
    return kept * ((int64_t)1 << __builtin_popcount((unsigned)reduced)) * size;
}

int64_t layout_shared_bytes(const IrKernel *kernel, const IrOp *op) {
    int sources[1 << LAYOUT_REGISTERS];
    switch (op->kind) {
    case OP_BULK_RING:
        return tile_extent(op->results.items[0]->type, 0) * layout_bulk_slot_bytes(op->results.items[0]->type);
    case OP_MBARRIERS:
    case OP_MBARRIERS_OF_ALL:
        return tile_extent(op->results.items[0]->type, 0) * (int64_t)sizeof(int64_t);
    case OP_STAGE:
    case OP_SHARED:
    case OP_RING:
        return tile_bytes(op->results.items[0]->type);
    case OP_CONVERT_LAYOUT:
        return layout_permutes(op->operands.items[0]->type->layout, op->results.items[0]->type->layout, sources)
                   ? 0
                   : tile_bytes(op->results.items[0]->type);
    case OP_RESHAPE:
        return reshape_keeps_axes(op) ? 0
                                      : tile_rows(op->results.items[0]->type) * tile_columns(op->results.items[0]->type) *
                                            (dtype_bits(op->results.items[0]->type->scalar) / 8);
    case OP_CUMSUM:
        return tile_rows(op->results.items[0]->type) * tile_columns(op->results.items[0]->type) *
               (dtype_bits(op->results.items[0]->type->scalar) / 8);
    case OP_BLOCK_SUM:
    case OP_BLOCK_MAX:
    case OP_BLOCK_MIN:
        return (kernel->threads + 31) / 32 * (int64_t)sizeof(int64_t);
    case OP_ATOMIC_ADD:
    case OP_ATOMIC_MAX:
    case OP_ATOMIC_MIN:
    case OP_ATOMIC_CAS:
        return op->once ? (int64_t)sizeof(int64_t) : 0;
    default:
        return op_info[op->kind].traits & TRAIT_REDUCES ? reduction_bytes(op) : 0;
    }
}

static bool is_used_from(const IrOp *from, const IrValue *value) {
    bool is_used = false;
    for (const IrOp *op = from; !is_used && op; op = op->next) {
        for (int i = 0; !is_used && i < op->operands.count; i++)
            is_used = op->operands.items[i] == value;
        for (int r = 0; !is_used && r < op->regions.count; r++)
            is_used = ir_count_uses(op->regions.items[r], value) > 0;
    }
    return is_used;
}

int64_t layout_shared_around(const IrKernel *kernel, const IrOp *loop) {
    int64_t bytes = 0;
    for (const IrOp *around = loop; around; around = around->parent->owner)
        for (const IrOp *op = around->prev; op; op = op->prev)
            if (op->results.count == 1 && op->results.items[0]->type->kind == TYPE_SHARED && is_used_from(around, op->results.items[0]))
                bytes += round_up(layout_shared_bytes(kernel, op), ALIGN);
    return bytes;
}

int64_t layout_shared_inside(const IrKernel *kernel, const IrOp *op) {
    int64_t bytes = 0;
    for (int r = 0; r < op->regions.count; r++)
        for (const IrOp *inner = op->regions.items[r]->first; inner; inner = inner->next)
            bytes += round_up(layout_shared_bytes(kernel, inner), ALIGN) + layout_shared_inside(kernel, inner);
    return bytes;
}

/* ---- how long ---- */

static void note_uses(Placer *p, const IrOp *op) {
    for (int i = 0; i < op->operands.count; i++)
        if (!ir_is_param(op->operands.items[i]))
            p->last_use[op->operands.items[i]->id] = p->next;
}

static void note_block(Placer *p, IrBlock *block);

static void note_op(Placer *p, IrOp *op) {
    int first = p->next++;
    note_uses(p, op);
    int64_t bytes = layout_shared_bytes(p->kernel, op);
    if (bytes) {
        Use use = {.op = op, .first = op->kind == OP_SHARED ? 0 : first, .bytes = bytes};
        vec_push(p->context->arena, &p->uses, use);
    }
    for (int r = 0; r < op->regions.count; r++)
        note_block(p, op->regions.items[r]);
    int last = p->next++;
    if (op->kind != OP_FOR && op->kind != OP_WHILE)
        return;
    for (int i = 0; i < p->uses.count; i++) { /* what was there before the loop and is used in it is needed again */
        const IrOp *other = p->uses.items[i].op;
        if (p->uses.items[i].first < first && other->results.count == 1 && p->last_use[other->results.items[0]->id] > first)
            p->last_use[other->results.items[0]->id] = last;
    }
}

static void note_block(Placer *p, IrBlock *block) {
    for (IrOp *op = block->first; op; op = op->next)
        note_op(p, op);
}

static void end_lives(Placer *p) {
    for (int i = 0; i < p->uses.count; i++) {
        Use *use = &p->uses.items[i];
        use->last = use->first;
        bool is_result = use->op->kind == OP_STAGE || use->op->kind == OP_RING || use->op->kind == OP_BULK_RING || use->op->kind == OP_MBARRIERS ||
                         use->op->kind == OP_MBARRIERS_OF_ALL;
        if (is_result && p->last_use[use->op->results.items[0]->id] > use->last)
            use->last = p->last_use[use->op->results.items[0]->id];
        if (use->op->kind == OP_SHARED)
            use->last = p->next;
    }
}

/* ---- where ---- */

/* The lowest place that no earlier use holds at the same time. */
static void place(Placer *p, int index) {
    Use *use = &p->uses.items[index];
    int64_t align = use->op->kind == OP_BULK_RING ? BULK_ALIGN : ALIGN;
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < index; i++) {
            const Use *other = &p->uses.items[i];
            bool together = use->is_kept || other->is_kept || (use->first <= other->last && other->first <= use->last);
            if (together && use->at < other->at + other->bytes && other->at < use->at + use->bytes) {
                use->at = round_up(other->at + other->bytes, align);
                moved = true;
            }
        }
    }
    use->op->shared_at = use->at;
    use->op->shared_bytes = use->bytes;
    if (use->at + use->bytes > p->kernel->shared_bytes)
        p->kernel->shared_bytes = use->at + use->bytes;
}

/* Small scratch keeps its bytes, so that no barrier need stand between the op and those before it. */
static void keep_scratch(Placer *p) {
    enum { SMALL = 256, ALL = 4096 };
    int64_t sum = 0;
    for (int i = 0; i < p->uses.count; i++) {
        Use *use = &p->uses.items[i];
        use->is_kept = (op_info[use->op->kind].traits & TRAIT_REDUCES) && use->bytes <= SMALL && sum + use->bytes <= ALL;
        sum += use->is_kept ? use->bytes : 0;
    }
}

static void place_all(Placer *p) {
    p->kernel->shared_bytes = 0;
    for (int i = 0; i < p->uses.count; i++) {
        p->uses.items[i].at = 0;
        place(p, i);
    }
}

bool layout_place(Context *context, IrKernel *kernel, const LayoutLimits *limits, const char **why) {
    Placer placer = {.context = context, .kernel = kernel};
    placer.last_use = NEW_ARRAY(context->arena, int, ir_number(kernel) + 1);
    note_block(&placer, kernel->body);
    end_lives(&placer);
    keep_scratch(&placer);
    place_all(&placer);
    if (kernel->shared_bytes > limits->shared_bytes) {
        for (int i = 0; i < placer.uses.count; i++)
            placer.uses.items[i].is_kept = false;
        place_all(&placer);
    }
    if (kernel->shared_bytes <= limits->shared_bytes)
        return true;
    *why = arena_printf(context->arena, "it needs %lld bytes of shared memory, a CTA has at most %lld", (long long)kernel->shared_bytes,
        (long long)limits->shared_bytes);
    return false;
}
