/* Counted loops, as blocks and a phi. */
#include "compiler/codegen/emit.h"

#include <string.h>

enum { UNROLLED_TURNS = 4, MOST_TURNS = 64 };

LLVMBasicBlockRef block_append(Emitter *e, const char *name) {
    LLVMValueRef function = LLVMGetBasicBlockParent(LLVMGetInsertBlock(e->builder));
    return LLVMAppendBasicBlockInContext(e->llvm, function, name);
}

Loop loop_begin(Emitter *e, LLVMValueRef first, LLVMValueRef last) {
    LLVMBasicBlockRef before = LLVMGetInsertBlock(e->builder);
    Loop loop = {.header = block_append(e, "loop")};
    LLVMBasicBlockRef body = block_append(e, "body");
    loop.exit = block_append(e, "exit");
    LLVMBuildBr(e->builder, loop.header);
    LLVMPositionBuilderAtEnd(e->builder, loop.header);
    loop.index = LLVMBuildPhi(e->builder, e->i64, "");
    LLVMAddIncoming(loop.index, &first, &before, 1);
    LLVMBuildCondBr(e->builder, LLVMBuildICmp(e->builder, LLVMIntSLT, loop.index, last, ""), body, loop.exit);
    LLVMPositionBuilderAtEnd(e->builder, body);
    return loop;
}

static LLVMMetadataRef flag(Emitter *e, const char *name, LLVMValueRef value) {
    LLVMMetadataRef items[2] = {LLVMMDStringInContext2(e->llvm, name, strlen(name)), value ? LLVMValueAsMetadata(value) : NULL};
    return LLVMMDNodeInContext2(e->llvm, items, value ? 2 : 1);
}

/* A loop's metadata names itself first, which makes it distinct. */
void loop_close_unrolled(Emitter *e, LLVMBasicBlockRef header, int64_t turns) {
    LLVMValueRef branch = LLVMBuildBr(e->builder, header);
    LLVMMetadataRef self = LLVMTemporaryMDNode(e->llvm, NULL, 0);
    LLVMValueRef count = LLVMConstInt(e->i32, (uint64_t)(turns < MOST_TURNS ? turns : MOST_TURNS), false);
    LLVMMetadataRef unroll = turns > 1 ? flag(e, "llvm.loop.unroll.count", count) : flag(e, "llvm.loop.unroll.disable", NULL);
    LLVMMetadataRef items[3] = {self, flag(e, "llvm.loop.vectorize.enable", LLVMConstNull(e->i1)), unroll};
    LLVMMetadataRef node = LLVMMDNodeInContext2(e->llvm, items, 3);
    LLVMMetadataReplaceAllUsesWith(self, node);
    LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(e->llvm, "llvm.loop", sizeof "llvm.loop" - 1), LLVMMetadataAsValue(e->llvm, node));
}

void loop_close(Emitter *e, LLVMBasicBlockRef header, LoopShape shape) {
    if (shape == LOOP_PLAIN)
        LLVMBuildBr(e->builder, header);
    else
        loop_close_unrolled(e, header, shape == LOOP_UNROLLED ? UNROLLED_TURNS : 1);
}

void loop_end(Emitter *e, Loop *loop, LoopShape shape) {
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(e->builder);
    LLVMValueRef next = LLVMBuildNSWAdd(e->builder, loop->index, LLVMConstInt(e->i64, 1, false), "");
    LLVMAddIncoming(loop->index, &next, &latch, 1);
    loop_close(e, loop->header, shape);
    LLVMPositionBuilderAtEnd(e->builder, loop->exit);
}

/* ceil of the distance over the step, as an unsigned number: right for every start and end. A step of 0 gives none. */
LLVMValueRef emit_trip_count(Emitter *e, LLVMValueRef start, LLVMValueRef end, LLVMValueRef step) {
    LLVMBuilderRef builder = e->builder;
    LLVMValueRef zero = emit_int_const(e, 0), one = emit_int_const(e, 1);
    LLVMValueRef rises = LLVMBuildICmp(builder, LLVMIntSGT, step, zero, "");
    LLVMValueRef low = LLVMBuildSelect(builder, rises, start, end, ""), high = LLVMBuildSelect(builder, rises, end, start, "");
    LLVMValueRef size = LLVMBuildSelect(builder, rises, step, LLVMBuildNeg(builder, step, ""), "");
    LLVMValueRef is_zero = LLVMBuildICmp(builder, LLVMIntEQ, step, zero, "");
    size = LLVMBuildSelect(builder, is_zero, one, size, "");
    LLVMValueRef any = LLVMBuildAnd(builder, LLVMBuildICmp(builder, LLVMIntSLT, low, high, ""), LLVMBuildNot(builder, is_zero, ""), "");
    LLVMValueRef last = LLVMBuildUDiv(builder, LLVMBuildSub(builder, LLVMBuildSub(builder, high, low, ""), one, ""), size, "");
    return LLVMBuildSelect(builder, any, LLVMBuildAdd(builder, last, one, ""), zero, "");
}
