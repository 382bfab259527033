/* What the files of the CUDA device share. */
#ifndef PHOBOS_CUDA_H
#define PHOBOS_CUDA_H

#include "runtime/device/cuda_driver.h"
#include "runtime/device/device.h"

#include <pthread.h>

#define LARGEST_PARAMETER 4096 /* bytes that a launch takes */

typedef struct CudaStage {
    CudaFunction *function;
    unsigned threads, shared; /* of a CTA; bytes */
    const PhbTensorMap *maps;
    int map_count;
    unsigned most; /* CTAs that the card holds at once, where they stay; 0: they do not */
    bool has_planes; /* some of the maps are of planes */
} CudaStage;

typedef struct CudaLaunch CudaLaunch;
struct CudaLaunch {
    uint32_t instruction;
    CudaEvent *event;  /* recorded behind the launch */
    bool refused;      /* it never started: `error` says why */
    Error error;
    CudaLaunch *after; /* in the queue, or among the unused */
};

typedef struct CudaDevice {
    Device base;
    const CudaDriver *driver;
    const PhbKernel *kernel;
    int number; /* as --device=cuda:K counts */
    CudaDeviceId id;
    CudaContext *context; /* the card's primary one, shared by all pods of this process */
    CudaModule *module;
    CudaStage *stages; /* as PhbKernel.stages, then, where one has planes, the pass that computes them */
    CudaStream *compute;
    CudaAddress memory;
    char card[96], description[192];
    int major, minor;
    size_t parameter_bytes;

    DeviceDone *done;
    void *done_context;
    pthread_t waiter; /* tells of launches that have ended, in their order */
    bool waiting;     /* the thread runs */

    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t work;
    CudaLaunch *launches, *unused, *first, *last;
    int launch_count;
    bool closing, cancelled, lost;
    Error why_lost;
} CudaDevice;

/* As cuda_fail; where the context is lost with it, every later launch fails for this reason. */
bool cuda_refuse(CudaDevice *cuda, Error *error, CudaResult result, const char *what);

/* ---- cuda_module.c ---- */

/* As cuda_runs. */
bool cuda_check(const CudaDevice *cuda, bool *runs, Error *error);
/* Loads the variant's best image into the current context and readies each stage. */
bool cuda_load(CudaDevice *cuda, const PhbVariant *variant, Error *error);

/* ---- cuda_map.c ---- */

size_t cuda_map_offset(size_t parameter_bytes); /* where the first map lies in the parameter */
int cuda_operand_rank(const PhbKernel *kernel, int index); /* of a launch's tensor */
bool cuda_encode_maps(const CudaDevice *cuda, const CudaStage *stage, const PhbLaunch *launch, char *to, Error *error);

/* ---- cuda_lane.c ---- */

DeviceLane *cuda_lane_open(Device *device, size_t bytes, void **buffer, Error *error);
bool cuda_lane_in(DeviceLane *lane, void *to, size_t bytes, Error *error);
bool cuda_lane_out(DeviceLane *lane, const void *from, size_t bytes, Error *error);
void cuda_lane_close(DeviceLane *lane);

#endif
