/* Code for NVIDIA GPUs: the simt backend's target hooks, and the PTX of a module. Inside of code generation only. */
#ifndef PHOBOS_CODEGEN_NVPTX_H
#define PHOBOS_CODEGEN_NVPTX_H

#include "compiler/codegen/simt/simt.h"
#include "compiler/codegen/units.h"

enum { SPACE_OF_TENSORS = 1, SPACE_OF_SHARED = 3 }; /* LLVM's address spaces */

typedef struct NvptxTarget {
    const char *name; /* "sm_90a" */
    int arch;         /* 90 */
    bool specific;    /* runs on that very architecture alone */
    const char *ptx;  /* the lowest PTX version that has it */
    SimtTarget simt;
} NvptxTarget;

extern const NvptxTarget nvptx_targets[]; /* ascending */
extern const int nvptx_target_count;
const NvptxTarget *nvptx_find(const char *name); /* NULL: none of that name */

/* ---- ptx.c ---- */

/* A leaf's stages as they go into one image. */
typedef struct NvptxStage {
    const IrKernel *kernel; /* at the memory level */
    const char *entry;
} NvptxStage;

void nvptx_initialise(void); /* once, before what follows */
/* The module of some stages for one target, and what makes PTX of it: a UnitTranslate. */
Unit *nvptx_emit(
    Context *context, const NvptxTarget *target, const NvptxStage *stages, int count, int optimise, const char *file, const DebugSource *debug);
void nvptx_translate(Unit *unit);

/* ---- assemble.c ---- */

/* An image of PTX on its way to machine code. */
typedef struct Assembly {
    const GpuImage *ptx;
    GpuImage *code;
    Span span;
    Output from, to;
    Command ptxas;
} Assembly;

/* Starts ptxas, at most MOST_COMMANDS at once, and waits for it; false after an error at `span`, with nothing to wait for. */
bool nvptx_assemble(Context *context, const GpuImage *ptx, Span span, GpuImage *code, Assembly *assembly);
bool nvptx_assembled(Context *context, Assembly *assembly);

/* ---- target.c, memory.c: inside of the backend ---- */

typedef struct NvptxLeaf {
    LLVMValueRef shared; /* the CTA's dynamic shared memory */
    int64_t maps;        /* offset of the tensor maps in the parameter */
} NvptxLeaf;

int nvptx_arch(const Simt *s);
LLVMValueRef nvptx_call(Simt *s, const char *name, LLVMTypeRef result, const LLVMValueRef *arguments, int count); /* of an intrinsic */
LLVMValueRef nvptx_asm(Simt *s, const char *text, const char *constraints, LLVMTypeRef result, const LLVMValueRef *arguments, int count);
LLVMValueRef nvptx_asm_of(
    Simt *s, const char *text, const char *constraints, LLVMTypeRef result, LLVMTypeRef *types, LLVMValueRef *arguments, int count); /* of any count */
LLVMValueRef nvptx_shared_address(Simt *s, LLVMValueRef offset); /* i32 bytes, as a pointer into shared memory */

LLVMValueRef nvptx_load(Simt *s, const SimtAccess *access);
void nvptx_store(Simt *s, const SimtAccess *access, LLVMValueRef value);
LLVMValueRef nvptx_atomic(Simt *s, OpKind kind, PhbDType dtype, const SimtAccess *access, LLVMValueRef compare, LLVMValueRef value);
void nvptx_copy_async(Simt *s, LLVMValueRef shared, const SimtAccess *access);
void nvptx_copy_commit(Simt *s);
void nvptx_copy_wait(Simt *s, int left, Span span);

/* ---- bulk.c ---- */

void nvptx_mbarriers(Simt *s, LLVMValueRef shared, int count, bool of_all, Span span);
void nvptx_mbarrier_arrive(Simt *s, LLVMValueRef mbarrier, Span span);
void nvptx_mbarrier_expect(Simt *s, LLVMValueRef mbarrier, int64_t bytes, LLVMValueRef predicate, Span span);
void nvptx_mbarrier_wait(Simt *s, LLVMValueRef mbarrier, LLVMValueRef parity, Span span);
void nvptx_bulk_copy(Simt *s, const SimtBulkCopy *copy);
void nvptx_stmatrix(Simt *s, LLVMValueRef shared, const LLVMValueRef words[4], Span span);
void nvptx_bulk_fence(Simt *s, Span span);
void nvptx_bulk_store(Simt *s, const SimtBulkCopy *copy);
void nvptx_bulk_store_wait(Simt *s, int left, Span span);
void nvptx_wgmma_begin(Simt *s, Span span);
void nvptx_wgmma(Simt *s, const SimtWgmma *product);
void nvptx_wgmma_commit(Simt *s, Span span);
void nvptx_wgmma_wait(Simt *s, int left, LLVMValueRef *registers, int count, Span span);

#endif
