/* A text, parsed and checked, and the problem that its comment sets. */
#include "compiler/lower/lower.h"
#include "tests/differential/differential.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Refusals of the second reading are the language's, too. The tree stays as sema left it. */
static void read_again(Subject *subject) {
    IrModule *module = lower_program(&subject->context, subject->program, "kernel.phb");
    bool changed = true;
    while (changed) {
        changed = false;
        for (int i = 0; i < module->kernels.count; i++) {
            IrKernel *kernel = module->kernels.items[i];
            changed |= ir_fold(&subject->context, kernel) | ir_control(&subject->context, kernel) | ir_cse(&subject->context, kernel) |
                       ir_licm(&subject->context, kernel) | ir_dce(&subject->context, kernel);
        }
    }
    cluster_split(&subject->context, module);
}

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
    if (subject->program && diag_error_count(diag) == 0)
        read_again(subject);
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

static void read_dims(Problem *problem, const Subject *subject, const Setting *setting, DimValue *dims) {
    char name[64];
    int64_t value;
    int used;
    for (const char *at = setting->dims; sscanf(at, " %63[A-Za-z0-9_]=%" SCNd64 "%n", name, &value, &used) == 2; at += used)
        dims[problem->dim_count++] = (DimValue){intern_cstr(subject->context.interner, name), value};
}

static bool measure_tensor(const Problem *problem, const Param *param, Value *value) {
    value->scalar = param->type->scalar;
    value->rank = param->type->rank;
    for (int axis = 0; axis < value->rank; axis++)
        if (!problem_dim(problem, param->type->dims[axis], &value->extent[axis]) || value->extent[axis] < 1 || value->extent[axis] > 4096)
            return false;
    return value_count(value) <= 1 << 22;
}

static bool measure_tensors(const Problem *problem) {
    const Signature *signature = &problem->kernel->signature;
    bool is_sound = true;
    for (int i = 0; is_sound && i < signature->params.count; i++)
        is_sound = measure_tensor(problem, &signature->params.items[i], &problem->tensors[i].value);
    return is_sound;
}

/* Some leaf under which the kernel may be launched on this problem. */
static bool choose_leaf(const Tools *tools, const Problem *problem, const Setting *setting, DimValue *search) {
    int first = (int)(setting->seed % 64), count = leaf_values(tools, problem->kernel, first, search);
    for (int i = 0; i < count; i++) {
        leaf_values(tools, problem->kernel, first + i, search);
        if (measure_tensors(problem) && problem_launches(problem))
            return true;
    }
    return false;
}

bool problem_init(Problem *problem, const Tools *tools, const Subject *subject, const Setting *setting) {
    *problem = (Problem){.dims_pool = subject->context.dims, .max_work = 20000000, .any_order = tools->any_order};
    problem->kernel = subject_kernel(subject, setting->name);
    if (!problem->kernel)
        return false;
    const Signature *signature = &problem->kernel->signature;
    DimValue *dims = NEW_ARRAY(subject->arena, DimValue, 128 + signature->search.count);
    problem->dims = dims;
    problem->tensors = NEW_ARRAY(subject->arena, Tensor, signature->params.count);
    read_dims(problem, subject, setting, dims);
    problem->dim_count += signature->search.count;
    if (!choose_leaf(tools, problem, setting, &dims[problem->dim_count - signature->search.count]))
        return false;
    for (int i = 0; i < signature->params.count; i++) {
        Tensor *tensor = &problem->tensors[i];
        tensor->value.at = calloc((size_t)value_count(&tensor->value), sizeof *tensor->value.at);
        /* The generator's names: what begins with 'o' is stored to. */
        data_fill(tensor, signature->params.items[i].name, setting->seed, signature->params.items[i].name[0] == 'o');
    }
    return true;
}

void problem_fini(Problem *problem) {
    for (int i = 0; i < problem->kernel->signature.params.count; i++)
        free(problem->tensors[i].value.at);
}
