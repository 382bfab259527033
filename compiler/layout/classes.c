/* Which values share a layout, and which one it is.
 *
 * Element-wise ops, and loops and branches that carry tiles, take operands and results in one layout: those values are one class. Other ops tie
 * classes together: what is reduced, broadcast or transposed has a slice or the transpose of the other's layout where it has none of its own.
 * Accumulators of products choose first, then tiles of two axes that are loaded or stored, the largest first, then what is tied to them, then the
 * rest. */
#include "compiler/layout/layout.h"

typedef struct Class {
    int parent; /* itself: stands for its class */
    int64_t rows, columns;
    bool is_tile, is_product, is_accessed, is_reduced[2];
    bool no_mma;    /* a product of it that matrix instructions cannot do */
    bool is_wgmma;  /* or that those of four warps do */
    bool is_factor; /* the first one of products in a loop that it stays the same in: registers hold it as matrix instructions take it */
    int fast;       /* the axis along which memory runs */
    int64_t vector; /* elements of 16 bytes of the narrowest tensor that it is loaded from or stored to */
    const Layout *layout;
} Class;

/* The layout of `to` follows from that of `from`. */
typedef struct Tie {
    int from, to;
    bool drops[2], swaps;
} Tie;

typedef struct Chooser {
    Context *context;
    const IrKernel *kernel;
    Class *classes; /* by IrValue.id */
    int count, warp_bits;
    bool tensor_cores, chained;
    VEC(Tie) ties;
} Chooser;

static Class *class_of(Chooser *c, const IrValue *value) {
    int at = value->id;
    while (c->classes[at].parent != at)
        at = c->classes[at].parent = c->classes[c->classes[at].parent].parent;
    return &c->classes[at];
}

static bool is_tile(const IrValue *value) {
    return value->type->kind == TYPE_TILE;
}

static void unite(Chooser *c, const IrValue *a, const IrValue *b) {
    if (!is_tile(a) || !is_tile(b))
        return;
    Class *x = class_of(c, a), *y = class_of(c, b);
    if (x == y)
        return;
    y->parent = x->parent;
    x->is_product |= y->is_product;
    x->no_mma |= y->no_mma;
    x->is_wgmma |= y->is_wgmma;
    x->is_factor |= y->is_factor;
    if (y->is_accessed) {
        x->fast = x->is_accessed ? x->fast : y->fast;
        x->vector = y->vector > x->vector ? y->vector : x->vector;
        x->is_accessed = true;
    }
    for (int axis = 0; axis < 2; axis++)
        x->is_reduced[axis] |= y->is_reduced[axis];
}

static void tie(Chooser *c, const IrValue *from, const IrValue *to, bool drops_rows, bool drops_columns, bool swaps) {
    Tie entry = {from->id, to->id, {drops_rows, drops_columns}, swaps};
    vec_push(c->context->arena, &c->ties, entry);
}

static bool same_shape(const Type *a, const Type *b) {
    return tile_rows(a) == tile_rows(b) && tile_columns(a) == tile_columns(b);
}

/* ---- what ops ask for ---- */

static void note_access(Chooser *c, const IrOp *op) {
    const IrValue *value = op->kind == OP_LOAD ? op->results.items[0] : stored_value(op);
    if (!is_tile(value))
        return;
    Class *class = class_of(c, value);
    int axes[2], last = op->operands.items[0]->type->rank - 1;
    slice_axes(op, axes);
    int64_t vector = 16 / (dtype_bits(value->type->scalar) / 8);
    if (!class->is_accessed)
        class->fast = value->type->rank == 2 && axes[0] == last ? 0 : 1;
    class->is_accessed = true;
    class->vector = vector > class->vector ? vector : class->vector;
}

static void note_reshape(Chooser *c, const IrOp *op) {
    const IrValue *from = op->operands.items[0], *to = op->results.items[0];
    if (same_shape(from->type, to->type)) {
        unite(c, from, to);
    } else if (reshape_keeps_axes(op)) {
        tie(c, from, to, false, false, true);
        tie(c, to, from, false, false, true);
    }
}

static void note_broadcast(Chooser *c, const IrOp *op) {
    const IrValue *from = op->operands.items[0], *to = op->results.items[0];
    if (!is_tile(from))
        return;
    if (same_shape(from->type, to->type))
        unite(c, from, to);
    else
        tie(c, to, from, tile_rows(from->type) != tile_rows(to->type), tile_columns(from->type) != tile_columns(to->type), false);
}

static void note_reduction(Chooser *c, const IrOp *op) {
    const IrValue *from = op->operands.items[0], *to = op->results.items[0];
    int axis = from->type->rank == 1 ? 1 : op->axis;
    if (op->axis < 0)
        return;
    class_of(c, from)->is_reduced[axis] = true;
    tie(c, from, to, axis == 0, axis == 1, false);
}

static void note_block(Chooser *c, const IrBlock *block);

static void note_regions(Chooser *c, const IrOp *op) {
    int first = ir_first_carried(op);
    for (int r = 0; r < op->regions.count; r++) {
        const IrBlock *region = op->regions.items[r];
        const IrOp *last = region->last;
        note_block(c, region);
        for (int i = 0; i < op->results.count; i++) {
            if (op->kind != OP_IF) {
                unite(c, op->results.items[i], op->operands.items[first + i]);
                unite(c, op->results.items[i], region->args.items[(op->kind == OP_FOR) + i]);
            }
            if (last->kind == OP_YIELD)
                unite(c, op->results.items[i], last->operands.items[i]);
        }
    }
}

/* Products that follow one another leave a warp whole rows: a first factor that is there before their loop is brought to registers once. */
static bool stays_in_registers(const Chooser *c, const IrOp *dot) {
    enum { MOST_OF_FACTOR = 64 }; /* elements in a thread, of 16 bits */
    const IrValue *factor = dot->operands.items[0];
    const IrOp *loop = dot->parent->owner;
    return c->chained && loop && loop->kind == OP_FOR && factor->def && factor->def->parent != dot->parent && factor->type->rank == 2 &&
           dtype_bits(factor->type->scalar) == 16 && layout_mma_step(c->kernel, dot) &&
           tile_rows(factor->type) * tile_columns(factor->type) <= MOST_OF_FACTOR * (int64_t)c->kernel->threads;
}

static void note_op(Chooser *c, const IrOp *op) {
    switch (op->kind) {
    case OP_LOAD:
    case OP_STORE:
        note_access(c, op);
        return;
    case OP_RESHAPE:
        note_reshape(c, op);
        return;
    case OP_BROADCAST:
        note_broadcast(c, op);
        return;
    case OP_TRANSPOSE:
        tie(c, op->operands.items[0], op->results.items[0], false, false, true);
        tie(c, op->results.items[0], op->operands.items[0], false, false, true);
        return;
    case OP_DOT:
    case OP_DOT_T:
    case OP_WGMMA:
    case OP_WGMMA_T:
        unite(c, op->results.items[0], op->operands.items[2]);
        class_of(c, op->results.items[0])->is_product = true;
        class_of(c, op->operands.items[0])->is_factor |= stays_in_registers(c, op);
        class_of(c, op->results.items[0])->no_mma |= !layout_mma_step(c->kernel, op);
        class_of(c, op->results.items[0])->is_wgmma |= op->kind == OP_WGMMA || op->kind == OP_WGMMA_T;
        return;
    case OP_PART: /* of products' sums alone */
        class_of(c, op->results.items[0])->is_product = class_of(c, op->results.items[0])->is_wgmma = true;
        return;
    default:
        break;
    }
    if (op_info[op->kind].traits & TRAIT_REDUCES) {
        note_reduction(c, op);
    } else if (op->regions.count) {
        note_regions(c, op);
    } else {
        for (int i = 0; op->results.count == 1 && i < op->operands.count; i++)
            unite(c, op->results.items[0], op->operands.items[i]);
    }
}

static void note_block(Chooser *c, const IrBlock *block) {
    for (const IrOp *op = block->first; op; op = op->next)
        note_op(c, op);
}

/* ---- the choice ---- */

static void enter_value(Chooser *c, const IrValue *value) {
    Class *class = &c->classes[value->id];
    class->parent = value->id;
    class->is_tile = is_tile(value);
    class->fast = 1;
    if (class->is_tile) {
        class->rows = tile_rows(value->type);
        class->columns = tile_columns(value->type);
    }
}

static void enter_block(Chooser *c, const IrBlock *block) {
    for (int i = 0; block->owner && i < block->args.count; i++)
        enter_value(c, block->args.items[i]);
    for (const IrOp *op = block->first; op; op = op->next) {
        for (int i = 0; i < op->results.count; i++)
            enter_value(c, op->results.items[i]);
        for (int r = 0; r < op->regions.count; r++)
            enter_block(c, op->regions.items[r]);
    }
}

static const Layout *keep(Chooser *c, const Layout *layout) {
    Layout *copy = NEW(c->context->arena, Layout);
    *copy = *layout;
    return copy;
}

static bool give(Chooser *c, Class *class) {
    Layout layout;
    bool fits;
    if (class->is_wgmma) {
        fits = layout_wgmma(class->rows, class->columns, c->warp_bits, &layout);
    } else if (class->is_product && c->tensor_cores && !class->no_mma && layout_mma(class->rows, class->columns, c->chained, c->warp_bits, &layout)) {
        fits = true;
    } else if (class->is_factor && layout_mma(class->rows, class->columns, true, c->warp_bits, &layout)) {
        fits = true;
    } else if (class->is_product) {
        fits = layout_outer(class->rows, class->columns, 4, c->warp_bits, &layout);
    } else {
        int64_t elements = ((int64_t)1 << (layout_log2(class->rows) + layout_log2(class->columns))) >> (LAYOUT_LANES + c->warp_bits);
        int64_t vector = class->is_accessed ? class->vector : 4, across = class->fast ? class->rows : class->columns;
        if (vector > elements)
            vector = elements > 0 ? elements : 1;
        bool warps_across = class->is_reduced[class->fast] && across >= (int64_t)1 << c->warp_bits;
        fits = layout_blocked(class->rows, class->columns, class->fast, vector, warps_across, c->warp_bits, &layout);
    }
    class->layout = fits ? keep(c, &layout) : NULL;
    return fits;
}

/* A transposed tile that memory holds, too: under the transpose of the other's layout neighbouring threads would touch rows far apart, each an
 * element wide. It chooses for itself, and is converted. */
static bool walks_across(const Class *class, const Class *source, const Tie *entry) {
    return entry->swaps && class->is_accessed && source->is_accessed && class->fast == source->fast && class->rows > 1 && class->columns > 1;
}

/* What follows from the layouts that there are, until nothing does. */
static void follow_ties(Chooser *c) {
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = 0; i < c->ties.count; i++) {
            const Tie *entry = &c->ties.items[i];
            const IrValue from = {.id = entry->from}, to = {.id = entry->to};
            Class *source = class_of(c, &from), *class = class_of(c, &to);
            if (!source->layout || class->layout || walks_across(class, source, entry))
                continue;
            Layout layout = entry->swaps ? layout_swap(source->layout) : *source->layout;
            for (int axis = 0; axis < 2; axis++)
                if (entry->drops[axis])
                    layout = layout_slice(&layout, axis);
            class->layout = keep(c, &layout);
            changed = true;
        }
    }
}

static bool chooses_in(const Class *class, int round) {
    bool has_two_axes = class->rows > 1 && class->columns > 1;
    return round == 0 ? class->is_product : round == 1 ? has_two_axes && class->is_accessed : round == 2 ? has_two_axes : true;
}

/* The largest class without a layout whose turn it is, the earliest among equals. */
static Class *next_class(Chooser *c, int round) {
    Class *best = NULL;
    for (int i = 0; i < c->count; i++) {
        Class *class = &c->classes[i];
        if (class->parent != i || !class->is_tile || class->layout || !chooses_in(class, round))
            continue;
        if (!best || class->rows * class->columns > best->rows * best->columns)
            best = class;
    }
    return best;
}

bool layout_choose(Context *context, const IrKernel *kernel, bool tensor_cores, const Layout **layouts, const char **why) {
    enum { ROUNDS = 4 };
    Chooser chooser = {.context = context, .kernel = kernel, .tensor_cores = tensor_cores}, *c = &chooser;
    c->chained = tensor_cores && layout_mma_use(context, (IrKernel *)kernel).chained;
    while (2 << c->warp_bits <= kernel->threads / 32)
        c->warp_bits++;
    c->count = ir_number((IrKernel *)kernel);
    c->classes = NEW_ARRAY(context->arena, Class, c->count + 1);
    enter_block(c, kernel->body);
    note_block(c, kernel->body);
    for (int round = 0; round < ROUNDS; round++) {
        for (Class *class = next_class(c, round); class; class = next_class(c, round)) {
            if (!give(c, class)) {
                *why = arena_printf(context->arena, "a tile of %lld x %lld elements is more than %d threads hold in registers",
                    (long long)class->rows, (long long)class->columns, kernel->threads);
                return false;
            }
            follow_ties(c);
        }
    }
    for (int i = 0; i < c->count; i++) {
        const IrValue value = {.id = i};
        layouts[i] = class_of(c, &value)->layout;
    }
    return true;
}
