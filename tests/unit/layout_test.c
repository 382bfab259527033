/* Layouts, the memory level's rules, and the layout pass: each layout reaches every element, each rule has bad IR, and what the pass makes is sound.
 */
#include "compiler/layout/layout.h"
#include "tests/unit/ir_fixture.h"

/* ---- layouts ---- */

/* Every element of the padded tile is in some register of some thread, and as often as every other one. */
static void check_reaches_all(const Layout *layout, int64_t rows, int64_t columns) {
    int64_t height = (int64_t)1 << layout_log2(rows), width = (int64_t)1 << layout_log2(columns);
    int *seen = calloc((size_t)(height * width), sizeof *seen);
    for (int place = 0; place < 1 << layout_bits(layout); place++) {
        int at[2] = {0, 0};
        for (int bit = 0; bit < layout_bits(layout); bit++)
            for (int axis = 0; axis < 2; axis++)
                at[axis] ^= place >> bit & 1 ? layout->bases[bit].at[axis] : 0;
        if (at[0] >= height || at[1] >= width)
            ck_abort_msg("place %d lies outside", place);
        seen[at[0] * width + at[1]]++;
    }
    for (int64_t i = 0; i < height * width; i++)
        if (seen[i] != seen[0])
            ck_abort_msg(
                "element %lld of %lld x %lld is there %d times, the first %d", (long long)i, (long long)rows, (long long)columns, seen[i], seen[0]);
    ck_assert_int_gt(seen[0], 0);
    free(seen);
}

START_TEST(layouts_reach_all) {
    static const int64_t extents[] = {1, 3, 16, 33};
    for (size_t r = 0; r < sizeof extents / sizeof *extents; r++) {
        for (size_t c = 0; c < sizeof extents / sizeof *extents; c++) {
            for (int warps = 0; warps <= 3; warps++) {
                Layout layout;
                for (int fast = 0; fast < 2; fast++)
                    for (int across = 0; across < 2; across++)
                        if (layout_blocked(extents[r], extents[c], fast, 4, across, warps, &layout))
                            check_reaches_all(&layout, extents[r], extents[c]);
                if (layout_outer(extents[r], extents[c], 4, warps, &layout)) {
                    check_reaches_all(&layout, extents[r], extents[c]);
                    Layout slice = layout_slice(&layout, 1), swapped = layout_swap(&layout);
                    check_reaches_all(&slice, extents[r], 1);
                    check_reaches_all(&swapped, extents[c], extents[r]);
                }
            }
        }
    }
}
END_TEST

START_TEST(layouts_that_are_too_large) {
    Layout layout;
    ck_assert(layout_blocked(256, 32, 1, 4, false, 0, &layout));
    ck_assert(!layout_blocked(256, 64, 1, 4, false, 0, &layout));
    ck_assert(!layout_outer(512, 512, 4, 3, &layout));
}
END_TEST

/* ---- the verifier's rules ---- */

#define ROW "<c1 c2, c4 c8 r1 r2 r4, >" /* of [8, 16] */
#define HALF "<c1 c2, c4 c8 r1 r2 0, >"
#define SLICE "<, 0 0 r1 r2 r4, >" /* of [8, 1] */

typedef struct Case {
    const char *body, *message; /* NULL: it is sound */
} Case;

static const Case bodies[] = {
    {"%0 = load %a[%i :+ 8, %i :+ 16] : tile<f32>[8, 16]" ROW "\nstore %a[%i :+ 8, %i :+ 16] = %0\nreturn\n", NULL},
    {"%0 = load %a[%i :+ 8, %i :+ 16] : tile<f32>[8, 16]\nreturn\n", "'tile<f32>[8, 16]' has no layout"},
    {"%0 = load %a[%i :+ 8, %i :+ 16] : tile<f32>[8, 16]" HALF "\nreturn\n", "does not reach all its elements"},
    {"%0 = load %a[%i :+ 8, %i :+ 8] : tile<f32>[8, 8]" ROW "\nreturn\n", "reaches beyond it"},
    {"%0 = load %a[%i :+ 8, %i :+ 16] : tile<f32>[8, 16]<c1 c2, c4 c8 r1 r2 r4, 0>\nreturn\n", "is laid out over 64 threads, the CTA has 32"},
    {"%0 = load %a[%i :+ 8, %i :+ 16] : tile<f32>[8, 16]" ROW "\n%1 = load %a[%i :+ 8, %i :+ 16] : tile<f32>[8, 16]<r4 c2, c4 c8 r1 r2 c1, >\n"
     "%2 = add %0, %1 : tile<f32>[8, 16]" ROW "\nreturn\n",
        "operands are of different types"},
    {"%0 = load %a[%i :+ 8, %i :+ 16] : tile<f32>[8, 16]" ROW "\n%1 = convert_layout %0 : tile<f32>[8, 16]<r4 c2, c4 c8 r1 r2 c1, >\nreturn\n", NULL},
    {"%0 = load %a[%i :+ 8, %i :+ 16] : tile<f32>[8, 16]" ROW "\n%1 = convert_layout %0 : tile<i32>[8, 16]" ROW "\nreturn\n",
        "differ in more than layout"},
    {"%0 = load %a[%i :+ 8, %i :+ 16] : tile<f32>[8, 16]" ROW
     "\n%1 = convert_layout %0 at 96+64 : tile<f32>[8, 16]<r4 c2, c4 c8 r1 r2 c1, >\nreturn\n",
        "it takes bytes of shared memory beyond the kernel's 128"},
    {"%0 = load %a[%i :+ 8, %i :+ 16] : tile<f32>[8, 16]" ROW "\n%1 = sum %0, 1 : tile<f32>[8, 1]" SLICE "\n%2 = broadcast %1 : tile<f32>[8, 16]" ROW
     "\nreturn\n",
        NULL},
    {"%0 = load %a[%i :+ 8, %i :+ 16] : tile<f32>[8, 16]" ROW "\n%1 = sum %0, 1 : tile<f32>[8, 1]<, r1 r2 r4 0 0, >\nreturn\n",
        "is not that of the operand, sliced"},
    {"%0 = load %a[%i :+ 8, %i :+ 1] : tile<f32>[8, 1]<, r1 r2 r4 0 0, >\n%1 = broadcast %0 : tile<f32>[8, 16]" ROW "\nreturn\n",
        "is not that of the result, sliced"},
    {"%0 = load %a[%i :+ 8, %i :+ 16] : tile<f32>[8, 16]" ROW "\n%1 = transpose %0 : tile<f32>[16, 8]<r1 r2, r4 r8 c1 c2 c4, >\nreturn\n", NULL},
    {"%0 = load %a[%i :+ 8, %i :+ 16] : tile<f32>[8, 16]" ROW "\n%1 = transpose %0 : tile<f32>[16, 8]<c1 c2, r1 r2 r4 r8 c4, >\nreturn\n",
        "is not that of the operand, transposed"},
    {"%0 = load %a[%i :+ 8, %i :+ 16] : tile<f32>[8, 16]" ROW "\n%1 = stage %0 at 0+128 : shared<f32>[8, 8]\nreturn\n",
        "is not staged as a 'shared<f32>[8, 8]'"},
    {"%0 = const 0.0 : f32\n%1 = broadcast %0 : tile<f32>[8, 8]<c1, c2 c4 r1 r2 r4, >\n%2 = dot %1, %1, %1 : tile<f32>[8, 8]<c1, c2 c4 r1 r2 r4, "
     ">\nreturn\n",
        "expected a staged tile of rank 2"},
    {"%0 = load %a[%i :+ 8, %i :+ 16] : tile<f32>[8, 16]<c1 c2, c4 c8 r1 r2, >\nreturn\n", "a warp has 5 bits of lanes, the layout 4"},
    {"%0 = load %a[%i :+ 8, %i :+ 16] : tile<f32>[8, 16]<c1 x2, c4 c8 r1 r2 r4, >\nreturn\n", "'x2' is no basis of a layout"},
    {"%0 = load %a[%i :+ 8, %i :+ 16] : tile<f32>[8, 16]<c1 c01, c4 c8 r1 r2 r4, >\nreturn\n", "'c01' is no basis of a layout"},
    {"%0 = load %a[%i :+ 8, %i :+ 16] : tile<f32>[8, 16]<c1 c1+c2, c4 c8 r1 r2 r4, >\nreturn\n", "'c2' is no basis of a layout"},
/* matrix instructions and pipelines; MMA is of [16, 8] */
#define MMA "<c1 r8, c2 c4 r1 r2 r4, >"
#define RING "%0 = const 0.0 : f32\n%1 = ring at 0+128 : shared<f32>[2, 2, 8]\n%2 = const 0 : i64\n%3 = const true : bool\n"
    {"%0 = const 0.0 : f32\n%1 = broadcast %0 : tile<f32>[16, 8]<c1 c2, c4 r1 r2 r4 r8, >\n%2 = stage %1 at 0+64 : shared<f32>[16, 8]\n"
     "%3 = mma_t %2, %2, %1 : tile<f32>[16, 8]<c1 c2, c4 r1 r2 r4 r8, >\nreturn\n",
        "do not contract to"},
    {"%0 = const 0.0 : f32\n%1 = broadcast %0 : tile<f32>[16, 16]<c1 c2 c4, c8 r1 r2 r4 r8, >\n%2 = stage %1 at 0+64 : shared<f32>[16, 16]\n"
     "%3 = mma %2, %2, %1 : tile<f32>[16, 16]<c1 c2 c4, c8 r1 r2 r4 r8, >\nreturn\n",
        "is not laid out as matrix instructions have it"},
    {RING "%4 = slot %1, %2 : shared<f32>[2, 8]\nasync_copy %a[%i :+ 2, %i :+ 8] = %4, %3\nasync_commit\nasync_wait 0\nreturn\n", NULL},
    {RING "%4 = slot %1, %2 : shared<f32>[2, 4]\nreturn\n", "has no slots 'shared<f32>[2, 4]'"},
    {RING "%4 = slot %1, %0 : shared<f32>[2, 8]\nreturn\n", "a slot's number is an i64"},
    {RING "%4 = slot %1, %2 : shared<f32>[2, 8]\nasync_copy %a[%i :+ 2, %i :+ 4] = %4, %3\nreturn\n", "no slot for it"},
    {RING "%4 = slot %1, %2 : shared<f32>[2, 8]\nasync_copy %a[%i :+ 2, %i :+ 8] = %4, %0\nreturn\n", "a condition is a bool, found 'f32'"},
    {"%0 = ring at 0+64 : shared<f32>[2, 8]\nreturn\n", "a ring is shared memory of rank 3"},
};

static IrModule *read_text(Fixture *f, const char *threads, const char *body) {
    char text[1 << 14];
    int length = snprintf(
        text, sizeof text, "phobos-ir 1\nfile \"t.phb\"\nkernel k\n%sdim N\nparam a: tensor<f32>[N, N]\nparam i: i64\n{\n%s}\n", threads, body);
    fixture_open(f, text, (size_t)length);
    IrModule *module = ir_read(&f->context);
    fixture_finish(f);
    return module;
}

START_TEST(memory_level_rules) {
    Fixture f;
    IrModule *module = read_text(&f, "threads 32, 128\n", bodies[_i].body);
    if (bodies[_i].message)
        ck_assert_msg(
            !module && strstr(f.messages, bodies[_i].message), "%s\n-- said:\n%s\n-- expected:\n%s", bodies[_i].body, f.messages, bodies[_i].message);
    else
        ck_assert_msg(module && f.messages_length == 0, "%s\n-- said:\n%s", bodies[_i].body, f.messages);
    fixture_close(&f);
}
END_TEST

START_TEST(value_level_has_none_of_it) {
    static const Case cases[] = {
        {"%0 = load %a[%i :+ 8, %i :+ 16] : tile<f32>[8, 16]" ROW "\nreturn\n", "has a layout, the kernel no threads"},
        {"%0 = load %a[%i :+ 8, %i :+ 16] : tile<f32>[8, 16]\n%1 = convert_layout %0 : tile<f32>[8, 16]\nreturn\n",
            "'convert_layout' stands before the memory level"},
        {"%0 = load %a[%i :+ 8, %i :+ 16] : tile<f32>[8, 16]\n%1 = stage %0 : shared<f32>[8, 16]\nreturn\n",
            "'stage' stands before the memory level"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Fixture f;
        ck_assert(!read_text(&f, "", cases[i].body));
        ck_assert_msg(strstr(f.messages, cases[i].message), "said: %s", f.messages);
        fixture_close(&f);
    }
}
END_TEST

/* ---- the pass ---- */

static IrModule *lay_out(Fixture *f, const char *launch, const char *body, const char **why) {
    static const LayoutLimits limits = {.shared_bytes = 48 << 10, .registers = 255};
    IrModule *module = read_text(f, launch, body);
    ck_assert_msg(module != NULL, "%s", f->messages);
    *why = NULL;
    if (!layout_kernel(&f->context, module->kernels.items[0], &limits, why)) {
        ck_assert_ptr_nonnull(*why);
        return NULL;
    }
    const char *broken = ir_verify(&f->context, module);
    ck_assert_msg(!broken, "%s", broken);
    return module;
}

static int count_ops(const IrBlock *block, OpKind kind) {
    int count = 0;
    for (const IrOp *op = block->first; op; op = op->next) {
        count += op->kind == kind;
        for (int r = 0; r < op->regions.count; r++)
            count += count_ops(op->regions.items[r], kind);
    }
    return count;
}

typedef struct Barriers {
    const char *body;
    int barriers, conversions;
} Barriers;

static const Barriers kernels[] = {
    /* what a thread stores it alone reads again */
    {"%0 = load %a[%i :+ 64, %i :+ 64] : tile<f32>[64, 64]\nstore %a[%i :+ 64, %i :+ 64] = %0\n%1 = load %a[%i :+ 64, %i :+ 64] : tile<f32>[64, 64]\n"
     "store %a[%i :+ 64, %i :+ 64] = %1\nreturn\n",
        0, 0},
    /* another slice of the same tensor */
    {"%0 = const 1 : i64\n%1 = load %a[%i :+ 64, %i :+ 64] : tile<f32>[64, 64]\nstore %a[%i :+ 64, %0 :+ 64] = %1\n%2 = load %a[%i :+ 64, %i :+ 64] "
     ": tile<f32>[64, 64]\n"
     "store %a[%i :+ 64, %i :+ 64] = %2\nreturn\n",
        2, 0},
    /* a loop's next turn reads what the last one stored */
    {"%0 = const 1 : i64\nfor %i, %i, %0\ndo %1: i64 {\n%2 = load %a[%1 :+ 64, %i :+ 64] : tile<f32>[64, 64]\nstore %a[%1 :+ 64, %i :+ 64] = "
     "%2\nyield\n}\nreturn\n",
        1, 0},
    /* a transpose through shared memory, twice: its scratch is free again only after a barrier */
    {"%0 = load %a[%i :+ 64, %i :+ 64] : tile<f32>[64, 64]\n%1 = transpose %0 : tile<f32>[64, 64]\n%2 = add %1, %0 : tile<f32>[64, 64]\n"
     "%3 = transpose %2 : tile<f32>[64, 64]\n%4 = add %3, %0 : tile<f32>[64, 64]\nstore %a[%i :+ 64, %i :+ 64] = %4\nreturn\n",
        1, 2},
    /* a scalar that one thread stores and all read */
    {"%0 = const 1 : i64\n%1 = const 2.0 : f32\nstore once %a[%0, %0] = %1\n%2 = load %a[%0, %0] : f32\nstore once %a[%0, %i] = %2\nreturn\n", 2, 0},
};

START_TEST(barriers_where_needed) {
    Fixture f;
    const char *why;
    IrModule *module = lay_out(&f, "", kernels[_i].body, &why);
    ck_assert_msg(module != NULL, "%s", why);
    ck_assert_int_eq(count_ops(module->kernels.items[0]->body, OP_BARRIER), kernels[_i].barriers);
    ck_assert_int_eq(count_ops(module->kernels.items[0]->body, OP_CONVERT_LAYOUT), kernels[_i].conversions);
    fixture_close(&f);
}
END_TEST

START_TEST(what_does_not_fit) {
    static const struct {
        const char *launch, *body, *why;
    } cases[] = {
        {"launch 32, 0, 0\n", "%0 = load %a[%i :+ 256, %i :+ 64] : tile<f32>[256, 64]\nstore %a[%i :+ 256, %i :+ 64] = %0\nreturn\n",
            "a tile of 256 x 64 elements is more than 32 threads hold in registers"},
        {"launch 48, 0, 0\n", "%0 = load %a[%i :+ 8, %i :+ 8] : tile<f32>[8, 8]\nstore %a[%i :+ 8, %i :+ 8] = %0\nreturn\n",
            "tiles need whole warps, and 48 threads are not"},
        {"",
            "%0 = load %a[%i :+ 128, %i :+ 128] : tile<f32>[128, 128]\n%1 = transpose %0 : tile<f32>[128, 128]\n%2 = add %0, %1 : tile<f32>[128, "
            "128]\n"
            "store %a[%i :+ 128, %i :+ 128] = %2\nreturn\n",
            "of shared memory, a CTA has at most 49152"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Fixture f;
        const char *why;
        ck_assert(!lay_out(&f, cases[i].launch, cases[i].body, &why));
        ck_assert_msg(strstr(why, cases[i].why), "said: %s", why);
        fixture_close(&f);
    }
}
END_TEST

#define COUNT(table) (int)(sizeof table / sizeof *table)

int main(void) {
    Suite *suite = suite_create("layout");
    TCase *tests = tcase_create("layout");
    tcase_add_test(tests, layouts_reach_all);
    tcase_add_test(tests, layouts_that_are_too_large);
    tcase_add_loop_test(tests, memory_level_rules, 0, COUNT(bodies));
    tcase_add_test(tests, value_level_has_none_of_it);
    tcase_add_loop_test(tests, barriers_where_needed, 0, COUNT(kernels));
    tcase_add_test(tests, what_does_not_fit);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
