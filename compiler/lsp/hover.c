/* What the editor shows of a name: type and shape, how it varies between threads, and both readings. */
#include "compiler/lsp/lsp.h"

#include <inttypes.h>
#include <string.h>

static const char *variance_text(Variance variance) {
    static const char *const texts[] = {
        [CLUSTER_UNIFORM] = "the same in all CTAs of a thread-block cluster",
        [UNIFORM] = "the same in all threads of a CTA",
        [WARP_UNIFORM] = "the same in all lanes of a warp",
        [PER_LANE] = "may differ from lane to lane",
    };
    return texts[variance];
}

static void begin_code(Buffer *out) {
    buffer_puts(out, "```phobos\n");
}

static void end_code(Buffer *out) {
    buffer_puts(out, "\n```\n");
}

static void print_typed(Buffer *out, const char *keyword, const char *name, const Type *type) {
    begin_code(out);
    buffer_printf(out, "%s%s: ", keyword, name);
    type_print(out, type);
    end_code(out);
}

static void print_values(Buffer *out, const int64_t *values, int count) {
    for (int i = 0; i < count; i++)
        buffer_printf(out, "%s%" PRId64, i ? ", " : "", values[i]);
}

/* ---- symbols ---- */

static void print_symbol(Buffer *out, const Symbol *symbol) {
    const char *keyword = symbol->kind == SYMBOL_LET ? "let " : symbol->kind == SYMBOL_VAR ? "var " : symbol->kind == SYMBOL_LOOP ? "for " : "";
    print_typed(out, keyword, symbol->name, symbol->type);
    if (symbol->type->kind == TYPE_TILE)
        buffer_puts(out, "A value of the whole CTA.\n");
    else if (symbol->type->kind == TYPE_SHARED)
        buffer_puts(out, "Shared memory of the CTA, undefined until it is written.\n");
    else if (symbol->type->kind == TYPE_SCALAR)
        buffer_printf(out, "Uniformity: %s.\n", variance_text(symbol->variance));
    if (symbol->kind == SYMBOL_VAR && symbol->assigned_again)
        buffer_puts(out, "\nAssigned more than once.\n");
}

static void print_param(Document *document, const Found *found, Buffer *out) {
    const Signature *signature = &found->kernel->signature;
    int index = signature_param(signature, found->name);
    const Param *param = &signature->params.items[index];
    print_typed(out, "", param->name, param->type);
    if (param->type->kind != TYPE_TENSOR) {
        buffer_printf(out, "Uniformity: %s.\n", variance_text(CLUSTER_UNIFORM));
        return;
    }
    const ClusterKernel *kernel = document_split(document, found->kernel);
    for (int t = 0; kernel && t < kernel->tensors.count; t++) {
        if (kernel->tensors.items[t].param != index)
            continue;
        buffer_puts(out, "A unit of work on a cluster:\n");
        begin_code(out);
        cluster_print_tensor(out, kernel, &kernel->tensors.items[t]);
        end_code(out);
    }
}

static void print_search_dim(Buffer *out, const SearchDim *dim) {
    begin_code(out);
    buffer_printf(out, "%s: i64", dim->name);
    end_code(out);
    buffer_puts(out, "On a node, what a CTA owns: ");
    print_values(out, dim->leaf.items, dim->leaf.count);
    if (dim->cluster.count) {
        buffer_puts(out, ".\n\nOn a cluster, what a node owns: ");
        print_values(out, dim->cluster.items, dim->cluster.count);
        buffer_puts(out, ".\n");
    } else {
        buffer_puts(out, ".\n\nNot split on a cluster.\n");
    }
}

/* ---- builtins ---- */

/* What the columns of builtins.def mean to a reader. */
static const char *operand_text(const char *column) {
    static const char *const texts[][2] = {
        {"FLOAT", "floats"}, {"NUMBER", "numbers"}, {"INT", "integers"}, {"BOOL", "bool"}, {"ANY", "any element type"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(texts[i][0], column) == 0)
            return texts[i][1];
    return NULL;
}

static const char *result_text(const char *column) {
    static const char *const texts[][2] = {
        {"ELEMENT", "Element by element; shapes broadcast."},
        {"ROW", "Over the last axis, to [R, 1]."},
        {"ROW_SUM", "Over the last axis, to [R, 1]."},
        {"ROW_INDEX", "Over the last axis, to [R, 1]: an i32, the first index on ties."},
        {"COL", "Over the first axis, to [1, C]."},
        {"COL_SUM", "Over the first axis, to [1, C]."},
        {"TOTAL", "Over all elements, to a scalar."},
        {"TOTAL_SUM", "Over all elements, to a scalar."},
        {"DOT", "A product of matrices; each element is one chain of fma in ascending k."},
        {"THREADS", "Over threads, each with its scalar; one order, the same bits every time."},
        {"THREADS_SUM", "Over threads, each with its scalar; one order, the same bits every time."},
        {"SYNC", "Orders threads."},
        {"CUMSUM", "Running sums down axis 0."},
        {"TRIANGLE", "One triangle of a matrix, the rest 0."},
        {"TRANSPOSE", "Rows become columns."},
        {"IOTA", "0, 1, 2, ... as i32."},
        {"RESHAPE", "The same elements in another shape."},
        {"WHERE", "where(c, a, b): a where c holds, else b; both are evaluated."},
        {"BITCAST", "bitcast(x, T): the same bits as another type of that width."},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(texts[i][0], column) == 0)
            return texts[i][1];
    return NULL;
}

static void print_builtin(Buffer *out, Builtin builtin) {
    static const struct {
        const char *operands, *result;
    } rows[] = {
        {NULL, NULL},
#define BUILTIN(id, text, least, most, operands, result) {#operands, #result},
#include "compiler/sema/builtins.def"
#undef BUILTIN
    };
    const char *result = result_text(rows[builtin].result), *operands = operand_text(rows[builtin].operands);
    if (result)
        buffer_printf(out, "%s\n", result);
    if (operands)
        buffer_printf(out, "%sOperands: %s.\n", result ? "\n" : "", operands);
}

/* A place in the grid reads as two things. */
static void print_position(const CheckedKernel *kernel, const Expr *expr, Buffer *out) {
    switch (expr->builtin) {
    case BUILTIN_CTX_BLOCK:
    case BUILTIN_PROGRAM_ID: {
        int axis = expr->builtin == BUILTIN_CTX_BLOCK && expr->text ? expr->text[0] - 'x' : 0;
        buffer_puts(out, "On a node: this CTA in the leaf's grid");
        if (kernel && axis >= 0 && axis < 3 && kernel->signature.grid[axis].counts.count) {
            buffer_puts(out, ", less than `");
            dim_print(out, kernel->signature.grid[axis].counts.items[0]);
            buffer_puts(out, "`");
        }
        buffer_puts(out, ".\n\nOn a cluster: this super-tile, one unit of work.\n");
        break;
    }
    case BUILTIN_CTX_GRID:
        buffer_puts(out, "CTAs of the leaf's grid along this axis.\n");
        break;
    case BUILTIN_CTX_SUPER:
        buffer_puts(out, "This super-tile in the whole problem; 0 on one node.\n");
        break;
    case BUILTIN_CTX_SUPERS:
        buffer_puts(out, "How many super-tiles there are; 1 on one node.\n");
        break;
    case BUILTIN_EXTENT:
        buffer_puts(out, "On a node: the tensor's extent along the axis.\n\nOn a cluster: what the unit of work owns of it.\n");
        break;
    case BUILTIN_ORIGIN:
        buffer_puts(out, "On a node: 0.\n\nOn a cluster: where the unit's part starts in the whole tensor.\n");
        break;
    case BUILTIN_WHOLE:
        buffer_puts(out, "The whole tensor's extent along the axis, in both readings.\n");
        break;
    default:
        print_builtin(out, (Builtin)expr->builtin);
        break;
    }
}

static void print_value(const Found *found, Buffer *out) {
    const Expr *expr = found->expr;
    begin_code(out);
    if (expr->kind == EXPR_CALL || expr->kind == EXPR_FIELD)
        expr_print(out, expr);
    else
        buffer_puts(out, expr->kind == EXPR_BINARY ? binary_op_text(expr->binary) : "unary");
    if (expr->type && expr->type->kind != TYPE_VOID) {
        buffer_puts(out, ": ");
        type_print(out, expr->type);
    }
    end_code(out);
    if (expr->builtin)
        print_position(found->kernel, expr, out);
}

static void print_decl(Document *document, const Found *found, Buffer *out) {
    const Decl *decl = found->decl;
    begin_code(out);
    buffer_printf(out, "%s %s(", decl->is_kernel ? "kernel" : "fn", decl->name);
    for (int i = 0; i < decl->params.count; i++) {
        buffer_printf(out, "%s%s", i ? ", " : "", decl->params.items[i].name);
        if (decl->params.items[i].type) {
            buffer_puts(out, ": ");
            type_expr_print(out, decl->params.items[i].type);
        }
    }
    buffer_puts(out, ")");
    if (decl->result) {
        buffer_puts(out, " -> ");
        type_expr_print(out, decl->result);
    }
    end_code(out);
    const ClusterKernel *kernel = decl->is_kernel && found->kernel ? document_split(document, found->kernel) : NULL;
    if (!kernel)
        return;
    buffer_puts(out, "Both readings:\n");
    begin_code(out);
    cluster_print_kernel(out, kernel);
    end_code(out);
}

bool hover_print(Document *document, const Found *found, Buffer *out) {
    switch (found->kind) {
    case FOUND_NOTHING:
        return false;
    case FOUND_EXPR:
        print_value(found, out);
        return true;
    case FOUND_SYMBOL:
        print_symbol(out, found->symbol);
        return true;
    case FOUND_PARAM:
        print_param(document, found, out);
        return true;
    case FOUND_DIM:
        begin_code(out);
        buffer_printf(out, "%s: i64", found->name);
        end_code(out);
        buffer_puts(out, "A dim, bound when a job starts: the same extent wherever the name stands.\n");
        return true;
    case FOUND_SEARCH_DIM:
        print_search_dim(out, signature_search(&found->kernel->signature, found->name));
        return true;
    case FOUND_KERNEL:
    case FOUND_FN:
        print_decl(document, found, out);
        return true;
    }
    return false;
}
