/* What runs leaves. A device owns the memory that tiles live in and carries out launches asynchronously; one vtable for all of them. */
#ifndef PHOBOS_DEVICE_H
#define PHOBOS_DEVICE_H

#include "runtime/runtime.h"

typedef struct Device Device;

/* Says that launch number `instruction` has ended; called on a thread of the device. `error` is NULL where all is well. */
typedef void DeviceDone(void *context, uint32_t instruction, const Error *error);

typedef struct DeviceOptions {
    const PhbKernel *kernel; /* that the variant belongs to */
    int number;              /* GPUs: which of them */
    int threads;           /* CPU: at least 1 */
    const char *cpu_level; /* CPU: take the code for this level; NULL: the best that the processor runs */
    SimtOptions simt;      /* the simulator */
    int launches;          /* the most that are ever in flight */
    DeviceDone *done;
    void *context;
} DeviceOptions;

/* One thread's way between a host buffer and a device's own memory. */
typedef struct DeviceLane DeviceLane;

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

    /* NULL, all of them, where the device's memory is the host's. Copies have ended when they return. *buffer: `bytes` of host memory that is fast to copy. */
    DeviceLane *(*lane_open)(Device *device, size_t bytes, void **buffer, Error *error);
    bool (*lane_in)(DeviceLane *lane, void *to, size_t bytes, Error *error);         /* from the buffer's start */
    bool (*lane_out)(DeviceLane *lane, const void *from, size_t bytes, Error *error); /* to the buffer's start */
    void (*lane_close)(DeviceLane *lane);
} DeviceType;

struct Device {
    const DeviceType *type;
};

/* ---- cpu.c: CTAs dealt to a pool of threads ---- */

extern const DeviceType cpu_device;

/* Whether this processor runs code of a level ("x86-64-v3"). "native" counts as run: such code is only for the machine that compiled it. */
bool cpu_level_runs(const char *level);

/* ---- cuda*.c: NVIDIA GPUs through the driver ---- */

extern const DeviceType cuda_device;

typedef struct CudaCard {
    int arch;      /* 90: compute capability 9.0 */
    char name[64]; /* "cuda:0 NVIDIA H200" */
} CudaCard;

/* Does some variant run on that card, and does it have clusters where the kernel needs them? Clears runs[v] (as kernel->variants; or NULL) of those that
 * do not. */
bool cuda_runs(int number, const PhbKernel *kernel, bool *runs, CudaCard *card, Error *error);
int cuda_count(Error *error); /* of cards; -1 with the reason where there is no driver that works */
/* Bytes of the card that are free now; 0 with the reason where it cannot be asked. */
int64_t cuda_free_memory(int number, Error *error);
/* The image of the variant that the card runs best, or NULL. */
const PhbGpuCode *cuda_choose_code(const PhbVariant *variant, int major, int minor);

/* ---- simt.c: the simulator: the threads of CTAs one at a time, every access checked ---- */

extern const DeviceType simt_device;

/* ---- select.c ---- */

enum { DEVICE_MOST = 64 };

typedef struct DeviceChoice {
    const DeviceType *type;
    int number;
    CudaCard card; /* of a GPU */
} DeviceChoice;

/* Devices of one class: a job's results have the same bits on all of them. */
typedef struct DeviceSet {
    DeviceClass class;
    int arch;  /* of GPUs */
    int count; /* at least 1 */
    DeviceChoice items[DEVICE_MOST];
    bool missed;  /* the CPU was taken though there is code for GPUs, and */
    Error reason; /* why it was; empty where it was asked for */
} DeviceSet;

/* `wanted` is the value of --device; NULL: auto. `mixed`: GPUs of several architectures. False with the reason where what was asked for cannot run the
 * kernel. */
bool device_select(const char *wanted, const PhbKernel *kernel, bool mixed, DeviceSet *set, Error *error);
/* Leaves that a card of the set cannot run are not to be taken by the job. */
void device_bar(const DeviceSet *set, Job *job);
/* "cpu", "cuda:0 NVIDIA H200" */
const char *device_name(const DeviceChoice *choice);
/* Bytes of tiles that each of `pods` pods may hold by default; 0 with the reason where a card does not say. */
int64_t device_memory(const DeviceSet *set, const DeviceChoice *choice, int pods, Error *error);

#endif
