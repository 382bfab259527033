/* --schema: what job.json may say, as a JSON schema (draft 7) for editors and for programs that write jobs. It knows names, types and ranges; what
 * depends on files and on sizes that must agree is the job reader's. */
#include "runtime/job_reader.h"

#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#define DIALECT "http://json-schema.org/draft-07/schema#"

static json_t *closed(json_t *properties, json_t *required) {
    return json_pack("{s:s, s:o, s:o, s:b}", "type", "object", "properties", properties, "required", required, "additionalProperties", 0);
}

static json_t *positive(const char *description) {
    json_t *schema = json_pack("{s:s, s:i, s:I}", "type", "integer", "minimum", 1, "maximum", (json_int_t)INT64_MAX);
    if (description != NULL)
        json_object_set_new(schema, "description", json_string(description));
    return schema;
}

static json_t *text_schema(const char *description) {
    return json_pack("{s:s, s:s}", "type", "string", "description", description);
}

/* ---- scalars ---- */

/* Magnitudes from here on round to an infinity. */
static double float_limit(int dtype) {
    return dtype == PHB_F16 ? 65520 : dtype == PHB_BF16 ? ldexp(1, 128) - ldexp(1, 119) : ldexp(1, 128) - ldexp(1, 103);
}

static json_t *scalar_schema(int dtype) {
    switch (dtype) {
    case PHB_BOOL:
        return json_pack("{s:s}", "type", "boolean");
    case PHB_F64:
        return json_pack("{s:s}", "type", "number");
    case PHB_F16:
    case PHB_BF16:
    case PHB_F32:
        return json_pack("{s:s, s:f, s:f}", "type", "number", "exclusiveMinimum", -float_limit(dtype), "exclusiveMaximum", float_limit(dtype));
    default:
        break;
    }
    bool is_signed = dtype == PHB_I8 || dtype == PHB_I16 || dtype == PHB_I32 || dtype == PHB_I64;
    int bits = dtype_size(dtype) * 8 - is_signed;
    if (bits == 64) /* beyond the integers of the printer */
        return json_pack("{s:s, s:i, s:f}", "type", "integer", "minimum", 0, "exclusiveMaximum", ldexp(1, 64));
    json_int_t most = (json_int_t)(((uint64_t)1 << bits) - 1);
    return json_pack("{s:s, s:I, s:I}", "type", "integer", "minimum", is_signed ? -most - 1 : 0, "maximum", most);
}

static json_t *scalars_schema(const PhbKernel *kernel, bool all) {
    json_t *properties = json_object(), *required = json_array();
    for (int i = 0; i < kernel->scalar_count; i++) {
        json_t *schema = scalar_schema(kernel->scalars[i].dtype);
        json_object_set_new(schema, "description", json_string(dtype_name(kernel->scalars[i].dtype)));
        json_object_set_new(properties, kernel->scalars[i].name, schema);
        if (all)
            json_array_append_new(required, json_string(kernel->scalars[i].name));
    }
    return closed(properties, required);
}

/* ---- dims ---- */

static char *declared(const char *attribute, const int64_t *values, int count) {
    char *text = format_text("%s declares", attribute);
    for (int i = 0; i < count; i++)
        text = text_append(text, "%s %lld", i > 0 ? "," : "", (long long)values[i]);
    return text;
}

static json_t *dims_schema(const PhbKernel *kernel) {
    json_t *properties = json_object();
    for (int i = 0; i < kernel->dim_count; i++)
        if (!kernel->dims[i].is_search || dim_in_extent(kernel, i))
            json_object_set_new(properties, kernel->dims[i].name, positive(NULL));
    return closed(properties, json_array());
}

static json_t *cluster_schema(const PhbKernel *kernel) {
    json_t *properties = json_object();
    for (int i = 0; i < kernel->dim_count; i++) {
        const PhbDim *dim = &kernel->dims[i];
        if (dim->cluster_count == 0)
            continue;
        char *text = declared("@cluster", dim->cluster, dim->cluster_count);
        json_object_set_new(properties, dim->name, positive(text));
        free(text);
    }
    return closed(properties, json_array());
}

/* The values that embedded variants have. */
static json_t *embedded(const PhbKernel *kernel, int dim) {
    json_t *values = json_array();
    for (int v = 0; v < kernel->variant_count; v++) {
        json_int_t value = kernel->variants[v].values[dim];
        bool known = false;
        for (size_t i = 0; i < json_array_size(values); i++)
            known |= json_integer_value(json_array_get(values, i)) == value;
        if (!known)
            json_array_append_new(values, json_integer(value));
    }
    return json_pack("{s:o}", "enum", values);
}

static json_t *autotune_schema(const PhbKernel *kernel) {
    json_t *properties = json_object();
    for (int i = 0; i < kernel->dim_count; i++)
        if (kernel->dims[i].is_search)
            json_object_set_new(properties, kernel->dims[i].name, embedded(kernel, i));
    return closed(properties, json_array());
}

/* ---- tensors ---- */

static json_t *uri_schema(void) {
    return text_schema("a .npy file, or a raw one; a relative path is relative to the job file");
}

/* `rank` 0 and `dtype` -1: of any kernel. */
static json_t *file_schema(int dtype, int rank, bool in_pods) {
    json_t *shape = json_pack("{s:s, s:o}", "type", "array", "items", positive(NULL));
    json_object_set_new(shape, "minItems", json_integer(rank > 0 ? rank : 1));
    json_object_set_new(shape, "maxItems", json_integer(rank > 0 ? rank : PHB_MAX_RANK));
    json_t *types = json_array();
    for (int i = 0; i < PHB_DTYPE_COUNT; i++)
        if (dtype < 0 || i == dtype)
            json_array_append_new(types, json_string(dtype_name(i)));
    json_t *properties = json_pack("{s:o, s:o, s:o}", "uri", uri_schema(), "dtype", json_pack("{s:o}", "enum", types), "shape", shape);
    json_t *required = in_pods ? json_array() : json_pack("[s]", "uri");
    return json_pack("{s:[o, o]}", "anyOf", uri_schema(), closed(properties, required));
}

static char *tensor_text(const PhbTensor *tensor) {
    static const char *const modes[] = {[PHB_READ] = "read", [PHB_WRITE] = "written", [PHB_READ_WRITE] = "read and written"};
    char *text = format_text("%s [", dtype_name(tensor->dtype));
    for (int axis = 0; axis < tensor->rank; axis++)
        text = text_append(text, "%s%s", axis > 0 ? ", " : "", tensor->axes[axis].extent.text);
    return text_append(text, "], %s", modes[tensor->mode]);
}

/* Files, or, in a step, names of the job's tensors. */
static json_t *tensors_schema(const PhbKernel *kernel, bool in_step) {
    json_t *properties = json_object(), *required = json_array();
    for (int i = 0; i < kernel->tensor_count; i++) {
        const PhbTensor *tensor = &kernel->tensors[i];
        char *text = tensor_text(tensor);
        json_t *schema = in_step ? json_pack("{s:s}", "type", "string") : file_schema(tensor->dtype, tensor->rank, false);
        json_object_set_new(schema, "description", json_string(text));
        json_object_set_new(properties, tensor->name, schema);
        if (!in_step)
            json_array_append_new(required, json_string(tensor->name));
        free(text);
    }
    return closed(properties, required);
}

/* ---- jobs ---- */

static json_t *kernel_schema(const PhbProgram *program, const PhbKernel *kernel, bool in_step) {
    json_t *properties = json_pack("{s:{s:s}, s:o, s:o, s:o, s:o, s:o}", "kernel", "const", kernel->name, "dims", dims_schema(kernel), "scalars",
        scalars_schema(kernel, !in_step), "tensors", tensors_schema(kernel, in_step), "cluster", cluster_schema(kernel), "autotune",
        autotune_schema(kernel));
    json_t *required = json_array();
    if (program->kernel_count > 1)
        json_array_append_new(required, json_string("kernel"));
    if (!in_step && kernel->tensor_count > 0)
        json_array_append_new(required, json_string("tensors"));
    if (!in_step && kernel->scalar_count > 0)
        json_array_append_new(required, json_string("scalars"));
    if (!in_step)
        json_object_set_new(properties, "$schema", text_schema("where this schema is, for editors"));
    return closed(properties, required);
}

/* A section of a job of several steps, which has what any kernel knows. */
static json_t *joined(const PhbProgram *program, json_t *(*make)(const PhbKernel *kernel)) {
    json_t *all = json_object();
    for (int k = 0; k < program->kernel_count; k++) {
        json_t *schema = make(&program->kernels[k]), *properties = json_object_get(schema, "properties"), *property;
        const char *name;
        json_object_foreach(properties, name, property) {
            json_t *known = json_object_get(all, name), *either = known != NULL ? json_object_get(known, "anyOf") : NULL;
            if (known == NULL)
                json_object_set_new(all, name, json_pack("{s:[O]}", "anyOf", property));
            else
                json_array_append(either, property);
        }
        json_decref(schema);
    }
    return closed(all, json_array());
}

static json_t *any_scalars(const PhbKernel *kernel) {
    return scalars_schema(kernel, false);
}

static json_t *steps_schema(const PhbProgram *program) {
    json_t *kernels = json_array();
    for (int k = 0; k < program->kernel_count; k++)
        json_array_append_new(kernels, kernel_schema(program, &program->kernels[k], true));
    json_t *steps = json_pack("{s:s, s:i, s:i, s:{s:o}}", "type", "array", "minItems", 1, "maxItems", JOB_MAX_STEPS, "items", "anyOf", kernels);
    json_t *repeat = json_pack("{s:s, s:i, s:I}", "type", "integer", "minimum", 1, "maximum", (json_int_t)JOB_MAX_REPEAT);
    json_t *tensors = json_pack("{s:s, s:o}", "type", "object", "additionalProperties", file_schema(-1, 0, true));
    json_t *properties =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "steps", steps, "repeat", repeat, "tensors", tensors, "dims", joined(program, dims_schema),
            "scalars", joined(program, any_scalars), "cluster", joined(program, cluster_schema), "autotune", joined(program, autotune_schema));
    json_object_set_new(properties, "$schema", text_schema("where this schema is, for editors"));
    return closed(properties, json_pack("[s, s]", "steps", "tensors"));
}

void job_print_schema(const PhbProgram *program, FILE *out) {
    json_t *jobs = json_array();
    for (int k = 0; k < program->kernel_count; k++)
        json_array_append_new(jobs, kernel_schema(program, &program->kernels[k], false));
    json_array_append_new(jobs, steps_schema(program));
    json_t *schema = json_pack("{s:s, s:o, s:o}", "$schema", DIALECT, "title", json_sprintf("jobs of %s", program->file), "anyOf", jobs);
    json_dumpf(schema, out, JSON_INDENT(2));
    fputc('\n', out);
    json_decref(schema);
}
