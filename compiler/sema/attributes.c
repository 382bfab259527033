/* Attributes of a kernel, LANGUAGE.md 8. */
#include "compiler/sema/check.h"

#include <inttypes.h>
#include <string.h>

typedef void AttrHandler(Checker *checker, const Attr *attr);

static void add_autotune(Checker *checker, const Attr *attr);
static void add_cluster(Checker *checker, const Attr *attr);
static void set_launch(Checker *checker, const Attr *attr);
static void add_aligned(Checker *checker, const Attr *attr);
static void add_require(Checker *checker, const Attr *attr);
static void set_grid(Checker *checker, const Attr *attr);
static void set_fastmath(Checker *checker, const Attr *attr);
static void set_tensorcore(Checker *checker, const Attr *attr);
static void set_pipeline(Checker *checker, const Attr *attr);
static void set_cluster_dims(Checker *checker, const Attr *attr);
static void check_nonportable(Checker *checker, const Attr *attr);
static void add_halos(Checker *checker, const Attr *attr);

enum { AUTOTUNE, CLUSTER, OTHER }; /* in this order: each needs what those before it declare */

static const struct {
    const char *name;
    int stage;
    bool repeats;        /* may stand more than once */
    AttrHandler *handle;
} attributes[] = {
    {"autotune", AUTOTUNE, true, add_autotune},
    {"cluster", CLUSTER, true, add_cluster},
    {"require", OTHER, true, add_require},
    {"launch", OTHER, false, set_launch},
    {"aligned", OTHER, true, add_aligned},
    {"grid", OTHER, false, set_grid},
    {"fastmath", OTHER, false, set_fastmath},
    {"cluster_dims", OTHER, false, set_cluster_dims},
    {"nonportable", OTHER, false, check_nonportable},
    {"tensorcore", OTHER, false, set_tensorcore},
    {"pipeline", OTHER, false, set_pipeline},
    {"halo", OTHER, true, add_halos},
};
enum { ATTRIBUTE_COUNT = sizeof attributes / sizeof *attributes };

static int attribute_find(const char *name) {
    for (int i = 0; i < ATTRIBUTE_COUNT; i++)
        if (strcmp(attributes[i].name, name) == 0)
            return i;
    return -1;
}

const char *attribute_name(int index) {
    return index < ATTRIBUTE_COUNT ? attributes[index].name : NULL;
}

bool attribute_is_known(const char *name) {
    return attribute_find(name) >= 0;
}

/* ---- search dims ---- */

/* The values of `name in [..]`, checked and expanded; NULL after an error. */
static int64_t *resolve_set(Checker *checker, const AttrArg *arg, int *count) {
    Diag *diag = checker->context->diag;
    int64_t *values = NEW_ARRAY(checker->context->arena, int64_t, arg->items.count);
    for (int i = 0; i < arg->items.count; i++) {
        const char *what = arena_printf(checker->context->arena, "a value of '%s'", arg->name);
        if (!constant_resolve(checker, arg->items.items[i], what, 1, INT64_MAX, &values[i]))
            return NULL;
        for (int k = 0; k < i; k++)
            if (values[k] == values[i]) {
                diag_error(diag, arg->items.items[i]->span, "the value %" PRId64 " stands twice", values[i]);
                diag_note(diag, arg->items.items[k]->span, "the other one");
                return NULL;
            }
    }
    return search_set_expand(checker->context->arena, values, arg->items.count, count);
}

static bool is_set(Checker *checker, const Attr *attr, const AttrArg *arg) {
    if (arg->name && arg->is_in)
        return true;
    diag_error(checker->context->diag, arg->span, "an argument of @%s is a search dim and its values, such as 'BLOCK in [16, 256]'", attr->name);
    return false;
}

/* Where the search dims are declared, which is what both readings take their tiles from. */
static void note_search_dims(Checker *checker) {
    const Signature *signature = checker->signature;
    if (signature->search.count > 0)
        diag_note(checker->context->diag, signature->search.items[0].span, "the search dims are declared here");
    else
        diag_note(checker->context->diag, signature->span, "the kernel has no @autotune");
}

static bool is_super_set(Checker *checker, const Attr *attr, const AttrArg *arg) {
    if (is_set(checker, attr, arg))
        return true;
    Diag *diag = checker->context->diag;
    const Signature *signature = checker->signature;
    note_search_dims(checker);
    diag_note(diag, (Span){0}, "on one node, a tile has the extent of a search dim");
    diag_note(diag, (Span){0}, "on the cluster, a super-tile has a value of the same name, and this gives none a value");
    diag_note(diag, (Span){0}, "smallest edit: write '%s in [..]'", signature->search.count > 0 ? signature->search.items[0].name : "BLOCK");
    return false;
}

static void add_search_dim(Checker *checker, const AttrArg *arg) {
    Context *context = checker->context;
    Signature *signature = checker->signature;
    const SearchDim *previous = signature_search(signature, arg->name);
    int count;
    int64_t *values = resolve_set(checker, arg, &count);
    if (previous) {
        diag_error(context->diag, arg->name_span, "'%s' stands twice under @autotune", arg->name);
        diag_note(context->diag, previous->span, "the other one");
    } else if (signature->search.count == PHB_MAX_DIMS) {
        diag_error(context->diag, arg->name_span, "a kernel has at most %d dims", PHB_MAX_DIMS);
    } else if (!values) {
        scope_poison(checker, arg->name);
    } else {
        SearchDim dim = {.name = arg->name, .span = arg->name_span};
        for (int i = 0; i < count; i++)
            vec_push(context->arena, &dim.leaf, values[i]);
        vec_push(context->arena, &signature->search, dim);
        scope_declare_dim(checker, SYMBOL_SEARCH_DIM, arg->name, arg->name_span, dim_name(context->dims, arg->name));
    }
}

static bool has_arguments(Checker *checker, const Attr *attr) {
    if (attr->args.count > 0)
        return true;
    diag_error(checker->context->diag, attr->span, "@%s needs arguments", attr->name);
    return false;
}

static void add_autotune(Checker *checker, const Attr *attr) {
    if (!has_arguments(checker, attr))
        return;
    for (int i = 0; i < attr->args.count; i++)
        if (is_set(checker, attr, &attr->args.items[i]))
            add_search_dim(checker, &attr->args.items[i]);
}

static SearchDim *find_search_dim(Signature *signature, const char *name) {
    for (int i = 0; i < signature->search.count; i++)
        if (signature->search.items[i].name == name)
            return &signature->search.items[i];
    return NULL;
}

static void error_not_autotune(Checker *checker, const AttrArg *arg) {
    Context *context = checker->context;
    const Symbol *symbol = scope_find(checker, arg->name);
    if (symbol && type_is_poison(symbol->type))
        return;
    Names names = {0};
    for (int i = 0; i < checker->signature->search.count; i++)
        vec_push(context->arena, &names, checker->signature->search.items[i].name);
    diag_error(context->diag, arg->name_span, "'%s' is under @cluster but not under @autotune%s", arg->name, suggestion(checker, arg->name, &names));
    note_search_dims(checker);
    diag_note(context->diag, (Span){0}, "on one node, '%s' has no value", arg->name);
    diag_note(context->diag, (Span){0}, "on the cluster, '%s' is the extent of a super-tile", arg->name);
    diag_note(context->diag, (Span){0}, "smallest edit: add '%s in [..]' to @autotune", arg->name);
    scope_poison(checker, arg->name);
}

static void add_cluster(Checker *checker, const Attr *attr) {
    Context *context = checker->context;
    if (!has_arguments(checker, attr))
        return;
    checker->signature->has_cluster = true;
    checker->signature->cluster_span = attr->span;
    for (int i = 0; i < attr->args.count; i++) {
        const AttrArg *arg = &attr->args.items[i];
        if (!is_super_set(checker, attr, arg))
            continue;
        SearchDim *dim = find_search_dim(checker->signature, arg->name);
        int count;
        int64_t *values = resolve_set(checker, arg, &count);
        if (!dim) {
            error_not_autotune(checker, arg);
        } else if (dim->cluster.count > 0) {
            diag_error(context->diag, arg->name_span, "'%s' stands twice under @cluster", arg->name);
            diag_note(context->diag, dim->cluster_span, "the other one");
        } else if (values) {
            dim->cluster_span = arg->name_span;
            for (int k = 0; k < count; k++)
                vec_push(context->arena, &dim->cluster, values[k]);
        }
    }
}

/* ---- the others ---- */

/* The positional arguments of an attribute; false after an error. */
static bool has_positional(Checker *checker, const Attr *attr, int least, int most) {
    Diag *diag = checker->context->diag;
    for (int i = 0; i < attr->args.count; i++)
        if (attr->args.items[i].name || attr->args.items[i].is_list) {
            diag_error(diag, attr->args.items[i].span, "@%s takes plain values here", attr->name);
            return false;
        }
    if (attr->args.count >= least && attr->args.count <= most)
        return true;
    if (most == 0)
        diag_error(diag, attr->span, "@%s takes no arguments", attr->name);
    else if (least == 0)
        diag_error(diag, attr->span, "@%s takes at most %d %s, found %d", attr->name, most, most == 1 ? "argument" : "arguments", attr->args.count);
    else
        diag_error(diag, attr->span, "@%s takes %d to %d arguments, found %d", attr->name, least, most, attr->args.count);
    return false;
}

static void set_launch(Checker *checker, const Attr *attr) {
    static const struct {
        const char *what;
        int64_t most;
    } limits[] = {{"the number of threads", 1024}, {"the number of blocks", 32}, {"the number of registers", 255}};
    Signature *signature = checker->signature;
    int64_t *const fields[] = {&signature->launch_threads, &signature->launch_min_blocks, &signature->launch_max_regs};
    if (!has_positional(checker, attr, 1, 3))
        return;
    for (int i = 0; i < attr->args.count; i++)
        constant_resolve(checker, attr->args.items[i].value, limits[i].what, 1, limits[i].most, fields[i]);
}

static bool all_positive(const int64_t *values, int count) {
    return count == 1 && values[0] >= 1;
}

static void add_aligned(Checker *checker, const Attr *attr) {
    Context *context = checker->context;
    if (!has_arguments(checker, attr))
        return;
    for (int i = 0; i < attr->args.count; i++) {
        const AttrArg *arg = &attr->args.items[i];
        if (!arg->name || arg->is_in || arg->is_list) {
            diag_error(context->diag, arg->span, "an argument of @aligned is a symbolic dim and its tile, such as 'M = TILE_M'");
            continue;
        }
        Symbol *symbol = scope_find(checker, arg->name);
        if (!symbol || (symbol->kind != SYMBOL_DIM && !type_is_poison(symbol->type))) {
            Names names = {0};
            for (int k = 0; k < checker->signature->symbolic.count; k++)
                vec_push(context->arena, &names, checker->signature->symbolic.items[k]);
            diag_error(context->diag, arg->name_span, "'%s' is no symbolic dim%s", arg->name, suggestion(checker, arg->name, &names));
            continue;
        }
        const char *failure = "";
        const Dim *tile = dim_resolve(checker, arg->value, DIM_SEARCH);
        if (tile && leaf_ask(checker, &tile, 1, all_positive, &failure) != LEAF_ALWAYS)
            diag_error(context->diag, arg->value->span, "a tile is at least 1; this one is not%s", failure);
        else if (tile && !type_is_poison(symbol->type))
            vec_push(context->arena, &checker->signature->aligned, (Aligned){arg->name, tile, arg->span});
    }
}

static bool is_true(const int64_t *values, int count) {
    return count == 1 && values[0] != 0;
}

static void add_require(Checker *checker, const Attr *attr) {
    Context *context = checker->context;
    if (!has_arguments(checker, attr))
        return;
    for (int i = 0; i < attr->args.count; i++) {
        const AttrArg *arg = &attr->args.items[i];
        if (arg->name || arg->is_list) {
            diag_error(context->diag, arg->span, "an argument of @require is a condition, such as 'C <= BC'");
            continue;
        }
        const Dim *cond = dim_resolve(checker, arg->value, DIM_SEARCH | DIM_SYMBOLIC | DIM_EXTENTS | DIM_CONDITION);
        if (!cond)
            continue;
        if (dim_is_static(checker, cond) && leaf_ask(checker, &cond, 1, is_true, NULL) == LEAF_NEVER)
            diag_error(context->diag, arg->span, "no values of the search dims fulfil this");
        else
            vec_push(context->arena, &checker->signature->require, (Require){cond, arg->span});
    }
}

static bool is_grid_extent(const int64_t *values, int count) {
    return count == 1 && values[0] >= 1 && values[0] <= GRID_MAX_CTAS;
}

static void set_grid(Checker *checker, const Attr *attr) {
    Context *context = checker->context;
    for (int axis = 0; axis < 3; axis++)
        checker->signature->grid[axis].stated = true;
    if (!has_positional(checker, attr, 1, 3))
        return;
    for (int axis = 0; axis < attr->args.count; axis++) {
        Expr *expr = attr->args.items[axis].value;
        GridAxis *grid = &checker->signature->grid[axis];
        const char *failure = "";
        const Dim *extent = dim_resolve(checker, expr, DIM_SEARCH | DIM_SYMBOLIC | DIM_EXTENTS);
        if (!extent)
            continue;
        if (dim_is_static(checker, extent) && leaf_ask(checker, &extent, 1, is_grid_extent, &failure) != LEAF_ALWAYS) {
            diag_error(context->diag, expr->span, "an extent of the grid is from 1 to 2^31-1; this one is not%s", failure);
            continue;
        }
        vec_push(context->arena, &grid->counts, extent);
        vec_push(context->arena, &grid->spans, expr->span);
    }
}

static void set_fastmath(Checker *checker, const Attr *attr) {
    checker->signature->fastmath = has_positional(checker, attr, 0, 0);
}

/* The next two say how a GPU is to be used: elsewhere they change nothing. */
static void set_tensorcore(Checker *checker, const Attr *attr) {
    Names names = {0};
    checker->signature->tensorcore = TENSORCORE_BF16X6;
    if (!has_positional(checker, attr, 0, 1) || attr->args.count == 0)
        return;
    const Expr *mode = attr->args.items[0].value;
    for (int i = TENSORCORE_NONE + 1; i < TENSORCORE_COUNT; i++) {
        const char *name = tensorcore_name((TensorcoreMode)i);
        checker->signature->tensorcore = (TensorcoreMode)i;
        if (mode->kind == EXPR_NAME && strcmp(mode->text, name) == 0)
            return;
        vec_push(checker->context->arena, &names, name);
    }
    const char *text = expr_text(checker, mode);
    diag_error(checker->context->diag, mode->span, "the modes of @tensorcore are bf16x6, tf32x3, f16x3, tf32, bf16 and f16; found '%s'%s", text,
        suggestion(checker, text, &names));
}

static void set_pipeline(Checker *checker, const Attr *attr) {
    const char *failure = "";
    if (!has_positional(checker, attr, 0, 1) || attr->args.count == 0)
        return;
    Expr *stages = attr->args.items[0].value;
    const Dim *dim = dim_resolve(checker, stages, DIM_SEARCH);
    if (dim && leaf_ask(checker, &dim, 1, all_positive, &failure) != LEAF_ALWAYS)
        diag_error(checker->context->diag, stages->span, "a pipeline has at least 1 stage; this one has not%s", failure);
    checker->signature->pipeline = dim;
    checker->signature->pipeline_span = stages->span;
}

static bool has_attribute(const Checker *checker, const char *name) {
    for (int i = 0; i < checker->decl->attrs.count; i++)
        if (strcmp(checker->decl->attrs.items[i].name, name) == 0)
            return true;
    return false;
}

static bool are_cluster_dims(const int64_t *values, int count, int64_t most) {
    int64_t ctas = 1;
    for (int i = 0; i < count; i++) {
        if (values[i] < 1 || values[i] > most)
            return false;
        ctas *= values[i];
    }
    return ctas <= most;
}

static bool are_portable(const int64_t *values, int count) {
    return are_cluster_dims(values, count, 8);
}

static bool are_nonportable(const int64_t *values, int count) {
    return are_cluster_dims(values, count, 16);
}

static void set_cluster_dims(Checker *checker, const Attr *attr) {
    Signature *signature = checker->signature;
    const Dim *dims[3];
    const char *failure = "";
    bool is_nonportable = has_attribute(checker, "nonportable"), is_sound = has_positional(checker, attr, 1, 3);
    for (int i = 0; is_sound && i < attr->args.count; i++) {
        dims[i] = dim_resolve(checker, attr->args.items[i].value, DIM_SEARCH);
        is_sound = dims[i] != NULL;
    }
    if (is_sound && leaf_ask(checker, dims, attr->args.count, is_nonportable ? are_nonportable : are_portable, &failure) != LEAF_ALWAYS)
        diag_error(checker->context->diag, attr->span, "a thread-block cluster has 1 to %s; this one has not%s",
            is_nonportable ? "16 CTAs" : "8 CTAs, and up to 16 with @nonportable", failure);
    for (int i = 0; is_sound && i < 3; i++)
        signature->cluster_dims[i] = i < attr->args.count ? dims[i] : dim_int(checker->context->dims, 1);
    signature->nonportable = is_nonportable;
    signature->cluster_dims_span = attr->span;
    note_thread_use(checker, attr->span);
}

static void check_nonportable(Checker *checker, const Attr *attr) {
    if (has_positional(checker, attr, 0, 0) && !has_attribute(checker, "cluster_dims"))
        diag_error(checker->context->diag, attr->span, "@nonportable is about @cluster_dims, which this kernel has not");
}

/* ---- halos ---- */

static bool is_width(const int64_t *values, int count) {
    return count == 1 && values[0] >= 0;
}

/* NULL after an error. */
static const Dim *resolve_width(Checker *checker, Expr *expr) {
    const char *failure = "";
    const Dim *width = dim_resolve(checker, expr, DIM_SEARCH | DIM_SYMBOLIC);
    if (!width || !dim_is_static(checker, width) || leaf_ask(checker, &width, 1, is_width, &failure) == LEAF_ALWAYS)
        return width;
    diag_error(checker->context->diag, expr->span, "a halo is not negative; this one is%s", failure);
    return NULL;
}

/* The tensor that the argument names; -1 after an error. */
static int resolve_halo_tensor(Checker *checker, const AttrArg *arg) {
    Context *context = checker->context;
    const Signature *signature = checker->signature;
    int param = signature_param(signature, arg->name);
    Names names = {0};
    for (int i = 0; i < signature->params.count; i++)
        if (signature->params.items[i].type->kind == TYPE_TENSOR)
            vec_push(context->arena, &names, signature->params.items[i].name);
    if (param >= 0 && signature->params.items[param].type->kind == TYPE_POISON)
        return -1;
    if (param < 0 || signature->params.items[param].type->kind != TYPE_TENSOR) {
        diag_error(context->diag, arg->name_span, "'%s' is no tensor of the kernel%s", arg->name, suggestion(checker, arg->name, &names));
        return -1;
    }
    for (int i = 0; i < signature->halo.count; i++) {
        if (signature->halo.items[i].param != param)
            continue;
        diag_error(context->diag, arg->name_span, "'%s' stands twice under @halo", arg->name);
        diag_note(context->diag, signature->halo.items[i].span, "the other one");
        return -1;
    }
    return param;
}

static void add_halo(Checker *checker, const AttrArg *arg) {
    int param = resolve_halo_tensor(checker, arg);
    if (param < 0)
        return;
    int rank = checker->signature->params.items[param].type->rank;
    if (arg->is_list && arg->items.count != rank) {
        diag_error(checker->context->diag, arg->span, "'%s' has %d axes, and its halo %d widths", arg->name, rank, arg->items.count);
        return;
    }
    Halo halo = {.param = param, .span = arg->span};
    for (int k = 0; k < rank; k++) {
        halo.width[k] = arg->is_list || k == 0 ? resolve_width(checker, arg->is_list ? arg->items.items[k] : arg->value) : halo.width[0];
        if (!halo.width[k])
            return;
    }
    vec_push(checker->context->arena, &checker->signature->halo, halo);
}

static void add_halos(Checker *checker, const Attr *attr) {
    if (!has_arguments(checker, attr))
        return;
    for (int i = 0; i < attr->args.count; i++) {
        const AttrArg *arg = &attr->args.items[i];
        if (arg->name && !arg->is_in)
            add_halo(checker, arg);
        else
            diag_error(checker->context->diag, arg->span, "an argument of @halo is a tensor and its width, such as 'A = 1' or 'A = [0, 1]'");
    }
}

/* ---- in order ---- */

static void error_unknown_attribute(Checker *checker, const Attr *attr) {
    Names names = {0};
    for (int i = 0; i < ATTRIBUTE_COUNT; i++)
        vec_push(checker->context->arena, &names, arena_printf(checker->context->arena, "@%s", attributes[i].name));
    const char *name = arena_printf(checker->context->arena, "@%s", attr->name);
    diag_error(checker->context->diag, attr->span, "unknown attribute '%s'%s", name, suggestion(checker, name, &names));
}

/* The attribute before `index` with the same name; NULL: none. */
static const Attr *previous_attribute(const Decl *decl, int index) {
    for (int i = 0; i < index; i++)
        if (decl->attrs.items[i].name == decl->attrs.items[index].name)
            return &decl->attrs.items[i];
    return NULL;
}

static void check_stage(Checker *checker, int stage) {
    for (int i = 0; i < checker->decl->attrs.count; i++) {
        const Attr *attr = &checker->decl->attrs.items[i];
        int row = attribute_find(attr->name);
        if (row < 0 || attributes[row].stage != stage)
            continue;
        const Attr *previous = attributes[row].repeats ? NULL : previous_attribute(checker->decl, i);
        if (previous) {
            diag_error(checker->context->diag, attr->span, "@%s stands twice", attr->name);
            diag_note(checker->context->diag, previous->span, "the other one");
        } else {
            attributes[row].handle(checker, attr);
        }
    }
}

void check_search_attributes(Checker *checker) {
    for (int i = 0; i < checker->decl->attrs.count; i++)
        if (!attribute_is_known(checker->decl->attrs.items[i].name))
            error_unknown_attribute(checker, &checker->decl->attrs.items[i]);
    check_stage(checker, AUTOTUNE);
    check_stage(checker, CLUSTER);
}

void check_attributes(Checker *checker) {
    check_stage(checker, OTHER);
}
