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
     "\n%1 = convert_layout %0 at 2016+64 : tile<f32>[8, 16]<r4 c2, c4 c8 r1 r2 c1, >\nreturn\n",
        "it takes bytes of shared memory beyond the kernel's 2048"},
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
/* bulk copies */
#define BULK                                                                                                                                         \
    "%0 = bulk_ring at 0+1024 : shared<f32>[2, 8, 8]\n%1 = mbarriers at 1024+16 : shared<i64>[2]\n%2 = const 0 : i64\n%3 = const true : bool\n"      \
    "%4 = slot %0, %2 : shared<f32>[8, 8]\n"
    {BULK "mbarrier_expect %1, %2, %3, 256\nbulk_copy %a[%i :+ 8, %i :+ 8] = %4, %1, %2, %3\nmbarrier_wait %1, %2, %2\nreturn\n", NULL},
    {BULK "mbarrier_expect %1, %2, %3, 512\nbulk_copy %a[%i :+ 8, %i :+ 8] = %4, %1, %2, %3\nreturn\n", "it expects 512 bytes, and 256 are copied"},
    {BULK "bulk_copy %a[%i :+ 8, %i :+ 4] = %4, %1, %2, %3\nreturn\n", "no slot for it"},
    {BULK "bulk_copy %a[%i :+ 8, %i :+ 8] = %4, %0, %2, %3\nreturn\n", "operand 5 is no 'mbarriers'"},
    {BULK "bulk_copy %a[%i :+ 8, %i :+ 8] = %4, %1, %3, %3\nreturn\n", "an mbarrier's number is of type 'i64', found 'bool'"},
    {BULK "bulk_copy %a[%i :+ 8, %i :+ 8] = %4, %1, %2, %2\nreturn\n", "a condition is of type 'bool', found 'i64'"},
    {BULK "mbarrier_expect %1, %2, %3, 0\nreturn\n", "the number of bytes is missing"},
    {BULK "mbarrier_wait %0, %2, %2\nreturn\n", "operand 1 is no 'mbarriers'"},
    {BULK "%5 = mbarriers_of_all at 1040+16 : shared<i64>[2]\n%6 = copier : bool\nmbarrier_arrive %5, %2\nmbarrier_wait %5, %2, %2\nreturn\n", NULL},
    {BULK "mbarrier_arrive %1, %2\nreturn\n", "operand 1 is no 'mbarriers_of_all'"},
    {BULK "%5 = mbarriers_of_all at 1040+16 : shared<i64>[2]\nmbarrier_expect %5, %2, %3, 256\nreturn\n", "operand 1 is no 'mbarriers'"},
    {BULK "%5 = mbarriers_of_all at 1040+16 : shared<i64>[2]\nmbarrier_arrive %5, %3\nreturn\n",
        "an mbarrier's number is of type 'i64', found 'bool'"},
    {BULK "mbarrier_wait %1, %2, %3\nreturn\n", "a parity is of type 'i64', found 'bool'"},
    {"%0 = bulk_ring at 0+1024 : shared<f32>[2, 8, 12]\nreturn\n", "can be swizzled"},
    {"%0 = bulk_ring at 0+1024 : shared<f32>[2, 4, 8]\nreturn\n", "can be swizzled"},
    {"%0 = bulk_ring at 0+1024 : shared<f32>[8, 8]\nreturn\n", "a ring is shared memory of rank 3"},
    {"%0 = mbarriers at 0+16 : shared<f32>[2]\nreturn\n", "mbarriers are 'shared<i64>' of rank 1"},
    {BULK "%5 = const 1 : i64\nfor %2, %5, %5\ndo %6: i64 {\nmbarrier_expect %1, %2, %3, 256\n"
     "bulk_copy %a[%i :+ 8, %i :+ 8] = %4, %1, %2, %3\nyield\n}\nreturn\n", "no barrier stands between"},
/* and the way back */
#define PUT BULK "%5 = const 0.0 : f32\n%6 = broadcast %5 : tile<f32>[8, 8]<c1, c2 c4 r1 r2 r4, >\nbulk_put %6, %4\n"
    {PUT "barrier\nbulk_store %a[%i :+ 8, %i :+ 8] = %4\nbulk_store_wait 0\nbulk_store_done\nreturn\n", NULL},
    {PUT "bulk_store %a[%i :+ 8, %i :+ 8] = %4\nreturn\n", "no barrier stands between what is put into the slot and its store"},
    {PUT "barrier\nbulk_store %a[%i :+ 8, %i :+ 4] = %4\nreturn\n", "no slot for it"},
    {PUT "%7 = bulk_get %4 : tile<f32>[8, 8]<c1, c2 c4 r1 r2 r4, >\nreturn\n", NULL},
    {PUT "%7 = bulk_get %4 : tile<f32>[8, 4]<, c1 c2 r1 r2 r4, >\nreturn\n", "is no slot for a 'tile<f32>[8, 4]"},
    {BULK "%5 = const 0.0 : f16\n%6 = broadcast %5 : tile<f16>[8, 8]<c1, c2 c4 r1 r2 r4, >\nbulk_put %6, %4\nreturn\n",
        "is no slot for a 'tile<f16>[8, 8]"},
#define STORE(slot) "barrier\nbulk_store %a[%i :+ 8, %i :+ 8] = " slot "\n"
#define PUT_AGAIN(slot) "bulk_put %6, " slot "\nbulk_store_wait 0\nreturn\n"
#define TOO_SOON "the slot is written before a store of it is waited for"
    {PUT STORE("%4") "return\n", "the kernel ends before a store of a slot is waited for"},
    {PUT STORE("%4") "bulk_store_wait 1\nreturn\n", "the kernel ends before a store of a slot is waited for"},
    {PUT STORE("%4") "bulk_store_wait N\nreturn\n", "how many stores may be left is missing"},
    {PUT STORE("%4") "bulk_store_wait -1\nreturn\n", "how many stores may be left is missing"},
    {"async_wait N\nreturn\n", "how many groups may be left is missing"},
    {PUT STORE("%4") "bulk_store_wait 0\nbarrier\n" PUT_AGAIN("%4"), NULL},
    {PUT STORE("%4") "bulk_store_wait 0\n" PUT_AGAIN("%4"), TOO_SOON},
    {PUT STORE("%4") "barrier\n" PUT_AGAIN("%4"), TOO_SOON},
    {PUT STORE("%4") "%7 = const 1 : i64\n%8 = slot %0, %7 : shared<f32>[8, 8]\n" PUT_AGAIN("%8"), NULL},
    {PUT STORE("%4") "%7 = slot %0, %i : shared<f32>[8, 8]\n" PUT_AGAIN("%7"), TOO_SOON},
#define BOTH PUT "%7 = const 1 : i64\n%8 = slot %0, %7 : shared<f32>[8, 8]\nbulk_put %6, %8\n" STORE("%4") STORE("%8") "bulk_store_wait 1\nbarrier\n"
    {BOTH PUT_AGAIN("%4"), NULL},
    {BOTH PUT_AGAIN("%8"), TOO_SOON},
#define FILL_AGAIN "mbarrier_expect %1, %2, %3, 256\nbulk_copy %a[%i :+ 8, %i :+ 8] = %4, %1, %2, %3\nbulk_store_wait 0\nreturn\n"
    {PUT STORE("%4") "bulk_store_wait 0\n" FILL_AGAIN, NULL}, /* by the thread that has waited */
    {PUT STORE("%4") FILL_AGAIN, TOO_SOON},
#define TURNS(first)                                                                                                                                 \
    PUT "%7 = const 1 : i64\nfor %2, %i, %7\ndo %8: i64 {\n" first "bulk_put %6, %4\n" STORE("%4") "yield\n}\nbulk_store_done\nreturn\n"
    {TURNS("bulk_store_wait 0\nbarrier\n"), NULL},
    {TURNS(""), TOO_SOON},
#define BRANCH(then, otherwise) PUT STORE("%4") "if %3\nthen {\n" then "yield\n}\nelse {\n" otherwise "yield\n}\nbarrier\n" PUT_AGAIN("%4")
    {BRANCH("bulk_store_wait 0\n", "bulk_store_wait 0\n"), NULL},
    {BRANCH("bulk_store_wait 0\n", ""), TOO_SOON},
    {BRANCH("", "bulk_store_wait 0\n"), TOO_SOON},
#define WHOLE "%0 = const 0.0 : f32\n%1 = broadcast %0 : tile<f32>[8, 16]<c1 c8, c2 c4 r1 r2 r4, >\n"
    {WHOLE "%2 = part %1, 8 : tile<f32>[8, 8]<c1, c2 c4 r1 r2 r4, >\nreturn\n", NULL},
    {WHOLE "%2 = part %1, 12 : tile<f32>[8, 8]<c1, c2 c4 r1 r2 r4, >\nreturn\n", "is no columns of a"},
    {WHOLE "%2 = part %1, 8 : tile<f32>[4, 8]<, c1 c2 c4 r1 r2, >\nreturn\n", "is no columns of a"},
    {WHOLE "%2 = part %1, 8 : tile<f32>[8, 8]<c1, c4 c2 r1 r2 r4, >\nreturn\n", "threads do not hold their elements of the part"},
    {WHOLE "%2 = part %1, 4 : tile<f32>[8, 8]<c1, c2 c4 r1 r2 r4, >\nreturn\n", "threads do not hold their elements of the part"},
    {"%0 = cta : i64\n%1 = ctas : i64\n%2 = const 8 : i64\n%3 = block_of %0, %2, 1 : i64\nreturn\n", NULL},
    {"%0 = cta : i64\n%1 = block_of %0, %0, 1 : i64\nreturn\n", "the rows of a group are a constant"},
    {"%0 = cta : i64\n%1 = const 8 : i64\n%2 = block_of %0, %1, 3 : i64\nreturn\n", "there are 3 axes"},
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
    IrModule *module = read_text(&f, "threads 32, 2048\n", bodies[_i].body);
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

/* ---- registers ---- */

/* The sum of two tiles of [rows, 128], in 256 threads: loads come a few vectors at a time, so does what is stored, unless it is much. */
START_TEST(registers_of_straight_code) {
    static const struct {
        int rows, registers;
    } cases[] = {{64, 16}, {128, 64}};
    char body[1 << 10];
    const int rows = cases[_i].rows;
    snprintf(body, sizeof body,
        "%%0 = const 0 : i64\n%%1 = load %%a[%%i :+ %d, %%i :+ 128] : tile<f32>[%d, 128]\n"
        "%%2 = load %%a[%%i :+ %d, %%0 :+ 128] : tile<f32>[%d, 128]\n"
        "%%3 = add %%1, %%2 : tile<f32>[%d, 128]\nstore %%a[%%i :+ %d, %%i :+ 128] = %%3\nreturn\n",
        rows, rows, rows, rows, rows, rows);
    Fixture f;
    const char *why;
    IrModule *module = lay_out(&f, "launch 256, 0, 0\n", body, &why);
    ck_assert_msg(module != NULL, "%s", why);
    ck_assert_int_eq(module->kernels.items[0]->registers, cases[_i].registers);
    fixture_close(&f);
}
END_TEST

/* ---- masks ---- */

#define MASKED(before, mask, a, b, c)                                                                                                                \
    "%0 = const 0 : i64\n%1 = const 64 : i64\n%2 = const 0.0 : f32\n%3 = broadcast %2 : tile<f32>[8, 64]\n%4 = iota : tile<i32>[64]\n"               \
    "%5 = convert %4 : tile<i64>[64]\n%6 = broadcast %i : tile<i64>[64]\nfor %0, %i, %1\ndo %7: i64 {\n%8 = broadcast %7 : tile<i64>[64]\n"          \
    "%9 = add %5, %8 : tile<i64>[64]\n" before a " = broadcast " mask " : tile<bool>[8, 64]\n" b                                                     \
    " = load %a[%0 :+ 8, %7 :+ 64] : tile<f32>[8, 64]\n" c " = select " a ", " b ", %3 : tile<f32>[8, 64]\nstore %a[%0 :+ 8, %7 :+ 64] = " c         \
    "\nyield\n}\nreturn\n"

static const struct {
    const char *body;
    int branches;
} masks[] = {
    {MASKED("%10 = lt %9, %6 : tile<bool>[64]\n", "%10", "%11", "%12", "%13"), 1},
    {MASKED("%10 = sub %6, %9 : tile<i64>[64]\n%11 = le %8, %10 : tile<bool>[64]\n", "%11", "%12", "%13", "%14"), 1},
    /* of rows and columns, both */
    {MASKED(
         "%10 = iota : tile<i32>[8]\n%11 = convert %10 : tile<i64>[8]\n%12 = reshape %11 : tile<i64>[8, 1]\n%13 = broadcast %12 : tile<i64>[8, 64]\n"
         "%14 = broadcast %9 : tile<i64>[8, 64]\n%15 = le %14, %13 : tile<bool>[8, 64]\n%16 = broadcast %6 : tile<i64>[8, 64]\n"
         "%17 = lt %14, %16 : tile<bool>[8, 64]\n%18 = and %15, %17 : tile<bool>[8, 64]\n",
         "%18", "%19", "%20", "%21"),
        1},
    /* what is no position, and what 32 bits may wrap */
    {MASKED("%10 = mul %9, %9 : tile<i64>[64]\n%11 = lt %10, %6 : tile<bool>[64]\n", "%11", "%12", "%13", "%14"), 0},
    {MASKED("%10 = convert %7 : i32\n%11 = broadcast %10 : tile<i32>[64]\n%12 = add %4, %11 : tile<i32>[64]\n%13 = convert %12 : tile<i64>[64]\n"
            "%14 = lt %13, %6 : tile<bool>[64]\n",
         "%14", "%15", "%16", "%17"),
        0},
    {MASKED("%10 = lt %9, %6 : tile<bool>[64]\n%11 = lt %6, %9 : tile<bool>[64]\n%12 = or %10, %11 : tile<bool>[64]\n", "%12", "%13", "%14", "%15"),
        0},
};

START_TEST(masks_of_whole_tiles) {
    Fixture f;
    const char *why;
    IrModule *module = lay_out(&f, "", masks[_i].body, &why);
    ck_assert_msg(module != NULL, "%s", why);
    ck_assert_int_eq(count_ops(module->kernels.items[0]->body, OP_IF), masks[_i].branches);
    ck_assert_int_eq(count_ops(module->kernels.items[0]->body, OP_SELECT), 1);
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

/* Rings of slots of [64, 16], 5120 bytes each, beside a factor that takes 34816, of the 49152 that a CTA has. */
START_TEST(rings_leave_room) {
#define NARROW "tile<f32>[128, 16]"
#define COMPUTED(at, to) "%" at " = load %a[%0 :+ 128, %0 :+ 64] : tile<f32>[128, 64]\n%" to " = exp %" at " : tile<f32>[128, 64]\n"
    static const char *const loops[] = {
        /* what a turn makes, */
        "%5 = for %0, %2, %1, %4 : " NARROW "\ndo %6: i64, %7: " NARROW " {\n%8 = load %a[%6 :+ 64, %0 :+ 16] : tile<f32>[64, 16]\n"
        COMPUTED("9", "10")
        "%11 = dot %10, %8, %7 : " NARROW "\nyield %11\n}\nreturn\n",
        /* a loop in it makes, */
        "%5 = for %0, %2, %1, %4 : " NARROW "\ndo %6: i64, %7: " NARROW " {\n%8 = load %a[%6 :+ 64, %0 :+ 16] : tile<f32>[64, 16]\n"
        "%9 = for %0, %2, %1, %7 : " NARROW "\ndo %10: i64, %11: " NARROW " {\n" COMPUTED("12", "13")
        "%14 = dot %13, %8, %11 : " NARROW "\nyield %14\n}\n"
        "yield %9\n}\nreturn\n",
        /* and is there before all loops */
        COMPUTED("5", "6") "%7 = for %0, %2, %1, %4 : " NARROW "\ndo %8: i64, %9: " NARROW " {\n"
        "%10 = for %0, %2, %1, %9 : " NARROW "\ndo %11: i64, %12: " NARROW " {\n"
        "%13 = load %a[%11 :+ 64, %0 :+ 16] : tile<f32>[64, 16]\n%14 = dot %6, %13, %12 : " NARROW "\nyield %14\n}\nyield %10\n}\nreturn\n",
    };
    static const LayoutLimits limits = {.shared_bytes = 48 << 10, .registers = 255, .tensor_cores = true};
    char body[1 << 12];
    snprintf(body, sizeof body,
        "%%0 = const 0 : i64\n%%1 = const 64 : i64\n%%2 = dim N : i64\n%%3 = const 0.0 : f32\n%%4 = broadcast %%3 : " NARROW "\n%s",
        loops[_i]);
    Fixture f;
    const char *why = NULL;
    IrModule *module = read_text(&f, "", body);
    ck_assert_msg(module != NULL, "%s", f.messages);
    IrKernel *kernel = module->kernels.items[0];
    ck_assert_msg(layout_kernel(&f.context, kernel, &limits, &why), "%s", why);
    ck_assert_int_eq(count_ops(kernel->body, OP_RING), 1);
    ck_assert_int_eq(kernel->shared_bytes, 34816 + 2 * 5120);
    fixture_close(&f);
}
END_TEST

/* Products of four warps: %7 is one. */
START_TEST(products_are_waited_for) {
#define TILE "tile<f32>[64, 8]<c1 r8, c2 c4 r1 r2 r4, r16 r32>"
    static const Case cases[] = {
        {"%8 = wgmma_wait %7, 0 : " TILE "\n%9 = neg %8 : " TILE "\nreturn\n", NULL},
        {"%8 = wgmma_t %5, %6, %7 : " TILE "\n%9 = wgmma_wait %8, 0 : " TILE "\nreturn\n", NULL},
        {"%8 = neg %7 : " TILE "\nreturn\n", "operand 1 is read before its 'wgmma' is waited for"},
        {"%8 = wgmma_wait %7, 1 : " TILE "\n%9 = neg %8 : " TILE "\nreturn\n", "operand 1 is read before its 'wgmma' is waited for"},
        {"%8 = for %2, %2, %2, %7 : " TILE "\ndo %9: i64, %10: " TILE " {\n%11 = neg %10 : " TILE "\nyield %11\n}\nreturn\n",
            "operand 1 is read before its 'wgmma' is waited for"},
        {"%8 = wgmma_wait %7, 0 : tile<f32>[64, 8]<c1 r8, c2 c4 r1 r2 r4, r32 r16>\nreturn\n", "operand and result are of different types"},
        {"%8 = broadcast %0 : tile<f32>[64, 8]<c1 r8, c2 c4 r1 r2 r4, r32 r16>\n"
         "%9 = wgmma_t %5, %6, %8 : tile<f32>[64, 8]<c1 r8, c2 c4 r1 r2 r4, r32 r16>\n"
         "return\n",
            "is not laid out as matrix instructions of four warps have it"},
        {"%8 = const 0.0 : f16\n%9 = broadcast %8 : tile<f16>[8, 16]<, c1 c2 c4 c8 r1, r2 r4>\n%10 = stage %9 at 4096+256 : shared<f16>[8, 16]\n"
         "%11 = wgmma_t %5, %10, %1 : " TILE "\nreturn\n",
            "factor 2 lies in no slot of a bulk ring"},
        {"%8 = wgmma_t %5, %6, %1 : " TILE "\n%9 = wgmma_wait %7, 1 : " TILE "\n%10 = neg %9 : " TILE "\nreturn\n", NULL},
        {"%8 = wgmma_t %5, %6, %1 : " TILE "\n%9 = wgmma_wait %8, 1 : " TILE "\n%10 = neg %9 : " TILE "\nreturn\n",
            "operand 1 is read before its 'wgmma' is waited for"},
#define FACTOR(layout) "%8 = const 0.0 : f16\n%9 = broadcast %8 : tile<f16>[64, 16]" layout "\n%10 = wgmma_t %9, %6, %1 : " TILE "\nreturn\n"
        {FACTOR("<c1 r8 c8, c2 c4 r1 r2 r4, r16 r32>"), NULL}, /* from registers */
        {FACTOR("<c1 r8 c8, c2 c4 r1 r2 r4, r32 r16>"), "is not laid out like an accumulator"},
    };
    char body[1 << 12];
    snprintf(body, sizeof body,
        "%%0 = const 0.0 : f32\n%%1 = broadcast %%0 : " TILE "\n%%2 = const 1 : i64\n%%3 = bulk_ring at 0+2048 : shared<f16>[1, 64, 16]\n"
        "%%4 = bulk_ring at 2048+1024 : shared<f16>[1, 8, 16]\n%%5 = slot %%3, %%2 : shared<f16>[64, 16]\n%%6 = slot %%4, %%2 : shared<f16>[8, 16]\n"
        "%%7 = wgmma_t %%5, %%6, %%1 : " TILE "\n%s",
        cases[_i].body);
    Fixture f;
    IrModule *module = read_text(&f, "threads 128, 8192\n", body);
    const char *wanted = cases[_i].message;
    ck_assert_msg(wanted ? !module && strstr(f.messages, wanted) != NULL : module != NULL, "%s\n-- said:\n%s", body, f.messages);
    fixture_close(&f);
}
END_TEST

/* ---- contractions by bulk copies ---- */

/* How the sums leave the registers: straight, or through shared memory. */
typedef enum Way { STRAIGHT, BY_ROWS, BY_COLUMNS } Way;

/* The loop of a product, [rows, k] by [k, columns], with what stands in it after the product, and between it and the store of its sums. */
typedef struct Contraction {
    int rows, k, columns;
    const char *launch, *inside, *after;
    bool is_bulk;
    Way way;
    int threads;
    const char *grid; /* NULL: there is none, so that CTAs do not stay */
    int stores;       /* by columns: bulk stores, */
    int maps;         /* tensor maps of them, */
    int gets;         /* and parts of tiles that are loaded */
} Contraction;

static const Contraction contractions[] = {
    {128, 64, 256, "", "", "", true, BY_COLUMNS, 256, NULL, 8, 1, 0}, {128, 64, 128, "", "", "", true, BY_COLUMNS, 256, NULL, 4, 1, 0},
    {64, 32, 128, "", "", "", true, BY_COLUMNS, 128, NULL, 4, 1, 0}, {64, 128, 16, "", "", "", true, BY_COLUMNS, 128, NULL, 1, 1, 0},
    {256, 16, 128, "", "", "", true, BY_COLUMNS, 256, NULL, 4, 1, 0},
    {64, 16, 16, "", "", "", true, BY_COLUMNS, 128, NULL, 1, 1, 0}, /* a factor of less than the ring aligns slots to */
    {128, 64, 256, "launch 256, 0, 0\n", "", "", true, BY_COLUMNS, 256, NULL, 8, 1, 0},
    {128, 64, 256, "launch 128, 0, 0\n", "", "", false, BY_ROWS, 128, NULL, 0, 0, 0}, /* more registers than a thread has */
    {32, 64, 128, "", "", "", false, STRAIGHT, 128, NULL, 0, 0, 0},                   /* less than 64 rows */
    {32, 64, 128, "", "%10 = dot %7, %8, %3 : tile<f32>[32, 128]\nstore %c[%i :+ 32, %5 :+ 128] = %10\n", "", false, STRAIGHT, 128, NULL, 0, 0,
        0},                                                          /* and two products of it: factors are staged once */
    {256, 64, 256, "", "", "", false, STRAIGHT, 256, NULL, 0, 0, 0}, /* more registers than a thread has */
    {128, 8, 128, "", "", "", false, STRAIGHT, 256, NULL, 0, 0, 0},  /* less than one step */
    {128, 64, 128, "", "%10 = exp %9 : tile<f32>[128, 128]\nstore %c[%i :+ 128, %i :+ 128] = %10\n", "", true, STRAIGHT, 256, NULL, 0, 0,
        0},                                                                                                             /* each turn's sum is seen */
    {128, 64, 128, "", "store %d[%i :+ 128, %i :+ 64] = %7\n", "", false, BY_ROWS, 128, NULL, 0, 0, 0},                 /* a factor, too */
    {128, 64, 128, "", "%10 = const 0.5 : f16\nstore once %a[%i, %i] = %10\n", "", false, BY_ROWS, 128, NULL, 0, 0, 0}, /* what is copied is stored */
#define SUM "tile<f32>[128, 128]"
    {128, 64, 128, "", "", "%10 = convert %4 : tile<f16>[128, 128]\nstore %d[%i :+ 128, %i :+ 128] = %10\n", true, BY_COLUMNS, 256, NULL, 8, 2,
        0},                                                                                              /* two tensors */
    {128, 64, 128, "", "", "store %c[%i :+ 128, %2 :+ 128] = %4\n", true, STRAIGHT, 256, NULL, 0, 0, 0}, /* one tensor twice */
    {128, 64, 128, "", "",
        "%10 = sum %4, 1 : tile<f32>[128, 1]\n%11 = broadcast %10 : " SUM "\n%12 = convert %11 : tile<f16>[128, 128]\n"
        "store %d[%i :+ 128, %i :+ 128] = %12\n",
        true, STRAIGHT, 256, NULL, 0, 0, 0}, /* rows are summed */
    {128, 64, 128, "", "",
        "%10 = load %c[%i :+ 128, %i :+ 128] : " SUM "\n%11 = add %4, %10 : " SUM "\n%12 = convert %11 : tile<f16>[128, 128]\n"
        "store %d[%i :+ 128, %i :+ 128] = %12\n",
        true, BY_ROWS, 256, NULL, 0, 0, 0}, /* what is read is stored, a row at a time */
    {128, 64, 128, "", "",
        "%10 = load %c[%2 :+ 128, %i :+ 128] : " SUM "\n%11 = add %4, %10 : " SUM "\n%12 = convert %11 : tile<f16>[128, 128]\n"
        "store %d[%i :+ 128, %i :+ 128] = %12\n",
        true, STRAIGHT, 256, NULL, 0, 0, 0}, /* another slice of what is stored */
    {128, 64, 128, "", "",
        "%10 = load %c[%i :+ 128, %i :+ 1] : tile<f32>[128, 1]\n%11 = broadcast %10 : " SUM "\n%12 = add %4, %11 : " SUM "\n"
        "%13 = convert %12 : tile<f16>[128, 128]\nstore %d[%i :+ 128, %i :+ 128] = %13\n",
        true, STRAIGHT, 256, NULL, 0, 0, 0}, /* the same */
    {128, 64, 128, "", "",
        "%10 = load %b[%i :+ 128, %i :+ 1] : tile<f16>[128, 1]\n%11 = broadcast %10 : tile<f16>[128, 128]\n"
        "%12 = convert %11 : " SUM "\n%13 = mul %4, %12 : " SUM "\n%14 = convert %13 : tile<f16>[128, 128]\n"
        "store %d[%i :+ 128, %i :+ 128] = %14\n",
        true, BY_COLUMNS, 256, NULL, 8, 2, 0},
#define GRID "grid x ceildiv(N, 128)\ngrid y ceildiv(N, 128)\n" /* CTAs stay: parts are narrower, so that there are slots enough */
    {128, 64, 128, "", "", "", true, BY_COLUMNS, 256, GRID, 8, 1, 0},
    {128, 64, 128, "", "",
        "%10 = load %c[%i :+ 128, %i :+ 128] : " SUM "\n%11 = add %4, %10 : " SUM "\n%12 = convert %11 : tile<f16>[128, 128]\n"
        "store %d[%i :+ 128, %i :+ 128] = %12\n",
        true, BY_COLUMNS, 256, GRID, 16, 2, 8}, /* what is read is stored */
/* A tile of bytes, added, and what comes of it stored */
#define BYTES(columns)                                                                                                                               \
    "%10 = load %e[%i :+ 64, %i :+ " columns "] : tile<u8>[64, " columns "]\n%11 = convert %10 : tile<f32>[64, " columns "]\n"                       \
    "%12 = add %4, %11 : tile<f32>[64, " columns "]\n%13 = convert %12 : tile<f16>[64, " columns "]\n"                                              \
    "store %d[%i :+ 64, %i :+ " columns "] = %13\n"
    {64, 32, 64, "", "", BYTES("64"), true, BY_COLUMNS, 128, GRID, 4, 3, 2},
    {64, 32, 16, "", "", BYTES("16"), true, BY_ROWS, 128, GRID, 0, 0, 0}, /* rows of 16 bytes cannot be swizzled, */
    {64, 32, 64, "", "",
        "%10 = load %f[%i :+ 64, %i :+ 64] : tile<f64>[64, 64]\n%11 = convert %10 : tile<f32>[64, 64]\n"
        "%12 = add %4, %11 : tile<f32>[64, 64]\n%13 = convert %12 : tile<u8>[64, 64]\n"
        "store %e[%i :+ 64, %i :+ 64] = %13\n",
        true, BY_ROWS, 128, GRID, 0, 0, 0}, /* nor of bytes beside 128 of f64 */
};

static IrModule *read_contraction(Fixture *f, const Contraction *c) {
    char text[1 << 13];
    int length = snprintf(text, sizeof text,
        "phobos-ir 1\nfile \"t.phb\"\nkernel k\n%sdim N\nparam a: tensor<f16>[N, N]\nparam b: tensor<f16>[N, N]\nparam c: tensor<f32>[N, N]\n"
        "param d: tensor<f16>[N, N]\nparam e: tensor<u8>[N, N]\nparam f: tensor<f64>[N, N]\nparam i: i64\n%s{\n"
        "%%0 = const 0.0 : f32\n%%1 = const %d : i64\n%%2 = dim N : i64\n"
        "%%3 = broadcast %%0 : tile<f32>[%d, %d]\n%%4 = for %%i, %%2, %%1, %%3 : tile<f32>[%d, %d]\ndo %%5: i64, %%6: tile<f32>[%d, %d] {\n"
        "%%7 = load %%a[%%i :+ %d, %%5 :+ %d] : tile<f16>[%d, %d]\n%%8 = load %%b[%%5 :+ %d, %%i :+ %d] : tile<f16>[%d, %d]\n"
        "%%9 = dot %%7, %%8, %%6 : tile<f32>[%d, %d]\n%syield %%9\n}\n%sstore %%c[%%i :+ %d, %%i :+ %d] = %%4\nreturn\n}\n",
        c->launch, c->grid ? c->grid : "", c->k, c->rows, c->columns, c->rows, c->columns, c->rows, c->columns, c->rows, c->k, c->rows, c->k, c->k,
        c->columns, c->k, c->columns, c->rows, c->columns, c->inside, c->after, c->rows, c->columns);
    fixture_open(f, text, (size_t)length);
    IrModule *module = ir_read(&f->context);
    fixture_finish(f);
    ck_assert_msg(module != NULL, "%s%s", text, f->messages);
    return module;
}

START_TEST(contractions_by_bulk_copies) {
    static const LayoutLimits limits = {.shared_bytes = 227 << 10, .registers = 255, .tensor_cores = true, .bulk = true};
    const Contraction *c = &contractions[_i];
    Fixture f;
    const char *why = NULL;
    IrModule *module = read_contraction(&f, c);
    IrKernel *kernel = module->kernels.items[0];
    ck_assert_msg(layout_kernel(&f.context, kernel, &limits, &why), "%s", why);
    const char *broken = ir_verify(&f.context, module);
    bool is_chained = c->is_bulk && *c->inside; /* a turn waits for its own product */
    ck_assert_msg(!broken, "%s", broken);
    ck_assert_int_eq(count_ops(kernel->body, OP_WGMMA), c->is_bulk);
    ck_assert_int_eq(count_ops(kernel->body, OP_WGMMA_WAIT), is_chained ? 1 : 2 * c->is_bulk);
    ck_assert_int_eq(count_ops(kernel->body, OP_MBARRIER_ARRIVE), is_chained);
    ck_assert_int_eq(layout_bulk_maps(&f.context, kernel).count, 2 * c->is_bulk + c->maps);
    ck_assert_int_eq(count_ops(kernel->body, OP_STAGE), (c->is_bulk ? 0 : 2) + (c->way == BY_ROWS));
    ck_assert_int_eq(count_ops(kernel->body, OP_BULK_STORE), c->stores);
    ck_assert_int_eq(count_ops(kernel->body, OP_BULK_GET), c->gets);
    ck_assert_int_eq(count_ops(kernel->body, OP_CTAS), c->grid && c->way == BY_COLUMNS);
    ck_assert_int_eq(kernel->threads, c->threads);
    fixture_close(&f);
}
END_TEST

/* Slots beside what else is in shared memory: what a turn works in, and mbarriers that stand between rings. A turn's slices take 32768 bytes. */
START_TEST(slots_leave_room) {
#define WORKS                                                                                                                                        \
    "%10 = load %c[%i :+ 128, %i :+ 128] : " SUM "\n%11 = cumsum %10 : " SUM "\n%12 = convert %11 : tile<u8>[128, 128]\n"                            \
    "store %e[%i :+ 128, %i :+ 128] = %12\n"
#define CHAINS "%10 = exp %9 : " SUM "\n%11 = convert %10 : tile<u8>[128, 128]\nstore %e[%i :+ 128, %i :+ 128] = %11\n"
    static const struct {
        const char *inside;
        int64_t limit, needed; /* 0: there is no room */
    } cases[] = {
        {WORKS, 227 << 10, 5 * 32768 + 48 + 65536},
        {WORKS, 128 << 10, 0},
        {CHAINS, 3 * 32768 + 200, 2 * 32768 + 1024},
    };
    const LayoutLimits limits = {.shared_bytes = cases[_i].limit, .registers = 255, .tensor_cores = true, .bulk = true};
    const Contraction contraction = {.rows = 128, .k = 64, .columns = 128, .launch = "", .inside = cases[_i].inside, .after = ""};
    Fixture f;
    const char *why = NULL;
    IrKernel *kernel = read_contraction(&f, &contraction)->kernels.items[0];
    bool fits = layout_kernel(&f.context, kernel, &limits, &why);
    if (cases[_i].needed) {
        ck_assert_msg(fits, "%s", why);
        ck_assert_int_eq(count_ops(kernel->body, OP_BULK_RING), 3); /* and that of the epilogue */
        ck_assert_int_eq(kernel->shared_bytes, cases[_i].needed);
    } else {
        ck_assert(!fits);
        ck_assert_msg(strstr(why, "shared memory has no room for the slices of enough turns"), "said: %s", why);
    }
    fixture_close(&f);
}
END_TEST

/* Sums that begin at 0 in each turn: one barrier a turn, behind the products. */
START_TEST(promoted_sums) {
    static const LayoutLimits limits = {.shared_bytes = 227 << 10, .registers = 255, .tensor_cores = true, .bulk = true};
    static const int cases[] = {64, 128};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int rows = cases[i];
        char text[1 << 12];
        int length = snprintf(text, sizeof text,
            "phobos-ir 1\nfile \"t.phb\"\nkernel k\ndim N\nparam a: tensor<f16>[N, N]\nparam c: tensor<f32>[N, N]\nparam i: i64\n{\n"
            "%%0 = const 0.0 : f32\n%%1 = const 32 : i64\n%%2 = dim N : i64\n%%3 = broadcast %%0 : tile<f32>[%d, 64]\n"
            "%%4 = for %%i, %%2, %%1, %%3 : tile<f32>[%d, 64]\ndo %%5: i64, %%6: tile<f32>[%d, 64] {\n"
            "%%7 = load %%a[%%i :+ %d, %%5 :+ 32] : tile<f16>[%d, 32]\n%%8 = load %%a[%%5 :+ 32, %%i :+ 64] : tile<f16>[32, 64]\n"
            "%%9 = dot %%7, %%8, %%3 : tile<f32>[%d, 64]\n%%10 = add %%6, %%9 : tile<f32>[%d, 64]\nyield %%10\n}\n"
            "store %%c[%%i :+ %d, %%i :+ 64] = %%4\nreturn\n}\n",
            rows, rows, rows, rows, rows, rows, rows, rows);
        Fixture f;
        const char *why = NULL;
        fixture_open(&f, text, (size_t)length);
        IrModule *module = ir_read(&f.context);
        fixture_finish(&f);
        ck_assert_msg(module != NULL, "%s", f.messages);
        IrKernel *kernel = module->kernels.items[0];
        ck_assert_msg(layout_kernel(&f.context, kernel, &limits, &why), "%s", why);
        const char *broken = ir_verify(&f.context, module);
        ck_assert_msg(!broken, "%s", broken);
        ck_assert_int_eq(count_ops(kernel->body, OP_WGMMA), 1);
        const IrOp *loop = kernel->body->first;
        while (loop->kind != OP_FOR)
            loop = loop->next;
        ck_assert_int_eq(count_ops(loop->regions.items[0], OP_BARRIER), 1);
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
    tcase_add_loop_test(tests, registers_of_straight_code, 0, 2);
    tcase_add_loop_test(tests, masks_of_whole_tiles, 0, COUNT(masks));
    tcase_add_test(tests, what_does_not_fit);
    tcase_add_loop_test(tests, rings_leave_room, 0, 3);
    tcase_add_loop_test(tests, products_are_waited_for, 0, 12);
    tcase_add_loop_test(tests, contractions_by_bulk_copies, 0, COUNT(contractions));
    tcase_add_loop_test(tests, slots_leave_room, 0, 3);
    tcase_add_test(tests, promoted_sums);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
