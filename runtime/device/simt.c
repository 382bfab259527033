/* The simulator as a device: one system thread carries out launches in turn, cluster by cluster, in an order drawn from the seed. */
#include "runtime/device/simt.h"
#include "runtime/device/device.h"
#include "runtime/device/planes.h"
#include "runtime/thread.h"

#include <immintrin.h>
#include <stdlib.h>
#include <string.h>

#define MXCSR_DEFAULT 0x1f80 /* round to nearest, no flushing, all exceptions masked */

typedef struct SimtLaunch {
    const PhbLaunch *launch;
    uint32_t instruction;
    int stage;
} SimtLaunch;

typedef struct SimtDevice {
    Device base;
    const PhbKernel *kernel;
    const PhbThreadStage *stages;
    SimtOptions options;
    char *file; /* of the kernel's source */
    DeviceDone *done;
    void *context;
    char description[128];
    void *tiles;
    CtaRunner runner;
    SimtMemory memory;
    SimtMemory planes; /* the same of the pass that computes planes, where there is one */
    uint64_t launches; /* so far: each has an order of its own */
    pthread_t thread;
    bool running;

    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t work;
    SimtLaunch *queue; /* a ring of `capacity` */
    int capacity, first, count;
    bool cancelled, closing;
} SimtDevice;

/* ---- launches ---- */

static uint64_t greatest_divisor(uint64_t a, uint64_t b) {
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* All of 0 .. count-1, in steps that share no divisor with their count. */
typedef struct Order {
    uint64_t count, at, step;
} Order;

static Order draw_order(SimtDevice *simt, uint64_t count) {
    Order order = {count, 0, 1};
    if (simt->options.seed == 0)
        return order;
    order.at = runner_random(&simt->runner) % count;
    do
        order.step = 1 + runner_random(&simt->runner) % count;
    while (greatest_divisor(order.step, count) != 1);
    return order;
}

static int64_t next_in_order(Order *order) {
    uint64_t at = order->at;
    order->at = (uint64_t)(((unsigned __int128)at + order->step) % order->count);
    return (int64_t)at;
}

static bool is_cancelled(SimtDevice *simt) {
    pthread_mutex_lock(&simt->mutex);
    bool cancelled = simt->cancelled;
    pthread_mutex_unlock(&simt->mutex);
    return cancelled;
}

/* Of CTAs that stay, as if there were room for half of those that there are blocks for, or for a number that is drawn. */
static uint64_t count_clusters(SimtDevice *simt, const PhbKernel *kernel, const PhbThreadStage *stage, const PhbLaunch *launch) {
    const int32_t *size = kernel->cluster_dims;
    uint64_t count = (uint64_t)(launch->grid[0] / size[0] * (launch->grid[1] / size[1]) * (launch->grid[2] / size[2]));
    if (!stage->stays || count == 0)
        return count;
    return simt->options.seed == 0 ? (count + 1) / 2 : 1 + runner_random(&simt->runner) % count;
}

/* The pass as a kernel of its own. */
static const PhbTensor pass_tensors[] = {{.name = "tensor", .dtype = PHB_F32, .rank = 2}, {.name = "planes", .dtype = PHB_BF16, .rank = 3}};
static const int8_t pass_modes[] = {PHB_READ, PHB_WRITE};
static const PhbStage pass_stage = {.loop = -1, .modes = pass_modes};
static const PhbKernel pass_kernel = {.name = "planes", .tensors = pass_tensors, .tensor_count = 2, .cluster_dims = {1, 1, 1}};

static bool run_stage(SimtDevice *simt, SimtMemory *memory, const PhbStage *use, const PhbThreadStage *stage, const PhbLaunch *launch, Error *error) {
    const int32_t *size = memory->kernel->cluster_dims;
    uint64_t clusters = count_clusters(simt, memory->kernel, stage, launch);
    CtaSetup setup = {.kernel = memory->kernel->name,
        .file = simt->file,
        .threads = stage->threads,
        .shared = stage->shared,
        .size = {size[0], size[1], size[2]},
        .launched = (int64_t)clusters,
        .shuffle = simt->options.seed != 0,
        .seed = simt->options.seed * 0x9e3779b97f4a7c15 + simt->launches++,
        .elect = (ElectedLane)simt->options.elect,
        .context = memory,
        .ends = simt_thread_ends,
        .advance = simt_bulks_advance};
    if (!runner_prepare(&simt->runner, &setup, error) || !simt_memory_begin_launch(memory, use, stage, launch, error))
        return false;
    Order order = draw_order(simt, clusters);
    for (uint64_t c = 0; c < order.count && !is_cancelled(simt); c++) {
        simt_memory_begin_cluster(memory);
        if (!runner_run(&simt->runner, stage->run, launch, next_in_order(&order), memory->shared, error))
            return false;
    }
    return true;
}

static int stage_count(const PhbKernel *kernel) {
    return kernel->stage_count + kernel->helper_count;
}

static bool run_launch(SimtDevice *simt, const SimtLaunch *what, Error *error) {
    const PhbThreadStage *stage = &simt->stages[what->stage];
    for (int m = 0; m < stage->map_count; m++) {
        PlanesPass pass;
        int tensor = stage->maps[m].tensor;
        if (planes_first(stage->maps, m) && planes_pass(&what->launch->tensors[tensor], simt->kernel->tensors[tensor].rank, &pass) &&
            !run_stage(simt, &simt->planes, &pass_stage, &simt->stages[stage_count(simt->kernel)], &pass.launch, error))
            return false;
    }
    return run_stage(simt, &simt->memory, &simt->kernel->stages[what->stage], stage, what->launch, error);
}

static void *work(void *context) {
    SimtDevice *simt = context;
    _mm_setcsr(MXCSR_DEFAULT);
    pthread_mutex_lock(&simt->mutex);
    for (;;) {
        while (simt->count == 0 && !simt->closing)
            pthread_cond_wait(&simt->work, &simt->mutex);
        if (simt->count == 0)
            break;
        SimtLaunch what = simt->queue[simt->first];
        simt->first = (simt->first + 1) % simt->capacity;
        simt->count--;
        pthread_mutex_unlock(&simt->mutex);
        Error error;
        bool fine = run_launch(simt, &what, &error);
        simt->done(simt->context, what.instruction, fine ? NULL : &error);
        pthread_mutex_lock(&simt->mutex);
    }
    pthread_mutex_unlock(&simt->mutex);
    return NULL;
}

static void simt_launch(Device *device, uint32_t instruction, int stage, const PhbLaunch *launch) {
    SimtDevice *simt = (SimtDevice *)device;
    pthread_mutex_lock(&simt->mutex);
    simt->queue[(simt->first + simt->count++) % simt->capacity] = (SimtLaunch){launch, instruction, stage};
    pthread_mutex_unlock(&simt->mutex);
    pthread_cond_signal(&simt->work);
}

static void simt_cancel(Device *device) {
    SimtDevice *simt = (SimtDevice *)device;
    pthread_mutex_lock(&simt->mutex);
    simt->cancelled = true;
    pthread_mutex_unlock(&simt->mutex);
}

/* ---- the device ---- */

static void *simt_alloc(Device *device, int64_t bytes, Error *error) {
    SimtDevice *simt = (SimtDevice *)device;
    size_t rounded;
    if (__builtin_add_overflow((size_t)bytes, PHB_BASE_ALIGN - 1, &rounded) ||
        (simt->tiles = aligned_alloc(PHB_BASE_ALIGN, rounded / PHB_BASE_ALIGN * PHB_BASE_ALIGN)) == NULL)
        error_set(error, "cannot take %lld bytes for tiles", (long long)bytes);
    return simt->tiles;
}

static void simt_close(Device *device) {
    SimtDevice *simt = (SimtDevice *)device;
    pthread_mutex_lock(&simt->mutex);
    simt->closing = true;
    pthread_mutex_unlock(&simt->mutex);
    pthread_cond_signal(&simt->work);
    if (simt->running)
        pthread_join(simt->thread, NULL);
    pthread_cond_destroy(&simt->work);
    pthread_mutex_destroy(&simt->mutex);
    runner_fini(&simt->runner);
    simt_memory_close(&simt->memory);
    simt_memory_close(&simt->planes);
    free(simt->tiles);
    free(simt->queue);
    free(simt->file);
    free(simt);
}

static const char *simt_describe(const Device *device) {
    return ((const SimtDevice *)device)->description;
}

/* "add.phb" of "add.phb:3:8". */
static char *source_file(const PhbKernel *kernel) {
    char *file = format_text("%s", kernel->source);
    for (int parts = 0; parts < 2; parts++) {
        char *colon = strrchr(file, ':');
        if (colon != NULL)
            *colon = '\0';
    }
    return file;
}

static Device *simt_open(const PhbVariant *variant, const DeviceOptions *options, Error *error) {
    const PhbKernel *kernel = options->kernel;
    int64_t shared = 0;
    bool has_planes = false;
    for (int s = 0; s < stage_count(kernel); s++) {
        shared = variant->simt[s].shared > shared ? variant->simt[s].shared : shared;
        for (int m = 0; m < variant->simt[s].map_count; m++)
            has_planes |= variant->simt[s].maps[m].planes > 0;
    }
    SimtDevice *simt = new_zeroed(1, sizeof *simt);
    simt->base.type = &simt_device;
    simt->kernel = kernel;
    simt->stages = variant->simt;
    simt->options = options->simt;
    simt->file = source_file(kernel);
    simt->done = options->done;
    simt->context = options->context;
    simt->capacity = options->launches;
    simt->queue = new_zeroed((size_t)options->launches, sizeof *simt->queue);
    snprintf(
        simt->description, sizeof simt->description, "simt, seed %llu%s", (unsigned long long)simt->options.seed, simt->options.weak ? ", weak" : "");
    pthread_mutex_init(&simt->mutex, NULL);
    pthread_cond_init(&simt->work, NULL);
    int ctas = kernel->cluster_dims[0] * kernel->cluster_dims[1] * kernel->cluster_dims[2];
    simt->running = simt_memory_open(&simt->memory, kernel, shared, ctas, simt->options.weak, error) &&
                    (!has_planes || simt_memory_open(&simt->planes, &pass_kernel, variant->simt[stage_count(kernel)].shared, 1, false, error)) &&
                    thread_start(&simt->thread, "phb-simt", work, simt, error);
    if (simt->running)
        return &simt->base;
    simt_close(&simt->base);
    return NULL;
}

const DeviceType simt_device = {
    .name = "simt",
    .open = simt_open,
    .alloc = simt_alloc,
    .launch = simt_launch,
    .cancel = simt_cancel,
    .close = simt_close,
    .describe = simt_describe,
};
