/* From the checked tree to IR. Sema has decided everything about the language: what is left is to name each value once, to make broadcasts explicit,
 * to put loads before the store of their statement, and to turn jumps into structured control flow. */
#include "compiler/lower/ast_to_ir.h"

#include <string.h>

/* ---- what a let or var stands for now ---- */

static Binding *binding_slot(Binding *bindings, int capacity, const Symbol *symbol) {
    size_t mask = (size_t)capacity - 1;
    size_t at = ((uintptr_t)symbol >> 4) * 0x9e3779b1u & mask;
    while (bindings[at].symbol && bindings[at].symbol != symbol)
        at = (at + 1) & mask;
    return &bindings[at];
}

void lower_bind(Lowering *l, const Symbol *symbol, IrValue *value) {
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
    *slot = (Binding){.symbol = symbol, .value = value};
}

Binding *lower_binding(Lowering *l, const Symbol *symbol) {
    if (l->binding_capacity == 0)
        return NULL;
    Binding *slot = binding_slot(l->bindings, l->binding_capacity, symbol);
    return slot->symbol ? slot : NULL;
}

/* ---- statements ---- */

/* Converted and broadcast to `type`, a variable's or slice's. */
static IrValue *lower_to(Lowering *l, Span span, IrValue *value, const Type *type) {
    return lower_broadcast(l, span, lower_convert(l, span, value, type->scalar), type);
}

static void lower_declaration(Lowering *l, const Stmt *stmt) {
    const Type *type = stmt->symbol->type;
    if (type->kind == TYPE_SHARED) {
        lower_bind(l, stmt->symbol, lower_shared(l, stmt));
        return;
    }
    IrValue *value = stmt->value ? lower_expr(l, stmt->value) : lower_bits(l, stmt->name_span, type, 0);
    lower_bind(l, stmt->symbol, lower_to(l, stmt->name_span, value, type));
}

/* target op value, computed in the value's element type, which sema made the operation's, and brought back to the target's. */
static IrValue *lower_compound(Lowering *l, const Stmt *stmt, IrValue *old, const Type *target) {
    IrValue *value = lower_expr(l, stmt->value);
    PhbDType scalar = value->type->scalar;
    IrValue *result = lower_binary(l, stmt->op, stmt->span, lower_type(l, target, scalar), lower_convert(l, stmt->span, old, scalar), value);
    return lower_convert(l, stmt->span, result, target->scalar);
}

/* The dot that the statement adds to its target, a variable of the dot's type, or NULL: `acc += dot(a, b)`, `acc = acc + dot(a, b)` and the same the
 * other way round go on with the chain that acc holds, LANGUAGE.md 10. */
static const Expr *added_dot(const Stmt *stmt) {
    const Expr *value = stmt->value, *dot = NULL;
    if (stmt->compound && stmt->op == BINARY_ADD)
        dot = value;
    else if (!stmt->compound && value->kind == EXPR_BINARY && value->binary == BINARY_ADD) {
        const Expr *sides[2] = {value->left, value->right};
        for (int i = 0; i < 2 && !dot; i++)
            if (sides[i]->kind == EXPR_NAME && sides[i]->symbol == stmt->target->symbol)
                dot = sides[1 - i];
    }
    return dot && is_dot(dot) && dot->type == stmt->target->type ? dot : NULL;
}

static IrValue *assigned_value(Lowering *l, const Stmt *stmt) {
    const Expr *dot = added_dot(stmt);
    if (dot)
        return lower_dot(l, dot, lower_name(l, stmt->target));
    return stmt->compound ? lower_compound(l, stmt, lower_name(l, stmt->target), stmt->target->type) : lower_expr(l, stmt->value);
}

static void lower_assign(Lowering *l, const Stmt *stmt) {
    const Expr *target = stmt->target;
    const Type *type = target->type;
    if (target->kind == EXPR_NAME) {
        lower_bind(l, target->symbol, lower_to(l, stmt->span, assigned_value(l, stmt), type));
        return;
    }
    Slice slice = lower_slice(l, target);
    IrValue *value = stmt->compound ? lower_compound(l, stmt, lower_load(l, &slice), type) : lower_expr(l, stmt->value);
    lower_store(l, &slice, lower_convert(l, stmt->span, value, type->scalar));
}

void lower_plain_stmt(Lowering *l, const Stmt *stmt) {
    switch (stmt->kind) {
    case STMT_LET:
    case STMT_VAR:
        lower_declaration(l, stmt);
        break;
    case STMT_ASSIGN:
        lower_assign(l, stmt);
        break;
    default: /* a call for its own sake */
        lower_expr(l, stmt->value);
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
    Lowering l = {.context = context, .kernel = kernel, .block = kernel->body};
    lower_body(&l, &checked->decl->body);
    add_peer_barriers(context, kernel);
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
