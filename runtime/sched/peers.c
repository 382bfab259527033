/* Which tensors' tiles pods fetch from one another, and how they reach each other. */
#include "runtime/net/endpoint.h"
#include "runtime/sched/core_state.h"

#include <string.h>

/* Pods of one host read through one page cache, which nothing beats. */
static bool same_host(const Pod *a, const Pod *b) {
    return endpoints_share_host(a->tile_endpoint, b->tile_endpoint);
}

/* What all pods agree on, whatever memory each has. Cards take tiles from files alone. */
void sched_choose_fetched(SchedCore *core) {
    const SchedConfig *config = &core->config;
    bool apart = false;
    if (config->course) {
        uint64_t least = UINT64_MAX;
        for (uint32_t i = 0; i < core->pod_count; i++)
            if (core->pods[i].lane != NO_LANE && core->pods[i].memory < least)
                least = core->pods[i].memory;
        config->fetched(config->context, (int64_t)least);
        return;
    }
    core->fetched = config->fetched ? UINT64_MAX : 0;
    for (uint32_t i = 0; i < core->lane_count && core->fetched; i++) {
        const Pod *pod = &core->pods[i];
        apart |= !same_host(pod, &core->pods[0]);
        if (pod->class == CLASS_GPU)
            core->fetched = 0;
        else if (i == 0 || pod->memory != core->pods[i - 1].memory)
            core->fetched &= config->fetched(config->context, (int64_t)pod->memory);
    }
    if (!apart)
        core->fetched = 0;
}

/* Of a course: every pod with a lane by its number, for what lives there is nowhere else. */
static void name_lanes(const SchedCore *core, const Pod *pod, Peers *peers) {
    peers->token = pod->token;
    peers->node = pod->lane;
    peers->placement = (uint8_t)core->config.placement->policy;
    peers->fetched = 0;
    peers->peers_count = core->lane_count;
    memset(peers->peers, 0, core->lane_count * sizeof peers->peers[0]);
    for (uint32_t i = 0; i < core->pod_count; i++) {
        const Pod *other = &core->pods[i];
        if (other->lane == NO_LANE)
            continue;
        if (other != pod)
            memcpy(peers->peers[other->lane].endpoint, other->tile_endpoint, sizeof other->tile_endpoint);
        peers->peers[other->lane].near = same_host(pod, other);
        memcpy(peers->peers[other->lane].node, other->node, sizeof other->node);
    }
}

void sched_name_peers(const SchedCore *core, const Pod *pod, Peers *peers) {
    if (core->config.course) {
        name_lanes(core, pod, peers);
        return;
    }
    peers->token = pod->token;
    peers->node = (uint32_t)(pod - core->pods);
    peers->placement = (uint8_t)core->config.placement->policy;
    peers->fetched = core->fetched;
    peers->peers_count = core->lane_count;
    for (uint32_t i = 0; i < core->lane_count; i++) {
        memset(&peers->peers[i], 0, sizeof peers->peers[i]);
        peers->peers[i].near = same_host(pod, &core->pods[i]);
        if (&core->pods[i] != pod && sched_pod_live(&core->pods[i]))
            memcpy(peers->peers[i].endpoint, core->pods[i].tile_endpoint, sizeof peers->peers[i].endpoint);
        memcpy(peers->peers[i].node, core->pods[i].node, sizeof peers->peers[i].node);
    }
}
