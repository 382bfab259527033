/* What hosts run as threads: stages with thread code on the CPU device and, for the simulator, what a GPU would run. Brings copies of them to the
 * memory level; the variants' own stages stay as they are. */
#include "compiler/codegen/simt/host.h"

#include <stdlib.h>
#include <string.h>

static void check(Context *context, IrKernel *threads) {
    const IrOp *at;
    const char *broken = ir_verify_kernel(context, threads, &at);
    if (!broken)
        return;
    fprintf(stderr, "phobosc: internal error in layout of '%s': %s\n", threads->signature.name, broken);
    abort();
}

/* NULL where one of the stages cannot run: *why says so. */
static IrKernel **lay_out(
    Context *context, const ClusterKernel *kernel, IrKernel *const *stages, const int64_t *values, const SimtTarget *target, const char **why) {
    IrKernel **threads = NEW_ARRAY(context->arena, IrKernel *, kernel->stages.count);
    for (int s = 0; s < kernel->stages.count; s++) {
        if (target == &simt_cpu && !ir_has_thread_code(stages[s]))
            continue;
        threads[s] = simt_lay_out(context, stages[s], values, target, why);
        if (!threads[s])
            return NULL;
        check(context, threads[s]);
    }
    return threads;
}

/* The pass, if some stage needs planes. False where it cannot run. */
static bool lay_out_planes(Context *context, const ClusterKernel *kernel, GpuVariant *variant, const SimtTarget *target, const char **why) {
    for (int s = 0; s < kernel->stages.count; s++) {
        int count;
        const PhbTensorMap *maps = simt_maps(context, variant->threads[s], &count);
        simt_note_planes(context, variant, kernel->tensors.count, maps, count);
        if (!variant->pass && simt_needs_planes(maps, count)) {
            variant->pass = simt_planes(context, target, why);
            if (!variant->pass)
                return false;
            check(context, variant->pass);
        }
    }
    return true;
}

static bool refuse(Context *context, const ClusterKernel *kernel, const char *where, const char *why) {
    diag_error(context->diag, kernel->kernel->signature.span, "'%s' cannot run as threads %s: %s", kernel->kernel->signature.name, where, why);
    return false;
}

/* The program's table has one size of clusters a kernel. */
static bool has_one_cluster(Context *context, const ClusterKernel *kernel, const int64_t *values) {
    const Signature *signature = &kernel->kernel->signature;
    int64_t first[3], dims[3];
    cluster_extents(context, signature, kernel->variants.items[0].values, first);
    cluster_extents(context, signature, values, dims);
    if (memcmp(first, dims, sizeof dims) == 0)
        return true;
    diag_error(context->diag, signature->span, "the @cluster_dims of '%s' are not the same in all its variants; -D gives a search dim one value",
        signature->name);
    return false;
}

static bool lay_out_kernel(Context *context, ClusterKernel *kernel, const SimtTarget *simulator) {
    const char *why = "no variant is legal";
    bool some = false;
    for (int v = 0; v < kernel->variants.count; v++) {
        LeafVariant *variant = &kernel->variants.items[v];
        if (!has_one_cluster(context, kernel, variant->values))
            return false;
        variant->threads = lay_out(context, kernel, variant->stages, variant->values, &simt_cpu, &why);
        if (!variant->threads)
            return refuse(context, kernel, "on the CPU", why);
    }
    for (int v = 0; simulator && v < kernel->gpu_variants.count; v++) {
        GpuVariant *variant = &kernel->gpu_variants.items[v];
        if (!has_one_cluster(context, kernel, variant->values))
            return false;
        variant->threads = lay_out(context, kernel, variant->stages, variant->values, simulator, &why);
        if (variant->threads && !lay_out_planes(context, kernel, variant, simulator, &why))
            variant->threads = NULL;
        some |= variant->threads != NULL;
    }
    return some || !simulator || refuse(context, kernel, "in the simulator", why);
}

bool codegen_threads(Context *context, ClusterProgram *program, Simulated simulated) {
    static const SimtTarget *const simulators[] = {
        [SIMULATED_NONE] = NULL, [SIMULATED_SM_80] = &simt_simulator, [SIMULATED_SM_90A] = &simt_simulator_bulk};
    bool fine = true;
    for (int k = 0; k < program->kernels.count; k++)
        fine &= lay_out_kernel(context, program->kernels.items[k], simulators[simulated]);
    return fine;
}

ThreadCode simt_code(Emitter *e, const SimtTarget *target, const IrKernel *kernel, const char *name) {
    return (ThreadCode){simt_leaf(e, target, kernel, name), kernel->signature.name, kernel->threads, kernel->shared_bytes};
}
