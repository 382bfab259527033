/* A CUDA driver for machines without a card: enough of it for the CUDA device to be tested. Device addresses are host addresses moved where nothing
 * lies, so that a host access to one crashes; an image is a list of nothing, and its function NAME is the program's own `fake_kernel_NAME`, run when
 * it is launched.
 *
 * From the environment: FAKE_CUDA_FAIL="cuMemAlloc_v2=2@3" lets that function fail with 2 from its third call on (@1 may be left out),
 * FAKE_CUDA_CARDS, FAKE_CUDA_CAPABILITY=90, FAKE_CUDA_CLUSTERS, FAKE_CUDA_VERSION=12040, FAKE_CUDA_MEMORY, FAKE_CUDA_SHARED, FAKE_CUDA_OCCUPANCY say
 * what there is. With FAKE_CUDA_IDLE=1 functions that the program does not have do nothing. Compiled with -DWITHOUT_x for a driver that lacks x. */
#include "runtime/device/cuda_driver.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FAR ((uintptr_t)1 << 62)
#define SHARED_A_BLOCK setting("FAKE_CUDA_SHARED", 232448)

typedef void FakeKernel(const void *parameter, unsigned ctas, unsigned threads, unsigned shared, const unsigned cluster[3]);

struct CudaFunction {
    FakeKernel *run;
    int shared;
};
struct CudaContext {
    int references;
};
struct CudaStream {
    int made;
};
struct CudaEvent {
    CudaResult result; /* of what it was recorded behind */
};
struct CudaModule {
    CudaFunction function;
};

static CudaContext contexts[64];
static CudaResult behind; /* what the last launch came to */
static size_t taken;

static long setting(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text != NULL ? strtol(text, NULL, 10) : otherwise;
}

/* The code that the environment makes `name` fail with now, or 0. */
static CudaResult fault(const char *name, atomic_int *calls) {
    const char *text = getenv("FAKE_CUDA_FAIL");
    size_t length = strlen(name);
    int call = atomic_fetch_add(calls, 1) + 1;
    if (text == NULL || strncmp(text, name, length) != 0 || text[length] != '=')
        return 0;
    char *end;
    long code = strtol(text + length + 1, &end, 10), from = *end == '@' ? strtol(end + 1, NULL, 10) : 1;
    return call >= from ? (CudaResult)code : 0;
}

/* Each function begins with it. */
#define BEGIN(name)                                                                                                                                  \
    static atomic_int calls;                                                                                                                         \
    CudaResult planted = fault(name, &calls);                                                                                                        \
    if (planted != 0)                                                                                                                                \
    return planted

#define EXPORT __attribute__((visibility("default")))
#define SYMBOL(field, name, need, parameters) EXPORT CudaResult name parameters;
#include "runtime/device/cuda_driver.def"
#undef SYMBOL

EXPORT CudaResult cuInit(unsigned flags) {
    BEGIN("cuInit");
    return flags == 0 ? 0 : 1;
}

EXPORT CudaResult cuDriverGetVersion(int *version) {
    BEGIN("cuDriverGetVersion");
    *version = (int)setting("FAKE_CUDA_VERSION", 12040);
    return 0;
}

EXPORT CudaResult cuGetErrorName(CudaResult result, const char **name) {
    static char text[32];
    snprintf(text, sizeof text, "CUDA_FAKE_%d", result);
    *name = text;
    return 0;
}

EXPORT CudaResult cuGetErrorString(CudaResult result, const char **text) {
    *text = result == CUDA_OUT_OF_MEMORY ? "out of memory" : "planted";
    return 0;
}

EXPORT CudaResult cuDeviceGetCount(int *count) {
    BEGIN("cuDeviceGetCount");
    *count = (int)setting("FAKE_CUDA_CARDS", 1);
    return 0;
}

EXPORT CudaResult cuDeviceGet(CudaDeviceId *device, int ordinal) {
    BEGIN("cuDeviceGet");
    *device = ordinal;
    return ordinal < setting("FAKE_CUDA_CARDS", 1) ? 0 : 101;
}

EXPORT CudaResult cuDeviceGetName(char *name, int length, CudaDeviceId device) {
    (void)device;
    snprintf(name, (size_t)length, "Fake Card");
    return 0;
}

EXPORT CudaResult cuDeviceGetAttribute(int *value, int attribute, CudaDeviceId device) {
    BEGIN("cuDeviceGetAttribute");
    (void)device;
    long capability = setting("FAKE_CUDA_CAPABILITY", 90);
    switch (attribute) {
    case CUDA_DEVICE_MAJOR:
        *value = (int)capability / 10;
        return 0;
    case CUDA_DEVICE_MINOR:
        *value = (int)capability % 10;
        return 0;
    case CUDA_DEVICE_MULTIPROCESSORS:
        *value = 132;
        return 0;
    case CUDA_DEVICE_SHARED_A_BLOCK:
        *value = (int)SHARED_A_BLOCK;
        return 0;
    case CUDA_DEVICE_CLUSTERS:
        *value = (int)setting("FAKE_CUDA_CLUSTERS", 1);
        return 0;
    default:
        return 1;
    }
}

EXPORT CudaResult cuDevicePrimaryCtxRetain(CudaContext **context, CudaDeviceId device) {
    BEGIN("cuDevicePrimaryCtxRetain");
    *context = &contexts[device];
    contexts[device].references++;
    return 0;
}

EXPORT CudaResult cuDevicePrimaryCtxRelease_v2(CudaDeviceId device) {
    return contexts[device].references-- > 0 ? 0 : 201;
}

EXPORT CudaResult cuCtxSetCurrent(CudaContext *context) {
    BEGIN("cuCtxSetCurrent");
    return context != NULL && context->references > 0 ? 0 : 201;
}

EXPORT CudaResult cuMemGetInfo_v2(size_t *available, size_t *total) {
    BEGIN("cuMemGetInfo_v2");
    *total = (size_t)setting("FAKE_CUDA_MEMORY", 1L << 30);
    *available = *total - taken;
    return 0;
}

EXPORT CudaResult cuMemAlloc_v2(CudaAddress *address, size_t bytes) {
    BEGIN("cuMemAlloc_v2");
    if (taken + bytes > (size_t)setting("FAKE_CUDA_MEMORY", 1L << 30))
        return CUDA_OUT_OF_MEMORY;
    void *memory = aligned_alloc(PHB_BASE_ALIGN, (bytes + PHB_BASE_ALIGN - 1) / PHB_BASE_ALIGN * PHB_BASE_ALIGN);
    memset(memory, 0xFF, bytes); /* not zeros: tiles must be loaded before they are read */
    taken += bytes;
    *address = (uintptr_t)memory + FAR;
    return 0;
}

EXPORT CudaResult cuMemFree_v2(CudaAddress address) {
    free((void *)(uintptr_t)(address - FAR));
    return 0;
}

EXPORT CudaResult cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
    BEGIN("cuMemHostAlloc");
    (void)flags;
    *memory = malloc(bytes);
    return 0;
}

EXPORT CudaResult cuMemFreeHost(void *memory) {
    free(memory);
    return 0;
}

EXPORT CudaResult cuMemcpyHtoDAsync_v2(CudaAddress to, const void *from, size_t bytes, CudaStream *stream) {
    BEGIN("cuMemcpyHtoDAsync_v2");
    (void)stream;
    memcpy((void *)(uintptr_t)(to - FAR), from, bytes);
    return 0;
}

EXPORT CudaResult cuMemcpyDtoHAsync_v2(void *to, CudaAddress from, size_t bytes, CudaStream *stream) {
    BEGIN("cuMemcpyDtoHAsync_v2");
    (void)stream;
    memcpy(to, (const void *)(uintptr_t)(from - FAR), bytes);
    return 0;
}

#ifndef WITHOUT_cuStreamCreate
EXPORT CudaResult cuStreamCreate(CudaStream **stream, unsigned flags) {
    BEGIN("cuStreamCreate");
    (void)flags;
    *stream = calloc(1, sizeof **stream);
    return 0;
}
#endif

EXPORT CudaResult cuStreamDestroy_v2(CudaStream *stream) {
    free(stream);
    return 0;
}

EXPORT CudaResult cuEventCreate(CudaEvent **event, unsigned flags) {
    BEGIN("cuEventCreate");
    (void)flags;
    *event = calloc(1, sizeof **event);
    return 0;
}

EXPORT CudaResult cuEventDestroy_v2(CudaEvent *event) {
    free(event);
    return 0;
}

EXPORT CudaResult cuEventRecord(CudaEvent *event, CudaStream *stream) {
    BEGIN("cuEventRecord");
    (void)stream;
    event->result = behind;
    return 0;
}

EXPORT CudaResult cuEventSynchronize(CudaEvent *event) {
    BEGIN("cuEventSynchronize");
    return event->result;
}

EXPORT CudaResult cuModuleLoadDataEx(CudaModule **module, const void *image, unsigned count, const int *options, void **values) {
    static atomic_int calls;
    CudaResult planted = fault("cuModuleLoadDataEx", &calls);
    (void)image;
    for (unsigned i = 0; planted != 0 && i < count; i++)
        if (options[i] == CUDA_JIT_ERROR_LOG)
            strcpy(values[i], "ptxas: planted");
    *module = planted == 0 ? calloc(1, sizeof **module) : NULL;
    return planted;
}

EXPORT CudaResult cuModuleUnload(CudaModule *module) {
    free(module);
    return 0;
}

EXPORT CudaResult cuModuleGetFunction(CudaFunction **function, CudaModule *module, const char *name) {
    BEGIN("cuModuleGetFunction");
    char symbol[128];
    snprintf(symbol, sizeof symbol, "fake_kernel_%s", name);
    void *address = dlsym(RTLD_DEFAULT, symbol);
    if (address == NULL && !setting("FAKE_CUDA_IDLE", 0))
        return 500;
    memcpy(&module->function.run, &address, sizeof address);
    *function = &module->function;
    return 0;
}

EXPORT CudaResult cuFuncGetAttribute(int *value, int attribute, CudaFunction *function) {
    BEGIN("cuFuncGetAttribute");
    (void)function;
    *value = attribute == CUDA_FUNCTION_MOST_THREADS ? 1024 : 32;
    return 0;
}

EXPORT CudaResult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *count, CudaFunction *function, int threads, size_t shared) {
    BEGIN("cuOccupancyMaxActiveBlocksPerMultiprocessor");
    *count = threads > 0 && shared <= (size_t)function->shared ? (int)setting("FAKE_CUDA_OCCUPANCY", 1) : 0;
    return 0;
}

EXPORT CudaResult cuFuncSetAttribute(CudaFunction *function, int attribute, int value) {
    BEGIN("cuFuncSetAttribute");
    if (attribute == CUDA_FUNCTION_DYNAMIC_SHARED)
        function->shared = value;
    return value <= SHARED_A_BLOCK ? 0 : 1;
}

static CudaResult launch(CudaFunction *function, unsigned ctas, unsigned threads, unsigned shared, void **parameters, const unsigned cluster[3]) {
    if (ctas == 0 || threads == 0 || threads > 1024 || shared > (unsigned)function->shared)
        return 1;
    behind = (CudaResult)setting("FAKE_CUDA_LAUNCH_RESULT", 0); /* seen behind it, as a fault on the card is */
    if (behind == 0 && function->run != NULL)
        function->run(parameters[0], ctas, threads, shared, cluster);
    return 0;
}

EXPORT CudaResult cuLaunchKernel(CudaFunction *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
    unsigned block_z, unsigned shared, CudaStream *stream, void **parameters, void **extra) {
    BEGIN("cuLaunchKernel");
    (void)stream;
    const unsigned cluster[3] = {1, 1, 1};
    return extra != NULL || grid_y * grid_z * block_y * block_z != 1 ? 1 : launch(function, grid_x, block_x, shared, parameters, cluster);
}

/* A map here is what was said of it, as numbers. */
#ifndef WITHOUT_cuTensorMapEncodeTiled
EXPORT CudaResult cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *base, const uint64_t *extents, const uint64_t *strides, const unsigned *box,
    const unsigned *steps, int interleave, int swizzle, int promotion, int fill) {
    BEGIN("cuTensorMapEncodeTiled");
    if ((uintptr_t)map % 64 != 0 || (uintptr_t)base % 16 != 0 || rank < 1 || rank > 4 || interleave != 0 || fill != 0 || promotion != CUDA_MAP_PROMOTE_256)
        return 1;
    for (unsigned k = 0; k < rank; k++)
        if (extents[k] == 0 || box[k] == 0 || box[k] > 256 || steps[k] != 1 || (k + 1 < rank && strides[k] % 16 != 0))
            return 1;
    const uint64_t said[16] = {(uint64_t)type, rank, (uint64_t)(uintptr_t)base, (uint64_t)swizzle, extents[0], extents[1], rank > 2 ? extents[2] : 0, strides[0],
        rank > 2 ? strides[1] : 0, box[0], rank > 1 ? box[1] : 0, rank > 2 ? box[2] : 0};
    memcpy(map, said, sizeof said);
    return 0;
}
#endif

#ifndef WITHOUT_cuLaunchKernelEx
EXPORT CudaResult cuLaunchKernelEx(const CudaLaunchConfig *config, CudaFunction *function, void **parameters, void **extra) {
    BEGIN("cuLaunchKernelEx");
    if (extra != NULL || config->attribute_count != 1 || config->attributes->id != CUDA_LAUNCH_CLUSTER ||
        config->grid[0] % config->attributes->value.cluster[0] != 0)
        return 1;
    return launch(function, config->grid[0], config->block[0], config->shared, parameters, config->attributes->value.cluster);
}
#endif
