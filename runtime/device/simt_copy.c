/* Copies to shared memory behind a thread's back. They read their source and own their destination from where they are issued to where the thread
 * waits for their group: who touches the one or changes the other in between is stopped. The bytes arrive at the wait, the latest that hardware may
 * take. */
#include "runtime/device/simt.h"

#include <stdlib.h>
#include <string.h>

static SimtLane *lane_of(CtaThread *thread, SimtMemory **memory) {
    CtaRunner *runner = thread->cta->runner;
    *memory = runner->setup.context;
    return &(*memory)->lanes[thread - runner->thread];
}

static SimtCopy *add_copy(SimtLane *lane) {
    if (lane->copy_count == lane->copy_capacity) {
        lane->copy_capacity = lane->copy_capacity * 2 + 16;
        lane->copies = realloc(lane->copies, (size_t)lane->copy_capacity * sizeof *lane->copies);
        if (lane->copies == NULL)
            abort();
    }
    return &lane->copies[lane->copy_count++];
}

void phb_simt_copy(PhbSimtThread *code, void *to, const void *from, int32_t bytes, int32_t valid, int32_t tensor, uint64_t site) {
    CtaThread *thread = (CtaThread *)code;
    SimtMemory *memory;
    SimtLane *lane = lane_of(thread, &memory);
    int size = (int)memory->tensors[tensor].size;
    if (valid < 0 || valid > bytes || valid % size != 0 || (uintptr_t)to % (uintptr_t)bytes != 0 ||
        (valid > 0 && (uintptr_t)from % (uintptr_t)bytes != 0))
        thread_trap(thread, site, "thread %d of CTA %d copies %d bytes, of which %d are there, between addresses that are no multiples of it",
            (int)code->thread, thread->cta->rank, bytes, valid);
    SimtCopy *copy = add_copy(lane);
    *copy = (SimtCopy){.to = to, .from = from, .bytes = bytes, .valid = valid, .tensor = tensor, .group = lane->groups, .site = site};
    for (int at = 0; at < bytes; at += size) {
        uint64_t bits = at < valid ? simt_access(thread, (char *)(uintptr_t)from + at, size, ACCESS_READ, tensor, site) : 0;
        memcpy(copy->data + at, &bits, (size_t)size);
        simt_access(thread, (char *)to + at, size, ACCESS_COPY, PHB_SHARED_UNNAMED, site);
    }
}

void phb_simt_copy_commit(PhbSimtThread *code) {
    SimtMemory *memory;
    lane_of((CtaThread *)code, &memory)->groups++;
}

static void land(CtaThread *thread, SimtMemory *memory, const SimtCopy *copy) {
    int size = (int)memory->tensors[copy->tensor].size;
    for (int at = 0; at < copy->bytes; at += size) {
        uint64_t bits = 0;
        if (at < copy->valid)
            bits = simt_access(thread, (char *)(uintptr_t)copy->from + at, size, ACCESS_READ, copy->tensor, copy->site);
        if (!memory->weak && memcmp(copy->data + at, &bits, (size_t)size) != 0)
            thread_trap(thread, copy->site, "thread %d of CTA %d has not waited for this copy, and byte %d of its source has been changed",
                (int)thread->code.thread, thread->cta->rank, at);
        simt_access(thread, copy->to + at, size, ACCESS_LAND, PHB_SHARED_UNNAMED, copy->site);
        memcpy(copy->to + at, &bits, (size_t)size);
    }
}

void phb_simt_copy_wait(PhbSimtThread *code, int32_t left) {
    CtaThread *thread = (CtaThread *)code;
    SimtMemory *memory;
    SimtLane *lane = lane_of(thread, &memory);
    int done = 0;
    while (done < lane->copy_count && lane->copies[done].group + left < lane->groups)
        land(thread, memory, &lane->copies[done++]);
    lane->copy_count -= done;
    memmove(lane->copies, lane->copies + done, (size_t)lane->copy_count * sizeof *lane->copies);
}

bool simt_lanes_open(SimtMemory *memory, int count) {
    if (count > memory->lane_count) {
        SimtLane *lanes = realloc(memory->lanes, (size_t)count * sizeof *lanes);
        if (lanes == NULL)
            return false;
        memset(lanes + memory->lane_count, 0, (size_t)(count - memory->lane_count) * sizeof *lanes);
        memory->lanes = lanes;
        memory->lane_count = count;
    }
    return true;
}

void simt_lanes_close(SimtMemory *memory) {
    for (int i = 0; i < memory->lane_count; i++)
        free(memory->lanes[i].copies);
    free(memory->lanes);
}

void simt_lanes_begin(SimtMemory *memory) {
    for (int i = 0; i < memory->lane_count; i++)
        memory->lanes[i] = (SimtLane){.copies = memory->lanes[i].copies, .copy_capacity = memory->lanes[i].copy_capacity};
}

void simt_copies_end(CtaThread *thread) {
    SimtMemory *memory;
    const SimtLane *lane = lane_of(thread, &memory);
    if (lane->copy_count > 0)
        thread_trap(
            thread, lane->copies[0].site, "thread %d of CTA %d ends without waiting for this copy", (int)thread->code.thread, thread->cta->rank);
}
