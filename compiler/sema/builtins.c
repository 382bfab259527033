/* Calls of builtin functions, conversions, and the fields of ctx. */
#include "compiler/sema/check.h"

#include <string.h>

/* The columns of builtins.def. */
typedef enum OperandClass { OWN, FLOAT, NUMBER, INT, BOOL, ANY } OperandClass;
typedef enum ResultRule {
    NONE,
    POSITION,
    CONVERT,
    ELEMENT,
    WHERE,
    BITCAST,
    IOTA,
    RESHAPE,
    TRANSPOSE,
    TRIANGLE,
    CUMSUM,
    DOT,
    ROW,
    ROW_SUM,
    ROW_INDEX,
    COL,
    COL_SUM,
    TOTAL,
    TOTAL_SUM,
} ResultRule;

typedef struct BuiltinInfo {
    const char *text;
    int least, most; /* arguments */
    OperandClass operands;
    ResultRule result;
} BuiltinInfo;

static const BuiltinInfo builtins[BUILTIN_COUNT] = {
    {"", 0, 0, OWN, NONE},
#define BUILTIN(id, text, least, most, operands, result) {text, least, most, operands, result},
#include "compiler/sema/builtins.def"
#undef BUILTIN
};

/* Known to the language; not built yet. */
static const char *const later_functions[] = {
    "barrier",
    "elect_one_sync",
    "shuffle",
    "shuffle_xor",
    "shuffle_up",
    "shuffle_down",
    "ballot",
    "warp_sum",
    "warp_max",
    "warp_min",
    "block_sum",
    "block_max",
    "block_min",
    "cluster_arrive",
    "cluster_arrive_relaxed",
    "cluster_wait",
    "cluster_sync",
    "cluster_mask",
    "remote",
    "atomic_add",
    "atomic_max",
    "atomic_min",
    "atomic_cas",
};
static const char *const later_ctx_fields[] = {"thread", "threads", "warp", "lane", "cluster"};

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

const char *builtin_name(Builtin builtin) {
    return builtins[builtin].text;
}

static bool is_listed(const char *const *names, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static Builtin find_function(const char *name) {
    for (int i = 1; i < BUILTIN_COUNT; i++)
        if (builtins[i].text[0] && strcmp(builtins[i].text, name) == 0)
            return (Builtin)i;
    return BUILTIN_NONE;
}

bool builtin_is_known(const char *name) {
    return strcmp(name, "ctx") == 0 || strcmp(name, "range") == 0 || find_function(name) != BUILTIN_NONE ||
           is_listed(later_functions, COUNT(later_functions), name);
}

/* ---- where am I ---- */

static void note_block(Checker *checker, int axis, Span span) {
    if (checker->block_mention[axis].line == 0)
        checker->block_mention[axis] = span;
}

static const Type *i64_type(Checker *checker) {
    return type_scalar(checker->context->types, PHB_I64);
}

static void error_ctx_field(Checker *checker, const Expr *expr) {
    Diag *diag = checker->context->diag;
    if (is_listed(later_ctx_fields, COUNT(later_ctx_fields), expr->text)) {
        error_unsupported(checker, expr->span, arena_printf(checker->context->arena, "'ctx.%s' is", expr->text));
        return;
    }
    Names names = {0};
    for (int i = 1; i < BUILTIN_COUNT; i++)
        if (strncmp(builtins[i].text, "ctx.", 4) == 0)
            vec_push(checker->context->arena, &names, builtins[i].text + 4);
    for (int i = 0; i < COUNT(later_ctx_fields); i++)
        vec_push(checker->context->arena, &names, later_ctx_fields[i]);
    diag_error(diag, expr->op_span, "'ctx' has no field '%s'%s", expr->text, suggestion(checker, expr->text, &names));
}

static bool is_ctx(const Checker *checker, const Expr *expr) {
    return expr->kind == EXPR_NAME && strcmp(expr->text, "ctx") == 0 && !scope_find(checker, expr->text);
}

void check_field(Checker *checker, Expr *expr) {
    Diag *diag = checker->context->diag;
    Expr *base = expr->left;
    expr->type = type_poison(checker->context->types);
    bool is_part = base->kind == EXPR_FIELD && is_ctx(checker, base->left);
    if (!is_part && !is_ctx(checker, base)) {
        check_expr(checker, base);
        if (!type_is_poison(base->type))
            diag_error(diag, expr->op_span, "only 'ctx' has fields; this is '%s'", type_text(checker, base->type));
        return;
    }
    const Expr *field = is_part ? base : expr;
    Builtin builtin = find_function(arena_printf(checker->context->arena, "ctx.%s", field->text));
    if (builtin == BUILTIN_NONE) {
        error_ctx_field(checker, field);
    } else if (!is_part) {
        diag_error(diag, expr->span, "'%s' is no value; its parts are x, y and z", builtins[builtin].text);
    } else if (strcmp(expr->text, "x") != 0 && strcmp(expr->text, "y") != 0 && strcmp(expr->text, "z") != 0) {
        diag_error(diag, expr->op_span, "'%s' has the parts x, y and z, found '%s'", builtins[builtin].text, expr->text);
    } else {
        expr->builtin = (int)builtin;
        expr->type = i64_type(checker);
        if (builtin == BUILTIN_CTX_BLOCK)
            note_block(checker, expr->text[0] - 'x', expr->span);
    }
}

const Symbol *check_tensor_axis(Checker *checker, Expr *call, int64_t *axis) {
    Diag *diag = checker->context->diag;
    const char *name = call->left->text;
    if (call->args.count != 2) {
        diag_error(diag, call->span, "'%s' takes 2 arguments, a tensor and an axis, found %d", name, call->args.count);
        return NULL;
    }
    Expr *tensor = call->args.items[0];
    check_expr(checker, tensor);
    if (type_is_poison(tensor->type))
        return NULL;
    if (tensor->kind != EXPR_NAME || tensor->type->kind != TYPE_TENSOR) {
        diag_error(diag, tensor->span, "'%s' takes a tensor, found '%s'", name, type_text(checker, tensor->type));
        return NULL;
    }
    const char *what = arena_printf(checker->context->arena, "an axis of '%s'", tensor->text);
    return constant_resolve(checker, call->args.items[1], what, 0, tensor->type->rank - 1, axis) ? tensor->symbol : NULL;
}

static void check_position(Checker *checker, Expr *call, Builtin builtin) {
    int64_t axis;
    if (builtin != BUILTIN_PROGRAM_ID) {
        if (check_tensor_axis(checker, call, &axis))
            call->type = i64_type(checker);
        return;
    }
    if (call->args.count != 1) {
        diag_error(checker->context->diag, call->span, "'program_id' takes 1 argument, found %d", call->args.count);
    } else if (constant_resolve(checker, call->args.items[0], "the axis of 'program_id'", 0, 0, &axis)) {
        call->type = i64_type(checker);
        note_block(checker, 0, call->span);
    }
}

/* ---- values ---- */

static void check_conversion(Checker *checker, Expr *call, PhbDType to) {
    if (call->args.count != 1) {
        diag_error(checker->context->diag, call->span, "'%s' takes 1 argument, found %d", dtype_name(to), call->args.count);
        return;
    }
    Expr **arg = &call->args.items[0];
    check_operand(checker, *arg);
    *arg = literal_fits(*arg, to) ? literal_adapt(checker, *arg, to) : literal_settle(checker, *arg);
    if (type_is_poison((*arg)->type))
        return;
    call->builtin = BUILTIN_CONVERT;
    call->type = type_with_scalar(checker, (*arg)->type, to);
    if (to == PHB_I64 && (*arg)->type == call->type)
        call->dim = (*arg)->dim;
}

static void check_ceildiv(Checker *checker, Expr *call) {
    Diag *diag = checker->context->diag;
    if (call->args.count != 2) {
        diag_error(diag, call->span, "'ceildiv' takes 2 arguments, found %d", call->args.count);
        return;
    }
    Expr **a = &call->args.items[0], **b = &call->args.items[1];
    check_operand(checker, *a);
    check_operand(checker, *b);
    if (!operands_unify(checker, call->span, "ceildiv", a, b))
        return;
    *a = literal_settle(checker, *a);
    *b = literal_settle(checker, *b);
    if (type_is_poison((*a)->type) || type_is_poison((*b)->type))
        return;
    PhbDType scalar = (*a)->type->scalar;
    if (!dtype_is_int(scalar) || !dtype_is_int((*b)->type->scalar)) {
        diag_error(diag, call->span, "'ceildiv' needs integers, found '%s' and '%s'", type_text(checker, (*a)->type), type_text(checker, (*b)->type));
        return;
    }
    call->builtin = BUILTIN_CEILDIV;
    call->type = shape_join(checker, call->span, "ceildiv", (*a)->type, (*b)->type, scalar);
    int64_t divisor;
    const Dim *by = (*b)->dim;
    if (call->type == i64_type(checker) && (*a)->dim && by &&
        (dim_is_int(by, &divisor) ? divisor > 0 : dim_is_static(checker, by) && by->kind == PHB_EXPR_DIM))
        call->dim = dim_op(checker->context->dims, PHB_EXPR_CEILDIV, (*a)->dim, by);
}

static void error_unknown_function(Checker *checker, const Expr *callee) {
    if (is_listed(later_functions, COUNT(later_functions), callee->text)) {
        error_unsupported(checker, callee->span, arena_printf(checker->context->arena, "'%s' is", callee->text));
        return;
    }
    if (strcmp(callee->text, "range") == 0) {
        diag_error(checker->context->diag, callee->span, "'range' stands in a 'for' alone");
        return;
    }
    Names names = {0};
    for (int i = 1; i < BUILTIN_COUNT; i++)
        if (builtins[i].text[0] && !strchr(builtins[i].text, '.'))
            vec_push(checker->context->arena, &names, builtins[i].text);
    for (int i = 0; i < COUNT(later_functions); i++)
        vec_push(checker->context->arena, &names, later_functions[i]);
    for (int i = 0; i < PHB_DTYPE_COUNT; i++)
        vec_push(checker->context->arena, &names, dtype_name((PhbDType)i));
    diag_error(checker->context->diag, callee->span, "unknown function '%s'%s", callee->text, suggestion(checker, callee->text, &names));
}

void check_call(Checker *checker, Expr *call) {
    Diag *diag = checker->context->diag;
    const Expr *callee = call->left;
    PhbDType dtype;
    call->type = type_poison(checker->context->types);
    if (callee->kind != EXPR_NAME) {
        diag_error(diag, callee->span, "only functions are called");
        return;
    }
    const Symbol *symbol = scope_find(checker, callee->text);
    if (symbol) {
        if (!type_is_poison(symbol->type)) {
            diag_error(diag, callee->span, "'%s' is no function", callee->text);
            diag_note(diag, symbol->span, "'%s' is declared here", callee->text);
        }
        return;
    }
    if (dtype_find(callee->text, &dtype)) {
        check_conversion(checker, call, dtype);
        return;
    }
    Builtin builtin = find_function(callee->text);
    if (builtin == BUILTIN_NONE) {
        if (!find_decl(checker->ast, callee->text, false)) /* the fn itself is reported where it stands */
            error_unknown_function(checker, callee);
        for (int i = 0; i < call->args.count; i++)
            check_expr(checker, call->args.items[i]);
        return;
    }
    if (builtins[builtin].result == POSITION) {
        check_position(checker, call, builtin);
        call->builtin = (int)builtin;
    } else if (builtin == BUILTIN_CEILDIV) {
        check_ceildiv(checker, call);
    } else {
        error_unsupported(checker, callee->span, arena_printf(checker->context->arena, "'%s' is", callee->text));
    }
}
