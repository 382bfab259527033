/* --cubin: PTX into machine code, by NVIDIA's assembler. */
#include "compiler/codegen/codegen.h"
#include "compiler/codegen/nvptx/nvptx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool read_back(Arena *arena, const char *path, GpuImage *code, char **error) {
    FILE *file = fopen(path, "rb");
    long size = file && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    char *bytes = size > 0 ? arena_alloc(arena, (size_t)size) : NULL;
    bool read = bytes && fseek(file, 0, SEEK_SET) == 0 && fread(bytes, 1, (size_t)size, file) == (size_t)size;
    if (!read)
        *error = arena_printf(arena, "cannot read what ptxas has written to '%s'", path);
    if (file)
        fclose(file);
    code->text = bytes;
    code->size = size;
    return read;
}

static bool run_ptxas(Arena *arena, const GpuImage *ptx, const char *from, const char *to, char **error) {
    char *arguments[] = {arena_printf(arena, "ptxas"), arena_printf(arena, "-arch=%s", ptx->target), arena_printf(arena, "-o"),
        arena_printf(arena, "%s", to), arena_printf(arena, "%s", from), NULL};
    const char *what = arena_printf(arena, "assemble '%s' for %s", ptx->stages[0].entry, ptx->target);
    return command_run(arena, arguments, what, "install the CUDA toolkit, or leave '--cubin' out", error);
}

bool nvptx_assemble(Context *context, const GpuImage *ptx, Span span, GpuImage *code) {
    Arena *arena = context->arena;
    const char *folder = getenv("TMPDIR");
    const char *path = arena_printf(arena, "%s/phobosc-image", folder && *folder ? folder : "/tmp");
    *code = *ptx;
    code->machine_code = true;
    char *error = NULL;
    Output from = {.fd = -1}, to = {.fd = -1};
    bool done = output_begin(arena, path, ".ptx", &from, &error) && output_begin(arena, path, ".cubin", &to, &error) &&
                output_write(arena, &from, ptx->text, (size_t)ptx->size - 1, &error) &&
                run_ptxas(arena, ptx, from.temporary, to.temporary, &error) && read_back(arena, to.temporary, code, &error);
    output_abandon(&from);
    output_abandon(&to);
    if (!done)
        diag_error(context->diag, span, "%s", error);
    return done;
}
