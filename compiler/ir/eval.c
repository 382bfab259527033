/* Ops on scalar constants, by the rules of LANGUAGE.md 3 and 10. */
#include "compiler/ir/ir.h"

#include <math.h>

static uint64_t sign_extend(PhbDType dtype, uint64_t bits) {
    int unused = 64 - dtype_bits(dtype);
    return dtype_is_signed(dtype) ? (uint64_t)((int64_t)(bits << unused) >> unused) : bits;
}

/* ---- integers and bool: operands extended to 64 bits, the result cut to its width ---- */

static uint64_t divide(bool is_signed, uint64_t a, uint64_t b) {
    if (b == 0)
        return 0;
    if (!is_signed)
        return a / b;
    return b == UINT64_MAX ? 0 - a : (uint64_t)((int64_t)a / (int64_t)b); /* by -1: the least one wraps */
}

static uint64_t remainder_of(bool is_signed, uint64_t a, uint64_t b) {
    if (b == 0)
        return a;
    if (!is_signed)
        return a % b;
    return b == UINT64_MAX ? 0 : (uint64_t)((int64_t)a % (int64_t)b);
}

/* The distance is unsigned: a negative one is more than any width. */
static uint64_t shift(OpKind kind, PhbDType dtype, uint64_t a, uint64_t distance) {
    bool beyond = distance >= (uint64_t)dtype_bits(dtype);
    if (kind == OP_SHL)
        return beyond ? 0 : a << distance;
    if (dtype_is_signed(dtype))
        return (uint64_t)((int64_t)a >> (beyond ? 63 : distance));
    return beyond ? 0 : a >> distance;
}

static uint64_t leading_zeros(PhbDType dtype, uint64_t bits) {
    int width = dtype_bits(dtype);
    return bits == 0 ? (uint64_t)width : (uint64_t)(__builtin_clzll(bits) - (64 - width));
}

static bool eval_int(OpKind kind, PhbDType dtype, uint64_t a, uint64_t b, uint64_t *result) {
    uint64_t bits = a;
    bool is_signed = dtype_is_signed(dtype);
    uint64_t distance = b;
    a = sign_extend(dtype, a);
    b = sign_extend(dtype, b);
    switch (kind) {
    case OP_ADD:
        *result = a + b;
        break;
    case OP_SUB:
        *result = a - b;
        break;
    case OP_MUL:
        *result = a * b;
        break;
    case OP_DIV:
        *result = divide(is_signed, a, b);
        break;
    case OP_REM:
        *result = remainder_of(is_signed, a, b);
        break;
    case OP_AND:
        *result = a & b;
        break;
    case OP_OR:
        *result = a | b;
        break;
    case OP_XOR:
        *result = a ^ b;
        break;
    case OP_SHL:
    case OP_SHR:
        *result = shift(kind, dtype, a, distance);
        break;
    case OP_NEG:
        *result = 0 - a;
        break;
    case OP_NOT:
        *result = dtype == PHB_BOOL ? !a : ~a;
        break;
    case OP_EQ:
        *result = a == b;
        return true;
    case OP_NE:
        *result = a != b;
        return true;
    case OP_LT:
        *result = is_signed ? (int64_t)a < (int64_t)b : a < b;
        return true;
    case OP_LE:
        *result = is_signed ? (int64_t)a <= (int64_t)b : a <= b;
        return true;
    case OP_MIN:
    case OP_MAX: {
        bool a_first = is_signed ? (int64_t)a < (int64_t)b : a < b;
        *result = a_first == (kind == OP_MIN) ? a : b;
        break;
    }
    case OP_ABS:
        *result = is_signed && a >> 63 ? 0 - a : a;
        break;
    case OP_POPCOUNT:
        *result = (uint64_t)__builtin_popcountll(bits);
        break;
    case OP_CLZ:
        *result = leading_zeros(dtype, bits);
        break;
    default:
        return false;
    }
    *result = bits_from_int(dtype, *result);
    return true;
}

/* ---- floats: one operation in double, then one rounding to the type ----
 *
 * A double has more than twice the digits of f32, f16 and bf16, and two to spare: the second rounding of a sum, product or quotient then never
 * differs from rounding once (S. A. Figueroa, "When is double rounding innocuous?", 1995). A remainder is exact. */

/* The number if one is NaN; -0 is less than +0. */
static double least(double a, double b) {
    return isnan(a) ? b : isnan(b) ? a : a < b || (a == b && signbit(a)) ? a : b;
}

/* f16 and bf16 are computed in f32. */
static double fused(PhbDType dtype, double a, double b, double c) {
    return dtype == PHB_F64 ? fma(a, b, c) : (double)fmaf((float)a, (float)b, (float)c);
}

static bool eval_float(OpKind kind, PhbDType dtype, const uint64_t *operands, uint64_t *result) {
    uint64_t a_bits = operands[0];
    bool is_unary = op_info[kind].operands == 1;
    double a = bits_to_double(dtype, a_bits), b = is_unary ? 0 : bits_to_double(dtype, operands[1]), value;
    switch (kind) {
    case OP_ADD:
        value = a + b;
        break;
    case OP_SUB:
        value = a - b;
        break;
    case OP_MUL:
        value = a * b;
        break;
    case OP_DIV:
        value = a / b;
        break;
    case OP_REM:
        value = fmod(a, b);
        break;
    case OP_MIN:
        value = least(a, b);
        break;
    case OP_MAX:
        value = -least(-a, -b);
        break;
    case OP_FMA:
        value = fused(dtype, a, b, bits_to_double(dtype, operands[2]));
        break;
    case OP_SQRT:
        value = dtype == PHB_F64 ? sqrt(a) : (double)sqrtf((float)a);
        break;
    case OP_FLOOR:
        value = floor(a);
        break;
    case OP_CEIL:
        value = ceil(a);
        break;
    case OP_ROUND:
        value = round(a);
        break;
    case OP_TRUNC:
        value = trunc(a);
        break;
    case OP_ABS:
        *result = a_bits & ~(UINT64_C(1) << (dtype_bits(dtype) - 1));
        return true;
    case OP_NEG:
        *result = a_bits ^ UINT64_C(1) << (dtype_bits(dtype) - 1);
        return true;
    case OP_EQ:
        *result = a == b;
        return true;
    case OP_NE:
        *result = a != b;
        return true;
    case OP_LT:
        *result = a < b;
        return true;
    case OP_LE:
        *result = a <= b;
        return true;
    default:
        return false;
    }
    *result = bits_from_double(dtype, isnan(value) ? (double)NAN : value);
    return true;
}

/* ---- conversions ---- */

/* Truncates, saturates, and takes NaN as 0. */
static uint64_t int_from_float(PhbDType to, double value) {
    int digits = dtype_bits(to) - dtype_is_signed(to);
    double beyond = ldexp(1.0, digits);
    if (isnan(value))
        return 0;
    if (value >= beyond)
        return UINT64_MAX >> (64 - digits);
    if (!dtype_is_signed(to))
        return value <= 0 ? 0 : (uint64_t)value;
    return bits_from_int(to, value <= -beyond ? UINT64_MAX << digits : (uint64_t)(int64_t)value);
}

/* Through double to the 16-bit formats: what a double does not hold is kept as a sticky last bit, so that one rounding is left. */
static uint64_t float_from_int(PhbDType to, bool is_negative, uint64_t magnitude) {
    double value;
    if (to == PHB_F32)
        value = (double)(float)magnitude;
    else if (to == PHB_F64 || magnitude >> 53 == 0)
        value = (double)magnitude;
    else
        value = (double)(magnitude >> 11 | ((magnitude & 0x7ff) != 0)) * 0x1p11;
    return bits_from_double(to, is_negative ? -value : value);
}

static uint64_t eval_convert(PhbDType from, PhbDType to, uint64_t bits) {
    if (from == to)
        return bits;
    if (dtype_is_float(from)) {
        double value = bits_to_double(from, bits);
        return to == PHB_BOOL ? value != 0 : dtype_is_float(to) ? bits_from_double(to, value) : int_from_float(to, value);
    }
    uint64_t value = sign_extend(from, bits);
    if (!dtype_is_float(to))
        return bits_from_int(to, value);
    bool is_negative = dtype_is_signed(from) && value >> 63;
    return float_from_int(to, is_negative, is_negative ? 0 - value : value);
}

bool ir_eval(OpKind kind, PhbDType operand, PhbDType result, const uint64_t *operands, uint64_t *bits) {
    if (kind == OP_BITCAST) {
        *bits = operands[0];
        return true;
    }
    if (kind == OP_CONVERT) {
        *bits = eval_convert(operand, result, operands[0]);
        return true;
    }
    if (dtype_is_float(operand))
        return eval_float(kind, operand, operands, bits);
    return eval_int(kind, operand, operands[0], op_info[kind].operands == 1 ? 0 : operands[1], bits);
}
