/* A stage of threads as the CPU device calls it: a range of CTAs or clusters. Threads that never wait for one another are the turns of a loop; others
 * are the runtime's fibers. */
#include "compiler/codegen/simt/host.h"

#include <stddef.h>
#include <string.h>

static void set_attribute(Emitter *e, LLVMValueRef function, const char *name, size_t length) {
    unsigned kind = LLVMGetEnumAttributeKindForName(name, length);
    LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(e->llvm, kind, 0));
}

static LLVMValueRef constant(Emitter *e, LLVMValueRef value) {
    LLVMValueRef global = LLVMAddGlobal(e->module, LLVMTypeOf(value), "");
    LLVMSetInitializer(global, value);
    LLVMSetGlobalConstant(global, true);
    LLVMSetLinkage(global, LLVMPrivateLinkage);
    return global;
}

static void store_field(Emitter *e, LLVMValueRef thread, size_t offset, LLVMValueRef value) {
    LLVMValueRef bytes = emit_int_const(e, (int64_t)offset);
    LLVMBuildStore(e->builder, value, LLVMBuildGEP2(e->builder, e->i8, thread, &bytes, 1, ""));
}

static LLVMValueRef align_up(Emitter *e, LLVMValueRef pointer) {
    LLVMValueRef mask = emit_int_const(e, -PHB_SHARED_ALIGN), more = emit_int_const(e, PHB_SHARED_ALIGN - 1);
    LLVMValueRef address = LLVMBuildAdd(e->builder, LLVMBuildPtrToInt(e->builder, pointer, e->i64, ""), more, "");
    LLVMValueRef skip = LLVMBuildSub(e->builder, LLVMBuildAnd(e->builder, address, mask, ""), LLVMBuildPtrToInt(e->builder, pointer, e->i64, ""), "");
    return LLVMBuildGEP2(e->builder, e->i8, pointer, &skip, 1, "");
}

/* for each CTA of the range, for each of its threads. Nobody reads a peer's memory without waiting for it, so CTAs of a cluster may share theirs. */
static void loop_over_threads(Emitter *e, const ThreadCode *code, LLVMValueRef function, int64_t ctas) {
    LLVMTypeRef parameters[2] = {e->ptr, e->ptr};
    LLVMTypeRef run_type = LLVMFunctionType(LLVMVoidTypeInContext(e->llvm), parameters, 2, false);
    LLVMValueRef launch = LLVMGetParam(function, 0), size = emit_int_const(e, ctas);
    LLVMValueRef thread = LLVMBuildArrayAlloca(e->builder, e->i8, emit_int_const(e, sizeof(PhbSimtThread)), "thread");
    LLVMSetAlignment(thread, _Alignof(PhbSimtThread));
    store_field(e, thread, offsetof(PhbSimtThread, shared), align_up(e, LLVMGetParam(function, 3)));
    Loop all =
        loop_begin(e, LLVMBuildMul(e->builder, LLVMGetParam(function, 1), size, ""), LLVMBuildMul(e->builder, LLVMGetParam(function, 2), size, ""));
    store_field(e, thread, offsetof(PhbSimtThread, cta), all.index);
    store_field(e, thread, offsetof(PhbSimtThread, rank), LLVMBuildURem(e->builder, all.index, size, ""));
    Loop threads = loop_begin(e, emit_int_const(e, 0), emit_int_const(e, code->threads));
    store_field(e, thread, offsetof(PhbSimtThread, thread), threads.index);
    LLVMBuildCall2(e->builder, run_type, code->run, (LLVMValueRef[]){launch, thread}, 2, "");
    loop_end(e, &threads, LOOP_PLAIN);
    loop_end(e, &all, LOOP_SCALAR);
    set_attribute(e, code->run, "alwaysinline", sizeof "alwaysinline" - 1);
}

static LLVMValueRef thread_stage(Emitter *e, const ThreadCode *code) {
    LLVMValueRef name = LLVMConstStringInContext2(e->llvm, code->name, strlen(code->name), false);
    LLVMValueRef fields[6] = {constant(e, name), code->run, LLVMConstInt(e->i32, (unsigned)code->threads, false),
        LLVMConstInt(e->i32, (unsigned)code->shared, false), LLVMConstNull(e->ptr), LLVMConstInt(e->i32, 0, false)};
    return LLVMConstStructInContext(e->llvm, fields, 6, false);
}

LLVMValueRef host_range(Emitter *e, const ThreadCode *code, const int64_t cluster[3], const char *name) {
    LLVMTypeRef parameters[4] = {e->ptr, e->i64, e->i64, e->ptr};
    LLVMValueRef function = LLVMAddFunction(e->module, name, LLVMFunctionType(LLVMVoidTypeInContext(e->llvm), parameters, 4, false));
    LLVMSetLinkage(function, LLVMInternalLinkage);
    function_set_level(e, function);
    LLVMPositionBuilderAtEnd(e->builder, LLVMAppendBasicBlockInContext(e->llvm, function, "entry"));
    if (code->waits) {
        LLVMValueRef size[3];
        for (int a = 0; a < 3; a++)
            size[a] = LLVMConstInt(e->i32, (unsigned long long)cluster[a], false);
        LLVMValueRef arguments[6] = {LLVMGetParam(function, 0), constant(e, thread_stage(e, code)), constant(e, LLVMConstArray2(e->i32, size, 3)),
            LLVMGetParam(function, 1), LLVMGetParam(function, 2), LLVMGetParam(function, 3)};
        host_call(e, HOST_phb_cta_range, arguments, 6);
    } else {
        loop_over_threads(e, code, function, cluster[0] * cluster[1] * cluster[2]);
    }
    LLVMBuildRetVoid(e->builder);
    return function;
}
