#include "codegen_fixture.h"
#include "leaf_reference.h"

#include <check.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

uint64_t random_next(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static bool level_runs_here(const char *level) {
    if (strcmp(level, "x86-64-v2") == 0)
        return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
    if (strcmp(level, "x86-64-v3") == 0)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"); /* and F16C with them */
    if (strcmp(level, "x86-64-v4") == 0)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
    return strcmp(level, "native") == 0;
}

/* ---- compiling ---- */

static void open_context(Context *context, Source *source, const char *text, FILE *messages) {
    Arena *arena = arena_new();
    *source = (Source){.path = "t.ir", .text = arena_strndup(arena, text, strlen(text)), .length = strlen(text)};
    *context = (Context){arena, interner_new(arena), dim_pool_new(arena), type_pool_new(arena), NULL, source};
    context->diag = diag_new(arena, source, messages, DIAG_TEXT, false);
}

static ClusterProgram *as_program(Context *context, IrModule *module) {
    ClusterProgram *program = NEW(context->arena, ClusterProgram);
    program->file = module->file;
    for (int k = 0; k < module->kernels.count; k++) {
        ClusterKernel *kernel = NEW(context->arena, ClusterKernel);
        kernel->kernel = module->kernels.items[k];
        const Signature *signature = &kernel->kernel->signature;
        for (int i = 0; i < signature->params.count; i++)
            if (signature->params.items[i].type->kind == TYPE_TENSOR)
                vec_push(context->arena, &kernel->tensors, (ClusterTensor){.param = i, .mode = PHB_READ_WRITE});
        ClusterStage stage = {.loop = -1, .kernel = kernel->kernel};
        stage.modes = NEW_ARRAY(context->arena, int8_t, kernel->tensors.count + 1);
        memset(stage.modes, PHB_READ_WRITE, (size_t)kernel->tensors.count);
        vec_push(context->arena, &kernel->stages, stage);
        vec_push(context->arena, &kernel->variants, (LeafVariant){NULL, NEW_ARRAY(context->arena, IrKernel *, 1), NEW_ARRAY(context->arena, IrKernel *, 1)});
        kernel->variants.items[0].stages[0] = kernel->kernel;
        vec_push(context->arena, &program->kernels, kernel);
    }
    return program;
}

static Buffer generate(Context *context, IrModule *module, CodegenOutput output, int optimise, const char *const *levels, int level_count) {
    CodegenOptions options = {optimise, NULL, levels, level_count, {1, 2, 3}, "phobosc test", "phb_program", 2};
    Buffer buffer = {0};
    codegen_program(context, as_program(context, module), &options, output, &buffer);
    return buffer;
}

Buffer compile_object(const char *text, CodegenOutput output, int optimise, const char *const *levels, int level_count, char **messages) {
    size_t length;
    FILE *stream = open_memstream(messages, &length);
    Context context;
    Source source;
    open_context(&context, &source, text, stream);
    IrModule *module = ir_read(&context);
    Buffer buffer = {0};
    if (module)
        buffer = generate(&context, module, output, optimise, levels, level_count);
    diag_finish(context.diag);
    fclose(stream);
    arena_free(context.arena);
    return buffer;
}

static void *load_image(const Buffer *object) {
    char folder[] = "/tmp/phobos-test-XXXXXX", path[64], command[256];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/leaf.o", folder);
    FILE *file = fopen(path, "wb");
    ck_assert_uint_eq(fwrite(object->data, 1, object->length, file), object->length);
    fclose(file);
    snprintf(command, sizeof command, "cc -shared -nodefaultlibs -Wl,--no-undefined -o %s/leaf.so %s/leaf.o -lc", folder, folder);
    ck_assert_int_eq(system(command), 0);
    snprintf(path, sizeof path, "%s/leaf.so", folder);
    void *image = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(image != NULL, "%s", dlerror());
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
    return image;
}

Compiled *compiled_new(const char *text, int optimise, const char *const *levels, int level_count) {
    Compiled *compiled = calloc(1, sizeof *compiled);
    open_context(&compiled->context, &compiled->source, text, stderr);
    compiled->module = ir_read(&compiled->context);
    ck_assert_msg(compiled->module != NULL, "the test's IR is wrong:\n%s", text);
    const char *running[8];
    int running_count = 0;
    for (int i = 0; i < level_count; i++)
        if (level_runs_here(levels[i]))
            running[running_count++] = levels[i];
    Buffer object = generate(&compiled->context, compiled->module, CODEGEN_OBJECT, optimise, running, running_count);
    ck_assert_int_eq(diag_error_count(compiled->context.diag), 0);
    compiled->image = load_image(&object);
    buffer_free(&object);
    compiled->program = dlsym(compiled->image, "phb_program");
    ck_assert_ptr_nonnull(compiled->program);
    return compiled;
}

void compiled_free(Compiled *compiled) {
    dlclose(compiled->image);
    arena_free(compiled->context.arena);
    free(compiled);
}

/* ---- trials ---- */

/* Bytes between two unreadable pages: flush with the one behind, or with the one before. */
typedef struct Region {
    char *mapping;
    size_t mapped, bytes;
    char *start;
} Region;

typedef struct Memory {
    Region code[MAX_TENSORS], reference[MAX_TENSORS], initial[MAX_TENSORS];
    int64_t lines[MAX_TENSORS];
    int count;
} Memory;

static Region region_new(size_t bytes, bool at_end) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (bytes + page - 1) / page + 2;
    Region block = {.mapped = pages * page, .bytes = bytes};
    block.mapping = mmap(NULL, block.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(block.mapping, MAP_FAILED);
    ck_assert_int_eq(mprotect(block.mapping, page, PROT_NONE), 0);
    ck_assert_int_eq(mprotect(block.mapping + block.mapped - page, page, PROT_NONE), 0);
    block.start = at_end ? block.mapping + block.mapped - page - bytes : block.mapping + page;
    return block;
}

/* Few exponents, so that numbers meet; now and then any bits at all. */
static uint64_t random_element(PhbDType dtype, uint64_t *state) {
    uint64_t bits = random_next(state);
    if (dtype == PHB_BOOL)
        return bits & 1;
    if (bits % 4 && dtype_is_float(dtype))
        return reference_convert(PHB_I32, dtype, (uint32_t)((int32_t)(bits >> 40) % 1000));
    int width = dtype_bits(dtype);
    return width == 64 ? bits : bits & ((1ull << width) - 1);
}

static void fill(const PhbTensorArg *arg, const Region *block, const Type *type, int64_t lines, uint64_t *state) {
    int64_t size = dtype_bits(type->scalar) / 8;
    for (size_t i = 0; i < block->bytes; i++)
        block->start[i] = (char)random_next(state);
    for (int64_t line = 0; line < lines; line++)
        for (int64_t i = 0; i < arg->extent[type->rank - 1]; i++)
            element_write(type->scalar, block->start + line * arg->pitch + i * size, random_element(type->scalar, state));
}

static void add_tensor(Trial *trial, int index, const Type *type, const int64_t *extents, uint64_t *state) {
    int64_t size = dtype_bits(type->scalar) / 8, lines = 1, last = extents[type->rank - 1];
    PhbTensorArg arg = {.pitch = last * size + size * (int64_t)(random_next(state) % 3)};
    for (int axis = 0; axis < PHB_MAX_RANK; axis++) {
        bool used = axis < type->rank;
        arg.extent[axis] = used ? extents[axis] : 1;
        arg.origin[axis] = used ? (int64_t)(random_next(state) % 1000) : 0;
        arg.whole[axis] = used ? arg.origin[axis] + extents[axis] : 1;
        if (axis < type->rank - 1)
            lines *= extents[axis];
    }
    Memory *memory = trial->memory;
    size_t bytes = lines && last ? (size_t)((lines - 1) * arg.pitch + last * size) : 0;
    bool at_end = random_next(state) % 2;
    memory->code[index] = region_new(bytes, at_end);
    memory->reference[index] = region_new(bytes, at_end);
    memory->initial[index] = region_new(bytes, true);
    memory->lines[index] = lines;
    fill(&arg, &memory->initial[index], type, bytes ? lines : 0, state);
    trial->code[index] = trial->reference[index] = arg;
    trial->code[index].base = memory->code[index].start;
    trial->reference[index].base = memory->reference[index].start;
    memory->count++;
}

Trial *trial_new(const Compiled *compiled, int kernel, const int64_t (*extents)[PHB_MAX_RANK], uint64_t seed) {
    Trial *trial = calloc(1, sizeof *trial);
    trial->memory = calloc(1, sizeof *trial->memory);
    trial->kernel = compiled->module->kernels.items[kernel];
    trial->table = &compiled->program->kernels[kernel];
    const Signature *signature = &trial->kernel->signature;
    int index = 0;
    for (int i = 0; i < signature->params.count; i++) {
        const Type *type = signature->params.items[i].type;
        if (type->kind != TYPE_TENSOR)
            continue;
        ck_assert_int_lt(index, MAX_TENSORS);
        for (int axis = 0; axis < type->rank; axis++)
            for (int dim = 0; dim < signature->symbolic.count; dim++)
                if (type->dims[axis]->kind == PHB_EXPR_DIM && type->dims[axis]->name == signature->symbolic.items[dim])
                    trial->dims[dim] = extents[index][axis];
        add_tensor(trial, index, type, extents[index], &seed);
        index++;
    }
    trial->launch = (PhbLaunch){NULL, trial->scalars, trial->dims, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}};
    return trial;
}

static void reset(Region *blocks, const Memory *memory) {
    for (int i = 0; i < memory->count; i++)
        memcpy(blocks[i].start, memory->initial[i].start, blocks[i].bytes);
}

static void compare_tensor(const Trial *trial, int index, const Param *param, const char *level) {
    const Type *type = param->type;
    const PhbTensorArg *arg = &trial->code[index];
    const Memory *memory = trial->memory;
    int64_t size = dtype_bits(type->scalar) / 8, last = arg->extent[type->rank - 1];
    char *code = memory->code[index].start, *reference = memory->reference[index].start;
    for (int64_t line = 0; memory->code[index].bytes && line < memory->lines[index]; line++)
        for (int64_t i = 0; i < last; i++) {
            int64_t at = line * arg->pitch + i * size;
            uint64_t found = element_read(type->scalar, code + at), expected = element_read(type->scalar, reference + at);
            if (!reference_same(type->scalar, found, expected)) /* a check that passes costs a system call */
                ck_abort_msg("%s at %s: %s element %ld of line %ld is 0x%lx, expected 0x%lx", trial->table->name, level, param->name, (long)i,
                    (long)line, (unsigned long)found, (unsigned long)expected);
            memcpy(code + at, reference + at, (size_t)size);
        }
    ck_assert_msg(
        memcmp(code, reference, memory->code[index].bytes) == 0, "%s at %s: the padding of %s was written", trial->table->name, level, param->name);
}

void trial_check(Trial *trial) {
    Memory *memory = trial->memory;
    const PhbVariant *variant = &trial->table->variants[0];
    int64_t ctas = trial->launch.grid[0] * trial->launch.grid[1] * trial->launch.grid[2];
    reset(memory->reference, memory);
    trial->launch.tensors = trial->reference;
    reference_run(trial->kernel, &trial->launch, 0, ctas);
    trial->launch.tensors = trial->code;
    void *scratch = aligned_alloc(64, (size_t)(variant->scratch + 64));
    for (int l = 0; l < variant->cpu_count; l++) {
        reset(memory->code, memory);
        int64_t middle = ctas / 3;
        variant->cpu[l].stages[0](&trial->launch, 0, middle, scratch);
        variant->cpu[l].stages[0](&trial->launch, middle, ctas, scratch);
        const Signature *signature = &trial->kernel->signature;
        int index = 0;
        for (int i = 0; i < signature->params.count; i++)
            if (signature->params.items[i].type->kind == TYPE_TENSOR)
                compare_tensor(trial, index++, &signature->params.items[i], variant->cpu[l].level);
    }
    free(scratch);
}

void trial_set(Trial *trial, int tensor, PhbDType dtype, int64_t index, uint64_t bits) {
    element_write(dtype, trial->memory->initial[tensor].start + index * (dtype_bits(dtype) / 8), bits);
}

void trial_free(Trial *trial) {
    Memory *memory = trial->memory;
    for (int i = 0; i < memory->count; i++) {
        munmap(memory->code[i].mapping, memory->code[i].mapped);
        munmap(memory->reference[i].mapping, memory->reference[i].mapped);
        munmap(memory->initial[i].mapping, memory->initial[i].mapped);
    }
    free(memory);
    free(trial);
}
