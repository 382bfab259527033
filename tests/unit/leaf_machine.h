/* A leaf as the IR says it, for kernels of integers: one CTA after another, one op after another. What it runs on are regions, as a pod holds them. */
#ifndef PHOBOS_LEAF_MACHINE_H
#define PHOBOS_LEAF_MACHINE_H

#include "compiler/ir/ir.h"

enum { MACHINE_TENSORS = 24, MACHINE_DIMS = 16, MACHINE_TILE = 32, MACHINE_CARRIED = 40 };

/* The region of a tensor at hand, row-major and without gaps; elements are bits, zero-extended to 64. */
typedef struct View {
    uint64_t *data; /* NULL: the leaf must not touch it */
    int64_t extent[PHB_MAX_RANK], origin[PHB_MAX_RANK], whole[PHB_MAX_RANK];
} View;

typedef struct Machine {
    Context *context;
    View views[MACHINE_TENSORS];       /* by parameter */
    uint64_t scalars[MACHINE_TENSORS]; /* by parameter */
    const char *dim_names[MACHINE_DIMS];
    int64_t dims[MACHINE_DIMS];
    int dim_count;
    int64_t super[3], supers[3];
    /* the machine's own */
    const IrKernel *kernel;
    int64_t grid[3], block[3];
    uint64_t (*values)[MACHINE_TILE]; /* by IrValue.id; machine_free frees them */
    int value_capacity;
} Machine;

int64_t machine_dim(Machine *machine, const Signature *signature, const Dim *dim);
int64_t machine_count(const View *view, int rank); /* elements of the region */
/* Runs all CTAs of a specialised kernel. */
void machine_run(Machine *machine, IrKernel *kernel);
void machine_free(Machine *machine);

#endif
