/* phobosc: compiles one source into one output. */
#include "compiler/codegen/codegen.h"
#include "compiler/driver.h"

int main(int argc, char **argv) {
    output_catch_signals();
    Arena *arena = arena_new();
    Interner *interner = interner_new(arena);
    Arguments arguments = {0};
    Options options;
    int status = STATUS_USAGE;
    if (response_expand(arena, argc, argv, &arguments) && options_parse(arena, interner, arguments.count - 1, arguments.items, &options))
        status = driver_run(arena, interner, &options);
    arena_free(arena);
    return status;
}
