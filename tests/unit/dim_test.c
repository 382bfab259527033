/* Dims: the normal form, its bounds, and that it means what was written. */
#include "tests/unit/ir_fixture.h"

#include <inttypes.h>

static Fixture fixture;
static DimPool *pool;

static void setup(void) {
    fixture_open(&fixture, "", 0);
    pool = fixture.context.dims;
}

static void teardown(void) {
    fixture_close(&fixture);
}

static const Dim *name(const char *text) {
    return dim_name(pool, intern_cstr(fixture.context.interner, text));
}

static const Dim *number(int64_t value) {
    return dim_int(pool, value);
}

static const Dim *extent(const char *tensor, int axis) {
    return dim_extent(pool, intern_cstr(fixture.context.interner, tensor), axis);
}

#define OPERATION(function, kind)                                                                                                                    \
    static const Dim *function(const Dim *a, const Dim *b) {                                                                                         \
        return a && b ? dim_op(pool, kind, a, b) : NULL;                                                                                             \
    }
OPERATION(add, PHB_EXPR_ADD)
OPERATION(sub, PHB_EXPR_SUB)
OPERATION(mul, PHB_EXPR_MUL)
OPERATION(quo, PHB_EXPR_DIV)
OPERATION(mod, PHB_EXPR_MOD)
OPERATION(ceildiv, PHB_EXPR_CEILDIV)
OPERATION(min, PHB_EXPR_MIN)
OPERATION(max, PHB_EXPR_MAX)
OPERATION(eq, PHB_EXPR_EQ)
OPERATION(ne, PHB_EXPR_NE)
OPERATION(lt, PHB_EXPR_LT)
OPERATION(le, PHB_EXPR_LE)
OPERATION(and, PHB_EXPR_AND)
OPERATION(or, PHB_EXPR_OR)

static const Dim * not(const Dim *a) {
    return dim_op(pool, PHB_EXPR_NOT, a, NULL);
}

static void expect_text(const Dim *dim, const char *expected) {
    ck_assert_ptr_nonnull(dim);
    Buffer text = {0};
    dim_print(&text, dim);
    ck_assert_str_eq(text.data, expected);
    buffer_free(&text);
}

START_TEST(equal_sums_are_one_pointer) {
    const Dim *n = name("N"), *m = name("M");
    ck_assert_ptr_eq(add(n, m), add(m, n));
    ck_assert_ptr_eq(add(n, n), mul(number(2), n));
    ck_assert_ptr_eq(sub(add(n, m), m), n);
    ck_assert_ptr_eq(mul(add(n, number(1)), sub(n, number(1))), sub(mul(n, n), number(1)));
    ck_assert_ptr_eq(mul(n, mul(m, n)), mul(mul(n, n), m));
    ck_assert_ptr_eq(sub(n, n), number(0));
    ck_assert_ptr_ne(n, m);
    ck_assert_ptr_ne(extent("a", 0), extent("a", 1));
    ck_assert_ptr_ne(quo(n, m), quo(m, n));
    ck_assert_ptr_eq(add(quo(n, m), quo(n, m)), mul(number(2), quo(n, m)));
}
END_TEST

START_TEST(prints_as_source) {
    const Dim *n = name("N"), *m = name("M"), *k = name("K");
    expect_text(add(mul(number(2), n), number(3)), "N * 2 + 3");
    expect_text(sub(n, m), "N - M");
    expect_text(sub(number(0), n), "N * -1");
    expect_text(sub(number(5), n), "5 - N");
    expect_text(sub(number(-5), n), "-5 - N");
    expect_text(sub(sub(n, number(1)), mul(number(3), m)), "N - M * 3 - 1");
    expect_text(mul(add(n, m), k), "K * M + K * N");
    expect_text(quo(add(n, m), k), "(M + N) / K");
    expect_text(quo(quo(n, m), k), "N / M / K");
    expect_text(quo(n, quo(m, k)), "N / (M / K)");
    expect_text(mul(quo(n, m), m), "M * (N / M)");
    expect_text(mod(n, mul(m, k)), "N % (K * M)");
    expect_text(ceildiv(extent("c", 1), add(m, number(1))), "ceildiv(extent(c, 1), M + 1)");
    expect_text(min(add(n, number(1)), max(m, k)), "min(N + 1, max(K, M))");
    expect_text(and(le(n, m), or (lt(n, k), not(eq(m, k)))), "N <= M && (N < K || !(K == M))");
    expect_text(not(not(n)), "!!N");
    expect_text(eq(number(3), n), "N == 3");
    expect_text(lt(number(3), n), "3 < N");
    expect_text(eq(lt(n, m), lt(m, n)), "M < N == N < M");
    expect_text(number(INT64_MIN), "-9223372036854775808");
    expect_text(add(n, mul(m, number(INT64_MIN))), "N + M * -9223372036854775808");
}
END_TEST

START_TEST(folds_constants) {
    const Dim *n = name("N"), *one = number(1), *zero = number(0);
    ck_assert_ptr_eq(quo(number(-7), number(2)), number(-3));
    ck_assert_ptr_eq(mod(number(-7), number(2)), number(-1));
    ck_assert_ptr_eq(ceildiv(number(7), number(2)), number(4));
    ck_assert_ptr_eq(ceildiv(number(-7), number(2)), number(-3));
    ck_assert_ptr_eq(ceildiv(number(-7), number(-2)), number(4));
    ck_assert_ptr_eq(ceildiv(number(8), number(2)), number(4));
    ck_assert_ptr_eq(min(number(3), number(-4)), number(-4));
    ck_assert_ptr_eq(lt(number(INT64_MIN), number(INT64_MAX)), one);
    ck_assert_ptr_eq(max(number(INT64_MIN), number(INT64_MAX)), number(INT64_MAX));
    ck_assert_ptr_eq(quo(n, one), n);
    ck_assert_ptr_eq(ceildiv(n, one), n);
    ck_assert_ptr_eq(mod(n, one), zero);
    ck_assert_ptr_eq(mul(n, zero), zero);
    ck_assert_ptr_eq(min(n, n), n);
    ck_assert_ptr_eq(max(n, add(n, one)), add(n, one));
    ck_assert_ptr_eq(le(n, n), one);
    ck_assert_ptr_eq(ne(n, add(n, one)), one);
    ck_assert_ptr_eq(and(number(5), lt(n, one)), lt(n, one));
    ck_assert_ptr_eq(and(zero, n), zero);
    ck_assert_ptr_eq(or (n, number(7)), one);
    ck_assert_ptr_ne(and(one, n), n); /* n may be neither 0 nor 1 */
    ck_assert_ptr_eq(not(number(5)), zero);
}
END_TEST

START_TEST(refuses_overflow_and_division_by_zero) {
    const Dim *n = name("N"), *most = number(INT64_MAX), *least = number(INT64_MIN);
    ck_assert_ptr_null(add(most, number(1)));
    ck_assert_ptr_null(sub(least, number(1)));
    ck_assert_ptr_null(sub(number(0), least));
    ck_assert_ptr_null(mul(most, number(2)));
    ck_assert_ptr_null(mul(mul(n, most), number(2)));
    ck_assert_ptr_null(add(mul(n, most), n));
    ck_assert_ptr_null(quo(least, number(-1)));
    ck_assert_ptr_null(mod(least, number(-1)));
    ck_assert_ptr_null(quo(n, number(0)));
    ck_assert_ptr_null(mod(n, number(0)));
    ck_assert_ptr_null(ceildiv(number(1), number(0)));
}
END_TEST

START_TEST(refuses_growth_without_end) {
    const Dim *sum = number(1), *square = add(name("A"), name("B")), *nested = name("N");
    int sums = 0, squares = 0, nestings = 0;
    for (; sum && sums < 10000; sums++) {
        char text[16];
        snprintf(text, sizeof text, "n%d", sums);
        sum = add(sum, name(text));
    }
    for (; square && squares < 100; squares++)
        square = mul(square, square);
    for (; nested && nestings < 10000; nestings++)
        nested = quo(name("M"), nested);
    ck_assert(!sum && sums > 20);
    ck_assert(!square && squares > 2);
    ck_assert(!nested && nestings > 20);
}
END_TEST

static const Dim *two_for_n(void *context, const char *which) {
    (void)context;
    return strcmp(which, "N") == 0 ? number(2) : NULL;
}

static const Dim *zero_for_n(void *context, const char *which) {
    (void)context;
    return strcmp(which, "N") == 0 ? number(0) : NULL;
}

START_TEST(substitutes) {
    const Dim *n = name("N"), *m = name("M");
    const Dim *dim = add(mul(n, m), ceildiv(m, n));
    expect_text(dim_substitute(pool, dim, two_for_n, NULL), "M * 2 + ceildiv(M, 2)");
    ck_assert_ptr_null(dim_substitute(pool, dim, zero_for_n, NULL));
    ck_assert_ptr_eq(dim_substitute(pool, m, two_for_n, NULL), m);
    ck_assert(dim_mentions(dim, intern_cstr(fixture.context.interner, "N")));
    ck_assert(!dim_mentions(dim, intern_cstr(fixture.context.interner, "K")));
    ck_assert(!dim_mentions(extent("N", 0), intern_cstr(fixture.context.interner, "N")));
}
END_TEST

/* ---- random expressions ---- */

static uint64_t random_state = 1;

static uint64_t next_random(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static const int64_t values[] = {0, 1, 2, 3, 7, -4}; /* of n0 .. n3 in some rotation */

static bool apply(PhbExprOp op, int64_t a, int64_t b, int64_t *value) {
    switch (op) {
    case PHB_EXPR_ADD:
        return !__builtin_add_overflow(a, b, value);
    case PHB_EXPR_SUB:
        return !__builtin_sub_overflow(a, b, value);
    case PHB_EXPR_MUL:
        return !__builtin_mul_overflow(a, b, value);
    case PHB_EXPR_DIV:
    case PHB_EXPR_MOD:
    case PHB_EXPR_CEILDIV:
        if (b == 0)
            return false;
        *value = op == PHB_EXPR_DIV ? a / b : op == PHB_EXPR_MOD ? a % b : a / b + (a % b != 0 && (a % b > 0) == (b > 0));
        return true;
    case PHB_EXPR_MIN:
        *value = a < b ? a : b;
        return true;
    case PHB_EXPR_MAX:
        *value = a > b ? a : b;
        return true;
    case PHB_EXPR_EQ:
        *value = a == b;
        return true;
    case PHB_EXPR_NE:
        *value = a != b;
        return true;
    case PHB_EXPR_LT:
        *value = a < b;
        return true;
    case PHB_EXPR_LE:
        *value = a <= b;
        return true;
    case PHB_EXPR_AND:
        *value = a && b;
        return true;
    case PHB_EXPR_OR:
        *value = a || b;
        return true;
    default:
        *value = !a;
        return true;
    }
}

static bool evaluate(const Dim *dim, int rotation, int64_t *value) {
    int64_t a = 0, b = 0;
    if (dim_is_int(dim, value))
        return true;
    if (dim->kind == PHB_EXPR_DIM) {
        *value = values[(dim->name[1] - '0' + rotation) % 6];
        return true;
    }
    return evaluate(dim->a, rotation, &a) && (!dim->b || evaluate(dim->b, rotation, &b)) && apply(dim->kind, a, b, value);
}

/* A dim and, beside it, its value under every rotation as the operations were written. */
typedef struct Sample {
    const Dim *dim;
    int64_t value[6];
    bool valid[6];
} Sample;

static Sample random_sample(int depth) {
    Sample s = {0};
    uint64_t bits = next_random();
    if (depth == 0 || bits % 5 == 0) {
        char text[3] = {'n', (char)('0' + bits / 8 % 4), '\0'};
        bool is_number = bits / 64 % 3 == 0;
        s.dim = is_number ? number((int64_t)(bits / 512 % 9) - 4) : name(text);
        for (int i = 0; i < 6; i++)
            s.valid[i] = evaluate(s.dim, i, &s.value[i]);
        return s;
    }
    PhbExprOp op = (PhbExprOp)(PHB_EXPR_ADD + bits / 8 % (PHB_EXPR_OP_COUNT - PHB_EXPR_ADD));
    Sample a = random_sample(depth - 1), b = random_sample(depth - 1);
    if (!a.dim || !b.dim)
        return s;
    s.dim = dim_op(pool, op, a.dim, b.dim);
    for (int i = 0; i < 6; i++)
        s.valid[i] = a.valid[i] && b.valid[i] && apply(op, a.value[i], b.value[i], &s.value[i]);
    return s;
}

START_TEST(normal_form_means_the_same) {
    int compared = 0;
    for (int round = 0; round < 20000; round++) {
        Sample s = random_sample(4);
        for (int i = 0; s.dim && i < 6; i++) {
            int64_t value;
            if (!s.valid[i])
                continue; /* what normal form drops may have been the part that is invalid */
            compared++;
            if (!evaluate(s.dim, i, &value) || value != s.value[i]) /* ck_assert writes a mark each time: too slow here */
                ck_abort_msg("round %d", round);
        }
    }
    ck_assert_int_gt(compared, 20000);
}
END_TEST

START_TEST(print_reads_back_to_the_same_pointer) {
    for (int round = 0; round < 3000; round++) {
        Sample s = random_sample(5);
        if (!s.dim)
            continue;
        Buffer text = {0};
        buffer_puts(&text, "phobos-ir 1\nfile \"\"\nkernel k\ndim n0\ndim n1\ndim n2\ndim n3\nrequire ");
        dim_print(&text, s.dim);
        buffer_puts(&text, " !1:2+3\n{\nreturn\n}\n");
        Source source = {.path = "t.ir", .text = text.data, .length = text.length};
        fixture.context.source = &source;
        IrModule *module = ir_read(&fixture.context);
        ck_assert_msg(module != NULL, "%s", text.data);
        ck_assert_ptr_eq(module->kernels.items[0]->signature.require.items[0].cond, s.dim);
        buffer_free(&text);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("dim");
    TCase *tests = tcase_create("dim");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, equal_sums_are_one_pointer);
    tcase_add_test(tests, prints_as_source);
    tcase_add_test(tests, folds_constants);
    tcase_add_test(tests, refuses_overflow_and_division_by_zero);
    tcase_add_test(tests, refuses_growth_without_end);
    tcase_add_test(tests, substitutes);
    tcase_add_test(tests, normal_form_means_the_same);
    tcase_add_test(tests, print_reads_back_to_the_same_pointer);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
