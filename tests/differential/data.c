/* Random tensors, and their raw files. */
#include "tests/differential/differential.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int element_size(PhbDType type) {
    return type == PHB_BOOL ? 1 : dtype_bits(type) / 8;
}

/* What a tensor holds. Tame ones hold small numbers, so that what is computed from them stays finite; wild ones everything. */
typedef struct Sort {
    bool is_wild;
    int ties;        /* so many of a hundred numbers are about half-way between two of a narrower type */
    PhbDType narrow; /* which */
} Sort;

static Sort random_sort(Random *random, bool may_be_wild) {
    static const PhbDType narrow[] = {PHB_F16, PHB_BF16, PHB_F16, PHB_BF16, PHB_F32};
    return (Sort){random_chance(random, 40) && may_be_wild, random_chance(random, 40) ? 60 : 5, narrow[random_below(random, 5)]};
}

/* A number half-way between two of a narrower type, or next to it: what it is rounded to shows in how many steps. */
static double near_tie(Random *random, PhbDType type, uint64_t bits) {
    double below = number_from_real(type, (double)(int64_t)bits * 0x1p-60).real, tie = below + number_spacing(type, below) / 2;
    int nudge = random_below(random, 3);
    return nudge == 0 ? tie : nextafter(tie, nudge == 1 ? INFINITY : -INFINITY);
}

static Number random_number(Random *random, PhbDType type, Sort sort) {
    int kind = random_below(random, 100);
    uint64_t bits = random_bits(random);
    if (type == PHB_BOOL)
        return number_from_int(type, (int64_t)(bits & 1));
    if (!dtype_is_float(type)) {
        if (kind < 60 || !sort.is_wild)
            return number_from_int(type, (int64_t)(bits % 25) - 8);
        if (kind < 70)
            return number_from_int(type, INT64_MIN >> (64 - dtype_bits(type)));
        if (kind < 75)
            return number_from_int(type, INT64_MAX >> (64 - dtype_bits(type)));
        return number_from_int(type, (int64_t)bits);
    }
    if (sort.is_wild && kind < 8) {
        static const double special[] = {INFINITY, -INFINITY, NAN, -0.0, 0.0, 65504, 0x1p-24, 0x1p-149, 3e38, 2147483648.0, -0.5, 0.5};
        return number_convert(PHB_F64, type, number_from_real(PHB_F64, special[bits % 12]));
    }
    if (sort.is_wild && kind < 14)
        return number_from_bits(type, bits);
    if (kind >= 100 - sort.ties && dtype_bits(type) > 16)
        return number_from_real(type, near_tie(random, sort.narrow, bits));
    if (kind < 40)
        return number_from_real(type, (double)((int64_t)(bits % 257) - 128) / 16);
    return number_from_real(type, (double)(int64_t)bits * 0x1p-60);
}

void data_fill(Tensor *tensor, const char *name, uint64_t seed, bool may_be_absent) {
    Random random = {random_seed_of(seed, name)};
    Sort sort = random_sort(&random, tensor->value.rank > 0); /* a job file has no infinities */
    tensor->given = !may_be_absent || random_chance(&random, 60);
    for (int64_t i = 0; i < value_count(&tensor->value); i++) {
        Number number = random_number(&random, tensor->value.scalar, sort);
        tensor->value.at[i] = tensor->given ? number : number_from_int(tensor->value.scalar, 0);
    }
}

void *data_bytes(const Value *value, size_t *size) {
    size_t width = (size_t)element_size(value->scalar), count = (size_t)value_count(value);
    char *bytes = malloc(width * count + 1);
    *size = width * count;
    for (size_t i = 0; bytes && i < count; i++) {
        uint64_t bits = number_bits(value->scalar, value->at[i]);
        memcpy(bytes + i * width, &bits, width);
    }
    return bytes;
}

static uint64_t load_bits(PhbDType type, const void *from, int64_t at) {
    uint64_t bits = 0;
    size_t width = (size_t)element_size(type);
    memcpy(&bits, (const char *)from + (size_t)at * width, width);
    return bits;
}

static bool is_expected(PhbDType type, Number expected, uint64_t bits) {
    if (!number_is_known(expected))
        return true;
    if (!dtype_is_float(type))
        return number_bits(type, expected) == bits;
    double found = number_from_bits(type, bits).real;
    if (isnan(expected.real) || isnan(found))
        return isnan(expected.real) && isnan(found);
    if (expected.error == 0)
        return number_bits(type, expected) == bits;
    return fabs(found - expected.real) <= expected.error;
}

int64_t data_compare(const Value *expected, const void *found) {
    for (int64_t i = 0; i < value_count(expected); i++)
        if (!is_expected(expected->scalar, expected->at[i], load_bits(expected->scalar, found, i)))
            return i;
    return -1;
}

int64_t data_compare_bits(PhbDType type, int64_t count, const void *a, const void *b) {
    for (int64_t i = 0; i < count; i++) {
        uint64_t x = load_bits(type, a, i), y = load_bits(type, b, i);
        bool both_nan = dtype_is_float(type) && isnan(number_from_bits(type, x).real) && isnan(number_from_bits(type, y).real);
        if (x != y && !both_nan)
            return i;
    }
    return -1;
}

void data_print_difference(FILE *out, const Value *expected, const void *found, int64_t at) {
    Number number = expected->at[at];
    uint64_t bits = load_bits(expected->scalar, found, at);
    fprintf(out, "element %" PRId64 " of", at);
    for (int axis = 0; axis < expected->rank; axis++)
        fprintf(out, " %" PRId64, expected->extent[axis]);
    if (dtype_is_float(expected->scalar))
        fprintf(out, ": expected %.17g within %g, found %.17g\n", number.real, number.error, number_from_bits(expected->scalar, bits).real);
    else
        fprintf(out, ": expected 0x%" PRIx64 ", found 0x%" PRIx64 "\n", number_bits(expected->scalar, number), bits);
}
