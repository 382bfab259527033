/* .npy headers: magic, version, length, then the literal of a Python dict with exactly the keys descr, fortran_order and shape. The literal is read
 * strictly by a small recursive-descent reader; what NumPy itself has never written is refused. Format: numpy/lib/format.py. */
#include "runtime/runtime.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static const char *const descriptors[PHB_DTYPE_COUNT] = {
#define X(id, text, size, npy) [PHB_##id] = npy,
    PHB_DTYPES(X)
#undef X
};

enum { MAGIC_BYTES = 6, MAX_DESCR = 32 };
static const unsigned char magic[MAGIC_BYTES] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

typedef struct Reader {
    const char *at, *end;
    const char *path;
    Error *error;
} Reader;

static bool fail(const Reader *reader, const char *what) {
    return error_set(reader->error, "\"%s\": bad .npy header: %s", reader->path, what);
}

static void skip_space(Reader *reader) {
    while (reader->at < reader->end && (*reader->at == ' ' || *reader->at == '\t' || *reader->at == '\n' || *reader->at == '\r'))
        reader->at++;
}

/* Takes the token if it is next. */
static bool accept(Reader *reader, const char *token) {
    size_t length = strlen(token);
    skip_space(reader);
    if ((size_t)(reader->end - reader->at) < length || memcmp(reader->at, token, length) != 0)
        return false;
    reader->at += length;
    return true;
}

static bool read_string(Reader *reader, char text[MAX_DESCR]) {
    skip_space(reader);
    char quote = reader->at < reader->end ? *reader->at : '\0';
    if (quote != '\'' && quote != '"')
        return fail(reader, "expected a string");
    const char *begin = ++reader->at;
    while (reader->at < reader->end && *reader->at != quote) {
        if (*reader->at == '\\' || *reader->at == '\0')
            return fail(reader, "a string with an escape");
        reader->at++;
    }
    size_t length = (size_t)(reader->at - begin);
    if (reader->at == reader->end)
        return fail(reader, "a string without an end");
    if (length >= MAX_DESCR)
        return fail(reader, "a string that is too long");
    memcpy(text, begin, length);
    text[length] = '\0';
    reader->at++;
    return true;
}

static bool read_descr(Reader *reader, NpyHeader *header) {
    char descr[MAX_DESCR];
    skip_space(reader);
    if (reader->at < reader->end && *reader->at == '[')
        return error_set(reader->error, "\"%s\": a structured array; a tensor has one dtype", reader->path);
    if (!read_string(reader, descr))
        return false;
    /* The byte order of one-byte and raw types says nothing. */
    const char *plain = descr[0] == '|' || descr[0] == '<' ? descr + 1 : descr;
    header->dtype = -1;
    header->may_be_bf16 = strcmp(plain, "V2") == 0 || strcmp(descr, "<u2") == 0;
    if (strcmp(plain, "V2") == 0)
        return true;
    for (int i = 0; i < PHB_DTYPE_COUNT; i++) {
        bool same = dtype_size(i) == 1 ? strcmp(plain, descriptors[i] + 1) == 0 && plain != descr : strcmp(descr, descriptors[i]) == 0;
        if (same)
            header->dtype = i;
    }
    if (header->dtype >= 0)
        return true;
    if (descr[0] == '>')
        return error_set(reader->error, "\"%s\": dtype '%s' is big-endian; tensors are little-endian", reader->path, descr);
    return error_set(reader->error, "\"%s\": no tensor has the dtype '%s'", reader->path, descr);
}

static bool read_extent(Reader *reader, int64_t *extent) {
    skip_space(reader);
    if (reader->at == reader->end || *reader->at < '0' || *reader->at > '9')
        return fail(reader, "expected an extent that is not negative");
    *extent = 0;
    for (; reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9'; reader->at++)
        if (__builtin_mul_overflow(*extent, 10, extent) || __builtin_add_overflow(*extent, *reader->at - '0', extent))
            return fail(reader, "an extent beyond 2^63");
    if (reader->at < reader->end && *reader->at == 'L') /* as Python 2 wrote it */
        reader->at++;
    return true;
}

static bool read_shape(Reader *reader, NpyHeader *header) {
    if (!accept(reader, "("))
        return fail(reader, "expected the tuple of the shape");
    header->rank = 0;
    bool comma = false;
    while (!accept(reader, ")")) {
        if (header->rank > 0 && !comma)
            return fail(reader, "expected ',' or ')' in the shape");
        if (header->rank == PHB_MAX_RANK)
            return error_set(reader->error, "\"%s\": more than %d axes", reader->path, PHB_MAX_RANK);
        if (!read_extent(reader, &header->shape[header->rank++]))
            return false;
        comma = accept(reader, ",");
    }
    if (header->rank == 0)
        return error_set(reader->error, "\"%s\": an array without axes; a tensor has 1 to %d", reader->path, PHB_MAX_RANK);
    if (header->rank == 1 && !comma)
        return fail(reader, "the shape is no tuple: '(n)' lacks a comma");
    return true;
}

static bool read_order(Reader *reader) {
    if (accept(reader, "False"))
        return true;
    if (accept(reader, "True"))
        return error_set(reader->error, "\"%s\": in Fortran order; save it in C order (numpy.ascontiguousarray)", reader->path);
    return fail(reader, "'fortran_order' must be True or False");
}

static bool read_dict(Reader *reader, NpyHeader *header) {
    enum { DESCR = 1, ORDER = 2, SHAPE = 4, ALL = 7 };
    unsigned seen = 0;
    if (!accept(reader, "{"))
        return fail(reader, "expected a dict");
    bool comma = true;
    while (!accept(reader, "}")) {
        char key[MAX_DESCR];
        if (!comma)
            return fail(reader, "expected ',' or '}'");
        if (!read_string(reader, key))
            return false;
        if (!accept(reader, ":"))
            return fail(reader, "expected ':'");
        unsigned which = strcmp(key, "descr") == 0 ? DESCR : strcmp(key, "fortran_order") == 0 ? ORDER : strcmp(key, "shape") == 0 ? SHAPE : 0;
        if (which == 0)
            return fail(reader, "a key that is none of 'descr', 'fortran_order', 'shape'");
        if (seen & which)
            return fail(reader, "a key given twice");
        seen |= which;
        bool fine = which == DESCR ? read_descr(reader, header) : which == ORDER ? read_order(reader) : read_shape(reader, header);
        if (!fine)
            return false;
        comma = accept(reader, ",");
    }
    if (seen != ALL)
        return fail(reader, "'descr', 'fortran_order' and 'shape' must all be there");
    skip_space(reader);
    return reader->at == reader->end || fail(reader, "text after the dict");
}

bool npy_parse_header(const unsigned char *bytes, size_t size, const char *path, NpyHeader *header, Error *error) {
    Reader reader = {.path = path, .error = error};
    *header = (NpyHeader){.dtype = -1};
    if (size < MAGIC_BYTES + 4 || memcmp(bytes, magic, MAGIC_BYTES) != 0)
        return error_set(error, "\"%s\": not a .npy file: it does not begin with the magic bytes", path);
    unsigned major = bytes[6], minor = bytes[7];
    if (major < 1 || major > 3 || minor != 0)
        return error_set(error, "\"%s\": .npy version %u.%u; known are 1.0, 2.0 and 3.0", path, major, minor);
    size_t begin = major == 1 ? 10 : 12;
    if (size < begin)
        return fail(&reader, "the file ends in it");
    size_t length = (size_t)bytes[8] | (size_t)bytes[9] << 8;
    if (major > 1)
        length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (length > NPY_MAX_HEADER - begin)
        return fail(&reader, "it is longer than 64 KiB");
    if (length > size - begin)
        return fail(&reader, "the file ends in it");
    reader.at = (const char *)bytes + begin;
    reader.end = reader.at + length;
    header->data_offset = (int64_t)(begin + length);
    return read_dict(&reader, header);
}

bool npy_read_header(int fd, const char *path, NpyHeader *header, Error *error) {
    unsigned char bytes[NPY_MAX_HEADER];
    size_t size = 0;
    while (size < sizeof bytes) {
        ssize_t got = pread(fd, bytes + size, sizeof bytes - size, (off_t)size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_errno(error, "cannot read \"%s\"", path);
        if (got == 0)
            break;
        size += (size_t)got;
    }
    return npy_parse_header(bytes, size, path, header, error);
}

int npy_write_header(char bytes[256], int dtype, int rank, const int64_t *shape) {
    enum { PREFIX = 10, ALIGN = 64, CAPACITY = 256 };
    char *text = bytes + PREFIX;
    size_t room = CAPACITY - PREFIX;
    size_t length = (size_t)snprintf(text, room, "{'descr': '%s', 'fortran_order': False, 'shape': (", descriptors[dtype]);
    for (int axis = 0; axis < rank; axis++)
        length += (size_t)snprintf(text + length, room - length, axis + 1 < rank ? "%lld, " : rank == 1 ? "%lld,)" : "%lld)", (long long)shape[axis]);
    length += (size_t)snprintf(text + length, room - length, ", }");
    size_t total = (PREFIX + length + 1 + ALIGN - 1) / ALIGN * ALIGN;
    memset(text + length, ' ', total - PREFIX - length - 1);
    bytes[total - 1] = '\n';
    memcpy(bytes, magic, MAGIC_BYTES);
    bytes[6] = 1;
    bytes[7] = 0;
    bytes[8] = (char)((total - PREFIX) & 0xFF);
    bytes[9] = (char)((total - PREFIX) >> 8);
    return (int)total;
}
