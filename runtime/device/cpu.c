#define _GNU_SOURCE /* madvise */
#include "runtime/device/device.h"
#include "runtime/device/cta.h"
#include "runtime/thread.h"

#include <cpuid.h>
#include <immintrin.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MXCSR_DEFAULT 0x1f80 /* round to nearest, no flushing, all exceptions masked */
#define SCRATCH_ALIGN 4096   /* threads share no page of scratch */
#define CHUNKS_PER_THREAD 4  /* of what is left of a launch: chunks shrink towards its end, so that threads finish together */

/* ---- what the processor runs ---- */

typedef struct CpuFeature {
    uint32_t leaf; /* of cpuid */
    int reg;       /* 0..3: eax, ebx, ecx, edx */
    int bit;
} CpuFeature;

/* The x86-64 psABI's levels; each holds those before it. Bits of XCR0: what the system saves of the registers. */
static const CpuFeature level2[] = {{1, 2, 0}, {1, 2, 9}, {1, 2, 13}, {1, 2, 19}, {1, 2, 20}, {1, 2, 23}, {0x80000001, 2, 0}};
static const CpuFeature level3[] = {{1, 2, 12}, {1, 2, 22}, {1, 2, 28}, {1, 2, 29}, {7, 1, 3}, {7, 1, 5}, {7, 1, 8}, {0x80000001, 2, 5}};
static const CpuFeature level4[] = {{7, 1, 16}, {7, 1, 17}, {7, 1, 28}, {7, 1, 30}, {7, 1, 31}};

static const struct CpuLevel {
    const char *name;
    const CpuFeature *features;
    size_t count;
    uint64_t saved;
} levels[] = {
    {"x86-64-v2", level2, sizeof level2 / sizeof level2[0], 0},
    {"x86-64-v3", level3, sizeof level3 / sizeof level3[0], 0x6},
    {"x86-64-v4", level4, sizeof level4 / sizeof level4[0], 0xe6},
};

static bool feature_there(const CpuFeature *feature) {
    uint32_t regs[4] = {0, 0, 0, 0};
    return __get_cpuid_count(feature->leaf, 0, &regs[0], &regs[1], &regs[2], &regs[3]) && (regs[feature->reg] >> feature->bit & 1);
}

static uint64_t saved_state(void) {
    static const CpuFeature osxsave = {1, 2, 27};
    if (!feature_there(&osxsave))
        return 0;
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

bool cpu_level_runs(const char *level) {
    if (strcmp(level, "native") == 0)
        return true;
    for (size_t l = 0; l < sizeof levels / sizeof levels[0]; l++) {
        for (size_t f = 0; f < levels[l].count; f++)
            if (!feature_there(&levels[l].features[f]))
                return false;
        if ((saved_state() & levels[l].saved) != levels[l].saved)
            return false;
        if (strcmp(level, levels[l].name) == 0)
            return true;
    }
    return false;
}

/* ---- the device ---- */

typedef struct CpuLaunch CpuLaunch;
struct CpuLaunch {
    const PhbLaunch *launch;
    uint32_t instruction;
    int stage;
    int64_t next, left, total; /* CTAs, or thread-block clusters: the first not dealt, those not ended, all */
    bool failed;
    Error error; /* the first */
    CpuLaunch *after;          /* in the queue, or among the free ones */
};

typedef struct CpuDevice CpuDevice;

typedef struct CpuThread {
    CpuDevice *cpu;
    pthread_t handle;
    void *scratch; /* its own part of the device's */
} CpuThread;

struct CpuDevice {
    Device base;
    PhbCtaRange *const *stages;
    void *scratch;
    int cluster_ctas; /* of a thread-block cluster */
    DeviceDone *done;
    void *context;
    char description[96];

    void *memory;
    size_t memory_bytes;

    CpuThread *threads;
    int thread_count; /* set before the first launch */

    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t work;
    CpuLaunch *launches; /* as many as can be in flight */
    CpuLaunch *unused;
    CpuLaunch *first, *last; /* those that have CTAs to deal */
    bool cancelled, closing;
};

typedef struct Chunk {
    CpuLaunch *launch;
    int64_t first, count;
    bool skip, failed;
    Error error;
} Chunk;

/* Waits for work; false when the device closes. Called with the mutex held. */
static bool take_chunk(CpuDevice *cpu, Chunk *chunk) {
    while (cpu->first == NULL && !cpu->closing)
        pthread_cond_wait(&cpu->work, &cpu->mutex);
    CpuLaunch *launch = cpu->first;
    if (launch == NULL)
        return false;
    int64_t left = launch->total - launch->next, count = left / (cpu->thread_count * CHUNKS_PER_THREAD);
    if (cpu->cancelled)
        count = left;
    else if (count == 0)
        count = 1;
    *chunk = (Chunk){.launch = launch, .first = launch->next, .count = count, .skip = cpu->cancelled || launch->failed};
    launch->next += count;
    if (launch->next == launch->total)
        cpu->first = launch->after;
    return true;
}

/* True with the launch as it was when that was its last chunk. Called with the mutex held. */
static bool end_chunk(CpuDevice *cpu, const Chunk *chunk, CpuLaunch *ended) {
    CpuLaunch *launch = chunk->launch;
    if (chunk->failed && !launch->failed) {
        launch->failed = true;
        launch->error = chunk->error;
    }
    launch->left -= chunk->count;
    if (launch->left > 0)
        return false;
    *ended = *launch;
    launch->after = cpu->unused;
    cpu->unused = launch;
    return true;
}

static void *work(void *context) {
    CpuThread *thread = context;
    CpuDevice *cpu = thread->cpu;
    _mm_setcsr(MXCSR_DEFAULT);
    Chunk chunk;
    pthread_mutex_lock(&cpu->mutex);
    while (take_chunk(cpu, &chunk)) {
        pthread_mutex_unlock(&cpu->mutex);
        if (!chunk.skip)
            cpu->stages[chunk.launch->stage](chunk.launch->launch, chunk.first, chunk.first + chunk.count, thread->scratch);
        chunk.failed = !chunk.skip && cta_take_failure(&chunk.error);
        pthread_mutex_lock(&cpu->mutex);
        CpuLaunch ended;
        if (!end_chunk(cpu, &chunk, &ended))
            continue;
        pthread_mutex_unlock(&cpu->mutex);
        cpu->done(cpu->context, ended.instruction, ended.failed ? &ended.error : NULL);
        pthread_mutex_lock(&cpu->mutex);
    }
    pthread_mutex_unlock(&cpu->mutex);
    return NULL;
}

static void cpu_launch(Device *device, uint32_t instruction, int stage, const PhbLaunch *launch) {
    CpuDevice *cpu = (CpuDevice *)device;
    int64_t ctas = launch->grid[0] * launch->grid[1] * launch->grid[2] / cpu->cluster_ctas;
    pthread_mutex_lock(&cpu->mutex);
    CpuLaunch *entry = cpu->unused;
    cpu->unused = entry->after;
    *entry = (CpuLaunch){.launch = launch, .instruction = instruction, .stage = stage, .left = ctas, .total = ctas};
    if (cpu->first == NULL)
        cpu->first = entry;
    else
        cpu->last->after = entry;
    cpu->last = entry;
    pthread_mutex_unlock(&cpu->mutex);
    if (ctas > 1)
        pthread_cond_broadcast(&cpu->work);
    else
        pthread_cond_signal(&cpu->work);
}

static void cpu_cancel(Device *device) {
    CpuDevice *cpu = (CpuDevice *)device;
    pthread_mutex_lock(&cpu->mutex);
    cpu->cancelled = true;
    pthread_mutex_unlock(&cpu->mutex);
}

static void *cpu_alloc(Device *device, int64_t bytes, Error *error) {
    CpuDevice *cpu = (CpuDevice *)device;
    void *memory = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        error_errno(error, "cannot take %lld bytes for tiles", (long long)bytes);
        return NULL;
    }
    madvise(memory, (size_t)bytes, MADV_HUGEPAGE); /* fewer faults; where it is refused, small pages do */
    cpu->memory = memory;
    cpu->memory_bytes = (size_t)bytes;
    return memory;
}

static void cpu_close(Device *device) {
    CpuDevice *cpu = (CpuDevice *)device;
    pthread_mutex_lock(&cpu->mutex);
    cpu->closing = true;
    pthread_mutex_unlock(&cpu->mutex);
    pthread_cond_broadcast(&cpu->work);
    for (int t = 0; t < cpu->thread_count; t++)
        pthread_join(cpu->threads[t].handle, NULL);
    if (cpu->memory != NULL)
        munmap(cpu->memory, cpu->memory_bytes);
    pthread_cond_destroy(&cpu->work);
    pthread_mutex_destroy(&cpu->mutex);
    free(cpu->scratch);
    free(cpu->threads);
    free(cpu->launches);
    free(cpu);
}

static const char *cpu_describe(const Device *device) {
    return ((const CpuDevice *)device)->description;
}

/* The code to run: of the level asked for, or of the best one that runs here. */
static const PhbCpuCode *choose_code(const PhbVariant *variant, const char *level, Error *error) {
    char embedded[128] = "";
    const PhbCpuCode *best = NULL;
    for (int c = 0; c < variant->cpu_count; c++) {
        const PhbCpuCode *code = &variant->cpu[c];
        size_t used = strlen(embedded);
        snprintf(embedded + used, sizeof embedded - used, "%s%s", c > 0 ? ", " : "", code->level);
        if (cpu_level_runs(code->level) && (level == NULL || strcmp(level, code->level) == 0))
            best = code;
    }
    if (best == NULL && level != NULL)
        error_set(error, "CPU level '%s' is not embedded or does not run on this processor; embedded: %s", level, embedded);
    else if (best == NULL)
        error_set(error, "this processor runs none of the embedded CPU levels (%s); compile with --cpu=x86-64-v2", embedded);
    return best;
}

static bool start_threads(CpuDevice *cpu, int threads, size_t scratch_bytes, Error *error) {
    cpu->threads = new_zeroed((size_t)threads, sizeof *cpu->threads);
    for (int t = 0; t < threads; t++) {
        CpuThread *thread = &cpu->threads[t];
        thread->cpu = cpu;
        thread->scratch = (char *)cpu->scratch + (size_t)t * scratch_bytes;
        if (!thread_start(&thread->handle, "phb-compute", work, thread, error))
            return false;
        cpu->thread_count++;
    }
    return true;
}

static Device *cpu_open(const PhbVariant *variant, const DeviceOptions *options, Error *error) {
    const PhbCpuCode *code = choose_code(variant, options->cpu_level, error);
    if (code == NULL)
        return NULL;
    size_t scratch_bytes = ((size_t)variant->scratch / SCRATCH_ALIGN + 1) * SCRATCH_ALIGN, all;
    void *scratch = __builtin_mul_overflow(scratch_bytes, (size_t)options->threads, &all) ? NULL : aligned_alloc(SCRATCH_ALIGN, all);
    if (scratch == NULL) {
        error_set(error, "out of memory: %d compute threads need %zu bytes of scratch each", options->threads, scratch_bytes);
        return NULL;
    }
    CpuDevice *cpu = new_zeroed(1, sizeof *cpu);
    cpu->base.type = &cpu_device;
    cpu->stages = code->stages;
    cpu->cluster_ctas = options->kernel->cluster_dims[0] * options->kernel->cluster_dims[1] * options->kernel->cluster_dims[2];
    cpu->done = options->done;
    cpu->context = options->context;
    cpu->scratch = scratch;
    snprintf(cpu->description, sizeof cpu->description, "cpu %s, %d thread%s", code->level, options->threads, options->threads == 1 ? "" : "s");
    pthread_mutex_init(&cpu->mutex, NULL);
    pthread_cond_init(&cpu->work, NULL);
    cpu->launches = new_zeroed((size_t)options->launches, sizeof *cpu->launches);
    for (int l = 0; l < options->launches; l++) {
        cpu->launches[l].after = cpu->unused;
        cpu->unused = &cpu->launches[l];
    }
    if (start_threads(cpu, options->threads, scratch_bytes, error))
        return &cpu->base;
    cpu_close(&cpu->base);
    return NULL;
}

const DeviceType cpu_device = {
    .name = "cpu",
    .open = cpu_open,
    .alloc = cpu_alloc,
    .launch = cpu_launch,
    .cancel = cpu_cancel,
    .close = cpu_close,
    .describe = cpu_describe,
};
