#include "runtime/pod/pod.h"

#include <assert.h>
#include <stdlib.h>

/* What a use of a slot has come to. Every state is left in this order; a tile that an earlier unit brings goes from WAITING to READY. */
typedef enum UseState { USE_WAITING, USE_LOADING, USE_READY, USE_RELEASED } UseState;

typedef enum ComputeState { COMPUTE_WAITING, COMPUTE_RUNNING, COMPUTE_DONE } ComputeState;

/* One step in flight. */
typedef struct Entry {
    StepCode code;
    UseState *states; /* as Problem.operands */
    ComputeState compute;
    int stores_left;
    int range; /* index into Engine.ranges */
} Entry;

typedef struct Slot {
    int64_t released; /* uses that have been given back */
    int64_t ending;   /* so many uses there are with the last one of the tile in its unit; 0: that one has not been given back */
    int64_t ready;    /* the use whose tile is there, or -1 */
    bool full;        /* holds a tile, as far as the accounting goes */
} Slot;

typedef struct Range {
    UnitRange units;
    int64_t admitted; /* units whose last step is in flight, or was */
    int64_t step;     /* the next one of the unit after those */
    int64_t done;     /* units */
    uint64_t checksum;
} Range;

struct Engine {
    const Plan *plan;
    Unroll *unroll;
    int operands, window;
    Entry *entries; /* a ring: steps in flight are head .. head + live - 1, in the order they were given */
    int head, live;
    Slot *slots; /* of all operands */
    int64_t slot_count;
    int64_t *first_slot;
    Range ranges[ENGINE_MAX_RANGES]; /* a ring */
    int first_range, range_count;
    bool closed, broken, stopped, over;
    int in_flight; /* instructions */
    int64_t units_done, bytes;
    EngineAction *actions;
    int action_count, action_capacity;
};

/* Instructions of an entry: COMPUTE, then LOAD and STORE of each operand. */
static uint32_t instructions_per_entry(int operands) {
    return 1 + 2 * (uint32_t)operands;
}

uint32_t engine_instructions(const Plan *plan) {
    return (uint32_t)plan->window * instructions_per_entry(plan->problem->operand_count);
}

Engine *engine_new(const Plan *plan) {
    int operands = plan->problem->operand_count;
    Engine *engine = new_zeroed(1, sizeof *engine);
    engine->plan = plan;
    engine->unroll = unroll_new(plan);
    engine->operands = operands;
    engine->window = plan->window;
    engine->entries = new_zeroed((size_t)plan->window, sizeof *engine->entries);
    for (int e = 0; e < plan->window; e++) {
        engine->entries[e].code.uses = new_zeroed((size_t)operands, sizeof(TileUse));
        engine->entries[e].states = new_zeroed((size_t)operands, sizeof(UseState));
    }
    engine->first_slot = new_zeroed((size_t)operands, sizeof(int64_t));
    int64_t slots = 0;
    for (int t = 0; t < operands; t++) {
        engine->first_slot[t] = slots;
        slots += plan->slots[t];
    }
    engine->slot_count = slots;
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

bool engine_idle(const Engine *engine) {
    return engine->live == 0 && engine->range_count == 0 && engine->in_flight == 0;
}

void engine_reset(Engine *engine) {
    assert(engine_idle(engine));
    unroll_reset(engine->unroll);
    for (int64_t s = 0; s < engine->slot_count; s++)
        engine->slots[s] = (Slot){.ready = -1};
    engine->bytes = 0;
}

static Entry *entry_at(Engine *engine, int place) {
    return &engine->entries[(engine->head + place) % engine->window];
}

static Slot *slot_of(Engine *engine, const Entry *entry, int operand) {
    return &engine->slots[engine->first_slot[operand] + entry->code.uses[operand].slot];
}

static int64_t tile_bytes_of(const Engine *engine, int operand) {
    return engine->plan->problem->operands[operand].bytes;
}

/* ---- actions ---- */

static EngineAction *act(Engine *engine, EngineActionKind kind) {
    assert(engine->action_count < engine->action_capacity);
    EngineAction *action = &engine->actions[engine->action_count++];
    *action = (EngineAction){.kind = kind};
    return action;
}

static void issue(Engine *engine, EngineActionKind kind, const Entry *entry, int operand) {
    EngineAction *action = act(engine, kind);
    action->entry = (int)(entry - engine->entries);
    action->operand = operand;
    action->code = &entry->code;
    action->dry = engine->ranges[entry->range].units.dry;
    uint32_t base = (uint32_t)action->entry * instructions_per_entry(engine->operands);
    uint32_t offset = kind == ENGINE_COMPUTE ? 0 : kind == ENGINE_LOAD ? 1 + 2 * (uint32_t)operand : 2 + 2 * (uint32_t)operand;
    action->instruction = base + offset;
    engine->in_flight++;
}

/* ---- what the end of an instruction means ---- */

/* The tile goes with its last use, unless it is kept for later units. */
static void release(Engine *engine, Entry *entry, int operand) {
    Slot *slot = slot_of(engine, entry, operand);
    entry->states[operand] = USE_RELEASED;
    slot->released++;
    if (entry->code.uses[operand].how.last)
        slot->ending = entry->code.uses[operand].number + 1;
    if (engine->plan->kept[operand] || slot->ending != slot->released)
        return;
    slot->ending = 0;
    slot->full = false;
    slot->ready = -1;
    engine->bytes -= tile_bytes_of(engine, operand);
}

static void compute_ended(Engine *engine, Entry *entry) {
    entry->compute = COMPUTE_DONE;
    for (int t = 0; t < engine->operands; t++) {
        StepUse how = entry->code.uses[t].how;
        if (how.used && how.store)
            issue(engine, ENGINE_STORE, entry, t);
        else if (how.used)
            release(engine, entry, t);
    }
}

static void instruction_ended(Engine *engine, const EngineEvent *event) {
    uint32_t per_entry = instructions_per_entry(engine->operands);
    Entry *entry = &engine->entries[event->instruction / per_entry];
    uint32_t offset = event->instruction % per_entry;
    engine->in_flight--;
    if (event->kind == ENGINE_BROKEN)
        engine->broken = true;
    if (engine->broken || engine->stopped)
        return;
    int operand = (int)(offset - 1) / 2;
    if (offset == 0) {
        compute_ended(engine, entry);
    } else if (offset % 2 == 1) {
        slot_of(engine, entry, operand)->ready = entry->code.uses[operand].number;
    } else {
        release(engine, entry, operand);
        entry->stores_left--;
        engine->ranges[entry->range].checksum += event->checksum;
    }
}

/* ---- what can go on ---- */

/* A fresh use takes its slot when all earlier uses have been given back. */
static void take_slot(Engine *engine, Entry *entry, int operand, Slot *slot) {
    if (!slot->full)
        engine->bytes += tile_bytes_of(engine, operand);
    slot->full = true;
    slot->ready = -1;
    if (entry->code.uses[operand].how.load) {
        entry->states[operand] = USE_LOADING;
        issue(engine, ENGINE_LOAD, entry, operand);
    } else {
        slot->ready = entry->code.uses[operand].number;
        entry->states[operand] = USE_READY;
    }
}

static bool advance_use(Engine *engine, Entry *entry, int operand) {
    const TileUse *use = &entry->code.uses[operand];
    if (!use->how.used)
        return true;
    Slot *slot = slot_of(engine, entry, operand);
    if (entry->states[operand] == USE_WAITING && use->made == use->number && slot->released == use->number)
        take_slot(engine, entry, operand, slot);
    if (entry->states[operand] < USE_READY && slot->ready == use->made)
        entry->states[operand] = USE_READY;
    return entry->states[operand] == USE_READY;
}

/* The steps of a unit compute in their order, and follow one another in the window. */
static bool step_before_computed(Engine *engine, int place) {
    return place == 0 || entry_at(engine, place)->code.step.number == 0 || entry_at(engine, place - 1)->compute == COMPUTE_DONE;
}

static void advance_entry(Engine *engine, int place) {
    Entry *entry = entry_at(engine, place);
    if (entry->compute != COMPUTE_WAITING)
        return;
    bool ready = step_before_computed(engine, place);
    for (int t = 0; t < engine->operands; t++)
        ready &= advance_use(engine, entry, t);
    if (!ready)
        return;
    entry->compute = COMPUTE_RUNNING;
    issue(engine, ENGINE_COMPUTE, entry, -1);
}

static void admit_step(Engine *engine, int range) {
    Entry *entry = entry_at(engine, engine->live++);
    Range *from = &engine->ranges[range];
    unroll_step(engine->unroll, from->units.first + from->admitted * from->units.step, from->step, &entry->code);
    if (++from->step == engine->plan->problem->steps) {
        from->step = 0;
        from->admitted++;
    }
    entry->compute = COMPUTE_WAITING;
    entry->range = range;
    entry->stores_left = 0;
    for (int t = 0; t < engine->operands; t++) {
        entry->states[t] = USE_WAITING;
        entry->stores_left += entry->code.uses[t].how.used && entry->code.uses[t].how.store;
    }
}

static bool admit(Engine *engine) {
    if (engine->live == engine->window)
        return false;
    for (int r = 0; r < engine->range_count; r++) {
        int index = (engine->first_range + r) % ENGINE_MAX_RANGES;
        if (engine->ranges[index].admitted == engine->ranges[index].units.count)
            continue;
        admit_step(engine, index);
        return true;
    }
    return false;
}

/* Steps leave in the order they came: a slow store holds the window up, which bounds it. */
static void retire(Engine *engine) {
    while (engine->live > 0) {
        const Entry *entry = entry_at(engine, 0);
        if (entry->compute != COMPUTE_DONE || entry->stores_left > 0)
            return;
        if (entry->code.step.number == engine->plan->problem->steps - 1) {
            engine->ranges[entry->range].done++;
            engine->units_done++;
        }
        engine->head = (engine->head + 1) % engine->window;
        engine->live--;
    }
}

static void retire_ranges(Engine *engine) {
    while (engine->range_count > 0) {
        const Range *range = &engine->ranges[engine->first_range];
        if (range->done < range->units.count)
            return;
        EngineAction *action = act(engine, ENGINE_RANGE_DONE);
        action->tag = range->units.tag;
        action->units = range->units.count;
        action->checksum = range->checksum;
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

static void drain(Engine *engine) {
    for (int r = 0; r < engine->range_count; r++) {
        Range *range = &engine->ranges[(engine->first_range + r) % ENGINE_MAX_RANGES];
        range->units.count = range->admitted + (range->step > 0);
    }
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
    case ENGINE_DRAIN:
        drain(engine);
        break;
    case ENGINE_STOP:
        engine->stopped = true;
        break;
    case ENGINE_ENDED:
    case ENGINE_BROKEN:
        instruction_ended(engine, event);
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
            advance_entry(engine, place);
        while (admit(engine))
            advance_entry(engine, engine->live - 1);
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
