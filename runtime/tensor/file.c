#include "runtime/tensor/tensor.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- "f32[4,5]" ---- */

typedef struct Type {
    int dtype; /* -1: not given */
    int rank;  /* -1: not given */
    int64_t shape[PHB_MAX_RANK];
} Type;

static bool parse_shape(const char *text, Type *type) {
    for (type->rank = 0; type->rank < PHB_MAX_RANK;) {
        char *end;
        errno = 0;
        long long extent = strtoll(text, &end, 10);
        if (end == text || errno != 0 || extent < 1)
            return false;
        type->shape[type->rank++] = extent;
        if (strcmp(end, "]") == 0)
            return true;
        if (*end != ',')
            return false;
        text = end + 1;
    }
    return false;
}

static bool parse_type(const char *text, Type *type) {
    size_t length = strcspn(text, "[");
    char name[8];
    *type = (Type){.dtype = -1, .rank = -1};
    if (length == 0 || length >= sizeof name)
        return false;
    memcpy(name, text, length);
    name[length] = '\0';
    type->dtype = dtype_find(name);
    return type->dtype >= 0 && (text[length] == '\0' || parse_shape(text + length + 1, type));
}

/* Cuts the type off. */
static char *split_spec(const char *spec, Type *type) {
    const char *colon = strrchr(spec, ':');
    if (colon != NULL && colon != spec && parse_type(colon + 1, type))
        return format_text("%.*s", (int)(colon - spec), spec);
    *type = (Type){.dtype = -1, .rank = -1};
    return format_text("%s", spec);
}

static bool ends_in_npy(const char *path) {
    size_t length = strlen(path);
    return length >= 4 && strcmp(path + length - 4, ".npy") == 0;
}

static bool count_elements(Tensor *tensor, Error *error) {
    int64_t bytes = dtype_size(tensor->dtype);
    tensor->count = 1;
    for (int k = 0; k < tensor->rank; k++)
        if (__builtin_mul_overflow(tensor->count, tensor->shape[k], &tensor->count) || __builtin_mul_overflow(bytes, tensor->shape[k], &bytes))
            return error_set(error, "\"%s\": so many elements have no number", tensor->path);
    return true;
}

/* ---- reading ---- */

static bool read_header(Tensor *tensor, int fd, const Type *type, int64_t *offset, Error *error) {
    NpyHeader header;
    if (!npy_read_header(fd, tensor->path, &header, error))
        return false;
    if (type->rank >= 0)
        return error_set(error, "\"%s\": its header says the shape", tensor->path);
    bool bf16 = type->dtype == PHB_BF16 && header.may_be_bf16;
    if (type->dtype >= 0 && type->dtype != header.dtype && !bf16)
        return error_set(
            error, "\"%s\" holds %s, not %s", tensor->path, header.dtype >= 0 ? dtype_name(header.dtype) : "raw V2", dtype_name(type->dtype));
    if (header.dtype < 0 && !bf16)
        return error_set(error, "\"%s\" holds raw V2; \"%s:bf16\" says what that is", tensor->path, tensor->path);
    tensor->dtype = bf16 ? PHB_BF16 : header.dtype;
    tensor->rank = header.rank;
    memcpy(tensor->shape, header.shape, sizeof tensor->shape);
    *offset = header.data_offset;
    return count_elements(tensor, error);
}

static bool take_type(Tensor *tensor, const Type *type, int64_t bytes, Error *error) {
    if (type->dtype < 0)
        return error_set(error, "\"%s\" is raw: its type stands behind its name, as in \"%s:f32[4,5]\"", tensor->path, tensor->path);
    tensor->dtype = type->dtype;
    tensor->rank = type->rank >= 0 ? type->rank : 1;
    memcpy(tensor->shape, type->shape, sizeof tensor->shape);
    if (type->rank < 0)
        tensor->shape[0] = bytes / dtype_size(type->dtype);
    return count_elements(tensor, error);
}

static bool map_data(Tensor *tensor, int fd, int64_t offset, int64_t size, Error *error) {
    int64_t bytes = tensor_bytes(tensor);
    if (size - offset != bytes) {
        char type[160];
        tensor_describe(tensor, type);
        return error_set(error, "\"%s\": %s takes %" PRId64 " bytes, the file has %" PRId64, tensor->path, type, bytes, size - offset);
    }
    tensor->mapped = (size_t)size;
    tensor->mapping = mmap(NULL, tensor->mapped, PROT_READ, MAP_PRIVATE, fd, 0);
    if (tensor->mapping == MAP_FAILED) {
        tensor->mapping = NULL;
        return error_errno(error, "cannot read \"%s\"", tensor->path);
    }
    tensor->data = (const unsigned char *)tensor->mapping + offset;
    return true;
}

bool tensor_open(Tensor *tensor, const char *spec, Error *error) {
    Type type;
    struct stat status;
    *tensor = (Tensor){.path = split_spec(spec, &type)};
    tensor->is_npy = ends_in_npy(tensor->path);
    int fd = open(tensor->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    bool fine = (fd >= 0 && fstat(fd, &status) == 0) || error_errno(error, "cannot open \"%s\"", tensor->path);
    if (fine && !S_ISREG(status.st_mode))
        fine = error_set(error, "\"%s\" is not a regular file", tensor->path);
    int64_t offset = 0;
    if (fine)
        fine = tensor->is_npy ? read_header(tensor, fd, &type, &offset, error) : take_type(tensor, &type, status.st_size, error);
    fine = fine && map_data(tensor, fd, offset, status.st_size, error);
    if (fd >= 0)
        close(fd);
    if (!fine)
        tensor_close(tensor);
    return fine;
}

void tensor_close(Tensor *tensor) {
    if (tensor->mapping != NULL)
        munmap(tensor->mapping, tensor->mapped);
    free(tensor->path);
    *tensor = (Tensor){.path = NULL};
}

/* ---- writing ---- */

bool tensor_target(Tensor *tensor, const char *spec, const Tensor *like, Error *error) {
    Type type;
    *tensor = (Tensor){.path = split_spec(spec, &type)};
    tensor->is_npy = ends_in_npy(tensor->path);
    if (like == NULL && (type.dtype < 0 || type.rank < 0)) {
        error_set(error, "\"%s\": type and shape stand behind the name, as in \"%s:f32[4,5]\"", spec, tensor->path);
        tensor_close(tensor);
        return false;
    }
    tensor->dtype = type.dtype >= 0 ? type.dtype : like->dtype;
    tensor->rank = type.rank >= 0 ? type.rank : like->rank;
    memcpy(tensor->shape, type.rank >= 0 ? type.shape : like->shape, sizeof tensor->shape);
    if (!count_elements(tensor, error) ||
        (like != NULL && tensor->count != like->count &&
            !error_set(error, "\"%s\": %" PRId64 " elements do not fit into a shape of %" PRId64, spec, like->count, tensor->count))) {
        tensor_close(tensor);
        return false;
    }
    return true;
}

bool tensor_write(const Tensor *tensor, const void *bytes, Error *error) {
    char *part = format_text("%s.XXXXXX", tensor->path), header[256];
    int fd = mkstemp(part);
    if (fd < 0) {
        error_errno(error, "cannot write \"%s\"", tensor->path);
        free(part);
        return false;
    }
    FILE *file = fdopen(fd, "wb");
    int header_bytes = tensor->is_npy ? npy_write_header(header, tensor->dtype, tensor->rank, tensor->shape) : 0;
    size_t size = (size_t)tensor_bytes(tensor);
    bool fine = file != NULL && fwrite(header, 1, (size_t)header_bytes, file) == (size_t)header_bytes && fwrite(bytes, 1, size, file) == size &&
                fflush(file) == 0 && fchmod(fd, 0644) == 0;
    if (!fine)
        error_errno(error, "cannot write \"%s\"", tensor->path);
    if (file != NULL)
        fclose(file);
    else
        close(fd);
    fine = fine && (rename(part, tensor->path) == 0 || error_errno(error, "cannot write \"%s\"", tensor->path));
    if (!fine)
        unlink(part);
    free(part);
    return fine;
}

/* ---- both ---- */

int64_t tensor_bytes(const Tensor *tensor) {
    return tensor->count * dtype_size(tensor->dtype);
}

void tensor_place(const Tensor *tensor, int64_t index, char text[96]) {
    int64_t at[PHB_MAX_RANK];
    for (int k = tensor->rank - 1; k >= 0; k--) {
        at[k] = index % tensor->shape[k];
        index /= tensor->shape[k];
    }
    size_t used = (size_t)snprintf(text, 96, "[");
    for (int k = 0; k < tensor->rank; k++)
        used += (size_t)snprintf(text + used, 96 - used, "%s%" PRId64, k > 0 ? ", " : "", at[k]);
    snprintf(text + used, 96 - used, "]");
}

void tensor_describe(const Tensor *tensor, char text[160]) {
    size_t used = (size_t)snprintf(text, 160, "%s[", dtype_name(tensor->dtype));
    for (int k = 0; k < tensor->rank; k++)
        used += (size_t)snprintf(text + used, 160 - used, "%s%" PRId64, k > 0 ? ", " : "", tensor->shape[k]);
    snprintf(text + used, 160 - used, "]");
}
