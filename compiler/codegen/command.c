/* Runs programs and waits for them. No shell: arguments go as they are. */
#include "compiler/codegen/codegen.h"

#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

bool command_start(Arena *arena, char *const *arguments, const char *what, const char *install, Command *command, char **error) {
    const char *program = arguments[0];
    *command = (Command){.program = program, .what = what};
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
    output_add_child(pid);
    command->pid = pid;
    return true;
}

bool command_wait(Arena *arena, const Command *command, char **error) {
    int status;
    pid_t ended;
    while ((ended = waitpid(command->pid, &status, 0)) < 0 && errno == EINTR)
        ;
    output_forget_child(command->pid);
    if (ended == command->pid && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    if (ended == command->pid && WIFSIGNALED(status))
        *error = arena_printf(arena, "cannot %s: '%s' was ended by signal %d", command->what, command->program, WTERMSIG(status));
    else
        *error = arena_printf(
            arena, "cannot %s: '%s' failed with status %d", command->what, command->program, ended == command->pid ? WEXITSTATUS(status) : -1);
    return false;
}

bool command_run(Arena *arena, char *const *arguments, const char *what, const char *install, char **error) {
    Command command;
    return command_start(arena, arguments, what, install, &command, error) && command_wait(arena, &command, error);
}
