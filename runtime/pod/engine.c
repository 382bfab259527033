#include "runtime/pod/pod.h"

#include <assert.h>
#include <stdlib.h>

/* What a use of a slot has come to. Every state is left in this order; a tile that an earlier unit brings goes from WAITING to READY. */
typedef enum UseState { USE_WAITING, USE_LOADING, USE_READY, USE_RELEASED } UseState;

typedef enum ComputeState { COMPUTE_WAITING, COMPUTE_RUNNING, COMPUTE_DONE } ComputeState;

/* One unit in flight. */
typedef struct Entry {
    UnitCode code;
    UseState *states; /* as PhbKernel.tensors */
    ComputeState compute;
    int stores_left;
    int range; /* index into Engine.ranges */
} Entry;

typedef struct Slot {
    int64_t released; /* uses that have been given back */
    int64_t ready;    /* the use whose tile is there, or -1 */
    bool full;        /* holds a tile, as far as the accounting goes */
} Slot;

typedef struct Range {
    UnitRange units;
    int64_t admitted, done;
} Range;

struct Engine {
    const Plan *plan;
    Unroll *unroll;
    int tensors, window;
    Entry *entries; /* a ring: units in flight are head .. head + live - 1, in the order they were given */
    int head, live;
    Slot *slots; /* of all tensors */
    int64_t *first_slot;
    Range ranges[ENGINE_MAX_RANGES]; /* a ring */
    int first_range, range_count;
    bool closed, broken, stopped, over;
    int in_flight; /* instructions */
    int64_t units_done, bytes;
    EngineAction *actions;
    int action_count, action_capacity;
};

/* Instructions of an entry: COMPUTE, then LOAD and STORE of each tensor. */
static uint32_t instructions_per_entry(int tensors) {
    return 1 + 2 * (uint32_t)tensors;
}

uint32_t engine_instructions(const Plan *plan) {
    return (uint32_t)plan->window * instructions_per_entry(plan->problem->kernel->tensor_count);
}

Engine *engine_new(const Plan *plan) {
    int tensors = plan->problem->kernel->tensor_count;
    Engine *engine = new_zeroed(1, sizeof *engine);
    engine->plan = plan;
    engine->unroll = unroll_new(plan);
    engine->tensors = tensors;
    engine->window = plan->window;
    engine->entries = new_zeroed((size_t)plan->window, sizeof *engine->entries);
    for (int e = 0; e < plan->window; e++) {
        engine->entries[e].code.uses = new_zeroed((size_t)tensors, sizeof(TileUse));
        engine->entries[e].states = new_zeroed((size_t)tensors, sizeof(UseState));
    }
    engine->first_slot = new_zeroed((size_t)tensors, sizeof(int64_t));
    int64_t slots = 0;
    for (int t = 0; t < tensors; t++) {
        engine->first_slot[t] = slots;
        slots += plan->slots[t];
    }
    engine->slots = new_zeroed((size_t)slots, sizeof *engine->slots);
    for (int64_t s = 0; s < slots; s++)
        engine->slots[s].ready = -1;
    engine->action_capacity = (int)engine_instructions(plan) + ENGINE_MAX_RANGES + 1;
    engine->actions = new_zeroed((size_t)engine->action_capacity, sizeof *engine->actions);
    return engine;
}

void engine_free(Engine *engine) {
    if (engine == NULL)
        return;
    for (int e = 0; e < engine->window; e++) {
        free(engine->entries[e].code.uses);
        free(engine->entries[e].states);
    }
    free(engine->entries);
    free(engine->slots);
    free(engine->first_slot);
    free(engine->actions);
    unroll_free(engine->unroll);
    free(engine);
}

static Entry *entry_at(Engine *engine, int place) {
    return &engine->entries[(engine->head + place) % engine->window];
}

static Slot *slot_of(Engine *engine, const Entry *entry, int tensor) {
    return &engine->slots[engine->first_slot[tensor] + entry->code.uses[tensor].slot];
}

static const TensorTiles *tiles_of(const Engine *engine, int tensor) {
    return &engine->plan->problem->tensors[tensor];
}

/* ---- actions ---- */

static EngineAction *act(Engine *engine, EngineActionKind kind) {
    assert(engine->action_count < engine->action_capacity);
    EngineAction *action = &engine->actions[engine->action_count++];
    *action = (EngineAction){.kind = kind};
    return action;
}

static void issue(Engine *engine, EngineActionKind kind, const Entry *entry, int tensor) {
    EngineAction *action = act(engine, kind);
    action->entry = (int)(entry - engine->entries);
    action->tensor = tensor;
    action->code = &entry->code;
    uint32_t base = (uint32_t)action->entry * instructions_per_entry(engine->tensors);
    uint32_t offset = kind == ENGINE_COMPUTE ? 0 : kind == ENGINE_LOAD ? 1 + 2 * (uint32_t)tensor : 2 + 2 * (uint32_t)tensor;
    action->instruction = base + offset;
    engine->in_flight++;
}

/* ---- what the end of an instruction means ---- */

static void release(Engine *engine, Entry *entry, int tensor) {
    Slot *slot = slot_of(engine, entry, tensor);
    entry->states[tensor] = USE_RELEASED;
    slot->released++;
    if (engine->plan->kept[tensor])
        return;
    slot->full = false;
    slot->ready = -1;
    engine->bytes -= tiles_of(engine, tensor)->bytes;
}

static void compute_ended(Engine *engine, Entry *entry) {
    entry->compute = COMPUTE_DONE;
    for (int t = 0; t < engine->tensors; t++) {
        if (tiles_of(engine, t)->store)
            issue(engine, ENGINE_STORE, entry, t);
        else
            release(engine, entry, t);
    }
}

static void instruction_ended(Engine *engine, uint32_t instruction, bool well) {
    uint32_t per_entry = instructions_per_entry(engine->tensors);
    Entry *entry = &engine->entries[instruction / per_entry];
    uint32_t offset = instruction % per_entry;
    engine->in_flight--;
    if (!well)
        engine->broken = true;
    if (engine->broken || engine->stopped)
        return;
    int tensor = (int)(offset - 1) / 2;
    if (offset == 0) {
        compute_ended(engine, entry);
    } else if (offset % 2 == 1) {
        slot_of(engine, entry, tensor)->ready = entry->code.uses[tensor].number;
    } else {
        release(engine, entry, tensor);
        entry->stores_left--;
    }
}

/* ---- what can go on ---- */

/* A fresh use takes its slot when all earlier uses have been given back. */
static void take_slot(Engine *engine, Entry *entry, int tensor, Slot *slot) {
    const TensorTiles *tiles = tiles_of(engine, tensor);
    if (!slot->full)
        engine->bytes += tiles->bytes;
    slot->full = true;
    slot->ready = -1;
    if (tiles->load) {
        entry->states[tensor] = USE_LOADING;
        issue(engine, ENGINE_LOAD, entry, tensor);
    } else {
        slot->ready = entry->code.uses[tensor].number;
        entry->states[tensor] = USE_READY;
    }
}

static bool advance_use(Engine *engine, Entry *entry, int tensor) {
    const TileUse *use = &entry->code.uses[tensor];
    Slot *slot = slot_of(engine, entry, tensor);
    if (entry->states[tensor] == USE_WAITING && use->made == use->number && slot->released == use->number)
        take_slot(engine, entry, tensor, slot);
    if (entry->states[tensor] < USE_READY && slot->ready == use->made)
        entry->states[tensor] = USE_READY;
    return entry->states[tensor] == USE_READY;
}

static void advance_entry(Engine *engine, Entry *entry) {
    if (entry->compute != COMPUTE_WAITING)
        return;
    bool ready = true;
    for (int t = 0; t < engine->tensors; t++)
        ready &= advance_use(engine, entry, t);
    if (!ready)
        return;
    entry->compute = COMPUTE_RUNNING;
    issue(engine, ENGINE_COMPUTE, entry, -1);
}

static bool admit(Engine *engine) {
    if (engine->live == engine->window)
        return false;
    for (int r = 0; r < engine->range_count; r++) {
        int index = (engine->first_range + r) % ENGINE_MAX_RANGES;
        Range *range = &engine->ranges[index];
        if (range->admitted == range->units.count)
            continue;
        Entry *entry = entry_at(engine, engine->live++);
        unroll_unit(engine->unroll, range->units.first + range->admitted++ * range->units.step, &entry->code);
        entry->compute = COMPUTE_WAITING;
        entry->range = index;
        entry->stores_left = 0;
        for (int t = 0; t < engine->tensors; t++) {
            entry->states[t] = USE_WAITING;
            entry->stores_left += tiles_of(engine, t)->store;
        }
        return true;
    }
    return false;
}

/* Units leave in the order they came: a slow store holds the window up, which bounds it. */
static void retire(Engine *engine) {
    while (engine->live > 0) {
        const Entry *entry = entry_at(engine, 0);
        if (entry->compute != COMPUTE_DONE || entry->stores_left > 0)
            return;
        engine->ranges[entry->range].done++;
        engine->units_done++;
        engine->head = (engine->head + 1) % engine->window;
        engine->live--;
    }
}

static void retire_ranges(Engine *engine) {
    while (engine->range_count > 0) {
        const Range *range = &engine->ranges[engine->first_range];
        if (range->done < range->units.count)
            return;
        act(engine, ENGINE_RANGE_DONE)->tag = range->units.tag;
        engine->first_range = (engine->first_range + 1) % ENGINE_MAX_RANGES;
        engine->range_count--;
    }
}

static void conclude(Engine *engine) {
    bool halted = engine->broken || engine->stopped;
    if (engine->over || engine->in_flight > 0 || (!halted && !(engine->closed && engine->range_count == 0)))
        return;
    engine->over = true;
    act(engine, engine->broken ? ENGINE_FAILED : engine->stopped ? ENGINE_STOPPED : ENGINE_FINISHED);
}

static void take_event(Engine *engine, const EngineEvent *event) {
    switch (event->kind) {
    case ENGINE_GIVE:
        assert(engine_has_room(engine));
        engine->ranges[(engine->first_range + engine->range_count++) % ENGINE_MAX_RANGES] = (Range){.units = event->range};
        break;
    case ENGINE_CLOSE:
        engine->closed = true;
        break;
    case ENGINE_STOP:
        engine->stopped = true;
        break;
    case ENGINE_ENDED:
    case ENGINE_BROKEN:
        instruction_ended(engine, event->instruction, event->kind == ENGINE_ENDED);
        break;
    }
}

int engine_step(Engine *engine, const EngineEvent *event, const EngineAction **actions) {
    engine->action_count = 0;
    take_event(engine, event);
    if (!engine->broken && !engine->stopped) {
        retire(engine);
        retire_ranges(engine);
        for (int place = 0; place < engine->live; place++)
            advance_entry(engine, entry_at(engine, place));
        while (admit(engine))
            advance_entry(engine, entry_at(engine, engine->live - 1));
    }
    conclude(engine);
    *actions = engine->actions;
    return engine->action_count;
}

bool engine_has_room(const Engine *engine) {
    return engine->range_count < ENGINE_MAX_RANGES;
}

int64_t engine_units_done(const Engine *engine) {
    return engine->units_done;
}

int64_t engine_bytes(const Engine *engine) {
    return engine->bytes;
}
