/* Internal functions of the module that code of one CPU level shares. */
#include "compiler/codegen/host/part.h"

bool part_begin(Emitter *e, const char *name, LLVMTypeRef *parameters, int count, PartFunction *part) {
    *part = (PartFunction){.type = LLVMFunctionType(LLVMVoidTypeInContext(e->llvm), parameters, (unsigned)count, false)};
    part->function = LLVMGetNamedFunction(e->module, name);
    if (part->function)
        return true;
    part->function = LLVMAddFunction(e->module, name, part->type);
    LLVMSetLinkage(part->function, LLVMInternalLinkage);
    function_set_level(e, part->function);
    unsigned noinline = LLVMGetEnumAttributeKindForName("noinline", sizeof "noinline" - 1);
    LLVMAddAttributeAtIndex(part->function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(e->llvm, noinline, 0));
    part->caller = LLVMGetInsertBlock(e->builder);
    part->place = emit_place(e);
    emit_at_place(e, NULL);
    LLVMPositionBuilderAtEnd(e->builder, LLVMAppendBasicBlockInContext(e->llvm, part->function, "entry"));
    return false;
}

void part_end(Emitter *e, PartFunction *part) {
    LLVMPositionBuilderAtEnd(e->builder, part->caller);
    emit_at_place(e, part->place);
}

void part_call(Emitter *e, const PartFunction *part, LLVMValueRef *arguments, int count) {
    LLVMBuildCall2(e->builder, part->type, part->function, arguments, (unsigned)count, "");
}

LLVMValueRef part_address(Emitter *e, LLVMValueRef base, LLVMValueRef bytes) {
    return LLVMBuildGEP2(e->builder, e->i8, base, &bytes, 1, "");
}
