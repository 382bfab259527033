/* From the checked tree to IR. Sema has decided everything about the language: what is left is to name each value once, to make broadcasts explicit,
 * and to put loads before the store of their statement. */
#include "compiler/lower/lower.h"

#include <string.h>

typedef struct Binding {
    const Symbol *symbol;
    IrValue *value;
} Binding;

typedef struct Lowering {
    Context *context;
    IrBlock *block;
    Binding *bindings; /* open addressing, keyed by symbol; capacity is a power of two */
    int binding_count, binding_capacity;
} Lowering;

/* ---- what a let or var stands for now ---- */

static Binding *binding_slot(Binding *bindings, int capacity, const Symbol *symbol) {
    size_t mask = (size_t)capacity - 1;
    size_t at = ((uintptr_t)symbol >> 4) * 0x9e3779b1u & mask;
    while (bindings[at].symbol && bindings[at].symbol != symbol)
        at = (at + 1) & mask;
    return &bindings[at];
}

static void bind(Lowering *l, const Symbol *symbol, IrValue *value) {
    if (2 * (l->binding_count + 1) > l->binding_capacity) {
        int capacity = l->binding_capacity ? 2 * l->binding_capacity : 64;
        Binding *bindings = NEW_ARRAY(l->context->arena, Binding, capacity);
        for (int i = 0; i < l->binding_capacity; i++)
            if (l->bindings[i].symbol)
                *binding_slot(bindings, capacity, l->bindings[i].symbol) = l->bindings[i];
        l->bindings = bindings;
        l->binding_capacity = capacity;
    }
    Binding *slot = binding_slot(l->bindings, l->binding_capacity, symbol);
    if (!slot->symbol)
        l->binding_count++;
    *slot = (Binding){symbol, value};
}

/* ---- types and shapes ---- */

static const Type *scalar_i64(Lowering *l) {
    return type_scalar(l->context->types, PHB_I64);
}

/* `shape`'s shape with the element type `scalar`. */
static const Type *with_scalar(Lowering *l, const Type *shape, PhbDType scalar) {
    if (shape->rank == 0)
        return type_scalar(l->context->types, scalar);
    return type_shaped(l->context->types, TYPE_TILE, scalar, shape->rank, shape->dims);
}

static IrValue *convert(Lowering *l, Span span, IrValue *value, PhbDType scalar) {
    if (value->type->scalar == scalar)
        return value;
    return ir_value(l->context, l->block, OP_CONVERT, span, with_scalar(l, value->type, scalar), value, NULL);
}

static IrValue *broadcast(Lowering *l, Span span, IrValue *value, const Type *shape) {
    const Type *type = with_scalar(l, shape, value->type->scalar);
    if (value->type == type)
        return value;
    return ir_value(l->context, l->block, OP_BROADCAST, span, type, value, NULL);
}

/* ---- expressions ---- */

static IrValue *lower_expr(Lowering *l, const Expr *expr);

static IrValue *const_i64(Lowering *l, Span span, int64_t value) {
    return ir_const_bits(l->context, l->block, span, scalar_i64(l), (uint64_t)value);
}

static IrValue *lower_dim(Lowering *l, Span span, const Dim *dim) {
    int64_t value;
    if (dim_is_int(dim, &value))
        return const_i64(l, span, value);
    IrValue *result = ir_value(l->context, l->block, OP_DIM, span, scalar_i64(l), NULL, NULL);
    result->def->dim = dim;
    return result;
}

/* `axis` of ctx.* where `tensor` is NULL, else of the tensor. */
static IrValue *lower_position(Lowering *l, OpKind kind, Span span, IrValue *tensor, int axis) {
    IrValue *result = ir_value(l->context, l->block, kind, span, scalar_i64(l), tensor, NULL);
    result->def->axis = axis;
    return result;
}

static IrValue *lower_literal(Lowering *l, const Expr *expr) {
    PhbDType scalar = expr->type->scalar;
    uint64_t bits = 0;
    if (expr->kind == EXPR_BOOL)
        bits = expr->bool_value;
    else if (!dtype_is_float(scalar))
        bits = bits_from_int(scalar, expr->int_value);
    else
        bits = bits_from_double(scalar, expr->kind == EXPR_INT ? (double)expr->int_value : expr->float_value);
    IrValue *value = ir_const_bits(l->context, l->block, expr->span, type_scalar(l->context->types, scalar), bits);
    return broadcast(l, expr->span, value, expr->type);
}

static IrValue *lower_name(Lowering *l, const Expr *expr) {
    const Symbol *symbol = expr->symbol;
    if (symbol->kind == SYMBOL_DIM || symbol->kind == SYMBOL_SEARCH_DIM)
        return lower_dim(l, expr->span, dim_name(l->context->dims, symbol->name));
    if (symbol->kind == SYMBOL_PARAM)
        return l->block->args.items[symbol->index];
    return binding_slot(l->bindings, l->binding_capacity, symbol)->value;
}

typedef struct BinaryLowering {
    OpKind op;
    bool swapped; /* a > b is b < a */
} BinaryLowering;

/* Scalar && and || may evaluate both sides: no operand has an effect or can trap, so the short circuit is not observable. */
static const BinaryLowering binary_lowering[BINARY_OP_COUNT] = {
    [BINARY_LOGIC_OR] = {OP_OR, false},
    [BINARY_LOGIC_AND] = {OP_AND, false},
    [BINARY_OR] = {OP_OR, false},
    [BINARY_XOR] = {OP_XOR, false},
    [BINARY_AND] = {OP_AND, false},
    [BINARY_EQ] = {OP_EQ, false},
    [BINARY_NE] = {OP_NE, false},
    [BINARY_LT] = {OP_LT, false},
    [BINARY_LE] = {OP_LE, false},
    [BINARY_GT] = {OP_LT, true},
    [BINARY_GE] = {OP_LE, true},
    [BINARY_SHL] = {OP_SHL, false},
    [BINARY_SHR] = {OP_SHR, false},
    [BINARY_ADD] = {OP_ADD, false},
    [BINARY_SUB] = {OP_SUB, false},
    [BINARY_MUL] = {OP_MUL, false},
    [BINARY_DIV] = {OP_DIV, false},
    [BINARY_REM] = {OP_REM, false},
};

/* Operands of one element type, broadcast to the shape of `type`, the result's. */
static IrValue *lower_binary(Lowering *l, BinaryOp op, Span span, const Type *type, IrValue *a, IrValue *b) {
    BinaryLowering how = binary_lowering[op];
    a = broadcast(l, span, a, type);
    b = broadcast(l, span, b, type);
    return ir_value(l->context, l->block, how.op, span, type, how.swapped ? b : a, how.swapped ? a : b);
}

static IrValue *lower_unary(Lowering *l, const Expr *expr) {
    IrValue *operand = lower_expr(l, expr->left);
    return ir_value(l->context, l->block, expr->unary == UNARY_NEG ? OP_NEG : OP_NOT, expr->span, expr->type, operand, NULL);
}

/* The quotient rounded up: the truncated one, and one more where there is a remainder of the divisor's sign. x/0 stays 0. */
static IrValue *lower_ceildiv(Lowering *l, const Expr *expr) {
    Context *context = l->context;
    Span span = expr->span;
    const Type *type = expr->type, *flag = with_scalar(l, type, PHB_BOOL);
    IrValue *a = broadcast(l, span, lower_expr(l, expr->args.items[0]), type);
    IrValue *b = broadcast(l, span, lower_expr(l, expr->args.items[1]), type);
    IrValue *zero = broadcast(l, span, ir_const_bits(context, l->block, span, type_scalar(context->types, type->scalar), 0), type);
    IrValue *quotient = ir_value(context, l->block, OP_DIV, span, type, a, b);
    IrValue *remainder = ir_value(context, l->block, OP_REM, span, type, a, b);
    IrValue *inexact = ir_value(context, l->block, OP_NE, span, flag, remainder, zero);
    IrValue *divisible = ir_value(context, l->block, OP_NE, span, flag, b, zero);
    IrValue *up = ir_value(context, l->block, OP_AND, span, flag, inexact, divisible);
    if (dtype_is_signed(type->scalar)) {
        IrValue *a_negative = ir_value(context, l->block, OP_LT, span, flag, remainder, zero);
        IrValue *b_negative = ir_value(context, l->block, OP_LT, span, flag, b, zero);
        IrValue *same_sign = ir_value(context, l->block, OP_EQ, span, flag, a_negative, b_negative);
        up = ir_value(context, l->block, OP_AND, span, flag, up, same_sign);
    }
    return ir_value(context, l->block, OP_ADD, span, type, quotient, convert(l, span, up, type->scalar));
}

static IrValue *lower_tensor_position(Lowering *l, OpKind kind, const Expr *call) {
    int64_t axis = 0;
    dim_is_int(call->args.items[1]->dim, &axis);
    return lower_position(l, kind, call->span, lower_name(l, call->args.items[0]), (int)axis);
}

static IrValue *lower_call(Lowering *l, const Expr *expr) {
    Expr *const *args = expr->args.items;
    switch ((Builtin)expr->builtin) {
    case BUILTIN_PROGRAM_ID:
        return lower_position(l, OP_BLOCK, expr->span, NULL, 0);
    case BUILTIN_EXTENT:
        return lower_tensor_position(l, OP_EXTENT, expr);
    case BUILTIN_ORIGIN:
        return lower_tensor_position(l, OP_ORIGIN, expr);
    case BUILTIN_WHOLE:
        return lower_tensor_position(l, OP_WHOLE, expr);
    case BUILTIN_CEILDIV:
        return lower_ceildiv(l, expr);
    default:
        return convert(l, expr->span, lower_expr(l, args[0]), expr->type->scalar);
    }
}

static IrValue *lower_field(Lowering *l, const Expr *expr) {
    OpKind kind = expr->builtin == BUILTIN_CTX_BLOCK   ? OP_BLOCK
                  : expr->builtin == BUILTIN_CTX_GRID  ? OP_GRID
                  : expr->builtin == BUILTIN_CTX_SUPER ? OP_SUPER
                                                       : OP_SUPERS;
    return lower_position(l, kind, expr->span, NULL, expr->text[0] - 'x');
}

/* ---- slices ---- */

/* The operands of a load or store through one slice; its value, where there is one, goes last. */
typedef struct Slice {
    const Type *type; /* of the value it gives or takes */
    Span span;
    IrValue *operands[2 + PHB_MAX_RANK];
    int count;
    const Dim *extent[PHB_MAX_RANK];
} Slice;

static Slice lower_slice(Lowering *l, const Expr *expr) {
    Slice slice = {.type = expr->type, .span = expr->span};
    slice.operands[slice.count++] = lower_name(l, expr->left);
    for (int k = 0; k < expr->subs.count; k++) {
        const Sub *sub = &expr->subs.items[k];
        bool from_start = sub->kind == SUB_ALL || sub->kind == SUB_TO;
        slice.extent[k] = sub->extent;
        slice.operands[slice.count++] = from_start ? const_i64(l, sub->span, 0) : convert(l, sub->span, lower_expr(l, sub->a), PHB_I64);
    }
    return slice;
}

static IrValue *load_slice(Lowering *l, const Slice *slice) {
    IrOp *op = ir_append(l->context, l->block, OP_LOAD, slice->span, slice->operands, slice->count, &slice->type, 1);
    memcpy(op->extent, slice->extent, sizeof op->extent);
    return op->results.items[0];
}

static void store_slice(Lowering *l, Slice slice, IrValue *value) {
    slice.operands[slice.count] = broadcast(l, slice.span, value, slice.type);
    IrOp *op = ir_append(l->context, l->block, OP_STORE, slice.span, slice.operands, slice.count + 1, NULL, 0);
    memcpy(op->extent, slice.extent, sizeof op->extent);
}

static IrValue *lower_expr(Lowering *l, const Expr *expr) {
    bool is_i64 = expr->type->kind == TYPE_SCALAR && expr->type->scalar == PHB_I64;
    if (expr->dim && is_i64)
        return lower_dim(l, expr->span, expr->dim);
    switch (expr->kind) {
    case EXPR_INT:
    case EXPR_FLOAT:
    case EXPR_BOOL:
        return lower_literal(l, expr);
    case EXPR_NAME:
        return lower_name(l, expr);
    case EXPR_UNARY:
        return lower_unary(l, expr);
    case EXPR_BINARY: {
        IrValue *a = lower_expr(l, expr->left);
        IrValue *b = lower_expr(l, expr->right);
        return lower_binary(l, expr->binary, expr->span, expr->type, a, b);
    }
    case EXPR_CALL:
        return lower_call(l, expr);
    case EXPR_INDEX: {
        Slice slice = lower_slice(l, expr);
        return load_slice(l, &slice);
    }
    case EXPR_FIELD:
        return lower_field(l, expr);
    case EXPR_CONVERT:
        return convert(l, expr->span, lower_expr(l, expr->left), expr->type->scalar);
    case EXPR_INLINE: /* sema lets none through yet */
        break;
    }
    return NULL;
}

/* ---- statements ---- */

static void lower_declaration(Lowering *l, const Stmt *stmt) {
    const Type *type = stmt->symbol->type;
    IrValue *value = stmt->value ? lower_expr(l, stmt->value)
                                 : ir_const_bits(l->context, l->block, stmt->name_span, type_scalar(l->context->types, type->scalar), 0);
    value = convert(l, stmt->name_span, value, type->scalar);
    bind(l, stmt->symbol, broadcast(l, stmt->name_span, value, type));
}

/* target op value, computed in the value's element type, which sema made the operation's, and brought back to the target's. */
static IrValue *lower_compound(Lowering *l, const Stmt *stmt, IrValue *old, const Type *target) {
    IrValue *value = lower_expr(l, stmt->value);
    PhbDType scalar = value->type->scalar;
    IrValue *result = lower_binary(l, stmt->op, stmt->span, with_scalar(l, target, scalar), convert(l, stmt->span, old, scalar), value);
    return convert(l, stmt->span, result, target->scalar);
}

static void lower_assign(Lowering *l, const Stmt *stmt) {
    const Expr *target = stmt->target;
    const Type *type = target->type;
    if (target->kind == EXPR_NAME) {
        IrValue *value = stmt->compound ? lower_compound(l, stmt, lower_name(l, target), type) : lower_expr(l, stmt->value);
        bind(l, target->symbol, broadcast(l, stmt->span, convert(l, stmt->span, value, type->scalar), type));
        return;
    }
    Slice slice = lower_slice(l, target);
    IrValue *value = stmt->compound ? lower_compound(l, stmt, load_slice(l, &slice), type) : lower_expr(l, stmt->value);
    store_slice(l, slice, convert(l, stmt->span, value, type->scalar));
}

static void lower_stmt(Lowering *l, const Stmt *stmt) {
    switch (stmt->kind) {
    case STMT_LET:
    case STMT_VAR:
        lower_declaration(l, stmt);
        break;
    case STMT_ASSIGN:
        lower_assign(l, stmt);
        break;
    default: /* sema lets nothing else through yet, and a call for its own sake has no effect */
        break;
    }
}

/* ---- kernels ---- */

static IrKernel *lower_kernel(Context *context, const CheckedKernel *checked) {
    IrKernel *kernel = NEW(context->arena, IrKernel);
    kernel->signature = checked->signature;
    kernel->body = ir_block_new(context, NULL);
    for (int i = 0; i < checked->signature.params.count; i++) {
        const Param *param = &checked->signature.params.items[i];
        ir_block_arg(context, kernel->body, param->type, param->name);
    }
    Lowering l = {.context = context, .block = kernel->body};
    for (int i = 0; i < checked->decl->body.count; i++)
        lower_stmt(&l, checked->decl->body.items[i]);
    ir_append(context, kernel->body, OP_RETURN, checked->decl->span, NULL, 0, NULL, 0);
    return kernel;
}

IrModule *lower_program(Context *context, const CheckedProgram *program, const char *file) {
    IrModule *module = NEW(context->arena, IrModule);
    const char *slash = strrchr(file, '/');
    module->file = slash ? slash + 1 : file;
    for (int i = 0; i < program->kernels.count; i++)
        vec_push(context->arena, &module->kernels, lower_kernel(context, program->kernels.items[i]));
    return module;
}
