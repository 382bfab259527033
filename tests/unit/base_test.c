#define _POSIX_C_SOURCE 200809L

#include "compiler/base/base.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- memory and text ---- */

START_TEST(arena_gives_zeroed_aligned_memory) {
    static const size_t sizes[] = {0, 1, 16, 17, 4095, 16384, 65536, 1 << 20};
    Arena *arena = arena_new();
    for (size_t round = 0; round < 40; round++) {
        size_t size = sizes[round % (sizeof sizes / sizeof *sizes)];
        unsigned char *bytes = arena_alloc(arena, size);
        ck_assert_uint_eq((uintptr_t)bytes % 16, 0);
        size_t zeros = 0;
        while (zeros < size && bytes[zeros] == 0)
            zeros++;
        ck_assert_uint_eq(zeros, size);
        memset(bytes, 0xFF, size); /* the next one must not see it */
    }
    arena_free(arena);
}
END_TEST

START_TEST(vec_keeps_its_items_when_it_grows) {
    Arena *arena = arena_new();
    VEC(int) vec = {0};
    for (int i = 0; i < 1000; i++)
        vec_push(arena, &vec, i * 3);
    ck_assert_int_eq(vec.count, 1000);
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(vec.items[i], i * 3);
    arena_free(arena);
}
END_TEST

START_TEST(texts_are_built) {
    Arena *arena = arena_new();
    ck_assert_str_eq(arena_printf(arena, "%s-%d", "x", 7), "x-7");
    ck_assert_str_eq(arena_strndup(arena, "abcdef", 3), "abc");
    Buffer buffer = {0};
    for (int i = 0; i < 200; i++)
        buffer_printf(&buffer, "%d,", i % 10);
    buffer_puts(&buffer, "end");
    buffer_append(&buffer, "!?", 1);
    ck_assert_uint_eq(buffer.length, 404);
    ck_assert_uint_eq(strlen(buffer.data), 404);
    ck_assert_str_eq(buffer.data + 396, "8,9,end!");
    buffer_free(&buffer);
    ck_assert_ptr_null(buffer.data);
    arena_free(arena);
}
END_TEST

START_TEST(equal_names_are_one_pointer) {
    Arena *arena = arena_new();
    Interner *interner = interner_new(arena);
    const char *first[2000];
    for (int i = 0; i < 2000; i++)
        first[i] = intern_cstr(interner, arena_printf(arena, "name%d", i));
    for (int i = 0; i < 2000; i++) {
        ck_assert_ptr_eq(intern_cstr(interner, arena_printf(arena, "name%d", i)), first[i]);
        ck_assert_ptr_ne(first[i], first[(i + 1) % 2000]);
    }
    ck_assert_ptr_eq(intern(interner, "name12345", 5), first[1]);
    ck_assert_ptr_ne(intern(interner, "a\0b", 3), intern(interner, "a\0c", 3));
    arena_free(arena);
}
END_TEST

/* ---- sources ---- */

static char folder[] = "/tmp/phobos-base-XXXXXX";

static void folder_make(void) {
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void folder_remove(void) {
    rmdir(folder);
}

static const char *file_write(Arena *arena, const char *name, const char *data, size_t length) {
    const char *path = arena_printf(arena, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(data, 1, length, file), length);
    ck_assert_int_eq(fclose(file), 0);
    return path;
}

START_TEST(a_source_is_read_whole) {
    static const struct {
        const char *data;
        size_t length;
        const char *text;
        size_t text_length;
    } cases[] = {
        {"", 0, "", 0},
        {"abc\n", 4, "abc\n", 4},
        {"a\0b", 3, "a\0b", 3},
        {"\xEF\xBB\xBF"
         "abc",
            6, "abc", 3},
        {"\xEF\xBB\xBF", 3, "", 0},
        {"\xEF\xBB", 2, "\xEF\xBB", 2},
    };
    Arena *arena = arena_new();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = file_write(arena, "a.phb", cases[i].data, cases[i].length);
        Source source;
        char *error = NULL;
        ck_assert(source_read(arena, path, &source, &error));
        ck_assert_str_eq(source.path, path);
        ck_assert_uint_eq(source.length, cases[i].text_length);
        ck_assert_mem_eq(source.text, cases[i].text, cases[i].text_length + 1);
        unlink(path);
    }
    arena_free(arena);
}
END_TEST

static void assert_refused(Arena *arena, const char *path, const char *why) {
    Source source;
    char *error = NULL;
    ck_assert(!source_read(arena, path, &source, &error));
    ck_assert_msg(strstr(error, why) != NULL, "'%s' does not say '%s'", error, why);
    ck_assert_msg(strstr(error, path) != NULL, "'%s' does not name '%s'", error, path);
}

START_TEST(a_source_is_a_regular_file_of_bounded_size) {
    Arena *arena = arena_new();
    assert_refused(arena, arena_printf(arena, "%s/absent.phb", folder), "No such file");
    assert_refused(arena, folder, "not a regular file");
    assert_refused(arena, "/dev/null", "not a regular file");

    const char *fifo = arena_printf(arena, "%s/fifo", folder);
    ck_assert_int_eq(mkfifo(fifo, 0600), 0);
    assert_refused(arena, fifo, "not a regular file"); /* and does not wait for a writer */
    unlink(fifo);

    const char *path = file_write(arena, "large.phb", "", 0);
    ck_assert_int_eq(truncate(path, SOURCE_MAX_BYTES), 0);
    Source source;
    char *error = NULL;
    ck_assert(source_read(arena, path, &source, &error));
    ck_assert_uint_eq(source.length, SOURCE_MAX_BYTES);
    ck_assert_int_eq(truncate(path, SOURCE_MAX_BYTES + 1), 0);
    assert_refused(arena, path, "16 MiB");
    unlink(path);
    arena_free(arena);
}
END_TEST

/* ---- diagnostics ---- */

typedef struct Messages {
    Arena *arena;
    Source source;
    FILE *stream;
    char *text;
    size_t length;
    Diag *diag;
} Messages;

static void messages_open(Messages *messages, const char *text, DiagFormat format, bool color) {
    *messages = (Messages){.arena = arena_new(), .source = {.path = "t.phb", .text = text, .length = text ? strlen(text) : 0}};
    messages->stream = open_memstream(&messages->text, &messages->length);
    messages->diag = diag_new(messages->arena, &messages->source, messages->stream, format, color);
}

static void messages_close(Messages *messages, const char *expected) {
    diag_finish(messages->diag);
    ck_assert_str_eq(messages->text, expected);
    fclose(messages->stream);
    free(messages->text);
    arena_free(messages->arena);
}

#define X10 "xxxxxxxxxx"
#define X90 X10 X10 X10 X10 X10 X10 X10 X10 X10

START_TEST(a_message_shows_its_line) {
    static const struct {
        const char *text;
        Span span;
        const char *shown;
    } cases[] = {
        {"let x\ny = z\n", {2, 5, 1}, "    2 | y = z\n      |     ^\n"},
        {"let name = 1", {1, 5, 4}, "    1 | let name = 1\n      |     ^~~~\n"},
        {"\ta\tb", {1, 2, 3}, "    1 |         a       b\n      |         ^~~~~~~~~\n"},
        {"a\r\nb\r\n", {1, 1, 1}, "    1 | a\n      | ^\n"},
        {"ab", {1, 3, 1}, "    1 | ab\n      |   ^\n"},         /* just after the last byte */
        {"ab", {1, 9, 1}, "    1 | ab\n      |   ^\n"},         /* beyond it */
        {"ab", {1, 2, 4000000000}, "    1 | ab\n      |  ^\n"}, /* no line is so long */
        {"/* \xC3\xA4 */ b", {1, 10, 1}, "    1 | /* \xC3\xA4 */ b\n      |         ^\n"},
        {"\xE6\xBC\xA2 b", {1, 1, 3}, "    1 | \xE6\xBC\xA2 b\n      | ^~\n"},
        {"a\x1b[31m b\xFF", {1, 8, 1}, "    1 | a<1B>[31m b<FF>\n      |           ^\n"},
        {"\xE2\x80\xAE"
         "a",
            {1, 4, 1}, "    1 | <U+202E>a\n      |         ^\n"},
        {"", {1, 1, 1}, "    1 | \n      | ^\n"},
        {"a", {7, 1, 1}, ""},
        {X90 X90 X90, {1, 101, 2},
            "    1 | ..." X10 X10 X10 X10 X10 X10 X90 "...\n      |                                                                ^~\n"},
        {X90 X90, {1, 1, 1000},
            "    1 | " X90 "...\n      | ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Messages messages;
        messages_open(&messages, cases[i].text, DIAG_TEXT, false);
        diag_error(messages.diag, cases[i].span, "m");
        Span span = cases[i].span;
        messages_close(&messages, arena_printf(messages.arena, "t.phb:%u:%u: error: m\n%s", span.line, span.column, cases[i].shown));
    }
}
END_TEST

START_TEST(messages_come_in_any_order_of_lines) {
    Messages messages;
    messages_open(&messages, "one\n\nthree\nfour", DIAG_TEXT, false);
    static const uint32_t lines[] = {4, 1, 3, 2, 4};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        diag_error(messages.diag, (Span){lines[i], 1, 1}, "m");
    messages_close(&messages, "t.phb:4:1: error: m\n    4 | four\n      | ^\n"
                              "t.phb:1:1: error: m\n    1 | one\n      | ^\n"
                              "t.phb:3:1: error: m\n    3 | three\n      | ^\n"
                              "t.phb:2:1: error: m\n    2 | \n      | ^\n"
                              "t.phb:4:1: error: m\n    4 | four\n      | ^\n");
}
END_TEST

START_TEST(a_message_has_a_form) {
    Messages messages;
    messages_open(&messages, NULL, DIAG_TEXT, false);
    Diag *diag = messages.diag;
    diag_error(diag, (Span){0}, "no position");
    diag_warning(diag, WARN_EDGE, (Span){3, 4, 1}, "edge %d", 1);
    diag_note(diag, (Span){2, 1, 1}, "here");
    diag_remark(diag, (Span){5, 1, 1}, "say");
    ck_assert_int_eq(diag_error_count(diag), 1);
    messages_close(&messages, "t.phb: error: no position\n"
                              "t.phb:3:4: warning: edge 1 [-Wedge]\n"
                              "t.phb:2:1: note: here\n"
                              "t.phb:5:1: remark: say\n");

    messages_open(&messages, "a", DIAG_TEXT, true);
    diag_error(messages.diag, (Span){1, 1, 1}, "m");
    messages_close(&messages, "\033[1mt.phb:1:1:\033[0m \033[1;31merror:\033[0m \033[1mm\033[0m\n"
                              "    1 | a\n      | \033[1;32m^\033[0m\n");
}
END_TEST

START_TEST(warnings_are_chosen) {
    Messages messages;
    messages_open(&messages, NULL, DIAG_TEXT, false);
    Diag *diag = messages.diag;
    Span span = {1, 1, 1};
    diag_set_warning(diag, WARN_EDGE, false);
    diag_warning(diag, WARN_EDGE, span, "off");
    diag_note(diag, span, "of what is off");
    diag_set_warning(diag, WARN_EDGE, true);
    diag_warning(diag, WARN_EDGE, span, "on");
    diag_note(diag, span, "of what is on");
    diag_set_werror(diag, true);
    diag_warning(diag, WARN_SHADOW, span, "fatal");
    ck_assert_int_eq(diag_error_count(diag), 1);
    diag_set_quiet(diag, true);
    diag_warning(diag, WARN_SHADOW, span, "quiet");
    diag_note(diag, span, "of what is quiet");
    ck_assert_int_eq(diag_error_count(diag), 1);
    messages_close(&messages, "t.phb:1:1: warning: on [-Wedge]\n"
                              "t.phb:1:1: note: of what is on\n"
                              "t.phb:1:1: error: fatal [-Werror=shadow]\n");
}
END_TEST

START_TEST(errors_are_capped) {
    Messages messages;
    messages_open(&messages, NULL, DIAG_TEXT, false);
    Buffer expected = {0};
    for (uint32_t i = 1; i <= 150; i++) {
        diag_error(messages.diag, (Span){i, 1, 1}, "m");
        diag_note(messages.diag, (Span){i, 2, 1}, "n");
        if (i <= 100)
            buffer_printf(&expected, "t.phb:%u:1: error: m\nt.phb:%u:2: note: n\n", i, i);
    }
    buffer_puts(&expected, "t.phb: error: more than 100 errors: the rest is not shown\n");
    ck_assert_int_eq(diag_error_count(messages.diag), 150);
    messages_close(&messages, expected.data);
    buffer_free(&expected);
}
END_TEST

START_TEST(json_is_an_array_of_messages) {
    Messages messages;
    messages_open(&messages, "a", DIAG_JSON, true);
    messages_close(&messages, "[]\n");

    messages_open(&messages, "a", DIAG_JSON, false);
    diag_error(messages.diag, (Span){1, 2, 3}, "quote \" slash \\ bell \a \xC3\xA4 \xFF");
    diag_note(messages.diag, (Span){4, 5, 6}, "one");
    diag_note(messages.diag, (Span){7, 8, 9}, "two");
    diag_warning(messages.diag, WARN_EDGE, (Span){1, 1, 1}, "m");
    diag_finish(messages.diag);
    messages_close(&messages, "[\n"
                              "  {\"file\": \"t.phb\", \"line\": 1, \"column\": 2, \"length\": 3, \"severity\": \"error\", \"group\": null, "
                              "\"message\": \"quote \\\" slash \\\\ bell \\u0007 \xC3\xA4 \\ufffd\", \"notes\": [\n"
                              "    {\"file\": \"t.phb\", \"line\": 4, \"column\": 5, \"length\": 6, \"message\": \"one\"},\n"
                              "    {\"file\": \"t.phb\", \"line\": 7, \"column\": 8, \"length\": 9, \"message\": \"two\"}\n"
                              "  ]},\n"
                              "  {\"file\": \"t.phb\", \"line\": 1, \"column\": 1, \"length\": 1, \"severity\": \"warning\", \"group\": \"edge\", "
                              "\"message\": \"m\", \"notes\": []}\n"
                              "]\n");
}
END_TEST

START_TEST(the_nearest_name_is_found) {
    static const char *const names[] = {"autotune", "cluster", "cluster_dims", "grid", "f16", "bf16", "f32", "x", "max"};
    static const struct {
        const char *name, *nearest;
    } cases[] = {
        {"autotnue", "autotune"},
        {"clusters", "cluster"},
        {"gird", "grid"},
        {"f23", "f32"},
        {"bf6", "bf16"},
        {"maks", NULL},
        {"mx", "x"},
        {"something", NULL},
        {"", NULL},
        {"y", NULL},
        {"CLUSTER", NULL},
        {"a_name_that_is_longer_than_forty_bytes_altogether", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *nearest = nearest_name(cases[i].name, names, sizeof names / sizeof *names);
        if (cases[i].nearest)
            ck_assert_pstr_eq(nearest, cases[i].nearest);
        else
            ck_assert_msg(nearest == NULL, "'%s' is not near '%s'", cases[i].name, nearest);
    }
    ck_assert_ptr_null(nearest_name("x", NULL, 0));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("base");
    TCase *memory = tcase_create("memory and text");
    tcase_add_test(memory, arena_gives_zeroed_aligned_memory);
    tcase_add_test(memory, vec_keeps_its_items_when_it_grows);
    tcase_add_test(memory, texts_are_built);
    tcase_add_test(memory, equal_names_are_one_pointer);
    suite_add_tcase(suite, memory);

    TCase *sources = tcase_create("sources");
    tcase_add_checked_fixture(sources, folder_make, folder_remove);
    tcase_add_test(sources, a_source_is_read_whole);
    tcase_add_test(sources, a_source_is_a_regular_file_of_bounded_size);
    suite_add_tcase(suite, sources);

    TCase *diag = tcase_create("diagnostics");
    tcase_add_test(diag, a_message_shows_its_line);
    tcase_add_test(diag, messages_come_in_any_order_of_lines);
    tcase_add_test(diag, a_message_has_a_form);
    tcase_add_test(diag, warnings_are_chosen);
    tcase_add_test(diag, errors_are_capped);
    tcase_add_test(diag, json_is_an_array_of_messages);
    tcase_add_test(diag, the_nearest_name_is_found);
    suite_add_tcase(suite, diag);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
