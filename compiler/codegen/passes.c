#include "compiler/codegen/passes.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include <stddef.h>

/* -O2: what nests of loops and packed contractions gain by, each pass once. LLVM's own pipeline takes twice the time for the same loops. */
#define SIMPLIFY "instcombine<no-verify-fixpoint>,simplifycfg"
#define NEST_PIPELINE                                                                                                                                \
    "function(sroa,early-cse,simplifycfg),ipsccp,cgscc(inline),function(" SIMPLIFY ",loop-mssa(loop-rotate,licm),loop(indvars,loop-deletion),simplifycfg,"         \
    "loop-vectorize,early-cse," SIMPLIFY ",loop-unroll<O2>,loop-mssa(licm),early-cse<memssa>," SIMPLIFY "),globaldce,constmerge"

static LLVMTypeRef element_type(LLVMTypeRef type) {
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type;
}

/* LLVM narrows comparisons of widened halves, and takes a selection by one for a maximum of halves, which becomes a call of fmaxf where the processor
 * has no arithmetic for them. They are widened again. */
static void widen_comparison(LLVMBuilderRef builder, LLVMValueRef comparison) {
    LLVMTypeRef type = LLVMTypeOf(LLVMGetOperand(comparison, 0));
    if (LLVMGetTypeKind(element_type(type)) != LLVMHalfTypeKind)
        return;
    LLVMTypeRef wide = LLVMFloatTypeInContext(LLVMGetTypeContext(type));
    if (LLVMGetTypeKind(type) == LLVMVectorTypeKind)
        wide = LLVMVectorType(wide, LLVMGetVectorSize(type));
    LLVMPositionBuilderBefore(builder, comparison);
    for (unsigned i = 0; i < 2; i++)
        LLVMSetOperand(comparison, i, LLVMBuildFPExt(builder, LLVMGetOperand(comparison, i), wide, ""));
}

static void widen_comparisons(LLVMModuleRef module) {
    LLVMBuilderRef builder = LLVMCreateBuilderInContext(LLVMGetModuleContext(module));
    for (LLVMValueRef function = LLVMGetFirstFunction(module); function; function = LLVMGetNextFunction(function))
        for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(function); block; block = LLVMGetNextBasicBlock(block))
            for (LLVMValueRef value = LLVMGetFirstInstruction(block); value; value = LLVMGetNextInstruction(value))
                if (LLVMIsAFCmpInst(value))
                    widen_comparison(builder, value);
    LLVMDisposeBuilder(builder);
}

const char *module_optimise(LLVMModuleRef module, LLVMTargetMachineRef machine, int level) {
    static const char *const pipelines[] = {"default<O0>", "default<O1>", NEST_PIPELINE, "default<O3>"};
    char *message = NULL;
    if (LLVMVerifyModule(module, LLVMReturnStatusAction, &message))
        return message;
    LLVMDisposeMessage(message);
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(module, pipelines[level], machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (error)
        return LLVMGetErrorMessage(error);
    widen_comparisons(module);
    return NULL;
}
