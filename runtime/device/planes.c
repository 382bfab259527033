/* Planes of tiles, as PHB_PLANES in runtime/program.h says: where they lie, and the launch that computes them. */
#include "runtime/device/planes.h"

#include "runtime/sched/sched.h"

static int64_t count_rows(const PhbTensorArg *tile, int rank) {
    int64_t rows = 1;
    for (int axis = 0; axis + 1 < rank; axis++)
        rows *= tile->extent[axis];
    return rows;
}

PhbTensorArg planes_of(const PhbTensorArg *tile, int rank) {
    PhbTensorArg planes = {.base = (char *)tile->base + round_up(count_rows(tile, rank) * tile->pitch, PHB_BASE_ALIGN),
        .extent = {PHB_PLANES, 1, 1, 1},
        .pitch = round_up(tile->extent[rank - 1] * PHB_PLANES_BYTES, PHB_ROW_ALIGN)};
    for (int axis = 0; axis < rank; axis++)
        planes.extent[1 + axis] = tile->extent[axis];
    for (int axis = 0; axis < PHB_MAX_RANK; axis++)
        planes.whole[axis] = planes.extent[axis];
    return planes;
}

bool planes_pass(const PhbTensorArg *tile, int rank, PlanesPass *pass) {
    int64_t rows = count_rows(tile, rank), columns = tile->extent[rank - 1];
    *pass = (PlanesPass){.dims = {rows, columns}};
    pass->tensors[0] = (PhbTensorArg){.base = tile->base, .extent = {rows, columns, 1, 1}, .pitch = tile->pitch, .whole = {rows, columns, 1, 1}};
    pass->tensors[1] = planes_of(&pass->tensors[0], 2);
    pass->launch = (PhbLaunch){.tensors = pass->tensors,
        .dims = pass->dims,
        .grid = {ceil_div(columns, PHB_PLANES_COLUMNS), ceil_div(rows, PHB_PLANES_ROWS), 1},
        .supers = {1, 1, 1}};
    return rows > 0 && columns > 0;
}

bool planes_bytes(int rank, const int64_t extent[PHB_MAX_RANK], int64_t *bytes) {
    int64_t extents[PHB_MAX_RANK] = {PHB_PLANES};
    for (int axis = 0; axis < rank; axis++)
        extents[1 + axis] = extent[axis];
    return tile_bytes(rank + 1, PHB_PLANES_BYTES, extents, bytes);
}

bool planes_first(const PhbTensorMap *maps, int number) {
    bool first = maps[number].planes > 0;
    for (int i = 0; first && i < number; i++)
        first = maps[i].planes == 0 || maps[i].tensor != maps[number].tensor;
    return first;
}
