/* Which leaf variants the executables hold: they say so themselves. */
#include "tests/differential/differential.h"

#include <jansson.h>
#include <string.h>

static json_t *kernel_named(json_t *info, const char *name) {
    json_t *kernel;
    size_t i;
    json_array_foreach(json_object_get(info, "kernels"), i, kernel) {
        const char *own = json_string_value(json_object_get(kernel, "name"));
        if (own && strcmp(own, name) == 0)
            return kernel;
    }
    return NULL;
}

/* In the simulator only leaves that have code for it. */
static json_t *leaves_to_run(const Tools *tools, json_t *leaves) {
    json_t *result = json_array(), *leaf;
    size_t i;
    json_array_foreach(leaves, i, leaf) {
        if (tools->builds != BUILDS_SIMT || json_is_true(json_object_get(leaf, "simulator")))
            json_array_append(result, leaf);
    }
    return result;
}

int leaf_values(const Tools *tools, const CheckedKernel *kernel, int number, DimValue *values) {
    char path[512];
    const Signature *signature = &kernel->signature;
    snprintf(path, sizeof path, "%s/info.json", tools->folder);
    json_t *info = json_load_file(path, 0, NULL), *leaves = leaves_to_run(tools, json_object_get(kernel_named(info, signature->name), "leaves"));
    int count = (int)json_array_size(leaves);
    json_t *leaf = json_object_get(json_array_get(leaves, (size_t)(count ? number % count : 0)), "autotune");
    for (int i = 0; i < signature->search.count && count; i++) {
        values[i] = (DimValue){signature->search.items[i].name, json_integer_value(json_object_get(leaf, signature->search.items[i].name))};
        if (values[i].value < 1)
            count = 0;
    }
    json_decref(leaves);
    json_decref(info);
    return count;
}
