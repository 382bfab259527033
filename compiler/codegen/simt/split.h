/* Threads of a CTA as loops on the CPU: what runs between two meetings of threads is a loop over them. The code of the thread at hand is emitted as
 * for any target, inside of the loop that is open; where threads meet, the loop ends and another begins. Control around meetings stands outside of
 * loops. Inside of code generation for threads on a host only. */
#ifndef PHOBOS_CODEGEN_SPLIT_H
#define PHOBOS_CODEGEN_SPLIT_H

#include "compiler/codegen/simt/host.h"

/* Who comes together, from few to many. */
typedef enum Meeting { MEETS_NONE, MEETS_WARP, MEETS_CTA, MEETS_CLUSTER } Meeting;

/* for each thread of the CTA, or of a warp: before -> header -> head -> body .. -> header, exit. */
typedef struct SplitLoop {
    LLVMBasicBlockRef before, header, head, body, exit;
    LLVMValueRef index; /* i32: the thread */
} SplitLoop;

/* A load from a slot at the start of a loop, which may be made again in any other. */
typedef struct SplitReload {
    LLVMValueRef load, slot;
} SplitReload;

struct Split {
    HostThread host;          /* first: the host's accesses want it */
    const bool *uniform;      /* by IrValue.id: the same in all threads of a CTA, whenever it is computed */
    int threads;              /* of a CTA */
    LLVMValueRef first;       /* i32: of those that loops run over now, */
    int count;                /* and how many */
    bool in_warp;             /* these are a warp */
    SplitLoop *open;          /* NULL: the builder is outside of loops */
    LLVMBasicBlockRef inside; /* where split_step_in goes back to */
    VEC(SplitLoop *) loops;
    VEC(SplitReload) reloads;
    LLVMValueRef group; /* metadata: accesses of different threads, which do not depend on one another */
    Loop ctas;
};

/* ---- split.c: loops, and values that are used in other ones than their own ---- */

LLVMValueRef split_group(Emitter *e); /* for Split.group */
void split_open(Simt *s);
void split_close(Simt *s);
/* For code that belongs before the open loop: moves the builder there, and back. */
void split_step_out(Simt *s);
void split_step_in(Simt *s);
/* For what all threads have: stored to in a loop, loaded after it. */
LLVMValueRef split_variable(Simt *s, LLVMTypeRef type);
/* A slot for each thread. Puts and gets are for the thread at hand. */
LLVMValueRef split_slot(Simt *s, LLVMTypeRef type);
void split_put(Simt *s, LLVMValueRef slot, LLVMValueRef value);
LLVMValueRef split_get(Simt *s, LLVMValueRef slot, LLVMTypeRef type);
/* Of any thread: `index` i32. */
LLVMValueRef split_address(Simt *s, LLVMValueRef slot, LLVMTypeRef type, LLVMValueRef index);
/* The function is complete: values go from loop to loop. */
void split_finish(Simt *s);

/* ---- split_region.c ---- */

/* Emits a loop or branch around loops over threads, where threads meet in it or vectors gain by it; false: it is to run in each thread. */
bool split_region(Simt *s, const IrOp *op);

/* ---- split_walk.c: what the IR says ---- */

Meeting split_meeting(const IrBlock *block);
bool *split_find_uniform(Context *context, const IrKernel *kernel, int values);
/* A `for` that gains where neighbouring threads take its turns side by side: each access that it makes goes from thread to thread to the next
 * element, or stays. */
bool split_is_walk(const bool *uniform, const IrOp *loop);
bool split_has_walk(const bool *uniform, const IrBlock *block);

/* ---- split_target.c ---- */

/* Can the kernel's threads run as loops? */
bool split_fits(const IrKernel *kernel);
/* Function `name`, a PhbCtaRange; NULL where slots would take too much of the stack. */
LLVMValueRef split_range(Emitter *e, const IrKernel *kernel, const char *name);

#endif
