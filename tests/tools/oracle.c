#include "tests/tools/oracle.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_TENSORS = 16, MAX_RANK = 4 };

typedef enum Role { ROLE_INPUT, ROLE_OUTPUT, ROLE_INOUT } Role;

typedef struct Tensor {
    char *path;
    Role role;
    OracleType type;
    int rank;
    int64_t shape[MAX_RANK];
    size_t count;
    void *data;
} Tensor;

struct Oracle {
    const char *job_path;
    json_t *job;
    Tensor tensors[MAX_TENSORS];
    int tensor_count;
    bool making; /* else checking */
};

static const struct {
    size_t size;
    const char *descr;
} types[] = {
    [ORACLE_F32] = {4, "<f4"},
    [ORACLE_F64] = {8, "<f8"},
    [ORACLE_I8] = {1, "|i1"},
    [ORACLE_U8] = {1, "|u1"},
    [ORACLE_I32] = {4, "<i4"},
    [ORACLE_U32] = {4, "<u4"},
    [ORACLE_I64] = {8, "<i8"},
    [ORACLE_U64] = {8, "<u8"},
};

static _Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
static _Noreturn void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("oracle: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static void *allocate(size_t size) {
    void *memory = calloc(size ? size : 1, 1);
    if (!memory)
        fail("out of memory");
    return memory;
}

/* ---- the job ---- */

int64_t oracle_dim(const Oracle *oracle, const char *name) {
    const json_t *value = json_object_get(json_object_get(oracle->job, "dims"), name);
    if (!json_is_integer(value))
        fail("%s: no dim '%s'", oracle->job_path, name);
    return json_integer_value(value);
}

double oracle_scalar(const Oracle *oracle, const char *name) {
    const json_t *value = json_object_get(json_object_get(oracle->job, "scalars"), name);
    if (!json_is_number(value))
        fail("%s: no scalar '%s'", oracle->job_path, name);
    return json_number_value(value);
}

static char *tensor_path(const Oracle *oracle, const char *name) {
    const json_t *value = json_object_get(json_object_get(oracle->job, "tensors"), name);
    const char *uri = json_is_object(value) ? json_string_value(json_object_get(value, "uri")) : json_string_value(value);
    if (!uri)
        fail("%s: no tensor '%s'", oracle->job_path, name);
    if (strncmp(uri, "file://", 7) == 0)
        uri += 7;
    const char *slash = uri[0] == '/' ? NULL : strrchr(oracle->job_path, '/');
    int folder = slash ? (int)(slash - oracle->job_path) + 1 : 0;
    size_t size = (size_t)folder + strlen(uri) + 1;
    char *path = allocate(size);
    snprintf(path, size, "%.*s%s", folder, oracle->job_path, uri);
    return path;
}

/* ---- files ---- */

/* A version 1 header, as NumPy writes it; "" for a raw file. Returns its length. */
static size_t file_header(const Tensor *tensor, char bytes[256]) {
    size_t length = strlen(tensor->path);
    if (length < 4 || strcmp(tensor->path + length - 4, ".npy") != 0)
        return 0;
    char shape[128];
    int used = 0;
    for (int i = 0; i < tensor->rank; i++)
        used += snprintf(shape + used, sizeof shape - (size_t)used, "%s%" PRId64, i ? ", " : "", tensor->shape[i]);
    char text[246];
    int count = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (%s%s), }", types[tensor->type].descr, shape,
        tensor->rank == 1 ? "," : "");
    int total = (10 + count + 1 + 63) / 64 * 64;
    memcpy(bytes, "\x93NUMPY\x01\x00", 8);
    bytes[8] = (char)((total - 10) & 0xff);
    bytes[9] = (char)((total - 10) >> 8);
    memset(bytes + 10, ' ', (size_t)total - 10);
    memcpy(bytes + 10, text, (size_t)count);
    bytes[total - 1] = '\n';
    return (size_t)total;
}

static void write_tensor(const Tensor *tensor) {
    char header[256];
    size_t header_size = file_header(tensor, header), size = types[tensor->type].size;
    FILE *file = fopen(tensor->path, "wb");
    if (!file || fwrite(header, 1, header_size, file) != header_size || fwrite(tensor->data, size, tensor->count, file) != tensor->count ||
        fclose(file) != 0)
        fail("cannot write %s", tensor->path);
}

static bool same_element(OracleType type, const char *a, const char *b) {
    if (type == ORACLE_F32) {
        float x, y;
        memcpy(&x, a, sizeof x);
        memcpy(&y, b, sizeof y);
        if (x != x || y != y)
            return x != x && y != y;
    } else if (type == ORACLE_F64) {
        double x, y;
        memcpy(&x, a, sizeof x);
        memcpy(&y, b, sizeof y);
        if (x != x || y != y)
            return x != x && y != y;
    }
    return memcmp(a, b, types[type].size) == 0;
}

static void print_element(OracleType type, const char *bytes) {
    uint64_t bits = 0;
    memcpy(&bits, bytes, types[type].size);
    float f32;
    double f64;
    memcpy(&f32, bytes, type == ORACLE_F32 ? sizeof f32 : 0);
    memcpy(&f64, bytes, type == ORACLE_F64 ? sizeof f64 : 0);
    if (type == ORACLE_F32)
        fprintf(stderr, "%a", (double)f32);
    else if (type == ORACLE_F64)
        fprintf(stderr, "%a", f64);
    else
        fprintf(stderr, "0x%" PRIx64, bits);
}

/* Compares the file with what the oracle has; the first difference is named by its index. */
static void check_tensor(const Tensor *tensor) {
    char header[256], found_header[256];
    size_t header_size = file_header(tensor, header), size = types[tensor->type].size;
    char *found = allocate(tensor->count * size);
    FILE *file = fopen(tensor->path, "rb");
    if (!file)
        fail("%s is missing", tensor->path);
    if (fread(found_header, 1, header_size, file) != header_size || memcmp(header, found_header, header_size) != 0)
        fail("%s: another header than expected", tensor->path);
    if (fread(found, size, tensor->count, file) != tensor->count || fgetc(file) != EOF)
        fail("%s: other than %zu bytes of data", tensor->path, tensor->count * size);
    fclose(file);
    size_t different = 0;
    for (size_t i = 0; i < tensor->count; i++) {
        const char *a = (const char *)tensor->data + i * size, *b = found + i * size;
        if (same_element(tensor->type, a, b) || different++ > 0)
            continue;
        fprintf(stderr, "%s: element %zu: expected ", tensor->path, i);
        print_element(tensor->type, a);
        fputs(", found ", stderr);
        print_element(tensor->type, b);
        fputc('\n', stderr);
    }
    free(found);
    if (different > 0)
        fail("%s: %zu of %zu elements differ", tensor->path, different, tensor->count);
}

/* ---- data ---- */

static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u; /* splitmix64 */
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* The same numbers for the same name on every call. */
static void fill_random(Tensor *tensor, const char *name) {
    uint64_t state = 0xcbf29ce484222325u; /* FNV-1a */
    for (const char *c = name; *c; c++)
        state = (state ^ (unsigned char)*c) * 0x100000001b3u;
    size_t size = types[tensor->type].size;
    for (size_t i = 0; i < tensor->count; i++) {
        uint64_t bits = next_random(&state);
        bool any_bits = bits % 16 == 0; /* infinities, NaN and subnormals at times; else a magnitude around 1 */
        char *to = (char *)tensor->data + i * size;
        if (tensor->type == ORACLE_F32 && !any_bits) {
            float value = (float)((int64_t)bits >> 32) * 0x1p-28f;
            memcpy(to, &value, sizeof value);
        } else if (tensor->type == ORACLE_F64 && !any_bits) {
            double value = (double)((int64_t)bits >> 8) * 0x1p-52;
            memcpy(to, &value, sizeof value);
        } else {
            bits = next_random(&state);
            if (bits % 8 == 0)
                bits = 0;
            else if (bits % 8 == 1 && tensor->type == ORACLE_F32)
                bits = 0x7f800000; /* infinity */
            memcpy(to, &bits, size);
        }
    }
}

static Tensor *add_tensor(Oracle *oracle, const char *name, Role role, OracleType type, int rank, const int64_t *shape) {
    if (oracle->tensor_count == MAX_TENSORS || rank < 1 || rank > MAX_RANK)
        fail("too many tensors or axes at '%s'", name);
    Tensor *tensor = &oracle->tensors[oracle->tensor_count++];
    tensor->path = tensor_path(oracle, name);
    tensor->role = role;
    tensor->type = type;
    tensor->rank = rank;
    tensor->count = 1;
    for (int i = 0; i < rank; i++) {
        tensor->shape[i] = shape[i];
        tensor->count *= (size_t)shape[i];
    }
    tensor->data = allocate(tensor->count * types[type].size);
    if (role != ROLE_OUTPUT)
        fill_random(tensor, name);
    if (oracle->making && role != ROLE_OUTPUT)
        write_tensor(tensor);
    if (oracle->making && role == ROLE_OUTPUT)
        unlink(tensor->path);
    return tensor;
}

void *oracle_input(Oracle *oracle, const char *name, OracleType type, int rank, const int64_t *shape) {
    return add_tensor(oracle, name, ROLE_INPUT, type, rank, shape)->data;
}

void *oracle_output(Oracle *oracle, const char *name, OracleType type, int rank, const int64_t *shape) {
    return add_tensor(oracle, name, ROLE_OUTPUT, type, rank, shape)->data;
}

void *oracle_inout(Oracle *oracle, const char *name, OracleType type, int rank, const int64_t *shape) {
    return add_tensor(oracle, name, ROLE_INOUT, type, rank, shape)->data;
}

int main(int argc, char **argv) {
    bool making = argc == 3 && strcmp(argv[1], "make") == 0;
    if (!making && !(argc == 3 && strcmp(argv[1], "check") == 0)) {
        fprintf(stderr, "usage: %s make|check JOB.json\n", argv[0]);
        return 2;
    }
    json_error_t error;
    Oracle oracle = {.job_path = argv[2], .making = making, .job = json_load_file(argv[2], 0, &error)};
    if (!oracle.job)
        fail("%s:%d: %s", argv[2], error.line, error.text);
    oracle_run(&oracle);

    size_t checked = 0;
    for (int i = 0; i < oracle.tensor_count; i++) {
        Tensor *tensor = &oracle.tensors[i];
        if (!making) {
            check_tensor(tensor); /* inputs too: nobody may have touched them */
            checked += tensor->role == ROLE_INPUT ? 0 : tensor->count;
        }
        free(tensor->path);
        free(tensor->data);
    }
    json_decref(oracle.job);
    if (!making)
        printf("%zu elements, all bits as expected\n", checked);
    return 0;
}
