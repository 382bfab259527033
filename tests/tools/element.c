#include "tests/tools/element.h"

#include <math.h>
#include <string.h>

const ElementInfo element_types[ELEMENT_TYPE_COUNT] = {
#define X(id, name, size, npy, significand, least) {name, size, npy, significand, least},
    ELEMENT_TYPES(X)
#undef X
};

/* Of the 16-bit floats. */
static int exponent_bits(ElementType type) {
    return 16 - element_types[type].significand;
}

static double float_from_bits(ElementType type, unsigned bits) {
    const ElementInfo *info = &element_types[type];
    int fraction_bits = info->significand - 1;
    int exponent = (int)(bits >> fraction_bits) & ((1 << exponent_bits(type)) - 1);
    unsigned fraction = bits & ((1u << fraction_bits) - 1);
    double magnitude;
    if (exponent == (1 << exponent_bits(type)) - 1)
        magnitude = fraction ? (double)NAN : (double)INFINITY;
    else if (exponent == 0)
        magnitude = ldexp(fraction, info->least);
    else
        magnitude = ldexp(fraction + (1u << fraction_bits), info->least + exponent - 1);
    return bits >> 15 ? -magnitude : magnitude;
}

/* The distance between neighbours at a finite `value`. */
static double float_ulp(ElementType type, double value) {
    const ElementInfo *info = &element_types[type];
    int exponent = value == 0 ? info->least : ilogb(value) - info->significand + 1, greatest = info->least + (1 << exponent_bits(type)) - 3;
    exponent = exponent < info->least ? info->least : exponent;
    return ldexp(1, exponent < greatest ? exponent : greatest);
}

static unsigned bits_from_float(ElementType type, double value) {
    const ElementInfo *info = &element_types[type];
    int fraction_bits = info->significand - 1;
    unsigned sign = signbit(value) ? 1u << 15 : 0, infinity = ((1u << exponent_bits(type)) - 1) << fraction_bits;
    if (isnan(value))
        return infinity | 1u << (fraction_bits - 1);
    if (isinf(value))
        return sign | infinity;
    double ulp = float_ulp(type, value), count = nearbyint(fabs(value) / ulp); /* in [0, 2^significand] but beyond the greatest number */
    int exponent = ilogb(ulp) - info->least;
    if (count > ldexp(1, info->significand))
        return sign | infinity; /* at the greatest ulp; equal, it carries into the exponent */
    unsigned bits = ((unsigned)exponent << fraction_bits) + (unsigned)count;
    return sign | (bits < infinity ? bits : infinity);
}

/* READ(type) and WRITE(type): through a variable of the C type that has these bytes. */
#define READ(c_type)                                                                                                                                 \
    do {                                                                                                                                             \
        c_type element;                                                                                                                              \
        memcpy(&element, bytes, sizeof element);                                                                                                     \
        return (double)element;                                                                                                                      \
    } while (0)
#define WRITE(c_type)                                                                                                                                \
    do {                                                                                                                                             \
        c_type element = (c_type)value;                                                                                                              \
        memcpy(bytes, &element, sizeof element);                                                                                                     \
        return;                                                                                                                                      \
    } while (0)

double element_get(ElementType type, const void *bytes) {
    uint16_t bits;
    switch (type) {
    case ELEMENT_F16:
    case ELEMENT_BF16:
        memcpy(&bits, bytes, sizeof bits);
        return float_from_bits(type, bits);
    case ELEMENT_F32:
        READ(float);
    case ELEMENT_F64:
        READ(double);
    case ELEMENT_I8:
        READ(int8_t);
    case ELEMENT_U8:
    case ELEMENT_BOOL:
        READ(uint8_t);
    case ELEMENT_I16:
        READ(int16_t);
    case ELEMENT_U16:
        READ(uint16_t);
    case ELEMENT_I32:
        READ(int32_t);
    case ELEMENT_U32:
        READ(uint32_t);
    case ELEMENT_I64:
        READ(int64_t);
    case ELEMENT_U64:
        READ(uint64_t);
    case ELEMENT_TYPE_COUNT:
        break;
    }
    return (double)NAN;
}

void element_set(ElementType type, void *bytes, double value) {
    uint16_t bits;
    switch (type) {
    case ELEMENT_F16:
    case ELEMENT_BF16:
        bits = (uint16_t)bits_from_float(type, value);
        memcpy(bytes, &bits, sizeof bits);
        return;
    case ELEMENT_F32:
        WRITE(float);
    case ELEMENT_F64:
        WRITE(double);
    case ELEMENT_I8:
        WRITE(int8_t);
    case ELEMENT_U8:
    case ELEMENT_BOOL:
        WRITE(uint8_t);
    case ELEMENT_I16:
        WRITE(int16_t);
    case ELEMENT_U16:
        WRITE(uint16_t);
    case ELEMENT_I32:
        WRITE(int32_t);
    case ELEMENT_U32:
        WRITE(uint32_t);
    case ELEMENT_I64:
        WRITE(int64_t);
    case ELEMENT_U64:
        WRITE(uint64_t);
    case ELEMENT_TYPE_COUNT:
        break;
    }
}
