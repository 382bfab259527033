/* The launch grid: which offsets of slices are ctx.block.a * S, and what count of CTAs each asks for. */
#include "compiler/sema/check.h"

#include <inttypes.h>

const Expr *see_through(const Expr *expr) {
    while (expr->kind == EXPR_NAME && expr->symbol && expr->symbol->value && !expr->symbol->assigned_again && !expr->dim)
        expr = expr->symbol->value;
    return expr;
}

/* The axis of `ctx.block.a`, or -1. */
static int block_axis(const Expr *expr) {
    if (expr->kind == EXPR_FIELD && expr->builtin == BUILTIN_CTX_BLOCK)
        return expr->text[0] - 'x';
    return expr->kind == EXPR_CALL && expr->builtin == BUILTIN_PROGRAM_ID ? 0 : -1;
}

/* The value of an expression over dims, also behind a var that keeps its first value. */
static const Dim *dim_of(const Expr *expr) {
    return see_through(expr)->dim;
}

/* Every factor but one is over dims. */
int block_offset(Checker *checker, const Expr *offset, const Dim **step) {
    *step = dim_int(checker->context->dims, 1);
    for (;;) {
        offset = see_through(offset);
        int axis = block_axis(offset);
        if (axis >= 0)
            return axis;
        if (offset->kind != EXPR_BINARY || offset->binary != BINARY_MUL)
            return -1;
        const Dim *left = dim_of(offset->left), *right = dim_of(offset->right);
        if (!left == !right)
            return -1;
        *step = dim_op(checker->context->dims, PHB_EXPR_MUL, *step, left ? left : right);
        if (!*step)
            return -1;
        offset = left ? offset->right : offset->left;
    }
}

static bool all_positive(const int64_t *values, int count) {
    return count == 1 && values[0] >= 1;
}

static bool is_positive(Checker *checker, const Dim *step) {
    return !dim_is_static(checker, step) || leaf_ask(checker, &step, 1, all_positive, NULL) == LEAF_ALWAYS;
}

/* One count along an axis; `in_dims` is the same with the extent as the tensor's type has it. */
typedef struct Count {
    const Dim *dim, *in_dims;
    Span span;
} Count;

typedef VEC(Count) Counts;

static void add_count(Checker *checker, Counts *counts, const Symbol *tensor, int axis, const Dim *step, Span span) {
    DimPool *pool = checker->context->dims;
    const Dim *in_dims = dim_op(pool, PHB_EXPR_CEILDIV, tensor->type->dims[axis], step);
    const Dim *dim = dim_op(pool, PHB_EXPR_CEILDIV, dim_extent(pool, tensor->name, axis), step);
    if (!in_dims || !dim)
        return;
    for (int i = 0; i < counts->count; i++)
        if (counts->items[i].in_dims == in_dims) /* one name is one extent */
            return;
    vec_push(checker->context->arena, counts, (Count){dim, in_dims, span});
}

static void collect(Checker *checker, int block, bool stores, Counts *counts) {
    for (int i = 0; i < checker->accesses.count; i++) {
        const Access *access = &checker->accesses.items[i];
        if (access->is_store != stores)
            continue;
        for (int axis = 0; axis < access->slice->subs.count; axis++) {
            const Sub *sub = &access->slice->subs.items[axis];
            const Dim *step;
            if (!sub->a || block_offset(checker, sub->a, &step) != block || !is_positive(checker, step))
                continue;
            bool is_bare = block_axis(see_through(sub->a)) >= 0;
            if (!is_bare || sub->kind == SUB_POINT)
                add_count(checker, counts, access->slice->left->symbol, axis, step, sub->span);
        }
    }
}

static bool are_equal(const int64_t *values, int count) {
    return count == 2 && values[0] == values[1];
}

static bool is_launchable(const int64_t *values, int count) {
    return count == 1 && values[0] <= GRID_MAX_CTAS;
}

static void check_counts(Checker *checker, char axis_name, const Counts *counts) {
    Diag *diag = checker->context->diag;
    const Count *first = &counts->items[0];
    for (int i = 0; i < counts->count; i++) {
        const Count *count = &counts->items[i];
        if (!dim_is_static(checker, count->in_dims))
            continue;
        const char *failure = "";
        if (leaf_ask(checker, &count->in_dims, 1, is_launchable, &failure) != LEAF_ALWAYS) {
            diag_error(diag, count->span, "the grid along %c has at most 2^31-1 CTAs; this slice asks for more%s", axis_name, failure);
            return;
        }
        if (i > 0 && dim_is_static(checker, first->in_dims) &&
            leaf_ask(checker, (const Dim *const[]){first->in_dims, count->in_dims}, 2, are_equal, NULL) == LEAF_NEVER) {
            diag_error(diag, count->span, "the launch grid along %c is not one number: this slice asks for %s CTAs", axis_name,
                dim_text(checker, count->in_dims));
            diag_note(diag, first->span, "this one asks for %s; state the grid by @grid", dim_text(checker, first->in_dims));
            return;
        }
    }
}

static void infer_axis(Checker *checker, int block) {
    char axis_name = (char)('x' + block);
    Counts counts = {0};
    if (checker->block_mention[block].line == 0)
        return;
    collect(checker, block, true, &counts);
    if (counts.count == 0)
        collect(checker, block, false, &counts);
    if (counts.count == 0) {
        diag_error(checker->context->diag, checker->block_mention[block],
            "the launch grid along %c cannot be inferred: no slice begins at 'ctx.block.%c * S'", axis_name, axis_name);
        diag_note(checker->context->diag, checker->signature->span, "state it by @grid(..) before the kernel");
        return;
    }
    check_counts(checker, axis_name, &counts);
    GridAxis *grid = &checker->signature->grid[block];
    for (int i = 0; i < counts.count; i++) {
        vec_push(checker->context->arena, &grid->counts, counts.items[i].dim);
        vec_push(checker->context->arena, &grid->spans, counts.items[i].span);
    }
}

void infer_grid(Checker *checker) {
    if (checker->signature->grid[0].stated)
        return;
    for (int block = 0; block < 3; block++)
        infer_axis(checker, block);
}
