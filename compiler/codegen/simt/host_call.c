/* Calls of what runtime/hooks.def names, declared in LLVM from the table's own C. */
#include "compiler/codegen/simt/host.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *result, *parameters;
} hooks[HOOK_COUNT] = {
#define HOOK(name, result, parameters) {#name, #result, #parameters},
#include "runtime/hooks.def"
#undef HOOK
};

/* Of "const uint64_t *", "int32_t rank" and the like. */
static LLVMTypeRef type_of(const Emitter *e, const char *text, size_t length) {
    static const char *const prefixes[] = {"int64_t", "uint64_t", "int32_t"};
    if (memchr(text, '*', length))
        return e->ptr;
    for (int i = 0; i < 3; i++)
        if (length >= strlen(prefixes[i]) && strncmp(text, prefixes[i], strlen(prefixes[i])) == 0)
            return i < 2 ? e->i64 : e->i32;
    return LLVMVoidTypeInContext(e->llvm);
}

static LLVMTypeRef hook_type(const Emitter *e, HostHook hook) {
    LLVMTypeRef parameters[10];
    unsigned count = 0;
    const char *at = hooks[hook].parameters + 1; /* after the bracket */
    for (;;) {
        size_t length = strcspn(at, ",)");
        parameters[count++] = type_of(e, at, length);
        if (at[length] == ')')
            break;
        at += length + 1;
        at += strspn(at, " ");
    }
    return LLVMFunctionType(type_of(e, hooks[hook].result, strlen(hooks[hook].result)), parameters, count, false);
}

LLVMValueRef host_call(Emitter *e, HostHook hook, LLVMValueRef *arguments, unsigned count) {
    LLVMTypeRef type = hook_type(e, hook);
    LLVMValueRef function = LLVMGetNamedFunction(e->module, hooks[hook].name);
    if (!function) {
        function = LLVMAddFunction(e->module, hooks[hook].name, type);
        unsigned nounwind = LLVMGetEnumAttributeKindForName("nounwind", sizeof "nounwind" - 1);
        LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(e->llvm, nounwind, 0));
    }
    return LLVMBuildCall2(e->builder, type, function, arguments, count, "");
}
