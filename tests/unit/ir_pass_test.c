/* Folding, common subexpressions, dead code: IR before and after, and that each pass says whether it changed anything. */
#include "tests/unit/ir_fixture.h"

#define SIGNATURE                                                                                                                                    \
    "dim N\n"                                                                                                                                        \
    "search B leaf [16, 32]\n"                                                                                                                       \
    "param a: tensor<f32>[N]\n"                                                                                                                      \
    "param c: tensor<f32>[N]\n"                                                                                                                      \
    "param n: tensor<i64>[N]\n"                                                                                                                      \
    "param q: tensor<bool>[N]\n"                                                                                                                     \
    "param x: f32\n"                                                                                                                                 \
    "param i: i64\n"                                                                                                                                 \
    "param u: u8\n"                                                                                                                                  \
    "param p: bool\n"                                                                                                                                \
    "param t: tensor<u8>[N]\n"

typedef bool Pass(Context *context, IrKernel *kernel);

/* A body without `return`; `after` NULL: the pass changes nothing. */
typedef struct Case {
    const char *before, *after;
} Case;

static char *module_text(const char *body) {
    char *text = malloc(1 << 14);
    snprintf(text, 1 << 14, "phobos-ir 1\nfile \"t.phb\"\nkernel k\n%s{\n%sreturn\n}\n", SIGNATURE, body);
    return text;
}

static IrModule *read_body(Fixture *f, const char *body) {
    char *text = module_text(body);
    fixture_open(f, text, strlen(text));
    free(text);
    IrModule *module = ir_read(&f->context);
    fixture_finish(f);
    ck_assert_msg(module != NULL, "%s", f->messages);
    return module;
}

static char *print_module(IrModule *module) {
    Buffer text = {0};
    ir_print(&text, module);
    return text.data;
}

static void expect_pass(Pass *pass, const Case *c) {
    Fixture f, expected;
    IrModule *module = read_body(&f, c->before);
    IrModule *wanted = read_body(&expected, c->after ? c->after : c->before);
    IrKernel *kernel = module->kernels.items[0];
    bool changed = pass(&f.context, kernel);
    const char *broken = ir_verify(&f.context, module);
    ck_assert_msg(!broken, "%s", broken);
    char *got = print_module(module), *want = print_module(wanted);
    ck_assert_msg(strcmp(got, want) == 0, "got:\n%s\nexpected:\n%s", got, want);
    ck_assert_int_eq(changed, c->after != NULL);
    ck_assert_msg(!pass(&f.context, kernel), "the pass changes its own result:\n%s", got);
    free(got);
    free(want);
    fixture_close(&f);
    fixture_close(&expected);
}

/* ---- fold ---- */

static const Case folds[] = {
    /* constants; what they came from is left to dce */
    {"%0 = const 7 : i64\n%1 = const -2 : i64\n%2 = div %0, %1 : i64\nstore %n[%i] = %2\n",
        "%0 = const 7 : i64\n%1 = const -2 : i64\n%2 = const -3 : i64\nstore %n[%i] = %2\n"},
    {"%0 = const 1.5 : f32\n%1 = lt %0, %0 : bool\nstore %q[%i] = %1\n", "%0 = const 1.5 : f32\n%1 = const false : bool\nstore %q[%i] = %1\n"},
    {"%0 = const 300 : i32\n%1 = convert %0 : u8\nstore %t[%i] = %1\n", "%0 = const 300 : i32\n%1 = const 44 : u8\nstore %t[%i] = %1\n"},
    {"%0 = const 2.0 : f32\n%1 = broadcast %0 : tile<f32>[B]\n%2 = mul %1, %1 : tile<f32>[B]\nstore %a[%i :+ B] = %2\n",
        "%0 = const 2.0 : f32\n%1 = broadcast %0 : tile<f32>[B]\n%2 = const 4.0 : f32\n%3 = broadcast %2 : tile<f32>[B]\nstore %a[%i :+ B] = %3\n"},
    /* identities of integers */
    {"%0 = const 0 : i64\n%1 = add %0, %i : i64\n%2 = sub %1, %0 : i64\n%3 = or %2, %0 : i64\n%4 = shl %3, %0 : i64\nstore %n[%4] = %4\n",
        "%0 = const 0 : i64\nstore %n[%i] = %i\n"},
    {"%0 = const 1 : i64\n%1 = mul %0, %i : i64\n%2 = div %1, %0 : i64\nstore %n[%2] = %2\n", "%0 = const 1 : i64\nstore %n[%i] = %i\n"},
    {"%0 = const 0 : i64\n%1 = mul %i, %0 : i64\nstore %n[%i] = %1\n", "%0 = const 0 : i64\n%1 = const 0 : i64\nstore %n[%i] = %1\n"},
    {"%0 = const 0 : i64\n%1 = div %i, %0 : i64\nstore %n[%i] = %1\n", "%0 = const 0 : i64\n%1 = const 0 : i64\nstore %n[%i] = %1\n"},
    {"%0 = const 0 : i64\n%1 = rem %i, %0 : i64\nstore %n[%i] = %1\n", "%0 = const 0 : i64\nstore %n[%i] = %i\n"},
    {"%0 = const 0 : i64\n%1 = sub %0, %i : i64\nstore %n[%i] = %1\n", NULL},
    {"%0 = const 0 : i64\n%1 = div %0, %i : i64\nstore %n[%i] = %1\n", NULL},
    {"%0 = const 255 : u8\n%1 = and %u, %0 : u8\n%2 = or %1, %0 : u8\nstore %t[%i] = %2\nstore %t[%i] = %1\n",
        "%0 = const 255 : u8\n%1 = const 255 : u8\nstore %t[%i] = %1\nstore %t[%i] = %u\n"},
    {"%0 = sub %i, %i : i64\n%1 = and %i, %i : i64\n%2 = le %i, %i : bool\nstore %n[%0] = %1\nstore %q[%0] = %2\n",
        "%0 = const 0 : i64\n%1 = const true : bool\nstore %n[%0] = %i\nstore %q[%0] = %1\n"},
    {"%0 = const true : bool\n%1 = and %p, %0 : bool\n%2 = or %1, %0 : bool\nstore %q[%i] = %1\nstore %q[%i] = %2\n",
        "%0 = const true : bool\n%1 = const true : bool\nstore %q[%i] = %p\nstore %q[%i] = %1\n"},
    {"%0 = not %p : bool\n%1 = not %0 : bool\nstore %q[%i] = %1\n", "%0 = not %p : bool\nstore %q[%i] = %p\n"},
    /* identities of floats: only those that keep every bit */
    {"%0 = const 1.0 : f32\n%1 = mul %0, %x : f32\n%2 = div %1, %0 : f32\nstore %a[%i] = %2\n", "%0 = const 1.0 : f32\nstore %a[%i] = %x\n"},
    {"%0 = const 0.0 : f32\n%1 = sub %x, %0 : f32\nstore %a[%i] = %1\n", "%0 = const 0.0 : f32\nstore %a[%i] = %x\n"},
    {"%0 = const -0.0 : f32\n%1 = add %0, %x : f32\nstore %a[%i] = %1\n", "%0 = const -0.0 : f32\nstore %a[%i] = %x\n"},
    {"%0 = const 0.0 : f32\n%1 = add %x, %0 : f32\nstore %a[%i] = %1\n", NULL},
    {"%0 = const -0.0 : f32\n%1 = sub %x, %0 : f32\nstore %a[%i] = %1\n", NULL},
    {"%0 = const 0.0 : f32\n%1 = mul %x, %0 : f32\nstore %a[%i] = %1\n", NULL},
    {"%0 = const 0.0 : f32\n%1 = sub %0, %x : f32\nstore %a[%i] = %1\n", NULL},
    {"%0 = sub %x, %x : f32\nstore %a[%i] = %0\n", NULL},
    {"%0 = eq %x, %x : bool\nstore %q[%i] = %0\n", NULL},
    {"%0 = neg %x : f32\n%1 = neg %0 : f32\nstore %a[%i] = %1\n", "%0 = neg %x : f32\nstore %a[%i] = %x\n"},
    /* conversions and broadcasts that do nothing, or can be one */
    {"%0 = convert %x : f32\nstore %a[%i] = %0\n", "store %a[%i] = %x\n"},
    {"%0 = broadcast %x : tile<f32>[B]\n%1 = broadcast %0 : tile<f32>[B]\nstore %a[%i :+ B] = %1\n",
        "%0 = broadcast %x : tile<f32>[B]\nstore %a[%i :+ B] = %0\n"},
    {"%0 = broadcast %x : tile<f32>[1]\n%1 = broadcast %0 : tile<f32>[B]\nstore %a[%i :+ B] = %1\n",
        "%0 = broadcast %x : tile<f32>[1]\n%1 = broadcast %x : tile<f32>[B]\nstore %a[%i :+ B] = %1\n"},
    {"%0 = const 1.0 : f32\n%1 = broadcast %0 : tile<f32>[B]\n%2 = load %a[%i :+ B] : tile<f32>[B]\n%3 = mul %2, %1 : tile<f32>[B]\n"
     "store %c[%i :+ B] = %3\n",
        "%0 = const 1.0 : f32\n%1 = broadcast %0 : tile<f32>[B]\n%2 = load %a[%i :+ B] : tile<f32>[B]\nstore %c[%i :+ B] = %2\n"},
    /* dims */
    {"%0 = dim 4 * 4 : i64\nstore %n[%0] = %0\n", "%0 = const 16 : i64\nstore %n[%0] = %0\n"},
    {"%0 = dim B : i64\n%1 = const 3 : i64\n%2 = mul %1, %0 : i64\n%3 = add %2, %0 : i64\nstore %n[%3] = %i\n",
        "%0 = dim B : i64\n%1 = const 3 : i64\n%2 = dim B * 3 : i64\n%3 = dim B * 4 : i64\nstore %n[%3] = %i\n"},
    {"%0 = dim B : i64\n%1 = sub %0, %0 : i64\nstore %n[%1] = %i\n", "%0 = dim B : i64\n%1 = const 0 : i64\nstore %n[%1] = %i\n"},
    {"%0 = dim N : i64\n%1 = const 4 : i64\n%2 = div %0, %1 : i64\n%3 = rem %0, %1 : i64\nstore %n[%2] = %3\n",
        "%0 = dim N : i64\n%1 = const 4 : i64\n%2 = dim N / 4 : i64\n%3 = dim N % 4 : i64\nstore %n[%2] = %3\n"},
    /* a divisor that may be 0 has the language's meaning, not that of dims */
    {"%0 = dim N : i64\n%1 = dim B : i64\n%2 = div %1, %0 : i64\nstore %n[%2] = %i\n", NULL},
    {"%0 = dim N : i64\n%1 = const -1 : i64\n%2 = div %0, %1 : i64\nstore %n[%2] = %i\n", NULL},
    /* and what is no dim stays */
    {"%0 = dim B : i64\n%1 = ctx.block.x : i64\n%2 = mul %0, %1 : i64\nstore %n[%2] = %i\n", NULL},
    {"%0 = extent %a, 0 : i64\n%1 = dim B : i64\n%2 = add %0, %1 : i64\nstore %n[%2] = %i\n", NULL},
    {"%0 = dim 9223372036854775807 * N : i64\n%1 = add %0, %0 : i64\nstore %n[%1] = %i\n", NULL},
};

START_TEST(fold) {
    expect_pass(ir_fold, &folds[_i]);
}
END_TEST

/* ---- cse ---- */

static const Case shares[] = {
    {"%0 = add %i, %i : i64\n%1 = add %i, %i : i64\nstore %n[%0] = %1\n", "%0 = add %i, %i : i64\nstore %n[%0] = %0\n"},
    {"%0 = ctx.block.x : i64\n%1 = ctx.block.y : i64\n%2 = ctx.block.x : i64\n%3 = mul %0, %1 : i64\n%4 = mul %1, %2 : i64\nstore %n[%3] = %4\n",
        "%0 = ctx.block.x : i64\n%1 = ctx.block.y : i64\n%2 = mul %0, %1 : i64\nstore %n[%2] = %2\n"},
    {"%0 = ctx.block.x : i64\n%1 = sub %i, %0 : i64\n%2 = sub %0, %i : i64\nstore %n[%1] = %2\n", NULL},
    {"%0 = const 1 : i64\n%1 = const 1 : i64\n%2 = const 2 : i64\nstore %n[%0] = %1\nstore %n[%2] = %i\n",
        "%0 = const 1 : i64\n%1 = const 2 : i64\nstore %n[%0] = %0\nstore %n[%1] = %i\n"},
    {"%0 = const 0 : i64\n%1 = const 0 : u8\n%2 = const 0.0 : f32\n%3 = const -0.0 : f32\n"
     "store %n[%0] = %0\nstore %t[%0] = %1\nstore %a[%0] = %2\nstore %a[%0] = %3\n",
        NULL},
    {"%0 = convert %x : f64\n%1 = convert %x : f16\n%2 = convert %0 : f32\n%3 = convert %1 : f32\nstore %a[%i] = %2\nstore %a[%i] = %3\n", NULL},
    {"%0 = extent %a, 0 : i64\n%1 = extent %c, 0 : i64\nstore %n[%0] = %1\n", NULL},
    /* loads: no store to the tensor between */
    {"%0 = load %a[%i] : f32\n%1 = load %a[%i] : f32\nstore %c[%i] = %0\nstore %c[%i] = %1\n",
        "%0 = load %a[%i] : f32\nstore %c[%i] = %0\nstore %c[%i] = %0\n"},
    {"%0 = load %a[%i] : f32\nstore %c[%i] = %0\n%1 = load %a[%i] : f32\nstore %c[%i] = %1\n",
        "%0 = load %a[%i] : f32\nstore %c[%i] = %0\nstore %c[%i] = %0\n"},
    {"%0 = load %a[%i] : f32\nstore %a[%i] = %x\n%1 = load %a[%i] : f32\nstore %c[%i] = %0\nstore %c[%i] = %1\n", NULL},
    {"store %a[%i] = %x\n%0 = load %a[%i] : f32\n%1 = load %a[%i] : f32\nstore %c[%i] = %0\nstore %c[%i] = %1\n",
        "store %a[%i] = %x\n%0 = load %a[%i] : f32\nstore %c[%i] = %0\nstore %c[%i] = %0\n"},
    {"%0 = load %a[%i :+ 4] : tile<f32>[4]\n%1 = load %a[%i :+ 8] : tile<f32>[8]\nstore %c[%i :+ 4] = %0\nstore %c[%i :+ 8] = %1\n", NULL},
    {"%0 = load %a[%i] : f32\n%1 = load %a[%i :+ 1] : tile<f32>[1]\nstore %c[%i] = %0\nstore %c[%i :+ 1] = %1\n", NULL},
    {"%0 = load %a[%i] : f32\n%1 = load %c[%i] : f32\nstore %c[%i] = %0\nstore %a[%i] = %1\n", NULL},
    /* stores stay */
    {"store %a[%i] = %x\nstore %a[%i] = %x\n", NULL},
};

START_TEST(cse) {
    expect_pass(ir_cse, &shares[_i]);
}
END_TEST

/* ---- dce ---- */

static const Case drops[] = {
    {"%0 = add %i, %i : i64\n%1 = mul %0, %0 : i64\n", ""},
    {"%0 = load %a[%i] : f32\n%1 = add %i, %i : i64\nstore %n[%1] = %i\n%2 = add %1, %1 : i64\n", "%0 = add %i, %i : i64\nstore %n[%0] = %i\n"},
    {"%0 = add %i, %i : i64\nstore %n[%i] = %0\n", NULL},
    {"store %n[%i] = %i\nstore %n[%i] = %i\n", NULL},
    {"", NULL},
};

START_TEST(dce) {
    expect_pass(ir_dce, &drops[_i]);
}
END_TEST

/* A hundred thousand ops: passes that are not near linear time out. */
START_TEST(long_kernel) {
    Fixture f;
    IrModule *module = read_body(&f, "");
    IrKernel *kernel = module->kernels.items[0];
    IrValue *value = kernel->body->args.items[5];
    ir_remove(kernel->body->last);
    for (int i = 0; i < 100000; i++)
        value = ir_value(&f.context, kernel->body, i % 2 ? OP_ADD : OP_MUL, (Span){0}, value->type, value, kernel->body->args.items[5]);
    ir_append(&f.context, kernel->body, OP_RETURN, (Span){0}, NULL, 0, NULL, 0);
    ck_assert_ptr_null(ir_verify(&f.context, module));
    ck_assert(!ir_fold(&f.context, kernel));
    ir_cse(&f.context, kernel);
    ck_assert(ir_dce(&f.context, kernel));
    ck_assert_int_eq(kernel->body->first->kind, OP_RETURN);
    fixture_close(&f);
}
END_TEST

#define COUNT(table) (int)(sizeof table / sizeof *table)

int main(void) {
    Suite *suite = suite_create("ir_pass");
    TCase *tests = tcase_create("ir_pass");
    tcase_set_timeout(tests, 30);
    tcase_add_loop_test(tests, fold, 0, COUNT(folds));
    tcase_add_loop_test(tests, cse, 0, COUNT(shares));
    tcase_add_loop_test(tests, dce, 0, COUNT(drops));
    tcase_add_test(tests, long_kernel);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
