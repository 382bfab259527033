/* Internal functions of the module: made once for each name, which ends in the CPU level that they are compiled for. */
#ifndef PHOBOS_CODEGEN_PART_H
#define PHOBOS_CODEGEN_PART_H

#include "compiler/codegen/emit.h"

/* An internal function of no result, for e->level. */
typedef struct PartFunction {
    LLVMValueRef function;
    LLVMTypeRef type;
    LLVMBasicBlockRef caller;
    LLVMMetadataRef place; /* in the caller, of the line table */
} PartFunction;
/* True where `name` was made before: then there is nothing to emit. Else the builder is at its entry, until part_end takes it back to the caller. */
bool part_begin(Emitter *e, const char *name, LLVMTypeRef *parameters, int count, PartFunction *part);
void part_end(Emitter *e, PartFunction *part);
void part_call(Emitter *e, const PartFunction *part, LLVMValueRef *arguments, int count);

LLVMValueRef part_address(Emitter *e, LLVMValueRef base, LLVMValueRef bytes);

#endif
