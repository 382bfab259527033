/* Builtin functions. */
#include "tests/oracle/interpret.h"

#include <math.h>

/* ---- element-wise ---- */

/* One element of an element-wise builtin: its operands have type `type`. */
static Number element(Builtin builtin, PhbDType type, const Number *args) {
    switch (builtin) {
    case BUILTIN_CEILDIV:
        return number_ceildiv(type, args[0], args[1]);
    case BUILTIN_ABS:
        return number_abs(type, args[0]);
    case BUILTIN_MIN:
        return number_min(type, args[0], args[1]);
    case BUILTIN_MAX:
        return number_max(type, args[0], args[1]);
    case BUILTIN_POW:
        return number_pow(type, args[0], args[1]);
    case BUILTIN_FMA:
        return number_fma(type, args[0], args[1], args[2]);
    case BUILTIN_POPCOUNT:
        return number_popcount(type, args[0]);
    case BUILTIN_CLZ:
        return number_clz(type, args[0]);
    case BUILTIN_SQRT:
        return number_exact(type, sqrt, args[0]);
    case BUILTIN_FLOOR:
        return number_exact(type, floor, args[0]);
    case BUILTIN_CEIL:
        return number_exact(type, ceil, args[0]);
    case BUILTIN_ROUND:
        return number_exact(type, round, args[0]); /* half away from zero */
    case BUILTIN_TRUNC:
        return number_exact(type, trunc, args[0]);
    case BUILTIN_WHERE:
        return number_is_known(args[0]) ? (args[0].integer ? args[1] : args[2]) : number_unknown();
    default:
        return number_transcendental(type, builtin, args[0]);
    }
}

static Value eval_element(Interpreter *in, const Expr *call) {
    Value args[3], result = new_value_of(in, call->type);
    for (int i = 0; i < call->args.count; i++)
        args[i] = eval(in, call->args.items[i]);
    int64_t index[PHB_MAX_RANK] = {0}, at = 0;
    do {
        Number numbers[3];
        for (int i = 0; i < call->args.count; i++)
            numbers[i] = value_meet(&args[i], result.rank, index);
        result.at[at++] = element((Builtin)call->builtin, result.scalar, numbers);
    } while (index_next(result.rank, result.extent, index));
    return result;
}

static Value eval_cast(Interpreter *in, const Expr *call) {
    Value a = eval(in, call->args.items[0]), result = new_value(in, call->type->scalar, a.rank, a.extent);
    for (int64_t i = 0; i < value_count(&a); i++)
        result.at[i] =
            call->builtin == BUILTIN_BITCAST ? number_bitcast(a.scalar, result.scalar, a.at[i]) : number_convert(a.scalar, result.scalar, a.at[i]);
    return result;
}

/* ---- shape ---- */

static Value eval_iota(Interpreter *in, const Expr *call) {
    Value result = new_value_of(in, call->type);
    for (int64_t i = 0; i < value_count(&result); i++)
        result.at[i] = number_from_int(PHB_I32, i);
    return result;
}

static Value eval_reshape(Interpreter *in, const Expr *call) {
    Value a = eval(in, call->args.items[0]), result = new_value_of(in, call->type);
    for (int64_t i = 0; i < value_count(&result); i++)
        result.at[i] = a.at[i];
    return result;
}

static Value eval_transpose(Interpreter *in, const Expr *call) {
    Value a = value_as_matrix(eval(in, call->args.items[0])), result = new_value_of(in, call->type);
    for (int64_t row = 0; row < a.extent[0]; row++)
        for (int64_t column = 0; column < a.extent[1]; column++)
            result.at[column * a.extent[0] + row] = a.at[row * a.extent[1] + column];
    return result;
}

/* tril keeps what is on or below diagonal k (column - row <= k), triu what is on or above. */
static Value eval_triangle(Interpreter *in, const Expr *call) {
    Value a = value_as_matrix(eval(in, call->args.items[0])), result = new_value_of(in, call->type);
    Number diagonal = call->args.count > 1 ? eval_scalar(in, call->args.items[1]) : number_from_int(PHB_I64, 0);
    __int128 k = (int64_t)diagonal.integer;
    for (int64_t row = 0; row < a.extent[0]; row++)
        for (int64_t column = 0; column < a.extent[1]; column++) {
            int64_t at = row * a.extent[1] + column;
            bool is_kept = call->builtin == BUILTIN_TRIL ? column - row <= k : column - row >= k;
            result.at[at] = !number_is_known(diagonal) ? number_unknown() : is_kept ? a.at[at] : number_from_int(a.scalar, 0);
        }
    return result;
}

/* ---- reductions ---- */

enum { PARTIAL_SUMS = 16 };

/* LANGUAGE.md 10: element j, j + 16, j + 32, .. make partial sum j; then the upper half of the partial sums is added to the lower, until one is left.
 */
static Number sum_in_order(PhbDType type, const Number *first, int64_t count, int64_t step, bool any_order) {
    Number partial[PARTIAL_SUMS] = {{0, 0, 0}};
    double magnitude = 0;
    for (int64_t i = 0; i < count; i++) {
        Number *sum = &partial[i % PARTIAL_SUMS], term = first[i * step];
        *sum = i < PARTIAL_SUMS ? term : number_binary(type, BINARY_ADD, *sum, term);
        magnitude += fabs(term.real);
    }
    for (int half = PARTIAL_SUMS / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            if (j + half < count)
                partial[j] = number_binary(type, BINARY_ADD, partial[j], partial[j + half]);
    return any_order ? number_in_any_order(type, partial[0], count, magnitude) : partial[0];
}

static Number fold(PhbDType type, const Number *first, int64_t count, int64_t step, Number combine(PhbDType, Number, Number)) {
    Number result = first[0];
    for (int64_t i = 1; i < count; i++)
        result = combine(type, result, first[i * step]);
    return result;
}

static Number fold_logic(const Number *first, int64_t count, BinaryOp op) {
    Number result = first[0];
    for (int64_t i = 1; i < count; i++)
        result = number_binary(PHB_BOOL, op, result, first[i]);
    return result;
}

static bool is_above(PhbDType type, Number a, Number b) {
    if (!dtype_is_float(type))
        return number_binary(type, BINARY_GT, a, b).integer;
    if (isnan(a.real) || isnan(b.real))
        return isnan(b.real) && !isnan(a.real);
    return a.real > b.real || (a.real == b.real && signbit(b.real) && !signbit(a.real));
}

/* The first index of the greatest, in the order of max. Unknown where another element may be the greatest. */
static Number first_greatest(PhbDType type, const Number *first, int64_t count) {
    int64_t best = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!number_is_known(first[i]))
            return number_unknown();
        if (is_above(type, first[i], first[best]))
            best = i;
    }
    for (int64_t i = 0; i < count; i++) {
        double doubt = first[i].error + first[best].error;
        if (i != best && doubt > 0 && !(first[best].real - first[i].real > doubt))
            return number_unknown();
    }
    return number_from_int(PHB_I32, best);
}

static Number reduce(Builtin builtin, PhbDType type, const Number *first, int64_t count, int64_t step, bool any_order) {
    switch (builtin) {
    case BUILTIN_ROWMAX:
    case BUILTIN_COLMAX:
    case BUILTIN_MAX_OF:
        return fold(type, first, count, step, number_max);
    case BUILTIN_ROWMIN:
    case BUILTIN_COLMIN:
    case BUILTIN_MIN_OF:
        return fold(type, first, count, step, number_min);
    case BUILTIN_ROWARGMAX:
        return first_greatest(type, first, count);
    case BUILTIN_ANY:
        return fold_logic(first, count, BINARY_LOGIC_OR);
    case BUILTIN_ALL:
        return fold_logic(first, count, BINARY_LOGIC_AND);
    default:
        return sum_in_order(type, first, count, step, any_order);
    }
}

static Value eval_reduction(Interpreter *in, const Expr *call) {
    Value a = value_as_matrix(eval(in, call->args.items[0])), result = new_value_of(in, call->type);
    int64_t rows = a.extent[0], columns = a.extent[1];
    Builtin builtin = (Builtin)call->builtin;
    bool any_order = in->problem->any_order;
    switch (builtin) {
    case BUILTIN_ROWSUM:
    case BUILTIN_ROWMAX:
    case BUILTIN_ROWMIN:
    case BUILTIN_ROWARGMAX:
        for (int64_t row = 0; row < rows; row++)
            result.at[row] = reduce(builtin, a.scalar, &a.at[row * columns], columns, 1, any_order);
        break;
    case BUILTIN_COLSUM:
    case BUILTIN_COLMAX:
    case BUILTIN_COLMIN:
        for (int64_t column = 0; column < columns; column++)
            result.at[column] = reduce(builtin, a.scalar, &a.at[column], rows, columns, any_order);
        break;
    default:
        result.at[0] = reduce(builtin, a.scalar, a.at, rows * columns, 1, any_order);
        break;
    }
    return result;
}

/* Down axis 0, one after the other. */
static Value eval_cumsum(Interpreter *in, const Expr *call) {
    Value a = eval(in, call->args.items[0]), result = new_value(in, a.scalar, a.rank, a.extent);
    int64_t columns = a.rank == 2 ? a.extent[1] : 1, count = value_count(&a);
    for (int64_t i = 0; i < count; i++)
        result.at[i] = i < columns ? a.at[i] : number_binary(a.scalar, BINARY_ADD, result.at[i - columns], a.at[i]);
    for (int64_t column = 0; column < columns && in->problem->any_order; column++) {
        double magnitude = 0;
        for (int64_t i = column; i < count; i += columns) {
            magnitude += fabs(a.at[i].real);
            result.at[i] = number_in_any_order(a.scalar, result.at[i], i / columns + 1, magnitude);
        }
    }
    return result;
}

/* ---- dot ---- */

static Number multiply_add(PhbDType type, Number a, Number b, Number sum) {
    if (dtype_is_float(type))
        return number_fma(type, a, b, sum);
    return number_binary(type, BINARY_ADD, number_binary(type, BINARY_MUL, a, b), sum);
}

Value dot_values(Interpreter *in, const Expr *call, const Value *acc) {
    Value a = value_as_matrix(eval(in, call->args.items[0])), b = value_as_matrix(eval(in, call->args.items[1]));
    Value result = new_value_of(in, call->type);
    bool is_transposed = call->builtin == BUILTIN_DOT_T;
    int64_t rows = a.extent[0], depth = a.extent[1], columns = is_transposed ? b.extent[0] : b.extent[1];
    PhbDType type = result.scalar;
    bool any_order = in->problem->any_order && dtype_is_float(a.scalar) && dtype_bits(a.scalar) == 16;
    in->work += rows * columns * depth;
    if (in->work > in->problem->max_work)
        stop(in, OUTCOME_TOO_LONG);
    for (int64_t row = 0; row < rows; row++)
        for (int64_t column = 0; column < columns; column++) {
            Number sum = acc ? acc->at[row * columns + column] : number_from_int(type, 0);
            double magnitude = fabs(sum.real);
            for (int64_t k = 0; k < depth; k++) {
                Number left = a.at[row * depth + k], right = is_transposed ? b.at[column * depth + k] : b.at[k * columns + column];
                sum = multiply_add(type, number_convert(a.scalar, type, left), number_convert(b.scalar, type, right), sum);
                magnitude += fabs(left.real * right.real);
            }
            result.at[row * columns + column] = any_order ? number_in_any_order(type, sum, depth + 1, magnitude) : sum;
        }
    return result;
}

/* ---- where am I ---- */

static Value eval_position(Interpreter *in, const Expr *call) {
    int64_t value = in->block[0], axis = 0;
    if (call->builtin != BUILTIN_PROGRAM_ID) {
        dim_is_int(call->args.items[1]->dim, &axis);
        /* One node has the whole tensor. */
        value = call->builtin == BUILTIN_ORIGIN ? 0 : in->problem->tensors[call->args.items[0]->symbol->index].value.extent[axis];
    }
    return new_scalar(in, PHB_I64, number_from_int(PHB_I64, value));
}

Value eval_builtin(Interpreter *in, const Expr *call) {
    switch ((Builtin)call->builtin) {
    case BUILTIN_PROGRAM_ID:
    case BUILTIN_EXTENT:
    case BUILTIN_ORIGIN:
    case BUILTIN_WHOLE:
        return eval_position(in, call);
    case BUILTIN_CONVERT:
    case BUILTIN_BITCAST:
        return eval_cast(in, call);
    case BUILTIN_IOTA:
        return eval_iota(in, call);
    case BUILTIN_RESHAPE:
        return eval_reshape(in, call);
    case BUILTIN_TRANSPOSE:
        return eval_transpose(in, call);
    case BUILTIN_TRIL:
    case BUILTIN_TRIU:
        return eval_triangle(in, call);
    case BUILTIN_CUMSUM:
        return eval_cumsum(in, call);
    case BUILTIN_DOT:
    case BUILTIN_DOT_T:
        return dot_values(in, call, NULL);
    case BUILTIN_ROWSUM:
    case BUILTIN_ROWMAX:
    case BUILTIN_ROWMIN:
    case BUILTIN_ROWARGMAX:
    case BUILTIN_COLSUM:
    case BUILTIN_COLMAX:
    case BUILTIN_COLMIN:
    case BUILTIN_SUM:
    case BUILTIN_MIN_OF:
    case BUILTIN_MAX_OF:
    case BUILTIN_ANY:
    case BUILTIN_ALL:
        return eval_reduction(in, call);
    default:
        return eval_element(in, call);
    }
}
