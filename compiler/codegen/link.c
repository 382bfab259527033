/* Runs the C compiler driver as linker. */
#include "compiler/codegen/codegen.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef VEC(char *) Arguments;

static void add_words(Arena *arena, Arguments *arguments, const char *text) {
    while (*(text += strspn(text, " \t"))) {
        size_t length = strcspn(text, " \t");
        vec_push(arena, arguments, arena_strndup(arena, text, length));
        text += length;
    }
}

static void add(Arena *arena, Arguments *arguments, const char *word) {
    vec_push(arena, arguments, arena_strndup(arena, word, strlen(word)));
}

/* A name that begins with '-' would be read as an option. */
static const char *as_file(Arena *arena, const char *path) {
    return *path == '-' ? arena_printf(arena, "./%s", path) : path;
}

static bool link_to(Arena *arena, const char *object, const char *runtime_path, const char *flags, const Output *output, char **error) {
    const char *driver = getenv("CC");
    Arguments arguments = {0};
    add_words(arena, &arguments, driver ? driver : "");
    if (!arguments.count)
        add(arena, &arguments, "cc");
    add(arena, &arguments, "-o");
    add(arena, &arguments, as_file(arena, output->temporary));
    add(arena, &arguments, as_file(arena, object));
    add(arena, &arguments, as_file(arena, runtime_path));
    add_words(arena, &arguments, flags);
    vec_push(arena, &arguments, NULL);
    const char *what = arena_printf(arena, "link '%s'", output->path);
    return command_run(arena, arguments.items, what, "install a C compiler or name one in CC", error);
}

bool link_executable(Context *context, const Buffer *object, const char *runtime_path, const char *flags, const char *path, char **error) {
    Arena *arena = context->arena;
    if (access(runtime_path, R_OK) != 0) {
        *error = arena_printf(arena, "cannot link '%s': the runtime '%s' cannot be read: %s", path, runtime_path, strerror(errno));
        return false;
    }
    Output executable, relocatable;
    if (!output_begin(arena, path, "", &executable, error))
        return false;
    bool linked = output_begin(arena, executable.temporary, ".o", &relocatable, error);
    if (linked) {
        linked = output_write(arena, &relocatable, object->data, object->length, error) &&
                 link_to(arena, relocatable.temporary, runtime_path, flags, &executable, error);
        output_abandon(&relocatable);
    }
    if (linked)
        return output_commit(arena, &executable, error);
    output_abandon(&executable);
    return false;
}
