/* Compiled leaves against the reference: every op on every type, edges on both sides, order of loads and stores, random kernels, tables. */
#include "codegen_fixture.h"
#include "leaf_reference.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const char *const levels[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};
#define LEVELS levels, 3

/* ---- every op on every type ---- */

enum { TILE = 64, EDGES = 48, ELEMENTS = EDGES * EDGES + 37 };

static bool op_takes(OpKind kind, PhbDType dtype) {
    if (op_info[kind].traits & TRAIT_COMPARE)
        return dtype != PHB_BOOL || kind == OP_EQ || kind == OP_NE;
    if (dtype == PHB_BOOL)
        return kind == OP_AND || kind == OP_OR || kind == OP_XOR || kind == OP_NOT;
    return !(op_info[kind].traits & TRAIT_INT) || dtype_is_int(dtype);
}

static void print_head(Buffer *text, const char *name, const char *suffix) {
    buffer_printf(text, "kernel %s%s\n    dim N\n", name, suffix);
}

static void print_arithmetic(Buffer *text, OpKind kind, PhbDType dtype) {
    const char *type = dtype_name(dtype), *result = op_info[kind].traits & TRAIT_COMPARE ? "bool" : type;
    char suffix[16];
    snprintf(suffix, sizeof suffix, "_%s", type);
    print_head(text, op_info[kind].text, suffix);
    buffer_printf(text, "    param a: tensor<%s>[N]\n    param b: tensor<%s>[N]\n    param c: tensor<%s>[N]\n{\n", type, type, result);
    buffer_printf(text, "    %%0 = ctx.block.x : i64\n    %%1 = const %d : i64\n    %%2 = mul %%0, %%1 : i64\n", TILE);
    buffer_printf(
        text, "    %%3 = load %%a[%%2 :+ %d] : tile<%s>[%d]\n    %%4 = load %%b[%%2 :+ %d] : tile<%s>[%d]\n", TILE, type, TILE, TILE, type, TILE);
    buffer_printf(text, "    %%5 = %s %%3%s : tile<%s>[%d]\n", op_info[kind].text, op_info[kind].operands == 2 ? ", %4" : "", result, TILE);
    buffer_printf(text, "    store %%c[%%2 :+ %d] = %%5\n    return\n}\n\n", TILE);
}

/* Values around which things change: each type's bits of the numbers below, and its first and last bit patterns. */
static uint64_t edge_value(PhbDType dtype, int i) {
    static const double numbers[] = {0, -0.0, 1, -1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 0.5, 1.5, 2.5, 65504, 65519.99, 65520, 65536,
        2147483648.0, 9223372036854775808.0, 1.8446744073709552e19, 1e30, 1e300, 5.9604644775390625e-8, 2.98023223876953125e-8, 2.9802322387695316e-8,
        1e-40, 1e-310};
    enum { NUMBERS = sizeof numbers / sizeof *numbers };
    int width = dtype_bits(dtype);
    uint64_t mask = width == 64 ? UINT64_MAX : (1ull << width) - 1;
    if (dtype == PHB_BOOL)
        return (uint64_t)(i & 1);
    if (i % EDGES < NUMBERS) {
        uint64_t bits;
        memcpy(&bits, &numbers[i % EDGES], sizeof bits);
        return reference_convert(PHB_F64, dtype, bits);
    }
    int pattern = i % EDGES - NUMBERS; /* 0 .. 14: sign bit, all ones, neighbours, infinities and NaNs */
    uint64_t sign = 1ull << (width - 1);
    uint64_t infinity = dtype_is_float(dtype) ? reference_convert(PHB_F64, dtype, 0x7ff0000000000000u) : sign >> 1;
    uint64_t patterns[15] = {sign, sign - 1, sign + 1, mask, mask - 1, infinity, infinity - 1, infinity + 1, infinity | sign, (infinity | sign) - 1,
        mask >> 1, 1, sign | 1, infinity | infinity >> 1, mask / 3};
    return patterns[pattern] & mask;
}

/* Two operands meet in every pair of edge values; the rest is random. */
static void run_pairs(const Compiled *compiled, int kernel, uint64_t seed) {
    const Param *params = compiled->module->kernels.items[kernel]->signature.params.items;
    int64_t extents[3][PHB_MAX_RANK] = {{ELEMENTS}, {ELEMENTS}, {ELEMENTS}};
    Trial *trial = trial_new(compiled, kernel, (const int64_t(*)[PHB_MAX_RANK])extents, seed);
    for (int i = 0; i < EDGES * EDGES; i++) {
        trial_set(trial, 0, params[0].type->scalar, i, edge_value(params[0].type->scalar, i / EDGES));
        trial_set(trial, 1, params[1].type->scalar, i, edge_value(params[1].type->scalar, i % EDGES));
    }
    trial->launch.grid[0] = (ELEMENTS + TILE - 1) / TILE;
    trial_check(trial);
    trial_free(trial);
}

/* Types of up to 16 bits in full. */
static void run_values(const Compiled *compiled, int kernel, uint64_t seed) {
    PhbDType from = compiled->module->kernels.items[kernel]->signature.params.items[0].type->scalar;
    int64_t count = dtype_bits(from) == 16 ? 65536 : ELEMENTS, extents[2][PHB_MAX_RANK] = {{count}, {count}};
    Trial *trial = trial_new(compiled, kernel, (const int64_t(*)[PHB_MAX_RANK])extents, seed);
    bool all = dtype_bits(from) <= 16 && from != PHB_BOOL;
    for (int i = 0; i < (all ? 1 << dtype_bits(from) : EDGES); i++)
        trial_set(trial, 0, from, i, all ? (uint64_t)i : edge_value(from, i));
    trial->launch.grid[0] = (count + TILE - 1) / TILE;
    trial_check(trial);
    trial_free(trial);
}

START_TEST(every_op_on_every_type) {
    PhbDType dtype = (PhbDType)_i;
    Buffer text = {0};
    buffer_puts(&text, "phobos-ir 1\nfile \"ops.phb\"\n\n");
    for (int kind = OP_ADD; kind <= OP_LE; kind++)
        if (op_takes((OpKind)kind, dtype))
            print_arithmetic(&text, (OpKind)kind, dtype);
    Compiled *compiled = compiled_new(text.data, 2, LEVELS);
    for (int k = 0; k < compiled->module->kernels.count; k++)
        run_pairs(compiled, k, (uint64_t)(100 * _i + k));
    compiled_free(compiled);
    buffer_free(&text);
}
END_TEST

START_TEST(every_conversion) {
    PhbDType from = (PhbDType)_i;
    Buffer text = {0};
    buffer_puts(&text, "phobos-ir 1\nfile \"convert.phb\"\n\n");
    for (int to = 0; to < PHB_DTYPE_COUNT; to++) {
        print_head(&text, "to_", dtype_name((PhbDType)to));
        buffer_printf(&text, "    param a: tensor<%s>[N]\n    param c: tensor<%s>[N]\n{\n", dtype_name(from), dtype_name((PhbDType)to));
        buffer_printf(&text, "    %%0 = ctx.block.x : i64\n    %%1 = const %d : i64\n    %%2 = mul %%0, %%1 : i64\n", TILE);
        buffer_printf(&text, "    %%3 = load %%a[%%2 :+ %d] : tile<%s>[%d]\n", TILE, dtype_name(from), TILE);
        buffer_printf(
            &text, "    %%4 = convert %%3 : tile<%s>[%d]\n    store %%c[%%2 :+ %d] = %%4\n    return\n}\n\n", dtype_name((PhbDType)to), TILE, TILE);
    }
    Compiled *compiled = compiled_new(text.data, 2, LEVELS);
    for (int k = 0; k < compiled->module->kernels.count; k++)
        run_values(compiled, k, (uint64_t)(100 * _i + k));
    compiled_free(compiled);
    buffer_free(&text);
}
END_TEST

/* ---- edges ---- */

/* Two matrices of unlike pitch and extent; the offsets are scalars. */
static const char copy_text[] = "phobos-ir 1\nfile \"edge.phb\"\n\n"
                                "kernel copy\n    dim M\n    dim N\n    dim P\n    dim Q\n"
                                "    param i: i64\n    param j: i64\n    param k: i64\n    param l: i64\n"
                                "    param a: tensor<f32>[M, N]\n    param b: tensor<f32>[P, Q]\n{\n"
                                "    %0 = load %a[%i :+ 8, %j :+ 24] : tile<f32>[8, 24]\n"
                                "    %1 = add %0, %0 : tile<f32>[8, 24]\n"
                                "    store %b[%k :+ 8, %l :+ 24] = %1\n    return\n}\n";

static const int64_t offsets[] = {0, 1, -1, -7, -8, -9, -23, -24, -25, 5, 12, 13, 20, 29, 30, 31, INT64_MAX, INT64_MAX - 8, INT64_MIN, INT64_MIN + 8,
    (int64_t)1 << 62, -((int64_t)1 << 62), ((int64_t)1 << 61) + 1, (int64_t)1 << 32, -((int64_t)1 << 32)};
enum { OFFSETS = sizeof offsets / sizeof *offsets };

START_TEST(edges_on_every_side) {
    Compiled *compiled = compiled_new(copy_text, 2, LEVELS);
    static const int64_t extents[4][2][PHB_MAX_RANK] = {{{13, 30}, {20, 31}}, {{1, 1}, {13, 40}}, {{20, 64}, {3, 5}}, {{0, 30}, {9, 25}}};
    Trial *trial = trial_new(compiled, 0, extents[_i], (uint64_t)_i);
    for (int first = 0; first < OFFSETS; first++)
        for (int second = 0; second < OFFSETS; second++) {
            /* One pair of offsets moves over all pairs; the other two stay near. */
            int64_t near[4] = {1, -3, 0, 2}, values[4] = {near[0], near[1], near[2], near[3]};
            int a = (first + second) % 4, b = (first + second + 1 + second % 3) % 4;
            values[a] = offsets[first];
            values[b] = offsets[second];
            for (int i = 0; i < 4; i++)
                trial->scalars[i] = (uint64_t)values[i];
            trial_check(trial);
        }
    trial_free(trial);
    compiled_free(compiled);
}
END_TEST

/* ---- what reads and writes what, in which order ---- */

/* Each is the body of a kernel over a, b: tensor<i32>[M, N], v: tensor<i32>[N], t: tensor<i16>[M, N, M, N], s: i32. */
static const char *const bodies[] = {
    /* in place */
    "    %0 = const 0 : i64\n    %1 = load %a[%0 :+ 4, %0 :+ 16] : tile<i32>[4, 16]\n    %2 = add %1, %1 : tile<i32>[4, 16]\n"
    "    store %a[%0 :+ 4, %0 :+ 16] = %2\n",
    /* shifted within itself, both ways */
    "    %0 = const 0 : i64\n    %1 = const 3 : i64\n    %2 = load %a[%0 :+ 4, %0 :+ 16] : tile<i32>[4, 16]\n"
    "    store %a[%0 :+ 4, %1 :+ 16] = %2\n",
    "    %0 = const 0 : i64\n    %1 = const 3 : i64\n    %2 = load %a[%1 :+ 4, %1 :+ 16] : tile<i32>[4, 16]\n"
    "    store %a[%0 :+ 4, %0 :+ 16] = %2\n",
    /* rows exchanged */
    "    %0 = const 0 : i64\n    %1 = const 2 : i64\n    %2 = load %a[%0 :+ 2, %0 :+ 16] : tile<i32>[2, 16]\n"
    "    %3 = load %a[%1 :+ 2, %0 :+ 16] : tile<i32>[2, 16]\n    store %a[%0 :+ 2, %0 :+ 16] = %3\n    store %a[%1 :+ 2, %0 :+ 16] = %2\n",
    /* read again after a store, the same slice and one that overlaps */
    "    %0 = const 0 : i64\n    %1 = const 1 : i64\n    %2 = load %a[%0 :+ 4, %0 :+ 16] : tile<i32>[4, 16]\n"
    "    store %b[%0 :+ 4, %0 :+ 16] = %2\n    %3 = load %b[%0 :+ 4, %0 :+ 16] : tile<i32>[4, 16]\n"
    "    %4 = load %b[%1 :+ 4, %1 :+ 16] : tile<i32>[4, 16]\n    %5 = mul %3, %4 : tile<i32>[4, 16]\n    store %a[%0 :+ 4, %0 :+ 16] = %5\n",
    /* the last of two stores that overlap wins */
    "    %0 = const 0 : i64\n    %1 = const 5 : i64\n    %2 = load %a[%0 :+ 4, %0 :+ 16] : tile<i32>[4, 16]\n"
    "    %3 = load %a[%1 :+ 4, %1 :+ 16] : tile<i32>[4, 16]\n    store %b[%0 :+ 4, %0 :+ 16] = %2\n    store %b[%1 :+ 4, %1 :+ 16] = %3\n"
    "    store %b[%0 :+ 4, %0 :+ 16] = %3\n",
    /* a value read before a store and used after it, in a nest of another shape */
    "    %0 = const 0 : i64\n    %1 = load %v[%0 :+ 16] : tile<i32>[16]\n    %2 = add %1, %1 : tile<i32>[16]\n    store %v[%0 :+ 16] = %2\n"
    "    %3 = broadcast %1 : tile<i32>[4, 16]\n    store %a[%0 :+ 4, %0 :+ 16] = %3\n",
    /* a row of what is stored, broadcast over it */
    "    %0 = const 0 : i64\n    %1 = const 1 : i64\n    %2 = load %a[%1 :+ 1, %0 :+ 16] : tile<i32>[1, 16]\n"
    "    %3 = broadcast %2 : tile<i32>[4, 16]\n    store %a[%0 :+ 4, %0 :+ 16] = %3\n",
    /* a column of what is stored */
    "    %0 = const 0 : i64\n    %1 = const 2 : i64\n    %2 = load %a[%0 :+ 4, %1] : tile<i32>[4, 1]\n"
    "    %3 = broadcast %2 : tile<i32>[4, 16]\n    store %a[%0 :+ 4, %0 :+ 16] = %3\n    store %b[%1 :+ 4, %0] = %2\n",
    /* elements between tiles */
    "    %0 = const 0 : i64\n    %1 = const 2 : i64\n    %2 = load %a[%1, %1] : i32\n    %3 = load %a[%0 :+ 4, %0 :+ 16] : tile<i32>[4, 16]\n"
    "    store %a[%0, %1] = %s\n    %4 = load %a[%0, %1] : i32\n    %5 = add %4, %2 : i32\n    %6 = broadcast %5 : tile<i32>[4, 16]\n"
    "    %7 = add %6, %3 : tile<i32>[4, 16]\n    store %a[%1 :+ 4, %1 :+ 16] = %7\n    %8 = load %a[%1, %1] : i32\n    store %v[%1] = %8\n",
    /* rank 4: points drop, leftmost first */
    "    %0 = const 0 : i64\n    %1 = const 2 : i64\n    %2 = load %t[%1, %0 :+ 4, %0, %0 :+ 16] : tile<i16>[4, 16]\n"
    "    store %t[%0 :+ 4, %0, %1, %1 :+ 16] = %2\n    %3 = load %t[%0, %1, %0, %0 :+ 16] : tile<i16>[1, 16]\n"
    "    store %t[%1, %1, %0 :+ 1, %0 :+ 16] = %3\n    %4 = load %t[%0, %0 :+ 4, %1, %1] : tile<i16>[4, 1]\n"
    "    store %t[%0 :+ 4, %1, %1, %0] = %4\n    %5 = load %t[%0, %0, %0 :+ 4, %1] : tile<i16>[4, 1]\n    store %t[%1, %1, %0 :+ 4, %0] = %5\n",
    /* where we are */
    "    %0 = ctx.block.x : i64\n    %1 = ctx.grid.x : i64\n    %2 = extent %a, 1 : i64\n    %3 = origin %a, 0 : i64\n    %4 = whole %b, 1 : i64\n"
    "    %5 = dim M * N - ceildiv(N, 3) : i64\n    %6 = add %1, %2 : i64\n    %7 = mul %3, %4 : i64\n    %8 = add %6, %7 : i64\n"
    "    %9 = sub %8, %5 : i64\n    %10 = convert %9 : i32\n    store %v[%0] = %10\n",
};
enum { BODIES = sizeof bodies / sizeof *bodies };

START_TEST(loads_and_stores_keep_their_order) {
    Buffer text = {0};
    buffer_puts(&text, "phobos-ir 1\nfile \"order.phb\"\n\nkernel order\n    dim M\n    dim N\n    param a: tensor<i32>[M, N]\n"
                       "    param b: tensor<i32>[M, N]\n    param v: tensor<i32>[N]\n    param t: tensor<i16>[M, N, M, N]\n    param s: i32\n{\n");
    buffer_puts(&text, bodies[_i]);
    buffer_puts(&text, "    return\n}\n");
    for (int optimise = 0; optimise <= 2; optimise += 2) {
        Compiled *compiled = compiled_new(text.data, optimise, LEVELS);
        static const int64_t sizes[][2] = {{8, 24}, {4, 16}, {3, 11}, {1, 1}};
        for (int i = 0; i < 4; i++) {
            int64_t m = sizes[i][0], n = sizes[i][1];
            const int64_t extents[4][PHB_MAX_RANK] = {{m, n}, {m, n}, {n}, {m, n, m, n}};
            Trial *trial = trial_new(compiled, 0, extents, (uint64_t)(10 * _i + i));
            trial->scalars[0] = 0xfffffff9u;
            trial->launch.grid[0] = 3;
            trial_check(trial);
            trial_free(trial);
        }
        compiled_free(compiled);
    }
    buffer_free(&text);
}
END_TEST

/* ---- random kernels ---- */

/* Writes kernels of a few tensors, tiles of one shape, slices that overlap and run over edges. */
typedef struct Writer {
    Buffer text;
    uint64_t state;
    int next; /* value number */
    PhbDType dtype;
    int64_t rows, columns;
    int ranks[3];
    int offsets[6], tiles[16], tile_count; /* value numbers; tiles are rows x columns */
} Writer;

static int below(Writer *w, int limit) {
    return (int)(random_next(&w->state) % (uint64_t)limit);
}

static void print_tile_type(Writer *w, int64_t rows, int64_t columns) {
    buffer_printf(&w->text, "tile<%s>[%ld, %ld]", dtype_name(w->dtype), (long)rows, (long)columns);
}

/* Prints the subscripts of tensor `t`: the last two axes that are no points are rows and columns; either may be a point of extent 1 instead. */
static void print_subscripts(Writer *w, int t, bool row_point, bool column_point) {
    int rank = w->ranks[t], row_axis = rank - 2, column_axis = rank - 1;
    if (rank == 4 && below(w, 2))
        row_axis = below(w, 2);
    if (rank > 2 && below(w, 4) == 0 && !row_point && !column_point) {
        column_axis = rank - 2;
        row_axis = rank - 3;
    }
    buffer_printf(&w->text, "%%t%d[", t);
    for (int axis = 0; axis < rank; axis++) {
        buffer_printf(&w->text, "%s%%%d", axis ? ", " : "", w->offsets[below(w, 6)]);
        if (axis == row_axis && !row_point)
            buffer_printf(&w->text, " :+ %ld", (long)w->rows);
        else if (axis == column_axis && !column_point)
            buffer_printf(&w->text, " :+ %ld", (long)w->columns);
    }
    buffer_puts(&w->text, "]");
}

static int write_load(Writer *w, int t) {
    /* A point axis drops where the rank leaves a choice, so rows and columns that are points are kept to rank 2. */
    bool may_point = w->ranks[t] == 2;
    bool row_point = may_point && below(w, 4) == 0, column_point = may_point && !row_point && below(w, 4) == 0;
    buffer_printf(&w->text, "    %%%d = load ", w->next);
    print_subscripts(w, t, row_point, column_point);
    buffer_puts(&w->text, " : ");
    print_tile_type(w, row_point ? 1 : w->rows, column_point ? 1 : w->columns);
    buffer_puts(&w->text, "\n");
    int value = w->next++;
    if (!row_point && !column_point)
        return value;
    buffer_printf(&w->text, "    %%%d = broadcast %%%d : ", w->next, value);
    print_tile_type(w, w->rows, w->columns);
    buffer_puts(&w->text, "\n");
    return w->next++;
}

static void write_statement(Writer *w) {
    int choice = w->tile_count < 2 ? 0 : below(w, 3);
    if (choice == 0 && w->tile_count < 16) {
        w->tiles[w->tile_count++] = write_load(w, below(w, 3));
    } else if (choice == 1 && w->tile_count < 16) {
        static const char *const ops[] = {"add", "sub", "mul"};
        buffer_printf(
            &w->text, "    %%%d = %s %%%d, %%%d : ", w->next, ops[below(w, 3)], w->tiles[below(w, w->tile_count)], w->tiles[below(w, w->tile_count)]);
        print_tile_type(w, w->rows, w->columns);
        buffer_puts(&w->text, "\n");
        w->tiles[w->tile_count++] = w->next++;
    } else {
        buffer_puts(&w->text, "    store ");
        print_subscripts(w, below(w, 3), false, false);
        buffer_printf(&w->text, " = %%%d\n", w->tiles[below(w, w->tile_count)]);
    }
}

static void write_kernel(Writer *w, int number) {
    static const int64_t row_counts[] = {1, 2, 3, 5, 8}, column_counts[] = {1, 3, 8, 16, 33};
    static const int64_t near[] = {0, 0, 1, 2, -1, -3, 4, 7, 15, 16, INT64_MIN, INT64_MAX};
    w->dtype = (PhbDType)(number % (PHB_DTYPE_COUNT - 1)); /* not bool, which has no arithmetic */
    w->next = w->tile_count = 0;
    /* Extents of 1 drop where there is a choice of axes; rank 2 leaves none. */
    w->rows = row_counts[below(w, 5)];
    w->columns = column_counts[below(w, 5)];
    buffer_printf(&w->text, "kernel k%d\n    param s: i64\n", number);
    for (int t = 0; t < 3; t++) {
        w->ranks[t] = w->rows == 1 || w->columns == 1 ? 2 : 2 + below(w, 3);
        buffer_printf(&w->text, "    param t%d: tensor<%s>[", t, dtype_name(w->dtype));
        for (int axis = 0; axis < w->ranks[t]; axis++)
            buffer_printf(&w->text, "%s%s", axis ? ", " : "", axis == w->ranks[t] - 1 ? "40" : "6");
        buffer_puts(&w->text, "]\n");
    }
    buffer_puts(&w->text, "{\n    %0 = ctx.block.x : i64\n    %1 = ctx.block.y : i64\n");
    w->next = 2;
    w->offsets[0] = 0;
    w->offsets[1] = 1;
    for (int i = 2; i < 6; i++) {
        int64_t offset = near[below(w, below(w, 4) ? 10 : 12)];
        buffer_printf(&w->text, "    %%%d = const %ld : i64\n", w->next, (long)offset);
        w->offsets[i] = w->next++;
    }
    for (int i = 4 + below(w, 12); i > 0; i--)
        write_statement(w);
    if (w->tile_count == 0)
        w->tiles[w->tile_count++] = write_load(w, 0);
    buffer_puts(&w->text, "    store ");
    print_subscripts(w, 2, false, false);
    buffer_printf(&w->text, " = %%%d\n    return\n}\n\n", w->tiles[w->tile_count - 1]);
}

START_TEST(random_kernels) {
    enum { KERNELS = 13 };
    Writer writer = {.state = (uint64_t)_i};
    buffer_puts(&writer.text, "phobos-ir 1\nfile \"random.phb\"\n\n");
    int ranks[KERNELS][3];
    for (int k = 0; k < KERNELS; k++) {
        write_kernel(&writer, k);
        memcpy(ranks[k], writer.ranks, sizeof ranks[k]);
    }
    Compiled *compiled = compiled_new(writer.text.data, _i % 4, LEVELS);
    for (int k = 0; k < KERNELS; k++) {
        int64_t extents[3][PHB_MAX_RANK];
        for (int t = 0; t < 3; t++)
            for (int axis = 0; axis < PHB_MAX_RANK; axis++)
                extents[t][axis] = axis == ranks[k][t] - 1 ? 40 : 6;
        Trial *trial = trial_new(compiled, k, (const int64_t(*)[PHB_MAX_RANK])extents, (uint64_t)(1000 * _i + k));
        trial->launch.grid[0] = 3;
        trial->launch.grid[1] = 2;
        trial_check(trial);
        trial_free(trial);
    }
    compiled_free(compiled);
    buffer_free(&writer.text);
}
END_TEST

/* ---- tables ---- */

static void check_expr(const PhbExpr *expr, const char *text, int count, const int32_t *ops) {
    ck_assert_str_eq(expr->text, text);
    ck_assert_int_eq(expr->count, count);
    for (int i = 0; i < count; i++)
        ck_assert_int_eq(expr->nodes[i].op, ops[i]);
}

START_TEST(tables_say_what_the_kernel_declares) {
    Compiled *compiled =
        compiled_new("phobos-ir 1\nfile \"tables.phb\"\n\nkernel scale !7:8+5\n    dim M\n    dim N\n    param alpha: f16\n"
                     "    param a: tensor<bf16>[M, N + 2]\n    param n: i32\n    param c: tensor<f64>[N]\n    grid x ceildiv(extent(c, 0), 8)\n"
                     "    grid x ceildiv(extent(a, 1), 8)\n    aligned M = 2\n    require 4 < N\n{\n    return\n}\n",
            2, LEVELS);
    const PhbProgram *program = compiled->program;
    ck_assert_int_eq(program->abi_version, PHB_ABI_VERSION);
    ck_assert_mem_eq(program->build_id, ((uint8_t[16]){1, 2, 3}), 16);
    ck_assert_str_eq(program->file, "tables.phb");
    ck_assert_str_eq(program->compiler, "phobosc test");
    ck_assert_int_eq(program->kernel_count, 1);
    const PhbKernel *kernel = &program->kernels[0];
    ck_assert_str_eq(kernel->name, "scale");
    ck_assert_str_eq(kernel->source, "tables.phb:7:8");
    ck_assert_int_eq(kernel->dim_count, 2);
    ck_assert_str_eq(kernel->dims[1].name, "N");
    ck_assert_int_eq(kernel->dims[1].grid_axis, -1);
    ck_assert_int_eq(kernel->tensor_count, 2);
    ck_assert_str_eq(kernel->tensors[0].name, "a");
    ck_assert_int_eq(kernel->tensors[0].dtype, PHB_BF16);
    ck_assert_int_eq(kernel->tensors[0].rank, 2);
    ck_assert_int_eq(kernel->tensors[0].mode, PHB_READ_WRITE);
    check_expr(&kernel->tensors[0].axes[1].extent, "N + 2", 3, (int32_t[]){PHB_EXPR_DIM, PHB_EXPR_INT, PHB_EXPR_ADD});
    ck_assert_int_eq(kernel->tensors[0].axes[1].extent.nodes[0].index, 1);
    ck_assert_int_eq(kernel->tensors[0].axes[1].extent.nodes[1].value, 2);
    ck_assert_int_eq(kernel->scalar_count, 2);
    ck_assert_str_eq(kernel->scalars[1].name, "n");
    ck_assert_int_eq(kernel->scalars[1].dtype, PHB_I32);
    check_expr(&kernel->grid[0].leaf, "ceildiv(extent(c, 0), 8)", 3, (int32_t[]){PHB_EXPR_EXTENT, PHB_EXPR_INT, PHB_EXPR_CEILDIV});
    ck_assert_int_eq(kernel->grid[0].leaf.nodes[0].index, 1);
    check_expr(&kernel->grid[1].leaf, "1", 1, (int32_t[]){PHB_EXPR_INT});
    ck_assert_int_eq(kernel->leaf_check_count, 3);
    ck_assert_ptr_nonnull(strstr(kernel->leaf_checks[0].message, "ceildiv(extent(a, 1), 8)"));
    ck_assert_ptr_nonnull(strstr(kernel->leaf_checks[1].message, "multiple of 2"));
    ck_assert_str_eq(kernel->leaf_checks[2].message, "@require(4 < N) does not hold");
    ck_assert_int_eq(kernel->variant_count, 1);
    ck_assert_int_ge(kernel->variants[0].cpu_count, 1);
    ck_assert_str_eq(kernel->variants[0].cpu[0].level, "x86-64-v2");
    compiled_free(compiled);
}
END_TEST

START_TEST(output_is_the_same_each_time) {
    for (int output = CODEGEN_LLVM; output <= CODEGEN_OBJECT; output++) {
        char *messages[2];
        Buffer first = compile_object(copy_text, (CodegenOutput)output, 2, LEVELS, &messages[0]);
        Buffer second = compile_object(copy_text, (CodegenOutput)output, 2, LEVELS, &messages[1]);
        ck_assert_uint_gt(first.length, 0);
        ck_assert_uint_eq(first.length, second.length);
        ck_assert_mem_eq(first.data, second.data, first.length);
        buffer_free(&first);
        buffer_free(&second);
        free(messages[0]);
        free(messages[1]);
    }
}
END_TEST

/* 4 GiB that would have to be copied. */
START_TEST(a_copy_that_is_too_large_is_refused) {
    char *messages;
    Buffer object =
        compile_object("phobos-ir 1\nfile \"large.phb\"\n\nkernel large\n    dim N\n    param a: tensor<f32>[N]\n{\n    %0 = const 0 : i64\n"
                       "    %1 = const 1 : i64\n    %2 = load %a[%0 :+ 1073741824] : tile<f32>[1073741824] !4:5+6\n"
                       "    store %a[%1 :+ 1073741824] = %2\n    return\n}\n",
            CODEGEN_OBJECT, 2, LEVELS, &messages);
    ck_assert_uint_eq(object.length, 0);
    ck_assert_ptr_nonnull(strstr(messages, "error: the tiles of kernel 'large' that must be kept in memory take more than 1024 MiB"));
    free(messages);
    buffer_free(&object);
}
END_TEST

static void add_case(Suite *suite, const char *name, const TTest *test, int count) {
    TCase *tests = tcase_create(name);
    tcase_set_timeout(tests, 300);
    tcase_add_loop_test(tests, test, 0, count);
    suite_add_tcase(suite, tests);
}

int main(void) {
    Suite *suite = suite_create("codegen");
    add_case(suite, "ops", every_op_on_every_type, PHB_DTYPE_COUNT);
    add_case(suite, "conversions", every_conversion, PHB_DTYPE_COUNT);
    add_case(suite, "edges", edges_on_every_side, 4);
    add_case(suite, "order", loads_and_stores_keep_their_order, BODIES);
    add_case(suite, "random", random_kernels, 6);
    add_case(suite, "tables", tables_say_what_the_kernel_declares, 1);
    add_case(suite, "determinism", output_is_the_same_each_time, 1);
    add_case(suite, "limits", a_copy_that_is_too_large_is_refused, 1);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
