/* Accesses of threads on a host. The CPU's are plain loads and stores. The simulator's are calls, one an element: it checks them, and may give a read
 * what was there before a write that is not published. Neither touches what lies outside of a `shared` array. */
#include "compiler/codegen/simt/host.h"

/* What an access of `bytes` bytes is made of: elements of its tensor or, in shared memory, of its type. */
static unsigned element_bits(const Simt *s, const SimtAccess *access) {
    LLVMTypeRef type = access->type;
    if (access->space == SPACE_GLOBAL)
        return (unsigned)dtype_bits(s->kernel->signature.params.items[access->param].type->scalar);
    if (LLVMGetTypeKind(type) == LLVMVectorTypeKind)
        type = LLVMGetElementType(type);
    return (unsigned)LLVMABISizeOfType(s->e->layout, type) * 8;
}

LLVMValueRef host_tensor_number(Simt *s, const SimtAccess *access) {
    const IrOps *arrays = &((const HostThread *)s->data)->arrays;
    if (access->space == SPACE_GLOBAL)
        return simt_int(s, param_rank_among_kind(&s->kernel->signature, access->param));
    for (int i = 0; i < arrays->count; i++)
        if (arrays->items[i] == access->array)
            return simt_int(s, PHB_SHARED_ARRAY(i));
    return simt_int(s, PHB_SHARED_UNNAMED);
}

LLVMValueRef host_shared(Simt *s, LLVMValueRef address) {
    LLVMValueRef offset = LLVMBuildZExt(s->e->builder, address, s->e->i64, "");
    return LLVMBuildGEP2(s->e->builder, s->e->i8, ((const HostThread *)s->data)->shared, &offset, 1, "");
}

static LLVMValueRef pointer(Simt *s, const SimtAccess *access) {
    Emitter *e = s->e;
    if (access->space == SPACE_GLOBAL)
        return access->address;
    LLVMValueRef place = host_shared(s, access->address);
    if (access->space == SPACE_SHARED)
        return place;
    LLVMValueRef rank = LLVMBuildSExt(e->builder, access->rank, e->i64, "");
    return host_call(s->e, HOST_phb_cta_remote, (LLVMValueRef[]){s->self, place, rank, host_site(s, access->span)}, 4);
}

static LLVMValueRef step(Simt *s, LLVMValueRef pointer, unsigned bytes) {
    LLVMValueRef offset = emit_int_const(s->e, bytes);
    return bytes ? LLVMBuildGEP2(s->e->builder, s->e->i8, pointer, &offset, 1, "") : pointer;
}

/* Where the access happens: under its predicate and, on the CPU, inside of its array; the simulator stops outside. */
static SimtBranch begin(Simt *s, const SimtAccess *access) {
    if (!s->target->checks)
        return simt_branch_begin(s, simt_and(s, access->predicate, access->inside));
    SimtBranch branch = simt_branch_begin(s, access->predicate);
    if (access->inside) {
        SimtBranch outside = simt_branch_begin(s, LLVMBuildNot(s->e->builder, access->inside, ""));
        host_call(s->e, HOST_phb_simt_outside, (LLVMValueRef[]){s->self, host_tensor_number(s, access), host_site(s, access->span)}, 3);
        simt_branch_end(s, &outside, NULL);
    }
    return branch;
}

static LLVMValueRef checked_load(Simt *s, const SimtAccess *access, LLVMValueRef from) {
    Emitter *e = s->e;
    unsigned bits = element_bits(s, access), count = (unsigned)LLVMABISizeOfType(e->layout, access->type) * 8 / bits;
    LLVMTypeRef element = LLVMIntTypeInContext(e->llvm, bits);
    LLVMValueRef all = LLVMGetUndef(LLVMVectorType(element, count));
    for (unsigned i = 0; i < count; i++) {
        LLVMValueRef arguments[] = {
            s->self, step(s, from, i * bits / 8), simt_int(s, bits / 8), host_tensor_number(s, access), host_site(s, access->span)};
        LLVMValueRef value = host_call(s->e, HOST_phb_simt_load, arguments, 5);
        value = bits < 64 ? LLVMBuildTrunc(e->builder, value, element, "") : value;
        all = LLVMBuildInsertElement(e->builder, all, value, simt_int(s, i), "");
    }
    return LLVMBuildBitCast(e->builder, all, access->type, "");
}

static void checked_store(Simt *s, const SimtAccess *access, LLVMValueRef to, LLVMValueRef value) {
    Emitter *e = s->e;
    unsigned bits = element_bits(s, access), count = (unsigned)LLVMABISizeOfType(e->layout, access->type) * 8 / bits;
    LLVMValueRef all = LLVMBuildBitCast(e->builder, value, LLVMVectorType(LLVMIntTypeInContext(e->llvm, bits), count), "");
    for (unsigned i = 0; i < count; i++) {
        LLVMValueRef part = LLVMBuildExtractElement(e->builder, all, simt_int(s, i), "");
        part = bits < 64 ? LLVMBuildZExt(e->builder, part, e->i64, "") : part;
        LLVMValueRef place = step(s, to, i * bits / 8), bytes = simt_int(s, bits / 8);
        host_call(
            s->e, HOST_phb_simt_store, (LLVMValueRef[]){s->self, place, part, bytes, host_tensor_number(s, access), host_site(s, access->span)}, 6);
    }
}

LLVMValueRef host_load(Simt *s, const SimtAccess *access) {
    SimtBranch branch = begin(s, access);
    LLVMValueRef from = pointer(s, access), value;
    if (s->target->checks) {
        value = checked_load(s, access, from);
    } else {
        value = LLVMBuildLoad2(s->e->builder, access->type, from, "");
        LLVMSetAlignment(value, access->align);
        simt_mark_access(s, value);
    }
    return simt_branch_end(s, &branch, value);
}

void host_store(Simt *s, const SimtAccess *access, LLVMValueRef value) {
    SimtBranch branch = begin(s, access);
    LLVMValueRef to = pointer(s, access);
    if (s->target->checks) {
        checked_store(s, access, to, value);
    } else {
        LLVMValueRef store = LLVMBuildStore(s->e->builder, value, to);
        LLVMSetAlignment(store, access->align);
        simt_mark_access(s, store);
    }
    simt_branch_end(s, &branch, NULL);
}

/* ---- atomics ---- */

static LLVMValueRef combine(Simt *s, OpKind kind, PhbDType dtype, LLVMValueRef old, LLVMValueRef value) {
    OpKind op = kind == OP_ATOMIC_ADD ? OP_ADD : kind == OP_ATOMIC_MAX ? OP_MAX : OP_MIN;
    const LLVMValueRef operands[3] = {value_from_memory(s->e, dtype, old), value_from_memory(s->e, dtype, value)};
    return value_to_memory(s->e, dtype, emit_element_op(s->e, op, dtype, operands));
}

static LLVMValueRef same_bits(Simt *s, LLVMTypeRef bits, LLVMValueRef a, LLVMValueRef b) {
    LLVMBuilderRef builder = s->e->builder;
    return LLVMBuildICmp(builder, LLVMIntEQ, LLVMBuildBitCast(builder, a, bits, ""), LLVMBuildBitCast(builder, b, bits, ""), "");
}

/* Nobody else runs meanwhile: threads of a cluster share one thread of the system. */
static LLVMValueRef plain_atomic(
    Simt *s, OpKind kind, PhbDType dtype, LLVMTypeRef bits, LLVMValueRef place, LLVMValueRef compare, LLVMValueRef value) {
    LLVMBuilderRef builder = s->e->builder;
    LLVMValueRef old = LLVMBuildLoad2(builder, LLVMTypeOf(value), place, "");
    LLVMValueRef next = compare ? LLVMBuildSelect(builder, same_bits(s, bits, old, compare), value, old, "") : combine(s, kind, dtype, old, value);
    LLVMBuildStore(builder, next, place);
    return old;
}

static LLVMValueRef compare_exchange(Simt *s, LLVMTypeRef bits, LLVMValueRef place, LLVMValueRef compare, LLVMValueRef value) {
    LLVMBuilderRef builder = s->e->builder;
    compare = LLVMBuildBitCast(builder, compare, bits, "");
    value = LLVMBuildBitCast(builder, value, bits, "");
    return LLVMBuildAtomicCmpXchg(builder, place, compare, value, LLVMAtomicOrderingMonotonic, LLVMAtomicOrderingMonotonic, false);
}

/* The next value is put in place of the old one when no other came in between; else again. */
static LLVMValueRef shared_atomic(
    Simt *s, OpKind kind, PhbDType dtype, LLVMTypeRef bits, LLVMValueRef place, LLVMValueRef compare, LLVMValueRef value) {
    LLVMBuilderRef builder = s->e->builder;
    LLVMTypeRef type = LLVMTypeOf(value);
    if (compare)
        return LLVMBuildBitCast(builder, LLVMBuildExtractValue(builder, compare_exchange(s, bits, place, compare, value), 0, ""), type, "");
    LLVMValueRef first = LLVMBuildLoad2(builder, bits, place, "");
    LLVMSetOrdering(first, LLVMAtomicOrderingMonotonic);
    LLVMSetAlignment(first, LLVMABIAlignmentOfType(s->e->layout, bits));
    LLVMBasicBlockRef before = LLVMGetInsertBlock(builder), again = block_append(s->e, "again"), done = block_append(s->e, "done");
    LLVMBuildBr(builder, again);
    LLVMPositionBuilderAtEnd(builder, again);
    LLVMValueRef seen = LLVMBuildPhi(builder, bits, "");
    LLVMValueRef old = LLVMBuildBitCast(builder, seen, type, ""), next = combine(s, kind, dtype, old, value);
    LLVMValueRef result = compare_exchange(s, bits, place, seen, next), found = LLVMBuildExtractValue(builder, result, 0, "");
    LLVMBasicBlockRef last = LLVMGetInsertBlock(builder);
    LLVMBuildCondBr(builder, LLVMBuildExtractValue(builder, result, 1, ""), done, again);
    LLVMAddIncoming(seen, (LLVMValueRef[]){first, found}, (LLVMBasicBlockRef[]){before, last}, 2);
    LLVMPositionBuilderAtEnd(builder, done);
    return old;
}

/* Where a thread may wait for what another one does to an atomic, that one gets its turn. In the simulator others come in between everywhere. */
LLVMValueRef host_atomic(Simt *s, OpKind kind, PhbDType dtype, const SimtAccess *access, LLVMValueRef compare, LLVMValueRef value) {
    Emitter *e = s->e;
    if (((const HostThread *)s->data)->polls || s->target->checks)
        host_call(s->e, HOST_phb_cta_yield, &s->self, 1);
    SimtBranch branch = begin(s, access);
    LLVMValueRef place = pointer(s, access), old;
    unsigned bits = element_bits(s, access);
    LLVMTypeRef integer = LLVMIntTypeInContext(e->llvm, bits);
    if (s->target->checks)
        host_call(s->e, HOST_phb_simt_atomic,
            (LLVMValueRef[]){s->self, place, simt_int(s, bits / 8), host_tensor_number(s, access), host_site(s, access->span)}, 5);
    if (s->target->checks || access->space != SPACE_GLOBAL)
        old = plain_atomic(s, kind, dtype, integer, place, compare, value);
    else
        old = shared_atomic(s, kind, dtype, integer, place, compare, value);
    return simt_branch_end(s, &branch, old);
}
