/* --root: the only folders that a pod opens files in. The kernel resolves paths beneath them, so no symbolic link, no ".." and no race leads out. */
#define _GNU_SOURCE
#include "runtime/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct Root {
    int fd;
    char *path; /* real */
} Root;

struct Roots {
    Root *items;
    int count;
};

Roots *roots_open(const char *const *folders, int count, Error *error) {
    Roots *roots = new_zeroed(1, sizeof *roots);
    roots->items = new_zeroed((size_t)count, sizeof *roots->items);
    for (int i = 0; i < count; i++) {
        Root *root = &roots->items[roots->count++];
        root->fd = open(folders[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
        root->path = root->fd >= 0 ? realpath(folders[i], NULL) : NULL;
        if (root->path == NULL) {
            error_errno(error, "--root: cannot open the folder '%s'", folders[i]);
            roots_free(roots);
            return NULL;
        }
    }
    return roots;
}

void roots_free(Roots *roots) {
    if (roots == NULL)
        return;
    for (int i = 0; i < roots->count; i++) {
        if (roots->items[i].fd >= 0)
            close(roots->items[i].fd);
        free(roots->items[i].path);
    }
    free(roots->items);
    free(roots);
}

/* What of an absolute path lies below the root; NULL: it lies elsewhere. */
static const char *below(const Root *root, const char *path) {
    size_t length = strlen(root->path);
    if (strcmp(root->path, "/") == 0)
        return path + 1;
    return strncmp(path, root->path, length) == 0 && path[length] == '/' ? path + length + 1 : NULL;
}

static int open_beneath(const Roots *roots, const char *path, int flags) {
    struct open_how how = {.flags = (unsigned)flags, .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    for (int i = 0; i < roots->count; i++) {
        const char *rest = below(&roots->items[i], path);
        if (rest != NULL && *rest != '\0')
            return (int)syscall(SYS_openat2, roots->items[i].fd, rest, &how, sizeof how);
    }
    errno = EXDEV;
    return -1;
}

int roots_open_file(const Roots *roots, const char *path, int flags) {
    if (roots == NULL)
        return open(path, flags);
    int fd = open_beneath(roots, path, flags);
    if (fd >= 0 || errno != EXDEV)
        return fd;
    /* The path may lead into a root by a link outside of it, which is no way out. */
    char *real = realpath(path, NULL);
    if (real == NULL)
        return -1;
    fd = open_beneath(roots, real, flags);
    int cause = errno;
    free(real);
    errno = cause;
    return fd;
}
