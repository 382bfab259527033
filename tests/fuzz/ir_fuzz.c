/* The IR reader on any bytes: it ends without a fault, with one message or a module that is sound, prints as text that reads back the same, and stays
 * sound under every pass. */
#include "compiler/ir/ir.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static IrModule *read_text(Context *context, Source *source, FILE *messages) {
    context->source = source;
    context->diag = diag_new(context->arena, source, messages, DIAG_TEXT, false);
    IrModule *module = ir_read(context);
    diag_finish(context->diag);
    if (diag_error_count(context->diag) != (module ? 0 : 1))
        abort();
    return module;
}

static void check_sound(Context *context, IrModule *module) {
    if (ir_verify(context, module))
        abort();
}

static void check_passes(Context *context, IrModule *module) {
    for (int i = 0; i < module->kernels.count; i++) {
        IrKernel *kernel = module->kernels.items[i];
        ir_fold(context, kernel);
        check_sound(context, module);
        if (ir_fold(context, kernel))
            abort();
        ir_cse(context, kernel);
        check_sound(context, module);
        ir_dce(context, kernel);
        check_sound(context, module);
    }
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

    Arena *arena = arena_new();
    Context context = {.arena = arena, .interner = interner_new(arena), .dims = dim_pool_new(arena), .types = type_pool_new(arena)};
    Source source = {.path = "fuzz", .text = text, .length = size};
    IrModule *module = read_text(&context, &source, messages);
    if (module) {
        Buffer once = {0}, twice = {0};
        ir_print(&once, module);
        Source printed = {.path = "fuzz", .text = once.data, .length = once.length};
        IrModule *again = read_text(&context, &printed, messages);
        if (!again)
            abort();
        ir_print(&twice, again);
        if (strcmp(once.data, twice.data) != 0)
            abort();
        check_passes(&context, module);
        buffer_free(&once);
        buffer_free(&twice);
    }
    arena_free(arena);
    free(text);
    return 0;
}
