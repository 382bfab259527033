#include "runtime/measure.h"
#include "runtime/splitmix.h"
#include "runtime/tensor/tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double tensor_real(const Tensor *tensor, int64_t index) {
    return element_real(tensor->dtype, tensor->data + index * dtype_size(tensor->dtype));
}

/* ---- a number as an element ---- */

/* A float of `mantissa` explicit bits and `bias`, rounded to nearest even once. */
static uint16_t narrow(double value, int mantissa, int bias) {
    int exponent_bits = 15 - mantissa;
    uint16_t sign = signbit(value) ? 0x8000 : 0, infinity = (uint16_t)(((1 << exponent_bits) - 1) << mantissa);
    if (isnan(value))
        return (uint16_t)(infinity | 1u << (mantissa - 1));
    double size = fabs(value);
    if (isinf(value))
        return (uint16_t)(sign | infinity);
    int exponent = size > 0 ? ilogb(size) : -bias;
    if (exponent < 1 - bias)
        exponent = 1 - bias;
    double units = nearbyint(ldexp(size, mantissa - exponent));   /* of the last bit; ties to even */
    double bits = units + ldexp(exponent - (1 - bias), mantissa); /* a carry goes into the exponent */
    return (uint16_t)(sign | (bits >= infinity ? infinity : (uint16_t)bits));
}

static int64_t saturate(double value, double least, double most, int64_t least_int, int64_t most_int) {
    return isnan(value) ? 0 : value <= least ? least_int : value >= most ? most_int : (int64_t)value;
}

static void put_element(int dtype, double value, unsigned char *to) {
    int size = dtype_size(dtype);
    switch ((PhbDType)dtype) {
    case PHB_F16:
        memcpy(to, &(uint16_t){narrow(value, 10, 15)}, 2);
        return;
    case PHB_BF16:
        memcpy(to, &(uint16_t){narrow(value, 7, 127)}, 2);
        return;
    case PHB_F32:
        memcpy(to, &(float){(float)value}, 4);
        return;
    case PHB_F64:
        memcpy(to, &value, 8);
        return;
    case PHB_BOOL:
        *to = value != 0;
        return;
    case PHB_U64:
        memcpy(to, &(uint64_t){isnan(value) || value <= 0 ? 0 : value >= 0x1p64 ? UINT64_MAX : (uint64_t)value}, 8);
        return;
    default: {
        bool is_unsigned = dtype == PHB_U8 || dtype == PHB_U16 || dtype == PHB_U32;
        int bits = 8 * size - !is_unsigned;
        int64_t most = bits == 63 ? INT64_MAX : ((int64_t)1 << bits) - 1, least = is_unsigned ? 0 : -most - 1;
        int64_t integer = saturate(value, (double)least, ldexp(1, bits), least, most);
        memcpy(to, &integer, (size_t)size);
    }
    }
}

/* ---- fills ---- */

static double uniform(uint64_t *state) {
    return ldexp((double)(splitmix_next(state) >> 11), -53);
}

/* Box and Muller, 1958. */
static double normal(uint64_t *state) {
    double radius = sqrt(-2 * log(1 - uniform(state)));
    return radius * cos(2 * 3.14159265358979323846 * uniform(state));
}

typedef enum Fill { FILL_VALUE, FILL_IOTA, FILL_UNIFORM, FILL_NORMAL } Fill;

static bool parse_fill(const char *text, Fill *fill, double *value) {
    static const struct {
        const char *name;
        Fill fill;
        double value;
    } names[] = {{"zeros", FILL_VALUE, 0}, {"ones", FILL_VALUE, 1}, {"iota", FILL_IOTA, 0}, {"uniform", FILL_UNIFORM, 0}, {"normal", FILL_NORMAL, 0}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].name, text) == 0) {
            *fill = names[i].fill;
            *value = names[i].value;
            return true;
        }
    char *end;
    *fill = FILL_VALUE;
    *value = strtod(text, &end);
    return end != text && *end == '\0';
}

static void *new_bytes(const Tensor *tensor, int dtype, Error *error) {
    int64_t size;
    void *bytes = __builtin_mul_overflow(tensor->count, (int64_t)dtype_size(dtype), &size) ? NULL : malloc((size_t)size);
    if (bytes == NULL)
        error_set(error, "\"%s\": there is no memory for %lld elements", tensor->path, (long long)tensor->count);
    return bytes;
}

void *tensor_fill(const Tensor *tensor, const char *text, uint64_t seed, Error *error) {
    Fill fill;
    double value;
    if (!parse_fill(text, &fill, &value)) {
        error_set(error, "--fill: expected zeros, ones, iota, uniform, normal or a number, found \"%s\"", text);
        return NULL;
    }
    unsigned char *bytes = new_bytes(tensor, tensor->dtype, error);
    for (int64_t i = 0; bytes != NULL && i < tensor->count; i++) {
        double element = fill == FILL_IOTA ? (double)i : fill == FILL_UNIFORM ? uniform(&seed) : fill == FILL_NORMAL ? normal(&seed) : value;
        put_element(tensor->dtype, element, bytes + i * dtype_size(tensor->dtype));
    }
    return bytes;
}

/* ---- conversions ---- */

static bool is_integer(int dtype) {
    return dtype >= PHB_I8;
}

/* An integer or bool, widened with its sign. */
static uint64_t integer_of(int dtype, const unsigned char *bytes) {
    uint64_t bits = 0;
    int size = dtype_size(dtype), unused = 64 - 8 * size;
    memcpy(&bits, bytes, (size_t)size);
    bool is_signed = dtype == PHB_I8 || dtype == PHB_I16 || dtype == PHB_I32 || dtype == PHB_I64;
    return is_signed ? (uint64_t)((int64_t)(bits << unused) >> unused) : bits;
}

/* An integer as a double that rounds to a narrower float as the integer would: of more than 53 bits the last one says whether there are others. */
static double sticky_real(int dtype, uint64_t bits) {
    bool negative = dtype != PHB_U64 && (int64_t)bits < 0;
    uint64_t size = negative ? -bits : bits;
    int excess = size >> 53 ? 64 - 53 - __builtin_clzll(size) : 0;
    uint64_t kept = size >> excess << excess;
    double value = (double)(kept | (kept != size ? (uint64_t)1 << excess : 0));
    return negative ? -value : value;
}

static void convert_element(int from, const unsigned char *bytes, int dtype, unsigned char *to) {
    uint64_t bits = is_integer(from) ? integer_of(from, bytes) : 0;
    if (is_integer(from) && dtype == PHB_BOOL)
        *to = bits != 0;
    else if (is_integer(from) && is_integer(dtype))
        memcpy(to, &bits, (size_t)dtype_size(dtype));
    else if (is_integer(from) && dtype != PHB_F64)
        put_element(dtype, sticky_real(from, bits), to);
    else
        put_element(dtype, element_real(from, bytes), to);
}

void *tensor_convert(const Tensor *tensor, int dtype, Error *error) {
    unsigned char *bytes = new_bytes(tensor, dtype, error);
    if (bytes != NULL && dtype == tensor->dtype)
        memcpy(bytes, tensor->data, (size_t)tensor_bytes(tensor));
    else if (bytes != NULL)
        for (int64_t i = 0; i < tensor->count; i++)
            convert_element(tensor->dtype, tensor->data + i * dtype_size(tensor->dtype), dtype, bytes + i * dtype_size(dtype));
    return bytes;
}
