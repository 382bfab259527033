/* A stage of threads that are the runtime's fibers, as the CPU device calls it: a range of CTAs or clusters. */
#include "compiler/codegen/simt/host.h"

#include <string.h>

static LLVMValueRef constant(Emitter *e, LLVMValueRef value) {
    LLVMValueRef global = LLVMAddGlobal(e->module, LLVMTypeOf(value), "");
    LLVMSetInitializer(global, value);
    LLVMSetGlobalConstant(global, true);
    LLVMSetLinkage(global, LLVMPrivateLinkage);
    return global;
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
    emit_at_place(e, NULL);
    LLVMValueRef size[3];
    for (int a = 0; a < 3; a++)
        size[a] = LLVMConstInt(e->i32, (unsigned long long)cluster[a], false);
    LLVMValueRef arguments[6] = {LLVMGetParam(function, 0), constant(e, thread_stage(e, code)), constant(e, LLVMConstArray2(e->i32, size, 3)),
        LLVMGetParam(function, 1), LLVMGetParam(function, 2), LLVMGetParam(function, 3)};
    host_call(e, HOST_phb_cta_range, arguments, 6);
    LLVMBuildRetVoid(e->builder);
    return function;
}
