/* The "tensors" of job.json: from names to open files. */
#include "runtime/job_reader.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* %XX decoded; NULL, reported, where one is malformed or means NUL. */
static char *decode_percent(JobReader *reader, const JsonNode *uri, const char *text) {
    char *path = new_zeroed(strlen(text) + 1, 1), *out = path;
    for (; *text != '\0'; text++) {
        if (*text != '%') {
            *out++ = *text;
            continue;
        }
        int high = hex_digit(text[1]), low = high < 0 ? -1 : hex_digit(text[2]);
        if (low < 0 || (high == 0 && low == 0)) {
            report(reader, uri,
                low < 0 ? "\"%s\": '%%' must be followed by two hexadecimal digits; a percent sign is %%25" : "\"%s\": no file name holds %%00",
                uri->text);
            free(path);
            return NULL;
        }
        *out++ = (char)(high << 4 | low);
        text += 2;
    }
    return path;
}

/* A scheme as RFC 3986 has it, before "://". */
static bool has_scheme(const char *text, size_t *length) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", others[] = "0123456789+-.";
    *length = 0;
    size_t step;
    do {
        step = strspn(text + *length, letters);
        step += *length + step > 0 ? strspn(text + *length + step, others) : 0;
        *length += step;
    } while (step > 0);
    return *length > 0 && strncmp(text + *length, "://", 3) == 0;
}

/* "file://data/a.npy" is a relative path where the folder data is beside the job file. Where it is not, "data" can only be meant as a host. */
static bool names_host(const JobReader *reader, const char *path) {
    const char *slash = strchr(path, '/');
    if (path[0] == '/' || slash == NULL)
        return false;
    char *folder = format_text("%s/%.*s", reader->folder, (int)(slash - path), path);
    struct stat status;
    bool is_folder = stat(folder, &status) == 0 && S_ISDIR(status.st_mode);
    free(folder);
    return !is_folder;
}

/* A path relative to the working folder, or absolute; NULL where the URI is refused, which is reported. */
static char *path_of(JobReader *reader, const JsonNode *uri) {
    const char *text = uri->text;
    size_t scheme;
    char *path;
    if (!has_scheme(text, &scheme)) {
        path = format_text("%s", text);
    } else if (scheme != strlen("file") || strncasecmp(text, "file", scheme) != 0) {
        report(reader, uri, "\"%s\": tensors are local files; the scheme \"%.*s\" is not known", text, (int)scheme, text);
        return NULL;
    } else {
        path = decode_percent(reader, uri, text + strlen("file://"));
        if (path == NULL)
            return NULL;
        if (names_host(reader, path)) {
            int length = (int)strcspn(path, "/");
            report(reader, uri, "\"%s\": \"%.*s\" is no folder beside the job file, and a host is not supported; absolute paths are file:///...",
                text, length, path);
            free(path);
            return NULL;
        }
    }
    if (path[0] == '\0') {
        report(reader, uri, "the path is empty");
        free(path);
        return NULL;
    }
    if (path[0] == '/' || strcmp(reader->folder, ".") == 0)
        return path;
    char *beside = format_text("%s/%s", strcmp(reader->folder, "/") == 0 ? "" : reader->folder, path);
    free(path);
    return beside;
}

static bool read_dtype(JobReader *reader, const JsonNode *node, const PhbTensor *tensor, TensorEntry *entry) {
    static const char *const names[] = {
#define X(id, text, size, npy) text,
        PHB_DTYPES(X)
#undef X
    };
    if (!expect_kind(reader, node, "dtype", JSON_NODE_STRING))
        return false;
    int dtype = dtype_find(node->text);
    if (dtype < 0) {
        const char *nearest = name_nearest(node->text, names, PHB_DTYPE_COUNT);
        report(reader, node, "unknown dtype \"%s\"%s%s%s", node->text, nearest != NULL ? "; did you mean \"" : "; the kernel's is ",
            nearest != NULL ? nearest : dtype_name(tensor->dtype), nearest != NULL ? "\"?" : "");
        return false;
    }
    if (dtype != tensor->dtype) {
        report(reader, node, "tensor \"%s\" is %s in the kernel, found dtype \"%s\"", tensor->name, dtype_name(tensor->dtype), node->text);
        return false;
    }
    entry->says_bf16 = dtype == PHB_BF16;
    return true;
}

static bool read_shape(JobReader *reader, const JsonNode *node, const PhbTensor *tensor, TensorEntry *entry) {
    if (!expect_kind(reader, node, "shape", JSON_NODE_ARRAY))
        return false;
    if (node->count != tensor->rank) {
        report(reader, node, "tensor \"%s\" has rank %d in the kernel, found %d", tensor->name, tensor->rank, node->count);
        return false;
    }
    bool fine = true;
    int axis = 0;
    for (const JsonNode *extent = node->first; extent != NULL; extent = extent->next)
        fine &= read_positive(reader, extent, "an extent of the shape", &entry->shape[axis++]);
    entry->shape_node = node;
    entry->shape_known = fine;
    return fine;
}

/* What the job says of one tensor. */
static void read_entry(JobReader *reader, const PhbTensor *tensor, TensorEntry *entry) {
    static const char *const names[] = {"uri", "dtype", "shape"};
    const JsonNode *node = entry->node;
    if (node->kind == JSON_NODE_STRING) {
        entry->uri = node;
        return;
    }
    if (node->kind != JSON_NODE_OBJECT) {
        report(reader, node, "tensor \"%s\": expected a string or an object, found %s", tensor->name, json_kind_text(node));
        entry->failed = true;
        return;
    }
    for (const JsonNode *member = node->first; member != NULL; member = member->next) {
        if (strcmp(member->key, "uri") == 0)
            entry->uri = expect_kind(reader, member, "uri", JSON_NODE_STRING) ? member : NULL;
        else if (strcmp(member->key, "dtype") == 0)
            entry->failed |= !read_dtype(reader, member, tensor, entry);
        else if (strcmp(member->key, "shape") == 0)
            entry->failed |= !read_shape(reader, member, tensor, entry);
        else
            report_unknown(reader, member, "key", names, sizeof names / sizeof *names);
    }
    if (entry->uri == NULL) {
        if (entry->in_pods)
            return;
        if (json_member(node, "uri") == NULL)
            report(
                reader, node, "tensor \"%s\" has no \"uri\"; only what one of several \"steps\" writes for a later one can do without", tensor->name);
        entry->failed = true;
    }
}

char *shape_text(int dtype, int rank, const int64_t *shape) {
    char *text = format_text("%s [", dtype_name(dtype));
    for (int axis = 0; axis < rank; axis++)
        text = text_append(text, "%s%lld", axis > 0 ? ", " : "", (long long)shape[axis]);
    return text_append(text, "]");
}

/* Elements and shape of an old file as its header says. */
static bool check_header(JobReader *reader, const PhbTensor *tensor, TensorEntry *entry, const NpyHeader *header, const TensorFile *file) {
    if (header->dtype != tensor->dtype && !(tensor->dtype == PHB_BF16 && header->may_be_bf16)) {
        report(reader, entry->uri, "tensor \"%s\" is %s in the kernel, \"%s\" holds %s", tensor->name, dtype_name(tensor->dtype), file->path,
            header->dtype >= 0 ? dtype_name(header->dtype) : "raw elements of two bytes");
        return false;
    }
    if (tensor->dtype == PHB_BF16 && !entry->says_bf16) {
        report(reader, entry->uri, "tensor \"%s\": \"%s\" holds elements of two bytes that may be bf16: if they are, say \"dtype\": \"bf16\"",
            tensor->name, file->path);
        return false;
    }
    if (header->rank != tensor->rank) {
        report(
            reader, entry->uri, "tensor \"%s\" has rank %d in the kernel, found %d in \"%s\"", tensor->name, tensor->rank, header->rank, file->path);
        return false;
    }
    for (int axis = 0; axis < header->rank; axis++) {
        if (header->shape[axis] < 1) {
            report(reader, entry->uri, "tensor \"%s\": axis %d of \"%s\" is empty; extents are at least 1", tensor->name, axis, file->path);
            return false;
        }
        if (entry->shape_known && entry->shape[axis] != header->shape[axis]) {
            char *said = shape_text(tensor->dtype, tensor->rank, entry->shape), *found = shape_text(tensor->dtype, header->rank, header->shape);
            report(reader, entry->shape_node, "tensor \"%s\": the job says %s, \"%s\" holds %s", tensor->name, said, file->path, found);
            free(said);
            free(found);
            return false;
        }
    }
    return true;
}

static void open_entry(JobReader *reader, int index) {
    const PhbTensor *tensor = &reader->kernel->tensors[index];
    TensorEntry *entry = &reader->tensors[index];
    TensorFile *file = &reader->job->tensors[index];
    file->dtype = tensor->dtype;
    file->rank = tensor->rank;
    if (entry->in_pods)
        return;
    char *path = entry->uri != NULL ? path_of(reader, entry->uri) : NULL;
    if (path == NULL) {
        entry->failed = true;
        return;
    }
    Error error;
    FileVerdict verdict = tensor_file_open(file, path, tensor->mode, &error);
    free(path);
    file->dtype = tensor->dtype;
    file->rank = tensor->rank;
    if (verdict != FILE_FINE) {
        (verdict == FILE_FAILED ? report_failure : report)(reader, entry->uri, "tensor \"%s\": %s", tensor->name, error.text);
        entry->failed = true;
    } else if (file->is_npy && file->old_fd >= 0) {
        NpyHeader header;
        if (!npy_read_header(file->old_fd, file->path, &header, &error)) {
            report(reader, entry->uri, "tensor \"%s\": %s", tensor->name, error.text);
            entry->failed = true;
        } else if (!check_header(reader, tensor, entry, &header, file)) {
            entry->failed = true;
        } else {
            memcpy(entry->shape, header.shape, sizeof entry->shape);
            entry->shape_known = entry->from_header = true;
            file->data_offset = header.data_offset;
        }
    }
}

void read_tensors(JobReader *reader) {
    const PhbKernel *kernel = reader->kernel;
    const JsonNode *tensors = section(reader, "tensors");
    const char *names[PHB_MAX_PARAMS];
    int count = kernel->tensor_count < PHB_MAX_PARAMS ? kernel->tensor_count : PHB_MAX_PARAMS;
    for (int i = 0; i < count; i++)
        names[i] = kernel->tensors[i].name;
    for (const JsonNode *member = tensors != NULL ? tensors->first : NULL; member != NULL; member = member->next) {
        int known = 0;
        while (known < count && strcmp(names[known], member->key) != 0)
            known++;
        if (known == count)
            report_unknown(reader, member, "tensor", names, count);
    }
    for (int i = 0; i < count; i++) {
        TensorEntry *entry = &reader->tensors[i];
        entry->node = tensors != NULL ? json_member(tensors, names[i]) : NULL;
        if (entry->node == NULL) {
            entry->failed = true;
            if (json_member(reader->root, "tensors") == tensors) /* else "tensors" itself is wrong, and reported */
                report(reader, tensors, "tensor \"%s\" is missing", names[i]);
            continue;
        }
        read_entry(reader, &kernel->tensors[i], entry);
        open_entry(reader, i);
    }
}

static bool same_file(const TensorFile *a, const TensorFile *b) {
    return strcmp(a->path, b->path) == 0 || (a->exists && b->exists && a->device == b->device && a->inode == b->inode);
}

static bool is_status(const TensorFile *file, const struct stat *status) {
    return file->exists && file->device == status->st_dev && file->inode == status->st_ino;
}

void check_aliases(JobReader *reader) {
    const PhbKernel *kernel = reader->kernel;
    struct stat executable;
    bool executable_known = stat("/proc/self/exe", &executable) == 0;
    for (int i = 0; i < kernel->tensor_count; i++) {
        const PhbTensor *tensor = &kernel->tensors[i];
        const TensorFile *file = &reader->job->tensors[i];
        const JsonNode *uri = reader->tensors[i].uri;
        if (file->path == NULL)
            continue;
        if (tensor->mode != PHB_READ && is_status(file, &reader->status))
            report(reader, uri, "tensor \"%s\" is written and would replace the job file", tensor->name);
        if (tensor->mode != PHB_READ && executable_known && is_status(file, &executable))
            report(reader, uri, "tensor \"%s\" is written and would replace this executable", tensor->name);
        for (int j = 0; j < i; j++) {
            const PhbTensor *other = &kernel->tensors[j];
            if (reader->job->tensors[j].path == NULL || (tensor->mode == PHB_READ && other->mode == PHB_READ) ||
                !same_file(file, &reader->job->tensors[j]))
                continue;
            const PhbTensor *written = tensor->mode != PHB_READ ? tensor : other;
            report(reader, uri, "tensors \"%s\" and \"%s\" are the same file \"%s\", and \"%s\" is written", other->name, tensor->name, file->path,
                written->name);
        }
    }
}
