/* The pod's engine against a simulated store and device that end what they were given in random order: nothing starts before what it needs is there,
 * memory keeps to the plan, every unit is stored exactly once, and failures and stops end cleanly. */
#include "runtime/pod/pod.h"
#include "tests/unit/random_job.h"
#include "tests/unit/random_program.h"

#include <check.h>
#include <stdlib.h>

enum { MAX_BATCHES = 200, MAX_OPERANDS = 8 };

typedef struct Slot {
    int64_t tile;                             /* what its bytes are, -1 nothing */
    bool written;                             /* by a leaf, and neither stored nor given up yet */
    int loading, reading, computing, storing; /* instructions in flight */
} Slot;

/* The pod's world, as the engine's actions make it. */
typedef struct World {
    const Plan *plan;
    const Problem *problem;
    Engine *engine;
    Slot *slots[MAX_OPERANDS];
    EngineAction *flying;
    int flying_count;
    int64_t *computed, *stored; /* of each unit: steps, tiles */
    int64_t unit_stores;        /* tiles */
    int64_t batch_units[MAX_BATCHES], batch_first[MAX_BATCHES], batch_step[MAX_BATCHES];
    int batch_count, batches_done;
    EngineActionKind end; /* ENGINE_LOAD: none yet */
    int64_t loads, most_flying;
} World;

static const StepUse *how_of(const StepCode *code, int t) {
    return &code->uses[t].how;
}

static Slot *slot_of(World *world, const StepCode *code, int t) {
    return &world->slots[t][code->uses[t].slot];
}

static void check_memory(World *world) {
    int64_t held = 0;
    for (int t = 0; t < world->problem->operand_count; t++)
        for (int64_t s = 0; s < world->plan->slots[t]; s++) {
            const Slot *slot = &world->slots[t][s];
            if (slot->loading + slot->computing + slot->storing > 0 || slot->written)
                held += world->problem->operands[t].bytes;
        }
    ck_assert_int_le(held, engine_bytes(world->engine));
    ck_assert_int_le(engine_bytes(world->engine), world->plan->bytes);
}

static void start_load(World *world, const EngineAction *action) {
    Slot *slot = slot_of(world, action->code, action->operand);
    ck_assert(world->problem->operands[action->operand].load && how_of(action->code, action->operand)->load);
    ck_assert_int_eq(slot->loading + slot->computing + slot->storing, 0);
    ck_assert(!slot->written);
    slot->tile = -1;
    slot->loading++;
    world->loads++;
}

static int mode_of(const World *world, const StepCode *code, int t) {
    return world->problem->kernel->stages[code->step.stage].modes[t];
}

/* Steps come in order, on tiles that are loaded or that an earlier step of the unit made. */
static void start_compute(World *world, const EngineAction *action) {
    const StepCode *code = action->code;
    ck_assert_int_eq(world->computed[code->step.unit], code->step.number);
    for (int f = 0; f < world->flying_count; f++)
        ck_assert(world->flying[f].kind != ENGINE_COMPUTE || world->flying[f].code->step.unit != code->step.unit);
    for (int t = 0; t < world->problem->operand_count; t++) {
        int mode = mode_of(world, code, t);
        ck_assert_int_eq(how_of(code, t)->used, mode != PHB_UNUSED);
        if (mode == PHB_UNUSED)
            continue;
        Slot *slot = slot_of(world, code, t);
        ck_assert_int_eq(slot->loading, 0);
        if (mode != PHB_WRITE)
            ck_assert_int_eq(slot->tile, tile_number(world->problem, t, code->step.at));
        if (mode != PHB_READ)
            ck_assert_int_eq(slot->computing + slot->storing, 0);
        if (how_of(code, t)->first)
            ck_assert(!slot->written);
        slot->computing++;
    }
}

static void start_store(World *world, const EngineAction *action) {
    Slot *slot = slot_of(world, action->code, action->operand);
    ck_assert(world->problem->operands[action->operand].store);
    ck_assert(slot->written);
    ck_assert_int_eq(slot->tile, tile_number(world->problem, action->operand, action->code->step.at));
    ck_assert_int_eq(slot->loading + slot->storing, 0);
    slot->storing++;
}

/* What a store of a unit's tile adds to its batch's checksum. */
static uint64_t store_checksum(int64_t unit) {
    return (uint64_t)(unit + 1) * 1000003;
}

static void batch_done(World *world, uint64_t tag, uint64_t checksum) {
    uint64_t sum = 0;
    ck_assert_uint_eq(tag, (uint64_t)world->batches_done);
    world->batches_done++;
    for (int64_t i = 0; i < world->batch_units[tag]; i++) {
        int64_t unit = world->batch_first[tag] + i * world->batch_step[tag];
        ck_assert_int_eq(world->stored[unit], world->unit_stores);
        sum += (uint64_t)world->unit_stores * store_checksum(unit);
    }
    ck_assert_uint_eq(checksum, sum);
}

static void feed(World *world, EngineEvent event) {
    const EngineAction *actions;
    int count = engine_step(world->engine, &event, &actions);
    for (int a = 0; a < count; a++) {
        const EngineAction *action = &actions[a];
        ck_assert_int_eq(world->end, ENGINE_LOAD);
        switch (action->kind) {
        case ENGINE_LOAD:
            start_load(world, action);
            break;
        case ENGINE_COMPUTE:
            start_compute(world, action);
            break;
        case ENGINE_STORE:
            start_store(world, action);
            break;
        case ENGINE_RANGE_DONE:
            batch_done(world, action->tag, action->checksum);
            continue;
        default:
            world->end = action->kind;
            continue;
        }
        ck_assert_uint_lt(action->instruction, engine_instructions(world->plan));
        for (int f = 0; f < world->flying_count; f++)
            ck_assert_uint_ne(world->flying[f].instruction, action->instruction);
        world->flying[world->flying_count++] = *action;
    }
    if (world->flying_count > world->most_flying)
        world->most_flying = world->flying_count;
    check_memory(world);
}

static void settle_compute(World *world, const StepCode *code) {
    world->computed[code->step.unit]++;
    for (int t = 0; t < world->problem->operand_count; t++) {
        int mode = mode_of(world, code, t);
        if (mode == PHB_UNUSED)
            continue;
        Slot *slot = slot_of(world, code, t);
        slot->computing--;
        if (mode != PHB_READ) {
            slot->tile = tile_number(world->problem, t, code->step.at);
            slot->written = true;
        }
        if (how_of(code, t)->last && !world->problem->operands[t].store)
            slot->written = false;
    }
}

/* What an instruction that ends well has done to memory and files. */
static void settle(World *world, const EngineAction *action) {
    const StepCode *code = action->code;
    if (action->kind == ENGINE_COMPUTE) {
        settle_compute(world, code);
        return;
    }
    Slot *slot = slot_of(world, code, action->operand);
    if (action->kind == ENGINE_LOAD) {
        slot->loading--;
        slot->tile = tile_number(world->problem, action->operand, code->step.at);
    } else {
        slot->storing--;
        slot->written = false;
        world->stored[code->step.unit]++;
    }
}

static void end_instruction(World *world, int flying, bool well) {
    EngineAction action = world->flying[flying];
    world->flying[flying] = world->flying[--world->flying_count];
    settle(world, &action);
    feed(world, (EngineEvent){.kind = well ? ENGINE_ENDED : ENGINE_BROKEN,
                    .instruction = action.instruction,
                    .checksum = action.kind == ENGINE_STORE ? store_checksum(action.code->step.unit) : 0});
}

static World *world_new(const Plan *plan) {
    World *world = new_zeroed(1, sizeof *world);
    world->plan = plan;
    world->problem = plan->problem;
    world->engine = engine_new(plan);
    world->flying = new_zeroed(engine_instructions(plan), sizeof *world->flying);
    world->computed = new_zeroed((size_t)plan->problem->units, sizeof(int64_t));
    world->stored = new_zeroed((size_t)plan->problem->units, sizeof(int64_t));
    ck_assert_int_le(plan->problem->operand_count, MAX_OPERANDS);
    for (int t = 0; t < plan->problem->operand_count; t++) {
        const Operand *operand = &plan->problem->operands[t];
        world->unit_stores += operand->store ? (operand->loop < 0 ? 1 : plan->problem->chunks[operand->loop]) : 0;
        world->slots[t] = new_zeroed((size_t)plan->slots[t], sizeof(Slot));
        for (int64_t s = 0; s < plan->slots[t]; s++)
            world->slots[t][s].tile = -1;
    }
    return world;
}

static void world_free(World *world) {
    for (int t = 0; t < world->problem->operand_count; t++)
        free(world->slots[t]);
    engine_free(world->engine);
    free(world->flying);
    free(world->computed);
    free(world->stored);
    free(world);
}

typedef struct Trouble {
    int break_one_in; /* 0: never */
    int stop_one_in;
} Trouble;

/* The units of a pod arrive in random batches while it works. */
static void play(World *world, uint64_t *state, UnitRange units, Trouble trouble) {
    int64_t given = 0;
    bool closed = false;
    while (world->end == ENGINE_LOAD) {
        bool can_give = given < units.count && world->batch_count < MAX_BATCHES && engine_has_room(world->engine);
        if (trouble.stop_one_in && random_below(state, trouble.stop_one_in) == 0) {
            feed(world, (EngineEvent){.kind = ENGINE_STOP});
            trouble.stop_one_in = 0;
        } else if (can_give && (world->flying_count == 0 || random_below(state, 3) == 0)) {
            int64_t count = world->batch_count == MAX_BATCHES - 1 ? units.count - given : 1 + random_below(state, units.count - given);
            int b = world->batch_count++;
            UnitRange range = {.first = units.first + given * units.step, .count = count, .step = units.step, .tag = (uint64_t)b};
            world->batch_first[b] = range.first;
            world->batch_units[b] = count;
            world->batch_step[b] = range.step;
            given += count;
            feed(world, (EngineEvent){.kind = ENGINE_GIVE, .range = range});
        } else if (given == units.count && !closed && (world->flying_count == 0 || random_below(state, 3) == 0)) {
            closed = true;
            feed(world, (EngineEvent){.kind = ENGINE_CLOSE});
        } else {
            ck_assert_msg(world->flying_count > 0, "nothing in flight and nothing more to come");
            bool breaks = trouble.break_one_in && random_below(state, trouble.break_one_in) == 0;
            end_instruction(world, (int)random_below(state, world->flying_count), !breaks);
        }
    }
    ck_assert_int_eq(world->flying_count, 0);
}

typedef struct Case {
    RandomJob *job; /* one of these two */
    RandomProgram *program;
    Problem *problem;
    Plan *plan;
    World *world;
} Case;

/* Bytes without which no plan is possible: a tile of each operand, and all chunks of what a unit holds. */
static int64_t least_memory(const Problem *problem) {
    int64_t least = 0;
    for (int t = 0; t < problem->operand_count; t++) {
        const Operand *operand = &problem->operands[t];
        int64_t tiles = operand->held && operand->loop >= 0 ? problem->chunks[operand->loop] : 1;
        least += operand->sweeps > 0 ? tiles * operand->bytes : 0;
    }
    return least;
}

/* Every third plan has the least memory that there is a plan for. */
static Case case_new(uint64_t *state) {
    Case test = {0};
    Error error;
    if (random_below(state, 3) == 0) {
        RandomShape shape = random_shape(state, 60);
        test.job = random_job_new(random_next(state), &shape, false);
    } else {
        test.program = random_program_new(random_next(state), false);
    }
    test.problem = problem_bind(test.job != NULL ? &test.job->job : &test.program->job, LEAF_MODEL, &error);
    ck_assert_msg(test.problem != NULL, "%s", error.text);
    int64_t least = least_memory(test.problem);
    ck_assert(plan_make(test.problem, least - 1, &error) == NULL);
    test.plan = plan_make(test.problem, least + (random_below(state, 3) ? random_below(state, 6 * least) : 0), &error);
    ck_assert_msg(test.plan != NULL, "%s", error.text);
    test.world = world_new(test.plan);
    return test;
}

static void case_free(Case *test) {
    world_free(test->world);
    plan_free(test->plan);
    problem_free(test->problem);
    if (test->job != NULL)
        random_job_free(test->job);
    else
        random_program_free(test->program);
}

START_TEST(every_unit_is_stored_once) {
    uint64_t state = 3;
    for (int round = 0; round < 400; round++) {
        Case test = case_new(&state);
        int64_t pods = 1 + random_below(&state, 3), pod = random_below(&state, pods);
        UnitRange units = deal_units(test.problem, pod, pods);
        play(test.world, &state, units, (Trouble){0, 0});
        ck_assert_int_eq(test.world->end, ENGINE_FINISHED);
        ck_assert_int_eq(test.world->batches_done, test.world->batch_count);
        ck_assert_int_eq(engine_units_done(test.world->engine), units.count);
        for (int64_t u = 0; u < test.problem->units; u++) {
            bool ours = u % pods == pod;
            ck_assert_int_eq(test.world->computed[u], ours ? test.problem->steps : 0);
            ck_assert_int_eq(test.world->stored[u], ours ? test.world->unit_stores : 0);
        }
        case_free(&test);
    }
}
END_TEST

START_TEST(failures_end_cleanly) {
    uint64_t state = 4;
    int failed = 0;
    for (int round = 0; round < 400; round++) {
        Case test = case_new(&state);
        play(test.world, &state, deal_units(test.problem, 0, 1), (Trouble){.break_one_in = 2 + (int)random_below(&state, 100)});
        ck_assert(test.world->end == ENGINE_FAILED || test.world->end == ENGINE_FINISHED);
        failed += test.world->end == ENGINE_FAILED;
        case_free(&test);
    }
    ck_assert_int_gt(failed, 30);
}
END_TEST

START_TEST(stops_end_cleanly) {
    uint64_t state = 5;
    int stopped = 0;
    for (int round = 0; round < 400; round++) {
        Case test = case_new(&state);
        play(test.world, &state, deal_units(test.problem, 0, 1), (Trouble){.stop_one_in = 1 + (int)random_below(&state, 50)});
        ck_assert(test.world->end == ENGINE_STOPPED || test.world->end == ENGINE_FINISHED);
        stopped += test.world->end == ENGINE_STOPPED;
        case_free(&test);
    }
    ck_assert_int_gt(stopped, 30);
}
END_TEST

START_TEST(a_failure_outweighs_a_stop) {
    uint64_t state = 6;
    Case test = case_new(&state);
    feed(test.world, (EngineEvent){.kind = ENGINE_GIVE, .range = deal_units(test.problem, 0, 1)});
    feed(test.world, (EngineEvent){.kind = ENGINE_STOP});
    while (test.world->end == ENGINE_LOAD)
        end_instruction(test.world, 0, false);
    ck_assert_int_eq(test.world->end, ENGINE_FAILED);
    case_free(&test);
}
END_TEST

START_TEST(no_units_finish_at_once) {
    uint64_t state = 7;
    Case test = case_new(&state);
    feed(test.world, (EngineEvent){.kind = ENGINE_CLOSE});
    ck_assert_int_eq(test.world->end, ENGINE_FINISHED);
    case_free(&test);
}
END_TEST

/* With two tiles of each tensor, one unit's loads run beside another's compute and a third's stores. */
START_TEST(loads_compute_and_stores_overlap) {
    RandomShape shape = {1, {64, 1, 1}, {2, 1, 1}, {1, 1, 1}};
    Error error;
    Case test = {0};
    test.job = random_job_new(8, &shape, false);
    test.problem = problem_bind(&test.job->job, LEAF_MODEL, &error);
    ck_assert_msg(test.problem != NULL, "%s", error.text);
    int64_t unit = 0;
    for (int t = 0; t < JOB_TENSORS; t++)
        unit += test.problem->operands[t].bytes;
    test.plan = plan_make(test.problem, 2 * unit, &error);
    ck_assert_msg(test.plan != NULL, "%s", error.text);
    World *world = test.world = world_new(test.plan);
    feed(world, (EngineEvent){.kind = ENGINE_GIVE, .range = deal_units(test.problem, 0, 1)});
    bool together = false;
    while (world->flying_count > 0 && !together) {
        int kinds[3] = {0, 0, 0}, next = 0;
        for (int f = 0; f < world->flying_count; f++) {
            kinds[world->flying[f].kind]++;
            /* Loads end first and stores last. */
            if (world->flying[f].kind < world->flying[next].kind)
                next = f;
        }
        together = kinds[ENGINE_COMPUTE] > 0 && kinds[ENGINE_STORE] > 0;
        end_instruction(world, next, true);
    }
    ck_assert(together);
    feed(world, (EngineEvent){.kind = ENGINE_STOP});
    while (world->flying_count > 0)
        end_instruction(world, 0, true);
    case_free(&test);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("engine");
    TCase *tests = tcase_create("engine");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, every_unit_is_stored_once);
    tcase_add_test(tests, failures_end_cleanly);
    tcase_add_test(tests, stops_end_cleanly);
    tcase_add_test(tests, a_failure_outweighs_a_stop);
    tcase_add_test(tests, no_units_finish_at_once);
    tcase_add_test(tests, loads_compute_and_stores_overlap);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
