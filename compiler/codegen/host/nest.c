/* Loop nests. Where every access of a nest lies inside its tensor, one plain nest with constant bounds runs. Else the edge nest: only indices that
 * some store reaches; in each row, plain code where all accesses are inside, and checks an element only on the rim. */
#include "compiler/codegen/host/host.h"

typedef struct Nest {
    Leaf *leaf;
    NestShape shape;
    OpList ops;        /* tile ops, in program order */
    VEC(Access) loads; /* as the loads among ops */
    VEC(Access) stores;
    const IrOp *copied; /* copy nests: the load; stores holds the one access to scratch */
} Nest;

/* ---- elements ---- */

static LLVMValueRef both(Emitter *e, LLVMValueRef a, LLVMValueRef b) {
    return a && b ? LLVMBuildAnd(e->builder, a, b, "") : a ? a : b;
}

static LLVMValueRef in_bounds(Emitter *e, const Access *access, int loop, LLVMValueRef index) {
    if (!access->stride[loop])
        return NULL;
    LLVMValueRef above = LLVMBuildICmp(e->builder, LLVMIntSGE, index, access->low[loop], "");
    LLVMValueRef below = LLVMBuildICmp(e->builder, LLVMIntSLT, index, access->high[loop], "");
    return LLVMBuildAnd(e->builder, above, below, "");
}

static LLVMValueRef element_exists(Emitter *e, const Access *access, LLVMValueRef outer, LLVMValueRef inner) {
    return both(e, access->exists, both(e, in_bounds(e, access, 0, outer), in_bounds(e, access, 1, inner)));
}

/* `exists` is an i1. */
static LLVMValueRef guarded_load(const Leaf *leaf, const Access *access, LLVMValueRef exists, LLVMValueRef outer, LLVMValueRef inner) {
    Emitter *e = leaf->e;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(e->builder), read = block_append(e, "read"), after = block_append(e, "after");
    LLVMBuildCondBr(e->builder, exists, read, after);
    LLVMPositionBuilderAtEnd(e->builder, read);
    LLVMValueRef value = access_load(leaf, access, access_address(leaf, access, outer, inner));
    LLVMBasicBlockRef end = LLVMGetInsertBlock(e->builder);
    LLVMBuildBr(e->builder, after);
    LLVMPositionBuilderAtEnd(e->builder, after);
    LLVMValueRef phi = LLVMBuildPhi(e->builder, value_type(e, access->dtype), "");
    LLVMValueRef fill = LLVMConstNull(value_type(e, access->dtype));
    LLVMAddIncoming(phi, (LLVMValueRef[]){fill, value}, (LLVMBasicBlockRef[]){before, end}, 2);
    return phi;
}

static void guarded_store(const Leaf *leaf, const Access *access, LLVMValueRef exists, LLVMValueRef outer, LLVMValueRef inner, LLVMValueRef value) {
    Emitter *e = leaf->e;
    LLVMBasicBlockRef write = block_append(e, "write"), after = block_append(e, "after");
    LLVMBuildCondBr(e->builder, exists, write, after);
    LLVMPositionBuilderAtEnd(e->builder, write);
    access_store(leaf, access, access_address(leaf, access, outer, inner), value);
    LLVMBuildBr(e->builder, after);
    LLVMPositionBuilderAtEnd(e->builder, after);
}

void emit_scalar_load(Leaf *leaf, const IrOp *op) {
    Access access = access_slice(leaf, &(NestShape){.rank = 0, .axis = {-1, -1}, .extent = {1, 1}}, op);
    leaf->values[op->results.items[0]->id] = guarded_load(leaf, &access, access.exists, NULL, NULL);
}

void emit_scalar_store(Leaf *leaf, const IrOp *op) {
    Access access = access_slice(leaf, &(NestShape){.rank = 0, .axis = {-1, -1}, .extent = {1, 1}}, op);
    guarded_store(leaf, &access, access.exists, NULL, NULL, leaf_value(leaf, stored_value(op)));
}

/* ---- one iteration ---- */

static LLVMValueRef element_op(const Leaf *leaf, const IrOp *op) {
    Emitter *e = leaf->e;
    const IrValue *first = op->operands.items[0];
    LLVMValueRef a = leaf_value(leaf, first);
    if (op->kind == OP_BROADCAST)
        return a;
    if (op->kind == OP_CONVERT)
        return emit_convert(e, first->type->scalar, op->results.items[0]->type->scalar, a);
    LLVMValueRef b = op->operands.count > 1 ? leaf_value(leaf, op->operands.items[1]) : NULL;
    return emit_element_op(e, op->kind, first->type->scalar, a, b);
}

static void emit_iteration(const Nest *nest, LLVMValueRef outer, LLVMValueRef inner, bool guarded) {
    Leaf *leaf = nest->leaf;
    Emitter *e = leaf->e;
    const Access *load = nest->loads.items;
    for (int i = 0; i < nest->ops.count; i++) {
        const IrOp *op = nest->ops.items[i];
        LLVMValueRef *value = &leaf->values[op->results.items[0]->id];
        if (op->kind != OP_LOAD)
            *value = element_op(leaf, op);
        else if (guarded && load->checked)
            *value = guarded_load(leaf, load, element_exists(e, load, outer, inner), outer, inner);
        else
            *value = access_load(leaf, load, access_address(leaf, load, outer, inner));
        load += op->kind == OP_LOAD;
    }
    for (int i = 0; i < nest->stores.count; i++) {
        const Access *store = &nest->stores.items[i];
        LLVMValueRef value = leaf_value(leaf, nest->copied ? nest->copied->results.items[0] : stored_value(store->op));
        if (guarded && store->checked)
            guarded_store(leaf, store, element_exists(e, store, outer, inner), outer, inner, value);
        else
            access_store(leaf, store, access_address(leaf, store, outer, inner), value);
    }
}

/* ---- loops ---- */

static void emit_plain_nest(const Nest *nest) {
    Emitter *e = nest->leaf->e;
    LLVMValueRef zero = emit_int_const(e, 0);
    Loop rows = loop_begin(e, zero, emit_int_const(e, nest->shape.extent[0]));
    Loop columns = loop_begin(e, zero, emit_int_const(e, nest->shape.extent[1]));
    emit_iteration(nest, rows.index, columns.index, false);
    loop_end(e, &columns, LOOP_PLAIN);
    loop_end(e, &rows, LOOP_PLAIN);
}

/* Indices of `loop` that at least one store reaches: [*low, *high). */
static void store_hull(const Nest *nest, int loop, LLVMValueRef *low, LLVMValueRef *high) {
    Emitter *e = nest->leaf->e;
    LLVMValueRef zero = emit_int_const(e, 0), all = emit_int_const(e, nest->shape.extent[loop]);
    *low = all;
    *high = zero;
    for (int i = 0; i < nest->stores.count; i++) {
        const Access *store = &nest->stores.items[i];
        bool bounded = store->checked && store->stride[loop];
        LLVMValueRef end = bounded ? store->high[loop] : all;
        if (store->checked)
            end = LLVMBuildSelect(e->builder, store->exists, end, zero, "");
        *low = emit_min(e, *low, bounded ? store->low[loop] : zero);
        *high = emit_max(e, *high, end);
    }
}

/* What all accesses of a nest have in common. */
typedef struct Interior {
    LLVMValueRef exists;                       /* outside of the nest: every access's */
    LLVMValueRef row_low, row_high, low, high; /* indices that are inside for all */
} Interior;

static void narrow(Emitter *e, Interior *in, const Access *access) {
    if (!access->checked)
        return;
    in->exists = LLVMBuildAnd(e->builder, in->exists, access->exists, "");
    if (access->stride[0]) {
        in->row_low = emit_max(e, in->row_low, access->low[0]);
        in->row_high = emit_min(e, in->row_high, access->high[0]);
    }
    if (access->stride[1]) {
        in->low = emit_max(e, in->low, access->low[1]);
        in->high = emit_min(e, in->high, access->high[1]);
    }
}

static Interior find_interior(const Nest *nest) {
    Emitter *e = nest->leaf->e;
    LLVMValueRef zero = emit_int_const(e, 0);
    Interior in = {LLVMConstInt(e->i1, 1, false), zero, emit_int_const(e, nest->shape.extent[0]), zero, emit_int_const(e, nest->shape.extent[1])};
    for (int i = 0; i < nest->loads.count; i++)
        narrow(e, &in, &nest->loads.items[i]);
    for (int i = 0; i < nest->stores.count; i++)
        narrow(e, &in, &nest->stores.items[i]);
    return in;
}

static LLVMValueRef covers_all(const Nest *nest, const Interior *in) {
    Emitter *e = nest->leaf->e;
    LLVMValueRef zero = emit_int_const(e, 0), all = in->exists;
    all = LLVMBuildAnd(e->builder, all, LLVMBuildICmp(e->builder, LLVMIntEQ, in->row_low, zero, ""), "");
    all = LLVMBuildAnd(e->builder, all, LLVMBuildICmp(e->builder, LLVMIntEQ, in->row_high, emit_int_const(e, nest->shape.extent[0]), ""), "");
    all = LLVMBuildAnd(e->builder, all, LLVMBuildICmp(e->builder, LLVMIntEQ, in->low, zero, ""), "");
    return LLVMBuildAnd(e->builder, all, LLVMBuildICmp(e->builder, LLVMIntEQ, in->high, emit_int_const(e, nest->shape.extent[1]), ""), "");
}

static void emit_edge_nest(const Nest *nest, const Interior *in) {
    Emitter *e = nest->leaf->e;
    LLVMBuilderRef builder = e->builder;
    LLVMValueRef row_low, row_high, low, high;
    store_hull(nest, 0, &row_low, &row_high);
    store_hull(nest, 1, &low, &high);
    LLVMValueRef left = emit_min(e, emit_max(e, in->low, low), high);
    LLVMValueRef right = emit_max(e, emit_min(e, in->high, high), left);

    Loop rows = loop_begin(e, row_low, row_high);
    LLVMValueRef inside = LLVMBuildICmp(builder, LLVMIntSGE, rows.index, in->row_low, "");
    inside = LLVMBuildAnd(builder, inside, LLVMBuildICmp(builder, LLVMIntSLT, rows.index, in->row_high, ""), "");
    inside = LLVMBuildAnd(builder, inside, in->exists, "");
    LLVMValueRef first = LLVMBuildSelect(builder, inside, left, high, "");
    LLVMValueRef last = LLVMBuildSelect(builder, inside, right, high, "");

    Loop interior = loop_begin(e, first, last);
    emit_iteration(nest, rows.index, interior.index, false);
    loop_end(e, &interior, LOOP_PLAIN);

    Loop sides = loop_begin(e, emit_int_const(e, 0), emit_int_const(e, 2));
    LLVMValueRef is_left = LLVMBuildICmp(builder, LLVMIntEQ, sides.index, emit_int_const(e, 0), "");
    LLVMValueRef begin = LLVMBuildSelect(builder, is_left, low, last, ""), end = LLVMBuildSelect(builder, is_left, first, high, "");
    Loop rim = loop_begin(e, begin, end);
    emit_iteration(nest, rows.index, rim.index, true);
    loop_end(e, &rim, LOOP_SCALAR);
    loop_end(e, &sides, LOOP_SCALAR);
    loop_end(e, &rows, LOOP_SCALAR);
}

static void add_loads(Nest *nest, const OpList *roots) {
    Leaf *leaf = nest->leaf;
    Arena *arena = leaf->e->context->arena;
    nest->ops = plan_gather((Plan *)leaf->plan, roots);
    for (int i = 0; i < nest->ops.count; i++) {
        const IrOp *op = nest->ops.items[i];
        if (op->kind != OP_LOAD)
            continue;
        bool from_copy = leaf->plan->values[op->results.items[0]->id].copy >= 0 && op != nest->copied;
        Access access = from_copy ? access_copy(leaf, &nest->shape, op) : access_slice(leaf, &nest->shape, op);
        vec_push(arena, &nest->loads, access);
    }
}

static void emit_nest(const Nest *nest) {
    Emitter *e = nest->leaf->e;
    Interior in = find_interior(nest);
    LLVMBasicBlockRef plain = block_append(e, "plain"), edge = block_append(e, "edge"), done = block_append(e, "done");
    LLVMBuildCondBr(e->builder, covers_all(nest, &in), plain, edge);
    LLVMPositionBuilderAtEnd(e->builder, plain);
    emit_plain_nest(nest);
    LLVMBuildBr(e->builder, done);
    LLVMPositionBuilderAtEnd(e->builder, edge);
    emit_edge_nest(nest, &in);
    LLVMBuildBr(e->builder, done);
    LLVMPositionBuilderAtEnd(e->builder, done);
}

void emit_store_nest(Leaf *leaf, const OpList *stores) {
    Nest nest = {.leaf = leaf, .shape = nest_shape(access_type(stores->items[0]))};
    add_loads(&nest, stores);
    for (int i = 0; i < stores->count; i++)
        vec_push(leaf->e->context->arena, &nest.stores, access_slice(leaf, &nest.shape, stores->items[i]));
    emit_nest(&nest);
}

void emit_copy_nest(Leaf *leaf, IrOp *load) {
    Nest nest = {.leaf = leaf, .shape = nest_shape(access_type(load)), .copied = load};
    OpList root = {0};
    vec_push(leaf->e->context->arena, &root, load);
    add_loads(&nest, &root);
    vec_push(leaf->e->context->arena, &nest.stores, access_copy(leaf, &nest.shape, load));
    emit_nest(&nest);
}
