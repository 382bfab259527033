/* Bulk copies, mbarriers and wgmma in PTX. LLVM has intrinsics for few of them, so all are inline. What one thread does is branched around, so that
 * other warps do not go through what it takes. */
#include "compiler/codegen/nvptx/nvptx.h"

#include <string.h>

enum { SHIFT_OF_ADDRESS = 4, MOST_SUMS = 128, MOST_FACTORS = 5, NAME_CHARS = 8 };

static LLVMValueRef shared_word(Simt *s, LLVMValueRef offset) {
    return LLVMBuildPtrToInt(s->e->builder, nvptx_shared_address(s, offset), s->e->i32, "");
}

static LLVMValueRef word(Simt *s, LLVMValueRef predicate) {
    return LLVMBuildZExt(s->e->builder, predicate, s->e->i32, "");
}

static LLVMTypeRef void_type(const Simt *s) {
    return LLVMVoidTypeInContext(s->e->llvm);
}

/* ---- mbarriers ---- */

void nvptx_mbarriers(Simt *s, LLVMValueRef shared, int count, bool of_all, Span span) {
    LLVMBuilderRef builder = s->e->builder;
    char text[64];
    snprintf(text, sizeof text, "mbarrier.init.shared::cta.b64 [$0], %d;", of_all ? s->warps : 1);
    LLVMValueRef first = LLVMBuildICmp(builder, LLVMIntEQ, s->thread, LLVMConstInt(s->e->i32, 0, false), "");
    nvptx_bulk_fence(s, span);
    s->target->barrier(s, span); /* what the mbarriers' bytes were before is done with */
    SimtBranch branch = simt_branch_begin(s, first);
    for (int i = 0; i < count; i++) {
        LLVMValueRef offset = LLVMBuildAdd(builder, shared, LLVMConstInt(s->e->i32, (unsigned)i * sizeof(int64_t), false), "");
        const LLVMValueRef address = shared_word(s, offset);
        nvptx_asm(s, text, "r,~{memory}", void_type(s), &address, 1);
    }
    nvptx_asm(s, "fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;", "~{memory}", void_type(s), NULL, 0);
    simt_branch_end(s, &branch, NULL);
    s->target->barrier(s, span);
}

void nvptx_mbarrier_expect(Simt *s, LLVMValueRef mbarrier, int64_t bytes, LLVMValueRef predicate, Span span) {
    (void)span;
    SimtBranch branch = simt_branch_begin(s, predicate);
    const LLVMValueRef arguments[] = {shared_word(s, mbarrier), LLVMConstInt(s->e->i32, (unsigned long long)bytes, false)};
    nvptx_asm(s, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "r,r,~{memory}", void_type(s), arguments, 2);
    simt_branch_end(s, &branch, NULL);
}

void nvptx_mbarrier_wait(Simt *s, LLVMValueRef mbarrier, LLVMValueRef parity, Span span) {
    (void)span;
    const LLVMValueRef arguments[] = {shared_word(s, mbarrier), parity};
    nvptx_asm(s, "{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [$0], $1; @!p bra again; }", "r,r,~{memory}", void_type(s),
        arguments, 2);
}

void nvptx_mbarrier_arrive(Simt *s, LLVMValueRef mbarrier, Span span) {
    (void)span;
    LLVMValueRef is_first = LLVMBuildICmp(s->e->builder, LLVMIntEQ, s->lane, LLVMConstInt(s->e->i32, 0, false), "");
    const LLVMValueRef arguments[] = {shared_word(s, mbarrier), word(s, is_first)};
    nvptx_asm(s, "{ .reg .pred p; setp.ne.b32 p, $1, 0; @p mbarrier.arrive.shared::cta.b64 _, [$0]; }", "r,r,~{memory}", void_type(s), arguments, 2);
}

/* ---- copies ---- */

/* Where the parameter holds map `number`, as a generic address. The function's pointer to its parameter would make LLVM copy all of it. */
static LLVMValueRef map_address(Simt *s, int number) {
    const NvptxLeaf *leaf = s->data;
    size_t length;
    char text[300];
    const char *name = LLVMGetValueName2(s->function, &length);
    snprintf(text, sizeof text, "{ .reg .b64 t; mov.b64 t, %.*s_param_0; add.s64 t, t, %lld; cvta.param.u64 $0, t; }", (int)length, name,
        (long long)leaf->maps + (long long)number * PHB_MAP_BYTES);
    return nvptx_asm(s, text, "=l", s->e->i64, NULL, 0);
}

/* The instruction whose map and coordinates come between `before` and `after`, under the copy's predicate. */
static void emit_box(Simt *s, const SimtBulkCopy *copy, const char *before, const char *after) {
    char text[300], coordinates[64] = "", constraints[64] = "r,l,r";
    SimtBranch branch = simt_branch_begin(s, copy->predicate);
    LLVMValueRef arguments[3 + PHB_MAX_RANK] = {shared_word(s, copy->shared), map_address(s, copy->map),
        copy->mbarrier ? shared_word(s, copy->mbarrier) : LLVMConstInt(s->e->i32, 0, false)};
    for (int axis = 0; axis < copy->rank; axis++) {
        snprintf(coordinates + strlen(coordinates), sizeof coordinates - strlen(coordinates), "%s$%d", axis ? ", " : "", 3 + axis);
        strcat(constraints, ",r");
        arguments[3 + axis] = copy->coordinates[axis];
    }
    strcat(constraints, ",~{memory}");
    snprintf(text, sizeof text, "cp.async.bulk.tensor.%dd.%s[$1, {%s}]%s", copy->rank, before, coordinates, after);
    nvptx_asm(s, text, constraints, void_type(s), arguments, 3 + copy->rank);
    simt_branch_end(s, &branch, NULL);
}

void nvptx_bulk_copy(Simt *s, const SimtBulkCopy *copy) {
    emit_box(s, copy, "shared::cluster.global.mbarrier::complete_tx::bytes [$0], ", ", [$2];");
}

void nvptx_bulk_fence(Simt *s, Span span) {
    (void)span;
    nvptx_asm(s, "fence.proxy.async.shared::cta;", "~{memory}", void_type(s), NULL, 0);
}

/* Each is a group of its own. */
void nvptx_bulk_store(Simt *s, const SimtBulkCopy *copy) {
    emit_box(s, copy, "global.shared::cta.bulk_group ", ", [$0]; cp.async.bulk.commit_group;");
}

void nvptx_bulk_store_wait(Simt *s, int left, Span span) {
    (void)span;
    char text[64];
    snprintf(text, sizeof text, "cp.async.bulk.wait_group%s %d;", left < 0 ? "" : ".read", left < 0 ? 0 : left);
    nvptx_asm(s, text, "~{memory}", void_type(s), NULL, 0);
}

void nvptx_stmatrix(Simt *s, LLVMValueRef shared, const LLVMValueRef words[4], Span span) {
    (void)span;
    const LLVMValueRef arguments[] = {shared_word(s, shared), words[0], words[1], words[2], words[3]};
    nvptx_asm(s, "stmatrix.sync.aligned.m8n8.x4.shared.b16 [$0], {$1, $2, $3, $4};", "r,r,r,r,r,~{memory}", void_type(s), arguments, 5);
}

/* ---- products ---- */

void nvptx_wgmma_begin(Simt *s, Span span) {
    (void)span;
    nvptx_asm(s, "wgmma.fence.sync.aligned;", "~{memory}", void_type(s), NULL, 0);
}

void nvptx_wgmma_commit(Simt *s, Span span) {
    (void)span;
    nvptx_asm(s, "wgmma.commit_group.sync.aligned;", "~{memory}", void_type(s), NULL, 0);
}

/* Inline PTX that changes `count` f32 registers in place: outputs $0 .. are the inputs that come first, or, `fresh`, there are none of those. */
static void change_registers(Simt *s, const char *text, LLVMValueRef *registers, int count, bool fresh, const LLVMValueRef *more,
    const char *more_constraints, int more_count) {
    Emitter *e = s->e;
    LLVMTypeRef types[MOST_SUMS + MOST_FACTORS], parts[MOST_SUMS];
    LLVMValueRef arguments[MOST_SUMS + MOST_FACTORS];
    int kept = fresh ? 0 : count;
    char constraints[MOST_SUMS * NAME_CHARS + 64] = "";
    size_t used = 0;
    for (int i = 0; i < count; i++) {
        parts[i] = e->f32;
        used += (size_t)snprintf(constraints + used, sizeof constraints - used, "=f,");
    }
    for (int i = 0; i < kept; i++) {
        types[i] = e->f32;
        arguments[i] = registers[i];
        used += (size_t)snprintf(constraints + used, sizeof constraints - used, "%d,", i);
    }
    for (int i = 0; i < more_count; i++) {
        types[kept + i] = LLVMTypeOf(more[i]);
        arguments[kept + i] = more[i];
    }
    snprintf(constraints + used, sizeof constraints - used, "%s~{memory}", more_constraints);
    LLVMTypeRef result = LLVMStructTypeInContext(e->llvm, parts, (unsigned)count, false);
    LLVMValueRef changed = nvptx_asm_of(s, text, constraints, result, types, arguments, kept + more_count);
    for (int i = 0; i < count; i++)
        registers[i] = LLVMBuildExtractValue(e->builder, changed, (unsigned)i, "");
}

/* `d` of an instruction: registers in braces. */
static size_t put_registers(char *text, size_t size, int first, int count) {
    size_t used = 0;
    for (int i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, size - used, "%s$%d", i ? ", " : "{", first + i);
    return used + (size_t)snprintf(text + used, size - used, "}");
}

static LLVMValueRef descriptor(Simt *s, LLVMValueRef from_start) {
    Emitter *e = s->e;
    const NvptxLeaf *leaf = s->data;
    LLVMValueRef start = LLVMBuildPtrToInt(e->builder, leaf->shared, e->i32, "");
    start = LLVMBuildZExt(e->builder, LLVMBuildLShr(e->builder, start, LLVMConstInt(e->i32, SHIFT_OF_ADDRESS, false), ""), e->i64, "");
    return LLVMBuildAdd(e->builder, from_start, start, "");
}

void nvptx_wgmma(Simt *s, const SimtWgmma *product) {
    char text[MOST_SUMS * NAME_CHARS + 300];
    int count = product->columns / 2, kept = product->fresh ? count : 2 * count, more = product->a ? 1 : 4;
    const char *type = product->is_bf16 ? "bf16" : "f16";
    LLVMValueRef factors[MOST_FACTORS];
    size_t used = (size_t)snprintf(text, sizeof text, "wgmma.mma_async.sync.aligned.m64n%dk16.f32.%s.%s ", product->columns, type, type);
    used += put_registers(text + used, sizeof text - used, 0, count);
    used += (size_t)snprintf(text + used, sizeof text - used, ", ");
    if (product->a)
        used += (size_t)snprintf(text + used, sizeof text - used, "$%d", kept);
    else
        used += put_registers(text + used, sizeof text - used, kept, more);
    /* scale of d, signs of the factors, then which of those in shared memory run along the other axis */
    snprintf(text + used, sizeof text - used, ", $%d, %d, 1, 1, %s%d;", kept + more, !product->fresh, product->a ? "0, " : "", product->turned);
    for (int i = 0; i < more; i++)
        factors[i] = product->a ? descriptor(s, product->a) : product->first[i];
    factors[more] = descriptor(s, product->b);
    change_registers(s, text, product->sums, count, product->fresh, factors, product->a ? "l,l," : "r,r,r,r,l,", more + 1);
}

void nvptx_wgmma_wait(Simt *s, int left, LLVMValueRef *registers, int count, Span span) {
    (void)span;
    char text[64];
    snprintf(text, sizeof text, "wgmma.wait_group.sync.aligned %d;", left);
    change_registers(s, text, registers, count, false, NULL, "", 0);
}
