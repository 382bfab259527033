/* Scalar constants as bits of their type. */
#include "compiler/ir/ir.h"

#include <string.h>

/* The 16-bit float formats: bits of the stored mantissa, and of the exponent. */
typedef struct HalfFormat {
    int mantissa, exponent;
} HalfFormat;

static HalfFormat half_format(PhbDType dtype) {
    return dtype == PHB_F16 ? (HalfFormat){10, 5} : (HalfFormat){7, 8};
}

static uint64_t double_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double bits_double(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* In one rounding: the double's mantissa is shifted to the target's place, normal or subnormal, and rounded there. A carry out of the mantissa moves
 * into the exponent by itself, up to infinity. */
static uint64_t half_from_double(HalfFormat format, double value) {
    uint64_t bits = double_bits(value);
    uint64_t sign = bits >> 63 << 15;
    int exponent = (int)(bits >> 52 & 0x7ff);
    uint64_t mantissa = bits & ((UINT64_C(1) << 52) - 1);
    int highest = (1 << format.exponent) - 1;
    uint64_t infinity = (uint64_t)highest << format.mantissa;
    if (exponent == 0x7ff && mantissa) /* quiet, with what fits of the payload */
        return sign | infinity | UINT64_C(1) << (format.mantissa - 1) | mantissa >> (52 - format.mantissa);
    int biased = exponent - 1023 + highest / 2;
    if (biased >= highest)
        return sign | infinity;
    if (exponent)
        mantissa |= UINT64_C(1) << 52;
    int shift = 52 - format.mantissa + (biased < 1 ? 1 - biased : 0);
    if (shift > 54)
        return sign;
    uint64_t kept = mantissa >> shift, rest = mantissa & ((UINT64_C(1) << shift) - 1), half = UINT64_C(1) << (shift - 1);
    if (rest > half || (rest == half && (kept & 1)))
        kept++;
    if (biased > 1)
        kept += (uint64_t)(biased - 1) << format.mantissa; /* the leading 1 in `kept` adds the last step */
    return sign | kept;
}

static double half_to_double(HalfFormat format, uint64_t bits) {
    uint64_t sign = bits >> 15 << 63;
    int highest = (1 << format.exponent) - 1;
    int exponent = (int)(bits >> format.mantissa) & highest;
    uint64_t mantissa = bits & ((UINT64_C(1) << format.mantissa) - 1);
    if (exponent == highest)
        return bits_double(sign | UINT64_C(0x7ff) << 52 | mantissa << (52 - format.mantissa));
    /* mantissa * 2^(exponent - bias - width), exactly; a subnormal has the exponent of 1 and no leading 1 */
    int power = (exponent ? exponent : 1) - highest / 2 - format.mantissa;
    double scale = bits_double((uint64_t)(power + 1023) << 52);
    double magnitude = (double)(mantissa | (exponent ? UINT64_C(1) << format.mantissa : 0)) * scale;
    return bits_double(sign | double_bits(magnitude));
}

uint64_t bits_from_double(PhbDType dtype, double value) {
    if (dtype == PHB_F64)
        return double_bits(value);
    if (dtype != PHB_F32)
        return half_from_double(half_format(dtype), value);
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    return bits;
}

double bits_to_double(PhbDType dtype, uint64_t bits) {
    if (dtype == PHB_F64)
        return bits_double(bits);
    if (dtype != PHB_F32)
        return half_to_double(half_format(dtype), bits);
    uint32_t word = (uint32_t)bits;
    float narrow;
    memcpy(&narrow, &word, sizeof narrow);
    return (double)narrow;
}

uint64_t bits_from_int(PhbDType dtype, uint64_t value) {
    if (dtype == PHB_BOOL)
        return value != 0;
    int width = dtype_bits(dtype);
    return width == 64 ? value : value & ((UINT64_C(1) << width) - 1);
}
