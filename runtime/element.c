#include "runtime/measure.h"

#include <math.h>
#include <string.h>

static double half_real(uint16_t bits) {
    int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double size = exponent == 31 ? (mantissa != 0 ? (double)NAN : (double)INFINITY)
                  : exponent == 0 ? ldexp(mantissa, -24)
                                  : ldexp(1024 + mantissa, exponent - 25);
    return bits & 0x8000 ? -size : size;
}

#define LOAD(type, to)                    \
    type to;                              \
    memcpy(&to, bytes, sizeof to)

double element_real(int dtype, const void *bytes) {
    switch ((PhbDType)dtype) {
    case PHB_F16: {
        LOAD(uint16_t, value);
        return half_real(value);
    }
    case PHB_BF16: {
        LOAD(uint16_t, high);
        uint32_t word = (uint32_t)high << 16;
        float value;
        memcpy(&value, &word, sizeof value);
        return (double)value;
    }
    case PHB_F32: {
        LOAD(float, value);
        return (double)value;
    }
    case PHB_F64: {
        LOAD(double, value);
        return value;
    }
    case PHB_I8: {
        LOAD(int8_t, value);
        return value;
    }
    case PHB_U8:
    case PHB_BOOL: {
        LOAD(uint8_t, value);
        return value;
    }
    case PHB_I16: {
        LOAD(int16_t, value);
        return value;
    }
    case PHB_U16: {
        LOAD(uint16_t, value);
        return value;
    }
    case PHB_I32: {
        LOAD(int32_t, value);
        return value;
    }
    case PHB_U32: {
        LOAD(uint32_t, value);
        return value;
    }
    case PHB_I64: {
        LOAD(int64_t, value);
        return (double)value;
    }
    case PHB_U64: {
        LOAD(uint64_t, value);
        return (double)value;
    }
    case PHB_DTYPE_COUNT:
        break;
    }
    return 0;
}
