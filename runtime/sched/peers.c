/* Which tensors' tiles pods fetch from one another, and how they reach each other. */
#include "runtime/sched/core_state.h"

#include <string.h>

/* Pods of one host read through one page cache, which nothing beats. */
static bool same_host(const Pod *a, const Pod *b) {
    const char *colon = strrchr(a->tile_endpoint, ':');
    size_t length = colon ? (size_t)(colon + 1 - a->tile_endpoint) : sizeof a->tile_endpoint;
    return strncmp(a->tile_endpoint, b->tile_endpoint, length) == 0;
}

/* What all pods agree on, whatever memory each has. Cards take tiles from files alone. */
void sched_choose_fetched(SchedCore *core) {
    const SchedConfig *config = &core->config;
    bool apart = false;
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

void sched_name_peers(const SchedCore *core, const Pod *pod, Peers *peers) {
    peers->token = pod->token;
    peers->node = (uint32_t)(pod - core->pods);
    peers->placement = (uint8_t)core->config.placement->policy;
    peers->fetched = core->fetched;
    peers->peers_count = core->lane_count;
    for (uint32_t i = 0; i < core->lane_count; i++) {
        memset(&peers->peers[i], 0, sizeof peers->peers[i]);
        if (!same_host(pod, &core->pods[i]) && sched_pod_live(&core->pods[i]))
            memcpy(peers->peers[i].endpoint, core->pods[i].tile_endpoint, sizeof peers->peers[i].endpoint);
        memcpy(peers->peers[i].node, core->pods[i].node, sizeof peers->peers[i].node);
    }
}
