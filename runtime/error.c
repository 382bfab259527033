#include "runtime/runtime.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Cuts text that filled its buffer where a UTF-8 character begins, so that no half of one is shown. */
static void cut_whole(char *text, size_t capacity, int wanted) {
    if (wanted < 0) {
        text[0] = '\0';
        return;
    }
    if ((size_t)wanted < capacity)
        return;
    size_t end = capacity - 1, begin = end;
    while (begin > 0 && ((unsigned char)text[begin - 1] & 0xC0) == 0x80)
        begin--;
    if (begin == 0)
        return;
    unsigned char lead = (unsigned char)text[begin - 1];
    size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    if (begin - 1 + length > end)
        text[begin - 1] = '\0';
}

/* Names come from files: a line feed or an escape sequence in one must not reach the terminal. */
static void mask_controls(char *text) {
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7F)
            *text = '?';
}

bool error_set(Error *error, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int wanted = vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    cut_whole(error->text, sizeof error->text, wanted);
    mask_controls(error->text);
    return false;
}

bool error_errno(Error *error, const char *format, ...) {
    int code = errno;
    Error what;
    va_list arguments;
    va_start(arguments, format);
    int wanted = vsnprintf(what.text, sizeof what.text, format, arguments);
    va_end(arguments);
    cut_whole(what.text, sizeof what.text, wanted);
    /* The cause must survive a long name before it. */
    const char *cause = strerror(code);
    size_t room = sizeof error->text - strlen(cause) - 3;
    cut_whole(what.text, room, (int)strlen(what.text));
    return error_set(error, "%.*s: %s", (int)room - 1, what.text, cause);
}

void *new_zeroed(size_t count, size_t size) {
    void *memory = calloc(count > 0 ? count : 1, size > 0 ? size : 1);
    if (memory == NULL) {
        fputs("error: out of memory\n", stderr);
        abort();
    }
    return memory;
}

char *format_arguments(const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (length < 0)
        length = 0;
    char *text = new_zeroed((size_t)length + 1, 1);
    vsnprintf(text, (size_t)length + 1, format, arguments);
    return text;
}

char *format_text(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = format_arguments(format, arguments);
    va_end(arguments);
    return text;
}

char *text_append(char *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *more = format_arguments(format, arguments);
    va_end(arguments);
    if (text == NULL)
        return more;
    char *whole = format_text("%s%s", text, more);
    free(text);
    free(more);
    return whole;
}

static void append(ErrorList *list, char *line) {
    mask_controls(line);
    size_t count = (size_t)list->count;
    if ((count & (count - 1)) == 0) { /* full: the capacity is the next power of two */
        char **lines = realloc(list->lines, (count > 0 ? 2 * count : 1) * sizeof *lines);
        if (lines == NULL) {
            fputs("error: out of memory\n", stderr);
            abort();
        }
        list->lines = lines;
    }
    list->lines[list->count++] = line;
}

void errors_add(ErrorList *list, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    append(list, format_arguments(format, arguments));
    va_end(arguments);
}

void errors_add_failure(ErrorList *list, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    append(list, format_arguments(format, arguments));
    va_end(arguments);
    list->failures++;
}

int errors_exit_code(const ErrorList *list) {
    return list->count > list->failures ? EXIT_USAGE : EXIT_FAILED;
}

void errors_print(const ErrorList *list, FILE *out) {
    for (int i = 0; i < list->count; i++)
        fprintf(out, "error: %s\n", list->lines[i]);
}

void errors_free(ErrorList *list) {
    for (int i = 0; i < list->count; i++)
        free(list->lines[i]);
    free(list->lines);
    *list = (ErrorList){0};
}
