/* What the IR says of threads: where they meet, what they have in common, which loops walk memory side by side. */
#include "compiler/codegen/simt/split.h"

/* ---- meetings ---- */

static bool is_tile(const IrValue *value) {
    return value->type->kind == TYPE_TILE;
}

static bool has_tile(const IrOp *op) {
    for (int i = 0; i < op->operands.count; i++)
        if (is_tile(op->operands.items[i]))
            return true;
    return op->results.count && is_tile(op->results.items[0]);
}

/* Ops on tiles that each thread does on its own registers. */
static bool is_apart(OpKind kind) {
    return (kind >= OP_ADD && kind <= OP_IOTA) || kind == OP_TRANSPOSE || kind == OP_LOAD || kind == OP_STORE || kind == OP_YIELD;
}

static Meeting meeting_of(const IrOp *op) {
    if (op->kind >= OP_CLUSTER_ARRIVE && op->kind <= OP_CLUSTER_WAIT)
        return MEETS_CLUSTER;
    if ((op_info[op->kind].traits & TRAIT_SYNC) || (ir_is_atomic(op->kind) && op->once) ||
        (!op->regions.count && has_tile(op) && !is_apart(op->kind)))
        return MEETS_CTA;
    if (op->kind >= OP_SHUFFLE && op->kind <= OP_WARP_MIN)
        return MEETS_WARP;
    Meeting most = MEETS_NONE;
    for (int r = 0; r < op->regions.count; r++) {
        Meeting inside = split_meeting(op->regions.items[r]);
        most = inside > most ? inside : most;
    }
    return most;
}

Meeting split_meeting(const IrBlock *block) {
    Meeting most = MEETS_NONE;
    for (const IrOp *op = block->first; op; op = op->next) {
        Meeting own = meeting_of(op);
        most = own > most ? own : most;
    }
    return most;
}

/* ---- what threads have in common ---- */

typedef struct Uniform {
    bool *is; /* by IrValue.id: not yet refuted */
    bool changed;
} Uniform;

static bool is_uniform(const Uniform *u, const IrValue *value) {
    return ir_is_param(value) || u->is[value->id];
}

static void meet(Uniform *u, const IrValue *value, bool uniform) {
    if (u->is[value->id] && !uniform) {
        u->is[value->id] = false;
        u->changed = true;
    }
}

static bool all_uniform(const Uniform *u, const IrOp *op, int count) {
    for (int i = 0; i < count; i++)
        if (!is_uniform(u, op->operands.items[i]))
            return false;
    return true;
}

static void visit_block(Uniform *u, const IrBlock *block);

static void visit_region(Uniform *u, const IrOp *op) {
    const IrBlock *last = op->regions.items[op->regions.count - 1];
    bool is_loop = op->kind != OP_IF, control = true;
    if (op->kind == OP_FOR) {
        control = all_uniform(u, op, 3);
        meet(u, last->args.items[0], control);
    } else if (op->kind == OP_WHILE) {
        control = is_uniform(u, op->regions.items[0]->last->operands.items[0]);
    } else {
        control = is_uniform(u, op->operands.items[0]);
    }
    int first = op->kind == OP_FOR; /* the index stands before what is carried */
    for (int i = 0; i < op->results.count; i++) {
        bool uniform = control && op->results.items[i]->type->kind == TYPE_SCALAR;
        if (is_loop)
            uniform = uniform && is_uniform(u, op->operands.items[op->operands.count - op->results.count + i]);
        for (int r = is_loop ? op->regions.count - 1 : 0; r < op->regions.count; r++)
            uniform = uniform && is_uniform(u, op->regions.items[r]->last->operands.items[i]);
        meet(u, op->results.items[i], uniform);
        for (int r = 0; is_loop && r < op->regions.count; r++)
            meet(u, op->regions.items[r]->args.items[first + i], uniform);
    }
    for (int r = 0; r < op->regions.count; r++)
        visit_block(u, op->regions.items[r]);
}

static void visit_block(Uniform *u, const IrBlock *block) {
    for (const IrOp *op = block->first; op; op = op->next) {
        if (op->regions.count) {
            visit_region(u, op);
            continue;
        }
        bool differs = op->kind == OP_THREAD || op->kind == OP_WARP || op->kind == OP_LANE;
        bool uniform = (op_info[op->kind].traits & TRAIT_PURE) && !differs && !has_tile(op) && all_uniform(u, op, op->operands.count);
        for (int i = 0; i < op->results.count; i++)
            meet(u, op->results.items[i], uniform);
    }
}

bool *split_find_uniform(Context *context, const IrKernel *kernel, int values) {
    Uniform u = {.is = NEW_ARRAY(context->arena, bool, values + 1), .changed = true};
    for (int i = 0; i < values; i++)
        u.is[i] = true;
    while (u.changed) {
        u.changed = false;
        visit_block(&u, kernel->body);
    }
    return u.is;
}

/* ---- walks ---- */

/* Keeps the value of every integer. */
static bool is_widening(const IrOp *convert) {
    PhbDType from = convert->operands.items[0]->type->scalar, to = convert->results.items[0]->type->scalar;
    if (dtype_is_float(from) || dtype_is_float(to) || dtype_is_signed(from) != dtype_is_signed(to))
        return false;
    return dtype_bits(to) >= dtype_bits(from);
}

/* How much `value` grows from a thread to the next one; false where that is not the same for all. Inside of `loop` the threads are in the same turn.
 */
static bool find_growth(const bool *uniform, const IrValue *value, const IrOp *loop, int64_t *growth) {
    *growth = 0;
    if (ir_is_param(value) || uniform[value->id])
        return true;
    if (!value->def) /* the loop's index goes as its start does, where steps are of one size */
        return value == loop->regions.items[0]->args.items[0] && find_growth(uniform, loop->operands.items[0], loop, growth);
    const IrOp *op = value->def;
    if (op->kind == OP_THREAD) {
        *growth = op->axis == 0;
        return true;
    }
    if (!(op_info[op->kind].traits & TRAIT_PURE) || op->operands.count > 3 || has_tile(op))
        return false;
    int64_t parts[3] = {0, 0, 0};
    for (int i = 0; i < op->operands.count; i++)
        if (!find_growth(uniform, op->operands.items[i], loop, &parts[i]))
            return false;
    switch (op->kind) {
    case OP_ADD:
        return !__builtin_add_overflow(parts[0], parts[1], growth);
    case OP_SUB:
        return !__builtin_sub_overflow(parts[0], parts[1], growth);
    case OP_CONVERT:
        *growth = parts[0];
        return is_widening(op);
    default:
        return false;
    }
}

static bool walks(const bool *uniform, const IrOp *loop, const IrBlock *block, int *accesses) {
    for (const IrOp *op = block->first; op; op = op->next) {
        if (op->kind == OP_FOR || op->kind == OP_WHILE || ir_is_atomic(op->kind))
            return false;
        for (int r = 0; r < op->regions.count; r++)
            if (!walks(uniform, loop, op->regions.items[r], accesses))
                return false;
        if (op->kind != OP_LOAD && op->kind != OP_STORE)
            continue;
        int rank = op->operands.items[0]->type->rank;
        for (int axis = 0; axis < rank; axis++) {
            int64_t growth;
            if (!find_growth(uniform, op->operands.items[1 + axis], loop, &growth) || growth < 0 || growth > (axis == rank - 1))
                return false;
            *accesses += growth == 1;
        }
    }
    return true;
}

bool split_is_walk(const bool *uniform, const IrOp *loop) {
    int64_t growth;
    int accesses = 0;
    return loop->kind == OP_FOR && split_meeting(loop->regions.items[0]) == MEETS_NONE &&
           find_growth(uniform, loop->operands.items[2], loop, &growth) && growth == 0 && walks(uniform, loop, loop->regions.items[0], &accesses) &&
           accesses > 0;
}

bool split_has_walk(const bool *uniform, const IrBlock *block) {
    for (const IrOp *op = block->first; op; op = op->next) {
        if (op->kind == OP_FOR && split_is_walk(uniform, op))
            return true;
        for (int r = 0; r < op->regions.count; r++)
            if (split_has_walk(uniform, op->regions.items[r]))
                return true;
    }
    return false;
}
