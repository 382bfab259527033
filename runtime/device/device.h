/* What runs leaves. A device owns the memory that tiles live in and carries out launches asynchronously; one vtable for all of them. */
#ifndef PHOBOS_DEVICE_H
#define PHOBOS_DEVICE_H

#include "runtime/runtime.h"

typedef struct Device Device;

/* Says that launch number `instruction` has ended; called on a thread of the device. `error` is NULL where all is well. */
typedef void DeviceDone(void *context, uint32_t instruction, const Error *error);

typedef struct DeviceOptions {
    const PhbKernel *kernel; /* that the variant belongs to */
    int threads;           /* CPU: at least 1 */
    const char *cpu_level; /* CPU: take the code for this level; NULL: the best that the processor runs */
    int launches;          /* the most that are ever in flight */
    DeviceDone *done;
    void *context;
} DeviceOptions;

typedef struct DeviceType {
    const char *name;
    /* Readies the device for launches of one variant. NULL with the reason where it cannot run. */
    Device *(*open)(const PhbVariant *variant, const DeviceOptions *options, Error *error);
    /* One region for tiles, aligned to PHB_BASE_ALIGN; it goes with the device. At most one a device. */
    void *(*alloc)(Device *device, int64_t bytes, Error *error);
    /* Queues a launch of stage `stage` and returns. `launch` stays as it is until the launch has ended. */
    void (*launch)(Device *device, uint32_t instruction, int stage, const PhbLaunch *launch);
    /* Launches in flight may end with their work undone; every one still ends. */
    void (*cancel)(Device *device);
    /* Nothing may be in flight. */
    void (*close)(Device *device);
    const char *(*describe)(const Device *device); /* "cpu x86-64-v3, 2 threads" */
} DeviceType;

struct Device {
    const DeviceType *type;
};

/* ---- cpu.c: CTAs dealt to a pool of threads ---- */

extern const DeviceType cpu_device;

/* Whether this processor runs code of a level ("x86-64-v3"). "native" counts as run: such code is only for the machine that compiled it. */
bool cpu_level_runs(const char *level);

#endif
