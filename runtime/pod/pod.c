#include "runtime/pod/pod.h"
#include "runtime/clock.h"
#include "runtime/crash.h"
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
    uint64_t ended_ns; /* where a trace is wanted */
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
    TileFiles *files;     /* as the kernel's tensors */
    EngineAction *issued; /* by instruction: what it is, for messages */
    int *parts;           /* by instruction: tasks of it that have not ended */
    uint64_t *gathered;   /* by instruction: 1 and the bytes that peers were asked for; 0: they were not yet */
    PodGather *gather;
    const int *tensors;
    bool *spoilt;         /* by instruction: one of them went wrong */
    Shelf *shelf;         /* NULL: no tile is at home here */
    void *shelf_memory;
    int64_t shelf_lanes[SHELF_LANES]; /* places that are brought, by load and then by fetch; instructions after the engine's; -1: unused */
    int shelf_flying;
    TraceKind *how; /* by instruction: what is done */
    PodMoved moved;
    PodRangeDone *range_done;
    PodFetch *fetch;
    PodShelved *shelved;
    TraceLog *trace;
    uint64_t *begun_ns;  /* by instruction */
    uint64_t *checksums; /* by instruction; NULL: nobody asks */
    uint64_t compute_ns; /* when the device ended its last launch: it runs them in order */
    void *context;
    PodStatus status;
    Error error;

    int event;             /* an eventfd, written when the list below stops being empty */
    pthread_mutex_t mutex; /* guards what follows */
    Completion *ended;     /* as many as there are tasks of instructions */
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
    pod->ended[pod->ended_count++] = (Completion){instruction, error == NULL, pod->trace != NULL ? clock_ns() : 0};
    if (error != NULL && !pod->has_failure && instruction < engine_instructions(pod->plan)) {
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

static void move_tile(Pod *pod, const EngineAction *action, const void *copy) {
    const Operand *operand = &pod->problem->operands[action->operand];
    const TileFiles *files = &pod->files[action->operand];
    const TensorFile *const *ends = action->kind == ENGINE_STORE ? files->targets : &files->source;
    int count = action->kind == ENGINE_STORE ? (files->targets[0] != NULL) + (files->targets[1] != NULL) : 1;
    StoreTask task = {
        .instruction = action->instruction,
        .write = action->kind == ENGINE_STORE,
        .dry = action->dry,
        .rank = operand->rank,
        .element = operand->element,
        .rows = arena_slot(&pod->arena, action->operand, action->code->uses[action->operand].slot),
        .begun_ns = pod->trace != NULL ? &pod->begun_ns[action->instruction] : NULL,
        .copy = copy,
        .tensor = action->operand,
        .checksum = pod->checksums != NULL ? &pod->checksums[action->instruction] : NULL,
    };
    tile_region(pod->problem, &action->code->step, action->operand, &task.region);
    task.pitch = region_pitch(operand, &task.region);
    pod->parts[action->instruction] = count;
    if (task.checksum != NULL)
        *task.checksum = 0;
    for (int part = 0; part < count; part++) {
        task.file = ends[part];
        store_submit(pod->store, &task);
        task.begun_ns = NULL;
        task.checksum = NULL;
    }
    if (count > 0)
        return;
    if (task.begun_ns != NULL)
        *task.begun_ns = clock_ns();
    instruction_ended(pod, action->instruction, NULL); /* nobody wants it */
}

/* What stays in memory is copied there, or goes nowhere. */
static TraceKind move_kind(const Pod *pod, const EngineAction *action) {
    const TileFiles *files = &pod->files[action->operand];
    if (action->kind == ENGINE_LOAD)
        return files->source->memory != NULL ? TRACE_COPY : TRACE_LOAD;
    for (int i = 0; i < 2; i++)
        if (files->targets[i] != NULL && files->targets[i]->memory == NULL && !action->dry)
            return TRACE_STORE;
    return TRACE_COPY;
}

/* Bytes of a tile's elements that are in its file. */
static uint64_t bytes_of(const Pod *pod, int operand, int64_t tile) {
    Step step = {.stage = 0};
    Region region;
    tile_coordinates(pod->problem, operand, tile, step.at);
    tile_region(pod->problem, &step, operand, &region);
    region_clip(&pod->problem->operands[operand], &region);
    return (uint64_t)region_bytes(&pod->problem->operands[operand], &region);
}

/* ---- what is said of it ---- */

static void count_move(PodMoved *moved, TraceKind kind, uint64_t bytes) {
    switch (kind) {
    case TRACE_LOAD:
        moved->loads++;
        moved->loaded += bytes;
        break;
    case TRACE_FETCH:
        moved->fetches++;
        moved->fetched += bytes;
        break;
    case TRACE_STORE:
        moved->stores++;
        moved->stored += bytes;
        break;
    default:
        break;
    }
}

static void record(Pod *pod, const Completion *ended, WireEvent event) {
    if (pod->trace == NULL)
        return;
    event.begun_ns = pod->begun_ns[ended->instruction];
    if (event.kind == TRACE_COMPUTE && event.begun_ns < pod->compute_ns)
        event.begun_ns = pod->compute_ns;
    if (event.kind == TRACE_COMPUTE)
        pod->compute_ns = ended->ended_ns;
    event.ended_ns = ended->ended_ns > event.begun_ns ? ended->ended_ns : event.begun_ns;
    event.held = (uint64_t)engine_bytes(pod->engine);
    trace_add(pod->trace, &event);
}

/* Of a load, what it turned out to be: at its beginning a fetch is both. */
static bool crash_where(TraceKind kind, CrashWhen when) {
    static const int sites[] = {[TRACE_LOAD] = CRASH_LOAD, [TRACE_FETCH] = CRASH_FETCH, [TRACE_COMPUTE] = CRASH_COMPUTE, [TRACE_STORE] = CRASH_STORE};
    return kind != TRACE_COPY && crash_point((CrashSite)sites[kind], when);
}

/* ---- tiles that nodes share ---- */

/* The whole of a tile at `rows`, with its halo. */
static void view_tile(const Pod *pod, int tensor, const int64_t at[COORDINATES], void *rows, Region *region, TileView *view) {
    const Operand *operand = &pod->problem->operands[tensor];
    Step step = {.stage = 0};
    memcpy(step.at, at, sizeof step.at);
    tile_region(pod->problem, &step, tensor, region);
    *view = (TileView){.rows = rows, .pitch = region_pitch(operand, region), .rank = operand->rank, .element = operand->element};
    memcpy(view->extent, region->extent, sizeof view->extent);
}

/* A tile of the shelf comes from its file. */
static void load_shelf(Pod *pod, uint32_t instruction) {
    int tensor;
    int64_t tile, at[COORDINATES];
    void *rows;
    TileView view;
    shelf_tile(pod->shelf, pod->shelf_lanes[instruction - engine_instructions(pod->plan)], &tensor, &tile, &rows);
    tile_coordinates(pod->problem, tensor, tile, at);
    StoreTask task = {
        .instruction = instruction,
        .file = &pod->problem->job->tensors[tensor],
        .rows = rows,
        .begun_ns = pod->trace != NULL ? &pod->begun_ns[instruction] : NULL,
    };
    view_tile(pod, tensor, at, rows, &task.region, &view);
    task.rank = view.rank;
    task.element = view.element;
    task.pitch = view.pitch;
    pod->how[instruction] = TRACE_LOAD;
    store_submit(pod->store, &task);
}

/* Asks for the whole of a tile, which is to lie at `rows`. False: it is to come from its file. */
static bool fetch_from_peer(Pod *pod, int tensor, int64_t tile, void *rows, FetchRequest request) {
    Region region;
    request.tensor = (uint32_t)tensor;
    request.peer = (uint32_t)shelf_source(pod->shelf, tensor, tile);
    request.home = (uint32_t)shelf_home(pod->shelf, tensor, tile);
    tile_coordinates(pod->problem, tensor, tile, request.tile);
    view_tile(pod, tensor, request.tile, rows, &region, &request.into);
    memcpy(request.region.extent, region.extent, sizeof region.extent);
    if (!pod->fetch(pod->context, &request))
        return false;
    pod->how[request.tag] = TRACE_FETCH;
    crash_where(TRACE_FETCH, CRASH_BEGIN);
    pod->begun_ns[request.tag] = pod->trace != NULL ? clock_ns() : 0;
    return true;
}

/* Begins what of the shelf has its turn. */
static void fill_shelf(Pod *pod) {
    for (int way = 0; way < SHELF_WAYS; way++) {
        int64_t place, tile;
        while (pod->status == POD_RUNNING && shelf_next(pod->shelf, (ShelfWay)way, &place)) {
            int lane = way == SHELF_BY_LOAD ? 0 : SHELF_LOADS, tensor;
            void *rows;
            while (pod->shelf_lanes[lane] >= 0)
                lane++;
            pod->shelf_lanes[lane] = place;
            pod->shelf_flying++;
            shelf_tile(pod->shelf, place, &tensor, &tile, &rows);
            FetchRequest request = {.tag = engine_instructions(pod->plan) + (uint32_t)lane, .passed_on = true, .place = place};
            if (way == SHELF_BY_LOAD || !fetch_from_peer(pod, tensor, tile, rows, request))
                load_shelf(pod, (uint32_t)request.tag);
        }
    }
}

static void copy_from_shelf(Pod *pod, const EngineAction *action, int64_t place) {
    int tensor;
    int64_t tile;
    void *rows;
    shelf_tile(pod->shelf, place, &tensor, &tile, &rows);
    pod->how[action->instruction] = TRACE_COPY;
    move_tile(pod, action, rows);
}

/* True: a LOAD that is not one from the file. */
static bool take_shared(Pod *pod, const EngineAction *action) {
    if (pod->shelf == NULL || action->kind != ENGINE_LOAD || !pod->plan->fetched[action->operand])
        return false;
    int64_t tile = action->code->uses[action->operand].tile, place;
    switch (shelf_want(pod->shelf, action->operand, tile, &place)) {
    case SHELF_ELSEWHERE:
        return fetch_from_peer(pod, action->operand, tile, arena_slot(&pod->arena, action->operand, action->code->uses[action->operand].slot),
            (FetchRequest){.tag = action->instruction});
    case SHELF_COMING:
        shelf_await(pod->shelf, place, action->instruction);
        fill_shelf(pod);
        return true;
    case SHELF_HERE:
        copy_from_shelf(pod, action, place);
        return true;
    case SHELF_BROKEN:
        return false;
    }
    return false;
}

static void take_shelved(Pod *pod, const Completion *ended) {
    uint32_t lane = ended->instruction - engine_instructions(pod->plan);
    bool well = ended->well;
    int64_t place = pod->shelf_lanes[lane], tile, at[COORDINATES];
    uint32_t waiter;
    int tensor;
    void *rows;
    TileView view;
    Region region;
    pod->shelf_lanes[lane] = -1;
    pod->shelf_flying--;
    shelf_tile(pod->shelf, place, &tensor, &tile, &rows);
    TraceKind kind = pod->how[ended->instruction];
    if (kind == TRACE_FETCH)
        crash_where(kind, CRASH_END);
    if (well) {
        WireEvent event = {.kind = (uint8_t)kind, .operand = (uint32_t)tensor, .tile = (uint64_t)tile, .bytes = bytes_of(pod, tensor, tile)};
        count_move(&pod->moved, kind, event.bytes);
        record(pod, ended, event);
    }
    tile_coordinates(pod->problem, tensor, tile, at);
    view_tile(pod, tensor, at, rows, &region, &view);
    if (shelf_ended(pod->shelf, place, well, &waiter)) {
        if (well)
            copy_from_shelf(pod, &pod->issued[waiter], place);
        else
            pod_load(pod, waiter); /* which says what is wrong with the file */
    }
    pod->shelved(pod->context, place, well ? &view : NULL);
    fill_shelf(pod);
}

ShelfState pod_want(Pod *pod, int tensor, const int64_t at[COORDINATES], int64_t *place, TileView *tile) {
    const Problem *problem = pod->problem;
    if (pod->shelf == NULL || tensor >= problem->kernel->tensor_count || pod->status != POD_RUNNING)
        return SHELF_ELSEWHERE;
    const Operand *operand = &problem->operands[tensor];
    for (int c = 0; c < COORDINATES; c++) {
        int64_t extent = c != CHUNK ? problem->supers[c] : operand->loop >= 0 ? problem->chunks[operand->loop] : 1;
        if (at[c] < 0 || at[c] >= (operand->stride[c] != 0 ? extent : 1))
            return SHELF_ELSEWHERE;
    }
    ShelfState state = shelf_want(pod->shelf, tensor, tile_number(problem, tensor, at), place);
    fill_shelf(pod);
    if (state == SHELF_HERE) {
        int same_tensor;
        int64_t number;
        void *rows;
        Region region;
        shelf_tile(pod->shelf, *place, &same_tensor, &number, &rows);
        view_tile(pod, tensor, at, rows, &region, tile);
    }
    return state == SHELF_COMING && !shelf_promises(pod->shelf, *place) ? SHELF_ELSEWHERE : state;
}

bool pod_share(Pod *pod, const Placement *placement, int64_t node, Error *error) {
    if (pod->device->type->lane_open != NULL || pod->plan->shelf_bytes == 0)
        return true;
    pod->shelf_memory = aligned_alloc(PHB_BASE_ALIGN, (size_t)pod->plan->shelf_bytes);
    if (pod->shelf_memory == NULL)
        return error_set(error, "pod %d: cannot take %" PRId64 " bytes for shared tiles", pod->number, pod->plan->shelf_bytes);
    pod->shelf = shelf_new(pod->plan, placement, node, pod->shelf_memory);
    return true;
}

void pod_fetched(Pod *pod, uint32_t instruction) {
    if (pod->parts[instruction] > 1) {
        pod->parts[instruction]--;
        return;
    }
    instruction_ended(pod, instruction, NULL);
}

void pod_load(Pod *pod, uint32_t instruction) {
    if (instruction >= engine_instructions(pod->plan)) {
        load_shelf(pod, instruction);
        return;
    }
    pod->how[instruction] = TRACE_LOAD;
    move_tile(pod, &pod->issued[instruction], NULL);
}

static void launch_leaf(Pod *pod, const EngineAction *action) {
    const Problem *problem = pod->problem;
    const StepCode *code = action->code;
    LaunchSpace *space = &pod->spaces[action->entry];
    for (int argument = 0; argument < problem->argument_count; argument++) {
        PhbTensorArg *tensor = &space->tensors[argument];
        int t = step_operand(problem, &code->step, argument);
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
    pod->device->type->launch(pod->device, action->instruction, step_code(problem, &code->step), &space->launch);
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
        pod->how[action->instruction] = move_kind(pod, action);
        if (crash_where(pod->how[action->instruction], CRASH_BEGIN))
            *(char *)arena_slot(&pod->arena, action->operand, action->code->uses[action->operand].slot) ^= 1; /* as if it were computed wrongly */
        if (!take_shared(pod, action))
            move_tile(pod, action, NULL);
        break;
    case ENGINE_COMPUTE:
        pod->issued[action->instruction] = *action;
        pod->how[action->instruction] = TRACE_COMPUTE;
        pod->begun_ns[action->instruction] = pod->trace != NULL ? clock_ns() : 0;
        launch_leaf(pod, action);
        crash_where(TRACE_COMPUTE, CRASH_BEGIN);
        break;
    case ENGINE_RANGE_DONE:
        if (pod->range_done != NULL)
            pod->range_done(pod->context, action->tag, action->units, action->checksum);
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

bool pod_idle(const Pod *pod) {
    return engine_idle(pod->engine);
}

void pod_reset(Pod *pod, const TileFiles *files) {
    engine_reset(pod->engine);
    memcpy(pod->files, files, (size_t)pod->problem->kernel->tensor_count * sizeof *files);
}

bool pod_has_room(const Pod *pod) {
    return engine_has_room(pod->engine);
}

bool pod_can_take(const Pod *pod, const UnitRange *range, Error *error) {
    int64_t units = pod->problem->units;
    if (!engine_has_room(pod->engine))
        return error_set(error, "the scheduler gives more than %d batches at a time", ENGINE_MAX_RANGES);
    bool fits = range->first >= 0 && range->count >= 1 && range->step >= 1 && range->first < units &&
                range->count - 1 <= (units - 1 - range->first) / range->step;
    return fits || error_set(error, "the scheduler gives super-tiles that the job does not have");
}

void pod_give(Pod *pod, UnitRange range) {
    feed(pod, &(EngineEvent){.kind = ENGINE_GIVE, .range = range});
}

void pod_no_more(Pod *pod) {
    feed(pod, &(EngineEvent){.kind = ENGINE_CLOSE});
}

void pod_drain(Pod *pod) {
    feed(pod, &(EngineEvent){.kind = ENGINE_DRAIN});
}

void pod_lease(Pod *pod, uint64_t end_ms) {
    store_lease(pod->store, end_ms);
}

void pod_revoke(Pod *pod) {
    store_revoke(pod->store);
}

void pod_stop(Pod *pod) {
    pod->gather = NULL; /* who carries the answers may be gone */
    pod->device->type->cancel(pod->device);
    feed(pod, &(EngineEvent){.kind = ENGINE_STOP});
}

/* What has been read from here is one part of a tile that lives in pods. True: others have more of it. */
static bool gather_rest(Pod *pod, uint32_t instruction) {
    const EngineAction *action = &pod->issued[instruction];
    if (pod->gather == NULL || pod->gathered[instruction] > 0 || pod->how[instruction] != TRACE_COPY || action->kind != ENGINE_LOAD)
        return false;
    Region region;
    tile_region(pod->problem, &action->code->step, action->operand, &region);
    void *rows = arena_slot(&pod->arena, action->operand, action->code->uses[action->operand].slot);
    int64_t pitch = region_pitch(&pod->problem->operands[action->operand], &region);
    uint64_t bytes = 0;
    pod->parts[instruction] = pod->gather(pod->context, action->operand, &region, rows, pitch, instruction, &bytes);
    pod->gathered[instruction] = bytes + 1;
    if (pod->parts[instruction] > 0)
        pod->how[instruction] = TRACE_FETCH;
    return pod->parts[instruction] > 0;
}

static void take_completion(Pod *pod, const Completion *ended) {
    uint32_t instructions = engine_instructions(pod->plan);
    if (ended->instruction >= instructions) {
        take_shelved(pod, ended);
        return;
    }
    bool well = (pod->spoilt[ended->instruction] |= !ended->well) == false;
    if (pod->parts[ended->instruction] > 1) {
        pod->parts[ended->instruction]--;
        return;
    }
    if (well && gather_rest(pod, ended->instruction))
        return;
    uint64_t gathered = pod->gathered[ended->instruction];
    pod->spoilt[ended->instruction] = false;
    pod->gathered[ended->instruction] = 0;
    const EngineAction *action = &pod->issued[ended->instruction];
    TraceKind kind = pod->how[ended->instruction];
    WireEvent event = {.kind = (uint8_t)kind};
    crash_where(kind, CRASH_END);
    if (kind == TRACE_COMPUTE) {
        event.operand = (uint32_t)step_code(pod->problem, &action->code->step);
        event.tile = (uint64_t)action->code->step.unit;
        event.chunk = (uint64_t)action->code->step.at[CHUNK];
    } else {
        int64_t tile = action->code->uses[action->operand].tile;
        event.operand = (uint32_t)(pod->tensors != NULL ? pod->tensors[action->operand] : action->operand);
        event.tile = (uint64_t)tile;
        event.bytes = kind == TRACE_FETCH && gathered > 0 ? gathered - 1 : bytes_of(pod, action->operand, tile);
    }
    if (well) {
        count_move(&pod->moved, kind, event.bytes);
        record(pod, ended, event);
    } else {
        pod->device->type->cancel(pod->device);
    }
    feed(pod, &(EngineEvent){.kind = well ? ENGINE_ENDED : ENGINE_BROKEN,
                  .instruction = ended->instruction,
                  .checksum = action->kind == ENGINE_STORE && pod->checksums != NULL ? pod->checksums[ended->instruction] : 0});
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

PodMoved pod_moved(const Pod *pod) {
    return pod->moved;
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
    pod->store = store_open(options->threads < 2 ? 2 : options->threads, 2 * (int)engine_instructions(pod->plan) + SHELF_LANES, pod->device,
        instruction_ended, pod, error);
    if (pod->store != NULL && options->leased)
        store_lease(pod->store, 0);
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
    uint32_t instructions = engine_instructions(plan) + SHELF_LANES;
    pod->plan = plan;
    pod->problem = plan->problem;
    pod->number = options->number;
    pod->range_done = options->range_done;
    pod->fetch = options->fetch;
    pod->context = options->context;
    pod->shelved = options->shelved;
    for (int lane = 0; lane < SHELF_LANES; lane++)
        pod->shelf_lanes[lane] = -1;
    pod->how = new_zeroed(instructions, sizeof *pod->how);
    pod->trace = options->trace;
    pod->begun_ns = new_zeroed(instructions, sizeof *pod->begun_ns);
    if (options->checksums)
        pod->checksums = new_zeroed(instructions, sizeof *pod->checksums);
    pod->engine = engine_new(plan);
    pod->issued = new_zeroed(instructions, sizeof *pod->issued);
    pod->parts = new_zeroed(instructions, sizeof *pod->parts);
    pod->spoilt = new_zeroed(instructions, sizeof *pod->spoilt);
    pod->gathered = new_zeroed(instructions, sizeof *pod->gathered);
    pod->gather = options->gather;
    pod->tensors = options->tensors;
    pod->ended = new_zeroed(2 * instructions, sizeof *pod->ended); /* a tile may go to two places */
    pod->taken = new_zeroed(2 * instructions, sizeof *pod->taken);
    pod->files = new_zeroed((size_t)plan->problem->kernel->tensor_count, sizeof *pod->files);
    for (int t = 0; t < plan->problem->kernel->tensor_count; t++)
        pod->files[t] = (TileFiles){&plan->problem->job->tensors[t], {&plan->problem->job->tensors[t], NULL}};
    pthread_mutex_init(&pod->mutex, NULL);
    take_spaces(pod);
    if (open_parts(pod, options, error))
        return pod;
    pod->status = POD_STOPPED;
    pod_close(pod);
    return NULL;
}

bool pod_end(Pod *pod, uint64_t until_ms) {
    enum { AT_MOST_MS = 1000 };
    if (pod->status == POD_RUNNING)
        pod_stop(pod);
    for (;;) {
        pod_turn(pod);
        uint64_t now_ms = clock_ms();
        bool ended = pod->status != POD_RUNNING && pod->shelf_flying == 0;
        if (ended || now_ms >= until_ms)
            return ended;
        poll(&(struct pollfd){.fd = pod->event, .events = POLLIN}, 1, until_ms - now_ms < AT_MOST_MS ? (int)(until_ms - now_ms) : AT_MOST_MS);
    }
}

void pod_close(Pod *pod) {
    if (pod == NULL)
        return;
    pod_end(pod, UINT64_MAX);
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
    free(pod->files);
    free(pod->issued);
    free(pod->parts);
    free(pod->spoilt);
    free(pod->gathered);
    free(pod->how);
    free(pod->begun_ns);
    free(pod->checksums);
    shelf_free(pod->shelf);
    free(pod->shelf_memory);
    free(pod->ended);
    free(pod->taken);
    free(pod);
}
