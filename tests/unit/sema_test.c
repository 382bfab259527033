/* Typing rules as tables: promotion, stores, literals, set expansion, types of expressions, and launch grids. Messages are under tests/diag/sema. */
#include "compiler/sema/check.h"
#include "tests/unit/front_fixture.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* ---- element types ---- */

static PhbDType dtype(const char *name) {
    PhbDType found = PHB_F32;
    ck_assert_msg(dtype_find(name, &found), "no type %s", name);
    return found;
}

/* Rows and columns in this order; '-' is an error. */
static const char *const order[] = {"i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64"};
static const char *const promotion[12][12] = {
    {"i8", "i16", "i16", "i32", "i32", "i64", "i64", "-", "f16", "bf16", "f32", "f64"},
    {"i16", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64"},
    {"i16", "i16", "i16", "i32", "i32", "i64", "i64", "-", "f16", "bf16", "f32", "f64"},
    {"i32", "u16", "i32", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64"},
    {"i32", "i32", "i32", "i32", "i32", "i64", "i64", "-", "f16", "bf16", "f32", "f64"},
    {"i64", "u32", "i64", "u32", "i64", "u32", "i64", "u64", "f16", "bf16", "f32", "f64"},
    {"i64", "i64", "i64", "i64", "i64", "i64", "i64", "-", "f16", "bf16", "f32", "f64"},
    {"-", "u64", "-", "u64", "-", "u64", "-", "u64", "f16", "bf16", "f32", "f64"},
    {"f16", "f16", "f16", "f16", "f16", "f16", "f16", "f16", "f16", "f32", "f32", "f64"},
    {"bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "f32", "bf16", "f32", "f64"},
    {"f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f64"},
    {"f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64"},
};

START_TEST(promotes_by_the_table) {
    for (int a = 0; a < 12; a++)
        for (int b = 0; b < 12; b++) {
            PhbDType result;
            bool found = dtype_promote(dtype(order[a]), dtype(order[b]), &result);
            const char *name = found ? dtype_name(result) : "-";
            ck_assert_msg(strcmp(name, promotion[a][b]) == 0, "%s with %s: expected %s, found %s", order[a], order[b], promotion[a][b], name);
        }
}
END_TEST

START_TEST(bool_is_promoted_with_nothing) {
    PhbDType result;
    for (int i = 0; i < PHB_DTYPE_COUNT; i++) {
        ck_assert(!dtype_promote(PHB_BOOL, (PhbDType)i, &result));
        ck_assert(!dtype_promote((PhbDType)i, PHB_BOOL, &result));
    }
}
END_TEST

/* What a store converts by itself, as "from>to"; every other pair of different types is written out. */
static const char *const stores[] = {
    "i8>i16",
    "i8>i32",
    "i8>i64",
    "i16>i32",
    "i16>i64",
    "i32>i64",
    "u8>u16",
    "u8>u32",
    "u8>u64",
    "u8>i16",
    "u8>i32",
    "u8>i64",
    "u16>u32",
    "u16>u64",
    "u16>i32",
    "u16>i64",
    "u32>u64",
    "u32>i64",
    "f16>bf16",
    "f16>f32",
    "f16>f64",
    "bf16>f16",
    "bf16>f32",
    "bf16>f64",
    "f32>f16",
    "f32>bf16",
    "f32>f64",
    "f64>f16",
    "f64>bf16",
    "f64>f32",
};

START_TEST(stores_narrow_floats_and_widen_ints) {
    for (int from = 0; from < PHB_DTYPE_COUNT; from++)
        for (int to = 0; to < PHB_DTYPE_COUNT; to++) {
            char pair[32];
            snprintf(pair, sizeof pair, "%s>%s", dtype_name((PhbDType)from), dtype_name((PhbDType)to));
            bool expected = from == to;
            for (size_t i = 0; i < sizeof stores / sizeof *stores; i++)
                expected = expected || strcmp(stores[i], pair) == 0;
            ck_assert_msg(dtype_stores((PhbDType)from, (PhbDType)to) == expected, "%s", pair);
        }
}
END_TEST

static const struct {
    const char *type;
    bool negative;
    uint64_t magnitude;
    bool holds;
} held[] = {
    {"i8", false, 127, true},
    {"i8", false, 128, false},
    {"i8", true, 128, true},
    {"i8", true, 129, false},
    {"u8", false, 255, true},
    {"u8", false, 256, false},
    {"u8", true, 0, true},
    {"u8", true, 1, false},
    {"i64", false, INT64_MAX, true},
    {"i64", false, UINT64_C(1) << 63, false},
    {"i64", true, UINT64_C(1) << 63, true},
    {"i64", true, (UINT64_C(1) << 63) + 1, false},
    {"u64", false, UINT64_MAX, true},
    {"f16", false, 2048, true},
    {"f16", false, 2049, false},
    {"f16", true, 65504, true},
    {"f16", false, 65536, false},
    {"bf16", false, 256, true},
    {"bf16", false, 257, false},
    {"bf16", false, UINT64_C(1) << 63, true},
    {"f32", false, 16777216, true},
    {"f32", false, 16777217, false},
    {"f64", false, (UINT64_C(1) << 53) + 1, false},
    {"f64", true, UINT64_C(1) << 53, true},
    {"bool", false, 1, false},
};

START_TEST(types_hold_integers) {
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        ck_assert_msg(dtype_holds(dtype(held[i].type), held[i].negative, held[i].magnitude) == held[i].holds, "row %zu", i);
}
END_TEST

START_TEST(types_reach_floats) {
    ck_assert(dtype_reaches(PHB_F16, 65519.99));
    ck_assert(!dtype_reaches(PHB_F16, -65520.0));
    ck_assert(dtype_reaches(PHB_BF16, 0x1.fep127));
    ck_assert(!dtype_reaches(PHB_BF16, 0x1.ffp127));
    ck_assert(dtype_reaches(PHB_F32, 0x1.fffffep127));
    ck_assert(!dtype_reaches(PHB_F32, 0x1.ffffffp127));
    ck_assert(dtype_reaches(PHB_F64, 0x1.fffffffffffffp1023));
    ck_assert(dtype_reaches(PHB_F16, strtod("inf", NULL)));
}
END_TEST

/* ---- search sets ---- */

static const struct {
    int count;
    int64_t values[4];
    const char *expanded;
} sets[] = {
    {2, {16, 256}, "16 32 64 128 256"},
    {2, {64, 200}, "64 128 200"},
    {2, {3, 4}, "3 4"},
    {2, {3, 6}, "3 6"},
    {2, {1, 8}, "1 2 4 8"},
    {2, {256, 16}, "256 16"},
    {1, {16}, "16"},
    {3, {16, 32, 256}, "16 32 256"},
    {4, {8, 1, 4, 2}, "8 1 4 2"},
    {2, {INT64_MAX / 2, INT64_MAX}, "4611686018427387903 9223372036854775806 9223372036854775807"},
    {2, {INT64_MAX - 1, INT64_MAX}, "9223372036854775806 9223372036854775807"},
};

START_TEST(sets_expand) {
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        Arena *arena = arena_new();
        Buffer text = {0};
        int count;
        int64_t *values = search_set_expand(arena, sets[i].values, sets[i].count, &count);
        for (int k = 0; k < count; k++)
            buffer_printf(&text, "%s%lld", k ? " " : "", (long long)values[k]);
        ck_assert_str_eq(text.data, sets[i].expanded);
        buffer_free(&text);
        arena_free(arena);
    }
}
END_TEST

/* ---- whole kernels ---- */

typedef struct Checked {
    Front front;
    CheckedProgram *program;
} Checked;

static void check_text(Checked *checked, const char *text, const SemaOptions *options) {
    front_init(&checked->front, text, strlen(text));
    Context *context = &checked->front.context;
    context->dims = dim_pool_new(context->arena);
    context->types = type_pool_new(context->arena);
    Ast *ast = parse_source(context);
    checked->program = sema_check(context, ast, options);
    front_finish(&checked->front);
}

static void checked_fini(Checked *checked) {
    front_fini(&checked->front);
}

static const SemaOptions no_options = {0};

/* The type of a let's value, or "error: " and a part of the message. */
static const struct {
    const char *expr;
    const char *type;
} exprs[] = {
    {"1", "i64"},
    {"1.0", "f32"},
    {"true", "bool"},
    {"1 + 2.0", "f32"},
    {"1 < 2.0", "bool"},
    {"1 / 3 * d", "f64"},
    {"x8 + 1", "i8"},
    {"x8 + 127", "i8"},
    {"x8 + 128", "error: 'i8' does not hold 128"},
    {"1.5 + x8", "f32"},
    {"x8 * 1.5 + h", "f32"},
    {"u8v - 1", "u8"},
    {"u8v + -1", "error: 'u8' does not hold -1"},
    {"h * 2.5", "f16"},
    {"h + 0.1 * 3", "f16"},
    {"h + bh", "f32"},
    {"h + bh * d", "f64"},
    {"h + x64", "f16"},
    {"u32v + x8", "i64"},
    {"u64v + 1", "u64"},
    {"u64v + x8", "error: no type holds both"},
    {"u64v + B", "error: no type holds both"},
    {"u64v < 3", "bool"},
    {"x8 << 1", "i8"},
    {"x8 & ~0", "i8"},
    {"~0 + 1.5", "f32"},
    {"1 & 1.0", "error: needs integers"},
    {"-x8", "i8"},
    {"-u64v", "u64"},
    {"!b && b || true", "bool"},
    {"b & b ^ true", "bool"},
    {"b + b", "error: bool has no arithmetic"},
    {"!x8", "error: '!' needs 'bool'"},
    {"f32(x8)", "f32"},
    {"u8(300)", "u8"},
    {"u64(18446744073709551615)", "u64"},
    {"i8(1.5)", "i8"},
    {"bool(x8)", "bool"},
    {"B * 2 + N", "i64"},
    {"ceildiv(x8, 3)", "i8"},
    {"ceildiv(x8, u8v)", "i16"},
    {"ctx.block.x + ctx.grid.y - program_id(0)", "i64"},
    {"extent(m, 1)", "i64"},
    {"m[1, 2]", "f32"},
    {"m[1, 0 :+ B]", "tile<f32>[1, B]"},
    {"m[0 :+ B, 1]", "tile<f32>[B, 1]"},
    {"m[0 :+ B, 1] * m[1, 0 :+ C]", "tile<f32>[B, C]"},
    {"v[0 :+ C] + m[0 :+ B, 0 :+ C] < 1", "tile<bool>[B, C]"},
    {"v[x8 : x8 + 1]", "error: not static"},
    {"v[x64 : 2 + x64 + B]", "tile<f32>[B + 2]"},
    {"v[N - C :]", "tile<f32>[C]"},
    {"q[1, 2, 0 :+ B]", "tile<f32>[1, B]"},
    {"q[1, 0 :+ H, 0 :+ B]", "tile<f32>[H, B]"},
    {"q[0 :+ H, 0 :+ B, :]", "tile<f32>[B, 64]"},
    {"q[0 :+ 2, 0 :+ H, 0 :+ B]", "tile<f32>[2, B]"},
    {"q[0 :+ 2, 0 :+ 2, 0 :+ B]", "error: a tile has at most 2"},
    {"f16(m[0 :+ B, 0 :+ C])", "tile<f16>[B, C]"},
    {"m[0 :+ B, 0 :+ C] + m[0 :+ B, 0 :+ 32]", "tile<f32>[B, C]"},
    {"m[0 :+ B, 0 :+ C] + m[0 :+ 16, 0 :+ C]", "error: where B is 64"},
    {"exp(h)", "f16"},
    {"exp(2)", "f32"},
    {"max(1, 2)", "i64"},
    {"tmax(x8, u8v)", "i16"},
    {"pow(h, bh)", "f32"},
    {"fma(1, 2, d)", "f64"},
    {"where(b, 1, x8)", "i8"},
    {"where(v[0 :+ B] > 0, h, 1)", "tile<f16>[B]"},
    {"bitcast(h, i16)", "i16"},
    {"iota(B + C)", "tile<i32>[B + C]"},
    {"reshape(iota(B * C), C, B)", "tile<i32>[C, B]"},
    {"reshape(iota(B), C, B)", "error: keeps the number of elements"},
    {"transpose(v[0 :+ B])", "tile<f32>[B, 1]"},
    {"tril(v[0 :+ B], x8)", "tile<f32>[1, B]"},
    {"rowsum(f16(m[0 :+ B, 0 :+ C]))", "tile<f32>[B, 1]"},
    {"colsum(u8(m[0 :+ B, 0 :+ C]))", "tile<i32>[1, C]"},
    {"rowmax(f16(m[0 :+ B, 0 :+ C]))", "tile<f16>[B, 1]"},
    {"rowargmax(m[0 :+ B, 0 :+ C])", "tile<i32>[B, 1]"},
    {"cumsum(bf16(v[0 :+ B]))", "tile<f32>[B]"},
    {"sum(i64(v[0 :+ B]))", "i64"},
    {"max(u16(v[0 :+ B]))", "u16"},
    {"any(v[0 :+ B] > 0)", "bool"},
    {"dot(m[0 :+ B, 0 :+ C], f16(m[0 :+ C, 0 :+ B]))", "tile<f32>[B, B]"},
    {"dot_t(i8(m[0 :+ B, 0 :+ C]), i8(v[0 :+ C]))", "tile<i32>[B, 1]"},
    {"dot(f64(v[0 :+ C]), m[0 :+ C, 0 :+ B])", "tile<f64>[1, B]"},
    {"dot(m[0 :+ B, 0 :+ C], m[0 :+ B, 0 :+ C])", "error: sums over extents that differ"},
    {"9223372036854775807 + 1 - 1", "i64"},
    {"9223372036854775807 + 1", "error: 'i64' does not hold 9223372036854775808"},
};

START_TEST(expressions_have_types) {
    for (size_t i = 0; i < sizeof exprs / sizeof *exprs; i++) {
        char text[1024];
        snprintf(text, sizeof text,
            "@autotune(B in [16, 64, 32], C in [32], H in [1])\n@grid(1)\n"
            "kernel k(h: f16, bh: bf16, d: f64, x8: i8, u8v: u8, u32v: u32, x64: i64, u64v: u64, b: bool,\n"
            "    v: tensor<f32>[N], m: tensor<f32>[M, N], q: tensor<f32>[L, M, 64]) {\n    let r = %s\n}\n",
            exprs[i].expr);
        Checked checked;
        check_text(&checked, text, &no_options);
        const char *expected = exprs[i].type, *messages = checked.front.messages;
        if (strncmp(expected, "error: ", 7) == 0) {
            ck_assert_msg(
                strstr(messages, "error: ") && strstr(messages, expected + 7), "%s: expected %s, found %s", exprs[i].expr, expected, messages);
        } else {
            Buffer type = {0};
            type_print(&type, checked.program->kernels.items[0]->decl->body.items[0]->symbol->type);
            ck_assert_msg(!strstr(messages, "error: "), "%s: %s", exprs[i].expr, messages);
            ck_assert_msg(strcmp(type.data, expected) == 0, "%s: expected %s, found %s", exprs[i].expr, expected, type.data);
            buffer_free(&type);
        }
        checked_fini(&checked);
    }
}
END_TEST

/* Statements after the head below, and the counts of CTAs along x, then y: "x: a, b; y: c"; or "error". */
static const struct {
    const char *body;
    const char *grid;
} grids[] = {
    {"c[ctx.block.x * B :+ B] = 1.0", "x: ceildiv(extent(c, 0), B)"},
    {"c[B * ctx.block.x :+ B] = 1.0", "x: ceildiv(extent(c, 0), B)"},
    {"c[ctx.block.x] = 1.0", "x: extent(c, 0)"},
    {"c[program_id(0) * 4 :+ B] = 1.0", "x: ceildiv(extent(c, 0), 4)"},
    {"let i = ctx.block.x; var j = i * B; c[j :+ B] = 1.0", "x: ceildiv(extent(c, 0), B)"},
    {"var i = ctx.block.x * B; i += 1; c[i :+ B] = 1.0", "error"},
    {"c[ctx.block.x * B + 1 :+ B] = 1.0", "error"},
    {"c[ctx.block.x :+ B] = 1.0", "error"},
    {"c[ctx.block.x * B :+ B] = f32(ctx.block.y)", "error"},
    {"c[0 :+ B] = a[ctx.block.x * B :+ B]", "x: ceildiv(extent(a, 0), B)"},
    {"c[ctx.block.x * B :+ B] = a[ctx.block.x * 2 :+ B]", "x: ceildiv(extent(c, 0), B)"},
    {"c[ctx.block.x * B :+ B] = 1.0; d[ctx.block.x * B :+ B] = 2.0", "x: ceildiv(extent(c, 0), B)"},
    {"c[ctx.block.x * B :+ B] = 1.0; a[ctx.block.x * B :+ B] = 2.0", "x: ceildiv(extent(c, 0), B), ceildiv(extent(a, 0), B)"},
    {"c[ctx.block.x * B * 2 :+ B] = 1.0; c[ctx.block.x * B * 2 + B :+ B] = 1.0", "x: ceildiv(extent(c, 0), B * 2)"},
    {"m[ctx.block.y * B :+ B, ctx.block.x] = 1.0", "x: extent(m, 1); y: ceildiv(extent(m, 0), B)"},
    {"c[ctx.block.x * 0 :+ B] = 1.0", "error"},
};

START_TEST(grids_are_inferred) {
    for (size_t i = 0; i < sizeof grids / sizeof *grids; i++) {
        char text[1024];
        snprintf(text, sizeof text,
            "@autotune(B in [16, 64])\nkernel k(a: tensor<f32>[M], c: tensor<f32>[N], d: tensor<f32>[N], m: tensor<f32>[M, N]) {\n%s\n}\n",
            grids[i].body);
        Checked checked;
        check_text(&checked, text, &no_options);
        Buffer found = {0};
        buffer_puts(&found, "");
        const Signature *signature = &checked.program->kernels.items[0]->signature;
        for (int axis = 0; axis < 3; axis++)
            for (int k = 0; k < signature->grid[axis].counts.count; k++) {
                if (k == 0)
                    buffer_printf(&found, "%s%c: ", found.length ? "; " : "", 'x' + axis);
                else
                    buffer_puts(&found, ", ");
                dim_print(&found, signature->grid[axis].counts.items[k]);
            }
        if (strcmp(grids[i].grid, "error") == 0)
            ck_assert_msg(diag_error_count(checked.front.context.diag) == 1, "%s: %s", grids[i].body, checked.front.messages);
        else
            ck_assert_msg(strcmp(found.data, grids[i].grid) == 0, "%s: expected %s, found %s\n%s", grids[i].body, grids[i].grid, found.data,
                checked.front.messages);
        buffer_free(&found);
        checked_fini(&checked);
    }
}
END_TEST

START_TEST(defines_replace_sets) {
    static const Define defines[] = {{DEFINE_BOTH, "A", 7}, {DEFINE_LEAF, "B", 8}, {DEFINE_CLUSTER, "C", 9}, {DEFINE_BOTH, "D", 10}};
    const SemaOptions options = {.defines = defines, .define_count = 4};
    Checked checked;
    check_text(&checked,
        "@cluster(A in [64], B in [64, 128], C in [64]) @autotune(A in [1, 4], B in [1, 4], C in [1, 4], D in [1, 4])\n"
        "kernel k(c: tensor<i64>[16]) {\n    c[:] = A + B + C + D\n}\n",
        &options);
    ck_assert_str_eq(checked.front.messages, "");
    Buffer text = {0};
    const Signature *signature = &checked.program->kernels.items[0]->signature;
    for (int i = 0; i < signature->search.count; i++) {
        const SearchDim *dim = &signature->search.items[i];
        buffer_printf(&text, "%s:", dim->name);
        for (int k = 0; k < dim->leaf.count; k++)
            buffer_printf(&text, " %lld", (long long)dim->leaf.items[k]);
        buffer_puts(&text, " |");
        for (int k = 0; k < dim->cluster.count; k++)
            buffer_printf(&text, " %lld", (long long)dim->cluster.items[k]);
        buffer_puts(&text, "\n");
    }
    ck_assert_str_eq(text.data, "A: 7 | 7\nB: 8 | 64 128\nC: 1 2 4 | 9\nD: 10 |\n");
    buffer_free(&text);
    checked_fini(&checked);
}
END_TEST

START_TEST(no_cluster_drops_the_second_reading) {
    const SemaOptions options = {.no_cluster = true};
    Checked checked;
    check_text(&checked, "@cluster(B in [64]) @autotune(B in [16])\nkernel k(c: tensor<f32>[N]) {\n    c[ctx.block.x * B :+ B] = 1.0\n}\n", &options);
    const Signature *signature = &checked.program->kernels.items[0]->signature;
    ck_assert_str_eq(checked.front.messages, "");
    ck_assert(!signature->has_cluster);
    ck_assert_int_eq(signature->search.items[0].cluster.count, 0);
    checked_fini(&checked);
}
END_TEST

START_TEST(dims_stand_in_order_of_appearance) {
    Checked checked;
    check_text(&checked, "kernel k(a: tensor<f32>[N + K - 1, M], b: tensor<f32>[L, N]) {\n    a[0, 0] = b[0, 0]\n}\n", &no_options);
    const Signature *signature = &checked.program->kernels.items[0]->signature;
    ck_assert_str_eq(checked.front.messages, "");
    ck_assert_int_eq(signature->symbolic.count, 4);
    static const char *const names[] = {"N", "K", "M", "L"};
    for (int i = 0; i < 4; i++)
        ck_assert_str_eq(signature->symbolic.items[i], names[i]);
    checked_fini(&checked);
}
END_TEST

/* A chain of lets, each twice the one before: looking through them may not double the work each time. */
START_TEST(long_chains_of_lets_are_cheap) {
    Buffer text = {0};
    buffer_puts(&text, "kernel k(n: i64, c: tensor<f32>[N]) {\n    let x0 = n\n");
    for (int i = 1; i < 200; i++)
        buffer_printf(&text, "    let x%d = x%d * x%d + ctx.block.x\n", i, i - 1, i - 1);
    buffer_puts(&text, "    c[x199 : x199 + 4] = 1.0\n    c[ctx.block.x * 4 :+ 4] = 1.0\n}\n");
    Checked checked;
    check_text(&checked, text.data, &no_options);
    ck_assert_str_eq(checked.front.messages, "");
    checked_fini(&checked);
    buffer_free(&text);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("sema");
    TCase *rules = tcase_create("rules");
    tcase_add_test(rules, promotes_by_the_table);
    tcase_add_test(rules, bool_is_promoted_with_nothing);
    tcase_add_test(rules, stores_narrow_floats_and_widen_ints);
    tcase_add_test(rules, types_hold_integers);
    tcase_add_test(rules, types_reach_floats);
    tcase_add_test(rules, sets_expand);
    suite_add_tcase(suite, rules);
    TCase *kernels = tcase_create("kernels");
    tcase_add_test(kernels, expressions_have_types);
    tcase_add_test(kernels, grids_are_inferred);
    tcase_add_test(kernels, defines_replace_sets);
    tcase_add_test(kernels, no_cluster_drops_the_second_reading);
    tcase_add_test(kernels, dims_stand_in_order_of_appearance);
    tcase_add_test(kernels, long_chains_of_lets_are_cheap);
    suite_add_tcase(suite, kernels);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
