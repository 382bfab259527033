/* LANGUAGE.md: an accepted @cluster kernel computes what the text without @cluster computes on one node. Random kernels go through the split; each
 * that is accepted without a warning is interpreted in both readings, the second super-tile by super-tile, and every output must be the same. Values
 * are i64, tiles of rank 1 and 2. What a WRITE tensor held before must not be seen. */
#include "compiler/lower/lower.h"

#include "tests/unit/ir_fixture.h"

#include <inttypes.h>

enum { TENSORS = 4, MAX_SIDE = 40, MAX_ELEMENTS = MAX_SIDE * MAX_SIDE, MAX_TILE = 64, OUTPUT = 3 };

static uint64_t random_state;

static int pick(int count) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int)((random_state >> 33) % (uint64_t)count);
}

/* ---- a kernel's text ---- */

typedef struct Generator {
    Buffer body;
    int count;       /* values so far */
    int offsets[2];  /* ctx.block.y * BY, ctx.block.x * BX */
    int steps[2];    /* BY, BX */
    int scalars[64]; /* i64 values */
    int scalar_count;
} Generator;

static int define(Generator *g, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int define(Generator *g, const char *format, ...) {
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    buffer_printf(&g->body, "    %%%d = %s\n", g->count, text);
    return g->count++;
}

static int scalar(Generator *g) {
    return g->scalars[pick(g->scalar_count)];
}

/* Whether a position near the end of a tensor axis is before it. */
static int before_end(Generator *g, int here, int end) {
    bool turned = pick(2);
    int decided = define(g, "%s %%%d, %%%d : bool", pick(2) ? "le" : "lt", turned ? end : here, turned ? here : end);
    return define(g, "convert %%%d : i64", decided);
}

/* A position near the own tile. */
static int near(Generator *g, int axis) {
    int shift = pick(3) ? define(g, "const %d : i64", pick(7) - 2) : g->steps[axis];
    return define(g, "add %%%d, %%%d : i64", g->offsets[axis], shift);
}

/* The same, held inside of a tensor axis by its extent or by its start. */
static int clamped(Generator *g, int axis, int here) {
    char tensor = "abtc"[pick(TENSORS)];
    int end = define(g, "%s %%%c, %d : i64", pick(4) ? "extent" : "whole", tensor, pick(6) ? axis : !axis);
    int start = define(g, "origin %%%c, %d : i64", tensor, axis);
    switch (pick(6)) {
    case 0:
        return define(g, "min %%%d, %%%d : i64", here, end);
    case 1:
    case 2:
        return define(g, "min %%%d, %%%d : i64", define(g, "sub %%%d, %%%d : i64", end, define(g, "const %d : i64", pick(4))), here);
    case 3:
        return define(g, "max %%%d, %%%d : i64", here, define(g, "neg %%%d : i64", start));
    case 4:
        return define(g, "max %%%d, %%%d : i64", end, here);
    default:
        return define(g, "min %%%d, %%%d : i64", define(g, "add %%%d, %%%d : i64", start, here), end);
    }
}

/* A number that is often the same in both readings: what is left of the own offset, a sum with the origin, a comparison. */
static int settled(Generator *g) {
    int axis = pick(2), here = near(g, axis);
    if (pick(3) == 0)
        return before_end(g, here, define(g, "extent %%%c, %d : i64", "abc"[pick(3)], axis));
    int value = clamped(g, axis, here);
    if (pick(2))
        return define(g, "sub %%%d, %%%d : i64", value, g->offsets[axis]);
    return pick(2) ? define(g, "add %%%d, %%%d : i64", value, define(g, "origin %%c, %d : i64", axis)) : value;
}

/* Mostly sensible: the tile's own offset, the same with a small distance, a constant, sometimes anything. */
static int offset(Generator *g, int axis) {
    int kind = pick(20);
    if (kind < 13)
        return g->offsets[axis];
    if (kind < 16)
        return define(g, "add %%%d, %%%d : i64", g->offsets[axis], define(g, "const %d : i64", pick(4) - 1));
    if (kind < 17)
        return pick(2) ? g->offsets[!axis] : clamped(g, axis, near(g, axis));
    return kind < 19 ? define(g, "const %d : i64", pick(3)) : scalar(g);
}

static void add_scalar(Generator *g) {
    static const char *const tensors = "abtc";
    static const char *const operations[] = {"add", "sub", "mul", "add", "div", "rem"};
    static const char *const comparisons[] = {"lt", "le", "eq", "ne"};
    int kind = pick(16), result;
    if (kind > 11)
        result = settled(g);
    else if (kind == 0)
        result = define(g, "ctx.grid.%c : i64", "xy"[pick(2)]);
    else if (kind == 1)
        result = define(g, "dim %s : i64", pick(2) ? "N" : "M");
    else if (kind < 6)
        result = define(g, "%s %%%c, %d : i64", kind == 2 ? "whole" : kind == 3 ? "extent" : "origin", tensors[pick(TENSORS)], pick(2));
    else if (kind < 9)
        result = define(g, "%s %%%d, %%%d : i64", operations[pick(6)], scalar(g), scalar(g));
    else
        result = define(g, "convert %%%d : i64", define(g, "%s %%%d, %%%d : bool", comparisons[pick(4)], scalar(g), scalar(g)));
    g->scalars[g->scalar_count++] = result;
}

static char *generate(void) {
    Generator g = {0};
    bool split_y = pick(3) != 0, square = pick(4) == 0;
    int bx = define(&g, "dim BX : i64"), by = define(&g, "dim BY : i64");
    int x = define(&g, "ctx.block.x : i64"), y = define(&g, "ctx.block.y : i64");
    g.offsets[1] = define(&g, "mul %%%d, %%%d : i64", x, bx);
    g.offsets[0] = define(&g, "mul %%%d, %%%d : i64", y, by);
    g.steps[0] = by;
    g.steps[1] = bx;
    int start[] = {bx, by, x, y, g.offsets[0], g.offsets[1], g.offsets[0], g.offsets[1]};
    memcpy(g.scalars, start, sizeof start);
    g.scalar_count = 8;
    for (int i = pick(8); i > 0; i--)
        add_scalar(&g);
    int sum = -1;
    for (int i = 1 + pick(3); i > 0; i--) {
        char tensor = "abtcc"[pick(5)];
        int rows = offset(&g, 0), columns = offset(&g, 1), value;
        if (pick(3) == 0)
            value = define(
                &g, "broadcast %%%d : tile<i64>[BY, BX]", define(&g, "load %%%c[%%%d, %%%d] : i64", tensor, rows, clamped(&g, 1, near(&g, 1))));
        else if (pick(4) == 0)
            value = define(&g, "broadcast %%%d : tile<i64>[BY, BX]", define(&g, "load %%%c[%%%d, %%%d] : i64", tensor, rows, columns));
        else
            value = define(&g, "load %%%c[%%%d :+ BY, %%%d :+ BX] : tile<i64>[BY, BX]", tensor, rows, columns);
        sum = sum < 0 ? value : define(&g, "add %%%d, %%%d : tile<i64>[BY, BX]", sum, value);
    }
    if (pick(2))
        sum = define(
            &g, "mul %%%d, %%%d : tile<i64>[BY, BX]", sum, define(&g, "broadcast %%%d : tile<i64>[BY, BX]", pick(2) ? scalar(&g) : settled(&g)));
    if (pick(8) == 0)
        buffer_printf(&g.body, "    store %%c[%%%d, %%%d] = %%%d\n", g.offsets[0], g.offsets[1], scalar(&g));
    else
        buffer_printf(&g.body, "    store %%c[%%%d :+ BY, %%%d :+ BX] = %%%d\n", g.offsets[0], pick(8) ? g.offsets[1] : offset(&g, 1), sum);
    if (pick(3) == 0)
        buffer_printf(&g.body, "    store %%c[%%%d :+ BY, %%%d :+ BX] = %%%d\n", g.offsets[0], g.offsets[1],
            define(&g, "load %%c[%%%d :+ BY, %%%d :+ BX] : tile<i64>[BY, BX]", offset(&g, 0), g.offsets[1]));

    const char *m = square ? "N" : "M";
    Buffer text = {0};
    buffer_printf(&text,
        "phobos-ir 1\nfile \"t.phb\"\n\nkernel k\n    cluster\n    dim N\n    dim M\n    search BX leaf [%d] cluster [8]\n    search BY leaf [%d]%s\n"
        "    param a: tensor<i64>[%s, N]\n    param b: tensor<i64>[%s, N]\n    param t: tensor<i64>[M, 7]\n    param c: tensor<i64>[%s, N]\n",
        pick(2) ? 4 : 2, pick(2) ? 3 : 1, split_y ? " cluster [6]" : "", m, m, m);
    if (pick(8) == 0)
        buffer_printf(&text, "    grid x stated\n    grid x %s\n    grid y stated\n    grid y %s\n", pick(2) ? "2" : "ceildiv(N, BX)",
            pick(2) ? "N" : "ceildiv(extent(c, 0), BY)");
    else
        buffer_puts(&text, "    grid x ceildiv(extent(c, 1), BX)\n    grid y ceildiv(extent(c, 0), BY)\n");
    buffer_printf(&text, "{\n%s    return\n}\n", g.body.data);
    buffer_free(&g.body);
    return text.data;
}

/* ---- a leaf, interpreted ---- */

typedef struct View {
    int64_t *data; /* of the whole tensor */
    int64_t whole[2], origin[2], extent[2];
} View;

typedef struct Leaf {
    Context *context;
    const IrKernel *kernel;
    View views[TENSORS];
    int64_t dims[2]; /* N, M */
    int64_t grid[3], block[3], super[3], supers[3];
    int64_t values[512][MAX_TILE];
} Leaf;

static int64_t evaluate(const Leaf *leaf, const Dim *dim) {
    if (dim->kind == PHB_EXPR_INT)
        return dim->value;
    if (dim->kind == PHB_EXPR_DIM)
        return leaf->dims[strcmp(dim->name, "M") == 0];
    if (dim->kind == PHB_EXPR_EXTENT)
        return leaf->views[signature_param(&leaf->kernel->signature, dim->name)].extent[dim->value];
    DimPool *pool = leaf->context->dims;
    const Dim *result = dim_op(pool, dim->kind, dim_int(pool, evaluate(leaf, dim->a)), dim->b ? dim_int(pool, evaluate(leaf, dim->b)) : NULL);
    int64_t value = 0;
    ck_assert(result && dim_is_int(result, &value));
    return value;
}

static int64_t *element(const View *view, int64_t row, int64_t column) {
    if (row < 0 || column < 0 || row >= view->extent[0] || column >= view->extent[1])
        return NULL;
    return &view->data[(row + view->origin[0]) * view->whole[1] + column + view->origin[1]];
}

static int64_t compute(OpKind kind, int64_t a, int64_t b) {
    uint64_t x = (uint64_t)a, y = (uint64_t)b;
    switch (kind) {
    case OP_ADD:
        return (int64_t)(x + y);
    case OP_SUB:
        return (int64_t)(x - y);
    case OP_MUL:
        return (int64_t)(x * y);
    case OP_DIV:
        return b == 0 ? 0 : b == -1 ? (int64_t)(0 - x) : a / b;
    case OP_REM:
        return b == 0 ? a : b == -1 ? 0 : a % b;
    case OP_EQ:
        return a == b;
    case OP_NE:
        return a != b;
    case OP_LT:
        return a < b;
    case OP_LE:
        return a <= b;
    case OP_NEG:
        return (int64_t)(0 - x);
    case OP_MIN:
        return a < b ? a : b;
    case OP_MAX:
        return a > b ? a : b;
    default:
        return a; /* convert */
    }
}

static int64_t tile_side(const Type *type, int axis) {
    return type->rank ? type->dims[axis]->value : 1;
}

static void run_access(Leaf *leaf, const IrOp *op) {
    const View *view = &leaf->views[op->operands.items[0]->index];
    int64_t row = leaf->values[op->operands.items[1]->id][0], column = leaf->values[op->operands.items[2]->id][0];
    bool is_load = op->kind == OP_LOAD;
    const IrValue *value = is_load ? op->results.items[0] : op->operands.items[3];
    int64_t rows = tile_side(value->type, 0), columns = tile_side(value->type, 1);
    for (int64_t i = 0; i < rows * columns; i++) {
        int64_t *at = element(view, row + i / columns, column + i % columns);
        if (is_load)
            leaf->values[value->id][i] = at ? *at : 0;
        else if (at)
            *at = leaf->values[value->id][i];
    }
}

static int64_t position(const Leaf *leaf, const IrOp *op) {
    const View *view = op->operands.count ? &leaf->views[op->operands.items[0]->index] : NULL;
    switch (op->kind) {
    case OP_CONST:
        return (int64_t)op->bits;
    case OP_DIM:
        return evaluate(leaf, op->dim);
    case OP_BLOCK:
        return leaf->block[op->axis];
    case OP_GRID:
        return leaf->grid[op->axis];
    case OP_EXTENT:
        return view->extent[op->axis];
    case OP_ORIGIN:
        return view->origin[op->axis];
    case OP_WHOLE:
        return view->whole[op->axis];
    default:
        ck_abort_msg("op %s", op_info[op->kind].text);
    }
}

static void run_op(Leaf *leaf, const IrOp *op) {
    if (op->kind == OP_LOAD || op->kind == OP_STORE) {
        run_access(leaf, op);
        return;
    }
    if (op->kind == OP_RETURN)
        return;
    const IrValue *result = op->results.items[0];
    int64_t *values = leaf->values[result->id];
    int64_t count = tile_side(result->type, 0) * tile_side(result->type, 1);
    bool is_position = op->operands.count == 0 || op->operands.items[0]->type->kind == TYPE_TENSOR;
    for (int64_t i = 0; i < count; i++) {
        if (is_position) {
            values[i] = position(leaf, op);
            continue;
        }
        const int64_t *a = leaf->values[op->operands.items[0]->id], *b = leaf->values[op->operands.items[op->operands.count - 1]->id];
        int64_t from = op->operands.items[0]->type->rank ? i : 0;
        values[i] = compute(op->kind, a[from], b[from]);
    }
}

static void run_leaf(Leaf *leaf) {
    for (int axis = 0; axis < 3; axis++) {
        const GridAxis *grid = &leaf->kernel->signature.grid[axis];
        leaf->grid[axis] = grid->counts.count ? evaluate(leaf, grid->counts.items[0]) : 1;
    }
    for (leaf->block[1] = 0; leaf->block[1] < leaf->grid[1]; leaf->block[1]++)
        for (leaf->block[0] = 0; leaf->block[0] < leaf->grid[0]; leaf->block[0]++)
            for (const IrOp *op = leaf->kernel->body->first; op; op = op->next)
                run_op(leaf, op);
}

/* ---- both readings ---- */

static void fill(int64_t tensors[TENSORS][MAX_ELEMENTS]) {
    for (int i = 0; i < TENSORS; i++)
        for (int j = 0; j < MAX_ELEMENTS; j++)
            tensors[i][j] = i * 100000 + j * 7 % 1009 + 1;
}

static void bind_views(Leaf *leaf, int64_t tensors[TENSORS][MAX_ELEMENTS], const int64_t dims[2]) {
    for (int i = 0; i < TENSORS; i++) {
        View *view = &leaf->views[i];
        *view = (View){.data = tensors[i]};
        for (int k = 0; k < 2; k++)
            view->whole[k] = view->extent[k] = evaluate(leaf, leaf->kernel->signature.params.items[i].type->dims[k]);
    }
    memcpy(leaf->dims, dims, sizeof leaf->dims);
}

/* One super-tile: regions, and the leaf's values of dims that name a split axis. One that names two has none that is right. */
static void bind_super_tile(Leaf *leaf, const ClusterKernel *kernel, const int64_t sizes[3]) {
    for (int i = 0; i < TENSORS; i++) {
        View *view = &leaf->views[i];
        const ClusterTensor *tensor = &kernel->tensors.items[i];
        for (int k = 0; k < 2; k++) {
            int axis = tensor->axes[k].index;
            if (tensor->axes[k].kind != PHB_AXIS_GRID)
                continue;
            view->origin[k] = leaf->super[axis] * sizes[axis];
            int64_t rest = view->whole[k] - view->origin[k];
            view->extent[k] = rest < sizes[axis] ? rest : sizes[axis];
            const Dim *dim = kernel->kernel->signature.params.items[i].type->dims[k];
            if (dim->kind != PHB_EXPR_DIM)
                continue;
            int64_t *value = &leaf->dims[strcmp(dim->name, "M") == 0];
            *value = *value == view->whole[k] || *value == view->extent[k] ? view->extent[k] : 12345;
        }
    }
}

static void run_cluster(Leaf *leaf, const ClusterKernel *kernel, int64_t tensors[TENSORS][MAX_ELEMENTS], const int64_t dims[2]) {
    int64_t sizes[3] = {0};
    for (int axis = 0; axis < 3; axis++) {
        leaf->supers[axis] = 1;
        memcpy(leaf->dims, dims, sizeof leaf->dims);
        if (!kernel->grid[axis].dim)
            continue;
        sizes[axis] = kernel->grid[axis].dim->leaf.items[0] * (1 + pick(4));
        leaf->supers[axis] = (evaluate(leaf, kernel->grid[axis].extent) + sizes[axis] - 1) / sizes[axis];
    }
    for (leaf->super[1] = 0; leaf->super[1] < leaf->supers[1]; leaf->super[1]++) {
        for (leaf->super[0] = 0; leaf->super[0] < leaf->supers[0]; leaf->super[0]++) {
            memcpy(leaf->dims, dims, sizeof leaf->dims);
            bind_views(leaf, tensors, dims);
            bind_super_tile(leaf, kernel, sizes);
            run_leaf(leaf);
        }
    }
}

/* Whether the kernel was accepted in silence. */
static bool compare_readings(const char *text) {
    static int64_t node[TENSORS][MAX_ELEMENTS], cluster[TENSORS][MAX_ELEMENTS];
    static Leaf leaf;
    Fixture f;
    fixture_open(&f, text, strlen(text));
    IrModule *module = ir_read(&f.context);
    fixture_finish(&f);
    ck_assert_msg(module != NULL, "%s\n%s", text, f.messages);
    ClusterProgram *program = cluster_split(&f.context, module);
    fixture_finish(&f);
    bool accepted = diag_error_count(f.context.diag) == 0 && !strstr(f.messages, "warning");
    for (int trial = 0; accepted && trial < 3; trial++) {
        const ClusterKernel *kernel = program->kernels.items[0];
        Assignment first = assignment_first(&f.context, &kernel->kernel->signature);
        int64_t dims[2] = {1 + pick(MAX_SIDE), 1 + pick(MAX_SIDE)};
        leaf = (Leaf){.context = &f.context, .dims = {dims[0], dims[1]}};
        fill(node);
        fill(cluster);
        for (int i = 0; kernel->tensors.items[OUTPUT].mode == PHB_WRITE && i < MAX_ELEMENTS; i++)
            cluster[OUTPUT][i] = -1 - i;
        leaf.kernel = specialise(&f.context, module->kernels.items[0], first.values);
        ck_assert_int_lt(values_number(leaf.kernel->body), 512);
        bind_views(&leaf, node, dims);
        run_leaf(&leaf);
        leaf.kernel = specialise(&f.context, kernel->stages.items[0].kernel, first.values);
        values_number(leaf.kernel->body);
        run_cluster(&leaf, kernel, cluster, dims);
        memcpy(leaf.dims, dims, sizeof leaf.dims);
        const Type *type = kernel->kernel->signature.params.items[OUTPUT].type;
        int64_t elements = evaluate(&leaf, type->dims[0]) * evaluate(&leaf, type->dims[1]);
        for (int64_t i = 0; i < elements; i++)
            ck_assert_msg(node[OUTPUT][i] == cluster[OUTPUT][i],
                "N=%" PRId64 " M=%" PRId64 ": element %" PRId64 " is %" PRId64 " and %" PRId64 " in\n%s", dims[0], dims[1], i, node[OUTPUT][i],
                cluster[OUTPUT][i], text);
    }
    fixture_close(&f);
    return accepted;
}

START_TEST(test_readings_agree) {
    int accepted = 0, kernels = 600;
    random_state = (uint64_t)_i + 1;
    for (int i = 0; i < kernels; i++) {
        char *text = generate();
        accepted += compare_readings(text);
        free(text);
    }
    ck_assert_int_gt(accepted, kernels / 20);
    ck_assert_int_lt(accepted, kernels - kernels / 20);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cluster_meaning");
    TCase *tests = tcase_create("cluster_meaning");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, test_readings_agree, 0, 4);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
