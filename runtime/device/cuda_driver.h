/* The CUDA driver, found at run time by dlopen("libcuda.so.1"): no toolkit is needed to build or run. Our own declarations of what we call; values are those of
 * NVIDIA's public driver API. */
#ifndef PHOBOS_CUDA_DRIVER_H
#define PHOBOS_CUDA_DRIVER_H

#include "runtime/runtime.h"

typedef int CudaResult; /* 0: fine */
typedef int CudaDeviceId;
typedef unsigned long long CudaAddress;
typedef struct CudaContext CudaContext;
typedef struct CudaStream CudaStream;
typedef struct CudaEvent CudaEvent;
typedef struct CudaModule CudaModule;
typedef struct CudaFunction CudaFunction;

enum { CUDA_OUT_OF_MEMORY = 2, CUDA_NO_DEVICE = 100 };

enum { /* of a device */
    CUDA_DEVICE_MULTIPROCESSORS = 16,
    CUDA_DEVICE_MAJOR = 75,
    CUDA_DEVICE_MINOR = 76,
    CUDA_DEVICE_SHARED_A_BLOCK = 97, /* the most that a block may ask for */
    CUDA_DEVICE_CLUSTERS = 120,
};

enum { /* of a function */
    CUDA_FUNCTION_MOST_THREADS = 0,
    CUDA_FUNCTION_LOCAL_BYTES = 3,
    CUDA_FUNCTION_REGISTERS = 4,
    CUDA_FUNCTION_DYNAMIC_SHARED = 8,
    CUDA_FUNCTION_LARGE_CLUSTERS = 14,
};

enum { CUDA_STREAM_NON_BLOCKING = 1, CUDA_EVENT_BLOCKING = 1, CUDA_EVENT_NO_TIMING = 2 };
enum { CUDA_JIT_ERROR_LOG = 5, CUDA_JIT_ERROR_LOG_BYTES = 6 };
enum { CUDA_LAUNCH_CLUSTER = 4 };

enum { /* of a tensor map */
    CUDA_MAP_U8 = 0,
    CUDA_MAP_U16 = 1,
    CUDA_MAP_U32 = 2,
    CUDA_MAP_U64 = 4,
    CUDA_MAP_SWIZZLE_32 = 1,
    CUDA_MAP_SWIZZLE_64 = 2,
    CUDA_MAP_SWIZZLE_128 = 3,
    CUDA_MAP_PROMOTE_256 = 3,
};

typedef struct CudaLaunchAttribute {
    int id;
    char pad[4];
    union {
        char pad[64];
        unsigned cluster[3];
    } value;
} CudaLaunchAttribute;

typedef struct CudaLaunchConfig {
    unsigned grid[3], block[3], shared;
    CudaStream *stream;
    CudaLaunchAttribute *attributes;
    unsigned attribute_count;
} CudaLaunchConfig;

typedef struct CudaDriver {
#define SYMBOL(field, name, need, parameters) CudaResult(*field) parameters;
#include "runtime/device/cuda_driver.def"
#undef SYMBOL
    int version; /* 12040: CUDA 12.4 */
} CudaDriver;

/* Loads and initialises the driver on the first call; the same answer ever after. NULL with the reason where there is none that works. */
const CudaDriver *cuda_driver(Error *error);
/* Writes "WHAT: NAME (text), driver CUDA 12.4: way out"; always false. */
bool cuda_fail(const CudaDriver *driver, Error *error, CudaResult result, const char *what);
bool cuda_error_lasts(CudaResult result); /* the context is lost with it */

#endif
