/* The CPU's target where threads are loops: hooks end the loop where threads meet, and go on in the next one. */
#include "compiler/codegen/simt/split.h"

enum { LANES = 1 << LAYOUT_LANES, MOST_SLOT_BYTES = 512 << 10 }; /* of a compute thread's stack */

static Split *own(const Simt *s) {
    return s->split;
}

/* ---- the function ---- */

static LLVMValueRef align_up(Emitter *e, LLVMValueRef pointer) {
    LLVMValueRef mask = emit_int_const(e, -PHB_SHARED_ALIGN), more = emit_int_const(e, PHB_SHARED_ALIGN - 1);
    LLVMValueRef address = LLVMBuildPtrToInt(e->builder, pointer, e->i64, "");
    LLVMValueRef aligned = LLVMBuildAnd(e->builder, LLVMBuildAdd(e->builder, address, more, ""), mask, "");
    LLVMValueRef skip = LLVMBuildSub(e->builder, aligned, address, "");
    return LLVMBuildGEP2(e->builder, e->i8, pointer, &skip, 1, "");
}

static void begin(Simt *s, const char *name, LaunchPlaces *places) {
    Emitter *e = s->e;
    LLVMTypeRef parameters[4] = {e->ptr, e->i64, e->i64, e->ptr};
    s->function = LLVMAddFunction(e->module, name, LLVMFunctionType(LLVMVoidTypeInContext(e->llvm), parameters, 4, false));
    LLVMSetLinkage(s->function, LLVMInternalLinkage);
    function_set_level(e, s->function);
    debug_function(e, s->function, &s->kernel->signature);
    LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(e->llvm, s->function, "entry"),
                      run = LLVMAppendBasicBlockInContext(e->llvm, s->function, "run");
    LLVMPositionBuilderAtEnd(e->builder, entry);
    LLVMBuildBr(e->builder, run); /* the entry is for slots */
    LLVMPositionBuilderAtEnd(e->builder, run);
    Split *split = s->split = NEW(e->context->arena, Split);
    *split = (Split){.uniform = split_find_uniform(e->context, s->kernel, ir_number((IrKernel *)s->kernel)),
        .threads = s->threads,
        .first = simt_int(s, 0),
        .count = s->threads,
        .group = split_group(e)};
    s->data = &split->host;
    split->host.shared = align_up(e, LLVMGetParam(s->function, 3));
    *places = launch_places(e, LLVMGetParam(s->function, 0));
}

static LLVMValueRef tensor_base(Simt *s, LLVMValueRef pointer) {
    (void)s;
    return pointer;
}

/* The first question for the thread opens the loop over CTAs, and that over threads in it. CTAs of a cluster do not meet: each may have the same
 * memory. */
static LLVMValueRef thread(Simt *s) {
    Emitter *e = s->e;
    LLVMValueRef size = emit_int_const(e, simt_cluster_size(s));
    LLVMValueRef first = LLVMBuildMul(e->builder, LLVMGetParam(s->function, 1), size, "");
    own(s)->ctas = loop_begin(e, first, LLVMBuildMul(e->builder, LLVMGetParam(s->function, 2), size, ""));
    split_open(s);
    return s->thread;
}

static LLVMValueRef lane(Simt *s) {
    return s->lane;
}

static LLVMValueRef cta(Simt *s) {
    return own(s)->ctas.index;
}

static LLVMValueRef cluster_rank(Simt *s) {
    Emitter *e = s->e;
    LLVMValueRef rank = LLVMBuildURem(e->builder, cta(s), emit_int_const(e, simt_cluster_size(s)), "");
    return LLVMBuildTrunc(e->builder, rank, e->i32, "");
}

static void end(Simt *s) {
    split_close(s);
    loop_end(s->e, &own(s)->ctas, LOOP_SCALAR);
    split_finish(s);
}

/* ---- meetings ---- */

static void meet(Simt *s) {
    split_close(s);
    split_open(s);
}

static void barrier(Simt *s, Span span) {
    (void)span;
    meet(s);
}

/* `lane` is below 32, or as far as the warp is wide. */
static LLVMValueRef shuffle(Simt *s, SimtShuffle way, LLVMValueRef value, LLVMValueRef lane, Span span) {
    (void)span;
    LLVMBuilderRef builder = s->e->builder;
    LLVMTypeRef type = LLVMTypeOf(value);
    LLVMValueRef slot = split_slot(s, type), from = lane;
    split_put(s, slot, value);
    meet(s);
    if (way == SHUFFLE_XOR)
        from = LLVMBuildXor(builder, s->lane, lane, "");
    if (way == SHUFFLE_UP)
        from = LLVMBuildSub(builder, s->lane, lane, "");
    if (way == SHUFFLE_DOWN)
        from = LLVMBuildAdd(builder, s->lane, lane, "");
    LLVMValueRef exists = LLVMBuildICmp(builder, LLVMIntULT, from, simt_int(s, LANES), "");
    from = LLVMBuildSelect(builder, exists, from, s->lane, "");
    LLVMValueRef warp = LLVMBuildSub(builder, s->thread, s->lane, "");
    LLVMValueRef other = LLVMBuildLoad2(builder, type, split_address(s, slot, type, LLVMBuildAdd(builder, warp, from, "")), "");
    simt_mark_access(s, other);
    return other;
}

/* For each warp of those that meet: outside of the loops over threads. `first` is its first thread. */
typedef struct WarpLoop {
    Loop loop;
    LLVMValueRef first; /* i32 */
} WarpLoop;

static WarpLoop warps_begin(Simt *s) {
    Emitter *e = s->e;
    split_close(s);
    WarpLoop warps = {.loop = loop_begin(e, emit_int_const(e, 0), emit_int_const(e, own(s)->count / LANES))};
    LLVMValueRef offset = LLVMBuildMul(e->builder, LLVMBuildTrunc(e->builder, warps.loop.index, e->i32, ""), simt_int(s, LANES), "");
    warps.first = LLVMBuildAdd(e->builder, own(s)->first, offset, "");
    return warps;
}

/* `result` of each warp, in all its threads. */
static LLVMValueRef warps_end(Simt *s, WarpLoop *warps, LLVMValueRef slot, LLVMValueRef result) {
    Emitter *e = s->e;
    LLVMTypeRef type = LLVMTypeOf(result);
    LLVMBuildStore(e->builder, result, split_address(s, slot, type, warps->first));
    loop_end(e, &warps->loop, LOOP_SCALAR);
    split_open(s);
    LLVMValueRef first = LLVMBuildSub(e->builder, s->thread, s->lane, "");
    LLVMValueRef shared = LLVMBuildLoad2(e->builder, type, split_address(s, slot, type, first), "");
    simt_mark_access(s, shared);
    return shared;
}

static LLVMValueRef reduce_warp(Simt *s, const IrOp *op, LLVMValueRef value, SimtCombine *combine) {
    LLVMBuilderRef builder = s->e->builder;
    LLVMTypeRef type = LLVMTypeOf(value);
    LLVMValueRef slot = split_slot(s, type), values[LANES];
    split_put(s, slot, value);
    WarpLoop warps = warps_begin(s);
    for (int i = 0; i < LANES; i++)
        values[i] = LLVMBuildLoad2(builder, type, split_address(s, slot, type, LLVMBuildAdd(builder, warps.first, simt_int(s, i), "")), "");
    for (int mask = LANES / 2; mask; mask /= 2)
        for (int i = 0; i < mask; i++)
            values[i] = combine(s, op, values[i], values[i + mask]);
    return warps_end(s, &warps, slot, values[0]);
}

static LLVMValueRef ballot(Simt *s, LLVMValueRef predicate, Span span) {
    (void)span;
    Emitter *e = s->e;
    LLVMTypeRef lanes = LLVMVectorType(e->i8, LANES);
    LLVMValueRef slot = split_slot(s, e->i1), votes = split_slot(s, e->i32);
    split_put(s, slot, predicate);
    WarpLoop warps = warps_begin(s);
    LLVMValueRef values = LLVMBuildLoad2(e->builder, lanes, split_address(s, slot, e->i8, warps.first), "");
    LLVMSetAlignment(values, 1);
    LLVMValueRef bits = LLVMBuildICmp(e->builder, LLVMIntNE, values, LLVMConstNull(lanes), "");
    return warps_end(s, &warps, votes, LLVMBuildBitCast(e->builder, bits, e->i32, ""));
}

static LLVMValueRef elect(Simt *s, Span span) {
    (void)span;
    return LLVMBuildICmp(s->e->builder, LLVMIntEQ, s->lane, simt_int(s, 0), "");
}

static const SimtTarget simt_split = {.name = "the CPU",
    .begin = begin,
    .end = end,
    .tensor_base = tensor_base,
    .thread = thread,
    .lane = lane,
    .cta = cta,
    .load = host_load,
    .store = host_store,
    .atomic = host_atomic,
    .barrier = barrier,
    .shuffle = shuffle,
    .ballot = ballot,
    .elect = elect,
    .reduce_warp = reduce_warp,
    .cluster_rank = cluster_rank};

/* ---- kernels ---- */

static bool has_op(const IrBlock *block, OpKind kind) {
    for (const IrOp *op = block->first; op; op = op->next) {
        if (op->kind == kind)
            return true;
        for (int r = 0; r < op->regions.count; r++)
            if (has_op(op->regions.items[r], kind))
                return true;
    }
    return false;
}

bool split_fits(const IrKernel *kernel) {
    Meeting most = split_meeting(kernel->body);
    return most < MEETS_CLUSTER && (most == MEETS_NONE || kernel->threads % LANES == 0) && !has_op(kernel->body, OP_REMOTE) &&
           !host_polls(kernel->body, false);
}

static int64_t slot_bytes(const Emitter *e, LLVMValueRef function) {
    int64_t bytes = 0;
    for (LLVMValueRef at = LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(function)); at; at = LLVMGetNextInstruction(at))
        if (LLVMIsAAllocaInst(at))
            bytes += (int64_t)LLVMABISizeOfType(e->layout, LLVMGetAllocatedType(at));
    return bytes;
}

LLVMValueRef split_range(Emitter *e, const IrKernel *kernel, const char *name) {
    LLVMValueRef function = simt_leaf(e, &simt_split, kernel, name);
    if (slot_bytes(e, function) <= MOST_SLOT_BYTES)
        return function;
    LLVMDeleteFunction(function);
    return NULL;
}
