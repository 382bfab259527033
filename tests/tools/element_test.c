/* The 16-bit floats of element.c by what defines them: every pattern is read and written back, and numbers between neighbours go to the nearer one,
 * or from the middle to the even one. */
#include "tests/tools/element.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

static unsigned written(ElementType type, double value) {
    uint16_t bits;
    element_set(type, &bits, value);
    return bits;
}

static double read_back(ElementType type, unsigned pattern) {
    uint16_t bits = (uint16_t)pattern;
    return element_get(type, &bits);
}

static void check_type(ElementType type, unsigned infinity) {
    for (unsigned bits = 0; bits < infinity; bits++) {
        double low = read_back(type, bits);
        double high = bits + 1 == infinity ? 2 * low - read_back(type, bits - 1) : read_back(type, bits + 1); /* what would follow the greatest */
        double middle = (low + high) / 2;
        ck_assert(low < high);
        ck_assert_uint_eq(written(type, low), bits);
        ck_assert_uint_eq(written(type, -low), bits | 0x8000);
        ck_assert_uint_eq(written(type, nextafter(middle, low)), bits);
        ck_assert_uint_eq(written(type, middle), bits + (bits & 1));
        ck_assert_uint_eq(written(type, nextafter(middle, high)), bits + 1);
    }
    ck_assert(isinf(read_back(type, infinity)) && read_back(type, infinity | 0x8000) < 0);
    ck_assert_uint_eq(written(type, HUGE_VAL), infinity);
    ck_assert_uint_eq(written(type, 1e300), infinity);
    ck_assert(isnan(read_back(type, infinity + 1)) && isnan(read_back(type, written(type, (double)NAN))));
}

START_TEST(known_values) {
    ck_assert(read_back(ELEMENT_F16, 0x3c00) == 1 && read_back(ELEMENT_F16, 0x7bff) == 65504 && read_back(ELEMENT_F16, 1) == 0x1p-24);
    ck_assert(read_back(ELEMENT_BF16, 0x3f80) == 1 && read_back(ELEMENT_BF16, 0x7f7f) == 0x1.fep127 && read_back(ELEMENT_BF16, 1) == 0x1p-133);
}
END_TEST

START_TEST(every_pattern) {
    check_type(ELEMENT_F16, 0x7c00);
    check_type(ELEMENT_BF16, 0x7f80);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("element");
    TCase *cases = tcase_create("element");
    tcase_set_timeout(cases, 60);
    tcase_add_test(cases, known_values);
    tcase_add_test(cases, every_pattern);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
