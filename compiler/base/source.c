#define _POSIX_C_SOURCE 200809L

#include "compiler/base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reads to the end of the file, or to one byte more than is allowed. */
static bool read_all(int fd, Buffer *text) {
    char block[64 << 10];
    while (text->length <= SOURCE_MAX_BYTES) {
        ssize_t got = read(fd, block, sizeof block);
        if (got == 0)
            return true;
        if (got > 0)
            buffer_append(text, block, (size_t)got);
        else if (errno != EINTR)
            return false;
    }
    return true;
}

static bool read_source(Arena *arena, int fd, Source *source, char **error) {
    Buffer text = {0};
    bool ok = read_all(fd, &text);
    if (!ok)
        *error = arena_printf(arena, "cannot read '%s': %s", source->path, strerror(errno));
    if (ok && text.length > SOURCE_MAX_BYTES) {
        *error = arena_printf(arena, "'%s' is larger than the limit of %u MiB for one source file", source->path, SOURCE_MAX_BYTES >> 20);
        ok = false;
    }
    if (ok) {
        size_t mark = text.length >= 3 && memcmp(text.data, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
        source->length = text.length - mark;
        source->text = arena_strndup(arena, source->length ? text.data + mark : "", source->length);
    }
    buffer_free(&text);
    return ok;
}

bool source_read(Arena *arena, const char *path, Source *source, char **error) {
    if (strcmp(path, "-") == 0) {
        *source = (Source){.path = "<stdin>"};
        return read_source(arena, STDIN_FILENO, source, error);
    }
    *source = (Source){.path = path};
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC); /* O_NONBLOCK: a FIFO must not hang the open */
    if (fd < 0) {
        *error = arena_printf(arena, "cannot open '%s': %s", path, strerror(errno));
        return false;
    }
    struct stat status;
    bool ok = false;
    if (fstat(fd, &status) != 0)
        *error = arena_printf(arena, "cannot read '%s': %s", path, strerror(errno));
    else if (!S_ISREG(status.st_mode))
        *error = arena_printf(arena, "'%s' is not a regular file", path);
    else
        ok = read_source(arena, fd, source, error);
    close(fd);
    return ok;
}
