/* LLVM's passes over a module of ours. */
#ifndef PHOBOS_CODEGEN_PASSES_H
#define PHOBOS_CODEGEN_PASSES_H

#include <llvm-c/TargetMachine.h>

/* Verifies and optimises, at level 0 to 3. NULL, or what is wrong with the module. */
const char *module_optimise(LLVMModuleRef module, LLVMTargetMachineRef machine, int level);

#endif
