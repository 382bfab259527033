#include "tests/tools/oracle.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
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
    ElementType type;
    int rank;
    int64_t shape[MAX_RANK];
    size_t count;
    void *data;            /* elements as in the file */
    double *value, *bound; /* of numbers: elements as the oracle works on them, and of outputs how far each may be off; else NULL */
} Tensor;

struct Oracle {
    const char *job_path;
    json_t *job;
    Tensor tensors[MAX_TENSORS];
    int tensor_count;
    bool making; /* else checking */
    bool tensor_cores;
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

int64_t oracle_repeat(const Oracle *oracle) {
    const json_t *value = json_object_get(oracle->job, "repeat");
    return value ? json_integer_value(value) : 1;
}

double oracle_scalar(const Oracle *oracle, const char *name) {
    const json_t *value = json_object_get(json_object_get(oracle->job, "scalars"), name);
    if (!json_is_number(value))
        fail("%s: no scalar '%s'", oracle->job_path, name);
    return json_number_value(value);
}

const char *oracle_kernel(const Oracle *oracle) {
    const char *name = json_string_value(json_object_get(oracle->job, "kernel"));
    return name ? name : "";
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
    int count = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (%s%s), }", element_types[tensor->type].npy, shape,
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
    size_t header_size = file_header(tensor, header), size = element_types[tensor->type].size;
    FILE *file = fopen(tensor->path, "wb");
    if (!file || fwrite(header, 1, header_size, file) != header_size || fwrite(tensor->data, size, tensor->count, file) != tensor->count ||
        fclose(file) != 0)
        fail("cannot write %s", tensor->path);
}

static bool same_bits(ElementType type, const char *a, const char *b) {
    if (element_types[type].significand && isnan(element_get(type, a)))
        return isnan(element_get(type, b));
    return memcmp(a, b, element_types[type].size) == 0;
}

static double rounded(ElementType type, double value) {
    char bytes[8];
    element_set(type, bytes, value);
    return element_get(type, bytes);
}

/* Rounding keeps order, so this is: `found` is what some number within the bound rounds to. */
static bool near_enough(ElementType type, double value, double bound, double found) {
    if (isnan(value) || isnan(found))
        return isnan(value) && isnan(found);
    return rounded(type, value - bound) <= found && found <= rounded(type, value + bound);
}

static bool element_agrees(const Tensor *tensor, size_t i, const char *found) {
    if (tensor->bound)
        return near_enough(tensor->type, tensor->value[i], tensor->bound[i], element_get(tensor->type, found));
    return same_bits(tensor->type, (const char *)tensor->data + i * element_types[tensor->type].size, found);
}

static void print_element(ElementType type, const char *bytes) {
    uint64_t bits = 0;
    memcpy(&bits, bytes, element_types[type].size);
    if (element_types[type].significand)
        fprintf(stderr, "%a", element_get(type, bytes));
    else
        fprintf(stderr, "0x%" PRIx64, bits);
}

static void print_difference(const Tensor *tensor, size_t i, const char *found) {
    fprintf(stderr, "%s: element %zu: expected ", tensor->path, i);
    if (tensor->bound) {
        fprintf(stderr, "%.17g within %.3g, found %.17g\n", tensor->value[i], tensor->bound[i], element_get(tensor->type, found));
        return;
    }
    print_element(tensor->type, (const char *)tensor->data + i * element_types[tensor->type].size);
    fputs(", found ", stderr);
    print_element(tensor->type, found);
    fputc('\n', stderr);
}

/* Compares the file with what the oracle has; the first difference is named by its index. */
static void check_tensor(const Tensor *tensor) {
    char header[256], found_header[256];
    size_t header_size = file_header(tensor, header), size = element_types[tensor->type].size;
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
    for (size_t i = 0; i < tensor->count; i++)
        if (!element_agrees(tensor, i, found + i * size) && different++ == 0)
            print_difference(tensor, i, found + i * size);
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
static uint64_t name_seed(const char *name) {
    uint64_t state = 0xcbf29ce484222325u; /* FNV-1a */
    for (const char *c = name; *c; c++)
        state = (state ^ (unsigned char)*c) * 0x100000001b3u;
    return state;
}

static void fill_random(Tensor *tensor, const char *name) {
    uint64_t state = name_seed(name);
    size_t size = element_types[tensor->type].size;
    for (size_t i = 0; i < tensor->count; i++) {
        uint64_t bits = next_random(&state);
        bool any_bits = bits % 16 == 0; /* infinities, NaN and subnormals at times; else a magnitude around 1 */
        char *to = (char *)tensor->data + i * size;
        if (tensor->type == ELEMENT_F32 && !any_bits) {
            float value = (float)((int64_t)bits >> 32) * 0x1p-28f;
            memcpy(to, &value, sizeof value);
        } else if (tensor->type == ELEMENT_F64 && !any_bits) {
            double value = (double)((int64_t)bits >> 8) * 0x1p-52;
            memcpy(to, &value, sizeof value);
        } else {
            bits = next_random(&state);
            if (bits % 8 == 0)
                bits = 0;
            else if (bits % 8 == 1 && tensor->type == ELEMENT_F32)
                bits = 0x7f800000; /* infinity */
            memcpy(to, &bits, size);
        }
    }
}

static Tensor *add_tensor(Oracle *oracle, const char *name, Role role, ElementType type, int rank, const int64_t *shape) {
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
    tensor->data = allocate(tensor->count * element_types[type].size);
    return tensor;
}

/* Before the oracle changes what is also an output. */
static void put_file(const Oracle *oracle, const Tensor *tensor) {
    if (oracle->making && tensor->role == ROLE_OUTPUT)
        unlink(tensor->path);
    else if (oracle->making)
        write_tensor(tensor);
}

static void *add_bits(Oracle *oracle, const char *name, Role role, ElementType type, int rank, const int64_t *shape) {
    Tensor *tensor = add_tensor(oracle, name, role, type, rank, shape);
    if (role != ROLE_OUTPUT)
        fill_random(tensor, name);
    put_file(oracle, tensor);
    return tensor->data;
}

void *oracle_input(Oracle *oracle, const char *name, ElementType type, int rank, const int64_t *shape) {
    return add_bits(oracle, name, ROLE_INPUT, type, rank, shape);
}

void *oracle_output(Oracle *oracle, const char *name, ElementType type, int rank, const int64_t *shape) {
    return add_bits(oracle, name, ROLE_OUTPUT, type, rank, shape);
}

void *oracle_inout(Oracle *oracle, const char *name, ElementType type, int rank, const int64_t *shape) {
    return add_bits(oracle, name, ROLE_INOUT, type, rank, shape);
}

/* Floats in [-1, 1), ints of the whole type but for the least, up to 2^30 for wider ones. */
static double random_number(ElementType type, uint64_t *state) {
    double unit = (double)((int64_t)next_random(state) >> 11) * 0x1p-52;
    size_t bits = 8 * element_types[type].size;
    bool is_unsigned = type == ELEMENT_U8 || type == ELEMENT_U16 || type == ELEMENT_U32 || type == ELEMENT_U64;
    if (element_types[type].significand)
        return unit;
    if (type == ELEMENT_BOOL)
        return unit < 0;
    double reach = ldexp(1, bits < 32 ? (int)bits - 1 : 30);
    return floor(unit * (reach - 1)) + (is_unsigned ? reach : 1);
}

static Tensor *add_numbers(
    Oracle *oracle, const char *name, Role role, ElementType type, int rank, const int64_t *shape, OracleFill *fill, const void *context) {
    Tensor *tensor = add_tensor(oracle, name, role, type, rank, shape);
    uint64_t state = name_seed(name);
    tensor->value = allocate(tensor->count * sizeof(double));
    tensor->bound = role == ROLE_INPUT ? NULL : allocate(tensor->count * sizeof(double));
    for (size_t i = 0; role != ROLE_OUTPUT && i < tensor->count; i++) {
        int64_t index[MAX_RANK];
        size_t rest = i;
        for (int k = rank; k-- > 0; rest /= (size_t)shape[k])
            index[k] = (int64_t)(rest % (size_t)shape[k]);
        char *bytes = (char *)tensor->data + i * element_types[type].size;
        element_set(type, bytes, fill ? fill(context, index) : random_number(type, &state));
        tensor->value[i] = element_get(type, bytes);
    }
    put_file(oracle, tensor);
    return tensor;
}

const double *oracle_numbers(
    Oracle *oracle, const char *name, ElementType type, int rank, const int64_t *shape, OracleFill *fill, const void *context) {
    return add_numbers(oracle, name, ROLE_INPUT, type, rank, shape, fill, context)->value;
}

OracleResult oracle_result(Oracle *oracle, const char *name, ElementType type, int rank, const int64_t *shape) {
    const Tensor *tensor = add_numbers(oracle, name, ROLE_OUTPUT, type, rank, shape, NULL, NULL);
    return (OracleResult){tensor->value, tensor->bound};
}

OracleResult oracle_update(
    Oracle *oracle, const char *name, ElementType type, int rank, const int64_t *shape, OracleFill *fill, const void *context) {
    const Tensor *tensor = add_numbers(oracle, name, ROLE_INOUT, type, rank, shape, fill, context);
    return (OracleResult){tensor->value, tensor->bound};
}

bool oracle_tensor_cores(const Oracle *oracle) {
    return oracle->tensor_cores;
}

void oracle_expect(const Oracle *oracle, const char *what, double expected, double found, double bound) {
    if (!(fabs(found - expected) <= bound))
        fail("%s: %s: the oracle has %.17g, known is %.17g", oracle->job_path, what, found, expected);
}

int main(int argc, char **argv) {
    bool making = argc == 3 && strcmp(argv[1], "make") == 0, tensor_cores = argc == 4 && strcmp(argv[3], "--tensor-cores") == 0;
    if (!making && !((argc == 3 || tensor_cores) && strcmp(argv[1], "check") == 0)) {
        fprintf(stderr, "usage: %s make|check JOB.json [--tensor-cores]\n", argv[0]);
        return 2;
    }
    json_error_t error;
    Oracle oracle = {.job_path = argv[2], .making = making, .tensor_cores = tensor_cores, .job = json_load_file(argv[2], 0, &error)};
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
        free(tensor->value);
        free(tensor->bound);
    }
    json_decref(oracle.job);
    if (!making)
        printf("%zu elements as expected\n", checked);
    return 0;
}
