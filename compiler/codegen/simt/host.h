/* Threads on a host: the targets of the CPU device and of the simulator, and what their stages look like from outside. */
#ifndef PHOBOS_CODEGEN_SIMT_HOST_H
#define PHOBOS_CODEGEN_SIMT_HOST_H

#include "compiler/codegen/simt/simt.h"

/* ---- host_call.c ---- */

typedef enum HostHook {
#define HOOK(name, result, parameters) HOST_##name,
#include "runtime/hooks.def"
#undef HOOK
    HOOK_COUNT
} HostHook;

LLVMValueRef host_call(Emitter *e, HostHook hook, LLVMValueRef *arguments, unsigned count);

/* ---- host_memory.c ---- */

LLVMValueRef host_load(Simt *s, const SimtAccess *access);
void host_store(Simt *s, const SimtAccess *access, LLVMValueRef value);
LLVMValueRef host_shared(Simt *s, LLVMValueRef address);            /* a pointer, of a SimtAccess.address */
LLVMValueRef host_tensor_number(Simt *s, const SimtAccess *access); /* as hooks have it */
LLVMValueRef host_atomic(Simt *s, OpKind kind, PhbDType dtype, const SimtAccess *access, LLVMValueRef compare, LLVMValueRef value);

/* ---- host_matrix.c ---- */

void host_copy_async(Simt *s, LLVMValueRef shared, const SimtAccess *access);
void host_copy_commit(Simt *s);
void host_copy_wait(Simt *s, int left, Span span);
void host_ldmatrix(Simt *s, LLVMValueRef shared, int count, bool transposed, LLVMValueRef results[4], Span span);
void host_mma(Simt *s, SimtMma shape, bool a_signed, bool b_signed, const LLVMValueRef a[4], const LLVMValueRef b[2], const LLVMValueRef c[4],
    LLVMValueRef d[4], Span span);

/* ---- host_bulk.c ---- */

void host_mbarriers(Simt *s, LLVMValueRef shared, int count, bool of_all, Span span);
void host_mbarrier_arrive(Simt *s, LLVMValueRef mbarrier, Span span);
void host_mbarrier_expect(Simt *s, LLVMValueRef mbarrier, int64_t bytes, LLVMValueRef predicate, Span span);
void host_mbarrier_wait(Simt *s, LLVMValueRef mbarrier, LLVMValueRef parity, Span span);
void host_bulk_copy(Simt *s, const SimtBulkCopy *copy);
void host_stmatrix(Simt *s, LLVMValueRef shared, const LLVMValueRef words[4], Span span);
void host_bulk_fence(Simt *s, Span span);
void host_bulk_store(Simt *s, const SimtBulkCopy *copy);
void host_bulk_store_wait(Simt *s, int left, Span span);
void host_wgmma_begin(Simt *s, Span span);
void host_wgmma(Simt *s, const SimtWgmma *product);
void host_wgmma_commit(Simt *s, Span span);
void host_wgmma_wait(Simt *s, int left, LLVMValueRef *registers, int count, Span span);

/* ---- host_target.c ---- */

/* What the targets keep of a thread under construction. */
typedef struct HostThread {
    LLVMValueRef shared; /* of its CTA */
    LLVMValueRef words;  /* on its stack, for registers of matrix instructions; NULL: the target has none */
    IrOps arrays;        /* of the kernel */
    bool polls;          /* an atomic is in a `while`: it may wait for what another thread does to it */
} HostThread;

extern const SimtTarget simt_cpu, simt_simulator, simt_simulator_bulk; /* the CPU; the simulator of sm_80, of sm_90a */

/* Is an atomic in a `while`, in the block or around it? Then a thread may wait for what another one does to it. */
bool host_polls(const IrBlock *block, bool in_while);
LLVMValueRef host_site(Simt *s, Span span);

/* ---- host_variants.c, host_range.c ---- */

/* The code of a stage's threads. */
typedef struct ThreadCode {
    LLVMValueRef run; /* a PhbSimtRun */
    const char *name; /* of its kernel */
    int threads;
    int64_t shared;
} ThreadCode;

ThreadCode simt_code(Emitter *e, const SimtTarget *target, const IrKernel *kernel, const char *name);
/* Function `name`, a PhbCtaRange. */
LLVMValueRef host_range(Emitter *e, const ThreadCode *code, const int64_t cluster[3], const char *name);
#endif
