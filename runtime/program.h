/* The contract between compiled kernels and the runtime.
 *
 * phobosc writes one `phb_program` into each object: constant tables that describe every kernel, both of its readings, and its code. The runtime reads them and
 * never sees source. This is the only runtime header that the compiler includes. Everything here is plain data in native byte order; pointers are to constant
 * data of the same image. A change of layout or meaning raises PHB_ABI_VERSION. */
#ifndef PHB_PROGRAM_H
#define PHB_PROGRAM_H

#include <stdint.h>

#define PHB_ABI_VERSION 5
#define PHB_MAX_RANK 4
#define PHB_MAX_PARAMS 64 /* tensors of a kernel, and scalars */
#define PHB_MAX_DIMS 128  /* symbolic and search dims of a kernel */
#define PHB_MAX_LOOPS 8   /* different cluster loops of a kernel */
#define PHB_ROW_ALIGN 128  /* the arena pads rows of a tensor argument to this many bytes */
#define PHB_BASE_ALIGN 256 /* and bases to this many */

/* Element types: enumerator, source spelling, bytes, .npy descriptor (bf16 has none of its own: raw V2 or <u2 with the dtype given). */
#define PHB_DTYPES(X)       \
    X(F16, "f16", 2, "<f2") \
    X(BF16, "bf16", 2, "V2") \
    X(F32, "f32", 4, "<f4") \
    X(F64, "f64", 8, "<f8") \
    X(I8, "i8", 1, "|i1")   \
    X(U8, "u8", 1, "|u1")   \
    X(I16, "i16", 2, "<i2") \
    X(U16, "u16", 2, "<u2") \
    X(I32, "i32", 4, "<i4") \
    X(U32, "u32", 4, "<u4") \
    X(I64, "i64", 8, "<i8") \
    X(U64, "u64", 8, "<u8") \
    X(BOOL, "bool", 1, "|b1")

typedef enum PhbDType {
#define X(id, text, size, npy) PHB_##id,
    PHB_DTYPES(X)
#undef X
        PHB_DTYPE_COUNT
} PhbDType;

/* Expressions over dims and extents, in postfix order: operands before operators. Arithmetic is checked 64-bit: overflow, and division by zero, make the
 * whole expression invalid. Comparisons and logic give 0 or 1. Enumerator, source spelling, operands. */
#define PHB_EXPR_OPS(X)         \
    X(INT, "", 0)               \
    X(DIM, "", 0)               \
    X(EXTENT, "extent", 0)      \
    X(ADD, "+", 2)              \
    X(SUB, "-", 2)              \
    X(MUL, "*", 2)              \
    X(DIV, "/", 2)              \
    X(MOD, "%", 2)              \
    X(CEILDIV, "ceildiv", 2)    \
    X(MIN, "min", 2)            \
    X(MAX, "max", 2)            \
    X(EQ, "==", 2)              \
    X(NE, "!=", 2)              \
    X(LT, "<", 2)               \
    X(LE, "<=", 2)              \
    X(AND, "&&", 2)             \
    X(OR, "||", 2)              \
    X(NOT, "!", 1)

typedef enum PhbExprOp {
#define X(id, text, arity) PHB_EXPR_##id,
    PHB_EXPR_OPS(X)
#undef X
        PHB_EXPR_OP_COUNT
} PhbExprOp;

typedef struct PhbExprNode {
    int32_t op;    /* PhbExprOp */
    int32_t index; /* DIM: index into PhbKernel.dims; EXTENT: index into PhbKernel.tensors */
    int64_t value; /* INT: the value; EXTENT: the axis */
} PhbExprNode;

typedef struct PhbExpr {
    const PhbExprNode *nodes;
    int32_t count;
    const char *text; /* source spelling, for messages */
} PhbExpr;

/* ---- what a kernel computes on ---- */

/* A dim is symbolic (bound by the job or by tensors' shapes) or a search dim. Both readings give it a value: in the whole problem, and in a leaf, where the dim
 * that names a split axis is the super-tile's extent along it. */
typedef struct PhbDim {
    const char *name;
    int32_t is_search;       /* 1: declared in @autotune */
    int32_t grid_axis;       /* the ctx.block axis along which the tensor axis it names is split, or -1 */
    int32_t loop;            /* the cluster loop that walks the tensor axis it names, or -1: in that loop's stages its value is the chunk's extent,
                                unless grid_axis is a split axis, which goes first */
    const int64_t *leaf;     /* search dims: the @autotune set, ascending as declared */
    int32_t leaf_count;
    const int64_t *cluster;  /* search dims under @cluster: that set; the first is the default */
    int32_t cluster_count;
} PhbDim;

typedef enum PhbMode { PHB_READ, PHB_WRITE, PHB_READ_WRITE } PhbMode; /* WRITE: every element of the owned region is stored before it is read */

/* How one axis of a tensor follows a unit of work: what the unit owns of it. D is the extent of the grid axis or the loop. A tensor that is stored
 * has the same; one that is only read may be shorter, or longer by no more than its halo. */
typedef enum PhbAxisKind {
    PHB_AXIS_WHOLE, /* all of it */
    PHB_AXIS_GRID,  /* super-tile c of grid axis `index`: [c*S, min((c+1)*S, D)) */
    PHB_AXIS_LOOP,  /* chunk j of cluster loop `index`, in that loop's stage: [j*S, min((j+1)*S, D)) */
} PhbAxisKind;

typedef struct PhbAxis {
    PhbExpr extent; /* of the whole problem */
    int32_t kind;   /* PhbAxisKind */
    int32_t index;
    PhbExpr halo; /* reads reach this far beyond the owned region on both sides, over whole-problem dims; no nodes: 0. See PhbTensorArg */
} PhbAxis;

typedef struct PhbTensor {
    const char *name;
    int32_t dtype; /* PhbDType */
    int32_t rank;  /* 1..PHB_MAX_RANK */
    int32_t mode;  /* PhbMode */
    PhbAxis axes[PHB_MAX_RANK];
} PhbTensor;

typedef struct PhbScalar {
    const char *name;
    int32_t dtype;
} PhbScalar;

/* A condition that must hold: at bind time over whole-problem dims, or at launch over leaf dims and extents. */
typedef struct PhbCheck {
    PhbExpr cond;        /* nonzero = holds */
    const char *message; /* what to say when it does not, in terms of the source */
} PhbCheck;

/* One ctx.block axis in the cluster reading. Not split: one super-tile. */
typedef struct PhbGridAxis {
    int32_t dim;    /* index of the @cluster dim S, or -1 where the axis is not split */
    PhbExpr extent; /* split: the extent D of the tensor axes it splits; super-tiles = ceil(D / S) */
    PhbExpr leaf;   /* CTAs of a leaf launch along this axis, over leaf dims and extents */
} PhbGridAxis;

/* ---- how a unit of work runs ---- */

/* A loop across super-tiles: chunks 0 .. ceil(D / S) - 1 in ascending order. */
typedef struct PhbLoop {
    int32_t dim;    /* index of the @cluster dim S */
    PhbExpr extent; /* D, over whole-problem dims */
} PhbLoop;

/* What lives across the stages of a unit: one instance a CTA of the leaf grid, a tensor argument of extents [CTAs, rows, columns], CTAs numbered x fastest.
 * An accumulator that lives in an output's own super-tile is no state. */
typedef struct PhbState {
    const char *name;
    int32_t dtype;
    PhbExpr rows, columns; /* over leaf dims; 1 and 1 for a scalar */
    int32_t partial;       /* 1 + the operand, of tensors, then states, that it is a partial sum of, and cut as; 0: it is none, and that is used alone */
} PhbState;

#define PHB_UNUSED (-1) /* where a PhbMode stands: the stage does not touch it */

/* A unit runs its stages in order: one launch each, and for a cluster loop one a chunk. */
typedef struct PhbStage {
    int32_t loop;         /* index into PhbKernel.loops, or -1: once */
    const int8_t *modes;  /* PhbMode or PHB_UNUSED: as PhbKernel.tensors, then PhbKernel.states */
    /* Of a loop whose range may be divided, since all it carries are sums that start at 0: the stages behind the last one that run once to begin such a sum
     * with 0, and to add its partial sum to it. A part's chunks work on a partial sum where the whole one's tile stands in the launch. 0: none */
    int32_t clear, merge;
    const char *whole; /* why there are none: what the loop carries is no such sum; NULL: it carries no variable, or they are there */
} PhbStage;

/* ---- code ---- */

/* A tensor argument of a leaf: a super-tile resident in device memory. Element (i, j, k, l) of a rank-4 tensor lies at
 * base + ((i * extent[1] + j) * extent[2] + k) * pitch + l * size; lower ranks use the leading axes only.
 *
 * The region at hand is the owned one with its halo of width w on both sides: extent is the owned extent + 2w, origin the owned origin - w (it may be
 * negative), and what lies beyond the whole tensor is there and 0. So the leaf adds w to subscripts, and takes it off `extent` and adds it to `origin`
 * where the source asks for them. On loop axes the owned region is the chunk. */
typedef struct PhbTensorArg {
    void *base;
    int64_t extent[PHB_MAX_RANK]; /* of the region at hand */
    int64_t pitch;                /* bytes between rows (runs of the last axis) */
    int64_t origin[PHB_MAX_RANK]; /* of the region in the whole tensor */
    int64_t whole[PHB_MAX_RANK];  /* extents of the whole tensor */
} PhbTensorArg;

typedef struct PhbLaunch {
    const PhbTensorArg *tensors; /* as PhbKernel.tensors, then PhbKernel.states; base NULL where the stage does not touch it */
    const uint64_t *scalars;     /* as PhbKernel.scalars: the value's bits, zero-extended to 64 */
    const int64_t *dims;         /* as PhbKernel.dims: leaf values */
    int64_t grid[3];             /* CTAs */
    int64_t super[3];            /* this super-tile in the problem */
    int64_t supers[3];           /* and how many */
} PhbLaunch;

/* Runs CTAs first .. last-1 of the launch, numbered x fastest; under @cluster_dims, thread-block clusters first .. last-1, numbered x fastest among
 * clusters. `scratch` is PhbVariant.scratch bytes, 64-byte aligned, private to the call. */
typedef void PhbCtaRange(const PhbLaunch *launch, int64_t first, int64_t last, void *scratch);

typedef struct PhbCpuCode {
    const char *level; /* "x86-64-v2", "x86-64-v3", "x86-64-v4" or "native" */
    PhbCtaRange *const *stages; /* as PhbKernel.stages */
} PhbCpuCode;

/* A thread of a host, the CPU device or the simulator: where it stands. Its code reads this, and hands it to what runtime/hooks.def names. */
typedef struct PhbSimtThread {
    int64_t thread; /* in its CTA */
    int64_t cta;    /* its CTA's number in the one-dimensional launch, as PhbGpuCode has it, */
    int64_t ctas;   /* and of how many, where CTAs stay */
    int64_t rank;   /* of its CTA in its thread-block cluster, x fastest */
    char *shared;   /* memory of its CTA, PHB_SHARED_ALIGN-aligned */
} PhbSimtThread;

typedef void PhbSimtRun(const PhbLaunch *launch, PhbSimtThread *thread);

#define PHB_SHARED_ALIGN 1024
/* Bytes of scratch for a CPU stage of `shared` bytes a CTA, `ctas` CTAs a cluster. */
#define PHB_CTA_SCRATCH(shared, ctas) (((int64_t)(shared) / PHB_SHARED_ALIGN + 1) * PHB_SHARED_ALIGN * ((ctas) + 1))

/* An array that the source declares in shared memory. */
typedef struct PhbSharedArray {
    const char *name;
    int32_t dtype;     /* PhbDType */
    int32_t rank;
    int32_t extent[3];
    int32_t offset;    /* bytes, in the CTA's shared memory */
    int32_t pitch;     /* bytes between rows (runs of the last axis) */
} PhbSharedArray;

/* Where the simulator's hooks name a tensor by its number. */
#define PHB_SHARED_UNNAMED (-1)
#define PHB_SHARED_ARRAY(index) (-2 - (index))

/* A tensor map of a stage: boxes of `rows` along axis `row_axis` of a tensor by `columns` along its last one, and one along each other axis, with 16-byte chunks
 * swizzled over `swizzle` bytes, the width of a box; elements outside of the region at hand are 0. */
typedef struct PhbTensorMap {
    int32_t tensor; /* index into PhbLaunch.tensors */
    int32_t row_axis, rows, columns, swizzle;
    int32_t planes; /* it is of that tensor's planes, so many; 0: of the tensor */
} PhbTensorMap;

/* Planes of a tensor of f32: tensors of bf16 whose sum it is, largest first, as one of extents [PHB_PLANES, the tensor's]. They lie behind its tile,
 * at the next multiple of PHB_BASE_ALIGN, rows padded to PHB_ROW_ALIGN. A stage with maps of planes runs behind a pass for each tensor that they are
 * of. The pass's code takes, as a kernel's with the tensors f32 [rows, columns], for all rows of the tile, and bf16 [PHB_PLANES, rows, columns], and
 * these two dims, a grid of {ceil(columns / PHB_PLANES_COLUMNS), ceil(rows / PHB_PLANES_ROWS), 1}. */
#define PHB_PLANES 3
#define PHB_PLANES_BYTES 2 /* of an element */
#define PHB_PLANES_ROWS 8
#define PHB_PLANES_COLUMNS 512

#define PHB_MAP_BYTES 128 /* of a tensor map as the driver encodes it */
#define PHB_MAP_ALIGN 64

/* A stage as threads run it. */
typedef struct PhbThreadStage {
    const char *entry;  /* its name in a GPU image */
    PhbSimtRun *run;    /* its code on a host; NULL in a GPU image */
    int32_t threads;    /* a CTA */
    int32_t shared;     /* bytes of shared memory a CTA, all of it dynamic */
    const PhbSharedArray *arrays; /* for messages: in the order of the source, for the simulator alone */
    int32_t array_count;
    const PhbTensorMap *maps;
    int32_t map_count;
    int32_t stays;      /* 1: CTAs go on to further blocks of the grid, so that a launch needs no more of them than there is room for at once */
} PhbThreadStage;

/* Code for GPUs. An entry takes one parameter by value, these without gaps: PhbTensorArg tensors[] (states included), uint64_t scalars[], int64_t dims[],
 * grid[3], super[3], supers[3], and at the next multiple of PHB_MAP_ALIGN the stage's tensor maps, if it has any. The launch is one-dimensional: CTA x + grid.x * (y + grid.y * z); under @cluster_dims cluster-major, rank fastest, with a
 * cluster of {size, 1, 1}. */
typedef struct PhbGpuCode {
    int32_t arch;          /* 80: sm_80 */
    int32_t specific;      /* 1: sm_90a, say, which runs on compute capability 9.0 alone */
    int32_t machine_code;  /* 1: a cubin; 0: PTX, ending in a NUL that size counts */
    int32_t registers;     /* a thread, as estimated or assembled; 0: not known */
    const void *image;
    int64_t size;
    const PhbThreadStage *stages; /* as PhbKernel.stages; one more where they have maps of planes: the pass */
} PhbGpuCode;

/* One assignment of the search dims of a leaf, with its code. A variant need not have code for every device. */
typedef struct PhbVariant {
    const int64_t *values; /* as PhbKernel.dims; 0 at symbolic dims */
    int64_t scratch;       /* bytes a concurrent call of CPU code needs */
    const PhbCpuCode *cpu; /* best level last */
    int32_t cpu_count;
    int32_t gpu_count;
    const PhbGpuCode *gpu;
    const PhbThreadStage *simt; /* as PhbGpuCode.stages; NULL: no code for the simulator */
    const int8_t *planes;       /* as PhbKernel.tensors: behind which tiles some code wants room for planes; NULL: none */
} PhbVariant;

typedef struct PhbKernel {
    const char *name;
    const char *source; /* "file:line:col" of the declaration, for messages */
    const PhbDim *dims;
    int32_t dim_count;
    const PhbTensor *tensors;
    int32_t tensor_count;
    const PhbScalar *scalars;
    int32_t scalar_count;
    PhbGridAxis grid[3];
    const PhbLoop *loops;
    int32_t loop_count;
    const PhbState *states;
    int32_t state_count;
    const PhbStage *stages;
    int32_t stage_count; /* at least 1 */
    int32_t helper_count; /* stages behind those, which `clear` and `merge` name */
    int32_t cluster_dims[3]; /* CTAs of a thread-block cluster; 1, 1, 1 without */
    const PhbCheck *bind_checks; /* over whole-problem dims, search dims at their @cluster values */
    int32_t bind_check_count;
    const PhbCheck *leaf_checks; /* over leaf dims and extents: @aligned, @require, one grid; they filter variants */
    int32_t leaf_check_count;
    const PhbVariant *variants;
    int32_t variant_count;
} PhbKernel;

typedef struct PhbProgram {
    int32_t abi_version;
    uint8_t build_id[16]; /* XXH3-128 of the IR, the options that shape code, and the runtime */
    const char *file;     /* source file's base name */
    const char *compiler; /* "phobosc VERSION" */
    const PhbKernel *kernels;
    int32_t kernel_count;
} PhbProgram;

/* The whole command line of a produced executable; returns its exit code. */
int phb_main(const PhbProgram *program, int argc, char **argv);

#endif
