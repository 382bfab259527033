#include "runtime/pod/pod.h"
#include "runtime/thread.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

typedef struct Completion {
    uint32_t instruction;
    bool well;
} Completion;

/* What a step's launch needs while it runs. */
typedef struct LaunchSpace {
    PhbLaunch launch;
    PhbTensorArg *tensors;
} LaunchSpace;

struct Pod {
    const Plan *plan;
    const Problem *problem;
    int number;
    Engine *engine;
    Arena arena;
    Store *store;
    Device *device;
    LaunchSpace *spaces;  /* by the engine's entry */
    EngineAction *issued; /* by instruction: what it is, for messages */
    bool *resident;       /* by tensor: its one tile is loaded */
    PodRangeDone *range_done;
    PodFetch *fetch;
    void *context;
    PodStatus status;
    Error error;

    int event;             /* an eventfd, written when the list below stops being empty */
    pthread_mutex_t mutex; /* guards what follows */
    Completion *ended;     /* as many as there are instructions */
    Completion *taken;     /* of the same size: what pod_turn works on */
    int ended_count;
    bool has_failure;
    uint32_t failed_instruction; /* the first */
    Error failure;
};

/* On a thread of the store or the device. */
static void instruction_ended(void *context, uint32_t instruction, const Error *error) {
    Pod *pod = context;
    pthread_mutex_lock(&pod->mutex);
    bool wake = pod->ended_count == 0;
    pod->ended[pod->ended_count++] = (Completion){instruction, error == NULL};
    if (error != NULL && !pod->has_failure) {
        pod->has_failure = true;
        pod->failed_instruction = instruction;
        pod->failure = *error;
    }
    /* The mutex is held until the write is over: pod_close may take the descriptor away as soon as the last completion is seen. */
    if (wake)
        eventfd_write(pod->event, 1);
    pthread_mutex_unlock(&pod->mutex);
}

/* ---- carrying out actions ---- */

static void move_tile(Pod *pod, const EngineAction *action) {
    const Operand *operand = &pod->problem->operands[action->operand];
    StoreTask task = {
        .instruction = action->instruction,
        .write = action->kind == ENGINE_STORE,
        .file = &pod->problem->job->tensors[action->operand],
        .rank = operand->rank,
        .element = operand->element,
        .rows = arena_slot(&pod->arena, action->operand, action->code->uses[action->operand].slot),
    };
    tile_region(pod->problem, &action->code->step, action->operand, &task.region);
    task.pitch = region_pitch(operand, &task.region);
    store_submit(pod->store, &task);
}

/* ---- tiles that all units share ---- */

static bool is_shared(const Pod *pod, int tensor) {
    const Operand *operand = &pod->problem->operands[tensor];
    bool padded = false;
    for (int k = 0; k < operand->rank; k++)
        padded |= operand->halo[k] > 0;
    return operand->count == 1 && operand->load && !operand->store && pod->plan->kept[tensor] && !padded;
}

static void view_shared(const Pod *pod, int tensor, TileView *view) {
    const Operand *operand = &pod->problem->operands[tensor];
    Region region = {.extent = {1, 1, 1, 1}};
    *view = (TileView){.rows = arena_slot(&pod->arena, tensor, 0), .rank = operand->rank, .element = operand->element};
    memcpy(region.extent, operand->whole, sizeof operand->whole[0] * (size_t)view->rank);
    memcpy(view->extent, region.extent, sizeof view->extent);
    view->pitch = region_pitch(operand, &region);
}

static bool fetch_shared(Pod *pod, const EngineAction *action) {
    TileView view;
    if (pod->fetch == NULL || pod->device->type->lane_open != NULL || action->kind != ENGINE_LOAD || !is_shared(pod, action->operand))
        return false;
    view_shared(pod, action->operand, &view);
    return pod->fetch(pod->context, action->instruction, action->operand, &view);
}

void pod_fetched(Pod *pod, uint32_t instruction) {
    instruction_ended(pod, instruction, NULL);
}

void pod_load(Pod *pod, uint32_t instruction) {
    move_tile(pod, &pod->issued[instruction]);
}

bool pod_tile(const Pod *pod, int tensor, TileView *tile) {
    if (!is_shared(pod, tensor) || !pod->resident[tensor] || pod->device->type->lane_open != NULL)
        return false;
    view_shared(pod, tensor, tile);
    return true;
}

static void launch_leaf(Pod *pod, const EngineAction *action) {
    const Problem *problem = pod->problem;
    const StepCode *code = action->code;
    LaunchSpace *space = &pod->spaces[action->entry];
    for (int t = 0; t < problem->operand_count; t++) {
        PhbTensorArg *tensor = &space->tensors[t];
        const Operand *operand = &problem->operands[t];
        Region region;
        tile_region(problem, &code->step, t, &region);
        tensor->base = code->uses[t].how.used ? arena_slot(&pod->arena, t, code->uses[t].slot) : NULL;
        tensor->pitch = region_pitch(operand, &region);
        memcpy(tensor->extent, region.extent, sizeof tensor->extent);
        memcpy(tensor->origin, region.origin, sizeof tensor->origin);
        memcpy(tensor->whole, operand->tensor != NULL ? operand->whole : region.extent, sizeof tensor->whole);
    }
    const LeafShape *shape = step_shape(problem, &code->step);
    space->launch.dims = shape->dims;
    memcpy(space->launch.grid, shape->grid, sizeof shape->grid);
    memcpy(space->launch.super, code->step.at, sizeof space->launch.super);
    pod->device->type->launch(pod->device, action->instruction, code->step.stage, &space->launch);
}

/* Says which pod, tensor and tile a failure belongs to; the failure itself names the file. */
static void describe_failure(Pod *pod) {
    const EngineAction *action = &pod->issued[pod->failed_instruction];
    if (action->kind == ENGINE_COMPUTE) {
        error_set(&pod->error, "pod %d: super-tile %" PRId64 ": %s", pod->number, action->code->step.unit, pod->failure.text);
        return;
    }
    const char *name = pod->problem->operands[action->operand].name;
    error_set(
        &pod->error, "pod %d: tensor '%s', tile %" PRId64 ": %s", pod->number, name, action->code->uses[action->operand].tile, pod->failure.text);
}

static void carry_out(Pod *pod, const EngineAction *action) {
    switch (action->kind) {
    case ENGINE_LOAD:
    case ENGINE_STORE:
        pod->issued[action->instruction] = *action;
        if (!fetch_shared(pod, action))
            move_tile(pod, action);
        break;
    case ENGINE_COMPUTE:
        pod->issued[action->instruction] = *action;
        launch_leaf(pod, action);
        break;
    case ENGINE_RANGE_DONE:
        if (pod->range_done != NULL)
            pod->range_done(pod->context, action->tag);
        break;
    case ENGINE_FINISHED:
        pod->status = POD_DONE;
        break;
    case ENGINE_FAILED:
        describe_failure(pod);
        pod->status = POD_BROKEN;
        break;
    case ENGINE_STOPPED:
        pod->status = POD_STOPPED;
        break;
    }
}

static void feed(Pod *pod, const EngineEvent *event) {
    const EngineAction *actions;
    int count = engine_step(pod->engine, event, &actions);
    for (int a = 0; a < count; a++)
        carry_out(pod, &actions[a]);
}

bool pod_has_room(const Pod *pod) {
    return engine_has_room(pod->engine);
}

void pod_give(Pod *pod, UnitRange range) {
    feed(pod, &(EngineEvent){.kind = ENGINE_GIVE, .range = range});
}

void pod_no_more(Pod *pod) {
    feed(pod, &(EngineEvent){.kind = ENGINE_CLOSE});
}

void pod_stop(Pod *pod) {
    pod->device->type->cancel(pod->device);
    feed(pod, &(EngineEvent){.kind = ENGINE_STOP});
}

static void take_completion(Pod *pod, const Completion *ended) {
    const EngineAction *action = &pod->issued[ended->instruction];
    if (!ended->well)
        pod->device->type->cancel(pod->device);
    else if (action->kind == ENGINE_LOAD && is_shared(pod, action->operand))
        pod->resident[action->operand] = true;
    feed(pod, &(EngineEvent){.kind = ended->well ? ENGINE_ENDED : ENGINE_BROKEN, .instruction = ended->instruction});
}

PodStatus pod_turn(Pod *pod) {
    pthread_mutex_lock(&pod->mutex);
    Completion *ended = pod->ended;
    int count = pod->ended_count;
    pod->ended = pod->taken;
    pod->taken = ended;
    pod->ended_count = 0;
    eventfd_t ignored;
    if (count > 0)
        eventfd_read(pod->event, &ignored);
    pthread_mutex_unlock(&pod->mutex);
    for (int i = 0; i < count; i++)
        take_completion(pod, &ended[i]);
    return pod->status;
}

int pod_fd(const Pod *pod) {
    return pod->event;
}

int64_t pod_units_done(const Pod *pod) {
    return engine_units_done(pod->engine);
}

int64_t pod_free_memory(const Pod *pod) {
    return pod->plan->bytes - engine_bytes(pod->engine);
}

const Error *pod_error(const Pod *pod) {
    return &pod->error;
}

const char *pod_describe(const Pod *pod) {
    return pod->device->type->describe(pod->device);
}

/* ---- opening and closing ---- */

static bool open_parts(Pod *pod, const PodOptions *options, Error *error) {
    pod->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (pod->event < 0)
        return error_errno(error, "pod %d: cannot make an event descriptor", pod->number);
    DeviceOptions device = {
        .kernel = pod->problem->kernel,
        .number = options->device_number,
        .threads = options->threads,
        .cpu_level = options->cpu_level,
        .simt = options->simt,
        .launches = pod->plan->window,
        .done = instruction_ended,
        .context = pod,
    };
    pod->device = options->device->open(pod->problem->variant, &device, error);
    if (pod->device == NULL)
        return false;
    void *memory = options->device->alloc(pod->device, arena_bytes(pod->plan), error);
    if (memory == NULL)
        return false;
    arena_init(&pod->arena, pod->plan, memory);
    pod->store = store_open(options->threads < 2 ? 2 : options->threads, (int)engine_instructions(pod->plan), pod->device,
        instruction_ended, pod, error);
    return pod->store != NULL;
}

static void take_spaces(Pod *pod) {
    const Job *job = pod->problem->job;
    pod->spaces = new_zeroed((size_t)pod->plan->window, sizeof *pod->spaces);
    for (int e = 0; e < pod->plan->window; e++) {
        LaunchSpace *space = &pod->spaces[e];
        space->tensors = new_zeroed((size_t)pod->problem->operand_count, sizeof *space->tensors);
        space->launch.tensors = space->tensors;
        space->launch.scalars = job->scalars;
        memcpy(space->launch.supers, pod->problem->supers, sizeof space->launch.supers);
    }
}

Pod *pod_open(const Plan *plan, const PodOptions *options, Error *error) {
    Pod *pod = new_zeroed(1, sizeof *pod);
    uint32_t instructions = engine_instructions(plan);
    pod->plan = plan;
    pod->problem = plan->problem;
    pod->number = options->number;
    pod->range_done = options->range_done;
    pod->fetch = options->fetch;
    pod->context = options->context;
    pod->resident = new_zeroed((size_t)pod->problem->kernel->tensor_count, sizeof *pod->resident);
    pod->engine = engine_new(plan);
    pod->issued = new_zeroed(instructions, sizeof *pod->issued);
    pod->ended = new_zeroed(instructions, sizeof *pod->ended);
    pod->taken = new_zeroed(instructions, sizeof *pod->taken);
    pthread_mutex_init(&pod->mutex, NULL);
    take_spaces(pod);
    if (open_parts(pod, options, error))
        return pod;
    pod->status = POD_STOPPED;
    pod_close(pod);
    return NULL;
}

void pod_close(Pod *pod) {
    if (pod == NULL)
        return;
    if (pod->status == POD_RUNNING)
        pod_stop(pod);
    while (pod->status == POD_RUNNING) {
        poll(&(struct pollfd){.fd = pod->event, .events = POLLIN}, 1, -1);
        pod_turn(pod);
    }
    if (pod->store != NULL)
        store_close(pod->store);
    if (pod->device != NULL)
        pod->device->type->close(pod->device);
    if (pod->event >= 0)
        close(pod->event);
    for (int e = 0; e < pod->plan->window; e++)
        free(pod->spaces[e].tensors);
    arena_fini(&pod->arena);
    engine_free(pod->engine);
    pthread_mutex_destroy(&pod->mutex);
    free(pod->spaces);
    free(pod->issued);
    free(pod->resident);
    free(pod->ended);
    free(pod->taken);
    free(pod);
}
