/* Expressions over dims, and the small parts that messages are made of: names, dtypes, errors. */
#include "runtime/runtime.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define INT(v)                                                                                                                                       \
    { PHB_EXPR_INT, 0, v }
#define DIM(i)                                                                                                                                       \
    { PHB_EXPR_DIM, i, 0 }
#define EXTENT(tensor, axis)                                                                                                                         \
    { PHB_EXPR_EXTENT, tensor, axis }
#define OP(name)                                                                                                                                     \
    { PHB_EXPR_##name, 0, 0 }

enum { MAX_NODES = 8 };

/* dims: 10, -3, unbound; extents of tensor 1: 5, 6, 7, 8 */
static const struct {
    const char *what;
    int count;
    PhbExprNode nodes[MAX_NODES];
    bool valid;
    int64_t value;
} cases[] = {
    {"literal", 1, {INT(7)}, true, 7},
    {"dim", 1, {DIM(0)}, true, 10},
    {"extent", 1, {EXTENT(1, 3)}, true, 8},
    {"sum", 3, {DIM(0), DIM(1), OP(ADD)}, true, 7},
    {"window", 5, {DIM(0), INT(3), OP(ADD), INT(1), OP(SUB)}, true, 12},
    {"product", 3, {DIM(0), INT(-4), OP(MUL)}, true, -40},
    {"quotient truncates", 3, {INT(-7), INT(2), OP(DIV)}, true, -3},
    {"rest has the dividend's sign", 3, {INT(-7), INT(2), OP(MOD)}, true, -1},
    {"ceildiv", 3, {INT(7), INT(2), OP(CEILDIV)}, true, 4},
    {"ceildiv, exact", 3, {INT(8), INT(2), OP(CEILDIV)}, true, 4},
    {"ceildiv, negative", 3, {INT(-7), INT(2), OP(CEILDIV)}, true, -3},
    {"ceildiv, both negative", 3, {INT(-7), INT(-2), OP(CEILDIV)}, true, 4},
    {"ceildiv near the end", 3, {INT(INT64_MAX), INT(2), OP(CEILDIV)}, true, INT64_C(1) << 62},
    {"min", 3, {INT(3), INT(-3), OP(MIN)}, true, -3},
    {"max", 3, {INT(3), INT(-3), OP(MAX)}, true, 3},
    {"equal", 3, {INT(3), INT(3), OP(EQ)}, true, 1},
    {"not equal", 3, {INT(3), INT(3), OP(NE)}, true, 0},
    {"less", 3, {INT(3), INT(4), OP(LT)}, true, 1},
    {"less or equal", 3, {INT(5), INT(4), OP(LE)}, true, 0},
    {"and", 3, {INT(5), INT(0), OP(AND)}, true, 0},
    {"or", 3, {INT(5), INT(0), OP(OR)}, true, 1},
    {"not", 2, {INT(0), OP(NOT)}, true, 1},
    {"order of operands", 5, {INT(100), INT(10), INT(2), OP(SUB), OP(DIV)}, true, 12},
    {"sum overflows", 3, {INT(INT64_MAX), INT(1), OP(ADD)}, false, 0},
    {"difference overflows", 3, {INT(INT64_MIN), INT(1), OP(SUB)}, false, 0},
    {"product overflows", 3, {INT(INT64_C(1) << 32), INT(INT64_C(1) << 31), OP(MUL)}, false, 0},
    {"division by zero", 3, {INT(1), INT(0), OP(DIV)}, false, 0},
    {"rest by zero", 3, {INT(1), INT(0), OP(MOD)}, false, 0},
    {"ceildiv by zero", 3, {INT(1), INT(0), OP(CEILDIV)}, false, 0},
    {"least / -1", 3, {INT(INT64_MIN), INT(-1), OP(DIV)}, false, 0},
    {"least % -1", 3, {INT(INT64_MIN), INT(-1), OP(MOD)}, false, 0},
    {"a part overflows that min would drop", 5, {INT(INT64_MAX), INT(1), OP(ADD), INT(1), OP(MIN)}, false, 0},
    {"unbound dim", 3, {DIM(2), INT(0), OP(MUL)}, false, 0},
    {"empty", 0, {INT(0)}, false, 0},
    {"two values", 2, {INT(1), INT(2)}, false, 0},
    {"operand missing", 2, {INT(1), OP(ADD)}, false, 0},
    {"unknown operator", 1, {{99, 0, 0}}, false, 0},
    {"axis beyond rank 4", 1, {EXTENT(1, 4)}, false, 0},
};

START_TEST(expressions) {
    static const int64_t dims[] = {10, -3, 77};
    static const bool bound[] = {true, true, false};
    static const int64_t extents[2][PHB_MAX_RANK] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
    ExprScope scope = {dims, bound, extents};
    PhbExpr expr = {cases[_i].nodes, cases[_i].count, cases[_i].what};
    int64_t value = 0;
    bool valid = expr_eval(&expr, &scope, &value);
    ck_assert_msg(valid == cases[_i].valid && (!valid || value == cases[_i].value), "%s: %d, %lld", cases[_i].what, valid, (long long)value);
}
END_TEST

START_TEST(extents_need_a_scope) {
    PhbExprNode node = EXTENT(0, 0);
    PhbExpr expr = {&node, 1, "extent"};
    ExprScope scope = {NULL, NULL, NULL};
    int64_t value;
    ck_assert(!expr_eval(&expr, &scope, &value));
}
END_TEST

START_TEST(deep_expressions_are_refused) {
    enum { COUNT = 1001 };
    PhbExprNode nodes[COUNT];
    for (int i = 0; i < COUNT; i++)
        nodes[i] = i <= COUNT / 2 ? (PhbExprNode)INT(1) : (PhbExprNode)OP(ADD);
    PhbExpr expr = {nodes, COUNT, "1 + ..."};
    ExprScope scope = {NULL, NULL, NULL};
    int64_t value;
    ck_assert(!expr_eval(&expr, &scope, &value));
}
END_TEST

static const struct {
    const char *typed, *meant; /* NULL: none is near */
} names[] = {{"kernal", "kernel"}, {"tesnors", "tensors"}, {"dim", "dims"}, {"KERNEL", "kernel"}, {"scalar", "scalars"}, {"tensorz", "tensors"},
    {"xyz", NULL}, {"", NULL}, {"d", NULL}, {"dromedary", NULL}};

START_TEST(nearest_names) {
    static const char *const known[] = {"kernel", "dims", "scalars", "tensors"};
    const char *found = name_nearest(names[_i].typed, known, 4);
    ck_assert_pstr_eq(found, names[_i].meant);
}
END_TEST

START_TEST(dtypes) {
    for (int i = 0; i < PHB_DTYPE_COUNT; i++)
        ck_assert_int_eq(dtype_find(dtype_name(i)), i);
    ck_assert_int_eq(dtype_find("f31"), -1);
    ck_assert_int_eq(dtype_size(PHB_BF16), 2);
    ck_assert_int_eq(dtype_size(PHB_F64), 8);
}
END_TEST

START_TEST(errors_are_cut_at_whole_characters) {
    Error error;
    char text[2 * sizeof error.text];
    for (size_t shift = 0; shift < 4; shift++) {
        memset(text, 'x', sizeof text);
        for (size_t i = shift; i + 3 < sizeof text; i += 3)
            memcpy(text + i, "\xE2\x82\xAC", 3);
        text[sizeof text - 1] = '\0';
        ck_assert(!error_set(&error, "%s", text));
        size_t length = strlen(error.text);
        ck_assert_uint_ge(length, sizeof error.text - 4);
        ck_assert_uint_eq((length - shift) % 3, 0);
    }
}
END_TEST

START_TEST(the_cause_survives_a_long_name) {
    Error error;
    char name[2 * sizeof error.text];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    errno = ENOENT;
    ck_assert(!error_errno(&error, "cannot open \"%s\"", name));
    ck_assert_ptr_nonnull(strstr(error.text, ": No such file or directory"));
}
END_TEST

START_TEST(control_characters_do_not_reach_the_terminal) {
    Error error;
    ErrorList list = {0};
    error_set(&error, "a\nb\x1b[31m");
    ck_assert_str_eq(error.text, "a?b?[31m");
    errors_add(&list, "a\tb\x7f");
    ck_assert_str_eq(list.lines[0], "a?b?");
    errors_free(&list);
}
END_TEST

START_TEST(machine_errors_alone_are_failures) {
    ErrorList list = {0};
    errors_add_failure(&list, "no such file");
    ck_assert_int_eq(errors_exit_code(&list), EXIT_FAILED);
    errors_add(&list, "wrong");
    ck_assert_int_eq(errors_exit_code(&list), EXIT_USAGE);
    errors_free(&list);
    ck_assert_int_eq(list.count, 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("expr");
    TCase *all = tcase_create("all");
    tcase_add_loop_test(all, expressions, 0, sizeof cases / sizeof *cases);
    tcase_add_test(all, extents_need_a_scope);
    tcase_add_test(all, deep_expressions_are_refused);
    tcase_add_loop_test(all, nearest_names, 0, sizeof names / sizeof *names);
    tcase_add_test(all, dtypes);
    tcase_add_test(all, errors_are_cut_at_whole_characters);
    tcase_add_test(all, the_cause_survives_a_long_name);
    tcase_add_test(all, control_characters_do_not_reach_the_terminal);
    tcase_add_test(all, machine_errors_alone_are_failures);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
