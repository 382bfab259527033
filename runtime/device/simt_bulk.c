/* Mbarriers, and bulk copies by tensor maps. A copy owns its box in shared memory from its issue on and lands as late as nothing else can go on, or,
 * in orders drawn from a seed, at any time before; a fault that hides behind fast copies shows. */
#include "runtime/device/simt.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_MISSING = (1 << 20) - 1, BOX_ALIGN = 128, BASE_ALIGN = 16, CHUNK_SHIFT = 4, LINE_SHIFT = 7, MOST_BOX = 256 };

static SimtMemory *memory_of(const CtaRunner *runner) {
    return runner->setup.context;
}

static SimtLane *lane_of(const CtaThread *thread) {
    return &memory_of(thread->cta->runner)->lanes[thread - thread->cta->runner->thread];
}

/* ---- mbarriers ---- */

static SimtMbarrier *find_mbarrier(CtaThread *thread, const void *address, uint64_t site) {
    SimtMemory *memory = memory_of(thread->cta->runner);
    for (uint32_t i = 0; i < memory->mbarrier_count; i++)
        if (memory->mbarriers[i].address == address)
            return &memory->mbarriers[i];
    thread_trap(thread, site, "thread %d of CTA %d names an mbarrier at byte %" PRId64 " of shared memory, where there is none",
        (int)thread->code.thread, thread->cta->rank, (const char *)address - thread->cta->shared);
}

static void end_phase(SimtMbarrier *mbarrier) {
    Cta *cta = mbarrier->cta;
    SimtMemory *memory = memory_of(cta->runner);
    if (mbarrier->arrived < mbarrier->wanted || mbarrier->missing != 0)
        return;
    mbarrier->arrived = 0;
    mbarrier->phase++;
    for (int t = 0; t < cta->runner->setup.threads; t++) {
        CtaThread *thread = &cta->threads[t];
        if (thread->state == THREAD_IN_MBARRIER && lane_of(thread)->waits_for == (uint32_t)(mbarrier - memory->mbarriers))
            cta_wake(thread);
    }
}

static void make_mbarrier(CtaThread *thread, char *address, int arrivals, uint64_t site) {
    SimtMemory *memory = memory_of(thread->cta->runner);
    SimtMbarrier *mbarrier = memory->mbarriers;
    while (mbarrier < memory->mbarriers + memory->mbarrier_count && mbarrier->address != address)
        mbarrier++;
    if (mbarrier == memory->mbarriers + SIMT_MOST_MBARRIERS)
        thread_trap(thread, site, "the simulator has room for %d mbarriers", SIMT_MOST_MBARRIERS);
    if (mbarrier == memory->mbarriers + memory->mbarrier_count) {
        memory->mbarrier_count++;
        *mbarrier = (SimtMbarrier){.address = address, .cta = thread->cta};
    }
    if (mbarrier->arrived || mbarrier->missing != 0)
        thread_trap(thread, site, "an mbarrier is made again in the middle of a phase");
    mbarrier->wanted = arrivals;
    mbarrier->phase += mbarrier->phase % 2; /* phase 0 again, and later than what others have seen of it */
    simt_access(thread, address, sizeof(int64_t), ACCESS_WRITE, PHB_SHARED_UNNAMED, site);
}

void phb_simt_mbarriers(PhbSimtThread *code, void *first, int32_t count, int32_t arrivals, uint64_t site) {
    CtaThread *thread = (CtaThread *)code;
    Cta *cta = thread->cta;
    phb_cta_barrier(code, "mbarriers", site);
    memory_of(cta->runner)->fenced[cta->rank] = cta->barriers;
    for (int i = 0; code->thread == 0 && i < count; i++)
        make_mbarrier(thread, (char *)first + sizeof(int64_t) * (size_t)i, arrivals, site);
    phb_cta_barrier(code, "mbarriers", site);
}

void phb_simt_mbarrier_expect(PhbSimtThread *code, void *address, int64_t bytes, uint64_t site) {
    CtaThread *thread = (CtaThread *)code;
    SimtMbarrier *mbarrier = find_mbarrier(thread, address, site);
    if (mbarrier->arrived == mbarrier->wanted)
        thread_trap(thread, site, "thread %d of CTA %d arrives at an mbarrier whose phase has had its arrival, and still misses %" PRId64 " bytes",
            (int)code->thread, thread->cta->rank, mbarrier->missing);
    mbarrier->arrived++;
    mbarrier->missing += bytes;
    if (bytes < 0 || mbarrier->missing > MOST_MISSING)
        thread_trap(thread, site, "an mbarrier counts up to %d bytes, and these are %" PRId64, MOST_MISSING, mbarrier->missing);
    end_phase(mbarrier);
}

/* Threads arrive in one order, so that a number says what comes before. */
void phb_simt_mbarrier_arrive(PhbSimtThread *code, void *address, uint64_t site) {
    CtaThread *thread = (CtaThread *)code;
    SimtMbarrier *mbarrier = find_mbarrier(thread, address, site);
    uint32_t releases = ++lane_of(thread)->releases;
    if (mbarrier->arrived == 0)
        mbarrier->releases = releases;
    if (mbarrier->wanted != thread->cta->runner->setup.threads || mbarrier->releases != releases)
        thread_trap(thread, site,
            "thread %d of CTA %d arrives at an mbarrier that is not of all threads, or where others do not with their arrival %d", (int)code->thread,
            thread->cta->rank, (int)releases);
    mbarrier->arrived++;
    end_phase(mbarrier);
}

static void observe(CtaThread *thread, SimtMbarrier *mbarrier) {
    SimtMemory *memory = memory_of(thread->cta->runner);
    lane_of(thread)->seen[mbarrier - memory->mbarriers] = mbarrier->phase;
    if (mbarrier->wanted > 1 && lane_of(thread)->released < mbarrier->releases)
        lane_of(thread)->released = mbarrier->releases;
    uint32_t last = (mbarrier->observations + SIMT_OBSERVED - 1) % SIMT_OBSERVED;
    if (mbarrier->observations > 0 && mbarrier->observed[last].phase == mbarrier->phase)
        return;
    uint32_t next = mbarrier->observations++ % SIMT_OBSERVED;
    mbarrier->observed[next].phase = mbarrier->phase;
    mbarrier->observed[next].barriers = thread->cta->barriers;
}

void phb_simt_mbarrier_wait(PhbSimtThread *code, void *address, int32_t parity, uint64_t site) {
    CtaThread *thread = cta_enter(code, "mbarrier_wait", site);
    SimtMbarrier *mbarrier = find_mbarrier(thread, address, site);
    lane_of(thread)->waits_for = (uint32_t)(mbarrier - memory_of(thread->cta->runner)->mbarriers);
    while ((mbarrier->phase & 1) == ((uint32_t)parity & 1))
        cta_pause(thread, THREAD_IN_MBARRIER);
    observe(thread, mbarrier);
}

bool bulk_is_ordered(const Stamp *stamp, const CtaThread *thread) {
    const SimtMemory *memory = memory_of(thread->cta->runner);
    uint32_t number = stamp->mbarrier - 1u, phase = stamp->barriers;
    const SimtMbarrier *mbarrier = &memory->mbarriers[number];
    if (lane_of(thread)->seen[number] > phase)
        return true;
    for (uint32_t i = 0; mbarrier->cta == thread->cta && i < mbarrier->observations && i < SIMT_OBSERVED; i++)
        if (mbarrier->observed[i].phase > phase && mbarrier->observed[i].barriers < thread->cta->barriers)
            return true;
    return false;
}

/* ---- boxes ---- */

/* Hardware exchanges bits of addresses, so that it matters where the memory lies as a whole. */
char *swizzle_address(const SimtMemory *memory, char *address, int width) {
    uint64_t offset = (uint64_t)(address - memory->shared), chunks = (uint64_t)width >> CHUNK_SHIFT;
    return memory->shared + (offset ^ (offset >> LINE_SHIFT & (chunks - 1)) << CHUNK_SHIFT);
}

typedef struct Box {
    const SimtBulk *bulk;
    const SimtTensor *tensor;
    int index; /* of the tensor */
    int size;  /* of an element */
    bool landing;
} Box;

/* Of element (row, column) of the box; NULL where the tensor has none. */
static char *find_element(const Box *box, int row, int column) {
    const PhbTensorArg *argument = box->tensor->argument;
    int rank = box->tensor->rank;
    int64_t at[PHB_MAX_RANK], line = 0;
    for (int axis = 0; axis < rank; axis++) {
        at[axis] = box->bulk->coordinates[rank - 1 - axis];
        at[axis] += axis == rank - 1 ? column : axis == box->bulk->map->row_axis ? row : 0;
        if (at[axis] < 0 || at[axis] >= argument->extent[axis])
            return NULL;
        line = axis == rank - 1 ? line : line * argument->extent[axis] + at[axis];
    }
    return (char *)argument->base + line * argument->pitch + at[rank - 1] * box->size;
}

static char *find_shared(const Box *box, int at) {
    return swizzle_address(memory_of(box->bulk->thread->cta->runner), box->bulk->shared + at, box->bulk->map->swizzle);
}

static void load_element(const Box *box, int row, int column) {
    const SimtBulk *bulk = box->bulk;
    CtaThread *thread = bulk->thread;
    SimtMemory *memory = memory_of(thread->cta->runner);
    int at = (row * bulk->map->columns + column) * box->size;
    char *from = find_element(box, row, column), *to = find_shared(box, at);
    uint64_t bits = from ? simt_access(thread, from, box->size, ACCESS_READ, box->index, bulk->site) : 0;
    if (!box->landing)
        memcpy(bulk->data + at, &bits, (size_t)box->size);
    else if (!memory->weak && memcmp(bulk->data + at, &bits, (size_t)box->size) != 0)
        thread_trap(thread, bulk->site, "this copy has not landed, and row %d, column %d of its box has been changed", row, column);
    simt_access(thread, to, box->size, box->landing ? ACCESS_BULK_LAND : ACCESS_BULK_COPY, PHB_SHARED_UNNAMED, bulk->site);
    if (box->landing)
        memcpy(to, &bits, (size_t)box->size);
}

/* What lies outside of the tensor is read, too. */
static void store_element(const Box *box, int row, int column) {
    const SimtBulk *bulk = box->bulk;
    int at = (row * bulk->map->columns + column) * box->size;
    char *to = find_element(box, row, column);
    if (!box->landing) {
        uint64_t bits = simt_access(bulk->thread, find_shared(box, at), box->size, ACCESS_BULK_READ, PHB_SHARED_UNNAMED, bulk->site);
        memcpy(bulk->data + at, &bits, (size_t)box->size);
    }
    if (to)
        simt_access(bulk->thread, to, box->size, box->landing ? ACCESS_LAND : ACCESS_COPY, box->index, bulk->site);
    if (to && box->landing)
        memcpy(to, bulk->data + at, (size_t)box->size);
}

static void copy_box(const Box *box) {
    for (int row = 0; row < box->bulk->map->rows; row++)
        for (int column = 0; column < box->bulk->map->columns; column++)
            (box->bulk->is_store ? store_element : load_element)(box, row, column);
}

static Box box_of(const SimtBulk *bulk, bool landing) {
    const SimtMemory *memory = memory_of(bulk->thread->cta->runner);
    int index = bulk->map->tensor + (bulk->map->planes > 0 ? memory->tensor_count : 0);
    const SimtTensor *tensor = &memory->tensors[index];
    return (Box){bulk, tensor, index, (int)tensor->size, landing};
}

/* What the driver refuses to encode, or the hardware to carry out. */
static void check_box(CtaThread *thread, const Box *box) {
    const PhbTensorMap *map = box->bulk->map;
    const PhbTensorArg *argument = box->tensor->argument;
    const char *broken = NULL;
    if ((uintptr_t)argument->base % BASE_ALIGN != 0 || argument->pitch % BASE_ALIGN != 0)
        broken = "the tensor's base and pitch are multiples of 16 bytes";
    else if (map->rows < 1 || map->columns < 1 || map->rows > MOST_BOX || map->columns > MOST_BOX)
        broken = "a box has 1 to 256 elements along each axis";
    else if ((map->swizzle != 32 && map->swizzle != 64 && map->swizzle != 128) || map->columns * box->size > map->swizzle)
        broken = "a row of a box is as wide as what is swizzled, which is 32, 64 or 128 bytes";
    else if (map->columns * box->size % BASE_ALIGN != 0)
        broken = "a row of a box is a multiple of 16 bytes";
    else if ((box->bulk->shared - thread->cta->shared) % BOX_ALIGN != 0)
        broken = "a box lies at a multiple of 128 bytes";
    else if (map->row_axis < 0 || map->row_axis >= box->tensor->rank - 1)
        broken = "the rows of a box run along one of the tensor's axes, and not the last";
    if (broken != NULL)
        thread_trap(thread, box->bulk->site, "bulk %s '%s': %s", box->bulk->is_store ? "store to" : "copy from", box->tensor->name, broken);
}

static SimtBulk *add_bulk(SimtMemory *memory) {
    if (memory->bulk_count == memory->bulk_capacity) {
        memory->bulk_capacity = memory->bulk_capacity * 2 + 16;
        memory->bulks = realloc(memory->bulks, (size_t)memory->bulk_capacity * sizeof *memory->bulks);
        if (memory->bulks == NULL)
            abort();
    }
    return &memory->bulks[memory->bulk_count++];
}

/* Begins what is said but for the tensor map, and takes the box as it is. */
static void begin_bulk(const SimtBulk *begun, int32_t map, const int32_t *coordinates) {
    CtaThread *thread = begun->thread;
    SimtMemory *memory = memory_of(thread->cta->runner);
    if (map < 0 || map >= memory->threads->map_count)
        thread_trap(thread, begun->site, "thread %d of CTA %d names tensor map %d of %d", (int)thread->code.thread, thread->cta->rank, map,
            memory->threads->map_count);
    SimtBulk *bulk = add_bulk(memory);
    *bulk = *begun;
    bulk->map = &memory->threads->maps[map];
    Box box = box_of(bulk, false);
    check_box(thread, &box);
    memcpy(bulk->coordinates, coordinates, (size_t)box.tensor->rank * sizeof *coordinates);
    bulk->data = new_zeroed((size_t)(bulk->map->rows * bulk->map->columns), (size_t)box.size);
    copy_box(&box);
}

void phb_simt_bulk_copy(PhbSimtThread *code, int32_t map, const int32_t *coordinates, void *to, void *address, uint64_t site) {
    CtaThread *thread = (CtaThread *)code;
    const SimtMbarrier *mbarrier = find_mbarrier(thread, address, site);
    SimtBulk bulk = {.thread = thread, .shared = to, .mbarrier = (uint32_t)(mbarrier - memory_of(thread->cta->runner)->mbarriers), .site = site};
    begin_bulk(&bulk, map, coordinates);
}

/* ---- stores ---- */

void phb_simt_bulk_fence(PhbSimtThread *code) {
    const CtaThread *thread = (CtaThread *)code;
    lane_of(thread)->written = thread->cta->barriers + 1;
}

void phb_simt_bulk_store(PhbSimtThread *code, int32_t map, const int32_t *coordinates, void *from, uint64_t site) {
    CtaThread *thread = (CtaThread *)code;
    SimtBulk bulk = {.thread = thread, .shared = from, .is_store = true, .number = lane_of(thread)->stores++, .site = site};
    begin_bulk(&bulk, map, coordinates);
}

static void end_reading(SimtBulk *bulk) {
    Box box = box_of(bulk, false);
    for (int i = 0; !bulk->has_read && i < bulk->map->rows * bulk->map->columns; i++)
        simt_access(bulk->thread, find_shared(&box, i * box.size), box.size, ACCESS_BULK_READ_DONE, PHB_SHARED_UNNAMED, bulk->site);
    bulk->has_read = true;
}

static bool has_stores(const SimtMemory *memory, const CtaThread *thread) {
    bool has = false;
    for (int i = 0; !has && i < memory->bulk_count; i++)
        has = memory->bulks[i].thread == thread && memory->bulks[i].is_store;
    return has;
}

/* What has been read lands as late as it may. */
void phb_simt_bulk_store_wait(PhbSimtThread *code, int32_t left, uint64_t site) {
    CtaThread *thread = cta_enter(code, "bulk_store_wait", site);
    SimtMemory *memory = memory_of(thread->cta->runner);
    for (int i = 0; left >= 0 && i < memory->bulk_count; i++) {
        SimtBulk *bulk = &memory->bulks[i];
        if (bulk->thread == thread && bulk->is_store && bulk->number + (uint32_t)left < lane_of(thread)->stores)
            end_reading(bulk);
    }
    while (left < 0 && has_stores(memory, thread))
        cta_pause(thread, THREAD_IN_STORE);
}

/* ---- landing ---- */

static void forget_bulk(SimtMemory *memory, int index) {
    free(memory->bulks[index].data);
    memory->bulk_count--;
    memmove(&memory->bulks[index], &memory->bulks[index + 1], (size_t)(memory->bulk_count - index) * sizeof *memory->bulks);
}

static void land_store(SimtMemory *memory, int index) {
    SimtBulk *bulk = &memory->bulks[index];
    CtaThread *thread = bulk->thread;
    end_reading(bulk);
    Box box = box_of(bulk, true);
    copy_box(&box);
    forget_bulk(memory, index);
    if (thread->state == THREAD_IN_STORE && !has_stores(memory, thread))
        cta_wake(thread);
}

static void land_copy(SimtMemory *memory, int index) {
    const SimtBulk *bulk = &memory->bulks[index];
    SimtMbarrier *mbarrier = &memory->mbarriers[bulk->mbarrier];
    Box box = box_of(bulk, true);
    memory->landing = bulk->mbarrier;
    copy_box(&box);
    mbarrier->missing -= (int64_t)bulk->map->rows * bulk->map->columns * box.size;
    if (mbarrier->missing < -MOST_MISSING)
        thread_trap(bulk->thread, bulk->site, "more than %d bytes have come to an mbarrier that expects none", MOST_MISSING);
    forget_bulk(memory, index);
    end_phase(mbarrier);
}

bool simt_bulks_advance(CtaRunner *runner) {
    SimtMemory *memory = memory_of(runner);
    if (memory->bulk_count == 0)
        return false;
    int index = runner->setup.shuffle ? (int)(runner_random(runner) % (uint64_t)memory->bulk_count) : 0;
    (memory->bulks[index].is_store ? land_store : land_copy)(memory, index);
    return true;
}

/* ---- clusters ---- */

void simt_bulks_begin(SimtMemory *memory) {
    while (memory->bulk_count > 0)
        forget_bulk(memory, memory->bulk_count - 1);
    memory->mbarrier_count = 0;
    memset(memory->fenced, 0, sizeof memory->fenced);
}

void simt_bulks_close(SimtMemory *memory) {
    simt_bulks_begin(memory);
    free(memory->bulks);
}

void simt_bulks_end(CtaThread *thread) {
    const Cta *cta = thread->cta;
    SimtMemory *memory = memory_of(cta->runner);
    for (int i = 0; cta->ended + 1 == cta->runner->setup.threads && i < memory->bulk_count;) {
        const SimtBulk *bulk = &memory->bulks[i];
        if (bulk->thread->cta != cta)
            i++;
        else if (bulk->has_read)
            land_store(memory, i);
        else
            thread_trap(thread, bulk->site, "CTA %d ends before this %s: nobody has waited for it", cta->rank,
                bulk->is_store ? "store has read its box" : "copy has landed");
    }
}
