/* A stage's leaf for threads, and what its launches need to know of it. */
#include "compiler/codegen/simt/simt.h"

#include "compiler/layout/layout.h"

IrKernel *simt_lay_out(Context *context, IrKernel *stage, const int64_t *values, const SimtTarget *target, const char **why) {
    LayoutLimits limits = {.target = target->checks ? NULL : target->name, /* what the simulator is given, a card's remarks have said */
        .shared_bytes = target->shared_limit,
        .registers = target->register_limit,
        .tensor_cores = target->has_mma,
        .bulk = target->has_bulk};
    IrKernel *leaf = specialise(context, stage, values); /* a copy: layouts are put into it */
    if (layout_kernel(context, leaf, &limits, why))
        return leaf;
    if (!limits.bulk)
        return NULL;
    if (limits.target)
        diag_remark_once(context->diag, REMARK_TENSORCORE, leaf->signature.span, "on %s '%s' goes without bulk copies: with them %s", limits.target,
            leaf->signature.name, *why);
    limits.bulk = false;
    leaf = specialise(context, stage, values);
    return layout_kernel(context, leaf, &limits, why) ? leaf : NULL;
}

PhbTensorMap *simt_maps(Context *context, const IrKernel *leaf, int *count) {
    BulkMaps maps = layout_bulk_maps(context, leaf);
    PhbTensorMap *described = NEW_ARRAY(context->arena, PhbTensorMap, maps.count + 1);
    for (int i = 0; i < maps.count; i++) {
        const BulkMap *map = &maps.items[i];
        described[i] =
            (PhbTensorMap){param_rank_among_kind(&leaf->signature, map->param), map->row_axis, map->rows, map->columns, map->swizzle, map->planes};
    }
    *count = maps.count;
    return described;
}
