/* Folding, known control flow, common subexpressions, loop-invariant code, dead code: IR before and after, and that each pass says whether it changed
 * anything. */
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
    /* selects */
    {"%0 = const false : bool\n%1 = const 1.0 : f32\n%2 = select %0, %1, %x : f32\nstore %a[%i] = %2\n",
        "%0 = const false : bool\n%1 = const 1.0 : f32\nstore %a[%i] = %x\n"},
    {"%0 = select %p, %x, %x : f32\nstore %a[%i] = %0\n", "store %a[%i] = %x\n"},
    {"%0 = const true : bool\n%1 = lt %i, %i : bool\n%2 = select %p, %0, %1 : bool\nstore %q[%i] = %2\n",
        "%0 = const true : bool\n%1 = const false : bool\nstore %q[%i] = %p\n"},
    {"%0 = const true : bool\n%1 = const false : bool\n%2 = select %p, %1, %0 : bool\nstore %q[%i] = %2\n",
        "%0 = const true : bool\n%1 = const false : bool\n%2 = not %p : bool\nstore %q[%i] = %2\n"},
    /* shapes */
    {"%0 = iota : tile<i32>[8]\n%1 = reshape %0 : tile<i32>[2, 4]\n%2 = reshape %1 : tile<i32>[8]\n%3 = convert %2 : tile<i64>[8]\nstore %n[%i :+ 8] "
     "= %3\n",
        "%0 = iota : tile<i32>[8]\n%1 = reshape %0 : tile<i32>[2, 4]\n%2 = convert %0 : tile<i64>[8]\nstore %n[%i :+ 8] = %2\n"},
    /* three operands; functions that code generation decides stay */
    {"%0 = const 2.0 : f32\n%1 = fma %0, %0, %0 : f32\nstore %a[%i] = %1\n", "%0 = const 2.0 : f32\n%1 = const 6.0 : f32\nstore %a[%i] = %1\n"},
    {"%0 = const 2.0 : f32\n%1 = exp %0 : f32\nstore %a[%i] = %1\n", NULL},
    /* in regions */
    {"%0 = const 1 : i64\nfor %i, %i, %0\ndo %1: i64 {\n%2 = mul %1, %0 : i64\nstore %n[%2] = %2\nyield\n}\n",
        "%0 = const 1 : i64\nfor %i, %i, %0\ndo %1: i64 {\nstore %n[%1] = %1\nyield\n}\n"},
};

START_TEST(fold) {
    expect_pass(ir_fold, &folds[_i]);
}
END_TEST

/* ---- control ---- */

static const Case controls[] = {
    /* conditions */
    {"%0 = const true : bool\n%1 = if %0 : f32\nthen {\nstore %n[%i] = %i\nyield %x\n}\nelse {\n%2 = neg %x : f32\nyield %2\n}\nstore %a[%i] = %1\n",
        "%0 = const true : bool\nstore %n[%i] = %i\nstore %a[%i] = %x\n"},
    {"%0 = const false : bool\n%1 = if %0 : f32\nthen {\nstore %n[%i] = %i\nyield %x\n}\nelse {\n%2 = neg %x : f32\nyield %2\n}\nstore %a[%i] = %1\n",
        "%0 = const false : bool\n%1 = neg %x : f32\nstore %a[%i] = %1\n"},
    /* results that are the same, or chosen from outside: dce takes them */
    {"%0 = if %p : f32\nthen {\nstore %n[%i] = %i\nyield %x\n}\nelse {\nyield %x\n}\nstore %a[%i] = %0\n",
        "%0 = if %p : f32\nthen {\nstore %n[%i] = %i\nyield %x\n}\nelse {\nyield %x\n}\nstore %a[%i] = %x\n"},
    {"%0 = if %p : i64\nthen {\n%1 = const 1 : i64\nyield %1\n}\nelse {\nyield %i\n}\nstore %n[%i] = %0\n",
        "%0 = const 1 : i64\n%1 = select %p, %0, %i : i64\n%2 = if %p : i64\nthen {\nyield %0\n}\nelse {\nyield %0\n}\nstore %n[%i] = %1\n"},
    {"%0 = if %p : f32\nthen {\n%1 = neg %x : f32\nyield %1\n}\nelse {\nyield %x\n}\nstore %a[%i] = %0\n", NULL},
    {"%0 = broadcast %x : tile<f32>[4]\n%1 = load %c[%i :+ 4] : tile<f32>[4]\n%2 = if %p : tile<f32>[4]\nthen {\nyield %0\n}\nelse {\nyield %1\n}\n"
     "store %a[%i :+ 4] = %2\n",
        NULL},
    /* trip counts */
    {"%0 = const 3 : i64\n%1 = const 2 : i64\n%2 = for %0, %1, %0, %x : f32\ndo %3: i64, %4: f32 {\nstore %n[%3] = %3\n%5 = neg %4 : f32\nyield "
     "%5\n}\n"
     "store %a[%i] = %2\n",
        "%0 = const 3 : i64\n%1 = const 2 : i64\nstore %a[%i] = %x\n"},
    {"%0 = const 0 : i64\n%1 = const 2 : i64\nfor %0, %1, %0\ndo %2: i64 {\nstore %n[%2] = %2\nyield\n}\n",
        "%0 = const 0 : i64\n%1 = const 2 : i64\n"},
    {"%0 = const 0 : i64\n%1 = const 2 : i64\n%2 = for %0, %1, %1, %x : f32\ndo %3: i64, %4: f32 {\nstore %n[%3] = %3\n%5 = neg %4 : f32\nyield "
     "%5\n}\n"
     "store %a[%i] = %2\n",
        "%0 = const 0 : i64\n%1 = const 2 : i64\nstore %n[%0] = %0\n%2 = neg %x : f32\nstore %a[%i] = %2\n"},
    {"%0 = const 0 : i64\n%1 = const -9223372036854775808 : i64\nfor %0, %1, %1\ndo %2: i64 {\nstore %n[%2] = %2\nyield\n}\n",
        "%0 = const 0 : i64\n%1 = const -9223372036854775808 : i64\nstore %n[%0] = %0\n"},
    {"%0 = const 0 : i64\n%1 = const 2 : i64\n%2 = const 1 : i64\nfor %0, %1, %2\ndo %3: i64 {\nstore %n[%3] = %3\nyield\n}\n", NULL},
    {"%0 = const false : bool\n%1 = while %x : f32\ntest %2: f32 {\nstore %a[%i] = %2\ncondition %0\n}\ndo %3: f32 {\n%4 = neg %3 : f32\nyield "
     "%4\n}\n"
     "store %c[%i] = %1\n",
        "%0 = const false : bool\nstore %a[%i] = %x\nstore %c[%i] = %x\n"},
    /* what is carried and never changes */
    {"%0 = for %i, %i, %i, %x : f32\ndo %1: i64, %2: f32 {\nstore %a[%1] = %2\nyield %2\n}\nstore %c[%i] = %0\n",
        "%0 = for %i, %i, %i, %x : f32\ndo %1: i64, %2: f32 {\nstore %a[%1] = %x\nyield %x\n}\nstore %c[%i] = %x\n"},
    {"%0 = while %i : i64\ntest %1: i64 {\n%2 = load %q[%1] : bool\ncondition %2\n}\ndo %3: i64 {\nstore %n[%3] = %3\nyield %3\n}\nstore %n[%0] = "
     "%0\n",
        "%0 = while %i : i64\ntest %1: i64 {\n%2 = load %q[%i] : bool\ncondition %2\n}\ndo %3: i64 {\nstore %n[%i] = %i\nyield %i\n}\nstore %n[%i] = "
        "%i\n"},
    {"%0 = for %i, %i, %i, %i : i64\ndo %1: i64, %2: i64 {\nstore %n[%1] = %2\nyield %1\n}\n", NULL},
};

START_TEST(control) {
    expect_pass(ir_control, &controls[_i]);
}
END_TEST

/* ---- licm ---- */

static const Case moves[] = {
    {"for %i, %i, %i\ndo %0: i64 {\n%1 = neg %x : f32\n%2 = neg %1 : f32\nstore %a[%0] = %2\nyield\n}\n",
        "%0 = neg %x : f32\n%1 = neg %0 : f32\nfor %i, %i, %i\ndo %2: i64 {\nstore %a[%2] = %1\nyield\n}\n"},
    /* loads of what the loop does not store to */
    {"for %i, %i, %i\ndo %0: i64 {\n%1 = load %c[%i] : f32\n%2 = load %a[%i] : f32\n%3 = add %1, %2 : f32\nstore %a[%0] = %3\nyield\n}\n",
        "%0 = load %c[%i] : f32\nfor %i, %i, %i\ndo %1: i64 {\n%2 = load %a[%i] : f32\n%3 = add %0, %2 : f32\nstore %a[%1] = %3\nyield\n}\n"},
    {"for %i, %i, %i\ndo %0: i64 {\n%1 = load %a[%i] : f32\nstore %c[%0] = %1\nif %p\nthen {\nstore %a[%0] = %x\nyield\n}\nelse "
     "{\nyield\n}\nyield\n}\n",
        NULL},
    /* out of two loops, or of the inner one */
    {"for %i, %i, %i\ndo %0: i64 {\nfor %i, %i, %i\ndo %1: i64 {\n%2 = neg %x : f32\n%3 = neg %0 : i64\nstore %a[%3] = %2\nyield\n}\nyield\n}\n",
        "%0 = neg %x : f32\nfor %i, %i, %i\ndo %1: i64 {\n%2 = neg %1 : i64\nfor %i, %i, %i\ndo %3: i64 {\nstore %a[%2] = %0\nyield\n}\nyield\n}\n"},
    /* a while's test */
    {"while\ntest {\n%0 = lt %x, %x : bool\ncondition %0\n}\ndo {\nstore %a[%i] = %x\nyield\n}\n",
        "%0 = lt %x, %x : bool\nwhile\ntest {\ncondition %0\n}\ndo {\nstore %a[%i] = %x\nyield\n}\n"},
    /* what depends on what is carried, and what stands under an if, stays */
    {"%0 = for %i, %i, %i, %x : f32\ndo %1: i64, %2: f32 {\n%3 = neg %2 : f32\nyield %3\n}\nstore %a[%i] = %0\n", NULL},
    {"for %i, %i, %i\ndo %0: i64 {\nif %p\nthen {\n%1 = neg %x : f32\nstore %a[%0] = %1\nyield\n}\nelse {\nyield\n}\nyield\n}\n", NULL},
    /* nor do operations of warps, loads of shared memory, and, across a barrier, of what the kernel stores to anywhere */
    {"%0 = shared \"s\" : shared<f32>[4]\nfor %i, %i, %i\ndo %1: i64 {\n%2 = load %0[%i] : f32\nstore %a[%1] = %2\nyield\n}\n", NULL},
    {"for %i, %i, %i\ndo %0: i64 {\n%1 = warp_sum %x : f32\nstore %a[%0] = %1\nyield\n}\n", NULL},
    {"for %i, %i, %i\ndo %0: i64 {\n%1 = load %c[%i] : f32\nbarrier\nstore %a[%0] = %1\nyield\n}\nstore %c[%i] = %x\n", NULL},
    {"for %i, %i, %i\ndo %0: i64 {\n%1 = load %c[%i] : f32\nbarrier\nstore %a[%0] = %1\nyield\n}\n",
        "%0 = load %c[%i] : f32\nfor %i, %i, %i\ndo %1: i64 {\nbarrier\nstore %a[%1] = %0\nyield\n}\n"},
};

START_TEST(licm) {
    expect_pass(ir_licm, &moves[_i]);
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
    /* regions see what stands before them, not each other, nor does what follows see into them */
    {"%0 = neg %x : f32\nif %p\nthen {\n%1 = neg %x : f32\nstore %a[%i] = %1\nyield\n}\nelse {\nyield\n}\nstore %a[%i] = %0\n",
        "%0 = neg %x : f32\nif %p\nthen {\nstore %a[%i] = %0\nyield\n}\nelse {\nyield\n}\nstore %a[%i] = %0\n"},
    {"if %p\nthen {\n%0 = neg %x : f32\nstore %a[%i] = %0\nyield\n}\nelse {\n%1 = neg %x : f32\nstore %c[%i] = %1\nyield\n}\n"
     "%2 = neg %x : f32\nstore %a[%i] = %2\n",
        NULL},
    /* a load in a loop may see a later store of an earlier iteration */
    {"%0 = load %a[%i] : f32\nfor %i, %i, %i\ndo %1: i64 {\n%2 = load %a[%i] : f32\nstore %c[%1] = %2\nstore %a[%1] = %0\nyield\n}\n", NULL},
    {"%0 = load %a[%i] : f32\nfor %i, %i, %i\ndo %1: i64 {\n%2 = load %a[%i] : f32\nstore %c[%1] = %2\nyield\n}\nstore %c[%i] = %0\n",
        "%0 = load %a[%i] : f32\nfor %i, %i, %i\ndo %1: i64 {\nstore %c[%1] = %0\nyield\n}\nstore %c[%i] = %0\n"},
    {"%0 = load %a[%i] : f32\nfor %i, %i, %i\ndo %1: i64 {\nstore %a[%1] = %x\nyield\n}\n%2 = load %a[%i] : f32\nstore %c[%i] = %0\nstore %c[%i] = "
     "%2\n",
        NULL},
    /* an else does not see its then's stores; what follows sees both */
    {"%0 = load %a[%i] : f32\nif %p\nthen {\nstore %a[%i] = %x\n%1 = load %a[%i] : f32\nstore %c[%i] = %1\nyield\n}\nelse {\n%2 = load %a[%i] : f32\n"
     "store %c[%i] = %2\nyield\n}\n%3 = load %a[%i] : f32\nstore %c[%i] = %3\nstore %c[%i] = %0\n",
        "%0 = load %a[%i] : f32\nif %p\nthen {\nstore %a[%i] = %x\n%1 = load %a[%i] : f32\nstore %c[%i] = %1\nyield\n}\nelse {\n"
        "store %c[%i] = %0\nyield\n}\n%2 = load %a[%i] : f32\nstore %c[%i] = %2\nstore %c[%i] = %0\n"},
    /* thread code: a barrier lies between what threads see, operations of warps stay, and shared memories are what they are */
    {"%0 = ctx.thread.x : i64\n%1 = shared \"s\" : shared<f32>[4]\n%2 = load %1[%0] : f32\nbarrier\n%3 = load %1[%0] : f32\nstore %1[%0] = %3\n%4 = load "
     "%1[%0] : f32\nstore %c[%0] = %2\nstore %c[%0] = %4\n",
        NULL},
    {"%0 = ctx.thread.x : i64\n%1 = ctx.thread.x : i64\n%2 = shared \"s\" : shared<f32>[4]\n%3 = load %2[%0] : f32\n%4 = load %2[%1] : f32\nstore %c[%0] = "
     "%3\nstore %c[%0] = %4\n",
        "%0 = ctx.thread.x : i64\n%1 = shared \"s\" : shared<f32>[4]\n%2 = load %1[%0] : f32\nstore %c[%0] = %2\nstore %c[%0] = %2\n"},
    {"%0 = shared \"s\" : shared<f32>[4]\n%1 = shared \"s\" : shared<f32>[4]\nstore %0[%i] = %x\n%2 = load %1[%i] : f32\nstore %0[%i] = %x\n%3 = load %1[%i] "
     ": f32\nstore %c[%i] = %2\nstore %c[%i] = %3\n",
        "%0 = shared \"s\" : shared<f32>[4]\n%1 = shared \"s\" : shared<f32>[4]\nstore %0[%i] = %x\n%2 = load %1[%i] : f32\nstore %0[%i] = %x\n"
        "store %c[%i] = %2\nstore %c[%i] = %2\n"},
    {"%0 = shared \"s\" : shared<f32>[4]\n%1 = remote %0, %i : shared<f32>[4]\n%2 = load %0[%i] : f32\nstore %1[%i] = %x\n%3 = load %0[%i] : f32\nstore "
     "%c[%i] = %2\nstore %c[%i] = %3\n",
        NULL},
    {"%0 = load %a[%i] : f32\n%1 = load %c[%i] : f32\ncluster_wait\n%2 = load %a[%i] : f32\n%3 = load %c[%i] : f32\nstore %c[%i] = %0\nstore %c[%i] = "
     "%1\nstore %c[%i] = %2\nstore %c[%i] = %3\n",
        "%0 = load %a[%i] : f32\n%1 = load %c[%i] : f32\ncluster_wait\n%2 = load %c[%i] : f32\nstore %c[%i] = %0\nstore %c[%i] = "
        "%1\nstore %c[%i] = %0\nstore %c[%i] = %2\n"},
    {"%0 = load %c[%i] : f32\nfor %i, %i, %i\ndo %1: i64 {\n%2 = load %c[%i] : f32\nstore %a[%1] = %2\nbarrier\nyield\n}\nstore %c[%i] = %0\n", NULL},
    {"%0 = warp_sum %x : f32\n%1 = warp_sum %x : f32\n%2 = elect_one_sync : bool\n%3 = elect_one_sync : bool\nstore %c[%i] = %0\nstore %c[%i] = %1\n"
     "store %q[%i] = %2\nstore %q[%i] = %3\n",
        NULL},
    {"%0 = atomic_add %c[%i] = %x : f32\n%1 = atomic_add %c[%i] = %x : f32\nstore %a[%i] = %0\nstore %a[%i] = %1\n", NULL},
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
    /* loops and ifs that store nothing, and those whose results nothing uses */
    {"%0 = for %i, %i, %i, %x : f32\ndo %1: i64, %2: f32 {\n%3 = neg %2 : f32\nyield %3\n}\n", ""},
    {"while\ntest {\ncondition %p\n}\ndo {\n%0 = load %a[%i] : f32\nyield\n}\nif %p\nthen {\nyield\n}\nelse {\nyield\n}\n", ""},
    /* what a loop carries for itself alone */
    {"%0, %1 = for %i, %i, %i, %x, %x : f32, f32\ndo %2: i64, %3: f32, %4: f32 {\n%5 = neg %3 : f32\n%6 = add %4, %4 : f32\nyield %5, %6\n}\nstore "
     "%a[%i] = %1\n",
        "%0 = for %i, %i, %i, %x : f32\ndo %1: i64, %2: f32 {\n%3 = add %2, %2 : f32\nyield %3\n}\nstore %a[%i] = %0\n"},
    {"%0, %1 = while %i, %x : i64, f32\ntest %2: i64, %3: f32 {\n%4 = lt %2, %i : bool\ncondition %4\n}\ndo %5: i64, %6: f32 {\n%7 = add %5, %5 : "
     "i64\n"
     "%8 = neg %6 : f32\nstore %n[%i] = %5\nyield %7, %8\n}\n",
        "%0 = while %i : i64\ntest %1: i64 {\n%2 = lt %1, %i : bool\ncondition %2\n}\ndo %3: i64 {\n%4 = add %3, %3 : i64\nstore %n[%i] = %3\nyield "
        "%4\n}\n"},
    {"%0, %1 = if %p : f32, f32\nthen {\n%2 = neg %x : f32\nyield %2, %x\n}\nelse {\nyield %x, %x\n}\nstore %a[%i] = %1\n",
        "%0 = if %p : f32\nthen {\nyield %x\n}\nelse {\nyield %x\n}\nstore %a[%i] = %0\n"},
    /* one slot needs another */
    {"%0, %1 = for %i, %i, %i, %x, %x : f32, f32\ndo %2: i64, %3: f32, %4: f32 {\n%5 = neg %3 : f32\nyield %5, %3\n}\nstore %a[%i] = %1\n", NULL},
    /* a store is live, and with it what decides whether it runs */
    {"%0 = lt %i, %i : bool\nif %0\nthen {\nstore %a[%i] = %x\nyield\n}\nelse {\n%1 = neg %x : f32\nyield\n}\n",
        "%0 = lt %i, %i : bool\nif %0\nthen {\nstore %a[%i] = %x\nyield\n}\nelse {\nyield\n}\n"},
    /* synchronisation is live, an operation of a warp only where something uses it */
    {"%0 = warp_sum %x : f32\n%1 = block_sum %x : f32\n%2 = shared \"s\" : shared<f32>[4]\nif %p\nthen {\ncluster_arrive\nyield\n}\nelse {\nyield\n}\n",
        "%0 = block_sum %x : f32\nif %p\nthen {\ncluster_arrive\nyield\n}\nelse {\nyield\n}\n"},
    {"%0 = shared \"s\" : shared<f32>[4]\n%1 = atomic_add %0[%i] = %x : f32\n", NULL},
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
    ck_assert(!ir_control(&f.context, kernel));
    ir_cse(&f.context, kernel);
    ck_assert(!ir_licm(&f.context, kernel));
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
    tcase_add_loop_test(tests, control, 0, COUNT(controls));
    tcase_add_loop_test(tests, cse, 0, COUNT(shares));
    tcase_add_loop_test(tests, licm, 0, COUNT(moves));
    tcase_add_loop_test(tests, dce, 0, COUNT(drops));
    tcase_add_test(tests, long_kernel);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
