/* A thread of a host: where it stands comes from its PhbSimtThread, what concerns other threads are calls of the runtime. The simulator's accesses
 * are calls as well; the CPU's are plain ones. */
#include "compiler/codegen/simt/host.h"

#include <stddef.h>

enum { WORDS = 132, SHARED_LIMIT = 227 << 10, REGISTER_LIMIT = 255 }; /* as a GPU of sm_90 has them: the code is to be the same */

static HostThread *own(const Simt *s) {
    return s->data;
}

/* ---- calls ---- */

LLVMValueRef host_site(Simt *s, Span span) {
    return emit_int_const(s->e, (int64_t)((uint64_t)span.line << 32 | span.column));
}

static LLVMValueRef text(Simt *s, const char *string) {
    return LLVMBuildGlobalStringPtr(s->e->builder, string, "");
}

/* ---- where am I ---- */

static LLVMValueRef load_field(Simt *s, LLVMTypeRef type, size_t offset) {
    Emitter *e = s->e;
    LLVMValueRef bytes = emit_int_const(e, (int64_t)offset);
    return LLVMBuildLoad2(e->builder, type, LLVMBuildGEP2(e->builder, e->i8, s->self, &bytes, 1, ""), "");
}

static LLVMValueRef narrow(Simt *s, LLVMValueRef value) {
    return LLVMBuildTrunc(s->e->builder, value, s->e->i32, "");
}

bool host_polls(const IrBlock *block, bool in_while) {
    for (const IrOp *op = block->first; op; op = op->next) {
        if (in_while && ir_is_atomic(op->kind))
            return true;
        for (int r = 0; r < op->regions.count; r++)
            if (host_polls(op->regions.items[r], in_while || op->kind == OP_WHILE))
                return true;
    }
    return false;
}

static void begin(Simt *s, const char *name, LaunchPlaces *places) {
    Emitter *e = s->e;
    LLVMTypeRef parameters[2] = {e->ptr, e->ptr};
    s->function = LLVMAddFunction(e->module, name, LLVMFunctionType(LLVMVoidTypeInContext(e->llvm), parameters, 2, false));
    LLVMSetLinkage(s->function, LLVMInternalLinkage);
    function_set_level(e, s->function);
    debug_function(e, s->function, &s->kernel->signature);
    LLVMPositionBuilderAtEnd(e->builder, LLVMAppendBasicBlockInContext(e->llvm, s->function, "entry"));
    s->self = LLVMGetParam(s->function, 1);
    s->data = NEW(e->context->arena, HostThread);
    own(s)->arrays = ir_shared_arrays(e->context, s->kernel);
    own(s)->polls = host_polls(s->kernel->body, false);
    own(s)->shared = load_field(s, e->ptr, offsetof(PhbSimtThread, shared));
    if (s->target->has_mma)
        own(s)->words = LLVMBuildAlloca(e->builder, LLVMArrayType2(e->i32, WORDS), "");
    *places = launch_places(e, LLVMGetParam(s->function, 0));
}

static LLVMValueRef tensor_base(Simt *s, LLVMValueRef pointer) {
    (void)s;
    return pointer;
}

static LLVMValueRef thread(Simt *s) {
    return narrow(s, load_field(s, s->e->i64, offsetof(PhbSimtThread, thread)));
}

static LLVMValueRef lane(Simt *s) {
    return LLVMBuildAnd(s->e->builder, s->thread, simt_int(s, 31), "");
}

static LLVMValueRef cta(Simt *s) {
    return load_field(s, s->e->i64, offsetof(PhbSimtThread, cta));
}

static LLVMValueRef ctas(Simt *s) {
    return load_field(s, s->e->i64, offsetof(PhbSimtThread, ctas));
}

static LLVMValueRef cluster_rank(Simt *s) {
    return narrow(s, load_field(s, s->e->i64, offsetof(PhbSimtThread, rank)));
}

/* ---- other threads ---- */

static void barrier(Simt *s, Span span) {
    host_call(s->e, HOST_phb_cta_barrier, (LLVMValueRef[]){s->self, text(s, "barrier"), host_site(s, span)}, 3);
}

/* The values that all lanes of the warp have brought: an array of i64. */
static LLVMValueRef exchange(Simt *s, const char *op, LLVMValueRef value, Span span) {
    LLVMValueRef bits = LLVMBuildZExt(s->e->builder, value, s->e->i64, "");
    return host_call(s->e, HOST_phb_cta_warp, (LLVMValueRef[]){s->self, text(s, op), bits, host_site(s, span)}, 4);
}

static LLVMValueRef warp_values(Simt *s, LLVMValueRef value, Span span) {
    return exchange(s, "warp_reduction", value, span);
}

/* `lane` is below 32, or as far as the warp is wide. */
static LLVMValueRef shuffle(Simt *s, SimtShuffle way, LLVMValueRef value, LLVMValueRef lane, Span span) {
    LLVMBuilderRef builder = s->e->builder;
    LLVMValueRef values = exchange(s, "shuffle", value, span), from = lane;
    if (way == SHUFFLE_XOR)
        from = LLVMBuildXor(builder, s->lane, lane, "");
    if (way == SHUFFLE_UP)
        from = LLVMBuildSub(builder, s->lane, lane, "");
    if (way == SHUFFLE_DOWN)
        from = LLVMBuildAdd(builder, s->lane, lane, "");
    LLVMValueRef exists = LLVMBuildICmp(builder, LLVMIntULT, from, simt_int(s, 32), "");
    from = LLVMBuildZExt(builder, LLVMBuildSelect(builder, exists, from, s->lane, ""), s->e->i64, "");
    return narrow(s, LLVMBuildLoad2(builder, s->e->i64, LLVMBuildGEP2(builder, s->e->i64, values, &from, 1, ""), ""));
}

static LLVMValueRef ballot(Simt *s, LLVMValueRef predicate, Span span) {
    LLVMBuilderRef builder = s->e->builder;
    LLVMTypeRef lanes = LLVMVectorType(s->e->i64, 32);
    LLVMValueRef values = LLVMBuildLoad2(builder, lanes, exchange(s, "ballot", predicate, span), "");
    LLVMSetAlignment(values, 8);
    return LLVMBuildBitCast(builder, LLVMBuildICmp(builder, LLVMIntNE, values, LLVMConstNull(lanes), ""), s->e->i32, "");
}

static LLVMValueRef elect_low(Simt *s, Span span) {
    (void)span;
    return LLVMBuildICmp(s->e->builder, LLVMIntEQ, s->lane, simt_int(s, 0), "");
}

static LLVMValueRef elect_any(Simt *s, Span span) {
    LLVMValueRef elected = host_call(s->e, HOST_phb_cta_elect, (LLVMValueRef[]){s->self, text(s, "elect_one_sync"), host_site(s, span)}, 3);
    return LLVMBuildICmp(s->e->builder, LLVMIntNE, elected, simt_int(s, 0), "");
}

static void cluster_arrive(Simt *s, bool relaxed, Span span) {
    LLVMValueRef op = text(s, relaxed ? "cluster_arrive_relaxed" : "cluster_arrive");
    host_call(s->e, HOST_phb_cta_arrive, (LLVMValueRef[]){s->self, simt_int(s, relaxed), op, host_site(s, span)}, 4);
}

static void cluster_wait(Simt *s, Span span) {
    host_call(s->e, HOST_phb_cta_wait, (LLVMValueRef[]){s->self, text(s, "cluster_wait"), host_site(s, span)}, 3);
}

/* ---- the targets ---- */

#define HOST_TARGET                                                                                                                                  \
    .shared_limit = SHARED_LIMIT, .register_limit = REGISTER_LIMIT, .begin = begin, .tensor_base = tensor_base, .thread = thread, .lane = lane,      \
    .cta = cta, .ctas = ctas, .load = host_load, .store = host_store, .atomic = host_atomic, .barrier = barrier, .shuffle = shuffle,                 \
    .ballot = ballot, .cluster_rank = cluster_rank, .cluster_arrive = cluster_arrive, .cluster_wait = cluster_wait

const SimtTarget simt_cpu = {.name = "the CPU", .elect = elect_low, .warp_values = warp_values, HOST_TARGET};
#define SIMULATOR                                                                                                                                    \
    HOST_TARGET, .name = "the simulator", .checks = true, .has_mma = true, .elect = elect_any, .copy_async = host_copy_async,                        \
                 .copy_commit = host_copy_commit, .copy_wait = host_copy_wait, .ldmatrix = host_ldmatrix, .mma = host_mma

const SimtTarget simt_simulator = {SIMULATOR};
const SimtTarget simt_simulator_bulk = {SIMULATOR, .has_bulk = true, .mbarriers = host_mbarriers, .mbarrier_expect = host_mbarrier_expect,
    .mbarrier_wait = host_mbarrier_wait, .bulk_copy = host_bulk_copy, .stmatrix = host_stmatrix, .bulk_fence = host_bulk_fence,
    .bulk_store = host_bulk_store, .bulk_store_wait = host_bulk_store_wait, .wgmma_begin = host_wgmma_begin, .wgmma = host_wgmma,
    .wgmma_commit = host_wgmma_commit, .wgmma_wait = host_wgmma_wait, .mbarrier_arrive = host_mbarrier_arrive};
