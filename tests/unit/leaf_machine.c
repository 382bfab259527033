#include "tests/unit/leaf_machine.h"

#include "compiler/lower/lower.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* A check that passes costs a system call. */
#define REQUIRE(condition, ...)        \
    do {                               \
        if (!(condition))              \
            ck_abort_msg(__VA_ARGS__); \
    } while (0)

int64_t machine_dim(Machine *machine, const Signature *signature, const Dim *dim) {
    if (dim->kind == PHB_EXPR_INT)
        return dim->value;
    if (dim->kind == PHB_EXPR_EXTENT)
        return machine->views[signature_param(signature, dim->name)].extent[dim->value];
    if (dim->kind == PHB_EXPR_DIM) {
        for (int i = 0; i < machine->dim_count; i++)
            if (strcmp(machine->dim_names[i], dim->name) == 0)
                return machine->dims[i];
        ck_abort_msg("dim %s", dim->name);
    }
    DimPool *pool = machine->context->dims;
    const Dim *a = dim_int(pool, machine_dim(machine, signature, dim->a));
    const Dim *result = dim_op(pool, dim->kind, a, dim->b ? dim_int(pool, machine_dim(machine, signature, dim->b)) : NULL);
    int64_t value = 0;
    REQUIRE(result && dim_is_int(result, &value), "a dim has no value");
    return value;
}

int64_t machine_count(const View *view, int rank) {
    int64_t count = 1;
    for (int k = 0; k < rank; k++)
        count *= view->extent[k];
    return count;
}

/* ---- shapes ---- */

static int64_t side(const Type *type, int axis) {
    int64_t extent = 1;
    int own = axis - 2 + type->rank;
    REQUIRE(own < 0 || dim_is_int(type->dims[own], &extent), "an extent is no number");
    return extent;
}

static int64_t size_of(const Type *type) {
    return side(type, 0) * side(type, 1);
}

static uint64_t *value_of(Machine *m, const IrValue *value) {
    if (ir_is_param(value))
        return &m->scalars[value->index];
    REQUIRE(size_of(value->type) <= MACHINE_TILE, "a tile is too large");
    return m->values[value->id];
}

/* ---- memory ---- */

static uint64_t *element(const View *view, int rank, const int64_t *index) {
    int64_t at = 0;
    for (int k = 0; k < rank; k++) {
        if (index[k] < 0 || index[k] >= view->extent[k])
            return NULL;
        at = at * view->extent[k] + index[k];
    }
    return &view->data[at];
}

static void run_access(Machine *m, const IrOp *op) {
    const IrValue *tensor = op->operands.items[0];
    const View *view = &m->views[tensor->index];
    int rank = tensor->type->rank;
    bool is_load = op->kind == OP_LOAD;
    uint64_t *value = value_of(m, is_load ? op->results.items[0] : op->operands.items[1 + rank]);
    int64_t counts[PHB_MAX_RANK], total = 1;
    for (int k = 0; k < rank; k++) {
        counts[k] = 1;
        REQUIRE(!op->extent[k] || dim_is_int(op->extent[k], &counts[k]), "an extent is no number");
        total *= counts[k];
    }
    REQUIRE(view->data != NULL, "a stage touches '%s', which its modes say it does not", m->kernel->signature.params.items[tensor->index].name);
    for (int64_t i = 0; i < total; i++) {
        int64_t index[PHB_MAX_RANK], left = i;
        for (int k = rank - 1; k >= 0; k--) {
            index[k] = (int64_t)value_of(m, op->operands.items[1 + k])[0] + left % counts[k];
            left /= counts[k];
        }
        uint64_t *at = element(view, rank, index);
        if (is_load)
            value[i] = at ? *at : 0;
        else if (at)
            *at = value[i];
    }
}

/* ---- values ---- */

static int64_t position(Machine *m, const IrOp *op) {
    const View *view = op->operands.count ? &m->views[op->operands.items[0]->index] : NULL;
    switch (op->kind) {
    case OP_DIM:
        return machine_dim(m, &m->kernel->signature, op->dim);
    case OP_BLOCK:
        return m->block[op->axis];
    case OP_GRID:
        return m->grid[op->axis];
    case OP_SUPER:
        return m->super[op->axis];
    case OP_SUPERS:
        return m->supers[op->axis];
    case OP_EXTENT:
        return view->extent[op->axis];
    case OP_ORIGIN:
        return view->origin[op->axis];
    case OP_WHOLE:
        return view->whole[op->axis];
    default:
        return (int64_t)op->bits; /* const */
    }
}

static uint64_t combine(OpKind kind, uint64_t a, uint64_t b) {
    bool less = (int64_t)a < (int64_t)b;
    return kind == OP_SUM ? a + b : kind == OP_RMAX ? (less ? b : a) : kind == OP_RMIN ? (less ? a : b) : kind == OP_ANY ? (a | b) : (a & b);
}

static void run_reduction(Machine *m, const IrOp *op) {
    const IrValue *operand = op->operands.items[0];
    const uint64_t *from = value_of(m, operand);
    uint64_t *to = value_of(m, op->results.items[0]);
    int64_t rows = side(operand->type, 0), columns = side(operand->type, 1);
    bool seen[MACHINE_TILE] = {false};
    int axis = op->axis < 0 ? -1 : op->axis + 2 - operand->type->rank; /* as of rank 2 */
    for (int64_t i = 0; i < rows * columns; i++) {
        int64_t at = axis < 0 ? 0 : axis == 0 ? i % columns : i / columns;
        to[at] = seen[at] ? combine(op->kind, to[at], from[i]) : from[i];
        seen[at] = true;
    }
}

/* The element of an operand that belongs to element i of the result, broadcast as NumPy does. */
static int64_t broadcast_from(const Type *from, const Type *to, int64_t i) {
    int64_t row = i / side(to, 1), column = i % side(to, 1);
    return (side(from, 0) == 1 ? 0 : row) * side(from, 1) + (side(from, 1) == 1 ? 0 : column);
}

static uint64_t element_of(Machine *m, const IrOp *op, int64_t i) {
    const IrValue *result = op->results.items[0], *first = op->operands.count ? op->operands.items[0] : NULL;
    uint64_t operands[3] = {0}, bits = 0;
    switch (op->kind) {
    case OP_IOTA:
        return (uint64_t)i;
    case OP_BROADCAST:
        return value_of(m, first)[broadcast_from(first->type, result->type, i)];
    case OP_RESHAPE:
        return value_of(m, first)[i];
    case OP_TRANSPOSE:
        return value_of(m, first)[i % side(result->type, 1) * side(first->type, 1) + i / side(result->type, 1)];
    case OP_SELECT:
        return value_of(m, op->operands.items[value_of(m, first)[i] ? 1 : 2])[i];
    default:
        break;
    }
    for (int k = 0; k < op->operands.count; k++)
        operands[k] = value_of(m, op->operands.items[k])[i];
    REQUIRE(ir_eval(op->kind, first->type->scalar, result->type->scalar, operands, &bits), "op %s", op_info[op->kind].text);
    return bits;
}

static void run_value(Machine *m, const IrOp *op) {
    const IrValue *result = op->results.items[0];
    uint64_t *to = value_of(m, result);
    if (op_info[op->kind].traits & TRAIT_REDUCES) {
        run_reduction(m, op);
    } else if (op->kind == OP_CUMSUM) {
        int64_t columns = result->type->rank == 1 ? 1 : side(result->type, 1);
        for (int64_t i = 0; i < size_of(result->type); i++)
            to[i] = value_of(m, op->operands.items[0])[i] + (i < columns ? 0 : to[i - columns]);
    } else if (op->kind != OP_IOTA && (op->operands.count == 0 || op->operands.items[0]->type->kind == TYPE_TENSOR)) {
        to[0] = (uint64_t)position(m, op);
    } else {
        for (int64_t i = 0; i < size_of(result->type); i++)
            to[i] = element_of(m, op, i);
    }
}

/* ---- control ---- */

static void run_block(Machine *m, const IrBlock *block);

/* All at once: a value may take another's place. */
static void pass(Machine *m, IrValue *const *from, IrValue *const *to, int count) {
    uint64_t copies[MACHINE_CARRIED][MACHINE_TILE];
    REQUIRE(count <= MACHINE_CARRIED, "too many carried values");
    for (int i = 0; i < count; i++)
        memcpy(copies[i], value_of(m, from[i]), sizeof **copies * (size_t)size_of(from[i]->type));
    for (int i = 0; i < count; i++)
        memcpy(value_of(m, to[i]), copies[i], sizeof **copies * (size_t)size_of(to[i]->type));
}

static void run_for(Machine *m, const IrOp *op) {
    const IrBlock *body = op->regions.items[0];
    int64_t start = (int64_t)*value_of(m, op->operands.items[0]), end = (int64_t)*value_of(m, op->operands.items[1]);
    int64_t step = (int64_t)*value_of(m, op->operands.items[2]);
    int count = op->results.count;
    pass(m, op->operands.items + 3, op->results.items, count);
    for (int64_t i = start; step != 0 && (step > 0 ? i < end : i > end); i += step) {
        *value_of(m, body->args.items[0]) = (uint64_t)i;
        pass(m, op->results.items, body->args.items + 1, count);
        run_block(m, body);
        pass(m, body->last->operands.items, op->results.items, count);
    }
}

static void run_op(Machine *m, const IrOp *op) {
    if (op->kind == OP_LOAD || op->kind == OP_STORE) {
        run_access(m, op);
    } else if (op->kind == OP_FOR) {
        run_for(m, op);
    } else if (op->kind == OP_IF) {
        const IrBlock *taken = op->regions.items[*value_of(m, op->operands.items[0]) ? 0 : 1];
        run_block(m, taken);
        pass(m, taken->last->operands.items, op->results.items, op->results.count);
    } else if (!(op_info[op->kind].traits & TRAIT_TERMINATOR)) {
        REQUIRE(op->kind != OP_WHILE && op->results.count == 1, "op %s", op_info[op->kind].text);
        run_value(m, op);
    }
}

static void run_block(Machine *m, const IrBlock *block) {
    for (const IrOp *op = block->first; op; op = op->next)
        run_op(m, op);
}

void machine_run(Machine *machine, IrKernel *kernel) {
    machine->kernel = kernel;
    int count = values_number(kernel->body) + 1;
    if (count > machine->value_capacity) {
        machine->values = realloc(machine->values, (size_t)count * sizeof *machine->values);
        machine->value_capacity = count;
    }
    for (int axis = 0; axis < 3; axis++) {
        const GridAxis *grid = &kernel->signature.grid[axis];
        machine->grid[axis] = grid->counts.count ? machine_dim(machine, &kernel->signature, grid->counts.items[0]) : 1;
    }
    int64_t *block = machine->block;
    for (block[2] = 0; block[2] < machine->grid[2]; block[2]++)
        for (block[1] = 0; block[1] < machine->grid[1]; block[1]++)
            for (block[0] = 0; block[0] < machine->grid[0]; block[0]++)
                run_block(machine, kernel->body);
}

void machine_free(Machine *machine) {
    free(machine->values);
}
