/* Contractions against the plain chain, bit by bit: random sizes, strides, edges and element types at every CPU level that runs here. */
#include "compiler/codegen/host/contract.h"

#include <check.h>
#include <llvm-c/ExecutionEngine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the code under test ---- */

enum { MAX_K = 600, MARGIN = 64 };

/* What a compiled contraction is called with: A, B, C, scratch and numbers. */
typedef struct Call {
    void *start[2];
    int64_t stride[2][2], low[2][2], high[2][2];
    void *c, *scratch, *kept;
    int64_t k, used[2];
} Call;

enum { KEEPS_NONE, KEEPS_A, KEEPS_B };

typedef struct Shape {
    PhbDType operands[2], result;
    int64_t rows, columns;
    int kept; /* KEEPS_* */
} Shape;

typedef struct Compiled {
    LLVMContextRef llvm;
    LLVMExecutionEngineRef engine;
    void (*run)(const Call *), (*forget)(const Call *);
} Compiled;

static LLVMValueRef field(Emitter *e, LLVMTypeRef type, LLVMValueRef call, size_t offset) {
    LLVMValueRef bytes = LLVMConstInt(e->i64, offset, false);
    return LLVMBuildLoad2(e->builder, type, LLVMBuildGEP2(e->builder, e->i8, call, &bytes, 1, ""), "");
}

static LLVMValueRef begin_function(Emitter *e, const char *name) {
    LLVMValueRef function = LLVMAddFunction(e->module, name, LLVMFunctionType(LLVMVoidTypeInContext(e->llvm), &e->ptr, 1, false));
    function_set_level(e, function);
    LLVMPositionBuilderAtEnd(e->builder, LLVMAppendBasicBlockInContext(e->llvm, function, "entry"));
    return LLVMGetParam(function, 0);
}

static void emit_forget(Emitter *e) {
    LLVMValueRef call = begin_function(e, "forget");
    contract_forget(e, field(e, e->ptr, call, offsetof(Call, kept)));
    LLVMBuildRetVoid(e->builder);
}

static void emit_run(Emitter *e, const Shape *shape) {
    LLVMValueRef call = begin_function(e, "run");
    Contraction contraction = {.dtype = shape->result, .rows = shape->rows, .columns = shape->columns};
    ContractOperand *operands[2] = {&contraction.a, &contraction.b};
    for (size_t o = 0; o < 2; o++) {
        operands[o]->dtype = shape->operands[o];
        operands[o]->start = field(e, e->ptr, call, offsetof(Call, start) + o * sizeof(void *));
        for (size_t axis = 0; axis < 2; axis++) {
            size_t at = (o * 2 + axis) * sizeof(int64_t);
            operands[o]->stride[axis] = field(e, e->i64, call, offsetof(Call, stride) + at);
            operands[o]->low[axis] = field(e, e->i64, call, offsetof(Call, low) + at);
            operands[o]->high[axis] = field(e, e->i64, call, offsetof(Call, high) + at);
        }
        contraction.used[o] = field(e, e->i64, call, offsetof(Call, used) + o * sizeof(int64_t));
    }
    contraction.k = field(e, e->i64, call, offsetof(Call, k));
    contraction.c = field(e, e->ptr, call, offsetof(Call, c));
    contraction.scratch = field(e, e->ptr, call, offsetof(Call, scratch));
    if (shape->kept) {
        contraction.kept_factor = shape->kept - KEEPS_A;
        contraction.kept = field(e, e->ptr, call, offsetof(Call, kept));
    }
    emit_contract(e, &contraction);
    LLVMBuildRetVoid(e->builder);
}

static Compiled compile(Arena *arena, const CpuLevel *level, const Shape *shape) {
    LLVMContextRef llvm = LLVMContextCreate();
    Context context = {.arena = arena};
    Emitter e = {.context = &context,
        .llvm = llvm,
        .module = LLVMModuleCreateWithNameInContext("contract", llvm),
        .builder = LLVMCreateBuilderInContext(llvm),
        .i1 = LLVMInt1TypeInContext(llvm),
        .i8 = LLVMInt8TypeInContext(llvm),
        .i16 = LLVMInt16TypeInContext(llvm),
        .i32 = LLVMInt32TypeInContext(llvm),
        .i64 = LLVMInt64TypeInContext(llvm),
        .f16 = LLVMHalfTypeInContext(llvm),
        .f32 = LLVMFloatTypeInContext(llvm),
        .f64 = LLVMDoubleTypeInContext(llvm),
        .ptr = LLVMPointerTypeInContext(llvm, 0),
        .level = level};
    emit_run(&e, shape);
    emit_forget(&e);
    LLVMDisposeBuilder(e.builder);
    Compiled compiled = {.llvm = llvm};
    char *message = NULL;
    struct LLVMMCJITCompilerOptions options;
    LLVMInitializeMCJITCompilerOptions(&options, sizeof options);
    options.OptLevel = 2;
    if (LLVMCreateMCJITCompilerForModule(&compiled.engine, e.module, &options, sizeof options, &message))
        ck_abort_msg("%s", message);
    LLVMPassBuilderOptionsRef passes = LLVMCreatePassBuilderOptions();
    ck_assert_ptr_null(LLVMRunPasses(e.module, "default<O2>", LLVMGetExecutionEngineTargetMachine(compiled.engine), passes));
    LLVMDisposePassBuilderOptions(passes);
    uint64_t run = LLVMGetFunctionAddress(compiled.engine, "run"), forget = LLVMGetFunctionAddress(compiled.engine, "forget");
    memcpy(&compiled.run, &run, sizeof run);
    memcpy(&compiled.forget, &forget, sizeof forget);
    return compiled;
}

static void compiled_free(Compiled *compiled) {
    LLVMDisposeExecutionEngine(compiled->engine);
    LLVMContextDispose(compiled->llvm);
}

/* ---- data ---- */

static uint64_t random_state = 1;

static uint64_t random_bits(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static int64_t random_below(int64_t limit) {
    return (int64_t)(random_bits() % (uint64_t)limit);
}

static double random_number(void) {
    return ldexp((double)random_below(1 << 20) - (1 << 19), (int)random_below(24) - 30);
}

static void element_write(PhbDType dtype, char *at) {
    uint64_t bits = dtype_is_float(dtype) ? bits_from_double(dtype, random_number()) : random_bits();
    memcpy(at, &bits, (size_t)dtype_bits(dtype) / 8);
}

/* An operand in memory of its own, poisoned around what exists. */
typedef struct Matrix {
    PhbDType dtype;
    char *memory;
    char *start;
    int64_t stride[2], low[2], high[2];
} Matrix;

static int64_t matrix_random(Matrix *m, PhbDType dtype, int64_t width, int64_t k) {
    int64_t size = dtype_bits(dtype) / 8, extent[2] = {width, k};
    *m = (Matrix){.dtype = dtype};
    for (int axis = 0; axis < 2; axis++) {
        bool edges = random_below(2);
        m->low[axis] = edges && random_below(3) == 0 ? random_below(extent[axis] + 1) : 0;
        m->high[axis] = edges ? m->low[axis] + random_below(extent[axis] - m->low[axis] + 1) : extent[axis];
    }
    int inner = (int)random_below(2);
    int64_t gap = random_below(8) == 0 ? 2 : 1;
    m->stride[inner] = size * gap;
    m->stride[1 - inner] = (extent[inner] * gap + random_below(20)) * size;
    int64_t bytes = extent[1 - inner] * m->stride[1 - inner] + size;
    m->memory = malloc((size_t)bytes);
    memset(m->memory, 0xff, (size_t)bytes); /* NaN: shows where too much is read */
    m->start = m->memory;
    for (int64_t w = m->low[0]; w < m->high[0]; w++)
        for (int64_t p = m->low[1]; p < m->high[1]; p++)
            element_write(dtype, m->start + w * m->stride[0] + p * m->stride[1]);
    return bytes;
}

static double matrix_double(const Matrix *m, int64_t w, int64_t p) {
    if (w < m->low[0] || w >= m->high[0] || p < m->low[1] || p >= m->high[1])
        return 0;
    uint64_t bits = 0;
    memcpy(&bits, m->start + w * m->stride[0] + p * m->stride[1], (size_t)dtype_bits(m->dtype) / 8);
    if (m->dtype == PHB_I8)
        return (int8_t)bits;
    return m->dtype == PHB_U8 ? (double)bits : bits_to_double(m->dtype, bits);
}

static uint64_t chain(const Shape *shape, const Matrix *a, const Matrix *b, int64_t i, int64_t j, int64_t k, uint64_t bits) {
    if (shape->result == PHB_I32) {
        uint32_t sum = (uint32_t)bits;
        for (int64_t p = 0; p < k; p++)
            sum += (uint32_t)((int32_t)matrix_double(a, i, p) * (int32_t)matrix_double(b, j, p));
        return sum;
    }
    double wide = bits_to_double(shape->result, bits);
    float narrow = (float)wide;
    for (int64_t p = 0; p < k; p++) {
        double x = matrix_double(a, i, p), y = matrix_double(b, j, p);
        narrow = fmaf((float)x, (float)y, narrow);
        wide = fma(x, y, wide);
    }
    return shape->result == PHB_F64 ? bits_from_double(PHB_F64, wide) : bits_from_double(PHB_F32, (double)narrow);
}

/* ---- the comparison ---- */

/* A factor that stays from case to case, and where its panels do. */
typedef struct Kept {
    Matrix matrix; /* its memory NULL: none yet */
    int64_t k, used[2];
    char *memory;
    size_t bytes;
} Kept;

static void kept_init(Kept *kept, const Shape *shape) {
    *kept = (Kept){.bytes = (size_t)contract_kept(shape->result, shape->kept == KEEPS_A ? shape->rows : shape->columns)};
    ck_assert(kept->bytes > 0);
    kept->memory = aligned_alloc(64, (kept->bytes + 63) / 64 * 64 + 64);
    memset(kept->memory, 0xff, kept->bytes + 64);
}

static void kept_free(Kept *kept) {
    for (int i = 0; i < 64; i++)
        ck_assert_msg(kept->memory[kept->bytes + (size_t)i] == (char)0xff, "overrun of what is kept");
    free(kept->matrix.memory);
    free(kept->memory);
}

static void run_case(const Compiled *compiled, const Shape *shape, const char *level, int number, Kept *kept) {
    int64_t k = random_below(8) == 0 ? random_below(3) : 1 + random_below(MAX_K);
    int64_t size = dtype_bits(shape->result) / 8, count = shape->rows * shape->columns;
    bool stays = shape->kept && kept->matrix.memory && random_below(3);
    if (stays && random_below(4))
        k = kept->k;
    Matrix operands[2];
    for (int o = 0; o < 2; o++)
        if (!stays || o != shape->kept - KEEPS_A)
            matrix_random(&operands[o], shape->operands[o], o ? shape->columns : shape->rows, MAX_K + 1);
        else
            operands[o] = kept->matrix;
    char *c = malloc((size_t)((count + 2 * MARGIN) * size)), *before = malloc((size_t)((count + 2 * MARGIN) * size));
    for (int64_t i = 0; i < count + 2 * MARGIN; i++)
        element_write(shape->result, c + i * size);
    memcpy(before, c, (size_t)((count + 2 * MARGIN) * size));
    size_t scratch_bytes = (size_t)(contract_scratch(shape->result, shape->rows, shape->columns) + 63) / 64 * 64;
    char *scratch = aligned_alloc(64, scratch_bytes + 64);
    memset(scratch, 0xff, scratch_bytes + 64);
    Call call = {.c = c + MARGIN * size, .scratch = scratch, .k = k};
    call.used[0] = random_below(3) ? shape->rows : 1 + random_below(shape->rows);
    call.used[1] = random_below(3) ? shape->columns : 1 + random_below(shape->columns);
    if (stays && random_below(4))
        memcpy(call.used, kept->used, sizeof call.used);
    if (shape->kept) {
        call.kept = kept->memory;
        if (!stays)
            compiled->forget(&call);
    }
    for (int o = 0; o < 2; o++) {
        call.start[o] = operands[o].start;
        memcpy(call.stride[o], operands[o].stride, sizeof call.stride[o]);
        memcpy(call.low[o], operands[o].low, sizeof call.low[o]);
        memcpy(call.high[o], operands[o].high, sizeof call.high[o]);
    }
    compiled->run(&call);
    for (int64_t i = -MARGIN; i < count + MARGIN; i++) {
        int64_t row = i / shape->columns, column = i % shape->columns;
        bool inside = i >= 0 && i < count;
        if (inside && (row >= call.used[0] || column >= call.used[1]))
            continue;
        uint64_t expected = 0, found = 0;
        memcpy(&expected, before + (i + MARGIN) * size, (size_t)size);
        memcpy(&found, c + (i + MARGIN) * size, (size_t)size);
        if (inside)
            expected = chain(shape, &operands[0], &operands[1], row, column, k, expected);
        ck_assert_msg(expected == found, "%s %s x %s, %lld x %lld x %lld, case %d: element (%lld, %lld) is %llx, not %llx", level,
            dtype_name(shape->operands[0]), dtype_name(shape->operands[1]), (long long)shape->rows, (long long)shape->columns, (long long)k, number,
            (long long)row, (long long)column, (unsigned long long)found, (unsigned long long)expected);
    }
    for (int i = 0; i < 64; i++)
        ck_assert_msg(scratch[scratch_bytes + (size_t)i] == (char)0xff, "scratch overrun");
    if (shape->kept && !stays) {
        free(kept->matrix.memory);
        kept->matrix = operands[shape->kept - KEEPS_A];
        kept->k = k;
        memcpy(kept->used, call.used, sizeof call.used);
    }
    for (int o = 0; o < 2; o++)
        if (o != shape->kept - KEEPS_A)
            free(operands[o].memory);
    free(c);
    free(before);
    free(scratch);
}

static const CpuLevel levels[] = {
    {.name = "x86-64-v2", .cpu = "x86-64-v2", .features = "", .has_f16c = false, .has_fma = false, .vector_bytes = 16},
    {.name = "x86-64-v3", .cpu = "x86-64-v3", .features = "", .has_f16c = true, .has_fma = true, .vector_bytes = 32},
    {.name = "x86-64-v4", .cpu = "x86-64-v4", .features = "", .has_f16c = true, .has_fma = true, .vector_bytes = 64},
};

static bool level_runs(int level) {
    if (level == 0)
        return __builtin_cpu_supports("sse4.2");
    if (level == 1)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

static const Shape shapes[] = {
    {{PHB_F32, PHB_F32}, PHB_F32, 1, 1, KEEPS_NONE},
    {{PHB_F32, PHB_F32}, PHB_F32, 7, 5, KEEPS_NONE},
    {{PHB_F32, PHB_F32}, PHB_F32, 64, 64, KEEPS_NONE},
    {{PHB_F32, PHB_F32}, PHB_F32, 33, 70, KEEPS_NONE},
    {{PHB_F32, PHB_F32}, PHB_F32, 12, 16, KEEPS_NONE},
    {{PHB_F16, PHB_F16}, PHB_F32, 16, 48, KEEPS_NONE},
    {{PHB_BF16, PHB_BF16}, PHB_F32, 20, 33, KEEPS_NONE},
    {{PHB_F16, PHB_F32}, PHB_F32, 9, 17, KEEPS_NONE},
    {{PHB_F64, PHB_F64}, PHB_F64, 32, 32, KEEPS_NONE},
    {{PHB_F64, PHB_F64}, PHB_F64, 13, 3, KEEPS_NONE},
    {{PHB_F64, PHB_F64}, PHB_F64, 6, 4, KEEPS_NONE},
    {{PHB_I8, PHB_I8}, PHB_I32, 16, 64, KEEPS_NONE},
    {{PHB_U8, PHB_U8}, PHB_I32, 5, 40, KEEPS_NONE},
    {{PHB_I8, PHB_U8}, PHB_I32, 30, 9, KEEPS_NONE},
    {{PHB_F32, PHB_F32}, PHB_F32, 33, 70, KEEPS_A},
    {{PHB_F64, PHB_F64}, PHB_F64, 700, 2, KEEPS_A}, /* room for one block of k, and those that are not kept */
    {{PHB_BF16, PHB_F16}, PHB_F32, 20, 33, KEEPS_B},
    {{PHB_I8, PHB_U8}, PHB_I32, 14, 32, KEEPS_B},
};

enum { SHAPES = sizeof shapes / sizeof shapes[0], LEVELS = sizeof levels / sizeof levels[0], CASES = 40 };

/* What runs is not instrumented, and what makes it hardly differs between levels: with a sanitizer, levels take turns. */
#ifdef __SANITIZE_ADDRESS__
enum { EACH_LEVEL = 0 };
#else
enum { EACH_LEVEL = 1 };
#endif

START_TEST(contractions_are_chains) {
    if (!level_runs(_i / SHAPES) || !(EACH_LEVEL || _i / SHAPES == _i % SHAPES % LEVELS))
        return;
    const CpuLevel *level = &levels[_i / SHAPES];
    random_state = (uint64_t)_i * 977 + 1;
    Arena *arena = arena_new();
    const Shape *shape = &shapes[_i % SHAPES];
    Compiled compiled = compile(arena, level, shape);
    Kept kept = {0};
    if (shape->kept)
        kept_init(&kept, shape);
    for (int i = 0; i < CASES; i++)
        run_case(&compiled, shape, level->name, i, &kept);
    if (shape->kept)
        kept_free(&kept);
    compiled_free(&compiled);
    arena_free(arena);
}
END_TEST

int main(void) {
    LLVMLinkInMCJIT();
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    Suite *suite = suite_create("contract");
    TCase *chains = tcase_create("chains");
    tcase_set_timeout(chains, 60);
    tcase_add_loop_test(chains, contractions_are_chains, 0, SHAPES * LEVELS);
    suite_add_tcase(suite, chains);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
