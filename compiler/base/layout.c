/* Layouts: linear maps from (register, lane, warp) to (row, column), over bits. Blocked ones deal the bits of a tile's rows and columns out, low ones
 * first. */
#include "compiler/base/base.h"

#include <string.h>

int layout_bits(const Layout *layout) {
    return layout->registers + LAYOUT_LANES + layout->warps;
}

const LayoutBasis *layout_lanes(const Layout *layout) {
    return layout->bases + layout->registers;
}

const LayoutBasis *layout_warps(const Layout *layout) {
    return layout->bases + layout->registers + LAYOUT_LANES;
}

bool layout_same(const Layout *a, const Layout *b) {
    return a->registers == b->registers && a->warps == b->warps && memcmp(a->bases, b->bases, sizeof *a->bases * (size_t)layout_bits(a)) == 0;
}

int layout_register_at(const Layout *layout, int index, int axis) {
    int at = 0;
    for (int bit = 0; bit < layout->registers; bit++)
        if (index >> bit & 1)
            at ^= layout->bases[bit].at[axis];
    return at;
}

int layout_find_register(const Layout *layout, int64_t row, int64_t column) {
    for (int i = 0; i < 1 << layout->registers; i++)
        if (layout_register_at(layout, i, 0) == row && layout_register_at(layout, i, 1) == column)
            return i;
    return -1;
}

bool layout_permutes(const Layout *from, const Layout *to, int sources[1 << LAYOUT_REGISTERS]) {
    if (from->warps != to->warps || memcmp(layout_lanes(from), layout_lanes(to), sizeof *from->bases * (size_t)(LAYOUT_LANES + from->warps)) != 0)
        return false;
    for (int i = 0; i < 1 << to->registers; i++) {
        sources[i] = layout_find_register(from, layout_register_at(to, i, 0), layout_register_at(to, i, 1));
        if (sources[i] < 0)
            return false;
    }
    return true;
}

static bool is_zero(const LayoutBasis *basis) {
    return !basis->at[0] && !basis->at[1];
}

Layout layout_slice(const Layout *layout, int axis) {
    Layout slice = {.warps = layout->warps};
    int count = 0, bits = layout_bits(layout);
    for (int bit = 0; bit < bits; bit++) {
        LayoutBasis basis = layout->bases[bit];
        basis.at[axis] = 0;
        if (bit >= layout->registers || !is_zero(&basis)) {
            slice.bases[count++] = basis;
            slice.registers += bit < layout->registers;
        }
    }
    return slice;
}

Layout layout_swap(const Layout *layout) {
    Layout swapped = *layout;
    for (int bit = 0; bit < layout_bits(layout); bit++)
        swapped.bases[bit] = (LayoutBasis){{layout->bases[bit].at[1], layout->bases[bit].at[0]}};
    return swapped;
}

/* ---- dealing ---- */

int layout_log2(int64_t n) {
    int bits = 0;
    while ((int64_t)1 << bits < n)
        bits++;
    return bits;
}

/* Bits of the tile that are not dealt yet, low ones first; the place among the layout's bases that gets the next one. */
typedef struct Dealer {
    int bits[2], used[2];
    LayoutBasis *next;
} Dealer;

static bool has_bits(const Dealer *dealer, int axis) {
    return dealer->used[axis] < dealer->bits[axis];
}

/* One bit of `axis`, or where it has none of the other one, or where neither has, nothing: the threads repeat each other. */
static void deal(Dealer *dealer, int axis) {
    if (!has_bits(dealer, axis))
        axis = !axis;
    if (has_bits(dealer, axis))
        dealer->next->at[axis] = 1 << dealer->used[axis]++;
    dealer->next++;
}

static int bits_left(const Dealer *dealer) {
    return dealer->bits[0] - dealer->used[0] + dealer->bits[1] - dealer->used[1];
}

/* Deals the first `own` bits of `fast` to registers and leaves room for what threads do not take. */
static bool begin(Dealer *dealer, int64_t rows, int64_t columns, int fast, int own, int warp_bits, Layout *layout) {
    *layout = (Layout){.warps = warp_bits};
    *dealer = (Dealer){.bits = {layout_log2(rows), layout_log2(columns)}, .next = layout->bases};
    if (own > dealer->bits[fast])
        own = dealer->bits[fast];
    int rest = bits_left(dealer) - own - LAYOUT_LANES - warp_bits;
    layout->registers = own + (rest > 0 ? rest : 0);
    if (layout->registers > LAYOUT_REGISTERS)
        return false;
    for (int i = 0; i < own; i++)
        deal(dealer, fast);
    dealer->next = layout->bases + layout->registers;
    return true;
}

bool layout_blocked(int64_t rows, int64_t columns, int fast, int64_t vector, bool warps_across, int warp_bits, Layout *layout) {
    Dealer dealer;
    if (!begin(&dealer, rows, columns, fast, layout_log2(vector), warp_bits, layout))
        return false;
    int own = dealer.used[fast];
    for (int i = 0; i < LAYOUT_LANES; i++)
        deal(&dealer, fast);
    for (int i = 0; i < warp_bits; i++)
        deal(&dealer, warps_across ? !fast : fast);
    dealer.next = layout->bases + own;
    while (bits_left(&dealer))
        deal(&dealer, fast);
    return true;
}

/* Threads have as many rows as columns, or twice as many: a turn of the product holds what all columns need and one row's after the other. */
bool layout_outer(int64_t rows, int64_t columns, int64_t width, int warp_bits, Layout *layout) {
    enum { LANES_ALONG = 3 };
    Dealer dealer;
    if (!begin(&dealer, rows, columns, 1, layout_log2(width), warp_bits, layout))
        return false;
    int own = dealer.used[1], along = layout->registers / 2 > own ? layout->registers / 2 : own;
    for (int i = 0; i < LAYOUT_LANES; i++)
        deal(&dealer, i < LANES_ALONG);
    int warps_along = dealer.bits[1] - dealer.used[1] - (along - own);
    for (int i = 0; i < warp_bits; i++)
        deal(&dealer, i < warps_along);
    dealer.next = layout->bases + own;
    while (bits_left(&dealer))
        deal(&dealer, 0);
    return true;
}

static const LayoutBasis mma_registers[] = {{{0, 1}}, {{8, 0}}}, mma_lanes[LAYOUT_LANES] = {{{0, 2}}, {{0, 4}}, {{1, 0}}, {{2, 0}}, {{4, 0}}};

bool layout_mma(int64_t rows, int64_t columns, bool by_rows, int warp_bits, Layout *layout) {
    enum { ROW_BITS = 4, COLUMN_BITS = 3, REGISTERS = 2 };
    Dealer dealer = {.bits = {layout_log2(rows), layout_log2(columns)}, .used = {ROW_BITS, COLUMN_BITS}};
    *layout = (Layout){.warps = warp_bits};
    if (dealer.bits[0] < ROW_BITS || dealer.bits[1] < COLUMN_BITS)
        return false;
    int rest = bits_left(&dealer) - warp_bits;
    layout->registers = REGISTERS + (rest > 0 ? rest : 0);
    if (layout->registers > LAYOUT_REGISTERS)
        return false;
    memcpy(layout->bases, mma_registers, sizeof mma_registers);
    memcpy(layout->bases + layout->registers, mma_lanes, sizeof mma_lanes);
    /* Warps take the high bits: a warp's blocks are neighbours. */
    LayoutBasis warps[LAYOUT_WARPS] = {{{0, 0}}};
    for (int i = 0; i < warp_bits; i++) {
        int axis = by_rows || dealer.bits[0] >= dealer.bits[1] ? 0 : 1;
        if (!has_bits(&dealer, axis))
            axis = !axis;
        if (has_bits(&dealer, axis))
            warps[i].at[axis] = 1 << --dealer.bits[axis];
    }
    memcpy(layout->bases + layout->registers + LAYOUT_LANES, warps, sizeof *warps * (size_t)warp_bits);
    dealer.next = layout->bases + REGISTERS;
    while (bits_left(&dealer))
        deal(&dealer, 1);
    return true;
}

bool layout_is_mma(const Layout *layout) {
    size_t registers = sizeof mma_registers / sizeof *mma_registers;
    return layout->registers >= (int)registers && memcmp(layout->bases, mma_registers, sizeof mma_registers) == 0 &&
           memcmp(layout_lanes(layout), mma_lanes, sizeof mma_lanes) == 0;
}

bool layout_wgmma(int64_t rows, int64_t columns, int warp_bits, Layout *layout) {
    enum { ROW_BITS = 6, COLUMN_BITS = 3, REGISTERS = 2, GROUP_WARPS = 2, MOST_REGISTERS = 7 };
    static const LayoutBasis group_warps[GROUP_WARPS] = {{{16, 0}}, {{32, 0}}};
    Dealer dealer = {.bits = {layout_log2(rows), layout_log2(columns)}, .used = {ROW_BITS, COLUMN_BITS}};
    *layout = (Layout){.warps = warp_bits};
    if (warp_bits < GROUP_WARPS || dealer.bits[0] < ROW_BITS + warp_bits - GROUP_WARPS || dealer.bits[1] < COLUMN_BITS)
        return false;
    layout->registers = REGISTERS + bits_left(&dealer) - (warp_bits - GROUP_WARPS);
    if (layout->registers > MOST_REGISTERS)
        return false;
    LayoutBasis *lanes = layout->bases + layout->registers, *warps = lanes + LAYOUT_LANES;
    memcpy(layout->bases, mma_registers, sizeof mma_registers);
    memcpy(lanes, mma_lanes, sizeof mma_lanes);
    memcpy(warps, group_warps, sizeof group_warps);
    for (int i = GROUP_WARPS; i < warp_bits; i++)
        warps[i].at[0] = 1 << --dealer.bits[0];
    dealer.next = layout->bases + REGISTERS;
    while (bits_left(&dealer))
        deal(&dealer, 1);
    return true;
}

/* ---- text ---- */

static void print_basis(Buffer *buffer, const LayoutBasis *basis) {
    if (is_zero(basis))
        buffer_puts(buffer, "0");
    for (int axis = 0; axis < 2; axis++)
        if (basis->at[axis])
            buffer_printf(buffer, "%s%c%d", axis && basis->at[0] ? "+" : "", "rc"[axis], basis -> at[axis]);
}

void layout_print(Buffer *buffer, const Layout *layout) {
    const int ends[3] = {layout->registers, layout->registers + LAYOUT_LANES, layout_bits(layout)};
    buffer_puts(buffer, "<");
    for (int group = 0, bit = 0; group < 3; group++) {
        buffer_puts(buffer, group ? ", " : "");
        for (int first = bit; bit < ends[group]; bit++) {
            buffer_puts(buffer, bit > first ? " " : "");
            print_basis(buffer, &layout->bases[bit]);
        }
    }
    buffer_puts(buffer, ">");
}
