/* Where the elements of a thread lie: rows and columns by layout and register, computed once a layout at the start of the function. */
#include "compiler/codegen/simt/simt.h"

#include <stdlib.h>

/* A layout's part that is the same for all registers. */
typedef struct SimtPlace {
    const Layout *layout;
    LLVMValueRef at[2]; /* i32: row, column of register 0, */
    LLVMValueRef warp_at[2]; /* and what the warp adds to them */
    int bits[2];        /* that they may have set */
    LLVMValueRef owner; /* i1: no other thread with a lower number has the same elements; NULL: always */
    struct SimtPlace *next;
} SimtPlace;

/* The bits of `word` spread to their bases: runs of neighbouring bits in one go. */
static LLVMValueRef spread(Simt *s, LLVMValueRef sum, int *seen, LLVMValueRef word, const LayoutBasis *bases, int count, int axis) {
    LLVMBuilderRef builder = s->e->builder;
    for (int i = 0, run; i < count; i += run) {
        int at = bases[i].at[axis];
        run = 1;
        if (!at)
            continue;
        bool is_bit = (at & (at - 1)) == 0;
        while (is_bit && i + run < count && bases[i + run].at[axis] == at << run)
            run++;
        LLVMValueRef bits = LLVMBuildAnd(builder, LLVMBuildLShr(builder, word, simt_int(s, i), ""), simt_int(s, (1 << run) - 1), "");
        LLVMValueRef part = LLVMBuildMul(builder, bits, simt_int(s, at), "");
        int mask = is_bit ? ((1 << run) - 1) * at : at;
        sum = *seen & mask ? LLVMBuildXor(builder, sum, part, "") : LLVMBuildOr(builder, sum, part, "");
        *seen |= mask;
    }
    return sum;
}

static int zero_bits(const LayoutBasis *bases, int count) {
    int mask = 0;
    for (int i = 0; i < count; i++)
        if (!bases[i].at[0] && !bases[i].at[1])
            mask |= 1 << i;
    return mask;
}

static LLVMValueRef and_clear(Simt *s, LLVMValueRef sum, LLVMValueRef word, int mask) {
    LLVMBuilderRef builder = s->e->builder;
    if (!mask)
        return sum;
    LLVMValueRef clear = LLVMBuildICmp(builder, LLVMIntEQ, LLVMBuildAnd(builder, word, simt_int(s, mask), ""), simt_int(s, 0), "");
    return sum ? LLVMBuildAnd(builder, sum, clear, "") : clear;
}

static void add_place(Simt *s, const Layout *layout) {
    for (const SimtPlace *place = s->places; place; place = place->next)
        if (place->layout == layout)
            return;
    SimtPlace *place = NEW(s->e->context->arena, SimtPlace);
    place->layout = layout;
    for (int axis = 0; axis < 2; axis++) {
        int warp_bits = 0;
        place->warp_at[axis] = spread(s, simt_int(s, 0), &warp_bits, s->warp, layout_warps(layout), layout->warps, axis);
        LLVMValueRef at = spread(s, simt_int(s, 0), &place->bits[axis], s->lane, layout_lanes(layout), LAYOUT_LANES, axis);
        place->at[axis] = spread(s, at, &place->bits[axis], s->warp, layout_warps(layout), layout->warps, axis);
    }
    int surplus = s->warps > 1 << layout->warps ? -(1 << layout->warps) : 0;
    place->owner = and_clear(s, NULL, s->lane, zero_bits(layout_lanes(layout), LAYOUT_LANES));
    place->owner = and_clear(s, place->owner, s->warp, zero_bits(layout_warps(layout), layout->warps) | surplus);
    place->next = s->places;
    s->places = place;
}

static void add_block(Simt *s, const IrBlock *block) {
    for (const IrOp *op = block->first; op; op = op->next) {
        for (int i = 0; i < op->results.count; i++)
            if (op->results.items[i]->type->layout)
                add_place(s, op->results.items[i]->type->layout);
        for (int r = 0; r < op->regions.count; r++)
            add_block(s, op->regions.items[r]);
    }
}

void simt_elements_begin(Simt *s) {
    add_block(s, s->kernel->body);
}

static const SimtPlace *place_of(const Simt *s, const Layout *layout) {
    for (const SimtPlace *place = s->places; place; place = place->next)
        if (place->layout == layout)
            return place;
    abort();
}

LLVMValueRef simt_origin(Simt *s, const Layout *layout, int axis) {
    return place_of(s, layout)->at[axis];
}

LLVMValueRef simt_warp_origin(Simt *s, const Layout *layout, int axis) {
    return place_of(s, layout)->warp_at[axis];
}

bool simt_is_sum(const Simt *s, const Layout *layout, int offset, int axis) {
    return !(place_of(s, layout)->bits[axis] & offset);
}

LLVMValueRef simt_element(Simt *s, const Type *type, int index, int axis) {
    const SimtPlace *place = place_of(s, type->layout);
    int offset = layout_register_at(type->layout, index, axis);
    if (!offset)
        return place->at[axis];
    if (place->bits[axis] & offset)
        return LLVMBuildXor(s->e->builder, place->at[axis], simt_int(s, offset), "");
    return LLVMBuildNSWAdd(s->e->builder, place->at[axis], simt_int(s, offset), "");
}

LLVMValueRef simt_owner(Simt *s, const Layout *layout) {
    return place_of(s, layout)->owner;
}

/* The numbers that row or column can have; beyond the tile's extent lies padding. */
int64_t simt_reach(const Layout *layout, int axis) {
    int all = 0;
    for (int bit = 0; bit < layout_bits(layout); bit++)
        all |= layout->bases[bit].at[axis];
    return (int64_t)all + 1;
}

LLVMValueRef simt_exists(Simt *s, const Type *type, int index) {
    const int64_t extents[2] = {tile_rows(type), tile_columns(type)};
    LLVMValueRef exists = NULL;
    for (int axis = 0; axis < 2; axis++) {
        if (simt_reach(type->layout, axis) <= extents[axis])
            continue;
        LLVMValueRef inside = LLVMBuildICmp(s->e->builder, LLVMIntULT, simt_element(s, type, index, axis), simt_int(s, extents[axis]), "");
        exists = exists ? LLVMBuildAnd(s->e->builder, exists, inside, "") : inside;
    }
    return exists;
}

LLVMValueRef simt_and(Simt *s, LLVMValueRef a, LLVMValueRef b) {
    return !a ? b : !b ? a : LLVMBuildAnd(s->e->builder, a, b, "");
}

/* The slice's layout has the registers of the whole one with the reduced axis left out: the one whose place is the same but for that. */
int simt_source(const Type *from, const Type *to, int index) {
    int at[2] = {layout_register_at(to->layout, index, 0), layout_register_at(to->layout, index, 1)};
    if (tile_rows(from) == 1)
        at[0] = 0;
    if (tile_columns(from) == 1)
        at[1] = 0;
    for (int i = 0; i < 1 << from->layout->registers; i++)
        if (layout_register_at(from->layout, i, 0) == at[0] && layout_register_at(from->layout, i, 1) == at[1])
            return i;
    abort();
}

int simt_run(const Layout *layout, int axis) {
    int bits = 0;
    while (bits < layout->registers && layout->bases[bits].at[axis] == 1 << bits && !layout->bases[bits].at[!axis])
        bits++;
    return bits;
}
