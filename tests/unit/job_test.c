/* job.json: what is bound from a good job, and the errors of bad ones. */
#include "tests/unit/job_fixture.h"

#include <check.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void setup(void) {
    fixture_enter();
}

static void teardown(void) {
    fixture_leave();
}

static int count_entries(void) {
    DIR *folder = opendir(".");
    ck_assert_ptr_nonnull(folder);
    int count = 0;
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

static Job *load_text(const char *text, ErrorList *errors) {
    write_file("job.json", text, strlen(text));
    return job_load(&fixture_program, "job.json", errors);
}

static Job *load_good(const char *text) {
    ErrorList errors = {0};
    Job *job = load_text(text, &errors);
    ck_assert_msg(job != NULL, "%s", errors.count > 0 ? errors.lines[0] : "no error");
    ck_assert_int_eq(errors.count, 0);
    return job;
}

/* ---- bad_jobs.txt: "=== title", the job, "--- exit code", its errors ---- */

static char *read_whole(const char *path) {
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s", path);
    enum { CAPACITY = 1 << 18 };
    char *text = new_zeroed(CAPACITY + 1, 1);
    ck_assert_uint_lt(fread(text, 1, CAPACITY, file), CAPACITY);
    fclose(file);
    return text;
}

/* The text up to the line that begins with `mark`, and *rest there. */
static char *take_until(char *text, const char *mark, char **rest) {
    char *pattern = format_text("\n%s", mark), *at = strstr(text, pattern);
    free(pattern);
    *rest = strncmp(text, mark, strlen(mark)) == 0 ? text : at != NULL ? at + 1 : text + strlen(text);
    return format_text("%.*s", (int)(*rest - text), text);
}

static char *errors_text(const ErrorList *errors) {
    char *text = format_text("%s", "");
    const char *folder = fixture_folder();
    for (int i = 0; i < errors->count; i++) {
        const char *line = errors->lines[i], *at;
        while ((at = strstr(line, folder)) != NULL) {
            text = text_append(text, "%.*sDIR", (int)(at - line), line);
            line = at + strlen(folder);
        }
        text = text_append(text, "%s\n", line);
    }
    return text;
}

START_TEST(bad_jobs_name_every_mistake) {
    char *all = read_whole(TEST_FOLDER "/bad_jobs.txt"), *at = all;
    int cases = 0;
    while (*at != '\0') {
        char *title_end = strchr(at, '\n');
        ck_assert(strncmp(at, "=== ", 4) == 0 && title_end != NULL);
        char *title = format_text("%.*s", (int)(title_end - at), at);
        char *job_text = take_until(title_end + 1, "--- ", &at);
        int code = atoi(at + 4);
        char *expected = take_until(strchr(at, '\n') + 1, "=== ", &at);
        ErrorList errors = {0};
        write_file("job.json", job_text, strlen(job_text));
        int entries = count_entries();
        ck_assert_ptr_null(job_load(&fixture_program, "job.json", &errors));
        char *found = errors_text(&errors);
        ck_assert_msg(strcmp(found, expected) == 0, "%s\nexpected:\n%sfound:\n%s", title, expected, found);
        ck_assert_msg(errors_exit_code(&errors) == code, "%s: exit code %d", title, errors_exit_code(&errors));
        ck_assert_int_eq(count_entries(), entries);
        errors_free(&errors);
        free(found);
        free(expected);
        free(job_text);
        free(title);
        cases++;
    }
    ck_assert_int_ge(cases, 100);
    free(all);
}
END_TEST

/* ---- good jobs ---- */

START_TEST(steps_share_tensors) {
    Job *job = load_good("{\"steps\": [{\"kernel\": \"add\", \"tensors\": {\"c\": \"t\"}},"
                         " {\"kernel\": \"mix\", \"tensors\": {\"q\": \"r\"}, \"dims\": {\"KW\": 1, \"D\": 64}, \"scalars\": {\"u\": 7}},"
                         " {\"kernel\": \"add\", \"tensors\": {\"a\": \"t\", \"b\": \"x\"}, \"cluster\": {\"BLOCK\": 16}}],"
                         " \"repeat\": 3, \"dims\": {\"N\": 32}, \"cluster\": {\"BLOCK\": 4096}, \"scalars\": {\"alpha\": 1, \"on\": true, \"i\": 1, "
                         "\"u\": 2, \"h\": 1},"
                         " \"tensors\": {\"t\": {}, \"a\": \"a.npy\", \"b\": \"b.npy\", \"x\": \"raw.bin\", \"w\": {\"uri\": \"w1.bin\"}, \"r\": {},"
                         " \"c\": \"c.npy\"}}");
    ck_assert_int_eq(job_step_count(job), 3);
    ck_assert_int_eq(job_rounds(job), 9);
    ck_assert_int_eq(job->kernel->tensor_count, 5); /* files: a, b, x, w, c; then t and r */
    ck_assert_int_eq(job->sequence->tensor_count, 7);
    ck_assert_str_eq(job->kernel->tensors[5].name, "t");
    ck_assert_str_eq(job->kernel->name, "add, mix");
    ck_assert_int_eq(job_tensor(job, 0, 2), 5);
    ck_assert_int_eq(job_tensor(job, 2, 0), 5);
    ck_assert_int_eq(job_tensor(job, 2, 1), 2);
    ck_assert_int_eq(job->tensors[5].shape[0], 32); /* from the step that writes it */
    ck_assert_int_eq(job->tensors[2].shape[0], 32); /* what is raw takes what the step makes of it */
    ck_assert_int_eq(job->tensors[6].shape[1], 64);
    ck_assert_int_eq(job_step(job, 0)->dims[1], 4096);
    ck_assert_int_eq(job_step(job, 2)->dims[1], 16); /* its own */
    ck_assert_uint_eq(job_step(job, 1)->scalars[3], 7);
    ck_assert_uint_eq(job_step(job, 1)->scalars[1], 1);
    ck_assert_int_eq(job->kernel->tensors[4].mode, PHB_WRITE);
    job_free(job);
}
END_TEST

START_TEST(dims_come_from_headers) {
    Job *job = load_good("{\"kernel\": \"add\", \"tensors\": {\"a\": \"a.npy\", \"b\": \"raw.bin\", \"c\": \"c.npy\"}}");
    ck_assert_int_eq(job->dims[0], 32);
    ck_assert_int_eq(job->dims[1], 1024); /* the first @cluster value */
    ck_assert_int_eq(job->leaf_values[1], 0);
    ck_assert_int_eq(job->remarks.count, 0);
    ck_assert_int_eq(job->tensors[0].data_offset, 128);
    ck_assert_int_eq(job->tensors[1].data_offset, 0);
    ck_assert_int_eq(job->tensors[2].data_offset, 128);
    ck_assert(job->tensors[0].old_fd >= 0 && job->tensors[2].old_fd < 0 && !job->tensors[2].exists);
    char *expected = format_text("%s/c.npy", fixture_folder());
    ck_assert_str_eq(job->tensors[2].path, expected);
    free(expected);
    job_free(job);
}
END_TEST

START_TEST(dims_come_from_the_job) {
    Job *job = load_good("{\"kernel\": \"add\", \"dims\": {\"N\": 32}, \"cluster\": {\"BLOCK\": 48}, \"autotune\": {\"BLOCK\": 32},"
                         " \"tensors\": {\"a\": \"raw.bin\", \"b\": {\"uri\": \"raw.bin\", \"dtype\": \"f32\", \"shape\": [32]}, \"c\": \"c\"}}");
    ck_assert_int_eq(job->dims[0], 32);
    ck_assert_int_eq(job->dims[1], 48);
    ck_assert_int_eq(job->leaf_values[1], 32);
    ck_assert_int_eq(job->remarks.count, 1);
    ck_assert_ptr_nonnull(strstr(job->remarks.lines[0], "job.json:1:59: BLOCK = 48"));
    ck_assert_int_eq(job->tensors[2].data_offset, 0);
    job_free(job);
}
END_TEST

/* A written tensor may be of any size, dtype and content before; it is not even read. */
START_TEST(old_outputs_are_replaced) {
    static const char *const outputs[] = {"f64.npy", "rank2.npy", "not.npy", "fortran.npy", "empty.bin", "short.bin"};
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        char *text = format_text("{\"kernel\": \"add\", \"tensors\": {\"a\": \"a.npy\", \"b\": \"b.npy\", \"c\": \"%s\"}}", outputs[i]);
        Job *job = load_good(text);
        ck_assert(job->tensors[2].exists && job->tensors[2].old_fd < 0);
        job_free(job);
        free(text);
    }
}
END_TEST

START_TEST(same_input_twice_is_fine) {
    job_free(load_good("{\"kernel\": \"add\", \"tensors\": {\"a\": \"a.npy\", \"b\": \"hard.npy\", \"c\": \"c.npy\"}}"));
}
END_TEST

static const struct {
    const char *uri; /* ABS stands for the folder */
    const char *path;
} paths[] = {
    {"a.npy", "/a.npy"},
    {"./a.npy", "/a.npy"},
    {"data/../a.npy", "/a.npy"},
    {"file://a.npy", "/a.npy"},
    {"FILE://a.npy", "/a.npy"},
    {"file://data/b.npy", "/data/b.npy"},
    {"file://./data/b.npy", "/data/b.npy"},
    {"file://data/../a%2enpy", "/a.npy"},
    {"soft.npy", "/a.npy"},
    {"here/here/a.npy", "/a.npy"},
    {"with space%.bin", "/with space%.bin"},
    {"file://with%20space%25.bin", "/with space%.bin"},
    {"ABS/a.npy", "/a.npy"},
    {"file://ABS/a.npy", "/a.npy"},
};

START_TEST(uris_lead_to_files) {
    const char *uri = paths[_i].uri, *abs = strstr(uri, "ABS");
    char *real = abs != NULL ? format_text("%.*s%s%s", (int)(abs - uri), uri, fixture_folder(), abs + 3) : format_text("%s", uri);
    char *text = format_text("{\"kernel\": \"add\", \"tensors\": {\"a\": \"%s\", \"b\": \"b.npy\", \"c\": \"c.npy\"}}", real);
    Job *job = load_good(text);
    char *expected = format_text("%s%s", fixture_folder(), paths[_i].path);
    ck_assert_str_eq(job->tensors[0].path, expected);
    job_free(job);
    free(expected);
    free(text);
    free(real);
}
END_TEST

START_TEST(paths_are_relative_to_the_job_file) {
    static const char text[] = "{\"kernel\": \"add\", \"tensors\": {\"a\": \"../a.npy\", \"b\": \"file://b.npy\", \"c\": \"c.npy\"}}";
    write_file("data/job.json", text, strlen(text));
    ErrorList errors = {0};
    char *absolute = format_text("%s/data/job.json", fixture_folder()), *output = format_text("%s/data/c.npy", fixture_folder());
    const char *const ways[] = {"data/job.json", absolute};
    for (int i = 0; i < 2; i++) {
        Job *job = job_load(&fixture_program, ways[i], &errors);
        ck_assert_msg(job != NULL, "%s", errors.count > 0 ? errors.lines[0] : "");
        ck_assert_str_eq(job->tensors[2].path, output);
        job_free(job);
    }
    free(absolute);
    free(output);
}
END_TEST

START_TEST(one_kernel_needs_no_name) {
    PhbProgram single = fixture_program;
    single.kernel_count = 1;
    static const char text[] = "{\"tensors\": {\"a\": \"a.npy\", \"b\": \"b.npy\", \"c\": \"c.npy\"}}";
    write_file("job.json", text, strlen(text));
    ErrorList errors = {0};
    Job *job = job_load(&single, "job.json", &errors);
    ck_assert_ptr_nonnull(job);
    ck_assert_str_eq(job->kernel->name, "add");
    job_free(job);
}
END_TEST

START_TEST(an_extent_fixes_its_search_dim) {
    static const char text[] = "{\"kernel\": \"mix\", \"dims\": {\"N\": 32}, \"scalars\": {\"alpha\": 1, \"on\": true, \"i\": 1, \"u\": 1, \"h\": 1},"
                               " \"tensors\": {\"x\": \"x.npy\", \"w\": {\"uri\": \"u2.npy\", \"dtype\": \"bf16\"}, \"q\": \"%s\"}%s}";
    char *by_header = format_text(text, "q.npy", ""), *by_job = format_text(text, "new.npy", ", \"autotune\": {\"D\": 128}");
    Job *job = load_good(by_header);
    ck_assert_int_eq(job->dims[1], 3);
    ck_assert_int_eq(job->dims[2], 64);
    ck_assert_int_eq(job->leaf_values[2], 64);
    ck_assert(job->tensors[2].old_fd >= 0);
    job_free(job);
    job = load_good(by_job);
    ck_assert_int_eq(job->tensors[2].shape[1], 128);
    ck_assert_int_eq(job->leaf_values[2], 128);
    job_free(job);
    free(by_header);
    free(by_job);
}
END_TEST

/* Scalars of mix: alpha f32, on bool, i i8, u u64, h f16. */
static const struct {
    const char *alpha, *on, *i, *u, *h;
    uint64_t bits[5];
} scalar_cases[] = {
    {"0", "false", "0", "0", "0", {0, 0, 0, 0, 0}},
    {"-0.0", "true", "-0", "-0", "-0.0", {0x80000000, 1, 0, 0, 0x8000}},
    {"1", "true", "127", "18446744073709551615", "1", {0x3f800000, 1, 0x7f, UINT64_MAX, 0x3c00}},
    {"0.1", "true", "-128", "9223372036854775808", "65504", {0x3dcccccd, 1, 0x80, UINT64_C(1) << 63, 0x7bff}},
    {"3.4028235e38", "true", "-1", "9007199254740993", "65519.99", {0x7f7fffff, 1, 0xff, 9007199254740993, 0x7bff}},
    {"1e-45", "true", "1", "1", "6.103515625e-05", {1, 1, 1, 1, 0x0400}},              /* the least normal */
    {"1e-300", "true", "1", "1", "5.9604644775390625e-08", {0, 1, 1, 1, 0x0001}},      /* the least subnormal */
    {"1", "true", "1", "1", "2.98023223876953125e-08", {0x3f800000, 1, 1, 1, 0x0000}}, /* half of it: to even */
    {"1", "true", "1", "1", "2.981e-08", {0x3f800000, 1, 1, 1, 0x0001}},
    {"1", "true", "1", "1", "1.00048828125", {0x3f800000, 1, 1, 1, 0x3c00}}, /* between two: to even */
    {"1", "true", "1", "1", "1.00146484375", {0x3f800000, 1, 1, 1, 0x3c02}},
    {"1", "true", "1", "1", "2047.75", {0x3f800000, 1, 1, 1, 0x6800}},                /* carries into the exponent */
    {"1", "true", "1", "1", "6.1005353927612305e-05", {0x3f800000, 1, 1, 1, 0x0400}}, /* a subnormal that becomes normal */
    {"1", "true", "1", "1", "-1e-300", {0x3f800000, 1, 1, 1, 0x8000}},
};

START_TEST(scalars_become_bits) {
    char *text = format_text(
        "{\"kernel\": \"mix\", \"dims\": {\"N\": 32, \"D\": 64}, \"scalars\": {\"alpha\": %s, \"on\": %s, \"i\": %s, \"u\": %s, \"h\": %s},"
        " \"tensors\": {\"x\": \"x.npy\", \"w\": {\"uri\": \"w.npy\", \"dtype\": \"bf16\"}, \"q\": \"new.npy\"}}",
        scalar_cases[_i].alpha, scalar_cases[_i].on, scalar_cases[_i].i, scalar_cases[_i].u, scalar_cases[_i].h);
    Job *job = load_good(text);
    for (int i = 0; i < 5; i++)
        ck_assert_msg(job->scalars[i] == scalar_cases[_i].bits[i], "case %d, scalar %d: 0x%llx", _i, i, (unsigned long long)job->scalars[i]);
    job_free(job);
    free(text);
}
END_TEST

/* ---- the job file itself ---- */

START_TEST(job_files_that_cannot_be_read) {
    static const char *const bad[] = {"none.json", "data", "pipe", "loop", "/dev/zero", "/dev/null", ""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ErrorList errors = {0};
        ck_assert_ptr_null(job_load(&fixture_program, bad[i], &errors));
        ck_assert_int_eq(errors.count, 1);
        ck_assert_int_eq(errors_exit_code(&errors), EXIT_USAGE);
        errors_free(&errors);
    }
}
END_TEST

START_TEST(job_files_that_are_too_long) {
    size_t size = JSON_MAX_BYTES;
    char *text = new_zeroed(size + 2, 1);
    memset(text, ' ', size + 1);
    ErrorList errors = {0};
    write_file("job.json", text, size + 1);
    ck_assert_ptr_null(job_load(&fixture_program, "job.json", &errors));
    ck_assert_ptr_nonnull(strstr(errors.lines[0], "has at most 1048576 bytes, this one has 1048577"));
    errors_free(&errors);
    memset(text, '[', size);
    write_file("job.json", text, size);
    ck_assert_ptr_null(job_load(&fixture_program, "job.json", &errors));
    ck_assert_str_eq(errors.lines[0], "job.json:1:33: nesting deeper than 32");
    errors_free(&errors);
    free(text);
}
END_TEST

START_TEST(many_keys_are_no_trouble) {
    char *text = format_text("%s", "{");
    size_t length = 1, capacity = JSON_MAX_BYTES;
    text = realloc(text, capacity);
    ck_assert_ptr_nonnull(text);
    int keys = 0;
    for (; length < capacity - 64; keys++)
        length += (size_t)snprintf(text + length, capacity - length, "\"dims\":{},");
    length += (size_t)snprintf(text + length, capacity - length, "\"dims\":{}}");
    ErrorList errors = {0};
    write_file("job.json", text, length);
    ck_assert_ptr_null(job_load(&fixture_program, "job.json", &errors));
    ck_assert_int_ge(errors.count, keys); /* a duplicate each */
    errors_free(&errors);
    free(text);
}
END_TEST

START_TEST(located_values_keep_place_and_spelling) {
    static const char text[] = "{ \"\\u00e9\\ud83d\\ude00\\n\\/\":\n  [1.50, \"\xC3\xA9\", true], \"k\": null }";
    ErrorList errors = {0};
    JsonNode *root = json_parse_located(text, strlen(text), "x", &errors);
    ck_assert_ptr_nonnull(root);
    ck_assert_int_eq(root->count, 2);
    const JsonNode *array = root->first;
    ck_assert_str_eq(array->key, "\xC3\xA9\xF0\x9F\x98\x80\n/");
    ck_assert(array->line == 2 && array->column == 3 && array->count == 3);
    ck_assert_str_eq(array->first->text, "1.50");
    const JsonNode *flag = array->first->next->next;
    ck_assert(flag->kind == JSON_NODE_BOOL && flag->line == 2 && flag->column == 15);
    ck_assert_ptr_eq(json_member(root, "k"), array->next);
    ck_assert_int_eq(array->next->kind, JSON_NODE_NULL);
    json_free(root);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("job");
    TCase *jobs = tcase_create("jobs");
    tcase_add_checked_fixture(jobs, setup, teardown);
    tcase_set_timeout(jobs, 60);
    tcase_add_test(jobs, bad_jobs_name_every_mistake);
    tcase_add_test(jobs, steps_share_tensors);
    tcase_add_test(jobs, dims_come_from_headers);
    tcase_add_test(jobs, dims_come_from_the_job);
    tcase_add_test(jobs, old_outputs_are_replaced);
    tcase_add_test(jobs, same_input_twice_is_fine);
    tcase_add_loop_test(jobs, uris_lead_to_files, 0, sizeof paths / sizeof *paths);
    tcase_add_test(jobs, paths_are_relative_to_the_job_file);
    tcase_add_test(jobs, one_kernel_needs_no_name);
    tcase_add_test(jobs, an_extent_fixes_its_search_dim);
    tcase_add_loop_test(jobs, scalars_become_bits, 0, sizeof scalar_cases / sizeof *scalar_cases);
    tcase_add_test(jobs, job_files_that_cannot_be_read);
    tcase_add_test(jobs, job_files_that_are_too_long);
    tcase_add_test(jobs, many_keys_are_no_trouble);
    tcase_add_test(jobs, located_values_keep_place_and_spelling);
    suite_add_tcase(suite, jobs);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
