/* make_functions FILE.o: compiles each function of functions.def, for f32 and f64 and each CPU level, as a loop over arrays:
 *
 *     void maths_exp_f32_v3(const float *a, const float *b, float *out, int64_t count);
 *
 * Fails where a loop comes out with a call, or without vectors at a level that can gather from a table. */
#include "compiler/codegen/emit.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Error.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRIPLE "x86_64-unknown-linux-gnu"

static const CpuLevel levels[] = {
    {.name = "v2", .cpu = "x86-64-v2", .features = "", .vector_bytes = 16},
    {.name = "v3", .cpu = "x86-64-v3", .features = "", .has_f16c = true, .has_fma = true, .vector_bytes = 32},
    {.name = "v4", .cpu = "x86-64-v4", .features = "", .has_f16c = true, .has_fma = true, .vector_bytes = 64},
};

static void die(const char *what, const char *why) {
    fprintf(stderr, "make_functions: %s: %s\n", what, why);
    exit(1);
}

static LLVMTargetMachineRef make_machine(void) {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMTargetRef target;
    char *message = NULL;
    if (LLVMGetTargetFromTriple(TRIPLE, &target, &message))
        die("target", message);
    return LLVMCreateTargetMachine(target, TRIPLE, "x86-64", "", LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelDefault);
}

static Emitter make_emitter(LLVMTargetMachineRef machine) {
    LLVMContextRef llvm = LLVMContextCreate();
    Emitter e = {
        .llvm = llvm,
        .module = LLVMModuleCreateWithNameInContext("maths", llvm),
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
    LLVMSetTarget(e.module, TRIPLE);
    LLVMSetModuleDataLayout(e.module, e.layout);
    return e;
}

static LLVMValueRef element(Emitter *e, LLVMTypeRef type, LLVMValueRef array, LLVMValueRef index) {
    return LLVMBuildInBoundsGEP2(e->builder, type, array, &index, 1, "");
}

static void make_function(Emitter *e, const char *name, OpKind kind, PhbDType dtype, int operands) {
    LLVMTypeRef parameters[4] = {e->ptr, e->ptr, e->ptr, e->i64}, type = dtype == PHB_F64 ? e->f64 : e->f32;
    char symbol[64];
    snprintf(symbol, sizeof symbol, "maths_%s_%s_%s", name, dtype == PHB_F64 ? "f64" : "f32", e->level->name);
    LLVMValueRef function = LLVMAddFunction(e->module, symbol, LLVMFunctionType(LLVMVoidTypeInContext(e->llvm), parameters, 4, false));
    unsigned noalias = LLVMGetEnumAttributeKindForName("noalias", strlen("noalias"));
    LLVMAddAttributeAtIndex(function, 3, LLVMCreateEnumAttribute(e->llvm, noalias, 0));
    function_set_level(e, function);
    LLVMPositionBuilderAtEnd(e->builder, LLVMAppendBasicBlockInContext(e->llvm, function, "entry"));
    Loop loop = loop_begin(e, LLVMConstNull(e->i64), LLVMGetParam(function, 3));
    LLVMValueRef a = LLVMBuildLoad2(e->builder, type, element(e, type, LLVMGetParam(function, 0), loop.index), "");
    LLVMValueRef b = operands > 1 ? LLVMBuildLoad2(e->builder, type, element(e, type, LLVMGetParam(function, 1), loop.index), "") : NULL;
    LLVMBuildStore(e->builder, emit_maths(e, kind, dtype, a, b), element(e, type, LLVMGetParam(function, 2), loop.index));
    loop_end(e, &loop, LOOP_PLAIN);
    LLVMBuildRetVoid(e->builder);
}

static void run_passes(Emitter *e, LLVMTargetMachineRef machine) {
    char *message = NULL;
    if (LLVMVerifyModule(e->module, LLVMReturnStatusAction, &message))
        die("verifier", message);
    LLVMDisposeMessage(message);
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(e->module, "default<O2>", machine, options);
    if (error)
        die("passes", LLVMGetErrorMessage(error));
    LLVMDisposePassBuilderOptions(options);
}

static bool has_gathers(const char *name) {
    size_t length = strlen(name);
    return length < 3 || strcmp(name + length - 3, "_v2") != 0;
}

static bool stores_vectors(LLVMValueRef function) {
    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(function); block; block = LLVMGetNextBasicBlock(block))
        for (LLVMValueRef i = LLVMGetFirstInstruction(block); i; i = LLVMGetNextInstruction(i))
            if (LLVMGetInstructionOpcode(i) == LLVMStore && LLVMGetTypeKind(LLVMTypeOf(LLVMGetOperand(i, 0))) == LLVMVectorTypeKind)
                return true;
    return false;
}

static int check_functions(Emitter *e) {
    int failures = 0;
    for (LLVMValueRef function = LLVMGetFirstFunction(e->module); function; function = LLVMGetNextFunction(function)) {
        size_t length;
        const char *name = LLVMGetValueName2(function, &length);
        if (LLVMIsDeclaration(function) ? strncmp(name, "llvm.", 5) == 0 : stores_vectors(function) || !has_gathers(name))
            continue;
        fprintf(stderr, "make_functions: %s %s\n", name, LLVMIsDeclaration(function) ? "is called" : "has no vectors");
        failures++;
    }
    return failures;
}

int main(int argc, char **argv) {
    if (argc != 2)
        die("usage", "make_functions FILE.o");
    LLVMTargetMachineRef machine = make_machine();
    Emitter e = make_emitter(machine);
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        e.level = &levels[i];
#define FUNCTION(name, op, operands, ulp, one_nan)                                                                                                   \
    make_function(&e, #name, OP_##op, PHB_F32, operands);                                                                                            \
    make_function(&e, #name, OP_##op, PHB_F64, operands);
#include "functions.def"
    }
    run_passes(&e, machine);
    int failures = check_functions(&e);
    char *message = NULL;
    if (LLVMTargetMachineEmitToFile(machine, e.module, argv[1], strstr(argv[1], ".s") ? LLVMAssemblyFile : LLVMObjectFile, &message))
        die(argv[1], message);
    LLVMDisposeTargetData(e.layout);
    LLVMDisposeBuilder(e.builder);
    LLVMDisposeModule(e.module);
    LLVMContextDispose(e.llvm);
    LLVMDisposeTargetMachine(machine);
    return failures ? 1 : 0;
}
