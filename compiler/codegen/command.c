/* Runs a program and waits for it. No shell: arguments go as they are. */
#include "compiler/codegen/codegen.h"

#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

bool command_run(Arena *arena, char *const *arguments, const char *what, const char *install, char **error) {
    const char *program = arguments[0];
    pid_t pid;
    int cause = posix_spawnp(&pid, program, NULL, NULL, arguments, environ);
    if (cause == ENOENT) {
        *error = arena_printf(arena, "cannot %s: '%s' is not on the PATH; %s", what, program, install);
        return false;
    }
    if (cause) {
        *error = arena_printf(arena, "cannot %s: '%s' does not start: %s", what, program, strerror(cause));
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
        *error = arena_printf(arena, "cannot %s: '%s' was ended by signal %d", what, program, WTERMSIG(status));
    else
        *error = arena_printf(arena, "cannot %s: '%s' failed with status %d", what, program, ended == pid ? WEXITSTATUS(status) : -1);
    return false;
}
