/* Jobs of several steps: "steps" and "repeat" of job.json.
 *
 * The job declares its tensors once; each step names a kernel and says which of them the kernel's tensors are. What of "dims", "scalars", "cluster"
 * and "autotune" a step's kernel knows by name it has from the job, where the step does not say it itself. So each step is read as a job of its own
 * whose sections are put together here, and whose files are the whole's: those are opened once, as what all steps together do with them. */
#include "runtime/job_reader.h"

#include <stdlib.h>
#include <string.h>

/* A step under construction. */
typedef struct StepText {
    const JsonNode *node;
    const PhbKernel *kernel;                /* NULL: refused */
    const JsonNode *places[PHB_MAX_PARAMS]; /* where a tensor of the kernel is bound */
    int tensors[PHB_MAX_PARAMS];            /* among the declared ones, -1: none */
} StepText;

/* A member of "tensors". */
typedef struct Declared {
    const JsonNode *node;
    const PhbTensor *like; /* the first that it is bound to; NULL: nobody uses it */
    int like_step, mode;
    bool read;  /* after it was written */
    int number; /* among the tensors of the whole */
} Declared;

typedef struct StepsReader {
    JobReader *whole;
    const PhbProgram *program;
    StepText steps[JOB_MAX_STEPS];
    int count;
    Declared declared[PHB_MAX_PARAMS];
    int declared_count;
} StepsReader;

/* ---- what a job gives to several kernels ---- */

typedef bool Knows(const PhbKernel *kernel, const char *name);

static bool knows_dim(const PhbKernel *kernel, const char *name) {
    int dim = dim_find(kernel, name);
    return dim >= 0 && (!kernel->dims[dim].is_search || dim_in_extent(kernel, dim));
}

static bool knows_cluster(const PhbKernel *kernel, const char *name) {
    int dim = dim_find(kernel, name);
    return dim >= 0 && kernel->dims[dim].cluster_count > 0;
}

static bool knows_autotune(const PhbKernel *kernel, const char *name) {
    int dim = dim_find(kernel, name);
    return dim >= 0 && kernel->dims[dim].is_search;
}

static bool knows_scalar(const PhbKernel *kernel, const char *name) {
    for (int i = 0; i < kernel->scalar_count; i++)
        if (strcmp(kernel->scalars[i].name, name) == 0)
            return true;
    return false;
}

typedef struct Shared {
    const char *section, *what;
    Knows *knows;
} Shared;

static const Shared shared[] = {{"dims", "dim", knows_dim}, {"scalars", "scalar", knows_scalar}, {"cluster", "@cluster dim", knows_cluster},
    {"autotune", "@autotune dim", knows_autotune}};

enum { SHARED = sizeof shared / sizeof *shared };

/* Something that no step's kernel knows. */
static void check_shared(const StepsReader *steps, const Shared *what) {
    const JsonNode *given = section(steps->whole, what->section);
    for (const JsonNode *member = given != NULL ? given->first : NULL; member != NULL; member = member->next) {
        bool known = false;
        for (int s = 0; s < steps->count; s++)
            known |= steps->steps[s].kernel == NULL || what->knows(steps->steps[s].kernel, member->key);
        if (!known)
            report(steps->whole, member, "no kernel of the steps has a %s \"%s\"", what->what, member->key);
    }
}

/* ---- which tensor is which ---- */

static void declare(StepsReader *steps) {
    const JsonNode *tensors = section(steps->whole, "tensors");
    for (const JsonNode *member = tensors != NULL ? tensors->first : NULL; member != NULL; member = member->next) {
        if (steps->declared_count == PHB_MAX_PARAMS) {
            report(steps->whole, member, "a job has at most %d tensors", PHB_MAX_PARAMS);
            return;
        }
        steps->declared[steps->declared_count++] = (Declared){.node = member, .mode = PHB_UNUSED};
    }
}

static int declared_find(const StepsReader *steps, const char *name) {
    for (int t = 0; t < steps->declared_count; t++)
        if (strcmp(steps->declared[t].node->key, name) == 0)
            return t;
    return -1;
}

/* The tensor of the job that a kernel's is: as the step says, else that of the same name. */
static void bind_tensor(StepsReader *steps, JobReader *reader, StepText *step, int index) {
    const JsonNode *bindings = section(reader, "tensors");
    const char *param = step->kernel->tensors[index].name;
    const JsonNode *place = bindings != NULL ? json_member(bindings, param) : NULL;
    step->places[index] = place != NULL ? place : step->node;
    step->tensors[index] = -1;
    if (place != NULL && place->kind != JSON_NODE_STRING) {
        report(reader, place, "tensor \"%s\": expected the name of a tensor under \"tensors\" of the job, found %s", param, json_kind_text(place));
        return;
    }
    const char *name = place != NULL ? place->text : param;
    step->tensors[index] = declared_find(steps, name);
    if (step->tensors[index] >= 0)
        return;
    const char *names[PHB_MAX_PARAMS];
    for (int t = 0; t < steps->declared_count; t++)
        names[t] = steps->declared[t].node->key;
    const char *nearest = name_nearest(name, names, steps->declared_count);
    report(reader, step->places[index], "tensor \"%s\" of kernel \"%s\": the job has no tensor \"%s\"%s%s%s", param, step->kernel->name, name,
        nearest != NULL ? "; did you mean \"" : ": declare it under \"tensors\"", nearest != NULL ? nearest : "", nearest != NULL ? "\"?" : "");
}

/* Tensors of a kernel are different ones where one of them is written. */
static void check_step_aliases(JobReader *reader, const StepText *step) {
    const PhbTensor *tensors = step->kernel->tensors;
    for (int t = 0; t < step->kernel->tensor_count; t++)
        for (int other = 0; other < t; other++)
            if (step->tensors[t] >= 0 && step->tensors[t] == step->tensors[other] && (tensors[t].mode != PHB_READ || tensors[other].mode != PHB_READ))
                report(reader, step->places[t], "\"%s\" and \"%s\" are the same tensor, and \"%s\" is written", tensors[other].name, tensors[t].name,
                    tensors[t].mode != PHB_READ ? tensors[t].name : tensors[other].name);
}

/* What steps do to a tensor, in their order, is what the job does to its file. */
static void use_tensor(StepsReader *steps, JobReader *reader, int number, int index) {
    const StepText *step = &steps->steps[number];
    Declared *declared = &steps->declared[step->tensors[index]];
    const PhbTensor *tensor = &step->kernel->tensors[index];
    if (declared->like == NULL) {
        declared->like = tensor;
        declared->like_step = number;
        declared->mode = tensor->mode;
        return;
    }
    if (declared->like->dtype != tensor->dtype || declared->like->rank != tensor->rank)
        report(reader, step->places[index], "tensor \"%s\" is %s of rank %d here, and %s of rank %d in step %d", declared->node->key,
            dtype_name(tensor->dtype), tensor->rank, dtype_name(declared->like->dtype), declared->like->rank, declared->like_step + 1);
    declared->read |= tensor->mode != PHB_WRITE && declared->mode != PHB_READ;
    if (declared->mode == PHB_READ && tensor->mode != PHB_READ)
        declared->mode = PHB_READ_WRITE;
}

static void read_step(StepsReader *steps, int number, const JsonNode *node) {
    static const char *const names[] = {"kernel", "tensors", "scalars", "dims", "cluster", "autotune"};
    StepText *step = &steps->steps[number];
    JobReader reader = *steps->whole;
    step->node = reader.root = node;
    if (!expect_kind(&reader, node, "a step", JSON_NODE_OBJECT))
        return;
    for (const JsonNode *member = node->first; member != NULL; member = member->next) {
        int which = 0;
        while (which < 6 && strcmp(names[which], member->key) != 0)
            which++;
        if (which == 6)
            report_unknown(&reader, member, "key", names, 6);
        else
            expect_kind(&reader, member, names[which], which == 0 ? JSON_NODE_STRING : JSON_NODE_OBJECT);
    }
    step->kernel = reader.kernel = choose_kernel(&reader, steps->program);
    if (step->kernel == NULL)
        return;
    const char *params[PHB_MAX_PARAMS];
    int count = step->kernel->tensor_count;
    for (int t = 0; t < count; t++)
        params[t] = step->kernel->tensors[t].name;
    const JsonNode *bindings = section(&reader, "tensors");
    for (const JsonNode *member = bindings != NULL ? bindings->first : NULL; member != NULL; member = member->next) {
        int known = 0;
        while (known < count && strcmp(params[known], member->key) != 0)
            known++;
        if (known == count)
            report_unknown(&reader, member, "tensor", params, count);
    }
    for (int t = 0; t < count; t++)
        bind_tensor(steps, &reader, step, t);
    check_step_aliases(&reader, step);
    for (int t = 0; t < count; t++)
        if (step->tensors[t] >= 0)
            use_tensor(steps, &reader, number, t);
}

static bool is_in_pods(const Declared *declared) {
    return declared->node->kind == JSON_NODE_OBJECT && json_member(declared->node, "uri") == NULL;
}

/* The first step that uses it in the second repetition finds what the last one that wrote to it has left. */
static bool read_again(const StepsReader *steps, int tensor) {
    const Declared *declared = &steps->declared[tensor];
    const StepText *step = &steps->steps[declared->like_step];
    return step->kernel->tensors[declared->like - step->kernel->tensors].mode != PHB_WRITE;
}

static void check_declared(StepsReader *steps, int64_t repeat) {
    for (int t = 0; t < steps->declared_count; t++) {
        const Declared *declared = &steps->declared[t];
        const char *name = declared->node->key;
        if (declared->like == NULL)
            report(steps->whole, declared->node, "tensor \"%s\" is used by no step", name);
        else if (is_in_pods(declared) && declared->like->mode == PHB_READ)
            report(steps->whole, declared->node, "tensor \"%s\" has no \"uri\", and step %d reads it before any step has written it", name,
                declared->like_step + 1);
        else if (is_in_pods(declared) && !declared->read && !(repeat > 1 && read_again(steps, t)))
            report(steps->whole, declared->node, "tensor \"%s\" has no \"uri\", and no step reads what is written to it: it would be lost", name);
    }
}

/* ---- the whole ---- */

/* "jacobi, scale": each kernel once. */
static char *names_of(const StepsReader *steps) {
    char *text = NULL;
    for (int s = 0; s < steps->count; s++) {
        bool before = false;
        for (int other = 0; other < s; other++)
            before |= steps->steps[other].kernel == steps->steps[s].kernel;
        if (!before)
            text = text_append(text, "%s%s", text != NULL ? ", " : "", steps->steps[s].kernel->name);
    }
    return text;
}

/* Numbers the tensors, files first, and makes of them what the job is as a whole. */
static void make_kernel(StepsReader *steps, Sequence *sequence) {
    PhbTensor *tensors = new_zeroed((size_t)steps->declared_count, sizeof *tensors);
    for (int pods = 0; pods <= 1; pods++)
        for (int t = 0; t < steps->declared_count; t++) {
            Declared *declared = &steps->declared[t];
            if (is_in_pods(declared) != pods)
                continue;
            declared->number = sequence->tensor_count++;
            tensors[declared->number] = (PhbTensor){
                .name = format_text("%s", declared->node->key), .dtype = declared->like->dtype, .rank = declared->like->rank, .mode = declared->mode};
        }
    sequence->kernel = (PhbKernel){.name = names_of(steps), .source = "", .tensors = tensors, .tensor_count = sequence->tensor_count};
}

static int count_members(const JsonNode *object) {
    return object != NULL ? object->count : 0;
}

/* A section of a step: what it says itself, then what its kernel knows of the job's. */
static void put_section(const StepsReader *steps, const StepText *step, const Shared *what, JsonNode **nodes, JsonNode *root) {
    const JsonNode *own = json_member(step->node, what->section), *given = section(steps->whole, what->section);
    own = own != NULL && own->kind == JSON_NODE_OBJECT ? own : NULL;
    if (own == NULL && given == NULL)
        return;
    JsonNode *put = (*nodes)++, **end = &put->first;
    *put = own != NULL ? *own : *step->node;
    put->key = (char *)(uintptr_t)what->section;
    put->kind = JSON_NODE_OBJECT;
    put->first = NULL;
    for (int from = 0; from < 2; from++) {
        const JsonNode *object = from == 0 ? own : given;
        for (const JsonNode *member = object != NULL ? object->first : NULL; member != NULL; member = member->next) {
            if (from == 1 && (!what->knows(step->kernel, member->key) || (own != NULL && json_member(own, member->key) != NULL)))
                continue;
            *end = (*nodes)++;
            **end = *member;
            (*end)->next = NULL;
            end = &(*end)->next;
        }
    }
    put->next = root->first;
    root->first = put;
}

static void take_shapes(const JobReader *whole, JobReader *reader, const StepText *step, const int *tensors) {
    for (int t = 0; t < step->kernel->tensor_count; t++) {
        TensorEntry *entry = &reader->tensors[t];
        *entry = whole->tensors[tensors[t]];
        entry->uri = step->places[t];
        entry->shape_node = step->places[t];
        reader->job->tensors[t].dtype = step->kernel->tensors[t].dtype;
        reader->job->tensors[t].rank = step->kernel->tensors[t].rank;
    }
}

/* What a step has made of its tensors' shapes, for the steps after it. */
static void give_shapes(JobReader *whole, const JobReader *reader, const int *tensors) {
    for (int t = 0; t < reader->kernel->tensor_count; t++) {
        TensorEntry *entry = &whole->tensors[tensors[t]];
        const int64_t *shape = reader->job->tensors[t].shape;
        if (entry->failed || shape[0] == 0 || whole->job->tensors[tensors[t]].shape[0] != 0)
            continue;
        memcpy(entry->shape, shape, sizeof entry->shape);
        entry->shape_known = true;
        bind_file(whole, tensors[t], shape);
    }
}

static void take_remarks(ErrorList *to, ErrorList *from) {
    for (int i = 0; i < from->count; i++)
        errors_add(to, "%s", from->lines[i]);
    errors_free(from);
    *from = (ErrorList){0};
}

static void make_step(const StepsReader *steps, int number, JobStep *made) {
    const StepText *step = &steps->steps[number];
    JobReader *whole = steps->whole, reader = *whole;
    int most = SHARED;
    for (int i = 0; i < SHARED; i++)
        most += count_members(section(whole, shared[i].section)) + count_members(json_member(step->node, shared[i].section));
    JsonNode *nodes = new_zeroed((size_t)most, sizeof *nodes), *next = nodes, root = *step->node;
    root.first = NULL;
    for (int i = 0; i < SHARED; i++)
        put_section(steps, step, &shared[i], &next, &root);
    made->tensors = new_zeroed((size_t)step->kernel->tensor_count, sizeof *made->tensors);
    for (int t = 0; t < step->kernel->tensor_count; t++)
        made->tensors[t] = steps->declared[step->tensors[t]].number;
    made->job = reader.job = new_zeroed(1, sizeof *made->job);
    made->job->program = steps->program;
    made->job->path = whole->path;
    reader.root = &root;
    reader_begin(&reader, step->kernel);
    take_shapes(whole, &reader, step, made->tensors);
    bind_dims(&reader);
    bind_shapes(&reader);
    give_shapes(whole, &reader, made->tensors);
    check_conditions(&reader);
    check_variants(&reader);
    reader_end(&reader);
    take_remarks(&whole->job->remarks, &made->job->remarks);
    free(nodes);
}

/* The files are there, and each step is bound to what the ones before it say of their shapes. */
static void make_sequence(StepsReader *steps, Sequence *sequence) {
    JobReader *whole = steps->whole;
    const JsonNode *root = whole->root;
    JsonNode tensors_only = *root, tensors = *section(whole, "tensors");
    make_kernel(steps, sequence);
    tensors.next = NULL;
    tensors_only.first = &tensors;
    whole->root = &tensors_only;
    reader_begin(whole, &sequence->kernel);
    for (int t = 0; t < steps->declared_count; t++)
        whole->tensors[steps->declared[t].number].in_pods = is_in_pods(&steps->declared[t]);
    read_tensors(whole);
    check_aliases(whole);
    whole->root = root;
    for (int s = 0; s < steps->count; s++)
        make_step(steps, s, &sequence->steps[s]);
    reader_end(whole);
    sequence->kernel.tensor_count = 0;
    for (int t = 0; t < steps->declared_count; t++)
        sequence->kernel.tensor_count += !is_in_pods(&steps->declared[t]);
}

void read_steps(JobReader *reader, const PhbProgram *program) {
    const JsonNode *list = json_member(reader->root, "steps"), *repeat = json_member(reader->root, "repeat");
    Job *job = reader->job;
    int errors_before = reader->errors->count;
    int64_t times = 1;
    if (repeat != NULL && read_positive(reader, repeat, "repeat", &times) && times > JOB_MAX_REPEAT)
        report(reader, repeat, "repeat: expected 1 to %d, found %s", JOB_MAX_REPEAT, repeat->text);
    if (list->kind != JSON_NODE_ARRAY)
        return;
    if (list->count < 1 || list->count > JOB_MAX_STEPS) {
        report(reader, list, "steps: expected 1 to %d, found %d", JOB_MAX_STEPS, list->count);
        return;
    }
    StepsReader *steps = new_zeroed(1, sizeof *steps);
    steps->whole = reader;
    steps->program = program;
    declare(steps);
    for (const JsonNode *node = list->first; node != NULL; node = node->next, steps->count++)
        read_step(steps, steps->count, node);
    for (int i = 0; i < SHARED; i++)
        check_shared(steps, &shared[i]);
    if (reader->errors->count == errors_before)
        check_declared(steps, times);
    if (reader->errors->count == errors_before && steps->declared_count == 0)
        report(reader, NULL, "\"tensors\" is missing: steps compute on the tensors that the job declares there");
    if (reader->errors->count == errors_before) {
        Sequence *sequence = job->sequence = new_zeroed(1, sizeof *sequence);
        sequence->count = steps->count;
        sequence->repeat = times;
        sequence->steps = new_zeroed((size_t)steps->count, sizeof *sequence->steps);
        make_sequence(steps, sequence);
    }
    free(steps);
}

void sequence_free(Sequence *sequence) {
    if (sequence == NULL)
        return;
    for (int s = 0; s < sequence->count; s++) {
        job_free(sequence->steps[s].job);
        free(sequence->steps[s].tensors);
    }
    for (int t = 0; t < sequence->tensor_count; t++)
        free((char *)(uintptr_t)sequence->kernel.tensors[t].name);
    free((PhbTensor *)(uintptr_t)sequence->kernel.tensors);
    free((char *)(uintptr_t)sequence->kernel.name);
    free(sequence->steps);
    free(sequence);
}
