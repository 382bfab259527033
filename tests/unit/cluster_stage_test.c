/* LANGUAGE.md 9: an accepted @cluster kernel computes what the text without @cluster computes on one node. Random sources with cluster loops, states,
 * chunks that are stored, halos and split heads are compiled; each that is accepted without a warning runs in both readings: as one launch on whole
 * tensors, and stage by stage on what a pod holds. A unit of work finds tensors as the files held them before the job, what it writes without reading
 * first, and its states, are rubbish at first, and what a stage is not said to touch is not there. */
#include "tests/unit/leaf_machine.h"

#include "compiler/lower/lower.h"
#include "compiler/sema/sema.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ELEMENTS = 1 << 11, KERNELS = 150, MAX_SIDE = 10, MAX_CHUNKS = 16 };

static uint64_t random_state;

static int pick(int count) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int)((random_state >> 33) % (uint64_t)count);
}

/* ---- a kernel's text ---- */

typedef enum Shape { SCALAR, ROWS, COLUMNS, TILE, SHAPES } Shape; /* i64; [BM, 1]; [1, BN]; [BM, BN] */

static const char *const types[] = {"i64", "tile<i64>[BM, 1]", "tile<i64>[1, BN]", "tile<i64>[BM, BN]"};

typedef struct Variable {
    Shape shape;
    bool is_mutable;
} Variable;

typedef struct Generator {
    Buffer text;
    bool heads, x, y; /* axes of the grid that are there */
    const char *columns, *inner; /* names of the dims along col and k: dims may have one name, which then stands for more axes than one */
    const char *longer;          /* what is added to the extents of `a` and `e` that are split */
    char loop;        /* 'K' or 'L': in a cluster loop along it, with the variable k; 'J': in one that indexes no tensor */
    bool stores_chunks;
    int halo; /* of a and e, on the axes that are split */
    int depth, indent;
    Variable variables[32];
    int count;
} Generator;

static void line(Generator *g, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void line(Generator *g, const char *format, ...) {
    char words[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    buffer_printf(&g->text, "%*s%s\n", 4 * g->indent, "", words);
}

/* Text of one expression; the caller frees it. */
static char *format_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

static char *format_text(const char *format, ...) {
    enum { LONGEST = 4096 };
    char *text = malloc(LONGEST);
    va_list args;
    va_start(args, format);
    vsnprintf(text, LONGEST, format, args);
    va_end(args);
    return text;
}

static const char *head(const Generator *g) {
    return g->heads ? "head :+ BH, " : "";
}

static const char *loop_dim(const Generator *g) {
    return g->loop == 'K' ? g->inner : "L";
}

static int find_variable(const Generator *g, Shape shape, bool is_mutable) {
    int found[32], count = 0;
    for (int i = 0; i < g->count; i++)
        if (g->variables[i].shape == shape && (!is_mutable || g->variables[i].is_mutable))
            found[count++] = i;
    return count ? found[pick(count)] : -1;
}

static char *expression(Generator *g, Shape shape);

/* An offset into the halo; now and then beyond it, which is refused. */
static int shift(const Generator *g) {
    return pick(2 * g->halo + 1) - g->halo + (g->halo && pick(60) == 0);
}

/* The chunk of `a`, `f` or `d` that the loop is at, [BM, BK], perhaps masked. */
static char *chunk(const Generator *g) {
    if (g->loop == 'K' && !g->x && pick(3) == 0) /* what an earlier loop may have stored */
        return format_text("f[%srow :+ BM, k :+ BK]", head(g));
    char tensor = g->loop == 'K' ? 'a' : 'd';
    int rows = g->y && tensor == 'a' ? shift(g) : 0, columns = tensor == 'a' ? shift(g) : 0;
    const char *own = pick(60) ? "k" : "2 * k"; /* refused */
    char *load = format_text("%c[%srow + %d :+ BM, %s + %d :+ B%c]", tensor, head(g), rows, own, columns, g->loop), *masked = NULL;
    int axis = g->heads ? 2 : 1;
    switch (pick(5)) {
    case 0:
        masked = format_text("where(k + iota(B%c) < %s, %s, 5)", g->loop, loop_dim(g), load);
        break;
    case 1:
        masked = format_text("where(k + iota(B%c) < extent(%c, %d), %s, -7)", g->loop, tensor, axis, load);
        break;
    case 2:
        masked = format_text("where(origin(%c, %d) + k + iota(B%c) < n, %s, 3)", tensor, axis, g->loop, load);
        break;
    case 3:
        masked = format_text("(%s + (origin(%c, %d) + k + iota(B%c)))", load, tensor, axis, g->loop);
        break;
    default:
        return load;
    }
    free(load);
    return masked;
}

static char *leaf_expression(Generator *g, Shape shape) {
    int variable = find_variable(g, shape, false);
    if (variable >= 0 && pick(2))
        return format_text("v%d", variable);
    if (g->loop == 'J')
        return format_text("(k + %d)", pick(3)); /* counts the same in both readings */
    char *part = g->loop ? chunk(g) : NULL, *text;
    switch (shape) {
    case SCALAR:
        free(part);
        if (pick(60) == 0) /* refused, where the axis is split */
            return format_text(pick(2) ? "M" : g->loop ? "k" : "row");
        switch (pick(6)) {
        case 0:
            return format_text("n");
        case 1:
            return format_text("t[%d]", pick(8));
        case 2:
            return format_text("whole(a, %d)", g->heads + pick(2));
        case 3:
            return format_text("(origin(c, %d) + row)", g->heads);
        default:
            return format_text("%d", pick(20) - 5);
        }
    case ROWS:
        if (!part)
            return format_text("h[row :+ BM, :]");
        text = format_text("%s(%s)", pick(4) ? "rowsum" : "rowmax", part);
        break;
    case COLUMNS:
        free(part);
        return g->loop == 'K' ? format_text("colsum(b[k :+ BK, col :+ BN])") : format_text("w[:, col :+ BN]");
    default:
        if (pick(3))
            text = format_text("e[%srow + %d :+ BM, col + %d :+ BN]", head(g), g->y ? shift(g) : 0, g->x ? shift(g) : 0);
        else
            text = format_text("c[%srow :+ BM, col :+ BN]", head(g));
        free(part);
        return text;
    }
    free(part);
    return text;
}

static char *expression(Generator *g, Shape shape) {
    static const char *const operators[] = {"+", "+", "-", "*"};
    if (g->depth > 2 || pick(3) == 0)
        return leaf_expression(g, shape);
    g->depth++;
    Shape other = shape == TILE ? (Shape)pick(SHAPES) : pick(2) ? SCALAR : shape;
    char *a = expression(g, shape), *b = expression(g, other), *text;
    int kind = pick(6);
    if (kind == 0)
        text = format_text("max(%s, %s)", a, b);
    else if (kind == 1)
        text = format_text("where(%s < %s, %s, %s)", a, b, b, a);
    else
        text = format_text("(%s %s %s)", a, operators[pick(4)], b);
    g->depth--;
    free(a);
    free(b);
    return text;
}

static void declare(Generator *g, Shape shape, bool is_mutable) {
    if (g->count == 32)
        return;
    char *value = expression(g, pick(4) ? shape : SCALAR);
    line(g, "%s v%d: %s = %s", is_mutable ? "var" : "let", g->count, types[shape], pick(3) || !is_mutable ? value : "0");
    free(value);
    g->variables[g->count++] = (Variable){shape, is_mutable};
}

static void assign(Generator *g) {
    static const char *const operators[] = {"=", "+=", "+=", "-="};
    Shape shape = (Shape)pick(SHAPES);
    int variable = find_variable(g, shape, true);
    if (variable < 0)
        return;
    char *value = expression(g, pick(4) ? shape : SCALAR);
    line(g, "v%d %s %s", variable, operators[pick(4)], value);
    free(value);
}

/* A sum and nothing else, which may live in an output. */
static void add(Generator *g, int variable) {
    char *value = leaf_expression(g, g->variables[variable].shape == TILE ? (Shape)(ROWS + pick(2)) : g->variables[variable].shape);
    line(g, "v%d += %s", variable, value);
    free(value);
}

static void store(Generator *g, const char *output) {
    char *value = pick(2) && find_variable(g, TILE, false) >= 0 ? format_text("v%d", find_variable(g, TILE, false)) : expression(g, TILE);
    line(g, "%s[%srow :+ BM, col :+ BN] %s %s", output, head(g), pick(5) ? "=" : "+=", value);
    free(value);
}

static void statement(Generator *g);

static void scoped(Generator *g, int statements) {
    int count = g->count;
    g->indent++;
    for (int i = 0; i < statements; i++)
        statement(g);
    g->indent--;
    g->count = count;
    line(g, "}");
}

static void statement(Generator *g) {
    int kind = pick(16);
    if (kind < 6 || (g->loop && pick(2))) {
        assign(g);
    } else if (kind < 8) {
        declare(g, (Shape)pick(SHAPES), pick(2));
    } else if (kind < 9 && g->indent < 3) {
        char *a = expression(g, SCALAR), *b = expression(g, SCALAR);
        line(g, "if %s < %s {", a, b);
        free(a);
        free(b);
        scoped(g, 2);
    } else if (kind < 10 && g->indent < 3) {
        line(g, "for i%d in range(%d, 4) {", g->indent, pick(3));
        scoped(g, 2);
    } else if (kind < 11 && g->loop == 'K' && find_variable(g, ROWS, true) >= 0) {
        line(g, "for i%d in range(0, BK) { v%d += a[%srow :+ BM, k + i%d] }", g->indent, find_variable(g, ROWS, true), head(g), g->indent);
    } else if (kind < 13 && g->loop == 'K' && g->stores_chunks) {
        char *value = chunk(g), *rows = expression(g, ROWS);
        line(g, "f[%srow :+ BM, k :+ BK] %s %s * %s", head(g), pick(4) ? "=" : "+=", value, rows);
        free(value);
        free(rows);
    } else if (kind < 14 && find_variable(g, SCALAR, true) >= 0) { /* the bound names an axis that may be split, and another that is not */
        line(g, "for i%d in range(0, M) { v%d += z[i%d] }", g->indent, find_variable(g, SCALAR, true), g->indent);
    } else if (kind < 15) {
        store(g, pick(2) ? "c" : "c2");
    }
}

/* What was loaded before the loop is used in it, after the loop has stored to the same place. */
static void reread(Generator *g, int loaded) {
    int variable = find_variable(g, TILE, true);
    if (loaded < 0 || variable < 0)
        return;
    line(g, "v%d += v%d * %d", variable, loaded, pick(4));
    store(g, "c");
}

/* A name for what the variable holds before the loop, or -1. */
static int remember(Generator *g, int variable) {
    if (variable < 0 || g->count == 32 || pick(2))
        return -1;
    Shape shape = g->variables[variable].shape;
    line(g, "let v%d: %s = v%d", g->count, types[shape], variable);
    g->variables[g->count] = (Variable){shape, false};
    return g->count++;
}

static void cluster_loop(Generator *g) {
    char bound[64];
    g->loop = pick(3) ? 'K' : 'L';
    const char *tensor = g->loop == 'K' ? "a" : "d";
    int kind = pick(9), variable = find_variable(g, (Shape)pick(SHAPES), true), loaded = -1;
    if (kind < 4 && (g->loop == 'L' || !*g->longer))
        snprintf(bound, sizeof bound, "%s(%s, %d)", kind < 2 ? "extent" : "whole", tensor, g->heads + 1);
    else if (kind < 7)
        snprintf(bound, sizeof bound, "%s", loop_dim(g));
    else if (kind < 8) /* beyond the end of what is read */
        snprintf(bound, sizeof bound, "%s + 2", loop_dim(g));
    else
        snprintf(bound, sizeof bound, "%d", 1 + pick(9));
    char step = g->loop;
    if (kind == 8)
        g->loop = 'J';
    if (pick(3) == 0 && g->count < 32) {
        loaded = g->count++;
        g->variables[loaded] = (Variable){TILE, false};
        line(g, "let v%d: tile<i64>[BM, BN] = c[%srow :+ BM, col :+ BN]", loaded, head(g));
    }
    int old = remember(g, variable);
    line(g, "for k in range(0, %s, B%c) {", bound, step);
    g->indent++;
    reread(g, loaded);
    g->indent--;
    if (variable >= 0 && pick(2)) {
        g->indent++;
        add(g, variable);
        g->indent--;
        scoped(g, pick(2));
    } else {
        scoped(g, 1 + pick(4));
    }
    g->loop = 0;
    if (old >= 0)
        line(g, "v%d -= v%d", variable, old);
}

/* A sum, through one loop or two, that is stored as it is. */
static void sum(Generator *g) {
    line(g, "var sum: tile<i64>[BM, BN] = %d", pick(3));
    for (int loops = 1 + pick(2); loops > 0; loops--) {
        line(g, "for k in range(0, %s, BK) {", g->inner);
        g->loop = 'K';
        char *value = pick(2) ? chunk(g) : NULL;
        g->loop = 0;
        if (value)
            line(g, "    sum += rowsum(%s)", value);
        else
            line(g, "    sum += colsum(b[k :+ BK, col :+ BN])");
        line(g, "}");
        free(value);
    }
    line(g, "s[%srow :+ BM, col :+ BN] = sum", head(g));
}

static char *generate(void) {
    Generator g = {.heads = pick(3) == 0, .y = pick(5) != 0, .columns = pick(4) ? "N" : "M", .inner = pick(4) ? "K" : "M"};
    g.x = g.y && pick(2);
    g.stores_chunks = !g.x;
    g.halo = pick(3) == 0 ? 1 + pick(2) : 0;
    g.longer = g.halo && pick(2) ? g.halo == 1 || pick(2) ? " + 1" : " + 2" : "";
    const char *h = g.heads ? "H, " : "";
    int bm = 1 + pick(3), bn = 1 + pick(3), bk = 1 + pick(3), bl = 1 + pick(2);
    buffer_printf(&g.text, "@cluster(BK in [%d]", 2 * bk);
    if (g.heads)
        buffer_puts(&g.text, ", BH in [2]");
    if (g.y && pick(6))
        buffer_printf(&g.text, ", BM in [%d]", 4 * bm);
    if (g.x && pick(6))
        buffer_printf(&g.text, ", BN in [%d]", 2 * bn);
    if (pick(3))
        buffer_printf(&g.text, ", BL in [%d]", 3 * bl);
    buffer_printf(&g.text, ")\n@autotune(BM in [%d], BN in [%d], BK in [%d], BL in [%d], BH in [1])\n", bm, bn, bk, bl);
    if (g.halo)
        buffer_printf(&g.text, "@halo(a = %s%d%s, e = %d)\n", g.heads ? "[0, 2, " : "", g.halo, g.heads ? "]" : "", g.halo);
    buffer_printf(&g.text, "kernel k(n: i64, a: tensor<i64>[%sM%s, %s%s], b: tensor<i64>[%s, %s], d: tensor<i64>[%sM, L], e: tensor<i64>[%sM, %s%s],\n", h,
        g.y ? g.longer : "", g.inner, g.longer, g.inner, g.columns, h, h, g.columns, g.x ? g.longer : "");
    buffer_printf(&g.text, "    w: tensor<i64>[1, %s], z: tensor<i64>[M], h: tensor<i64>[M, 1], t: tensor<i64>[8], c: tensor<i64>[%sM, %s], c2: tensor<i64>[%sM, %s], "
        "s: tensor<i64>[%sM, %s], f: tensor<i64>[%sM, %s]) {\n",
        g.columns, h, g.columns, h, g.columns, h, g.columns, h, g.inner);
    g.indent = 1;
    line(&g, "let row = %s", g.y ? "ctx.block.y * BM" : "i64(0)");
    line(&g, "let col = %s", g.x ? "ctx.block.x * BN" : "i64(0)");
    if (g.heads)
        line(&g, "let head = ctx.block.z * BH");
    for (int i = 2 + pick(3); i > 0; i--)
        declare(&g, (Shape)pick(SHAPES), pick(4) != 0);
    if (pick(2))
        statement(&g);
    for (int loops = 1 + pick(3); loops > 0; loops--) {
        cluster_loop(&g);
        for (int i = pick(3); i > 0; i--)
            statement(&g);
    }
    if (pick(3) == 0)
        sum(&g);
    store(&g, "c");
    if (pick(2))
        store(&g, "c2");
    buffer_puts(&g.text, "}\n");
    return g.text.data;
}

/* ---- a compilation ---- */

typedef struct Compiled {
    Context context;
    Source source;
    FILE *stream;
    char *messages;
    size_t messages_length;
    IrKernel *plain;            /* specialised: the text without @cluster */
    const ClusterKernel *split; /* NULL: refused, or warned about */
    IrKernel **stages;          /* specialised */
    int64_t *values;
} Compiled;

static void optimise(Context *context, IrKernel *kernel) {
    bool changed = true;
    while (changed) {
        changed = ir_fold(context, kernel);
        changed |= ir_control(context, kernel);
        changed |= ir_cse(context, kernel);
        changed |= ir_licm(context, kernel);
        changed |= ir_dce(context, kernel);
    }
}

static void check_sound(Compiled *c, IrKernel *kernel, const char *text) {
    const IrOp *at = NULL;
    const char *broken = ir_verify_kernel(&c->context, kernel, &at);
    ck_assert_msg(broken == NULL, "%s\n%s", broken, text);
}

static void compile(Compiled *c, const char *text) {
    memset(c, 0, sizeof *c);
    c->stream = open_memstream(&c->messages, &c->messages_length);
    c->source = (Source){"t.phb", text, strlen(text)};
    Arena *arena = arena_new();
    c->context = (Context){arena, interner_new(arena), dim_pool_new(arena), type_pool_new(arena), NULL, &c->source};
    c->context.diag = diag_new(arena, &c->source, c->stream, DIAG_TEXT, false);
    Ast *ast = parse_source(&c->context);
    CheckedProgram *checked = sema_check(&c->context, ast, &(SemaOptions){NULL, 0, false});
    fflush(c->stream);
    ck_assert_msg(diag_error_count(c->context.diag) == 0, "%s\n%s", text, c->messages);
    IrModule *module = lower_program(&c->context, checked, "t.phb");
    IrKernel *kernel = module->kernels.items[0];
    optimise(&c->context, kernel);
    c->values = assignment_first(&c->context, &kernel->signature).values;
    c->plain = specialise(&c->context, kernel, c->values);
    ClusterProgram *program = cluster_split(&c->context, module);
    fflush(c->stream);
    if (diag_error_count(c->context.diag) > 0 || strstr(c->messages, "changes with the super-tiles"))
        return;
    c->split = program->kernels.items[0];
    c->stages = NEW_ARRAY(arena, IrKernel *, c->split->stages.count);
    for (int i = 0; i < c->split->stages.count; i++) {
        check_sound(c, c->split->stages.items[i].kernel, text);
        c->stages[i] = specialise(&c->context, c->split->stages.items[i].kernel, c->values);
        check_sound(c, c->stages[i], text);
    }
}

static void release(Compiled *c) {
    diag_finish(c->context.diag);
    fclose(c->stream);
    free(c->messages);
    arena_free(c->context.arena);
}

/* ---- the whole problem ---- */

static const char *const dim_names[] = {"H", "M", "N", "K", "L"};

typedef struct Problem {
    int64_t dims[5];
    int64_t n;
    uint64_t before[MACHINE_TENSORS][MAX_ELEMENTS]; /* by parameter */
    uint64_t node[MACHINE_TENSORS][MAX_ELEMENTS], cluster[MACHINE_TENSORS][MAX_ELEMENTS];
} Problem;

static const Type *param_type(const IrKernel *kernel, int param) {
    return kernel->signature.params.items[param].type;
}

static void bind_dims(Machine *m, const Problem *problem) {
    m->dim_count = 5;
    for (int i = 0; i < 5; i++) {
        m->dim_names[i] = dim_names[i];
        m->dims[i] = problem->dims[i];
    }
}

static void bind_whole(Machine *m, const IrKernel *kernel, int param) {
    const Type *type = param_type(kernel, param);
    View *view = &m->views[param];
    *view = (View){0};
    for (int k = 0; k < type->rank; k++)
        view->whole[k] = view->extent[k] = machine_dim(m, &kernel->signature, type->dims[k]);
}

static void run_node(const Compiled *c, Problem *problem) {
    Machine m = {.context = (Context *)&c->context, .supers = {1, 1, 1}};
    bind_dims(&m, problem);
    m.scalars[0] = (uint64_t)problem->n;
    for (int i = 1; i < c->plain->signature.params.count; i++) {
        bind_whole(&m, c->plain, i);
        m.views[i].data = problem->node[i];
    }
    machine_run(&m, c->plain);
    machine_free(&m);
}

/* ---- super-tile by super-tile ---- */

typedef struct Unit {
    const Compiled *compiled;
    Problem *problem;
    Machine machine;
    int64_t sizes[3], chunks[PHB_MAX_LOOPS]; /* extents of super-tiles and chunks; 0: not split */
    uint64_t tiles[MACHINE_TENSORS][MAX_ELEMENTS]; /* what is resident, by parameter of a stage */
    bool loaded[MACHINE_TENSORS], stored[MACHINE_TENSORS];
    bool walked[MACHINE_TENSORS][MAX_CHUNKS]; /* by parameter: a stage has had this chunk, and left it where the unit stores */
} Unit;

static const char *leaf_dim(const Dim *dim) {
    return dim->kind == PHB_EXPR_DIM ? dim->name : NULL;
}

static int64_t extent_of(Unit *unit, const ClusterAxis *axis) {
    const ClusterKernel *split = unit->compiled->split;
    const ClusterSplit *cut = axis->kind == PHB_AXIS_GRID ? &split->grid[axis->index] : &split->loops.items[axis->index];
    return machine_dim(&unit->machine, &split->kernel->signature, cut->extent);
}

/* The region of axis k that the unit owns, in chunk `chunk` of loop `loop`; with its halo. */
static void bind_axis(Unit *unit, int tensor, int k, int loop, int64_t chunk) {
    const ClusterTensor *table = &unit->compiled->split->tensors.items[tensor];
    const ClusterAxis *axis = &table->axes[k];
    View *view = &unit->machine.views[table->param];
    int64_t size = axis->kind == PHB_AXIS_GRID ? unit->sizes[axis->index] : axis->kind == PHB_AXIS_LOOP && axis->index == loop ? unit->chunks[loop] : 0;
    int64_t place = axis->kind == PHB_AXIS_GRID ? unit->machine.super[axis->index] : chunk;
    int64_t end = axis->kind == PHB_AXIS_WHOLE ? view->whole[k] : extent_of(unit, axis);
    view->origin[k] = size * place;
    view->extent[k] = size && end - view->origin[k] > size ? size : end - view->origin[k];
    int64_t halo = axis->halo ? machine_dim(&unit->machine, &unit->compiled->split->kernel->signature, axis->halo) : 0;
    view->origin[k] -= halo;
    view->extent[k] += 2 * halo;
}

/* A name may stand for more axes than one, so no leaf may ask for the extent of a split one by it. */
static void spoil_dims(Unit *unit) {
    const ClusterKernel *split = unit->compiled->split;
    for (int t = 0; t < split->tensors.count; t++) {
        const ClusterTensor *table = &split->tensors.items[t];
        const Type *type = param_type(split->kernel, table->param);
        for (int k = 0; k < type->rank; k++) {
            const char *name = leaf_dim(type->dims[k]);
            for (int i = 0; name && i < 5; i++)
                if (table->axes[k].kind != PHB_AXIS_WHOLE && strcmp(name, dim_names[i]) == 0)
                    unit->machine.dims[i] = 1;
        }
    }
}

static bool follows_loop(const ClusterTensor *tensor, int rank) {
    for (int k = 0; k < rank; k++)
        if (tensor->axes[k].kind == PHB_AXIS_LOOP)
            return true;
    return false;
}

/* Copies the region from or to the tensor. */
static void move_tile(Unit *unit, int param, uint64_t *whole, bool stores) {
    const View *view = &unit->machine.views[param];
    int rank = param_type(unit->compiled->split->kernel, param)->rank;
    int64_t count = machine_count(view, rank);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = 0, left = i, index[PHB_MAX_RANK];
        bool inside = true;
        for (int k = rank - 1; k >= 0; k--) {
            index[k] = view->origin[k] + left % view->extent[k];
            left /= view->extent[k];
            inside &= index[k] >= 0 && index[k] < view->whole[k];
        }
        for (int k = 0; k < rank; k++)
            at = at * view->whole[k] + index[k];
        if (stores && inside)
            whole[at] = unit->tiles[param][i];
        else if (!stores)
            unit->tiles[param][i] = inside ? whole[at] : 0;
    }
}

static void poison(uint64_t *data, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        data[i] = (uint64_t)-1000000 - (uint64_t)i;
}

static void run_stage(Unit *unit, int stage, int64_t chunk) {
    const ClusterKernel *split = unit->compiled->split;
    const ClusterStage *table = &split->stages.items[stage];
    Machine *m = &unit->machine;
    bind_dims(m, unit->problem);
    for (int i = 0; i < split->tensors.count; i++) {
        int param = split->tensors.items[i].param, rank = param_type(split->kernel, param)->rank;
        for (int k = 0; k < rank; k++)
            bind_axis(unit, i, k, table->loop, chunk);
        bool is_walked = follows_loop(&split->tensors.items[i], rank);
        m->views[param].data = table->modes[i] == PHB_UNUSED ? NULL : unit->tiles[param];
        if (table->modes[i] == PHB_UNUSED || (!is_walked && unit->loaded[param]))
            continue;
        unit->loaded[param] = true;
        if (is_walked && unit->walked[param][chunk])
            move_tile(unit, param, unit->problem->cluster[param], false);
        else if (table->modes[i] == PHB_WRITE)
            poison(unit->tiles[param], machine_count(&m->views[param], rank));
        else
            move_tile(unit, param, unit->problem->before[param], false);
        unit->walked[param][chunk] |= is_walked;
    }
    spoil_dims(unit);
    for (int i = 0; i < split->states.count; i++) {
        View *view = &m->views[split->kernel->signature.params.count + i];
        const Type *type = split->states.items[i].type;
        *view = (View){.data = table->modes[split->tensors.count + i] == PHB_UNUSED ? NULL : unit->tiles[split->kernel->signature.params.count + i]};
        for (int k = 0; k < 3; k++)
            view->extent[k] = 1;
        for (int axis = 0; axis < 3; axis++) {
            const GridAxis *grid = &unit->compiled->stages[stage]->signature.grid[axis];
            view->extent[0] *= grid->counts.count ? machine_dim(m, &split->kernel->signature, grid->counts.items[0]) : 1;
        }
        for (int k = 0; k < type->rank; k++) {
            const Dim *dim = dim_assign((Context *)&unit->compiled->context, &split->kernel->signature, type->dims[k], unit->compiled->values);
            view->extent[3 - type->rank + k] = machine_dim(m, &split->kernel->signature, dim);
        }
    }
    machine_run(m, unit->compiled->stages[stage]);
    for (int i = 0; i < split->tensors.count; i++) {
        int param = split->tensors.items[i].param;
        bool stores = table->modes[i] == PHB_WRITE || table->modes[i] == PHB_READ_WRITE;
        if (stores && follows_loop(&split->tensors.items[i], param_type(split->kernel, param)->rank))
            move_tile(unit, param, unit->problem->cluster[param], true);
        else
            unit->stored[param] |= stores;
    }
}

static void run_unit(Unit *unit) {
    const ClusterKernel *split = unit->compiled->split;
    memset(unit->loaded, 0, sizeof unit->loaded);
    memset(unit->stored, 0, sizeof unit->stored);
    memset(unit->walked, 0, sizeof unit->walked);
    for (int i = 0; i < split->states.count; i++)
        poison(unit->tiles[split->kernel->signature.params.count + i], MAX_ELEMENTS);
    for (int i = 0; i < split->stages.count - split->helper_count; i++) {
        int loop = split->stages.items[i].loop;
        int64_t chunks = 1;
        if (loop >= 0) {
            bind_dims(&unit->machine, unit->problem);
            int64_t extent = machine_dim(&unit->machine, &split->kernel->signature, split->loops.items[loop].extent);
            chunks = (extent + unit->chunks[loop] - 1) / unit->chunks[loop];
        }
        for (int64_t chunk = 0; chunk < chunks; chunk++)
            run_stage(unit, i, chunk);
    }
    for (int i = 0; i < split->tensors.count; i++)
        if (unit->stored[split->tensors.items[i].param])
            move_tile(unit, split->tensors.items[i].param, unit->problem->cluster[split->tensors.items[i].param], true);
}

static int64_t leaf_value(const Compiled *c, const SearchDim *dim) {
    return c->values[dim - c->split->kernel->signature.search.items];
}

static void run_cluster(const Compiled *c, Problem *problem) {
    static Unit unit;
    const ClusterKernel *split = c->split;
    unit = (Unit){.compiled = c, .problem = problem, .machine = {.context = (Context *)&c->context, .supers = {1, 1, 1}}};
    Machine *m = &unit.machine;
    bind_dims(m, problem);
    m->scalars[0] = (uint64_t)problem->n;
    for (int i = 1; i < split->kernel->signature.params.count; i++)
        bind_whole(m, split->kernel, i);
    for (int axis = 0; axis < 3; axis++) {
        if (!split->grid[axis].dim)
            continue;
        unit.sizes[axis] = leaf_value(c, split->grid[axis].dim) * (1 + pick(4));
        m->supers[axis] = (machine_dim(m, &split->kernel->signature, split->grid[axis].extent) + unit.sizes[axis] - 1) / unit.sizes[axis];
    }
    for (int i = 0; i < split->loops.count; i++)
        unit.chunks[i] = leaf_value(c, split->loops.items[i].dim) * (1 + pick(4));
    for (m->super[2] = 0; m->super[2] < m->supers[2]; m->super[2]++)
        for (m->super[1] = 0; m->super[1] < m->supers[1]; m->super[1]++)
            for (m->super[0] = 0; m->super[0] < m->supers[0]; m->super[0]++)
                run_unit(&unit);
    machine_free(m);
}

/* ---- both readings ---- */

static void fill(Problem *problem) {
    for (int i = 0; i < 5; i++)
        problem->dims[i] = 1 + pick(i == 0 ? 3 : MAX_SIDE);
    problem->n = pick(12);
    for (int i = 0; i < MACHINE_TENSORS; i++)
        for (int j = 0; j < MAX_ELEMENTS; j++)
            problem->before[i][j] = (uint64_t)(pick(2000) - 1000);
    memcpy(problem->node, problem->before, sizeof problem->node);
    memcpy(problem->cluster, problem->before, sizeof problem->cluster);
}

static void compare(const Compiled *c, const Problem *problem, const char *text) {
    const IrKernel *kernel = c->split->kernel;
    Machine m = {.context = (Context *)&c->context};
    bind_dims(&m, problem);
    for (int i = 1; i < kernel->signature.params.count; i++) {
        bind_whole(&m, kernel, i);
        int64_t count = machine_count(&m.views[i], param_type(kernel, i)->rank);
        for (int64_t k = 0; k < count; k++) {
            if (problem->node[i][k] == problem->cluster[i][k])
                continue;
            Buffer program = {0};
            ClusterProgram whole = {.file = "t.phb"};
            vec_push(c->context.arena, &whole.kernels, (ClusterKernel *)c->split);
            cluster_print(&program, &whole);
            ck_abort_msg("H=%lld M=%lld N=%lld K=%lld L=%lld n=%lld: element %lld of '%s' is %lld on one node, %lld on the cluster, in\n%s\n%s",
                (long long)problem->dims[0], (long long)problem->dims[1], (long long)problem->dims[2], (long long)problem->dims[3],
                (long long)problem->dims[4], (long long)problem->n, (long long)k, kernel->signature.params.items[i].name,
                (long long)problem->node[i][k], (long long)problem->cluster[i][k], text, program.data);
        }
    }
}

START_TEST(readings_agree) {
    static Problem problem;
    int accepted = 0, with_states = 0, without = 0;
    random_state = (uint64_t)_i + 1;
    for (int i = 0; i < KERNELS; i++) {
        char *text = generate();
        Compiled compiled;
        compile(&compiled, text);
        if (compiled.split) {
            accepted++;
            with_states += compiled.split->states.count > 1;
            without += compiled.split->states.count == 0 && compiled.split->stages.count > 1;
        }
        for (int trial = 0; compiled.split && trial < 3; trial++) {
            fill(&problem);
            run_node(&compiled, &problem);
            run_cluster(&compiled, &problem);
            compare(&compiled, &problem, text);
        }
        if (getenv("VERBOSE") && !compiled.split)
            fprintf(stderr, "%s\n%s\n", text, compiled.messages);
        release(&compiled);
        free(text);
    }
    ck_assert_int_gt(accepted, KERNELS / 2);
    ck_assert_int_gt(with_states, KERNELS / 30);
    ck_assert_int_gt(without, KERNELS / 100);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cluster_stage");
    TCase *tests = tcase_create("cluster_stage");
    tcase_set_timeout(tests, 300);
    tcase_add_loop_test(tests, readings_agree, 0, 4);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
