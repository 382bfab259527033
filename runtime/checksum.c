#include "runtime/checksum.h"
#include "runtime/splitmix.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { RUN_BYTES = 64 << 10 };

/* `position`: of the row's first byte among the tensor's. */
static uint64_t row_checksum(int tensor, uint64_t position, const char *row, int64_t bytes) {
    uint64_t sum = 0;
    for (int64_t before = 0; before < bytes; before += RUN_BYTES) {
        int64_t run = bytes - before < RUN_BYTES ? bytes - before : RUN_BYTES;
        uint64_t place = splitmix_hash(position + (uint64_t)before + ((uint64_t)tensor << 56));
        sum += splitmix_hash(XXH3_64bits(row + before, (size_t)run) ^ place);
    }
    return sum;
}

uint64_t region_checksum(int tensor, const TensorFile *file, const Region *region, const void *rows, int64_t pitch) {
    int last = file->rank - 1;
    int64_t element = dtype_size(file->dtype), count = 1, index[PHB_MAX_RANK] = {0};
    for (int axis = 0; axis < last; axis++)
        count *= region->extent[axis];
    uint64_t sum = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t position = 0;
        for (int axis = 0; axis <= last; axis++)
            position = position * file->shape[axis] + region->origin[axis] + index[axis];
        sum += row_checksum(tensor, (uint64_t)(position * element), (const char *)rows + i * pitch, region->extent[last] * element);
        for (int axis = last - 1; axis >= 0 && ++index[axis] == region->extent[axis]; axis--)
            index[axis] = 0;
    }
    return sum;
}
