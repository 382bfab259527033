/* Thread code that a cluster loop cuts into stages. To the kernel a CTA is one, from its first line to its last; in a cluster program one ends with
 * each stage. What threads hold waits in states, an element a thread, and so does shared memory that more than one part uses; what it holds before it
 * is written is 0 then. A thread-block cluster that has arrived and not waited where a part ends does the rest of the meeting there, and arrives
 * again where the next part begins: that orders more than the text asks for. */
#include "compiler/lower/ast_to_ir.h"
#include "compiler/lower/stage.h"

static bool has_peers(const IrBlock *block) {
    for (const IrOp *op = block->first; op; op = op->next) {
        if (op->kind == OP_REMOTE)
            return true;
        for (int i = 0; i < op->regions.count; i++)
            if (has_peers(op->regions.items[i]))
                return true;
    }
    return false;
}

void find_threads(Staging *staging) {
    staging->has_threads = ir_has_thread_code(staging->split->kernel);
    staging->has_peers = has_peers(staging->split->kernel->body);
}

/* ---- states ---- */

bool has_state_a_thread(const Staging *staging, const Type *type) {
    return staging->has_threads && staging->split->kernel->signature.launch_threads > 0 && type->kind == TYPE_SCALAR;
}

static const Dim *element_count(Split *split, const Type *array) {
    const Dim *count = dim_int(split->context->dims, 1);
    for (int k = 0; k < array->rank; k++)
        count = dim_op(split->context->dims, PHB_EXPR_MUL, count, array->dims[k]);
    return count;
}

const Type *state_type(Staging *staging, const Type *type) {
    Context *context = staging->split->context;
    const Dim *columns = NULL;
    if (has_state_a_thread(staging, type))
        columns = dim_int(context->dims, staging->split->kernel->signature.launch_threads);
    else if (type->kind == TYPE_SHARED)
        columns = element_count(staging->split, type);
    return columns ? type_shaped(context->types, TYPE_TILE, type->scalar, 1, &columns) : type;
}

/* ---- shared memory ---- */

static IrValue *place(Leaf *leaf, OpKind kind, Span span, const Dim *dim) {
    IrValue *value = ir_value(leaf->split->context, leaf->block, kind, span, type_scalar(leaf->split->context->types, PHB_I64), NULL, NULL);
    value->def->dim = dim;
    return value;
}

static void meet(Leaf *leaf, Span span) {
    Context *context = leaf->split->context;
    if (!leaf->staging->has_peers) {
        ir_append(context, leaf->block, OP_BARRIER, span, NULL, 0, NULL, 0);
        return;
    }
    ir_append(context, leaf->block, OP_CLUSTER_ARRIVE, span, NULL, 0, NULL, 0);
    ir_append(context, leaf->block, OP_CLUSTER_WAIT, span, NULL, 0, NULL, 0);
}

/* Of element `index` in row-major order: the array and an offset an axis. Gives their number. */
static int array_element(Leaf *leaf, IrValue *array, IrValue *index, IrValue *operands[1 + PHB_MAX_RANK]) {
    Span span = array->def->span;
    int rank = array->type->rank;
    operands[0] = array;
    for (int k = rank - 1; k > 0; k--) {
        IrValue *extent = place(leaf, OP_DIM, span, array->type->dims[k]);
        operands[1 + k] = leaf_binary(leaf, OP_REM, span, index, extent);
        index = leaf_binary(leaf, OP_DIV, span, index, extent);
    }
    operands[1] = index;
    return 1 + rank;
}

typedef enum ArrayMove { ARRAY_CLEAR, ARRAY_RESTORE, ARRAY_SAVE } ArrayMove;

static IrValue *load_element(Leaf *leaf, const Type *type, Span span, IrValue **operands, int count) {
    return ir_append(leaf->split->context, leaf->block, OP_LOAD, span, operands, count, &type, 1)->results.items[0];
}

/* Each thread moves every ctx.threads-th element. */
static void move_array(Leaf *leaf, IrValue *array, int home, ArrayMove move) {
    Context *context = leaf->split->context;
    Span span = array->def->span;
    const Type *type = type_scalar(context->types, array->type->scalar);
    IrValue *cta = leaf_cta(leaf, span), *zero = leaf_number(leaf, span, 0);
    IrValue *bounds[3] = {
        place(leaf, OP_THREAD, span, NULL), place(leaf, OP_DIM, span, element_count(leaf->split, array->type)), place(leaf, OP_THREADS, span, NULL)};
    IrOp *loop = ir_append(context, leaf->block, OP_FOR, span, bounds, 3, NULL, 0);
    IrBlock *outer = leaf->block;
    leaf->block = ir_region_new(context, loop);
    IrValue *index = ir_block_arg(context, leaf->block, bounds[0]->type, NULL);
    IrValue *element[2 + PHB_MAX_RANK], *waiting[5] = {leaf_state(leaf, home), cta, zero, index};
    int count = array_element(leaf, array, index, element);
    if (move == ARRAY_SAVE) {
        waiting[4] = load_element(leaf, type, span, element, count);
        ir_append(context, leaf->block, OP_STORE, span, waiting, 5, NULL, 0);
    } else {
        element[count] = move == ARRAY_CLEAR ? ir_const_bits(context, leaf->block, span, type, 0) : load_element(leaf, type, span, waiting, 4);
        ir_append(context, leaf->block, OP_STORE, span, element, count + 1, NULL, 0);
    }
    ir_append(context, leaf->block, OP_YIELD, span, NULL, 0, NULL, 0);
    leaf->block = outer;
}

IrValue *bring_array(Leaf *leaf, const IrValue *array, int home) {
    IrOp *copy = ir_append(leaf->split->context, leaf->block, OP_SHARED, array->def->span, NULL, 0, &array->type, 1);
    ir_copy_attributes(copy, array->def);
    bool is_declared_here = leaf->staging->part_of[array->id] == leaf->part;
    move_array(leaf, copy->results.items[0], home, is_declared_here ? ARRAY_CLEAR : ARRAY_RESTORE);
    leaf->has_arrays = true;
    return copy->results.items[0];
}

static bool writes(const IrOp *op, const IrValue *array) {
    if ((op_info[op->kind].traits & TRAIT_WRITES) && ir_memory(op, NULL) == array)
        return true;
    for (int i = 0; i < op->regions.count; i++)
        for (const IrOp *inner = op->regions.items[i]->first; inner; inner = inner->next)
            if (writes(inner, array))
                return true;
    return false;
}

/* The stage leaves something in the array that a later one, or the next chunk's, may read. Peers write to it as well. */
static bool is_saved(const Leaf *leaf, const IrValue *array) {
    const Staging *s = leaf->staging;
    const Part *part = &s->parts.items[leaf->part];
    if (s->part_of[array->id] == leaf->part)
        return true;
    bool changes = s->has_peers;
    for (const IrOp *op = part->first; op != part->end && !changes; op = op->next)
        changes = writes(op, array);
    return changes && (part->is_loop || s->last_use[array->id] > leaf->part);
}

static void save_arrays(Leaf *leaf) {
    bool has_met = false;
    for (const IrOp *op = leaf->split->kernel->body->first; op; op = op->next) {
        const IrValue *array = op->kind == OP_SHARED ? op->results.items[0] : NULL;
        int home = array ? leaf->staging->home[array->id] : -1;
        if (home < 0 || !leaf->copies[array->id] || !is_saved(leaf, array))
            continue;
        if (!has_met)
            meet(leaf, op->span);
        has_met = true;
        move_array(leaf, leaf->copies[array->id], home, ARRAY_SAVE);
    }
}

/* ---- meetings ---- */

static void last_meeting(const IrBlock *block, const IrOp *end, const IrOp **last) {
    for (const IrOp *op = block->first; op != end; op = op->next) {
        if (op->kind == OP_CLUSTER_ARRIVE || op->kind == OP_CLUSTER_ARRIVE_RELAXED || op->kind == OP_CLUSTER_WAIT)
            *last = op;
        for (int i = 0; i < op->regions.count; i++)
            last_meeting(op->regions.items[i], NULL, last);
    }
}

/* The cluster has arrived before `end` and not waited. They alternate on every path, so the last one of the text is that of each path. */
static bool is_arrived(const Leaf *leaf, const IrOp *end) {
    const IrOp *last = NULL;
    last_meeting(leaf->split->kernel->body, end, &last);
    return last && last->kind != OP_CLUSTER_WAIT;
}

void enter_part(Leaf *leaf) {
    Span span = leaf->kernel->signature.span;
    if (leaf->has_arrays)
        meet(leaf, span);
    if (is_arrived(leaf, leaf->staging->parts.items[leaf->part].first))
        ir_append(leaf->split->context, leaf->block, OP_CLUSTER_ARRIVE, span, NULL, 0, NULL, 0);
}

void leave_part(Leaf *leaf) {
    Context *context = leaf->split->context;
    Span span = leaf->kernel->signature.span;
    if (leaf->staging->parts.count == 1 || !leaf->staging->has_threads)
        return;
    if (is_arrived(leaf, leaf->staging->parts.items[leaf->part].end))
        ir_append(context, leaf->block, OP_CLUSTER_WAIT, span, NULL, 0, NULL, 0);
    save_arrays(leaf);
    add_peer_barriers(context, leaf->kernel);
    if (!ir_has_thread_code(leaf->kernel))
        ir_append(context, leaf->block, OP_BARRIER, span, NULL, 0, NULL, 0);
}
