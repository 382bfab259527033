/* The numbers of job.json: dims, super-tile and leaf dims, scalars. They are read from their spelling, so that no integer passes through a double. */
#include "runtime/job_reader.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* An integer as spelled: sign and magnitude. False where the spelling has a fraction or an exponent; `huge` where the magnitude needs more than 64
 * bits. */
static bool parse_integer(const char *text, bool *negative, uint64_t *magnitude, bool *huge) {
    *negative = *text == '-';
    *magnitude = 0;
    *huge = false;
    for (const char *c = text + *negative; *c != '\0'; c++) {
        if (*c < '0' || *c > '9')
            return false;
        *huge |= __builtin_mul_overflow(*magnitude, 10u, magnitude) || __builtin_add_overflow(*magnitude, (uint64_t)(*c - '0'), magnitude);
    }
    return true;
}

bool read_positive(JobReader *reader, const JsonNode *node, const char *what, int64_t *value) {
    bool negative, huge;
    uint64_t magnitude;
    if (node->kind != JSON_NODE_NUMBER) {
        report(reader, node, "%s: expected an integer, found %s", what, json_kind_text(node));
        return false;
    }
    if (!parse_integer(node->text, &negative, &magnitude, &huge)) {
        report(reader, node, "%s: expected an integer, found %s", what, node->text);
        return false;
    }
    if (huge || negative || magnitude < 1 || magnitude > INT64_MAX) {
        report(reader, node, "%s: expected 1 to 2^63-1, found %s", what, node->text);
        return false;
    }
    *value = (int64_t)magnitude;
    return true;
}

static bool symbolic(const JobReader *reader, int dim) {
    return !reader->kernel->dims[dim].is_search;
}

static bool may_be_given(const JobReader *reader, int dim) {
    return symbolic(reader, dim) || reader->dims[dim].in_extent;
}

static bool under_cluster(const JobReader *reader, int dim) {
    return reader->kernel->dims[dim].cluster_count > 0;
}

static bool searched(const JobReader *reader, int dim) {
    return reader->kernel->dims[dim].is_search != 0;
}

static void report_unknown_dim(JobReader *reader, const JsonNode *member, const char *what, bool (*fits)(const JobReader *, int)) {
    const char *names[PHB_MAX_DIMS];
    int count = 0;
    for (int i = 0; i < reader->kernel->dim_count && count < PHB_MAX_DIMS; i++)
        if (fits(reader, i))
            names[count++] = reader->kernel->dims[i].name;
    report_unknown(reader, member, what, names, count);
}

bool dim_in_extent(const PhbKernel *kernel, int dim) {
    for (int i = 0; i < kernel->tensor_count; i++)
        for (int axis = 0; axis < kernel->tensors[i].rank; axis++) {
            const PhbExpr *extent = &kernel->tensors[i].axes[axis].extent;
            for (int node = 0; node < extent->count; node++)
                if (extent->nodes[node].op == PHB_EXPR_DIM && extent->nodes[node].index == dim)
                    return true;
        }
    return false;
}

void read_dims(JobReader *reader) {
    for (int dim = 0; dim < reader->kernel->dim_count; dim++)
        reader->dims[dim].in_extent = dim_in_extent(reader->kernel, dim);
    const JsonNode *dims = section(reader, "dims");
    for (const JsonNode *member = dims != NULL ? dims->first : NULL; member != NULL; member = member->next) {
        int dim = dim_find(reader->kernel, member->key);
        if (dim >= 0 && !may_be_given(reader, dim)) {
            report(
                reader, member, "\"%s\" is a search dim and no tensor's extent: its values belong under \"cluster\" and \"autotune\"", member->key);
        } else if (dim < 0) {
            report_unknown_dim(reader, member, "dim", may_be_given);
        } else if (read_positive(reader, member, member->key, &reader->job->dims[dim])) {
            reader->dims[dim].bound = true;
        } else {
            reader->dims[dim].failed = true;
        }
    }
}

static bool in_set(const int64_t *set, int count, int64_t value) {
    for (int i = 0; i < count; i++)
        if (set[i] == value)
            return true;
    return false;
}

static void set_cluster_value(JobReader *reader, const JsonNode *member, int dim) {
    const PhbDim *declared = &reader->kernel->dims[dim];
    int64_t *value = &reader->job->dims[dim];
    int64_t by_dims = reader->dims[dim].bound ? *value : 0, given;
    if (!read_positive(reader, member, member->key, &given)) {
        reader->dims[dim].failed = true;
        return;
    }
    if (by_dims != 0 && by_dims != given) {
        report(reader, member, "\"%s\" is %lld here and %lld under \"dims\"", member->key, (long long)given, (long long)by_dims);
        return;
    }
    *value = given;
    reader->dims[dim].bound = true;
    if (!in_set(declared->cluster, declared->cluster_count, given))
        errors_add(&reader->job->remarks, "%s:%d:%d: %s = %lld is none of the values that @cluster declares", reader->path, member->line,
            member->column, member->key, (long long)given);
}

void read_cluster(JobReader *reader) {
    const PhbKernel *kernel = reader->kernel;
    const JsonNode *cluster = section(reader, "cluster");
    for (const JsonNode *member = cluster != NULL ? cluster->first : NULL; member != NULL; member = member->next) {
        int dim = dim_find(kernel, member->key);
        if (dim >= 0 && under_cluster(reader, dim))
            set_cluster_value(reader, member, dim);
        else
            report_unknown_dim(reader, member, "@cluster dim", under_cluster);
    }
}

void read_autotune(JobReader *reader) {
    const JsonNode *autotune = section(reader, "autotune");
    for (const JsonNode *member = autotune != NULL ? autotune->first : NULL; member != NULL; member = member->next) {
        int dim = dim_find(reader->kernel, member->key);
        if (dim >= 0 && searched(reader, dim))
            read_positive(reader, member, member->key, &reader->job->leaf_values[dim]);
        else
            report_unknown_dim(reader, member, "@autotune dim", searched);
    }
}

/* Rounds to the nearest value, ties to even, of a format with that many bits of exponent and fraction. */
static uint64_t narrow_float(double value, int exponent_bits, int fraction_bits) {
    int exponent;
    uint64_t sign = signbit(value) ? (uint64_t)1 << (exponent_bits + fraction_bits) : 0;
    value = signbit(value) ? -value : value;
    if (value == 0)
        return sign;
    frexp(value, &exponent);
    int bias = (1 << (exponent_bits - 1)) - 1, least = 1 - bias;
    int power = exponent - 1 < least ? least : exponent - 1;
    if (power > bias)
        return sign | (((uint64_t)1 << exponent_bits) - 1) << fraction_bits;
    double scaled = ldexp(value, fraction_bits - power);
    uint64_t whole = (uint64_t)scaled;
    double rest = scaled - (double)whole;
    whole += rest > 0.5 || (rest == 0.5 && (whole & 1) != 0);
    /* A subnormal has no hidden bit; a carry out of the fraction lands in the exponent, where it belongs. */
    return sign | (((uint64_t)(power - least) << fraction_bits) + whole);
}

static uint64_t infinity_bits(int dtype) {
    return dtype == PHB_F16 ? 0x7C00 : dtype == PHB_BF16 ? 0x7F80 : dtype == PHB_F32 ? 0x7F800000 : 0x7FF0000000000000;
}

static uint64_t float_bits(const char *text, int dtype) {
    union {
        float f32;
        double f64;
        uint32_t bits32;
        uint64_t bits64;
    } value = {.bits64 = 0};
    switch (dtype) {
    case PHB_F16:
        return narrow_float(strtod(text, NULL), 5, 10);
    case PHB_BF16:
        return narrow_float(strtod(text, NULL), 8, 7);
    case PHB_F32:
        value.f32 = strtof(text, NULL);
        return value.bits32;
    default:
        value.f64 = strtod(text, NULL);
        return value.bits64;
    }
}

static bool is_float(int dtype) {
    return dtype == PHB_F16 || dtype == PHB_BF16 || dtype == PHB_F32 || dtype == PHB_F64;
}

static bool is_signed(int dtype) {
    return dtype == PHB_I8 || dtype == PHB_I16 || dtype == PHB_I32 || dtype == PHB_I64;
}

static void set_integer(JobReader *reader, const JsonNode *node, int dtype, uint64_t *bits) {
    bool negative, huge;
    uint64_t magnitude;
    if (!parse_integer(node->text, &negative, &magnitude, &huge)) {
        report(reader, node, "scalar \"%s\": expected an integer (%s), found %s", node->key, dtype_name(dtype), node->text);
        return;
    }
    int width = dtype_size(dtype) * 8;
    uint64_t largest = UINT64_MAX >> (64 - width + is_signed(dtype));
    uint64_t limit = !negative ? largest : is_signed(dtype) ? largest + 1 : 0;
    if (huge || magnitude > limit) {
        if (is_signed(dtype))
            report(reader, node, "scalar \"%s\": %s holds -2^%d to 2^%d-1, found %s", node->key, dtype_name(dtype), width - 1, width - 1, node->text);
        else
            report(reader, node, "scalar \"%s\": %s holds 0 to 2^%d-1, found %s", node->key, dtype_name(dtype), width, node->text);
        return;
    }
    *bits = (negative ? 0 - magnitude : magnitude) & (UINT64_MAX >> (64 - width));
}

static void set_scalar(JobReader *reader, const JsonNode *node, int dtype, uint64_t *bits) {
    JsonKind expected = dtype == PHB_BOOL ? JSON_NODE_BOOL : JSON_NODE_NUMBER;
    if (node->kind != expected) {
        report(reader, node, "scalar \"%s\": expected %s (%s), found %s", node->key, expected == JSON_NODE_BOOL ? "a boolean" : "a number",
            dtype_name(dtype), json_kind_text(node));
    } else if (dtype == PHB_BOOL) {
        *bits = node->text[0] == 't';
    } else if (!is_float(dtype)) {
        set_integer(reader, node, dtype, bits);
    } else {
        *bits = float_bits(node->text, dtype);
        if ((*bits & infinity_bits(dtype)) == infinity_bits(dtype))
            report(reader, node, "scalar \"%s\": %s is beyond the largest %s", node->key, node->text, dtype_name(dtype));
    }
}

void read_scalars(JobReader *reader) {
    const PhbKernel *kernel = reader->kernel;
    const JsonNode *scalars = section(reader, "scalars");
    const char *names[PHB_MAX_PARAMS];
    int count = kernel->scalar_count < PHB_MAX_PARAMS ? kernel->scalar_count : PHB_MAX_PARAMS;
    for (int i = 0; i < count; i++) {
        names[i] = kernel->scalars[i].name;
        const JsonNode *node = scalars != NULL ? json_member(scalars, names[i]) : NULL;
        if (node != NULL)
            set_scalar(reader, node, kernel->scalars[i].dtype, &reader->job->scalars[i]);
        else if (json_member(reader->root, "scalars") == scalars)
            report(reader, scalars, "scalar \"%s\" (%s) is missing", names[i], dtype_name(kernel->scalars[i].dtype));
    }
    for (const JsonNode *member = scalars != NULL ? scalars->first : NULL; member != NULL; member = member->next) {
        int known = 0;
        while (known < count && strcmp(names[known], member->key) != 0)
            known++;
        if (known == count)
            report_unknown(reader, member, "scalar", names, count);
    }
}
