/* Expressions but for builtin functions. */
#include "tests/oracle/interpret.h"

int64_t static_dim(Interpreter *in, const Dim *dim) {
    int64_t value = 1;
    if (!problem_dim(in->problem, dim, &value))
        stop(in, OUTCOME_REFUSED);
    return value;
}

Number eval_scalar(Interpreter *in, const Expr *expr) {
    return eval(in, expr).at[0];
}

int64_t eval_index(Interpreter *in, const Expr *expr) {
    Number number = eval_scalar(in, expr);
    if (!number_is_known(number))
        stop(in, OUTCOME_UNDECIDED);
    return (int64_t)number.integer;
}

/* ---- slices ---- */

typedef struct Slice {
    Value *tensor;
    int rank;
    int64_t start[PHB_MAX_RANK], extent[PHB_MAX_RANK];
} Slice;

static Slice eval_slice(Interpreter *in, const Expr *expr) {
    Slice slice = {.tensor = &in->problem->tensors[expr->left->symbol->index].value, .rank = expr->subs.count};
    for (int axis = 0; axis < slice.rank; axis++) {
        const Sub *sub = &expr->subs.items[axis];
        bool from_start = sub->kind == SUB_ALL || sub->kind == SUB_TO;
        slice.start[axis] = from_start ? 0 : eval_index(in, sub->a);
        slice.extent[axis] = sub->extent ? static_dim(in, sub->extent) : 1;
    }
    return slice;
}

static void count_edges(Interpreter *in, const Slice *slice, bool is_store) {
    if (!in->problem->edges)
        return;
    int64_t *sides = is_store ? in->problem->edges->store : in->problem->edges->load;
    for (int axis = 0; axis < slice->rank; axis++) {
        int64_t start = slice->start[axis], extent = slice->extent[axis], whole = slice->tensor->extent[axis];
        bool before = start < 0, after = start > whole - extent;
        if (start <= -extent || start >= whole)
            sides[EDGE_BEYOND]++;
        else if (before || after)
            sides[before && after ? EDGE_BOTH : before ? EDGE_BEFORE : EDGE_AFTER]++;
    }
}

/* NULL beyond the tensor's edge. */
static Number *slice_element(const Slice *slice, const int64_t *index) {
    int64_t at = 0;
    for (int axis = 0; axis < slice->rank; axis++) {
        int64_t position;
        if (__builtin_add_overflow(slice->start[axis], index[axis], &position) || position < 0 || position >= slice->tensor->extent[axis])
            return NULL;
        at = at * slice->tensor->extent[axis] + position;
    }
    return &slice->tensor->at[at];
}

Value load_slice(Interpreter *in, const Expr *expr) {
    Slice slice = eval_slice(in, expr);
    count_edges(in, &slice, false);
    Value value = new_value_of(in, expr->type);
    int64_t index[PHB_MAX_RANK] = {0}, at = 0;
    do {
        const Number *element = slice_element(&slice, index);
        value.at[at++] = element ? *element : number_from_int(value.scalar, 0);
    } while (index_next(slice.rank, slice.extent, index)); /* axes that dropped have extent 1: the order is the tile's */
    return value;
}

void store_slice(Interpreter *in, const Expr *expr, Value value) {
    Slice slice = eval_slice(in, expr);
    count_edges(in, &slice, true);
    Value tile = new_value_of(in, expr->type);
    int64_t index[PHB_MAX_RANK] = {0}, at = 0;
    do
        tile.at[at++] = value_meet(&value, tile.rank, index);
    while (index_next(tile.rank, tile.extent, index));
    for (int axis = 0; axis < PHB_MAX_RANK; axis++)
        index[axis] = 0;
    at = 0;
    do {
        Number *element = slice_element(&slice, index);
        if (element)
            *element = tile.at[at];
        at++;
    } while (index_next(slice.rank, slice.extent, index));
}

/* ---- operators ---- */

static int64_t joined_extent(const Value *value, int rank, int axis) {
    int own = axis - (rank - value->rank);
    return own < 0 ? 1 : value->extent[own];
}

Value binary_values(Interpreter *in, BinaryOp op, Value a, Value b) {
    bool is_compare = op == BINARY_EQ || op == BINARY_NE || op == BINARY_LT || op == BINARY_LE || op == BINARY_GT || op == BINARY_GE;
    int rank = a.rank > b.rank ? a.rank : b.rank;
    int64_t extent[PHB_MAX_RANK], index[PHB_MAX_RANK] = {0}, at = 0;
    for (int axis = 0; axis < rank; axis++) {
        int64_t left = joined_extent(&a, rank, axis), right = joined_extent(&b, rank, axis);
        extent[axis] = left == 1 ? right : left;
    }
    Value result = new_value(in, is_compare ? PHB_BOOL : a.scalar, rank, extent);
    do
        result.at[at++] = number_binary(a.scalar, op, value_meet(&a, rank, index), value_meet(&b, rank, index));
    while (index_next(rank, extent, index));
    return result;
}

static Value eval_binary(Interpreter *in, const Expr *expr) {
    bool is_logic = expr->binary == BINARY_LOGIC_OR || expr->binary == BINARY_LOGIC_AND;
    Value a = eval(in, expr->left);
    if (is_logic && expr->type->kind == TYPE_SCALAR && number_is_known(a.at[0]) && (a.at[0].integer != 0) == (expr->binary == BINARY_LOGIC_OR))
        return a; /* the right side is not evaluated */
    return binary_values(in, expr->binary, a, eval(in, expr->right));
}

static Value eval_unary(Interpreter *in, const Expr *expr) {
    Value a = eval(in, expr->left), result = new_value(in, a.scalar, a.rank, a.extent);
    for (int64_t i = 0; i < value_count(&a); i++)
        result.at[i] = number_unary(a.scalar, expr->unary, a.at[i]);
    return result;
}

static Value eval_convert(Interpreter *in, const Expr *expr) {
    Value a = eval(in, expr->left), result = new_value(in, expr->type->scalar, a.rank, a.extent);
    for (int64_t i = 0; i < value_count(&a); i++)
        result.at[i] = number_convert(a.scalar, result.scalar, a.at[i]);
    return result;
}

/* ---- names and literals ---- */

static Value eval_literal(Interpreter *in, const Expr *expr) {
    PhbDType scalar = expr->type->scalar;
    if (expr->kind == EXPR_BOOL)
        return new_scalar(in, PHB_BOOL, number_from_int(PHB_BOOL, expr->bool_value));
    if (expr->kind == EXPR_FLOAT)
        return new_scalar(in, scalar, number_from_real(scalar, expr->float_value));
    return new_scalar(in, scalar, number_convert(PHB_U64, scalar, (Number){0, 0, expr->int_value}));
}

static Value eval_name(Interpreter *in, const Expr *expr) {
    const Symbol *symbol = expr->symbol;
    if (symbol->kind == SYMBOL_PARAM)
        return in->problem->tensors[symbol->index].value;
    if (symbol->kind != SYMBOL_DIM && symbol->kind != SYMBOL_SEARCH_DIM)
        return variable_get(in, symbol);
    return new_scalar(in, PHB_I64, number_from_int(PHB_I64, static_dim(in, symbol->dim))); /* in a fn: what its argument has */
}

/* On one node there is one super-tile. */
static Value eval_field(Interpreter *in, const Expr *expr) {
    int axis = expr->text[0] - 'x';
    int64_t value = expr->builtin == BUILTIN_CTX_BLOCK   ? in->block[axis]
                    : expr->builtin == BUILTIN_CTX_GRID  ? in->grid[axis]
                    : expr->builtin == BUILTIN_CTX_SUPER ? 0
                                                         : 1;
    return new_scalar(in, PHB_I64, number_from_int(PHB_I64, value));
}

Value eval(Interpreter *in, const Expr *expr) {
    if (in->outcome != OUTCOME_DONE) /* any value of the right shape will do */
        return new_value_of(in, expr->type);
    switch (expr->kind) {
    case EXPR_INT:
    case EXPR_FLOAT:
    case EXPR_BOOL:
        return eval_literal(in, expr);
    case EXPR_NAME:
        return eval_name(in, expr);
    case EXPR_UNARY:
        return eval_unary(in, expr);
    case EXPR_BINARY:
        return eval_binary(in, expr);
    case EXPR_CALL:
        return eval_builtin(in, expr);
    case EXPR_INDEX:
        return load_slice(in, expr);
    case EXPR_FIELD:
        return eval_field(in, expr);
    case EXPR_CONVERT:
        return eval_convert(in, expr);
    case EXPR_INLINE:
        return eval_inlined(in, expr);
    }
    return new_value_of(in, expr->type);
}
