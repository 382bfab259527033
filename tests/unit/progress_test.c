/* What a watcher sees: a bar on a terminal, lines elsewhere, JSON for programs, nothing where nothing is wanted. */
#define _GNU_SOURCE /* posix_openpt */
#include "runtime/progress.h"

#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char text[4096];

/* Shows a job of `total` units from its begin to its end after `done` of them. */
static const char *shown(ProgressMode mode, int64_t total, int64_t done) {
    char *data = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&data, &size);
    ck_assert_ptr_nonnull(out);
    Progress progress;
    progress_begin(&progress, mode, out, "add", total);
    progress.shown -= 10; /* as if time had passed */
    progress.begun -= 100;
    progress_moved(&progress, (uint64_t)total * 1000000000);
    progress_update(&progress, done / 2);
    progress_end(&progress, done);
    fclose(out);
    snprintf(text, sizeof text, "%s", data);
    free(data);
    return text;
}

START_TEST(lines_end_in_newlines) {
    const char *lines = shown(PROGRESS_LINES, 8, 8);
    ck_assert_ptr_nonnull(strstr(lines, "add: 4/8 tiles (50 %), 80 MB/s, 100 s left\n"));
    ck_assert_ptr_nonnull(strstr(lines, "add: 8/8 tiles (100 %), 80 MB/s\n"));
    ck_assert_ptr_null(strchr(lines, '\r'));
    ck_assert_ptr_null(strchr(lines, '\033'));
}
END_TEST

START_TEST(a_bar_redraws_its_line) {
    const char *bar = shown(PROGRESS_BAR, 8, 8);
    ck_assert_int_eq(bar[0], '\r');
    ck_assert_ptr_nonnull(strstr(bar, "[####################....................]"));
    ck_assert_ptr_nonnull(strstr(bar, "[########################################] 100 %  8/8 tiles, 80 MB/s"));
    ck_assert_int_eq(bar[strlen(bar) - 1], '\n');
}
END_TEST

START_TEST(json_is_an_object_a_line) {
    char *json = strdup(shown(PROGRESS_JSON, 8, 8));
    int lines = 0;
    for (char *line = strtok(json, "\n"); line; line = strtok(NULL, "\n"), lines++) {
        ck_assert_int_eq(line[0], '{');
        ck_assert_int_eq(line[strlen(line) - 1], '}');
        ck_assert_ptr_nonnull(strstr(line, "\"bytes\": 8000000000}"));
    }
    ck_assert_int_ge(lines, 2);
    free(json);
}
END_TEST

START_TEST(none_is_silent) {
    ck_assert_str_eq(shown(PROGRESS_NONE, 8, 8), "");
}
END_TEST

START_TEST(a_failed_job_does_not_look_done) {
    ck_assert_ptr_null(strstr(shown(PROGRESS_LINES, 8, 3), "100 %"));
    ck_assert_ptr_null(strstr(shown(PROGRESS_BAR, 8, 3), "100 %"));
}
END_TEST

START_TEST(auto_is_lines_in_a_file_and_a_bar_on_a_terminal) {
    Progress progress;
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    progress_begin(&progress, PROGRESS_AUTO, file, "add", 8);
    ck_assert_int_eq(progress.mode, PROGRESS_LINES);
    fclose(file);
    int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    ck_assert_int_ge(terminal, 0);
    file = fdopen(terminal, "r+");
    ck_assert_ptr_nonnull(file);
    progress_begin(&progress, PROGRESS_AUTO, file, "add", 8);
    ck_assert_int_eq(progress.mode, PROGRESS_BAR);
    fclose(file);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("progress");
    TCase *cases = tcase_create("progress");
    tcase_add_test(cases, lines_end_in_newlines);
    tcase_add_test(cases, a_bar_redraws_its_line);
    tcase_add_test(cases, json_is_an_object_a_line);
    tcase_add_test(cases, none_is_silent);
    tcase_add_test(cases, a_failed_job_does_not_look_done);
    tcase_add_test(cases, auto_is_lines_in_a_file_and_a_bar_on_a_terminal);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
