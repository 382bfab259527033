#include "runtime/runtime.h"

#include <string.h>

static const struct {
    const char *name;
    int size;
} dtypes[PHB_DTYPE_COUNT] = {
#define X(id, text, bytes, npy) [PHB_##id] = {text, bytes},
    PHB_DTYPES(X)
#undef X
};

int dtype_size(int dtype) {
    return dtypes[dtype].size;
}

const char *dtype_name(int dtype) {
    return dtypes[dtype].name;
}

int dtype_find(const char *name) {
    for (int i = 0; i < PHB_DTYPE_COUNT; i++)
        if (strcmp(dtypes[i].name, name) == 0)
            return i;
    return -1;
}
