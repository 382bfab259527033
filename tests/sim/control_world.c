#include "tests/sim/control_world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Welcome sim_job;
WireSeen sim_expected[PHB_MAX_PARAMS];
static WireMessage inbox, outbox;

/* ---- chance ---- */

uint64_t draw(Random *random) {
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t draw_below(Random *random, uint64_t bound) {
    return draw(random) % bound;
}

bool draw_chance(Random *random, unsigned percent) {
    return draw_below(random, 100) < percent;
}

/* ---- time ---- */

void say(const Sim *sim, const char *format, ...) {
    if (!sim->verbose)
        return;
    printf("%8llu ms  ", (unsigned long long)sim->now_ms);
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

void violated(Sim *sim, const char *rule) {
    if (!sim->violation)
        sim->violation = rule;
    say(sim, "VIOLATION: %s", rule);
}

static bool earlier(const Happening *a, const Happening *b) {
    return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->order < b->order;
}

void push(Sim *sim, Happening happening) {
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

Happening pop(Sim *sim) {
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

void later(Sim *sim, uint64_t delay_ms, HappeningKind kind, int to) {
    push(sim, (Happening){.at_ms = sim->now_ms + delay_ms,
                  .kind = kind,
                  .to = to,
                  .life = to >= 0 ? sim->pods[to].life : sim->sched_line,
                  .turn = to >= 0 ? sim->pods[to].turn : 0});
}

/* ---- the network: every frame goes through the codec ---- */

static uint64_t connection_of(const Sim *sim, int pod) {
    return (uint64_t)(pod + 1) << 32 | sim->pods[pod].life << 8 | sim->pods[pod].line;
}

static int pod_of(uint64_t connection) {
    return (int)(connection >> 32) - 1;
}

static void deliver(Sim *sim, int from, int to) {
    int index = from >= 0 ? from : to, way = from >= 0;
    SimPod *pod = &sim->pods[index];
    bool well = sim->now_ms >= sim->heal_ms;
    bool drop = !well && pod->dropped[way] < sim->drop_run && draw_chance(&sim->random, sim->drop);
    pod->dropped[way] = drop ? pod->dropped[way] + 1 : 0;
    bool cut = sim->now_ms < pod->broken_until_ms[way], spoilt = drop && !cut && draw_chance(&sim->random, 20);
    int copies = spoilt ? 1 : drop || cut ? 0 : !well && draw_chance(&sim->random, sim->repeat) ? 2 : 1;
    say(sim, "%s %d -> %d%s", wire_type_name(outbox.header.type), from, to, spoilt ? " (spoilt)" : copies ? "" : " (lost)");
    for (int i = 0; i < copies; i++) {
        size_t size = wire_size(&outbox);
        uint8_t *frame = malloc(size);
        if (!frame)
            abort();
        wire_encode(&outbox, NULL, 0, frame);
        if (spoilt)
            frame[draw_below(&sim->random, size)] ^= (uint8_t)(1 << draw_below(&sim->random, 8));
        push(sim, (Happening){.at_ms = sim->now_ms + 1 + (well ? 0 : draw_below(&sim->random, sim->delay_ms + 1)),
                      .kind = FRAME_ARRIVES,
                      .to = to,
                      .connection = connection_of(sim, index),
                      .life = to >= 0 ? pod->life : sim->sched_line,
                      .spoilt = spoilt,
                      .frame = frame,
                      .length = size});
    }
}

/* ---- the scheduler's shell ---- */

static bool is_wrong(const Sim *sim, int pod, uint64_t unit) {
    return pod == sim->wrong_pod && unit % sim->wrong_every == 0;
}

/* Of what a batch stores, as the shell of a pod would add it up. */
static uint64_t checksum_of(const Sim *sim, int pod, const WireBatch *batch, uint64_t count) {
    uint64_t sum = 0;
    for (uint64_t i = 0, unit = batch->first; i < count; i++, unit += batch->step)
        sum += (unit + 1) * 1000003 + is_wrong(sim, pod, unit);
    return sum;
}

static int pod_of_node(const char *node) {
    return atoi(node + strlen("node"));
}

static uint64_t life_of(uint64_t connection) {
    return connection >> 8 & 0xffffff;
}

static void note_given(Sim *sim, uint64_t connection, const SchedState *state) {
    bool *given = sim->pods[pod_of(connection)].given[life_of(connection) % LIVES];
    for (uint32_t b = 0; b < state->batches_count; b++)
        for (uint64_t i = 0; i < state->batches[b].count; i++)
            given[state->batches[b].first + i * state->batches[b].step] = true;
}

static void sched_send(Sim *sim, const SchedAction *action) {
    int pod = pod_of(action->connection);
    if (!sched_compose(sim->core, action, &outbox))
        return;
    bool here = action->connection == connection_of(sim, pod);
    if (action->type == WIRE_WELCOME && here)
        sim->pods[pod].known = true;
    if (action->type == WIRE_SCHED_STATE)
        note_given(sim, action->connection, &outbox.sched_state);
    if (here)
        deliver(sim, SCHEDULER, pod);
}

static void forget(Sim *sim, const SchedAction *action) {
    SimPod *pod = &sim->pods[pod_of(action->connection)];
    bool fenced = sched_fenced(sim->core) > sim->fenced;
    sim->fenced += fenced;
    uint64_t life = life_of(action->connection);
    for (uint64_t unit = 0; fenced && unit < sim->config.units; unit++)
        sim->units[unit].lost_with += pod->given[life % LIVES][unit];
    if (life == pod->life)
        pod->known = false;
}

static void note_slow(Sim *sim, const char *text) {
    unsigned node;
    int end = 0;
    if (sscanf(text, "warning: pod node%u is slow%n", &node, &end) == 1 && end > 0)
        sim->slow |= 1u << node;
}

static void publish(Sim *sim) {
    if (sim->published)
        violated(sim, "published twice");
    sim->published = true;
    sim->in_place = !sim->resumed && !sched_someone_writes(sim->core); /* else what is published is a copy */
    for (uint64_t tile = 0; tile < sim->tiles; tile++)
        if (!sim->units[tile].on_disk) {
            say(sim, "tile %llu is not", (unsigned long long)tile);
            violated(sim, "published before every unit was right and on the disk");
        }
    for (uint64_t unit = 0; unit < sim->config.units && !sim->config.course; unit++)
        if (audit_picks(&sim->config.audit, unit)) {
            if (sim->units[unit].wrong)
                violated(sim, "an audited unit is published wrong");
            if (__builtin_popcount(sim->units[unit].computed) < 2)
                violated(sim, "published before another pod had computed what is audited");
        }
    later(sim, draw_below(&sim->random, 200), PUBLISH_ENDS, SCHEDULER);
}

static void finish(Sim *sim, const SchedAction *action) {
    say(sim, "scheduler ends with %d: %s", action->exit_code, action->text);
    sim->finished = true;
    sim->exit_code = action->exit_code;
    memcpy(sim->text, action->text, sizeof sim->text);
    if ((action->exit_code == 0) != sim->published)
        violated(sim, "the exit code does not say whether outputs were published");
    if (sched_recovery(sim->core)->detect_ms > sim->config.dead_ms * 3 / 2)
        violated(sim, "a loss was noticed late");
}

static void sched_event(Sim *sim, const SchedEvent *event) {
    if (sim->finished || !sim->core)
        return;
    sched_step(sim->core, event, sim->now_ms, &sim->actions);
    if (sim->actions.count > sim->actions.capacity)
        violated(sim, "more actions than the bound");
    for (size_t i = 0; i < sim->actions.count; i++) {
        const SchedAction *action = &sim->actions.items[i];
        switch (action->kind) {
        case SCHED_ACTION_SEND:
            sched_send(sim, action);
            break;
        case SCHED_ACTION_FORGET:
            forget(sim, action);
            break;
        case SCHED_ACTION_STORED:
            if (action->checksum != checksum_of(sim, pod_of_node(sched_pod_node(sim->core, action->pod)), &action->batch, action->batch.count))
                violated(sim, "a batch with another one's checksum");
            if (sim->journal_count == MAX_BATCHES)
                violated(sim, "a journal without bounds");
            else
                sim->journal[sim->journal_count++] = action->batch;
            break;
        case SCHED_ACTION_PUBLISH:
            publish(sim);
            break;
        case SCHED_ACTION_LOG:
            say(sim, "scheduler: %s", action->text);
            note_slow(sim, action->text);
            break;
        case SCHED_ACTION_FINISH:
            finish(sim, action);
            break;
        }
    }
}

void sched_start(Sim *sim) {
    sim->core = sched_core_new(&sim->config, sim->now_ms, sim->seed + sim->sched_line);
    if (!sim->core)
        abort();
    sim->fenced = 0;
    sim->brought_down = 0;
    later(sim, 0, TICK, SCHEDULER);
}

/* Of the batches that were stored those are kept whose tiles can be read back: what was in a host's cache alone others do not see. What is audited,
 * each a batch of its own, is done again. */
static void sched_resume(Sim *sim) {
    size_t kept = 0;
    for (size_t b = 0; b < sim->journal_count; b++) {
        const WireBatch *batch = &sim->journal[b];
        bool right = !audit_picks(&sim->config.audit, batch->first);
        for (uint64_t i = 0; i < batch->count; i++)
            right &= sim->units[batch->first + i * batch->step].on_disk;
        if (right)
            sim->journal[kept++] = *batch;
    }
    for (uint64_t tile = 0; tile < sim->tiles; tile++)
        sim->units[tile].computed = sim->units[tile].computed_wrong = 0;
    sim->journal_count = kept;
    sim->config.stored = sim->journal;
    sim->config.stored_count = kept;
    sim->config.epoch++;
    sim->resumed = true;
    say(sim, "the scheduler starts again with %zu batches stored", kept);
    sched_start(sim);
}

static void sched_die(Sim *sim) {
    if (sim->published || sim->finished)
        return; /* what then is to be done its shell knows */
    say(sim, "the scheduler dies");
    sim->harmed = true;
    sched_core_free(sim->core);
    sim->core = NULL;
    sim->sched_line++;
    for (int p = 0; p < sim->pod_count; p++)
        sim->pods[p].known = false;
    later(sim, draw_below(&sim->random, 4000), SCHED_STARTS, SCHEDULER);
}

/* ---- the pods' shells ---- */

static void pod_event(Sim *sim, int index, const AgentEvent *event);

static uint64_t unit_at_work(const SimPod *pod) {
    const Work *work = &pod->work[pod->at_work];
    return work->batch.first + work->next * work->batch.step;
}

static void end_batch(Sim *sim, int index, int place) {
    SimPod *pod = &sim->pods[index];
    Work work = pod->work[place];
    memmove(&pod->work[place], &pod->work[place + 1], (size_t)(--pod->work_count - place) * sizeof work);
    pod->at_work -= pod->at_work > place;
    pod_event(sim, index,
        &(AgentEvent){
            .kind = AGENT_EVENT_BATCH_DONE, .batch = work.number, .units = work.next, .checksum = checksum_of(sim, index, &work.batch, work.next)});
}

/* Batches end with what has begun. */
static void pod_drain(Sim *sim, int index) {
    SimPod *pod = &sim->pods[index];
    pod->draining = true;
    for (int w = pod->work_count - 1; w >= 0; w--)
        if (pod->doing == DOING_NOTHING || w != pod->at_work)
            end_batch(sim, index, w);
}

static void pod_read(Sim *sim, int index) {
    SimPod *pod = &sim->pods[index];
    bool here = !sim->config.course || rounds_read(sim, index, unit_at_work(pod));
    pod->doing = here ? DOING_COMPUTE : DOING_READ;
    if (here)
        later(sim, 1 + draw_below(&sim->random, 2 * pod->unit_ms), UNIT_ENDS, index);
}

static void pod_work(Sim *sim, int index) {
    SimPod *pod = &sim->pods[index];
    if (!pod->alive || pod->doing != DOING_NOTHING || pod->work_count == 0)
        return;
    pod->at_work = sim->poison != UINT64_MAX || draw_chance(&sim->random, 70) ? 0 : (int)draw_below(&sim->random, (uint64_t)pod->work_count);
    pod_read(sim, index);
}

/* Of the unit at work; NULL: it stays in memory. */
static SimUnit *tile_at_work(Sim *sim, SimPod *pod) {
    return sim->config.course ? rounds_tile(sim, pod->round, unit_at_work(pod)) : &sim->units[unit_at_work(pod)];
}

/* A slice is written when there is a lease for it, and then to its end, however long that takes. */
static void pod_store(Sim *sim, int index) {
    SimPod *pod = &sim->pods[index];
    if (tile_at_work(sim, pod) != NULL && sim->now_ms >= agent_lease_end(&pod->agent)) {
        pod->doing = DOING_WAIT;
        return;
    }
    if (pod->work[pod->at_work].batch.audit || tile_at_work(sim, pod) == NULL) {
        pod->doing = DOING_STORE;
        later(sim, 1, STORE_ENDS, index);
        return;
    }
    if (!pod->known && sim->core && !sim->resumed)
        violated(sim, "a pod that was given up writes");
    if (sim->published && sim->in_place)
        violated(sim, "what is published is written to");
    pod->doing = DOING_STORE;
    later(sim, 1 + draw_below(&sim->random, 1 + pod->unit_ms / 4), STORE_ENDS, index);
}

static void unit_stored(Sim *sim, int index, uint64_t unit, SimUnit *tiles) {
    SimPod *pod = &sim->pods[index];
    tiles->computed |= 1u << index;
    tiles->computed_wrong |= (uint32_t)is_wrong(sim, index, unit) << index;
    if (pod->work[pod->at_work].batch.audit)
        return;
    tiles->stored |= 1u << index;
    bool may_be_copy = sim->config.speculate && (tiles->stored & sim->slow) != 0;
    if (tiles->runs++ > 0 && !sim->harmed && !sim->resumed && !may_be_copy && !sim->config.course)
        violated(sim, "a unit ran twice");
    tiles->cached[index] = ++sim->order;
    tiles->wrong = is_wrong(sim, index, unit);
}

static void pod_stored(Sim *sim, int index) {
    SimPod *pod = &sim->pods[index];
    Work *work = &pod->work[pod->at_work];
    uint64_t unit = unit_at_work(pod);
    SimUnit *tiles = tile_at_work(sim, pod);
    pod->doing = DOING_NOTHING;
    if (tiles != NULL)
        unit_stored(sim, index, unit, tiles);
    if (sim->config.course)
        rounds_computed(sim, index, unit);
    pod->units++;
    pod_event(sim, index, &(AgentEvent){.kind = AGENT_EVENT_PROGRESS, .units = pod->units});
    if (++work->next == work->batch.count || pod->draining)
        end_batch(sim, index, pod->at_work);
    pod_work(sim, index);
}

static void pod_flushed(Sim *sim, int index) {
    for (uint64_t tile = 0; tile < sim->tiles; tile++) {
        SimUnit *tiles = &sim->units[tile];
        tiles->on_disk |= tiles->cached[index] != 0 && tiles->cached[index] <= sim->pods[index].flush_order;
    }
    pod_event(sim, index, &(AgentEvent){.kind = AGENT_EVENT_FLUSHED});
}

static void take_peers(Sim *sim, int index) {
    SimPod *pod = &sim->pods[index];
    if (sim->config.course)
        rounds_join(sim, index, &inbox.peers);
    else if (inbox.peers.fetched != FETCHED || inbox.peers.peers_count == 0)
        violated(sim, "other peers than were sent");
    pod->has_peers = true;
}

static void take_batch(Sim *sim, int index, const AgentAction *action) {
    SimPod *pod = &sim->pods[index];
    if (inbox.sched_state.peers && !pod->has_peers)
        violated(sim, "a pod begins before it knows its peers");
    if (pod->draining || pod->work_count == WIRE_BATCH_WINDOW) {
        violated(sim, "more batches than the window, or to who leaves");
        return;
    }
    uint64_t units = sim->config.course ? rounds_units(sim, action->batch.round) : sim->config.units;
    if (action->batch.count == 0 || action->batch.first + (action->batch.count - 1) * action->batch.step >= units) {
        violated(sim, "a unit beyond the last");
        return;
    }
    if (sim->config.course && !rounds_enter(sim, index, &action->batch))
        return;
    pod->work[pod->work_count++] = (Work){.batch = action->batch, .number = action->batch_number};
    pod_work(sim, index);
}

static void pod_exit(Sim *sim, int index, const AgentAction *action) {
    SimPod *pod = &sim->pods[index];
    say(sim, "pod %d ends with %d: %s", index, action->exit_code, action->text);
    pod->alive = false;
    if (action->next)
        push(sim, (Happening){.at_ms = sim->now_ms + 1, .kind = POD_STARTS, .to = index});
    else if (action->exit_code != 0 && pod->is_restarted && !sim->finished)
        push(sim, (Happening){.at_ms = sim->now_ms + 10 + draw_below(&sim->random, 2000), .kind = POD_STARTS, .to = index});
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
        take_peers(sim, index);
        break;
    case AGENT_ACTION_RUN:
        take_batch(sim, index, action);
        break;
    case AGENT_ACTION_DRAIN:
        pod_drain(sim, index);
        break;
    case AGENT_ACTION_FLUSH:
        pod->flush_order = sim->order;
        later(sim, 1 + draw_below(&sim->random, 100), FLUSH_ENDS, index);
        break;
    case AGENT_ACTION_EXIT:
        pod_exit(sim, index, action);
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
    if (pod->alive)
        return;
    SimPod before = *pod;
    *pod = (SimPod){.alive = true, .life = before.life + 1, .unit_ms = before.unit_ms, .is_restarted = before.is_restarted};
    memcpy(pod->given, before.given, sizeof pod->given);
    memset(pod->given[pod->life % LIVES], 0, sizeof pod->given[0]);
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

/* Where it is in the middle of a store, that is not whole. */
static void pod_die(Sim *sim, int index, bool with_host) {
    SimPod *pod = &sim->pods[index];
    say(sim, "%s %d dies", with_host ? "the host of pod" : "pod", index);
    sim->harmed = true;
    for (uint64_t tile = 0; with_host && tile < sim->tiles; tile++)
        sim->units[tile].cached[index] = 0;
    pod->alive = false;
    if (pod->is_restarted)
        push(sim, (Happening){.at_ms = sim->now_ms + 10 + draw_below(&sim->random, 4000), .kind = POD_STARTS, .to = index});
}

/* The unit is computed, where that does not bring the pod down. */
static void unit_ends(Sim *sim, int index) {
    SimPod *pod = &sim->pods[index];
    if (pod->failed)
        return;
    if (unit_at_work(pod) != sim->poison || pod->work[pod->at_work].batch.round != sim->poison_round) {
        pod_store(sim, index);
        return;
    }
    bool counts =
        !sim->config.speculate && (!sim->config.course || (sim->calm && !sim->some_leave)); /* copies are under way; other losses come between */
    if (pod->known && sim->brought_down++ == 3 && counts)
        violated(sim, "a fourth pod is given what three died of");
    pod_die(sim, index, false);
}

/* ---- what happens ---- */

static void arrive(Sim *sim, Happening *happening) {
    const uint8_t *bulk;
    size_t bulk_length;
    bool fine = wire_decode(happening->frame, happening->length, &inbox, &bulk, &bulk_length) == WIRE_OK;
    if (fine == happening->spoilt)
        violated(sim, fine ? "a frame is taken that has changed on its way" : "a frame that was encoded does not decode");
    else if (!fine)
        say(sim, "dropped");
    else if (happening->to == SCHEDULER)
        sched_event(sim, &(SchedEvent){.kind = SCHED_EVENT_MESSAGE, .connection = happening->connection, .message = &inbox});
    else if (happening->connection == connection_of(sim, happening->to))
        pod_event(sim, happening->to, &(AgentEvent){.kind = AGENT_EVENT_MESSAGE, .message = &inbox});
    free(happening->frame);
}

static void tick(Sim *sim, int to) {
    later(sim, TICK_MS, TICK, to);
    if (to == SCHEDULER) {
        sched_event(sim, &(SchedEvent){.kind = SCHED_EVENT_TICK});
        return;
    }
    pod_event(sim, to, &(AgentEvent){.kind = AGENT_EVENT_TICK});
    const SimPod *pod = &sim->pods[to];
    if (pod->alive && pod->doing == DOING_WAIT && !pod->failed)
        pod_store(sim, to);
    else if (pod->alive && pod->doing == DOING_READ && !pod->failed)
        pod_read(sim, to);
}

static bool is_meant_for(const Sim *sim, const Happening *happening) {
    if (happening->to == SCHEDULER)
        return happening->life == sim->sched_line;
    const SimPod *pod = &sim->pods[happening->to];
    if ((happening->kind == UNIT_ENDS || happening->kind == STORE_ENDS) && happening->turn != pod->turn)
        return false;
    return happening->kind == POD_STARTS || (pod->alive && (happening->life == 0 || happening->life == pod->life));
}

/* Between processes: nothing of it waits for the pod. */
static bool is_from_outside(HappeningKind kind) {
    return kind == POD_STARTS || kind == POD_DIES || kind == HOST_DIES || kind == POD_CONNECTS || kind == LINK_BREAKS;
}

void happen(Sim *sim, Happening *happening) {
    int to = happening->to;
    SimPod *pod = to >= 0 ? &sim->pods[to] : NULL;
    if (!is_meant_for(sim, happening)) {
        free(happening->frame);
        return;
    }
    if (pod && sim->now_ms < pod->sleeps_until_ms && !is_from_outside(happening->kind)) {
        happening->at_ms = pod->sleeps_until_ms;
        push(sim, *happening);
        return;
    }
    switch (happening->kind) {
    case FRAME_ARRIVES:
        arrive(sim, happening);
        break;
    case TICK:
        tick(sim, to);
        break;
    case UNIT_ENDS:
        unit_ends(sim, to);
        break;
    case STORE_ENDS:
        if (!pod->failed)
            pod_stored(sim, to);
        break;
    case PROOF_READY:
        pod_event(sim, to, &(AgentEvent){.kind = AGENT_EVENT_PROVED, .seen = sim_expected, .seen_count = sim_job.tensors_count});
        break;
    case FLUSH_ENDS:
        if (!pod->failed)
            pod_flushed(sim, to);
        break;
    case PUBLISH_ENDS:
        sched_event(sim, &(SchedEvent){.kind = SCHED_EVENT_PUBLISHED, .ok = true});
        break;
    case POD_STARTS:
        pod_start(sim, to);
        break;
    case POD_DIES:
    case HOST_DIES:
        pod_die(sim, to, happening->kind == HOST_DIES);
        break;
    case POD_SLEEPS:
        say(sim, "pod %d sleeps for %llu ms", to, (unsigned long long)happening->span_ms);
        sim->harmed = true;
        pod->sleeps_until_ms = sim->now_ms + happening->span_ms;
        break;
    case POD_LEAVES:
        sim->some_leave = true;
        pod_event(sim, to, &(AgentEvent){.kind = AGENT_EVENT_STOP, .text = "the user"});
        break;
    case POD_FAILS:
        sim->harmed = pod->failed = true;
        pod_event(sim, to, &(AgentEvent){.kind = AGENT_EVENT_FAILED, .text = "no space left on device"});
        break;
    case POD_CONNECTS:
        sim->harmed = true;
        pod->line++;
        break;
    case LINK_BREAKS:
        say(sim, "%s pod %d nothing comes for %llu ms", happening->way ? "from" : "to", to, (unsigned long long)happening->span_ms);
        sim->harmed = true;
        pod->broken_until_ms[happening->way] = sim->now_ms + happening->span_ms;
        break;
    case SCHED_DIES:
        sched_die(sim);
        break;
    case SCHED_STARTS:
        sched_resume(sim);
        break;
    }
}
