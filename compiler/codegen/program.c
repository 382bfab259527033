/* The tables of runtime/program.h as constants of the module. Struct literals list the fields of the C structs in order; LLVM lays them out as C
 * does, and each one's size is compared with C's. */
#include "compiler/codegen/simt/simt.h"
#include "compiler/layout/layout.h"

#include <stdlib.h>
#include <string.h>

int dim_index(const Signature *signature, const char *name) {
    for (int i = 0; i < signature->symbolic.count; i++)
        if (signature->symbolic.items[i] == name)
            return i;
    for (int i = 0; i < signature->search.count; i++)
        if (signature->search.items[i].name == name)
            return signature->symbolic.count + i;
    abort();
}

int param_rank_among_kind(const Signature *signature, int param) {
    int index = 0;
    for (int i = 0; i < param; i++)
        index += (signature->params.items[i].type->kind == TYPE_TENSOR) == (signature->params.items[param].type->kind == TYPE_TENSOR);
    return index;
}

/* ---- constants ---- */

typedef VEC(LLVMValueRef) Values;

static LLVMValueRef int32(const Emitter *e, int value) {
    return LLVMConstInt(e->i32, (unsigned long long)(long long)value, true);
}

static LLVMValueRef null_pointer(const Emitter *e) {
    return LLVMConstNull(e->ptr);
}

static LLVMValueRef private_global(Emitter *e, LLVMValueRef value) {
    char name[32];
    snprintf(name, sizeof name, "table.%d", e->next_global++);
    LLVMValueRef global = LLVMAddGlobal(e->module, LLVMTypeOf(value), name);
    LLVMSetInitializer(global, value);
    LLVMSetGlobalConstant(global, true);
    LLVMSetLinkage(global, LLVMPrivateLinkage);
    LLVMSetUnnamedAddress(global, LLVMGlobalUnnamedAddr);
    return global;
}

static LLVMValueRef string(Emitter *e, const char *text) {
    return private_global(e, LLVMConstStringInContext2(e->llvm, text, strlen(text), false));
}

/* A pointer to the array, NULL where it is empty. */
static LLVMValueRef array(Emitter *e, const Values *values) {
    if (!values->count)
        return null_pointer(e);
    return private_global(e, LLVMConstArray2(LLVMTypeOf(values->items[0]), values->items, (uint64_t)values->count));
}

static LLVMValueRef record(Emitter *e, size_t size, LLVMValueRef *fields, unsigned count) {
    LLVMValueRef value = LLVMConstStructInContext(e->llvm, fields, count, false);
    if (LLVMABISizeOfType(e->layout, LLVMTypeOf(value)) != size)
        abort(); /* runtime/program.h has changed */
    return value;
}
#define RECORD(e, T, ...) record((e), sizeof(T), (LLVMValueRef[]){__VA_ARGS__}, sizeof((LLVMValueRef[]){__VA_ARGS__}) / sizeof(LLVMValueRef))

static LLVMValueRef int64_array(Emitter *e, const int64_t *numbers, int count) {
    Values values = {0};
    for (int i = 0; i < count; i++)
        vec_push(e->context->arena, &values, emit_int_const(e, numbers[i]));
    return array(e, &values);
}

/* ---- expressions ---- */

static void push_nodes(Emitter *e, const Signature *signature, const Dim *dim, Values *nodes) {
    int index = 0;
    if (dim->kind == PHB_EXPR_DIM) {
        index = dim_index(signature, dim->name);
    } else if (dim->kind == PHB_EXPR_EXTENT) {
        index = param_rank_among_kind(signature, signature_param(signature, dim->name));
    } else if (dim->kind != PHB_EXPR_INT) {
        push_nodes(e, signature, dim->a, nodes);
        if (dim->kind != PHB_EXPR_NOT)
            push_nodes(e, signature, dim->b, nodes);
    }
    vec_push(e->context->arena, nodes, RECORD(e, PhbExprNode, int32(e, (int)dim->kind), int32(e, index), emit_int_const(e, dim->value)));
}

static const char *dim_text(Emitter *e, const Dim *dim) {
    Buffer buffer = {0};
    dim_print(&buffer, dim);
    const char *text = arena_strndup(e->context->arena, buffer.data, buffer.length);
    buffer_free(&buffer);
    return text;
}

static LLVMValueRef expression(Emitter *e, const Signature *signature, const Dim *dim) {
    Values nodes = {0};
    push_nodes(e, signature, dim, &nodes);
    return RECORD(e, PhbExpr, array(e, &nodes), int32(e, nodes.count), string(e, dim_text(e, dim)));
}

static LLVMValueRef no_expression(Emitter *e) {
    return RECORD(e, PhbExpr, null_pointer(e), int32(e, 0), null_pointer(e));
}

static LLVMValueRef number(Emitter *e, int64_t value) {
    return expression(e, NULL, dim_int(e->context->dims, value));
}

/* ---- what a kernel computes on ---- */

/* The grid axis, or the loop, that walks tensor axes of the extent `name`, or -1. */
static int axis_of_dim(const ClusterKernel *kernel, const char *name, PhbAxisKind kind) {
    const Signature *signature = &kernel->kernel->signature;
    for (int i = 0; i < kernel->tensors.count; i++) {
        const ClusterTensor *tensor = &kernel->tensors.items[i];
        const Type *type = signature->params.items[tensor->param].type;
        for (int axis = 0; axis < type->rank; axis++)
            if (tensor->axes[axis].kind == kind && type->dims[axis]->kind == PHB_EXPR_DIM && type->dims[axis]->name == name)
                return tensor->axes[axis].index;
    }
    return -1;
}

static LLVMValueRef dim_record(Emitter *e, const ClusterKernel *kernel, const char *name, const SearchDim *search) {
    LLVMValueRef grid_axis = int32(e, axis_of_dim(kernel, name, PHB_AXIS_GRID)), loop = int32(e, axis_of_dim(kernel, name, PHB_AXIS_LOOP));
    if (!search)
        return RECORD(e, PhbDim, string(e, name), int32(e, 0), grid_axis, loop, null_pointer(e), int32(e, 0), null_pointer(e), int32(e, 0));
    return RECORD(e, PhbDim, string(e, name), int32(e, 1), grid_axis, loop, int64_array(e, search->leaf.items, search->leaf.count),
        int32(e, search->leaf.count), int64_array(e, search->cluster.items, search->cluster.count), int32(e, search->cluster.count));
}

static LLVMValueRef dims_table(Emitter *e, const ClusterKernel *kernel) {
    const Signature *signature = &kernel->kernel->signature;
    Values dims = {0};
    for (int i = 0; i < signature->symbolic.count; i++)
        vec_push(e->context->arena, &dims, dim_record(e, kernel, signature->symbolic.items[i], NULL));
    for (int i = 0; i < signature->search.count; i++)
        vec_push(e->context->arena, &dims, dim_record(e, kernel, signature->search.items[i].name, &signature->search.items[i]));
    return array(e, &dims);
}

static LLVMValueRef tensor_record(Emitter *e, const Signature *signature, const ClusterTensor *tensor) {
    const Param *param = &signature->params.items[tensor->param];
    LLVMValueRef axes[PHB_MAX_RANK];
    for (int axis = 0; axis < PHB_MAX_RANK; axis++) {
        bool used = axis < param->type->rank;
        LLVMValueRef extent = used ? expression(e, signature, param->type->dims[axis]) : number(e, 1);
        axes[axis] = RECORD(e, PhbAxis, extent, int32(e, used ? (int)tensor->axes[axis].kind : PHB_AXIS_WHOLE),
            int32(e, used ? tensor->axes[axis].index : 0),
            used && tensor->axes[axis].halo ? expression(e, signature, tensor->axes[axis].halo) : no_expression(e));
    }
    LLVMValueRef axis_array = LLVMConstArray2(LLVMTypeOf(axes[0]), axes, PHB_MAX_RANK);
    return RECORD(e, PhbTensor, string(e, param->name), int32(e, (int)param->type->scalar), int32(e, param->type->rank), int32(e, (int)tensor->mode),
        axis_array);
}

static LLVMValueRef tensors_table(Emitter *e, const ClusterKernel *kernel) {
    Values tensors = {0};
    for (int i = 0; i < kernel->tensors.count; i++)
        vec_push(e->context->arena, &tensors, tensor_record(e, &kernel->kernel->signature, &kernel->tensors.items[i]));
    return array(e, &tensors);
}

static LLVMValueRef scalars_table(Emitter *e, const Signature *signature, int *count) {
    Values scalars = {0};
    for (int i = 0; i < signature->params.count; i++) {
        const Param *param = &signature->params.items[i];
        if (param->type->kind == TYPE_SCALAR)
            vec_push(e->context->arena, &scalars, RECORD(e, PhbScalar, string(e, param->name), int32(e, (int)param->type->scalar)));
    }
    *count = scalars.count;
    return array(e, &scalars);
}

static LLVMValueRef grid_record(Emitter *e, const ClusterKernel *kernel, int axis) {
    const Signature *signature = &kernel->kernel->signature;
    const ClusterSplit *grid = &kernel->grid[axis];
    LLVMValueRef extent = grid->dim ? expression(e, signature, grid->extent) : number(e, 1);
    LLVMValueRef leaf = signature->grid[axis].counts.count ? expression(e, signature, signature->grid[axis].counts.items[0]) : number(e, 1);
    return RECORD(e, PhbGridAxis, int32(e, grid->dim ? dim_index(signature, grid->dim->name) : -1), extent, leaf);
}

/* ---- checks ---- */

static void push_check(Emitter *e, const Signature *signature, Values *checks, const Dim *condition, const char *message) {
    vec_push(e->context->arena, checks, RECORD(e, PhbCheck, expression(e, signature, condition), string(e, message)));
}

static LLVMValueRef leaf_checks(Emitter *e, const Signature *signature, int *count) {
    Context *context = e->context;
    Values checks = {0};
    for (int axis = 0; axis < 3; axis++) {
        const GridAxis *grid = &signature->grid[axis];
        for (int i = 1; i < grid->counts.count; i++) {
            const Dim *condition = dim_op(context->dims, PHB_EXPR_EQ, grid->counts.items[0], grid->counts.items[i]);
            push_check(e, signature, &checks, condition,
                arena_printf(context->arena, "the launch grid has one extent along ctx.block.%c: %s and %s must agree", "xyz"[axis],
                    dim_text(e, grid->counts.items[0]), dim_text(e, grid->counts.items[i])));
        }
    }
    for (int axis = 0; axis < 3; axis++) {
        const Dim *size = signature->cluster_dims[axis], *zero = dim_int(context->dims, 0);
        if (!size)
            continue;
        const Dim *grid = signature->grid[axis].counts.count ? signature->grid[axis].counts.items[0] : dim_int(context->dims, 1);
        push_check(e, signature, &checks, dim_op(context->dims, PHB_EXPR_EQ, dim_op(context->dims, PHB_EXPR_MOD, grid, size), zero),
            arena_printf(context->arena, "@cluster_dims: the launch grid along ctx.block.%c, %s, must be a multiple of %s", "xyz"[axis],
                dim_text(e, grid), dim_text(e, size)));
    }
    for (int i = 0; i < signature->aligned.count; i++) {
        const Aligned *aligned = &signature->aligned.items[i];
        const Dim *dim = dim_name(context->dims, aligned->dim);
        const Dim *condition = dim_op(context->dims, PHB_EXPR_EQ, dim_op(context->dims, PHB_EXPR_MOD, dim, aligned->tile), dim_int(context->dims, 0));
        const char *tile = dim_text(e, aligned->tile);
        push_check(e, signature, &checks, condition,
            arena_printf(context->arena, "@aligned(%s = %s): %s must be a multiple of %s", aligned->dim, tile, aligned->dim, tile));
    }
    for (int i = 0; i < signature->require.count; i++) {
        const Dim *condition = signature->require.items[i].cond;
        push_check(e, signature, &checks, condition, arena_printf(context->arena, "@require(%s) does not hold", dim_text(e, condition)));
    }
    *count = checks.count;
    return array(e, &checks);
}

/* ---- code ---- */

static LLVMValueRef variant_values(Emitter *e, const Signature *signature, const int64_t *search) {
    Values values = {0};
    for (int i = 0; i < signature->symbolic.count; i++)
        vec_push(e->context->arena, &values, emit_int_const(e, 0));
    for (int i = 0; i < signature->search.count; i++)
        vec_push(e->context->arena, &values, emit_int_const(e, search[i]));
    return array(e, &values);
}

static LLVMValueRef variant_record(
    Emitter *e, const ClusterKernel *kernel, const LeafVariant *variant, const CodegenOptions *options, const LeafCode *code) {
    const Signature *signature = &kernel->kernel->signature;
    Values levels = {0};
    for (int i = 0; i < options->level_count; i++) {
        Values functions = {&code->functions[i * kernel->stages.count], kernel->stages.count, kernel->stages.count};
        vec_push(e->context->arena, &levels, RECORD(e, PhbCpuCode, string(e, options->levels[i]), array(e, &functions)));
    }
    return RECORD(e, PhbVariant, variant_values(e, signature, variant->values), emit_int_const(e, code->scratch), array(e, &levels),
        int32(e, levels.count), int32(e, 0), null_pointer(e), null_pointer(e), null_pointer(e));
}

static LLVMValueRef arrays_table(Emitter *e, const IrOps *arrays) {
    Values table = {0};
    for (int i = 0; i < arrays->count; i++) {
        const IrOp *op = arrays->items[i];
        const Type *type = op->results.items[0]->type;
        LLVMValueRef extents[3];
        for (int axis = 0; axis < 3; axis++)
            extents[axis] = int32(e, axis < type->rank ? (int)tile_extent(type, axis) : 1);
        vec_push(e->context->arena, &table,
            RECORD(e, PhbSharedArray, string(e, op->name), int32(e, (int)type->scalar), int32(e, type->rank), LLVMConstArray2(e->i32, extents, 3),
                int32(e, (int)op->shared_at), int32(e, (int)layout_pitch(type))));
    }
    return array(e, &table);
}

static LLVMValueRef maps_table(Emitter *e, const GpuStage *stage) {
    Values maps = {0};
    for (int i = 0; i < stage->map_count; i++) {
        const PhbTensorMap *map = &stage->maps[i];
        vec_push(e->context->arena, &maps,
            RECORD(e, PhbTensorMap, int32(e, map->tensor), int32(e, map->row_axis), int32(e, map->rows), int32(e, map->columns),
                int32(e, map->swizzle), int32(e, map->planes)));
    }
    return array(e, &maps);
}

static LLVMValueRef stage_record(Emitter *e, const GpuStage *stage, LLVMValueRef run, const IrOps *arrays) {
    return RECORD(e, PhbThreadStage, string(e, stage->entry), run, int32(e, stage->threads), int32(e, (int)stage->shared), arrays_table(e, arrays),
        int32(e, arrays->count), maps_table(e, stage), int32(e, stage->map_count), int32(e, stage->stays));
}

static LLVMValueRef gpu_record(Emitter *e, const ClusterKernel *kernel, const GpuImage *image) {
    Values stages = {0};
    for (int s = 0; s < kernel->stages.count + image->has_planes; s++) {
        const GpuStage *stage = &image->stages[s];
        const IrOps none = {0};
        vec_push(e->context->arena, &stages, stage_record(e, stage, null_pointer(e), &none));
    }
    LLVMValueRef text = private_global(e, LLVMConstStringInContext2(e->llvm, image->text, (size_t)image->size, true));
    return RECORD(e, PhbGpuCode, int32(e, image->arch), int32(e, image->specific), int32(e, image->machine_code), int32(e, 0), text,
        emit_int_const(e, image->size), array(e, &stages));
}

/* The simulator's code; NULL where the variant has none. */
static LLVMValueRef simulator_stages(Emitter *e, const ClusterKernel *kernel, int number) {
    const GpuVariant *variant = &kernel->gpu_variants.items[number];
    Values stages = {0};
    for (int s = 0; variant->threads && s < kernel->stages.count + (variant->pass != NULL); s++) {
        const char *name = simulator_name(e->context, kernel, number, s);
        LLVMValueRef run = find_function(e, name);
        const IrKernel *threads = s < kernel->stages.count ? variant->threads[s] : variant->pass;
        IrOps arrays = ir_shared_arrays(e->context, threads);
        GpuStage stage = {.entry = threads->signature.name, .threads = threads->threads, .shared = threads->shared_bytes, .stays = layout_stays(threads)};
        stage.maps = simt_maps(e->context, threads, &stage.map_count);
        vec_push(e->context->arena, &stages, stage_record(e, &stage, run, &arrays));
    }
    return array(e, &stages);
}

static LLVMValueRef planes_table(Emitter *e, const ClusterKernel *kernel, const GpuVariant *variant) {
    Values planes = {0};
    for (int t = 0; variant->planes && t < kernel->tensors.count; t++)
        vec_push(e->context->arena, &planes, LLVMConstInt(e->i8, variant->planes[t] ? PHB_PLANES : 0, false));
    return array(e, &planes);
}

static LLVMValueRef gpu_variant_record(Emitter *e, const ClusterKernel *kernel, int number) {
    const GpuVariant *variant = &kernel->gpu_variants.items[number];
    Values images = {0};
    for (int i = 0; i < variant->images.count; i++)
        vec_push(e->context->arena, &images, gpu_record(e, kernel, &variant->images.items[i]));
    return RECORD(e, PhbVariant, variant_values(e, &kernel->kernel->signature, variant->values), emit_int_const(e, 0), null_pointer(e), int32(e, 0),
        int32(e, images.count), array(e, &images), simulator_stages(e, kernel, number), planes_table(e, kernel, variant));
}

/* ---- how a unit of work runs ---- */

static LLVMValueRef loops_table(Emitter *e, const ClusterKernel *kernel) {
    const Signature *signature = &kernel->kernel->signature;
    Values loops = {0};
    for (int i = 0; i < kernel->loops.count; i++) {
        const ClusterSplit *loop = &kernel->loops.items[i];
        vec_push(
            e->context->arena, &loops, RECORD(e, PhbLoop, int32(e, dim_index(signature, loop->dim->name)), expression(e, signature, loop->extent)));
    }
    return array(e, &loops);
}

static LLVMValueRef states_table(Emitter *e, const ClusterKernel *kernel) {
    Values states = {0};
    for (int i = 0; i < kernel->states.count; i++) {
        const ClusterState *state = &kernel->states.items[i];
        int rank = state->type->rank;
        LLVMValueRef extents[2];
        for (int k = 0; k < 2; k++) {
            int axis = k - 2 + rank;
            extents[k] = axis < 0 || state->type->kind == TYPE_TENSOR ? number(e, 1) : expression(e, &kernel->kernel->signature, state->type->dims[axis]);
        }
        vec_push(e->context->arena, &states, RECORD(e, PhbState, string(e, state->name), int32(e, (int)state->type->scalar), extents[0], extents[1], int32(e, state->partial_of + 1)));
    }
    return array(e, &states);
}

static LLVMValueRef stages_table(Emitter *e, const ClusterKernel *kernel) {
    Values stages = {0};
    for (int i = 0; i < kernel->stages.count; i++) {
        const ClusterStage *stage = &kernel->stages.items[i];
        Values modes = {0};
        for (int k = 0; k < kernel->tensors.count + kernel->states.count; k++)
            vec_push(e->context->arena, &modes, LLVMConstInt(e->i8, (unsigned long long)stage->modes[k], true));
        vec_push(e->context->arena, &stages, RECORD(e, PhbStage, int32(e, stage->loop), array(e, &modes), int32(e, stage->clear), int32(e, stage->merge),
                                                  stage->whole ? string(e, stage->whole) : null_pointer(e)));
    }
    return array(e, &stages);
}

static LLVMValueRef kernel_record(Emitter *e, const char *file, const ClusterKernel *kernel, const CodegenOptions *options, const LeafCode *code) {
    const Signature *signature = &kernel->kernel->signature;
    LLVMValueRef grid[3];
    for (int axis = 0; axis < 3; axis++)
        grid[axis] = grid_record(e, kernel, axis);
    int64_t extents[3];
    cluster_extents(e->context, signature, kernel->variants.items[0].values, extents);
    LLVMValueRef cluster_dims[3] = {int32(e, (int)extents[0]), int32(e, (int)extents[1]), int32(e, (int)extents[2])};
    Values variants = {0};
    for (int i = 0; i < kernel->variants.count; i++)
        vec_push(e->context->arena, &variants, variant_record(e, kernel, &kernel->variants.items[i], options, &code[i]));
    for (int i = 0; i < kernel->gpu_variants.count; i++)
        if (kernel->gpu_variants.items[i].images.count || kernel->gpu_variants.items[i].threads)
            vec_push(e->context->arena, &variants, gpu_variant_record(e, kernel, i));
    int scalar_count, check_count;
    LLVMValueRef scalars = scalars_table(e, signature, &scalar_count);
    LLVMValueRef checks = leaf_checks(e, signature, &check_count);
    const char *source = arena_printf(e->context->arena, "%s:%u:%u", file, signature->span.line, signature->span.column);
    return RECORD(e, PhbKernel, string(e, signature->name), string(e, source), dims_table(e, kernel),
        int32(e, signature->symbolic.count + signature->search.count), tensors_table(e, kernel), int32(e, kernel->tensors.count), scalars,
        int32(e, scalar_count), LLVMConstArray2(LLVMTypeOf(grid[0]), grid, 3), loops_table(e, kernel), int32(e, kernel->loops.count),
        states_table(e, kernel), int32(e, kernel->states.count), stages_table(e, kernel), int32(e, kernel->stages.count - kernel->helper_count), int32(e, kernel->helper_count),
        LLVMConstArray2(e->i32, cluster_dims, 3), null_pointer(e), int32(e, 0), checks, int32(e, check_count), array(e, &variants),
        int32(e, variants.count));
}

void emit_program_table(Emitter *e, const ClusterProgram *program, const CodegenOptions *options, LeafCode *const *code) {
    Values kernels = {0};
    for (int i = 0; i < program->kernels.count; i++)
        vec_push(e->context->arena, &kernels, kernel_record(e, program->file, program->kernels.items[i], options, code[i]));
    LLVMValueRef id = LLVMConstStringInContext2(e->llvm, (const char *)options->build_id, sizeof options->build_id, true);
    LLVMValueRef value = RECORD(e, PhbProgram, int32(e, PHB_ABI_VERSION), id, string(e, program->file), string(e, options->compiler),
        array(e, &kernels), int32(e, kernels.count));
    LLVMValueRef global = LLVMAddGlobal(e->module, LLVMTypeOf(value), options->symbol);
    LLVMSetInitializer(global, value);
    LLVMSetGlobalConstant(global, true);
}
