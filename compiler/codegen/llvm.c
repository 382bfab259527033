/* LLVM modules: leaves and table go in, text or an object comes out. A leaf is emitted once a CPU level. For an object each level of each kernel has
 * a module of its own, and so has the table; threads optimise and translate them, and the objects are merged, in one order whatever the threads. Text
 * is one module. */
#include "compiler/codegen/host/host.h"
#include "compiler/codegen/passes.h"
#include "compiler/codegen/simt/split.h"
#include "compiler/codegen/units.h"

#include <stdlib.h>
#include <string.h>

#define TRIPLE "x86_64-unknown-linux-gnu"

static void initialise_target(void) {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
}

static LLVMTargetMachineRef make_machine(const ClusterProgram *program, int optimise) {
    LLVMTargetRef target;
    char *message = NULL;
    if (LLVMGetTargetFromTriple(TRIPLE, &target, &message))
        unit_fail(program->file, "target setup", message);
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

/* The leaves of a kernel for one level. */
static void emit_level(Emitter *e, const ClusterKernel *kernel, LeafCode *code, const char *level, bool is_alone) {
    e->level = find_level(e->context, level);
    for (int v = 0; v < kernel->variants.count; v++)
        emit_variant(e, kernel, v, &code[v], is_alone);
}

const char *simulator_name(Context *context, const ClusterKernel *kernel, int variant, int stage) {
    return arena_printf(context->arena, "%s.%d.stage%d.simt", kernel->kernel->signature.name, variant, stage);
}

/* What the simulator runs of a variant. Whichever was laid out for, all hooks are there. */
static void emit_simulator(Emitter *e, const ClusterKernel *kernel, int variant, const char *level, bool is_alone) {
    e->level = find_level(e->context, level);
    for (int s = 0; s < kernel->stages.count; s++) {
        const IrKernel *threads = kernel->gpu_variants.items[variant].threads[s];
        hide(simt_code(e, &simt_simulator_bulk, threads, simulator_name(e->context, kernel, variant, s)).run, is_alone);
    }
    const IrKernel *pass = kernel->gpu_variants.items[variant].pass;
    if (pass)
        hide(simt_code(e, &simt_simulator_bulk, pass, simulator_name(e->context, kernel, variant, kernel->stages.count)).run, is_alone);
}

LLVMValueRef find_function(Emitter *e, const char *name) {
    LLVMValueRef function = LLVMGetNamedFunction(e->module, name);
    if (!function) {
        function = LLVMAddFunction(e->module, name, LLVMFunctionType(LLVMVoidTypeInContext(e->llvm), NULL, 0, false));
        hide(function, false);
    }
    return function;
}

static void find_functions(Emitter *e, const ClusterKernel *kernel, int variant, const CodegenOptions *options, LeafCode *code) {
    for (int i = 0; i < options->level_count; i++)
        for (int stage = 0; stage < kernel->stages.count; stage++)
            code->functions[i * kernel->stages.count + stage] = find_function(e, leaf_name(e->context, kernel, variant, stage, options->levels[i]));
}

static void emit_table(Emitter *e, const ClusterProgram *program, const CodegenOptions *options, LeafCode *const *code) {
    for (int k = 0; k < program->kernels.count; k++)
        for (int v = 0; v < program->kernels.items[k]->variants.count; v++)
            find_functions(e, program->kernels.items[k], v, options, &code[k][v]);
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

static void translate(Unit *unit) {
    const char *broken = module_optimise(unit->emitter.module, unit->machine, unit->optimise);
    if (broken)
        unit_fail(unit->file, "LLVM passes", broken);
    if (unit->form == CODEGEN_LLVM) {
        char *text = LLVMPrintModuleToString(unit->emitter.module);
        buffer_puts(&unit->output, text);
        LLVMDisposeMessage(text);
        return;
    }
    unit_write(unit, unit->form == CODEGEN_ASM ? LLVMAssemblyFile : LLVMObjectFile);
}

typedef struct Build {
    Context *context;
    const ClusterProgram *program;
    const CodegenOptions *options;
    LeafCode **code;
    Units *units;
    VEC(const Buffer *) objects;
} Build;

static Unit *unit_begin(Build *b, CodegenOutput form) {
    Unit *unit = NEW(b->context->arena, Unit);
    unit->machine = make_machine(b->program, b->options->optimise);
    unit->file = b->program->file;
    unit->optimise = b->options->optimise;
    unit->form = form;
    emitter_init(&unit->emitter, b->context, unit->machine, TRIPLE, b->program->file, b->options->debug);
    return unit;
}

static void unit_end(Build *b, Unit *unit) {
    vec_push(b->context->arena, &b->objects, &unit->output);
    units_add(b->units, unit);
}

/* A unit for each level of each kernel, one for each of the simulator's variants, one for the table. */
static void emit_units(Build *b) {
    const CodegenOptions *options = b->options;
    for (int k = 0; k < b->program->kernels.count; k++) {
        for (int i = 0; i < options->level_count; i++) {
            Unit *unit = unit_begin(b, CODEGEN_OBJECT);
            emit_level(&unit->emitter, b->program->kernels.items[k], b->code[k], options->levels[i], false);
            unit_end(b, unit);
        }
        for (int v = 0; v < b->program->kernels.items[k]->gpu_variants.count; v++) {
            if (!b->program->kernels.items[k]->gpu_variants.items[v].threads)
                continue;
            Unit *unit = unit_begin(b, CODEGEN_OBJECT);
            emit_simulator(&unit->emitter, b->program->kernels.items[k], v, options->levels[0], false);
            unit_end(b, unit);
        }
    }
    Unit *table = unit_begin(b, CODEGEN_OBJECT);
    emit_table(&table->emitter, b->program, options, b->code);
    unit_end(b, table);
}

/* All of them in one module, for text. */
static void emit_whole(Build *b, CodegenOutput form) {
    const CodegenOptions *options = b->options;
    Unit *unit = unit_begin(b, form);
    for (int i = 0; i < options->level_count; i++)
        for (int k = 0; k < b->program->kernels.count; k++)
            emit_level(&unit->emitter, b->program->kernels.items[k], b->code[k], options->levels[i], true);
    for (int k = 0; k < b->program->kernels.count; k++)
        for (int v = 0; v < b->program->kernels.items[k]->gpu_variants.count; v++)
            if (b->program->kernels.items[k]->gpu_variants.items[v].threads)
                emit_simulator(&unit->emitter, b->program->kernels.items[k], v, options->levels[0], true);
    emit_table(&unit->emitter, b->program, options, b->code);
    unit_end(b, unit);
}

void codegen_program(Context *context, const ClusterProgram *program, const CodegenOptions *options, CodegenOutput output, Buffer *buffer) {
    Build build = {.context = context, .program = program, .options = options, .code = plan_program(context, program, options->level_count)};
    if (!build.code)
        return;
    initialise_target();
    build.units = units_begin(context->arena, options->jobs, translate);
    if (output == CODEGEN_OBJECT)
        emit_units(&build);
    else
        emit_whole(&build, output);
    units_end(build.units);
    if (output == CODEGEN_OBJECT)
        merge_objects(context->arena, build.objects.items, build.objects.count, buffer);
    else
        buffer_append(buffer, build.objects.items[0]->data, build.objects.items[0]->length);
    for (int i = 0; i < build.objects.count; i++)
        buffer_free((Buffer *)(uintptr_t)build.objects.items[i]);
}
