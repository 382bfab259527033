/* A text, parsed and checked, and the problem that its comment sets. */
#include "tests/differential/differential.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void subject_open(Subject *subject, const char *text, bool check) {
    *subject = (Subject){.arena = arena_new(), .source = {.path = "kernel.phb", .text = text, .length = strlen(text)}};
    subject->stream = open_memstream(&subject->messages, &subject->messages_length);
    Arena *arena = subject->arena;
    Diag *diag = diag_new(arena, &subject->source, subject->stream, DIAG_TEXT, false);
    diag_set_quiet(diag, true);
    subject->context = (Context){arena, interner_new(arena), dim_pool_new(arena), type_pool_new(arena), diag, &subject->source};
    subject->ast = parse_source(&subject->context);
    SemaOptions options = {0};
    if (check && diag_error_count(diag) == 0)
        subject->program = sema_check(&subject->context, subject->ast, &options);
    subject->errors = diag_error_count(diag);
    diag_finish(diag);
    fflush(subject->stream);
    subject->is_unsupported = subject->messages && strstr(subject->messages, "not supported yet");
}

void subject_close(Subject *subject) {
    fclose(subject->stream);
    free(subject->messages);
    arena_free(subject->arena);
}

const CheckedKernel *subject_kernel(const Subject *subject, const char *name) {
    for (int i = 0; i < subject->program->kernels.count; i++)
        if (strcmp(subject->program->kernels.items[i]->signature.name, name) == 0)
            return subject->program->kernels.items[i];
    return NULL;
}

bool setting_read(const char *text, Setting *setting) {
    const char *line = strstr(text, "// differential ");
    int used = 0;
    if (!line || sscanf(line, "// differential %63s seed=%" SCNu64 "%n", setting->name, &setting->seed, &used) != 2)
        return false;
    const char *end = strchr(line, '\n');
    if (!end)
        return false;
    snprintf(setting->dims, sizeof setting->dims, "%.*s", (int)(end - line) - used, line + used);
    return true;
}

static bool read_dims(Problem *problem, const Subject *subject, const Setting *setting, DimValue *dims) {
    const Signature *signature = &problem->kernel->signature;
    char name[64];
    int64_t value;
    int used;
    for (const char *at = setting->dims; sscanf(at, " %63[A-Za-z0-9_]=%" SCNd64 "%n", name, &value, &used) == 2; at += used)
        dims[problem->dim_count++] = (DimValue){intern_cstr(subject->context.interner, name), value};
    for (int i = 0; i < signature->search.count; i++)
        dims[problem->dim_count++] = (DimValue){signature->search.items[i].name, signature->search.items[i].leaf.items[0]};
    return true;
}

static bool init_tensor(const Problem *problem, const Param *param, const Setting *setting, Tensor *tensor) {
    Value *value = &tensor->value;
    value->scalar = param->type->scalar;
    value->rank = param->type->rank;
    for (int axis = 0; axis < value->rank; axis++)
        if (!problem_dim(problem, param->type->dims[axis], &value->extent[axis]) || value->extent[axis] < 1 || value->extent[axis] > 4096)
            return false;
    if (value_count(value) > 1 << 22)
        return false;
    value->at = calloc((size_t)value_count(value), sizeof *value->at);
    /* The generator's names: what begins with 'o' is stored to. */
    data_fill(tensor, param->name, setting->seed, param->name[0] == 'o');
    return true;
}

bool problem_init(Problem *problem, const Subject *subject, const Setting *setting) {
    *problem = (Problem){.dims_pool = subject->context.dims, .max_work = 20000000};
    problem->kernel = subject_kernel(subject, setting->name);
    if (!problem->kernel)
        return false;
    const Signature *signature = &problem->kernel->signature;
    DimValue *dims = NEW_ARRAY(subject->arena, DimValue, 64 + signature->search.count);
    problem->dims = dims;
    problem->tensors = NEW_ARRAY(subject->arena, Tensor, signature->params.count);
    bool is_sound = read_dims(problem, subject, setting, dims);
    for (int i = 0; is_sound && i < signature->params.count; i++)
        is_sound = init_tensor(problem, &signature->params.items[i], setting, &problem->tensors[i]);
    if (!is_sound)
        problem_fini(problem);
    return is_sound;
}

void problem_fini(Problem *problem) {
    for (int i = 0; problem->kernel && i < problem->kernel->signature.params.count; i++)
        free(problem->tensors[i].value.at);
}
