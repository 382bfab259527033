/* Rounds of a job of several steps: one after another, each dealt as a job of its own by its own placement. Units stay where that puts them, so that every pod
 * knows who has what an earlier round wrote. What lives in pods is lost with one of them: then all begin again with what is on storage. */
#include "runtime/sched/core_state.h"

#include <string.h>

enum { MOST_LOST = 3 }; /* in one round, one after another: then it is the round's fault */

bool sched_last_round(const SchedCore *core) {
    return !core->config.course || core->round + 1 == core->config.rounds;
}

/* All its units are free. */
static void enter_round(SchedCore *core, uint64_t round) {
    SchedConfig *config = &core->config;
    core->round = round;
    config->units = config->round(config->context, round, &config->placement);
    memset(core->units, 0, config->units * sizeof core->units[0]);
    memset(core->suspicion, 0, config->units * sizeof core->suspicion[0]);
    core->units_done = core->on_disk = 0;
    placement_deal(config->placement, core->lane_count);
    sched_deal_anew(core);
}

void sched_next_rounds(SchedCore *core, uint64_t now_ms) {
    while (!sched_last_round(core) && core->units_done == core->config.units) {
        core->earlier += core->config.units;
        enter_round(core, core->round + 1);
        sched_deal(core, now_ms);
    }
}

/* Lanes are those of the pods that can work now; what they hold is theirs no more. */
static void share_out(SchedCore *core) {
    core->lane_count = 0;
    for (uint32_t i = 0; i < core->pod_count; i++) {
        Pod *pod = &core->pods[i];
        pod->batch_base += pod->batch_count;
        pod->batch_count = pod->done = 0;
        pod->units = pod->fresh = pod->asked = 0;
        pod->counted = pod->computed;
        pod->lane = NO_LANE;
        pod->changed = true;
        if (pod->stage != STAGE_READY)
            continue;
        pod->lane = core->lane_count;
        core->lanes[core->lane_count++] = (Lane){.owned = true};
    }
}

void sched_begin_rounds(SchedCore *core) {
    share_out(core);
    enter_round(core, 0);
}

bool sched_round_is_to_blame(SchedCore *core) {
    core->lost_there = core->lost_there > 0 && core->lost_round == core->round ? core->lost_there + 1 : 1;
    core->lost_round = core->round;
    return core->lost_there == MOST_LOST;
}

void sched_begin_again(SchedCore *core, SchedActions *actions) {
    core->plan_epoch++;
    core->earlier = 0;
    share_out(core);
    if (core->lane_count == 0)
        return; /* until a pod comes */
    enter_round(core, 0);
    sched_choose_fetched(core);
    sched_act_log(actions, "the job begins again with %u pod%s", core->lane_count, core->lane_count == 1 ? "" : "s");
}
