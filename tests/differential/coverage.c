/* What the kernels that ran are made of. */
#include "tests/differential/differential.h"

#include <inttypes.h>
#include <string.h>

static void cover_block(Coverage *coverage, const Block *block);

static void cover_slice(Coverage *coverage, const Expr *expr);

static void cover_expr(Coverage *coverage, const Expr *expr) {
    if (!expr || !expr->type)
        return;
    switch (expr->kind) {
    case EXPR_UNARY:
        coverage->unary[expr->unary][expr->type->scalar]++;
        cover_expr(coverage, expr->left);
        break;
    case EXPR_BINARY:
        coverage->binary[expr->binary][expr->left->type->scalar]++;
        cover_expr(coverage, expr->left);
        cover_expr(coverage, expr->right);
        break;
    case EXPR_CALL:
        coverage->builtin[expr->builtin]++;
        if (expr->builtin == BUILTIN_CONVERT)
            coverage->convert[expr->args.items[0]->type->scalar][expr->type->scalar]++;
        for (int i = 0; i < expr->args.count; i++)
            cover_expr(coverage, expr->args.items[i]);
        break;
    case EXPR_CONVERT:
        coverage->convert[expr->left->type->scalar][expr->type->scalar]++;
        cover_expr(coverage, expr->left);
        break;
    case EXPR_INDEX:
        cover_slice(coverage, expr);
        break;
    case EXPR_FIELD:
        coverage->builtin[expr->builtin]++;
        break;
    case EXPR_INLINE:
        coverage->inlined++;
        cover_block(coverage, &expr->inlined->params);
        cover_block(coverage, &expr->inlined->body);
        break;
    default:
        break;
    }
}

static void cover_slice(Coverage *coverage, const Expr *expr) {
    coverage->slice_type[expr->type->scalar]++;
    for (int i = 0; i < expr->subs.count; i++) {
        coverage->sub[expr->subs.items[i].kind]++;
        cover_expr(coverage, expr->subs.items[i].a);
    }
}

static void cover_block(Coverage *coverage, const Block *block) {
    for (int i = 0; i < block->count; i++) {
        const Stmt *stmt = block->items[i];
        coverage->statement[stmt->kind]++;
        cover_expr(coverage, stmt->value);
        cover_expr(coverage, stmt->target);
        if (stmt->compound)
            coverage->binary[stmt->op][stmt->value->type->scalar]++;
        for (int k = 0; k < stmt->range.count; k++)
            cover_expr(coverage, stmt->range.items[k]);
        cover_block(coverage, &stmt->body);
        cover_block(coverage, &stmt->otherwise);
    }
}

void coverage_add(Coverage *coverage, const CheckedKernel *kernel) {
    cover_block(coverage, &kernel->decl->body);
}

/* ---- the table ---- */

typedef struct Table {
    FILE *out;
    int least, low;
} Table;

static void row(Table *table, int64_t count, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void row(Table *table, int64_t count, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (count < table->least) {
        table->low++;
        fputs("low: ", table->out);
        vfprintf(table->out, format, arguments);
        fprintf(table->out, " %" PRId64 "\n", count);
    }
    va_end(arguments);
}

static bool operator_takes(BinaryOp op, PhbDType type) {
    switch (op) {
    case BINARY_LOGIC_OR:
    case BINARY_LOGIC_AND:
        return type == PHB_BOOL;
    case BINARY_EQ:
    case BINARY_NE:
        return type != PHB_BOOL;
    case BINARY_OR:
    case BINARY_XOR:
    case BINARY_AND:
    case BINARY_SHL:
    case BINARY_SHR:
        return dtype_is_int(type);
    default:
        return type != PHB_BOOL;
    }
}

static int total(const int *counts, int count) {
    int sum = 0;
    for (int i = 0; i < count; i++)
        sum += counts[i];
    return sum;
}

static void print_matrix(FILE *out, const char *title, const int counts[][PHB_DTYPE_COUNT], int rows, const char *row_name(int)) {
    fprintf(out, "%-10s", title);
    for (int type = 0; type < PHB_DTYPE_COUNT; type++)
        fprintf(out, "%6s", dtype_name((PhbDType)type));
    fputc('\n', out);
    for (int i = 0; i < rows; i++) {
        fprintf(out, "%-10s", row_name(i));
        for (int type = 0; type < PHB_DTYPE_COUNT; type++)
            fprintf(out, "%6d", counts[i][type]);
        fputc('\n', out);
    }
}

static const char *unary_name(int op) {
    static const char *const names[] = {"-", "!", "~"};
    return names[op];
}

static const char *binary_name(int op) {
    return binary_op_text((BinaryOp)op);
}

static const char *type_name(int type) {
    return dtype_name((PhbDType)type);
}

static const char *statement_name(int kind) {
    static const char *const names[] = {"let", "var", "assign", "for", "while", "if", "break", "continue", "return", "call"};
    return names[kind];
}

int coverage_print(const Coverage *coverage, FILE *out, int least) {
    Table table = {out, least, 0};
    print_matrix(out, "unary", coverage->unary, 3, unary_name);
    print_matrix(out, "binary", coverage->binary, BINARY_OP_COUNT, binary_name);
    print_matrix(out, "from \\ to", coverage->convert, PHB_DTYPE_COUNT, type_name);
    print_matrix(out, "slices", (const int(*)[PHB_DTYPE_COUNT])coverage->slice_type, 1, (const char *(*)(int))binary_name);
    for (int i = 1; i < BUILTIN_COUNT; i++)
        fprintf(out, "%s %d%s", builtin_name((Builtin)i), coverage->builtin[i], i + 1 < BUILTIN_COUNT ? ", " : "\n");
    for (int kind = 0; kind <= STMT_CALL; kind++)
        fprintf(out, "%s %d, ", statement_name(kind), coverage->statement[kind]);
    fprintf(out, "calls of fns %d\n", coverage->inlined);
    fprintf(out, "slices over an edge: loads below %" PRId64 ", above %" PRId64 ", stores below %" PRId64 ", above %" PRId64 "\n",
        coverage->edges.load_below, coverage->edges.load_above, coverage->edges.store_below, coverage->edges.store_above);
    fprintf(out, "results compared %" PRId64 ", unknown to the oracle %" PRId64 "\n", coverage->numbers, coverage->unknown);

    for (int op = 0; op < BINARY_OP_COUNT; op++)
        for (int type = 0; type < PHB_DTYPE_COUNT; type++)
            if (operator_takes((BinaryOp)op, (PhbDType)type))
                row(&table, coverage->binary[op][type], "%s of %s", binary_name(op), type_name(type));
    for (int from = 0; from < PHB_DTYPE_COUNT; from++)
        for (int to = 0; to < PHB_DTYPE_COUNT; to++)
            if (from != to)
                row(&table, coverage->convert[from][to], "%s to %s", type_name(from), type_name(to));
    for (int i = 1; i < BUILTIN_COUNT; i++)
        row(&table, coverage->builtin[i], "%s", builtin_name((Builtin)i));
    for (int kind = 0; kind <= STMT_CALL; kind++)
        row(&table, coverage->statement[kind], "%s", statement_name(kind));
    for (int op = 0; op < 3; op++)
        row(&table, total(coverage->unary[op], PHB_DTYPE_COUNT), "unary %s", unary_name(op));
    for (int type = 0; type < PHB_DTYPE_COUNT; type++)
        row(&table, coverage->slice_type[type], "slices of %s", type_name(type));
    row(&table, coverage->edges.load_below, "loads below");
    row(&table, coverage->edges.load_above, "loads above");
    row(&table, coverage->edges.store_below, "stores below");
    row(&table, coverage->edges.store_above, "stores above");
    return table.low;
}
