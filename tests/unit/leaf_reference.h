/* What a leaf means, as plainly as can be: element arithmetic in C and long double, ops one after another, a slice an element at a time. Shares no
 * code with code generation. Elements are bits, zero-extended to 64. */
#ifndef PHOBOS_LEAF_REFERENCE_H
#define PHOBOS_LEAF_REFERENCE_H

#include "compiler/ir/ir.h"

uint64_t reference_element(OpKind kind, PhbDType dtype, uint64_t a, uint64_t b);
uint64_t reference_convert(PhbDType from, PhbDType to, uint64_t bits);
bool reference_same(PhbDType dtype, uint64_t a, uint64_t b); /* any NaN is any other */

uint64_t element_read(PhbDType dtype, const void *at);
void element_write(PhbDType dtype, void *at, uint64_t bits);

/* Runs CTAs first .. last-1 of a specialised kernel. */
void reference_run(const IrKernel *kernel, const PhbLaunch *launch, int64_t first, int64_t last);

#endif
