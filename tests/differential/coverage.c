/* What the kernels that ran are made of, and how often each thing has to be there. The rows come from the compiler's own tables: element types,
 * operators, builtins.def. */
#include "compiler/sema/check.h"
#include "tests/differential/differential.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- counting ---- */

static void cover_block(Coverage *coverage, const Block *block);

static bool is_literal(const Expr *expr) {
    return expr->kind == EXPR_INT || expr->kind == EXPR_FLOAT || expr->kind == EXPR_BOOL || (expr->kind == EXPR_UNARY && is_literal(expr->left));
}

/* A literal's conversion is the literal. */
static void cover_conversion(Coverage *coverage, const Expr *from, PhbDType to) {
    coverage->convert[from->type->scalar][to] += !is_literal(from);
}

/* The type of the operand as it was written: sums convert theirs themselves. */
static PhbDType operand_type(const Expr *call) {
    ResultRule rule = builtin_table[call->builtin].result;
    bool is_sum = rule == RESULT_CUMSUM || rule == RESULT_ROW_SUM || rule == RESULT_COL_SUM || rule == RESULT_TOTAL_SUM;
    if (rule == RESULT_POSITION || rule == RESULT_IOTA || rule == RESULT_WHERE || rule == RESULT_ELEMENT)
        return call->type->scalar;
    const Expr *operand = call->args.items[0];
    return is_sum && operand->kind == EXPR_CONVERT ? operand->left->type->scalar : operand->type->scalar;
}

static void cover_expr(Coverage *coverage, const Expr *expr) {
    if (!expr || !expr->type)
        return;
    switch (expr->kind) {
    case EXPR_UNARY:
        coverage->unary[expr->unary][expr->type->scalar] += !is_literal(expr);
        cover_expr(coverage, expr->left);
        break;
    case EXPR_BINARY:
        coverage->binary[expr->binary][expr->left->type->scalar]++;
        cover_expr(coverage, expr->left);
        cover_expr(coverage, expr->right);
        break;
    case EXPR_CALL:
        if (expr->builtin == BUILTIN_CONVERT)
            cover_conversion(coverage, expr->args.items[0], expr->type->scalar);
        else if (expr->builtin == BUILTIN_BITCAST)
            coverage->bitcast[expr->args.items[0]->type->scalar][expr->type->scalar]++;
        else
            coverage->builtin[expr->builtin][operand_type(expr)]++;
        for (int i = 0; i < expr->args.count; i++)
            cover_expr(coverage, expr->args.items[i]);
        break;
    case EXPR_CONVERT:
        cover_conversion(coverage, expr->left, expr->type->scalar);
        cover_expr(coverage, expr->left);
        break;
    case EXPR_INDEX:
        coverage->slice_type[expr->type->scalar]++;
        coverage->slice_rank[expr->subs.count]++;
        for (int i = 0; i < expr->subs.count; i++) {
            coverage->sub[expr->subs.items[i].kind]++;
            cover_expr(coverage, expr->subs.items[i].a);
        }
        break;
    case EXPR_FIELD:
        coverage->builtin[expr->builtin][expr->type->scalar]++;
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

static void cover_block(Coverage *coverage, const Block *block) {
    for (int i = 0; i < block->count; i++) {
        const Stmt *stmt = block->items[i];
        coverage->statement[stmt->kind]++;
        coverage->unrolled += stmt->unroll != NULL;
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

static const char *const attribute_names[COVERED_ATTRIBUTES] = {"autotune", "cluster", "aligned", "require", "grid"};

void coverage_add(Coverage *coverage, const CheckedKernel *kernel) {
    cover_block(coverage, &kernel->decl->body);
    for (int i = 0; i < kernel->decl->attrs.count; i++)
        for (int k = 0; k < COVERED_ATTRIBUTES; k++)
            coverage->attribute[k] += strcmp(kernel->decl->attrs.items[i].name, attribute_names[k]) == 0;
    for (int i = 0; i < kernel->signature.search.count; i++)
        coverage->searched += kernel->signature.search.items[i].leaf.count > 1;
}

void coverage_add_results(Coverage *coverage, const Problem *problem, const Edges *edges) {
    const Signature *signature = &problem->kernel->signature;
    for (int side = 0; side < EDGE_SIDE_COUNT; side++) {
        coverage->load_edge[side] += edges->load[side] > 0;
        coverage->store_edge[side] += edges->store[side] > 0;
    }
    for (int i = 0; i < signature->params.count; i++) {
        const Value *value = &problem->tensors[i].value;
        for (int64_t at = 0; signature->params.items[i].name[0] == 'o' && at < value_count(value); at++) {
            coverage->numbers++;
            coverage->unknown += !number_is_known(value->at[at]);
            coverage->not_numbers += dtype_is_float(value->scalar) && number_is_known(value->at[at]) && isnan(value->at[at].real);
        }
    }
}

/* ---- rows ---- */

/* builtins.def has what is for tile code first. */
static bool is_covered(Builtin builtin) {
    return builtin > BUILTIN_NONE && builtin < BUILTIN_CTX_THREAD && builtin != BUILTIN_CONVERT && builtin != BUILTIN_BITCAST;
}

static bool dot_takes(PhbDType type) {
    return dtype_is_float(type) || type == PHB_I8 || type == PHB_U8;
}

bool builtin_takes(Builtin builtin, PhbDType type) {
    switch (builtin_table[builtin].operands) {
    case OPERANDS_FLOAT:
        return dtype_is_float(type);
    case OPERANDS_NUMBER:
        return type != PHB_BOOL;
    case OPERANDS_INT:
        return dtype_is_int(type);
    case OPERANDS_BOOL:
        return type == PHB_BOOL;
    case OPERANDS_ANY:
        return true;
    case OPERANDS_OWN:
        break;
    }
    switch (builtin_table[builtin].result) {
    case RESULT_POSITION:
        return type == PHB_I64;
    case RESULT_IOTA:
        return type == PHB_I32;
    case RESULT_TRIANGLE:
        return type != PHB_BOOL;
    case RESULT_DOT:
        return dot_takes(type);
    default:
        return true;
    }
}

static bool unary_takes(UnaryOp op, PhbDType type) {
    return op == UNARY_NEG ? type != PHB_BOOL : op == UNARY_NOT ? type == PHB_BOOL : dtype_is_int(type);
}

bool operator_takes(BinaryOp op, PhbDType type) {
    switch (op) {
    case BINARY_LOGIC_OR:
    case BINARY_LOGIC_AND:
        return type == PHB_BOOL;
    case BINARY_EQ:
    case BINARY_NE:
        return true;
    case BINARY_OR:
    case BINARY_XOR:
    case BINARY_AND:
        return !dtype_is_float(type);
    case BINARY_SHL:
    case BINARY_SHR:
        return dtype_is_int(type);
    default:
        return type != PHB_BOOL;
    }
}

typedef struct Rows {
    Arena *arena;
    VEC(Row) rows;
} Rows;

static void add(Rows *rows, RowKind kind, int a, int b, int64_t count) {
    vec_push(rows->arena, &rows->rows, (Row){kind, a, b, count});
}

static void add_list(Rows *rows, RowKind kind, const int *counts, int count) {
    for (int i = 0; i < count; i++)
        add(rows, kind, i, 0, counts[i]);
}

static void add_builtins(Rows *rows, const Coverage *coverage) {
    for (int builtin = 0; builtin < BUILTIN_COUNT; builtin++) {
        int total = 0;
        for (int type = 0; type < PHB_DTYPE_COUNT && is_covered((Builtin)builtin); type++)
            if (builtin_takes((Builtin)builtin, (PhbDType)type)) {
                add(rows, ROW_BUILTIN, builtin, type, coverage->builtin[builtin][type]);
                total += coverage->builtin[builtin][type];
            }
        if (is_covered((Builtin)builtin))
            add(rows, ROW_BUILTIN_OF_ANY, builtin, 0, total);
    }
}

const Row *coverage_rows(Arena *arena, const Coverage *coverage, int *count) {
    Rows rows = {.arena = arena};
    for (int type = 0; type < PHB_DTYPE_COUNT; type++) {
        for (int op = 0; op < BINARY_OP_COUNT; op++)
            if (operator_takes((BinaryOp)op, (PhbDType)type))
                add(&rows, ROW_BINARY, op, type, coverage->binary[op][type]);
        for (int op = 0; op < UNARY_OP_COUNT; op++)
            if (unary_takes((UnaryOp)op, (PhbDType)type))
                add(&rows, ROW_UNARY, op, type, coverage->unary[op][type]);
        for (int from = 0; from < PHB_DTYPE_COUNT; from++) {
            if (from != type)
                add(&rows, ROW_CONVERT, from, type, coverage->convert[from][type]);
            if (from != PHB_BOOL && type != PHB_BOOL && dtype_bits((PhbDType)from) == dtype_bits((PhbDType)type))
                add(&rows, ROW_BITCAST, from, type, coverage->bitcast[from][type]);
        }
    }
    add_builtins(&rows, coverage);
    add_list(&rows, ROW_STATEMENT, coverage->statement, STMT_COUNT);
    add_list(&rows, ROW_SUBSCRIPT, coverage->sub, SUB_COUNT + 1);
    add_list(&rows, ROW_SLICE, coverage->slice_type, PHB_DTYPE_COUNT);
    add_list(&rows, ROW_RANK, coverage->slice_rank + 1, PHB_MAX_RANK);
    add_list(&rows, ROW_LOAD_EDGE, coverage->load_edge, EDGE_SIDE_COUNT);
    add_list(&rows, ROW_STORE_EDGE, coverage->store_edge, EDGE_SIDE_COUNT);
    add_list(&rows, ROW_ATTRIBUTE, coverage->attribute, COVERED_ATTRIBUTES);
    add(&rows, ROW_INLINED, 0, 0, coverage->inlined);
    add(&rows, ROW_UNROLLED, 0, 0, coverage->unrolled);
    add(&rows, ROW_SEARCHED, 0, 0, coverage->searched);
    *count = rows.rows.count;
    return rows.rows.items;
}

/* ---- the table ---- */

static const char *const unary_names[UNARY_OP_COUNT] = {"-", "!", "~"};
static const char *const statement_names[STMT_COUNT] = {"let", "var", "assign", "for", "while", "if", "break", "continue", "return", "call"};
static const char *const sub_names[SUB_COUNT + 1] = {"a", ":", ":b", "a:", "a:b", "a:+n"};
static const char *const side_names[EDGE_SIDE_COUNT] = {"before", "after", "before and after", "quite beyond"};

static void print_row(FILE *out, const Row *row) {
    switch (row->kind) {
    case ROW_UNARY:
        fprintf(out, "unary %s of %s", unary_names[row->a], dtype_name((PhbDType)row->b));
        break;
    case ROW_BINARY:
        fprintf(out, "%s of %s", binary_op_text((BinaryOp)row->a), dtype_name((PhbDType)row->b));
        break;
    case ROW_CONVERT:
        fprintf(out, "%s to %s", dtype_name((PhbDType)row->a), dtype_name((PhbDType)row->b));
        break;
    case ROW_BITCAST:
        fprintf(out, "bitcast of %s to %s", dtype_name((PhbDType)row->a), dtype_name((PhbDType)row->b));
        break;
    case ROW_BUILTIN:
        fprintf(out, "%s of %s", builtin_name((Builtin)row->a), dtype_name((PhbDType)row->b));
        break;
    case ROW_BUILTIN_OF_ANY:
        fprintf(out, "%s", builtin_name((Builtin)row->a));
        break;
    case ROW_STATEMENT:
        fprintf(out, "statement '%s'", statement_names[row->a]);
        break;
    case ROW_SUBSCRIPT:
        fprintf(out, "subscript '%s'", sub_names[row->a]);
        break;
    case ROW_SLICE:
        fprintf(out, "slices of %s", dtype_name((PhbDType)row->a));
        break;
    case ROW_RANK:
        fprintf(out, "slices of rank %d", row->a + 1);
        break;
    case ROW_LOAD_EDGE:
        fprintf(out, "kernels that read %s a tensor", side_names[row->a]);
        break;
    case ROW_STORE_EDGE:
        fprintf(out, "kernels that store %s a tensor", side_names[row->a]);
        break;
    case ROW_ATTRIBUTE:
        fprintf(out, "@%s", attribute_names[row->a]);
        break;
    case ROW_INLINED:
        fputs("calls of fns", out);
        break;
    case ROW_UNROLLED:
        fputs("unrolled loops", out);
        break;
    case ROW_SEARCHED:
        fputs("search dims of several values", out);
        break;
    case ROW_KIND_COUNT:
        break;
    }
}

int coverage_print(const Coverage *coverage, FILE *out, int least, bool by_type) {
    static const char *const titles[] = {[ROW_UNARY] = "unary operators", [ROW_BINARY] = "binary operators", [ROW_CONVERT] = "conversions",
        [ROW_BITCAST] = "bitcasts", [ROW_BUILTIN] = "builtins by type", [ROW_BUILTIN_OF_ANY] = "builtins", [ROW_STATEMENT] = "statements",
        [ROW_SUBSCRIPT] = "subscripts", [ROW_SLICE] = "slices by type", [ROW_RANK] = "slices by rank", [ROW_LOAD_EDGE] = "reads by edge",
        [ROW_STORE_EDGE] = "stores by edge", [ROW_ATTRIBUTE] = "attributes", [ROW_INLINED] = "calls of fns", [ROW_UNROLLED] = "unrolled loops",
        [ROW_SEARCHED] = "search dims of several values"};
    Arena *arena = arena_new();
    int count, low = 0;
    const Row *rows = coverage_rows(arena, coverage, &count);
    for (int kind = 0; kind < ROW_KIND_COUNT; kind++) {
        int kinds = 0;
        int64_t rarest = INT64_MAX;
        for (int i = 0; i < count; i++)
            if ((int)rows[i].kind == kind)
                kinds++, rarest = rows[i].count < rarest ? rows[i].count : rarest;
        fprintf(out, "%-30s %4d rows, the rarest %" PRId64 " times\n", titles[kind], kinds, rarest);
    }
    fprintf(out, "results compared %" PRId64 ", of which NaN %" PRId64 ", unknown to the oracle %" PRId64 "\n", coverage->numbers, coverage->not_numbers,
        coverage->unknown);
    for (int i = 0; i < count; i++) {
        if (rows[i].count >= least || (rows[i].kind == ROW_BUILTIN && !by_type))
            continue;
        low++;
        fputs("low: ", out);
        print_row(out, &rows[i]);
        fprintf(out, " %" PRId64 "\n", rows[i].count);
    }
    arena_free(arena);
    return low;
}
