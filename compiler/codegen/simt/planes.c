/* The pass that computes planes of a tensor before a stage that multiplies them: a leaf of its own at the value level, as PHB_PLANES_* in
 * runtime/program.h say. An element is the sum of its planes; each is what is left of it, rounded to the nearest even. A first plane that would
 * round to an infinity is truncated, and of an infinity the other planes are 0; of what is not a number all are none. */
#include "compiler/codegen/simt/simt.h"

typedef struct Pass {
    Context *context;
    IrBlock *body;
    const Type *wide, *narrow, *words, *flags; /* tiles */
} Pass;

static const Span nowhere = {0};

static IrValue *value(Pass *p, OpKind kind, const Type *type, IrValue *a, IrValue *b) {
    return ir_value(p->context, p->body, kind, nowhere, type, a, b);
}

static IrValue *integer(Pass *p, int64_t number) {
    return ir_const_bits(p->context, p->body, nowhere, type_scalar(p->context->types, PHB_I64), (uint64_t)number);
}

/* A tile of one number. */
static IrValue *filled(Pass *p, const Type *type, uint64_t bits) {
    IrValue *scalar = ir_const_bits(p->context, p->body, nowhere, type_scalar(p->context->types, type->scalar), bits);
    return value(p, OP_BROADCAST, type, scalar, NULL);
}

static IrValue *choose(Pass *p, IrValue *condition, IrValue *x, IrValue *y) {
    IrValue *operands[3] = {condition, x, y};
    return ir_append(p->context, p->body, OP_SELECT, nowhere, operands, 3, &x->type, 1)->results.items[0];
}

static IrValue *is_infinite(Pass *p, IrValue *x) {
    const uint64_t infinity = 0x7f800000;
    return value(p, OP_EQ, p->flags, value(p, OP_ABS, p->wide, x, NULL), filled(p, p->wide, infinity));
}

static IrValue *first_plane(Pass *p, IrValue *x) {
    const uint64_t upper_half = 0xffff0000;
    IrValue *nearest = value(p, OP_CONVERT, p->wide, value(p, OP_CONVERT, p->narrow, x, NULL), NULL);
    IrValue *word = value(p, OP_AND, p->words, value(p, OP_BITCAST, p->words, x, NULL), filled(p, p->words, upper_half));
    return choose(p, is_infinite(p, nearest), value(p, OP_BITCAST, p->wide, word, NULL), nearest);
}

static void store_plane(Pass *p, int plane, IrValue *const *at, IrValue *narrow) {
    IrValue *operands[] = {p->body->args.items[1], integer(p, plane), at[0], at[1], narrow};
    IrOp *store = ir_append(p->context, p->body, OP_STORE, nowhere, operands, 5, NULL, 0);
    for (int axis = 0; axis < 2; axis++)
        store->extent[1 + axis] = narrow->type->dims[axis];
}

static IrValue *offset(Pass *p, int axis, int64_t extent) {
    const Type *i64 = type_scalar(p->context->types, PHB_I64);
    IrValue *block = value(p, OP_BLOCK, i64, NULL, NULL);
    block->def->axis = axis;
    return value(p, OP_MUL, i64, block, integer(p, extent));
}

static void emit_body(Pass *p) {
    IrValue *at[2] = {offset(p, 1, PHB_PLANES_ROWS), offset(p, 0, PHB_PLANES_COLUMNS)};
    IrValue *slice[] = {p->body->args.items[0], at[0], at[1]};
    IrOp *load = ir_append(p->context, p->body, OP_LOAD, nowhere, slice, 3, &p->wide, 1);
    for (int axis = 0; axis < 2; axis++)
        load->extent[axis] = p->wide->dims[axis];
    IrValue *rest = load->results.items[0], *part = first_plane(p, rest), *end = is_infinite(p, part);
    for (int plane = 0; plane < PHB_PLANES; plane++) {
        IrValue *narrow = value(p, OP_CONVERT, p->narrow, part, NULL);
        store_plane(p, plane, at, narrow);
        rest = choose(p, end, filled(p, p->wide, 0), value(p, OP_SUB, p->wide, rest, value(p, OP_CONVERT, p->wide, narrow, NULL)));
        part = rest;
    }
    ir_append(p->context, p->body, OP_RETURN, nowhere, NULL, 0, NULL, 0);
}

static void add_param(Context *context, IrKernel *kernel, const char *name, const Type *type) {
    const Param param = {.name = intern_cstr(context->interner, name), .type = type};
    vec_push(context->arena, &kernel->signature.params, param);
    ir_block_arg(context, kernel->body, type, param.name);
}

IrKernel *simt_planes(Context *context, const SimtTarget *target, const char **why) {
    TypePool *types = context->types;
    IrKernel *kernel = NEW(context->arena, IrKernel);
    kernel->signature.name = intern_cstr(context->interner, "planes");
    kernel->body = ir_block_new(context, NULL);
    const Dim *extents[3] = {dim_int(context->dims, PHB_PLANES)};
    static const char *const names[2] = {"rows", "columns"};
    for (int axis = 0; axis < 2; axis++) {
        const char *name = intern_cstr(context->interner, names[axis]);
        vec_push(context->arena, &kernel->signature.symbolic, name);
        extents[1 + axis] = dim_name(context->dims, name);
    }
    add_param(context, kernel, "tensor", type_shaped(types, TYPE_TENSOR, PHB_F32, 2, extents + 1));
    add_param(context, kernel, "planes", type_shaped(types, TYPE_TENSOR, PHB_BF16, 3, extents));
    const Dim *tile[2] = {dim_int(context->dims, PHB_PLANES_ROWS), dim_int(context->dims, PHB_PLANES_COLUMNS)};
    for (int axis = 0; axis < 2; axis++) {
        GridAxis *grid = &kernel->signature.grid[axis];
        vec_push(context->arena, &grid->counts, dim_op(context->dims, PHB_EXPR_CEILDIV, extents[2 - axis], tile[1 - axis]));
        vec_push(context->arena, &grid->spans, nowhere);
    }
    Pass pass = {.context = context,
        .body = kernel->body,
        .wide = type_shaped(types, TYPE_TILE, PHB_F32, 2, tile),
        .narrow = type_shaped(types, TYPE_TILE, PHB_BF16, 2, tile),
        .words = type_shaped(types, TYPE_TILE, PHB_U32, 2, tile),
        .flags = type_shaped(types, TYPE_TILE, PHB_BOOL, 2, tile)};
    emit_body(&pass);
    return simt_lay_out(context, kernel, NULL, target, why);
}

bool simt_needs_planes(const PhbTensorMap *maps, int count) {
    bool some = false;
    for (int i = 0; i < count; i++)
        some |= maps[i].planes > 0;
    return some;
}

void simt_note_planes(Context *context, GpuVariant *variant, int tensors, const PhbTensorMap *maps, int count) {
    if (!variant->planes && simt_needs_planes(maps, count))
        variant->planes = NEW_ARRAY(context->arena, bool, tensors);
    for (int i = 0; i < count; i++)
        if (maps[i].planes)
            variant->planes[maps[i].tensor] = true;
}
