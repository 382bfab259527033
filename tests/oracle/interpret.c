/* Statements, CTAs, and a kernel's launch. */
#include "tests/oracle/interpret.h"

/* How a statement ends. */
typedef enum Flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE, FLOW_RETURN } Flow;

static Flow run_block(Interpreter *in, const Block *block);

void stop(Interpreter *in, Outcome outcome) {
    if (in->outcome == OUTCOME_DONE)
        in->outcome = outcome;
}

/* ---- variables ---- */

static Variable *find_variable(Interpreter *in, const Symbol *symbol) {
    for (int i = 0; i < in->variables.count; i++)
        if (in->variables.items[i].symbol == symbol)
            return &in->variables.items[i];
    vec_push(in->arena, &in->variables, (Variable){symbol, new_value_of(in, symbol->type)});
    return &in->variables.items[in->variables.count - 1];
}

Value variable_get(Interpreter *in, const Symbol *symbol) {
    return find_variable(in, symbol)->value;
}

/* The value's shape broadcasts to the variable's; what read the old value keeps it. */
void variable_set(Interpreter *in, const Symbol *symbol, Value value) {
    Value copy = new_value_of(in, symbol->type);
    int64_t index[PHB_MAX_RANK] = {0}, at = 0;
    do
        copy.at[at++] = value_meet(&value, copy.rank, index);
    while (index_next(copy.rank, copy.extent, index));
    find_variable(in, symbol)->value = copy;
}

/* ---- statements ---- */

static void declare(Interpreter *in, const Stmt *stmt) {
    Value zero = new_value(in, stmt->symbol->type->scalar, 0, NULL);
    variable_set(in, stmt->symbol, stmt->value ? eval(in, stmt->value) : zero);
}

static Value convert_value(Interpreter *in, Value value, PhbDType to) {
    Value result = new_value(in, to, value.rank, value.extent);
    for (int64_t i = 0; i < value_count(&value); i++)
        result.at[i] = number_convert(value.scalar, to, value.at[i]);
    return result;
}

static bool is_dot(const Expr *expr) {
    return expr->kind == EXPR_CALL && (expr->builtin == BUILTIN_DOT || expr->builtin == BUILTIN_DOT_T);
}

static bool is_name_of(const Expr *expr, const Symbol *symbol) {
    return expr->kind == EXPR_NAME && expr->symbol == symbol;
}

/* `acc += dot(..)`, `acc = acc + dot(..)` and `acc = dot(..) + acc` on a variable of the dot's type go on with acc's chain: the dot; else NULL. */
static const Expr *accumulated_dot(const Stmt *stmt) {
    const Expr *value = stmt->value, *target = stmt->target, *dot = NULL;
    if (target->kind != EXPR_NAME)
        return NULL;
    if (stmt->compound)
        dot = stmt->op == BINARY_ADD ? value : NULL;
    else if (value->kind == EXPR_BINARY && value->binary == BINARY_ADD)
        dot = is_name_of(value->left, target->symbol) ? value->right : is_name_of(value->right, target->symbol) ? value->left : NULL;
    return dot && is_dot(dot) && dot->type == target->type ? dot : NULL;
}

static Value assigned_value(Interpreter *in, const Stmt *stmt) {
    const Expr *dot = accumulated_dot(stmt);
    if (dot) {
        Value acc = variable_get(in, stmt->target->symbol);
        return dot_values(in, dot, &acc);
    }
    Value value = eval(in, stmt->value);
    if (!stmt->compound)
        return value;
    Value old = stmt->target->kind == EXPR_NAME ? eval(in, stmt->target) : load_slice(in, stmt->target);
    return convert_value(in, binary_values(in, stmt->op, convert_value(in, old, value.scalar), value), old.scalar);
}

static void assign(Interpreter *in, const Stmt *stmt) {
    Value value = assigned_value(in, stmt);
    if (in->outcome != OUTCOME_DONE)
        return;
    if (stmt->target->kind == EXPR_NAME)
        variable_set(in, stmt->target->symbol, value);
    else
        store_slice(in, stmt->target, value);
}

/* A condition that nothing decides ends the run. */
static bool holds(Interpreter *in, const Expr *condition) {
    Number number = eval_scalar(in, condition);
    if (!number_is_known(number))
        stop(in, OUTCOME_UNDECIDED);
    return in->outcome == OUTCOME_DONE && number.integer != 0;
}

static Flow run_for(Interpreter *in, const Stmt *stmt) {
    int64_t bounds[3] = {0, 0, 1}; /* start, end, step */
    for (int i = 0; i < stmt->range.count; i++)
        bounds[stmt->range.count == 1 ? 1 : i] = eval_index(in, stmt->range.items[i]);
    int64_t step = bounds[2];
    for (int64_t i = bounds[0]; step > 0 ? i < bounds[1] : step < 0 && i > bounds[1];) {
        variable_set(in, stmt->symbol, new_scalar(in, PHB_I64, number_from_int(PHB_I64, i)));
        Flow flow = run_block(in, &stmt->body);
        if (flow == FLOW_RETURN)
            return flow;
        if (flow == FLOW_BREAK || in->outcome != OUTCOME_DONE || __builtin_add_overflow(i, step, &i))
            break;
    }
    return FLOW_ON;
}

static Flow run_while(Interpreter *in, const Stmt *stmt) {
    while (holds(in, stmt->value)) {
        Flow flow = run_block(in, &stmt->body);
        if (flow == FLOW_RETURN)
            return flow;
        if (flow == FLOW_BREAK)
            break;
    }
    return FLOW_ON;
}

static Flow run_stmt(Interpreter *in, const Stmt *stmt) {
    switch (stmt->kind) {
    case STMT_LET:
    case STMT_VAR:
        declare(in, stmt);
        return FLOW_ON;
    case STMT_ASSIGN:
        assign(in, stmt);
        return FLOW_ON;
    case STMT_FOR:
        return run_for(in, stmt);
    case STMT_WHILE:
        return run_while(in, stmt);
    case STMT_IF:
        return run_block(in, holds(in, stmt->value) ? &stmt->body : &stmt->otherwise);
    case STMT_BREAK:
        return FLOW_BREAK;
    case STMT_CONTINUE:
        return FLOW_CONTINUE;
    case STMT_RETURN:
        if (stmt->value && in->result)
            variable_set(in, in->result, eval(in, stmt->value));
        return FLOW_RETURN;
    case STMT_CALL:
        eval(in, stmt->value);
        return FLOW_ON;
    }
    return FLOW_ON;
}

static Flow run_block(Interpreter *in, const Block *block) {
    for (int i = 0; i < block->count; i++) {
        Flow flow = in->outcome == OUTCOME_DONE ? run_stmt(in, block->items[i]) : FLOW_RETURN;
        if (flow != FLOW_ON)
            return flow;
    }
    return FLOW_ON;
}

/* Parameters are all evaluated before the body; RETURN ends the body alone. */
Value eval_inlined(Interpreter *in, const Expr *expr) {
    const Inlined *inlined = expr->inlined;
    const Symbol *outer = in->result;
    for (int i = 0; i < inlined->params.count; i++)
        declare(in, inlined->params.items[i]);
    in->result = inlined->result;
    run_block(in, &inlined->body);
    in->result = outer;
    return inlined->result ? variable_get(in, inlined->result) : new_value(in, PHB_BOOL, 0, NULL);
}

/* ---- launch ---- */

static bool dim_operation(PhbExprOp op, int64_t a, int64_t b, int64_t *value) {
    switch (op) {
    case PHB_EXPR_ADD:
        return !__builtin_add_overflow(a, b, value);
    case PHB_EXPR_SUB:
        return !__builtin_sub_overflow(a, b, value);
    case PHB_EXPR_MUL:
        return !__builtin_mul_overflow(a, b, value);
    case PHB_EXPR_DIV:
    case PHB_EXPR_MOD:
    case PHB_EXPR_CEILDIV:
        if (b == 0 || (a == INT64_MIN && b == -1))
            return false;
        *value = op == PHB_EXPR_MOD ? a % b : a / b;
        if (op == PHB_EXPR_CEILDIV && a % b != 0 && (a < 0) == (b < 0))
            ++*value;
        return true;
    case PHB_EXPR_MIN:
        *value = a < b ? a : b;
        return true;
    case PHB_EXPR_MAX:
        *value = a > b ? a : b;
        return true;
    case PHB_EXPR_EQ:
        *value = a == b;
        return true;
    case PHB_EXPR_NE:
        *value = a != b;
        return true;
    case PHB_EXPR_LT:
        *value = a < b;
        return true;
    case PHB_EXPR_LE:
        *value = a <= b;
        return true;
    case PHB_EXPR_AND:
        *value = a && b;
        return true;
    case PHB_EXPR_OR:
        *value = a || b;
        return true;
    case PHB_EXPR_NOT:
        *value = !a;
        return true;
    default:
        return false;
    }
}

bool problem_dim(const Problem *problem, const Dim *dim, int64_t *value) {
    int64_t a = 0, b = 0;
    switch (dim->kind) {
    case PHB_EXPR_INT:
        *value = dim->value;
        return true;
    case PHB_EXPR_DIM:
        for (int i = 0; i < problem->dim_count; i++)
            if (problem->dims[i].name == dim->name) {
                *value = problem->dims[i].value;
                return true;
            }
        return false;
    case PHB_EXPR_EXTENT: {
        int param = signature_param(&problem->kernel->signature, dim->name);
        if (param < 0)
            return false;
        *value = problem->tensors[param].value.extent[dim->value];
        return true;
    }
    default:
        if ((dim->a && !problem_dim(problem, dim->a, &a)) || (dim->b && !problem_dim(problem, dim->b, &b)))
            return false;
        return dim_operation(dim->kind, a, b, value);
    }
}

static bool launch_holds(const Problem *problem, int64_t grid[3]) {
    const Signature *signature = &problem->kernel->signature;
    int64_t value, tile;
    for (int axis = 0; axis < 3; axis++) {
        grid[axis] = 1;
        for (int i = 0; i < signature->grid[axis].counts.count; i++) {
            if (!problem_dim(problem, signature->grid[axis].counts.items[i], &value) || value < 1 || (i > 0 && value != grid[axis]))
                return false;
            grid[axis] = value;
        }
    }
    for (int i = 0; i < signature->require.count; i++)
        if (!problem_dim(problem, signature->require.items[i].cond, &value) || value == 0)
            return false;
    for (int i = 0; i < signature->aligned.count; i++) {
        const Dim *dim = dim_name(problem->dims_pool, signature->aligned.items[i].dim);
        if (!problem_dim(problem, dim, &value) || !problem_dim(problem, signature->aligned.items[i].tile, &tile) || tile < 1 || value % tile != 0)
            return false;
    }
    return true;
}

bool problem_launches(const Problem *problem) {
    int64_t grid[3];
    return launch_holds(problem, grid);
}

static Outcome run_cta(const Problem *problem, const int64_t grid[3], const int64_t block[3], int64_t *work) {
    Interpreter in = {.problem = problem, .arena = arena_new(), .work = *work};
    for (int axis = 0; axis < 3; axis++) {
        in.grid[axis] = grid[axis];
        in.block[axis] = block[axis];
    }
    run_block(&in, &problem->kernel->decl->body);
    *work = in.work;
    arena_free(in.arena);
    return in.outcome;
}

Outcome interpret(const Problem *problem) {
    int64_t grid[3], block[3], work = 0;
    if (!launch_holds(problem, grid))
        return OUTCOME_REFUSED;
    Outcome outcome = OUTCOME_DONE;
    for (block[2] = 0; block[2] < grid[2]; block[2]++)
        for (block[1] = 0; block[1] < grid[1]; block[1]++)
            for (block[0] = 0; block[0] < grid[0] && outcome == OUTCOME_DONE; block[0]++)
                outcome = run_cta(problem, grid, block, &work);
    return outcome;
}
