/* PTX for every variant and target: each image is one variant's stages. A variant that a target cannot run is left out there. */
#include "compiler/codegen/nvptx/nvptx.h"
#include "compiler/layout/layout.h"

#include <stdlib.h>
#include <string.h>

/* "gemm_f32_v3" and, where there are several stages, "_s1"; behind the last one, of the pass that computes planes. */
static const char *entry_name(Context *context, const ClusterKernel *kernel, int variant, int stage) {
    const char *name = kernel->kernel->signature.name;
    if (stage == kernel->stages.count)
        return arena_printf(context->arena, "%s_v%d_planes", name, variant);
    if (kernel->stages.count == 1)
        return arena_printf(context->arena, "%s_v%d", name, variant);
    return arena_printf(context->arena, "%s_v%d_s%d", name, variant, stage);
}

/* " with TM = 64, TN = 64", or nothing. */
static const char *values_text(Context *context, const Signature *signature, const int64_t *values) {
    const char *text = "";
    for (int i = 0; i < signature->search.count; i++)
        text = arena_printf(context->arena, "%s%s%s = %lld", text, i ? ", " : " with ", signature->search.items[i].name, (long long)values[i]);
    return text;
}

/* An image whose text is under construction. */
typedef struct Pending {
    GpuVariant *variant;
    int image; /* among the variant's; its machine code comes next, where it is asked for */
    Unit *unit;
    Span span;
} Pending;

typedef struct Images {
    Context *context;
    const GpuTargets *targets;
    int optimise;
    const char *file;
    Units *units;
    VEC(Pending) pending;
} Images;

static void put_image(Images *images, GpuVariant *variant, const GpuImage *image, Unit *unit, Span span) {
    Arena *arena = images->context->arena;
    vec_push(arena, &images->pending, ((Pending){variant, variant->images.count, unit, span}));
    vec_push(arena, &variant->images, *image);
    if (images->targets->cubin)
        vec_push(arena, &variant->images, *image);
    units_add(images->units, unit);
}

/* False, with the reason, where the target cannot run it. */
static bool make_image(Images *images, ClusterKernel *kernel, int number, const NvptxTarget *target, bool only_bulk, const char **why) {
    Context *context = images->context;
    const Signature *signature = &kernel->kernel->signature;
    GpuVariant *variant = &kernel->gpu_variants.items[number];
    GpuImage image = {.target = target->name, .arch = target->arch, .specific = target->specific};
    int count = kernel->stages.count;
    image.stages = NEW_ARRAY(context->arena, GpuStage, count + 1);
    NvptxStage *stages = NEW_ARRAY(context->arena, NvptxStage, count + 1);
    bool has_maps = false;
    if (signature->cluster_dims[0] && target->arch < 90) {
        *why = "thread-block clusters need sm_90";
        return false;
    }
    for (int s = 0; s < count + image.has_planes; s++) {
        IrKernel *leaf =
            s == count ? simt_planes(context, &target->simt, why) : simt_lay_out(context, variant->stages[s], variant->values, &target->simt, why);
        if (!leaf)
            return false;
        if (s < count)
            layout_remarks(context, leaf, target->name, values_text(context, signature, variant->values));
        const char *entry = entry_name(context, kernel, number, s);
        image.stages[s] = (GpuStage){.entry = entry, .threads = leaf->threads, .shared = leaf->shared_bytes, .stays = layout_stays(leaf)};
        image.stages[s].maps = simt_maps(context, leaf, &image.stages[s].map_count);
        has_maps |= image.stages[s].map_count > 0;
        image.has_planes |= simt_needs_planes(image.stages[s].maps, image.stages[s].map_count);
        stages[s] = (NvptxStage){leaf, entry};
    }
    if (only_bulk && !has_maps)
        return false;
    for (int s = 0; s < count; s++)
        simt_note_planes(context, variant, kernel->tensors.count, image.stages[s].maps, image.stages[s].map_count);
    Unit *unit = nvptx_emit(context, target, stages, count + image.has_planes, images->optimise, images->file, images->targets->debug);
    put_image(images, variant, &image, unit, signature->span);
    return true;
}

/* Every unit is translated: texts go to their images. */
static void take_texts(Images *images) {
    for (int i = 0; i < images->pending.count; i++) {
        const Pending *pending = &images->pending.items[i];
        GpuImage *image = &pending->variant->images.items[pending->image];
        Buffer *text = &pending->unit->output;
        image->text = arena_strndup(images->context->arena, text->data, text->length);
        image->size = (int64_t)text->length + 1;
        buffer_free(text);
    }
}

/* Machine code for all of them, in their order, some at once. After an error in the diagnostics, false: no more are begun. */
static bool assemble_images(Images *images) {
    Assembly running[MOST_COMMANDS];
    int most = images->targets->jobs < MOST_COMMANDS ? images->targets->jobs : MOST_COMMANDS, begun = 0, ended = 0;
    bool fine = true;
    while (ended < begun || (fine && begun < images->pending.count)) {
        if (fine && begun < images->pending.count && begun - ended < most) {
            const Pending *pending = &images->pending.items[begun];
            GpuImage *image = &pending->variant->images.items[pending->image];
            fine = nvptx_assemble(images->context, image, pending->span, image + 1, &running[begun % most]);
            begun += fine;
        } else {
            fine &= nvptx_assembled(images->context, &running[ended++ % most]);
        }
    }
    return fine;
}

/* Nobody has asked for an automatic target. */
static bool refuse(Context *context, const ClusterKernel *kernel, const NvptxTarget *target, bool automatic, const char *why) {
    const Signature *signature = &kernel->kernel->signature;
    if (automatic)
        diag_warning(context->diag, WARN_GPU, signature->span, "'%s' gets no code for GPUs: no variant runs on %s: %s", signature->name, target->name, why);
    else
        diag_error(context->diag, signature->span, "no variant of '%s' runs on %s: %s", signature->name, target->name, why);
    if (signature->pipeline)
        diag_note(context->diag, signature->pipeline_span, "@pipeline says how many stages are in shared memory at once");
    return automatic;
}

/* Why an image is made: a target that was asked for, the one that every later card compiles from, or one that is there for bulk copies alone. */
typedef enum Reason { ASKED_FOR, AUTOMATIC, FOR_BULK } Reason;

static bool make_target(Images *images, ClusterKernel *kernel, const NvptxTarget *target, Reason reason) {
    const char *why = "none is legal";
    bool some = false;
    for (int v = 0; v < kernel->gpu_variants.count; v++)
        some |= make_image(images, kernel, v, target, reason == FOR_BULK, &why);
    return some || reason == FOR_BULK || refuse(images->context, kernel, target, reason == AUTOMATIC, why);
}

bool codegen_gpu_has_bulk(const char *target) {
    return nvptx_find(target)->simt.has_bulk;
}

static bool is_asked_for(const GpuTargets *targets, const char *name) {
    bool found = false;
    for (int t = 0; !found && t < targets->count; t++)
        found = strcmp(targets->items[t], name) == 0;
    return found;
}

bool codegen_gpu(Context *context, ClusterProgram *program, const GpuTargets *targets, int optimise) {
    bool fine = true;
    nvptx_initialise();
    Images images = {.context = context, .targets = targets, .optimise = optimise, .file = program->file};
    images.units = units_begin(context->arena, targets->jobs, nvptx_translate);
    for (int k = 0; k < program->kernels.count; k++) {
        ClusterKernel *kernel = program->kernels.items[k];
        for (int t = 0; t < targets->count; t++)
            fine &= make_target(&images, kernel, nvptx_find(targets->items[t]), ASKED_FOR);
        const NvptxTarget *oldest = nvptx_find(kernel->kernel->signature.cluster_dims[0] ? "sm_90" : "sm_80");
        const NvptxTarget *bulk = nvptx_find("sm_90a");
        if (targets->automatic && !is_asked_for(targets, oldest->name))
            fine &= make_target(&images, kernel, oldest, AUTOMATIC);
        if (targets->automatic && !is_asked_for(targets, bulk->name))
            fine &= make_target(&images, kernel, bulk, FOR_BULK);
    }
    units_end(images.units);
    take_texts(&images);
    return (!targets->cubin || assemble_images(&images)) && fine;
}

/* ---- --emit=ptx ---- */

static void print_list(Buffer *buffer, const char *key, const Signature *signature, bool tensors) {
    buffer_printf(buffer, ", \"%s\": [", key);
    bool first = true;
    for (int i = 0; i < signature->params.count; i++) {
        const Param *param = &signature->params.items[i];
        if ((param->type->kind == TYPE_TENSOR) != tensors)
            continue;
        buffer_printf(buffer, "%s{\"name\": \"%s\", \"dtype\": \"%s\"", first ? "" : ", ", param->name, dtype_name(param->type->scalar));
        buffer_printf(buffer, tensors ? ", \"rank\": %d}" : "}", param->type->rank);
        first = false;
    }
    buffer_puts(buffer, "]");
}

static void print_dims(Buffer *buffer, const Signature *signature, const int64_t *values) {
    buffer_puts(buffer, ", \"dims\": [");
    for (int i = 0; i < signature->symbolic.count; i++)
        buffer_printf(buffer, "%s\"%s\"", i ? ", " : "", signature->symbolic.items[i]);
    for (int i = 0; i < signature->search.count; i++)
        buffer_printf(buffer, "%s\"%s\"", i + signature->symbolic.count ? ", " : "", signature->search.items[i].name);
    buffer_puts(buffer, "], \"values\": {");
    for (int i = 0; i < signature->search.count; i++)
        buffer_printf(buffer, "%s\"%s\": %lld", i ? ", " : "", signature->search.items[i].name, (long long)values[i]);
    buffer_puts(buffer, "}, \"grid\": [");
    for (int axis = 0; axis < 3; axis++) {
        buffer_puts(buffer, axis ? ", \"" : "\"");
        if (signature->grid[axis].counts.count)
            dim_print(buffer, signature->grid[axis].counts.items[0]);
        else
            buffer_puts(buffer, "1");
        buffer_puts(buffer, "\"");
    }
    buffer_puts(buffer, "], \"require\": [");
    for (int i = 0; i < signature->require.count; i++) {
        buffer_puts(buffer, i ? ", \"" : "\"");
        dim_print(buffer, signature->require.items[i].cond);
        buffer_puts(buffer, "\"");
    }
    buffer_puts(buffer, "]");
}

static void print_image(Context *context, Buffer *buffer, const ClusterKernel *kernel, const GpuVariant *variant, const GpuImage *image) {
    const Signature *signature = &kernel->kernel->signature;
    buffer_printf(buffer, "// phobos {\"kernel\": \"%s\", \"target\": \"%s\"", signature->name, image->target);
    print_list(buffer, "tensors", signature, true);
    print_list(buffer, "scalars", signature, false);
    print_dims(buffer, signature, variant->values);
    int64_t dims[3];
    cluster_extents(context, signature, variant->values, dims);
    buffer_printf(buffer, ", \"cluster\": [%lld, %lld, %lld], \"stages\": [", (long long)dims[0], (long long)dims[1], (long long)dims[2]);
    for (int s = 0; s < kernel->stages.count + image->has_planes; s++) {
        const GpuStage *stage = &image->stages[s];
        buffer_printf(buffer, "%s{\"entry\": \"%s\", \"threads\": %d, \"shared\": %lld, \"stays\": %s, \"maps\": [", s ? ", " : "", stage->entry,
            stage->threads, (long long)stage->shared, stage->stays ? "true" : "false");
        for (int i = 0; i < stage->map_count; i++)
            buffer_printf(buffer, "%s[%d, %d, %d, %d, %d, %d]", i ? ", " : "", stage->maps[i].tensor, stage->maps[i].row_axis, stage->maps[i].rows,
                stage->maps[i].columns, stage->maps[i].swizzle, stage->maps[i].planes);
        buffer_puts(buffer, "]}");
    }
    buffer_printf(buffer, "]}\n%s\n", image->text);
}

void codegen_print_ptx(Context *context, Buffer *buffer, const ClusterProgram *program) {
    for (int k = 0; k < program->kernels.count; k++) {
        const ClusterKernel *kernel = program->kernels.items[k];
        for (int v = 0; v < kernel->gpu_variants.count; v++)
            for (int i = 0; i < kernel->gpu_variants.items[v].images.count; i++)
                if (!kernel->gpu_variants.items[v].images.items[i].machine_code)
                    print_image(context, buffer, kernel, &kernel->gpu_variants.items[v], &kernel->gpu_variants.items[v].images.items[i]);
    }
}
