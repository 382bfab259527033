/* Types of thread code, LANGUAGE.md 7: operations of warps, CTAs and thread-block clusters, atomics, the shared memory of other CTAs. How their
 * operands and the control around them may vary is uniformity.c's matter. */
#include "compiler/sema/check.h"

void note_thread_use(Checker *checker, Span span) {
    if (checker->thread_use.line == 0)
        checker->thread_use = span;
}

static void note_warp_use(Checker *checker, Span span) {
    if (checker->warp_use.line == 0)
        checker->warp_use = span;
}

/* Whether argument 0 is a scalar of the builtin's operands; else an error. */
static bool check_scalar(Checker *checker, Expr *call, Builtin builtin) {
    Expr **arg = &call->args.items[0];
    check_operand(checker, *arg);
    *arg = literal_settle(checker, *arg);
    if (type_is_poison((*arg)->type))
        return false;
    if ((*arg)->type->kind == TYPE_SCALAR)
        return operand_has_class(checker, call, *arg, builtin_table[builtin].operands);
    diag_error(
        checker->context->diag, (*arg)->span, "'%s' takes each thread's own scalar, found '%s'", call->left->text, type_text(checker, (*arg)->type));
    return false;
}

/* shuffle(v, lane) and its like. */
static void check_shuffle(Checker *checker, Expr *call, Builtin builtin) {
    static const char *const whats[] = {
        "the lane of 'shuffle'", "the mask of 'shuffle_xor'", "the distance of 'shuffle_up'", "the distance of 'shuffle_down'"};
    bool is_sound = check_scalar(checker, call, builtin);
    Expr **lane = &call->args.items[1];
    *lane = check_index(checker, *lane, whats[builtin - BUILTIN_SHUFFLE]);
    if (is_sound && !type_is_poison((*lane)->type))
        call->type = call->args.items[0]->type;
}

static void check_threads_reduction(Checker *checker, Expr *call, Builtin builtin) {
    if (!check_scalar(checker, call, builtin))
        return;
    Expr **arg = &call->args.items[0];
    if (builtin_table[builtin].result == RESULT_THREADS_SUM)
        *arg = expr_convert(checker, *arg, sum_type((*arg)->type->scalar));
    call->type = (*arg)->type;
}

static void check_cluster_mask(Checker *checker, Expr *call) {
    int64_t axis;
    if (call->args.count == 0 || constant_resolve(checker, call->args.items[0], "the axis of 'cluster_mask'", 0, 2, &axis))
        call->type = type_scalar(checker->context->types, PHB_U32);
}

static void check_remote(Checker *checker, Expr *call) {
    Expr *memory = call->args.items[0], **rank = &call->args.items[1];
    check_expr(checker, memory);
    *rank = check_index(checker, *rank, "the rank of 'remote'");
    if (type_is_poison(memory->type) || type_is_poison((*rank)->type))
        return;
    if (memory->kind != EXPR_NAME || memory->type->kind != TYPE_SHARED) {
        diag_error(checker->context->diag, memory->span, "'remote' takes shared memory, found '%s'", type_text(checker, memory->type));
        return;
    }
    if ((*rank)->dim && !checker->is_unbound && !check_remote_rank(checker, (*rank)->span, (*rank)->dim))
        return;
    call->type = memory->type;
    call->symbol = memory->symbol;
}

/* The element that an atomic changes; false after an error. */
static bool check_element_place(Checker *checker, Expr *call) {
    Expr *place = call->args.items[0];
    if (place->kind == EXPR_INDEX)
        check_slice(checker, place, true);
    else
        check_expr(checker, place);
    if (type_is_poison(place->type))
        return false;
    if (place->kind == EXPR_INDEX && place->type->kind == TYPE_SCALAR)
        return operand_has_class(checker, call, place, OPERANDS_NUMBER);
    diag_error(checker->context->diag, place->span, "'%s' takes an element of a tensor or of shared memory, such as 's[i]'; found '%s'",
        call->left->text, place->type->kind == TYPE_SCALAR ? expr_text(checker, place) : type_text(checker, place->type));
    return false;
}

static void check_atomic(Checker *checker, Expr *call) {
    bool is_sound = check_element_place(checker, call);
    const Type *type = is_sound ? call->args.items[0]->type : type_poison(checker->context->types);
    for (int i = 1; i < call->args.count; i++) {
        Expr **value = &call->args.items[i];
        *value = check_value_for(checker, *value, type);
        is_sound = is_sound && !type_is_poison((*value)->type);
    }
    if (is_sound)
        call->type = type;
}

void check_vote(Checker *checker, Expr *call, Builtin builtin) {
    note_thread_use(checker, call->span);
    call->builtin = (int)builtin;
    note_warp_use(checker, call->span);
    if (operand_has_class(checker, call, call->args.items[0], builtin_table[builtin].operands))
        call->type = type_scalar(checker->context->types, PHB_BOOL);
}

void check_thread_call(Checker *checker, Expr *call, Builtin builtin) {
    TypePool *types = checker->context->types;
    note_thread_use(checker, call->span);
    switch (builtin_table[builtin].result) {
    case RESULT_SYNC:
        call->type = type_void(types);
        break;
    case RESULT_ELECT:
        note_warp_use(checker, call->span);
        call->type = type_scalar(types, PHB_BOOL);
        break;
    case RESULT_BALLOT:
        note_warp_use(checker, call->span);
        if (check_scalar(checker, call, builtin))
            call->type = type_scalar(types, PHB_U32);
        break;
    case RESULT_SHUFFLE:
        note_warp_use(checker, call->span);
        check_shuffle(checker, call, builtin);
        break;
    case RESULT_THREADS:
    case RESULT_THREADS_SUM:
        note_warp_use(checker, call->span);
        check_threads_reduction(checker, call, builtin);
        break;
    case RESULT_CLUSTER_MASK:
        check_cluster_mask(checker, call);
        break;
    case RESULT_REMOTE:
        check_remote(checker, call);
        break;
    case RESULT_ATOMIC:
        check_atomic(checker, call);
        break;
    default:
        break;
    }
}
