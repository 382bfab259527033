/* Leaves on an NVIDIA GPU. Launches go into one stream in the order in which they come; a thread waits behind each and tells when it has ended. An
 * error that costs the context makes every later launch fail with the same words. */
#include "runtime/device/cuda.h"
#include "runtime/device/planes.h"
#include "runtime/thread.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MOST_CTAS INT64_C(2147483647)

/* ---- launches ---- */

static char *pack(char *to, const void *from, size_t count, size_t size) {
    memcpy(to, from, count * size);
    return to + count * size;
}

/* As PhbGpuCode says. */
static void pack_parameter(const CudaDevice *cuda, const PhbLaunch *launch, char *to) {
    const PhbKernel *kernel = cuda->kernel;
    to = pack(to, launch->tensors, (size_t)(kernel->tensor_count + kernel->state_count), sizeof *launch->tensors);
    if (kernel->scalar_count > 0)
        to = pack(to, launch->scalars, (size_t)kernel->scalar_count, sizeof *launch->scalars);
    if (kernel->dim_count > 0)
        to = pack(to, launch->dims, (size_t)kernel->dim_count, sizeof *launch->dims);
    to = pack(to, launch->grid, 3, sizeof launch->grid[0]);
    to = pack(to, launch->super, 3, sizeof launch->super[0]);
    pack(to, launch->supers, 3, sizeof launch->supers[0]);
}

static size_t parameter_bytes(const PhbKernel *kernel) {
    return (size_t)(kernel->tensor_count + kernel->state_count) * sizeof(PhbTensorArg) + (size_t)(kernel->scalar_count + kernel->dim_count + 9) * 8;
}

static bool count_ctas(const CudaDevice *cuda, const PhbLaunch *launch, int64_t *ctas, Error *error) {
    const PhbKernel *kernel = cuda->kernel;
    *ctas = 1;
    for (int a = 0; a < 3; a++) {
        if (launch->grid[a] % kernel->cluster_dims[a] != 0)
            return error_set(error, "kernel '%s' launches %" PRId64 " CTAs along ctx.block.%c, which its clusters of %d do not divide", kernel->name,
                launch->grid[a], "xyz"[a], kernel -> cluster_dims[a]);
        if (__builtin_mul_overflow(*ctas, launch->grid[a], ctas) || *ctas > MOST_CTAS)
            return error_set(error, "kernel '%s' launches more than %" PRId64 " CTAs at once, which no card takes: make the super-tiles smaller",
                kernel->name, MOST_CTAS);
    }
    return true;
}

static CudaResult start(const CudaDevice *cuda, const CudaStage *stage, unsigned ctas, void *parameter) {
    const int32_t *dims = cuda->kernel->cluster_dims;
    unsigned cluster = (unsigned)(dims[0] * dims[1] * dims[2]);
    if (stage->most > 0 && ctas > stage->most)
        ctas = stage->most;
    void *parameters[] = {parameter};
    if (cluster == 1)
        return cuda->driver->launch(stage->function, ctas, 1, 1, stage->threads, 1, 1, stage->shared, cuda->compute, parameters, NULL);
    CudaLaunchAttribute attribute = {.id = CUDA_LAUNCH_CLUSTER, .value.cluster = {cluster, 1, 1}};
    CudaLaunchConfig config = {{ctas, 1, 1}, {stage->threads, 1, 1}, stage->shared, cuda->compute, &attribute, 1};
    return cuda->driver->launch_clusters(&config, stage->function, parameters, NULL);
}

/* What a pass's code takes, as PhbGpuCode says. */
typedef struct PassParameter {
    PhbTensorArg tensors[2];
    int64_t dims[2], grid[3], super[3], supers[3];
} PassParameter;

/* Before the stage: planes of the tensors that it has maps of planes of. */
static CudaResult start_passes(const CudaDevice *cuda, const CudaStage *stage, const PhbLaunch *launch) {
    const CudaStage *code = &cuda->stages[cuda->kernel->stage_count + cuda->kernel->helper_count];
    CudaResult result = 0;
    for (int m = 0; result == 0 && m < stage->map_count; m++) {
        PlanesPass pass;
        int tensor = stage->maps[m].tensor;
        if (!planes_first(stage->maps, m) || !planes_pass(&launch->tensors[tensor], cuda_operand_rank(cuda->kernel, tensor), &pass))
            continue;
        PassParameter parameter = {.tensors = {pass.tensors[0], pass.tensors[1]}, .dims = {pass.dims[0], pass.dims[1]}, .supers = {1, 1, 1}};
        memcpy(parameter.grid, pass.launch.grid, sizeof parameter.grid);
        void *parameters[] = {&parameter};
        unsigned ctas = (unsigned)(parameter.grid[0] * parameter.grid[1]);
        result = cuda->driver->launch(code->function, ctas, 1, 1, code->threads, 1, 1, code->shared, cuda->compute, parameters, NULL);
    }
    return result;
}

bool cuda_refuse(CudaDevice *cuda, Error *error, CudaResult result, const char *what) {
    cuda_fail(cuda->driver, error, result, what);
    if (!cuda_error_lasts(result))
        return false;
    pthread_mutex_lock(&cuda->mutex);
    if (!cuda->lost)
        cuda->why_lost = *error;
    cuda->lost = true;
    pthread_mutex_unlock(&cuda->mutex);
    return false;
}

static bool try_launch(CudaDevice *cuda, const CudaLaunch *entry, int stage, const PhbLaunch *launch, Error *error) {
    int64_t ctas;
    if (!count_ctas(cuda, launch, &ctas, error))
        return false;
    char parameter[LARGEST_PARAMETER];
    pack_parameter(cuda, launch, parameter);
    if (!cuda_encode_maps(cuda, &cuda->stages[stage], launch, parameter + cuda_map_offset(cuda->parameter_bytes), error))
        return false;
    cuda->driver->context_use(cuda->context);
    CudaResult result = cuda->stages[stage].has_planes ? start_passes(cuda, &cuda->stages[stage], launch) : 0;
    if (result == 0)
        result = start(cuda, &cuda->stages[stage], (unsigned)ctas, parameter);
    if (result == 0)
        result = cuda->driver->event_record(entry->event, cuda->compute);
    return result == 0 || cuda_refuse(cuda, error, result, cuda->kernel->name);
}

static void cuda_launch(Device *device, uint32_t instruction, int stage, const PhbLaunch *launch) {
    CudaDevice *cuda = (CudaDevice *)device;
    pthread_mutex_lock(&cuda->mutex);
    CudaLaunch *entry = cuda->unused;
    cuda->unused = entry->after;
    entry->instruction = instruction;
    entry->after = NULL;
    entry->refused = cuda->lost;
    if (cuda->lost)
        entry->error = cuda->why_lost;
    bool skip = entry->refused || cuda->cancelled;
    pthread_mutex_unlock(&cuda->mutex);
    if (!skip)
        entry->refused = !try_launch(cuda, entry, stage, launch, &entry->error);
    pthread_mutex_lock(&cuda->mutex);
    if (cuda->first == NULL)
        cuda->first = entry;
    else
        cuda->last->after = entry;
    cuda->last = entry;
    pthread_mutex_unlock(&cuda->mutex);
    pthread_cond_signal(&cuda->work);
}

/* Waits until the launch has ended; false with the reason where it failed. A launch that was skipped has an event that is done. */
static bool await(CudaDevice *cuda, CudaLaunch *entry) {
    if (entry->refused)
        return false;
    CudaResult result = cuda->driver->event_wait(entry->event);
    if (result == 0)
        return true;
    return cuda_refuse(cuda, &entry->error, result, cuda->kernel->name);
}

static void *wait_for_launches(void *context) {
    CudaDevice *cuda = context;
    cuda->driver->context_use(cuda->context);
    pthread_mutex_lock(&cuda->mutex);
    for (;;) {
        while (cuda->first == NULL && !cuda->closing)
            pthread_cond_wait(&cuda->work, &cuda->mutex);
        CudaLaunch *entry = cuda->first;
        if (entry == NULL)
            break;
        cuda->first = entry->after;
        pthread_mutex_unlock(&cuda->mutex);
        bool fine = await(cuda, entry);
        Error error;
        if (!fine)
            error = entry->error;
        uint32_t instruction = entry->instruction;
        pthread_mutex_lock(&cuda->mutex);
        entry->after = cuda->unused;
        cuda->unused = entry;
        pthread_mutex_unlock(&cuda->mutex);
        cuda->done(cuda->done_context, instruction, fine ? NULL : &error);
        pthread_mutex_lock(&cuda->mutex);
    }
    pthread_mutex_unlock(&cuda->mutex);
    return NULL;
}

static void cuda_cancel(Device *device) {
    CudaDevice *cuda = (CudaDevice *)device;
    pthread_mutex_lock(&cuda->mutex);
    cuda->cancelled = true;
    pthread_mutex_unlock(&cuda->mutex);
}

/* ---- memory ---- */

static void *cuda_alloc(Device *device, int64_t bytes, Error *error) {
    CudaDevice *cuda = (CudaDevice *)device;
    const CudaDriver *driver = cuda->driver;
    driver->context_use(cuda->context);
    size_t wanted = bytes > 0 ? (size_t)bytes : 1, available = 0, total = 0;
    CudaResult result = driver->memory_alloc(&cuda->memory, wanted);
    if (result == 0)
        return (void *)(uintptr_t)cuda->memory;
    char what[256];
    driver->memory_info(&available, &total);
    snprintf(what, sizeof what, "cannot take %zu bytes for tiles on %s, which has %zu of %zu free", wanted, cuda->card, available, total);
    cuda_fail(driver, error, result, what);
    return NULL;
}

/* ---- opening and closing ---- */

/* The cards' primary contexts, by number. Making one takes a tenth of a second, so that the first use keeps it for the process; one that is lost is
 * made anew for who comes next. */
static CudaContext *contexts[DEVICE_MOST];
static pthread_mutex_t contexts_mutex = PTHREAD_MUTEX_INITIALIZER;

static bool use_context(CudaDevice *cuda, Error *error) {
    const CudaDriver *driver = cuda->driver;
    if (cuda->number >= DEVICE_MOST)
        return error_set(error, "%s: the cards from cuda:%d on are not used", cuda->card, DEVICE_MOST);
    pthread_mutex_lock(&contexts_mutex);
    CudaContext **context = &contexts[cuda->number];
    CudaResult result = *context == NULL ? driver->context_retain(context, cuda->id) : 0;
    cuda->context = *context;
    pthread_mutex_unlock(&contexts_mutex);
    if (result == 0)
        result = driver->context_use(cuda->context);
    return result == 0 || cuda_fail(driver, error, result, cuda->card);
}

static void drop_context(const CudaDevice *cuda) {
    pthread_mutex_lock(&contexts_mutex);
    if (contexts[cuda->number] == cuda->context) {
        contexts[cuda->number] = NULL;
        cuda->driver->context_release(cuda->id);
    }
    pthread_mutex_unlock(&contexts_mutex);
}

static void cuda_close(Device *device) {
    CudaDevice *cuda = (CudaDevice *)device;
    const CudaDriver *driver = cuda->driver;
    if (cuda->waiting) {
        pthread_mutex_lock(&cuda->mutex);
        cuda->closing = true;
        pthread_mutex_unlock(&cuda->mutex);
        pthread_cond_signal(&cuda->work);
        pthread_join(cuda->waiter, NULL);
    }
    if (cuda->context != NULL) {
        driver->context_use(cuda->context);
        for (int l = 0; l < cuda->launch_count; l++)
            if (cuda->launches[l].event != NULL)
                driver->event_destroy(cuda->launches[l].event);
        if (cuda->compute != NULL)
            driver->stream_destroy(cuda->compute);
        if (cuda->memory != 0)
            driver->memory_free(cuda->memory);
        if (cuda->module != NULL)
            driver->module_unload(cuda->module);
        if (cuda->lost)
            drop_context(cuda);
    }
    pthread_cond_destroy(&cuda->work);
    pthread_mutex_destroy(&cuda->mutex);
    free(cuda->launches);
    free(cuda->stages);
    free(cuda);
}

static bool find_card(CudaDevice *cuda, int number, Error *error) {
    const CudaDriver *driver = cuda->driver;
    char name[64] = "card";
    cuda->number = number;
    CudaResult result = driver->device_get(&cuda->id, number);
    if (result == 0)
        result = driver->device_attribute(&cuda->major, CUDA_DEVICE_MAJOR, cuda->id);
    if (result == 0)
        result = driver->device_attribute(&cuda->minor, CUDA_DEVICE_MINOR, cuda->id);
    if (result == 0)
        driver->device_name(name, sizeof name, cuda->id);
    snprintf(cuda->card, sizeof cuda->card, "cuda:%d %s", number, name);
    return result == 0 || cuda_fail(driver, error, result, cuda->card);
}

static bool make_queue(CudaDevice *cuda, int launches, Error *error) {
    CudaResult result = cuda->driver->stream_create(&cuda->compute, CUDA_STREAM_NON_BLOCKING);
    cuda->launches = new_zeroed((size_t)launches, sizeof *cuda->launches);
    cuda->launch_count = launches;
    for (int l = 0; result == 0 && l < launches; l++) {
        result = cuda->driver->event_create(&cuda->launches[l].event, CUDA_EVENT_BLOCKING | CUDA_EVENT_NO_TIMING);
        cuda->launches[l].after = cuda->unused;
        cuda->unused = &cuda->launches[l];
    }
    if (result != 0)
        return cuda_fail(cuda->driver, error, result, cuda->card);
    cuda->waiting = thread_start(&cuda->waiter, "phb-cuda", wait_for_launches, cuda, error);
    return cuda->waiting;
}

static Device *cuda_open(const PhbVariant *variant, const DeviceOptions *options, Error *error) {
    const CudaDriver *driver = cuda_driver(error);
    if (driver == NULL)
        return NULL;
    CudaDevice *cuda = new_zeroed(1, sizeof *cuda);
    cuda->base.type = &cuda_device;
    cuda->driver = driver;
    cuda->kernel = options->kernel;
    cuda->done = options->done;
    cuda->done_context = options->context;
    cuda->parameter_bytes = parameter_bytes(options->kernel);
    pthread_mutex_init(&cuda->mutex, NULL);
    pthread_cond_init(&cuda->work, NULL);
    if (find_card(cuda, options->number, error) && use_context(cuda, error) && cuda_load(cuda, variant, error) &&
        make_queue(cuda, options->launches, error))
        return &cuda->base;
    cuda_close(&cuda->base);
    return NULL;
}

static const char *cuda_describe(const Device *device) {
    return ((const CudaDevice *)device)->description;
}

const DeviceType cuda_device = {
    .name = "cuda",
    .open = cuda_open,
    .alloc = cuda_alloc,
    .launch = cuda_launch,
    .cancel = cuda_cancel,
    .close = cuda_close,
    .describe = cuda_describe,
    .lane_open = cuda_lane_open,
    .lane_in = cuda_lane_in,
    .lane_out = cuda_lane_out,
    .lane_close = cuda_lane_close,
};

/* ---- what cards there are ---- */

int cuda_count(Error *error) {
    const CudaDriver *driver = cuda_driver(error);
    if (driver == NULL)
        return -1;
    int count = 0;
    CudaResult result = driver->device_count(&count);
    if (result == 0 || result == CUDA_NO_DEVICE)
        return result == 0 ? count : 0;
    cuda_fail(driver, error, result, "cannot count the cards");
    return -1;
}

bool cuda_runs(int number, const PhbKernel *kernel, bool *runs, CudaCard *card, Error *error) {
    const CudaDriver *driver = cuda_driver(error);
    if (driver == NULL)
        return false;
    CudaDevice cuda = {.driver = driver, .kernel = kernel};
    if (!find_card(&cuda, number, error))
        return false;
    card->arch = cuda.major * 10 + cuda.minor;
    snprintf(card->name, sizeof card->name, "%.63s", cuda.card);
    return cuda_check(&cuda, runs, error);
}

int64_t cuda_free_memory(int number, Error *error) {
    const CudaDriver *driver = cuda_driver(error);
    if (driver == NULL)
        return 0;
    CudaDevice card = {.driver = driver};
    size_t available = 0, total = 0;
    if (!find_card(&card, number, error) || !use_context(&card, error))
        return 0;
    CudaResult result = driver->memory_info(&available, &total);
    if (result != 0)
        cuda_fail(driver, error, result, card.card);
    return (int64_t)available;
}
