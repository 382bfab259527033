/* Tensor maps of a launch: what a card's bulk copies know of a tensor and the boxes that they take of it. */
#include "runtime/device/cuda.h"
#include "runtime/device/planes.h"

#include <inttypes.h>
#include <string.h>

size_t cuda_map_offset(size_t parameter_bytes) {
    return (parameter_bytes + PHB_MAP_ALIGN - 1) / PHB_MAP_ALIGN * PHB_MAP_ALIGN;
}

static int rank_of(const PhbTensorMap *map, int rank) {
    return map->planes > 0 ? rank + 1 : rank;
}

static int element_type(size_t size) {
    return size == 1 ? CUDA_MAP_U8 : size == 2 ? CUDA_MAP_U16 : size == 4 ? CUDA_MAP_U32 : CUDA_MAP_U64;
}

/* Axes count from the last one, as the driver has them. Nothing copies from a tensor without elements, and a map of none cannot be made: it says 1.
 */
static CudaResult encode(const CudaDevice *cuda, const PhbTensorMap *map, int rank, size_t size, const PhbTensorArg *tensor, void *to) {
    uint64_t extents[PHB_MAX_RANK], strides[PHB_MAX_RANK];
    unsigned box[PHB_MAX_RANK], steps[PHB_MAX_RANK];
    for (int k = 0; k < rank; k++) {
        int axis = rank - 1 - k;
        extents[k] = tensor->extent[axis] > 0 ? (uint64_t)tensor->extent[axis] : 1;
        strides[k] = k == 0 ? (uint64_t)tensor->pitch : strides[k - 1] * extents[k]; /* from axis k to the next one */
        box[k] = (unsigned)(k == 0 ? map->columns : axis == map->row_axis ? map->rows : 1);
        steps[k] = 1;
    }
    int swizzle = map->swizzle == 128 ? CUDA_MAP_SWIZZLE_128 : map->swizzle == 64 ? CUDA_MAP_SWIZZLE_64 : CUDA_MAP_SWIZZLE_32;
    return cuda->driver->encode_map(
        to, element_type(size), (unsigned)rank, tensor->base, extents, strides, box, steps, 0, swizzle, CUDA_MAP_PROMOTE_256, 0);
}

/* What a launch's tensor is: one of the kernel's, or a state. */
typedef struct Operand {
    const char *name;
    int rank, dtype;
} Operand;

static Operand operand_of(const PhbKernel *kernel, int index) {
    enum { STATE_RANK = 3 };
    if (index < kernel->tensor_count)
        return (Operand){kernel->tensors[index].name, kernel->tensors[index].rank, kernel->tensors[index].dtype};
    const PhbState *state = &kernel->states[index - kernel->tensor_count];
    return (Operand){state->name, STATE_RANK, state->dtype};
}

int cuda_operand_rank(const PhbKernel *kernel, int index) {
    return operand_of(kernel, index).rank;
}

bool cuda_encode_maps(const CudaDevice *cuda, const CudaStage *stage, const PhbLaunch *launch, char *to, Error *error) {
    for (int i = 0; i < stage->map_count; i++) {
        const PhbTensorMap *map = &stage->maps[i];
        const PhbTensorArg *tensor = &launch->tensors[map->tensor];
        Operand operand = operand_of(cuda->kernel, map->tensor);
        const PhbTensorArg planes = map->planes > 0 ? planes_of(tensor, operand.rank) : *tensor;
        size_t size = map->planes > 0 ? PHB_PLANES_BYTES : (size_t)dtype_size(operand.dtype);
        _Alignas(PHB_MAP_ALIGN) char encoded[PHB_MAP_BYTES];
        for (int k = 0; k < operand.rank; k++)
            if (tensor->extent[k] > INT32_MAX)
                return error_set(error,
                    "a super-tile of '%s' has %" PRId64 " elements along axis %d, and a card copies from at most %d: make it smaller", operand.name,
                    tensor->extent[k], k, INT32_MAX);
        CudaResult result = encode(cuda, map, rank_of(map, operand.rank), size, &planes, encoded);
        char what[192];
        snprintf(what, sizeof what, "cannot make a tensor map of '%.64s' for kernel '%.64s'", operand.name, cuda->kernel->name);
        if (result != 0)
            return cuda_fail(cuda->driver, error, result, what);
        memcpy(to + (size_t)i * PHB_MAP_BYTES, encoded, sizeof encoded);
    }
    return true;
}
