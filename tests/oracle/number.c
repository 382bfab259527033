/* One element: arithmetic of each type by LANGUAGE.md 3 and 10, and the distance that another correct result may have. */
#include "tests/oracle/interpret.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- the float types ---- */

typedef struct Format {
    int digits;  /* binary, with the leading one */
    int least;   /* exponent of the last place of a subnormal */
    double most; /* the greatest finite number */
} Format;

static Format format_of(PhbDType type) {
    switch (type) {
    case PHB_F16:
        return (Format){11, -24, 65504};
    case PHB_BF16:
        return (Format){8, -133, 0x1.fep127};
    case PHB_F32:
        return (Format){24, -149, FLT_MAX};
    default:
        return (Format){53, -1074, DBL_MAX};
    }
}

double number_spacing(PhbDType type, double value) {
    Format format = format_of(type);
    int exponent = 0;
    if (!isfinite(value))
        return INFINITY;
    frexp(value, &exponent); /* |value| in [2^(exponent-1), 2^exponent) */
    int last = exponent - format.digits;
    return ldexp(1, value == 0 || last < format.least ? format.least : last);
}

/* To nearest, ties to even. */
static double round_real(PhbDType type, long double value) {
    if (type == PHB_F64 || !isfinite(value))
        return (double)value;
    long double spacing = (long double)number_spacing(type, (double)value);
    double nearest = (double)(rintl(value / spacing) * spacing); /* both steps are exact: spacing is a power of two */
    return fabs(nearest) > format_of(type).most ? copysign(INFINITY, nearest) : nearest;
}

/* What f16 and bf16 are computed in. */
static PhbDType working_type(PhbDType type) {
    return type == PHB_F64 ? PHB_F64 : PHB_F32;
}

/* ---- making numbers ---- */

Number number_unknown(void) {
    return (Number){NAN, INFINITY, 0};
}

bool number_is_known(Number number) {
    return number.error < INFINITY;
}

static bool is_exact(Number number) {
    return number.error == 0;
}

static uint64_t wrap(PhbDType type, uint64_t value) {
    int unused = 64 - dtype_bits(type);
    if (type == PHB_BOOL)
        return value != 0;
    if (dtype_is_signed(type))
        return (uint64_t)((int64_t)(value << unused) >> unused);
    return value << unused >> unused;
}

static Number integer(PhbDType type, uint64_t value) {
    return (Number){0, 0, wrap(type, value)};
}

static Number boolean(bool value) {
    return (Number){0, 0, value};
}

/* `real` was computed from numbers `distance` off: rounding adds at most one place. */
static Number rounded(PhbDType type, double real, double distance) {
    double working = round_real(working_type(type), (long double)real);
    Number number = {round_real(type, (long double)working), 0, 0};
    if (distance == 0)
        return number;
    if (!isfinite(number.real) || !(distance < INFINITY))
        return number_unknown();
    number.error = distance + number_spacing(working_type(type), number.real) + number_spacing(type, number.real);
    return fabs(number.real) + number.error > format_of(type).most ? number_unknown() : number;
}

Number number_from_real(PhbDType type, double value) {
    return (Number){round_real(type, (long double)value), 0, 0};
}

Number number_from_int(PhbDType type, int64_t value) {
    return dtype_is_float(type) ? number_convert(PHB_I64, type, integer(PHB_I64, (uint64_t)value)) : integer(type, (uint64_t)value);
}

/* ---- floats ---- */

static Number float_rem(PhbDType type, Number a, Number b) {
    return is_exact(a) && is_exact(b) ? rounded(type, fmod(a.real, b.real), 0) : number_unknown();
}

static Number float_compare(BinaryOp op, Number a, Number b) {
    double doubt = a.error + b.error, x = a.real, y = b.real;
    if (doubt > 0 && !(fabs(x - y) > doubt))
        return number_unknown();
    switch (op) {
    case BINARY_EQ:
        return boolean(x == y);
    case BINARY_NE:
        return boolean(x != y);
    case BINARY_LT:
        return boolean(x < y);
    case BINARY_LE:
        return boolean(x <= y);
    case BINARY_GT:
        return boolean(x > y);
    default:
        return boolean(x >= y);
    }
}

static Number float_divide(PhbDType type, Number a, Number b) {
    double quotient = a.real / b.real, least = fabs(b.real) - b.error;
    if (is_exact(a) && is_exact(b))
        return rounded(type, quotient, 0);
    if (!(least > 0))
        return number_unknown();
    return rounded(type, quotient, (a.error + fabs(quotient) * b.error) / least);
}

static double product_error(Number a, Number b) {
    if (is_exact(a) && is_exact(b))
        return 0;
    return (a.error > 0 ? fabs(b.real) * a.error : 0) + (b.error > 0 ? fabs(a.real) * b.error : 0) + a.error * b.error;
}

static Number float_binary(PhbDType type, BinaryOp op, Number a, Number b) {
    switch (op) {
    case BINARY_ADD:
        return rounded(type, a.real + b.real, a.error + b.error);
    case BINARY_SUB:
        return rounded(type, a.real - b.real, a.error + b.error);
    case BINARY_MUL: /* f64 rounds once; the product of two narrower numbers is exact here */
        return rounded(type, a.real * b.real, product_error(a, b));
    case BINARY_DIV:
        return float_divide(type, a, b);
    case BINARY_REM:
        return float_rem(type, a, b);
    default:
        return float_compare(op, a, b);
    }
}

Number number_fma(PhbDType type, Number a, Number b, Number c) {
    double error = product_error(a, b) + c.error;
    if (type == PHB_F64)
        return rounded(type, fma(a.real, b.real, c.real), error);
    return rounded(type, (double)fmaf((float)a.real, (float)b.real, (float)c.real), error);
}

Number number_in_any_order(PhbDType type, Number sum, int64_t count, double magnitude) {
    enum { C = 2 }; /* matrix instructions cut off where others round */
    if (count < 3 || magnitude == 0 || !isfinite(magnitude) || !number_is_known(sum)) /* infinities and NaN give the same in any order */
        return sum;
    sum.error += C * (double)count * number_spacing(type, 1) * magnitude;
    return magnitude * 2 > format_of(type).most ? number_unknown() : sum;
}

Number number_exact(PhbDType type, double function(double), Number a) {
    double real = function(a.real);
    if (is_exact(a))
        return rounded(type, real, 0);
    double low = function(a.real - a.error), high = function(a.real + a.error); /* they all rise */
    if (!isfinite(low) || !isfinite(high))
        return number_unknown();
    return rounded(type, real, high - low);
}

/* ---- transcendental functions: long double is the truth ---- */

static long double sigmoid(long double x) {
    return 1 / (1 + expl(-x));
}

static long double reciprocal_root(long double x) {
    return 1 / sqrtl(x);
}

static long double truth(Builtin function, long double x) {
    switch (function) {
    case BUILTIN_EXP:
        return expl(x);
    case BUILTIN_EXP2:
        return exp2l(x);
    case BUILTIN_LOG:
        return logl(x);
    case BUILTIN_LOG2:
        return log2l(x);
    case BUILTIN_RSQRT:
        return reciprocal_root(x);
    case BUILTIN_TANH:
        return tanhl(x);
    case BUILTIN_SIGMOID:
        return sigmoid(x);
    case BUILTIN_ERF:
        return erfl(x);
    case BUILTIN_SIN:
        return sinl(x);
    default:
        return cosl(x);
    }
}

/* The true result is `real`, of arguments whose doubt makes it `distance` off. */
static Number within_ulps(PhbDType type, long double real, double distance) {
    PhbDType working = working_type(type);
    double most = format_of(working).most, result = (double)real;
    if (isnan(result))
        return (Number){result, 0, 0};
    if (!(distance < INFINITY))
        return number_unknown();
    if (fabsl(real) > (long double)most * 0.99999L) {
        bool beyond = isinf(real) || fabsl(real) - (long double)distance > (long double)most * 1.00001L;
        return beyond ? (Number){copysign(INFINITY, result), 0, 0} : number_unknown();
    }
    return rounded(type, result, distance + 4 * number_spacing(working, result));
}

Number number_transcendental(PhbDType type, Builtin function, Number a) {
    long double x = (long double)a.real, real = truth(function, x);
    if (is_exact(a))
        return within_ulps(type, real, 0);
    if (function == BUILTIN_SIN || function == BUILTIN_COS)
        return within_ulps(type, real, a.error);                                                                   /* no slope exceeds 1 */
    long double low = truth(function, x - (long double)a.error), high = truth(function, x + (long double)a.error); /* they all rise or all fall */
    if (!isfinite(low) || !isfinite(high))
        return number_unknown();
    return within_ulps(type, real, (double)fabsl(high - low));
}

Number number_pow(PhbDType type, Number a, Number b) {
    long double real = powl((long double)a.real, (long double)b.real);
    if (is_exact(a) && is_exact(b))
        return within_ulps(type, real, 0);
    long double least = real, most = real;
    if (!(a.real - a.error > 0))
        return number_unknown();
    for (int corner = 0; corner < 4; corner++) { /* monotone in each argument */
        double x = a.real + (corner & 1 ? a.error : -a.error), y = b.real + (corner & 2 ? b.error : -b.error);
        long double at = powl((long double)x, (long double)y);
        least = fminl(least, at);
        most = fmaxl(most, at);
    }
    return isfinite(least) && isfinite(most) ? within_ulps(type, real, (double)(most - least)) : number_unknown();
}

/* ---- integers ---- */

static bool is_negative(PhbDType type, uint64_t value) {
    return dtype_is_signed(type) && (int64_t)value < 0;
}

static uint64_t magnitude(PhbDType type, uint64_t value) {
    return is_negative(type, value) ? -value : value;
}

static Number int_divide(PhbDType type, uint64_t a, uint64_t b) {
    if (b == 0)
        return integer(type, 0);
    uint64_t quotient = magnitude(type, a) / magnitude(type, b);
    return integer(type, is_negative(type, a) != is_negative(type, b) ? -quotient : quotient);
}

static Number int_rem(PhbDType type, uint64_t a, uint64_t b) {
    if (b == 0)
        return integer(type, a);
    uint64_t rest = magnitude(type, a) % magnitude(type, b);
    return integer(type, is_negative(type, a) ? -rest : rest);
}

/* A negative amount is at least the width, too. */
static Number int_shift(PhbDType type, BinaryOp op, uint64_t a, uint64_t b) {
    bool all_out = b >= (uint64_t)dtype_bits(type);
    if (op == BINARY_SHL)
        return integer(type, all_out ? 0 : a << b);
    if (dtype_is_signed(type))
        return integer(type, (uint64_t)((int64_t)a >> (all_out ? 63 : b)));
    return integer(type, all_out ? 0 : a >> b);
}

static bool int_less(PhbDType type, uint64_t a, uint64_t b) {
    return dtype_is_signed(type) ? (int64_t)a < (int64_t)b : a < b;
}

static Number int_binary(PhbDType type, BinaryOp op, uint64_t a, uint64_t b) {
    switch (op) {
    case BINARY_OR:
        return integer(type, a | b);
    case BINARY_XOR:
        return integer(type, a ^ b);
    case BINARY_AND:
        return integer(type, a & b);
    case BINARY_EQ:
        return boolean(a == b);
    case BINARY_NE:
        return boolean(a != b);
    case BINARY_LT:
        return boolean(int_less(type, a, b));
    case BINARY_LE:
        return boolean(!int_less(type, b, a));
    case BINARY_GT:
        return boolean(int_less(type, b, a));
    case BINARY_GE:
        return boolean(!int_less(type, a, b));
    case BINARY_SHL:
    case BINARY_SHR:
        return int_shift(type, op, a, b);
    case BINARY_ADD:
        return integer(type, a + b);
    case BINARY_SUB:
        return integer(type, a - b);
    case BINARY_MUL:
        return integer(type, a * b);
    case BINARY_DIV:
        return int_divide(type, a, b);
    case BINARY_REM:
        return int_rem(type, a, b);
    case BINARY_LOGIC_OR:
        return boolean(a || b);
    case BINARY_LOGIC_AND:
        return boolean(a && b);
    case BINARY_OP_COUNT:
        break;
    }
    return number_unknown();
}

static bool known_to_be(Number number, bool value) {
    return number_is_known(number) && (number.integer != 0) == value;
}

/* One side can decide alone. */
static Number logic(BinaryOp op, Number a, Number b) {
    bool decisive = op == BINARY_LOGIC_OR;
    if (known_to_be(a, decisive) || known_to_be(b, decisive))
        return boolean(decisive);
    return number_is_known(a) && number_is_known(b) ? boolean(!decisive) : number_unknown();
}

Number number_binary(PhbDType type, BinaryOp op, Number a, Number b) {
    if (op == BINARY_LOGIC_OR || op == BINARY_LOGIC_AND)
        return logic(op, a, b);
    if (!number_is_known(a) || !number_is_known(b))
        return number_unknown();
    return dtype_is_float(type) ? float_binary(type, op, a, b) : int_binary(type, op, a.integer, b.integer);
}

Number number_unary(PhbDType type, UnaryOp op, Number a) {
    if (!number_is_known(a))
        return a;
    if (op == UNARY_NOT)
        return boolean(!a.integer);
    if (op == UNARY_BITNOT)
        return integer(type, ~a.integer);
    return dtype_is_float(type) ? (Number){-a.real, a.error, 0} : integer(type, -a.integer);
}

Number number_abs(PhbDType type, Number a) {
    if (!number_is_known(a))
        return a;
    return dtype_is_float(type) ? (Number){fabs(a.real), a.error, 0} : integer(type, magnitude(type, a.integer));
}

static double larger_error(Number a, Number b) {
    return a.error > b.error ? a.error : b.error;
}

/* The number if one is NaN, -0 < +0. */
static bool float_less(double a, double b) {
    return a < b || (a == b && signbit(a) && !signbit(b));
}

static Number extreme(PhbDType type, Number a, Number b, bool greatest) {
    if (!number_is_known(a) || !number_is_known(b))
        return number_unknown();
    if (!dtype_is_float(type))
        return int_less(type, a.integer, b.integer) == greatest ? b : a;
    if (isnan(a.real))
        return b;
    if (isnan(b.real))
        return a;
    Number result = float_less(a.real, b.real) == greatest ? b : a;
    result.error = fabs(a.real - b.real) > a.error + b.error ? result.error : larger_error(a, b);
    return result;
}

Number number_max(PhbDType type, Number a, Number b) {
    return extreme(type, a, b, true);
}

Number number_min(PhbDType type, Number a, Number b) {
    return extreme(type, a, b, false);
}

/* The quotient rounded up; x/0 stays 0. */
Number number_ceildiv(PhbDType type, Number a, Number b) {
    if (!number_is_known(a) || !number_is_known(b))
        return number_unknown();
    Number quotient = int_divide(type, a.integer, b.integer), rest = int_rem(type, a.integer, b.integer);
    bool is_up = b.integer != 0 && rest.integer != 0 && is_negative(type, a.integer) == is_negative(type, b.integer);
    return integer(type, quotient.integer + is_up);
}

static uint64_t unsigned_bits(PhbDType type, uint64_t value) {
    int unused = 64 - dtype_bits(type);
    return value << unused >> unused;
}

Number number_popcount(PhbDType type, Number a) {
    return number_is_known(a) ? integer(type, (uint64_t)__builtin_popcountll(unsigned_bits(type, a.integer))) : a;
}

Number number_clz(PhbDType type, Number a) {
    if (!number_is_known(a))
        return a;
    uint64_t count = 0;
    while (count < (uint64_t)dtype_bits(type) && !(a.integer >> ((uint64_t)dtype_bits(type) - 1 - count) & 1))
        count++;
    return integer(type, count);
}

/* ---- conversions ---- */

/* Truncates and saturates; NaN is 0. */
static uint64_t saturate(PhbDType to, double real) {
    int bits = dtype_bits(to);
    bool has_sign = dtype_is_signed(to);
    double beyond = ldexp(1, has_sign ? bits - 1 : bits); /* the first that is too great */
    if (isnan(real))
        return 0;
    real = trunc(real);
    if (real >= beyond)
        return has_sign ? (UINT64_C(1) << (bits - 1)) - 1 : UINT64_MAX >> (64 - bits);
    if (!has_sign)
        return real <= 0 ? 0 : (uint64_t)real;
    return real < -beyond ? (uint64_t)-1 << (bits - 1) : (uint64_t)(int64_t)real;
}

/* Every 64-bit integer and every double is a long double, so that there is one rounding. */
static Number convert_to_float(PhbDType from, PhbDType to, Number a) {
    if (!dtype_is_float(from)) {
        long double exact = is_negative(from, a.integer) ? (long double)(int64_t)a.integer : (long double)a.integer;
        return (Number){round_real(to, exact), 0, 0};
    }
    return a.error > 0 ? rounded(to, a.real, a.error) : (Number){round_real(to, (long double)a.real), 0, 0};
}

Number number_convert(PhbDType from, PhbDType to, Number a) {
    if (!number_is_known(a) || from == to)
        return a;
    if (dtype_is_float(to))
        return convert_to_float(from, to, a);
    if (!dtype_is_float(from))
        return integer(to, a.integer);
    if (to == PHB_BOOL)
        return is_exact(a) || fabs(a.real) > a.error ? boolean(a.real != 0) : number_unknown();
    uint64_t result = saturate(to, a.real);
    if (a.error > 0 && (saturate(to, a.real - a.error) != result || saturate(to, a.real + a.error) != result))
        return number_unknown();
    return integer(to, result);
}

/* The bits of a NaN are not the language's. */
Number number_bitcast(PhbDType from, PhbDType to, Number a) {
    return is_exact(a) && !isnan(a.real) ? number_from_bits(to, number_bits(from, a)) : number_unknown();
}

static uint64_t small_float_bits(PhbDType type, double real) {
    Format format = format_of(type);
    int fraction = format.digits - 1, bias = 1 - fraction - format.least;
    uint64_t sign = signbit(real) ? UINT64_C(0x8000) : 0, infinity = type == PHB_F16 ? 0x7c00 : 0x7f80;
    if (isnan(real))
        return sign | infinity | UINT64_C(1) << (fraction - 1);
    if (isinf(real))
        return sign | infinity;
    double spacing = number_spacing(type, real);
    int exponent = ilogb(spacing) + fraction + bias; /* biased, of a normal number */
    uint64_t digits = (uint64_t)(fabs(real) / spacing);
    if (digits >> fraction == 0)
        return sign | digits;
    return sign | (uint64_t)exponent << fraction | (digits & ((UINT64_C(1) << fraction) - 1));
}

static double small_float_real(PhbDType type, uint64_t bits) {
    Format format = format_of(type);
    int fraction = format.digits - 1;
    uint64_t digits = bits & ((UINT64_C(1) << fraction) - 1);
    int exponent = (int)((bits & 0x7fff) >> fraction), special = type == PHB_F16 ? 31 : 255;
    double real = exponent == special ? (digits ? NAN : INFINITY)
                  : exponent == 0     ? ldexp((double)digits, format.least)
                                      : ldexp((double)(digits | UINT64_C(1) << fraction), format.least + exponent - 1);
    return bits & 0x8000 ? -real : real;
}

uint64_t number_bits(PhbDType type, Number number) {
    uint64_t bits = 0;
    float single = (float)number.real;
    uint32_t half;
    switch (type) {
    case PHB_F16:
    case PHB_BF16:
        return small_float_bits(type, number.real);
    case PHB_F32:
        memcpy(&half, &single, sizeof half);
        return half;
    case PHB_F64:
        memcpy(&bits, &number.real, sizeof bits);
        return bits;
    default:
        return unsigned_bits(type == PHB_BOOL ? PHB_U8 : type, number.integer);
    }
}

Number number_from_bits(PhbDType type, uint64_t bits) {
    uint32_t half = (uint32_t)bits;
    float single;
    double real;
    switch (type) {
    case PHB_F16:
    case PHB_BF16:
        return (Number){small_float_real(type, bits), 0, 0};
    case PHB_F32:
        memcpy(&single, &half, sizeof single);
        return (Number){(double)single, 0, 0};
    case PHB_F64:
        memcpy(&real, &bits, sizeof real);
        return (Number){real, 0, 0};
    default:
        return integer(type, bits);
    }
}
