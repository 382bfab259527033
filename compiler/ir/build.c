/* Making and changing IR. */
#include "compiler/ir/ir.h"

#include <string.h>

const OpInfo op_info[OP_COUNT] = {
#define OP(id, text, operands, results, traits, attr) {text, operands, results, traits, attr},
#include "compiler/ir/ops.def"
#undef OP
};

int ir_region_count(OpKind kind) {
    return kind == OP_FOR ? 1 : kind == OP_WHILE || kind == OP_IF ? 2 : 0;
}

const char *ir_region_word(OpKind kind, int region) {
    static const char *const words[][2] = {{"do", NULL}, {"test", "do"}, {"then", "else"}};
    return words[kind == OP_FOR ? 0 : kind == OP_WHILE ? 1 : 2][region];
}

int ir_first_carried(const IrOp *op) {
    return op->kind == OP_FOR ? 3 : 0;
}

bool ir_is_param(const IrValue *value) {
    return !value->def && !value->block->owner;
}

IrOp *ir_ancestor_in(const IrBlock *block, IrOp *op) {
    while (op->parent != block)
        op = op->parent->owner;
    return op;
}

bool ir_is_inside(const IrValue *value, const IrOp *op) {
    const IrBlock *block = value->def ? value->def->parent : value->block;
    while (block->owner && block->owner != op)
        block = block->owner->parent;
    return block->owner == op;
}

static void find_arrays(Context *context, const IrBlock *block, IrOps *arrays) {
    for (const IrOp *op = block->first; op; op = op->next) {
        if (op->kind == OP_SHARED)
            vec_push(context->arena, arrays, op);
        for (int r = 0; r < op->regions.count; r++)
            find_arrays(context, op->regions.items[r], arrays);
    }
}

IrOps ir_shared_arrays(Context *context, const IrKernel *kernel) {
    IrOps arrays = {0};
    find_arrays(context, kernel->body, &arrays);
    return arrays;
}

bool ir_is_atomic(OpKind kind) {
    return kind == OP_ATOMIC_ADD || kind == OP_ATOMIC_MAX || kind == OP_ATOMIC_MIN || kind == OP_ATOMIC_CAS;
}

int ir_values_stored(OpKind kind) {
    return kind == OP_LOAD ? 0 : kind == OP_BULK_COPY ? 4 : kind == OP_ATOMIC_CAS || kind == OP_ASYNC_COPY ? 2 : 1;
}

const IrValue *ir_memory(const IrOp *op, bool *is_remote) {
    const IrValue *memory = op->operands.items[0];
    bool remote = memory->def && memory->def->kind == OP_REMOTE, planes = memory->def && memory->def->kind == OP_PLANES;
    if (is_remote)
        *is_remote = remote;
    return remote || planes ? memory->def->operands.items[0] : memory;
}

bool ir_is_tensor_access(const IrOp *op) {
    return op_info[op->kind].attr == ATTR_SLICE && ir_is_param(op->operands.items[0]);
}

bool ir_has_sync(const IrOp *op) {
    bool found = op_info[op->kind].traits & TRAIT_SYNC;
    for (int i = 0; !found && i < op->regions.count; i++)
        for (const IrOp *inner = op->regions.items[i]->first; !found && inner; inner = inner->next)
            found = ir_has_sync(inner);
    return found;
}

static bool is_thread_code(const IrOp *op) {
    return (op_info[op->kind].traits & TRAIT_THREAD) || op->kind == OP_SHARED || ir_is_atomic(op->kind);
}

static bool block_has_thread_code(const IrBlock *block) {
    bool found = false;
    for (const IrOp *op = block->first; !found && op; op = op->next) {
        found = is_thread_code(op);
        for (int i = 0; !found && i < op->regions.count; i++)
            found = block_has_thread_code(op->regions.items[i]);
    }
    return found;
}

bool ir_has_thread_code(const IrKernel *kernel) {
    return kernel->signature.cluster_dims[0] || block_has_thread_code(kernel->body);
}

void ir_copy_attributes(IrOp *to, const IrOp *from) {
    to->span = from->span;
    to->bits = from->bits;
    to->dim = from->dim;
    to->axis = from->axis;
    memcpy(to->extent, from->extent, sizeof to->extent);
    to->name = from->name;
    to->once = from->once;
    to->shared_at = from->shared_at;
    to->shared_bytes = from->shared_bytes;
}

int ir_count_uses(const IrBlock *block, const IrValue *value) {
    int count = 0;
    for (const IrOp *op = block->first; op; op = op->next) {
        for (int i = 0; i < op->operands.count; i++)
            count += op->operands.items[i] == value;
        for (int r = 0; r < op->regions.count; r++)
            count += ir_count_uses(op->regions.items[r], value);
    }
    return count;
}

void ir_mark_stored(const IrOp *op, bool *stored) {
    if ((op_info[op->kind].traits & TRAIT_WRITES) && ir_is_param(op->operands.items[0]))
        stored[op->operands.items[0]->index] = true;
    for (int i = 0; i < op->regions.count; i++)
        for (const IrOp *inner = op->regions.items[i]->first; inner; inner = inner->next)
            ir_mark_stored(inner, stored);
}

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

IrBlock *ir_region_new(Context *context, IrOp *op) {
    IrBlock *block = ir_block_new(context, op);
    vec_push(context->arena, &op->regions, block);
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

void ir_replace_uses_in(IrBlock *block, const IrValue *from, IrValue *to) {
    for (IrOp *op = block->first; op; op = op->next) {
        for (int i = 0; i < op->operands.count; i++)
            if (op->operands.items[i] == from)
                op->operands.items[i] = to;
        for (int i = 0; i < op->regions.count; i++)
            ir_replace_uses_in(op->regions.items[i], from, to);
    }
}

void ir_replace_uses(IrKernel *kernel, IrValue *from, IrValue *to) {
    ir_replace_uses_in(kernel->body, from, to);
}

static int number_block(IrBlock *block, int next) {
    for (int i = 0; i < block->args.count; i++)
        if (!ir_is_param(block->args.items[i]))
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
