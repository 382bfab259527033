/* The simt backend's hooks for NVPTX: intrinsics where LLVM has one, inline PTX where it has none. */
#include "compiler/codegen/nvptx/nvptx.h"

#include "compiler/layout/layout.h"

#include <string.h>

enum { KERNEL_CALL = 71 }; /* LLVM's calling convention ptx_kernel */

static NvptxLeaf *leaf_of(const Simt *s) {
    return s->data;
}

/* ---- calls ---- */

LLVMValueRef nvptx_call(Simt *s, const char *name, LLVMTypeRef result, const LLVMValueRef *arguments, int count) {
    Emitter *e = s->e;
    LLVMTypeRef types[8];
    for (int i = 0; i < count; i++)
        types[i] = LLVMTypeOf(arguments[i]);
    LLVMTypeRef type = LLVMFunctionType(result, types, (unsigned)count, false);
    LLVMValueRef function = LLVMGetNamedFunction(e->module, name);
    if (!function)
        function = LLVMAddFunction(e->module, name, type);
    return LLVMBuildCall2(e->builder, type, function, (LLVMValueRef *)(uintptr_t)arguments, (unsigned)count, "");
}

LLVMValueRef nvptx_asm(Simt *s, const char *text, const char *constraints, LLVMTypeRef result, const LLVMValueRef *arguments, int count) {
    LLVMTypeRef types[16];
    for (int i = 0; i < count; i++)
        types[i] = LLVMTypeOf(arguments[i]);
    return nvptx_asm_of(s, text, constraints, result, types, (LLVMValueRef *)(uintptr_t)arguments, count);
}

LLVMValueRef nvptx_asm_of(
    Simt *s, const char *text, const char *constraints, LLVMTypeRef result, LLVMTypeRef *types, LLVMValueRef *arguments, int count) {
    Emitter *e = s->e;
    LLVMTypeRef type = LLVMFunctionType(result, types, (unsigned)count, false);
    LLVMValueRef code = LLVMGetInlineAsm(type, text, strlen(text), constraints, strlen(constraints), true, false, LLVMInlineAsmDialectATT, false);
    LLVMValueRef call = LLVMBuildCall2(e->builder, type, code, arguments, (unsigned)count, "");
    unsigned convergent = LLVMGetEnumAttributeKindForName("convergent", sizeof "convergent" - 1);
    LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(e->llvm, convergent, 0));
    return call;
}

static LLVMTypeRef void_type(const Simt *s) {
    return LLVMVoidTypeInContext(s->e->llvm);
}

static LLVMValueRef special(Simt *s, const char *name) {
    return nvptx_call(s, name, s->e->i32, NULL, 0);
}

/* ---- the function ---- */

static void annotate(Simt *s, const char *key, int64_t value) {
    Emitter *e = s->e;
    LLVMMetadataRef parts[] = {LLVMValueAsMetadata(s->function), LLVMMDStringInContext2(e->llvm, key, strlen(key)),
        LLVMValueAsMetadata(LLVMConstInt(e->i32, (unsigned long long)value, false))};
    LLVMAddNamedMetadataOperand(e->module, "nvvm.annotations", LLVMMetadataAsValue(e->llvm, LLVMMDNodeInContext2(e->llvm, parts, 3)));
}

/* CTAs of a multiprocessor that the kernel's registers and shared memory leave room for: told to the assembler, which otherwise takes registers for
 * loads far ahead until only one or two fit. 0: as it likes. */
static int64_t resident_ctas(const IrKernel *kernel) {
    enum { THREADS = 2048, SHARED_BYTES = 227 << 10, MOST = 4 };
    if (!kernel->registers)
        return 0;
    int64_t ctas = layout_ctas(kernel->registers, kernel->threads);
    if (kernel->shared_bytes && ctas > SHARED_BYTES / (kernel->shared_bytes + 1024))
        ctas = SHARED_BYTES / (kernel->shared_bytes + 1024);
    return ctas > THREADS / kernel->threads ? THREADS / kernel->threads : ctas > MOST ? MOST : ctas;
}

static void set_limits(Simt *s) {
    const Signature *signature = &s->kernel->signature;
    annotate(s, "maxntidx", s->threads);
    int64_t blocks = signature->launch_threads ? signature->launch_min_blocks : resident_ctas(s->kernel);
    if (blocks > 0)
        annotate(s, "minctasm", blocks);
    if (signature->launch_max_regs > 0)
        annotate(s, "maxnreg", signature->launch_max_regs);
}

/* The one parameter, as PhbGpuCode says. */
static LLVMTypeRef parameter_type(Simt *s, LaunchPlaces *offsets, int map_count, int64_t *maps) {
    Emitter *e = s->e;
    const Signature *signature = &s->kernel->signature;
    uint64_t tensors = 0, scalars = 0, dims = (uint64_t)(signature->symbolic.count + signature->search.count);
    for (int i = 0; i < signature->params.count; i++) {
        if (signature->params.items[i].type->kind == TYPE_TENSOR)
            tensors++;
        else
            scalars++;
    }
    uint64_t words = sizeof(PhbTensorArg) / 8, at = 0;
    offsets->tensors = emit_int_const(e, 0);
    at = tensors * words;
    offsets->scalars = emit_int_const(e, (int64_t)at * 8);
    at += scalars;
    offsets->dims = emit_int_const(e, (int64_t)at * 8);
    at += dims;
    offsets->grid = emit_int_const(e, (int64_t)at * 8);
    offsets->super = emit_int_const(e, (int64_t)(at + 3) * 8);
    offsets->supers = emit_int_const(e, (int64_t)(at + 6) * 8);
    at += 9;
    if (map_count > 0) {
        at = (at + PHB_MAP_ALIGN / 8 - 1) / (PHB_MAP_ALIGN / 8) * (PHB_MAP_ALIGN / 8);
        *maps = (int64_t)at * 8;
        at += (uint64_t)map_count * PHB_MAP_BYTES / 8;
    }
    LLVMTypeRef array = LLVMArrayType2(e->i64, at);
    return LLVMStructTypeInContext(e->llvm, &array, 1, false);
}

static LLVMValueRef place(Simt *s, LLVMValueRef parameter, LLVMValueRef offset) {
    return LLVMBuildGEP2(s->e->builder, s->e->i8, parameter, &offset, 1, "");
}

static void begin(Simt *s, const char *name, LaunchPlaces *places) {
    Emitter *e = s->e;
    LaunchPlaces offsets;
    int map_count = layout_bulk_maps(e->context, s->kernel).count;
    s->data = NEW(e->context->arena, NvptxLeaf);
    LLVMTypeRef parameter = parameter_type(s, &offsets, map_count, &leaf_of(s)->maps);
    s->function = LLVMAddFunction(e->module, name, LLVMFunctionType(void_type(s), &e->ptr, 1, false));
    LLVMSetFunctionCallConv(s->function, KERNEL_CALL);
    debug_function(e, s->function, &s->kernel->signature);
    unsigned byval = LLVMGetEnumAttributeKindForName("byval", sizeof "byval" - 1);
    unsigned align = LLVMGetEnumAttributeKindForName("align", sizeof "align" - 1);
    LLVMAddAttributeAtIndex(s->function, 1, LLVMCreateTypeAttribute(e->llvm, byval, parameter));
    LLVMAddAttributeAtIndex(s->function, 1, LLVMCreateEnumAttribute(e->llvm, align, map_count > 0 ? PHB_MAP_ALIGN : 8));
    annotate(s, "kernel", 1);
    set_limits(s);
    s->self = NULL;
    LLVMPositionBuilderAtEnd(e->builder, LLVMAppendBasicBlockInContext(e->llvm, s->function, "entry"));
    LLVMValueRef base = LLVMGetParam(s->function, 0);
    *places = (LaunchPlaces){place(s, base, offsets.tensors), place(s, base, offsets.scalars), place(s, base, offsets.dims),
        place(s, base, offsets.grid), place(s, base, offsets.super), place(s, base, offsets.supers)};
    leaf_of(s)->shared = LLVMGetNamedGlobal(e->module, "phb_shared");
    if (!leaf_of(s)->shared) {
        leaf_of(s)->shared = LLVMAddGlobalInAddressSpace(e->module, LLVMArrayType2(e->i8, 0), "phb_shared", SPACE_OF_SHARED);
        LLVMSetLinkage(leaf_of(s)->shared, LLVMExternalLinkage);
        LLVMSetAlignment(leaf_of(s)->shared, 1024); /* what the widest swizzle wants */
    }
}

static LLVMValueRef tensor_base(Simt *s, LLVMValueRef pointer) {
    return LLVMBuildAddrSpaceCast(s->e->builder, pointer, LLVMPointerTypeInContext(s->e->llvm, SPACE_OF_TENSORS), "");
}

/* ---- where am I ---- */

static LLVMValueRef thread(Simt *s) {
    return special(s, "llvm.nvvm.read.ptx.sreg.tid.x");
}

static LLVMValueRef thread_here(Simt *s) {
    return nvptx_asm(s, "mov.u32 $0, %tid.x;", "=r", s->e->i32, NULL, 0);
}

static LLVMValueRef lane(Simt *s) {
    return LLVMBuildAnd(s->e->builder, s->thread ? s->thread : thread(s), LLVMConstInt(s->e->i32, 31, false), "");
}

static LLVMValueRef cta(Simt *s) {
    return LLVMBuildZExt(s->e->builder, special(s, "llvm.nvvm.read.ptx.sreg.ctaid.x"), s->e->i64, "");
}

static LLVMValueRef ctas(Simt *s) {
    return LLVMBuildZExt(s->e->builder, special(s, "llvm.nvvm.read.ptx.sreg.nctaid.x"), s->e->i64, "");
}

/* ---- the CTA, the warp, the cluster ---- */

static void barrier(Simt *s, Span span) {
    (void)span;
    nvptx_call(s, "llvm.nvvm.barrier0", void_type(s), NULL, 0);
}

static LLVMValueRef whole_warp(const Simt *s) {
    return LLVMConstInt(s->e->i32, 0xFFFFFFFF, false);
}

static LLVMValueRef shuffle(Simt *s, SimtShuffle way, LLVMValueRef value, LLVMValueRef other, Span span) {
    (void)span;
    static const char *const names[] = {[SHUFFLE_INDEX] = "llvm.nvvm.shfl.sync.idx.i32",
        [SHUFFLE_XOR] = "llvm.nvvm.shfl.sync.bfly.i32",
        [SHUFFLE_UP] = "llvm.nvvm.shfl.sync.up.i32",
        [SHUFFLE_DOWN] = "llvm.nvvm.shfl.sync.down.i32"};
    LLVMValueRef clamp = LLVMConstInt(s->e->i32, way == SHUFFLE_UP ? 0 : 31, false);
    const LLVMValueRef arguments[] = {whole_warp(s), value, other, clamp};
    return nvptx_call(s, names[way], s->e->i32, arguments, 4);
}

static LLVMValueRef ballot(Simt *s, LLVMValueRef predicate, Span span) {
    (void)span;
    const LLVMValueRef arguments[] = {whole_warp(s), predicate};
    return nvptx_call(s, "llvm.nvvm.vote.ballot.sync", s->e->i32, arguments, 2);
}

/* All lanes arrive, so that before sm_90 the first one does as well as any. */
static LLVMValueRef elect(Simt *s, Span span) {
    (void)span;
    Emitter *e = s->e;
    if (nvptx_arch(s) < 90)
        return LLVMBuildICmp(e->builder, LLVMIntEQ, s->lane, LLVMConstInt(e->i32, 0, false), "");
    LLVMValueRef elected = nvptx_asm(s, "{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.b32 $0, 1, 0, p; }", "=r", e->i32, NULL, 0);
    return LLVMBuildICmp(e->builder, LLVMIntNE, elected, LLVMConstInt(e->i32, 0, false), "");
}

static LLVMValueRef cluster_rank(Simt *s) {
    return nvptx_arch(s) < 90 ? LLVMConstInt(s->e->i32, 0, false) : special(s, "llvm.nvvm.read.ptx.sreg.cluster.ctarank");
}

static void cluster_arrive(Simt *s, bool relaxed, Span span) {
    (void)span;
    nvptx_call(s, relaxed ? "llvm.nvvm.barrier.cluster.arrive.relaxed" : "llvm.nvvm.barrier.cluster.arrive", void_type(s), NULL, 0);
}

static void cluster_wait(Simt *s, Span span) {
    (void)span;
    nvptx_call(s, "llvm.nvvm.barrier.cluster.wait", void_type(s), NULL, 0);
}

/* ---- tensor cores ---- */

static void ldmatrix(Simt *s, LLVMValueRef shared, int count, bool transposed, LLVMValueRef results[4], Span span) {
    (void)span;
    Emitter *e = s->e;
    char name[80];
    snprintf(name, sizeof name, "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x%d%s.b16.p3", count, transposed ? ".trans" : "");
    LLVMTypeRef parts[] = {e->i32, e->i32, e->i32, e->i32};
    LLVMTypeRef type = count == 1 ? e->i32 : LLVMStructTypeInContext(e->llvm, parts, (unsigned)count, false);
    const LLVMValueRef address = nvptx_shared_address(s, shared);
    LLVMValueRef loaded = nvptx_call(s, name, type, &address, 1);
    for (int i = 0; i < count; i++)
        results[i] = count == 1 ? loaded : LLVMBuildExtractValue(e->builder, loaded, (unsigned)i, "");
}

/* The operand of a matrix instruction: two halves, four bytes, or f32 rounded to tf32. */
static LLVMValueRef mma_operand(Simt *s, SimtMma shape, LLVMValueRef bits) {
    Emitter *e = s->e;
    if (shape == MMA_F16)
        return LLVMBuildBitCast(e->builder, bits, LLVMVectorType(e->f16, 2), "");
    const LLVMValueRef number = shape == MMA_TF32 ? LLVMBuildBitCast(e->builder, bits, e->f32, "") : bits;
    return shape == MMA_TF32 ? nvptx_call(s, "llvm.nvvm.f2tf32.rna", e->i32, &number, 1) : bits;
}

static void mma(Simt *s, SimtMma shape, bool a_signed, bool b_signed, const LLVMValueRef a[4], const LLVMValueRef b[2], const LLVMValueRef c[4],
    LLVMValueRef d[4], Span span) {
    (void)span;
    Emitter *e = s->e;
    bool ints = shape == MMA_I8;
    LLVMTypeRef result = ints ? e->i32 : e->f32;
    char name[80];
    if (ints)
        snprintf(name, sizeof name, "llvm.nvvm.mma.m16n8k32.row.col.%s%s%s", a_signed ? "s8" : "u8", a_signed == b_signed ? "" : ".",
            a_signed == b_signed ? ""
            : b_signed           ? "s8"
                                 : "u8");
    else
        snprintf(name, sizeof name, "llvm.nvvm.mma.%s",
            shape == MMA_F16    ? "m16n8k16.row.col.f32.f32"
            : shape == MMA_BF16 ? "m16n8k16.row.col.bf16"
                                : "m16n8k8.row.col.tf32");
    LLVMValueRef arguments[10];
    for (int i = 0; i < 4; i++)
        arguments[i] = mma_operand(s, shape, a[i]);
    for (int i = 0; i < 2; i++)
        arguments[4 + i] = mma_operand(s, shape, b[i]);
    for (int i = 0; i < 4; i++)
        arguments[6 + i] = c[i];
    LLVMTypeRef parts[] = {result, result, result, result}, types[10];
    for (int i = 0; i < 10; i++)
        types[i] = LLVMTypeOf(arguments[i]);
    LLVMTypeRef type = LLVMFunctionType(LLVMStructTypeInContext(e->llvm, parts, 4, false), types, 10, false);
    LLVMValueRef function = LLVMGetNamedFunction(e->module, name);
    if (!function)
        function = LLVMAddFunction(e->module, name, type);
    LLVMValueRef sum = LLVMBuildCall2(e->builder, type, function, arguments, 10, "");
    for (int i = 0; i < 4; i++)
        d[i] = LLVMBuildExtractValue(e->builder, sum, (unsigned)i, "");
}

/* ---- the table ---- */

#define SHARED_SM80 166912 /* 163 KiB a CTA */
#define SHARED_SM90 232448 /* 227 KiB */

#define HOOKS                                                                                                                                        \
    .has_mma = true, .predicates = true, .register_limit = 255, .begin = begin, .tensor_base = tensor_base, .thread = thread, .lane = lane,          \
    .cta = cta, .ctas = ctas, .thread_here = thread_here,                                                                                            \
    .load = nvptx_load, .store = nvptx_store, .atomic = nvptx_atomic, .barrier = barrier, .shuffle = shuffle, .ballot = ballot, .elect = elect,      \
    .cluster_rank = cluster_rank, .cluster_arrive = cluster_arrive, .cluster_wait = cluster_wait, .copy_async = nvptx_copy_async,                    \
    .copy_commit = nvptx_copy_commit, .copy_wait = nvptx_copy_wait, .ldmatrix = ldmatrix, .mma = mma

#define BULK_HOOKS                                                                                                                                   \
    .has_bulk = true, .mbarriers = nvptx_mbarriers, .mbarrier_expect = nvptx_mbarrier_expect, .mbarrier_wait = nvptx_mbarrier_wait,                  \
    .bulk_copy = nvptx_bulk_copy, .stmatrix = nvptx_stmatrix, .bulk_fence = nvptx_bulk_fence, .bulk_store = nvptx_bulk_store,                         \
    .bulk_store_wait = nvptx_bulk_store_wait, .wgmma_begin = nvptx_wgmma_begin, .wgmma = nvptx_wgmma, .wgmma_commit = nvptx_wgmma_commit,            \
    .wgmma_wait = nvptx_wgmma_wait, .mbarrier_arrive = nvptx_mbarrier_arrive

const NvptxTarget nvptx_targets[] = {
    {"sm_80", 80, false, "+ptx70", {.name = "sm_80", .shared_limit = SHARED_SM80, HOOKS}},
    {"sm_86", 86, false, "+ptx71", {.name = "sm_86", .shared_limit = 101376, HOOKS}},
    {"sm_89", 89, false, "+ptx78", {.name = "sm_89", .shared_limit = 101376, HOOKS}},
    {"sm_90", 90, false, "+ptx80", {.name = "sm_90", .shared_limit = SHARED_SM90, HOOKS}},
    {"sm_90a", 90, true, "+ptx80", {.name = "sm_90a", .shared_limit = SHARED_SM90, HOOKS, BULK_HOOKS}},
};

const int nvptx_target_count = sizeof nvptx_targets / sizeof nvptx_targets[0];

const NvptxTarget *nvptx_find(const char *name) {
    for (int i = 0; i < nvptx_target_count; i++)
        if (strcmp(nvptx_targets[i].name, name) == 0)
            return &nvptx_targets[i];
    return NULL;
}

int nvptx_arch(const Simt *s) {
    return ((const NvptxTarget *)((const char *)s->target - offsetof(NvptxTarget, simt)))->arch;
}
