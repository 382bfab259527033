/* One LLVM module a compilation: leaves and table go in, passes run, text or an object comes out. A leaf is emitted once a CPU level; the level is an
 * attribute of the function, so that one pass run and one target machine serve all. */
#include "compiler/codegen/host/host.h"
#include "compiler/codegen/simt/host.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Error.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include <stdlib.h>
#include <string.h>

#define TRIPLE "x86_64-unknown-linux-gnu"

_Noreturn static void internal_error(const ClusterProgram *program, const char *pass, const char *message) {
    fprintf(stderr, "phobosc: internal error in %s of '%s': %s\n", pass, program->file, message);
    abort();
}

static LLVMTargetMachineRef make_machine(const ClusterProgram *program, int optimise) {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMTargetRef target;
    char *message = NULL;
    if (LLVMGetTargetFromTriple(TRIPLE, &target, &message))
        internal_error(program, "target setup", message);
    static const LLVMCodeGenOptLevel levels[] = {LLVMCodeGenLevelNone, LLVMCodeGenLevelLess, LLVMCodeGenLevelDefault, LLVMCodeGenLevelAggressive};
    return LLVMCreateTargetMachine(target, TRIPLE, "x86-64", "", levels[optimise], LLVMRelocPIC, LLVMCodeModelDefault);
}

void emitter_init(Emitter *e, Context *context, LLVMTargetMachineRef machine, const char *triple, const char *file) {
    LLVMContextRef llvm = LLVMContextCreate();
    *e = (Emitter){
        .context = context,
        .llvm = llvm,
        .module = LLVMModuleCreateWithNameInContext(file, llvm),
        .builder = LLVMCreateBuilderInContext(llvm),
        .layout = LLVMCreateTargetDataLayout(machine),
        .i1 = LLVMInt1TypeInContext(llvm),
        .i8 = LLVMInt8TypeInContext(llvm),
        .i16 = LLVMInt16TypeInContext(llvm),
        .i32 = LLVMInt32TypeInContext(llvm),
        .i64 = LLVMInt64TypeInContext(llvm),
        .f16 = LLVMHalfTypeInContext(llvm),
        .f32 = LLVMFloatTypeInContext(llvm),
        .f64 = LLVMDoubleTypeInContext(llvm),
        .ptr = LLVMPointerTypeInContext(llvm, 0),
    };
    LLVMSetTarget(e->module, triple);
    LLVMSetModuleDataLayout(e->module, e->layout);
}

void emitter_fini(Emitter *e) {
    LLVMDisposeTargetData(e->layout);
    LLVMDisposeBuilder(e->builder);
    LLVMDisposeModule(e->module);
    LLVMContextDispose(e->llvm);
}

/* ---- CPU levels ---- */

static CpuLevel *find_level(Context *context, const char *name) {
    CpuLevel *level = NEW(context->arena, CpuLevel);
    if (strcmp(name, "native") != 0) {
        bool first = strcmp(name, "x86-64-v2") == 0;
        *level = (CpuLevel){name, name, "", !first, !first, first ? 16 : strcmp(name, "x86-64-v3") == 0 ? 32 : 64};
        return level;
    }
    char *cpu = LLVMGetHostCPUName(), *features = LLVMGetHostCPUFeatures();
    *level = (CpuLevel){.name = name, .cpu = arena_printf(context->arena, "%s", cpu), .features = arena_printf(context->arena, "%s", features)};
    level->has_f16c = strstr(features, "+f16c") != NULL;
    level->has_fma = strstr(features, "+fma") != NULL;
    level->vector_bytes = strstr(features, "+avx512vl") ? 64 : strstr(features, "+avx2") ? 32 : 16;
    LLVMDisposeMessage(cpu);
    LLVMDisposeMessage(features);
    return level;
}

static void set_attribute(Emitter *e, LLVMValueRef function, const char *key, const char *value) {
    LLVMAttributeRef attribute = LLVMCreateStringAttribute(e->llvm, key, (unsigned)strlen(key), value, (unsigned)strlen(value));
    LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, attribute);
}

void function_set_level(Emitter *e, LLVMValueRef function) {
    set_attribute(e, function, "target-cpu", e->level->cpu);
    if (*e->level->features)
        set_attribute(e, function, "target-features", e->level->features);
    unsigned nounwind = LLVMGetEnumAttributeKindForName("nounwind", sizeof "nounwind" - 1);
    LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(e->llvm, nounwind, 0));
}

/* ---- leaves ---- */

/* A stage with thread code. */
static LLVMValueRef emit_threads(Emitter *e, const LeafVariant *variant, int stage, const char *name, int64_t *scratch) {
    const IrKernel *threads = variant->threads[stage];
    int64_t cluster[3];
    cluster_extents(e->context, &threads->signature, variant->values, cluster);
    *scratch = PHB_CTA_SCRATCH(threads->shared_bytes, cluster[0] * cluster[1] * cluster[2]);
    ThreadCode code = simt_code(e, &simt_cpu, threads, arena_printf(e->context->arena, "%s.thread", name));
    return host_range(e, &code, cluster, name);
}

static bool emit_variant(Emitter *e, const ClusterKernel *kernel, int number, const CodegenOptions *options, LeafCode *code) {
    const LeafVariant *variant = &kernel->variants.items[number];
    code->functions = NEW_ARRAY(e->context->arena, LLVMValueRef, kernel->stages.count * options->level_count);
    for (int stage = 0; stage < kernel->stages.count; stage++) {
        const IrKernel *leaf = variant->stages[stage];
        Plan *plan = variant->threads[stage] ? NULL : plan_leaf(e->context, leaf);
        if (!variant->threads[stage] && !plan)
            return false;
        int64_t scratch = plan ? plan->scratch : 0;
        const char *part = kernel->stages.count > 1 ? arena_printf(e->context->arena, ".stage%d", stage) : "";
        for (int i = 0; i < options->level_count; i++) {
            e->level = find_level(e->context, options->levels[i]);
            const char *name = arena_printf(e->context->arena, "%s.%d%s.%s", leaf->signature.name, number, part, options->levels[i]);
            LLVMValueRef function = plan ? host_leaf(e, leaf, plan, name) : emit_threads(e, variant, stage, name, &scratch);
            function_set_level(e, function);
            code->functions[i * kernel->stages.count + stage] = function;
        }
        code->scratch = scratch > code->scratch ? scratch : code->scratch;
    }
    return true;
}

const char *simulator_name(Context *context, const ClusterKernel *kernel, int variant, int stage) {
    return arena_printf(context->arena, "%s.%d.stage%d.simt", kernel->kernel->signature.name, variant, stage);
}

/* What the simulator runs, for one level. */
static void emit_simulator(Emitter *e, const ClusterProgram *program, const char *level) {
    e->level = find_level(e->context, level);
    for (int k = 0; k < program->kernels.count; k++) {
        const ClusterKernel *kernel = program->kernels.items[k];
        for (int v = 0; v < kernel->gpu_variants.count; v++)
            for (int s = 0; kernel->gpu_variants.items[v].threads && s < kernel->stages.count; s++)
                simt_code(e, &simt_simulator, kernel->gpu_variants.items[v].threads[s], simulator_name(e->context, kernel, v, s));
    }
}

/* False after an error in the diagnostics. */
static bool emit_module(Emitter *e, const ClusterProgram *program, const CodegenOptions *options) {
    LeafCode **code = NEW_ARRAY(e->context->arena, LeafCode *, program->kernels.count);
    for (int k = 0; k < program->kernels.count; k++) {
        const ClusterKernel *kernel = program->kernels.items[k];
        code[k] = NEW_ARRAY(e->context->arena, LeafCode, kernel->variants.count);
        for (int v = 0; v < kernel->variants.count; v++)
            if (!emit_variant(e, kernel, v, options, &code[k][v]))
                return false;
    }
    emit_simulator(e, program, options->levels[0]);
    emit_program_table(e, program, options, code);
    return true;
}

/* ---- passes and output ---- */

static void run_passes(const ClusterProgram *program, Emitter *e, LLVMTargetMachineRef machine, int optimise) {
    char *message = NULL;
    if (LLVMVerifyModule(e->module, LLVMReturnStatusAction, &message))
        internal_error(program, "code generation", message);
    LLVMDisposeMessage(message);
    char pipeline[] = "default<O0>";
    pipeline[sizeof pipeline - 3] = (char)('0' + optimise);
    LLVMPassBuilderOptionsRef pass_options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(e->module, pipeline, machine, pass_options);
    LLVMDisposePassBuilderOptions(pass_options);
    if (error)
        internal_error(program, "LLVM passes", LLVMGetErrorMessage(error));
}

static void print_machine_code(const ClusterProgram *program, Emitter *e, LLVMTargetMachineRef machine, LLVMCodeGenFileType type, Buffer *buffer) {
    char *message = NULL;
    LLVMMemoryBufferRef memory;
    if (LLVMTargetMachineEmitToMemoryBuffer(machine, e->module, type, &message, &memory))
        internal_error(program, "LLVM code generation", message);
    buffer_append(buffer, LLVMGetBufferStart(memory), LLVMGetBufferSize(memory));
    LLVMDisposeMemoryBuffer(memory);
}

void codegen_program(Context *context, const ClusterProgram *program, const CodegenOptions *options, CodegenOutput output, Buffer *buffer) {
    LLVMTargetMachineRef machine = make_machine(program, options->optimise);
    Emitter emitter;
    emitter_init(&emitter, context, machine, TRIPLE, program->file);
    if (emit_module(&emitter, program, options)) {
        run_passes(program, &emitter, machine, options->optimise);
        if (output == CODEGEN_LLVM) {
            char *text = LLVMPrintModuleToString(emitter.module);
            buffer_puts(buffer, text);
            LLVMDisposeMessage(text);
        } else {
            print_machine_code(program, &emitter, machine, output == CODEGEN_ASM ? LLVMAssemblyFile : LLVMObjectFile, buffer);
        }
    }
    emitter_fini(&emitter);
    LLVMDisposeTargetMachine(machine);
}
