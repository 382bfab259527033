/* From embedded images to functions on a card: which image, loading it, and whether the card can run what is in it. */
#include "runtime/device/cuda.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LOG_BYTES 4096
#define PORTABLE_CLUSTER 8

static void image_name(const PhbGpuCode *code, char *name, size_t room) {
    snprintf(name, room, "%ssm_%d%s", code->machine_code ? "machine code for " : "", code->arch, code->specific ? "a" : "");
}

/* Machine code runs on its own generation from its own minor version on; PTX is compiled for anything newer; architecture-specific code of both kinds
 * runs on its very own. */
static bool image_runs(const PhbGpuCode *code, int major, int minor) {
    int card = major * 10 + minor;
    if (code->specific)
        return code->arch == card;
    return code->machine_code ? code->arch / 10 == major && code->arch <= card : code->arch <= card;
}

static bool image_better(const PhbGpuCode *a, const PhbGpuCode *b) {
    if (a->arch != b->arch)
        return a->arch > b->arch;
    if (a->specific != b->specific)
        return a->specific;
    return a->machine_code && !b->machine_code;
}

const PhbGpuCode *cuda_choose_code(const PhbVariant *variant, int major, int minor) {
    const PhbGpuCode *best = NULL;
    for (int i = 0; i < variant->gpu_count; i++) {
        const PhbGpuCode *code = &variant->gpu[i];
        if (image_runs(code, major, minor) && (best == NULL || image_better(code, best)))
            best = code;
    }
    return best;
}

static bool refuse_images(const CudaDevice *cuda, const PhbVariant *variant, Error *error) {
    char names[256] = "";
    for (int i = 0; i < variant->gpu_count; i++) {
        size_t used = strlen(names);
        if (i > 0 && used < sizeof names)
            snprintf(names + used, sizeof names - used, ", ");
        used = strlen(names);
        image_name(&variant->gpu[i], names + used, sizeof names - used);
    }
    if (variant->gpu_count == 0)
        return error_set(error, "no code for GPUs is embedded; compile with --gpu=sm_%d%d, or run with --device=cpu", cuda->major, cuda->minor);
    return error_set(error, "%s has compute capability %d.%d, which runs none of the embedded images (%s); compile with --gpu=sm_%d%d", cuda->card,
        cuda->major, cuda->minor, names, cuda->major, cuda->minor);
}

static int64_t cluster_size(const PhbKernel *kernel) {
    return (int64_t)kernel->cluster_dims[0] * kernel->cluster_dims[1] * kernel->cluster_dims[2];
}

static bool card_figure(const CudaDevice *cuda, int attribute, int *figure, Error *error) {
    CudaResult result = cuda->driver->device_attribute(figure, attribute, cuda->id);
    return result == 0 || cuda_fail(cuda->driver, error, result, cuda->card);
}

static bool card_has_clusters(const CudaDevice *cuda, Error *error) {
    int has;
    if (!card_figure(cuda, CUDA_DEVICE_CLUSTERS, &has, error))
        return false;
    if (has && cuda->driver->launch_clusters != NULL)
        return true;
    if (has)
        return error_set(error, "kernel '%s' needs thread-block clusters, which driver CUDA %d.%d cannot launch: update it to 11.8 or newer", cuda->kernel->name,
            cuda->driver->version / 1000, cuda->driver->version % 1000 / 10);
    return error_set(error, "kernel '%s' needs thread-block clusters, and %s (compute capability %d.%d) has none: they need 9.0 or newer",
        cuda->kernel->name, cuda->card, cuda->major, cuda->minor);
}

static size_t parameter_with_maps(const CudaDevice *cuda, const PhbThreadStage *code) {
    return code->map_count > 0 ? cuda_map_offset(cuda->parameter_bytes) + (size_t)code->map_count * PHB_MAP_BYTES : cuda->parameter_bytes;
}

/* Before anything is loaded; what the driver's compiler makes of it is seen later. */
static bool stage_fits(const CudaDevice *cuda, const PhbThreadStage *code, Error *error) {
    int most;
    if (code->map_count > 0 && cuda->driver->encode_map == NULL)
        return error_set(error, "kernel '%s' needs tensor maps, which driver CUDA %d.%d cannot make: update it to 12.0 or newer, or compile with --gpu=sm_80",
            cuda->kernel->name, cuda->driver->version / 1000, cuda->driver->version % 1000 / 10);
    if (parameter_with_maps(cuda, code) > LARGEST_PARAMETER)
        return error_set(error, "kernel '%s' takes %zu bytes of parameters, and a card takes %d: use fewer tensors", cuda->kernel->name,
            parameter_with_maps(cuda, code), LARGEST_PARAMETER);
    if (!card_figure(cuda, CUDA_DEVICE_SHARED_A_BLOCK, &most, error))
        return false;
    return code->shared <= most || error_set(error, "kernel '%s' wants %d bytes of shared memory a CTA, and %s has %d: compile with a smaller leaf tile, -D leaf.NAME=VALUE",
                                       cuda->kernel->name, code->shared, cuda->card, most);
}

/* CTAs that the card holds at once. */
static bool find_most(const CudaDevice *cuda, const PhbThreadStage *code, CudaStage *stage, Error *error) {
    int each, multiprocessors;
    if (!card_figure(cuda, CUDA_DEVICE_MULTIPROCESSORS, &multiprocessors, error))
        return false;
    CudaResult result = cuda->driver->occupancy(&each, stage->function, code->threads, (size_t)code->shared);
    if (result != 0)
        return cuda_fail(cuda->driver, error, result, code->entry);
    if (each < 1 || multiprocessors < 1)
        return error_set(error,
            "kernel '%s': no multiprocessor of %s holds one of its CTAs (%d threads, %d bytes of shared memory): compile with a smaller "
            "leaf tile, -D leaf.NAME=VALUE",
            cuda->kernel->name, cuda->card, code->threads, code->shared);
    stage->most = (unsigned)each * (unsigned)multiprocessors;
    return true;
}

static bool ready_stage(CudaDevice *cuda, const PhbThreadStage *code, CudaStage *stage, Error *error) {
    const CudaDriver *driver = cuda->driver;
    *stage = (CudaStage){.threads = (unsigned)code->threads, .shared = (unsigned)code->shared, .maps = code->maps, .map_count = code->map_count};
    for (int m = 0; m < code->map_count; m++)
        stage->has_planes |= code->maps[m].planes > 0;
    CudaResult result = driver->module_function(&stage->function, cuda->module, code->entry);
    if (result != 0)
        return cuda_fail(driver, error, result, code->entry);
    int most_threads;
    result = driver->function_attribute(&most_threads, CUDA_FUNCTION_MOST_THREADS, stage->function);
    if (result != 0)
        return cuda_fail(driver, error, result, code->entry);
    if (code->threads > most_threads)
        return error_set(error, "kernel '%s' wants %d threads a CTA, and %s can give its code %d: compile with a smaller leaf tile, -D leaf.NAME=VALUE",
            cuda->kernel->name, code->threads, cuda->card, most_threads);
    if (!stage_fits(cuda, code, error))
        return false;
    result = driver->function_set(stage->function, CUDA_FUNCTION_DYNAMIC_SHARED, code->shared);
    if (result == 0 && code->stays && !find_most(cuda, code, stage, error))
        return false;
    if (result == 0 && cluster_size(cuda->kernel) > PORTABLE_CLUSTER)
        result = driver->function_set(stage->function, CUDA_FUNCTION_LARGE_CLUSTERS, 1);
    return result == 0 || cuda_fail(driver, error, result, code->entry);
}

static bool load_image(CudaDevice *cuda, const PhbGpuCode *code, Error *error) {
    char *log = new_zeroed(LOG_BYTES, 1);
    const int options[] = {CUDA_JIT_ERROR_LOG, CUDA_JIT_ERROR_LOG_BYTES};
    void *values[] = {log, (void *)(uintptr_t)(LOG_BYTES - 1)};
    CudaResult result = cuda->driver->module_load(&cuda->module, code->image, 2, options, values);
    if (result != 0) {
        char name[32], what[448];
        image_name(code, name, sizeof name);
        snprintf(what, sizeof what, "%s does not load the image for %s%s%.240s", cuda->card, name, log[0] != '\0' ? ": " : "", log);
        cuda_fail(cuda->driver, error, result, what);
    }
    free(log);
    return result == 0;
}

/* False with the reason where the card cannot run the variant. */
static bool variant_fits(const CudaDevice *cuda, const PhbVariant *variant, Error *error) {
    const PhbGpuCode *code = cuda_choose_code(variant, cuda->major, cuda->minor);
    if (code == NULL)
        return refuse_images(cuda, variant, error);
    for (int s = 0; s < cuda->kernel->stage_count + cuda->kernel->helper_count; s++)
        if (!stage_fits(cuda, &code->stages[s], error))
            return false;
    return true;
}

bool cuda_check(const CudaDevice *cuda, bool *runs, Error *error) {
    const PhbKernel *kernel = cuda->kernel;
    if (cluster_size(kernel) > 1 && !card_has_clusters(cuda, error))
        return false;
    bool some = false, has_images = false;
    for (int v = 0; v < kernel->variant_count; v++) {
        const PhbVariant *variant = &kernel->variants[v];
        Error why;
        bool fits = variant_fits(cuda, variant, &why);
        if (!fits && (variant->gpu_count > 0 || !has_images))
            *error = why;
        has_images |= variant->gpu_count > 0;
        some |= fits;
        if (runs != NULL)
            runs[v] &= fits;
    }
    return some;
}

bool cuda_load(CudaDevice *cuda, const PhbVariant *variant, Error *error) {
    const PhbKernel *kernel = cuda->kernel;
    const PhbGpuCode *code = cuda_choose_code(variant, cuda->major, cuda->minor);
    if (code == NULL)
        return refuse_images(cuda, variant, error);
    if (!load_image(cuda, code, error))
        return false;
    int count = kernel->stage_count + kernel->helper_count;
    bool has_planes = false;
    cuda->stages = new_zeroed((size_t)count + 1, sizeof *cuda->stages);
    for (int s = 0; s < count; s++) {
        if (!ready_stage(cuda, &code->stages[s], &cuda->stages[s], error))
            return false;
        has_planes |= cuda->stages[s].has_planes;
    }
    if (has_planes && !ready_stage(cuda, &code->stages[count], &cuda->stages[count], error))
        return false;
    char name[64];
    image_name(code, name, sizeof name);
    snprintf(cuda->description, sizeof cuda->description, "%s, %s", cuda->card, name);
    return true;
}
