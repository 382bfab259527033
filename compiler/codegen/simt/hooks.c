/* What targets and emitters share around single hooks: branches for predicates, shuffles of every type, accesses to shared memory. */
#include "compiler/codegen/simt/simt.h"

SimtBranch simt_branch_begin(Simt *s, LLVMValueRef predicate) {
    SimtBranch branch = {NULL, NULL};
    if (!predicate)
        return branch;
    branch.before = LLVMGetInsertBlock(s->e->builder);
    branch.after = block_append(s->e, "after");
    LLVMBasicBlockRef inside = block_append(s->e, "where");
    LLVMBuildCondBr(s->e->builder, predicate, inside, branch.after);
    LLVMPositionBuilderAtEnd(s->e->builder, inside);
    return branch;
}

LLVMValueRef simt_branch_end(Simt *s, const SimtBranch *branch, LLVMValueRef value) {
    if (!branch->before)
        return value;
    LLVMBasicBlockRef inside = LLVMGetInsertBlock(s->e->builder);
    LLVMMoveBasicBlockAfter(branch->after, inside);
    LLVMBuildBr(s->e->builder, branch->after);
    LLVMPositionBuilderAtEnd(s->e->builder, branch->after);
    if (!value)
        return NULL;
    LLVMValueRef phi = LLVMBuildPhi(s->e->builder, LLVMTypeOf(value), ""), zero = LLVMConstNull(LLVMTypeOf(value));
    LLVMAddIncoming(phi, (LLVMValueRef[]){value, zero}, (LLVMBasicBlockRef[]){inside, branch->before}, 2);
    return phi;
}

static LLVMValueRef shuffle_word(Simt *s, SimtShuffle way, LLVMValueRef word, LLVMValueRef lane, Span span) {
    return s->target->shuffle(s, way, word, lane, span);
}

LLVMValueRef simt_shuffle(Simt *s, SimtShuffle way, LLVMValueRef value, LLVMValueRef lane, Span span) {
    Emitter *e = s->e;
    LLVMBuilderRef builder = e->builder;
    LLVMTypeRef type = LLVMTypeOf(value);
    if (type == e->i32)
        return shuffle_word(s, way, value, lane, span);
    if (type == e->f32)
        return LLVMBuildBitCast(builder, shuffle_word(s, way, LLVMBuildBitCast(builder, value, e->i32, ""), lane, span), type, "");
    if (type == e->f64 || type == e->i64) {
        LLVMValueRef bits = LLVMBuildBitCast(builder, value, e->i64, ""), shift = emit_int_const(e, 32);
        LLVMValueRef low = shuffle_word(s, way, LLVMBuildTrunc(builder, bits, e->i32, ""), lane, span);
        LLVMValueRef high = shuffle_word(s, way, LLVMBuildTrunc(builder, LLVMBuildLShr(builder, bits, shift, ""), e->i32, ""), lane, span);
        LLVMValueRef both = LLVMBuildOr(
            builder, LLVMBuildZExt(builder, low, e->i64, ""), LLVMBuildShl(builder, LLVMBuildZExt(builder, high, e->i64, ""), shift, ""), "");
        return LLVMBuildBitCast(builder, both, type, "");
    }
    return LLVMBuildTrunc(builder, shuffle_word(s, way, LLVMBuildZExt(builder, value, e->i32, ""), lane, span), type, "");
}

LLVMValueRef simt_shared_load(Simt *s, LLVMTypeRef type, LLVMValueRef address, unsigned align, LLVMValueRef predicate, Span span) {
    SimtAccess access = {.space = SPACE_SHARED, .address = address, .type = type, .align = align, .predicate = predicate, .span = span};
    return s->target->load(s, &access);
}

void simt_shared_store(Simt *s, LLVMValueRef value, LLVMValueRef address, unsigned align, LLVMValueRef predicate, Span span) {
    SimtAccess access = {.space = SPACE_SHARED, .address = address, .type = LLVMTypeOf(value), .align = align, .predicate = predicate, .span = span};
    s->target->store(s, &access, value);
}
