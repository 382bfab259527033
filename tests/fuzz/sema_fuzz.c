/* Sema on any text that parses: it ends without a fault, and what it accepts lowers to sound IR. */
#include "compiler/ir/ir.h"
#include "compiler/lower/lower.h"
#include "compiler/sema/sema.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void compile(Context *context) {
    static const SemaOptions options = {0};
    Ast *ast = parse_source(context);
    if (diag_error_count(context->diag) > 0)
        return;
    CheckedProgram *program = sema_check(context, ast, &options);
    if (diag_error_count(context->diag) > 0)
        return;
    IrModule *module = lower_program(context, program, "fuzz.phb");
    const char *broken = ir_verify(context, module);
    if (broken) {
        fprintf(stderr, "%s\n%s\n", context->source->text, broken);
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static FILE *messages;
    if (!messages)
        messages = fopen("/dev/null", "w");
    char *text = malloc(size + 1);
    if (!messages || !text)
        abort();
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';

    Arena *arena = arena_new();
    Source source = {.path = "fuzz.phb", .text = text, .length = size};
    Context context = {
        .arena = arena,
        .interner = interner_new(arena),
        .dims = dim_pool_new(arena),
        .types = type_pool_new(arena),
        .diag = diag_new(arena, &source, messages, DIAG_TEXT, false),
        .source = &source,
    };
    compile(&context);
    diag_finish(context.diag);
    arena_free(arena);
    free(text);
    return 0;
}
