/* One LLVM module an image: the stages of one variant for one target, through LLVM's passes to PTX text. */
#include "compiler/codegen/nvptx/nvptx.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Error.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include <stdlib.h>
#include <string.h>

#define TRIPLE "nvptx64-nvidia-cuda"

/* Extensions of sm_NN that LLVM names a processor of its own: "sm_90a". */
static LLVMTargetMachineRef make_machine(const NvptxTarget *target, int optimise, const char *file) {
    LLVMTargetRef llvm_target;
    char *message = NULL;
    if (LLVMGetTargetFromTriple(TRIPLE, &llvm_target, &message))
        unit_fail(file, "target setup for GPUs", message);
    static const LLVMCodeGenOptLevel levels[] = {LLVMCodeGenLevelNone, LLVMCodeGenLevelLess, LLVMCodeGenLevelDefault, LLVMCodeGenLevelAggressive};
    return LLVMCreateTargetMachine(llvm_target, TRIPLE, target->name, target->ptx, levels[optimise], LLVMRelocDefault, LLVMCodeModelDefault);
}

static void optimise_module(Emitter *e, LLVMTargetMachineRef machine, int optimise, const char *file) {
    char *message = NULL;
    if (LLVMVerifyModule(e->module, LLVMReturnStatusAction, &message))
        unit_fail(file, "code generation for GPUs", message);
    LLVMDisposeMessage(message);
    char pipeline[] = "default<O0>";
    pipeline[sizeof pipeline - 3] = (char)('0' + optimise);
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(e->module, pipeline, machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (error)
        unit_fail(file, "LLVM passes for GPUs", LLVMGetErrorMessage(error));
}

/* An intrinsic that LLVM does not know comes out as a call of an external function, and only the driver would say so. */
static void check_text(const char *text, const char *file) {
    const char *stray = strstr(text, "llvm.");
    if (!stray)
        stray = strstr(text, ".extern .func");
    if (stray)
        unit_fail(file, "LLVM code generation for GPUs", "an intrinsic that NVPTX does not have");
}

void nvptx_initialise(void) {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
}

Unit *nvptx_emit(
    Context *context, const NvptxTarget *target, const NvptxStage *stages, int count, int optimise, const char *file, const DebugSource *debug) {
    Unit *unit = NEW(context->arena, Unit);
    unit->machine = make_machine(target, optimise, file);
    unit->file = file;
    unit->optimise = optimise;
    Emitter *e = &unit->emitter;
    DebugSource lines = debug ? *debug : (DebugSource){0};
    lines.only_lines = true; /* full tables would turn optimisation off in drivers */
    emitter_init(e, context, unit->machine, TRIPLE, file, debug ? &lines : NULL);
    CpuLevel *arithmetic = NEW(context->arena, CpuLevel);
    *arithmetic = (CpuLevel){.name = target->name,
        .has_f16c = true,
        .has_bf16 = true,
        .pack_f16 = "llvm.nvvm.ff2f16x2.rn",
        .pack_bf16 = "llvm.nvvm.ff2bf16x2.rn",
        .has_fma = true,
        .vector_bytes = 16,
        .has_extremes = true,
        .exp2 = "llvm.nvvm.ex2.approx.ftz.f",
        .log2 = "llvm.nvvm.lg2.approx.ftz.f",
        .reciprocal = "llvm.nvvm.rcp.approx.ftz.f"};
    e->level = arithmetic;
    for (int i = 0; i < count; i++)
        simt_leaf(e, &target->simt, stages[i].kernel, stages[i].entry);
    return unit;
}

void nvptx_translate(Unit *unit) {
    optimise_module(&unit->emitter, unit->machine, unit->optimise, unit->file);
    unit_write(unit, LLVMAssemblyFile);
    check_text(unit->output.data, unit->file);
}
