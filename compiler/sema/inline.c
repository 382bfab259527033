/* Calls of fns. Each call gets a copy of the body, checked with the types of its arguments: what a fn needs is known where it is called, and lowering
 * sees statements alone. */
#include "compiler/sema/check.h"

#include <string.h>

FnState *find_fn(const Checker *checker, const char *interned_name) {
    int at = find_decl(checker->decls, interned_name);
    return at < 0 || checker->ast->decls.items[at]->is_kernel ? NULL : &checker->fns[at];
}

static bool is_by_reference(const Type *type) {
    return type->kind == TYPE_TENSOR || type->kind == TYPE_SHARED;
}

/* ---- parameters ---- */

static void error_argument(Checker *checker, const ParamDecl *param, const Expr *arg) {
    diag_error(checker->context->diag, arg->span, "expected '%s', found '%s'", type_expr_text(checker, param->type), type_text(checker, arg->type));
    diag_note(checker->context->diag, param->span, "parameter '%s' is declared here", param->name);
}

/* Whether the argument has the kind, the rank and an element type that the parameter takes; its extents come later. */
static bool fits(const TypeExpr *type, const Expr *arg) {
    if (arg->type->kind != type->kind || arg->type->rank != type->dims.count)
        return false;
    return type->kind == TYPE_TILE ? dtype_stores(arg->type->scalar, type->scalar) : arg->type->scalar == type->scalar;
}

/* Checks one argument but for its extents. False after an error. */
static bool check_argument(Checker *checker, const ParamDecl *param, Expr **arg) {
    check_expr(checker, *arg);
    if (type_is_poison((*arg)->type))
        return false;
    if ((*arg)->type->kind == TYPE_VOID) {
        check_operand(checker, *arg);
        return false;
    }
    if (is_by_reference((*arg)->type) && (*arg)->kind != EXPR_NAME) {
        diag_error(checker->context->diag, (*arg)->span, "another CTA's memory is no argument; pass the shared memory and the rank");
        return false;
    }
    if (!param->type) {
        *arg = literal_settle(checker, *arg);
        return !type_is_poison((*arg)->type);
    }
    PhbDType scalar = param->type->scalar;
    if (param->type->kind == TYPE_POISON)
        return false;
    if (param->type->kind == TYPE_SCALAR && literal_is_open(*arg)) {
        *arg = literal_adapt(checker, *arg, scalar);
        return !type_is_poison((*arg)->type);
    }
    bool is_sound =
        param->type->kind == TYPE_SCALAR ? (*arg)->type->kind == TYPE_SCALAR && dtype_stores((*arg)->type->scalar, scalar) : fits(param->type, *arg);
    if (!is_sound)
        error_argument(checker, param, *arg);
    return is_sound;
}

/* A name that stands bare as an extent, and is new, is bound to the argument's. */
static void bind_dims(Checker *checker, const TypeExpr *type, const Type *arg) {
    for (int i = 0; i < type->dims.count; i++) {
        const Expr *dim = type->dims.items[i];
        if (dim->kind == EXPR_NAME && !scope_find(checker, dim->text))
            scope_declare_dim(checker, SYMBOL_DIM, dim->text, dim->span, arg->dims[i]);
    }
}

/* Whether every extent that the parameter spells is the argument's; after bind_dims of all parameters. */
static bool dims_agree(Checker *checker, const ParamDecl *param, const Expr *arg) {
    TypeExpr *type = type_expr_copy(checker->context->arena, param->type);
    for (int i = 0; i < type->dims.count; i++) {
        const char *failure = "";
        const Dim *dim = dim_resolve(checker, type->dims.items[i], DIM_SEARCH | DIM_SYMBOLIC);
        if (!dim) { /* the fn's own mistake */
            checker->frame->state->is_faulty = true;
            return false;
        }
        if (dims_are_equal(checker, dim, arg->type->dims[i], &failure))
            continue;
        const char *spelled = expr_text(checker, type->dims.items[i]), *value = dim_text(checker, dim);
        const char *is =
            spelled[0] && strcmp(spelled, value) != 0 ? arena_printf(checker->context->arena, ", where '%s' is '%s'", spelled, value) : "";
        diag_error(checker->context->diag, arg->span, "expected '%s'%s, found '%s'%s", type_expr_text(checker, param->type), is,
            type_text(checker, arg->type), failure);
        diag_note(checker->context->diag, param->span, "parameter '%s' is declared here", param->name);
        return false;
    }
    return true;
}

/* Declares a parameter in the fn's scope; what goes by value becomes a LET of the copy. */
static void declare_param(Checker *checker, Inlined *inlined, const ParamDecl *param, Expr *arg) {
    Arena *arena = checker->context->arena;
    if (is_by_reference(arg->type)) {
        scope_declare_alias(checker, param->name, param->span, arg->symbol);
        return;
    }
    Stmt *let = NEW(arena, Stmt);
    let->kind = STMT_LET;
    let->span = arg->span;
    let->name = param->name;
    let->name_span = param->span;
    let->value = param->type ? expr_convert(checker, arg, param->type->scalar) : arg;
    let->symbol = scope_declare_param(checker, param->name, param->span, let->value->type);
    let->symbol->value = let->value;
    if (let->value->type->kind == TYPE_SCALAR)
        let->symbol->symbolic = symbolic_value(checker, let->value, true);
    vec_push(arena, &inlined->params, let);
}

/* The arguments in the caller's scope. False after an error. */
static bool check_arguments(Checker *checker, Expr *call, const Decl *fn) {
    bool is_sound = true;
    if (call->args.count != fn->params.count) {
        diag_error(checker->context->diag, call->span, "'%s' takes %d %s, found %d", fn->name, fn->params.count,
            fn->params.count == 1 ? "argument" : "arguments", call->args.count);
        diag_note(checker->context->diag, fn->name_span, "'%s' is declared here", fn->name);
        return false;
    }
    for (int i = 0; i < call->args.count; i++)
        is_sound = check_argument(checker, &fn->params.items[i], &call->args.items[i]) && is_sound;
    return is_sound;
}

/* In the fn's own, empty scope. */
static bool declare_params(Checker *checker, Inlined *inlined, const Expr *call) {
    const Decl *fn = inlined->fn;
    bool is_sound = true;
    for (int i = 0; i < fn->params.count; i++)
        if (fn->params.items[i].type)
            bind_dims(checker, fn->params.items[i].type, call->args.items[i]->type);
    for (int i = 0; i < fn->params.count; i++)
        if (fn->params.items[i].type)
            is_sound = dims_agree(checker, &fn->params.items[i], call->args.items[i]) && is_sound;
    for (int i = 0; i < fn->params.count; i++)
        declare_param(checker, inlined, &fn->params.items[i], call->args.items[i]);
    return is_sound;
}

/* ---- results ---- */

static bool block_returns(const Block *block);

static bool stmt_returns(const Stmt *stmt) {
    if (stmt->kind == STMT_RETURN)
        return true;
    return stmt->kind == STMT_IF && stmt->has_else && block_returns(&stmt->body) && block_returns(&stmt->otherwise);
}

static bool block_returns(const Block *block) {
    for (int i = 0; i < block->count; i++)
        if (stmt_returns(block->items[i]))
            return true;
    return false;
}

static void set_result(Checker *checker, Frame *frame, const Type *type) {
    frame->result = type;
    if (!type_is_value(type))
        return;
    Symbol *result = NEW(checker->context->arena, Symbol);
    *result =
        (Symbol){.kind = SYMBOL_VAR, .name = frame->inlined->fn->name, .span = frame->inlined->fn->name_span, .type = type, .assigned_again = true};
    frame->inlined->result = result;
}

/* `-> type`, which spells dims that the parameters bound. */
static const Type *declared_result(Checker *checker, const Decl *fn) {
    if (fn->result->kind == TYPE_TENSOR || fn->result->kind == TYPE_SHARED) {
        diag_error(checker->context->diag, fn->result->span, "a fn gives a scalar or a tile, found '%s'", type_expr_text(checker, fn->result));
        return type_poison(checker->context->types);
    }
    return type_resolve(checker, type_expr_copy(checker->context->arena, fn->result), PLACE_VARIABLE);
}

static void check_first_return(Checker *checker, Frame *frame, Stmt *stmt) {
    frame->first_return = stmt->span;
    if (stmt->value) {
        check_operand(checker, stmt->value);
        stmt->value = literal_settle(checker, stmt->value);
    }
    set_result(checker, frame, stmt->value ? stmt->value->type : type_void(checker->context->types));
}

void check_return(Checker *checker, Stmt *stmt) {
    Diag *diag = checker->context->diag;
    Frame *frame = checker->frame;
    if (!frame) {
        if (!stmt->value)
            return;
        diag_error(diag, stmt->value->span, "a kernel gives no value; it stores to its tensors");
        check_operand(checker, stmt->value);
        return;
    }
    if (!frame->result) {
        check_first_return(checker, frame, stmt);
        return;
    }
    if (type_is_poison(frame->result)) {
        if (stmt->value)
            check_expr(checker, stmt->value);
        return;
    }
    bool gives = frame->result->kind != TYPE_VOID;
    if (gives && stmt->value) {
        stmt->value = check_value_for(checker, stmt->value, frame->result);
        return;
    }
    const char *name = frame->inlined->fn->name;
    if (gives)
        diag_error(diag, stmt->span, "'%s' gives '%s'; this 'return' has no value", name, type_text(checker, frame->result));
    else if (stmt->value)
        diag_error(diag, stmt->value->span, "'%s' gives no value", name);
    else
        return;
    if (frame->first_return.line)
        diag_note(diag, frame->first_return, "its first 'return' is here");
    else
        diag_note(diag, frame->inlined->fn->name_span, "'%s' is declared here", name);
}

static void check_result(Checker *checker, Frame *frame) {
    const Decl *fn = frame->inlined->fn;
    if (!frame->result)
        frame->result = type_void(checker->context->types);
    if (type_is_value(frame->result) && !block_returns(&frame->inlined->body))
        diag_error(
            checker->context->diag, fn->name_span, "'%s' gives '%s', but can end without a 'return'", fn->name, type_text(checker, frame->result));
}

/* ---- the call ---- */

/* An error where the fn is on its way already. */
static bool is_recursive(Checker *checker, const Expr *call, const FnState *state) {
    Diag *diag = checker->context->diag;
    const Frame *chain[INLINE_MAX_DEPTH];
    int count = 0;
    const Frame *frame = checker->frame;
    while (frame && frame->state != state) {
        chain[count++] = frame;
        frame = frame->outer;
    }
    if (!frame)
        return false;
    for (int i = 0; i < count; i++)
        chain[i]->state->is_faulty = true;
    diag_error(diag, call->span, "'%s' calls itself; a fn is inlined and cannot", state->fn->name);
    for (int i = count - 1; i >= 0; i--)
        diag_note(diag, chain[i]->call, "by way of '%s', called here", chain[i]->state->fn->name);
    return true;
}

static bool is_too_large(Checker *checker, const Expr *call) {
    Diag *diag = checker->context->diag;
    if (checker->frame_depth >= INLINE_MAX_DEPTH)
        diag_error(diag, call->span, "calls of fns go %d deep here; that is the most", INLINE_MAX_DEPTH);
    else if (checker->inlined_nodes > INLINE_MAX_NODES)
        diag_error(diag, call->span, "fns are inlined, and here their copies have become too large: more than %d operations", INLINE_MAX_NODES);
    else
        return false;
    return true;
}

/* The body and its result, in the scope of the parameters. */
static void check_body(Checker *checker, Frame *frame) {
    int nodes;
    frame->inlined->body = block_copy(checker->context->arena, &frame->inlined->fn->body, &nodes);
    checker->inlined_nodes += nodes;
    if (frame->inlined->fn->result)
        set_result(checker, frame, declared_result(checker, frame->inlined->fn));
    check_block(checker, &frame->inlined->body);
    check_result(checker, frame);
}

void check_fn_call(Checker *checker, Expr *call, FnState *state) {
    Context *context = checker->context;
    bool is_sound = check_arguments(checker, call, state->fn);
    if (!is_sound || state->is_faulty || is_recursive(checker, call, state) || is_too_large(checker, call)) {
        state->is_faulty = state->is_faulty || is_sound;
        state->is_called = true;
        return;
    }
    Checker caller = *checker;
    Inlined *inlined = NEW(context->arena, Inlined);
    inlined->fn = state->fn;
    Frame frame = {.outer = caller.frame, .state = state, .inlined = inlined, .call = call->span};
    int errors = diag_error_count(context->diag);
    checker->frame = &frame;
    checker->frame_depth++;
    checker->loop_depth = 0;
    checker->is_repeated = caller.is_repeated || state->is_called;
    checker->scope = NULL; /* nothing of the caller is visible */
    state->is_called = true;
    scope_push(checker);
    bool has_params = declare_params(checker, inlined, call);
    if (has_params)
        check_body(checker, &frame);
    scope_pop(checker);
    checker->frame = caller.frame;
    checker->frame_depth = caller.frame_depth;
    checker->loop_depth = caller.loop_depth;
    checker->is_repeated = caller.is_repeated;
    checker->scope = caller.scope;
    if (diag_error_count(context->diag) > errors) {
        bool is_told = !has_params || state->is_faulty; /* where the call is */
        if (!is_told && !checker->is_unbound && checker->frame_depth < INLINE_MAX_NOTES)
            diag_note(context->diag, call->span, "'%s' is inlined here", state->fn->name);
        state->is_faulty = state->is_faulty || has_params;
        return;
    }
    call->kind = EXPR_INLINE;
    call->inlined = inlined;
    call->type = frame.result;
}

/* ---- fns that nothing calls ---- */

/* A search dim of one value for each name that the types of the parameters bind: static, so that it may stand everywhere. */
static void declare_free_dims(Checker *checker, const TypeExpr *type) {
    Context *context = checker->context;
    for (int i = 0; i < type->dims.count; i++) {
        const Expr *name = type->dims.items[i];
        if (name->kind != EXPR_NAME || scope_find(checker, name->text) || checker->signature->search.count == PHB_MAX_DIMS)
            continue;
        SearchDim dim = {.name = name->text, .span = name->span};
        vec_push(context->arena, &dim.leaf, 16);
        vec_push(context->arena, &checker->signature->search, dim);
        scope_declare_dim(checker, SYMBOL_SEARCH_DIM, name->text, name->span, dim_name(context->dims, name->text));
    }
}

static Expr *name_expr(Checker *checker, const char *text, Span span) {
    Expr *expr = NEW(checker->context->arena, Expr);
    expr->kind = EXPR_NAME;
    expr->span = span;
    expr->text = text;
    return expr;
}

/* Its arguments never vary. */
static void check_uncalled_uniformity(Checker *checker, Expr *call) {
    Stmt *stmt = NEW(checker->context->arena, Stmt);
    Block block = {0};
    stmt->kind = STMT_CALL;
    stmt->value = call;
    call->span = (Span){0}; /* there is none to show */
    vec_push(checker->context->arena, &block, stmt);
    check_uniformity(checker, &block);
}

/* A call with arguments of the types that the parameters spell. */
static void check_uncalled(Checker *checker, FnState *state) {
    Context *context = checker->context;
    const Decl *fn = state->fn;
    Signature signature = {.name = fn->name, .span = fn->name_span};
    Expr *call = NEW(context->arena, Expr);
    call->kind = EXPR_CALL;
    call->span = fn->name_span;
    call->left = name_expr(checker, fn->name, fn->name_span);
    checker->signature = &signature;
    checker->is_unbound = true;
    checker->is_repeated = true;
    scope_push(checker);
    for (int i = 0; i < fn->params.count; i++)
        declare_free_dims(checker, fn->params.items[i].type);
    bool is_sound = true;
    for (int i = 0; i < fn->params.count; i++) {
        const ParamDecl *param = &fn->params.items[i];
        const Type *type = type_resolve(checker, type_expr_copy(context->arena, param->type), PLACE_FN_PARAM);
        const char *name = intern_cstr(context->interner, arena_printf(context->arena, "%s.%d", param->name, i)); /* no identifier */
        scope_declare(checker, SYMBOL_LET, name, param->span, type);
        vec_push(context->arena, &call->args, name_expr(checker, name, param->span));
        is_sound = is_sound && !type_is_poison(type);
    }
    checker->is_repeated = false;
    if (is_sound)
        check_fn_call(checker, call, state);
    if (call->kind == EXPR_INLINE)
        check_uncalled_uniformity(checker, call);
    checker->is_repeated = true;
    scope_pop(checker);
    checker->is_repeated = false;
}

void check_uncalled_fns(Checker *checker) {
    for (int i = 0; i < checker->ast->decls.count; i++) {
        FnState *state = &checker->fns[i];
        const Decl *fn = checker->ast->decls.items[i];
        bool is_typed = true;
        for (int k = 0; k < fn->params.count; k++)
            is_typed = is_typed && fn->params.items[k].type;
        if (!fn->is_kernel && !state->is_called && is_typed)
            check_uncalled(checker, state);
    }
}
