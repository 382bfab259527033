/* Memory accesses of the NVPTX target. A predicated access is one guarded instruction in inline PTX, not a branch: a row of them stays a row. */
#include "compiler/codegen/nvptx/nvptx.h"

#include <string.h>

/* ---- addresses ---- */

/* A constant last summand becomes the instruction's own offset. */
LLVMValueRef nvptx_shared_address(Simt *s, LLVMValueRef offset) {
    const NvptxLeaf *leaf = s->data;
    LLVMBuilderRef builder = s->e->builder;
    LLVMValueRef last = NULL;
    if (LLVMIsAInstruction(offset) && LLVMGetInstructionOpcode(offset) == LLVMAdd && LLVMIsAConstantInt(LLVMGetOperand(offset, 1))) {
        last = LLVMGetOperand(offset, 1);
        offset = LLVMGetOperand(offset, 0);
    }
    LLVMValueRef address = LLVMBuildGEP2(builder, s->e->i8, leaf->shared, &offset, 1, "");
    return last ? LLVMBuildGEP2(builder, s->e->i8, address, &last, 1, "") : address;
}

/* The same place in another CTA's shared memory, as a generic address. */
static LLVMValueRef remote_address(Simt *s, const SimtAccess *access) {
    Emitter *e = s->e;
    LLVMValueRef own = LLVMBuildAddrSpaceCast(e->builder, nvptx_shared_address(s, access->address), e->ptr, "");
    const LLVMValueRef arguments[] = {LLVMBuildPtrToInt(e->builder, own, e->i64, ""), access->rank};
    LLVMValueRef address = nvptx_asm(s, "mapa.u64 $0, $1, $2;", "=l,l,r", e->i64, arguments, 2);
    return LLVMBuildIntToPtr(e->builder, address, e->ptr, "");
}

static LLVMValueRef address_of(Simt *s, const SimtAccess *access) {
    switch (access->space) {
    case SPACE_GLOBAL:
        return access->address;
    case SPACE_SHARED:
        return nvptx_shared_address(s, access->address);
    case SPACE_REMOTE:
        return remote_address(s, access);
    }
    return NULL;
}

/* ---- guarded accesses ---- */

/* How PTX moves a type: `lanes` registers of `bits` each. */
typedef struct Shape {
    int lanes, bits;
    LLVMTypeRef part; /* integer of so many bits, in a register of at least 16 */
} Shape;

static int type_bits(const Simt *s, LLVMTypeRef type) {
    return (int)LLVMABISizeOfType(s->e->layout, type) * 8;
}

/* A vector as up to four words of the widest kind. */
static Shape shape_of(const Simt *s, LLVMTypeRef type) {
    const Emitter *e = s->e;
    int bits = type_bits(s, type);
    if (bits > 64)
        return (Shape){bits / 32, 32, e->i32};
    return (Shape){1, bits, bits == 64 ? e->i64 : bits == 32 ? e->i32 : e->i16};
}

static const char *letter(const Shape *shape) {
    return shape->bits == 64 ? "l" : shape->bits == 32 ? "r" : "h";
}

static const char *space_word(SimtSpace space) {
    return space == SPACE_GLOBAL ? ".global" : space == SPACE_SHARED ? ".shared" : "";
}

static LLVMValueRef as_words(Simt *s, const Shape *shape, LLVMValueRef value) {
    LLVMTypeRef whole =
        shape->lanes > 1 ? LLVMVectorType(shape->part, (unsigned)shape->lanes) : LLVMIntTypeInContext(s->e->llvm, (unsigned)shape->bits);
    return LLVMBuildBitCast(s->e->builder, value, whole, "");
}

static LLVMValueRef pointer_word(Simt *s, const SimtAccess *access, LLVMValueRef address, const char **constraint) {
    bool narrow = access->space == SPACE_SHARED;
    *constraint = narrow ? "r" : "l";
    return LLVMBuildPtrToInt(s->e->builder, address, narrow ? s->e->i32 : s->e->i64, "");
}

static LLVMValueRef guard_word(Simt *s, const SimtAccess *access) {
    return LLVMBuildZExt(s->e->builder, access->predicate, s->e->i32, "");
}

static LLVMValueRef guarded_load(Simt *s, const SimtAccess *access, LLVMValueRef address) {
    Emitter *e = s->e;
    Shape shape = shape_of(s, access->type);
    char text[400], outputs[64] = "", names[64] = "", zeros[200] = "";
    for (int i = 0; i < shape.lanes; i++) {
        snprintf(outputs + strlen(outputs), sizeof outputs - strlen(outputs), "=%s,", letter(&shape));
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s$%d", i ? ", " : "", i);
        snprintf(zeros + strlen(zeros), sizeof zeros - strlen(zeros), " mov.b%d $%d, 0;", shape.bits < 16 ? 16 : shape.bits, i);
    }
    char width[24] = "";
    if (shape.lanes > 1)
        snprintf(width, sizeof width, ".v%d", shape.lanes);
    snprintf(text, sizeof text, "{ .reg .pred p; setp.ne.b32 p, $%d, 0;%s @p ld%s%s.b%d %s%s%s, [$%d]; }", shape.lanes + 1, zeros,
        space_word(access->space), width, shape.bits, shape.lanes > 1 ? "{" : "", names, shape.lanes > 1 ? "}" : "", shape.lanes);
    const char *pointer;
    const LLVMValueRef arguments[] = {pointer_word(s, access, address, &pointer), guard_word(s, access)};
    char constraints[96];
    snprintf(constraints, sizeof constraints, "%s%s,r", outputs, pointer);
    LLVMTypeRef parts[] = {shape.part, shape.part, shape.part, shape.part};
    LLVMTypeRef type = shape.lanes > 1 ? LLVMStructTypeInContext(e->llvm, parts, (unsigned)shape.lanes, false) : shape.part;
    LLVMValueRef loaded = nvptx_asm(s, text, constraints, type, arguments, 2);
    if (shape.lanes == 1) {
        LLVMValueRef narrow = LLVMBuildTruncOrBitCast(e->builder, loaded, LLVMIntTypeInContext(e->llvm, (unsigned)shape.bits), "");
        return LLVMBuildBitCast(e->builder, narrow, access->type, "");
    }
    LLVMValueRef words = LLVMGetPoison(LLVMVectorType(shape.part, (unsigned)shape.lanes));
    for (unsigned i = 0; i < (unsigned)shape.lanes; i++)
        words = LLVMBuildInsertElement(e->builder, words, LLVMBuildExtractValue(e->builder, loaded, i, ""), LLVMConstInt(e->i32, i, false), "");
    return LLVMBuildBitCast(e->builder, words, access->type, "");
}

static void guarded_store(Simt *s, const SimtAccess *access, LLVMValueRef address, LLVMValueRef value) {
    Emitter *e = s->e;
    Shape shape = shape_of(s, access->type);
    char text[300], inputs[64] = "", names[64] = "", width[24] = "";
    LLVMValueRef words = as_words(s, &shape, value), arguments[6];
    const char *pointer;
    arguments[0] = pointer_word(s, access, address, &pointer);
    arguments[1] = guard_word(s, access);
    for (int i = 0; i < shape.lanes; i++) {
        snprintf(inputs + strlen(inputs), sizeof inputs - strlen(inputs), ",%s", letter(&shape));
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s$%d", i ? ", " : "", i + 2);
        arguments[2 + i] = shape.lanes > 1 ? LLVMBuildExtractElement(e->builder, words, LLVMConstInt(e->i32, (unsigned)i, false), "")
                                           : LLVMBuildZExtOrBitCast(e->builder, words, shape.part, "");
    }
    if (shape.lanes > 1)
        snprintf(width, sizeof width, ".v%d", shape.lanes);
    snprintf(text, sizeof text, "{ .reg .pred p; setp.ne.b32 p, $1, 0; @p st%s%s.b%d [$0], %s%s%s; }", space_word(access->space), width, shape.bits,
        shape.lanes > 1 ? "{" : "", names, shape.lanes > 1 ? "}" : "");
    char constraints[96];
    snprintf(constraints, sizeof constraints, "%s,r%s", pointer, inputs);
    nvptx_asm(s, text, constraints, LLVMVoidTypeInContext(e->llvm), arguments, 2 + shape.lanes);
}

LLVMValueRef nvptx_load(Simt *s, const SimtAccess *access) {
    LLVMValueRef address = address_of(s, access);
    if (access->predicate)
        return guarded_load(s, access, address);
    LLVMValueRef value = LLVMBuildLoad2(s->e->builder, access->type, address, "");
    LLVMSetAlignment(value, access->align);
    return value;
}

void nvptx_store(Simt *s, const SimtAccess *access, LLVMValueRef value) {
    LLVMValueRef address = address_of(s, access);
    if (access->predicate) {
        guarded_store(s, access, address, value);
        return;
    }
    LLVMSetAlignment(LLVMBuildStore(s->e->builder, value, address), access->align);
}

/* ---- atomics ---- */

/* The element as the arithmetic of `kind` sees it. */
static LLVMValueRef combine(Simt *s, OpKind kind, PhbDType dtype, LLVMValueRef old, LLVMValueRef value) {
    Emitter *e = s->e;
    LLVMValueRef operands[3] = {value_from_memory(e, dtype, old), value_from_memory(e, dtype, value)};
    OpKind plain = kind == OP_ATOMIC_ADD ? OP_ADD : kind == OP_ATOMIC_MAX ? OP_MAX : OP_MIN;
    return value_to_memory(e, dtype, emit_element_op(e, plain, dtype, operands));
}

static LLVMValueRef exchange(Simt *s, LLVMValueRef address, LLVMValueRef expected, LLVMValueRef wanted, LLVMValueRef *done) {
    LLVMBuilderRef builder = s->e->builder;
    LLVMValueRef pair = LLVMBuildAtomicCmpXchg(builder, address, expected, wanted, LLVMAtomicOrderingMonotonic, LLVMAtomicOrderingMonotonic, false);
    *done = LLVMBuildExtractValue(builder, pair, 1, "");
    return LLVMBuildExtractValue(builder, pair, 0, "");
}

/* Reads, combines, and tries to put back until nobody was faster. */
static LLVMValueRef retry(Simt *s, OpKind kind, PhbDType dtype, const SimtAccess *access, LLVMValueRef address, LLVMValueRef value) {
    Emitter *e = s->e;
    LLVMTypeRef bits = LLVMIntTypeInContext(e->llvm, (unsigned)type_bits(s, access->type));
    LLVMValueRef first = LLVMBuildLoad2(e->builder, bits, address, "");
    LLVMSetVolatile(first, true);
    LLVMSetAlignment(first, access->align);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(e->builder), again = block_append(e, "atomic"), after = block_append(e, "");
    LLVMBuildBr(e->builder, again);
    LLVMPositionBuilderAtEnd(e->builder, again);
    LLVMValueRef expected = LLVMBuildPhi(e->builder, bits, ""), done;
    LLVMValueRef sum = combine(s, kind, dtype, LLVMBuildBitCast(e->builder, expected, access->type, ""), value);
    LLVMValueRef found = exchange(s, address, expected, LLVMBuildBitCast(e->builder, sum, bits, ""), &done);
    LLVMBasicBlockRef end = LLVMGetInsertBlock(e->builder);
    LLVMBuildCondBr(e->builder, done, after, again);
    LLVMAddIncoming(expected, (LLVMValueRef[]){first, found}, (LLVMBasicBlockRef[]){before, end}, 2);
    LLVMPositionBuilderAtEnd(e->builder, after);
    return LLVMBuildBitCast(e->builder, found, access->type, "");
}

/* What one instruction does: sums of wide integers and floats, extremes of wide integers. */
static bool find_instruction(OpKind kind, PhbDType dtype, LLVMAtomicRMWBinOp *instruction) {
    bool wide = dtype_bits(dtype) >= 32, is_float = dtype_is_float(dtype), is_signed = dtype_is_signed(dtype);
    if (!wide || (is_float && kind != OP_ATOMIC_ADD))
        return false;
    if (kind == OP_ATOMIC_ADD)
        *instruction = is_float ? LLVMAtomicRMWBinOpFAdd : LLVMAtomicRMWBinOpAdd;
    else if (kind == OP_ATOMIC_MAX)
        *instruction = is_signed ? LLVMAtomicRMWBinOpMax : LLVMAtomicRMWBinOpUMax;
    else
        *instruction = is_signed ? LLVMAtomicRMWBinOpMin : LLVMAtomicRMWBinOpUMin;
    return true;
}

static LLVMValueRef atomic(Simt *s, OpKind kind, PhbDType dtype, const SimtAccess *access, LLVMValueRef compare, LLVMValueRef value) {
    Emitter *e = s->e;
    LLVMValueRef address = address_of(s, access);
    if (kind == OP_ATOMIC_CAS) {
        LLVMTypeRef bits = LLVMIntTypeInContext(e->llvm, (unsigned)type_bits(s, access->type));
        LLVMValueRef done,
            old = exchange(s, address, LLVMBuildBitCast(e->builder, compare, bits, ""), LLVMBuildBitCast(e->builder, value, bits, ""), &done);
        return LLVMBuildBitCast(e->builder, old, access->type, "");
    }
    LLVMAtomicRMWBinOp instruction;
    if (find_instruction(kind, dtype, &instruction))
        return LLVMBuildAtomicRMW(e->builder, instruction, address, value, LLVMAtomicOrderingMonotonic, false);
    return retry(s, kind, dtype, access, address, value);
}

LLVMValueRef nvptx_atomic(Simt *s, OpKind kind, PhbDType dtype, const SimtAccess *access, LLVMValueRef compare, LLVMValueRef value) {
    SimtBranch branch = simt_branch_begin(s, access->predicate);
    LLVMValueRef old = atomic(s, kind, dtype, access, compare, value);
    return simt_branch_end(s, &branch, old);
}

/* ---- copies behind the thread's back ---- */

static void guarded_copy(Simt *s, LLVMValueRef shared, const SimtAccess *access, int bytes) {
    Emitter *e = s->e;
    char text[160];
    snprintf(
        text, sizeof text, "{ .reg .pred p; setp.ne.b32 p, $2, 0; @p cp.async.%s.shared.global [$0], [$1], %d; }", bytes == 16 ? "cg" : "ca", bytes);
    const LLVMValueRef arguments[] = {LLVMBuildPtrToInt(e->builder, nvptx_shared_address(s, shared), e->i32, ""),
        LLVMBuildPtrToInt(e->builder, access->address, e->i64, ""), LLVMBuildZExt(e->builder, access->when, e->i32, "")};
    nvptx_asm(s, text, "r,l,r,~{memory}", LLVMVoidTypeInContext(e->llvm), arguments, 3);
}

void nvptx_copy_async(Simt *s, LLVMValueRef shared, const SimtAccess *access) {
    Emitter *e = s->e;
    int bytes = type_bits(s, access->type) / 8;
    char name[64];
    if (access->when && !access->predicate && !access->valid) {
        guarded_copy(s, shared, access, bytes);
        return;
    }
    SimtBranch branch = simt_branch_begin(s, access->when);
    snprintf(name, sizeof name, "llvm.nvvm.cp.async.%s.shared.global.%d%s", bytes == 16 ? "cg" : "ca", bytes,
        access->predicate || access->valid ? ".s" : "");
    LLVMValueRef arguments[3] = {nvptx_shared_address(s, shared), access->address};
    arguments[2] = access->valid ? access->valid : LLVMConstInt(e->i32, (unsigned)bytes, false);
    if (access->predicate)
        arguments[2] = LLVMBuildSelect(e->builder, access->predicate, arguments[2], LLVMConstInt(e->i32, 0, false), "");
    nvptx_call(s, name, LLVMVoidTypeInContext(e->llvm), arguments, access->predicate || access->valid ? 3 : 2);
    simt_branch_end(s, &branch, NULL);
}

void nvptx_copy_commit(Simt *s) {
    nvptx_call(s, "llvm.nvvm.cp.async.commit.group", LLVMVoidTypeInContext(s->e->llvm), NULL, 0);
}

void nvptx_copy_wait(Simt *s, int left, Span span) {
    (void)span;
    LLVMValueRef count = LLVMConstInt(s->e->i32, (unsigned)left, false);
    nvptx_call(s, "llvm.nvvm.cp.async.wait.group", LLVMVoidTypeInContext(s->e->llvm), &count, 1);
}
