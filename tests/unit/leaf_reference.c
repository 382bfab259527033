#include "leaf_reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- floats as numbers ---- */

typedef struct Format {
    int digits; /* with the implicit one */
    int min_exponent;
    int width;
} Format;

static Format format_of(PhbDType dtype) {
    switch (dtype) {
    case PHB_F16:
        return (Format){11, -14, 16};
    case PHB_BF16:
        return (Format){8, -126, 16};
    case PHB_F32:
        return (Format){24, -126, 32};
    default:
        return (Format){53, -1022, 64};
    }
}

static uint64_t infinity_bits(Format f) {
    return ((1ull << (f.width - f.digits)) - 1) << (f.digits - 1);
}

static long double decode(PhbDType dtype, uint64_t bits) {
    Format f = format_of(dtype);
    bool negative = bits >> (f.width - 1) & 1;
    uint64_t magnitude = bits & ((1ull << (f.width - 1)) - 1);
    long double value;
    if (magnitude > infinity_bits(f))
        return (long double)NAN;
    if (magnitude == infinity_bits(f)) {
        value = (long double)INFINITY;
    } else {
        int field = (int)(magnitude >> (f.digits - 1));
        uint64_t mantissa = magnitude & ((1ull << (f.digits - 1)) - 1);
        if (field)
            mantissa |= 1ull << (f.digits - 1);
        value = ldexpl((long double)mantissa, (field ? field : 1) - 1 + f.min_exponent - (f.digits - 1));
    }
    return negative ? -value : value;
}

/* To nearest even. */
static uint64_t encode(PhbDType dtype, long double value) {
    Format f = format_of(dtype);
    uint64_t sign = signbit(value) ? 1ull << (f.width - 1) : 0;
    if (isnan(value))
        return infinity_bits(f) | 1ull << (f.digits - 2);
    long double magnitude = fabsl(value);
    if (isinf(magnitude))
        return sign | infinity_bits(f);
    int exponent;
    frexpl(magnitude, &exponent); /* magnitude < 2^exponent */
    int least = f.min_exponent - (f.digits - 1);
    int quantum = exponent - f.digits > least ? exponent - f.digits : least;
    if (magnitude == 0)
        quantum = least;
    uint64_t count = (uint64_t)nearbyintl(ldexpl(magnitude, -quantum));
    if (quantum - least > (1 << (f.width - f.digits)))
        return sign | infinity_bits(f);
    uint64_t bits = ((uint64_t)(quantum - least) << (f.digits - 1)) + count;
    return sign | (bits > infinity_bits(f) ? infinity_bits(f) : bits);
}

bool reference_same(PhbDType dtype, uint64_t a, uint64_t b) {
    return a == b || (dtype_is_float(dtype) && isnan(decode(dtype, a)) && isnan(decode(dtype, b)));
}

/* ---- integers as numbers ---- */

typedef __int128 Wide;

static uint64_t wrap(PhbDType dtype, Wide value) {
    if (dtype == PHB_BOOL)
        return value != 0;
    int width = dtype_bits(dtype);
    uint64_t bits = (uint64_t)value;
    return width == 64 ? bits : bits & ((1ull << width) - 1);
}

static Wide number(PhbDType dtype, uint64_t bits) {
    int width = dtype_bits(dtype);
    if (dtype == PHB_BOOL || !dtype_is_signed(dtype) || !(bits >> (width - 1) & 1))
        return (Wide)bits;
    return (Wide)bits - ((Wide)1 << width);
}

/* ---- elements ---- */

static double as_double(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t from_double(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double apply_double(OpKind kind, double a, double b) {
    switch (kind) {
    case OP_ADD:
        return a + b;
    case OP_SUB:
        return a - b;
    case OP_MUL:
        return a * b;
    case OP_DIV:
        return a / b;
    case OP_REM:
        return fmod(a, b);
    case OP_NEG:
        return -a;
    default:
        abort();
    }
}

/* f64 has twice the digits of f32 and two: rounding its results again gives f32's. */
static uint64_t float_element(OpKind kind, PhbDType dtype, uint64_t a, uint64_t b) {
    if (dtype == PHB_F64)
        return from_double(apply_double(kind, as_double(a), as_double(b)));
    return encode(dtype, (long double)apply_double(kind, (double)decode(dtype, a), (double)decode(dtype, b)));
}

static Wide divide(OpKind kind, Wide x, Wide y) {
    if (y == 0)
        return kind == OP_DIV ? 0 : x;
    return kind == OP_DIV ? x / y : x % y;
}

static uint64_t int_element(OpKind kind, PhbDType dtype, uint64_t a, uint64_t b) {
    Wide x = number(dtype, a), y = number(dtype, b);
    int width = dtype_bits(dtype);
    switch (kind) {
    case OP_ADD:
        return wrap(dtype, x + y);
    case OP_SUB:
        return wrap(dtype, x - y);
    case OP_MUL:
        return wrap(dtype, (Wide)((unsigned __int128)x * (unsigned __int128)y));
    case OP_DIV:
    case OP_REM:
        return wrap(dtype, divide(kind, x, y));
    case OP_AND:
        return a & b;
    case OP_OR:
        return a | b;
    case OP_XOR:
        return a ^ b;
    case OP_SHL:
        return b >= (uint64_t)width ? 0 : wrap(dtype, (Wide)((unsigned __int128)a << b));
    case OP_SHR:
        return wrap(dtype, x >> (b >= (uint64_t)width ? width : (int)b));
    case OP_NEG:
        return wrap(dtype, -x);
    case OP_NOT:
        return dtype == PHB_BOOL ? !a : wrap(dtype, (Wide)~a);
    default:
        abort();
    }
}

static uint64_t compare(OpKind kind, PhbDType dtype, uint64_t a, uint64_t b) {
    bool equal, less;
    if (dtype_is_float(dtype)) {
        equal = decode(dtype, a) == decode(dtype, b);
        less = decode(dtype, a) < decode(dtype, b);
    } else {
        equal = a == b;
        less = number(dtype, a) < number(dtype, b);
    }
    return kind == OP_EQ ? equal : kind == OP_NE ? !equal : kind == OP_LT ? less : less || equal;
}

uint64_t reference_element(OpKind kind, PhbDType dtype, uint64_t a, uint64_t b) {
    if (op_info[kind].traits & TRAIT_COMPARE)
        return compare(kind, dtype, a, b);
    return dtype_is_float(dtype) ? float_element(kind, dtype, a, b) : int_element(kind, dtype, a, b);
}

static uint64_t truncate_float(PhbDType to, long double value) {
    if (isnan(value))
        return 0;
    int width = dtype_bits(to);
    bool is_signed = dtype_is_signed(to);
    Wide least = is_signed ? -((Wide)1 << (width - 1)) : 0, greatest = is_signed ? -least - 1 : ((Wide)1 << width) - 1;
    if (value <= (long double)least)
        return wrap(to, least);
    return wrap(to, value >= (long double)greatest ? greatest : (Wide)truncl(value));
}

uint64_t reference_convert(PhbDType from, PhbDType to, uint64_t bits) {
    if (from == to)
        return bits;
    if (dtype_is_float(from)) {
        long double value = decode(from, bits);
        if (dtype_is_float(to))
            return encode(to, value);
        return to == PHB_BOOL ? value != 0 : truncate_float(to, value);
    }
    return dtype_is_float(to) ? encode(to, (long double)number(from, bits)) : wrap(to, number(from, bits));
}

/* ---- leaves ---- */

uint64_t element_read(PhbDType dtype, const void *at) {
    uint64_t bits = 0;
    memcpy(&bits, at, (size_t)dtype_bits(dtype) / 8);
    return bits;
}

void element_write(PhbDType dtype, void *at, uint64_t bits) {
    memcpy(at, &bits, (size_t)dtype_bits(dtype) / 8);
}

typedef struct Tile {
    int64_t rows, columns;
    uint64_t *elements;
} Tile;

typedef struct Run {
    const IrKernel *kernel;
    const PhbLaunch *launch;
    int64_t block[3];
    Tile *values; /* by IrValue.id */
} Run;

static int index_among_kind(const Run *run, const IrValue *param) {
    int index = 0;
    for (int i = 0; i < param->index; i++)
        index += run->kernel->signature.params.items[i].type->kind == param->type->kind;
    return index;
}

static Tile tile_new(const Type *type) {
    int64_t extent[2] = {1, 1};
    for (int axis = 0; axis < type->rank; axis++)
        if (!dim_is_int(type->dims[axis], &extent[2 - type->rank + axis]))
            abort();
    return (Tile){extent[0], extent[1], calloc((size_t)(extent[0] * extent[1]), sizeof(uint64_t))};
}

static uint64_t element(const Run *run, const IrValue *value, int64_t row, int64_t column) {
    if (!value->def)
        return run->launch->scalars[index_among_kind(run, value)];
    Tile tile = run->values[value->id];
    return tile.elements[(tile.rows == 1 ? 0 : row) * tile.columns + (tile.columns == 1 ? 0 : column)];
}

static int64_t dim_value(const Run *run, const Dim *dim) {
    if (dim->kind == PHB_EXPR_INT)
        return dim->value;
    if (dim->kind == PHB_EXPR_DIM)
        for (int i = 0; i < run->kernel->signature.symbolic.count; i++)
            if (run->kernel->signature.symbolic.items[i] == dim->name)
                return run->launch->dims[i];
    int64_t a = dim_value(run, dim->a), b = dim_value(run, dim->b);
    switch (dim->kind) {
    case PHB_EXPR_ADD:
        return a + b;
    case PHB_EXPR_SUB:
        return a - b;
    case PHB_EXPR_MUL:
        return a * b;
    case PHB_EXPR_CEILDIV: /* of positive numbers */
        return (a + b - 1) / b;
    default:
        abort();
    }
}

/* The address of element (row, column) of the slice, or NULL outside of the tensor. */
static char *slice_element(const Run *run, const IrOp *op, const Type *value, int64_t row, int64_t column) {
    const IrValue *tensor = op->operands.items[0];
    const PhbTensorArg *arg = &run->launch->tensors[index_among_kind(run, tensor)];
    int rank = tensor->type->rank, to_drop = rank - value->rank, next = 2 - value->rank;
    int64_t line = 0, last = 0;
    for (int axis = 0; axis < rank; axis++) {
        int64_t extent = 1, step = 0;
        if (op->extent[axis] && !dim_is_int(op->extent[axis], &extent))
            abort();
        if (extent == 1 && to_drop > 0)
            to_drop--;
        else
            step = next++ == 0 ? row : column;
        Wide at = (Wide)(int64_t)element(run, op->operands.items[1 + axis], 0, 0) + step;
        if (at < 0 || at >= arg->extent[axis])
            return NULL;
        if (axis == rank - 1)
            last = (int64_t)at;
        else
            line = line * arg->extent[axis] + (int64_t)at;
    }
    return (char *)arg->base + line * arg->pitch + last * (dtype_bits(tensor->type->scalar) / 8);
}

static uint64_t position(const Run *run, const IrOp *op) {
    const PhbTensorArg *arg = op->operands.count ? &run->launch->tensors[index_among_kind(run, op->operands.items[0])] : NULL;
    switch (op->kind) {
    case OP_CONST:
        return op->bits;
    case OP_DIM:
        return (uint64_t)dim_value(run, op->dim);
    case OP_BLOCK:
        return (uint64_t)run->block[op->axis];
    case OP_GRID:
        return (uint64_t)run->launch->grid[op->axis];
    case OP_SUPER:
        return (uint64_t)run->launch->super[op->axis];
    case OP_SUPERS:
        return (uint64_t)run->launch->supers[op->axis];
    case OP_EXTENT:
        return (uint64_t)arg->extent[op->axis];
    case OP_ORIGIN:
        return (uint64_t)arg->origin[op->axis];
    case OP_WHOLE:
        return (uint64_t)arg->whole[op->axis];
    default:
        abort();
    }
}

static uint64_t result_element(const Run *run, const IrOp *op, int64_t row, int64_t column) {
    const Type *type = op->results.items[0]->type;
    if (op->kind == OP_LOAD) {
        const char *at = slice_element(run, op, type, row, column);
        return at ? element_read(type->scalar, at) : 0;
    }
    if (op_info[op->kind].attr != ATTR_NONE)
        return position(run, op);
    uint64_t a = element(run, op->operands.items[0], row, column);
    PhbDType dtype = op->operands.items[0]->type->scalar;
    if (op->kind == OP_BROADCAST)
        return a;
    if (op->kind == OP_CONVERT)
        return reference_convert(dtype, type->scalar, a);
    return reference_element(op->kind, dtype, a, op->operands.count > 1 ? element(run, op->operands.items[1], row, column) : 0);
}

static void run_op(Run *run, const IrOp *op) {
    if (op->results.count) {
        Tile tile = tile_new(op->results.items[0]->type);
        for (int64_t row = 0; row < tile.rows; row++)
            for (int64_t column = 0; column < tile.columns; column++)
                tile.elements[row * tile.columns + column] = result_element(run, op, row, column);
        run->values[op->results.items[0]->id] = tile;
    } else if (op->kind == OP_STORE) {
        const IrValue *value = op->operands.items[op->operands.count - 1];
        Tile tile = tile_new(value->type);
        for (int64_t row = 0; row < tile.rows; row++)
            for (int64_t column = 0; column < tile.columns; column++) {
                char *at = slice_element(run, op, value->type, row, column);
                if (at)
                    element_write(value->type->scalar, at, element(run, value, row, column));
            }
        free(tile.elements);
    }
}

void reference_run(const IrKernel *kernel, const PhbLaunch *launch, int64_t first, int64_t last) {
    int count = 0;
    for (IrOp *op = kernel->body->first; op; op = op->next)
        for (int i = 0; i < op->results.count; i++)
            op->results.items[i]->id = count++;
    Run run = {.kernel = kernel, .launch = launch, .values = calloc((size_t)count + 1, sizeof(Tile))};
    for (int64_t cta = first; cta < last; cta++) {
        run.block[0] = cta % launch->grid[0];
        run.block[1] = cta / launch->grid[0] % launch->grid[1];
        run.block[2] = cta / launch->grid[0] / launch->grid[1];
        for (const IrOp *op = kernel->body->first; op; op = op->next)
            run_op(&run, op);
        for (int i = 0; i < count; i++)
            free(run.values[i].elements);
    }
    free(run.values);
}
