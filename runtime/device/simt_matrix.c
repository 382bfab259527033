/* Matrix instructions of a warp, as PTX has them: which lane and register holds which element, and what is computed. */
#include "runtime/device/simt.h"
#include "runtime/measure.h"

#include <math.h>
#include <string.h>

enum { GROUP = 4, ROW_BYTES = 16 }; /* lanes that hold a row of 8 columns; bytes of a row of 8x8 elements of 16 bits */

static void need_whole_warp(CtaThread *thread, const char *op, uint64_t site) {
    int left = thread->cta->runner->setup.threads - (int)thread->code.thread / WARP_LANES * WARP_LANES;
    if (left < WARP_LANES)
        thread_trap(thread, site, "thread %d of CTA %d comes to %s in a warp of %d lanes", (int)thread->code.thread, thread->cta->rank, op, left);
}

/* Lane l brings the address of row l % 8 of matrix l / 8, and gets two neighbours of row l / 4, or of column l / 4, of each matrix. */
void phb_simt_ldmatrix(PhbSimtThread *code, const void *row, int32_t count, int32_t transposed, uint32_t *results, uint64_t site) {
    CtaThread *thread = (CtaThread *)code;
    need_whole_warp(thread, "ldmatrix", site);
    const uint64_t *rows = phb_cta_warp(code, "ldmatrix", (uintptr_t)row, site);
    int lane = (int)code->thread % WARP_LANES, line = lane / GROUP, pair = lane % GROUP * 2;
    for (int matrix = 0; matrix < count; matrix++) {
        results[matrix] = 0;
        for (int i = 0; i < 2; i++) {
            char *from = (char *)(uintptr_t)rows[matrix * 8 + (transposed ? pair + i : line)];
            if ((uintptr_t)from % ROW_BYTES != 0)
                thread_trap(
                    thread, site, "ldmatrix of thread %d of CTA %d: a row begins at no multiple of 16 bytes", (int)code->thread, thread->cta->rank);
            from += 2 * (transposed ? line : pair + i);
            results[matrix] |= (uint32_t)simt_access(thread, from, 2, ACCESS_READ, PHB_SHARED_UNNAMED, site) << 16 * i;
        }
    }
}

/* The other way, rows alone. */
void phb_simt_stmatrix(PhbSimtThread *code, void *row, const uint32_t *words, uint64_t site) {
    enum { MATRICES = 4 };
    CtaThread *thread = (CtaThread *)code;
    need_whole_warp(thread, "stmatrix", site);
    const uint64_t *rows = phb_cta_warp(code, "stmatrix", (uintptr_t)row, site);
    int lane = (int)code->thread % WARP_LANES;
    for (int matrix = 0; matrix < MATRICES; matrix++) {
        char *to = (char *)(uintptr_t)rows[matrix * 8 + lane / GROUP];
        if ((uintptr_t)to % ROW_BYTES != 0)
            thread_trap(thread, site, "stmatrix of thread %d of CTA %d: a row begins at no multiple of 16 bytes", (int)code->thread, thread->cta->rank);
        for (int i = 0; i < 2; i++)
            phb_simt_store(code, to + 2 * (lane % GROUP * 2 + i), words[matrix] >> 16 * i & 0xffff, 2, PHB_SHARED_UNNAMED, site);
    }
}

/* ---- products ---- */

static float factor_value(int dtype, uint32_t word, int index) {
    if (dtype == PHB_F32)
        word &= 0xffffe000; /* tf32: hardware does not look at the rest */
    uint32_t bits = word >> 8 * dtype_size(dtype) * index;
    return (float)element_real(dtype, &bits); /* little endian: the low bytes are the element's */
}

/* Toward zero, as the accumulators of tensor cores round. */
float truncate_sum(double sum) {
    float nearest = (float)sum;
    uint32_t bits;
    memcpy(&bits, &nearest, sizeof bits);
    bits -= isfinite(nearest) && fabs((double)nearest) > fabs(sum);
    memcpy(&nearest, &bits, sizeof nearest);
    return nearest;
}

/* Products are exact, and those of half an instruction, 8 elements of 16 bits, are added to the accumulator at once, as on sm_80 (Fasi, Higham,
 * Mikaitis, Pranesh, "Numerical behavior of NVIDIA tensor cores", PeerJ CS 2021); integers wrap. A double holds each such sum with bits to spare. */
static uint32_t sum_products(const SimtLane *warp, int turn, int dtype, int row, int column, uint32_t c) {
    int each = 4 / dtype_size(dtype), half = GROUP * each; /* elements of a register, and of one register of all that share a row */
    bool ints = each == 4;
    float single;
    memcpy(&single, &c, sizeof single);
    double sum = ints ? (double)(int32_t)c : (double)single;
    for (int part = 0; part < 2; part++) {
        for (int k = 0; k < half; k++) {
            const float *a = warp[row % 8 * GROUP + k / each].factors[turn], *b = warp[column * GROUP + k / each].factors[turn];
            sum += (double)a[(row / 8 + 2 * part) * each + k % each] * (double)b[(4 + part) * each + k % each];
        }
        if (!ints)
            sum = (double)truncate_sum(sum);
    }
    single = (float)sum;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    return ints ? (uint32_t)(int64_t)sum : bits;
}

void phb_simt_mma(PhbSimtThread *code, int32_t a, int32_t b, uint32_t *registers, uint64_t site) {
    CtaThread *thread = (CtaThread *)code;
    const CtaRunner *runner = thread->cta->runner;
    need_whole_warp(thread, "mma", site);
    SimtLane *lane = &((SimtMemory *)runner->setup.context)->lanes[thread - runner->thread];
    int index = (int)code->thread % WARP_LANES, turn = lane->turn, each = 4 / dtype_size(a);
    lane->turn ^= 1;
    for (int r = 0; r < 6; r++)
        for (int i = 0; i < each; i++)
            lane->factors[turn][r * each + i] = factor_value(r < 4 ? a : b, registers[r], i);
    phb_cta_warp(code, "mma", 0, site); /* all lanes have brought theirs; they have read them when they come to the next */
    for (int r = 0; r < 4; r++)
        registers[6 + r] = sum_products(lane - index, turn, a, index / GROUP + r / 2 * 8, index % GROUP * 2 + r % 2, registers[6 + r]);
}
