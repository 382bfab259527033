/* Contractions on the CPU: C[m, n] = chain over ascending k of fma(A[m, k], B[k, n], C[m, n]), with packed operands and a register-blocked
 * micro-kernel. Every element is one chain in ascending k that starts at C's value, whatever the blocking, so that bits depend on the operands alone.
 *
 * The code of a contraction is an internal function for each (element types, blocking, CPU level) of the module, called with what Contraction says.
 */
#ifndef PHOBOS_CODEGEN_CONTRACT_H
#define PHOBOS_CODEGEN_CONTRACT_H

#include "compiler/codegen/emit.h"

/* A or B: element (w, p) of it lies at start + w * stride[0] + p * stride[1], w along the result's rows (A) or columns (B), p along k. Elements
 * outside of [low, high) are 0 and are not read; `start` itself may be such a one. */
typedef struct ContractOperand {
    PhbDType dtype; /* f16, bf16, f32; f64; i8, u8 */
    LLVMValueRef start;
    LLVMValueRef stride[2]; /* bytes */
    LLVMValueRef low[2], high[2];
} ContractOperand;

typedef struct Contraction {
    PhbDType dtype;        /* of C: F32, F64 or I32; operands are widened to it exactly */
    int64_t rows, columns; /* of C */
    ContractOperand a, b;
    LLVMValueRef k;       /* length of the chains, 0 or more */
    LLVMValueRef c;       /* address of C, row-major without gaps: in, the start of the chains */
    LLVMValueRef used[2]; /* only so many first rows and columns of C need be right; NULL: all */
    LLVMValueRef scratch; /* contract_scratch bytes, 64-byte aligned */
    int kept_factor;      /* 0: A, 1: B, which nothing changes while the leaf runs: if the next contraction has the same, it is not packed again */
    LLVMValueRef kept;    /* for that contract_kept bytes, 64-byte aligned, which contract_forget has begun; NULL: nothing is kept */
} Contraction;

/* The scratch that emit_contract needs at any level. */
int64_t contract_scratch(PhbDType dtype, int64_t rows, int64_t columns);
/* The memory that a kept factor with `count` rows (A) or columns (B) takes; 0: too large to be kept. */
int64_t contract_kept(PhbDType dtype, int64_t count);
void contract_forget(Emitter *e, LLVMValueRef kept);
void emit_contract(Emitter *e, const Contraction *contraction);

#endif
