/* The text form: what prints reads back and prints the same, and what is not the form is refused where it goes wrong. */
#include "tests/unit/ir_fixture.h"

#include <inttypes.h>

#define HEADER "phobos-ir 1\nfile \"t.phb\"\n"

static const char everything[] = "phobos-ir 1\n"
                                 "file \"a \\x22b\\x5c\\xc3\\xa9.phb\"\n"
                                 "\n"
                                 "kernel first !2:8+5\n"
                                 "    cluster !1:1+8\n"
                                 "    fastmath\n"
                                 "    launch 256, 2, 64\n"
                                 "    dim N\n"
                                 "    dim M\n"
                                 "    search B leaf [16, 64, 32] cluster [1024, 4096] !1:32+5 !1:10+5\n"
                                 "    search C leaf [8] !1:40+1\n"
                                 "    param a: tensor<f32>[N, M + 2] !2:14+1\n"
                                 "    param b: tensor<f16>[N, M, 4, B]\n"
                                 "    param s: f32 !2:40+1\n"
                                 "    grid x ceildiv(extent(a, 0), B) !4:5+14\n"
                                 "    grid x ceildiv(N, B) !5:5+14\n"
                                 "    grid y stated\n"
                                 "    grid y ceildiv(M, C) !1:60+5\n"
                                 "    grid z stated\n"
                                 "    aligned N = B !1:70+5\n"
                                 "    require B <= N && N % 3 != 1 !1:80+5\n"
                                 "{\n"
                                 "    %0 = ctx.block.x : i64 !3:13+11\n"
                                 "    %1 = ctx.grid.y : i64\n"
                                 "    %2 = ctx.super.z : i64\n"
                                 "    %3 = ctx.supers.x : i64\n"
                                 "    %4 = extent %a, 1 : i64 !4:1+12\n"
                                 "    %5 = origin %a, 0 : i64\n"
                                 "    %6 = whole %b, 3 : i64\n"
                                 "    %7 = dim N * 2 - B : i64\n"
                                 "    %8 = load %a[%0 :+ B, %4 :+ C] : tile<f32>[B, C] !4294967295:4294967295+4294967295\n"
                                 "    %9 = neg %8 : tile<f32>[B, C]\n"
                                 "    %10 = lt %9, %8 : tile<bool>[B, C]\n"
                                 "    %11 = convert %10 : tile<i8>[B, C]\n"
                                 "    %12 = broadcast %s : tile<f32>[B, C]\n"
                                 "    store %a[%0 :+ B, %4 :+ C] = %12 !5:1+20\n"
                                 "    %13 = load %b[%0, %1, %2, %3] : f16\n"
                                 "    store %b[%3, %2, %1, %0] = %13\n"
                                 "    return !6:1+1\n"
                                 "}\n"
                                 "\n"
                                 "kernel second\n"
                                 "{\n"
                                 "    return\n"
                                 "}\n";

static const char regions[] = HEADER "\n"
                                     "kernel k\n"
                                     "    param a: tensor<f32>[64]\n"
                                     "    param x: f32\n"
                                     "    param i: i64\n"
                                     "    param p: bool\n"
                                     "{\n"
                                     "    %0 = broadcast %x : tile<f32>[4, 4]\n"
                                     "    %1, %2 = for %i, %i, %i, %0, %x unroll 4 : tile<f32>[4, 4], f32 !3:1+3\n"
                                     "    do %3: i64, %4: tile<f32>[4, 4], %5: f32 {\n"
                                     "        %6 = dot %0, %0, %4 : tile<f32>[4, 4]\n"
                                     "        %7 = if %p : f32 !4:1+2\n"
                                     "        then {\n"
                                     "            store %a[%3] = %5\n"
                                     "            yield %5\n"
                                     "        }\n"
                                     "        else {\n"
                                     "            %8 = sum %6, -1 : f32\n"
                                     "            yield %8 !5:1+5\n"
                                     "        }\n"
                                     "        yield %6, %7\n"
                                     "    }\n"
                                     "    for %i, %i, %i\n"
                                     "    do %9: i64 {\n"
                                     "        yield\n"
                                     "    }\n"
                                     "    %10 = while %2 : f32\n"
                                     "    test %11: f32 {\n"
                                     "        %12 = lt %11, %x : bool\n"
                                     "        condition %12\n"
                                     "    }\n"
                                     "    do %13: f32 {\n"
                                     "        %14 = fma %13, %x, %13 : f32\n"
                                     "        yield %14\n"
                                     "    }\n"
                                     "    while\n"
                                     "    test {\n"
                                     "        condition %p\n"
                                     "    }\n"
                                     "    do {\n"
                                     "        yield\n"
                                     "    }\n"
                                     "    %15 = argmax %1, 1 : tile<i32>[4, 1]\n"
                                     "    %16 = select %p, %10, %x : f32\n"
                                     "    store %a[%i] = %16\n"
                                     "    return\n"
                                     "}\n";

static const char threads[] = "phobos-ir 1\n"
                              "file \"t.phb\"\n"
                              "\n"
                              "kernel k\n"
                              "    launch 128, 0, 0\n"
                              "    cluster_dims 2, C, 1 nonportable !1:2+3\n"
                              "    dim N\n"
                              "    search C leaf [1, 2]\n"
                              "    param a: tensor<f32>[N]\n"
                              "    param n: tensor<i32>[N]\n"
                              "{\n"
                              "    %0 = ctx.thread.x : i64\n"
                              "    %1 = ctx.threads : i64\n"
                              "    %2 = ctx.warp : i64\n"
                              "    %3 = ctx.lane : i64\n"
                              "    %4 = ctx.cluster.z : i64\n"
                              "    %5 = ctx.cluster.rank : i64\n"
                              "    %6 = ctx.cluster.size : i64\n"
                              "    %7 = cluster_mask : u32\n"
                              "    %8 = cluster_mask.y : u32\n"
                              "    %9 = shared \"s\" : shared<f32>[16, C] !2:9+1\n"
                              "    %10 = remote %9, %5 : shared<f32>[16, C]\n"
                              "    %11 = load %a[%0] : f32\n"
                              "    store %9[%0, %3] = %11\n"
                              "    barrier !3:1+7\n"
                              "    %12 = elect_one_sync : bool\n"
                              "    %13 = shuffle %11, %3 : f32\n"
                              "    %14 = shuffle_xor %12, %3 : bool\n"
                              "    %15 = shuffle_up %13, %3 : f32\n"
                              "    %16 = shuffle_down %15, %3 : f32\n"
                              "    %17 = ballot %14 : u32\n"
                              "    %18 = warp_any %12 : bool\n"
                              "    %19 = warp_all %18 : bool\n"
                              "    %20 = warp_sum %16 : f32\n"
                              "    %21 = warp_max %20 : f32\n"
                              "    %22 = warp_min %21 : f32\n"
                              "    %23 = block_sum %22 : f32\n"
                              "    %24 = block_max %23 : f32\n"
                              "    %25 = block_min %24 : f32\n"
                              "    cluster_arrive\n"
                              "    cluster_wait\n"
                              "    cluster_arrive_relaxed\n"
                              "    cluster_wait\n"
                              "    %26 = load %10[%0, %5] : f32\n"
                              "    %27 = load %n[%0] : i32\n"
                              "    %28 = atomic_add once %n[%5] = %27 : i32\n"
                              "    %29 = atomic_max %9[%0, %3] = %26 : f32\n"
                              "    %30 = atomic_min %10[%0, %3] = %29 : f32\n"
                              "    %31 = atomic_cas %n[%0] = %27, %28 : i32\n"
                              "    store once %a[%5] = %25\n"
                              "    return\n"
                              "}\n";

static const char *const texts[] = {everything, regions, threads};

/* The printed form of `text`, on the heap; NULL where it does not read. */
static char *print_again(const char *text) {
    Fixture f;
    fixture_open(&f, text, strlen(text));
    IrModule *module = ir_read(&f.context);
    fixture_finish(&f);
    Buffer printed = {0};
    if (module)
        ir_print(&printed, module);
    else
        fprintf(stderr, "%s", f.messages);
    fixture_close(&f);
    return printed.data;
}

START_TEST(prints_the_same) {
    char *printed = print_again(texts[_i]);
    ck_assert_ptr_nonnull(printed);
    ck_assert_str_eq(printed, texts[_i]);
    free(printed);
}
END_TEST

START_TEST(spacing_is_free) {
    char *printed = print_again("phobos-ir   1  \n\n  \nfile \"t.phb\"\n\n\n\nkernel   k   !1 : 2 + 3\ndim N\n\nparam a:tensor<i64>[N*2]\n{\n\n"
                                "%0=const 5:i64\n%1=load %a[%0:+4]:tile<i64>[2+2]\nreturn\n}\n\n");
    ck_assert_ptr_nonnull(printed);
    ck_assert_str_eq(printed, HEADER "\nkernel k !1:2+3\n    dim N\n    param a: tensor<i64>[N * 2]\n{\n    %0 = const 5 : i64\n"
                                     "    %1 = load %a[%0 :+ 4] : tile<i64>[4]\n    return\n}\n");
    free(printed);
}
END_TEST

/* ---- constants ---- */

typedef struct Constant {
    const char *text, *type;
    uint64_t bits;
    const char *printed; /* NULL: as `text` */
} Constant;

static const Constant constants[] = {
    {"0", "i8", 0, NULL},
    {"-128", "i8", 0x80, NULL},
    {"127", "i8", 0x7f, NULL},
    {"255", "u8", 0xff, NULL},
    {"-1", "i16", 0xffff, NULL},
    {"-2147483648", "i32", 0x80000000, NULL},
    {"-9223372036854775808", "i64", UINT64_C(1) << 63, NULL},
    {"18446744073709551615", "u64", UINT64_MAX, NULL},
    {"0x2a", "i32", 42, "42"},
    {"true", "bool", 1, NULL},
    {"false", "bool", 0, NULL},
    {"0.1", "f32", 0x3dcccccd, NULL},
    {"0.1", "f64", UINT64_C(0x3fb999999999999a), NULL},
    {"0.1", "f16", 0x2e66, NULL},
    {"0.1", "bf16", 0x3dcd, NULL},
    {"1.0", "f32", 0x3f800000, NULL},
    {"1", "f32", 0x3f800000, "1.0"},
    {"-0.0", "f32", 0x80000000, NULL},
    {"-0.0", "f16", 0x8000, NULL},
    {"1e+10", "f32", 0x501502f9, NULL},
    {"1e-45", "f32", 1, NULL},
    {"5e-324", "f64", 1, NULL},
    {"1.7976931348623157e+308", "f64", UINT64_C(0x7fefffffffffffff), NULL},
    {"0.30000000000000004", "f64", UINT64_C(0x3fd3333333333334), NULL},
    {"6e-08", "f16", 1, NULL},
    {"inf", "f16", 0x7c00, NULL},
    {"-inf", "bf16", 0xff80, NULL},
    {"-inf", "f64", UINT64_C(0xfff0000000000000), NULL},
    {"nan", "f32", 0x7fc00000, NULL},
    {"nan", "f16", 0x7e00, NULL},
    {"0xffc00000", "f32", 0xffc00000, NULL},
    {"0x7f800001", "f32", 0x7f800001, NULL},
    {"0x7e01", "f16", 0x7e01, NULL},
    {"0x3f800000", "f32", 0x3f800000, "1.0"},
};

START_TEST(constant) {
    const Constant *c = &constants[_i];
    char text[200], line[100];
    snprintf(text, sizeof text, HEADER "kernel k\n{\n%%0 = const %s : %s\nreturn\n}\n", c->text, c->type);
    snprintf(line, sizeof line, "    %%0 = const %s : %s\n", c->printed ? c->printed : c->text, c->type);
    Fixture f;
    fixture_open(&f, text, strlen(text));
    IrModule *module = ir_read(&f.context);
    ck_assert_ptr_nonnull(module);
    ck_assert_uint_eq(module->kernels.items[0]->body->first->bits, c->bits);
    Buffer printed = {0};
    ir_print(&printed, module);
    ck_assert_msg(strstr(printed.data, line), "%s", printed.data);
    buffer_free(&printed);
    fixture_finish(&f);
    fixture_close(&f);
}
END_TEST

/* Every value of the 16-bit formats, and a million f32s, in one kernel each. */
START_TEST(floats_read_back_to_their_bits) {
    static const PhbDType dtypes[] = {PHB_F16, PHB_BF16, PHB_F32, PHB_F64};
    PhbDType dtype = dtypes[_i];
    Fixture f;
    fixture_open(&f, "", 0);
    IrModule *module = NEW(f.context.arena, IrModule);
    IrKernel *kernel = NEW(f.context.arena, IrKernel);
    module->file = "t.phb";
    kernel->signature.name = intern_cstr(f.context.interner, "k");
    kernel->body = ir_block_new(&f.context, NULL);
    vec_push(f.context.arena, &module->kernels, kernel);
    uint64_t random = 1;
    for (uint64_t i = 0; i < 65536; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        uint64_t bits = dtype_bits(dtype) == 16 ? i : dtype == PHB_F32 ? random >> 32 : random;
        ir_const_bits(&f.context, kernel->body, (Span){0}, type_scalar(f.context.types, dtype), bits);
    }
    ir_append(&f.context, kernel->body, OP_RETURN, (Span){0}, NULL, 0, NULL, 0);
    Buffer text = {0};
    ir_print(&text, module);
    Source source = {.path = "t.ir", .text = text.data, .length = text.length};
    f.context.source = &source;
    IrModule *again = ir_read(&f.context);
    ck_assert_ptr_nonnull(again);
    const IrOp *a = kernel->body->first, *b = again->kernels.items[0]->body->first;
    for (; a && b; a = a->next, b = b->next)
        if (a->bits != b->bits) /* ck_assert writes a mark each time: too slow here */
            ck_abort_msg("%" PRIx64 " %" PRIx64, a->bits, b->bits);
    ck_assert(!a && !b);
    buffer_free(&text);
    fixture_finish(&f);
    fixture_close(&f);
}
END_TEST

/* ---- bad text ---- */

typedef struct Bad {
    const char *text, *message;
} Bad;

#define KERNEL HEADER "kernel k\nparam a: tensor<f32>[4]\nparam i: i64\n{\n" /* the body begins on line 7 */

static const Bad bad[] = {
    {"", "t.ir:1:1: error: expected 'phobos-ir', found the end of the file"},
    {"phobos", "1:1: error: expected 'phobos-ir', found 'phobos'"},
    {"phobos-ir 2\n", "1:11: error: this compiler reads version 1"},
    {"phobos-ir 1", "1:12: error: expected the end of the line, found the end of the file"},
    {"phobos-ir 1\nfile t.phb\n", "2:6: error: expected a string, found 't.phb'"},
    {"phobos-ir 1\nfile \"t.phb\n", "the string does not end on its line"},
    {"phobos-ir 1\nfile \"t\\n\"\n", "'\\' in a string begins '\\xNN', not 0"},
    {"phobos-ir 1\nfile \"\\x00\"\n", "'\\' in a string begins '\\xNN', not 0"},
    {HEADER "kernl k\n", "3:1: error: expected 'kernel', found 'kernl'"},
    {HEADER "kernel\n", "3:7: error: expected the name of a kernel, found the end of the line"},
    {HEADER "kernel k\n{\nreturn\n}\nkernel k\n{\nreturn\n}\n", "7:8: error: kernel 'k' is defined twice"},
    {HEADER "kernel k\nparm a: f32\n", "4:1: error: expected a declaration or '{', found 'parm'"},
    {HEADER "kernel k\nparam a: f33\n", "4:10: error: 'f33' is no element type"},
    {HEADER "kernel k\nparam a: tensor<f32>[1, 2, 3, 4, 5]\n", "more than 4 axes"},
    {HEADER "kernel k\ngrid w 4\n", "4:6: error: expected 'x', 'y' or 'z', found 'w'"},
    {HEADER "kernel k\nsearch B leaf []\n", "4:16: error: expected an integer, found ']'"},
    {HEADER "kernel k\nsearch B leaf [4] cluster []\n", "expected an integer, found ']'"},
    {HEADER "kernel k\nrequire floor(1, 2)\n", "4:9: error: 'floor' is no function of dims"},
    {HEADER "kernel k\nrequire 1 / 0\n", "4:11: error: the expression overflows, divides by zero or is too large"},
    {HEADER "kernel k\nrequire 9223372036854775807 + 1\n", "the expression overflows, divides by zero or is too large"},
    {HEADER "kernel k\nrequire 9223372036854775808\n", "4:9: error: the number is greater than 9223372036854775807"},
    {HEADER "kernel k\nrequire 18446744073709551616\n", "4:9: error: the number needs more than 64 bits"},
    {HEADER "kernel k\nrequire 1 +\n", "4:12: error: expected a dim expression, found the end of the line"},
    {HEADER "kernel k\nrequire (1\n", "expected ')', found the end of the line"},
    {HEADER "kernel k !0:1\n", "expected '+', found the end of the line"},
    {HEADER "kernel k !4294967296:1+1\n", "the number is greater than 4294967295"},
    {KERNEL, "7:1: error: expected an op, found the end of the file"},
    {KERNEL "retrun\n}\n", "7:1: error: expected an op, found 'retrun'"},
    {KERNEL "return\n", "8:1: error: expected an op, found the end of the file"},
    {KERNEL "%0 = return\n", "7:6: error: 'return' has no result"},
    {KERNEL "add %i, %i : i64\n", "7:1: error: the result of 'add' needs a number"},
    {KERNEL "%1 = add %i, %i : i64\n", "7:1: error: expected '%0', the next number in order"},
    {KERNEL "%i = add %i, %i : i64\n", "7:1: error: expected '%0', the next number in order"},
    {KERNEL "%0 = add %i : i64\n", "7:13: error: expected ',', found ':'"},
    {KERNEL "%0 = add %i, %i, %i : i64\n", "7:16: error: expected ':', found ','"},
    {KERNEL "%0 = add %i, %z : i64\n", "7:14: error: '%z' is not defined here"},
    {KERNEL "%0 = add %i, %0 : i64\n", "7:14: error: '%0' is not defined here"},
    {KERNEL "%0 = add %i, %18446744073709551615 : i64\n", "'%18446744073709551615' is not defined here"},
    {KERNEL "%0 = add %i, %i\n", "expected ':', found the end of the line"},
    {KERNEL "%0 = add %i, %i : i64 !1\n", "expected ':', found the end of the line"},
    {KERNEL "%0 = add %i, %i : i64 return\n", "expected the end of the line, found 'return'"},
    {KERNEL "%0 = ctx.block.w : i64\n", "expected an op, found 'ctx.block.w'"},
    {KERNEL "%0 = ctx.block : i64\n", "expected an op, found 'ctx.block'"},
    {KERNEL "%0 = load %a : f32\n", "7:14: error: expected '[', found ':'"},
    {KERNEL "%0 = load %a[] : f32\n", "7:14: error: expected a value, found ']'"},
    {KERNEL "%0 = load %a[%i, %i, %i, %i, %i] : f32\n", "more than 4 axes"},
    {KERNEL "%0 = load %a[%i :+ ] : f32\n", "expected a dim expression, found ']'"},
    {KERNEL "store %a[%i]\n", "expected '=', found the end of the line"},
    {KERNEL "%0 = const 128 : i8\n", "7:12: error: '128' is no constant of the type given"},
    {KERNEL "%0 = const -129 : i8\n", "'-129' is no constant of the type given"},
    {KERNEL "%0 = const -1 : u64\n", "'-1' is no constant of the type given"},
    {KERNEL "%0 = const -0x1 : i64\n", "'-0x1' is no constant of the type given"},
    {KERNEL "%0 = const 1.5 : i64\n", "'1.5' is no constant of the type given"},
    {KERNEL "%0 = const true : i64\n", "'true' is no constant of the type given"},
    {KERNEL "%0 = const 1 : bool\n", "'1' is no constant of the type given"},
    {KERNEL "%0 = const -nan : f32\n", "'-nan' is no constant of the type given"},
    {KERNEL "%0 = const x : f32\n", "'x' is no constant of the type given"},
    {KERNEL "%0 = const 1.0 : tile<f32>[4]\n", "'1.0' is no constant of the type given"},
    {KERNEL "%0 = const : f32\n", "7:12: error: expected a constant, found ':'"},
    {KERNEL "%0 = const 1x : f32\n", "7:12: error: a letter follows the number"},
    {KERNEL "%0 = const 0x : f32\n", "a number without digits"},
    {KERNEL "%0x = const 1 : f32\n", "a letter follows the number"},
    {KERNEL "\treturn\n", "7:1: error: unexpected byte"},
    {KERNEL "return\r\n", "7:7: error: unexpected byte"},
    {KERNEL "return # the end\n", "unexpected byte"},
    {KERNEL "return\n} x\n", "expected the end of the line, found 'x'"},
    {KERNEL "return\n}\n}\n", "9:1: error: expected 'kernel', found '}'"},
    {KERNEL "%0, %1 = add %i, %i : i64, i64\n", "7:10: error: 'add' has one result"},
    {KERNEL "%0, = add %i, %i : i64\n", "7:5: error: expected '%1', the next number in order"},
    {KERNEL "%0, %1 = for %i, %i, %i, %i, %i : i64\n", "expected ',', found the end of the line"},
    {KERNEL "%0 = for %i, %i, %i, %0 : i64\n", "7:22: error: '%0' is not defined here"},
    {KERNEL "for %i, %i, \n", "7:13: error: expected a value, found the end of the line"},
    {KERNEL "for %i, %i, %i unroll\n", "expected a dim expression, found the end of the line"},
    {KERNEL "for %i, %i, %i\nreturn\n", "8:1: error: expected 'do', found 'return'"},
    {KERNEL "for %i, %i, %i\ndo %0 {\n", "8:7: error: expected ':', found '{'"},
    {KERNEL "for %i, %i, %i\ndo %1: i64 {\n", "8:4: error: expected '%0', the next number in order"},
    {KERNEL "for %i, %i, %i\ndo %0: i64\n", "8:11: error: expected '{', found the end of the line"},
    {KERNEL "for %i, %i, %i\ndo %0: i64 {\nyield\n", "10:1: error: expected an op, found the end of the file"},
    {KERNEL "while\ndo {\nyield\n}\n", "8:1: error: expected 'test', found 'do'"},
    {KERNEL "%0 = for %i, %i, %i, %i : i64\ndo %1: i64, %2: i64 {\nyield %0\n}\n", "9:7: error: '%0' is not defined here"},
};

static void expect_refusal(const char *text, size_t length, const char *message) {
    Fixture f;
    fixture_open(&f, text, length);
    IrModule *module = ir_read(&f.context);
    fixture_finish(&f);
    ck_assert_msg(!module && strstr(f.messages, message), "%s\n-- said:\n%s\n-- expected:\n%s", text, f.messages, message);
    ck_assert_int_eq(diag_error_count(f.context.diag), 1);
    fixture_close(&f);
}

START_TEST(refuses) {
    expect_refusal(bad[_i].text, strlen(bad[_i].text), bad[_i].message);
}
END_TEST

START_TEST(refuses_nul) {
    static const char text[] = HEADER "kernel k\n{\nreturn\0\n}\n";
    expect_refusal(text, sizeof text - 1, "t.ir:5:7: error: unexpected byte");
}
END_TEST

/* HEADER, a line that begins with `first`, and `count` times `again`. */
static void expect_bounded(const char *first, const char *again, int count, const char *message) {
    Buffer text = {0};
    buffer_puts(&text, HEADER);
    buffer_puts(&text, first);
    for (int i = 0; i < count; i++)
        buffer_puts(&text, again);
    expect_refusal(text.data, text.length, message);
    buffer_free(&text);
}

START_TEST(bounds) {
    expect_bounded("kernel k\nrequire ", "(", 100000, "nesting deeper than 200");
    expect_bounded("kernel k\nrequire ", "!", 100000, "nesting deeper than 200");
    expect_bounded("kernel k\nrequire ", "min(1, ", 100000, "nesting deeper than 200");
    expect_bounded("kernel k\nrequire N", " / N", 100000, "is too large");
    expect_bounded("kernel k\nrequire N", " && N", 100000, "is too large");
    expect_bounded("kernel k\nrequire N", " * N", 100000, "is too large");
    expect_bounded("kernel k\nparam i: i64\n{\n", "for %i, %i, %i\ndo {\n", 100000, "regions nested deeper than 400");
    expect_bounded("kernel k\nlaunch ", "9", 100000, "the number is too long");
    expect_bounded("kernel k\n", "param a: f32\n", 100000, "more than 128 parameters");
    expect_bounded("kernel ", "k", 100000, "expected the end of the line, found the end of the file");
}
END_TEST

START_TEST(too_many_kernels) {
    Buffer text = {0};
    buffer_puts(&text, HEADER);
    for (int i = 0; i < 5000; i++)
        buffer_printf(&text, "kernel k%d\n{\nreturn\n}\n", i);
    expect_refusal(text.data, text.length, "more than 4096 kernels");
    buffer_free(&text);
}
END_TEST

/* Cut anywhere, the text is refused with one message, or is a whole number of kernels. */
START_TEST(truncated) {
    const char *text = texts[_i];
    for (size_t length = 0; length < strlen(text); length++) {
        Fixture f;
        fixture_open(&f, text, length);
        IrModule *module = ir_read(&f.context);
        fixture_finish(&f);
        ck_assert_int_eq(diag_error_count(f.context.diag), module ? 0 : 1);
        ck_assert(!module || strncmp(text + length, "\nkernel", 7) == 0 || strncmp(text + length, "kernel", 6) == 0);
        fixture_close(&f);
    }
}
END_TEST

#define COUNT(table) (int)(sizeof table / sizeof *table)

int main(void) {
    Suite *suite = suite_create("ir_text");
    TCase *tests = tcase_create("ir_text");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, prints_the_same, 0, COUNT(texts));
    tcase_add_test(tests, spacing_is_free);
    tcase_add_loop_test(tests, constant, 0, COUNT(constants));
    tcase_add_loop_test(tests, floats_read_back_to_their_bits, 0, 4);
    tcase_add_loop_test(tests, refuses, 0, COUNT(bad));
    tcase_add_test(tests, refuses_nul);
    tcase_add_test(tests, bounds);
    tcase_add_test(tests, too_many_kernels);
    tcase_add_loop_test(tests, truncated, 0, COUNT(texts));
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
