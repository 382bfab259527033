/* Depfiles, as cc writes them for make. */
#include "compiler/driver.h"

#include <string.h>

const char *depfile_name(Arena *arena, const Options *options, const char *output) {
    if (options->depfile_path)
        return strcmp(options->depfile_path, "-") == 0 ? NULL : options->depfile_path;
    const char *slash = strrchr(output, '/'), *dot = strrchr(output, '.');
    bool has_suffix = dot && (!slash || dot > slash + 1) && dot != output;
    size_t length = has_suffix ? (size_t)(dot - output) : strlen(output);
    return arena_printf(arena, "%.*s.d", (int)length, output);
}

const char *depfile_escape(Arena *arena, const char *name) {
    Buffer text = {0};
    for (const char *at = name; *at; at++) {
        if (*at == ' ' || *at == '\t') {
            for (const char *back = at; back > name && back[-1] == '\\'; back--)
                buffer_puts(&text, "\\");
            buffer_puts(&text, "\\");
        } else if (*at == '#') {
            buffer_puts(&text, "\\");
        } else if (*at == '$') {
            buffer_puts(&text, "$");
        }
        buffer_append(&text, at, 1);
    }
    const char *escaped = arena_strndup(arena, text.data, text.length);
    buffer_free(&text);
    return escaped;
}

void depfile_print(Arena *arena, Buffer *buffer, const Options *options, const char *output) {
    for (int i = 0; i < options->depfile_targets.count; i++)
        buffer_printf(buffer, "%s%s", i ? " " : "", options->depfile_targets.items[i]);
    if (!options->depfile_targets.count)
        buffer_puts(buffer, depfile_escape(arena, output));
    buffer_puts(buffer, ":");
    /* -MP has nothing to add: it makes targets of what the source includes. */
    if (strcmp(options->input, "-") != 0)
        buffer_printf(buffer, " %s", depfile_escape(arena, options->input));
    buffer_puts(buffer, "\n");
}
