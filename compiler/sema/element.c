/* Builtins that work element by element on scalars and tiles, LANGUAGE.md 5. */
#include "compiler/sema/check.h"

static bool is_in_class(PhbDType scalar, OperandClass operands) {
    switch (operands) {
    case OPERANDS_FLOAT:
        return dtype_is_float(scalar);
    case OPERANDS_INT:
        return dtype_is_int(scalar);
    case OPERANDS_NUMBER:
        return scalar != PHB_BOOL;
    case OPERANDS_BOOL:
        return scalar == PHB_BOOL;
    case OPERANDS_ANY:
    case OPERANDS_OWN:
        break;
    }
    return true;
}

bool operand_has_class(Checker *checker, const Expr *call, const Expr *operand, OperandClass operands) {
    static const char *const needs[] = {
        [OPERANDS_FLOAT] = "floats", [OPERANDS_NUMBER] = "numbers", [OPERANDS_INT] = "integers", [OPERANDS_BOOL] = "'bool'"};
    if (is_in_class(operand->type->scalar, operands))
        return true;
    bool is_convertible = operands == OPERANDS_FLOAT && operand->type->scalar != PHB_BOOL;
    diag_error(checker->context->diag, operand->span, "'%s' needs %s, found '%s'%s", call->left->text, needs[operands],
        type_text(checker, operand->type), is_convertible ? "; write 'f32(..)' to convert it" : "");
    return false;
}

/* Gives all operands from `first` on one element type; literals alone get one too: a float where `operands` says so or one of them is. */
static bool unify(Checker *checker, Expr *call, int first, OperandClass operands) {
    int count = call->args.count;
    Expr **args = call->args.items;
    const char *name = call->left->text;
    PhbDType alone = operands == OPERANDS_FLOAT ? PHB_F32 : PHB_I64;
    bool all_open = true;
    for (int i = first; i < count; i++) {
        if (type_is_poison(args[i]->type))
            return false;
        all_open = all_open && literal_is_open(args[i]);
        if (args[i]->type == &open_float)
            alone = PHB_F32;
    }
    for (int i = first; all_open && i < count; i++) {
        args[i] = literal_adapt(checker, args[i], alone);
        if (type_is_poison(args[i]->type))
            return false;
    }
    /* The first operand gathers the type of all; the second round hands it to those that were too early. */
    for (int round = 0; round < 2; round++)
        for (int i = first + 1; i < count; i++)
            if (!operands_unify(checker, call->span, name, &args[first], &args[i]))
                return false;
    return true;
}

/* The value of an i64 builtin over dims. */
static const Dim *dim_of_call(Checker *checker, const Expr *call, Builtin builtin) {
    const Type *type = call->type;
    if (type->kind != TYPE_SCALAR || type->scalar != PHB_I64 || call->args.count != 2)
        return NULL;
    const Dim *a = call->args.items[0]->dim, *b = call->args.items[1]->dim;
    int64_t divisor;
    if (!a || !b)
        return NULL;
    switch (builtin) {
    case BUILTIN_MIN:
        return dim_op(checker->context->dims, PHB_EXPR_MIN, a, b);
    case BUILTIN_MAX:
        return dim_op(checker->context->dims, PHB_EXPR_MAX, a, b);
    case BUILTIN_CEILDIV: /* dims have no x/0 */
        if (dim_is_int(b, &divisor) ? divisor > 0 : dim_is_static(checker, b) && b->kind == PHB_EXPR_DIM)
            return dim_op(checker->context->dims, PHB_EXPR_CEILDIV, a, b);
        return NULL;
    default:
        return NULL;
    }
}

void check_element(Checker *checker, Expr *call, Builtin builtin) {
    OperandClass operands = builtin_table[builtin].operands;
    for (int i = 0; i < call->args.count; i++)
        check_operand(checker, call->args.items[i]);
    if (!unify(checker, call, 0, operands))
        return;
    Expr *const *args = call->args.items;
    if (!operand_has_class(checker, call, args[0], operands))
        return;
    const Type *type = args[0]->type;
    for (int i = 1; i < call->args.count && !type_is_poison(type); i++)
        type = shape_join(checker, call->span, call->left->text, type, args[i]->type, type->scalar);
    call->type = type;
    if (!type_is_poison(type))
        call->dim = dim_of_call(checker, call, builtin);
}

void check_where(Checker *checker, Expr *call) {
    for (int i = 0; i < 3; i++)
        check_operand(checker, call->args.items[i]);
    Expr *const *args = call->args.items;
    if (type_is_poison(args[0]->type) || !unify(checker, call, 1, OPERANDS_ANY))
        return;
    if (args[0]->type->scalar != PHB_BOOL) {
        diag_error(checker->context->diag, args[0]->span, "the condition of 'where' is 'bool', found '%s'", type_text(checker, args[0]->type));
        return;
    }
    PhbDType scalar = args[1]->type->scalar;
    const Type *type = shape_join(checker, call->span, "where", args[1]->type, args[2]->type, scalar);
    if (!type_is_poison(type))
        type = shape_join(checker, call->span, "where", args[0]->type, type, scalar);
    call->type = type;
}

void check_conversion(Checker *checker, Expr *call, PhbDType to) {
    if (call->args.count != 1) {
        diag_error(checker->context->diag, call->span, "'%s' takes 1 argument, found %d", dtype_name(to), call->args.count);
        return;
    }
    Expr **arg = &call->args.items[0];
    check_operand(checker, *arg);
    *arg = literal_fits(*arg, to) ? literal_adapt(checker, *arg, to) : literal_settle(checker, *arg);
    if (type_is_poison((*arg)->type))
        return;
    call->type = type_with_scalar(checker, (*arg)->type, to);
    if (to == PHB_I64 && (*arg)->type == call->type)
        call->dim = (*arg)->dim;
}

/* The unsigned integer of as many bits, for a literal that spells bits; the type itself where there is none. */
static PhbDType bits_type(PhbDType of) {
    static const PhbDType types[] = {PHB_U8, PHB_U16, PHB_U32, PHB_U64};
    for (int i = 0; i < 4; i++)
        if (dtype_bits(types[i]) == dtype_bits(of))
            return types[i];
    return of;
}

void check_bitcast(Checker *checker, Expr *call) {
    Diag *diag = checker->context->diag;
    const Expr *name = call->args.items[1];
    PhbDType to;
    if (name->kind != EXPR_NAME || scope_find(checker, name->text) || !dtype_find(name->text, &to)) {
        diag_error(diag, name->span, "'bitcast' takes a value and a scalar type, such as 'bitcast(x, u32)'; found '%s'", expr_text(checker, name));
        return;
    }
    Expr **arg = &call->args.items[0];
    check_operand(checker, *arg);
    *arg = literal_fits(*arg, bits_type(to)) ? literal_adapt(checker, *arg, bits_type(to)) : literal_settle(checker, *arg);
    if (type_is_poison((*arg)->type))
        return;
    PhbDType from = (*arg)->type->scalar;
    if (from == PHB_BOOL || to == PHB_BOOL)
        diag_error(diag, call->span, "'bitcast' needs numbers, found 'bool'");
    else if (dtype_bits(from) != dtype_bits(to))
        diag_error(diag, call->span, "'bitcast' keeps the width: '%s' has %d bits, '%s' has %d", dtype_name(from), dtype_bits(from), dtype_name(to),
            dtype_bits(to));
    else
        call->type = type_with_scalar(checker, (*arg)->type, to);
}
