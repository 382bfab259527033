/* Postfix expressions over dims and extents: what program.h's tables say about shapes, grids and checks. */
#include "runtime/runtime.h"

enum { MAX_STACK = 128 };

static const int arity[PHB_EXPR_OP_COUNT] = {
#define X(id, text, operands) [PHB_EXPR_##id] = operands,
    PHB_EXPR_OPS(X)
#undef X
};

static bool divide(int64_t a, int64_t b, int64_t *quotient) {
    if (b == 0 || (a == INT64_MIN && b == -1))
        return false;
    *quotient = a / b;
    return true;
}

static bool apply(int op, int64_t a, int64_t b, int64_t *value) {
    switch (op) {
    case PHB_EXPR_ADD:
        return !__builtin_add_overflow(a, b, value);
    case PHB_EXPR_SUB:
        return !__builtin_sub_overflow(a, b, value);
    case PHB_EXPR_MUL:
        return !__builtin_mul_overflow(a, b, value);
    case PHB_EXPR_DIV:
        return divide(a, b, value);
    case PHB_EXPR_MOD:
        if (!divide(a, b, value))
            return false;
        *value = a % b;
        return true;
    case PHB_EXPR_CEILDIV:
        if (!divide(a, b, value))
            return false;
        *value += a % b != 0 && (a < 0) == (b < 0);
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
        *value = a != 0 && b != 0;
        return true;
    case PHB_EXPR_OR:
        *value = a != 0 || b != 0;
        return true;
    case PHB_EXPR_NOT:
        *value = a == 0;
        return true;
    default:
        return false;
    }
}

static bool leaf_value(const PhbExprNode *node, const ExprScope *scope, int64_t *value) {
    switch (node->op) {
    case PHB_EXPR_INT:
        *value = node->value;
        return true;
    case PHB_EXPR_DIM:
        if (scope->dims == NULL || (scope->bound != NULL && !scope->bound[node->index]))
            return false;
        *value = scope->dims[node->index];
        return true;
    case PHB_EXPR_EXTENT:
        if (scope->extents == NULL || node->value < 0 || node->value >= PHB_MAX_RANK)
            return false;
        *value = scope->extents[node->index][node->value];
        return true;
    default:
        return false;
    }
}

bool expr_eval(const PhbExpr *expr, const ExprScope *scope, int64_t *value) {
    int64_t stack[MAX_STACK];
    int depth = 0;
    for (int i = 0; i < expr->count; i++) {
        const PhbExprNode *node = &expr->nodes[i];
        if (node->op < 0 || node->op >= PHB_EXPR_OP_COUNT || depth < arity[node->op] || depth == MAX_STACK)
            return false;
        int64_t result;
        if (arity[node->op] == 0) {
            if (!leaf_value(node, scope, &result))
                return false;
        } else {
            depth -= arity[node->op];
            int64_t right = arity[node->op] == 2 ? stack[depth + 1] : 0;
            if (!apply(node->op, stack[depth], right, &result))
                return false;
        }
        stack[depth++] = result;
    }
    if (depth != 1)
        return false;
    *value = stack[0];
    return true;
}
