/* CTAs as fibers, by kernels written in C as code generation writes them. */
#include "runtime/device/cta.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define SITE(line, column) ((uint64_t)(line) << 32 | (column))

static int64_t results[CLUSTER_MAX_CTAS * CTA_MAX_THREADS];

typedef struct Run {
    PhbSimtRun *run;
    int threads;
    int32_t size[3];
    int64_t grid[3];
    uint64_t seed; /* 0: the ascending order */
    ElectedLane elect;
} Run;

static bool run_all(const Run *what, Error *error) {
    CtaSetup setup = {.kernel = "k",
        .file = "k.phb",
        .threads = what->threads,
        .shared = 4096,
        .size = {what->size[0], what->size[1], what->size[2]},
        .shuffle = what->seed != 0,
        .seed = what->seed,
        .elect = what->elect};
    PhbLaunch launch = {.grid = {what->grid[0], what->grid[1], what->grid[2]}};
    CtaRunner runner = {0};
    int64_t ctas = setup.size[0] * setup.size[1] * setup.size[2], clusters = launch.grid[0] * launch.grid[1] * launch.grid[2] / ctas;
    char *shared = aligned_alloc(PHB_SHARED_ALIGN, (size_t)(runner_shared_step(setup.shared) * ctas));
    memset(results, 0xa5, sizeof results);
    bool fine = runner_prepare(&runner, &setup, error);
    for (int64_t c = 0; fine && c < clusters; c++)
        fine = runner_run(&runner, what->run, &launch, c, shared, error);
    runner_fini(&runner);
    free(shared);
    return fine;
}

/* ---- what goes well ---- */

static void neighbours(const PhbLaunch *launch, PhbSimtThread *thread) {
    (void)launch;
    int64_t *shared = (int64_t *)(void *)thread->shared;
    int64_t number = thread->cta;
    shared[thread->thread] = thread->thread * 10 + number;
    phb_cta_barrier(thread, "barrier", SITE(1, 1));
    int64_t next = shared[(thread->thread + 1) % 96];
    phb_cta_barrier(thread, "barrier", SITE(2, 1));
    shared[thread->thread] = next;
    phb_cta_barrier(thread, "barrier", SITE(3, 1));
    results[number * 96 + thread->thread] = shared[(thread->thread + 1) % 96];
}

START_TEST(barriers_order_memory) {
    Error error;
    Run run = {.run = neighbours, .threads = 96, .size = {1, 1, 1}, .grid = {3, 2, 2}, .seed = (uint64_t)_i};
    ck_assert_msg(run_all(&run, &error), "%s", error.text);
    for (int64_t cta = 0; cta < 12; cta++)
        for (int64_t t = 0; t < 96; t++)
            ck_assert_int_eq(results[cta * 96 + t], (t + 2) % 96 * 10 + cta);
}
END_TEST

static void exchanges(const PhbLaunch *launch, PhbSimtThread *thread) {
    (void)launch;
    int64_t sum = 0;
    for (int round = 0; round < 5; round++) {
        const uint64_t *lanes = phb_cta_warp(thread, "shuffle", (uint64_t)(thread->thread + round), SITE(1, 1));
        sum += (int64_t)lanes[(thread->thread + 1) % 32];
        sum *= 3;
    }
    results[thread->thread] = sum;
}

START_TEST(values_are_exchanged) {
    Error error;
    Run run = {.run = exchanges, .threads = 64, .size = {1, 1, 1}, .grid = {1, 1, 1}, .seed = (uint64_t)_i};
    int64_t sums[64] = {0};
    for (int round = 0; round < 5; round++) {
        for (int t = 0; t < 64; t++)
            sums[t] = (sums[t] + t / 32 * 32 + (t + 1) % 32 + round) * 3;
    }
    ck_assert_msg(run_all(&run, &error), "%s", error.text);
    for (int t = 0; t < 64; t++)
        ck_assert_int_eq(results[t], sums[t]);
}
END_TEST

static void elects(const PhbLaunch *launch, PhbSimtThread *thread) {
    (void)launch;
    results[thread->thread] = phb_cta_elect(thread, "elect_one_sync", SITE(1, 1));
}

START_TEST(one_lane_is_elected) {
    bool seen[32] = {false};
    int different = 0;
    for (uint64_t seed = 1; seed < 200; seed++) {
        Error error;
        Run run = {.run = elects, .threads = 64, .size = {1, 1, 1}, .grid = {1, 1, 1}, .seed = seed, .elect = (ElectedLane)(seed % 3)};
        ck_assert_msg(run_all(&run, &error), "%s", error.text);
        for (int w = 0; w < 2; w++) {
            int elected = -1;
            for (int l = 0; l < 32; l++) {
                if (results[w * 32 + l] == 0)
                    continue;
                ck_assert_int_eq(elected, -1);
                elected = l;
            }
            ck_assert_int_ge(elected, 0);
            if (run.elect == ELECT_RANDOM) {
                different += !seen[elected];
                seen[elected] = true;
            } else {
                ck_assert_int_eq(elected, run.elect == ELECT_LOW ? 0 : 31);
            }
        }
    }
    ck_assert_int_gt(different, 20);
}
END_TEST

static void cluster_ring(const PhbLaunch *launch, PhbSimtThread *thread) {
    (void)launch;
    int64_t *own = (int64_t *)(void *)thread->shared;
    for (int round = 0; round < 3; round++) {
        if (thread->thread == 0)
            *own = thread->cta * 7 + round;
        phb_cta_arrive(thread, 0, "cluster_arrive", SITE(1, 1));
        phb_cta_wait(thread, "cluster_wait", SITE(2, 1));
        const int64_t *peer = phb_cta_remote(thread, own, (thread->rank + 1) % 4, SITE(3, 1));
        results[thread->cta * 32 + thread->thread] = *peer;
        phb_cta_arrive(thread, 1, "cluster_arrive_relaxed", SITE(4, 1));
        phb_cta_wait(thread, "cluster_wait", SITE(5, 1));
    }
}

START_TEST(clusters_share_memory) {
    Error error;
    Run run = {.run = cluster_ring, .threads = 32, .size = {2, 2, 1}, .grid = {4, 2, 1}, .seed = (uint64_t)_i};
    ck_assert_msg(run_all(&run, &error), "%s", error.text);
    for (int64_t cta = 0; cta < 8; cta++)
        for (int64_t t = 0; t < 32; t++)
            ck_assert_int_eq(results[cta * 32 + t], (cta / 4 * 4 + (cta + 1) % 4) * 7 + 2);
}
END_TEST

static void spin(const PhbLaunch *launch, PhbSimtThread *thread) {
    (void)launch;
    int64_t *turn = (int64_t *)(void *)thread->shared; /* threads take it in descending order */
    if (thread->thread == 63)
        *turn = 63;
    phb_cta_barrier(thread, "barrier", SITE(1, 1));
    while (*turn != thread->thread)
        phb_cta_yield(thread);
    results[thread->thread] = *turn;
    --*turn;
}

START_TEST(spinning_threads_let_others_run) {
    Error error;
    Run run = {.run = spin, .threads = 64, .size = {1, 1, 1}, .grid = {1, 1, 1}, .seed = (uint64_t)_i};
    ck_assert_msg(run_all(&run, &error), "%s", error.text);
    for (int t = 0; t < 64; t++)
        ck_assert_int_eq(results[t], t);
}
END_TEST

static atomic_int arrivals;

static void records_order(const PhbLaunch *launch, PhbSimtThread *thread) {
    results[atomic_fetch_add(&arrivals, 1)] = thread->rank * 64 + thread->thread;
    (void)launch;
    phb_cta_barrier(thread, "barrier", SITE(1, 1));
}

START_TEST(seeds_draw_orders) {
    int64_t orders[40][128];
    for (int seed = 0; seed < 40; seed++) {
        Error error;
        Run run = {.run = records_order, .threads = 64, .size = {2, 1, 1}, .grid = {2, 1, 1}, .seed = (uint64_t)seed};
        for (int again = 0; again < 2; again++) {
            arrivals = 0;
            ck_assert_msg(run_all(&run, &error), "%s", error.text);
            if (again)
                ck_assert_mem_eq(orders[seed], results, sizeof orders[seed]);
            memcpy(orders[seed], results, sizeof orders[seed]);
        }
    }
    int same = 0;
    for (int a = 0; a < 40; a++)
        for (int b = 0; b < a; b++)
            same += memcmp(orders[a], orders[b], sizeof orders[a]) == 0;
    ck_assert_int_lt(same, 8);
    for (int64_t t = 0; t < 128; t++)
        ck_assert_int_eq(orders[0][t], t);
}
END_TEST

/* ---- what cannot ---- */

static void missing_at_barrier(const PhbLaunch *launch, PhbSimtThread *thread) {
    (void)launch;
    if (thread->thread != 5)
        phb_cta_barrier(thread, "barrier", SITE(4, 9));
}

static void two_barriers(const PhbLaunch *launch, PhbSimtThread *thread) {
    (void)launch;
    phb_cta_barrier(thread, "barrier", thread->thread < 40 ? SITE(4, 9) : SITE(6, 9));
}

static void missing_lanes(const PhbLaunch *launch, PhbSimtThread *thread) {
    (void)launch;
    if (thread->thread < 30)
        phb_cta_warp(thread, "warp_sum", 0, SITE(7, 3));
}

static void lanes_apart(const PhbLaunch *launch, PhbSimtThread *thread) {
    (void)launch;
    if (thread->thread < 30)
        phb_cta_warp(thread, "warp_sum", 0, SITE(7, 3));
    else
        phb_cta_barrier(thread, "barrier", SITE(9, 3));
}

static void arrives_twice(const PhbLaunch *launch, PhbSimtThread *thread) {
    (void)launch;
    phb_cta_arrive(thread, 0, "cluster_arrive", SITE(2, 5));
    phb_cta_arrive(thread, 0, "cluster_arrive", SITE(3, 5));
}

static void waits_alone(const PhbLaunch *launch, PhbSimtThread *thread) {
    (void)launch;
    phb_cta_wait(thread, "cluster_wait", SITE(2, 5));
}

static void never_waits(const PhbLaunch *launch, PhbSimtThread *thread) {
    (void)launch;
    phb_cta_arrive(thread, 0, "cluster_arrive", SITE(2, 5));
}

static void one_cta_stays_away(const PhbLaunch *launch, PhbSimtThread *thread) {
    (void)launch;
    if (thread->rank == 0)
        return;
    phb_cta_arrive(thread, 0, "cluster_arrive", SITE(2, 5));
    phb_cta_wait(thread, "cluster_wait", SITE(3, 5));
}

static void rank_out_of_range(const PhbLaunch *launch, PhbSimtThread *thread) {
    (void)launch;
    phb_cta_remote(thread, thread->shared, thread->rank + 1, SITE(2, 5));
}

static void peer_has_ended(const PhbLaunch *launch, PhbSimtThread *thread) {
    (void)launch;
    if (thread->rank == 0)
        return;
    phb_cta_barrier(thread, "barrier", SITE(2, 5));
    phb_cta_remote(thread, thread->shared, 0, SITE(3, 5));
}

static const struct Failure {
    PhbSimtRun *run;
    const char *text;
} failures[] = {
    {missing_at_barrier,
        "kernel 'k': k.phb:4:9: deadlock: barrier waits for ever, threads of the CTA are missing: threads 0..4 of CTA 0 in barrier at 4:9; thread 5 "
        "of "
        "CTA 0 has ended; threads 6..63 of CTA 0 in barrier at 4:9; threads 0..4 of CTA 1 in barrier at 4:9; thread 5 of CTA 1 has ended; threads "
        "6..63 of CTA 1 in barrier at 4:9"},
    {two_barriers, "kernel 'k': k.phb:6:9: thread 40 of CTA 0 comes to barrier, but thread 0 of CTA 0 to barrier at 4:9: all must come to the same"},
    {missing_lanes,
        "kernel 'k': k.phb:7:3: deadlock: warp_sum waits for ever, lanes of the warp are missing: threads 0..29 of CTA 0 in warp_sum at 7:3; threads "
        "30..63 of CTA 0 have ended; threads 0..29 of CTA 1 in warp_sum at 7:3; threads 30..63 of CTA 1 have ended"},
    {lanes_apart,
        "kernel 'k': k.phb:7:3: deadlock: warp_sum waits for ever, lanes of the warp are missing: threads 0..29 of CTA 0 in warp_sum at 7:3; threads "
        "30..63 of CTA 0 in barrier at 9:3; threads 0..29 of CTA 1 in warp_sum at 7:3; threads 30..63 of CTA 1 in barrier at 9:3"},
    {arrives_twice, "kernel 'k': k.phb:3:5: thread 0 of CTA 0 arrives again: no cluster_wait answers its cluster_arrive at 2:5"},
    {waits_alone, "kernel 'k': k.phb:2:5: thread 0 of CTA 0 waits for its cluster without having arrived"},
    {never_waits, "kernel 'k': k.phb:2:5: thread 0 of CTA 0 ends without a cluster_wait for this"},
    {one_cta_stays_away, "kernel 'k': k.phb:3:5: deadlock: cluster_wait waits for ever, threads of the cluster are missing: threads 0..63 of CTA 0 "
                         "have ended; threads "
                         "0..63 of CTA 1 in cluster_wait at 3:5"},
    {rank_out_of_range, "kernel 'k': k.phb:2:5: thread 0 of CTA 1 names rank 2 of a thread-block cluster of 2 CTAs"},
    {peer_has_ended, "kernel 'k': k.phb:3:5: thread 63 of CTA 1 reaches for the shared memory of CTA 0, which has ended"},
};

START_TEST(failures_say_who_waits_where) {
    Error error;
    Run run = {.run = failures[_i].run, .threads = 64, .size = {2, 1, 1}, .grid = {2, 1, 1}};
    ck_assert(!run_all(&run, &error));
    ck_assert_str_eq(error.text, failures[_i].text);
}
END_TEST

START_TEST(failures_are_found_in_any_order) {
    for (uint64_t seed = 1; seed < 20; seed++) {
        Error error;
        Run run = {.run = failures[_i].run, .threads = 64, .size = {2, 1, 1}, .grid = {2, 1, 1}, .seed = seed};
        ck_assert(!run_all(&run, &error));
    }
}
END_TEST

START_TEST(a_failed_range_is_told_once) {
    PhbThreadStage good = {.entry = "good", .run = neighbours, .threads = 96, .shared = 4096},
                   bad = {.entry = "bad", .run = missing_lanes, .threads = 64};
    const int32_t one[3] = {1, 1, 1};
    PhbLaunch launch = {.grid = {2, 1, 1}};
    Error error;
    void *scratch = malloc((size_t)PHB_CTA_SCRATCH(4096, 1));
    phb_cta_range(&launch, &good, one, 0, 2, scratch);
    ck_assert(!cta_take_failure(&error));
    phb_cta_range(&launch, &bad, one, 0, 2, scratch);
    ck_assert(cta_take_failure(&error));
    ck_assert_str_eq(error.text,
        "kernel 'bad': 7:3: deadlock: warp_sum waits for ever, lanes of the warp are missing: threads 0..29 of CTA 0 in warp_sum at 7:3; "
        "threads 30..63 of CTA 0 have ended");
    ck_assert(!cta_take_failure(&error));
    phb_cta_range(&launch, &good, one, 0, 2, scratch);
    ck_assert(!cta_take_failure(&error));
    free(scratch);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cta");
    TCase *orders = tcase_create("orders"), *wrong = tcase_create("failures");
    tcase_set_timeout(orders, 120);
    tcase_set_timeout(wrong, 120);
    tcase_add_loop_test(orders, barriers_order_memory, 0, 20);
    tcase_add_loop_test(orders, values_are_exchanged, 0, 20);
    tcase_add_test(orders, one_lane_is_elected);
    tcase_add_loop_test(orders, clusters_share_memory, 0, 20);
    tcase_add_loop_test(orders, spinning_threads_let_others_run, 0, 20);
    tcase_add_test(orders, seeds_draw_orders);
    tcase_add_loop_test(wrong, failures_say_who_waits_where, 0, (int)(sizeof failures / sizeof failures[0]));
    tcase_add_loop_test(wrong, failures_are_found_in_any_order, 0, (int)(sizeof failures / sizeof failures[0]));
    tcase_add_test(wrong, a_failed_range_is_told_once);
    suite_add_tcase(suite, orders);
    suite_add_tcase(suite, wrong);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
