/* Which loops are contractions, and what is left of the others when theirs are taken out. */
#include "compiler/lower/lower.h"
#include "tests/unit/ir_fixture.h"

/* A: [M, K], B: [K, N], C: [M, N]; %r, %c: where the tile is; slices of 8 of k. */
typedef struct Case {
    const char *body;
    int loops;    /* contractions after isolation */
    bool changed; /* by isolation */
    int unseen;   /* bits: rows, columns of the first contraction beyond its factors' edges are seen by nobody */
} Case;

#define START "%0 = const 0.0 : f32\n%1 = broadcast %0 : tile<f32>[4, 4]\n%2 = const 0 : i64\n%3 = dim K : i64\n%4 = const 8 : i64\n"
#define LOOP START "%5 = for %2, %3, %4, %1 : tile<f32>[4, 4]\ndo %6: i64, %7: tile<f32>[4, 4] {\n"
#define LOADS "%8 = load %A[%r :+ 4, %6 :+ 8] : tile<f32>[4, 8]\n%9 = load %B[%6 :+ 8, %c :+ 4] : tile<f32>[8, 4]\n"
#define DOT "%10 = dot %8, %9, %7 : tile<f32>[4, 4]\n"
#define STORE "store %C[%r :+ 4, %c :+ 4] = %5\n"

static const Case cases[] = {
    {LOOP LOADS DOT "yield %10\n}\n" STORE, 1, false, 3},
    /* at another place, the edge is seen */
    {LOOP LOADS DOT "yield %10\n}\nstore %C[%c :+ 4, %c :+ 4] = %5\n", 1, false, 2},
    /* an epilogue element by element, and one that mixes rows */
    {LOOP LOADS DOT "yield %10\n}\n%11 = neg %5 : tile<f32>[4, 4]\nstore %C[%r :+ 4, %c :+ 4] = %11\n", 1, false, 3},
    {LOOP LOADS DOT "yield %10\n}\n%11 = sum %5, 0 : tile<f32>[1, 4]\nstore %C[%r :+ 1, %c :+ 4] = %11\n", 1, false, -1},
    /* other statements in the loop */
    {LOOP LOADS DOT "%11 = neg %8 : tile<f32>[4, 8]\nstore %D[%r :+ 4, %6 :+ 8] = %11\nyield %10\n}\n" STORE, 1, true, 3},
    /* slices that overlap, or leave gaps */
    {LOOP "%8 = load %A[%r :+ 4, %6 :+ 8] : tile<f32>[4, 8]\n%9 = add %6, %6 : i64\n%10 = load %B[%9 :+ 8, %c :+ 4] : tile<f32>[8, 4]\n"
          "%11 = dot %8, %10, %7 : tile<f32>[4, 4]\nyield %11\n}\n" STORE,
        0, false, 0},
    /* the loop stores to a factor */
    {LOOP LOADS DOT "store %A[%r :+ 4, %6 :+ 8] = %8\nyield %10\n}\n" STORE, 0, false, 0},
    /* the sum is seen on its way */
    {LOOP LOADS DOT "store %C[%r :+ 4, %c :+ 4] = %10\nyield %10\n}\n" STORE, 0, false, 0},
    /* the sum is changed on its way */
    {LOOP LOADS DOT "%11 = neg %10 : tile<f32>[4, 4]\nyield %11\n}\n" STORE, 0, false, 0},
    /* rows move, too */
    {LOOP "%8 = load %A[%6 :+ 4, %6 :+ 8] : tile<f32>[4, 8]\n%9 = load %B[%6 :+ 8, %c :+ 4] : tile<f32>[8, 4]\n" DOT "yield %10\n}\n" STORE, 0, false,
        0},
};

static int count_contractions(Fixture *f, const IrKernel *kernel, const IrBlock *block, Contracted *first) {
    int count = 0;
    for (const IrOp *op = block->first; op; op = op->next) {
        Contracted found;
        if (contraction_match(&f->context, kernel, op, &found) && count++ == 0)
            *first = found;
        for (int i = 0; i < op->regions.count; i++)
            count += count_contractions(f, kernel, op->regions.items[i], first);
    }
    return count;
}

START_TEST(contractions) {
    static const char text[] =
        "phobos-ir 1\nfile \"t.phb\"\n\nkernel k !1:1+1\n    dim M\n    dim K\n    dim N\n    param r: i64 !1:1+1\n    param c: i64 !1:1+1\n"
        "    param A: tensor<f32>[M, K] !1:1+1\n    param B: tensor<f32>[K, N] !1:1+1\n    param C: tensor<f32>[M, N] !1:1+1\n"
        "    param D: tensor<f32>[M, K] !1:1+1\n{\n";
    const Case *c = &cases[_i];
    Fixture f;
    char whole[4096];
    int length = snprintf(whole, sizeof whole, "%s%sreturn\n}\n", text, c->body);
    fixture_open(&f, whole, (size_t)length);
    IrModule *module = ir_read(&f.context);
    fixture_finish(&f);
    ck_assert_msg(module != NULL, "%s", f.messages);
    IrKernel *kernel = module->kernels.items[0];
    ck_assert_int_eq(contraction_isolate(&f.context, kernel), c->changed);
    const char *broken = ir_verify(&f.context, module);
    ck_assert_msg(broken == NULL, "%s", broken ? broken : "");
    ir_dce(&f.context, kernel);
    ck_assert(!contraction_isolate(&f.context, kernel));
    Contracted first;
    ck_assert_int_eq(count_contractions(&f, kernel, kernel->body, &first), c->loops);
    for (int axis = 0; c->loops && c->unseen >= 0 && axis < 2; axis++)
        ck_assert_int_eq(contraction_unseen(kernel, &first, axis), c->unseen >> axis & 1);
    if (c->unseen < 0)
        ck_assert(!contraction_unseen(kernel, &first, 0));
    fixture_close(&f);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("contraction");
    TCase *loops = tcase_create("loops");
    tcase_add_loop_test(loops, contractions, 0, (int)(sizeof cases / sizeof cases[0]));
    suite_add_tcase(suite, loops);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
