/* --emit=lib: an archive with the kernels and the runtime, and beside it NAME.h, which declares the kernels and how to run them. */
#include "compiler/api_text.h"
#include "compiler/codegen/codegen.h"
#include "compiler/driver.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* "libadd.a" in any folder: "add", fit to be part of a C name. */
static const char *library_name(Arena *arena, const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (strncmp(name, "lib", 3) == 0 && name[3] && name[3] != '.')
        name += 3;
    size_t length = strcspn(name, ".");
    char *result = arena_printf(arena, "%s%.*s", isdigit((unsigned char)*name) || !length ? "_" : "", (int)length, name);
    for (char *at = result; *at; at++)
        if (!isalnum((unsigned char)*at))
            *at = '_';
    return result;
}

const char *library_symbol(Arena *arena, const char *path) {
    return arena_printf(arena, "%s_program", library_name(arena, path));
}

const char *library_header_path(Arena *arena, const char *path) {
    const char *slash = strrchr(path, '/');
    return arena_printf(arena, "%.*s%s.h", slash ? (int)(slash - path + 1) : 0, path, library_name(arena, path));
}

/* As the source has them: a comment, in which nothing can end it. */
static void print_kernel(Buffer *out, const Signature *signature) {
    buffer_printf(out, " *   %s(", signature->name);
    for (int i = 0; i < signature->params.count; i++) {
        buffer_printf(out, "%s%s: ", i ? ", " : "", signature->params.items[i].name);
        type_print(out, signature->params.items[i].type);
    }
    buffer_puts(out, ")\n");
}

static void print_header(Arena *arena, const char *path, const IrModule *module, Buffer *out) {
    const char *name = library_name(arena, path);
    buffer_puts(out, API_TEXT);
    buffer_printf(out, "\n#ifndef PHOBOS_PROGRAM_%s\n#define PHOBOS_PROGRAM_%s\n\n/* The kernels\n", name, name);
    for (int k = 0; k < module->kernels.count; k++)
        print_kernel(out, &module->kernels.items[k]->signature);
    buffer_printf(
        out, " */\n#ifdef __cplusplus\nextern \"C\" {\n#endif\nextern const PhbProgram %s_program;\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n", name);
}

static bool read_runtime(Arena *arena, const char *path, Buffer *runtime, char **error) {
    FILE *file = fopen(path, "rb");
    char bytes[1 << 14];
    size_t count;
    while (file && (count = fread(bytes, 1, sizeof bytes, file)) > 0)
        buffer_append(runtime, bytes, count);
    bool done = file && !ferror(file);
    if (!done)
        *error = arena_printf(arena, "the runtime '%s' cannot be read: %s", path, strerror(errno));
    if (file)
        fclose(file);
    return done;
}

/* The header appears before the archive, which is what others wait for. */
static bool write_both(Arena *arena, const Buffer *archive, const Buffer *header, const char *path, char **error) {
    Output archive_file, header_file;
    if (!output_begin(arena, library_header_path(arena, path), "", &header_file, error))
        return false;
    if (!output_begin(arena, path, "", &archive_file, error)) {
        output_abandon(&header_file);
        return false;
    }
    if (output_write(arena, &header_file, header->data, header->length, error) &&
        output_write(arena, &archive_file, archive->data, archive->length, error) && output_commit(arena, &header_file, error))
        return output_commit(arena, &archive_file, error);
    output_abandon(&header_file);
    output_abandon(&archive_file);
    return false;
}

bool library_write(Arena *arena, const IrModule *module, const Buffer *object, const char *runtime_path, const char *path, char **error) {
    Buffer runtime = {0}, archive = {0}, header = {0};
    bool done = read_runtime(arena, runtime_path, &runtime, error);
    if (done && !archive_print(arena, object, library_symbol(arena, path), &runtime, &archive)) {
        *error = arena_printf(arena, "'%s' is no archive with a runtime", runtime_path);
        done = false;
    }
    if (done) {
        print_header(arena, path, module, &header);
        done = write_both(arena, &archive, &header, path, error);
    }
    buffer_free(&runtime);
    buffer_free(&archive);
    buffer_free(&header);
    return done;
}
