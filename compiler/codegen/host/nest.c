/* Loop nests. A nest runs as if every element existed: edge.c puts copies in the place of slices that leave their tensors. Those that touch tensors
 * run in blocks, so that the copies stay in cache; rows that no store reaches are left out. Nodes that do not move with a loop are evaluated outside
 * of it.
 */
#include "compiler/codegen/host/host.h"

enum { BLOCK_ELEMENTS = 8192 };

typedef struct Nest {
    Leaf *leaf;
    NestShape shape;
    NodeList nodes;
    int store_count;     /* a root each */
    const Root *roots;
    const int *tops;     /* by root: its node */
    Access *loads;       /* by node, of the whole nest, */
    Access *stores;      /* and by root, */
    Access *block_loads; /* and of the block under construction */
    Access *block_stores;
    LLVMValueRef *elements; /* by node, of the iteration under construction */
    LLVMValueRef first[2];  /* indices where the block starts; NULL: at 0 */
    LLVMValueRef count[2];  /* and how many it has */
    VEC(EdgeCopy) edges;
    int *load_edge, *store_edge; /* by node and by root; -1: none */
} Nest;

/* ---- scalars ---- */

void emit_scalar_load(Leaf *leaf, const IrOp *op) {
    Emitter *e = leaf->e;
    Access access = access_slice(leaf, (const int64_t[2]){1, 1}, (const int[2]){-1, -1}, op);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(e->builder), read = block_append(e, "read"), after = block_append(e, "after");
    LLVMBuildCondBr(e->builder, access.exists, read, after);
    LLVMPositionBuilderAtEnd(e->builder, read);
    LLVMValueRef value = access_load(leaf, &access, access.start);
    LLVMBasicBlockRef end = LLVMGetInsertBlock(e->builder);
    LLVMBuildBr(e->builder, after);
    LLVMPositionBuilderAtEnd(e->builder, after);
    LLVMValueRef phi = LLVMBuildPhi(e->builder, value_type(e, access.dtype), "");
    LLVMValueRef fill = LLVMConstNull(value_type(e, access.dtype));
    LLVMAddIncoming(phi, (LLVMValueRef[]){fill, value}, (LLVMBasicBlockRef[]){before, end}, 2);
    leaf->values[op->results.items[0]->id] = phi;
}

void emit_scalar_store(Leaf *leaf, const IrOp *op) {
    Emitter *e = leaf->e;
    Access access = access_slice(leaf, (const int64_t[2]){1, 1}, (const int[2]){-1, -1}, op);
    LLVMBasicBlockRef write = block_append(e, "write"), after = block_append(e, "after");
    LLVMBuildCondBr(e->builder, access.exists, write, after);
    LLVMPositionBuilderAtEnd(e->builder, write);
    access_store(leaf, &access, access.start, leaf_value(leaf, stored_value(op)));
    LLVMBuildBr(e->builder, after);
    LLVMPositionBuilderAtEnd(e->builder, after);
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
    int loop = node->axis[1] >= 0 ? 1 : 0;
    if (node->axis[loop] < 0)
        return LLVMConstNull(e->i32);
    LLVMValueRef index = loop == 1 ? inner : outer;
    if (nest->first[loop])
        index = LLVMBuildAdd(e->builder, index, nest->first[loop], "");
    return LLVMBuildTrunc(e->builder, index, e->i32, "");
}

static LLVMValueRef emit_node(const Nest *nest, int index, LLVMValueRef outer, LLVMValueRef inner) {
    Leaf *leaf = nest->leaf;
    const Node *node = &nest->nodes.items[index];
    if (is_load(node)) {
        const Access *load = &nest->block_loads[index];
        if (node->area < 0)
            emit_at(leaf->e, node->value->def->span);
        return access_load(leaf, load, access_address(leaf, load, outer, inner));
    }
    const IrOp *op = node->value->def;
    emit_at(leaf->e, op->span);
    if (op->kind == OP_IOTA)
        return emit_index(nest, node, outer, inner);
    LLVMValueRef operands[3] = {NULL};
    for (int i = 0; i < op->operands.count; i++)
        operands[i] = node->operand[i] >= 0 ? nest->elements[node->operand[i]] : leaf_value(leaf, op->operands.items[i]);
    return op->kind == OP_BROADCAST || op->kind == OP_RESHAPE ? operands[0] : emit_element(leaf->e, op, operands);
}

static void emit_level(const Nest *nest, int level, LLVMValueRef outer, LLVMValueRef inner) {
    for (int i = 0; i < nest->nodes.count; i++)
        if (node_level(&nest->nodes.items[i]) == level)
            nest->elements[i] = emit_node(nest, i, outer, inner);
}

static Span root_span(const Root *root) {
    return root->store ? root->store->span : root->value->def ? root->value->def->span : (Span){0};
}

/* Rows [low, high) of the block. */
static void emit_loops(const Nest *nest, LLVMValueRef low, LLVMValueRef high) {
    Leaf *leaf = nest->leaf;
    Emitter *e = leaf->e;
    LLVMValueRef zero = emit_int_const(e, 0);
    emit_level(nest, 0, zero, zero);
    Loop rows = loop_begin(e, low, high);
    emit_level(nest, 1, rows.index, zero);
    Loop columns = loop_begin(e, zero, nest->count[1]);
    emit_level(nest, 2, rows.index, columns.index);
    for (int i = 0; i < nest->store_count; i++) {
        const Access *store = &nest->block_stores[i];
        emit_at(e, root_span(&nest->roots[i]));
        access_store(leaf, store, access_address(leaf, store, rows.index, columns.index), nest->elements[nest->tops[i]]);
    }
    loop_end(e, &columns, LOOP_PLAIN);
    loop_end(e, &rows, LOOP_SCALAR);
}

/* ---- blocks ---- */

/* i1: does every element of every slice exist? */
static LLVMValueRef is_whole(const Nest *nest) {
    Emitter *e = nest->leaf->e;
    LLVMValueRef whole = LLVMConstInt(e->i1, 1, false);
    for (int i = 0; i < nest->edges.count; i++)
        whole = LLVMBuildAnd(e->builder, whole, edge_is_whole(e, &nest->edges.items[i].slice, nest->count), "");
    return whole;
}

/* Rows of the block that at least one store reaches: [*low, *high). */
static void find_rows(const Nest *nest, LLVMValueRef *low, LLVMValueRef *high) {
    Emitter *e = nest->leaf->e;
    LLVMValueRef zero = emit_int_const(e, 0), all = nest->count[0];
    bool is_bounded = nest->shape.extent[0] > 1;
    for (int i = 0; i < nest->store_count; i++)
        is_bounded &= nest->block_stores[i].checked && nest->block_stores[i].stride[0];
    *low = is_bounded ? all : zero;
    *high = is_bounded ? zero : all;
    for (int i = 0; is_bounded && i < nest->store_count; i++) {
        *low = emit_min(e, *low, nest->block_stores[i].low[0]);
        *high = emit_max(e, *high, nest->block_stores[i].high[0]);
    }
}

static void emit_block_of(Nest *nest) {
    Emitter *e = nest->leaf->e;
    LLVMBuilderRef builder = e->builder;
    for (int i = 0; i < nest->nodes.count; i++)
        nest->block_loads[i] = access_block(e, &nest->loads[i], nest->first, nest->count);
    for (int i = 0; i < nest->store_count; i++)
        nest->block_stores[i] = access_block(e, &nest->stores[i], nest->first, nest->count);
    LLVMValueRef low, high;
    find_rows(nest, &low, &high);
    if (!nest->edges.count) {
        emit_loops(nest, low, high);
        return;
    }
    for (int i = 0; i < nest->nodes.count; i++)
        if (nest->load_edge[i] >= 0)
            nest->edges.items[nest->load_edge[i]].slice = nest->block_loads[i];
    for (int i = 0; i < nest->store_count; i++)
        if (nest->store_edge[i] >= 0)
            nest->edges.items[nest->store_edge[i]].slice = nest->block_stores[i];

    LLVMValueRef whole = is_whole(nest);
    LLVMBasicBlockRef fill = block_append(e, "fill"), run = block_append(e, "run"), spill = block_append(e, "spill"), done = block_append(e, "done");
    LLVMBasicBlockRef from[2] = {LLVMGetInsertBlock(builder), fill};
    LLVMBuildCondBr(builder, whole, run, fill);
    LLVMPositionBuilderAtEnd(builder, fill);
    for (int i = 0; i < nest->edges.count; i++)
        if (nest->edges.items[i].is_read)
            edge_fill(e, &nest->edges.items[i]);
    LLVMBuildBr(builder, run);

    LLVMPositionBuilderAtEnd(builder, run);
    Access *accesses = NEW_ARRAY(e->context->arena, Access, nest->edges.count);
    for (int i = 0; i < nest->edges.count; i++)
        accesses[i] = edge_access(e, &nest->edges.items[i], from);
    for (int i = 0; i < nest->nodes.count; i++)
        if (nest->load_edge[i] >= 0)
            nest->block_loads[i] = accesses[nest->load_edge[i]];
    for (int i = 0; i < nest->store_count; i++)
        if (nest->store_edge[i] >= 0)
            nest->block_stores[i] = accesses[nest->store_edge[i]];
    emit_loops(nest, low, high);
    LLVMBuildCondBr(builder, whole, done, spill);
    LLVMPositionBuilderAtEnd(builder, spill);
    for (int i = 0; i < nest->edges.count; i++)
        if (nest->edges.items[i].is_written)
            edge_spill(e, &nest->edges.items[i]);
    LLVMBuildBr(builder, done);
    LLVMPositionBuilderAtEnd(builder, done);
}

/* Blocks of `block` turns of `loop`, and below it of the loops inside. */
static void emit_blocks(Nest *nest, const int64_t block[2], int loop) {
    Emitter *e = nest->leaf->e;
    if (loop == 2) {
        emit_block_of(nest);
        return;
    }
    int64_t extent = nest->shape.extent[loop], count = (extent + block[loop] - 1) / block[loop];
    nest->count[loop] = emit_int_const(e, block[loop]);
    if (count == 1) {
        emit_blocks(nest, block, loop + 1);
        return;
    }
    Loop blocks = loop_begin(e, emit_int_const(e, 0), emit_int_const(e, count));
    nest->first[loop] = LLVMBuildMul(e->builder, blocks.index, nest->count[loop], "");
    if (extent % block[loop] != 0)
        nest->count[loop] = emit_min(e, nest->count[loop], LLVMBuildSub(e->builder, emit_int_const(e, extent), nest->first[loop], ""));
    emit_blocks(nest, block, loop + 1);
    loop_end(e, &blocks, LOOP_SCALAR);
}

/* ---- the whole ---- */

static void find_accesses(Nest *nest, const Root *roots) {
    Leaf *leaf = nest->leaf;
    for (int i = 0; i < nest->nodes.count; i++) {
        const Node *node = &nest->nodes.items[i];
        if (node->area >= 0)
            nest->loads[i] = access_area(leaf, node->axis, node->value->type, node->area);
        else if (is_load(node))
            nest->loads[i] = access_slice(leaf, nest->shape.extent, node->axis, node->value->def);
    }
    for (int i = 0; i < nest->store_count; i++) {
        NestShape shape = nest_shape(roots[i].value->type);
        nest->stores[i] = roots[i].store ? access_slice(leaf, shape.extent, shape.axis, roots[i].store)
                                         : access_area(leaf, shape.axis, roots[i].value->type, roots[i].area);
    }
}

/* What is stored to where a load reads, and in the same way, goes to that load's copy. */
static int edge_for(Nest *nest, const Access *access, const IrOp *op, const int axis[2], const int64_t block[2], int64_t *offset) {
    if (!access->checked)
        return -1;
    for (int i = 0; i < nest->edges.count; i++) {
        const EdgeCopy *edge = &nest->edges.items[i];
        if (slice_same(edge->op, op) && edge->axis[0] == axis[0] && edge->axis[1] == axis[1])
            return i;
    }
    EdgeCopy edge = {.op = op, .axis = {axis[0], axis[1]}, .slice = *access};
    edge_place(nest->leaf, &edge, block, offset);
    vec_push(nest->leaf->e->context->arena, &nest->edges, edge);
    return nest->edges.count - 1;
}

static void find_edges(Nest *nest, const Root *roots, const int64_t block[2]) {
    int64_t offset = 0;
    for (int i = 0; i < nest->nodes.count; i++) {
        const Node *node = &nest->nodes.items[i];
        nest->load_edge[i] = edge_for(nest, &nest->loads[i], node->value->def, node->axis, block, &offset);
        if (nest->load_edge[i] >= 0)
            nest->edges.items[nest->load_edge[i]].is_read = true;
    }
    for (int i = 0; i < nest->store_count; i++) {
        NestShape shape = nest_shape(roots[i].value->type);
        nest->store_edge[i] = edge_for(nest, &nest->stores[i], roots[i].store, shape.axis, block, &offset);
        if (nest->store_edge[i] >= 0)
            nest->edges.items[nest->store_edge[i]].is_written = true;
    }
}

static bool any_checked(const Nest *nest) {
    for (int i = 0; i < nest->nodes.count; i++)
        if (nest->loads[i].checked)
            return true;
    for (int i = 0; i < nest->store_count; i++)
        if (nest->stores[i].checked)
            return true;
    return false;
}

void emit_nest(Leaf *leaf, const Root *roots, int count) {
    Arena *arena = leaf->e->context->arena;
    emit_at(leaf->e, root_span(roots));
    int *tops = NEW_ARRAY(arena, int, count);
    Nest nest = {.leaf = leaf, .shape = nest_shape(roots[0].value->type), .roots = roots, .tops = tops, .store_count = count};
    nest.nodes = plan_nodes((Plan *)leaf->plan, roots, count, tops);
    nest.loads = NEW_ARRAY(arena, Access, nest.nodes.count);
    nest.block_loads = NEW_ARRAY(arena, Access, nest.nodes.count);
    nest.load_edge = NEW_ARRAY(arena, int, nest.nodes.count);
    nest.stores = NEW_ARRAY(arena, Access, count);
    nest.block_stores = NEW_ARRAY(arena, Access, count);
    nest.store_edge = NEW_ARRAY(arena, int, count);
    nest.elements = NEW_ARRAY(arena, LLVMValueRef, nest.nodes.count);
    find_accesses(&nest, roots);
    int64_t block[2] = {nest.shape.extent[0], nest.shape.extent[1]};
    if (any_checked(&nest) && block[1] > BLOCK_ELEMENTS)
        block[1] = BLOCK_ELEMENTS;
    if (any_checked(&nest) && block[0] > BLOCK_ELEMENTS / block[1])
        block[0] = BLOCK_ELEMENTS / block[1];
    find_edges(&nest, roots, block);
    emit_blocks(&nest, block, 0);
}
