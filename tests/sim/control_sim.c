/* The control plane under virtual time: the scheduler's core and the pods' agents, the very code of the executables, over a network that drops,
 * delays, repeats and reorders frames, with pods that are slow, die, or fail. One seed is one schedule, drawn whole from it, and replays:
 *
 *     control_sim --seed 1234 --verbose
 *     control_sim --seeds 10000 [--first 0]
 *
 * Checked: each unit is run by one pod only; outputs are published once and only when every unit was stored and flushed; a job that says done was
 * published, one that failed was not; nobody hangs; where nothing was broken for good the job is done. */
#include "runtime/pod/agent.h"
#include "runtime/sched/core.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PODS = 6, MAX_UNITS = 400, TICK_MS = 50, SCHEDULER = -1, FETCHED = 5 };

/* ---- chance ---- */

typedef struct Random {
    uint64_t state;
} Random;

static uint64_t draw(Random *random) {
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t draw_below(Random *random, uint64_t bound) {
    return draw(random) % bound;
}

static bool draw_chance(Random *random, unsigned percent) {
    return draw_below(random, 100) < percent;
}

/* ---- the world ---- */

typedef enum HappeningKind { FRAME_ARRIVES, TICK, UNIT_ENDS, POD_STARTS, POD_DIES, PROOF_READY, FLUSH_ENDS, PUBLISH_ENDS } HappeningKind;

typedef struct Happening {
    uint64_t at_ms, order;
    HappeningKind kind;
    int to;              /* a pod, or SCHEDULER */
    uint64_t connection; /* FRAME_ARRIVES at the scheduler: whence */
    uint64_t life;       /* of a pod: what was meant for an earlier process is lost */
    uint8_t *frame;
    size_t length;
} Happening;

/* A batch at work. Pods end batches in any order. */
typedef struct Work {
    WireBatch batch;
    uint64_t number, next; /* next: units that have ended */
} Work;

typedef struct SimPod {
    bool alive;
    uint64_t life;
    Agent agent;
    Work work[WIRE_BATCH_WINDOW];
    int work_count, at_work; /* at_work: index of the batch whose unit runs */
    bool busy, flush_wanted, has_peers;
    uint64_t units;
    uint64_t unit_ms;
} SimPod;

typedef struct Sim {
    Random random;
    uint64_t seed;
    bool verbose;
    uint64_t now_ms, order;
    Happening *heap;
    size_t heap_count, heap_capacity;
    Problem problem; /* as far as its super-tiles go */
    SchedConfig config;
    SchedCore *core;
    SchedActions actions;
    SimPod pods[MAX_PODS];
    int pod_count;
    unsigned drop, repeat;    /* per cent of the frames */
    uint64_t delay_ms;        /* at most */
    int drop_run;             /* frames lost in a row on a link, at most */
    int dropped[MAX_PODS][2]; /* so many are now, to the pod and from it */
    uint64_t heal_ms;         /* from then on the network is well */
    bool fatal;               /* something was broken for good: the job may fail */
    int owner[MAX_UNITS];     /* which pod ran a unit, -1: none yet */
    bool stored[MAX_UNITS], flushed[MAX_UNITS];
    bool published, finished;
    int exit_code;
    const char *violation;
} Sim;

static Welcome job;
static WireSeen expected[PHB_MAX_PARAMS];
static WireMessage inbox, outbox;

__attribute__((format(printf, 2, 3))) static void say(const Sim *sim, const char *format, ...) {
    if (!sim->verbose)
        return;
    printf("%8llu ms  ", (unsigned long long)sim->now_ms);
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

static void violated(Sim *sim, const char *rule) {
    if (!sim->violation)
        sim->violation = rule;
    say(sim, "VIOLATION: %s", rule);
}

static bool earlier(const Happening *a, const Happening *b) {
    return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->order < b->order;
}

static void push(Sim *sim, Happening happening) {
    if (sim->heap_count == sim->heap_capacity) {
        sim->heap_capacity = sim->heap_capacity ? 2 * sim->heap_capacity : 256;
        sim->heap = realloc(sim->heap, sim->heap_capacity * sizeof sim->heap[0]);
        if (!sim->heap)
            abort();
    }
    happening.order = sim->order++;
    size_t i = sim->heap_count++;
    for (; i > 0 && earlier(&happening, &sim->heap[(i - 1) / 2]); i = (i - 1) / 2)
        sim->heap[i] = sim->heap[(i - 1) / 2];
    sim->heap[i] = happening;
}

static Happening pop(Sim *sim) {
    Happening top = sim->heap[0], last = sim->heap[--sim->heap_count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= sim->heap_count)
            break;
        if (child + 1 < sim->heap_count && earlier(&sim->heap[child + 1], &sim->heap[child]))
            child++;
        if (!earlier(&sim->heap[child], &last))
            break;
        sim->heap[i] = sim->heap[child];
        i = child;
    }
    sim->heap[i] = last;
    return top;
}

static void later(Sim *sim, uint64_t delay_ms, HappeningKind kind, int to) {
    push(sim, (Happening){.at_ms = sim->now_ms + delay_ms, .kind = kind, .to = to, .life = to >= 0 ? sim->pods[to].life : 0});
}

/* ---- the network: every frame goes through the codec ---- */

static uint64_t connection_of(const Sim *sim, int pod) {
    return (uint64_t)(pod + 1) << 32 | sim->pods[pod].life;
}

static void deliver(Sim *sim, int from, int to) {
    bool well = sim->now_ms >= sim->heal_ms;
    int *dropped = &sim->dropped[from >= 0 ? from : to][from >= 0];
    bool drop = !well && *dropped < sim->drop_run && draw_chance(&sim->random, sim->drop);
    *dropped = drop ? *dropped + 1 : 0;
    int copies = drop ? 0 : !well && draw_chance(&sim->random, sim->repeat) ? 2 : 1;
    say(sim, "%s %d -> %d%s", wire_type_name(outbox.header.type), from, to, copies ? "" : " (lost)");
    for (int i = 0; i < copies; i++) {
        size_t size = wire_size(&outbox);
        uint8_t *frame = malloc(size);
        if (!frame)
            abort();
        wire_encode(&outbox, NULL, 0, frame);
        int pod = from >= 0 ? from : to;
        push(sim, (Happening){.at_ms = sim->now_ms + 1 + (well ? 0 : draw_below(&sim->random, sim->delay_ms + 1)),
                      .kind = FRAME_ARRIVES,
                      .to = to,
                      .connection = connection_of(sim, pod),
                      .life = sim->pods[pod].life,
                      .frame = frame,
                      .length = size});
    }
}

/* Of what a batch stores, as the shell of a pod would add it up. */
static uint64_t checksum_of(const WireBatch *batch) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < batch->count; i++)
        sum += (batch->first + i * batch->step + 1) * 1000003;
    return sum;
}

/* ---- the scheduler's shell ---- */

static void sched_event(Sim *sim, const SchedEvent *event) {
    if (sim->finished)
        return;
    sched_step(sim->core, event, sim->now_ms, &sim->actions);
    if (sim->actions.count > sim->actions.capacity)
        violated(sim, "more actions than the bound");
    for (size_t i = 0; i < sim->actions.count; i++) {
        const SchedAction *action = &sim->actions.items[i];
        switch (action->kind) {
        case SCHED_ACTION_SEND:
            if (sched_compose(sim->core, action, &outbox))
                deliver(sim, SCHEDULER, (int)(action->connection >> 32) - 1);
            break;
        case SCHED_ACTION_FORGET:
            break;
        case SCHED_ACTION_STORED:
            if (action->checksum != checksum_of(&action->batch))
                violated(sim, "a batch with another one's checksum");
            break;
        case SCHED_ACTION_PUBLISH:
            if (sim->published)
                violated(sim, "published twice");
            sim->published = true;
            for (uint64_t unit = 0; unit < sim->config.units; unit++)
                if (!sim->flushed[unit])
                    violated(sim, "published before every unit was stored and flushed");
            later(sim, draw_below(&sim->random, 200), PUBLISH_ENDS, SCHEDULER);
            break;
        case SCHED_ACTION_LOG:
            say(sim, "scheduler: %s", action->text);
            break;
        case SCHED_ACTION_FINISH:
            say(sim, "scheduler ends with %d: %s", action->exit_code, action->text);
            sim->finished = true;
            sim->exit_code = action->exit_code;
            if ((action->exit_code == 0) != sim->published)
                violated(sim, "the exit code does not say whether outputs were published");
            break;
        }
    }
}

/* ---- the pods' shells ---- */

static void pod_event(Sim *sim, int index, const AgentEvent *event);

static void pod_work(Sim *sim, int index) {
    SimPod *pod = &sim->pods[index];
    if (pod->busy || pod->work_count == 0)
        return;
    pod->busy = true;
    pod->at_work = draw_chance(&sim->random, 70) ? 0 : (int)draw_below(&sim->random, (uint64_t)pod->work_count);
    later(sim, 1 + draw_below(&sim->random, 2 * pod->unit_ms), UNIT_ENDS, index);
}

static void pod_flush_when_idle(Sim *sim, int index) {
    SimPod *pod = &sim->pods[index];
    if (pod->flush_wanted && pod->work_count == 0) {
        pod->flush_wanted = false;
        later(sim, 1 + draw_below(&sim->random, 100), FLUSH_ENDS, index);
    }
}

static void pod_act(Sim *sim, int index, const AgentAction *action) {
    SimPod *pod = &sim->pods[index];
    switch (action->kind) {
    case AGENT_ACTION_SEND:
        agent_compose(&pod->agent, action->type, &outbox);
        deliver(sim, index, SCHEDULER);
        break;
    case AGENT_ACTION_PROVE:
        later(sim, 1 + draw_below(&sim->random, 100), PROOF_READY, index);
        break;
    case AGENT_ACTION_PEERS:
        if (pod->has_peers)
            violated(sim, "a pod is told its peers twice");
        if (inbox.peers.fetched != FETCHED || inbox.peers.peers_count == 0)
            violated(sim, "other peers than were sent");
        pod->has_peers = true;
        break;
    case AGENT_ACTION_RUN:
        if (inbox.sched_state.peers && !pod->has_peers)
            violated(sim, "a pod begins before it knows its peers");
        if (pod->work_count == WIRE_BATCH_WINDOW) {
            violated(sim, "more batches than the window");
            break;
        }
        pod->work[pod->work_count++] = (Work){.batch = action->batch, .number = action->batch_number};
        pod_work(sim, index);
        break;
    case AGENT_ACTION_FLUSH:
        pod->flush_wanted = true;
        pod_flush_when_idle(sim, index);
        break;
    case AGENT_ACTION_EXIT:
        say(sim, "pod %d ends with %d: %s", index, action->exit_code, action->text);
        pod->alive = false;
        break;
    case AGENT_ACTION_LOG:
        say(sim, "pod %d: %s", index, action->text);
        break;
    }
}

static void pod_event(Sim *sim, int index, const AgentEvent *event) {
    AgentActions actions;
    if (!sim->pods[index].alive)
        return;
    agent_step(&sim->pods[index].agent, event, sim->now_ms, &actions);
    for (int i = 0; i < actions.count; i++)
        pod_act(sim, index, &actions.items[i]);
}

static void pod_start(Sim *sim, int index) {
    SimPod *pod = &sim->pods[index];
    pod->has_peers = false;
    pod->life++;
    pod->alive = true;
    AgentConfig config = {.hello_ms = 500, .hello = {.protocol_min = 1, .protocol_max = 1, .memory = 1 << 20, .threads = 1}};
    memcpy(config.hello.build_id, sim->config.build_id, 16);
    config.hello.incarnation[0] = (uint8_t)(index + 1);
    config.hello.incarnation[1] = (uint8_t)pod->life;
    snprintf(config.hello.node, sizeof config.hello.node, "node%d", index);
    snprintf(config.hello.tile_endpoint, sizeof config.hello.tile_endpoint, "tcp://10.0.0.%d:1", index);
    agent_init(&pod->agent, &config, sim->now_ms);
    say(sim, "pod %d starts", index);
    later(sim, 0, TICK, index);
}

static void pod_unit_ends(Sim *sim, int index) {
    SimPod *pod = &sim->pods[index];
    Work *work = &pod->work[pod->at_work];
    uint64_t unit = work->batch.first + work->next * work->batch.step;
    pod->busy = false;
    if (unit >= sim->config.units) {
        violated(sim, "a unit beyond the last");
        return;
    }
    if (sim->owner[unit] >= 0)
        violated(sim, "a unit ran twice");
    sim->owner[unit] = index;
    sim->stored[unit] = true;
    pod->units++;
    pod_event(sim, index, &(AgentEvent){.kind = AGENT_EVENT_PROGRESS, .units = pod->units, .free_memory = 1});
    if (++work->next == work->batch.count) {
        uint64_t number = work->number, checksum = checksum_of(&work->batch);
        memmove(work, work + 1, (size_t)(pod->work + pod->work_count-- - (work + 1)) * sizeof *work);
        pod_event(sim, index, &(AgentEvent){.kind = AGENT_EVENT_BATCH_DONE, .batch = number, .checksum = checksum});
    }
    pod_work(sim, index);
    pod_flush_when_idle(sim, index);
}

static void pod_flush_ends(Sim *sim, int index) {
    for (uint64_t unit = 0; unit < sim->config.units; unit++)
        if (sim->owner[unit] == index)
            sim->flushed[unit] = sim->stored[unit];
    pod_event(sim, index, &(AgentEvent){.kind = AGENT_EVENT_FLUSHED});
}

/* ---- one schedule ---- */

static void arrive(Sim *sim, Happening *happening) {
    const uint8_t *bulk;
    size_t bulk_length;
    if (wire_decode(happening->frame, happening->length, &inbox, &bulk, &bulk_length) != WIRE_OK)
        violated(sim, "a frame that was encoded does not decode");
    else if (happening->to == SCHEDULER)
        sched_event(sim, &(SchedEvent){.kind = SCHED_EVENT_MESSAGE, .connection = happening->connection, .message = &inbox});
    else
        pod_event(sim, happening->to, &(AgentEvent){.kind = AGENT_EVENT_MESSAGE, .message = &inbox});
    free(happening->frame);
}

static void happen(Sim *sim, Happening *happening) {
    int to = happening->to;
    if (to >= 0 && happening->kind != POD_STARTS && (happening->life != sim->pods[to].life || !sim->pods[to].alive)) {
        free(happening->frame);
        return;
    }
    switch (happening->kind) {
    case FRAME_ARRIVES:
        arrive(sim, happening);
        break;
    case TICK:
        later(sim, TICK_MS, TICK, to);
        if (to == SCHEDULER)
            sched_event(sim, &(SchedEvent){.kind = SCHED_EVENT_TICK});
        else
            pod_event(sim, to, &(AgentEvent){.kind = AGENT_EVENT_TICK});
        break;
    case UNIT_ENDS:
        pod_unit_ends(sim, to);
        break;
    case POD_STARTS:
        pod_start(sim, to);
        break;
    case POD_DIES:
        say(sim, "pod %d dies", to);
        sim->pods[to].alive = false;
        break;
    case PROOF_READY:
        pod_event(sim, to, &(AgentEvent){.kind = AGENT_EVENT_PROVED, .seen = expected, .seen_count = job.tensors_count});
        break;
    case FLUSH_ENDS:
        pod_flush_ends(sim, to);
        break;
    case PUBLISH_ENDS:
        sched_event(sim, &(SchedEvent){.kind = SCHED_EVENT_PUBLISHED, .ok = true});
        break;
    }
}

static bool all_ended(const Sim *sim) {
    if (!sim->finished)
        return false;
    for (int i = 0; i < sim->pod_count; i++)
        if (sim->pods[i].alive && sim->pods[i].agent.phase != AGENT_HELLO) /* a pod without a scheduler waits for one */
            return false;
    return true;
}

static uint64_t choose_fetched(void *context, int64_t memory) {
    Sim *sim = context;
    if (memory != 1 << 20)
        violated(sim, "other memory than the pods said");
    return FETCHED;
}

static const char *run_seed(uint64_t seed, bool verbose) {
    Sim *sim = calloc(1, sizeof *sim);
    if (!sim)
        abort();
    sim->random.state = seed * 0x632be59bd9b4e019u + 1;
    sim->seed = seed;
    sim->verbose = verbose;
    sim->now_ms = 1000;
    Random *random = &sim->random;
    sim->pod_count = 1 + (int)draw_below(random, MAX_PODS);
    sim->config = (SchedConfig){
        .epoch = 1,
        .units = 1 + draw_below(random, draw_chance(random, 30) ? 8 : MAX_UNITS),
        .nodes = draw_chance(random, 50) ? 1 + (uint32_t)draw_below(random, (uint64_t)sim->pod_count) : 0,
        .max_pods = MAX_PODS * 4,
        .join_window_ms = 2000,
        .join_timeout_ms = 60000,
        .heartbeat_ms = 1000,
        .lease_ms = 5000,
        .dead_ms = 10000,
        .progress_ms = 60000,
        .drain_ms = 1000,
        .job = &job,
        .expected = expected,
    };
    if (draw_chance(random, 70)) {
        sim->drop = (unsigned)draw_below(random, 40);
        sim->repeat = (unsigned)draw_below(random, 30);
        sim->delay_ms = draw_below(random, draw_chance(random, 20) ? 4000 : 300);
        sim->heal_ms = sim->now_ms + draw_below(random, 120000);
        sim->fatal = draw_chance(random, 30); /* as many losses in a row as chance gives: they may look like death */
        sim->drop_run = sim->fatal ? 1 << 30 : 3;
    }
    uint64_t columns = 1 + draw_below(random, sim->config.units);
    static const PhbKernel kernel;
    sim->problem.kernel = &kernel;
    sim->problem.supers[0] = (int64_t)columns;
    sim->problem.supers[1] = (int64_t)(sim->config.units / columns);
    sim->problem.supers[2] = 1;
    sim->config.units = columns * (sim->config.units / columns);
    sim->problem.units = (int64_t)sim->config.units;
    sim->config.placement = placement_new(&sim->problem, draw_chance(random, 50) ? PLACE_BLOCK : PLACE_ROUND_ROBIN, sim->config.max_pods);
    if (draw_chance(random, 50)) {
        sim->config.fetched = choose_fetched;
        sim->config.context = sim;
    }
    sim->core = sched_core_new(&sim->config, sim->now_ms, seed);
    sim->actions.capacity = sched_actions_capacity(&sim->config);
    sim->actions.items = calloc(sim->actions.capacity, sizeof sim->actions.items[0]);
    if (!sim->core || !sim->actions.items)
        abort();
    for (int unit = 0; unit < MAX_UNITS; unit++)
        sim->owner[unit] = -1;
    later(sim, 0, TICK, SCHEDULER);
    for (int i = 0; i < sim->pod_count; i++) {
        sim->pods[i].unit_ms = draw_chance(random, 10) ? 400 : 1 + draw_below(random, 60);
        push(sim, (Happening){.at_ms = sim->now_ms + draw_below(random, draw_chance(random, 30) ? 8000 : 1500), .kind = POD_STARTS, .to = i});
        if (draw_chance(random, 8)) {
            sim->fatal = true;
            uint64_t dies = sim->now_ms + 1500 + draw_below(random, 20000);
            push(sim, (Happening){.at_ms = dies, .kind = POD_DIES, .to = i, .life = 1});
        }
    }
    uint64_t end_ms = sim->now_ms + 600000;
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
    if (!sim->violation && !sim->fatal && sim->exit_code != 0)
        violated(sim, "the job failed though nothing was broken");
    const char *violation = sim->violation;
    while (sim->heap_count)
        free(pop(sim).frame);
    free(sim->heap);
    free(sim->actions.items);
    sched_core_free(sim->core);
    placement_free(sim->config.placement);
    free(sim);
    return violation;
}

int main(int argc, char **argv) {
    uint64_t first = 0, count = 10000;
    bool verbose = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            first = strtoull(argv[++i], NULL, 0), count = 1;
        else if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc)
            count = strtoull(argv[++i], NULL, 0);
        else if (strcmp(argv[i], "--first") == 0 && i + 1 < argc)
            first = strtoull(argv[++i], NULL, 0);
        else if (strcmp(argv[i], "--verbose") == 0)
            verbose = true;
        else {
            fprintf(stderr, "usage: control_sim [--seed N | --seeds N [--first N]] [--verbose]\n");
            return 2;
        }
    }
    job.tensors_count = 2;
    for (uint32_t i = 0; i < job.tensors_count; i++) {
        snprintf(job.tensors[i].path, sizeof job.tensors[i].path, "/t%u", i);
        expected[i].hash = i + 1;
    }
    uint64_t failures = 0, first_failure = 0;
    for (uint64_t seed = first; seed < first + count; seed++) {
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
