/* Lexer and parser on any bytes: they end without a fault, and what they accept prints as text that they accept and print the same. */
#include "compiler/parse/ast.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Appends the printed form of `text` to `out`; false where it is refused. */
static bool reprint(const char *text, size_t length, FILE *messages, Buffer *out) {
    Arena *arena = arena_new();
    Source source = {.path = "fuzz", .text = text, .length = length};
    Diag *diag = diag_new(arena, &source, messages, DIAG_TEXT, false);
    Context context = {.arena = arena, .interner = interner_new(arena), .diag = diag, .source = &source};
    const Ast *ast = parse_source(&context);
    diag_finish(diag);
    bool ok = diag_error_count(diag) == 0;
    if (ok)
        ast_print(out, ast);
    arena_free(arena);
    return ok;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static FILE *messages;
    if (!messages)
        messages = fopen("/dev/null", "w");
    char *text = malloc(size + 1); /* of exactly the promised size, so that a read beyond it is seen */
    if (!messages || !text)
        abort();
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';

    Buffer once = {0}, twice = {0};
    if (reprint(text, size, messages, &once)) {
        if (!reprint(once.data ? once.data : "", once.length, messages, &twice))
            abort();
        if (once.length != twice.length || (once.length > 0 && memcmp(once.data, twice.data, once.length) != 0))
            abort();
    }
    buffer_free(&once);
    buffer_free(&twice);
    free(text);
    return 0;
}
