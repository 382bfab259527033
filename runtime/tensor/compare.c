#include "runtime/tensor/tensor.h"

#include <math.h>
#include <string.h>

static bool is_float(int dtype) {
    return dtype == PHB_F16 || dtype == PHB_BF16 || dtype == PHB_F32 || dtype == PHB_F64;
}

/* The bits of a float as an integer that counts floats: neighbours differ by 1, both zeros are 0. */
static int64_t ordinal(int dtype, const unsigned char *bytes) {
    uint64_t bits = 0;
    int size = dtype_size(dtype);
    memcpy(&bits, bytes, (size_t)size);
    uint64_t sign = (uint64_t)1 << (8 * size - 1);
    return bits & sign ? -(int64_t)(bits & ~sign) : (int64_t)bits;
}

/* How many numbers of the type lie between; infinite where one is no number and the other not the same. */
static double distance(int dtype, const unsigned char *left, const unsigned char *right, double a, double b) {
    if (isnan(a) && isnan(b))
        return 0;
    if (a == b && (isinf(a) || is_float(dtype)))
        return 0;
    if (isnan(a) || isnan(b) || isinf(a) || isinf(b))
        return (double)INFINITY;
    if (!is_float(dtype))
        return memcmp(left, right, (size_t)dtype_size(dtype)) == 0 ? 0 : fmax(fabs(a - b), 1);
    return fabs((double)ordinal(dtype, left) - (double)ordinal(dtype, right));
}

bool tensor_compare(const Tensor *left, const Tensor *right, const Tolerance *tolerance, Comparison *result, Error *error) {
    char first[160], second[160];
    tensor_describe(left, first);
    tensor_describe(right, second);
    if (strcmp(first, second) != 0)
        return error_set(error, "\"%s\" is %s, \"%s\" is %s", left->path, first, right->path, second);
    *result = (Comparison){.first = -1};
    int size = dtype_size(left->dtype);
    for (int64_t i = 0; i < left->count; i++) {
        const unsigned char *x = left->data + i * size, *y = right->data + i * size;
        double a = tensor_real(left, i), b = tensor_real(right, i);
        double ulp = distance(left->dtype, x, y, a, b), absolute = ulp == 0 ? 0 : fabs(a - b);
        if (ulp > result->max_ulp) {
            result->max_ulp = ulp;
            result->worst = i;
        }
        result->max_absolute = absolute > result->max_absolute || isnan(absolute) ? absolute : result->max_absolute;
        if (ulp <= tolerance->ulp || absolute <= tolerance->absolute + tolerance->relative * fabs(b))
            continue;
        if (result->differing++ == 0)
            result->first = i;
    }
    return true;
}
