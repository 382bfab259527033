/* Runs the C compiler driver as linker. No shell: arguments go as they are. */
#include "compiler/codegen/codegen.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

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

static bool run(Arena *arena, const Arguments *arguments, const char *path, char **error) {
    const char *program = arguments->items[0];
    pid_t pid;
    int cause = posix_spawnp(&pid, program, NULL, NULL, arguments->items, environ);
    if (cause == ENOENT) {
        *error = arena_printf(arena, "cannot link '%s': '%s' is not on the PATH; install a C compiler or name one in CC", path, program);
        return false;
    }
    if (cause) {
        *error = arena_printf(arena, "cannot link '%s': '%s' does not start: %s", path, program, strerror(cause));
        return false;
    }
    output_set_child(pid);
    int status;
    pid_t ended;
    while ((ended = waitpid(pid, &status, 0)) < 0 && errno == EINTR)
        ;
    output_set_child(0);
    if (ended == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    if (ended == pid && WIFSIGNALED(status))
        *error = arena_printf(arena, "cannot link '%s': '%s' was ended by signal %d", path, program, WTERMSIG(status));
    else
        *error = arena_printf(arena, "cannot link '%s': '%s' failed with status %d", path, program, ended == pid ? WEXITSTATUS(status) : -1);
    return false;
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
    return run(arena, &arguments, output->path, error);
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
