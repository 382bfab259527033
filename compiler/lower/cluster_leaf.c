/* A stage's kernel: the part's ops as they are, but for positions, which count from the super-tile's start; before them what the part needs of earlier
 * ones, after them what later ones need. */
#include "compiler/lower/stage.h"

static const Type *i64_type(const Leaf *leaf) {
    return type_scalar(leaf->split->context->types, PHB_I64);
}

IrValue *leaf_number(Leaf *leaf, Span span, int64_t value) {
    return ir_const_bits(leaf->split->context, leaf->block, span, i64_type(leaf), (uint64_t)value);
}

IrValue *leaf_binary(Leaf *leaf, OpKind kind, Span span, IrValue *a, IrValue *b) {
    return ir_value(leaf->split->context, leaf->block, kind, span, a->type, a, b);
}

static IrValue *position(Leaf *leaf, OpKind kind, Span span, IrValue *tensor, int axis) {
    IrValue *value = ir_value(leaf->split->context, leaf->block, kind, span, i64_type(leaf), tensor, NULL);
    value->def->axis = axis;
    return value;
}

static IrValue *dim_value(Leaf *leaf, Span span, const Dim *dim) {
    IrValue *value = ir_value(leaf->split->context, leaf->block, OP_DIM, span, i64_type(leaf), NULL, NULL);
    value->def->dim = dim;
    return value;
}

static const Dim *twice(Split *split, const Dim *width) {
    return dim_op(split->context->dims, PHB_EXPR_MUL, width, dim_int(split->context->dims, 2));
}

/* ---- the signature ---- */

/* CTAs of the grid, over dims of the whole problem: the extent of states. */
static const Dim *grid_size(Split *split) {
    const Dim *size = dim_int(split->context->dims, 1);
    for (int axis = 0; axis < FIRST_LOOP; axis++) {
        const GridAxis *grid = &split->kernel->signature.grid[axis];
        const Dim *next = grid->counts.count ? dim_op(split->context->dims, PHB_EXPR_MUL, size, form_declared(split, grid->counts.items[0])) : size;
        size = next ? next : size;
    }
    return size;
}

static const char *free_name(Split *split, const Signature *signature, int state) {
    const char *name = intern_cstr(split->context->interner, arena_printf(split->context->arena, "state_%d", state));
    while (signature_param(signature, name) >= 0)
        name = intern_cstr(split->context->interner, arena_printf(split->context->arena, "%s_", name));
    return name;
}

static void add_states(Split *split, Signature *signature) {
    Context *context = split->context;
    const Dim *ctas = grid_size(split);
    for (int i = 0; i < split->result->states.count; i++) {
        const Type *type = split->result->states.items[i].type;
        const Dim *dims[3] = {ctas, dim_int(context->dims, 1), dim_int(context->dims, 1)};
        for (int k = 0; k < type->rank && type->kind != TYPE_TENSOR; k++)
            dims[3 - type->rank + k] = type->dims[k];
        const Type *tensor = type->kind == TYPE_TENSOR ? type : type_shaped(context->types, TYPE_TENSOR, type->scalar, 3, dims);
        Param param = {free_name(split, signature, i), signature->span, tensor};
        vec_push(context->arena, &signature->params, param);
    }
}

/* The tensor with its halo. */
static const Type *region_type(Split *split, int param) {
    const Type *type = split->kernel->signature.params.items[param].type;
    const Dim *dims[PHB_MAX_RANK] = {NULL};
    for (int k = 0; k < type->rank; k++) {
        const Dim *halo = split_halo(split, param * PHB_MAX_RANK + k);
        const Dim *padded = halo ? dim_op(split->context->dims, PHB_EXPR_ADD, type->dims[k], twice(split, halo)) : NULL;
        dims[k] = padded ? padded : type->dims[k];
    }
    return type->kind == TYPE_TENSOR ? type_shaped(split->context->types, type->kind, type->scalar, type->rank, dims) : type;
}

static void start_kernel(Leaf *leaf) {
    Context *context = leaf->split->context;
    const Signature *source = &leaf->split->kernel->signature;
    IrKernel *kernel = NEW(context->arena, IrKernel);
    kernel->signature = *source;
    kernel->signature.params.items = NULL;
    kernel->signature.params.count = kernel->signature.params.capacity = 0;
    for (int i = 0; i < source->params.count; i++) {
        Param param = source->params.items[i];
        param.type = region_type(leaf->split, i);
        vec_push(context->arena, &kernel->signature.params, param);
    }
    add_states(leaf->split, &kernel->signature);
    kernel->body = ir_block_new(context, NULL);
    for (int i = 0; i < kernel->signature.params.count; i++) {
        const Param *param = &kernel->signature.params.items[i];
        IrValue *value = ir_block_arg(context, kernel->body, param->type, param->name);
        if (i < source->params.count)
            leaf->copies[leaf->split->kernel->body->args.items[i]->id] = value;
    }
    leaf->kernel = kernel;
    leaf->block = kernel->body;
}

/* ---- ops ---- */

static IrValue *bring(Leaf *leaf, const IrValue *value);

/* The tensor axis is walked by a cluster loop, and this is none of its stages: all of it counts, from 0. */
static bool is_out_of_stage(const Leaf *leaf, const IrValue *tensor, int axis) {
    int follows = leaf->split->follows[tensor->index * PHB_MAX_RANK + axis];
    return follows >= FIRST_LOOP && follows != leaf->axis;
}

/* The region at hand is the owned one with its halo. */
static IrValue *copy_position(Leaf *leaf, const IrOp *op) {
    const IrValue *source = op->operands.items[0];
    const Dim *halo = split_halo(leaf->split, source->index * PHB_MAX_RANK + op->axis);
    bool is_whole = op->kind == OP_WHOLE || is_out_of_stage(leaf, source, op->axis);
    if (op->kind == OP_ORIGIN && is_whole)
        return leaf_number(leaf, op->span, 0);
    IrValue *value = position(leaf, is_whole ? OP_WHOLE : op->kind, op->span, bring(leaf, source), op->axis);
    if (!halo || is_whole)
        return value;
    bool is_origin = op->kind == OP_ORIGIN;
    return leaf_binary(leaf, is_origin ? OP_ADD : OP_SUB, op->span, value, dim_value(leaf, op->span, is_origin ? halo : twice(leaf->split, halo)));
}

/* The owned extent, over the extents of regions at hand. */
static const Dim *owned_extent(Split *split, int at) {
    const Dim *extent = axis_extent(split, at), *halo = split_halo(split, at);
    return halo ? dim_op(split->context->dims, PHB_EXPR_SUB, extent, twice(split, halo)) : extent;
}

typedef struct Edge {
    const char *name; /* of the dim */
    const Dim *extent;
} Edge;

static const Dim *edge_lookup(void *closure, const char *name) {
    const Edge *edge = closure;
    return name == edge->name ? edge->extent : NULL;
}

/* `value` with the super-tile's extent for the dim's name, which may stand for more axes than one. */
static IrValue *with_extent(Leaf *leaf, const IrValue *value, Edge *edge) {
    Split *split = leaf->split;
    const IrOp *op = value->def;
    const Dim *form = split->forms[value->id];
    if (!op || !form || !dim_mentions(form, edge->name))
        return bring(leaf, value);
    if (op->kind == OP_DIM)
        return dim_value(leaf, op->span, dim_substitute(split->context->dims, op->dim, edge_lookup, edge));
    IrValue **operands = NEW_ARRAY(split->context->arena, IrValue *, op->operands.count);
    for (int i = 0; i < op->operands.count; i++)
        operands[i] = with_extent(leaf, op->operands.items[i], edge);
    return ir_append(split->context, leaf->block, op->kind, op->span, operands, op->operands.count, &value->type, 1)->results.items[0];
}

static void copy_block(Leaf *leaf, const IrBlock *source, IrBlock *block);

static IrOp *append_copy(Leaf *leaf, const IrOp *source, IrValue *const *operands) {
    Context *context = leaf->split->context;
    const Type **types = NEW_ARRAY(context->arena, const Type *, source->results.count + 1);
    for (int i = 0; i < source->results.count; i++)
        types[i] = source->results.items[i]->type;
    IrOp *op = ir_append(context, leaf->block, source->kind, source->span, operands, source->operands.count, types, source->results.count);
    ir_copy_attributes(op, source);
    for (int i = 0; i < source->regions.count; i++)
        copy_block(leaf, source->regions.items[i], ir_region_new(context, op));
    for (int i = 0; i < source->results.count; i++)
        leaf->copies[source->results.items[i]->id] = op->results.items[i];
    return op;
}

static void copy_op(Leaf *leaf, const IrOp *source) {
    Split *split = leaf->split;
    if (source->kind == OP_EXTENT || source->kind == OP_ORIGIN || source->kind == OP_WHOLE) {
        leaf->copies[source->results.items[0]->id] = copy_position(leaf, source);
        return;
    }
    int home = source->kind == OP_SHARED && !source->parent->owner ? leaf->staging->home[source->results.items[0]->id] : -1;
    if (home >= 0) {
        bring(leaf, source->results.items[0]);
        return;
    }
    int compared = edge_compared(split, source);
    const Dim *declared = compared < 0 ? NULL : split->kernel->signature.params.items[compared / PHB_MAX_RANK].type->dims[compared % PHB_MAX_RANK];
    Edge edge = {NULL, NULL};
    if (declared && declared->kind == PHB_EXPR_DIM)
        edge = (Edge){declared->name, owned_extent(split, compared)};
    IrValue **operands = NEW_ARRAY(split->context->arena, IrValue *, source->operands.count + 1);
    for (int i = 0; i < source->operands.count; i++)
        operands[i] = edge.name ? with_extent(leaf, source->operands.items[i], &edge) : bring(leaf, source->operands.items[i]);
    for (int k = 0; source->kind == OP_LOAD && ir_is_tensor_access(source) && k < source->operands.items[0]->type->rank; k++) {
        const Dim *halo = split_halo(split, source->operands.items[0]->index * PHB_MAX_RANK + k);
        if (halo)
            operands[1 + k] = leaf_binary(leaf, OP_ADD, source->span, operands[1 + k], dim_value(leaf, source->span, halo));
    }
    append_copy(leaf, source, operands);
}

static void copy_block(Leaf *leaf, const IrBlock *source, IrBlock *block) {
    IrBlock *outer = leaf->block;
    leaf->block = block;
    for (int i = 0; i < source->args.count; i++) {
        const IrValue *arg = source->args.items[i];
        leaf->copies[arg->id] = ir_block_arg(leaf->split->context, block, arg->type, NULL);
    }
    for (const IrOp *op = source->first; op; op = op->next)
        copy_op(leaf, op);
    leaf->block = outer;
}

/* ---- homes ---- */

IrValue *leaf_cta(Leaf *leaf, Span span) {
    if (leaf->cta)
        return leaf->cta;
    const Signature *signature = &leaf->kernel->signature;
    for (int axis = FIRST_LOOP - 1; axis >= 0; axis--) {
        if (signature->grid[axis].counts.count == 0)
            continue;
        IrValue *block = position(leaf, OP_BLOCK, span, NULL, axis);
        IrValue *before = leaf->cta ? leaf_binary(leaf, OP_MUL, span, leaf->cta, position(leaf, OP_GRID, span, NULL, axis)) : NULL;
        leaf->cta = before ? leaf_binary(leaf, OP_ADD, span, before, block) : block;
    }
    if (!leaf->cta)
        leaf->cta = leaf_number(leaf, span, 0);
    return leaf->cta;
}

IrValue *leaf_state(Leaf *leaf, int home) {
    int state = leaf->staging->homes.items[home].state;
    return leaf->kernel->body->args.items[leaf->split->kernel->signature.params.count + state];
}

/* The slice of a home: operands of the access but for the value, and its extents. */
typedef struct HomeSlice {
    IrValue *operands[2 + PHB_MAX_RANK];
    int count;
    const Dim *extent[PHB_MAX_RANK];
    const Type *type; /* of the value in memory */
} HomeSlice;

static HomeSlice home_slice(Leaf *leaf, int index, const Type *type, Span span) {
    Context *context = leaf->split->context;
    const Home *home = &leaf->staging->homes.items[index];
    HomeSlice slice = {.type = type};
    if (home->store) {
        for (int i = 0; i < home->store->operands.count - 1; i++)
            slice.operands[slice.count++] = bring(leaf, home->store->operands.items[i]);
        if (home->is_partial)
            slice.operands[0] = leaf_state(leaf, index);
        for (int k = 0; k < PHB_MAX_RANK; k++)
            slice.extent[k] = home->store->extent[k];
        return slice;
    }
    IrValue *zero = leaf_number(leaf, span, 0);
    slice.operands[0] = leaf_state(leaf, index);
    slice.operands[1] = leaf_cta(leaf, span);
    slice.operands[2] = slice.operands[3] = zero;
    if (has_state_a_thread(leaf->staging, type))
        slice.operands[3] = position(leaf, OP_THREAD, span, NULL, 0);
    slice.count = 4;
    for (int k = 0; k < type->rank; k++)
        slice.extent[3 - type->rank + k] = type->dims[k];
    if (type->rank == 1) {
        const Dim *dims[2] = {dim_int(context->dims, 1), type->dims[0]};
        slice.type = type_shaped(context->types, TYPE_TILE, type->scalar, 2, dims);
    }
    return slice;
}

static IrValue *reshaped(Leaf *leaf, IrValue *value, const Type *type, Span span) {
    return value->type == type ? value : ir_value(leaf->split->context, leaf->block, OP_RESHAPE, span, type, value, NULL);
}

static IrValue *load_home(Leaf *leaf, int home, const Type *type, Span span) {
    HomeSlice slice = home_slice(leaf, home, type, span);
    IrOp *load = ir_append(leaf->split->context, leaf->block, OP_LOAD, span, slice.operands, slice.count, &slice.type, 1);
    for (int k = 0; k < PHB_MAX_RANK; k++)
        load->extent[k] = slice.extent[k];
    return reshaped(leaf, load->results.items[0], type, span);
}

static void store_home(Leaf *leaf, int home, IrValue *value, Span span) {
    HomeSlice slice = home_slice(leaf, home, value->type, span);
    slice.operands[slice.count++] = reshaped(leaf, value, slice.type, span);
    IrOp *store = ir_append(leaf->split->context, leaf->block, OP_STORE, span, slice.operands, slice.count, NULL, 0);
    for (int k = 0; k < PHB_MAX_RANK; k++)
        store->extent[k] = slice.extent[k];
    const IrOp *own = leaf->staging->homes.items[home].store;
    store->once = own ? own->once : slice.type->kind == TYPE_SCALAR && !has_state_a_thread(leaf->staging, slice.type);
}

static bool is_home(const Leaf *leaf, const IrOp *store) {
    for (int i = 0; i < leaf->staging->homes.count; i++)
        if (leaf->staging->homes.items[i].store == store)
            return true;
    return false;
}

/* ---- what a part needs ---- */

/* The value in this stage: loaded from its home, or computed again. */
static IrValue *bring(Leaf *leaf, const IrValue *value) {
    if (leaf->copies[value->id])
        return leaf->copies[value->id];
    int home = leaf->staging->home[value->id];
    if (home >= 0 && value->def->kind == OP_SHARED)
        leaf->copies[value->id] = bring_array(leaf, value, home);
    else if (home >= 0)
        leaf->copies[value->id] = load_home(leaf, home, value->type, value->def->span);
    else
        copy_op(leaf, value->def);
    return leaf->copies[value->id];
}

/* Before the part stores anything. */
static void bring_operands(Leaf *leaf, const IrOp *op) {
    for (int i = 0; i < op->operands.count; i++) {
        const IrValue *value = op->operands.items[i];
        if (value->def && !value->def->parent->owner && leaf->staging->part_of[value->id] != leaf->part)
            bring(leaf, value);
    }
    for (int i = 0; i < op->regions.count; i++)
        for (const IrOp *inner = op->regions.items[i]->first; inner; inner = inner->next)
            bring_operands(leaf, inner);
}

/* ---- parts ---- */

/* Arrays that wait between parts are cleared before their own part begins: at their declaration the cluster may have arrived, and cannot meet. */
static void bring_declared(Leaf *leaf, const IrOp *op) {
    if (op->kind == OP_SHARED && leaf->staging->home[op->results.items[0]->id] >= 0)
        bring(leaf, op->results.items[0]);
}

static void run_straight(Leaf *leaf, const Part *part, const SavedList *saved) {
    for (const IrOp *op = part->first; op != part->end; op = op->next) {
        bring_operands(leaf, op);
        bring_declared(leaf, op);
    }
    for (int i = 0; i < saved->count; i++)
        if (saved->items[i].value->def && leaf->staging->part_of[saved->items[i].value->id] != leaf->part)
            bring(leaf, saved->items[i].value);
    enter_part(leaf);
    for (const IrOp *op = part->first; op != part->end; op = op->next)
        if (!is_home(leaf, op) && op->kind != OP_RETURN)
            copy_op(leaf, op);
    leave_part(leaf);
    for (int i = 0; i < saved->count; i++)
        if (saved->items[i].value->type->kind != TYPE_SHARED)
            store_home(leaf, saved->items[i].home, bring(leaf, saved->items[i].value), leaf->kernel->signature.span);
}

/* The extent of the chunk at hand: of a tensor along the loop, which need not be one that this stage touches. */
static IrValue *chunk_extent(Leaf *leaf, Span span) {
    return dim_value(leaf, span, owned_extent(leaf->split, next_on_axis(leaf->split, leaf->axis, 0)));
}

static void run_loop(Leaf *leaf, const Part *part) {
    const IrOp *loop = part->first;
    for (const IrOp *op = loop->regions.items[0]->first; op; op = op->next)
        bring_operands(leaf, op);
    IrValue **operands = NEW_ARRAY(leaf->split->context->arena, IrValue *, loop->operands.count);
    operands[0] = leaf_number(leaf, loop->span, 0);
    operands[1] = chunk_extent(leaf, loop->span);
    operands[2] = dim_value(leaf, loop->span, leaf->split->axes[leaf->axis].step);
    for (int i = 0; i < loop->results.count; i++)
        operands[3 + i] = load_home(leaf, part->homes[i], loop->results.items[i]->type, loop->span);
    enter_part(leaf);
    const IrOp *copy = append_copy(leaf, loop, operands);
    leave_part(leaf);
    for (int i = 0; i < loop->results.count; i++)
        store_home(leaf, part->homes[i], copy->results.items[i], loop->span);
}

static void start_leaf(Leaf *leaf, Staging *staging, int part) {
    const Part *at = &staging->parts.items[part];
    *leaf = (Leaf){.staging = staging, .split = staging->split, .part = part, .axis = at->is_loop ? loop_axis(staging->split, at->first) : -1};
    leaf->copies = NEW_ARRAY(staging->split->context->arena, IrValue *, staging->split->value_count + 1);
    start_kernel(leaf);
}

static IrKernel *end_leaf(Leaf *leaf) {
    ir_append(leaf->split->context, leaf->block, OP_RETURN, (Span){0}, NULL, 0, NULL, 0);
    return leaf->kernel;
}

IrKernel *leaf_make(Staging *staging, int part, const SavedList *saved) {
    Leaf leaf;
    start_leaf(&leaf, staging, part);
    if (staging->parts.items[part].is_loop)
        run_loop(&leaf, &staging->parts.items[part]);
    else
        run_straight(&leaf, &staging->parts.items[part], saved);
    return end_leaf(&leaf);
}

/* ---- helpers: around the loop, not in one of its chunks ---- */

IrKernel *leaf_make_clear(Staging *staging, int part) {
    const Part *at = &staging->parts.items[part];
    Leaf leaf;
    start_leaf(&leaf, staging, part);
    leaf.axis = -1;
    for (int i = 0; i < at->first->results.count; i++)
        store_home(&leaf, at->homes[i], bring(&leaf, at->first->operands.items[3 + i]), at->first->span);
    return end_leaf(&leaf);
}

IrKernel *leaf_make_merge(Staging *staging, int part) {
    const Part *at = &staging->parts.items[part];
    Leaf leaf;
    start_leaf(&leaf, staging, part);
    leaf.axis = -1;
    for (int i = 0; i < at->first->results.count; i++) {
        const Type *type = at->first->results.items[i]->type;
        Span span = at->first->span;
        IrValue *sum = load_home(&leaf, at->homes[i], type, span);
        IrValue *partial = load_home(&leaf, staging->homes.items[at->homes[i]].partial, type, span);
        store_home(&leaf, at->homes[i], leaf_binary(&leaf, OP_ADD, span, sum, partial), span);
    }
    return end_leaf(&leaf);
}
