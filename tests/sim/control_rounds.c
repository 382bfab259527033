/* Jobs of several steps in the world of control_sim.c. What a round computes lives in the pods that computed it, the next one reads it there: each
 * unit the one that lies where it lies in the step before, and where there are several steps the neighbours of that one. What no later round computes
 * anew goes to the disk as well. */
#include "tests/sim/control_world.h"

#include <stdlib.h>
#include <string.h>

/* ---- the job ---- */

static const SimStep *step_of(const Sim *sim, uint64_t round) {
    return &sim->steps[round % (uint64_t)sim->step_count];
}

static uint64_t find_round(void *context, uint64_t round, Placement **placement) {
    const SimStep *step = step_of(context, round);
    *placement = step->dealt;
    return (uint64_t)step->problem.units;
}

void rounds_draw(Sim *sim) {
    static const PhbKernel kernel;
    Random *random = &sim->random;
    PlacementPolicy policy = draw_chance(random, 50) ? PLACE_BLOCK : PLACE_ROUND_ROBIN;
    sim->step_count = 1 + (int)draw_below(random, MAX_STEPS);
    sim->config.units = sim->tiles = 0;
    for (int s = 0; s < sim->step_count; s++) {
        SimStep *step = &sim->steps[s];
        int64_t units = 1 + (int64_t)draw_below(random, draw_chance(random, 30) ? 4 : 24);
        int64_t columns = 1 + (int64_t)draw_below(random, (uint64_t)units);
        step->problem = (Problem){.kernel = &kernel, .supers = {columns, units / columns, 1}, .units = columns * (units / columns)};
        step->dealt = placement_new(&step->problem, policy, sim->config.max_pods);
        step->first = sim->tiles;
        sim->tiles += (uint64_t)step->problem.units;
        if ((uint64_t)step->problem.units > sim->config.units)
            sim->config.units = (uint64_t)step->problem.units;
    }
    sim->config.placement = sim->steps[0].dealt;
    sim->config.course = true;
    sim->config.rounds = (uint64_t)sim->step_count * (1 + draw_below(random, 3));
    sim->config.round = find_round;
}

void rounds_free(Sim *sim) {
    for (int s = 0; s < sim->step_count; s++)
        placement_free(sim->steps[s].dealt);
}

uint64_t rounds_units(const Sim *sim, uint64_t round) {
    return (uint64_t)step_of(sim, round)->problem.units;
}

static uint64_t tile_of(const Sim *sim, uint64_t round, uint64_t unit) {
    return step_of(sim, round)->first + unit;
}

SimUnit *rounds_tile(Sim *sim, uint64_t round, uint64_t unit) {
    bool is_last = round + (uint64_t)sim->step_count >= sim->config.rounds;
    return is_last ? &sim->units[tile_of(sim, round, unit)] : NULL;
}

/* ---- a pod among others ---- */

/* Who has what, as this pod works it out. */
static void find_homes(Sim *sim, SimPod *pod, const Peers *peers) {
    for (int s = 0; s < sim->step_count; s++) {
        const SimStep *step = &sim->steps[s];
        Placement *placement = placement_new(&step->problem, (PlacementPolicy)peers->placement, peers->peers_count);
        for (int64_t unit = 0; unit < step->problem.units; unit++) {
            int64_t columns = step->problem.supers[0], at[COORDINATES] = {unit % columns, unit / columns};
            pod->homes[step->first + (uint64_t)unit] = atoi(peers->peers[placement_node(placement, at)].node + strlen("node"));
        }
        placement_free(placement);
    }
}

void rounds_join(Sim *sim, int index, const Peers *peers) {
    SimPod *pod = &sim->pods[index];
    if (peers->fetched != 0 || peers->peers_count == 0 || peers->node >= peers->peers_count || peers->peers[peers->node].endpoint[0] != '\0') {
        violated(sim, "other peers than were sent");
        return;
    }
    pod->joined = (uint64_t)pod->agent.sched_epoch << 32 | pod->agent.plan_epoch;
    pod->round = 0;
    pod->turn++; /* what is under way ends nowhere */
    pod->doing = DOING_NOTHING;
    pod->work_count = pod->at_work = 0;
    memset(pod->kept, 0, sizeof pod->kept);
    find_homes(sim, pod, peers);
}

bool rounds_enter(Sim *sim, int index, const WireBatch *batch) {
    SimPod *pod = &sim->pods[index];
    bool fits =
        pod->joined != 0 && batch->round < sim->config.rounds && batch->round >= pod->round && (batch->round == pod->round || pod->work_count == 0);
    if (!fits)
        violated(sim, "a pod is given a round before the one at work has ended");
    pod->round = fits ? batch->round : pod->round;
    return fits;
}

/* What lives in another pod cannot be had as long as that one is away, or has not heard of the pods that there are now. */
static bool answers(const Sim *sim, int index, int home) {
    const SimPod *pod = &sim->pods[index], *other = &sim->pods[home];
    bool cut = sim->now_ms < other->sleeps_until_ms || sim->now_ms < other->broken_until_ms[0] || sim->now_ms < other->broken_until_ms[1];
    return home == index || (other->alive && !cut && other->joined == pod->joined);
}

bool rounds_read(Sim *sim, int index, uint64_t unit) {
    SimPod *pod = &sim->pods[index];
    if (pod->round == 0)
        return true;
    int64_t units = (int64_t)rounds_units(sim, pod->round), before = (int64_t)rounds_units(sim, pod->round - 1);
    int64_t middle = (int64_t)unit * before / units, reach = sim->step_count > 1;
    for (int64_t read = middle - reach; read <= middle + reach; read++) {
        if (read < 0 || read >= before)
            continue;
        uint64_t tile = tile_of(sim, pod->round - 1, (uint64_t)read);
        int home = pod->homes[tile];
        if (!answers(sim, index, home))
            return false;
        if (sim->pods[home].kept[tile] != pod->round)
            violated(sim, "a round reads what the round before has not computed");
    }
    return true;
}

void rounds_computed(Sim *sim, int index, uint64_t unit) {
    SimPod *pod = &sim->pods[index];
    uint64_t *kept = &pod->kept[tile_of(sim, pod->round, unit)];
    if (pod->homes[tile_of(sim, pod->round, unit)] != index)
        violated(sim, "a unit of a round is computed where nobody looks for it");
    if (*kept > pod->round)
        violated(sim, "a unit ran twice");
    *kept = pod->round + 1;
}
