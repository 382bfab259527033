/* Calls of builtin functions, conversions, and the fields of ctx. */
#include "compiler/sema/check.h"

#include <string.h>

const BuiltinInfo builtin_table[BUILTIN_COUNT] = {
    {"", 0, 0, OPERANDS_OWN, RESULT_NONE},
#define BUILTIN(id, text, least, most, operands, result) {text, least, most, OPERANDS_##operands, RESULT_##result},
#include "compiler/sema/builtins.def"
#undef BUILTIN
};

/* Second names. */
static const struct { const char *alias, *name; } aliases[] = {{"tmin", "min"}, {"tmax", "max"}};

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

const char *builtin_name(Builtin builtin) {
    return builtin_table[builtin].text;
}

static const char *canonical_name(const char *name) {
    for (int i = 0; i < COUNT(aliases); i++)
        if (strcmp(aliases[i].alias, name) == 0)
            return aliases[i].name;
    return name;
}

/* The first row of the name, aliases included. */
static Builtin find_function(const char *name) {
    name = canonical_name(name);
    if (!*name) /* conversions have no name of their own */
        return BUILTIN_NONE;
    for (int i = 1; i < BUILTIN_COUNT; i++)
        if (builtin_table[i].text[0] == name[0] && strcmp(builtin_table[i].text, name) == 0)
            return (Builtin)i;
    return BUILTIN_NONE;
}

bool builtin_is_known(const char *name) {
    return strcmp(name, "ctx") == 0 || strcmp(name, "range") == 0 || find_function(name) != BUILTIN_NONE;
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
    Names names = {0};
    for (int i = 1; i < BUILTIN_COUNT; i++)
        if (strncmp(builtin_table[i].text, "ctx.", 4) == 0 && !strchr(builtin_table[i].text + 4, '.'))
            vec_push(checker->context->arena, &names, builtin_table[i].text + 4);
    diag_error(diag, expr->op_span, "'ctx' has no field '%s'%s", expr->text, suggestion(checker, expr->text, &names));
}

/* ctx.a.x, ctx.a or, of a value without parts, all of it. */
static void set_field(Checker *checker, Expr *expr, Builtin builtin) {
    expr->builtin = (int)builtin;
    expr->type = i64_type(checker);
    if (builtin == BUILTIN_CTX_BLOCK)
        note_block(checker, expr->text[0] - 'x', expr->span);
    else if (builtin_table[builtin].result == RESULT_PLACE || builtin == BUILTIN_CTX_THREAD || builtin == BUILTIN_CTX_CLUSTER)
        note_thread_use(checker, expr->span);
}

static void check_part(Checker *checker, Expr *expr, Builtin builtin) {
    const char *name = builtin_table[builtin].text, *part = expr->text;
    bool is_axis = strcmp(part, "x") == 0 || strcmp(part, "y") == 0 || strcmp(part, "z") == 0;
    Builtin place = find_function(arena_printf(checker->context->arena, "%s.%s", name, part));
    if (builtin_table[builtin].result == RESULT_PLACE)
        diag_error(checker->context->diag, expr->op_span, "'%s' is a value and has no parts, found '%s'", name, part);
    else if (is_axis || place != BUILTIN_NONE)
        set_field(checker, expr, is_axis ? builtin : place);
    else
        diag_error(checker->context->diag, expr->op_span, "'%s' has the parts x, y%s z%s, found '%s'", name,
            builtin == BUILTIN_CTX_CLUSTER ? "," : " and", builtin == BUILTIN_CTX_CLUSTER ? ", rank and size" : "", part);
}

static bool is_ctx(const Checker *checker, const Expr *expr) {
    return expr->kind == EXPR_NAME && strcmp(expr->text, "ctx") == 0 && !scope_find(checker, expr->text);
}

/* A value of another language that is a field there and none here: 'blockDim.x'. */
static bool error_foreign_field(Checker *checker, const Expr *expr) {
    const Expr *base = expr->left;
    if (base->kind != EXPR_NAME || scope_find(checker, base->text))
        return false;
    const char *name = arena_printf(checker->context->arena, "%s.%s", base->text, expr->text), *ours = foreign_find(FOREIGN_NAME, name);
    if (!ours)
        return false;
    diag_error(checker->context->diag, expr->span, "unknown name '%s'; write '%s'", name, ours);
    scope_poison(checker, base->text);
    return true;
}

void check_field(Checker *checker, Expr *expr) {
    Diag *diag = checker->context->diag;
    Expr *base = expr->left;
    expr->type = type_poison(checker->context->types);
    bool is_part = base->kind == EXPR_FIELD && is_ctx(checker, base->left);
    if (error_foreign_field(checker, expr))
        return;
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
    } else if (is_part) {
        check_part(checker, expr, builtin);
    } else if (builtin_table[builtin].result == RESULT_PLACE) {
        set_field(checker, expr, builtin);
    } else {
        diag_error(diag, expr->span, "'%s' is no value; its parts are x, y and z", builtin_table[builtin].text);
    }
}

const Symbol *check_tensor_axis(Checker *checker, Expr *call, int64_t *axis) {
    Diag *diag = checker->context->diag;
    const char *name = call->left->text;
    if (call->args.count != 2) { /* in a dim; calls among values have been counted */
        diag_error(diag, call->span, "'%s' takes 2 arguments, found %d", name, call->args.count);
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
    if (constant_resolve(checker, call->args.items[0], "the axis of 'program_id'", 0, 0, &axis)) {
        call->type = i64_type(checker);
        note_block(checker, 0, call->span);
    }
}

/* ---- calls ---- */

static void error_unknown_function(Checker *checker, const Expr *callee) {
    int kernel = find_decl(checker->decls, callee->text);
    if (kernel >= 0) { /* a fn would have been called */
        diag_error(checker->context->diag, callee->span, "'%s' is a kernel; a job starts it, nothing calls it", callee->text);
        diag_note(checker->context->diag, checker->ast->decls.items[kernel]->name_span, "'%s' is declared here", callee->text);
        return;
    }
    if (strcmp(callee->text, "range") == 0) {
        diag_error(checker->context->diag, callee->span, "'range' stands in a 'for' alone");
        return;
    }
    Names names = {0};
    for (int i = 1; i < BUILTIN_COUNT; i++)
        if (builtin_table[i].text[0] && !strchr(builtin_table[i].text, '.'))
            vec_push(checker->context->arena, &names, builtin_table[i].text);
    for (int i = 0; i < checker->ast->decls.count; i++)
        if (!checker->ast->decls.items[i]->is_kernel)
            vec_push(checker->context->arena, &names, checker->ast->decls.items[i]->name);
    for (int i = 0; i < PHB_DTYPE_COUNT; i++)
        vec_push(checker->context->arena, &names, dtype_name((PhbDType)i));
    diag_error(checker->context->diag, callee->span, "unknown function '%s'%s", callee->text, suggestion(checker, callee->text, &names));
}

/* The row that takes as many arguments as the call has; NONE after an error. */
static Builtin find_overload(Checker *checker, const Expr *call, Builtin first) {
    int count = call->args.count;
    const char *name = call->left->text, *text = builtin_table[first].text;
    int least = builtin_table[first].least, most = builtin_table[first].most;
    for (int i = (int)first; i < BUILTIN_COUNT; i++) {
        const BuiltinInfo *row = &builtin_table[i];
        if (strcmp(row->text, text) != 0)
            continue;
        if (count >= row->least && count <= row->most)
            return (Builtin)i;
        least = row->least < least ? row->least : least;
        most = row->most > most ? row->most : most;
    }
    const char *many = most == 1 ? "argument" : "arguments";
    if (least == most)
        diag_error(checker->context->diag, call->span, "'%s' takes %d %s, found %d%s", name, most, many, count,
            first == BUILTIN_SUM ? "; sums along an axis are 'rowsum' and 'colsum'" : "");
    else
        diag_error(
            checker->context->diag, call->span, "'%s' takes %d %s %d %s, found %d", name, least, most == least + 1 ? "or" : "to", most, many, count);
    return BUILTIN_NONE;
}

static void check_builtin(Checker *checker, Expr *call, Builtin builtin) {
    call->builtin = (int)builtin;
    switch (builtin_table[builtin].result) {
    case RESULT_POSITION:
        check_position(checker, call, builtin);
        break;
    case RESULT_ELEMENT:
        check_element(checker, call, builtin);
        break;
    case RESULT_WHERE:
        check_where(checker, call);
        break;
    case RESULT_BITCAST:
        check_bitcast(checker, call);
        break;
    case RESULT_IOTA:
        check_iota(checker, call);
        break;
    case RESULT_RESHAPE:
        check_reshape(checker, call);
        break;
    case RESULT_TRANSPOSE:
        check_transpose(checker, call);
        break;
    case RESULT_TRIANGLE:
        check_triangle(checker, call);
        break;
    case RESULT_DOT:
        check_dot(checker, call, builtin);
        break;
    case RESULT_CUMSUM:
    case RESULT_ROW:
    case RESULT_ROW_SUM:
    case RESULT_ROW_INDEX:
    case RESULT_COL:
    case RESULT_COL_SUM:
    case RESULT_TOTAL:
    case RESULT_TOTAL_SUM:
        check_reduction(checker, call, builtin);
        break;
    case RESULT_SYNC:
    case RESULT_ELECT:
    case RESULT_BALLOT:
    case RESULT_SHUFFLE:
    case RESULT_THREADS:
    case RESULT_THREADS_SUM:
    case RESULT_CLUSTER_MASK:
    case RESULT_REMOTE:
    case RESULT_ATOMIC:
        check_thread_call(checker, call, builtin);
        break;
    case RESULT_CONVERT:
    case RESULT_PLACE:
    case RESULT_NONE:
        break;
    }
}

static void check_args(Checker *checker, const Expr *call) {
    for (int i = 0; i < call->args.count; i++)
        check_expr(checker, call->args.items[i]);
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
    FnState *fn = find_fn(checker, callee->text);
    if (symbol) {
        if (!type_is_poison(symbol->type)) {
            diag_error(diag, callee->span, "'%s' is no function", callee->text);
            diag_note(diag, symbol->span, "'%s' is declared here", callee->text);
        }
    } else if (fn) {
        check_fn_call(checker, call, fn);
    } else if (dtype_find(callee->text, &dtype)) {
        call->builtin = BUILTIN_CONVERT;
        check_conversion(checker, call, dtype);
    } else if (find_function(callee->text) != BUILTIN_NONE) {
        Builtin builtin = find_overload(checker, call, find_function(callee->text));
        if (builtin == BUILTIN_NONE)
            check_args(checker, call);
        else
            check_builtin(checker, call, builtin);
    } else {
        error_unknown_function(checker, callee);
        check_args(checker, call);
    }
}
