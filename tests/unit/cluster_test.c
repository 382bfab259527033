/* The cluster split, assignments, specialisation and the choice of variants, on IR text. */
#include "compiler/lower/lower.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

typedef struct Compilation {
    Context context;
    Source source;
    IrModule *module;
    ClusterProgram *program;
    char *messages;
    size_t message_length;
    FILE *out;
} Compilation;

static void compilation_open(Compilation *c, const char *signature, const char *body) {
    *c = (Compilation){0};
    Context *context = &c->context;
    context->arena = arena_new();
    context->interner = interner_new(context->arena);
    context->dims = dim_pool_new(context->arena);
    context->types = type_pool_new(context->arena);
    c->source.path = "test.ir";
    c->source.text = arena_printf(context->arena, "phobos-ir 1\nfile \"test.phb\"\n\nkernel k\n%s{\n%s    return\n}\n", signature, body);
    c->source.length = strlen(c->source.text);
    context->source = &c->source;
    c->out = open_memstream(&c->messages, &c->message_length);
    context->diag = diag_new(context->arena, &c->source, c->out, DIAG_TEXT, false);
    c->module = ir_read(context);
    fflush(c->out);
    ck_assert_msg(c->module != NULL, "%s", c->messages);
    c->program = cluster_split(context, c->module);
    fflush(c->out);
}

static void compilation_close(Compilation *c) {
    diag_finish(c->context.diag);
    fclose(c->out);
    free(c->messages);
    arena_free(c->context.arena);
}

/* ---- the split ---- */

#define VECTORS                                                                                                                                      \
    "    cluster\n"                                                                                                                                  \
    "    dim N\n"                                                                                                                                    \
    "    search B leaf [16, 64] cluster [1024]\n"                                                                                                    \
    "    param a: tensor<f32>[N]\n"                                                                                                                  \
    "    param c: tensor<f32>[N]\n"                                                                                                                  \
    "    grid x ceildiv(extent(c, 0), B)\n"

#define OFFSET                                                                                                                                       \
    "    %0 = ctx.block.x : i64\n"                                                                                                                   \
    "    %1 = dim B : i64\n"                                                                                                                         \
    "    %2 = mul %0, %1 : i64\n"

/* A loop over the second axis of m with the index %9, from %3, 0, to %4 by %5, and columns to store: %7, and %8 of T. */
#define MATRIX VECTORS "    dim K\n    search T leaf [4]\n    param m: tensor<f32>[N, K]\n    param n: i64\n"
#define LOOP(end, step)                                                                                                                              \
    OFFSET "    %3 = const 0 : i64\n    %4 = " end " : i64\n    %5 = " step " : i64\n    %6 = load %a[%2 :+ B] : tile<f32>[B]\n"                     \
           "    %7 = reshape %6 : tile<f32>[B, 1]\n    %8 = broadcast %7 : tile<f32>[B, T]\n    store %c[%2 :+ B] = %6\n"                            \
           "    for %3, %4, %5\n    do %9: i64 {\n"
#define END "        yield\n    }\n"

typedef struct SplitCase {
    const char *signature, *body;
    const char *printed; /* in the text of the cluster program, or NULL */
    const char *message; /* in the first message; NULL: there is none */
} SplitCase;

static const SplitCase split_cases[] = {
    {VECTORS, OFFSET "    %3 = load %a[%2 :+ B] : tile<f32>[B]\n    store %c[%2 :+ B] = %3\n",
        "    super-tiles x: ceildiv(N, B), B in [1024]\n"
        "    read a: f32[ctx.super.x * B :+ B]\n"
        "    write c: f32[ctx.super.x * B :+ B]\n",
        NULL},
    /* read before it is stored */
    {VECTORS, OFFSET "    %3 = load %c[%2 :+ B] : tile<f32>[B]\n    store %c[%2 :+ B] = %3\n", "    read-write c: f32[ctx.super.x * B :+ B]\n", NULL},
    /* one element a tile */
    {VECTORS, OFFSET "    %3 = load %a[%2] : f32\n    store %c[%2] = %3\n", "    read-write c: f32[ctx.super.x * B :+ B]\n", NULL},
    /* the offset as a sum that comes out the same */
    {VECTORS,
        OFFSET "    %3 = const 5 : i64\n    %4 = add %2, %3 : i64\n    %5 = sub %4, %3 : i64\n"
               "    %6 = load %a[%5 :+ B] : tile<f32>[B]\n    store %c[%2 :+ B] = %6\n",
        "    read a: f32[ctx.super.x * B :+ B]\n", NULL},
    /* two factors, one in each value */
    {VECTORS,
        OFFSET "    %3 = const 15 : i64\n    %4 = add %2, %3 : i64\n    %5 = load %a[%4] : f32\n"
               "    %6 = broadcast %5 : tile<f32>[B]\n    store %c[%2 :+ B] = %6\n",
        "    read a: f32[ctx.super.x * B :+ B]\n", NULL},
    {VECTORS,
        OFFSET "    %3 = const 16 : i64\n    %4 = add %2, %3 : i64\n    %5 = load %a[%4] : f32\n"
               "    %6 = broadcast %5 : tile<f32>[B]\n    store %c[%2 :+ B] = %6\n",
        NULL, "'a' is accessed at two super-tile coordinates"},
    {VECTORS,
        OFFSET "    %3 = const -1 : i64\n    %4 = add %2, %3 : i64\n    %5 = load %a[%4] : f32\n"
               "    %6 = broadcast %5 : tile<f32>[B]\n    store %c[%2 :+ B] = %6\n",
        NULL, "'a' is accessed at two super-tile coordinates"},
    /* through memory an offset depends on nothing */
    {VECTORS "    param t: tensor<i64>[8]\n",
        OFFSET "    %3 = const 0 : i64\n    %4 = load %t[%3] : i64\n    %5 = load %t[%4] : i64\n    %6 = load %a[%2 :+ B] : tile<f32>[B]\n"
               "    store %c[%2 :+ B] = %6\n",
        "    read t: i64[0 :+ 8]\n", NULL},
    /* but not through arithmetic */
    {VECTORS, OFFSET "    %3 = const 2 : i64\n    %4 = div %2, %3 : i64\n    %5 = load %a[%4 :+ B] : tile<f32>[B]\n    store %c[%2 :+ B] = %5\n",
        NULL, "the access to axis 0 of 'a' is none of grid, loop, halo and whole"},
    {VECTORS, OFFSET "    %3 = mul %2, %0 : i64\n    %4 = load %a[%3 :+ B] : tile<f32>[B]\n    store %c[%2 :+ B] = %4\n", NULL,
        "the access to axis 0 of 'a' is none of grid, loop, halo and whole"},
    {VECTORS, "    %0 = const 1.0 : f32\n    %1 = broadcast %0 : tile<f32>[B]\n    %2 = const 0 : i64\n    store %c[%2 :+ B] = %1\n", NULL,
        "no store is indexed by 'ctx.block.x'"},
    /* sum with the origin, comparison with either edge */
    {VECTORS "    param p: tensor<i64>[N]\n",
        OFFSET "    %3 = origin %c, 0 : i64\n    %4 = add %3, %2 : i64\n    %5 = broadcast %4 : tile<i64>[B]\n    store %p[%2 :+ B] = %5\n"
               "    %6 = extent %p, 0 : i64\n    %7 = lt %2, %6 : bool\n    %8 = dim N : i64\n    %9 = le %8, %2 : bool\n"
               "    %10 = and %7, %9 : bool\n    %11 = convert %10 : f32\n    %12 = broadcast %11 : tile<f32>[B]\n    store %c[%2 :+ B] = %12\n",
        "    write p: i64[ctx.super.x * B :+ B]\n", NULL},
    /* a loop along an axis reaches all of it where its slices leave no gap */
    {MATRIX, LOOP("dim K", "dim T") "        store %m[%2 :+ B, %9 :+ T] = %8\n" END, "    write m: f32[ctx.super.x * B :+ B, 0 :+ K]\n", NULL},
    {MATRIX, LOOP("extent %m, 1", "const 1") "        store %m[%2 :+ B, %9] = %7\n" END, "    write m: f32[ctx.super.x * B :+ B, 0 :+ K]\n", NULL},
    {MATRIX, LOOP("dim K", "const 2") "        store %m[%2 :+ B, %9] = %7\n" END, "    read-write m: f32[ctx.super.x * B :+ B, 0 :+ K]\n", NULL},
    {MATRIX, LOOP("dim K", "const -1") "        store %m[%2 :+ B, %9] = %7\n" END, "    read-write m: f32[ctx.super.x * B :+ B, 0 :+ K]\n", NULL},
    {MATRIX, LOOP("dim K - 1", "const 1") "        store %m[%2 :+ B, %9] = %7\n" END, "    read-write m: f32[ctx.super.x * B :+ B, 0 :+ K]\n", NULL},
    {MATRIX, LOOP("dim K", "add %3, %n") "        store %m[%2 :+ B, %9 :+ T] = %8\n" END, "    read-write m: f32[ctx.super.x * B :+ B, 0 :+ K]\n",
        NULL},
    {MATRIX, LOOP("dim K", "dim T * 2") "        store %m[%2 :+ B, %9 :+ T] = %8\n" END, "    read-write m: f32[ctx.super.x * B :+ B, 0 :+ K]\n",
        NULL},
    /* a loop that may not run, a condition */
    {VECTORS "    param d: tensor<f32>[N]\n    param n: i64\n",
        OFFSET "    %3 = const 0 : i64\n    %4 = const 1 : i64\n    %5 = load %a[%2 :+ B] : tile<f32>[B]\n    store %c[%2 :+ B] = %5\n"
               "    for %3, %n, %4\n    do %6: i64 {\n        store %d[%2 :+ B] = %5\n" END,
        "    read-write d: f32[ctx.super.x * B :+ B]\n", NULL},
    {VECTORS "    param d: tensor<f32>[N]\n    param n: i64\n",
        OFFSET "    %3 = const 0 : i64\n    %4 = const 1 : i64\n    %5 = load %a[%2 :+ B] : tile<f32>[B]\n    store %c[%2 :+ B] = %5\n"
               "    %6 = dim N : i64\n    %7 = const 9 : i64\n    for %3, %7, %4\n    do %8: i64 {\n        store %d[%2 :+ B] = %5\n" END,
        "    write d: f32[ctx.super.x * B :+ B]\n", NULL},
    {VECTORS "    param d: tensor<f32>[N]\n    param p: bool\n",
        OFFSET "    %3 = load %a[%2 :+ B] : tile<f32>[B]\n    store %c[%2 :+ B] = %3\n"
               "    if %p\n    then {\n        store %d[%2 :+ B] = %3\n        yield\n    }\n    else {\n" END,
        "    read-write d: f32[ctx.super.x * B :+ B]\n", NULL},
    /* read in the loop that stores, and after it */
    {MATRIX,
        LOOP("dim K", "dim T") "        store %m[%2 :+ B, %9 :+ T] = %8\n        %10 = load %m[%2 :+ B, %9 :+ T] : tile<f32>[B, T]\n"
                               "        store %m[%2 :+ B, %9 :+ T] = %10\n" END,
        "    read-write m: f32[ctx.super.x * B :+ B, 0 :+ K]\n", NULL},
    {MATRIX,
        LOOP("dim K", "dim T") "        store %m[%2 :+ B, %9 :+ T] = %8\n" END
                               "    %10 = load %m[%2 :+ B, %3 :+ T] : tile<f32>[B, T]\n    store %m[%2 :+ B, %3 :+ T] = %10\n",
        "    write m: f32[ctx.super.x * B :+ B, 0 :+ K]\n", NULL},
    /* a point proved to stay in its tile by the loop's bounds, and one that does not */
    {VECTORS,
        OFFSET "    %3 = const 0 : i64\n    %4 = const 1 : i64\n    for %3, %1, %4\n    do %5: i64 {\n        %6 = add %2, %5 : i64\n"
               "        %7 = load %a[%6] : f32\n        store %c[%6] = %7\n" END,
        "    read a: f32[ctx.super.x * B :+ B]\n", NULL},
    {VECTORS,
        OFFSET "    %3 = const 0 : i64\n    %4 = const 17 : i64\n    %5 = const 1 : i64\n    for %3, %4, %5\n    do %6: i64 {\n"
               "        %7 = add %2, %6 : i64\n        %8 = load %a[%7] : f32\n        store %c[%2] = %8\n" END,
        NULL, "'a' is accessed at two super-tile coordinates"},
    /* what is carried may be anything that it was computed from */
    {VECTORS,
        OFFSET
        "    %3 = const 0 : i64\n    %4 = const 1 : i64\n    %5 = for %3, %1, %4, %2 : i64\n    do %6: i64, %7: i64 {\n        yield %7\n    }\n"
        "    %8 = load %a[%5 :+ B] : tile<f32>[B]\n    store %c[%2 :+ B] = %8\n",
        NULL, "the access to axis 0 of 'a' is none of grid, loop, halo and whole"},
    /* conditions and bounds are values too */
    {VECTORS,
        OFFSET "    %3 = load %a[%2 :+ B] : tile<f32>[B]\n    %4 = const 40 : i64\n    %5 = lt %2, %4 : bool\n    if %5\n    then {\n"
               "        store %c[%2 :+ B] = %3\n        yield\n    }\n    else {\n" END,
        NULL, "a value depends on 'ctx.block.x' other than by a sum with 'origin'"},
    {VECTORS,
        OFFSET "    %3 = const 0 : i64\n    %4 = const 1 : i64\n    %5 = const 0.0 : f32\n    %6 = for %3, %2, %4, %5 : f32\n"
               "    do %7: i64, %8: f32 {\n        %9 = sub %8, %5 : f32\n        yield %9\n    }\n    %10 = broadcast %6 : tile<f32>[B]\n"
               "    store %c[%2 :+ B] = %10\n",
        NULL, "a value depends on 'ctx.block.x' other than by a sum with 'origin'"},
    /* the bound of a loop of the leaf is the whole axis, also where its dim names one that is split */
    {VECTORS "    param z: tensor<f32>[N]\n",
        OFFSET "    %3 = const 0 : i64\n    %4 = dim N : i64\n    %5 = const 1 : i64\n    %6 = const 0.0 : f32\n    %7 = for %3, %4, %5, %6 : f32\n"
               "    do %8: i64, %9: f32 {\n        %10 = load %z[%8] : f32\n        %11 = add %9, %10 : f32\n        yield %11\n    }\n"
               "    %12 = broadcast %7 : tile<f32>[B]\n    store %c[%2 :+ B] = %12\n",
        "    read z: f32[0 :+ N]\n", NULL},
    /* positions in a tile: compared with the edge, each by its own; one place's position is not another's */
    {VECTORS "    param p: tensor<bool>[N]\n",
        OFFSET
        "    %3 = iota : tile<i32>[B]\n    %4 = convert %3 : tile<i64>[B]\n    %5 = broadcast %2 : tile<i64>[B]\n    %6 = add %4, %5 : tile<i64>[B]\n"
        "    %7 = extent %p, 0 : i64\n    %8 = broadcast %7 : tile<i64>[B]\n    %9 = lt %6, %8 : tile<bool>[B]\n    store %p[%2 :+ B] = %9\n"
        "    %10 = load %a[%2 :+ B] : tile<f32>[B]\n    store %c[%2 :+ B] = %10\n",
        "    write p: bool[ctx.super.x * B :+ B]\n", NULL},
    {VECTORS "    param p: tensor<i64>[N]\n",
        OFFSET
        "    %3 = iota : tile<i32>[B]\n    %4 = convert %3 : tile<i64>[B]\n    %5 = broadcast %2 : tile<i64>[B]\n    %6 = add %4, %5 : tile<i64>[B]\n"
        "    store %p[%2 :+ B] = %6\n    %7 = load %a[%2 :+ B] : tile<f32>[B]\n    store %c[%2 :+ B] = %7\n",
        NULL, "a value depends on 'ctx.block.x' other than by a sum with 'origin'"},
    /* a cluster loop: chunks of what it stores */
    {MATRIX "    search S leaf [8] cluster [64]\n",
        LOOP("dim K", "dim S") "        %10 = broadcast %7 : tile<f32>[B, S]\n        store %m[%2 :+ B, %9 :+ S] = %10\n" END,
        "    write m: f32[ctx.super.x * B :+ B, chunk 0 * S :+ S]\n"
        "    stage 0, once: read a, write c\n"
        "    stage 1, each chunk of loop 0: read a, write m\n",
        NULL},
    /* from elsewhere than 0, or to what is no dim, it is the leaf's */
    {MATRIX "    search S leaf [8] cluster [64]\n",
        LOOP("dim K", "dim S") "        %10 = add %9, %n : i64\n        store %m[%2 :+ B, %10] = %7\n" END, NULL,
        "'m' is accessed at two super-tile coordinates"},
    /* twice as fast as the loop */
    {MATRIX "    search S leaf [8] cluster [64]\n",
        LOOP("dim K",
            "dim S") "        %10 = add %9, %9 : i64\n        %11 = broadcast %7 : tile<f32>[B, S]\n        store %m[%2 :+ B, %10 :+ S] = %11\n" END,
        NULL, "the access to axis 1 of 'm' is none of grid, loop, halo and whole"},
    {MATRIX "    search S leaf [8] cluster [64]\n", LOOP("add %3, %n", "dim S") "        store %m[%2 :+ B, %9] = %7\n" END, NULL,
        "'S' under @cluster splits no axis"},
    /* one that indexes nothing, and another bound than the tensor's extent */
    {MATRIX "    search S leaf [8] cluster [64]\n    dim L\n", LOOP("dim L", "dim S") "        store %m[%2 :+ B, %9] = %7\n" END, NULL,
        "splits axis 1 of 'm', of extent 'K', and an axis of extent 'L'"},
};

START_TEST(test_split) {
    const SplitCase *test = &split_cases[_i];
    Compilation c;
    compilation_open(&c, test->signature, test->body);
    if (test->message)
        ck_assert_msg(strstr(c.messages, test->message) != NULL, "expected '%s', found: %s", test->message, c.messages);
    else
        ck_assert_str_eq(c.messages, "");
    if (test->printed) {
        Buffer text = {0};
        cluster_print(&text, c.program);
        ck_assert_msg(strstr(text.data, test->printed) != NULL, "expected '%s', found: %s", test->printed, text.data);
        buffer_free(&text);
    }
    compilation_close(&c);
}
END_TEST

/* ---- assignments ---- */

START_TEST(test_assignments) {
    Compilation c;
    compilation_open(&c, "    search A leaf [1, 2]\n    search B leaf [3]\n    search C leaf [5, 7, 6]\n", "");
    const Signature *signature = &c.module->kernels.items[0]->signature;
    static const int64_t expected[6][3] = {{1, 3, 5}, {1, 3, 7}, {1, 3, 6}, {2, 3, 5}, {2, 3, 7}, {2, 3, 6}};
    Assignment all = assignment_first(&c.context, signature);
    all.varies[0] = all.varies[1] = all.varies[2] = true;
    for (int i = 0; i < 6; i++) {
        ck_assert_int_eq(memcmp(all.values, expected[i], sizeof expected[i]), 0);
        ck_assert(assignment_next(&all) == (i < 5));
    }
    ck_assert_int_eq(memcmp(all.values, expected[0], sizeof expected[0]), 0);
    Assignment fixed = assignment_first(&c.context, signature);
    ck_assert(!assignment_next(&fixed));

    const Dim *a = dim_name(c.context.dims, signature->search.items[0].name);
    const Dim *unknown = dim_name(c.context.dims, intern_cstr(c.context.interner, "N"));
    const Dim *huge = dim_op(c.context.dims, PHB_EXPR_MUL, a, dim_int(c.context.dims, INT64_MAX));
    int64_t value, two[3] = {2, 3, 5};
    ck_assert(dim_evaluate(&c.context, signature, dim_op(c.context.dims, PHB_EXPR_ADD, a, dim_int(c.context.dims, 4)), two, &value));
    ck_assert_int_eq(value, 6);
    ck_assert(!dim_evaluate(&c.context, signature, unknown, two, &value));
    ck_assert(!dim_evaluate(&c.context, signature, huge, two, &value));
    ck_assert_ptr_null(dim_assign(&c.context, signature, huge, two));
    compilation_close(&c);
}
END_TEST

/* ---- specialise ---- */

START_TEST(test_specialise) {
    Compilation c;
    compilation_open(&c, VECTORS "    require B <= 64\n",
        OFFSET "    %3 = load %a[%2 :+ B] : tile<f32>[B]\n    %4 = convert %1 : f32\n    %5 = broadcast %4 : tile<f32>[B]\n"
               "    %6 = mul %3, %5 : tile<f32>[B]\n    store %c[%2 :+ B] = %6\n");
    int64_t value = 64;
    IrKernel *leaf = specialise(&c.context, c.module->kernels.items[0], &value);
    const IrOp *at = NULL;
    ck_assert_ptr_null(ir_verify_kernel(&c.context, leaf, &at));
    ck_assert_ptr_null(ir_verify(&c.context, c.module));
    IrModule alone = {.file = "test.phb"};
    vec_push(c.context.arena, &alone.kernels, leaf);
    Buffer text = {0};
    ir_print(&text, &alone);
    ck_assert_ptr_null(strstr(text.data, "dim B :"));
    ck_assert_ptr_null(strstr(text.data, ":+ B"));
    ck_assert_ptr_null(strstr(text.data, "convert"));
    ck_assert_ptr_nonnull(strstr(text.data, "[%2 :+ 64] : tile<f32>[64]"));
    ck_assert_ptr_nonnull(strstr(text.data, "const 64.0 : f32"));
    ck_assert_ptr_nonnull(strstr(text.data, "grid x ceildiv(extent(c, 0), 64)"));
    buffer_free(&text);
    compilation_close(&c);
}
END_TEST

/* ---- variants ---- */

typedef struct VariantCase {
    const char *search;   /* declarations beside those of N, a and c */
    const char *expected; /* values of the variants; NULL: an error */
} VariantCase;

static const VariantCase variant_cases[] = {
    /* two tiles of 4 bytes an element in 32 KiB */
    {"    search B leaf [16, 1024, 4096, 8192] cluster [1048576]\n", "4096;"},
    /* nothing fits: the smallest */
    {"    search B leaf [65536, 32768] cluster [1048576]\n", "32768;"},
    /* whole tiles in the default super-tile */
    {"    search B leaf [16, 64, 256, 1024] cluster [1536, 4096]\n", "256;"},
    {"    search B leaf [16, 64] cluster [1024]\n    require B < 50\n", "16;"},
    {"    search B leaf [16, 64] cluster [1024]\n    require 64 < B\n", NULL},
    /* ties go to the earliest */
    {"    search B leaf [16] cluster [1024]\n    search U leaf [3, 5]\n", "16,3;"},
    /* what the tensors or the launch decide stays open */
    {"    search B leaf [16, 64] cluster [1024]\n    search D leaf [8, 32]\n    param t: tensor<f32>[D]\n", "64,8;64,32;"},
    {"    search B leaf [16, 64] cluster [1024]\n    aligned N = B\n", "16;64;"},
    {"    search B leaf [16, 64] cluster [1024]\n    search U leaf [3, 5, 7]\n    dim M\n    require U <= M\n", "64,3;64,5;64,7;"},
};

START_TEST(test_variants) {
    const VariantCase *test = &variant_cases[_i];
    Compilation c;
    char signature[1024], found[256] = "";
    snprintf(signature, sizeof signature,
        "    cluster\n    dim N\n%s    param a: tensor<f32>[N]\n    param c: tensor<f32>[N]\n    grid x ceildiv(extent(c, 0), B)\n", test->search);
    compilation_open(&c, signature, OFFSET "    %3 = load %a[%2 :+ B] : tile<f32>[B]\n    store %c[%2 :+ B] = %3\n");
    ck_assert_int_eq(diag_error_count(c.context.diag), 0);
    select_cpu_variants(&c.context, c.program);
    fflush(c.out);
    ck_assert_msg((test->expected == NULL) == (diag_error_count(c.context.diag) > 0), "%s", c.messages);
    const ClusterKernel *kernel = c.program->kernels.items[0];
    for (int i = 0; i < kernel->variants.count; i++) {
        const LeafVariant *variant = &kernel->variants.items[i];
        for (int j = 0; j < kernel->kernel->signature.search.count; j++)
            sprintf(found + strlen(found), "%s%lld", j ? "," : "", (long long)variant->values[j]);
        strcat(found, ";");
        const IrOp *at = NULL;
        ck_assert_ptr_null(ir_verify_kernel(&c.context, variant->stages[0], &at));
    }
    ck_assert_str_eq(found, test->expected ? test->expected : "");
    compilation_close(&c);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cluster");
    TCase *tests = tcase_create("cluster");
    tcase_add_loop_test(tests, test_split, 0, sizeof split_cases / sizeof *split_cases);
    tcase_add_test(tests, test_assignments);
    tcase_add_test(tests, test_specialise);
    tcase_add_loop_test(tests, test_variants, 0, sizeof variant_cases / sizeof *variant_cases);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
