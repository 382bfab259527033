/* LLVM modules: leaves and table go in, passes run, text or an object comes out. A leaf is emitted once a CPU level. For an object each level has a
 * module of its own, and so has the table; threads optimise and translate them, and the objects are merged, in one order whatever the threads. Text
 * is one module. */
#include "compiler/codegen/host/host.h"
#include "compiler/codegen/passes.h"
#include "compiler/codegen/simt/split.h"

#include <pthread.h>
#include <stdatomic.h>
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

void emitter_init(Emitter *e, Context *context, LLVMTargetMachineRef machine, const char *triple, const char *file, const DebugSource *debug) {
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
        .bf16 = LLVMBFloatTypeInContext(llvm),
        .f32 = LLVMFloatTypeInContext(llvm),
        .f64 = LLVMDoubleTypeInContext(llvm),
        .ptr = LLVMPointerTypeInContext(llvm, 0),
    };
    LLVMSetTarget(e->module, triple);
    LLVMSetModuleDataLayout(e->module, e->layout);
    debug_begin(e, debug);
}

void emitter_fini(Emitter *e) {
    if (e->debug)
        LLVMDisposeDIBuilder(e->debug);
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
        int bytes = first ? 16 : strcmp(name, "x86-64-v3") == 0 ? 32 : 64;
        *level = (CpuLevel){.name = name, .cpu = name, .features = "", .has_f16c = !first, .has_fma = !first, .vector_bytes = bytes};
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

void function_use_widest(Emitter *e, LLVMValueRef function) {
    if (e->level->vector_bytes == 64)
        set_attribute(e, function, "prefer-vector-width", "512");
}

/* ---- what is in a module ---- */

static const char *leaf_name(Context *context, const ClusterKernel *kernel, int variant, int stage, const char *level) {
    const char *name = kernel->variants.items[variant].stages[stage]->signature.name;
    const char *part = kernel->stages.count > 1 ? arena_printf(context->arena, ".stage%d", stage) : "";
    return arena_printf(context->arena, "%s.%d%s.%s", name, variant, part, level);
}

/* Local to the output: merging makes hidden symbols local. */
static void hide(LLVMValueRef function, bool is_alone) {
    LLVMSetLinkage(function, is_alone ? LLVMInternalLinkage : LLVMExternalLinkage);
    LLVMSetVisibility(function, is_alone ? LLVMDefaultVisibility : LLVMHiddenVisibility);
}

/* A stage with thread code. */
static LLVMValueRef emit_threads(Emitter *e, const LeafVariant *variant, int stage, const char *name, int64_t *scratch) {
    const IrKernel *threads = variant->threads[stage];
    int64_t cluster[3];
    cluster_extents(e->context, &threads->signature, variant->values, cluster);
    *scratch = PHB_CTA_SCRATCH(threads->shared_bytes, cluster[0] * cluster[1] * cluster[2]);
    LLVMValueRef split = split_fits(threads) ? split_range(e, threads, name) : NULL;
    if (split)
        return split;
    ThreadCode code = simt_code(e, &simt_cpu, threads, arena_printf(e->context->arena, "%s.thread", name));
    return host_range(e, &code, cluster, name);
}

static void emit_variant(Emitter *e, const ClusterKernel *kernel, int number, LeafCode *code, bool is_alone) {
    const LeafVariant *variant = &kernel->variants.items[number];
    for (int stage = 0; stage < kernel->stages.count; stage++) {
        int64_t scratch;
        const Plan *plan = code->plans[stage];
        const char *name = leaf_name(e->context, kernel, number, stage, e->level->name);
        LLVMValueRef function = plan ? host_leaf(e, variant->stages[stage], plan, name, &scratch) : emit_threads(e, variant, stage, name, &scratch);
        function_set_level(e, function);
        hide(function, is_alone);
        code->scratch = scratch > code->scratch ? scratch : code->scratch;
    }
}

/* All leaves for one level. */
static void emit_level(Emitter *e, const ClusterProgram *program, LeafCode *const *code, const char *level, bool is_alone) {
    e->level = find_level(e->context, level);
    for (int k = 0; k < program->kernels.count; k++)
        for (int v = 0; v < program->kernels.items[k]->variants.count; v++)
            emit_variant(e, program->kernels.items[k], v, &code[k][v], is_alone);
}

const char *simulator_name(Context *context, const ClusterKernel *kernel, int variant, int stage) {
    return arena_printf(context->arena, "%s.%d.stage%d.simt", kernel->kernel->signature.name, variant, stage);
}

/* What the simulator runs, for one level. Whichever was laid out for, all hooks are there. */
static void emit_simulator(Emitter *e, const ClusterProgram *program, const char *level) {
    e->level = find_level(e->context, level);
    for (int k = 0; k < program->kernels.count; k++) {
        const ClusterKernel *kernel = program->kernels.items[k];
        for (int v = 0; v < kernel->gpu_variants.count; v++)
            for (int s = 0; kernel->gpu_variants.items[v].threads && s < kernel->stages.count; s++)
                simt_code(e, &simt_simulator_bulk, kernel->gpu_variants.items[v].threads[s], simulator_name(e->context, kernel, v, s));
    }
}

/* The functions of a variant, as the table's module knows them. */
static void find_functions(Emitter *e, const ClusterKernel *kernel, int variant, const CodegenOptions *options, LeafCode *code) {
    LLVMTypeRef parameters[4] = {e->ptr, e->i64, e->i64, e->ptr};
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(e->llvm), parameters, 4, false);
    for (int i = 0; i < options->level_count; i++)
        for (int stage = 0; stage < kernel->stages.count; stage++) {
            const char *name = leaf_name(e->context, kernel, variant, stage, options->levels[i]);
            LLVMValueRef function = LLVMGetNamedFunction(e->module, name);
            if (!function) {
                function = LLVMAddFunction(e->module, name, type);
                hide(function, false);
            }
            code->functions[i * kernel->stages.count + stage] = function;
        }
}

static void emit_table(Emitter *e, const ClusterProgram *program, const CodegenOptions *options, LeafCode *const *code) {
    for (int k = 0; k < program->kernels.count; k++)
        for (int v = 0; v < program->kernels.items[k]->variants.count; v++)
            find_functions(e, program->kernels.items[k], v, options, &code[k][v]);
    emit_simulator(e, program, options->levels[0]);
    emit_program_table(e, program, options, code);
}

/* Stages of thread code have no plan. False after an error in the diagnostics. */
static bool plan_variant(Context *context, const ClusterKernel *kernel, int number, int level_count, LeafCode *code) {
    const LeafVariant *variant = &kernel->variants.items[number];
    code->plans = NEW_ARRAY(context->arena, const Plan *, kernel->stages.count);
    code->functions = NEW_ARRAY(context->arena, LLVMValueRef, kernel->stages.count * level_count);
    for (int stage = 0; stage < kernel->stages.count; stage++) {
        if (variant->threads[stage])
            continue;
        code->plans[stage] = plan_leaf(context, variant->stages[stage]);
        if (!code->plans[stage])
            return false;
    }
    return true;
}

/* NULL after an error in the diagnostics. */
static LeafCode **plan_program(Context *context, const ClusterProgram *program, int level_count) {
    LeafCode **code = NEW_ARRAY(context->arena, LeafCode *, program->kernels.count);
    for (int k = 0; k < program->kernels.count; k++) {
        const ClusterKernel *kernel = program->kernels.items[k];
        code[k] = NEW_ARRAY(context->arena, LeafCode, kernel->variants.count);
        for (int v = 0; v < kernel->variants.count; v++)
            if (!plan_variant(context, kernel, v, level_count, &code[k][v]))
                return NULL;
    }
    return code;
}

/* ---- modules to files ---- */

typedef struct Unit {
    Emitter emitter;
    LLVMTargetMachineRef machine;
    Buffer output;
} Unit;

typedef struct Work {
    const ClusterProgram *program;
    int optimise;
    CodegenOutput output;
    Unit *units;
    int count;
    atomic_int next;
} Work;

static void translate(const Work *work, Unit *unit) {
    const char *broken = module_optimise(unit->emitter.module, unit->machine, work->optimise);
    if (broken)
        internal_error(work->program, "LLVM passes", broken);
    if (work->output == CODEGEN_LLVM) {
        char *text = LLVMPrintModuleToString(unit->emitter.module);
        buffer_puts(&unit->output, text);
        LLVMDisposeMessage(text);
        return;
    }
    char *message = NULL;
    LLVMMemoryBufferRef memory;
    LLVMCodeGenFileType type = work->output == CODEGEN_ASM ? LLVMAssemblyFile : LLVMObjectFile;
    if (LLVMTargetMachineEmitToMemoryBuffer(unit->machine, unit->emitter.module, type, &message, &memory))
        internal_error(work->program, "LLVM code generation", message);
    buffer_append(&unit->output, LLVMGetBufferStart(memory), LLVMGetBufferSize(memory));
    LLVMDisposeMemoryBuffer(memory);
}

static void *translate_next(void *argument) {
    Work *work = argument;
    int next;
    while ((next = atomic_fetch_add(&work->next, 1)) < work->count)
        translate(work, &work->units[next]);
    return NULL;
}

/* In this thread and so many more; where one cannot be had, those that are there do its work. */
static void translate_all(Context *context, Work *work, int jobs) {
    int others = (jobs < work->count ? jobs : work->count) - 1, started = 0;
    pthread_t *threads = NEW_ARRAY(context->arena, pthread_t, others + 1);
    while (started < others && pthread_create(&threads[started], NULL, translate_next, work) == 0)
        started++;
    translate_next(work);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

void codegen_program(Context *context, const ClusterProgram *program, const CodegenOptions *options, CodegenOutput output, Buffer *buffer) {
    LeafCode **code = plan_program(context, program, options->level_count);
    if (!code)
        return;
    bool is_alone = output != CODEGEN_OBJECT;
    Work work = {.program = program, .optimise = options->optimise, .output = output, .count = is_alone ? 1 : options->level_count + 1};
    work.units = NEW_ARRAY(context->arena, Unit, work.count);
    for (int i = 0; i < work.count; i++) {
        work.units[i].machine = make_machine(program, options->optimise);
        emitter_init(&work.units[i].emitter, context, work.units[i].machine, TRIPLE, program->file, options->debug);
    }
    for (int i = 0; i < options->level_count; i++)
        emit_level(&work.units[is_alone ? 0 : i].emitter, program, code, options->levels[i], is_alone);
    emit_table(&work.units[work.count - 1].emitter, program, options, code);
    for (int i = 0; i < work.count; i++)
        debug_end(&work.units[i].emitter);
    translate_all(context, &work, options->jobs);

    const Buffer **objects = NEW_ARRAY(context->arena, const Buffer *, work.count);
    for (int i = 0; i < work.count; i++)
        objects[i] = &work.units[i].output;
    if (is_alone)
        buffer_append(buffer, objects[0]->data, objects[0]->length);
    else
        merge_objects(context->arena, objects, work.count, buffer);
    for (int i = 0; i < work.count; i++) {
        emitter_fini(&work.units[i].emitter);
        LLVMDisposeTargetMachine(work.units[i].machine);
        buffer_free(&work.units[i].output);
    }
}
