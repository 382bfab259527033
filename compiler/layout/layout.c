/* How many threads a CTA has, and the way from the value level to the memory level. */
#include "compiler/layout/layout.h"

enum {
    THREADS_OF_THREAD_CODE = 256, /* without @launch: LANGUAGE.md 8 */
    MOST_THREADS = 1024,
    USUAL_THREADS = 256,         /* of tile code that does not need more */
    FEW_REGISTERS = 8,           /* elements of the largest tile a thread, where there are enough for that many threads */
    MANY_REGISTERS = 64,         /* beyond which more threads are better, */
    ACCUMULATOR_REGISTERS = 128, /* and of a product, whose operands are read less often the more there are */
    LEAST_OF_PRODUCTS = 128,     /* by matrix instructions */
};

static int64_t largest_tile(const IrBlock *block) {
    int64_t largest = 0;
    for (const IrOp *op = block->first; op; op = op->next) {
        for (int i = 0; i < op->results.count; i++) {
            const Type *type = op->results.items[i]->type;
            int64_t size = type->kind == TYPE_TILE ? (int64_t)1 << (layout_log2(tile_rows(type)) + layout_log2(tile_columns(type))) : 0;
            largest = size > largest ? size : largest;
        }
        for (int r = 0; r < op->regions.count; r++) {
            int64_t inner = largest_tile(op->regions.items[r]);
            largest = inner > largest ? inner : largest;
        }
    }
    return largest;
}

bool layout_has_product(const IrBlock *block) {
    bool found = false;
    for (const IrOp *op = block->first; !found && op; op = op->next) {
        found = op->kind == OP_DOT || op->kind == OP_DOT_T;
        for (int r = 0; !found && r < op->regions.count; r++)
            found = layout_has_product(op->regions.items[r]);
    }
    return found;
}

/* As many as the registers of the largest accumulator need; where products are chained, a warp for every 32 rows, so that each has whole ones, or for
 * 16 where 32 rows of all products are more than its registers hold. */
static int64_t threads_of_products(const MmaUse *use) {
    int64_t threads = LEAST_OF_PRODUCTS;
    if (use->chained) {
        int64_t rows = use->columns <= ACCUMULATOR_REGISTERS && use->rows >= LEAST_OF_PRODUCTS ? 32 : 16;
        return use->rows / rows * 32 < USUAL_THREADS ? use->rows / rows * 32 : USUAL_THREADS;
    }
    while (threads < USUAL_THREADS && use->elements / threads > ACCUMULATOR_REGISTERS)
        threads *= 2;
    return threads;
}

static int choose_threads(Context *context, IrKernel *kernel, const LayoutLimits *limits) {
    int64_t elements = largest_tile(kernel->body), threads = 32;
    int64_t many = layout_has_product(kernel->body) ? ACCUMULATOR_REGISTERS : MANY_REGISTERS;
    MmaUse use = limits->tensor_cores ? layout_mma_use(context, kernel) : (MmaUse){0};
    if (kernel->signature.launch_threads)
        return (int)kernel->signature.launch_threads;
    if (ir_has_thread_code(kernel))
        return THREADS_OF_THREAD_CODE;
    if (use.elements)
        return (int)threads_of_products(&use);
    while (threads < USUAL_THREADS && elements / threads > FEW_REGISTERS)
        threads *= 2;
    while (threads < MOST_THREADS && elements / threads > many)
        threads *= 2;
    return (int)threads;
}

bool layout_kernel(Context *context, IrKernel *kernel, const LayoutLimits *limits, const char **why) {
    layout_masks(context, kernel);
    layout_narrow(context, kernel);
    if (limits->tensor_cores)
        layout_round(context, kernel);
    layout_split(context, kernel, limits);
    int bulk_threads = layout_bulk_mark(context, kernel, limits);
    kernel->threads = bulk_threads && !kernel->signature.launch_threads ? bulk_threads : choose_threads(context, kernel, limits);
    layout_epilogue(context, kernel, limits);
    if (kernel->threads % 32 != 0 && largest_tile(kernel->body) > 0) {
        *why = arena_printf(context->arena, "tiles need whole warps, and %d threads are not", kernel->threads);
        return false;
    }
    if (!layout_assign(context, kernel, limits->tensor_cores, why))
        return false;
    if (!layout_bulk(context, kernel, kernel->body, limits, why))
        return false;
    layout_peel(context, kernel);
    if (limits->tensor_cores)
        layout_pipeline(context, kernel, limits);
    layout_prefetch(context, kernel);
    kernel->registers = layout_pressure(context, kernel);
    if (!layout_place(context, kernel, limits, why))
        return false;
    layout_barriers(context, kernel);
    return true;
}
