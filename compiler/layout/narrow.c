/* Comparisons of positions in a tile (`iota(N)`, 32 bits, widened) with a number of 64 bits that is the same for all of them, `iota(N) < extent(x,
 * 0)`, become ones of 32 bits: the number is clamped once. Requires a specialised kernel without layouts. Preserves what is computed. */
#include "compiler/layout/layout.h"

typedef struct Narrower {
    Context *context;
    IrOp *at; /* new ops go before it */
    bool changed;
} Narrower;

static IrValue *make(Narrower *n, OpKind kind, const Type *type, IrValue *a, IrValue *b) {
    IrBlock nowhere = {0};
    IrValue *value = ir_value(n->context, &nowhere, kind, n->at->span, type, a, b);
    value->def->parent = NULL;
    ir_insert_before(n->at, value->def);
    return value;
}

static const Type *as_i32(Narrower *n, const Type *type) {
    return type->kind == TYPE_SCALAR ? type_scalar(n->context->types, PHB_I32)
                                     : type_shaped(n->context->types, TYPE_TILE, PHB_I32, type->rank, type->dims);
}

/* Numbers from 0 to less than 2^31 - 1. */
static bool is_position(const IrValue *value) {
    const IrOp *op = value->def;
    if (op && op->kind == OP_IOTA)
        return true;
    return op && (op->kind == OP_BROADCAST || op->kind == OP_RESHAPE || op->kind == OP_TRANSPOSE) && is_position(op->operands.items[0]);
}

/* A widened position as it was; NULL: it is none. */
static IrValue *find_position(Narrower *n, const IrValue *value) {
    const IrOp *op = value->def;
    if (!op)
        return NULL;
    if (op->kind == OP_CONVERT)
        return op->operands.items[0]->type->scalar == PHB_I32 && is_position(op->operands.items[0]) ? op->operands.items[0] : NULL;
    if (op->kind != OP_BROADCAST && op->kind != OP_RESHAPE)
        return NULL;
    IrValue *inner = find_position(n, op->operands.items[0]);
    return inner ? make(n, op->kind, as_i32(n, value->type), inner, NULL) : NULL;
}

static IrValue *find_scalar(const IrValue *value) {
    while (value->def && value->def->kind == OP_BROADCAST && value->def->operands.items[0]->type->kind == TYPE_TILE)
        value = value->def->operands.items[0];
    return value->def && value->def->kind == OP_BROADCAST ? value->def->operands.items[0] : NULL;
}

static IrValue *make_const(Narrower *n, int64_t number) {
    IrValue *value = make(n, OP_CONST, type_scalar(n->context->types, PHB_I64), NULL, NULL);
    value->def->bits = (uint64_t)number;
    return value;
}

static IrValue *clamp(Narrower *n, IrValue *scalar, const Type *tile) {
    IrValue *low = make(n, OP_MAX, scalar->type, scalar, make_const(n, INT32_MIN));
    IrValue *both = make(n, OP_MIN, scalar->type, low, make_const(n, INT32_MAX));
    return make(n, OP_BROADCAST, as_i32(n, tile), make(n, OP_CONVERT, as_i32(n, scalar->type), both, NULL), NULL);
}

static void narrow_comparison(Narrower *n, IrOp *op) {
    n->at = op;
    for (int side = 0; side < 2; side++) {
        IrValue *number = find_scalar(op->operands.items[!side]);
        IrValue *position = number && number->type->scalar == PHB_I64 ? find_position(n, op->operands.items[side]) : NULL;
        if (!position)
            continue;
        op->operands.items[!side] = clamp(n, number, op->operands.items[!side]->type);
        op->operands.items[side] = position;
        n->changed = true;
        return;
    }
}

static void narrow_block(Narrower *n, IrBlock *block) {
    for (IrOp *op = block->first; op; op = op->next) {
        if (op->kind == OP_LT || op->kind == OP_LE)
            narrow_comparison(n, op);
        for (int i = 0; i < op->regions.count; i++)
            narrow_block(n, op->regions.items[i]);
    }
}

void layout_narrow(Context *context, IrKernel *kernel) {
    Narrower narrower = {.context = context};
    narrow_block(&narrower, kernel->body);
    if (narrower.changed) {
        ir_fold(context, kernel);
        ir_cse(context, kernel);
        ir_dce(context, kernel);
    }
}
