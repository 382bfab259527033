/* Matrix instructions of four warps, 64 x n x 16, on factors that lie in shared memory where descriptors say. They run behind the threads' backs:
 * what they read is theirs, and what they sum up is nobody's, until every thread has waited for its group. Registers hold a token meanwhile, a
 * signalling NaN that says which instruction's sums it stands for; whoever takes it for a number gets none. */
#include "runtime/device/simt.h"
#include "runtime/measure.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    GROUP_THREADS = 128,
    ROWS = 64,
    DEPTH = 16,
    CORE_ROWS = 8,
    CHUNK_BYTES = 16,
    ELEMENT_BYTES = 2,
    MOST_COLUMNS = 256,
    MOST_SUMS = MOST_COLUMNS / 2,
    FIRST = 4, /* registers of a first factor */
    TOKEN_BITS = 13,
    TOKENS = 1 << TOKEN_BITS,
};

/* Bits 20 to 31 of a token, then the product's number, then the register's. */
#define TOKEN_MARK 0x7fa00000u
#define TOKEN_MASK 0xfff00000u
#define REGISTER_BITS 7

/* Where a factor lies. */
typedef struct Descriptor {
    int64_t start, leading, stride;
    int width; /* bytes that are swizzled; 0: none are */
} Descriptor;

/* An instruction; its sums are the next one's when that has taken them. */
typedef struct Product {
    uint64_t a, b, site;
    int dtype, columns;
    bool turned, fresh;
    uint32_t (*first)[FIRST]; /* of each thread, a factor in registers; NULL: it lies in memory */
    uint32_t group; /* of the threads' groups */
    bool done, continued;
    int waited;  /* threads that have */
    float *sums; /* of thread t: columns / 2 from t * columns / 2 on */
} Product;

struct SimtGroup {
    Meeting meeting;
    Product *products;
    uint32_t count, capacity;
    float *fresh; /* sums of the product that is being issued */
    uint32_t registers[GROUP_THREADS][MOST_SUMS]; /* that the threads bring to an instruction, */
    uint32_t first[GROUP_THREADS][FIRST];         /* of the first factor */
};

static SimtMemory *memory_of(const CtaThread *thread) {
    return thread->cta->runner->setup.context;
}

static SimtLane *lane_of(const CtaThread *thread) {
    return &memory_of(thread)->lanes[thread - thread->cta->runner->thread];
}

static SimtGroup *group_of(const CtaThread *thread) {
    return memory_of(thread)->groups[(thread - thread->cta->runner->thread) / GROUP_THREADS];
}

static int index_of(const CtaThread *thread) {
    return (int)(thread->code.thread % GROUP_THREADS);
}

static CtaThread *leader_of(CtaThread *thread) {
    return thread - index_of(thread);
}

/* ---- factors ---- */

static Descriptor decode(CtaThread *thread, uint64_t bits, uint64_t site) {
    static const int widths[] = {0, 128, 64, 32};
    uint64_t reserved = (uint64_t)3 << 14 | (uint64_t)3 << 30 | (uint64_t)0xffff << 46;
    if (bits & reserved)
        thread_trap(thread, site, "descriptor 0x%016" PRIx64 " has bits set that are to be 0", bits);
    enum { FIELD = 0x3fff, UNIT_SHIFT = 4 };
    return (Descriptor){.start = (int64_t)((bits & FIELD) << UNIT_SHIFT),
        .leading = (int64_t)((bits >> 16 & FIELD) << UNIT_SHIFT),
        .stride = (int64_t)((bits >> 32 & FIELD) << UNIT_SHIFT),
        .width = widths[bits >> 62]};
}

/* Element `k` of row `row`, or where rows run the other way, of column `row`. Blocks are 8 rows of `width` bytes; without swizzle, of 16. Along k
 * they are a step of `leading` apart, and `stride` from eight rows to the next; where rows run along the other axis, `stride` is from eight k to the
 * next eight. */
static char *find_factor(const CtaThread *thread, const Descriptor *descriptor, bool turned, int row, int k) {
    int64_t width = descriptor->width ? descriptor->width : CHUNK_BYTES, line = turned ? k : row, byte = (turned ? row : k) * (int64_t)ELEMENT_BYTES;
    int64_t at = descriptor->start + line / CORE_ROWS * descriptor->stride + line % CORE_ROWS * width;
    if (turned || !descriptor->width)
        at += byte / width * descriptor->leading + byte % width;
    else
        at += byte; /* 16 elements are within a block: `start` says where */
    char *address = thread->cta->shared + at;
    return descriptor->width ? swizzle_address(memory_of(thread), address, descriptor->width) : address;
}

static void touch_factor(CtaThread *leader, const Product *product, bool second, Access access) {
    Descriptor descriptor = decode(leader, second ? product->b : product->a, product->site);
    bool turned = second && product->turned;
    if (turned && !descriptor.width)
        thread_trap(leader, product->site, "the simulator knows no second factor that is turned and not swizzled");
    for (int row = 0; row < (second ? product->columns : ROWS); row++)
        for (int k = 0; k < DEPTH; k++)
            simt_access(leader, find_factor(leader, &descriptor, turned, row, k), ELEMENT_BYTES, access, PHB_SHARED_UNNAMED, product->site);
}

/* On behalf of the first of the threads. Between the beginning and the end nobody else can have written to the factors. */
static void touch_factors(CtaThread *leader, const Product *product, Access access) {
    if (product->first == NULL)
        touch_factor(leader, product, false, access);
    touch_factor(leader, product, true, access);
}

/* Products are exact, and all of an instruction are added to the accumulator at once, which truncates. */
static float add_products(float sum, const float *a, const float *b) {
    double wide = (double)sum;
    for (int k = 0; k < DEPTH; k++)
        wide += (double)a[k] * (double)b[k];
    return truncate_sum(wide);
}

static void load_factor(CtaThread *leader, const Product *product, bool second, float (*values)[DEPTH]) {
    Descriptor descriptor = decode(leader, second ? product->b : product->a, product->site);
    for (int row = 0; row < (second ? product->columns : ROWS); row++)
        for (int k = 0; k < DEPTH; k++)
            values[row][k] = (float)element_real(product->dtype, find_factor(leader, &descriptor, second && product->turned, row, k));
}

/* A thread has two rows, and of each two elements of the first and of the second eight. */
static void unpack_factor(const Product *product, float (*values)[DEPTH]) {
    for (int t = 0; t < GROUP_THREADS; t++)
        for (int i = 0; i < 2 * FIRST; i++) {
            int row = t / WARP_LANES * 16 + t % WARP_LANES / 4 + i / 2 % 2 * 8, k = i / 4 * 8 + t % 4 * 2 + i % 2;
            values[row][k] = (float)element_real(product->dtype, (const char *)&product->first[t][i / 2] + i % 2 * ELEMENT_BYTES);
        }
}

static void compute(CtaThread *leader, Product *product) {
    float a[ROWS][DEPTH], b[MOST_COLUMNS][DEPTH];
    if (product->first != NULL)
        unpack_factor(product, a);
    else
        load_factor(leader, product, false, a);
    load_factor(leader, product, true, b);
    for (int t = 0; t < GROUP_THREADS; t++)
        for (int i = 0; i < product->columns / 2; i++) {
            int row = t / WARP_LANES * 16 + t % WARP_LANES / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + t % 4 * 2 + i % 2;
            float *sum = &product->sums[t * product->columns / 2 + i];
            *sum = add_products(*sum, a[row], b[column]);
        }
    product->done = true;
}

/* ---- accumulators ---- */

static uint32_t token(uint32_t product, int index) {
    return TOKEN_MARK | product % TOKENS << REGISTER_BITS | (uint32_t)index;
}

/* The latest product whose sums the bits stand for; NULL: they are a number. */
static Product *find_product(SimtGroup *group, uint32_t bits) {
    uint32_t number = bits >> REGISTER_BITS & (TOKENS - 1);
    if ((bits & TOKEN_MASK) != TOKEN_MARK || number >= group->count)
        return NULL;
    return &group->products[group->count - 1 - (group->count - 1 - number) % TOKENS];
}

/* Gives the new product the sums that the registers of all threads stand for. */
static void take_sums(CtaThread *thread, SimtGroup *group, Product *product) {
    int count = product->columns / 2;
    Product *before = find_product(group, group->registers[0][0]);
    if (before != NULL && before->columns != product->columns)
        thread_trap(thread, product->site, "the accumulator of a product of %d columns is taken for one of %d", before->columns, product->columns);
    if (before != NULL && before->continued)
        thread_trap(thread, product->site, "an accumulator is taken that a later product, at %d:%d, goes on to change", site_line(before->site),
            site_column(before->site));
    for (int t = 0; t < GROUP_THREADS; t++)
        for (int i = 0; i < count; i++) {
            uint32_t bits = group->registers[t][i];
            if (find_product(group, bits) != before || (before != NULL && bits != token((uint32_t)(before - group->products), i)))
                thread_trap(thread, product->site, "register %d of thread %d is another product's than register 0 of thread 0", i, t);
            if (before == NULL)
                memcpy(&product->sums[t * count + i], &bits, sizeof bits);
        }
    if (before == NULL)
        return;
    free(product->sums);
    product->sums = before->sums;
    before->continued = true;
}

/* Room for the one that is about to begin. */
static Product *next_product(SimtGroup *group) {
    if (group->count == group->capacity) {
        group->capacity = group->capacity * 2 + 64;
        group->products = realloc(group->products, group->capacity * sizeof *group->products);
        if (group->products == NULL)
            abort();
    }
    return &group->products[group->count];
}

static void issue(CtaThread *thread, const Product *what) {
    SimtGroup *group = group_of(thread);
    Product *product = next_product(group);
    *product = *what;
    product->sums = group->fresh = new_zeroed(GROUP_THREADS * MOST_SUMS, sizeof *product->sums);
    if (!product->fresh)
        take_sums(thread, group, product);
    group->fresh = NULL;
    if (product->first != NULL) {
        product->first = new_zeroed(GROUP_THREADS, sizeof *product->first);
        memcpy(product->first, group->first, sizeof group->first);
    }
    group->count++; /* from here on its tokens are known */
    touch_factors(leader_of(thread), product, ACCESS_PRODUCT);
}

/* ---- hooks ---- */

void phb_simt_wgmma_begin(PhbSimtThread *code) {
    lane_of((CtaThread *)code)->fenced = true;
}

void phb_simt_wgmma(PhbSimtThread *code, int32_t dtype, int32_t turned, int32_t columns, uint64_t a, const uint32_t *first, uint64_t b,
    uint32_t *sums, int32_t fresh, uint64_t site) {
    CtaThread *thread = cta_enter(code, "wgmma", site);
    Cta *cta = thread->cta;
    SimtLane *lane = lane_of(thread);
    SimtGroup *group = group_of(thread);
    if (cta->runner->setup.threads % GROUP_THREADS != 0)
        thread_trap(thread, site, "wgmma needs four warps at a time, and CTAs have %d threads", cta->runner->setup.threads);
    if (columns < 8 || columns > MOST_COLUMNS || columns % 8 != 0)
        thread_trap(thread, site, "wgmma has 8 to 256 columns, in eights, and not %d", columns);
    if (!lane->fenced)
        thread_trap(
            thread, site, "thread %d of CTA %d comes to wgmma without a fence since it last touched its registers", (int)code->thread, cta->rank);
    Product product = {
        .a = a, .b = b, .site = site, .dtype = dtype, .columns = columns, .turned = turned != 0, .fresh = fresh != 0, .group = lane->product_groups};
    if (first != NULL) {
        product.first = group->first;
        memcpy(group->first[index_of(thread)], first, sizeof *group->first);
    }
    Product *begun = next_product(group);
    if (group->meeting.arrived == 0)
        *begun = product;
    if (begun->a != a || begun->first != product.first || begun->b != b || begun->columns != columns || begun->group != product.group)
        thread_trap(thread, site, "thread %d of CTA %d comes to wgmma with other descriptors, columns or groups than the first of its four warps",
            (int)code->thread, cta->rank);
    memcpy(group->registers[index_of(thread)], sums, (size_t)columns / 2 * sizeof *sums);
    uint32_t number = group->count;
    if (cta_meet(thread, &group->meeting, GROUP_THREADS, THREAD_IN_GROUP)) {
        issue(thread, &product);
        cta_release(leader_of(thread), GROUP_THREADS, THREAD_IN_GROUP, thread);
    }
    for (int i = 0; i < columns / 2; i++)
        sums[i] = token(number, i);
}

void phb_simt_wgmma_commit(PhbSimtThread *code) {
    lane_of((CtaThread *)code)->product_groups++;
}

/* The last thread that waits for a product gives back what it read. */
static void wait_for(CtaThread *thread, Product *product) {
    if (!product->done)
        compute(leader_of(thread), product);
    if (++product->waited < GROUP_THREADS)
        return;
    memory_of(thread)->product_releases = lane_of(thread)->releases;
    touch_factors(leader_of(thread), product, ACCESS_PRODUCT_DONE);
    free(product->first);
    product->first = NULL;
}

static void give_back(CtaThread *thread, uint32_t *bits) {
    const SimtLane *lane = lane_of(thread);
    SimtGroup *group = group_of(thread);
    const Product *product = find_product(group, *bits);
    uint32_t index = *bits & ((1u << REGISTER_BITS) - 1);
    if (product != NULL && !product->continued && (uint32_t)(product - group->products) < lane->products_done)
        memcpy(bits, &product->sums[index_of(thread) * product->columns / 2 + (int)index], sizeof *bits);
}

void phb_simt_wgmma_wait(PhbSimtThread *code, int32_t left, uint32_t *registers, int32_t count) {
    CtaThread *thread = (CtaThread *)code;
    SimtLane *lane = lane_of(thread);
    SimtGroup *group = group_of(thread);
    while (lane->products_done < group->count && group->products[lane->products_done].group + (uint32_t)left < lane->product_groups)
        wait_for(thread, &group->products[lane->products_done++]);
    for (int i = 0; i < count; i++)
        give_back(thread, &registers[i]);
    lane->fenced = false;
}

/* ---- clusters ---- */

bool simt_groups_open(SimtMemory *memory, int threads) {
    int count = (threads + GROUP_THREADS - 1) / GROUP_THREADS;
    if (count <= memory->group_count)
        return true;
    SimtGroup **groups = realloc(memory->groups, (size_t)count * sizeof(SimtGroup *));
    if (groups == NULL)
        return false;
    memory->groups = groups;
    while (memory->group_count < count)
        groups[memory->group_count++] = new_zeroed(1, sizeof(SimtGroup));
    return true;
}

static void forget_product(Product *product) {
    if (!product->continued)
        free(product->sums);
    free(product->first);
}

void simt_groups_begin(SimtMemory *memory) {
    for (int g = 0; g < memory->group_count; g++) {
        SimtGroup *group = memory->groups[g];
        for (uint32_t p = 0; p < group->count; p++)
            forget_product(&group->products[p]);
        free(group->fresh);
        group->fresh = NULL;
        group->count = 0;
        group->meeting.arrived = 0;
    }
}

void simt_groups_close(SimtMemory *memory) {
    simt_groups_begin(memory);
    for (int g = 0; g < memory->group_count; g++) {
        free(memory->groups[g]->products);
        free(memory->groups[g]);
    }
    free(memory->groups);
}

void simt_products_end(CtaThread *thread) {
    const SimtGroup *group = group_of(thread);
    uint32_t done = lane_of(thread)->products_done;
    if (done < group->count)
        thread_trap(thread, group->products[done].site, "thread %d of CTA %d ends without waiting for this product", (int)thread->code.thread,
            thread->cta->rank);
}
