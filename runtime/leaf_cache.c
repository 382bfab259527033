/* One small file a key, named by its hash: the key and the leaf's number, each on a line. A file that holds anything else is not there. */
#include "runtime/measure.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD "phobos leaf 1\n"

/* NULL where the user has no home. The caller frees it. */
static char *cache_folder(void) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache != NULL && cache[0] == '/')
        return format_text("%s/phobos", cache);
    return home != NULL && home[0] == '/' ? format_text("%s/.cache/phobos", home) : NULL;
}

static char *cache_file(const char *key) {
    char *folder = cache_folder();
    return folder != NULL ? text_append(folder, "/leaf-%016llx", (unsigned long long)XXH3_64bits(key, strlen(key))) : NULL;
}

int leaf_cache_find(const char *key, int leaf_count) {
    char *path = cache_file(key), *wanted = format_text(HEAD "%s\n", key);
    size_t length = strlen(wanted);
    char *text = new_zeroed(length + 32, 1), *end;
    FILE *file = path != NULL ? fopen(path, "r") : NULL;
    size_t count = file != NULL ? fread(text, 1, length + 31, file) : 0;
    long leaf = -1;
    if (count > length && memcmp(text, wanted, length) == 0) {
        leaf = strtol(text + length, &end, 10);
        if (strcmp(end, "\n") != 0 || leaf < 0 || leaf >= leaf_count)
            leaf = -1;
    }
    if (file != NULL)
        fclose(file);
    free(text);
    free(wanted);
    free(path);
    return (int)leaf;
}

static bool make_folder(const char *file) {
    char *path = format_text("%s", file);
    bool made = true;
    for (char *slash = strchr(path + 1, '/'); made && slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        made = mkdir(path, 0777) == 0 || errno == EEXIST;
        *slash = '/';
    }
    free(path);
    return made;
}

/* Whole or not at all, whoever else keeps the same. */
static bool write_whole(const char *path, const char *key, int leaf) {
    char *temporary = format_text("%s.XXXXXX", path);
    int fd = mkstemp(temporary);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    bool written = file != NULL && fprintf(file, HEAD "%s\n%d\n", key, leaf) > 0;
    if (file != NULL)
        written &= fclose(file) == 0;
    else if (fd >= 0)
        close(fd);
    written = written && rename(temporary, path) == 0;
    if (!written && fd >= 0) {
        int cause = errno;
        unlink(temporary);
        errno = cause;
    }
    free(temporary);
    return written;
}

bool leaf_cache_keep(const char *key, int leaf, Error *error) {
    char *path = cache_file(key);
    if (path == NULL)
        return error_set(error, "neither XDG_CACHE_HOME nor HOME names a folder");
    bool kept = make_folder(path) && write_whole(path, key, leaf);
    if (!kept)
        error_errno(error, "cannot write '%s'", path);
    free(path);
    return kept;
}
