/* What the files of code generation share: the LLVM module under construction and the element-level operations that every backend prints. Nobody else
 * includes LLVM headers.
 *
 * Values and memory differ for three types. An f16 or bf16 value is a float that the type holds exactly (16 bits in memory); a bool value is an i1 (a
 * byte, 0 or 1, in memory). Everything else is the same in both. */
#ifndef PHOBOS_CODEGEN_EMIT_H
#define PHOBOS_CODEGEN_EMIT_H

#include "compiler/codegen/codegen.h"

#include <llvm-c/Core.h>
#include <llvm-c/DebugInfo.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>

/* A CPU level as LLVM knows it. */
typedef struct CpuLevel {
    const char *name, *cpu, *features;
    bool has_f16c;                    /* converts f16 by instructions, */
    bool has_bf16;                    /* and bf16 */
    const char *pack_f16, *pack_bf16; /* intrinsics that round two f32 and put the second into the lower half of a word; NULL: none */
    bool has_fma;
    int vector_bytes;        /* of the widest registers */
    bool has_extremes;       /* llvm.maxnum and llvm.minnum are one instruction each that takes +0 for more than -0 */
    const char *exp2, *log2, *reciprocal; /* intrinsics on f32 that are near the result, for @fastmath; NULL: none */
} CpuLevel;

typedef struct Emitter {
    Context *context;
    LLVMContextRef llvm;
    LLVMModuleRef module;
    LLVMBuilderRef builder;
    LLVMTargetDataRef layout;
    LLVMTypeRef i1, i8, i16, i32, i64, f16, bf16, f32, f64, ptr;
    const CpuLevel *level;           /* under construction */
    bool fastmath;                   /* the kernel under construction */
    LLVMValueRef fmod_f32, fmod_f64; /* internal functions, made on first use */
    int next_global;                 /* numbers the private constants */
    LLVMDIBuilderRef debug;          /* NULL: no line tables; else */
    bool debug_optimised;
    LLVMMetadataRef debug_file, debug_type, debug_scope; /* the scope: of the function under construction */
} Emitter;

/* ---- scalar.c ---- */

LLVMTypeRef value_type(const Emitter *e, PhbDType dtype);
LLVMTypeRef memory_type(const Emitter *e, PhbDType dtype);
LLVMValueRef value_from_memory(Emitter *e, PhbDType dtype, LLVMValueRef stored);
LLVMValueRef value_to_memory(Emitter *e, PhbDType dtype, LLVMValueRef value);
LLVMValueRef values_to_memory(
    Emitter *e, PhbDType dtype, LLVMValueRef const *values, int count); /* a vector as it lies in memory; of one, the element */
LLVMValueRef value_const(Emitter *e, PhbDType dtype, uint64_t bits);
/* From the value's bits zero-extended to 64, as launches and constants carry scalars. */
LLVMValueRef value_from_bits(Emitter *e, PhbDType dtype, LLVMValueRef bits);

/* An element-wise op of one operand type, `dtype`; comparisons give i1. Operands that the op has not are not read. */
LLVMValueRef emit_element_op(Emitter *e, OpKind kind, PhbDType dtype, const LLVMValueRef operands[3]);
/* What one element of an element-wise op, a conversion or a selection gives. */
LLVMValueRef emit_element(Emitter *e, const IrOp *op, const LLVMValueRef operands[3]);
LLVMValueRef emit_float_extreme(Emitter *e, bool is_max, LLVMValueRef a, LLVMValueRef b); /* of f32 or f64, vectors too */
LLVMValueRef emit_int_extreme(Emitter *e, bool is_max, bool is_signed, LLVMValueRef a, LLVMValueRef b);
/* An intrinsic that is overloaded on the type of its first argument alone, which is the result's. */
LLVMValueRef emit_intrinsic(Emitter *e, const char *name, LLVMValueRef const *arguments, int count);
LLVMValueRef emit_int_const(const Emitter *e, int64_t value);      /* i64 */
LLVMValueRef emit_min(Emitter *e, LLVMValueRef a, LLVMValueRef b); /* i64, signed */
LLVMValueRef emit_max(Emitter *e, LLVMValueRef a, LLVMValueRef b);

/* ---- convert.c: LANGUAGE.md 3 ---- */

LLVMValueRef emit_convert(Emitter *e, PhbDType from, PhbDType to, LLVMValueRef value);
LLVMValueRef emit_half_round(Emitter *e, PhbDType dtype, LLVMValueRef value);    /* a float to the nearest that f16 or bf16 holds */
LLVMValueRef emit_half_expand(Emitter *e, PhbDType dtype, LLVMValueRef bits);    /* i16 to float */
LLVMValueRef emit_half_compress(Emitter *e, PhbDType dtype, LLVMValueRef value); /* float, rounded to nearest even, to i16 */

/* ---- fmod.c ---- */

LLVMValueRef emit_fmod(Emitter *e, LLVMTypeRef type, LLVMValueRef a, LLVMValueRef b); /* f32 or f64, exact */

/* ---- maths.c ---- */

/* The functions of LANGUAGE.md 5 on floats: exp to cos, pow, sqrt, rsqrt, floor, ceil, round, trunc. Branch-free, no calls, <= 4 ulp, the same bits
 * at every level with fma. f16 and bf16 are computed in f32, and the caller rounds. b is read by pow alone. */
LLVMValueRef emit_maths(Emitter *e, OpKind kind, PhbDType dtype, LLVMValueRef a, LLVMValueRef b);

/* ---- fma.c ---- */

LLVMValueRef emit_fma(Emitter *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c); /* f32 or f64, rounded once */

/* ---- loop.c: counted loops ---- */

typedef struct Loop {
    LLVMBasicBlockRef header, exit;
    LLVMValueRef index; /* i64 */
} Loop;

typedef enum LoopShape {
    LOOP_PLAIN,
    LOOP_UNROLLED, /* four times; not vectorised, its body is of vectors */
    LOOP_SCALAR,   /* neither vectorised nor unrolled: it runs a few times, if at all */
} LoopShape;

/* for (index = first; index < last; index++), signed. The builder is left in the body; loop_end closes it and leaves the builder behind the loop. */
Loop loop_begin(Emitter *e, LLVMValueRef first, LLVMValueRef last);
void loop_end(Emitter *e, Loop *loop, LoopShape shape);
/* Branches back to `header`, whose phis are the caller's; the builder stays. */
void loop_close(Emitter *e, LLVMBasicBlockRef header, LoopShape shape);
/* As LOOP_UNROLLED, `turns` times; 1: as LOOP_SCALAR. */
void loop_close_unrolled(Emitter *e, LLVMBasicBlockRef header, int64_t turns);
/* How many turns a `for` takes, unsigned: right for every start and end. */
LLVMValueRef emit_trip_count(Emitter *e, LLVMValueRef start, LLVMValueRef end, LLVMValueRef step);
LLVMBasicBlockRef block_append(Emitter *e, const char *name); /* in the function the builder is in */

/* ---- debug.c: line tables; nothing happens where there are none ---- */

void debug_begin(Emitter *e, const DebugSource *source); /* before the module's functions; `source` NULL: no line tables */
void debug_end(Emitter *e);                              /* after them */
/* `function` is that of a kernel; what follows is at the kernel's name. */
void debug_function(Emitter *e, LLVMValueRef function, const Signature *signature);
void emit_at(Emitter *e, Span span); /* what follows is of the op there; a span without a position says nothing */
/* The place at hand, for code that is emitted somewhere else in between. NULL: none, as in a function that kernels share. */
LLVMMetadataRef emit_place(const Emitter *e);
void emit_at_place(Emitter *e, LLVMMetadataRef place);

/* ---- launch.c: what a leaf reads of its launch, and the scalars that come from it ---- */

typedef struct TensorRegs {
    LLVMValueRef base, pitch;
    LLVMValueRef extent[PHB_MAX_RANK], origin[PHB_MAX_RANK], whole[PHB_MAX_RANK];
} TensorRegs;

/* Where the parts of a launch lie: PhbTensorArg[], uint64_t[], and int64_t[] of dims and 3 each. */
typedef struct LaunchPlaces {
    LLVMValueRef tensors, scalars, dims, grid, super, supers;
} LaunchPlaces;

typedef struct LaunchRegs {
    const IrKernel *kernel;
    TensorRegs *tensors;  /* by parameter index */
    LLVMValueRef *params; /* scalars, by parameter index */
    LLVMValueRef *dims;   /* as PhbKernel.dims */
    LLVMValueRef block[3], grid[3], super[3], supers[3];
} LaunchRegs;

LaunchPlaces launch_places(Emitter *e, LLVMValueRef launch); /* of a PhbLaunch */
/* All but `block`. */
LaunchRegs launch_read(Emitter *e, const IrKernel *kernel, const LaunchPlaces *places);
/* A constant, a dim, ctx.block to ctx.supers, extent, origin or whole; NULL for another op. */
LLVMValueRef launch_scalar(Emitter *e, const LaunchRegs *launch, const IrOp *op);

/* ---- llvm.c ---- */

void emitter_init(Emitter *e, Context *context, LLVMTargetMachineRef machine, const char *triple, const char *file,
    const DebugSource *debug); /* `file` names the module */
void emitter_fini(Emitter *e);

void function_set_level(Emitter *e, LLVMValueRef function); /* compiles it for e->level */
/* Loops of it may have vectors of the widest registers. LLVM prefers 32 bytes, which is what memory likes best; what computes much gains by 64. */
void function_use_widest(Emitter *e, LLVMValueRef function);

LLVMValueRef find_function(Emitter *e, const char *name); /* for its address; where this module has none, it is another's, and hidden */

/* ---- program.c ---- */

/* The code of a variant. */
typedef struct LeafCode {
    const struct Plan **plans; /* of the stages, for the host backend */
    LLVMValueRef *functions;   /* level by level, one a stage; of the table's module */
    int64_t scratch;           /* the most bytes that one of them needs, as host_leaf gives them */
} LeafCode;

const char *simulator_name(Context *context, const ClusterKernel *kernel, int variant, int stage); /* of a PhbSimtRun, of a GPU variant */

/* Writes the program table, options->symbol. code[k][v] is kernel k's variant v. */
void emit_program_table(Emitter *e, const ClusterProgram *program, const CodegenOptions *options, LeafCode *const *code);

/* The index that PhbKernel.dims has for a dim: symbolic dims first, then search dims. Aborts when there is none. */
int dim_index(const Signature *signature, const char *name);
/* Index among the tensor parameters, or the scalar ones, of parameter `param`. */
int param_rank_among_kind(const Signature *signature, int param);

#endif
