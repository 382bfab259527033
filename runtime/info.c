/* What a program says about itself: --info, --info=json, --job-template. */
#include "runtime/runtime.h"

#include <jansson.h>

static const char *const mode_names[] = {[PHB_READ] = "read", [PHB_WRITE] = "write", [PHB_READ_WRITE] = "read-modify-write"};

static void print_signature(const PhbKernel *kernel, FILE *out) {
    const char *separator = "";
    fprintf(out, "kernel %s(", kernel->name);
    for (int i = 0; i < kernel->tensor_count; i++, separator = ", ") {
        const PhbTensor *tensor = &kernel->tensors[i];
        fprintf(out, "%s%s: tensor<%s>[", separator, tensor->name, dtype_name(tensor->dtype));
        for (int axis = 0; axis < tensor->rank; axis++)
            fprintf(out, "%s%s", axis > 0 ? ", " : "", tensor->axes[axis].extent.text);
        fputc(']', out);
    }
    for (int i = 0; i < kernel->scalar_count; i++, separator = ", ")
        fprintf(out, "%s%s: %s", separator, kernel->scalars[i].name, dtype_name(kernel->scalars[i].dtype));
    fprintf(out, ")    %s\n", kernel->source);
}

static void print_set(const char *attribute, const int64_t *values, int count, FILE *out) {
    if (count == 0)
        return;
    fprintf(out, "  %s", attribute);
    for (int i = 0; i < count; i++)
        fprintf(out, "%s%lld", i > 0 ? ", " : " ", (long long)values[i]);
}

/* "sm_80" and, of machine code, "sm_80 (machine code)": threads and shared memory are those of the first stage. */
static void print_image(const PhbGpuCode *code, const char *separator, FILE *out) {
    fprintf(out, "%ssm_%d%s%s, %d threads", separator, code->arch, code->specific ? "a" : "", code->machine_code ? " (machine code)" : "",
        code->stages[0].threads);
    if (code->stages[0].shared > 0)
        fprintf(out, " and %d bytes shared", code->stages[0].shared);
}

static void print_kernel(const PhbKernel *kernel, FILE *out) {
    print_signature(kernel, out);
    for (int i = 0; i < kernel->tensor_count; i++)
        fprintf(out, "  %-12s %s\n", kernel->tensors[i].name, mode_names[kernel->tensors[i].mode]);
    for (int i = 0; i < kernel->dim_count; i++) {
        const PhbDim *dim = &kernel->dims[i];
        if (!dim->is_search)
            continue;
        fprintf(out, "  %-11s", dim->name);
        print_set("@autotune", dim->leaf, dim->leaf_count, out);
        print_set("@cluster", dim->cluster, dim->cluster_count, out);
        fputc('\n', out);
    }
    for (int v = 0; v < kernel->variant_count; v++) {
        const PhbVariant *variant = &kernel->variants[v];
        fprintf(out, "  leaf %d:", v + 1);
        for (int i = 0; i < kernel->dim_count; i++)
            if (kernel->dims[i].is_search)
                fprintf(out, " %s = %lld", kernel->dims[i].name, (long long)variant->values[i]);
        for (int i = 0; i < variant->cpu_count; i++)
            fprintf(out, "%s%s", i > 0 ? ", " : " on ", variant->cpu[i].level);
        for (int i = 0; i < variant->gpu_count; i++)
            print_image(&variant->gpu[i], i + variant->cpu_count > 0 ? ", " : " on ", out);
        if (variant->simt != NULL)
            fprintf(out, "%ssimulator", variant->cpu_count + variant->gpu_count > 0 ? ", " : " on ");
        fputc('\n', out);
    }
}

void info_print_text(const PhbProgram *program, FILE *out) {
    fprintf(out, "%s, by %s\n", program->file, program->compiler);
    for (int i = 0; i < program->kernel_count; i++) {
        fputc('\n', out);
        print_kernel(&program->kernels[i], out);
    }
}

static json_t *integers(const int64_t *values, int count) {
    json_t *array = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(array, json_integer(values[i]));
    return array;
}

static json_t *dims_json(const PhbKernel *kernel) {
    json_t *array = json_array();
    for (int i = 0; i < kernel->dim_count; i++) {
        const PhbDim *dim = &kernel->dims[i];
        json_t *object = json_pack("{s:s}", "name", dim->name);
        if (dim->is_search)
            json_object_set_new(object, "autotune", integers(dim->leaf, dim->leaf_count));
        if (dim->cluster_count > 0)
            json_object_set_new(object, "cluster", integers(dim->cluster, dim->cluster_count));
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *tensors_json(const PhbKernel *kernel) {
    json_t *array = json_array();
    for (int i = 0; i < kernel->tensor_count; i++) {
        const PhbTensor *tensor = &kernel->tensors[i];
        json_t *shape = json_array();
        for (int axis = 0; axis < tensor->rank; axis++)
            json_array_append_new(shape, json_string(tensor->axes[axis].extent.text));
        json_array_append_new(array, json_pack("{s:s, s:s, s:o, s:s}", "name", tensor->name, "dtype", dtype_name(tensor->dtype), "shape", shape,
                                         "mode", mode_names[tensor->mode]));
    }
    return array;
}

static json_t *scalars_json(const PhbKernel *kernel) {
    json_t *array = json_array();
    for (int i = 0; i < kernel->scalar_count; i++)
        json_array_append_new(array, json_pack("{s:s, s:s}", "name", kernel->scalars[i].name, "dtype", dtype_name(kernel->scalars[i].dtype)));
    return array;
}

static json_t *images_json(const PhbKernel *kernel, const PhbVariant *variant) {
    json_t *array = json_array();
    for (int i = 0; i < variant->gpu_count; i++) {
        const PhbGpuCode *code = &variant->gpu[i];
        json_t *stages = json_array();
        for (int s = 0; s < kernel->stage_count; s++)
            json_array_append_new(stages,
                json_pack("{s:s, s:i, s:i}", "entry", code->stages[s].entry, "threads", code->stages[s].threads, "shared", code->stages[s].shared));
        json_array_append_new(array, json_pack("{s:o, s:s, s:I, s:o}", "target", json_sprintf("sm_%d%s", code->arch, code->specific ? "a" : ""),
                                         "form", code->machine_code ? "machine code" : "ptx", "bytes", (json_int_t)code->size, "stages", stages));
    }
    return array;
}

static json_t *leaves_json(const PhbKernel *kernel) {
    json_t *array = json_array();
    for (int v = 0; v < kernel->variant_count; v++) {
        const PhbVariant *variant = &kernel->variants[v];
        json_t *values = json_object(), *cpu = json_array();
        for (int i = 0; i < kernel->dim_count; i++)
            if (kernel->dims[i].is_search)
                json_object_set_new(values, kernel->dims[i].name, json_integer(variant->values[i]));
        for (int i = 0; i < variant->cpu_count; i++)
            json_array_append_new(cpu, json_string(variant->cpu[i].level));
        json_array_append_new(array, json_pack("{s:o, s:o, s:o, s:b}", "autotune", values, "cpu", cpu, "gpu", images_json(kernel, variant),
                                         "simulator", variant->simt != NULL));
    }
    return array;
}

static void print_json(json_t *object, FILE *out) {
    json_dumpf(object, out, JSON_INDENT(2));
    fputc('\n', out);
    json_decref(object);
}

void info_print_json(const PhbProgram *program, FILE *out) {
    json_t *kernels = json_array();
    for (int i = 0; i < program->kernel_count; i++) {
        const PhbKernel *kernel = &program->kernels[i];
        json_array_append_new(
            kernels, json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "name", kernel->name, "source", kernel->source, "dims", dims_json(kernel), "tensors",
                         tensors_json(kernel), "scalars", scalars_json(kernel), "leaves", leaves_json(kernel)));
    }
    char build[2 * sizeof program->build_id + 1];
    for (size_t i = 0; i < sizeof program->build_id; i++)
        snprintf(build + 2 * i, 3, "%02x", program->build_id[i]);
    print_json(json_pack("{s:s, s:s, s:s, s:o}", "file", program->file, "compiler", program->compiler, "build", build, "kernels", kernels), out);
}

static json_t *template_scalar(int dtype) {
    switch (dtype) {
    case PHB_BOOL:
        return json_true();
    case PHB_F16:
    case PHB_BF16:
    case PHB_F32:
    case PHB_F64:
        return json_real(1.0);
    default:
        return json_integer(1);
    }
}

static void set_unless_empty(json_t *job, const char *key, json_t *section) {
    if (json_object_size(section) > 0)
        json_object_set_new(job, key, section);
    else
        json_decref(section);
}

/* A job for the first kernel: every key that may be given, with values to be replaced. */
void job_print_template(const PhbProgram *program, FILE *out) {
    enum { EXTENT = 1024 };
    if (program->kernel_count == 0)
        return;
    const PhbKernel *kernel = &program->kernels[0];
    json_t *job = json_pack("{s:s}", "kernel", kernel->name), *dims = json_object(), *scalars = json_object(), *tensors = json_object();
    json_t *cluster = json_object();
    for (int i = 0; i < kernel->dim_count; i++) {
        if (!kernel->dims[i].is_search)
            json_object_set_new(dims, kernel->dims[i].name, json_integer(EXTENT));
        if (kernel->dims[i].cluster_count > 0)
            json_object_set_new(cluster, kernel->dims[i].name, json_integer(kernel->dims[i].cluster[0]));
    }
    for (int i = 0; i < kernel->scalar_count; i++)
        json_object_set_new(scalars, kernel->scalars[i].name, template_scalar(kernel->scalars[i].dtype));
    for (int i = 0; i < kernel->tensor_count; i++) {
        const PhbTensor *tensor = &kernel->tensors[i];
        json_t *file = json_sprintf("%s.npy", tensor->name);
        if (tensor->dtype == PHB_BF16)
            file = json_pack("{s:o, s:s}", "uri", file, "dtype", dtype_name(PHB_BF16));
        json_object_set_new(tensors, tensor->name, file);
    }
    set_unless_empty(job, "dims", dims);
    set_unless_empty(job, "scalars", scalars);
    set_unless_empty(job, "tensors", tensors);
    set_unless_empty(job, "cluster", cluster);
    print_json(job, out);
}
