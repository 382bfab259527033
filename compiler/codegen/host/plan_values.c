/* Which tiles get an area of scratch: results of ops that are no element-wise work, carried tiles, what such ops and other blocks read, and what
 * would cost more to evaluate again than to keep. */
#include "compiler/codegen/host/host.h"

enum {
    COST_KEEP = 10,      /* of a tile that several ops read: worth a store and loads */
    COST_TRIVIAL = 3,    /* of a tile that depends on scalars alone: evaluated even in loops */
    COST_MANY = 1 << 20, /* where sums stop */
    DEPTH_MAX = 64,      /* of operands below operands in one nest: bounds its size and recursion */
};

bool op_is_lazy(const IrOp *op) {
    switch (op->kind) {
    case OP_LOAD:
    case OP_BROADCAST:
    case OP_IOTA:
        return true;
    case OP_RESHAPE:
        return reshape_keeps_axes(op);
    default:
        return op->kind >= OP_ADD && op->kind <= OP_CONVERT;
    }
}

static int own_cost(const IrOp *op) {
    PhbDType dtype = op->results.items[0]->type->scalar;
    bool is_half = dtype == PHB_F16 || dtype == PHB_BF16;
    switch (op->kind) {
    case OP_BROADCAST:
    case OP_IOTA:
    case OP_RESHAPE:
        return 0;
    case OP_DIV:
    case OP_SQRT:
        return dtype_is_float(dtype) ? 4 : 8;
    case OP_REM:
        return 12;
    case OP_POW:
        return 40;
    case OP_EXP:
    case OP_EXP2:
    case OP_LOG:
    case OP_LOG2:
    case OP_RSQRT:
    case OP_TANH:
    case OP_SIGMOID:
    case OP_ERF:
    case OP_SIN:
    case OP_COS:
        return 16;
    default:
        return is_half ? 3 : 1;
    }
}

/* ---- uses ---- */

typedef struct Marks {
    Plan *plan;
    bool *forced; /* by value: it must have an area */
    bool *spread; /* it is broadcast */
    bool *trivial;
} Marks;

static bool is_tile(const IrValue *value) {
    return value->type->kind == TYPE_TILE;
}

/* Does `op` read this operand as memory, rather than element by element at its own place? */
static bool reads_memory(const IrOp *op) {
    return !op_is_lazy(op) && op->kind != OP_STORE && op->kind != OP_FOR && op->kind != OP_WHILE;
}

/* The factors of a dot are read from their tensors where nothing else is to be done with them. */
static bool is_factor(const IrOp *op, int operand) {
    const IrOp *def = op->operands.items[operand]->def;
    return (op->kind == OP_DOT || op->kind == OP_DOT_T) && operand < 2 && def && def->kind == OP_LOAD && def->parent == op->parent;
}

static bool depends_on_scalars_alone(const Marks *m, const IrOp *op) {
    if (!op_is_lazy(op) || op->kind == OP_LOAD)
        return false;
    int cost = own_cost(op);
    for (int i = 0; i < op->operands.count; i++) {
        const IrValue *operand = op->operands.items[i];
        if (!is_tile(operand))
            continue;
        if (!m->trivial[operand->id])
            return false;
        cost += m->plan->values[operand->id].cost;
    }
    m->plan->values[op->results.items[0]->id].cost = cost;
    return cost <= COST_TRIVIAL;
}

static void mark_uses(Marks *m, const IrBlock *block) {
    for (const IrOp *op = block->first; op; op = op->next) {
        if (op->results.count == 1 && is_tile(op->results.items[0]))
            m->trivial[op->results.items[0]->id] = depends_on_scalars_alone(m, op);
        for (int i = 0; i < op->operands.count; i++) {
            const IrValue *operand = op->operands.items[i];
            if (!is_tile(operand))
                continue;
            m->plan->values[operand->id].uses++;
            bool elsewhere = (operand->def ? operand->def->parent : operand->block) != block;
            if (is_factor(op, i))
                continue;
            if (reads_memory(op) ? !(op->kind == OP_YIELD && m->trivial[operand->id]) : elsewhere && !m->trivial[operand->id])
                m->forced[operand->id] = true;
            if (op->kind == OP_BROADCAST)
                m->spread[operand->id] = true;
        }
        for (int i = 0; i < op->regions.count && !plan_contracted(m->plan, op); i++)
            mark_uses(m, op->regions.items[i]);
    }
}

/* ---- areas ---- */

int plan_area_new(Plan *plan, const Type *type) {
    int64_t bytes = dtype_bits(type->scalar) / 8;
    for (int axis = 0; axis < type->rank; axis++)
        if (__builtin_mul_overflow(bytes, tile_extent(type, axis), &bytes))
            bytes = INT64_MAX;
    int area = plan->areas.count;
    vec_push(plan->arena, &plan->areas, (Area){.bytes = bytes, .offset = -1, .same = area});
    return area;
}

static void weigh(Plan *plan, const IrOp *op) {
    ValuePlan *value = &plan->values[op->results.items[0]->id];
    value->cost = own_cost(op);
    value->depth = 1;
    for (int i = 0; i < op->operands.count; i++) {
        const IrValue *operand = op->operands.items[i];
        if (!is_tile(operand))
            continue;
        const ValuePlan *below = &plan->values[operand->id];
        bool is_read = below->area >= 0;
        value->cost += is_read ? 1 : below->cost;
        if ((!is_read || below->if_shared) && below->depth >= value->depth)
            value->depth = below->depth + 1;
    }
    if (value->cost > COST_MANY)
        value->cost = COST_MANY;
}

static void place_lazy(Marks *m, const IrOp *op) {
    const IrValue *result = op->results.items[0];
    ValuePlan *value = &m->plan->values[result->id];
    weigh(m->plan, op);
    bool forced = m->forced[result->id] || value->depth >= DEPTH_MAX;
    bool is_dear = value->cost >= COST_KEEP && !m->trivial[result->id];
    if (forced || (is_dear && (value->uses > 1 || m->spread[result->id]))) {
        value->area = plan_area_new(m->plan, result->type);
        value->if_shared = !forced;
    }
}

/* Carried tiles of a loop and its results are one area each; the condition's arguments and the body's too. */
static void place_region(Plan *plan, const IrOp *op) {
    for (int i = 0; i < op->results.count; i++) {
        if (!is_tile(op->results.items[i]))
            continue;
        int area = plan_area_new(plan, op->results.items[i]->type);
        plan->values[op->results.items[i]->id].area = area;
        int index = op->kind == OP_FOR; /* after the index */
        for (int r = 0; op->kind != OP_IF && r < op->regions.count; r++)
            plan->values[op->regions.items[r]->args.items[index + i]->id].area = area;
    }
}

static void place_block(Marks *m, const IrBlock *block) {
    for (const IrOp *op = block->first; op; op = op->next) {
        if (op->regions.count) {
            place_region(m->plan, op);
            for (int i = 0; i < op->regions.count && !plan_contracted(m->plan, op); i++)
                place_block(m, op->regions.items[i]);
        } else if (op->results.count && is_tile(op->results.items[0])) {
            ValuePlan *value = &m->plan->values[op->results.items[0]->id];
            if (op_is_lazy(op))
                place_lazy(m, op);
            else if (op->kind == OP_RESHAPE)
                value->area = m->plan->values[op->operands.items[0]->id].area;
            else
                value->area = plan_area_new(m->plan, op->results.items[0]->type);
        }
    }
}

void plan_values(Plan *plan) {
    int count = plan->value_count + 1;
    Marks marks = {plan, NEW_ARRAY(plan->arena, bool, count), NEW_ARRAY(plan->arena, bool, count), NEW_ARRAY(plan->arena, bool, count)};
    for (int i = 0; i < plan->value_count; i++)
        plan->values[i].area = -1;
    mark_uses(&marks, plan->kernel->body);
    place_block(&marks, plan->kernel->body);
}
