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

static bool start_ptxas(Context *context, Assembly *assembly, char **error) {
    Arena *arena = context->arena;
    const GpuImage *ptx = assembly->ptx;
    const char *folder = getenv("TMPDIR");
    const char *path = arena_printf(arena, "%s/phobosc-image", folder && *folder ? folder : "/tmp");
    if (!output_begin(arena, path, ".ptx", &assembly->from, error) || !output_begin(arena, path, ".cubin", &assembly->to, error) ||
        !output_write(arena, &assembly->from, ptx->text, (size_t)ptx->size - 1, error))
        return false;
    char *arguments[] = {arena_printf(arena, "ptxas"), arena_printf(arena, "-arch=%s", ptx->target), arena_printf(arena, "-o"),
        assembly->to.temporary, assembly->from.temporary, NULL};
    const char *what = arena_printf(arena, "assemble '%s' for %s", ptx->stages[0].entry, ptx->target);
    return command_start(arena, arguments, what, "install the CUDA toolkit, or leave '--cubin' out", &assembly->ptxas, error);
}

static bool end_assembly(Context *context, Assembly *assembly, bool done, const char *error) {
    output_abandon(&assembly->from);
    output_abandon(&assembly->to);
    if (!done)
        diag_error(context->diag, assembly->span, "%s", error);
    return done;
}

bool nvptx_assemble(Context *context, const GpuImage *ptx, Span span, GpuImage *code, Assembly *assembly) {
    *assembly = (Assembly){.ptx = ptx, .code = code, .span = span, .from.fd = -1, .to.fd = -1};
    char *error = NULL;
    return start_ptxas(context, assembly, &error) || end_assembly(context, assembly, false, error);
}

bool nvptx_assembled(Context *context, Assembly *assembly) {
    GpuImage *code = assembly->code;
    *code = *assembly->ptx;
    code->machine_code = true;
    char *error = NULL;
    bool done = command_wait(context->arena, &assembly->ptxas, &error) && read_back(context->arena, assembly->to.temporary, code, &error);
    return end_assembly(context, assembly, done, error);
}
