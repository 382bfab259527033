/* From the checked tree to IR, and from IR to what code generation takes: the cluster program and the leaves, each with its search dims put in. */
#ifndef PHOBOS_LOWER_H
#define PHOBOS_LOWER_H

#include "compiler/ir/ir.h"
#include "compiler/sema/sema.h"

/* ---- ast_to_ir.c ---- */

IrModule *lower_program(Context *context, const CheckedProgram *program, const char *file);

/* ---- cluster.c: the second reading, LANGUAGE.md 9 ---- */

typedef struct ClusterAxis {
    PhbAxisKind kind;
    int index;       /* GRID: of ctx.block; LOOP: of ClusterKernel.loops */
    const Dim *halo; /* NULL: none. The region at hand has it on both sides, see PhbTensorArg */
} ClusterAxis;

typedef struct ClusterTensor {
    int param; /* index in the signature */
    PhbMode mode;
    ClusterAxis axes[PHB_MAX_RANK];
} ClusterTensor;

/* What an axis of the grid or a cluster loop walks in super-tiles. */
typedef struct ClusterSplit {
    const SearchDim *dim; /* the @cluster dim S; NULL: the grid axis is not split */
    const Dim *extent;    /* D, over symbolic dims: super-tiles = ceil(D / S) */
} ClusterSplit;

/* What a CTA of the leaf grid keeps from stage to stage: a parameter of every stage's kernel, after the kernel's own, tensor<T>[CTAs, rows, columns]. */
typedef struct ClusterState {
    const char *name;
    const Type *type; /* a scalar or tile; of an output's partial sums, the tensor */
    int partial_of;   /* it holds partial sums of this tensor or, behind the tensors, state; -1: it does not */
} ClusterState;

/* A leaf of its own. */
typedef struct ClusterStage {
    int loop;         /* of ClusterKernel.loops: runs once a chunk; -1: once */
    IrKernel *kernel; /* not specialised */
    int8_t *modes;    /* PhbMode or PHB_UNUSED: as ClusterKernel.tensors, then states */
    /* Of a loop whose range may be divided: the helpers that begin a partial sum with 0, and add one to another. 0: none, and `whole` says why not, or NULL
     * where the loop carries no variable. */
    int clear, merge;
    const char *whole;
} ClusterStage;

/* One assignment of the search dims, in the order of signature.search, and the stages' kernels specialised to it. */
typedef struct LeafVariant {
    int64_t *values;
    IrKernel **stages;
    IrKernel **threads; /* stages with thread code, at the memory level; else NULL. Filled in by code generation */
} LeafVariant;

/* A stage as a GPU runs it. */
typedef struct GpuStage {
    const char *entry; /* its name in the image */
    int threads;       /* a CTA */
    int64_t shared;    /* bytes a CTA */
    const PhbTensorMap *maps;
    int map_count;
    bool stays; /* as PhbThreadStage has it */
} GpuStage;

/* Code of a variant for one target; filled in by code generation. */
typedef struct GpuImage {
    const char *target; /* "sm_80" */
    int arch;           /* 80 */
    bool specific;      /* runs on that very architecture alone */
    bool machine_code;  /* else PTX */
    const char *text;   /* `size` bytes; PTX ends in a NUL that is counted */
    int64_t size;
    GpuStage *stages; /* as the kernel's, then `planes` */
    bool has_planes;  /* the pass that computes them */
} GpuImage;

typedef struct GpuVariant {
    int64_t *values;
    IrKernel **stages;
    IrKernel **threads; /* the stages at the memory level, for the simulator; NULL: it has no code */
    IrKernel *pass;     /* that computes planes, the same; NULL: it needs none */
    bool *planes;       /* by tensor: whether some code has its planes; NULL: none has any */
    VEC(GpuImage) images;
} GpuVariant;

typedef struct ClusterKernel {
    IrKernel *kernel;           /* not specialised */
    VEC(ClusterTensor) tensors; /* tensor parameters in order */
    ClusterSplit grid[3];
    VEC(ClusterSplit) loops; /* that differ in step or extent */
    VEC(ClusterState) states;
    VEC(ClusterStage) stages; /* in the order in which a unit of work runs them, then helpers; none after a refusal */
    int helper_count;
    VEC(LeafVariant) variants;     /* of the CPU */
    VEC(GpuVariant) gpu_variants;  /* best first */
} ClusterKernel;

typedef struct ClusterProgram {
    const char *file;
    VEC(ClusterKernel *) kernels;
} ClusterProgram;

/* Refusals go to the diagnostics. A kernel without @cluster is one unit of work: no axis is split. Variants are left empty. Never NULL. */
ClusterProgram *cluster_split(Context *context, IrModule *module);
void cluster_print(Buffer *buffer, const ClusterProgram *program); /* --emit=cluster */
void cluster_print_kernel(Buffer *buffer, const ClusterKernel *kernel);
void cluster_print_tensor(Buffer *buffer, const ClusterKernel *kernel, const ClusterTensor *tensor); /* one line */

/* ---- affine.c ---- */

/* Gives every value, arguments and regions included, an id from 0 on, and their number; lasts until the kernel is next numbered or printed. */
int values_number(IrBlock *body);

/* ---- assign.c: values of the search dims ---- */

/* `dim` under `values` (signature.search order): NULL where that overflows or divides by zero. */
const Dim *dim_assign(Context *context, const Signature *signature, const Dim *dim, const int64_t *values);
/* The same as a number: false also where `dim` mentions anything but search dims. */
bool dim_evaluate(Context *context, const Signature *signature, const Dim *dim, const int64_t *values, int64_t *value);

/* CTAs of a thread-block cluster under `values`; 1, 1, 1 without @cluster_dims. */
void cluster_extents(Context *context, const Signature *signature, const int64_t *values, int64_t extents[3]);

/* Assignments of the leaf's sets, the last search dim fastest. Dims with varies[i] false, as all are at first, stay at their first value. */
typedef struct Assignment {
    const Signature *signature;
    bool *varies;
    int *choice;
    int64_t *values;
} Assignment;

Assignment assignment_first(Context *context, const Signature *signature);
bool assignment_next(Assignment *assignment); /* false, and back at the first one, after the last */

/* ---- specialise.c ---- */

/* A copy of the kernel with search dims replaced by `values` (signature.search order), folded. */
IrKernel *specialise(Context *context, const IrKernel *kernel, const int64_t *values);

/* ---- contract.c: loops that are contractions; of specialised kernels ---- */

typedef struct Contracted {
    const IrOp *loop; /* for: carries the accumulator alone */
    const IrOp *dot;  /* dot or dot_t, of `a`, `b` and the accumulator */
    const IrOp *a, *b; /* loads; each turn's slices follow the last one's along k */
    int64_t step;      /* of k, a turn */
} Contracted;

/* Gives every accumulator of a contraction a loop of its own, before the one it was carried in, which carries a dead value from then on. Preserves
 * meaning: the loop stores to neither factor, and nothing in it reads the accumulator. */
bool contraction_isolate(Context *context, IrKernel *kernel);
/* Is `loop` such a loop and nothing else? */
bool contraction_match(Context *context, const IrKernel *kernel, const IrOp *loop, Contracted *found);
/* Do rows (axis 0) or columns (1) of the result that lie beyond the edge of a's, or b's, tensor reach nothing but stores beyond an edge? */
bool contraction_unseen(const IrKernel *kernel, const Contracted *contracted, int axis);

/* ---- variants.c: which assignments the CPU code holds ---- */

/* Fills program's variants for the CPU by a static model: among assignments that satisfy @require and divide the @cluster defaults, the largest whose
 * tiles fit the cache, ties to the earliest in declaration order. Search dims that a tensor's extent, @aligned or a @require over
 * symbolic dims decides get a variant for each of their values. A kernel without any legal assignment is an error. */
void select_cpu_variants(Context *context, ClusterProgram *program);
/* By search dim: whether tensors, @aligned or a @require over symbolic dims decide it. */
bool *variant_decided(Context *context, const ClusterKernel *kernel);
/* Do the values satisfy every @require that they decide, and divide the @cluster defaults? */
bool variant_admissible(Context *context, const ClusterKernel *kernel, const int64_t *values);

/* ---- gpu_variants.c ---- */

/* Fills program's variants for GPUs: the `most` best of a leaf, or all where that is 0, and at least one for each combination of decided values. */
void select_gpu_variants(Context *context, ClusterProgram *program, int most);

#endif
