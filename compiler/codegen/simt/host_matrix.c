/* What GPUs have and the simulator plays: copies behind the thread's back, and matrix instructions of a warp. */
#include "compiler/codegen/simt/host.h"

/* ---- copies ---- */

void host_copy_async(Simt *s, LLVMValueRef shared, const SimtAccess *access) {
    Emitter *e = s->e;
    LLVMValueRef bytes = simt_int(s, (int64_t)LLVMABISizeOfType(e->layout, access->type)), valid = access->valid ? access->valid : bytes;
    if (access->predicate)
        valid = LLVMBuildSelect(e->builder, access->predicate, valid, simt_int(s, 0), "");
    SimtBranch branch = simt_branch_begin(s, access->when);
    LLVMValueRef arguments[] = {
        s->self, host_shared(s, shared), access->address, bytes, valid, host_tensor_number(s, access), host_site(s, access->span)};
    host_call(s->e, HOST_phb_simt_copy, arguments, 7);
    simt_branch_end(s, &branch, NULL);
}

void host_copy_commit(Simt *s) {
    host_call(s->e, HOST_phb_simt_copy_commit, &s->self, 1);
}

void host_copy_wait(Simt *s, int left, Span span) {
    (void)span;
    host_call(s->e, HOST_phb_simt_copy_wait, (LLVMValueRef[]){s->self, simt_int(s, left)}, 2);
}

/* ---- matrix instructions ---- */

static LLVMValueRef word_at(Simt *s, int index) {
    LLVMValueRef offset = simt_int(s, index);
    return LLVMBuildGEP2(s->e->builder, s->e->i32, ((const HostThread *)s->data)->words, &offset, 1, "");
}

void host_ldmatrix(Simt *s, LLVMValueRef shared, int count, bool transposed, LLVMValueRef results[4], Span span) {
    LLVMValueRef arguments[] = {s->self, host_shared(s, shared), simt_int(s, count), simt_int(s, transposed), word_at(s, 0), host_site(s, span)};
    host_call(s->e, HOST_phb_simt_ldmatrix, arguments, 6);
    for (int i = 0; i < count; i++)
        results[i] = LLVMBuildLoad2(s->e->builder, s->e->i32, word_at(s, i), "");
}

static PhbDType factor_type(SimtMma shape, bool is_signed) {
    switch (shape) {
    case MMA_F16:
        return PHB_F16;
    case MMA_BF16:
        return PHB_BF16;
    case MMA_TF32:
        return PHB_F32;
    case MMA_I8:
        break;
    }
    return is_signed ? PHB_I8 : PHB_U8;
}

void host_mma(Simt *s, SimtMma shape, bool a_signed, bool b_signed, const LLVMValueRef a[4], const LLVMValueRef b[2], const LLVMValueRef c[4],
    LLVMValueRef d[4], Span span) {
    Emitter *e = s->e;
    const LLVMValueRef words[] = {a[0], a[1], a[2], a[3], b[0], b[1], c[0], c[1], c[2], c[3]};
    for (int i = 0; i < 10; i++)
        LLVMBuildStore(e->builder, LLVMBuildBitCast(e->builder, words[i], e->i32, ""), word_at(s, i));
    LLVMValueRef arguments[] = {
        s->self, simt_int(s, factor_type(shape, a_signed)), simt_int(s, factor_type(shape, b_signed)), word_at(s, 0), host_site(s, span)};
    host_call(s->e, HOST_phb_simt_mma, arguments, 5);
    for (int i = 0; i < 4; i++)
        d[i] = LLVMBuildLoad2(e->builder, shape == MMA_I8 ? e->i32 : e->f32, word_at(s, 6 + i), "");
}
