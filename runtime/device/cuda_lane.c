/* Copies between host and card, each thread's on a stream of its own through a pinned buffer, so that they run beside each other and beside launches. */
#include "runtime/device/cuda.h"

#include <stdio.h>
#include <stdlib.h>

struct DeviceLane {
    CudaDevice *cuda;
    CudaStream *stream;
    CudaEvent *event;
    void *buffer;
};

/* An error that lasts is mostly a kernel's, whichever call meets it first: the kernel is named. */
static bool refuse(const DeviceLane *lane, CudaResult result, const char *what, Error *error) {
    if (result == 0)
        return true;
    char beside[192];
    snprintf(beside, sizeof beside, "%s beside kernel %s", what, lane->cuda->kernel->name);
    return cuda_refuse(lane->cuda, error, result, cuda_error_lasts(result) ? beside : what);
}

DeviceLane *cuda_lane_open(Device *device, size_t bytes, void **buffer, Error *error) {
    DeviceLane *lane = new_zeroed(1, sizeof *lane);
    lane->cuda = (CudaDevice *)device;
    const CudaDriver *driver = lane->cuda->driver;
    CudaResult result = driver->context_use(lane->cuda->context);
    if (result == 0)
        result = driver->stream_create(&lane->stream, CUDA_STREAM_NON_BLOCKING);
    if (result == 0)
        result = driver->event_create(&lane->event, CUDA_EVENT_BLOCKING | CUDA_EVENT_NO_TIMING);
    if (result == 0)
        result = driver->host_alloc(&lane->buffer, bytes, 0);
    if (refuse(lane, result, "cannot ready copies to the card", error)) {
        *buffer = lane->buffer;
        return lane;
    }
    cuda_lane_close(lane);
    return NULL;
}

static bool wait(DeviceLane *lane, CudaResult result, const char *what, Error *error) {
    const CudaDriver *driver = lane->cuda->driver;
    if (result == 0)
        result = driver->event_record(lane->event, lane->stream);
    if (result == 0)
        result = driver->event_wait(lane->event);
    return refuse(lane, result, what, error);
}

bool cuda_lane_in(DeviceLane *lane, void *to, size_t bytes, Error *error) {
    const CudaDriver *driver = lane->cuda->driver;
    driver->context_use(lane->cuda->context);
    return wait(lane, driver->copy_in((CudaAddress)(uintptr_t)to, lane->buffer, bytes, lane->stream), "cannot copy a tile to the card", error);
}

bool cuda_lane_out(DeviceLane *lane, const void *from, size_t bytes, Error *error) {
    const CudaDriver *driver = lane->cuda->driver;
    driver->context_use(lane->cuda->context);
    return wait(lane, driver->copy_out(lane->buffer, (CudaAddress)(uintptr_t)from, bytes, lane->stream), "cannot copy a tile from the card", error);
}

void cuda_lane_close(DeviceLane *lane) {
    const CudaDriver *driver = lane->cuda->driver;
    driver->context_use(lane->cuda->context);
    if (lane->buffer != NULL)
        driver->host_free(lane->buffer);
    if (lane->event != NULL)
        driver->event_destroy(lane->event);
    if (lane->stream != NULL)
        driver->stream_destroy(lane->stream);
    free(lane);
}
