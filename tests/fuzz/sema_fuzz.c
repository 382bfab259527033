/* The checker on any text that parses: it ends without a fault. */
#include "compiler/sema/sema.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static FILE *messages;
    if (!messages)
        messages = fopen("/dev/null", "w");
    Arena *arena = arena_new();
    if (!messages)
        abort();
    Source source = {.path = "fuzz", .text = arena_strndup(arena, (const char *)data, size), .length = size};
    Context context = {
        .arena = arena,
        .interner = interner_new(arena),
        .dims = dim_pool_new(arena),
        .types = type_pool_new(arena),
        .diag = diag_new(arena, &source, messages, DIAG_TEXT, false),
        .source = &source,
    };
    static const Define defines[] = {{DEFINE_BOTH, "B", 32}, {DEFINE_CLUSTER, "C", 64}};
    Ast *ast = parse_source(&context);
    sema_check(&context, ast, &(SemaOptions){.defines = defines, .define_count = 2});
    diag_finish(context.diag);
    arena_free(arena);
    return 0;
}
