/* How many threads a loop by bulk copies wants, and how many slots its slices get: what registers hold of sums, and shared memory beside what else is
 * there. */
#include "compiler/layout/bulk.h"

enum {
    MOST_SLOTS = 8,
    CHAINED_SLOTS = 3, /* at most, and LEAST_CHAINED: chain.c refills slots as soon as they are free */
    LEAST_CHAINED = 2,
    ACCUMULATORS = 128, /* registers a thread */
};

/* Of shared memory that slots for the slices take, one of each. */
static int64_t slots_bytes(IrOp *const *loads, int count) {
    int64_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += layout_bulk_slot_bytes(loads[i]->results.items[0]->type);
    return bytes;
}

static int64_t elements_of_product(const IrOp *dot) {
    const Type *type = dot->results.items[0]->type;
    return tile_rows(type) * tile_columns(type);
}

/* Of the sums, and where they are promoted of what the loop carries besides. */
static int64_t elements_of(const Bulk *b) {
    int64_t elements = 0;
    for (int i = 0; b->is_chained && i < b->dot_count; i++)
        elements += elements_of_product(b->dots[i]);
    for (int i = 0; !b->is_chained && i < b->sum_count; i++)
        elements += elements_of_product(b->sums[i].last) * (b->sums[i].add ? 2 : 1);
    return elements;
}

int bulk_running_turns(const Bulk *b) {
    return b->is_promoted ? 1 : 2;
}

int64_t bulk_threads(const Bulk *b) {
    enum { FEW_GROUPS = 2, MOST_GROUPS = 2 };
    int64_t elements = elements_of(b), rows = INT32_MAX, groups;
    for (int i = 0; i < b->dot_count; i++) {
        const Type *type = b->dots[i]->results.items[0]->type, *first = b->dots[i]->operands.items[0]->type;
        rows = tile_rows(type) < rows ? tile_rows(type) : rows;
        if (!bulk_is_load(b->dots[i]->operands.items[0]) && tile_rows(first) * tile_columns(first) > elements)
            elements = tile_rows(first) * tile_columns(first);
    }
    for (groups = rows / BULK_GROUP_ROWS < FEW_GROUPS ? 1 : FEW_GROUPS; groups <= MOST_GROUPS; groups *= 2)
        if (elements / (groups * BULK_WARPGROUP) <= ACCUMULATORS)
            return groups * BULK_WARPGROUP;
    return 0;
}

static int64_t round_up(int64_t n, int64_t to) {
    return (n + to - 1) / to * to;
}

static int64_t mbarriers_bytes(const Bulk *b, int64_t slots) {
    enum { ALIGN = 16 };
    int64_t sets = b->is_chained ? b->load_count + 1 : 1;
    return sets * round_up(slots * (int64_t)sizeof(int64_t), ALIGN) + (b->kept_count ? ALIGN : 0);
}

/* Of shared memory that is taken where the loop has so many slots beside `reserved` bytes. What aligns rings behind other things holds mbarriers,
 * too; where the loop is chained, some come between its rings. */
static int64_t taken_bytes(const Bulk *b, int64_t slots, int64_t reserved) {
    int64_t rings = slots * slots_bytes(b->loads, b->load_count) + slots_bytes(b->kept, b->kept_count), mbarriers = mbarriers_bytes(b, slots);
    int64_t before = round_up(reserved, BULK_ALIGN), with_mbarriers = round_up(reserved + mbarriers, BULK_ALIGN);
    return rings + (b->is_chained || with_mbarriers == before ? with_mbarriers : before + mbarriers);
}

/* That fit into so many bytes. */
static int64_t most_slots(const Bulk *b, int64_t bytes, int64_t reserved) {
    int64_t slots = bytes / slots_bytes(b->loads, b->load_count);
    while (slots > 0 && taken_bytes(b, slots, reserved) > bytes)
        slots--;
    return slots;
}

/* Where few registers hold the sums, another CTA on the multiprocessor is worth more than further slots. */
bool bulk_choose_slots(Bulk *b, const LayoutLimits *limits, int64_t reserved) {
    enum { RESERVED = 1024, ENOUGH = 4, FEW_SUMS = 64 }; /* bytes that a CTA takes beside its own */
    int64_t most = most_slots(b, limits->shared_bytes, reserved), shared = most_slots(b, (limits->shared_bytes - RESERVED) / 2, reserved);
    int64_t threads = bulk_threads(b), wanted = b->is_chained ? CHAINED_SLOTS : MOST_SLOTS;
    int64_t least = b->is_chained ? LEAST_CHAINED : bulk_running_turns(b) + 1;
    if (!threads)
        return false;
    const Dim *stages = b->kernel->signature.pipeline;
    bool is_given = stages && dim_is_int(stages, &wanted);
    if (!is_given && elements_of(b) / threads <= FEW_SUMS && shared >= (b->is_chained ? LEAST_CHAINED : ENOUGH))
        most = shared;
    b->slots = (int)(wanted < most ? wanted : most);
    return b->slots >= least && (!is_given || b->slots == wanted);
}
