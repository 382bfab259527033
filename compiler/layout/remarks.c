/* Says what became of a kernel at the memory level. Requires layouts and places in shared memory; changes nothing. */
#include "compiler/layout/layout.h"

#include <inttypes.h>

typedef struct Remarks {
    Context *context;
    const IrKernel *kernel;
    const char *target;
    bool has_ring, wants_layout, wants_tensorcore;
} Remarks;

/* ---- products ---- */

static bool is_wgmma(const IrOp *op) {
    return op->kind == OP_WGMMA || op->kind == OP_WGMMA_T;
}

static bool is_product(const IrOp *op) {
    return op->kind == OP_DOT || op->kind == OP_DOT_T || op->kind == OP_MMA || op->kind == OP_MMA_T || is_wgmma(op);
}

static const char *shape_text(const Remarks *r, const IrOp *op) {
    const Type *result = op->results.items[0]->type;
    return arena_printf(r->context->arena, "%" PRId64 " x %" PRId64 " x %" PRId64, tile_rows(result), tile_columns(result),
        tile_columns(op->operands.items[0]->type));
}

static void say_instruction(const Remarks *r, const IrOp *op) {
    Diag *diag = r->context->diag;
    PhbDType dtype = op->operands.items[0]->type->scalar;
    bool is_mma = op->kind == OP_MMA || op->kind == OP_MMA_T, asks = r->kernel->signature.tensorcore != TENSORCORE_NONE;
    if (!r->wants_tensorcore && (is_mma || is_wgmma(op) || !asks))
        return;
    if (is_wgmma(op)) {
        diag_remark_once(diag, REMARK_TENSORCORE, op->span, "on %s this dot, %s, is wgmma m64n%" PRId64 "k16 on %s", r->target, shape_text(r, op),
            tile_columns(op->results.items[0]->type), dtype_name(dtype));
        return;
    }
    if (is_mma) {
        diag_remark_once(diag, REMARK_TENSORCORE, op->span, "on %s this dot, %s, is mma.sync m16n8k%d on %s", r->target, shape_text(r, op),
            layout_mma_step(r->kernel, op), dtype == PHB_F32 ? "f32 rounded to tf32" : dtype_name(dtype));
        return;
    }
    const char *why = layout_mma_refusal(r->kernel, op);
    diag_remark_once(diag, REMARK_TENSORCORE, op->span, "on %s this dot, %s of %s, is chains of %s: %s", r->target, shape_text(r, op),
        dtype_name(dtype), dtype_is_float(dtype) ? "fma" : "multiplications and additions",
        why ? why : "another product of the same accumulator cannot use matrix instructions");
}

static const char *factor_text(const Remarks *r, const IrValue *factor) {
    int64_t slots = 0;
    if (factor->type->kind == TYPE_TILE)
        return "in registers";
    if (factor->def->kind != OP_SLOT)
        return "staged in shared memory";
    dim_is_int(factor->def->operands.items[0]->type->dims[0], &slots);
    return arena_printf(r->context->arena, "copied ahead%s to a ring of %" PRId64 " slots",
        factor->def->operands.items[0]->def->kind == OP_BULK_RING ? " by a tensor map" : "", slots);
}

static void say_factors(const Remarks *r, const IrOp *op) {
    const IrValue *a = op->operands.items[0], *b = op->operands.items[1];
    if (r->wants_layout)
        diag_remark_once(r->context->diag, REMARK_LAYOUT, op->span, "on %s the factors of this dot, %s: the first %s, the second %s", r->target,
            shape_text(r, op), factor_text(r, a), factor_text(r, b));
}

/* ---- everything ---- */

static void say_conversion(const Remarks *r, const IrOp *op) {
    Buffer text = {0};
    if (!r->wants_layout || !op->shared_bytes)
        return;
    layout_print(&text, op->operands.items[0]->type->layout);
    buffer_puts(&text, " to ");
    layout_print(&text, op->results.items[0]->type->layout);
    diag_remark_once(r->context->diag, REMARK_LAYOUT, op->span, "on %s a tile goes from layout %s through %" PRId64 " bytes of shared memory",
        r->target, text.data, op->shared_bytes);
    buffer_free(&text);
}

static void say_block(Remarks *r, const IrBlock *block) {
    for (const IrOp *op = block->first; op; op = op->next) {
        r->has_ring |= op->kind == OP_RING || op->kind == OP_BULK_RING;
        if (is_product(op)) {
            say_instruction(r, op);
            say_factors(r, op);
        } else if (op->kind == OP_CONVERT_LAYOUT) {
            say_conversion(r, op);
        }
        for (int i = 0; i < op->regions.count; i++)
            say_block(r, op->regions.items[i]);
    }
}

void layout_remarks(Context *context, const IrKernel *kernel, const char *target, const char *values) {
    const Signature *signature = &kernel->signature;
    Remarks remarks = {.context = context, .kernel = kernel, .target = target}, *r = &remarks;
    r->wants_layout = diag_wants_remark(context->diag, REMARK_LAYOUT);
    r->wants_tensorcore = diag_wants_remark(context->diag, REMARK_TENSORCORE);
    if (r->wants_layout)
        diag_remark_once(context->diag, REMARK_LAYOUT, signature->span,
            "on %s '%s'%s has %d threads a CTA, about %d registers a thread for tiles, %" PRId64 " bytes of shared memory", target, signature->name,
            values, kernel->threads, kernel->registers, kernel->shared_bytes);
    say_block(r, kernel->body);
    int64_t stages = 0;
    if (signature->pipeline && dim_is_int(signature->pipeline, &stages) && stages > 1 && !r->has_ring)
        diag_remark_once(context->diag, REMARK_LAYOUT, signature->pipeline_span,
            "on %s nothing is copied ahead: no loop of '%s' loads tiles of neighbouring 16 bytes only to multiply them", target, signature->name);
}
