/* @tensorcore and @tensorcore(bf16x6): products of f32 to the accuracy of f32 by instructions that multiply 16 bits. Each factor is the sum of three
 * bf16, its *planes*, which a pass before the kernel's own computes from the tensor; of the nine products of planes the six largest are summed up,
 * the small ones first. Instructions truncate what they sum up, so that each turn of the loop begins at 0 and adds its sum in f32 to what the loop
 * carries: `acc = dot(a, b, acc)` becomes `acc = acc + dot(a0, b0, dot(a0, b1, .. dot(a2, b0, 0)))`. The order of a sum follows from the loop's step
 * alone.
 *
 * Requires a specialised kernel at the value level. Takes loops that layout_bulk_mark takes then, and leaves the others as they are. */
#include "compiler/layout/layout.h"

enum { PLANES = 3, PAIRS = 6 };

/* Planes of the first and the second factor that are multiplied; plane 0 is the largest. */
static const struct { int first, second; } pairs[PAIRS] = {{2, 0}, {0, 2}, {1, 1}, {1, 0}, {0, 1}, {0, 0}};

/* A factor's load, and those of its planes instead. */
typedef struct Factor {
    IrOp *load, *planes[PLANES];
} Factor;

typedef struct Product {
    IrOp *dot, *add; /* before and after */
} Product;

typedef struct Split {
    Context *context;
    IrKernel *kernel;
    const LayoutLimits *limits;
    const bool *stored;
    IrOp *at; /* new ops go before it */
    VEC(Factor) factors;
    VEC(Product) products;
    VEC(IrOp *) made;
} Split;

/* ---- making ops ---- */

static IrOp *make(Split *s, OpKind kind, Span span, IrValue *const *operands, int count, const Type *type) {
    IrBlock nowhere = {0};
    IrOp *op = ir_append(s->context, &nowhere, kind, span, operands, count, &type, 1);
    op->parent = NULL;
    op->prev = op->next = NULL;
    ir_insert_before(s->at, op);
    vec_push(s->context->arena, &s->made, op);
    return op;
}

static IrValue *make_const(Split *s, Span span, PhbDType dtype, uint64_t bits) {
    IrOp *op = make(s, OP_CONST, span, NULL, 0, type_scalar(s->context->types, dtype));
    op->bits = bits;
    return op->results.items[0];
}

static IrValue *make_planes(Split *s, IrValue *tensor, Span span) {
    const Dim *dims[PHB_MAX_RANK] = {dim_int(s->context->dims, PLANES)};
    for (int axis = 0; axis < tensor->type->rank; axis++)
        dims[1 + axis] = tensor->type->dims[axis];
    s->at = s->kernel->body->first;
    const Type *type = type_shaped(s->context->types, TYPE_TENSOR, PHB_BF16, tensor->type->rank + 1, dims);
    return make(s, OP_PLANES, span, &tensor, 1, type)->results.items[0];
}

/* ---- a product ---- */

static Factor *find_factor(Split *s, IrOp *load) {
    for (int i = 0; i < s->factors.count; i++)
        if (s->factors.items[i].load == load)
            return &s->factors.items[i];
    return NULL;
}

static void split_load(Split *s, IrOp *load) {
    Factor factor = {.load = load};
    IrValue *operands[PHB_MAX_RANK + 2] = {make_planes(s, load->operands.items[0], load->span)};
    const Type *tile = load->results.items[0]->type, *type = type_shaped(s->context->types, TYPE_TILE, PHB_BF16, tile->rank, tile->dims);
    int rank = load->operands.items[0]->type->rank;
    s->at = load;
    for (int axis = 0; axis < rank; axis++)
        operands[2 + axis] = load->operands.items[1 + axis];
    for (int plane = 0; plane < PLANES; plane++) {
        operands[1] = make_const(s, load->span, PHB_I64, (uint64_t)plane);
        factor.planes[plane] = make(s, OP_LOAD, load->span, operands, rank + 2, type);
        for (int axis = 0; axis < rank; axis++)
            factor.planes[plane]->extent[1 + axis] = load->extent[axis];
    }
    vec_push(s->context->arena, &s->factors, factor);
}

/* A slice of a parameter of f32 whose planes are a tensor, too, that is loaded beside the product. */
static bool is_slice(const IrValue *tile, const IrBlock *block) {
    const IrOp *load = tile->def;
    return tile->type->scalar == PHB_F32 && load && load->kind == OP_LOAD && load->parent == block && ir_is_param(load->operands.items[0]) &&
           load->operands.items[0]->type->rank < PHB_MAX_RANK;
}

static bool can_split(const IrOp *op) {
    return (op->kind == OP_DOT || op->kind == OP_DOT_T) && is_slice(op->operands.items[0], op->parent) && is_slice(op->operands.items[1], op->parent);
}

static void split_product(Split *s, IrOp *dot) {
    const Type *type = dot->results.items[0]->type;
    for (int i = 0; i < 2; i++)
        if (!find_factor(s, dot->operands.items[i]->def))
            split_load(s, dot->operands.items[i]->def);
    const Factor *first = find_factor(s, dot->operands.items[0]->def), *second = find_factor(s, dot->operands.items[1]->def);
    s->at = dot;
    IrValue *zero = make_const(s, dot->span, PHB_F32, 0), *sum = make(s, OP_BROADCAST, dot->span, &zero, 1, type)->results.items[0];
    for (int i = 0; i < PAIRS; i++) {
        IrValue *operands[3] = {first->planes[pairs[i].first]->results.items[0], second->planes[pairs[i].second]->results.items[0], sum};
        sum = make(s, dot->kind, dot->span, operands, 3, type)->results.items[0];
    }
    IrValue *terms[2] = {dot->operands.items[2], sum};
    IrOp *add = make(s, OP_ADD, dot->span, terms, 2, type);
    ir_replace_uses(s->kernel, dot->results.items[0], add->results.items[0]);
    vec_push(s->context->arena, &s->products, ((Product){dot, add}));
    ir_remove(dot);
}

/* ---- a loop ---- */

static void undo(Split *s) {
    for (int i = s->products.count - 1; i >= 0; i--) {
        const Product *product = &s->products.items[i];
        ir_insert_before(product->add, product->dot);
        ir_replace_uses(s->kernel, product->add->results.items[0], product->dot->results.items[0]);
    }
    for (int i = s->made.count - 1; i >= 0; i--)
        ir_remove(s->made.items[i]);
}

static void remark(const Split *s, const IrOp *dot, const char *why) {
    const Type *a = dot->operands.items[0]->type, *result = dot->results.items[0]->type;
    long long rows = tile_rows(result), columns = tile_columns(result), k = tile_columns(a);
    if (!s->limits->target)
        return;
    if (why)
        diag_remark_once(s->context->diag, REMARK_TENSORCORE, dot->span,
            "on %s the factors of this dot, %lld x %lld x %lld of f32, are not split: %s", s->limits->target, rows, columns, k, why);
    else if (diag_wants_remark(s->context->diag, REMARK_TENSORCORE))
        diag_remark_once(s->context->diag, REMARK_TENSORCORE, dot->span,
            "on %s this dot, %lld x %lld x %lld of f32, is %d products of planes of bf16, %d a factor, whose sum is added in f32 every %lld k",
            s->limits->target, rows, columns, k, PAIRS, PLANES, k);
}

static void drop_loads(Split *s) {
    for (int i = 0; i < s->factors.count; i++)
        if (!ir_count_uses(s->kernel->body, s->factors.items[i].load->results.items[0]))
            ir_remove(s->factors.items[i].load);
}

static const char *find_refusal(const Split *s) {
    for (int i = 0; i < s->products.count; i++) {
        BulkSum sum;
        IrOp *last = s->products.items[i].add->prev;
        const char *why = layout_bulk_refusal(s->context, s->kernel, s->limits, s->stored, last);
        if (why)
            return why;
        if (!layout_bulk_sum(last, &sum))
            return "its loop does more with a turn's sum than carry it to the next turn";
    }
    return NULL;
}

static void split_loop(Split *s, IrOp *loop) {
    for (IrOp *op = loop->regions.items[0]->first, *next; op; op = next) {
        next = op->next;
        if (can_split(op))
            split_product(s, op);
    }
    if (!s->products.count)
        return;
    const char *why = find_refusal(s);
    for (int i = 0; i < s->products.count; i++)
        remark(s, s->products.items[i].dot, why);
    if (why)
        undo(s);
    else
        drop_loads(s);
}

static void split_block(Context *context, IrKernel *kernel, const LayoutLimits *limits, const bool *stored, IrBlock *block) {
    for (IrOp *op = block->first; op; op = op->next) {
        for (int r = 0; r < op->regions.count; r++)
            split_block(context, kernel, limits, stored, op->regions.items[r]);
        Split split = {.context = context, .kernel = kernel, .limits = limits, .stored = stored};
        if (op->kind == OP_FOR)
            split_loop(&split, op);
    }
}

void layout_split(Context *context, IrKernel *kernel, const LayoutLimits *limits) {
    bool *stored = NEW_ARRAY(context->arena, bool, kernel->signature.params.count + 1);
    if (!limits->bulk || ir_has_thread_code(kernel) || kernel->signature.tensorcore != TENSORCORE_BF16X6)
        return;
    for (const IrOp *op = kernel->body->first; op; op = op->next)
        ir_mark_stored(op, stored);
    split_block(context, kernel, limits, stored, kernel->body);
    ir_cse(context, kernel); /* a tensor's planes */
}
