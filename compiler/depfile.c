/* Depfiles, as cc writes them for make. */
#include "compiler/driver.h"

#include <string.h>

const char *depfile_name(Arena *arena, const Options *options, const char *output) {
    if (options->depfile_path)
        return options->depfile_path;
    const char *slash = strrchr(output, '/'), *dot = strrchr(output, '.');
    bool has_suffix = dot && (!slash || dot > slash + 1) && dot != output;
    size_t length = has_suffix ? (size_t)(dot - output) : strlen(output);
    return arena_printf(arena, "%.*s.d", (int)length, output);
}

/* As make reads names: a space is escaped, with the backslashes before it doubled, '#' is escaped, '$' doubled. */
static void print_name(Buffer *buffer, const char *name) {
    for (const char *at = name; *at; at++) {
        if (*at == ' ' || *at == '\t') {
            for (const char *back = at; back > name && back[-1] == '\\'; back--)
                buffer_puts(buffer, "\\");
            buffer_puts(buffer, "\\");
        } else if (*at == '#') {
            buffer_puts(buffer, "\\");
        } else if (*at == '$') {
            buffer_puts(buffer, "$");
        }
        buffer_append(buffer, at, 1);
    }
}

void depfile_print(Buffer *buffer, const Options *options, const char *output) {
    for (int i = 0; i < options->depfile_targets.count; i++)
        buffer_printf(buffer, "%s%s", i ? " " : "", options->depfile_targets.items[i]); /* as given: -MT is for those who escape themselves */
    if (!options->depfile_targets.count)
        print_name(buffer, output);
    buffer_puts(buffer, ":");
    /* -MP has nothing to add: it makes targets of what the source includes. */
    if (strcmp(options->input, "-") != 0) {
        buffer_puts(buffer, " ");
        print_name(buffer, options->input);
    }
    buffer_puts(buffer, "\n");
}
