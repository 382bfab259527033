/* Response files: an argument @FILE stands for the arguments in FILE, as for cc. */
#include "compiler/driver.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MAX_DEPTH 10          /* of response files that name others */
#define MAX_BYTES (16L << 20) /* of one */

typedef struct Expander {
    Arena *arena;
    Arguments *out;
} Expander;

static bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The contents, NUL at the end; NULL: errno. */
static char *read_text(Arena *arena, const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    char *text = NULL;
    if (fseek(file, 0, SEEK_END) == 0) {
        long size = ftell(file);
        rewind(file);
        if (size > MAX_BYTES) {
            errno = EFBIG;
        } else if (size >= 0) {
            text = arena_alloc(arena, (size_t)size + 1);
            size_t length = fread(text, 1, (size_t)size, file);
            text[length] = '\0';
            text = ferror(file) ? NULL : text;
        }
    }
    fclose(file);
    return text;
}

/* Takes one argument off *text: white space ends it, quotes of either kind keep white space, a backslash the next byte. */
static char *next_argument(Arena *arena, const char **text) {
    const char *at = *text;
    char *argument = arena_alloc(arena, strlen(at) + 1), *end = argument, quote = '\0';
    for (; *at && (quote || !is_space(*at)); at++) {
        if (*at == '\\' && at[1])
            *end++ = *++at;
        else if (quote ? *at == quote : *at == '\'' || *at == '"')
            quote = quote ? '\0' : *at;
        else
            *end++ = *at;
    }
    *end = '\0';
    *text = at;
    return argument;
}

static bool expand(Expander *e, char *argument, int depth) {
    if (argument[0] != '@' || !argument[1]) {
        vec_push(e->arena, e->out, argument);
        return true;
    }
    const char *path = argument + 1;
    if (depth == MAX_DEPTH) {
        fprintf(stderr, "phobosc: error: response file '%s' is named by response files %d deep\n", path, MAX_DEPTH);
        return false;
    }
    const char *text = read_text(e->arena, path);
    if (!text) {
        fprintf(stderr, "phobosc: error: cannot read response file '%s': %s\n", path, strerror(errno));
        return false;
    }
    for (text += strspn(text, " \t\n\v\f\r"); *text; text += strspn(text, " \t\n\v\f\r"))
        if (!expand(e, next_argument(e->arena, &text), depth + 1))
            return false;
    return true;
}

bool response_expand(Arena *arena, int argc, char **argv, Arguments *out) {
    Expander expander = {arena, out};
    bool only_inputs = false;
    for (int i = 0; i < argc; i++) {
        only_inputs |= strcmp(argv[i], "--") == 0;
        if (i == 0 || only_inputs)
            vec_push(arena, out, argv[i]);
        else if (!expand(&expander, argv[i], 0))
            return false;
    }
    vec_push(arena, out, NULL);
    return true;
}
