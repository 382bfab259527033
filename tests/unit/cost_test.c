/* Placement, cost and autotune on a matrix product C[M, N] = A[M, K] B[K, N], whose super-tiles stream along K: who has which units, what nodes read,
 * what the model makes of it, and which super-tiles it takes. */
#include "runtime/sched/sched.h"
#include "tests/unit/random_job.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Dims: M, N, K and the super-tiles TM, TN, TK. The grid's x runs along N. */
enum { M, N, K, TM, TN, TK, DIMS };

static const char *const names[DIMS] = {"M", "N", "K", "TM", "TN", "TK"};
static const PhbExprNode nodes[DIMS] = {
    {PHB_EXPR_DIM, M, 0}, {PHB_EXPR_DIM, N, 0}, {PHB_EXPR_DIM, K, 0}, {PHB_EXPR_DIM, TM, 0}, {PHB_EXPR_DIM, TN, 0}, {PHB_EXPR_DIM, TK, 0}};
#define EXPR(dim)                                                                                                                                    \
    { &nodes[dim], 1, names[dim] }
static const PhbExprNode ceil_nodes[2][3] = {
    {{PHB_EXPR_DIM, N, 0}, {PHB_EXPR_DIM, TN, 0}, {PHB_EXPR_CEILDIV, 0, 0}},
    {{PHB_EXPR_DIM, M, 0}, {PHB_EXPR_DIM, TM, 0}, {PHB_EXPR_CEILDIV, 0, 0}},
};
static const int64_t leaf_values[DIMS] = {0, 0, 0, 16, 16, 16}, leaf_set[] = {16};
static const int64_t cluster_set[] = {16, 64, 256, 1024};
static const PhbDim dims[DIMS] = {
    {.name = "M", .grid_axis = 1, .loop = -1},
    {.name = "N", .grid_axis = 0, .loop = -1},
    {.name = "K", .grid_axis = -1, .loop = 0},
    {.name = "TM", .is_search = 1, .grid_axis = -1, .loop = -1, .leaf = leaf_set, .leaf_count = 1, .cluster = cluster_set, .cluster_count = 4},
    {.name = "TN", .is_search = 1, .grid_axis = -1, .loop = -1, .leaf = leaf_set, .leaf_count = 1, .cluster = cluster_set, .cluster_count = 4},
    {.name = "TK", .is_search = 1, .grid_axis = -1, .loop = -1, .leaf = leaf_set, .leaf_count = 1, .cluster = cluster_set, .cluster_count = 4},
};
static const PhbTensor tensors[] = {
    {"A", PHB_F32, 2, PHB_READ, {{EXPR(M), PHB_AXIS_GRID, 1, {0}}, {EXPR(K), PHB_AXIS_LOOP, 0, {0}}}},
    {"B", PHB_F32, 2, PHB_READ, {{EXPR(K), PHB_AXIS_LOOP, 0, {0}}, {EXPR(N), PHB_AXIS_GRID, 0, {0}}}},
    {"C", PHB_F32, 2, PHB_WRITE, {{EXPR(M), PHB_AXIS_GRID, 1, {0}}, {EXPR(N), PHB_AXIS_GRID, 0, {0}}}},
};
static const PhbExprNode one = {PHB_EXPR_INT, 0, 1};
static const PhbState states[] = {
    {.name = "partial sums of C", .dtype = PHB_F32, .rows = {&one, 1, "1"}, .columns = {&one, 1, "1"}, .partial = 1 + 2}};
static const int8_t init_modes[] = {PHB_UNUSED, PHB_UNUSED, PHB_WRITE, PHB_UNUSED};
static const int8_t step_modes[] = {PHB_READ, PHB_READ, PHB_READ_WRITE, PHB_UNUSED};
static const int8_t merge_modes[] = {PHB_UNUSED, PHB_UNUSED, PHB_READ_WRITE, PHB_READ};
static const PhbStage stages[] = {
    {.loop = -1, .modes = init_modes},
    {.loop = 0, .modes = step_modes, .clear = 2, .merge = 3},
    {.loop = -1, .modes = init_modes},
    {.loop = -1, .modes = merge_modes},
};
static const PhbLoop loops[] = {{TK, EXPR(K)}};
static const PhbCpuCode code = {"native", NULL}; /* never run */
static const PhbVariant variants[] = {{.values = leaf_values, .cpu = &code, .cpu_count = 1}};
static const PhbKernel kernel = {
    .name = "matmul",
    .source = "matmul.phb:1:1",
    .dims = dims,
    .dim_count = DIMS,
    .tensors = tensors,
    .tensor_count = 3,
    .grid = {{TN, EXPR(N), {ceil_nodes[0], 3, "ceildiv(N, TN)"}}, {TM, EXPR(M), {ceil_nodes[1], 3, "ceildiv(M, TM)"}}, {.dim = -1}},
    .loops = loops,
    .loop_count = 1,
    .states = states,
    .state_count = 1,
    .stages = stages,
    .stage_count = 2,
    .helper_count = 2,
    .cluster_dims = {1, 1, 1},
    .variants = variants,
    .variant_count = 1,
};

static Error error;
static int64_t job_dims[DIMS];
static Job job = {.kernel = &kernel, .dims = job_dims};

static Problem *bind(int64_t m, int64_t n, int64_t k, int64_t tm, int64_t tn, int64_t tk) {
    memcpy(job_dims, (int64_t[DIMS]){m, n, k, tm, tn, tk}, sizeof job_dims);
    Problem *problem = problem_bind(&job, LEAF_MODEL, &error);
    ck_assert_msg(problem != NULL, "%s", error.text);
    return problem;
}

/* ---- divided ranges ---- */

/* What a unit does, step by step: the chunks cover K once and in order, each part ends at a step of the leaf and is as long as the others but for
 * one, sums are cleared before they are added to, and those of as many parts are added. */
START_TEST(parts_cover_a_range) {
    enum { LEAF = 16, C_OPERAND = 2 };
    uint64_t state = 5;
    for (int round = 0; round < 400; round++) {
        int64_t k = 1 + random_below(&state, 400), leaf_steps = (k + LEAF - 1) / LEAF;
        job.split_k = 1 + random_below(&state, leaf_steps);
        Problem *problem = bind(40, 40, k, 32, 32, LEAF * (1 + random_below(&state, 12)));
        int64_t covered = 0, part_steps[32] = {0}, parts_of[32] = {1}, part = 0;
        int height = 1;
        for (int64_t number = 1; number < problem->steps; number++) { /* behind the init stage */
            Step step = step_find(problem, random_below(&state, problem->units), number);
            ck_assert_int_eq(step.stage, 1);
            if (step.kind == STEP_CLEAR) {
                ck_assert_int_eq(step.level, height);
                ck_assert_int_eq(covered % LEAF, 0);
                parts_of[height++] = 1;
                part++;
            } else if (step.kind == STEP_MERGE) {
                ck_assert_int_eq(step.level, --height);
                ck_assert(parts_of[height] == parts_of[height - 1] || part == job.split_k - 1);
                parts_of[height - 1] += parts_of[height];
            } else {
                ChunkRange chunk = chunk_at(problem, 0, step.at[CHUNK]);
                ck_assert_int_eq(chunk.origin, covered);
                ck_assert_int_eq(step.level, height - 1);
                covered += chunk.extent < k - covered ? chunk.extent : k - covered;
                part_steps[part] += (chunk.extent + LEAF - 1) / LEAF;
            }
            int target = step.kind == STEP_MERGE ? step.level - 1 : step.level;
            ck_assert_int_eq(step_use(problem, &step, C_OPERAND).used, target == 0);
            ck_assert_int_eq(step_use(problem, &step, C_OPERAND).store, number == problem->steps - 1);
            for (int t = C_OPERAND + 1; t < problem->operand_count; t++) {
                StepUse use = step_use(problem, &step, t);
                int level = problem->operands[t].level;
                ck_assert_int_eq(use.used, level > 0 && (level == target || (step.kind == STEP_MERGE && level == step.level)));
                ck_assert_int_eq(use.first, use.used && step.kind == STEP_CLEAR);
                ck_assert_int_eq(use.last, use.used && step.kind == STEP_MERGE && level == step.level);
            }
        }
        ck_assert_int_eq(covered, k);
        ck_assert_int_eq(height, 1);
        ck_assert_int_eq(parts_of[0], job.split_k);
        for (int64_t p = 0; p + 1 < job.split_k; p++)
            ck_assert_int_eq(part_steps[p], leaf_steps / job.split_k + (p < leaf_steps % job.split_k));
        problem_free(problem);
    }
    job.split_k = 0;
}
END_TEST

/* ---- placement ---- */

START_TEST(every_unit_has_one_node) {
    uint64_t state = 21;
    for (int round = 0; round < 200; round++) {
        PlacementPolicy policy = round % 2 ? PLACE_BLOCK : PLACE_ROUND_ROBIN;
        int64_t nodes_there = 1 + random_below(&state, 40);
        Problem *problem = bind(16 * (1 + random_below(&state, 20)), 16 * (1 + random_below(&state, 20)), 16, 16, 16, 16);
        problem->supers[2] = 1 + random_below(&state, 3); /* a third axis that no tensor has */
        problem->units *= problem->supers[2];
        Placement *placement = placement_new(problem, policy, nodes_there);
        int *had = new_zeroed((size_t)problem->units, sizeof *had);
        int64_t most = 0, least = INT64_MAX;
        for (int64_t node = 0; node < nodes_there; node++) {
            int64_t units = placement_count(placement, node);
            most = units > most ? units : most;
            least = units < least ? units : least;
            for (int64_t done = 0; done < units;) {
                UnitRange run = placement_run(placement, node, done, 1 + random_below(&state, 5));
                ck_assert_int_ge(run.count, 1);
                for (int64_t i = 0; i < run.count; i++) {
                    int64_t at[COORDINATES], unit = run.first + i * run.step;
                    had[unit]++;
                    unit_coordinates(problem, unit, at);
                    ck_assert_int_eq(placement_node(placement, at), node);
                }
                done += run.count;
                ck_assert_int_le(done, units);
            }
        }
        for (int64_t u = 0; u < problem->units; u++)
            ck_assert_int_eq(had[u], 1);
        if (policy == PLACE_ROUND_ROBIN)
            ck_assert_int_le(most - least, 1);
        free(had);
        placement_free(placement);
        problem_free(problem);
    }
}
END_TEST

/* A node with a P-th of a square product reads at least a row panel and a column panel of N / sqrt(P). */
START_TEST(blocks_read_little) {
    static const int64_t counts[] = {4, 16, 64};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        int64_t size = 64 * 16, nodes_there = counts[c], root = c == 0 ? 2 : c == 1 ? 4 : 8;
        Problem *problem = bind(size, size, size, 16, 16, 16);
        Plan *plan = plan_make(problem, INT64_C(1) << 40, &error);
        Placement *block = placement_new(problem, PLACE_BLOCK, nodes_there), *robin = placement_new(problem, PLACE_ROUND_ROBIN, nodes_there);
        Summing *summing = summing_new(plan);
        double bound = 2.0 * (double)(size / root) * (double)size * 4;
        for (int64_t node = 0; node < nodes_there; node++) {
            ck_assert_double_le((double)node_sum(summing, block, node, INT64_MAX).loaded, 1.1 * bound);
            ck_assert_int_eq(placement_count(block, node), problem->units / nodes_there);
        }
        ck_assert_double_gt((double)node_sum(summing, robin, 0, INT64_MAX).loaded, 1.1 * bound);
        summing_free(summing);
        placement_free(block);
        placement_free(robin);
        plan_free(plan);
        problem_free(problem);
    }
}
END_TEST

/* ---- sums and times ---- */

START_TEST(sums_are_exact) {
    /* 3 x 2 units of 2 + 1 steps; ragged everywhere. */
    Problem *problem = bind(90, 40, 70, 48, 16, 48);
    ck_assert_int_eq(problem->units, 6);
    ck_assert_int_eq(problem->steps, 3);
    Plan *plan = plan_make(problem, INT64_C(1) << 30, &error);
    ck_assert_msg(plan != NULL, "%s", error.text);
    Placement *placement = placement_new(problem, PLACE_ROUND_ROBIN, 1);
    Summing *summing = summing_new(plan);
    for (int again = 0; again < 2; again++) { /* the second time over the same memory */
        NodeSums sums = node_sum(summing, placement, 0, INT64_MAX);
        ck_assert_int_eq(sums.units, 6);
        ck_assert_int_eq(sums.launches, 18);
        ck_assert_int_eq(sums.loaded, (90 * 70 + 70 * 40) * 4);
        ck_assert_int_eq(sums.loaded_runs, 2 * 90 + 3 * 70); /* a row of each tile: A is cut twice along its rows, B three times */
        ck_assert_int_eq(sums.stored_runs, 3 * 90);
        ck_assert_int_eq(sums.stored, 90 * 40 * 4);
        ck_assert_int_eq(sums.instructions[INSTRUCTION_COMPUTE], 18);
        ck_assert_int_eq(sums.instructions[INSTRUCTION_STORE], 6);
        ck_assert_int_eq(sums.instructions[INSTRUCTION_ALLOC], sums.instructions[INSTRUCTION_FREE]);
        ck_assert_double_eq(sums.work[0] + sums.work[1] + sums.work[2], 2.0 * 90 * 40 * 70 + 2.0 * 90 * 40);
        ck_assert_double_eq(sums.work[1], 2.0 * 90 * 40 * 70);
        ck_assert_int_le(sums.peak, plan->bytes);
    }
    /* Without memory to keep anything each unit loads its panels. */
    summing_free(summing);
    plan_free(plan);
    int64_t least = 0;
    for (int t = 0; t < 3; t++)
        least += problem->operands[t].bytes;
    plan = plan_make(problem, least, &error);
    summing = summing_new(plan);
    ck_assert_int_eq(node_sum(summing, placement, 0, INT64_MAX).loaded, (3 * 90 * 70 + 2 * 70 * 40) * 4);
    summing_free(summing);
    placement_free(placement);
    plan_free(plan);
    problem_free(problem);
}
END_TEST

/* A part of a regular plan tells of the rest. */
START_TEST(large_plans_are_estimated) {
    Problem *problem = bind(1024, 1024, 64, 16, 16, 16);
    int64_t least = plan_least(problem);
    Plan *plan = plan_make(problem, least, &error);
    Placement *placement = placement_new(problem, PLACE_ROUND_ROBIN, 3);
    Summing *summing = summing_new(plan);
    NodeSums all = node_sum(summing, placement, 1, INT64_MAX), part = node_sum(summing, placement, 1, 500);
    ck_assert(!all.estimated && part.estimated);
    ck_assert_int_eq(part.units, all.units);
    ck_assert_int_eq(part.launches, all.launches);
    ck_assert_int_eq(part.stored, all.stored);
    ck_assert_double_eq_tol((double)part.loaded, (double)all.loaded, 0.01 * (double)all.loaded);
    summing_free(summing);
    placement_free(placement);
    plan_free(plan);
    problem_free(problem);
}
END_TEST

/* 10^6 super-tiles over 1000 nodes. */
START_TEST(planning_is_fast) {
    for (int policy = PLACE_ROUND_ROBIN; policy <= PLACE_BLOCK; policy++) {
        clock_t begun = clock();
        Problem *problem = bind(16000, 16000, 16, 16, 16, 16);
        ck_assert_int_eq(problem->units, 1000000);
        Plan *plan = plan_make(problem, INT64_C(1) << 32, &error);
        Placement *placement = placement_new(problem, (PlacementPolicy)policy, 1000);
        Summing *summing = summing_new(plan);
        int64_t units = 0;
        for (int64_t node = 0; node < 1000; node++)
            units += node_sum(summing, placement, node, INT64_MAX).units;
        ck_assert_int_eq(units, 1000000);
        summing_free(summing);
        placement_free(placement);
        plan_free(plan);
        problem_free(problem);
        ck_assert_double_lt((double)(clock() - begun) / CLOCKS_PER_SEC, 2.0);
    }
}
END_TEST

START_TEST(the_slowest_part_sets_the_time) {
    Model model = {.read_bw = 100, .write_bw = 50, .link_bw = 10, .leaf_flops = 1000, .launch = 0.5};
    NodeSums sums = {.loaded = 1000, .stored = 500, .fetched = 10, .work = {4000}, .launches = 4};
    NodeTimes times = node_times(&model, &sums);
    ck_assert_double_eq(times.storage, 20);
    ck_assert_double_eq(times.link, 1);
    ck_assert_double_eq(times.compute, 4);
    ck_assert_double_eq(times.launch, 2);
    ck_assert_double_eq(times.total, 20 + (1 + 4 + 2) / 4.0); /* the rest in one of four steps */
    sums.fetched = 500;
    ck_assert_double_eq(node_times(&model, &sums).total, 50 + (20 + 4 + 2) / 4.0);
    sums.work[0] = 1e6;
    ck_assert_double_eq(node_times(&model, &sums).total, 1002 + (20 + 50) / 4.0);
    model.stage_flops[1] = 10; /* one that was measured, beside one that was not */
    sums.work[1] = 500;
    ck_assert_double_eq(node_times(&model, &sums).compute, 1000 + 50);
}
END_TEST

/* Files in memory: what moves bytes does not compute, and one thread at a time writes. */
START_TEST(cached_files_share_the_processors) {
    Model model = {.read_bw = 100, .write_bw = 50, .link_bw = 10, .leaf_flops = 1000, .launch = 0.5, .cached = true, .threads = 2, .fresh_bw = 10};
    NodeSums sums = {.loaded = 1000, .stored = 500, .work = {4000}, .launches = 4, .peak = 30};
    NodeTimes times = node_times(&model, &sums);
    ck_assert_double_eq(times.read, 10);
    ck_assert_double_eq(times.write, 10);
    ck_assert_double_eq(times.storage, 10);
    ck_assert_double_eq(times.total, 3 + (4 + 2) + (10 + 10) / 2.0 + (10 + 10) / 2.0 / 4);
    sums.stored = 5000;
    ck_assert_double_eq(node_times(&model, &sums).total, 3 + 100 + (10 + 4 + 2) / 4.0);
}
END_TEST

/* Each distinct tile is loaded by one node, and what others use of it is fetched, where links are faster than files. */
START_TEST(shared_tiles_are_fetched_where_that_is_faster) {
    Problem *problem = bind(512, 512, 512, 64, 64, 64);
    Plan *plan = plan_make(problem, INT64_C(1) << 30, &error);
    Model model = {.read_bw = 1e9, .write_bw = 1e9, .link_bw = 1e10, .leaf_flops = 1e12};
    for (int policy = PLACE_ROUND_ROBIN; policy <= PLACE_BLOCK; policy++) {
        Placement *placement = placement_new(problem, (PlacementPolicy)policy, 4);
        Summing *summing = summing_new(plan);
        int64_t loaded[2] = {0, 0}, fetched[2] = {0, 0};
        for (int faster = 0; faster < 2; faster++) {
            model.link_bw = faster ? 1e10 : 1e8;
            plan_share(plan, placement, &model);
            for (int64_t node = 0; node < 4; node++) {
                NodeSums sums = node_sum(summing, placement, node, INT64_MAX);
                loaded[faster] += sums.loaded;
                fetched[faster] += sums.fetched;
            }
        }
        ck_assert_int_eq(fetched[0], 0);
        ck_assert_int_eq(loaded[1], 2 * 512 * 512 * 4);
        ck_assert_int_eq(loaded[1] + fetched[1], loaded[0]);
        summing_free(summing);
        placement_free(placement);
    }
    plan_free(plan);
    problem_free(problem);
}
END_TEST

/* A tile that eight nodes use comes to each, along a tree that begins at its home, and nobody sends it to more than two; where there is no room to
 * pass it on, its home sends it to all. Who uses none of it asks the home. */
START_TEST(shared_tiles_travel_as_trees) {
    Problem *problem = bind(512, 512, 512, 64, 64, 64);
    Plan *plan = plan_make(problem, INT64_C(1) << 30, &error);
    Placement *placement = placement_new(problem, PLACE_ROUND_ROBIN, 8); /* a column of C each: all want all of A */
    int64_t homes = problem->operands[0].count / 8 * problem->operands[0].bytes;
    for (int room = 0; room < 2; room++) {
        plan->memory = plan->bytes + (room ? 4 : 1) * homes;
        ck_assert(plan_fetch(plan, placement, 1));
        ck_assert_int_eq(plan->trees[0] != NULL, room);
        ck_assert_int_le(plan->shelf_bytes, plan->memory - plan->bytes);
        int64_t shelved[8] = {0};
        for (int64_t tile = 0; tile < problem->operands[0].count; tile++) {
            int64_t at[COORDINATES], sent[8] = {0};
            tile_coordinates(problem, 0, tile, at);
            int64_t home = tile_home(plan, placement, 0, at);
            for (int64_t node = 0; node < 8; node++) {
                int64_t source = tile_source(plan, placement, node, 0, at), steps = 0;
                sent[source] += source != node;
                shelved[node] += tile_is_shelved(plan, placement, node, 0, at);
                for (int64_t from = node; from != home && steps < 8; steps++)
                    from = tile_source(plan, placement, from, 0, at);
                ck_assert_int_le(steps, room ? 3 : 1);
            }
            for (int64_t node = 0; node < 8; node++) {
                ck_assert_int_le(sent[node], room ? 2 : 7);
                ck_assert_int_eq(sent[node] > 0, tile_is_shelved(plan, placement, node, 0, at));
            }
            ck_assert_int_eq(sent[home], room ? 2 : 7);
            ck_assert_int_eq(tile_source(plan, placement, 8, 0, at), home);
            ck_assert(!tile_is_shelved(plan, placement, 8, 0, at));
        }
        for (int64_t node = 0; node < 8; node++)
            ck_assert_int_le(shelved[node], plan->shelf[0]);
    }
    placement_free(placement);
    plan_free(plan);
    problem_free(problem);
}
END_TEST

/* What is on a node's shelf is loaded once, however often it leaves the node's slots; without room for shelves nothing is fetched. */
START_TEST(shelves_need_room) {
    Problem *problem = bind(512, 512, 512, 64, 64, 64);
    Model model = {.read_bw = 1e9, .write_bw = 1e9, .link_bw = 1e10, .leaf_flops = 1e12};
    int64_t tile = problem->operands[0].bytes, least = plan_least(problem), tiles = 64; /* of A, and of B */
    for (int room = 0; room < 3; room++) {
        int64_t shelves = room == 0 ? 0 : room == 1 ? tiles / 4 : 2 * tiles / 4;
        Plan *plan = plan_make(problem, least, &error);
        plan->memory = least + shelves * tile;
        Placement *placement = placement_new(problem, PLACE_BLOCK, 4);
        ck_assert_uint_eq(plan_share(plan, placement, &model), room == 0 ? 0 : room == 1 ? 1 : 3);
        ck_assert_int_eq(plan->shelf_bytes, shelves * tile);
        Summing *summing = summing_new(plan);
        int64_t loads = 0, moves = 0;
        for (int64_t node = 0; node < 4; node++) {
            NodeSums sums = node_sum(summing, placement, node, INT64_MAX);
            loads += sums.instructions[INSTRUCTION_LOAD];
            moves += sums.instructions[INSTRUCTION_LOAD] + sums.instructions[INSTRUCTION_FETCH] + sums.instructions[INSTRUCTION_COPY];
            ck_assert_int_le(sums.peak, plan->memory);
        }
        /* One slot an operand: each of 64 units brings 8 chunks of both. */
        ck_assert_int_eq(moves, 64 * 8 * 2);
        ck_assert_int_eq(loads, room == 0 ? 64 * 8 * 2 : room == 1 ? 64 * 8 + tiles : 2 * tiles);
        summing_free(summing);
        placement_free(placement);
        plan_free(plan);
    }
    problem_free(problem);
}
END_TEST

/* ---- autotune ---- */

/* The best of all combinations, by looking at each. */
START_TEST(autotune_takes_the_fastest_that_fits) {
    const struct {
        int64_t memory;
        double read_bw, leaf_flops, launch;
        int64_t pods;
    } cases[] = {
        {INT64_C(1) << 30, 1e9, 1e12, 1e-5, 1},
        {INT64_C(1) << 20, 1e9, 1e12, 1e-5, 1},
        {INT64_C(1) << 30, 1e12, 1e12, 1e-3, 1},
        {INT64_C(1) << 24, 1e9, 1e9, 1e-6, 4},
        {INT64_C(1) << 24, 1e8, 1e12, 1e-6, 16},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        Model model = {.memory = cases[c].memory,
            .read_bw = cases[c].read_bw,
            .write_bw = 1e9,
            .link_bw = 1e8,
            .leaf_flops = cases[c].leaf_flops,
            .launch = cases[c].launch};
        double best = 0;
        int fine = 0;
        for (int i = 0; i < 64; i++) {
            Problem *problem = bind(1000, 1100, 900, cluster_set[i % 4], cluster_set[i / 4 % 4], cluster_set[i / 16]);
            Plan *plan = plan_make(problem, model.memory, &error);
            if (plan != NULL && problem->units >= cases[c].pods) {
                Placement *placement = placement_new(problem, PLACE_ROUND_ROBIN, cases[c].pods);
                Summing *summing = summing_new(plan);
                NodeSums sums = node_sum(summing, placement, 0, INT64_MAX);
                double total = node_times(&model, &sums).total;
                best = fine++ == 0 || total < best ? total : best;
                summing_free(summing);
                placement_free(placement);
            }
            plan_free(plan);
            problem_free(problem);
        }
        Candidates candidates;
        ck_assert(candidates_rank(&job, cases[c].pods, &(PlanOptions){.memory = model.memory}, &model, &candidates, &error));
        ck_assert_int_eq(candidates.count, 64);
        ck_assert_int_eq(candidates.fine, fine);
        ck_assert_double_le(candidates.items[0].times.total, best * 1.001);
        ck_assert_mem_eq(job.dims, candidates.items[0].values, sizeof job_dims);
        candidates_free(&candidates);
    }
}
END_TEST

START_TEST(autotune_keeps_what_the_job_gives) {
    bool fixed[DIMS] = {[TM] = true};
    Model model = {.memory = 1 << 30, .read_bw = 1e9, .write_bw = 1e9, .link_bw = 1e9, .leaf_flops = 1e12, .launch = 1e-5};
    Candidates candidates;
    problem_free(bind(1000, 1000, 1000, 48, 16, 16));
    job.fixed = fixed;
    ck_assert(candidates_rank(&job, 1, &(PlanOptions){.memory = 1 << 30}, &model, &candidates, &error));
    job.fixed = NULL;
    ck_assert_int_eq(candidates.count, 16);
    ck_assert_int_eq(job.dims[TM], 48);
    candidates_free(&candidates);
    model.memory = 1000;
    ck_assert(!candidates_rank(&job, 1, &(PlanOptions){.memory = 1000}, &model, &candidates, &error));
    ck_assert_ptr_nonnull(strstr(error.text, "none of 64 combinations of @cluster values can run: one unit of work needs "));
    candidates_free(&candidates);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cost");
    TCase *tests = tcase_create("cost");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, parts_cover_a_range);
    tcase_add_test(tests, every_unit_has_one_node);
    tcase_add_test(tests, blocks_read_little);
    tcase_add_test(tests, sums_are_exact);
    tcase_add_test(tests, large_plans_are_estimated);
    tcase_add_test(tests, planning_is_fast);
    tcase_add_test(tests, the_slowest_part_sets_the_time);
    tcase_add_test(tests, cached_files_share_the_processors);
    tcase_add_test(tests, shared_tiles_are_fetched_where_that_is_faster);
    tcase_add_test(tests, shared_tiles_travel_as_trees);
    tcase_add_test(tests, shelves_need_room);
    tcase_add_test(tests, autotune_takes_the_fastest_that_fits);
    tcase_add_test(tests, autotune_keeps_what_the_job_gives);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
