/* .npy headers: what NumPy writes is read, what it never wrote is refused, what we write is read back. */
#include "runtime/runtime.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_BYTES = NPY_MAX_HEADER + 64 };

static size_t make(unsigned char *bytes, int major, const char *text) {
    size_t length = strlen(text), begin = major == 1 ? 10 : 12;
    memcpy(bytes, "\x93NUMPY", 6);
    bytes[6] = (unsigned char)major;
    bytes[7] = 0;
    for (size_t i = 8; i < begin; i++)
        bytes[i] = (unsigned char)(length >> (8 * (i - 8)));
    memcpy(bytes + begin, text, length);
    return begin + length;
}

static const struct {
    const char *text;
    int dtype, rank;
    int64_t shape[PHB_MAX_RANK];
} good[] = {
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (8,), }          \n", PHB_F32, 1, {8}},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }\n", PHB_F64, 2, {3, 4}},
    {"{'shape': (2, 3, 4, 5), 'fortran_order': False, 'descr': '<i8'}", PHB_I64, 4, {2, 3, 4, 5}},
    {"{'fortran_order':False,'shape':(7,),'descr':'<f2'}", PHB_F16, 1, {7}},
    {" { \"descr\" : \"<u4\" , 'fortran_order' : False , 'shape' : ( 2 , 3 , ) , } \n", PHB_U32, 2, {2, 3}},
    {"{'descr': '|i1', 'fortran_order': False, 'shape': (1,)}", PHB_I8, 1, {1}},
    {"{'descr': '<u1', 'fortran_order': False, 'shape': (1,)}", PHB_U8, 1, {1}},
    {"{'descr': '|b1', 'fortran_order': False, 'shape': (1,)}", PHB_BOOL, 1, {1}},
    {"{'descr': '<u2', 'fortran_order': False, 'shape': (1,)}", PHB_U16, 1, {1}},
    {"{'descr': '|V2', 'fortran_order': False, 'shape': (1,)}", -1, 1, {1}},
    {"{'descr': 'V2', 'fortran_order': False, 'shape': (1,)}", -1, 1, {1}},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (10L, 0L), }\n", PHB_F32, 2, {10, 0}},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807,)}", PHB_F32, 1, {INT64_MAX}},
};

START_TEST(good_headers) {
    static unsigned char bytes[MAX_BYTES];
    for (int major = 1; major <= 3; major++) {
        size_t size = make(bytes, major, good[_i].text);
        NpyHeader header;
        Error error = {""};
        ck_assert_msg(npy_parse_header(bytes, size, "x", &header, &error), "%s", error.text);
        ck_assert_int_eq(header.dtype, good[_i].dtype);
        ck_assert_int_eq(header.may_be_bf16, good[_i].dtype == -1 || good[_i].dtype == PHB_U16);
        ck_assert_int_eq(header.rank, good[_i].rank);
        ck_assert_int_eq(header.data_offset, (int64_t)size);
        for (int axis = 0; axis < header.rank; axis++)
            ck_assert_int_eq(header.shape[axis], good[_i].shape[axis]);
    }
}
END_TEST

static const struct {
    const char *text, *says;
} bad[] = {
    {"", "expected a dict"},
    {"[1]", "expected a dict"},
    {"{}", "must all be there"},
    {"{,}", "expected a string"},
    {"{'descr': '<f4', 'fortran_order': False}", "must all be there"},
    {"{'descr': '<f4', 'shape': (1,)}", "must all be there"},
    {"{'fortran_order': False, 'shape': (1,)}", "must all be there"},
    {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "given twice"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'order': 'C'}", "a key that is none of"},
    {"{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}", "expected ',' or '}'"},
    {"{'descr' '<f4', 'fortran_order': False, 'shape': (1,)}", "expected ':'"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,),,}", "expected a string"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)", "expected ',' or '}'"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", "text after the dict"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}}", "text after the dict"},
    {"{descr: '<f4', 'fortran_order': False, 'shape': (1,)}", "expected a string"},
    {"{'descr: <f4", "a string without an end"},
    {"{'des\\x63r': '<f4', 'fortran_order': False, 'shape': (1,)}", "an escape"},
    {"{'descr': <f4, 'fortran_order': False, 'shape': (1,)}", "expected a string"},
    {"{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1,)}", "structured"},
    {"{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}", "big-endian"},
    {"{'descr': '=f4', 'fortran_order': False, 'shape': (1,)}", "no tensor has the dtype '=f4'"},
    {"{'descr': 'f4', 'fortran_order': False, 'shape': (1,)}", "no tensor has the dtype 'f4'"},
    {"{'descr': '|f4', 'fortran_order': False, 'shape': (1,)}", "no tensor has the dtype '|f4'"},
    {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", "no tensor has the dtype '<c8'"},
    {"{'descr': '<V4', 'fortran_order': False, 'shape': (1,)}", "no tensor has the dtype '<V4'"},
    {"{'descr': '', 'fortran_order': False, 'shape': (1,)}", "no tensor has the dtype ''"},
    {"{'descr': '<U10000000000000000000000000000000000', 'fortran_order': False, 'shape': (1,)}", "too long"},
    {"{'descr': '<f4', 'fortran_order': True, 'shape': (1,)}", "Fortran order"},
    {"{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", "must be True or False"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': ()}", "without axes"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (,)}", "an extent"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1)}", "lacks a comma"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': 1}", "tuple"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': [1]}", "tuple"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,,)}", "an extent"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}", "expected ',' or ')'"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "not negative"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1.0,)}", "expected ',' or ')'"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (0x1,)}", "expected ',' or ')'"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}", "beyond 2^63"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1)}", "more than 4 axes"},
};

START_TEST(bad_headers) {
    static unsigned char bytes[MAX_BYTES];
    size_t size = make(bytes, 1, bad[_i].text);
    NpyHeader header;
    Error error = {""};
    ck_assert(!npy_parse_header(bytes, size, "some.npy", &header, &error));
    ck_assert_msg(strstr(error.text, bad[_i].says) != NULL, "%s", error.text);
    ck_assert_ptr_nonnull(strstr(error.text, "\"some.npy\""));
}
END_TEST

START_TEST(cut_headers) {
    static unsigned char bytes[MAX_BYTES];
    size_t size = make(bytes, 2, good[0].text);
    NpyHeader header;
    Error error;
    for (size_t cut = 0; cut < size; cut++) {
        unsigned char *copy = malloc(cut > 0 ? cut : 1); /* its own size, for AddressSanitizer */
        ck_assert_ptr_nonnull(copy);
        memcpy(copy, bytes, cut);
        ck_assert(!npy_parse_header(copy, cut, "x", &header, &error));
        free(copy);
    }
}
END_TEST

START_TEST(versions_and_lengths) {
    static unsigned char bytes[MAX_BYTES];
    NpyHeader header;
    Error error;
    size_t size = make(bytes, 1, good[0].text);
    bytes[6] = 4;
    ck_assert(!npy_parse_header(bytes, size, "x", &header, &error));
    ck_assert_ptr_nonnull(strstr(error.text, "version 4.0"));
    bytes[6] = 1;
    bytes[7] = 1;
    ck_assert(!npy_parse_header(bytes, size, "x", &header, &error));
    bytes[7] = 0;
    bytes[0] = 0x92;
    ck_assert(!npy_parse_header(bytes, size, "x", &header, &error));
    ck_assert_ptr_nonnull(strstr(error.text, "magic"));
    make(bytes, 2, good[0].text);
    bytes[11] = 0xFF;
    ck_assert(!npy_parse_header(bytes, MAX_BYTES, "x", &header, &error));
    ck_assert_ptr_nonnull(strstr(error.text, "64 KiB"));
}
END_TEST

START_TEST(what_is_written_is_read) {
    static const int64_t shape[PHB_MAX_RANK] = {INT64_MAX, 1, INT64_MAX, 4611686018427387904};
    for (int dtype = 0; dtype < PHB_DTYPE_COUNT; dtype++)
        for (int rank = 1; rank <= PHB_MAX_RANK; rank++) {
            char bytes[256];
            int length = npy_write_header(bytes, dtype, rank, shape);
            ck_assert(length > 0 && length <= 256 && length % 64 == 0 && bytes[length - 1] == '\n');
            FILE *file = tmpfile();
            ck_assert_ptr_nonnull(file);
            ck_assert_int_eq(write(fileno(file), bytes, (size_t)length), length);
            NpyHeader header;
            Error error;
            ck_assert(npy_read_header(fileno(file), "x", &header, &error));
            fclose(file);
            ck_assert_int_eq(header.dtype, dtype == PHB_BF16 ? -1 : dtype);
            ck_assert_int_eq(header.rank, rank);
            ck_assert_int_eq(header.data_offset, length);
            ck_assert_mem_eq(header.shape, shape, (size_t)rank * sizeof *shape);
        }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("npy");
    TCase *all = tcase_create("all");
    tcase_add_loop_test(all, good_headers, 0, sizeof good / sizeof *good);
    tcase_add_loop_test(all, bad_headers, 0, sizeof bad / sizeof *bad);
    tcase_add_test(all, cut_headers);
    tcase_add_test(all, versions_and_lengths);
    tcase_add_test(all, what_is_written_is_read);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
