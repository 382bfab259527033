/* One thread-block cluster: its threads run one at a time, each until it waits; then one that is ready goes on. When none is, nobody ever will be,
 * and the launch fails with who waits where. */
#include "runtime/device/cta.h"
#include "runtime/splitmix.h"

#include <stdlib.h>
#include <string.h>

/* ---- order ---- */

uint64_t runner_random(CtaRunner *runner) {
    return splitmix_next(&runner->random);
}

static uint32_t random_below(CtaRunner *runner, uint32_t limit) {
    return (uint32_t)((runner_random(runner) >> 32) * limit >> 32);
}

static void make_ready(CtaRunner *runner, CtaThread *thread) {
    thread->state = THREAD_RUNS;
    runner->ready[(runner->ready_first + runner->ready_count++) & runner->ready_mask] = thread;
}

static void make_next(CtaRunner *runner, CtaThread *thread) {
    thread->state = THREAD_RUNS;
    runner->ready[--runner->ready_first & runner->ready_mask] = thread;
    runner->ready_count++;
}

static CtaThread **ready_at(CtaRunner *runner, uint32_t index) {
    return &runner->ready[(runner->ready_first + index) & runner->ready_mask];
}

static CtaThread *take_oldest(CtaRunner *runner) {
    CtaThread *thread = *ready_at(runner, 0);
    runner->ready_first++;
    runner->ready_count--;
    return thread;
}

/* NULL: none is ready, nor will be. */
static CtaThread *take_ready(CtaRunner *runner) {
    bool (*advance)(CtaRunner *) = runner->setup.advance;
    if (advance != NULL && runner->setup.shuffle && (runner_random(runner) & 7) == 0)
        advance(runner);
    while (runner->ready_count == 0)
        if (advance == NULL || !advance(runner))
            return NULL;
    Pick pick = runner->pick;
    if (pick == PICK_MIXED)
        pick = (runner_random(runner) & 7) == 0 ? PICK_ANY : PICK_OLDEST;
    if (pick == PICK_NEWEST)
        return *ready_at(runner, --runner->ready_count);
    if (pick == PICK_ANY) {
        CtaThread **oldest = ready_at(runner, 0), **taken = ready_at(runner, random_below(runner, runner->ready_count)), *kept = *oldest;
        *oldest = *taken;
        *taken = kept;
    }
    return take_oldest(runner);
}

static int round_to_warps(int threads) {
    return (threads + WARP_LANES - 1) / WARP_LANES;
}

/* Of the numbers 0 .. count-1, in an order of this seed. */
static void draw_order(CtaRunner *runner, int *order, int count) {
    bool descending = runner->setup.shuffle && (runner_random(runner) & 1);
    for (int i = 0; i < count; i++)
        order[i] = descending ? count - 1 - i : i;
    if (!runner->setup.shuffle || (runner_random(runner) & 1))
        return;
    for (int i = count - 1; i > 0; i--) {
        int other = (int)random_below(runner, (uint32_t)i + 1), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

static void start_order(CtaRunner *runner) {
    int ctas[CLUSTER_MAX_CTAS], warps[CTA_MAX_THREADS / WARP_LANES], lanes[WARP_LANES];
    int threads = runner->setup.threads, warp_count = round_to_warps(threads);
    runner->pick = runner->setup.shuffle ? (Pick)(runner_random(runner) & 3) : PICK_OLDEST;
    draw_order(runner, ctas, runner->ctas);
    for (int c = 0; c < runner->ctas; c++) {
        draw_order(runner, warps, warp_count);
        for (int w = 0; w < warp_count; w++) {
            draw_order(runner, lanes, WARP_LANES);
            for (int l = 0; l < WARP_LANES; l++)
                if (warps[w] * WARP_LANES + lanes[l] < threads)
                    make_ready(runner, &runner->cta[ctas[c]].threads[warps[w] * WARP_LANES + lanes[l]]);
        }
    }
}

/* ---- switching ---- */

static void thread_main(void *context);

static Fiber *fiber_of(CtaRunner *runner, CtaThread *thread) {
    if (!thread->started) {
        thread->started = true;
        fiber_prepare(&thread->fiber, &runner->stacks, (int)(thread - runner->thread), thread_main, thread);
    }
    return &thread->fiber;
}

/* The last thread of a CTA ends: nobody may reach for its memory any more, and whoever did must be known to be through. */
static void check_peers(CtaThread *thread) {
    const Cta *cta = thread->cta;
    const CtaThread *peer = cta->peer;
    if (peer != NULL && cta->peer_arrives >= thread->waits)
        thread_trap(thread, cta->peer_site, "thread %d of CTA %d reaches for the shared memory of CTA %d, which ends without waiting for it",
            (int)peer->code.thread, peer->cta->rank, cta->rank);
}

static void thread_main(void *context) {
    CtaThread *thread = context;
    CtaRunner *runner = thread->cta->runner;
    runner->run(runner->launch, &thread->code);
    if (runner->setup.ends != NULL)
        runner->setup.ends(thread);
    if (thread->arrives != thread->waits)
        thread_trap(
            thread, thread->arrive_site, "thread %d of CTA %d ends without a cluster_wait for this", (int)thread->code.thread, thread->cta->rank);
    thread->state = THREAD_ENDED;
    if (++thread->cta->ended == runner->setup.threads)
        check_peers(thread);
    runner->ended++;
    CtaThread *next = take_ready(runner);
    if (next == NULL && runner->ended < runner->ctas * runner->setup.threads)
        report_stuck(runner, thread);
    fiber_leave(&thread->fiber, next != NULL ? fiber_of(runner, next) : &runner->system);
}

static void continue_later(CtaThread *thread, CtaThread *next) {
    CtaRunner *runner = thread->cta->runner;
    if (next != thread)
        fiber_switch(&thread->fiber, fiber_of(runner, next));
}

/* Until somebody makes it ready, which may be what goes on behind the threads' backs, at once. */
void cta_pause(CtaThread *thread, ThreadState state) {
    CtaRunner *runner = thread->cta->runner;
    thread->state = state;
    CtaThread *next = take_ready(runner);
    if (next == NULL)
        report_stuck(runner, thread);
    continue_later(thread, next);
}

/* Those of `count` threads that wait in `state`, all but `last`, which needs not stop: it has just come. Lanes go before other warps, while their
 * stacks are in the nearest cache. */
void cta_release(CtaThread *threads, int count, ThreadState state, CtaThread *last) {
    CtaRunner *runner = last->cta->runner;
    if (state == THREAD_IN_WARP && !runner->setup.shuffle) {
        for (int t = count - 1; t >= 0; t--)
            if (threads[t].state == state)
                make_next(runner, &threads[t]);
        return;
    }
    for (int t = 0; t < count; t++)
        if (threads[t].state == state)
            make_ready(runner, &threads[t]);
    if (runner->setup.shuffle) {
        make_ready(runner, last);
        continue_later(last, take_ready(runner));
    }
}

_Noreturn void thread_trap_text(CtaThread *thread, uint64_t site, char *text) {
    CtaRunner *runner = thread->cta->runner;
    const CtaSetup *setup = &runner->setup;
    error_set(&runner->error, "kernel '%s': %s%s%d:%d: %s", setup->kernel, setup->file ? setup->file : "", setup->file ? ":" : "", site_line(site),
        site_column(site), text);
    free(text);
    runner->failed = true;
    fiber_leave(&thread->fiber, &runner->system);
}

_Noreturn void thread_trap(CtaThread *thread, uint64_t site, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = format_arguments(format, arguments);
    va_end(arguments);
    thread_trap_text(thread, site, text);
}

/* ---- operations ---- */

CtaThread *cta_enter(PhbSimtThread *code, const char *op, uint64_t site) {
    CtaThread *thread = (CtaThread *)code;
    thread->op = op;
    thread->site = site;
    return thread;
}

static void check_same(CtaThread *thread, Meeting *meeting) {
    if (meeting->arrived == 0)
        *meeting = (Meeting){.first = thread, .op = thread->op, .site = thread->site};
    else if (meeting->site != thread->site || (meeting->op != thread->op && strcmp(meeting->op, thread->op) != 0))
        report_differing(thread, meeting);
    meeting->arrived++;
}

bool cta_meet(CtaThread *thread, Meeting *meeting, int count, ThreadState state) {
    check_same(thread, meeting);
    if (meeting->arrived < count) {
        cta_pause(thread, state);
        return false;
    }
    meeting->arrived = 0;
    return true;
}

void cta_wake(CtaThread *thread) {
    make_ready(thread->cta->runner, thread);
}

void phb_cta_barrier(PhbSimtThread *code, const char *op, uint64_t site) {
    CtaThread *thread = cta_enter(code, op, site);
    Cta *cta = thread->cta;
    int threads = cta->runner->setup.threads;
    if (!cta_meet(thread, &cta->meeting, threads, THREAD_IN_BLOCK))
        return;
    cta->barriers++;
    cta_release(cta->threads, threads, THREAD_IN_BLOCK, thread);
}

const uint64_t *phb_cta_warp(PhbSimtThread *code, const char *op, uint64_t value, uint64_t site) {
    CtaThread *thread = cta_enter(code, op, site);
    Cta *cta = thread->cta;
    int64_t base = code->thread & ~(int64_t)(WARP_LANES - 1), left = cta->runner->setup.threads - base;
    int lanes = left < WARP_LANES ? (int)left : WARP_LANES;
    CtaWarp *warp = &cta->warps[base / WARP_LANES];
    uint64_t *values = warp->values[warp->turn];
    values[code->thread - base] = value;
    if (cta_meet(thread, &warp->meeting, lanes, THREAD_IN_WARP)) {
        warp->turn ^= 1;
        cta_release(&cta->threads[base], lanes, THREAD_IN_WARP, thread);
    }
    return values;
}

int32_t phb_cta_elect(PhbSimtThread *code, const char *op, uint64_t site) {
    const CtaRunner *runner = ((CtaThread *)code)->cta->runner;
    int64_t lane = code->thread % WARP_LANES;
    uint64_t draw = runner->setup.elect == ELECT_RANDOM ? runner_random((CtaRunner *)runner) : 0;
    const uint64_t *draws = phb_cta_warp(code, op, draw, site); /* lane 0's counts */
    int64_t left = runner->setup.threads - (code->thread - lane), lanes = left < WARP_LANES ? left : WARP_LANES;
    int64_t elected = runner->setup.elect == ELECT_LOW ? 0 : runner->setup.elect == ELECT_HIGH ? lanes - 1 : (int64_t)(draws[0] % (uint64_t)lanes);
    return lane == elected;
}

static void note_phase(CtaRunner *runner, bool relaxed) {
    if (runner->phase == runner->relaxed_capacity) {
        runner->relaxed_capacity = runner->relaxed_capacity * 2 + 64;
        uint8_t *more = realloc(runner->relaxed, runner->relaxed_capacity);
        if (more == NULL)
            abort();
        runner->relaxed = more;
    }
    runner->relaxed[runner->phase] = relaxed;
}

void phb_cta_arrive(PhbSimtThread *code, int32_t relaxed, const char *op, uint64_t site) {
    CtaThread *thread = cta_enter(code, op, site);
    CtaRunner *runner = thread->cta->runner;
    if (thread->arrives != thread->waits)
        thread_trap(thread, site, "thread %d of CTA %d arrives again: no cluster_wait answers its %s at %d:%d", (int)code->thread, thread->cta->rank,
            op, site_line(thread->arrive_site), site_column(thread->arrive_site));
    check_same(thread, &runner->meeting);
    if (runner->meeting.arrived == 1)
        note_phase(runner, relaxed != 0);
    thread->arrives++;
    thread->arrive_site = site;
    int all = runner->ctas * runner->setup.threads;
    if (runner->meeting.arrived == all) {
        runner->meeting.arrived = 0;
        runner->phase++;
        cta_release(runner->thread, all, THREAD_IN_CLUSTER, thread);
    }
}

void phb_cta_wait(PhbSimtThread *code, const char *op, uint64_t site) {
    CtaThread *thread = cta_enter(code, op, site);
    if (thread->arrives == thread->waits)
        thread_trap(thread, site, "thread %d of CTA %d waits for its cluster without having arrived", (int)code->thread, thread->cta->rank);
    if (thread->cta->runner->phase < thread->arrives)
        cta_pause(thread, THREAD_IN_CLUSTER);
    thread->waits++;
}

void *phb_cta_remote(PhbSimtThread *code, void *address, int64_t rank, uint64_t site) {
    CtaThread *thread = (CtaThread *)code;
    const CtaRunner *runner = thread->cta->runner;
    if (rank < 0 || rank >= runner->ctas)
        thread_trap(thread, site, "thread %d of CTA %d names rank %lld of a thread-block cluster of %d CTA%s", (int)code->thread, thread->cta->rank,
            (long long)rank, runner->ctas, runner->ctas == 1 ? "" : "s");
    Cta *peer = &runner->cta[rank];
    if (peer->ended == runner->setup.threads)
        thread_trap(thread, site, "thread %d of CTA %d reaches for the shared memory of CTA %d, which has ended", (int)code->thread,
            thread->cta->rank, peer->rank);
    if (peer != thread->cta && (peer->peer == NULL || thread->arrives >= peer->peer_arrives)) {
        peer->peer = thread;
        peer->peer_arrives = thread->arrives;
        peer->peer_site = site;
    }
    return peer->shared + ((char *)address - code->shared);
}

/* In turn whatever the seed: threads that wait for one another would starve the one they wait for. */
void phb_cta_yield(PhbSimtThread *code) {
    CtaThread *thread = (CtaThread *)code;
    CtaRunner *runner = thread->cta->runner;
    make_ready(runner, thread);
    continue_later(thread, take_oldest(runner));
}

/* ---- clusters ---- */

int64_t runner_shared_step(int64_t shared) {
    return (shared / PHB_SHARED_ALIGN + 1) * PHB_SHARED_ALIGN;
}

bool runner_prepare(CtaRunner *runner, const CtaSetup *setup, Error *error) {
    int ctas = setup->size[0] * setup->size[1] * setup->size[2], threads = ctas * setup->threads;
    if (threads > runner->stacks.count || ctas > runner->most_ctas) {
        runner_fini(runner);
        if (!fiber_stacks_open(&runner->stacks, threads, error))
            return false;
        uint32_t capacity = 1;
        while (capacity < (uint32_t)threads)
            capacity *= 2;
        runner->ready_mask = capacity - 1;
        runner->most_ctas = ctas;
        runner->ready = new_zeroed(capacity, sizeof *runner->ready);
        runner->cta = new_zeroed((size_t)ctas, sizeof *runner->cta);
        runner->thread = new_zeroed((size_t)threads, sizeof *runner->thread);
        runner->warps = new_zeroed((size_t)threads, sizeof *runner->warps); /* no CTA has more warps than threads */
    }
    runner->setup = *setup;
    runner->ctas = ctas;
    runner->random = setup->seed;
    return true;
}

void runner_fini(CtaRunner *runner) {
    for (int t = 0; t < runner->stacks.count; t++)
        fiber_forget(&runner->thread[t].fiber);
    fiber_stacks_close(&runner->stacks);
    free(runner->ready);
    free(runner->cta);
    free(runner->thread);
    free(runner->warps);
    free(runner->relaxed);
    *runner = (CtaRunner){0};
}

static void begin_cta(CtaRunner *runner, int rank, int64_t cluster, char *shared) {
    const CtaSetup *setup = &runner->setup;
    int threads = setup->threads, warps = round_to_warps(threads);
    Cta *cta = &runner->cta[rank];
    *cta = (Cta){.runner = runner,
        .rank = rank,
        .threads = &runner->thread[rank * threads],
        .warps = &runner->warps[rank * warps],
        .shared = shared + rank * runner_shared_step(setup->shared)};
    PhbSimtThread code = {.cta = cluster * runner->ctas + rank, .ctas = setup->launched, .rank = rank, .shared = cta->shared};
    for (int t = 0; t < threads; t++) {
        CtaThread *thread = &cta->threads[t];
        code.thread = t;
        *thread = (CtaThread){.code = code, .cta = cta, .fiber = thread->fiber};
    }
    for (int w = 0; w < warps; w++)
        cta->warps[w].meeting.arrived = 0;
}

bool runner_run(CtaRunner *runner, PhbSimtRun *run, const PhbLaunch *launch, int64_t cluster, char *shared, Error *error) {
    runner->run = run;
    runner->launch = launch;
    runner->ready_count = 0;
    runner->meeting.arrived = runner->ended = 0;
    runner->phase = 0;
    runner->failed = false;
    for (int rank = 0; rank < runner->ctas; rank++)
        begin_cta(runner, rank, cluster, shared);
    start_order(runner);
    fiber_adopt(&runner->system);
    fiber_switch(&runner->system, fiber_of(runner, take_ready(runner)));
    if (runner->failed)
        *error = runner->error;
    return !runner->failed;
}
