/* The tiles that units store, read back from files. */
#include "runtime/checksum.h"
#include "runtime/sched/resume.h"

#include <stdlib.h>

#define PIECE_BYTES (INT64_C(4) << 20)

typedef struct Pass {
    const TensorFile *from, *to; /* `to`: NULL, nothing is written */
    int tensor;
    char *rows; /* PIECE_BYTES */
    uint64_t sum;
    Error *error;
} Pass;

/* A part of a tile; in halves along its first axis that is longer than 1, or its row cut where region_checksum allows it, until it fits. */
static BatchResult pass_region(Pass *pass, const Region *region) {
    int last = pass->from->rank - 1, axis = 0;
    int64_t element = dtype_size(pass->from->dtype), bytes = element;
    for (int k = 0; k <= last; k++)
        bytes *= region->extent[k];
    while (axis < last && region->extent[axis] == 1)
        axis++;
    if (bytes > PIECE_BYTES) {
        int64_t half = axis < last ? region->extent[axis] / 2 : PIECE_BYTES / element;
        Region part = *region;
        part.extent[axis] = half;
        BatchResult result = pass_region(pass, &part);
        if (result != BATCH_FINE)
            return result;
        part.origin[axis] += half;
        part.extent[axis] = region->extent[axis] - half;
        return pass_region(pass, &part);
    }
    int64_t pitch = region->extent[last] * element;
    if (!tensor_file_read(pass->from, region, pass->rows, pitch, pass->error))
        return BATCH_UNREADABLE;
    pass->sum += region_checksum(pass->tensor, pass->from, region, pass->rows, pitch);
    return pass->to == NULL || tensor_file_write(pass->to, region, pass->rows, pitch, pass->error) ? BATCH_FINE : BATCH_UNWRITABLE;
}

static BatchResult pass_unit(const Problem *problem, int64_t unit, const TensorFile *from, const TensorFile *to, Pass *pass) {
    for (int64_t number = 0; number < problem->steps; number++) {
        Step step = step_find(problem, unit, number);
        for (int t = 0; t < problem->kernel->tensor_count; t++) {
            Region region;
            if (!step_use(problem, &step, t).store)
                continue;
            tile_region(problem, &step, t, &region);
            pass->from = &from[t];
            pass->to = to != NULL ? &to[t] : NULL;
            pass->tensor = t;
            BatchResult result = pass_region(pass, &region);
            if (result != BATCH_FINE)
                return result;
        }
    }
    return BATCH_FINE;
}

BatchResult batch_checksum(const Problem *problem, UnitRange range, const TensorFile *from, const TensorFile *to, uint64_t *checksum, Error *error) {
    Pass pass = {.rows = new_zeroed(1, PIECE_BYTES), .error = error};
    BatchResult result = BATCH_FINE;
    for (int64_t i = 0; result == BATCH_FINE && i < range.count; i++)
        result = pass_unit(problem, range.first + i * range.step, from, to, &pass);
    *checksum = pass.sum;
    free(pass.rows);
    return result;
}
