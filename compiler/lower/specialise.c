/* A leaf for one assignment: the kernel with numbers for its search dims. A dim without a value in this assignment stays as it is: the checker has
 * made sure that no shape has one, and elsewhere it is evaluated at launch. */
#include "compiler/lower/lower.h"

typedef struct Specialiser {
    Context *context;
    const Signature *signature;
    const int64_t *values;
    IrValue **copies; /* by the original's id */
} Specialiser;

static const Dim *assigned(Specialiser *s, const Dim *dim) {
    const Dim *result = dim ? dim_assign(s->context, s->signature, dim, s->values) : NULL;
    return result ? result : dim;
}

static const Type *assigned_type(Specialiser *s, const Type *type) {
    if (type->rank == 0)
        return type;
    const Dim *dims[PHB_MAX_RANK];
    for (int k = 0; k < type->rank; k++)
        dims[k] = assigned(s, type->dims[k]);
    return type_shaped(s->context->types, type->kind, type->scalar, type->rank, dims);
}

static void specialise_signature(Specialiser *s, Signature *signature) {
    Arena *arena = s->context->arena;
    const Signature *source = s->signature;
    *signature = *source;
    signature->pipeline = assigned(s, source->pipeline);
    signature->params.items = NEW_ARRAY(arena, Param, source->params.count + 1);
    for (int i = 0; i < source->params.count; i++) {
        signature->params.items[i] = source->params.items[i];
        signature->params.items[i].type = assigned_type(s, source->params.items[i].type);
    }
    for (int axis = 0; axis < 3; axis++) {
        signature->cluster_dims[axis] = assigned(s, source->cluster_dims[axis]);
        signature->grid[axis].counts.items = NEW_ARRAY(arena, const Dim *, source->grid[axis].counts.count + 1);
        for (int i = 0; i < source->grid[axis].counts.count; i++)
            signature->grid[axis].counts.items[i] = assigned(s, source->grid[axis].counts.items[i]);
    }
    signature->aligned.items = NEW_ARRAY(arena, Aligned, source->aligned.count + 1);
    for (int i = 0; i < source->aligned.count; i++) {
        signature->aligned.items[i] = source->aligned.items[i];
        signature->aligned.items[i].tile = assigned(s, source->aligned.items[i].tile);
    }
    signature->require.items = NEW_ARRAY(arena, Require, source->require.count + 1);
    for (int i = 0; i < source->require.count; i++) {
        signature->require.items[i] = source->require.items[i];
        signature->require.items[i].cond = assigned(s, source->require.items[i].cond);
    }
}

static void copy_block(Specialiser *s, const IrBlock *source, IrBlock *block);

static void copy_op(Specialiser *s, const IrOp *source, IrBlock *block) {
    Context *context = s->context;
    IrValue **operands = NEW_ARRAY(context->arena, IrValue *, source->operands.count + 1);
    const Type **types = NEW_ARRAY(context->arena, const Type *, source->results.count + 1);
    for (int i = 0; i < source->operands.count; i++)
        operands[i] = s->copies[source->operands.items[i]->id];
    for (int i = 0; i < source->results.count; i++)
        types[i] = assigned_type(s, source->results.items[i]->type);
    IrOp *op = ir_append(context, block, source->kind, source->span, operands, source->operands.count, types, source->results.count);
    ir_copy_attributes(op, source);
    op->dim = assigned(s, source->dim);
    for (int k = 0; k < PHB_MAX_RANK; k++)
        op->extent[k] = assigned(s, source->extent[k]);
    for (int i = 0; i < source->regions.count; i++) {
        IrBlock *region = ir_block_new(context, op);
        vec_push(context->arena, &op->regions, region);
        copy_block(s, source->regions.items[i], region);
    }
    for (int i = 0; i < source->results.count; i++)
        s->copies[source->results.items[i]->id] = op->results.items[i];
}

static void copy_block(Specialiser *s, const IrBlock *source, IrBlock *block) {
    for (int i = 0; i < source->args.count; i++) {
        const IrValue *arg = source->args.items[i];
        s->copies[arg->id] = ir_block_arg(s->context, block, assigned_type(s, arg->type), arg->name);
    }
    for (const IrOp *op = source->first; op; op = op->next)
        copy_op(s, op, block);
}

IrKernel *specialise(Context *context, const IrKernel *kernel, const int64_t *values) {
    Specialiser s = {.context = context, .signature = &kernel->signature, .values = values};
    s.copies = NEW_ARRAY(context->arena, IrValue *, values_number(kernel->body) + 1);
    IrKernel *leaf = NEW(context->arena, IrKernel);
    specialise_signature(&s, &leaf->signature);
    leaf->body = ir_block_new(context, NULL);
    copy_block(&s, kernel->body, leaf->body);
    ir_fold(context, leaf);
    ir_cse(context, leaf);
    ir_dce(context, leaf);
    return leaf;
}
