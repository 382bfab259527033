/* The cluster program as text, for people: what each unit of work reads and writes, and what runs in it. */
#include "compiler/lower/split.h"

#include <inttypes.h>

static void print_values(Buffer *buffer, const char *name, const int64_t *values, int count) {
    buffer_printf(buffer, "%s in [", name);
    for (int i = 0; i < count; i++)
        buffer_printf(buffer, "%s%" PRId64, i ? ", " : "", values[i]);
    buffer_puts(buffer, "]");
}

static void print_super_tiles(Buffer *buffer, const ClusterKernel *kernel) {
    for (int axis = 0; axis < 3; axis++) {
        const ClusterSplit *grid = &kernel->grid[axis];
        if (!grid->dim)
            continue;
        buffer_printf(buffer, "    super-tiles %c: ceildiv(", 'x' + axis);
        dim_print(buffer, grid->extent);
        buffer_printf(buffer, ", %s), ", grid->dim->name);
        print_values(buffer, grid->dim->name, grid->dim->cluster.items, grid->dim->cluster.count);
        buffer_puts(buffer, "\n");
    }
}

static void print_loops(Buffer *buffer, const ClusterKernel *kernel) {
    for (int i = 0; i < kernel->loops.count; i++) {
        const ClusterSplit *loop = &kernel->loops.items[i];
        buffer_printf(buffer, "    chunks of loop %d: ceildiv(", i);
        dim_print(buffer, loop->extent);
        buffer_printf(buffer, ", %s), ", loop->dim->name);
        print_values(buffer, loop->dim->name, loop->dim->cluster.items, loop->dim->cluster.count);
        buffer_puts(buffer, "\n");
    }
}

static const char *mode_text(int mode) {
    static const char *const modes[] = {[PHB_READ] = "read", [PHB_WRITE] = "write", [PHB_READ_WRITE] = "read-write"};
    return modes[mode];
}

/* `read a: f32[ctx.super.x * BLOCK :+ BLOCK, 0 :+ M]` */
void cluster_print_tensor(Buffer *buffer, const ClusterKernel *kernel, const ClusterTensor *tensor) {
    const Param *param = &kernel->kernel->signature.params.items[tensor->param];
    buffer_printf(buffer, "    %s %s: %s[", mode_text((int)tensor->mode), param->name, dtype_name(param->type->scalar));
    for (int k = 0; k < param->type->rank; k++) {
        buffer_puts(buffer, k ? ", " : "");
        int index = tensor->axes[k].index;
        if (tensor->axes[k].kind == PHB_AXIS_GRID) {
            const char *step = kernel->grid[index].dim->name;
            buffer_printf(buffer, "%s * %s :+ %s", super_names[index], step, step);
        } else if (tensor->axes[k].kind == PHB_AXIS_LOOP) {
            const char *step = kernel->loops.items[index].dim->name;
            buffer_printf(buffer, "chunk %d * %s :+ %s", index, step, step);
        } else {
            buffer_puts(buffer, "0 :+ ");
            dim_print(buffer, param->type->dims[k]);
        }
        if (tensor->axes[k].halo) {
            buffer_puts(buffer, " halo ");
            dim_print(buffer, tensor->axes[k].halo);
        }
    }
    buffer_puts(buffer, "]\n");
}

static void print_operand(Buffer *buffer, const ClusterKernel *kernel, int operand) {
    if (operand < kernel->tensors.count)
        buffer_puts(buffer, kernel->kernel->signature.params.items[kernel->tensors.items[operand].param].name);
    else
        buffer_printf(buffer, "state %d", operand - kernel->tensors.count);
}

static void print_states(Buffer *buffer, const ClusterKernel *kernel) {
    for (int i = 0; i < kernel->states.count; i++) {
        buffer_printf(buffer, "    state %d: ", i);
        type_print(buffer, kernel->states.items[i].type);
        if (kernel->states.items[i].partial_of < 0) {
            buffer_puts(buffer, " a CTA\n");
        } else {
            buffer_puts(buffer, ", ");
            print_operand(buffer, kernel, kernel->states.items[i].partial_of);
            buffer_puts(buffer, " in parts\n");
        }
    }
}

/* `stage 1, each chunk of loop 0: read a, read-write c, read-write state 0` */
static void print_stages(Buffer *buffer, const ClusterKernel *kernel) {
    for (int i = 0; kernel->loops.count > 0 && i < kernel->stages.count; i++) {
        const ClusterStage *stage = &kernel->stages.items[i];
        bool is_helper = i >= kernel->stages.count - kernel->helper_count;
        buffer_printf(buffer, is_helper ? "    helper %d:" : stage->loop < 0 ? "    stage %d, once:" : "    stage %d, each chunk of loop %d:", i, stage->loop);
        const char *separator = " ";
        for (int k = 0; k < kernel->tensors.count + kernel->states.count; k++) {
            if (stage->modes[k] == PHB_UNUSED)
                continue;
            buffer_printf(buffer, "%s%s ", separator, mode_text(stage->modes[k]));
            print_operand(buffer, kernel, k);
            separator = ", ";
        }
        if (stage->merge)
            buffer_printf(buffer, "; in parts by %d and %d", stage->clear, stage->merge);
        else if (stage->whole)
            buffer_printf(buffer, "; whole: %s", stage->whole);
        buffer_puts(buffer, "\n");
    }
}

static void print_leaf(Buffer *buffer, const ClusterKernel *kernel) {
    const Signature *signature = &kernel->kernel->signature;
    buffer_puts(buffer, "    leaf grid (");
    for (int axis = 0; axis < 3; axis++) {
        const GridAxis *grid = &signature->grid[axis];
        buffer_puts(buffer, axis ? ", " : "");
        if (grid->counts.count == 0)
            buffer_puts(buffer, "1");
        for (int i = 0; i < grid->counts.count; i++) {
            buffer_puts(buffer, i ? " = " : "");
            dim_print(buffer, grid->counts.items[i]);
        }
    }
    buffer_puts(buffer, ")\n");
    for (int i = 0; i < signature->search.count; i++) {
        const SearchDim *dim = &signature->search.items[i];
        buffer_puts(buffer, "    leaf ");
        print_values(buffer, dim->name, dim->leaf.items, dim->leaf.count);
        buffer_puts(buffer, "\n");
    }
    for (int i = 0; i < kernel->variants.count; i++) {
        buffer_puts(buffer, "    variant");
        for (int j = 0; j < signature->search.count; j++)
            buffer_printf(buffer, "%s %s = %" PRId64, j ? "," : "", signature->search.items[j].name, kernel->variants.items[i].values[j]);
        buffer_puts(buffer, "\n");
    }
}

void cluster_print_kernel(Buffer *buffer, const ClusterKernel *kernel) {
    buffer_printf(buffer, "kernel %s%s\n", kernel->kernel->signature.name, kernel->kernel->signature.has_cluster ? "" : ": one unit of work");
    print_super_tiles(buffer, kernel);
    print_loops(buffer, kernel);
    for (int j = 0; j < kernel->tensors.count; j++)
        cluster_print_tensor(buffer, kernel, &kernel->tensors.items[j]);
    print_states(buffer, kernel);
    print_stages(buffer, kernel);
    print_leaf(buffer, kernel);
}

void cluster_print(Buffer *buffer, const ClusterProgram *program) {
    buffer_printf(buffer, "cluster program of \"%s\"\n", program->file);
    for (int i = 0; i < program->kernels.count; i++) {
        buffer_puts(buffer, "\n");
        cluster_print_kernel(buffer, program->kernels.items[i]);
    }
}
