/* phobosc: compiles one source into one output, or formats sources. */
#include "compiler/codegen/codegen.h"
#include "compiler/driver.h"
#include "runtime/streams.h"

#include <string.h>

int main(int argc, char **argv) {
    streams_open();
    output_catch_signals();
    Arena *arena = arena_new();
    Interner *interner = interner_new(arena);
    Arguments arguments = {0};
    Options options;
    int status = STATUS_USAGE;
    if (argc > 1 && strcmp(argv[1], "fmt") == 0)
        status = format_command(arena, interner, argc - 2, argv + 2);
    else if (response_expand(arena, argc, argv, &arguments) && options_parse(arena, interner, arguments.count - 1, arguments.items, &options))
        status = driver_run(arena, interner, &options);
    arena_free(arena);
    return status;
}
