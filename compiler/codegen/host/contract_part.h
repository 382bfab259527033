/* What the files of the contraction generator share: contract.c blocks, contract_pack.c packs, contract_kernel.c multiplies. */
#ifndef PHOBOS_CODEGEN_CONTRACT_PART_H
#define PHOBOS_CODEGEN_CONTRACT_PART_H

#include "compiler/codegen/host/contract.h"
#include "compiler/codegen/host/part.h"

/* How one level computes one shape of C. A packed panel of A holds `mr` rows, k outside; one of B `nr` columns. */
typedef struct Blocking {
    PhbDType dtype;
    int size;   /* bytes of an element of C and of packed operands */
    int group;  /* steps of k in one packed element: 2 for I32, whose operands are packed in pairs of 16 bits */
    int lanes;  /* elements a vector */
    int mr, nr; /* of C in registers; nr is a multiple of lanes */
} Blocking;

enum {
    CONTRACT_KC = 256
}; /* packed elements along k of a block: nr columns of it take half of the first-level cache, rows and columns of a tile the second's */

/* A vector of `count` elements of C's type; the element's type where count is 1. */
LLVMTypeRef contract_vector(const Emitter *e, PhbDType dtype, int count);

/* ---- contract_kernel.c ---- */

/* void(k, packed A, packed B, C, bytes between rows of C): mr x nr elements of C. */
PartFunction contract_kernel(Emitter *e, const Blocking *blocking);

/* ---- contract_pack.c ---- */

enum {
    PACK_TO,
    PACK_START,
    PACK_STRIDE_W,
    PACK_STRIDE_K,
    PACK_LOW_W,
    PACK_HIGH_W,
    PACK_LOW_K,
    PACK_HIGH_K,
    PACK_W,     /* first one of the panel */
    PACK_K,     /* first one of the block, */
    PACK_COUNT, /* and how many */
    PACK_ARGUMENTS
};

/* Packs `width` rows of A or columns of B from element type `from`. It may write a vector beyond the panel's end. */
PartFunction contract_pack(Emitter *e, const Blocking *blocking, PhbDType from, int width);

typedef struct Pack {
    Emitter *e;
    const Blocking *blocking;
    PhbDType from;
    int width;
    LLVMValueRef arguments[PACK_ARGUMENTS];
} Pack;

enum { PACK_MAX_VECTOR = 64 };

LLVMValueRef pack_source(const Pack *pack, LLVMValueRef w, LLVMValueRef k); /* the address of an element */
/* Transposes `count` vectors of `count` elements of `size` bytes, 16 bytes or more each. */
void pack_transpose(Emitter *e, LLVMValueRef *rows, int count, int size);
/* Rows, and so packed elements along k, that one transposition takes. A panel narrower than it leaves a vector's end behind each, which the next
 * overwrites. */
int pack_transposed_rows(const Pack *pack);

/* ---- contract_pairs.c ---- */

/* The body of a packing function whose elements are pairs; steps [first, last) exist, and rows where `whole`, i1, all do. */
void pack_pairs(const Pack *pack, LLVMValueRef first, LLVMValueRef last, LLVMValueRef whole);

#endif
