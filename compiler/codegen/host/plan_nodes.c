/* What a nest evaluates: the tiles below its roots, down to loads, areas and scalars, each with the way the loops walk it. */
#include "compiler/codegen/host/host.h"

typedef struct Gathering {
    Plan *plan;
    int number;
    NodeList nodes;
} Gathering;

/* A row, or a column as the inner loop. */
NestShape nest_shape(const Type *type) {
    int64_t rows = tile_rows(type), columns = tile_columns(type);
    bool is_column = columns == 1 && rows > 1;
    NestShape shape = {{is_column ? 1 : rows, is_column ? rows : columns}, {-1, -1}};
    if (shape.extent[0] > 1)
        shape.axis[0] = 0;
    if (shape.extent[1] > 1)
        shape.axis[1] = is_column ? 0 : type->rank - 1;
    return shape;
}

/* NumPy's rule: axes are aligned at the last one. */
static int broadcast_axis(const Type *from, const Type *to, int axis) {
    int own = axis - (to->rank - from->rank);
    return axis < 0 || own < 0 || tile_extent(from, own) == 1 ? -1 : own;
}

/* The axis that is not of extent 1 with as many such before it. */
static int reshape_axis(const Type *from, const Type *to, int axis) {
    if (axis < 0)
        return -1;
    int before = 0;
    for (int i = 0; i < axis; i++)
        before += tile_extent(to, i) != 1;
    for (int i = 0; i < from->rank; i++)
        if (tile_extent(from, i) != 1 && before-- == 0)
            return i;
    return -1;
}

static int operand_axis(const IrOp *op, const Type *operand, int axis) {
    const Type *type = op->results.items[0]->type;
    if (op->kind == OP_BROADCAST)
        return broadcast_axis(operand, type, axis);
    return op->kind == OP_RESHAPE ? reshape_axis(operand, type, axis) : axis;
}

static int find(const Gathering *g, const IrValue *value, const int axis[2]) {
    const ValuePlan *plan = &g->plan->values[value->id];
    if (plan->seen != g->number)
        return -1;
    int node = plan->node;
    while (node >= 0 && (g->nodes.items[node].axis[0] != axis[0] || g->nodes.items[node].axis[1] != axis[1]))
        node = g->nodes.items[node].next;
    return node;
}

static int add(Gathering *g, Node node) {
    ValuePlan *plan = &g->plan->values[node.value->id];
    node.next = plan->seen == g->number ? plan->node : -1;
    plan->seen = g->number;
    plan->node = g->nodes.count;
    vec_push(g->plan->arena, &g->nodes, node);
    return plan->node;
}

/* Recursion ends at areas: plan_values bounds its depth. */
static int gather(Gathering *g, const IrValue *value, const int axis[2]) {
    int found = find(g, value, axis);
    if (found >= 0)
        return found;
    const ValuePlan *plan = &g->plan->values[value->id];
    Node node = {.value = value, .axis = {axis[0], axis[1]}, .operand = {-1, -1, -1}, .area = -1};
    if (plan->area >= 0 && plan->rooted != g->number) {
        node.area = plan->area;
        return add(g, node);
    }
    const IrOp *op = value->def;
    for (int i = 0; i < op->operands.count && op->kind != OP_LOAD; i++) {
        const IrValue *operand = op->operands.items[i];
        if (operand->type->kind != TYPE_TILE)
            continue;
        int own[2] = {operand_axis(op, operand->type, axis[0]), operand_axis(op, operand->type, axis[1])};
        node.operand[i] = gather(g, operand, own);
    }
    return add(g, node);
}

NodeList plan_nodes(Plan *plan, const Root *roots, int count, int *tops) {
    Gathering g = {.plan = plan, .number = ++plan->gatherings};
    for (int i = 0; i < count; i++)
        if (!roots[i].store && roots[i].source < 0 && plan->values[roots[i].value->id].area == roots[i].area)
            plan->values[roots[i].value->id].rooted = g.number;
    for (int i = 0; i < count; i++) {
        NestShape shape = nest_shape(roots[i].value->type);
        if (roots[i].source < 0)
            tops[i] = gather(&g, roots[i].value, shape.axis);
        else
            tops[i] =
                add(&g, (Node){.value = roots[i].value, .axis = {shape.axis[0], shape.axis[1]}, .operand = {-1, -1, -1}, .area = roots[i].source});
    }
    return g.nodes;
}
