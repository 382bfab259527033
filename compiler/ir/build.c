/* Making and changing IR. */
#include "compiler/ir/ir.h"

const OpInfo op_info[OP_COUNT] = {
#define OP(id, text, operands, results, traits, attr) {text, operands, results, traits, attr},
#include "compiler/ir/ops.def"
#undef OP
};

IrOp *ir_append(Context *context, IrBlock *block, OpKind kind, Span span, IrValue *const *operands, int operand_count,
    const Type *const *result_types, int result_count) {
    Arena *arena = context->arena;
    IrOp *op = NEW(arena, IrOp);
    op->kind = kind;
    op->span = span;
    for (int i = 0; i < operand_count; i++)
        vec_push(arena, &op->operands, operands[i]);
    for (int i = 0; i < result_count; i++) {
        IrValue *value = NEW(arena, IrValue);
        *value = (IrValue){.type = result_types[i], .def = op, .index = i};
        vec_push(arena, &op->results, value);
    }
    op->parent = block;
    op->prev = block->last;
    *(block->last ? &block->last->next : &block->first) = op;
    block->last = op;
    return op;
}

IrValue *ir_value(Context *context, IrBlock *block, OpKind kind, Span span, const Type *type, IrValue *a, IrValue *b) {
    IrValue *operands[2] = {a, b};
    return ir_append(context, block, kind, span, operands, !a ? 0 : !b ? 1 : 2, &type, 1)->results.items[0];
}

IrValue *ir_const_bits(Context *context, IrBlock *block, Span span, const Type *scalar_type, uint64_t bits) {
    IrValue *value = ir_value(context, block, OP_CONST, span, scalar_type, NULL, NULL);
    value->def->bits = bits;
    return value;
}

IrBlock *ir_block_new(Context *context, IrOp *owner) {
    IrBlock *block = NEW(context->arena, IrBlock);
    block->owner = owner;
    return block;
}

IrValue *ir_block_arg(Context *context, IrBlock *block, const Type *type, const char *name) {
    IrValue *value = NEW(context->arena, IrValue);
    *value = (IrValue){.type = type, .block = block, .index = block->args.count, .name = name};
    vec_push(context->arena, &block->args, value);
    return value;
}

void ir_insert_before(IrOp *at, IrOp *op) {
    if (op->parent)
        ir_remove(op);
    op->parent = at->parent;
    op->prev = at->prev;
    op->next = at;
    *(at->prev ? &at->prev->next : &at->parent->first) = op;
    at->prev = op;
}

void ir_remove(IrOp *op) {
    *(op->prev ? &op->prev->next : &op->parent->first) = op->next;
    *(op->next ? &op->next->prev : &op->parent->last) = op->prev;
    op->prev = op->next = NULL;
    op->parent = NULL;
}

static void replace_in_block(IrBlock *block, const IrValue *from, IrValue *to) {
    for (IrOp *op = block->first; op; op = op->next) {
        for (int i = 0; i < op->operands.count; i++)
            if (op->operands.items[i] == from)
                op->operands.items[i] = to;
        for (int i = 0; i < op->regions.count; i++)
            replace_in_block(op->regions.items[i], from, to);
    }
}

void ir_replace_uses(IrKernel *kernel, IrValue *from, IrValue *to) {
    replace_in_block(kernel->body, from, to);
}

static int number_block(IrBlock *block, int next) {
    for (int i = 0; i < block->args.count; i++)
        if (!block->args.items[i]->name)
            block->args.items[i]->id = next++;
    for (IrOp *op = block->first; op; op = op->next) {
        for (int i = 0; i < op->results.count; i++)
            op->results.items[i]->id = next++;
        for (int i = 0; i < op->regions.count; i++)
            next = number_block(op->regions.items[i], next);
    }
    return next;
}

int ir_number(IrKernel *kernel) {
    return number_block(kernel->body, 0);
}
