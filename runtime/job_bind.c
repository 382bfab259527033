/* Dims and shapes, each from the other; what must then hold. A value that two places give must be the same in both. */
#include "runtime/job_reader.h"

#include <stdlib.h>
#include <string.h>

static ExprScope scope_of(const JobReader *reader, bool *bound) {
    for (int i = 0; i < reader->kernel->dim_count; i++)
        bound[i] = reader->dims[i].bound;
    return (ExprScope){.dims = reader->job->dims, .bound = bound};
}

static int bare_dim(const PhbExpr *extent) {
    return extent->count == 1 && extent->nodes[0].op == PHB_EXPR_DIM ? extent->nodes[0].index : -1;
}

static void bind_axis(JobReader *reader, int index, int axis, int dim) {
    const PhbTensor *tensor = &reader->kernel->tensors[index];
    const TensorEntry *entry = &reader->tensors[index];
    DimEntry *state = &reader->dims[dim];
    int64_t found = entry->shape[axis], *value = &reader->job->dims[dim];
    if (!state->bound) {
        state->bound = true;
        state->owner = tensor->name;
        *value = found;
    } else if (*value != found) {
        char *owner = state->owner != NULL ? format_text("by tensor \"%s\"", state->owner) : format_text("in the job");
        report(reader, entry->from_header ? entry->uri : entry->shape_node, "tensor \"%s\": axis %d is %s = %lld %s, found %lld", tensor->name, axis,
            reader->kernel->dims[dim].name, (long long)*value, owner, (long long)found);
        free(owner);
    }
}

/* True where a mistake reported before may be why the dim is not known. */
static bool excused(const JobReader *reader, int dim) {
    const PhbKernel *kernel = reader->kernel;
    const JsonNode *dims = json_member(reader->root, "dims");
    if (reader->dims[dim].failed || (dims != NULL && dims->kind != JSON_NODE_OBJECT))
        return true;
    for (int i = 0; i < kernel->tensor_count; i++)
        for (int axis = 0; reader->tensors[i].failed && axis < kernel->tensors[i].rank; axis++)
            if (bare_dim(&kernel->tensors[i].axes[axis].extent) == dim)
                return true;
    return false;
}

static void bind_search_dim(JobReader *reader, int dim) {
    const PhbDim *declared = &reader->kernel->dims[dim];
    Job *job = reader->job;
    DimEntry *state = &reader->dims[dim];
    bool fixed = state->bound; /* by a tensor's extent, or by the job */
    job->fixed[dim] = fixed;
    if (!fixed && declared->cluster_count > 0)
        job->dims[dim] = declared->cluster[0];
    else if (!fixed && state->in_extent && job->leaf_values[dim] > 0)
        job->dims[dim] = job->leaf_values[dim];
    else if (!fixed && state->in_extent && declared->leaf_count == 1)
        job->dims[dim] = declared->leaf[0];
    state->bound = job->dims[dim] > 0;
    /* An extent that is not cut up is the leaf's too. */
    if (!fixed || declared->cluster_count > 0)
        return;
    if (job->leaf_values[dim] > 0 && job->leaf_values[dim] != job->dims[dim])
        report(reader, json_member(section(reader, "autotune"), declared->name), "\"%s\" is %lld here, and %lld is the extent of a tensor",
            declared->name, (long long)job->leaf_values[dim], (long long)job->dims[dim]);
    job->leaf_values[dim] = job->dims[dim];
}

void bind_dims(JobReader *reader) {
    const PhbKernel *kernel = reader->kernel;
    for (int i = 0; i < kernel->tensor_count; i++)
        for (int axis = 0; !reader->tensors[i].failed && reader->tensors[i].shape_known && axis < kernel->tensors[i].rank; axis++) {
            int dim = bare_dim(&kernel->tensors[i].axes[axis].extent);
            if (dim >= 0)
                bind_axis(reader, i, axis, dim);
        }
    for (int dim = 0; dim < kernel->dim_count; dim++) {
        if (kernel->dims[dim].is_search)
            bind_search_dim(reader, dim);
        bool needed = !kernel->dims[dim].is_search || reader->dims[dim].in_extent;
        if (needed && !reader->dims[dim].bound && !excused(reader, dim))
            report(reader, section(reader, "dims"), "dim \"%s\" is not known: no header or shape of an input fixes it; give it under \"dims\"",
                kernel->dims[dim].name);
    }
}

/* The extents that the kernel's signature gives; false where a dim is not known, or the value is reported as impossible. */
static bool evaluate_shape(JobReader *reader, int index, int64_t *shape) {
    const PhbTensor *tensor = &reader->kernel->tensors[index];
    bool bound[PHB_MAX_DIMS];
    ExprScope scope = scope_of(reader, bound);
    for (int axis = 0; axis < tensor->rank; axis++) {
        const PhbExpr *extent = &tensor->axes[axis].extent;
        for (int node = 0; node < extent->count; node++)
            if (extent->nodes[node].op == PHB_EXPR_DIM && !bound[extent->nodes[node].index])
                return false;
        if (!expr_eval(extent, &scope, &shape[axis])) {
            report(reader, reader->tensors[index].uri, "tensor \"%s\": axis %d, %s, overflows or divides by zero", tensor->name, axis, extent->text);
            return false;
        }
        if (shape[axis] < 1) {
            report(reader, reader->tensors[index].uri, "tensor \"%s\": axis %d, %s, is %lld; extents are at least 1", tensor->name, axis,
                extent->text, (long long)shape[axis]);
            return false;
        }
    }
    return true;
}

static bool shape_agrees(JobReader *reader, int index, const int64_t *shape) {
    const PhbTensor *tensor = &reader->kernel->tensors[index];
    const TensorEntry *entry = &reader->tensors[index];
    bool agrees = true;
    for (int axis = 0; axis < tensor->rank; axis++) {
        if (shape[axis] == entry->shape[axis])
            continue;
        agrees = false;
        if (bare_dim(&tensor->axes[axis].extent) < 0) /* else bind_axis has said so */
            report(reader, entry->from_header ? entry->uri : entry->shape_node, "tensor \"%s\": axis %d is %s = %lld, found %lld", tensor->name, axis,
                tensor->axes[axis].extent.text, (long long)shape[axis], (long long)entry->shape[axis]);
    }
    return agrees;
}

static bool bytes_fit(const TensorFile *file, int64_t *bytes) {
    *bytes = dtype_size(file->dtype);
    for (int axis = 0; axis < file->rank; axis++)
        if (__builtin_mul_overflow(*bytes, file->shape[axis], bytes))
            return false;
    return *bytes <= INT64_MAX - NPY_MAX_HEADER;
}

void bind_file(JobReader *reader, int index, const int64_t *shape) {
    const PhbTensor *tensor = &reader->kernel->tensors[index];
    const TensorEntry *entry = &reader->tensors[index];
    TensorFile *file = &reader->job->tensors[index];
    memcpy(file->shape, shape, (size_t)file->rank * sizeof *shape);
    char *text = shape_text(file->dtype, file->rank, shape);
    int64_t bytes;
    if (!bytes_fit(file, &bytes)) {
        report(reader, entry->uri, "tensor \"%s\": %s takes more than 2^63 bytes", tensor->name, text);
    } else if (file->old_fd < 0) {
        char header[256];
        file->data_offset = file->is_npy ? npy_write_header(header, file->dtype, file->rank, file->shape) : 0;
    } else if (file->file_size != file->data_offset + bytes) {
        report(reader, entry->uri, "tensor \"%s\": expected %lld bytes, found %lld in \"%s\" (%s)", tensor->name,
            (long long)(file->data_offset + bytes), (long long)file->file_size, file->path, text);
    }
    free(text);
}

void bind_shapes(JobReader *reader) {
    for (int i = 0; i < reader->kernel->tensor_count; i++) {
        const TensorEntry *entry = &reader->tensors[i];
        int64_t shape[PHB_MAX_RANK];
        if (entry->failed || !evaluate_shape(reader, i, shape))
            continue;
        if (!entry->shape_known || shape_agrees(reader, i, shape))
            bind_file(reader, i, shape);
    }
}

/* " (M = 100, BLOCK = 64)": the dims that a condition speaks of. */
static char *values_text(const JobReader *reader, const PhbExpr *cond) {
    char *text = NULL;
    bool shown[PHB_MAX_DIMS] = {false};
    for (int node = 0; node < cond->count; node++) {
        int dim = cond->nodes[node].index;
        if (cond->nodes[node].op != PHB_EXPR_DIM || shown[dim])
            continue;
        shown[dim] = true;
        text = text_append(text, "%s%s = %lld", text == NULL ? " (" : ", ", reader->kernel->dims[dim].name, (long long)reader->job->dims[dim]);
    }
    return text != NULL ? text_append(text, ")") : format_text("%s", "");
}

void check_conditions(JobReader *reader) {
    const PhbKernel *kernel = reader->kernel;
    bool bound[PHB_MAX_DIMS];
    ExprScope scope = scope_of(reader, bound);
    for (int i = 0; i < kernel->dim_count; i++)
        if (!kernel->dims[i].is_search && !bound[i])
            return; /* reported */
    for (int i = 0; i < kernel->bind_check_count; i++) {
        const PhbCheck *check = &kernel->bind_checks[i];
        int64_t holds;
        bool evaluated = expr_eval(&check->cond, &scope, &holds);
        if (evaluated && holds != 0)
            continue;
        char *values = values_text(reader, &check->cond);
        report(reader, section(reader, "dims"), "%s%s%s", check->message, evaluated ? "" : "; it cannot be evaluated", values);
        free(values);
    }
}

/* "BLOCK = 16, D = 64": the dims that are wanted, with these values; NULL where none is wanted. */
static char *assignment_text(const PhbKernel *kernel, const int64_t *wanted, const int64_t *values) {
    char *text = NULL;
    for (int dim = 0; dim < kernel->dim_count; dim++)
        if (wanted[dim] != 0)
            text = text_append(text, "%s%s = %lld", text == NULL ? "" : ", ", kernel->dims[dim].name, (long long)values[dim]);
    return text;
}

static bool assignment_fits(const PhbKernel *kernel, const int64_t *wanted, const int64_t *values) {
    for (int dim = 0; dim < kernel->dim_count; dim++)
        if (wanted[dim] != 0 && wanted[dim] != values[dim])
            return false;
    return true;
}

void check_variants(JobReader *reader) {
    const PhbKernel *kernel = reader->kernel;
    const int64_t *wanted = reader->job->leaf_values;
    for (int v = 0; v < kernel->variant_count; v++)
        if (assignment_fits(kernel, wanted, kernel->variants[v].values))
            return;
    char *asked = assignment_text(kernel, wanted, wanted);
    if (asked == NULL)
        return;
    char *variants = NULL;
    for (int v = 0; v < kernel->variant_count; v++) {
        char *one = assignment_text(kernel, wanted, kernel->variants[v].values);
        variants = text_append(variants, "%s%s", variants == NULL ? "" : "; ", one);
        free(one);
    }
    report(reader, section(reader, "autotune"), "no leaf with %s is embedded; there are: %s (phobosc -D leaf.NAME=N and --variants=N embed others)",
        asked, variants != NULL ? variants : "none");
    free(variants);
    free(asked);
}
