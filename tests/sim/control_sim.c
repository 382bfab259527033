/* The control plane under virtual time: the scheduler's core and the pods' agents, the very code of the executables, over a network that drops,
 * delays, repeats, spoils and reorders frames and breaks one way or both, with pods that are slow, sleep, fail, leave, die alone or with their hosts
 * and start anew, and a scheduler that dies and goes on from its journal. One seed is one schedule, drawn whole from it, and replays:
 *
 *     control_sim --seed 1234 --verbose
 *     control_sim --seeds 10000 [--first 0] [--until-violated]
 *
 * Faults come until the schedule heals; then the job has to end. Checked: what is published is right, on the disk, and published once; nobody writes
 * that was given up, nor to what is published; the exit code says whether outputs were published; where nothing was harmed the job is done and each
 * unit ran once, or was a slow pod's that others copied; the job is given up only when no pod was left, or three were lost with one unit or in one
 * round, or two pods computed different bits, which are named, and the unit; what is audited is right where any pod of another node is; a round reads
 * what the one before computed; what pods die of is given to three of them; nobody hangs; a loss is noticed in time. */
#include "tests/sim/control_world.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

/* ---- one schedule ---- */

static uint64_t choose_fetched(void *context, int64_t memory) {
    Sim *sim = context;
    if (memory != 1 << 20)
        violated(sim, "other memory than the pods said");
    return FETCHED;
}

static void draw_units(Sim *sim) {
    static const PhbKernel kernel;
    Random *random = &sim->random;
    uint64_t columns = 1 + draw_below(random, sim->config.units);
    sim->problem.kernel = &kernel;
    sim->problem.supers[0] = (int64_t)columns;
    sim->problem.supers[1] = (int64_t)(sim->config.units / columns);
    sim->problem.supers[2] = 1;
    sim->tiles = sim->config.units = columns * (sim->config.units / columns);
    sim->problem.units = (int64_t)sim->config.units;
    sim->config.placement = placement_new(&sim->problem, draw_chance(random, 50) ? PLACE_BLOCK : PLACE_ROUND_ROBIN, sim->config.max_pods);
}

static void draw_poison(Sim *sim) {
    Random *random = &sim->random;
    sim->poison = UINT64_MAX;
    if (!draw_chance(random, 5))
        return;
    sim->poison_round = sim->config.course ? draw_below(random, sim->config.rounds) : 0;
    sim->poison = draw_below(random, sim->config.course ? rounds_units(sim, sim->poison_round) : sim->config.units);
}

static void draw_job(Sim *sim) {
    Random *random = &sim->random;
    sim->config = (SchedConfig){
        .epoch = 1,
        .units = 1 + draw_below(random, draw_chance(random, 30) ? 8 : MAX_UNITS),
        .nodes = draw_chance(random, 50) ? 1 + (uint32_t)draw_below(random, (uint64_t)sim->pod_count) : 0,
        .max_pods = MAX_PODS * 8,
        .join_window_ms = 500,
        .join_timeout_ms = 30000,
        .heartbeat_ms = 300,
        .lease_ms = 1500,
        .dead_ms = 3000,
        .progress_ms = 12000,
        .flush_ms = draw_chance(random, 50) ? 1000 + (uint32_t)draw_below(random, 2000) : 0,
        .drain_ms = 1000,
        .job = &sim_job,
        .expected = sim_expected,
        .speculate = draw_chance(random, 30),
    };
    bool course = draw_chance(random, 20);
    if (course)
        rounds_draw(sim);
    else
        draw_units(sim);
    draw_poison(sim);
    if (course || draw_chance(random, 50)) {
        sim->config.fetched = choose_fetched;
        sim->config.context = sim;
    }
}

/* All units or a part of them; where it is all, one of the pods may compute wrongly. */
static void draw_audit(Sim *sim) {
    Random *random = &sim->random;
    AuditOptions options = {.percent = draw_chance(random, 60) ? 100 : 1 + (double)draw_below(random, 99), .seed = 1};
    sim->wrong_pod = SCHEDULER;
    sim->wrong_every = 1;
    if (sim->config.course || !draw_chance(random, 25))
        return;
    sim->config.audit = audit_choose(&options, sim->seed, (int64_t)sim->config.units);
    if (options.percent < 100 || draw_chance(random, 50))
        return;
    sim->wrong_pod = (int)draw_below(random, (uint64_t)sim->pod_count);
    sim->wrong_every = 1 + draw_below(random, 20);
}

static void draw_network(Sim *sim) {
    Random *random = &sim->random;
    sim->heal_ms = sim->now_ms + draw_below(random, 12000);
    if (!draw_chance(random, 60))
        return;
    sim->drop = (unsigned)draw_below(random, 40);
    sim->repeat = (unsigned)draw_below(random, 30);
    sim->delay_ms = draw_below(random, 200);
    sim->drop_run = 1;
    if (!draw_chance(random, 40))
        return;
    sim->harmed = true; /* it may look like death */
    sim->delay_ms = draw_below(random, draw_chance(random, 20) ? 2000 : 200);
    sim->drop_run = 1 << 30;
}

static void draw_fault(Sim *sim, int pod, HappeningKind kind, unsigned percent) {
    Random *random = &sim->random;
    if (!draw_chance(random, percent))
        return;
    uint64_t at_ms = sim->now_ms + draw_below(random, sim->heal_ms - sim->now_ms + 1);
    uint64_t left = sim->heal_ms - at_ms, span_ms = draw_below(random, draw_chance(random, 50) ? 2500 : 12000);
    push(sim, (Happening){.at_ms = at_ms, .kind = kind, .to = pod, .span_ms = span_ms < left ? span_ms : left, .way = (int)draw_below(random, 2)});
}

/* One after the other breaks, and they heal in another order. */
static void draw_swizzle(Sim *sim) {
    for (int i = 0; i < sim->pod_count; i++)
        draw_fault(sim, i, LINK_BREAKS, 100);
}

static void draw_faults(Sim *sim) {
    Random *random = &sim->random;
    bool calm = draw_chance(random, 25);
    unsigned deaths = calm ? 0 : (unsigned)draw_below(random, 50), naps = calm ? 0 : (unsigned)draw_below(random, 50);
    unsigned breaks = calm ? 0 : (unsigned)draw_below(random, 40), fails = calm ? 0 : (unsigned)draw_below(random, 15);
    unsigned crawls = sim->config.course || sim->poison != UINT64_MAX ? 0 : 30; /* what is begun again would not end */
    for (int i = 0; i < sim->pod_count; i++) {
        SimPod *pod = &sim->pods[i];
        pod->is_restarted = draw_chance(random, 60);
        pod->unit_ms = draw_chance(random, 10) ? draw_chance(random, crawls) ? 800 : 200 : 1 + draw_below(random, 60);
        push(sim, (Happening){.at_ms = sim->now_ms + draw_below(random, draw_chance(random, 30) ? 4000 : 800), .kind = POD_STARTS, .to = i});
        for (int again = 0; again < 2; again++) {
            draw_fault(sim, i, POD_DIES, deaths);
            draw_fault(sim, i, POD_SLEEPS, naps);
            draw_fault(sim, i, LINK_BREAKS, breaks);
        }
        draw_fault(sim, i, HOST_DIES, deaths / 2);
        draw_fault(sim, i, POD_FAILS, fails);
        draw_fault(sim, i, POD_LEAVES, draw_chance(random, 20) ? 40 : 0);
        draw_fault(sim, i, POD_CONNECTS, calm ? 0 : 20);
    }
    sim->calm = calm && !sim->harmed;
    if (!calm && draw_chance(random, 10))
        draw_swizzle(sim);
    draw_fault(sim, SCHEDULER, SCHED_DIES, calm ? 0 : 10);
}

static bool all_ended(const Sim *sim) {
    if (!sim->finished)
        return false;
    for (int i = 0; i < sim->pod_count; i++)
        if (sim->pods[i].alive && sim->pods[i].agent.phase != AGENT_HELLO) /* a pod without a scheduler waits for one */
            return false;
    return true;
}

static bool starts(const Sim *sim, const char *text) {
    return strncmp(sim->text, text, strlen(text)) == 0;
}

/* A job that failed had to. */
static void judge_failure(Sim *sim) {
    bool some_left = false;
    unsigned long long unit;
    unsigned first, second;
    for (int i = 0; i < sim->pod_count; i++)
        some_left |= sim->pods[i].alive && sim->pods[i].known && sim->pods[i].agent.phase != AGENT_FAILED;
    if (starts(sim, "round") && sim->config.course && sim->fenced >= 3)
        return;
    if (starts(sim, "no pod is left") && (sim->harmed || sim->some_leave) && !some_left)
        return;
    if (sscanf(sim->text, "super-tile %llu has brought down", &unit) == 1 && sim->units[unit].lost_with >= 3)
        return;
    if (sscanf(sim->text, "audit: super-tile %llu: pod node%u and pod node%u computed", &unit, &first, &second) == 3 &&
        (sim->units[unit].computed_wrong & (1u << first | 1u << second)) != 0)
        return;
    if (starts(sim, "audit: ") && strstr(sim->text, "none came") != NULL && (sim->harmed || sim->some_leave || sim->pod_count == 1))
        return;
    if (starts(sim, "all pods have left") && (sim->harmed || sim->some_leave))
        return;
    if ((starts(sim, "waited") || starts(sim, "pod node")) && (sim->harmed || sim->some_leave))
        return;
    violated(sim, "the job was given up without need");
}

static const char *run_seed(uint64_t seed, bool verbose) {
    static Sim world;
    static WireBatch journal[MAX_BATCHES];
    Sim *sim = &world;
    Happening *heap = sim->heap;
    size_t heap_capacity = sim->heap_capacity;
    memset(sim, 0, sizeof *sim);
    sim->heap = heap;
    sim->heap_capacity = heap_capacity;
    sim->journal = journal;
    sim->random.state = seed * 0x632be59bd9b4e019u + 1;
    sim->seed = seed;
    sim->verbose = verbose;
    sim->now_ms = 1000;
    sim->pod_count = 1 + (int)draw_below(&sim->random, MAX_PODS);
    draw_job(sim);
    draw_audit(sim);
    draw_network(sim);
    draw_faults(sim);
    sim->actions.capacity = sched_actions_capacity(&sim->config);
    sim->actions.items = calloc(sim->actions.capacity, sizeof sim->actions.items[0]);
    if (!sim->actions.items)
        abort();
    sched_start(sim);
    uint64_t end_ms = sim->now_ms + 200000;
    while (!all_ended(sim) && !sim->violation && sim->heap_count) {
        Happening happening = pop(sim);
        if (happening.at_ms > end_ms) {
            free(happening.frame);
            violated(sim, sim->finished ? "a pod hangs" : "the scheduler hangs");
            break;
        }
        sim->now_ms = happening.at_ms;
        happen(sim, &happening);
    }
    if (!sim->violation && sim->exit_code != 0)
        judge_failure(sim);
    while (sim->heap_count)
        free(pop(sim).frame);
    free(sim->actions.items);
    sched_core_free(sim->core);
    if (sim->config.course)
        rounds_free(sim);
    else
        placement_free(sim->config.placement);
    return sim->violation;
}

static uint64_t seed_at_work;

/* A step that does not end shows in no event. */
static void never_ends(int number) {
    (void)number;
    printf("seed %llu: a step never ends\n", (unsigned long long)seed_at_work);
    fflush(stdout);
    _exit(1);
}

int main(int argc, char **argv) {
    uint64_t first = 0, count = 10000;
    bool verbose = false, stops = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            first = strtoull(argv[++i], NULL, 0), count = 1;
        else if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc)
            count = strtoull(argv[++i], NULL, 0);
        else if (strcmp(argv[i], "--first") == 0 && i + 1 < argc)
            first = strtoull(argv[++i], NULL, 0);
        else if (strcmp(argv[i], "--verbose") == 0)
            verbose = true;
        else if (strcmp(argv[i], "--until-violated") == 0)
            stops = true;
        else {
            fprintf(stderr, "usage: control_sim [--seed N | --seeds N [--first N] [--until-violated]] [--verbose]\n");
            return 2;
        }
    }
    signal(SIGPROF, never_ends);
    sim_job.tensors_count = 2;
    for (uint32_t i = 0; i < sim_job.tensors_count; i++) {
        snprintf(sim_job.tensors[i].path, sizeof sim_job.tensors[i].path, "/t%u", i);
        sim_expected[i].hash = i + 1;
    }
    uint64_t failures = 0, first_failure = 0;
    for (uint64_t seed = first; seed < first + count && !(stops && failures > 0); seed++) {
        seed_at_work = seed;
        setitimer(ITIMER_PROF, &(struct itimerval){.it_value.tv_sec = 1}, NULL);
        const char *violation = run_seed(seed, verbose);
        if (!violation)
            continue;
        if (failures++ == 0) {
            first_failure = seed;
            printf("seed %llu: %s\n  replay: control_sim --seed %llu --verbose\n", (unsigned long long)seed, violation, (unsigned long long)seed);
        }
    }
    printf("%llu schedules, %llu violations", (unsigned long long)count, (unsigned long long)failures);
    if (failures)
        printf(", first at seed %llu", (unsigned long long)first_failure);
    putchar('\n');
    return failures != 0;
}
