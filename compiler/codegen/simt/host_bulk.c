/* Bulk copies, mbarriers and products of four warps as calls of the simulator. */
#include "compiler/codegen/simt/host.h"

static LLVMValueRef word_at(Simt *s, int index) {
    LLVMValueRef offset = simt_int(s, index);
    return LLVMBuildGEP2(s->e->builder, s->e->i32, ((const HostThread *)s->data)->words, &offset, 1, "");
}

static void store_words(Simt *s, const LLVMValueRef *values, int count) {
    for (int i = 0; i < count; i++)
        LLVMBuildStore(s->e->builder, values[i], word_at(s, i));
}

static void load_words(Simt *s, LLVMValueRef *values, int count) {
    for (int i = 0; i < count; i++)
        values[i] = LLVMBuildLoad2(s->e->builder, LLVMTypeOf(values[i]), word_at(s, i), "");
}

/* ---- mbarriers ---- */

void host_mbarriers(Simt *s, LLVMValueRef shared, int count, bool of_all, Span span) {
    LLVMValueRef arguments[] = {s->self, host_shared(s, shared), simt_int(s, count), simt_int(s, of_all ? s->threads : 1), host_site(s, span)};
    host_call(s->e, HOST_phb_simt_mbarriers, arguments, 5);
}

void host_mbarrier_arrive(Simt *s, LLVMValueRef mbarrier, Span span) {
    host_call(s->e, HOST_phb_simt_mbarrier_arrive, (LLVMValueRef[]){s->self, host_shared(s, mbarrier), host_site(s, span)}, 3);
}

void host_mbarrier_expect(Simt *s, LLVMValueRef mbarrier, int64_t bytes, LLVMValueRef predicate, Span span) {
    SimtBranch branch = simt_branch_begin(s, predicate);
    LLVMValueRef arguments[] = {s->self, host_shared(s, mbarrier), emit_int_const(s->e, bytes), host_site(s, span)};
    host_call(s->e, HOST_phb_simt_mbarrier_expect, arguments, 4);
    simt_branch_end(s, &branch, NULL);
}

void host_mbarrier_wait(Simt *s, LLVMValueRef mbarrier, LLVMValueRef parity, Span span) {
    host_call(s->e, HOST_phb_simt_mbarrier_wait, (LLVMValueRef[]){s->self, host_shared(s, mbarrier), parity, host_site(s, span)}, 4);
}

/* ---- copies ---- */

void host_bulk_copy(Simt *s, const SimtBulkCopy *copy) {
    SimtBranch branch = simt_branch_begin(s, copy->predicate);
    store_words(s, copy->coordinates, copy->rank);
    LLVMValueRef arguments[] = {
        s->self, simt_int(s, copy->map), word_at(s, 0), host_shared(s, copy->shared), host_shared(s, copy->mbarrier), host_site(s, copy->span)};
    host_call(s->e, HOST_phb_simt_bulk_copy, arguments, 6);
    simt_branch_end(s, &branch, NULL);
}

void host_stmatrix(Simt *s, LLVMValueRef shared, const LLVMValueRef words[4], Span span) {
    store_words(s, words, 4);
    host_call(s->e, HOST_phb_simt_stmatrix, (LLVMValueRef[]){s->self, host_shared(s, shared), word_at(s, 0), host_site(s, span)}, 4);
}

void host_bulk_fence(Simt *s, Span span) {
    (void)span;
    host_call(s->e, HOST_phb_simt_bulk_fence, &s->self, 1);
}

void host_bulk_store(Simt *s, const SimtBulkCopy *copy) {
    SimtBranch branch = simt_branch_begin(s, copy->predicate);
    store_words(s, copy->coordinates, copy->rank);
    LLVMValueRef arguments[] = {s->self, simt_int(s, copy->map), word_at(s, 0), host_shared(s, copy->shared), host_site(s, copy->span)};
    host_call(s->e, HOST_phb_simt_bulk_store, arguments, 5);
    simt_branch_end(s, &branch, NULL);
}

void host_bulk_store_wait(Simt *s, int left, Span span) {
    host_call(s->e, HOST_phb_simt_bulk_store_wait, (LLVMValueRef[]){s->self, simt_int(s, left), host_site(s, span)}, 3);
}

/* ---- products ---- */

void host_wgmma_begin(Simt *s, Span span) {
    (void)span;
    host_call(s->e, HOST_phb_simt_wgmma_begin, &s->self, 1);
}

void host_wgmma(Simt *s, const SimtWgmma *product) {
    enum { FIRST_AT = 128 }; /* words of the sums come before */
    LLVMValueRef none = LLVMConstNull(s->e->ptr);
    store_words(s, product->sums, product->fresh ? 0 : product->columns / 2);
    for (int i = 0; !product->a && i < 4; i++)
        LLVMBuildStore(s->e->builder, product->first[i], word_at(s, FIRST_AT + i));
    LLVMValueRef arguments[] = {s->self, simt_int(s, product->is_bf16 ? PHB_BF16 : PHB_F16), simt_int(s, product->turned),
        simt_int(s, product->columns), product->a ? product->a : emit_int_const(s->e, 0), product->a ? none : word_at(s, FIRST_AT), product->b,
        word_at(s, 0), simt_int(s, product->fresh), host_site(s, product->span)};
    host_call(s->e, HOST_phb_simt_wgmma, arguments, 10);
    load_words(s, product->sums, product->columns / 2);
}

void host_wgmma_commit(Simt *s, Span span) {
    (void)span;
    host_call(s->e, HOST_phb_simt_wgmma_commit, &s->self, 1);
}

void host_wgmma_wait(Simt *s, int left, LLVMValueRef *registers, int count, Span span) {
    (void)span;
    store_words(s, registers, count);
    host_call(s->e, HOST_phb_simt_wgmma_wait, (LLVMValueRef[]){s->self, simt_int(s, left), word_at(s, 0), simt_int(s, count)}, 4);
    load_words(s, registers, count);
}
