/* Loops over the threads of a CTA, and values that outlive theirs. Code is emitted as if threads ran by themselves, so that loops use what other
 * loops computed; `split_finish` mends that. What depends on no thread goes before its loop. What costs little is computed again where it is used.
 * Anything else waits in a slot, an array with an element for each thread. */
#include "compiler/codegen/simt/split.h"

#include <llvm-c/IRReader.h>

#include <stdlib.h>
#include <string.h>

enum { MOST_AGAIN = 24 }; /* instructions that are computed again rather than kept */

static Arena *arena_of(const Simt *s) {
    return s->e->context->arena;
}

/* ---- loops ---- */

static LLVMMetadataRef named(Emitter *e, const char *name, LLVMMetadataRef value) {
    LLVMMetadataRef items[2] = {LLVMMDStringInContext2(e->llvm, name, strlen(name)), value};
    return LLVMMDNodeInContext2(e->llvm, items, 2);
}

/* LLVM's access groups are distinct nodes, which its C interface only makes from text. */
LLVMValueRef split_group(Emitter *e) {
    static const char text[] = "!g = !{!0}\n!0 = distinct !{}\n";
    LLVMMemoryBufferRef memory = LLVMCreateMemoryBufferWithMemoryRangeCopy(text, sizeof text - 1, "group");
    LLVMModuleRef module;
    LLVMValueRef group;
    char *message = NULL;
    if (LLVMParseIRInContext(e->llvm, memory, &module, &message))
        abort();
    LLVMGetNamedMetadataOperands(module, "g", &group);
    LLVMDisposeModule(module);
    return group;
}

static void mark(Simt *s, LLVMValueRef access) {
    LLVMContextRef llvm = s->e->llvm;
    LLVMSetMetadata(access, LLVMGetMDKindIDInContext(llvm, "llvm.access.group", sizeof "llvm.access.group" - 1), s->split->group);
}

void simt_mark_access(Simt *s, LLVMValueRef access) {
    if (s->split)
        mark(s, access);
}

void split_open(Simt *s) {
    Emitter *e = s->e;
    Split *split = s->split;
    SplitLoop *loop = NEW(arena_of(s), SplitLoop);
    *loop = (SplitLoop){.before = LLVMGetInsertBlock(e->builder),
        .header = block_append(e, "threads"),
        .head = block_append(e, "thread"),
        .body = block_append(e, "part"),
        .exit = block_append(e, "together")};
    LLVMBuildBr(e->builder, loop->header);
    LLVMPositionBuilderAtEnd(e->builder, loop->header);
    loop->index = LLVMBuildPhi(e->builder, e->i32, "");
    LLVMAddIncoming(loop->index, &split->first, &loop->before, 1);
    LLVMValueRef end = LLVMBuildNUWAdd(e->builder, split->first, simt_int(s, split->count), "");
    LLVMBuildCondBr(e->builder, LLVMBuildICmp(e->builder, LLVMIntULT, loop->index, end, ""), loop->head, loop->exit);
    LLVMPositionBuilderAtEnd(e->builder, loop->head);
    LLVMBuildBr(e->builder, loop->body);
    LLVMPositionBuilderAtEnd(e->builder, loop->body);
    vec_push(arena_of(s), &split->loops, loop);
    split->open = loop;
    s->thread = loop->index;
    s->lane = LLVMBuildAnd(e->builder, s->thread, simt_int(s, (1 << LAYOUT_LANES) - 1), "");
    s->warp = LLVMBuildLShr(e->builder, s->thread, simt_int(s, LAYOUT_LANES), "");
    s->places = NULL;
    simt_elements_begin(s);
}

void split_close(Simt *s) {
    Emitter *e = s->e;
    SplitLoop *loop = s->split->open;
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(e->builder);
    LLVMValueRef next = LLVMBuildNSWAdd(e->builder, loop->index, simt_int(s, 1), "");
    LLVMSetNUW(next, true);
    LLVMAddIncoming(loop->index, &next, &latch, 1);
    LLVMValueRef branch = LLVMBuildBr(e->builder, loop->header);
    LLVMMetadataRef self = LLVMTemporaryMDNode(e->llvm, NULL, 0);
    LLVMMetadataRef flags[2] = {self, named(e, "llvm.loop.parallel_accesses", LLVMValueAsMetadata(s->split->group))};
    LLVMMetadataRef node = LLVMMDNodeInContext2(e->llvm, flags, 2);
    LLVMMetadataReplaceAllUsesWith(self, node);
    LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(e->llvm, "llvm.loop", sizeof "llvm.loop" - 1), LLVMMetadataAsValue(e->llvm, node));
    LLVMPositionBuilderAtEnd(e->builder, loop->exit);
    s->split->open = NULL;
}

void split_step_out(Simt *s) {
    LLVMMetadataRef place = emit_place(s->e);
    s->split->inside = LLVMGetInsertBlock(s->e->builder);
    LLVMPositionBuilderBefore(s->e->builder, LLVMGetBasicBlockTerminator(s->split->open->before));
    emit_at_place(s->e, place);
}

void split_step_in(Simt *s) {
    LLVMPositionBuilderAtEnd(s->e->builder, s->split->inside);
}

/* ---- memory ---- */

static LLVMValueRef allocate(Simt *s, LLVMTypeRef type) {
    Emitter *e = s->e;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->builder);
    LLVMMetadataRef place = emit_place(e);
    LLVMPositionBuilder(e->builder, LLVMGetEntryBasicBlock(s->function), LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(s->function)));
    LLVMValueRef memory = LLVMBuildAlloca(e->builder, type, "");
    LLVMPositionBuilderAtEnd(e->builder, here);
    emit_at_place(e, place);
    return memory;
}

LLVMValueRef split_variable(Simt *s, LLVMTypeRef type) {
    return allocate(s, type);
}

/* As it lies in a slot: bits are bytes there, as vectors want them. */
static LLVMTypeRef slot_type(const Simt *s, LLVMTypeRef type) {
    return type == s->e->i1 ? s->e->i8 : type;
}

LLVMValueRef split_slot(Simt *s, LLVMTypeRef type) {
    enum { SLOT_ALIGN = 64 };
    LLVMTypeRef all = LLVMArrayType2(slot_type(s, type), (uint64_t)s->split->threads);
    LLVMValueRef slot = allocate(s, all);
    LLVMSetAlignment(slot, SLOT_ALIGN);
    return slot;
}

LLVMValueRef split_address(Simt *s, LLVMValueRef slot, LLVMTypeRef type, LLVMValueRef index) {
    LLVMValueRef wide = LLVMBuildZExt(s->e->builder, index, s->e->i64, "");
    return LLVMBuildGEP2(s->e->builder, slot_type(s, type), slot, &wide, 1, "");
}

static void put_at(Simt *s, LLVMValueRef slot, LLVMValueRef value, LLVMValueRef index) {
    LLVMTypeRef type = LLVMTypeOf(value);
    if (type == s->e->i1)
        value = LLVMBuildZExt(s->e->builder, value, s->e->i8, "");
    mark(s, LLVMBuildStore(s->e->builder, value, split_address(s, slot, type, index)));
}

static LLVMValueRef get_at(Simt *s, LLVMValueRef slot, LLVMTypeRef type, LLVMValueRef index) {
    LLVMValueRef load = LLVMBuildLoad2(s->e->builder, slot_type(s, type), split_address(s, slot, type, index), "");
    mark(s, load);
    LLVMValueRef value = type == s->e->i1 ? LLVMBuildTrunc(s->e->builder, load, type, "") : load;
    vec_push(arena_of(s), &s->split->reloads, (SplitReload){value, slot});
    return value;
}

void split_put(Simt *s, LLVMValueRef slot, LLVMValueRef value) {
    put_at(s, slot, value, s->thread);
}

LLVMValueRef split_get(Simt *s, LLVMValueRef slot, LLVMTypeRef type) {
    return get_at(s, slot, type, s->thread);
}

/* ---- which loop is what in ---- */

typedef struct Place {
    LLVMBasicBlockRef block;
    SplitLoop *loop;
} Place;

typedef struct Value { /* of a loop, as another one has it */
    LLVMValueRef own, there;
    const SplitLoop *loop;
} Value;

typedef struct Slot {
    LLVMValueRef value, slot;
} Slot;

typedef struct Mend {
    Simt *s;
    VEC(Place) places; /* by address */
    VEC(Value) values;
    VEC(Slot) slots;
} Mend;

static int compare_places(const void *a, const void *b) {
    uintptr_t x = (uintptr_t)((const Place *)a)->block, y = (uintptr_t)((const Place *)b)->block;
    return (x > y) - (x < y);
}

static void add_blocks(Mend *mend, SplitLoop *loop, LLVMBasicBlockRef block) {
    if (block == loop->exit)
        return;
    for (int i = mend->places.count - 1; i >= 0 && mend->places.items[i].loop == loop; i--)
        if (mend->places.items[i].block == block)
            return;
    vec_push(arena_of(mend->s), &mend->places, (Place){block, loop});
    LLVMValueRef end = LLVMGetBasicBlockTerminator(block);
    for (unsigned i = 0; i < LLVMGetNumSuccessors(end); i++)
        add_blocks(mend, loop, LLVMGetSuccessor(end, i));
}

static void find_places(Mend *mend) {
    const Split *split = mend->s->split;
    for (int i = 0; i < split->loops.count; i++)
        add_blocks(mend, split->loops.items[i], split->loops.items[i]->header);
    qsort(mend->places.items, (size_t)mend->places.count, sizeof(Place), compare_places);
}

/* NULL: outside of loops over threads. */
static SplitLoop *loop_of_block(const Mend *mend, LLVMBasicBlockRef block) {
    Place key = {block, NULL};
    const Place *place = bsearch(&key, mend->places.items, (size_t)mend->places.count, sizeof key, compare_places);
    return place ? place->loop : NULL;
}

static SplitLoop *loop_of(const Mend *mend, LLVMValueRef value) {
    return LLVMIsAInstruction(value) ? loop_of_block(mend, LLVMGetInstructionParent(value)) : NULL;
}

/* ---- what depends on no thread ---- */

static bool is_arithmetic(LLVMValueRef instruction) {
    LLVMOpcode opcode = LLVMGetInstructionOpcode(instruction);
    return LLVMIsABinaryOperator(instruction) || LLVMIsACastInst(instruction) || opcode == LLVMICmp || opcode == LLVMFCmp || opcode == LLVMSelect ||
           opcode == LLVMGetElementPtr || opcode == LLVMFNeg;
}

static bool may_hoist(const Mend *mend, LLVMValueRef instruction) {
    if (!is_arithmetic(instruction))
        return false;
    for (int i = 0; i < LLVMGetNumOperands(instruction); i++)
        if (loop_of(mend, LLVMGetOperand(instruction, (unsigned)i)))
            return false;
    return true;
}

/* Divisors are never 0: what divides sees to that by selections. */
static void hoist(Mend *mend) {
    LLVMBuilderRef builder = mend->s->e->builder;
    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(mend->s->function); block; block = LLVMGetNextBasicBlock(block)) {
        const SplitLoop *loop = loop_of_block(mend, block);
        for (LLVMValueRef next, at = loop ? LLVMGetFirstInstruction(block) : NULL; at; at = next) {
            next = LLVMGetNextInstruction(at);
            if (!may_hoist(mend, at))
                continue;
            LLVMInstructionRemoveFromParent(at);
            LLVMPositionBuilderBefore(builder, LLVMGetBasicBlockTerminator(loop->before));
            LLVMInsertIntoBuilder(builder, at);
        }
    }
}

/* ---- values in other loops ---- */

static LLVMValueRef slot_of(const Mend *mend, LLVMValueRef value) {
    const Split *split = mend->s->split;
    for (int i = 0; i < split->reloads.count; i++)
        if (split->reloads.items[i].load == value)
            return split->reloads.items[i].slot;
    for (int i = 0; i < mend->slots.count; i++)
        if (mend->slots.items[i].value == value)
            return mend->slots.items[i].slot;
    return NULL;
}

static bool is_index(const Mend *mend, LLVMValueRef value) {
    const SplitLoop *loop = loop_of(mend, value);
    return loop && loop->index == value;
}

/* Counts what has to be computed for `value` in another loop; more than MOST_AGAIN: too much. */
static int cost_again(const Mend *mend, LLVMValueRef value) {
    if (!loop_of(mend, value) || is_index(mend, value) || slot_of(mend, value))
        return 0;
    if (!is_arithmetic(value))
        return MOST_AGAIN + 1;
    int cost = 1;
    for (int i = 0; i < LLVMGetNumOperands(value) && cost <= MOST_AGAIN; i++)
        cost += cost_again(mend, LLVMGetOperand(value, (unsigned)i));
    return cost;
}

static LLVMValueRef keep(Mend *mend, LLVMValueRef value) {
    Simt *s = mend->s;
    LLVMValueRef slot = split_slot(s, LLVMTypeOf(value)), after = LLVMGetNextInstruction(value);
    while (LLVMIsAPHINode(after))
        after = LLVMGetNextInstruction(after);
    LLVMPositionBuilderBefore(s->e->builder, after);
    put_at(s, slot, value, loop_of(mend, value)->index);
    vec_push(arena_of(s), &mend->slots, (Slot){value, slot});
    return slot;
}

static LLVMValueRef value_in(Mend *mend, LLVMValueRef value, const SplitLoop *loop) {
    Simt *s = mend->s;
    if (!loop_of(mend, value) || loop_of(mend, value) == loop)
        return value;
    if (is_index(mend, value))
        return loop->index;
    for (int i = 0; i < mend->values.count; i++)
        if (mend->values.items[i].own == value && mend->values.items[i].loop == loop)
            return mend->values.items[i].there;
    LLVMValueRef there, slot = slot_of(mend, value), end = LLVMGetBasicBlockTerminator(loop->head);
    if (!slot && cost_again(mend, value) <= MOST_AGAIN) {
        there = LLVMInstructionClone(value);
        for (int i = 0; i < LLVMGetNumOperands(value); i++)
            LLVMSetOperand(there, (unsigned)i, value_in(mend, LLVMGetOperand(value, (unsigned)i), loop));
        LLVMPositionBuilderBefore(s->e->builder, end);
        LLVMInsertIntoBuilder(s->e->builder, there);
    } else {
        if (!slot)
            slot = keep(mend, value);
        LLVMPositionBuilderBefore(s->e->builder, end);
        there = get_at(s, slot, LLVMTypeOf(value), loop->index);
    }
    vec_push(arena_of(s), &mend->values, (Value){value, there, loop});
    return there;
}

static void mend_operands(Mend *mend, LLVMValueRef user) {
    for (int i = 0; i < LLVMGetNumOperands(user); i++) {
        LLVMValueRef operand = LLVMGetOperand(user, (unsigned)i);
        const SplitLoop *own = loop_of(mend, operand);
        LLVMBasicBlockRef block = LLVMIsAPHINode(user) ? LLVMGetIncomingBlock(user, (unsigned)i) : LLVMGetInstructionParent(user);
        const SplitLoop *loop = loop_of_block(mend, block);
        if (!own || own == loop)
            continue;
        if (!loop) /* such values go by variables */
            abort();
        LLVMSetOperand(user, (unsigned)i, value_in(mend, operand, loop));
    }
}

void split_finish(Simt *s) {
    Mend mend = {.s = s};
    LLVMBasicBlockRef here = LLVMGetInsertBlock(s->e->builder);
    find_places(&mend);
    hoist(&mend);
    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(s->function); block; block = LLVMGetNextBasicBlock(block))
        for (LLVMValueRef at = LLVMGetFirstInstruction(block); at; at = LLVMGetNextInstruction(at))
            mend_operands(&mend, at);
    LLVMPositionBuilderAtEnd(s->e->builder, here);
}
