/* The planner: super-tiles cover each tensor once, plans keep to their memory, unrolled units find their tiles, and what does not fit is refused in
 * words. */
#include "runtime/sched/sched.h"
#include "tests/unit/random_job.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static Error error;

static RandomJob *job_of(int axes, const int64_t extent[3], const int64_t super[3], const int64_t leaf[3]) {
    RandomShape shape = {.axes = axes};
    memcpy(shape.extent, extent, sizeof shape.extent);
    memcpy(shape.super, super, sizeof shape.super);
    memcpy(shape.leaf, leaf, sizeof shape.leaf);
    return random_job_new(7, &shape, false);
}

static RandomJob *small_job(void) {
    return job_of(2, (int64_t[3]){10, 7, 1}, (int64_t[3]){4, 2, 1}, (int64_t[3]){2, 1, 1});
}

/* ---- binding ---- */

/* Counts, for each element of a written tensor, the units that own it. */
static void check_cover(const Problem *problem, int t) {
    const Operand *tiles = &problem->operands[t];
    int64_t whole = 1;
    for (int k = 0; k < PHB_MAX_RANK; k++)
        whole *= tiles->whole[k];
    uint8_t *owners = new_zeroed((size_t)whole, 1);
    for (int64_t unit = 0; unit < problem->units; unit++) {
        int64_t i[PHB_MAX_RANK];
        Region region;
        Step step = step_find(problem, unit, 0);
        tile_region(problem, &step, t, &region);
        ck_assert_int_le(
            region_pitch(tiles, &region) * (region_bytes(tiles, &region) / tiles->element / region.extent[tiles->rank - 1]), tiles->bytes);
        const int64_t *low = region.origin, *size = region.extent;
        for (i[0] = low[0]; i[0] < low[0] + size[0]; i[0]++)
            for (i[1] = low[1]; i[1] < low[1] + size[1]; i[1]++)
                for (i[2] = low[2]; i[2] < low[2] + size[2]; i[2]++)
                    for (i[3] = low[3]; i[3] < low[3] + size[3]; i[3]++)
                        owners[((i[0] * tiles->whole[1] + i[1]) * tiles->whole[2] + i[2]) * tiles->whole[3] + i[3]]++;
    }
    for (int64_t i = 0; i < whole; i++)
        ck_assert_int_eq(owners[i], 1);
    free(owners);
}

START_TEST(units_cover_written_tensors_once) {
    uint64_t state = 1;
    for (int round = 0; round < 60; round++) {
        RandomShape shape = random_shape(&state, 40);
        RandomJob *job = random_job_new(random_next(&state), &shape, false);
        Problem *problem = problem_bind(&job->job, LEAF_MODEL, &error);
        ck_assert_msg(problem != NULL, "%s", error.text);
        for (int t = 0; t < JOB_TENSORS; t++)
            if (problem->operands[t].store)
                check_cover(problem, t);
        problem_free(problem);
        random_job_free(job);
    }
}
END_TEST

START_TEST(leaf_shapes_follow_the_super_tile) {
    RandomJob *job = small_job();
    Problem *problem = problem_bind(&job->job, LEAF_MODEL, &error);
    ck_assert_msg(problem != NULL, "%s", error.text);
    ck_assert_int_eq(problem->units, 3 * 4);
    const struct {
        int64_t coordinates[3], dims[2], grid[2];
    } cases[] = {
        {{0, 0, 0}, {4, 2}, {2, 2}},
        {{1, 2, 0}, {4, 2}, {2, 2}},
        {{2, 0, 0}, {2, 2}, {1, 2}},
        {{0, 3, 0}, {4, 1}, {2, 1}},
        {{2, 3, 0}, {2, 1}, {1, 1}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        Step step = {.at = {cases[c].coordinates[0], cases[c].coordinates[1], cases[c].coordinates[2], 0}};
        const LeafShape *shape = step_shape(problem, &step);
        ck_assert_mem_eq(shape->dims, cases[c].dims, sizeof cases[c].dims);
        ck_assert_mem_eq(shape->grid, cases[c].grid, sizeof cases[c].grid);
        ck_assert_int_eq(shape->grid[2], 1);
    }
    problem_free(problem);
    random_job_free(job);
}
END_TEST

static void check_refused(const RandomJob *job, LeafChoice leaf, const char *text) {
    Problem *problem = problem_bind(&job->job, leaf, &error);
    ck_assert_msg(problem == NULL, "accepted, although: %s", text);
    ck_assert_msg(strstr(error.text, text) != NULL, "expected \"%s\" in \"%s\"", text, error.text);
}

START_TEST(super_tile_must_be_whole_leaf_tiles) {
    RandomJob *job = small_job();
    job->job.dims[3] = 5;
    check_refused(job, LEAF_MODEL, "the super-tile B0 = 5 is not a multiple of the leaf's tile B0 = 2, and does not cover the axis of 10");
    job->job.dims[3] = 11; /* covers it */
    Problem *problem = problem_bind(&job->job, LEAF_MODEL, &error);
    ck_assert_msg(problem != NULL, "%s", error.text);
    ck_assert_int_eq(problem->supers[0], 1);
    problem_free(problem);
    random_job_free(job);
}
END_TEST

START_TEST(bad_values_are_refused) {
    const struct {
        int dim;
        int64_t value;
        const char *text;
    } cases[] = {
        {3, 0, "the super-tile B0 = 0 is not positive"},
        {3, -4, "the super-tile B0 = -4 is not positive"},
        {0, 0, "is not positive"},
        {0, -1, "is not positive"},
        {0, INT64_MAX, "more than 2147483647; choose a larger one"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        RandomJob *job = small_job();
        job->dims[cases[c].dim].cluster_count = 1;
        job->job.dims[cases[c].dim] = cases[c].value;
        if (cases[c].value == 0 && cases[c].dim == 3)
            job->values[3] = 0;
        check_refused(job, LEAF_MODEL, cases[c].text);
        random_job_free(job);
    }
}
END_TEST

START_TEST(absurd_plans_are_refused_with_their_size) {
    RandomJob *job = small_job();
    job->job.dims[0] = job->job.dims[1] = INT64_C(2147483647) * 2;
    check_refused(job, LEAF_MODEL, "1073741824 x 2147483647 x 1 = 2305843008139952128 super-tiles are more than 68719476736");
    job->job.dims[1] = 7;
    job->job.dims[0] = INT64_C(1) << 62;
    job->job.dims[3] = INT64_C(1) << 61;
    check_refused(job, LEAF_MODEL, "2^63");
    random_job_free(job);
}
END_TEST

static const PhbExprNode false_nodes[] = {{PHB_EXPR_DIM, 0, 0}, {PHB_EXPR_INT, 0, 2}, {PHB_EXPR_EQ, 0, 0}};
static const PhbExprNode broken_nodes[] = {{PHB_EXPR_INT, 0, 1}, {PHB_EXPR_INT, 0, 0}, {PHB_EXPR_DIV, 0, 0}};
static const PhbExprNode zero_nodes[] = {{PHB_EXPR_INT, 0, 0}};
static const PhbExprNode thirteen_nodes[] = {{PHB_EXPR_INT, 0, 13}};

START_TEST(checks_are_evaluated_at_bind_time) {
    RandomJob *job = small_job();
    PhbCheck check = {{false_nodes, 3, "D0 == 2"}, "D0 must be 2"};
    job->kernel.bind_checks = &check;
    job->kernel.bind_check_count = 1;
    check_refused(job, LEAF_MODEL, "D0 must be 2");
    check.cond = (PhbExpr){broken_nodes, 3, "1 / 0"};
    check_refused(job, LEAF_MODEL, "overflow or division by zero in '1 / 0'");
    job->kernel.bind_check_count = 0;
    job->kernel.leaf_checks = &check;
    job->kernel.leaf_check_count = 1;
    check_refused(job, LEAF_MODEL, "overflow or division by zero in '1 / 0'");
    /* Holds for the ragged last super-tile alone; the others must be looked at, too. */
    check.cond = (PhbExpr){false_nodes, 3, "D0 == 2"};
    check_refused(job, LEAF_MODEL, "D0 must be 2");
    random_job_free(job);
}
END_TEST

START_TEST(an_empty_launch_grid_is_refused) {
    RandomJob *job = small_job();
    job->kernel.grid[1].leaf = (PhbExpr){zero_nodes, 1, "0"};
    check_refused(job, LEAF_MODEL, "the launch grid '0' is 0 CTAs");
    random_job_free(job);
}
END_TEST

START_TEST(tensors_must_agree_with_the_grid) {
    RandomJob *job = small_job();
    for (int k = 0; k < job->tensors[3].rank; k++)
        if (job->tensors[3].axes[k].kind == PHB_AXIS_GRID && job->tensors[3].axes[k].index == 0)
            job->tensors[3].axes[k].extent = (PhbExpr){thirteen_nodes, 1, "13"};
    check_refused(job, LEAF_MODEL, "tensor 'out': its extent '13' is 13, but the grid runs to 10");
    random_job_free(job);
}
END_TEST

START_TEST(outputs_must_be_indexed_by_split_axes) {
    RandomJob *job = small_job();
    for (int k = 0; k < job->tensors[3].rank; k++)
        if (job->tensors[3].axes[k].kind == PHB_AXIS_GRID && job->tensors[3].axes[k].index == 1)
            job->tensors[3].axes[k].kind = PHB_AXIS_WHOLE;
    check_refused(job, LEAF_MODEL, "tensor 'out' is written but not indexed by the split axis ctx.block.y");
    random_job_free(job);
}
END_TEST

START_TEST(variants_are_chosen) {
    RandomJob *job = small_job();
    int64_t ones[JOB_DIMS], fours[JOB_DIMS];
    memcpy(ones, job->values, sizeof ones);
    memcpy(fours, job->values, sizeof fours);
    ones[3] = 1;
    fours[3] = 4;
    const PhbVariant variants[] = {{.values = fours, .scratch = 64, .cpu = &job->code, .cpu_count = 1}, {.values = ones, .scratch = 64, .cpu = &job->code, .cpu_count = 1}};
    const int64_t declared[] = {1, 4};
    job->dims[3].leaf = declared;
    job->dims[3].leaf_count = 2;
    job->kernel.variants = variants;
    job->kernel.variant_count = 2;
    const struct {
        LeafChoice choice;
        int64_t super, fixed;
        int64_t chosen; /* 0: refused */
    } cases[] = {
        {LEAF_MODEL, 4, 0, 4}, /* the compiler's order */
        {LEAF_FIRST, 4, 0, 1}, /* the declared one */
        {LEAF_MODEL, 6, 0, 1}, /* 4 does not divide it */
        {LEAF_MEASURE, 6, 0, 1},
        {LEAF_MODEL, 4, 1, 1}, /* the job says so */
        {LEAF_MODEL, 6, 4, 0},
        {LEAF_MODEL, 4, 3, 0},
        {LEAF_MEASURE, 4, 0, 4}, /* nothing is barred: as the model */
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        job->job.dims[3] = cases[c].super;
        job->job.leaf_values[3] = cases[c].fixed;
        Problem *problem = problem_bind(&job->job, cases[c].choice, &error);
        ck_assert_msg((problem != NULL) == (cases[c].chosen != 0), "case %zu: %s", c, problem ? "accepted" : error.text);
        if (problem != NULL)
            ck_assert_int_eq(problem->variant->values[3], cases[c].chosen);
        problem_free(problem);
    }
    random_job_free(job);
}
END_TEST

/* ---- memory ---- */

START_TEST(what_lies_beyond_a_tensor_is_cut_off) {
    const Operand operand = {.rank = 2, .whole = {10, 8, 1, 1}};
    Region region = {.origin = {-1, 6}, .extent = {4, 3, 1, 1}};
    region_clip(&operand, &region);
    ck_assert(region.origin[0] == 0 && region.extent[0] == 3);
    ck_assert(region.origin[1] == 6 && region.extent[1] == 2);
}
END_TEST

START_TEST(too_little_memory_is_refused_by_tensor) {
    RandomJob *job = small_job();
    Problem *problem = problem_bind(&job->job, LEAF_MODEL, &error);
    ck_assert(problem != NULL);
    ck_assert(plan_make(problem, 100, &error) == NULL);
    ck_assert_msg(strstr(error.text, "but a pod has 100") != NULL, "%s", error.text);
    for (int t = 0; t < JOB_TENSORS; t++)
        ck_assert_msg(strstr(error.text, job->tensors[t].name) != NULL, "%s", error.text);
    int64_t least = 0;
    for (int t = 0; t < JOB_TENSORS; t++)
        least += problem->operands[t].bytes;
    ck_assert(plan_make(problem, least - 1, &error) == NULL);
    Plan *plan = plan_make(problem, least, &error);
    ck_assert_msg(plan != NULL, "%s", error.text);
    ck_assert_int_eq(plan->bytes, least);
    plan_free(plan);
    problem_free(problem);
    random_job_free(job);
}
END_TEST

/* What a plan does when its instructions run one by one. */
typedef struct Walk {
    int64_t *tiles[JOB_TENSORS]; /* of each slot: the tile, -1 none */
    bool *loaded[JOB_TENSORS];
    int64_t bytes, peak, loads, computes, stores;
} Walk;

static void walk_instruction(Walk *walk, const Plan *plan, const Instruction *instruction, const StepCode *code) {
    int t = instruction->operand;
    if (instruction->kind == INSTRUCTION_COMPUTE) {
        walk->computes++;
        for (int u = 0; u < JOB_TENSORS; u++) {
            ck_assert_int_eq(walk->tiles[u][code->uses[u].slot], tile_number(plan->problem, u, code->step.at));
            ck_assert(walk->loaded[u][code->uses[u].slot] || !plan->problem->operands[u].load);
        }
        return;
    }
    ck_assert(instruction->slot >= 0 && instruction->slot < plan->slots[t]);
    int64_t *tile = &walk->tiles[t][instruction->slot], bytes = plan->problem->operands[t].bytes;
    bool *loaded = &walk->loaded[t][instruction->slot];
    switch (instruction->kind) {
    case INSTRUCTION_ALLOC:
        ck_assert_int_eq(*tile, -1);
        *tile = instruction->tile;
        *loaded = false;
        walk->bytes += bytes;
        walk->peak = walk->bytes > walk->peak ? walk->bytes : walk->peak;
        break;
    case INSTRUCTION_LOAD:
        ck_assert_int_eq(*tile, instruction->tile);
        ck_assert(!*loaded);
        *loaded = true;
        walk->loads++;
        break;
    case INSTRUCTION_STORE:
        ck_assert_int_eq(*tile, instruction->tile);
        walk->stores++;
        break;
    default:
        ck_assert_int_eq(*tile, instruction->tile);
        *tile = -1;
        walk->bytes -= bytes;
        break;
    }
}

/* Unrolls every unit of one pod and runs the instructions; returns the loads. */
static int64_t walk_plan(const Plan *plan, int64_t pod, int64_t pods) {
    const Problem *problem = plan->problem;
    Walk walk = {0};
    for (int t = 0; t < JOB_TENSORS; t++) {
        walk.tiles[t] = new_zeroed((size_t)plan->slots[t], sizeof(int64_t));
        walk.loaded[t] = new_zeroed((size_t)plan->slots[t], sizeof(bool));
        for (int64_t s = 0; s < plan->slots[t]; s++)
            walk.tiles[t][s] = -1;
    }
    Unroll *unroll = unroll_new(plan);
    TileUse uses[JOB_TENSORS];
    StepCode code = {.uses = uses};
    UnitRange range = deal_units(problem, pod, pods);
    for (int64_t i = 0; i < range.count; i++) {
        Instruction instructions[5 * JOB_TENSORS + 1];
        unroll_step(unroll, range.first + i * range.step, 0, &code);
        int count = step_instructions(plan, &code, instructions);
        for (int n = 0; n < count; n++)
            walk_instruction(&walk, plan, &instructions[n], &code);
    }
    ck_assert_int_eq(walk.computes, range.count);
    ck_assert_int_eq(walk.stores, 2 * range.count);
    ck_assert_int_le(walk.peak, plan->bytes);
    int64_t held = 0;
    for (int t = 0; t < JOB_TENSORS; t++) {
        for (int64_t s = 0; s < plan->slots[t]; s++)
            if (walk.tiles[t][s] >= 0) {
                ck_assert(plan->kept[t]);
                held += problem->operands[t].bytes;
            }
        free(walk.tiles[t]);
        free(walk.loaded[t]);
    }
    ck_assert_int_eq(held, walk.bytes);
    unroll_free(unroll);
    return walk.loads;
}

START_TEST(unrolled_units_find_their_tiles) {
    uint64_t state = 2;
    for (int round = 0; round < 100; round++) {
        RandomShape shape = random_shape(&state, 60);
        RandomJob *job = random_job_new(random_next(&state), &shape, false);
        Problem *problem = problem_bind(&job->job, LEAF_MODEL, &error);
        ck_assert_msg(problem != NULL, "%s", error.text);
        int64_t least = 0, distinct = 0;
        for (int t = 0; t < JOB_TENSORS; t++) {
            least += problem->operands[t].bytes;
            distinct += problem->operands[t].load ? problem->operands[t].count : 0;
        }
        int64_t memory = least + random_below(&state, 4 * least), pods = 1 + random_below(&state, 4);
        Plan *plan = plan_make(problem, memory, &error);
        ck_assert_msg(plan != NULL, "%s", error.text);
        ck_assert_int_le(plan->bytes, memory);
        for (int64_t pod = 0; pod < pods; pod++)
            walk_plan(plan, pod, pods);
        plan_free(plan);
        /* With memory for everything no tile is loaded twice. */
        plan = plan_make(problem, INT64_C(1) << 40, &error);
        ck_assert_int_eq(walk_plan(plan, 0, 1), distinct);
        plan_free(plan);
        problem_free(problem);
        random_job_free(job);
    }
}
END_TEST

START_TEST(units_are_dealt_once) {
    RandomJob *job = small_job();
    Problem *problem = problem_bind(&job->job, LEAF_MODEL, &error);
    ck_assert(problem != NULL);
    for (int64_t pods = 1; pods < 20; pods++) {
        int dealt[12] = {0};
        for (int64_t pod = 0; pod < pods; pod++) {
            UnitRange range = deal_units(problem, pod, pods);
            for (int64_t i = 0; i < range.count; i++)
                dealt[range.first + i * range.step]++;
        }
        for (int u = 0; u < 12; u++)
            ck_assert_int_eq(dealt[u], 1);
    }
    problem_free(problem);
    random_job_free(job);
}
END_TEST

/* ---- printing ---- */

static char *printed(RandomJob *job, int nodes, int64_t memory, PlanFormat format, int exit_code) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    ck_assert_int_eq(plan_print(&job->job, nodes, &(PlanOptions){.memory = memory}, format, out), exit_code);
    fclose(out);
    return text;
}

static int occurrences(const char *text, const char *part) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
        count++;
    return count;
}

START_TEST(plans_print) {
    RandomJob *job = small_job();
    char *text = printed(job, 2, 1 << 20, PLAN_TEXT, EXIT_DONE);
    ck_assert_msg(strstr(text, "super-tiles: 12 = 3 x 4 x 1, 1 leaf launch each; B0 = 4, B1 = 2\n") != NULL, "%.900s", text);
    ck_assert_msg(strstr(text, "node 1: 6 super-tiles, ") != NULL, "%.900s", text);
    ck_assert_ptr_nonnull(strstr(text, "predicted:   "));
    ck_assert_int_eq(occurrences(text, "    COMPUTE "), 12);
    ck_assert_int_eq(occurrences(text, "    STORE "), 24);
    free(text);
    text = printed(job, 3, 1 << 20, PLAN_JSON, EXIT_DONE);
    ck_assert_int_eq(occurrences(text, "\"op\": \"COMPUTE\""), 12);
    ck_assert_int_eq(occurrences(text, "\"total_s\""), 3);
    free(text);
    text = printed(job, 2, 1 << 20, PLAN_DOT, EXIT_DONE);
    ck_assert_int_eq(occurrences(text, "shape=ellipse"), 12);
    ck_assert_int_eq(occurrences(text, "{"), occurrences(text, "}"));
    free(text);
    text = printed(job, 2, 1 << 20, PLAN_SVG, EXIT_DONE);
    ck_assert(strncmp(text, "<svg ", 5) == 0 && strstr(text, ">node 1<") != NULL && strstr(text, "</svg>\n") != NULL);
    ck_assert_int_ge(occurrences(text, "<title>compute"), 2);
    ck_assert_int_ge(occurrences(text, "<title>store"), 2);
    free(text);
    free(printed(job, 2, 64, PLAN_TEXT, EXIT_FAILED));
    job->job.dims[3] = 5;
    free(printed(job, 2, 1 << 20, PLAN_TEXT, EXIT_USAGE));
    random_job_free(job);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("plan");
    TCase *tests = tcase_create("plan");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, units_cover_written_tensors_once);
    tcase_add_test(tests, leaf_shapes_follow_the_super_tile);
    tcase_add_test(tests, super_tile_must_be_whole_leaf_tiles);
    tcase_add_test(tests, bad_values_are_refused);
    tcase_add_test(tests, absurd_plans_are_refused_with_their_size);
    tcase_add_test(tests, checks_are_evaluated_at_bind_time);
    tcase_add_test(tests, an_empty_launch_grid_is_refused);
    tcase_add_test(tests, tensors_must_agree_with_the_grid);
    tcase_add_test(tests, outputs_must_be_indexed_by_split_axes);
    tcase_add_test(tests, variants_are_chosen);
    tcase_add_test(tests, what_lies_beyond_a_tensor_is_cut_off);
    tcase_add_test(tests, too_little_memory_is_refused_by_tensor);
    tcase_add_test(tests, unrolled_units_find_their_tiles);
    tcase_add_test(tests, units_are_dealt_once);
    tcase_add_test(tests, plans_print);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
