/* The text form, version 1, of which `ir_read` gives the same module back:
 *
 *     phobos-ir 1
 *     file "add.phb"
 *
 *     kernel add !2:8+3
 *         cluster !1:1+8
 *         dim N
 *         search BLOCK leaf [16, 32] cluster [1024] !1:32+5 !1:10+5
 *         param c: tensor<f32>[N] !2:12+1
 *         grid x ceildiv(extent(c, 0), BLOCK) !4:5+14
 *     {
 *         %0 = ctx.block.x : i64 !3:13+11
 *         ...
 *     }
 *
 * One declaration or op a line. `!line:column+length` is a position in the .phb source, left out where there is none; parameters print as their
 * names, other values as numbers in order. Regions follow their op's line, each announced by a word and its arguments:
 *
 *         %4 = for %0, %1, %2, %3 unroll 4 : f32 !5:5+3
 *         do %5: i64, %6: f32 {
 *             %7 = add %6, %x : f32
 *             yield %7
 *         }
 *
 * At the memory level the signature says `threads`, with the bytes of a CTA's shared memory, types of tiles have layouts, and ` at 0+1024` says which bytes
 * of shared memory an op takes. */
#include "compiler/ir/ir.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void print_span(Buffer *buffer, Span span) {
    if (span.line)
        buffer_printf(buffer, " !%u:%u+%u", span.line, span.column, span.length);
}

static void print_value(Buffer *buffer, const IrValue *value) {
    if (value->name)
        buffer_printf(buffer, "%%%s", value->name);
    else
        buffer_printf(buffer, "%%%d", value->id);
}

/* The fewest digits that read back to the same bits; NaNs other than the default one as bits. */
static void print_float(Buffer *buffer, PhbDType dtype, uint64_t bits) {
    double value = bits_to_double(dtype, bits);
    if (isnan(value)) {
        if (bits == bits_from_double(dtype, (double)NAN))
            buffer_puts(buffer, "nan");
        else
            buffer_printf(buffer, "0x%" PRIx64, bits);
        return;
    }
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (bits_from_double(dtype, strtod(text, NULL)) == bits)
            break;
    }
    buffer_puts(buffer, text);
    if (!strpbrk(text, ".en"))
        buffer_puts(buffer, ".0");
}

static void print_const(Buffer *buffer, const IrOp *op) {
    const Type *type = op->results.count == 1 ? op->results.items[0]->type : NULL;
    if (!type || type->kind != TYPE_SCALAR || op->bits != bits_from_int(type->scalar, op->bits))
        buffer_printf(buffer, "0x%" PRIx64, op->bits);
    else if (dtype_is_float(type->scalar))
        print_float(buffer, type->scalar, op->bits);
    else if (type->scalar == PHB_BOOL)
        buffer_puts(buffer, op->bits ? "true" : "false");
    else if (dtype_is_signed(type->scalar)) {
        int unused = 64 - dtype_bits(type->scalar);
        buffer_printf(buffer, "%" PRId64, (int64_t)(op->bits << unused) >> unused);
    } else
        buffer_printf(buffer, "%" PRIu64, op->bits);
}

/* `%a[%5 :+ BLOCK, %6]`, and ` = %7, %8` for the values that are stored; before it `once` where it is. */
static void print_slice(Buffer *buffer, const IrOp *op, int rank) {
    buffer_puts(buffer, op->once ? " once " : " ");
    print_value(buffer, op->operands.items[0]);
    buffer_puts(buffer, "[");
    for (int i = 0; i < rank; i++) {
        if (i > 0)
            buffer_puts(buffer, ", ");
        print_value(buffer, op->operands.items[1 + i]);
        if (op->extent[i]) {
            buffer_puts(buffer, " :+ ");
            dim_print(buffer, op->extent[i]);
        }
    }
    buffer_puts(buffer, "]");
    for (int i = 1 + rank; i < op->operands.count; i++) {
        buffer_puts(buffer, i > 1 + rank ? ", " : " = ");
        print_value(buffer, op->operands.items[i]);
    }
}

/* Bytes outside printable ASCII, quotes and backslashes as \xNN. */
static void print_string(Buffer *buffer, const char *text) {
    buffer_puts(buffer, "\"");
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        if (*at >= 0x80 || !isprint(*at) || *at == '"' || *at == '\\')
            buffer_printf(buffer, "\\x%02x", *at);
        else
            buffer_append(buffer, (const char *)at, 1);
    }
    buffer_puts(buffer, "\"");
}

static void print_operands(Buffer *buffer, const IrOp *op) {
    for (int i = 0; i < op->operands.count; i++) {
        buffer_puts(buffer, i > 0 ? ", " : " ");
        print_value(buffer, op->operands.items[i]);
    }
}

void ir_print_op(Buffer *buffer, const IrOp *op) {
    const OpInfo *info = &op_info[op->kind];
    for (int i = 0; i < op->results.count; i++) {
        buffer_puts(buffer, i > 0 ? ", " : "");
        print_value(buffer, op->results.items[i]);
    }
    if (op->results.count > 0)
        buffer_puts(buffer, " = ");
    buffer_puts(buffer, info->text);
    int rank = op->operands.count - 1 - ir_values_stored(op->kind);
    bool names_axis = (info->attr == ATTR_AXIS || info->attr == ATTR_AXIS_OR_ALL) && info->operands == 0;
    if (info->attr == ATTR_SLICE && rank >= 1 && rank <= PHB_MAX_RANK) {
        print_slice(buffer, op, rank);
    } else if (names_axis && op->axis >= 0 && op->axis <= 2) {
        buffer_printf(buffer, ".%c", "xyz"[op->axis]);
    } else {
        print_operands(buffer, op);
        if (info->attr == ATTR_AXIS || (info->attr == ATTR_AXIS_OR_ALL && op->axis != -1))
            buffer_printf(buffer, "%s %d", op->operands.count ? "," : "", op->axis);
    }
    if (info->attr == ATTR_NAME && op->name) {
        buffer_puts(buffer, " ");
        print_string(buffer, op->name);
    }
    if (info->attr == ATTR_CONST) {
        buffer_puts(buffer, " ");
        print_const(buffer, op);
    } else if ((info->attr == ATTR_DIM || info->attr == ATTR_UNROLL) && op->dim) {
        buffer_puts(buffer, info->attr == ATTR_UNROLL ? " unroll " : op->operands.count ? ", " : " ");
        dim_print(buffer, op->dim);
    }
    if (op->shared_bytes)
        buffer_printf(buffer, " at %" PRId64 "+%" PRId64, op->shared_at, op->shared_bytes);
    for (int i = 0; i < op->results.count; i++) {
        buffer_puts(buffer, i > 0 ? ", " : " : ");
        type_print(buffer, op->results.items[i]->type);
    }
    print_span(buffer, op->span);
}

static void print_indent(Buffer *buffer, int depth) {
    for (int i = 0; i < depth; i++)
        buffer_puts(buffer, "    ");
}

static void print_block(Buffer *buffer, const IrBlock *block, int depth) {
    for (const IrOp *op = block->first; op; op = op->next) {
        print_indent(buffer, depth);
        ir_print_op(buffer, op);
        buffer_puts(buffer, "\n");
        for (int i = 0; i < op->regions.count; i++) {
            const IrBlock *region = op->regions.items[i];
            print_indent(buffer, depth);
            buffer_puts(buffer, ir_region_word(op->kind, i));
            for (int j = 0; j < region->args.count; j++) {
                buffer_puts(buffer, j > 0 ? ", " : " ");
                print_value(buffer, region->args.items[j]);
                buffer_puts(buffer, ": ");
                type_print(buffer, region->args.items[j]->type);
            }
            buffer_puts(buffer, " {\n");
            print_block(buffer, region, depth + 1);
            print_indent(buffer, depth);
            buffer_puts(buffer, "}\n");
        }
    }
}

static void print_set(Buffer *buffer, const int64_t *values, int count) {
    for (int i = 0; i < count; i++)
        buffer_printf(buffer, "%s%" PRId64, i > 0 ? ", " : "[", values[i]);
    buffer_puts(buffer, count > 0 ? "]" : "[]");
}

static void print_search(Buffer *buffer, const SearchDim *search) {
    buffer_printf(buffer, "    search %s leaf ", search->name);
    print_set(buffer, search->leaf.items, search->leaf.count);
    if (search->cluster.count > 0) {
        buffer_puts(buffer, " cluster ");
        print_set(buffer, search->cluster.items, search->cluster.count);
    }
    print_span(buffer, search->span);
    if (search->cluster.count > 0)
        print_span(buffer, search->cluster_span);
    buffer_puts(buffer, "\n");
}

static void print_grid(Buffer *buffer, char axis, const GridAxis *grid) {
    if (grid->stated)
        buffer_printf(buffer, "    grid %c stated\n", axis);
    for (int i = 0; i < grid->counts.count; i++) {
        buffer_printf(buffer, "    grid %c ", axis);
        dim_print(buffer, grid->counts.items[i]);
        print_span(buffer, i < grid->spans.count ? grid->spans.items[i] : (Span){0});
        buffer_puts(buffer, "\n");
    }
}

static void print_cluster_dims(Buffer *buffer, const Signature *signature) {
    if (!signature->cluster_dims[0])
        return;
    buffer_puts(buffer, "    cluster_dims ");
    for (int i = 0; i < 3; i++) {
        buffer_puts(buffer, i > 0 ? ", " : "");
        dim_print(buffer, signature->cluster_dims[i]);
    }
    buffer_puts(buffer, signature->nonportable ? " nonportable" : "");
    print_span(buffer, signature->cluster_dims_span);
    buffer_puts(buffer, "\n");
}

static void print_halo(Buffer *buffer, const Signature *signature, const Halo *halo) {
    const Param *param = &signature->params.items[halo->param];
    buffer_printf(buffer, "    halo %s [", param->name);
    for (int k = 0; k < param->type->rank; k++) {
        buffer_puts(buffer, k > 0 ? ", " : "");
        dim_print(buffer, halo->width[k]);
    }
    buffer_puts(buffer, "]");
    print_span(buffer, halo->span);
    buffer_puts(buffer, "\n");
}

static void print_signature(Buffer *buffer, const IrKernel *kernel) {
    const Signature *signature = &kernel->signature;
    buffer_printf(buffer, "\nkernel %s", signature->name);
    print_span(buffer, signature->span);
    buffer_puts(buffer, "\n");
    if (signature->has_cluster) {
        buffer_puts(buffer, "    cluster");
        print_span(buffer, signature->cluster_span);
        buffer_puts(buffer, "\n");
    }
    if (signature->fastmath)
        buffer_puts(buffer, "    fastmath\n");
    if (signature->tensorcore)
        buffer_printf(buffer, "    tensorcore %s\n", tensorcore_name(signature->tensorcore));
    if (signature->pipeline) {
        buffer_puts(buffer, "    pipeline ");
        dim_print(buffer, signature->pipeline);
        print_span(buffer, signature->pipeline_span);
        buffer_puts(buffer, "\n");
    }
    if (signature->launch_threads || signature->launch_min_blocks || signature->launch_max_regs)
        buffer_printf(buffer, "    launch %" PRId64 ", %" PRId64 ", %" PRId64 "\n", signature->launch_threads, signature->launch_min_blocks,
            signature->launch_max_regs);
    print_cluster_dims(buffer, signature);
    if (kernel->threads)
        buffer_printf(buffer, "    threads %d, %" PRId64 "\n", kernel->threads, kernel->shared_bytes);
    for (int i = 0; i < signature->symbolic.count; i++)
        buffer_printf(buffer, "    dim %s\n", signature->symbolic.items[i]);
    for (int i = 0; i < signature->search.count; i++)
        print_search(buffer, &signature->search.items[i]);
    for (int i = 0; i < signature->params.count; i++) {
        const Param *param = &signature->params.items[i];
        buffer_printf(buffer, "    param %s: ", param->name);
        type_print(buffer, param->type);
        print_span(buffer, param->span);
        buffer_puts(buffer, "\n");
    }
    for (int i = 0; i < 3; i++)
        print_grid(buffer, "xyz"[i], &signature -> grid[i]);
    for (int i = 0; i < signature->aligned.count; i++) {
        const Aligned *aligned = &signature->aligned.items[i];
        buffer_printf(buffer, "    aligned %s = ", aligned->dim);
        dim_print(buffer, aligned->tile);
        print_span(buffer, aligned->span);
        buffer_puts(buffer, "\n");
    }
    for (int i = 0; i < signature->halo.count; i++)
        print_halo(buffer, signature, &signature->halo.items[i]);
    for (int i = 0; i < signature->require.count; i++) {
        buffer_puts(buffer, "    require ");
        dim_print(buffer, signature->require.items[i].cond);
        print_span(buffer, signature->require.items[i].span);
        buffer_puts(buffer, "\n");
    }
}

void ir_print(Buffer *buffer, IrModule *module) {
    buffer_puts(buffer, "phobos-ir 1\nfile ");
    print_string(buffer, module->file);
    buffer_puts(buffer, "\n");
    for (int i = 0; i < module->kernels.count; i++) {
        IrKernel *kernel = module->kernels.items[i];
        ir_number(kernel);
        print_signature(buffer, kernel);
        buffer_puts(buffer, "{\n");
        print_block(buffer, kernel->body, 1);
        buffer_puts(buffer, "}\n");
    }
}
