/* How values vary, LANGUAGE.md 7, as tables: the variance of a variable, and which stores happen once per CTA. Messages are under tests/diag/uniform.
 */
#include "compiler/sema/check.h"
#include "tests/unit/front_fixture.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const char *const variance_names[] = {"cluster-uniform", "uniform", "warp-uniform", "per lane"};

/* Statements of a kernel, and how its variable `x` varies. */
static const struct {
    const char *body;
    Variance variance;
} variables[] = {
    {"let x = 1", CLUSTER_UNIFORM},
    {"let x = n", CLUSTER_UNIFORM},
    {"let x = N * B", CLUSTER_UNIFORM},
    {"let x = ctx.grid.x + ctx.super.y + ctx.supers.z", CLUSTER_UNIFORM},
    {"let x = ctx.threads", CLUSTER_UNIFORM},
    {"let x = ctx.cluster.size", CLUSTER_UNIFORM},
    {"let x = extent(a, 0) + origin(a, 0) + whole(a, 0)", CLUSTER_UNIFORM},
    {"let x = cluster_mask()", CLUSTER_UNIFORM},
    {"let x = iota(B) * 2", CLUSTER_UNIFORM},
    {"let x = ctx.block.z", UNIFORM},
    {"let x = program_id(0)", UNIFORM},
    {"let x = ctx.cluster.y", UNIFORM},
    {"let x = ctx.cluster.rank", UNIFORM},
    {"let x = cluster_mask(1)", UNIFORM},
    {"let x = a[0]", UNIFORM},
    {"let x = a[0 :+ B]", UNIFORM},
    {"let x = sum(iota(B))", UNIFORM},
    {"let x = min(iota(B))", UNIFORM},
    {"let x = all(iota(B) > 3)", UNIFORM},
    {"let x = block_sum(ctx.lane)", UNIFORM},
    {"let x = block_max(n) + block_min(n)", UNIFORM},
    {"let x = ctx.warp", WARP_UNIFORM},
    {"let x = warp_sum(ctx.lane)", WARP_UNIFORM},
    {"let x = warp_max(1) + warp_min(1)", WARP_UNIFORM},
    {"let x = ballot(ctx.lane > 3)", WARP_UNIFORM},
    {"let x = any(ctx.lane > 3)", WARP_UNIFORM},
    {"let x = all(n > 3)", WARP_UNIFORM},
    {"let x = a[ctx.warp]", WARP_UNIFORM},
    {"let x = ctx.thread.x", PER_LANE},
    {"let x = ctx.lane", PER_LANE},
    {"let x = elect_one_sync()", PER_LANE},
    {"let x = shuffle(n, 0)", PER_LANE},
    {"let x = shuffle_xor(n, 1) + shuffle_up(n, 1) + shuffle_down(n, 1)", PER_LANE},
    {"let x = atomic_add(a[0], 1.0)", PER_LANE},
    {"let x = atomic_cas(a[0], 1.0, 2.0)", PER_LANE},
    {"let x = a[ctx.lane]", PER_LANE},
    /* operations */
    {"let x = ctx.block.x + n", UNIFORM},
    {"let x = -(ctx.block.x * ctx.warp)", WARP_UNIFORM},
    {"let x = ctx.lane * 0", PER_LANE},
    {"let x = f32(ctx.warp) + a[ctx.lane]", PER_LANE},
    {"let x = max(ctx.warp, n)", WARP_UNIFORM},
    {"let x = n > 3 && ctx.lane > 3", PER_LANE},
    {"let x = ctx.warp > 3 || n > 3", WARP_UNIFORM},
    {"let x = bitcast(ctx.warp, u64)", WARP_UNIFORM},
    {"var s: shared<f32>[64]; let x = s[0]", UNIFORM},
    {"var s: shared<f32>[64]; let x = s[ctx.lane]", PER_LANE},
    {"var s: shared<f32>[64]; let x = remote(s, 0)[0]", UNIFORM},
    {"var s: shared<f32>[64]; let x = remote(s, ctx.lane)[0]", PER_LANE},
    /* assignments, and the conditions around them */
    {"var x = 0; x = ctx.warp", WARP_UNIFORM},
    {"var x = 0; x += ctx.lane", PER_LANE},
    {"var x = ctx.lane; x = 0", PER_LANE},
    {"var x = 0; if ctx.warp == 1 { x = 1 }", WARP_UNIFORM},
    {"var x = 0; if ctx.lane == 1 { if n > 2 { x = 1 } }", PER_LANE},
    {"var x = 0; if n == 1 { c[0] = 1.0 } else if ctx.block.x == 1 { c[0] = 1.0 } else { x = 1 }", UNIFORM},
    {"var x = 0; if ctx.lane == 1 { c[0] = 1.0 }; x = 1", CLUSTER_UNIFORM},
    {"if ctx.lane == 1 { let x = 1 }", PER_LANE},
    {"let x = 0; if ctx.lane == x { c[0] = 1.0 }", CLUSTER_UNIFORM},
    {"var x = 0; while a[ctx.warp] > f32(x) { x += 1 }", WARP_UNIFORM},
    {"var x = 0; for i in range(ctx.block.x) { x += 1 }", UNIFORM},
    {"var x = 0; for i in range(0, n, ctx.lane) { x += 1 }", PER_LANE},
    {"for x in range(n) { c[x] = 1.0 }", CLUSTER_UNIFORM},
    {"for x in range(ctx.warp, n) { c[x] = 1.0 }", WARP_UNIFORM},
    {"for x in range(n) { if ctx.lane > x { break } }", PER_LANE},
    {"for x in range(n) { if ctx.lane > x { continue } }", CLUSTER_UNIFORM},
    {"var x = 0; var y = 0; var z = 0; for i in range(n) { x = y; y = z; z = ctx.lane }", PER_LANE},
    {"var x = 0; var y = ctx.warp; for i in range(n) { let t = x; x = y; y = t }", WARP_UNIFORM},
    /* jumps */
    {"var x = 0; if ctx.lane > 3 { return }; x = 1", PER_LANE},
    {"var x = 0; x = 1; if ctx.lane > 3 { return }", CLUSTER_UNIFORM},
    {"if ctx.block.x > 3 { return }; let x = 1", UNIFORM},
    {"if n > 3 { if ctx.warp > 3 { return } }; let x = 1", WARP_UNIFORM},
    {"if n > 3 { if ctx.warp > 3 { return } } else { let x = 1 }", CLUSTER_UNIFORM},
    {"if n > 3 { return } else { if ctx.warp > 3 { return } }; let x = 1", WARP_UNIFORM},
    {"var x = 0; for i in range(n) { x += 1; if ctx.warp > 3 { return } }", WARP_UNIFORM},
    {"for i in range(n) { if ctx.warp > 3 { return } }; let x = 1", WARP_UNIFORM},
    {"for i in range(n) { if ctx.warp > 3 { break } }; let x = 1", CLUSTER_UNIFORM},
    {"var x = 0; for i in range(n) { x += 1; if ctx.warp > 3 { break } }", WARP_UNIFORM},
    {"for i in range(n) { if ctx.warp > 3 { break }; let x = 1 }", WARP_UNIFORM},
    {"for i in range(n) { if ctx.warp > 3 { continue }; let x = 1 }", WARP_UNIFORM},
    {"for i in range(n) { let x = 1; if ctx.warp > 3 { continue } }", CLUSTER_UNIFORM},
    {"for i in range(n) { for j in range(n) { if ctx.lane > 3 { break } }; let x = 1 }", CLUSTER_UNIFORM},
    {"for i in range(n) { for j in range(n) { if ctx.lane > 3 { return } }; let x = 1 }", PER_LANE},
    /* fns */
    {"let x = same(n)", CLUSTER_UNIFORM},
    {"let y = same(ctx.lane); let x = same(ctx.warp)", WARP_UNIFORM},
    {"let x = sign(ctx.block.x)", UNIFORM},
    {"let x = sign(ctx.lane)", PER_LANE},
    {"let y = sign(ctx.lane); let x = 1", CLUSTER_UNIFORM},
};

typedef struct Checked {
    Front front;
    CheckedProgram *program;
} Checked;

static void check_body(Checked *checked, const char *body) {
    static char text[2048];
    int length = snprintf(text, sizeof text,
        "fn same(v: i64) -> i64 { return v }\n"
        "fn sign(v: i64) -> i64 {\n    if v > 0 { return 1 }\n    return 0\n}\n"
        "@autotune(B in [16])\n@grid(1)\nkernel k(a: tensor<f32>[N], c: tensor<f32>[N], n: i64) {\n%s\n}\n",
        body);
    front_init(&checked->front, text, (size_t)length);
    Context *context = &checked->front.context;
    context->dims = dim_pool_new(context->arena);
    context->types = type_pool_new(context->arena);
    for (int i = 0; i < WARNING_COUNT; i++)
        diag_set_warning(context->diag, (WarningKind)i, false);
    static const SemaOptions options = {0};
    checked->program = sema_check(context, parse_source(context), &options);
    front_finish(&checked->front);
    const char *error = strstr(checked->front.messages, "error: ");
    ck_assert_msg(!error, "%s: %s", body, checked->front.messages);
}

static Block *body_of(const Checked *checked) {
    return (Block *)&checked->program->kernels.items[0]->decl->body;
}

/* The variable `x`, wherever it is declared. */
static const Symbol *find_x(const Block *block) {
    for (int i = 0; i < block->count; i++) {
        const Stmt *stmt = block->items[i];
        if (stmt->symbol && strcmp(stmt->symbol->name, "x") == 0)
            return stmt->symbol;
        const Symbol *inner = find_x(&stmt->body);
        if (!inner)
            inner = find_x(&stmt->otherwise);
        if (inner)
            return inner;
    }
    return NULL;
}

START_TEST(variables_vary) {
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        Checked checked;
        check_body(&checked, variables[i].body);
        const Symbol *symbol = find_x(body_of(&checked));
        ck_assert_msg(symbol != NULL, "%s: no x", variables[i].body);
        ck_assert_msg(symbol->variance == variables[i].variance, "%s: expected %s, found %s", variables[i].body,
            variance_names[variables[i].variance], variance_names[symbol->variance]);
        front_fini(&checked.front);
    }
}
END_TEST

/* Statements, and whether their first store to an element, or atomic, happens once per CTA. */
static const struct {
    const char *body;
    bool is_once;
} stores[] = {
    {"c[0] = 1.0", true},
    {"c[ctx.block.x] += a[n]", true},
    {"if ctx.block.x > 3 { c[0] = 1.0 }", true},
    {"c[0] = block_sum(a[ctx.lane])", true},
    {"c[0] = f32(ctx.lane)", false},
    {"c[ctx.lane] = 1.0", false},
    {"c[ctx.warp] = 1.0", false},
    {"if ctx.warp == 3 { c[0] = 1.0 }", false},
    {"if elect_one_sync() { c[0] = 1.0 }", false},
    {"if ctx.lane > 3 { return }; c[0] = 1.0", false},
    {"for i in range(ctx.lane) { c[0] = 1.0 }", false},
    {"c[0] = 1.0; if ctx.lane > 3 { return }", true},
    {"atomic_add(c[0], 1.0)", true},
    {"atomic_add(c[0], a[ctx.lane])", false},
    {"atomic_max(c[ctx.thread.x], 1.0)", false},
    {"atomic_cas(c[0], f32(ctx.warp), 1.0)", false},
    {"if ctx.lane == 0 { atomic_add(c[0], 1.0) }", false},
    {"if ctx.block.y == 0 { atomic_add(c[0], 1.0) }", true},
    {"var s: shared<f32>[4]; s[0] = 1.0", true},
    {"var s: shared<f32>[4]; remote(s, ctx.lane)[0] = 1.0", false},
};

static const Expr *find_store(const Block *block) {
    for (int i = 0; i < block->count; i++) {
        const Stmt *stmt = block->items[i];
        if (stmt->kind == STMT_ASSIGN && stmt->target->kind == EXPR_INDEX)
            return stmt->target;
        if (stmt->kind == STMT_CALL)
            return stmt->value;
        const Expr *inner = find_store(&stmt->body);
        if (inner)
            return inner;
    }
    return NULL;
}

START_TEST(stores_happen_once_per_cta) {
    for (size_t i = 0; i < sizeof stores / sizeof *stores; i++) {
        Checked checked;
        check_body(&checked, stores[i].body);
        const Expr *store = find_store(body_of(&checked));
        ck_assert_msg(store && store->is_once == stores[i].is_once, "%s", stores[i].body);
        front_fini(&checked.front);
    }
}
END_TEST

/* A chain of variables, each of which varies by the next: work is to grow with its length, not with its square. */
START_TEST(long_chains_are_linear) {
    enum { LENGTH = 20000 };
    Buffer text = {0};
    buffer_puts(&text, "@grid(1)\nkernel k(c: tensor<f32>[N], n: i64) {\n    var x = 0\n");
    for (int i = 0; i < LENGTH; i++)
        buffer_printf(&text, "    var v%d = 0\n", i);
    buffer_puts(&text, "    for i in range(n) {\n        x = v0\n");
    for (int i = 0; i + 1 < LENGTH; i++)
        buffer_printf(&text, "        v%d = v%d\n", i, i + 1);
    buffer_printf(&text, "        v%d = ctx.lane\n    }\n    c[x] = 1.0\n}\n", LENGTH - 1);
    Front front;
    front_init(&front, text.data, text.length);
    Context *context = &front.context;
    context->dims = dim_pool_new(context->arena);
    context->types = type_pool_new(context->arena);
    static const SemaOptions options = {0};
    const CheckedProgram *program = sema_check(context, parse_source(context), &options);
    front_finish(&front);
    ck_assert_int_eq(find_x(&program->kernels.items[0]->decl->body)->variance, PER_LANE);
    front_fini(&front);
    buffer_free(&text);
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("uniformity");
    tcase_add_test(cases, variables_vary);
    tcase_add_test(cases, stores_happen_once_per_cta);
    tcase_add_test(cases, long_chains_are_linear);
    Suite *suite = suite_create("uniformity");
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
