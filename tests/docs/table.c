/* The tables under the examples of docs/language.md.
 *
 *   table make TABLE FOLDER     writes FOLDER/job.json and the inputs
 *   table check TABLE FOLDER    compares the outputs
 *
 * A table has these lines; `/` between values is for the reader's eye:
 *   kernel NAME
 *   dim NAME = INT
 *   NAME = NUMBER                       a scalar
 *   NAME: TYPE[EXTENT, ..] = VALUES     an input
 *   NAME: TYPE[EXTENT, ..] -> VALUES    an output
 *   NAME -> VALUES                      what an input of the table is to hold afterwards
 * Floats may be off by 1e-6 of their value, ints not at all. */
#include "tests/tools/element.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ENTRIES = 32, MAX_VALUES = 4096, MAX_LINE = 1 << 16, MAX_NAME = 64, MAX_RANK = 4 };

typedef struct Tensor {
    char name[MAX_NAME];
    ElementType type;
    int rank;
    long shape[MAX_RANK];
    size_t count;
    double *input, *output; /* or NULL */
} Tensor;

typedef struct Named {
    char name[MAX_NAME], value[MAX_NAME];
} Named;

static Tensor tensors[MAX_ENTRIES];
static Named dims[MAX_ENTRIES], scalars[MAX_ENTRIES];
static int tensor_count, dim_count, scalar_count;
static char kernel[MAX_NAME];
static const char *table_path, *folder;
static int line_number;

static _Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
static _Noreturn void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s:%d: ", table_path, line_number);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

/* ---- reading ---- */

static double *read_values(const char *text, size_t count) {
    double *values = calloc(count, sizeof *values);
    size_t found = 0;
    while (values) {
        while (isspace((unsigned char)*text) || *text == '/')
            text++;
        if (!*text)
            break;
        char *end;
        double value = strtod(text, &end);
        if (end == text || found == count)
            fail("expected %zu values: '%s'", count, text);
        values[found++] = value;
        text = end;
    }
    if (found != count)
        fail("expected %zu values, found %zu", count, found);
    return values;
}

static Tensor *tensor_named(const char *name) {
    for (int i = 0; i < tensor_count; i++)
        if (strcmp(tensors[i].name, name) == 0)
            return &tensors[i];
    return NULL;
}

static Tensor *add_tensor(const char *name, const char *type, const char *extents) {
    if (tensor_count == MAX_ENTRIES)
        fail("too many tensors");
    Tensor *tensor = &tensors[tensor_count++];
    *tensor = (Tensor){.type = ELEMENT_TYPE_COUNT, .count = 1};
    memcpy(tensor->name, name, strlen(name) + 1);
    for (int i = 0; i < ELEMENT_TYPE_COUNT; i++)
        if (strcmp(element_types[i].name, type) == 0)
            tensor->type = (ElementType)i;
    if (tensor->type == ELEMENT_TYPE_COUNT)
        fail("no type '%s'", type);
    for (const char *at = extents; *at;) {
        char *end;
        long extent = strtol(at, &end, 10);
        if (end == at || extent < 1 || tensor->rank == MAX_RANK || (tensor->count *= (size_t)extent) > MAX_VALUES)
            fail("bad extents '%s'", extents);
        tensor->shape[tensor->rank++] = extent;
        at = end + strspn(end, ", ");
    }
    return tensor;
}

static void read_line(char *line) {
    char name[MAX_NAME], type[MAX_NAME], extents[MAX_NAME], arrow[3];
    int at = 0;
    Named *named;
    if (line[strspn(line, " \n")] == '\0')
        return;
    if (sscanf(line, "kernel %63s", kernel) == 1)
        return;
    if (sscanf(line, "dim %63s", name) == 1) {
        named = &dims[dim_count++];
        if (dim_count == MAX_ENTRIES || sscanf(line, "dim %63s = %63s", named->name, named->value) != 2)
            fail("expected 'dim NAME = INT'");
    } else if (sscanf(line, "%63[A-Za-z0-9_]: %63[a-z0-9][%63[0-9, ]] %2[-=>]%n", name, type, extents, arrow, &at) == 4 && at) {
        Tensor *tensor = add_tensor(name, type, extents);
        double *values = read_values(line + at, tensor->count);
        *(strcmp(arrow, "->") == 0 ? &tensor->output : &tensor->input) = values;
    } else if (sscanf(line, "%63[A-Za-z0-9_] ->%n", name, &at) == 1 && at) {
        Tensor *tensor = tensor_named(name);
        if (!tensor)
            fail("'%s' has no input in this table", name);
        tensor->output = read_values(line + at, tensor->count);
    } else {
        named = &scalars[scalar_count++];
        if (scalar_count == MAX_ENTRIES || sscanf(line, "%63[A-Za-z0-9_] = %63s", named->name, named->value) != 2)
            fail("not a line of a table: %s", line);
    }
}

static void read_table(void) {
    static char line[MAX_LINE];
    FILE *file = fopen(table_path, "r");
    if (!file)
        fail("cannot be read");
    while (fgets(line, sizeof line, file)) {
        line_number++;
        read_line(line);
    }
    fclose(file);
}

/* ---- files: raw, with the type and the shape in the job ---- */

static FILE *open_tensor(const Tensor *tensor, const char *mode) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.bin", folder, tensor->name);
    return fopen(path, mode);
}

static void write_input(const Tensor *tensor) {
    FILE *file = open_tensor(tensor, "wb");
    char bytes[8];
    for (size_t i = 0; file && i < tensor->count; i++) {
        element_set(tensor->type, bytes, tensor->input[i]);
        fwrite(bytes, element_types[tensor->type].size, 1, file);
    }
    if (!file || fclose(file) != 0)
        fail("cannot write '%s'", tensor->name);
}

static void write_members(FILE *file, const char *key, const Named *members, int count) {
    fprintf(file, ", \"%s\": {", key);
    for (int i = 0; i < count; i++)
        fprintf(file, "%s \"%s\": %s", i ? "," : "", members[i].name, members[i].value);
    fputs(" }", file);
}

static void write_job(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s/job.json", folder);
    FILE *file = fopen(path, "w");
    if (!file)
        fail("cannot write %s", path);
    fputs("{ \"tensors\": {", file);
    for (int i = 0; i < tensor_count; i++) {
        const Tensor *tensor = &tensors[i];
        fprintf(file, "%s\n  \"%s\": { \"uri\": \"%s.bin\", \"dtype\": \"%s\", \"shape\": [", i ? "," : "", tensor->name, tensor->name,
            element_types[tensor->type].name);
        for (int k = 0; k < tensor->rank; k++)
            fprintf(file, "%s%ld", k ? ", " : "", tensor->shape[k]);
        fputs("] }", file);
    }
    fputs(" }", file);
    if (kernel[0])
        fprintf(file, ", \"kernel\": \"%s\"", kernel);
    if (dim_count > 0)
        write_members(file, "dims", dims, dim_count);
    if (scalar_count > 0)
        write_members(file, "scalars", scalars, scalar_count);
    fputs(" }\n", file);
    if (fclose(file) != 0)
        fail("cannot write %s", path);
}

static bool same_value(ElementType type, double expected, double found) {
    if (isnan(expected) || isnan(found))
        return isnan(expected) && isnan(found);
    if (expected == found)
        return true;
    return element_types[type].significand && fabs(expected - found) <= 1e-6 * fabs(expected);
}

static void check_output(const Tensor *tensor) {
    FILE *file = open_tensor(tensor, "rb");
    char bytes[8];
    bool same = file != NULL;
    for (size_t i = 0; file && i < tensor->count; i++) {
        if (fread(bytes, element_types[tensor->type].size, 1, file) != 1)
            fail("'%s' is too short", tensor->name);
        double found = element_get(tensor->type, bytes);
        if (same_value(tensor->type, tensor->output[i], found))
            continue;
        fprintf(stderr, "%s: %s, element %zu: expected %.9g, found %.9g\n", table_path, tensor->name, i, tensor->output[i], found);
        same = false;
    }
    if (!same)
        fail("'%s' is not as the table says", tensor->name);
    fclose(file);
}

int main(int argc, char **argv) {
    bool making = argc == 4 && strcmp(argv[1], "make") == 0;
    if (!making && !(argc == 4 && strcmp(argv[1], "check") == 0)) {
        fprintf(stderr, "usage: %s make|check TABLE FOLDER\n", argv[0]);
        return 2;
    }
    table_path = argv[2];
    folder = argv[3];
    read_table();
    if (making)
        write_job();
    for (int i = 0; i < tensor_count; i++) {
        if (making && tensors[i].input)
            write_input(&tensors[i]);
        if (!making && tensors[i].output)
            check_output(&tensors[i]);
        free(tensors[i].input);
        free(tensors[i].output);
    }
    return 0;
}
