/* Checksums of what is stored. */
#ifndef PHOBOS_CHECKSUM_H
#define PHOBOS_CHECKSUM_H

#include "runtime/runtime.h"

/* Of the elements of a region of tensor number `tensor` that lie at `rows`: the sum of a mix of XXH3-64 and position over runs of at most 64 KiB of a
 * row. So the sums of a region's pieces make up its own, in any order, where pieces are cut between rows or at multiples of 64 KiB. */
uint64_t region_checksum(int tensor, const TensorFile *file, const Region *region, const void *rows, int64_t pitch);

#endif
