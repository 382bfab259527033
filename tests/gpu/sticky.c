/* A libcuda.so.1 that stands before the real one: every function is found there, but launches, which pass $STICKY_AFTER times. Then each of them says
 * that the context is lost, as a kernel's illegal access would have it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { CUDA_ERROR_ILLEGAL_ADDRESS = 700 };

static atomic_int launches;

static int is_lost(void) {
    const char *after = getenv("STICKY_AFTER");
    return after != NULL && atomic_fetch_add(&launches, 1) >= atoi(after);
}

/* The real one by its name; a function's address travels as bytes. */
static void find(const char *name, void *function) {
    void *address = dlsym(RTLD_NEXT, name);
    memcpy(function, &address, sizeof address);
}

int cuLaunchKernelEx(const void *config, void *function, void **parameters, void **extra);
int cuLaunchKernelEx(const void *config, void *function, void **parameters, void **extra) {
    int (*real)(const void *, void *, void **, void **);
    find("cuLaunchKernelEx", &real);
    return is_lost() ? CUDA_ERROR_ILLEGAL_ADDRESS : real(config, function, parameters, extra);
}

int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned threads_x, unsigned threads_y, unsigned threads_z, unsigned shared,
    void *stream, void **parameters, void **extra);
int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned threads_x, unsigned threads_y, unsigned threads_z, unsigned shared,
    void *stream, void **parameters, void **extra) {
    int (*real)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
    find("cuLaunchKernel", &real);
    return is_lost() ? CUDA_ERROR_ILLEGAL_ADDRESS :
                       real(function, x, y, z, threads_x, threads_y, threads_z, shared, stream, parameters, extra);
}
