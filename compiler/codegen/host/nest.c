/* Loop nests. Where every access of a nest lies inside its tensor, one plain nest with constant bounds runs. Else the edge nest: only indices that
 * some store reaches; in each row, plain code where all accesses are inside, and checks an element only on the rim. Nodes that do not move with a
 * loop are evaluated outside of it. */
#include "compiler/codegen/host/host.h"

enum { NODES_TWICE = 96 }; /* larger nests have no plain copy: the edge nest serves for both */

typedef struct Nest {
    Leaf *leaf;
    NestShape shape;
    NodeList nodes;
    Access *loads;          /* by node */
    LLVMValueRef *elements; /* by node, of the iteration under construction */
    VEC(Access) stores;     /* by root */
    const int *tops;
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
    Access access = access_slice(leaf, (const int64_t[2]){1, 1}, (const int[2]){-1, -1}, op);
    leaf->values[op->results.items[0]->id] = guarded_load(leaf, &access, access.exists, NULL, NULL);
}

void emit_scalar_store(Leaf *leaf, const IrOp *op) {
    Access access = access_slice(leaf, (const int64_t[2]){1, 1}, (const int[2]){-1, -1}, op);
    guarded_store(leaf, &access, access.exists, NULL, NULL, leaf_value(leaf, stored_value(op)));
}

/* ---- one iteration ---- */

static bool is_load(const Node *node) {
    return node->area >= 0 || node->value->def->kind == OP_LOAD;
}

/* 0: outside of the loops; 1: once a row; 2: each element. */
static int node_level(const Node *node) {
    return node->axis[1] >= 0 ? 2 : node->axis[0] >= 0 ? 1 : 0;
}

static LLVMValueRef emit_index(const Nest *nest, const Node *node, LLVMValueRef outer, LLVMValueRef inner) {
    Emitter *e = nest->leaf->e;
    LLVMValueRef index = node->axis[1] >= 0 ? inner : node->axis[0] >= 0 ? outer : emit_int_const(e, 0);
    return LLVMBuildTrunc(e->builder, index, e->i32, "");
}

static LLVMValueRef emit_node(const Nest *nest, int index, LLVMValueRef outer, LLVMValueRef inner, bool guarded) {
    Leaf *leaf = nest->leaf;
    const Node *node = &nest->nodes.items[index];
    if (is_load(node)) {
        const Access *load = &nest->loads[index];
        if (guarded && load->checked)
            return guarded_load(leaf, load, element_exists(leaf->e, load, outer, inner), outer, inner);
        return access_load(leaf, load, access_address(leaf, load, outer, inner));
    }
    const IrOp *op = node->value->def;
    if (op->kind == OP_IOTA)
        return emit_index(nest, node, outer, inner);
    LLVMValueRef operands[3] = {NULL};
    for (int i = 0; i < op->operands.count; i++)
        operands[i] = node->operand[i] >= 0 ? nest->elements[node->operand[i]] : leaf_value(leaf, op->operands.items[i]);
    return op->kind == OP_BROADCAST || op->kind == OP_RESHAPE ? operands[0] : emit_element(leaf->e, op, operands);
}

static void emit_level(const Nest *nest, int level, LLVMValueRef outer, LLVMValueRef inner, bool guarded) {
    for (int i = 0; i < nest->nodes.count; i++)
        if (node_level(&nest->nodes.items[i]) == level)
            nest->elements[i] = emit_node(nest, i, outer, inner, guarded);
}

static void emit_iteration(const Nest *nest, LLVMValueRef outer, LLVMValueRef inner, bool guarded) {
    Leaf *leaf = nest->leaf;
    emit_level(nest, 2, outer, inner, guarded);
    for (int i = 0; i < nest->stores.count; i++) {
        const Access *store = &nest->stores.items[i];
        LLVMValueRef value = nest->elements[nest->tops[i]];
        if (guarded && store->checked)
            guarded_store(leaf, store, element_exists(leaf->e, store, outer, inner), outer, inner, value);
        else
            access_store(leaf, store, access_address(leaf, store, outer, inner), value);
    }
}

/* ---- loops ---- */

static void emit_plain_nest(const Nest *nest) {
    Emitter *e = nest->leaf->e;
    LLVMValueRef zero = emit_int_const(e, 0);
    emit_level(nest, 0, zero, zero, false);
    Loop rows = loop_begin(e, zero, emit_int_const(e, nest->shape.extent[0]));
    emit_level(nest, 1, rows.index, zero, false);
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
    for (int i = 0; i < nest->nodes.count; i++)
        narrow(e, &in, &nest->loads[i]);
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

    LLVMValueRef zero = emit_int_const(e, 0);
    emit_level(nest, 0, zero, zero, true);
    Loop rows = loop_begin(e, row_low, row_high);
    emit_level(nest, 1, rows.index, zero, true);
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

static void find_accesses(Nest *nest, const Root *roots, int count) {
    Leaf *leaf = nest->leaf;
    for (int i = 0; i < nest->nodes.count; i++) {
        const Node *node = &nest->nodes.items[i];
        if (node->area >= 0)
            nest->loads[i] = access_area(leaf, node->axis, node->value->type, node->area);
        else if (is_load(node))
            nest->loads[i] = access_slice(leaf, nest->shape.extent, node->axis, node->value->def);
    }
    for (int i = 0; i < count; i++) {
        NestShape shape = nest_shape(roots[i].value->type);
        Access store = roots[i].store ? access_slice(leaf, shape.extent, shape.axis, roots[i].store)
                                      : access_area(leaf, shape.axis, roots[i].value->type, roots[i].area);
        vec_push(leaf->e->context->arena, &nest->stores, store);
    }
}

static bool any_checked(const Nest *nest) {
    for (int i = 0; i < nest->nodes.count; i++)
        if (nest->loads[i].checked)
            return true;
    for (int i = 0; i < nest->stores.count; i++)
        if (nest->stores.items[i].checked)
            return true;
    return false;
}

void emit_nest(Leaf *leaf, const Root *roots, int count) {
    Emitter *e = leaf->e;
    Arena *arena = e->context->arena;
    int *tops = NEW_ARRAY(arena, int, count);
    Nest nest = {.leaf = leaf, .shape = nest_shape(roots[0].value->type), .tops = tops};
    nest.nodes = plan_nodes((Plan *)leaf->plan, roots, count, tops);
    nest.loads = NEW_ARRAY(arena, Access, nest.nodes.count);
    nest.elements = NEW_ARRAY(arena, LLVMValueRef, nest.nodes.count);
    find_accesses(&nest, roots, count);
    if (!any_checked(&nest)) {
        emit_plain_nest(&nest);
        return;
    }
    Interior in = find_interior(&nest);
    if (nest.nodes.count > NODES_TWICE) {
        emit_edge_nest(&nest, &in);
        return;
    }
    LLVMBasicBlockRef plain = block_append(e, "plain"), edge = block_append(e, "edge"), done = block_append(e, "done");
    LLVMBuildCondBr(e->builder, covers_all(&nest, &in), plain, edge);
    LLVMPositionBuilderAtEnd(e->builder, plain);
    emit_plain_nest(&nest);
    LLVMBuildBr(e->builder, done);
    LLVMPositionBuilderAtEnd(e->builder, edge);
    emit_edge_nest(&nest, &in);
    LLVMBuildBr(e->builder, done);
    LLVMPositionBuilderAtEnd(e->builder, done);
}
